/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `diff` says about one pair, to people and to programs.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "cmd/diff/diff.h"
#include "session/session.h"

const char *what_word(unsigned bit)
{
	static const char *const words[] = { "dtype", "shape", "role", "placement",
		"unit", "value", "elements" };

	return bit < sizeof words / sizeof *words ? words[bit] : NULL;
}

static void piece_text(const struct fsdp_compare_pair *pair, char text[HINT_TEXT])
{
	if (pair->part != FSDP_UNKNOWN)
		snprintf(text, HINT_TEXT,
			"1/%" PRIu64 ": the piece of rank %" PRIu64
			" was saved as the full tensor",
			pair->parts, pair->part);
	else
		snprintf(text, HINT_TEXT,
			"1/%" PRIu64
			": the piece of one rank was saved as the full tensor",
			pair->parts);
}

static void flat_piece_text(
	const struct fsdp_compare_pair *pair, const char *side, char text[HINT_TEXT])
{
	char whose[64] = "one rank's flat shard";

	if (pair->part != FSDP_UNKNOWN)
		snprintf(whose, sizeof whose, "the flat shard of rank %" PRIu64,
			pair->part);
	snprintf(text, HINT_TEXT,
		"%s1/%" PRIu64
		" of the elements, flattened: %s was saved as the full tensor",
		side, pair->parts, whose);
}

/* Which side the hint is about, where that is not B. */
static const char *side_text(const struct fsdp_compare_pair *pair)
{
	return pair->hint_side == 0 ? "in A: " : "";
}

void hint_text(const struct fsdp_compare_pair *pair, char text[HINT_TEXT])
{
	const char *side = side_text(pair);

	text[0] = '\0';
	switch (pair->hint) {
	case FSDP_HINT_FLATTENED:
		snprintf(text, HINT_TEXT, "%sflattened, with as many elements", side);
		break;
	case FSDP_HINT_RESHAPED:
		snprintf(text, HINT_TEXT, "reshaped");
		break;
	case FSDP_HINT_TRANSPOSED:
		snprintf(text, HINT_TEXT, "transposed");
		break;
	case FSDP_HINT_PLACEHOLDER:
		snprintf(text, HINT_TEXT,
			"%sa placeholder without elements: saved without gathering the parameters",
			side);
		break;
	case FSDP_HINT_PIECE:
		piece_text(pair, text);
		break;
	case FSDP_HINT_FLAT_PIECE:
		flat_piece_text(pair, side, text);
		break;
	case FSDP_HINT_JOINED:
		snprintf(text, HINT_TEXT,
			"%" PRIu64 " times as long in dim %u: %" PRIu64
			" shards or replicas concatenated",
			pair->parts, pair->dim, pair->parts);
		break;
	case FSDP_HINT_COPIES:
		snprintf(text, HINT_TEXT,
			"%" PRIu64 " identical copies of it, joined along dim %u",
			pair->parts, pair->dim);
		break;
	case FSDP_HINT_SHUFFLED:
		snprintf(text, HINT_TEXT,
			"the same %" PRIu64
			" pieces along dim %u, joined in another order",
			pair->parts, pair->dim);
		break;
	case FSDP_HINT_ROUNDED:
		snprintf(text, HINT_TEXT,
			"equal, rounded to the narrower of the two dtypes");
		break;
	case FSDP_HINT_NONE:
	case FSDP_HINT_COUNT:
		break;
	}
}

void rename_text(const struct fsdp_compare_rename *rename, char text[HINT_TEXT])
{
	int from = rename->from.size < 60 ? (int)rename->from.size : 60;
	int to = rename->to.size < 60 ? (int)rename->to.size : 60;

	if (rename->why == FSDP_RENAMED_BYTES)
		snprintf(text, HINT_TEXT, "same bytes, shape and dtype");
	else if (to == 0)
		snprintf(text, HINT_TEXT, "prefix %.*s removed", from,
			(const char *)rename->from.data);
	else if (from == 0)
		snprintf(text, HINT_TEXT, "prefix %.*s added", to,
			(const char *)rename->to.data);
	else
		snprintf(text, HINT_TEXT, "prefix %.*s replaced by %.*s", from,
			(const char *)rename->from.data, to,
			(const char *)rename->to.data);
}

void shape_text(const struct fsdp_compare_tensor *tensor, char text[SHAPE_TEXT])
{
	size_t used = 0;

	snprintf(text, SHAPE_TEXT, "%s", tensor->shape == NULL ? "any" : "[]");
	for (uint32_t i = 0;
		tensor->shape != NULL && i < tensor->dims && used + 1 < SHAPE_TEXT; i++)
		used += (size_t)snprintf(text + used, SHAPE_TEXT - used, "%s%" PRId64,
			i > 0 ? "x" : "", tensor->shape[i]);
}

/* "[3, 1]" */
static size_t put_index(const struct diff_change *change, char *text, size_t size)
{
	uint32_t dims = change->pair.sides[0].dims;
	size_t used = (size_t)snprintf(text, size, "[");

	for (uint32_t i = 0; i < dims && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%" PRId64,
			i > 0 ? ", " : "", change->first[i]);
	if (used < size)
		used += (size_t)snprintf(text + used, size - used, "]");
	return used < size ? used : size - 1;
}

static size_t put_number(const char *label, double number, char *text, size_t size)
{
	char digits[32];

	snprintf(digits, sizeof digits, "%.4g", number);
	return (size_t)snprintf(text, size, "%s %s", label, digits);
}

void elements_text(
	const struct diff_change *change, bool is_long, char text[ELEMENTS_TEXT])
{
	const struct fsdp_compare_elements *elements = &change->pair.elements;
	uint64_t numel = 1;
	size_t used;

	text[0] = '\0';
	if (!change->pair.compared) {
		snprintf(text, ELEMENTS_TEXT, "stored in another form");
		return;
	}
	for (uint32_t i = 0; i < change->pair.sides[0].dims; i++)
		numel *= (uint64_t)change->pair.sides[0].shape[i];
	if (elements->differing == numel && numel > 1)
		used = (size_t)snprintf(text, ELEMENTS_TEXT, "all %" PRIu64 "%s", numel,
			elements->has_numbers && !isinf(elements->max_abs) ? ""
									   : " differ");
	else
		used = (size_t)snprintf(text, ELEMENTS_TEXT,
			"%" PRIu64 " of %" PRIu64 " elements differ", elements->differing,
			numel);
	if (elements->has_numbers && isinf(elements->max_abs))
		used += (size_t)snprintf(
			text + used, ELEMENTS_TEXT - used, " (NaN or Inf on one side)");
	else if (elements->has_numbers)
		used += put_number(" by up to", elements->max_abs, text + used,
			ELEMENTS_TEXT - used);
	if (change->has_first && (is_long || elements->differing != numel)) {
		used += (size_t)snprintf(
			text + used, ELEMENTS_TEXT - used, ", the first at ");
		used += put_index(change, text + used, 160);
	}
	if (!elements->has_numbers || !is_long)
		return;
	used += put_number(
		", max rel", elements->max_rel, text + used, ELEMENTS_TEXT - used);
	put_number(", mean abs", elements->mean_abs, text + used, ELEMENTS_TEXT - used);
}

struct text unit_text(
	struct diffing *diffing, unsigned side, const struct fsdp_compare_tensor *tensor)
{
	const struct fsdp_checkpoint *checkpoint = diffing->checkpoints[side];
	struct fsdp_tensor facts;

	if (tensor->tensor == FSDP_NONE) /* from a list, or from a partial result */
		return (struct text){ NULL, 0 };
	facts = fsdp_tensor(checkpoint, tensor->tensor);
	if (facts.unit == FSDP_NONE)
		return (struct text){ NULL, 0 };
	return name_text(&diffing->buffers[side], checkpoint,
		fsdp_module(checkpoint, fsdp_unit(checkpoint, facts.unit).module).name);
}
