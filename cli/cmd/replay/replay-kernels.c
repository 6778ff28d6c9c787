/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which kernels took the time of the devices: by name, over all ranks of a run.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/replay/replay-data.h"

enum {
	KERNELS_SHOWN = 20, /* unless --top says how many */
};

/* A kernel on all ranks of a run. */
struct replay_kernel {
	struct fsdp_kernel_times times;
	uint64_t run;
	double share; /* of the time of kernels that compute, in per cent; below 0: none */
};

/* All kernels of a class. */
struct replay_class {
	enum fsdp_kernel_class kernel_class;
	uint64_t run, count;
	int64_t ns;
	double share; /* of those that compute, as above */
};

/* ---- one run ---- */

static int compare_names(const void *a, const void *b)
{
	const struct fsdp_kernel_times *left = &((const struct replay_kernel *)a)->times;
	const struct fsdp_kernel_times *right = &((const struct replay_kernel *)b)->times;
	struct fsdp_span x = left->name, y = right->name;
	size_t common = x.size < y.size ? x.size : y.size;
	int order = (x.data != NULL) - (y.data != NULL);

	if (order == 0 && common != 0)
		order = memcmp(x.data, y.data, common);
	if (order == 0 && x.size != y.size)
		order = x.size < y.size ? -1 : 1;
	if (order == 0)
		order = (int)left->kernel_class - (int)right->kernel_class;
	return order != 0 ? order : left->computes - right->computes;
}

static int compare_times(const void *a, const void *b)
{
	const struct replay_kernel *left = a, *right = b;

	if (left->times.ns != right->times.ns)
		return left->times.ns > right->times.ns ? -1 : 1;
	return compare_names(a, b);
}

static void sum(int64_t *ns, int64_t more)
{
	if (__builtin_add_overflow(*ns, more, ns))
		*ns = INT64_MAX;
}

/* Adds up neighbours that are alike. Returns how many are left. */
static size_t compact(struct replay_kernel *kernels, size_t count)
{
	size_t kept = 0;

	if (count > 1)
		qsort(kernels, count, sizeof *kernels, compare_names);
	for (size_t i = 0; i < count; i++) {
		struct fsdp_kernel_times *last =
			kept != 0 ? &kernels[kept - 1].times : NULL;
		if (last == NULL || compare_names(&kernels[kept - 1], &kernels[i]) != 0) {
			kernels[kept++] = kernels[i];
			continue;
		}
		last->count += kernels[i].times.count;
		last->on_compute_stream += kernels[i].times.on_compute_stream;
		sum(&last->ns, kernels[i].times.ns);
	}
	return kept;
}

/* The one that takes most first. */
static void rank_by_time(struct replay_kernel *kernels, size_t count)
{
	int64_t compute_ns = 0;

	for (size_t i = 0; i < count; i++)
		if (kernels[i].times.computes)
			sum(&compute_ns, kernels[i].times.ns);
	for (size_t i = 0; i < count; i++)
		kernels[i].share =
			kernels[i].times.computes && compute_ns > 0
				? 100 * (double)kernels[i].times.ns / (double)compute_ns
				: -1;
	if (count > 1)
		qsort(kernels, count, sizeof *kernels, compare_times);
}

/* Puts those of a run behind those that are there. False: out of memory. */
static bool add_run(struct replay *replay, const struct replay *run)
{
	size_t first = replay->kernel_count, count = 0;

	for (size_t i = 0; i < run->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(run, i);
		struct replay_kernel *more = realloc(replay->kernels,
			(first + count + one->kernel_count + 1) * sizeof *more);
		if (more == NULL)
			return false;
		replay->kernels = more;
		more += first;
		for (size_t k = 0; k < one->kernel_count; k++)
			more[count + k] =
				(struct replay_kernel){ .times = one->kernels[k],
					.run = run->nth };
		count = compact(more, count + one->kernel_count);
	}
	if (count != 0)
		rank_by_time(replay->kernels + first, count);
	replay->kernel_count = first + count;
	return true;
}

bool replay_find_kernels(struct replay *replay)
{
	for (size_t i = 0; i < replay->run_count; i++) {
		struct replay run = replay_run(replay, i);
		if (!add_run(replay, &run))
			return false;
	}
	return true;
}

/* ---- classes ---- */

/* Of the run `nth`, those that occur, the one that takes most first. Returns how many. */
static size_t add_classes(const struct replay *replay, uint64_t nth,
	struct replay_class classes[FSDP_KERNEL_CLASS_COUNT])
{
	size_t kept = 0;

	for (unsigned i = 0; i < FSDP_KERNEL_CLASS_COUNT; i++)
		classes[i] = (struct replay_class){ i, nth, 0, 0, -1 };
	for (size_t i = 0; i < replay->kernel_count; i++) {
		const struct replay_kernel *one = &replay->kernels[i];
		struct replay_class *of = &classes[one->times.kernel_class];
		if (one->run != nth)
			continue;
		of->count += one->times.count;
		sum(&of->ns, one->times.ns);
		if (one->share >= 0)
			of->share = one->share + (of->share > 0 ? of->share : 0);
	}
	for (size_t i = 0; i < FSDP_KERNEL_CLASS_COUNT; i++) {
		struct replay_class one = classes[i];
		size_t at = kept;
		if (one.count == 0)
			continue;
		for (; at > 0 && classes[at - 1].ns < one.ns; at--)
			classes[at] = classes[at - 1];
		classes[at] = one;
		kept++;
	}
	return kept;
}

/* ---- for machines ---- */

static const char *class_word(unsigned number)
{
	return fsdp_kernel_class_name((enum fsdp_kernel_class)number);
}

static bool has_share(struct subject of)
{
	return ((const struct replay_kernel *)of.object)->share >= 0;
}

static bool is_collective(struct subject of)
{
	const struct replay_kernel *one = of.object;

	return one->times.kernel_class == FSDP_KERNEL_COMMUNICATION;
}

static bool has_runs(struct subject of)
{
	return replay_has_runs(of);
}

#define CLASS_WORDS                                                                     \
	WORDS("gemm", "attention", "elementwise", "reduction", "copy", "communication", \
		"other")
#define KERNEL struct replay_kernel
static const struct record kernel_record = OBJECT_RECORD(KERNEL, "kernel_times",
	"What devices ran under one name, over all ranks and steps.",
	{ "kernel", TEXT_AT(KERNEL, times.name), .null = true,
		.about =
			"The name, as the trace has it; null for the names beyond the limit `kernels` together." },
	{ "run", COUNT_AT(KERNEL, run), .has = has_runs,
		.about = "Of several recordings of each rank, which run it is, from 1." },
	{ "class", ENUM_AT(KERNEL, times.kernel_class, class_word), .always = true,
		CLASS_WORDS, .about = "What it does." },
	{ "count", COUNT_AT(KERNEL, times.count), .always = true,
		.about = "Number of calls on all ranks." },
	{ "sum_ns", NS_AT(KERNEL, times.ns), .always = true, .about = "Their time." },
	{ "compute_percent", NUMBER_AT(KERNEL, share), .has = has_share,
		.about =
			"Their time by that of all kernels that compute; absent for collectives and for copies that are not kernels." },
	{ "on_compute_stream", COUNT_AT(KERNEL, times.on_compute_stream),
		.has = is_collective,
		.about =
			"Of a collective, the calls on the stream that computes most on their rank: what comes next there waits for them." });

static const void *each_kernel(struct subject of, size_t i, void *room)
{
	const struct replay *replay = of.context;

	(void)room;
	return i < replay->kernel_count ? &replay->kernels[i] : NULL;
}

static bool has_class_share(struct subject of)
{
	return ((const struct replay_class *)of.object)->share >= 0;
}

#define CLASS struct replay_class
static const struct record class_record = OBJECT_RECORD(CLASS, "kernel_class",
	"All that devices ran of one class, over all ranks and steps.",
	{ "class", ENUM_AT(CLASS, kernel_class, class_word), .always = true, CLASS_WORDS,
		.about = "The class." },
	{ "run", COUNT_AT(CLASS, run), .has = has_runs,
		.about = "Of several recordings of each rank, which run it is, from 1." },
	{ "count", COUNT_AT(CLASS, count), .always = true,
		.about = "Number of calls on all ranks." },
	{ "sum_ns", NS_AT(CLASS, ns), .always = true, .about = "Their time." },
	{ "compute_percent", NUMBER_AT(CLASS, share), .has = has_class_share,
		.about =
			"Time of those that compute by that of all kernels that compute; absent where none does." });

static const void *each_class(struct subject of, size_t i, void *room)
{
	struct replay_class classes[FSDP_KERNEL_CLASS_COUNT];
	const struct replay *replay = of.context;

	for (uint64_t nth = 1; nth <= replay->run_count; nth++) {
		size_t count = add_classes(replay, nth, classes);
		if (i < count) {
			*(struct replay_class *)room = classes[i];
			return room;
		}
		i -= count;
	}
	return NULL;
}

const struct record replay_kernels = RECORD_OF(RECORD_OBJECT, struct replay,
	{ "kernel_classes", EACH(each_class, class_record), .always = true,
		.about =
			"With `--by=kernel`: what devices ran by class, the one that takes most first." },
	{ "kernels", EACH(each_kernel, kernel_record), .always = true,
		.about =
			"With `--by=kernel`: what devices ran by name, the one that takes most first." });

void replay_put_kernel_rows(struct replay *replay)
{
	replay_put_list(replay, &kernel_record, replay->kernels, replay->kernel_count);
}

/* ---- for people ---- */

static const struct column KERNEL_TABLE[] = {
	{ "kernel" },
	{ "class" },
	{ "calls", .right = true },
	{ "ms", .right = true },
	{ "compute", .right = true },
};

/* Without the parameters at its end, if it has any. */
static struct fsdp_span without_parameters(struct fsdp_span name)
{
	size_t depth = 0;

	if (name.size == 0 || name.data[name.size - 1] != ')')
		return name;
	for (size_t at = name.size; at-- > 1;) {
		depth += name.data[at] == ')';
		depth -= name.data[at] == '(';
		if (depth == 0)
			return (struct fsdp_span){ name.data, at };
	}
	return name;
}

static bool is_inside(unsigned char byte)
{
	return (byte & 0xc0) == 0x80;
}

/* If it is long, without its parameters, and cut in the middle, for shapes and layouts are
 * at the end. */
struct fsdp_span replay_kernel_name(
	struct fsdp_span name, char buffer[REPLAY_KERNEL_BYTES])
{
	static const char *const common[] = { "void ", "at::native::" };
	enum { MARK = 3, TAIL = 13, HEAD = REPLAY_KERNEL_BYTES - MARK - TAIL };
	size_t head = HEAD, tail = TAIL;

	for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
		size_t size = strlen(common[i]);
		if (name.size > size && memcmp(name.data, common[i], size) == 0) {
			name.data += size;
			name.size -= size;
		}
	}
	if (name.size > REPLAY_KERNEL_BYTES)
		name = without_parameters(name);
	if (name.size <= REPLAY_KERNEL_BYTES)
		return name;
	/* Not inside of a character. */
	while (head > 0 && is_inside(name.data[head]))
		head--;
	while (tail > 0 && is_inside(name.data[name.size - tail]))
		tail--;
	memcpy(buffer, name.data, head);
	memcpy(buffer + head, "...", MARK);
	memcpy(buffer + head + MARK, name.data + name.size - tail, tail);
	return (struct fsdp_span){ (const unsigned char *)buffer, head + MARK + tail };
}

static struct value show_share(double share, char text[32])
{
	snprintf(text, 32, "%.1f %%", share);
	return share >= 0 ? value_text(text_of(text)) : value_absent();
}

static void show_kernel(struct replay *run, const struct replay_kernel *one)
{
	char name[REPLAY_KERNEL_BYTES], share[32];
	struct ms ms;

	out_row(run->run->out,
		(const struct value[]){
			one->times.name.data != NULL
				? value_name(text_of_span(
					  replay_kernel_name(one->times.name, name)))
				: value_text(text_of("other names")),
			value_text(text_of(class_word(one->times.kernel_class))),
			value_count(one->times.count),
			value_text(text_of(replay_ms(one->times.ns, &ms))),
			show_share(one->share, share) });
}

static const struct column CLASS_TABLE[] = {
	{ "class" },
	{ "calls", .right = true },
	{ "ms", .right = true },
	{ "compute", .right = true },
};

static void show_classes(struct replay *run)
{
	const struct table table = { .key = "types",
		.columns = CLASS_TABLE,
		.column_count = sizeof CLASS_TABLE / sizeof *CLASS_TABLE,
		.text_only = true };
	struct replay_class classes[FSDP_KERNEL_CLASS_COUNT];
	size_t count = add_classes(run, run->nth, classes);
	char share[32];
	struct ms ms;

	out_table_begin(run->run->out, &table);
	for (size_t i = 0; i < count; i++) {
		const struct replay_class *one = &classes[i];
		out_row(run->run->out,
			(const struct value[]){
				value_text(text_of(class_word(one->kernel_class))),
				value_count(one->count),
				value_text(text_of(replay_ms(one->ns, &ms))),
				show_share(one->share, share) });
	}
	out_table_end(run->run->out);
	if (count != 0)
		out_line(run->run->out, NULL, "%s", "");
}

static void tell_streams(struct replay *run)
{
	uint64_t count = 0, on_compute_stream = 0, others = 0;

	for (size_t i = 0; i < run->kernel_count; i++) {
		const struct fsdp_kernel_times *times = &run->kernels[i].times;
		if (run->kernels[i].run != run->nth)
			continue;
		if (times->kernel_class != FSDP_KERNEL_COMMUNICATION) {
			others += times->count;
			continue;
		}
		count += times->count;
		on_compute_stream += times->on_compute_stream;
	}
	if (on_compute_stream != 0)
		out_line(run->run->out, NULL,
			"%" PRIu64 " of %" PRIu64
			" collectives ran on the stream that computes, where nothing hides them",
			on_compute_stream, count);
	else if (count != 0 && others != 0)
		out_line(run->run->out, NULL,
			"no collective ran on the stream that computes");
}

void replay_show_kernels(struct replay *run)
{
	const struct table table = { .key = "types",
		.columns = KERNEL_TABLE,
		.column_count = sizeof KERNEL_TABLE / sizeof *KERNEL_TABLE,
		.text_only = true };
	int64_t left = run->options->top > 0 ? run->options->top : KERNELS_SHOWN;
	size_t more = 0;
	int64_t more_ns = 0;
	struct ms ms;

	show_classes(run);
	out_table_begin(run->run->out, &table);
	for (size_t i = 0; i < run->kernel_count; i++) {
		if (run->kernels[i].run != run->nth)
			continue;
		if (left-- > 0) {
			show_kernel(run, &run->kernels[i]);
			continue;
		}
		more++;
		sum(&more_ns, run->kernels[i].times.ns);
	}
	out_table_end(run->run->out);
	if (more != 0)
		out_line(run->run->out, NULL, "... and %zu more, %s ms", more,
			replay_ms(more_ns, &ms));
	tell_streams(run);
	if (run->kernel_count == 0)
		run_note(run->run, "no device events, so nothing is known of kernels");
}
