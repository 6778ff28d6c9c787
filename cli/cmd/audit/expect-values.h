/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPECT_VALUES_H
#define EXPECT_VALUES_H

#include <fsdp/elements.h>

/* One of two tensors of the same shape and dtype. */
struct compared_tensor {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_locator *locator;
	uint32_t tensor;
};

struct difference {
	uint64_t first; /* the first element that differs, or UINT64_MAX */
	uint64_t count, elements;
};

/* Compares their elements, bit for bit. Tensors that repeat themselves to more than sixteen
 * times what the files hold are too long: false, and *ret_error stays as it is. False also
 * if one cannot be read. */
bool compare_elements(const struct compared_tensor pair[2], struct difference *ret,
	struct fsdp_error **ret_error);

#endif
