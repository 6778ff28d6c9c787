/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are loaded with a checkpoint and hold no tensor of it: states of schedulers
 * and random generators, arguments. Those of torch.save are zips, which record checksums.
 */
#include <stdlib.h>

#include "base/num.h"
#include "verify/verify-private.h"

static int by_bytes(const void *a, const void *b)
{
	const struct fsdp_span *first = a, *second = b;
	return fsdp_span_compare(*first, *second);
}

const struct fsdp_span *fsdp_verify_list_known(struct fsdp_verify *verify)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	size_t count = model->files.count;
	struct fsdp_span *known = FSDP_TAKE(&verify->arena, known, count + 1);
	for (uint32_t i = 0; known != NULL && i < count; i++)
		known[i] = fsdp_model_file(model, i)->path;
	if (known != NULL)
		qsort(known, count, sizeof *known, by_bytes);
	return known;
}

bool fsdp_verify_knows(const struct fsdp_verify *verify, const struct fsdp_span *known,
	struct fsdp_span name)
{
	return bsearch(&name, known, verify->checkpoint->model.files.count, sizeof *known,
		       by_bytes) != NULL;
}

static bool look_at(struct fsdp_verify *verify, const struct fsdp_entry *entry,
	struct fsdp_error **ret_error)
{
	struct fsdp_verify_file file = { .id = FSDP_NONE, .path = entry->name };
	struct fsdp_error *error = NULL;
	bool zip = false;
	fsdp_checkpoint_keep_open(verify->checkpoint);
	if (!fsdp_folder_source(fsdp_checkpoint_place(verify->checkpoint), entry->name,
		    &file.source, &error) ||
		!fsdp_verify_is_zip(&file.source, &zip, &error))
		return fsdp_verify_excuse(verify, &file, &error, ret_error);
	if (!zip)
		return true;
	if (file.source.fd >= 0)
		(void)fstat(file.source.fd, &file.before);
	file.kind = FSDP_BYTES_ZIP;
	verify->scope.files++;
	verify->scope.bytes += file.source.size;
	fsdp_vec_init(&file.segments, &verify->batch, sizeof(struct fsdp_segment));
	return fsdp_verify_zip(verify, &file, ret_error) &&
	       fsdp_verify_take(verify, &file, ret_error);
}

bool fsdp_verify_beside(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	const struct fsdp_folder *folder = fsdp_checkpoint_place(verify->checkpoint);
	if (folder == NULL || folder->picked != NULL)
		return true;
	const struct fsdp_span *known = fsdp_verify_list_known(verify);
	if (known == NULL)
		return fsdp_arena_fail(&verify->arena, ret_error);
	for (size_t i = 0; i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		if (entry.kind != FSDP_ENTRY_FILE ||
			!fsdp_checkpoint_loads_beside(entry.name) ||
			fsdp_verify_knows(verify, known, entry.name) ||
			fsdp_verify_has_digest(verify, entry.name))
			continue;
		if (fsdp_verify_takes(verify, entry.size) &&
			!look_at(verify, &entry, ret_error))
			return false;
		if (!fsdp_verify_mark(verify, verify->place, ret_error))
			return false;
	}
	return true;
}
