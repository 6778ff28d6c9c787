/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows how optimizers name what they keep for a parameter; knows nothing of how it is
 * shown.
 */
#include <stdlib.h>
#include <string.h>

#include "run/answer.h"
#include "cmd/show/numbered.h"
#include "cmd/show/states.h"

/* A name that a parameter may have in an optimizer, and the states found for it. */
struct wanted {
	size_t offset, size; /* in `texts` */
	size_t first, count; /* in `found` */
};

struct match {
	struct state state;
	uint32_t wanted;
};

struct states {
	const struct fsdp_checkpoint *checkpoint;
	struct name_buffer name, raw, texts;
	size_t texts_size;
	struct wanted *wanted; /* ascending by text, each once */
	size_t wanted_count, wanted_room;
	struct match *matches;
	size_t match_count, match_room;
	struct state *found; /* by wanted, then in the order of tensors */
	struct numbered *numbered;
	bool failed;
};

/* ---- names ---- */

/* Behind the next segment "state" at or after `at`, or 0. */
static size_t behind_state(struct text name, size_t at)
{
	static const char WORD[] = "state.";
	const size_t size = sizeof WORD - 1;

	while (at + size < name.size) {
		const char *dot;
		if (memcmp(name.data + at, WORD, size) == 0)
			return at + size;
		dot = memchr(name.data + at, '.', name.size - at);
		if (dot == NULL)
			break;
		at = (size_t)(dot - name.data) + 1;
	}
	return 0;
}

static struct text slice(struct text name, size_t begin, size_t end)
{
	return (struct text){ name.data + begin, end - begin };
}

bool state_name_next(
	struct text name, struct state_reading *reading, struct state_name *ret_state)
{
	for (;;) {
		const char *dot;
		size_t at = reading->at;
		if (!reading->key_first) {
			at = reading->at = behind_state(name, at);
			if (at == 0)
				return false;
			dot = memrchr(name.data + at, '.', name.size - at);
		} else {
			dot = memchr(name.data + at, '.', name.size - at);
		}
		reading->key_first = !reading->key_first;
		if (dot == NULL)
			continue;
		*ret_state = (struct state_name){
			.parameter = slice(name, at, (size_t)(dot - name.data)),
			.key = slice(name, (size_t)(dot - name.data) + 1, name.size),
		};
		if (!reading->key_first)
			*ret_state = (struct state_name){
				.parameter = ret_state->key,
				.key = ret_state->parameter,
			};
		return true;
	}
}

/* ---- what is wanted ---- */

static void *grown(
	struct states *states, void *items, size_t count, size_t *room, size_t size)
{
	size_t more = *room == 0 ? 16 : *room * 2;
	void *bigger;

	if (count < *room)
		return items;
	bigger = reallocarray(items, more, size);
	if (bigger == NULL)
		states->failed = true;
	else
		*room = more;
	return bigger;
}

static struct text wanted_text(const struct states *states, const struct wanted *wanted)
{
	return (struct text){ states->texts.data + wanted->offset, wanted->size };
}

static int compare_texts(struct text a, struct text b)
{
	if (a.size != b.size)
		return a.size < b.size ? -1 : 1;
	return memcmp(a.data, b.data, a.size);
}

static int compare_wanted(const void *left, const void *right, void *context)
{
	return compare_texts(wanted_text(context, left), wanted_text(context, right));
}

static void want(struct states *states, struct text text)
{
	struct wanted *wanted = grown(states, states->wanted, states->wanted_count,
		&states->wanted_room, sizeof *wanted);

	if (wanted == NULL || text.size == 0)
		return;
	states->wanted = wanted;
	wanted[states->wanted_count++] =
		(struct wanted){ .offset = states->texts_size, .size = text.size };
	name_buffer_append(&states->texts, &states->texts_size, text);
}

static struct wanted *find_wanted(struct states *states, struct text text)
{
	size_t low = 0, high = states->wanted_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		struct wanted *wanted = &states->wanted[middle];
		int order = compare_texts(text, wanted_text(states, wanted));
		if (order == 0)
			return wanted;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

/* What a tensor may be called in an optimizer, longest first: its name, and what is left
 * of that below each container. */
struct candidates {
	struct text name, raw;
	uint32_t path;
	uint64_t state;
	size_t size; /* of the containers so far */
	bool begun;
};

static struct candidates candidates_of(struct states *states, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(states->checkpoint, index);

	return (struct candidates){
		.name = name_text(&states->name, states->checkpoint, tensor.name),
		.raw = name_text(&states->raw, states->checkpoint, tensor.raw_name),
		.path = tensor.role == FSDP_ROLE_OPTIM ? FSDP_NONE : tensor.path,
	};
}

static bool next_candidate(const struct fsdp_checkpoint *checkpoint,
	struct candidates *candidates, struct text *ret_text)
{
	const struct text *name = &candidates->name, *raw = &candidates->raw;
	struct fsdp_span span = span_of_text(*raw);
	struct fsdp_path_part part;

	if (!candidates->begun) {
		candidates->begun = true;
		*ret_text = *name;
		return name->size > 0;
	}
	/* Containers are keys; below a list nothing is called by its name. */
	if (candidates->path == FSDP_NONE ||
		!fsdp_path_next(
			checkpoint, candidates->path, span, &candidates->state, &part) ||
		part.is_integer)
		return false;
	candidates->size += part.text.size + 1;
	/* Cleaning leaves a container as it is, or this is none. */
	if (candidates->size >= name->size || candidates->size > raw->size ||
		memcmp(name->data, raw->data, candidates->size) != 0)
		return false;
	*ret_text = slice(*name, candidates->size, name->size);
	return true;
}

static void want_all(struct states *states, const uint32_t *tensors, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		struct candidates candidates = candidates_of(states, tensors[i]);
		struct text text;
		if (fsdp_tensor(states->checkpoint, tensors[i]).role == FSDP_ROLE_OPTIM)
			continue;
		while (next_candidate(states->checkpoint, &candidates, &text))
			want(states, text);
	}
	if (states->wanted_count == 0 || states->texts.failed)
		return;
	qsort_r(states->wanted, states->wanted_count, sizeof *states->wanted,
		compare_wanted, states);
	for (size_t i = 1; i < states->wanted_count; i++) {
		if (compare_wanted(&states->wanted[kept], &states->wanted[i], states) !=
			0)
			states->wanted[++kept] = states->wanted[i];
	}
	states->wanted_count = kept + 1;
}

/* ---- what is found ---- */

/* An optimizer of plain torch counts its parameters: its 0 is nobody's name. */
static bool is_numbered(struct states *states, const struct fsdp_tensor *tensor)
{
	struct text raw = name_text(&states->raw, states->checkpoint, tensor->raw_name);
	struct fsdp_span span = span_of_text(raw);
	struct fsdp_path_part part;
	bool below = false;

	for (uint64_t state = 0;
		tensor->path != FSDP_NONE &&
		fsdp_path_next(states->checkpoint, tensor->path, span, &state, &part);) {
		if (below && part.is_integer)
			return true;
		below = !part.is_integer &&
			text_is(text_of_span(part.text), text_of("state"));
	}
	return false;
}

static void take_match(
	struct states *states, struct wanted *wanted, const struct state *state)
{
	struct match *matches = grown(states, states->matches, states->match_count,
		&states->match_room, sizeof *matches);

	if (matches == NULL)
		return;
	states->matches = matches;
	matches[states->match_count++] =
		(struct match){ *state, (uint32_t)(wanted - states->wanted) };
	wanted->count++;
}

static void look_at(struct states *states, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(states->checkpoint, index);
	struct state_reading reading = { 0, false };
	struct state_name state;
	struct text name;

	if (tensor.role != FSDP_ROLE_OPTIM)
		return;
	name = name_text(&states->name, states->checkpoint, tensor.name);
	while (state_name_next(name, &reading, &state)) {
		struct wanted *wanted = find_wanted(states, state.parameter);
		if (wanted == NULL || is_numbered(states, &tensor))
			continue;
		take_match(states, wanted,
			&(struct state){ index, (size_t)(state.key.data - name.data),
				state.key.size });
	}
}

/* Stable, so those of one parameter stay in the order of tensors. */
static bool sort_matches(struct states *states)
{
	size_t first = 0;

	states->found = malloc((states->match_count + 1) * sizeof *states->found);
	if (states->found == NULL)
		return false;
	for (size_t i = 0; i < states->wanted_count; i++) {
		states->wanted[i].first = first;
		first += states->wanted[i].count;
		states->wanted[i].count = 0;
	}
	for (size_t i = 0; i < states->match_count; i++) {
		struct wanted *wanted = &states->wanted[states->matches[i].wanted];
		states->found[wanted->first + wanted->count++] = states->matches[i].state;
	}
	return true;
}

bool states_find(const struct fsdp_checkpoint *checkpoint, const uint32_t *tensors,
	size_t count, struct states **ret_states)
{
	struct states *states = calloc(1, sizeof *states);
	size_t tensor_count = fsdp_tensor_count(checkpoint);

	*ret_states = states;
	if (states == NULL)
		return false;
	states->checkpoint = checkpoint;
	want_all(states, tensors, count);
	for (uint32_t i = 0; i < tensor_count && states->wanted_count > 0; i++)
		look_at(states, i);
	return sort_matches(states) && numbered_find(checkpoint, &states->numbered) &&
	       !states->failed && !states->name.failed && !states->raw.failed &&
	       !states->texts.failed;
}

void states_free(struct states *states)
{
	if (states == NULL)
		return;
	name_buffer_done(&states->name);
	name_buffer_done(&states->raw);
	name_buffer_done(&states->texts);
	free(states->wanted);
	free(states->matches);
	free(states->found);
	numbered_free(states->numbered);
	free(states);
}

const struct state *states_of(struct states *states, uint32_t tensor, size_t *ret_count)
{
	struct candidates candidates = candidates_of(states, tensor);
	struct text text;

	while (fsdp_tensor(states->checkpoint, tensor).role != FSDP_ROLE_OPTIM &&
		next_candidate(states->checkpoint, &candidates, &text)) {
		const struct wanted *wanted = find_wanted(states, text);
		if (wanted == NULL || wanted->count == 0)
			continue;
		*ret_count = wanted->count;
		return states->found + wanted->first;
	}
	return numbered_of(states->numbered, tensor, ret_count);
}
