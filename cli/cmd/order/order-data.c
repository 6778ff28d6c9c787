/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `order` says to machines: every recording, a row for each use, and where ranks
 * part.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/order/order.h"

/* ---- one recording ---- */

static void put_numbers(
	struct out *out, const char *key, const int64_t *numbers, size_t count)
{
	out_array_begin(out, key);
	for (size_t i = 0; i < count; i++)
		out_field(out, NULL, value_known(numbers[i]));
	out_array_end(out);
}

static void put_spans(
	struct out *out, const char *key, const struct fsdp_span *spans, size_t count)
{
	out_array_begin(out, key);
	for (size_t i = 0; i < count; i++)
		out_field(out, NULL, value_span(spans[i]));
	out_array_end(out);
}

/* [NAME, ID] */
static void put_named_param(struct out *out, const struct fsdp_named_param *param)
{
	out_array_begin(out, NULL);
	out_field(out, NULL, value_text(text_of_span(param->name)));
	out_field(out, NULL, value_integer(param->param));
	out_array_end(out);
}

static void put_usages(struct out *out, const struct fsdp_fx_order *fx)
{
	out_array_begin(out, "module_to_param_usage_infos");
	for (size_t i = 0; i < fx->usage_count; i++) {
		out_array_begin(out, NULL);
		out_field(out, NULL, value_integer(fx->usages[i].module));
		out_array_begin(out, NULL);
		for (size_t j = 0; j < fx->usages[i].usage_count; j++) {
			const struct fsdp_usage *usage = &fx->usages[i].usages[j];
			out_array_begin(out, NULL);
			out_field(out, NULL, value_integer(usage->module));
			out_array_begin(out, NULL);
			for (size_t k = 0; k < usage->param_count; k++)
				put_named_param(out, &usage->params[k]);
			out_array_end(out);
			out_array_end(out);
		}
		out_array_end(out);
		out_array_end(out);
	}
	out_array_end(out);
}

static int compare_numbers(const void *a, const void *b)
{
	const int64_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

static bool put_visited(struct out *out, const struct fsdp_fx_order *fx)
{
	int64_t *sorted = malloc((fx->param_count + 1) * sizeof *sorted);

	if (sorted == NULL)
		return false;
	memcpy(sorted, fx->params, fx->param_count * sizeof *sorted);
	qsort(sorted, fx->param_count, sizeof *sorted, compare_numbers);
	put_numbers(out, "visited_params", sorted, fx->param_count);
	free(sorted);
	return true;
}

static bool put_fx(struct out *out, const struct fsdp_fx_order *fx)
{
	if (fx->tracer.data != NULL)
		out_field(out, "tracer", value_text(text_of_span(fx->tracer)));
	if (fx->concrete_args_null)
		out_field(out, "concrete_args", value_null());
	else if (fx->has_concrete_args)
		put_spans(
			out, "concrete_args", fx->concrete_args, fx->concrete_arg_count);
	out_field(out, "aborted", value_span(fx->aborted));
	put_numbers(out, "module_forward_order", fx->modules, fx->module_count);
	put_spans(out, "module_forward_order_fqns", fx->module_names, fx->module_count);
	put_usages(out, fx);
	put_numbers(out, "param_forward_order", fx->params, fx->param_count);
	put_spans(out, "param_forward_order_fqns", fx->param_names, fx->param_count);
	if (!put_visited(out, fx))
		return false;
	put_spans(out, "never_visited_fqns", fx->never_visited, fx->never_visited_count);
	out_field(out, "curr_module", value_integer(fx->current));
	return true;
}

/* What is fetched with each unit. */
static void put_prefetch(struct out *out, const struct fsdp_order_snapshot *snapshot,
	const struct fsdp_prefetch *prefetch, const int64_t *places, size_t count)
{
	char key[48];

	snprintf(key, sizeof key, "%s_limit_%" PRId64,
		prefetch->backward ? "backward" : "forward", prefetch->limit);
	out_array_begin(out, key);
	for (size_t i = 0; i < count; i++)
		out_field(out, NULL,
			value_known(fsdp_order_target(snapshot, prefetch, places[i])));
	out_array_end(out);
}

/* `places` has room for two a handle. */
static void put_snapshot(struct out *out, const struct fsdp_exec_order *order,
	const struct fsdp_order_snapshot *snapshot, int64_t *places)
{
	int64_t *pre = places, *post = places + order->handle_count;

	fsdp_order_places(order, snapshot, pre, post);
	out_object_begin(out, NULL);
	out_field(out, "iter", value_count(snapshot->iter));
	out_field(out, "at_line", value_count(snapshot->at_line));
	put_numbers(out, "handles_pre_forward_order", snapshot->pre, snapshot->pre_count);
	put_numbers(
		out, "handles_post_forward_order", snapshot->post, snapshot->post_count);
	put_numbers(out, "pre_forward_order_index", pre, order->handle_count);
	put_numbers(out, "post_forward_index", post, order->handle_count);
	out_field(out, "current_order_index", value_count(snapshot->cursor));
	out_field(out, "warn_status", value_word(snapshot->status));
	out_object_begin(out, "prefetch");
	for (size_t i = 0; i < order->prefetch_count; i++)
		put_prefetch(out, snapshot, &order->prefetches[i],
			order->prefetches[i].backward ? post : pre, order->handle_count);
	out_object_end(out);
	out_object_end(out);
}

static void put_pair(struct out *out, const char *key, unsigned training, unsigned handle)
{
	out_array_begin(out, key);
	out_field(out, NULL, value_word(fsdp_training_state_name(training)));
	out_field(out, NULL, value_word(fsdp_handle_state_name(handle)));
	out_array_end(out);
}

static void put_counts(struct out *out, const struct fsdp_state_lane *lane)
{
	out_object_begin(out, "counts");
	out_object_begin(out, "training_state");
	for (unsigned i = 0; i < FSDP_TRAINING_STATES; i++)
		if (lane->training_counts[i] != 0)
			out_field(out, fsdp_training_state_name(i),
				value_count(lane->training_counts[i]));
	out_object_end(out);
	out_object_begin(out, "handle_state");
	for (unsigned i = 0; i < FSDP_HANDLE_STATES; i++)
		if (lane->handle_counts[i] != 0)
			out_field(out, fsdp_handle_state_name(i),
				value_count(lane->handle_counts[i]));
	out_object_end(out);
	out_object_end(out);
}

static void put_lanes(struct out *out, const struct fsdp_exec_order *order)
{
	out_array_begin(out, "states");
	for (size_t i = 0; i < order->handle_count; i++) {
		const struct fsdp_state_lane *lane = &order->lanes[i];
		out_object_begin(out, NULL);
		out_field(out, "handle", value_count(i));
		put_spans(
			out, "fqns", order->handles[i].fqns, order->handles[i].fqn_count);
		out_array_begin(out, "lane");
		for (size_t j = 0; j < lane->change_count; j++) {
			const struct fsdp_state_change *change = &lane->changes[j];
			out_array_begin(out, NULL);
			out_field(out, NULL, value_count(change->line));
			out_field(out, NULL,
				value_word(fsdp_training_state_name(change->training)));
			out_field(out, NULL,
				value_word(fsdp_handle_state_name(change->handle)));
			out_array_end(out);
		}
		out_array_end(out);
		put_counts(out, lane);
		out_field(out, "prefetches", value_count(lane->prefetches));
		put_pair(out, "last", lane->last_training, lane->last_handle);
		out_object_end(out);
	}
	out_array_end(out);
}

static void put_state_problems(struct out *out, const struct fsdp_recording *one)
{
	const struct fsdp_exec_order *order = one->order;

	out_array_begin(out, "state_problems");
	for (size_t i = 0; i < order->problem_count; i++) {
		const struct fsdp_state_problem *problem = &order->problems[i];
		const struct fsdp_handle *handle = &order->handles[problem->handle];
		out_object_begin(out, NULL);
		out_field(out, "line", value_count(problem->line));
		out_field(out, "rank", value_integer(one->rank));
		out_field(out, "handle", value_integer(problem->handle));
		put_spans(out, "fqns", handle->fqns, handle->fqn_count);
		out_field(out, "kind", value_word(problem->kind));
		put_pair(out, "from", problem->from[0], problem->from[1]);
		put_pair(out, "to", problem->to[0], problem->to[1]);
		out_field(out, "error",
			problem->error != NULL ? value_word(problem->error)
					       : value_null());
		out_field(out, "message", value_text(text_of_span(problem->message)));
		out_object_end(out);
	}
	out_array_end(out);
}

static bool put_snapshots(struct out *out, const struct fsdp_exec_order *order)
{
	int64_t *places = calloc(order->handle_count + 1, 2 * sizeof *places);

	if (places == NULL)
		return false;
	out_array_begin(out, "snapshots");
	for (size_t i = 0; i < order->snapshot_count; i++)
		put_snapshot(out, order, &order->snapshots[i], places);
	out_array_end(out);
	free(places);
	return true;
}

static bool put_order(struct listing *listing, const struct fsdp_recording *one)
{
	const struct fsdp_divergence *divergence =
		fsdp_recordings_divergence(listing->recordings);
	const struct fsdp_exec_order *order = one->order;
	struct out *out = listing->run->out;
	bool differs = !divergence->agree && (divergence->ranks[0] == one->rank ||
						     divergence->ranks[1] == one->rank);

	out_array_begin(out, "handles");
	for (size_t i = 0; i < order->handle_count; i++) {
		out_object_begin(out, NULL);
		out_field(out, "id", value_integer(order->handles[i].id));
		out_field(out, "module", value_span(order->handles[i].module));
		put_spans(
			out, "fqns", order->handles[i].fqns, order->handles[i].fqn_count);
		out_object_end(out);
	}
	out_array_end(out);
	if (!put_snapshots(out, order))
		return false;
	out_array_begin(out, "warnings");
	for (size_t i = 0; i < order->warning_count; i++) {
		const struct fsdp_order_warning *warning = &order->warnings[i];
		out_object_begin(out, NULL);
		out_field(out, "iter", value_count(warning->iter));
		out_field(out, "line", value_count(warning->line));
		out_field(out, "handle", value_integer(warning->handle));
		out_field(out, "message", value_text(text_of_span(warning->message)));
		out_object_end(out);
	}
	out_array_end(out);
	out_field(out, "error", differs ? value_span(divergence->message) : value_null());
	out_field(out, "debug_level", value_span(one->debug_level));
	out_field(out, "unchecked", value_count(order->unchecked));
	if (order->lanes == NULL)
		return true;
	put_lanes(out, order);
	put_state_problems(out, one);
	return true;
}

static bool put_recordings(struct listing *listing)
{
	struct out *out = listing->run->out;
	bool good = true;

	out_items_begin(out, "recordings");
	for (size_t i = 0; i < listing->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(listing->recordings, i);
		out_object_begin(out, NULL);
		out_field(out, "input", value_count(i));
		out_field(out, "kind", value_word(fsdp_recording_kind_name(one->kind)));
		if (one->order != NULL)
			out_field(out, "rank", value_integer(one->rank));
		good = good &&
		       (one->fx != NULL ? put_fx(out, one->fx) : put_order(listing, one));
		out_object_end(out);
	}
	out_array_end(out);
	return good;
}

/* ---- one row for each use ---- */

static const struct column SEPARATED_TABLE[] = { { "rank" }, { "iteration" },
	{ "position" }, { "what" }, { "id" }, { "fqn" } };

static void row_of(struct out *out, const struct value *rank,
	const struct value *iteration, size_t position, const char *what, struct value id,
	struct fsdp_span fqn)
{
	const struct value values[] = { *rank, *iteration, value_count(position),
		value_word(what), id,
		fqn.data != NULL ? value_name(text_of_span(fqn)) : value_absent() };

	out_row(out, values);
}

static void rows_fx(struct out *out, const struct fsdp_fx_order *fx)
{
	struct value none = value_absent();

	for (size_t i = 0; i < fx->module_count; i++)
		row_of(out, &none, &none, i, "module", value_integer(fx->modules[i]),
			fx->module_names[i]);
	for (size_t i = 0; i < fx->param_count; i++)
		row_of(out, &none, &none, i, "parameter", value_integer(fx->params[i]),
			fx->param_names[i]);
	for (size_t i = 0; i < fx->never_visited_count; i++)
		row_of(out, &none, &none, i, "never_visited", none, fx->never_visited[i]);
}

/* A forward of a unit is a row for each of its parameters. */
static void rows_handles(struct out *out, const struct fsdp_recording *one)
{
	struct value rank = value_integer(one->rank);
	size_t position = 0;

	for (size_t i = 0; i < one->order->forward_count; i++) {
		const struct fsdp_forward *forward = &one->order->forwards[i];
		const struct fsdp_handle *handle =
			order_handle(one->order, forward->handle);
		struct value iteration = value_count(forward->iter);
		bool again = i != 0 && one->order->forwards[i - 1].iter == forward->iter;

		position = again ? position + 1 : 0;
		for (size_t j = 0; handle != NULL && j < handle->fqn_count; j++)
			row_of(out, &rank, &iteration, position, "forward",
				value_integer(handle->id), handle->fqns[j]);
	}
}

static void put_separated(struct listing *listing)
{
	struct out *out = listing->run->out;
	struct table table = { .key = "recordings",
		.columns = SEPARATED_TABLE,
		.column_count = sizeof SEPARATED_TABLE / sizeof *SEPARATED_TABLE,
		.main = true,
		.rows_only = true };

	out_table_begin(out, &table);
	for (size_t i = 0; i < listing->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(listing->recordings,
			fsdp_recording_by_rank(listing->recordings, i));
		if (one->fx != NULL)
			rows_fx(out, one->fx);
		else
			rows_handles(out, one);
	}
	out_table_end(out);
}

/* ---- where ranks part ---- */

static void put_divergence(struct listing *listing)
{
	const struct fsdp_divergence *divergence =
		fsdp_recordings_divergence(listing->recordings);
	struct out *out = listing->run->out;

	out_object_begin(out, "divergence");
	out_field(out, "agree", value_bool(divergence->agree));
	out_field(out, "position", value_known(divergence->position));
	if (!divergence->agree) {
		put_numbers(out, "ranks", divergence->ranks, 2);
		put_numbers(out, "handles", divergence->handles, 2);
		out_field(out, "message", value_text(text_of_span(divergence->message)));
	}
	out_object_end(out);
}

static void put_group(
	struct listing *listing, const struct fsdp_first_diff *diff, size_t index)
{
	struct out *out = listing->run->out;
	const struct fsdp_handle *handle =
		order_handle(order_nth(listing, index)->order, diff->handles[index]);

	out_object_begin(out, NULL);
	out_array_begin(out, "ranks");
	for (size_t i = index; i < diff->count; i++)
		if (diff->handles[i] == diff->handles[index])
			out_field(out, NULL, value_integer(order_nth(listing, i)->rank));
	out_array_end(out);
	out_field(out, "handle", value_known(diff->handles[index]));
	put_spans(out, "fqns", handle != NULL ? handle->fqns : NULL,
		handle != NULL ? handle->fqn_count : 0);
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
	bool good = put_recordings(listing);

	put_separated(listing);
	put_divergence(listing);
	put_first_diff(listing);
	return good;
}
