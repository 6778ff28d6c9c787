/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans the data of files: each byte is read once, for checksums, replicas, equal tensors
 * and statistics.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <fsdp/elements.h>

#include "base/names.h"
#include "base/num.h"
#include "base/sort.h"
#include "checkpoint/model.h"
#include "audit/verify-private.h"

static bool verify_is_own(const struct fsdp_verify *verify, const struct fsdp_copy *copy);

/* ---- Tensors that may have the same bytes: equal samples are read again ---- */

#define MIX UINT64_C(0x9E3779B185EBCA87)

/* ---- all bytes ---- */

/* Bytes as they come, cut into blocks of one size. */
struct blocks {
	struct fsdp_trait trait;
	size_t used;
	unsigned char room[FSDP_SAMPLE_BYTES];
};

static void add_bytes(struct blocks *blocks, struct fsdp_span bytes)
{
	for (size_t at = 0, some; at < bytes.size; at += some) {
		some = fsdp_min(bytes.size - at, sizeof blocks->room - blocks->used);
		memcpy(blocks->room + blocks->used, bytes.data + at, some);
		blocks->used += some;
		if (blocks->used < sizeof blocks->room)
			return;
		fsdp_trait_add(&blocks->trait, blocks->room, blocks->used);
		blocks->used = 0;
	}
}

/* An unreadable tensor has no digest. */
static bool see(struct fsdp_verify *verify, uint32_t tensor, struct fsdp_repeats *repeats,
	struct fsdp_error **ret_error)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	struct fsdp_numbers *numbers = &verify->numbers[tensor];
	uint64_t size = fsdp_model_bytes(model, fsdp_model_tensor(model, tensor));
	struct fsdp_error *error = NULL;
	if (!fsdp_repeats_take(repeats, tensor, size, NULL)) {
		verify->lacks |= FSDP_OVER_LIMIT;
		numbers->layout = 0;
		return true;
	}
	struct fsdp_elements_options options = { .size = sizeof options };
	struct fsdp_elements *elements = NULL;
	struct blocks blocks = { .used = 0 };
	struct fsdp_span bytes;
	bool good =
		fsdp_elements_open(verify->locator, tensor, &options, &elements, &error);
	while (good) {
		good = fsdp_elements_next(elements, &bytes, &error);
		if (!good || bytes.size == 0)
			break;
		add_bytes(&blocks, bytes);
	}
	fsdp_elements_close(elements);
	fsdp_trait_add(&blocks.trait, blocks.room, blocks.used);
	numbers->trait = blocks.trait;
	if (good)
		return true;
	bool memory = fsdp_error_code(error) == FSDP_ERROR_MEMORY;
	fsdp_error_free(error);
	numbers->layout = 0;
	return !memory || fsdp_fail_memory(ret_error);
}

/* ---- which ---- */

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

/* Whether the numbers of a tensor come from this piece. */
static bool verify_is_counted(const struct fsdp_verify *verify, uint32_t piece)
{
	return verify->numbers != NULL &&
	       (verify->is_copy == NULL || !verify->is_copy[piece]) &&
	       !shares_bytes(verify, fsdp_model_piece(&verify->checkpoint->model, piece));
}

/* Whether all numbers of a tensor were seen. */
static bool verify_is_known(const struct fsdp_verify *verify, uint32_t tensor)
{
	const struct fsdp_numbers *numbers = &verify->numbers[tensor];
	return numbers->due != 0 && numbers->seen == numbers->due &&
	       fsdp_moments_takes(
		       fsdp_model_tensor(&verify->checkpoint->model, tensor)->dtype);
}

static int compare_samples(const void *left, const void *right, void *context)
{
	const struct fsdp_numbers *numbers = context;
	const struct fsdp_numbers *a = &numbers[*(const uint32_t *)left],
				  *b = &numbers[*(const uint32_t *)right];
	const uint64_t of_a[] = { a->layout, a->trait.words[0], a->trait.words[1],
		a->moments.count, a->moments.zeros };
	const uint64_t of_b[] = { b->layout, b->trait.words[0], b->trait.words[1],
		b->moments.count, b->moments.zeros };
	for (size_t i = 0; i < FSDP_COUNT(of_a); i++)
		if (of_a[i] != of_b[i])
			return of_a[i] < of_b[i] ? -1 : 1;
	return 0;
}

static size_t list_sampled(struct fsdp_verify *verify, uint32_t *list)
{
	size_t count = 0;
	for (uint32_t i = 0; i < verify->checkpoint->model.tensors.count; i++) {
		struct fsdp_numbers *numbers = &verify->numbers[i];
		if (numbers->due == 0 || numbers->seen != numbers->due ||
			numbers->layout == 0 || !numbers->sampled)
			continue;
		/* Of numbers that are all the same nothing else is to be known. */
		const struct fsdp_moments *m = &verify->numbers[i].moments;
		if (verify_is_known(verify, i) && m->count != 0 &&
			m->bad_index == FSDP_UNKNOWN && m->min == m->max) {
			uint64_t bits;
			memcpy(&bits, &numbers->moments.min, sizeof bits);
			numbers->trait.words[0] =
				fsdp_mix(bits ^ MIX, numbers->moments.count);
			numbers->trait.words[1] = ~numbers->trait.words[0];
		} else
			list[count++] = i;
	}
	return count;
}

static bool verify_see_equal(struct fsdp_verify *verify, struct fsdp_repeats *repeats,
	struct fsdp_error **ret_error)
{
	size_t most = verify->checkpoint->model.tensors.count;
	uint32_t *list = malloc((most + 1) * sizeof *list);
	bool good = list != NULL || fsdp_fail_memory(ret_error);
	size_t count = good ? list_sampled(verify, list) : 0;
	if (good)
		qsort_r(list, count, sizeof *list, compare_samples, verify->numbers);
	for (size_t i = 0, end; good && i < count; i = end) {
		for (end = i + 1; end < count; end++)
			if (compare_samples(&list[i], &list[end], verify->numbers) != 0)
				break;
		for (size_t k = i; good && end - i > 1 && k < end; k++)
			good = see(verify, list[k], repeats, ret_error);
	}
	free(list);
	return good;
}

/* ---- Pieces that should be alike: copies of one box, and tied tensors stored apart ----
 */

enum { COMPARED = 32 << 10 };

/* ---- boxes ---- */

struct place_question {
	const struct fsdp_model *model;
	const struct fsdp_tensor_record *tensor;
};

/* Offsets and sizes of a piece; a full tensor is one box. */
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

static bool keep_copies(struct fsdp_verify *verify, const struct fsdp_vec *list)
{
	verify->copies = FSDP_TAKE(&verify->arena, verify->copies, list->count + 1);
	if (verify->copies == NULL)
		return false;
	for (size_t i = 0; i < list->count; i++)
		verify->copies[i] = *(struct fsdp_copy *)fsdp_vec_at(list, i);
	verify->copy_count = list->count;
	verify->copies[list->count].piece = FSDP_NONE;
	FSDP_SORT(verify->copies, list->count, FSDP_BY(verify->copies, piece),
		FSDP_BY(verify->copies, group));
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

/* The first entry of a piece, or NULL; its others follow. The list ends with an entry
 * without a piece. */
static struct fsdp_copy *verify_copy(const struct fsdp_verify *verify, uint32_t piece)
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

static void report_difference(
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

void fsdp_verify_check_copies(struct fsdp_verify *verify)
{
	struct fsdp_copy *copies = verify->copies;
	FSDP_SORT(copies, verify->copy_count, FSDP_BY(copies, group),
		FSDP_BY(copies, piece));
	for (size_t i = 0, first = 0; i < verify->copy_count; i++) {
		if (copies[i].group != copies[first].group)
			first = i;
		if (i != first && verify_is_own(verify, &copies[i])) {
			if (!copies[first].known || !copies[i].known)
				continue;
			if (copies[first].layout != copies[i].layout ||
				copies[first].length != copies[i].length)
				*(copies[i].tied ? &verify->unlike_ties
						 : &verify->unlike_copies) = true;
			else if (copies[first].trait.words[0] !=
					 copies[i].trait.words[0] ||
				 copies[first].trait.words[1] != copies[i].trait.words[1])
				report_difference(verify, &copies[first], &copies[i]);
		}
	}
}

static uint32_t file_of(const struct fsdp_verify *verify, const struct fsdp_copy *copy)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	return fsdp_model_extent(model, fsdp_model_piece(model, copy->piece)->extent)
		->file;
}

/* Whether a copy is in a file of this part. */
static bool verify_is_own(const struct fsdp_verify *verify, const struct fsdp_copy *copy)
{
	return verify->own == NULL || verify->own[file_of(verify, copy)];
}

/* The first copy of a group is what the others are compared with. */
void fsdp_verify_add_first(struct fsdp_verify *verify, uint8_t *files)
{
	struct fsdp_copy *copies = verify->copies;
	FSDP_SORT(copies, verify->copy_count, FSDP_BY(copies, group),
		FSDP_BY(copies, piece));
	for (size_t i = 0, first = 0; i < verify->copy_count; i++) {
		if (copies[i].group != copies[first].group)
			first = i;
		if (i == first || verify_is_own(verify, &copies[first]) ||
			!verify_is_own(verify, &copies[i]))
			continue;
		copies[first].wanted = true;
		files[file_of(verify, &copies[first])] = 1;
	}
	FSDP_SORT(copies, verify->copy_count, FSDP_BY(copies, piece),
		FSDP_BY(copies, group));
}

bool fsdp_verify_needs(const struct fsdp_verify *verify, uint32_t piece)
{
	const struct fsdp_copy *copy = verify_copy(verify, piece);
	for (; copy != NULL && copy->piece == piece; copy++)
		if (copy->wanted)
			return true;
	return false;
}

/* ---- Which bytes of a file belong to which tensor ---- */

/* Bytes of views per byte of a file: more are not read. */
enum { OVERLAY_MOST = 8 };

/* ---- which are wanted ---- */

static const struct fsdp_piece_record *piece_at(
	const struct fsdp_verify *verify, uint32_t piece)
{
	return fsdp_model_piece(&verify->checkpoint->model, piece);
}

bool fsdp_verify_begin_views(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error)
{
	size_t room = verify->numbers != NULL ? file->piece_count : 0;
	for (size_t i = 0; verify->numbers == NULL && verify->copy_count != 0 &&
			   i < file->piece_count;
		i++)
		room += verify_copy(verify, file->pieces[i]) != NULL;
	if (room == 0)
		return true;
	file->views = FSDP_TAKE(&verify->batch, file->views, room);
	return file->views != NULL || fsdp_arena_fail(&verify->batch, ret_error);
}

/* ---- positions ---- */

static struct fsdp_segment segment_at(const struct fsdp_verify_file *file, size_t index)
{
	if (file->pass.segment != NULL)
		return file->pass.segment(file, index);
	return *(const struct fsdp_segment *)fsdp_vec_at(&file->segments, index);
}

static int compare_strides(const void *left, const void *right, void *context)
{
	const int64_t *strides = context;
	int64_t a = strides[*(const uint32_t *)left],
		b = strides[*(const uint32_t *)right];
	return a < b ? -1 : a > b;
}

/* Whether a view that is not in C order has each of its bytes once, and no others in
 * between. */
static bool is_dense(const struct fsdp_view *view)
{
	uint32_t order[FSDP_DIMS_MAX], count = 0;
	int64_t strides[FSDP_DIMS_MAX];
	uint64_t step = 1;
	if (fsdp_view_is_contiguous(view))
		return true;
	for (uint32_t i = 0; i < view->dims; i++) {
		strides[i] = view->strides[i];
		if (view->shape[i] != 1)
			order[count++] = i;
	}
	qsort_r(order, count, sizeof *order, compare_strides, strides);
	for (uint32_t i = 0; i < count; i++) {
		if ((uint64_t)strides[order[i]] != step)
			return false;
		step *= (uint64_t)view->shape[order[i]];
	}
	return true;
}

static uint64_t mix_ints(uint64_t hash, const int64_t *ints, size_t count)
{
	for (size_t i = 0; i < count; i++)
		hash = fsdp_mix(hash ^ (uint64_t)ints[i], FSDP_VERIFY_MIX_A) +
		       FSDP_VERIFY_MIX_B;
	return hash;
}

/* Position of a piece in its tensor, and the order of its elements there. Never 0. */
static uint64_t layout_of(const struct fsdp_verify *verify,
	const struct fsdp_piece_record *piece, const struct fsdp_view *view, uint64_t cut)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, piece->tensor);
	const int64_t *box = fsdp_model_box(model, piece);
	const int64_t *run = fsdp_model_run(model, piece);
	uint64_t hash = fsdp_mix(cut ^ FSDP_VERIFY_MIX_B, FSDP_VERIFY_MIX_A);
	if (run != NULL)
		hash = mix_ints(hash, run, 2);
	else if (box != NULL && tensor->piece_count > 1)
		hash = mix_ints(hash, box, 2 * (size_t)tensor->dims);
	if (!fsdp_view_is_contiguous(view))
		hash = mix_ints(hash, view->strides, view->dims);
	return hash | 1;
}

void fsdp_verify_add_view(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	uint32_t piece, const struct fsdp_view *view)
{
	uint64_t begin, end;
	bool counted = verify_is_counted(verify, piece);
	if (file->views == NULL || (!counted && verify_copy(verify, piece) == NULL) ||
		(verify->foreign && !fsdp_verify_needs(verify, piece)) ||
		!fsdp_view_bytes(view, &begin, &end))
		return;
	uint32_t tensor = piece_at(verify, piece)->tensor;
	if (begin == end || !is_dense(view)) {
		if (counted && begin != end)
			verify->numbers[tensor].strided = true;
		return;
	}
	const struct fsdp_pass_file *pass = &file->pass;
	size_t count = pass->segment != NULL ? pass->segment_count : file->segments.count;
	size_t low = 0, high = count;
	if (pass->segment == NULL) {
		FSDP_HALVE(low, high, middle,
			((const struct fsdp_segment *)fsdp_vec_at(
				 &file->segments, middle))
					->begin < view->record);
	} else {
		FSDP_HALVE(low, high, middle,
			pass->segment(file, middle).begin < view->record);
	}
	size_t segment = low < count ? low : SIZE_MAX;
	if (segment == SIZE_MAX)
		return;
	struct fsdp_segment found = segment_at(file, segment);
	if (found.begin != view->record || end > found.size)
		return;
	/* Where the bytes were cut while they were hashed: views that were cut in other
	 * places cannot be compared. */
	file->views[file->view_count++] = (struct fsdp_pass_view){
		.begin = begin,
		.end = end,
		.segment = segment,
		.tag = layout_of(verify, piece_at(verify, piece), view,
			begin / FSDP_PASS_PART != (end - 1) / FSDP_PASS_PART
				? begin % FSDP_PASS_PART + 1 + found.deflated
			: begin / FSDP_PASS_BUFFER != (end - 1) / FSDP_PASS_BUFFER
				? begin % FSDP_PASS_BUFFER + 1
				: 0),
		.owner = piece,
		.dtype = (uint8_t)view->dtype,
		.big_endian = view->big_endian,
		.counted = counted && fsdp_moments_takes(view->dtype),
		.sampled = counted,
		.traced = verify_copy(verify, piece) != NULL,
	};
}

/* All pieces of a file that is not a file of items; puts views in order. */
static bool verify_end_views(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error)
{
	struct fsdp_error *error = NULL;
	struct fsdp_view view;
	for (size_t i = 0; file->views != NULL && file->kind != FSDP_BYTES_ITEMS &&
			   i < file->piece_count;
		i++) {
		uint32_t piece = file->pieces[i];
		if (!verify_is_counted(verify, piece) &&
			verify_copy(verify, piece) == NULL)
			continue;
		if (fsdp_locator_view(verify->locator, piece, NULL, &view, &error))
			fsdp_verify_add_view(verify, file, piece, &view);
		else if (fsdp_error_code(error) == FSDP_ERROR_MEMORY)
			return fsdp_verify_excuse(verify, file, &error, ret_error);
		fsdp_error_free(error);
		error = NULL;
	}
	if (file->view_count == 0)
		return true;
	FSDP_SORT(file->views, file->view_count, FSDP_BY(file->views, segment),
		FSDP_BY(file->views, begin), FSDP_BY(file->views, owner));
	/* Many views over the same bytes cost their own size, not that of the file:
	 * those beyond a limit are skipped. */
	uint64_t most = file->source.size, size = 0;
	size_t kept = 0;
	if (!fsdp_mul(most, OVERLAY_MOST, &most))
		most = UINT64_MAX;
	for (; kept < file->view_count; kept++) {
		uint64_t next = file->views[kept].end - file->views[kept].begin;
		if (!fsdp_add(size, next, &size) || size > most)
			break;
	}
	if (kept != file->view_count) {
		verify->lacks |= FSDP_OVER_LIMIT;
		fsdp_find(&verify->findings, FSDP_RULE_NOT_EVALUATED,
			FSDP_IN(file, .offset = FSDP_UNKNOWN),
			"%zu of %zu tensors view bytes that were counted for others more than %d times; they are not counted",
			file->view_count - kept, file->view_count, OVERLAY_MOST);
		file->view_count = kept;
	}
	file->pass.results =
		FSDP_TAKE(&verify->batch, file->pass.results, file->view_count);
	if (file->pass.results == NULL)
		return fsdp_arena_fail(&verify->batch, ret_error);
	file->pass.views = file->views;
	file->pass.view_count = file->view_count;
	return true;
}

/* ---- what was seen ---- */

/* Adds the statistics of a view to its tensor and, unless it is damaged, to the tensor
 * that it copies. */
static void verify_deliver(struct fsdp_verify *verify,
	const struct fsdp_verify_file *file, size_t view, bool spoiled)
{
	const struct fsdp_pass_view *seen = &file->views[view];
	const struct fsdp_pass_result *result = &file->pass.results[view];
	struct fsdp_segment segment = segment_at(file, seen->segment);
	if (verify_is_counted(verify, seen->owner)) {
		/* The numbers of a piece are added to those of its tensor. */
		uint32_t index = seen->owner;
		uint64_t layout = seen->tag;
		const struct fsdp_piece_record *piece =
			fsdp_model_piece(&verify->checkpoint->model, index);
		struct fsdp_numbers *numbers = &verify->numbers[piece->tensor];
		bool first = numbers->seen++ == 0;
		if (seen->counted && first)
			numbers->moments = result->moments;
		else if (seen->counted)
			fsdp_moments_join(&numbers->moments, &result->moments);
		if (seen->counted && numbers->bad_piece == FSDP_NONE &&
			result->moments.bad_index != FSDP_UNKNOWN) {
			numbers->bad_piece = index;
			numbers->moments.bad_index = result->moments.bad_index;
		}
		/* Pieces come in the order of their files, so that order must not count.
		 */
		numbers->trait.words[0] +=
			fsdp_mix(result->sample.words[0] ^ layout, FSDP_VERIFY_MIX_A);
		numbers->trait.words[1] +=
			fsdp_mix(result->sample.words[1] ^ layout, FSDP_VERIFY_MIX_B);
		numbers->sampled |= seen->end - seen->begin > FSDP_SAMPLE_BYTES;
		numbers->layout += layout;
	}
	struct fsdp_copy *copy = spoiled ? NULL : verify_copy(verify, seen->owner);
	for (; copy != NULL && copy->piece == seen->owner; copy++) {
		const struct fsdp_trait *trait = &result->trait;
		copy->known = true;
		copy->file = file->id;
		copy->trait = *trait;
		copy->layout = seen->tag;
		copy->length = seen->end - seen->begin;
		copy->offset = segment.deflated || file->packed_length != 0
				       ? FSDP_UNKNOWN
				       : segment.begin + seen->begin;
	}
}

/* ---- The pass over the files in hand ---- */

enum { FLAGS_UNREADABLE = 0x2061 /* encryption, patch data, masked headers */ };

/* ---- segments ---- */

static uint32_t number_by_header(const struct fsdp_zip *zip, size_t index)
{
	return zip->by_header != NULL ? zip->by_header[index] : (uint32_t)index;
}

static struct fsdp_segment segment_of_member(
	const struct fsdp_verify_file *file, uint32_t number)
{
	const struct fsdp_zip_member *member = fsdp_zip_member(&file->zip, number);
	bool zero = file->skipped_data && member->crc == 0;
	return (struct fsdp_segment){
		.begin = file->offsets[number],
		.stored = member->stored_size,
		.size = member->size,
		.crc = member->crc,
		.owner = number,
		.has_crc = !file->zip.no_crc && !zero,
		.deflated = member->method != 0,
	};
}

static struct fsdp_segment segment_of_zip(const void *context, size_t index)
{
	const struct fsdp_verify_file *file = context;
	return segment_of_member(file, number_by_header(&file->zip, index));
}

static struct fsdp_segment segment_of_list(const void *context, size_t index)
{
	const struct fsdp_verify_file *file = context;
	return *(const struct fsdp_segment *)fsdp_vec_of(
		&file->segments, index, sizeof(struct fsdp_segment));
}

static bool is_plain(const struct fsdp_zip_member *member)
{
	return member->method == 0 && member->size == member->stored_size &&
	       (member->flags & FLAGS_UNREADABLE) == 0;
}

/* Whether the directory itself is a list of segments: all are stored, without gaps. */
static bool is_simple(const struct fsdp_verify_file *file)
{
	uint64_t reach = 0;
	for (size_t i = 0; i < file->zip.members.count; i++) {
		uint32_t number = number_by_header(&file->zip, i);
		const struct fsdp_zip_member *member =
			fsdp_zip_member(&file->zip, number);
		uint64_t begin = file->offsets[number];
		if (!is_plain(member) || begin == FSDP_UNKNOWN || begin < reach)
			return false;
		reach = begin + member->stored_size;
	}
	return true;
}

bool fsdp_verify_may_read(struct fsdp_verify *verify, const struct fsdp_verify_file *file,
	const struct fsdp_zip_member *member, const struct fsdp_segment *segment)
{
	if (is_plain(member))
		return true;
	if (member->method != 8 || (member->flags & FLAGS_UNREADABLE) != 0)
		return false; /* opening has said so */
	if (segment->size <= verify->inflate_left) {
		verify->inflate_left -= segment->size;
		return true;
	}
	verify->lacks |= FSDP_OVER_LIMIT;
	fsdp_find(&verify->findings, FSDP_RULE_LIMIT_REACHED,
		FSDP_IN(file, .offset = segment->begin, .length = segment->stored,
			.fix = "raise --limit=inflate-bytes if you trust the input"),
		"did not check these %llu bytes: --limit inflate-bytes is reached",
		FSDP_LLU(segment->stored));
	return false;
}

static bool list_members(struct fsdp_verify *verify, struct fsdp_verify_file *file)
{
	for (size_t i = 0; i < file->zip.members.count; i++) {
		uint32_t number = number_by_header(&file->zip, i);
		const struct fsdp_zip_member *member =
			fsdp_zip_member(&file->zip, number);
		if (file->offsets[number] == FSDP_UNKNOWN)
			continue;
		struct fsdp_segment segment = segment_of_member(file, number);
		if (!fsdp_verify_may_read(verify, file, member, &segment))
			continue;
		if (!fsdp_segments_add(&file->segments, &segment))
			return false;
	}
	return true;
}

/* Payload that a file stores without packing. */
static bool list_extents(const struct fsdp_model *model, struct fsdp_verify_file *file)
{
	FSDP_EACH(i, file->extent_count, extent,
		fsdp_model_extent(model, file->extents[i])) {
		uint64_t end;
		if (extent->kind != FSDP_EXTENT_BYTES || extent->missing ||
			extent->length == 0 ||
			!fsdp_add(extent->offset, extent->length, &end) ||
			end > file->source.size)
			continue;
		struct fsdp_segment segment = {
			.begin = extent->offset,
			.stored = extent->length,
			.size = extent->length,
		};
		if (!fsdp_segments_add(&file->segments, &segment))
			return false;
	}
	return true;
}

static bool list_segments(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error)
{
	bool good = true;
	file->pass.source = file->source;
	file->pass.segment = segment_of_list;
	file->pass.hashed = file->has_digest && !verify->foreign;
	if (file->kind == FSDP_BYTES_ZIP && is_simple(file) && !verify->foreign) {
		file->pass.segment = segment_of_zip;
		file->pass.segment_count = file->zip.members.count;
		return true;
	}
	if (file->kind == FSDP_BYTES_ZIP)
		good = list_members(verify, file);
	else if (file->kind == FSDP_BYTES_RAW && file->id != FSDP_NONE)
		good = list_extents(&verify->checkpoint->model, file);
	file->pass.segment_count = file->segments.count;
	return good || fsdp_arena_fail(&verify->batch, ret_error);
}

/* ---- what covers what ---- */

/* ---- in hand ---- */

bool fsdp_verify_take(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error)
{
	if (!list_segments(verify, file, ret_error))
		return false;
	file->pass.context = file;
	if (!verify_end_views(verify, file, ret_error))
		return false;
	if (verify->foreign) {
		/* In a file of another part, keeps only segments with views. Views are in
		 * order. */
		size_t kept = 0, last = SIZE_MAX;
		FSDP_EACH(i, file->view_count, view, &file->views[i]) {
			if (view->segment != last) {
				last = view->segment;
				*(struct fsdp_segment *)fsdp_vec_at(
					&file->segments, kept++) =
					*(struct fsdp_segment *)fsdp_vec_at(
						&file->segments, last);
			}
			view->segment = kept - 1;
		}
		fsdp_vec_truncate(&file->segments, kept);
		file->pass.segment_count = kept;
	}
	uint64_t covered = 0, bare = 0;
	for (size_t i = 0; i < file->pass.segment_count; i++) {
		struct fsdp_segment segment = file->pass.segment(file, i);
		if (segment.has_crc)
			covered += segment.stored;
		else
			bare += segment.stored;
	}
	if (file->packed_length != 0) { /* whose bytes are read with the file's */
		covered = bare == 0 ? file->packed_length : 0;
		bare = file->packed_length - covered;
	} else {
		verify->scope.bytes_read += file->source.size;
	}
	verify->scope.bytes_with_digest += file->has_digest ? file->source.size : covered;
	if (!file->has_digest && bare != 0) {
		verify->scope.payload_without += bare;
		verify->lacks |= FSDP_WITHOUT_CRC;
	}
	file->place = verify->place;
	verify->hand_bytes += file->source.size;
	verify->hand_segments += file->pass.segment_count;
	verify->hand[verify->hand_count] = *file;
	verify->hand[verify->hand_count].pass.context = &verify->hand[verify->hand_count];
	verify->hand_count++;
	/* What came from afar is kept for a short while only. */
	uint64_t most = file->source.remote != NULL ? FSDP_VERIFY_HAND_REMOTE
						    : FSDP_VERIFY_HAND_BYTES;
	if (verify->hand_count < FSDP_VERIFY_HAND && verify->hand_bytes < most &&
		verify->hand_segments < FSDP_VERIFY_HAND_SEGMENTS)
		return true;
	return fsdp_verify_read(verify, ret_error);
}

/* ---- what was seen ---- */

static struct fsdp_span member_of(
	const struct fsdp_verify_file *file, const struct fsdp_segment *segment)
{
	if (file->kind != FSDP_BYTES_ZIP)
		return (struct fsdp_span){ 0 };
	return fsdp_zip_member(&file->zip, segment->owner)->name;
}

/* Offset in the file; of unpacked data, the offset of its packed item. */
static uint64_t begin_of(
	const struct fsdp_verify_file *file, const struct fsdp_segment *segment)
{
	return file->packed_length != 0 ? file->packed_offset : segment->begin;
}

static uint64_t length_of(
	const struct fsdp_verify_file *file, const struct fsdp_segment *segment)
{
	return file->packed_length != 0 ? file->packed_length : segment->stored;
}

/* The first tensor of a segment; absent: none. */
static struct fsdp_span name_of(struct fsdp_verify *verify,
	const struct fsdp_verify_file *file, const struct fsdp_segment *segment)
{
	uint64_t begin = begin_of(file, segment), end = begin + length_of(file, segment);
	const struct fsdp_span *name;
	if (file->id == FSDP_NONE)
		return (struct fsdp_span){ 0 };
	if (file->kind == FSDP_BYTES_ZIP) {
		begin = fsdp_zip_member(&file->zip, segment->owner)->header;
		end = begin + 1;
	}
	return fsdp_verify_names(verify, file, begin, end, 1, &name) != 0
		       ? name[0]
		       : (struct fsdp_span){ 0 };
}

static bool check_segments(struct fsdp_verify *verify,
	const struct fsdp_verify_file *file, struct fsdp_error **ret_error)
{
	FSDP_EACH(i, file->pass.bad_count, bad, &file->pass.bad[i]) {
		struct fsdp_segment segment = file->pass.segment(file, bad->segment);
		if (bad->error != NULL &&
			fsdp_error_code(bad->error) == FSDP_ERROR_MEMORY)
			return fsdp_fail_memory(ret_error);
		if (bad->error == NULL) {
			uint32_t crc = bad->crc;
			fsdp_find(&verify->findings, FSDP_RULE_CRC_MISMATCH,
				FSDP_IN(file, .member = member_of(file, &segment),
					.offset = begin_of(file, &segment),
					.length = length_of(file, &segment),
					.tensor = name_of(verify, file, &segment)),
				"checksum mismatch: CRC-32 of %llu bytes is %08lx, the zip lists %08lx",
				FSDP_LLU(segment.size), (unsigned long)crc,
				(unsigned long)segment.crc);
		} else {
			const char *rule = fsdp_error_rule(bad->error);
			enum fsdp_rule_index index = FSDP_RULE_INFLATE_ERROR;
			if (rule != NULL && strcmp(rule, "FI3049") == 0)
				index = FSDP_RULE_ZIP_STRAY_BYTES;
			else if (rule != NULL && strcmp(rule, "FI3053") == 0)
				index = FSDP_RULE_ZIP_BOMB;
			fsdp_find(&verify->findings, index,
				FSDP_IN(file, .member = member_of(file, &segment),
					.offset = begin_of(file, &segment),
					.length = length_of(file, &segment),
					.tensor = name_of(verify, file, &segment)),
				"%s (%llu stored bytes)", fsdp_error_message(bad->error),
				FSDP_LLU(segment.stored));
		}
	}
	return true;
}

static bool is_same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool check_file(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error)
{
	struct fsdp_error *error = file->pass.error;
	if (!check_segments(verify, file, ret_error))
		return false;
	const struct stat *before = &file->before;
	struct stat after;
	if (file->source.fd >= 0 && fstat(file->source.fd, &after) == 0 &&
		(after.st_size != before->st_size || after.st_ino != before->st_ino ||
			!is_same_time(after.st_mtim, before->st_mtim) ||
			!is_same_time(after.st_ctim, before->st_ctim)))
		fsdp_find(&verify->findings, FSDP_RULE_CHANGED_DURING_READ,
			FSDP_IN(file, .offset = FSDP_UNKNOWN),
			"file changed while it was read: %llu bytes, modified at %lld; then %llu bytes, modified at %lld (seconds since 1970)",
			FSDP_LLU(before->st_size), (long long)before->st_mtim.tv_sec,
			FSDP_LLU(after.st_size), (long long)after.st_mtim.tv_sec);
	if (error == NULL) {
		/* What is not known of a segment is not known of its views either; and
		 * bytes that are wrong by their checksum need not be compared with
		 * others. */
		const struct fsdp_pass_bad *bad = file->pass.bad;
		size_t next = 0, count = file->pass.bad_count;
		for (size_t i = 0; i < file->view_count; i++) {
			size_t segment = file->views[i].segment;
			while (next < count && bad[next].segment < segment)
				next++;
			bool spoiled = next < count && bad[next].segment == segment;
			if (!spoiled || bad[next].error == NULL)
				verify_deliver(verify, file, i, spoiled);
		}
		if (file->pass.hashed)
			fsdp_verify_check_digest(verify, file);
		return true;
	}
	file->pass.error = NULL;
	return fsdp_verify_excuse(verify, file, &error, ret_error);
}

bool fsdp_verify_read(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	struct fsdp_pass_file passes[FSDP_VERIFY_HAND];
	size_t count = verify->hand_count;
	if (!fsdp_verify_mark(verify, verify->place, ret_error))
		return false;
	for (size_t i = 0; i < count; i++)
		passes[i] = verify->hand[i].pass;
	bool good = fsdp_pass_run(passes, count, &verify->pass, ret_error);
	for (size_t i = 0; i < count; i++) {
		verify->hand[i].pass = passes[i];
		good = good && check_file(verify, &verify->hand[i], ret_error) &&
		       fsdp_verify_mark(verify, verify->hand[i].place, ret_error);
		fsdp_pass_file_done(&verify->hand[i].pass);
	}
	verify->hand_count = 0;
	verify->hand_bytes = verify->hand_segments = 0;
	fsdp_arena_reset(&verify->batch);
	return good;
}

/*
 * The numbers of tensors, which come from their pieces one by one: what the pass could
 * not see is read here, and what cannot be a weight, a state or a step is reported.
 */

/* ---- The numbers of a tensor, from its pieces ---- */

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
		if (verify_is_counted(verify, i) &&
			fsdp_piece_numel(verify->checkpoint, i, &rank) != 0)
			verify->numbers[fsdp_model_piece(model, i)->tensor].due++;
	}
	return true;
}

/* ---- unusual tensors ---- */

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

static bool read_strided(struct fsdp_verify *verify, struct fsdp_repeats *repeats,
	struct fsdp_error **ret_error)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	for (uint32_t i = 0; i < model->tensors.count; i++) {
		struct fsdp_error *error = NULL;
		uint64_t size = fsdp_model_bytes(model, fsdp_model_tensor(model, i));
		if (!verify->numbers[i].strided)
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

/* ---- what is not finite ---- */

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

static void check_finite(
	struct fsdp_verify *verify, uint32_t index, const struct fsdp_tensor *tensor)
{
	const struct fsdp_numbers *numbers = &verify->numbers[index];
	const struct fsdp_moments *m = &numbers->moments;
	struct fsdp_span name = last_segment(&verify->checkpoint->model, index);
	const struct {
		uint64_t count;
		const char *name;
	} kinds[] = { { m->nan, "NaN" }, { m->pos_inf, "+Inf" }, { m->neg_inf, "-Inf" } };
	char text[96] = "";
	int used = 0;
	if (m->bad_index == FSDP_UNKNOWN)
		return;
	struct fsdp_place_of place = place_of(verify, index);
	/* Masks are full of -inf, and bounds of clipping that have seen nothing are
	 * infinite. */
	if (m->nan == 0 &&
		((m->pos_inf == 0 &&
			 fsdp_span_ends_any(
				 name, "inv_freq attn_mask causal_mask bias_mask")) ||
			(tensor->numel == 1 && fsdp_span_ends_any(name, "_min _max"))))
		place.severity = FSDP_NOTE + 1;
	else if (tensor->role == FSDP_ROLE_OPTIM || tensor->role == FSDP_ROLE_OTHER)
		place.severity = FSDP_WARNING + 1;
	for (size_t i = 0; i < FSDP_COUNT(kinds); i++)
		if (kinds[i].count > 0)
			used += snprintf(text + used, sizeof text - (size_t)used,
				"%s%llu %s", used > 0 ? ", " : "",
				FSDP_LLU(kinds[i].count), kinds[i].name);
	/* A model without a finite value is one finding. */
	if (m->nan == m->count && place.severity == 0) {
		fsdp_find(&verify->findings, FSDP_RULE_NON_FINITE,
			FSDP_PLACE(.file = place.file, .tensor = place.tensor,
				.rank = place.rank),
			"all values of the tensor are NaN");
		return;
	}
	fsdp_find(&verify->findings, FSDP_RULE_NON_FINITE, &place,
		tensor->piece_count == 1
			? "%s in %llu values (first: element %llu)"
			: "%s in %llu values (first: element %llu of piece %u)",
		text, FSDP_LLU(m->count), FSDP_LLU(m->bad_index),
		numbers->bad_piece - tensor->first_piece);
}

/* ---- what cannot be ---- */

static void report_impossible(
	struct fsdp_verify *verify, uint32_t tensor, double number, const char *what)
{
	struct fsdp_place_of place = place_of(verify, tensor);
	fsdp_find(&verify->findings, FSDP_RULE_IMPOSSIBLE_VALUE, &place, "%.9g: %s",
		number, what);
}

/* ---- all values ---- */

bool fsdp_verify_check_values(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	struct fsdp_repeats *repeats;
	/* A part does not have all values. */
	if (verify->numbers == NULL || verify->options.parts != 0)
		return true;
	if (!fsdp_repeats_new(verify->checkpoint, &repeats, ret_error))
		return false;
	bool good = read_strided(verify, repeats, ret_error) &&
		    verify_see_equal(verify, repeats, ret_error);
	fsdp_repeats_free(repeats);
	if (!good)
		return false;
	for (uint32_t i = 0; i < model->tensors.count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(verify->checkpoint, i);
		if (verify->numbers[i].seen != 0)
			check_finite(verify, i, &tensor);
		if (verify_is_known(verify, i) && verify->numbers[i].moments.count != 0) {
			static const char squares[] =
				"exp_avg_sq max_exp_avg_sq running_var";
			static const char steps[] = "num_batches_tracked step";
			static const char rates[] = "lr _scale loss_scale";
			const struct fsdp_moments *m = &verify->numbers[i].moments;
			struct fsdp_span name =
				last_segment(&verify->checkpoint->model, i);
			bool infinite = m->bad_index != FSDP_UNKNOWN;
			bool negative = m->min < 0;
			const struct fsdp_dtype *dtype = fsdp_dtype(tensor.dtype);
			if (strcmp(dtype->name, "bool") == 0 && m->max > 1)
				report_impossible(verify, i, m->max,
					"a boolean is neither 0 nor 1");
			if (fsdp_span_is_any(name, squares) && negative)
				report_impossible(verify, i, m->min,
					"a mean of squares is negative");
			if (fsdp_span_is_any(name, steps) && tensor.numel == 1 &&
				(negative || infinite))
				report_impossible(verify, i,
					infinite ? (double)NAN : m->min,
					"a step count is negative or not finite");
			if (fsdp_span_is_any(name, rates) && tensor.numel == 1 &&
				tensor.role != FSDP_ROLE_PARAM && (negative || infinite))
				report_impossible(verify, i,
					infinite ? (double)NAN : m->min,
					"a rate or scale is negative or not finite");
			/* Sums of 0 … n−1 are exact as long as n is not large. */
			if (fsdp_span_is(name, "position_ids") && !dtype->is_floating) {
				double count = (double)m->count;
				if (m->count <= SUM_EXACT &&
					(m->min != 0 || m->max != count - 1 ||
						m->sum != count * (count - 1) / 2 ||
						m->squares != (count - 1) * count *
								      (2 * count - 1) /
								      6))
					report_impossible(verify, i, m->max,
						"positions are not 0, 1, 2 and so on");
			}
		}
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
	if (!verify_is_known(verify, tensor))
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
