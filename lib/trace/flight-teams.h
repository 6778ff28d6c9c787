/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_FLIGHT_TEAMS_H
#define FSDP_TRACE_FLIGHT_TEAMS_H

#include "trace/flight.h"

/*
 * The process groups of a job and what each rank did in them. A team is a group by its
 * name and its list of ranks: two groups may be called alike. Ranks are meant by their
 * place among those of the job, ascending.
 */

/* An entry of some rank; those of a team are in order of rank, then of seq, then as they
 * were recorded. */
struct fsdp_flight_item {
	const struct fsdp_flight_entry *entry;
	uint32_t rank;
};

struct fsdp_flight_team {
	struct fsdp_span name, desc;
	/* As pg_config lists it; of a default group that it does not list every rank that
	 * is known; NULL: those that are seen in it. */
	const struct fsdp_flight_roster *roster;
	uint32_t order; /* of first use */
	struct fsdp_flight_item *collectives, *p2p;
	size_t collective_count, p2p_count;
};

/* By which calls of ranks are compared; 0: equal to everything. */
struct fsdp_flight_signature {
	uint32_t op, size, dtype;
};

/* What ranks differ in, or what they wait for, in one team. */
struct fsdp_flight_fault {
	enum fsdp_flight_verdict verdict; /* STUCK or MISMATCH */
	const char *problem;
	const struct fsdp_flight_team *team;
	int64_t seq, time_ns;
	const struct fsdp_flight_item *first; /* of the lowest rank that entered it */
	uint32_t *entered, *missing, *culprits;
	size_t entered_count, missing_count, culprit_count;
	const struct fsdp_flight_item *expected; /* NULL: without a majority */
	const struct fsdp_flight_item **found;   /* one per culprit of a mismatch */
};

/* A collective that did not end on the device of a rank, and did on that of another. */
struct fsdp_flight_stop {
	const struct fsdp_flight_team *team;
	const struct fsdp_flight_item *item; /* NULL: none */
	uint32_t other;                      /* rank that finished it */
};

struct fsdp_flight_job {
	const struct fsdp_flight_rank *ranks;
	size_t count, heard_count;
	struct fsdp_arena *arena;
	const struct fsdp_limits *limits;
	struct fsdp_vec rosters;         /* struct fsdp_flight_roster, each list once */
	struct fsdp_flight_roster world; /* ranks that any dump names */
	struct fsdp_flight_signature **signatures; /* of each rank's calls */
	struct fsdp_vec teams;  /* struct fsdp_flight_team, in order of first use */
	struct fsdp_vec faults; /* struct fsdp_flight_fault, by the team's name */
	/* By rank: it entered what another of the group never enqueued, or the reverse. */
	bool *ahead, *behind;
	struct fsdp_flight_stop *stops; /* by rank: the earliest */
	unsigned char *marks; /* of each rank: what is in hand uses it, and clears it */
	struct fsdp_error *error;
};

static inline bool fsdp_flight_is_heard(const struct fsdp_flight_job *job, size_t rank)
{
	return job->ranks[rank].rows != NULL;
}

static inline const struct fsdp_flight_called *fsdp_flight_called_of(
	const struct fsdp_flight_job *job, const struct fsdp_flight_item *item)
{
	return fsdp_vec_at(&job->ranks[item->rank].rows->calls, item->entry->call);
}

static inline struct fsdp_flight_team *fsdp_flight_team_at(
	const struct fsdp_flight_job *job, size_t index)
{
	return fsdp_vec_at(&job->teams, index);
}

static inline struct fsdp_flight_fault *fsdp_flight_fault_at(
	const struct fsdp_flight_job *job, size_t index)
{
	return fsdp_vec_at(&job->faults, index);
}

/* The place of a rank, or SIZE_MAX: no file is of it. */
size_t fsdp_flight_place_of(const struct fsdp_flight_job *job, int64_t rank);

/* flight-teams.c: fills world, signatures and teams. False: job->error. */
bool fsdp_flight_gather(struct fsdp_flight_job *job);

/* The ranks of a team as far as they are known, ascending; NULL: out of memory. */
const int64_t *fsdp_flight_team_ranks(const struct fsdp_flight_job *job,
	const struct fsdp_flight_team *team, size_t *ret_count);

/* flight-faults.c: the first fault of each team, and which ranks are ahead, late or
 * stopped. False: out of memory. */
bool fsdp_flight_find_faults(struct fsdp_flight_job *job);

#endif
