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
	uint32_t number;
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

static uint32_t number_at(const struct fsdp_vec *vec, size_t index)
{
	return *(const uint32_t *)fsdp_vec_at(vec, index);
}

/* ---- numbers ---- */

/* The number of an id, whose row is made if it is new. FSDP_NONE: an error says why. */
static uint32_t number_of(
	struct fx *fx, struct fsdp_names *ids, struct fsdp_vec *rows, int64_t id)
{
	uint32_t name = fsdp_names_child(ids, 0, fsdp_span(&id, sizeof id));
	if (name == FSDP_NONE || (name > rows->count && fsdp_vec_push(rows) == NULL)) {
		fsdp_trace_memory(fx->reading);
		return FSDP_NONE;
	}
	return name - 1;
}

static struct module *module_at(const struct fx *fx, uint32_t number)
{
	return fsdp_vec_at(&fx->modules, number);
}

/* The module of that id, made if it is not there. FSDP_NONE: it has no such id, or an
 * error says why. */
static uint32_t number_of_module(struct fx *fx, int64_t id)
{
	uint32_t number =
		id >= 0 ? number_of(fx, &fx->module_ids, &fx->modules, id) : FSDP_NONE;
	if (number != FSDP_NONE)
		module_at(fx, number)->id = id;
	return number;
}

/* The module that a member of the record names, or FSDP_NONE. */
static uint32_t module_of(
	struct fx *fx, const struct fsdp_record *record, const char *member)
{
	int64_t id;
	return fsdp_record_integer(record, member, &id) ? number_of_module(fx, id)
							: FSDP_NONE;
}

/* The same for a parameter; its id is not negative. */
static uint32_t number_of_param(struct fx *fx, int64_t id)
{
	return number_of(fx, &fx->param_ids, &fx->params, id);
}

static struct param *param_at(const struct fx *fx, uint32_t number)
{
	return fsdp_vec_at(&fx->params, number);
}

static bool skip(struct fx *fx)
{
	fx->reading->recording.skipped++;
	return fx->reading->error == NULL;
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
	if (ret_param->name.data == NULL)
		return fsdp_trace_memory(fx->reading);
	return fsdp_items_next(&elements, &number) && number.kind == FSDP_SCAN_NUMBER &&
	       fsdp_decimal_integer(number.span, &ret_param->param);
}

/* The pairs of an array, in fx->found. *ret_good false: something in there is none. */
static bool read_pairs(struct fx *fx, const struct fsdp_json_token *array, bool *ret_good)
{
	struct fsdp_items elements;
	struct fsdp_json_token pair;
	fsdp_vec_truncate(&fx->found, 0);
	fsdp_items_begin(&elements, array, fx->reading->limits);
	*ret_good = true;
	while (*ret_good && fsdp_items_next(&elements, &pair)) {
		struct fsdp_named_param param;
		*ret_good = read_pair(fx, &pair, &param);
		if (*ret_good && !fsdp_vec_add(&fx->found, &param))
			return fsdp_trace_memory(fx->reading);
	}
	return fx->reading->error == NULL;
}

static bool add_module(struct fx *fx, const struct fsdp_record *record)
{
	bool good;
	uint32_t number = module_of(fx, record, "id");
	if (number == FSDP_NONE)
		return skip(fx);
	if (!read_pairs(fx, fsdp_record_get(record, "params"), &good))
		return false;
	if (!good)
		return skip(fx);
	struct module *module = module_at(fx, number);
	module->params = fsdp_trace_flat(fx->reading, &fx->found);
	module->param_count = fx->found.count;
	module->visited = false;
	module->bytes = 0;
	for (size_t i = 0; module->params != NULL && i < module->param_count; i++)
		module->bytes += module->params[i].name.size + SHOWN_LEAST;
	return module->params != NULL &&
	       fsdp_record_text(fx->reading, record, "fqn", &module->fqn);
}

/* ---- what is used ---- */

static bool use(
	struct fx *fx, uint32_t of, const struct fsdp_named_param *params, size_t count)
{
	struct module *current = module_at(fx, fx->current);
	uint32_t place = (uint32_t)fx->uses.count;
	struct module_use *use = place != FSDP_NONE ? fsdp_vec_push(&fx->uses) : NULL;
	if (use == NULL)
		return false;
	*use = (struct module_use){ { module_at(fx, of)->id, params, count }, FSDP_NONE };
	if (current->use_count++ == 0)
		current->first = place;
	else
		((struct module_use *)fsdp_vec_at(&fx->uses, current->last))->next =
			place;
	current->last = place;
	return true;
}

static bool visit(struct fx *fx, const struct fsdp_named_param *params, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (params[i].param < 0)
			continue;
		uint32_t number = number_of_param(fx, params[i].param);
		if (number == FSDP_NONE)
			return false;
		struct param *param = param_at(fx, number);
		if (!param->seen && !fsdp_vec_add(&fx->visited, &params[i].param))
			return false;
		param->seen = true;
	}
	return true;
}

static bool open_list(struct fx *fx, uint32_t number)
{
	struct module *module = module_at(fx, number);
	module->use_count = 0;
	if (module->used)
		return true;
	module->used = true;
	return fsdp_vec_add(&fx->keys, &number);
}

/* Uses all parameters of a module in the current one. */
static bool use_module(struct fx *fx, uint32_t number)
{
	const struct module *module = module_at(fx, number);
	return module->param_count == 0 ||
	       (fsdp_trace_show(fx->reading, &fx->shown, module->bytes) &&
		       use(fx, number, module->params, module->param_count));
}

/* Uses the parameters among the targets of the arguments. */
static bool use_targets(struct fx *fx, const struct fsdp_record *record)
{
	struct fsdp_items elements;
	struct fsdp_json_token element;
	fsdp_vec_truncate(&fx->found, 0);
	fsdp_items_begin(&elements, fsdp_record_get(record, "args"), fx->reading->limits);
	while (fsdp_items_next(&elements, &element)) {
		struct fsdp_record argument;
		struct fsdp_named_param param;
		if (element.kind != FSDP_SCAN_OBJECT ||
			!fsdp_record_read(element.span, fx->reading->limits, &argument))
			continue;
		if (!fsdp_record_text(fx->reading, &argument, "target", &param.name))
			return false;
		uint32_t id = param.name.data != NULL
				      ? fsdp_names_find_child(&fx->fqns, 0, param.name)
				      : FSDP_NONE;
		if (id == FSDP_NONE)
			continue;
		param.param = *(int64_t *)fsdp_vec_at(&fx->named, id - 1);
		if (!fsdp_vec_add(&fx->found, &param))
			return false;
	}
	size_t count = fx->found.count;
	const struct fsdp_named_param *params = fsdp_trace_flat(fx->reading, &fx->found);
	return params != NULL && (count == 0 || (use(fx, fx->current, params, count) &&
							visit(fx, params, count)));
}

static bool add_event(struct fx *fx, const struct fsdp_record *record, bool *stop)
{
	if (fsdp_record_is(record, "ev", "param")) {
		struct fsdp_named_param param;
		if (!fsdp_record_integer(record, "id", &param.param) ||
			!fsdp_record_text(fx->reading, record, "fqn", &param.name) ||
			param.name.data == NULL || param.param < 0)
			return skip(fx);
		uint32_t id = fsdp_names_child(&fx->fqns, 0, param.name);
		uint32_t number = number_of_param(fx, param.param);
		if (id == FSDP_NONE || number == FSDP_NONE)
			return false;
		const struct declared declared = { param.name, number };
		int64_t *named = id > fx->named.count ? fsdp_vec_push(&fx->named)
						      : fsdp_vec_at(&fx->named, id - 1);
		if (named == NULL || !fsdp_vec_add(&fx->declared, &declared))
			return false;
		*named = param.param;
		param_at(fx, number)->name = param.name;
		return true;
	}
	if (fsdp_record_is(record, "ev", "module"))
		return add_module(fx, record);
	if (fsdp_record_is(record, "ev", "call_module")) {
		uint32_t number = module_of(fx, record, "module");
		if (number == FSDP_NONE)
			return skip(fx);
		if (!fsdp_vec_add(&fx->called, &number) || !use_module(fx, number) ||
			!fsdp_vec_add(&fx->stack, &fx->current))
			return false;
		fx->current = number;
		return open_list(fx, number);
	}
	if (fsdp_record_is(record, "ev", "create_proxy")) {
		struct module *module = module_at(fx, fx->current);
		if (fsdp_record_is(record, "kind", "call_function") ||
			fsdp_record_is(record, "kind", "call_method"))
			return use_targets(fx, record);
		if (!fsdp_record_is(record, "kind", "call_module") ||
			module->param_count == 0)
			return true;
		if (!use_module(fx, fx->current) ||
			(!module->visited &&
				!visit(fx, module->params, module->param_count)))
			return false;
		module->visited = true;
		return true;
	}
	if (fsdp_record_is(record, "ev", "end_module")) {
		size_t count = fx->stack.count;
		if (count != 0) {
			fx->current = number_at(&fx->stack, count - 1);
			fsdp_vec_truncate(&fx->stack, count - 1);
		}
		return true;
	}
	if (fsdp_record_is(record, "ev", "abort")) {
		*stop = true;
		if (!fsdp_record_text(fx->reading, record, "error", &fx->order->aborted))
			return false;
		if (fx->order->aborted.data == NULL)
			fx->order->aborted = FSDP_SPAN("");
		return true;
	}
	return skip(fx);
}

/* ---- the end ---- */

static bool list_usages(struct fx *fx)
{
	struct fsdp_arena *arena = &fx->reading->arena;
	struct fsdp_module_usage *list = FSDP_TAKE(arena, list, fx->keys.count);
	if (list == NULL)
		return false;
	for (size_t i = 0; i < fx->keys.count; i++) {
		const struct module *module = module_at(fx, number_at(&fx->keys, i));
		struct fsdp_usage *usages = FSDP_TAKE(arena, usages, module->use_count);
		uint32_t at = module->first;
		if (usages == NULL)
			return false;
		for (size_t j = 0; j < module->use_count; j++) {
			const struct module_use *use = fsdp_vec_at(&fx->uses, at);
			usages[j] = use->shown;
			at = use->next;
		}
		list[i] = (struct fsdp_module_usage){ module->id, usages,
			module->use_count };
	}
	fx->order->usages = list;
	fx->order->usage_count = fx->keys.count;
	return true;
}

/* The last declared name of each. */
static bool name_params(struct fx *fx)
{
	struct fsdp_fx_order *order = fx->order;
	struct fsdp_arena *arena = &fx->reading->arena;
	struct fsdp_span *names = FSDP_TAKE(arena, names, fx->visited.count);
	struct fsdp_span *never = FSDP_TAKE(arena, never, fx->declared.count);
	order->params = fsdp_trace_flat(fx->reading, &fx->visited);
	order->param_names = names;
	order->param_count = fx->visited.count;
	order->never_visited = never;
	if (names == NULL || never == NULL || order->params == NULL)
		return false;
	for (size_t i = 0; i < fx->declared.count; i++) {
		const struct declared *one = fsdp_vec_at(&fx->declared, i);
		if (!param_at(fx, one->number)->seen)
			never[order->never_visited_count++] = one->name;
	}
	for (size_t i = 0; i < order->param_count; i++) {
		uint32_t number = number_of_param(fx, order->params[i]);
		names[i] = param_at(fx, number)->name;
	}
	return true;
}

static bool parse_header(struct fx *fx, const struct fsdp_record *header)
{
	struct fsdp_fx_order *order = fx->order;
	const struct fsdp_json_token *args = fsdp_record_get(header, "concrete_args");
	struct fsdp_items elements;
	struct fsdp_json_token arg;
	struct fsdp_vec list;
	fsdp_vec_init(&list, &fx->reading->arena, sizeof(struct fsdp_span));
	order->has_concrete_args = args != NULL;
	order->concrete_args_null = args != NULL && args->kind == FSDP_SCAN_NULL;
	fsdp_items_begin(&elements, args, fx->reading->limits);
	while (fsdp_items_next(&elements, &arg)) {
		if (arg.kind != FSDP_SCAN_TEXT)
			continue;
		struct fsdp_span name = fsdp_json_text_copy(&arg, &fx->reading->arena);
		if (name.data == NULL || !fsdp_vec_add(&list, &name))
			return false;
	}
	order->concrete_args = fsdp_trace_flat(fx->reading, &list);
	order->concrete_arg_count = list.count;
	return order->concrete_args != NULL &&
	       fsdp_record_text(fx->reading, header, "root", &order->root) &&
	       fsdp_record_text(fx->reading, header, "torch", &order->torch) &&
	       fsdp_record_text(fx->reading, header, "tracer", &order->tracer);
}

static bool begin(struct fx *fx, const struct fsdp_record *header)
{
	struct fsdp_arena *arena = &fx->reading->arena;
	fsdp_vec_init(&fx->modules, arena, sizeof(struct module));
	fsdp_vec_init(&fx->params, arena, sizeof(struct param));
	fsdp_vec_init(&fx->declared, arena, sizeof(struct declared));
	fsdp_vec_init(&fx->named, arena, sizeof(int64_t));
	fsdp_vec_init(&fx->uses, arena, sizeof(struct module_use));
	fsdp_vec_init(&fx->called, arena, sizeof(uint32_t));
	fsdp_vec_init(&fx->keys, arena, sizeof(uint32_t));
	fsdp_vec_init(&fx->stack, arena, sizeof(uint32_t));
	fsdp_vec_init(&fx->visited, arena, sizeof(int64_t));
	fsdp_vec_init(&fx->found, arena, sizeof(struct fsdp_named_param));
	fx->order = FSDP_TAKE(arena, fx->order, 1);
	if (fx->order == NULL || !fsdp_names_init(&fx->fqns, arena) ||
		!fsdp_names_init(&fx->module_ids, arena) ||
		!fsdp_names_init(&fx->param_ids, arena))
		return false;
	fx->module_ids.copies = fx->param_ids.copies = arena;
	uint32_t root = number_of_module(fx, 0);
	return root != FSDP_NONE && parse_header(fx, header) &&
	       fsdp_vec_add(&fx->called, &root) && open_list(fx, root);
}

bool fsdp_trace_fx(struct fsdp_trace_reading *reading, struct fsdp_lines *lines,
	const struct fsdp_record *header)
{
	struct fx fx = { .reading = reading };
	struct fsdp_record record;
	bool stop = false, good = begin(&fx, header);
	while (good && !stop && fsdp_record_next(reading, lines, &record))
		good = add_event(&fx, &record, &stop);
	if (!good || reading->error != NULL)
		return false;
	fx.order->current = module_at(&fx, fx.current)->id;
	reading->recording.fx = fx.order;
	struct fsdp_fx_order *order = fx.order;
	size_t count = fx.called.count;
	struct fsdp_span *names = FSDP_TAKE(&fx.reading->arena, names, count);
	int64_t *ids = FSDP_TAKE(&fx.reading->arena, ids, count);
	order->modules = ids;
	order->module_names = names;
	order->module_count = count;
	if (names == NULL || ids == NULL)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct module *module = module_at(&fx, number_at(&fx.called, i));
		ids[i] = module->id;
		names[i] = module->id == 0 ? FSDP_SPAN("(root)") : module->fqn;
		if (names[i].data == NULL)
			names[i] = FSDP_SPAN("");
		if (!fsdp_trace_show(fx.reading, &fx.shown, names[i].size))
			return false;
	}
	return list_usages(&fx) && name_params(&fx);
}
