/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives files that are whole and on the disk their names.
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

/* What is to be replaced goes first, or a run that is killed here would leave a mixture
 * of both. */
static void remove_weights(struct fsdp_writing *writing)
{
	int descriptor = openat(writing->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = descriptor >= 0 ? fdopendir(descriptor) : NULL;
	const struct dirent *entry;
	unlinkat(writing->folder, "model.safetensors.index.json", 0);
	unlinkat(writing->folder, FSDP_EXPORT_SUMS, 0);
	while (folder != NULL && (entry = readdir(folder)) != NULL)
		if (is_weights(entry->d_name))
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

/* What lies beside first, then files in order: the index is the last. */
bool fsdp_export_name_files(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	size_t count = writing->plan->file_count, named = 0;
	if (writing->target->file == NULL && writing->target->force)
		remove_weights(writing);
	bool good = fsdp_export_name_file(
		writing, &writing->files[count], FSDP_EXPORT_SUMS, ret_error);
	for (size_t i = 0; good && i < FSDP_EXPORT_COMPANIONS; i++)
		good = fsdp_export_name_file(writing, &writing->companions[i],
			fsdp_export_companion_name(i), ret_error);
	for (; good && named < count; named++)
		good = fsdp_export_name_file(writing, &writing->files[named],
			name_of(writing, named), ret_error);
	if (good && fsync(writing->folder) != 0)
		good = fsdp_fail_errno(ret_error, errno, FSDP_UNKNOWN, "cannot write") ||
		       fsdp_export_blame(writing, FSDP_SPAN(""), ret_error);
	if (good)
		return true;
	for (size_t i = 0; i < named; i++)
		unlinkat(writing->folder, name_of(writing, i), 0);
	if (writing->target->file == NULL)
		unlinkat(writing->folder, FSDP_EXPORT_SUMS, 0);
	return false;
}
