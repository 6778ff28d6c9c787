/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORDER_ANSWER_H
#define ORDER_ANSWER_H

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
#define TEXT_TABLE(...)                                                          \
	{                                                                        \
		.columns = (const struct column[]){ __VA_ARGS__ },               \
		.column_count = sizeof((const struct column[]){ __VA_ARGS__ }) / \
				sizeof(struct column),                           \
		.text_only = true, .indent = 2                                   \
	}
#define NUMBERS(name)                 \
	{                             \
		(name), .right = true \
	}

/* One dump, and what its rank has to do with the collective of the answer. */
struct dump {
	int64_t rank;
	struct fsdp_flight_dump joined;
	const char *part;
};

/* What one run of this command has at hand: the object of the answer, and the context of
 * all records. */
struct orders {
	struct run *run;
	const struct order_options *options;
	const struct fsdp_recordings *recordings; /* all, or those of one run */
	struct fsdp_checkpoint *checkpoint;       /* --names, or NULL */
	size_t count;
	int64_t *places; /* of the handles of one recording: before, then after */
	/* Of the first run whose ranks diverge. */
	struct fsdp_divergence divergence;
	struct fsdp_first_diff first_diff;
	/* Of dumps, or of logs. */
	struct fsdp_flight flight;
	struct dump *dumps; /* by rank */
	size_t dump_count;
	struct writer *words; /* of one sentence */
};

/* "0-2,5"; the list of ranks is cut where it does not fit. */
void order_put_ranks(const int64_t *ranks, size_t count, char *text, size_t room);

/* ---- order-flight.c ---- */

/* Dumps of the Flight Recorder, or logs: the findings about them, and the status. */
int order_check_flight(struct orders *order);
void order_show_flight(struct orders *order);
/* The rows of tables, one per dump, or per rank and group in logs. */
void order_put_dumps(struct orders *order);
/* Of a struct fsdp_flight. */
extern const struct record order_flight_record;

#endif
