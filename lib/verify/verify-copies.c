/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces that should be alike: copies of one box that several ranks keep, and the pieces
 * of tensors that are tied to each other but stored apart.
 */
#include <stdlib.h>

#include "base/num.h"
#include "model/dtype.h"
#include "verify/verify-private.h"

enum { COMPARED = 32 << 10 };

/* ---- boxes ---- */

struct place_question {
	const struct fsdp_model *model;
	const struct fsdp_tensor_record *tensor;
};

/* Offsets and sizes of a piece, the whole tensor as the box that it is. */
static int64_t coordinate(
	const struct place_question *question, const int64_t *box, size_t i)
{
	size_t dims = question->tensor->dims;
	if (box != NULL)
		return box[i];
	return i < dims ? 0
			: fsdp_model_ints(
				  question->model, question->tensor->shape)[i - dims];
}

static int compare_boxes(const struct place_question *question, uint32_t a, uint32_t b)
{
	const struct fsdp_piece_record *left = fsdp_model_piece(question->model, a),
				       *right = fsdp_model_piece(question->model, b);
	const int64_t *of_left = fsdp_model_ints(question->model, left->box),
		      *of_right = fsdp_model_ints(question->model, right->box);
	size_t count = left->is_run ? 2 : 2 * (size_t)question->tensor->dims;
	if (left->is_run != right->is_run)
		return left->is_run ? 1 : -1;
	for (size_t i = 0; i < count; i++) {
		int64_t first = left->is_run ? of_left[i]
					     : coordinate(question, of_left, i),
			second = left->is_run ? of_right[i]
					      : coordinate(question, of_right, i);
		if (first != second)
			return first < second ? -1 : 1;
	}
	return 0;
}

static int by_box(const void *left, const void *right, void *context)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	int order = compare_boxes(context, a, b);
	return order != 0 ? order : a < b ? -1 : a > b;
}

static bool has_elements(const struct fsdp_verify *verify, uint32_t piece)
{
	uint32_t rank;
	return fsdp_piece_numel(verify->checkpoint, piece, &rank) != 0;
}

static bool has_bytes(const struct fsdp_verify *verify, uint32_t piece)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	uint32_t extent = fsdp_model_piece(model, piece)->extent;
	return extent != FSDP_NONE && !fsdp_model_extent(model, extent)->missing;
}

/* ---- groups ---- */

/* What each rank has for itself though it goes by one name. */
static bool is_ranks_own(const struct fsdp_verify *verify, uint32_t tensor)
{
	static const char *const words[] = { "rng", "random", "dataloader", "sampler" };
	const struct fsdp_model *model = &verify->checkpoint->model;
	uint32_t name = fsdp_model_tensor(model, tensor)->raw_name;
	for (; name != FSDP_NONE && name != 0;
		name = fsdp_names_at(&model->names, name)->parent) {
		struct fsdp_span segment = fsdp_names_segment(&model->names, name);
		for (size_t i = 0; i < FSDP_COUNT(words); i++)
			if (memmem(segment.data, segment.size, words[i],
				    strlen(words[i])) != NULL)
				return true;
	}
	return false;
}

/* Every rank holds a summand of it. */
static bool is_sum(const struct fsdp_verify *verify, uint32_t tensor)
{
	uint32_t index = fsdp_tensor(verify->checkpoint, tensor).placement;
	if (index == FSDP_NONE)
		return false;
	struct fsdp_placement placement = fsdp_placement(verify->checkpoint, index);
	for (uint32_t i = 0; i < placement.count; i++)
		if (fsdp_span_begins(placement.texts[i], FSDP_SPAN("Partial")))
			return true;
	return false;
}

static bool add_copy(struct fsdp_vec *list, uint32_t piece, uint32_t group, bool tied)
{
	struct fsdp_copy copy = { .piece = piece, .group = group, .tied = tied };
	return fsdp_vec_add(list, &copy);
}

/* Pieces that have one box, `count` of them. */
static bool add_group(struct fsdp_verify *verify, struct fsdp_vec *list,
	const uint32_t *pieces, size_t count, bool compared)
{
	uint32_t first = FSDP_NONE, group = (uint32_t)list->count;
	for (size_t i = 0; i < count; i++) {
		if (!has_bytes(verify, pieces[i]))
			continue;
		if (first == FSDP_NONE)
			first = pieces[i];
		if (compared && !add_copy(list, pieces[i], group, false))
			return false;
	}
	for (size_t i = 0; i < count; i++)
		verify->is_copy[pieces[i]] =
			first != FSDP_NONE ? pieces[i] != first : i != 0;
	return true;
}

static bool ascends(const struct place_question *question, uint32_t first, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
		if (compare_boxes(question, first + i - 1, first + i) >= 0)
			return false;
	return true;
}

static bool find_replicas(
	struct fsdp_verify *verify, struct fsdp_vec *list, uint32_t tensor)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	struct place_question question = { model, fsdp_model_tensor(model, tensor) };
	uint32_t first = question.tensor->first_piece,
		 count = question.tensor->piece_count;
	if (count < 2 || is_sum(verify, tensor) || ascends(&question, first, count))
		return true;
	bool compared = !is_ranks_own(verify, tensor);
	fsdp_arena_reset(&verify->item);
	uint32_t *order = FSDP_TAKE(&verify->item, order, count);
	if (order == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++)
		order[i] = first + i;
	qsort_r(order, count, sizeof *order, by_box, &question);
	for (uint32_t i = 0, end; i < count; i = end) {
		for (end = i + 1; end < count; end++)
			if (compare_boxes(&question, order[i], order[end]) != 0)
				break;
		if (end - i > 1 && has_elements(verify, order[i]) &&
			!add_group(verify, list, order + i, end - i, compared))
			return false;
	}
	return true;
}

/* Only what was cut alike is compared. What was saved once has no pieces of its own. */
static bool find_tied(struct fsdp_verify *verify, struct fsdp_vec *list, uint32_t tensor)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	const struct fsdp_tensor_record *record = fsdp_model_tensor(model, tensor);
	if (record->alias == FSDP_NONE)
		return true;
	const struct fsdp_tensor_record *other = fsdp_model_tensor(model, record->alias);
	struct place_question question = { model, record };
	if (other->dims != record->dims || other->piece_count != record->piece_count ||
		other->dtype != record->dtype) {
		verify->unlike_ties |=
			other->piece_count != 0 && record->piece_count != 0;
		return true;
	}
	for (uint32_t i = 0; i < record->piece_count; i++) {
		uint32_t a = record->first_piece + i, b = other->first_piece + i;
		bool unlike = compare_boxes(&question, a, b) != 0;
		if (!has_bytes(verify, a) || !has_bytes(verify, b) ||
			fsdp_model_piece(model, a)->extent ==
				fsdp_model_piece(model, b)->extent)
			continue;
		verify->unlike_ties |= unlike;
		if (unlike)
			continue;
		uint32_t group = (uint32_t)list->count;
		if (!add_copy(list, b, group, true) || !add_copy(list, a, group, true))
			return false;
	}
	return true;
}

static int by_piece(const void *left, const void *right)
{
	const struct fsdp_copy *a = left, *b = right;
	if (a->piece != b->piece)
		return a->piece < b->piece ? -1 : 1;
	return a->group < b->group ? -1 : a->group > b->group;
}

static bool keep_copies(struct fsdp_verify *verify, const struct fsdp_vec *list)
{
	verify->copies = FSDP_TAKE(&verify->arena, verify->copies, list->count + 1);
	if (verify->copies == NULL)
		return false;
	for (size_t i = 0; i < list->count; i++)
		verify->copies[i] = *(struct fsdp_copy *)fsdp_vec_at(list, i);
	verify->copy_count = list->count;
	verify->copies[list->count].piece = FSDP_NONE;
	qsort(verify->copies, list->count, sizeof *verify->copies, by_piece);
	return true;
}

bool fsdp_verify_find_copies(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	struct fsdp_vec list;
	fsdp_vec_init(&list, &verify->batch, sizeof(struct fsdp_copy));
	verify->is_copy =
		FSDP_TAKE(&verify->arena, verify->is_copy, model->pieces.count + 1);
	bool good = verify->is_copy != NULL;
	for (uint32_t i = 0; good && i < model->tensors.count; i++)
		good = find_replicas(verify, &list, i) && find_tied(verify, &list, i);
	good = good && keep_copies(verify, &list);
	fsdp_arena_reset(&verify->batch);
	return good || fsdp_arena_fail(&verify->arena, ret_error);
}

struct fsdp_copy *fsdp_verify_copy(const struct fsdp_verify *verify, uint32_t piece)
{
	size_t low = 0, high = verify->copy_count;
	FSDP_HALVE(low, high, middle, verify->copies[middle].piece < piece);
	return low < verify->copy_count && verify->copies[low].piece == piece
		       ? &verify->copies[low]
		       : NULL;
}

/* ---- differences ---- */

/* The first element that differs and how many do; false: they cannot be read again. */
static bool count_differences(const struct fsdp_verify *verify, const struct fsdp_copy *a,
	const struct fsdp_copy *b, unsigned width, uint64_t *ret_first,
	uint64_t *ret_count)
{
	struct fsdp_source first, second;
	unsigned char *left = verify->window, *right = verify->window + COMPARED;
	if (a->offset == FSDP_UNKNOWN || b->offset == FSDP_UNKNOWN || width == 0 ||
		COMPARED % width != 0 ||
		!fsdp_checkpoint_source(verify->checkpoint, a->file, &first, NULL) ||
		!fsdp_checkpoint_source(verify->checkpoint, b->file, &second, NULL))
		return false;
	*ret_first = *ret_count = 0;
	for (uint64_t at = 0; at < a->length; at += COMPARED) {
		size_t size = (size_t)fsdp_min(a->length - at, COMPARED);
		if (!fsdp_source_read(&first, a->offset + at, left, size, NULL) ||
			!fsdp_source_read(&second, b->offset + at, right, size, NULL))
			return false;
		for (size_t i = 0; i + width <= size; i += width) {
			if (memcmp(left + i, right + i, width) == 0)
				continue;
			if ((*ret_count)++ == 0)
				*ret_first = (at + i) / width;
		}
	}
	return true;
}

static void say_difference(
	struct fsdp_verify *verify, const struct fsdp_copy *a, const struct fsdp_copy *b)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	const struct fsdp_piece_record *piece = fsdp_model_piece(model, b->piece),
				       *other = fsdp_model_piece(model, a->piece);
	const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, piece->tensor);
	unsigned width = fsdp_dtype(tensor->dtype)->storage_bytes;
	uint64_t first = 0, count = 0;
	fsdp_arena_reset(&verify->item);
	struct fsdp_span name = fsdp_model_name(model, tensor->name, &verify->item),
			 tied = fsdp_model_name(model,
				 fsdp_model_tensor(model, other->tensor)->name,
				 &verify->item),
			 path = fsdp_model_file(model, a->file)->path;
	bool counted = count_differences(verify, a, b, width, &first, &count);
	struct fsdp_place_of place = {
		.file = fsdp_model_file(model, b->file)->path,
		.tensor = name,
		.offset = b->offset,
		.length = b->length,
		.rank = piece->rank,
		.severity = b->tied ? FSDP_WARNING + 1 : 0,
	};
	enum fsdp_rule_index rule =
		b->tied ? FSDP_RULE_TIED_WEIGHTS : FSDP_RULE_REPLICA_DIFFERS;
	const char *what = b->tied ? "is tied to" : "is a copy of";
	if (counted)
		fsdp_find(&verify->findings, rule, &place,
			"this piece %s that of %.*s in %.*s, but %llu of %llu elements differ, the first is number %llu of the piece",
			what, FSDP_TEXT_MOST(tied, 200), FSDP_TEXT_MOST(path, 200),
			FSDP_LLU(count), FSDP_LLU(b->length / width), FSDP_LLU(first));
	else
		fsdp_find(&verify->findings, rule, &place,
			"this piece %s that of %.*s in %.*s, but their %llu bytes differ",
			what, FSDP_TEXT_MOST(tied, 200), FSDP_TEXT_MOST(path, 200),
			FSDP_LLU(b->length));
}

static void judge_pair(
	struct fsdp_verify *verify, const struct fsdp_copy *a, const struct fsdp_copy *b)
{
	if (!a->known || !b->known)
		return;
	if (a->layout != b->layout || a->length != b->length)
		*(b->tied ? &verify->unlike_ties : &verify->unlike_copies) = true;
	else if (a->trait.words[0] != b->trait.words[0] ||
		 a->trait.words[1] != b->trait.words[1])
		say_difference(verify, a, b);
}

static int by_group(const void *left, const void *right)
{
	const struct fsdp_copy *a = left, *b = right;
	if (a->group != b->group)
		return a->group < b->group ? -1 : 1;
	return a->piece < b->piece ? -1 : a->piece > b->piece;
}

void fsdp_verify_judge_copies(struct fsdp_verify *verify)
{
	struct fsdp_copy *copies = verify->copies;
	qsort(copies, verify->copy_count, sizeof *copies, by_group);
	for (size_t i = 0, first = 0; i < verify->copy_count; i++) {
		if (copies[i].group != copies[first].group)
			first = i;
		if (i != first && fsdp_verify_is_own(verify, &copies[i]))
			judge_pair(verify, &copies[first], &copies[i]);
	}
}

static uint32_t file_of(const struct fsdp_verify *verify, const struct fsdp_copy *copy)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	return fsdp_model_extent(model, fsdp_model_piece(model, copy->piece)->extent)
		->file;
}

bool fsdp_verify_is_own(const struct fsdp_verify *verify, const struct fsdp_copy *copy)
{
	return verify->own == NULL || verify->own[file_of(verify, copy)];
}

/* The first copy of a group is what the others are compared with. */
void fsdp_verify_want_first(struct fsdp_verify *verify, uint8_t *files)
{
	struct fsdp_copy *copies = verify->copies;
	qsort(copies, verify->copy_count, sizeof *copies, by_group);
	for (size_t i = 0, first = 0; i < verify->copy_count; i++) {
		if (copies[i].group != copies[first].group)
			first = i;
		if (i == first || fsdp_verify_is_own(verify, &copies[first]) ||
			!fsdp_verify_is_own(verify, &copies[i]))
			continue;
		copies[first].wanted = true;
		files[file_of(verify, &copies[first])] = 1;
	}
	qsort(copies, verify->copy_count, sizeof *copies, by_piece);
}

bool fsdp_verify_wants(const struct fsdp_verify *verify, uint32_t piece)
{
	const struct fsdp_copy *copy = fsdp_verify_copy(verify, piece);
	for (; copy != NULL && copy->piece == piece; copy++)
		if (copy->wanted)
			return true;
	return false;
}
