/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of calls, by correlation. CUPTI counts correlations up as calls are made, so
 * new pages nearly always come behind the others.
 */
#include <stdlib.h>

#include "base/num.h"
#include "trace/kineto-calls.h"

void fsdp_kineto_calls_init(struct fsdp_kineto_calls *calls, struct fsdp_arena *arena)
{
	*calls = (struct fsdp_kineto_calls){ .latest_ns = INT64_MIN };
	fsdp_vec_init(&calls->list, arena, sizeof(struct fsdp_kineto_page));
}

void fsdp_kineto_calls_forget(struct fsdp_kineto_calls *calls)
{
	fsdp_vec_truncate(&calls->list, 0);
	calls->at = 0;
	calls->latest_ns = INT64_MIN;
}

static struct fsdp_kineto_page *page_at(
	const struct fsdp_kineto_calls *calls, size_t index)
{
	return fsdp_vec_at(&calls->list, index);
}

/* Rounds down, also below 0. */
static int64_t page_of(int64_t correlation)
{
	return correlation >> 6;
}

static int compare_pages(
	const struct fsdp_kineto_page *a, const struct fsdp_kineto_page *b)
{
	if (a->page != b->page)
		return a->page < b->page ? -1 : 1;
	if (a->other != b->other)
		return a->other ? 1 : -1;
	return a->moment_ns < b->moment_ns ? -1 : a->moment_ns > b->moment_ns;
}

static struct fsdp_kineto_page page_for(
	const struct fsdp_kineto_issued *call, const struct fsdp_kineto_steps *steps)
{
	size_t step = fsdp_kineto_steps_index_at(steps, call->ts_ns);
	return (struct fsdp_kineto_page){ page_of(call->correlation),
		step != SIZE_MAX ? fsdp_kineto_step_at(steps, step)->ts_ns
				 : FSDP_KINETO_OUTSIDE,
		UINT64_C(1) << (call->correlation & 63), 0, !call->is_launch };
}

/* Joins a page to the one with the same key, if there is one. */
static bool joins(struct fsdp_kineto_calls *calls, const struct fsdp_kineto_page *page)
{
	size_t low = 0, high = calls->list.count;
	FSDP_HALVE(low, high, middle, compare_pages(page_at(calls, middle), page) < 0);
	if (low == calls->list.count || compare_pages(page_at(calls, low), page) != 0)
		return false;
	page_at(calls, low)->seen |= page->seen;
	return true;
}

/* Puts pages in their places, from the back: those of the list move up only as far as the
 * others lie in front of them. */
static bool merge(struct fsdp_kineto_calls *calls, const struct fsdp_kineto_page *pages,
	size_t count)
{
	size_t old = calls->list.count, to = old + count;
	for (size_t i = 0; i < count; i++)
		if (fsdp_vec_push(&calls->list) == NULL)
			return false;
	while (count != 0) {
		bool from_list = old != 0 && compare_pages(page_at(calls, old - 1),
						     &pages[count - 1]) > 0;
		*page_at(calls, --to) =
			from_list ? *page_at(calls, --old) : pages[--count];
	}
	return true;
}

static int compare_any_pages(const void *a, const void *b)
{
	return compare_pages(a, b);
}

bool fsdp_kineto_calls_take(struct fsdp_kineto_calls *calls,
	const struct fsdp_kineto_issued *issued, size_t count,
	const struct fsdp_kineto_steps *steps)
{
	struct fsdp_kineto_page *pages = malloc((count + 1) * sizeof *pages);
	size_t made = 0, kept = 0;
	if (pages == NULL)
		return false;
	for (size_t i = 0; i < count; i++) {
		struct fsdp_kineto_page page = page_for(&issued[i], steps);
		if (issued[i].ts_ns > calls->latest_ns)
			calls->latest_ns = issued[i].ts_ns;
		if (made != 0 && compare_pages(&pages[made - 1], &page) == 0)
			pages[made - 1].seen |= page.seen;
		else
			pages[made++] = page;
	}
	qsort(pages, made, sizeof *pages, compare_any_pages);
	for (size_t i = 0; i < made; i++) {
		if (kept != 0 && compare_pages(&pages[kept - 1], &pages[i]) == 0)
			pages[kept - 1].seen |= pages[i].seen;
		else if (!joins(calls, &pages[i]))
			pages[kept++] = pages[i];
	}
	bool good = merge(calls, pages, kept);
	free(pages);
	return good;
}

bool fsdp_kineto_calls_find(
	struct fsdp_kineto_calls *calls, int64_t correlation, int64_t *ret_moment_ns)
{
	int64_t page = page_of(correlation);
	uint64_t bit = UINT64_C(1) << (correlation & 63);
	size_t low = 0, high = calls->list.count;
	/* Mostly the page that was found last, or the next one. */
	for (size_t at = calls->at; at < high && at < calls->at + 4; at++)
		if (page_at(calls, at)->page == page &&
			(at == 0 || page_at(calls, at - 1)->page < page))
			low = high = at;
	FSDP_HALVE(low, high, middle, page_at(calls, middle)->page < page);
	calls->at = low;
	for (; low < calls->list.count && page_at(calls, low)->page == page; low++) {
		if ((page_at(calls, low)->seen & bit) == 0)
			continue;
		page_at(calls, low)->found |= bit;
		*ret_moment_ns = page_at(calls, low)->moment_ns;
		return true;
	}
	return false;
}

void fsdp_kineto_calls_count(const struct fsdp_kineto_calls *calls,
	uint64_t *ret_launches, uint64_t *ret_without_work)
{
	*ret_launches = *ret_without_work = 0;
	for (size_t i = 0; i < calls->list.count; i++) {
		const struct fsdp_kineto_page *page = page_at(calls, i);

		if (page->other)
			continue;
		*ret_launches += (uint64_t)__builtin_popcountll(page->seen);
		*ret_without_work +=
			(uint64_t)__builtin_popcountll(page->seen & ~page->found);
	}
}
