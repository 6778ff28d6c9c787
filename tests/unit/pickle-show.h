/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_PICKLE_SHOW_H
#define TESTS_PICKLE_SHOW_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "syntax/pickle.h"

/*
 * For tests of the pickle machine: a reading with all that it needs, and values as text,
 * the same text that scripts/gen-pickle-cases writes. show() calls itself: tests only
 * show what they made.
 */
struct reading {
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_limits limits;
	struct fsdp_findings findings;
	struct fsdp_pickle_options options;
	struct fsdp_pickle *pickle;
	struct fsdp_error *error;
	unsigned char
		*bytes; /* a copy of exactly the stream's size: overreads are seen */
	bool good;
};

static inline void reading_init(struct reading *reading)
{
	*reading = (struct reading){ .budget = { .ceiling = UINT64_C(4) << 30 } };
	fsdp_arena_init(&reading->arena, &reading->budget);
	fsdp_limits_init(&reading->limits);
	fsdp_findings_init(&reading->findings, &reading->arena, &reading->limits);
	reading->options.limits = &reading->limits;
	reading->options.findings = &reading->findings;
}

/* 0: streams are read from memory; else in parts that begin with this room. */
static size_t reading_room;

static inline int reading_take_room(void **state)
{
	reading_room = *(const size_t *)*state;
	return 0;
}

/* Each test from memory and in parts of several sizes. */
static inline int reading_run_all(const struct CMUnitTest *tests, size_t count)
{
	static size_t rooms[] = { 0, 1, 7, 61 };
	struct CMUnitTest all[sizeof rooms / sizeof *rooms * 64];
	size_t size = 0;
	assert_true(count <= 64);
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < sizeof rooms / sizeof *rooms; k++) {
			all[size] = tests[i];
			all[size].setup_func = reading_take_room;
			all[size++].initial_state = &rooms[k];
		}
	return _cmocka_run_group_tests("pickle", all, size, NULL, NULL);
}

static inline bool reading_part(const void *context, uint64_t offset, void *buffer,
	size_t size, struct fsdp_error **ret_error)
{
	const struct reading *reading = context;
	(void)ret_error;
	memcpy(buffer, reading->bytes + offset, size);
	return true;
}

static inline void reading_run(struct reading *reading, const void *data, size_t size)
{
	struct fsdp_pickle_parts parts = { .read = reading_part,
		.context = reading,
		.size = size,
		.room = reading_room };
	reading->bytes = malloc(size != 0 ? size : 1);
	if (size != 0)
		memcpy(reading->bytes, data, size);
	if (reading_room != 0)
		reading->good = fsdp_pickle_read_parts(&parts, &reading->arena,
			&reading->options, &reading->pickle, &reading->error);
	else
		reading->good =
			fsdp_pickle_read(fsdp_span(reading->bytes, size), &reading->arena,
				&reading->options, &reading->pickle, &reading->error);
}

static inline void reading_done(struct reading *reading)
{
	fsdp_error_free(reading->error);
	fsdp_arena_done(&reading->arena);
	free(reading->bytes);
}

static inline size_t reading_found(const struct reading *reading, const char *id)
{
	size_t count = 0;
	for (size_t i = 0; i < reading->findings.list.count; i++) {
		const struct fsdp_finding *finding =
			fsdp_vec_at(&reading->findings.list, i);
		count += strcmp(finding->rule->id, id) == 0;
	}
	return count;
}

/* ---- values as text ---- */

struct text {
	char *data;
	size_t size, room;
};

static inline void __attribute__((format(printf, 2, 3)))
text_add(struct text *text, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	if (text->room - text->size < 256) {
		text->room = text->room * 2 + 512;
		text->data = realloc(text->data, text->room);
	}
	int size = vsnprintf(text->data + text->size, 256, format, arguments);
	text->size += (size_t)(size < 256 ? size : 255);
	va_end(arguments);
}

static inline void text_add_quoted(struct text *text, struct fsdp_span span)
{
	text_add(text, "'");
	for (size_t i = 0; i < span.size; i++) {
		unsigned char c = span.data[i];
		if (c < 32 || c >= 127 || strchr("'\\\"?", c) != NULL)
			text_add(text, "%%%02x", c);
		else
			text_add(text, "%c", c);
	}
	text_add(text, "'");
}

/* What the number of a fold stands for, or NULL. */
struct show {
	const struct fsdp_pickle *pickle;
	struct text *text;
	const char *(*folded)(void *context, uint32_t number);
	void *context;
};

static inline void show(const struct show *to, fsdp_ref ref);

static inline void show_items(const struct show *to, fsdp_ref ref, const char *before)
{
	struct fsdp_pickle_iterator iterator = { .ref = ref };
	fsdp_ref key, value;
	while (fsdp_pickle_next(to->pickle, &iterator, &key, &value)) {
		text_add(to->text, "%s", before);
		if (key != FSDP_REF_NONE) {
			show(to, key);
			text_add(to->text, ":");
		}
		show(to, value);
		text_add(to->text, ",");
	}
}

static inline void show_call(const struct show *to, fsdp_ref ref)
{
	show(to, fsdp_pickle_callable(to->pickle, ref));
	show(to, fsdp_pickle_argument(to->pickle, ref));
	if (fsdp_pickle_keywords(to->pickle, ref) != FSDP_REF_NONE)
		show(to, fsdp_pickle_keywords(to->pickle, ref));
	show_items(to, ref, "+");
	fsdp_ref state;
	for (size_t i = 0;
		(state = fsdp_pickle_state(to->pickle, ref, i)) != FSDP_REF_NONE; i++) {
		text_add(to->text, "^");
		show(to, state);
	}
}

static inline void show_named(const struct show *to, fsdp_ref ref)
{
	const struct fsdp_pickle_global *global = fsdp_pickle_named(to->pickle, ref);
	text_add(to->text, "<%.*s.%.*s>", (int)global->module.size,
		(const char *)global->module.data, (int)global->name.size,
		(const char *)global->name.data);
}

static inline void show_number(const struct show *to, fsdp_ref ref)
{
	int64_t number = 0;
	double real = 0;
	uint64_t bits;
	if (fsdp_pickle_float(to->pickle, ref, &real)) {
		memcpy(&bits, &real, sizeof bits);
		text_add(to->text, "float:%016llx", (unsigned long long)bits);
	} else if (fsdp_pickle_integer(to->pickle, ref, &number)) {
		text_add(to->text, "%lld", (long long)number);
	}
}

static inline void show_folded(const struct show *to, fsdp_ref ref)
{
	uint32_t number = 0;
	(void)fsdp_pickle_folded(to->pickle, ref, &number);
	const char *text = to->folded != NULL ? to->folded(to->context, number) : NULL;
	if (text == NULL)
		text_add(to->text, "#%u", number);
	else
		for (; *text != '\0'; text++)
			text_add(to->text, "%c", *text);
}

static inline void show_bracketed(
	const struct show *to, fsdp_ref ref, const char *open, const char *close)
{
	text_add(to->text, "%s", open);
	show_items(to, ref, "");
	text_add(to->text, "%s", close);
}

static inline void show_spans(const struct show *to, fsdp_ref ref, const char *before)
{
	text_add(to->text, "%s", before);
	text_add_quoted(to->text, fsdp_pickle_span(to->pickle, ref));
}

static inline void show(const struct show *to, fsdp_ref ref)
{
	bool truth = false;
	switch (fsdp_pickle_kind(to->pickle, ref)) {
	case FSDP_PICKLE_NOTHING:
	case FSDP_PICKLE_KIND_COUNT:
		text_add(to->text, "nothing");
		return;
	case FSDP_PICKLE_NULL:
		text_add(to->text, "None");
		return;
	case FSDP_PICKLE_BOOL:
		(void)fsdp_pickle_boolean(to->pickle, ref, &truth);
		text_add(to->text, truth ? "True" : "False");
		return;
	case FSDP_PICKLE_INTEGER:
	case FSDP_PICKLE_FLOAT:
		show_number(to, ref);
		return;
	case FSDP_PICKLE_BIG_INTEGER:
		show_spans(to, ref,
			fsdp_pickle_is_written(to->pickle, ref) ? "written" : "big");
		return;
	case FSDP_PICKLE_TEXT:
		show_spans(to, ref, "");
		return;
	case FSDP_PICKLE_BYTES:
		show_spans(to, ref, "b");
		return;
	case FSDP_PICKLE_BYTEARRAY:
		show_spans(to, ref, "B");
		return;
	case FSDP_PICKLE_TUPLE:
		show_bracketed(to, ref, "(", ")");
		return;
	case FSDP_PICKLE_LIST:
		show_bracketed(to, ref, "[", "]");
		return;
	case FSDP_PICKLE_SET:
		show_bracketed(to, ref, "set[", "]");
		return;
	case FSDP_PICKLE_FROZENSET:
		show_bracketed(to, ref, "frozenset[", "]");
		return;
	case FSDP_PICKLE_DICT:
		show_bracketed(to, ref, "{", "}");
		return;
	case FSDP_PICKLE_GLOBAL:
		show_named(to, ref);
		return;
	case FSDP_PICKLE_PERSISTENT:
		text_add(to->text, "pid:");
		show(to, fsdp_pickle_argument(to->pickle, ref));
		return;
	case FSDP_PICKLE_CALL:
		show_call(to, ref);
		return;
	case FSDP_PICKLE_BUFFER:
		text_add(to->text, "buffer");
		return;
	case FSDP_PICKLE_FOLDED:
		show_folded(to, ref);
		return;
	}
}

#endif
