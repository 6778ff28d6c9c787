/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `order` says to machines: every recording, a row for each use, and where ranks
 * part.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/order/order.h"
#include "render/record.h"

/* The context of all records. */
struct order_data {
	struct listing *listing;
	/* For what is made of one recording: its parameters sorted, or the places of its
	 * handles, before and behind. */
	int64_t *scratch;
};

static void put_numbers(
	struct out *out, const char *key, const int64_t *numbers, size_t count)
{
	out_array_begin(out, key);
	for (size_t i = 0; i < count; i++)
		out_field(out, NULL, value_known(numbers[i]));
	out_array_end(out);
}

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

static void put_args(struct out *out, struct subject of)
{
	const struct fsdp_fx_order *fx = of.object;

	if (fx->concrete_args_null)
		out_field(out, "concrete_args", value_null());
	if (fx->concrete_args_null || !fx->has_concrete_args)
		return;
	out_array_begin(out, "concrete_args");
	for (size_t i = 0; i < fx->concrete_arg_count; i++)
		out_field(out, NULL, value_span(fx->concrete_args[i]));
	out_array_end(out);
}

static int compare_numbers(const void *a, const void *b)
{
	const int64_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

static void put_visited(struct out *out, struct subject of)
{
	const struct fsdp_fx_order *fx = of.object;
	int64_t *sorted = ((const struct order_data *)of.context)->scratch;

	if (fx->param_count != 0)
		memcpy(sorted, fx->params, fx->param_count * sizeof *sorted);
	qsort(sorted, fx->param_count, sizeof *sorted, compare_numbers);
	put_numbers(out, "visited_params", sorted, fx->param_count);
}

#define FX struct fsdp_fx_order
static const struct record fx_record = RECORD_OF(RECORD_OBJECT, FX,
	{ "tracer", TEXT_AT(FX, tracer) }, { NULL, BY_HAND(put_args) },
	{ "aborted", TEXT_AT(FX, aborted), .null = true },
	{ "module_forward_order",
		LIST_AT(FX, modules, module_count, record_integers_or_null) },
	{ "module_forward_order_fqns",
		LIST_AT(FX, module_names, module_count, record_texts_or_null) },
	{ "module_to_param_usage_infos",
		LIST_AT(FX, usages, usage_count, module_record) },
	{ "param_forward_order",
		LIST_AT(FX, params, param_count, record_integers_or_null) },
	{ "param_forward_order_fqns",
		LIST_AT(FX, param_names, param_count, record_texts_or_null) },
	{ NULL, BY_HAND(put_visited) },
	{ "never_visited_fqns",
		LIST_AT(FX, never_visited, never_visited_count, record_texts_or_null) },
	{ "curr_module", INTEGER_AT(FX, current) });

/* ---- handles ---- */

#define HANDLE struct fsdp_handle
static const struct record fqns_record = RECORD_OF(RECORD_OBJECT, HANDLE,
	{ "fqns", LIST_AT(HANDLE, fqns, fqn_count, record_texts_or_null) });
static const struct record handle_record =
	RECORD_OF(RECORD_OBJECT, HANDLE, { "id", INTEGER_AT(HANDLE, id) },
		{ "module", TEXT_AT(HANDLE, module), .null = true },
		{ NULL, FIELDS(fqns_record) });

struct snapshot {
	struct fsdp_order_snapshot taken;
	const struct fsdp_exec_order *order;
	const int64_t *pre, *post; /* by handle */
};

/* What is fetched with each unit. */
static void put_prefetches(struct out *out, struct subject of)
{
	const struct snapshot *snapshot = of.object;
	const struct fsdp_exec_order *order = snapshot->order;
	char key[48];

	put_numbers(out, "pre_forward_order_index", snapshot->pre, order->handle_count);
	put_numbers(out, "post_forward_index", snapshot->post, order->handle_count);
	out_field(out, "current_order_index", value_count(snapshot->taken.cursor));
	out_field(out, "warn_status", value_word(snapshot->taken.status));
	out_object_begin(out, "prefetch");
	for (size_t i = 0; i < order->prefetch_count; i++) {
		const struct fsdp_prefetch *prefetch = &order->prefetches[i];
		snprintf(key, sizeof key, "%s_limit_%" PRId64,
			prefetch->backward ? "backward" : "forward", prefetch->limit);
		out_array_begin(out, key);
		for (size_t j = 0; j < order->handle_count; j++)
			out_field(out, NULL,
				value_known(fsdp_order_target(&snapshot->taken, prefetch,
					(prefetch->backward ? snapshot->post
							    : snapshot->pre)[j])));
		out_array_end(out);
	}
	out_object_end(out);
}

#define SNAPSHOT struct snapshot
static const struct record snapshot_record = RECORD_OF(RECORD_OBJECT, SNAPSHOT,
	{ "iter", COUNT_AT(SNAPSHOT, taken.iter) },
	{ "at_line", COUNT_AT(SNAPSHOT, taken.at_line) },
	{ "handles_pre_forward_order",
		LIST_AT(SNAPSHOT, taken.pre, taken.pre_count, record_integers_or_null) },
	{ "handles_post_forward_order", LIST_AT(SNAPSHOT, taken.post, taken.post_count,
						record_integers_or_null) },
	{ NULL, BY_HAND(put_prefetches) });

_Static_assert(sizeof(struct snapshot) <= RECORD_ROOM, "room for one");

static const void *each_snapshot(struct subject of, size_t i, void *room)
{
	const struct fsdp_exec_order *order = of.object;
	int64_t *places = ((const struct order_data *)of.context)->scratch;
	struct snapshot *one = room;

	if (i == order->snapshot_count)
		return NULL;
	*one = (struct snapshot){ order->snapshots[i], order, places,
		places + order->handle_count };
	fsdp_order_places(order, &one->taken, places, places + order->handle_count);
	return one;
}

#define WARNING struct fsdp_order_warning
static const struct record warning_record = RECORD_OF(RECORD_OBJECT, WARNING,
	{ "iter", COUNT_AT(WARNING, iter) }, { "line", COUNT_AT(WARNING, line) },
	{ "handle", INTEGER_AT(WARNING, handle) },
	{ "message", TEXT_AT(WARNING, message) });

/* ---- states ---- */

#define CHANGE struct fsdp_state_change
static const struct record change_record =
	RECORD_OF(RECORD_TUPLE, CHANGE, { NULL, COUNT_AT(CHANGE, line) },
		{ NULL, ENUM_AT(CHANGE, training, fsdp_training_state_name) },
		{ NULL, ENUM_AT(CHANGE, handle, fsdp_handle_state_name) });

static void put_counts_of(struct out *out, const char *key, const uint64_t *counts,
	unsigned states, const char *(*name_of)(unsigned state))
{
	out_object_begin(out, key);
	for (unsigned i = 0; i < states; i++)
		if (counts[i] != 0)
			out_field(out, name_of(i), value_count(counts[i]));
	out_object_end(out);
}

static void put_counts(struct out *out, struct subject of)
{
	const struct fsdp_state_lane *lane = of.object;

	out_object_begin(out, "counts");
	put_counts_of(out, "training_state", lane->training_counts, FSDP_TRAINING_STATES,
		fsdp_training_state_name);
	put_counts_of(out, "handle_state", lane->handle_counts, FSDP_HANDLE_STATES,
		fsdp_handle_state_name);
	out_object_end(out);
}

#define LANE struct fsdp_state_lane
static const struct record last_record = RECORD_OF(RECORD_TUPLE, LANE,
	{ NULL, ENUM_AT(LANE, last_training, fsdp_training_state_name) },
	{ NULL, ENUM_AT(LANE, last_handle, fsdp_handle_state_name) });
static const struct record lane_record = RECORD_OF(RECORD_OBJECT, LANE,
	{ "lane", LIST_AT(LANE, changes, change_count, change_record) },
	{ NULL, BY_HAND(put_counts) }, { "prefetches", COUNT_AT(LANE, prefetches) },
	{ "last", OBJECT(last_record) });

static void put_states(struct out *out, struct subject of)
{
	const struct fsdp_exec_order *order = of.object;

	if (order->lanes == NULL)
		return;
	out_array_begin(out, "states");
	for (size_t i = 0; i < order->handle_count; i++) {
		out_object_begin(out, NULL);
		out_field(out, "handle", value_count(i));
		out_fields(out, &fqns_record,
			(struct subject){ of.context, &order->handles[i] });
		out_fields(out, &lane_record,
			(struct subject){ of.context, &order->lanes[i] });
		out_object_end(out);
	}
	out_array_end(out);
}

/* As in problems: the state of training, then that of the handle. */
static const struct record pair_record = RECORD_OF(RECORD_TUPLE, unsigned[2],
	{ .type = FIELD_WORD, .word = fsdp_training_state_name },
	{ .type = FIELD_WORD, .word = fsdp_handle_state_name, .at = sizeof(unsigned) });

struct problem {
	struct fsdp_state_problem state;
	int64_t rank;
	struct fsdp_handle handle;
};

#define PROBLEM struct problem
static const struct record problem_record = RECORD_OF(RECORD_OBJECT, PROBLEM,
	{ "line", COUNT_AT(PROBLEM, state.line) }, { "rank", INTEGER_AT(PROBLEM, rank) },
	{ "handle", INTEGER_AT(PROBLEM, state.handle) },
	{ NULL, FIELDS_AT(PROBLEM, handle, fqns_record) },
	{ "kind", WORD_AT(PROBLEM, state.kind) },
	{ "from", OBJECT_AT(PROBLEM, state.from, pair_record) },
	{ "to", OBJECT_AT(PROBLEM, state.to, pair_record) },
	{ "error", WORD_AT(PROBLEM, state.error), .null = true },
	{ "message", TEXT_AT(PROBLEM, state.message) });

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

static bool is_order(struct subject of)
{
	return ((const struct fsdp_recording *)of.object)->order != NULL;
}

static bool has_states(struct subject of)
{
	return ((const struct fsdp_recording *)of.object)->order->lanes != NULL;
}

/* What PyTorch raises on the two ranks that differ. */
static struct value get_error(struct subject of)
{
	const struct fsdp_divergence *divergence = fsdp_recordings_divergence(
		((const struct order_data *)of.context)->listing->recordings);
	int64_t rank = ((const struct fsdp_recording *)of.object)->rank;

	return !divergence->agree && (divergence->ranks[0] == rank ||
					     divergence->ranks[1] == rank)
		       ? value_span(divergence->message)
		       : value_null();
}

#define ORDER struct fsdp_exec_order
static const struct record order_record = RECORD_OF(RECORD_OBJECT, ORDER,
	{ "handles", LIST_AT(ORDER, handles, handle_count, handle_record) },
	{ "snapshots", EACH(each_snapshot, snapshot_record) },
	{ "warnings", LIST_AT(ORDER, warnings, warning_count, warning_record) });
static const struct record checked_record = RECORD_OF(RECORD_OBJECT, ORDER,
	{ "unchecked", COUNT_AT(ORDER, unchecked) }, { NULL, BY_HAND(put_states) });

#define RECORDING struct fsdp_recording
static const struct record order_recording = RECORD_OF(RECORD_OBJECT, RECORDING,
	{ "rank", INTEGER_AT(RECORDING, rank) },
	{ NULL, POINTED_AT(RECORDING, order, order_record) },
	{ "error", GET(FIELD_TEXT, get_error) },
	{ "debug_level", TEXT_AT(RECORDING, debug_level), .null = true },
	{ NULL, POINTED_AT(RECORDING, order, checked_record) },
	{ "state_problems", EACH(each_problem, problem_record), .has = has_states });
static const struct record recording_record = RECORD_OF(RECORD_OBJECT, RECORDING,
	{ "kind", ENUM_AT(RECORDING, kind, fsdp_recording_kind_name) },
	{ NULL, POINTED_AT(RECORDING, fx, fx_record) },
	{ NULL, FIELDS(order_recording), .has = is_order });

static void put_recordings(struct order_data *data)
{
	const struct listing *listing = data->listing;
	struct out *out = listing->run->out;

	out_items_begin(out, "recordings");
	for (size_t i = 0; i < listing->count; i++) {
		out_object_begin(out, NULL);
		out_field(out, "input", value_count(i));
		out_fields(out, &recording_record,
			(struct subject){ data, fsdp_recording(listing->recordings, i) });
		out_object_end(out);
	}
	out_array_end(out);
}

/* ---- one row for each use ---- */

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

/* ids NULL: they have none. */
static void rows_fx(struct out *out, const struct record_table *table, const char *what,
	const int64_t *ids, const struct fsdp_span *names, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct use use = { FSDP_ABSENT, FSDP_ABSENT, i, what,
			ids != NULL ? ids[i] : FSDP_ABSENT, names[i] };
		out_records_row(out, table, &use);
	}
}

/* A forward of a unit is a row for each of its parameters. */
static void rows_handles(struct out *out, const struct record_table *table,
	const struct fsdp_recording *one)
{
	struct use use = { .rank = one->rank, .what = "forward" };

	for (size_t i = 0; i < one->order->forward_count; i++) {
		const struct fsdp_forward *forward = &one->order->forwards[i];
		const struct fsdp_handle *handle =
			order_handle(one->order, forward->handle);
		bool again = i != 0 && one->order->forwards[i - 1].iter == forward->iter;

		use.iteration = (int64_t)forward->iter;
		use.position = again ? use.position + 1 : 0;
		for (size_t j = 0; handle != NULL && j < handle->fqn_count; j++) {
			use.id = handle->id;
			use.fqn = handle->fqns[j];
			out_records_row(out, table, &use);
		}
	}
}

static void put_uses(const struct listing *listing)
{
	static const struct table like = {
		.key = "recordings", .main = true, .rows_only = true
	};
	struct out *out = listing->run->out;
	struct record_table table;

	record_table_init(&table, &like, &use_record, NULL);
	out_records_begin(out, &table);
	for (size_t i = 0; i < listing->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(listing->recordings,
			fsdp_recording_by_rank(listing->recordings, i));
		const struct fsdp_fx_order *fx = one->fx;
		if (fx == NULL) {
			rows_handles(out, &table, one);
			continue;
		}
		rows_fx(out, &table, "module", fx->modules, fx->module_names,
			fx->module_count);
		rows_fx(out, &table, "parameter", fx->params, fx->param_names,
			fx->param_count);
		rows_fx(out, &table, "never_visited", NULL, fx->never_visited,
			fx->never_visited_count);
	}
	out_table_end(out);
}

/* ---- where ranks part ---- */

static bool is_apart(struct subject of)
{
	return !((const struct fsdp_divergence *)of.object)->agree;
}

#define DIVERGENCE struct fsdp_divergence
static const struct record divergence_record =
	RECORD_OF(RECORD_OBJECT, DIVERGENCE, { "agree", BOOL_AT(DIVERGENCE, agree) },
		{ "position", INTEGER_AT(DIVERGENCE, position), .null = true },
		{ "ranks", ARRAY_AT(DIVERGENCE, ranks, record_integers_or_null),
			.has = is_apart },
		{ "handles", ARRAY_AT(DIVERGENCE, handles, record_integers_or_null),
			.has = is_apart },
		{ "message", TEXT_AT(DIVERGENCE, message), .has = is_apart });

static void put_group(
	struct listing *listing, const struct fsdp_first_diff *diff, size_t index)
{
	struct out *out = listing->run->out;
	const struct fsdp_handle none = { 0 },
				 *handle = order_handle(order_nth(listing, index)->order,
					 diff->handles[index]);

	out_object_begin(out, NULL);
	out_array_begin(out, "ranks");
	for (size_t i = index; i < diff->count; i++)
		if (diff->handles[i] == diff->handles[index])
			out_field(out, NULL, value_integer(order_nth(listing, i)->rank));
	out_array_end(out);
	out_field(out, "handle", value_known(diff->handles[index]));
	out_fields(out, &fqns_record,
		(struct subject){ NULL, handle != NULL ? handle : &none });
	out_object_end(out);
}

static void put_first_diff(struct listing *listing)
{
	const struct fsdp_first_diff *diff =
		fsdp_recordings_first_diff(listing->recordings);
	struct out *out = listing->run->out;

	if (!listing->options->first_diff)
		return;
	if (!diff->found) {
		out_field(out, "first_diff", value_null());
		return;
	}
	out_object_begin(out, "first_diff");
	out_field(out, "iteration", value_count(diff->iteration));
	out_field(out, "position", value_count(diff->position));
	out_array_begin(out, "groups");
	for (size_t i = 0; i < diff->count; i++)
		if (order_begins_group(diff, i))
			put_group(listing, diff, i);
	out_array_end(out);
	out_object_end(out);
}

bool order_put_data(struct listing *listing)
{
	struct order_data data = { listing, NULL };
	size_t room = 1;

	for (size_t i = 0; i < listing->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(listing->recordings, i);
		size_t wanted = one->fx != NULL ? one->fx->param_count
						: 2 * one->order->handle_count;
		room = wanted > room ? wanted : room;
	}
	data.scratch = calloc(room, sizeof *data.scratch);
	if (data.scratch == NULL)
		return false;
	put_recordings(&data);
	put_uses(listing);
	out_record(listing->run->out, "divergence", &divergence_record,
		(struct subject){
			NULL, fsdp_recordings_divergence(listing->recordings) });
	put_first_diff(listing);
	free(data.scratch);
	return true;
}
