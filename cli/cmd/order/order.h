/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORDER_H
#define ORDER_H

#include "render/record.h"
#include "run/answer.h"

/* What the files of `order` share: how it answers in text and in data. */

struct order_options {
	bool first_diff;
	const char *names;
	bool strict;
	int64_t head;
};

/* What one run of this command has at hand. */
struct listing {
	struct run *run;
	const struct order_options *options;
	const struct fsdp_recordings *recordings;
	struct fsdp_checkpoint *checkpoint; /* --names, or NULL */
	size_t count;
};

/* By its index; NULL: there is none. */
const struct fsdp_handle *order_handle(
	const struct fsdp_exec_order *order, int64_t index);

/* The recordings of handles, by rank. */
const struct fsdp_recording *order_nth(const struct listing *listing, size_t nth);

/* Whether this one begins a group: none before it did the same. */
bool order_begins_group(const struct fsdp_first_diff *diff, size_t index);

/* ---- order-data.c ---- */

extern const struct record order_answer;

/* All that machines read. False: no memory. */
bool order_put_data(struct listing *listing);

#endif
