/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of `replay` whose rows the library adds up by key: calls of process groups,
 * kernels, idle times, and what --compare finds. A table is a record, for people and
 * programs.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "commands/replay/replay.h"
#include "session/diagnostics.h"

enum {
	ROWS_SHOWN = 20,     /* unless --top says how many */
	LEAST_IDLE = 5,      /* percent of the time: less needs no advice */
	MOST_PERCENT = 1000, /* what is more is shown as a factor */
};

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
		"use more data loader workers, or a larger prefetch_factor" },
	[FSDP_IDLE_LAUNCH] = { "launch", "operators and launches of the host took longer",
		"launch fewer and larger kernels: torch.compile, CUDA graphs, fused optimizers" },
	[FSDP_IDLE_HOST] = { "host", "the host was outside of PyTorch calls",
		"look for Python, logging and files between operators: record with_stack=True" },
	[FSDP_IDLE_QUEUED] = { "queued", "the device started launched work late", NULL },
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

/* ---- their columns ---- */

#define ROW struct fsdp_row
HAS(has_share, ROW, one->share >= 0)
HAS(has_algbw, ROW, one->algbw >= 0)
HAS(has_busbw, ROW, one->busbw >= 0)
HAS(is_communication, ROW, one->key.kind == FSDP_KERNEL_COMMUNICATION)

/* If it is long, without its parameters, and cut in the middle, for shapes and layouts
 * are at the end. */
static struct text shorten(struct fsdp_span name, char buffer[REPLAY_SCRATCH])
{
	static const char *const common[] = { "void ", "at::native::" };
	enum { BYTES = 36, MARK = 3, TAIL = 13, HEAD = BYTES - MARK - TAIL };
	size_t head = HEAD, tail = TAIL, depth = 0;

	for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
		size_t size = strlen(common[i]);
		if (name.size > size && memcmp(name.data, common[i], size) == 0) {
			name.data += size;
			name.size -= size;
		}
	}
	if (name.size > BYTES && name.data[name.size - 1] == ')')
		for (size_t at = name.size; at-- > 1;) {
			depth += name.data[at] == ')';
			depth -= name.data[at] == '(';
			if (depth == 0) {
				name.size = at;
				break;
			}
		}
	if (name.size <= BYTES)
		return text_of_span(name);
	/* Not inside of a character. */
	while (head > 0 && (name.data[head] & 0xc0) == 0x80)
		head--;
	while (tail > 0 && (name.data[name.size - tail] & 0xc0) == 0x80)
		tail--;
	memcpy(buffer, name.data, head);
	memcpy(buffer + head, "...", MARK);
	memcpy(buffer + head + MARK, name.data + name.size - tail, tail);
	return (struct text){ buffer, head + MARK + tail };
}

static struct value get_short_name(struct subject of)
{
	const struct fsdp_row_key *key = &((const ROW *)of.object)->key;

	return value_name(key->name.data == NULL ? text_of("other names")
						 : shorten(key->name, scratch(of, 0)));
}

#define CALLS_AND_TIME                                                   \
	{ "count", COUNT_AT(ROW, count), .label = "calls",               \
		ALWAYS("Number of calls on all ranks.") },               \
	{                                                                \
		"sum_ns", NS_AT(ROW, ns), .always = true, .label = "ms", \
					  ABOUT("Their time.")           \
	}
#define COMPUTE_ROW(text)                                                  \
	{                                                                  \
		"compute_percent", NUMBER_AT(ROW, share),                  \
			.has = has_share, .label = "compute", .digits = 1, \
			.percent = true, .about = (text)                   \
	}
#define CLASS_ROW(text)                                                                \
	{                                                                              \
		"class", ENUM_AT(ROW, key.kind, fsdp_kernel_class_name),               \
			.always = true,                                                \
			WORDS("gemm", "attention", "elementwise", "reduction", "copy", \
				"communication", "other"),                             \
			.about = (text)                                                \
	}

static const struct record group_record = OBJECT_RECORD(ROW, "group_times",
	"Collectives of one type and message size in one process group, over all ranks and steps.",
	{ "group", TEXT_AT(ROW, key.name), FOR_PROGRAMS,
		OR_NULL("The process group; null where it is not recorded.") },
	{ "group", NAME_AT(ROW, key.name), FOR_PEOPLE }, RUN_ROW(ROW, run),
	{ "type", TEXT_AT(ROW, key.type), ALWAYS("The collective.") },
	{ "bytes", INTEGER_AT(ROW, key.bytes), FOR_PROGRAMS,
		OR_NULL("Bytes of one call: of the output of an all-gather, of the input of others.") },
	{ "message", SIGNED_BYTES_AT(ROW, key.bytes), FOR_PEOPLE },
	{ "group_size", INTEGER_AT(ROW, key.size), FOR_PROGRAMS,
		OR_NULL("Number of ranks of the group.") },
	CALLS_AND_TIME,
	{ "exposed_ns", NS_AT(ROW, exposed_ns), .label = "exposed",
		OR_NULL("Of that, while nothing computes; null without kernels.") },
	{ "algbw_GBps", NUMBER_AT(ROW, algbw), .has = has_algbw, .label = "GB/s",
		.digits = 2,
		ABOUT("Bytes of all calls by their time, in 10^9 bytes a second.") },
	{ "busbw_GBps", NUMBER_AT(ROW, busbw), .has = has_busbw, .label = "bus GB/s",
		.digits = 2, ABOUT("The same for the bus.") });

static const struct record class_record = OBJECT_RECORD(ROW, "kernel_class",
	"All that devices ran of one class, over all ranks and steps.",
	CLASS_ROW("The class."), RUN_ROW(ROW, run), CALLS_AND_TIME,
	COMPUTE_ROW(
		"Time of those that compute by that of all kernels that compute; absent where none does."));

static const struct record kernel_record = OBJECT_RECORD(ROW, "kernel_times",
	"What devices ran under one name, over all ranks and steps.",
	{ "kernel", TEXT_AT(ROW, key.name), FOR_PROGRAMS,
		OR_NULL("The name, as the trace has it; null for the names beyond the limit `kernels` together.") },
	{ "kernel", GET(FIELD_NAME, get_short_name), FOR_PEOPLE }, RUN_ROW(ROW, run),
	CLASS_ROW("Its operation."), CALLS_AND_TIME,
	COMPUTE_ROW(
		"Their time by that of all kernels that compute; absent for collectives and for copies that are not kernels."),
	{ "on_compute_stream", COUNT_AT(ROW, on_compute_stream), .has = is_communication,
		FOR_PROGRAMS,
		ABOUT("Of a collective, the calls on the stream that computes most on their rank: what comes next there waits for them.") });

#define CAUSE_ROWS                                                                     \
	RUN_ROW(ROW, run),                                                             \
		{ "cause", ENUM_AT(ROW, key.kind, fsdp_idle_cause_name), FOR_PROGRAMS, \
			WORDS("synchronisation", "allocation", "copy", "collective",   \
				"data_loader", "launch", "host", "queued", "unknown"), \
			ALWAYS("What the thread did that launched what came next.") }, \
		{ "cause", ENUM_AT(ROW, key.kind, cause_shown), FOR_PEOPLE },          \
		{ "gaps", COUNT_AT(ROW, count),                                        \
			ALWAYS("Number of gaps that it was a part of.") },             \
	{                                                                              \
		"sum_ns", NS_AT(ROW, ns), .always = true, .label = "ms",               \
					  ABOUT("Time of these parts.")                \
	}
#define LONGEST_ROW                                                                 \
	{                                                                           \
		"longest_ns", NS_AT(ROW, longest_ns), .always = true,               \
						      .label = "longest",           \
						      ABOUT("The longest of them.") \
	}
static const struct record cause_record = OBJECT_RECORD(ROW, "idle_cause",
	"What the device of one rank was idle for by one cause.",
	{ "rank", INTEGER_AT(ROW, key.rank), FOR_PROGRAMS, ALWAYS("The rank.") },
	CAUSE_ROWS,
	{ "of idle", NUMBER_AT(ROW, share), .digits = 1, .percent = true, FOR_PEOPLE },
	LONGEST_ROW, { "meaning", ENUM_AT(ROW, key.kind, cause_meaning), FOR_PEOPLE });
static const struct record idle_record = OBJECT_RECORD(ROW, "idle",
	"What devices were idle for by one cause before one kernel or copy, over all ranks.",
	{ "kernel", TEXT_AT(ROW, key.name), FOR_PROGRAMS,
		OR_NULL("The name of what the device did next, `(end)` after the last; null for the names beyond the limit `kernels` together.") },
	{ "before", GET(FIELD_NAME, get_short_name), FOR_PEOPLE }, CAUSE_ROWS,
	LONGEST_ROW);

#define REPLAY struct replay
#define ROWS_AT(list, record) \
	LIST_AT(REPLAY, list.items, list.count, record), IF_SET(REPLAY, list.items)
const struct record replay_sums_record = RECORD_OF(RECORD_OBJECT, REPLAY,
	{ "groups", ROWS_AT(groups, group_record),
		ABOUT("With `--by=group`: by process group, type and message size, the one that takes most first.") },
	{ "kernel_classes", ROWS_AT(classes, class_record),
		ABOUT("With `--by=kernel`: what devices ran by class, the one that takes most first.") },
	{ "kernels", ROWS_AT(kernels, kernel_record),
		ABOUT("With `--by=kernel`: what devices ran by name, the one that takes most first.") },
	{ "idle_causes", ROWS_AT(causes, cause_record),
		ABOUT("With `--by=idle`: why devices were idle, by rank and cause; those of a rank add up to `idle_ns` of its `base`.") },
	{ "idle", ROWS_AT(idles, idle_record),
		ABOUT("With `--by=idle`: before which kernels, what takes most first.") });

/* ---- their rows ---- */

/* The first rows of a run in text, with the number of the others. */
static void show_rows(struct replay *run, const struct record *record,
	const struct fsdp_row_list *rows, int64_t most)
{
	static const struct table like = { .key = "types", .text_only = true };
	struct record_table table;
	size_t more = 0;
	int64_t more_ns = 0;
	struct ms ms;

	replay_begin_table(run, &table, &like, record);
	for (size_t i = 0; i < rows->count; i++) {
		if (rows->items[i].run != run->nth)
			continue;
		if (most-- > 0) {
			out_records_row(run->run->out, &table, &rows->items[i]);
			continue;
		}
		more++;
		if (__builtin_add_overflow(more_ns, rows->items[i].ns, &more_ns))
			more_ns = INT64_MAX;
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

	for (size_t i = 0; i < run->kernels.count; i++) {
		const ROW *one = &run->kernels.items[i];
		bool communicates = one->key.kind == FSDP_KERNEL_COMMUNICATION;

		if (one->run != run->nth)
			continue;
		*(communicates ? &count : &others) += one->count;
		on_compute_stream += communicates ? one->on_compute_stream : 0;
	}
	show_rows(run, &class_record, &run->classes, INT64_MAX);
	if (count + others != 0)
		out_line(run->run->out, NULL, "%s", "");
	show_rows(run, &kernel_record, &run->kernels, most_rows(run, ROWS_SHOWN));
	if (on_compute_stream != 0)
		out_line(run->run->out, NULL,
			"%" PRIu64 " of %" PRIu64
			" collectives ran on the compute stream: all their time is exposed",
			on_compute_stream, count);
	else if (count != 0 && others != 0)
		out_line(run->run->out, NULL,
			"no collective ran on the stream that computes");
}

static void show_idle(struct replay *run)
{
	const struct fsdp_row_list *kinds = &run->idle_kinds;
	const ROW *worst = NULL;
	double all = 0;

	for (size_t i = 0; i < kinds->count; i++)
		all += kinds->items[i].run == run->nth ? (double)kinds->items[i].ns : 0;
	/* The cause that takes most, if something can be done about it. */
	for (size_t i = 0; i < kinds->count; i++) {
		if (kinds->items[i].run != run->nth)
			continue;
		kinds->items[i].share = 100 * (double)kinds->items[i].ns / all;
		if (worst == NULL && CAUSES[kinds->items[i].key.kind].advice != NULL)
			worst = &kinds->items[i];
	}
	if (!(all > 0))
		return;
	show_rows(run, &cause_record, kinds, INT64_MAX);
	out_line(run->run->out, NULL, "%s", "");
	show_rows(run, &idle_record, &run->idles, most_rows(run, ROWS_SHOWN));
	if (worst != NULL && fsdp_recordings_cost(run->recordings).idle >= LEAST_IDLE &&
		fsdp_recordings_are_complete(run->recordings) &&
		strcmp(run->options->advice, "no") != 0)
		out_line(run->run->out, NULL, "most idle: %s (%.0f %%): %s",
			CAUSES[worst->key.kind].word, worst->share,
			CAUSES[worst->key.kind].advice);
}

bool replay_list_sums(struct replay *replay)
{
	const struct fsdp_recordings *all = replay->recordings;

	if (replay_shows_only(replay, "group"))
		return fsdp_recordings_group(all, FSDP_ROWS_OF_GROUP, &replay->groups);
	if (replay_shows_only(replay, "kernel"))
		return fsdp_recordings_group(
			       all, FSDP_ROWS_OF_KERNEL, &replay->kernels) &&
		       fsdp_rows_by_kind(&replay->kernels, &replay->classes);
	if (replay_shows_only(replay, "idle"))
		return fsdp_recordings_group(all, FSDP_ROWS_OF_IDLE, &replay->idles) &&
		       fsdp_rows_by_kind(&replay->idles, &replay->idle_kinds) &&
		       fsdp_recordings_group(
			       all, FSDP_ROWS_OF_IDLE_CAUSE, &replay->causes);
	return true;
}

void replay_show_sums(struct replay *run)
{
	if (replay_shows_only(run, "group"))
		show_rows(run, &group_record, &run->groups, most_rows(run, INT64_MAX));
	if (replay_shows_only(run, "kernel"))
		show_kernels(run);
	if (replay_shows_only(run, "idle"))
		show_idle(run);
}

bool replay_put_sums(struct replay *replay)
{
	const struct {
		const char *by;
		const struct record *record;
		const struct fsdp_row_list *rows;
	} all[] = { { "group", &group_record, &replay->groups },
		{ "kernel", &kernel_record, &replay->kernels },
		{ "idle", &idle_record, &replay->idles } };

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (replay_shows_only(replay, all[i].by)) {
			out_records(replay->run->out, &replay_rows, all[i].record, replay,
				all[i].rows->items, all[i].rows->count);
			return true;
		}
	return false;
}

/* ---- comparisons ---- */

static const char *place_word(unsigned place)
{
	static const char *const names[] = { NULL, "inside", "below", "above" };

	return names[place];
}

static const char *place_shown(unsigned place)
{
	return place_word(place) != NULL ? place_word(place) : "-";
}

/* Of names of measures and causes. */
static const char *format_key(const char *name)
{
	return text_is(text_of(name), text_of("gather_exposed"))   ? "gather exposed"
	       : text_is(text_of(name), text_of("reduce_exposed")) ? "reduce exposed"
	       : text_is(text_of(name), text_of("data_loader"))    ? "data loader"
								   : name;
}

#undef ROW
#define ROW struct fsdp_row_pair
#define TABLE_IS(name) one->key.table == FSDP_ROWS_OF_##name
HAS(has_place, ROW, one->place != FSDP_COMPARED_UNKNOWN)
HAS(has_name, ROW, !(TABLE_IS(STEP) || TABLE_IS(RANK)))
HAS(is_of_rank, ROW, TABLE_IS(RANK))
HAS(is_one_call, ROW, TABLE_IS(COLLECTIVE))
HAS(is_of_unit, ROW, TABLE_IS(UNIT))
HAS(is_of_group, ROW, TABLE_IS(GROUP) || TABLE_IS(COLLECTIVE))
HAS(is_of_kernel, ROW, TABLE_IS(KERNEL))

static struct value get_name(struct subject of)
{
	const struct fsdp_row_key *key = &((const ROW *)of.object)->key;

	if (key->table == FSDP_ROWS_OF_STEP)
		return value_word(key->measure);
	if (key->table == FSDP_ROWS_OF_RANK) {
		snprintf(scratch(of, 0), REPLAY_SCRATCH, "rank %" PRId64, key->rank);
		return value_word(scratch(of, 0));
	}
	if (key->name.data == NULL)
		return value_word("(not known)");
	if (key->table == FSDP_ROWS_OF_IDLE)
		return value_word(format_key((const char *)key->name.data));
	if (key->table == FSDP_ROWS_OF_UNIT && key->name.size == 0)
		return value_word("(root)");
	return value_name(key->table == FSDP_ROWS_OF_KERNEL
				  ? shorten(key->name, scratch(of, 0))
				  : text_of_span(key->name));
}

/* What the name leaves open: when a unit is used, which calls of a group, which part of
 * the steps of a rank. */
static struct value get_of(struct subject of)
{
	const struct fsdp_row_key *key = &((const ROW *)of.object)->key;
	char *text = scratch(of, 1), type[32] = "", nth[32] = "", bytes[32] = "";

	if (key->table == FSDP_ROWS_OF_RANK)
		return value_word(key->measure);
	if (key->table == FSDP_ROWS_OF_KERNEL)
		return value_word(fsdp_kernel_class_name(key->kind));
	if (key->type.data != NULL)
		snprintf(type, sizeof type, "%.*s",
			(int)(key->type.size < 24 ? key->type.size : 24),
			(const char *)key->type.data);
	if (key->nth != FSDP_ABSENT)
		snprintf(nth, sizeof nth, " #%" PRId64, key->nth);
	if (key->bytes != FSDP_ABSENT)
		snprintf(bytes, sizeof bytes, "%s%" PRId64 " B",
			*type != '\0' || *nth != '\0' ? " " : "", key->bytes);
	snprintf(text, REPLAY_SCRATCH, "%s%s%s", type, nth, bytes);
	if (key->table != FSDP_ROWS_OF_UNIT)
		return value_word(text);
	if (key->size != FSDP_ABSENT)
		snprintf(nth, sizeof nth, "pg=%" PRId64 " ", key->size);
	snprintf(text, REPLAY_SCRATCH, "%s%s%s%s", key->phase != NULL ? key->phase : "",
		key->phase != NULL ? " " : "", nth, format_key(key->measure));
	return value_word(text);
}

static bool has_both(const ROW *row)
{
	return row->before.mean_ns != FSDP_ABSENT && row->now.mean_ns != FSDP_ABSENT;
}

static struct value get_change(struct subject of)
{
	const ROW *row = of.object;

	return has_both(row) ? value_integer(row->now.mean_ns - row->before.mean_ns)
			     : value_absent();
}

static struct value get_percent(struct subject of)
{
	const ROW *row = of.object;

	if (!has_both(row) || row->before.mean_ns <= 0)
		return value_absent();
	return value_number(((double)row->now.mean_ns - (double)row->before.mean_ns) *
			    100 / (double)row->before.mean_ns);
}

static struct value get_factor(struct subject of)
{
	const ROW *row = of.object;
	double before = (double)row->before.mean_ns, now = (double)row->now.mean_ns;
	char *text = scratch(of, 2);

	if (!has_both(row))
		return value_word("-");
	if (row->before.mean_ns == row->now.mean_ns)
		return value_word("0");
	if (row->before.count == 0 || row->now.count == 0)
		return value_word(row->before.count == 0 ? "new" : "gone");
	if (!(before > 0))
		return value_word("-");
	if (now > before * MOST_PERCENT / 100)
		snprintf(text, REPLAY_SCRATCH, "%.0f x", now / before);
	else
		snprintf(text, REPLAY_SCRATCH, "%+.1f %%", (now - before) * 100 / before);
	return value_word(text);
}

enum { COLUMN_OF = 3 };
static const struct record compared_record = OBJECT_RECORD(ROW, "compared",
	"What something takes now, and what it took in the samples of the earlier recordings.",
	{ "by", ENUM_AT(ROW, key.table, fsdp_row_table_name), FOR_PROGRAMS,
		WORDS("step", "rank", "type", "region", "unit", "group", "collective",
			"kernel", "idle"),
		ALWAYS("The table that it is of.") },
	{ "name", TEXT_AT(ROW, key.name), .has = has_name, FOR_PROGRAMS,
		OR_NULL("The name of the type, unit, process group, kernel or cause of idle time, absent with steps and ranks; null where it is not known.") },
	{ "name", GET(FIELD_ANY, get_name), FOR_PEOPLE },
	{ "of", GET(FIELD_WORD, get_of), FOR_PEOPLE },
	{ "rank", INTEGER_AT(ROW, key.rank), .has = is_of_rank, FOR_PROGRAMS,
		ABOUT("The rank whose steps are compared.") },
	{ "phase", WORD_AT(ROW, key.phase), .has = is_of_unit, FOR_PROGRAMS,
		WORDS("forward", "backward"), OR_NULL("Of a unit, when it is used.") },
	{ "pg", INTEGER_AT(ROW, key.size), .has = is_of_unit, FOR_PROGRAMS,
		OR_NULL("Of a unit, the size of the shard mesh of this group of its parameters; null when it has one group.") },
	{ "type", TEXT_AT(ROW, key.type), .has = is_of_group, FOR_PROGRAMS,
		ABOUT("Of a process group, the type of its calls.") },
	{ "bytes", INTEGER_AT(ROW, key.bytes), .has = is_of_group, FOR_PROGRAMS,
		OR_NULL("Of a process group, the size of one message.") },
	{ "nth", INTEGER_AT(ROW, key.nth), .has = is_one_call, FOR_PROGRAMS,
		ABOUT("Of a collective, which of the calls of its process group and type in a step it is, from 1.") },
	{ "class", ENUM_AT(ROW, key.kind, fsdp_kernel_class_name), .has = is_of_kernel,
		FOR_PROGRAMS,
		WORDS("gemm", "attention", "elementwise", "reduction", "copy",
			"communication", "other"),
		ABOUT("Of a kernel, its operation.") },
	{ "measure", WORD_AT(ROW, key.measure), FOR_PROGRAMS,
		WORDS("length", "compute", "communication", "exposed", "copies", "idle",
			"time", "gather", "gather_exposed", "reduce", "reduce_exposed"),
		ALWAYS("What is compared.") },
	{ "before_count", COUNT_AT(ROW, before.count), FOR_PROGRAMS,
		ALWAYS("Number of calls in the earlier recordings.") },
	{ "before_mean_ns", NS_AT(ROW, before.mean_ns), .label = "before ms",
		OR_NULL("Mean over the samples of the earlier recordings; null without any.") },
	{ "before_min_ns", NS_AT(ROW, before.min_ns), .label = "least",
		OR_NULL("The sample with the least time.") },
	{ "before_max_ns", NS_AT(ROW, before.max_ns), .label = "most",
		OR_NULL("The sample with the most time.") },
	{ "count", COUNT_AT(ROW, now.count), FOR_PROGRAMS,
		ALWAYS("Number of calls now.") },
	{ "mean_ns", NS_AT(ROW, now.mean_ns), .label = "now ms",
		OR_NULL("Mean over the samples of now.") },
	{ "min_ns", NS_AT(ROW, now.min_ns), FOR_PROGRAMS,
		OR_NULL("The sample of now with the least time.") },
	{ "max_ns", NS_AT(ROW, now.max_ns), FOR_PROGRAMS,
		OR_NULL("The sample of now with the most time.") },
	{ "change_ns", GET(FIELD_INTEGER, get_change), FOR_PROGRAMS,
		OR_NULL("Mean of now less mean of before.") },
	{ "change_percent", GET(FIELD_NUMBER, get_percent), FOR_PROGRAMS,
		ABOUT("The same by the mean of before; absent where that is 0.") },
	{ "change", GET(FIELD_WORD, get_factor), .right = true, FOR_PEOPLE },
	{ "spread", ENUM_AT(ROW, place, place_word), .has = has_place, FOR_PROGRAMS,
		WORDS("inside", "below", "above"),
		ABOUT("Whether the mean of now is between the minimum and the maximum of before; absent if the earlier recordings have fewer than two samples.") },
	{ "spread", ENUM_AT(ROW, place, place_shown), FOR_PEOPLE });

#define ALL struct fsdp_comparison
const struct record comparison_record = OBJECT_RECORD(ALL, "comparison",
	"With `--compare` and earlier recordings: what each step took then, and takes now. A sample is a step, the mean over its ranks, or a run of recordings without steps.",
	{ "per_step", BOOL_AT(ALL, per_step),
		ALWAYS("True when samples of the earlier recordings are steps, false when they are runs.") },
	{ "before_samples", COUNT_AT(ALL, before_samples),
		ALWAYS("Number of samples of the earlier recordings.") },
	{ "samples", COUNT_AT(ALL, now_samples),
		ALWAYS("Number of samples of those of now.") },
	{ "rows", LIST_AT(ALL, rows, count, compared_record),
		ALWAYS("What is compared, by table: steps part by part, of others what changed most first.") });

bool comparison_find_type(const struct fsdp_comparison *comparison, struct text name,
	int64_t *ret_before, int64_t *ret_now)
{
	for (size_t i = 0; i < comparison->count; i++) {
		const ROW *row = &comparison->rows[i];

		if (row->key.table != FSDP_ROWS_OF_TYPE ||
			!text_is(text_of_span(row->key.name), name))
			continue;
		*ret_before = row->before.mean_ns;
		*ret_now = row->now.mean_ns;
		return row->before.count != 0 && row->now.count != 0;
	}
	return false;
}

void comparison_put_rows(struct replay *replay)
{
	out_records(replay->run->out, &replay_rows, &compared_record, replay,
		replay->comparison.rows, replay->comparison.count);
}

/* The rows from `first` that are of one table. Returns the end of them. */
static size_t show_compared(struct replay *replay, size_t first)
{
	const struct fsdp_comparison *comparison = &replay->comparison;
	enum fsdp_row_table by = comparison->rows[first].key.table;
	bool plain = by == FSDP_ROWS_OF_STEP || by == FSDP_ROWS_OF_TYPE ||
		     by == FSDP_ROWS_OF_REGION || by == FSDP_ROWS_OF_IDLE;
	const struct table like = { .key = "comparison",
		.omitted = plain ? 1 << COLUMN_OF : 0,
		.text_only = true };
	struct record_table table;
	size_t most = (size_t)most_rows(replay, ROWS_SHOWN), i = first;

	replay_begin_table(replay, &table, &like, &compared_record);
	for (; i < comparison->count && comparison->rows[i].key.table == by; i++)
		if (i - first < most)
			out_records_row(replay->run->out, &table, &comparison->rows[i]);
	out_table_end(replay->run->out);
	if (i - first > most)
		out_line(replay->run->out, NULL, "... and %zu more", i - first - most);
	return i;
}

void comparison_show(struct replay *replay)
{
	const struct fsdp_comparison *comparison = &replay->comparison;
	const struct value what = value_word(comparison->per_step ? "step" : "recording");
	struct out *out = replay->run->out;

	out_values_line(out, NULL,
		"compared with {} run{s} of {} rank{s}, {} {}{}; now {}; times of one, the mean over ranks",
		value_count(comparison->runs), value_count(comparison->ranks),
		value_count(comparison->before_samples), what,
		value_word(plural(comparison->before_samples)),
		value_count(comparison->now_samples));
	for (size_t i = 0; i < comparison->count;) {
		out_line(out, NULL, "%s", "");
		i = show_compared(replay, i);
	}
	if (comparison->before_samples < 2)
		out_values_line(out, NULL,
			"a single {} does not show how much these times vary: give several earlier recordings",
			what);
}

/* ---- an earlier result ---- */

struct change {
	struct fsdp_span name;
	int64_t sum_ns, before_ns;
	uint64_t count, before;
	size_t next; /* of all types, those of the earlier result last */
};

bool comparison_find_earlier(const struct replay *replay, struct fsdp_span name,
	struct fsdp_replay_baseline_type *ret_type)
{
	for (size_t i = 0; replay->baseline != NULL &&
			   i < fsdp_replay_baseline_type_count(replay->baseline);
		i++) {
		*ret_type = fsdp_replay_baseline_type(replay->baseline, i);
		if (text_is(text_of_span(ret_type->name), text_of_span(name)))
			return ret_type->count != 0;
	}
	return false;
}

/* Whether a type is not the same. */
static bool is_changed(const struct replay *replay, size_t index, struct change *change)
{
	size_t count = fsdp_recordings_type_count(replay->recordings);
	struct fsdp_replay_baseline_type before;
	struct fsdp_type_times type;

	if (index >= count) {
		before = fsdp_replay_baseline_type(replay->baseline, index - count);
		*change = (struct change){ .name = before.name,
			.before_ns = before.sum_ns,
			.before = before.count };
		return before.count != 0 && !replay_find_type(replay, before.name, &type);
	}
	type = fsdp_recordings_type(replay->recordings, index);
	*change = (struct change){
		.name = type.name, .sum_ns = type.times.sum_ns, .count = type.times.count
	};
	if (comparison_find_earlier(replay, type.name, &before)) {
		change->before_ns = before.sum_ns;
		change->before = before.count;
	}
	return change->before != change->count || change->before_ns != change->sum_ns;
}

static const void *each_change(struct subject of, size_t i, void *room)
{
	const struct replay *replay = of.context;
	size_t count = fsdp_recordings_type_count(replay->recordings) +
		       fsdp_replay_baseline_type_count(replay->baseline);
	struct change *change = room;

	for (size_t at = i == 0 ? 0 : change->next; at < count; at++)
		if (is_changed(replay, at, change)) {
			change->next = at + 1;
			return change;
		}
	return NULL;
}

static struct value get_same(struct subject of)
{
	struct change change;
	uint64_t same = 0;

	const struct replay *replay = of.context;

	for (size_t i = 0; i < fsdp_recordings_type_count(replay->recordings); i++)
		same += !is_changed(replay, i, &change);
	return value_count(same);
}

#define CHANGE struct change
static const struct record change_record = RECORD_OF(RECORD_OBJECT, CHANGE,
	{ "type", TEXT_AT(CHANGE, name), ALWAYS("Its name.") },
	{ "count", COUNT_AT(CHANGE, count), ALWAYS("Number of calls now.") },
	{ "sum_ns", NS_AT(CHANGE, sum_ns), OR_NULL("Time of these calls.") },
	{ "before_count", COUNT_AT(CHANGE, before),
		ALWAYS("Number of calls in the earlier result.") },
	{ "before_sum_ns", NS_AT(CHANGE, before_ns), OR_NULL("Time of those calls.") });

const struct record compare_record = OBJECT_RECORD(struct replay, "compare",
	"With `--compare`: what changed since the earlier result.",
	{ "changed", EACH(each_change, change_record),
		ALWAYS("Types that are not the same.") },
	{ "same", GET(FIELD_COUNT, get_same),
		ALWAYS("Number of types that are the same.") });

void comparison_show_result(struct replay *replay)
{
	const struct subject of = { replay, replay };
	struct out *out = replay->run->out;
	struct change change;
	struct ms now, before;

	for (size_t i = 0;
		replay->baseline != NULL && each_change(of, i, &change) != NULL; i++) {
		out_line_begin(out, NULL);
		out_values(out, "~ {}: {} call{s}, {} ms before, now {}, {} ms",
			value_name(text_of_span(change.name)), value_count(change.before),
			value_word(change.before == 0
					   ? "0"
					   : replay_ms(change.before_ns, &before)),
			value_count(change.count),
			value_word(change.count == 0 ? "0"
						     : replay_ms(change.sum_ns, &now)));
		if (change.before_ns > 0 && change.sum_ns != FSDP_ABSENT)
			out_line_text(out, " (%.2fx)",
				(double)change.sum_ns / (double)change.before_ns);
		out_line_end(out);
	}
}
