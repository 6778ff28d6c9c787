/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a sharding plan: standing for itself, and joined with a small checkpoint
 * that has some of the names which the seeds have.
 */
#include "compose.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TENSOR(rows, columns)                                                         \
	"ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\n" \
	"X\1\0\0\0000X\3\0\0\0cpuM\xa0\0tQK\0K" rows "K" columns "\206K" columns      \
	"K\1\206\211ccollections\nOrderedDict\n)RtR"

/* {"head.weight": 10 x 16, "block.fc.weight": 8 x 16, "block.0": 7}, two on one storage.
 */
static const char pickle[] = "\200\2}(X\x0b\0\0\0head.weight" TENSOR(
	"\n", "\x10") "X\x0f\0\0\0block.fc.weight" TENSOR("\x08",
	"\x10") "X\7\0\0\0block.0K\7u.";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct walk_file plan = walk_file_new(data, size);
	struct bytes zip = compose_torch(pickle, sizeof pickle - 1);
	struct walk_file file = walk_file_new(zip.at, zip.size);
	free(zip.at);
	walk_open(plan.path, NULL);
	walk_open(file.path, plan.path);
	close(file.fd);
	close(plan.fd);
	return 0;
}
