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

/* ---- recordings of handles, and the runs that they are of ---- */

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

struct listing order_run(const struct listing *listing, size_t nth)
{
	struct listing run = *listing;

	run.recordings = fsdp_recordings_run(listing->recordings, nth);
	run.count = fsdp_recording_count(run.recordings);
	return run;
}

bool order_parts(const struct listing *run)
{
	return !fsdp_recordings_divergence(run->recordings)->agree ||
	       fsdp_recordings_first_diff(run->recordings)->found;
}

bool order_begins_group(const struct fsdp_first_diff *diff, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (diff->handles[i] == diff->handles[index])
			return false;
	return true;
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

static struct text name_of(const struct fsdp_handle *handle)
{
	return text_of_span(fsdp_handle_name(handle));
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

static const struct column PARAM_TABLE[] = {
	{ "#", .right = true },
	{ "parameter" },
};

static const struct column MODULE_TABLE[] = {
	{ "#", .right = true },
	{ "module" },
	{ "uses", .right = true },
};

static bool show_fx(struct listing *listing, const struct fsdp_fx_order *fx)
{
	struct out *out = listing->run->out;
	struct fx_use *uses = calloc(fx->usage_count + 1, sizeof *uses);
	static const struct table modules = TEXT_TABLE("modules", MODULE_TABLE);
	static const struct table params = TEXT_TABLE("params", PARAM_TABLE);
	size_t head = head_of_list(listing, fx->never_visited_count);

	if (uses == NULL)
		return false;
	for (size_t i = 0; i < fx->usage_count; i++)
		uses[i] = (struct fx_use){ .id = fx->usages[i].module,
			.count = fx->usages[i].usage_count };
	qsort(uses, fx->usage_count, sizeof *uses, compare_found);
	out_line_begin(out, NULL);
	out_values(out, "{}[, torch {}][, tracer {}]",
		value_name(fx->root.data != NULL ? text_of_span(fx->root)
						 : text_of("(root)")),
		value_name(text_of_span(fx->torch)),
		value_name(text_of_span(fx->tracer)));
	if (fx->has_concrete_args)
		out_line_text(out, ", concrete_args");
	for (size_t i = 0; fx->has_concrete_args && i < fx->concrete_arg_count; i++) {
		out_line_text(out, " ");
		out_line_name(out, text_of_span(fx->concrete_args[i]));
	}
	if (fx->has_concrete_args && fx->concrete_args_null)
		out_line_text(out, " none");
	out_line_end(out);
	out_table_begin(out, &modules);
	for (size_t i = 0; i < head_of_list(listing, fx->module_count); i++) {
		const struct fx_use *used =
			find(uses, fx->usage_count, fx->modules[i], (struct text){ 0 });
		const struct value values[] = { value_count(i),
			value_name(text_of_span(fx->module_names[i])),
			value_count(used != NULL ? used->count : 0) };
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
	for (size_t i = 0; i < head; i++) {
		out_line_text(out, "%s", i != 0 ? ", " : "");
		out_line_name(out, text_of_span(fx->never_visited[i]));
	}
	if (head < fx->never_visited_count)
		out_line_text(out, "%s%zu more", head != 0 ? ", and " : "",
			fx->never_visited_count - head);
	out_line_end(out);
	return true;
}

/* ---- fx: the flat parameters of a plan ---- */

static const struct column FLAT_TABLE[] = {
	{ "unit" },
	{ "in flat", .right = true },
	{ "first use", .right = true },
	{ "parameter" },
	{ "note" },
};

/* Parameters of one flat parameter in their order there, and the order of their first
 * use. */
static void rows_flat(struct listing *listing, const struct fx_use *used, size_t count,
	const struct fsdp_flat *flat, struct text unit)
{
	size_t latest = 0, place = 0;
	char buffer[4096];

	for (uint32_t i = 0; i < flat->entry_count; i++) {
		struct fsdp_flat_entry entry =
			fsdp_flat_entry(listing->checkpoint, flat, i);

		if (entry.fqn == FSDP_NONE)
			continue;
		size_t size = fsdp_name_write(
			listing->checkpoint, entry.fqn, buffer, sizeof buffer);
		struct text name = { buffer,
			size < sizeof buffer ? size : sizeof buffer };
		const struct fx_use *found = find(used, count, 0, name);
		const struct value values[] = { value_name(unit), value_count(place++),
			found != NULL ? value_count(found->count) : value_absent(),
			value_name(name),
			value_word(found == NULL           ? "never used"
				   : found->count < latest ? "used before a preceding one"
							   : "") };

		if (found != NULL && found->count > latest)
			latest = found->count;
		out_row(listing->run->out, values);
	}
}

static bool show_flats(struct listing *listing, const struct fsdp_fx_order *fx)
{
	const struct fsdp_checkpoint *checkpoint = listing->checkpoint;
	static const struct table table = TEXT_TABLE("flats", FLAT_TABLE);
	struct fx_use *used = calloc(fx->param_count + 1, sizeof *used);

	if (used == NULL)
		return false;
	for (size_t i = 0; i < fx->param_count; i++)
		used[i] = (struct fx_use){ 0, text_of_span(fx->param_names[i]), i };
	qsort(used, fx->param_count, sizeof *used, compare_found);
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
		rows_flat(listing, used, fx->param_count, &flat,
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
	{ "post-forward", .right = true },
	{ "prefetches" },
};

static bool show_handle_rows(struct listing *listing, const struct fsdp_exec_order *order)
{
	const struct fsdp_order_snapshot *first = &order->snapshots[0];
	const struct fsdp_prefetch *forward = NULL;
	struct out *out = listing->run->out;
	static const struct table table = TEXT_TABLE("handles", HANDLE_TABLE);

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

/* H from IDLE to IDLE as one step, prefetches in brackets, a mark at a problem. False:
 * nothing to print. */
static bool print_round(FILE *text, const struct fsdp_state_lane *lane, size_t at,
	size_t end, const char *gap)
{
	unsigned before = at != 0 ? lane->changes[at - 1].handle : 0;
	bool any = false;

	for (; at < end; at++) {
		const struct fsdp_state_change *change = &lane->changes[at];
		if (change->handle == before)
			continue;
		if (change->handle != 0)
			fprintf(text, "%s%s%s%s%s",
				!any          ? gap
				: before == 0 ? " \xc2\xb7 "
					      : " ",
				change->prefetch ? "(" : "",
				fsdp_handle_state_name(change->handle),
				change->prefetch ? ")" : "", change->problem ? "!" : "");
		any |= change->handle != 0;
		before = change->handle;
	}
	return any;
}

static const struct column LANE_TABLE[] = {
	{ "#", .right = true },
	{ "unit" },
	{ "forward and backward", .right = true },
	{ "prefetches", .right = true },
	{ "states" },
};

static bool row_lane(
	struct listing *listing, const struct fsdp_exec_order *order, size_t index)
{
	const struct fsdp_state_lane *lane = &order->lanes[index];
	char *states = NULL;
	size_t size = 0;
	FILE *text = open_memstream(&states, &size);

	if (text == NULL)
		return false;
	bool any = false;
	for (size_t at = 0; at < lane->change_count;) {
		size_t end = end_of_round(lane, at), next = end, times = 1;
		while (next < lane->change_count &&
			same_round(lane, at, end, next, end_of_round(lane, next))) {
			next = end_of_round(lane, next);
			times++;
		}
		if (print_round(text, lane, at, end, any ? "; " : "")) {
			any = true;
			if (times > 1)
				fprintf(text, "  x%zu iterations", times);
		}
		at = next;
	}
	if (lane->last_training != 0 || lane->last_handle != 0)
		fprintf(text, "%sends in (%s, %s)", any ? ", " : "",
			fsdp_training_state_name(lane->last_training),
			fsdp_handle_state_name(lane->last_handle));
	bool failed = ferror(text) != 0;
	/* What the last allocation of glibc lacks is reported by the pointer alone. */
	if (fclose(text) != 0 || failed || states == NULL) {
		free(states);
		return false;
	}
	const struct value values[] = { value_integer(order->handles[index].id),
		value_name(name_of(&order->handles[index])),
		value_count(lane->training_counts[1]), value_count(lane->prefetches),
		value_text((struct text){ states, size }) };
	out_row(listing->run->out, values);
	free(states);
	return true;
}

static bool show_lanes(struct listing *listing, const struct fsdp_exec_order *order)
{
	static const struct table table = TEXT_TABLE("lanes", LANE_TABLE);
	bool good = true;

	if (order->lanes == NULL)
		return true;
	out_table_begin(listing->run->out, &table);
	for (size_t i = 0; good && i < head_of_list(listing, order->handle_count); i++)
		good = row_lane(listing, order, i);
	out_table_end(listing->run->out);
	return good;
}

/* ---- ranks that do the same ---- */

/* Each recording is compared with the first of the few blocks before it. */
enum { MOST_BLOCKS = 16 };

/* Ranks that do the same are shown once. */
static bool show_blocks(struct listing *listing)
{
	const struct fsdp_recording **all = calloc(listing->count + 1, sizeof *all);
	size_t *block = calloc(listing->count + 1, sizeof *block), firsts[MOST_BLOCKS];
	int64_t *ranks = calloc(listing->count + 1, sizeof *ranks);
	bool good = all != NULL && block != NULL && ranks != NULL;
	size_t count = 0, blocks = 0;

	for (size_t i = 0, j; good && i < listing->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(listing->recordings,
			fsdp_recording_by_rank(listing->recordings, i));

		if (one->order == NULL)
			continue;
		for (j = 0; j < blocks &&
			    !fsdp_exec_order_equal(all[firsts[j]]->order, one->order);)
			j++;
		if (j == blocks && blocks < MOST_BLOCKS)
			firsts[blocks++] = count;
		block[count] = j;
		all[count++] = one;
	}
	for (size_t i = 0; good && i < count; i++) {
		size_t rank_count = 0;

		if (block[i] < MOST_BLOCKS && firsts[block[i]] != i)
			continue;
		ranks[rank_count++] = all[i]->rank;
		for (size_t k = i + 1; block[i] < MOST_BLOCKS && k < count; k++)
			if (block[k] == block[i])
				ranks[rank_count++] = all[k]->rank;
		const struct fsdp_exec_order *order = all[i]->order;
		/* Each has a snapshot at its end; mostly nothing follows the last one. */
		size_t last = order->snapshot_count - 1;
		bool used = order->forward_count != 0 &&
			    order->forwards[order->forward_count - 1].iter ==
				    order->snapshots[last].iter;
		size_t iterations = used || last == 0 ? last + 1 : last;
		char text[256];
		order_put_ranks(ranks, rank_count, text, sizeof text);
		out_line(listing->run->out, NULL,
			"rank%s %s: %s%zu unit%s, %zu iteration%s",
			rank_count == 1 ? "" : "s", text,
			rank_count == 1 ? "" : "same order, ", order->handle_count,
			order->handle_count == 1 ? "" : "s", iterations,
			iterations == 1 ? "" : "s");
		good = show_handle_rows(listing, order) && show_lanes(listing, order);
	}
	free(all);
	free(block);
	free(ranks);
	return good;
}

/* ---- where ranks diverge ---- */

static void line_ranks(struct listing *listing, const struct fsdp_first_diff *diff,
	size_t index, char *text, size_t room)
{
	int64_t ranks[64];
	size_t count = 0;

	for (size_t i = index; i < diff->count && count < sizeof ranks / sizeof *ranks;
		i++)
		if (diff->handles[i] == diff->handles[index])
			ranks[count++] = order_nth(listing, i)->rank;
	order_put_ranks(ranks, count, text, room);
}

static const struct column GROUP_TABLE[] = {
	{ "ranks", .right = true },
	{ "unit" },
};

static void show_first_diff(struct listing *listing)
{
	const struct fsdp_first_diff *diff =
		fsdp_recordings_first_diff(listing->recordings);
	static const struct table table = TEXT_TABLE("groups", GROUP_TABLE);
	struct out *out = listing->run->out;
	size_t groups = 0, printed = 0;
	char ranks[256];

	for (size_t i = 0; i < diff->count; i++)
		groups += order_begins_group(diff, i);
	if (!diff->found)
		return;
	out_line_begin(out, NULL);
	for (size_t i = 0; i < diff->count; i++) {
		if (!order_begins_group(diff, i))
			continue;
		line_ranks(listing, diff, i, ranks, sizeof ranks);
		out_line_text(out, "%s%s %s",
			printed == 0            ? ""
			: printed + 1 == groups ? " and "
						: ", ",
			strpbrk(ranks, "-,") != NULL ? "ranks" : "rank", ranks);
		printed++;
	}
	out_line_text(out, " diverge at position %" PRIu64 " of iteration %" PRIu64,
		diff->position, diff->iteration);
	out_line_end(out);
	out_table_begin(out, &table);
	for (size_t i = 0; i < diff->count; i++)
		if (order_begins_group(diff, i)) {
			const struct fsdp_handle *handle = order_handle(
				order_nth(listing, i)->order, diff->handles[i]);
			char list[256];
			line_ranks(listing, diff, i, list, sizeof list);
			const struct value values[] = { value_text(text_of(list)),
				value_name(handle != NULL ? name_of(handle)
							  : text_of("(stops here)")) };
			out_row(listing->run->out, values);
		}
	out_table_end(out);
}

static bool show_run(struct listing *listing)
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
	}
	good = good && show_blocks(listing);
	show_first_diff(listing);
	return good;
}

static bool show_text(struct listing *listing)
{
	size_t count = fsdp_recordings_run_count(listing->recordings);
	bool good = true;

	if (fsdp_recordings_flight(listing->recordings) != NULL)
		return order_show_flight(listing);
	for (size_t i = 0; good && i < count; i++) {
		struct listing run = order_run(listing, i);

		if (count > 1)
			recordings_show_run(run.run->out, run.recordings, i + 1);
		good = show_run(&run);
	}
	return good;
}

/* ---- the command ---- */

static bool is_answerable(struct listing *listing)
{
	bool joined = fsdp_recordings_flight(listing->recordings) != NULL;

	for (size_t i = 0; i < listing->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(listing->recordings, i);
		bool memory = one->memory != NULL;
		char hint[512];

		if (!memory &&
			(one->kind == FSDP_RECORDING_WATCHDOG || one->flight != NULL))
			continue;
		if (memory || (one->fx == NULL && one->order == NULL)) {
			snprintf(hint, sizeof hint, "fsdp-inspect replay %s%s",
				memory ? "--memory " : "", one->path);
			refuse(listing->run, hint,
				memory ? "%s is a snapshot of CUDA memory, and records no order"
				       : "%s records times, no order",
				one->path);
			return false;
		}
		if (joined) {
			refuse(listing->run, "give recordings of one kind at a time",
				"%s is neither a dump of the Flight Recorder nor a log of failed collectives, as others are",
				one->path);
			return false;
		}
	}
	return true;
}

static int status_of(struct listing *listing)
{
	int status = STATUS_GOOD;
	bool warned = false;

	if (fsdp_recordings_flight(listing->recordings) != NULL)
		return order_check_flight(listing);
	for (size_t i = 0; i < listing->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(listing->recordings, i);
		if (one->truncated || one->bad_line_count != 0)
			status = status_worse(status, STATUS_PARTIAL);
		if (one->order != NULL)
			warned |= one->order->warning_count != 0 ||
				  one->order->problem_count != 0;
	}
	for (size_t i = 0; i < fsdp_recordings_run_count(listing->recordings); i++) {
		struct listing run = order_run(listing, i);

		if (order_parts(&run))
			status = status_worse(status, STATUS_BAD);
	}
	return listing->options->strict && warned ? status_worse(status, STATUS_BAD)
						  : status;
}

/* The options of reading, while it runs. */
struct order_prepared {
	struct fsdp_options names; /* for the checkpoint of --names */
	void *pattern;
};

static void release(void *context)
{
	struct order_prepared *prepared = context;

	if (prepared != NULL)
		rank_pattern_free(prepared->pattern);
	free(prepared);
}

/* The checkpoint of --names has the limits that the recordings have. */
static bool prepare(struct run *run, struct fsdp_recording_options *options)
{
	const struct order_options *order = run->options;
	struct order_prepared *prepared = calloc(1, sizeof *prepared);

	options->kinds = 1u << FSDP_RECORDING_FX_ORDER | 1u << FSDP_RECORDING_EXEC_ORDER |
			 1u << FSDP_RECORDING_FLIGHT | 1u << FSDP_RECORDING_WATCHDOG;
	run->prepared = prepared;
	if (prepared == NULL) {
		run_failure(run, "memory", NULL, "out of memory");
		return false;
	}
	prepared->names = (struct fsdp_options){ .size = sizeof prepared->names,
		.limits = options->limits,
		.limit_count = options->limit_count,
		.remote = options->remote };
	return recordings_rank_regex(run, order->rank_regex, options, &prepared->pattern);
}

static bool run_order(struct run *run, struct fsdp_error **ret_error)
{
	struct order_prepared *prepared = run->prepared;
	struct listing listing = { .run = run,
		.options = run->options,
		.recordings = run->recordings,
		.count = fsdp_recording_count(run->recordings) };
	bool good;

	if (!is_answerable(&listing))
		return true;
	if (listing.options->names != NULL) {
		if (!fsdp_checkpoint_open(&listing.options->names, 1, &prepared->names,
			    &listing.checkpoint, ret_error))
			return false;
		struct fsdp_flat flat;
		uint32_t i = 0;

		while (i < fsdp_unit_count(listing.checkpoint) &&
			!fsdp_unit_flat(listing.checkpoint, i, &flat))
			i++;
		if (i == fsdp_unit_count(listing.checkpoint))
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
	.release = release,
	.run = run_order,
};
