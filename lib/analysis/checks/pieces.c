/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that the pieces of each tensor cover it without overlaps.
 *
 * Pieces with the same box are replicas. All others are sorted by one dimension after
 * another: pieces that are apart in a dimension share no element, and pieces at the same
 * position are compared in the next one. A grid costs no more than sorting it. Only
 * boxes that partly overlap in a dimension are compared pair by pair.
 */
#include <stdio.h>
#include <stdlib.h>

#include <fsdp/analysis.h>

#include "analysis/checks/checking.h"
#include "analysis/tally.h"

enum {
	PAIRS_MOST = 1 << 22, /* that are compared in all */
};

/* A piece that holds something. */
struct box {
	const int64_t *offsets, *sizes; /* NULL: a run */
	int64_t begin, end;             /* of a run; else along the dimension at hand */
	uint32_t piece;
	bool again; /* the same as another one */
};

/* Boxes at the same position in all dimensions before this one. */
struct extent {
	size_t first, count;
	uint32_t dim;
};

struct coverage {
	struct fsdp_checking *checking;
	struct box *boxes; /* of one tensor */
	size_t count;
	struct extent *ranges; /* still to be looked at */
	size_t range_count;
	uint32_t dims;
	uint64_t held;   /* elements, each once */
	int64_t reach;   /* along the first dimension all before it are held, … */
	int64_t gap_end; /* … and none up to here, if this is greater */
	const struct box *pair[2]; /* that hold the same elements */
	uint64_t pairs;
	bool *told;          /* by tensor: its reader said so */
	bool gaps_explained; /* files are absent, and a finding says so */
};

/* ---- boxes ---- */

static int by_place(const void *a, const void *b)
{
	const struct box *left = a, *right = b;

	if (left->begin != right->begin)
		return left->begin < right->begin ? -1 : 1;
	if (left->end != right->end)
		return left->end < right->end ? -1 : 1;
	return left->piece < right->piece ? -1 : left->piece > right->piece;
}

static bool is_equal(const struct coverage *coverage, const struct box *a,
	const struct box *b, uint32_t dim)
{
	for (; a->offsets != NULL && dim < coverage->dims; dim++)
		if (a->offsets[dim] != b->offsets[dim] || a->sizes[dim] != b->sizes[dim])
			return false;
	return true;
}

/* From a dimension on. */
static bool meet(const struct coverage *coverage, const struct box *a,
	const struct box *b, uint32_t dim)
{
	return a->offsets == NULL || fsdp_boxes_meet(a->offsets, a->sizes, b->offsets,
					     b->sizes, dim, coverage->dims);
}

static void hold(struct coverage *coverage, const struct box *box)
{
	uint64_t volume = 1;

	if (box->offsets == NULL)
		volume = (uint64_t)(box->end - box->begin);
	for (uint32_t i = 0; box->offsets != NULL && i < coverage->dims; i++)
		if (!fsdp_mul(volume, (uint64_t)box->sizes[i], &volume))
			volume = UINT64_MAX;
	fsdp_tally(&coverage->held, volume);
}

static void set_ends(struct coverage *coverage, const struct extent *range)
{
	for (size_t i = 0; i < range->count; i++) {
		struct box *box = &coverage->boxes[range->first + i];

		if (box->offsets == NULL)
			continue;
		box->begin = box->offsets[range->dim];
		box->end = box->begin + box->sizes[range->dim];
	}
}

/* Boxes that partly overlap along the dimension. False: too many of them. */
static bool compare_pairs(
	struct coverage *coverage, struct box *boxes, size_t count, uint32_t dim)
{
	for (size_t i = 0; i < count; i++) {
		for (size_t k = i + 1; k < count && boxes[k].begin < boxes[i].end; k++) {
			if (coverage->pairs++ >= PAIRS_MOST)
				return false;
			bool same = boxes[i].begin == boxes[k].begin &&
				    boxes[i].end == boxes[k].end;
			if (same && is_equal(coverage, &boxes[i], &boxes[k], dim + 1))
				boxes[k].again = true;
			else if (meet(coverage, &boxes[i], &boxes[k], dim + 1) &&
				 coverage->pair[0] == NULL) {
				coverage->pair[0] = &boxes[i];
				coverage->pair[1] = &boxes[k];
			}
		}
		if (!boxes[i].again)
			hold(coverage, &boxes[i]);
	}
	return true;
}

/* What follows without a gap, or not. */
static void reach_on(struct coverage *coverage, int64_t begin, int64_t end)
{
	if (coverage->gap_end > coverage->reach)
		return;
	if (begin > coverage->reach)
		coverage->gap_end = begin;
	else if (end > coverage->reach)
		coverage->reach = end;
}

/* Cuts a range into groups that have nothing in common along its dimension. */
static bool split(struct coverage *coverage, struct extent range)
{
	struct box *boxes = &coverage->boxes[range.first];

	set_ends(coverage, &range);
	qsort(boxes, range.count, sizeof *boxes, by_place);
	for (size_t i = 0, next; i < range.count; i = next) {
		int64_t end = boxes[i].end;
		bool alike = true;

		for (next = i + 1; next < range.count && boxes[next].begin < end;
			next++) {
			alike &= boxes[next].begin == boxes[i].begin &&
				 boxes[next].end == boxes[i].end;
			if (boxes[next].end > end)
				end = boxes[next].end;
		}
		if (range.dim == 0)
			reach_on(coverage, boxes[i].begin, end);
		if (next - i == 1 || (alike && range.dim + 1 >= coverage->dims))
			hold(coverage, &boxes[i]);
		else if (alike)
			coverage->ranges[coverage->range_count++] =
				(struct extent){ range.first + i, next - i,
					range.dim + 1 };
		else if (!compare_pairs(coverage, &boxes[i], next - i, range.dim))
			return false;
	}
	return true;
}

static bool is_partial(
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_tensor *tensor)
{
	struct fsdp_placement placement;

	if (tensor->placement == FSDP_NONE)
		return false;
	placement = fsdp_placement(checkpoint, tensor->placement);
	for (uint32_t i = 0; i < placement.count; i++)
		if (fsdp_span_begins(placement.texts[i], FSDP_SPAN("Partial")))
			return true;
	return false;
}

/* False: it has a piece that is all of it, or no pieces that could be compared. */
static bool collect(struct coverage *coverage, const struct fsdp_tensor *tensor)
{
	const struct fsdp_checkpoint *checkpoint = coverage->checking->checkpoint;
	size_t runs = 0, wholes = 0;

	coverage->count = 0;
	for (uint32_t i = 0; i < tensor->piece_count; i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, tensor->first_piece + i);
		struct box box = { .piece = tensor->first_piece + i };
		uint32_t rank;

		runs += piece.is_run;
		wholes += !piece.is_run && piece.offsets == NULL;
		if (fsdp_piece_numel(checkpoint, box.piece, &rank) == 0)
			continue;
		box.offsets = piece.offsets;
		box.sizes = piece.sizes;
		box.begin = (int64_t)piece.param_start;
		box.end = box.begin + (int64_t)piece.param_numel;
		coverage->boxes[coverage->count++] = box;
	}
	coverage->dims = runs > 0 ? 1 : tensor->dims;
	return wholes == 0 && (runs == 0 || runs == tensor->piece_count);
}

static bool is_compared(const struct coverage *coverage, const struct fsdp_tensor *tensor)
{
	const uint32_t skipped = FSDP_TENSOR_NO_DATA | FSDP_TENSOR_RANKS_OWN;

	return tensor->piece_count > 0 && tensor->numel > 0 && tensor->dims > 0 &&
	       (tensor->flags & skipped) == 0 && tensor->layout == NULL &&
	       !is_partial(coverage->checking->checkpoint, tensor);
}

/* "[0:2, 0:5]" */
static const char *write_box(
	const struct coverage *coverage, const struct box *box, char text[FSDP_SHOWN])
{
	int64_t size = box->end - box->begin;

	return box->offsets != NULL
		       ? fsdp_shown_box(box->offsets, box->sizes, coverage->dims, text)
		       : fsdp_shown_box(&box->begin, &size, 1, text);
}

static struct fsdp_span file_of(const struct coverage *coverage, const struct box *box)
{
	const struct fsdp_checkpoint *checkpoint = coverage->checking->checkpoint;
	uint32_t file = fsdp_piece(checkpoint, box->piece).file;

	return file != FSDP_NONE ? fsdp_file(checkpoint, file).path
				 : (struct fsdp_span){ 0 };
}

static void say_overlap(struct coverage *coverage, const struct fsdp_tensor *tensor)
{
	struct fsdp_checking *checking = coverage->checking;
	struct fsdp_span name =
		fsdp_scratch_name(&checking->name, checking->checkpoint, tensor->name);
	char first[FSDP_SHOWN], second[FSDP_SHOWN];

	fsdp_find(checking->findings, FSDP_RULE_CHUNK_OVERLAP,
		FSDP_PLACE(.file = file_of(coverage, coverage->pair[1]), .tensor = name,
			.affected = &name, .affected_count = 1),
		"pieces %s and %s overlap", write_box(coverage, coverage->pair[0], first),
		write_box(coverage, coverage->pair[1], second));
}

static void say_gap(struct coverage *coverage, const struct fsdp_tensor *tensor)
{
	struct fsdp_checking *checking = coverage->checking;
	struct fsdp_span name =
		fsdp_scratch_name(&checking->name, checking->checkpoint, tensor->name);
	uint64_t lost = tensor->numel - coverage->held, bits;
	int64_t end = coverage->dims == 1 && coverage->boxes[0].offsets == NULL
			      ? (int64_t)tensor->numel
			      : tensor->shape[0];
	bool runs = coverage->count > 0 && coverage->boxes[0].offsets == NULL;
	char where[96] = "";

	if (coverage->gap_end <= coverage->reach && coverage->reach < end)
		coverage->gap_end = end;
	if (coverage->gap_end > coverage->reach)
		snprintf(where, sizeof where, "; none has %s %lld:%lld of it",
			runs ? "elements" : "rows", (long long)coverage->reach,
			(long long)coverage->gap_end);
	if (!fsdp_mul(lost, fsdp_dtype(tensor->dtype)->item_bits, &bits))
		bits = UINT64_MAX;
	fsdp_find(checking->findings, FSDP_RULE_CHUNK_GAP,
		FSDP_PLACE(.tensor = name, .affected = &name, .affected_count = 1,
			.affected_bytes = bits / 8),
		"the pieces hold %llu of %llu elements%s", FSDP_LLU(coverage->held),
		FSDP_LLU(tensor->numel), where);
}

static bool look_at(struct coverage *coverage, const struct fsdp_tensor *tensor)
{
	coverage->held = 0;
	coverage->reach = coverage->gap_end = 0;
	coverage->pair[0] = coverage->pair[1] = NULL;
	if (!collect(coverage, tensor))
		return true;
	coverage->ranges[0] = (struct extent){ 0, coverage->count, 0 };
	coverage->range_count = coverage->count > 0;
	while (coverage->range_count > 0)
		if (!split(coverage, coverage->ranges[--coverage->range_count]))
			return false;
	if (coverage->pair[0] != NULL)
		say_overlap(coverage, tensor);
	else if (coverage->held < tensor->numel && !coverage->gaps_explained)
		say_gap(coverage, tensor);
	return true;
}

static bool is_rule(const struct fsdp_rule *rule, enum fsdp_rule_index index)
{
	return rule == fsdp_rule(index);
}

/* What was reported already, by the reader or of a whole file. */
static void hear(struct coverage *coverage)
{
	static const enum fsdp_rule_index reasons[] = { FSDP_RULE_RANK_MISSING,
		FSDP_RULE_MISSING_FILE, FSDP_RULE_EMPTY_FILE, FSDP_RULE_RANK_IDENTITY,
		FSDP_RULE_CHUNK_BOUNDS, FSDP_RULE_SHARDS_DISAGREE,
		FSDP_RULE_DTENSOR_LAYOUT, FSDP_RULE_NOT_EVALUATED,
		FSDP_RULE_NOT_A_CHECKPOINT, FSDP_RULE_TRUNCATED_FILE };
	const struct fsdp_checkpoint *checkpoint = coverage->checking->checkpoint;
	const char *family = fsdp_checkpoint_format(checkpoint).family;

	/* One file of a set whose others were not named has pieces only. */
	coverage->gaps_explained = fsdp_checkpoint_error_count(checkpoint) > 0 ||
				   (family != NULL && strcmp(family, "safetensors") == 0);
	for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++) {
		const struct fsdp_finding *finding = fsdp_finding(checkpoint, i);
		bool tells = is_rule(finding->rule, FSDP_RULE_CHUNK_GAP) ||
			     is_rule(finding->rule, FSDP_RULE_CHUNK_OVERLAP);
		uint32_t tensor = tells && finding->tensor.data != NULL
					  ? fsdp_tensor_find(checkpoint, finding->tensor)
					  : FSDP_NONE;

		if (tensor != FSDP_NONE && tensor < fsdp_tensor_count(checkpoint))
			coverage->told[tensor] = true;
		for (size_t k = 0; k < sizeof reasons / sizeof reasons[0]; k++)
			coverage->gaps_explained |= is_rule(finding->rule, reasons[k]);
	}
}

static bool make_room(struct coverage *coverage, struct fsdp_error **ret_error)
{
	struct fsdp_checking *checking = coverage->checking;
	size_t count = fsdp_tensor_count(checking->checkpoint), most = 1;

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checking->checkpoint, i);

		if (tensor.piece_count > most)
			most = tensor.piece_count;
	}
	coverage->told = FSDP_TAKE(checking->arena, coverage->told, count + 1);
	coverage->boxes = FSDP_TAKE(checking->arena, coverage->boxes, most);
	coverage->ranges = FSDP_TAKE(checking->arena, coverage->ranges, most);
	return (coverage->told != NULL && coverage->boxes != NULL &&
		       coverage->ranges != NULL) ||
	       fsdp_arena_fail(checking->arena, ret_error);
}

static bool run(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	struct coverage coverage = { .checking = checking };
	bool all = true, some = false;

	if (!make_room(&coverage, ret_error))
		return false;
	hear(&coverage);
	for (uint32_t i = 0; i < fsdp_tensor_count(checking->checkpoint); i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checking->checkpoint, i);

		if (coverage.told[i] || !is_compared(&coverage, &tensor))
			continue;
		some = true;
		all &= look_at(&coverage, &tensor);
	}
	for (size_t i = 0; i < 2 && (!some || !all); i++)
		fsdp_check_skip(checking,
			i == 0 ? FSDP_RULE_CHUNK_GAP : FSDP_RULE_CHUNK_OVERLAP,
			all ? FSDP_REASON_NONE : FSDP_REASON_LIMIT);
	return true;
}

const struct fsdp_check fsdp_check_boxes = {
	FSDP_CHECK_RULES(FSDP_RULE_CHUNK_GAP, FSDP_RULE_CHUNK_OVERLAP),
	.run = run,
};

/*
 * Weights with several names: views of the same part of one storage, or names that a file
 * declares for what it stores once.
 */

/* A tensor, and the one that it is another name of. */
struct tied_pair {
	uint32_t kept, other;
};

static int compare_pairs_ties(const void *left, const void *right)
{
	const struct tied_pair *a = left, *b = right;

	if (a->kept != b->kept)
		return a->kept < b->kept ? -1 : 1;
	return a->other < b->other ? -1 : a->other > b->other;
}

/* Scalars that are expanded share their storage, too. */
static bool is_tied(const struct fsdp_tensor *tensor)
{
	return tensor->alias != FSDP_NONE && tensor->role != FSDP_ROLE_OPTIM &&
	       tensor->numel > 1 && (tensor->flags & FSDP_TENSOR_NO_DATA) == 0;
}

static struct fsdp_span name_of(struct fsdp_checking *checking, uint32_t tensor)
{
	return fsdp_arena_copy(
		checking->arena, fsdp_scratch_name(&checking->name, checking->checkpoint,
					 fsdp_tensor(checking->checkpoint, tensor).name));
}

static bool tell(
	struct fsdp_checking *checking, const struct tied_pair *pairs, size_t count)
{
	size_t kept = fsdp_min(count + 1, FSDP_AFFECTED_KEPT);
	struct fsdp_span *names = FSDP_TAKE(checking->arena, names, kept);

	if (names == NULL)
		return false;
	names[0] = name_of(checking, pairs->kept);
	for (size_t i = 1; i < kept; i++) {
		names[i] = name_of(checking, pairs[i - 1].other);
		if (names[i].data == NULL)
			return false;
	}
	fsdp_find(checking->findings, FSDP_RULE_TIED_WEIGHTS,
		FSDP_PLACE(.tensor = names[0], .affected = names,
			.affected_count = count + 1, .fix = ""),
		"tied weights: %zu names, one tensor", count + 1);
	return true;
}

static bool run_ties(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	size_t count = fsdp_tensor_count(checkpoint), found = 0, end;
	struct tied_pair *pairs = FSDP_TAKE(checking->arena, pairs, count + 1);

	if (pairs == NULL)
		return fsdp_arena_fail(checking->arena, ret_error);
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);

		if (is_tied(&tensor))
			pairs[found++] = (struct tied_pair){ tensor.alias, i };
	}
	qsort(pairs, found, sizeof *pairs, compare_pairs_ties);
	for (size_t at = 0; at < found; at = end) {
		for (end = at; end < found && pairs[end].kept == pairs[at].kept; end++)
			;
		if (!tell(checking, pairs + at, end - at))
			return fsdp_arena_fail(checking->arena, ret_error);
	}
	return true;
}

const struct fsdp_check fsdp_check_ties = {
	FSDP_CHECK_RULES(FSDP_RULE_TIED_WEIGHTS),
	.run = run_ties,
};

/*
 * Finds storages far larger than the tensors that use them: saving a slice saves the full base tensor. Reads no data,
 * so containers that must be read to find their storages are skipped.
 */

/* A storage is reported if it has so many bytes and as many times what is used. */
enum { LEAST_BYTES = 1 << 20, LEAST_TIMES = 2 };
static const uint64_t MUCH_BYTES = UINT64_C(1) << 30;

static bool is_waste(const struct fsdp_waste_row *row)
{
	return row->stored_bytes >= LEAST_BYTES &&
	       row->used_bytes <= row->stored_bytes / LEAST_TIMES;
}

static bool tell_unseen(struct fsdp_checking *checking, const struct fsdp_waste *waste,
	const struct fsdp_waste_row *row)
{
	size_t count = fsdp_min(row->view_count, FSDP_AFFECTED_KEPT);
	struct fsdp_span *names = FSDP_TAKE(checking->arena, names, count + 1);
	char room[FSDP_SHOWN];

	for (size_t i = 0; names != NULL && i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(
			checking->checkpoint, fsdp_waste_tensor(waste, row, i));

		names[i] = fsdp_arena_copy(
			checking->arena, fsdp_scratch_name(&checking->name,
						 checking->checkpoint, tensor.name));
		if (names[i].data == NULL)
			return false;
	}
	if (names == NULL)
		return false;
	fsdp_find(checking->findings, FSDP_RULE_STORAGE_WASTE,
		FSDP_PLACE(.file = fsdp_file(checking->checkpoint, row->file).path,
			.tensor = names[0], .affected = names,
			.affected_count = row->view_count,
			.severity =
				row->stored_bytes >= MUCH_BYTES ? FSDP_WARNING + 1 : 0),
		row->view_count == 1
			? "the storage %s has %llu bytes, and its %zu tensor sees %llu of them"
			: "the storage %s has %llu bytes, and its %zu tensors see %llu of them",
		fsdp_shown(row->storage, room), FSDP_LLU(row->stored_bytes),
		row->view_count, FSDP_LLU(row->used_bytes));
	return true;
}

/* The storage that wastes most comes first, so a small waste ends it. */
static bool judge(struct fsdp_checking *checking, const struct fsdp_waste *waste)
{
	for (size_t i = 0; i < fsdp_waste_count(waste); i++) {
		struct fsdp_waste_row row = fsdp_waste_row(waste, i);

		if (row.stored_bytes - row.used_bytes < LEAST_BYTES / LEAST_TIMES)
			break;
		if (row.file != FSDP_NONE && row.view_count != 0 && is_waste(&row) &&
			!tell_unseen(checking, waste, &row))
			return false;
	}
	return true;
}

static bool run_unseen(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	struct fsdp_waste *waste = NULL;
	bool good;

	if (!fsdp_waste_new(checking->checkpoint, &waste, ret_error))
		return false;
	if (!fsdp_waste_finish(waste, ret_error)) {
		fsdp_waste_free(waste);
		return false;
	}
	good = judge(checking, waste);
	fsdp_waste_free(waste);
	return good || fsdp_arena_fail(checking->arena, ret_error);
}

const struct fsdp_check fsdp_check_unseen = {
	FSDP_CHECK_RULES(FSDP_RULE_STORAGE_WASTE),
	.run = run_unseen,
};
