/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SimpleProfiler's events, replayed (torch/distributed/fsdp/_debug_utils.py, 2.13):
 *
 *	{"ev":"begin","type":T,"t_ns":N}   {"ev":"end","type":T,"t_ns":N}
 *	{"ev":"span","type":T,"dur_ns":N}  {"ev":"reset"}  {"ev":"dump","msg":M}
 *
 * `t`, decimal seconds, may stand for `t_ns`. Three things are not the same: `results`,
 * which a dump prints and a reset clears; the set of active types, which a reset clears
 * too; and the open frames, which live in the callers and survive it.
 */
#include <stdlib.h>

#include "base/sort.h"
#include "trace/event.h"

struct region {
	struct region *below;
	int64_t t_ns;
};

struct type {
	struct fsdp_span name;
	struct region *frames;
	uint64_t active; /* the round in which it became active, or 0 */
	uint64_t round;  /* of the results it is in */
	int64_t sum_ns;
};

struct profile {
	struct fsdp_trace_reading *reading;
	struct fsdp_lines *lines;
	struct fsdp_types durations;
	struct fsdp_vec types;   /* struct type, by the index of durations */
	struct fsdp_vec results; /* uint32_t, in order of first end */
	struct fsdp_vec dumps, problems;
	struct region *spare;
	uint64_t round;
	bool emits;
	bool overflow;
};

/* ---- types ---- */

/* The index of the type of an event; FSDP_NONE with an error, or without: no type. */
static uint32_t type_of(struct profile *profile, const struct fsdp_record *record)
{
	struct fsdp_span name;
	const struct fsdp_json_token *value = fsdp_record_get(record, "type");
	if (value == NULL || value->kind != FSDP_SCAN_TEXT)
		return FSDP_NONE;
	if (!value->escaped) {
		uint32_t id =
			fsdp_names_find_child(&profile->durations.names, 0, value->span);
		if (id != FSDP_NONE)
			return id - 1;
	}
	if (!fsdp_record_text(profile->reading, record, "type", &name))
		return FSDP_NONE;
	uint32_t index = fsdp_types_find(&profile->durations, name);
	struct type *type =
		index != FSDP_NONE ? fsdp_vec_reach(&profile->types, index) : NULL;
	if (type == NULL) {
		fsdp_trace_memory(profile->reading);
		return FSDP_NONE;
	}
	type->name = name;
	return index;
}

static bool time_of(const struct fsdp_record *record, int64_t *ret_ns)
{
	const struct fsdp_json_token *t;
	if (fsdp_record_get(record, "t_ns") != NULL)
		return fsdp_record_integer(record, "t_ns", ret_ns);
	t = fsdp_record_get(record, "t");
	return t != NULL && t->kind == FSDP_SCAN_NUMBER &&
	       fsdp_decimal_fixed(t->span, 9, ret_ns);
}

static bool add_time(struct profile *profile, uint32_t index, int64_t ns)
{
	struct type *type = fsdp_vec_at(&profile->types, index);
	if (type->round != profile->round) {
		if (!fsdp_vec_add(&profile->results, &index))
			return false;
		type->round = profile->round;
		type->sum_ns = 0;
	}
	fsdp_sum_ns(&type->sum_ns, ns, &profile->overflow);
	return fsdp_durations_add(
		&fsdp_types_at(&profile->durations, index)->durations, ns);
}

/* ---- events ---- */

static bool add_problem(
	struct profile *profile, const char *kind, uint32_t index, const char *message)
{
	const struct type *type = fsdp_vec_at(&profile->types, index);
	const struct fsdp_profile_problem problem = { profile->lines->number, kind,
		type->name, message };
	return fsdp_vec_add(&profile->problems, &problem);
}

static bool begin_type(struct profile *profile, uint32_t index, int64_t t_ns)
{
	struct type *type = fsdp_vec_at(&profile->types, index);
	if (type->active == profile->round)
		return add_problem(profile, "reentry", index,
			"this type was active already: PyTorch raises an AssertionError");
	struct region *frame = profile->spare;
	if (frame != NULL)
		profile->spare = frame->below;
	else
		frame = FSDP_TAKE(&profile->reading->arena, frame, 1);
	if (frame == NULL)
		return false;
	*frame = (struct region){ type->frames, t_ns };
	type->frames = frame;
	type->active = profile->round;
	return true;
}

static bool end_type(struct profile *profile, uint32_t index, int64_t t_ns)
{
	struct type *type = fsdp_vec_at(&profile->types, index);
	struct region *frame = type->frames;
	int64_t ns;
	if (frame == NULL)
		return add_problem(
			profile, "end_without_begin", index, "an end without a begin");
	type->frames = frame->below;
	frame->below = profile->spare;
	profile->spare = frame;
	if (__builtin_sub_overflow(t_ns, frame->t_ns, &ns)) {
		profile->overflow = true;
		ns = 0;
	}
	if (!add_time(profile, index, ns))
		return false;
	if (type->active != profile->round)
		return add_problem(profile, "end_after_reset", index,
			"this type ends after a reset: PyTorch raises a KeyError, but the time counts");
	type->active = 0;
	return true;
}

static void reset(struct profile *profile)
{
	profile->round++;
	fsdp_vec_truncate(&profile->results, 0);
}

/* The current results, in the arena. */
static struct fsdp_dump_result *detach_results(struct profile *profile)
{
	size_t count = profile->results.count;
	struct fsdp_dump_result *results =
		FSDP_TAKE(&profile->reading->arena, results, count);
	for (size_t i = 0; results != NULL && i < count; i++) {
		uint32_t *index = fsdp_vec_at(&profile->results, i);
		struct type *type = fsdp_vec_at(&profile->types, *index);
		results[i] = (struct fsdp_dump_result){ .type = type->name,
			.ns = type->sum_ns };
	}
	return results;
}

/* As PyTorch prints the results; of a type that has a name there it prints that. */
static bool make_log_message(struct profile *profile, struct fsdp_dump *dump)
{
	static const char *const names[FSDP_TIME_NAMED] = { "ALL", "ALLGATHER",
		"ALLGATHER_OBJ", "RESHARDING", "H2D", "D2H" };
	struct fsdp_python text = { .arena = &profile->reading->arena };
	fsdp_python_add(&text, dump->msg);
	fsdp_python_put(&text, " defaultdict(<class 'float'>, {");
	for (size_t i = 0; i < dump->result_count; i++) {
		struct fsdp_span name = dump->results[i].type;
		enum fsdp_time_type type = fsdp_time_type_of(name);
		fsdp_python_put(&text, "%s", i != 0 ? ", " : "");
		if (type < FSDP_TIME_NAMED)
			fsdp_python_put(&text, "<Type.%s: ", names[type]);
		fsdp_python_repr(&text, name);
		fsdp_python_put(&text, "%s: ", type < FSDP_TIME_NAMED ? ">" : "");
		fsdp_python_seconds(&text, dump->results[i].ns);
	}
	fsdp_python_put(&text, "})");
	dump->log_message = fsdp_python_take(&text);
	return dump->log_message.data != NULL;
}

static bool dump(struct profile *profile, const struct fsdp_record *record)
{
	struct fsdp_dump *one = fsdp_vec_push(&profile->dumps);
	if (one == NULL)
		return false;
	*one = (struct fsdp_dump){ .line = profile->lines->number,
		.emitted = profile->emits,
		.result_count = profile->results.count };
	one->results = detach_results(profile);
	if (one->results == NULL ||
		!fsdp_record_text(profile->reading, record, "msg", &one->msg) ||
		!make_log_message(profile, one))
		return false;
	reset(profile);
	return true;
}

static bool skip(struct profile *profile)
{
	profile->reading->recording.skipped++;
	return true;
}

static bool add_event(struct profile *profile, const struct fsdp_record *record)
{
	if (fsdp_record_is(record, "ev", "reset")) {
		reset(profile);
		return true;
	}
	if (fsdp_record_is(record, "ev", "dump"))
		return dump(profile, record);
	bool begins = fsdp_record_is(record, "ev", "begin");
	bool ends = fsdp_record_is(record, "ev", "end");
	bool spans = fsdp_record_is(record, "ev", "span");
	if (!begins && !ends && !spans)
		return skip(profile);
	int64_t ns = 0, t_ns = 0;
	uint32_t index = type_of(profile, record);
	if (index == FSDP_NONE)
		return profile->reading->error == NULL && skip(profile);
	if (spans) {
		time_of(record, &t_ns);
		return fsdp_record_integer(record, "dur_ns", &ns)
			       ? add_time(profile, index, ns)
			       : skip(profile);
	}
	if (!time_of(record, &t_ns))
		return skip(profile);
	return begins ? begin_type(profile, index, t_ns) : end_type(profile, index, t_ns);
}

/* ---- the end ---- */

static bool add_still_open(struct profile *profile)
{
	struct fsdp_recording *recording = &profile->reading->recording;
	struct fsdp_vec open;
	fsdp_vec_init(&open, &profile->reading->arena, sizeof(struct fsdp_span));
	for (size_t i = 0; i < profile->types.count; i++) {
		struct type *type = fsdp_vec_at(&profile->types, i);
		for (struct region *at = type->frames; at != NULL; at = at->below)
			if (!fsdp_vec_add(&open, &type->name))
				return false;
	}
	struct fsdp_span *names = fsdp_trace_flat(profile->reading, &open);
	if (names == NULL)
		return false;
	FSDP_SORT(names, open.count, FSDP_BY_VALUE(names));
	recording->still_open = names;
	recording->still_open_count = open.count;
	return true;
}

static bool finish(struct profile *profile)
{
	struct fsdp_recording *recording = &profile->reading->recording;
	recording->dumps = fsdp_trace_flat(profile->reading, &profile->dumps);
	recording->dump_count = profile->dumps.count;
	recording->problems = fsdp_trace_flat(profile->reading, &profile->problems);
	recording->problem_count = profile->problems.count;
	recording->residual = detach_results(profile);
	recording->residual_count = profile->results.count;
	if (profile->overflow)
		FSDP_TRACE_FIND(profile->reading, TIMES_UNUSABLE,
			"a sum of times does not fit 64 bits of nanoseconds");
	return recording->dumps != NULL && recording->problems != NULL &&
	       recording->residual != NULL && add_still_open(profile) &&
	       fsdp_trace_types(profile->reading, &profile->durations);
}

bool fsdp_trace_profile(struct fsdp_trace_reading *reading, struct fsdp_lines *lines,
	const struct fsdp_record *header)
{
	struct profile profile = { .reading = reading, .lines = lines, .round = 1 };
	struct fsdp_record record;
	struct fsdp_arena *arena = &reading->arena;
	fsdp_vec_init(&profile.types, arena, sizeof(struct type));
	fsdp_vec_init(&profile.results, arena, sizeof(uint32_t));
	fsdp_vec_init(&profile.dumps, arena, sizeof(struct fsdp_dump));
	fsdp_vec_init(&profile.problems, arena, sizeof(struct fsdp_profile_problem));
	(void)header;
	profile.emits = reading->recording.rank == 0 &&
			fsdp_span_is(reading->recording.debug_level, "INFO");
	bool good = fsdp_types_init(&profile.durations, arena);
	while (good && fsdp_record_next(reading, lines, &record))
		good = add_event(&profile, &record);
	good = good && reading->error == NULL && finish(&profile);
	fsdp_types_done(&profile.durations);
	return good;
}
