/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORDER_H
#define ORDER_H

#include <fsdp/order.h>

#include "render/record.h"
#include "session/session.h"

/* What the files of `order` share: how it answers in text and in data. */

struct order_options {
	bool first_diff;
	const char *names;
	const char *rank_regex;
	bool strict;
	int64_t head;
};

/* A table for people. */
#define TEXT_TABLE(name, list)                                                    \
	{                                                                         \
		.key = (name), .columns = (list),                                 \
		.column_count = sizeof(list) / sizeof *(list), .text_only = true, \
		.indent = 2                                                       \
	}

/* What one run of this command has at hand. */
struct listing {
	struct run *run;
	const struct order_options *options;
	const struct fsdp_recordings *recordings;
	struct fsdp_checkpoint *checkpoint; /* --names, or NULL */
	size_t count;
};

/* The object of the answer, and the context of all records. */
struct order_data {
	struct listing *listing;
	size_t count; /* of its recordings */
	/* For what is made of one recording: its parameters sorted, or the places of
	 * its handles, before and after. */
	int64_t *scratch;
	struct fsdp_divergence divergence;
	struct fsdp_first_diff first_diff;
	/* The run of these: the first whose ranks diverge. */
	struct listing parts;
	struct fsdp_flight flight;
};

/* By its index; NULL: none. */
const struct fsdp_handle *order_handle(
	const struct fsdp_exec_order *order, int64_t index);

/* The recordings of handles, by rank. */
const struct fsdp_recording *order_nth(const struct listing *listing, size_t nth);

/* Two recordings of one rank are of two runs: those of one run. */
struct listing order_run(const struct listing *listing, size_t nth);

/* Whether the ranks of a run part. */
bool order_parts(const struct listing *run);

/* Whether this one begins a group: none before it did the same. */
bool order_begins_group(const struct fsdp_first_diff *diff, size_t index);

/* "0-2,5"; the list of ranks is cut where it does not fit. */
void order_put_ranks(const int64_t *ranks, size_t count, char *text, size_t room);

/* For qsort. */
static inline int order_compare_numbers(const void *a, const void *b)
{
	const int64_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

/* ---- order-flight.c ---- */

/* Dumps of the Flight Recorder: the findings about them, and the status. */
int order_check_flight(struct listing *listing);
/* False: out of memory. */
bool order_show_flight(struct listing *listing);
/* The rows of tables, one per dump. */
void order_put_dumps(struct listing *listing, struct subject subject);
/* Of a struct fsdp_flight. */
extern const struct record order_flight_record;

/* ---- order-data.c ---- */

extern const struct record order_answer;

/* All that machines read. False: no memory. */
bool order_put_data(struct listing *listing);

#endif
