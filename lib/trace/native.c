/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Native recordings, as they begin:
 *
 *	{"type":"header","format":"fsdp-inspect-trace","version":1,"kind":"…", …}
 *
 * one JSON object a line. The kinds are events of SimpleProfiler, the order in which
 * torch.fx saw modules, and the order in which handles of FSDP1 were used.
 */
#include <stdlib.h>

#include <fsdp/order.h>

#include "base/num.h"
#include "base/sort.h"
#include "trace/event.h"

/* One JSON object on a line: its members, whose values may be objects again. */
struct json_member {
	struct fsdp_json_token key, value; /* of an object or array: the span of it all */
};

enum { RECORD_MEMBERS = 64 };

struct json_line {
	struct json_member members[RECORD_MEMBERS];
	size_t count;
};

/* The elements of an array, one by one. */
struct items {
	struct fsdp_json_scan scan;
	bool done;
};

/* ---- records ---- */

/* An object or array becomes a span of it all. */
static bool parse_value(struct fsdp_json_scan *scan, struct fsdp_json_token *value)
{
	if (!fsdp_json_scan_next(scan, value, NULL))
		return false;
	if (value->kind != FSDP_SCAN_OBJECT && value->kind != FSDP_SCAN_ARRAY)
		return true;
	struct fsdp_json_token last = *value;
	if (!fsdp_json_scan_skip(scan, &last, NULL))
		return false;
	value->span = fsdp_json_scan_span(
		scan, value->offset, (size_t)(last.offset + 1 - value->offset));
	return true;
}

/* False: not an object. Values in the span are borrowed. */
static bool read_record(
	struct fsdp_span text, const struct fsdp_limits *limits, struct json_line *record)
{
	struct fsdp_json_scan scan;
	struct fsdp_json_token token;
	fsdp_json_scan_over(&scan, text, limits);
	record->count = 0;
	if (!fsdp_json_scan_next(&scan, &token, NULL) || token.kind != FSDP_SCAN_OBJECT)
		return false;
	for (;;) {
		struct json_member member;
		if (!fsdp_json_scan_next(&scan, &member.key, NULL))
			return false;
		if (member.key.kind == FSDP_SCAN_OBJECT_END)
			return fsdp_json_scan_next(&scan, &token, NULL);
		if (!parse_value(&scan, &member.value))
			return false;
		if (record->count < RECORD_MEMBERS)
			record->members[record->count++] = member;
	}
}

/* The next object of a native recording; false at the end. Lines that are not objects are
 * kept as bad. */
static bool next_record(struct fsdp_lines *lines, struct json_line *record)
{
	struct fsdp_span line;
	while (fsdp_lines_next(lines, &line)) {
		if (fsdp_lines_is_blank(line))
			continue;
		if (read_record(line, lines->reading->limits, record))
			return true;
		fsdp_vec_append(&lines->bad, &lines->number);
	}
	return false;
}

/* The value of a member, the last one of that name, or NULL. */
static const struct fsdp_json_token *get(const struct json_line *record, const char *key)
{
	for (size_t i = record->count; i-- > 0;)
		if (fsdp_json_text_is(&record->members[i].key, fsdp_span_text(key)))
			return &record->members[i].value;
	return NULL;
}

static bool has_text(const struct json_line *record, const char *key, const char *text)
{
	const struct fsdp_json_token *value = get(record, key);
	return value != NULL && value->kind == FSDP_SCAN_TEXT &&
	       fsdp_json_text_is(value, fsdp_span_text(text));
}

static bool get_integer(
	const struct json_line *record, const char *key, int64_t *ret_value)
{
	const struct fsdp_json_token *value = get(record, key);
	return value != NULL && value->kind == FSDP_SCAN_NUMBER &&
	       fsdp_decimal_integer(value->span, ret_value);
}

/* In the arena; data NULL: absent or no text. */
static struct fsdp_span get_text(struct fsdp_trace_reading *reading,
	const struct json_line *record, const char *key)
{
	const struct fsdp_json_token *value = get(record, key);
	return value != NULL && value->kind == FSDP_SCAN_TEXT
		       ? fsdp_json_text_copy(value, &reading->arena)
		       : (struct fsdp_span){ 0 };
}

static bool begin_items(struct items *elements, const struct fsdp_json_token *array,
	const struct fsdp_limits *limits)
{
	struct fsdp_json_token token;
	elements->done = true;
	if (array == NULL || array->kind != FSDP_SCAN_ARRAY)
		return false;
	fsdp_json_scan_over(&elements->scan, array->span, limits);
	elements->done = !fsdp_json_scan_next(&elements->scan, &token, NULL);
	return !elements->done;
}

/* False at the end. Objects and arrays as a span of it all. */
static bool next_item(struct items *elements, struct fsdp_json_token *ret_value)
{
	if (elements->done || !parse_value(&elements->scan, ret_value) ||
		ret_value->kind == FSDP_SCAN_ARRAY_END)
		elements->done = true;
	return !elements->done;
}

/* Of a name in a list, in addition to its bytes. */
enum { SHOWN_LEAST = 16 };

/* A name that is recorded once is shown wherever it is used: counts the bytes of that up
 * to the limit `order-bytes`. */
static void show(struct fsdp_trace_reading *reading, uint64_t *shown, uint64_t bytes)
{
	uint64_t most = fsdp_limit(reading->limits, FSDP_LIMIT_ORDER_BYTES);
	fsdp_trace_require(reading,
		(fsdp_add(*shown, bytes, shown) && *shown <= most) ||
			fsdp_fail_limit(&reading->error, FSDP_LIMIT_ORDER_BYTES, most));
}

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
static uint32_t type_of(struct profile *profile, const struct json_line *record)
{
	const struct fsdp_json_token *value = get(record, "type");
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

static bool time_of(const struct json_line *record, int64_t *ret_ns)
{
	const struct fsdp_json_token *t;
	if (get(record, "t_ns") != NULL)
		return get_integer(record, "t_ns", ret_ns);
	t = get(record, "t");
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

static void add_profile_problem(
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
		add_profile_problem(profile, "reentry", index,
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
		add_profile_problem(
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
		add_profile_problem(profile, "end_after_reset", index,
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
static bool add_profile_event(struct profile *profile, const struct json_line *record)
{
	bool dumps = has_text(record, "ev", "dump");
	if (dumps) {
		struct fsdp_dump *one = fsdp_vec_push(&profile->dumps);
		*one = (struct fsdp_dump){ .line = profile->lines->number,
			.msg = get_text(profile->reading, record, "msg"),
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
	if (dumps || has_text(record, "ev", "reset")) {
		profile->round++;
		fsdp_vec_truncate(&profile->results, 0);
		return true;
	}
	bool begins = has_text(record, "ev", "begin");
	bool ends = has_text(record, "ev", "end");
	bool spans = has_text(record, "ev", "span");
	int64_t ns = 0;
	uint32_t index = begins || ends || spans ? type_of(profile, record) : FSDP_NONE;
	if (index == FSDP_NONE ||
		!(spans ? get_integer(record, "dur_ns", &ns) : time_of(record, &ns)))
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

static void read_profile(struct fsdp_trace_reading *reading, struct fsdp_lines *lines,
	const struct json_line *header)
{
	struct profile profile = { .reading = reading, .lines = lines, .round = 1 };
	struct json_line record;
	struct fsdp_arena *scratch = reading->scratch;
	(void)header;
	fsdp_types_init(&profile.durations, scratch);
	fsdp_vec_init(&profile.types, scratch, sizeof(struct type));
	fsdp_vec_init(&profile.results, scratch, sizeof(uint32_t));
	fsdp_vec_init(&profile.dumps, scratch, sizeof(struct fsdp_dump));
	fsdp_vec_init(&profile.problems, scratch, sizeof(struct fsdp_profile_problem));
	profile.emits = reading->recording.rank == 0 &&
			fsdp_span_is(reading->recording.debug_level, "INFO");
	while (next_record(lines, &record))
		reading->recording.skipped += !add_profile_event(&profile, &record);
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

/*
 * The order in which torch.fx saw modules and parameters, replayed as _ExecOrderTracer
 * does (torch/distributed/fsdp/_trace_utils.py, 2.13):
 *
 *	{"ev":"param","id":I,"fqn":F} {"ev":"module","id":I,"fqn":F,"params":[[NAME,I],…]}
 *	{"ev":"call_module","module":I} {"ev":"end_module"}
 *	{"ev":"create_proxy","kind":K,"args":[{"target":F}|null,…]}
 *	{"ev":"abort","error":E}
 *
 * Module 0 is the root. A module's list of uses is overwritten when it is called again,
 * but its place among the modules stays.
 */

struct module_use {
	struct fsdp_usage shown;
	uint32_t of; /* number of the module that runs */
	uint64_t place;
};

struct module {
	int64_t id;
	struct fsdp_span fqn;
	const struct fsdp_named_param *params;
	size_t param_count;
	uint64_t bytes; /* of the names of its parameters, as often as shown */
	bool used;      /* it has a list of uses */
	bool visited;   /* all of its parameters are */
	uint64_t first; /* place from which on its uses count */
	const struct fsdp_usage *usages;
	size_t use_count;
};

struct param {
	struct fsdp_span name; /* as declared last; data NULL: never */
	bool seen;
};

struct declared {
	struct fsdp_span name;
	int64_t param;
};

struct fx {
	struct fsdp_trace_reading *reading;
	struct fsdp_fx_order *order;
	/* The bytes of an id as a name: a file may have any ids, so they are hashed
	 * and index nothing. What counts here is a number, from 0 in order of first
	 * sight. */
	struct fsdp_names module_ids, param_ids;
	struct fsdp_vec modules;  /* struct module, by number */
	struct fsdp_vec params;   /* struct param, by number */
	struct fsdp_vec declared; /* struct declared */
	struct fsdp_names fqns;   /* of parameters */
	struct fsdp_vec named;    /* int64_t, ids by the id of the name less one */
	struct fsdp_vec uses;     /* struct module_use, of all modules */
	struct fsdp_vec called, keys, stack; /* uint32_t, numbers of modules */
	struct fsdp_vec visited;             /* int64_t, ids of parameters */
	struct fsdp_vec found;               /* struct fsdp_named_param, of one event */
	uint32_t current;
	uint64_t shown; /* bytes of names */
};

/* ---- numbers ---- */

/* The number of an id, which may be new. */
static uint32_t number_of(struct fsdp_names *ids, int64_t id)
{
	return fsdp_names_child(ids, 0, fsdp_span(&id, sizeof id)) - 1;
}

static struct module *module_at(const struct fx *fx, uint32_t number)
{
	return fsdp_vec_at(&fx->modules, number);
}

/* The number of the module that a member of the record names, made if it is not there;
 * FSDP_NONE: none. */
static uint32_t module_of(
	struct fx *fx, const struct json_line *record, const char *member)
{
	int64_t id;
	if (!get_integer(record, member, &id) || id < 0)
		return FSDP_NONE;
	uint32_t number = number_of(&fx->module_ids, id);
	((struct module *)fsdp_vec_reach(&fx->modules, number))->id = id;
	return number;
}

/* The parameter of an id that is not negative, which may be new. */
static struct param *param_of(struct fx *fx, int64_t id)
{
	return fsdp_vec_reach(&fx->params, number_of(&fx->param_ids, id));
}

/* ---- what there is ---- */

/* ["weight", 3] */
static bool read_pair(struct fx *fx, const struct fsdp_json_token *pair,
	struct fsdp_named_param *ret_param)
{
	struct items elements;
	struct fsdp_json_token name, number;
	if (!begin_items(&elements, pair, fx->reading->limits) ||
		!next_item(&elements, &name) || name.kind != FSDP_SCAN_TEXT)
		return false;
	ret_param->name = fsdp_json_text_copy(&name, &fx->reading->arena);
	return next_item(&elements, &number) && number.kind == FSDP_SCAN_NUMBER &&
	       fsdp_decimal_integer(number.span, &ret_param->param);
}

/* False: no module with an id, or something among its parameters is none. */
static bool add_module(struct fx *fx, const struct json_line *record)
{
	struct fsdp_trace_reading *reading = fx->reading;
	struct items elements;
	struct fsdp_json_token pair;
	struct fsdp_named_param param;
	uint32_t number = module_of(fx, record, "id");
	if (number == FSDP_NONE)
		return false;
	fsdp_vec_truncate(&fx->found, 0);
	begin_items(&elements, get(record, "params"), reading->limits);
	while (next_item(&elements, &pair)) {
		if (!read_pair(fx, &pair, &param))
			return false;
		fsdp_vec_append(&fx->found, &param);
	}
	struct module *module = module_at(fx, number);
	module->params = fsdp_trace_flat(reading, &fx->found);
	module->param_count = fx->found.count;
	module->visited = false;
	module->bytes = 0;
	for (size_t i = 0; i < module->param_count; i++)
		module->bytes += module->params[i].name.size + SHOWN_LEAST;
	module->fqn = get_text(reading, record, "fqn");
	return true;
}

/* ---- what is used ---- */

static void use(
	struct fx *fx, uint32_t of, const struct fsdp_named_param *params, size_t count)
{
	const struct module_use use = { { module_at(fx, of)->id, params, count },
		fx->current, fx->uses.count };
	fsdp_vec_append(&fx->uses, &use);
	module_at(fx, fx->current)->use_count++;
}

static void visit(struct fx *fx, const struct fsdp_named_param *params, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (params[i].param < 0)
			continue;
		struct param *param = param_of(fx, params[i].param);
		if (!param->seen)
			fsdp_vec_append(&fx->visited, &params[i].param);
		param->seen = true;
	}
}

/* Uses all parameters of a module in the current one. */
static void use_module(struct fx *fx, uint32_t number)
{
	const struct module *module = module_at(fx, number);
	if (module->param_count == 0)
		return;
	show(fx->reading, &fx->shown, module->bytes);
	use(fx, number, module->params, module->param_count);
}

/* A module is the current one: its list of uses begins. */
static void enter(struct fx *fx, uint32_t number)
{
	struct module *module = module_at(fx, number);
	fsdp_vec_append(&fx->called, &number);
	fx->current = number;
	module->use_count = 0;
	module->first = fx->uses.count;
	if (!module->used)
		fsdp_vec_append(&fx->keys, &number);
	module->used = true;
}

/* Uses the parameters among the targets of the arguments. */
static void use_targets(struct fx *fx, const struct json_line *record)
{
	struct fsdp_trace_reading *reading = fx->reading;
	struct items elements;
	struct fsdp_json_token element;
	fsdp_vec_truncate(&fx->found, 0);
	begin_items(&elements, get(record, "args"), reading->limits);
	while (next_item(&elements, &element)) {
		struct json_line argument;
		struct fsdp_named_param param;
		if (element.kind != FSDP_SCAN_OBJECT ||
			!read_record(element.span, reading->limits, &argument))
			continue;
		param.name = get_text(reading, &argument, "target");
		uint32_t id = param.name.data != NULL
				      ? fsdp_names_find_child(&fx->fqns, 0, param.name)
				      : FSDP_NONE;
		if (id == FSDP_NONE)
			continue;
		param.param = *(int64_t *)fsdp_vec_at(&fx->named, id - 1);
		fsdp_vec_append(&fx->found, &param);
	}
	const struct fsdp_named_param *params = fsdp_trace_flat(reading, &fx->found);
	if (fx->found.count == 0)
		return;
	use(fx, fx->current, params, fx->found.count);
	visit(fx, params, fx->found.count);
}

/* False: it is none. */
static bool add_fx_event(struct fx *fx, const struct json_line *record)
{
	struct module *module = module_at(fx, fx->current);
	if (has_text(record, "ev", "param")) {
		struct fsdp_span fqn = get_text(fx->reading, record, "fqn");
		int64_t id;
		if (!get_integer(record, "id", &id) || fqn.data == NULL || id < 0)
			return false;
		uint32_t name = fsdp_names_child(&fx->fqns, 0, fqn) - 1;
		param_of(fx, id)->name = fqn;
		fsdp_vec_append(&fx->declared, &(struct declared){ fqn, id });
		*(int64_t *)fsdp_vec_reach(&fx->named, name) = id;
	} else if (has_text(record, "ev", "module")) {
		return add_module(fx, record);
	} else if (has_text(record, "ev", "call_module")) {
		uint32_t number = module_of(fx, record, "module");
		if (number == FSDP_NONE)
			return false;
		use_module(fx, number);
		fsdp_vec_append(&fx->stack, &fx->current);
		enter(fx, number);
	} else if (has_text(record, "ev", "create_proxy")) {
		if (has_text(record, "kind", "call_function") ||
			has_text(record, "kind", "call_method")) {
			use_targets(fx, record);
		} else if (has_text(record, "kind", "call_module") &&
			   module->param_count != 0) {
			use_module(fx, fx->current);
			if (!module->visited)
				visit(fx, module->params, module->param_count);
			module->visited = true;
		}
	} else if (has_text(record, "ev", "end_module")) {
		size_t count = fx->stack.count;
		if (count != 0) {
			fx->current = *(uint32_t *)fsdp_vec_at(&fx->stack, count - 1);
			fsdp_vec_truncate(&fx->stack, count - 1);
		}
	} else if (has_text(record, "ev", "abort")) {
		fx->order->aborted = get_text(fx->reading, record, "error");
		if (fx->order->aborted.data == NULL)
			fx->order->aborted = FSDP_SPAN("");
	} else {
		return false;
	}
	return true;
}

/* ---- the end ---- */

static void parse_fx_header(struct fx *fx, const struct json_line *header)
{
	struct fsdp_fx_order *order = fx->order;
	struct fsdp_trace_reading *reading = fx->reading;
	const struct fsdp_json_token *args = get(header, "concrete_args");
	struct items elements;
	struct fsdp_json_token arg;
	struct fsdp_vec list;
	fsdp_vec_init(&list, reading->scratch, sizeof(struct fsdp_span));
	order->has_concrete_args = args != NULL;
	order->concrete_args_null = args != NULL && args->kind == FSDP_SCAN_NULL;
	begin_items(&elements, args, reading->limits);
	while (next_item(&elements, &arg)) {
		if (arg.kind != FSDP_SCAN_TEXT)
			continue;
		struct fsdp_span name = fsdp_json_text_copy(&arg, &reading->arena);
		fsdp_vec_append(&list, &name);
	}
	order->concrete_args = fsdp_trace_flat(reading, &list);
	order->concrete_arg_count = list.count;
	order->root = get_text(reading, header, "root");
	order->torch = get_text(reading, header, "torch");
	order->tracer = get_text(reading, header, "tracer");
}

static void read_fx(struct fsdp_trace_reading *reading, struct fsdp_lines *lines,
	const struct json_line *header)
{
	struct fx fx = { .reading = reading };
	struct json_line record;
	struct fsdp_arena *scratch = fx.reading->scratch;
	fsdp_vec_init(&fx.modules, scratch, sizeof(struct module));
	fsdp_vec_init(&fx.params, scratch, sizeof(struct param));
	fsdp_vec_init(&fx.declared, scratch, sizeof(struct declared));
	fsdp_vec_init(&fx.named, scratch, sizeof(int64_t));
	fsdp_vec_init(&fx.uses, scratch, sizeof(struct module_use));
	fsdp_vec_init(&fx.called, scratch, sizeof(uint32_t));
	fsdp_vec_init(&fx.keys, scratch, sizeof(uint32_t));
	fsdp_vec_init(&fx.stack, scratch, sizeof(uint32_t));
	fsdp_vec_init(&fx.visited, scratch, sizeof(int64_t));
	fsdp_vec_init(&fx.found, scratch, sizeof(struct fsdp_named_param));
	fx.order = FSDP_TAKE(&fx.reading->arena, fx.order, 1);
	fsdp_names_init(&fx.fqns, scratch);
	fsdp_names_init(&fx.module_ids, scratch);
	fsdp_names_init(&fx.param_ids, scratch);
	fx.module_ids.copies = fx.param_ids.copies = scratch;
	parse_fx_header(&fx, header);
	fsdp_vec_append(&fx.modules, &(struct module){ 0 });
	enter(&fx, number_of(&fx.module_ids, 0));
	while (fx.order->aborted.data == NULL && next_record(lines, &record))
		reading->recording.skipped += !add_fx_event(&fx, &record);
	/* What was used, in order: modules, with what each used, and parameters. */
	struct fsdp_fx_order *order = fx.order;
	struct fsdp_arena *arena = &fx.reading->arena;
	size_t count = fx.called.count, keys = fx.keys.count;
	struct fsdp_span *names = FSDP_TAKE(arena, names, count);
	int64_t *ids = FSDP_TAKE(arena, ids, count);
	uint64_t *uses = FSDP_TAKE(arena, uses, count);
	struct fsdp_module_usage *list = FSDP_TAKE(arena, list, keys);
	struct fsdp_span *params = FSDP_TAKE(arena, params, fx.visited.count);
	struct fsdp_span *never = FSDP_TAKE(arena, never, fx.declared.count);
	for (size_t i = 0; i < count; i++) {
		const struct module *module =
			module_at(&fx, *(uint32_t *)fsdp_vec_at(&fx.called, i));
		ids[i] = module->id;
		uses[i] = module->use_count;
		names[i] = module->id == 0 ? FSDP_SPAN("(root)") : module->fqn;
		if (names[i].data == NULL)
			names[i] = FSDP_SPAN("");
		show(fx.reading, &fx.shown, names[i].size);
	}
	/* Uses before the last call of their module do not count. */
	struct module_use *used = fsdp_vec_flat(&fx.uses, scratch);
	struct fsdp_usage *usages = FSDP_TAKE(arena, usages, fx.uses.count);
	FSDP_SORT(used, fx.uses.count, FSDP_BY(used, of), FSDP_BY(used, place));
	for (size_t i = 0; i < fx.uses.count; i++) {
		struct module *module = module_at(&fx, used[i].of);
		if (used[i].place < module->first)
			continue;
		if (module->usages == NULL)
			module->usages = usages;
		*usages++ = used[i].shown;
	}
	for (size_t i = 0; i < keys; i++) {
		const struct module *module =
			module_at(&fx, *(uint32_t *)fsdp_vec_at(&fx.keys, i));
		list[i] = (struct fsdp_module_usage){ module->id, module->usages,
			module->use_count };
	}
	order->current = module_at(&fx, fx.current)->id;
	order->modules = ids;
	order->module_names = names;
	order->module_uses = uses;
	order->module_count = count;
	order->usages = list;
	order->usage_count = keys;
	order->params = fsdp_trace_flat(fx.reading, &fx.visited);
	order->param_names = params;
	int64_t *visited = fsdp_trace_flat(fx.reading, &fx.visited);
	FSDP_SORT(visited, fx.visited.count, FSDP_BY_VALUE(visited));
	order->visited = visited;
	order->param_count = fx.visited.count;
	order->never_visited = never;
	/* The last declared name of each. */
	for (size_t i = 0; i < fx.declared.count; i++) {
		const struct declared *one = fsdp_vec_at(&fx.declared, i);
		if (!param_of(&fx, one->param)->seen)
			never[order->never_visited_count++] = one->name;
	}
	for (size_t i = 0; i < order->param_count; i++)
		params[i] = param_of(&fx, order->params[i])->name;
	fx.reading->recording.fx = order;
}

/*
 * The order in which FSDP1's handles were used, replayed as _ExecOrderData does
 * (torch/distributed/fsdp/_exec_order_utils.py, 2.13), and the training states that its
 * functions assign:
 *
 *	{"ev":"pre_forward","handle":H,"training":B}  {"ev":"post_forward","handle":H}
 *	{"ev":"next_iter"}  {"ev":"state","handle":H,"training_state":S,"handle_state":S}
 *
 * A handle that is null is a unit without parameters, which changes nothing.
 */

enum { NAMES_OF_UNIT = 64 << 10 };

enum status { STATUS_NONE, STATUS_WARNING, STATUS_WARNED };
static const char *const status_names[] = { "NONE", "WARNING", "WARNED" };

static const char *const training_names[FSDP_TRAINING_STATES] = { "IDLE",
	"FORWARD_BACKWARD", "SUMMON_FULL_PARAMS" };
static const char *const handle_names[FSDP_HANDLE_STATES] = { "IDLE", "FORWARD",
	"BACKWARD_PRE", "BACKWARD_POST", "SUMMON_FULL_PARAMS" };
enum { IDLE, FORWARD_BACKWARD, SUMMON };
enum { H_IDLE, H_FORWARD, H_PRE, H_POST, H_SUMMON };

const char *fsdp_training_state_name(unsigned state)
{
	return state < FSDP_TRAINING_STATES ? training_names[state] : NULL;
}

const char *fsdp_handle_state_name(unsigned state)
{
	return state < FSDP_HANDLE_STATES ? handle_names[state] : NULL;
}

struct handle {
	struct fsdp_handle shown;
	struct fsdp_span names; /* as Python prints a list of them; data NULL: lost */
	bool ordered;           /* it is in the list of the first iteration */
	uint64_t used_in;       /* the forward it was used in last */
	uint64_t bytes;         /* of its names, as shown */
	struct fsdp_state_lane lane;
};

struct change {
	struct fsdp_state_change shown;
	int64_t handle;
};

struct handles {
	struct fsdp_trace_reading *reading;
	struct fsdp_lines *lines;
	struct fsdp_exec_order *order;
	struct handle *list;
	size_t count;
	struct fsdp_vec pre, post; /* int64_t, of all iterations */
	size_t post_begin;         /* of this one */
	struct fsdp_vec snapshots, warnings, problems, forwards;
	struct fsdp_vec changes; /* struct change, of all handles */
	struct fsdp_vec texts;   /* struct fsdp_span, of one list */
	int64_t limits[2];       /* of prefetching: backward, forward */
	enum status status;
	uint64_t iter, cursor, line;
	uint64_t forward, in_iteration, in_forward;
	uint64_t uses, cells, shown; /* since the last snapshot; in all; bytes of names */
	bool checks, has_states, has_changed;
};

static int64_t at(const struct fsdp_vec *vec, size_t index)
{
	return *(const int64_t *)fsdp_vec_at(vec, index);
}

/* ---- snapshots ---- */

/* Calls so far are in lists that only grow: their end is enough. A snapshot lists each
 * unit, however few were used: more than a few facts for each use cost the file
 * nothing, and have a ceiling. */
static void add_snapshot(struct handles *handles, uint64_t line)
{
	enum { CELLS_OF_USE = 4 };
	struct fsdp_trace_reading *reading = handles->reading;
	uint64_t most = fsdp_limit(reading->limits, FSDP_LIMIT_ORDER_CELLS);
	uint64_t earned = CELLS_OF_USE * handles->uses;
	handles->cells += handles->count > earned ? handles->count - earned : 0;
	handles->uses = 0;
	fsdp_trace_require(reading,
		handles->cells <= most ||
			fsdp_fail_limit(&reading->error, FSDP_LIMIT_ORDER_CELLS, most));
	fsdp_vec_append(&handles->snapshots,
		&(struct fsdp_order_snapshot){ .iter = handles->iter,
			.at_line = line,
			.cursor = handles->cursor,
			.pre_count = handles->pre.count,
			.post_count = handles->post.count - handles->post_begin,
			.status = status_names[handles->status] });
}

void fsdp_order_places(const struct fsdp_exec_order *order,
	const struct fsdp_order_snapshot *snapshot, int64_t *ret_pre, int64_t *ret_post)
{
	for (size_t i = 0; i < order->handle_count; i++)
		ret_pre[i] = ret_post[i] = FSDP_ABSENT;
	for (size_t i = 0; i < snapshot->pre_count; i++)
		ret_pre[snapshot->pre[i]] = (int64_t)i;
	/* The first call counts, but PyTorch takes a place of 0 for none. */
	for (size_t i = 0; i < snapshot->post_count; i++) {
		int64_t *place = &ret_post[snapshot->post[i]];
		if (*place == FSDP_ABSENT || *place == 0)
			*place = (int64_t)i;
	}
}

int64_t fsdp_order_target(const struct fsdp_order_snapshot *snapshot,
	const struct fsdp_prefetch *prefetch, int64_t place)
{
	int64_t count = (int64_t)snapshot->pre_count, limit = prefetch->limit;
	if (place == FSDP_ABSENT ||
		(prefetch->backward ? place <= 0 : place + 1 >= count))
		return FSDP_ABSENT;
	if (prefetch->backward)
		return snapshot->post[place > limit ? place - limit : 0];
	return snapshot->pre[limit < count - place ? place + limit : count - 1];
}

/* ---- the check of PyTorch ---- */

static void warn(struct handles *handles, int64_t handle, const struct handle *expected)
{
	const struct handle *found = &handles->list[handle];
	struct fsdp_python text = { .arena = &handles->reading->arena };
	fsdp_python_put(&text,
		"Forward order differs from that of the first iteration on rank %lld. Collectives are unchecked and may give incorrect results or hang.\nExpected to ",
		(long long)handles->reading->recording.rank);
	if (expected == NULL) {
		fsdp_python_put(&text,
			"not all-gather any more parameters in the forward but trying to all-gather parameters for ");
	} else {
		fsdp_python_put(&text, "all-gather for [");
		fsdp_python_add(&text, expected->names);
		fsdp_python_put(&text, "] but trying to all-gather parameters for ");
	}
	if (found->names.data == NULL) {
		fsdp_python_put(&text, "a newly-added parameter since construction time");
	} else {
		fsdp_python_put(&text, "[");
		fsdp_python_add(&text, found->names);
		fsdp_python_put(&text, "]");
	}
	fsdp_vec_append(&handles->warnings,
		&(struct fsdp_order_warning){
			handles->iter, handles->line, handle, fsdp_python_take(&text) });
	handles->status = STATUS_WARNING;
}

/* ---- events of a forward ---- */

/* Where PyTorch does not check, the first difference from the first iteration. Uses of a
 * unit that was used in this forward already do not count. */
static void find_change(struct handles *handles, int64_t index)
{
	char found[FSDP_SHOWN], expected[FSDP_SHOWN];
	uint64_t place = handles->in_forward++;
	bool known = place < handles->pre.count;
	int64_t first = known ? at(&handles->pre, (size_t)place) : FSDP_ABSENT;
	if (handles->checks || handles->iter == 0 || handles->has_changed ||
		first == index)
		return;
	handles->has_changed = true;
	fsdp_shown(fsdp_handle_name(&handles->list[index].shown), found);
	if (known)
		fsdp_shown(fsdp_handle_name(&handles->list[first].shown), expected);
	FSDP_TRACE_FIND(handles->reading, ORDER_CHANGED,
		"line %llu: iteration %llu uses %s%s%s (counted from 0)",
		FSDP_LLU(handles->line), FSDP_LLU(handles->iter), found,
		known ? ", iteration 0 used " : " after all units of iteration 0",
		known ? expected : "");
}

static void pre_forward(
	struct handles *handles, int64_t index, const struct json_line *record)
{
	struct handle *handle = &handles->list[index];
	const struct fsdp_json_token *training = get(record, "training");
	bool trains = training != NULL && training->kind == FSDP_SCAN_TRUE;
	handles->uses++;
	if (trains) {
		const struct fsdp_forward forward = { handles->iter, index };
		/* No unit has more names, so only of others they count. */
		show(handles->reading, &handles->shown,
			handle->bytes > NAMES_OF_UNIT ? handle->bytes - NAMES_OF_UNIT
						      : 0);
		fsdp_vec_append(&handles->forwards, &forward);
		handles->order->unchecked += !handles->checks;
		handles->in_iteration++;
		/* A forward begins with the unit that began the first one. */
		if (handles->pre.count == 0 || at(&handles->pre, 0) == index) {
			handles->forward++;
			handles->in_forward = 0;
		} else if (handle->used_in == handles->forward) {
			handles->order->reused++;
		}
		if (handle->used_in != handles->forward)
			find_change(handles, index);
		handle->used_in = handles->forward;
	}
	if (handles->checks && trains && handles->iter > 0 &&
		handles->status != STATUS_WARNED) {
		uint64_t place = handles->cursor++;
		bool known = place < handles->pre.count;
		int64_t expected = known ? at(&handles->pre, (size_t)place) : FSDP_ABSENT;
		if (expected != index)
			warn(handles, index, known ? &handles->list[expected] : NULL);
	}
	if (handles->iter == 0 && !handle->ordered) {
		handle->ordered = true;
		fsdp_vec_append(&handles->pre, &index);
	}
}

/* ---- training states ---- */

struct refusal {
	const char *kind, *error, *message;
	const char *state; /* after the message, or NULL */
};

/* Whether PyTorch would raise where (s, h) becomes (s2, h2); -1 is what is not given. The
 * first row that holds. */
static struct refusal find_refusal(unsigned s, unsigned h, int s2, int h2)
{
	static const char assertion[] = "AssertionError", value[] = "ValueError";
	unsigned after = s2 >= 0 ? (unsigned)s2 : s;
	bool to_post = h2 == H_POST && h != H_POST;
	const struct {
		bool holds;
		struct refusal refusal;
	} rows[] = {
		{ s2 == SUMMON && s == FORWARD_BACKWARD,
			{ "summon_in_step", assertion,
				"Cannot manually unshard parameters during forward/backward",
				NULL } },
		{ s2 == SUMMON && s == SUMMON,
			{ "summon_in_summon", assertion,
				"Cannot manually unshard parameters when already unsharding parameters",
				NULL } },
		{ h2 == H_SUMMON && h != H_IDLE && h != H_SUMMON,
			{ "unshard_not_idle", assertion,
				"Expects the handle training to be IDLE but got HandleTrainingState.",
				handle_names[h] } },
		{ h2 == H_PRE && h != H_PRE && s != IDLE,
			{ "backward_not_idle", value,
				"expected to be in states [<TrainingState.IDLE: 1>] but current state is TrainingState.",
				training_names[s] } },
		{ to_post && after != FORWARD_BACKWARD,
			{ "post_backward_outside", value,
				"expected to be in states [<TrainingState.FORWARD_BACKWARD: 2>] but current state is TrainingState.",
				training_names[s] } },
		{ to_post && s == FORWARD_BACKWARD && h != H_PRE,
			{ "post_backward_without_pre", assertion,
				"Expects `BACKWARD_PRE` or `BACKWARD_POST` state but got HandleTrainingState.",
				handle_names[h] } },
	};
	for (size_t i = 0; i < FSDP_COUNT(rows); i++)
		if (rows[i].holds)
			return rows[i].refusal;
	return (struct refusal){ 0 };
}

/* The number of a state by name: -1 absent, -2 in neither class. */
static int state_of(const struct json_line *record, const char *key,
	const char *const *names, size_t count)
{
	const struct fsdp_json_token *value = get(record, key);
	if (value == NULL || value->kind == FSDP_SCAN_NULL)
		return -1;
	for (size_t i = 0; i < count; i++)
		if (value->kind == FSDP_SCAN_TEXT &&
			fsdp_json_text_is(value, fsdp_span_text(names[i])))
			return (int)i;
	return -2;
}

static void change(
	struct handles *handles, int64_t index, const unsigned to[2], bool problem)
{
	struct fsdp_state_lane *lane = &handles->list[index].lane;
	bool training = to[0] != lane->last_training, other = to[1] != lane->last_handle;
	bool prefetch = other && (to[1] == H_FORWARD || to[1] == H_PRE) && to[0] == IDLE;
	if (!training && !other)
		return;
	fsdp_vec_append(&handles->changes,
		&(struct change){
			{ handles->line, to[0], to[1], problem, prefetch, handles->iter },
			index });
	lane->change_count++;
	lane->training_counts[to[0]] += training;
	lane->handle_counts[to[1]] += other;
	lane->prefetches += prefetch;
	lane->last_training = to[0];
	lane->last_handle = to[1];
}

static void add_states(
	struct handles *handles, int64_t index, const struct json_line *record)
{
	static const char first[] = "training_state", second[] = "handle_state";
	struct fsdp_state_lane *lane = &handles->list[index].lane;
	int s = state_of(record, first, training_names, FSDP_TRAINING_STATES);
	int h = state_of(record, second, handle_names, FSDP_HANDLE_STATES);
	if (s == -1 && h == -1)
		return;
	handles->has_states = true;
	struct refusal refusal = { 0 };
	const struct fsdp_json_token *unknown = NULL;
	if (s == -2 || h == -2) {
		refusal = (struct refusal){ "unknown_state", NULL,
			s == -2 ? "unknown training_state " : "unknown handle_state ",
			NULL };
		unknown = get(record, s == -2 ? first : second);
	}
	s = s < 0 ? -1 : s;
	h = h < 0 ? -1 : h;
	if (refusal.kind == NULL && has_text(record, "ev", "state"))
		refusal = find_refusal(lane->last_training, lane->last_handle, s, h);
	const unsigned to[2] = { s >= 0 ? (unsigned)s : lane->last_training,
		h >= 0 ? (unsigned)h : lane->last_handle };
	if (refusal.kind != NULL) {
		struct fsdp_python text = { .arena = &handles->reading->arena };
		show(handles->reading, &handles->shown, handles->list[index].bytes);
		fsdp_python_put(&text, "%s%s", refusal.message,
			refusal.state != NULL ? refusal.state : "");
		if (unknown != NULL)
			fsdp_python_add(&text, unknown->span);
		fsdp_vec_append(&handles->problems,
			&(struct fsdp_state_problem){ handles->line, index, refusal.kind,
				{ lane->last_training, lane->last_handle },
				{ to[0], to[1] }, refusal.error,
				fsdp_python_take(&text) });
	}
	change(handles, index, to, refusal.kind != NULL);
}

/* ---- lines ---- */

/* False: it is none. */
static bool add_handle_event(struct handles *handles, const struct json_line *record)
{
	int64_t index = FSDP_ABSENT;
	handles->line = handles->lines->number;
	if (has_text(record, "ev", "next_iter")) {
		add_snapshot(handles, handles->line - 1);
		if (handles->iter > 0 && handles->in_iteration != 0 &&
			handles->in_iteration < handles->pre.count)
			handles->order->stopped_early++;
		handles->iter++;
		handles->in_iteration = handles->in_forward = 0;
		handles->forward++;
		handles->post_begin = handles->post.count;
		if (handles->checks)
			handles->cursor = 0;
		if (handles->checks && handles->status == STATUS_WARNING)
			handles->status = STATUS_WARNED;
		return true;
	}
	bool pre = has_text(record, "ev", "pre_forward");
	bool post = has_text(record, "ev", "post_forward");
	if (!pre && !post && !has_text(record, "ev", "state"))
		return false;
	const struct fsdp_json_token *value = get(record, "handle");
	if (value == NULL || value->kind == FSDP_SCAN_NULL)
		return true;
	if (!get_integer(record, "handle", &index) || index < 0 ||
		(uint64_t)index >= handles->count)
		return false;
	add_states(handles, index, record);
	if (pre)
		pre_forward(handles, index, record);
	handles->uses += post;
	if (post)
		fsdp_vec_append(&handles->post, &index);
	return true;
}

/* ---- the header ---- */

/* The texts of an array, in handles->texts, and as Python prints a list of them; data
 * NULL: it is none. */
static struct fsdp_span read_texts(
	struct handles *handles, const struct fsdp_json_token *array)
{
	struct fsdp_vec *list = &handles->texts;
	struct items elements;
	struct fsdp_json_token text;
	struct fsdp_python printed = { .arena = &handles->reading->arena };
	fsdp_vec_truncate(list, 0);
	if (!begin_items(&elements, array, handles->reading->limits))
		return (struct fsdp_span){ 0 };
	fsdp_python_put(&printed, "[");
	while (next_item(&elements, &text)) {
		struct fsdp_span kept =
			fsdp_json_text_copy(&text, &handles->reading->arena);
		fsdp_vec_append(list, &kept);
		fsdp_python_put(&printed, "%s", list->count > 1 ? ", " : "");
		fsdp_python_repr(&printed, kept);
	}
	fsdp_python_put(&printed, "]");
	return fsdp_python_take(&printed);
}

static void parse_handles_header(struct handles *handles, const struct json_line *header)
{
	struct fsdp_trace_reading *reading = handles->reading;
	struct items elements;
	struct fsdp_json_token object;
	struct fsdp_vec list;
	fsdp_vec_init(&list, reading->scratch, sizeof(struct handle));
	handles->limits[0] = handles->limits[1] = FSDP_ABSENT;
	get_integer(header, "backward_prefetch_limit", &handles->limits[0]);
	get_integer(header, "forward_prefetch_limit", &handles->limits[1]);
	for (int i = 0; i < 2; i++)
		if (handles->limits[i] < 0 && handles->limits[i] != FSDP_ABSENT)
			handles->limits[i] = 0;
	begin_items(&elements, get(header, "handles"), reading->limits);
	while (next_item(&elements, &object)) {
		struct handle handle = { .shown.id = (int64_t)list.count };
		struct json_line record = { 0 };
		if (object.kind == FSDP_SCAN_OBJECT &&
			read_record(object.span, reading->limits, &record)) {
			get_integer(&record, "id", &handle.shown.id);
			read_texts(handles, get(&record, "fqns"));
			handle.shown.fqns = fsdp_trace_flat(reading, &handles->texts);
			handle.shown.fqn_count = handles->texts.count;
			for (size_t i = 0; i < handles->texts.count; i++)
				handle.bytes += handle.shown.fqns[i].size + SHOWN_LEAST;
			handle.names = read_texts(handles, get(&record, "names"));
			handle.shown.module = get_text(reading, &record, "module");
		}
		fsdp_vec_append(&list, &handle);
	}
	handles->list = fsdp_trace_flat(reading, &list);
	handles->count = list.count;
}

/* ---- the end ---- */

static void read_handles(struct fsdp_trace_reading *reading, struct fsdp_lines *lines,
	const struct json_line *header)
{
	struct fsdp_arena *scratch = reading->scratch;
	struct handles handles = { .reading = reading, .lines = lines, .line = 1 };
	struct json_line record;
	fsdp_vec_init(&handles.pre, scratch, sizeof(int64_t));
	fsdp_vec_init(&handles.post, scratch, sizeof(int64_t));
	fsdp_vec_init(&handles.snapshots, scratch, sizeof(struct fsdp_order_snapshot));
	fsdp_vec_init(&handles.warnings, scratch, sizeof(struct fsdp_order_warning));
	fsdp_vec_init(&handles.problems, scratch, sizeof(struct fsdp_state_problem));
	fsdp_vec_init(&handles.forwards, scratch, sizeof(struct fsdp_forward));
	fsdp_vec_init(&handles.changes, scratch, sizeof(struct change));
	fsdp_vec_init(&handles.texts, scratch, sizeof(struct fsdp_span));
	handles.checks = fsdp_span_is(reading->recording.debug_level, "DETAIL");
	handles.order = FSDP_TAKE(&reading->arena, handles.order, 1);
	parse_handles_header(&handles, header);
	while (next_record(lines, &record))
		reading->recording.skipped += !add_handle_event(&handles, &record);
	struct fsdp_exec_order *order = handles.order;
	size_t count = handles.count;
	struct fsdp_handle *shown = FSDP_TAKE(&reading->arena, shown, count);
	struct fsdp_state_lane *lanes = FSDP_TAKE(&reading->arena, lanes, count);
	struct fsdp_state_change *changes =
		FSDP_TAKE(&reading->arena, changes, handles.changes.count);
	struct change *list = fsdp_vec_flat(&handles.changes, scratch);
	FSDP_SORT(list, handles.changes.count, FSDP_BY(list, handle),
		FSDP_BY(list, shown.line));
	for (size_t i = 0; i < handles.changes.count; i++)
		changes[i] = list[i].shown;
	add_snapshot(&handles, handles.line);
	const int64_t *pre = fsdp_trace_flat(reading, &handles.pre);
	const int64_t *post = fsdp_trace_flat(reading, &handles.post);
	struct fsdp_order_snapshot *snapshots =
		fsdp_trace_flat(reading, &handles.snapshots);
	for (size_t i = 0; i < handles.snapshots.count; i++) {
		snapshots[i].pre = pre;
		snapshots[i].post = post;
		post += snapshots[i].post_count;
	}
	for (size_t i = 0; i < count; i++) {
		shown[i] = handles.list[i].shown;
		lanes[i] = handles.list[i].lane;
		lanes[i].unit = &shown[i];
		lanes[i].handle = i;
		lanes[i].changes = changes;
		changes += lanes[i].change_count;
	}
	order->handles = shown;
	order->handle_count = count;
	order->lanes = handles.has_states ? lanes : NULL;
	order->snapshots = snapshots;
	order->snapshot_count = handles.snapshots.count;
	/* 1 to 3 and the recording's own limit, in order. */
	struct fsdp_prefetch *prefetches = FSDP_TAKE(&reading->arena, prefetches, 8);
	order->prefetches = prefetches;
	for (int way = 0; way < 2; way++) {
		int64_t own = handles.limits[way];
		const int64_t limits[] = { own < 1 ? own : FSDP_ABSENT, 1, 2, 3,
			own > 3 ? own : FSDP_ABSENT };
		for (size_t i = 0; i < FSDP_COUNT(limits); i++)
			if (limits[i] != FSDP_ABSENT)
				prefetches[order->prefetch_count++] =
					(struct fsdp_prefetch){ way == 0, limits[i] };
	}
	order->warnings = fsdp_trace_flat(reading, &handles.warnings);
	order->warning_count = handles.warnings.count;
	order->problems = fsdp_trace_flat(reading, &handles.problems);
	order->problem_count = handles.problems.count;
	order->forwards = fsdp_trace_flat(reading, &handles.forwards);
	order->forward_count = handles.forwards.count;
	reading->recording.order = order;
}

/* ---- recordings that are equal ---- */

struct fsdp_span fsdp_handle_name(const struct fsdp_handle *handle)
{
	return handle->module.size != 0 ? handle->module
	       : handle->fqn_count != 0 ? handle->fqns[0]
					: fsdp_span_text("(root)");
}

static bool same_list(const int64_t *a, size_t a_count, const int64_t *b, size_t b_count)
{
	return a_count == b_count &&
	       (a_count == 0 || memcmp(a, b, a_count * sizeof *a) == 0);
}

static bool same_lane(const struct fsdp_state_lane *a, const struct fsdp_state_lane *b)
{
	if (a->change_count != b->change_count || a->prefetches != b->prefetches)
		return false;
	for (size_t i = 0; i < a->change_count; i++)
		if (a->changes[i].training != b->changes[i].training ||
			a->changes[i].handle != b->changes[i].handle)
			return false;
	return true;
}

bool fsdp_exec_order_equal(
	const struct fsdp_exec_order *a, const struct fsdp_exec_order *b)
{
	const struct fsdp_order_snapshot *left = &a->snapshots[0];
	const struct fsdp_order_snapshot *right = &b->snapshots[0];
	if (a->handle_count != b->handle_count ||
		a->snapshot_count != b->snapshot_count ||
		a->prefetch_count != b->prefetch_count ||
		a->forward_count != b->forward_count ||
		(a->lanes == NULL) != (b->lanes == NULL) ||
		!same_list(left->pre, left->pre_count, right->pre, right->pre_count) ||
		!same_list(left->post, left->post_count, right->post, right->post_count))
		return false;
	for (size_t i = 0; i < a->handle_count; i++)
		if (a->handles[i].id != b->handles[i].id ||
			!fsdp_span_equal(fsdp_handle_name(&a->handles[i]),
				fsdp_handle_name(&b->handles[i])) ||
			(a->lanes != NULL && !same_lane(&a->lanes[i], &b->lanes[i])))
			return false;
	for (size_t i = 0; i < a->forward_count; i++)
		if (a->forwards[i].iter != b->forwards[i].iter ||
			a->forwards[i].handle != b->forwards[i].handle)
			return false;
	return true;
}

/* ---- all kinds ---- */

enum { VERSION = 1 };

static bool bid_native(struct fsdp_span head)
{
	struct fsdp_span line = fsdp_span_first(head, '\n');
	return line.size != 0 && line.data[0] == '{' &&
	       fsdp_span_has(line, "\"fsdp-inspect-trace\"", false);
}

static const struct {
	const char *name;
	enum fsdp_recording_kind kind;
	void (*read)(struct fsdp_trace_reading *reading, struct fsdp_lines *lines,
		const struct json_line *header);
} kinds[] = {
	{ "simple_profiler", FSDP_RECORDING_PROFILE, read_profile },
	{ "fx_exec_order", FSDP_RECORDING_FX_ORDER, read_fx },
	{ "exec_order", FSDP_RECORDING_EXEC_ORDER, read_handles },
};

static void read_native(struct fsdp_trace_reading *reading)
{
	struct fsdp_lines *lines = fsdp_lines_new(reading);
	struct fsdp_recording *recording = &reading->recording;
	struct fsdp_error **error = &reading->error;
	struct json_line header;
	int64_t version = VERSION;
	fsdp_trace_require(
		reading, next_record(lines, &header) ||
				 fsdp_fail(error, FSDP_ERROR_DAMAGED, 0,
					 "the header of this recording cannot be read"));
	get_integer(&header, "version", &version);
	if (version != VERSION) {
		fsdp_fail(error, FSDP_ERROR_UNSUPPORTED, 0,
			"version %lld of this recording is newer than %d, which is known",
			(long long)version, VERSION);
		fsdp_trace_require(
			reading, fsdp_error_add_hint(error, "use a newer fsdp-inspect"));
	}
	if (get_integer(&header, "rank", &recording->rank))
		recording->rank_from = FSDP_RANK_FROM_FILE;
	get_integer(&header, "world_size", &recording->world_size);
	recording->debug_level = get_text(reading, &header, "debug_level");
	for (size_t i = 0; i < FSDP_COUNT(kinds); i++) {
		if (!has_text(&header, "kind", kinds[i].name))
			continue;
		recording->kind = kinds[i].kind;
		kinds[i].read(reading, lines, &header);
		fsdp_lines_finish(lines);
		return;
	}
	struct fsdp_span kind = get_text(reading, &header, "kind");
	fsdp_fail(error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
		"unknown kind of recording: '%.*s'",
		(int)(kind.size < 80 ? kind.size : 80),
		kind.data != NULL ? (const char *)kind.data : "");
	fsdp_error_add_kind(error, "unknown_kind");
	fsdp_trace_require(reading,
		fsdp_error_add_hint(error,
			"the kinds are simple_profiler, fx_exec_order and exec_order"));
}

const struct fsdp_trace_reader fsdp_trace_native = { bid_native, read_native };
