/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets the collectives of several ranks against each other. Ranks are only as aligned as
 * the clocks of their hosts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/characters.h"
#include "trace/event.h"
#include "base/num.h"
#include "base/sort.h"

/* Transfers from point to point have numbers of their own. Without a group, those of two
 * ranks have a line in each direction. */
enum { LINE_COLLECTIVES, LINE_POINTS, LINE_FORTH, LINE_BACK };

/* A collective of one rank, and its key. */
struct candidate {
	uint32_t group;     /* 0: none */
	unsigned char line; /* what is counted together in the group */
	int64_t key;        /* Seq, or the place within the group */
	uint32_t recording; /* index */
	uint32_t index;     /* of the collective */
	int64_t ts_ns;      /* absolute */
	int64_t dur_ns;
	unsigned char type; /* enum fsdp_time_type */
	bool numbered;      /* it has a Seq in a group */
};

/* Entries that belong together: a run of them. */
struct run {
	size_t first, count;
	int64_t ts_ns; /* the earliest */
};

/* When a rank waited inside of a collective. */
struct wait {
	int64_t begin, end;
	uint32_t recording;
};

__extension__ typedef unsigned __int128 wide;

struct matcher {
	struct fsdp_recording *const *recordings;
	size_t recording_count;
	struct fsdp_arena *arena, *scratch;
	uint32_t **groups; /* by recording and sort; 0: no group */
	struct candidate *entries;
	size_t entry_count;
	struct run *runs;
	size_t run_count;
	struct wait *waits; /* of matched entries, as many at most */
	size_t wait_count;
	bool grouped, by_seq;
	bool unknown;   /* groups have no names, and there are several */
	uint64_t ranks; /* traces among the recordings */
};

/* ---- process groups of several recordings ---- */

/*
 * Which process groups of several recordings are one. A group is known by the list of its
 * ranks, where that is recorded: names are shared by groups of other ranks, such as the
 * rows of a mesh. Several groups of the same ranks in one recording differ by name as
 * well; without recorded ranks, name and size identify a group.
 */
struct known_group {
	struct fsdp_span ranks, name;
	int64_t size;
	size_t recording;
	uint32_t *id;
};

/* Numbers those of the same ranks, after `last`; returns the last number. */
static uint32_t number_same_ranks(struct known_group *list, size_t count, uint32_t last)
{
	struct fsdp_span ranks = list[0].ranks;
	/* PyTorch cuts long lists: "[0, 1, ..., 63]". */
	bool by_name =
		ranks.size == 0 || memmem(ranks.data, ranks.size, "...", 3) != NULL;
	for (size_t i = 1; i < count; i++)
		by_name |= list[i].recording == list[i - 1].recording &&
			   !fsdp_span_equal(list[i].name, list[i - 1].name);
	if (by_name)
		FSDP_SORT(list, count, FSDP_BY(list, name));
	for (size_t i = 0; i < count; i++) {
		last += i == 0 ||
			(by_name && !fsdp_span_equal(list[i].name, list[i - 1].name));
		*list[i].id = last;
	}
	return last;
}

/* ---- collectives ---- */

static int compare_keys(const struct candidate *left, const struct candidate *right)
{
	if (left->group != right->group)
		return left->group < right->group ? -1 : 1;
	if (left->line != right->line)
		return left->line < right->line ? -1 : 1;
	return left->key < right->key ? -1 : left->key > right->key;
}

static void sort_entries(struct candidate *list, size_t count)
{
	FSDP_SORT(list, count, FSDP_BY(list, group), FSDP_BY(list, line),
		FSDP_BY(list, key), FSDP_BY(list, recording), FSDP_BY(list, index));
}

/* A base that leads farther than any clock is none: differences of what is returned fit,
 * and ends do. */
static int64_t absolute(const struct fsdp_recording *recording, int64_t ts_ns)
{
	static const int64_t farthest = INT64_C(1) << 61;
	int64_t base = recording->base_ns != FSDP_ABSENT ? recording->base_ns : 0, sum;
	bool fits = !__builtin_add_overflow(ts_ns, base, &sum) && sum > -farthest &&
		    sum < farthest;
	return fits ? sum : ts_ns;
}

static struct candidate candidate_of(
	const struct matcher *matcher, uint32_t recording, uint32_t index)
{
	const struct fsdp_recording *of = matcher->recordings[recording];
	const struct fsdp_comm *comm = fsdp_comm_at(&of->collectives->list, index);
	struct candidate entry = { .recording = recording,
		.index = index,
		.group = matcher->groups[recording][comm->sort],
		.ts_ns = absolute(of, comm->ts_ns),
		.dur_ns = comm->dur_ns,
		.type = comm->type,
		.line = comm->type == FSDP_TIME_SEND_RECV ? LINE_POINTS
							  : LINE_COLLECTIVES };
	if (entry.group == 0 || comm->seq == 0)
		return entry;
	entry.numbered = (comm->seq & FSDP_COMM_NUMBER) != 0;
	if (entry.numbered)
		entry.key = comm->seq & ~FSDP_COMM_NUMBER;
	else
		entry.numbered = fsdp_decimal_integer(
			*(struct fsdp_span *)fsdp_vec_at(
				&of->collectives->seqs, comm->seq - 1),
			&entry.key);
	return entry;
}

/* A receive meets the send of the other rank. A kernel does not show which of the two it
 * is, and is as a collective of both. */
static unsigned char line_between(
	const struct matcher *matcher, const struct candidate *one)
{
	const struct fsdp_collectives *all =
		matcher->recordings[one->recording]->collectives;
	unsigned char way = fsdp_comm_at(&all->list, one->index)->way;
	if (way == FSDP_WAY_BOTH)
		return LINE_COLLECTIVES;
	bool is_first = one->recording == matcher->entries[0].recording;
	return is_first == (way == FSDP_WAY_SEND) ? LINE_FORTH : LINE_BACK;
}

/* How many ranks have the group of a transfer. */
static int64_t members_of(const struct matcher *matcher, const struct candidate *one)
{
	const struct fsdp_collectives *all =
		matcher->recordings[one->recording]->collectives;
	const struct fsdp_comm_sort *sort =
		fsdp_vec_at(&all->sorts, fsdp_comm_at(&all->list, one->index)->sort);
	return one->group != 0 && sort->group_size != FSDP_ABSENT
		       ? sort->group_size
		       : (int64_t)matcher->ranks;
}

/* Those that have a key; the others are skipped, of these `*ret_points` as transfers in
 * groups of more than two ranks. */
static uint64_t collect(struct matcher *matcher, uint64_t *ret_points)
{
	struct candidate *entries = matcher->entries;
	size_t count = 0, all = matcher->entry_count, at = 0;
	uint64_t points = 0;
	/* How they can be matched: by the best that any of them has. */
	for (uint32_t i = 0; i < matcher->recording_count; i++) {
		const struct fsdp_recording *recording = matcher->recordings[i];
		for (uint32_t j = 0; j < recording->collective_count; j++, at++) {
			entries[at] = candidate_of(matcher, i, j);
			matcher->grouped |= entries[at].group != 0;
			matcher->by_seq |= entries[at].numbered;
		}
		matcher->unknown |= recording->has_several_groups;
	}
	matcher->unknown &= !matcher->grouped;
	for (size_t i = 0; i < all && !matcher->unknown; i++) {
		struct candidate one = entries[i];
		if (matcher->by_seq ? !one.numbered : matcher->grouped && one.group == 0)
			continue;
		/* Each rank numbers its transfers itself: where there are more than two,
		 * equal numbers are not of one. */
		if (one.line == LINE_POINTS && members_of(matcher, &one) > 2) {
			points++;
			continue;
		}
		if (!matcher->grouped && one.line == LINE_POINTS)
			one.line = line_between(matcher, &one);
		one.key = matcher->by_seq ? one.key : 0;
		entries[count++] = one;
	}
	matcher->entry_count = count;
	sort_entries(entries, count);
	/* Without Seq the key is the place among those of the group. */
	for (size_t i = 0; !matcher->by_seq && i < count; i++) {
		bool same = i != 0 && entries[i].group == entries[i - 1].group &&
			    entries[i].line == entries[i - 1].line &&
			    entries[i].recording == entries[i - 1].recording;
		entries[i].key = same ? entries[i - 1].key + 1 : 0;
	}
	if (!matcher->by_seq)
		sort_entries(entries, count);
	*ret_points = points;
	return all - count;
}

/* The time that all ranks of a run spent, and which rank was last. */
static struct fsdp_match measure(struct matcher *matcher, const struct run *run)
{
	const struct candidate *entries = &matcher->entries[run->first];
	struct fsdp_collective first;
	int64_t early = INT64_MAX, late = INT64_MIN, end_early = INT64_MAX,
		end_late = INT64_MIN;
	size_t last = 0, foremost = 0;
	int64_t *ranks = FSDP_TAKE(matcher->arena, ranks, run->count);
	fsdp_recording_collective(
		matcher->recordings[entries->recording], entries->index, &first);
	struct fsdp_match match = { .index = (uint64_t)(run - matcher->runs),
		.type = first.type,
		.ranks = ranks,
		.rank_count = run->count,
		.transfer_ns = INT64_MAX,
		.bytes = first.bytes,
		.group_size = first.group_size };
	if (matcher->grouped)
		match.group = first.group;
	if (matcher->by_seq)
		match.seq = fsdp_arena_copy(matcher->arena, first.seq);
	for (size_t i = 0; i < run->count; i++) {
		int64_t dur = entries[i].dur_ns;
		int64_t begin = entries[i].ts_ns, end = begin + dur;
		ranks[i] = matcher->recordings[entries[i].recording]->rank;
		if (begin < early) {
			early = begin;
			foremost = i;
		}
		if (begin > late) {
			late = begin;
			last = i;
		}
		end_early = end < end_early ? end : end_early;
		end_late = end > end_late ? end : end_late;
		match.transfer_ns = dur < match.transfer_ns ? dur : match.transfer_ns;
		match.max_dur_ns = dur > match.max_dur_ns ? dur : match.max_dur_ns;
	}
	match.start_skew_ns = late - early;
	match.end_skew_ns = end_late - end_early;
	match.first_rank = ranks[foremost];
	match.last_rank = ranks[last];
	/* Where all begin together no rank is the last. */
	matcher->recordings[entries[last].recording]->times_last += late > early;
	for (size_t i = 0; i < run->count; i++) {
		int64_t begin = entries[i].ts_ns, wait = late - begin;
		/* It waits inside of the call. */
		wait = wait < entries[i].dur_ns ? wait : entries[i].dur_ns;
		matcher->waits[matcher->wait_count++] =
			(struct wait){ begin, begin + wait, entries[i].recording };
	}
	return match;
}

/* Whether the starts can be compared: the wait is inside of the call, and no longer than
 * the longest recording. */
static bool are_aligned(const struct matcher *matcher, struct fsdp_matching *matching)
{
	uint64_t impossible = 0;
	int64_t longest = 0, length;
	FSDP_EACH(i, matching->match_count, match, &matching->matches[i]) {
		impossible += match->start_skew_ns > match->max_dur_ns;
		if (match->start_skew_ns <= matching->most_skew_ns)
			continue;
		matching->most_skew_ns = match->start_skew_ns;
		matching->longest_skew = i;
	}
	for (size_t i = 0; i < matcher->recording_count; i++) {
		const struct fsdp_recording *one = matcher->recordings[i];
		if (one->first_ts_ns != FSDP_ABSENT &&
			!__builtin_sub_overflow(
				one->last_end_ns, one->first_ts_ns, &length) &&
			length > longest)
			longest = length;
	}
	return matching->most_skew_ns <= longest &&
	       impossible <= matching->match_count / 2;
}

/* How much of a time is within the steps of a recording, and all of it without steps.
 * *step is the first that may: times come in order. */
static int64_t inside_steps(
	const struct fsdp_recording *recording, int64_t begin, int64_t end, size_t *step)
{
	int64_t sum = 0;
	if (recording->step_count == 0)
		return end - begin;
	for (; *step < recording->step_count && begin < end; ++*step) {
		const struct fsdp_step *one = &recording->steps[*step];
		int64_t from = absolute(recording, one->ts_ns);
		int64_t to = absolute(recording, one->ts_ns + one->dur_ns);
		if (from >= end)
			break;
		if (to > end)
			return sum + end - (from > begin ? from : begin);
		if (to > begin)
			sum += to - (from > begin ? from : begin);
		begin = to > begin ? to : begin;
	}
	return sum;
}

/* The union of the waits of each rank: collectives that run at the same time count
 * once. */
static void sum_waits(struct matcher *matcher)
{
	const struct wait *last = NULL;
	int64_t end = 0;
	size_t step = 0;
	bool overflow = false;
	FSDP_SORT(matcher->waits, matcher->wait_count, FSDP_BY(matcher->waits, recording),
		FSDP_BY(matcher->waits, begin));
	FSDP_EACH(i, matcher->wait_count, one, &matcher->waits[i]) {
		struct fsdp_recording *recording = matcher->recordings[one->recording];
		bool same = last != NULL && last->recording == one->recording;
		bool joins = same && one->begin < end;
		int64_t begin = joins ? end : one->begin;
		last = one;
		if (joins && one->end <= end)
			continue;
		step = same ? step : 0;
		fsdp_sum_ns(&recording->wait_ns, one->end - begin, &overflow);
		fsdp_sum_ns(&recording->step_wait_ns,
			inside_steps(recording, begin, one->end, &step), &overflow);
		end = one->end;
	}
}

static void match_all(struct matcher *matcher, struct fsdp_matching *matching)
{
	matching->left_out = collect(matcher, &matching->point_count);
	matching->by = matcher->by_seq ? "seq" : matcher->grouped ? "group" : "position";
	/* Of several of one rank with the same key the last one counts. */
	struct candidate *entries = matcher->entries;
	size_t kept = 0;
	for (size_t i = 0; i < matcher->entry_count; i++) {
		if (kept != 0 && compare_keys(&entries[kept - 1], &entries[i]) == 0 &&
			entries[kept - 1].recording == entries[i].recording)
			kept--;
		entries[kept++] = entries[i];
	}
	for (size_t i = 0; i < kept; i++) {
		if (i == 0 || compare_keys(&entries[i - 1], &entries[i]) != 0) {
			matcher->runs[matcher->run_count++] =
				(struct run){ i, 1, entries[i].ts_ns };
			continue;
		}
		struct run *last = &matcher->runs[matcher->run_count - 1];
		last->count++;
		if (entries[i].ts_ns < last->ts_ns)
			last->ts_ns = entries[i].ts_ns;
	}
	/* Runs were made in order of keys, which decides between equal times. */
	FSDP_SORT(matcher->runs, matcher->run_count, FSDP_BY(matcher->runs, ts_ns),
		FSDP_BY(matcher->runs, first));
	struct fsdp_match *matches =
		FSDP_TAKE(matcher->arena, matches, matcher->run_count);
	matching->matches = matches;
	FSDP_EACH(i, matcher->run_count, run, &matcher->runs[i]) {
		bool all = run->count == matcher->ranks, same = true;
		for (size_t j = 1; j < run->count; j++)
			same &= entries[run->first].type == entries[run->first + j].type;
		if (!matcher->grouped && (!all || !same)) {
			matching->stopped = (int64_t)i;
			matching->stopped_why = all ? "type" : "missing";
			break;
		}
		if (run->count >= 2 && same)
			matches[matching->match_count++] = measure(matcher, run);
	}
	/* Of what is not matched no wait is known. */
	matching->aligned = (matching->match_count != 0 || matching->left_out == 0) &&
			    are_aligned(matcher, matching);
	if (matching->aligned) {
		sum_waits(matcher);
		/* The rank that makes the others wait waits least itself, less than half
		 * of what they wait on average; of equals the one that was last more
		 * often. */
		const struct fsdp_recording *least = NULL;
		wide all = 0;
		for (size_t i = 0; i < matcher->recording_count; i++) {
			const struct fsdp_recording *one = matcher->recordings[i];
			if (one->kind != FSDP_RECORDING_KINETO)
				continue;
			all += (uint64_t)one->wait_ns;
			if (least == NULL || one->wait_ns < least->wait_ns ||
				(one->wait_ns == least->wait_ns &&
					one->times_last > least->times_last))
				least = one;
		}
		if (least != NULL && matching->match_count != 0 &&
			(wide)(uint64_t)least->wait_ns * (2 * (matcher->ranks - 1) + 1) <
				all)
			matching->straggler = least->rank;
	}
	for (size_t i = 0; !matching->aligned && i < matcher->recording_count; i++)
		matcher->recordings[i]->times_last = 0;
}

void fsdp_match_collectives(struct fsdp_joined *joined)
{
	struct matcher matcher = { .recordings = joined->by_rank,
		.recording_count = joined->count,
		.arena = joined->arena,
		.scratch = joined->scratch };
	bool whole = true;
	joined->said.matching = (struct fsdp_matching){
		.stopped = FSDP_ABSENT, .straggler = FSDP_ABSENT, .aligned = true
	};
	for (size_t i = 0; i < joined->count; i++) {
		whole &= !joined->by_rank[i]->interrupted;
		matcher.ranks += joined->by_rank[i]->kind == FSDP_RECORDING_KINETO;
		matcher.entry_count += joined->by_rank[i]->collective_count;
	}
	if (matcher.ranks < 2 || !whole)
		return;
	matcher.entries =
		FSDP_TAKE(matcher.scratch, matcher.entries, matcher.entry_count);
	matcher.runs = FSDP_TAKE(matcher.scratch, matcher.runs, matcher.entry_count);
	matcher.waits = FSDP_TAKE(matcher.scratch, matcher.waits, matcher.entry_count);
	size_t total = 0, kept = 0;
	uint32_t last = 0;
	for (size_t i = 0; i < matcher.recording_count; i++)
		if (matcher.recordings[i]->collectives != NULL)
			total += matcher.recordings[i]->collectives->sorts.count;
	struct known_group *list = FSDP_TAKE(matcher.scratch, list, total);
	uint32_t *id = FSDP_TAKE(matcher.scratch, id, total);
	matcher.groups =
		FSDP_TAKE(matcher.scratch, matcher.groups, matcher.recording_count);
	for (size_t i = 0; i < matcher.recording_count; i++) {
		const struct fsdp_collectives *all = matcher.recordings[i]->collectives;
		matcher.groups[i] = id;
		for (size_t j = 0; all != NULL && j < all->sorts.count; j++, id++) {
			const struct fsdp_comm_sort *sort = fsdp_vec_at(&all->sorts, j);
			list[kept] = (struct known_group){ sort->ranks, sort->group,
				sort->group_size, i, id };
			kept += sort->group.data != NULL || sort->ranks.data != NULL;
		}
	}
	FSDP_SORT(list, kept, FSDP_BY(list, ranks), FSDP_BY(list, size),
		FSDP_BY(list, recording), FSDP_BY(list, name));
	for (size_t i = 0, next; i < kept; i = next) {
		for (next = i + 1;
			next < kept && list[i].size == list[next].size &&
			fsdp_span_compare(list[i].ranks, list[next].ranks) == 0;)
			next++;
		last = number_same_ranks(&list[i], next - i, last);
	}
	match_all(&matcher, &joined->said.matching);
}

/* ---- bandwidths ---- */

/* a / b with six decimals, halves up. */
static double quotient(wide a, wide b)
{
	return (double)((2 * a * 1000000 + b) / (2 * b)) / 1000000;
}

bool fsdp_bandwidth(const struct fsdp_span *type, int64_t bytes, int64_t group_size,
	int64_t ns, double *ret_algbw, double *ret_busbw)
{
	enum fsdp_time_type what = fsdp_time_type_of(*type);
	*ret_algbw = *ret_busbw = -1;
	/* 2 bytes (n - 1) × 10^6 fits 128 bits by far. */
	if (bytes == FSDP_ABSENT || bytes < 0 || ns <= 0 || group_size == FSDP_ABSENT ||
		group_size <= 0 || group_size > UINT32_MAX)
		return false;
	wide size = (uint64_t)bytes, n = (uint64_t)group_size, time = (uint64_t)ns;
	*ret_algbw = quotient(size, time);
	if (what == FSDP_TIME_ALL_REDUCE)
		*ret_busbw = quotient(size * 2 * (n - 1), time * n);
	else if (what == FSDP_TIME_ALL_GATHER || what == FSDP_TIME_REDUCE_SCATTER ||
		 what == FSDP_TIME_ALL_TO_ALL)
		*ret_busbw = quotient(size * (n - 1), time * n);
	else if (what == FSDP_TIME_BROADCAST || what == FSDP_TIME_REDUCE)
		*ret_busbw = quotient(size, time);
	return true;
}

/*
 * Keeps the collectives of a trace in little room, and shows them as they were.
 */

static int64_t computed_until(const struct fsdp_recording *one, int64_t ns)
{
	size_t low = 0, high = one->computing_count;
	FSDP_HALVE(low, high, middle, one->computing[middle].begin_ns < ns);
	if (low == 0)
		return 0;
	const struct fsdp_busy_span *last = &one->computing[low - 1];
	return one->computed_ns[low - 1] + (last->end_ns < ns ? last->end_ns : ns) -
	       last->begin_ns;
}

int64_t fsdp_computed(
	const struct fsdp_recording *recording, int64_t begin_ns, int64_t end_ns)
{
	return computed_until(recording, end_ns) - computed_until(recording, begin_ns);
}

int64_t fsdp_comm_exposed(
	const struct fsdp_recording *recording, const struct fsdp_comm *comm)
{
	return comm->dur_ns -
	       fsdp_computed(recording, comm->ts_ns, comm->ts_ns + comm->dur_ns);
}

void fsdp_recording_collective(const struct fsdp_recording *recording, size_t index,
	struct fsdp_collective *ret_collective)
{
	const struct fsdp_collectives *all = recording->collectives;
	const struct fsdp_comm *comm = fsdp_comm_at(&all->list, index);
	const struct fsdp_comm_sort *sort = fsdp_vec_at(&all->sorts, comm->sort);
	struct fsdp_collective *one = ret_collective;
	const struct fsdp_step *steps = recording->steps;
	size_t low = 0, high = recording->step_count;
	FSDP_HALVE(low, high, middle, steps[middle].ts_ns <= comm->host_ns);
	bool in_step =
		low != 0 && comm->host_ns < steps[low - 1].ts_ns + steps[low - 1].dur_ns;
	*one = (struct fsdp_collective){ .ts_ns = comm->ts_ns,
		.dur_ns = comm->dur_ns,
		.type = fsdp_time_type_name((enum fsdp_time_type)comm->type),
		.how = (enum fsdp_collective_source)comm->how,
		.group = sort->group,
		.ranks = sort->ranks,
		.bytes = comm->bytes,
		.group_size = sort->group_size,
		.exposed_ns = recording->layer == FSDP_LAYER_DEVICE
				      ? fsdp_comm_exposed(recording, comm)
				      : FSDP_ABSENT,
		.step = in_step ? steps[low - 1].step : FSDP_ABSENT };
	if ((comm->seq & FSDP_COMM_NUMBER) != 0) {
		snprintf(one->digits, sizeof one->digits, "%u",
			(unsigned)(comm->seq & ~FSDP_COMM_NUMBER));
		one->seq = fsdp_span_text(one->digits);
	} else if (comm->seq != 0) {
		one->seq = *(struct fsdp_span *)fsdp_vec_at(&all->seqs, comm->seq - 1);
	}
}
