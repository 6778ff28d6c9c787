/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows which files of something broken are still worth a look; knows no format.
 */
#include "look-through.h"

#include "base/num.h"
#include "format/format.h"
#include "store/archive.h"

enum { HEAD_BYTES = 4096, FILES_MOST = 64 };

struct looking {
	struct fsdp_checkpoint *checkpoint;
	struct fsdp_arena *scratch;
	size_t looks;
};

/* Whether pickles in it are judged where it is read by itself. */
static bool has_pickles(const struct fsdp_family *family)
{
	return family == &fsdp_family_pickle || family == &fsdp_family_torch_zip ||
	       family == &fsdp_family_torch_legacy;
}

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

static void look_at(
	struct looking *looking, struct fsdp_span name, const struct fsdp_source *source)
{
	struct fsdp_checkpoint *checkpoint = looking->checkpoint;
	unsigned char head[HEAD_BYTES];
	size_t size = (size_t)fsdp_min(source->size, sizeof head);
	struct fsdp_error *error = NULL;
	if (!fsdp_source_read(source, 0, head, size, NULL))
		return;
	struct fsdp_look look = {
		.path = name, .source = *source, .head = fsdp_span(head, size)
	};
	const struct fsdp_family *family = fsdp_registry_choose(&look);
	if (family == NULL || !has_pickles(family))
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
	(void)family->read(&reading, &look, &error);
	fsdp_error_free(error);
}

/* Data files of DCP are no files of torch.save, though their items are. */
static bool is_wanted(const struct looking *looking, struct fsdp_span name)
{
	return looking->looks < FILES_MOST &&
	       !fsdp_span_ends(name, FSDP_SPAN(".distcp")) &&
	       !was_read(&looking->checkpoint->model, name);
}

void fsdp_look_through(struct fsdp_checkpoint *checkpoint, struct fsdp_arena *scratch)
{
	struct looking looking = { .checkpoint = checkpoint, .scratch = scratch };
	const struct fsdp_folder *folder = &checkpoint->folder;
	bool wants_records = checkpoint->model.wants_records;
	size_t packed = checkpoint->packed.count;
	size_t count = packed != 0 ? packed : checkpoint->is_folder ? folder->count : 0;
	for (size_t i = 0; i < count && looking.looks < FILES_MOST; i++) {
		struct fsdp_source source;
		struct fsdp_span name;
		if (packed != 0) {
			const struct fsdp_packed *member =
				fsdp_vec_at(&checkpoint->packed, i);
			name = member->name;
			source = member->source;
		} else {
			struct fsdp_entry entry = fsdp_folder_entry(folder, i);
			name = entry.name;
			if (entry.kind != FSDP_ENTRY_FILE ||
				!fsdp_folder_source(folder, name, &source, NULL))
				continue;
		}
		if (name.data != NULL && is_wanted(&looking, name))
			look_at(&looking, name, &source);
	}
	checkpoint->model.wants_records = wants_records; /* nobody is to open it again */
}
