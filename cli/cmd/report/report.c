/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows on one page what a checkpoint is: whether it is good, its sizes, how it is sharded,
 * what each rank holds of each layer, its modules by bytes, and the times of its run.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>

#include "cmd/report/report.h"
#include "part/modules.h"
#include "part/tensor-row.h"

enum { RANKS_SHOWN = COLUMNS_MAX - 2, NAME_ROOM = 24 };

static const struct option_row OPTIONS[] = {
	{ "trace", 0, OPTION_LIST, "FILE", offsetof(struct report_options, traces),
		.help = "a trace of the run, or a folder of them; one for each rank" },
	{ NULL },
};

/* ---- sums ---- */

static struct value group_name(struct report *report, enum fsdp_sums_by by, uint32_t key)
{
	struct value name = group_key(report->run->checkpoint, by, key,
		&report->buffers.module, report->run->common->raw);

	return name.type == VALUE_NULL ? value_word("(other)") : name;
}

static bool show_sums(struct report *report, const char *title, enum fsdp_sums_by by)
{
	const struct column columns[] = { { .name = title },
		{ .name = "tensors", .right = true },
		{ .name = "bytes", .right = true } };
	const struct table table = {
		.key = title, .columns = columns, .column_count = 3
	};
	struct out *out = report->run->out;
	struct fsdp_sums *sums;

	if (!fsdp_sums_new(report->run->checkpoint, by, -1, &sums, NULL))
		return false;
	for (uint32_t i = 0; i < report->tensor_count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(report->run->checkpoint, i);
		fsdp_sums_add(sums, i, &tensor, NULL, NULL);
	}
	out_table_begin(out, &table);
	for (size_t i = 0; i < fsdp_sums_count(sums); i++) {
		struct fsdp_group group = fsdp_sums_group(sums, i);
		const struct value values[] = { group_name(report, by, group.key),
			value_count(group.tensors), value_bytes(group.bytes) };

		if (group.tensors > 0)
			out_row(out, values);
	}
	out_table_end(out);
	fsdp_sums_free(sums);
	return true;
}

/* ---- what each rank holds of each layer ---- */

/* The columns: a name, and the ranks. */
struct heat_table {
	struct column columns[COLUMNS_MAX];
	char names[COLUMNS_MAX][NAME_ROOM];
	const uint32_t *ranks;
	size_t rank_count;
};

static void name_columns(struct heat_table *heat)
{
	heat->columns[0] = (struct column){ .name = "layer" };
	for (size_t i = 0; i < heat->rank_count; i++) {
		snprintf(heat->names[i], sizeof heat->names[i], "rank %" PRIu32,
			heat->ranks[i]);
		heat->columns[i + 1] =
			(struct column){ .name = heat->names[i], .right = true };
	}
}

static uint64_t most_bytes(const struct fsdp_crossed *crossed)
{
	uint64_t most = 0;

	for (size_t i = 0; i < fsdp_crossed_count(crossed); i++) {
		uint32_t rank;
		uint64_t bytes = fsdp_crossed_group(crossed, i, &rank).bytes;
		most = bytes > most ? bytes : most;
	}
	return most;
}

static void put_cells(struct report *report, const struct heat_table *heat,
	const struct fsdp_crossed *crossed)
{
	struct value values[COLUMNS_MAX];
	size_t count = fsdp_crossed_count(crossed);

	for (size_t i = 0, end; i < count; i = end) {
		uint32_t rank, key = fsdp_crossed_group(crossed, i, &rank).key;

		for (size_t k = 0; k <= heat->rank_count; k++)
			values[k] = value_absent();
		for (end = i; end < count; end++) {
			struct fsdp_group group = fsdp_crossed_group(crossed, end, &rank);
			if (group.key != key)
				break;
			for (size_t k = 0; k < heat->rank_count; k++)
				if (heat->ranks[k] == rank)
					values[k + 1] = value_bytes(group.bytes);
		}
		values[0] = group_name(report, FSDP_BY_LAYER, key);
		out_row(report->run->out, values);
	}
}

static bool show_heat(struct report *report)
{
	static const enum fsdp_sums_by by[2] = { FSDP_BY_LAYER, FSDP_BY_RANK };
	struct out *out = report->run->out;
	struct heat_table heat = { 0 };
	size_t ranks;
	uint32_t *tensors = malloc((report->tensor_count + 1) * sizeof *tensors);
	struct fsdp_crossed *crossed = NULL;

	for (uint32_t i = 0; tensors != NULL && i < report->tensor_count; i++)
		tensors[i] = i;
	if (tensors == NULL ||
		!fsdp_crossed_new(report->run->checkpoint, by, -1, tensors,
			report->tensor_count, NULL, NULL, &crossed, NULL)) {
		free(tensors);
		return false;
	}
	free(tensors);
	heat.ranks = fsdp_checkpoint_ranks(report->run->checkpoint, &ranks);
	heat.rank_count = ranks < RANKS_SHOWN ? ranks : RANKS_SHOWN;
	if (heat.rank_count > 0) {
		name_columns(&heat);
		out_table_begin(out,
			&(struct table){
				.key = ranks > RANKS_SHOWN
					       ? "bytes by layer and rank, the first ranks"
					       : "bytes by layer and rank",
				.columns = heat.columns,
				.column_count = heat.rank_count + 1,
				.heat = most_bytes(crossed) });
		put_cells(report, &heat, crossed);
		out_table_end(out);
	}
	fsdp_crossed_free(crossed);
	return true;
}

/* ---- how it is sharded ---- */

static void put_sharding(struct out *out, const struct fsdp_sharding *sharding)
{
	static const char *const words[] = { "a copy on each", "one dimension",
		"several dimensions", "flattened" };
	char cut[120] = "";
	size_t used = 0;

	for (uint32_t i = 0; i < sharding->cuts && used < sizeof cut; i++)
		used += (size_t)snprintf(cut + used, sizeof cut - used,
			"%sdim %" PRIu32 " over %" PRIu32, i > 0 ? ", " : "",
			sharding->cut[i].dim, sharding->cut[i].over);
	const struct value values[] = { value_word(words[sharding->how]),
		value_word(cut[0] != '\0' ? cut : NULL), value_id(sharding->over),
		value_id(sharding->copies), value_count(sharding->tensors),
		value_count(sharding->pieces) };
	out_row(out, values);
}

static bool show_shardings(struct report *report)
{
	static const struct column columns[] = { { .name = "placement" },
		{ .name = "cut" }, { .name = "over", .right = true },
		{ .name = "copies", .right = true }, { .name = "tensors", .right = true },
		{ .name = "pieces", .right = true } };
	const struct table table = {
		.key = "placements", .columns = columns, .column_count = 6
	};
	struct out *out = report->run->out;
	struct fsdp_overview *overview;

	if (!fsdp_overview_new(report->run->checkpoint, &overview, NULL))
		return false;
	const struct fsdp_overview_facts *facts = fsdp_overview_facts(overview);
	out_table_begin(out, &table);
	for (size_t i = 0; i < facts->sharding_count; i++)
		put_sharding(out, &facts->shardings[i]);
	out_table_end(out);
	if (facts->whole > 0)
		out_line(out, "whole", "%" PRIu64 " tensor%s in one piece", facts->whole,
			facts->whole == 1 ? "" : "s");
	fsdp_overview_free(overview);
	return true;
}

/* ---- modules ---- */

static void weigh_tensors(struct report *report, const struct fsdp_module *module)
{
	const struct fsdp_checkpoint *checkpoint = report->run->checkpoint;

	for (uint32_t i = 0; i < module->tensor_count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(
			checkpoint, fsdp_module_tensor(checkpoint, module, i));
		uint64_t bytes = tensor.alias == FSDP_NONE ? tensor.bytes : 0;

		if (tensor.role != FSDP_ROLE_PARAM && tensor.role != FSDP_ROLE_BUFFER)
			continue;
		out_weighed(report->run->out,
			&(struct weighed){ .depth = module->shown_depth + 1,
				.name = text_last(name_text(&report->buffers.name,
							  checkpoint, tensor.name),
					'.'),
				.own = bytes,
				.total = bytes,
				.is_leaf = true });
	}
}

static void weigh_modules(struct report *report)
{
	const struct fsdp_checkpoint *checkpoint = report->run->checkpoint;
	size_t count = fsdp_module_count(checkpoint);

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_module module = fsdp_module(checkpoint, i);

		if (wrapper_is_folded(report->run, i))
			continue;
		out_weighed(report->run->out,
			&(struct weighed){ .depth = module.shown_depth,
				.name = text_last(name_text(&report->buffers.module,
							  checkpoint, module.name),
					'.'),
				.kind = text_of(module_shown_class(report->run, &module)),
				.total = module.bytes,
				.is_marked = module.unit != FSDP_NONE });
		weigh_tensors(report, &module);
	}
}

/* ---- the page ---- */

static void tell_what(struct report *report)
{
	const struct fsdp_checkpoint *checkpoint = report->run->checkpoint;
	struct fsdp_format format = fsdp_checkpoint_format(checkpoint);
	uint32_t world = fsdp_checkpoint_world_size(checkpoint);
	struct out *out = report->run->out;
	struct fsdp_plan_facts plan;
	size_t modules = fsdp_module_count(checkpoint);

	report_tell_verdict(report);
	out_line(out, "format", "%s", format.title);
	if (world != FSDP_NONE)
		out_line(out, "ranks", "%" PRIu32, world);
	out_line(out, "tensors", "%zu", report->tensor_count);
	if (modules > 0) {
		struct fsdp_module root = fsdp_module(checkpoint, 0);
		out_line_begin(out, "parameters");
		out_line_value(out, value_elements(root.parameters));
		out_line_text(out, ", ");
		out_line_value(out, value_bytes(root.bytes));
		out_line_end(out);
	}
	out_line(out, "modules", "%zu, %zu of them units", modules,
		fsdp_unit_count(checkpoint));
	if (fsdp_checkpoint_plan(checkpoint, &plan)) {
		out_line_begin(out, "plan");
		out_line_name(out, text_of(plan.path));
		out_line_end(out);
	}
}

/* Whatever fails here is out of memory: all was read before. */
static bool show_all(struct report *report)
{
	bool good;

	tell_what(report);
	report_show_loaders(report);
	good = show_sums(report, "role", FSDP_BY_ROLE) &&
	       show_sums(report, "dtype", FSDP_BY_DTYPE) &&
	       show_sums(report, "rank", FSDP_BY_RANK) && show_shardings(report) &&
	       show_heat(report) && report_show_times(report);
	if (good && out_weighs(report->run->out))
		weigh_modules(report);
	return good && !row_buffers_failed(&report->buffers);
}

static bool run_report(struct run *run, struct fsdp_error **ret_error)
{
	struct report report = { .run = run,
		.tensor_count = fsdp_tensor_count(run->checkpoint) };
	bool good;

	report.row = (struct row_context){ .run = run, .buffers = &report.buffers };
	good = report_judge(&report, ret_error) && report_read_traces(&report, ret_error);
	if (good) {
		run_begin(run, report.is_partial ? STATUS_PARTIAL : STATUS_GOOD);
		good = show_all(&report);
	}
	report_done(&report);
	return good;
}

static bool wants_values(const void *options)
{
	(void)options;
	return true;
}

const struct command command_report = {
	.name = "report",
	.group = GROUP_LOOK,
	.summary = "one page with all of it",
	.synopsis = "[--trace=FILE]... [-o html=FILE] CHECKPOINT",
	.examples = { "report -o html=step-1000.html step-1000/",
		"report --trace=traces/ -o html=run.html step-1000/" },
	.options = OPTIONS,
	.options_size = sizeof(struct report_options),
	.wants_values = wants_values,
	.looks_beside = true,
	.shapes = SHAPE_PAGE,
	.output = "html",
	.inputs = INPUTS_ONE,
	.run = run_report,
};
