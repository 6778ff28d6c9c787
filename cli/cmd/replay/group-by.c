/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of `replay` that add up what has one key, over all ranks of a run: calls of process
 * groups, kernels, idle times. One group-by makes the rows; a table is a record.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "cmd/replay/replay.h"
#include "session/diagnostics.h"

enum { ROWS_SHOWN = 20 }; /* of kernels and gaps, unless --top says how many */

static const struct table FOR_TEXT = { .key = "types", .text_only = true };

/* ---- the group-by ---- */

static void sum(int64_t *ns, int64_t more)
{
	if (__builtin_add_overflow(*ns, more, ns))
		*ns = INT64_MAX;
}

static int compare_keys(const void *a, const void *b)
{
	const struct replay_row *left = a, *right = b;
	int order = compare_spans(left->name, right->name);

	if (order == 0)
		order = compare_spans(left->type, right->type);
	if (order == 0)
		order = compare_numbers(left->kind, right->kind);
	if (order == 0)
		order = left->computes - right->computes;
	if (order == 0)
		order = compare_numbers(left->bytes, right->bytes);
	return order != 0 ? order : compare_numbers(left->group_size, right->group_size);
}

/* What takes most first. */
static int compare_times(const void *a, const void *b)
{
	const struct replay_row *left = a, *right = b;
	int order = compare_numbers(right->ns, left->ns);

	return order != 0 ? order : compare_keys(a, b);
}

static void add_up(struct replay_row *to, const struct replay_row *more)
{
	to->count += more->count;
	to->on_compute_stream += more->on_compute_stream;
	sum(&to->ns, more->ns);
	if (to->exposed_ns == FSDP_ABSENT || more->exposed_ns == FSDP_ABSENT)
		to->exposed_ns = FSDP_ABSENT;
	else
		sum(&to->exposed_ns, more->exposed_ns);
	if (more->longest_ns > to->longest_ns)
		to->longest_ns = more->longest_ns;
}

/* Adds up rows from `first` on that have one key. */
static void fold(struct replay_rows *rows, size_t first)
{
	struct replay_row *items = rows->items;
	size_t kept = first;

	if (rows->count > first + 1)
		qsort(items + first, rows->count - first, sizeof *items, compare_keys);
	for (size_t i = first; i < rows->count; i++) {
		if (kept != first && compare_keys(&items[kept - 1], &items[i]) == 0)
			add_up(&items[kept - 1], &items[i]);
		else
			items[kept++] = items[i];
	}
	rows->count = kept;
}

/* Room after the rows. False: out of memory. */
static bool reserve(struct replay_rows *rows, size_t more)
{
	struct replay_row *items =
		reallocarray(rows->items, rows->count + more + 1, sizeof *items);

	if (items != NULL)
		rows->items = items;
	return items != NULL;
}

static bool add_calls(struct replay_rows *rows, const struct fsdp_recording *one)
{
	int64_t *exposed = fsdp_recording_exposed(one);
	struct fsdp_collective call;

	if (exposed == NULL || !reserve(rows, one->collective_count)) {
		free(exposed);
		return false;
	}
	for (size_t i = 0; i < one->collective_count; i++) {
		fsdp_recording_collective(one, i, &call);
		rows->items[rows->count++] = (struct replay_row){ .name = call.group,
			.type = call.type,
			.bytes = call.bytes,
			.group_size = call.group_size,
			.count = 1,
			.ns = call.dur_ns,
			.exposed_ns = exposed[i] };
	}
	free(exposed);
	return true;
}

static bool add_kernels(struct replay_rows *rows, const struct fsdp_recording *one)
{
	if (!reserve(rows, one->kernel_count))
		return false;
	for (size_t i = 0; i < one->kernel_count; i++)
		rows->items[rows->count++] =
			(struct replay_row){ .name = one->kernels[i].name,
				.kind = one->kernels[i].kernel_class,
				.computes = one->kernels[i].computes,
				.count = one->kernels[i].count,
				.on_compute_stream = one->kernels[i].on_compute_stream,
				.ns = one->kernels[i].ns };
	return true;
}

static bool add_idles(struct replay_rows *rows, const struct fsdp_recording *one)
{
	if (!reserve(rows, one->idle_count))
		return false;
	for (size_t i = 0; i < one->idle_count; i++)
		rows->items[rows->count++] =
			(struct replay_row){ .name = one->idles[i].kernel,
				.kind = one->idles[i].cause,
				.count = one->idles[i].gaps,
				.ns = one->idles[i].ns,
				.longest_ns = one->idles[i].longest_ns };
	return true;
}

static bool add_causes(struct replay_rows *rows, const struct fsdp_recording *one)
{
	size_t first = rows->count;

	if (!add_idles(rows, one))
		return false;
	for (size_t i = first; i < rows->count; i++)
		rows->items[i].name = (struct fsdp_span){ 0 };
	fold(rows, first);
	for (size_t i = first; i < rows->count; i++)
		rows->items[i].rank = one->rank;
	return true;
}

/* Of the rows of a run, those of each class or cause together, the one that takes most
 * first. */
enum { KINDS = (int)FSDP_KERNEL_CLASS_COUNT + (int)FSDP_IDLE_CAUSE_COUNT };
static size_t add_kinds(
	const struct replay_rows *rows, uint64_t nth, struct replay_row kinds[KINDS])
{
	size_t kept = 0;

	memset(kinds, 0, KINDS * sizeof *kinds);
	for (size_t i = 0; i < rows->count; i++) {
		struct replay_row *of = &kinds[rows->items[i].kind];

		if (rows->items[i].run != nth)
			continue;
		if (of->count == 0)
			*of = (struct replay_row){
				.kind = rows->items[i].kind, .run = nth, .share = -1
			};
		add_up(of, &rows->items[i]);
		if (rows->items[i].share >= 0)
			of->share =
				rows->items[i].share + (of->share > 0 ? of->share : 0);
	}
	for (size_t i = 0; i < KINDS; i++)
		if (kinds[i].count != 0)
			kinds[kept++] = kinds[i];
	if (kept > 1)
		qsort(kinds, kept, sizeof *kinds, compare_times);
	return kept;
}

/* The run, shares and bandwidths of rows, once all are there. */
static void complete(struct replay_rows *rows, size_t first, uint64_t nth)
{
	int64_t compute_ns = 0;

	for (size_t i = first; i < rows->count; i++)
		if (rows->items[i].computes)
			sum(&compute_ns, rows->items[i].ns);
	for (size_t i = first; i < rows->count; i++) {
		struct replay_row *one = &rows->items[i];
		char digits[2][32] = { "", "" };
		int64_t bytes;

		one->run = nth;
		one->share = one->computes && compute_ns > 0
				     ? 100 * (double)one->ns / (double)compute_ns
				     : -1;
		if (one->type.data == NULL || one->bytes == FSDP_ABSENT ||
			one->count > INT64_MAX ||
			__builtin_mul_overflow(one->bytes, (int64_t)one->count, &bytes) ||
			!fsdp_bandwidth(&one->type, bytes, one->group_size, one->ns,
				digits[0], digits[1]))
			digits[0][0] = digits[1][0] = '\0';
		one->algbw = digits[0][0] != '\0' ? strtod(digits[0], NULL) : -1;
		one->busbw = digits[1][0] != '\0' ? strtod(digits[1], NULL) : -1;
	}
}

/* The rows of all runs, of each what takes most first. */
static bool group(const struct replay *replay, struct replay_rows *rows,
	bool (*add)(struct replay_rows *rows, const struct fsdp_recording *one))
{
	if (!reserve(rows, 0))
		return false;
	for (size_t i = 0; i < replay->run_count; i++) {
		struct replay run = replay_run(replay, i);
		size_t first = rows->count;

		for (size_t k = 0; k < run.count; k++) {
			if (!add(rows, replay_by_rank(&run, k)))
				return false;
			fold(rows, first);
		}
		if (rows->count > first + 1)
			qsort(rows->items + first, rows->count - first,
				sizeof *rows->items, compare_times);
		complete(rows, first, run.nth);
	}
	return true;
}

/* The classes of the kernels of all runs. */
static bool group_classes(struct replay *replay)
{
	for (uint64_t nth = 1; nth <= replay->run_count; nth++) {
		if (!reserve(&replay->classes, KINDS))
			return false;
		replay->classes.count += add_kinds(&replay->kernels, nth,
			replay->classes.items + replay->classes.count);
	}
	return true;
}

/* The causes of each rank, which are not added up over ranks. */
static bool list_causes(struct replay *replay)
{
	struct replay_rows *rows = &replay->causes;

	if (!reserve(rows, 0))
		return false;
	for (size_t i = 0; i < replay->count; i++) {
		size_t first = rows->count;

		if (!add_causes(rows, replay_by_rank(replay, i)))
			return false;
		for (; first < rows->count; first++)
			rows->items[first].run =
				replay_run_of(replay, replay_by_rank(replay, i));
	}
	return true;
}

/* ---- their columns ---- */

static const char *class_word(unsigned number)
{
	return fsdp_kernel_class_name((enum fsdp_kernel_class)number);
}

static const char *cause_word(unsigned number)
{
	return fsdp_idle_cause_name((enum fsdp_idle_cause)number);
}

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

static const char *cause_shown(unsigned number)
{
	return CAUSES[number].word;
}

static const char *cause_meaning(unsigned number)
{
	return CAUSES[number].means;
}

#define ROW struct replay_row
HAS(has_share, ROW, one->share >= 0)
HAS(has_algbw, ROW, one->algbw >= 0)
HAS(has_busbw, ROW, one->busbw >= 0)
HAS(is_communication, ROW, one->kind == FSDP_KERNEL_COMMUNICATION)

static struct value get_message(struct subject of)
{
	int64_t bytes = ((const ROW *)of.object)->bytes;

	return bytes >= 0 ? value_bytes((uint64_t)bytes) : value_absent();
}

static const struct record group_record = OBJECT_RECORD(ROW, "group_times",
	"Collectives of one type and message size in one process group, over all ranks and steps.",
	{ "group", TEXT_AT(ROW, name), .null = true, FOR_PROGRAMS,
		.about = "The process group; null where it is not recorded." },
	{ "group", NAME_AT(ROW, name), FOR_PEOPLE }, RUN_ROW(ROW, run),
	{ "type", TEXT_AT(ROW, type), .always = true, .about = "The collective." },
	{ "bytes", INTEGER_AT(ROW, bytes), .null = true, FOR_PROGRAMS,
		.about =
			"Bytes of one call: of the output of an all-gather, of the input of others." },
	{ "message", GET(FIELD_BYTES, get_message), FOR_PEOPLE },
	{ "group_size", INTEGER_AT(ROW, group_size), .null = true, FOR_PROGRAMS,
		.about = "Number of ranks of the group." },
	{ "count", COUNT_AT(ROW, count), .always = true, .label = "calls",
		.about = "Number of calls on all ranks." },
	{ "sum_ns", NS_AT(ROW, ns), .always = true, .label = "ms",
		.about = "Their time." },
	{ "exposed_ns", NS_AT(ROW, exposed_ns), .null = true, FOR_PROGRAMS,
		.about = "Of that, while nothing computes; null without kernels." },
	{ "exposed", WORD_AT(ROW, texts[2]), .right = true, FOR_PEOPLE },
	{ "algbw_GBps", NUMBER_AT(ROW, algbw), .has = has_algbw, FOR_PROGRAMS,
		.about = "Bytes of all calls by their time, in 10^9 bytes a second." },
	{ "GB/s", WORD_AT(ROW, texts[0]), .right = true, FOR_PEOPLE },
	{ "busbw_GBps", NUMBER_AT(ROW, busbw), .has = has_busbw, FOR_PROGRAMS,
		.about = "The same for the bus." },
	{ "bus GB/s", WORD_AT(ROW, texts[1]), .right = true, FOR_PEOPLE });

#define CLASS_ROW(text)                                                                \
	{                                                                              \
		"class", ENUM_AT(ROW, kind, class_word),                               \
			.always = true,                                                \
			WORDS("gemm", "attention", "elementwise", "reduction", "copy", \
				"communication", "other"),                             \
			.about = (text)                                                \
	}
static const struct record class_record = OBJECT_RECORD(ROW, "kernel_class",
	"All that devices ran of one class, over all ranks and steps.",
	CLASS_ROW("The class."), RUN_ROW(ROW, run),
	{ "count", COUNT_AT(ROW, count), .always = true, .label = "calls",
		.about = "Number of calls on all ranks." },
	{ "sum_ns", NS_AT(ROW, ns), .always = true, .label = "ms",
		.about = "Their time." },
	{ "compute_percent", NUMBER_AT(ROW, share), .has = has_share, FOR_PROGRAMS,
		.about =
			"Time of those that compute by that of all kernels that compute; absent where none does." },
	{ "compute", WORD_AT(ROW, texts[0]), .right = true, FOR_PEOPLE });

static const struct record kernel_record = OBJECT_RECORD(ROW, "kernel_times",
	"What devices ran under one name, over all ranks and steps.",
	{ "kernel", TEXT_AT(ROW, name), .null = true, FOR_PROGRAMS,
		.about =
			"The name, as the trace has it; null for the names beyond the limit `kernels` together." },
	{ "kernel", NAME_AT(ROW, shown), FOR_PEOPLE }, RUN_ROW(ROW, run),
	CLASS_ROW("Its operation."),
	{ "count", COUNT_AT(ROW, count), .always = true, .label = "calls",
		.about = "Number of calls on all ranks." },
	{ "sum_ns", NS_AT(ROW, ns), .always = true, .label = "ms",
		.about = "Their time." },
	{ "compute_percent", NUMBER_AT(ROW, share), .has = has_share, FOR_PROGRAMS,
		.about =
			"Their time by that of all kernels that compute; absent for collectives and for copies that are not kernels." },
	{ "compute", WORD_AT(ROW, texts[0]), .right = true, FOR_PEOPLE },
	{ "on_compute_stream", COUNT_AT(ROW, on_compute_stream), .has = is_communication,
		FOR_PROGRAMS,
		.about =
			"Of a collective, the calls on the stream that computes most on their rank: what comes next there waits for them." });

#define CAUSE_ROWS                                                                       \
	RUN_ROW(ROW, run),                                                               \
		{ "cause", ENUM_AT(ROW, kind, cause_word), .always = true, FOR_PROGRAMS, \
			WORDS("synchronisation", "allocation", "copy", "collective",     \
				"data_loader", "launch", "host", "queued", "unknown"),   \
			.about = "What the thread did that launched what came next." },  \
		{ "cause", ENUM_AT(ROW, kind, cause_shown), FOR_PEOPLE },                \
		{ "gaps", COUNT_AT(ROW, count), .always = true,                          \
			.about = "Number of gaps that it was a part of." },              \
	{                                                                                \
		"sum_ns", NS_AT(ROW, ns), .always = true, .label = "ms",                 \
					  .about = "Time of these parts."                \
	}
#define LONGEST_ROW                                                                   \
	{                                                                             \
		"longest_ns", NS_AT(ROW, longest_ns), .always = true,                 \
						      .label = "longest",             \
						      .about = "The longest of them." \
	}
static const struct record cause_record = OBJECT_RECORD(ROW, "idle_cause",
	"What the device of one rank was idle for by one cause.",
	{ "rank", INTEGER_AT(ROW, rank), .always = true, FOR_PROGRAMS,
		.about = "The rank." },
	CAUSE_ROWS, { "of idle", WORD_AT(ROW, texts[0]), .right = true, FOR_PEOPLE },
	LONGEST_ROW, { "meaning", ENUM_AT(ROW, kind, cause_meaning), FOR_PEOPLE });
static const struct record idle_record = OBJECT_RECORD(ROW, "idle",
	"What devices were idle for by one cause before one kernel or copy, over all ranks.",
	{ "kernel", TEXT_AT(ROW, name), .null = true, FOR_PROGRAMS,
		.about =
			"The name of what the device did next, `(end)` after the last; null for the names beyond the limit `kernels` together." },
	{ "before", NAME_AT(ROW, shown), FOR_PEOPLE }, CAUSE_ROWS, LONGEST_ROW);

#define REPLAY struct replay
#define ROWS_AT(list, record) \
	LIST_AT(REPLAY, list.items, list.count, record), IF_SET(REPLAY, list.items)
const struct record replay_sums_record = RECORD_OF(RECORD_OBJECT, REPLAY,
	{ "groups", ROWS_AT(groups, group_record),
		.about =
			"With `--by=group`: by process group, type and message size, the one that takes most first." },
	{ "kernel_classes", ROWS_AT(classes, class_record),
		.about =
			"With `--by=kernel`: what devices ran by class, the one that takes most first." },
	{ "kernels", ROWS_AT(kernels, kernel_record),
		.about =
			"With `--by=kernel`: what devices ran by name, the one that takes most first." },
	{ "idle_causes", ROWS_AT(causes, cause_record),
		.about =
			"With `--by=idle`: why devices were idle, by rank and cause; those of a rank add up to `idle_ns` of its `base`." },
	{ "idle", ROWS_AT(idles, idle_record),
		.about =
			"With `--by=idle`: before which kernels, what takes most first." });

/* If it is long, without its parameters, and cut in the middle, for shapes and layouts are
 * at the end. */
struct fsdp_span replay_kernel_name(
	struct fsdp_span name, char buffer[REPLAY_KERNEL_BYTES])
{
	static const char *const common[] = { "void ", "at::native::" };
	enum { MARK = 3, TAIL = 13, HEAD = REPLAY_KERNEL_BYTES - MARK - TAIL };
	size_t head = HEAD, tail = TAIL, depth = 0;

	for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
		size_t size = strlen(common[i]);
		if (name.size > size && memcmp(name.data, common[i], size) == 0) {
			name.data += size;
			name.size -= size;
		}
	}
	if (name.size > REPLAY_KERNEL_BYTES && name.data[name.size - 1] == ')')
		for (size_t at = name.size; at-- > 1;) {
			depth += name.data[at] == ')';
			depth -= name.data[at] == '(';
			if (depth == 0) {
				name.size = at;
				break;
			}
		}
	if (name.size <= REPLAY_KERNEL_BYTES)
		return name;
	/* Not inside of a character. */
	while (head > 0 && (name.data[head] & 0xc0) == 0x80)
		head--;
	while (tail > 0 && (name.data[name.size - tail] & 0xc0) == 0x80)
		tail--;
	memcpy(buffer, name.data, head);
	memcpy(buffer + head, "...", MARK);
	memcpy(buffer + head + MARK, name.data + name.size - tail, tail);
	return (struct fsdp_span){ (const unsigned char *)buffer, head + MARK + tail };
}

/* The first rows of a run in text, with the number of the others. */
static void show_rows(struct replay *run, const struct record *record,
	const struct replay_rows *rows, int64_t left)
{
	struct record_table table;
	size_t more = 0;
	int64_t more_ns = 0;
	struct ms ms;

	replay_begin_table(run, &table, &FOR_TEXT, record);
	for (size_t i = 0; i < rows->count; i++) {
		char name[REPLAY_KERNEL_BYTES], texts[2][32];
		struct ms exposed;
		struct replay_row row = rows->items[i];
		double numbers[2] = { row.algbw, row.busbw };

		if (row.run != run->nth)
			continue;
		if (left-- <= 0) {
			more++;
			sum(&more_ns, row.ns);
			continue;
		}
		row.shown = row.name.data == NULL
				    ? text_of("other names")
				    : text_of_span(replay_kernel_name(row.name, name));
		for (size_t j = 0; j < 2 && record == &group_record; j++) {
			snprintf(texts[j], sizeof texts[j], "%.2f", numbers[j]);
			row.texts[j] = numbers[j] >= 0 ? texts[j] : NULL;
		}
		row.texts[2] = replay_ms(row.exposed_ns, &exposed);
		if (record != &group_record && row.share >= 0) {
			snprintf(texts[0], sizeof texts[0], "%.1f %%", row.share);
			row.texts[0] = texts[0];
		}
		out_records_row(run->run->out, &table, &row);
	}
	out_table_end(run->run->out);
	if (more != 0 && record == &group_record)
		out_line(run->run->out, NULL, "... and %zu more", more);
	else if (more != 0)
		out_line(run->run->out, NULL, "... and %zu more, %s ms", more,
			replay_ms(more_ns, &ms));
}

static int64_t most_rows(const struct replay *run, int64_t initial)
{
	return run->options->top > 0 ? run->options->top : initial;
}

static void show_kernels(struct replay *run)
{
	uint64_t count = 0, on_compute_stream = 0, others = 0;
	bool has_classes = false;

	for (size_t i = 0; i < run->classes.count; i++)
		has_classes |= run->classes.items[i].run == run->nth;
	show_rows(run, &class_record, &run->classes, INT64_MAX);
	if (has_classes)
		out_line(run->run->out, NULL, "%s", "");
	show_rows(run, &kernel_record, &run->kernels, most_rows(run, ROWS_SHOWN));
	for (size_t i = 0; i < run->kernels.count; i++) {
		const struct replay_row *one = &run->kernels.items[i];

		if (one->run != run->nth)
			continue;
		if (one->kind != FSDP_KERNEL_COMMUNICATION) {
			others += one->count;
			continue;
		}
		count += one->count;
		on_compute_stream += one->on_compute_stream;
	}
	if (on_compute_stream != 0)
		out_line(run->run->out, NULL,
			"%" PRIu64 " of %" PRIu64
			" collectives ran on the stream that computes, where nothing hides them",
			on_compute_stream, count);
	else if (count != 0 && others != 0)
		out_line(run->run->out, NULL,
			"no collective ran on the stream that computes");
	if (run->kernels.count == 0)
		run_note(run->run, "no device events: kernels are unknown");
}

static void show_idle(struct replay *run)
{
	struct replay_row causes[KINDS];
	size_t count = add_kinds(&run->idles, run->nth, causes), worst = 0;
	bool device = false;
	int64_t all = 0;

	for (size_t i = 0; i < run->count; i++)
		device |= replay_by_rank(run, i)->has_device;
	if (!device)
		run_note(run->run, "no device events: idle times are unknown");
	if (count == 0)
		return;
	for (size_t i = 0; i < count; i++)
		sum(&all, causes[i].ns);
	for (size_t i = 0; i < count; i++)
		causes[i].share = 100 * (double)causes[i].ns / (double)all;
	show_rows(run, &cause_record, &(struct replay_rows){ causes, count }, INT64_MAX);
	out_line(run->run->out, NULL, "%s", "");
	show_rows(run, &idle_record, &run->idles, most_rows(run, ROWS_SHOWN));
	/* The cause that takes most, if something can be done about it. */
	while (worst < count && CAUSES[causes[worst].kind].advice == NULL)
		worst++;
	if (worst < count && fsdp_recordings_are_complete(run->recordings) &&
		strcmp(run->options->advice, "no") != 0)
		out_line(run->run->out, NULL, "most idle: %s (%.0f %%): %s",
			CAUSES[causes[worst].kind].word, causes[worst].share,
			CAUSES[causes[worst].kind].advice);
}

/* ---- the tables of --by ---- */

bool replay_list_sums(struct replay *replay)
{
	if (replay_shows_only(replay, "group"))
		return group(replay, &replay->groups, add_calls);
	if (replay_shows_only(replay, "kernel"))
		return group(replay, &replay->kernels, add_kernels) &&
		       group_classes(replay);
	if (replay_shows_only(replay, "idle"))
		return group(replay, &replay->idles, add_idles) && list_causes(replay);
	return true;
}

void replay_show_sums(struct replay *run)
{
	if (run->groups.items != NULL)
		show_rows(run, &group_record, &run->groups, most_rows(run, INT64_MAX));
	if (run->kernels.items != NULL)
		show_kernels(run);
	if (run->idles.items != NULL)
		show_idle(run);
}

bool replay_put_sums(struct replay *replay)
{
	const struct {
		const struct record *record;
		const struct replay_rows *rows;
	} all[] = { { &group_record, &replay->groups },
		{ &kernel_record, &replay->kernels }, { &idle_record, &replay->idles } };

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (all[i].rows->items == NULL)
			continue;
		replay_put_list(
			replay, all[i].record, all[i].rows->items, all[i].rows->count);
		return true;
	}
	return false;
}
