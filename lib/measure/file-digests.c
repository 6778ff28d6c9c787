/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The digest of each file, as it is stored.
 */
#include <stdlib.h>
#include <sys/stat.h>

#include "base/num.h"
#include "base/share.h"
#include "base/vec.h"
#include "checkpoint-private.h"
#include "measure/digesting.h"
#include "sweep/pass.h"

enum { HAND = 32 /* a source is valid until 64 others were asked for */ };

/* A file that is to be read. */
struct found_file {
	struct fsdp_span path;
	uint64_t size;
	size_t position;
	uint32_t file; /* of the checkpoint, or FSDP_NONE: beside it */
};

/* ---- which ---- */

/* Lists of digests, and what this program writes under another name yet. */
static bool is_left_out(struct fsdp_span path)
{
	static const char own[] = ".fsdp-inspect-";
	if (fsdp_span_is(path, "SHA256SUMS") || fsdp_span_is(path, "integrity.json"))
		return true;
	return fsdp_span_ends(path, FSDP_SPAN(".tmp")) &&
	       memmem(path.data, path.size, own, sizeof own - 1) != NULL;
}

static bool add_own(struct fsdp_digests *digests, struct fsdp_vec *found)
{
	const struct fsdp_model *model = &digests->checkpoint->model;
	for (uint32_t i = 0; i < model->files.count; i++) {
		const struct fsdp_file_record *file = fsdp_model_file(model, i);
		struct found_file one = { file->path, file->size, 0, i };
		if (!is_left_out(file->path) && !fsdp_vec_add(found, &one))
			return false;
	}
	return true;
}

static bool add_beside(struct fsdp_digests *digests, struct fsdp_vec *found)
{
	const struct fsdp_folder *folder = fsdp_checkpoint_place(digests->checkpoint);
	for (size_t i = 0; folder != NULL && i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		struct found_file one = { entry.name, entry.size, 0, FSDP_NONE };
		if (entry.kind == FSDP_ENTRY_FILE && !is_left_out(entry.name) &&
			!fsdp_vec_add(found, &one))
			return false;
	}
	return true;
}

/* Where a list speaks of files in folders below, or of lists themselves. */
static bool add_listed(struct fsdp_digests *digests, struct fsdp_vec *found)
{
	const struct fsdp_folder *folder = fsdp_checkpoint_place(digests->checkpoint);
	const struct fsdp_manifest *listed = digests->options.listed;
	size_t count = folder != NULL && listed != NULL ? fsdp_manifest_count(listed) : 0;
	for (size_t i = 0; i < count; i++) {
		struct found_file one = { fsdp_manifest_entry(listed, i).name, 0, 0,
			FSDP_NONE };
		struct fsdp_source source;
		if (!fsdp_name_is_safe(one.path))
			continue;
		fsdp_checkpoint_keep_open(digests->checkpoint);
		if (!fsdp_folder_source(folder, one.path, &source, NULL))
			continue;
		one.size = source.size;
		if (!fsdp_vec_add(found, &one))
			return false;
	}
	return true;
}

static bool is_taken(const struct fsdp_digests *digests, struct fsdp_span path)
{
	const struct fsdp_digests_options *options = &digests->options;
	return options->takes_file == NULL ||
	       options->takes_file(options->takes_context, path);
}

/* Of one path the checkpoint's own comes first. */
static int compare_found(const void *left, const void *right)
{
	const struct found_file *a = left, *b = right;
	int order = fsdp_span_compare(a->path, b->path);
	return order != 0 ? order : a->file < b->file ? -1 : a->file > b->file;
}

static bool list_found(struct fsdp_digests *digests, struct found_file **ret_found,
	size_t *ret_count, struct fsdp_error **ret_error)
{
	struct fsdp_vec vec;
	fsdp_vec_init(&vec, &digests->arena, sizeof(struct found_file));
	if (!add_own(digests, &vec) || !add_beside(digests, &vec) ||
		!add_listed(digests, &vec))
		return fsdp_arena_fail(&digests->arena, ret_error);
	struct found_file *list = FSDP_TAKE(&digests->arena, list, vec.count + 1);
	size_t kept = 0;
	if (list == NULL)
		return fsdp_arena_fail(&digests->arena, ret_error);
	for (size_t i = 0; i < vec.count; i++)
		list[i] = *(const struct found_file *)fsdp_vec_at(&vec, i);
	qsort(list, vec.count, sizeof *list, compare_found);
	for (size_t i = 0; i < vec.count; i++)
		if ((kept == 0 || !fsdp_span_equal(list[kept - 1].path, list[i].path)) &&
			is_taken(digests, list[i].path))
			list[kept++] = list[i];
	*ret_found = list;
	*ret_count = kept;
	return true;
}

static uint64_t size_of(const struct found_file *found)
{
	return found->size != FSDP_UNKNOWN ? found->size : 0;
}

/* Keeps those of the share. */
static size_t keep_share(
	const struct fsdp_digests *digests, struct found_file *list, size_t count)
{
	struct fsdp_share share = {
		.part = digests->options.part,
		.parts = digests->options.parts,
	};
	size_t kept = 0;
	for (size_t i = 0; i < count; i++)
		share.total += size_of(&list[i]);
	for (size_t i = 0; i < count; i++)
		if (fsdp_share_takes(&share, size_of(&list[i]))) {
			list[kept] = list[i];
			list[kept++].position = i;
		}
	return kept;
}

/* ---- reading ---- */

struct hand {
	struct fsdp_pass_file passes[HAND];
	struct stat before[HAND];
	struct fsdp_made_digest *digests[HAND];
	size_t count;
};

static struct fsdp_segment no_segment(const void *context, size_t index)
{
	(void)context;
	(void)index;
	return (struct fsdp_segment){ 0 };
}

static bool open_found(const struct fsdp_digests *digests, const struct found_file *found,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = digests->checkpoint;
	if (found->file != FSDP_NONE)
		return fsdp_checkpoint_source(
			checkpoint, found->file, ret_source, ret_error);
	fsdp_checkpoint_keep_open(checkpoint);
	return fsdp_folder_source(fsdp_checkpoint_place(checkpoint), found->path,
		       ret_source, ret_error) ||
	       fsdp_error_add_path(ret_error, (const char *)found->path.data);
}

static void take(struct fsdp_digests *digests, struct hand *hand,
	const struct found_file *found, struct fsdp_made_digest *digest)
{
	struct fsdp_pass_file *pass = &hand->passes[hand->count];
	struct fsdp_error *error = NULL;
	*pass = (struct fsdp_pass_file){ .segment = no_segment, .hashed = true };
	if (!open_found(digests, found, &pass->source, &error)) {
		digest->error = error;
		return;
	}
	digest->shown.bytes = pass->source.size;
	hand->digests[hand->count] = digest;
	if (pass->source.fd >= 0)
		(void)fstat(pass->source.fd, &hand->before[hand->count]);
	hand->count++;
}

static bool is_changed(const struct fsdp_pass_file *pass, const struct stat *before)
{
	struct stat after;
	return pass->source.fd >= 0 && fstat(pass->source.fd, &after) == 0 &&
	       (after.st_size != before->st_size ||
		       after.st_mtim.tv_sec != before->st_mtim.tv_sec ||
		       after.st_mtim.tv_nsec != before->st_mtim.tv_nsec);
}

static void give(struct hand *hand, size_t index)
{
	struct fsdp_pass_file *pass = &hand->passes[index];
	struct fsdp_made_digest *digest = hand->digests[index];
	struct fsdp_error *error = pass->error;
	pass->error = NULL;
	if (error == NULL && is_changed(pass, &hand->before[index]))
		fsdp_fail_rule(&error, FSDP_ERROR_DAMAGED, "FI2004", FSDP_UNKNOWN,
			"it was written to while it was read");
	if (error != NULL)
		fsdp_error_add_path(&error, (const char *)digest->shown.path.data);
	memcpy(digest->shown.sha256, pass->digest, sizeof digest->shown.sha256);
	digest->error = error;
	fsdp_pass_file_done(pass);
}

/* What the pass asks to tell goes to who may stop it. */
struct teller {
	const struct fsdp_digests_options *options;
	bool stopped;
};

static void tell(void *context, uint64_t done, uint64_t total)
{
	struct teller *teller = context;
	const struct fsdp_digests_options *options = teller->options;
	if (options->progress != NULL &&
		!options->progress(options->progress_context, done, total))
		teller->stopped = true;
}

static bool read_all(struct fsdp_digests *digests, const struct found_file *list,
	struct fsdp_error **ret_error)
{
	struct teller teller = { .options = &digests->options };
	struct fsdp_pass_options options = {
		.jobs = (unsigned)fsdp_min(digests->options.jobs, FSDP_PASS_THREADS),
		.progress = tell,
		.context = &teller,
	};
	struct hand *hand = calloc(1, sizeof *hand);
	bool good = hand != NULL || fsdp_fail_memory(ret_error);
	options.jobs = options.jobs != 0 ? options.jobs : 1;
	for (size_t i = 0; i < digests->count; i++)
		options.total += size_of(&list[i]);
	for (size_t i = 0; good && i < digests->count;) {
		for (hand->count = 0; i < digests->count && hand->count < HAND; i++)
			take(digests, hand, &list[i], &digests->list[i]);
		good = fsdp_pass_run(hand->passes, hand->count, &options, ret_error);
		for (size_t k = 0; k < hand->count; k++)
			give(hand, k);
		if (good && teller.stopped)
			good = fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN,
				"interrupted");
	}
	free(hand);
	return good;
}

static bool make(struct fsdp_digests *digests, struct fsdp_error **ret_error)
{
	struct found_file *list = NULL;
	size_t count = 0;
	if (!list_found(digests, &list, &count, ret_error))
		return false;
	digests->count = keep_share(digests, list, count);
	digests->list = FSDP_TAKE(&digests->arena, digests->list, count + 1);
	if (digests->list == NULL) {
		digests->count = 0;
		return fsdp_arena_fail(&digests->arena, ret_error);
	}
	for (size_t i = 0; i < digests->count; i++)
		digests->list[i] = (struct fsdp_made_digest){
			.shown.tensor = FSDP_NONE,
			.shown.path = list[i].path,
			.shown.position = list[i].position,
			.shown.bytes = size_of(&list[i]),
		};
	return read_all(digests, list, ret_error);
}

bool fsdp_digests_of_files(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_digests_options *options, struct fsdp_digests **ret_digests,
	struct fsdp_error **ret_error)
{
	return fsdp_digests_make(checkpoint, options, make, ret_digests, ret_error);
}
