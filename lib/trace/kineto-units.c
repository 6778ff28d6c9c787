/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The units of FSDP in a trace: which annotation a collective was issued in, and what
 * each unit costs. The annotations
 * (torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, _runtime_utils.py), from
 * PyTorch 2.0 on:
 *
 *	FSDP::KIND			before 2.5, or of the root
 *	FSDP::KIND (NAME)		since 2.5
 *	FSDP::KIND (NAME) [pg=N]	since 2.11, of units with several parameter groups
 *	FSDP::forward_prefetch for NAME
 *	FullyShardedDataParallel.KIND
 *
 * NAME may hold blanks and brackets.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/characters.h"
#include "base/sort.h"
#include "trace/kineto.h"

/* By the word after "FSDP::" or "FullyShardedDataParallel."; the first is none. Those
 * without a further trait only show that it is FSDP2. */
#define TRAIT(name) FSDP_UNIT_##name
#define FSDP2 TRAIT(OF_FSDP2)
#define FSDP1 TRAIT(OF_FSDP1)
static const struct station {
	const char *name;
	unsigned traits;
} stations[] = {
	{ "", 0 },
	{ "all_gather", FSDP2 | TRAIT(GATHERS) },
	{ "all_gather_copy_out", FSDP2 },
	{ "pre_forward", FSDP2 | TRAIT(TURN) | TRAIT(FORWARDS) | TRAIT(IN_FORWARD) },
	{ "post_forward", FSDP2 },
	{ "pre_backward", FSDP2 | TRAIT(TURN) },
	{ "post_backward", FSDP2 },
	{ "post_backward_accumulate", FSDP2 },
	{ "post_backward_reshard", FSDP2 | TRAIT(RESHARDS) },
	{ "post_backward_reduce", FSDP2 | TRAIT(REDUCES) },
	{ "post_backward_rs_wait", FSDP2 },
	{ "forward_prefetch", FSDP2 | TRAIT(TURN) | TRAIT(AHEAD) | TRAIT(IN_FORWARD) },
	{ "backward_prefetch", FSDP2 | TRAIT(TURN) | TRAIT(AHEAD) },
	{ "forward", FSDP1 | TRAIT(FORWARD1) | TRAIT(FORWARDS) },
	{ "_pre_forward", FSDP1 | TRAIT(GATHERS1) | TRAIT(IN_FORWARD) },
	{ "_pre_forward_prefetch",
		FSDP1 | TRAIT(GATHERS1) | TRAIT(AHEAD) | TRAIT(IN_FORWARD) },
	{ "_pre_backward_hook", FSDP1 | TRAIT(GATHERS1) },
	{ "_pre_backward_prefetch", FSDP1 | TRAIT(GATHERS1) | TRAIT(AHEAD) },
	{ "_post_backward_hook", FSDP1 | TRAIT(REDUCES1) },
	{ "_post_backward_prefetch", FSDP1 | TRAIT(GATHERS1) | TRAIT(AHEAD) },
	{ "_post_backward_hook_reshard_only", FSDP1 | TRAIT(RESHARDS) },
};

static unsigned find_station(struct fsdp_span name, unsigned of)
{
	unsigned i = FSDP_COUNT(stations) - 1;
	while (i != 0 &&
		((stations[i].traits & of) == 0 || !fsdp_span_is(name, stations[i].name)))
		i--;
	return i;
}

/* " [pg=N]" at the end of a text: cuts it off. */
static int64_t read_group(struct fsdp_span *text)
{
	static const char begin[] = " [pg=";
	enum { SIZE = sizeof begin - 1 };
	size_t at = text->size;
	int64_t pg;
	if (at == 0 || text->data[--at] != ']')
		return FSDP_ABSENT;
	while (at > 0 && fsdp_is_digit(text->data[at - 1]))
		at--;
	struct fsdp_span digits = fsdp_span(text->data + at, text->size - 1 - at);
	if (digits.size == 0 || at < SIZE ||
		memcmp(text->data + at - SIZE, begin, SIZE) != 0 ||
		!fsdp_decimal_integer(digits, &pg))
		return FSDP_ABSENT;
	text->size = at - SIZE;
	return pg;
}

struct fsdp_kineto_unit_note fsdp_kineto_unit_read(struct fsdp_span name)
{
	struct fsdp_kineto_unit_note note = { .pg = FSDP_ABSENT, .unit = FSDP_SPAN("") };
	struct fsdp_span text, rest = FSDP_SPAN("");
	if (fsdp_span_behind(name, "FullyShardedDataParallel.", &text)) {
		note.station = find_station(text, FSDP1);
	} else if (fsdp_span_behind(name, "FSDP::", &text)) {
		struct fsdp_span word = fsdp_span_first(text, ' ');
		rest = fsdp_span(text.data + word.size, text.size - word.size);
		note.station = find_station(word, FSDP2);
	}
	bool prefetches = (stations[note.station].traits & TRAIT(AHEAD)) != 0;
	if (!prefetches)
		note.pg = read_group(&rest);
	/* " for NAME" of a prefetch, " (NAME)" of others. */
	bool has_unit = prefetches ? fsdp_span_behind(rest, " for ", &note.unit)
				   : fsdp_span_begins(rest, FSDP_SPAN(" (")) &&
					     rest.size >= 3 &&
					     rest.data[rest.size - 1] == ')';
	if (has_unit && !prefetches)
		note.unit = fsdp_span(rest.data + 2, rest.size - 3);
	if (!has_unit && rest.size != 0)
		note.station = 0;
	note.traits = stations[note.station].traits;
	return note;
}

/* ---- names ---- */

size_t fsdp_kineto_unit_clean(struct fsdp_span unit, unsigned char *buffer)
{
	size_t size = 0;
	bool any = false;
	for (size_t at = 0; at <= unit.size;) {
		struct fsdp_span segment =
			fsdp_span_first(fsdp_span(unit.data + at, unit.size - at), '.');
		at += segment.size + 1;
		if (fsdp_span_is_any(segment,
			    "_orig_mod _checkpoint_wrapped_module _fsdp_wrapped_module"))
			continue;
		if (any)
			buffer[size++] = '.';
		if (segment.size != 0)
			memcpy(buffer + size, segment.data, segment.size);
		size += segment.size;
		any = true;
	}
	return size;
}

/* ---- the innermost interval around another one ---- */

static bool is_inside(const struct fsdp_enclosed *a, const struct fsdp_enclosed *b)
{
	/* Lengths fit: a moment is nearer to zero than 2^62. */
	int64_t left = a->end - a->begin, right = b->end - b->begin;
	if (left != right)
		return left < right;
	if (a->begin != b->begin)
		return a->begin > b->begin;
	return a->index < b->index;
}

/* Those that have begun, each inside of the one below it and with an earlier end: what is
 * not inside, and ends no later, does not count any longer. */
struct begun {
	const struct fsdp_enclosed **stack;
	size_t depth;
};

static void begin_around(struct begun *begun, const struct fsdp_enclosed *one)
{
	/* So many run at once that are not nested: threads of a process overlap. */
	enum { OVERLAPPING = 1024 };
	const struct fsdp_enclosed **stack = begun->stack;
	while (begun->depth != 0 && stack[begun->depth - 1]->end < one->begin)
		begun->depth--;
	size_t low = 0, at = begun->depth, above;
	FSDP_HALVE(low, at, middle, stack[middle]->end > one->end);
	for (above = low; above < begun->depth && !is_inside(stack[above], one);)
		above++;
	if ((low != 0 && is_inside(stack[low - 1], one)) ||
		(above < begun->depth && stack[above]->end == one->end) ||
		begun->depth - above > OVERLAPPING)
		return;
	memmove(&stack[low + 1], &stack[above], (begun->depth - above) * sizeof *stack);
	stack[low] = one;
	begun->depth += low + 1 - above;
}

void fsdp_enclosing_find(struct fsdp_enclosed *around, size_t around_count,
	struct fsdp_enclosed *inner, size_t inner_count, uint32_t *ret_around,
	struct fsdp_arena *scratch)
{
	struct begun begun = { FSDP_TAKE(scratch, begun.stack, around_count + 1), 0 };
	size_t next = 0;
	FSDP_SORT(around, around_count, FSDP_BY(around, lane), FSDP_BY(around, begin),
		FSDP_BY(around, index));
	FSDP_SORT(inner, inner_count, FSDP_BY(inner, lane), FSDP_BY(inner, begin),
		FSDP_BY(inner, index));
	FSDP_EACH(i, inner_count, one, &inner[i]) {
		if (i == 0 || one->lane != inner[i - 1].lane)
			begun.depth = 0;
		for (; next < around_count &&
			(around[next].lane < one->lane ||
				(around[next].lane == one->lane &&
					around[next].begin <= one->begin));
			next++)
			if (around[next].lane == one->lane)
				begin_around(&begun, &around[next]);
		size_t low = 0, high = begun.depth;
		FSDP_HALVE(low, high, middle, begun.stack[middle]->end >= one->end);
		ret_around[one->index] =
			low != 0 ? begun.stack[low - 1]->index : FSDP_NONE;
	}
}

/*
 * Rows of units: their order, and their sums over ranks.
 */

/* ---- order ---- */

static int compare_rows(const void *a, const void *b)
{
	const struct fsdp_unit_times *left = a, *right = b;
	bool unknown = left->unit.data == NULL;
	if (unknown != (right->unit.data == NULL))
		return unknown ? 1 : -1;
	int order = unknown ? 0 : fsdp_natural_compare(left->unit, right->unit);
	if (order != 0)
		return order;
	if (left->phase != right->phase)
		return left->phase < right->phase ? -1 : 1;
	/* Absent is less than any number. */
	return left->pg < right->pg ? -1 : left->pg > right->pg;
}

/* ---- sums ---- */

static void add_ns(int64_t *sum, int64_t ns)
{
	bool overflow = false;
	if (ns == FSDP_ABSENT)
		return;
	if (*sum == FSDP_ABSENT)
		*sum = 0;
	fsdp_sum_ns(sum, ns, &overflow);
}

static void add_collectives(
	struct fsdp_unit_collectives *sum, const struct fsdp_unit_collectives *more)
{
	sum->count += more->count;
	sum->kernels += more->kernels;
	sum->on_compute_stream += more->on_compute_stream;
	add_ns(&sum->ns, more->ns);
	add_ns(&sum->exposed_ns, more->exposed_ns);
	add_ns(&sum->exposed_last_ns, more->exposed_last_ns);
}

/* The texts of both, each once, in the arena. */
static void add_texts(struct fsdp_unit_texts *sum, const struct fsdp_unit_texts *more,
	struct fsdp_arena *arena)
{
	size_t count = sum->count + more->count, kept = 0;
	struct fsdp_span *all = FSDP_TAKE(arena, all, count);
	for (size_t i = 0; i < count; i++)
		all[i] = i < sum->count ? sum->texts[i] : more->texts[i - sum->count];
	FSDP_SORT(all, count, FSDP_BY_VALUE(all));
	for (size_t i = 0; i < count; i++)
		if (i == 0 || !fsdp_span_equal(all[i], all[kept - 1]))
			all[kept++] = all[i];
	*sum = (struct fsdp_unit_texts){ all, kept };
}

void fsdp_unit_rows_join(struct fsdp_joined *joined)
{
	size_t total = 0, kept = 0, at = 0;
	for (size_t i = 0; i < joined->count; i++)
		total += joined->by_rank[i]->unit_count;
	struct fsdp_unit_times *rows = FSDP_TAKE(joined->arena, rows, total);
	for (size_t i = 0; i < joined->count; i++)
		for (size_t j = 0; j < joined->by_rank[i]->unit_count; j++, at++) {
			rows[at] = joined->by_rank[i]->units[j];
			rows[at].gathers.by_step = rows[at].reduces.by_step =
				(struct fsdp_step_list){ 0 };
		}
	if (total != 0)
		qsort(rows, total, sizeof *rows, compare_rows);
	for (size_t i = 0; i < total; i++) {
		struct fsdp_unit_times *more = &rows[i],
				       *sum = kept != 0 ? &rows[kept - 1] : NULL;
		if (sum == NULL || compare_rows(sum, more) != 0) {
			rows[kept++] = *more;
			continue;
		}
		sum->prefetched += more->prefetched;
		sum->firsts += more->firsts;
		sum->reshards += more->reshards;
		sum->forwards += more->forwards;
		add_collectives(&sum->gathers, &more->gathers);
		add_collectives(&sum->reduces, &more->reduces);
		add_texts(&sum->groups, &more->groups, joined->arena);
		add_texts(&sum->streams, &more->streams, joined->arena);
	}
	joined->said.units = rows;
	joined->said.unit_count = kept;
}

/* ---- the annotations of a trace ---- */

void fsdp_kineto_units_add(
	struct fsdp_kineto *kineto, struct fsdp_span name, struct fsdp_kineto_row row)
{
	struct fsdp_kineto_unit_note note = fsdp_kineto_unit_read(name);
	kineto->units_seen |= note.traits;
	if ((note.traits & ~(unsigned)FSDP2) == 0)
		return;
	row.kind = note.station & 31;
	row.id = note.pg;
	/* The word of a name without the segments of wrappers; that of each name is found
	 * once. */
	uint32_t raw, id;
	uint32_t *clean = fsdp_kineto_words_find(
		&kineto->words, FSDP_KINETO_UNIT_NAMES, note.unit, &raw);
	if (*clean == 0) {
		unsigned char *buffer =
			fsdp_arena_take(kineto->words.scratch, note.unit.size, 1);
		fsdp_kineto_words_find(&kineto->words, FSDP_KINETO_UNITS,
			fsdp_span(buffer, fsdp_kineto_unit_clean(note.unit, buffer)),
			&id);
		clean = fsdp_vec_at(&kineto->words.known, raw);
		*clean = id;
	}
	row.name = *clean;
	fsdp_vec_append(&kineto->tables[FSDP_KINETO_UNIT], &row);
}

/*
 * The unit of each gather and reduction: a collective on the device belongs to the
 * annotation in which it was launched; one on the host to that in which it begins, on any
 * thread of the process.
 */

struct settling {
	struct fsdp_kineto *kineto;
	bool device;
	size_t count;               /* annotations */
	struct fsdp_vec rows;       /* struct fsdp_unit_times */
	struct fsdp_time_sums sums; /* gathers of each row, then reductions, by step */
	struct own {
		uint32_t row;    /* of an annotation; FSDP_NONE: none */
		uint32_t number; /* of an FSDP1 forward: its place, from 0 */
	} * own;
	struct fsdp_enclosed *around, *inner;
	uint32_t *found, *issued;
	struct reduction {
		int64_t begin_ns, end_ns, exposed_ns;
		size_t step;
		uint32_t row;
	} * reductions;
	size_t reduction_count;
};

static const struct fsdp_kineto_row *note_at(const struct settling *at, size_t index)
{
	return fsdp_kineto_at(at->kineto, FSDP_KINETO_UNIT, index);
}

static struct fsdp_unit_times *row_at(const struct settling *at, size_t row)
{
	return fsdp_vec_at(&at->rows, row);
}

static const struct fsdp_comm *comm_at(const struct settling *at, size_t index)
{
	return fsdp_comm_at(&at->kineto->comms.list, index);
}

/* The row of a unit (a word, or FSDP_NONE: unknown), which is added if it is new. */
static uint32_t find_row(
	struct settling *at, uint32_t unit, enum fsdp_unit_phase phase, int64_t pg)
{
	struct fsdp_kineto_words *words = &at->kineto->words;
	int64_t key[] = { unit, (int64_t)phase, pg };
	int64_t exposed_ns = at->device ? 0 : FSDP_ABSENT;
	uint32_t id;
	uint32_t *index = fsdp_kineto_words_find(
		words, FSDP_KINETO_UNIT_ROWS, FSDP_KINETO_KEY(key), &id);
	if (*index == 0) {
		struct fsdp_unit_times row = { .phase = phase,
			.pg = pg,
			.gathers.exposed_ns = exposed_ns,
			.reduces.exposed_ns = exposed_ns };
		if (unit != FSDP_NONE)
			row.unit = fsdp_kineto_words_text(words, unit);
		fsdp_vec_append(&at->rows, &row);
		*index = (uint32_t)at->rows.count;
	}
	return *index - 1;
}

/* A process group or a stream of a row; each once, though many collectives have it. */
static void add_text(struct settling *at, uint32_t row, struct fsdp_unit_texts *to,
	uint32_t word, struct fsdp_span text)
{
	const struct fsdp_unit_texts one = { &text, 1 };
	uint32_t key[] = { to == &row_at(at, row)->streams, row, word }, id;
	uint32_t *known = fsdp_kineto_words_find(
		&at->kineto->words, FSDP_KINETO_UNIT_TEXTS, FSDP_KINETO_KEY(key), &id);
	if (*known == 0)
		add_texts(to, &one, &at->kineto->reading->arena);
	*known = 1;
}

/* ---- kinds of annotations ---- */

static bool is_named(const struct settling *at)
{
	return (at->kineto->units_seen & TRAIT(GATHERS)) != 0;
}

static bool has(const struct fsdp_kineto_row *note, unsigned traits)
{
	return (stations[note->kind].traits & traits) != 0;
}

static enum fsdp_unit_phase phase_of(const struct fsdp_kineto_row *note)
{
	return has(note, TRAIT(IN_FORWARD)) ? FSDP_PHASE_FORWARD : FSDP_PHASE_BACKWARD;
}

/* The annotations with one of some traits, by thread or by process. */
static size_t list_around(struct settling *at, unsigned traits, bool by_process)
{
	size_t count = 0;
	for (size_t i = 0; i < at->count; i++) {
		const struct fsdp_kineto_row *note = note_at(at, i);
		if (!has(note, traits))
			continue;
		at->around[count++] =
			(struct fsdp_enclosed){ note->ts_ns, fsdp_kineto_end(note),
				by_process ? *(uint32_t *)fsdp_vec_at(
						     &at->kineto->process_of, note->lane)
					   : note->lane,
				(uint32_t)i };
	}
	return count;
}

/* For each annotation of some kinds the innermost one of others around it. */
static void find_around(struct settling *at, unsigned inner, unsigned around)
{
	size_t count = list_around(at, inner, false);
	memcpy(at->inner, at->around, count * sizeof *at->inner);
	fsdp_enclosing_find(at->around, list_around(at, around, false), at->inner, count,
		at->found, at->kineto->reading->scratch);
}

/* ---- FSDP1: the units of one outermost forward, in order of start ---- */

/* "#k" as a word. */
static uint32_t find_number(struct settling *at, uint32_t number)
{
	char text[16];
	uint32_t unit;
	int size = snprintf(text, sizeof text, "#%u", (unsigned)number);
	fsdp_kineto_words_find(&at->kineto->words, FSDP_KINETO_UNITS,
		fsdp_span(text, (size_t)size), &unit);
	return unit;
}

/* ---- what is counted by annotations ---- */

/* Before PyTorch 2.5 all units have one row. */
static void add_station(struct settling *at, size_t index)
{
	const struct fsdp_kineto_row *note = note_at(at, index);
	uint32_t unit = note->name;
	bool forward = has(note, TRAIT(FORWARDS));
	if (has(note, TRAIT(GATHERS))) {
		/* The phase of a gather of FSDP2, and whether it was asked for ahead of
		 * its turn. */
		enum fsdp_unit_phase phase = FSDP_PHASE_NONE;
		bool ahead = false;
		if (at->found[index] != FSDP_NONE) {
			const struct fsdp_kineto_row *turn =
				note_at(at, at->found[index]);
			phase = phase_of(turn);
			ahead = has(turn, TRAIT(AHEAD)) || turn->name != unit ||
				turn->id != note->id;
		}
		at->own[index].row = find_row(at, unit, phase, note->id);
		struct fsdp_unit_times *row = row_at(at, at->own[index].row);
		row->gathers.count++;
		row->prefetched += ahead;
		return;
	}
	if (!forward && has(note, TRAIT(TURN) | TRAIT(GATHERS1) | TRAIT(REDUCES1)))
		return;
	if (has(note, TRAIT(FORWARD1)))
		unit = find_number(at, at->own[index].number);
	else if (has(note, FSDP1) || !is_named(at))
		unit = FSDP_NONE;
	at->own[index].row = find_row(
		at, unit, forward ? FSDP_PHASE_FORWARD : FSDP_PHASE_BACKWARD, note->id);
	struct fsdp_unit_times *row = row_at(at, at->own[index].row);
	row->forwards += forward;
	row->reduces.count += has(note, TRAIT(REDUCES));
	row->reshards += has(note, TRAIT(RESHARDS));
}

/* ---- what is counted by collectives ---- */

static bool is_gather(const struct fsdp_comm *comm)
{
	return comm->type == FSDP_TIME_ALL_GATHER;
}

static bool is_reduction(const struct fsdp_comm *comm)
{
	return comm->type == FSDP_TIME_REDUCE_SCATTER ||
	       comm->type == FSDP_TIME_ALL_REDUCE;
}

/* The row of a collective that was issued in an annotation. The kinds that are gathers or
 * reductions themselves were counted before. */
static uint32_t find_row_of(struct settling *at, uint32_t index, bool gathers)
{
	const struct fsdp_kineto_row *note = note_at(at, index);
	uint32_t unit = FSDP_NONE, around;
	if (has(note, TRAIT(GATHERS) | TRAIT(REDUCES)))
		return at->own[index].row;
	/* A gather in the forward of FSDP1 is for the unit whose forward contains it, or
	 * the next one. */
	bool ahead = has(note, TRAIT(AHEAD));
	if (has(note, TRAIT(GATHERS1)) && has(note, TRAIT(IN_FORWARD)) &&
		(around = at->found[index]) != FSDP_NONE)
		unit = find_number(at, at->own[around].number + ahead);
	at->own[index].row = find_row(at, unit, phase_of(note), FSDP_ABSENT);
	struct fsdp_unit_times *row = row_at(at, at->own[index].row);
	row->gathers.count += gathers;
	row->reduces.count += !gathers;
	row->prefetched += gathers && ahead;
	return at->own[index].row;
}

static void add_collective(struct settling *at, size_t i, uint32_t row_index)
{
	const struct fsdp_kineto *kineto = at->kineto;
	const struct fsdp_comm *comm = comm_at(at, i);
	const struct fsdp_comm_sort *sort = fsdp_vec_at(&kineto->comms.sorts, comm->sort);
	struct fsdp_unit_times *row = row_at(at, row_index);
	struct fsdp_unit_collectives *sum =
		is_gather(comm) ? &row->gathers : &row->reduces;
	int64_t end_ns = comm->ts_ns + comm->dur_ns;
	int64_t exposed_ns =
		at->device ? fsdp_comm_exposed(&kineto->reading->recording, comm)
			   : FSDP_ABSENT;
	bool overflow = false;
	uint32_t stream = kineto->places[comm->order].stream, group_id;
	sum->kernels++;
	fsdp_sum_ns(&sum->ns, comm->dur_ns, &overflow);
	if (kineto->reading->options->by_step)
		fsdp_time_sums_add(&at->sums, 2 * row_index + !is_gather(comm),
			fsdp_kineto_number_at(kineto, comm->host_ns), comm->dur_ns,
			exposed_ns);
	if (!at->device)
		return;
	fsdp_sum_ns(&sum->exposed_ns, exposed_ns, &overflow);
	if (is_reduction(comm))
		at->reductions[at->reduction_count++] =
			(struct reduction){ comm->ts_ns, end_ns, exposed_ns,
				fsdp_kineto_step_at(kineto, comm->host_ns), row_index };
	sum->on_compute_stream += stream != 0 && stream == kineto->compute_stream;
	struct fsdp_span group =
		sort->description.size != 0 ? sort->description : sort->group;
	if (group.size != 0) {
		fsdp_kineto_words_find(
			&at->kineto->words, FSDP_KINETO_GROUPS, group, &group_id);
		add_text(at, row_index, &row->groups, group_id, group);
	}
	add_text(at, row_index, &row->streams, stream,
		fsdp_kineto_words_thread_name(&kineto->words, stream));
}

/* Gathers or reductions, in the annotation with one of some traits in which each was
 * issued. */
static void add_issued(struct settling *at, bool gathers, unsigned traits)
{
	struct fsdp_time_without_unit *rest = &at->kineto->reading->recording.unassigned;
	size_t comms = at->kineto->comms.list.count, count = 0;
	bool overflow = false;
	for (size_t i = 0; i < comms; i++) {
		const struct fsdp_comm *comm = comm_at(at, i);
		const struct fsdp_kineto_place *place = &at->kineto->places[comm->order];
		at->issued[i] = FSDP_NONE;
		if (place->lane != 0 && (gathers ? is_gather(comm) : is_reduction(comm)))
			at->inner[count++] = fsdp_enclosed_moment(
				place->ts_ns, place->lane, (uint32_t)i);
	}
	fsdp_enclosing_find(at->around, list_around(at, traits, !at->device), at->inner,
		count, at->issued, at->kineto->reading->scratch);
	for (size_t i = 0; i < comms; i++) {
		const struct fsdp_comm *comm = comm_at(at, i);
		if (gathers ? !is_gather(comm) : !is_reduction(comm))
			continue;
		if (at->issued[i] != FSDP_NONE) {
			add_collective(at, i, find_row_of(at, at->issued[i], gathers));
			continue;
		}
		*(gathers ? &rest->gathers : &rest->reduces) += 1;
		fsdp_sum_ns(gathers ? &rest->gather_ns : &rest->reduce_ns, comm->dur_ns,
			&overflow);
	}
}

/* ---- all of it ---- */

static void finish(struct settling *at)
{
	unsigned gathers = TRAIT(GATHERS) | TRAIT(REDUCES) | TRAIT(GATHERS1);
	if (!is_named(at))
		gathers |= TRAIT(TURN);
	enum fsdp_unit_source *from = &at->kineto->reading->recording.units_from;
	*from = is_named(at)                            ? FSDP_UNITS_NAMED
		: (at->kineto->units_seen & FSDP2) != 0 ? FSDP_UNITS_OLD
		: at->count != 0                        ? FSDP_UNITS_FSDP1
							: FSDP_UNITS_ABSENT;
	size_t count = list_around(at, TRAIT(FORWARD1), false);
	const struct fsdp_enclosed *root = NULL;
	uint32_t number = 0;
	FSDP_SORT(at->around, count, FSDP_BY(at->around, lane),
		FSDP_BY(at->around, begin), FSDP_BY_LARGEST(at->around, end),
		FSDP_BY(at->around, index));
	FSDP_EACH(i, count, one, &at->around[i]) {
		if (root == NULL || root->lane != one->lane || one->begin >= root->end) {
			root = one;
			number = 0;
		}
		at->own[one->index].number = number++;
	}
	find_around(at, TRAIT(GATHERS), TRAIT(TURN));
	for (size_t i = 0; i < at->count; i++)
		add_station(at, i);
	/* Of each step, or of a trace without steps, the gather that was asked for first.
	 */
	size_t steps = at->kineto->step_count;
	uint32_t *first = FSDP_TAKE(at->kineto->reading->scratch, first, steps + 1);
	memset(first, 0xff, (steps + 1) * sizeof *first);
	for (uint32_t i = 0; i < at->count; i++) {
		const struct fsdp_kineto_row *note = note_at(at, i);
		size_t step = fsdp_kineto_step_at(at->kineto, note->ts_ns);
		if (!has(note, TRAIT(GATHERS)) || (steps != 0 && step >= steps))
			continue;
		uint32_t *one = &first[steps != 0 ? step : 0];
		if (*one == FSDP_NONE || note->ts_ns < note_at(at, *one)->ts_ns)
			*one = i;
	}
	for (size_t i = 0; i <= steps; i++)
		if (first[i] != FSDP_NONE)
			row_at(at, at->own[first[i]].row)->firsts++;
	find_around(at, TRAIT(GATHERS1), TRAIT(FORWARD1));
	add_issued(at, true, gathers);
	add_issued(at, false, TRAIT(REDUCES) | TRAIT(REDUCES1));
	/* Adds to each row what is exposed of those reductions after which nothing
	 * computes until the last one of their step begins: nothing can hide them. */
	struct reduction *list = at->reductions;
	size_t reductions = at->reduction_count;
	const struct reduction *last = NULL;
	bool overflow = false;
	FSDP_SORT(list, reductions, FSDP_BY(list, step), FSDP_BY(list, begin_ns));
	for (size_t i = reductions; i-- > 0;) {
		if (last == NULL || last->step != list[i].step)
			last = &list[i];
		if (last->begin_ns <= list[i].end_ns ||
			fsdp_computed(&at->kineto->reading->recording, list[i].end_ns,
				last->begin_ns) == 0)
			fsdp_sum_ns(&row_at(at, list[i].row)->reduces.exposed_last_ns,
				list[i].exposed_ns, &overflow);
	}
	/* Fills in the units of the recording, in order. */
	struct fsdp_trace_reading *reading = at->kineto->reading;
	struct fsdp_recording *recording = &reading->recording;
	struct fsdp_unit_times *rows = fsdp_trace_flat(reading, &at->rows);
	size_t row_count = at->rows.count;
	struct fsdp_step_list *by_step =
		FSDP_TAKE(reading->scratch, by_step, 2 * row_count);
	fsdp_time_sums_list(&at->sums, &reading->arena, by_step);
	for (size_t i = 0; i < row_count; i++) {
		rows[i].gathers.by_step = by_step[2 * i];
		rows[i].reduces.by_step = by_step[2 * i + 1];
	}
	if (row_count != 0)
		qsort(rows, row_count, sizeof *rows, compare_rows);
	recording->units = rows;
	recording->unit_count = row_count;
}

void fsdp_kineto_units_finish(struct fsdp_kineto *kineto)
{
	struct fsdp_vec *list = &kineto->tables[FSDP_KINETO_UNIT];
	struct fsdp_arena *arena = kineto->reading->scratch;
	size_t notes = 0, comms = kineto->comms.list.count;
	/* With --steps: annotations that do not begin in one of them do not count. */
	for (size_t i = 0; i < list->count; i++) {
		const struct fsdp_kineto_row *note = fsdp_vec_at(list, i);
		if (!kineto->limited ||
			fsdp_kineto_step_at(kineto, note->ts_ns) != SIZE_MAX)
			*(struct fsdp_kineto_row *)fsdp_vec_at(list, notes++) = *note;
	}
	fsdp_vec_truncate(list, notes);
	struct settling at = { .kineto = kineto,
		.count = notes,
		.device = kineto->reading->recording.layer == FSDP_LAYER_DEVICE,
		.own = FSDP_TAKE(arena, at.own, notes),
		.around = FSDP_TAKE(arena, at.around, notes),
		.inner = FSDP_TAKE(arena, at.inner, notes > comms ? notes : comms),
		.found = FSDP_TAKE(arena, at.found, notes),
		.issued = FSDP_TAKE(arena, at.issued, comms),
		.reductions = FSDP_TAKE(arena, at.reductions, comms) };
	fsdp_vec_init(&at.rows, arena, sizeof(struct fsdp_unit_times));
	fsdp_time_sums_init(&at.sums, arena);
	for (size_t i = 0; i < notes; i++)
		at.own[i] = (struct own){ FSDP_NONE, 0 };
	finish(&at);
}

/*
 * Finds the names of FSDP's units among the annotations of a trace.
 */

struct finding_names {
	struct fsdp_arena *arena;
	struct fsdp_names seen;
	struct fsdp_vec *names;
	struct fsdp_stream *stream;
	const struct fsdp_limits *limits;
	struct fsdp_json_scan scan;
	struct fsdp_error *error;
	bool good;
	unsigned seen_traits;
};

bool fsdp_trace_is_json(struct fsdp_span head)
{
	head = fsdp_trace_without_mark(head);
	if (head.size == 0 || (head.data[0] != '{' && head.data[0] != '['))
		return false;
	struct fsdp_span rest =
		fsdp_trace_without_mark(fsdp_span(head.data + 1, head.size - 1));
	if (head.data[0] == '[')
		return rest.size == 0 || rest.data[0] == '{' || rest.data[0] == ']';
	return rest.size == 0 || rest.data[0] == '"' || rest.data[0] == '}';
}

static void parse_text(struct finding_names *finding, const struct fsdp_json_token *token)
{
	struct fsdp_span text = token->span;
	if (!fsdp_span_begins(text, FSDP_SPAN("FSDP::")) &&
		!fsdp_span_begins(text, FSDP_SPAN("FullyShardedDataParallel.")))
		return;
	if (token->escaped)
		text = fsdp_json_text_copy(token, finding->arena);
	struct fsdp_kineto_unit_note note = fsdp_kineto_unit_read(text);
	finding->seen_traits |= note.traits;
	if ((note.traits & FSDP2) == 0 || note.traits == FSDP2)
		return;
	unsigned char *clean = fsdp_arena_take(finding->arena, note.unit.size + 1, 1);
	struct fsdp_span name =
		fsdp_span(clean, fsdp_kineto_unit_clean(note.unit, clean));
	size_t known = finding->seen.list.count;
	fsdp_names_child(&finding->seen, 0, name);
	if (finding->seen.list.count != known)
		fsdp_vec_append(finding->names, &name);
}

/* Up to the end, or to what is not JSON. */
static void scan_names(void *context)
{
	struct finding_names *finding = context;
	struct fsdp_json_token token;
	bool is_name = false, has_mark;
	fsdp_vec_init(finding->names, finding->arena, sizeof(struct fsdp_span));
	fsdp_names_init(&finding->seen, finding->arena);
	finding->good = fsdp_json_scan_init(&finding->scan, fsdp_stream_refill,
				finding->stream, finding->limits, &finding->error) &&
			fsdp_kineto_pass_mark(&finding->scan, &has_mark, &finding->error);
	finding->scan.lenient = true;
	while (finding->good &&
		(finding->good = fsdp_json_scan_next(
			 &finding->scan, &token, &finding->error)) &&
		token.kind != FSDP_SCAN_END && !fsdp_kineto_is_broken(&token)) {
		if (is_name && token.kind == FSDP_SCAN_TEXT)
			parse_text(finding, &token);
		is_name = token.kind == FSDP_SCAN_KEY &&
			  fsdp_json_text_is(&token, FSDP_SPAN("name"));
	}
}

bool fsdp_trace_unit_names(struct fsdp_stream *stream, const struct fsdp_limits *limits,
	struct fsdp_arena *arena, struct fsdp_vec *ret_names,
	struct fsdp_error **ret_error)
{
	struct finding_names finding = {
		.arena = arena, .names = ret_names, .stream = stream, .limits = limits
	};
	bool left = !fsdp_arena_try(arena, scan_names, &finding);
	fsdp_json_scan_done(&finding.scan);
	if (left)
		return fsdp_arena_fail(arena, ret_error);
	if (!finding.good)
		return fsdp_fail_with(ret_error, finding.error);
	unsigned seen = finding.seen_traits;
	if ((seen & TRAIT(GATHERS)) != 0)
		return true;
	fsdp_fail_rule(ret_error, FSDP_ERROR_UNSUPPORTED, "FI9002", FSDP_UNKNOWN, "%s",
		(seen & FSDP2) != 0
			? "the units in this trace have no names: PyTorch writes them since 2.5"
		: (seen & FSDP1) != 0 ? "FSDP1 writes no names of units into traces"
				      : "no annotation of FSDP is in this trace");
	fsdp_error_add_kind(ret_error, "no_units");
	return fsdp_error_add_hint(ret_error,
		"give a log in which the model was printed, or export a plan: fsdp-inspect help plan");
}
