/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_RECORD_H
#define RENDER_RECORD_H

#include "render/out.h"

/* clang-format off */
/*
 * An object of an answer is described once: a record is a const table with one row for
 * each field, and what is here walks it, for JSON and JSON Lines (out_record) and for
 * tables: text, CSV, TSV, names, --columns and --sort (out_records_row). A row says
 *
 *	what the field is called   name, and for people label
 *	type of its value          type, and of: the record of an object or an element
 *	where the value is         at, a member of the struct; or get, a function; or find,
 *	                           which gets the id at `at`
 *	who sees it                machine_only, text_only: by views of the table
 *	that it is null            null; otherwise absent values are omitted
 *	that it is always there    always
 *	that it costs reads        reads; out_table_reads says whether it will be seen
 *	how rows are sorted by it  sort
 *	what it means              about; words, if it is one of a few
 *
 * JSON Schema and the manual's list of fields are printed from the rows too
 * (output-functions.h).
 *
 * Rows are written with the macros below, which refuse a member of another type. So one
 * row is all of a new field: { "events", COUNT_AT(struct fsdp_recording, events) }. What
 * must be computed has a function: { "dtype", GET(FIELD_WORD, get_dtype) }. Functions are
 * asked only where some output shows the field, about an object and a context, which is
 * the caller's and goes unchanged through the walk.
 *
 * Sentences with several facts for people are not fields: out_line.
 */
/* clang-format on */
enum record_form {
	RECORD_OBJECT, /* {"line": 3, "kind": "reentry"} */
	RECORD_TUPLE,  /* [3, "reentry"] */
	RECORD_PLAIN,  /* 3: its only field alone */
	RECORD_ONE_OF, /* each field is an object (OBJECT) that it may be; written is the
			  one that it has */
};

struct record {
	const struct column *fields;
	size_t count;
	size_t size; /* of the struct: from one element of a list to the next */
	enum record_form form;
	const char *name;  /* in schema and manual: "tensor". NULL: it has no name there,
			      but is described where it is used */
	const char *about; /* what such an object is, in sentences */
	unsigned view;     /* of the tables that it is in */
};

/* Of rows that are an array; and, in any form, of the rows that follow. */
#define RECORD(from, fields, ...)                                             \
	{                                                                     \
		(fields), sizeof(fields) / sizeof *(fields), sizeof(from), 0, \
			__VA_ARGS__                                           \
	}
#define RECORD_OF(form, from, ...) NAMED_RECORD(form, from, NULL, NULL, __VA_ARGS__)
#define NAMED_RECORD(form, from, name, about, ...)                       \
	{                                                                \
		(const struct column[]){ __VA_ARGS__ },                  \
			sizeof((const struct column[]){ __VA_ARGS__ }) / \
				sizeof(struct column),                   \
			sizeof(from), (form), (name), (about)            \
	}
/* An object with a name in schema and manual. */
#define OBJECT_RECORD(from, name, about, ...) \
	NAMED_RECORD(RECORD_OBJECT, from, name, about, __VA_ARGS__)

/* ---- rows ---- */

#define MEMBER_OF(from, member, is) \
	_Generic(((from *)0)->member, is : offsetof(from, member))
#define BOOL_AT(from, member) .type = FIELD_BOOL, .at = MEMBER_OF(from, member, bool)
#define MAYBE_AT(from, member) .type = FIELD_MAYBE, .at = MEMBER_OF(from, member, int)
#define FLAG_AT(from, member, bit) \
	.type = FIELD_FLAG, .at = MEMBER_OF(from, member, uint32_t), .count = (bit)
#define COUNT_AT(from, member) \
	.type = FIELD_COUNT, .at = MEMBER_OF(from, member, uint64_t)
#define SIZE_AT(from, member) .type = FIELD_SIZE, .at = MEMBER_OF(from, member, size_t)
#define BYTES_AT(from, member) \
	.type = FIELD_BYTES, .at = MEMBER_OF(from, member, uint64_t)
/* Bytes in an int64_t; a negative number is absent. */
#define SIGNED_BYTES_AT(from, member) \
	.type = FIELD_BYTES, .by = BY_SIGNED, .at = MEMBER_OF(from, member, int64_t)
#define ID_AT(from, member) .type = FIELD_ID, .at = MEMBER_OF(from, member, uint32_t)
#define INTEGER_AT(from, member) \
	.type = FIELD_INTEGER, .at = MEMBER_OF(from, member, int64_t)
#define NS_AT(from, member) .type = FIELD_NS, .at = MEMBER_OF(from, member, int64_t)
#define NUMBER_AT(from, member) \
	.type = FIELD_NUMBER, .at = MEMBER_OF(from, member, double)
/* A share or a rate; a negative number is absent. */
#define SHARE_AT(from, member) \
	.type = FIELD_NUMBER, .by = BY_SIGNED, .at = MEMBER_OF(from, member, double)
#define WORD_AT(from, member) \
	.type = FIELD_WORD, .at = MEMBER_OF(from, member, const char *)
#define ENUM_AT(from, member, name_of)                                              \
	.type = FIELD_WORD, .at = MEMBER_OF(from, member, unsigned), .by = BY_WORD, \
	.word = (name_of)
#define SHAPE_AT(from, member, dims) \
	.type = FIELD_SHAPE,                                                  \
	.at = _Generic(((from *)0)->member,             \
		const int64_t * : offsetof(from, member), \
		int64_t * : offsetof(from, member)),       \
	.count_at = MEMBER_OF(from, dims, uint32_t)

#define KEY_AT(from, member) \
	.type = FIELD_KEY, .at = MEMBER_OF(from, member, struct value)
#define VALUE_AT(from, member) \
	.type = FIELD_ANY, .at = MEMBER_OF(from, member, struct value)

/* A struct text, or what the library calls a span: data and size. */
#define TEXT_MEMBER(from, member) \
	_Generic(((from *)0)->member.data,            \
		const char * : offsetof(from, member), \
		const unsigned char * : offsetof(from, member))
#define TEXT_AT(from, member) .type = FIELD_TEXT, .at = TEXT_MEMBER(from, member)
#define NAME_AT(from, member) .type = FIELD_NAME, .at = TEXT_MEMBER(from, member)

/* A word in an array of characters, and a name or path that is a pointer. */
#define CHARS_AT(from, member) \
	.type = FIELD_WORD, .by = BY_CHARS, .at = offsetof(from, member)
#define PATH_AT(from, member) \
	.type = FIELD_NAME, .by = BY_POINTER, .at = MEMBER_OF(from, member, const char *)

#define OBJECT_AT(from, member, record) \
	.type = FIELD_OBJECT, .at = offsetof(from, member), .of = &(record)
#define OBJECT(record) .type = FIELD_OBJECT, .of = &(record)
#define FIELDS_AT(from, member, record) \
	.type = FIELD_FIELDS, .at = offsetof(from, member), .of = &(record)
#define FIELDS(record) .type = FIELD_FIELDS, .of = &(record)
#define POINTED_AT(from, member, record) \
	.type = FIELD_POINTED, .at = offsetof(from, member), .of = &(record)
/* A size_t or a uint32_t. */
#define SIZE_OF_LIST(from, size)                            \
	.counted = true, .count_at = offsetof(from, size),  \
	.narrow = _Generic(((from *)0)->size, unsigned long \
			   : false, unsigned                \
			   : true)
#define LIST_AT(from, member, size, record)                                         \
	.type = FIELD_LIST, .at = offsetof(from, member), SIZE_OF_LIST(from, size), \
	.of = &(record)
#define TEXTS_AT(from, member, size) \
	.type = FIELD_TEXTS, .at = offsetof(from, member), SIZE_OF_LIST(from, size)
#define MAP_AT(from, member, size, record)                                         \
	.type = FIELD_MAP, .at = offsetof(from, member), SIZE_OF_LIST(from, size), \
	.of = &(record)
#define ARRAY_AT(from, member, record)                                    \
	.type = FIELD_ARRAY, .at = offsetof(from, member),                \
	.count = sizeof((from *)0)->member / sizeof *((from *)0)->member, \
	.of = &(record)
#define ITEMS_AT(from, member, size, record)                                 \
	.type = FIELD_ITEMS, .at = offsetof(from, member), .by = BY_POINTER, \
	SIZE_OF_LIST(from, size), .of = &(record)
#define ARRAY_OF(from, member, size, record)                                         \
	.type = FIELD_ARRAY, .at = offsetof(from, member), SIZE_OF_LIST(from, size), \
	.of = &(record)
#define EACH(function, record) \
	.type = FIELD_LIST, .by = BY_EACH, .each = (function), .of = &(record)
#define MAP_EACH(function, record) \
	.type = FIELD_MAP, .by = BY_EACH, .each = (function), .of = &(record)
#define EACH_AT(from, member, function, record)                          \
	.type = FIELD_LIST, .at = offsetof(from, member), .by = BY_EACH, \
	.each = (function), .of = &(record)
#define EACH_OF(from, size, function, record)                                            \
	.type = FIELD_LIST, SIZE_OF_LIST(from, size), .by = BY_EACH, .each = (function), \
	.of = &(record)
/* What a member that is an id stands for, as a function finds it; UINT32_MAX is absent.
 */
#define FOUND_AT(from, member, has_kind, function)                                  \
	.type = (has_kind), .at = MEMBER_OF(from, member, uint32_t), .by = BY_FIND, \
	.find = (function)
/* The same of an object, which may be made in room. */
#define MADE_AT(from, member, function, record)                                       \
	.type = FIELD_OBJECT, .at = MEMBER_OF(from, member, uint32_t), .by = BY_EACH, \
	.each = (function), .of = &(record)
/* Rows of a table that out_records_row emits, and ITEMS: the main array of the answer,
 * whose elements are lines in JSON Lines. Walks pass them over, unless a function makes
 * the items; the schema describes them. */
#define ROWS(record) .type = FIELD_ROWS, .of = &(record)
#define ITEMS(record) .type = FIELD_ITEMS, .of = &(record)
#define EACH_ITEM(from, size, function, record)                       \
	.type = FIELD_ITEMS, SIZE_OF_LIST(from, size), .by = BY_EACH, \
	.each = (function), .of = &(record)
/* A member that is a struct value of this type: an absent one is omitted. */
#define HELD_AT(has_kind, from, member) \
	.type = (has_kind), .by = BY_VALUE, .at = MEMBER_OF(from, member, struct value)
#define GET(has_kind, function) .type = (has_kind), .by = BY_GET, .get = (function)

/* Of a field that is absent where a member is NULL, 0 or false. */
#define IF_SET(from, member) \
	.needs = sizeof((from *)0)->member, .needs_at = offsetof(from, member)

/* A function that says whether `one`, the object of a row, has a field. */
#define HAS(name, from, condition)           \
	static bool name(struct subject of)  \
	{                                    \
		const from *one = of.object; \
                                             \
		return condition;            \
	}

/* A function that makes the value of a field from `one`, the object of a row. */
#define GETTER(name, from, makes)                   \
	static struct value name(struct subject of) \
	{                                           \
		const from *one = of.object;        \
                                                    \
		return makes;                       \
	}

/* A function that makes element `i` in the room for one. */
#define MAKER(name, type, makes)                                         \
	static const void *name(struct subject of, size_t i, void *room) \
	{                                                                \
		*(type *)room = makes;                                   \
		return room;                                             \
	}

/* Of a field whose rows are in order of a number next to it. */
#define SORTED_BY(from, member) \
	.sort = SORT_MEMBER, .sort_at = MEMBER_OF(from, member, uint32_t)
/* What a field means. */
#define ABOUT(text) .about = (text)
/* The same of one that is null when absent. */
#define OR_NULL(text) .null = true, .about = (text)
/* The same of one that is never omitted. */
#define ALWAYS(text) .always = true, .about = (text)
/* Of a field that is one of these words. */
#define WORDS(...)                     \
	.words = (const char *const[]) \
	{                              \
		__VA_ARGS__, NULL      \
	}

/* Of a field that is there only if it is true. */
struct value get_true(struct subject of);

/* Lists of these; with INT64_MIN or data NULL among them, those of _or_null. */
extern const struct record record_integers, record_integers_or_null; /* int64_t */
extern const struct record record_counts;                            /* uint64_t */
extern const struct record record_ids;                               /* uint32_t */
extern const struct record record_texts, record_texts_or_null;       /* data and size */
extern const struct record record_words;                             /* const char * */

/* Parts of every document besides its answer (record.c). */
extern const struct record provenance_record, input_object, finding_record,
	failure_record, omission_record;

/* "note", "warning", "error". */
const char *severity_name(unsigned severity);

/* For qsort of pointers into one array: worst first, then by rule, then as they are. */
int compare_findings(const void *left, const void *right);

/* Bytes in which `each` may make an element; they still hold the one before. */
enum { RECORD_ROOM = 1024 };

/* ---- objects ---- */

/* The value of a field that is neither an object nor a list; absent if the object has
 * none. */
struct value field_value(const struct column *field, struct subject of);

/* All fields but those that machine outputs never show, into the object that is open. */
void out_fields(struct out *out, const struct record *record, struct subject of);

/* The object, under a key or (NULL) as an element. */
void out_record(
	struct out *out, const char *key, const struct record *record, struct subject of);

/* ---- tables ---- */

/*
 * A table whose rows are objects. Fields of structs within (FIELDS_AT) are columns like
 * all others.
 */
struct record_table {
	struct table table; /* to be shown; its columns are those below */
	struct column columns[COLUMNS_MAX];
	size_t chosen[COLUMNS_MAX];
	bool shown[COLUMNS_MAX]; /* by some output */
	void *context;
};

/* `like` says everything of the table but its columns. */
void record_table_init(struct record_table *table, const struct table *like,
	const struct record *record, void *context);

/* The column of this name, or column_count. */
size_t record_table_find(const struct record_table *table, const char *name);

/* Whether some output will show a column that costs reads. */
bool out_table_reads(struct out *out, const struct record_table *table);

/* The number by which an object is put in order of a column; UINT64_MAX: not known. */
uint64_t record_table_key(const struct record_table *table, size_t column,
	const void *object, uint32_t order);

/* Begin, one row per object, out_table_end. */
void out_records_begin(struct out *out, struct record_table *table);
void out_records_row(
	struct out *out, const struct record_table *table, const void *object);

/* All of it: an array of objects, or (each) those that a function finds, as for EACH. */
void out_records(struct out *out, const struct table *like, const struct record *record,
	void *context, const void *objects, size_t count);
void out_each_record(struct out *out, const struct table *like,
	const struct record *record, struct subject of, size_t count,
	const void *(*each)(struct subject of, size_t i, void *room));

/* A row of a tree. */
void out_records_node(struct out *out, const struct record_table *table,
	const struct tree_node *node, const void *object);

#endif
