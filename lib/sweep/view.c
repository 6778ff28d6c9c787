/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of strides.
 */
#include "base/num.h"
#include "model/dtype.h"
#include "sweep/view.h"

void fsdp_view_set_contiguous(struct fsdp_view *view)
{
	uint64_t stride = 1; /* may wrap if there are no elements: it is never followed */
	for (size_t i = view->dims; i-- > 0;) {
		view->strides[i] = (int64_t)stride;
		stride *= view->shape[i] > 0 ? (uint64_t)view->shape[i] : 1;
	}
}

bool fsdp_view_is_contiguous(const struct fsdp_view *view)
{
	uint64_t stride = 1; /* may wrap: such a view has no bytes to be read */
	for (size_t i = 0; i < view->dims; i++)
		if (view->shape[i] == 0)
			return true;
	for (size_t i = view->dims; i-- > 0;) {
		if (view->shape[i] != 1 && (uint64_t)view->strides[i] != stride)
			return false;
		stride *= (uint64_t)view->shape[i];
	}
	return true;
}

bool fsdp_view_bytes(const struct fsdp_view *view, uint64_t *ret_begin, uint64_t *ret_end)
{
	uint64_t end = view->storage_offset;
	*ret_begin = *ret_end = 0;
	for (size_t i = 0; i < view->dims; i++)
		if (view->shape[i] == 0)
			return true;
	for (size_t i = 0; i < view->dims; i++) {
		uint64_t reach;
		if (!fsdp_mul((uint64_t)view->shape[i] - 1, (uint64_t)view->strides[i],
			    &reach) ||
			!fsdp_add(end, reach, &end))
			return false;
	}
	uint64_t begin;
	if (!fsdp_add(end, 1, &end) ||
		!fsdp_dtype_bytes(view->dtype, view->storage_offset, &begin) ||
		!fsdp_dtype_bytes(view->dtype, end, ret_end) ||
		*ret_end > view->storage_bytes)
		return false;
	*ret_begin = begin;
	return true;
}
