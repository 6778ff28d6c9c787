/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARED_AUDIT_RUN_H
#define SHARED_AUDIT_RUN_H

#include <fsdp/audit.h>
#include <fsdp/loaders.h>

#include "args/parse.h"
#include "render/record.h"
#include "shared/expectation.h"

/* Parameters of loaders, as NAME=VALUE was typed for them. */
struct loader_choices {
	struct fsdp_loader_setting *items; /* values are parts of what was typed */
	size_t count;
};

/* What a loader would do with one checkpoint, as it is shown. Texts are the library's. */
struct shown_loader {
	struct fsdp_load_result result;
	const char *verdict;
	/* Those of the result, and one of the audit. */
	struct fsdp_load_reason *reasons;
	size_t reason_count;
	int64_t world; /* that was asked for, or FSDP_ABSENT */
};

struct loading_answer {
	struct fsdp_load_check *loads;
	struct loader_choices choices;
	struct shown_loader *loaders;
	size_t count;
	int status;
	bool is_own;   /* of the loader of the directory's own family */
	bool has_base; /* an adapter was compared with its base model */
};

/* Words for --for. */
extern const char *const loader_words[];

/* What was asked for. */
struct loading_options {
	struct texts loaders; /* --for; "all" is all of them; none: as "auto" */
	const char *version;
	int64_t world;        /* -1: as saved */
	struct texts choices; /* --loader-option: NAME=VALUE */
};

/* Refuses what makes no sense. */
void loading_prepare(const struct loading_options *options, struct run *run);

/* Asks the loaders about the path of the run. The answer lives as long as the command. */
void loading_check(const struct loading_options *options, struct run *run,
	const struct expectation *expected, bool data, struct loading_answer *answer);

/* Whether no loader was named: then it is that of the directory's own family. */
bool loading_is_own(const struct loading_options *options);

/* Whether this one was named, or all were. */
bool loading_names(const struct loading_options *options, const char *loader);

/* Asks that one: what it refuses, or loads otherwise than it was saved, becomes a
 * finding. What is not known says nothing. */
void loading_check_own(const struct loading_options *options, struct run *run, bool data,
	struct loading_answer *answer);

extern const struct record loader_record;

/* One line per loader, and the reasons. */
void loading_text(const struct loading_answer *answer, struct out *out);

/* Turns those failures of run->collected, from run->first on, that are results for the
 * checkpoint at run->path into findings. run->checkpoint may be NULL. */
void report_failed_files(struct run *run);

/*
 * Checks of the library on one checkpoint: a pass over its bytes, and an audit of
 * its facts. Their findings go to run->collected.
 */
struct passes {
	struct fsdp_verify *verify; /* NULL: no bytes were looked at */
	struct fsdp_audit *audit;
	struct fsdp_verify_coverage scope;
};

/* run->checkpoint must be there. What was found lives as long as the command. */
void passes_run(struct passes *passes, struct run *run, enum fsdp_level level,
	const char *manifest);

/* Checks run->checkpoint, which must be open, as audit does with default options:
 * findings of opening it, of the passes, of sets of weights and of the loader of its own
 * kind go to run->collected. `items`: reads the items of DCP, which may be in thousands
 * of files, and checks its loader, which needs them. *ret_open, unless it is NULL: checks
 * that could not be evaluated. */
void opened_check(struct run *run, enum fsdp_level level, bool items,
	enum fsdp_rule_reason *ret_open);

/* Why a verdict is partial, and what completes it. */
const char *reason_open(enum fsdp_rule_reason reason);

/* Whether NeMo's marker of an unfinished save is next to it: PATH-unfinished. */
bool path_is_unfinished(const char *path);

/* "bad", "partial" or "good": what the findings and failures come to. */
const char *collected_verdict(const struct collected *collected);

/* Finds sets of weights that differ, in the directory of the run and in those that were
 * entered from there (FI1012): each loader takes one and ignores the
 * others. `data`: compares their bytes. `others`: also checks further models, a critic
 * with its actor. */
void check_weight_sets(struct run *run, bool data, bool others);

#endif
