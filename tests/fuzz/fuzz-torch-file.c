/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as one file given to the door: torch zips, tars and compressed files of them,
 * plans, and what is none of these. Whatever opens is walked to the last fact.
 */
#include "walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct walk_file file = walk_file_new(data, size);
	walk_open(file.path, NULL);
	close(file.fd);
	return 0;
}
