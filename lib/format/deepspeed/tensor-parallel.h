/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_FORMAT_DEEPSPEED_JOIN_H
#define FSDP_FORMAT_DEEPSPEED_JOIN_H

#include "format/deepspeed/slicing.h"

/* The slices of a model, each as tensors of its own. */
struct fsdp_join {
	struct fsdp_reading *reading;
	struct fsdp_slicing *slicing;
	uint32_t first_tensor,
		first_piece;    /* of the model: all from here on are theirs */
	uint32_t slices, ranks; /* in all; in each stage of a pipeline */
	uint32_t *begin;        /* of a slice its first tensor */
	size_t averaged; /* filled in: parameters that are to stay each rank's own */
};

/* Puts together those of one name that fit; the others stay as they are. */
bool fsdp_join_slices(struct fsdp_join *join, struct fsdp_error **ret_error);

#endif
