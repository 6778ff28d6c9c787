/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the checkpoints below a directory: a run with its steps, or a project with several.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/info/below-table.h"
#include "part/audit-run.h"

#include "part/tensor-row.h"

struct below_row {
	const char *path;   /* as the user would type it */
	struct text name;   /* the same below the named directory */
	const char *format; /* NULL: it could not be opened */
	int64_t step;
	uint64_t bytes;
	uint32_t ranks;
	uint64_t errors; /* findings and parts that could not be read */
	bool is_unread;
	bool is_member;  /* of a set that another row stands for */
	uint64_t others; /* members of the set that this row stands for */
	struct text problem;
	char text[240];  /* of it */
	char shown[320]; /* the name of a set; empty: it is none, or too long */
};

static void set_problem(struct below_row *row, const char *text)
{
	size_t size = strlen(text);

	if (size >= sizeof row->text)
		size = sizeof row->text - 1;
	memcpy(row->text, text, size);
	row->text[size] = '\0';
	row->problem = text_of(row->text);
}

/* "FILE: what is wrong with it", since a finding's sentence may speak of its file. The row
 * begins with the name of a checkpoint that is one file. */
static void set_finding(struct below_row *row, const struct fsdp_finding *finding)
{
	struct text file = text_of_span(finding->file);
	char text[sizeof row->text];

	if (row->others == 0 && text_is(file, text_last(text_of(row->path), '/')))
		file.size = 0;
	snprintf(text, sizeof text, "%.*s%s%s", (int)file.size,
		file.size > 0 ? file.data : "", file.size > 0 ? ": " : "",
		(const char *)finding->message.data);
	set_problem(row, text);
}

/* The first error stands for all. */
static void examine(struct below_row *row, const struct fsdp_checkpoint *checkpoint)
{
	size_t count = fsdp_finding_count(checkpoint);

	for (size_t i = 0; i < count; i++) {
		const struct fsdp_finding *finding = fsdp_finding(checkpoint, i);
		if (finding->severity != FSDP_ERROR)
			continue;
		if (row->errors++ == 0)
			set_finding(row, finding);
	}
	count = fsdp_checkpoint_error_count(checkpoint);
	row->is_unread = count > 0;
	if (row->errors == 0 && count > 0)
		set_problem(
			row, fsdp_error_message(fsdp_checkpoint_error(checkpoint, 0)));
	row->errors += count;
}

static bool find_step(struct below_row *row, const struct fsdp_checkpoint *checkpoint)
{
	struct fsdp_overview *overview;
	int64_t step;
	bool good;

	if (!fsdp_overview_new(checkpoint, &overview, NULL))
		return false;
	good = step_inside(checkpoint, overview, &step, NULL);
	fsdp_overview_free(overview);
	if (good && step != FSDP_ABSENT)
		row->step = step;
	return good;
}

/* Files of one set are one checkpoint: each of them opens all. */
static void find_members(struct below_row *row, struct below_row *end,
	const struct fsdp_checkpoint *checkpoint)
{
	const char *slash = strrchr(row->path, '/');
	size_t folder = slash != NULL ? (size_t)(slash - row->path) + 1 : 0;
	size_t files = fsdp_file_count(checkpoint);

	for (uint32_t i = 0; i < files && files > 1; i++) {
		struct text file = text_of_span(fsdp_file(checkpoint, i).path);
		for (struct below_row *other = row + 1; other < end; other++)
			if (strlen(other->path) == folder + file.size &&
				memcmp(other->path, row->path, folder) == 0 &&
				memcmp(other->path + folder, file.data, file.size) == 0) {
				row->others += !other->is_member;
				other->is_member = true;
			}
	}
}

/* The rule of files that change while they are read. */
static bool is_changing(const struct fsdp_error *error)
{
	const char *rule = fsdp_error_rule(error);

	return rule != NULL && strcmp(rule, "FI2004") == 0;
}

/* For a file also the marker of its directory. */
static void find_marker(struct below_row *row, const struct run *run)
{
	const char *slash = strrchr(row->path, '/');
	char folder[4096];

	if (!path_is_unfinished(row->path)) {
		if (slash == NULL || (size_t)(slash - row->path) <= strlen(run->path) ||
			slash - row->path >= (ptrdiff_t)sizeof folder)
			return;
		memcpy(folder, row->path, (size_t)(slash - row->path));
		folder[slash - row->path] = '\0';
		if (!path_is_unfinished(folder))
			return;
	}
	if (row->errors++ == 0)
		set_problem(row,
			"a file with its name and -unfinished is next to it: the save did not finish");
}

/* False: out of memory. */
static bool look_at(struct below_row *row, struct below_row *end, const struct run *run)
{
	struct fsdp_options options = { .size = sizeof options,
		.limits = run->limits,
		.limit_count = run->limit_count,
		.remote = run->remote,
		.no_plan = true,
		.only_counts = true };
	struct fsdp_checkpoint *checkpoint = NULL;
	struct fsdp_error *error = NULL;
	bool good = true;

	steps_ask(&options);
	row->step = step_of_path(row->path);
	row->bytes = UINT64_MAX;
	row->ranks = UINT32_MAX;
	if (!fsdp_checkpoint_open(&row->path, 1, &options, &checkpoint, &error)) {
		/* A file that cannot be read is not a defect of the checkpoint. */
		row->is_unread = fsdp_error_is_unread(error) || is_changing(error);
		good = fsdp_error_code(error) != FSDP_ERROR_MEMORY;
		row->errors = 1;
		set_problem(row, fsdp_error_message(error));
		fsdp_error_free(error);
		return good;
	}
	row->format = fsdp_checkpoint_format(checkpoint).family;
	row->bytes = fsdp_checkpoint_bytes(checkpoint).on_disk;
	row->ranks = fsdp_checkpoint_world_size(checkpoint);
	good = find_step(row, checkpoint);
	find_members(row, end, checkpoint);
	examine(row, checkpoint);
	find_marker(row, run);
	fsdp_checkpoint_free(checkpoint);
	return good;
}

static struct value get_complete(struct subject of)
{
	const struct below_row *row = of.object;

	return value_word(row->errors == 0 ? "yes" : "no");
}

static bool is_set(struct subject of)
{
	return ((const struct below_row *)of.object)->others > 0;
}

/* "rank0.pt and 3 more". */
static struct value get_name(struct subject of)
{
	const struct below_row *row = of.object;

	return value_name(row->shown[0] != '\0' ? text_of(row->shown) : row->name);
}

#define ROW struct below_row
static const struct record row_record = OBJECT_RECORD(ROW, "below",
	"A checkpoint below the given directory.",
	{ "path", WORD_AT(ROW, path), .machine_only = EVERY_VIEW, .always = true,
		ABOUT("Its path, as it would be typed.") },
	{ "checkpoint", GET(FIELD_NAME, get_name), .text_only = EVERY_VIEW },
	{ "others", COUNT_AT(ROW, others), .machine_only = EVERY_VIEW, .has = is_set,
		ABOUT("Further files of the same set, which the path stands for too.") },
	{ "step", INTEGER_AT(ROW, step), .right = true,
		ABOUT("Step of the run, as it says itself or else by its name.") },
	{ "bytes", BYTES_AT(ROW, bytes), ABOUT("Bytes of all its files.") },
	{ "ranks", ID_AT(ROW, ranks), ABOUT("Number of ranks that saved it.") },
	{ "format", WORD_AT(ROW, format), ABOUT("Word for its format.") },
	{ "errors", COUNT_AT(ROW, errors), .machine_only = EVERY_VIEW, .always = true,
		ABOUT("Findings of the severity error, and parts that could not be read.") },
	{ "complete", GET(FIELD_WORD, get_complete), .text_only = EVERY_VIEW },
	{ "problem", TEXT_AT(ROW, problem), ABOUT("The first of these.") });

static struct text name_below(const char *path, const char *folder)
{
	path += strlen(folder);
	return text_of(path + (*path == '/'));
}

static void tell_unread(struct run *run, const struct below_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (rows[i].is_unread)
			run_failure(run, "system", "", "%.*s: %s", (int)rows[i].name.size,
				rows[i].name.data, rows[i].text);
}

static int by_step(const void *a, const void *b)
{
	const struct below_row *left = a, *right = b;

	if (left->step != right->step)
		return left->step < right->step ? -1 : 1;
	return strcmp(left->path, right->path);
}

static void show_rows(struct run *run, struct below_row *rows, size_t count)
{
	static const struct table LIKE = { .key = "below", .main = true };
	struct record_table table;

	out_line(run->out, NULL, "%zu checkpoints below %s", count, run->path);
	record_table_init(&table, &LIKE, &row_record, NULL);
	out_records_begin(run->out, &table);
	for (size_t i = 0; i < count; i++) {
		/* It was made where the row was before. */
		if (rows[i].problem.data != NULL)
			rows[i].problem = text_of(rows[i].text);
		out_records_row(run->out, &table, &rows[i]);
	}
	out_table_end(run->out);
}

/* A checkpoint by itself, for outputs that have rows alone. */
void below_alone(struct run *run, int64_t step)
{
	static const struct table LIKE = {
		.key = "below", .main = true, .rows_only = true, .as_text = true
	};
	struct below_row row = { .path = run->path,
		.name = text_of(run->path),
		.format = fsdp_checkpoint_format(run->checkpoint).family,
		.step = step,
		.bytes = fsdp_checkpoint_bytes(run->checkpoint).on_disk,
		.ranks = fsdp_checkpoint_world_size(run->checkpoint) };
	struct record_table table;

	examine(&row, run->checkpoint);
	record_table_init(&table, &LIKE, &row_record, NULL);
	out_records_begin(run->out, &table);
	out_records_row(run->out, &table, &row);
	out_table_end(run->out);
}

const struct record below_record = OBJECT_RECORD(struct run, "checkpoints_below",
	"Of a directory that is not a checkpoint itself: the checkpoints below it.",
	{ "below", ROWS(row_record), .always = true, ABOUT("By step, then by path.") });

/* Leaves one row of each set, which is called so. Returns how many there are. */
static size_t join_sets(struct below_row *rows, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		struct below_row *row = &rows[i];

		if (row->is_member)
			continue;
		if (row->others > 0 && row->name.size < sizeof row->shown - 32)
			snprintf(row->shown, sizeof row->shown,
				"%.*s and %" PRIu64 " more", (int)row->name.size,
				row->name.data, row->others);
		rows[kept++] = *row;
	}
	return kept;
}

bool below_show(struct run *run, struct fsdp_error **ret_error)
{
	size_t count = fsdp_below_count(run->below), good = 0;
	struct below_row *rows = calloc(count + 1, sizeof *rows);
	bool done = rows != NULL;

	(void)ret_error;
	for (size_t i = 0; i < count && done; i++) {
		rows[i].path = fsdp_below_path(run->below, i);
		rows[i].name = name_below(rows[i].path, run->path);
	}
	for (size_t i = 0; i < count && done; i++)
		done = rows[i].is_member || look_at(&rows[i], rows + count, run);
	if (done)
		count = join_sets(rows, count);
	for (size_t i = 0; i < count && done; i++)
		good += rows[i].errors == 0;
	if (done) {
		qsort(rows, count, sizeof *rows, by_step);
		if (fsdp_below_is_cut(run->below))
			run_note(run,
				"there may be more: --limit below=N looks at more entries");
		tell_unread(run, rows, count);
		run_begin(run, STATUS_GOOD);
		show_rows(run, rows, count);
		while (count > 1 && good > 0 && rows[count - 1].errors > 0)
			count--;
		out_line_begin(run->out, "next");
		out_line_keep(run->out, true);
		out_line_text(run->out, "fsdp-inspect info ");
		out_line_shell(run->out, text_of(rows[count - 1].path));
		out_line_end(run->out);
	}
	free(rows);
	return done;
}
