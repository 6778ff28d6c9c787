/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_FORMAT_TRAINER_PARAMETER_NUMBERS_H
#define FSDP_FORMAT_TRAINER_PARAMETER_NUMBERS_H

#include "base/table.h"
#include "format/format.h"
#include "format/trainer/parameter-order.h"

/*
 * The numbers of an optimizer while its states are named after parameters.
 */

enum { GROUPS_MAX = 2 };

/* A number of the optimizer. */
struct parameter_number {
	const int64_t *shape;   /* that its states have, or the rows of factored ones */
	const int64_t *columns; /* of factored ones */
	uint8_t dims, column_dims;
	bool is_known;  /* the shape, whole or by its factors */
	bool is_listed; /* by a group */
	bool is_wrong;  /* its states contradict each other */
	uint8_t group;
	struct fsdp_span said; /* its name, if the optimizer keeps it */
	uint32_t parameter;    /* tensor that it stands for, or FSDP_NONE */
};

/* A parameter of the model, and where it comes. */
struct ordered_parameter {
	uint64_t place;
	uint32_t tensor;
	bool decays;
};

struct id_naming {
	struct fsdp_reading *reading;
	struct fsdp_model *model;
	struct fsdp_arena *scratch;
	struct parameter_number *numbers;
	size_t number_count;
	size_t groups;
	bool no_decay[GROUPS_MAX]; /* weight_decay of the group is 0 */
	struct ordered_parameter *candidates;
	size_t candidate_count;
	const struct fsdp_parameter_order *order;
	struct fsdp_table parameters; /* by name: its tensor */
	bool has_names;               /* the optimizer keeps them */
	bool has_renamed; /* the model has parameters that are stored under other names */
};

/* A tensor that is a state of a number: "state.17.exp_avg". */
struct numbered_state {
	struct fsdp_tensor_record *tensor;
	uint64_t number;
	struct fsdp_span key; /* until the next one is asked for */
};

/* The next of them, from *at on, which begins with 0. False: there is none, or, with an
 * error, memory ended. */
bool fsdp_trainer_next_state(struct id_naming *naming, size_t *at,
	struct numbered_state *ret_state, struct fsdp_error **ret_error);

/* The numbers that groups list. Each value is a number at most, so the room for them is
 * bounded. *ret_fits: the groups list 0, 1, … each once, and are no more than Trainer
 * makes. False: out of memory. */
bool fsdp_trainer_read_groups(
	struct id_naming *naming, bool *ret_fits, struct fsdp_error **ret_error);

/* The shapes of their states. *ret_count: how many tensors are states of numbers;
 * *ret_fits becomes false if one is not listed or has two shapes. False: out of memory. */
bool fsdp_trainer_read_shapes(struct id_naming *naming, bool *ret_fits, size_t *ret_count,
	struct fsdp_error **ret_error);

/* Whether a parameter may have these states. */
bool fsdp_trainer_fits(const struct id_naming *naming,
	const struct parameter_number *numbered, uint32_t parameter);

#endif
