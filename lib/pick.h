/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_PICK_H
#define FSDP_PICK_H

#include "checkpoint-private.h"

/* Files of one folder that are one checkpoint together. In the checkpoint's arena. */
struct fsdp_pick {
	const char *folder;  /* as the user would type it */
	uint32_t *positions; /* in its list, ascending, each once */
	size_t count;
};

/* Several files that the user named. Opens their folder as the checkpoint's. */
bool fsdp_pick_paths(struct fsdp_checkpoint *checkpoint, const char *const *paths,
	size_t count, struct fsdp_pick *ret_pick, struct fsdp_error **ret_error);

/* One rank's file and the others of its set, all of its folder, likewise. */
bool fsdp_pick_set(struct fsdp_checkpoint *checkpoint, const char *path,
	struct fsdp_pick *ret_pick, struct fsdp_error **ret_error);

#endif
