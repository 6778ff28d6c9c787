/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which strided elements are moved best. Reads through fetch.c alone.
 */
#include "base/num.h"
#include "sweep/copy-loops.h"

/* A loop of fewer turns is not worth being the innermost. */
enum { SHORT_LOOP = 16 };

/* ---- making ---- */

void fsdp_nest_init(struct fsdp_nest *nest, uint64_t from, uint64_t to, size_t width)
{
	nest->from = from;
	nest->to = to;
	nest->row = width;
	nest->loop_count = 0;
}

void fsdp_nest_add(struct fsdp_nest *nest, uint64_t count, uint64_t from, uint64_t to)
{
	if (count > 1)
		nest->loops[nest->loop_count++] =
			(struct fsdp_nest_loop){ count, from, to };
}

static void take_out(struct fsdp_nest *nest, size_t index)
{
	nest->loop_count--;
	memmove(&nest->loops[index], &nest->loops[index + 1],
		(nest->loop_count - index) * sizeof *nest->loops);
}

/* Loops that go on where the row ends, in both, make it longer. */
static void lengthen_row(struct fsdp_nest *nest)
{
	for (size_t i = 0; i < nest->loop_count;) {
		const struct fsdp_nest_loop *loop = &nest->loops[i];
		if (loop->from != nest->row || loop->to != nest->row) {
			i++;
			continue;
		}
		nest->row *= (size_t)loop->count;
		take_out(nest, i);
		i = 0;
	}
}

static bool runs_before(const struct fsdp_nest_loop *a, const struct fsdp_nest_loop *b)
{
	return a->from != b->from ? a->from > b->from : a->to > b->to;
}

static void sort(struct fsdp_nest_loop *loops, size_t count,
	bool (*before)(const struct fsdp_nest_loop *, const struct fsdp_nest_loop *))
{
	for (size_t i = 1; i < count; i++) {
		struct fsdp_nest_loop loop = loops[i];
		size_t at = i;
		for (; at > 0 && before(&loop, &loops[at - 1]); at--)
			loops[at] = loops[at - 1];
		loops[at] = loop;
	}
}

/* Two loops that are one in both. */
static void join_loops(struct fsdp_nest *nest)
{
	for (size_t i = 0; i + 1 < nest->loop_count;) {
		struct fsdp_nest_loop *outer = &nest->loops[i], *inner = outer + 1;
		uint64_t from, to;
		if (!fsdp_mul(inner->from, inner->count, &from) || outer->from != from ||
			!fsdp_mul(inner->to, inner->count, &to) || outer->to != to) {
			i++;
			continue;
		}
		inner->count *= outer->count;
		take_out(nest, i);
		i = i > 0 ? i - 1 : 0;
	}
}

void fsdp_nest_settle(struct fsdp_nest *nest)
{
	lengthen_row(nest);
	sort(nest->loops, nest->loop_count, runs_before);
	join_loops(nest);
}

/* ---- reach ---- */

/* Whether the gap between two turns is read rather than skipped. */
static bool is_near(const struct fsdp_nest_loop *loop, uint64_t span)
{
	return loop->from <= span || loop->from - span <= FSDP_FETCH_NEAR;
}

static uint64_t widened(const struct fsdp_nest_loop *loop, uint64_t span)
{
	return (loop->count - 1) * loop->from + span;
}

/* The first loop from which on there are no long gaps, and the bytes they span. */
static size_t dense_from(const struct fsdp_nest *nest, bool all, uint64_t *ret_span)
{
	size_t first = nest->loop_count;
	*ret_span = nest->row;
	while (first > 0 && (all || is_near(&nest->loops[first - 1], *ret_span)))
		*ret_span = widened(&nest->loops[--first], *ret_span);
	return first;
}

uint64_t fsdp_nest_end(const struct fsdp_nest *nest, bool *ret_dense)
{
	uint64_t span;
	*ret_dense = dense_from(nest, false, &span) == 0;
	dense_from(nest, true, &span);
	return nest->from + span;
}

/* ---- what lies in a window ---- */

/* Inlined with a width that the compiler knows. */
static inline void move_each(unsigned char *memory, uint64_t to,
	const unsigned char *bytes, uint64_t from, uint64_t count, size_t width)
{
	for (uint64_t i = 0; i < count; i++) {
		memcpy(memory, bytes, width);
		memory += to;
		bytes += from;
	}
}

static void move_rows(unsigned char *memory, uint64_t to, const unsigned char *bytes,
	uint64_t from, uint64_t count, size_t row)
{
	switch (row) {
	case 1:
		move_each(memory, to, bytes, from, count, 1);
		break;
	case 2:
		move_each(memory, to, bytes, from, count, 2);
		break;
	case 4:
		move_each(memory, to, bytes, from, count, 4);
		break;
	case 8:
		move_each(memory, to, bytes, from, count, 8);
		break;
	case 16:
		move_each(memory, to, bytes, from, count, 16);
		break;
	default:
		move_each(memory, to, bytes, from, count, row);
	}
}

void fsdp_odometer_init(
	struct fsdp_odometer *odometer, const struct fsdp_nest_loop *loops, size_t count)
{
	odometer->loops = loops;
	odometer->count = count;
	odometer->from = odometer->to = 0;
	memset(odometer->turns, 0, count * sizeof *odometer->turns);
}

bool fsdp_odometer_next(struct fsdp_odometer *odometer)
{
	for (size_t i = odometer->count; i-- > 0;) {
		const struct fsdp_nest_loop *loop = &odometer->loops[i];
		if (++odometer->turns[i] < loop->count) {
			odometer->from += loop->from;
			odometer->to += loop->to;
			return true;
		}
		odometer->turns[i] = 0;
		odometer->from -= (loop->count - 1) * loop->from;
		odometer->to -= (loop->count - 1) * loop->to;
	}
	return false;
}

static bool lies_before(const struct fsdp_nest_loop *a, const struct fsdp_nest_loop *b)
{
	return a->to > b->to;
}

/* The innermost loop is the one that writes forwards, or a long one. */
static void order_for_memory(struct fsdp_nest_loop *loops, size_t count)
{
	sort(loops, count, lies_before);
	if (count < 2 || loops[count - 1].count >= SHORT_LOOP)
		return;
	size_t longest = count - 1;
	for (size_t i = 0; i < count; i++)
		if (loops[i].count > loops[longest].count)
			longest = i;
	struct fsdp_nest_loop last = loops[longest];
	memmove(&loops[longest], &loops[longest + 1],
		(count - 1 - longest) * sizeof *loops);
	loops[count - 1] = last;
}

/* All loops over bytes that are here; `loops` is in order for memory. */
static void move_block(unsigned char *memory, const unsigned char *bytes,
	const struct fsdp_nest_loop *loops, size_t count, size_t row)
{
	if (count == 0) {
		memcpy(memory, bytes, row);
		return;
	}
	const struct fsdp_nest_loop *inner = &loops[count - 1];
	struct fsdp_odometer odometer;
	fsdp_odometer_init(&odometer, loops, count - 1);
	do
		move_rows(memory + odometer.to, inner->to, bytes + odometer.from,
			inner->from, inner->count, row);
	while (fsdp_odometer_next(&odometer));
}

/* ---- running ---- */

/*
 * How a nest is cut: loops[0] to loops[split - 1] run outside; of loop `split`, if there
 * is one, `portion` turns at a time together with all loops within make a block that
 * fits a window.
 */
struct cut {
	size_t split;
	uint64_t portion;
	uint64_t span; /* of the loops within */
	bool whole;    /* a block is all loops: nothing is left to cut */
};

static struct cut cut_nest(const struct fsdp_nest *nest, bool all)
{
	struct cut cut = { .split = nest->loop_count, .span = nest->row };
	while (cut.split > 0) {
		const struct fsdp_nest_loop *loop = &nest->loops[cut.split - 1];
		if (!all && !is_near(loop, cut.span))
			break;
		uint64_t span = widened(loop, cut.span);
		if (span > FSDP_FETCH_PART)
			break;
		cut.span = span;
		cut.split--;
	}
	if (cut.split == 0) {
		cut.whole = true;
		return cut;
	}
	const struct fsdp_nest_loop *loop = &nest->loops[--cut.split];
	bool near = all || is_near(loop, cut.span);
	cut.portion = 1;
	if (near && cut.span <= FSDP_FETCH_PART)
		cut.portion += (FSDP_FETCH_PART - cut.span) / loop->from;
	return cut;
}

struct runner {
	const struct fsdp_nest *nest;
	struct fsdp_fetch *fetch;
	unsigned char *memory;
	struct cut cut;
	struct fsdp_nest_loop block[FSDP_DIMS_MAX]; /* in order for memory */
	size_t block_count;
	struct fsdp_error **error;
};

/* The loops of a block, `turns` of the one that is cut. */
static void make_block(struct runner *runner, uint64_t turns)
{
	const struct fsdp_nest *nest = runner->nest;
	size_t first = runner->cut.split;
	runner->block_count = 0;
	for (size_t i = first; i < nest->loop_count; i++) {
		struct fsdp_nest_loop loop = nest->loops[i];
		if (i == first && !runner->cut.whole)
			loop.count = turns;
		if (loop.count > 1)
			runner->block[runner->block_count++] = loop;
	}
	order_for_memory(runner->block, runner->block_count);
}

/* Long rows that follow each other in the file. */
static bool is_rows(const struct runner *runner)
{
	return runner->block_count == 1 && !runner->fetch->record.deflated &&
	       runner->block[0].from == runner->nest->row &&
	       runner->nest->row >= FSDP_FETCH_LONG;
}

static bool run_rows(struct runner *runner, uint64_t from, uint64_t to)
{
	const struct fsdp_fetch *fetch = runner->fetch;
	return fsdp_source_read_rows(&fetch->source, fetch->record.offset + from,
		runner->memory + to, runner->nest->row, (size_t)runner->block[0].to,
		(size_t)runner->block[0].count, runner->error);
}

static bool run_block(
	struct runner *runner, uint64_t from, uint64_t to, uint64_t span, uint64_t until)
{
	if (is_rows(runner))
		return run_rows(runner, from, to);
	if (runner->block_count == 0)
		return fsdp_fetch_into(runner->fetch, from, span, runner->memory + to,
			until, runner->error);
	const unsigned char *bytes =
		fsdp_fetch(runner->fetch, from, (size_t)span, until, runner->error);
	if (bytes == NULL)
		return false;
	move_block(runner->memory + to, bytes, runner->block, runner->block_count,
		runner->nest->row);
	return true;
}

/* The loop that is cut, portion by portion. */
static bool run_portions(
	struct runner *runner, uint64_t from, uint64_t to, uint64_t until)
{
	const struct fsdp_nest_loop *loop = &runner->nest->loops[runner->cut.split];
	uint64_t turns = runner->cut.portion;
	make_block(runner, fsdp_min(turns, loop->count));
	for (uint64_t done = 0; done < loop->count; done += turns) {
		if (turns > loop->count - done) {
			turns = loop->count - done;
			make_block(runner, turns);
		}
		if (!run_block(runner, from + done * loop->from, to + done * loop->to,
			    (turns - 1) * loop->from + runner->cut.span, until))
			return false;
	}
	return true;
}

bool fsdp_nest_run(const struct fsdp_nest *nest, struct fsdp_fetch *fetch, uint64_t until,
	unsigned char *memory, struct fsdp_error **ret_error)
{
	bool all = fetch->record.deflated; /* whatever is skipped is inflated anyway */
	struct runner runner = {
		.nest = nest,
		.fetch = fetch,
		.memory = memory,
		.cut = cut_nest(nest, all),
		.error = ret_error,
	};
	if (runner.cut.whole) {
		make_block(&runner, 0);
		return run_block(&runner, nest->from, nest->to, runner.cut.span, until);
	}
	/* Reading ahead ends where a long gap begins. */
	uint64_t span;
	size_t dense = dense_from(nest, all, &span);
	struct fsdp_odometer odometer;
	fsdp_odometer_init(&odometer, nest->loops, runner.cut.split);
	uint64_t begin = 0;
	do {
		uint64_t from = nest->from + odometer.from;
		bool fresh = true;
		for (size_t i = dense; i < runner.cut.split; i++)
			fresh = fresh && odometer.turns[i] == 0;
		if (fresh)
			begin = from;
		if (!run_portions(&runner, from, nest->to + odometer.to,
			    dense == 0                  ? until
			    : dense <= runner.cut.split ? begin + span
							: 0))
			return false;
	} while (fsdp_odometer_next(&odometer));
	return true;
}
