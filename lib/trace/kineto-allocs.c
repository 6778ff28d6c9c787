/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that allocate or free memory, by step and name.
 */
#include <stdlib.h>

#include "trace/collectives.h"
#include "trace/durations.h"
#include "trace/kineto-allocs.h"

struct fsdp_kineto_alloc {
	int64_t ts_ns, dur_ns;
	uint32_t name; /* a word */
};

void fsdp_kineto_allocs_init(struct fsdp_kineto_allocs *allocs,
	struct fsdp_kineto_words *words, struct fsdp_arena *arena)
{
	allocs->words = words;
	fsdp_vec_init(&allocs->list, arena, sizeof(struct fsdp_kineto_alloc));
}

bool fsdp_kineto_allocs_add(struct fsdp_kineto_allocs *allocs, struct fsdp_span name,
	int64_t ts_ns, int64_t dur_ns)
{
	struct fsdp_kineto_alloc one = { ts_ns, dur_ns, 0 };
	return fsdp_kineto_words_find(
		       allocs->words, FSDP_KINETO_ALLOCS, name, &one.name) != NULL &&
	       fsdp_vec_add(&allocs->list, &one);
}

/* A call in its step. */
struct stepped_alloc {
	size_t step; /* its index; SIZE_MAX: none */
	struct fsdp_span name;
	int64_t ns;
};

static int compare_names(const void *a, const void *b)
{
	const struct stepped_alloc *left = a, *right = b;
	return fsdp_span_compare(left->name, right->name);
}

static int compare_steps(const void *a, const void *b)
{
	const struct stepped_alloc *left = a, *right = b;
	if (left->step != right->step)
		return left->step < right->step ? -1 : 1;
	return compare_names(a, b);
}

/* Sums of neighbours that are equal. Returns how many. */
static size_t add_up(const struct stepped_alloc *list, size_t count,
	int (*compare)(const void *, const void *), struct fsdp_tally *ret_sums,
	bool *overflow)
{
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		if (i == 0 || compare(&list[i - 1], &list[i]) != 0)
			ret_sums[kept++] = (struct fsdp_tally){ list[i].name, 0, 0 };
		ret_sums[kept - 1].count++;
		fsdp_sum_ns(&ret_sums[kept - 1].sum_ns, list[i].ns, overflow);
	}
	return kept;
}

static void hand_out(struct stepped_alloc *list, size_t count, struct fsdp_step *steps,
	struct fsdp_tally *sums, bool *overflow)
{
	qsort(list, count, sizeof *list, compare_steps);
	for (size_t i = 0, next; i < count && list[i].step != SIZE_MAX; i = next) {
		for (next = i; next < count && list[next].step == list[i].step;)
			next++;
		struct fsdp_step *step = &steps[list[i].step];
		step->allocs = sums;
		step->alloc_count =
			add_up(list + i, next - i, compare_steps, sums, overflow);
		sums += step->alloc_count;
	}
}

static size_t place_all(const struct fsdp_kineto_allocs *allocs, bool limited,
	const struct fsdp_recording *recording, struct stepped_alloc *list)
{
	size_t kept = 0;
	for (size_t i = 0; i < allocs->list.count; i++) {
		const struct fsdp_kineto_alloc *one = fsdp_vec_at(&allocs->list, i);
		size_t step = fsdp_steps_index_at(
			recording->steps, recording->step_count, one->ts_ns);
		if (!limited || step != SIZE_MAX)
			list[kept++] = (struct stepped_alloc){ step,
				fsdp_kineto_words_text(allocs->words, one->name),
				one->dur_ns };
	}
	return kept;
}

bool fsdp_kineto_allocs_settle(struct fsdp_kineto_allocs *allocs,
	struct fsdp_arena *arena, struct fsdp_step *steps, bool limited,
	struct fsdp_recording *recording)
{
	size_t count = allocs->list.count;
	if (count == 0)
		return true;
	struct fsdp_tally *sums = FSDP_TAKE(arena, sums, 2 * count);
	struct stepped_alloc *list = malloc(count * sizeof *list);
	bool good = sums != NULL && list != NULL;
	if (good) {
		count = place_all(allocs, limited, recording, list);
		hand_out(list, count, steps, sums, &allocs->words->overflow);
		qsort(list, count, sizeof *list, compare_names);
		sums += allocs->list.count;
		recording->allocs = sums;
		recording->alloc_count = add_up(
			list, count, compare_names, sums, &allocs->words->overflow);
	}
	free(list);
	return good;
}
