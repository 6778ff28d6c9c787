/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the facts that info prints, and the findings that opening allows. Reads
 * headers only, except with --waste.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>
#include <fsdp/memory.h>
#include <fsdp/trace.h>

#include "commands/info-answer.h"
#include "shared/audit-run.h"
#include "shared/modules.h"
#include "shared/recordings.h"
#include "shared/tensor-reading.h"
#include "shared/tensor-row.h"
#include "session/session.h"

/* ---- recordings of a run ---- */

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

#define ROW struct row
struct row {
	uint64_t input;
	const char *kind, *title, *command;
	int64_t rank, world_size;
	bool whole; /* all that was recorded could be read */
};

struct input_rows {
	struct row *items;
	size_t count;
};
static const struct record row_record = OBJECT_RECORD(ROW, "recording_input",
	"One input that is a recording of a run.",
	{ "input", COUNT_AT(ROW, input), ALWAYS("Index in `inputs`.") },
	{ "kind", WORD_AT(ROW, kind), .always = true,
		WORDS("simple_profiler", "log", "kineto", "fx_exec_order", "exec_order",
			"flight_recorder", "memory_snapshot", "nccl_watchdog"),
		ABOUT("Its kind, by its content.") },
	{ "title", WORD_AT(ROW, title), ALWAYS("The same as text for people.") },
	{ "rank", INTEGER_AT(ROW, rank),
		ABOUT("The rank that recorded it: from the recording, else from its name.") },
	{ "world_size", INTEGER_AT(ROW, world_size),
		ABOUT("Number of ranks of the run, if the recording contains it.") },
	{ "whole", BOOL_AT(ROW, whole), ALWAYS("Whether all of it could be read.") },
	{ "command", WORD_AT(ROW, command), ALWAYS("The command that reads it.") });

static const struct record recordings_record =
	OBJECT_RECORD(struct input_rows, "recordings",
		"Of inputs that are recordings of a run and no checkpoint: what each is.",
		{ "recordings", ITEMS_AT(struct input_rows, items, count, row_record),
			ALWAYS("In the order of the inputs.") });

/* What the recordings in run->recordings are, and which command reads them: begins and
 * writes the answer. */
static void recordings_show(struct run *run)
{
	static const struct table LIKE = {
		.key = "recordings", .main = true, .rows_only = true
	};
	struct input_rows rows = { .count = fsdp_recording_count(run->recordings) };
	int status = STATUS_GOOD;

	rows.items = run_memory(run, rows.count, sizeof *rows.items);
	FOR_EACH(i, rows.count, one, fsdp_recording(run->recordings, i)) {
		rows.items[i] = (struct row){ .input = one->input,
			.kind = fsdp_recording_kind_name(one->kind),
			.title = KINDS[one->kind].title,
			.command = KINDS[one->kind].command,
			.rank = one->rank_from != FSDP_RANK_FROM_POSITION ? one->rank
									  : FSDP_ABSENT,
			.world_size = one->world_size,
			.whole = !one->truncated && one->dropped == 0 &&
				 one->trailing_data_at == FSDP_ABSENT &&
				 one->bad_line_count == 0 &&
				 (one->memory == NULL || !one->memory->is_cut) };
		if (!rows.items[i].whole)
			status = STATUS_PARTIAL;
	}
	run_begin(run, status);
	/* "rank0.json  trace of torch.profiler, rank 0 of 2" */
	FOR_EACH(i, rows.count, row, &rows.items[i])
		out_values_line(run->out, NULL, "{}  {}[, rank {}][ of {}]{}",
			value_word(run->paths[row->input]), value_word(row->title),
			value_known(row->rank),
			value_known(
				row->rank != FSDP_ABSENT ? row->world_size : FSDP_ABSENT),
			value_word(row->whole ? "" : "; some of it could not be read"));
	/* One command reads those of one kind together. */
	out_line_begin(run->out, "next");
	out_line_keep(run->out, true);
	out_line_text(run->out, "fsdp-inspect %s", rows.items[0].command);
	for (size_t i = 0; i < rows.count; i++)
		if (strcmp(rows.items[i].command, rows.items[0].command) == 0) {
			out_line_text(run->out, " ");
			out_line_shell(
				run->out, text_of(run->paths[rows.items[i].input]));
		}
	out_line_end(run->out);
	out_fields(run->out, &recordings_record, (struct subject){ run, &rows });
	out_records(run->out, &LIKE, &row_record, run, rows.items, rows.count);
}

/* ---- checkpoints below a directory ---- */

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

/* "FILE: what is wrong", unless the row begins with the name of the file. */
static void set_file_problem(struct below_row *row, struct text file, const char *message)
{
	char text[sizeof row->text];

	if (row->others == 0 && text_is(file, text_last(text_of(row->path), '/')))
		file.size = 0;
	snprintf(text, sizeof text, "%.*s%s%s", (int)file.size,
		file.size > 0 ? file.data : "", file.size > 0 ? ": " : "", message);
	set_problem(row, text);
}

static void set_error_problem(struct below_row *row, const struct fsdp_error *error)
{
	const char *path = fsdp_error_path(error);

	set_file_problem(row,
		path != NULL ? text_last(text_of(path), '/') : (struct text){ 0 },
		fsdp_error_message(error));
}

/* The first error stands for all. */
static void examine(struct below_row *row, const struct fsdp_checkpoint *checkpoint)
{
	size_t count = fsdp_finding_count(checkpoint);

	FOR_EACH(i, count, finding, fsdp_finding(checkpoint, i)) {
		if (finding->severity != FSDP_ERROR)
			continue;
		/* A finding's sentence may speak of its file. */
		if (row->errors++ == 0)
			set_file_problem(row, text_of_span(finding->file),
				(const char *)finding->message.data);
	}
	count = fsdp_checkpoint_error_count(checkpoint);
	row->is_unread = count > 0;
	if (row->errors == 0 && count > 0)
		set_error_problem(row, fsdp_checkpoint_error(checkpoint, 0));
	row->errors += count;
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

static void look_at(struct below_row *row, struct below_row *end, struct run *run)
{
	struct fsdp_options options = run_opens(run);
	struct fsdp_checkpoint *checkpoint = NULL;
	struct fsdp_error *error = NULL;
	struct fsdp_overview *overview = NULL;
	const char *slash, *rule;
	size_t folder, files;
	int64_t step;
	size_t mark = memory_mark();

	options.no_plan = options.only_counts = true;
	steps_only(&options);
	row->step = step_of_path(row->path);
	row->bytes = UINT64_MAX;
	row->ranks = UINT32_MAX;
	if (!fsdp_checkpoint_open(&row->path, 1, &options, &checkpoint, &error)) {
		/* A file that cannot be read, or that changes while it is read, is not a
		 * defect of the checkpoint. */
		rule = fsdp_error_rule(error);
		row->is_unread = fsdp_error_is_unread(error) ||
				 (rule != NULL && strcmp(rule, "FI2004") == 0);
		if (fsdp_error_code(error) == FSDP_ERROR_MEMORY)
			run_fail(run, error);
		run_owns(run, error, release_error);
		row->errors = 1;
		set_error_problem(row, error);
		return;
	}
	run_owns(run, checkpoint, release_checkpoint);
	row->format = fsdp_checkpoint_format(checkpoint).family;
	row->bytes = fsdp_checkpoint_bytes(checkpoint).on_disk;
	row->ranks = fsdp_checkpoint_world_size(checkpoint);
	run_must(run, fsdp_overview_new(checkpoint, &overview, &run->error));
	run_owns(run, overview, release_overview);
	step_inside(checkpoint, overview, &step, NULL);
	if (step != FSDP_ABSENT)
		row->step = step;
	/* Files of one set are one checkpoint: each of them opens all. */
	slash = strrchr(row->path, '/');
	folder = slash != NULL ? (size_t)(slash - row->path) + 1 : 0;
	files = fsdp_file_count(checkpoint);
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
	examine(row, checkpoint);
	find_marker(row, run);
	memory_release(mark);
}

GETTER(get_complete, struct below_row, value_word(one->errors == 0 ? "yes" : "no"))

/* "rank0.pt and 3 more". */
GETTER(get_name, struct below_row,
	value_name(one->shown[0] != '\0' ? text_of(one->shown) : one->name))

#define BELOW struct below_row
static const struct record below_row_record = OBJECT_RECORD(BELOW, "below",
	"A checkpoint below the given directory.",
	{ "path", WORD_AT(BELOW, path), .machine_only = EVERY_VIEW,
		ALWAYS("Its path, as it would be typed.") },
	{ "checkpoint", GET(FIELD_NAME, get_name), .text_only = EVERY_VIEW },
	{ "others", COUNT_AT(BELOW, others), .machine_only = EVERY_VIEW,
		IF_SET(BELOW, others),
		ABOUT("Further files of the same set, which the path stands for too.") },
	{ "step", INTEGER_AT(BELOW, step), .right = true,
		ABOUT("Step of the run: as recorded, else from its name.") },
	{ "bytes", BYTES_AT(BELOW, bytes), ABOUT("Bytes of all its files.") },
	{ "ranks", ID_AT(BELOW, ranks), ABOUT("Number of ranks that saved it.") },
	{ "format", WORD_AT(BELOW, format), ABOUT("Word for its format.") },
	{ "errors", COUNT_AT(BELOW, errors), .machine_only = EVERY_VIEW,
		ALWAYS("Findings of the severity error, and parts that could not be read.") },
	{ "complete", GET(FIELD_WORD, get_complete), .text_only = EVERY_VIEW },
	{ "problem", TEXT_AT(BELOW, problem), ABOUT("The first of these.") });

static int by_step(const void *a, const void *b)
{
	const struct below_row *left = a, *right = b;

	if (left->step != right->step)
		return left->step < right->step ? -1 : 1;
	return strcmp(left->path, right->path);
}

static const struct record below_record = OBJECT_RECORD(struct run, "checkpoints_below",
	"Of a directory that is not a checkpoint itself: the checkpoints below it.",
	{ "below", ROWS(below_row_record), ALWAYS("By step, then by path.") });

/* Opens the checkpoints of run->below in order, which reads their headers, and prints a
 * row per checkpoint. */
static void below_show(struct run *run)
{
	static const struct table LIKE = {
		.key = "below", .main = true, .one_line = true
	};
	size_t all = fsdp_discover_count(run->below), good = 0, count = 0;
	struct below_row *rows = run_memory(run, all, sizeof *rows);

	for (size_t i = 0; i < all; i++) {
		rows[i].path = fsdp_discover_path(run->below, i);
		const char *name = rows[i].path + strlen(run->path);
		rows[i].name = text_of(name + (*name == '/'));
		fsdp_remote_expect_directory(helper_remote(), rows[i].path, true);
	}
	for (size_t i = 0; i < all; i++)
		if (!rows[i].is_member)
			look_at(&rows[i], rows + all, run);
	/* One row of each set, which is called so. */
	FOR_EACH(i, all, row, &rows[i]) {
		if (row->is_member)
			continue;
		if (row->others > 0 && row->name.size < sizeof row->shown - 32)
			snprintf(row->shown, sizeof row->shown,
				"%.*s and %" PRIu64 " more", (int)row->name.size,
				row->name.data, row->others);
		good += row->errors == 0;
		rows[count++] = *row;
	}
	qsort(rows, count, sizeof *rows, by_step);
	if (fsdp_discover_limit_reached(run->below))
		run_note(run, "there may be more: --limit below=N looks at more entries");
	for (size_t i = 0; i < count; i++)
		if (rows[i].is_unread)
			run_failure(run, "system", "", "%.*s: %s", (int)rows[i].name.size,
				rows[i].name.data, rows[i].text);
	run_begin(run, STATUS_GOOD);
	out_line(run->out, NULL, "%zu checkpoints below %s", count, run->path);
	/* It was made where the row was before. */
	for (size_t i = 0; i < count; i++)
		if (rows[i].problem.data != NULL)
			rows[i].problem = text_of(rows[i].text);
	out_records(run->out, &LIKE, &below_row_record, NULL, rows, count);
	while (count > 1 && good > 0 && rows[count - 1].errors > 0)
		count--;
	out_line_begin(run->out, "next");
	out_line_keep(run->out, true);
	out_line_text(run->out, "fsdp-inspect info ");
	out_line_shell(run->out, text_of(rows[count - 1].path));
	out_line_end(run->out);
}

/* ---- --waste: storages that tensors use only in part ---- */

enum { NAMES_MAX = 1000 }; /* listed per storage */

static void keep_place(void *context, size_t position, const struct fsdp_place *place)
{
	fsdp_unused_place(context, position, place);
}

RELEASE(release_unused, fsdp_unused_free)

/* Locates what must be located first. A place that cannot be read makes *status
 * partial. */
static struct fsdp_unused *waste_find(struct run *run, int *status)
{
	struct fsdp_unused *waste;
	size_t count;

	run_must(run, fsdp_unused_new(run->checkpoint, &waste, &run->error));
	run_owns(run, waste, release_unused);
	const uint32_t *asked = fsdp_unused_to_locate(waste, &count);
	places_find(run, asked, count, keep_place, waste, status);
	run_must(run, fsdp_unused_finish(waste, &run->error));
	return waste;
}

/* The context of the rows. */
struct waste_rows {
	struct row_context row;
	const struct fsdp_unused *waste;
	struct text names[NAMES_MAX];
};

/* Names of the views of one storage, concatenated in the buffer. */
static struct value get_names(struct subject of)
{
	struct waste_rows *rows = of.context;
	const struct fsdp_unused_row *row = of.object;
	struct name_buffer *all = &buffers_of(of)->text;
	size_t count = row->view_count < NAMES_MAX ? row->view_count : NAMES_MAX;
	size_t length = 0;

	FOR_EACH(i, count, tensor,
		fsdp_tensor(checkpoint_of(of), fsdp_unused_tensor(rows->waste, row, i))) {
		struct text name =
			tensor_shown_name(run_of(of), &buffers_of(of)->name, &tensor);
		name_buffer_append(all, &length, name);
		rows->names[i].size = name.size;
	}
	length = 0;
	/* Only now: the buffer moves while it grows. */
	for (size_t i = 0; i < count; i++) {
		rows->names[i].data = all->data + length;
		length += rows->names[i].size;
	}
	return value_texts(rows->names, count);
}

#define WASTE struct fsdp_unused_row
static const struct record waste_record = OBJECT_RECORD(WASTE, "waste",
	"A storage with bytes that no tensor views.",
	{ "storage", TEXT_AT(WASTE, storage), ALWAYS("Its key.") },
	{ "file", FOUND_AT(WASTE, file, FIELD_NAME, find_file), ALWAYS(FILE_ABOUT) },
	{ "stored_bytes", BYTES_AT(WASTE, stored_bytes),
		ALWAYS("Bytes that are stored.") },
	{ "used_bytes", BYTES_AT(WASTE, used_bytes), ALWAYS("Bytes that tensors view.") },
	{ "names", GET(FIELD_TEXTS, get_names), ALWAYS("Names of the tensors on it.") });

MAKER(each_waste, struct fsdp_unused_row, fsdp_unused_row(of.object, i))

/* ---- what info says of a checkpoint, for programs ---- */

#define FORMAT struct fsdp_format
static const struct record format_record = OBJECT_RECORD(FORMAT, NULL,
	"Kind of the checkpoint.",
	{ "family", WORD_AT(FORMAT, family),
		ALWAYS("Word for the format, such as `torch-zip`, `dcp` or `fsdp-plan`.") },
	{ "title", WORD_AT(FORMAT, title), ALWAYS("Name of the format for people.") },
	{ "writer", WORD_AT(FORMAT, writer),
		ABOUT("Program that wrote it, if recorded.") },
	{ "torch_guess", WORD_AT(FORMAT, torch_guess),
		ABOUT("Versions of torch that write such files.") });

#define INFO struct info
static const struct record plan_record = OBJECT_RECORD(INFO, "plan",
	"The sharding plan that was used.",
	{ "path", WORD_AT(INFO, plan.path), ALWAYS("Its file.") },
	{ "torch", WORD_AT(INFO, plan.torch),
		ABOUT("Version of torch it was exported from.") },
	{ "world_size", ID_AT(INFO, plan.world_size),
		ABOUT("World size of the run it describes; absent from one that was made of a log or a trace.") },
	{ "units", ID_AT(INFO, plan.unit_count), ALWAYS("Number of units.") },
	{ "strategies", ARRAY_OF(struct info, strategies, strategy_count, record_texts),
		ALWAYS("Strategies that occur among its units.") },
	{ "mesh", MADE_AT(INFO, plan.mesh, find_mesh, mesh_record) });

/* ---- kind ---- */

static const char *state_dict_word(unsigned state_dict)
{
	static const char *const words[] = { [FSDP_STATE_DICT_FULL] = "full",
		[FSDP_STATE_DICT_SHARDED] = "sharded",
		[FSDP_STATE_DICT_LOCAL] = "local" };

	return words[state_dict];
}

static const struct record kind_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ "fsdp", ENUM_AT(INFO, kind.flavour, flavour_word), FLAVOUR_WORDS,
		ABOUT("FSDP version that sharded it, if a plan or the classes of tensors show it: FSDP1 with a device mesh saves the same DTensors as FSDP2.") },
	{ "state_dict", ENUM_AT(INFO, kind.state_dict, state_dict_word),
		WORDS("full", "sharded", "local"),
		ABOUT("Kind of the saved state dict: `full` tensors, `sharded` ones with their global names and shapes, or the shards of flat parameters (`local`).") },
	{ "strategy", WORD_AT(INFO, kind.strategy),
		ABOUT("Sharding strategy, if the plan has one for all units.") },
	{ "mesh", MADE_AT(INFO, kind.mesh, find_mesh, mesh_record) },
	{ "hybrid", BOOL_AT(INFO, kind.is_hybrid),
		ALWAYS("Whether it is known to be one of several copies of a sharded model (HSDP).") },
	{ "tensor_parallel", BOOL_AT(INFO, kind.is_tensor_parallel),
		ALWAYS("Whether the mesh has a dimension for tensor parallelism.") },
	{ "looks_like", WORD_AT(INFO, kind.looks_like),
		ABOUT("Architecture that the names of modules suggest.") },
	{ "class", TEXT_AT(INFO, class_name),
		ABOUT("Class of the model, of its configuration or else of the plan.") },
	{ "layers", ID_AT(INFO, kind.layers), IF_SET(INFO, kind.layers),
		ABOUT("Modules in the longest list of numbered modules.") },
	{ "dtypes", ARRAY_OF(INFO, dtypes, dtype_count, record_texts),
		IF_SET(INFO, dtype_count),
		ABOUT("Element types of parameters, the most frequent first.") });

/* ---- adapters ---- */

/* A text, a number or a list of them, as the file has it. */
static struct value find_setting(struct subject of, uint32_t index)
{
	struct fsdp_value value = fsdp_value(checkpoint_of(of), index);

	return value.token_count == 1 && value.tokens->kind == FSDP_TOKEN_NONE
		       ? value_absent()
		       : tokens_json(
				 &buffers_of(of)->json, value.tokens, value.token_count);
}

#define SETTING(setting) \
	FOUND_AT(INFO, settings[SETTING_##setting], FIELD_ANY, find_setting)

static bool is_adapter(struct subject of)
{
	uint32_t type = ((const struct info *)of.object)->settings[SETTING_TYPE];

	return type != FSDP_NONE && find_setting(of, type).type != VALUE_ABSENT;
}

static const struct record adapter_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ "type", SETTING(TYPE), ABOUT("`LORA` or another kind.") },
	{ "rank", SETTING(RANK), ABOUT("Rank of its matrices.") },
	{ "alpha", SETTING(ALPHA), ABOUT("Scale of the adapter.") },
	{ "target_modules", SETTING(TARGETS),
		ABOUT("Modules that it adapts: a list of names, or one pattern.") },
	{ "base_model", SETTING(BASE), ABOUT("Base model.") });

static const struct {
	const char *key, *title;
} optimizers[] = {
	[FSDP_OPTIMIZER_ADAM_OR_ADAMW] = { "adam_or_adamw", "Adam or AdamW" },
	[FSDP_OPTIMIZER_ADAM] = { "adam", "Adam" },
	[FSDP_OPTIMIZER_ADAMW] = { "adamw", "AdamW" },
	[FSDP_OPTIMIZER_SGD] = { "sgd", "SGD with momentum" },
	[FSDP_OPTIMIZER_ADAFACTOR] = { "adafactor", "Adafactor-like" },
	[FSDP_OPTIMIZER_LION] = { "lion", "Lion-like" },
	[FSDP_OPTIMIZER_RMSPROP] = { "rmsprop", "RMSprop-like" },
	[FSDP_OPTIMIZER_ADAGRAD] = { "adagrad", "Adagrad-like" },
};

static const char *optimizer_key(unsigned optimizer)
{
	return optimizers[optimizer].key;
}

const char *optimizer_word(unsigned optimizer)
{
	return optimizers[optimizer].title;
}

#define STATE struct fsdp_state_kind
static const struct record state_record = RECORD_OF(RECORD_OBJECT, STATE,
	{ "key", CHARS_AT(STATE, key), ALWAYS("Key in the optimizer.") },
	{ "dtype", ENUM_AT(STATE, dtype, dtype_name), ALWAYS("Its element type.") },
	{ "scalar", BOOL_AT(STATE, is_scalar), ALWAYS("Whether each is one number.") },
	{ "tensors", COUNT_AT(STATE, tensors), ALWAYS("Number of tensors.") });

#define FACTS struct fsdp_overview_facts
static const struct record optimizer_totals_record = RECORD_OF(RECORD_OBJECT, FACTS,
	{ "tensors", COUNT_AT(FACTS, roles[FSDP_ROLE_OPTIM].tensors),
		ALWAYS("Number of its tensors.") },
	{ "bytes", BYTES_AT(FACTS, roles[FSDP_ROLE_OPTIM].bytes),
		ALWAYS("Bytes of its tensors.") },
	{ "states", ARRAY_OF(FACTS, states, state_count, state_record),
		ALWAYS("Its states: the first eight kinds.") });

HAS(has_optimizer, struct info, one->facts->roles[FSDP_ROLE_OPTIM].tensors > 0)

static const struct record optimizer_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ "kind", ENUM_AT(INFO, kind.optimizer, optimizer_key),
		WORDS("adam_or_adamw", "adam", "adamw", "sgd", "adafactor", "lion",
			"rmsprop", "adagrad"),
		ABOUT("Optimizer that its states look like.") },
	{ "title", ENUM_AT(INFO, kind.optimizer, optimizer_word),
		ABOUT("Name for people.") },
	{ NULL, POINTED_AT(INFO, facts, optimizer_totals_record), .always = true });

/* ---- sharding ---- */

static const char *how_word(unsigned how)
{
	static const char *const words[] = { [FSDP_SHARDING_REPLICATED] = "replicated",
		[FSDP_SHARDING_DIM] = "dim",
		[FSDP_SHARDING_DIMS] = "dims",
		[FSDP_SHARDING_FLAT] = "flat" };

	return words[how];
}

struct part_of_cut {
	uint32_t dim, over;
};

static const void *each_cut(struct subject of, size_t i, void *room)
{
	const struct fsdp_sharding *sharding = of.object;
	struct part_of_cut *made = room;

	if (i >= sharding->cuts || i >= FSDP_OVERVIEW_CUTS)
		return NULL;
	*made = (struct part_of_cut){ sharding->cut[i].dim, sharding->cut[i].over };
	return made;
}

#define CUT struct part_of_cut
static const struct record cut_record = RECORD_OF(RECORD_OBJECT, CUT,
	{ "dim", ID_AT(CUT, dim), ALWAYS("The dimension.") },
	{ "over", ID_AT(CUT, over),
		ALWAYS("Number of shards, derived from the first piece.") });

#define SHARDING struct fsdp_sharding
static const struct record sharding_record = RECORD_OF(RECORD_OBJECT, SHARDING,
	{ "how", ENUM_AT(SHARDING, how, how_word), .always = true,
		WORDS("replicated", "dim", "dims", "flat"),
		ABOUT("Each piece is the full tensor (`replicated`), a shard in one dimension or in several, or a part of a FlatParameter.") },
	{ "over", ID_AT(SHARDING, over),
		ALWAYS("Pieces of one copy; of `replicated` all of them.") },
	{ "copies", ID_AT(SHARDING, copies), ALWAYS("Copies of each piece.") },
	{ "cuts", EACH(each_cut, cut_record),
		ALWAYS("Sharded dimensions: the first four.") },
	{ "tensors", COUNT_AT(SHARDING, tensors), ALWAYS("Number of tensors.") },
	{ "pieces", COUNT_AT(SHARDING, pieces), ALWAYS("Number of their pieces.") });

static const struct record shardings_record = RECORD_OF(RECORD_OBJECT, FACTS,
	{ "sharding", ARRAY_OF(FACTS, shardings, sharding_count, sharding_record),
		ALWAYS("Shardings of tensors with several pieces: the first eight.") });

static bool has_balance(struct subject of)
{
	return ((const struct info *)of.object)->balance.groups > 1;
}

static const struct record balance_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ "even", BOOL_AT(INFO, balance.is_even),
		ALWAYS("Whether all ranks have the same number of bytes.") },
	{ "rank", ID_AT(INFO, balance.key),
		ALWAYS("The first of the ranks with the most bytes.") },
	{ "bytes", BYTES_AT(INFO, balance.most), ALWAYS("Bytes of that rank.") },
	{ "mean_bytes", BYTES_AT(INFO, mean_bytes), ABOUT("Mean of all ranks.") });

static const struct record per_rank_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ "stored_bytes", BYTES_AT(INFO, per_rank.stored),
		ABOUT("Bytes of tensors that the rank with the most has stored.") },
	{ "resume_bytes", BYTES_AT(INFO, per_rank.resume),
		ABOUT("Bytes that a rank needs at most to resume on as many ranks.") },
	{ "weights_bytes", BYTES_AT(INFO, per_rank.weights),
		ALWAYS("Bytes of all parameters and buffers, on one rank.") });

static const struct record counts_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ "tensors", SIZE_AT(INFO, counts.tensors), ALWAYS("Number of tensors.") },
	{ "parameters", COUNT_AT(INFO, counts.parameters),
		ALWAYS("Number of elements of parameters, tied ones counted once.") },
	{ "pieces", SIZE_AT(INFO, counts.pieces),
		ALWAYS("Number of pieces of tensors.") },
	{ "files", SIZE_AT(INFO, counts.files), ALWAYS("Number of files.") },
	{ "modules", SIZE_AT(INFO, counts.modules), ALWAYS("Number of modules.") },
	{ "units", SIZE_AT(INFO, counts.units), ALWAYS("Number of FSDP units.") },
	{ "values", SIZE_AT(INFO, counts.values),
		ALWAYS("Number of entries that are not tensors.") });

struct part_of_bytes {
	struct fsdp_group group;
	struct value key;
	size_t next;
};

/* Of groups that have a key, which is all but the last one. */
static const void *each_share(struct subject of, size_t i, void *room)
{
	const enum fsdp_group_key *by = of.object;
	const struct info *info = of.context;
	const struct fsdp_sums *sums = fsdp_overview_sums(info->overview, *by);
	struct part_of_bytes *made = room;

	if (i == 0)
		made->next = 0;
	while (made->next + 1 < fsdp_sums_count(sums)) {
		made->group = fsdp_sums_group(sums, made->next++);
		if (made->group.tensors == 0)
			continue;
		made->key = group_key(checkpoint_of(of), *by, made->group.key,
			&buffers_of(of)->name, false);
		return made;
	}
	return NULL;
}

#define SHARE struct part_of_bytes
static const struct record share_record = OBJECT_RECORD(SHARE, "share",
	"Bytes of one group.",
	{ "key", KEY_AT(SHARE, key), ALWAYS("The group: a dtype, a role or a rank.") },
	{ "tensors", COUNT_AT(SHARE, group.tensors), ALWAYS(GROUP_TENSORS_ABOUT) },
	{ "pieces", COUNT_AT(SHARE, group.pieces), ALWAYS(GROUP_PIECES_ABOUT) },
	{ "bytes", BYTES_AT(SHARE, group.bytes), ALWAYS(GROUP_BYTES_ABOUT) });

GETTER(get_all_seen, struct info, value_bool(!one->unseen))

static const struct record bytes_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ "payload", BYTES_AT(INFO, bytes.payload),
		ALWAYS("Bytes of tensor storages, as stored.") },
	{ "on_disk", BYTES_AT(INFO, bytes.on_disk), ALWAYS("Bytes of all files.") },
	{ "records", BYTES_AT(INFO, bytes.records),
		ALWAYS("Bytes of directories, headers, pickles and padding.") },
	{ "unaccounted", BYTES_AT(INFO, bytes.unaccounted),
		ALWAYS("Unreferenced bytes.") },
	{ "unused", BYTES_AT(INFO, bytes.unused),
		ALWAYS("Bytes of tensor storages that no tensor views.") },
	{ "holes", BYTES_AT(INFO, holes),
		ABOUT("Bytes of files that were never written and read as zero; absent if they are less than half.") },
	{ "unread_pickles", COUNT_AT(INFO, unread),
		ALWAYS("Files next to and below it that are pickles and were not read.") },
	{ "all_seen", GET(FIELD_BOOL, get_all_seen),
		ALWAYS("Whether all files next to and below it were checked for that.") },
	{ "by_dtype", EACH_AT(INFO, by_dtype, each_share, share_record),
		ALWAYS("By element type.") },
	{ "by_role", EACH_AT(INFO, by_role, each_share, share_record),
		ALWAYS("By role.") },
	{ "by_rank", EACH_AT(INFO, by_rank, each_share, share_record),
		ALWAYS("By rank.") });

struct file_row {
	struct fsdp_file file;
	uint64_t payload; /* FSDP_UNKNOWN: tensors were only counted */
	bool is_missing, is_truncated;
};

static const void *file_at(struct subject of, size_t i, void *room)
{
	const struct info *info = of.context;
	const struct fsdp_sums *sums = fsdp_overview_sums(info->overview, FSDP_BY_FILE);
	const struct collected *found = &info->check.own;
	struct file_row *row = room;

	*row = (struct file_row){ .file = fsdp_file(checkpoint_of(of), i) };
	row->payload = fsdp_sum_count(checkpoint_of(of)) > 0
			       ? FSDP_UNKNOWN
			       : fsdp_sums_group(sums, i).bytes;
	row->is_missing = row->file.size == FSDP_UNKNOWN;
	for (size_t k = 0; k < found->finding_count && !row->is_truncated; k++)
		row->is_truncated =
			strcmp(found->findings[k].rule, "FI1004") == 0 &&
			text_is(found->findings[k].file, text_of_span(row->file.path));
	return row;
}

#define FILE_ROW struct file_row
static const struct record file_record = OBJECT_RECORD(FILE_ROW, "file",
	"A file of the checkpoint.",
	{ "path", TEXT_AT(FILE_ROW, file.path), ALWAYS("Its path in the checkpoint.") },
	{ "bytes", BYTES_AT(FILE_ROW, file.size),
		ABOUT("Its size; absent if it is missing.") },
	{ "payload", BYTES_AT(FILE_ROW, payload),
		ABOUT("Bytes of the tensors that it has, or should have; absent if tensors were only counted.") },
	{ "rank", ID_AT(FILE_ROW, file.rank),
		ABOUT("Rank that wrote it, where that is known.") },
	{ "missing", BOOL_AT(FILE_ROW, is_missing), IF_SET(FILE_ROW, is_missing),
		ABOUT("True if the checkpoint lists it and it is missing.") },
	{ "truncated", BOOL_AT(FILE_ROW, is_truncated), IF_SET(FILE_ROW, is_truncated),
		ABOUT("True if it is truncated: FI1004.") });

MAKER(find_value, struct fsdp_value, fsdp_value(checkpoint_of(of), (uint32_t)i))

MAKER(find_prefix, struct fsdp_prefix, fsdp_prefix(checkpoint_of(of), i))

#define PREFIX struct fsdp_prefix
static const struct record prefix_record = RECORD_OF(RECORD_OBJECT, PREFIX,
	{ "prefix", WORD_AT(PREFIX, prefix), ALWAYS("The segment, with its dot.") },
	{ "count", COUNT_AT(PREFIX, count),
		ALWAYS("Number of tensors whose names have it.") });
static const struct record names_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ "prefixes", EACH_OF(INFO, counts.prefixes, find_prefix, prefix_record),
		ALWAYS("Segments that wrappers left in names.") });

static const struct record check_counts_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ "error", COUNT_AT(INFO, check.errors), ALWAYS("Errors.") },
	{ "warning", COUNT_AT(INFO, check.warnings), ALWAYS("Warnings.") },
	{ "note", COUNT_AT(INFO, check.notes), ALWAYS("Notes.") },
	{ "unsupported", COUNT_AT(INFO, check.unread),
		ALWAYS("Parts that could not be read.") });

static const struct record check_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ "ran", BOOL_AT(INFO, check.ran),
		ALWAYS("Whether the checks ran: of a checkpoint of 20,000 tensors or more only `audit` runs them.") },
	{ "verdict", WORD_AT(INFO, check.verdict), WORDS("good", "bad", "partial"),
		ABOUT("As that of `audit`, of what was read for this answer.") },
	{ "counts", OBJECT(check_counts_record),
		ALWAYS("Number of findings by severity.") });

static bool has_average(struct subject of)
{
	return ((const struct info *)of.object)->facts->average_prefix != NULL;
}

static struct value get_average(struct subject of)
{
	struct text prefix = text_of(((const FACTS *)of.object)->average_prefix);

	prefix.size -= prefix.data[prefix.size - 1] == '.';
	return value_name(prefix);
}

static const struct record average_facts_record = RECORD_OF(RECORD_OBJECT, FACTS,
	{ "name", GET(FIELD_NAME, get_average),
		ALWAYS("Name of the state dict, or what the names of its tensors begin with.") },
	{ "tensors", COUNT_AT(FACTS, average.tensors), ALWAYS("Number of its tensors.") },
	{ "bytes", BYTES_AT(FACTS, average.bytes), ALWAYS("Bytes of its tensors.") });
static const struct record average_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ NULL, POINTED_AT(INFO, facts, average_facts_record), .always = true });

static const struct record facts_record = OBJECT_RECORD(INFO, "facts",
	"The facts of one checkpoint.",
	{ "format", OBJECT_AT(INFO, format, format_record), .always = true },
	{ "world_size", ID_AT(INFO, world_size),
		ABOUT("Number of ranks that saved it, if known; 1 for files of formats that have no ranks.") },
	{ "ranks_seen", SHAPE_AT(INFO, ranks, rank_count),
		ALWAYS("Ranks that own at least one piece, ascending.") },
	{ "kind", OBJECT(kind_record), ALWAYS("Sharding. Unknown fields are absent.") },
	{ "adapter", OBJECT(adapter_record), .has = is_adapter,
		ABOUT("Settings of an adapter, from `adapter_config.json`.") },
	{ "step", INTEGER_AT(INFO, step),
		ABOUT("Step of the run: of a value `step`, `global_step`, `iteration` or the like, else of the name that was typed, unless its number is the epoch.") },
	{ "plan", OBJECT(plan_record), IF_SET(INFO, has_plan) },
	{ "counts", OBJECT(counts_record), ALWAYS("Counts.") },
	{ "bytes", OBJECT(bytes_record), ALWAYS("Bytes by kind.") },
	{ "optimizer", OBJECT(optimizer_record), .has = has_optimizer,
		ABOUT("Optimizer states; absent without an optimizer.") },
	{ "average", OBJECT(average_record), .has = has_average,
		ABOUT("A second state dict with the same names and shapes, which the parameters do not count.") },
	{ NULL, POINTED_AT(INFO, facts, shardings_record), .always = true },
	{ "balance", OBJECT(balance_record), .has = has_balance,
		ABOUT("Balance of stored bytes among ranks; absent for fewer than two.") },
	{ "per_rank", OBJECT(per_rank_record), ALWAYS("Bytes of one rank.") },
	{ "files", EACH_OF(INFO, counts.files, file_at, file_record),
		ALWAYS("Its files, in the order in which they were read.") },
	{ "values", EACH_ITEM(INFO, counts.values, find_value, entry_record),
		ALWAYS("Entries that are not tensors.") },
	{ "names", OBJECT(names_record), ALWAYS("Facts about the stored names.") },
	{ "check", OBJECT(check_record),
		ALWAYS("Findings of the checks of `audit` in the parts that were read. Pickles next to the checkpoint, and the items of DCP, are left to `audit`.") },
	{ "waste", ROWS(waste_record),
		ABOUT("Storages with bytes that no tensor views. Only with `--waste`.") });

static const struct option_row OPTIONS[] = {
	{ "waste", 0, OPTION_FLAG, NULL, offsetof(struct info_options, waste),
		.help = "list stored bytes that no tensor uses" },
	{ NULL },
};

/* ---- suffixes of files ---- */

/* Suffixes of its files, each once. */
static void list_suffixes(struct info *info)
{
	FOR_EACH(i, info->counts.files, file, fsdp_file(info->run->checkpoint, i)) {
		struct text base = text_last(text_of_span(file.path), '/');
		struct text word = text_last(base, '.');
		struct suffix suffix = { .is_name = word.size + 1 == base.size };
		size_t at = 0;

		if (word.size < base.size)
			memcpy(suffix.word, word.data - 1,
				word.size + 1 < SUFFIX_SIZE ? word.size + 1
							    : SUFFIX_SIZE - 1);
		while (at < info->suffix_count &&
			(strcmp(info->suffixes[at].word, suffix.word) != 0 ||
				info->suffixes[at].is_name != suffix.is_name))
			at++;
		info->more_suffixes |= at == KINDS_MAX;
		if (at == KINDS_MAX)
			continue;
		if (at == info->suffix_count)
			info->suffixes[info->suffix_count++] = suffix;
		info->suffixes[at].count++;
	}
}

/* Strategies of its units, each once; dtypes of parameters, the most frequent first; and
 * where values are that are printed by name. */
static void list_words(struct info *info)
{
	static const char *const names[SETTINGS] = {
		[SETTING_TYPE] = "adapter_config.peft_type",
		[SETTING_RANK] = "adapter_config.r",
		[SETTING_ALPHA] = "adapter_config.lora_alpha",
		[SETTING_TARGETS] = "adapter_config.target_modules",
		[SETTING_BASE] = "adapter_config.base_model_name_or_path",
		[SETTING_DORA] = "adapter_config.use_dora",
		[SETTING_CLASS] = "config.architecture",
		[SETTING_LAYERS] = "config.num_hidden_layers",
	};
	const struct fsdp_checkpoint *checkpoint = info->run->checkpoint;
	uint64_t counts[FSDP_OVERVIEW_DTYPES];

	FOR_EACH(i, (uint32_t)info->counts.units, unit, fsdp_unit(checkpoint, i)) {
		struct text strategy = text_of(unit.strategy);
		size_t at = 0;

		if (strategy.data == NULL || unit.inferred)
			continue;
		while (at < info->strategy_count &&
			!text_is(info->strategies[at], strategy))
			at++;
		if (at == info->strategy_count && at < KINDS_MAX)
			info->strategies[info->strategy_count++] = strategy;
	}
	memcpy(counts, info->facts->roles[FSDP_ROLE_PARAM].of_dtype, sizeof counts);
	for (;;) {
		uint32_t most = 0;

		for (uint32_t i = 1; i < FSDP_OVERVIEW_DTYPES; i++)
			most = counts[i] > counts[most] ? i : most;
		if (counts[most] == 0)
			break;
		info->dtypes[info->dtype_count++] = text_of(fsdp_dtype(most)->name);
		counts[most] = 0;
	}
	for (size_t k = 0; k < SETTINGS; k++)
		info->settings[k] = FSDP_NONE;
	FOR_EACH(i, (uint32_t)info->counts.values, value, fsdp_value(checkpoint, i)) {
		struct text name =
			entry_shown_name(info->run, &info->buffers->name, &value);

		for (size_t k = 0; k < SETTINGS; k++)
			if (info->settings[k] == FSDP_NONE &&
				text_is(name, text_of(names[k])))
				info->settings[k] = i;
	}
}

/* ---- shares ---- */

static void divide(struct info *info)
{
	const struct fsdp_role_total *roles = info->facts->roles;
	struct fsdp_balance *balance = &info->balance;
	uint64_t other = roles[FSDP_ROLE_OTHER].bytes;

	*balance = fsdp_sums_balance(fsdp_overview_sums(info->overview, FSDP_BY_RANK));
	info->mean_bytes = balance->groups > 0 && balance->total != FSDP_UNKNOWN
				   ? balance->total / balance->groups
				   : FSDP_UNKNOWN;
	info->per_rank.stored = info->per_rank.resume = FSDP_UNKNOWN;
	if (__builtin_add_overflow(roles[FSDP_ROLE_PARAM].bytes,
		    roles[FSDP_ROLE_BUFFER].bytes, &info->per_rank.weights))
		info->per_rank.weights = FSDP_UNKNOWN;
	/* Of states of random generators alone ranks say nothing. */
	if (balance->groups < 2 || balance->total == FSDP_UNKNOWN ||
		balance->total <= other ||
		balance->total - other < info->per_rank.weights / 2)
		return;
	info->per_rank.stored = balance->most;
	/* The partitions of ZeRO are cut where they are full, not by tensors. */
	if (strncmp(info->format.family, "deepspeed", 9) != 0)
		info->per_rank.resume = info->facts->resume_bytes;
}

static void prepare(struct info *info)
{
	struct run *run = info->run;
	const struct fsdp_checkpoint *checkpoint = run->checkpoint;
	struct pickled_recording pickled;
	size_t count = 0;
	const uint32_t *ranks = fsdp_checkpoint_ranks(checkpoint, &count);
	int64_t *shown_ranks = run_memory(run, count, sizeof *shown_ranks);

	run_must(run, fsdp_overview_new(checkpoint, &info->overview, &run->error));
	run_owns(run, info->overview, release_overview);
	for (size_t i = 0; i < count; i++)
		shown_ranks[i] = ranks[i];
	info->ranks = shown_ranks;
	info->rank_count = (uint32_t)count;
	info->facts = fsdp_overview_facts(info->overview);
	info->format = fsdp_checkpoint_format(checkpoint);
	info->world_size = fsdp_checkpoint_world_size(checkpoint);
	info->has_plan = fsdp_checkpoint_plan(checkpoint, &info->plan);
	info->bytes = fsdp_checkpoint_bytes(checkpoint);
	info->holes = fsdp_checkpoint_holes(checkpoint);
	if (info->holes == 0 || info->holes < info->bytes.on_disk - info->holes)
		info->holes = FSDP_UNKNOWN;
	info->unread = fsdp_checkpoint_unread(checkpoint, &info->unseen);
	run_must(run, fsdp_checkpoint_classify(
			      checkpoint, info->facts, &info->kind, &run->error));
	info->step = step_of_run(run, &info->kind);
	divide(info);
	info->counts.tensors = fsdp_tensor_count(checkpoint);
	info->counts.parameters = info->facts->roles[FSDP_ROLE_PARAM].numel;
	info->counts.pieces = fsdp_piece_count(checkpoint);
	info->counts.files = fsdp_file_count(checkpoint);
	info->counts.modules = fsdp_module_count(checkpoint);
	info->counts.units = fsdp_unit_count(checkpoint);
	info->counts.values = fsdp_value_count(checkpoint);
	info->counts.prefixes = fsdp_prefix_count(checkpoint);
	pickled = pickled_recording_find(run, &info->buffers->name);
	if (pickled.title != NULL) {
		info->format.title = pickled.title;
		info->recording = pickled.command;
	}
	/* Only the model that a log has printed. */
	if (info->has_plan && info->plan.from != NULL && info->counts.files == 0 &&
		strcmp(info->plan.from, "log") == 0)
		info->recording = "tree --units-from";
	list_words(info);
	list_suffixes(info);
	info->class_name = info_class(info);
}

/* A run of its own, for its findings. */
struct checked {
	struct run run;
	enum fsdp_rule_reason open;
};

static void check_headers(struct run *run)
{
	struct checked *checked = (struct checked *)run;

	opened_check(run, FSDP_LEVEL_HEADERS, false, &checked->open);
}

/* Findings go into the answer and change no status. */
static void check(struct info *info)
{
	struct collected *own = &info->check.own;
	struct checked checked = { *info->run, FSDP_REASON_NONE };

	checked.run.collected = own;
	own->inputs = info->run->collected->inputs;
	own->input_count = info->run->collected->input_count;
	checked.run.first.finding = checked.run.first.failure = 0;
	checked.run.first.omission = 0;
	info->check.ran = run_try(&checked.run, check_headers);
	own->inputs = NULL;
	own->input_count = 0;
	if (!info->check.ran)
		return;
	for (size_t i = 0; i < own->finding_count; i++) {
		enum severity severity = own->findings[i].severity;

		info->check.errors += severity == SEVERITY_ERROR;
		info->check.warnings += severity == SEVERITY_WARNING;
		info->check.notes += severity == SEVERITY_NOTE;
	}
	for (size_t i = 0; i < own->omission_count; i++)
		*(fsdp_rule_find(own->omissions[i].rule)->severity == FSDP_ERROR
				? &info->check.errors
			: fsdp_rule_find(own->omissions[i].rule)->severity == FSDP_WARNING
				? &info->check.warnings
				: &info->check.notes) += own->omissions[i].count;
	info->check.unread = own->failure_count;
	info->check.verdict = collected_verdict(own);
	if (checked.open != FSDP_REASON_NONE && strcmp(info->check.verdict, "good") == 0)
		info->check.verdict = "partial";
	info->check.open = checked.open;
}

static void print_checkpoint(struct run *run)
{
	struct row_buffers *buffers = run_memory(run, 1, sizeof *buffers);
	struct info *info = run_memory(run, 1, sizeof *info);
	struct waste_rows *waste;

	*info = (struct info){ .run = run,
		.options = run->options,
		.buffers = buffers,
		.row = { .run = run, .buffers = buffers },
		.by_dtype = FSDP_BY_DTYPE,
		.by_role = FSDP_BY_ROLE,
		.by_rank = FSDP_BY_RANK };
	prepare(info);
	if (info->options->waste)
		info->waste = waste_find(run, &info->status);
	if (info->counts.tensors < CHECKED_MOST)
		check(info);
	adapter_base_report(run);
	run_begin(run, info->status);
	info_print(info);
	out_fields(run->out, &facts_record, (struct subject){ info, info });
	/* A checkpoint by itself, for outputs that have rows alone. */
	static const struct table ALONE = {
		.key = "below", .main = true, .rows_only = true, .as_text = true
	};
	struct below_row row = { .path = run->path,
		.name = text_of(run->path),
		.format = info->format.family,
		.step = info->step,
		.bytes = info->bytes.on_disk,
		.ranks = info->world_size };
	examine(&row, run->checkpoint);
	out_records(run->out, &ALONE, &below_row_record, NULL, &row, 1);
	if (info->waste != NULL) {
		/* The largest first. */
		static const struct table STORAGES = { .key = "waste", .indent = 2 };
		waste = run_memory(run, 1, sizeof *waste);
		waste->row = info->row;
		waste->waste = info->waste;
		out_each_record(run->out, &STORAGES, &waste_record,
			(struct subject){ waste, info->waste },
			fsdp_unused_count(info->waste), each_waste);
	}
}

static void run_info(struct run *run)
{
	if (run->below != NULL)
		below_show(run);
	else if (run->recordings != NULL)
		recordings_show(run);
	else
		print_checkpoint(run);
}

/* A table of what is stored but not viewed has rows, in order. */
static bool only_counts(const void *options)
{
	return !((const struct info_options *)options)->waste;
}

static const struct record answer_record =
	RECORD_OF(RECORD_ONE_OF, struct info, { NULL, OBJECT(facts_record) },
		{ NULL, OBJECT(below_record) }, { NULL, OBJECT(recordings_record) });

const struct command command_info = {
	.name = "info",
	.group = GROUP_START,
	.summary = "describe a checkpoint",
	.synopsis = "[--waste] CHECKPOINT...",
	.examples = { "info step-1000/", "info --json model.pt | jq .data.bytes" },
	.exit_1 = "a finding at or above --fail-on",
	.options = OPTIONS,
	.answer = &answer_record,
	.selectors = (const struct option_row *const[]){ select_columns, NULL },
	.shapes = SHAPE_FACTS | SHAPE_ITEMS | SHAPE_TABLE,
	.output = "text",
	.inputs = INPUTS_MANY,
	.shows_plan = true,
	.counts_beside = true,
	.with_base = true,
	.answers_each = true,
	.reads_recordings = true,
	.reads_values = always,
	.only_counts = only_counts,
	.counts_from = CHECKED_MOST,
	.options_size = sizeof(struct info_options),
	.perform = run_info,
};
