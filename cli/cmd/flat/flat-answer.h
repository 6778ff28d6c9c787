/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LEDGER_H
#define LEDGER_H

#include "part/tensor-row.h"
#include "session/session.h"

/*
 * What `flat` answers with: which units, which ranks of them, and perhaps one element.
 * flat.c finds out what was asked for and fills this; flat-answer.c shows it.
 */
struct flat_options {
	const char *unit, *param, *at, *units_from;
};

struct ledger {
	struct row_context row; /* what records are handed */
	struct run *run;
	const struct flat_options *options;
	struct selection *selection;
	struct row_buffers buffers;
	uint32_t *files; /* by rank of the job: its file, or FSDP_NONE */
	size_t file_count;

	/* What is asked of. */
	uint32_t *units;
	size_t unit_count;
	uint32_t only_entry;  /* of the one unit, or FSDP_NONE: all */
	uint32_t only_rank;   /* shard rank, or FSDP_NONE: those of --rank */
	uint32_t answer_unit; /* of the one element, or FSDP_NONE */
	struct fsdp_flat_place answer;
	int64_t *index; /* of the answer, in the parameter's shape; NULL: not known */
	uint32_t dims;
	int status;
};

/* The full name of a parameter. Valid until the next one. */
struct text ledger_full_name(struct ledger *ledger, uint32_t fqn);

/* The name of a unit's module; empty for the root. Valid until the next one. */
struct text ledger_unit_name(struct ledger *ledger, uint32_t unit);

/* The flat parameter of a unit that has one. */
struct fsdp_flat ledger_flat(const struct ledger *ledger, uint32_t unit);

/* Whether a shard rank of a unit was asked for. */
bool ledger_takes_rank(struct ledger *ledger, uint32_t unit, uint32_t rank);

extern const struct record flat_record;

/* Begins the answer and gives all of it, to people and to programs. */
void ledger_show(struct ledger *ledger);

#endif
