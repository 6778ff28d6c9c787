/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_SHAPE_H
#define RENDER_SHAPE_H

#include <assert.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "render/escape.h"

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
	VALUE_NS,       /* signed nanoseconds; text: milliseconds, three decimals */
	VALUE_TEXT,     /* a message or a word of ours */
	VALUE_NAME, /* an FQN or a path: long ones may lose their middle on a terminal */
	VALUE_COUNTS, /* integers, in `shape`; text as bars; JSON array */
	VALUE_SHAPE,  /* integers; text 4096x14336, scalar []; JSON array */
	VALUE_TEXTS,  /* list of texts; JSON array; text: joined by commas */
	VALUE_PATH,   /* list of parts, texts and integers; JSON array */
	VALUE_TOKENS, /* any JSON value, as a pre-order list of tokens */
};

struct path_part {
	bool is_integer;
	int64_t integer;
	struct text text;
};

/* One token of a VALUE_TOKENS list; same meaning as enum fsdp_token_kind, JSON has only
 * the first group. */
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
	bool painted; /* a word in its colour, on a terminal */
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

/* 0 is absent. */
static inline struct value value_some(uint64_t count)
{
	return count == 0 ? value_absent() : value_count(count);
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

/* INT64_MIN is absent. */
static inline struct value value_ns(int64_t ns)
{
	if (ns == INT64_MIN)
		return value_absent();
	return (struct value){ .type = VALUE_NS, .integer = ns };
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

static inline struct value value_painted(const char *word)
{
	struct value value = value_word(word);

	value.painted = true;
	return value;
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

/* Numbers in a row that are not a shape. */
static inline struct value value_counts(const int64_t *items, size_t count)
{
	return (struct value){ .type = VALUE_COUNTS, .shape = { items, count } };
}

static inline struct value value_texts(const struct text *items, size_t count)
{
	return (struct value){ .type = VALUE_TEXTS, .texts = { items, count } };
}

/* What a field holds, and as which type of C where it is a member of a struct. From
 * FIELD_COUNT to FIELD_NS they are numbers. */
enum field_type {
	FIELD_BOOL = 1, /* bool */
	FIELD_MAYBE,    /* int: 0 or 1; -1 is absent */
	FIELD_FLAG,     /* one bit of a uint32_t: true, or absent */
	FIELD_COUNT,    /* uint64_t; UINT64_MAX is absent */
	FIELD_SIZE,     /* size_t */
	FIELD_BYTES,    /* uint64_t; UINT64_MAX is absent */
	FIELD_ID,       /* uint32_t; UINT32_MAX is absent */
	FIELD_INTEGER,  /* int64_t; INT64_MIN is absent */
	FIELD_NS,       /* int64_t, nanoseconds; INT64_MIN is absent */
	FIELD_WORD,     /* const char *; NULL is absent. Or an enum that has `word` */
	FIELD_TEXT,     /* data and size; data NULL is absent */
	FIELD_NAME,     /* data and size; data NULL is absent */
	FIELD_SHAPE,    /* const int64_t *, and a uint32_t that says how many */
	FIELD_NUMBER,   /* double */
	FIELD_TEXTS,    /* of a function: a list of texts */
	FIELD_PATH,     /* of a function: a list of texts and integers */
	FIELD_KEY,      /* struct value: a text or an integer */
	FIELD_ANY,      /* struct value: whatever JSON can hold */
	FIELD_OBJECT,   /* a struct: an object of its own */
	FIELD_FIELDS,   /* a struct: its fields are inlined here */
	FIELD_POINTED,  /* the same of a pointer to one; NULL: none of them */
	FIELD_LIST,     /* a pointer to elements, and a number that says how many */
	FIELD_ARRAY,    /* elements, as many as the row says */
	FIELD_MAP,      /* as a list; the first field of each element is its key */
	FIELD_ROWS,     /* a list that the command emits elsewhere, as a table */
	FIELD_ITEMS, /* the main list of the answer; emitted elsewhere too unless it has `each` */
};

/* The number that rows are put in order by. */
enum field_sort {
	SORT_NEVER,
	SORT_SHOWN,  /* the one that is shown */
	SORT_MEMBER, /* a uint32_t next to it, at sort_at */
	SORT_ROW,    /* none: that in which rows come */
};

/* Which function of a row has the value; none: the member itself is it. */
enum field_by {
	BY_MEMBER,
	BY_VALUE, /* a struct value of the type of the field */
	BY_WORD,
	BY_GET,
	BY_FIND,
	BY_EACH,
};

struct out;
struct record;

/* What the functions of a row are asked about: an object, and what the caller of the walk
 * has at hand. */
struct subject {
	void *context;
	const void *object;
};

/*
 * A field of an object, and the column that it is in a table. Names are the JSON keys;
 * text headers are the same in capitals, or `label` as it is spelt, in capitals.
 *
 * A column that is emitted by out_row needs the first four alone. All else is for objects
 * that a record describes (record.h, which also has macros to fill it).
 */
struct column {
	const char *name;
	uint16_t machine_only; /* bit 1 << view: not in its text unless asked for by
				    --columns */
	uint16_t text_only;    /* bit 1 << view: never in its machine outputs */
	bool right : 1;        /* numbers; by itself where `type` says that it is one */
	unsigned needs : 4; /* bytes at needs_at: it is not there if all of them are 0 */
	bool counted : 1, narrow : 1; /* lists: they have one; it is a uint32_t, not a
					 size_t */
	bool always : 1;              /* it is never left out */
	bool null : 1;                /* what is absent is null, and not left out */
	bool reads : 1;               /* computing it reads data */
	bool listed : 1;              /* list_words() has all its words */
	bool percent : 1, times : 1;  /* " %" or "x" follows a number in text */
	unsigned digits : 4;          /* of it: so many decimals; 0: four digits in all */
	enum field_type type : 6;
	enum field_sort sort : 2;
	enum field_by by : 3;
	/* Offsets in the object: the member; what must not be NULL; of lists
	 * and shapes their size; the number that rows are sorted by. */
	uint16_t at, needs_at, count_at, sort_at;
	uint16_t base;  /* offset of the object in that of the row; of record tables */
	uint32_t count; /* arrays: how many; flags: which bit */
	const char *label;
	union {
		/* Name of each value of a word whose member is an enum. */
		const char *(*word)(unsigned number);
		/* Of a word whose member is a text: all words, NULL past the end. */
		const char *(*list_words)(size_t index);
		/* Instead of a member: the value. */
		struct value (*get)(struct subject of);
		/* The value that the id at `at` stands for. */
		struct value (*find)(struct subject of, uint32_t id);
		/* Instead of a list in the object: its i-th element, maybe made in
		 * `room`, or NULL past the end if it is not counted; asked about the
		 * member at `at`. Of an object: that which the id at `at` stands for. */
		const void *(*each)(struct subject of, size_t i, void *room);
	};
	/* Whether the field is there at all; NULL: always. */
	bool (*has)(struct subject of);
	const struct record *of; /* objects and elements */
	/* For the schema and the manual, which are printed from rows: what the field
	 * means, in sentences (`code` in backquotes), and if it is one of a few words,
	 * which. */
	const char *about;
	const char *const *words; /* the last is NULL */
};

/* A page of rows is written to when a position-independent program is loaded. */
static_assert(sizeof(struct column) <= 10 * sizeof(void *), "rows are small");

/* All views: for machine_only and text_only. */
#define EVERY_VIEW UINT16_MAX

/* A message in addition to the answer: a finding, an error or a note. */
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
	const struct text *affected; /* the first names … */
	size_t affected_kept;        /* … so many, … */
	uint64_t affected_count; /* … of these tensors suffer; UINT64_MAX: unknown */
	uint64_t affected_bytes;
	struct text message, fix;
	char fingerprint[17];
	bool is_told; /* in the answer itself, so that it is not printed separately */
};

struct failure {
	const char *code;
	const char *rule; /* or NULL */
	uint32_t input;   /* UINT32_MAX: none */
	struct text path, member;
	uint64_t offset;
	const char *limit; /* or NULL */
	const char *kind;  /* or NULL */
	struct text message, hint;
};

struct omission {
	const char *rule;
	uint32_t input;
	struct text file;
	uint64_t count;
};

/* Result of a rule in one input, for outputs that show findings alone. */
struct check_result {
	uint32_t input;
	const char *rule, *slug;
	const char *skipped; /* why it was not judged; NULL: it was */
	bool left_out;       /* it is about something else */
	uint64_t findings;
};

/* A row of the table of rules. */
struct rule_text {
	const char *id, *slug, *category;
	enum severity severity;
	const char *title, *cause, *fix;
	const char
		*security; /* how severe, from 0.0 to 10.0; NULL: it is not of safety */
};

/* One input of the run, as in the envelope. */
struct input_record {
	uint32_t id;
	struct text path;
	struct text base;   /* absent: names of files begin at the path */
	const char *kind;   /* "checkpoint", "plan" */
	const char *format; /* or NULL */
	int status;         /* -1: absent */
	bool found;
};

#endif
