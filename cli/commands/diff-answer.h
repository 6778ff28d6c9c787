/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIFF_ANSWER_H
#define DIFF_ANSWER_H

#include <fsdp/compare.h>

#include "args/select.h"
#include "shared/expectation.h"
#include "shared/tensor-row.h"

/*
 * State of `diff`.
 */
enum { HINT_TEXT = 200, SHAPE_TEXT = 160, DIFF_BITS = 7 };

struct diff_options {
	bool names, layout, values, stat;
	const char *tolerance; /* ABS,REL */
	const char *strip;
	struct texts renames, sizes;
	const char *map; /* its name, or a file */
};

/* A tensor as one side has it. */
struct diff_side {
	struct fsdp_compare_tensor tensor;
	unsigned index;
	struct fsdp_value value;  /* of an entry that is not a tensor */
	const char *role;         /* NULL: not known */
	struct text placement[1]; /* --layout; empty: not known */
	char layout[FSDP_LAYOUT_TEXT];
};

/* A tensor that both have, and that is not the same. */
struct diff_change {
	struct fsdp_compare_pair pair;
	struct text name;
	struct diff_side sides[2];
	struct text what[DIFF_BITS]; /* what differs: "dtype" */
	size_t what_count;
	char hint[HINT_TEXT];         /* "": none */
	int64_t first[FSDP_DIMS_MAX]; /* index of the first element that differs */
	bool has_first;
	bool is_value; /* an entry that is not a tensor; of the above only the name counts */
};

/* A tensor that both have under names of their own. */
struct diff_renamed {
	struct fsdp_compare_tensor sides[2];
	char why[HINT_TEXT];
	bool again; /* in the same way as the one before */
};

struct diffing {
	struct run *run;
	const struct diff_options *options;
	const struct fsdp_checkpoint *checkpoints[2]; /* the second is NULL: a list */
	const char *paths[2];
	struct expectation list; /* names instead of the second */
	struct selection *selections[2];
	struct fsdp_map *map;
	struct fsdp_compare *compare;
	struct fsdp_compare_facts facts;
	size_t *changed;     /* pairs that are not the same: facts.changed of them */
	size_t change_count; /* of these, and of entries that are not tensors */
	bool has_values;     /* they were compared */
	struct diff_change change;
	struct module_change *modules; /* --stat */
	size_t module_count;
	struct name_buffer buffers[2], value_name;
	struct json_tokens json[2];
	int status;
};

void show_diff(struct diffing *diffing);

/* Whether anything differs. */
bool is_different(const struct diffing *diffing);

/* The index-th change, until the next one is asked for. */
const struct diff_change *diff_change(struct diffing *diffing, size_t index);

void diff_renamed(
	const struct diffing *diffing, size_t index, struct diff_renamed *ret_renamed);

/* Probable cause of the difference between A and B; "" if unknown. */
void hint_text(const struct fsdp_compare_pair *pair, char text[HINT_TEXT]);

/* Why both names are taken for one. */
void rename_text(const struct fsdp_compare_rename *rename, char text[HINT_TEXT]);

/* The unit that shards the tensor of a side; absent: none. */
struct text unit_text(
	struct diffing *diffing, unsigned side, const struct fsdp_compare_tensor *tensor);

extern const struct record diff_record, module_change_record;

void write_differences(struct diffing *diffing);

/* Changes of the tensors that one module owns. */
struct module_change {
	struct fsdp_span module;
	uint64_t order; /* that of its first tensor */
	uint64_t same, only_a, only_b, changed;
	uint64_t zero; /* of B, with --values; else UINT64_MAX */
};

#endif
