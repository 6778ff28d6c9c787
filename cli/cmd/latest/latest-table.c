/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows what the command found: a path and nothing else, or the run as a table.
 */
#include "cmd/latest/latest.h"
#include "render/record.h"
#include "session/session.h"

enum { VIEW_EXPLAIN, VIEW_ALL };

static const char *const RESULTS[] = { "good", "bad", "partial", NULL };
static const char *const LEVELS[] = { "quick", "headers", "data", NULL };
static const char *const SOURCES[] = { "checkpoint", "name", NULL };

#define CANDIDATE struct run_candidate
static struct value get_path(struct subject of)
{
	return value_name(text_of(((const struct run_candidate *)of.object)->path));
}

static struct value get_step(struct subject of)
{
	return value_known(((const struct run_candidate *)of.object)->step);
}

static struct value get_epoch(struct subject of)
{
	const struct run_candidate *candidate = of.object;

	return candidate->epoch != FSDP_ABSENT ? value_known(candidate->epoch)
					       : value_absent();
}

/* Steps are more precise. */
static struct value get_bare_epoch(struct subject of)
{
	return ((const struct run_candidate *)of.object)->step == FSDP_ABSENT
		       ? get_epoch(of)
		       : value_absent();
}

static struct value get_why(struct subject of)
{
	const char *why = ((const struct run_candidate *)of.object)->why;

	return value_word(why != NULL ? why : "");
}

static struct value get_mark(struct subject of)
{
	return value_word(((const struct run_candidate *)of.object)->is_named ? "*" : "");
}

static const struct record candidate_record = OBJECT_RECORD(CANDIDATE, "candidate",
	"A directory or file of a run that may be a checkpoint.",
	{ "step", GET(FIELD_INTEGER, get_step), .null = true, .always = true,
		ABOUT("Step of the run in which it was saved.") },
	{ "step_from", WORD_AT(CANDIDATE, step_from), .words = SOURCES,
		ABOUT("Source of the step. Absent if unknown.") },
	{ "epoch", GET(FIELD_INTEGER, get_epoch),
		ABOUT("Epoch in which it was saved, if it or its name contains it.") },
	{ "path", GET(FIELD_NAME, get_path), .always = true,
		ABOUT("Its path, as it would be typed.") },
	{ "result", WORD_AT(CANDIDATE, result), .always = true, .words = RESULTS,
		ABOUT("`good`: no error, and all checks ran. `partial`: no error, but a check could not run.") },
	{ "level", WORD_AT(CANDIDATE, level), .always = true, .words = LEVELS,
		ABOUT("Level of the check: that of `--level`, or `quick` if that decides already, or if a newer one is good.") },
	{ "bytes", BYTES_AT(CANDIDATE, bytes),
		ABOUT("Bytes of its files. Absent where they are unknown.") },
	{ "weight_bytes", BYTES_AT(CANDIDATE, weights),
		ABOUT("Bytes of parameters and buffers.") },
	{ "optimizer_bytes", BYTES_AT(CANDIDATE, optimizer),
		ABOUT("Bytes of the states of optimizers.") },
	{ "other_bytes", BYTES_AT(CANDIDATE, rest),
		ABOUT("Bytes of its files that are neither.") },
	{ "findings", LIST_AT(CANDIDATE, own.findings, own.finding_count, finding_record),
		.always = true, ABOUT("What was noticed about it.") },
	{ "errors", LIST_AT(CANDIDATE, own.failures, own.failure_count, failure_record),
		.always = true, ABOUT("Checks that could not run.") });

static const struct record row_record = RECORD_OF(RECORD_OBJECT, CANDIDATE,
	{ "mark", GET(FIELD_WORD, get_mark), .text_only = EVERY_VIEW, .label = " " },
	{ "step", INTEGER_AT(CANDIDATE, step), .right = true },
	{ "bare_epoch", GET(FIELD_INTEGER, get_bare_epoch), .text_only = EVERY_VIEW,
		.label = "epoch", .right = true },
	{ "epoch", GET(FIELD_INTEGER, get_epoch), .machine_only = EVERY_VIEW },
	{ "path", GET(FIELD_NAME, get_path) }, { "result", WORD_AT(CANDIDATE, result) },
	{ "bytes", BYTES_AT(CANDIDATE, bytes), .machine_only = EVERY_VIEW },
	{ "weight_bytes", BYTES_AT(CANDIDATE, weights), .label = "weights",
		.machine_only = 1 << VIEW_EXPLAIN },
	{ "optimizer_bytes", BYTES_AT(CANDIDATE, optimizer), .label = "optimizer",
		.machine_only = 1 << VIEW_EXPLAIN },
	{ "other_bytes", BYTES_AT(CANDIDATE, rest), .label = "rest",
		.machine_only = 1 << VIEW_EXPLAIN },
	{ "why", GET(FIELD_WORD, get_why) });

#define POINTER struct run_pointer
static struct value get_file(struct subject of)
{
	return value_name(text_of(((const struct run_pointer *)of.object)->path));
}

static const struct record pointer_record = OBJECT_RECORD(POINTER, "pointer",
	"A file or link of a run that names a checkpoint.",
	{ "file", GET(FIELD_NAME, get_file), .always = true, ABOUT("Its path.") },
	{ "says", TEXT_AT(POINTER, says), .always = true,
		ABOUT("Its target: a directory, or the number of a step.") },
	{ "agrees", BOOL_AT(POINTER, agrees), .always = true,
		ABOUT("Whether that is the newest one that is good.") });

static const void *each_candidate(struct subject of, size_t i, void *room)
{
	(void)room;
	return &((const struct latest *)of.object)->candidates[i];
}

static struct value get_newest(struct subject of)
{
	const struct latest *latest = of.object;

	for (size_t i = 0; i < latest->count; i++)
		if (latest->candidates[i].is_named)
			return value_name(text_of(latest->candidates[i].path));
	return value_null();
}

#define LATEST struct latest
const struct record latest_record = OBJECT_RECORD(LATEST, "latest",
	"Which checkpoint of a run is the newest that is good.",
	{ "newest", GET(FIELD_NAME, get_newest), .always = true, .null = true,
		ABOUT("Its path; `null`: none.") },
	{ "candidates", EACH_ITEM(LATEST, count, each_candidate, candidate_record),
		.always = true, ABOUT("All that may be checkpoints, newest first.") },
	{ "pointers", LIST_AT(LATEST, pointers, pointer_count, pointer_record),
		.always = true, ABOUT("Files and links that name one.") });

/* ---- showing ---- */

static bool is_table(const struct latest *latest)
{
	return latest->options->explain || latest->options->all;
}

/* For formats that have only rows: the selected candidates. */
static void put_rows(const struct latest *latest, const struct table *like)
{
	struct out *out = latest->run->out;
	struct record_table table;

	record_table_init(&table, like, &row_record, NULL);
	out_records_begin(out, &table);
	for (size_t i = 0; i < latest->shown; i++)
		if (is_table(latest) || latest->candidates[i].is_named)
			out_records_row(out, &table, &latest->candidates[i]);
	out_table_end(out);
}

static void put_paths(const struct latest *latest)
{
	for (size_t i = 0; i < latest->count; i++) {
		if (!latest->candidates[i].is_named)
			continue;
		out_verbatim(latest->run->out, text_of(latest->candidates[i].path));
		out_verbatim(latest->run->out, text_of("\n"));
	}
}

void latest_show(const struct latest *latest)
{
	struct table table = { .key = "candidates",
		.main = true,
		.rows_only = true,
		.view = latest->options->all ? VIEW_ALL : VIEW_EXPLAIN };

	out_fields(latest->run->out, &latest_record, (struct subject){ NULL, latest });
	put_rows(latest, &table);
	table.rows_only = false;
	table.text_only = true;
	if (is_table(latest))
		put_rows(latest, &table);
	else
		put_paths(latest);
}
