/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks through the files of something that did not open, for pickles that would harm.
 */
#include "look-through.h"

#include "base/table.h"
#include "opening.h"

enum { FILES_MOST = 64 };

struct looking {
	struct fsdp_checkpoint *checkpoint;
	struct fsdp_arena *scratch;
	size_t looks;
	/* Files of the model by their paths, which are names of it here: from the last
	 * component to the first. */
	struct fsdp_table files;
	uint32_t known; /* so many files are in the table */
};

/* Takes the last component off a path. *ret_more: others are in front of it. */
static struct fsdp_span cut_component(struct fsdp_span *path, bool *ret_more)
{
	struct fsdp_span last = fsdp_span_last(*path, '/');
	*ret_more = last.size < path->size;
	path->size -= last.size + *ret_more;
	return last;
}

/* Adds the paths of files that were read since it was last called. */
static bool add_paths(struct looking *looking, struct fsdp_error **ret_error)
{
	struct fsdp_checkpoint *checkpoint = looking->checkpoint;
	struct fsdp_model *model = &checkpoint->model;
	for (; looking->known < model->files.count; looking->known++) {
		struct fsdp_span rest = fsdp_model_file(model, looking->known)->path;
		uint64_t steps = 0;
		uint32_t id = 0;
		for (bool more = true; more && id != FSDP_NONE; steps++)
			id = fsdp_names_child(
				&model->names, id, cut_component(&rest, &more));
		if (id == FSDP_NONE ||
			!fsdp_table_set(&looking->files, id, looking->known))
			return fsdp_arena_fail(looking->scratch, ret_error);
		if (!fsdp_budget_work(&checkpoint->budget, steps, ret_error))
			return false;
	}
	return true;
}

/* Whether a file of this name was read. A member's name may have folders in front that
 * were entered since. */
static bool was_read(struct looking *looking, struct fsdp_span name, bool *ret_read,
	struct fsdp_error **ret_error)
{
	const struct fsdp_names *names = &looking->checkpoint->model.names;
	uint64_t steps = 0;
	uint32_t id = 0;
	*ret_read = false;
	if (!add_paths(looking, ret_error))
		return false;
	for (bool more = true; more && id != FSDP_NONE && !*ret_read; steps++) {
		id = fsdp_names_find_child(names, id, cut_component(&name, &more));
		*ret_read = fsdp_table_get(&looking->files, id) != FSDP_NONE;
	}
	return fsdp_budget_work(&looking->checkpoint->budget, steps, ret_error);
}

/* A file that cannot be read is no reason to stop, and no reason to call it good. Takes
 * the error over. */
static void pass_over(
	struct looking *looking, struct fsdp_span name, struct fsdp_error *error)
{
	if (error != NULL)
		fsdp_find(&looking->checkpoint->model.findings, FSDP_RULE_NOT_EVALUATED,
			FSDP_PLACE(.file = name), "its pickles were not judged: %s",
			fsdp_error_message(error));
	fsdp_error_free(error);
}

static void look_at(
	struct looking *looking, struct fsdp_span name, const struct fsdp_source *source)
{
	struct fsdp_checkpoint *checkpoint = looking->checkpoint;
	unsigned char head[FSDP_HEAD_BYTES];
	struct fsdp_look look;
	struct fsdp_error *error = NULL;
	if (!fsdp_look_at_head(source, name, head, &look, &error)) {
		pass_over(looking, name, error);
		return;
	}
	const struct fsdp_family *family = fsdp_registry_choose(&look);
	if (family == NULL || !family->has_pickles)
		return;
	struct fsdp_reading reading = {
		.model = &checkpoint->model,
		.scratch = looking->scratch,
		.is_one_of_many = true,
		.limits = &checkpoint->limits,
		.rank = FSDP_NONE,
		.errors = &checkpoint->errors,
		.notes = &checkpoint->notes,
	};
	fsdp_vec_init(&reading.children, looking->scratch, sizeof(struct fsdp_child));
	looking->looks++;
	/* Of its bytes nothing stays, so no name may borrow from them. */
	struct fsdp_names *names = &checkpoint->model.names;
	struct fsdp_arena *copies = names->copies;
	names->copies = checkpoint->model.arena;
	if (!family->read(&reading, &look, &error))
		pass_over(looking, name, error);
	names->copies = copies;
	fsdp_names_let_go(names);
}

/* The member of the archive, or the entry of the folder, at an index. False: the look
 * ends here. */
static bool look_at_entry(
	struct looking *looking, size_t index, struct fsdp_span *ret_name)
{
	struct fsdp_checkpoint *checkpoint = looking->checkpoint;
	struct fsdp_source source;
	struct fsdp_error *error = NULL;
	bool read;
	if (checkpoint->packed.count != 0) {
		const struct fsdp_packed *member =
			fsdp_vec_at(&checkpoint->packed, index);
		*ret_name = member->name;
		source = member->source;
	} else {
		struct fsdp_entry entry = fsdp_folder_entry(&checkpoint->folder, index);
		*ret_name = entry.name;
		if (entry.kind != FSDP_ENTRY_FILE)
			return true;
		if (!fsdp_folder_source(
			    &checkpoint->folder, entry.name, &source, &error)) {
			pass_over(looking, entry.name, error);
			return true;
		}
	}
	if (ret_name->data == NULL || fsdp_registry_is_data(*ret_name))
		return true;
	if (!was_read(looking, *ret_name, &read, &error)) {
		fsdp_find(&checkpoint->model.findings, FSDP_RULE_NOT_EVALUATED,
			FSDP_PLACE(.file = *ret_name),
			"its pickles and those of the files behind it were not judged: %s",
			fsdp_error_message(error));
		fsdp_error_free(error);
		return false;
	}
	if (!read)
		look_at(looking, *ret_name, &source);
	return true;
}

void fsdp_look_through(struct fsdp_checkpoint *checkpoint, struct fsdp_arena *scratch)
{
	struct looking looking = { .checkpoint = checkpoint, .scratch = scratch };
	bool wants_records = checkpoint->model.wants_records;
	size_t packed = checkpoint->packed.count;
	size_t files = checkpoint->is_folder ? checkpoint->folder.count : 0;
	size_t count = packed != 0 ? packed : files, i = 0;
	struct fsdp_span name = { 0 };
	fsdp_table_init(&looking.files, scratch);
	while (i < count && looking.looks < FILES_MOST &&
		look_at_entry(&looking, i, &name))
		i++;
	if (i < count && looking.looks == FILES_MOST)
		fsdp_find(&checkpoint->model.findings, FSDP_RULE_NOT_EVALUATED,
			FSDP_PLACE(.file = name),
			"this is the last of %u files whose pickles were judged; those of the files behind it were not",
			(unsigned)FILES_MOST);
	/* It is not to be opened again. */
	checkpoint->model.wants_records = wants_records;
}
