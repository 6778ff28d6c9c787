/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks through the files of something that did not open, for pickles that would harm.
 */
#include "look-through.h"

#include "opening.h"

enum { FILES_MOST = 64 };

struct looking {
	struct fsdp_checkpoint *checkpoint;
	struct fsdp_arena *scratch;
	size_t looks;
};

/* A member's name may have folders in front that were entered since. */
static bool was_read(const struct fsdp_model *model, struct fsdp_span name)
{
	for (size_t i = 0; i < model->files.count; i++) {
		const struct fsdp_file_record *file = fsdp_vec_at(&model->files, i);
		if (fsdp_span_ends(name, file->path))
			return true;
	}
	return false;
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
	if (!family->read(&reading, &look, &error))
		pass_over(looking, name, error);
}

static bool is_wanted(const struct looking *looking, struct fsdp_span name)
{
	return !fsdp_registry_is_data(name) &&
	       !was_read(&looking->checkpoint->model, name);
}

void fsdp_look_through(struct fsdp_checkpoint *checkpoint, struct fsdp_arena *scratch)
{
	struct looking looking = { .checkpoint = checkpoint, .scratch = scratch };
	const struct fsdp_folder *folder = &checkpoint->folder;
	bool wants_records = checkpoint->model.wants_records;
	size_t packed = checkpoint->packed.count;
	size_t count = packed != 0 ? packed : checkpoint->is_folder ? folder->count : 0;
	struct fsdp_span name = { 0 };
	size_t i = 0;
	for (; i < count && looking.looks < FILES_MOST; i++) {
		struct fsdp_source source;
		if (packed != 0) {
			const struct fsdp_packed *member =
				fsdp_vec_at(&checkpoint->packed, i);
			name = member->name;
			source = member->source;
		} else {
			struct fsdp_entry entry = fsdp_folder_entry(folder, i);
			name = entry.name;
			struct fsdp_error *error = NULL;
			if (entry.kind != FSDP_ENTRY_FILE)
				continue;
			if (!fsdp_folder_source(folder, name, &source, &error)) {
				pass_over(&looking, name, error);
				continue;
			}
		}
		if (name.data != NULL && is_wanted(&looking, name))
			look_at(&looking, name, &source);
	}
	if (i < count)
		fsdp_find(&checkpoint->model.findings, FSDP_RULE_NOT_EVALUATED,
			FSDP_PLACE(.file = name),
			"this is the last of %u files whose pickles were judged; those of the files behind it were not",
			(unsigned)FILES_MOST);
	/* It is not to be opened again. */
	checkpoint->model.wants_records = wants_records;
}
