/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows in which order modules and units were used, and where ranks part. The library
 * replays the recordings.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/order/order.h"

#define AT(field) offsetof(struct order_options, field)
static const struct option OPTIONS[] = {
	{ "first-diff", 0, OPTION_FLAG, NULL, AT(first_diff),
		.help = "only where ranks part first, in any iteration" },
	{ "names", 0, OPTION_TEXT, "CHECKPOINT", AT(names),
		.help = "each FlatParameter of this checkpoint or plan beside the first use of what lies in it" },
	{ "strict", 0, OPTION_FLAG, NULL, AT(strict),
		.help = "warnings of PyTorch and refused states make the status 1" },
	{ "head", 0, OPTION_INTEGER, "N", AT(head), NULL, 0, INT64_MAX,
		.help = "the first N lines of each list" },
	{ NULL },
};
#undef AT

/* ---- what all outputs ask ---- */

const struct fsdp_handle *order_handle(const struct fsdp_exec_order *order, int64_t index)
{
	return index >= 0 && (uint64_t)index < order->handle_count
		       ? &order->handles[index]
		       : NULL;
}

const struct fsdp_recording *order_nth(const struct listing *listing, size_t nth)
{
	for (size_t i = 0; i < listing->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(listing->recordings,
			fsdp_recording_by_rank(listing->recordings, i));
		if (one->order != NULL && nth-- == 0)
			return one;
	}
	return NULL;
}

bool order_begins_group(const struct fsdp_first_diff *diff, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (diff->handles[i] == diff->handles[index])
			return false;
	return true;
}

/* ---- heads of lists ---- */

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

/* A unit is called as its module; where that is not recorded, as its first parameter. */
static struct text name_of(const struct fsdp_handle *handle)
{
	if (handle->module.size != 0)
		return text_of_span(handle->module);
	return handle->fqn_count != 0 ? text_of_span(handle->fqns[0]) : text_of("(root)");
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

/* How many uses a module has, sorted by module to be found. */
struct uses {
	int64_t module;
	size_t count;
};

static int compare_uses(const void *a, const void *b)
{
	const struct uses *left = a, *right = b;

	return left->module < right->module ? -1 : left->module > right->module;
}

static struct uses *sort_uses(const struct fsdp_fx_order *fx)
{
	struct uses *uses = calloc(fx->usage_count + 1, sizeof *uses);

	for (size_t i = 0; uses != NULL && i < fx->usage_count; i++)
		uses[i] =
			(struct uses){ fx->usages[i].module, fx->usages[i].usage_count };
	if (uses != NULL)
		qsort(uses, fx->usage_count, sizeof *uses, compare_uses);
	return uses;
}

static size_t uses_of(
	const struct fsdp_fx_order *fx, const struct uses *uses, int64_t module)
{
	struct uses wanted = { module, 0 };
	const struct uses *found =
		bsearch(&wanted, uses, fx->usage_count, sizeof *uses, compare_uses);

	return found != NULL ? found->count : 0;
}

static bool show_fx(struct listing *listing, const struct fsdp_fx_order *fx)
{
	struct out *out = listing->run->out;
	struct uses *uses = sort_uses(fx);
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

	if (uses == NULL)
		return false;
	line_config(out, fx);
	out_table_begin(out, &modules);
	for (size_t i = 0; i < head_of_list(listing, fx->module_count); i++) {
		const struct value values[] = { value_count(i),
			value_name(text_of_span(fx->module_names[i])),
			value_count(uses_of(fx, uses, fx->modules[i])) };
		out_row(out, values);
	}
	free(uses);
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
		return true;
	out_line_begin(out, "never used");
	for (size_t i = 0; i < head_of_list(listing, fx->never_visited_count); i++) {
		out_line_text(out, "%s", i != 0 ? ", " : "");
		out_line_name(out, text_of_span(fx->never_visited[i]));
	}
	out_line_end(out);
	return true;
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

static bool show_handle_rows(struct listing *listing, const struct fsdp_exec_order *order)
{
	const struct fsdp_order_snapshot *first = &order->snapshots[0];
	const struct fsdp_prefetch *forward = NULL;
	struct out *out = listing->run->out;
	struct table table = { .key = "handles",
		.columns = HANDLE_TABLE,
		.column_count = 4,
		.text_only = true,
		.indent = 2 };

	int64_t *pre = calloc(order->handle_count + 1, 2 * sizeof *pre);
	int64_t *post = pre != NULL ? pre + order->handle_count : NULL;

	if (pre == NULL)
		return false;
	fsdp_order_places(order, first, pre, post);
	for (size_t i = 0; i < order->prefetch_count && forward == NULL; i++)
		if (!order->prefetches[i].backward && order->prefetches[i].limit == 1)
			forward = &order->prefetches[i];
	out_table_begin(out, &table);
	for (size_t i = 0; i < head_of_list(listing, first->pre_count); i++) {
		const struct fsdp_handle *handle = order_handle(order, first->pre[i]);
		int64_t target = forward != NULL ? fsdp_order_target(first, forward,
							   pre[first->pre[i]])
						 : FSDP_ABSENT;
		const struct fsdp_handle *next = order_handle(order, target);
		int64_t place = post[first->pre[i]];
		const struct value values[] = { value_count(i),
			value_name(name_of(handle)),
			place == FSDP_ABSENT ? value_absent() : value_integer(place),
			value_name(next != NULL ? name_of(next) : (struct text){ 0 }) };
		out_row(out, values);
	}
	out_table_end(out);
	line_rest(listing, first->pre_count);
	free(pre);
	return true;
}

/* One iteration of a lane: from IDLE to IDLE. Returns behind it. What ends a backward is
 * called when the next iteration is counted already. */
static size_t end_of_round(const struct fsdp_state_lane *lane, size_t at)
{
	uint64_t iter = lane->changes[at].iter;

	while (at < lane->change_count && lane->changes[at].iter == iter)
		at++;
	while (at < lane->change_count && lane->changes[at].training == 0 &&
		lane->changes[at].handle == 0)
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
	out_line_name(out, name_of(&order->handles[index]));
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

/* There is a snapshot at the end of each; behind the last end mostly nothing comes. */
static size_t count_iterations(const struct fsdp_exec_order *order)
{
	size_t last = order->snapshot_count - 1;
	bool used = order->forward_count != 0 &&
		    order->forwards[order->forward_count - 1].iter ==
			    order->snapshots[last].iter;

	return used || last == 0 ? last + 1 : last;
}

static bool show_handles(struct listing *listing, const struct fsdp_recording *one)
{
	const struct fsdp_exec_order *order = one->order;
	struct out *out = listing->run->out;
	size_t iterations = count_iterations(order);

	out_line(out, NULL, "rank %" PRId64 ": %zu unit%s, %zu iteration%s", one->rank,
		order->handle_count, order->handle_count == 1 ? "" : "s", iterations,
		iterations == 1 ? "" : "s");
	if (!show_handle_rows(listing, order))
		return false;
	for (size_t i = 0;
		order->lanes != NULL && i < head_of_list(listing, order->handle_count);
		i++)
		line_lane(listing, order, i);
	return true;
}

/* ---- where ranks part ---- */

static void line_ranks(struct listing *listing, const struct fsdp_first_diff *diff,
	size_t index, char *text, size_t room)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = index; i < diff->count && used + 48 < room; i++) {
		int64_t first, last;
		if (diff->handles[i] != diff->handles[index])
			continue;
		first = last = order_nth(listing, i)->rank;
		while (i + 1 < diff->count &&
			diff->handles[i + 1] == diff->handles[index] &&
			order_nth(listing, i + 1)->rank == last + 1)
			last = order_nth(listing, ++i)->rank;
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
		count += order_begins_group(diff, i);
	return count;
}

static void line_group(
	struct listing *listing, const struct fsdp_first_diff *diff, size_t index)
{
	struct out *out = listing->run->out;
	const struct fsdp_handle *handle =
		order_handle(order_nth(listing, index)->order, diff->handles[index]);
	char ranks[256];

	line_ranks(listing, diff, index, ranks, sizeof ranks);
	out_line_begin(out, ranks);
	if (handle != NULL)
		out_line_name(out, name_of(handle));
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
		if (!order_begins_group(diff, i))
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
		if (order_begins_group(diff, i))
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
			good = good && show_fx(listing, one->fx);
		if (one->fx != NULL && listing->checkpoint != NULL)
			good = good && show_flats(listing, one->fx);
		if (one->order != NULL)
			good = good && show_handles(listing, one);
	}
	show_first_diff(listing);
	return good;
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

/* The checkpoint of --names has the limits that the recordings have. */
static bool prepare(struct run *run, struct fsdp_recording_options *options)
{
	struct fsdp_options *names = calloc(1, sizeof *names);

	run->prepared = names;
	if (names == NULL) {
		run_failure(run, "memory", NULL, "out of memory");
		return false;
	}
	*names = (struct fsdp_options){ .size = sizeof *names,
		.limits = options->limits,
		.limit_count = options->limit_count };
	return true;
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
		if (!fsdp_checkpoint_open(&listing.options->names, 1, run->prepared,
			    &listing.checkpoint, ret_error))
			return false;
		if (!has_flats(listing.checkpoint))
			run_note(run, "%s has no flat parameter: only FSDP1 makes them",
				listing.options->names);
	}
	run_begin(run, status_of(&listing));
	good = show_text(&listing);
	good = order_put_data(&listing) && good;
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
	.answer = &order_answer,
	.output = "text",
	.inputs = INPUTS_RECORDINGS,
	.options_size = sizeof(struct order_options),
	.prepare = prepare,
	.release = free,
	.run = run_order,
};
