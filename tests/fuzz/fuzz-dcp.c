/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a distributed checkpoint: four bytes say how long the .metadata is that
 * follows; what is left is the one data file. Both go into a tar, which the door reads as
 * a directory.
 */
#include "tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 4)
		return 0;
	size_t length = data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16;
	data += 4;
	size -= 4;
	if (length > size)
		length = size;
	struct tar tar = { .at = malloc(size + 2 * TAR_MEMBER + TAR_END) };
	must(tar.at != NULL);
	tar_put(&tar, ".metadata", data, length);
	tar_put(&tar, "__0_0.distcp", data + length, size - length);
	tar_walk(&tar);
	return 0;
}
