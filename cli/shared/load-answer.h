/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARED_LOAD_ANSWER_H
#define SHARED_LOAD_ANSWER_H

#include <fsdp/loaders.h>

#include "args/parse.h"
#include "shared/expectation.h"
#include "render/record.h"

/* Parameters of loaders, as NAME=VALUE was typed for them. */
struct loader_choices {
	struct fsdp_loader_setting *items; /* values are parts of what was typed */
	char **names;
	size_t count;
};

/* What a loader would do with one checkpoint, as it is shown. Texts are the library's. */
struct shown_loader {
	struct fsdp_load_result result;
	const char *title, *verdict;
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
	bool is_own; /* of the loader of the directory's own family */
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

/* Whether it makes sense; else refuse() was called. */
bool loading_prepare(const struct loading_options *options, struct run *run);

/* Asks the loaders about the path of the run. False: *ret_error, or NULL if memory ended.
 * Free it with loading_done. */
bool loading_check(const struct loading_options *options, struct run *run,
	const struct expectation *expected, bool data, struct loading_answer *answer,
	struct fsdp_error **ret_error);
void loading_done(struct loading_answer *answer);

/* Whether no loader was named: then it is that of the directory's own family. */
bool loading_is_own(const struct loading_options *options);

/* Asks that one: what it refuses, or loads otherwise than it was saved, becomes a finding. What
 * is not known says nothing. False: out of memory. */
bool loading_check_own(const struct loading_options *options, struct run *run, bool data,
	struct loading_answer *answer);

extern const struct record loader_record;

/* One line per loader, and the reasons. */
void loading_text(const struct loading_answer *answer, struct out *out);

#endif
