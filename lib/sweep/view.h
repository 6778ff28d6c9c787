/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SWEEP_VIEW_H
#define FSDP_SWEEP_VIEW_H

#include "model/model.h"

/* How a piece lies in a storage, and where that storage's record lies in a file. */
struct fsdp_view {
	uint64_t record, stored_size; /* bytes of the file, as stored */
	uint64_t storage_bytes;       /* after inflating */
	uint64_t storage_offset;      /* elements */
	uint32_t
		file; /* of the model; or a part of it that was unpacked: fsdp_locator_file */
	uint32_t crc; /* recorded of the record after inflating, if has_crc */
	bool has_crc;
	uint16_t method; /* of a zip: 0 stored, 8 deflated */
	bool big_endian;
	bool conj, neg; /* what Tensor.conj() and torch._neg_view() make of the bytes */
	uint32_t dtype, dims;
	int64_t shape[FSDP_DIMS_MAX], strides[FSDP_DIMS_MAX]; /* elements */
};

/* Strides of the shape in C order. */
void fsdp_view_set_contiguous(struct fsdp_view *view);
bool fsdp_view_is_contiguous(const struct fsdp_view *view);

/* First byte of the view within its storage and the one behind its last; 0 and 0 without
 * elements. False: it does not lie in the storage. */
bool fsdp_view_bytes(
	const struct fsdp_view *view, uint64_t *ret_begin, uint64_t *ret_end);

#endif
