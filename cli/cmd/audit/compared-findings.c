/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts the result of a comparison to findings.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cmd/audit/compared-findings.h"
#include "session/diagnostics.h"
#include "session/session.h"

void compared_find(struct compared_findings *findings, const char *rule,
	enum severity severity, struct text tensor, const char *next, const char *format,
	...)
{
	const struct finding about = { .severity = severity,
		.input = findings->run->input,
		.file = findings->file,
		.tensor = tensor };
	va_list arguments;

	va_start(arguments, format);
	if (!collected_judged(
		    findings->run->collected, rule, about, next, format, arguments))
		findings->failed = true;
	va_end(arguments);
}

/* ---- shapes and dtypes ---- */

static void spell_shape(const int64_t *shape, uint32_t dims, char *to, size_t size)
{
	size_t used = (size_t)snprintf(to, size, "[");

	for (uint32_t i = 0; i < dims && used < size; i++)
		used += (size_t)snprintf(to + used, size - used, "%s%" PRId64,
			i > 0 ? ", " : "", shape[i]);
	if (used < size)
		snprintf(to + used, size - used, "]");
}

static bool count_elements(const int64_t *shape, uint32_t dims, uint64_t *ret_numel)
{
	*ret_numel = 1;
	for (uint32_t i = 0; i < dims; i++)
		if (__builtin_mul_overflow(*ret_numel, (uint64_t)shape[i], ret_numel))
			return false;
	return true;
}

/* The probable cause of the difference. */
static const char *cause(
	const int64_t *shape, uint32_t dims, const struct fsdp_compare_tensor *found)
{
	uint64_t numel, actual;

	if (!count_elements(shape, dims, &numel) ||
		!count_elements(found->shape, found->dims, &actual))
		return "";
	if (actual == numel && found->dims == 1)
		return " (flattened)";
	if (actual == 0)
		return " (a placeholder)";
	/* No rank has a part of what has no dimension. */
	if (dims == 0 || found->dims == 0)
		return "";
	if (actual < numel && numel % actual == 0)
		return " (shard of one rank, saved as the full tensor)";
	if (numel > 0 && actual > numel && actual % numel == 0)
		return " (the parts of several ranks, joined)";
	return "";
}

bool compared_shape(struct compared_findings *findings, struct text name,
	const int64_t *shape, uint32_t dims, struct text dtype,
	const struct fsdp_compare_tensor *found)
{
	bool same = shape == NULL ||
		    (dims == found->dims &&
			    (dims == 0 || memcmp(shape, found->shape,
						  dims * sizeof(int64_t)) == 0));
	const char *word = fsdp_dtype(found->dtype)->name;
	char expected[200], actual[200];

	if (!same && findings->shaped++ < COMPARED_KEPT) {
		spell_shape(shape, dims, expected, sizeof expected);
		spell_shape(found->shape, found->dims, actual, sizeof actual);
		compared_find(findings, findings->shape_rule, SEVERITY_ERROR, name, NULL,
			"the shape is %s instead of %s%s", actual, expected,
			cause(shape, dims, found));
	}
	if (dtype.data == NULL || text_is(dtype, text_of(word)))
		return same;
	if (findings->shaped++ < COMPARED_KEPT)
		compared_find(findings, findings->shape_rule,
			findings->merges ? SEVERITY_WARNING : SEVERITY_ERROR, name, NULL,
			"the dtype is %s instead of %.*s", word,
			dtype.size < 40 ? (int)dtype.size : 40, dtype.data);
	return false;
}

void compared_extra(struct compared_findings *findings, struct text name)
{
	if (findings->extra++ < COMPARED_KEPT)
		compared_find(findings, findings->names_rule, SEVERITY_WARNING, name,
			NULL, "a tensor that was not expected");
}

static void omit(struct compared_findings *findings, const char *rule, uint64_t count)
{
	struct fsdp_omitted omitted = { fsdp_rule_find(rule),
		span_of_text(findings->file), count };

	if (count > 0)
		collected_omitted(
			findings->run->collected, &omitted, findings->run->input, false);
}

static uint64_t beyond(uint64_t count)
{
	return count > COMPARED_KEPT ? count - COMPARED_KEPT : 0;
}

void compared_omit(struct compared_findings *findings)
{
	omit(findings, findings->names_rule,
		beyond(findings->missing) + beyond(findings->extra));
	omit(findings, findings->shape_rule, beyond(findings->shaped));
	omit(findings, "FI6004", beyond(findings->valued));
}
