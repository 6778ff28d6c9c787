/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows in which order modules and units were used, and where ranks diverge, for people
 * and for programs. The library replays the recordings.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "args/select.h"
#include "commands/order-answer.h"
#include "shared/recordings.h"
#include "render/writer.h"

/* ---- recordings, and the runs that they are of ---- */

/* By its index; NULL: none. */
static const struct fsdp_handle *handle_at(
	const struct fsdp_exec_order *order, int64_t index)
{
	return index >= 0 && (uint64_t)index < order->handle_count
		       ? &order->handles[index]
		       : NULL;
}

/* Two recordings of one rank are of two runs: those of one run. */
static struct orders orders_of_run(const struct orders *order, size_t nth)
{
	struct orders run = *order;

	run.recordings = fsdp_recordings_run(order->recordings, nth);
	run.count = fsdp_recording_count(run.recordings);
	return run;
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
		.help = "print only the first divergence, in any iteration" },
	{ "names", 0, OPTION_TEXT, "CHECKPOINT", AT(names),
		.help = "compare with the FlatParameters of this checkpoint or plan" },
	{ "rank-regex", 0, OPTION_TEXT, "RE", AT(rank_regex),
		.help = "read ranks of dumps from paths with this expression" },
	{ "strict", 0, OPTION_FLAG, NULL, AT(strict),
		.help = "exit with 1 if PyTorch would warn or reject a state" },
	{ "head", 0, OPTION_INTEGER, "N", AT(head), NULL, 0, INT64_MAX,
		.help = "print the first N lines of each list" },
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

#define ADD_ROW(order, ...) \
	out_row((order)->run->out, (const struct value[]){ __VA_ARGS__ })

static struct value name_of(const struct fsdp_handle *handle)
{
	return value_name(text_of_span(fsdp_handle_name(handle)));
}

/* ---- fx: text ---- */

static const struct table PARAMS = TEXT_TABLE(NUMBERS("#"), { "parameter" });

static const struct table MODULES =
	TEXT_TABLE(NUMBERS("#"), { "module" }, NUMBERS("uses"));

static void show_fx(struct orders *order, const struct fsdp_fx_order *fx)
{
	size_t head = head_of_list(order, fx->never_visited_count);
	struct out *out = order->run->out;

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
	for (size_t i = 0; i < head_of_list(order, fx->module_count); i++)
		ADD_ROW(order, value_count(i),
			value_name(text_of_span(fx->module_names[i])),
			value_count(fx->module_uses[i]));
	end_list(order, fx->module_count);
	out_table_begin(out, &PARAMS);
	for (size_t i = 0; i < head_of_list(order, fx->param_count); i++)
		ADD_ROW(order, value_count(i),
			value_name(text_of_span(fx->param_names[i])));
	end_list(order, fx->param_count);
	if (fx->never_visited_count == 0)
		return;
	out_line_begin(out, "never used");
	for (size_t i = 0; i < head; i++)
		out_values(out, "{}{}", value_word(i != 0 ? ", " : ""),
			value_name(text_of_span(fx->never_visited[i])));
	if (head < fx->never_visited_count)
		out_line_text(out, "%s%zu more", head != 0 ? ", and " : "",
			fx->never_visited_count - head);
	out_line_end(out);
}

/* A parameter with its place in the order of first use; sorted to be found. */
struct first_use {
	struct text name;
	size_t place;
};

static int compare_names(const void *a, const void *b)
{
	const struct first_use *left = a, *right = b;

	return text_compare(left->name, right->name);
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
static void show_flats(struct orders *order, const struct fsdp_fx_order *fx)
{
	const struct fsdp_checkpoint *checkpoint = order->checkpoint;
	struct first_use *used = run_memory(order->run, fx->param_count, sizeof *used);
	char unit_room[1024], room[4096];

	for (size_t i = 0; i < fx->param_count; i++)
		used[i] = (struct first_use){ text_of_span(fx->param_names[i]), i };
	qsort(used, fx->param_count, sizeof *used, compare_names);
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
			struct first_use wanted = { write_name(
				order, entry.fqn, room, sizeof room) };
			const struct first_use *found = bsearch(&wanted, used,
				fx->param_count, sizeof *used, compare_names);

			ADD_ROW(order,
				value_name(unit.size != 0 ? unit : text_of("(root)")),
				value_count(place++),
				found != NULL ? value_count(found->place)
					      : value_absent(),
				value_name(wanted.name),
				value_word(found == NULL ? "never used"
					   : found->place < latest
						   ? "used before a preceding one"
						   : ""));
			if (found != NULL && found->place > latest)
				latest = found->place;
		}
	}
	out_table_end(order->run->out);
}

/* ---- handles: text ---- */

static const struct table HANDLES =
	TEXT_TABLE(NUMBERS("#"), { "unit" }, NUMBERS("post-forward"), { "prefetches" });

static void show_handles(struct orders *order, const struct fsdp_exec_order *recorded)
{
	const struct fsdp_order_snapshot *first = &recorded->snapshots[0];
	const struct fsdp_prefetch *forward = NULL;
	int64_t *pre = order->places, *post = pre + recorded->handle_count;

	fsdp_order_places(recorded, first, pre, post);
	for (size_t i = 0; i < recorded->prefetch_count && forward == NULL; i++)
		if (!recorded->prefetches[i].backward &&
			recorded->prefetches[i].limit == 1)
			forward = &recorded->prefetches[i];
	out_table_begin(order->run->out, &HANDLES);
	for (size_t i = 0; i < head_of_list(order, first->pre_count); i++) {
		int64_t at = first->pre[i];
		const struct fsdp_handle *next = handle_at(recorded,
			forward != NULL ? fsdp_order_target(first, forward, pre[at])
					: FSDP_ABSENT);

		ADD_ROW(order, value_count(i), name_of(handle_at(recorded, at)),
			post[at] == FSDP_ABSENT ? value_absent()
						: value_integer(post[at]),
			next != NULL ? name_of(next) : value_absent());
	}
	end_list(order, first->pre_count);
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

static void write_lane(struct writer *to, const struct fsdp_state_lane *lane)
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
}

static const struct table LANES = TEXT_TABLE(NUMBERS("#"), { "unit" },
	NUMBERS("forward and backward"), NUMBERS("prefetches"), { "states" });

static void show_lanes(struct orders *order, const struct fsdp_exec_order *recorded)
{
	struct writer *states = order->words;

	if (recorded->lanes == NULL)
		return;
	out_table_begin(order->run->out, &LANES);
	for (size_t i = 0; i < head_of_list(order, recorded->handle_count); i++) {
		const struct fsdp_state_lane *lane = &recorded->lanes[i];

		states->size = 0;
		write_lane(states, lane);
		ADD_ROW(order, value_integer(lane->unit->id), name_of(lane->unit),
			value_count(lane->training_counts[1]),
			value_count(lane->prefetches),
			value_text((struct text){ states->data, states->size }));
	}
	out_table_end(order->run->out);
}

/* Whether the tables, which are of the first iteration, are equal. */
static bool starts_equal(
	const struct fsdp_exec_order *first, const struct fsdp_exec_order *other)
{
	struct fsdp_exec_order a = *first, b = *other;

	a.forward_count = b.forward_count = 0;
	a.snapshot_count = b.snapshot_count = 1;
	return fsdp_exec_order_equal(&a, &b);
}

/* Ranks that do the same are shown once, as far as there are few different ones. */
static void show_blocks(struct orders *order)
{
	enum { MOST_BLOCKS = 16 };
	bool *shown = run_memory(order->run, order->count, sizeof *shown);
	int64_t *ranks = run_memory(order->run, order->count, sizeof *ranks);
	const struct fsdp_recording *one, *other;
	const struct fsdp_exec_order *first = NULL;
	char first_ranks[256] = "";
	size_t blocks = 0;

	for (size_t i = 0; i < order->count; i++) {
		size_t count = 0;
		char text[256];

		one = fsdp_recording_by_rank(order->recordings, i);
		if (one->order == NULL || shown[i])
			continue;
		ranks[count++] = one->rank;
		for (size_t k = i + 1; blocks < MOST_BLOCKS && k < order->count; k++) {
			other = fsdp_recording_by_rank(order->recordings, k);
			if (shown[k] || other->order == NULL ||
				!fsdp_exec_order_equal(one->order, other->order))
				continue;
			shown[k] = true;
			ranks[count++] = other->rank;
		}
		blocks++;
		const struct fsdp_exec_order *recorded = one->order;
		/* Each has a snapshot at its end; mostly nothing follows the last one. */
		size_t last = recorded->snapshot_count - 1;
		bool used = recorded->forward_count != 0 &&
			    recorded->forwards[recorded->forward_count - 1].iter ==
				    recorded->snapshots[last].iter;
		order_put_ranks(ranks, count, text, sizeof text);
		bool is_shown = first != NULL && starts_equal(first, recorded);
		out_values_line(order->run->out, NULL,
			"rank{} {}: {}{} unit{s}, {} iteration{s}[; first iteration as on rank{} {}]",
			value_word(count == 1 ? "" : "s"), value_word(text),
			value_word(count == 1 ? "" : "same order, "),
			value_count(recorded->handle_count),
			value_count(used || last == 0 ? last + 1 : last),
			is_shown ? value_word(
					   strpbrk(first_ranks, "-,") != NULL ? "s" : "")
				 : value_absent(),
			value_word(first_ranks));
		if (first == NULL) {
			first = recorded;
			snprintf(first_ranks, sizeof first_ranks, "%s", text);
		}
		if (is_shown)
			continue;
		show_handles(order, recorded);
		show_lanes(order, recorded);
	}
}

/* ---- where ranks diverge ---- */

static const struct table GROUPS = TEXT_TABLE(NUMBERS("ranks"), { "unit" });

static void show_first_diff(struct orders *order)
{
	const struct fsdp_first_diff *diff =
		fsdp_recordings_summary(order->recordings)->first_diff;
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
	out_values(out, " diverge at position {} of iteration {} (both count from 0)",
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

static void show_text(struct orders *order)
{
	size_t count = fsdp_recordings_run_count(order->recordings);

	for (size_t i = 0; i < count; i++) {
		struct orders run = orders_of_run(order, i);

		if (count > 1)
			recordings_show_run(run.run->out, run.recordings, i + 1);
		for (size_t k = 0; k < run.count && !run.options->first_diff; k++) {
			const struct fsdp_fx_order *fx =
				fsdp_recording(run.recordings, k)->fx;

			if (fx != NULL)
				show_fx(&run, fx);
			if (fx != NULL && run.checkpoint != NULL)
				show_flats(&run, fx);
		}
		if (!run.options->first_diff)
			show_blocks(&run);
		show_first_diff(&run);
	}
}

/* ---- fx: data ---- */

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
		OR_NULL("Reason why tracing stopped early; null if it did not.") },
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
	{ "visited_params", LIST_AT(FX, visited, param_count, record_integers),
		ABOUT("The same parameters in ascending order.") },
	{ "never_visited_fqns",
		LIST_AT(FX, never_visited, never_visited_count, record_texts),
		ABOUT("Names of the parameters that were not used.") },
	{ "curr_module", INTEGER_AT(FX, current),
		ABOUT("The module in which tracing ended.") });

/* ---- handles: data ---- */

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
	int64_t *pre = ((const struct orders *)of.context)->places,
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
	{ "handle", COUNT_AT(LANE, handle), ALWAYS("Its position in `handles`.") },
	{ NULL, POINTED_AT(LANE, unit, fqns_record), .always = true },
	{ "lane", LIST_AT(LANE, changes, change_count, change_record),
		ALWAYS("Changes: line, state of training, state of the handle.") },
	{ "counts", OBJECT(counts_record),
		ALWAYS("Number of entries into each state; states that were never entered are omitted.") },
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
		ALWAYS("Rule of PyTorch that it breaks.") },
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
		OR_NULL("Exception of PyTorch on every rank because ranks differ; null for none, or if PyTorch does not compare them.") },
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
		ALWAYS("Kind of the recording.") },
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
	for (size_t i = 0; (one = fsdp_recording_by_rank(order->recordings, i)) != NULL;
		i++) {
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
				handle_at(one->order, forward->handle);
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

/* ---- where ranks diverge: data ---- */

#define DIVERGENCE struct fsdp_divergence
HAS(is_apart, DIVERGENCE, !one->agree)
static const struct record divergence_record = OBJECT_RECORD(DIVERGENCE, "divergence",
	"PyTorch's own comparison of ranks, in the first iteration.",
	{ "agree", BOOL_AT(DIVERGENCE, agree),
		ALWAYS("True when all ranks do the same.") },
	{ "position", INTEGER_AT(DIVERGENCE, position),
		OR_NULL("First position at which two ranks differ.") },
	{ "ranks", ARRAY_AT(DIVERGENCE, ranks, record_integers), .has = is_apart,
		ABOUT("These two ranks.") },
	{ "handles", ARRAY_AT(DIVERGENCE, handles, record_integers_or_null),
		.has = is_apart,
		ABOUT("The handle that each of them uses there; null when its list has ended.") },
	{ "message", TEXT_AT(DIVERGENCE, message), .has = is_apart,
		ABOUT("Message of PyTorch.") });

#define GROUP struct fsdp_order_group
static const struct record group_record = RECORD_OF(RECORD_OBJECT, GROUP,
	{ "ranks", LIST_AT(GROUP, ranks, rank_count, record_integers),
		ALWAYS("These ranks.") },
	{ "handle", INTEGER_AT(GROUP, handle),
		OR_NULL("The handle that they use there; null when their lists have ended.") },
	{ NULL, FIELDS_AT(GROUP, unit, fqns_record) });

#define DIFF struct fsdp_first_diff
static const struct record first_diff_record = OBJECT_RECORD(DIFF, "first_diff",
	"First position at which ranks differ, in any iteration.",
	{ "iteration", COUNT_AT(DIFF, iteration),
		ALWAYS("Number of that iteration, from 0.") },
	{ "position", COUNT_AT(DIFF, position), ALWAYS("Position in it, from 0.") },
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
static const struct record order_answer = OBJECT_RECORD(DATA, NULL, "The answer.",
	{ "recordings", EACH_ITEM(DATA, count, each_recording, recording_record),
		ALWAYS("In the order of the arguments.") },
	{ "divergence", OBJECT_AT(DATA, divergence, divergence_record),
		.has = has_no_dumps },
	{ "collectives", OBJECT_AT(DATA, flight, order_flight_record), .has = has_dumps },
	{ NULL, FIELDS(request_record), .has = has_first_diff_option });

/* ---- the command ---- */

/* Ends the run where a recording has no order, or is of another kind than the others. */
static void must_have_order(const struct orders *order)
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
			run_refuse(order->run, hint,
				memory ? "%s is a snapshot of CUDA memory, and records no order"
				       : "%s records times, no order",
				one->path);
		if (joined)
			run_refuse(order->run, "give recordings of one kind at a time",
				"%s is neither a dump of the Flight Recorder nor a log of failed collectives, as others are",
				one->path);
	}
}

/* Finds the first run in which ranks diverge. Returns the status. */
static int check_orders(struct orders *order)
{
	int status = STATUS_GOOD;
	bool warned = false, parted = false;

	for (size_t i = 0; i < order->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(order->recordings, i);

		if (one->truncated || one->bad_line_count != 0)
			status = STATUS_PARTIAL;
		warned |= one->order != NULL && (one->order->warning_count != 0 ||
							one->order->problem_count != 0);
	}
	for (size_t i = 0; i < fsdp_recordings_run_count(order->recordings); i++) {
		const struct fsdp_summary *said = fsdp_recordings_summary(
			fsdp_recordings_run(order->recordings, i));
		bool parts = !said->divergence->agree || said->first_diff->found;

		if (i == 0 || (parts && !parted)) {
			order->divergence = *said->divergence;
			order->first_diff = *said->first_diff;
		}
		parted |= parts;
	}
	return parted || (order->options->strict && warned) ? STATUS_BAD : status;
}

static bool prepare(struct run *run, struct fsdp_recording_options *options)
{
	const struct order_options *order = run->options;

	options->kinds = 1u << FSDP_RECORDING_FX_ORDER | 1u << FSDP_RECORDING_EXEC_ORDER |
			 1u << FSDP_RECORDING_FLIGHT | 1u << FSDP_RECORDING_WATCHDOG;
	return recordings_rank_regex(run, order->rank_regex, options, &run->prepared);
}

static void run_order(struct run *run)
{
	const struct order_options *options = run->options;
	const struct fsdp_options opens = run_opens(run);
	struct orders order = { .run = run,
		.options = options,
		.recordings = run->recordings,
		.count = fsdp_recording_count(run->recordings),
		.words = run_memory(run, 1, sizeof *order.words) };
	struct subject subject = { &order, &order };
	bool has_flats = options->names == NULL;
	struct fsdp_flat flat;
	size_t most = 0;

	must_have_order(&order);
	if (options->names != NULL) {
		run_must(run, fsdp_checkpoint_open(&options->names, 1, &opens,
				      &order.checkpoint, &run->error));
		run_owns(run, order.checkpoint, release_checkpoint);
	}
	for (uint32_t i = 0; !has_flats && i < fsdp_unit_count(order.checkpoint); i++)
		has_flats = fsdp_unit_flat(order.checkpoint, i, &flat);
	if (!has_flats)
		run_note(run, "%s has no flat parameter: only FSDP1 makes them",
			options->names);
	writer_init(order.words, NULL);
	for (size_t i = 0; i < order.count; i++) {
		const struct fsdp_exec_order *one =
			fsdp_recording(order.recordings, i)->order;

		if (one != NULL && one->handle_count > most)
			most = one->handle_count;
	}
	order.places = run_memory(run, 2 * most, sizeof *order.places);
	if (fsdp_recordings_flight(order.recordings) != NULL) {
		order.flight = *fsdp_recordings_flight(order.recordings);
		run_begin(run, order_check_flight(&order));
		order_show_flight(&order);
		out_fields(run->out, &order_answer, subject);
		order_put_dumps(&order);
	} else {
		run_begin(run, check_orders(&order));
		show_text(&order);
		out_fields(run->out, &order_answer, subject);
		write_uses(&order);
	}
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
	.perform = run_order,
};
