/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the collectives of several ranks on one clock.
 */
#include <stdlib.h>
#include <string.h>

#include <fsdp/trace.h>

#include "base/error.h"

/* A collective of one rank. Those with one key are one collective of several. */
struct aligned_call {
	uint64_t key;
	uint32_t recording, collective;
	int64_t end_ns;
};

struct delta {
	uint32_t recording;
	int64_t ns;
};

struct fsdp_alignment {
	const struct fsdp_recordings *set;
	size_t count;             /* of recordings */
	size_t *firsts;           /* by recording: its first wait */
	int64_t *offsets;         /* by recording */
	bool *aligned;            /* by recording */
	size_t *clocks;           /* by recording: the first that shares its clock */
	int64_t *waits;           /* by recording and collective */
	struct aligned_call *all; /* by key, then recording; while it is made */
	size_t all_count;
	struct delta *deltas;
	int64_t span_ns;
};

/* Times are claims of files: what does not fit wraps around, and is drawn nowhere. */
static int64_t plus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t minus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a - (uint64_t)b);
}

/* ---- which collectives are one ---- */

static uint64_t mix_bytes(uint64_t hash, const void *data, size_t size)
{
	const unsigned char *bytes = data;
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3u;
	return (hash ^ size) * 0x9e3779b97f4a7c15u;
}

/* So many of one type and group came before, in a recording. */
struct ordinal {
	uint64_t kind, count;
};

enum { ORDINALS = 1024 };

static uint64_t next_ordinal(struct ordinal *ordinals, uint64_t kind)
{
	size_t at = kind % ORDINALS;
	for (size_t i = 0; i < ORDINALS; i++, at = (at + 1) % ORDINALS) {
		if (ordinals[at].count == 0)
			ordinals[at].kind = kind;
		if (ordinals[at].kind == kind)
			return ordinals[at].count++;
	}
	return 0;
}

static void take_recording(
	struct fsdp_alignment *alignment, uint32_t index, struct ordinal *ordinals)
{
	const struct fsdp_recording *one = fsdp_recording(alignment->set, index);
	memset(ordinals, 0, ORDINALS * sizeof *ordinals);
	for (size_t i = 0; i < one->collective_count; i++) {
		struct fsdp_collective collective;
		fsdp_recording_collective(one, i, &collective);
		uint64_t kind = mix_bytes(0, collective.type.data, collective.type.size);
		kind = mix_bytes(kind, collective.group.data, collective.group.size);
		kind = mix_bytes(kind, collective.ranks.data, collective.ranks.size);
		uint64_t ordinal = next_ordinal(ordinals, kind);
		struct aligned_call *shared = &alignment->all[alignment->all_count++];
		*shared = (struct aligned_call){ .recording = index,
			.collective = (uint32_t)i,
			.end_ns = plus(collective.ts_ns, collective.dur_ns) };
		shared->key = collective.seq.size != 0
				      ? mix_bytes(kind, collective.seq.data,
						collective.seq.size)
				      : mix_bytes(kind, &ordinal, sizeof ordinal);
	}
}

static int compare_shared(const void *a, const void *b)
{
	const struct aligned_call *left = a, *right = b;
	if (left->key != right->key)
		return left->key < right->key ? -1 : 1;
	if (left->recording != right->recording)
		return left->recording < right->recording ? -1 : 1;
	return left->collective < right->collective
		       ? -1
		       : left->collective > right->collective;
}

/* Behind the last that has the key of this one. */
static size_t end_of_group(const struct fsdp_alignment *alignment, size_t first)
{
	size_t end = first + 1;
	while (end < alignment->all_count &&
		alignment->all[end].key == alignment->all[first].key)
		end++;
	return end;
}

/* ---- offsets ---- */

static int compare_deltas(const void *a, const void *b)
{
	const struct delta *left = a, *right = b;
	if (left->recording != right->recording)
		return left->recording < right->recording ? -1 : 1;
	return left->ns < right->ns ? -1 : left->ns > right->ns;
}

/* What would bring the ends of those that are not aligned to the end of one that is. */
static size_t collect_deltas(struct fsdp_alignment *alignment)
{
	size_t count = 0, end;
	for (size_t first = 0; first < alignment->all_count; first = end) {
		const struct aligned_call *known = NULL;
		end = end_of_group(alignment, first);
		for (size_t i = first; i < end && known == NULL; i++)
			if (alignment->aligned[alignment->all[i].recording])
				known = &alignment->all[i];
		for (size_t i = first; known != NULL && i < end; i++) {
			const struct aligned_call *one = &alignment->all[i];
			if (!alignment->aligned[one->recording])
				alignment->deltas[count++] =
					(struct delta){ one->recording,
						minus(plus(known->end_ns,
							      alignment->offsets
								      [known->recording]),
							one->end_ns) };
		}
	}
	return count;
}

/* The median of each. */
static void use_deltas(struct fsdp_alignment *alignment, size_t count, size_t clock)
{
	qsort(alignment->deltas, count, sizeof *alignment->deltas, compare_deltas);
	for (size_t i = 0, end; i < count; i = end) {
		uint32_t recording = alignment->deltas[i].recording;
		for (end = i;
			end < count && alignment->deltas[end].recording == recording;)
			end++;
		alignment->offsets[recording] = alignment->deltas[i + (end - i) / 2].ns;
		alignment->aligned[recording] = true;
		alignment->clocks[recording] = clock;
	}
}

/* Ranks that share no group meet by others that share one with both. What shares nothing
 * begins where the first one does. */
static void align(struct fsdp_alignment *alignment)
{
	for (size_t begun = 0; begun < alignment->count; begun++) {
		if (alignment->aligned[begun])
			continue;
		alignment->aligned[begun] = true;
		alignment->clocks[begun] = begun;
		int64_t first = fsdp_recording(alignment->set, begun)->first_ts_ns;
		alignment->offsets[begun] = first != FSDP_ABSENT ? minus(0, first) : 0;
		size_t count;
		while ((count = collect_deltas(alignment)) != 0)
			use_deltas(alignment, count, begun);
	}
}

/* From now on times count from the first start of all. */
static void begin_at_zero(struct fsdp_alignment *alignment)
{
	int64_t begin = INT64_MAX, end = INT64_MIN;
	for (size_t i = 0; i < alignment->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(alignment->set, i);
		int64_t first = plus(one->first_ts_ns, alignment->offsets[i]);
		int64_t last = plus(one->last_end_ns, alignment->offsets[i]);
		if (one->first_ts_ns == FSDP_ABSENT || one->last_end_ns == FSDP_ABSENT)
			continue;
		begin = first < begin ? first : begin;
		end = last > end ? last : end;
	}
	for (size_t i = 0; i < alignment->count && begin <= end; i++)
		alignment->offsets[i] = minus(alignment->offsets[i], begin);
	alignment->span_ns = begin <= end ? minus(end, begin) : 0;
}

/* ---- waits ---- */

static int64_t begin_of(const struct fsdp_alignment *alignment,
	const struct aligned_call *one, int64_t *ret_dur)
{
	struct fsdp_collective collective;
	fsdp_recording_collective(fsdp_recording(alignment->set, one->recording),
		one->collective, &collective);
	*ret_dur = collective.dur_ns;
	return plus(collective.ts_ns, alignment->offsets[one->recording]);
}

static void find_waits(struct fsdp_alignment *alignment)
{
	size_t end;
	for (size_t first = 0; first < alignment->all_count; first = end) {
		int64_t last = INT64_MIN, dur;
		end = end_of_group(alignment, first);
		for (size_t i = first; i < end; i++) {
			int64_t begin = begin_of(alignment, &alignment->all[i], &dur);
			last = begin > last ? begin : last;
		}
		for (size_t i = first; i < end; i++) {
			const struct aligned_call *one = &alignment->all[i];
			int64_t wait = minus(last, begin_of(alignment, one, &dur));
			alignment->waits[alignment->firsts[one->recording] +
					 one->collective] = wait < dur ? wait : dur;
		}
	}
}

/* ---- the whole ---- */

static bool make(struct fsdp_alignment *alignment)
{
	struct ordinal *ordinals = calloc(ORDINALS, sizeof *ordinals);
	if (ordinals == NULL)
		return false;
	for (size_t i = 0; i < alignment->count; i++)
		take_recording(alignment, (uint32_t)i, ordinals);
	free(ordinals);
	qsort(alignment->all, alignment->all_count, sizeof *alignment->all,
		compare_shared);
	align(alignment);
	begin_at_zero(alignment);
	find_waits(alignment);
	return true;
}

/* What is needed while it is made. */
static void let_go(struct fsdp_alignment *alignment)
{
	free(alignment->all);
	free(alignment->deltas);
	free(alignment->aligned);
	alignment->all = NULL;
	alignment->deltas = NULL;
	alignment->aligned = NULL;
}

bool fsdp_alignment_new(const struct fsdp_recordings *recordings,
	struct fsdp_alignment **ret_alignment, struct fsdp_error **ret_error)
{
	struct fsdp_alignment *alignment = calloc(1, sizeof *alignment);
	size_t all = 0;
	if (alignment == NULL)
		return fsdp_fail_memory(ret_error);
	alignment->set = recordings;
	alignment->count = fsdp_recording_count(recordings);
	alignment->firsts = calloc(alignment->count + 1, sizeof *alignment->firsts);
	for (size_t i = 0; alignment->firsts != NULL && i < alignment->count; i++) {
		alignment->firsts[i] = all;
		all += fsdp_recording(recordings, i)->collective_count;
		alignment->firsts[i + 1] = all;
	}
	alignment->offsets = calloc(alignment->count + 1, sizeof *alignment->offsets);
	alignment->clocks = calloc(alignment->count + 1, sizeof *alignment->clocks);
	alignment->aligned = calloc(alignment->count + 1, sizeof *alignment->aligned);
	alignment->waits = calloc(all + 1, sizeof *alignment->waits);
	alignment->all = calloc(all + 1, sizeof *alignment->all);
	alignment->deltas = calloc(all + 1, sizeof *alignment->deltas);
	bool good = alignment->firsts != NULL && alignment->offsets != NULL &&
		    alignment->clocks != NULL && alignment->aligned != NULL &&
		    alignment->waits != NULL && alignment->all != NULL &&
		    alignment->deltas != NULL && make(alignment);
	let_go(alignment);
	if (!good) {
		fsdp_alignment_free(alignment);
		return fsdp_fail_memory(ret_error);
	}
	*ret_alignment = alignment;
	return true;
}

void fsdp_alignment_free(struct fsdp_alignment *alignment)
{
	if (alignment == NULL)
		return;
	let_go(alignment);
	free(alignment->firsts);
	free(alignment->offsets);
	free(alignment->clocks);
	free(alignment->waits);
	free(alignment);
}

int64_t fsdp_alignment_offset(const struct fsdp_alignment *alignment, size_t recording)
{
	return recording < alignment->count ? alignment->offsets[recording] : 0;
}

size_t fsdp_alignment_clock(const struct fsdp_alignment *alignment, size_t recording)
{
	return recording < alignment->count ? alignment->clocks[recording] : 0;
}

int64_t fsdp_alignment_wait(
	const struct fsdp_alignment *alignment, size_t recording, size_t collective)
{
	if (recording >= alignment->count ||
		collective >=
			alignment->firsts[recording + 1] - alignment->firsts[recording])
		return 0;
	return alignment->waits[alignment->firsts[recording] + collective];
}

int64_t fsdp_alignment_span(const struct fsdp_alignment *alignment)
{
	return alignment->span_ns;
}
