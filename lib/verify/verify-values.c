/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of tensors, which come from their pieces one by one: what the pass could not see is
 * read here, and what cannot be a weight, a state or a step is reported.
 */
#include <math.h>
#include <stdlib.h>

#include <fsdp/elements.h>

#include "base/names.h"
#include "base/num.h"
#include "model/dtype.h"
#include "verify/verify-private.h"

/* ---- The numbers of a tensor, from its pieces ---- */

/* A tied tensor that has no bytes of its own is looked at under its other name. */
static bool shares_bytes(
	const struct fsdp_verify *verify, const struct fsdp_piece_record *piece)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	uint32_t alias = fsdp_model_tensor(model, piece->tensor)->alias;
	if (alias == FSDP_NONE)
		return false;
	const struct fsdp_tensor_record *other = fsdp_model_tensor(model, alias);
	return other->piece_count != 0 &&
	       fsdp_model_piece(model, other->first_piece)->extent == piece->extent;
}

bool fsdp_verify_is_counted(const struct fsdp_verify *verify, uint32_t piece)
{
	return verify->numbers != NULL &&
	       (verify->is_copy == NULL || !verify->is_copy[piece]) &&
	       !shares_bytes(verify, fsdp_model_piece(&verify->checkpoint->model, piece));
}

void fsdp_verify_add_numbers(struct fsdp_verify *verify,
	const struct fsdp_pass_view *view, const struct fsdp_pass_result *result)
{
	uint32_t index = view->owner;
	uint64_t layout = view->tag;
	const struct fsdp_piece_record *piece =
		fsdp_model_piece(&verify->checkpoint->model, index);
	struct fsdp_numbers *numbers = &verify->numbers[piece->tensor];
	bool first = numbers->seen++ == 0;
	if (view->counted && first)
		numbers->moments = result->moments;
	else if (view->counted)
		fsdp_moments_join(&numbers->moments, &result->moments);
	if (view->counted && numbers->bad_piece == FSDP_NONE &&
		result->moments.bad_index != FSDP_UNKNOWN) {
		numbers->bad_piece = index;
		numbers->moments.bad_index = result->moments.bad_index;
	}
	/* Pieces come in the order of their files, so that order must not count. */
	numbers->trait.words[0] +=
		fsdp_mix(result->sample.words[0] ^ layout, FSDP_VERIFY_MIX_A);
	numbers->trait.words[1] +=
		fsdp_mix(result->sample.words[1] ^ layout, FSDP_VERIFY_MIX_B);
	numbers->sampled |= view->end - view->begin > FSDP_SAMPLE_BYTES;
	numbers->layout += layout;
}

bool fsdp_verify_is_known(const struct fsdp_verify *verify, uint32_t tensor)
{
	const struct fsdp_numbers *numbers = &verify->numbers[tensor];
	return numbers->due != 0 && numbers->seen == numbers->due &&
	       fsdp_moments_takes(
		       fsdp_model_tensor(&verify->checkpoint->model, tensor)->dtype);
}

/* ---- What cannot be a weight, a state or a step ---- */

enum { SUM_EXACT = 1 << 17 };

/* ---- which pieces ---- */

bool fsdp_verify_begin_values(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	if (verify->options.level != FSDP_LEVEL_VALUES)
		return true;
	verify->numbers =
		FSDP_TAKE(&verify->arena, verify->numbers, model->tensors.count + 1);
	if (verify->numbers == NULL)
		return fsdp_arena_fail(&verify->arena, ret_error);
	for (size_t i = 0; i < model->tensors.count; i++) {
		verify->numbers[i].bad_piece = FSDP_NONE;
		fsdp_moments_init(&verify->numbers[i].moments);
	}
	for (uint32_t i = 0; i < model->pieces.count; i++) {
		uint32_t rank;
		if (fsdp_verify_is_counted(verify, i) &&
			fsdp_piece_numel(verify->checkpoint, i, &rank) != 0)
			verify->numbers[fsdp_model_piece(model, i)->tensor].due++;
	}
	return true;
}

/* ---- odd tensors ---- */

/* Strides that no pass over the bytes can follow. */
static bool read_elements(
	struct fsdp_verify *verify, uint32_t tensor, struct fsdp_error **ret_error)
{
	const struct fsdp_tensor_record *record =
		fsdp_model_tensor(&verify->checkpoint->model, tensor);
	struct fsdp_numbers *numbers = &verify->numbers[tensor];
	struct fsdp_elements_options options = { .size = sizeof options };
	struct fsdp_elements *elements = NULL;
	struct fsdp_span bytes;
	uint64_t at = 0;
	bool good = fsdp_elements_open(
		verify->locator, tensor, &options, &elements, ret_error);
	fsdp_moments_init(&numbers->moments);
	numbers->moments.samples = true;
	while (good) {
		good = fsdp_elements_next(elements, &bytes, ret_error);
		if (!good || bytes.size == 0)
			break;
		fsdp_moments_add(&numbers->moments, record->dtype, false, bytes.data,
			bytes.size, at);
		at += bytes.size;
	}
	fsdp_elements_close(elements);
	if (!good)
		return false;
	numbers->seen = numbers->due;
	numbers->layout = 0;
	if (numbers->moments.bad_index != FSDP_UNKNOWN)
		numbers->bad_piece = record->first_piece;
	return true;
}

static bool read_odd(struct fsdp_verify *verify, struct fsdp_repeats *repeats,
	struct fsdp_error **ret_error)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	for (uint32_t i = 0; i < model->tensors.count; i++) {
		struct fsdp_error *error = NULL;
		uint64_t size = fsdp_model_bytes(model, fsdp_model_tensor(model, i));
		if (!verify->numbers[i].odd)
			continue;
		verify->numbers[i].seen = 0;
		if (!fsdp_repeats_take(repeats, i, size, NULL)) {
			verify->lacks |= FSDP_OVER_LIMIT;
			continue;
		}
		if (read_elements(verify, i, &error))
			continue;
		bool memory = fsdp_error_code(error) == FSDP_ERROR_MEMORY;
		fsdp_error_free(error);
		if (memory)
			return fsdp_fail_memory(ret_error);
	}
	return true;
}

/* ---- names ---- */

static struct fsdp_span last_segment(const struct fsdp_model *model, uint32_t tensor)
{
	return fsdp_names_segment(&model->names, fsdp_model_tensor(model, tensor)->name);
}

static bool ends_as_one(struct fsdp_span name, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (fsdp_span_ends(name, fsdp_span_text(words[i])))
			return true;
	return false;
}

static bool is_one_of(struct fsdp_span name, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (fsdp_span_is(name, words[i]))
			return true;
	return false;
}

/* ---- what is not finite ---- */

/* Masks are full of -inf, and bounds of clipping that have seen nothing are infinite. */
static bool may_be_infinite(const struct fsdp_tensor *tensor, struct fsdp_span name,
	const struct fsdp_moments *m)
{
	static const char *const masks[] = { "inv_freq", "attn_mask", "causal_mask",
		"bias_mask" };
	static const char *const bounds[] = { "_min", "_max" };
	if (m->nan != 0)
		return false;
	if (m->pos_inf == 0 && ends_as_one(name, masks, FSDP_COUNT(masks)))
		return true;
	return tensor->numel == 1 && ends_as_one(name, bounds, FSDP_COUNT(bounds));
}

static struct fsdp_place_of place_of(struct fsdp_verify *verify, uint32_t tensor)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	const struct fsdp_numbers *numbers = &verify->numbers[tensor];
	struct fsdp_place_of place = *FSDP_PLACE(.rank = FSDP_NONE);
	fsdp_arena_reset(&verify->item);
	place.tensor = fsdp_model_name(
		model, fsdp_model_tensor(model, tensor)->name, &verify->item);
	uint32_t piece = numbers->bad_piece != FSDP_NONE
				 ? numbers->bad_piece
				 : fsdp_model_tensor(model, tensor)->first_piece;
	if (fsdp_model_tensor(model, tensor)->piece_count == 0)
		return place;
	const struct fsdp_piece_record *record = fsdp_model_piece(model, piece);
	place.rank = record->rank;
	if (record->extent == FSDP_NONE)
		return place;
	const struct fsdp_extent *extent = fsdp_model_extent(model, record->extent);
	place.file = fsdp_model_file(model, extent->file)->path;
	place.offset = extent->offset;
	place.length = extent->length;
	return place;
}

static void judge_finite(
	struct fsdp_verify *verify, uint32_t index, const struct fsdp_tensor *tensor)
{
	const struct fsdp_numbers *numbers = &verify->numbers[index];
	const struct fsdp_moments *m = &numbers->moments;
	struct fsdp_span name = last_segment(&verify->checkpoint->model, index);
	if (m->bad_index == FSDP_UNKNOWN)
		return;
	struct fsdp_place_of place = place_of(verify, index);
	if (may_be_infinite(tensor, name, m))
		place.severity = FSDP_NOTE + 1;
	else if (tensor->role == FSDP_ROLE_OPTIM || tensor->role == FSDP_ROLE_OTHER)
		place.severity = FSDP_WARNING + 1;
	fsdp_find(&verify->findings, FSDP_RULE_NON_FINITE, &place,
		"%llu NaN, %llu +inf and %llu -inf among %llu numbers; the first is number %llu of piece %u",
		FSDP_LLU(m->nan), FSDP_LLU(m->pos_inf), FSDP_LLU(m->neg_inf),
		FSDP_LLU(m->count), FSDP_LLU(m->bad_index),
		numbers->bad_piece - tensor->first_piece);
}

/* ---- what cannot be ---- */

static void say_impossible(
	struct fsdp_verify *verify, uint32_t tensor, double number, const char *what)
{
	struct fsdp_place_of place = place_of(verify, tensor);
	fsdp_find(&verify->findings, FSDP_RULE_IMPOSSIBLE_VALUE, &place, "%.9g: %s",
		number, what);
}

static void judge_possible(
	struct fsdp_verify *verify, uint32_t index, const struct fsdp_tensor *tensor)
{
	static const char *const squares[] = { "exp_avg_sq", "max_exp_avg_sq",
		"running_var" };
	static const char *const steps[] = { "num_batches_tracked", "step" };
	static const char *const rates[] = { "lr", "_scale", "loss_scale" };
	const struct fsdp_moments *m = &verify->numbers[index].moments;
	struct fsdp_span name = last_segment(&verify->checkpoint->model, index);
	bool infinite = m->bad_index != FSDP_UNKNOWN;
	bool negative = m->min < 0;
	const struct fsdp_dtype *dtype = fsdp_dtype(tensor->dtype);
	if (strcmp(dtype->name, "bool") == 0 && m->max > 1)
		say_impossible(verify, index, m->max, "a truth is stored as 0 or 1");
	if (is_one_of(name, squares, FSDP_COUNT(squares)) && negative)
		say_impossible(verify, index, m->min, "a mean of squares is negative");
	if (is_one_of(name, steps, FSDP_COUNT(steps)) && tensor->numel == 1 &&
		(negative || infinite))
		say_impossible(verify, index, infinite ? (double)NAN : m->min,
			"a count of steps is negative or not finite");
	if (is_one_of(name, rates, FSDP_COUNT(rates)) && tensor->numel == 1 &&
		tensor->role != FSDP_ROLE_PARAM && (negative || infinite))
		say_impossible(verify, index, infinite ? (double)NAN : m->min,
			"a rate or scale is negative or not finite");
	/* Sums of 0 … n−1 are exact as long as n is not large. */
	if (fsdp_span_is(name, "position_ids") && !dtype->is_floating) {
		double count = (double)m->count;
		if (m->count <= SUM_EXACT &&
			(m->min != 0 || m->max != count - 1 ||
				m->sum != count * (count - 1) / 2 ||
				m->squares != (count - 1) * count * (2 * count - 1) / 6))
			say_impossible(verify, index, m->max,
				"positions are not the numbers from 0 on, each once");
	}
}

/* ---- the whole ---- */

bool fsdp_verify_judge_values(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	struct fsdp_repeats *repeats;
	/* Of parts none knows all. */
	if (verify->numbers == NULL || verify->options.parts != 0)
		return true;
	if (!fsdp_repeats_new(verify->checkpoint, &repeats, ret_error))
		return false;
	bool good = read_odd(verify, repeats, ret_error) &&
		    fsdp_verify_see_equal(verify, repeats, ret_error);
	fsdp_repeats_free(repeats);
	if (!good)
		return false;
	for (uint32_t i = 0; i < model->tensors.count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(verify->checkpoint, i);
		if (verify->numbers[i].seen != 0)
			judge_finite(verify, i, &tensor);
		if (fsdp_verify_is_known(verify, i) &&
			verify->numbers[i].moments.count != 0)
			judge_possible(verify, i, &tensor);
	}
	return true;
}

struct fsdp_verify_values fsdp_verify_values(
	const struct fsdp_verify *verify, uint32_t tensor)
{
	struct fsdp_verify_values values = { .bad_piece = FSDP_NONE,
		.bad_index = FSDP_UNKNOWN };
	if (verify->numbers == NULL || verify->options.parts != 0)
		return values;
	const struct fsdp_numbers *numbers = &verify->numbers[tensor];
	const struct fsdp_moments *m = &numbers->moments;
	if (numbers->due != 0 && numbers->seen == numbers->due) {
		memcpy(values.digest, numbers->trait.words, sizeof values.digest);
		values.layout = numbers->layout;
	}
	if (!fsdp_verify_is_known(verify, tensor))
		return values;
	values.known = true;
	values.count = m->count;
	values.nan = m->nan;
	values.pos_inf = m->pos_inf;
	values.neg_inf = m->neg_inf;
	values.finite = m->count - m->nan - m->pos_inf - m->neg_inf;
	values.zeros = m->zeros;
	values.subnormals = m->subnormals;
	values.constant = values.finite == m->count && m->count != 0 && m->min == m->max;
	values.min = values.finite != 0 ? m->min : 0;
	values.max = values.finite != 0 ? m->max : 0;
	values.summed = m->summed;
	values.sum = m->sum;
	values.squares = m->squares;
	values.bad_piece = numbers->bad_piece;
	values.bad_index = m->bad_index;
	return values;
}
