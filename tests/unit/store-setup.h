/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_STORE_SETUP_H
#define TEST_STORE_SETUP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/finding.h"
#include "io/source.h"

/* What every test of the store needs: memory, limits, a list of findings. */
struct setup {
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_limits limits;
	struct fsdp_findings findings;
	struct fsdp_error *error;
};

static inline void setup_init(struct setup *setup)
{
	memset(setup, 0, sizeof *setup);
	setup->budget.ceiling = UINT64_MAX;
	fsdp_arena_init(&setup->arena, &setup->budget);
	fsdp_limits_init(&setup->limits);
	fsdp_findings_init(&setup->findings, &setup->arena, &setup->limits);
}

static inline void setup_done(struct setup *setup)
{
	fsdp_error_free(setup->error);
	setup->error = NULL;
	fsdp_arena_done(&setup->arena);
	assert_int_equal(setup->budget.used, 0);
}

/* How often a rule was found. */
static inline size_t setup_found(const struct setup *setup, const char *id)
{
	size_t count = 0;
	for (size_t i = 0; i < setup->findings.list.count; i++) {
		const struct fsdp_finding *finding =
			fsdp_vec_at(&setup->findings.list, i);
		count += strcmp(finding->rule->id, id) == 0;
	}
	return count;
}

static inline void setup_expect(
	struct setup *setup, enum fsdp_error_code code, const char *rule)
{
	assert_non_null(setup->error);
	assert_int_equal(fsdp_error_code(setup->error), code);
	if (rule == NULL)
		assert_null(fsdp_error_rule(setup->error));
	else
		assert_string_equal(fsdp_error_rule(setup->error), rule);
	fsdp_error_free(setup->error);
	setup->error = NULL;
}

/* A file below TESTDATA, or "" where it cannot be read; free its data. */
static inline struct fsdp_span setup_testdata(const char *name)
{
	char path[4096];
	const char *root = getenv("TESTDATA");
	snprintf(path, sizeof path, "%s/%s", root != NULL ? root : "testdata", name);
	FILE *file = fopen(path, "rb");
	assert_non_null(file);
	unsigned char *bytes = malloc(1 << 20);
	assert_non_null(bytes);
	size_t size = fread(bytes, 1, 1 << 20, file);
	fclose(file);
	return fsdp_span(bytes, size);
}

#endif
