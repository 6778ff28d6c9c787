/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_CHECKPOINT_PICKLES_PRIVATE_H
#define FSDP_CHECKPOINT_PICKLES_PRIVATE_H

#include <fsdp/pickle.h>
#include <fsdp/checkpoint.h>

#include "base/arena.h"
#include "formats/torch/torch.h"

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
	struct fsdp_model model; /* the check needs its arena and its findings */
	struct fsdp_vec list;    /* struct fsdp_listed */
};

static inline const struct fsdp_listed *fsdp_listed(
	const struct fsdp_pickles *pickles, size_t stream)
{
	return fsdp_vec_at(&pickles->list, stream);
}

/* What the pickle of the values makes: of a zip data.pkl, of a stream of torch.save before
 * 1.6 the fourth. Texts are copied. False: out of memory. */
bool fsdp_pickles_root(const struct fsdp_pickles *pickles, struct fsdp_arena *arena,
	struct fsdp_scan_root *ret_root);

#endif
