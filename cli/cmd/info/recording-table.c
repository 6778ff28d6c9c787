/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inputs of info that are not a checkpoint but recordings of a run: what each is, and the
 * command that reads it.
 */
#include <inttypes.h>
#include <string.h>

#include <fsdp/trace.h>

#include "cmd/info/recording-table.h"
#include "session/session.h"

/* What a kind is called, and what to type. */
static const struct {
	const char *title, *command;
} KINDS[FSDP_RECORDING_KIND_COUNT] = {
	[FSDP_RECORDING_PROFILE] = { "recording of SimpleProfiler", "replay" },
	[FSDP_RECORDING_LOG] = { "log with lines of SimpleProfiler", "replay" },
	[FSDP_RECORDING_KINETO] = { "trace of torch.profiler", "replay" },
	[FSDP_RECORDING_FX_ORDER] = { "execution order recorded with torch.fx", "order" },
	[FSDP_RECORDING_EXEC_ORDER] = { "execution order of FSDP1", "order" },
	[FSDP_RECORDING_FLIGHT] = { "dump of the Flight Recorder", "order" },
	[FSDP_RECORDING_WATCHDOG] = { "log with lines about failed collectives",
		"order" },
	[FSDP_RECORDING_MEMORY] = { "CUDA memory snapshot", "replay --memory" },
};

/* Whether all that was recorded could be read. */
static bool is_whole(const struct fsdp_recording *one)
{
	return !one->truncated && one->dropped == 0 &&
	       one->trailing_data_at == FSDP_ABSENT && one->bad_line_count == 0 &&
	       (one->memory == NULL || !one->memory->is_cut);
}

/* What is shown of one. */
struct row {
	uint64_t input;
	const char *kind, *title, *command;
	int64_t rank, world_size;
	bool whole;
};

static struct row row_of(const struct fsdp_recording *one)
{
	return (struct row){ .input = one->input,
		.kind = fsdp_recording_kind_name(one->kind),
		.title = KINDS[one->kind].title,
		.command = KINDS[one->kind].command,
		.rank = one->rank_from != FSDP_RANK_FROM_POSITION ? one->rank
								  : FSDP_ABSENT,
		.world_size = one->world_size,
		.whole = is_whole(one) };
}

#define ROW struct row
static const struct record row_record = OBJECT_RECORD(ROW, "recording_input",
	"One input that is a recording of a run.",
	{ "input", COUNT_AT(ROW, input), .always = true, ABOUT("Index in `inputs`.") },
	{ "kind", WORD_AT(ROW, kind), .always = true,
		WORDS("simple_profiler", "log", "kineto", "fx_exec_order", "exec_order",
			"flight_recorder", "memory_snapshot", "nccl_watchdog"),
		ABOUT("Its kind, by its content.") },
	{ "title", WORD_AT(ROW, title), .always = true, ABOUT("The same in words.") },
	{ "rank", INTEGER_AT(ROW, rank),
		ABOUT("The rank that recorded it: as the recording says, else as its name does.") },
	{ "world_size", INTEGER_AT(ROW, world_size),
		ABOUT("Number of ranks of the run, if the recording contains it.") },
	{ "whole", BOOL_AT(ROW, whole), .always = true,
		ABOUT("Whether all of it could be read.") },
	{ "command", WORD_AT(ROW, command), .always = true,
		ABOUT("The command that reads it.") });

_Static_assert(sizeof(struct row) <= RECORD_ROOM, "room for one");

static const void *each_recording(struct subject of, size_t i, void *room)
{
	const struct run *run = of.object;
	const struct fsdp_recording *one = fsdp_recording(run->recordings, i);
	struct row *row = room;

	if (one == NULL)
		return NULL;
	*row = row_of(one);
	return row;
}

const struct record recordings_record = OBJECT_RECORD(struct run, "recordings",
	"Of inputs that are recordings of a run and no checkpoint: what each is.",
	{ "recordings", EACH_ITEM(struct run, path_count, each_recording, row_record),
		.always = true, ABOUT("In the order of the inputs.") });

/* "rank0.json  trace of torch.profiler, rank 0 of 2" */
static void tell(struct run *run, const struct row *row)
{
	struct out *out = run->out;

	out_line_begin(out, NULL);
	out_line_name(out, text_of(run->paths[row->input]));
	out_line_text(out, "  %s", row->title);
	if (row->rank != FSDP_ABSENT)
		out_line_text(out, ", rank %" PRId64, row->rank);
	if (row->rank != FSDP_ABSENT && row->world_size != FSDP_ABSENT)
		out_line_text(out, " of %" PRId64, row->world_size);
	if (!row->whole)
		out_line_text(out, "; some of it could not be read");
	out_line_end(out);
}

/* One command reads those of one kind together. */
static void tell_next(struct run *run, size_t count)
{
	const char *command = row_of(fsdp_recording(run->recordings, 0)).command;

	out_line_begin(run->out, "next");
	out_line_keep(run->out, true);
	out_line_text(run->out, "fsdp-inspect %s", command);
	for (size_t i = 0; i < count; i++) {
		struct row row = row_of(fsdp_recording(run->recordings, i));
		if (strcmp(row.command, command) != 0)
			continue;
		out_line_text(run->out, " ");
		out_line_shell(run->out, text_of(run->paths[row.input]));
	}
	out_line_end(run->out);
}

static void show_rows(struct run *run, size_t count)
{
	static const struct table LIKE = {
		.key = "recordings", .main = true, .rows_only = true
	};
	struct record_table table;

	record_table_init(&table, &LIKE, &row_record, run);
	out_records_begin(run->out, &table);
	for (size_t i = 0; i < count; i++) {
		struct row row = row_of(fsdp_recording(run->recordings, i));

		out_records_row(run->out, &table, &row);
	}
	out_table_end(run->out);
}

bool recordings_show(struct run *run)
{
	size_t count = fsdp_recording_count(run->recordings);
	int status = STATUS_GOOD;

	for (size_t i = 0; i < count; i++)
		if (!is_whole(fsdp_recording(run->recordings, i)))
			status = STATUS_PARTIAL;
	run_begin(run, status);
	for (size_t i = 0; i < count; i++) {
		struct row row = row_of(fsdp_recording(run->recordings, i));
		tell(run, &row);
	}
	tell_next(run, count);
	out_fields(run->out, &recordings_record, (struct subject){ run, run });
	show_rows(run, count);
	return true;
}
