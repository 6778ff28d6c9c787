/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers in names of files and directories: patterns, and the step of training.
 */
#include <stdio.h>

#include "base/num.h"
#include "formats/format.h"

/* ---- patterns ---- */

bool fsdp_pattern_takes(struct fsdp_span name, const char *pattern, uint32_t *ret_numbers)
{
	size_t at = 0, count = 0;
	for (; *pattern != '\0'; pattern++) {
		size_t begin = at;
		uint32_t number = 0;
		if (*pattern != '#') {
			if (at == name.size || name.data[at++] != (unsigned char)*pattern)
				return false;
			continue;
		}
		while (at < name.size && fsdp_is_digit(name.data[at]) &&
			number < FSDP_PATTERN_MAX)
			number = number * 10 + (name.data[at++] - '0');
		if (at == begin || number >= FSDP_PATTERN_MAX)
			return false;
		ret_numbers[count++] = number;
	}
	return at == name.size;
}

bool fsdp_pattern_in(
	const struct fsdp_folder *folder, enum fsdp_entry_kind kind, const char *pattern)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	FSDP_EACH(i, folder->count, entry, fsdp_folder_entry(folder, i))
		if (entry.kind == kind &&
			fsdp_pattern_takes(entry.name, pattern, numbers))
			return true;
	return false;
}

struct fsdp_span fsdp_find_download(
	const struct fsdp_folder *folder, struct fsdp_span name, bool *ret_is_whole)
{
	static const char *const ends[] = { "incomplete", "crdownload", "part", "partial",
		"download", "aria2" };
	enum { COPIES = 9 };
	struct fsdp_span end = fsdp_span_last(name, '.');
	char text[FSDP_WORD_MAX];
	struct fsdp_entry entry;

	for (unsigned i = 1; i <= COPIES + FSDP_COUNT(ends) && end.size < name.size;
		i++) {
		*ret_is_whole = i <= COPIES;
		if (*ret_is_whole)
			snprintf(text, sizeof text, "%.*s (%u).%.*s",
				(int)fsdp_min(name.size - end.size - 1, sizeof text),
				name.data, i, FSDP_TEXT(end));
		else
			snprintf(text, sizeof text, "%.*s.%s", FSDP_TEXT(name),
				ends[i - COPIES - 1]);
		if (fsdp_folder_find(folder, fsdp_span_text(text), &entry))
			return entry.name;
	}
	return (struct fsdp_span){ 0 };
}

bool fsdp_report_missing(struct fsdp_findings *findings, const struct fsdp_folder *folder,
	struct fsdp_place_of place, bool is_link, const char *list)
{
	bool is_whole = false;
	struct fsdp_span like = fsdp_find_download(folder, place.file, &is_whole);
	char fix[FSDP_WORD_MAX];
	snprintf(fix, sizeof fix,
		is_whole ? "rename '%.*s' to %.*s, if it belongs to this save"
			 : "copy or download it again",
		FSDP_TEXT_MOST(like, 100), FSDP_TEXT_MOST(place.file, 100));
	place.fix = like.size > 0 ? fix : is_link ? FSDP_LINK_FIX : NULL;
	fsdp_find(findings, FSDP_RULE_MISSING_FILE, &place,
		is_link          ? "missing file (listed in %s): dangling link"
		: like.size == 0 ? "missing file (listed in %s)"
		: is_whole       ? "missing file (listed in %s): '%.*s' is present"
			   : "missing file (listed in %s): '%.*s' is an unfinished copy",
		list, FSDP_TEXT_MOST(like, 100));
	return like.size > 0 && is_whole;
}

/* Whether a path begins with a word for optimizers, and "state" follows; one of several
 * optimizers has a number before it. */
static bool leads_to_state(struct fsdp_span path)
{
	static const char *const words[] = { "optim", "optimizer", "optimizers",
		"optimizer_state", "optimizer_states" };
	struct fsdp_span segment = fsdp_span_first(path, '.');
	bool is_word = false;
	for (size_t i = 0; i < FSDP_COUNT(words); i++)
		is_word |= fsdp_span_is(segment, words[i]);
	while (is_word && segment.size != path.size) {
		path = fsdp_span(
			path.data + segment.size + 1, path.size - segment.size - 1);
		segment = fsdp_span_first(path, '.');
		if (segment.size == 0 || !fsdp_is_digit(segment.data[0]))
			return fsdp_span_is(segment, "state");
	}
	return false;
}

bool fsdp_path_is_of_optimizer(struct fsdp_span path)
{
	const unsigned char *dot;
	if (fsdp_span_begins(path, FSDP_SPAN("optim")))
		return true;
	while (path.size != 0 && (dot = memchr(path.data, '.', path.size)) != NULL) {
		size_t skip = (size_t)(dot - path.data) + 1;
		path = fsdp_span(path.data + skip, path.size - skip);
		if (path.size != 0 && path.data[0] == 'o' && leads_to_state(path))
			return true;
	}
	return false;
}

/* ---- the step in a name ---- */

/*
 * Reads the step of training out of the name of a directory or file, as programs write
 * it:
 *
 *	step-N  stepN  global_stepN  iter_NNNNNNN  batch-N  epNbaM
 *	checkpoint-N  ckpt-N  checkpoint_EPOCH_STEP  model_NNNNNNN
 *	epoch=N-step=M  epoch_N  checkpointEPOCH
 *
 * A number counts if such a word is before it; words further away do not count.
 */

enum { DIGITS_MOST = 18, WORD_MOST = 16, DETECTRON_DIGITS = 7 };

/* How sure a word is that its number is the step. */
enum meaning { NOTHING, EPOCH, WEAK, STEP };

static const struct {
	const char *word;
	enum meaning meaning;
} words[] = {
	{ "step", STEP },
	{ "steps", STEP },
	{ "globalstep", STEP },
	{ "iter", STEP },
	{ "iters", STEP },
	{ "iteration", STEP },
	{ "batch", STEP },
	{ "ba", STEP },
	{ "update", STEP },
	{ "updates", STEP },
	{ "checkpoint", WEAK },
	{ "ckpt", WEAK },
	{ "chkpt", WEAK },
	{ "epoch", EPOCH },
	{ "ep", EPOCH },
};

/* Of the word that ends where the number begins, or one separator before. */
static enum meaning meaning_at(struct fsdp_span name, size_t number)
{
	char word[WORD_MOST];
	size_t end = number, begin;
	if (end > 0 && memchr("-_=.", name.data[end - 1], 4) != NULL)
		end--;
	begin = end;
	while (begin > 0 && (name.data[begin - 1] | 0x20) >= 'a' &&
		(name.data[begin - 1] | 0x20) <= 'z')
		begin--;
	if (begin == end || end - begin >= sizeof word)
		return NOTHING;
	for (size_t i = begin; i < end; i++)
		word[i - begin] = (char)(name.data[i] | 0x20);
	word[end - begin] = '\0';
	/* Detectron2 writes seven digits after `model_`; other numbers there are those
	 * of shards. fairseq's checkpoint2.pt is the second epoch. */
	bool joined = end == number;
	struct fsdp_span rest = fsdp_span(name.data + number, name.size - number);
	size_t digits = 0;
	while (digits < rest.size && fsdp_is_digit(rest.data[digits]))
		digits++;
	if (strcmp(word, "model") == 0)
		return digits == DETECTRON_DIGITS ? WEAK : NOTHING;
	if (joined && strcmp(word, "checkpoint") == 0 && digits < rest.size &&
		rest.data[digits] == '.')
		return EPOCH;
	for (size_t i = 0; i < FSDP_COUNT(words); i++)
		if (strcmp(words[i].word, word) == 0)
			return words[i].meaning;
	return NOTHING;
}

/* The number that begins here; -1: it has too many digits. */
static int64_t number_at(struct fsdp_span name, size_t *at)
{
	int64_t number = 0;
	size_t begin = *at;
	for (; *at < name.size && fsdp_is_digit(name.data[*at]); ++*at)
		if (*at - begin < DIGITS_MOST)
			number = number * 10 + (name.data[*at] - '0');
	return *at - begin <= DIGITS_MOST ? number : -1;
}

static bool is_unfinished(struct fsdp_span name)
{
	return fsdp_span_ends_any(
		       name, ".tmp -tmp _tmp .incomplete .partial .part -unfinished") ||
	       (name.size > 4 && memcmp(name.data, "tmp", 3) == 0 &&
		       memchr("-_.", name.data[3], 3) != NULL);
}

bool fsdp_step_name(struct fsdp_span name, struct fsdp_step_name *ret_step)
{
	struct fsdp_step_name step = { .step = -1, .epoch = -1 };
	enum meaning best = NOTHING;
	for (size_t i = 0; i < name.size; i++) {
		if (!fsdp_is_digit(name.data[i]))
			continue;
		size_t begin = i;
		enum meaning meaning = meaning_at(name, begin);
		int64_t number = number_at(name, &i);
		if (number < 0)
			continue;
		/* checkpoint_EPOCH_STEP: a second number right after the first. */
		if (meaning == NOTHING && best == WEAK && begin >= 2 &&
			name.data[begin - 1] == '_' &&
			fsdp_is_digit(name.data[begin - 2])) {
			step.epoch = step.step;
			step.step = number;
			best = STEP;
		} else if (meaning == EPOCH) {
			step.epoch = number;
		} else if (meaning > best) {
			step.step = number;
			best = meaning;
		}
	}
	step.is_unfinished = is_unfinished(name);
	*ret_step = step;
	return step.step >= 0 || step.epoch >= 0;
}
