/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_UNITS_H
#define FSDP_TRACE_KINETO_UNITS_H

#include "trace/collectives.h"
#include "trace/kineto-busy.h"
#include "trace/kineto-launches.h"
#include "trace/kineto-steps.h"
#include "trace/kineto-unit.h"
#include "trace/kineto-words.h"

/*
 * The units of FSDP in a trace: its annotations on the host, and which collective was
 * issued in which of them. A collective on the device belongs to the annotation in which
 * it was launched; one on the host to that in which it begins, on any thread of the
 * process.
 */
struct fsdp_kineto_units {
	bool wanted; /* else nothing is kept */
	bool by_step;
	struct fsdp_kineto_words *words;
	struct fsdp_vec notes;      /* struct fsdp_kineto_unit_span */
	struct fsdp_vec process_of; /* uint32_t, by the id of a thread */
	struct fsdp_vec streams; /* uint32_t: the thread of each kernel, in the order of
				       the file */
	struct fsdp_vec compute_ns; /* int64_t, by the id of a stream */
	bool seen[FSDP_UNIT_KINDS];
};

/* An annotation. */
struct fsdp_kineto_unit_span {
	int64_t ts_ns, dur_ns, pg;
	uint32_t thread, unit; /* unit: id of a word */
	unsigned char kind;
};

/* Lists lie in the arena. All that return bool are false when out of memory. */
void fsdp_kineto_units_init(struct fsdp_kineto_units *units,
	struct fsdp_kineto_words *words, struct fsdp_arena *arena,
	const struct fsdp_recording_options *options);

/* Any annotation of the host. Those of other things are passed over. */
bool fsdp_kineto_units_note(struct fsdp_kineto_units *units, struct fsdp_span name,
	const struct fsdp_kineto_unit_span *span);

/* The process of a thread. */
bool fsdp_kineto_units_thread(
	struct fsdp_kineto_units *units, uint32_t thread, uint32_t process);
uint32_t fsdp_kineto_units_process(
	const struct fsdp_kineto_units *units, uint32_t thread);

/* The next kernel of a collective, and any that computes. */
bool fsdp_kineto_units_stream(struct fsdp_kineto_units *units, uint32_t stream);
bool fsdp_kineto_units_compute(
	struct fsdp_kineto_units *units, uint32_t stream, int64_t dur_ns);

/* Whether launches are needed: there are annotations. */
bool fsdp_kineto_units_any(const struct fsdp_kineto_units *units);

/* Forgets annotations that do not begin in the steps of --steps. */
void fsdp_kineto_units_choose(
	struct fsdp_kineto_units *units, const struct fsdp_kineto_steps *steps);

/*
 * At the end, with all collectives, and where each of them was issued, by its place in the
 * file. `busy` is when the device was busy, or NULL on the host; steps are sorted. Fills
 * in the units of the recording.
 */
bool fsdp_kineto_units_settle(struct fsdp_kineto_units *units,
	const struct fsdp_collectives *all, const struct fsdp_kineto_place *places,
	const struct fsdp_kineto_busy *busy, const struct fsdp_kineto_steps *steps,
	struct fsdp_recording *recording);

#endif
