/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses options over rows: what each is called, what it takes, where its value goes.
 * Finds commands, their options, and the word that a wrong one resembles.
 */
#include <dirent.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <fsdp/model.h>

#include "args/parse.h"
#include "render/writer.h"

/*
 * Parses the words that people use for rules and dtypes, and computes the similarity of
 * two short words, for "did you mean".
 */

enum { WORD_MOST = 48 };

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Three rows of the usual table: swaps look two rows back. */
static size_t edits(const char *a, size_t a_size, const char *b, size_t b_size)
{
	size_t rows[3][WORD_MOST + 1];

	for (size_t j = 0; j <= b_size; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= a_size; i++) {
		const size_t *above = rows[(i - 1) % 3], *two_above = rows[(i + 1) % 3];
		size_t *row = rows[i % 3];

		row[0] = i;
		for (size_t j = 1; j <= b_size; j++) {
			row[j] = least(least(above[j], row[j - 1]) + 1,
				above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
				a[i - 2] == b[j - 1])
				row[j] = least(row[j], two_above[j - 2] + 1);
		}
	}
	return rows[a_size % 3][b_size];
}

void nearest_init(struct nearest *nearest, const char *word)
{
	size_t size = strlen(word), third = size > 3 ? size / 3 : size / 2;

	*nearest = (struct nearest){ .word = word, .distance = least(third, 2) + 1 };
}

void nearest_try(struct nearest *nearest, const char *candidate)
{
	size_t word_size = strlen(nearest->word), size = strlen(candidate);

	if (word_size > WORD_MOST || size > WORD_MOST)
		return;
	size_t distance = edits(nearest->word, word_size, candidate, size);
	if (distance < nearest->distance) {
		nearest->distance = distance;
		nearest->best = candidate;
	}
}

const struct fsdp_rule *rule_of_name(const char *name)
{
	FOR_EACH(i, fsdp_rule_count(), rule, fsdp_rule(i))
		if (strcasecmp(rule->id, name) == 0 || strcasecmp(rule->slug, name) == 0)
			return rule;
	return NULL;
}

void rule_nearest(struct nearest *nearest)
{
	for (size_t i = 0; i < fsdp_rule_count(); i++) {
		nearest_try(nearest, fsdp_rule(i)->id);
		nearest_try(nearest, fsdp_rule(i)->slug);
	}
}

/* How people write dtypes: numpy, JAX and safetensors say f32, much of the field fp32. */
static const struct {
	const char *typed, *dtype;
} SPELLINGS[] = {
	{ "bf16", "bfloat16" },
	{ "fp16", "float16" },
	{ "f16", "float16" },
	{ "half", "float16" },
	{ "fp32", "float32" },
	{ "f32", "float32" },
	{ "float", "float32" },
	{ "fp64", "float64" },
	{ "f64", "float64" },
	{ "double", "float64" },
	{ "c64", "complex64" },
	{ "c128", "complex128" },
	{ "i8", "int8" },
	{ "i16", "int16" },
	{ "short", "int16" },
	{ "i32", "int32" },
	{ "int", "int32" },
	{ "i64", "int64" },
	{ "long", "int64" },
	{ "u8", "uint8" },
	{ "byte", "uint8" },
	{ "u16", "uint16" },
	{ "u32", "uint32" },
	{ "u64", "uint64" },
	{ "f8_e4m3", "float8_e4m3fn" },
	{ "e4m3", "float8_e4m3fn" },
	{ "f8_e5m2", "float8_e5m2" },
	{ "e5m2", "float8_e5m2" },
};

size_t dtype_of_word(const char *word)
{
	size_t count = fsdp_dtype_count(), found = 0;

	if (strncmp(word, "torch.", 6) == 0)
		word += 6;
	for (size_t i = 0; i < sizeof SPELLINGS / sizeof *SPELLINGS; i++)
		if (strcasecmp(SPELLINGS[i].typed, word) == 0)
			word = SPELLINGS[i].dtype;
	while (found < count && strcasecmp(fsdp_dtype((uint32_t)found)->name, word) != 0)
		found++;
	return found;
}

/*
 * Turns option rows into values: getopt_long splits the line, this file converts. Only
 * this file uses getopt_long.
 */

void usage_what(struct usage *usage, const char *format, ...)
{
	va_list arguments;

	usage->hint[0] = '\0';
	va_start(arguments, format);
	vsnprintf(usage->what, sizeof usage->what, format, arguments);
	va_end(arguments);
}

void usage_end(struct usage *usage)
{
	longjmp(*usage->end, ESCAPE_USAGE);
}

void usage_refuse(struct usage *usage, const char *hint, const char *format, ...)
{
	va_list arguments;

	if (hint != NULL)
		usage_hint(usage, "%s", hint);
	va_start(arguments, format);
	vsnprintf(usage->what, sizeof usage->what, format, arguments);
	va_end(arguments);
	usage_end(usage);
}

void usage_hint(struct usage *usage, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(usage->hint, sizeof usage->hint, format, arguments);
	va_end(arguments);
}

/* ---- numbers ---- */

static bool parse_digits(const char **text, uint64_t *ret_value)
{
	const char *at = *text;
	uint64_t value = 0;

	if (!is_digit(*at))
		return false;
	for (; is_digit(*at); at++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
			return false;
	}
	*text = at;
	*ret_value = value;
	return true;
}

/* K, KiB, KB, in either case; false for anything else. */
static bool parse_unit(const char *text, uint64_t *ret_factor)
{
	static const char letters[] = "kmgtpe";
	const char *letter = *text != '\0' ? strchr(letters, *text | 0x20) : NULL;
	uint64_t base, factor = 1;

	if (letter == NULL)
		return false;
	if (text[1] == '\0' || strcasecmp(text + 1, "ib") == 0)
		base = 1024;
	else if (strcasecmp(text + 1, "b") == 0)
		base = 1000;
	else
		return false;
	for (const char *at = letters; at <= letter; at++)
		factor *= base;
	*ret_factor = factor;
	return true;
}

enum { FRACTION_DIGITS = 9 };

/* Of "1.5K": the 5, as tenths; *ret_parts is 10. Without a point: 0 of 1. */
static bool parse_fraction(const char **text, uint64_t *ret_value, uint64_t *ret_parts)
{
	const char *begin = *text + 1;

	*ret_value = 0;
	*ret_parts = 1;
	if (**text != '.')
		return true;
	*text = begin;
	if (!parse_digits(text, ret_value) || *text - begin > FRACTION_DIGITS)
		return false;
	for (; begin < *text; begin++)
		*ret_parts *= 10;
	return true;
}

bool option_size(const char *text, uint64_t *ret_size)
{
	uint64_t value, factor = 1, fraction, parts;

	if (!parse_digits(&text, &value) || !parse_fraction(&text, &fraction, &parts))
		return false;
	if (*text != '\0' ? !parse_unit(text, &factor) : parts > 1)
		return false;
	if (__builtin_mul_overflow(value, factor, &value))
		return false;
	/* Whole units first: a part of an exabyte times a billion does not fit. */
	fraction = factor / parts * fraction + factor % parts * fraction / parts;
	/* The largest value means "not given". */
	if (__builtin_add_overflow(value, fraction, &value) || value == UINT64_MAX)
		return false;
	*ret_size = value;
	return true;
}

bool option_integer(
	const char *text, int64_t minimum, int64_t maximum, int64_t *ret_integer)
{
	bool negative = *text == '-';
	uint64_t magnitude;

	text += negative;
	if (!parse_digits(&text, &magnitude) || *text != '\0' || magnitude > INT64_MAX)
		return false;
	int64_t value = negative ? -(int64_t)magnitude : (int64_t)magnitude;
	if (value < minimum || value > maximum)
		return false;
	*ret_integer = value;
	return true;
}

bool option_range(const char *text, uint64_t *ret_offset, uint64_t *ret_length)
{
	const char *colon = strchr(text, ':');
	uint64_t offset, length = UINT64_MAX;
	char first[32];

	if (colon == NULL)
		colon = text + strlen(text);
	size_t size = (size_t)(colon - text);
	if (size >= sizeof first)
		return false;
	memcpy(first, text, size);
	first[size] = '\0';
	if (!option_size(first, &offset))
		return false;
	if (*colon == ':' && !option_size(colon + 1, &length))
		return false;
	*ret_offset = offset;
	*ret_length = length;
	return true;
}

bool option_assignment(const char *text, size_t *ret_name_size, const char **ret_value)
{
	const char *equals = strchr(text, '=');

	if (equals == NULL || equals == text || equals[1] == '\0')
		return false;
	*ret_name_size = (size_t)(equals - text);
	*ret_value = equals + 1;
	return true;
}

void texts_add(struct texts *texts, const char *text)
{
	texts->items = memory_grown(texts->items, texts->count, sizeof *texts->items);
	texts->items[texts->count++] = text;
}

int compare_texts(const void *left, const void *right)
{
	return strcmp(*(const char *const *)left, *(const char *const *)right);
}

void release_folder(void *folder)
{
	closedir(folder);
}

/* ---- rows ---- */

bool option_takes_value(const struct option_row *row)
{
	return row->kind != OPTION_FLAG && row->kind != OPTION_COUNTED;
}

bool option_is_path(const struct option_row *row)
{
	return (row->kind == OPTION_TEXT || row->kind == OPTION_LIST) &&
	       (strcmp(row->argument, "FILE") == 0 ||
		       strcmp(row->argument, "NAME|FILE") == 0 ||
		       strcmp(row->argument, "DIR") == 0 ||
		       strcmp(row->argument, "CHECKPOINT") == 0);
}

const char *option_path(const struct option_row *row, const void *values, size_t index)
{
	const void *at = (const char *)values + row->offset;
	const struct texts *paths = at;
	const char *path;

	if (!option_is_path(row))
		return NULL;
	if (row->kind == OPTION_LIST)
		return index < paths->count ? paths->items[index] : NULL;
	memcpy(&path, at, sizeof path);
	return index == 0 ? path : NULL;
}

const struct option_row *option_find(
	const struct option_row *rows, const char *name, char letter)
{
	for (; rows->name != NULL; rows++) {
		if (name != NULL ? strcmp(rows->name, name) == 0 : rows->letter == letter)
			return rows;
	}
	return NULL;
}

static bool is_word(const struct option_row *row, const char *value)
{
	for (const char *const *word = row->words; *word != NULL; word++) {
		if (strcmp(*word, value) == 0)
			return true;
	}
	return false;
}

_Noreturn static void refuse_word(
	const struct option_row *row, const char *value, struct usage *usage)
{
	struct nearest nearest;
	char words[200];

	nearest_init(&nearest, value);
	for (const char *const *word = row->words; *word != NULL; word++)
		nearest_try(&nearest, *word);
	/* "auto, always, never", cut where it does not fit. */
	size_t size = sizeof words;
	size_t used = 0;

	words[0] = '\0';
	for (size_t i = 0; row->words[i] != NULL && used < size; i++) {
		int written = snprintf(words + used, size - used, "%s%s",
			i > 0 ? ", " : "", row->words[i]);
		if (written > 0)
			used += (size_t)written;
	}
	if (nearest.best != NULL)
		usage_hint(usage, "did you mean %s? (one of %s)", nearest.best, words);
	else
		usage_hint(usage, "one of %s", words);
	usage_refuse(usage, NULL, "--%s: unknown word %s", row->name, value);
}

_Noreturn static void refuse_number(
	const struct option_row *row, const char *value, struct usage *usage)
{
	if (row->kind == OPTION_SIZE)
		usage_hint(usage, "a size is 4096, 4K or 1.5KiB (1024s), or 4KB (1000s)");
	else if (access(value, F_OK) == 0)
		usage_hint(usage, "the number goes first: --%s=%lld %s", row->name,
			(long long)(row->minimum > 0 || row->maximum < 10 ? row->minimum
									  : 10),
			value);
	else if (row->maximum == INT64_MAX)
		usage_hint(
			usage, "a whole number, %lld or more", (long long)row->minimum);
	else
		usage_hint(usage, "a whole number from %lld to %lld",
			(long long)row->minimum, (long long)row->maximum);
	usage_refuse(usage, NULL, "--%s: %s is not %s", row->name, value,
		row->kind == OPTION_SIZE ? "a size" : "a whole number in range");
}

/* Splits at commas; an empty part is an error. */
static void split_words(const struct option_row *row, const char *value,
	struct texts *texts, struct usage *usage)
{
	while (true) {
		size_t size = strcspn(value, ",");
		char *part = memory_copy(value, size);

		texts_add(texts, part);
		if (size == 0)
			usage_refuse(usage, "items are separated by single commas",
				"--%s: an item of the list is empty", row->name);
		if (row->words != NULL && !is_word(row, part))
			refuse_word(row, part, usage);
		if (value[size] == '\0')
			return;
		value += size + 1;
	}
}

void option_set(const struct option_row *row, void *values, const char *value,
	struct usage *usage)
{
	void *target = (char *)values + row->offset;
	const char *first;

	switch (row->kind) {
	case OPTION_FLAG:
		*(bool *)target = true;
		break;
	case OPTION_COUNTED:
		if (*(int *)target < INT_MAX)
			++*(int *)target;
		break;
	case OPTION_INTEGER:
		if (!option_integer(value, row->minimum, row->maximum, target))
			refuse_number(row, value, usage);
		break;
	case OPTION_SIZE:
		if (!option_size(value, target))
			refuse_number(row, value, usage);
		break;
	case OPTION_WORD:
		if (!is_word(row, value))
			refuse_word(row, value, usage);
		*(const char **)target = value;
		break;
	case OPTION_TEXT:
		first = *(const char **)target;
		if (row->is_once && first != NULL && strcmp(first, value) != 0 &&
			(row->initial == NULL || strcmp(first, row->initial) != 0)) {
			usage_hint(usage, "one prefix can have both: --%s=%s%s",
				row->name, first, value);
			usage_refuse(usage, NULL, "--%s is given twice: %s and %s",
				row->name, first, value);
		}
		*(const char **)target = value;
		break;
	case OPTION_LIST:
		texts_add(target, value);
		break;
	case OPTION_WORDS:
		split_words(row, value, target, usage);
		break;
	}
}

void options_init(const struct option_group *group, struct usage *usage)
{
	for (const struct option_row *row = group->rows; row->name != NULL; row++) {
		void *target = (char *)group->values + row->offset;

		switch (row->kind) {
		case OPTION_FLAG:
			*(bool *)target = false;
			break;
		case OPTION_COUNTED:
			*(int *)target = 0;
			break;
		case OPTION_INTEGER:
			*(int64_t *)target = -1;
			break;
		case OPTION_SIZE:
			*(uint64_t *)target = UINT64_MAX;
			break;
		case OPTION_WORD:
		case OPTION_TEXT:
			*(const char **)target = NULL;
			break;
		case OPTION_LIST:
		case OPTION_WORDS:
			*(struct texts *)target = (struct texts){ 0 };
			break;
		}
	}
	for (const struct option_row *row = group->rows; row->name != NULL; row++)
		if (row->initial != NULL)
			option_set(row, group->values, row->initial, usage);
}

/* ---- the words of a line ---- */

enum { LETTERS = 256, OPTION_MOST = 128 };

struct lexer {
	const struct option_group *groups;
	size_t group_count;
	struct option *names;  /* those of all rows, as getopt_long takes them */
	char letters[LETTERS]; /* and their letters */
};

/* Of two rows with one name or letter the first counts. */
static void lexer_init(struct lexer *lexer)
{
	size_t count = 0, used = 2;

	for (size_t i = 0; i < lexer->group_count; i++)
		for (const struct option_row *row = lexer->groups[i].rows;
			row->name != NULL; row++)
			count++;
	lexer->names = memory_new(count + 1, sizeof *lexer->names);
	/* Words keep their place among the options; a missing value is told apart. */
	memcpy(lexer->letters, "-:", sizeof "-:");
	count = 0;
	for (size_t i = 0; i < lexer->group_count; i++)
		for (const struct option_row *row = lexer->groups[i].rows;
			row->name != NULL; row++) {
			bool takes = option_takes_value(row);

			lexer->names[count++] = (struct option){ .name = row->name,
				.has_arg = row->bare != NULL ? optional_argument
					   : takes           ? required_argument
							     : no_argument };
			if (row->letter != '\0' && used + sizeof "x:" < LETTERS &&
				strchr(lexer->letters, row->letter) == NULL)
				used += (size_t)sprintf(lexer->letters + used, "%c%s",
					row->letter, takes ? ":" : "");
		}
}

static const struct option_row *lexer_find(
	const struct lexer *lexer, const char *name, char letter, void **ret_values)
{
	const struct option_row *row = NULL;

	for (size_t i = 0; row == NULL && i < lexer->group_count; i++) {
		row = option_find(lexer->groups[i].rows, name, letter);
		*ret_values = lexer->groups[i].values;
	}
	return row;
}

/* What getopt_long found in the argument `typed`: `code` is what it returned. False: the
 * option is unknown. */
static bool set_found(
	const struct lexer *lexer, const char *typed, int code, struct usage *usage)
{
	bool is_long = typed[1] == '-', is_wrong = code == '?' || code == ':';
	char name[OPTION_MOST], letter = (char)(is_wrong ? optopt : code);
	const struct option_row *named, *row;
	void *values = NULL;

	snprintf(name, sizeof name, "%.*s", (int)strcspn(typed, "="), typed);
	named = lexer_find(lexer, name + (is_long ? 2 : 1), '\0', &values);
	row = is_long ? named : lexer_find(lexer, NULL, letter, &values);
	if (usage == NULL && (row == NULL || is_wrong))
		return true;
	/* Names are not abbreviated, and -json is not -j son. */
	if (usage != NULL && (named == NULL) == is_long) {
		usage_what(usage, "%s", name);
		return false;
	}
	if (code == ':')
		usage_refuse(usage, NULL, "%s needs a value", typed);
	if (code == '?' && (is_long || letter == '='))
		usage_refuse(usage, NULL, "%s: this option takes no value", typed);
	if (row == NULL) {
		usage_what(usage, "-%c", letter);
		return false;
	}
	/* "-lh" is a habit of ls and du: sizes for people, which ours are anyway. So an h
	 * among letters that ask for a listing asks for no help. */
	if (values == NULL ||
		(code == 'h' && strspn(typed + 1, "lSrh") == strlen(typed + 1) &&
			strpbrk(typed, "lSr") != NULL))
		return true;
	option_set(row, values, optarg != NULL ? optarg : row->bare, usage);
	return true;
}

bool options_parse(int argc, char **argv, const struct option_group *groups,
	size_t group_count, struct texts *ret_words, struct usage *usage)
{
	struct lexer lexer = { .groups = groups, .group_count = group_count };
	bool known = true;

	lexer_init(&lexer);
	optind = 0; /* restarts getopt_long */
	opterr = 0;
	while (known && argc > 0) {
		const char *typed = argv[optind > 0 ? optind : 1];
		int code = getopt_long(argc, argv, lexer.letters, lexer.names, NULL);

		if (code == -1)
			break;
		if (code == 1) {
			texts_add(ret_words, optarg);
			continue;
		}
		/* -j=4 is -j 4. */
		if (typed[1] != '-' && argv[optind - 1] == typed && optarg != NULL &&
			*optarg == '=')
			optarg++;
		known = set_found(&lexer, typed, code, usage);
	}
	/* After "--" follow only words. */
	for (; known && optind < argc; optind++)
		texts_add(ret_words, argv[optind]);
	return known;
}

/* ---- the rows that many commands share ---- */

const char *const fail_words[] = { "none", "note", "warning", "error", NULL };
static const char *const color_words[] = { "auto", "always", "never", NULL };
static const char *const progress_words[] = { "auto", "always", "never", "plain", NULL };
static const char *const role_words[] = { "param", "buffer", "optim", "other", NULL };

/* clang-format off */
#define AT(field) offsetof(struct common_options, field)
const struct option_row common_options[] = {
	{ "help", 'h', OPTION_FLAG, .offset = AT(help), .help = "print this help" },
	{ "version", 'V', OPTION_FLAG, .offset = AT(version), .help = "print the version" },
	{ "output", 'o', OPTION_LIST, "FORMAT[=FILE]", AT(outputs),
		.help = "write FORMAT to stdout or FILE; repeatable" },
	{ "json", 0, OPTION_FLAG, .offset = AT(json), .help = "write JSON: -o json" },
	{ "jsonl", 0, OPTION_FLAG, .offset = AT(jsonl), .help = "write JSON Lines: -o jsonl" },
	{ "plan", 0, OPTION_TEXT, "FILE", AT(plan),
		.help = "use this sharding plan" },
	{ "no-plan", 0, OPTION_FLAG, .offset = AT(no_plan), .help = "ignore sharding plans" },
	{ "raw", 0, OPTION_FLAG, .offset = AT(raw), .help = "print names exactly as stored" },
	{ "quiet", 'q', OPTION_COUNTED, .offset = AT(quiet),
		.help = "omit notes and totals; twice: also warnings" },
	{ "verbose", 'v', OPTION_COUNTED, .offset = AT(verbose),
		.help = "print all members of a group; twice: more detail" },
	{ "color", 0, OPTION_WORD, "WHEN", AT(color), color_words, .help = "use colors" },
	{ "no-color", 0, OPTION_FLAG, .offset = AT(no_color), .help = "the same as --color=never",
		.hidden = true },
	{ "ascii", 0, OPTION_FLAG, .offset = AT(ascii),
		.help = "draw with ASCII characters only" },
	{ "width", 0, OPTION_TEXT, "N|none", AT(width), .help = "set the width of text in columns" },
	{ "bytes", 0, OPTION_FLAG, .offset = AT(bytes), .help = "print sizes in bytes" },
	{ "si", 0, OPTION_FLAG, .offset = AT(si), .help = "print sizes in powers of 1000: kB, MB, GB" },
	{ "progress", 0, OPTION_WORD, "WHEN", AT(progress), progress_words,
		.help = "print progress of long reads on stderr" },
	{ "jobs", 'j', OPTION_INTEGER, "N", AT(jobs), NULL, 1, 1024,
		.help = "read with N threads" },
	{ "part", 0, OPTION_TEXT, "K/N|auto", AT(part),
		.help = "read part K of N of the bytes; merge joins the results" },
	{ "files0-from", 0, OPTION_TEXT, "FILE", AT(files0_from),
		.help = "read more NUL-terminated paths from FILE; -: stdin" },
	{ "limit", 0, OPTION_LIST, "NAME=VALUE", AT(limits),
		.help = "change a limit; 0: no limit (help limits)" },
	{ "fail-on", 0, OPTION_WORD, "LEVEL", AT(fail_on), fail_words,
		.help = "exit with 1 on findings at this level or above" },
	{ "provenance", 0, OPTION_FLAG, .offset = AT(provenance),
		.help = "add arguments, host and start time to JSON and SARIF" },
	{ "no-sandbox", 0, OPTION_FLAG, .offset = AT(no_sandbox),
		.help = "run without the sandbox" },
	{ "separate", 0, OPTION_FLAG, .offset = AT(separate),
		.help = "treat each argument as a separate checkpoint" },
	{ "range", 0, OPTION_TEXT, "OFFSET[:LENGTH]", AT(range),
		.help = "read the checkpoint from this part of the file" },
	{ "null", '0', OPTION_FLAG, .offset = AT(null),
		.help = "print names only (-o name), unescaped, NUL-terminated" },
	{ 0 },
};
#undef AT

#define AT(field) offsetof(struct select_options, field)
const struct option_row select_names[] = {
	{ "glob", 'g', OPTION_LIST, "PATTERN", AT(globs),
		.help = "select names: * in a segment, ** across; !PATTERN excludes" },
	{ "regex", 'e', OPTION_LIST, "RE", AT(regexes),
		.help = "select names that match this PCRE2 expression" },
	{ 0 },
};

const struct option_row select_tensors[] = {
	{ "dtype", 0, OPTION_WORDS, "LIST", AT(dtypes), .help = "select these dtypes: bfloat16,float32" },
	{ "role", 0, OPTION_WORDS, "LIST", AT(roles), role_words, .help = "select tensors with these roles" },
	{ "min-bytes", 0, OPTION_SIZE, "SIZE", AT(min_bytes), .help = "select tensors of at least SIZE" },
	{ "max-bytes", 0, OPTION_SIZE, "SIZE", AT(max_bytes), .help = "select tensors of at most SIZE" },
	{ 0 },
};

const struct option_row select_ranks[] = {
	{ "rank", 0, OPTION_TEXT, "LIST", AT(ranks), .help = "select tensors with pieces of these ranks: 0,4-7" },
	{ 0 },
};

const struct option_row select_files[] = {
	{ "file", 0, OPTION_LIST, "GLOB", AT(files), .help = "select tensors with pieces in these files" },
	{ 0 },
};

const struct option_row select_depth[] = {
	{ "depth", 'd', OPTION_INTEGER, "N", AT(depth), NULL, 0, INT32_MAX,
		.help = "print N levels below the root" },
	{ "level", 'L', OPTION_INTEGER, "N", AT(depth), NULL, 0, INT32_MAX,
		.help = "the same as -d", .hidden = true },
	{ 0 },
};

const struct option_row select_rows[] = {
	{ "sort", 's', OPTION_WORDS, "KEYS", AT(sort),
		.help = "sort rows by columns; -KEY: descending" },
	{ "largest", 'S', OPTION_FLAG, .offset = AT(largest), .help = "sort by size, largest first (-s -bytes)" },
	{ "reverse", 'r', OPTION_FLAG, .offset = AT(reverse), .help = "reverse the order of rows" },
	{ "head", 'n', OPTION_INTEGER, "N", AT(head), NULL, 0, INT64_MAX, .help = "print the first N rows" },
	{ 0 },
};

const struct option_row select_columns[] = {
	{ "columns", 0, OPTION_WORDS, "LIST", AT(columns),
		.help = "print these columns, in this order; all: every column" },
	{ 0 },
};

const struct option_row *const select_all[] = { select_names, select_tensors, select_ranks, select_files, select_depth, select_rows, select_columns, NULL };
#undef AT
/* clang-format on */

/* ---- Looks things up in the rows of commands ---- */

const struct command *command_find(
	const struct command *const *commands, const char *name)
{
	while (*commands != NULL && strcmp((*commands)->name, name) != 0)
		commands++;
	return *commands;
}

/* Of the rows of a table that are shown, the one that is `index` further; or counts. */
static const struct option_row *shown_row(const struct option_row *row, size_t *index)
{
	for (; row != NULL && row->name != NULL; row++)
		if (!row->hidden && (*index)-- == 0)
			return row;
	return NULL;
}

const struct option_row *command_option(const struct command *command, size_t index)
{
	const struct option_row *row = shown_row(command->options, &index);

	for (size_t i = 0; row == NULL && command_selectors(command)[i] != NULL; i++)
		row = shown_row(command_selectors(command)[i], &index);
	return row != NULL ? row : shown_row(common_options, &index);
}

int status_worse(int a, int b)
{
	/* How bad each status is: 2 beats 1 beats 4 beats 3 beats 0. */
	static const int weight[] = { 0, 3, 4, 1, 2 };

	return weight[a] >= weight[b] ? a : b;
}
