/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes many names as one. Which names are alike in everything else is the caller's to
 * say.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/answer.h"
#include "part/fold.h"
#include "part/mixer.h"
#include "part/tensor-row.h"

enum {
	DIGITS_MAX = 9,    /* of a number that may stand in a range */
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

void join_done(struct join *join)
{
	name_buffer_done(&join->first);
	name_buffer_done(&join->braces);
}

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

/* Two names that differ in one number: where it stands. */
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

/* Two names that differ in one word between underscores: where it stands. */
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

	if (join->first.failed || join->braces.failed)
		return false;
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
	bool failed;
};

/* A name as its segments: text, or a number. */
struct segments {
	struct text rest;
	bool done;
};

static bool next_segment(struct segments *segments, struct text *ret, bool *ret_number,
	uint64_t *ret_value)
{
	const char *dot;

	if (segments->done)
		return false;
	dot = segments->rest.size > 0
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

bool folding_new(struct run *run, const uint32_t *tensors, size_t count,
	struct folding **ret_folding)
{
	struct folding *folding = calloc(1, sizeof *folding);
	size_t slots = 64;

	if (folding == NULL)
		return false;
	while (slots < count * 2)
		slots *= 2;
	folding->run = run;
	folding->mixer = mixer_new();
	folding->slot_mask = slots - 1;
	folding->slots = malloc(slots * sizeof *folding->slots);
	folding->entries = malloc((count + 1) * sizeof *folding->entries);
	if (folding->slots == NULL || folding->entries == NULL) {
		folding_free(folding);
		return false;
	}
	memset(folding->slots, 0xff, slots * sizeof *folding->slots);
	for (size_t i = 0; i < count; i++)
		add_tensor(folding, tensors[i]);
	*ret_folding = folding;
	return true;
}

void folding_free(struct folding *folding)
{
	if (folding == NULL)
		return;
	name_buffer_done(&folding->name);
	name_buffer_done(&folding->other);
	free(folding->slots);
	free(folding->entries);
	free(folding);
}

size_t folding_count(const struct folding *folding)
{
	return folding->count;
}

struct folded folding_at(const struct folding *folding, size_t index)
{
	return folding->entries[index].sums;
}

bool folding_failed(const struct folding *folding)
{
	return folding->name.failed || folding->other.failed;
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
