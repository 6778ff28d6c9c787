/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPTION_H
#define OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A list that grows by one element a time and may shrink: with room for one more behind
 * `count`, each of `size` bytes. Its room is the next power of two, so no caller keeps it. NULL:
 * out of memory; the list stays as it was. */
void *list_grown(void *items, size_t count, size_t size);

/* Texts that others point to, freed together. All zero is empty. */
struct owned {
	char **items;
	size_t count;
};

/* Takes a text from malloc over, also when it fails. NULL: out of memory (or text is
 * NULL). */
char *owned_take(struct owned *owned, char *text);

/* A copy with a zero byte behind it. */
char *owned_copy(struct owned *owned, const char *data, size_t size);

void owned_free(struct owned *owned);

/*
 * An option is a row: what it is called, what it takes, where its value lands. Long names
 * are not abbreviated; options may stand behind words, up to "--".
 */
enum option_kind {
	OPTION_FLAG,    /* bool */
	OPTION_COUNTED, /* int, how often */
	OPTION_INTEGER, /* int64_t, within minimum … maximum */
	OPTION_SIZE,    /* uint64_t: 4096, 4K, 1.5GiB, 4kb */
	OPTION_WORD,    /* const char *, one of words */
	OPTION_TEXT,    /* const char * */
	OPTION_LIST,    /* struct texts, repeatable */
	OPTION_WORDS,   /* struct texts, split at commas, each one of words (if any) */
};

struct texts {
	const char **items; /* freed by options_done */
	size_t count;
};

struct option_row {
	const char *name; /* long, without dashes */
	char letter;      /* or 0 */
	enum option_kind kind;
	const char *argument;     /* "N", "FILE"; NULL for flags */
	size_t offset;            /* in the options struct */
	const char *const *words; /* NULL ends */
	int64_t minimum, maximum; /* OPTION_INTEGER */
	const char *initial;      /* default, as text, or NULL */
	const char *bare; /* what --name alone stands for; NULL: it needs a value */
	const char *help; /* one line */
	bool hidden;
};

/* One -o FORMAT[=FILE]. */
struct output_choice {
	const char *format;
	const char *file; /* NULL: stdout */
};

/* What every command has. */
struct common_options {
	bool help, version;
	struct texts outputs; /* as typed: FORMAT[=FILE] */
	bool json, jsonl;
	const char *plan;
	bool no_plan;
	bool raw;
	int quiet, verbose;
	const char *color; /* auto, always, never */
	bool no_color;
	bool ascii;
	const char *width; /* N, none or NULL */
	bool bytes, si;
	bool provenance;
	const char *progress; /* auto, always, never, plain */
	int64_t jobs;
	const char *part; /* K/N, auto, auto/N or NULL */
	/* Which that is: 0 of 0 is all; and which launcher said so, or NULL. */
	uint32_t part_number, part_count;
	const char *part_from;
	const char *files0_from;
	struct texts limits; /* NAME=VALUE */
	bool no_sandbox;
	bool separate;
	const char *range; /* OFFSET[:LENGTH]: the checkpoint is this part of the file */
	bool null;         /* -0 */
	const char *fail_on; /* one of fail_words, or NULL: as the command does */
};

/* Selectors; select.h says what they mean. */
struct select_options {
	struct texts globs;   /* -g, a leading ! excludes */
	struct texts regexes; /* -e */
	struct texts dtypes, roles;
	const char *ranks; /* 0,4-7 */
	struct texts files;
	uint64_t min_bytes, max_bytes; /* UINT64_MAX: not given */
	int64_t depth;                 /* -1: not given */
	struct texts sort;             /* column names, - reverses */
	bool largest;                  /* sort by bytes, the most first */
	bool reverse;                  /* after sorting */
	struct texts columns;
	int64_t head; /* -1: not given */
};

extern const struct option_row common_options[];

/* "none", then severities, the least first; the last is NULL. */
extern const char *const fail_words[];

/* Selectors, in tables of what commands take together; and all of them, the last NULL. */
extern const struct option_row select_names[], select_tensors[], select_ranks[],
	select_files[], select_depth[], select_rows[], select_columns[];
enum { SELECT_TABLES = 7 };
extern const struct option_row *const select_all[SELECT_TABLES + 1];

/* Whether a value follows it. */
bool option_takes_value(const struct option_row *row);

/* Whether its value is the path of something that is read. */
bool option_is_path(const struct option_row *row);

/* That path, or of an option that repeats the one with this index; NULL past the last, and
 * where the value is not a path. */
const char *option_path(const struct option_row *row, const void *values, size_t index);

/* Rows and the struct they fill. */
struct option_group {
	const struct option_row *rows;
	void *values;
};

/* A wrong command line: what is wrong, and what was probably meant. Both are cut
 * rather than allocated, so they can always be shown. hint is "" if there is none. */
struct usage {
	char what[320];
	char hint[320];
};

void usage_what(struct usage *usage, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void usage_hint(struct usage *usage, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* What reading a part of the command line came to. */
enum usage_result {
	USAGE_GOOD,
	USAGE_UNKNOWN, /* of options_parse: usage->what is the option, without its value */
	USAGE_WRONG,   /* usage says what */
	USAGE_MEMORY,
};

/*
 * Defaults. Without `initial`: false, 0 times, NULL, no texts; -1 for OPTION_INTEGER and
 * UINT64_MAX for OPTION_SIZE, which mean "not given".
 */
enum usage_result options_init(
	const struct option_group *group, struct owned *owned, struct usage *usage);

/*
 * Lexes argv and fills the groups. Words are all that is not an option, in order; after `--`
 * everything is a word. With values NULL in a group its options are lexed and forgotten.
 * With usage NULL nothing is wrong; then only flags may have values.
 */
enum usage_result options_parse(int argc, char **argv, const struct option_group *groups,
	size_t group_count, struct texts *ret_words, struct owned *owned,
	struct usage *usage);

/* The row of that long name or, if name is NULL, of that letter; or NULL. */
const struct option_row *option_find(
	const struct option_row *rows, const char *name, char letter);

/* One more value for one option, as if it had been typed. text belongs to the caller. */
enum usage_result option_set(const struct option_row *row, void *values, const char *text,
	struct owned *owned, struct usage *usage);

/* Frees the lists of a group; its texts are owned elsewhere. */
void options_done(const struct option_group *group);

/* False when out of memory. The text is borrowed. */
bool texts_add(struct texts *texts, const char *text);

/* 4096, 4K, 1.5KiB (powers of 1024), 4KB (powers of 1000), up to E, in either case. What is
 * left of a byte is dropped. */
bool option_size(const char *text, uint64_t *ret_size);
bool option_integer(
	const char *text, int64_t minimum, int64_t maximum, int64_t *ret_integer);
/* OFFSET[:LENGTH], both sizes. Without LENGTH: UINT64_MAX. */
bool option_range(const char *text, uint64_t *ret_offset, uint64_t *ret_length);
/* NAME=VALUE; the name is the first *ret_name_size bytes. */
bool option_assignment(const char *text, size_t *ret_name_size, const char **ret_value);

#endif
