/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces and storages: whether pieces cover their tensor without overlaps, weights with
 * several names, and storages far larger than the tensors that use them.
 */
#include <stdio.h>

#include <fsdp/analysis.h>

#include "audit/checking.h"
#include "aggregate/aggregate.h"
#include "base/sort.h"

/*
 * ---- coverage ----
 *
 * Pieces with the same box are replicas. All others are sorted by one dimension after
 * another: pieces that are apart in a dimension share no element, and pieces at the same
 * position are compared in the next one. A grid costs no more than sorting it. Only
 * boxes that partly overlap in a dimension are compared pair by pair.
 */

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
	bool *reported;      /* by tensor: its reader said so */
	bool gaps_explained; /* files are absent, and a finding says so */
};

static bool is_same_box(const struct coverage *coverage, const struct box *a,
	const struct box *b, uint32_t dim)
{
	for (; a->offsets != NULL && dim < coverage->dims; dim++)
		if (a->offsets[dim] != b->offsets[dim] || a->sizes[dim] != b->sizes[dim])
			return false;
	return true;
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

/* Boxes that partly overlap along the dimension. False: too many of them. */
static bool compare_pairs(
	struct coverage *coverage, struct box *boxes, size_t count, uint32_t dim)
{
	for (size_t i = 0; i < count; i++) {
		for (size_t k = i + 1; k < count && boxes[k].begin < boxes[i].end; k++) {
			const struct box *a = &boxes[i], *b = &boxes[k];
			bool same = a->begin == b->begin && a->end == b->end;
			if (coverage->pairs++ >= PAIRS_MOST)
				return false;
			if (same && is_same_box(coverage, a, b, dim + 1)) {
				boxes[k].again = true;
			} else if (coverage->pair[0] == NULL &&
				   (a->offsets == NULL ||
					   fsdp_boxes_meet(a->offsets, a->sizes,
						   b->offsets, b->sizes, dim + 1,
						   coverage->dims))) {
				coverage->pair[0] = a;
				coverage->pair[1] = b;
			}
		}
		if (!boxes[i].again)
			hold(coverage, &boxes[i]);
	}
	return true;
}

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
	for (size_t i = 0; i < range.count && boxes[i].offsets != NULL; i++) {
		boxes[i].begin = boxes[i].offsets[range.dim];
		boxes[i].end = boxes[i].begin + boxes[i].sizes[range.dim];
	}
	FSDP_SORT(boxes, range.count, FSDP_BY(boxes, begin), FSDP_BY(boxes, end),
		FSDP_BY(boxes, piece));
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

/* False: it has a piece that is all of it, or no pieces that could be compared. */
static bool collect_boxes(struct coverage *coverage, const struct fsdp_tensor *tensor)
{
	const struct fsdp_checkpoint *checkpoint = coverage->checking->checkpoint;
	size_t runs = 0, wholes = 0;
	coverage->count = 0;
	for (uint32_t i = 0; i < tensor->piece_count; i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, tensor->first_piece + i);
		uint32_t rank;
		runs += piece.is_run;
		wholes += !piece.is_run && piece.offsets == NULL;
		if (fsdp_piece_numel(checkpoint, tensor->first_piece + i, &rank) > 0)
			coverage->boxes[coverage->count++] = (struct box){
				.offsets = piece.offsets,
				.sizes = piece.sizes,
				.begin = (int64_t)piece.param_start,
				.end = (int64_t)(piece.param_start + piece.param_numel),
				.piece = tensor->first_piece + i,
			};
	}
	coverage->dims = runs > 0 ? 1 : tensor->dims;
	return wholes == 0 && (runs == 0 || runs == tensor->piece_count);
}

static bool is_compared(const struct coverage *coverage, const struct fsdp_tensor *tensor)
{
	const uint32_t skipped = FSDP_TENSOR_NO_DATA | FSDP_TENSOR_RANKS_OWN;
	struct fsdp_placement placement = { 0 };
	if (tensor->piece_count == 0 || tensor->numel == 0 || tensor->dims == 0 ||
		(tensor->flags & skipped) != 0 || tensor->layout != NULL)
		return false;
	if (tensor->placement != FSDP_NONE)
		placement =
			fsdp_placement(coverage->checking->checkpoint, tensor->placement);
	for (uint32_t i = 0; i < placement.count; i++)
		if (fsdp_span_begins(placement.texts[i], FSDP_SPAN("Partial")))
			return false;
	return true;
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

static void report_overlap(struct coverage *coverage, const struct fsdp_tensor *tensor)
{
	struct fsdp_checking *checking = coverage->checking;
	struct fsdp_span name = fsdp_check_name(checking, tensor->name), path = { 0 };
	uint32_t file = fsdp_piece(checking->checkpoint, coverage->pair[1]->piece).file;
	char first[FSDP_SHOWN], second[FSDP_SHOWN];
	if (file != FSDP_NONE)
		path = fsdp_file(checking->checkpoint, file).path;
	fsdp_find(checking->findings, FSDP_RULE_CHUNK_OVERLAP,
		FSDP_PLACE(.file = path, .tensor = name, .affected = &name,
			.affected_count = 1),
		"pieces %s and %s overlap", write_box(coverage, coverage->pair[0], first),
		write_box(coverage, coverage->pair[1], second));
}

static void report_gap(struct coverage *coverage, const struct fsdp_tensor *tensor)
{
	struct fsdp_checking *checking = coverage->checking;
	struct fsdp_span name = fsdp_check_name(checking, tensor->name);
	uint64_t lost = tensor->numel - coverage->held, bits;
	int64_t end = coverage->dims == 1 && coverage->boxes[0].offsets == NULL
			      ? (int64_t)tensor->numel
			      : tensor->shape[0];
	bool runs = coverage->count > 0 && coverage->boxes[0].offsets == NULL;
	char where[96] = "";
	if (coverage->gap_end <= coverage->reach && coverage->reach < end)
		coverage->gap_end = end;
	if (coverage->gap_end > coverage->reach)
		snprintf(where, sizeof where, ": %s %lld:%lld are missing",
			runs ? "elements" : "rows", (long long)coverage->reach,
			(long long)coverage->gap_end);
	if (!fsdp_mul(lost, fsdp_dtype(tensor->dtype)->item_bits, &bits))
		bits = UINT64_MAX;
	fsdp_find(checking->findings, FSDP_RULE_CHUNK_GAP,
		FSDP_PLACE(.tensor = name, .affected = &name, .affected_count = 1,
			.affected_bytes = bits / 8),
		"pieces cover %llu of %llu elements of the tensor%s",
		FSDP_LLU(coverage->held), FSDP_LLU(tensor->numel), where);
}

/* False: too many pairs. */
static bool check_tensor(struct coverage *coverage, const struct fsdp_tensor *tensor)
{
	coverage->held = 0;
	coverage->reach = coverage->gap_end = 0;
	coverage->pair[0] = coverage->pair[1] = NULL;
	if (!collect_boxes(coverage, tensor))
		return true;
	coverage->ranges[0] = (struct extent){ 0, coverage->count, 0 };
	coverage->range_count = coverage->count > 0;
	while (coverage->range_count > 0)
		if (!split(coverage, coverage->ranges[--coverage->range_count]))
			return false;
	if (coverage->pair[0] != NULL)
		report_overlap(coverage, tensor);
	else if (coverage->held < tensor->numel && !coverage->gaps_explained)
		report_gap(coverage, tensor);
	return true;
}

static void read_reported(struct coverage *coverage)
{
	static const enum fsdp_rule_index reasons[] = { FSDP_RULE_RANK_MISSING,
		FSDP_RULE_MISSING_FILE, FSDP_RULE_EMPTY_FILE, FSDP_RULE_RANK_IDENTITY,
		FSDP_RULE_CHUNK_BOUNDS, FSDP_RULE_SHARDS_DISAGREE,
		FSDP_RULE_DTENSOR_LAYOUT, FSDP_RULE_NOT_EVALUATED,
		FSDP_RULE_NOT_A_CHECKPOINT, FSDP_RULE_TRUNCATED_FILE };
	const struct fsdp_checkpoint *checkpoint = coverage->checking->checkpoint;
	/* One file of a set whose others were not named has pieces only. */
	coverage->gaps_explained = fsdp_checkpoint_error_count(checkpoint) > 0 ||
				   strcmp(coverage->checking->family, "safetensors") == 0;
	for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++) {
		const struct fsdp_finding *finding = fsdp_finding(checkpoint, i);
		uint32_t tensor = FSDP_NONE;
		if ((finding->rule == fsdp_rule(FSDP_RULE_CHUNK_GAP) ||
			    finding->rule == fsdp_rule(FSDP_RULE_CHUNK_OVERLAP)) &&
			finding->tensor.data != NULL)
			tensor = fsdp_tensor_find(checkpoint, finding->tensor);
		if (tensor != FSDP_NONE && tensor < fsdp_tensor_count(checkpoint))
			coverage->reported[tensor] = true;
		for (size_t k = 0; k < FSDP_COUNT(reasons); k++)
			coverage->gaps_explained |=
				finding->rule == fsdp_rule(reasons[k]);
		coverage->gaps_explained |=
			(finding->rule == fsdp_rule(FSDP_RULE_ZERO_NUMEL) ||
				finding->rule == fsdp_rule(FSDP_RULE_ZERO_PARTITIONS)) &&
			finding->severity == FSDP_ERROR;
		/* A rank file is missing. */
		coverage->gaps_explained |=
			finding->rule == fsdp_rule(FSDP_RULE_MEGATRON_OBJECTS) &&
			strcmp(coverage->checking->family, "megatron-legacy") == 0;
	}
}

static void check_coverage(struct fsdp_checking *checking)
{
	size_t count = fsdp_tensor_count(checking->checkpoint), most = 1;
	struct coverage coverage = { .checking = checking };
	bool all = true, some = false;
	for (uint32_t i = 0; i < count; i++) {
		size_t pieces = fsdp_tensor(checking->checkpoint, i).piece_count;
		most = pieces > most ? pieces : most;
	}
	coverage.reported = FSDP_CHECK_TAKE(checking, coverage.reported, count);
	coverage.boxes = FSDP_CHECK_TAKE(checking, coverage.boxes, most);
	coverage.ranges = FSDP_CHECK_TAKE(checking, coverage.ranges, most);
	if (checking->no_memory)
		return;
	read_reported(&coverage);
	FSDP_EACH(i, (uint32_t)count, tensor, fsdp_tensor(checking->checkpoint, i)) {
		if (coverage.reported[i] || !is_compared(&coverage, &tensor))
			continue;
		some = true;
		all &= check_tensor(&coverage, &tensor);
	}
	for (size_t i = 0; i < 2 && (!some || !all); i++)
		fsdp_check_skip(checking,
			i == 0 ? FSDP_RULE_CHUNK_GAP : FSDP_RULE_CHUNK_OVERLAP,
			all ? FSDP_REASON_NONE : FSDP_REASON_LIMIT);
}

const struct fsdp_check fsdp_check_boxes = {
	FSDP_CHECK_RULES(FSDP_RULE_CHUNK_GAP, FSDP_RULE_CHUNK_OVERLAP),
	.run = check_coverage,
};

/*
 * ---- weights with several names ----
 *
 * Views of the same part of one storage, or names that a file declares for what it stores
 * once.
 */

/* A tensor, and the one that it is another name of. */
struct tied_pair {
	uint32_t kept, other;
};

/* Of "ema.layers.0.weight" and "model.layers.0.weight": what is after the first segment.
 */
static bool is_copy(struct fsdp_span a, struct fsdp_span b)
{
	struct fsdp_span first = fsdp_span_first(a, '.'),
			 second = fsdp_span_first(b, '.');
	return first.size < a.size && second.size < b.size &&
	       fsdp_span_equal(fsdp_span(a.data + first.size, a.size - first.size),
		       fsdp_span(b.data + second.size, b.size - second.size));
}

/* Several pairs are one finding: a second state dict may be the same tensors. */
static void check_ties(struct fsdp_checking *checking)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	size_t count = fsdp_tensor_count(checkpoint), found = 0, tensors = 0, copies = 0;
	struct tied_pair *pairs = FSDP_CHECK_TAKE(checking, pairs, count);
	struct fsdp_kept names = { 0 };
	char first[FSDP_SHOWN], second[FSDP_SHOWN];
	for (uint32_t i = 0; i < count && pairs != NULL; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		/* Scalars that are expanded share their storage, too. */
		if (tensor.alias != FSDP_NONE && tensor.role != FSDP_ROLE_OPTIM &&
			tensor.numel > 1 && (tensor.flags & FSDP_TENSOR_NO_DATA) == 0)
			pairs[found++] = (struct tied_pair){ tensor.alias, i };
	}
	if (found > 0)
		FSDP_SORT(pairs, found, FSDP_BY(pairs, kept), FSDP_BY(pairs, other));
	for (size_t at = 0; at < found; at++) {
		if (at == 0 || pairs[at].kept != pairs[at - 1].kept) {
			tensors++;
			fsdp_check_keep(checking, &names,
				fsdp_check_tensor_name(checking, pairs[at].kept));
		}
		fsdp_check_keep(checking, &names,
			fsdp_check_tensor_name(checking, pairs[at].other));
		copies += names.count <= FSDP_AFFECTED_KEPT && !checking->no_memory &&
			  is_copy(names.names[names.count - 2],
				  names.names[names.count - 1]);
	}
	if (found == 0 || checking->no_memory)
		return;
	bool are_copies = copies == found && tensors > 1;
	fsdp_shown(are_copies ? fsdp_span_first(names.names[0], '.') : names.names[0],
		first);
	fsdp_shown(are_copies ? fsdp_span_first(names.names[1], '.') : names.names[1],
		second);
	const struct fsdp_place_of *place = FSDP_PLACE(.tensor = names.names[0],
		.affected = names.names, .affected_count = names.count, .fix = "");
	if (are_copies)
		fsdp_find(checking->findings, FSDP_RULE_TIED_WEIGHTS, place,
			"tied weights: '%.100s' and '%.100s' share %zu tensors", first,
			second, tensors);
	else
		fsdp_find(checking->findings, FSDP_RULE_TIED_WEIGHTS, place,
			tensors > 1
				? "tied weights: '%.100s' and '%.100s' share one tensor; in all, %zu names share %zu tensors"
				: "tied weights: '%.100s' and '%.100s' share one tensor",
			first, second, names.count, tensors);
}

const struct fsdp_check fsdp_check_ties = {
	FSDP_CHECK_RULES(FSDP_RULE_TIED_WEIGHTS),
	.run = check_ties,
};

/*
 * ---- storages far larger than the tensors that use them ----
 *
 * Saving a slice saves the full base tensor. Reads no data, so containers that must be
 * read to find their storages are skipped.
 */

/* A storage is reported if it has so many bytes and as many times what is used. */
enum { LEAST_BYTES = 1 << 20, LEAST_TIMES = 2 };
static const uint64_t MUCH_BYTES = UINT64_C(1) << 30;

static void report_waste(struct fsdp_checking *checking, const struct fsdp_unused *waste,
	const struct fsdp_unused_row *row)
{
	struct fsdp_kept names = { 0 };
	char room[FSDP_SHOWN];
	for (size_t i = 0; i < row->view_count && i < FSDP_AFFECTED_KEPT; i++)
		fsdp_check_keep(checking, &names,
			fsdp_check_tensor_name(
				checking, fsdp_unused_tensor(waste, row, i)));
	if (checking->no_memory)
		return;
	fsdp_find(checking->findings, FSDP_RULE_STORAGE_WASTE,
		FSDP_PLACE(.file = fsdp_file(checking->checkpoint, row->file).path,
			.tensor = names.names[0], .affected = names.names,
			.affected_count = row->view_count,
			.severity =
				row->stored_bytes >= MUCH_BYTES ? FSDP_WARNING + 1 : 0),
		row->view_count == 1
			? "the storage %s has %llu bytes, and its %zu tensor sees %llu of them"
			: "the storage %s has %llu bytes, and its %zu tensors see %llu of them",
		fsdp_shown(row->storage, room), FSDP_LLU(row->stored_bytes),
		row->view_count, FSDP_LLU(row->used_bytes));
}

static void check_waste(struct fsdp_checking *checking)
{
	struct fsdp_unused *waste = NULL;
	size_t count = 0;
	if (fsdp_unused_new(checking->checkpoint, &waste, checking->ret_error) &&
		fsdp_unused_finish(waste, checking->ret_error))
		count = fsdp_unused_count(waste);
	else
		checking->failed = true;
	for (size_t i = 0; i < count && !checking->no_memory; i++) {
		struct fsdp_unused_row row = fsdp_unused_row(waste, i);
		/* The storage that wastes most comes first, so a small waste ends it. */
		if (row.stored_bytes - row.used_bytes < LEAST_BYTES / LEAST_TIMES)
			break;
		if (row.file != FSDP_NONE && row.view_count != 0 &&
			row.stored_bytes >= LEAST_BYTES &&
			row.used_bytes <= row.stored_bytes / LEAST_TIMES)
			report_waste(checking, waste, &row);
	}
	fsdp_unused_free(waste);
}

const struct fsdp_check fsdp_check_unseen = {
	FSDP_CHECK_RULES(FSDP_RULE_STORAGE_WASTE),
	.run = check_waste,
};
