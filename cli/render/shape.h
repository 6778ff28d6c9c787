/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_SHAPE_H
#define RENDER_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What a command can say: typed values in one of a few shapes. A command fills
 * these; an output (out.h) decides how they look. All texts are bytes as they were
 * found in files: only an output escapes them.
 */
struct text {
	const char *data; /* NULL: absent */
	size_t size;
};

enum value_type {
	VALUE_ABSENT, /* unknown: left out of JSON, "-" in tables */
	VALUE_NULL,   /* known to be none */
	VALUE_BOOL,
	VALUE_COUNT,    /* a plain integer */
	VALUE_INTEGER,  /* signed */
	VALUE_BYTES,    /* text: 12.4 GiB (or integers under --bytes) */
	VALUE_ELEMENTS, /* number of elements; text facts may write 8.03 B */
	VALUE_NUMBER,   /* double: shortest that reads back */
	VALUE_TEXT,     /* a message or a word of ours */
	VALUE_NAME,  /* an FQN or a path: long ones may lose their middle on a terminal */
	VALUE_SHAPE, /* integers; text 4096x14336, scalar []; JSON array */
	VALUE_TEXTS, /* list of texts; JSON array; text: joined by commas */
	VALUE_PATH,  /* list of parts, texts and integers; JSON array */
	VALUE_TOKENS, /* any JSON value, as a pre-order list of tokens */
};

struct path_part {
	bool is_integer;
	int64_t integer;
	struct text text;
};

/* One token of a VALUE_TOKENS list; same meaning as enum fsdp_token_kind, JSON only
 * knows the first group. */
enum token_type {
	TOKEN_NULL,
	TOKEN_BOOL,
	TOKEN_INTEGER,
	TOKEN_NUMBER,
	TOKEN_TEXT,
	TOKEN_ARRAY,
	TOKEN_OBJECT, /* count pairs: TEXT token, then value */
};

struct token {
	enum token_type type;
	uint32_t count;
	int64_t integer;
	double number;
	struct text text;
};

struct value {
	enum value_type type;
	union {
		bool boolean;
		uint64_t count;
		int64_t integer;
		double number;
		struct text text;
		struct {
			const int64_t *items;
			size_t count;
		} shape;
		struct {
			const struct text *items;
			size_t count;
		} texts;
		struct {
			const struct path_part *items;
			size_t count;
		} path;
		struct {
			const struct token *items;
			size_t count;
		} tokens;
	};
};

static inline struct text text_of(const char *zero_terminated)
{
	struct text text = { zero_terminated, 0 };
	if (zero_terminated != NULL)
		while (zero_terminated[text.size] != '\0')
			text.size++;
	return text;
}

static inline struct value value_absent(void)
{
	return (struct value){ .type = VALUE_ABSENT };
}

static inline struct value value_null(void)
{
	return (struct value){ .type = VALUE_NULL };
}

static inline struct value value_bool(bool boolean)
{
	return (struct value){ .type = VALUE_BOOL, .boolean = boolean };
}

/* UINT64_MAX is absent: the library's word for unknown. */
static inline struct value value_count(uint64_t count)
{
	if (count == UINT64_MAX)
		return value_absent();
	return (struct value){ .type = VALUE_COUNT, .count = count };
}

static inline struct value value_bytes(uint64_t count)
{
	if (count == UINT64_MAX)
		return value_absent();
	return (struct value){ .type = VALUE_BYTES, .count = count };
}

static inline struct value value_elements(uint64_t count)
{
	return (struct value){ .type = VALUE_ELEMENTS, .count = count };
}

/* UINT32_MAX is absent. */
static inline struct value value_id(uint32_t id)
{
	if (id == UINT32_MAX)
		return value_absent();
	return (struct value){ .type = VALUE_COUNT, .count = id };
}

static inline struct value value_integer(int64_t integer)
{
	return (struct value){ .type = VALUE_INTEGER, .integer = integer };
}

static inline struct value value_number(double number)
{
	return (struct value){ .type = VALUE_NUMBER, .number = number };
}

static inline struct value value_text(struct text text)
{
	if (text.data == NULL)
		return value_absent();
	return (struct value){ .type = VALUE_TEXT, .text = text };
}

static inline struct value value_word(const char *word)
{
	return value_text(text_of(word));
}

static inline struct value value_name(struct text text)
{
	if (text.data == NULL)
		return value_absent();
	return (struct value){ .type = VALUE_NAME, .text = text };
}

static inline struct value value_shape(const int64_t *items, size_t count)
{
	return (struct value){ .type = VALUE_SHAPE, .shape = { items, count } };
}

static inline struct value value_texts(const struct text *items, size_t count)
{
	return (struct value){ .type = VALUE_TEXTS, .texts = { items, count } };
}

/*
 * A column of a table, and a field of the JSON objects that its rows become. Names
 * are the JSON keys; text headers are the same in capitals.
 */
struct column {
	const char *name;
	bool machine_only; /* not in text unless asked for by --columns */
	bool text_only;    /* never in machine outputs */
	bool right;        /* numbers */
};

/* A message that stands beside the answer: a finding, an error or a note. */
enum severity {
	SEVERITY_NOTE,
	SEVERITY_WARNING,
	SEVERITY_ERROR,
};

/* Absent texts have data NULL, absent numbers are UINT64_MAX (rank: UINT32_MAX). */
struct finding {
	const char *rule, *slug;
	enum severity severity;
	uint32_t input;
	struct text file, member, tensor, module;
	uint64_t offset, length;
	uint32_t rank;
	struct text message, next;
	char fingerprint[17];
};

struct failure {
	const char *code;
	const char *rule; /* or NULL */
	uint32_t input;   /* UINT32_MAX: none */
	struct text path, member;
	uint64_t offset;
	const char *limit; /* or NULL */
	struct text message, hint;
};

struct omission {
	const char *rule;
	struct text file;
	uint64_t count;
};

/* One input of the run, as it stands in the envelope. */
struct input_record {
	uint32_t id;
	struct text path;
	const char *kind;   /* "checkpoint", "plan" */
	const char *format; /* or NULL */
	int status;         /* -1: absent */
	bool found;
};

#endif
