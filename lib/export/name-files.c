/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives files that are whole and on the disk their names, so that a loader finds all of
 * them or fails, wherever the process is killed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "export/writing.h"

/* Whether a loader would take a file for weights of this folder: model.safetensors, a
 * shard, or their index. */
static bool is_weights(const char *name)
{
	struct fsdp_span rest;
	if (!fsdp_span_behind(fsdp_span_text(name), "model", &rest))
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

/* All but one of this name. */
static void remove_weights(struct fsdp_writing *writing, const char *but)
{
	int descriptor = openat(writing->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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

bool fsdp_export_name_file(struct fsdp_writing *writing,
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
	return fsdp_export_open_temporary(writing, empty, count + 1, ret_error) &&
	       fsdp_export_name_file(writing, empty,
		       name_of(writing, last_of(writing->plan)), ret_error);
}

static bool name_others(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	size_t count = writing->plan->file_count, last = last_of(writing->plan);
	if (writing->target->force)
		remove_weights(writing, name_of(writing, last));
	bool good = fsdp_export_name_file(
		writing, &writing->files[count], FSDP_EXPORT_SUMS, ret_error);
	for (size_t i = 0; good && i < FSDP_EXPORT_COMPANIONS; i++)
		good = fsdp_export_name_file(writing, &writing->companions[i],
			fsdp_export_companion_name(i), ret_error);
	for (size_t i = 0; good && i < count; i++)
		good = i == last || fsdp_export_name_file(writing, &writing->files[i],
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

static bool name_folder(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	size_t last = last_of(writing->plan);
	if (put_placeholder(writing, ret_error) && sync_folder(writing, ret_error) &&
		name_others(writing, ret_error) && sync_folder(writing, ret_error) &&
		fsdp_export_name_file(writing, &writing->files[last],
			name_of(writing, last), ret_error) &&
		sync_folder(writing, ret_error))
		return true;
	remove_named(writing);
	return false;
}

bool fsdp_export_name_files(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	struct fsdp_export_temporary *only = &writing->files[0];
	if (writing->target->file == NULL)
		return name_folder(writing, ret_error);
	if (fsdp_export_name_file(writing, only, name_of(writing, 0), ret_error) &&
		sync_folder(writing, ret_error))
		return true;
	remove_if_named(writing, only, name_of(writing, 0));
	return false;
}
