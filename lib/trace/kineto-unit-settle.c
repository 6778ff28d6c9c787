/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers and reductions of FSDP, and which unit each collective was for.
 */
#include <stdio.h>
#include <stdlib.h>

#include "trace/durations.h"
#include "trace/enclosing.h"
#include "trace/kineto-unit-ends.h"
#include "trace/kineto-units.h"
#include "trace/types.h"

/* While collectives are put to units. What each annotation stands for is in `own`. */
struct settling {
	struct fsdp_kineto_units *units;
	const struct fsdp_collectives *all;
	const struct fsdp_kineto_place *places;
	const struct fsdp_kineto_steps *steps;
	bool device;
	struct fsdp_kineto_unit_rows rows;
	struct own {
		uint32_t row;    /* FSDP_NONE: none */
		uint32_t number; /* of an FSDP1 forward: its place, from 0 */
	} * own;
	struct fsdp_enclosed *around, *inner;
	uint32_t *found;
	int64_t *exposed;
	struct fsdp_kineto_unit_reduction *reductions;
	size_t reduction_count;
};

static const struct fsdp_kineto_unit_span *note_at(
	const struct fsdp_kineto_units *units, size_t index)
{
	return fsdp_vec_at(&units->notes, index);
}

static bool is_named(const struct fsdp_kineto_units *units)
{
	return units->seen[FSDP_UNIT_ALL_GATHER];
}

static bool is_fsdp2(const struct fsdp_kineto_units *units)
{
	for (int kind = FSDP_UNIT_ALL_GATHER; kind <= FSDP_UNIT_STATION; kind++)
		if (units->seen[kind])
			return true;
	return false;
}

/* Kinds in which a gather or a reduction can be issued, and which tell the phase. */
#define BIT(kind) (UINT32_C(1) << (kind))
static const uint32_t TURNS =
	BIT(FSDP_UNIT_PRE_FORWARD) | BIT(FSDP_UNIT_FORWARD_PREFETCH) |
	BIT(FSDP_UNIT_PRE_BACKWARD) | BIT(FSDP_UNIT_BACKWARD_PREFETCH);
static const uint32_t GATHERS_OF_FSDP1 =
	BIT(FSDP_UNIT1_PRE_FORWARD) | BIT(FSDP_UNIT1_PRE_FORWARD_PREFETCH) |
	BIT(FSDP_UNIT1_PRE_BACKWARD) | BIT(FSDP_UNIT1_PRE_BACKWARD_PREFETCH) |
	BIT(FSDP_UNIT1_POST_BACKWARD_PREFETCH);
static const uint32_t REDUCTIONS =
	BIT(FSDP_UNIT_POST_BACKWARD_REDUCE) | BIT(FSDP_UNIT1_POST_BACKWARD);

static bool is_prefetch(unsigned kind)
{
	return kind == FSDP_UNIT_FORWARD_PREFETCH ||
	       kind == FSDP_UNIT_BACKWARD_PREFETCH ||
	       kind == FSDP_UNIT1_PRE_FORWARD_PREFETCH ||
	       kind == FSDP_UNIT1_PRE_BACKWARD_PREFETCH ||
	       kind == FSDP_UNIT1_POST_BACKWARD_PREFETCH;
}

static bool is_forward(unsigned kind)
{
	return kind == FSDP_UNIT_PRE_FORWARD || kind == FSDP_UNIT_FORWARD_PREFETCH ||
	       kind == FSDP_UNIT1_PRE_FORWARD || kind == FSDP_UNIT1_PRE_FORWARD_PREFETCH;
}

static enum fsdp_unit_phase phase_of(unsigned kind)
{
	return is_forward(kind) ? FSDP_PHASE_FORWARD : FSDP_PHASE_BACKWARD;
}

/* The annotations of some kinds, by thread or by process. */
static size_t list_around(struct settling *at, uint32_t kinds, bool by_process)
{
	size_t count = 0;
	for (size_t i = 0; i < at->units->notes.count; i++) {
		const struct fsdp_kineto_unit_span *note = note_at(at->units, i);
		if ((kinds >> note->kind & 1) == 0)
			continue;
		at->around[count++] = (struct fsdp_enclosed){ note->ts_ns,
			note->ts_ns + note->dur_ns,
			by_process ? fsdp_kineto_units_process(at->units, note->thread)
				   : note->thread,
			(uint32_t)i };
	}
	return count;
}

/* For each annotation of some kinds the innermost one of others around it. */
static bool find_around(struct settling *at, uint32_t inner, uint32_t around)
{
	size_t count = list_around(at, inner, false);
	memcpy(at->inner, at->around, count * sizeof *at->inner);
	return fsdp_enclosing_find(
		at->around, list_around(at, around, false), at->inner, count, at->found);
}

/* ---- FSDP1: the units of one outermost forward, in order of start ---- */

static int compare_forwards(const void *a, const void *b)
{
	const struct fsdp_enclosed *left = a, *right = b;
	if (left->lane != right->lane)
		return left->lane < right->lane ? -1 : 1;
	if (left->begin != right->begin)
		return left->begin < right->begin ? -1 : 1;
	if (left->end != right->end)
		return left->end > right->end ? -1 : 1;
	return left->index < right->index ? -1 : left->index > right->index;
}

static void number_forwards(struct settling *at)
{
	size_t count = list_around(at, BIT(FSDP_UNIT1_FORWARD), false);
	const struct fsdp_enclosed *root = NULL;
	uint32_t number = 0;
	if (count != 0)
		qsort(at->around, count, sizeof *at->around, compare_forwards);
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_enclosed *one = &at->around[i];
		if (root == NULL || root->lane != one->lane || one->begin >= root->end) {
			root = one;
			number = 0;
		}
		at->own[one->index].number = number++;
	}
}

/* "#k" as a word. */
static bool find_number(struct settling *at, uint32_t number, uint32_t *ret_unit)
{
	char text[16];
	int size = snprintf(text, sizeof text, "#%u", (unsigned)number);
	return fsdp_kineto_words_find(at->units->words, FSDP_KINETO_UNITS,
		       fsdp_span(text, (size_t)size), ret_unit) != NULL;
}

/* A gather in the forward is for the unit whose forward it lies in, or the next one. */
static bool place_fsdp1(struct settling *at, size_t index)
{
	const struct fsdp_kineto_unit_span *note = note_at(at->units, index);
	struct fsdp_unit_key key = { FSDP_NONE, phase_of(note->kind), FSDP_ABSENT };
	uint32_t forward = is_forward(note->kind) ? at->found[index] : FSDP_NONE;
	if (forward != FSDP_NONE &&
		!find_number(
			at, at->own[forward].number + is_prefetch(note->kind), &key.unit))
		return false;
	return fsdp_kineto_unit_rows_find(&at->rows, key, &at->own[index].row);
}

/* ---- what is counted by annotations ---- */

/* The phase of a gather of FSDP2, and whether it was asked for ahead of its turn. */
static bool place_gather(struct settling *at, size_t index)
{
	const struct fsdp_kineto_unit_span *note = note_at(at->units, index), *turn;
	struct fsdp_unit_key key = { note->unit, FSDP_PHASE_NONE, note->pg };
	bool ahead = false;
	if (at->found[index] != FSDP_NONE) {
		turn = note_at(at->units, at->found[index]);
		key.phase = phase_of(turn->kind);
		ahead = is_prefetch(turn->kind) || turn->unit != note->unit ||
			turn->pg != note->pg;
	}
	if (!fsdp_kineto_unit_rows_find(&at->rows, key, &at->own[index].row))
		return false;
	struct fsdp_unit_times *row = fsdp_kineto_unit_row(&at->rows, at->own[index].row);
	row->gathers.count++;
	row->prefetched += ahead;
	return true;
}

/* The row of a station. Before PyTorch 2.5 it is the same for all units. */
static bool place_station(struct settling *at, size_t index)
{
	const struct fsdp_kineto_unit_span *note = note_at(at->units, index);
	struct fsdp_unit_key key = { note->unit, FSDP_PHASE_BACKWARD, note->pg };
	if (note->kind == FSDP_UNIT_PRE_FORWARD || note->kind == FSDP_UNIT1_FORWARD)
		key.phase = FSDP_PHASE_FORWARD;
	if (note->kind == FSDP_UNIT1_FORWARD) {
		if (!find_number(at, at->own[index].number, &key.unit))
			return false;
	} else if (note->kind == FSDP_UNIT1_RESHARD_ONLY || !is_named(at->units)) {
		key.unit = FSDP_NONE;
	}
	return fsdp_kineto_unit_rows_find(&at->rows, key, &at->own[index].row);
}

static bool count_station(struct settling *at, size_t index)
{
	unsigned kind = note_at(at->units, index)->kind;
	if (kind == FSDP_UNIT_ALL_GATHER)
		return place_gather(at, index);
	if ((GATHERS_OF_FSDP1 >> kind & 1) != 0 || kind == FSDP_UNIT1_POST_BACKWARD)
		return true;
	if ((TURNS >> kind & 1) != 0 && kind != FSDP_UNIT_PRE_FORWARD)
		return true;
	if (!place_station(at, index))
		return false;
	struct fsdp_unit_times *row = fsdp_kineto_unit_row(&at->rows, at->own[index].row);
	row->forwards += kind == FSDP_UNIT_PRE_FORWARD || kind == FSDP_UNIT1_FORWARD;
	row->reduces.count += kind == FSDP_UNIT_POST_BACKWARD_REDUCE;
	row->reshards += kind == FSDP_UNIT_POST_BACKWARD_RESHARD ||
			 kind == FSDP_UNIT1_RESHARD_ONLY;
	return true;
}

static bool count_stations(struct settling *at)
{
	bool good = find_around(at, BIT(FSDP_UNIT_ALL_GATHER), TURNS);
	for (size_t i = 0; good && i < at->units->notes.count; i++)
		good = count_station(at, i);
	return good;
}

/* Of each step, or of a trace without steps, the gather that was asked for first. */
static bool count_firsts(struct settling *at)
{
	size_t steps = at->steps->list.count;
	uint32_t *first = malloc((steps + 1) * sizeof *first);
	if (first == NULL)
		return false;
	for (size_t i = 0; i <= steps; i++)
		first[i] = FSDP_NONE;
	for (uint32_t i = 0; i < at->units->notes.count; i++) {
		const struct fsdp_kineto_unit_span *note = note_at(at->units, i);
		size_t step = fsdp_kineto_steps_index_at(at->steps, note->ts_ns);
		if (note->kind != FSDP_UNIT_ALL_GATHER || (steps != 0 && step >= steps))
			continue;
		uint32_t *one = &first[steps != 0 ? step : 0];
		if (*one == FSDP_NONE || note->ts_ns < note_at(at->units, *one)->ts_ns)
			*one = i;
	}
	for (size_t i = 0; i <= steps; i++)
		if (first[i] != FSDP_NONE)
			fsdp_kineto_unit_row(&at->rows, at->own[first[i]].row)->firsts++;
	free(first);
	return true;
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

/* The annotation that each collective of a sort was issued in, to `found`. */
static bool find_issued(struct settling *at, bool gathers, uint32_t kinds)
{
	const struct fsdp_vec *list = &at->all->list;
	size_t count = 0;
	for (size_t i = 0; i < list->count; i++) {
		const struct fsdp_comm *comm = fsdp_comm_at(list, i);
		const struct fsdp_kineto_place *place = &at->places[comm->order];
		at->found[i] = FSDP_NONE;
		if (place->lane != 0 && (gathers ? is_gather(comm) : is_reduction(comm)))
			at->inner[count++] = fsdp_enclosed_moment(
				place->ts_ns, place->lane, (uint32_t)i);
	}
	return fsdp_enclosing_find(at->around, list_around(at, kinds, !at->device),
		at->inner, count, at->found);
}

/* The row of a collective that was issued in an annotation; the kinds that are gathers or
 * reductions themselves were counted before. */
static bool row_of_issued(
	struct settling *at, uint32_t index, bool gathers, uint32_t *ret_row)
{
	const struct fsdp_kineto_unit_span *note = note_at(at->units, index);
	bool counted = note->kind == FSDP_UNIT_ALL_GATHER ||
		       note->kind == FSDP_UNIT_POST_BACKWARD_REDUCE;
	bool turn = (TURNS >> note->kind & 1) != 0;
	struct fsdp_unit_key key = { FSDP_NONE, phase_of(note->kind), FSDP_ABSENT };
	*ret_row = at->own[index].row;
	if (counted)
		return true;
	if (turn || note->kind == FSDP_UNIT1_POST_BACKWARD
			? !fsdp_kineto_unit_rows_find(&at->rows, key, ret_row)
			: !place_fsdp1(at, index))
		return false;
	if (!turn && note->kind != FSDP_UNIT1_POST_BACKWARD)
		*ret_row = at->own[index].row;
	struct fsdp_unit_times *row = fsdp_kineto_unit_row(&at->rows, *ret_row);
	row->gathers.count += gathers;
	row->reduces.count += !gathers;
	row->prefetched += gathers && is_prefetch(note->kind);
	return true;
}

static bool add_collective(
	struct settling *at, size_t i, uint32_t stream, uint32_t row_index)
{
	const struct fsdp_comm *comm = fsdp_comm_at(&at->all->list, i);
	const struct fsdp_comm_sort *sort = fsdp_vec_at(&at->all->sorts, comm->sort);
	struct fsdp_unit_times *row = fsdp_kineto_unit_row(&at->rows, row_index);
	struct fsdp_unit_collectives *sum =
		is_gather(comm) ? &row->gathers : &row->reduces;
	bool overflow = false;
	sum->kernels++;
	fsdp_sum_ns(&sum->ns, comm->dur_ns, &overflow);
	if (at->units->by_step &&
		!fsdp_step_sums_add(
			is_gather(comm) ? &at->rows.gathers : &at->rows.reduces,
			row_index, fsdp_kineto_steps_number_at(at->steps, comm->host_ns),
			comm->dur_ns, at->device ? at->exposed[i] : FSDP_ABSENT))
		return false;
	if (!at->device)
		return true;
	fsdp_sum_ns(&sum->exposed_ns, at->exposed[i], &overflow);
	if (is_reduction(comm))
		at->reductions[at->reduction_count++] =
			(struct fsdp_kineto_unit_reduction){ comm->ts_ns,
				comm->ts_ns + comm->dur_ns, at->exposed[i],
				fsdp_kineto_steps_index_at(at->steps, comm->host_ns),
				row_index };
	uint32_t thread = *(uint32_t *)fsdp_vec_at(&at->units->streams, comm->order);
	sum->on_compute_stream += stream != 0 && stream == thread;
	struct fsdp_span group =
		sort->description.size != 0 ? sort->description : sort->group;
	return (group.size == 0 ||
		       fsdp_kineto_unit_rows_group(&at->rows, row_index, group)) &&
	       fsdp_kineto_unit_rows_stream(&at->rows, row_index, thread);
}

static void leave(struct fsdp_unassigned *rest, const struct fsdp_comm *comm)
{
	bool overflow = false;
	rest->gathers += is_gather(comm);
	rest->reduces += is_reduction(comm);
	if (is_gather(comm))
		fsdp_sum_ns(&rest->gather_ns, comm->dur_ns, &overflow);
	if (is_reduction(comm))
		fsdp_sum_ns(&rest->reduce_ns, comm->dur_ns, &overflow);
}

/* That which computes longest; 0: none. */
static uint32_t compute_stream(const struct fsdp_kineto_units *units)
{
	uint32_t best = 0;
	int64_t most = 0;
	for (size_t i = 0; i < units->compute_ns.count; i++) {
		int64_t ns = *(int64_t *)fsdp_vec_at(&units->compute_ns, i);
		if (ns > most) {
			most = ns;
			best = (uint32_t)i;
		}
	}
	return best;
}

static bool count_collectives(
	struct settling *at, bool gathers, uint32_t kinds, struct fsdp_unassigned *rest)
{
	uint32_t stream = compute_stream(at->units), row;
	uint32_t *issued = at->found + at->units->notes.count;
	struct settling behind = *at;
	behind.found = issued;
	if (!find_issued(&behind, gathers, kinds))
		return false;
	for (size_t i = 0; i < at->all->list.count; i++) {
		const struct fsdp_comm *comm = fsdp_comm_at(&at->all->list, i);
		if (gathers ? !is_gather(comm) : !is_reduction(comm))
			continue;
		if (issued[i] == FSDP_NONE)
			leave(rest, comm);
		else if (!row_of_issued(at, issued[i], gathers, &row) ||
			 !add_collective(at, i, stream, row))
			return false;
	}
	return true;
}

/* ---- all of it ---- */

/* How long each kernel ran while nothing computed. */
static bool find_exposed(struct settling *at, const struct fsdp_kineto_busy *busy)
{
	size_t count = at->all->list.count;
	struct fsdp_interval *pieces = malloc((count + 1) * sizeof *pieces);
	if (pieces == NULL)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_comm *comm = fsdp_comm_at(&at->all->list, i);
		pieces[i] =
			(struct fsdp_interval){ comm->ts_ns, comm->ts_ns + comm->dur_ns };
	}
	bool good = fsdp_kineto_busy_cover(
		busy, 1 << FSDP_KINETO_COMPUTE, pieces, count, at->exposed);
	for (size_t i = 0; good && i < count; i++)
		at->exposed[i] = pieces[i].end - pieces[i].begin - at->exposed[i];
	free(pieces);
	return good;
}

static bool settle(struct settling *at, const struct fsdp_kineto_busy *busy,
	struct fsdp_recording *recording)
{
	uint32_t gathers = BIT(FSDP_UNIT_ALL_GATHER) |
			   BIT(FSDP_UNIT_POST_BACKWARD_REDUCE) | GATHERS_OF_FSDP1;
	if (!is_named(at->units))
		gathers |= TURNS;
	if (at->device && !find_exposed(at, busy))
		return false;
	number_forwards(at);
	if (!count_stations(at) || !count_firsts(at) ||
		!find_around(at, GATHERS_OF_FSDP1, BIT(FSDP_UNIT1_FORWARD)))
		return false;
	recording->units_from = is_named(at->units)                ? FSDP_UNITS_NAMED
				: is_fsdp2(at->units)              ? FSDP_UNITS_OLD
				: fsdp_kineto_units_any(at->units) ? FSDP_UNITS_FSDP1
								   : FSDP_UNITS_ABSENT;
	return count_collectives(at, true, gathers, &recording->unassigned) &&
	       count_collectives(at, false, REDUCTIONS, &recording->unassigned) &&
	       (!at->device || fsdp_kineto_unit_ends_add(&at->rows, busy, at->reductions,
				       at->reduction_count)) &&
	       fsdp_kineto_unit_rows_list(&at->rows, recording);
}

bool fsdp_kineto_units_settle(struct fsdp_kineto_units *units,
	const struct fsdp_collectives *all, const struct fsdp_kineto_place *places,
	const struct fsdp_kineto_busy *busy, const struct fsdp_kineto_steps *steps,
	struct fsdp_recording *recording)
{
	size_t notes = units->notes.count, comms = all->list.count;
	size_t most = notes > comms ? notes : comms;
	struct settling at = { .units = units,
		.all = all,
		.places = places,
		.steps = steps,
		.device = busy != NULL,
		.own = malloc((notes + 1) * sizeof *at.own),
		.around = malloc((notes + 1) * sizeof *at.around),
		.inner = malloc((most + 1) * sizeof *at.inner),
		.found = malloc((notes + comms + 1) * sizeof *at.found),
		.exposed = malloc((comms + 1) * sizeof *at.exposed),
		.reductions = malloc((comms + 1) * sizeof *at.reductions) };
	bool good = at.own != NULL && at.around != NULL && at.inner != NULL &&
		    at.found != NULL && at.exposed != NULL && at.reductions != NULL;
	fsdp_kineto_unit_rows_init(&at.rows, units->words, units->notes.arena, at.device);
	for (size_t i = 0; good && i < notes; i++)
		at.own[i] = (struct own){ FSDP_NONE, 0 };
	good = good && settle(&at, busy, recording);
	free(at.own);
	free(at.around);
	free(at.inner);
	free(at.found);
	free(at.exposed);
	free(at.reductions);
	return good;
}
