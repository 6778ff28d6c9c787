/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where collectives were launched: notes of the backend, and which of them is open at a
 * moment; calls of the runtime, and which kernel each launched.
 */
#include <stdlib.h>

#include "trace/kineto-launches.h"

/* ---- notes ---- */

struct note {
	int64_t ts_ns, dur_ns;
	uint32_t thread;
	unsigned char type; /* enum fsdp_time_type */
};

/* What the args of a note tell of its collective. */
struct told {
	int64_t bytes;
	uint32_t sort, seq;
};

static const struct note *note_at(const struct fsdp_kineto_notes *notes, size_t index)
{
	return fsdp_vec_at(&notes->list, index);
}

void fsdp_kineto_notes_init(struct fsdp_kineto_notes *notes, struct fsdp_arena *arena)
{
	fsdp_vec_init(&notes->list, arena, sizeof(struct note));
	fsdp_vec_init(&notes->told, arena, sizeof(struct told));
}

bool fsdp_kineto_notes_add(struct fsdp_kineto_notes *notes, const struct fsdp_comm *comm,
	uint32_t thread, bool alone)
{
	struct told *told = alone ? fsdp_vec_push(&notes->told) : NULL;
	struct note *note = fsdp_vec_push(&notes->list);
	if (note == NULL || (alone && told == NULL))
		return false;
	*note = (struct note){ comm->ts_ns, comm->dur_ns, thread, comm->type };
	if (alone)
		*told = (struct told){ comm->bytes, comm->sort, comm->seq };
	return true;
}

/* All notes as collectives, behind the others of the list; all were added as `alone`.
 * False: out of memory. */
static bool notes_list(const struct fsdp_kineto_notes *notes, struct fsdp_vec *comms)
{
	for (size_t i = 0; i < notes->list.count; i++) {
		const struct note *note = note_at(notes, i);
		const struct told *told = fsdp_vec_at(&notes->told, i);
		struct fsdp_comm *comm = fsdp_vec_push(comms);
		if (comm == NULL)
			return false;
		*comm = (struct fsdp_comm){ note->ts_ns, note->dur_ns, told->bytes,
			note->ts_ns, told->sort, told->seq, (uint32_t)i, note->type,
			FSDP_BY_NAME, FSDP_TIME_OTHER };
	}
	return true;
}

/* When a note begins, and on which thread. */
static void notes_place(const struct fsdp_kineto_notes *notes, size_t index,
	int64_t *ret_ts_ns, uint32_t *ret_thread)
{
	*ret_ts_ns = note_at(notes, index)->ts_ns;
	*ret_thread = note_at(notes, index)->thread;
}

/* ---- the note that is open at a moment ---- */

static int compare_starts(const void *a, const void *b)
{
	const struct fsdp_kineto_start *left = a, *right = b;
	if (left->thread != right->thread)
		return left->thread < right->thread ? -1 : 1;
	if (left->ts_ns != right->ts_ns)
		return left->ts_ns < right->ts_ns ? -1 : 1;
	return left->index < right->index ? -1 : left->index > right->index;
}

/* Traces are nearly in order, so insertion sort takes few moves, and no memory. If it
 * takes many, qsort is called, which may allocate a copy of the array. */
static void sort_starts(struct fsdp_kineto_start *starts, size_t count)
{
	size_t moves = 0;
	for (size_t i = 1; i < count; i++) {
		struct fsdp_kineto_start one = starts[i];
		size_t to = i;
		for (; to > 0 && compare_starts(&one, &starts[to - 1]) < 0; to--)
			starts[to] = starts[to - 1];
		starts[to] = one;
		moves += i - to;
		if (moves > 4 * count) {
			qsort(starts, count, sizeof *starts, compare_starts);
			return;
		}
	}
}

/* The notes that have begun, the shortest on top. */
struct heap {
	const struct fsdp_kineto_notes *notes;
	uint32_t *items; /* indexes of notes */
	size_t count;
};

static bool is_shorter(const struct heap *heap, uint32_t a, uint32_t b)
{
	const struct note *left = note_at(heap->notes, a);
	const struct note *right = note_at(heap->notes, b);
	if (left->dur_ns != right->dur_ns)
		return left->dur_ns < right->dur_ns;
	if (left->ts_ns != right->ts_ns)
		return left->ts_ns < right->ts_ns;
	return a < b;
}

static void heap_push(struct heap *heap, uint32_t item)
{
	size_t at = heap->count++;
	for (; at > 0 && is_shorter(heap, item, heap->items[(at - 1) / 2]);
		at = (at - 1) / 2)
		heap->items[at] = heap->items[(at - 1) / 2];
	heap->items[at] = item;
}

static void heap_pop(struct heap *heap)
{
	uint32_t item = heap->items[--heap->count];
	size_t at = 0;
	for (size_t child; (child = 2 * at + 1) < heap->count; at = child) {
		if (child + 1 < heap->count &&
			is_shorter(heap, heap->items[child + 1], heap->items[child]))
			child++;
		if (!is_shorter(heap, heap->items[child], item))
			break;
		heap->items[at] = heap->items[child];
	}
	heap->items[at] = item;
}

/* Notes and starts are sorted, so each note is pushed once, before the first start behind
 * its begin. It leaves the heap when a start shows that it has ended. */
static void match(struct heap *heap, const struct fsdp_kineto_start *begun,
	const struct fsdp_kineto_start *starts, size_t count, unsigned char *ret_types)
{
	size_t note_count = heap->notes->list.count, next = 0;
	for (size_t i = 0; i < count; i++) {
		uint32_t thread = starts[i].thread;
		int64_t ts_ns = starts[i].ts_ns;
		if (i != 0 && thread != starts[i - 1].thread)
			heap->count = 0;
		for (; next < note_count && (begun[next].thread < thread ||
						    (begun[next].thread == thread &&
							    begun[next].ts_ns <= ts_ns));
			next++)
			if (begun[next].thread == thread)
				heap_push(heap, begun[next].index);
		unsigned char *type = &ret_types[starts[i].index];
		*type = FSDP_KINETO_NO_NOTE;
		while (heap->count != 0) {
			const struct note *top = note_at(heap->notes, heap->items[0]);
			if (top->ts_ns + top->dur_ns >= ts_ns) {
				*type = top->type;
				break;
			}
			heap_pop(heap);
		}
	}
}

bool fsdp_kineto_notes_find(const struct fsdp_kineto_notes *notes,
	struct fsdp_kineto_start *starts, size_t count, unsigned char *ret_types)
{
	size_t note_count = notes->list.count;
	struct fsdp_kineto_start *begun = malloc((note_count + 1) * sizeof *begun);
	struct heap heap = { notes, malloc((note_count + 1) * sizeof *heap.items), 0 };
	bool good = begun != NULL && heap.items != NULL;
	for (size_t i = 0; good && i < note_count; i++) {
		const struct note *note = note_at(notes, i);
		begun[i] = (struct fsdp_kineto_start){ note->ts_ns, note->thread,
			(uint32_t)i };
	}
	if (good) {
		sort_starts(begun, note_count);
		sort_starts(starts, count);
		match(&heap, begun, starts, count, ret_types);
	}
	free(begun);
	free(heap.items);
	return good;
}

/*
 * The collective of each kernel, by its launch and the note that is open then. Events and
 * their JSON are the reader's.
 */

/* ---- launches that are kept ---- */

static struct fsdp_kineto_launch *launch_at(
	const struct fsdp_kineto_launches *launches, size_t index)
{
	return fsdp_vec_at(&launches->list, index);
}

static const struct fsdp_kineto_unnamed *unnamed_at(
	const struct fsdp_kineto_launches *launches, size_t index)
{
	return fsdp_vec_at(&launches->unnamed, index);
}

void fsdp_kineto_launches_init(
	struct fsdp_kineto_launches *launches, struct fsdp_budget *budget, bool all)
{
	struct fsdp_arena *arena = &launches->arena;
	launches->named_count = launches->named_before_count = 0;
	launches->ceiling = FSDP_KINETO_LAUNCHES;
	launches->all = all;
	launches->least = INT64_MAX;
	launches->forgotten = launches->again = false;
	fsdp_arena_init_lean(arena, budget);
	fsdp_kineto_notes_init(&launches->notes, arena);
	fsdp_vec_init(&launches->list, arena, sizeof(struct fsdp_kineto_launch));
	fsdp_vec_init(&launches->unnamed, arena, sizeof(struct fsdp_kineto_unnamed));
}

void fsdp_kineto_launches_done(struct fsdp_kineto_launches *launches)
{
	fsdp_arena_done(&launches->arena);
}

bool fsdp_kineto_launches_unnamed(
	struct fsdp_kineto_launches *launches, const struct fsdp_kineto_unnamed *kernel)
{
	struct fsdp_kineto_unnamed *kept = fsdp_vec_push(&launches->unnamed);
	if (kept != NULL)
		*kept = *kernel;
	return kept != NULL;
}

void fsdp_kineto_launches_named(
	struct fsdp_kineto_launches *launches, int64_t correlation)
{
	if (!launches->all && launches->named_count < FSDP_KINETO_LAUNCHES)
		launches->named[launches->named_count++] = correlation;
}

/* For each launch the type of the note that it lies in. NULL: out of memory. */
static unsigned char *find_types(const struct fsdp_kineto_launches *launches)
{
	size_t count = launches->list.count;
	unsigned char *types = malloc(count + 1);
	struct fsdp_kineto_start *starts = malloc((count + 1) * sizeof *starts);
	bool good = types != NULL && starts != NULL;
	for (size_t i = 0; good && i < count; i++) {
		const struct fsdp_kineto_launch *launch = launch_at(launches, i);
		starts[i] = (struct fsdp_kineto_start){ launch->ts_ns, launch->thread,
			(uint32_t)i };
	}
	good = good && fsdp_kineto_notes_find(&launches->notes, starts, count, types);
	free(starts);
	if (!good) {
		free(types);
		return NULL;
	}
	return types;
}

/* A runtime call and the driver call it makes have one correlation and follow each other.
 * Both are kept, for which of them is the launch is decided among all at the end. */
static bool is_one_of_two(const struct fsdp_kineto_launches *launches, size_t index)
{
	int64_t correlation = launch_at(launches, index)->correlation;
	return (index != 0 &&
		       launch_at(launches, index - 1)->correlation == correlation) ||
	       (index + 1 < launches->list.count &&
		       launch_at(launches, index + 1)->correlation == correlation);
}

static int compare_numbers(const void *a, const void *b)
{
	const int64_t *left = a, *right = b;
	return *left < *right ? -1 : *left > *right;
}

static bool has_number(const int64_t *sorted, size_t count, int64_t number)
{
	return bsearch(&number, sorted, count, sizeof *sorted, compare_numbers) != NULL;
}

/* Forgets the launches that no kernel can need: those outside of all notes, and those of
 * kernels that their args name, which are looked up among the named kernels of the last
 * two prunings, for a kernel may be written before its launch. If a note was written
 * behind its launches, the launch is missing at the end, and the file is read again. */
static bool prune(struct fsdp_kineto_launches *launches)
{
	unsigned char *types = find_types(launches);
	size_t kept = 0;
	if (types == NULL)
		return false;
	qsort(launches->named, launches->named_count, sizeof *launches->named,
		compare_numbers);
	for (size_t i = 0; i < launches->list.count; i++) {
		const struct fsdp_kineto_launch *launch = launch_at(launches, i);
		if ((types[i] != FSDP_KINETO_NO_NOTE || is_one_of_two(launches, i)) &&
			!has_number(launches->named, launches->named_count,
				launch->correlation) &&
			!has_number(launches->named_before, launches->named_before_count,
				launch->correlation))
			*launch_at(launches, kept++) = *launch;
	}
	free(types);
	fsdp_vec_truncate(&launches->list, kept);
	launches->forgotten = true;
	memcpy(launches->named_before, launches->named,
		launches->named_count * sizeof *launches->named);
	launches->named_before_count = launches->named_count;
	launches->named_count = 0;
	/* Pruning looks at all notes and launches, so it waits until there are a quarter
	 * more of them. */
	size_t more = (launches->notes.list.count + kept) / 4;
	if (more < FSDP_KINETO_LAUNCHES)
		more = FSDP_KINETO_LAUNCHES;
	launches->ceiling = kept + more;
	return true;
}

bool fsdp_kineto_launches_add(
	struct fsdp_kineto_launches *launches, const struct fsdp_kineto_launch *launch)
{
	if (launches->list.count >= launches->ceiling && !prune(launches))
		return false;
	if (launch->correlation < launches->least)
		launches->least = launch->correlation;
	struct fsdp_kineto_launch *kept = fsdp_vec_push(&launches->list);
	if (kept != NULL)
		*kept = *launch;
	return kept != NULL;
}

void fsdp_kineto_launches_restart(struct fsdp_kineto_launches *launches)
{
	fsdp_vec_truncate(&launches->list, 0);
	launches->ceiling = SIZE_MAX;
	launches->forgotten = false;
	launches->again = true;
}

/* ---- the launch of a kernel ---- */

/* Launches by correlation; of those with the same one, first what is a launch by its
 * name, then the first in the file. */
struct correlated {
	int64_t correlation;
	uint32_t index;
	bool is_launch;
};

static int compare_correlated(const void *a, const void *b)
{
	const struct correlated *left = a, *right = b;
	if (left->correlation != right->correlation)
		return left->correlation < right->correlation ? -1 : 1;
	if (left->is_launch != right->is_launch)
		return left->is_launch ? -1 : 1;
	return left->index < right->index ? -1 : left->index > right->index;
}

/* NULL: out of memory. */
static struct correlated *sort_launches(const struct fsdp_kineto_launches *launches)
{
	size_t count = launches->list.count, i;
	struct correlated *list = malloc((count + 1) * sizeof *list);
	if (list == NULL)
		return NULL;
	for (i = 0; i < count; i++) {
		const struct fsdp_kineto_launch *launch = launch_at(launches, i);
		list[i] = (struct correlated){ launch->correlation, (uint32_t)i,
			launch->is_launch };
	}
	for (i = 1; i < count && compare_correlated(&list[i - 1], &list[i]) < 0;)
		i++;
	if (i < count)
		qsort(list, count, sizeof *list, compare_correlated);
	return list;
}

/* The first one of the correlation of a kernel, or NULL. */
static const struct correlated *find_launch(const struct correlated *list, size_t count,
	const struct fsdp_kineto_unnamed *kernel)
{
	size_t low = 0, high = count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (list[middle].correlation < kernel->correlation)
			low = middle + 1;
		else
			high = middle;
	}
	return kernel->has_correlation && low < count &&
			       list[low].correlation == kernel->correlation
		       ? &list[low]
		       : NULL;
}

bool fsdp_kineto_launches_miss(
	const struct fsdp_kineto_launches *launches, bool *ret_missing)
{
	*ret_missing = false;
	if (!launches->forgotten || launches->unnamed.count == 0)
		return true;
	struct correlated *list = sort_launches(launches);
	for (size_t i = 0; list != NULL && i < launches->unnamed.count && !*ret_missing;
		i++) {
		const struct fsdp_kineto_unnamed *kernel = unnamed_at(launches, i);
		*ret_missing = kernel->has_correlation &&
			       kernel->correlation >= launches->least &&
			       (launches->all || !kernel->named) &&
			       find_launch(list, launches->list.count, kernel) == NULL;
	}
	free(list);
	return list != NULL;
}

/* Forgets the launches of all kernels that do not wait for one. */
static bool keep_wanted(struct fsdp_kineto_launches *launches)
{
	size_t count = launches->unnamed.count, kept = 0;
	int64_t *wanted = malloc(count * sizeof *wanted);
	if (wanted == NULL)
		return false;
	for (size_t i = 0; i < count; i++)
		wanted[i] = unnamed_at(launches, i)->correlation;
	qsort(wanted, count, sizeof *wanted, compare_numbers);
	for (size_t i = 0; i < launches->list.count; i++) {
		const struct fsdp_kineto_launch *launch = launch_at(launches, i);
		if (has_number(wanted, count, launch->correlation))
			*launch_at(launches, kept++) = *launch;
	}
	free(wanted);
	fsdp_vec_truncate(&launches->list, kept);
	return true;
}

static bool resolve_by_launch(
	struct fsdp_kineto_launches *launches, const struct fsdp_vec *comms)
{
	if (launches->unnamed.count == 0 || launches->list.count == 0)
		return true;
	if (!keep_wanted(launches))
		return false;
	struct correlated *list = sort_launches(launches);
	unsigned char *types = list != NULL ? find_types(launches) : NULL;
	for (size_t i = 0; types != NULL && i < launches->unnamed.count; i++) {
		const struct fsdp_kineto_unnamed *kernel = unnamed_at(launches, i);
		const struct correlated *launch =
			find_launch(list, launches->list.count, kernel);
		if (launch == NULL || types[launch->index] == FSDP_KINETO_NO_NOTE)
			continue;
		struct fsdp_comm *comm = fsdp_comm_at(comms, kernel->index);
		if (kernel->named)
			continue;
		comm->type = types[launch->index];
		comm->how = FSDP_BY_LAUNCH;
	}
	free(list);
	free(types);
	return types != NULL;
}

/* ---- resolving ---- */

static void resolve_by_name(struct fsdp_comm *comm)
{
	if (comm->type != FSDP_TIME_OTHER)
		return;
	bool told = comm->by_name != FSDP_TIME_OTHER;
	comm->type = told ? comm->by_name : FSDP_TIME_COMM_UNKNOWN;
	comm->how = told ? FSDP_BY_NAME : FSDP_BY_NONE;
}

bool fsdp_kineto_launches_resolve(
	struct fsdp_kineto_launches *launches, struct fsdp_vec *comms)
{
	if (comms->count != 0 ? !resolve_by_launch(launches, comms)
			      : !notes_list(&launches->notes, comms))
		return false;
	for (size_t i = 0; i < comms->count; i++)
		resolve_by_name(fsdp_comm_at(comms, i));
	for (size_t i = 0; i < launches->unnamed.count; i++) {
		const struct fsdp_kineto_unnamed *kernel = unnamed_at(launches, i);
		struct fsdp_comm *comm = fsdp_comm_at(comms, kernel->index);
		if (comm->type == FSDP_TIME_ALL_GATHER)
			comm->bytes = kernel->bytes_out;
	}
	return true;
}

/* ---- where they were issued ---- */

static bool place_launches(
	const struct fsdp_kineto_launches *launches, struct fsdp_kineto_place *ret_places)
{
	struct correlated *list = sort_launches(launches);
	for (size_t i = 0; list != NULL && i < launches->unnamed.count; i++) {
		const struct fsdp_kineto_unnamed *kernel = unnamed_at(launches, i);
		const struct correlated *found =
			find_launch(list, launches->list.count, kernel);
		if (found == NULL)
			continue;
		const struct fsdp_kineto_launch *launch =
			launch_at(launches, found->index);
		ret_places[kernel->index] =
			(struct fsdp_kineto_place){ launch->ts_ns, launch->thread };
	}
	free(list);
	return list != NULL;
}

bool fsdp_kineto_launches_places(const struct fsdp_kineto_launches *launches, bool device,
	size_t count, struct fsdp_kineto_place *ret_places)
{
	for (size_t i = 0; i < count; i++)
		ret_places[i] = (struct fsdp_kineto_place){ 0, 0 };
	if (device)
		return place_launches(launches, ret_places);
	for (size_t i = 0; i < count; i++)
		notes_place(
			&launches->notes, i, &ret_places[i].ts_ns, &ret_places[i].lane);
	return true;
}
