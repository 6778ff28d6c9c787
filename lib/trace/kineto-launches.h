/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_LAUNCHES_H
#define FSDP_TRACE_KINETO_LAUNCHES_H

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

/*
 * Which collective a kernel is that its args do not name. The host launches it by a call
 * with the same correlation, while a note is open on the thread of the call; the shortest
 * such note tells. In a trace without kernels the notes are the collectives.
 *
 * A long trace has many launches, of which few are needed: now and then the others are
 * forgotten.
 */
enum { FSDP_KINETO_LAUNCHES = 8 << 10 }; /* as many are kept in any case */

struct fsdp_kineto_launch {
	int64_t correlation, ts_ns;
	uint32_t thread;
	bool is_launch; /* "Launch" is in its name */
};

/* A kernel that waits for its launch, mostly because its args do not name it. */
struct fsdp_kineto_unnamed {
	int64_t correlation;
	int64_t bytes_out; /* the bytes, if it is an all-gather */
	uint32_t index;    /* in the list of collectives */
	bool has_correlation;
	bool named; /* only its launch is wanted */
};

/* Where a collective was issued; lane 0: not known. */
struct fsdp_kineto_place {
	int64_t ts_ns;
	uint32_t lane; /* a thread */
};

struct fsdp_kineto_launches {
	struct fsdp_arena arena;
	struct fsdp_kineto_notes notes;
	struct fsdp_vec list;    /* struct fsdp_kineto_launch */
	struct fsdp_vec unnamed; /* struct fsdp_kineto_unnamed */
	/* correlations of kernels that args name: of those since launches were last
	 * forgotten, and of those between that and the time before */
	int64_t named[FSDP_KINETO_LAUNCHES], named_before[FSDP_KINETO_LAUNCHES];
	size_t named_count, named_before_count;
	bool all;       /* of named kernels as well; it may become false */
	size_t ceiling; /* at this length of the list launches are forgotten */
	bool forgotten; /* some were */
	int64_t least;  /* the lowest correlation of all */
	bool again;     /* the list is filled anew, in the second pass */
};

/* Those that return bool are false when out of memory. */
void fsdp_kineto_launches_init(
	struct fsdp_kineto_launches *launches, struct fsdp_budget *budget, bool all);
void fsdp_kineto_launches_done(struct fsdp_kineto_launches *launches);

/* A kernel that is to be resolved. */
bool fsdp_kineto_launches_unnamed(
	struct fsdp_kineto_launches *launches, const struct fsdp_kineto_unnamed *kernel);
/* A kernel that its args name: its launch is of no use. */
void fsdp_kineto_launches_named(
	struct fsdp_kineto_launches *launches, int64_t correlation);
bool fsdp_kineto_launches_add(
	struct fsdp_kineto_launches *launches, const struct fsdp_kineto_launch *launch);

/* Whether a kernel has no launch, and some were forgotten. */
bool fsdp_kineto_launches_miss(
	const struct fsdp_kineto_launches *launches, bool *ret_missing);
/* Before the second pass: from now on all launches are kept. */
void fsdp_kineto_launches_restart(struct fsdp_kineto_launches *launches);

/* Gives each unnamed kernel in the list of collectives its type and how it is known; an
 * empty list is filled with the notes. Call it once. */
bool fsdp_kineto_launches_resolve(
	struct fsdp_kineto_launches *launches, struct fsdp_vec *comms);

/* Then, if all launches are wanted: where each of so many collectives was issued, in the
 * order of the file; notes where they are. False: out of memory. */
bool fsdp_kineto_launches_places(const struct fsdp_kineto_launches *launches, bool device,
	size_t count, struct fsdp_kineto_place *ret_places);

#endif
