/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the orders of several ranks part.
 */
#include <stdlib.h>

#include "base/num.h"
#include "trace/match.h"
#include "trace/python.h"

/* The training forwards of one iteration of a rank. */
struct sequence {
	const struct fsdp_recording *recording;
	const struct fsdp_forward *forwards;
	size_t count;
};

static struct sequence iteration_of(const struct fsdp_recording *recording, uint64_t iter)
{
	const struct fsdp_exec_order *order = recording->order;
	size_t low = 0, high = order->forward_count;
	FSDP_HALVE(low, high, middle, order->forwards[middle].iter < iter);
	struct sequence sequence = { recording, order->forwards + low, 0 };
	while (low + sequence.count < order->forward_count &&
		order->forwards[low + sequence.count].iter == iter)
		sequence.count++;
	return sequence;
}

static int64_t handle_at(const struct sequence *sequence, size_t position)
{
	return position < sequence->count ? sequence->forwards[position].handle
					  : FSDP_ABSENT;
}

/* The first place where two differ; the longer count if nowhere. */
static size_t part(const struct sequence *a, const struct sequence *b)
{
	size_t count = a->count > b->count ? a->count : b->count, at = 0;
	while (at < count && handle_at(a, at) == handle_at(b, at))
		at++;
	return at;
}

static void put_fqns(
	struct fsdp_python *text, const struct sequence *sequence, size_t position)
{
	int64_t index = handle_at(sequence, position);
	fsdp_python_put(text, "[");
	if (index != FSDP_ABSENT) {
		const struct fsdp_handle *handle =
			&sequence->recording->order->handles[index];
		fsdp_python_put(text, "[");
		for (size_t i = 0; i < handle->fqn_count; i++) {
			fsdp_python_put(text, "%s", i != 0 ? ", " : "");
			fsdp_python_repr(text, handle->fqns[i]);
		}
		fsdp_python_put(text, "]");
	}
	fsdp_python_put(text, "]");
}

static bool tell(struct fsdp_divergence *divergence, const struct sequence *a,
	const struct sequence *b, size_t position, struct fsdp_arena *arena)
{
	struct fsdp_python text = { .arena = arena };
	*divergence = (struct fsdp_divergence){ .position = (int64_t)position,
		.ranks = { a->recording->rank, b->recording->rank },
		.handles = { handle_at(a, position), handle_at(b, position) } };
	fsdp_python_put(&text,
		"Forward order differs across ranks: rank %lld is all-gathering parameters for ",
		(long long)a->recording->rank);
	put_fqns(&text, a, position);
	fsdp_python_put(&text, " while rank %lld is all-gathering parameters for ",
		(long long)b->recording->rank);
	put_fqns(&text, b, position);
	divergence->message = fsdp_python_take(&text);
	return divergence->message.data != NULL;
}

/* Whether PyTorch compares ranks at all. */
static bool is_checked(const struct fsdp_recording *recording)
{
	return fsdp_span_is(recording->debug_level, "DETAIL");
}

/* How many handles of the list were used before the call at which PyTorch raises: it does
 * so before it takes down the handle of that call. SIZE_MAX: out of memory. */
static size_t listed_before(const struct sequence *sequence, size_t position,
	const struct fsdp_order_snapshot *snapshot, size_t handle_count)
{
	enum { BEFORE = 1, LATER };
	unsigned char *used = calloc(handle_count + 1, 1);
	size_t count = 0;
	if (used == NULL)
		return SIZE_MAX;
	for (size_t i = 0; i < sequence->count; i++) {
		unsigned char *one = &used[sequence->forwards[i].handle];
		if (*one == 0)
			*one = i < position ? BEFORE : LATER;
	}
	while (count < snapshot->pre_count && used[snapshot->pre[count]] != LATER)
		count++;
	free(used);
	return count;
}

/* The lists of a rank as they stand when PyTorch raises, which it does on every rank. */
static bool end_lists(struct fsdp_recording *recording, const struct sequence *sequence,
	size_t position, struct fsdp_arena *arena)
{
	const struct fsdp_exec_order *order = recording->order;
	struct fsdp_exec_order *ended = FSDP_TAKE(arena, ended, 1);
	struct fsdp_order_snapshot *snapshots =
		FSDP_TAKE(arena, snapshots, order->snapshot_count);
	if (ended == NULL || snapshots == NULL)
		return false;
	/* All of them share one list. */
	size_t count = order->snapshot_count != 0
			       ? listed_before(sequence, position,
					 &order->snapshots[order->snapshot_count - 1],
					 order->handle_count)
			       : 0;
	if (count == SIZE_MAX)
		return false;
	for (size_t i = 0; i < order->snapshot_count; i++) {
		snapshots[i] = order->snapshots[i];
		snapshots[i].pre_count = fsdp_min(snapshots[i].pre_count, count);
	}
	*ended = *order;
	ended->snapshots = snapshots;
	recording->order = ended;
	return true;
}

/* PyTorch compares call by call: (0,1), (0,2), … and the first that differs is named. */
static bool compare_first(const struct sequence *ranks, size_t count,
	struct fsdp_arena *arena, struct fsdp_divergence *divergence)
{
	size_t best = SIZE_MAX, left = 0, right = 0;
	for (size_t i = 0; i < count; i++) {
		/* A rank that agrees with the first agrees with the others as far as
		 * that. */
		for (size_t j = i + 1; j < count && i == 0; j++) {
			size_t at = part(&ranks[i], &ranks[j]);
			size_t most = ranks[i].count > ranks[j].count ? ranks[i].count
								      : ranks[j].count;
			if (at < most && at < best) {
				best = at;
				left = i;
				right = j;
			}
		}
	}
	return best == SIZE_MAX ||
	       tell(divergence, &ranks[left], &ranks[right], best, arena);
}

static uint64_t last_iteration(const struct fsdp_recording *recording)
{
	const struct fsdp_exec_order *order = recording->order;
	return order->forward_count == 0 ? 0
					 : order->forwards[order->forward_count - 1].iter;
}

/* The iteration is the first in which any two differ; the place the first there. */
static bool find_first(const struct fsdp_recording *const *recordings,
	struct sequence *ranks, size_t count, struct fsdp_arena *arena,
	struct fsdp_first_diff *diff)
{
	uint64_t last = 0;
	int64_t *handles = FSDP_TAKE(arena, handles, count);
	if (handles == NULL)
		return false;
	diff->handles = handles;
	diff->count = count;
	for (size_t i = 0; i < count; i++)
		if (last_iteration(recordings[i]) > last)
			last = last_iteration(recordings[i]);
	for (uint64_t iter = 0; iter <= last && !diff->found; iter++) {
		size_t best = SIZE_MAX;
		for (size_t i = 0; i < count; i++)
			ranks[i] = iteration_of(recordings[i], iter);
		for (size_t i = 1; i < count; i++) {
			size_t at = part(&ranks[0], &ranks[i]);
			size_t most = ranks[0].count > ranks[i].count ? ranks[0].count
								      : ranks[i].count;
			if (at < most && at < best)
				best = at;
		}
		if (best == SIZE_MAX)
			continue;
		diff->found = true;
		diff->iteration = iter;
		diff->position = best;
		for (size_t i = 0; i < count; i++)
			handles[i] = handle_at(&ranks[i], best);
	}
	return true;
}

static bool end_all(struct fsdp_recording *const *recordings, size_t count,
	const struct fsdp_divergence *divergence, struct fsdp_arena *arena)
{
	for (size_t i = 0; !divergence->agree && i < count; i++) {
		if (recordings[i]->order == NULL || !is_checked(recordings[i]))
			continue;
		const struct sequence first = iteration_of(recordings[i], 0);
		if (!end_lists(
			    recordings[i], &first, (size_t)divergence->position, arena))
			return false;
	}
	return true;
}

bool fsdp_match_orders(struct fsdp_recording *const *recordings, size_t count,
	struct fsdp_arena *arena, struct fsdp_divergence *divergence,
	struct fsdp_first_diff *diff)
{
	struct sequence *ranks = malloc((count + 1) * sizeof *ranks);
	const struct fsdp_recording **orders = malloc((count + 1) * sizeof *orders);
	size_t used = 0;
	bool good = ranks != NULL && orders != NULL;
	*divergence = (struct fsdp_divergence){ .agree = true, .position = FSDP_ABSENT };
	*diff = (struct fsdp_first_diff){ 0 };
	for (size_t i = 0; good && i < count; i++)
		if (recordings[i]->order != NULL) {
			orders[used] = recordings[i];
			ranks[used++] = iteration_of(recordings[i], 0);
		}
	if (good && used > 1)
		good = compare_first(ranks, used, arena, divergence) &&
		       end_all(recordings, count, divergence, arena) &&
		       find_first(orders, ranks, used, arena, diff);
	free(ranks);
	free(orders);
	return good;
}
