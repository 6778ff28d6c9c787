/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_MODEL_DTYPE_H
#define FSDP_MODEL_DTYPE_H

#include <fsdp/model.h>

#include "base/span.h"

/* Ids of dtypes are rows of the table in dtype.c. Row 0 is "unknown". */
enum { FSDP_DTYPE_UNKNOWN = 0 };

/* Whether a global of torch is named as dtypes are: float6_e3m2, uint128, bcomplex64. One
 * that is not in the table is of a later release. */
bool fsdp_dtype_may_be(struct fsdp_span name);

/* "float32" (without `torch.`); also torch's other spellings ("half", "long").
 * FSDP_DTYPE_UNKNOWN if the dtype is unknown. */
uint32_t fsdp_dtype_find(struct fsdp_span name);

/* The dtype of a storage class: "FloatStorage". UntypedStorage gives uint8. */
uint32_t fsdp_dtype_of_storage(struct fsdp_span class_name);

/* The dtype of an old tensor class: "FloatTensor". */
uint32_t fsdp_dtype_of_tensor_class(struct fsdp_span class_name);

/* Bytes of `numel` elements of the logical tensor; false on overflow. */
bool fsdp_dtype_bytes(uint32_t dtype, uint64_t numel, uint64_t *ret_bytes);

/* Whether a tensor of so many dimensions is a lone integer: it counts something, and is
 * learned by nothing. */
bool fsdp_dtype_counts(uint32_t dtype, uint32_t dims);

#endif
