/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_OUT_H
#define RENDER_OUT_H

#include <stdio.h>

#include "render/shape.h"
#include "render/writer.h"

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
	unsigned shapes;    /* takes any of these */
	bool machine;       /* for programs: fields, no lines */
	bool tells_failure; /* it is an answer too when there is none */
	const char *summary;
	const struct out_functions *functions;
};

/* NULL past the end; by name NULL if there is none. */
const struct out_format *out_format(size_t index);
const struct out_format *out_format_find(const char *name);

/* Writes to `stream`, which the caller opened and closes. NULL when out of memory. */
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
 * are not rows: out_object_begin(out, NULL) … for each, then out_array_end. jsonl makes an
 * item of each.
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
/* A severity, a verdict or a mark of a comparison, in its colour. */
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
	bool tree;                /* its rows are nodes: out_node */
	const char *const *heads; /* of a tree: what text writes above the values before
				     its nodes; the last is NULL */
	unsigned view;   /* which the bit of machine_only and text_only: 0 to 31 */
	unsigned indent; /* spaces */
	bool no_header;
	uint64_t left_out; /* bit 1 << column: text omits it, since it would be
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
 * A row of a tree, parents before children. Text shows the node and no columns: what leads
 * it, right-aligned below the heads, four spaces a level, then name, class and mark, then
 * the trail, right-aligned. Beyond 256 levels it writes the level instead of indenting.
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
 * What a rank did for a while, for outputs that draw time: rank by rank, lane by lane, and
 * in each in order of begin. All ranks are on one clock.
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
	int64_t offset_ns; /* was added to its times */
	bool shared;       /* by collectives; else it begins when the first one does */
};
void out_clock(struct out *out, const struct timed_clock *clock);

/* The output for a document in addition to the answer, among the requested ones, or NULL:
 * only this output gets what is emitted there. */
struct out *out_aside(struct out *out);

/* values NULL: none, in a tree for people. */
void out_node(struct out *out, const struct tree_node *node, const struct value *values);

#endif
