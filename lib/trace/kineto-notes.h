/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_NOTES_H
#define FSDP_TRACE_KINETO_NOTES_H

#include "trace/collectives.h"
#include "trace/types.h"

/*
 * Notes of the backend ("nccl:all_gather") on the threads of the host.
 */
struct fsdp_kineto_notes {
	struct fsdp_vec list; /* struct note */
	struct fsdp_vec told; /* struct told, one for each that was added as `alone` */
};

void fsdp_kineto_notes_init(struct fsdp_kineto_notes *notes, struct fsdp_arena *arena);

/* Takes times and type of `comm`; if the note is the collective itself, for no kernel came
 * before it (`alone`), bytes, sort and seq as well. False: out of memory. */
bool fsdp_kineto_notes_add(struct fsdp_kineto_notes *notes, const struct fsdp_comm *comm,
	uint32_t thread, bool alone);

/* All notes as collectives, behind the others of the list; all were added as `alone`.
 * False: out of memory. */
bool fsdp_kineto_notes_list(
	const struct fsdp_kineto_notes *notes, struct fsdp_vec *comms);

/* When a note begins, and on which thread. */
void fsdp_kineto_notes_place(const struct fsdp_kineto_notes *notes, size_t index,
	int64_t *ret_ts_ns, uint32_t *ret_thread);

struct fsdp_kineto_start {
	int64_t ts_ns;
	uint32_t thread;
	uint32_t index; /* of the answer */
};
enum { FSDP_KINETO_NO_NOTE = 255 };

/* For each start the type of the shortest note that is open then on its thread, or
 * FSDP_KINETO_NO_NOTE. Sorts the starts. False: out of memory. */
bool fsdp_kineto_notes_find(const struct fsdp_kineto_notes *notes,
	struct fsdp_kineto_start *starts, size_t count, unsigned char *ret_types);

#endif
