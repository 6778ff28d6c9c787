/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the collectives of each process group cost, by type and size of the message: their
 * time, what of it nothing hides, and the bandwidth they reach.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/replay/replay-data.h"
#include "session/diagnostics.h"

/* Calls of one type and size in one group, over all ranks of a run. */
struct replay_group {
	struct fsdp_span group, type; /* group absent: it is not recorded */
	int64_t bytes, group_size;    /* of one call; or FSDP_ABSENT */
	uint64_t count;
	int64_t ns, exposed_ns; /* exposed FSDP_ABSENT: no kernels tell */
	uint64_t run;
	double algbw, busbw; /* below 0: there is no such number */
};

/* ---- one recording ---- */

/* How long a device computed up to each of its busy times. */
struct computed {
	const struct fsdp_recording *recording;
	int64_t *before;
};

static bool computed_init(
	struct computed *computed, const struct fsdp_recording *recording)
{
	computed->recording = recording;
	computed->before =
		calloc(recording->computing_count + 1, sizeof *computed->before);
	if (computed->before == NULL)
		return false;
	for (size_t i = 0; i < recording->computing_count; i++)
		computed->before[i + 1] = computed->before[i] +
					  recording->computing[i].end_ns -
					  recording->computing[i].begin_ns;
	return true;
}

/* Up to a moment. */
static int64_t computed_until(const struct computed *computed, int64_t ns)
{
	const struct fsdp_busy_span *spans = computed->recording->computing;
	size_t low = 0, high = computed->recording->computing_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (spans[middle].begin_ns < ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return 0;
	return computed->before[low] -
	       (spans[low - 1].end_ns > ns ? spans[low - 1].end_ns - ns : 0);
}

static int compare_keys(const void *a, const void *b)
{
	const struct replay_group *left = a, *right = b;
	int order = compare_spans(left->group, right->group);

	if (order == 0)
		order = compare_spans(left->type, right->type);
	if (order == 0 && left->bytes != right->bytes)
		order = left->bytes < right->bytes ? -1 : 1;
	if (order == 0 && left->group_size != right->group_size)
		order = left->group_size < right->group_size ? -1 : 1;
	return order;
}

/* Adds up neighbours that are alike. Returns how many are left. */
static size_t compact(struct replay_group *groups, size_t count)
{
	size_t kept = 0;

	if (count > 1)
		qsort(groups, count, sizeof *groups, compare_keys);
	for (size_t i = 0; i < count; i++) {
		struct replay_group *last = kept != 0 ? &groups[kept - 1] : NULL;
		if (last == NULL || compare_keys(last, &groups[i]) != 0) {
			groups[kept++] = groups[i];
			continue;
		}
		last->count += groups[i].count;
		if (__builtin_add_overflow(last->ns, groups[i].ns, &last->ns))
			last->ns = INT64_MAX;
		if (last->exposed_ns == FSDP_ABSENT ||
			groups[i].exposed_ns == FSDP_ABSENT)
			last->exposed_ns = FSDP_ABSENT;
		else if (__builtin_add_overflow(last->exposed_ns, groups[i].exposed_ns,
				 &last->exposed_ns))
			last->exposed_ns = INT64_MAX;
	}
	return kept;
}

/* Puts those of a recording behind those that are there. */
static bool add_recording(const struct fsdp_recording *recording,
	struct replay_group **groups, size_t *count)
{
	bool device = recording->layer == FSDP_LAYER_DEVICE;
	struct replay_group *more = realloc(
		*groups, (*count + recording->collective_count + 1) * sizeof *more);
	struct computed computed;

	if (more == NULL)
		return false;
	*groups = more;
	if (!computed_init(&computed, recording))
		return false;
	for (size_t i = 0; i < recording->collective_count; i++) {
		struct fsdp_collective one;
		fsdp_recording_collective(recording, i, &one);
		more[*count + i] = (struct replay_group){ .group = one.group,
			.type = one.type,
			.bytes = one.bytes,
			.group_size = one.group_size,
			.count = 1,
			.ns = one.dur_ns,
			.exposed_ns =
				device ? one.dur_ns -
						 computed_until(&computed,
							 one.ts_ns + one.dur_ns) +
						 computed_until(&computed, one.ts_ns)
				       : FSDP_ABSENT };
	}
	*count = compact(more, *count + recording->collective_count);
	free(computed.before);
	return true;
}

/* ---- all ---- */

static int compare_times(const void *a, const void *b)
{
	const struct replay_group *left = a, *right = b;

	if (left->ns != right->ns)
		return left->ns > right->ns ? -1 : 1;
	return compare_keys(a, b);
}

/* Of all calls together. */
static void find_bandwidth(struct replay_group *one)
{
	char digits[2][32] = { "", "" };
	int64_t bytes;

	if (one->bytes == FSDP_ABSENT || one->count > INT64_MAX ||
		__builtin_mul_overflow(one->bytes, (int64_t)one->count, &bytes) ||
		!fsdp_bandwidth(&one->type, bytes, one->group_size, one->ns, digits[0],
			digits[1]))
		digits[0][0] = digits[1][0] = '\0';
	one->algbw = digits[0][0] != '\0' ? strtod(digits[0], NULL) : -1;
	one->busbw = digits[1][0] != '\0' ? strtod(digits[1], NULL) : -1;
}

/* NULL: out of memory. */
static struct replay_group *groups_of(const struct replay *run, size_t *ret_count)
{
	struct replay_group *groups = calloc(1, sizeof *groups);
	bool good = groups != NULL;

	*ret_count = 0;
	for (size_t i = 0; good && i < run->count; i++)
		good = add_recording(replay_by_rank(run, i), &groups, ret_count);
	if (!good) {
		free(groups);
		return NULL;
	}
	if (*ret_count > 1)
		qsort(groups, *ret_count, sizeof *groups, compare_times);
	for (size_t i = 0; i < *ret_count; i++) {
		groups[i].run = run->nth;
		find_bandwidth(&groups[i]);
	}
	return groups;
}

bool replay_find_groups(struct replay *replay)
{
	for (size_t i = 0; i < replay->run_count; i++) {
		struct replay run = replay_run(replay, i);
		size_t count;
		struct replay_group *more, *groups = groups_of(&run, &count);
		if (groups == NULL)
			return false;
		more = realloc(
			replay->groups, (replay->group_count + count + 1) * sizeof *more);
		if (more != NULL) {
			memcpy(more + replay->group_count, groups, count * sizeof *more);
			replay->groups = more;
			replay->group_count += count;
		}
		free(groups);
		if (more == NULL)
			return false;
	}
	return true;
}

struct fsdp_span replay_most_exposed(struct replay *run)
{
	/* Types are those of a table of the library. */
	struct type_loss {
		struct fsdp_span type;
		double ns;
	} losses[32] = { 0 }, *most = &losses[0];
	size_t count = 0, at;

	if (run->group_count == 0 && !replay_find_groups(run)) {
		run->run->collected->out_of_memory = true;
		return most->type;
	}
	for (size_t i = 0; i < run->group_count; i++) {
		const struct replay_group *one = &run->groups[i];

		for (at = 0;
			at < count && compare_spans(losses[at].type, one->type) != 0;)
			at++;
		if (at == sizeof losses / sizeof *losses || one->exposed_ns <= 0)
			continue;
		losses[at].type = one->type;
		losses[at].ns += (double)one->exposed_ns;
		count += at == count;
		if (losses[at].ns > most->ns)
			most = &losses[at];
	}
	return most->type;
}

/* ---- for machines ---- */

static bool has_algbw(struct subject of)
{
	return ((const struct replay_group *)of.object)->algbw >= 0;
}

static bool has_busbw(struct subject of)
{
	return ((const struct replay_group *)of.object)->busbw >= 0;
}

static bool has_runs(struct subject of)
{
	return replay_has_runs(of);
}

#define GROUP struct replay_group
static const struct record group_record = OBJECT_RECORD(GROUP, "group_times",
	"Collectives of one type and message size in one process group, over all ranks and steps.",
	{ "group", TEXT_AT(GROUP, group), .null = true,
		.about = "The process group; null where it is not recorded." },
	{ "run", COUNT_AT(GROUP, run), .has = has_runs,
		.about = "Of several recordings of each rank, which run it is, from 1." },
	{ "type", TEXT_AT(GROUP, type), .always = true, .about = "The collective." },
	{ "bytes", INTEGER_AT(GROUP, bytes), .null = true,
		.about =
			"Bytes of one call: of the output of an all-gather, of the input of others." },
	{ "group_size", INTEGER_AT(GROUP, group_size), .null = true,
		.about = "Number of ranks of the group." },
	{ "count", COUNT_AT(GROUP, count), .always = true,
		.about = "Number of calls on all ranks." },
	{ "sum_ns", NS_AT(GROUP, ns), .always = true, .about = "Their time." },
	{ "exposed_ns", NS_AT(GROUP, exposed_ns), .null = true,
		.about = "Of that, while nothing computes; null without kernels." },
	{ "algbw_GBps", NUMBER_AT(GROUP, algbw), .has = has_algbw,
		.about = "Bytes of all calls by their time, in 10^9 bytes a second." },
	{ "busbw_GBps", NUMBER_AT(GROUP, busbw), .has = has_busbw,
		.about = "The same for the bus." });

static const void *each_group(struct subject of, size_t i, void *room)
{
	const struct replay *replay = of.context;

	(void)room;
	return i < replay->group_count ? &replay->groups[i] : NULL;
}

const struct record replay_groups = RECORD_OF(RECORD_OBJECT, struct replay,
	{ "groups", EACH(each_group, group_record), .always = true,
		.about =
			"With `--by=group`: by process group, type and message size, the one that takes most first." });

void replay_put_group_rows(struct replay *replay)
{
	replay_put_list(replay, &group_record, replay->groups, replay->group_count);
}

/* ---- for people ---- */

static const struct column GROUP_TABLE[] = {
	{ "group" },
	{ "type" },
	{ "message", .right = true },
	{ "calls", .right = true },
	{ "ms", .right = true },
	{ "exposed", .right = true },
	{ "GB/s", .right = true },
	{ "bus GB/s", .right = true },
};

static struct value bandwidth(double number, char text[32])
{
	snprintf(text, 32, "%.2f", number);
	return number >= 0 ? value_text(text_of(text)) : value_absent();
}

static void show_group(struct replay *run, const struct replay_group *one)
{
	struct ms ns, exposed;
	char numbers[2][32];
	const struct value values[] = { one->group.data != NULL
						? value_name(text_of_span(one->group))
						: value_absent(),
		value_text(text_of_span(one->type)),
		one->bytes >= 0 ? value_bytes((uint64_t)one->bytes) : value_absent(),
		value_count(one->count), value_text(text_of(replay_ms(one->ns, &ns))),
		value_text(text_of(replay_ms(one->exposed_ns, &exposed))),
		bandwidth(one->algbw, numbers[0]), bandwidth(one->busbw, numbers[1]) };

	out_row(run->run->out, values);
}

void replay_show_groups(struct replay *run)
{
	const struct table table = { .key = "types",
		.columns = GROUP_TABLE,
		.column_count = sizeof GROUP_TABLE / sizeof *GROUP_TABLE,
		.text_only = true };
	int64_t left = run->options->top > 0 ? run->options->top : INT64_MAX;
	size_t more = 0;

	out_table_begin(run->run->out, &table);
	for (size_t i = 0; i < run->group_count; i++) {
		if (run->groups[i].run != run->nth)
			continue;
		if (left-- > 0)
			show_group(run, &run->groups[i]);
		else
			more++;
	}
	out_table_end(run->run->out);
	if (more != 0)
		out_line(run->run->out, NULL, "... and %zu more", more);
}
