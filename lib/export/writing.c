/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes files under temporary names, until all of them are on the disk and were read
 * back. On failure none of them stays.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "export/writing.h"

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

static bool check_room(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	uint64_t needed = writing->plan->facts.file_bytes, room;
	struct statvfs status;
	if (!fsdp_add(needed, fsdp_export_companion_bytes(writing->target->config_folder),
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
	return check_room(writing, ret_error);
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
		if (!fsdp_export_open_temporary(
			    writing, &writing->files[i], i, ret_error))
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

static void remove_temporaries(struct fsdp_writing *writing)
{
	for (size_t i = 0; writing->files != NULL && i < writing->plan->file_count + 2;
		i++)
		remove_temporary(writing, &writing->files[i]);
	for (size_t i = 0; i < FSDP_EXPORT_COMPANIONS; i++)
		remove_temporary(writing, &writing->companions[i]);
	free(writing->files);
	writing->files = NULL;
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
	if (!fsdp_export_open_temporary(writing, &writing->files[plan->file_count],
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
	       fsdp_export_copy_companions(writing, ret_error) &&
	       fsdp_export_copy(writing, ret_error) && write_heads(writing, ret_error) &&
	       sync_files(writing, ret_error) &&
	       (!verify || fsdp_export_reread(writing, ret_error)) &&
	       (!sums || write_sums(writing, ret_error)) &&
	       fsdp_export_name_files(writing, ret_error);
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
		    fsdp_export_open_temporary(writing, &file, 0, ret_error) &&
		    fsdp_export_write_at(
			    file.descriptor, head.bytes, head.size, 0, ret_error);
	if (good && fsync(file.descriptor) != 0)
		good = fsdp_fail_errno(ret_error, errno, FSDP_UNKNOWN, "cannot write");
	good = good && fsdp_export_name_file(writing, &file, target.file, ret_error);
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
	remove_temporaries(&writing);
	fsdp_export_forget_runs(&writing);
	if (writing.folder >= 0)
		close(writing.folder);
	return good;
}
