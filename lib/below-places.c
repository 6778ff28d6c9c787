/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ways of looking below a folder share: places still to be looked at, and what was found.
 */
#include <stdlib.h>
#include <string.h>

#include "below-private.h"

/* NULL: out of memory, which is remembered. */
const char *fsdp_below_join(
	struct fsdp_below *below, const char *folder, struct fsdp_span name)
{
	size_t size = strlen(folder), slash = size > 0 && folder[size - 1] != '/';
	char *path = fsdp_arena_take(&below->arena, size + slash + name.size + 1, 1);

	if (path == NULL) {
		below->failed = true;
		return NULL;
	}
	memcpy(path, folder, size);
	if (slash != 0)
		path[size] = '/';
	memcpy(path + size + slash, name.data, name.size);
	path[size + slash + name.size] = '\0';
	return path;
}

/* What could not be looked at is counted, unless memory is all that was missing. */
void fsdp_below_pass_over(struct fsdp_below *below, struct fsdp_error *error)
{
	below->failed |= error == NULL || fsdp_error_code(error) == FSDP_ERROR_MEMORY;
	below->unread++;
	fsdp_error_free(error);
}

/* A name with "rank" in it may be one of a set, and another may stand for its folder. */
static bool is_lone(struct fsdp_span name)
{
	return memmem(name.data, name.size, "rank", 4) == NULL &&
	       !fsdp_registry_may_stand(name);
}

void fsdp_below_add(struct fsdp_below *below, const char *path, bool is_file)
{
	struct fsdp_below_found *found =
		path != NULL ? fsdp_vec_push(&below->found) : NULL;

	below->failed |= found == NULL;
	if (found == NULL)
		return;
	found->path = path;
	found->is_lone = is_file && is_lone(fsdp_span_last(fsdp_span_text(path), '/'));
	found->plan = below->plan;
	fsdp_step_name(fsdp_span_last(fsdp_span_text(path), '/'), &found->step);
}

void fsdp_below_add_place(
	struct fsdp_below *below, const char *path, unsigned level, bool is_named)
{
	struct fsdp_vec *places =
		level <= FSDP_BELOW_LEVELS ? &below->places : &below->deep;
	struct fsdp_below_place *place = path != NULL ? fsdp_vec_push(places) : NULL;

	below->failed |= place == NULL;
	if (place != NULL)
		*place = (struct fsdp_below_place){ path, level, is_named };
}

bool fsdp_below_is_checkpoint(const struct fsdp_folder *folder)
{
	struct fsdp_look look = { .folder = folder };
	const struct fsdp_family *family = fsdp_registry_choose(&look);

	return (family != NULL && !family->is_refused) ||
	       fsdp_registry_lead(folder) != NULL;
}

/* A file that holds tensors, not a plan, a bare pickle or something to refuse. */
bool fsdp_below_is_file(struct fsdp_below *below, const struct fsdp_folder *folder,
	const struct fsdp_entry *entry)
{
	unsigned char head[FSDP_HEAD_BYTES];
	const struct fsdp_family *family;
	struct fsdp_source source;
	struct fsdp_error *error = NULL;
	struct fsdp_look look;

	if (entry->size == 0 || fsdp_plan_has_name(entry->name))
		return false;
	if (!fsdp_folder_source(folder, entry->name, &source, &error) ||
		!fsdp_look_at_head(&source, entry->name, head, &look, &error)) {
		fsdp_below_pass_over(below, error);
		return false;
	}
	family = fsdp_registry_choose(&look);
	return family != NULL && !family->is_refused && !family->is_beside &&
	       strcmp(family->name, "pickle") != 0;
}

bool fsdp_below_is_refused(
	const struct fsdp_folder *folder, const struct fsdp_entry *entry)
{
	unsigned char head[FSDP_HEAD_BYTES];
	struct fsdp_source source;
	struct fsdp_error *error = NULL;
	struct fsdp_look look;
	bool is_refused = !fsdp_folder_source(folder, entry->name, &source, &error) ||
			  !fsdp_look_at_head(&source, entry->name, head, &look, &error);

	if (!is_refused && fsdp_registry_choose(&look) == NULL) {
		fsdp_foreign(&look, &error);
		is_refused = fsdp_error_rule(error) != NULL &&
			     strcmp(fsdp_error_rule(error), "FI9002") == 0;
	}
	fsdp_error_free(error);
	return is_refused;
}
