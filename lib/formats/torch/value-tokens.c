/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns a saved value that is not a tensor into a row of tokens, one per plain value and
 * container, and the name that Python has for its type.
 *
 * Values may share their items, so one is cut at so many tokens, levels and bytes, and
 * all values of a checkpoint together at what is linear in its bytes. Containers are
 * entered with a stack.
 */
#include "formats/torch/torch.h"

#include "base/characters.h"
#include "base/num.h"

#include <stdio.h>

/* ---- tokens of a value ---- */

enum { TOKENS_MAX = 16384, TOKEN_DEPTH = 256, VALUE_BYTES = 64 << 10 };

/* What all values of a checkpoint may take together: so much, and so much for each byte
 * of the input. A token counts as several bytes. Unshared, no file has more tokens than
 * bytes. */
enum { VALUES_BYTES = 1 << 20, BYTES_PER_GIVEN = 8, TOKEN_BYTES = 8, LAST_PART = 4096 };

struct formatting {
	struct fsdp_torch *torch;
	struct fsdp_token *tokens;
	size_t count, room;
	uint64_t text_bytes;
	uint64_t ceiling; /* of bytes and tokens, what other values left over */
	bool cut;
};

static struct fsdp_token *add_token(
	struct formatting *formatting, enum fsdp_token_kind kind)
{
	if (formatting->count == formatting->room) {
		size_t room = formatting->room == 0 ? 8 : formatting->room * 2;
		struct fsdp_token *grown =
			FSDP_TAKE(formatting->torch->scratch, grown, room);
		if (formatting->count != 0)
			memcpy(grown, formatting->tokens,
				formatting->count * sizeof *grown);
		formatting->tokens = grown;
		formatting->room = room;
	}
	struct fsdp_token *token = &formatting->tokens[formatting->count++];
	*token = (struct fsdp_token){ .kind = kind };
	return token;
}

static struct fsdp_span describe_global(
	struct fsdp_torch *torch, const struct fsdp_pickle_global *global)
{
	size_t size = global->module.size + 1 + global->name.size;
	char *text = fsdp_arena_take(torch->model->arena, size + 1, 1);
	memcpy(text, global->module.data, global->module.size);
	text[global->module.size] = '.';
	memcpy(text + global->module.size + 1, global->name.data, global->name.size);
	return fsdp_span(text, size);
}

/* One container that is being spelled. */
struct open {
	struct fsdp_pickle_iterator iterator;
	size_t token;
	bool pairs;
	/* A call's arguments and first state still to come after its items. */
	fsdp_ref argument, state;
};

static bool is_builtin(const struct fsdp_pickle_global *global, const char *name)
{
	return fsdp_span_is(global->module, "builtins") &&
	       fsdp_span_is(global->name, name);
}

static void format_folded(struct formatting *formatting, fsdp_ref ref)
{
	uint32_t number;
	struct fsdp_torch *torch = formatting->torch;
	(void)fsdp_pickle_folded(torch->pickle, ref, &number);
	if (fsdp_torch_kind(number) == FSDP_TORCH_SIZE) {
		/* A folded torch.Size is a tuple of integers. */
		int64_t items[FSDP_DIMS_MAX];
		size_t count;
		if (!fsdp_torch_ints(torch, ref, items, &count))
			fsdp_model_leave(torch->model, NULL);
		add_token(formatting, FSDP_TOKEN_TUPLE)->count = (uint32_t)count;
		for (size_t i = 0; i < count; i++)
			add_token(formatting, FSDP_TOKEN_INTEGER)->integer = items[i];
		return;
	}
	struct fsdp_token *token = add_token(formatting, FSDP_TOKEN_TENSOR);
	if (fsdp_torch_kind(number) == FSDP_TORCH_TENSOR) {
		const struct fsdp_torch_tensor *tensor =
			fsdp_torch_tensor(torch, fsdp_torch_index(number));
		char text[256];
		size_t at = (size_t)snprintf(text, sizeof text, "tensor(%s, [",
			fsdp_dtype(tensor->dtype)->name);
		const int64_t *shape = fsdp_model_ints(torch->model, tensor->shape);
		for (size_t i = 0; shape != NULL && i < tensor->dims && at < 200; i++)
			at += (size_t)snprintf(text + at, sizeof text - at,
				i == 0 ? "%lld" : ", %lld", (long long)shape[i]);
		at += (size_t)snprintf(text + at, sizeof text - at, "])");
		token->text = fsdp_arena_copy(torch->model->arena, fsdp_span(text, at));
	} else
		token->text = FSDP_SPAN("storage");
}

/* A value without items of its own. False: it is a container. */
static bool format_leaf(struct formatting *formatting, fsdp_ref ref)
{
	struct fsdp_pickle *pickle = formatting->torch->pickle;
	struct fsdp_token *token;
	enum fsdp_pickle_kind kind = fsdp_pickle_kind(pickle, ref);
	switch (kind) {
	case FSDP_PICKLE_NOTHING:
	case FSDP_PICKLE_BUFFER:
	case FSDP_PICKLE_PERSISTENT:
		(void)add_token(formatting, FSDP_TOKEN_CUT);
		return true;
	case FSDP_PICKLE_NULL:
		(void)add_token(formatting, FSDP_TOKEN_NONE);
		return true;
	case FSDP_PICKLE_BOOL:
	case FSDP_PICKLE_INTEGER:
		token = add_token(formatting,
			kind == FSDP_PICKLE_BOOL ? FSDP_TOKEN_BOOL : FSDP_TOKEN_INTEGER);
		(void)fsdp_pickle_integer(pickle, ref, &token->integer);
		return true;
	case FSDP_PICKLE_FLOAT:
		token = add_token(formatting, FSDP_TOKEN_FLOAT);
		(void)fsdp_pickle_float(pickle, ref, &token->number);
		return true;
	case FSDP_PICKLE_BIG_INTEGER:
	case FSDP_PICKLE_TEXT:
	case FSDP_PICKLE_BYTES:
	case FSDP_PICKLE_BYTEARRAY:
		token = add_token(formatting, kind == FSDP_PICKLE_TEXT ? FSDP_TOKEN_TEXT
					      : kind == FSDP_PICKLE_BIG_INTEGER
						      ? FSDP_TOKEN_BIG_INTEGER
						      : FSDP_TOKEN_BYTES);
		token->text = fsdp_pickle_span(pickle, ref);
		formatting->text_bytes += token->text.size;
		if (formatting->torch->copies)
			token->text = fsdp_arena_copy(
				formatting->torch->model->arena, token->text);
		if (kind == FSDP_PICKLE_BIG_INTEGER &&
			!fsdp_pickle_is_written(pickle, ref))
			token->text = fsdp_big_text(
				token->text, formatting->torch->model->arena);
		return true;
	case FSDP_PICKLE_GLOBAL:
		token = add_token(formatting, FSDP_TOKEN_GLOBAL);
		token->text = describe_global(
			formatting->torch, fsdp_pickle_named(pickle, ref));
		formatting->text_bytes += token->text.size;
		return true;
	case FSDP_PICKLE_FOLDED:
		format_folded(formatting, ref);
		return true;
	case FSDP_PICKLE_TUPLE:
	case FSDP_PICKLE_LIST:
	case FSDP_PICKLE_SET:
	case FSDP_PICKLE_FROZENSET:
	case FSDP_PICKLE_DICT:
	case FSDP_PICKLE_CALL:
	case FSDP_PICKLE_KIND_COUNT:
		break;
	}
	return false;
}

/* Calls that stand for plain data are spelled as it. True: it is done. */
static bool format_plain_call(struct formatting *formatting, fsdp_ref ref,
	fsdp_ref *ret_inside, enum fsdp_token_kind *ret_kind)
{
	struct fsdp_torch *torch = formatting->torch;
	struct fsdp_pickle *pickle = torch->pickle;
	const struct fsdp_pickle_global *global = fsdp_pickle_named(pickle, ref);
	fsdp_ref first = fsdp_pickle_item(pickle, fsdp_pickle_argument(pickle, ref), 0);
	if (global == NULL)
		return false;
	if (fsdp_span_is(global->module, "_codecs") &&
		fsdp_span_is(global->name, "encode") &&
		fsdp_pickle_text(pickle, first).data != NULL) {
		struct fsdp_token *token = add_token(formatting, FSDP_TOKEN_BYTES);
		token->text = fsdp_pickle_text(pickle, first);
		(void)fsdp_torch_latin1(token->text, torch->model->arena, &token->text);
		formatting->text_bytes += token->text.size;
		return true;
	}
	bool is_set = is_builtin(global, "set") || is_builtin(global, "frozenset");
	if (is_set && fsdp_pickle_kind(pickle, first) == FSDP_PICKLE_LIST) {
		*ret_inside = first;
		*ret_kind = FSDP_TOKEN_SET;
	}
	return false;
}

/* Begins a container: its token, and where its items come from. False: it has none. */
static bool open_container(struct formatting *formatting, fsdp_ref ref, struct open *open)
{
	struct fsdp_pickle *pickle = formatting->torch->pickle;
	enum fsdp_pickle_kind kind = fsdp_pickle_kind(pickle, ref);
	enum fsdp_token_kind token_kind = kind == FSDP_PICKLE_TUPLE  ? FSDP_TOKEN_TUPLE
					  : kind == FSDP_PICKLE_LIST ? FSDP_TOKEN_LIST
					  : kind == FSDP_PICKLE_DICT ? FSDP_TOKEN_DICT
					  : kind == FSDP_PICKLE_CALL ? FSDP_TOKEN_OBJECT
								     : FSDP_TOKEN_SET;
	fsdp_ref inside = ref;
	if (kind == FSDP_PICKLE_CALL &&
		format_plain_call(formatting, ref, &inside, &token_kind))
		return false;
	*open = (struct open){
		.iterator = { .ref = inside },
		.token = formatting->count,
		.pairs = kind == FSDP_PICKLE_DICT,
		.argument = FSDP_REF_NONE,
		.state = FSDP_REF_NONE,
	};
	struct fsdp_token *token = add_token(formatting, token_kind);
	if (token_kind != FSDP_TOKEN_OBJECT)
		return true;
	const struct fsdp_pickle_global *global = fsdp_pickle_named(pickle, ref);
	token->text = global != NULL ? describe_global(formatting->torch, global)
				     : FSDP_SPAN("object");
	formatting->text_bytes += token->text.size;
	open->argument = fsdp_pickle_argument(pickle, ref);
	open->state = fsdp_pickle_state(pickle, ref, 0);
	return true;
}

static uint64_t taken_by(const struct formatting *formatting)
{
	return TOKEN_BYTES * (uint64_t)formatting->count + formatting->text_bytes;
}

static void format_one(
	struct formatting *formatting, fsdp_ref ref, struct open *stack, size_t *depth)
{
	if (formatting->count >= TOKENS_MAX || formatting->text_bytes > VALUE_BYTES ||
		taken_by(formatting) >= formatting->ceiling) {
		formatting->cut = true;
		(void)add_token(formatting, FSDP_TOKEN_CUT);
	} else if (format_leaf(formatting, ref)) {
		return;
	} else if (*depth == TOKEN_DEPTH) {
		(void)add_token(formatting, FSDP_TOKEN_CUT);
	} else if (open_container(formatting, ref, &stack[*depth])) {
		++*depth;
	}
}

/* One step of the innermost container; closes it when nothing is left. Objects give
 * their arguments, then their state, then what was put into them. */
static void format_step(struct formatting *formatting, struct open *stack, size_t *depth)
{
	struct fsdp_pickle *pickle = formatting->torch->pickle;
	struct open *open = &stack[*depth - 1];
	fsdp_ref key, value, next = FSDP_REF_NONE;
	if (open->argument != FSDP_REF_NONE) {
		next = open->argument;
		open->argument = FSDP_REF_NONE;
	} else if (open->state != FSDP_REF_NONE) {
		next = open->state;
		open->state = FSDP_REF_NONE;
	}
	if (next != FSDP_REF_NONE) {
		formatting->tokens[open->token].count++;
		format_one(formatting, next, stack, depth);
		return;
	}
	if (formatting->cut || !fsdp_pickle_next(pickle, &open->iterator, &key, &value)) {
		--*depth;
		return;
	}
	formatting->tokens[open->token].count +=
		key != FSDP_REF_NONE && !open->pairs ? 2 : 1;
	/* What was put into a dict as into a list has no key, and a dict is pairs. */
	if (open->pairs && key == FSDP_REF_NONE)
		(void)add_token(formatting, FSDP_TOKEN_CUT);
	if (key != FSDP_REF_NONE) {
		/* Keys are hashable, so they hold no open containers but tuples. */
		size_t before = *depth;
		format_one(formatting, key, stack, depth);
		while (*depth > before)
			format_step(formatting, stack, depth);
	}
	format_one(formatting, value, stack, depth);
}

/* ---- types ---- */

struct fsdp_span fsdp_torch_class_name(struct fsdp_span name)
{
	size_t end = name.size > LAST_PART ? name.size - LAST_PART : 0;
	for (size_t i = name.size; i-- > end;)
		if (name.data[i] == '.')
			return fsdp_span(name.data + i + 1, name.size - i - 1);
	return name;
}

struct fsdp_span fsdp_torch_type_name(struct fsdp_torch *torch, fsdp_ref ref)
{
	enum fsdp_pickle_kind kind = fsdp_pickle_kind(torch->pickle, ref);
	const struct fsdp_pickle_global *global = fsdp_pickle_named(torch->pickle, ref);
	if (kind == FSDP_PICKLE_GLOBAL && global != NULL &&
		fsdp_torch_dtype(torch->pickle, ref) != FSDP_DTYPE_UNKNOWN)
		return FSDP_SPAN("dtype");
	if (kind == FSDP_PICKLE_CALL && global != NULL) {
		if (fsdp_span_is(global->module, "_codecs"))
			return FSDP_SPAN("bytes");
		if (fsdp_span_is(global->name, "_reconstruct"))
			return FSDP_SPAN("ndarray");
		return fsdp_torch_class_name(global->name);
	}
	uint32_t index;
	if (fsdp_torch_folded(torch, ref, FSDP_TORCH_STORAGE, &index) ||
		fsdp_torch_folded(torch, ref, FSDP_TORCH_PART, &index))
		return FSDP_SPAN("UntypedStorage");
	if (fsdp_torch_folded(torch, ref, FSDP_TORCH_TENSOR, &index))
		return FSDP_SPAN("Tensor");
	const char *name = kind == FSDP_PICKLE_BUFFER ? "buffer"
			   : kind == FSDP_PICKLE_FOLDED
				   ? "Size"
				   : fsdp_pickle_type_name(torch->pickle, ref);
	return fsdp_span_text(name != NULL ? name : "object");
}

/* ---- a value ---- */

static uint64_t left_over(const struct fsdp_model *model)
{
	uint64_t given = model->arena->budget->given, most;
	if (!fsdp_mul(given, BYTES_PER_GIVEN, &most) ||
		!fsdp_add(most, VALUES_BYTES, &most))
		most = UINT64_MAX;
	return model->value_bytes < most ? most - model->value_bytes : 0;
}

void fsdp_torch_tokens(
	struct fsdp_torch *torch, fsdp_ref ref, struct fsdp_value_record *value)
{
	struct formatting formatting = { .torch = torch,
		.ceiling = left_over(torch->model) };
	formatting.tokens = torch->tokens;
	formatting.room = torch->token_room;
	if (torch->open == NULL)
		torch->open = fsdp_arena_take(torch->scratch,
			TOKEN_DEPTH * sizeof(struct open), _Alignof(struct open));
	struct open *stack = torch->open;
	size_t depth = 0;
	format_one(&formatting, ref, stack, &depth);
	while (depth != 0)
		format_step(&formatting, stack, &depth);
	struct fsdp_token *tokens =
		FSDP_TAKE(torch->model->arena, tokens, formatting.count);
	memcpy(tokens, formatting.tokens, formatting.count * sizeof *tokens);
	/* One finding a file, if values are cut because all of them together are too
	 * large. */
	torch->model->value_bytes += taken_by(&formatting);
	if (formatting.cut && taken_by(&formatting) >= formatting.ceiling &&
		!torch->values_cut) {
		torch->values_cut = true;
		fsdp_find(&torch->model->findings, FSDP_RULE_PICKLE_EXPANSION,
			FSDP_PLACE(.file = torch->file, .member = torch->member,
				.severity = FSDP_WARNING + 1),
			"shared values expand to too many entries; the rest is omitted");
	}
	torch->tokens = formatting.tokens;
	torch->token_room = formatting.room;
	value->tokens = tokens;
	value->token_count = (uint32_t)formatting.count;
	value->type = fsdp_build_text(torch->model, fsdp_torch_type_name(torch, ref));
}

/* ---- pickles inside values ---- */

/*
 * Finds pickles inside the values of a pickle: bytes, or text that stands for bytes, that
 * begin as pickles do and run to their STOP. A program that loads the value may hand it
 * to a loader, so their globals are reported; nothing of them is read into the model.
 *
 * Values are found without reading the pickle again: by PROTO, with the opcode of bytes
 * or text and its length before it. A number may look like that, but it is not followed
 * by a complete pickle with a global.
 */

enum {
	ONE_MOST = 16 << 20, /* bytes of one that is looked at */
	ALL_MOST = 64 << 20, /* and of all together */
	DEPTH = 2,
	LEAST = 8, /* PROTO, a global of one letter each, STOP */
};

struct inside_values {
	struct fsdp_torch *torch;
	uint64_t left; /* bytes that may still be looked at */
};

/* The value whose first byte is at `at`: the argument of an opcode before it. */
static bool read_value(
	struct fsdp_span stream, size_t at, bool text, struct fsdp_span *ret_value)
{
	static const struct {
		unsigned char code, width;
		bool text;
	} forms[] = { { FSDP_OP_SHORT_BINBYTES, 1, false },
		{ FSDP_OP_SHORT_BINSTRING, 1, false }, { FSDP_OP_BINBYTES, 4, false },
		{ FSDP_OP_BINSTRING, 4, false }, { FSDP_OP_BINBYTES8, 8, false },
		{ FSDP_OP_BYTEARRAY8, 8, false }, { FSDP_OP_SHORT_BINUNICODE, 1, true },
		{ FSDP_OP_BINUNICODE, 4, true }, { FSDP_OP_BINUNICODE8, 8, true } };
	for (size_t i = 0; i < FSDP_COUNT(forms); i++) {
		size_t width = forms[i].width;
		uint64_t size = 0;
		if (forms[i].text != text || at < width + 1 ||
			stream.data[at - width - 1] != forms[i].code)
			continue;
		for (size_t k = 0; k < width; k++)
			size |= (uint64_t)stream.data[at - width + k] << (8 * k);
		if (size < LEAST || size > stream.size - at)
			continue;
		*ret_value = fsdp_span(stream.data + at, (size_t)size);
		return true;
	}
	return false;
}

/* Names of globals, those that are not data first. */
struct names {
	char text[2 * FSDP_SHOWN];
	size_t size, count, bad;
};

static void list_names(const struct inside_values *nested,
	const struct fsdp_pickle *pickle, struct names *names)
{
	names->count = fsdp_pickle_global_count(pickle);
	for (int known = 0; known < 2; known++)
		FSDP_EACH(i, names->count, global, fsdp_pickle_global(pickle, i)) {
			bool is_known =
				fsdp_torch_profile_of(nested->torch, global) != NULL;
			names->bad +=
				known == 0 && fsdp_torch_is_bad(nested->torch, global);
			if (is_known == (known != 0)) {
				char module[FSDP_SHOWN], name[FSDP_SHOWN];
				int size = snprintf(names->text + names->size,
					sizeof names->text - names->size, "%s%s.%s",
					names->size == 0 ? "" : ", ",
					fsdp_shown(global->module, module),
					fsdp_shown(global->name, name));
				if (size > 0 &&
					(size_t)size < sizeof names->text - names->size)
					names->size += (size_t)size;
				else
					names->text[names->size] = '\0';
			}
		}
}

static void find_nested_pickles(struct inside_values *nested, struct fsdp_span stream,
	uint64_t base, unsigned depth);

/* `at`: position of the value in the outermost pickle. False: not a complete pickle. */
static bool check_nested(
	struct inside_values *nested, struct fsdp_span value, uint64_t at, unsigned depth)
{
	struct fsdp_torch *torch = nested->torch;
	struct fsdp_pickle *pickle = NULL;
	struct fsdp_error *error = NULL;
	struct fsdp_findings unused;
	struct fsdp_arena arena;
	struct names names = { .size = 0 };
	fsdp_arena_init(&arena, torch->scratch->budget);
	fsdp_findings_init(&unused, &arena, torch->model->limits);
	const struct fsdp_pickle_options options = {
		.limits = torch->model->limits,
		.findings = &unused,
		.may_trail = true,
	};
	bool whole = fsdp_pickle_read(value, &arena, &options, &pickle, &error);
	if (whole)
		list_names(nested, pickle, &names);
	if (names.count != 0)
		fsdp_find(&torch->model->findings, FSDP_RULE_PICKLE_IN_VALUE,
			FSDP_PLACE(.file = torch->file, .member = torch->member,
				.offset = torch->base + at, .length = value.size,
				.severity = names.bad != 0 ? FSDP_ERROR + 1 : 0),
			"a value of the pickle is another pickle, which uses %s",
			names.text);
	fsdp_error_free(error);
	fsdp_arena_done(&arena);
	if (whole && depth < DEPTH)
		find_nested_pickles(nested, value, at, depth + 1);
	return whole;
}

/* End of a storage in the pickle here that was read; 0: none. */
static size_t behind_storage(const struct fsdp_torch *torch, size_t at)
{
	size_t low = 0, high = torch->inlined.count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct fsdp_torch_inlined *inlined =
			fsdp_vec_at(&torch->inlined, middle);
		if (at >= inlined->begin && at < inlined->end)
			return (size_t)inlined->end;
		if (at < inlined->begin)
			high = middle;
		else
			low = middle + 1;
	}
	return 0;
}

/* Bytes that were looked at, and whose values with them; 0: this is not a pickle. */
static size_t look_at(struct inside_values *nested, struct fsdp_span stream, size_t at,
	bool text, uint64_t base, unsigned depth)
{
	struct fsdp_arena arena;
	struct fsdp_span value, bytes;
	if (!read_value(stream, at, text, &value) || value.size > ONE_MOST ||
		value.size > nested->left)
		return 0;
	nested->left -= value.size;
	fsdp_arena_init(&arena, nested->torch->scratch->budget);
	bytes = value;
	bool whole = (!text || fsdp_torch_latin1(value, &arena, &bytes)) &&
		     check_nested(nested, bytes, base + at, depth);
	fsdp_arena_done(&arena);
	return whole ? value.size : 0;
}

/* How deep this goes is fixed. */
static void find_nested_pickles(struct inside_values *nested, struct fsdp_span stream,
	uint64_t base, unsigned depth)
{
	size_t at = 2; /* after its own PROTO */
	while (at + LEAST <= stream.size) {
		const unsigned char *found =
			memchr(stream.data + at, FSDP_OP_PROTO, stream.size - at - 1);
		if (found == NULL)
			return;
		at = (size_t)(found - stream.data);
		bool text = stream.data[at - 1] == 0xc2;
		size_t begin = text ? at - 1 : at, size = 0;
		size_t end = depth == 1 ? behind_storage(nested->torch, begin) : 0;
		if (end != 0) {
			at = end;
			continue;
		}
		if (found[1] >= 2 && found[1] <= 5)
			size = look_at(nested, stream, begin, text, base, depth);
		at = size != 0 ? begin + size : at + 1;
	}
}

void fsdp_torch_look_inside(struct fsdp_torch *torch, struct fsdp_span stream)
{
	struct inside_values nested = { .torch = torch, .left = ALL_MOST };
	/* It has arenas in its hands. */
	fsdp_arena_hold(torch->model->arena);
	find_nested_pickles(&nested, stream, 0, 1);
	fsdp_arena_resume(torch->model->arena);
}

/* ---- tensors without a name ---- */

/*
 * Tensors without a name: in a value that the walk does not enter, for example an
 * object of an unknown class, a set, or the key of a dict.
 *
 * Each container is searched once, whichever values share it, so that all values
 * together cost what the pickle has. Of values that share one, the first counts.
 */

/* Writers give an object one or two: the rest is not looked at. */
enum { STATES = 64 };

static bool has_elements(struct fsdp_pickle *pickle, fsdp_ref ref)
{
	uint32_t number;
	return fsdp_pickle_folded(pickle, ref, &number) &&
	       fsdp_torch_kind(number) != FSDP_TORCH_SIZE;
}

/* A value that cannot contain others is not kept. */
static void keep(struct fsdp_torch *torch, fsdp_ref ref)
{
	if (fsdp_pickle_identity(torch->pickle, ref) != 0 ||
		has_elements(torch->pickle, ref))
		fsdp_vec_append(&torch->hiding, &ref);
}

bool fsdp_torch_hides(struct fsdp_torch *torch, fsdp_ref ref)
{
	size_t bound = fsdp_pickle_identity_bound(torch->pickle);
	bool hides = false;
	torch->hiding.count = 0;
	keep(torch, ref);
	if (torch->hiding.count != 0 && torch->hiders == NULL)
		torch->hiders = fsdp_arena_take(torch->scratch, bound + 1, 1);
	while (torch->hiding.count != 0) {
		fsdp_ref at =
			*(fsdp_ref *)fsdp_vec_at(&torch->hiding, torch->hiding.count - 1);
		torch->hiding.count--;
		unsigned char *seen =
			&torch->hiders[fsdp_pickle_identity(torch->pickle, at)];
		if (has_elements(torch->pickle, at)) {
			hides = true;
		} else if (*seen == 0) {
			*seen = 1;
			/* A call has arguments and states besides. */
			struct fsdp_pickle *pickle = torch->pickle;
			struct fsdp_pickle_iterator iterator = { .ref = at };
			fsdp_ref key, value;
			fsdp_model_work(torch->model, fsdp_pickle_count(pickle, at) + 1);
			keep(torch, fsdp_pickle_argument(pickle, at));
			keep(torch, fsdp_pickle_keywords(pickle, at));
			for (size_t i = 0; i < STATES; i++)
				keep(torch, fsdp_pickle_state(pickle, at, i));
			while (fsdp_pickle_next(pickle, &iterator, &key, &value)) {
				keep(torch, key);
				keep(torch, value);
			}
		}
	}
	return hides;
}
