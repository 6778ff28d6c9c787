/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes files under temporary names, until all of them are on the disk and were read back; then
 * gives them their names. On failure none of them stays.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "export/writing.h"
#include "elements/content-hash.h"

/* ---- Temporary names, and errors with the paths of files ---- */

enum { ATTEMPTS = 1000, PREFIX_MOST = 32 };

bool fsdp_export_blame(const struct fsdp_writing *writing, struct fsdp_span name,
	struct fsdp_error **ret_error)
{
	const struct fsdp_export_target *target = writing->target;
	char path[4096];
	if (target->folder == NULL)
		return false;
	if (name.size == 0 && target->file != NULL)
		name = fsdp_span_text(target->file);
	snprintf(path, sizeof path, "%s%s%.*s", target->folder, name.size != 0 ? "/" : "",
		FSDP_TEXT(name));
	fsdp_error_add_path(ret_error, path);
	return false;
}

/* A file under a temporary name that this number makes its own (writing.c). */
static bool export_open_temporary(struct fsdp_writing *writing,
	struct fsdp_export_temporary *file, size_t number, struct fsdp_error **ret_error)
{
	const char *given = writing->target->prefix;
	char prefix[PREFIX_MOST + 1];
	snprintf(prefix, sizeof prefix, ".fsdp-inspect-%ld-", (long)getpid());
	for (unsigned attempt = 0; attempt < ATTEMPTS; attempt++) {
		char path[sizeof file->path];
		snprintf(path, sizeof path, "%.*s%zu-%u.tmp", PREFIX_MOST,
			given != NULL ? given : prefix, number, attempt);
		file->descriptor = openat(writing->folder, path,
			O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
		if (file->descriptor >= 0) {
			memcpy(file->path, path, sizeof path);
			return true;
		}
		if (errno != EEXIST)
			break;
	}
	fsdp_fail_errno(ret_error, errno, FSDP_UNKNOWN, "cannot make a file");
	return fsdp_export_blame(writing, FSDP_SPAN(""), ret_error);
}

/*
 * Gives files that are whole and on the disk their names, so that a loader finds all of
 * them or fails, wherever the process is killed.
 */

/* Whether a loader would take a file for weights of this folder: model.safetensors, a
 * shard, or their index. */
static bool is_weights(const char *name)
{
	struct fsdp_span rest;
	if (!fsdp_span_behind(fsdp_span_text(name), "model", &rest) &&
		!fsdp_span_behind(fsdp_span_text(name), "adapter_model", &rest))
		return false;
	if (rest.size >= 15 && rest.data[0] == '-' &&
		fsdp_span_equal(fsdp_span(rest.data + 6, 4), FSDP_SPAN("-of-")))
		rest = fsdp_span(rest.data + 15, rest.size - 15);
	return fsdp_span_is(rest, ".safetensors") ||
	       fsdp_span_is(rest, ".safetensors.index.json");
}

bool fsdp_export_replaces(const char *name)
{
	const char *companion;
	for (size_t i = 0; (companion = fsdp_export_companion_name(i)) != NULL; i++)
		if (strcmp(name, companion) == 0)
			return true;
	return is_weights(name) || strcmp(name, FSDP_EXPORT_SUMS) == 0;
}

/* The file gets its name in the folder, if there is one; what had that name is gone. */
static bool export_name_file(struct fsdp_writing *writing,
	struct fsdp_export_temporary *file, const char *name,
	struct fsdp_error **ret_error)
{
	if (file->path[0] == '\0')
		return true;
	if (renameat(writing->folder, file->path, writing->folder, name) != 0) {
		fsdp_fail_errno(ret_error, errno, FSDP_UNKNOWN, "cannot name the file");
		return fsdp_export_blame(writing, fsdp_span_text(name), ret_error);
	}
	file->path[0] = '\0';
	return true;
}

static const char *name_of(const struct fsdp_writing *writing, size_t index)
{
	const struct fsdp_export *plan = writing->plan;
	return index == plan->file_count ? FSDP_EXPORT_SUMS
	       : writing->target->file != NULL
		       ? writing->target->file
		       : (const char *)plan->files[index].name.data;
}

static bool sync_folder(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	if (fsync(writing->folder) == 0)
		return true;
	fsdp_fail_errno(ret_error, errno, FSDP_UNKNOWN, "cannot write");
	return fsdp_export_blame(writing, FSDP_SPAN(""), ret_error);
}

/* ---- a folder ---- */

/* The file that comes last: the last one that holds tensors. */
static size_t last_of(const struct fsdp_export *plan)
{
	return plan->file_count - 1 - plan->has_index;
}

/*
 * Transformers takes what the index names, and nothing of shards without one; vLLM,
 * SGLang, MLX and llama.cpp take every file of weights that is there. So an empty file,
 * on which each of them fails, stands under the name of the last one before any other is
 * removed or appears. The last one replaces it once all others are there, in one step.
 */
static bool put_placeholder(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	size_t count = writing->plan->file_count;
	struct fsdp_export_temporary *empty = &writing->files[count + 1];
	return export_open_temporary(writing, empty, count + 1, ret_error) &&
	       export_name_file(writing, empty, name_of(writing, last_of(writing->plan)),
		       ret_error);
}

static bool name_others(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	size_t count = writing->plan->file_count, last = last_of(writing->plan);
	if (writing->target->force) {
		/* All but one of this name. */
		const char *but = name_of(writing, last);
		int descriptor =
			openat(writing->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		DIR *folder = descriptor >= 0 ? fdopendir(descriptor) : NULL;
		const struct dirent *entry;
		unlinkat(writing->folder, "model.safetensors.index.json", 0);
		unlinkat(writing->folder, FSDP_EXPORT_SUMS, 0);
		while (folder != NULL && (entry = readdir(folder)) != NULL)
			if (is_weights(entry->d_name) && strcmp(entry->d_name, but) != 0)
				unlinkat(writing->folder, entry->d_name, 0);
		if (folder != NULL)
			closedir(folder);
		else if (descriptor >= 0)
			close(descriptor);
	}
	bool good = export_name_file(
		writing, &writing->files[count], FSDP_EXPORT_SUMS, ret_error);
	for (size_t i = 0; good && i < FSDP_EXPORT_COMPANIONS; i++)
		good = export_name_file(writing, &writing->companions[i],
			fsdp_export_companion_name(i), ret_error);
	for (size_t i = 0; good && i < count; i++)
		good = i == last || export_name_file(writing, &writing->files[i],
					    name_of(writing, i), ret_error);
	return good;
}

static void remove_if_named(struct fsdp_writing *writing,
	const struct fsdp_export_temporary *file, const char *name)
{
	if (file->descriptor >= 0 && file->path[0] == '\0')
		unlinkat(writing->folder, name, 0);
}

/* The placeholder goes last. */
static void remove_named(struct fsdp_writing *writing)
{
	size_t count = writing->plan->file_count, last = last_of(writing->plan);
	for (size_t i = 0; i < FSDP_EXPORT_COMPANIONS; i++)
		remove_if_named(
			writing, &writing->companions[i], fsdp_export_companion_name(i));
	for (size_t i = 0; i <= count; i++)
		if (i != last)
			remove_if_named(writing, &writing->files[i], name_of(writing, i));
	remove_if_named(writing, &writing->files[count + 1], name_of(writing, last));
}

/* All files get theirs, the last shard last; on failure none of them stays
 * (writing.c). */
static bool export_name_files(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	struct fsdp_export_temporary *only = &writing->files[0];
	if (writing->target->file == NULL) {
		size_t last = last_of(writing->plan);
		if (put_placeholder(writing, ret_error) &&
			sync_folder(writing, ret_error) &&
			name_others(writing, ret_error) &&
			sync_folder(writing, ret_error) &&
			export_name_file(writing, &writing->files[last],
				name_of(writing, last), ret_error) &&
			sync_folder(writing, ret_error))
			return true;
		remove_named(writing);
		return false;
	}
	if (export_name_file(writing, only, name_of(writing, 0), ret_error) &&
		sync_folder(writing, ret_error))
		return true;
	remove_if_named(writing, only, name_of(writing, 0));
	return false;
}

/* ---- Configuration and tokenizer, copied as they are ---- */

/* Larger ones are no configuration and no tokenizer. */
#define COMPANION_BYTES ((off_t)256 << 20)

static const char *const names[] = { "config.json", "generation_config.json",
	"preprocessor_config.json", "processor_config.json", "tokenizer.json",
	"tokenizer_config.json", "tokenizer.model", "special_tokens_map.json",
	"added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "spiece.model",
	"chat_template.jinja", "chat_template.json", "adapter_config.json" };
_Static_assert(FSDP_COUNT(names) == FSDP_EXPORT_COMPANIONS, "a place for each");

const char *fsdp_export_companion_name(size_t index)
{
	return index < FSDP_COUNT(names) ? names[index] : NULL;
}

static bool is_companion(const struct stat *status)
{
	return S_ISREG(status->st_mode) && status->st_size <= COMPANION_BYTES;
}

static bool copy_bytes(struct fsdp_writing *writing, int from, size_t index,
	unsigned char *buffer, struct fsdp_error **ret_error)
{
	struct fsdp_export_temporary *file = &writing->companions[index];
	struct fsdp_sha256 *sha256 = fsdp_sha256_new();
	uint64_t at = 0;
	ssize_t got = 1;
	bool good = sha256 != NULL || fsdp_fail_memory(ret_error);
	while (good && got != 0) {
		got = pread(from, buffer, FSDP_EXPORT_BUFFER, (off_t)at);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			good = fsdp_fail_errno(ret_error, errno, at, "cannot read");
			break;
		}
		good = (fsdp_sha256_add(sha256, buffer, (size_t)got) ||
			       fsdp_fail_memory(ret_error)) &&
		       fsdp_export_write_at(
			       file->descriptor, buffer, (size_t)got, at, ret_error);
		at += (uint64_t)got;
	}
	good = good && (fsdp_sha256_finish(sha256, writing->companion_digests[index]) ||
			       fsdp_fail_memory(ret_error));
	fsdp_sha256_free(sha256);
	if (good && fsync(file->descriptor) != 0)
		good = fsdp_fail_errno(ret_error, errno, FSDP_UNKNOWN, "cannot write");
	return good;
}

/* Whether a link leads to a file of the download cache of Hugging Face, in which what a
 * snapshot shows lies as ../../blobs/<hex>. */
static bool leads_to_blob(const char *target)
{
	static const char blobs[] = "../../blobs/";
	size_t size = strlen(blobs);
	return strncmp(target, blobs, size) == 0 && target[size] != '\0' &&
	       target[size + strspn(target + size, "0123456789abcdef")] == '\0';
}

/* A folder may be a stranger's: no other link of it is followed, or what it leads to would
 * lie in a folder that is handed on. */
static int open_companion(int folder, const char *name)
{
	const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW;
	char target[256];
	int from = openat(folder, name, flags);
	if (from >= 0 || errno != ELOOP)
		return from;
	ssize_t size = readlinkat(folder, name, target, sizeof target - 1);
	target[size > 0 ? size : 0] = '\0';
	errno = ENOENT;
	return leads_to_blob(target) ? openat(folder, target, flags) : -1;
}

/* Bytes of those that are in this folder now; none if there is no folder. */
static uint64_t export_companion_bytes(const char *path)
{
	int folder = path != NULL ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	uint64_t bytes = 0;
	for (size_t i = 0; folder >= 0 && i < FSDP_COUNT(names); i++) {
		struct stat status;
		int from = open_companion(folder, names[i]);
		if (from >= 0 && fstat(from, &status) == 0 && is_companion(&status))
			bytes += (uint64_t)status.st_size;
		if (from >= 0)
			close(from);
	}
	if (folder >= 0)
		close(folder);
	return bytes;
}

static bool copy_one(struct fsdp_writing *writing, int folder, size_t index,
	unsigned char *buffer, struct fsdp_error **ret_error)
{
	struct stat status;
	int from = open_companion(folder, names[index]);
	if (from < 0 && errno == ENOENT)
		return true;
	bool good = from >= 0 && fstat(from, &status) == 0;
	if (!good) {
		fsdp_fail_errno(ret_error, errno, FSDP_UNKNOWN, "cannot open");
	} else if (is_companion(&status)) {
		good = export_open_temporary(writing, &writing->companions[index],
			       writing->plan->file_count + 1 + index, ret_error) &&
		       copy_bytes(writing, from, index, buffer, ret_error);
		writing->plan->facts.companions |= UINT32_C(1) << index;
	}
	if (from >= 0)
		close(from);
	if (!good)
		fsdp_error_add_path(ret_error, names[index]);
	return good;
}

/* Copies files of configuration and tokenizer, if there are any (writing.c). */
static bool export_copy_companions(
	struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	const char *path = writing->target->config_folder;
	int folder = path != NULL ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	unsigned char *buffer;
	bool good;
	if (path == NULL)
		return true;
	if (folder < 0) {
		fsdp_fail_errno(ret_error, errno, FSDP_UNKNOWN, "cannot open");
		return fsdp_error_add_path(ret_error, path);
	}
	buffer = malloc(FSDP_EXPORT_BUFFER);
	good = buffer != NULL || fsdp_fail_memory(ret_error);
	for (size_t i = 0; good && i < FSDP_COUNT(names); i++)
		good = copy_one(writing, folder, i, buffer, ret_error);
	free(buffer);
	close(folder);
	return good;
}

/* ---- What was written is read back: headers, ranges, digests ---- */

struct rereader {
	unsigned char *buffer;
	struct fsdp_export_blocks blocks;
	struct fsdp_sha256 *sha256;
};

static void end_reader(void *own)
{
	struct rereader *reader = own;
	fsdp_sha256_free(reader->sha256);
	free(reader->blocks.rest);
	free(reader->buffer);
	free(reader);
}

static void *begin_reader(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	struct rereader *reader = calloc(1, sizeof *reader);
	(void)writing;
	(void)ret_error;
	if (reader == NULL)
		return NULL;
	reader->buffer = malloc(FSDP_EXPORT_BUFFER);
	reader->blocks.rest = malloc(FSDP_EXPORT_BLOCK);
	if (reader->buffer != NULL && reader->blocks.rest != NULL)
		return reader;
	end_reader(reader);
	return NULL;
}

static bool read_back(int descriptor, void *buffer, size_t size, uint64_t offset,
	struct fsdp_error **ret_error)
{
	unsigned char *at = buffer;
	while (size != 0) {
		ssize_t got = pread(descriptor, at, size, (off_t)offset);
		if (got == 0)
			return fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, offset,
				"the file that was written ends here: it lacks %zu bytes",
				size);
		if (got < 0 && errno != EINTR)
			return fsdp_fail_errno(
				ret_error, errno, offset, "cannot read back");
		if (got <= 0)
			continue;
		at += got;
		size -= (size_t)got;
		offset += (uint64_t)got;
	}
	return true;
}

/* ---- reading a stretch ---- */

/* Some bytes of a file, for the trait or the digest of this thread. */
struct stretch {
	int descriptor;
	uint64_t offset, size;
	bool hashed;
};

static bool sweep(struct fsdp_writing *writing, struct rereader *reader,
	struct stretch stretch, struct fsdp_error **ret_error)
{
	while (stretch.size != 0) {
		size_t part = (size_t)fsdp_min(stretch.size, FSDP_EXPORT_BUFFER);
		if (!read_back(stretch.descriptor, reader->buffer, part, stretch.offset,
			    ret_error))
			return false;
		if (!stretch.hashed)
			fsdp_export_blocks_add(&reader->blocks, reader->buffer, part);
		else if (!fsdp_sha256_add(reader->sha256, reader->buffer, part))
			return fsdp_fail_memory(ret_error);
		stretch.offset += part;
		stretch.size -= part;
		if (!fsdp_export_advance(writing, stretch.hashed ? 0 : part, ret_error))
			return false;
	}
	return true;
}

static bool digest(struct fsdp_writing *writing, struct rereader *reader,
	struct stretch stretch, unsigned char *ret_digest, struct fsdp_error **ret_error)
{
	stretch.hashed = true;
	fsdp_sha256_free(reader->sha256);
	reader->sha256 = fsdp_sha256_new();
	if (reader->sha256 == NULL)
		return fsdp_fail_memory(ret_error);
	return sweep(writing, reader, stretch, ret_error) &&
	       (fsdp_sha256_finish(reader->sha256, ret_digest) ||
		       fsdp_fail_memory(ret_error));
}

/* ---- pieces of work ---- */

static bool check_range(struct fsdp_writing *writing, struct rereader *reader,
	const struct fsdp_export_range *range, struct fsdp_error **ret_error)
{
	const struct fsdp_export_item *item = &writing->plan->items[range->item];
	uint64_t first, count = fsdp_export_range_numel(item, range->part, &first);
	struct stretch stretch = {
		.descriptor = writing->files[item->file].descriptor,
		.offset = item->offset + first * item->width,
		.size = count * item->width,
	};
	reader->blocks.trait = (struct fsdp_trait){ { 0 } };
	reader->blocks.size = 0;
	if (!sweep(writing, reader, stretch, ret_error))
		return false;
	fsdp_export_blocks_end(&reader->blocks);
	const struct fsdp_trait *found = &reader->blocks.trait;
	if (found->words[0] == range->trait.words[0] &&
		found->words[1] == range->trait.words[1])
		return true;
	return fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, stretch.offset,
		"%.*s was read back with other bytes than were written",
		FSDP_TEXT_MOST(item->name, 200));
}

static bool digest_item(struct fsdp_writing *writing, struct rereader *reader,
	size_t index, struct fsdp_error **ret_error)
{
	struct fsdp_export_item *item = &writing->plan->items[index];
	struct stretch all = {
		.descriptor = writing->files[item->file].descriptor,
		.offset = item->offset,
		.size = item->bytes,
	};
	return digest(writing, reader, all, item->sha256, ret_error);
}

/* Files take longest and come first, then ranges, then tensors. */
static bool reread_one(struct fsdp_writing *writing, void *own, size_t index,
	struct fsdp_error **ret_error)
{
	size_t files = writing->plan->file_count;
	if (index < files) {
		struct fsdp_export_out *file = &writing->plan->files[index];
		struct stretch all = {
			.descriptor = writing->files[index].descriptor,
			.size = file->bytes,
		};
		return digest(writing, own, all, file->sha256, ret_error);
	}
	index -= files;
	if (index < writing->range_count)
		return check_range(writing, own, &writing->ranges[index], ret_error);
	return digest_item(writing, own, index - writing->range_count, ret_error);
}

static bool check_head(struct fsdp_writing *writing, size_t index, unsigned char *buffer,
	struct fsdp_error **ret_error)
{
	struct fsdp_export_text head = { 0 };
	bool good = fsdp_export_head(writing->plan, index, &head, ret_error);
	for (size_t at = 0; good && at < head.size; at += FSDP_EXPORT_BUFFER) {
		size_t part = (size_t)fsdp_min(head.size - at, FSDP_EXPORT_BUFFER);
		good = read_back(
			writing->files[index].descriptor, buffer, part, at, ret_error);
		if (good && memcmp(buffer, head.bytes + at, part) != 0)
			good = fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, at,
				"the head of a file was read back with other bytes than were written");
	}
	free(head.bytes);
	return good;
}

/* Reads everything back and compares it; makes digests (writing.c). */
static bool export_reread(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	struct fsdp_export *plan = writing->plan;
	bool digests = writing->target->digests;
	const struct fsdp_export_step step = {
		.count = plan->file_count + writing->range_count +
			 (digests ? plan->item_count : 0),
		.begin = begin_reader,
		.work = reread_one,
		.end = end_reader,
	};
	if (!fsdp_export_run(writing, &step, ret_error))
		return false;
	unsigned char *buffer = malloc(FSDP_EXPORT_BUFFER);
	bool good = buffer != NULL || fsdp_fail_memory(ret_error);
	for (size_t i = 0; good && i < writing->plan->file_count; i++)
		good = check_head(writing, i, buffer, ret_error);
	free(buffer);
	if (!good)
		return false;
	plan->facts.verified = true;
	plan->facts.digested = digests;
	return true;
}

/* ---- The steps ---- */

static bool blame_folder(struct fsdp_writing *writing, int number, const char *what,
	struct fsdp_error **ret_error)
{
	fsdp_fail_errno(ret_error, number, FSDP_UNKNOWN, what);
	return fsdp_export_blame(writing, FSDP_SPAN(""), ret_error);
}

/* ---- what must be so before ---- */

static bool check_empty(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	int descriptor = openat(writing->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = descriptor >= 0 ? fdopendir(descriptor) : NULL;
	const struct dirent *entry;
	bool empty = true;
	if (folder == NULL) {
		int number = errno;
		if (descriptor >= 0)
			close(descriptor);
		return blame_folder(writing, number, "cannot look into", ret_error);
	}
	while (empty && (entry = readdir(folder)) != NULL)
		empty = strcmp(entry->d_name, ".") == 0 ||
			strcmp(entry->d_name, "..") == 0;
	closedir(folder);
	if (empty)
		return true;
	fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN, "the folder is not empty");
	fsdp_error_add_hint(ret_error,
		"name another one, or replace the weights that are there (--force)");
	return fsdp_export_blame(writing, FSDP_SPAN(""), ret_error);
}

static bool check_absent(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	struct stat status;
	if (fstatat(writing->folder, writing->target->file, &status,
		    AT_SYMLINK_NOFOLLOW) != 0)
		return true;
	fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN, "the file exists already");
	fsdp_error_add_hint(ret_error, "name another one, or replace it (--force)");
	return fsdp_export_blame(writing, FSDP_SPAN(""), ret_error);
}

static bool open_folder(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	const struct fsdp_export_target *target = writing->target;
	writing->folder = open(target->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (writing->folder < 0)
		return blame_folder(writing, errno, "cannot open", ret_error);
	if (!target->force && target->file == NULL && !check_empty(writing, ret_error))
		return false;
	if (!target->force && target->file != NULL && !check_absent(writing, ret_error))
		return false;
	uint64_t needed = writing->plan->facts.file_bytes, room;
	struct statvfs status;
	if (!fsdp_add(needed, export_companion_bytes(writing->target->config_folder),
		    &needed))
		needed = FSDP_UNKNOWN;
	if (fstatvfs(writing->folder, &status) != 0 ||
		!fsdp_mul(status.f_bavail, status.f_frsize, &room) || room >= needed)
		return true;
	fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN,
		"%llu bytes are needed here, and %llu are free", FSDP_LLU(needed),
		FSDP_LLU(room));
	fsdp_error_add_hint(ret_error, "name a folder of a file system with more room");
	return fsdp_export_blame(writing, FSDP_SPAN(""), ret_error);
}

/* ---- temporary files ---- */

static bool open_temporaries(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	size_t count = writing->plan->file_count;
	writing->files = calloc(count + 2, sizeof *writing->files);
	if (writing->files == NULL)
		return fsdp_fail_memory(ret_error);
	for (size_t i = 0; i < count + 2; i++)
		writing->files[i].descriptor = -1;
	for (size_t i = 0; i < count; i++)
		if (!export_open_temporary(writing, &writing->files[i], i, ret_error))
			return false;
	return true;
}

static void remove_temporary(
	struct fsdp_writing *writing, struct fsdp_export_temporary *file)
{
	if (file->descriptor >= 0)
		close(file->descriptor);
	if (file->path[0] != '\0')
		unlinkat(writing->folder, file->path, 0);
}

/* ---- heads, sums, the disk ---- */

static bool write_heads(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < writing->plan->file_count; i++) {
		struct fsdp_export_text head = { 0 };
		bool good = fsdp_export_head(writing->plan, i, &head, ret_error) &&
			    fsdp_export_write_at(writing->files[i].descriptor, head.bytes,
				    head.size, 0, ret_error);
		free(head.bytes);
		if (!good)
			return fsdp_export_blame(
				writing, writing->plan->files[i].name, ret_error);
	}
	return true;
}

/* In the form of sha256sum. */
static void put_sum(struct fsdp_export_text *text,
	const unsigned char digest[FSDP_EXPORT_DIGEST], struct fsdp_span name)
{
	for (size_t i = 0; i < FSDP_EXPORT_DIGEST; i++)
		fsdp_export_put_text(text, "%02x", digest[i]);
	fsdp_export_put_text(text, "  ");
	fsdp_export_put(text, name.data, name.size);
	fsdp_export_put_text(text, "\n");
}

static bool write_sums(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	const struct fsdp_export *plan = writing->plan;
	struct fsdp_export_text text = { 0 };
	if (!export_open_temporary(writing, &writing->files[plan->file_count],
		    plan->file_count, ret_error))
		return false;
	for (size_t i = 0; i < plan->file_count; i++)
		put_sum(&text, plan->files[i].sha256, plan->files[i].name);
	for (size_t i = 0; i < FSDP_EXPORT_COMPANIONS; i++)
		if (writing->companions[i].path[0] != '\0')
			put_sum(&text, writing->companion_digests[i],
				fsdp_span_text(fsdp_export_companion_name(i)));
	int descriptor = writing->files[plan->file_count].descriptor;
	bool good = text.failed ? fsdp_fail_memory(ret_error)
				: fsdp_export_write_at(descriptor, text.bytes, text.size,
					  0, ret_error);
	free(text.bytes);
	if (good && fsync(descriptor) != 0)
		good = fsdp_fail_errno(ret_error, errno, FSDP_UNKNOWN, "cannot write");
	return good ||
	       fsdp_export_blame(writing, fsdp_span_text(FSDP_EXPORT_SUMS), ret_error);
}

static bool sync_files(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < writing->plan->file_count; i++)
		if (fsync(writing->files[i].descriptor) != 0) {
			fsdp_fail_errno(ret_error, errno, FSDP_UNKNOWN, "cannot write");
			return fsdp_export_blame(
				writing, writing->plan->files[i].name, ret_error);
		}
	return true;
}

/* ---- all of it ---- */

static bool write_folder(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	bool verify = !writing->target->no_verify;
	bool sums = verify && writing->target->file == NULL;
	writing->total = writing->plan->facts.tensor_bytes * (verify ? 2 : 1);
	return open_folder(writing, ret_error) && open_temporaries(writing, ret_error) &&
	       fsdp_export_list_ranges(writing, ret_error) &&
	       export_copy_companions(writing, ret_error) &&
	       fsdp_export_copy(writing, ret_error) && write_heads(writing, ret_error) &&
	       sync_files(writing, ret_error) &&
	       (!verify || export_reread(writing, ret_error)) &&
	       (!sums || write_sums(writing, ret_error)) &&
	       export_name_files(writing, ret_error);
}

/* The files are there; the last one is their index. */
static bool write_index(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	struct fsdp_export_target target = *writing->target;
	size_t index = writing->plan->file_count - 1;
	struct fsdp_export_temporary file = { .descriptor = -1 };
	struct fsdp_export_text head = { 0 };
	target.file = (const char *)writing->plan->files[index].name.data;
	writing->target = &target;
	bool good = open_folder(writing, ret_error) &&
		    fsdp_export_head(writing->plan, index, &head, ret_error) &&
		    export_open_temporary(writing, &file, 0, ret_error) &&
		    fsdp_export_write_at(
			    file.descriptor, head.bytes, head.size, 0, ret_error);
	if (good && fsync(file.descriptor) != 0)
		good = fsdp_fail_errno(ret_error, errno, FSDP_UNKNOWN, "cannot write");
	good = good && export_name_file(writing, &file, target.file, ret_error);
	remove_temporary(writing, &file);
	free(head.bytes);
	return good;
}

static bool write_stream(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	writing->total = writing->plan->facts.tensor_bytes;
	if (writing->plan->file_count == 1)
		return fsdp_export_copy_forwards(writing, ret_error);
	return fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
		"several files cannot go into one stream");
}

bool fsdp_export_write(struct fsdp_export *plan, const struct fsdp_export_target *target,
	struct fsdp_error **ret_error)
{
	struct fsdp_export_target known = { .size = sizeof known };
	memcpy(&known, target, fsdp_min(target->size, sizeof known));
	struct fsdp_writing writing = { .plan = plan, .target = &known, .folder = -1 };
	for (size_t i = 0; i < FSDP_EXPORT_COMPANIONS; i++)
		writing.companions[i].descriptor = -1;
	bool good = plan->index_only       ? write_index(&writing, ret_error)
		    : known.folder != NULL ? write_folder(&writing, ret_error)
					   : write_stream(&writing, ret_error);
	plan->facts.overflowed = atomic_load(&writing.overflowed);
	for (size_t i = 0; writing.files != NULL && i < writing.plan->file_count + 2; i++)
		remove_temporary(&writing, &writing.files[i]);
	for (size_t i = 0; i < FSDP_EXPORT_COMPANIONS; i++)
		remove_temporary(&writing, &writing.companions[i]);
	free(writing.files);
	writing.files = NULL;
	fsdp_export_forget_runs(&writing);
	if (writing.folder >= 0)
		close(writing.folder);
	return good;
}
