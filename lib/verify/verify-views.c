/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which bytes of a file belong to which tensor, and what becomes of what is seen of them.
 */
#include <stdlib.h>

#include "base/mix.h"
#include "base/num.h"
#include "verify/verify-private.h"

/* Bytes of views that may lie over the bytes of a file: more is not looked at. */
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
		room += fsdp_verify_copy(verify, file->pieces[i]) != NULL;
	if (room == 0)
		return true;
	file->views = FSDP_TAKE(&verify->batch, file->views, room);
	return file->views != NULL || fsdp_arena_fail(&verify->batch, ret_error);
}

/* ---- where they lie ---- */

static size_t find_segment(const struct fsdp_verify_file *file, uint64_t begin)
{
	const struct fsdp_pass_file *pass = &file->pass;
	size_t count = pass->segment != NULL ? pass->segment_count : file->segments.count;
	size_t low = 0, high = count;
	if (pass->segment == NULL) {
		FSDP_HALVE(low, high, middle,
			((const struct fsdp_segment *)fsdp_vec_at(
				 &file->segments, middle))
					->begin < begin);
	} else {
		FSDP_HALVE(low, high, middle, pass->segment(file, middle).begin < begin);
	}
	return low < count ? low : SIZE_MAX;
}

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

/* Whether a view that is not in C order has each of its bytes once, and no others lie
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

/* Where the bytes were cut while they were hashed: views that were cut in other places
 * cannot be compared. */
static uint64_t cut_of(uint64_t begin, uint64_t end, bool deflated)
{
	if (begin / FSDP_PASS_PART != (end - 1) / FSDP_PASS_PART)
		return begin % FSDP_PASS_PART + 1 + deflated;
	if (begin / FSDP_PASS_BUFFER != (end - 1) / FSDP_PASS_BUFFER)
		return begin % FSDP_PASS_BUFFER + 1;
	return 0;
}

static uint64_t mix_ints(uint64_t hash, const int64_t *ints, size_t count)
{
	for (size_t i = 0; i < count; i++)
		hash = fsdp_mix(hash ^ (uint64_t)ints[i], FSDP_VERIFY_MIX_A) +
		       FSDP_VERIFY_MIX_B;
	return hash;
}

/* Where a piece is in its tensor, and in which order its elements lie there. Never 0. */
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
	bool counted = fsdp_verify_is_counted(verify, piece);
	if (file->views == NULL ||
		(!counted && fsdp_verify_copy(verify, piece) == NULL) ||
		(verify->foreign && !fsdp_verify_wants(verify, piece)) ||
		!fsdp_view_bytes(view, &begin, &end))
		return;
	uint32_t tensor = piece_at(verify, piece)->tensor;
	if (begin == end || !is_dense(view)) {
		if (counted && begin != end)
			verify->numbers[tensor].odd = true;
		return;
	}
	size_t segment = find_segment(file, view->record);
	if (segment == SIZE_MAX)
		return;
	struct fsdp_segment found = segment_at(file, segment);
	if (found.begin != view->record || end > found.size)
		return;
	file->views[file->view_count++] = (struct fsdp_pass_view){
		.begin = begin,
		.end = end,
		.segment = segment,
		.tag = layout_of(verify, piece_at(verify, piece), view,
			cut_of(begin, end, found.deflated)),
		.owner = piece,
		.dtype = (uint8_t)view->dtype,
		.big_endian = view->big_endian,
		.counted = counted && fsdp_moments_takes(view->dtype),
		.sampled = counted,
		.traced = fsdp_verify_copy(verify, piece) != NULL,
	};
}

static int compare_views(const void *left, const void *right)
{
	const struct fsdp_pass_view *a = left, *b = right;
	if (a->segment != b->segment)
		return a->segment < b->segment ? -1 : 1;
	if (a->begin != b->begin)
		return a->begin < b->begin ? -1 : 1;
	return a->owner < b->owner ? -1 : a->owner > b->owner;
}

/* Many views over the same bytes cost what they claim, not what the file is: those beyond
 * a measure are left out. */
static void limit_views(struct fsdp_verify *verify, struct fsdp_verify_file *file)
{
	uint64_t most = file->source.size, size = 0;
	size_t kept = 0;
	if (!fsdp_mul(most, OVERLAY_MOST, &most))
		most = UINT64_MAX;
	for (; kept < file->view_count; kept++) {
		uint64_t next = file->views[kept].end - file->views[kept].begin;
		if (!fsdp_add(size, next, &size) || size > most)
			break;
	}
	if (kept == file->view_count)
		return;
	verify->lacks |= FSDP_OVER_LIMIT;
	fsdp_find(&verify->findings, FSDP_RULE_NOT_EVALUATED,
		FSDP_IN(file, .offset = FSDP_UNKNOWN),
		"%zu of %zu tensors lie over bytes that others were counted from more than %d times; they are not counted",
		file->view_count - kept, file->view_count, OVERLAY_MOST);
	file->view_count = kept;
}

bool fsdp_verify_end_views(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error)
{
	struct fsdp_error *error = NULL;
	struct fsdp_view view;
	for (size_t i = 0; file->views != NULL && file->kind != FSDP_BYTES_ITEMS &&
			   i < file->piece_count;
		i++) {
		uint32_t piece = file->pieces[i];
		if (!fsdp_verify_is_counted(verify, piece) &&
			fsdp_verify_copy(verify, piece) == NULL)
			continue;
		if (fsdp_locator_view(verify->locator, piece, &view, &error))
			fsdp_verify_add_view(verify, file, piece, &view);
		else if (fsdp_error_code(error) == FSDP_ERROR_MEMORY)
			return fsdp_verify_excuse(verify, file, &error, ret_error);
		fsdp_error_free(error);
		error = NULL;
	}
	if (file->view_count == 0)
		return true;
	qsort(file->views, file->view_count, sizeof *file->views, compare_views);
	limit_views(verify, file);
	file->pass.results =
		FSDP_TAKE(&verify->batch, file->pass.results, file->view_count);
	if (file->pass.results == NULL)
		return fsdp_arena_fail(&verify->batch, ret_error);
	file->pass.views = file->views;
	file->pass.view_count = file->view_count;
	return true;
}

/* ---- what was seen ---- */

static void add_to_copy(struct fsdp_copy *copy, const struct fsdp_verify_file *file,
	const struct fsdp_pass_view *view, const struct fsdp_segment *segment,
	const struct fsdp_trait *trait)
{
	copy->known = true;
	copy->file = file->id;
	copy->trait = *trait;
	copy->layout = view->tag;
	copy->length = view->end - view->begin;
	copy->offset = segment->deflated || file->packed_length != 0
			       ? FSDP_UNKNOWN
			       : segment->begin + view->begin;
}

void fsdp_verify_deliver(struct fsdp_verify *verify, const struct fsdp_verify_file *file,
	size_t view, bool spoiled)
{
	const struct fsdp_pass_view *seen = &file->views[view];
	const struct fsdp_pass_result *result = &file->pass.results[view];
	struct fsdp_segment segment = segment_at(file, seen->segment);
	if (fsdp_verify_is_counted(verify, seen->owner))
		fsdp_verify_add_numbers(verify, seen, result);
	struct fsdp_copy *copy = spoiled ? NULL : fsdp_verify_copy(verify, seen->owner);
	for (; copy != NULL && copy->piece == seen->owner; copy++)
		add_to_copy(copy, file, seen, &segment, &result->trait);
}

void fsdp_verify_keep_viewed(struct fsdp_verify_file *file)
{
	size_t kept = 0, last = SIZE_MAX;
	for (size_t i = 0; i < file->view_count; i++) {
		struct fsdp_pass_view *view = &file->views[i];
		if (view->segment != last) {
			last = view->segment;
			*(struct fsdp_segment *)fsdp_vec_at(&file->segments, kept++) = *(
				struct fsdp_segment *)fsdp_vec_at(&file->segments, last);
		}
		view->segment = kept - 1;
	}
	fsdp_vec_truncate(&file->segments, kept);
	file->pass.segment_count = kept;
}
