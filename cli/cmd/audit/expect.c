/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the names, shapes and dtypes of a checkpoint with what they should be.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/audit/expect-values.h"
#include "cmd/audit/expect.h"
#include "part/name-buffer.h"
#include "part/similar.h"
#include "run/answer.h"
#include "run/collected.h"

enum {
	KEPT = 1000,   /* findings of a rule; more are counted */
	EXPLAINED = 3, /* missing names for which others that are near are looked for */
	PREFIX_MOST = 200,
};

/* ---- what there is ---- */

struct named {
	uint32_t name, tensor;
};

struct comparing {
	struct run *run;
	struct wants wants;
	const struct fsdp_checkpoint *actual;
	struct named *index; /* by name */
	size_t index_count;
	unsigned char *matched; /* by tensor */
	struct selection *ignored;
	struct text file;       /* of the findings */
	const char *names_rule; /* FI6005 or FI6001 */
	const char *shape_rule;
	char strip[PREFIX_MOST], add[PREFIX_MOST]; /* what names lose and get */
	struct name_buffer renamed;
	uint64_t missing, shaped, extra; /* findings so far */
	struct fsdp_locator *locators[2];
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

/* ---- findings ---- */

__attribute__((format(printf, 6, 7))) static void find(struct comparing *comparing,
	const char *rule, enum severity severity, struct text tensor, const char *next,
	const char *format, ...)
{
	struct collected *collected = comparing->run->collected;
	const struct fsdp_rule *row = fsdp_rule_find(rule);
	va_list arguments;
	char *message, *name;

	va_start(arguments, format);
	message = collected_format(collected, format, arguments);
	va_end(arguments);
	name = owned_copy(&collected->owned, tensor.data, tensor.size);
	if (message == NULL || name == NULL) {
		comparing->failed = true;
		return;
	}
	collected_finding(collected, &(struct finding){ .rule = row->id,
					     .slug = row->slug,
					     .severity = severity,
					     .input = comparing->run->input,
					     .file = comparing->file,
					     .tensor = { name, tensor.size },
					     .offset = UINT64_MAX,
					     .length = UINT64_MAX,
					     .rank = UINT32_MAX,
					     .lost_bytes = UINT64_MAX,
					     .message = text_of(message),
					     .next = collected_text(collected,
						     next != NULL ? next : row->fix) });
}

static void omit(struct comparing *comparing, const char *rule, uint64_t count)
{
	struct fsdp_omitted omitted = { fsdp_rule_find(rule),
		span_of_text(comparing->file), count };

	if (count > 0)
		collected_omitted(comparing->run->collected, &omitted,
			comparing->run->input, false);
}

/* ---- names ---- */

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
	if (comparing->missing++ >= KEPT)
		return;
	if (!resolved && comparing->missing <= EXPLAINED)
		near_names(comparing, name, near, sizeof near);
	if (resolved)
		snprintf(next, sizeof next, "it is there %s the prefix %s",
			add[0] != '\0' ? "with" : "without",
			add[0] != '\0' ? add : strip);
	find(comparing, comparing->names_rule, SEVERITY_ERROR, name,
		resolved ? next : NULL, "no tensor has this name%s", near);
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

/* How the one may have come of the other. */
static const char *cause(
	const struct expected_tensor *wanted, const struct fsdp_tensor *actual)
{
	uint64_t numel = 1;

	for (uint32_t i = 0; i < wanted->dims; i++)
		if (__builtin_mul_overflow(numel, (uint64_t)wanted->shape[i], &numel))
			return "";
	if (actual->numel == numel && actual->dims == 1)
		return " (flattened)";
	if (actual->numel == 0)
		return " (a placeholder)";
	if (actual->numel < numel && numel % actual->numel == 0)
		return " (one rank's part, written as the whole)";
	if (numel > 0 && actual->numel > numel && actual->numel % numel == 0)
		return " (the parts of several ranks, joined)";
	return "";
}

/* Whether the elements can be compared. */
static bool judge_shape(struct comparing *comparing, const struct expected_tensor *wanted,
	const struct fsdp_tensor *actual)
{
	bool same = wanted->shape == NULL ||
		    (wanted->dims == actual->dims &&
			    (actual->dims == 0 ||
				    memcmp(wanted->shape, actual->shape,
					    actual->dims * sizeof(int64_t)) == 0));
	const char *dtype = fsdp_dtype(actual->dtype)->name;
	bool merges = strcmp(comparing->shape_rule, "FI6003") == 0;
	char expected[200], found[200];

	if (!same && comparing->shaped++ < KEPT) {
		spell_shape(wanted->shape, wanted->dims, expected, sizeof expected);
		spell_shape(actual->shape, actual->dims, found, sizeof found);
		find(comparing, comparing->shape_rule, SEVERITY_ERROR, wanted->name, NULL,
			"the shape is %s instead of %s%s", found, expected,
			cause(wanted, actual));
	}
	if (wanted->dtype.data == NULL || text_is(wanted->dtype, text_of(dtype)))
		return same;
	if (comparing->shaped++ < KEPT)
		find(comparing, comparing->shape_rule,
			merges ? SEVERITY_WARNING : SEVERITY_ERROR, wanted->name, NULL,
			"the dtype is %s instead of %.*s", dtype,
			wanted->dtype.size < 40 ? (int)wanted->dtype.size : 40,
			wanted->dtype.data);
	return false;
}

/* ---- elements ---- */

static void judge_values(struct comparing *comparing,
	const struct expected_tensor *wanted, uint32_t tensor)
{
	const struct compared_tensor pair[2] = {
		{ comparing->wants.checkpoint, comparing->locators[0], wanted->tensor },
		{ comparing->actual, comparing->locators[1], tensor },
	};
	struct fsdp_error *error = NULL;
	struct difference difference;

	if (compare_elements(pair, &difference, &error) && difference.count > 0)
		find(comparing, "FI6004", SEVERITY_ERROR, wanted->name, NULL,
			"%" PRIu64 " of %" PRIu64
			" elements differ, the first is element %" PRIu64,
			difference.count, difference.elements, difference.first);
	if (error != NULL)
		collected_error(comparing->run->collected, error, comparing->run->input);
	fsdp_error_free(error);
}

/* ---- all of it ---- */

/* The one key that programs which merge take away, or that wraps a model for training. */
static bool is_unwrapped(const struct comparing *comparing)
{
	const char *prefix =
		comparing->strip[0] != '\0' ? comparing->strip : comparing->add;

	return strcmp(prefix, "model.") == 0 || strcmp(prefix, "module.") == 0;
}

static void judge_one(struct comparing *comparing, const struct expected_tensor *wanted)
{
	uint32_t tensor = find_tensor(comparing, wanted->name);
	bool merges = comparing->wants.checkpoint == comparing->run->checkpoint;
	struct fsdp_tensor actual;

	if (tensor == FSDP_NONE && merges && is_unwrapped(comparing))
		tensor = find_tensor(comparing, renamed(comparing, wanted->name));
	if (tensor == FSDP_NONE) {
		if (!has_partner(comparing, wanted))
			find_missing(comparing, wanted->name);
		return;
	}
	comparing->matched[tensor] = 1;
	actual = fsdp_tensor(comparing->actual, tensor);
	if (judge_shape(comparing, wanted, &actual) && comparing->locators[0] != NULL &&
		(actual.flags & FSDP_TENSOR_NO_DATA) == 0 && actual.alias == FSDP_NONE)
		judge_values(comparing, wanted, tensor);
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
		if (!is_ignored(comparing, name) && comparing->extra++ < KEPT)
			find(comparing, comparing->names_rule, SEVERITY_WARNING, name,
				NULL, "a tensor that was not expected");
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
	omit(comparing, comparing->names_rule,
		(comparing->missing > KEPT ? comparing->missing - KEPT : 0) +
			(comparing->extra > KEPT ? comparing->extra - KEPT : 0));
	omit(comparing, comparing->shape_rule,
		comparing->shaped > KEPT ? comparing->shaped - KEPT : 0);
	return !comparing->failed && !comparing->wants.buffer.failed &&
	       !comparing->renamed.failed;
}

static void comparing_done(struct comparing *comparing)
{
	free(comparing->index);
	free(comparing->matched);
	name_buffer_done(&comparing->wants.buffer);
	name_buffer_done(&comparing->renamed);
	fsdp_locator_free(comparing->locators[0]);
	fsdp_locator_free(comparing->locators[1]);
}

bool judge_expected(
	const struct expectation *expectation, struct run *run, struct selection *ignored)
{
	struct comparing comparing = {
		.run = run,
		.wants = { .checkpoint = expectation->checkpoint,
			.names = expectation->names,
			.count = expectation->checkpoint != NULL
					 ? fsdp_tensor_count(expectation->checkpoint)
					 : expectation->names.count },
		.actual = run->checkpoint,
		.ignored = ignored,
		.names_rule = "FI6005",
		.shape_rule = "FI6007",
	};
	bool good = compare(&comparing);

	comparing_done(&comparing);
	return good;
}

bool judge_merged(const struct expectation *expectation, struct run *run,
	struct selection *ignored, bool values)
{
	struct comparing comparing = {
		.run = run,
		.wants = { .checkpoint = run->checkpoint,
			.count = fsdp_tensor_count(run->checkpoint) },
		.actual = expectation->checkpoint,
		.ignored = ignored,
		.file = text_of(expectation->path),
		.names_rule = "FI6001",
		.shape_rule = "FI6003",
	};
	bool good = !values ||
		    (fsdp_locator_new(run->checkpoint, &comparing.locators[0], NULL) &&
			    fsdp_locator_new(expectation->checkpoint,
				    &comparing.locators[1], NULL));

	good = good && compare(&comparing);
	comparing_done(&comparing);
	return good;
}
