/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_CHECKPOINT_PRIVATE_H
#define FSDP_CHECKPOINT_PRIVATE_H

#include "elements/elements-private.h"
#include "io/directory.h"
#include "checkpoint/model.h"

/* Private state of an open checkpoint, for the public functions. */
struct fsdp_checkpoint {
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_limits limits;
	struct fsdp_model model;

	/* Where its bytes are: one source, or a directory by names. */
	struct fsdp_remote *remote; /* reads paths that are URLs, or NULL */
	struct fsdp_source source;
	struct fsdp_folder folder;
	bool is_folder;
	struct fsdp_dir dir; /* of the directory; open if has_dir */
	bool has_dir;
	const char *base;       /* fsdp_checkpoint_base */
	const char *opened;     /* fsdp_checkpoint_opened */
	const char *path;       /* of a file that was opened by itself, or NULL */
	struct fsdp_vec packed; /* members of an archive, in the arena */

	struct fsdp_vec errors;   /* struct fsdp_error *, owned */
	struct fsdp_vec notes;    /* const char * */
	struct fsdp_vec siblings; /* const char *: files that were found next to the named
				     one */
	const char *plan_path;
	bool plan_found;
	uint64_t unread_pickles; /* fsdp_checkpoint_unread */
	bool unseen;
	struct { /* fsdp_checkpoint_last_token; NULL: none was seen */
		uint64_t number;
		const char *file, *token;
	} last_token;
};

/* The source of a file of the model; valid until 64 others were asked for. For the thread
 * that opened the checkpoint; others have their own directory. */
bool fsdp_checkpoint_source(const struct fsdp_checkpoint *checkpoint, uint32_t file,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error);
bool fsdp_checkpoint_source_in(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_folder *folder, uint32_t file, struct fsdp_source *ret_source,
	struct fsdp_error **ret_error);

/* The opened directory, also if it only led to one file of it; or NULL. */
const struct fsdp_folder *fsdp_checkpoint_place(const struct fsdp_checkpoint *checkpoint);

/* If a directory only led to one file, that file's descriptor belongs to the directory,
 * which closes it when many others are requested. Call it before each. */
void fsdp_checkpoint_keep_open(const struct fsdp_checkpoint *checkpoint);

/* Bytes that views may repeat: the limit `expanded-bytes` (elements.c). */
uint64_t fsdp_checkpoint_repeatable(const struct fsdp_checkpoint *checkpoint);

/* Whether training programs load a file of this name, of pickles, with a checkpoint
 * (sidecars.c). */
bool fsdp_checkpoint_loads_beside(struct fsdp_span name);

/* Layout of a piece in its storage, and the storage's position (elements.c). */
struct fsdp_locator;
/* `item` is what the caller read of the piece's item already: all its bytes as they are
 * stored; or NULL. */
bool fsdp_locator_view(struct fsdp_locator *locator, uint32_t piece,
	const struct fsdp_source *item, struct fsdp_view *ret_view,
	struct fsdp_error **ret_error);
/* The source of a file of the model, or of what a view calls one, for the locator's
 * thread; valid until another one was asked for. */
bool fsdp_locator_source(struct fsdp_locator *locator, uint32_t file,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error);

#endif
