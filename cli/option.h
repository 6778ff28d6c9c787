/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPTION_H
#define OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * An option is a row: what it is called, what it takes, where its value lands. option.c
 * turns rows into a popt table whose arg pointers are all NULL: popt lexes (exact long
 * names, permutation, --), we convert. So there is no mutable file-scope state.
 */
enum option_kind {
	OPTION_FLAG,    /* bool */
	OPTION_COUNTED, /* int, how often */
	OPTION_INTEGER, /* int64_t, within minimum … maximum */
	OPTION_SIZE,    /* uint64_t: 4096, 4K, 4KiB, 4KB */
	OPTION_WORD,    /* const char *, one of words */
	OPTION_TEXT,    /* const char * */
	OPTION_LIST,    /* struct texts, repeatable */
	OPTION_WORDS,   /* struct texts, split at commas, each one of words (if any) */
};

struct texts {
	const char **items; /* freed by options_done */
	size_t count;
};

struct option {
	const char *name; /* long, without dashes */
	char letter;      /* or 0 */
	enum option_kind kind;
	const char *argument;      /* "N", "FILE"; NULL for flags */
	size_t offset;             /* in the options struct */
	const char *const *words;  /* NULL ends */
	int64_t minimum, maximum;  /* OPTION_INTEGER */
	const char *initial;       /* default, as text, or NULL */
	const char *help;          /* one line */
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
	const char *color;    /* auto, always, never */
	bool ascii;
	const char *width;    /* N, none or NULL */
	bool bytes;
	const char *progress; /* auto, always, never, plain */
	int64_t jobs;
	const char *files0_from;
	struct texts limits;  /* NAME=VALUE */
	bool no_sandbox;
	bool separate;
	const char *range;    /* OFFSET[:LENGTH]: the checkpoint is this part of the file */
	bool null;            /* -0 */
};

/* Selectors; select.h says what they mean. */
struct select_options {
	struct texts globs;   /* -g, a leading ! excludes */
	struct texts regexes; /* -e */
	struct texts dtypes, roles;
	const char *ranks;    /* 0,4-7 */
	struct texts files;
	uint64_t min_bytes, max_bytes; /* UINT64_MAX: not given */
	int64_t depth;        /* -1: not given */
	struct texts sort;    /* column names, - reverses */
	struct texts columns;
	int64_t head;         /* -1: not given */
};

extern const struct option common_options[];
extern const struct option select_options[];

#endif
