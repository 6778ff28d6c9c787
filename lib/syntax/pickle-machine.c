/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's loop: what each opcode does, in one switch, and what comes before and
 * after it; before it globals, calls and folds. Calls nothing but the folds of the
 * caller. pickle-run.h describes how the parts work together.
 */
#include "syntax/pickle-run.h"

enum { FIRST_SLOTS = 64 };

struct python2_name {
	struct fsdp_span module, name, new_module, new_name;
};

struct python2_module {
	struct fsdp_span module, new_module;
};

#define SPAN(literal)                                                    \
	{                                                                \
		(const unsigned char *)("" literal), sizeof(literal) - 1 \
	}

static const struct python2_name python2_names[] = {
#define FSDP_PYTHON2_NAME(module, name, new_module, new_name) \
	{ SPAN(module), SPAN(name), SPAN(new_module), SPAN(new_name) },
#define FSDP_PYTHON2_MODULE(module, new_module)
#include "syntax/pickle-python2.def"
#undef FSDP_PYTHON2_NAME
#undef FSDP_PYTHON2_MODULE
};

static const struct python2_module python2_modules[] = {
#define FSDP_PYTHON2_NAME(module, name, new_module, new_name)
#define FSDP_PYTHON2_MODULE(module, new_module) { SPAN(module), SPAN(new_module) },
#include "syntax/pickle-python2.def"
#undef FSDP_PYTHON2_NAME
#undef FSDP_PYTHON2_MODULE
};

/* A row of the fold table with its lengths, so that comparing is cheap. */
struct fold_key {
	struct fsdp_span module, name;
	bool prefix; /* module ended in `*` */
	enum fsdp_fold_when when;
};

/* CPython's pickle looks for the pair first and only then for the module. */
static void map_python2(struct fsdp_pickle_global *global)
{
	FSDP_EACH(i, FSDP_COUNT(python2_names), row, &python2_names[i])
		if (fsdp_span_equal(global->name, row->name) &&
			fsdp_span_equal(global->module, row->module)) {
			global->module = row->new_module;
			global->name = row->new_name;
			return;
		}
	for (size_t i = 0; i < FSDP_COUNT(python2_modules); i++)
		if (fsdp_span_equal(global->module, python2_modules[i].module)) {
			global->module = python2_modules[i].new_module;
			return;
		}
}

/* The table is keyed by the names as written: two spellings of one name are two globals
 * to the caller, who may print both. Mapping never depends on anything else but
 * `python2`, which is part of the key. */
static size_t hash_global(
	const struct fsdp_hasher *hasher, struct fsdp_span module, struct fsdp_span name)
{
	return (size_t)fsdp_hash_span(
		hasher, fsdp_hash_span(hasher, hasher->seed, module), name);
}

static void grow(struct globals_table *table, const struct fsdp_pickle *pickle)
{
	size_t count = table->slot_count * 2;
	uint32_t *slots = FSDP_TAKE(table->arena, slots, count);
	for (size_t i = 0; i < pickle->globals.count; i++) {
		const struct fsdp_pickle_global *shown =
			&global_at(pickle, (uint32_t)i)->shown;
		size_t slot = hash_global(&table->hasher, shown->written_module,
				      shown->written_name) &
			      (count - 1);
		while (slots[slot] != 0)
			slot = (slot + 1) & (count - 1);
		slots[slot] = (uint32_t)i + 1;
	}
	table->slots = slots;
	table->slot_count = count;
}

static bool matches(const struct fold_key *key, const struct fsdp_pickle_global *global)
{
	if (!fsdp_span_equal(key->name, global->name))
		return false;
	return key->prefix ? fsdp_span_begins(global->module, key->module)
			   : fsdp_span_equal(global->module, key->module);
}

static bool is_honest(struct fsdp_span text)
{
	for (size_t i = 0; i < text.size; i++)
		if (text.data[i] <= ' ' || text.data[i] >= 0x7f)
			return false;
	return text.size != 0;
}

/* The bytes themselves stay out of the message: the finding says where they are, and
 * what shows the global escapes it. */
static void check_name(const struct fsdp_pickle_options *options,
	const struct fsdp_pickle_global *global)
{
	bool module = !is_honest(global->written_module);
	if (!module && is_honest(global->written_name))
		return;
	struct fsdp_span text = module ? global->written_module : global->written_name;
	PICKLE_FIND(options, FSDP_RULE_PICKLE_NAME, global->offset, FSDP_ERROR,
		"the %s of a global is %s", module ? "module" : "name",
		text.size == 0 ? "empty" : "not made of printable ASCII without blanks");
}

/* The index of a global, made if it is new. */
static uint32_t globals_intern(struct globals_table *table, struct fsdp_pickle *pickle,
	const struct fsdp_pickle_options *options, const struct naming *naming)
{
	struct fsdp_span module = naming->module, name = naming->name;
	if (pickle->globals.count * 2 >= table->slot_count)
		grow(table, pickle);
	size_t slot = hash_global(&table->hasher, module, name);
	for (;; slot++) {
		uint32_t entry = table->slots[slot &= table->slot_count - 1];
		if (entry == 0)
			break;
		const struct global *global = global_at(pickle, entry - 1);
		if (global->python2 == naming->python2 &&
			fsdp_span_equal(global->shown.written_name, name) &&
			fsdp_span_equal(global->shown.written_module, module))
			return entry - 1;
	}
	if (naming->copies != NULL) {
		module = fsdp_arena_copy(naming->copies, module);
		name = fsdp_arena_copy(naming->copies, name);
	}
	struct global *global = fsdp_vec_push(&pickle->globals);
	if (pickle->globals.count >= REF_PAYLOADS)
		fsdp_arena_leave(pickle->globals.arena);
	*global = (struct global){
		.shown = { module, name, module, name, .offset = naming->offset },
		.python2 = naming->python2,
	};
	global->shown.via = naming->opcode;
	if (naming->python2)
		map_python2(&global->shown);
	global->fold_call = global->fold_build = global->shown.fold_row = -1;
	for (size_t i = 0; i < table->fold_count; i++) {
		if (!matches(&table->folds[i], &global->shown))
			continue;
		int32_t *row = table->folds[i].when == FSDP_FOLD_CALL
				       ? &global->fold_call
				       : &global->fold_build;
		if (*row < 0)
			*row = (int32_t)i;
		if (global->shown.fold_row < 0)
			global->shown.fold_row = (int32_t)i;
	}
	check_name(options, &global->shown);
	table->slots[slot] = (uint32_t)pickle->globals.count;
	return (uint32_t)pickle->globals.count - 1;
}

/*
 * Globals are named, applied and given a state: when a fold is asked, and what is
 * forgotten then.
 */

enum { WORD_BYTES = 8 }; /* of a text that are hashed in a step */

static fsdp_ref intern(struct machine *m, struct fsdp_span module, struct fsdp_span name)
{
	struct naming naming = {
		.module = module,
		.name = name,
		.copies = m->part.from != NULL ? m->arena : NULL,
		.offset = offset_of(m),
		.opcode = *m->at,
		.python2 = m->protocol < 3,
	};
	uint32_t index = globals_intern(&m->globals, m->pickle, m->options, &naming);
	global_at(m->pickle, index)->pushed++;
	return REF(TAG_GLOBAL, index);
}

/* Two lines: module and name. */
static fsdp_ref intern_lines(
	struct machine *m, const unsigned char *lines, const unsigned char **ret_next)
{
	struct fsdp_span module = read_line(m, lines, &lines);
	return intern(m, module, read_line(m, lines, ret_next));
}

static struct slot *machine_stack_global(struct machine *m, struct slot *top)
{
	NEED(m, top, 2);
	struct fsdp_span module = fsdp_pickle_text(m->pickle, top[-2].ref);
	struct fsdp_span name = fsdp_pickle_text(m->pickle, top[-1].ref);
	fsdp_ref ref = REF_UNKNOWN;
	/* Any number of globals may share a text of any length. */
	if (!fsdp_budget_work(
		    m->arena->budget, (module.size + name.size) / WORD_BYTES, &m->error))
		fsdp_machine_stop(m);
	if (module.data == NULL || name.data == NULL)
		FIND(m, PICKLE_COMPUTED_GLOBAL, FSDP_ERROR,
			"STACK_GLOBAL takes its names from values that are not strings");
	else
		ref = intern(m, module, name);
	forget(m, top - 2, ref);
	return top - 1;
}

static struct slot *machine_extension(struct machine *m, struct slot *top, uint32_t code)
{
	FIND(m, PICKLE_COMPUTED_GLOBAL, FSDP_ERROR,
		"%s takes a global from a registry of the loading process (code %d)",
		op_name(m), (int32_t)code);
	return push(m, top, REF_UNKNOWN);
}

/* ---- calls ---- */

void fsdp_pickle_leave(struct fsdp_pickle *pickle, struct fsdp_error *error)
{
	pickle->fold_error = error;
	fsdp_arena_leave(pickle->cells.arena);
}

/* Whether a fold made a number of it. */
static bool find_fold(struct machine *m, int32_t row_index, fsdp_ref callable,
	fsdp_ref arguments, fsdp_ref state, fsdp_ref *ret_ref)
{
	const struct fsdp_folding call = { &m->options->folds[row_index], callable,
		arguments, state };
	uint32_t number = 0;
	if (!call.row->fold(m->options->context, m->pickle, &call, &number))
		return false;
	if (unlikely(number >= REF_PAYLOADS)) {
		fsdp_fail(&m->error, FSDP_ERROR_INTERNAL, offset_of(m),
			"a fold answered %u, which is too large", number);
		fsdp_machine_stop(m);
	}
	*ret_ref = REF(TAG_FOLDED, number);
	return true;
}

static bool report_call(struct machine *m, fsdp_ref callable, fsdp_ref arguments,
	fsdp_ref keywords, bool is_folded)
{
	return fsdp_machine_report(m, &(struct fsdp_pickle_deed){ .kind = FSDP_DEED_CALL,
					      .folded = is_folded,
					      .object = callable,
					      .argument = arguments,
					      .keywords = keywords });
}

/* The callable is applied to arguments; both are in `slot` and above it, and the result
 * takes the place of `slot`. */
static inline struct slot *apply(struct machine *m, struct slot *slot, fsdp_ref callable,
	fsdp_ref arguments, uint8_t use)
{
	if (likely(ref_tag(callable) == TAG_GLOBAL)) {
		struct global *global = global_at(m->pickle, ref_payload(callable));
		global->applied++;
		global->shown.uses |= use;
		fsdp_ref ref;
		if (global->fold_call >= 0 && find_fold(m, global->fold_call, callable,
						      arguments, FSDP_REF_NONE, &ref)) {
			if (!global->quiet_folded)
				global->quiet_folded = report_call(
					m, callable, arguments, FSDP_REF_NONE, true);
			forget(m, slot, ref);
			return slot + 1;
		}
		bool is_empty = arguments == REF_EMPTY_TUPLE;
		if (!(is_empty && (global->quiet_empty & use)) &&
			report_call(m, callable, arguments, FSDP_REF_NONE, false) &&
			is_empty)
			global->quiet_empty |= use;
	} else {
		report_call(m, callable, arguments, FSDP_REF_NONE, false);
	}
	struct cell *cell = new_cell(m);
	*cell = (struct cell){ .kind = FSDP_PICKLE_CALL, .a = callable, .b = arguments };
	slot->ref = REF(TAG_CELL, cell_count(m) - 1);
	if (m->options->fills && use == FSDP_USE_CALLED && arguments != REF_EMPTY_TUPLE &&
		fsdp_pickle_is_mapping(m->pickle, callable))
		fsdp_machine_fill(m, cell);
	return slot + 1;
}

/* REDUCE and NEWOBJ: callable, arguments. */
static struct slot *machine_call(struct machine *m, struct slot *top, uint8_t use)
{
	NEED(m, top, 2);
	return apply(m, top - 2, top[-2].ref, top[-1].ref, use);
}

static struct slot *machine_call_keywords(struct machine *m, struct slot *top)
{
	NEED(m, top, 3);
	struct slot *slot = top - 3;
	fsdp_ref callable = slot[0].ref;
	if (ref_tag(callable) == TAG_GLOBAL) {
		struct global *global = global_at(m->pickle, ref_payload(callable));
		global->applied++;
		global->shown.uses |= FSDP_USE_BUILT;
	}
	report_call(m, callable, slot[1].ref, slot[2].ref, false);
	uint32_t index = cell_count(m);
	struct cell *cell = new_cell(m);
	*cell = (struct cell){
		.kind = FSDP_PICKLE_CALL, .a = callable, .b = slot[1].ref
	};
	fsdp_machine_more_of_call(m, cell)[1].a = slot[2].ref;
	slot->ref = REF(TAG_CELL, index);
	return slot + 1;
}

/* The values from `begin` on, as the tuple of arguments in the place of the first. */
static struct slot *collect_arguments(
	struct machine *m, struct slot *begin, struct slot *top)
{
	size_t count = (size_t)(top - begin);
	if (count == 0)
		return push(m, begin, REF_EMPTY_TUPLE);
	if (count > 3)
		return fsdp_machine_collect(m, begin, top, FSDP_PICKLE_TUPLE, false);
	return small_tuple(m, top, (unsigned)count);
}

/* mark, callable, arguments … */
static struct slot *machine_obj(struct machine *m, struct slot *top)
{
	struct slot *begin = pop_mark(m);
	if (unlikely(begin == top)) {
		DAMAGED(m, "OBJ finds no class above its mark");
		top = push(m, top, REF_UNKNOWN);
		begin = top - 1;
	}
	ptrdiff_t place = begin - m->stack; /* the stack may move */
	(void)collect_arguments(m, begin + 1, top);
	begin = m->stack + place;
	return apply(m, begin, begin[0].ref, begin[1].ref, FSDP_USE_CALLED);
}

/* mark, arguments …; the class is in the opcode. */
static struct slot *machine_inst(
	struct machine *m, struct slot *top, const unsigned char **ret_next)
{
	fsdp_ref callable = intern_lines(m, m->at + 1, ret_next);
	top = collect_arguments(m, pop_mark(m), top);
	return apply(m, top - 1, callable, top[-1].ref, FSDP_USE_CALLED);
}

/* ---- states ---- */

/* One more state of a call that has one. */
static void add_state(struct machine *m, struct cell *states, const struct slot *state)
{
	FIND(m, PICKLE_STATE, FSDP_WARNING, "an object is given its state a second time");
	if (states->c == 0) {
		uint32_t index;
		*fsdp_machine_new_cells(m, 1, &index) =
			(struct cell){ .kind = FSDP_PICKLE_LIST };
		states->c = index;
	}
	fsdp_machine_add_items(m, cell_at(m->pickle, states->c), state, 1, false);
}

/* Whether the family made a number of it. */
static bool fold_instance(
	struct machine *m, struct slot *slot, struct cell *call, fsdp_ref state)
{
	if (call->c != 0 || ref_tag(call->a) != TAG_GLOBAL)
		return false;
	int32_t row = global_at(m->pickle, ref_payload(call->a))->fold_build;
	fsdp_ref ref;
	if (row < 0 || !find_fold(m, row, call->a, call->b, state, &ref))
		return false;
	*call = (struct cell){ .kind = CELL_FORWARD, .a = ref_payload(ref) };
	forget(m, slot, ref);
	return true;
}

static const struct cell *find_cell(const struct machine *m, fsdp_ref ref)
{
	return ref_is_cell(ref) ? ref_cell(m, ref) : NULL;
}

/* The run of the keys and values of a state that is a small dict, or None and one; NULL:
 * it is something else. */
static struct cell *few_pairs(const struct machine *m, fsdp_ref state, bool *ret_slots)
{
	const struct cell *cell = find_cell(m, state);
	*ret_slots = cell != NULL && cell->kind == FSDP_PICKLE_TUPLE && cell->x == 2 &&
		     cell->a == REF_NULL;
	if (*ret_slots)
		cell = find_cell(m, cell->b);
	if (cell == NULL || cell->kind != FSDP_PICKLE_DICT || cell->a == 0 ||
		cell->a > QUIET_KEYS)
		return NULL;
	struct cell *run = cell_at(m->pickle, cell->b);
	return run->c == 1 && run->a == 2 * cell->a ? run : NULL;
}

/* A text that came out of the memo stays as long as the pickle, like its reference. */
static void keep_keys(
	const struct machine *m, struct global *global, struct cell *run, bool slots)
{
	const fsdp_ref *refs = run_refs(run);
	global->quiet_key_count = 0;
	FSDP_EACH(i, run->a / 2, key, find_cell(m, refs[2 * i])) {
		if (key == NULL || key->kind != FSDP_PICKLE_TEXT ||
			(key->flags & CELL_STAYS) == 0)
			return;
		global->quiet_keys[i] = refs[2 * i];
	}
	global->quiet_key_count = (uint8_t)(run->a / 2);
	global->quiet_slots = slots;
}

static bool has_kept_keys(const struct global *global, struct cell *run, bool slots)
{
	const fsdp_ref *refs = run_refs(run);
	if (global->quiet_key_count != run->a / 2 || global->quiet_slots != slots)
		return false;
	for (size_t i = 0; i < global->quiet_key_count; i++)
		if (refs[2 * i] != global->quiet_keys[i])
			return false;
	return true;
}

static struct slot *machine_build(struct machine *m, struct slot *top)
{
	NEED(m, top, 2);
	struct slot *slot = top - 2;
	struct cell *cell = ref_is_cell(slot->ref) ? ref_cell(m, slot->ref) : NULL;
	if (unlikely(cell == NULL || cell->kind != FSDP_PICKLE_CALL)) {
		char room[2 * FSDP_SHOWN];
		if (slot->ref != REF_UNKNOWN)
			FIND(m, PICKLE_STATE, FSDP_ERROR,
				"a state is given to %s, which is not a new object",
				fsdp_machine_target(m, slot->ref, room));
		return top - 1;
	}
	if (fold_instance(m, slot, cell, top[-1].ref))
		return top - 1;
	struct global *global = ref_tag(cell->a) == TAG_GLOBAL
					? global_at(m->pickle, ref_payload(cell->a))
					: NULL;
	bool slots = false;
	struct cell *run = global != NULL ? few_pairs(m, slot[1].ref, &slots) : NULL;
	if (run == NULL || !has_kept_keys(global, run, slots)) {
		if (fsdp_machine_report(
			    m, &(struct fsdp_pickle_deed){ .kind = FSDP_DEED_BUILD,
				       .object = slot[0].ref,
				       .argument = slot[1].ref,
				       .keywords = FSDP_REF_NONE }) &&
			run != NULL)
			keep_keys(m, global, run, slots);
	}
	struct cell *more = fsdp_machine_more_of_call(m, cell);
	if (likely(more[1].b == FSDP_REF_NONE))
		more[1].b = top[-1].ref;
	else
		add_state(m, &more[1], top - 1);
	pin_if_old(m, slot, ref_payload(slot->ref));
	return top - 1;
}

/* ---- persistent ids ---- */

bool fsdp_machine_fold_value(
	struct machine *m, fsdp_fold_value fold, fsdp_ref ref, uint32_t *ret_number)
{
	*ret_number = 0;
	return fold != NULL && fold(m->options->context, m->pickle, ref, ret_number) &&
	       *ret_number < REF_PAYLOADS;
}

/* Of a tuple of more than three; 0 of anything else. */
static uint32_t item_count(const struct machine *m, fsdp_ref id)
{
	const struct cell *cell = find_cell(m, id);
	return cell != NULL && cell->kind == FSDP_PICKLE_TUPLE && cell->x == 0 ? cell->a
									       : 0;
}

/* The value on top is a persistent id. */
static struct slot *machine_persistent(struct machine *m, struct slot *top)
{
	NEED(m, top, 1);
	struct slot *slot = top - 1;
	uint32_t number;
	bool is_folded = fsdp_machine_fold_value(
		m, m->options->fold_persistent, slot->ref, &number);
	uint32_t count = is_folded ? item_count(m, slot->ref) : 0;
	if (count == 0 || count != m->quiet_id) {
		if (fsdp_machine_report(
			    m, &(struct fsdp_pickle_deed){ .kind = FSDP_DEED_PERSISTENT,
				       .folded = is_folded,
				       .object = slot->ref,
				       .argument = FSDP_REF_NONE,
				       .keywords = FSDP_REF_NONE }) &&
			is_folded)
			m->quiet_id = count;
	}
	if (is_folded) {
		forget(m, slot, REF(TAG_FOLDED, number));
		return top;
	}
	*new_cell(m) = (struct cell){ .kind = FSDP_PICKLE_PERSISTENT, .a = slot->ref };
	slot->ref = REF(TAG_CELL, cell_count(m) - 1);
	return top;
}

/* ---- memo ---- */

static inline __attribute__((always_inline)) struct slot *op_memoize(
	struct machine *m, struct slot *top, uint64_t slot)
{
	NEED(m, top, 1);
	if (unlikely(slot > UINT32_MAX)) {
		DAMAGED(m, "%s to slot %llu; slots are below 2^32", op_name(m),
			FSDP_LLU(slot));
		return top;
	}
	memo_fill(&m->memo, (uint32_t)slot);
	fsdp_ref *place = memo_place(&m->memo, (uint32_t)slot);
	if (place == NULL)
		return top;
	*place = top[-1].ref;
	if (ref_is_cell(*place))
		m->pin = cell_count(m);
	return top;
}

static uint64_t slot_text(struct fsdp_span line)
{
	uint32_t slot;
	return fsdp_pickle_slot_text(line, &slot) ? slot : UINT64_MAX;
}

static inline struct slot *op_recall(struct machine *m, struct slot *top, uint32_t slot)
{
	const fsdp_ref *place = memo_place(&m->memo, slot);
	if (unlikely(place == NULL || *place == FSDP_REF_NONE)) {
		DAMAGED(m, "%s reads memo slot %u, which is empty", op_name(m), slot);
		return push(m, top, REF_UNKNOWN);
	}
	return push(m, top, share(m, *place, CELL_SHARED | CELL_STAYS));
}

/* ---- the loop ---- */

/* The opcodes with a line of text: all of protocol 0, none of them frequent. */
static struct slot *do_line(
	struct machine *m, struct slot *top, const unsigned char **ret_next)
{
	struct fsdp_span line = read_line(m, m->at + 1, ret_next);
	switch (*m->at) {
	case FSDP_OP_INT:
	case FSDP_OP_LONG:
		return fsdp_machine_integer_text(m, top, line);
	case FSDP_OP_FLOAT:
		return fsdp_machine_float_text(m, top, line);
	case FSDP_OP_PERSID:
		return machine_persistent(m, fsdp_machine_push_text(m, top, line));
	case FSDP_OP_PUT: {
		uint64_t slot = slot_text(line);
		if (slot != UINT64_MAX)
			return op_memoize(m, top, slot);
		DAMAGED(m, "PUT to a slot that is not a number below 2^32");
		return top;
	}
	case FSDP_OP_GET: {
		uint64_t slot = slot_text(line);
		if (slot != UINT64_MAX)
			return op_recall(m, top, (uint32_t)slot);
		DAMAGED(m, "GET of a slot that is not a number below 2^32");
		return push(m, top, REF_UNKNOWN);
	}
	default:
		return fsdp_machine_text_line(m, top, line);
	}
}

/* An argument of that many bytes, after a count of `fixed` bytes. */
static inline struct slot *step_span(struct machine *m, struct slot *top, uint8_t kind,
	size_t fixed, uint64_t size, const unsigned char **ret_next)
{
	const unsigned char *argument = m->at + 1;
	if (unlikely(!is_here(m, argument, fixed, size)))
		fsdp_machine_changed(m);
	*ret_next = argument + fixed + size;
	return push_span(m, top, kind, argument + fixed, size);
}

static inline struct slot *step_integer(struct machine *m, struct slot *top, size_t fixed,
	uint32_t size, const unsigned char **ret_next)
{
	const unsigned char *argument = m->at + 1;
	if (unlikely(!is_here(m, argument, fixed, size)))
		fsdp_machine_changed(m);
	*ret_next = argument + fixed + size;
	return fsdp_machine_integer_bytes(m, top, argument + fixed, size);
}

/* One opcode. *at moves after it. */
static inline struct slot *step(
	struct machine *m, struct slot *top, const unsigned char **ret_next)
{
	const unsigned char *argument = m->at + 1;
	const unsigned char *behind =
		argument; /* its address escapes; *ret_next stays in a register */
	*ret_next = argument;
	enum fsdp_pickle_op op = argument[-1];
	switch (op) {
	case FSDP_OP_MEMOIZE:
		return op_memoize(m, top, memo_size(&m->memo));
	case FSDP_OP_BINPUT:
		*ret_next = argument + 1;
		return op_memoize(m, top, *argument);
	case FSDP_OP_LONG_BINPUT:
		*ret_next = argument + 4;
		return op_memoize(m, top, load_u4(argument));
	case FSDP_OP_BINGET:
		*ret_next = argument + 1;
		return op_recall(m, top, *argument);
	case FSDP_OP_LONG_BINGET:
		*ret_next = argument + 4;
		return op_recall(m, top, load_u4(argument));
	case FSDP_OP_BININT:
		*ret_next = argument + 4;
		return push_integer(m, top, (int32_t)load_u4(argument));
	case FSDP_OP_BININT1:
		*ret_next = argument + 1;
		return push(m, top, REF(TAG_SMALL, *argument));
	case FSDP_OP_BININT2:
		*ret_next = argument + 2;
		return push(m, top, REF(TAG_SMALL, load_u2(argument)));
	case FSDP_OP_LONG1:
		return step_integer(m, top, 1, *argument, ret_next);
	case FSDP_OP_LONG4:
		return step_integer(m, top, 4, load_u4(argument), ret_next);
	case FSDP_OP_BINFLOAT:
		*ret_next = argument + 8;
		return fsdp_machine_float_bytes(m, top);
	case FSDP_OP_SHORT_BINUNICODE:
	case FSDP_OP_SHORT_BINSTRING:
		return step_span(m, top, FSDP_PICKLE_TEXT, 1, *argument, ret_next);
	case FSDP_OP_BINUNICODE:
	case FSDP_OP_BINSTRING:
		return step_span(
			m, top, FSDP_PICKLE_TEXT, 4, load_u4(argument), ret_next);
	case FSDP_OP_BINUNICODE8:
		return step_span(
			m, top, FSDP_PICKLE_TEXT, 8, load_u8(argument), ret_next);
	case FSDP_OP_SHORT_BINBYTES:
		return step_span(m, top, FSDP_PICKLE_BYTES, 1, *argument, ret_next);
	case FSDP_OP_BINBYTES:
		return step_span(
			m, top, FSDP_PICKLE_BYTES, 4, load_u4(argument), ret_next);
	case FSDP_OP_BINBYTES8:
		return step_span(
			m, top, FSDP_PICKLE_BYTES, 8, load_u8(argument), ret_next);
	case FSDP_OP_BYTEARRAY8:
		return step_span(
			m, top, FSDP_PICKLE_BYTEARRAY, 8, load_u8(argument), ret_next);
	case FSDP_OP_NONE:
		return push(m, top, REF_NULL);
	case FSDP_OP_NEWTRUE:
		return push(m, top, REF_TRUE);
	case FSDP_OP_NEWFALSE:
		return push(m, top, REF_FALSE);
	case FSDP_OP_EMPTY_TUPLE:
		return push(m, top, REF_EMPTY_TUPLE);
	case FSDP_OP_EMPTY_LIST:
		return push_wide(m, top, FSDP_PICKLE_LIST, 0);
	case FSDP_OP_EMPTY_DICT:
		return push_wide(m, top, FSDP_PICKLE_DICT, 0);
	case FSDP_OP_EMPTY_SET:
		return push_wide(m, top, FSDP_PICKLE_SET, 0);
	case FSDP_OP_TUPLE1:
		return small_tuple(m, top, 1);
	case FSDP_OP_TUPLE2:
		return small_tuple(m, top, 2);
	case FSDP_OP_TUPLE3:
		return small_tuple(m, top, 3);
	case FSDP_OP_TUPLE:
		return fsdp_machine_tuple(m, top);
	case FSDP_OP_LIST:
		return fsdp_machine_gather(m, top, FSDP_PICKLE_LIST);
	case FSDP_OP_DICT:
		return fsdp_machine_gather(m, top, FSDP_PICKLE_DICT);
	case FSDP_OP_FROZENSET:
		return fsdp_machine_gather(m, top, FSDP_PICKLE_FROZENSET);
	case FSDP_OP_APPEND:
		return fsdp_machine_append(m, top, APPENDING);
	case FSDP_OP_SETITEM:
		return fsdp_machine_append(m, top, PAIRING);
	case FSDP_OP_APPENDS:
		return fsdp_machine_append_all(m, top, APPENDING);
	case FSDP_OP_ADDITEMS:
		return fsdp_machine_append_all(m, top, ADDING);
	case FSDP_OP_SETITEMS:
		return fsdp_machine_append_all(m, top, PAIRING);
	case FSDP_OP_MARK:
		return fsdp_machine_mark(m, top);
	case FSDP_OP_POP:
		if (top == m->floor && m->mark_count != 0) {
			pop_mark(m);
			return top;
		}
		NEED(m, top, 1);
		return top - 1;
	case FSDP_OP_POP_MARK:
		return pop_mark(m);
	case FSDP_OP_DUP:
		NEED(m, top, 1);
		return push(m, top, share(m, top[-1].ref, CELL_SHARED));
	case FSDP_OP_REDUCE:
		return machine_call(m, top, FSDP_USE_CALLED);
	case FSDP_OP_NEWOBJ:
		return machine_call(m, top, FSDP_USE_BUILT);
	case FSDP_OP_NEWOBJ_EX:
		return machine_call_keywords(m, top);
	case FSDP_OP_OBJ:
		return machine_obj(m, top);
	case FSDP_OP_INST:
		top = machine_inst(m, top, &behind);
		*ret_next = behind;
		return top;
	case FSDP_OP_BUILD:
		return machine_build(m, top);
	case FSDP_OP_GLOBAL:
		/* GLOBAL and INST: two lines after the opcode; *ret_next is where they
		 * end. */
		top = push(m, top, intern_lines(m, m->at + 1, &behind));
		*ret_next = behind;
		return top;
	case FSDP_OP_STACK_GLOBAL:
		return machine_stack_global(m, top);
	case FSDP_OP_BINPERSID:
		return machine_persistent(m, top);
	case FSDP_OP_EXT1:
		*ret_next = argument + 1;
		return machine_extension(m, top, *argument);
	case FSDP_OP_EXT2:
		*ret_next = argument + 2;
		return machine_extension(m, top, load_u2(argument));
	case FSDP_OP_EXT4:
		*ret_next = argument + 4;
		return machine_extension(m, top, load_u4(argument));
	case FSDP_OP_NEXT_BUFFER:
	case FSDP_OP_READONLY_BUFFER:
		FIND(m, PICKLE_OPCODE, FSDP_ERROR,
			"%s needs a buffer that is not in the file", op_name(m));
		if (*m->at == FSDP_OP_NEXT_BUFFER)
			return push(m, top, REF_BUFFER);
		NEED(m, top, 1);
		return top;
	case FSDP_OP_PROTO:
		m->protocol = *argument;
		*ret_next = argument + 1;
		return top;
	case FSDP_OP_FRAME:
		*ret_next = argument + 8;
		return top;
	case FSDP_OP_STOP:
		NEED(m, top, 1);
		m->stopped = true;
		if (m->error == NULL && (top - 1 > m->stack || m->mark_count != 0))
			FIND(m, PICKLE_ODD, FSDP_NOTE,
				"%td values and %zu marks are left at STOP",
				top - 1 - m->stack, m->mark_count);
		m->pickle->top = top[-1].ref;
		return top;
	case FSDP_OP_INT:
	case FSDP_OP_LONG:
	case FSDP_OP_FLOAT:
	case FSDP_OP_STRING:
	case FSDP_OP_UNICODE:
	case FSDP_OP_PERSID:
	case FSDP_OP_GET:
	case FSDP_OP_PUT:
		top = do_line(m, top, &behind);
		*ret_next = behind;
		return top;
	}
	return top; /* not reached: the lexer has all codes */
}

/* The opcodes of one part. STOP, if the lexer found one, is the last opcode of the last
 * part (`stops`), and nowhere else: what it left on top would not outlive what follows.
 */
static struct slot *run_part(struct machine *m, struct slot *top, bool stops)
{
	const unsigned char *next = m->part.begin;
	while (next < m->part.end) {
		m->at = next;
		top = step(m, top, &next);
		if (unlikely(m->stopped) && next != m->part.end)
			fsdp_machine_changed(m);
	}
	if (next > m->part.end || m->stopped != stops)
		fsdp_machine_changed(m);
	return top;
}

/* Parts as the lexer cut them, up to the end of what it found whole. */
static void run(struct machine *m, const struct lexed *lexed)
{
	struct slot *top = fsdp_machine_grow_stack(m, m->stack);
	uint64_t begin = 0, end;
	m->floor = m->stack;
	for (size_t i = 0; i <= lexed->cuts.count; i++, begin = end) {
		end = i < lexed->cuts.count
			      ? *(const uint64_t *)fsdp_vec_at(&lexed->cuts, i)
			      : lexed->end;
		fsdp_part_move(&m->part, begin, end - begin);
		top = run_part(m, top, lexed->stopped && i == lexed->cuts.count);
	}
	if (!m->stopped && top > m->stack)
		m->pickle->top = m->stack[0].ref;
}

/* ---- before and after ---- */

/* Whether all from there to the end is zeros. */
static bool is_zero_from(struct machine *m, uint64_t offset)
{
	while (offset < m->part.size) {
		fsdp_part_move(&m->part, offset, UINT64_MAX);
		for (const unsigned char *at = m->part.begin; at < m->part.end; at++)
			if (*at != 0)
				return false;
		offset += (uint64_t)(m->part.end - m->part.begin);
	}
	return true;
}

static void check_rest(struct machine *m)
{
	uint64_t length = m->pickle->length;
	if (m->options->may_trail || is_zero_from(m, length))
		return;
	bool globals = fsdp_pickle_names_globals(&m->part, length);
	PICKLE_FIND(m->options, FSDP_RULE_PICKLE_TRAILING, length,
		globals ? FSDP_ERROR : FSDP_WARNING,
		"%llu bytes follow the end of the pickle%s",
		FSDP_LLU(m->part.size - length), globals ? " and name globals" : "");
}

static void read_pickle(void *context)
{
	struct machine *m = context;
	struct fsdp_pickle *pickle = m->pickle;
	struct lexed lexed = { 0 };
	uint64_t limit = fsdp_limit(m->limits, FSDP_LIMIT_PICKLE_BYTES);
	m->scratch.escape = m->arena->escape;
	if (m->options->texts != NULL)
		m->options->texts->escape = m->arena->escape;
	if (m->part.size > limit) {
		fsdp_fail_limit(&m->error, FSDP_LIMIT_PICKLE_BYTES, limit);
		fsdp_machine_stop(m);
	}
	/* Of what was packed there may be a thousand times as much as the file has. */
	if (!fsdp_budget_work(m->arena->budget, m->part.size, &m->error))
		fsdp_machine_stop(m);
	fsdp_part_begin(&m->part);
	struct fsdp_hasher hasher = fsdp_hasher_new();
	fsdp_memo_init(&m->memo, &m->scratch, hasher);
	m->globals = (struct globals_table){
		.arena = &m->scratch,
		.slot_count = FIRST_SLOTS,
		.hasher = hasher,
		.fold_count = m->options->fold_count,
	};
	m->globals.slots = FSDP_TAKE(&m->scratch, m->globals.slots, FIRST_SLOTS);
	m->globals.folds =
		FSDP_TAKE(&m->scratch, m->globals.folds, m->options->fold_count);
	FSDP_EACH(i, m->options->fold_count, row, &m->options->folds[i]) {
		struct fsdp_span module = fsdp_span_text(row->module);
		bool prefix = fsdp_span_ends(module, FSDP_SPAN("*"));
		module.size -= prefix;
		m->globals.folds[i] = (struct fold_key){ module,
			fsdp_span_text(row->name), prefix, row->when };
	}
	(void)!fsdp_vec_push(&m->pickle->cells);
	fsdp_pickle_lex(pickle, m->options, &m->part, &m->memo, &lexed);
	fsdp_memo_seal(&m->memo, pickle->first[FSDP_OP_MEMOIZE] != FSDP_UNKNOWN);
	m->pin = 1;
	pickle->length = lexed.end;
	run(m, &lexed);
	fsdp_pickle_check(pickle, m->options, m->limits, &m->scratch, m->memo.hasher);
	if (m->stopped)
		check_rest(m);
}

static struct fsdp_pickle *new_pickle(struct fsdp_arena *arena)
{
	struct fsdp_pickle *pickle = FSDP_TAKE(arena, pickle, 1);
	if (pickle == NULL)
		return NULL;
	pickle->stream = FSDP_SPAN("");
	pickle->top = FSDP_REF_NONE;
	fsdp_vec_init(&pickle->cells, arena, sizeof(struct cell));
	fsdp_vec_init(&pickle->globals, arena, sizeof(struct global));
	for (size_t i = 0; i < 256; i++)
		pickle->first[i] = FSDP_UNKNOWN;
	return pickle;
}

/* The bytes come from `parts` or, if that is NULL, are `stream`. */
static bool read_from(struct fsdp_span stream, const struct fsdp_pickle_parts *parts,
	struct fsdp_arena *arena, const struct fsdp_pickle_options *options,
	struct fsdp_pickle **ret_pickle, struct fsdp_error **ret_error)
{
	struct fsdp_limits defaults;
	fsdp_limits_init(&defaults);
	struct machine m = {
		.pickle = new_pickle(arena),
		.options = options,
		.limits = options->limits != NULL ? options->limits : &defaults,
		.arena = arena,
	};
	if (m.pickle == NULL)
		return fsdp_arena_fail(arena, ret_error);
	*ret_pickle = m.pickle;
	if (parts == NULL && stream.data != NULL)
		m.pickle->stream = stream;
	m.part = (struct part){
		.stream = m.pickle->stream.data,
		.size = parts != NULL ? parts->size : m.pickle->stream.size,
		.from = parts,
		.scratch = &m.scratch,
		.error = &m.error,
	};
	struct fsdp_escape *texts =
		options->texts != NULL ? options->texts->escape : NULL;
	fsdp_arena_init(&m.scratch, arena->budget);
	bool done = fsdp_arena_try(arena, read_pickle, &m);
	fsdp_arena_done(&m.scratch);
	if (options->texts != NULL)
		options->texts->escape = texts;
	/* What a global was pushed for and not applied, it stood as a value. */
	FSDP_EACH(i, m.pickle->globals.count, global, global_at(m.pickle, (uint32_t)i))
		if (global->pushed != global->applied)
			global->shown.uses |= FSDP_USE_VALUE;
	if (m.pickle->fold_error != NULL) {
		/* Damage is less than not being able to go on. */
		fsdp_error_free(m.error);
		m.error = m.pickle->fold_error;
		m.pickle->fold_error = NULL;
	}
	if (!done)
		fsdp_arena_fail(arena, &m.error);
	fsdp_error_shift_offset(&m.error, options->base);
	return m.error == NULL || fsdp_fail_with(ret_error, m.error);
}

bool fsdp_pickle_read(struct fsdp_span stream, struct fsdp_arena *arena,
	const struct fsdp_pickle_options *options, struct fsdp_pickle **ret_pickle,
	struct fsdp_error **ret_error)
{
	return read_from(stream, NULL, arena, options, ret_pickle, ret_error);
}

bool fsdp_pickle_read_parts(const struct fsdp_pickle_parts *parts,
	struct fsdp_arena *arena, const struct fsdp_pickle_options *options,
	struct fsdp_pickle **ret_pickle, struct fsdp_error **ret_error)
{
	return read_from(
		(struct fsdp_span){ 0 }, parts, arena, options, ret_pickle, ret_error);
}
