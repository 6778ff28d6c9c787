/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_PICKLES_PRIVATE_H
#define FSDP_PICKLES_PRIVATE_H

#include <fsdp/pickle.h>

#include "base/vec.h"
#include "format/torch/torch.h"

/* One pickle of the file, as it was read. */
struct fsdp_listed {
	struct fsdp_pickles_stream facts;
	struct fsdp_span bytes;
	struct fsdp_pickle *pickle; /* NULL: not even its opcodes could be followed */
	struct fsdp_error *error;   /* owned */
	struct fsdp_vec globals, refusals; /* what is handed out of them */
};

struct fsdp_pickles {
	struct fsdp_limits limits;
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_source source;
	struct fsdp_model model; /* of which judging needs the arena and the findings */
	struct fsdp_vec list;    /* struct fsdp_listed */
};

static inline const struct fsdp_listed *fsdp_listed(
	const struct fsdp_pickles *pickles, size_t stream)
{
	return fsdp_vec_at(&pickles->list, stream);
}

#endif
