/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `replay --compare` answers: tables next to those of earlier recordings, or types
 * that changed since an earlier result.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "commands/replay/replay.h"

enum { MOST_PERCENT = 1000 /* what is more is shown as a factor */ };

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

#define ROW struct fsdp_row_pair
#define TABLE_IS(name) one->key.table == FSDP_ROWS_OF_##name
HAS(has_name, ROW, !(TABLE_IS(STEP) || TABLE_IS(RANK)))
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
				  ? replay_shorten(key->name, scratch(of, 0))
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

HAS(has_both, ROW, one->before.mean_ns != FSDP_ABSENT && one->now.mean_ns != FSDP_ABSENT)

static struct value get_change(struct subject of)
{
	const ROW *row = of.object;

	return value_integer(row->now.mean_ns - row->before.mean_ns);
}

static struct value get_percent(struct subject of)
{
	const ROW *row = of.object;

	if (row->now.mean_ns == FSDP_ABSENT || row->before.mean_ns <= 0)
		return value_absent();
	return value_number(((double)row->now.mean_ns - (double)row->before.mean_ns) *
			    100 / (double)row->before.mean_ns);
}

static struct value get_factor(struct subject of)
{
	const ROW *row = of.object;
	double before = (double)row->before.mean_ns, now = (double)row->now.mean_ns;
	char *text = scratch(of, 2);

	if (!has_both(of))
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
	"Time now, and time in the samples of the earlier recordings.",
	{ "by", ENUM_AT(ROW, key.table, fsdp_row_table_name), FOR_PROGRAMS,
		WORDS("step", "rank", "type", "region", "unit", "group", "collective",
			"kernel", "idle"),
		ALWAYS("The table that it is of.") },
	{ "name", TEXT_AT(ROW, key.name), .has = has_name, FOR_PROGRAMS,
		OR_NULL("The name of the type, unit, process group, kernel or cause of idle time, absent with steps and ranks; null where it is not known.") },
	{ "name", GET(FIELD_ANY, get_name), FOR_PEOPLE },
	{ "of", GET(FIELD_WORD, get_of), FOR_PEOPLE },
	{ "rank", INTEGER_AT(ROW, key.rank), FOR_PROGRAMS,
		ABOUT("The rank whose steps are compared.") },
	{ "phase", WORD_AT(ROW, key.phase), .has = is_of_unit, FOR_PROGRAMS,
		WORDS("forward", "backward"), OR_NULL("Of a unit, when it is used.") },
	{ "pg", INTEGER_AT(ROW, key.size), .has = is_of_unit, FOR_PROGRAMS,
		OR_NULL("Of a unit, the size of the shard mesh of this group of its parameters; null when it has one group.") },
	{ "type", TEXT_AT(ROW, key.type), FOR_PROGRAMS,
		ABOUT("Of a process group, the type of its calls.") },
	{ "bytes", INTEGER_AT(ROW, key.bytes), .has = is_of_group, FOR_PROGRAMS,
		OR_NULL("Of a process group, the size of one message.") },
	{ "nth", INTEGER_AT(ROW, key.nth), FOR_PROGRAMS,
		ABOUT("Of a collective, which of the calls of its process group and type in a step it is, from 1.") },
	{ "class", ENUM_AT(ROW, key.kind, fsdp_kernel_class_name), .has = is_of_kernel,
		FOR_PROGRAMS,
		WORDS("gemm", "attention", "elementwise", "reduction", "copy",
			"communication", "other"),
		ABOUT("Of a kernel, its operation.") },
	{ "measure", WORD_AT(ROW, key.measure), FOR_PROGRAMS,
		WORDS("length", "compute", "communication", "exposed", "copies", "idle",
			"time", "gather", "gather_exposed", "reduce", "reduce_exposed"),
		ALWAYS("Compared quantity.") },
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
	{ "change_ns", GET(FIELD_INTEGER, get_change), .has = has_both, FOR_PROGRAMS,
		OR_NULL("Mean of now less mean of before.") },
	{ "change_percent", GET(FIELD_NUMBER, get_percent), FOR_PROGRAMS,
		ABOUT("The same by the mean of before; absent where that is 0.") },
	{ "change", GET(FIELD_WORD, get_factor), .right = true, FOR_PEOPLE },
	{ "spread", ENUM_AT(ROW, place, place_word), FOR_PROGRAMS,
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
		ALWAYS("Compared quantities by table: the parts of a step in order, others by the largest change.") });

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
	size_t most = (size_t)replay_most_rows(replay, REPLAY_ROWS), i = first;

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
		value_word(comparison->before_samples == 1 ? "" : "s"),
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

struct replay_change {
	struct fsdp_span name;
	int64_t sum_ns, before_ns;
	uint64_t count, before;
};

bool comparison_find_earlier(const struct replay *replay, struct text name,
	struct fsdp_replay_baseline_type *ret_type)
{
	for (size_t i = 0; replay->baseline != NULL &&
			   i < fsdp_replay_baseline_type_count(replay->baseline);
		i++) {
		*ret_type = fsdp_replay_baseline_type(replay->baseline, i);
		if (text_is(text_of_span(ret_type->name), name))
			return ret_type->count != 0;
	}
	return false;
}

#define CHANGE struct replay_change
static const struct record change_record = RECORD_OF(RECORD_OBJECT, CHANGE,
	{ "type", TEXT_AT(CHANGE, name), ALWAYS("Its name.") },
	{ "count", COUNT_AT(CHANGE, count), ALWAYS("Number of calls now.") },
	{ "sum_ns", NS_AT(CHANGE, sum_ns), OR_NULL("Time of these calls.") },
	{ "before_count", COUNT_AT(CHANGE, before),
		ALWAYS("Number of calls in the earlier result.") },
	{ "before_sum_ns", NS_AT(CHANGE, before_ns), OR_NULL("Time of those calls.") });

const struct record compare_record = OBJECT_RECORD(struct replay, "compare",
	"With `--compare`: what changed since the earlier result.",
	{ "changed", LIST_AT(struct replay, changes, change_count, change_record),
		ALWAYS("Types that are not the same.") },
	{ "same", COUNT_AT(struct replay, same_count),
		ALWAYS("Number of types that are the same.") });

/* The types of now, then those that only the earlier result has. */
static void list_changes(struct replay *replay)
{
	size_t count = replay->summary->type_count;
	size_t all = count + fsdp_replay_baseline_type_count(replay->baseline);
	struct fsdp_replay_baseline_type before = { 0 };
	const struct fsdp_type_times *types = replay->summary->types;

	replay->changes = run_memory(replay->run, all, sizeof *replay->changes);
	for (size_t i = 0; i < all; i++) {
		CHANGE *one = &replay->changes[replay->change_count];

		if (i < count) {
			*one = (CHANGE){ types[i].name, types[i].times.sum_ns,
				.count = types[i].times.count };
			if (!comparison_find_earlier(
				    replay, text_of_span(types[i].name), &before))
				before = (struct fsdp_replay_baseline_type){ 0 };
		} else {
			before = fsdp_replay_baseline_type(replay->baseline, i - count);
			if (before.count == 0 ||
				fsdp_type_find(types, count, before.name) != NULL)
				continue;
			*one = (CHANGE){ before.name };
		}
		one->before_ns = before.sum_ns;
		one->before = before.count;
		if (one->before != one->count || one->before_ns != one->sum_ns)
			replay->change_count++;
		else
			replay->same_count++;
	}
}

void comparison_show_result(struct replay *replay)
{
	struct out *out = replay->run->out;

	if (replay->baseline == NULL)
		return;
	list_changes(replay);
	for (size_t i = 0; i < replay->change_count; i++) {
		const CHANGE *one = &replay->changes[i];

		out_line_begin(out, NULL);
		out_values(out, "~ {}: {} call{s}, {} ms before, now {}, {} ms",
			value_name(text_of_span(one->name)), value_count(one->before),
			one->before == 0 ? value_count(0) : value_ns(one->before_ns),
			value_count(one->count),
			one->count == 0 ? value_count(0) : value_ns(one->sum_ns));
		if (one->before_ns > 0 && one->sum_ns != FSDP_ABSENT)
			out_line_text(out, " (%.2fx)",
				(double)one->sum_ns / (double)one->before_ns);
		out_line_end(out);
	}
}
