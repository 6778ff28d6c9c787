/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the data.pkl of an otherwise sound torch zip with a few storages, so that
 * mutations meet the reader of tensors and not that of containers.
 */
#include "compose.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes zip = compose_torch(data, size);
	struct walk_file file = walk_file_new(zip.at, zip.size);
	free(zip.at);
	walk_open(file.path, NULL);
	close(file.fd);
	return 0;
}
