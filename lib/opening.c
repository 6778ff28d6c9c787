/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the steps of opening share: their outcome, paths, and sets of rank files.
 */
#include "base/num.h"
#include "opening.h"

enum fsdp_outcome fsdp_opening_outcome(const struct opening *opening, bool good)
{
	return good                                       ? FSDP_OPENED
	       : opening->checkpoint->model.wants_records ? FSDP_NEEDS_RECORDS
							  : FSDP_FAILED;
}

const char *fsdp_opening_join(
	struct opening *opening, const char *root, struct fsdp_span name)
{
	size_t size = strlen(root);
	while (size > 1 && root[size - 1] == '/')
		size--;
	char *path =
		fsdp_arena_take(&opening->checkpoint->arena, size + 1 + name.size + 1, 1);
	if (path == NULL)
		return NULL;
	memcpy(path, root, size);
	if (size != 0 && path[size - 1] != '/')
		path[size++] = '/';
	memcpy(path + size, name.data, name.size);
	path[size + name.size] = '\0';
	return path;
}

void fsdp_opening_tell(const struct opening *opening, const char *path)
{
	if (opening->options->belongs != NULL)
		opening->options->belongs(opening->options->belongs_context, path);
}

bool fsdp_opening_has_set(struct opening *opening, bool told)
{
	struct fsdp_folder folder;
	bool sure = false;
	if (opening->as_set || opening->path_count != 1 || opening->options->alone ||
		opening->options->slice || !opening->has_beside ||
		opening->wrapped != 0 || opening->look.folder != NULL)
		return false;
	fsdp_folder_of_dir(&folder, &opening->beside);
	uint32_t *positions = FSDP_TAKE(&opening->scratch, positions, folder.count + 1);
	return positions != NULL &&
	       fsdp_rank_siblings(&folder,
		       fsdp_span_last(fsdp_span_text(opening->path), '/'), positions,
		       &sure) > 1 &&
	       (sure || told);
}

bool fsdp_look_at_head(const struct fsdp_source *source, struct fsdp_span path,
	unsigned char *head, struct fsdp_look *ret_look, struct fsdp_error **ret_error)
{
	size_t size = (size_t)fsdp_min(source->size, FSDP_HEAD_BYTES);
	if (!fsdp_source_read(source, 0, head, size, ret_error))
		return false;
	*ret_look = (struct fsdp_look){
		.path = path,
		.source = *source,
		.head = fsdp_span(head, size),
	};
	return true;
}
