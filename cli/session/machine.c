/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine says: processors, and whether a path is a folder.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "session/answer.h"

bool path_is_folder(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

unsigned jobs_wanted(const struct common_options *common)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	if (common->jobs > 0)
		return (unsigned)common->jobs;
	return cores < 1 ? 1 : cores < 8 ? (unsigned)cores : 8;
}
