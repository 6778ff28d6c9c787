/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's loop: what each opcode does, in one switch, and what comes before and
 * after it. Calls nothing but the folds of the caller. pickle-machine.h tells how the
 * parts work together.
 */
#include "syntax/pickle-machine.h"

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
	if (unlikely(!memo_fill(&m->memo, (uint32_t)slot)))
		return fsdp_machine_stop(m);
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

static struct slot *op_put_text(
	struct machine *m, struct slot *top, struct fsdp_span line)
{
	uint64_t slot = slot_text(line);
	if (slot != UINT64_MAX)
		return op_memoize(m, top, slot);
	DAMAGED(m, "PUT to a slot that is not a number below 2^32");
	return top;
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

static struct slot *op_get_text(
	struct machine *m, struct slot *top, struct fsdp_span line)
{
	uint64_t slot = slot_text(line);
	if (slot != UINT64_MAX)
		return op_recall(m, top, (uint32_t)slot);
	DAMAGED(m, "GET of a slot that is not a number below 2^32");
	return push(m, top, REF_UNKNOWN);
}

/* ---- the rest of the stack ---- */

static struct slot *op_dup(struct machine *m, struct slot *top)
{
	NEED(m, top, 1);
	return push(m, top, share(m, top[-1].ref, CELL_SHARED));
}

static struct slot *op_pop(struct machine *m, struct slot *top)
{
	if (top == m->floor && m->mark_count != 0) {
		take_mark(m);
		return top;
	}
	NEED(m, top, 1);
	return top - 1;
}

static struct slot *op_buffer(struct machine *m, struct slot *top)
{
	FIND(m, PICKLE_OPCODE, FSDP_ERROR, "%s needs a buffer that is not in the file",
		op_name(m));
	if (*m->at == FSDP_OP_NEXT_BUFFER)
		return push(m, top, REF_BUFFER);
	NEED(m, top, 1);
	return top;
}

static struct slot *op_stop(struct machine *m, struct slot *top)
{
	NEED(m, top, 1);
	m->stopped = true;
	if (m->error == NULL && (top - 1 > m->stack || m->mark_count != 0))
		FIND(m, PICKLE_ODD, FSDP_NOTE,
			"%td values and %zu marks are left at STOP", top - 1 - m->stack,
			m->mark_count);
	m->pickle->top = top[-1].ref;
	return top;
}

/* ---- the loop ---- */

static struct slot *op_persistent_text(
	struct machine *m, struct slot *top, struct fsdp_span line)
{
	top = fsdp_machine_push_text(m, top, line);
	return top != NULL ? fsdp_machine_persistent(m, top) : NULL;
}

/* The opcodes with a line of text: all of protocol 0, none of them frequent. */
static struct slot *do_line(
	struct machine *m, struct slot *top, const unsigned char **ret_next)
{
	struct fsdp_span line;
	if (!take_line(m, m->at + 1, &line, ret_next))
		return NULL;
	switch (*m->at) {
	case FSDP_OP_INT:
	case FSDP_OP_LONG:
		return fsdp_machine_integer_text(m, top, line);
	case FSDP_OP_FLOAT:
		return fsdp_machine_float_text(m, top, line);
	case FSDP_OP_PERSID:
		return op_persistent_text(m, top, line);
	case FSDP_OP_PUT:
		return op_put_text(m, top, line);
	case FSDP_OP_GET:
		return op_get_text(m, top, line);
	default:
		return fsdp_machine_text_line(m, top, line);
	}
}

/* An argument of that many bytes, behind a count of `fixed` bytes. */
static inline struct slot *step_span(struct machine *m, struct slot *top, uint8_t kind,
	size_t fixed, uint64_t size, const unsigned char **ret_next)
{
	const unsigned char *argument = m->at + 1;
	if (unlikely(!is_here(m, argument, fixed, size)))
		return fsdp_machine_changed(m);
	*ret_next = argument + fixed + size;
	return push_span(m, top, kind, argument + fixed, size);
}

static inline struct slot *step_integer(struct machine *m, struct slot *top, size_t fixed,
	uint32_t size, const unsigned char **ret_next)
{
	const unsigned char *argument = m->at + 1;
	if (unlikely(!is_here(m, argument, fixed, size)))
		return fsdp_machine_changed(m);
	*ret_next = argument + fixed + size;
	return fsdp_machine_integer_bytes(m, top, argument + fixed, size);
}

/* One opcode. *at moves behind it. */
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
		return fsdp_machine_put(m, top, APPENDING);
	case FSDP_OP_SETITEM:
		return fsdp_machine_put(m, top, PAIRING);
	case FSDP_OP_APPENDS:
		return fsdp_machine_put_all(m, top, APPENDING);
	case FSDP_OP_ADDITEMS:
		return fsdp_machine_put_all(m, top, ADDING);
	case FSDP_OP_SETITEMS:
		return fsdp_machine_put_all(m, top, PAIRING);
	case FSDP_OP_MARK:
		return fsdp_machine_mark(m, top);
	case FSDP_OP_POP:
		return op_pop(m, top);
	case FSDP_OP_POP_MARK:
		return take_mark(m);
	case FSDP_OP_DUP:
		return op_dup(m, top);
	case FSDP_OP_REDUCE:
		return fsdp_machine_call(m, top, FSDP_USE_CALLED);
	case FSDP_OP_NEWOBJ:
		return fsdp_machine_call(m, top, FSDP_USE_BUILT);
	case FSDP_OP_NEWOBJ_EX:
		return fsdp_machine_call_keywords(m, top);
	case FSDP_OP_OBJ:
		return fsdp_machine_obj(m, top);
	case FSDP_OP_INST:
		top = fsdp_machine_inst(m, top, &behind);
		*ret_next = behind;
		return top;
	case FSDP_OP_BUILD:
		return fsdp_machine_build(m, top);
	case FSDP_OP_GLOBAL:
		top = fsdp_machine_global(m, top, &behind);
		*ret_next = behind;
		return top;
	case FSDP_OP_STACK_GLOBAL:
		return fsdp_machine_stack_global(m, top);
	case FSDP_OP_BINPERSID:
		return fsdp_machine_persistent(m, top);
	case FSDP_OP_EXT1:
		*ret_next = argument + 1;
		return fsdp_machine_extension(m, top, *argument);
	case FSDP_OP_EXT2:
		*ret_next = argument + 2;
		return fsdp_machine_extension(m, top, load_u2(argument));
	case FSDP_OP_EXT4:
		*ret_next = argument + 4;
		return fsdp_machine_extension(m, top, load_u4(argument));
	case FSDP_OP_NEXT_BUFFER:
	case FSDP_OP_READONLY_BUFFER:
		return op_buffer(m, top);
	case FSDP_OP_PROTO:
		m->protocol = *argument;
		*ret_next = argument + 1;
		return top;
	case FSDP_OP_FRAME:
		*ret_next = argument + 8;
		return top;
	case FSDP_OP_STOP:
		return op_stop(m, top);
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
	return top; /* not reached: the lexer knows all codes */
}

/* The opcodes of one part. NULL: cannot go on. STOP, if the lexer found one, is the last
 * opcode of the last part (`stops`), and nowhere else: what it left on top would not
 * outlive what follows. */
static struct slot *run_part(struct machine *m, struct slot *top, bool stops)
{
	const unsigned char *next = m->part.begin;
	while (top != NULL && next < m->part.end) {
		m->at = next;
		top = step(m, top, &next);
		if (unlikely(m->stopped) && next != m->part.end)
			return fsdp_machine_changed(m);
	}
	if (top != NULL && (next > m->part.end || m->stopped != stops))
		return fsdp_machine_changed(m);
	return top;
}

/* Parts as the lexer cut them, up to the end of what it found whole. False: cannot go on.
 */
static bool run(struct machine *m, const struct lexed *lexed)
{
	struct slot *top = fsdp_machine_grow_stack(m, m->stack);
	uint64_t begin = 0, end;
	m->floor = m->stack;
	for (size_t i = 0; top != NULL && i <= lexed->cuts.count; i++, begin = end) {
		end = i < lexed->cuts.count
			      ? *(const uint64_t *)fsdp_vec_at(&lexed->cuts, i)
			      : lexed->end;
		if (!fsdp_part_move(&m->part, begin, end - begin, &m->error))
			return false;
		top = run_part(m, top, lexed->stopped && i == lexed->cuts.count);
	}
	if (top == NULL)
		return false;
	if (!m->stopped && top > m->stack)
		m->pickle->top = m->stack[0].ref;
	return true;
}

/* ---- before and after ---- */

/* Whether all from there to the end is zeros; false also if it cannot be read. */
static bool is_zero_from(struct machine *m, uint64_t offset)
{
	while (offset < m->part.size) {
		if (!fsdp_part_move(&m->part, offset, UINT64_MAX, &m->error))
			return false;
		for (const unsigned char *at = m->part.begin; at < m->part.end; at++)
			if (*at != 0)
				return false;
		offset += (uint64_t)(m->part.end - m->part.begin);
	}
	return true;
}

static void judge_rest(struct machine *m)
{
	uint64_t length = m->pickle->length;
	if (m->options->may_trail || is_zero_from(m, length) || m->error != NULL)
		return;
	bool globals = fsdp_pickle_names_globals(&m->part, length);
	PICKLE_FIND(m->options, FSDP_RULE_PICKLE_TRAILING, length,
		globals ? FSDP_ERROR : FSDP_WARNING,
		"%llu bytes follow the end of the pickle%s",
		FSDP_LLU(m->part.size - length), globals ? " and name globals" : "");
}

static bool prepare(struct machine *m)
{
	struct fsdp_hasher hasher = fsdp_hasher_new();
	fsdp_memo_init(&m->memo, &m->scratch, hasher);
	return fsdp_globals_init(&m->globals, &m->scratch, hasher, m->options) &&
	       fsdp_vec_push(&m->pickle->cells) != NULL;
}

/* What a global was pushed for and not applied, it stood as a value. */
static void settle_uses(const struct fsdp_pickle *pickle)
{
	for (size_t i = 0; i < pickle->globals.count; i++) {
		struct global *global = global_at(pickle, (uint32_t)i);
		if (global->pushed != global->applied)
			global->shown.uses |= FSDP_USE_VALUE;
	}
}

static bool read_pickle(struct machine *m)
{
	struct fsdp_pickle *pickle = m->pickle;
	struct lexed lexed = { 0 };
	if (!prepare(m) ||
		!fsdp_pickle_lex(
			pickle, m->options, &m->part, &m->memo, &lexed, &m->error) ||
		!fsdp_memo_seal(&m->memo, pickle->first[FSDP_OP_MEMOIZE] != FSDP_UNKNOWN))
		return fsdp_arena_fail(m->arena, &m->error);
	m->pin = 1;
	pickle->length = lexed.end;
	bool whole = run(m, &lexed);
	settle_uses(pickle);
	if (!whole)
		return false;
	if (!fsdp_pickle_check(
		    pickle, m->options, m->limits, &m->scratch, m->memo.hasher))
		return fsdp_arena_fail(m->arena, &m->error);
	if (m->stopped)
		judge_rest(m);
	return m->error == NULL;
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
static bool begin_part(
	struct machine *m, struct fsdp_span stream, const struct fsdp_pickle_parts *parts)
{
	uint64_t limit = fsdp_limit(m->limits, FSDP_LIMIT_PICKLE_BYTES);
	uint64_t size = parts != NULL ? parts->size : stream.size;
	if (size > limit)
		return fsdp_fail_limit(&m->error, FSDP_LIMIT_PICKLE_BYTES, limit);
	/* Of what was packed there may be a thousand times as much as the file has. */
	if (!fsdp_budget_work(m->arena->budget, size, &m->error))
		return false;
	if (parts != NULL)
		return fsdp_part_init(&m->part, parts, &m->scratch, &m->error);
	if (stream.data != NULL)
		m->pickle->stream = stream;
	fsdp_part_all(&m->part, m->pickle->stream);
	return true;
}

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
	fsdp_arena_init(&m.scratch, arena->budget);
	bool good = begin_part(&m, stream, parts) && read_pickle(&m);
	fsdp_arena_done(&m.scratch);
	*ret_pickle = m.pickle;
	fsdp_error_shift_offset(&m.error, options->base);
	fsdp_fail_with(ret_error, m.error);
	return good;
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
