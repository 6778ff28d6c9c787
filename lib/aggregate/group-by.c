/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of a run: what is added up of all that has one key, over ranks and steps. A
 * comparison adds up the same by step, before and now.
 */
#include <stdlib.h>
#include <string.h>

#include <fsdp/trace.h>

#include "base/sort.h"

/* Sums of times that 64 bits do not hold. */
__extension__ typedef __int128 wide;

static const char *const TABLES[FSDP_ROWS_OF_COUNT] = { "step", "type", "rank", "region",
	"collective", "unit", "group", "kernel", "idle", "idle_cause" };

const char *fsdp_row_table_name(enum fsdp_row_table table)
{
	return (unsigned)table < FSDP_ROWS_OF_COUNT ? TABLES[table] : NULL;
}

/* ---- rows of one key ---- */

static int compare_numbers(int64_t a, int64_t b)
{
	return a < b ? -1 : a > b;
}

/* Absent names come before empty names. */
static int compare_names(struct fsdp_span a, struct fsdp_span b)
{
	int order = (a.data != NULL) - (b.data != NULL);
	return order != 0 ? order : fsdp_span_compare(a, b);
}

static int compare_words(const char *a, const char *b)
{
	return strcmp(a != NULL ? a : "", b != NULL ? b : "");
}

static int compare_keys(const struct fsdp_row_key *a, const struct fsdp_row_key *b)
{
	const int64_t numbers[][2] = { { a->kind, b->kind }, { a->computes, b->computes },
		{ a->bytes, b->bytes }, { a->size, b->size }, { a->rank, b->rank },
		{ a->nth, b->nth } };
	int order = compare_numbers(a->table, b->table);
	if (order == 0)
		order = compare_names(a->name, b->name);
	if (order == 0)
		order = compare_names(a->type, b->type);
	if (order == 0)
		order = compare_words(a->phase, b->phase);
	for (size_t i = 0; order == 0 && i < sizeof numbers / sizeof *numbers; i++)
		order = compare_numbers(numbers[i][0], numbers[i][1]);
	return order != 0 ? order : compare_words(a->measure, b->measure);
}

static int compare_rows(const void *a, const void *b)
{
	const struct fsdp_row *left = a, *right = b;
	int order = compare_keys(&left->key, &right->key);
	return order != 0
		       ? order
		       : (left->sample > right->sample) - (left->sample < right->sample);
}

/* Longest times first. */
static int compare_times(const void *a, const void *b)
{
	const struct fsdp_row *left = a, *right = b;
	int order = compare_numbers(right->ns, left->ns);
	return order != 0 ? order : compare_rows(a, b);
}

static void sort(struct fsdp_row_list *rows, size_t first,
	int (*compare)(const void *, const void *))
{
	if (rows->count > first + 1)
		qsort(rows->items + first, rows->count - first, sizeof *rows->items,
			compare);
}

static void sum(int64_t *ns, int64_t more)
{
	if (*ns == FSDP_ABSENT || more == FSDP_ABSENT)
		*ns = FSDP_ABSENT;
	else if (__builtin_add_overflow(*ns, more, ns))
		*ns = INT64_MAX;
}

static void add_up(struct fsdp_row *to, const struct fsdp_row *more)
{
	to->count += more->count;
	to->on_compute_stream += more->on_compute_stream;
	sum(&to->ns, more->ns);
	sum(&to->exposed_ns, more->exposed_ns);
	if (more->longest_ns > to->longest_ns)
		to->longest_ns = more->longest_ns;
	if (more->share >= 0)
		to->share = more->share + (to->share > 0 ? to->share : 0);
}

/* ---- facts and steps of all ranks ---- */

static uint64_t count_spans(const struct fsdp_recording *one, const char *categories)
{
	uint64_t count = 0;
	for (size_t i = 0; i < one->category_count; i++)
		if (fsdp_span_is_any(one->categories[i].name, categories))
			count += one->categories[i].count;
	return count;
}

struct fsdp_totals fsdp_recordings_totals(const struct fsdp_recordings *recordings)
{
	struct fsdp_totals all = { .world_size = FSDP_ABSENT };
	struct fsdp_time_without_unit *rest = &all.unassigned;
	for (size_t i = 0; i < fsdp_recording_count(recordings); i++) {
		const struct fsdp_recording *one = fsdp_recording_by_rank(recordings, i);
		bool is_trace = one->kind == FSDP_RECORDING_KINETO;
		all.step_count += one->step_count;
		all.events += one->events;
		all.dropped += one->dropped;
		all.bare += count_spans(one, "None");
		all.dumps += one->dump_count;
		if (all.world_size == FSDP_ABSENT)
			all.world_size = one->world_size;
		if (one->layer > all.layer)
			all.layer = one->layer;
		for (size_t k = 0; k < FSDP_BY_COUNT; k++) {
			all.collectives += one->resolution[k];
			all.resolution[k] += one->resolution[k];
		}
		all.has_device |= one->has_device;
		all.has_traces |= is_trace;
		all.has_times |=
			is_trace
				? one->layer != FSDP_LAYER_NONE || one->has_device ||
					  count_spans(one, "cpu_op Operator") != 0
				: one->dump_count + one->type_count + one->problem_count +
						  one->bad_line_count !=
					  0;
		rest->gathers += one->unassigned.gathers;
		rest->reduces += one->unassigned.reduces;
		sum(&rest->gather_ns, one->unassigned.gather_ns);
		sum(&rest->reduce_ns, one->unassigned.reduce_ns);
	}
	return all;
}

/* Sums over ranks as means; of what no device has there is none. */
static void divide_step(struct fsdp_step_cost *step)
{
	int64_t *const parts[] = { &step->comm_ns, &step->exposed_ns, &step->compute_ns,
		&step->idle_ns };
	step->mean_ns /= (int64_t)step->ranks;
	if (step->exposed_ns == FSDP_ABSENT)
		step->comm_ns = FSDP_ABSENT;
	for (size_t i = 0; i < FSDP_COUNT(parts); i++) {
		if (step->devices == 0)
			*parts[i] = FSDP_ABSENT;
		else if (*parts[i] != FSDP_ABSENT)
			*parts[i] /= (int64_t)step->devices;
	}
}

bool fsdp_recordings_steps(const struct fsdp_recordings *recordings,
	struct fsdp_step_cost **ret_steps, size_t *ret_count)
{
	size_t room = fsdp_recordings_totals(recordings).step_count + 1, count = 0,
	       kept = 0;
	struct fsdp_step_cost *list = calloc(room, sizeof *list);
	for (size_t i = 0; list != NULL && i < fsdp_recording_count(recordings); i++) {
		const struct fsdp_recording *one = fsdp_recording_by_rank(recordings, i);
		FSDP_EACH(k, one->step_count, step, &one->steps[k]) {
			const struct fsdp_device_times *device = &step->device;
			list[count] = (struct fsdp_step_cost){ one->run, step->step, 1,
				step->has_device, step->dur_ns, step->dur_ns, one->rank };
			if (step->has_device) {
				list[count].comm_ns = device->comm_busy_ns;
				list[count].exposed_ns = device->exposed_ns;
				list[count].compute_ns = device->compute_busy_ns;
				list[count].idle_ns = step->idle_ns;
			}
			count++;
		}
	}
	FSDP_SORT(list, count, FSDP_BY(list, run), FSDP_BY(list, step),
		FSDP_BY(list, max_rank));
	FSDP_EACH(i, count, more, &list[i]) {
		struct fsdp_step_cost *to = &list[kept];
		if (kept == 0 || to[-1].run != more->run || to[-1].step != more->step) {
			*to = *more;
			kept++;
			continue;
		}
		to--;
		if (more->max_ns > to->max_ns) {
			to->max_ns = more->max_ns;
			to->max_rank = more->max_rank;
		}
		to->ranks += more->ranks;
		to->devices += more->devices;
		sum(&to->mean_ns, more->mean_ns);
		sum(&to->comm_ns, more->comm_ns);
		sum(&to->exposed_ns, more->exposed_ns);
		sum(&to->compute_ns, more->compute_ns);
		sum(&to->idle_ns, more->idle_ns);
	}
	for (size_t i = 0; i < kept; i++)
		divide_step(&list[i]);
	*ret_steps = list;
	*ret_count = kept;
	return list != NULL;
}

/* Adds up rows from `first` on that have one key. */
static void fold(struct fsdp_row_list *rows, size_t first)
{
	size_t kept = first;
	sort(rows, first, compare_rows);
	for (size_t i = first; i < rows->count; i++) {
		if (kept != first &&
			compare_rows(&rows->items[kept - 1], &rows->items[i]) == 0)
			add_up(&rows->items[kept - 1], &rows->items[i]);
		else
			rows->items[kept++] = rows->items[i];
	}
	rows->count = kept;
}

/* ---- what recordings have for a table ---- */

/* A step of a run, or a run without steps. */
struct sample {
	bool now;
	uint64_t run;
	int64_t step; /* FSDP_ABSENT: the run */
	uint64_t ranks;
};

struct collector {
	struct fsdp_row_list rows;
	size_t room;
	bool failed; /* out of memory */

	/* of a comparison: by side, run and step; else NULL */
	struct sample *samples;
	size_t sample_count;
	bool now;
	uint64_t run;
	bool has_steps; /* the run */
};

static int compare_samples(const void *a, const void *b)
{
	const struct sample *left = a, *right = b;
	int order = left->now - right->now;
	if (order == 0)
		order = (left->run > right->run) - (left->run < right->run);
	return order != 0 ? order : compare_numbers(left->step, right->step);
}

/* Then by rank, which `ranks` has until it is counted. */
static int compare_ranks(const void *a, const void *b)
{
	const struct sample *left = a, *right = b;
	int order = compare_samples(a, b);
	return order != 0 ? order
			  : (left->ranks > right->ranks) - (left->ranks < right->ranks);
}

static struct fsdp_row new_row(
	enum fsdp_row_table table, const char *measure, struct fsdp_span name)
{
	return (struct fsdp_row){ .key = { .table = table,
					  .measure = measure,
					  .name = name,
					  .bytes = FSDP_ABSENT,
					  .size = FSDP_ABSENT,
					  .rank = FSDP_ABSENT,
					  .nth = FSDP_ABSENT },
		.share = -1 };
}

/* The same row with these values, as another measure. */
static void add_values(struct collector *at, struct fsdp_row row, const char *measure,
	int64_t step, uint64_t count, int64_t ns)
{
	row.key.measure = measure;
	row.count = count;
	row.ns = ns;
	/* Of a comparison what is of a step, or of a run without steps; else all. */
	if (at->samples != NULL) {
		const struct sample like = { at->now, at->run, step, 0 };
		const struct sample *sample = bsearch(&like, at->samples,
			at->sample_count, sizeof like, compare_samples);
		if (sample == NULL || row.ns == FSDP_ABSENT)
			return;
		row.sample = (size_t)(sample - at->samples);
	}
	if (at->rows.count == at->room && !at->failed) {
		size_t room = at->room * 2 + 64;
		struct fsdp_row *more =
			reallocarray(at->rows.items, room, sizeof *at->rows.items);
		at->failed = more == NULL;
		if (more != NULL) {
			at->rows.items = more;
			at->room = room;
		}
	}
	if (!at->failed)
		at->rows.items[at->rows.count++] = row;
}

/* The parts of a step or, without steps, of a recording. device NULL: not known. */
static void add_parts(struct collector *at, struct fsdp_row row, int64_t step,
	int64_t length_ns, const struct fsdp_device_times *device)
{
	add_values(at, row, "length", step, 1, length_ns);
	if (device == NULL)
		return;
	add_values(at, row, "compute", step, 1, device->compute_busy_ns);
	add_values(at, row, "communication", step, 1, device->comm_busy_ns);
	add_values(at, row, "exposed", step, 1, device->exposed_ns);
	add_values(at, row, "copies", step, 1, device->mem_busy_ns);
	add_values(at, row, "idle", step, 1, device->idle_ns);
}

/* Of all ranks together, or of each. */
static void add_steps(
	struct collector *at, const struct fsdp_recording *one, enum fsdp_row_table table)
{
	struct fsdp_row row = new_row(table, NULL, (struct fsdp_span){ 0 });
	const struct fsdp_type_times *all =
		fsdp_type_find(one->types, one->type_count, FSDP_SPAN("all"));
	int64_t length_ns = FSDP_ABSENT;
	if (table == FSDP_ROWS_OF_RANK)
		row.key.rank = one->rank;
	for (size_t i = 0; i < one->step_count; i++)
		add_parts(at, row, one->steps[i].step, one->steps[i].dur_ns,
			one->steps[i].has_device ? &one->steps[i].device : NULL);
	if (table != FSDP_ROWS_OF_RANK || at->has_steps)
		return;
	if (all != NULL)
		length_ns = all->times.sum_ns;
	add_parts(at, row, FSDP_ABSENT, length_ns, one->has_device ? &one->device : NULL);
}

static void add_type(struct collector *at, enum fsdp_row_table table,
	struct fsdp_span name, int64_t step, uint64_t count, int64_t ns)
{
	if (table == FSDP_ROWS_OF_TYPE || fsdp_type_is_region(name))
		add_values(at, new_row(table, NULL, name), "time", step, count, ns);
}

/* Exposed: also what of it nothing hides; NULL: that is not asked. */
static void add_list(struct collector *at, struct fsdp_row row, const char *measure,
	const char *exposed, const struct fsdp_step_list *list)
{
	FSDP_EACH(i, list->count, one, &list->times[i]) {
		add_values(at, row, measure, one->step, one->count, one->ns);
		if (exposed != NULL)
			add_values(
				at, row, exposed, one->step, one->count, one->exposed_ns);
	}
}

/* A collective and its index. */
struct call {
	struct fsdp_collective call;
	size_t index;
};

/* By step, group and type: those of two types may run side by side, in any order. */
static int compare_places(const struct call *a, const struct call *b)
{
	int order = compare_numbers(a->call.step, b->call.step);
	if (order == 0)
		order = compare_names(a->call.group, b->call.group);
	return order != 0 ? order : compare_names(a->call.type, b->call.type);
}

static int compare_calls(const void *a, const void *b)
{
	const struct call *left = a, *right = b;
	int order = compare_places(left, right);
	return order != 0 ? order : left->index < right->index ? -1 : 1;
}

/* All of a group, type and size together, or each by its place in the step. */
static void add_calls(
	struct collector *at, const struct fsdp_recording *one, enum fsdp_row_table table)
{
	size_t count = one->collective_count;
	struct call *calls = calloc(count + 1, sizeof *calls);
	int64_t nth = 0;
	at->failed |= calls == NULL;
	for (size_t i = 0; !at->failed && i < count; i++) {
		fsdp_recording_collective(one, i, &calls[i].call);
		calls[i].index = i;
	}
	if (!at->failed && count > 1 && table == FSDP_ROWS_OF_COLLECTIVE)
		qsort(calls, count, sizeof *calls, compare_calls);
	for (size_t i = 0; !at->failed && i < count; i++) {
		const struct fsdp_collective *call = &calls[i].call;
		struct fsdp_row row = new_row(table, NULL, call->group);
		nth = i != 0 && compare_places(&calls[i - 1], &calls[i]) == 0 ? nth + 1
									      : 1;
		row.key.type = call->type;
		row.key.bytes = call->bytes;
		if (table == FSDP_ROWS_OF_COLLECTIVE)
			row.key.nth = nth;
		if (at->samples == NULL)
			row.key.size = call->group_size;
		row.exposed_ns = call->exposed_ns;
		add_values(at, row, "time", call->step, 1, call->dur_ns);
	}
	free(calls);
}

/* By cause, and by what ends the gaps or by rank. */
static void add_idles(
	struct collector *at, const struct fsdp_recording *one, enum fsdp_row_table table)
{
	for (unsigned i = 0; at->samples != NULL && i < FSDP_IDLE_CAUSE_COUNT; i++)
		add_list(at,
			new_row(table, NULL,
				fsdp_span_text(
					fsdp_idle_cause_name((enum fsdp_idle_cause)i))),
			"time", NULL, &one->idle_by_step[i]);
	for (size_t i = 0; at->samples == NULL && i < one->idle_count; i++) {
		const struct fsdp_idle_time *idle = &one->idles[i];
		struct fsdp_row row = new_row(table, NULL, idle->kernel);
		row.key.kind = idle->cause;
		row.longest_ns = idle->longest_ns;
		if (table == FSDP_ROWS_OF_IDLE_CAUSE) {
			row.key.name = (struct fsdp_span){ 0 };
			row.key.rank = one->rank;
		}
		add_values(at, row, "time", FSDP_ABSENT, idle->gaps, idle->ns);
	}
}

static void add_recording(
	struct collector *at, const struct fsdp_recording *one, enum fsdp_row_table table)
{
	switch (table) {
	case FSDP_ROWS_OF_STEP:
	case FSDP_ROWS_OF_RANK:
		add_steps(at, one, table);
		break;
	case FSDP_ROWS_OF_TYPE:
	case FSDP_ROWS_OF_REGION:
		for (size_t i = 0; !at->has_steps && i < one->type_count; i++)
			add_type(at, table, one->types[i].name, FSDP_ABSENT,
				one->types[i].times.count, one->types[i].times.sum_ns);
		FSDP_EACH(i, one->step_count, step, &one->steps[i]) {
			add_type(at, table, fsdp_span_text("all"), step->step, 1,
				step->dur_ns);
			for (size_t j = 0; j < step->type_count; j++)
				add_type(at, table, step->types[j].name, step->step,
					step->types[j].count, step->types[j].sum_ns);
		}
		break;
	case FSDP_ROWS_OF_UNIT:
		FSDP_EACH(i, one->unit_count, unit, &one->units[i]) {
			struct fsdp_row row =
				new_row(FSDP_ROWS_OF_UNIT, NULL, unit->unit);
			row.key.phase = fsdp_unit_phase_name(unit->phase);
			row.key.size = unit->pg;
			add_list(at, row, "gather", "gather_exposed",
				&unit->gathers.by_step);
			add_list(at, row, "reduce", "reduce_exposed",
				&unit->reduces.by_step);
		}
		break;
	case FSDP_ROWS_OF_GROUP:
	case FSDP_ROWS_OF_COLLECTIVE:
		add_calls(at, one, table);
		break;
	case FSDP_ROWS_OF_KERNEL:
		FSDP_EACH(i, one->kernel_count, kernel, &one->kernels[i]) {
			struct fsdp_row row =
				new_row(FSDP_ROWS_OF_KERNEL, NULL, kernel->name);
			row.key.kind = kernel->kernel_class;
			row.key.computes = at->samples == NULL && kernel->computes;
			row.on_compute_stream = kernel->on_compute_stream;
			if (at->samples != NULL)
				add_list(at, row, "time", NULL, &kernel->by_step);
			else
				add_values(at, row, "time", FSDP_ABSENT, kernel->count,
					kernel->ns);
		}
		break;
	case FSDP_ROWS_OF_IDLE:
	case FSDP_ROWS_OF_IDLE_CAUSE:
		add_idles(at, one, table);
		break;
	case FSDP_ROWS_OF_COUNT:
		break;
	}
}

/* ---- the rows of a table ---- */

/* The run, shares and bandwidths of rows, once all are there. */
static void complete(struct fsdp_row_list *rows, size_t first, uint64_t run)
{
	int64_t compute_ns = 0;
	for (size_t i = first; i < rows->count; i++)
		if (rows->items[i].key.computes)
			sum(&compute_ns, rows->items[i].ns);
	for (size_t i = first; i < rows->count; i++) {
		struct fsdp_row *one = &rows->items[i];
		const struct fsdp_row_key *key = &one->key;
		int64_t bytes;
		one->algbw = one->busbw = -1;
		if (key->type.data != NULL && key->bytes != FSDP_ABSENT &&
			one->count <= INT64_MAX &&
			!__builtin_mul_overflow(key->bytes, (int64_t)one->count, &bytes))
			fsdp_bandwidth(&key->type, bytes, key->size, one->ns, &one->algbw,
				&one->busbw);
		one->run = run;
		if (key->computes && compute_ns > 0)
			one->share = 100 * (double)one->ns / (double)compute_ns;
	}
}

bool fsdp_recordings_group(const struct fsdp_recordings *recordings,
	enum fsdp_row_table table, struct fsdp_row_list *ret_rows)
{
	struct collector at = { 0 };
	for (size_t i = 0; i < fsdp_recordings_run_count(recordings) &&
			   table != FSDP_ROWS_OF_IDLE_CAUSE;
		i++) {
		const struct fsdp_recordings *run = fsdp_recordings_run(recordings, i);
		size_t first = at.rows.count;

		at.has_steps = fsdp_recordings_totals(run).step_count != 0;
		for (size_t k = 0; k < fsdp_recording_count(run); k++) {
			add_recording(&at, fsdp_recording_by_rank(run, k), table);
			fold(&at.rows, first);
		}
		sort(&at.rows, first, compare_times);
		complete(&at.rows, first, i + 1);
	}
	/* These are not added up over ranks. */
	for (size_t i = 0;
		i < fsdp_recording_count(recordings) && table == FSDP_ROWS_OF_IDLE_CAUSE;
		i++) {
		const struct fsdp_recording *one = fsdp_recording_by_rank(recordings, i);
		size_t first = at.rows.count;

		add_recording(&at, one, table);
		fold(&at.rows, first);
		complete(&at.rows, first, one->run);
	}
	if (at.rows.items == NULL) {
		at.rows.items = calloc(1, sizeof *at.rows.items);
		at.failed = at.failed || at.rows.items == NULL;
	}
	*ret_rows = at.rows;
	return !at.failed;
}

bool fsdp_rows_by_kind(const struct fsdp_row_list *rows, struct fsdp_row_list *ret_kinds)
{
	struct fsdp_row_list kinds = { calloc(rows->count + 1, sizeof *kinds.items), 0 };
	*ret_kinds = kinds;
	for (size_t i = 0, first = 0; kinds.items != NULL && i < rows->count; i++) {
		struct fsdp_row row =
			new_row(rows->items[i].key.table, NULL, (struct fsdp_span){ 0 });
		size_t at = first;
		if (i != 0 && rows->items[i].run != rows->items[i - 1].run)
			at = first = kinds.count;
		row.run = rows->items[i].run;
		row.key.kind = rows->items[i].key.kind;
		while (at < kinds.count && kinds.items[at].key.kind != row.key.kind)
			at++;
		if (at == kinds.count)
			kinds.items[kinds.count++] = row;
		add_up(&kinds.items[at], &rows->items[i]);
		if (i + 1 == rows->count || rows->items[i + 1].run != row.run)
			sort(&kinds, first, compare_times);
	}
	*ret_kinds = kinds;
	return kinds.items != NULL;
}

/* ---- before and now ---- */

/* Each step of each rank, then each once, with the number of its ranks. */
static bool find_samples(
	struct collector *at, const struct fsdp_recordings *const sides[2])
{
	struct sample *samples, one = { 0 };
	size_t count = 0, room = 1;
	for (int now = 0; now < 2; now++)
		room += fsdp_recording_count(sides[now]) +
			fsdp_recordings_totals(sides[now]).step_count;
	at->samples = samples = calloc(room, sizeof *samples);
	for (int now = 0; samples != NULL && now < 2; now++)
		FSDP_EACH(i, fsdp_recordings_run_count(sides[now]), run,
			fsdp_recordings_run(sides[now], i)) {
			bool has_steps = fsdp_recordings_totals(run).step_count != 0;

			FSDP_EACH(k, fsdp_recording_count(run), rank,
				fsdp_recording_by_rank(run, k)) {
				one = (struct sample){ now, i + 1, FSDP_ABSENT, k };
				for (size_t j = 0; j < rank->step_count; j++) {
					one.step = rank->steps[j].step;
					samples[count++] = one;
				}
				if (!has_steps)
					samples[count++] = one;
			}
		}
	if (count > 1)
		qsort(samples, count, sizeof *samples, compare_ranks);
	for (size_t i = 0, next; i < count; i = next) {
		one = samples[i];
		one.ranks = 1;
		for (next = i + 1;
			next < count && compare_samples(&one, &samples[next]) == 0;
			next++)
			one.ranks += samples[next].ranks != samples[next - 1].ranks;
		samples[at->sample_count++] = one;
	}
	return samples != NULL;
}

/* The nearest whole number; what does not fit is the largest. */
static int64_t mean(wide all, uint64_t count)
{
	wide result = (all + (wide)(count / 2)) / (wide)count;
	return result > INT64_MAX ? INT64_MAX : (int64_t)result;
}

/* Rows of one key and one side, by sample; a sample without any has spent nothing. */
static struct fsdp_row_times sum_up(const struct collector *at,
	const struct fsdp_row *rows, size_t count, uint64_t samples)
{
	struct fsdp_row_times side = { 0, FSDP_ABSENT, FSDP_ABSENT, FSDP_ABSENT };
	wide all = 0;
	for (size_t i = 0; i < count; i++) {
		bool of_one_rank = rows[i].key.rank != FSDP_ABSENT;
		int64_t ns = mean(
			rows[i].ns, of_one_rank ? 1 : at->samples[rows[i].sample].ranks);
		side.count += rows[i].count;
		side.min_ns = i == 0 || ns < side.min_ns ? ns : side.min_ns;
		side.max_ns = i == 0 || ns > side.max_ns ? ns : side.max_ns;
		all += ns;
	}
	if (count < samples) {
		side.min_ns = 0;
		side.max_ns = count == 0 ? 0 : side.max_ns;
	}
	if (samples != 0)
		side.mean_ns = mean(all, samples);
	return side;
}

static uint64_t change_of(const struct fsdp_row_pair *row)
{
	int64_t before = row->before.mean_ns, now = row->now.mean_ns;
	if (before == FSDP_ABSENT || now == FSDP_ABSENT)
		return 0;
	return before < now ? (uint64_t)now - (uint64_t)before
			    : (uint64_t)before - (uint64_t)now;
}

static int place_in_step(const char *measure)
{
	static const char *const order[] = { "length", "compute", "communication",
		"exposed", "copies", "idle" };
	int place = 0;
	while (place < 5 && strcmp(order[place], measure) != 0)
		place++;
	return place;
}

/* Steps first, part by part; of others what changed most. */
static int compare_changes(const void *a, const void *b)
{
	const struct fsdp_row_pair *left = a, *right = b;
	uint64_t x = change_of(left), y = change_of(right);
	int order = compare_numbers(left->key.table, right->key.table);
	if (order == 0 && left->key.table == FSDP_ROWS_OF_STEP)
		order = place_in_step(left->key.measure) -
			place_in_step(right->key.measure);
	if (order == 0)
		order = x > y ? -1 : x < y;
	return order != 0 ? order : compare_keys(&left->key, &right->key);
}

static bool compare_sides(const struct collector *at, struct fsdp_comparison *comparison)
{
	const struct fsdp_row_list *rows = &at->rows;
	struct fsdp_row_pair *all = calloc(rows->count + 1, sizeof *all);
	comparison->rows = all;
	for (size_t i = 0, middle, next; all != NULL && i < rows->count; i = next) {
		struct fsdp_row_pair *one = &all[comparison->count++];
		for (next = middle = i;
			next < rows->count &&
			compare_keys(&rows->items[i].key, &rows->items[next].key) == 0;
			next++)
			middle += !at->samples[rows->items[next].sample].now;
		one->key = rows->items[i].key;
		one->before = sum_up(
			at, &rows->items[i], middle - i, comparison->before_samples);
		one->now = sum_up(
			at, &rows->items[middle], next - middle, comparison->now_samples);
		one->place =
			comparison->before_samples < 2 || one->now.mean_ns == FSDP_ABSENT
				? FSDP_COMPARED_UNKNOWN
			: one->now.mean_ns < one->before.min_ns ? FSDP_COMPARED_BELOW
			: one->now.mean_ns > one->before.max_ns ? FSDP_COMPARED_ABOVE
								: FSDP_COMPARED_INSIDE;
	}
	if (all != NULL && comparison->count > 1)
		qsort(all, comparison->count, sizeof *all, compare_changes);
	return all != NULL;
}

bool fsdp_recordings_compare(const struct fsdp_recordings *before,
	const struct fsdp_recordings *now, unsigned tables,
	struct fsdp_comparison *ret_comparison)
{
	const struct fsdp_recordings *const sides[2] = { before, now };
	struct fsdp_comparison comparison = { .runs = fsdp_recordings_run_count(before) };
	struct collector at = { 0 };
	at.failed = !find_samples(&at, sides);
	for (size_t i = 0; i < at.sample_count; i++) {
		comparison.before_samples += !at.samples[i].now;
		comparison.now_samples += at.samples[i].now;
		comparison.per_step |=
			!at.samples[i].now && at.samples[i].step != FSDP_ABSENT;
	}
	for (int side = 0; side < 2; side++)
		FSDP_EACH(i, fsdp_recordings_run_count(sides[side]), run,
			fsdp_recordings_run(sides[side], i)) {
			size_t count = fsdp_recording_count(run);

			if (side == 0 && count > comparison.ranks)
				comparison.ranks = count;
			at.now = side;
			at.run = i + 1;
			at.has_steps = fsdp_recordings_totals(run).step_count != 0;
			for (size_t k = 0; !at.failed && k < count; k++) {
				for (unsigned j = 0; j < FSDP_ROWS_OF_COUNT; j++)
					if ((tables >> j & 1) != 0)
						add_recording(&at,
							fsdp_recording_by_rank(run, k),
							(enum fsdp_row_table)j);
				fold(&at.rows, 0);
			}
		}
	at.failed = at.failed || !compare_sides(&at, &comparison);
	free(at.samples);
	free(at.rows.items);
	*ret_comparison = comparison;
	return !at.failed;
}
