/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door to recordings: opens each, asks the registry who reads it, has them read side
 * by side, then joins what the ranks say, in order of rank. Knows nothing of what any
 * recording looks like.
 */
#include <stdlib.h>
#include <sys/stat.h>

#include <fsdp/checkpoint.h>
#include <fsdp/trace.h>

#include "base/num.h"
#include "base/pool.h"
#include "trace/event.h"
#include "trace/match.h"

struct fsdp_recordings {
	struct fsdp_limits limits;
	const struct fsdp_recording_options *options; /* while reading */
	const char *const *paths;
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_reading *readings; /* in the order of the arguments */
	struct fsdp_recording **by_rank;
	size_t count;
	struct fsdp_type_times *types;
	size_t type_count;
	struct fsdp_matching matching;
	struct fsdp_timeline timeline;
	struct fsdp_divergence divergence;
	struct fsdp_first_diff diff;
	struct fsdp_findings findings; /* about all of them */
};

static const char *const kind_names[FSDP_RECORDING_KIND_COUNT] = {
	[FSDP_RECORDING_PROFILE] = "simple_profiler",
	[FSDP_RECORDING_LOG] = "log",
	[FSDP_RECORDING_KINETO] = "kineto",
	[FSDP_RECORDING_FX_ORDER] = "fx_exec_order",
	[FSDP_RECORDING_EXEC_ORDER] = "exec_order",
};

const char *fsdp_recording_kind_name(enum fsdp_recording_kind kind)
{
	return kind < FSDP_RECORDING_KIND_COUNT ? kind_names[kind] : NULL;
}

const char *fsdp_rank_from_name(enum fsdp_rank_from from)
{
	switch (from) {
	case FSDP_RANK_FROM_FILE:
		return "distributedInfo";
	case FSDP_RANK_FROM_REGEX:
		return "rank-regex";
	case FSDP_RANK_FROM_NAME:
		return "name";
	case FSDP_RANK_FROM_POSITION:
		break;
	}
	return "position";
}

/* ---- ranks ---- */

static bool take_digits(const char *text, int64_t *ret_rank)
{
	int64_t rank = 0;
	if (*text < '0' || *text > '9')
		return false;
	for (; *text >= '0' && *text <= '9'; text++)
		if (rank <= INT32_MAX)
			rank = rank * 10 + (*text - '0');
	*ret_rank = rank;
	return rank <= INT32_MAX;
}

/* rank3, rank-3, rank_3, worker 3, worker3, TP-3: the last one in the name of the file.
 */
static bool rank_of_name(const char *path, int64_t *ret_rank)
{
	static const char *const words[] = { "rank", "worker", "TP-" };
	const char *name = strrchr(path, '/');
	bool found = false;
	for (const char *at = name != NULL ? name + 1 : path; *at != '\0'; at++) {
		for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
			size_t size = strlen(words[i]);
			if (strncmp(at, words[i], size) != 0)
				continue;
			const char *digits = at + size;
			digits += i < 2 &&
				  (*digits == '-' || *digits == '_' || *digits == ' ');
			found |= take_digits(digits, ret_rank);
		}
	}
	return found;
}

static void settle_rank(struct fsdp_reading *reading, size_t index)
{
	const struct fsdp_recording_options *options = reading->options;
	struct fsdp_recording *recording = &reading->recording;
	if (recording->rank != FSDP_ABSENT)
		return;
	recording->rank_from = FSDP_RANK_FROM_REGEX;
	if (options->rank_of != NULL)
		recording->rank = options->rank_of(options->context, recording->path);
	if (recording->rank != FSDP_ABSENT)
		return;
	if (rank_of_name(recording->path, &recording->rank)) {
		recording->rank_from = FSDP_RANK_FROM_NAME;
	} else {
		recording->rank_from = FSDP_RANK_FROM_POSITION;
		recording->rank = (int64_t)index;
	}
	/* Where ranks do not matter, nobody needs to know. */
	if (recording->kind == FSDP_RECORDING_KINETO)
		FSDP_TRACE_FIND(reading, RANK_ASSUMED, "rank %lld is taken from %s",
			(long long)recording->rank,
			recording->rank_from == FSDP_RANK_FROM_NAME
				? "the name of the file"
				: "the place among the arguments");
}

/* ---- what was noticed in one ---- */

static void judge_deviations(struct fsdp_reading *reading)
{
	const struct fsdp_recording *recording = &reading->recording;
	for (size_t i = 0; i < recording->deviation_count; i++) {
		const struct fsdp_tally *one = &recording->deviations[i];
		if (fsdp_span_is(one->name, "gz_cut") ||
			fsdp_span_is(one->name, "trailing_data"))
			continue;
		FSDP_TRACE_FIND(reading, RECORDING_DEVIATES, "%.*s: %llu time%s",
			(int)one->name.size, (const char *)one->name.data,
			(unsigned long long)one->count, one->count == 1 ? "" : "s");
	}
	if (recording->recovered > 0)
		FSDP_TRACE_FIND(reading, RECORDING_DEVIATES,
			"%llu event%s kept although something inside was not JSON",
			(unsigned long long)recording->recovered,
			recording->recovered == 1 ? " was" : "s were");
}

static void judge_trace(struct fsdp_reading *reading)
{
	const struct fsdp_recording *recording = &reading->recording;
	if (recording->truncated)
		FSDP_TRACE_FIND(reading, RECORDING_TRUNCATED,
			"it ends in the middle, after %llu events",
			(unsigned long long)recording->events);
	if (recording->dropped > 0)
		FSDP_TRACE_FIND(reading, EVENTS_DROPPED, "%llu event%s could not be read",
			(unsigned long long)recording->dropped,
			recording->dropped == 1 ? "" : "s");
	judge_deviations(reading);
	if (recording->trailing_data_at != FSDP_ABSENT)
		FSDP_TRACE_FIND(reading, RECORDING_TRAILING_DATA,
			"more bytes follow its end, from byte %lld on",
			(long long)recording->trailing_data_at);
	if (recording->bad_dur > 0)
		FSDP_TRACE_FIND(reading, TIMES_UNUSABLE,
			"%llu event%s without times that can be used",
			(unsigned long long)recording->bad_dur,
			recording->bad_dur == 1 ? "" : "s");
	if (recording->unpaired > 0)
		FSDP_TRACE_FIND(reading, TIMES_UNUSABLE,
			"%llu begin or end without the other",
			(unsigned long long)recording->unpaired);
}

static void judge_lines(struct fsdp_reading *reading)
{
	const struct fsdp_recording *recording = &reading->recording;
	if (recording->truncated)
		FSDP_TRACE_FIND(reading, RECORDING_TRUNCATED,
			"what it is compressed with breaks off");
	for (size_t i = 0; i < recording->bad_line_count; i++)
		FSDP_TRACE_FIND(reading, LINES_SKIPPED, "line %llu cannot be read",
			(unsigned long long)recording->bad_lines[i]);
	if (recording->skipped == 0)
		return;
	fsdp_find(&reading->findings, FSDP_RULE_LINES_SKIPPED,
		FSDP_PLACE(.file = fsdp_span_text(recording->path),
			.severity = FSDP_NOTE + 1),
		"%llu line%s of a kind that is not known here",
		(unsigned long long)recording->skipped,
		recording->skipped == 1 ? "" : "s");
}

static void judge_profile(struct fsdp_reading *reading)
{
	const struct fsdp_recording *recording = &reading->recording;
	for (size_t i = 0; i < recording->problem_count; i++) {
		const struct fsdp_profile_problem *one = &recording->problems[i];
		FSDP_TRACE_FIND(reading, PROFILE_ERROR, "line %llu: %s of %.*s: %s",
			(unsigned long long)one->line, one->kind, (int)one->type.size,
			(const char *)one->type.data, one->message);
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
			"debug level %.*s: PyTorch did not print %zu dump%s; it does at "
			"INFO only (TORCH_DISTRIBUTED_DEBUG=INFO)",
			(int)level.size, (const char *)level.data, recording->dump_count,
			recording->dump_count == 1 ? "" : "s");
	}
}

static void judge_states(struct fsdp_reading *reading)
{
	const struct fsdp_exec_order *order = reading->recording.order;
	for (size_t i = 0; i < order->problem_count; i++) {
		const struct fsdp_state_problem *one = &order->problems[i];
		const struct fsdp_handle *handle = &order->handles[one->handle];
		struct fsdp_span fqn =
			handle->fqn_count != 0 ? handle->fqns[0] : FSDP_SPAN("(none)");
		fsdp_find(&reading->findings, FSDP_RULE_ORDER_STATE_REFUSED,
			FSDP_PLACE(.file = fsdp_span_text(reading->recording.path),
				.rank = (uint32_t)reading->recording.rank,
				.module = handle->module),
			"line %llu: %.*s%s: (%s, %s) becomes (%s, %s): %s%s%.*s",
			(unsigned long long)one->line, (int)fqn.size,
			(const char *)fqn.data, handle->fqn_count > 1 ? ", …" : "",
			fsdp_training_state_name(one->from[0]),
			fsdp_handle_state_name(one->from[1]),
			fsdp_training_state_name(one->to[0]),
			fsdp_handle_state_name(one->to[1]),
			one->error != NULL ? one->error : "",
			one->error != NULL ? ": " : "", (int)one->message.size,
			(const char *)one->message.data);
	}
}

static void judge_order(struct fsdp_reading *reading)
{
	const struct fsdp_recording *recording = &reading->recording;
	const struct fsdp_exec_order *order = recording->order;
	for (size_t i = 0; i < order->warning_count; i++)
		FSDP_TRACE_FIND(reading, ORDER_CHANGED, "line %llu: %.*s",
			(unsigned long long)order->warnings[i].line,
			(int)order->warnings[i].message.size,
			(const char *)order->warnings[i].message.data);
	if (order->reused > 0)
		FSDP_TRACE_FIND(reading, ORDER_REUSED_UNIT,
			"%llu time%s a unit is used again in one forward (reused unit)",
			(unsigned long long)order->reused, order->reused == 1 ? "" : "s");
	if (order->stopped_early > 0)
		FSDP_TRACE_FIND(reading, ORDER_REUSED_UNIT,
			"%llu iteration%s stopped before all units of the first were "
			"used",
			(unsigned long long)order->stopped_early,
			order->stopped_early == 1 ? "" : "s");
	judge_states(reading);
	if (order->unchecked > 0) {
		struct fsdp_span level = recording->debug_level.data != NULL
						 ? recording->debug_level
						 : FSDP_SPAN("OFF");
		FSDP_TRACE_FIND(reading, LEVEL_LEFT_OUT,
			"debug level %.*s: PyTorch did not check %llu forward%s; it does "
			"at DETAIL only (TORCH_DISTRIBUTED_DEBUG=DETAIL)",
			(int)level.size, (const char *)level.data,
			(unsigned long long)order->unchecked,
			order->unchecked == 1 ? "" : "s");
	}
}

static void judge(struct fsdp_reading *reading)
{
	const struct fsdp_recording *recording = &reading->recording;
	if (recording->kind == FSDP_RECORDING_KINETO)
		judge_trace(reading);
	else
		judge_lines(reading);
	judge_profile(reading);
	if (recording->order != NULL)
		judge_order(reading);
	if (recording->fx != NULL && recording->fx->aborted.data != NULL)
		FSDP_TRACE_FIND(reading, ORDER_ABORTED,
			"the tracing broke off with %.*s: the lists are partial",
			(int)recording->fx->aborted.size,
			(const char *)recording->fx->aborted.data);
}

/* ---- reading ---- */

static struct fsdp_span without_mark(struct fsdp_span head)
{
	static const unsigned char mark[] = { 0xef, 0xbb, 0xbf };
	if (head.size >= sizeof mark && memcmp(head.data, mark, sizeof mark) == 0)
		head = fsdp_span(head.data + sizeof mark, head.size - sizeof mark);
	while (head.size != 0 && (head.data[0] == ' ' || head.data[0] == '\t' ||
					 head.data[0] == '\r' || head.data[0] == '\n'))
		head = fsdp_span(head.data + 1, head.size - 1);
	return head;
}

static bool read_stream(struct fsdp_reading *reading)
{
	struct fsdp_span head;
	if (!fsdp_stream_peek(reading->stream, &head, &reading->error))
		return false;
	head = without_mark(head);
	if (head.size == 0)
		head = FSDP_SPAN("\n");
	const struct fsdp_trace_reader *reader = fsdp_trace_reader(head);
	if (reader == NULL)
		return fsdp_fail(&reading->error, FSDP_ERROR_NOT_A_CHECKPOINT, 0,
			"not_json: this is no recording");
	return reader->read(reading);
}

static void read_one(void *context, size_t index)
{
	struct fsdp_recordings *set = context;
	struct fsdp_reading *reading = &set->readings[index];
	struct fsdp_recording_progress *progress = set->options->progress;
	struct fsdp_stream_options options = { .ahead = true, .limits = &set->limits };
	if (progress != NULL) {
		options.read = &progress->read;
		options.stop = &progress->stop;
	}
	if (!fsdp_stream_open(
		    set->paths[index], &options, &reading->stream, &reading->error))
		return;
	if (progress != NULL)
		__atomic_fetch_add(&progress->size, fsdp_stream_size(reading->stream),
			__ATOMIC_RELAXED);
	bool good = read_stream(reading);
	/* What is wrong with half of it does not matter then. */
	if (!good && progress != NULL &&
		__atomic_load_n(&progress->stop, __ATOMIC_RELAXED) != 0) {
		fsdp_error_free(reading->error);
		reading->error = NULL;
		fsdp_fail(&reading->error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN,
			"interrupted before it was read");
	}
	if (good) {
		settle_rank(reading, index);
		judge(reading);
		if (reading->findings.lost)
			fsdp_trace_memory(reading);
	}
	if (reading->error != NULL)
		fsdp_error_add_path(&reading->error, set->paths[index]);
	fsdp_stream_close(reading->stream);
	reading->stream = NULL;
}

static void begin_reading(struct fsdp_recordings *set, size_t index)
{
	struct fsdp_reading *reading = &set->readings[index];
	*reading = (struct fsdp_reading){ .limits = &set->limits,
		.options = set->options,
		.budget = &set->budget,
		.recording = { .path = set->paths[index],
			.rank = FSDP_ABSENT,
			.world_size = FSDP_ABSENT,
			.base_ns = FSDP_ABSENT,
			.first_ts_ns = FSDP_ABSENT,
			.last_end_ns = FSDP_ABSENT,
			.trailing_data_at = FSDP_ABSENT,
			.host_comm_busy_ns = FSDP_ABSENT } };
	fsdp_arena_init_lean(&reading->arena, reading->budget);
	fsdp_findings_init(&reading->findings, &reading->arena, &set->limits);
}

/* ---- joining ---- */

static int compare_ranks(const void *a, const void *b)
{
	const struct fsdp_recording *left = *(struct fsdp_recording *const *)a;
	const struct fsdp_recording *right = *(struct fsdp_recording *const *)b;
	if (left->rank != right->rank)
		return left->rank < right->rank ? -1 : 1;
	return left < right ? -1 : left > right;
}

static const struct fsdp_reading *reading_of(const struct fsdp_recording *recording)
{
	const char *begin = (const char *)recording;
	return (const void *)(begin - offsetof(struct fsdp_reading, recording));
}

/* Types that have names of their own come first, in their order; others as they come. */
struct joined {
	struct fsdp_span name;
	struct fsdp_durations durations;
	enum fsdp_time_type type;
	size_t order;
};

static int compare_joined(const void *a, const void *b)
{
	const struct joined *left = *(struct joined *const *)a;
	const struct joined *right = *(struct joined *const *)b;
	if (left->type != right->type)
		return left->type < right->type ? -1 : 1;
	return left->order < right->order ? -1 : left->order > right->order;
}

static bool join_one(struct fsdp_recordings *set, struct fsdp_names *names,
	struct fsdp_vec *list, const struct fsdp_recording *recording)
{
	const struct fsdp_reading *reading = reading_of(recording);
	for (size_t i = 0; i < recording->type_count; i++) {
		struct fsdp_span name = recording->types[i].name;
		uint32_t id = fsdp_names_child(names, 0, name);
		if (id == FSDP_NONE)
			return false;
		if (id > list->count) {
			struct joined *fresh = fsdp_vec_push(list);
			if (fresh == NULL)
				return false;
			*fresh = (struct joined){ .name = name,
				.type = fsdp_time_type_of(name),
				.order = list->count };
			fsdp_durations_init(&fresh->durations, &set->budget);
		}
		struct joined *joined = fsdp_vec_at(list, id - 1);
		if (!fsdp_durations_join(&joined->durations, &reading->durations[i]))
			return false;
	}
	return true;
}

static bool take_joined(struct fsdp_recordings *set, const struct fsdp_vec *list)
{
	struct joined **order = fsdp_arena_take(
		&set->arena, list->count * sizeof(struct joined *), _Alignof(void *));
	set->types = fsdp_arena_take(&set->arena, list->count * sizeof *set->types,
		_Alignof(struct fsdp_type_times));
	if (order == NULL || set->types == NULL)
		return false;
	for (size_t i = 0; i < list->count; i++)
		order[i] = fsdp_vec_at(list, i);
	qsort(order, list->count, sizeof *order, compare_joined);
	for (size_t i = 0; i < list->count; i++) {
		set->types[i].name = order[i]->name;
		if (!fsdp_durations_times(&order[i]->durations, &set->types[i].times))
			return false;
	}
	set->type_count = list->count;
	return true;
}

/* A single recording says already what all of them say. */
static bool join_types(struct fsdp_recordings *set)
{
	struct fsdp_names names;
	struct fsdp_vec list;
	if (set->count == 1) {
		const struct fsdp_recording *only = set->by_rank[0];
		set->types = fsdp_arena_take(&set->arena,
			only->type_count * sizeof *set->types,
			_Alignof(struct fsdp_type_times));
		if (set->types == NULL)
			return false;
		if (only->type_count != 0)
			memcpy(set->types, only->types,
				only->type_count * sizeof *set->types);
		set->type_count = only->type_count;
		return true;
	}
	fsdp_vec_init(&list, &set->arena, sizeof(struct joined));
	bool good = fsdp_names_init(&names, &set->arena);
	for (size_t i = 0; good && i < set->count; i++)
		good = join_one(set, &names, &list, set->by_rank[i]);
	good = good && take_joined(set, &list);
	for (size_t i = 0; i < list.count; i++)
		fsdp_durations_done(&((struct joined *)fsdp_vec_at(&list, i))->durations);
	return good;
}

static bool join_strips(struct fsdp_recordings *set)
{
	const struct fsdp_strip **strips =
		malloc((set->count + 1) * sizeof(struct fsdp_strip *));
	for (size_t i = 0; strips != NULL && i < set->count; i++)
		strips[i] = &reading_of(set->by_rank[i])->strip;
	bool good = strips != NULL && fsdp_timeline_make(set->by_rank, strips, set->count,
					      &set->arena, &set->timeline);
	free(strips);
	return good;
}

static void judge_ranks(struct fsdp_recordings *set)
{
	struct fsdp_span path = fsdp_span_text(set->paths[0]);
	if (set->matching.stopped != FSDP_ABSENT)
		fsdp_find(&set->findings, FSDP_RULE_MATCHING_STOPPED,
			FSDP_PLACE(.file = path),
			"from collective %lld on the ranks cannot be set against each "
			"other (%s)",
			(long long)set->matching.stopped, set->matching.stopped_why);
	if (!set->divergence.agree)
		fsdp_find(&set->findings, FSDP_RULE_ORDER_RANKS_DIFFER,
			FSDP_PLACE(.file = path), "%.*s",
			(int)set->divergence.message.size,
			(const char *)set->divergence.message.data);
}

static bool join(struct fsdp_recordings *set, struct fsdp_error **ret_error)
{
	set->by_rank = fsdp_arena_take(&set->arena,
		set->count * sizeof(struct fsdp_recording *), _Alignof(void *));
	if (set->by_rank == NULL)
		return fsdp_arena_fail(&set->arena, ret_error);
	for (size_t i = 0; i < set->count; i++)
		set->by_rank[i] = &set->readings[i].recording;
	qsort(set->by_rank, set->count, sizeof *set->by_rank, compare_ranks);
	bool good = join_types(set) && join_strips(set) &&
		    fsdp_match_collectives(
			    set->by_rank, set->count, &set->arena, &set->matching) &&
		    fsdp_match_orders(set->by_rank, set->count, &set->arena,
			    &set->divergence, &set->diff);
	if (good)
		judge_ranks(set);
	return (good && !set->findings.lost) || fsdp_arena_fail(&set->arena, ret_error);
}

/* The first error in the order of the arguments is the one that is told. */
static bool take_error(struct fsdp_recordings *set, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < set->count; i++) {
		if (set->readings[i].error == NULL)
			continue;
		if (ret_error != NULL && *ret_error == NULL) {
			*ret_error = set->readings[i].error;
			set->readings[i].error = NULL;
		}
		return false;
	}
	return true;
}

static bool set_limits(struct fsdp_recordings *set,
	const struct fsdp_recording_options *options, struct fsdp_error **ret_error)
{
	fsdp_limits_init(&set->limits);
	for (size_t i = 0; i < options->limit_count; i++)
		if (!fsdp_limits_set(&set->limits, options->limits[i].name,
			    options->limits[i].value))
			return fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
				"there is no limit called %s", options->limits[i].name);
	return true;
}

/* Bytes of a file as it lies there, however it is compressed; UINT64_MAX: a pipe. */
static uint64_t size_of(const char *path)
{
	struct stat status;
	if (strcmp(path, "-") == 0)
		return UINT64_MAX;
	return stat(path, &status) == 0 && status.st_size > 0 ? (uint64_t)status.st_size
							      : 0;
}

/* What the caller set counts. Otherwise memory follows what is read, for recordings are
 * summed up and not kept: some for the set, some for each of them, and ROOM_FACTOR times
 * their bytes. */
static uint64_t ceiling_of(const struct fsdp_recordings *set)
{
	enum { ROOM = 40 << 20, ROOM_EACH = 8 << 20, ROOM_FACTOR = 10 };
	uint64_t most = fsdp_limit(&set->limits, FSDP_LIMIT_MEMORY), sum = ROOM;
	for (size_t i = 0; i < set->options->limit_count; i++)
		if (strcmp(set->options->limits[i].name, "memory") == 0)
			return most;
	for (size_t i = 0; i < set->count; i++) {
		uint64_t size = size_of(set->paths[i]);
		if (!fsdp_mul(size, ROOM_FACTOR, &size) ||
			!fsdp_add(size, ROOM_EACH, &size) || !fsdp_add(sum, size, &sum))
			return most;
	}
	return fsdp_min(sum, most);
}

bool fsdp_recordings_read(const char *const *paths, size_t count,
	const struct fsdp_recording_options *options,
	struct fsdp_recordings **ret_recordings, struct fsdp_error **ret_error)
{
	static const struct fsdp_recording_options none = { .size = sizeof none };
	struct fsdp_recordings *set = calloc(1, sizeof *set);
	if (set == NULL)
		return fsdp_fail_memory(ret_error);
	set->options = options != NULL ? options : &none;
	set->paths = paths;
	set->count = count;
	set->readings = calloc(count + 1, sizeof *set->readings);
	bool good = set->readings != NULL || fsdp_fail_memory(ret_error);
	good = good && set_limits(set, set->options, ret_error);
	set->budget.ceiling = good ? ceiling_of(set) : 0;
	fsdp_arena_init(&set->arena, &set->budget);
	fsdp_findings_init(&set->findings, &set->arena, &set->limits);
	if (good) {
		for (size_t i = 0; i < count; i++)
			begin_reading(set, i);
		fsdp_pool_run(set->options->jobs, count, read_one, set);
		good = take_error(set, ret_error) && join(set, ret_error);
	}
	if (!good) {
		fsdp_recordings_free(set);
		return false;
	}
	*ret_recordings = set;
	return true;
}

void fsdp_recordings_free(struct fsdp_recordings *set)
{
	if (set == NULL)
		return;
	for (size_t i = 0; set->readings != NULL && i < set->count; i++) {
		struct fsdp_reading *reading = &set->readings[i];
		for (size_t j = 0;
			reading->durations != NULL && j < reading->recording.type_count;
			j++)
			fsdp_durations_done(&reading->durations[j]);
		fsdp_error_free(reading->error);
		fsdp_arena_done(&reading->arena);
	}
	fsdp_arena_done(&set->arena);
	free(set->readings);
	free(set);
}

/* ---- asking ---- */

size_t fsdp_recording_count(const struct fsdp_recordings *set)
{
	return set->count;
}

const struct fsdp_recording *fsdp_recording(
	const struct fsdp_recordings *set, size_t index)
{
	return index < set->count ? &set->readings[index].recording : NULL;
}

size_t fsdp_recording_by_rank(const struct fsdp_recordings *set, size_t nth)
{
	return (size_t)(reading_of(set->by_rank[nth]) - set->readings);
}

size_t fsdp_recordings_type_count(const struct fsdp_recordings *set)
{
	return set->type_count;
}

struct fsdp_type_times fsdp_recordings_type(
	const struct fsdp_recordings *set, size_t index)
{
	return set->types[index];
}

const struct fsdp_matching *fsdp_recordings_matching(const struct fsdp_recordings *set)
{
	return &set->matching;
}

const struct fsdp_timeline *fsdp_recordings_timeline(const struct fsdp_recordings *set)
{
	return &set->timeline;
}

const struct fsdp_divergence *fsdp_recordings_divergence(
	const struct fsdp_recordings *set)
{
	return &set->divergence;
}

const struct fsdp_first_diff *fsdp_recordings_first_diff(
	const struct fsdp_recordings *set)
{
	return &set->diff;
}

/* Those of the recordings in the order of the arguments, then those about all. */
static const struct fsdp_findings *findings_at(
	const struct fsdp_recordings *set, size_t index)
{
	return index < set->count ? &set->readings[index].findings : &set->findings;
}

size_t fsdp_recordings_finding_count(const struct fsdp_recordings *set)
{
	size_t count = 0;
	for (size_t i = 0; i <= set->count; i++)
		count += findings_at(set, i)->list.count;
	return count;
}

const struct fsdp_finding *fsdp_recordings_finding(
	const struct fsdp_recordings *set, size_t index)
{
	for (size_t i = 0; i <= set->count; i++) {
		const struct fsdp_findings *findings = findings_at(set, i);
		if (index < findings->list.count)
			return fsdp_vec_at(&findings->list, index);
		index -= findings->list.count;
	}
	return NULL;
}

size_t fsdp_recordings_omitted_count(const struct fsdp_recordings *set)
{
	size_t count = 0;
	for (size_t i = 0; i <= set->count; i++)
		count += fsdp_findings_omitted_count(findings_at(set, i));
	return count;
}

struct fsdp_omitted fsdp_recordings_omitted(
	const struct fsdp_recordings *set, size_t index)
{
	for (size_t i = 0; i <= set->count; i++) {
		const struct fsdp_findings *findings = findings_at(set, i);
		size_t count = fsdp_findings_omitted_count(findings);
		if (index < count)
			return fsdp_findings_omitted(findings, index);
		index -= count;
	}
	return (struct fsdp_omitted){ 0 };
}
