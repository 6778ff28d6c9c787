/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folds many names into one pattern, finds similar names, and reports names that match
 * nothing.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "shared/shown-names.h"
#include "shared/tensor-row.h"
#include "session/diagnostics.h"
#include "session/session.h"

/* ---- Seeds hashes and mixes texts into them ---- */

struct mixer mixer_new(void)
{
	struct mixer mixer = { 0, 0x9e3779b97f4a7c15u };

	/* Where the system has no random numbers at hand, only speed is at stake. */
	if (getrandom(&mixer, sizeof mixer, GRND_NONBLOCK) < 0)
		mixer.seed = (uint64_t)(uintptr_t)&mixer;
	mixer.factor |= (uint64_t)1 << 63 | 1;
	return mixer;
}

uint64_t mix_text(const struct mixer *mixer, uint64_t hash, struct text text)
{
	uint64_t word;

	hash = mix(mixer, hash, text.size);
	for (; text.size >= sizeof word;
		text.data += sizeof word, text.size -= sizeof word) {
		memcpy(&word, text.data, sizeof word);
		hash = mix(mixer, hash, word);
	}
	word = 0;
	if (text.size > 0)
		memcpy(&word, text.data, text.size);
	return mix(mixer, hash, word);
}

/*
 * Writes many names as one. Which names are alike in everything else is the caller's to
 * say.
 */

enum {
	DIGITS_MAX = 9,    /* of a number that may be in a range */
	POSITIONS_MAX = 8, /* numbers in one name */
};

/* 007 is not a number here: written as one it would be another name. */
static bool parse_number(struct text text, uint64_t *ret_number)
{
	uint64_t number = 0;

	if (text.size == 0 || text.size > DIGITS_MAX ||
		(text.data[0] == '0' && text.size > 1))
		return false;
	for (size_t i = 0; i < text.size; i++) {
		if (!is_digit(text.data[i]))
			return false;
		number = number * 10 + (uint64_t)(text.data[i] - '0');
	}
	*ret_number = number;
	return true;
}

/* ---- siblings ---- */

void join_begin(struct join *join, struct text name)
{
	join->first_size = 0;
	name_buffer_append(&join->first, &join->first_size, name);
	join->braces_size = 0;
	join->members = 1;
	join->parts = 0;
}

static struct text first_of(const struct join *join)
{
	return (struct text){ join->first.data, join->first_size };
}

static size_t common_front(struct text a, struct text b)
{
	size_t size = 0;
	while (size < a.size && size < b.size && a.data[size] == b.data[size])
		size++;
	return size;
}

static size_t common_back(struct text a, struct text b, size_t front)
{
	size_t size = 0;
	while (size < a.size - front && size < b.size - front &&
		a.data[a.size - size - 1] == b.data[b.size - size - 1])
		size++;
	return size;
}

static struct text middle(struct text name, size_t front, size_t back)
{
	return (struct text){ name.data + front, name.size - front - back };
}

static bool is_plain_word(struct text word)
{
	for (size_t i = 0; i < word.size; i++)
		if (memchr(".{},", word.data[i], 4) != NULL)
			return false;
	return word.size > 0;
}

/* Two names that differ in one number: its position. */
static bool find_numbers(struct join *join, struct text a, struct text b)
{
	size_t front = common_front(a, b), back = common_back(a, b, front);
	uint64_t number;

	while (front > 0 && is_digit(a.data[front - 1]))
		front--;
	while (back > 0 && is_digit(a.data[a.size - back]))
		back--;
	if (!parse_number(middle(a, front, back), &number) ||
		!parse_number(middle(b, front, back), &join->last_number))
		return false;
	join->last_number = join->range_start = number;
	join->prefix = front;
	join->suffix = back;
	join->numbers = true;
	return true;
}

/* Two names that differ in one word between underscores: its position. */
static bool find_words(struct join *join, struct text a, struct text b)
{
	size_t front = common_front(a, b), back = common_back(a, b, front);

	while (front > 0 && a.data[front - 1] != '_')
		front--;
	while (back > 0 && a.data[a.size - back] != '_')
		back--;
	if (!is_plain_word(middle(a, front, back)) ||
		!is_plain_word(middle(b, front, back)))
		return false;
	join->prefix = front;
	join->suffix = back;
	join->numbers = false;
	return true;
}

static void add_part(struct join *join, struct text part)
{
	if (join->parts > 0)
		name_buffer_append(&join->braces, &join->braces_size, text_of(","));
	join->last_part = join->braces_size;
	name_buffer_append(&join->braces, &join->braces_size, part);
	join->parts++;
}

static bool add_number(struct join *join, struct text part)
{
	uint64_t number;
	char range[48];

	if (!parse_number(part, &number))
		return false;
	if (number == join->last_number + 1) {
		snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, join->range_start,
			number);
		join->braces_size = join->last_part;
		name_buffer_append(&join->braces, &join->braces_size, text_of(range));
		join->last_number = number;
		return true;
	}
	if (join->parts == JOIN_MAX)
		return false;
	add_part(join, part);
	join->last_number = join->range_start = number;
	return true;
}

static bool fits(const struct join *join, struct text name)
{
	struct text first = first_of(join);

	return name.size > join->prefix + join->suffix &&
	       memcmp(name.data, first.data, join->prefix) == 0 &&
	       memcmp(name.data + name.size - join->suffix,
		       first.data + first.size - join->suffix, join->suffix) == 0;
}

bool join_add(struct join *join, struct text name)
{
	struct text first = first_of(join), part;

	if (join->members == 1) {
		if (text_is(first, name) || (!find_numbers(join, first, name) &&
						    !find_words(join, first, name)))
			return false;
		join->parts = 0;
		join->braces_size = 0;
		add_part(join, middle(first, join->prefix, join->suffix));
	} else if (!fits(join, name)) {
		return false;
	}
	part = middle(name, join->prefix, join->suffix);
	if (join->numbers) {
		if (!add_number(join, part))
			return false;
	} else {
		if (!is_plain_word(part) || join->parts == JOIN_MAX)
			return false;
		add_part(join, part);
	}
	join->members++;
	return true;
}

void join_write(const struct join *join, struct name_buffer *buffer, size_t *length)
{
	struct text first = first_of(join);

	if (join->members == 1) {
		name_buffer_append(buffer, length, first);
		return;
	}
	name_buffer_append(buffer, length, (struct text){ first.data, join->prefix });
	name_buffer_append(buffer, length, text_of("{"));
	name_buffer_append(
		buffer, length, (struct text){ join->braces.data, join->braces_size });
	name_buffer_append(buffer, length, text_of("}"));
	name_buffer_append(buffer, length,
		(struct text){ first.data + first.size - join->suffix, join->suffix });
}

/* ---- tensors of a list ---- */

struct fold_entry {
	uint64_t hash;
	struct folded sums;
	uint32_t positions;
	uint32_t low[POSITIONS_MAX], high[POSITIONS_MAX];
};

struct folding {
	const struct run *run;
	struct mixer mixer;
	struct fold_entry *entries;
	size_t count, size;
	uint32_t *slots; /* open addressing; FSDP_NONE: free */
	size_t slot_mask;
	struct name_buffer name, other;
};

/* A name as its segments: text, or a number. */
struct segments {
	struct text rest;
	bool done;
};

static bool next_segment(struct segments *segments, struct text *ret, bool *ret_number,
	uint64_t *ret_value)
{
	if (segments->done)
		return false;
	const char *dot = segments->rest.size > 0
				  ? memchr(segments->rest.data, '.', segments->rest.size)
				  : NULL;
	ret->data = segments->rest.data;
	ret->size =
		dot != NULL ? (size_t)(dot - segments->rest.data) : segments->rest.size;
	segments->done = dot == NULL;
	if (dot != NULL) {
		segments->rest.data += ret->size + 1;
		segments->rest.size -= ret->size + 1;
	}
	*ret_number = parse_number(*ret, ret_value);
	return true;
}

/* Hash of what members have in common, and the numbers in the name. */
static uint64_t describe(const struct mixer *mixer, struct text name,
	const struct fsdp_tensor *tensor, uint32_t *numbers, uint32_t *ret_positions)
{
	struct segments segments = { name, false };
	struct text segment;
	uint64_t hash = mix(mixer, tensor->dtype, tensor->role), number;
	uint32_t positions = 0;
	bool is_number;

	for (uint32_t i = 0; i < tensor->dims; i++)
		hash = mix(mixer, hash, (uint64_t)tensor->shape[i]);
	while (next_segment(&segments, &segment, &is_number, &number)) {
		if (is_number && positions < POSITIONS_MAX) {
			numbers[positions++] = (uint32_t)number;
			hash = mix(mixer, hash, UINT64_MAX);
		} else {
			hash = mix_text(mixer, hash, segment);
		}
	}
	*ret_positions = positions;
	return hash;
}

static bool same_pattern(struct text a, struct text b)
{
	struct segments left = { a, false }, right = { b, false };
	struct text one, two;
	uint64_t number;
	uint32_t positions = 0;
	bool is_one, is_two;

	while (next_segment(&left, &one, &is_one, &number)) {
		if (!next_segment(&right, &two, &is_two, &number))
			return false;
		if (is_one && is_two && positions < POSITIONS_MAX)
			positions++;
		else if (!text_is(one, two))
			return false;
	}
	return right.done;
}

static bool belongs(struct folding *folding, const struct fold_entry *entry,
	struct text name, const struct fsdp_tensor *tensor)
{
	struct fsdp_tensor first =
		fsdp_tensor(folding->run->checkpoint, entry->sums.first);

	return first.dtype == tensor->dtype && first.role == tensor->role &&
	       first.dims == tensor->dims &&
	       (first.dims == 0 || memcmp(first.shape, tensor->shape,
					   first.dims * sizeof *first.shape) == 0) &&
	       same_pattern(
		       tensor_shown_name(folding->run, &folding->other, &first), name);
}

static struct fold_entry *find_entry(struct folding *folding, struct text name,
	const struct fsdp_tensor *tensor, uint64_t hash, size_t *ret_slot)
{
	size_t slot = (size_t)hash & folding->slot_mask;

	for (; folding->slots[slot] != FSDP_NONE;
		slot = (slot + 1) & folding->slot_mask) {
		struct fold_entry *entry = &folding->entries[folding->slots[slot]];
		if (entry->hash == hash && belongs(folding, entry, name, tensor))
			return entry;
	}
	*ret_slot = slot;
	return NULL;
}

static void add_tensor(struct folding *folding, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(folding->run->checkpoint, index);
	struct text name = tensor_shown_name(folding->run, &folding->name, &tensor);
	uint32_t numbers[POSITIONS_MAX], positions;
	uint64_t hash = describe(&folding->mixer, name, &tensor, numbers, &positions);
	size_t slot = 0;
	struct fold_entry *entry = find_entry(folding, name, &tensor, hash, &slot);

	if (entry == NULL) {
		folding->slots[slot] = (uint32_t)folding->count;
		entry = &folding->entries[folding->count++];
		*entry = (struct fold_entry){ .hash = hash, .positions = positions };
		entry->sums.first = index;
		memcpy(entry->low, numbers, sizeof numbers[0] * positions);
		memcpy(entry->high, numbers, sizeof numbers[0] * positions);
	}
	for (uint32_t i = 0; i < positions; i++) {
		if (numbers[i] < entry->low[i])
			entry->low[i] = numbers[i];
		if (numbers[i] > entry->high[i])
			entry->high[i] = numbers[i];
	}
	entry->sums.count++;
	entry->sums.pieces += tensor.piece_count;
	entry->sums.numel += tensor.numel;
	entry->sums.bytes += tensor.bytes;
}

struct folding *folding_new(struct run *run, const uint32_t *tensors, size_t count)
{
	struct folding *folding = run_memory(run, 1, sizeof *folding);
	size_t slots = 64;

	while (slots < count * 2)
		slots *= 2;
	folding->run = run;
	folding->mixer = mixer_new();
	folding->slot_mask = slots - 1;
	folding->slots = run_memory(run, slots, sizeof *folding->slots);
	folding->entries = run_memory(run, count, sizeof *folding->entries);
	memset(folding->slots, 0xff, slots * sizeof *folding->slots);
	for (size_t i = 0; i < count; i++)
		add_tensor(folding, tensors[i]);
	return folding;
}

size_t folding_count(const struct folding *folding)
{
	return folding->count;
}

struct folded folding_at(const struct folding *folding, size_t index)
{
	return folding->entries[index].sums;
}

/* Whether every combination of numbers between low and high is there: names are
 * different from each other, so counting them is enough. */
static bool is_complete(const struct fold_entry *entry)
{
	uint64_t product = 1;

	for (uint32_t i = 0; i < entry->positions; i++)
		if (__builtin_mul_overflow(product,
			    (uint64_t)entry->high[i] - entry->low[i] + 1, &product))
			return false;
	return product == entry->sums.count;
}

struct text folding_name(struct folding *folding, size_t index)
{
	const struct fold_entry *entry = &folding->entries[index];
	struct fsdp_tensor first =
		fsdp_tensor(folding->run->checkpoint, entry->sums.first);
	struct segments segments = {
		tensor_shown_name(folding->run, &folding->name, &first), false
	};
	bool complete = is_complete(entry), is_number;
	struct text segment;
	uint64_t number;
	uint32_t position = 0;
	size_t length = 0;
	char range[48];

	while (next_segment(&segments, &segment, &is_number, &number)) {
		if (length > 0)
			name_buffer_append(&folding->other, &length, text_of("."));
		if (is_number && position < entry->positions) {
			uint32_t low = entry->low[position], high = entry->high[position];
			position++;
			if (low != high) {
				snprintf(range, sizeof range,
					complete ? "{%" PRIu32 "-%" PRIu32 "}" : "*", low,
					high);
				segment = text_of(range);
			}
		}
		name_buffer_append(&folding->other, &length, segment);
	}
	return (struct text){ folding->other.data, length };
}

/*
 * Finds names that resemble each other: the same end, one within the other, or few
 * changed characters.
 */

enum {
	EDITS_MAX = 4,
	WORD_MAX = 256, /* longer ones are compared by their ends only */
	SCORE_NONE = 1000,
	SCORE_INSIDE = 2, /* between one edit and three */
};

void similar_init(struct similar *similar, struct text word)
{
	*similar = (struct similar){ .word = word };
}

static bool ends_with(struct text text, struct text end)
{
	return end.size < text.size && text.data[text.size - end.size - 1] == '.' &&
	       memcmp(text.data + text.size - end.size, end.data, end.size) == 0;
}

/* Edits within a band of EDITS_MAX around the diagonal: linear in the length. */
static uint32_t edits(struct text a, struct text b)
{
	enum { BAND = 2 * EDITS_MAX + 1 };
	uint32_t row[BAND + 2], least;

	if (a.size > WORD_MAX || b.size > WORD_MAX || a.size > b.size + EDITS_MAX ||
		b.size > a.size + EDITS_MAX)
		return SCORE_NONE;
	/* row[k] is the distance of a's first i and b's first i + k - EDITS_MAX - 1. */
	for (uint32_t k = 0; k < BAND + 2; k++)
		row[k] = k > EDITS_MAX && k <= BAND ? k - EDITS_MAX - 1 : SCORE_NONE;
	for (size_t i = 1; i <= a.size; i++) {
		least = SCORE_NONE;
		for (uint32_t k = 1; k <= BAND; k++) {
			size_t shifted = i + k; /* j = shifted - EDITS_MAX - 1 */
			uint32_t best = SCORE_NONE;
			if (shifted < EDITS_MAX + 1 || shifted - EDITS_MAX - 1 > b.size) {
				row[k] = SCORE_NONE;
				continue;
			}
			if (shifted > EDITS_MAX + 1)
				best = row[k] +
				       (a.data[i - 1] != b.data[shifted - EDITS_MAX - 2]);
			if (row[k + 1] + 1 < best)
				best = row[k + 1] + 1;
			if (row[k - 1] + 1 < best && shifted > EDITS_MAX + 1)
				best = row[k - 1] + 1;
			row[k] = best;
			if (best < least)
				least = best;
		}
		if (least > EDITS_MAX)
			return SCORE_NONE;
	}
	return row[b.size + EDITS_MAX + 1 - a.size];
}

static uint32_t score(struct text word, struct text text)
{
	uint32_t distance, tail_distance;

	if (word.size == 0)
		return SCORE_NONE;
	if (ends_with(text, word) || ends_with(word, text))
		return 0;
	distance = edits(word, text);
	/* The last segments of a text, as many as the word has. */
	size_t dots = 0, begin = text.size;

	for (size_t i = 0; i < word.size; i++)
		dots += word.data[i] == '.';
	while (begin > 0 && (text.data[begin - 1] != '.' || dots-- > 0))
		begin--;
	struct text end = (struct text){ text.data + begin, text.size - begin };
	tail_distance = end.size < text.size ? edits(word, end) + 1 : SCORE_NONE;
	if (tail_distance < distance)
		distance = tail_distance;
	if (distance * 2 > word.size)
		distance = SCORE_NONE;
	if (distance > SCORE_INSIDE && word.size >= 3 && word.size < text.size &&
		memmem(text.data, text.size, word.data, word.size) != NULL)
		return SCORE_INSIDE;
	return distance;
}

void similar_try(struct similar *similar, uint32_t name, struct text text)
{
	uint32_t found = score(similar->word, text);
	size_t place = similar->count;

	if (found > EDITS_MAX)
		return;
	while (place > 0 && similar->best[place - 1].score > found)
		place--;
	if (place == SIMILAR_MAX)
		return;
	if (similar->count < SIMILAR_MAX)
		similar->count++;
	memmove(&similar->best[place + 1], &similar->best[place],
		(similar->count - place - 1) * sizeof similar->best[0]);
	similar->best[place].name = name;
	similar->best[place].score = found;
}

/* ---- Says what was asked for and what there is, where nothing matches ---- */

enum { REQUEST_ROOM = 240, BEGINNINGS = 4, BEGINNING_ROOM = 40 };

static const char *const WORDS_OF[] = { "tensor", "value", "module" };

/* ---- names ---- */

static size_t name_count(const struct run *run, enum nameable of)
{
	switch (of) {
	case NAMEABLE_TENSORS:
		return fsdp_tensor_count(run->checkpoint);
	case NAMEABLE_VALUES:
		return fsdp_value_count(run->checkpoint);
	case NAMEABLE_MODULES:
		break;
	}
	return fsdp_module_count(run->checkpoint);
}

static struct text name_at(
	const struct run *run, struct name_buffer *buffer, enum nameable of, uint32_t i)
{
	struct fsdp_tensor tensor;
	struct fsdp_value value;

	switch (of) {
	case NAMEABLE_TENSORS:
		tensor = fsdp_tensor(run->checkpoint, i);
		return tensor_shown_name(run, buffer, &tensor);
	case NAMEABLE_VALUES:
		value = fsdp_value(run->checkpoint, i);
		return entry_shown_name(run, buffer, &value);
	case NAMEABLE_MODULES:
		break;
	}
	struct fsdp_module module = fsdp_module(run->checkpoint, i);
	return name_text(buffer, run->checkpoint,
		run->common->raw ? module.raw_name : module.name);
}

/* ---- what was asked for ---- */

/* A text that is cut where it is long. */
struct request {
	char text[REQUEST_ROOM];
	size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(
	struct request *request, const char *format, ...)
{
	size_t room = sizeof request->text - request->used;
	va_list arguments;

	va_start(arguments, format);
	int size = vsnprintf(request->text + request->used, room, format, arguments);
	va_end(arguments);
	if (size > 0)
		request->used += (size_t)size < room ? (size_t)size : room - 1;
}

static void add_list(
	struct request *request, const char *option, const struct texts *list)
{
	for (size_t i = 0; i < list->count; i++)
		add(request, "%s%s '%s'", request->used > 0 ? " " : "", option,
			list->items[i]);
}

static void add_words(
	struct request *request, const char *option, const struct texts *list)
{
	for (size_t i = 0; i < list->count; i++)
		add(request, "%s%s%s",
			i > 0               ? ","
			: request->used > 0 ? " "
					    : "",
			i > 0 ? "" : option, list->items[i]);
}

/* ---- what there is ---- */

/* "; names begin with model., optim." Names are in order, so those that begin alike
 * mostly follow each other. */
static void add_beginnings(struct request *request, struct run *run,
	struct name_buffer *buffer, enum nameable of)
{
	char last[BEGINNING_ROOM + 1] = "";
	size_t count = name_count(run, of), found = 0;

	FOR_EACH(i, (uint32_t)count, name, name_at(run, buffer, of, i)) {
		size_t size = 0;
		while (size < name.size && name.data[size] != '.')
			size++;
		if (size == name.size || size >= BEGINNING_ROOM ||
			(strlen(last) == size && memcmp(last, name.data, size) == 0))
			continue;
		memcpy(last, name.data, size);
		last[size] = '\0';
		if (found == BEGINNINGS) {
			add(request, ", ...");
			return;
		}
		add(request, "%s%s.", found++ == 0 ? "; names begin with " : ", ", last);
	}
}

/* ---- what to try ---- */

static bool some_name_matches(
	struct run *run, struct name_buffer *buffer, enum nameable of, const char *glob)
{
	struct select_options options = { .min_bytes = UINT64_MAX,
		.max_bytes = UINT64_MAX,
		.depth = -1,
		.head = -1,
		.globs = { &glob, 1 } };
	size_t count = name_count(run, of);
	jmp_buf end;
	struct usage usage = { .end = &end };
	bool some = false;

	if (setjmp(end) != 0)
		return false;
	struct selection *selection = selection_new(&options, &usage);
	for (uint32_t i = 0; i < count && !some; i++)
		some = selection_takes_name(
			selection, span_of_text(name_at(run, buffer, of, i)));
	return some;
}

/* "; patterns match whole names: try '**.layers.0.**'", if that is all that is missing.
 */
static void add_hint(struct request *request, struct run *run, struct name_buffer *buffer,
	enum nameable of)
{
	const struct texts *globs = &run->select->globs;
	const char *glob = globs->count == 1 ? globs->items[0] : "";
	size_t size = strlen(glob);
	const char *longer;

	if (size == 0 || glob[0] == '!' || strncmp(glob, "**", 2) == 0)
		return;
	longer = memory_format("**.%s%s", glob, glob[size - 1] == '*' ? "" : ".**");
	if (some_name_matches(run, buffer, of, longer))
		add(request, "; patterns match whole names: try '%s'", longer);
}

void print_no_match(struct run *run, enum nameable of)
{
	size_t count = name_count(run, of);
	struct name_buffer buffer = { 0 };
	struct request request = { .used = 0 }, beginnings = { .used = 0 },
		       hint = { .used = 0 };
	struct texts *notes = &run->collected->notes;

	add_list(&request, "-g", &run->select->globs);
	add_list(&request, "-e", &run->select->regexes);
	add_words(&request, "--dtype=", &run->select->dtypes);
	add_words(&request, "--role=", &run->select->roles);
	if (run->select->ranks != NULL)
		add(&request, "%s--rank=%s", request.used > 0 ? " " : "",
			run->select->ranks);
	add_list(&request, "--file", &run->select->files);
	if (run->select->min_bytes != UINT64_MAX)
		add(&request, "%s--min-bytes=%" PRIu64, request.used > 0 ? " " : "",
			run->select->min_bytes);
	if (run->select->max_bytes != UINT64_MAX)
		add(&request, "%s--max-bytes=%" PRIu64, request.used > 0 ? " " : "",
			run->select->max_bytes);
	add_beginnings(&beginnings, run, &buffer, of);
	if (run->widened_count == 0)
		add_hint(&hint, run, &buffer, of);
	/* Names of another kind contain the pattern. */
	notes->count -= run->widened_count;
	for (size_t i = run->widened_first; i < notes->count; i++)
		notes->items[i] = notes->items[i + run->widened_count];
	run->widened_count = 0;
	run_note(run, "nothing matches %s (%zu %s%s%s)%s", request.text, count,
		WORDS_OF[of], count == 1 ? "" : "s", beginnings.text, hint.text);
}
