/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AUDIT_H
#define AUDIT_H

#include <fsdp/audit.h>
#include <fsdp/compare.h>
#include <fsdp/error.h>

#include "args/parse.h"
#include "args/select.h"
#include "shared/expectation.h"
#include "shared/audit-run.h"
#include "shared/part-result.h"
#include "render/out.h"

/*
 * Level of each rule: its findings keep their own severity, have another one, or are
 * dropped. All zero keeps all.
 */
struct levels {
	unsigned char *of; /* by the index of the rule; NULL: all keep their own */
};

void levels_init(struct levels *levels);

/* ID=LEVEL, SLUG=LEVEL or *=LEVEL. NULL, or what is wrong: a sentence with one %s for the
 * text. */
const char *levels_set(struct levels *levels, const char *text);

/* What was set for a rule: one of level_words; NULL: nothing. */
const char *levels_word(const struct levels *levels, size_t rule);

/* What was asked for. */
struct audit_options {
	bool quick, data, values, checks, require_checksums;
	struct texts rules; /* --rule, as typed */
	struct texts globals;
	const char *manifest;
	const char *listing;
	const char *expect;
	const char *merged;
	const char *map; /* its name, or a file */
	struct texts sizes;
	struct texts ignore;
	struct loading_options loading;
};

/* Result of one rule in one checkpoint. */
struct check {
	uint32_t input; /* UINT32_MAX: only one checkpoint */
	const char *rule, *slug;
	unsigned status; /* enum fsdp_rule_status, or CHECK_OFF */
	unsigned reason; /* enum fsdp_rule_reason */
	uint64_t findings;
	uint32_t number; /* of a part's row; UINT32_MAX: no part */
};

enum { CHECK_OFF = FSDP_STATUS_COUNT };

/* Options of a partial run that merge needs, in addition to its findings and checks. */
struct audit_request {
	const char *fail_on;
	struct text *levels; /* RULE=LEVEL, for rules without their own level */
	size_t level_count;
};

/* Verdict on one checkpoint. */
enum { AUDIT_PARTS_MOST = 8 };

struct verdict {
	uint32_t input;
	struct text path;    /* as it was typed, without a slash at its end */
	struct text shown;   /* of the line of the verdict: what was opened */
	const char *word;    /* "good", "bad", "partial" */
	const char *format;  /* as people call it; NULL: unknown, as of a part */
	const char *program; /* that loads it, if no loader of it is known; or NULL */
	uint32_t ranks;      /* that wrote it; FSDP_NONE: unknown */
	uint64_t of_role[FSDP_ROLE_OTHER + 1]; /* tensors, without those below */
	struct text other;      /* name of the first tensor of no other role */
	uint64_t averages;      /* tensors of a second model, which averages the first */
	struct text average;    /* its name */
	uint64_t module_copies; /* of parameters whose master weights DeepSpeed stores */
	uint64_t random_states;
	/* Whether each optimizer state is of a known parameter; of the parameters those
	 * with states and without, and the name of the first without. */
	bool has_owners;
	uint64_t with_states, without_states;
	struct text without;
	/* Of values that a resume may need the first parts of their names, as "epoch". */
	struct text parts[AUDIT_PARTS_MOST];
	size_t part_count, parts_left; /* which are listed, and which are not */
	bool opened;
	bool complete;              /* all checks of the level ran */
	enum fsdp_rule_reason open; /* else why one of them did not */
	int status;
	const char *detail; /* the level */
	uint64_t files, tensors, pieces;
	bool is_packed;                         /* no loader opens it as it is */
	uint64_t names;                         /* of tensors and values */
	uint64_t bytes;                         /* of all tensors */
	uint64_t bytes_read, bytes_with_digest; /* UINT64_MAX: not at this level */
	struct text *digests_from; /* where digests were found; NULL: not at this level */
	size_t digest_source_count;
	struct {
		uint64_t error, warning, note, unsupported;
	} counts;
	bool level_note; /* a note lists the checks that were not evaluated */
	struct check *checks;
	size_t check_count;
	uint64_t not_evaluated[FSDP_REASON_COUNT]; /* rules, by reason */
	struct loading_answer loading;
	struct part_facts partial;
	struct audit_request request; /* of a part */
};

/* What one run makes: in run->prepared. */
struct audit {
	const struct audit_options *options;
	enum fsdp_level level;
	enum severity fail_on; /* the least that fails */
	bool never_fails;
	struct levels levels;
	struct expectation expected, merged;
	struct fsdp_map *map; /* of names, for --merged; or NULL */
	struct typed_names sizes;
	struct selection *ignored; /* names that are ignored on both sides, or NULL */
	struct verdict *verdicts;  /* each owns its checks */
	size_t count;
};

/* Checks the open checkpoint of the run, and adds the verdict. */
void audit_check(struct audit *audit, struct run *run);

extern const struct record audit_record, check_record;

void audit_data(const struct audit *audit, struct out *out);

void audit_text(const struct audit *audit, struct run *run);

/* One checkpoint during its checks: its failures and findings start at run->first. */
struct auditing {
	struct audit *audit;
	struct run *run;
	struct collected *collected;
	struct verdict *verdict;
	struct loading_options loading; /* as typed, or the loader of adapters */
	bool is_base; /* --expect has the base of the adapter that was opened */
};

/* audit-verdict.c: the least that fails, of fail_words. */
void audit_set_threshold(struct audit *audit, struct text word);

/* Counts what was collected, and says what follows. */
void count_findings(struct auditing *auditing);

void decide(struct auditing *auditing);

struct verdict *add_verdict(struct audit *audit, const struct run *run);

/* What the result of a part says of itself. */
void name_part(struct auditing *auditing);

/* Adds FI9006, if a rule was not evaluated. */
void note_not_evaluated(struct auditing *auditing);

#endif
