/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ELEMENT_BYTES_H
#define ELEMENT_BYTES_H

#include <fsdp/model.h>

/* Whether its elements are in some file: those of sparse and meta tensors are not. */
bool elements_are_stored(const struct fsdp_tensor *tensor);

/* Bytes that elements_copy needs for so many elements. */
size_t elements_room(const struct fsdp_tensor *tensor, uint64_t count);

/*
 * Reads `count` elements of a tensor from `first` on; of those that share a byte each gets
 * one of its own. There must be as many, and elements_room at `to`. `tensor` is what
 * fsdp_tensor says of `index`. False: they cannot be read.
 */
bool elements_copy(struct fsdp_locator *locator, uint32_t index,
	const struct fsdp_tensor *tensor, uint64_t first, uint64_t count,
	unsigned char *to, struct fsdp_error **ret_error);

#endif
