/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares a checkpoint with its conversion.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/audit/compared-findings.h"
#include "cmd/audit/merged.h"
#include "session/diagnostics.h"
#include "session/session.h"

struct merging {
	struct compared_findings findings;
	const struct fsdp_checkpoint
		*checkpoints[2]; /* the source, and what came of it */
	struct selection *ignored;
	struct fsdp_compare *compare;
	struct fsdp_compare_facts facts;
};

/* Only the model, without ignored names. */
static bool choose(void *context, unsigned side, uint32_t tensor, struct fsdp_span name)
{
	struct merging *merging = context;
	struct fsdp_tensor facts = fsdp_tensor(merging->checkpoints[side], tensor);

	return is_weight(&facts) &&
	       (merging->ignored == NULL ||
		       !selection_takes_name(merging->ignored, name));
}

static void find_missing(struct merging *merging, struct fsdp_span name, const char *next)
{
	if (merging->findings.missing++ < COMPARED_KEPT)
		compared_find(&merging->findings, merging->findings.names_rule,
			SEVERITY_ERROR, text_of_span(name), next,
			"no tensor has this name");
}

/* The one key that programs which merge take away, or that wraps a model for training. */
static bool is_unwrapped(const struct fsdp_compare_rename *rename)
{
	const struct fsdp_span *prefix =
		rename->from.size > 0 ? &rename->from : &rename->to;
	struct text text = text_of_span(*prefix);

	return rename->why == FSDP_RENAMED_PREFIX &&
	       (rename->from.size == 0 || rename->to.size == 0) &&
	       (text_is(text, text_of("model.")) || text_is(text, text_of("module.")));
}

/* Under another name it is missing all the same. */
static void find_renamed(struct merging *merging,
	const struct fsdp_compare_rename *rename, const struct fsdp_compare_pair *pair)
{
	char next[320];
	const struct fsdp_span *name = &pair->sides[1].name;

	snprintf(next, sizeof next, "stored as %.*s",
		name->size < 280 ? (int)name->size : 280, (const char *)name->data);
	(void)rename;
	find_missing(merging, pair->sides[0].name, next);
}

static void judge_pair(struct merging *merging, const struct fsdp_compare_pair *pair)
{
	const struct fsdp_compare_tensor *wanted = &pair->sides[0];
	struct text name = text_of_span(wanted->name);

	compared_shape(&merging->findings, name, wanted->shape, wanted->dims,
		text_of(fsdp_dtype(wanted->dtype)->name), &pair->sides[1]);
	if ((pair->what & FSDP_DIFFERS_ELEMENTS) == 0 ||
		merging->findings.valued++ >= COMPARED_KEPT)
		return;
	if (pair->compared)
		compared_find(&merging->findings, "FI6004", SEVERITY_ERROR, name, NULL,
			pair->elements.differing == 1
				? "%" PRIu64 " element differs: element %" PRIu64
				: "%" PRIu64
				  " elements differ, the first is element %" PRIu64,
			pair->elements.differing, pair->elements.first);
	else
		compared_find(&merging->findings, "FI6004", SEVERITY_ERROR, name, NULL,
			"it is stored in another form");
}

static void judge_pairs(struct merging *merging)
{
	size_t next = 0;

	for (size_t i = 0; i < merging->facts.pair_count; i++) {
		struct fsdp_compare_pair pair = fsdp_compare_pair(merging->compare, i);
		struct fsdp_compare_rename rename;

		if (next < merging->facts.rename_count &&
			(rename = fsdp_compare_rename(merging->compare, next)).pair ==
				i) {
			next++;
			if (!is_unwrapped(&rename)) {
				find_renamed(merging, &rename, &pair);
				continue;
			}
		}
		judge_pair(merging, &pair);
	}
}

static void judge_names(struct merging *merging)
{
	for (size_t i = 0; i < merging->facts.only_count[0]; i++)
		find_missing(
			merging, fsdp_compare_only(merging->compare, 0, i).name, NULL);
	for (size_t i = 0; i < merging->facts.only_count[1]; i++)
		compared_extra(&merging->findings,
			text_of_span(fsdp_compare_only(merging->compare, 1, i).name));
}

static void tell_failures(struct merging *merging)
{
	struct run *run = merging->findings.run;

	for (size_t i = 0; i < merging->facts.failure_count; i++)
		collected_error(run->collected, fsdp_compare_failure(merging->compare, i),
			run->input);
}

static bool compare(struct merging *merging, const struct merged_options *options,
	struct fsdp_error **ret_error)
{
	const struct run *run = merging->findings.run;
	const struct fsdp_compare_options wanted = {
		.size = sizeof wanted,
		.sides = { { .checkpoint = merging->checkpoints[0] },
			{ .checkpoint = merging->checkpoints[1] } },
		.choose = choose,
		.choose_context = merging,
		.map = options->map,
		.sizes = options->sizes.sizes,
		.size_count = options->sizes.size_count,
		.limits = run->limits,
		.limit_count = run->limit_count,
	};
	const struct fsdp_compare_values_options values = {
		.size = sizeof values,
		.jobs = options->jobs,
	};

	if (!fsdp_compare_new(&wanted, &merging->compare, ret_error) ||
		(options->values &&
			!fsdp_compare_values(merging->compare, &values, ret_error)))
		return false;
	merging->facts = fsdp_compare_facts(merging->compare);
	return true;
}

bool judge_merged(const struct expectation *expectation, struct run *run,
	struct selection *ignored, const struct merged_options *options,
	struct fsdp_error **ret_error)
{
	struct merging merging = {
		.findings = { .run = run,
			.file = text_of(expectation->path),
			.names_rule = "FI6001",
			.shape_rule = "FI6003",
			.merges = true },
		.checkpoints = { run->checkpoint, expectation->checkpoint },
		.ignored = ignored,
	};
	bool good = compare(&merging, options, ret_error);

	if (good) {
		judge_names(&merging);
		judge_pairs(&merging);
		tell_failures(&merging);
		compared_omit(&merging.findings);
	}
	fsdp_compare_free(merging.compare);
	return good && !merging.findings.failed;
}
