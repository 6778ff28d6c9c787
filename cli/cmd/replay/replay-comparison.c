/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How recordings compare with earlier ones, for people and machines alike.
 */
#include <inttypes.h>

#include "cmd/replay/comparison.h"
#include "cmd/replay/replay-data.h"

enum {
	ROWS_SHOWN = 20,     /* unless --top says how many */
	MOST_PERCENT = 1000, /* what is more is shown as a factor */
};

#define ROW struct compared_row
static const ROW *row_at(struct subject of)
{
	return of.object;
}

/* ---- for machines ---- */

static struct value get_change(struct subject of)
{
	const ROW *row = row_at(of);

	return row->before.mean_ns == FSDP_ABSENT || row->now.mean_ns == FSDP_ABSENT
		       ? value_absent()
		       : value_integer(row->now.mean_ns - row->before.mean_ns);
}

static struct value get_percent(struct subject of)
{
	const ROW *row = row_at(of);

	if (row->before.mean_ns <= 0 || row->now.mean_ns == FSDP_ABSENT)
		return value_absent();
	return value_number(((double)row->now.mean_ns - (double)row->before.mean_ns) *
			    100 / (double)row->before.mean_ns);
}

static const char *place_name(unsigned place)
{
	static const char *const names[] = { NULL, "inside", "below", "above" };

	return names[place];
}

static bool has_place(struct subject of)
{
	return row_at(of)->place != COMPARED_UNKNOWN;
}

static bool is_by(struct subject of, const char *by)
{
	return text_is(text_of(row_at(of)->key.by), text_of(by));
}

static bool has_name(struct subject of)
{
	return !is_by(of, "step") && !is_by(of, "rank");
}

static bool is_of_rank(struct subject of)
{
	return is_by(of, "rank");
}

static bool is_one_call(struct subject of)
{
	return is_by(of, "collective");
}

static bool is_of_unit(struct subject of)
{
	return is_by(of, "unit");
}

static bool is_of_group(struct subject of)
{
	return is_by(of, "group") || is_one_call(of);
}

static bool is_of_kernel(struct subject of)
{
	return is_by(of, "kernel");
}

static const struct record row_record = OBJECT_RECORD(ROW, "compared",
	"What something takes now, and what it took in the samples of the earlier recordings.",
	{ "by", WORD_AT(ROW, key.by), .always = true,
		WORDS("step", "rank", "type", "region", "unit", "group", "collective",
			"kernel", "idle"),
		.about = "The table that it is of." },
	{ "name", TEXT_AT(ROW, key.name), .null = true, .has = has_name,
		.about =
			"The name of the type, unit, process group, kernel or cause of idle time, absent with steps and ranks; null where it is not known." },
	{ "rank", INTEGER_AT(ROW, key.rank), .has = is_of_rank,
		.about = "The rank whose steps are compared." },
	{ "phase", WORD_AT(ROW, key.phase), .has = is_of_unit, .null = true,
		WORDS("forward", "backward"), .about = "Of a unit, when it is used." },
	{ "pg", INTEGER_AT(ROW, key.pg), .has = is_of_unit, .null = true,
		.about =
			"Of a unit, the size of the shard mesh of this group of its parameters; null when it has one group." },
	{ "type", TEXT_AT(ROW, key.type), .has = is_of_group,
		.about = "Of a process group, the type of its calls." },
	{ "bytes", INTEGER_AT(ROW, key.bytes), .has = is_of_group, .null = true,
		.about = "Of a process group, the size of one message." },
	{ "nth", INTEGER_AT(ROW, key.nth), .has = is_one_call,
		.about =
			"Of a collective, which of the calls of its process group and type in a step it is, from 1." },
	{ "class", WORD_AT(ROW, key.class_name), .has = is_of_kernel,
		WORDS("gemm", "attention", "elementwise", "reduction", "copy",
			"communication", "other"),
		.about = "Of a kernel, what it does." },
	{ "measure", WORD_AT(ROW, key.measure), .always = true,
		WORDS("length", "compute", "communication", "exposed", "copies", "idle",
			"time", "gather", "gather_exposed", "reduce", "reduce_exposed"),
		.about = "What is compared." },
	{ "before_count", COUNT_AT(ROW, before.count), .always = true,
		.about = "Number of calls in the earlier recordings." },
	{ "before_mean_ns", NS_AT(ROW, before.mean_ns), .null = true,
		.about =
			"Mean over the samples of the earlier recordings; null without any." },
	{ "before_min_ns", NS_AT(ROW, before.min_ns), .null = true,
		.about = "The sample with the least time." },
	{ "before_max_ns", NS_AT(ROW, before.max_ns), .null = true,
		.about = "The sample with the most time." },
	{ "count", COUNT_AT(ROW, now.count), .always = true,
		.about = "Number of calls now." },
	{ "mean_ns", NS_AT(ROW, now.mean_ns), .null = true,
		.about = "Mean over the samples of now." },
	{ "min_ns", NS_AT(ROW, now.min_ns), .null = true,
		.about = "The sample of now with the least time." },
	{ "max_ns", NS_AT(ROW, now.max_ns), .null = true,
		.about = "The sample of now with the most time." },
	{ "change_ns", GET(FIELD_INTEGER, get_change), .null = true,
		.about = "Mean of now less mean of before." },
	{ "change_percent", GET(FIELD_NUMBER, get_percent),
		.about = "The same by the mean of before; absent where that is 0." },
	{ "spread", ENUM_AT(ROW, place, place_name), .has = has_place,
		WORDS("inside", "below", "above"),
		.about =
			"Whether the mean of now lies between the least and the most of before; absent where the earlier recordings have fewer than two samples." });

#define ALL struct comparison
static const void *each_row(struct subject of, size_t i, void *room)
{
	const ALL *all = of.object;

	(void)room;
	return i < all->count ? &all->rows[i] : NULL;
}

const struct record comparison_record = OBJECT_RECORD(ALL, "comparison",
	"With `--compare` and earlier recordings: what each step took then, and takes now. A sample is a step, the mean over its ranks, or a run of recordings without steps.",
	{ "per_step", BOOL_AT(ALL, per_step), .always = true,
		.about =
			"True when samples of the earlier recordings are steps, false when they are runs." },
	{ "before_samples", COUNT_AT(ALL, before_samples), .always = true,
		.about = "Number of samples of the earlier recordings." },
	{ "samples", COUNT_AT(ALL, now_samples), .always = true,
		.about = "Number of samples of those of now." },
	{ "rows", EACH(each_row, row_record), .always = true,
		.about =
			"What is compared, by table: steps part by part, of others what changed most first." });

void comparison_put_rows(struct replay *replay)
{
	replay_put_list(
		replay, &row_record, replay->comparison->rows, replay->comparison->count);
}

/* ---- for people ---- */

static const struct column COLUMNS[] = {
	{ "name" },
	{ "of" },
	{ "before ms", .right = true },
	{ "least", .right = true },
	{ "most", .right = true },
	{ "now ms", .right = true },
	{ "change", .right = true },
	{ "spread" },
};

static const char *words_of(const char *measure)
{
	static const char *const words[][2] = { { "gather_exposed", "gather exposed" },
		{ "reduce_exposed", "reduce exposed" },
		{ "data_loader", "data loader" } };

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (text_is(text_of(measure), text_of(words[i][0])))
			return words[i][1];
	return measure;
}

struct cell {
	char text[96];
};

/* What the name leaves open: when a unit is used, which calls of a group, which part of
 * the steps of a rank. */
static const char *put_of(const ROW *row, struct cell *cell)
{
	const struct compared_key *key = &row->key;
	const char *gap = "";
	int used = 0;

	cell->text[0] = '\0';
	if (key->rank != FSDP_ABSENT)
		return key->measure;
	if (key->type.data != NULL)
		used = snprintf(cell->text, sizeof cell->text, "%.*s",
			(int)(key->type.size < 24 ? key->type.size : 24),
			(const char *)key->type.data);
	if (key->nth != FSDP_ABSENT)
		used += snprintf(cell->text + used, sizeof cell->text - (size_t)used,
			" #%" PRId64, key->nth);
	if (key->bytes != FSDP_ABSENT)
		used += snprintf(cell->text + used, sizeof cell->text - (size_t)used,
			"%s%" PRId64 " B", used != 0 ? " " : "", key->bytes);
	if (key->phase != NULL)
		used += snprintf(cell->text + used, sizeof cell->text - (size_t)used,
			"%s", key->phase);
	gap = used != 0 ? " " : "";
	if (key->pg != FSDP_ABSENT)
		used += snprintf(cell->text + used, sizeof cell->text - (size_t)used,
			"%spg=%" PRId64, gap, key->pg);
	gap = used != 0 ? " " : "";
	if (text_is(text_of(key->by), text_of("unit")))
		snprintf(cell->text + used, sizeof cell->text - (size_t)used, "%s%s", gap,
			words_of(key->measure));
	else if (key->class_name != NULL)
		snprintf(cell->text, sizeof cell->text, "%s", key->class_name);
	return cell->text;
}

static const char *put_change(const ROW *row, struct cell *cell)
{
	double before = (double)row->before.mean_ns, now = (double)row->now.mean_ns;

	if (row->before.mean_ns == FSDP_ABSENT || row->now.mean_ns == FSDP_ABSENT)
		return "-";
	if (row->before.mean_ns == row->now.mean_ns)
		return "0";
	if (row->before.count == 0)
		return "new";
	if (row->now.count == 0)
		return "gone";
	if (!(before > 0))
		return "-";
	if (now > before * MOST_PERCENT / 100)
		snprintf(cell->text, sizeof cell->text, "%.0f x", now / before);
	else
		snprintf(cell->text, sizeof cell->text, "%+.1f %%",
			(now - before) * 100 / before);
	return cell->text;
}

static struct value name_of(const ROW *row, char buffer[REPLAY_KERNEL_BYTES])
{
	const struct compared_key *key = &row->key;

	if (text_is(text_of(key->by), text_of("step")))
		return value_text(text_of(key->measure));
	if (key->rank != FSDP_ABSENT) {
		snprintf(buffer, REPLAY_KERNEL_BYTES, "rank %" PRId64, key->rank);
		return value_text(text_of(buffer));
	}
	if (key->name.data == NULL)
		return value_text(text_of("(not known)"));
	if (text_is(text_of(key->by), text_of("idle")))
		return value_text(text_of(words_of((const char *)key->name.data)));
	if (key->name.size == 0 && text_is(text_of(key->by), text_of("unit")))
		return value_text(text_of("(root)"));
	if (key->class_name != NULL)
		return value_name(text_of_span(replay_kernel_name(key->name, buffer)));
	return value_name(text_of_span(key->name));
}

static void show_row(struct replay *replay, const ROW *row)
{
	struct ms before, least, most, now;
	struct cell of, change;
	const char *place = place_name(row->place);
	char name[REPLAY_KERNEL_BYTES];

	out_row(replay->run->out,
		(const struct value[]){ name_of(row, name),
			value_text(text_of(put_of(row, &of))),
			value_text(text_of(replay_ms(row->before.mean_ns, &before))),
			value_text(text_of(replay_ms(row->before.min_ns, &least))),
			value_text(text_of(replay_ms(row->before.max_ns, &most))),
			value_text(text_of(replay_ms(row->now.mean_ns, &now))),
			value_text(text_of(put_change(row, &change))),
			value_text(text_of(place != NULL ? place : "-")) });
}

/* The rows from `first` that are of one table. Returns the first one behind them. */
static size_t show_table(struct replay *replay, size_t first)
{
	const struct comparison *comparison = replay->comparison;
	const char *by = comparison->rows[first].key.by;
	bool plain = text_is(text_of(by), text_of("step")) ||
		     text_is(text_of(by), text_of("type")) ||
		     text_is(text_of(by), text_of("region")) ||
		     text_is(text_of(by), text_of("idle"));
	const struct table table = { .key = "comparison",
		.columns = COLUMNS,
		.column_count = sizeof COLUMNS / sizeof *COLUMNS,
		.left_out = plain ? 1 << 1 : 0,
		.text_only = true };
	size_t left =
		replay->options->top > 0 ? (size_t)replay->options->top : ROWS_SHOWN;
	size_t i = first, more = 0;

	out_table_begin(replay->run->out, &table);
	for (; i < comparison->count &&
		text_is(text_of(comparison->rows[i].key.by), text_of(by));
		i++) {
		if (i - first < left)
			show_row(replay, &comparison->rows[i]);
		else
			more++;
	}
	out_table_end(replay->run->out);
	if (more != 0)
		out_line(replay->run->out, NULL, "... and %zu more", more);
	return i;
}

void comparison_show(struct replay *replay)
{
	const struct comparison *comparison = replay->comparison;
	struct out *out = replay->run->out;
	const char *what = comparison->per_step ? "step" : "recording";

	out_line(out, NULL,
		"compared with %" PRIu64 " run%s of %" PRIu64 " rank%s, %" PRIu64
		" %s%s; now %" PRIu64 "; times of one, the mean over ranks",
		comparison->runs, plural(comparison->runs), comparison->ranks,
		plural(comparison->ranks), comparison->before_samples, what,
		plural(comparison->before_samples), comparison->now_samples);
	for (size_t i = 0; i < comparison->count;) {
		out_line(out, NULL, "%s", "");
		i = show_table(replay, i);
	}
	if (comparison->before_samples < 2)
		out_line(out, NULL,
			"a single %s does not tell how much these times vary: give several earlier recordings",
			what);
}
