/* SPDX-License-Identifier: Apache-2.0 */
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
#include <fsdp/order.h>

#include "base/sort.h"
#include "trace/event.h"

/* Of a parameter in a list of uses, in addition to its name. */
enum { SHOWN_LEAST = 16 };

struct module_use {
	struct fsdp_usage shown;
	uint32_t next; /* of the same module; FSDP_NONE: it is the last */
};

struct module {
	int64_t id;
	struct fsdp_span fqn;
	const struct fsdp_named_param *params;
	size_t param_count;
	uint64_t bytes;       /* of the names of its parameters, as often as shown */
	bool used;            /* it has a list of uses */
	bool visited;         /* all of its parameters are */
	uint32_t first, last; /* of its uses */
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
	struct fx *fx, const struct fsdp_record *record, const char *member)
{
	int64_t id;
	if (!fsdp_record_integer(record, member, &id) || id < 0)
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
	struct fsdp_items elements;
	struct fsdp_json_token name, number;
	if (!fsdp_items_begin(&elements, pair, fx->reading->limits) ||
		!fsdp_items_next(&elements, &name) || name.kind != FSDP_SCAN_TEXT)
		return false;
	ret_param->name = fsdp_json_text_copy(&name, &fx->reading->arena);
	return fsdp_items_next(&elements, &number) && number.kind == FSDP_SCAN_NUMBER &&
	       fsdp_decimal_integer(number.span, &ret_param->param);
}

/* False: no module with an id, or something among its parameters is none. */
static bool add_module(struct fx *fx, const struct fsdp_record *record)
{
	struct fsdp_trace_reading *reading = fx->reading;
	struct fsdp_items elements;
	struct fsdp_json_token pair;
	struct fsdp_named_param param;
	uint32_t number = module_of(fx, record, "id");
	if (number == FSDP_NONE)
		return false;
	fsdp_vec_truncate(&fx->found, 0);
	fsdp_items_begin(&elements, fsdp_record_get(record, "params"), reading->limits);
	while (fsdp_items_next(&elements, &pair)) {
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
	module->fqn = fsdp_record_text(reading, record, "fqn");
	return true;
}

/* ---- what is used ---- */

static void use(
	struct fx *fx, uint32_t of, const struct fsdp_named_param *params, size_t count)
{
	struct module *current = module_at(fx, fx->current);
	uint32_t place = (uint32_t)fx->uses.count;
	const struct module_use use = { { module_at(fx, of)->id, params, count },
		FSDP_NONE };
	if (place == FSDP_NONE)
		fsdp_arena_leave(&fx->reading->arena);
	fsdp_vec_append(&fx->uses, &use);
	if (current->use_count++ == 0)
		current->first = place;
	else
		((struct module_use *)fsdp_vec_at(&fx->uses, current->last))->next =
			place;
	current->last = place;
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
	fsdp_trace_show(fx->reading, &fx->shown, module->bytes);
	use(fx, number, module->params, module->param_count);
}

/* A module is the current one: its list of uses begins. */
static void enter(struct fx *fx, uint32_t number)
{
	struct module *module = module_at(fx, number);
	fsdp_vec_append(&fx->called, &number);
	fx->current = number;
	module->use_count = 0;
	if (!module->used)
		fsdp_vec_append(&fx->keys, &number);
	module->used = true;
}

/* Uses the parameters among the targets of the arguments. */
static void use_targets(struct fx *fx, const struct fsdp_record *record)
{
	struct fsdp_trace_reading *reading = fx->reading;
	struct fsdp_items elements;
	struct fsdp_json_token element;
	fsdp_vec_truncate(&fx->found, 0);
	fsdp_items_begin(&elements, fsdp_record_get(record, "args"), reading->limits);
	while (fsdp_items_next(&elements, &element)) {
		struct fsdp_record argument;
		struct fsdp_named_param param;
		if (element.kind != FSDP_SCAN_OBJECT ||
			!fsdp_record_read(element.span, reading->limits, &argument))
			continue;
		param.name = fsdp_record_text(reading, &argument, "target");
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
static bool add_event(struct fx *fx, const struct fsdp_record *record)
{
	struct module *module = module_at(fx, fx->current);
	if (fsdp_record_is(record, "ev", "param")) {
		struct fsdp_span fqn = fsdp_record_text(fx->reading, record, "fqn");
		int64_t id;
		if (!fsdp_record_integer(record, "id", &id) || fqn.data == NULL || id < 0)
			return false;
		uint32_t name = fsdp_names_child(&fx->fqns, 0, fqn) - 1;
		param_of(fx, id)->name = fqn;
		fsdp_vec_append(&fx->declared, &(struct declared){ fqn, id });
		*(int64_t *)fsdp_vec_reach(&fx->named, name) = id;
	} else if (fsdp_record_is(record, "ev", "module")) {
		return add_module(fx, record);
	} else if (fsdp_record_is(record, "ev", "call_module")) {
		uint32_t number = module_of(fx, record, "module");
		if (number == FSDP_NONE)
			return false;
		use_module(fx, number);
		fsdp_vec_append(&fx->stack, &fx->current);
		enter(fx, number);
	} else if (fsdp_record_is(record, "ev", "create_proxy")) {
		if (fsdp_record_is(record, "kind", "call_function") ||
			fsdp_record_is(record, "kind", "call_method")) {
			use_targets(fx, record);
		} else if (fsdp_record_is(record, "kind", "call_module") &&
			   module->param_count != 0) {
			use_module(fx, fx->current);
			if (!module->visited)
				visit(fx, module->params, module->param_count);
			module->visited = true;
		}
	} else if (fsdp_record_is(record, "ev", "end_module")) {
		size_t count = fx->stack.count;
		if (count != 0) {
			fx->current = *(uint32_t *)fsdp_vec_at(&fx->stack, count - 1);
			fsdp_vec_truncate(&fx->stack, count - 1);
		}
	} else if (fsdp_record_is(record, "ev", "abort")) {
		fx->order->aborted = fsdp_record_text(fx->reading, record, "error");
		if (fx->order->aborted.data == NULL)
			fx->order->aborted = FSDP_SPAN("");
	} else {
		return false;
	}
	return true;
}

/* ---- the end ---- */

static void parse_header(struct fx *fx, const struct fsdp_record *header)
{
	struct fsdp_fx_order *order = fx->order;
	struct fsdp_trace_reading *reading = fx->reading;
	const struct fsdp_json_token *args = fsdp_record_get(header, "concrete_args");
	struct fsdp_items elements;
	struct fsdp_json_token arg;
	struct fsdp_vec list;
	fsdp_vec_init(&list, reading->scratch, sizeof(struct fsdp_span));
	order->has_concrete_args = args != NULL;
	order->concrete_args_null = args != NULL && args->kind == FSDP_SCAN_NULL;
	fsdp_items_begin(&elements, args, reading->limits);
	while (fsdp_items_next(&elements, &arg)) {
		if (arg.kind != FSDP_SCAN_TEXT)
			continue;
		struct fsdp_span name = fsdp_json_text_copy(&arg, &reading->arena);
		fsdp_vec_append(&list, &name);
	}
	order->concrete_args = fsdp_trace_flat(reading, &list);
	order->concrete_arg_count = list.count;
	order->root = fsdp_record_text(reading, header, "root");
	order->torch = fsdp_record_text(reading, header, "torch");
	order->tracer = fsdp_record_text(reading, header, "tracer");
}

void fsdp_trace_fx(struct fsdp_trace_reading *reading, struct fsdp_lines *lines,
	const struct fsdp_record *header)
{
	struct fx fx = { .reading = reading };
	struct fsdp_record record;
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
	parse_header(&fx, header);
	fsdp_vec_append(&fx.modules, &(struct module){ 0 });
	enter(&fx, number_of(&fx.module_ids, 0));
	while (fx.order->aborted.data == NULL && fsdp_record_next(lines, &record))
		reading->recording.skipped += !add_event(&fx, &record);
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
		fsdp_trace_show(fx.reading, &fx.shown, names[i].size);
	}
	for (size_t i = 0; i < keys; i++) {
		const struct module *module =
			module_at(&fx, *(uint32_t *)fsdp_vec_at(&fx.keys, i));
		struct fsdp_usage *usages = FSDP_TAKE(arena, usages, module->use_count);
		uint32_t at = module->first;
		for (size_t j = 0; j < module->use_count; j++) {
			const struct module_use *use = fsdp_vec_at(&fx.uses, at);
			usages[j] = use->shown;
			at = use->next;
		}
		list[i] = (struct fsdp_module_usage){ module->id, usages,
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
