/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files under temporary names, and where errors say that they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "export/writing.h"

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

bool fsdp_export_open_temporary(struct fsdp_writing *writing,
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
