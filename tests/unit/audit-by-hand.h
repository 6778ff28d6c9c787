/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_AUDIT_BY_HAND_H
#define TESTS_AUDIT_BY_HAND_H

/* Models of layers put in by hand, and what an audit finds in them. */
#include <stdio.h>

#include <fsdp/audit.h>

#include "by-hand.h"
#include "formats/format.h"
#include "syntax/json-tree.h"

/* "2x3" is two dimensions, "" none. */
static inline void put(struct fsdp_checkpoint *checkpoint, const char *name,
	const char *dtype, const char *shape)
{
	int64_t sizes[8];
	uint8_t dims = 0;
	char *end;

	for (const char *at = shape; *at != '\0'; at = *end != '\0' ? end + 1 : end)
		sizes[dims++] = strtoll(at, &end, 10);
	tensor_by_hand(checkpoint, name, dtype, FSDP_ROLE_PARAM, sizes, dims);
}

/* A member of each number from `first` to `last`. */
static inline void put_each(struct fsdp_checkpoint *checkpoint, const char *prefix,
	int first, int last, const char *member, const char *dtype, const char *shape)
{
	char name[256];

	for (int i = first; i <= last; i++) {
		snprintf(name, sizeof name, "%s.%d.%s", prefix, i, member);
		put(checkpoint, name, dtype, shape);
	}
}

/* Weights of 8 numbers below each number, for each of the members. */
static inline void put_layers(struct fsdp_checkpoint *checkpoint, const char *prefix,
	int first, int last, const char *const *members, const char *without)
{
	char name[256];

	for (int i = first; i <= last; i++)
		for (size_t k = 0; members[k] != NULL; k++) {
			snprintf(name, sizeof name, "%s.%d.%s", prefix, i, members[k]);
			if (without == NULL || strcmp(name, without) != 0)
				put(checkpoint, name, "float32", "8x4");
		}
}

static inline void configure(
	struct fsdp_checkpoint *checkpoint, const char *file, const char *text)
{
	struct fsdp_error *error = NULL;
	const struct fsdp_json *root;
	struct fsdp_arena scratch;

	fsdp_arena_init(&scratch, &checkpoint->budget);
	assert_true(fsdp_json_read(
		fsdp_span_text(text), &checkpoint->limits, &scratch, &root, &error));
	assert_true(fsdp_hf_settings(&checkpoint->model,
		file_by_hand(checkpoint, file, FSDP_NONE), root, &scratch, &error));
	fsdp_arena_done(&scratch);
}

static inline struct fsdp_audit *judge(struct fsdp_checkpoint *checkpoint)
{
	struct fsdp_audit_options options = { .size = sizeof options,
		.level = FSDP_LEVEL_HEADERS };
	struct fsdp_audit *audit = NULL;

	freeze_by_hand(checkpoint);
	assert_true(fsdp_audit_new(checkpoint, &options, &audit, NULL));
	return audit;
}

static inline struct fsdp_rule_result result_of(
	const struct fsdp_audit *audit, const char *id)
{
	for (size_t i = 0; i < fsdp_rule_count(); i++)
		if (strcmp(fsdp_rule(i)->id, id) == 0)
			return fsdp_audit_result(audit, i);
	fail_msg("no rule %s", id);
	return (struct fsdp_rule_result){ 0 };
}

/* A line for each finding: rule, severity, what suffers. */
static inline void expect_findings(
	struct fsdp_checkpoint *checkpoint, const char *expected)
{
	struct fsdp_audit *audit = judge(checkpoint);
	char found[8192];
	size_t at = 0;

	found[0] = '\0';
	for (size_t i = fsdp_finding_count(checkpoint);
		i < fsdp_audit_finding_count(audit); i++) {
		const struct fsdp_finding *finding = fsdp_audit_finding(audit, i);

		at += (size_t)snprintf(found + at, sizeof found - at, "%s %s",
			finding->rule->id, fsdp_severity_name(finding->severity));
		for (size_t k = 0; k < finding->affected_kept; k++)
			at += (size_t)snprintf(found + at, sizeof found - at, " %.*s",
				FSDP_TEXT(finding->affected[k]));
		at += (size_t)snprintf(found + at, sizeof found - at, "\n");
		assert_true(at < sizeof found);
	}
	fsdp_audit_free(audit);
	assert_string_equal(found, expected);
}

#define BY_HAND(test) cmocka_unit_test_setup_teardown(test, begin_by_hand, end_by_hand)

#endif
