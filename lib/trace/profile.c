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

/* The index of the type of an event; FSDP_NONE: no type. */
static uint32_t type_of(struct profile *profile, const struct fsdp_record *record)
{
	const struct fsdp_json_token *value = fsdp_record_get(record, "type");
	if (value == NULL || value->kind != FSDP_SCAN_TEXT)
		return FSDP_NONE;
	if (!value->escaped) {
		uint32_t id =
			fsdp_names_find_child(&profile->durations.names, 0, value->span);
		if (id != FSDP_NONE)
			return id - 1;
	}
	struct fsdp_span name = fsdp_json_text_copy(value, &profile->reading->arena);
	uint32_t index = fsdp_types_find(&profile->durations, name);
	((struct type *)fsdp_vec_reach(&profile->types, index))->name = name;
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

static void add_time(struct profile *profile, uint32_t index, int64_t ns)
{
	struct type *type = fsdp_vec_at(&profile->types, index);
	if (type->round != profile->round) {
		fsdp_vec_append(&profile->results, &index);
		type->round = profile->round;
		type->sum_ns = 0;
	}
	fsdp_sum_ns(&type->sum_ns, ns, &profile->overflow);
	fsdp_vec_append(fsdp_types_at(&profile->durations, index), &ns);
}

/* ---- events ---- */

static void add_problem(
	struct profile *profile, const char *kind, uint32_t index, const char *message)
{
	const struct type *type = fsdp_vec_at(&profile->types, index);
	fsdp_vec_append(&profile->problems,
		&(struct fsdp_profile_problem){
			profile->lines->number, kind, type->name, message });
}

static void begin_type(struct profile *profile, uint32_t index, int64_t t_ns)
{
	struct type *type = fsdp_vec_at(&profile->types, index);
	struct region *frame = profile->spare;
	if (type->active == profile->round) {
		add_problem(profile, "reentry", index,
			"this type was active already: PyTorch raises an AssertionError");
		return;
	}
	if (frame != NULL)
		profile->spare = frame->below;
	else
		frame = FSDP_TAKE(profile->reading->scratch, frame, 1);
	*frame = (struct region){ type->frames, t_ns };
	type->frames = frame;
	type->active = profile->round;
}

static void end_type(struct profile *profile, uint32_t index, int64_t t_ns)
{
	struct type *type = fsdp_vec_at(&profile->types, index);
	struct region *frame = type->frames;
	int64_t ns;
	if (frame == NULL) {
		add_problem(
			profile, "end_without_begin", index, "an end without a begin");
		return;
	}
	type->frames = frame->below;
	frame->below = profile->spare;
	profile->spare = frame;
	if (__builtin_sub_overflow(t_ns, frame->t_ns, &ns)) {
		profile->overflow = true;
		ns = 0;
	}
	add_time(profile, index, ns);
	if (type->active != profile->round)
		add_problem(profile, "end_after_reset", index,
			"this type ends after a reset: PyTorch raises a KeyError, but the time counts");
	else
		type->active = 0;
}

/* The current results, in the arena. */
static struct fsdp_dump_result *detach_results(struct profile *profile)
{
	size_t count = profile->results.count;
	struct fsdp_dump_result *results =
		FSDP_TAKE(&profile->reading->arena, results, count);
	for (size_t i = 0; i < count; i++) {
		uint32_t *index = fsdp_vec_at(&profile->results, i);
		struct type *type = fsdp_vec_at(&profile->types, *index);
		results[i] = (struct fsdp_dump_result){ .type = type->name,
			.ns = type->sum_ns };
	}
	return results;
}

/* False: it is none. */
static bool add_event(struct profile *profile, const struct fsdp_record *record)
{
	bool dumps = fsdp_record_is(record, "ev", "dump");
	if (dumps) {
		struct fsdp_dump *one = fsdp_vec_push(&profile->dumps);
		*one = (struct fsdp_dump){ .line = profile->lines->number,
			.msg = fsdp_record_text(profile->reading, record, "msg"),
			.emitted = profile->emits,
			.results = detach_results(profile),
			.result_count = profile->results.count };
		/* As PyTorch prints the results; of a type that has a name there it
		 * prints that. */
		static const char *const names[FSDP_TIME_NAMED] = { "ALL", "ALLGATHER",
			"ALLGATHER_OBJ", "RESHARDING", "H2D", "D2H" };
		struct fsdp_python text = { .arena = &profile->reading->arena };
		fsdp_python_add(&text, one->msg);
		fsdp_python_put(&text, " defaultdict(<class 'float'>, {");
		for (size_t i = 0; i < one->result_count; i++) {
			struct fsdp_span name = one->results[i].type;
			enum fsdp_time_type type = fsdp_time_type_of(name);
			fsdp_python_put(&text, "%s", i != 0 ? ", " : "");
			if (type < FSDP_TIME_NAMED)
				fsdp_python_put(&text, "<Type.%s: ", names[type]);
			fsdp_python_repr(&text, name);
			fsdp_python_put(&text, "%s: ", type < FSDP_TIME_NAMED ? ">" : "");
			fsdp_python_seconds(&text, one->results[i].ns);
		}
		fsdp_python_put(&text, "})");
		one->log_message = fsdp_python_take(&text);
	}
	if (dumps || fsdp_record_is(record, "ev", "reset")) {
		profile->round++;
		fsdp_vec_truncate(&profile->results, 0);
		return true;
	}
	bool begins = fsdp_record_is(record, "ev", "begin");
	bool ends = fsdp_record_is(record, "ev", "end");
	bool spans = fsdp_record_is(record, "ev", "span");
	int64_t ns = 0;
	uint32_t index = begins || ends || spans ? type_of(profile, record) : FSDP_NONE;
	if (index == FSDP_NONE || !(spans ? fsdp_record_integer(record, "dur_ns", &ns)
					  : time_of(record, &ns)))
		return false;
	if (spans)
		add_time(profile, index, ns);
	else if (begins)
		begin_type(profile, index, ns);
	else
		end_type(profile, index, ns);
	return true;
}

/* ---- the end ---- */

void fsdp_trace_profile(struct fsdp_trace_reading *reading, struct fsdp_lines *lines,
	const struct fsdp_record *header)
{
	struct profile profile = { .reading = reading, .lines = lines, .round = 1 };
	struct fsdp_record record;
	struct fsdp_arena *scratch = reading->scratch;
	(void)header;
	fsdp_types_init(&profile.durations, scratch);
	fsdp_vec_init(&profile.types, scratch, sizeof(struct type));
	fsdp_vec_init(&profile.results, scratch, sizeof(uint32_t));
	fsdp_vec_init(&profile.dumps, scratch, sizeof(struct fsdp_dump));
	fsdp_vec_init(&profile.problems, scratch, sizeof(struct fsdp_profile_problem));
	profile.emits = reading->recording.rank == 0 &&
			fsdp_span_is(reading->recording.debug_level, "INFO");
	while (fsdp_record_next(lines, &record))
		reading->recording.skipped += !add_event(&profile, &record);
	struct fsdp_recording *recording = &reading->recording;
	struct fsdp_vec open;
	recording->dumps = fsdp_trace_flat(reading, &profile.dumps);
	recording->dump_count = profile.dumps.count;
	recording->problems = fsdp_trace_flat(reading, &profile.problems);
	recording->problem_count = profile.problems.count;
	recording->residual = detach_results(&profile);
	recording->residual_count = profile.results.count;
	if (profile.overflow)
		FSDP_TRACE_FIND(reading, TIMES_UNUSABLE,
			"a sum of times does not fit 64 bits of nanoseconds");
	fsdp_vec_init(&open, reading->scratch, sizeof(struct fsdp_span));
	for (size_t i = 0; i < profile.types.count; i++) {
		const struct type *type = fsdp_vec_at(&profile.types, i);
		for (struct region *at = type->frames; at != NULL; at = at->below)
			fsdp_vec_append(&open, &type->name);
	}
	struct fsdp_span *names = fsdp_trace_flat(reading, &open);
	FSDP_SORT(names, open.count, FSDP_BY_VALUE(names));
	recording->still_open = names;
	recording->still_open_count = open.count;
	fsdp_trace_types(reading, &profile.durations);
}
