/* SPDX-License-Identifier: Apache-2.0 */
/* Any files as a folder. */
#include "tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tar tar = tar_list(data, size);
	tar_walk(&tar);
	return 0;
}
