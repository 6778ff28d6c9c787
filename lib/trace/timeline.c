/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts time into cells and finds what fills most of each.
 */
#include "trace/timeline.h"

__extension__ typedef __int128 wide;

bool fsdp_strip_init(struct fsdp_strip *strip, int64_t begin_ns, int64_t end_ns,
	struct fsdp_arena *arena)
{
	*strip = (struct fsdp_strip){ .begin_ns = begin_ns, .end_ns = end_ns };
	strip->sums = FSDP_TAKE(arena, strip->sums, FSDP_STRIP_CELLS);
	if (strip->sums == NULL)
		return false;
	strip->cell_ns = (end_ns - begin_ns - 1) / FSDP_STRIP_CELLS + 1;
	return true;
}

/* Where a cell ends that begins there. */
static int64_t cell_end(const struct fsdp_strip *strip, int64_t begin)
{
	return begin > strip->end_ns - strip->cell_ns ? strip->end_ns
						      : begin + strip->cell_ns;
}

void fsdp_strip_add(struct fsdp_strip *strip, unsigned type, int64_t begin, int64_t end)
{
	if (begin < strip->begin_ns)
		begin = strip->begin_ns;
	if (end > strip->end_ns)
		end = strip->end_ns;
	while (begin < end) {
		int64_t cell = (begin - strip->begin_ns) / strip->cell_ns;
		int64_t next = cell_end(strip, strip->begin_ns + cell * strip->cell_ns);
		int64_t to = next < end ? next : end;
		int64_t *sum = &strip->sums[cell][type];
		if (__builtin_add_overflow(*sum, to - begin, sum))
			*sum = INT64_MAX;
		begin = to;
	}
}

void fsdp_strip_settle_idle(struct fsdp_strip *strip)
{
	int64_t begin = strip->begin_ns;
	for (size_t i = 0; i < FSDP_STRIP_CELLS && begin < strip->end_ns; i++) {
		int64_t end = cell_end(strip, begin);
		strip->sums[i][FSDP_STRIP_IDLE] =
			end - begin - strip->sums[i][FSDP_STRIP_IDLE];
		begin = end;
	}
}

/* ---- the axis of all ---- */

enum { CELLS = 60 };

struct sums_cell {
	wide sums[FSDP_STRIP_TYPES];
};

/* Its part of each cell of the axis, as if what is in a cell were spread evenly. */
static void spread(const struct fsdp_strip *strip, int64_t shift, int64_t cell_ns,
	struct sums_cell cells[CELLS])
{
	int64_t begin = strip->begin_ns;
	for (size_t i = 0; i < FSDP_STRIP_CELLS && begin < strip->end_ns; i++) {
		int64_t end = cell_end(strip, begin), from = begin;
		while (from < end) {
			int64_t cell = (from - shift) / cell_ns;
			int64_t next = shift + (cell + 1) * cell_ns;
			int64_t to = next < end ? next : end;
			for (int type = 0; type < FSDP_STRIP_TYPES; type++)
				cells[cell].sums[type] += (wide)strip->sums[i][type] *
							  (to - from) / (end - begin);
			from = to;
		}
		begin = end;
	}
}

static struct fsdp_span most_of(const struct sums_cell *cell)
{
	unsigned most = FSDP_STRIP_TYPES;
	for (unsigned type = 0; type < FSDP_STRIP_TYPES; type++)
		if (cell->sums[type] > 0 &&
			(most == FSDP_STRIP_TYPES || cell->sums[type] > cell->sums[most]))
			most = type;
	if (most == FSDP_STRIP_TYPES)
		return (struct fsdp_span){ 0 };
	return most == FSDP_STRIP_IDLE ? FSDP_SPAN("idle")
				       : fsdp_time_type_name((enum fsdp_time_type)most);
}

static bool show(struct fsdp_recording *recording, const struct fsdp_strip *strip,
	int64_t shift, int64_t cell_ns, struct fsdp_arena *arena)
{
	struct sums_cell cells[CELLS] = { { { 0 } } };
	struct fsdp_span *names = FSDP_TAKE(arena, names, CELLS);
	if (names == NULL)
		return false;
	spread(strip, shift, cell_ns, cells);
	for (size_t i = 0; i < CELLS; i++)
		names[i] = most_of(&cells[i]);
	recording->timeline = names;
	return true;
}

static int64_t base_of(const struct fsdp_recording *recording)
{
	return recording->base_ns != FSDP_ABSENT ? recording->base_ns : 0;
}

bool fsdp_timeline_make(struct fsdp_recording *const *recordings,
	const struct fsdp_strip *const *strips, size_t count, bool clocks_agree,
	struct fsdp_arena *arena, struct fsdp_timeline *ret_timeline)
{
	int64_t first = 0, last = 0, begin, end;
	bool any = false, aligned = clocks_agree;
	*ret_timeline = (struct fsdp_timeline){ .begin_ns = FSDP_ABSENT };
	for (size_t i = 0; i < count; i++)
		aligned &= strips[i]->cell_ns == 0 || count == 1 ||
			   recordings[i]->base_ns != FSDP_ABSENT;
	for (size_t i = 0; i < count; i++) {
		int64_t shift = aligned ? base_of(recordings[i]) : -strips[i]->begin_ns;
		if (strips[i]->cell_ns == 0)
			continue;
		/* What does not fit 64 bits is no time that a clock has. */
		if (__builtin_add_overflow(strips[i]->begin_ns, shift, &begin) ||
			__builtin_add_overflow(strips[i]->end_ns, shift, &end))
			return true;
		first = !any || begin < first ? begin : first;
		last = !any || end > last ? end : last;
		any = true;
	}
	int64_t span;
	if (!any || __builtin_sub_overflow(last, first, &span) || span > INT64_MAX / 2)
		return true;
	int64_t cell_ns = (span - 1) / CELLS + 1;
	for (size_t i = 0; i < count; i++) {
		int64_t shift = strips[i]->begin_ns;
		if (aligned &&
			__builtin_sub_overflow(first, base_of(recordings[i]), &shift))
			return true;
		if (strips[i]->cell_ns != 0 &&
			!show(recordings[i], strips[i], shift, cell_ns, arena))
			return false;
	}
	ret_timeline->begin_ns = aligned ? first : FSDP_ABSENT;
	ret_timeline->cell_ns = cell_ns;
	ret_timeline->cell_count = CELLS;
	return true;
}
