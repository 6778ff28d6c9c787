/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of `order` for programs: every recording, one row per use, and where ranks
 * diverge.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/order.h"
#include "render/record.h"

/* ---- fx ---- */

static const struct record param_record = RECORD_OF(RECORD_TUPLE, struct fsdp_named_param,
	{ NULL, TEXT_AT(struct fsdp_named_param, name) },
	{ NULL, INTEGER_AT(struct fsdp_named_param, param) });

#define USAGE struct fsdp_usage
static const struct record usage_record =
	RECORD_OF(RECORD_TUPLE, USAGE, { NULL, INTEGER_AT(USAGE, module) },
		{ NULL, LIST_AT(USAGE, params, param_count, param_record) });

#define MODULE struct fsdp_module_usage
static const struct record module_record =
	RECORD_OF(RECORD_TUPLE, MODULE, { NULL, INTEGER_AT(MODULE, module) },
		{ NULL, LIST_AT(MODULE, usages, usage_count, usage_record) });

static const void *each_visited(struct subject of, size_t i, void *room)
{
	const struct fsdp_fx_order *fx = of.object;
	int64_t *sorted = ((const struct orders *)of.context)->scratch;

	(void)room;
	if (i == fx->param_count)
		return NULL;
	if (i == 0) {
		memcpy(sorted, fx->params, fx->param_count * sizeof *sorted);
		qsort(sorted, fx->param_count, sizeof *sorted, order_compare_numbers);
	}
	return &sorted[i];
}

#define FX struct fsdp_fx_order
HAS(lists_args, FX, one->has_concrete_args)
HAS(has_args, FX, !one->concrete_args_null)
static const struct record args_record = RECORD_OF(RECORD_OBJECT, FX,
	{ "concrete_args", LIST_AT(FX, concrete_args, concrete_arg_count, record_texts),
		.has = has_args,
		OR_NULL("Names of the concrete arguments; null when there were none.") });
static const struct record fx_record = RECORD_OF(RECORD_OBJECT, FX,
	{ "tracer", TEXT_AT(FX, tracer), ABOUT("Class of the tracer.") },
	{ NULL, FIELDS(args_record), .has = lists_args },
	{ "aborted", TEXT_AT(FX, aborted),
		OR_NULL("Why tracing ended early; null when it did not.") },
	{ "module_forward_order",
		LIST_AT(FX, modules, module_count, record_integers_or_null),
		ABOUT("Modules in the order of their forwards.") },
	{ "module_forward_order_fqns",
		LIST_AT(FX, module_names, module_count, record_texts),
		ABOUT("Names of these modules.") },
	{ "module_to_param_usage_infos", LIST_AT(FX, usages, usage_count, module_record),
		ABOUT("A module, and what it uses: a module with the parameters taken from it, by name and number.") },
	{ "param_forward_order", LIST_AT(FX, params, param_count, record_integers),
		ABOUT("Parameters in the order of their first uses.") },
	{ "param_forward_order_fqns",
		LIST_AT(FX, param_names, param_count, record_texts_or_null),
		ABOUT("Names of these parameters; null for one that was not declared.") },
	{ "visited_params", EACH(each_visited, record_integers),
		ABOUT("The same parameters in ascending order.") },
	{ "never_visited_fqns",
		LIST_AT(FX, never_visited, never_visited_count, record_texts),
		ABOUT("Names of the parameters that were not used.") },
	{ "curr_module", INTEGER_AT(FX, current),
		ABOUT("The module in which tracing ended.") });

/* ---- handles ---- */

#define HANDLE struct fsdp_handle
static const struct record fqns_record = RECORD_OF(RECORD_OBJECT, HANDLE,
	{ "fqns", LIST_AT(HANDLE, fqns, fqn_count, record_texts),
		ALWAYS("Names of its parameters.") });
static const struct record handle_record =
	OBJECT_RECORD(HANDLE, "handle", "A unit with a FlatParameter.",
		{ "id", INTEGER_AT(HANDLE, id),
			ALWAYS("Number by which the recording refers to it.") },
		{ "module", TEXT_AT(HANDLE, module), OR_NULL("Name of its module.") },
		{ NULL, FIELDS(fqns_record) });

struct snapshot {
	struct fsdp_order_snapshot taken;
	const struct fsdp_exec_order *order;
	const int64_t *pre, *post;
	size_t handles; /* so many are in each of the two */
};

struct prefetch {
	const struct snapshot *snapshot;
	const struct fsdp_prefetch *limited;
	char key[48];
};

static const void *each_target(struct subject of, size_t i, void *room)
{
	const struct prefetch *prefetch = of.object;
	const struct snapshot *snapshot = prefetch->snapshot;
	int64_t *target = room;

	if (i == snapshot->handles)
		return NULL;
	*target = fsdp_order_target(&snapshot->taken, prefetch->limited,
		(prefetch->limited->backward ? snapshot->post : snapshot->pre)[i]);
	return target;
}

static const void *each_prefetch(struct subject of, size_t i, void *room)
{
	struct prefetch *prefetch = room;

	prefetch->snapshot = of.object;
	if (i == prefetch->snapshot->order->prefetch_count)
		return NULL;
	prefetch->limited = &prefetch->snapshot->order->prefetches[i];
	snprintf(prefetch->key, sizeof prefetch->key, "%s_limit_%" PRId64,
		prefetch->limited->backward ? "backward" : "forward",
		prefetch->limited->limit);
	return prefetch;
}

static struct value get_prefetch_key(struct subject of)
{
	return value_word(((const struct prefetch *)of.object)->key);
}

static const struct record prefetch_record = RECORD_OF(RECORD_OBJECT, struct prefetch,
	{ NULL, GET(FIELD_WORD, get_prefetch_key) },
	{ NULL, EACH(each_target, record_integers_or_null) });

#define SNAPSHOT struct snapshot
static const struct record snapshot_record = OBJECT_RECORD(SNAPSHOT, "snapshot",
	"The lists of handles at one moment.",
	{ "iter", COUNT_AT(SNAPSHOT, taken.iter), ALWAYS("The iteration, from 0.") },
	{ "at_line", COUNT_AT(SNAPSHOT, taken.at_line),
		ALWAYS("The last line before that moment.") },
	{ "handles_pre_forward_order",
		LIST_AT(SNAPSHOT, taken.pre, taken.pre_count, record_integers),
		ALWAYS("Handles in the order of their first forwards.") },
	{ "handles_post_forward_order",
		LIST_AT(SNAPSHOT, taken.post, taken.post_count, record_integers),
		ALWAYS("Handles in the order in which their forwards ended.") },
	{ "pre_forward_order_index",
		LIST_AT(SNAPSHOT, pre, handles, record_integers_or_null),
		ALWAYS("Position of each handle in `handles_pre_forward_order`; null if it is not listed.") },
	{ "post_forward_index", LIST_AT(SNAPSHOT, post, handles, record_integers_or_null),
		ALWAYS("Position of each handle in `handles_post_forward_order`; null if it is not listed.") },
	{ "current_order_index", COUNT_AT(SNAPSHOT, taken.cursor),
		ALWAYS("Number of forwards that were checked.") },
	{ "warn_status", WORD_AT(SNAPSHOT, taken.status),
		WORDS("NONE", "WARNING", "WARNED"), ALWAYS("State of that check.") },
	{ "prefetch", MAP_EACH(each_prefetch, prefetch_record),
		ALWAYS("By direction and limit, such as `forward_limit_1`: for each handle, the handle that is fetched ahead; null for none.") });

_Static_assert(sizeof(struct snapshot) <= RECORD_ROOM, "room for one");

static const void *each_snapshot(struct subject of, size_t i, void *room)
{
	const struct fsdp_exec_order *order = of.object;
	int64_t *pre = ((const struct orders *)of.context)->scratch,
		*post = pre + order->handle_count;
	struct snapshot *one = room;

	if (i == order->snapshot_count)
		return NULL;
	*one = (struct snapshot){ order->snapshots[i], order, pre, post,
		order->handle_count };
	fsdp_order_places(order, &one->taken, pre, post);
	return one;
}

#define WARNING struct fsdp_order_warning
static const struct record warning_record = OBJECT_RECORD(WARNING, "warning",
	"A warning that PyTorch gives.",
	{ "iter", COUNT_AT(WARNING, iter), ALWAYS("The iteration it is given in.") },
	{ "line", COUNT_AT(WARNING, line),
		ALWAYS("Line of the recording that causes it.") },
	{ "handle", INTEGER_AT(WARNING, handle), ALWAYS("The handle it is about.") },
	{ "message", TEXT_AT(WARNING, message), ALWAYS("The message of PyTorch.") });

/* ---- states ---- */

#define CHANGE struct fsdp_state_change
static const struct record change_record =
	RECORD_OF(RECORD_TUPLE, CHANGE, { NULL, COUNT_AT(CHANGE, line) },
		{ NULL, ENUM_AT(CHANGE, training, fsdp_training_state_name) },
		{ NULL, ENUM_AT(CHANGE, handle, fsdp_handle_state_name) });

struct state_count {
	const char *name;
	uint64_t count;
};

/* Of those that were entered. */
#define EACH_STATE(name, counts, states, name_of)                         \
	static const void *name(struct subject of, size_t i, void *room)  \
	{                                                                 \
		const struct fsdp_state_lane *lane = of.object;           \
                                                                          \
		for (unsigned n = 0; n < (states); n++)                   \
			if (lane->counts[n] != 0 && i-- == 0) {           \
				*(struct state_count *)room =             \
					(struct state_count){ name_of(n), \
						lane->counts[n] };        \
				return room;                              \
			}                                                 \
		return NULL;                                              \
	}
EACH_STATE(each_training_state, training_counts, FSDP_TRAINING_STATES,
	fsdp_training_state_name)
EACH_STATE(each_handle_state, handle_counts, FSDP_HANDLE_STATES, fsdp_handle_state_name)

#define COUNT struct state_count
static const struct record count_record = RECORD_OF(RECORD_OBJECT, COUNT,
	{ NULL, WORD_AT(COUNT, name) }, { NULL, COUNT_AT(COUNT, count) });
static const struct record counts_record =
	RECORD_OF(RECORD_OBJECT, struct fsdp_state_lane,
		{ "training_state", MAP_EACH(each_training_state, count_record),
			ALWAYS("By `TrainingState`.") },
		{ "handle_state", MAP_EACH(each_handle_state, count_record),
			ALWAYS("By `HandleTrainingState`.") });

/* As in problems: the state of training, then that of the handle. */
#define STATES "State of training, state of the handle: "
static const struct record last_record = RECORD_OF(RECORD_TUPLE, struct fsdp_state_lane,
	{ NULL, ENUM_AT(struct fsdp_state_lane, last_training,
			fsdp_training_state_name) },
	{ NULL, ENUM_AT(struct fsdp_state_lane, last_handle, fsdp_handle_state_name) });
static const struct record pair_record = RECORD_OF(RECORD_TUPLE, unsigned[2],
	{ .type = FIELD_WORD, .by = BY_WORD, .word = fsdp_training_state_name },
	{ .type = FIELD_WORD,
		.by = BY_WORD,
		.word = fsdp_handle_state_name,
		.at = sizeof(unsigned) });

#define LANE struct fsdp_state_lane
static const struct record lane_record = OBJECT_RECORD(LANE, "lane",
	"The states of one handle.",
	{ "handle", COUNT_AT(LANE, handle), ALWAYS("Its place in `handles`.") },
	{ NULL, POINTED_AT(LANE, unit, fqns_record), .always = true },
	{ "lane", LIST_AT(LANE, changes, change_count, change_record),
		ALWAYS("Changes: line, state of training, state of the handle.") },
	{ "counts", OBJECT(counts_record),
		ALWAYS("How often each state was entered; states that were never entered are omitted.") },
	{ "prefetches", COUNT_AT(LANE, prefetches),
		ALWAYS("Number of these changes that were prefetches.") },
	{ "last", OBJECT(last_record), .always = true,
		.about = STATES "those it ended in." });

struct problem {
	struct fsdp_state_problem state;
	int64_t rank;
	struct fsdp_handle handle;
};

#define PROBLEM struct problem
static const struct record problem_record = OBJECT_RECORD(PROBLEM, "state_problem",
	"A change of state that PyTorch refuses.",
	{ "line", COUNT_AT(PROBLEM, state.line), ALWAYS("Line of the recording.") },
	{ "rank", INTEGER_AT(PROBLEM, rank), ALWAYS("The rank.") },
	{ "handle", INTEGER_AT(PROBLEM, state.handle), ALWAYS("The handle.") },
	{ NULL, FIELDS_AT(PROBLEM, handle, fqns_record) },
	{ "kind", WORD_AT(PROBLEM, state.kind),
		WORDS("summon_in_step", "summon_in_summon", "unshard_not_idle",
			"backward_not_idle", "post_backward_outside",
			"post_backward_without_pre", "unknown_state"),
		ALWAYS("Which rule of PyTorch it breaks.") },
	{ "from", OBJECT_AT(PROBLEM, state.from, pair_record), .always = true,
		.about = STATES "those before." },
	{ "to", OBJECT_AT(PROBLEM, state.to, pair_record), .always = true,
		.about = STATES "those after." },
	{ "error", WORD_AT(PROBLEM, state.error), WORDS("ValueError", "AssertionError"),
		OR_NULL("Class of the exception that PyTorch raises; null for none.") },
	{ "message", TEXT_AT(PROBLEM, state.message),
		ALWAYS("The message of that exception.") });

_Static_assert(sizeof(struct problem) <= RECORD_ROOM, "room for one");

static const void *each_problem(struct subject of, size_t i, void *room)
{
	const struct fsdp_recording *one = of.object;
	struct problem *problem = room;

	if (i == one->order->problem_count)
		return NULL;
	problem->state = one->order->problems[i];
	problem->rank = one->rank;
	problem->handle = one->order->handles[problem->state.handle];
	return problem;
}

/* ---- recordings ---- */

static struct value get_error(struct subject of)
{
	const struct fsdp_divergence *divergence =
		&((const struct orders *)of.context)->divergence;
	const struct fsdp_recording *one = of.object;

	return !divergence->agree &&
			       text_is(text_of_span(one->debug_level), text_of("DETAIL"))
		       ? value_text(text_of_span(divergence->message))
		       : value_absent();
}

#define ORDER struct fsdp_exec_order
static const struct record order_record = RECORD_OF(RECORD_OBJECT, ORDER,
	{ "handles", LIST_AT(ORDER, handles, handle_count, handle_record),
		ABOUT("Units with a FlatParameter, root first.") },
	{ "snapshots", EACH(each_snapshot, snapshot_record),
		ABOUT("The lists before each next iteration, and at the end.") },
	{ "warnings", LIST_AT(ORDER, warnings, warning_count, warning_record),
		ABOUT("Warnings that PyTorch gives.") });
static const struct record checked_record = RECORD_OF(RECORD_OBJECT, ORDER,
	{ "unchecked", COUNT_AT(ORDER, unchecked),
		ABOUT("Number of training forwards that PyTorch did not check.") },
	{ "states", LIST_AT(ORDER, lanes, handle_count, lane_record),
		IF_SET(ORDER, lanes),
		ABOUT("States of each handle, where they were recorded.") });

#define RECORDING struct fsdp_recording
HAS(has_states, RECORDING, one->order->lanes != NULL)
static const struct record order_recording = RECORD_OF(RECORD_OBJECT, RECORDING,
	{ "rank", INTEGER_AT(RECORDING, rank), ABOUT("The rank.") },
	{ NULL, POINTED_AT(RECORDING, order, order_record) },
	{ "error", GET(FIELD_TEXT, get_error),
		OR_NULL("What PyTorch raises on every rank because ranks differ; null for nothing, and where it does not compare them.") },
	{ "debug_level", TEXT_AT(RECORDING, debug_level),
		OR_NULL("Value of `TORCH_DISTRIBUTED_DEBUG`.") },
	{ NULL, POINTED_AT(RECORDING, order, checked_record) },
	{ "state_problems", EACH(each_problem, problem_record), .has = has_states,
		ABOUT("Changes of state that PyTorch refuses.") });

HAS(has_order, RECORDING, one->order != NULL)
static const struct record recording_record = OBJECT_RECORD(RECORDING, "recording",
	"One recording. Names of fields are those of PyTorch's own structures.",
	{ "input", SIZE_AT(RECORDING, input), ALWAYS("`id` of the input.") },
	{ "kind", ENUM_AT(RECORDING, kind, fsdp_recording_kind_name),
		WORDS("fx_exec_order", "exec_order", "flight_recorder", "nccl_watchdog"),
		ALWAYS("What was recorded.") },
	{ NULL, POINTED_AT(RECORDING, fx, fx_record) },
	{ NULL, FIELDS(order_recording), .has = has_order });

static const void *each_recording(struct subject of, size_t i, void *room)
{
	(void)room;
	return fsdp_recording(((const struct orders *)of.context)->recordings, i);
}

/* ---- one row per use ---- */

struct use {
	int64_t rank, iteration; /* FSDP_ABSENT: of no rank */
	uint64_t position;
	const char *what;
	int64_t id;
	struct fsdp_span fqn;
};
#define USE struct use
static const struct record use_record = RECORD_OF(RECORD_OBJECT, USE,
	{ "rank", INTEGER_AT(USE, rank) }, { "iteration", INTEGER_AT(USE, iteration) },
	{ "position", COUNT_AT(USE, position) }, { "what", WORD_AT(USE, what) },
	{ "id", INTEGER_AT(USE, id) }, { "fqn", NAME_AT(USE, fqn) });

static void write_uses(const struct orders *order)
{
	static const struct table like = {
		.key = "recordings", .main = true, .rows_only = true
	};
	const struct fsdp_recording *one;
	struct out *out = order->run->out;
	struct record_table table;

	record_table_init(&table, &like, &use_record, NULL);
	out_records_begin(out, &table);
	for (size_t i = 0; (one = order_by_rank(order, i)) != NULL; i++) {
		static const struct fsdp_fx_order none;
		const struct fsdp_fx_order *fx = one->fx != NULL ? one->fx : &none;
		const struct {
			const char *what;
			const int64_t *ids;
			const struct fsdp_span *names;
			size_t count;
		} lists[] = { { "module", fx->modules, fx->module_names,
				      fx->module_count },
			{ "parameter", fx->params, fx->param_names, fx->param_count },
			{ "never_visited", NULL, fx->never_visited,
				fx->never_visited_count } };
		/* A forward of a unit is one row per parameter. */
		struct use use = { .rank = one->rank, .what = "forward" };
		for (size_t k = 0; one->fx == NULL && k < one->order->forward_count;
			k++) {
			const struct fsdp_forward *forward = &one->order->forwards[k];
			const struct fsdp_handle *handle =
				order_handle(one->order, forward->handle);
			bool again = k != 0 &&
				     one->order->forwards[k - 1].iter == forward->iter;

			use.iteration = (int64_t)forward->iter;
			use.position = again ? use.position + 1 : 0;
			for (size_t j = 0; handle != NULL && j < handle->fqn_count; j++) {
				use.id = handle->id;
				use.fqn = handle->fqns[j];
				out_records_row(out, &table, &use);
			}
		}
		for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
			for (size_t j = 0; j < lists[k].count; j++) {
				use = (struct use){ FSDP_ABSENT, FSDP_ABSENT, j,
					lists[k].what,
					lists[k].ids != NULL ? lists[k].ids[j]
							     : FSDP_ABSENT,
					lists[k].names[j] };
				out_records_row(out, &table, &use);
			}
	}
	out_table_end(out);
}

/* ---- where ranks diverge ---- */

#define DIVERGENCE struct fsdp_divergence
HAS(is_apart, DIVERGENCE, !one->agree)
static const struct record divergence_record = OBJECT_RECORD(DIVERGENCE, "divergence",
	"PyTorch's own comparison of ranks, in the first iteration.",
	{ "agree", BOOL_AT(DIVERGENCE, agree),
		ALWAYS("True when all ranks do the same.") },
	{ "position", INTEGER_AT(DIVERGENCE, position),
		OR_NULL("Place at which two ranks differ first.") },
	{ "ranks", ARRAY_AT(DIVERGENCE, ranks, record_integers), .has = is_apart,
		ABOUT("These two ranks.") },
	{ "handles", ARRAY_AT(DIVERGENCE, handles, record_integers_or_null),
		.has = is_apart,
		ABOUT("The handle that each of them uses there; null when its list has ended.") },
	{ "message", TEXT_AT(DIVERGENCE, message), .has = is_apart,
		ABOUT("What PyTorch says.") });

#define GROUP struct fsdp_order_group
static const struct record group_record = RECORD_OF(RECORD_OBJECT, GROUP,
	{ "ranks", LIST_AT(GROUP, ranks, rank_count, record_integers),
		ALWAYS("These ranks.") },
	{ "handle", INTEGER_AT(GROUP, handle),
		OR_NULL("The handle that they use there; null when their lists have ended.") },
	{ NULL, FIELDS_AT(GROUP, unit, fqns_record) });

#define DIFF struct fsdp_first_diff
static const struct record first_diff_record = OBJECT_RECORD(DIFF, "first_diff",
	"The first place at which ranks differ, in any iteration.",
	{ "iteration", COUNT_AT(DIFF, iteration),
		ALWAYS("Number of that iteration, from 0.") },
	{ "position", COUNT_AT(DIFF, position), ALWAYS("The place in it, from 0.") },
	{ "groups", LIST_AT(DIFF, groups, group_count, group_record),
		ALWAYS("Ranks that do the same.") });

/* ---- the answer ---- */

#define DATA struct orders
#define FLIGHT_OF(data) fsdp_recordings_flight((data)->recordings)
HAS(has_dumps, DATA, FLIGHT_OF(one) != NULL)
HAS(has_no_dumps, DATA, FLIGHT_OF(one) == NULL)
HAS(has_first_diff_option, DATA, one->options->first_diff)
static const struct record request_record = RECORD_OF(RECORD_OBJECT, DATA,
	{ "first_diff", OBJECT_AT(DATA, first_diff, first_diff_record),
		IF_SET(DATA, first_diff.found),
		OR_NULL("With `--first-diff`; null when all ranks agree.") });
const struct record order_answer = OBJECT_RECORD(DATA, NULL, "The answer.",
	{ "recordings", EACH_ITEM(DATA, count, each_recording, recording_record),
		ALWAYS("In the order of the arguments.") },
	{ "divergence", OBJECT_AT(DATA, divergence, divergence_record),
		.has = has_no_dumps },
	{ "collectives", OBJECT_AT(DATA, flight, order_flight_record), .has = has_dumps },
	{ NULL, FIELDS(request_record), .has = has_first_diff_option });

bool order_put_data(struct orders *order)
{
	const struct fsdp_flight *flight = FLIGHT_OF(order);
	size_t count = fsdp_recordings_run_count(order->recordings), room = 1, nth = 0;
	struct orders run = order_run(order, 0);

	while (!order_parts(&run) && ++nth < count)
		run = order_run(order, nth);
	if (nth == count)
		run = order_run(order, 0);
	order->divergence = *fsdp_recordings_divergence(run.recordings);
	order->first_diff = *fsdp_recordings_first_diff(run.recordings);
	if (flight != NULL)
		order->flight = *flight;
	for (size_t i = 0; i < order->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(order->recordings, i);
		size_t wanted = one->fx != NULL      ? one->fx->param_count
				: one->order != NULL ? 2 * one->order->handle_count
						     : 0;
		room = wanted > room ? wanted : room;
	}
	order->scratch = calloc(room, sizeof *order->scratch);
	if (order->scratch == NULL)
		return false;
	out_fields(order->run->out, &order_answer, (struct subject){ order, order });
	if (flight != NULL)
		order_put_dumps(order, (struct subject){ order, order });
	else
		write_uses(order);
	free(order->scratch);
	return true;
}
