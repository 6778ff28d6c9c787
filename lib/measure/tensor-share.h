/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_MEASURE_TENSOR_SHARE_H
#define FSDP_MEASURE_TENSOR_SHARE_H

#include <fsdp/model.h>

/* Which of `count` tensors (NULL: the first ones) belong to share `part` of `parts`; shares
 * follow the order in which tensors are read, so that each reads few files. Fails only when
 * memory ends. */
bool fsdp_share_mark(const struct fsdp_checkpoint *checkpoint, const uint32_t *tensors,
	size_t count, uint32_t part, uint32_t parts, bool *ret_taken,
	struct fsdp_error **ret_error);

#endif
