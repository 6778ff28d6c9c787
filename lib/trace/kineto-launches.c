/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collective of each kernel, by its launch and the note that is open then. Events and
 * their JSON are the reader's.
 */
#include <stdlib.h>

#include "trace/kineto-launches.h"

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
			      : !fsdp_kineto_notes_list(&launches->notes, comms))
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
		fsdp_kineto_notes_place(
			&launches->notes, i, &ret_places[i].ts_ns, &ret_places[i].lane);
	return true;
}
