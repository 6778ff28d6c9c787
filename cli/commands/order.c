/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows in which order modules and units were used, and where ranks diverge. The library
 * replays the recordings.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "args/select.h"
#include "commands/order.h"
#include "shared/recordings.h"
#include "render/writer.h"

/* ---- recordings, and the runs that they are of ---- */

const struct fsdp_recording *order_by_rank(const struct orders *order, size_t nth)
{
	return nth < order->count
		       ? fsdp_recording(order->recordings,
				 fsdp_recording_by_rank(order->recordings, nth))
		       : NULL;
}

const struct fsdp_handle *order_handle(const struct fsdp_exec_order *order, int64_t index)
{
	return index >= 0 && (uint64_t)index < order->handle_count
		       ? &order->handles[index]
		       : NULL;
}

struct orders order_run(const struct orders *order, size_t nth)
{
	struct orders run = *order;

	run.recordings = fsdp_recordings_run(order->recordings, nth);
	run.count = fsdp_recording_count(run.recordings);
	return run;
}

bool order_parts(const struct orders *run)
{
	return !fsdp_recordings_divergence(run->recordings)->agree ||
	       fsdp_recordings_first_diff(run->recordings)->found;
}

void order_put_ranks(const int64_t *ranks, size_t count, char *text, size_t room)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < count; i++) {
		int64_t first = ranks[i];

		if (used + 48 >= room) {
			snprintf(text + used, room - used, ",... (%zu)", count);
			return;
		}
		while (i + 1 < count && ranks[i + 1] == ranks[i] + 1)
			i++;
		used += (size_t)snprintf(text + used, room - used, "%s%" PRId64,
			used != 0 ? "," : "", first);
		if (ranks[i] != first)
			used += (size_t)snprintf(
				text + used, room - used, "-%" PRId64, ranks[i]);
	}
}

#define AT(field) offsetof(struct order_options, field)
static const struct option_row OPTIONS[] = {
	{ "first-diff", 0, OPTION_FLAG, NULL, AT(first_diff),
		.help = "only the first divergence, in any iteration" },
	{ "names", 0, OPTION_TEXT, "CHECKPOINT", AT(names),
		.help = "compare with the FlatParameters of this checkpoint or plan" },
	{ "rank-regex", 0, OPTION_TEXT, "RE", AT(rank_regex),
		.help = "of dumps: read ranks from paths with this expression" },
	{ "strict", 0, OPTION_FLAG, NULL, AT(strict),
		.help = "warnings of PyTorch and refused states make the status 1" },
	{ "head", 0, OPTION_INTEGER, "N", AT(head), NULL, 0, INT64_MAX,
		.help = "the first N lines of each list" },
	{ NULL },
};
#undef AT

/* ---- heads of lists ---- */

static size_t head_of_list(const struct orders *order, size_t count)
{
	uint64_t head = (uint64_t)order->options->head;

	return order->options->head >= 0 && head < count ? (size_t)head : count;
}

static void end_list(struct orders *order, size_t count)
{
	size_t head = head_of_list(order, count);

	out_table_end(order->run->out);
	if (head < count)
		out_line(order->run->out, "", "... and %zu more", count - head);
}

static void add_row(struct orders *order, const struct value *values)
{
	out_row(order->run->out, values);
}
#define ADD_ROW(order, ...) add_row((order), (const struct value[]){ __VA_ARGS__ })

static struct value name_of(const struct fsdp_handle *handle)
{
	return value_name(text_of_span(fsdp_handle_name(handle)));
}

/* ---- fx: text ---- */

/* A module by its number with its uses, or a parameter by its name with its place in the
 * order of first use; sorted to be found. */
struct fx_use {
	int64_t id;
	struct text name;
	size_t count;
};

static int compare_found(const void *a, const void *b)
{
	const struct fx_use *left = a, *right = b;

	if (left->id != right->id)
		return left->id < right->id ? -1 : 1;
	return text_compare(left->name, right->name);
}

static const struct fx_use *find(
	const struct fx_use *list, size_t count, int64_t id, struct text name)
{
	const struct fx_use wanted = { id, name, 0 };

	return bsearch(&wanted, list, count, sizeof *list, compare_found);
}

static const struct table PARAMS = TEXT_TABLE(NUMBERS("#"), { "parameter" });

static const struct table MODULES =
	TEXT_TABLE(NUMBERS("#"), { "module" }, NUMBERS("uses"));

static bool show_fx(struct orders *order, const struct fsdp_fx_order *fx)
{
	struct fx_use *uses = calloc(fx->usage_count + 1, sizeof *uses);
	size_t head = head_of_list(order, fx->never_visited_count);
	struct out *out = order->run->out;

	if (uses == NULL)
		return false;
	for (size_t i = 0; i < fx->usage_count; i++)
		uses[i] = (struct fx_use){ .id = fx->usages[i].module,
			.count = fx->usages[i].usage_count };
	qsort(uses, fx->usage_count, sizeof *uses, compare_found);
	out_line_begin(out, NULL);
	out_values(out, "{}[, torch {}][, tracer {}]{}",
		value_name(fx->root.data != NULL ? text_of_span(fx->root)
						 : text_of("(root)")),
		value_name(text_of_span(fx->torch)), value_name(text_of_span(fx->tracer)),
		value_word(fx->has_concrete_args ? ", concrete_args" : ""));
	for (size_t i = 0; fx->has_concrete_args && i < fx->concrete_arg_count; i++)
		out_values(out, " {}", value_name(text_of_span(fx->concrete_args[i])));
	if (fx->has_concrete_args && fx->concrete_args_null)
		out_line_text(out, " none");
	out_line_end(out);
	out_table_begin(out, &MODULES);
	for (size_t i = 0; i < head_of_list(order, fx->module_count); i++) {
		const struct fx_use *used =
			find(uses, fx->usage_count, fx->modules[i], (struct text){ 0 });

		ADD_ROW(order, value_count(i),
			value_name(text_of_span(fx->module_names[i])),
			value_count(used != NULL ? used->count : 0));
	}
	free(uses);
	end_list(order, fx->module_count);
	out_table_begin(out, &PARAMS);
	for (size_t i = 0; i < head_of_list(order, fx->param_count); i++)
		ADD_ROW(order, value_count(i),
			value_name(text_of_span(fx->param_names[i])));
	end_list(order, fx->param_count);
	if (fx->never_visited_count == 0)
		return true;
	out_line_begin(out, "never used");
	for (size_t i = 0; i < head; i++)
		out_values(out, "{}{}", value_word(i != 0 ? ", " : ""),
			value_name(text_of_span(fx->never_visited[i])));
	if (head < fx->never_visited_count)
		out_line_text(out, "%s%zu more", head != 0 ? ", and " : "",
			fx->never_visited_count - head);
	out_line_end(out);
	return true;
}

static struct text write_name(
	const struct orders *order, uint32_t name, char *buffer, size_t room)
{
	size_t size = fsdp_name_write(order->checkpoint, name, buffer, room);

	return (struct text){ buffer, size < room ? size : room };
}

static const struct table FLATS = TEXT_TABLE({ "unit" }, NUMBERS("in flat"),
	NUMBERS("first use"), { "parameter" }, { "note" });

/* The flat parameters of a plan: their parameters in the order there, and the order of
 * their first use. */
static bool show_flats(struct orders *order, const struct fsdp_fx_order *fx)
{
	const struct fsdp_checkpoint *checkpoint = order->checkpoint;
	struct fx_use *used = calloc(fx->param_count + 1, sizeof *used);
	char unit_room[1024], room[4096];

	if (used == NULL)
		return false;
	for (size_t i = 0; i < fx->param_count; i++)
		used[i] = (struct fx_use){ 0, text_of_span(fx->param_names[i]), i };
	qsort(used, fx->param_count, sizeof *used, compare_found);
	out_table_begin(order->run->out, &FLATS);
	for (uint32_t i = 0; i < fsdp_unit_count(checkpoint); i++) {
		struct text unit = write_name(order,
			fsdp_module(checkpoint, fsdp_unit(checkpoint, i).module).name,
			unit_room, sizeof unit_room);
		size_t latest = 0, place = 0;
		struct fsdp_flat flat;

		if (!fsdp_unit_flat(checkpoint, i, &flat))
			continue;
		for (uint32_t k = 0; k < flat.entry_count; k++) {
			struct fsdp_flat_entry entry =
				fsdp_flat_entry(checkpoint, &flat, k);

			if (entry.fqn == FSDP_NONE)
				continue;
			struct text name =
				write_name(order, entry.fqn, room, sizeof room);
			const struct fx_use *found = find(used, fx->param_count, 0, name);

			ADD_ROW(order,
				value_name(unit.size != 0 ? unit : text_of("(root)")),
				value_count(place++),
				found != NULL ? value_count(found->count)
					      : value_absent(),
				value_name(name),
				value_word(found == NULL ? "never used"
					   : found->count < latest
						   ? "used before a preceding one"
						   : ""));
			if (found != NULL && found->count > latest)
				latest = found->count;
		}
	}
	out_table_end(order->run->out);
	free(used);
	return true;
}

/* ---- handles: text ---- */

static const struct table HANDLES =
	TEXT_TABLE(NUMBERS("#"), { "unit" }, NUMBERS("post-forward"), { "prefetches" });

static bool show_handles(struct orders *order, const struct fsdp_exec_order *recorded)
{
	const struct fsdp_order_snapshot *first = &recorded->snapshots[0];
	const struct fsdp_prefetch *forward = NULL;
	int64_t *pre = calloc(recorded->handle_count + 1, 2 * sizeof *pre);
	int64_t *post = pre != NULL ? pre + recorded->handle_count : NULL;

	if (pre == NULL)
		return false;
	fsdp_order_places(recorded, first, pre, post);
	for (size_t i = 0; i < recorded->prefetch_count && forward == NULL; i++)
		if (!recorded->prefetches[i].backward &&
			recorded->prefetches[i].limit == 1)
			forward = &recorded->prefetches[i];
	out_table_begin(order->run->out, &HANDLES);
	for (size_t i = 0; i < head_of_list(order, first->pre_count); i++) {
		int64_t at = first->pre[i];
		const struct fsdp_handle *next = order_handle(recorded,
			forward != NULL ? fsdp_order_target(first, forward, pre[at])
					: FSDP_ABSENT);

		ADD_ROW(order, value_count(i), name_of(order_handle(recorded, at)),
			post[at] == FSDP_ABSENT ? value_absent()
						: value_integer(post[at]),
			next != NULL ? name_of(next) : value_absent());
	}
	end_list(order, first->pre_count);
	free(pre);
	return true;
}

/* One iteration of a lane: from IDLE to IDLE. Returns its end. The end of a backward
 * is called when the next iteration is counted already. */
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
	bool same = a_end - a == b_end - b;

	for (; same && a < a_end; a++, b++)
		same = lane->changes[a].training == lane->changes[b].training &&
		       lane->changes[a].handle == lane->changes[b].handle &&
		       lane->changes[a].problem == lane->changes[b].problem;
	return same;
}

/* H from IDLE to IDLE as one step, prefetches in brackets, a mark at a problem. False:
 * nothing to write. */
static bool write_round(
	struct writer *to, const struct fsdp_state_lane *lane, size_t at, size_t end)
{
	unsigned before = at != 0 ? lane->changes[at - 1].handle : 0;
	const char *gap = to->size != 0 ? "; " : "";
	bool any = false;

	for (; at < end; at++) {
		const struct fsdp_state_change *change = &lane->changes[at];

		if (change->handle != before && change->handle != 0) {
			writer_text(to, !any ? gap : before == 0 ? " \xc2\xb7 " : " ");
			writer_text(to, change->prefetch ? "(" : "");
			writer_text(to, fsdp_handle_state_name(change->handle));
			writer_text(to, change->prefetch ? ")" : "");
			writer_text(to, change->problem ? "!" : "");
			any = true;
		}
		before = change->handle;
	}
	return any;
}

/* False: out of memory. */
static bool write_lane(struct writer *to, const struct fsdp_state_lane *lane)
{
	for (size_t at = 0; at < lane->change_count;) {
		size_t end = end_of_round(lane, at), next = end, times = 1;

		while (next < lane->change_count &&
			same_round(lane, at, end, next, end_of_round(lane, next))) {
			next = end_of_round(lane, next);
			times++;
		}
		if (write_round(to, lane, at, end) && times > 1) {
			writer_text(to, "  x");
			writer_count(to, times);
			writer_text(to, " iterations");
		}
		at = next;
	}
	if (lane->last_training != 0 || lane->last_handle != 0) {
		writer_text(to, to->size != 0 ? ", ends in (" : "ends in (");
		writer_text(to, fsdp_training_state_name(lane->last_training));
		writer_text(to, ", ");
		writer_text(to, fsdp_handle_state_name(lane->last_handle));
		writer_text(to, ")");
	}
	return to->error == 0;
}

static const struct table LANES = TEXT_TABLE(NUMBERS("#"), { "unit" },
	NUMBERS("forward and backward"), NUMBERS("prefetches"), { "states" });

static bool show_lanes(struct orders *order, const struct fsdp_exec_order *recorded)
{
	struct writer states;
	bool good;

	if (recorded->lanes == NULL)
		return true;
	good = writer_init(&states, NULL);
	out_table_begin(order->run->out, &LANES);
	for (size_t i = 0; good && i < head_of_list(order, recorded->handle_count); i++) {
		const struct fsdp_state_lane *lane = &recorded->lanes[i];

		states.size = 0;
		good = write_lane(&states, lane);
		if (good)
			ADD_ROW(order, value_integer(lane->unit->id), name_of(lane->unit),
				value_count(lane->training_counts[1]),
				value_count(lane->prefetches),
				value_text((struct text){ states.data, states.size }));
	}
	out_table_end(order->run->out);
	writer_done(&states);
	return good;
}

/* Ranks that do the same are shown once; each recording is compared with the first of the
 * few blocks before it. */
static bool show_blocks(struct orders *order)
{
	enum { MOST_BLOCKS = 16 };
	size_t *block = calloc(order->count + 1, sizeof *block), firsts[MOST_BLOCKS];
	int64_t *ranks = calloc(order->count + 1, sizeof *ranks);
	bool good = block != NULL && ranks != NULL;
	const struct fsdp_recording *one;
	size_t blocks = 0;

	for (size_t i = 0, j; good && (one = order_by_rank(order, i)) != NULL; i++) {
		for (j = 0; one->order != NULL && j < blocks &&
			    !fsdp_exec_order_equal(
				    order_by_rank(order, firsts[j])->order, one->order);)
			j++;
		if (one->order != NULL && j == blocks && blocks < MOST_BLOCKS)
			firsts[blocks++] = i;
		block[i] = j;
	}
	for (size_t i = 0; good && (one = order_by_rank(order, i)) != NULL; i++) {
		bool alone = block[i] == MOST_BLOCKS;
		size_t count = 0;
		char text[256];

		if (one->order == NULL || (!alone && firsts[block[i]] != i))
			continue;
		ranks[count++] = one->rank;
		for (size_t k = i + 1; !alone && k < order->count; k++)
			if (block[k] == block[i] &&
				order_by_rank(order, k)->order != NULL)
				ranks[count++] = order_by_rank(order, k)->rank;
		const struct fsdp_exec_order *recorded = one->order;
		/* Each has a snapshot at its end; mostly nothing follows the last one. */
		size_t last = recorded->snapshot_count - 1;
		bool used = recorded->forward_count != 0 &&
			    recorded->forwards[recorded->forward_count - 1].iter ==
				    recorded->snapshots[last].iter;
		order_put_ranks(ranks, count, text, sizeof text);
		out_values_line(order->run->out, NULL,
			"rank{} {}: {}{} unit{s}, {} iteration{s}",
			value_word(count == 1 ? "" : "s"), value_word(text),
			value_word(count == 1 ? "" : "same order, "),
			value_count(recorded->handle_count),
			value_count(used || last == 0 ? last + 1 : last));
		good = show_handles(order, recorded) && show_lanes(order, recorded);
	}
	free(block);
	free(ranks);
	return good;
}

/* ---- where ranks diverge ---- */

static const struct table GROUPS = TEXT_TABLE(NUMBERS("ranks"), { "unit" });

static void show_first_diff(struct orders *order)
{
	const struct fsdp_first_diff *diff =
		fsdp_recordings_first_diff(order->recordings);
	struct out *out = order->run->out;
	char ranks[256];

	if (!diff->found)
		return;
	out_line_begin(out, NULL);
	for (size_t i = 0; i < diff->group_count; i++) {
		order_put_ranks(diff->groups[i].ranks, diff->groups[i].rank_count, ranks,
			sizeof ranks);
		out_line_text(out, "%s%s %s",
			i == 0                       ? ""
			: i + 1 == diff->group_count ? " and "
						     : ", ",
			diff->groups[i].rank_count > 1 ? "ranks" : "rank", ranks);
	}
	out_values(out, " diverge at position {} of iteration {}",
		value_count(diff->position), value_count(diff->iteration));
	out_line_end(out);
	out_table_begin(out, &GROUPS);
	for (size_t i = 0; i < diff->group_count; i++) {
		order_put_ranks(diff->groups[i].ranks, diff->groups[i].rank_count, ranks,
			sizeof ranks);
		ADD_ROW(order, value_word(ranks),
			diff->groups[i].handle != FSDP_ABSENT
				? name_of(&diff->groups[i].unit)
				: value_name(text_of("(stops here)")));
	}
	out_table_end(out);
}

static bool show_text(struct orders *order)
{
	size_t count = fsdp_recordings_run_count(order->recordings);
	bool good = true;

	if (fsdp_recordings_flight(order->recordings) != NULL)
		return order_show_flight(order);
	for (size_t i = 0; good && i < count; i++) {
		struct orders run = order_run(order, i);

		if (count > 1)
			recordings_show_run(run.run->out, run.recordings, i + 1);
		for (size_t k = 0; k < run.count && !run.options->first_diff; k++) {
			const struct fsdp_fx_order *fx =
				fsdp_recording(run.recordings, k)->fx;

			if (fx != NULL)
				good = good && show_fx(&run, fx);
			if (fx != NULL && run.checkpoint != NULL)
				good = good && show_flats(&run, fx);
		}
		if (!run.options->first_diff)
			good = good && show_blocks(&run);
		show_first_diff(&run);
	}
	return good;
}

/* ---- the command ---- */

static bool is_answerable(struct orders *order)
{
	bool joined = fsdp_recordings_flight(order->recordings) != NULL;

	for (size_t i = 0; i < order->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(order->recordings, i);
		bool memory = one->memory != NULL;
		char hint[512];

		if (!memory &&
			(one->kind == FSDP_RECORDING_WATCHDOG || one->flight != NULL))
			continue;
		snprintf(hint, sizeof hint, "fsdp-inspect replay %s%s",
			memory ? "--memory " : "", one->path);
		if (memory || (one->fx == NULL && one->order == NULL))
			return !refuse(order->run, hint,
				memory ? "%s is a snapshot of CUDA memory, and records no order"
				       : "%s records times, no order",
				one->path);
		if (joined)
			return !refuse(order->run,
				"give recordings of one kind at a time",
				"%s is neither a dump of the Flight Recorder nor a log of failed collectives, as others are",
				one->path);
	}
	return true;
}

static int status_of(struct orders *order)
{
	int status = STATUS_GOOD;
	bool warned = false;

	if (fsdp_recordings_flight(order->recordings) != NULL)
		return order_check_flight(order);
	for (size_t i = 0; i < order->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(order->recordings, i);

		if (one->truncated || one->bad_line_count != 0)
			status = status_worse(status, STATUS_PARTIAL);
		warned |= one->order != NULL && (one->order->warning_count != 0 ||
							one->order->problem_count != 0);
	}
	for (size_t i = 0; i < fsdp_recordings_run_count(order->recordings); i++) {
		struct orders run = order_run(order, i);

		if (order_parts(&run))
			status = status_worse(status, STATUS_BAD);
	}
	return order->options->strict && warned ? status_worse(status, STATUS_BAD)
						: status;
}

static bool prepare(struct run *run, struct fsdp_recording_options *options)
{
	const struct order_options *order = run->options;

	options->kinds = 1u << FSDP_RECORDING_FX_ORDER | 1u << FSDP_RECORDING_EXEC_ORDER |
			 1u << FSDP_RECORDING_FLIGHT | 1u << FSDP_RECORDING_WATCHDOG;
	return recordings_rank_regex(run, order->rank_regex, options, &run->prepared);
}

static bool run_order(struct run *run, struct fsdp_error **ret_error)
{
	const struct fsdp_options opens = run_opens(run);
	struct orders order = { .run = run,
		.options = run->options,
		.recordings = run->recordings,
		.count = fsdp_recording_count(run->recordings) };
	bool good, has_flats = order.options->names == NULL;
	struct fsdp_flat flat;

	if (!is_answerable(&order))
		return true;
	if (order.options->names != NULL &&
		!fsdp_checkpoint_open(
			&order.options->names, 1, &opens, &order.checkpoint, ret_error))
		return false;
	for (uint32_t i = 0; !has_flats && i < fsdp_unit_count(order.checkpoint); i++)
		has_flats = fsdp_unit_flat(order.checkpoint, i, &flat);
	if (!has_flats)
		run_note(run, "%s has no flat parameter: only FSDP1 makes them",
			order.options->names);
	run_begin(run, status_of(&order));
	good = show_text(&order);
	good = order_put_data(&order) && good;
	fsdp_checkpoint_free(order.checkpoint);
	return good;
}

const struct command command_order = {
	.name = "order",
	.group = GROUP_TRACE,
	.summary = "show execution order and where ranks diverge",
	.synopsis =
		"[--first-diff] [--names=CHECKPOINT] [--strict] [--head=N] [--rank-regex=RE] TRACE...",
	.examples = { "order nccl_trace_rank_*", "order model.fx.jsonl",
		"order --first-diff rank*.order.jsonl" },
	.exit_1 = "the ranks differ or hang, or with --strict PyTorch would warn",
	.options = OPTIONS,
	.selectors = (const struct option_row *const[]){ select_columns, NULL },
	.shapes = SHAPE_TABLE,
	.answer = &order_answer,
	.output = "text",
	.inputs = INPUTS_RECORDINGS,
	.options_size = sizeof(struct order_options),
	.prepare = prepare,
	.release = rank_pattern_free,
	.run = run_order,
};
