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
#include <stdlib.h>

#include "base/num.h"
#include "trace/event.h"

struct module {
	struct fsdp_span fqn;
	const struct fsdp_named_param *params;
	size_t param_count;
	bool used;              /* it has a list of uses */
	struct fsdp_vec usages; /* struct fsdp_usage */
};

struct fx {
	struct fsdp_reading *reading;
	struct fsdp_fx_order *order;
	struct fsdp_vec modules;   /* struct module, by id */
	struct fsdp_vec params;    /* struct fsdp_named_param, as declared */
	struct fsdp_names fqns;    /* of parameters */
	struct fsdp_vec param_ids; /* int64_t, by the id of the name less one */
	struct fsdp_vec called, keys, stack, visited; /* int64_t */
	struct fsdp_vec seen; /* unsigned char, by id of a parameter */
	int64_t current;
};

enum { IDS = 16 << 20 }; /* modules or parameters are numbered from 0 */

static bool out_of_memory(struct fx *fx)
{
	return fsdp_trace_memory(fx->reading);
}

static bool push(struct fx *fx, struct fsdp_vec *vec, int64_t value)
{
	int64_t *item = fsdp_vec_push(vec);
	if (item == NULL)
		return out_of_memory(fx);
	*item = value;
	return true;
}

/* The module of that number, made if it is not there. NULL: no such number, or no
 * memory. */
static struct module *module_at(struct fx *fx, int64_t id)
{
	if (id < 0 || id >= IDS)
		return NULL;
	while (fx->modules.count <= (size_t)id) {
		struct module *fresh = fsdp_vec_push(&fx->modules);
		if (fresh == NULL) {
			out_of_memory(fx);
			return NULL;
		}
		*fresh = (struct module){ 0 };
		fsdp_vec_init(
			&fresh->usages, &fx->reading->arena, sizeof(struct fsdp_usage));
	}
	return fsdp_vec_at(&fx->modules, (size_t)id);
}

static bool skip(struct fx *fx)
{
	fx->reading->recording.skipped++;
	return fx->reading->error == NULL;
}

/* ---- what there is ---- */

static bool add_param(struct fx *fx, const struct fsdp_record *record)
{
	struct fsdp_named_param param;
	if (!fsdp_record_integer(record, "id", &param.param) ||
		!fsdp_record_text(fx->reading, record, "fqn", &param.name) ||
		param.name.data == NULL || param.param < 0 || param.param >= IDS)
		return skip(fx);
	uint32_t id = fsdp_names_child(&fx->fqns, 0, param.name);
	struct fsdp_named_param *kept = fsdp_vec_push(&fx->params);
	if (id == FSDP_NONE || kept == NULL)
		return out_of_memory(fx);
	*kept = param;
	if (id > fx->param_ids.count)
		return push(fx, &fx->param_ids, param.param);
	*(int64_t *)fsdp_vec_at(&fx->param_ids, id - 1) = param.param;
	return true;
}

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
		return out_of_memory(fx);
	return fsdp_items_next(&elements, &number) && number.kind == FSDP_SCAN_NUMBER &&
	       fsdp_decimal_integer(number.span, &ret_param->param);
}

static bool add_module(struct fx *fx, const struct fsdp_record *record)
{
	int64_t id;
	struct fsdp_items elements;
	struct fsdp_json_token pair;
	struct fsdp_vec params;
	struct module *module =
		fsdp_record_integer(record, "id", &id) ? module_at(fx, id) : NULL;
	if (module == NULL)
		return skip(fx);
	fsdp_vec_init(&params, &fx->reading->arena, sizeof(struct fsdp_named_param));
	fsdp_items_begin(
		&elements, fsdp_record_get(record, "params"), fx->reading->limits);
	while (fsdp_items_next(&elements, &pair)) {
		struct fsdp_named_param param, *kept;
		if (!read_pair(fx, &pair, &param))
			return skip(fx);
		kept = fsdp_vec_push(&params);
		if (kept == NULL)
			return out_of_memory(fx);
		*kept = param;
	}
	module->params = fsdp_trace_flat(fx->reading, &params);
	module->param_count = params.count;
	return module->params != NULL &&
	       fsdp_record_text(fx->reading, record, "fqn", &module->fqn);
}

/* ---- what is used ---- */

static bool use(struct fx *fx, int64_t module, const struct fsdp_named_param *params,
	size_t count)
{
	struct module *current = module_at(fx, fx->current);
	if (current == NULL)
		return out_of_memory(fx);
	struct fsdp_usage *usage = fsdp_vec_push(&current->usages);
	if (usage == NULL)
		return out_of_memory(fx);
	*usage = (struct fsdp_usage){ module, params, count };
	return true;
}

static bool visit(struct fx *fx, const struct fsdp_named_param *params, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int64_t id = params[i].param;
		if (id < 0 || id >= IDS)
			continue;
		while (fx->seen.count <= (size_t)id) {
			unsigned char *fresh = fsdp_vec_push(&fx->seen);
			if (fresh == NULL)
				return out_of_memory(fx);
			*fresh = 0;
		}
		unsigned char *seen = fsdp_vec_at(&fx->seen, (size_t)id);
		if (*seen == 0 && !push(fx, &fx->visited, id))
			return false;
		*seen = 1;
	}
	return true;
}

static bool open_list(struct fx *fx, int64_t id, struct module *module)
{
	fsdp_vec_truncate(&module->usages, 0);
	if (module->used)
		return true;
	module->used = true;
	return push(fx, &fx->keys, id);
}

static bool call_module(struct fx *fx, const struct fsdp_record *record)
{
	int64_t id;
	struct module *module =
		fsdp_record_integer(record, "module", &id) ? module_at(fx, id) : NULL;
	if (module == NULL)
		return skip(fx);
	if (!push(fx, &fx->called, id))
		return false;
	if (module->param_count != 0 && !use(fx, id, module->params, module->param_count))
		return false;
	if (!push(fx, &fx->stack, fx->current))
		return false;
	fx->current = id;
	return open_list(fx, id, module);
}

static void end_module(struct fx *fx)
{
	size_t count = fx->stack.count;
	if (count == 0)
		return;
	fx->current = *(int64_t *)fsdp_vec_at(&fx->stack, count - 1);
	fsdp_vec_truncate(&fx->stack, count - 1);
}

/* The parameters among the targets of the arguments. */
static bool targets(
	struct fx *fx, const struct fsdp_record *record, struct fsdp_vec *params)
{
	struct fsdp_items elements;
	struct fsdp_json_token element;
	fsdp_items_begin(&elements, fsdp_record_get(record, "args"), fx->reading->limits);
	while (fsdp_items_next(&elements, &element)) {
		struct fsdp_record argument;
		struct fsdp_span target;
		if (element.kind != FSDP_SCAN_OBJECT ||
			!fsdp_record_read(element.span, fx->reading->limits, &argument))
			continue;
		if (!fsdp_record_text(fx->reading, &argument, "target", &target))
			return false;
		if (target.data == NULL)
			continue;
		uint32_t id = fsdp_names_find_child(&fx->fqns, 0, target);
		if (id == FSDP_NONE)
			continue;
		struct fsdp_named_param *param = fsdp_vec_push(params);
		if (param == NULL)
			return out_of_memory(fx);
		param->name = target;
		param->param = *(int64_t *)fsdp_vec_at(&fx->param_ids, id - 1);
	}
	return true;
}

static bool create_proxy(struct fx *fx, const struct fsdp_record *record)
{
	const struct fsdp_named_param *params;
	size_t count;
	if (fsdp_record_is(record, "kind", "call_module")) {
		struct module *module = module_at(fx, fx->current);
		if (module == NULL)
			return false;
		params = module->params;
		count = module->param_count;
	} else if (fsdp_record_is(record, "kind", "call_function") ||
		   fsdp_record_is(record, "kind", "call_method")) {
		struct fsdp_vec found;
		fsdp_vec_init(
			&found, &fx->reading->arena, sizeof(struct fsdp_named_param));
		if (!targets(fx, record, &found))
			return false;
		params = fsdp_trace_flat(fx->reading, &found);
		count = found.count;
		if (params == NULL)
			return false;
	} else {
		return true;
	}
	return count == 0 ||
	       (use(fx, fx->current, params, count) && visit(fx, params, count));
}

static bool take_event(struct fx *fx, const struct fsdp_record *record, bool *stop)
{
	if (fsdp_record_is(record, "ev", "param"))
		return add_param(fx, record);
	if (fsdp_record_is(record, "ev", "module"))
		return add_module(fx, record);
	if (fsdp_record_is(record, "ev", "call_module"))
		return call_module(fx, record);
	if (fsdp_record_is(record, "ev", "create_proxy"))
		return create_proxy(fx, record);
	if (fsdp_record_is(record, "ev", "end_module")) {
		end_module(fx);
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

static struct fsdp_span *new_spans(struct fx *fx, size_t count)
{
	struct fsdp_span *spans = fsdp_arena_take(
		&fx->reading->arena, count * sizeof *spans, _Alignof(struct fsdp_span));
	if (spans == NULL)
		out_of_memory(fx);
	return spans;
}

static bool name_modules(struct fx *fx)
{
	struct fsdp_fx_order *order = fx->order;
	struct fsdp_span *names = new_spans(fx, fx->called.count);
	order->modules = fsdp_trace_flat(fx->reading, &fx->called);
	order->module_names = names;
	order->module_count = fx->called.count;
	if (names == NULL || order->modules == NULL)
		return false;
	for (size_t i = 0; i < order->module_count; i++) {
		const struct module *module = module_at(fx, order->modules[i]);
		names[i] = order->modules[i] == 0 ? FSDP_SPAN("(root)") : module->fqn;
		if (names[i].data == NULL)
			names[i] = FSDP_SPAN("");
	}
	return true;
}

static bool take_usages(struct fx *fx)
{
	struct fsdp_module_usage *usages = fsdp_arena_take(&fx->reading->arena,
		fx->keys.count * sizeof *usages, _Alignof(struct fsdp_module_usage));
	if (usages == NULL)
		return out_of_memory(fx);
	for (size_t i = 0; i < fx->keys.count; i++) {
		int64_t id = *(int64_t *)fsdp_vec_at(&fx->keys, i);
		const struct module *module = module_at(fx, id);
		usages[i] = (struct fsdp_module_usage){ id,
			fsdp_trace_flat(fx->reading, &module->usages),
			module->usages.count };
		if (usages[i].usages == NULL)
			return false;
	}
	fx->order->usages = usages;
	fx->order->usage_count = fx->keys.count;
	return true;
}

static bool was_seen(const struct fx *fx, int64_t id)
{
	return (size_t)id < fx->seen.count &&
	       *(unsigned char *)fsdp_vec_at(&fx->seen, (size_t)id) != 0;
}

/* The last declared name of each. */
static bool name_params(struct fx *fx)
{
	struct fsdp_fx_order *order = fx->order;
	size_t most = 0;
	for (size_t i = 0; i < fx->params.count; i++) {
		const struct fsdp_named_param *param = fsdp_vec_at(&fx->params, i);
		if ((size_t)param->param >= most)
			most = (size_t)param->param + 1;
	}
	struct fsdp_span *by_id = new_spans(fx, most);
	struct fsdp_span *names = new_spans(fx, fx->visited.count);
	struct fsdp_span *never = new_spans(fx, fx->params.count);
	order->params = fsdp_trace_flat(fx->reading, &fx->visited);
	order->param_names = names;
	order->param_count = fx->visited.count;
	order->never_visited = never;
	if (by_id == NULL || names == NULL || never == NULL || order->params == NULL)
		return false;
	for (size_t i = 0; i < fx->params.count; i++) {
		const struct fsdp_named_param *param = fsdp_vec_at(&fx->params, i);
		by_id[param->param] = param->name;
		if (!was_seen(fx, param->param))
			never[order->never_visited_count++] = param->name;
	}
	for (size_t i = 0; i < order->param_count; i++)
		names[i] = (size_t)order->params[i] < most ? by_id[order->params[i]]
							   : (struct fsdp_span){ 0 };
	return true;
}

static bool finish(struct fx *fx)
{
	fx->order->current = fx->current;
	fx->reading->recording.fx = fx->order;
	return name_modules(fx) && take_usages(fx) && name_params(fx);
}

static bool take_header(struct fx *fx, const struct fsdp_record *header)
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
		struct fsdp_span *name = fsdp_vec_push(&list);
		if (name == NULL)
			return out_of_memory(fx);
		*name = fsdp_json_text_copy(&arg, &fx->reading->arena);
		if (name->data == NULL)
			return out_of_memory(fx);
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
	fsdp_vec_init(&fx->params, arena, sizeof(struct fsdp_named_param));
	fsdp_vec_init(&fx->param_ids, arena, sizeof(int64_t));
	fsdp_vec_init(&fx->called, arena, sizeof(int64_t));
	fsdp_vec_init(&fx->keys, arena, sizeof(int64_t));
	fsdp_vec_init(&fx->stack, arena, sizeof(int64_t));
	fsdp_vec_init(&fx->visited, arena, sizeof(int64_t));
	fsdp_vec_init(&fx->seen, arena, sizeof(unsigned char));
	fx->order =
		fsdp_arena_take(arena, sizeof *fx->order, _Alignof(struct fsdp_fx_order));
	struct module *root = module_at(fx, 0);
	if (fx->order == NULL || root == NULL || !fsdp_names_init(&fx->fqns, arena))
		return out_of_memory(fx);
	return take_header(fx, header) && push(fx, &fx->called, 0) &&
	       open_list(fx, 0, root);
}

bool fsdp_trace_fx(struct fsdp_reading *reading, struct fsdp_lines *lines,
	const struct fsdp_record *header)
{
	struct fx fx = { .reading = reading };
	struct fsdp_record record;
	bool stop = false, good = begin(&fx, header);
	while (good && !stop && fsdp_record_next(reading, lines, &record))
		good = take_event(&fx, &record, &stop);
	return good && reading->error == NULL && finish(&fx);
}
