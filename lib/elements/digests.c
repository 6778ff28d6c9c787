/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests of files and of tensors, and the list of digests that a user names.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fsdp/elements.h>

#include "base/num.h"
#include "base/tasks.h"
#include "base/sort.h"
#include "checkpoint/checkpoint-private.h"
#include "elements/elements-private.h"
#include "io/directory.h"

struct fsdp_made_digest {
	struct fsdp_digest shown; /* without the error */
	struct fsdp_error *error; /* owned */
};

/* Digests while they are made. */
struct fsdp_digests {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_digests_options options;
	struct fsdp_made_digest *list;
	size_t count;
};

/*
 * A list of digests that a user names.
 */

enum { MOST = 256 << 20 };

struct fsdp_manifest {
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_manifest_entry *entries; /* by name, then by line */
	size_t count;
	uint64_t wrong_line;
};

static bool parse_line(struct fsdp_manifest *manifest, struct fsdp_vec *entries,
	struct fsdp_span text, uint64_t number)
{
	struct fsdp_sha256_line line;
	struct fsdp_manifest_entry entry = { .line = number };
	if (text.size == 0 || text.data[0] == '#' ||
		fsdp_span_begins(text, FSDP_SPAN("sha256:")))
		return true;
	if (!fsdp_sha256_line_read(text, &line)) {
		if (manifest->wrong_line == 0)
			manifest->wrong_line = number;
		return true;
	}
	unsigned char *room = fsdp_arena_take(&manifest->arena, line.name.size + 1, 1);
	if (room == NULL)
		return false;
	entry.name = fsdp_sha256_unescape(&line, room);
	memcpy(entry.sha256, line.sha256, sizeof entry.sha256);
	return fsdp_vec_add(entries, &entry);
}

static bool read_file(struct fsdp_manifest *manifest, struct fsdp_remote *remote,
	const char *path, struct fsdp_error **ret_error)
{
	struct fsdp_source source;
	struct fsdp_span text;
	if (!fsdp_file_open(remote, path, &source, ret_error))
		return false;
	bool good = source.size <= MOST ||
		    fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
			    "list of digests is too large: %llu bytes",
			    FSDP_LLU(source.size));
	good = good && fsdp_source_read_all(&source, 0, source.size, &manifest->arena,
			       &text, ret_error);
	if (source.fd >= 0)
		close(source.fd);
	if (!good)
		return false;
	struct fsdp_span line;
	struct fsdp_vec entries;
	uint64_t number = 0;
	fsdp_vec_init(&entries, &manifest->arena, sizeof(struct fsdp_manifest_entry));
	while (fsdp_sha256_line_next(&text, &line))
		if (!parse_line(manifest, &entries, line, ++number))
			return fsdp_arena_fail(&manifest->arena, ret_error);
	manifest->entries =
		FSDP_TAKE(&manifest->arena, manifest->entries, entries.count + 1);
	if (manifest->entries == NULL)
		return fsdp_arena_fail(&manifest->arena, ret_error);
	for (size_t i = 0; i < entries.count; i++)
		manifest->entries[i] =
			*(const struct fsdp_manifest_entry *)fsdp_vec_at(&entries, i);
	manifest->count = entries.count;
	FSDP_SORT(manifest->entries, manifest->count, FSDP_BY(manifest->entries, name),
		FSDP_BY(manifest->entries, line));
	return true;
}

bool fsdp_manifest_open(struct fsdp_remote *remote, const char *path,
	struct fsdp_manifest **ret_manifest, struct fsdp_error **ret_error)
{
	struct fsdp_manifest *manifest = calloc(1, sizeof *manifest);
	if (manifest == NULL)
		return fsdp_fail_memory(ret_error);
	manifest->budget.ceiling = UINT64_MAX;
	fsdp_arena_init(&manifest->arena, &manifest->budget);
	if (!read_file(manifest, remote, path, ret_error)) {
		fsdp_manifest_free(manifest);
		return fsdp_error_add_path(ret_error, path);
	}
	*ret_manifest = manifest;
	return true;
}

void fsdp_manifest_free(struct fsdp_manifest *manifest)
{
	if (manifest == NULL)
		return;
	fsdp_arena_done(&manifest->arena);
	free(manifest);
}

size_t fsdp_manifest_count(const struct fsdp_manifest *manifest)
{
	return manifest->count;
}

struct fsdp_manifest_entry fsdp_manifest_entry(
	const struct fsdp_manifest *manifest, size_t index)
{
	return manifest->entries[index];
}

size_t fsdp_manifest_find(const struct fsdp_manifest *manifest, struct fsdp_span name)
{
	size_t low = 0, high = manifest->count;
	FSDP_HALVE(low, high, middle,
		fsdp_span_compare(manifest->entries[middle].name, name) < 0);
	bool found = low < manifest->count &&
		     fsdp_span_equal(manifest->entries[low].name, name);
	return found ? low : manifest->count;
}

uint64_t fsdp_manifest_wrong_line(const struct fsdp_manifest *manifest)
{
	return manifest->wrong_line;
}

/*
 * What digests of files and of tensors have in common, and digests of the caller's bytes.
 */

void fsdp_digests_free(struct fsdp_digests *digests)
{
	if (digests == NULL)
		return;
	for (size_t i = 0; i < digests->count; i++)
		fsdp_error_free(digests->list[i].error);
	fsdp_arena_done(&digests->arena);
	free(digests);
}

/* Digests that `make` fills: it gets them all zero except the options; only the caller's
 * part of these is read. */
static bool digests_make(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_digests_options *options,
	bool (*make)(struct fsdp_digests *digests, struct fsdp_error **ret_error),
	struct fsdp_digests **ret_digests, struct fsdp_error **ret_error)
{
	struct fsdp_digests *digests = calloc(1, sizeof *digests);
	if (digests == NULL)
		return fsdp_fail_memory(ret_error);
	memcpy(&digests->options, options,
		fsdp_min(options->size, sizeof digests->options));
	digests->checkpoint = checkpoint;
	digests->budget.ceiling = UINT64_MAX;
	fsdp_arena_init(&digests->arena, &digests->budget);
	bool good = make(digests, ret_error);
	for (size_t i = 0; i < digests->count && good; i++) {
		const struct fsdp_error *error = digests->list[i].error;
		if (error != NULL && fsdp_error_code(error) == FSDP_ERROR_MEMORY)
			good = fsdp_fail_memory(ret_error);
	}
	if (!good) {
		fsdp_digests_free(digests);
		return false;
	}
	*ret_digests = digests;
	return true;
}

size_t fsdp_digest_count(const struct fsdp_digests *digests)
{
	return digests->count;
}

struct fsdp_digest fsdp_digest(const struct fsdp_digests *digests, size_t index)
{
	struct fsdp_digest digest = digests->list[index].shown;
	digest.error = digests->list[index].error;
	return digest;
}

/* ---- bytes of the caller ---- */

struct fsdp_digester *fsdp_digester_new(void)
{
	return (struct fsdp_digester *)fsdp_sha256_new();
}

void fsdp_digester_add(struct fsdp_digester *digester, const void *bytes, size_t size)
{
	(void)fsdp_sha256_add((struct fsdp_sha256 *)digester, bytes, size);
}

void fsdp_digester_end(
	struct fsdp_digester *digester, unsigned char ret_sha256[FSDP_DIGEST_BYTES])
{
	struct fsdp_sha256 *sha256 = (struct fsdp_sha256 *)digester;
	if (sha256 != NULL && ret_sha256 != NULL)
		(void)fsdp_sha256_finish(sha256, ret_sha256);
	fsdp_sha256_free(sha256);
}

/*
 * The digest of each file, as it is stored.
 */

enum { HAND = 32 /* a source is valid until 64 others were asked for */ };

/* A file that is to be read. */
struct found_file {
	struct fsdp_span path;
	uint64_t size;
	size_t position;
	uint32_t file; /* of the checkpoint, or FSDP_NONE: not of it */
};

/* ---- which ---- */

/* Lists of digests, and what this program writes under another name yet. */
static bool is_skipped(struct fsdp_span path)
{
	static const char own[] = ".fsdp-inspect-";
	if (fsdp_span_is(path, "SHA256SUMS") || fsdp_span_is(path, "integrity.json"))
		return true;
	return fsdp_span_ends(path, FSDP_SPAN(".tmp")) &&
	       memmem(path.data, path.size, own, sizeof own - 1) != NULL;
}

static bool list_found(struct fsdp_digests *digests, struct found_file **ret_found,
	size_t *ret_count, struct fsdp_error **ret_error)
{
	struct fsdp_vec vec;
	fsdp_vec_init(&vec, &digests->arena, sizeof(struct found_file));
	const struct fsdp_model *model = &digests->checkpoint->model;
	FSDP_EACH(i, (uint32_t)model->files.count, file, fsdp_model_file(model, i)) {
		struct found_file one = { file->path, file->size, 0, i };
		if (!is_skipped(file->path) && !fsdp_vec_add(&vec, &one))
			return fsdp_arena_fail(&digests->arena, ret_error);
	}
	const struct fsdp_folder *folder = fsdp_checkpoint_place(digests->checkpoint);
	for (size_t i = 0; folder != NULL && i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		struct found_file one = { entry.name, entry.size, 0, FSDP_NONE };
		if (entry.kind == FSDP_ENTRY_FILE && !is_skipped(entry.name) &&
			!fsdp_vec_add(&vec, &one))
			return fsdp_arena_fail(&digests->arena, ret_error);
	}
	/* If a list names files in subdirectories, or lists. */
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
		if (!fsdp_vec_add(&vec, &one))
			return fsdp_arena_fail(&digests->arena, ret_error);
	}
	struct found_file *list = FSDP_TAKE(&digests->arena, list, vec.count + 1);
	size_t kept = 0;
	if (list == NULL)
		return fsdp_arena_fail(&digests->arena, ret_error);
	for (size_t i = 0; i < vec.count; i++)
		list[i] = *(const struct found_file *)fsdp_vec_at(&vec, i);
	/* Of one path the checkpoint's own comes first. */
	FSDP_SORT(list, vec.count, FSDP_BY(list, path), FSDP_BY(list, file));
	for (size_t i = 0; i < vec.count; i++)
		if ((kept == 0 || !fsdp_span_equal(list[kept - 1].path, list[i].path)) &&
			(digests->options.takes_file == NULL ||
				digests->options.takes_file(
					digests->options.takes_context, list[i].path)))
			list[kept++] = list[i];
	*ret_found = list;
	*ret_count = kept;
	return true;
}

static uint64_t file_size(const struct found_file *found)
{
	return found->size != FSDP_UNKNOWN ? found->size : 0;
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

/* Progress of the pass goes to the caller's function, which may stop it. */
struct teller {
	const struct fsdp_digests_options *options;
	bool stopped;
};

static void report_progress(void *context, uint64_t done, uint64_t total)
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
		.progress = report_progress,
		.context = &teller,
	};
	struct hand *hand = calloc(1, sizeof *hand);
	bool good = hand != NULL || fsdp_fail_memory(ret_error);
	options.jobs = options.jobs != 0 ? options.jobs : 1;
	for (size_t i = 0; i < digests->count; i++)
		options.total += file_size(&list[i]);
	for (size_t i = 0; good && i < digests->count;) {
		for (hand->count = 0; i < digests->count && hand->count < HAND; i++) {
			const struct found_file *found = &list[i];
			struct fsdp_made_digest *digest = &digests->list[i];
			struct fsdp_pass_file *pass = &hand->passes[hand->count];
			struct fsdp_error *error = NULL;
			*pass = (struct fsdp_pass_file){ .segment = no_segment,
				.hashed = true };
			if (!open_found(digests, found, &pass->source, &error)) {
				digest->error = error;
				continue;
			}
			digest->shown.bytes = pass->source.size;
			/* The store lists the SHA-256 of these bytes. */
			const struct fsdp_remote_file *remote = pass->source.remote;
			if (digests->options.trust_store && remote != NULL &&
				remote->has_sha256 && pass->source.size == remote->size) {
				memcpy(digest->shown.sha256, remote->sha256,
					sizeof digest->shown.sha256);
				options.total -= file_size(found);
				fsdp_pass_file_done(pass);
				continue;
			}
			hand->digests[hand->count] = digest;
			if (pass->source.fd >= 0)
				(void)fstat(pass->source.fd, &hand->before[hand->count]);
			hand->count++;
		}
		good = fsdp_pass_run(hand->passes, hand->count, &options, ret_error);
		FSDP_EACH(k, hand->count, pass, &hand->passes[k]) {
			struct fsdp_made_digest *digest = hand->digests[k];
			struct fsdp_error *error = pass->error;
			const struct stat *before = &hand->before[k];
			struct stat after;
			pass->error = NULL;
			if (error == NULL && pass->source.fd >= 0 &&
				fstat(pass->source.fd, &after) == 0 &&
				(after.st_size != before->st_size ||
					after.st_mtim.tv_sec != before->st_mtim.tv_sec ||
					after.st_mtim.tv_nsec != before->st_mtim.tv_nsec))
				fsdp_fail_rule(&error, FSDP_ERROR_DAMAGED, "FI2004",
					FSDP_UNKNOWN,
					"it was written to while it was read");
			if (error != NULL)
				fsdp_error_add_path(
					&error, (const char *)digest->shown.path.data);
			memcpy(digest->shown.sha256, pass->digest,
				sizeof digest->shown.sha256);
			digest->error = error;
			fsdp_pass_file_done(pass);
		}
		if (good && teller.stopped)
			good = fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN,
				"interrupted");
	}
	free(hand);
	return good;
}

static bool make_file_digests(struct fsdp_digests *digests, struct fsdp_error **ret_error)
{
	struct found_file *list = NULL;
	size_t count = 0;
	if (!list_found(digests, &list, &count, ret_error))
		return false;
	/* Keeps those of the share. */
	struct fsdp_share share = {
		.part = digests->options.part,
		.parts = digests->options.parts,
	};
	size_t kept = 0;
	for (size_t i = 0; i < count; i++)
		share.total += file_size(&list[i]);
	for (size_t i = 0; i < count; i++)
		if (fsdp_share_takes(&share, file_size(&list[i]))) {
			list[kept] = list[i];
			list[kept++].position = i;
		}
	digests->count = kept;
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
			.shown.bytes = file_size(&list[i]),
		};
	return read_all(digests, list, ret_error);
}

bool fsdp_digests_of_files(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_digests_options *options, struct fsdp_digests **ret_digests,
	struct fsdp_error **ret_error)
{
	return digests_make(
		checkpoint, options, make_file_digests, ret_digests, ret_error);
}

/*
 * The digest of each tensor's elements.
 */

static bool digest_range(struct fsdp_walker *walker, struct fsdp_sha256 *sha256,
	struct fsdp_error **ret_error)
{
	struct fsdp_span bytes;
	do {
		if (!fsdp_walk_next(walker, &bytes, ret_error))
			return false;
		if (!fsdp_sha256_add(sha256, bytes.data, bytes.size))
			return fsdp_fail_memory(ret_error);
	} while (bytes.size != 0);
	return true;
}

/* Of a complete tensor: not cut. */
static void visit(
	void *context, struct fsdp_walker *walker, const struct fsdp_walk_range *range)
{
	struct fsdp_digests *digests = context;
	struct fsdp_made_digest *digest = &digests->list[range->index];
	struct fsdp_sha256 *sha256 = fsdp_sha256_new();
	struct fsdp_error *error = NULL;
	if (sha256 == NULL)
		fsdp_fail_memory(&error);
	else if (digest_range(walker, sha256, &error) &&
		 !fsdp_sha256_finish(sha256, digest->shown.sha256))
		fsdp_fail_memory(&error);
	fsdp_sha256_free(sha256);
	digest->error = error;
}

/* ---- which ---- */

static uint64_t tensor_bytes(
	const struct fsdp_checkpoint *checkpoint, const uint32_t *tensors, size_t index)
{
	uint32_t tensor = tensors != NULL ? tensors[index] : (uint32_t)index;
	return fsdp_tensor(checkpoint, tensor).bytes;
}

static bool list_tensors(struct fsdp_digests *digests, uint32_t **ret_tensors,
	struct fsdp_error **ret_error)
{
	const struct fsdp_digests_options *options = &digests->options;
	size_t count = options->tensors != NULL ? options->tensor_count
						: fsdp_tensor_count(digests->checkpoint);
	bool *taken = FSDP_TAKE(&digests->arena, taken, count + 1);
	uint32_t *tensors = FSDP_TAKE(&digests->arena, tensors, count + 1);
	digests->list = FSDP_TAKE(&digests->arena, digests->list, count + 1);
	if (taken == NULL || tensors == NULL || digests->list == NULL)
		return fsdp_arena_fail(&digests->arena, ret_error);
	/* Which of `count` tensors (NULL: the first ones) belong to share `part` of
	 * `parts`; shares follow the order in which tensors are read, so that each reads
	 * few files. */
	struct fsdp_share share = { .part = options->part, .parts = options->parts };
	size_t *order = malloc((count + 1) * sizeof *order);
	if (order == NULL)
		return fsdp_fail_memory(ret_error);
	bool good = fsdp_walk_order(
		digests->checkpoint, options->tensors, count, order, ret_error);
	for (size_t i = 0; good && i < count; i++)
		share.total += tensor_bytes(digests->checkpoint, options->tensors, i);
	for (size_t i = 0; good && i < count; i++)
		taken[order[i]] = fsdp_share_takes(&share,
			tensor_bytes(digests->checkpoint, options->tensors, order[i]));
	free(order);
	if (!good)
		return false;
	for (size_t i = 0; i < count; i++) {
		uint32_t tensor =
			options->tensors != NULL ? options->tensors[i] : (uint32_t)i;
		if (!taken[i])
			continue;
		tensors[digests->count] = tensor;
		digests->list[digests->count++] = (struct fsdp_made_digest){
			.shown.tensor = tensor,
			.shown.position = i,
			.shown.bytes = fsdp_tensor(digests->checkpoint, tensor).bytes,
		};
	}
	*ret_tensors = tensors;
	return true;
}

static bool make_tensor_digests(
	struct fsdp_digests *digests, struct fsdp_error **ret_error)
{
	uint32_t *tensors = NULL;
	if (!list_tensors(digests, &tensors, ret_error))
		return false;
	const struct fsdp_walk_options walk = {
		.size = sizeof walk,
		.tensors = tensors,
		.tensor_count = digests->count,
		.jobs = digests->options.jobs,
		.visit = visit,
		.context = digests,
		.progress = digests->options.progress,
		.progress_context = digests->options.progress_context,
	};
	return fsdp_walk(digests->checkpoint, &walk, ret_error);
}

bool fsdp_digests_of_tensors(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_digests_options *options, struct fsdp_digests **ret_digests,
	struct fsdp_error **ret_error)
{
	return digests_make(
		checkpoint, options, make_tensor_digests, ret_digests, ret_error);
}
