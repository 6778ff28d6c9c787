/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles patterns and lists of words, and matches names with them. Only this file uses
 * PCRE2.
 *
 * A glob becomes one anchored expression that may end at the end of the name or before
 * a dot, so that a pattern for a module selects everything below it in one match.
 * Names are bytes: no UTF mode, no locale.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "args/parse.h"
#include "args/select.h"
#include "render/writer.h"

enum {
	MATCH_LIMIT = 1000000,     /* steps of one match, else it is given up */
	HEAP_LIMIT_KIB = 64 << 10, /* memory of one match */
	RANK_RANGES_MAX = 65536,
};

struct pattern {
	pcre2_code *code;
	bool exclude;
};

struct rank_range {
	uint32_t first, last;
};

struct selection {
	struct pattern *names; /* globs first, then expressions */
	size_t name_count;
	struct pattern wider; /* that may take the place of one */
	bool has_include;
	struct pattern *files;
	size_t file_count;
	bool *dtypes; /* by dtype; NULL: any */
	bool roles[FSDP_ROLE_COUNT];
	bool has_roles;
	struct rank_range *ranks;
	size_t rank_count;
	uint64_t min_bytes, max_bytes;
	pcre2_match_context *limits;
	pcre2_match_data *match;
	bool gave_up, out_of_memory;
	/* Prefix of stored names before those of a plan: "model."; "": nothing. */
	char *prefix;
	size_t prefix_size;
	char *longer; /* a place for a name after it */
	size_t longer_room;
};

static const char HELP[] = "fsdp-inspect help selectors";

/* ---- globs ---- */

/* An expression that grows; each byte of a glob adds at most GROWTH. */
enum { GROWTH = 16 };

struct expression {
	char *data;
	size_t size;
};

static void add(struct expression *expression, const char *text)
{
	size_t size = strlen(text);
	memcpy(expression->data + expression->size, text, size);
	expression->size += size;
}

static void add_literal(struct expression *expression, char c)
{
	/* A backslash before any byte that is not a letter or digit makes it stand for
	 * itself. */
	bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) ||
		       c == '_';
	if (!is_word && (unsigned char)c < 0x80)
		expression->data[expression->size++] = '\\';
	expression->data[expression->size++] = c;
}

/* [a-z], [!0-9]: never matches the separator when negated. NULL if it is not closed. */
static const char *add_class(
	struct expression *expression, const char *at, char separator)
{
	bool first = true;
	expression->data[expression->size++] = '[';
	if (*at == '!' || *at == '^') {
		expression->data[expression->size++] = '^';
		add_literal(expression, separator);
		at++;
	}
	for (; *at != '\0' && (*at != ']' || first); at++, first = false) {
		if (*at == '-' && !first && at[1] != ']' && at[1] != '\0') {
			expression->data[expression->size++] = '-';
			continue;
		}
		if (*at == '\\' && at[1] != '\0')
			at++;
		add_literal(expression, *at);
	}
	if (*at == '\0')
		return NULL;
	expression->data[expression->size++] = ']';
	return at + 1;
}

/* A segment that is just two stars stands for any number of segments, also none. */
static const char *add_stars(
	struct expression *expression, const char *glob, const char *at, char separator)
{
	bool begins = at == glob || at[-1] == separator;
	const char *behind = at + 2;

	while (*behind == '*')
		behind++;
	/* Any number of segments twice is still any number of segments. */
	while (begins && behind[0] == separator && behind[1] == '*' && behind[2] == '*')
		for (behind += 3; *behind == '*';)
			behind++;
	if (begins && *behind == separator) {
		add(expression, separator == '.' ? "(?:.*\\.)?" : "(?:.*/)?");
		return behind + 1;
	}
	if (begins && *behind == '\0' &&
		expression->data[expression->size - 1] == separator) {
		/* The separator is there already: it goes with the segments. */
		expression->size -= 2;
		add(expression, separator == '.' ? "(?:\\..*)?" : "(?:/.*)?");
		return behind;
	}
	add(expression, ".*");
	return behind;
}

/* The expression of a glob, zero-terminated. */
static struct expression translate(const char *glob, char separator, struct usage *usage)
{
	size_t length = strlen(glob);
	struct expression expression = { memory_new(length * GROWTH + 64, 1), 0 };

	add(&expression, "\\A(?:");
	for (const char *at = glob; *at != '\0';) {
		if (at[0] == '*' && at[1] == '*') {
			at = add_stars(&expression, glob, at, separator);
		} else if (*at == '*') {
			add(&expression, separator == '.' ? "[^.]*" : "[^/]*");
			at++;
		} else if (*at == '?') {
			add(&expression, separator == '.' ? "[^.]" : "[^/]");
			at++;
		} else if (*at == '[') {
			at = add_class(&expression, at + 1, separator);
			if (at == NULL)
				usage_refuse(
					usage, HELP, "pattern '%s': [ without ]", glob);
		} else {
			if (*at == '\\' && at[1] != '\0')
				at++;
			add_literal(&expression, *at++);
		}
	}
	add(&expression, separator == '.' ? ")(?=\\z|\\.)" : ")\\z");
	expression.data[expression.size] = '\0';
	return expression;
}

/* usage NULL: it is right. */
static void compile(struct pattern *pattern, const char *expression, size_t size,
	const char *shown, struct usage *usage)
{
	int code = 0;
	PCRE2_SIZE offset = 0;
	unsigned char why[256];

	pattern->code = pcre2_compile((PCRE2_SPTR)expression, size,
		PCRE2_DOTALL | PCRE2_NEVER_UTF | PCRE2_NEVER_BACKSLASH_C, &code, &offset,
		NULL);
	if (pattern->code == NULL) {
		if (code == PCRE2_ERROR_HEAP_FAILED || usage == NULL)
			memory_fail();
		if (pcre2_get_error_message(code, why, sizeof why) < 0)
			why[0] = '\0';
		usage_refuse(usage, HELP, "pattern '%s': %s (at character %zu)", shown,
			(const char *)why, (size_t)offset + 1);
	}
	/* Without a just-in-time compiler it is interpreted, with the same answer. */
	pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE);
}

static void compile_glob(
	struct pattern *pattern, const char *glob, char separator, struct usage *usage)
{
	pattern->exclude = glob[0] == '!';
	if (pattern->exclude)
		glob++;
	if (glob[0] == '\0')
		usage_refuse(usage, HELP, "an empty pattern matches nothing");
	struct expression expression = translate(glob, separator, usage);
	compile(pattern, expression.data, expression.size, glob, usage);
	memory_free(expression.data);
}

static bool matches(
	struct selection *selection, const struct pattern *pattern, struct fsdp_span name)
{
	const unsigned char *data =
		name.data != NULL ? name.data : (const unsigned char *)"";
	int result = pcre2_match(pattern->code, data, name.size, 0, 0, selection->match,
		selection->limits);

	/* The library may have asked. */
	if (result == PCRE2_ERROR_NOMEMORY)
		selection->out_of_memory = true;
	else if (result < 0 && result != PCRE2_ERROR_NOMATCH)
		selection->gave_up = true;
	return result >= 0;
}

/* ---- lists of words ---- */

static void parse_dtypes(
	struct selection *selection, const struct texts *words, struct usage *usage)
{
	size_t count = fsdp_dtype_count();

	if (words->count == 0)
		return;
	selection->dtypes = memory_new(count, sizeof *selection->dtypes);
	for (size_t i = 0; i < words->count; i++) {
		size_t found = dtype_of_word(words->items[i]);
		if (found == count)
			usage_refuse(usage, HELP, "--dtype: unknown dtype '%s'",
				words->items[i]);
		selection->dtypes[found] = true;
	}
}

static void parse_roles(
	struct selection *selection, const struct texts *words, struct usage *usage)
{
	for (size_t i = 0; i < words->count; i++) {
		size_t role = 0;
		while (role < FSDP_ROLE_COUNT &&
			strcmp(fsdp_role_name((enum fsdp_role)role), words->items[i]) !=
				0)
			role++;
		if (role == FSDP_ROLE_COUNT)
			usage_refuse(usage, HELP,
				"--role: '%s' is not one of param, buffer, optim, other",
				words->items[i]);
		selection->roles[role] = true;
		selection->has_roles = true;
	}
}

static bool parse_rank(const char **at, uint32_t *ret_rank)
{
	char *end;
	unsigned long long rank;

	if (!is_digit(**at))
		return false;
	errno = 0;
	rank = strtoull(*at, &end, 10);
	if (errno != 0 || rank >= FSDP_NONE)
		return false;
	*at = end;
	*ret_rank = (uint32_t)rank;
	return true;
}

static void parse_ranks(
	struct selection *selection, const char *list, struct usage *usage)
{
	size_t commas = 0;
	const char *at = list;

	if (list == NULL)
		return;
	for (const char *c = list; *c != '\0'; c++)
		commas += *c == ',';
	if (commas >= RANK_RANGES_MAX)
		usage_refuse(usage, HELP, "--rank: more than %d ranges", RANK_RANGES_MAX);
	selection->ranks = memory_new(commas + 1, sizeof *selection->ranks);
	for (;;) {
		struct rank_range *range = &selection->ranks[selection->rank_count];
		bool good = parse_rank(&at, &range->first);
		range->last = range->first;
		if (good && *at == '-') {
			at++;
			good = parse_rank(&at, &range->last) &&
			       range->last >= range->first;
		}
		if (!good || (*at != ',' && *at != '\0'))
			usage_refuse(usage, HELP, "--rank: '%s' is not a list like 0,4-7",
				list);
		selection->rank_count++;
		if (*at++ == '\0')
			return;
	}
}

/* ---- making one ---- */

/* The objects of PCRE2; the rest is memory of the command. */
static void release_selection(void *object)
{
	struct selection *selection = object;

	for (size_t i = 0; i < selection->name_count; i++)
		pcre2_code_free(selection->names[i].code);
	for (size_t i = 0; i < selection->file_count; i++)
		pcre2_code_free(selection->files[i].code);
	pcre2_code_free(selection->wider.code);
	pcre2_match_data_free(selection->match);
	pcre2_match_context_free(selection->limits);
}

struct selection *selection_new(const struct select_options *options, struct usage *usage)
{
	struct selection *selection = memory_new(1, sizeof *selection);
	size_t count = options->globs.count + options->regexes.count;

	memory_owns(selection, release_selection);
	selection->min_bytes = options->min_bytes == UINT64_MAX ? 0 : options->min_bytes;
	selection->max_bytes = options->max_bytes;
	selection->names = memory_new(count, sizeof *selection->names);
	selection->files = memory_new(options->files.count, sizeof *selection->files);
	FOR_EACH(i, count, pattern, &selection->names[i]) {
		selection->name_count = i + 1;
		if (i < options->globs.count) {
			compile_glob(pattern, options->globs.items[i], '.', usage);
		} else {
			const char *text =
				options->regexes.items[i - options->globs.count];
			compile(pattern, text, strlen(text), text, usage);
		}
		selection->has_include |= !pattern->exclude;
	}
	for (size_t i = 0; i < options->files.count; i++) {
		selection->file_count = i + 1;
		compile_glob(&selection->files[i], options->files.items[i], '/', usage);
	}
	selection->limits = pcre2_match_context_create(NULL);
	selection->match = pcre2_match_data_create(1, NULL);
	if (selection->limits == NULL || selection->match == NULL)
		memory_fail();
	pcre2_set_match_limit(selection->limits, MATCH_LIMIT);
	pcre2_set_heap_limit(selection->limits, HEAP_LIMIT_KIB);
	parse_dtypes(selection, &options->dtypes, usage);
	parse_roles(selection, &options->roles, usage);
	parse_ranks(selection, options->ranks, usage);
	return selection;
}

/* ---- prefix of names before those of a plan ---- */

/* The full name, with a zero byte after it. */
static char *name_new(
	const struct fsdp_checkpoint *checkpoint, uint32_t name, size_t *ret_size)
{
	size_t size = fsdp_name_write(checkpoint, name, NULL, 0);
	char *text = memory_new(size + 1, 1);

	(void)fsdp_name_write(checkpoint, name, text, size);
	*ret_size = size;
	return text;
}

/* Length of the prefix of a stored name before the name that its module has.
 * SIZE_MAX: the two do not belong together. */
static size_t front_of(
	const char *stored, size_t stored_size, const char *module, size_t module_size)
{
	size_t leaf = 0, planned;

	while (leaf < stored_size && stored[stored_size - 1 - leaf] != '.')
		leaf++;
	planned = module_size > 0 ? module_size + 1 + leaf : leaf;
	if (planned > stored_size ||
		memcmp(stored + stored_size - planned, module, module_size) != 0)
		return SIZE_MAX;
	if (planned < stored_size && stored[stored_size - planned - 1] != '.')
		return SIZE_MAX;
	return stored_size - planned;
}

/* Whether an entry of the checkpoint has a name that the pattern matches. */
static bool matches_some(struct selection *selection, const struct pattern *pattern,
	const struct fsdp_checkpoint *checkpoint)
{
	size_t tensors = fsdp_tensor_count(checkpoint),
	       values = fsdp_value_count(checkpoint),
	       count = tensors + values + fsdp_module_count(checkpoint);
	bool some = false;

	for (size_t i = 0; i < count && !some; i++) {
		uint32_t at = (uint32_t)i, names[2];
		size_t size;

		if (i < tensors) {
			struct fsdp_tensor tensor = fsdp_tensor(checkpoint, at);
			names[0] = tensor.name, names[1] = tensor.raw_name;
		} else if (i < tensors + values) {
			struct fsdp_value value =
				fsdp_value(checkpoint, (uint32_t)(i - tensors));
			names[0] = value.name, names[1] = value.raw_name;
		} else {
			struct fsdp_module module =
				fsdp_module(checkpoint, (uint32_t)(i - tensors - values));
			names[0] = module.name, names[1] = module.raw_name;
		}
		for (size_t k = 0; k < 2 && !some; k++) {
			char *name = k == 0 || names[1] != names[0]
					     ? name_new(checkpoint, names[k], &size)
					     : NULL;
			size_t front = selection->prefix_size;

			if (name == NULL)
				continue;
			struct fsdp_span full = { (unsigned char *)name, size };
			some = matches(selection, pattern, full) ||
			       (front > 0 && size > front &&
				       memcmp(name, selection->prefix, front) == 0 &&
				       matches(selection, pattern,
					       (struct fsdp_span){ full.data + front,
						       size - front }));
			memory_free(name);
		}
	}
	return some;
}

bool selection_widen(struct selection *selection, const struct texts *globs, size_t index,
	const struct fsdp_checkpoint *checkpoint)
{
	static const char *const wider[][2] = { { "**.", "" }, { "**", "**" } };
	const char *glob = globs->items[index];

	if (strpbrk(glob, "*?[!\\") != NULL ||
		matches_some(selection, &selection->names[index], checkpoint))
		return false;
	for (size_t i = 0; i < sizeof wider / sizeof *wider; i++) {
		compile_glob(&selection->wider,
			memory_format("%s%s%s", wider[i][0], glob, wider[i][1]), '.',
			NULL);
		bool found = matches_some(selection, &selection->wider, checkpoint);
		if (found) {
			struct pattern narrow = selection->names[index];

			selection->names[index] = selection->wider;
			selection->wider = narrow;
		}
		pcre2_code_free(selection->wider.code);
		selection->wider.code = NULL;
		if (found)
			return true;
	}
	return false;
}

void selection_resolve(
	struct selection *selection, const struct fsdp_checkpoint *checkpoint)
{
	/* Files may store names in a container, "model.fc.weight", which a sharding plan
	 * does not have: "fc.weight". The container with its last dot, from the first
	 * parameter that has one; empty without a plan or if the names are the same. */
	struct fsdp_plan_facts plan;

	selection->prefix = NULL;
	selection->prefix_size = 0;
	if (fsdp_sum_count(checkpoint) != 0 || !fsdp_checkpoint_plan(checkpoint, &plan))
		return;
	size_t count = fsdp_tensor_count(checkpoint);
	for (uint32_t i = 0; i < count && selection->prefix == NULL; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		size_t stored_size, module_size, front;
		char *stored, *module;

		if (tensor.role != FSDP_ROLE_PARAM || tensor.module == FSDP_NONE)
			continue;
		stored = name_new(checkpoint, tensor.name, &stored_size);
		module = name_new(checkpoint, fsdp_module(checkpoint, tensor.module).name,
			&module_size);
		front = front_of(stored, stored_size, module, module_size);
		memory_free(module);
		if (front != SIZE_MAX) {
			selection->prefix = stored;
			selection->prefix_size = front;
		} else {
			memory_free(stored);
		}
	}
}

struct fsdp_span selection_prefix(const struct selection *selection)
{
	return (struct fsdp_span){ (const unsigned char *)selection->prefix,
		selection->prefix_size };
}

/* ---- asking ---- */

bool selection_is_by_name(const struct selection *selection)
{
	return selection->dtypes == NULL && !selection->has_roles &&
	       selection->rank_count == 0 && selection->file_count == 0 &&
	       selection->min_bytes == 0 && selection->max_bytes == UINT64_MAX;
}

bool select_reaches(const struct select_options *options, struct fsdp_span name)
{
	int64_t segments = 1;

	if (options->depth < 0)
		return true;
	for (size_t i = 0; i < name.size; i++)
		segments += name.data[i] == '.';
	return segments <= options->depth;
}

bool selection_is_all(const struct selection *selection)
{
	return selection->name_count == 0 && selection_is_by_name(selection);
}

bool selection_gave_up(const struct selection *selection)
{
	if (selection->out_of_memory)
		memory_fail();
	return selection->gave_up;
}

/* Of two names of one object (the second one may be absent): a match of either selects
 * it, and an exclusion of either excludes it. */
static bool takes_either(struct selection *selection, struct fsdp_span name,
	bool has_other, struct fsdp_span other)
{
	bool taken = !selection->has_include;

	FOR_EACH(i, selection->name_count, pattern, &selection->names[i]) {
		if (!pattern->exclude && taken)
			continue;
		if (!matches(selection, pattern, name) &&
			(!has_other || !matches(selection, pattern, other)))
			continue;
		if (pattern->exclude)
			return false;
		taken = true;
	}
	return taken;
}

bool selection_takes_name(struct selection *selection, struct fsdp_span name)
{
	size_t size = selection->prefix_size;
	bool has_other = size > 0 && name.size > size &&
			 memcmp(name.data, selection->prefix, size) == 0;
	struct fsdp_span other = { NULL, 0 };

	if (has_other)
		other = (struct fsdp_span){ name.data + size, name.size - size };
	return takes_either(selection, name, has_other, other);
}

bool selection_takes_module(struct selection *selection, struct fsdp_span name)
{
	size_t prefix = selection->prefix_size, size = prefix + name.size;
	struct fsdp_span other = { NULL, 0 };

	if (prefix == 0 || selection->name_count == 0)
		return takes_either(selection, name, false, other);
	if (size > selection->longer_room) {
		selection->longer_room = 2 * size;
		selection->longer =
			memory_resize(selection->longer, selection->longer_room, 1);
	}
	memcpy(selection->longer, selection->prefix, prefix);
	if (name.size > 0)
		memcpy(selection->longer + prefix, name.data, name.size);
	/* The root is what the names are in. */
	other = (struct fsdp_span){ (const unsigned char *)selection->longer,
		name.size > 0 ? size : size - 1 };
	return takes_either(selection, name, true, other);
}

static bool takes_rank(const struct selection *selection, uint32_t rank)
{
	for (size_t i = 0; i < selection->rank_count; i++)
		if (rank >= selection->ranks[i].first && rank <= selection->ranks[i].last)
			return true;
	return selection->rank_count == 0;
}

bool selection_takes_file(struct selection *selection, struct fsdp_span path)
{
	bool taken = true;

	for (size_t i = 0; i < selection->file_count; i++)
		if (!selection->files[i].exclude)
			taken = false;
	for (size_t i = 0; i < selection->file_count; i++) {
		if (!matches(selection, &selection->files[i], path))
			continue;
		if (selection->files[i].exclude)
			return false;
		taken = true;
	}
	return taken;
}

bool selection_takes_piece(struct selection *selection,
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_piece *piece)
{
	struct fsdp_span path = { NULL, 0 };

	if (!takes_rank(selection, piece->rank))
		return false;
	if (selection->file_count == 0)
		return true;
	if (piece->file != FSDP_NONE)
		path = fsdp_file(checkpoint, piece->file).path;
	return path.data != NULL && selection_takes_file(selection, path);
}

static bool takes_some_piece(struct selection *selection,
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_tensor *tensor)
{
	FOR_EACH(i, tensor->piece_count, piece,
		fsdp_piece(checkpoint, tensor->first_piece + i))
		if (selection_takes_piece(selection, checkpoint, &piece))
			return true;
	return false;
}

bool selection_takes_tensor(struct selection *selection,
	const struct fsdp_checkpoint *checkpoint, uint32_t tensor, struct fsdp_span name)
{
	struct fsdp_tensor facts = fsdp_tensor(checkpoint, tensor);

	if (facts.bytes < selection->min_bytes || facts.bytes > selection->max_bytes)
		return false;
	if (selection->has_roles && !selection->roles[facts.role])
		return false;
	if (selection->dtypes != NULL &&
		(facts.dtype >= fsdp_dtype_count() || !selection->dtypes[facts.dtype]))
		return false;
	if (!selection_takes_name(selection, name))
		return false;
	return (selection->rank_count == 0 && selection->file_count == 0) ||
	       takes_some_piece(selection, checkpoint, &facts);
}

/* ---- ranks in paths ---- */

struct rank_pattern {
	pcre2_code *code;
	pcre2_match_context *limits;
};

static void release_rank_pattern(void *object)
{
	struct rank_pattern *pattern = object;

	pcre2_code_free(pattern->code);
	pcre2_match_context_free(pattern->limits);
}

void *rank_pattern_new(const char *expression)
{
	struct rank_pattern *pattern = memory_new(1, sizeof *pattern);
	int error;
	PCRE2_SIZE offset;

	memory_owns(pattern, release_rank_pattern);
	pattern->code = pcre2_compile(
		(PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED, 0, &error, &offset, NULL);
	pattern->limits = pcre2_match_context_create(NULL);
	if (pattern->limits == NULL)
		memory_fail();
	if (pattern->code == NULL)
		return NULL;
	pcre2_set_match_limit(pattern->limits, MATCH_LIMIT);
	pcre2_set_heap_limit(pattern->limits, HEAP_LIMIT_KIB);
	return pattern;
}

int64_t rank_pattern_find(void *context, const char *path)
{
	const struct rank_pattern *pattern = context;
	pcre2_match_data *match = pcre2_match_data_create(2, NULL);
	int64_t rank = INT64_MIN;
	char digits[16];

	if (match == NULL)
		return rank;
	int groups = pcre2_match(pattern->code, (PCRE2_SPTR)path, strlen(path), 0, 0,
		match, pattern->limits);
	if (groups >= 0) {
		const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(match);
		size_t group = groups == 1 ? 0 : 1;
		size_t size = ends[2 * group + 1] - ends[2 * group];

		if (ends[2 * group] != PCRE2_UNSET && size < sizeof digits) {
			memcpy(digits, path + ends[2 * group], size);
			digits[size] = '\0';
			if (!option_integer(digits, 0, INT32_MAX, &rank))
				rank = INT64_MIN;
		}
	}
	pcre2_match_data_free(match);
	return rank;
}
