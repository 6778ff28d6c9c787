/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells process groups of several recordings apart.
 */
#include <stdlib.h>
#include <string.h>

#include "trace/collectives.h"
#include "trace/match-groups.h"

/* A group as one recording has it. */
struct known_group {
	struct fsdp_span ranks, name;
	int64_t size;
	size_t recording, place;
};

static struct known_group named_at(
	const struct fsdp_collectives *all, size_t index, size_t recording, size_t place)
{
	const struct fsdp_comm_sort *sort = fsdp_vec_at(&all->sorts, index);
	return (struct known_group){ sort->ranks, sort->group, sort->group_size,
		recording, place };
}

/* PyTorch cuts long lists: "[0, 1, ..., 63]". */
static bool is_whole(struct fsdp_span ranks)
{
	return ranks.size != 0 && memmem(ranks.data, ranks.size, "...", 3) == NULL;
}

/* By what a group is known before its name. */
static int compare_ranks(const struct known_group *left, const struct known_group *right)
{
	int order = fsdp_span_compare(left->ranks, right->ranks);
	if (order != 0)
		return order;
	return left->size < right->size ? -1 : left->size > right->size;
}

static int compare_named(const void *a, const void *b)
{
	const struct known_group *left = a, *right = b;
	int order = compare_ranks(left, right);
	if (order != 0)
		return order;
	if (left->recording != right->recording)
		return left->recording < right->recording ? -1 : 1;
	return fsdp_span_compare(left->name, right->name);
}

static int compare_names(const void *a, const void *b)
{
	const struct known_group *left = a, *right = b;
	return fsdp_span_compare(left->name, right->name);
}

/* Whether those of the same ranks, by recording, have several names in one of them. */
static bool have_namesakes(const struct known_group *list, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (list[i].recording == list[i - 1].recording &&
			!fsdp_span_equal(list[i].name, list[i - 1].name))
			return true;
	return false;
}

/* Numbers those of the same ranks. */
static void number(struct fsdp_match_groups *groups, struct known_group *list,
	size_t count, uint32_t *last)
{
	bool by_name = !is_whole(list[0].ranks) || have_namesakes(list, count);
	if (by_name)
		qsort(list, count, sizeof *list, compare_names);
	for (size_t i = 0; i < count; i++) {
		bool same = i != 0 &&
			    (!by_name || fsdp_span_equal(list[i].name, list[i - 1].name));
		*last += !same;
		groups->ids[list[i].place] = *last;
	}
}

static size_t sorts_of(const struct fsdp_recording *recording)
{
	return recording->collectives != NULL ? recording->collectives->sorts.count : 0;
}

static void number_all(
	struct fsdp_match_groups *groups, struct known_group *list, size_t count)
{
	uint32_t last = 0;
	if (count != 0)
		qsort(list, count, sizeof *list, compare_named);
	for (size_t i = 0, next; i < count; i = next) {
		for (next = i + 1;
			next < count && compare_ranks(&list[i], &list[next]) == 0;)
			next++;
		number(groups, &list[i], next - i, &last);
	}
}

bool fsdp_match_groups_init(struct fsdp_match_groups *groups,
	struct fsdp_recording *const *recordings, size_t count)
{
	size_t total = 0, kept = 0;
	for (size_t i = 0; i < count; i++)
		total += sorts_of(recordings[i]);
	struct known_group *list = malloc((total + 1) * sizeof *list);
	groups->ids = calloc(total + 1, sizeof *groups->ids);
	groups->firsts = malloc((count + 1) * sizeof *groups->firsts);
	bool good = list != NULL && groups->ids != NULL && groups->firsts != NULL;
	for (size_t i = 0, place = 0; good && i < count; i++) {
		groups->firsts[i] = place;
		for (size_t j = 0; j < sorts_of(recordings[i]); j++, place++) {
			list[kept] = named_at(recordings[i]->collectives, j, i, place);
			kept += list[kept].name.data != NULL ||
				list[kept].ranks.data != NULL;
		}
	}
	if (good)
		number_all(groups, list, kept);
	free(list);
	return good;
}

void fsdp_match_groups_done(struct fsdp_match_groups *groups)
{
	free(groups->ids);
	free(groups->firsts);
}

uint32_t fsdp_match_group(const struct fsdp_match_groups *groups,
	struct fsdp_recording *const *recordings, size_t recording, size_t collective)
{
	const struct fsdp_comm *comm =
		fsdp_comm_at(&recordings[recording]->collectives->list, collective);
	return groups->ids[groups->firsts[recording] + comm->sort];
}
