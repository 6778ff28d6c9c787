/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any files as a folder: a list of a byte that says how long a name is, the name, three
 * bytes that say how long the data is, the data. They go into a tar, which the door reads
 * as a directory; names with slashes make folders below.
 */
#include "tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILES = 24 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tar tar = { .at = malloc(size + FILES * (size_t)TAR_MEMBER + TAR_END) };
	const uint8_t *end = data + size;
	must(tar.at != NULL);
	for (int i = 0; i < FILES && end - data > 4; i++) {
		char name[TAR_NAME];
		size_t length = *data++ % TAR_NAME;
		if (length + 3 > (size_t)(end - data))
			break;
		memcpy(name, data, length);
		name[length] = '\0';
		data += length;
		size_t bytes = data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16;
		data += 3;
		if (bytes > (size_t)(end - data))
			bytes = (size_t)(end - data);
		tar_put(&tar, name, data, bytes);
		data += bytes;
	}
	tar_walk(&tar);
	return 0;
}
