/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads units and classes from what a training run left: the model that a log has printed,
 * or the units that a trace names.
 */
#include <stdlib.h>

#include "opening.h"
#include "syntax/model-repr.h"
#include "trace/event.h"
#include "trace/kineto-unit-names.h"

/* ---- a log ---- */

/* The scan writes to lines, which lie in a window that may be written to. */
static bool take(struct fsdp_printed *printed, struct fsdp_span line)
{
	union {
		const unsigned char *is;
		unsigned char *was;
	} data = { line.data };
	return fsdp_printed_take(printed, data.was, line.size);
}

static bool take_lines(struct fsdp_trace_reading *reading, struct fsdp_printed *printed)
{
	struct fsdp_lines lines;
	struct fsdp_span line;
	bool good = fsdp_lines_init(&lines, reading);
	while (good && (good = fsdp_lines_next(&lines, &line, &reading->error)) &&
		line.data != NULL)
		good = take(printed, line);
	fsdp_lines_done(&lines);
	return good || (reading->error == NULL &&
			       fsdp_arena_fail(&reading->arena, &reading->error));
}

/* What stood below the last line that is there is not known. */
static void tell_cut(struct opening *opening, const struct fsdp_printed_model *model)
{
	struct fsdp_error *error = NULL;
	fsdp_fail(&error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
		"the model printed in line %llu breaks off after %zu modules; those that were to follow are not shown",
		FSDP_LLU(model->line), model->modules.count);
	fsdp_error_add_kind(&error, "cut");
	fsdp_error_add_hint(&error, "give the whole log, or export a plan");
	fsdp_error_add_path(&error, opening->checkpoint->plan_path);
	fsdp_reading_keep_error(&opening->reading, error);
}

static bool use(struct opening *opening, struct fsdp_trace_reading *reading,
	struct fsdp_printed *printed, struct fsdp_error **ret_error)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	struct fsdp_printed_model model;
	if (!fsdp_printed_end(printed, &reading->arena, &model, ret_error) ||
		!fsdp_plan_from_printed(&opening->reading, &model,
			fsdp_span_text(checkpoint->plan_path), ret_error))
		return false;
	if (model.is_cut)
		tell_cut(opening, &model);
	return true;
}

static bool read_log(struct opening *opening, struct fsdp_stream *stream,
	struct fsdp_error **ret_error)
{
	struct fsdp_budget *budget = &opening->checkpoint->budget;
	struct fsdp_trace_reading reading = {
		.stream = stream, .budget = budget, .limits = &opening->checkpoint->limits
	};
	struct fsdp_printed *printed = fsdp_printed_new(budget);
	fsdp_arena_init_lean(&reading.arena, budget);
	bool good = printed != NULL || fsdp_fail_memory(ret_error);
	if (good && !take_lines(&reading, printed)) {
		good = false;
		*ret_error = reading.error;
	}
	good = good && use(opening, &reading, printed, ret_error);
	fsdp_printed_free(printed);
	fsdp_arena_done(&reading.arena);
	return good;
}

/* ---- a trace ---- */

static bool read_trace(struct opening *opening, struct fsdp_stream *stream,
	struct fsdp_error **ret_error)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	struct fsdp_model *model = &checkpoint->model;
	if (opening->path_count == 0) {
		fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"a trace names units and no modules, so it needs a checkpoint beside it");
		return fsdp_error_add_hint(
			ret_error, "give the checkpoint of the run, too");
	}
	if (!fsdp_trace_unit_names(stream, &checkpoint->limits, &checkpoint->arena,
		    &model->known_units, ret_error))
		return false;
	model->plan.from = "trace";
	model->plan.mesh = FSDP_NONE;
	model->plan.world_size = FSDP_NONE;
	fsdp_find(&model->findings, FSDP_RULE_PLAN_PARTIAL,
		FSDP_PLACE(.file = fsdp_span_text(checkpoint->plan_path)),
		"units come from the annotations of a trace, which names %zu; classes, strategies and meshes are not in it",
		model->known_units.count);
	return true;
}

static bool read_any(struct opening *opening, struct fsdp_stream *stream,
	struct fsdp_error **ret_error)
{
	struct fsdp_span head;
	if (!fsdp_stream_peek(stream, &head, ret_error))
		return false;
	return fsdp_trace_is_json(head) ? read_trace(opening, stream, ret_error)
					: read_log(opening, stream, ret_error);
}

bool fsdp_units_from(struct opening *opening, struct fsdp_error **ret_error)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	struct fsdp_stream_options options = { .limits = &checkpoint->limits };
	struct fsdp_stream *stream;
	struct fsdp_span path = fsdp_arena_copy(
		&checkpoint->arena, fsdp_span_text(opening->options->units_path));
	if (path.data == NULL)
		return fsdp_arena_fail(&checkpoint->arena, ret_error);
	checkpoint->plan_path = (const char *)path.data;
	opening->reading.plan_is_checkpoint = opening->path_count == 0;
	bool good = fsdp_stream_open(checkpoint->plan_path, &options, &stream, ret_error);
	if (good) {
		fsdp_budget_give(&checkpoint->budget, fsdp_stream_size(stream));
		good = read_any(opening, stream, ret_error);
		fsdp_stream_close(stream);
	}
	if (!good)
		fsdp_error_add_path(ret_error, checkpoint->plan_path);
	return good;
}
