/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which order modules and units were used, and where ranks part. Knows what is shown
 * of a recording of an order; how it was replayed is the library's.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"

struct order_options {
	bool first_diff;
	const char *names;
	bool strict;
	int64_t head;
};

#define AT(field) offsetof(struct order_options, field)
static const struct option OPTIONS[] = {
	{ "first-diff", 0, OPTION_FLAG, NULL, AT(first_diff),
		.help = "only where ranks part first, in any iteration" },
	{ "names", 0, OPTION_TEXT, "CHECKPOINT", AT(names),
		.help = "each FlatParameter of this checkpoint or plan beside the first "
			"use of what lies in it" },
	{ "strict", 0, OPTION_FLAG, NULL, AT(strict),
		.help = "warnings of PyTorch and refused states make the status 1" },
	{ "head", 0, OPTION_INTEGER, "N", AT(head), NULL, 0, INT64_MAX,
		.help = "the first N lines of each list" },
	{ NULL },
};
#undef AT

/* What one run of this command has at hand. */
struct listing {
	struct run *run;
	const struct order_options *options;
	const struct fsdp_recordings *recordings;
	struct fsdp_checkpoint *checkpoint; /* --names, or NULL */
	size_t count;
};

static size_t head_of_list(const struct listing *listing, size_t count)
{
	uint64_t head = (uint64_t)listing->options->head;

	return listing->options->head >= 0 && head < count ? (size_t)head : count;
}

static void line_rest(struct listing *listing, size_t count)
{
	size_t head = head_of_list(listing, count);

	if (head < count)
		out_line(listing->run->out, "", "... and %zu more", count - head);
}

/* ---- names ---- */

static void line_fqns(struct out *out, const struct fsdp_handle *handle)
{
	if (handle->module.data != NULL && handle->module.size != 0)
		out_line_name(out, text_of_span(handle->module));
	else if (handle->fqn_count != 0)
		out_line_name(out, text_of_span(handle->fqns[0]));
	else
		out_line_text(out, "(root)");
}

static const struct fsdp_handle *handle_of(
	const struct fsdp_exec_order *order, int64_t index)
{
	return index >= 0 && (uint64_t)index < order->handle_count
		       ? &order->handles[index]
		       : NULL;
}

/* ---- fx: text ---- */

static void line_config(struct out *out, const struct fsdp_fx_order *fx)
{
	out_line_begin(out, NULL);
	out_line_name(
		out, fx->root.data != NULL ? text_of_span(fx->root) : text_of("(root)"));
	if (fx->torch.data != NULL) {
		out_line_text(out, ", torch ");
		out_line_name(out, text_of_span(fx->torch));
	}
	if (fx->tracer.data != NULL) {
		out_line_text(out, ", tracer ");
		out_line_name(out, text_of_span(fx->tracer));
	}
	if (fx->has_concrete_args) {
		out_line_text(out, ", concrete_args");
		for (size_t i = 0; i < fx->concrete_arg_count; i++) {
			out_line_text(out, " ");
			out_line_name(out, text_of_span(fx->concrete_args[i]));
		}
		if (fx->concrete_args_null)
			out_line_text(out, " none");
	}
	out_line_end(out);
}

static const struct column PARAM_TABLE[] = {
	{ "#", .right = true },
	{ "parameter" },
};

static const struct column MODULE_TABLE[] = {
	{ "#", .right = true },
	{ "module" },
	{ "uses", .right = true },
};

static size_t uses_of(const struct fsdp_fx_order *fx, int64_t module)
{
	for (size_t i = 0; i < fx->usage_count; i++)
		if (fx->usages[i].module == module)
			return fx->usages[i].usage_count;
	return 0;
}

static void show_fx(struct listing *listing, const struct fsdp_fx_order *fx)
{
	struct out *out = listing->run->out;
	struct table modules = { .key = "modules",
		.columns = MODULE_TABLE,
		.column_count = 3,
		.text_only = true,
		.indent = 2 };
	struct table params = { .key = "params",
		.columns = PARAM_TABLE,
		.column_count = 2,
		.text_only = true,
		.indent = 2 };

	line_config(out, fx);
	out_table_begin(out, &modules);
	for (size_t i = 0; i < head_of_list(listing, fx->module_count); i++) {
		const struct value values[] = { value_count(i),
			value_name(text_of_span(fx->module_names[i])),
			value_count(uses_of(fx, fx->modules[i])) };
		out_row(out, values);
	}
	out_table_end(out);
	line_rest(listing, fx->module_count);
	out_table_begin(out, &params);
	for (size_t i = 0; i < head_of_list(listing, fx->param_count); i++) {
		const struct value values[] = { value_count(i),
			value_name(text_of_span(fx->param_names[i])) };
		out_row(out, values);
	}
	out_table_end(out);
	line_rest(listing, fx->param_count);
	if (fx->never_visited_count == 0)
		return;
	out_line_begin(out, "never used");
	for (size_t i = 0; i < head_of_list(listing, fx->never_visited_count); i++) {
		out_line_text(out, "%s", i != 0 ? ", " : "");
		out_line_name(out, text_of_span(fx->never_visited[i]));
	}
	out_line_end(out);
}

/* ---- fx: the flat parameters of a plan ---- */

/* Parameters in order of first use, sorted by name to be found. */
struct used {
	struct text name;
	size_t place;
};

static int compare_used(const void *a, const void *b)
{
	const struct used *left = a, *right = b;
	size_t common =
		left->name.size < right->name.size ? left->name.size : right->name.size;
	int order = common == 0 ? 0 : memcmp(left->name.data, right->name.data, common);

	if (order != 0)
		return order;
	return left->name.size < right->name.size ? -1
						  : left->name.size > right->name.size;
}

static struct used *sort_used(const struct fsdp_fx_order *fx)
{
	struct used *used = malloc((fx->param_count + 1) * sizeof *used);

	for (size_t i = 0; used != NULL && i < fx->param_count; i++)
		used[i] = (struct used){ text_of_span(fx->param_names[i]), i };
	if (used != NULL)
		qsort(used, fx->param_count, sizeof *used, compare_used);
	return used;
}

static const struct column FLAT_TABLE[] = {
	{ "unit" },
	{ "in flat", .right = true },
	{ "first use", .right = true },
	{ "parameter" },
	{ "note" },
};

/* Parameters of one flat parameter in the order in which they lie there, beside the order
 * in which they are used first. */
static void rows_flat(struct listing *listing, const struct fsdp_fx_order *fx,
	const struct used *used, const struct fsdp_flat *flat, struct text unit)
{
	size_t latest = 0, place = 0;
	char buffer[4096];

	for (uint32_t i = 0; i < flat->entry_count; i++) {
		struct fsdp_flat_entry entry =
			fsdp_flat_entry(listing->checkpoint, flat, i);
		struct used wanted = { { buffer, 0 }, 0 }, *found;
		struct value values[5];

		if (entry.fqn == FSDP_NONE)
			continue;
		wanted.name.size = fsdp_name_write(
			listing->checkpoint, entry.fqn, buffer, sizeof buffer);
		if (wanted.name.size > sizeof buffer)
			wanted.name.size = sizeof buffer;
		found = bsearch(
			&wanted, used, fx->param_count, sizeof *used, compare_used);
		values[0] = value_name(unit);
		values[1] = value_count(place++);
		values[2] = found != NULL ? value_count(found->place) : value_absent();
		values[3] = value_name(wanted.name);
		values[4] = value_word(found == NULL ? "never used"
				       : found->place < latest
					       ? "used before one in front of it"
					       : "");
		if (found != NULL && found->place > latest)
			latest = found->place;
		out_row(listing->run->out, values);
	}
}

static bool has_flats(const struct fsdp_checkpoint *checkpoint)
{
	struct fsdp_flat flat;

	for (uint32_t i = 0; i < fsdp_unit_count(checkpoint); i++)
		if (fsdp_unit_flat(checkpoint, i, &flat))
			return true;
	return false;
}

static bool show_flats(struct listing *listing, const struct fsdp_fx_order *fx)
{
	const struct fsdp_checkpoint *checkpoint = listing->checkpoint;
	struct table table = { .key = "flats",
		.columns = FLAT_TABLE,
		.column_count = sizeof FLAT_TABLE / sizeof *FLAT_TABLE,
		.text_only = true,
		.indent = 2 };
	struct used *used = sort_used(fx);

	if (used == NULL)
		return false;
	out_table_begin(listing->run->out, &table);
	for (uint32_t i = 0; i < fsdp_unit_count(checkpoint); i++) {
		struct fsdp_unit unit = fsdp_unit(checkpoint, i);
		struct fsdp_flat flat;
		char name[1024];
		size_t size;

		if (!fsdp_unit_flat(checkpoint, i, &flat))
			continue;
		size = fsdp_name_write(checkpoint,
			fsdp_module(checkpoint, unit.module).name, name, sizeof name);
		if (size > sizeof name)
			size = sizeof name;
		rows_flat(listing, fx, used, &flat,
			size != 0 ? (struct text){ name, size } : text_of("(root)"));
	}
	out_table_end(listing->run->out);
	free(used);
	return true;
}

/* ---- handles: text ---- */

static const struct column HANDLE_TABLE[] = {
	{ "#", .right = true },
	{ "unit" },
	{ "post", .right = true },
	{ "fetches next" },
};

static void show_handle_rows(struct listing *listing, const struct fsdp_exec_order *order)
{
	const struct fsdp_order_snapshot *first = &order->snapshots[0];
	const struct fsdp_prefetch *forward = NULL;
	struct out *out = listing->run->out;
	struct table table = { .key = "handles",
		.columns = HANDLE_TABLE,
		.column_count = 4,
		.text_only = true,
		.indent = 2 };

	for (size_t i = 0; i < first->prefetch_count && forward == NULL; i++)
		if (!first->prefetches[i].backward && first->prefetches[i].limit == 1)
			forward = &first->prefetches[i];
	out_table_begin(out, &table);
	for (size_t i = 0; i < head_of_list(listing, first->pre_count); i++) {
		const struct fsdp_handle *handle = handle_of(order, first->pre[i]);
		int64_t target =
			forward != NULL ? forward->targets[first->pre[i]] : FSDP_ABSENT;
		const struct fsdp_handle *next = handle_of(order, target);
		int64_t post = first->post_index[first->pre[i]];
		struct text name = text_of("(root)"), other = { 0 };
		if (handle->module.size != 0)
			name = text_of_span(handle->module);
		else if (handle->fqn_count != 0)
			name = text_of_span(handle->fqns[0]);
		if (next != NULL)
			other = next->module.size != 0 ? text_of_span(next->module)
				: next->fqn_count != 0 ? text_of_span(next->fqns[0])
						       : text_of("(root)");
		const struct value values[] = { value_count(i), value_name(name),
			post == FSDP_ABSENT ? value_absent() : value_integer(post),
			value_name(other) };
		out_row(out, values);
	}
	out_table_end(out);
	line_rest(listing, first->pre_count);
}

/* One iteration of a lane: from IDLE to IDLE. Returns behind it. */
static size_t end_of_round(const struct fsdp_state_lane *lane, size_t at)
{
	uint64_t iter = lane->changes[at].iter;

	while (at < lane->change_count && lane->changes[at].iter == iter)
		at++;
	return at;
}

/* The same changes, one by one. */
static bool same_round(const struct fsdp_state_lane *lane, size_t a, size_t a_end,
	size_t b, size_t b_end)
{
	if (a_end - a != b_end - b)
		return false;
	for (; a < a_end; a++, b++) {
		const struct fsdp_state_change *left = &lane->changes[a];
		const struct fsdp_state_change *right = &lane->changes[b];
		if (left->training != right->training || left->handle != right->handle ||
			left->problem != right->problem)
			return false;
	}
	return true;
}

/* H from IDLE to IDLE as one step, prefetches in brackets, a mark at a problem. */
static void line_round(
	struct out *out, const struct fsdp_state_lane *lane, size_t at, size_t end)
{
	unsigned before = at != 0 ? lane->changes[at - 1].handle : 0;
	bool any = false;

	for (; at < end; at++) {
		const struct fsdp_state_change *change = &lane->changes[at];
		if (change->handle == before)
			continue;
		if (change->handle != 0)
			out_line_text(out, "%s%s%s%s%s",
				!any          ? ""
				: before == 0 ? " \xc2\xb7 "
					      : " ",
				change->prefetch ? "(" : "",
				fsdp_handle_state_name(change->handle),
				change->prefetch ? ")" : "", change->problem ? "!" : "");
		any |= change->handle != 0;
		before = change->handle;
	}
}

static void line_lane(
	struct listing *listing, const struct fsdp_exec_order *order, size_t index)
{
	const struct fsdp_state_lane *lane = &order->lanes[index];
	struct out *out = listing->run->out;
	char label[24];
	bool first = true;

	snprintf(label, sizeof label, "%" PRId64, order->handles[index].id);
	out_line_begin(out, label);
	line_fqns(out, &order->handles[index]);
	out_line_text(out, "  ");
	for (size_t at = 0; at < lane->change_count;) {
		size_t end = end_of_round(lane, at), next = end, times = 1;
		while (next < lane->change_count &&
			same_round(lane, at, end, next, end_of_round(lane, next))) {
			next = end_of_round(lane, next);
			times++;
		}
		out_line_text(out, "%s", first ? "" : "; ");
		line_round(out, lane, at, end);
		if (times > 1)
			out_line_text(out, "  x%zu iterations", times);
		first = false;
		at = next;
	}
	out_line_text(out,
		"  %" PRIu64 " entries of FORWARD_BACKWARD, %" PRIu64 " prefetch%s",
		lane->training_counts[1], lane->prefetches,
		lane->prefetches == 1 ? "" : "es");
	if (lane->last_training != 0 || lane->last_handle != 0)
		out_line_text(out, ", ends in (%s, %s)",
			fsdp_training_state_name(lane->last_training),
			fsdp_handle_state_name(lane->last_handle));
	out_line_end(out);
}

static void show_handles(struct listing *listing, const struct fsdp_recording *one)
{
	const struct fsdp_exec_order *order = one->order;
	struct out *out = listing->run->out;

	out_line(out, NULL, "rank %" PRId64 ": %zu unit%s, %zu iteration%s", one->rank,
		order->handle_count, order->handle_count == 1 ? "" : "s",
		order->snapshot_count, order->snapshot_count == 1 ? "" : "s");
	show_handle_rows(listing, order);
	for (size_t i = 0;
		order->lanes != NULL && i < head_of_list(listing, order->handle_count);
		i++)
		line_lane(listing, order, i);
}

/* ---- where ranks part ---- */

/* The recordings of handles, by rank. */
static const struct fsdp_recording *nth_order(const struct listing *listing, size_t nth)
{
	for (size_t i = 0; i < listing->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(listing->recordings,
			fsdp_recording_by_rank(listing->recordings, i));
		if (one->order != NULL && nth-- == 0)
			return one;
	}
	return NULL;
}

/* Whether this one begins a group: none before it did the same. */
static bool begins_group(const struct fsdp_first_diff *diff, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (diff->handles[i] == diff->handles[index])
			return false;
	return true;
}

static void line_ranks(struct listing *listing, const struct fsdp_first_diff *diff,
	size_t index, char *text, size_t room)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = index; i < diff->count && used + 48 < room; i++) {
		int64_t first, last;
		if (diff->handles[i] != diff->handles[index])
			continue;
		first = last = nth_order(listing, i)->rank;
		while (i + 1 < diff->count &&
			diff->handles[i + 1] == diff->handles[index] &&
			nth_order(listing, i + 1)->rank == last + 1)
			last = nth_order(listing, ++i)->rank;
		used += (size_t)snprintf(text + used, room - used, "%s%" PRId64,
			used != 0 ? "," : "", first);
		if (last != first)
			used += (size_t)snprintf(
				text + used, room - used, "-%" PRId64, last);
	}
}

static size_t group_count(const struct fsdp_first_diff *diff)
{
	size_t count = 0;

	for (size_t i = 0; i < diff->count; i++)
		count += begins_group(diff, i);
	return count;
}

static void line_group(
	struct listing *listing, const struct fsdp_first_diff *diff, size_t index)
{
	struct out *out = listing->run->out;
	const struct fsdp_handle *handle =
		handle_of(nth_order(listing, index)->order, diff->handles[index]);
	char ranks[256];

	line_ranks(listing, diff, index, ranks, sizeof ranks);
	out_line_begin(out, ranks);
	if (handle != NULL)
		line_fqns(out, handle);
	else
		out_line_text(out, "(stops here)");
	out_line_end(out);
}

static void show_first_diff(struct listing *listing)
{
	const struct fsdp_first_diff *diff =
		fsdp_recordings_first_diff(listing->recordings);
	struct out *out = listing->run->out;
	size_t groups = group_count(diff), told = 0;
	char ranks[256];

	if (!diff->found)
		return;
	out_line_begin(out, NULL);
	for (size_t i = 0; i < diff->count; i++) {
		if (!begins_group(diff, i))
			continue;
		line_ranks(listing, diff, i, ranks, sizeof ranks);
		out_line_text(out, "%s%s %s",
			told == 0            ? ""
			: told + 1 == groups ? " and "
					     : ", ",
			strpbrk(ranks, "-,") != NULL ? "ranks" : "rank", ranks);
		told++;
	}
	out_line_text(out, " part at position %" PRIu64 " of iteration %" PRIu64,
		diff->position, diff->iteration);
	out_line_end(out);
	for (size_t i = 0; i < diff->count; i++)
		if (begins_group(diff, i))
			line_group(listing, diff, i);
}

static bool show_text(struct listing *listing)
{
	bool good = true;

	if (listing->options->first_diff) {
		show_first_diff(listing);
		return true;
	}
	for (size_t i = 0; i < listing->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(listing->recordings, i);
		if (one->fx != NULL)
			show_fx(listing, one->fx);
		if (one->fx != NULL && listing->checkpoint != NULL)
			good = good && show_flats(listing, one->fx);
		if (one->order != NULL)
			show_handles(listing, one);
	}
	show_first_diff(listing);
	return good;
}

/* ---- machine outputs ---- */

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

static void put_snapshot(struct out *out, const struct fsdp_exec_order *order,
	const struct fsdp_order_snapshot *snapshot)
{
	out_object_begin(out, NULL);
	out_field(out, "iter", value_count(snapshot->iter));
	out_field(out, "at_line", value_count(snapshot->at_line));
	put_numbers(out, "handles_pre_forward_order", snapshot->pre, snapshot->pre_count);
	put_numbers(
		out, "handles_post_forward_order", snapshot->post, snapshot->post_count);
	put_numbers(
		out, "pre_forward_order_index", snapshot->pre_index, order->handle_count);
	put_numbers(out, "post_forward_index", snapshot->post_index, order->handle_count);
	out_field(out, "current_order_index", value_count(snapshot->cursor));
	out_field(out, "warn_status", value_word(snapshot->status));
	out_object_begin(out, "prefetch");
	for (size_t i = 0; i < snapshot->prefetch_count; i++) {
		const struct fsdp_prefetch *one = &snapshot->prefetches[i];
		char key[48];
		snprintf(key, sizeof key, "%s_limit_%" PRId64,
			one->backward ? "backward" : "forward", one->limit);
		put_numbers(out, key, one->targets, order->handle_count);
	}
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

static void put_order(struct listing *listing, const struct fsdp_recording *one)
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
	out_array_begin(out, "snapshots");
	for (size_t i = 0; i < order->snapshot_count; i++)
		put_snapshot(out, order, &order->snapshots[i]);
	out_array_end(out);
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
		return;
	put_lanes(out, order);
	put_state_problems(out, one);
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
		if (one->fx != NULL)
			good = good && put_fx(out, one->fx);
		else
			put_order(listing, one);
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
		const struct fsdp_handle *handle = handle_of(one->order, forward->handle);
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
		handle_of(nth_order(listing, index)->order, diff->handles[index]);

	out_object_begin(out, NULL);
	out_array_begin(out, "ranks");
	for (size_t i = index; i < diff->count; i++)
		if (diff->handles[i] == diff->handles[index])
			out_field(out, NULL, value_integer(nth_order(listing, i)->rank));
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
		if (begins_group(diff, i))
			put_group(listing, diff, i);
	out_array_end(out);
	out_object_end(out);
}

/* ---- the command ---- */

static bool is_answerable(struct listing *listing)
{
	for (size_t i = 0; i < listing->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(listing->recordings, i);
		if (one->fx == NULL && one->order == NULL) {
			refuse(listing->run, "fsdp-inspect replay takes it",
				"%s records times, no order", one->path);
			return false;
		}
	}
	return true;
}

static int status_of(const struct listing *listing)
{
	int status = STATUS_GOOD;
	bool warned = false;

	for (size_t i = 0; i < listing->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(listing->recordings, i);
		if (one->truncated || one->bad_line_count != 0)
			status = status_worse(status, STATUS_PARTIAL);
		if (one->order != NULL)
			warned |= one->order->warning_count != 0 ||
				  one->order->problem_count != 0;
	}
	if (!fsdp_recordings_divergence(listing->recordings)->agree ||
		fsdp_recordings_first_diff(listing->recordings)->found ||
		(listing->options->strict && warned))
		status = status_worse(status, STATUS_BAD);
	return status;
}

static bool run_order(struct run *run, struct fsdp_error **ret_error)
{
	struct listing listing = { .run = run,
		.options = run->options,
		.recordings = run->recordings,
		.count = fsdp_recording_count(run->recordings) };
	bool good;

	if (!is_answerable(&listing))
		return true;
	if (listing.options->names != NULL) {
		const struct fsdp_options options = { .size = sizeof options };
		if (!fsdp_checkpoint_open(&listing.options->names, 1, &options,
			    &listing.checkpoint, ret_error))
			return false;
		if (!has_flats(listing.checkpoint))
			run_note(run, "%s has no flat parameter: only FSDP1 makes them",
				listing.options->names);
	}
	run_begin(run, status_of(&listing));
	good = show_text(&listing) && put_recordings(&listing);
	put_separated(&listing);
	put_divergence(&listing);
	put_first_diff(&listing);
	fsdp_checkpoint_free(listing.checkpoint);
	return good;
}

const struct command command_order = {
	.name = "order",
	.group = GROUP_TRACE,
	.summary = "which order, where ranks part?",
	.synopsis = "[--first-diff] [--names=CHECKPOINT] [--strict] [--head=N] TRACE...",
	.example = "order rank*.order.jsonl",
	.examples = { "order model.fx.jsonl", "order --first-diff rank*.order.jsonl" },
	.exit_1 = "the ranks differ, or with --strict PyTorch would warn",
	.options = OPTIONS,
	.shapes = SHAPE_TABLE,
	.output = "text",
	.inputs = INPUTS_RECORDINGS,
	.options_size = sizeof(struct order_options),
	.run = run_order,
};
