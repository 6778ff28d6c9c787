/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_FORMAT_PLAN_READING_H
#define FSDP_FORMAT_PLAN_READING_H

#include "base/num.h"
#include "base/table.h"
#include "format/format.h"
#include "syntax/json-tree.h"

/* What a unit says of a parameter that the list of parameters says too. */
struct stated {
	uint32_t name;
	fsdp_ints shape;
	uint8_t dims;
};

/* A sharding plan while it is read: what the two files of its reader share. */
struct fsdp_plan_reading {
	struct fsdp_reading *reading;
	struct fsdp_model *model;
	struct fsdp_span path;
	const struct fsdp_json *root;
	struct fsdp_table visit_of; /* first visit by raw name id */
	struct fsdp_vec stated;     /* struct stated */
	struct fsdp_error **error;
};

/* Bytes of a name in a message. */
enum { FSDP_PLAN_NAME_SHOWN = 200 };

/* The plan cannot be read at all: fills the error and is false. */
bool fsdp_plan_invalid(struct fsdp_plan_reading *plan, const char *what);
/* It breaks its own rules: a finding about the module. */
void fsdp_plan_say(struct fsdp_plan_reading *plan, struct fsdp_span module,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

bool fsdp_plan_read_shape(struct fsdp_plan_reading *plan, const struct fsdp_json *json,
	fsdp_ints *ret_shape, uint8_t *ret_dims);
/* Of a unit's parameter; compared with the list of parameters when all is read. */
bool fsdp_plan_state_shape(
	struct fsdp_plan_reading *plan, uint32_t name, fsdp_ints shape, uint8_t dims);

/* Full name of a unit's parameter: clean(module + ".") + fqn. FSDP_NONE: no memory. */
uint32_t fsdp_plan_full_name(
	struct fsdp_plan_reading *plan, uint32_t module, struct fsdp_span fqn);
/* One more name of the unit, still without names. NULL: out of memory, which the reading keeps. */
struct fsdp_unit_fqn_record *fsdp_plan_add_fqn(
	struct fsdp_plan_reading *plan, struct fsdp_unit_record *unit);

/* ---- plan.c ---- */

/* A document that is there already. The arena of the model holds its texts. */
bool fsdp_plan_read_tree(struct fsdp_reading *reading, const struct fsdp_json *root,
	struct fsdp_span path, struct fsdp_error **ret_error);

/* ---- plan-flat.c ---- */

/* The flat parameter of a unit as the plan has it, if it has one. */
bool fsdp_plan_read_flat(struct fsdp_plan_reading *plan, const struct fsdp_json *json,
	struct fsdp_unit_record *unit);

#endif
