/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings on one recording, after it was read.
 */
#include "trace/event.h"

static void judge_deviations(struct fsdp_trace_reading *reading)
{
	const struct fsdp_recording *recording = &reading->recording;
	for (size_t i = 0; i < recording->deviation_count; i++) {
		const struct fsdp_tally *one = &recording->deviations[i];
		if (fsdp_span_is(one->name, "gz_cut") ||
			fsdp_span_is(one->name, "trailing_data"))
			continue;
		FSDP_TRACE_FIND(reading, RECORDING_DEVIATES, "%.*s: %llu time%s",
			FSDP_TEXT(one->name), FSDP_LLU(one->count),
			one->count == 1 ? "" : "s");
	}
	if (recording->recovered > 0)
		FSDP_TRACE_FIND(reading, RECORDING_DEVIATES,
			"%llu event%s kept although something inside was not JSON",
			FSDP_LLU(recording->recovered),
			recording->recovered == 1 ? " was" : "s were");
}

static void judge_trace(struct fsdp_trace_reading *reading)
{
	const struct fsdp_recording *recording = &reading->recording;
	if (recording->truncated)
		FSDP_TRACE_FIND(reading, RECORDING_TRUNCATED,
			"truncated after %llu event%s", FSDP_LLU(recording->events),
			recording->events == 1 ? "" : "s");
	if (recording->dropped > 0)
		FSDP_TRACE_FIND(reading, EVENTS_DROPPED, "%llu event%s could not be read",
			FSDP_LLU(recording->dropped), recording->dropped == 1 ? "" : "s");
	judge_deviations(reading);
	if (recording->trailing_data_at != FSDP_ABSENT)
		FSDP_TRACE_FIND(reading, RECORDING_TRAILING_DATA,
			"more bytes follow its end, from byte %lld on",
			(long long)recording->trailing_data_at);
	if (recording->bad_dur > 0)
		FSDP_TRACE_FIND(reading, TIMES_UNUSABLE,
			"%llu event%s without times that can be used",
			FSDP_LLU(recording->bad_dur), recording->bad_dur == 1 ? "" : "s");
	if (recording->unpaired > 0)
		FSDP_TRACE_FIND(reading, TIMES_UNUSABLE, "%llu %s without the other",
			FSDP_LLU(recording->unpaired),
			recording->unpaired == 1 ? "begin or end" : "begins or ends");
}

static void judge_lines(struct fsdp_trace_reading *reading)
{
	const struct fsdp_recording *recording = &reading->recording;
	if (recording->truncated)
		FSDP_TRACE_FIND(reading, RECORDING_TRUNCATED,
			"what it is compressed with breaks off");
	for (size_t i = 0; i < recording->bad_line_count; i++)
		FSDP_TRACE_FIND(reading, LINES_SKIPPED, "line %llu cannot be read",
			FSDP_LLU(recording->bad_lines[i]));
	if (recording->skipped == 0)
		return;
	fsdp_find(&reading->findings, FSDP_RULE_LINES_SKIPPED,
		FSDP_PLACE(.file = fsdp_span_text(recording->path),
			.severity = FSDP_NOTE + 1),
		"%llu line%s of a kind that is not known here",
		FSDP_LLU(recording->skipped), recording->skipped == 1 ? "" : "s");
}

static void judge_profile(struct fsdp_trace_reading *reading)
{
	const struct fsdp_recording *recording = &reading->recording;
	for (size_t i = 0; i < recording->problem_count; i++) {
		const struct fsdp_profile_problem *one = &recording->problems[i];
		char type[FSDP_SHOWN];
		FSDP_TRACE_FIND(reading, PROFILE_ERROR, "line %llu: %s of %s: %s",
			FSDP_LLU(one->line), one->kind, fsdp_shown(one->type, type),
			one->message);
	}
	if (recording->residual_count > 0 || recording->still_open_count > 0)
		FSDP_TRACE_FIND(reading, PROFILE_LEFT_OVER,
			"%zu type%s never dumped, %zu region%s still open",
			recording->residual_count,
			recording->residual_count == 1 ? "" : "s",
			recording->still_open_count,
			recording->still_open_count == 1 ? "" : "s");
	if (recording->kind == FSDP_RECORDING_PROFILE && recording->rank == 0 &&
		recording->dump_count > 0 &&
		!fsdp_span_is(recording->debug_level, "INFO")) {
		struct fsdp_span level = recording->debug_level.data != NULL
						 ? recording->debug_level
						 : FSDP_SPAN("OFF");
		FSDP_TRACE_FIND(reading, LEVEL_LEFT_OUT,
			"debug level %.*s: PyTorch did not print %zu dump%s; it does at INFO only (TORCH_DISTRIBUTED_DEBUG=INFO)",
			FSDP_TEXT(level), recording->dump_count,
			recording->dump_count == 1 ? "" : "s");
	}
}

static void judge_states(struct fsdp_trace_reading *reading)
{
	const struct fsdp_exec_order *order = reading->recording.order;
	for (size_t i = 0; i < order->problem_count; i++) {
		const struct fsdp_state_problem *one = &order->problems[i];
		const struct fsdp_handle *handle = &order->handles[one->handle];
		struct fsdp_span fqn =
			handle->fqn_count != 0 ? handle->fqns[0] : FSDP_SPAN("(none)");
		char shown[FSDP_SHOWN];
		fsdp_find(&reading->findings, FSDP_RULE_ORDER_STATE_REFUSED,
			FSDP_PLACE(.file = fsdp_span_text(reading->recording.path),
				.rank = (uint32_t)reading->recording.rank,
				.module = handle->module),
			"line %llu: %s%s: (%s, %s) becomes (%s, %s): %s%s%.*s",
			FSDP_LLU(one->line), fsdp_shown(fqn, shown),
			handle->fqn_count > 1 ? ", …" : "",
			fsdp_training_state_name(one->from[0]),
			fsdp_handle_state_name(one->from[1]),
			fsdp_training_state_name(one->to[0]),
			fsdp_handle_state_name(one->to[1]),
			one->error != NULL ? one->error : "",
			one->error != NULL ? ": " : "", FSDP_TEXT(one->message));
	}
}

static void judge_order(struct fsdp_trace_reading *reading)
{
	const struct fsdp_recording *recording = &reading->recording;
	const struct fsdp_exec_order *order = recording->order;
	for (size_t i = 0; i < order->warning_count; i++) {
		/* PyTorch's words are two lines. */
		struct fsdp_span message = order->warnings[i].message;
		struct fsdp_span first = fsdp_span_first(message, '\n');
		struct fsdp_span second = fsdp_span_last(message, '\n');

		FSDP_TRACE_FIND(reading, ORDER_CHANGED, "line %llu: %.*s%s%.*s",
			FSDP_LLU(order->warnings[i].line), FSDP_TEXT(first),
			first.size < message.size ? " " : "",
			FSDP_TEXT(
				first.size < message.size ? second : fsdp_span(NULL, 0)));
	}
	if (order->reused > 0)
		FSDP_TRACE_FIND(reading, ORDER_REUSED_UNIT,
			"%llu time%s a unit is used again in one forward (reused unit)",
			FSDP_LLU(order->reused), order->reused == 1 ? "" : "s");
	if (order->stopped_early > 0)
		FSDP_TRACE_FIND(reading, ORDER_REUSED_UNIT,
			"%llu iteration%s stopped before all units of the first were used",
			FSDP_LLU(order->stopped_early),
			order->stopped_early == 1 ? "" : "s");
	judge_states(reading);
	if (order->unchecked > 0) {
		struct fsdp_span level = recording->debug_level.data != NULL
						 ? recording->debug_level
						 : FSDP_SPAN("OFF");
		FSDP_TRACE_FIND(reading, LEVEL_LEFT_OUT,
			"debug level %.*s: PyTorch did not check %llu forward%s; it does at DETAIL only (TORCH_DISTRIBUTED_DEBUG=DETAIL)",
			FSDP_TEXT(level), FSDP_LLU(order->unchecked),
			order->unchecked == 1 ? "" : "s");
	}
}

void fsdp_trace_interrupted(struct fsdp_trace_reading *reading)
{
	struct fsdp_recording *recording = &reading->recording;
	recording->interrupted = true;
	recording->truncated = false;
}

void fsdp_trace_judge(struct fsdp_trace_reading *reading)
{
	const struct fsdp_recording *recording = &reading->recording;
	if (recording->kind == FSDP_RECORDING_KINETO)
		judge_trace(reading);
	else if (recording->memory != NULL && recording->truncated)
		FSDP_TRACE_FIND(reading, RECORDING_TRUNCATED,
			"it ends in the middle of its history: only what is held at the end is known");
	else
		judge_lines(reading);
	judge_profile(reading);
	if (recording->order != NULL)
		judge_order(reading);
	if (recording->fx != NULL && recording->fx->aborted.data != NULL)
		FSDP_TRACE_FIND(reading, ORDER_ABORTED,
			"the tracing broke off with %.*s: the lists are partial",
			FSDP_TEXT(recording->fx->aborted));
}
