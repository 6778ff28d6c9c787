/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds pickles inside the values of a pickle: bytes, or text that stands for bytes, that
 * begin as pickles do and run to their STOP. A program that
 * loads the value may hand it to a loader, so what they name is reported; nothing of them
 * is read into the model.
 *
 * Values are found without reading the pickle again: by PROTO, with the opcode of bytes or
 * text and its length in front of it. That a number looks so is possible; that what
 * follows is a whole pickle with a global is not.
 */
#include <stdio.h>

#include "format/torch/torch.h"

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

/* The value whose first byte is at `at`: the argument of an opcode in front of it. */
static bool take_value(
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

static void add_name(struct names *names, const struct fsdp_pickle_global *global)
{
	char module[FSDP_SHOWN], name[FSDP_SHOWN];
	int size = snprintf(names->text + names->size, sizeof names->text - names->size,
		"%s%s.%s", names->size == 0 ? "" : ", ",
		fsdp_shown(global->module, module), fsdp_shown(global->name, name));
	if (size > 0 && (size_t)size < sizeof names->text - names->size)
		names->size += (size_t)size;
	else
		names->text[names->size] = '\0';
}

static void list_names(const struct inside_values *nested,
	const struct fsdp_pickle *pickle, struct names *names)
{
	names->count = fsdp_pickle_global_count(pickle);
	for (int known = 0; known < 2; known++)
		for (size_t i = 0; i < names->count; i++) {
			const struct fsdp_pickle_global *global =
				fsdp_pickle_global(pickle, i);
			bool is_known =
				fsdp_torch_profile_of(nested->torch, global) != NULL;
			names->bad +=
				known == 0 && fsdp_torch_is_bad(nested->torch, global);
			if (is_known == (known != 0))
				add_name(names, global);
		}
}

static void look_inside(struct inside_values *nested, struct fsdp_span stream,
	uint64_t base, unsigned depth);

/* `at`: where the value stands in the outermost pickle. False: it is not a whole pickle. */
static bool judge(
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
			"a value of the pickle is a pickle itself and names %s",
			names.text);
	fsdp_error_free(error);
	fsdp_arena_done(&arena);
	if (whole && depth < DEPTH)
		look_inside(nested, value, at, depth + 1);
	return whole;
}

/* Where a storage ends that lies in the pickle here, and was read; 0: there is none. */
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
	bool whole;
	if (!take_value(stream, at, text, &value) || value.size > ONE_MOST ||
		value.size > nested->left)
		return 0;
	nested->left -= value.size;
	fsdp_arena_init(&arena, nested->torch->scratch->budget);
	bytes = value;
	whole = (!text || fsdp_torch_latin1(value, &arena, &bytes)) &&
		judge(nested, bytes, base + at, depth);
	fsdp_arena_done(&arena);
	return whole ? value.size : 0;
}

/* How deep this goes is fixed. */
static void look_inside(struct inside_values *nested, struct fsdp_span stream,
	uint64_t base, unsigned depth)
{
	size_t at = 2; /* behind its own PROTO */
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
	look_inside(&nested, stream, 0, 1);
}
