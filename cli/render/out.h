/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_OUT_H
#define RENDER_OUT_H

#include <assert.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "render/writer.h"

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
	VALUE_ABSENT, /* unknown: omitted in JSON, "-" in tables */
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
	bool painted; /* a word in its color, on a terminal */
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
	return (struct text){ zero_terminated,
		zero_terminated != NULL ? strlen(zero_terminated) : 0 };
}

/* A copy with a zero byte after it, memory of the command; NULL stays absent. */
static inline struct text text_copy(struct text text)
{
	return text.data == NULL
		       ? text
		       : (struct text){ memory_copy(text.data, text.size), text.size };
}

static inline struct text text_new(const char *zero_terminated)
{
	return text_copy(text_of(zero_terminated));
}

/* What a format makes, memory of the command. */
#define text_format(...) text_of(memory_format(__VA_ARGS__))

/* By bytes; of two texts with one beginning the shorter is first. */
static inline int text_compare(struct text a, struct text b)
{
	size_t common = a.size < b.size ? a.size : b.size;
	int order = common > 0 ? memcmp(a.data, b.data, common) : 0;

	return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
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
	FIELD_TEXTS,    /* pointer to texts, and a number that says how many */
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
	FIELD_ITEMS, /* the main list of the answer; emitted elsewhere if it is BY_MEMBER */
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
	BY_VALUE,   /* a struct value of the type of the field */
	BY_SIGNED,  /* an int64_t, or a double, that is absent if it is negative */
	BY_CHARS,   /* characters, up to a zero byte */
	BY_POINTER, /* a pointer to them, and to the items of an answer */
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
	bool always : 1;              /* it is never omitted */
	bool null : 1;                /* what is absent is null, and not omitted */
	bool reads : 1;               /* computing it reads data */
	bool listed : 1;              /* list_words() has all its words */
	bool percent : 1, times : 1;  /* " %" or "x" follows a number in text */
	unsigned digits : 4;          /* of it: so many decimals; 0: four digits in all */
	enum field_type type : 6;
	enum field_sort sort : 2;
	enum field_by by : 4;
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

/* All views: for machine_only and text_only. The last is that of objects, as opposed to
 * rows of a table. */
#define EVERY_VIEW UINT16_MAX
enum { OBJECT_VIEW = 15 };

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
	bool is_printed; /* in the answer itself, so that it is not printed separately */
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
	bool omitted;        /* it is about something else */
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
	struct text opened; /* the only checkpoint in it; absent: the path itself */
	const char *kind;   /* "checkpoint", "plan" */
	const char *format; /* or NULL */
	int status;         /* -1: absent */
	bool found;
};

/* ---- outputs ---- */

/*
 * An output takes what a command emits and shows it. A command is handed one `out`
 * and is independent of its format and of the number of outputs (out_many).
 *
 * Order of calls:
 *
 *	out_begin                     once; the status is known by then
 *	  any of: object, array, field, table, tree, line …
 *	out_end                       once; findings, failures and the status
 *
 * Machine outputs show fields, tables and trees; text shows lines, tables and trees. So a
 * fact that people read as a sentence is emitted as `out_line` (text) next to its
 * `out_field`s (machine), in one place of the command.
 *
 * Nothing is built as a document: each call writes what it can into a buffer of
 * 256 KiB. A write that fails is remembered, nothing more is written, and out_finish
 * reports it. Calls that an output has no use for do nothing.
 */
struct out;

/* How things should look; one per run. */
struct looks {
	int width;              /* columns for text; 0: none (a pipe, or --width=none) */
	bool color;             /* for this stream */
	bool ascii;             /* no characters beyond ASCII of our own (ellipsis) */
	bool seven_bits;        /* nor of names: the locale has no UTF-8 */
	enum human_sizes sizes; /* --bytes, --si */
	bool null_names;        /* -0: names raw, each ended by a zero byte */
	size_t name_bytes;      /* of a name in text, then a mark; 0: 4,096 */
	int verbosity;          /* -q is -1, -v is 1 … */
};

/* Requests to the servers of URLs. */
struct requests {
	const char *backend; /* NULL: no input is a URL */
	uint64_t lists, gets, heads, retries, bytes;
};

/* Who ran the program. */
struct provenance {
	const struct text *arguments;
	size_t argument_count;
	struct text host, started; /* UTC, as 2026-01-31T08:00:00Z */
	struct requests remote;
};

/* What is known before the first byte of an answer. */
struct out_header {
	const char *command;
	const char *version; /* of the tool: "0.1.0" */
	int status;          /* the command's own; 0 is good */
	const struct input_record *inputs;
	size_t input_count;
	const struct provenance *provenance; /* NULL: it was not asked for */
	/* Fills the rule with this index; false past the end. NULL: no rules. */
	bool (*rule)(size_t index, struct rule_text *ret_rule);
	bool has_data; /* false: the command failed without an answer */
	bool bare;     /* json: the members of `data` alone, no envelope (fqns --bare);
			  without data nothing at all */
	bool summed;   /* jsonl: the last line has a checksum of all that is in front */
};

struct out_footer {
	int status;
	bool interrupted; /* by a signal: jsonl says so in its last record */
	bool broken;      /* memory ended within the answer */
	const struct finding *findings;
	size_t finding_count;
	const struct failure *failures;
	size_t failure_count;
	const struct omission *omissions;
	size_t omission_count;
	const char *const *notes;
	size_t note_count;
	const struct check_result *checks; /* in the order of inputs, then of rules */
	size_t check_count;
	enum severity fail_on; /* the least that fails … */
	bool never_fails;      /* … or none does */
};

/* Bits: which shapes a command emits and an output takes. */
enum {
	SHAPE_FACTS = 1 << 0,
	SHAPE_TABLE = 1 << 1,
	SHAPE_TREE = 1 << 2,
	SHAPE_FINDINGS = 1 << 3,
	SHAPE_SPANS = 1 << 4,
	SHAPE_ITEMS = 1 << 5,   /* facts with a main array among them */
	SHAPE_MODULES = 1 << 6, /* weighed parts: modules and their tensors */
	SHAPE_PAGE = 1 << 7,    /* a page, written as it is */
	SHAPE_PLAN = 1 << 8,    /* a sharding plan, in addition to the answer */
};

/* A row of the table of outputs. */
struct out_format {
	const char *name;
	unsigned shapes;  /* takes any of these */
	bool machine;     /* for programs: fields, no lines */
	bool has_failure; /* it is an answer too when there is none */
	const char *summary;
	const struct out_functions *functions;
};

/* NULL past the end; by name NULL if there is none. */
const struct out_format *out_format(size_t index);
const struct out_format *out_format_find(const char *name);

/* Writes to `stream`, which the caller opened and closes; NULL: see out_take. */
struct out *out_new(
	const struct out_format *format, FILE *stream, const struct looks *looks);

/* An output that passes everything on to several; takes them over. */
struct out *out_many(struct out **outs, size_t count);

/* Style of the first output for people, while it lives; NULL: none. */
const struct looks *out_looks(struct out *out);

/* A size in a sentence, as the looks of this output ask for it. */
const char *out_bytes(struct out *out, uint64_t count, char buffer[HUMAN_ROOM]);

/* Flushes. 0, or the errno of the first write that failed. */
int out_finish(struct out *out);

/* What an output without a stream has written; freed by memory_free. */
struct text out_take(struct out *out);

/* NULL is fine. */
void out_free(struct out *out);

/* ---- what commands call ---- */

void out_begin(struct out *out, const struct out_header *header);
void out_end(struct out *out, const struct out_footer *footer);

/*
 * Machine only. key is NULL inside arrays. Absent values are omitted. A field
 * called "name" with a VALUE_NAME that is not valid UTF-8 gets a sibling "name_b64".
 * Objects and arrays nest to 48 levels: deep data travels as VALUE_TOKENS.
 */
void out_object_begin(struct out *out, const char *key);
void out_object_end(struct out *out);
void out_array_begin(struct out *out, const char *key);
void out_array_end(struct out *out);
void out_field(struct out *out, const char *key, struct value value);
/*
 * The command's main array, if its elements hold arrays or objects of their own and so
 * are not rows: out_object_begin(out, NULL) … for each, then out_array_end. jsonl makes
 * an item of each.
 */
void out_items_begin(struct out *out, const char *key);
/* A key that comes from a file (the map of fqns). */
void out_field_named(struct out *out, struct text key, struct value value);
void out_object_begin_named(struct out *out, struct text key);
void out_array_begin_named(struct out *out, struct text key);

/*
 * Text only. A fact: label padded to a column, then a composed sentence made of our words
 * and of escaped names. label NULL: the sentence alone, not indented; label "": below
 * the sentence before it. What `format` makes is escaped like a name, so a newline
 * in it would show as \x0a: one call is one line.
 */
void out_line(struct out *out, const char *label, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Pieces of a line, for sentences that hold names: begin, text and names, end. */
void out_line_begin(struct out *out, const char *label);
void out_line_text(struct out *out, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void out_line_name(struct out *out, struct text name);

/* A path in a sentence, quoted as a shell reads it. */
void out_line_shell(struct out *out, struct text word);
void out_line_value(struct out *out, struct value value);
/* A severity, a verdict or a mark of a comparison, in its color. */
void out_line_painted(struct out *out, const char *word);
/* Whether pieces from here on are kept on one line, for what people type; the end of the
 * line ends it, too. */
void out_line_keep(struct out *out, bool keep);
void out_line_end(struct out *out);

/*
 * A line of typed values, or a part of the open one. In the format
 *
 *	{}      is the next value, as out_line_value writes it
 *	{s}     is the "s" of a plural, unless the number before is 1
 *	[...]   is omitted where one of its values is absent or null
 *	{(..)}  is kept on one line, with its parentheses: what people type
 *	{[} {]} are brackets
 */
void out_fill_line(struct out *out, const char *label, const char *format,
	const struct value *values);
void out_fill(struct out *out, const char *format, const struct value *values);
#define out_values_line(out, label, format, ...) \
	out_fill_line(out, label, format, (const struct value[]){ __VA_ARGS__ })
#define out_values(out, format, ...) \
	out_fill(out, format, (const struct value[]){ __VA_ARGS__ })

/* Text only. Written as it is, newlines too (byte-exact styles); all else that a name may
 * not hold is escaped. */
void out_verbatim(struct out *out, struct text text);

/*
 * A table. In JSON an array of objects under `key`; in text columns; in csv and tsv
 * rows; in `name` the first column that is a name. `indent` is of the text form.
 * main: this table is the command's main array (jsonl, csv, tsv and name take only it).
 * text_only, machine_only: the other kind of output omits the table.
 * rows_only: for outputs that have only rows (csv, tsv, name), while items have the same
 * content for all others.
 * Text needs the widths: it buffers rows until table_end, at most 1,000, then continues
 * with the widths of those.
 */
enum { COLUMNS_MAX = 64 }; /* that are shown */
struct table {
	const char *key;
	const struct column *columns;
	size_t column_count;
	bool main;
	bool text_only;
	bool machine_only;
	bool rows_only;
	bool as_text;             /* rows_only, with the columns that people see */
	bool one_line;            /* text truncates the sentence at the end of a row */
	bool tree;                /* its rows are nodes: out_node */
	const char *const *heads; /* of a tree: what text writes above the values before
				     its nodes; the last is NULL */
	unsigned view;   /* which the bit of machine_only and text_only: 0 to 31 */
	unsigned indent; /* spaces */
	bool no_header;
	uint64_t omitted; /* bit 1 << column: text omits it, since it would be
			      the same in each row */
	/* From --columns: order and choice; NULL: all that the output shows by default.
	 */
	const size_t *chosen;
	size_t chosen_count;
};
void out_table_begin(struct out *out, const struct table *table);
/* Which of at most COLUMNS_MAX columns some output will show. */
void out_shows(struct out *out, const struct table *table, bool ret_shown[COLUMNS_MAX]);
void out_row(struct out *out, const struct value *values);

/*
 * Columns that the main table is to have, in this order; "all" stands for those of
 * programs. A table that has a choice of its own keeps it. The names are borrowed.
 */
void out_choose(struct out *out, const char *const *names, size_t count);
/* The first name that the table has no column of; NULL: none. */
const char *out_unknown_column(const struct out *out);
/* Whether a table was shown in them. */
bool out_has_chosen(const struct out *out);
void out_table_end(struct out *out);

/*
 * A row of a tree, parents before children. Text shows the node and no columns: what
 * leads it, right-aligned below the heads, four spaces a level, then name, class and
 * mark, then the trail, right-aligned. Beyond 256 levels it writes the level instead of
 * indenting.
 */
struct tree_node {
	uint32_t depth;
	struct text name;         /* shown */
	struct text class_name;   /* absent: no brackets */
	bool class_guessed;       /* [~Class] */
	bool mark_guessed;        /* dim */
	const char *mark;         /* "FULLY SHARDED" or NULL */
	const struct value *lead; /* as many as the table has heads; NULL: none of them */
	const struct value *trail; /* after it, or NULL */
	size_t trail_count;
};
/*
 * A part of a whole that has a weight, for outputs that draw such: parents before
 * children, all others pass it over.
 */
struct weighed {
	uint32_t depth;      /* the one it is in, of the parts before, has one less */
	struct text name;    /* its own, below that; empty: the root */
	struct text kind;    /* a class, or absent */
	uint64_t own, total; /* without, and with, what is in it: bytes */
	bool is_leaf;        /* a tensor: nothing is in it */
	bool is_marked;      /* a unit */
};
void out_weighed(struct out *out, const struct weighed *part);
/* Whether some output draws them. */
bool out_weighs(struct out *out);

/*
 * What a rank did for a while, for outputs that draw time: rank by rank, lane by lane,
 * and in each in order of begin. All ranks are on one clock.
 */
struct timed_span {
	int64_t rank;
	const char *lane; /* a word: "collectives" */
	struct text name;
	int64_t begin_ns, dur_ns; /* the first of all begins at 0 */
	int64_t total_ns;         /* and all end by then */
	struct text group;        /* of processes, or absent */
	uint64_t bytes;           /* that were moved; UINT64_MAX: absent */
};
void out_timed(struct out *out, const struct timed_span *span);
/* Whether some output draws them, and whether some draws nothing else. */
bool out_times(struct out *out);
bool out_only_times(struct out *out);

/* How the clock of a recording became that of all: before its spans. */
struct timed_clock {
	int64_t rank;
	struct text path;
	int64_t offset_ns;     /* was added to its times */
	int64_t run, begin_ns; /* its run from 1 on, which begins there */
	bool shared; /* by collectives; else it begins when the first one does */
};
void out_clock(struct out *out, const struct timed_clock *clock);

/* The output for a document in addition to the answer, among the requested ones, or NULL:
 * only this output gets what is emitted there. */
struct out *out_aside(struct out *out);

/* values NULL: none, in a tree for people. */
void out_node(struct out *out, const struct tree_node *node, const struct value *values);

/* ---- pages ---- */

/* internal to html.c: data/report.html and the blocks of data/report-blocks.html in
 * pieces, the page first. */
struct html_piece {
	enum { HTML_MARKUP, HTML_TEXT, HTML_BLOCKS } kind;
	const char *text; /* of a field its name; NULL: the end */
};
extern const struct html_block {
	const char *name; /* NULL: the end */
	const struct html_piece *pieces;
} html_blocks[];

/* A field of a block. Its text is escaped, unless the template has filled blocks there.
 */
struct html_field {
	const char *name; /* NULL: the end */
	struct text text;
};

/* Writes a block with its fields filled in. What is filled in is not scanned again; a
 * field that is not given is empty. */
void html_fill(struct writer *to, const char *block, const struct html_field *fields);
#define HTML_FILL(to, block, ...) \
	html_fill(to, block,      \
		(const struct html_field[]){ __VA_ARGS__, { NULL, { NULL, 0 } } })

/* Compresses a text (gzip, without a time), and writes it in base64. */
void html_data(struct writer *to, struct text text);

#endif
