/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the operations of a pickle: each call with its arguments, each state, each
 * persistent id, as they occur, against the shapes that their writers use. globals.c
 * lists the globals there are, rebuild.c what they build.
 *
 * A file can run only what it can name and what it can reach from there. So whatever is
 * called must be a global of the list, by its own name, with arguments that do not make
 * it call something else: anything else is an error, wherever it occurs. But what writers
 * do to make an object of a class (NEWOBJ, copyreg._reconstructor, REDUCE of a class with
 * arguments) may be done to a class that is on no list: it is reported as not checked.
 */
#include <stdio.h>

#include "formats/torch/torch.h"

enum {
	TEXT_BYTES = 4 * FSDP_SHOWN,
	SHOWN_ITEMS = 4,
	NAME_BYTES = 64, /* of an enum's member */
	LEAST_WATCH = 4096,
};

/* One operation, and its operands. */
struct trial {
	struct fsdp_torch *torch;
	const struct fsdp_pickle *pickle;
	const struct fsdp_pickle_deed *deed;
};

#define FIND(trial, rule, how_bad, ...)                                         \
	fsdp_find(&(trial)->torch->model->findings, FSDP_RULE_##rule,           \
		FSDP_PLACE(.file = (trial)->torch->file,                        \
			.member = (trial)->torch->member,                       \
			.offset = (trial)->torch->base + (trial)->deed->offset, \
			.severity = (how_bad) + 1),                             \
		__VA_ARGS__)

static enum fsdp_pickle_kind kind_of(const struct trial *trial, fsdp_ref ref)
{
	return fsdp_pickle_kind(trial->pickle, ref);
}

static fsdp_ref item(const struct trial *trial, fsdp_ref ref, size_t index)
{
	return fsdp_pickle_item(trial->pickle, ref, index);
}

static const char *op_name(const struct trial *trial)
{
	return fsdp_pickle_opcode(trial->deed->opcode)->name;
}

/* Any number of operations may share their operands: all checks together read no more
 * than the stream could contain. */
static bool may_watch(const struct trial *trial, uint64_t count)
{
	struct fsdp_torch *torch = trial->torch;
	if (count <= torch->watch_most - torch->watched) {
		torch->watched += count;
		return true;
	}
	if (!torch->reported_shared)
		FIND(trial, PICKLE_CALL, FSDP_ERROR,
			"%s: so many calls and states share their contents that not all of them were checked",
			op_name(trial));
	torch->reported_shared = true;
	return false;
}

/* ---- spelling ---- */

static const char *format_global(
	const struct fsdp_pickle_global *global, char text[TEXT_BYTES])
{
	char module[FSDP_SHOWN], name[FSDP_SHOWN];
	snprintf(text, TEXT_BYTES, "%s.%s", fsdp_shown(global->module, module),
		fsdp_shown(global->name, name));
	return text;
}

static const char *format_value(
	const struct trial *trial, fsdp_ref ref, char text[TEXT_BYTES])
{
	static const char *const names[FSDP_PICKLE_KIND_COUNT] = {
		[FSDP_PICKLE_NOTHING] = "nothing known",
		[FSDP_PICKLE_NULL] = "None",
		[FSDP_PICKLE_BOOL] = "a boolean",
		[FSDP_PICKLE_BIG_INTEGER] = "a very large integer",
		[FSDP_PICKLE_FLOAT] = "a float",
		[FSDP_PICKLE_BYTES] = "bytes",
		[FSDP_PICKLE_BYTEARRAY] = "bytes",
		[FSDP_PICKLE_TUPLE] = "a tuple",
		[FSDP_PICKLE_LIST] = "a list",
		[FSDP_PICKLE_SET] = "a set",
		[FSDP_PICKLE_FROZENSET] = "a set",
		[FSDP_PICKLE_DICT] = "a dict",
		[FSDP_PICKLE_PERSISTENT] = "a persistent id",
		[FSDP_PICKLE_BUFFER] = "a buffer",
	};
	char part[TEXT_BYTES];
	int64_t integer;
	enum fsdp_pickle_kind kind = kind_of(trial, ref);
	const struct fsdp_pickle_global *global = fsdp_pickle_named(trial->pickle, ref);
	if (kind == FSDP_PICKLE_FOLDED) {
		static const char *const kinds[] = { [FSDP_TORCH_SIZE] = "a torch.Size",
			[FSDP_TORCH_STORAGE] = "a storage",
			[FSDP_TORCH_TENSOR] = "a tensor",
			[FSDP_TORCH_PART] = "a storage" };
		uint32_t number = 0;
		(void)fsdp_pickle_folded(trial->pickle, ref, &number);
		return trial->torch->profile == FSDP_PROFILE_METADATA
			       ? "an object"
			       : kinds[fsdp_torch_kind(number)];
	}
	if (kind == FSDP_PICKLE_GLOBAL)
		return format_global(global, text);
	if (kind == FSDP_PICKLE_CALL)
		snprintf(text, TEXT_BYTES, "the result of %.1000s",
			global != NULL ? format_global(global, part) : "another call");
	else if (kind == FSDP_PICKLE_TEXT)
		snprintf(text, TEXT_BYTES, "the text '%s'",
			fsdp_shown(fsdp_pickle_text(trial->pickle, ref), part));
	else if (kind == FSDP_PICKLE_INTEGER &&
		 fsdp_pickle_integer(trial->pickle, ref, &integer))
		snprintf(text, TEXT_BYTES, "%lld", (long long)integer);
	else
		return names[kind];
	return text;
}

/* The first of the arguments. */
static const char *format_arguments(
	const struct trial *trial, fsdp_ref arguments, char text[TEXT_BYTES])
{
	char part[TEXT_BYTES];
	if (kind_of(trial, arguments) != FSDP_PICKLE_TUPLE)
		return format_value(trial, arguments, text);
	uint64_t count = fsdp_pickle_count(trial->pickle, arguments);
	int size = snprintf(text, TEXT_BYTES, count == 0 ? "no arguments" : "(");
	for (size_t i = 0; i < count && i < SHOWN_ITEMS; i++)
		size += snprintf(text + size, TEXT_BYTES - (size_t)size, "%s%.*s",
			i == 0 ? "" : ", ", TEXT_BYTES / SHOWN_ITEMS - 16,
			format_value(trial, item(trial, arguments, i), part));
	if (count != 0)
		snprintf(text + size, TEXT_BYTES - (size_t)size,
			count > SHOWN_ITEMS ? ", …)" : ")");
	return text;
}

/* ---- states ---- */

/* Keys that reach past the object's own fields. */
static bool is_reaching(struct fsdp_span key)
{
	static const char *const names[] = { "__class__", "__dict__", "__reduce__",
		"__reduce_ex__", "__setstate__", "__slots__", "__getattr__",
		"__getattribute__", "__torch_function__" };
	if (!fsdp_span_begins(key, FSDP_SPAN("__")))
		return false;
	for (size_t i = 0; i < FSDP_COUNT(names); i++)
		if (fsdp_span_is(key, names[i]))
			return true;
	return false;
}

/* `owner` is what gets the state: a call, or the function that is called now. Whether it
 * was looked at and there is nothing to say. */
static bool check_keys(
	const struct trial *trial, fsdp_ref state, bool only_metadata, fsdp_ref owner)
{
	struct fsdp_pickle_iterator iterator = { .ref = state };
	char room[FSDP_SHOWN], name[TEXT_BYTES];
	fsdp_ref key, value;
	if (kind_of(trial, state) != FSDP_PICKLE_DICT)
		return true;
	if (!may_watch(trial, fsdp_pickle_count(trial->pickle, state)))
		return false;
	while (fsdp_pickle_next(trial->pickle, &iterator, &key, &value)) {
		struct fsdp_span text = fsdp_pickle_text(trial->pickle, key);
		bool reaches = is_reaching(text);
		if (kind_of(trial, key) == FSDP_PICKLE_CALL) {
			text = FSDP_SPAN("whose name is computed");
			reaches = true;
		}
		if (!reaches && (!only_metadata || fsdp_span_is(text, "_metadata")))
			continue;
		FIND(trial, PICKLE_STATE, reaches ? FSDP_ERROR : FSDP_WARNING,
			"%s gives %s the attribute %s, which %s", op_name(trial),
			format_value(trial, owner, name), fsdp_shown(text, room),
			reaches ? "changes what the object does"
				: "no ordinary writer does");
		return false;
	}
	return true;
}

/* The dicts of a state: it is one, or it is one (or None) and one of slots; that of a
 * partial call is the fourth item. */
static bool check_dicts(
	const struct trial *trial, fsdp_ref state, bool only_metadata, fsdp_ref owner)
{
	bool good = check_keys(trial, state, only_metadata, owner);
	for (size_t i = 0; kind_of(trial, state) == FSDP_PICKLE_TUPLE && i < 4; i++)
		good &= check_keys(trial, item(trial, state, i), false, owner);
	return good;
}

/* Whether a dict of it is made by a call, so that its keys may be anything. */
static bool is_made(const struct trial *trial, fsdp_ref state)
{
	if (kind_of(trial, state) == FSDP_PICKLE_CALL)
		return true;
	return kind_of(trial, state) == FSDP_PICKLE_TUPLE &&
	       fsdp_pickle_count(trial->pickle, state) == 2 &&
	       (kind_of(trial, item(trial, state, 0)) == FSDP_PICKLE_CALL ||
		       kind_of(trial, item(trial, state, 1)) == FSDP_PICKLE_CALL);
}

static bool check_state(
	const struct trial *trial, fsdp_ref state, bool only_metadata, fsdp_ref owner)
{
	char name[TEXT_BYTES], text[TEXT_BYTES];
	bool good = check_dicts(trial, state, only_metadata, owner);
	if (!is_made(trial, state))
		return good;
	FIND(trial, PICKLE_STATE, FSDP_ERROR,
		"%s gives %s %s as its state, whose contents are unknown", op_name(trial),
		format_value(trial, owner, name), format_value(trial, state, text));
	return false;
}

static bool state_fits(const struct trial *trial, fsdp_ref state, const char *states)
{
	enum fsdp_pickle_kind kind = kind_of(trial, state);
	if (states == NULL || *states == '\0')
		return false;
	return *states == '*' || kind == FSDP_PICKLE_NOTHING ||
	       (kind == FSDP_PICKLE_DICT && strpbrk(states, "dm") != NULL) ||
	       (kind == FSDP_PICKLE_TUPLE && strchr(states, 't') != NULL) ||
	       (kind == FSDP_PICKLE_LIST && strchr(states, 'l') != NULL);
}

/* ---- arguments ---- */

static bool is_text_of(
	const struct trial *trial, fsdp_ref ref, const char *const *texts, size_t count)
{
	struct fsdp_span text = fsdp_pickle_text(trial->pickle, ref);
	for (size_t i = 0; i < count; i++)
		if (text.data != NULL && fsdp_span_is(text, texts[i]))
			return true;
	return false;
}

static bool is_call_of(
	const struct trial *trial, fsdp_ref ref, const char *module, const char *name)
{
	const struct fsdp_pickle_global *global = fsdp_pickle_named(trial->pickle, ref);
	return kind_of(trial, ref) == FSDP_PICKLE_CALL && global != NULL &&
	       fsdp_span_is(global->module, module) && fsdp_span_is(global->name, name);
}

static bool is_integer(enum fsdp_pickle_kind kind)
{
	return kind == FSDP_PICKLE_INTEGER || kind == FSDP_PICKLE_BIG_INTEGER;
}

/* A text of numpy: the type of Python's objects, by itself or among others. */
static bool is_object_type(const struct trial *trial, fsdp_ref ref)
{
	struct fsdp_span text = fsdp_pickle_text(trial->pickle, ref);
	return text.data != NULL && (memchr(text.data, 'O', text.size) != NULL ||
					    memmem(text.data, text.size, "object", 6));
}

/* As numpy writes it for an array of nothing but objects, which then are in the pickle.
 */
static bool is_plain_object_type(const struct trial *trial, fsdp_ref ref)
{
	static const char *const texts[] = { "O", "O4", "O8" };
	return is_text_of(trial, ref, texts, FSDP_COUNT(texts));
}

/* ("module", class, file, source): before torch 1.6 a class may be named so. */
static bool is_module_id(const struct trial *trial, fsdp_ref id)
{
	return trial->torch->ids != FSDP_IDS_ZIP &&
	       kind_of(trial, id) == FSDP_PICKLE_TUPLE &&
	       fsdp_pickle_count(trial->pickle, id) == 4 &&
	       fsdp_span_is(
		       fsdp_pickle_text(trial->pickle, item(trial, id, 0)), "module") &&
	       kind_of(trial, item(trial, id, 1)) == FSDP_PICKLE_GLOBAL;
}

/* The global that is called; NULL: it is computed. */
static struct fsdp_pickle_global *callable_of(const struct trial *trial, fsdp_ref ref)
{
	if (kind_of(trial, ref) == FSDP_PICKLE_PERSISTENT) {
		fsdp_ref id = fsdp_pickle_argument(trial->pickle, ref);
		if (is_module_id(trial, id)) {
			ref = item(trial, id, 1);
			fsdp_pickle_global_of(trial->pickle, ref)->uses |= FSDP_USE_BUILT;
		}
	}
	return fsdp_pickle_global_of(trial->pickle, ref);
}

/* The class of the object that a call makes; NULL: it is computed, or no class. */
static struct fsdp_pickle_global *class_of(const struct trial *trial, fsdp_ref object)
{
	fsdp_ref callable = fsdp_pickle_callable(trial->pickle, object);
	struct fsdp_pickle_global *global = callable_of(trial, callable);
	const struct fsdp_torch_known *known =
		global != NULL ? fsdp_torch_known(trial->torch, global) : NULL;
	if (known == NULL || !(known->what & FSDP_KNOWN_MAKER))
		return global;
	return callable_of(
		trial, item(trial, fsdp_pickle_argument(trial->pickle, object), 0));
}

static bool makes_object(const struct trial *trial)
{
	return trial->deed->opcode == FSDP_OP_NEWOBJ ||
	       trial->deed->opcode == FSDP_OP_NEWOBJ_EX;
}

/* A global that stands for itself: one that is not on the list is reported by its name.
 */
static bool global_fits(const struct trial *trial, fsdp_ref ref, char letter)
{
	struct fsdp_pickle_global *global = fsdp_pickle_global_of(trial->pickle, ref);
	const struct fsdp_torch_known *known = fsdp_torch_known(trial->torch, global);
	if (letter == 'B') /* it is called at once */
		return fsdp_span_is(global->name, "__bit_generator_ctor") &&
		       known != NULL;
	if (letter == 'P')
		return fsdp_torch_same_package(
			global, callable_of(trial, trial->deed->object));
	if (letter == 'T')
		return fsdp_span_is(global->module, "typing") ||
		       (known != NULL && (known->what & FSDP_KNOWN_FACTORY));
	if (known == NULL || letter == 'g')
		return true;
	switch (letter) {
	case 'F':
		return (known->what & FSDP_KNOWN_FACTORY) != 0;
	case 'c':
		return (known->what & FSDP_KNOWN_TENSOR) != 0;
	case 'D':
		return fsdp_span_is(global->module, "torch") && known->calls == NULL;
	case 'N':
		return fsdp_span_is(global->name, "ndarray");
	default:
		return false;
	}
}

static bool fits(const struct trial *trial, fsdp_ref ref, char letter)
{
	enum fsdp_pickle_kind kind = kind_of(trial, ref);
	if (kind == FSDP_PICKLE_NOTHING)
		return true; /* of a damaged stream, which is reported */
	if (kind == FSDP_PICKLE_GLOBAL)
		return global_fits(trial, ref, letter);
	switch (letter) {
	case 'i':
		return is_integer(kind);
	case 'b':
		return kind == FSDP_PICKLE_BOOL || kind == FSDP_PICKLE_INTEGER;
	case 'f':
		return kind == FSDP_PICKLE_FLOAT || is_integer(kind);
	case 's':
		return kind == FSDP_PICKLE_TEXT;
	case 'y':
		/* Below protocol 3 bytes are text and how to encode it, or nothing. */
		return kind == FSDP_PICKLE_BYTES || kind == FSDP_PICKLE_BYTEARRAY ||
		       kind == FSDP_PICKLE_BUFFER ||
		       is_call_of(trial, ref, "_codecs", "encode") ||
		       is_call_of(trial, ref, "builtins", "bytes") ||
		       is_call_of(trial, ref, "builtins", "bytearray");
	case 'p':
		return kind == FSDP_PICKLE_NULL || kind == FSDP_PICKLE_BOOL ||
		       kind == FSDP_PICKLE_FLOAT || kind == FSDP_PICKLE_TEXT ||
		       is_integer(kind);
	case 'l':
		return kind == FSDP_PICKLE_LIST || kind == FSDP_PICKLE_TUPLE ||
		       kind == FSDP_PICKLE_SET || kind == FSDP_PICKLE_FROZENSET;
	case 'd':
		return kind_of(trial, ref) == FSDP_PICKLE_DICT ||
		       is_call_of(trial, ref, "collections", "OrderedDict");
	case 'Z': {
		int64_t items[64];
		size_t count;
		return kind_of(trial, ref) == FSDP_PICKLE_FOLDED ||
		       fsdp_pickle_ints(trial->pickle, ref, items, 64, &count);
	}
	case 'C': {
		/* Codecs that make bytes of characters and do nothing else: others unpack
		 * or import. */
		static const char *const codecs[] = { "latin1", "latin-1", "latin_1",
			"iso-8859-1", "utf-8", "utf8", "ascii" };
		return is_text_of(trial, ref, codecs, FSDP_COUNT(codecs));
	}
	case 'F':
		return kind == FSDP_PICKLE_NULL;
	case 'O':
		return kind == FSDP_PICKLE_CALL ||
		       (kind == FSDP_PICKLE_TEXT &&
			       (!is_object_type(trial, ref) ||
				       is_plain_object_type(trial, ref)));
	case 'x':
		return true;
	default:
		return false;
	}
}

/* One form, up to its bar. */
static bool form_fits(const struct trial *trial, fsdp_ref arguments, const char *form)
{
	size_t count = (size_t)fsdp_pickle_count(trial->pickle, arguments);
	size_t length = strcspn(form, "|");
	if (*form == '*') {
		struct fsdp_pickle_iterator iterator = { .ref = arguments };
		fsdp_ref none, value;
		if (form[1] != 'x' && !may_watch(trial, count))
			return true;
		while (form[1] != 'x' &&
			fsdp_pickle_next(trial->pickle, &iterator, &none, &value))
			if (!fits(trial, value, form[1]))
				return false;
		return true;
	}
	if (count != length)
		return false;
	for (size_t i = 0; i < count; i++)
		if (!fits(trial, item(trial, arguments, i), form[i]))
			return false;
	return true;
}

static bool call_fits(const struct trial *trial, const struct fsdp_torch_known *known)
{
	const struct fsdp_pickle_deed *deed = trial->deed;
	const char *form = known->calls;
	if (form == NULL || *form == '!' ||
		kind_of(trial, deed->argument) != FSDP_PICKLE_TUPLE)
		return false;
	if (*known->names == '*' && makes_object(trial))
		return true;
	if (deed->keywords != FSDP_REF_NONE ||
		(*known->names == '*' && !fsdp_torch_is_class_name(
						 callable_of(trial, deed->object)->name)))
		return false;
	for (;; form++) {
		if (form_fits(trial, deed->argument, form))
			return true;
		form += strcspn(form, "|");
		if (*form == '\0')
			return false;
	}
}

/* ---- calls ---- */

static void report_call(
	const struct trial *trial, const struct fsdp_pickle_global *global)
{
	char name[TEXT_BYTES], room[TEXT_BYTES];
	const struct fsdp_pickle_deed *deed = trial->deed;
	const char *arguments = format_arguments(trial, deed->argument, room);
	format_global(global, name);
	if (strcmp(name, "numpy.dtype") == 0 &&
		is_object_type(trial, item(trial, deed->argument, 0)))
		FIND(trial, PICKLE_NESTED_LOADER, FSDP_ERROR,
			"NumPy array of dtype O, which loads pickles of its own: numpy.dtype%s",
			arguments);
	else
		FIND(trial, PICKLE_CALL, FSDP_ERROR,
			"unexpected call of %s with %s%s (%s, not run)", name, arguments,
			deed->keywords != FSDP_REF_NONE ? " and keywords" : "",
			op_name(trial));
}

/* The arguments of a function, besides what a fold looked at. */
static void check_parts(const struct trial *trial, fsdp_ref function, const char *parts,
	fsdp_ref arguments)
{
	char name[TEXT_BYTES], text[TEXT_BYTES];
	for (; *parts != '\0'; parts += 2) {
		fsdp_ref value = item(trial, arguments, (size_t)(parts[1] - '0'));
		bool bad = false;
		if (*parts == 's')
			check_state(trial, value, false, function);
		else if (*parts == 'h')
			bad = fsdp_pickle_count(trial->pickle, value) != 0;
		else if (*parts == 'c')
			bad = kind_of(trial, value) != FSDP_PICKLE_GLOBAL ||
			      !global_fits(trial, value, 'c');
		if (bad)
			FIND(trial, PICKLE_CALL, FSDP_ERROR,
				"unexpected call of %s with %s as its %s (%s, not run)",
				format_value(trial, function, name),
				format_value(trial, value, text),
				*parts == 'h' ? "hooks" : "class", op_name(trial));
	}
}

/* What a fold took: it looked at what it needs, and not at what a loader does besides.
 * True: so it is with every call that the fold takes. */
static bool check_folded(const struct trial *trial, const struct fsdp_torch_known *known)
{
	const char *calls = known->calls;
	fsdp_ref arguments = trial->deed->argument, function;
	if (calls == NULL || *calls != '!')
		return true;
	check_parts(trial, trial->deed->object, calls + 1, arguments);
	if (strchr(calls, 'r') == NULL)
		return false;
	function = item(trial, arguments, 0);
	struct fsdp_pickle_global *global =
		fsdp_pickle_global_of(trial->pickle, function);
	const struct fsdp_torch_known *inner =
		global != NULL ? fsdp_torch_known(trial->torch, global) : NULL;
	if (inner != NULL && inner->calls != NULL && *inner->calls == '!')
		check_parts(trial, function, inner->calls + 1, item(trial, arguments, 2));
	return false;
}

/* The name that an enum's member has. */
static bool is_member(struct fsdp_span name)
{
	if (name.size == 0 || name.size > NAME_BYTES)
		return false;
	FSDP_EACH(i, name.size, byte, name.data[i]) {
		bool letter = (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z';
		bool digit = fsdp_is_digit(byte);
		if (!letter && (i == 0 || (!digit && byte != '_')))
			return false;
	}
	return true;
}

/* (class, name) as one of two ordinary writers has it. *ret_inner: a class with objects.
 */
static bool is_ordinary_getattr(
	const struct trial *trial, fsdp_ref arguments, bool *ret_inner)
{
	struct fsdp_pickle_global *global =
		fsdp_pickle_global_of(trial->pickle, item(trial, arguments, 0));
	struct fsdp_span name =
		fsdp_pickle_text(trial->pickle, item(trial, arguments, 1));
	*ret_inner = false;
	if (kind_of(trial, arguments) != FSDP_PICKLE_TUPLE ||
		fsdp_pickle_count(trial->pickle, arguments) != 2 || global == NULL ||
		name.data == NULL)
		return false;
	const struct fsdp_torch_known *known = fsdp_torch_known(trial->torch, global);
	if (known == NULL) {
		*ret_inner = fsdp_torch_is_class_name(name);
		return fsdp_torch_may_be_class(global) && is_member(name);
	}
	*ret_inner = (known->what & FSDP_KNOWN_SHARDED) != 0 &&
		     fsdp_span_is(name, "ProcessGroupState");
	return *ret_inner || ((known->what & FSDP_KNOWN_ENUM) != 0 && is_member(name));
}

/* A method of an object whose class is on no list. */
static bool is_bound_method(const struct trial *trial, fsdp_ref arguments)
{
	fsdp_ref object = item(trial, arguments, 0);
	if (kind_of(trial, arguments) != FSDP_PICKLE_TUPLE ||
		fsdp_pickle_count(trial->pickle, arguments) != 2 ||
		kind_of(trial, object) != FSDP_PICKLE_CALL)
		return false;
	/* A class that is on no list, as far as its name shows. */
	struct fsdp_pickle_global *global = class_of(trial, object);
	return global != NULL && fsdp_torch_known(trial->torch, global) == NULL &&
	       fsdp_torch_may_be_class(global) &&
	       is_member(fsdp_pickle_text(trial->pickle, item(trial, arguments, 1)));
}

/* Whether this is a class inside another, as pickles below protocol 4 have it. */
static bool is_inner_class(const struct trial *trial, fsdp_ref ref)
{
	bool inner;
	return is_call_of(trial, ref, "builtins", "getattr") &&
	       is_ordinary_getattr(
		       trial, fsdp_pickle_argument(trial->pickle, ref), &inner) &&
	       inner;
}

static void check_computed(const struct trial *trial)
{
	char text[TEXT_BYTES];
	const struct fsdp_pickle_deed *deed = trial->deed;
	if (kind_of(trial, deed->object) == FSDP_PICKLE_NOTHING)
		return; /* reported at its source */
	if (deed->opcode == FSDP_OP_NEWOBJ && is_inner_class(trial, deed->object) &&
		kind_of(trial, deed->argument) == FSDP_PICKLE_TUPLE)
		return;
	FIND(trial, PICKLE_CALL, FSDP_ERROR,
		"%s calls %s, which is not a known global (not run)", op_name(trial),
		format_value(trial, deed->object, text));
}

/* (class, Python's own class, its value) of _reconstructor; (class, …) of the others. */
static bool check_maker(const struct trial *trial)
{
	const struct fsdp_pickle_deed *deed = trial->deed;
	struct fsdp_pickle_global *class =
		callable_of(trial, item(trial, deed->argument, 0));
	struct fsdp_pickle_global *base =
		fsdp_pickle_global_of(trial->pickle, item(trial, deed->argument, 1));
	bool three =
		fsdp_span_is(callable_of(trial, deed->object)->name, "_reconstructor");
	if (deed->opcode != FSDP_OP_REDUCE ||
		kind_of(trial, deed->argument) != FSDP_PICKLE_TUPLE || class == NULL)
		return false;
	class->uses |= FSDP_USE_BUILT;
	if (three && (fsdp_pickle_count(trial->pickle, deed->argument) != 3 ||
			     base == NULL || !fsdp_span_is(base->module, "builtins") ||
			     fsdp_torch_known(trial->torch, base) == NULL))
		return false;
	const struct fsdp_torch_known *known = fsdp_torch_known(trial->torch, class);
	return known == NULL ||
	       (known->calls != NULL && *known->calls != '!' && known->states != NULL);
}

/* Whether the same operation needs no further check. */
static bool check_call(const struct trial *trial)
{
	struct fsdp_pickle_global *global = callable_of(trial, trial->deed->object);
	if (global == NULL) {
		check_computed(trial);
		return false;
	}
	const struct fsdp_torch_known *known = fsdp_torch_known(trial->torch, global);
	if (known == NULL) {
		/* Its name is reported. */
		global->as_function |= !makes_object(trial) &&
				       (!fsdp_torch_may_be_class(global) ||
					       kind_of(trial, trial->deed->argument) !=
						       FSDP_PICKLE_TUPLE);
		return false;
	}
	if (known->what & FSDP_KNOWN_MAKER) {
		if (!check_maker(trial))
			report_call(trial, global);
		return false;
	}
	if (known->what & FSDP_KNOWN_GETATTR) {
		char object[TEXT_BYTES], name[TEXT_BYTES];
		const struct fsdp_pickle_deed *deed = trial->deed;
		bool inner;
		if (deed->opcode != FSDP_OP_REDUCE ||
			(!is_ordinary_getattr(trial, deed->argument, &inner) &&
				!is_bound_method(trial, deed->argument))) {
			trial->torch->has_unusual_getattr = true;
			if (kind_of(trial, deed->argument) != FSDP_PICKLE_TUPLE ||
				fsdp_pickle_count(trial->pickle, deed->argument) < 2)
				FIND(trial, PICKLE_GETATTR, FSDP_ERROR,
					"%s calls builtins.getattr with %s (not run)",
					op_name(trial),
					format_arguments(trial, deed->argument, object));
			else
				FIND(trial, PICKLE_GETATTR, FSDP_ERROR,
					"builtins.getattr takes %s from %s, unlike any known writer (not run)",
					format_value(trial,
						item(trial, deed->argument, 1), name),
					format_value(trial,
						item(trial, deed->argument, 0), object));
		}
		return false;
	}
	if (trial->deed->folded)
		return check_folded(trial, known);
	if (call_fits(trial, known))
		return true;
	/* A storage that is none has a finding of its own. */
	if (known->calls == NULL || *known->calls != '!' ||
		kind_of(trial, item(trial, trial->deed->argument, 0)) !=
			FSDP_PICKLE_PERSISTENT)
		report_call(trial, global);
	return false;
}

/* ---- states of objects ---- */

/* What the type of an array is built of: another type, or a tuple that begins with one.
 */
static bool has_objects(const struct trial *trial, fsdp_ref type)
{
	if (kind_of(trial, type) == FSDP_PICKLE_TUPLE)
		type = item(trial, type, 0);
	return is_object_type(
		trial, item(trial, fsdp_pickle_argument(trial->pickle, type), 0));
}

/* (version, order, (type, shape), names, {name: (type, …)}, bytes, alignment, flags, …):
 * flags that call numbers pointers, or objects something else, break numpy's memory. */
static bool check_dtype(const struct trial *trial, fsdp_ref state)
{
	enum { POINTERS = 7, OBJECTS = 63 };
	struct fsdp_pickle_iterator iterator = { .ref = item(trial, state, 4) };
	fsdp_ref type = fsdp_pickle_argument(trial->pickle, trial->deed->object);
	fsdp_ref key, value;
	int64_t flags = 0;
	bool objects = is_object_type(trial, item(trial, type, 0));
	bool good = true;
	if (fsdp_pickle_count(trial->pickle, state) > 7)
		good = fsdp_pickle_integer(
			       trial->pickle, item(trial, state, 7), &flags) &&
		       (objects ? flags == OBJECTS : (flags & POINTERS) == 0);
	good &= !has_objects(trial, item(trial, state, 2));
	if (kind_of(trial, iterator.ref) == FSDP_PICKLE_DICT &&
		!may_watch(trial, fsdp_pickle_count(trial->pickle, iterator.ref)))
		return false;
	while (kind_of(trial, iterator.ref) == FSDP_PICKLE_DICT &&
		fsdp_pickle_next(trial->pickle, &iterator, &key, &value))
		good &= !has_objects(trial, value);
	if (!good)
		FIND(trial, PICKLE_NESTED_LOADER, FSDP_ERROR,
			"a NumPy dtype mixes Python values with numbers, or has the flags of another dtype");
	return good;
}

/* Whether the same operation needs no further check. */
static bool check_build(const struct trial *trial)
{
	char name[TEXT_BYTES], text[TEXT_BYTES];
	fsdp_ref state = trial->deed->argument;
	fsdp_ref callable = fsdp_pickle_callable(trial->pickle, trial->deed->object);
	struct fsdp_pickle_global *global = class_of(trial, trial->deed->object);
	const struct fsdp_torch_known *known =
		global != NULL ? fsdp_torch_known(trial->torch, global) : NULL;
	const char *states = known != NULL                     ? known->states
			     : is_inner_class(trial, callable) ? "d"
							       : "*";
	if (!state_fits(trial, state, states)) {
		FIND(trial, PICKLE_STATE, FSDP_ERROR,
			"BUILD gives %s an unexpected state: %s",
			format_value(trial, trial->deed->object, name),
			format_value(trial, state, text));
		return false;
	}
	if (global != NULL && fsdp_span_is(global->module, "numpy") &&
		fsdp_span_is(global->name, "dtype"))
		return check_dtype(trial, state);
	return *states == '*'
		       ? check_dicts(trial, state, false, trial->deed->object)
		       : check_state(trial, state, *states == 'm', trial->deed->object);
}

/* ---- persistent ids ---- */

/* NULL: nothing, or a fold with the storage's name. */
static const char *what_is_wrong(const struct trial *trial, fsdp_ref id)
{
	int64_t numel;
	bool is_tuple = kind_of(trial, id) == FSDP_PICKLE_TUPLE;
	if (trial->torch->profile == FSDP_PROFILE_METADATA)
		return "is in place of storages";
	if (is_tuple) {
		uint64_t count = fsdp_pickle_count(trial->pickle, id);
		if (count < 5 || count > 6 ||
			(count == 6 && trial->torch->ids == FSDP_IDS_ZIP) ||
			(count == 5 && trial->torch->ids == FSDP_IDS_LEGACY))
			return "has another number of items than torch writes";
	}
	/* The tar of torch 0.1 has texts. */
	if (trial->deed->folded)
		return NULL;
	if (!is_tuple)
		return "is not the tuple that identifies a storage";
	if (!fsdp_span_is(fsdp_pickle_text(trial->pickle, item(trial, id, 0)), "storage"))
		return "is of another kind than storage";
	fsdp_ref ref = item(trial, id, 1);
	const struct fsdp_pickle_global *global = fsdp_pickle_named(trial->pickle, ref);
	if (kind_of(trial, ref) != FSDP_PICKLE_GLOBAL ||
		(!fsdp_span_is(global->module, "torch") &&
			!fsdp_span_is(global->module, "torch.cuda") &&
			!fsdp_span_is(global->module, "torch.storage")) ||
		!fsdp_span_ends(global->name, FSDP_SPAN("Storage")))
		return "has no class of torch's storages";
	if (kind_of(trial, item(trial, id, 2)) != FSDP_PICKLE_TEXT)
		return "has a key that is not a string";
	if (kind_of(trial, item(trial, id, 3)) != FSDP_PICKLE_TEXT)
		return "has a location that is not a string";
	if (!fsdp_pickle_integer(trial->pickle, item(trial, id, 4), &numel) || numel < 0)
		return NULL;
	return "has a class of storages that is not known";
}

/* Whether the same operation needs no further check. */
static bool check_id(const struct trial *trial)
{
	char text[TEXT_BYTES];
	fsdp_ref id = trial->deed->object;
	if (kind_of(trial, id) == FSDP_PICKLE_NOTHING)
		return false; /* of a damaged stream, which is reported */
	if (is_module_id(trial, id) && trial->torch->profile != FSDP_PROFILE_METADATA) {
		if (!trial->torch->reported_source)
			fsdp_find(&trial->torch->model->findings,
				FSDP_RULE_PICKLE_PERSISTENT_ID,
				FSDP_PLACE(.file = trial->torch->file,
					.member = trial->torch->member,
					.offset =
						trial->torch->base + trial->deed->offset,
					.severity = FSDP_NOTE + 1,
					.fix = "save the state dict instead: torch.save(model.state_dict(), FILE)"),
				"a whole module was saved: the file contains the source text of its classes (first %s), which is never run",
				format_value(trial, item(trial, id, 1), text));
		trial->torch->reported_source = true;
		return false;
	}
	const char *wrong = what_is_wrong(trial, id);
	if (wrong != NULL)
		FIND(trial, PICKLE_PERSISTENT_ID, FSDP_ERROR, "a persistent id %s: %s",
			wrong, format_arguments(trial, id, text));
	return wrong == NULL;
}

/* ---- items ---- */

/* Of an object only a class of the list is known to take none. */
static void check_fill(const struct trial *trial)
{
	char text[TEXT_BYTES];
	const struct fsdp_pickle_deed *deed = trial->deed;
	bool pairs = deed->opcode == FSDP_OP_SETITEM || deed->opcode == FSDP_OP_SETITEMS;
	bool adds = deed->opcode == FSDP_OP_ADDITEMS;
	if (kind_of(trial, deed->object) == FSDP_PICKLE_NOTHING)
		return; /* reported at its source */
	if (kind_of(trial, deed->object) == FSDP_PICKLE_CALL) {
		struct fsdp_pickle_global *global = class_of(trial, deed->object);
		const struct fsdp_torch_known *known =
			global != NULL ? fsdp_torch_known(trial->torch, global) : NULL;
		if (known == NULL || *known->names == '*' ||
			(!adds && (known->what & (pairs ? FSDP_KNOWN_PAIRS
							: FSDP_KNOWN_APPENDS))))
			return;
	}
	FIND(trial, PICKLE_TARGET, FSDP_ERROR, "%s on %s, which is not a %s%s",
		op_name(trial), format_value(trial, deed->object, text),
		pairs  ? "dict"
		: adds ? "set"
		       : "list",
		pairs ? " (CVE-2026-24747 in torch before 2.10)" : "");
}

static bool check_value(void *context, const struct fsdp_pickle *pickle,
	const struct fsdp_pickle_deed *deed)
{
	struct trial trial = { context, pickle, deed };
	switch (deed->kind) {
	case FSDP_DEED_CALL:
		return check_call(&trial);
	case FSDP_DEED_BUILD:
		return check_build(&trial);
	case FSDP_DEED_PERSISTENT:
		return check_id(&trial);
	case FSDP_DEED_FILL:
		check_fill(&trial);
		break;
	}
	return false;
}

void fsdp_torch_watch(struct fsdp_torch *torch, struct fsdp_pickle_options *options,
	uint64_t size, uint64_t base)
{
	torch->base = base;
	torch->watched = 0;
	torch->watch_most = size + LEAST_WATCH;
	torch->has_unusual_getattr = torch->reported_shared = torch->reported_source =
		false;
	options->check_deed = check_value;
	options->check_context = torch;
}
