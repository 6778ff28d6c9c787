/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies what loaders want beside weights: configuration and tokenizer, as they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elements/content-hash.h"
#include "export/writing.h"

/* Larger ones are no configuration and no tokenizer. */
#define COMPANION_BYTES ((off_t)256 << 20)

static const char *const names[] = { "config.json", "generation_config.json",
	"preprocessor_config.json", "processor_config.json", "tokenizer.json",
	"tokenizer_config.json", "tokenizer.model", "special_tokens_map.json",
	"added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "spiece.model",
	"chat_template.jinja", "chat_template.json" };
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

uint64_t fsdp_export_companion_bytes(const char *path)
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
		good = fsdp_export_open_temporary(writing, &writing->companions[index],
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

bool fsdp_export_copy_companions(
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
