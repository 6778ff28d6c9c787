/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFO_ANSWER_H
#define INFO_ANSWER_H

#include <fsdp/analysis.h>

#include "args/parse.h"
#include "shared/tensor-row.h"
#include "render/record.h"
#include "session/diagnostics.h"
#include "session/session.h"

/*
 * Storages with bytes that no tensor uses, as listed by `info --waste`.
 */

struct info_options {
	bool waste;
};

enum {
	CHECKED_MOST =
		20000, /* tensors; a larger checkpoint is audited if it is asked for */
	KINDS_MAX = 8, /* suffixes of files, strategies of units */
	SUFFIX_SIZE = 40,
};

/* Files whose names end alike. */
struct suffix {
	char word[SUFFIX_SIZE];
	bool is_name; /* ".metadata" is a name, not a suffix */
	uint64_t count;
};

/* Values that info prints by name. */
enum info_setting {
	SETTING_TYPE, /* of an adapter, up to SETTING_DORA */
	SETTING_RANK,
	SETTING_ALPHA,
	SETTING_TARGETS,
	SETTING_BASE,
	SETTING_DORA,
	SETTING_CLASS, /* of the model */
	SETTING_LAYERS,
	SETTINGS
};

/* The facts of a checkpoint that info shows. */
struct info {
	struct row_context row; /* what records are handed */
	struct run *run;
	const struct info_options *options;
	struct row_buffers *buffers;
	struct fsdp_format format;
	uint32_t world_size;
	const int64_t *ranks; /* that own a piece */
	uint32_t rank_count;
	struct fsdp_plan_facts plan;
	bool has_plan;
	struct text strategies[KINDS_MAX]; /* of its units, each once */
	size_t strategy_count;
	struct {
		uint64_t parameters;
		size_t tensors, pieces, files, modules, units, values, prefixes;
	} counts;
	struct fsdp_bytes bytes;
	uint64_t
		holes; /* bytes that were never written, if most were not; else unknown */
	uint64_t unread; /* pickles in its directory and below */
	bool unseen;     /* there may be more */
	enum fsdp_group_key by_dtype, by_role, by_rank;
	struct fsdp_overview *overview;
	const struct fsdp_overview_facts *facts; /* of it */
	struct fsdp_kind kind;
	uint32_t settings[SETTINGS]; /* values; FSDP_NONE: absent */
	struct text class_name;      /* of the model; absent: unknown */
	struct text
		dtypes[FSDP_OVERVIEW_DTYPES]; /* of parameters, the most frequent first */
	size_t dtype_count;
	int64_t step; /* FSDP_ABSENT: unknown */
	struct fsdp_balance balance;
	uint64_t mean_bytes; /* of a rank */
	struct {
		uint64_t stored, resume, weights;
	} per_rank;
	struct suffix suffixes[KINDS_MAX];
	size_t suffix_count;
	bool more_suffixes; /* than found a place */
	struct fsdp_unused *waste;
	struct {
		bool ran;
		const char *verdict; /* NULL: it did not run */
		uint64_t errors, warnings, notes, unread;
		struct collected own;
		enum fsdp_rule_reason open; /* why it is partial */
	} check;
	const char *recording; /* the command that reads it; NULL: it is none */
	int status;
};

/* Text: the kind of the checkpoint, then the usual questions in order. */
void info_print(struct info *info);

/* The class of the model, of its configuration or else of its plan; absent: unknown. */
struct text info_class(struct info *info);

/* "AdamW"; NULL: unknown. */
const char *optimizer_word(unsigned optimizer);

#endif
