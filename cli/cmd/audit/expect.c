/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the names, shapes and dtypes of a checkpoint with what they should be.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/audit/compared-findings.h"
#include "cmd/audit/expect.h"
#include "part/shown-names.h"
#include "part/value-text.h"
#include "session/session.h"

enum {
	EXPLAINED = 3, /* missing names for which others that are near are looked for */
	PREFIX_MOST = 200,
};

struct named {
	uint32_t name, tensor;
};

struct comparing {
	struct compared_findings findings;
	struct wants wants;
	const struct fsdp_checkpoint *actual;
	struct named *index; /* by name */
	size_t index_count;
	unsigned char *matched; /* by tensor */
	struct selection *ignored;
	char strip[PREFIX_MOST], add[PREFIX_MOST]; /* what names lose and get */
	struct name_buffer renamed;
	bool failed; /* out of memory */
};

static int compare_named(const void *left, const void *right)
{
	const struct named *a = left, *b = right;

	return a->name != b->name ? (a->name < b->name ? -1 : 1)
				  : (a->tensor > b->tensor) - (a->tensor < b->tensor);
}

static bool make_index(struct comparing *comparing)
{
	size_t count = fsdp_tensor_count(comparing->actual);

	comparing->index = calloc(2 * count + 1, sizeof *comparing->index);
	comparing->matched = calloc(count + 1, 1);
	if (comparing->index == NULL || comparing->matched == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(comparing->actual, i);

		comparing->index[comparing->index_count++] =
			(struct named){ tensor.name, i };
		if (tensor.raw_name != tensor.name)
			comparing->index[comparing->index_count++] =
				(struct named){ tensor.raw_name, i };
	}
	qsort(comparing->index, comparing->index_count, sizeof *comparing->index,
		compare_named);
	return true;
}

static uint32_t find_tensor(const struct comparing *comparing, struct text name)
{
	uint32_t id = fsdp_name_find(comparing->actual, span_of_text(name));
	size_t low = 0, high = comparing->index_count;

	if (id == FSDP_NONE)
		return FSDP_NONE;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (comparing->index[middle].name < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < comparing->index_count && comparing->index[low].name == id
		       ? comparing->index[low].tensor
		       : FSDP_NONE;
}

/* ---- other names for the same ---- */

static bool starts_with(struct text text, const char *prefix)
{
	size_t size = strlen(prefix);

	return text.size >= size && memcmp(text.data, prefix, size) == 0;
}

/* The name without `strip` and with `add` in front. */
static struct text renamed(struct comparing *comparing, struct text name)
{
	size_t length = 0, strip = strlen(comparing->strip);

	if (!starts_with(name, comparing->strip))
		return name;
	if (strip == 0 && comparing->add[0] == '\0')
		return name;
	name_buffer_append(&comparing->renamed, &length, text_of(comparing->add));
	name_buffer_append(&comparing->renamed, &length,
		(struct text){ name.data + strip, name.size - strip });
	return comparing->renamed.failed
		       ? name
		       : (struct text){ comparing->renamed.data, length };
}

static bool set_prefix(char *to, const char *data, size_t size)
{
	if (size >= PREFIX_MOST || memchr(data, '\0', size) != NULL)
		return false;
	memcpy(to, data, size);
	to[size] = '\0';
	return true;
}

static bool guess_strip(struct comparing *comparing, struct text name)
{
	for (size_t i = 0; i + 1 < name.size; i++)
		if (name.data[i] == '.' &&
			find_tensor(comparing, (struct text){ name.data + i + 1,
						       name.size - i - 1 }) != FSDP_NONE)
			return set_prefix(comparing->strip, name.data, i + 1);
	return false;
}

static bool guess_add(struct comparing *comparing, struct text name)
{
	struct name_buffer buffer = { 0 };
	size_t count = fsdp_tensor_count(comparing->actual);
	bool found = false;

	for (uint32_t i = 0; i < count && !found; i++) {
		struct text other = name_text(&buffer, comparing->actual,
			fsdp_tensor(comparing->actual, i).name);

		if (other.size > name.size + 1 &&
			other.data[other.size - name.size - 1] == '.' &&
			memcmp(other.data + other.size - name.size, name.data,
				name.size) == 0)
			found = set_prefix(
				comparing->add, other.data, other.size - name.size);
	}
	comparing->failed |= buffer.failed;
	name_buffer_done(&buffer);
	return found;
}

/* By the first names that are missing: what a prefix more or less would do. */
static void guess_rename(struct comparing *comparing)
{
	size_t looks = 0;
	struct expected_tensor wanted;

	for (size_t i = 0; i < comparing->wants.count && looks < EXPLAINED; i++) {
		if (!wanted_at(&comparing->wants, i, &wanted) ||
			find_tensor(comparing, wanted.name) != FSDP_NONE)
			continue;
		looks++;
		if (guess_strip(comparing, wanted.name) ||
			guess_add(comparing, wanted.name))
			return;
	}
}

/* The names that are most like it, for those who mistyped. */
static void near_names(
	struct comparing *comparing, struct text name, char *to, size_t size)
{
	struct name_buffer buffer = { 0 };
	struct similar similar;
	size_t used = 0, count = fsdp_tensor_count(comparing->actual);

	similar_init(&similar, name);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t id = fsdp_tensor(comparing->actual, i).name;

		similar_try(&similar, id, name_text(&buffer, comparing->actual, id));
	}
	for (size_t i = 0; i < similar.count && i < EXPLAINED && used < size; i++) {
		struct text near =
			name_text(&buffer, comparing->actual, similar.best[i].name);

		used += (size_t)snprintf(to + used, size - used, "%s%.*s",
			i > 0 ? ", " : "; the nearest: ",
			near.size < 80 ? (int)near.size : 80, near.data);
	}
	comparing->failed |= buffer.failed;
	name_buffer_done(&buffer);
}

static void find_missing(struct comparing *comparing, struct text name)
{
	char near[400] = "", next[2 * PREFIX_MOST + 80];
	const char *strip = comparing->strip, *add = comparing->add;
	uint32_t other = strip[0] != '\0' || add[0] != '\0'
				 ? find_tensor(comparing, renamed(comparing, name))
				 : FSDP_NONE;
	bool resolved = other != FSDP_NONE;

	if (resolved)
		comparing->matched[other] = 1;
	if (comparing->findings.missing++ >= COMPARED_KEPT)
		return;
	if (!resolved && comparing->findings.missing <= EXPLAINED)
		near_names(comparing, name, near, sizeof near);
	if (resolved)
		snprintf(next, sizeof next, "stored %s the prefix %s",
			add[0] != '\0' ? "with" : "without",
			add[0] != '\0' ? add : strip);
	compared_find(&comparing->findings, comparing->findings.names_rule,
		SEVERITY_ERROR, name, resolved ? next : NULL, "no tensor has this name%s",
		near);
}

/* Under the name that the other checkpoint tied it to. */
static bool has_partner(struct comparing *comparing, const struct expected_tensor *wanted)
{
	struct name_buffer buffer = { 0 };
	struct fsdp_tensor partner;
	struct text name;
	bool found;

	if (wanted->alias == FSDP_NONE)
		return false;
	partner = fsdp_tensor(comparing->wants.checkpoint, wanted->alias);
	name = name_text(&buffer, comparing->wants.checkpoint, partner.name);
	found = find_tensor(comparing, renamed(comparing, name)) != FSDP_NONE;
	name_buffer_done(&buffer);
	return found;
}

static bool is_ignored(struct comparing *comparing, struct text name)
{
	return comparing->ignored != NULL &&
	       selection_takes_name(comparing->ignored, span_of_text(name));
}

static void judge_one(struct comparing *comparing, const struct expected_tensor *wanted)
{
	uint32_t tensor = find_tensor(comparing, wanted->name);
	struct fsdp_tensor actual;

	if (tensor == FSDP_NONE) {
		if (!has_partner(comparing, wanted))
			find_missing(comparing, wanted->name);
		return;
	}
	comparing->matched[tensor] = 1;
	actual = fsdp_tensor(comparing->actual, tensor);
	compared_shape(&comparing->findings, wanted->name, wanted->shape, wanted->dims,
		wanted->dtype,
		&(struct fsdp_compare_tensor){ .tensor = tensor,
			.dtype = actual.dtype,
			.shape = actual.shape,
			.dims = actual.dims });
}

static void judge_extra(struct comparing *comparing)
{
	struct name_buffer buffer = { 0 };
	size_t count = fsdp_tensor_count(comparing->actual);

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(comparing->actual, i);
		struct text name;

		if (comparing->matched[i] || !is_weight(&tensor) ||
			tensor.alias != FSDP_NONE)
			continue;
		name = name_text(&buffer, comparing->actual, tensor.name);
		if (!is_ignored(comparing, name))
			compared_extra(&comparing->findings, name);
	}
	comparing->failed |= buffer.failed;
	name_buffer_done(&buffer);
}

static bool compare(struct comparing *comparing)
{
	struct expected_tensor wanted;

	if (!make_index(comparing))
		return false;
	guess_rename(comparing);
	for (size_t i = 0; i < comparing->wants.count && !comparing->failed; i++)
		if (wanted_at(&comparing->wants, i, &wanted) &&
			!is_ignored(comparing, wanted.name))
			judge_one(comparing, &wanted);
	judge_extra(comparing);
	compared_omit(&comparing->findings);
	return !comparing->failed && !comparing->findings.failed &&
	       !comparing->wants.buffer.failed && !comparing->renamed.failed;
}

static void comparing_done(struct comparing *comparing)
{
	free(comparing->index);
	free(comparing->matched);
	name_buffer_done(&comparing->wants.buffer);
	name_buffer_done(&comparing->renamed);
}

bool judge_expected(
	const struct expectation *expectation, struct run *run, struct selection *ignored)
{
	struct comparing comparing = {
		.findings = { .run = run,
			.names_rule = "FI6005",
			.shape_rule = "FI6007" },
		.wants = { .checkpoint = expectation->checkpoint,
			.names = expectation->names,
			.count = expectation->checkpoint != NULL
					 ? fsdp_tensor_count(expectation->checkpoint)
					 : expectation->names.count },
		.actual = run->checkpoint,
		.ignored = ignored,
	};
	bool good = compare(&comparing);

	comparing_done(&comparing);
	return good;
}
