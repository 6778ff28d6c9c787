/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why devices were idle: by what the host did, and before which kernels.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/replay/replay-data.h"

enum { ROWS_SHOWN = 20 }; /* unless --top says how many */

/* Before one kernel, over all ranks of a run; or all of one rank, without a kernel. */
struct replay_idle {
	struct fsdp_idle_time time;
	uint64_t run;
	int64_t rank;
};

/* ---- sums ---- */

static void sum(int64_t *ns, int64_t more)
{
	if (__builtin_add_overflow(*ns, more, ns))
		*ns = INT64_MAX;
}

static void add(struct fsdp_idle_time *to, const struct fsdp_idle_time *more)
{
	to->gaps += more->gaps;
	sum(&to->ns, more->ns);
	if (more->longest_ns > to->longest_ns)
		to->longest_ns = more->longest_ns;
}

static int compare_kernels(const void *a, const void *b)
{
	const struct fsdp_idle_time *left = &((const struct replay_idle *)a)->time;
	const struct fsdp_idle_time *right = &((const struct replay_idle *)b)->time;
	struct fsdp_span x = left->kernel, y = right->kernel;
	size_t common = x.size < y.size ? x.size : y.size;
	int order = (x.data != NULL) - (y.data != NULL);

	if (order == 0 && common != 0)
		order = memcmp(x.data, y.data, common);
	if (order == 0 && x.size != y.size)
		order = x.size < y.size ? -1 : 1;
	return order != 0 ? order : (int)left->cause - (int)right->cause;
}

static int compare_times(const void *a, const void *b)
{
	const struct replay_idle *left = a, *right = b;

	if (left->time.ns != right->time.ns)
		return left->time.ns > right->time.ns ? -1 : 1;
	return compare_kernels(a, b);
}

/* Adds up neighbours that are alike. Returns how many are left. */
static size_t compact(struct replay_idle *list, size_t count)
{
	size_t kept = 0;

	if (count > 1)
		qsort(list, count, sizeof *list, compare_kernels);
	for (size_t i = 0; i < count; i++) {
		if (kept != 0 && compare_kernels(&list[kept - 1], &list[i]) == 0)
			add(&list[kept - 1].time, &list[i].time);
		else
			list[kept++] = list[i];
	}
	return kept;
}

/* Puts those of a run behind those that are there. False: out of memory. */
static bool add_run(struct replay *replay, const struct replay *run)
{
	size_t first = replay->idle_count, count = 0;

	for (size_t i = 0; i < run->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(run, i);
		struct replay_idle *more = realloc(replay->idles,
			(first + count + one->idle_count + 1) * sizeof *more);
		if (more == NULL)
			return false;
		replay->idles = more;
		more += first;
		for (size_t k = 0; k < one->idle_count; k++)
			more[count + k] = (struct replay_idle){ one->idles[k], run->nth,
				FSDP_ABSENT };
		count = compact(more, count + one->idle_count);
	}
	if (count > 1)
		qsort(replay->idles + first, count, sizeof *replay->idles, compare_times);
	replay->idle_count = first + count;
	return true;
}

bool replay_find_idle(struct replay *replay)
{
	for (size_t i = 0; i < replay->run_count; i++) {
		struct replay run = replay_run(replay, i);
		if (!add_run(replay, &run))
			return false;
	}
	return true;
}

/* Those of one recording by cause: idles are in the order of causes. */
static struct fsdp_idle_time cause_of(
	const struct fsdp_recording *one, enum fsdp_idle_cause cause)
{
	struct fsdp_idle_time time = { .cause = cause };

	for (size_t i = 0; i < one->idle_count; i++)
		if (one->idles[i].cause == cause)
			add(&time, &one->idles[i]);
	return time;
}

/* ---- for machines ---- */

static const char *cause_word(unsigned number)
{
	return fsdp_idle_cause_name((enum fsdp_idle_cause)number);
}

static bool has_runs(struct subject of)
{
	return replay_has_runs(of);
}

#define CAUSE_WORDS                                                                 \
	WORDS("synchronisation", "allocation", "copy", "collective", "data_loader", \
		"launch", "host", "queued", "unknown")
#define IDLE struct replay_idle
#define COMMON_ROWS                                                                     \
	{                                                                               \
		"run", COUNT_AT(IDLE, run), .has = has_runs,                            \
		.about = "Of several recordings of each rank, which run it is, from 1." \
	},                                                                              \
		{ "cause", ENUM_AT(IDLE, time.cause, cause_word), .always = true,       \
			CAUSE_WORDS,                                                    \
			.about = "What the thread did that launched what came next." }, \
		{ "gaps", COUNT_AT(IDLE, time.gaps), .always = true,                    \
			.about = "Number of gaps that it was a part of." },             \
		{ "sum_ns", NS_AT(IDLE, time.ns), .always = true,                       \
			.about = "Time of these parts." },                              \
	{                                                                               \
		"longest_ns", NS_AT(IDLE, time.longest_ns),                             \
			.always = true, .about = "The longest of them."                 \
	}

static const struct record cause_record = OBJECT_RECORD(IDLE, "idle_cause",
	"What the device of one rank was idle for by one cause.",
	{ "rank", INTEGER_AT(IDLE, rank), .always = true, .about = "The rank." },
	COMMON_ROWS);

static const struct record idle_record = OBJECT_RECORD(IDLE, "idle",
	"What devices were idle for by one cause before one kernel or copy, over all ranks.",
	{ "kernel", TEXT_AT(IDLE, time.kernel), .null = true,
		.about =
			"The name of what the device did next, `(end)` after the last; null for the names beyond the limit `kernels` together." },
	COMMON_ROWS);

static const void *each_idle(struct subject of, size_t i, void *room)
{
	const struct replay *replay = of.context;

	(void)room;
	return i < replay->idle_count ? &replay->idles[i] : NULL;
}

/* The next cause that a rank has. */
static const void *each_cause(struct subject of, size_t i, void *room)
{
	const struct replay *replay = of.context;
	struct replay_idle *idle = room;

	for (size_t nth = 0; nth < replay->count; nth++) {
		const struct fsdp_recording *one = replay_by_rank(replay, nth);
		for (unsigned cause = 0; cause < FSDP_IDLE_CAUSE_COUNT; cause++) {
			idle->time = cause_of(one, (enum fsdp_idle_cause)cause);
			if (idle->time.gaps == 0 || i-- != 0)
				continue;
			idle->run = replay_run_of(replay, one);
			idle->rank = one->rank;
			return idle;
		}
	}
	return NULL;
}

const struct record replay_idles = RECORD_OF(RECORD_OBJECT, struct replay,
	{ "idle_causes", EACH(each_cause, cause_record), .always = true,
		.about =
			"With `--by=idle`: why devices were idle, by rank and cause; those of a rank add up to `idle_ns` of its `base`." },
	{ "idle", EACH(each_idle, idle_record), .always = true,
		.about =
			"With `--by=idle`: before which kernels, what takes most first." });

void replay_put_idle_rows(struct replay *replay)
{
	replay_put_list(replay, &idle_record, replay->idles, replay->idle_count);
}

/* ---- for people ---- */

static const struct {
	const char *word, *means, *advice;
} CAUSES[FSDP_IDLE_CAUSE_COUNT] = {
	[FSDP_IDLE_SYNCHRONISATION] = { "synchronisation",
		"the host waited for the device",
		"look for .item(), .cpu() and print of tensors: torch.cuda.set_sync_debug_mode finds them" },
	[FSDP_IDLE_ALLOCATION] = { "allocation",
		"the host allocated or freed memory of the device",
		"memory is nearly full: try expandable_segments, or smaller batches" },
	[FSDP_IDLE_COPY] = { "copy", "the host was in a call that copies",
		"copy from pinned memory, with non_blocking=True" },
	[FSDP_IDLE_COLLECTIVE] = { "collective", "the host was in a collective",
		"look for barriers and all_gather_object in the step" },
	[FSDP_IDLE_DATA_LOADER] = { "data loader", "the host waited for a batch",
		"give the data loader more workers, or larger prefetch_factor" },
	[FSDP_IDLE_LAUNCH] = { "launch", "operators and launches of the host took longer",
		"launch fewer and larger kernels: torch.compile, CUDA graphs, fused optimizers" },
	[FSDP_IDLE_HOST] = { "host", "the host was in none of PyTorch's calls",
		"look for Python, logging and files between operators: record with_stack=True" },
	[FSDP_IDLE_QUEUED] = { "queued",
		"the device began later what was launched already", NULL },
	[FSDP_IDLE_UNKNOWN] = { "unknown", "the launch is not recorded", NULL },
};

static const struct column CAUSE_TABLE[] = {
	{ "cause" },
	{ "gaps", .right = true },
	{ "ms", .right = true },
	{ "of idle", .right = true },
	{ "longest", .right = true },
	{ "meaning" },
};

/* Of all ranks of a run, the one that takes most first. Returns how many there are. */
static size_t list_causes(
	const struct replay *run, struct replay_idle list[FSDP_IDLE_CAUSE_COUNT])
{
	size_t kept = 0;

	for (unsigned i = 0; i < FSDP_IDLE_CAUSE_COUNT; i++) {
		struct replay_idle one = { { .cause = (enum fsdp_idle_cause)i }, run->nth,
			FSDP_ABSENT };
		for (size_t j = 0; j < run->idle_count; j++)
			if (run->idles[j].run == run->nth &&
				run->idles[j].time.cause == (enum fsdp_idle_cause)i)
				add(&one.time, &run->idles[j].time);
		if (one.time.gaps != 0)
			list[kept++] = one;
	}
	if (kept > 1)
		qsort(list, kept, sizeof *list, compare_times);
	return kept;
}

static int64_t show_causes(
	struct replay *run, const struct replay_idle *list, size_t count)
{
	const struct table table = { .key = "types",
		.columns = CAUSE_TABLE,
		.column_count = sizeof CAUSE_TABLE / sizeof *CAUSE_TABLE,
		.text_only = true };
	int64_t all = 0;

	for (size_t i = 0; i < count; i++)
		sum(&all, list[i].time.ns);
	out_table_begin(run->run->out, &table);
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_idle_time *time = &list[i].time;
		struct ms ms, longest;
		char share[32];

		snprintf(share, sizeof share, "%.1f %%",
			100 * (double)time->ns / (double)all);
		out_row(run->run->out,
			(const struct value[]){
				value_text(text_of(CAUSES[time->cause].word)),
				value_count(time->gaps),
				value_text(text_of(replay_ms(time->ns, &ms))),
				value_text(text_of(share)),
				value_text(
					text_of(replay_ms(time->longest_ns, &longest))),
				value_text(text_of(CAUSES[time->cause].means)) });
	}
	out_table_end(run->run->out);
	return all;
}

static const struct column KERNEL_TABLE[] = {
	{ "before" },
	{ "cause" },
	{ "gaps", .right = true },
	{ "ms", .right = true },
	{ "longest", .right = true },
};

static void show_kernel(struct replay *run, const struct fsdp_idle_time *time)
{
	char name[REPLAY_KERNEL_BYTES];
	struct ms ms, longest;

	out_row(run->run->out,
		(const struct value[]){
			time->kernel.data != NULL
				? value_name(text_of_span(
					  replay_kernel_name(time->kernel, name)))
				: value_text(text_of("other names")),
			value_text(text_of(CAUSES[time->cause].word)),
			value_count(time->gaps),
			value_text(text_of(replay_ms(time->ns, &ms))),
			value_text(text_of(replay_ms(time->longest_ns, &longest))) });
}

static void show_kernels(struct replay *run)
{
	const struct table table = { .key = "types",
		.columns = KERNEL_TABLE,
		.column_count = sizeof KERNEL_TABLE / sizeof *KERNEL_TABLE,
		.text_only = true };
	int64_t left = run->options->top > 0 ? run->options->top : ROWS_SHOWN;
	int64_t more_ns = 0;
	size_t more = 0;
	struct ms ms;

	out_table_begin(run->run->out, &table);
	for (size_t i = 0; i < run->idle_count; i++) {
		if (run->idles[i].run != run->nth)
			continue;
		if (left-- > 0) {
			show_kernel(run, &run->idles[i].time);
			continue;
		}
		more++;
		sum(&more_ns, run->idles[i].time.ns);
	}
	out_table_end(run->run->out);
	if (more != 0)
		out_line(run->run->out, NULL, "... and %zu more, %s ms", more,
			replay_ms(more_ns, &ms));
}

/* The cause that takes most, if something can be done about it. */
static void tell_advice(
	struct replay *run, const struct replay_idle *list, size_t count, int64_t all)
{
	for (size_t i = 0; replay_advises(run) && i < count; i++) {
		const struct fsdp_idle_time *time = &list[i].time;
		if (CAUSES[time->cause].advice == NULL)
			continue;
		out_line(run->run->out, NULL, "most idle: %s (%.0f %%): %s",
			CAUSES[time->cause].word, 100 * (double)time->ns / (double)all,
			CAUSES[time->cause].advice);
		return;
	}
}

void replay_show_idle(struct replay *run)
{
	struct replay_idle list[FSDP_IDLE_CAUSE_COUNT];
	size_t count = list_causes(run, list);
	bool device = false;
	int64_t all;

	for (size_t i = 0; i < run->count; i++)
		device |= replay_by_rank(run, i)->has_device;
	if (!device)
		run_note(run->run, "no device events, so nothing is known of idle times");
	if (count == 0)
		return;
	all = show_causes(run, list, count);
	out_line(run->run->out, NULL, "%s", "");
	show_kernels(run);
	tell_advice(run, list, count, all);
}
