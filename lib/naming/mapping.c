/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies a map to tensors: renames them, cuts or joins them where the other side has
 * parts, joins slices of ranks, and reads their elements, run by run or gathered in a
 * window.
 *
 * The first dimension of a tensor is cut. Its rows form groups with a share for each
 * part; all groups of a part, in order, are its rows on the other side.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/sort.h"
#include "naming/naming.h"

/* ---- Elements of mapped tensors ---- */

enum { WINDOW = 16 << 20, LONG_RUN = 64 << 10 };

/* A run of contiguous elements in a stored tensor. */
struct run {
	uint32_t tensor;
	uint64_t first, count;
};

struct fsdp_mapped_elements {
	struct fsdp_locator *locator;
	const struct fsdp_mapped *mapped;
	uint64_t at, end; /* elements of the mapped tensor */
	uint32_t width;
	struct fsdp_mapped_sums sums;
	struct fsdp_elements *stream; /* of the run that is passed on, or NULL */
	unsigned char *window, *source;
};

/* ---- positions of elements ---- */

/* From the element `at` on of the strands of a turn. */
static struct run run_in_turn(const struct fsdp_block *block, uint64_t turn, uint64_t at)
{
	const struct fsdp_strand *strand = block->strands;
	for (;; strand++) {
		uint64_t numel = strand->counts[0] * strand->counts[1] * strand->run;
		if (at < numel)
			break;
		at -= numel;
	}
	uint64_t row = at / strand->run, within = at % strand->run;
	uint64_t outer = row / strand->counts[1], inner = row % strand->counts[1];
	return (struct run){
		.tensor = strand->tensor,
		.first = strand->first + turn * strand->step + outer * strand->steps[0] +
			 inner * strand->steps[1] + within,
		.count = strand->run - within,
	};
}

static const struct fsdp_block *block_at(
	const struct fsdp_mapped *mapped, uint64_t at, uint64_t *ret_within)
{
	const struct fsdp_block *block = mapped->blocks;
	while (at >= block->turns * block->turn_numel) {
		at -= block->turns * block->turn_numel;
		block++;
	}
	*ret_within = at;
	return block;
}

/* The run that element `at` begins, of at most so many. */
static struct run run_at(const struct fsdp_mapped *mapped, uint64_t at, uint64_t most)
{
	struct run run = { mapped->tensor, at, most };
	if (mapped->blocks != NULL) {
		uint64_t within;
		const struct fsdp_block *block = block_at(mapped, at, &within);
		run = run_in_turn(
			block, within / block->turn_numel, within % block->turn_numel);
	}
	run.count = fsdp_min(run.count, most);
	return run;
}

/* Whether runs from here on are long enough to be read one by one; else *ret_end is how
 * far they are alike. */
static bool is_long(const struct fsdp_mapped_elements *elements, uint64_t *ret_end)
{
	uint64_t within;
	if (elements->mapped->blocks == NULL)
		return true;
	const struct fsdp_block *block =
		block_at(elements->mapped, elements->at, &within);
	*ret_end = elements->at - within + block->turns * block->turn_numel;
	for (size_t i = 0; i < block->count; i++)
		if (block->strands[i].run * elements->width < LONG_RUN &&
			block->turns * block->strands[i].counts[0] *
					block->strands[i].counts[1] >
				1)
			return false;
	return true;
}

/* ---- runs ---- */

static bool add_sums(struct fsdp_mapped_elements *elements, struct fsdp_error **ret_error)
{
	size_t count;
	if (elements->sums.take == NULL)
		return true;
	const struct fsdp_elements_run *runs =
		fsdp_elements_runs(elements->stream, &count);
	return elements->sums.take(elements->sums.context, runs, count, ret_error);
}

static bool open_run(struct fsdp_mapped_elements *elements, const struct run *run,
	struct fsdp_error **ret_error)
{
	const struct fsdp_elements_options options = {
		.size = sizeof options,
		.first = run->first,
		.count = run->count,
		.resolve = true,
		.sums = elements->sums.take != NULL,
	};
	return fsdp_elements_open(
		elements->locator, run->tensor, &options, &elements->stream, ret_error);
}

static bool close_run(
	struct fsdp_mapped_elements *elements, struct fsdp_error **ret_error)
{
	bool good = add_sums(elements, ret_error);
	fsdp_elements_close(elements->stream);
	elements->stream = NULL;
	return good;
}

static bool fail_short(struct fsdp_error **ret_error)
{
	return fsdp_fail(ret_error, FSDP_ERROR_INTERNAL, FSDP_UNKNOWN,
		"a tensor gave fewer elements than it has");
}

/* ---- gathering ---- */

/* All elements of one stored tensor that a window needs: `from` is the first one, `to`
 * after the last. */
static bool gather_from(struct fsdp_mapped_elements *elements, uint32_t tensor,
	uint64_t from, uint64_t to, uint64_t window, struct fsdp_error **ret_error)
{
	uint64_t most = WINDOW / elements->width;
	while (from < to) {
		struct run run = { tensor, from, fsdp_min(most, to - from) };
		uint64_t size = run.count * elements->width, got = 0;
		struct fsdp_span bytes;
		if (!open_run(elements, &run, ret_error))
			return false;
		for (;;) {
			if (!fsdp_elements_next(elements->stream, &bytes, ret_error))
				return false;
			if (bytes.size == 0)
				break;
			if (bytes.size > size - got)
				return fail_short(ret_error);
			memcpy(elements->source + got, bytes.data, bytes.size);
			got += bytes.size;
		}
		if (!close_run(elements, ret_error))
			return false;
		if (got != size)
			return fail_short(ret_error);
		/* Part of a window within some elements of one stored tensor, which are
		 * in `source`. */
		uint32_t width = elements->width;
		for (uint64_t at = 0; at < window;) {
			struct run piece =
				run_at(elements->mapped, elements->at + at, window - at);
			uint64_t begin =
				piece.first > run.first ? piece.first : run.first;
			uint64_t end = fsdp_min(
				piece.first + piece.count, run.first + run.count);
			if (piece.tensor == tensor && begin < end)
				memcpy(elements->window +
						(at + begin - piece.first) * width,
					elements->source + (begin - run.first) * width,
					(size_t)((end - begin) * width));
			at += piece.count;
		}
		from += run.count;
	}
	return true;
}

static bool gather(struct fsdp_mapped_elements *elements, uint64_t end,
	struct fsdp_span *ret_bytes, struct fsdp_error **ret_error)
{
	uint64_t within, window = fsdp_min(WINDOW / elements->width,
				 fsdp_min(end, elements->end) - elements->at);
	const struct fsdp_block *block =
		block_at(elements->mapped, elements->at, &within);
	if (elements->window == NULL)
		elements->window = malloc(WINDOW);
	if (elements->source == NULL)
		elements->source = malloc(WINDOW);
	if (elements->window == NULL || elements->source == NULL)
		return fsdp_fail_memory(ret_error);
	for (size_t i = 0; i < block->count; i++) {
		uint32_t tensor = block->strands[i].tensor;
		uint64_t from, to;
		if (i != 0 && tensor == block->strands[i - 1].tensor)
			continue;
		/* Elements of a stored tensor in the window; none: from is after to. */
		from = UINT64_MAX;
		to = 0;
		for (uint64_t at = 0; at < window;) {
			struct run run =
				run_at(elements->mapped, elements->at + at, window - at);
			at += run.count;
			if (run.tensor != tensor)
				continue;
			from = fsdp_min(from, run.first);
			if (run.first + run.count > to)
				to = run.first + run.count;
		}
		if (!gather_from(elements, tensor, from, to, window, ret_error))
			return false;
	}
	*ret_bytes = fsdp_span(elements->window, window * elements->width);
	elements->at += window;
	return true;
}

/* The next bytes of the run that is open, or of the next one. */
static bool pass_on(struct fsdp_mapped_elements *elements, struct fsdp_span *ret_bytes,
	struct fsdp_error **ret_error)
{
	for (;;) {
		if (elements->stream == NULL) {
			struct run run = run_at(elements->mapped, elements->at,
				elements->end - elements->at);
			if (!open_run(elements, &run, ret_error))
				return false;
		}
		if (!fsdp_elements_next(elements->stream, ret_bytes, ret_error))
			return false;
		if (ret_bytes->size != 0) {
			elements->at += ret_bytes->size / elements->width;
			return elements->at <= elements->end || fail_short(ret_error);
		}
		if (!close_run(elements, ret_error))
			return false;
		uint64_t end;
		if (elements->at == elements->end)
			return true;
		if (!is_long(elements, &end))
			return gather(elements, end, ret_bytes, ret_error);
	}
}

/* ---- the stream ---- */

bool fsdp_mapped_open(struct fsdp_locator *locator, const struct fsdp_mapped *mapped,
	uint64_t first, uint64_t count, struct fsdp_mapped_elements **ret_elements,
	struct fsdp_error **ret_error)
{
	struct fsdp_mapped_elements *elements = calloc(1, sizeof *elements);
	if (elements == NULL)
		return fsdp_fail_memory(ret_error);
	elements->locator = locator;
	elements->mapped = mapped;
	elements->width = fsdp_dtype(mapped->dtype)->storage_bytes;
	elements->at = first;
	elements->end = first + count;
	*ret_elements = elements;
	return true;
}

void fsdp_mapped_sum(
	struct fsdp_mapped_elements *elements, const struct fsdp_mapped_sums *sums)
{
	elements->sums = *sums;
}

bool fsdp_mapped_next(struct fsdp_mapped_elements *elements, struct fsdp_span *ret_bytes,
	struct fsdp_error **ret_error)
{
	uint64_t end;
	*ret_bytes = fsdp_span(NULL, 0);
	if (elements->stream == NULL && elements->at == elements->end)
		return true;
	if (elements->stream != NULL || is_long(elements, &end))
		return pass_on(elements, ret_bytes, ret_error);
	return gather(elements, end, ret_bytes, ret_error);
}

void fsdp_mapped_close(struct fsdp_mapped_elements *elements)
{
	if (elements == NULL)
		return;
	fsdp_elements_close(elements->stream);
	free(elements->window);
	free(elements->source);
	free(elements);
}

/* ---- what it costs ---- */

static bool is_packed(
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_mapped *mapped)
{
	for (size_t i = 0; i < mapped->block_count; i++)
		for (size_t k = 0; k < mapped->blocks[i].count; k++)
			if (fsdp_tensor_is_packed(
				    checkpoint, mapped->blocks[i].strands[k].tensor))
				return true;
	return false;
}

uint64_t fsdp_mapped_cost(
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_mapped *mapped)
{
	uint64_t width = fsdp_dtype(mapped->dtype)->storage_bytes, bytes;
	if (!fsdp_mul(mapped->numel, width, &bytes))
		return UINT64_MAX;
	if (is_packed(checkpoint, mapped) && !fsdp_mul(bytes, 1 + bytes / WINDOW, &bytes))
		return UINT64_MAX;
	return bytes;
}

/* ---- Slices of ranks ---- */

/* A list of tensors while it is mapped. What cannot go on leaves. */
struct mapping {
	const struct fsdp_map_sizes *sizes;
	const struct fsdp_map_table *table;
	const struct fsdp_mapped *list;
	size_t count, at; /* of the list; which is mapped, or which parts are joined */
	size_t some;      /* parts */
	bool strict;
	struct fsdp_arena *arena;
	struct fsdp_mapped *made;
	size_t made_count, made_room;
	struct map_part *parts;
	struct fsdp_mapped *whole; /* of the parts that are joined */
	uint32_t ranks;            /* that have slices of their own; 0: none has */
	bool unfit; /* the last failure is that a tensor does not have the form of the row */
	struct fsdp_error *error; /* of it; NULL: memory ran out */
};

/* A slice, in the order of names, then of ranks. */
struct rank_slice {
	const struct fsdp_mapped *mapped;
	size_t at; /* in the list */
};

static int compare_slices(const void *left, const void *right)
{
	const struct rank_slice *a = left, *b = right;
	int order = fsdp_span_compare(a->mapped->name, b->mapped->name);
	if (order != 0)
		return order;
	return a->mapped->rank < b->mapped->rank ? -1 : a->mapped->rank > b->mapped->rank;
}

static void fail_slice(
	struct mapping *mapping, const struct fsdp_mapped *mapped, const char *what)
{
	fsdp_fail(&mapping->error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN, "%.*s %s",
		FSDP_TEXT_MOST(mapped->name, 200), what);
	fsdp_arena_leave(mapping->arena);
}

/* In order. */
static void join_rank_rows(const struct rank_slice *slices, uint32_t ranks,
	int64_t *shape, struct fsdp_mapped *whole, struct fsdp_arena *arena)
{
	size_t count = 0;
	for (uint32_t i = 0; i < ranks; i++)
		count += slices[i].mapped->blocks != NULL ? slices[i].mapped->block_count
							  : 1;
	struct fsdp_block *blocks = FSDP_TAKE(arena, blocks, count);
	struct fsdp_strand *strands = FSDP_TAKE(arena, strands, ranks);
	whole->block_count = 0;
	for (uint32_t i = 0; i < ranks; i++) {
		const struct fsdp_mapped *slice = slices[i].mapped;
		if (slice->blocks == NULL) {
			/* A slice as it is, as one run. */
			struct fsdp_block *block = &blocks[whole->block_count++];
			struct fsdp_strand *strand = &strands[i];
			*strand = (struct fsdp_strand){
				.tensor = slice->tensor,
				.counts = { 1, 1 },
				.run = slice->numel,
			};
			*block = (struct fsdp_block){
				.turns = 1,
				.turn_numel = slice->numel,
				.strands = strand,
				.count = 1,
			};
		} else
			for (size_t k = 0; k < slice->block_count; k++)
				blocks[whole->block_count++] = slice->blocks[k];
	}
	whole->blocks = blocks;
	shape[0] *= ranks;
}

/* In each row, in order. */
static void join_rank_columns(const struct rank_slice *slices, uint32_t ranks,
	int64_t *shape, struct fsdp_mapped *whole, struct fsdp_arena *arena)
{
	uint64_t columns = (uint64_t)shape[1];
	struct fsdp_block *block = FSDP_TAKE(arena, block, 1);
	struct fsdp_strand *strands = FSDP_TAKE(arena, strands, ranks);
	for (uint32_t i = 0; i < ranks; i++)
		strands[i] = (struct fsdp_strand){
			.tensor = slices[i].mapped->tensor,
			.step = columns,
			.counts = { 1, 1 },
			.run = columns,
		};
	*block = (struct fsdp_block){
		.turns = (uint64_t)shape[0],
		.turn_numel = columns * ranks,
		.strands = strands,
		.count = ranks,
	};
	whole->blocks = block;
	whole->block_count = 1;
	shape[1] *= ranks;
}

static void join(struct mapping *mapping, const struct rank_slice *slices,
	struct fsdp_mapped *whole)
{
	struct fsdp_arena *arena = mapping->arena;
	uint32_t ranks = mapping->ranks;
	const struct fsdp_mapped *first = slices[0].mapped;
	bool columns = first->cut == FSDP_MAP_COLUMNS;
	*whole = *first;
	whole->own = false;
	if (first->cut == FSDP_MAP_SAME || ranks == 1)
		return;
	if ((columns ? first->dims != 2 || first->blocks != NULL : first->dims == 0) ||
		first->numel == 0)
		fail_slice(mapping, first, "cannot be joined by the map");
	int64_t *shape = FSDP_TAKE(arena, shape, first->dims);
	memcpy(shape, first->shape, first->dims * sizeof *shape);
	if (!fsdp_mul(first->numel, ranks, &whole->numel) || whole->numel > INT64_MAX)
		fail_slice(mapping, first, "is larger than any tensor");
	whole->shape = shape;
	if (columns)
		join_rank_columns(slices, ranks, shape, whole, arena);
	else
		join_rank_rows(slices, ranks, shape, whole, arena);
}

/*
 * Joins slices that ranks of tensor parallelism have under one name, where `cut` has a
 * dimension: the result replaces the first of them. Each of `ranks` ranks must have one,
 * of the same dtype and shape. Of a tensor that is complete on all ranks, the first is
 * taken.
 */
static void mapping_join_ranks(struct mapping *mapping)
{
	struct fsdp_mapped *list = mapping->made;
	size_t count = mapping->made_count, found = 0, kept = 0;
	struct rank_slice *slices = FSDP_TAKE(mapping->arena, slices, count + 1);
	struct fsdp_mapped *made = FSDP_TAKE(mapping->arena, made, count + 1);
	if (mapping->ranks == 0 || count == 0)
		return;
	memcpy(made, list, count * sizeof *made);
	for (size_t i = 0; i < count; i++)
		if (list[i].cut != FSDP_MAP_UNTOLD)
			slices[found++] = (struct rank_slice){ &list[i], i };
	qsort(slices, found, sizeof *slices, compare_slices);
	for (size_t i = 0, some; i < found; i += some) {
		for (some = 1; i + some < found && fsdp_span_equal(slices[i].mapped->name,
							   slices[i + some].mapped->name);
			some++)
			made[slices[i + some].at].name = fsdp_span(NULL, 0);
		/* One slice a rank, all of one form. */
		const struct fsdp_mapped *first = slices[i].mapped;
		bool each = some == mapping->ranks, alike = true;
		for (size_t k = 0; k < some && each; k++) {
			const struct fsdp_mapped *other = slices[i + k].mapped;
			each = other->rank == k;
			alike = alike && other->dtype == first->dtype &&
				other->dims == first->dims && other->cut == first->cut &&
				(first->dims == 0 ||
					memcmp(other->shape, first->shape,
						first->dims * sizeof *first->shape) == 0);
		}
		if (!each)
			fail_slice(mapping, first, "does not have one slice per rank");
		if (!alike)
			fail_slice(mapping, first, "has another form in another rank");
		join(mapping, &slices[i], &made[slices[i].at]);
	}
	for (size_t i = 0; i < count; i++)
		if (made[i].name.data != NULL)
			list[kept++] = made[i];
	mapping->made_count = kept;
}

/* ---- Names and cuts by the rows of a map ---- */

enum { STACK_MOST = 4096 };

/* ---- what comes out ---- */

static struct fsdp_mapped *add(struct mapping *mapping)
{
	if (mapping->made_count == mapping->made_room) {
		size_t room = 2 * mapping->made_room + 64;
		struct fsdp_mapped *made = FSDP_TAKE(mapping->arena, made, room);
		if (mapping->made_count != 0)
			memcpy(made, mapping->made, mapping->made_count * sizeof *made);
		mapping->made = made;
		mapping->made_room = room;
	}
	return &mapping->made[mapping->made_count++];
}

/* Leaves with an error of what does not fit, unless that fits. */
static void must_fit(struct mapping *mapping, bool fits)
{
	mapping->unfit = !fits;
	if (!fits)
		fsdp_arena_leave(mapping->arena);
}

static void check_shape(struct mapping *mapping, struct fsdp_span name, bool fits)
{
	must_fit(mapping,
		fits || fsdp_fail(&mapping->error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
				"%.*s cannot be split by the map: its rows cannot be divided",
				FSDP_TEXT_MOST(name, 200)));
}

/* Leaves if a row of the map cannot be read. */
static void require(struct mapping *mapping, bool good)
{
	if (!good)
		fsdp_arena_leave(mapping->arena);
}

/* ---- rows ---- */

/* A tensor as a matrix of rows, and how the rows are shared. */
struct rows {
	uint64_t count;  /* of the tensor that has all parts */
	uint64_t length; /* elements of one */
	uint64_t unit;   /* rows of a share in a group */
};

static uint64_t before(const struct fsdp_map_rule *rule, size_t part)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < part; i++)
		sum += rule->share[i];
	return sum;
}

static bool divide(const struct fsdp_map_rule *rule, struct rows *rows)
{
	uint64_t pieces;
	if (rows->count == 0 || !fsdp_mul(rule->groups, rule->shares, &pieces) ||
		rows->count % pieces != 0)
		return false;
	rows->unit = rows->count / pieces;
	return rule->rotary == 0 ||
	       (rows->count % rule->rotary == 0 && rows->count / rule->rotary % 2 == 0);
}

static struct fsdp_block *allocate_blocks(
	struct mapping *mapping, size_t blocks, size_t strands)
{
	struct fsdp_block *list = FSDP_TAKE(mapping->arena, list, blocks);
	struct fsdp_strand *all = FSDP_TAKE(mapping->arena, all, blocks * strands);
	for (size_t i = 0; i < blocks; i++)
		list[i] = (struct fsdp_block){
			.turns = 1, .strands = all + i * strands, .count = strands
		};
	return list;
}

static void count_turn(struct fsdp_block *block)
{
	block->turn_numel = 0;
	FSDP_EACH(i, block->count, strand, &block->strands[i])
		block->turn_numel += strand->counts[0] * strand->counts[1] * strand->run;
}

/* ---- taking a part out ---- */

/* The rows of a part, group by group; transposed, an element of each row in turn. */
static void part_rows(struct fsdp_block *block, struct fsdp_strand *strand,
	const struct fsdp_map_rule *rule, size_t part, const struct rows *rows,
	uint32_t tensor, uint64_t first)
{
	uint64_t length = rows->length, group = rule->shares * rows->unit * length;
	uint64_t share = rule->share[part] * rows->unit;
	*strand = (struct fsdp_strand){
		.tensor = tensor,
		.first = first + before(rule, part) * rows->unit * length,
	};
	if (rule->transpose) {
		block->turns = length;
		strand->step = 1;
		strand->counts[0] = rule->groups;
		strand->steps[0] = group;
		strand->counts[1] = share;
		strand->steps[1] = length;
		strand->run = 1;
		return;
	}
	block->turns = rule->groups;
	strand->step = group;
	strand->counts[0] = strand->counts[1] = 1;
	strand->run = share * length;
}

/* One dimension has nothing to be transposed. */
static struct fsdp_map_rule suited(
	const struct fsdp_map_rule *rule, const struct fsdp_mapped *from)
{
	struct fsdp_map_rule suited = *rule;
	suited.transpose = rule->transpose && from->dims == 2;
	return suited;
}

static bool is_plain(const struct fsdp_map_rule *rule, const struct fsdp_mapped *from)
{
	return rule->names == 1 && rule->parts == 1 && rule->rotary == 0 &&
	       !(rule->transpose && from->dims == 2);
}

/* The name-th tensor that a rule makes of another; of one name all parts of it. */
static void cut(struct mapping *mapping, const struct fsdp_map_rule *given, size_t name,
	const struct fsdp_mapped *from, uint64_t first, struct fsdp_mapped *to)
{
	struct fsdp_map_rule rule = suited(given, from);
	struct rows rows = { .count = from->dims != 0 ? (uint64_t)from->shape[0] : 0 };
	size_t begin = rule.names == 1 ? 0 : name;
	size_t parts = rule.names == 1 ? rule.parts : 1;
	uint64_t count = 0;
	check_shape(mapping, from->name, divide(&rule, &rows));
	rows.length = from->numel / rows.count;
	size_t blocks = rule.transpose ? 1 : parts;
	struct fsdp_block *list = allocate_blocks(mapping, blocks, parts / blocks);
	for (size_t i = 0; i < parts; i++) {
		struct fsdp_block *block = &list[rule.transpose ? 0 : i];
		struct fsdp_strand *strand = &block->strands[rule.transpose ? i : 0];
		if (rule.rotary != 0) {
			/* Rows in pairs become the first ones, then the second ones:
			 * (head, i, 2) to (head, 2, i). */
			uint32_t tensor = from->tensor;
			uint64_t head = rows.count / rule.rotary, length = rows.length;
			block->turns = rule.rotary;
			block->strands[0] = (struct fsdp_strand){
				.tensor = tensor,
				.first = first,
				.step = head * length,
				.counts = { 2, head / 2 },
				.steps = { length, 2 * length },
				.run = length,
			};
		} else
			part_rows(block, strand, &rule, begin + i, &rows, from->tensor,
				first);
		count += rule.share[begin + i] * rows.unit * rule.groups;
	}
	for (size_t i = 0; i < blocks; i++)
		count_turn(&list[i]);
	to->blocks = list;
	to->block_count = blocks;
	/* The shape of something with so many rows. */
	int64_t *shape = FSDP_TAKE(mapping->arena, shape, to->dims);
	memcpy(shape, to->shape, to->dims * sizeof *shape);
	shape[0] = (int64_t)count;
	if (rule.transpose && to->dims == 2) {
		shape[0] = (int64_t)rows.length;
		shape[1] = (int64_t)count;
	}
	to->shape = shape;
	to->numel = count * rows.length;
}

/* A run of the tensor as it is. */
static void add_run(struct mapping *mapping, const struct fsdp_mapped *from,
	uint64_t first, struct fsdp_mapped *to)
{
	struct fsdp_block *block = allocate_blocks(mapping, 1, 1);
	block->strands[0] = (struct fsdp_strand){
		.tensor = from->tensor,
		.first = first,
		.counts = { 1, 1 },
		.run = from->numel,
	};
	count_turn(block);
	to->blocks = block;
	to->block_count = 1;
}

/* Layers, or experts, that are stacked in one tensor become one tensor each; experts of
 * stacked layers too. */
static void unstack(struct mapping *mapping, const struct fsdp_map_rule *rule,
	const struct fsdp_mapped *from, uint64_t first, bool is_slice,
	struct fsdp_captures captures)
{
	size_t which = fsdp_map_lacking(rule->to[0], &captures);
	if (which == FSDP_MAP_CAPTURES) {
		/* All that a rule makes of a tensor, or of one slice of it that begins at
		 * `first`. */
		for (size_t i = 0; i < rule->names; i++) {
			struct fsdp_mapped *to = add(mapping);
			*to = *from;
			to->cut = from->own ? rule->ranks : FSDP_MAP_UNTOLD;
			to->name = fsdp_map_name(mapping->arena, rule->to[i], &captures);
			if (!is_plain(rule, from))
				cut(mapping, rule, i, from, first, to);
			else if (is_slice)
				add_run(mapping, from, first, to);
		}
		return;
	}
	check_shape(mapping, from->name, from->dims != 0);
	uint64_t rows = (uint64_t)from->shape[0];
	uint64_t layers = rule->stack != 0 ? rule->stack : rows;
	check_shape(mapping, from->name,
		layers != 0 && layers <= STACK_MOST && rows % layers == 0 &&
			fsdp_dtype(from->dtype)->item_bits >= 8);
	struct fsdp_mapped layer = *from;
	int64_t *shape = FSDP_TAKE(mapping->arena, shape, (size_t)from->dims);
	memcpy(shape, from->shape, from->dims * sizeof *shape);
	shape[0] = (int64_t)(rows / layers);
	layer.shape = rule->stack != 0 ? shape : from->shape + 1;
	layer.dims -= rule->stack == 0;
	layer.numel = from->numel / layers;
	for (uint64_t i = 0; i < layers; i++) {
		char digits[24];
		int size = snprintf(digits, sizeof digits, "%llu", FSDP_LLU(i));
		captures.digits[which] = fsdp_span(digits, (size_t)size);
		/* At most as deep as there are captures. */
		unstack(mapping, rule, &layer, first + i * layer.numel, true, captures);
	}
}

/* ---- there ---- */

static bool fail_row(struct mapping *mapping, const struct fsdp_mapped *item)
{
	fsdp_fail(&mapping->error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
		"the map has no row for %.*s", FSDP_TEXT_MOST(item->name, 200));
	return fsdp_error_add_hint(&mapping->error,
		"omit it (-g '!NAME'), or add a row to a map of your own");
}

/* Which dimension is cut of a tensor whose columns are known. */
static void find_cut(struct mapping *mapping, const struct fsdp_mapped *item,
	struct fsdp_map_rule *rule)
{
	uint64_t columns = item->dims == 2 ? (uint64_t)item->shape[1] : 0;
	if (rule->ranks != FSDP_MAP_WIDTH)
		return;
	rule->ranks = columns == rule->width ? FSDP_MAP_ROWS : FSDP_MAP_COLUMNS;
	if (columns == rule->width || (columns != 0 && rule->width % columns == 0 &&
					      rule->width / columns == mapping->ranks))
		return;
	fsdp_fail(&mapping->error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
		"%.*s has %llu columns in each rank (ranks: %u) and needs %llu in all: files of ranks are missing",
		FSDP_TEXT_MOST(item->name, 200),
		FSDP_LLU(item->dims == 2 ? item->shape[1] : 0), mapping->ranks,
		FSDP_LLU(rule->width));
	must_fit(mapping, false);
}

/* A row for the full tensor, turned into one for the slice of a rank. */
static void suit_slice(struct mapping *mapping, const struct fsdp_mapped *item,
	size_t row, struct fsdp_map_rule *rule)
{
	if (!item->own || rule->names == 0 ||
		(rule->ranks == FSDP_MAP_UNTOLD && mapping->ranks == 1))
		return;
	if (rule->ranks == FSDP_MAP_UNTOLD) {
		fsdp_fail(&mapping->error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"the map does not define how ranks share %.*s",
			FSDP_TEXT_MOST(item->name, 200));
		fsdp_error_add_hint(&mapping->error,
			"define it under \"ranks\" (fsdp-inspect help maps)");
		must_fit(mapping, false);
	}
	require(mapping, fsdp_map_width(mapping->table, row, mapping->sizes, rule,
				 &mapping->error));
	find_cut(mapping, item, rule);
	if (rule->ranks == FSDP_MAP_SAME)
		return;
	check_shape(mapping, item->name, rule->rotary % mapping->ranks == 0);
	rule->rotary /= mapping->ranks;
}

static void map_item(void *context)
{
	struct mapping *mapping = context;
	const struct fsdp_mapped *item = &mapping->list[mapping->at];
	struct fsdp_captures captures;
	struct fsdp_map_rule rule;
	size_t row = fsdp_map_find(mapping->table, item->name, &captures);
	must_fit(mapping, row != SIZE_MAX || fail_row(mapping, item));
	require(mapping, fsdp_map_rule(mapping->table, row, mapping->sizes, &rule,
				 &mapping->error));
	suit_slice(mapping, item, row, &rule);
	unstack(mapping, &rule, item, 0, false, captures);
}

/* Whether it does; false: it does not fit, and stays as it is unless all must. */
static bool try_to(struct mapping *mapping, void (*map)(void *context))
{
	mapping->unfit = false;
	if (fsdp_arena_try(mapping->arena, map, mapping))
		return true;
	require(mapping, !mapping->strict && mapping->unfit);
	fsdp_error_free(mapping->error);
	mapping->error = NULL;
	return false;
}

/* ---- and back ---- */

/* A tensor that is a part of another one. */
struct map_part {
	size_t row, name;
	uint64_t digits[FSDP_MAP_CAPTURES]; /* FSDP_UNKNOWN: none */
	bool in_from[FSDP_MAP_CAPTURES];    /* the full tensor has them in its name */
	size_t item;
};

static uint64_t digit_of(const struct map_part *part, size_t which, bool in_from)
{
	return part->in_from[which] == in_from ? part->digits[which] : 0;
}

/* By row, by full tensor, then by its layers, then by names. */
static int compare_parts(const void *left, const void *right)
{
	const struct map_part *a = left, *b = right;
	if (a->row != b->row)
		return a->row < b->row ? -1 : 1;
	for (unsigned in_from = 2; in_from-- > 0;)
		for (size_t i = 0; i < FSDP_MAP_CAPTURES; i++) {
			uint64_t x = digit_of(a, i, in_from != 0);
			uint64_t y = digit_of(b, i, in_from != 0);
			if (x != y)
				return x < y ? -1 : 1;
		}
	return a->name < b->name ? -1 : a->name > b->name;
}

static bool are_of_one(const struct map_part *a, const struct map_part *b)
{
	if (a->row != b->row)
		return false;
	for (size_t i = 0; i < FSDP_MAP_CAPTURES; i++)
		if (digit_of(a, i, true) != digit_of(b, i, true))
			return false;
	return true;
}

/* The share of a part in each group. `at`: rows before the part in its tensor. */
static struct fsdp_strand join_rows(const struct fsdp_map_rule *rule, size_t part,
	const struct rows *rows, uint32_t tensor, uint64_t at, uint64_t width)
{
	uint64_t share = rule->share[part] * rows->unit, length = rows->length;
	if (rule->transpose)
		return (struct fsdp_strand){
			.tensor = tensor,
			.first = at,
			.step = share,
			.counts = { share, length },
			.steps = { 1, width },
			.run = 1,
		};
	return (struct fsdp_strand){
		.tensor = tensor,
		.first = at * length,
		.step = share * length,
		.counts = { 1, 1 },
		.run = share * length,
	};
}

static uint64_t rows_of(const struct fsdp_map_rule *rule, const struct fsdp_mapped *item)
{
	return item->dims == 0 ? 0 : (uint64_t)item->shape[rule->transpose ? 1 : 0];
}

/* One layer of the full tensor, out of as many parts as the rule has names. */
static struct rows join_layer(struct mapping *mapping, const struct fsdp_map_rule *rule,
	const struct map_part *parts, struct fsdp_block *block)
{
	const struct fsdp_mapped *first = &mapping->list[parts[0].item];
	struct rows rows = { 0 };
	uint64_t elements;
	for (size_t i = 0; i < rule->names; i++) {
		const struct fsdp_mapped *item = &mapping->list[parts[i].item];
		uint64_t some = rows_of(rule, item);
		check_shape(mapping, item->name,
			some != 0 && item->dims == first->dims &&
				item->dtype == first->dtype &&
				fsdp_add(rows.count, some, &rows.count));
	}
	rows.length = first->numel / rows_of(rule, first);
	check_shape(mapping, first->name,
		fsdp_mul(rows.count, rows.length, &elements) && divide(rule, &rows));
	block->turns = rule->groups;
	if (rule->rotary != 0) {
		/* (head, 2, i) to (head, i, 2). */
		uint32_t tensor = first->tensor;
		uint64_t head = rows.count / rule->rotary, length = rows.length;
		block->turns = rule->rotary;
		block->strands[0] = (struct fsdp_strand){
			.tensor = tensor,
			.step = head * length,
			.counts = { head / 2, 2 },
			.steps = { length, head / 2 * length },
			.run = length,
		};
	}
	for (size_t i = 0; rule->rotary == 0 && i < rule->parts; i++) {
		size_t name = rule->names == 1 ? 0 : i;
		const struct fsdp_mapped *item = &mapping->list[parts[name].item];
		uint64_t some = rows_of(rule, item);
		uint64_t at =
			rule->names == 1 ? before(rule, i) * rows.unit * rule->groups : 0;
		check_shape(mapping, item->name,
			item->numel == some * rows.length &&
				(rule->names == 1 || some == rule->share[i] * rows.unit *
								     rule->groups));
		block->strands[i] = join_rows(rule, i, &rows, item->tensor, at, some);
	}
	count_turn(block);
	return rows;
}

/* Whether layers are in the full tensor, and not in its name. */
static bool is_stacked(const struct map_part *part)
{
	for (size_t i = 0; i < FSDP_MAP_CAPTURES; i++)
		if (!part->in_from[i] && part->digits[i] != FSDP_UNKNOWN)
			return true;
	return false;
}

/* Number of layers of each capture that the full tensor lacks: all from 0 on must exist.
 */
static bool count_layers(const struct fsdp_map_rule *rule, const struct map_part *parts,
	size_t count, uint64_t layers[FSDP_MAP_CAPTURES])
{
	size_t at = 0;
	for (size_t i = 0; i < FSDP_MAP_CAPTURES; i++) {
		bool lacks = !parts[0].in_from[i] && parts[0].digits[i] != FSDP_UNKNOWN;
		layers[i] = lacks ? parts[count - 1].digits[i] + 1 : 1;
		if (layers[i] > STACK_MOST)
			return false;
	}
	if (layers[0] * layers[1] * rule->names != count)
		return false;
	for (uint64_t i = 0; i < layers[0]; i++)
		for (uint64_t k = 0; k < layers[1]; k++)
			for (size_t name = 0; name < rule->names; name++, at++)
				if (parts[at].name != name ||
					(layers[0] > 1 && parts[at].digits[0] != i) ||
					(layers[1] > 1 && parts[at].digits[1] != k))
					return false;
	return true;
}

/* The shape of the full tensor: layers first, then the rows. */
static void shape_whole(struct mapping *mapping, const struct fsdp_map_rule *rule,
	const struct map_part *first, const uint64_t layers[FSDP_MAP_CAPTURES],
	const struct rows *rows, struct fsdp_mapped *whole)
{
	int64_t *shape =
		FSDP_TAKE(mapping->arena, shape, (size_t)whole->dims + FSDP_MAP_CAPTURES);
	const int64_t *from = whole->shape;
	uint32_t dims = 0, rest = whole->dims;
	for (size_t i = 0; i < FSDP_MAP_CAPTURES; i++)
		if (!first->in_from[i] && first->digits[i] != FSDP_UNKNOWN &&
			rule->stack == 0)
			shape[dims++] = (int64_t)layers[i];
	uint64_t stacked = rule->stack != 0 ? layers[0] * layers[1] : 1;
	shape[dims++] = (int64_t)(rows->count * stacked);
	if (rule->transpose)
		shape[dims++] = (int64_t)rows->length;
	for (uint32_t i = rule->transpose ? 2 : 1; i < rest; i++)
		shape[dims++] = from[i];
	whole->shape = shape;
	whole->dims = dims;
	check_shape(mapping, whole->name, dims <= FSDP_DIMS_MAX);
}

static void join_one(void *context)
{
	struct mapping *mapping = context;
	const struct map_part *parts = mapping->parts + mapping->at;
	struct fsdp_mapped *whole = mapping->whole;
	const struct fsdp_mapped *first = &mapping->list[parts[0].item];
	uint64_t layers[FSDP_MAP_CAPTURES];
	struct fsdp_map_rule given;
	struct rows rows = { 0 };
	*whole = *first;
	require(mapping, fsdp_map_rule(mapping->table, parts[0].row, mapping->sizes,
				 &given, &mapping->error));
	struct fsdp_map_rule rule = suited(&given, first);
	must_fit(mapping,
		count_layers(&rule, parts, mapping->some, layers) ||
			fsdp_fail(&mapping->error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
				"%.*s cannot be joined by the map: other parts of %.*s lack",
				FSDP_TEXT_MOST(first->name, 200),
				FSDP_TEXT_MOST(rule.from, 200)));
	struct fsdp_captures captures;
	char digits[FSDP_MAP_CAPTURES][24];
	for (size_t i = 0; i < FSDP_MAP_CAPTURES; i++) {
		int size = snprintf(digits[i], sizeof digits[i], "%llu",
			FSDP_LLU(parts[0].digits[i]));
		captures.digits[i] = fsdp_span(digits[i], (size_t)size);
	}
	whole->name = fsdp_map_name(mapping->arena, rule.from, &captures);
	if (is_plain(&rule, first) && !is_stacked(&parts[0]))
		return;
	size_t blocks = (size_t)(layers[0] * layers[1]);
	struct fsdp_block *list = allocate_blocks(mapping, blocks, rule.parts);
	FSDP_EACH(i, blocks, some,
		join_layer(mapping, &rule, parts + i * rule.names, &list[i])) {
		check_shape(mapping, first->name,
			i == 0 ||
				(some.count == rows.count && some.length == rows.length));
		rows = some;
	}
	whole->blocks = list;
	whole->block_count = blocks;
	check_shape(mapping, first->name,
		fsdp_mul(list->turns * list->turn_numel, blocks, &whole->numel) &&
			whole->numel <= INT64_MAX);
	shape_whole(mapping, &rule, &parts[0], layers, &rows, whole);
}

/* A joined tensor replaces its first part. */
struct placed {
	size_t item;
	struct fsdp_mapped mapped;
};

static void map_back(struct mapping *mapping)
{
	struct map_part *parts = FSDP_TAKE(mapping->arena, parts, mapping->count + 1);
	struct placed *placed = FSDP_TAKE(mapping->arena, placed, mapping->count + 1);
	unsigned char *used = FSDP_TAKE(mapping->arena, used, mapping->count + 1);
	size_t count, made = 0;
	mapping->parts = parts;
	/* Which tensor is a part of what, and how many are any. */
	count = 0;
	for (size_t i = 0; i < mapping->count; i++) {
		struct map_part *part = &parts[count];
		struct fsdp_captures captures;
		struct fsdp_span from;
		*part = (struct map_part){ .item = i };
		part->row = fsdp_map_find_back(mapping->table, mapping->list[i].name,
			&part->name, &from, &captures);
		if (part->row == SIZE_MAX)
			continue;
		for (size_t k = 0; k < FSDP_MAP_CAPTURES; k++) {
			part->in_from[k] = fsdp_map_has_capture(from, k);
			part->digits[k] = fsdp_map_digits(captures.digits[k]);
		}
		used[i] = 1;
		++count;
	}
	qsort(parts, count, sizeof *parts, compare_parts);
	for (size_t i = 0; i < mapping->count; i++) {
		if (used[i] != 0)
			continue;
		require(mapping,
			!mapping->strict || fail_row(mapping, &mapping->list[i]));
		placed[made++] = (struct placed){ i, mapping->list[i] };
	}
	for (size_t i = 0, end; i < count; i = end) {
		struct placed *one = &placed[made];
		for (end = i + 1; end < count && are_of_one(&parts[i], &parts[end]);)
			end++;
		one->item = parts[i].item;
		mapping->at = i;
		mapping->some = end - i;
		mapping->whole = &one->mapped;
		if (try_to(mapping, join_one)) {
			++made;
			continue;
		}
		for (size_t k = i; k < end; k++)
			placed[made++] = (struct placed){ parts[k].item,
				mapping->list[parts[k].item] };
	}
	FSDP_SORT(placed, made, FSDP_BY(placed, item));
	for (size_t i = 0; i < made; i++)
		*add(mapping) = placed[i].mapped;
}

/* ---- all ---- */

static void map_all(void *context)
{
	struct mapping *mapping = context;
	if (mapping->table->back) {
		map_back(mapping);
	} else {
		for (mapping->at = 0; mapping->at < mapping->count; mapping->at++) {
			size_t made = mapping->made_count;
			if (try_to(mapping, map_item))
				continue;
			mapping->made_count = made;
			*add(mapping) = mapping->list[mapping->at];
		}
		mapping_join_ranks(mapping);
	}
}

bool fsdp_mapping_apply(const struct fsdp_map *map, const struct fsdp_map_sizes *sizes,
	const struct fsdp_mapped *list, size_t count, bool strict,
	struct fsdp_arena *arena, struct fsdp_mapped **ret_list, size_t *ret_count,
	struct fsdp_error **ret_error)
{
	struct mapping mapping = {
		.sizes = sizes,
		.table = fsdp_map_choose(map, list, count),
		.list = list,
		.count = count,
		.strict = strict,
		.arena = arena,
	};
	for (size_t i = 0; i < count; i++)
		if (list[i].own && list[i].rank >= mapping.ranks)
			mapping.ranks = list[i].rank + 1;
	bool good = fsdp_arena_try(arena, map_all, &mapping);
	*ret_list = mapping.made;
	*ret_count = mapping.made_count;
	return good || (mapping.error != NULL ? fsdp_fail_with(ret_error, mapping.error)
					      : fsdp_arena_fail(arena, ret_error));
}
