/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads universal_checkpoint_info, and as much of Python's regular expressions as models
 * write there.
 *
 *	tp_replicated_parameter_patterns          every rank has all of it
 *	parameter_to_average_patterns             the mean of the ranks counts
 *	parameter_with_2_sub_params_cat_dim_0     two halves, each cut along dimension 0
 *	parameter_with_row_parallelism_patterns   cut along dimension 1
 *	pipeline_replicated_parameter_patterns    every stage has it
 *	vocabulary_parameter_patterns             cut along dimension 0, and padded
 *	parameter_with_sub_params                 of several shapes: not understood
 *	universal_checkpoint_version, original_vocab_size, …   numbers, shown as they are
 *
 * The first line that takes a name decides, of the first four. A pattern has to match
 * from the start of the name, not to its end. It may hold letters, ".", "\d", "\w", an
 * escaped sign, "^", "$", each of them but the last two with "*", "+" or "?" behind. With
 * groups, sets and counts it is not understood, and then nothing is.
 *
 * Origin: deepspeed/checkpoint/{constants,ds_to_universal}.py (0.19.8).
 */
#include "format/deepspeed/slicing.h"

enum { ATOMS_MAX = 256, WORDS = ATOMS_MAX / 64 + 1 };

/* Steps of matching in all; models need some millions. */
#define WORK_MAX (UINT64_C(1) << 30)

enum pattern_kind {
	KIND_COPY,
	KIND_MEAN,
	KIND_HALVES,
	KIND_COLUMNS,
	KIND_STAGES,
	KIND_NONE
};

static const struct {
	const char *key;
	enum pattern_kind kind;
} keys[] = {
	{ "tp_replicated_parameter_patterns", KIND_COPY },
	{ "parameter_to_average_patterns", KIND_MEAN },
	{ "parameter_with_2_sub_params_cat_dim_0", KIND_HALVES },
	{ "parameter_with_row_parallelism_patterns", KIND_COLUMNS },
	{ "pipeline_replicated_parameter_patterns", KIND_STAGES },
	{ "vocabulary_parameter_patterns", KIND_NONE },
};

/* ---- patterns ---- */

/* One sign of a pattern, and how often it may come. */
struct atom {
	unsigned char sign;
	char class; /* 'c' the sign itself, '.' any, 'd' a digit, 'w' of a word */
	bool may_lack, may_repeat;
};

struct pattern {
	struct atom atoms[ATOMS_MAX];
	size_t count;
	bool to_end;
};

static bool take_escape(unsigned char sign, struct atom *atom)
{
	bool letter = (sign >= 'a' && sign <= 'z') || (sign >= 'A' && sign <= 'Z') ||
		      fsdp_is_digit(sign);
	atom->sign = sign;
	atom->class = sign == 'd' || sign == 'w' ? (char)sign : 'c';
	return !letter || atom->class != 'c';
}

/* False: it holds what is not understood. */
static bool parse(struct fsdp_span text, struct pattern *pattern)
{
	size_t at = text.size != 0 && text.data[0] == '^';
	pattern->count = 0;
	pattern->to_end = false;
	while (at < text.size) {
		unsigned char sign = text.data[at++];
		struct atom atom = { .sign = sign, .class = 'c' };
		if (sign == '$' && at == text.size) {
			pattern->to_end = true;
			return true;
		}
		if (pattern->count == ATOMS_MAX ||
			memchr("^$()[]{}|*+?", sign, 12) != NULL ||
			(sign == '\\' && (at == text.size ||
						 !take_escape(text.data[at++], &atom))))
			return false;
		if (sign == '.')
			atom.class = '.';
		unsigned char next = at < text.size ? text.data[at] : 0;
		atom.may_lack = next == '*' || next == '?';
		atom.may_repeat = next == '*' || next == '+';
		at += atom.may_lack || atom.may_repeat;
		/* Twice, as in ".*?", changes nothing in whether it matches. */
		at += (atom.may_lack || atom.may_repeat) && at < text.size &&
		      text.data[at] == '?';
		pattern->atoms[pattern->count++] = atom;
	}
	return true;
}

static bool takes(const struct atom *atom, unsigned char sign)
{
	switch (atom->class) {
	case '.':
		return sign != '\n';
	case 'd':
		return fsdp_is_digit(sign);
	case 'w':
		return fsdp_is_digit(sign) || sign == '_' ||
		       (sign >= 'a' && sign <= 'z') || (sign >= 'A' && sign <= 'Z');
	default:
		return sign == atom->sign;
	}
}

/* Sets of places in a pattern. */
static bool has(const uint64_t *set, size_t place)
{
	return (set[place / 64] >> place % 64 & 1) != 0;
}

/* The place, and those that follow if nothing more comes. Behind one that is in the set
 * they are in it too, so a step of the name takes no longer than the pattern is. */
static void add(const struct pattern *pattern, uint64_t *set, size_t place)
{
	while (!has(set, place)) {
		set[place / 64] |= UINT64_C(1) << place % 64;
		if (place == pattern->count || !pattern->atoms[place].may_lack)
			return;
		place++;
	}
}

/* All places at once, so that no pattern takes longer than its length times the name's.
 */
static bool matches(const struct pattern *pattern, struct fsdp_span name, uint64_t *work)
{
	uint64_t now[WORDS] = { 0 };
	add(pattern, now, 0);
	for (size_t i = 0; i < name.size; i++) {
		uint64_t then[WORDS] = { 0 };
		if (has(now, pattern->count) && !pattern->to_end)
			return true;
		for (size_t k = 0; k < pattern->count; k++) {
			if (!has(now, k) || !takes(&pattern->atoms[k], name.data[i]))
				continue;
			add(pattern, then, k + 1);
			if (pattern->atoms[k].may_repeat)
				add(pattern, then, k);
		}
		*work += pattern->count + 1;
		memcpy(now, then, sizeof now);
	}
	return has(now, pattern->count);
}

/* ---- what is reported ---- */

void fsdp_slicing_take(struct fsdp_slicing *slicing, struct fsdp_span name,
	const struct fsdp_value_record *value)
{
	struct fsdp_span key = fsdp_span_first(name, '.');
	struct pattern pattern;
	/* An empty list is a value of its own, under the key itself. */
	if (fsdp_span_is(key, "parameter_with_sub_params") && key.size != name.size)
		slicing->unread = key;
	slicing->told |= slicing->unread.data != NULL;
	for (size_t i = 0; i < FSDP_COUNT(keys); i++) {
		if (!fsdp_span_is(key, keys[i].key) || key.size == name.size)
			continue;
		slicing->told = true;
		if (value->token_count != 1 || value->tokens->kind != FSDP_TOKEN_TEXT ||
			slicing->count == FSDP_SLICING_PATTERNS ||
			!parse(value->tokens->text, &pattern))
			slicing->unread =
				value->token_count == 1 &&
						value->tokens->kind == FSDP_TOKEN_TEXT
					? value->tokens->text
					: key;
		else
			slicing->patterns[slicing->count++] =
				(struct fsdp_slicing_pattern){
					.text = value->tokens->text,
					.kind = (uint8_t)keys[i].kind,
				};
	}
}

enum fsdp_cut fsdp_slicing_of(
	struct fsdp_slicing *slicing, struct fsdp_span fqn, bool *ret_everywhere)
{
	static const enum fsdp_cut cuts[] = {
		[KIND_COPY] = FSDP_CUT_COPY,
		[KIND_MEAN] = FSDP_CUT_MEAN,
		[KIND_HALVES] = FSDP_CUT_HALVES,
		[KIND_COLUMNS] = FSDP_CUT_COLUMNS,
		[KIND_STAGES] = FSDP_CUT_ROWS,
		[KIND_NONE] = FSDP_CUT_ROWS,
	};
	enum pattern_kind first = KIND_NONE;
	struct pattern pattern;
	*ret_everywhere = false;
	if (!slicing->told || slicing->unread.data != NULL)
		return FSDP_CUT_UNKNOWN;
	for (size_t i = 0; i < slicing->count; i++) {
		enum pattern_kind kind = slicing->patterns[i].kind;
		if (kind == KIND_NONE || (kind >= first && kind != KIND_STAGES))
			continue;
		if (slicing->work > WORK_MAX)
			return FSDP_CUT_UNKNOWN;
		if (!parse(slicing->patterns[i].text, &pattern) ||
			!matches(&pattern, fqn, &slicing->work))
			continue;
		*ret_everywhere |= kind == KIND_STAGES;
		if (kind < first)
			first = kind;
	}
	return cuts[first];
}
