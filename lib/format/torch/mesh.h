/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_FORMAT_TORCH_MESH_H
#define FSDP_FORMAT_TORCH_MESH_H

#include "format/torch/torch.h"

/* Device meshes, and what is needed to read an object of torch.distributed. */
enum {
	FSDP_TORCH_MESH_DIMS = 8,
	FSDP_TORCH_MESH_RANKS = 1 << 24,
};

/* Of all that one file has of a kind. False: it is spent, which costs the place, not the
 * tensor; the first time it is kept in `over_limit`, which the container takes. */
bool fsdp_torch_pay(
	struct fsdp_torch *torch, enum fsdp_limit limit, uint64_t *spent, uint64_t cost);

/* A field of a dict of them, of a few. */
fsdp_ref fsdp_torch_field_in(
	struct fsdp_pickle *pickle, fsdp_ref fields, const char *name);

/* A field of an object, whichever way its state was given. */
fsdp_ref fsdp_torch_field(struct fsdp_pickle *pickle, fsdp_ref object, const char *name);

/* The largest world that a file names; whole: of exactly so many ranks. */
void fsdp_torch_tell_world(struct fsdp_torch *torch, uint32_t size, bool whole);

/* False without an error: it is not a mesh. Its ranks are not read yet. */
bool fsdp_torch_read_mesh(struct fsdp_torch *torch, struct fsdp_pickle *pickle,
	fsdp_ref ref, struct fsdp_torch_mesh *mesh, struct fsdp_error **ret_error);

/* Its index in `meshes`, perhaps that of an equal one. False: out of memory. */
bool fsdp_torch_keep_mesh(struct fsdp_torch *torch, const struct fsdp_torch_mesh *mesh,
	uint32_t *ret_index, struct fsdp_error **ret_error);

/* Reads its ranks, bounded by the limit `mesh-ranks`, and makes it one of the model.
 * Unreadable ranks cost the mesh its ranks. False: out of memory. */
bool fsdp_torch_resolve_mesh(struct fsdp_torch *torch, struct fsdp_torch_mesh *mesh,
	fsdp_torch_read_storage read, void *context, struct fsdp_error **ret_error);

#endif
