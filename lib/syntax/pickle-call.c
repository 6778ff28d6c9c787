/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Globals are named, applied and given a state: when a fold is asked, and what is
 * forgotten then.
 */
#include "syntax/pickle-machine.h"

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
	uint32_t index = fsdp_globals_intern(&m->globals, m->pickle, m->options, &naming);
	if (index == UINT32_MAX) {
		fsdp_machine_stop(m);
		return FSDP_REF_NONE;
	}
	global_at(m->pickle, index)->pushed++;
	return REF(TAG_GLOBAL, index);
}

/* Two lines: module and name. */
static fsdp_ref intern_lines(
	struct machine *m, const unsigned char *lines, const unsigned char **ret_next)
{
	struct fsdp_span module, name;
	if (!take_line(m, lines, &module, &lines) ||
		!take_line(m, lines, &name, ret_next))
		return FSDP_REF_NONE;
	return intern(m, module, name);
}

struct slot *fsdp_machine_global(
	struct machine *m, struct slot *top, const unsigned char **ret_next)
{
	fsdp_ref ref = intern_lines(m, m->at + 1, ret_next);
	return ref != FSDP_REF_NONE ? push(m, top, ref) : NULL;
}

struct slot *fsdp_machine_stack_global(struct machine *m, struct slot *top)
{
	NEED(m, top, 2);
	struct fsdp_span module = fsdp_pickle_text(m->pickle, top[-2].ref);
	struct fsdp_span name = fsdp_pickle_text(m->pickle, top[-1].ref);
	fsdp_ref ref = REF_UNKNOWN;
	/* Any number of globals may share a text of any length. */
	if (!fsdp_budget_work(
		    m->arena->budget, (module.size + name.size) / WORD_BYTES, &m->error))
		return NULL;
	if (module.data == NULL || name.data == NULL) {
		FIND(m, PICKLE_COMPUTED_GLOBAL, FSDP_ERROR,
			"STACK_GLOBAL takes its names from values that are not strings");
	} else {
		ref = intern(m, module, name);
		if (ref == FSDP_REF_NONE)
			return NULL;
	}
	forget(m, top - 2, ref);
	return top - 1;
}

struct slot *fsdp_machine_extension(struct machine *m, struct slot *top, uint32_t code)
{
	FIND(m, PICKLE_COMPUTED_GLOBAL, FSDP_ERROR,
		"%s takes a global from a registry of the loading process (code %d)",
		op_name(m), (int32_t)code);
	return push(m, top, REF_UNKNOWN);
}

/* ---- calls ---- */

static struct slot *fail_fold(struct machine *m, struct fsdp_error *error)
{
	fsdp_error_free(m->error); /* damage is less than not being able to go on */
	m->error = error;
	return NULL;
}

enum folded { NOT_FOLDED, FOLDED, FOLD_FAILED };

static enum folded ask_fold(struct machine *m, int32_t row_index, fsdp_ref callable,
	fsdp_ref arguments, fsdp_ref state, fsdp_ref *ret_ref)
{
	const struct fsdp_folding call = { &m->options->folds[row_index], callable,
		arguments, state };
	struct fsdp_error *error = NULL;
	uint32_t number = 0;
	if (!call.row->fold(m->options->context, m->pickle, &call, &number, &error)) {
		if (likely(error == NULL))
			return NOT_FOLDED;
		fail_fold(m, error);
		return FOLD_FAILED;
	}
	if (unlikely(number >= REF_PAYLOADS)) {
		fsdp_fail(&m->error, FSDP_ERROR_INTERNAL, offset_of(m),
			"a fold answered %u, which is too large", number);
		return FOLD_FAILED;
	}
	*ret_ref = REF(TAG_FOLDED, number);
	return FOLDED;
}

static bool tell_call(struct machine *m, fsdp_ref callable, fsdp_ref arguments,
	fsdp_ref keywords, bool is_folded)
{
	return fsdp_machine_tell(m, &(struct fsdp_pickle_deed){ .kind = FSDP_DEED_CALL,
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
		if (global->fold_call >= 0) {
			fsdp_ref ref;
			switch (ask_fold(m, global->fold_call, callable, arguments,
				FSDP_REF_NONE, &ref)) {
			case FOLDED:
				if (!global->quiet_folded)
					global->quiet_folded = tell_call(m, callable,
						arguments, FSDP_REF_NONE, true);
				forget(m, slot, ref);
				return slot + 1;
			case FOLD_FAILED:
				return NULL;
			case NOT_FOLDED:
				break;
			}
		}
		bool is_empty = arguments == REF_EMPTY_TUPLE;
		if (!(is_empty && (global->quiet_empty & use)) &&
			tell_call(m, callable, arguments, FSDP_REF_NONE, false) &&
			is_empty)
			global->quiet_empty |= use;
	} else {
		tell_call(m, callable, arguments, FSDP_REF_NONE, false);
	}
	struct cell *cell = new_cell(m);
	if (unlikely(cell == NULL))
		return NULL;
	*cell = (struct cell){ .kind = FSDP_PICKLE_CALL, .a = callable, .b = arguments };
	slot->ref = REF(TAG_CELL, cell_count(m) - 1);
	if (m->options->fills && use == FSDP_USE_CALLED && arguments != REF_EMPTY_TUPLE &&
		fsdp_pickle_is_mapping(m->pickle, callable) &&
		!fsdp_machine_fill(m, cell))
		return NULL;
	return slot + 1;
}

/* REDUCE and NEWOBJ: callable, arguments. */
struct slot *fsdp_machine_call(struct machine *m, struct slot *top, uint8_t use)
{
	NEED(m, top, 2);
	return apply(m, top - 2, top[-2].ref, top[-1].ref, use);
}

struct slot *fsdp_machine_call_keywords(struct machine *m, struct slot *top)
{
	NEED(m, top, 3);
	struct slot *slot = top - 3;
	fsdp_ref callable = slot[0].ref;
	if (ref_tag(callable) == TAG_GLOBAL) {
		struct global *global = global_at(m->pickle, ref_payload(callable));
		global->applied++;
		global->shown.uses |= FSDP_USE_BUILT;
	}
	tell_call(m, callable, slot[1].ref, slot[2].ref, false);
	uint32_t index = cell_count(m);
	struct cell *cell = new_cell(m);
	if (cell == NULL)
		return NULL;
	*cell = (struct cell){
		.kind = FSDP_PICKLE_CALL, .a = callable, .b = slot[1].ref
	};
	struct cell *more = fsdp_machine_more_of_call(m, cell);
	if (more == NULL)
		return NULL;
	more[1].a = slot[2].ref;
	slot->ref = REF(TAG_CELL, index);
	return slot + 1;
}

/* The values from `begin` on, as the tuple of arguments in the place of the first. */
static struct slot *arguments_of(struct machine *m, struct slot *begin, struct slot *top)
{
	size_t count = (size_t)(top - begin);
	if (count == 0)
		return push(m, begin, REF_EMPTY_TUPLE);
	if (count > 3)
		return fsdp_machine_collect(m, begin, top, FSDP_PICKLE_TUPLE, false);
	return small_tuple(m, top, (unsigned)count);
}

/* mark, callable, arguments … */
struct slot *fsdp_machine_obj(struct machine *m, struct slot *top)
{
	struct slot *begin = take_mark(m);
	if (unlikely(begin == top)) {
		DAMAGED(m, "OBJ finds no class above its mark");
		top = push(m, top, REF_UNKNOWN);
		if (top == NULL)
			return NULL;
		begin = top - 1;
	}
	ptrdiff_t place = begin - m->stack; /* the stack may move */
	top = arguments_of(m, begin + 1, top);
	if (top == NULL)
		return NULL;
	begin = m->stack + place;
	return apply(m, begin, begin[0].ref, begin[1].ref, FSDP_USE_CALLED);
}

/* mark, arguments …; the class is in the opcode. */
struct slot *fsdp_machine_inst(
	struct machine *m, struct slot *top, const unsigned char **ret_next)
{
	fsdp_ref callable = intern_lines(m, m->at + 1, ret_next);
	if (callable == FSDP_REF_NONE)
		return NULL;
	struct slot *begin = take_mark(m);
	top = arguments_of(m, begin, top);
	if (top == NULL)
		return NULL;
	return apply(m, top - 1, callable, top[-1].ref, FSDP_USE_CALLED);
}

/* ---- states ---- */

/* One more state of a call that has one. */
static bool add_state(struct machine *m, struct cell *states, const struct slot *state)
{
	FIND(m, PICKLE_STATE, FSDP_WARNING, "an object is given its state a second time");
	if (states->c == 0) {
		uint32_t index;
		struct cell *list = fsdp_machine_new_cells(m, 1, &index);
		if (list == NULL)
			return false;
		*list = (struct cell){ .kind = FSDP_PICKLE_LIST };
		states->c = index;
	}
	return fsdp_machine_add_items(m, cell_at(m->pickle, states->c), state, 1, false);
}

/* True if the family made a number of it; false also if that failed (*ret_failed). */
static bool fold_instance(struct machine *m, struct slot *slot, struct cell *call,
	fsdp_ref state, bool *ret_failed)
{
	if (call->c != 0 || ref_tag(call->a) != TAG_GLOBAL)
		return false;
	int32_t row = global_at(m->pickle, ref_payload(call->a))->fold_build;
	fsdp_ref ref;
	if (row < 0)
		return false;
	switch (ask_fold(m, row, call->a, call->b, state, &ref)) {
	case FOLDED:
		*call = (struct cell){ .kind = CELL_FORWARD, .a = ref_payload(ref) };
		forget(m, slot, ref);
		return true;
	case FOLD_FAILED:
		*ret_failed = true;
		return false;
	case NOT_FOLDED:
		return false;
	}
	return false;
}

static const struct cell *cell_of(const struct machine *m, fsdp_ref ref)
{
	return ref_is_cell(ref) ? ref_cell(m, ref) : NULL;
}

/* The run of the keys and values of a state that is a small dict, or None and one; NULL:
 * it is something else. */
static struct cell *few_pairs(const struct machine *m, fsdp_ref state, bool *ret_slots)
{
	const struct cell *cell = cell_of(m, state);
	*ret_slots = cell != NULL && cell->kind == FSDP_PICKLE_TUPLE && cell->x == 2 &&
		     cell->a == REF_NULL;
	if (*ret_slots)
		cell = cell_of(m, cell->b);
	if (cell == NULL || cell->kind != FSDP_PICKLE_DICT || cell->a == 0 ||
		cell->a > QUIET_KEYS)
		return NULL;
	struct cell *run = cell_at(m->pickle, cell->b);
	return run->c == 1 && run->a == 2 * cell->a ? run : NULL;
}

/* A text that came out of the memo stays as long as the pickle, and so does its
 * reference. */
static void keep_keys(
	const struct machine *m, struct global *global, struct cell *run, bool slots)
{
	const fsdp_ref *refs = run_refs(run);
	global->quiet_key_count = 0;
	for (size_t i = 0; i < run->a / 2; i++) {
		const struct cell *key = cell_of(m, refs[2 * i]);
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

static void tell_state(struct machine *m, const struct slot *slot, fsdp_ref callable)
{
	struct global *global = ref_tag(callable) == TAG_GLOBAL
					? global_at(m->pickle, ref_payload(callable))
					: NULL;
	bool slots = false;
	struct cell *run = global != NULL ? few_pairs(m, slot[1].ref, &slots) : NULL;
	if (run != NULL && has_kept_keys(global, run, slots))
		return;
	if (fsdp_machine_tell(m, &(struct fsdp_pickle_deed){ .kind = FSDP_DEED_BUILD,
					 .object = slot[0].ref,
					 .argument = slot[1].ref,
					 .keywords = FSDP_REF_NONE }) &&
		run != NULL)
		keep_keys(m, global, run, slots);
}

struct slot *fsdp_machine_build(struct machine *m, struct slot *top)
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
	bool failed = false;
	if (fold_instance(m, slot, cell, top[-1].ref, &failed))
		return top - 1;
	tell_state(m, slot, cell->a);
	struct cell *more = failed ? NULL : fsdp_machine_more_of_call(m, cell);
	if (more == NULL)
		return NULL;
	if (likely(more[1].b == FSDP_REF_NONE))
		more[1].b = top[-1].ref;
	else if (!add_state(m, &more[1], top - 1))
		return NULL;
	pin_if_old(m, slot, ref_payload(slot->ref));
	return top - 1;
}

/* ---- persistent ids ---- */

/* Of a tuple of more than three; 0 of anything else. */
static uint32_t item_count(const struct machine *m, fsdp_ref id)
{
	const struct cell *cell = cell_of(m, id);
	return cell != NULL && cell->kind == FSDP_PICKLE_TUPLE && cell->x == 0 ? cell->a
									       : 0;
}

static void tell_id(struct machine *m, fsdp_ref id, bool is_folded)
{
	uint32_t count = is_folded ? item_count(m, id) : 0;
	if (count != 0 && count == m->quiet_id)
		return;
	if (fsdp_machine_tell(m, &(struct fsdp_pickle_deed){ .kind = FSDP_DEED_PERSISTENT,
					 .folded = is_folded,
					 .object = id,
					 .argument = FSDP_REF_NONE,
					 .keywords = FSDP_REF_NONE }) &&
		is_folded)
		m->quiet_id = count;
}

/* The value on top is a persistent id. */
struct slot *fsdp_machine_persistent(struct machine *m, struct slot *top)
{
	NEED(m, top, 1);
	struct slot *slot = top - 1;
	const struct fsdp_pickle_options *options = m->options;
	struct fsdp_error *error = NULL;
	uint32_t number = 0;
	bool is_folded = options->fold_persistent != NULL &&
			 options->fold_persistent(options->context, m->pickle, slot->ref,
				 &number, &error) &&
			 number < REF_PAYLOADS;
	if (!is_folded && error != NULL)
		return fail_fold(m, error);
	tell_id(m, slot->ref, is_folded);
	if (is_folded) {
		forget(m, slot, REF(TAG_FOLDED, number));
		return top;
	}
	struct cell *cell = new_cell(m);
	if (cell == NULL)
		return NULL;
	*cell = (struct cell){ .kind = FSDP_PICKLE_PERSISTENT, .a = slot->ref };
	slot->ref = REF(TAG_CELL, cell_count(m) - 1);
	return top;
}
