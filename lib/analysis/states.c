/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what an optimizer keeps for a parameter, by the names of both.
 */
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>

#include "analysis/numbered.h"
#include "analysis/scratch.h"
#include "analysis/states.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/num.h"

/* A name that a parameter may have in an optimizer, and the states found for it. */
struct wanted {
	struct fsdp_span text;
	size_t first, count; /* in `found` */
};

struct found_state {
	struct fsdp_state state;
	uint32_t wanted;
};

struct fsdp_states {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_scratch name, raw;
	struct wanted *wanted; /* ascending by text, each once */
	size_t wanted_count;
	struct fsdp_vec matches;  /* struct found_state */
	struct fsdp_state *found; /* by wanted, then in the order of tensors */
	struct fsdp_numbered *numbered;
	bool failed; /* out of memory */
};

/* End of the next segment "state" at or after `at`, or 0. */
static size_t behind_state(struct fsdp_span name, size_t at)
{
	static const char WORD[] = "state.";
	const size_t size = sizeof WORD - 1;

	while (at + size < name.size) {
		const unsigned char *dot;
		if (memcmp(name.data + at, WORD, size) == 0)
			return at + size;
		dot = memchr(name.data + at, '.', name.size - at);
		if (dot == NULL)
			break;
		at = (size_t)(dot - name.data) + 1;
	}
	return 0;
}

static struct fsdp_span slice(struct fsdp_span name, size_t begin, size_t end)
{
	return fsdp_span(name.data + begin, end - begin);
}

bool fsdp_state_name_next(struct fsdp_span name, struct fsdp_state_reading *reading,
	struct fsdp_state_name *ret_state)
{
	for (;;) {
		const unsigned char *dot;
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
		*ret_state = (struct fsdp_state_name){
			.parameter = slice(name, at, (size_t)(dot - name.data)),
			.key = slice(name, (size_t)(dot - name.data) + 1, name.size),
		};
		if (!reading->key_first)
			*ret_state = (struct fsdp_state_name){
				.parameter = ret_state->key,
				.key = ret_state->parameter,
			};
		return true;
	}
}

/* Most texts differ in their size, so that few bytes are looked at. */
static int compare_texts(struct fsdp_span a, struct fsdp_span b)
{
	if (a.size != b.size)
		return a.size < b.size ? -1 : 1;
	return memcmp(a.data, b.data, a.size);
}

static int compare_wanted(const void *left, const void *right)
{
	return compare_texts(((const struct wanted *)left)->text,
		((const struct wanted *)right)->text);
}

static void want(struct fsdp_states *states, struct fsdp_vec *list, struct fsdp_span text)
{
	struct wanted *wanted;

	if (text.size == 0)
		return;
	wanted = fsdp_vec_push(list);
	if (wanted != NULL)
		wanted->text = fsdp_arena_copy(&states->arena, text);
	states->failed |= wanted == NULL || wanted->text.data == NULL;
}

static struct wanted *find_wanted(struct fsdp_states *states, struct fsdp_span text)
{
	size_t low = 0, high = states->wanted_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		struct wanted *wanted = &states->wanted[middle];
		int order = compare_texts(text, wanted->text);
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
	struct fsdp_span name, raw;
	uint32_t path;
	uint64_t state;
	size_t size; /* of the containers so far */
	bool begun;
};

static struct candidates candidates_of(struct fsdp_states *states, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(states->checkpoint, index);

	return (struct candidates){
		.name = fsdp_scratch_name(&states->name, states->checkpoint, tensor.name),
		.raw = fsdp_scratch_name(
			&states->raw, states->checkpoint, tensor.raw_name),
		.path = tensor.role == FSDP_ROLE_OPTIM ? FSDP_NONE : tensor.path,
	};
}

static bool next_candidate(const struct fsdp_checkpoint *checkpoint,
	struct candidates *candidates, struct fsdp_span *ret_text)
{
	const struct fsdp_span *name = &candidates->name, *raw = &candidates->raw;
	struct fsdp_path_part part;

	if (!candidates->begun) {
		candidates->begun = true;
		*ret_text = *name;
		return name->size > 0;
	}
	/* Containers are keys; below a list nothing is called by its name. */
	if (candidates->path == FSDP_NONE ||
		!fsdp_path_next(
			checkpoint, candidates->path, *raw, &candidates->state, &part) ||
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

/* Sorted, and each text once. */
static void keep_wanted(struct fsdp_states *states, const struct fsdp_vec *list)
{
	size_t kept = 0, size;

	if (list->count == 0 || states->failed)
		return;
	if (fsdp_mul(list->count, sizeof *states->wanted, &size))
		states->wanted = fsdp_arena_take(&states->arena, size, 8);
	if (states->wanted == NULL) {
		states->failed = true;
		return;
	}
	for (size_t i = 0; i < list->count; i++)
		states->wanted[i] = *(const struct wanted *)fsdp_vec_at(list, i);
	qsort(states->wanted, list->count, sizeof *states->wanted, compare_wanted);
	for (size_t i = 1; i < list->count; i++)
		if (compare_wanted(&states->wanted[kept], &states->wanted[i]) != 0)
			states->wanted[++kept] = states->wanted[i];
	states->wanted_count = kept + 1;
}

static void want_all(struct fsdp_states *states, const uint32_t *tensors, size_t count)
{
	struct fsdp_vec list;

	fsdp_vec_init(&list, &states->arena, sizeof(struct wanted));
	for (size_t i = 0; i < count; i++) {
		struct candidates candidates = candidates_of(states, tensors[i]);
		struct fsdp_span text;
		if (fsdp_tensor(states->checkpoint, tensors[i]).role == FSDP_ROLE_OPTIM)
			continue;
		while (next_candidate(states->checkpoint, &candidates, &text))
			want(states, &list, text);
	}
	keep_wanted(states, &list);
}

/* An optimizer of plain torch counts its parameters: its 0 is not a name, unless a name was
 * found for it when it was read. */
static bool is_numbered(struct fsdp_states *states, const struct fsdp_tensor *tensor)
{
	struct fsdp_span raw =
		fsdp_scratch_name(&states->raw, states->checkpoint, tensor->raw_name);
	struct fsdp_path_part part;
	bool below = false;

	if (tensor->name != tensor->raw_name)
		return false;
	for (uint64_t state = 0;
		tensor->path != FSDP_NONE &&
		fsdp_path_next(states->checkpoint, tensor->path, raw, &state, &part);) {
		if (below && part.is_integer)
			return true;
		below = !part.is_integer && fsdp_span_is(part.text, "state");
	}
	return false;
}

static void take_match(
	struct fsdp_states *states, struct wanted *wanted, const struct fsdp_state *state)
{
	struct found_state *match = fsdp_vec_push(&states->matches);

	if (match == NULL) {
		states->failed = true;
		return;
	}
	*match = (struct found_state){ *state, (uint32_t)(wanted - states->wanted) };
	wanted->count++;
}

static void look_at(struct fsdp_states *states, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(states->checkpoint, index);
	struct fsdp_state_reading reading = { 0, false };
	struct fsdp_state_name state;
	struct fsdp_span name;

	if (tensor.role != FSDP_ROLE_OPTIM)
		return;
	name = fsdp_scratch_name(&states->name, states->checkpoint, tensor.name);
	while (fsdp_state_name_next(name, &reading, &state)) {
		struct wanted *wanted = find_wanted(states, state.parameter);
		if (wanted == NULL || is_numbered(states, &tensor))
			continue;
		take_match(states, wanted,
			&(struct fsdp_state){ index, (size_t)(state.key.data - name.data),
				state.key.size });
	}
}

/* Stable, so those of one parameter stay in the order of tensors. */
static void sort_matches(struct fsdp_states *states)
{
	size_t first = 0, size;

	if (fsdp_mul(states->matches.count, sizeof *states->found, &size))
		states->found = fsdp_arena_take(&states->arena, size, 8);
	if (states->found == NULL) {
		states->failed = true;
		return;
	}
	for (size_t i = 0; i < states->wanted_count; i++) {
		states->wanted[i].first = first;
		first += states->wanted[i].count;
		states->wanted[i].count = 0;
	}
	for (size_t i = 0; i < states->matches.count; i++) {
		const struct found_state *match = fsdp_vec_at(&states->matches, i);
		struct wanted *wanted = &states->wanted[match->wanted];
		states->found[wanted->first + wanted->count++] = match->state;
	}
}

bool fsdp_states_new(const struct fsdp_checkpoint *checkpoint, const uint32_t *tensors,
	size_t count, struct fsdp_states **ret_states, struct fsdp_error **ret_error)
{
	struct fsdp_states *states = calloc(1, sizeof *states);
	size_t tensor_count = fsdp_tensor_count(checkpoint);

	if (states == NULL)
		return fsdp_fail_memory(ret_error);
	states->checkpoint = checkpoint;
	states->budget.ceiling = UINT64_MAX;
	fsdp_arena_init_lean(&states->arena, &states->budget);
	fsdp_vec_init(&states->matches, &states->arena, sizeof(struct found_state));
	states->name.arena = states->raw.arena = &states->arena;
	want_all(states, tensors, count);
	for (uint32_t i = 0; i < tensor_count && states->wanted_count > 0; i++)
		look_at(states, i);
	sort_matches(states);
	if (!fsdp_numbered_new(checkpoint, &states->arena, &states->numbered) ||
		states->failed || states->name.failed || states->raw.failed) {
		fsdp_states_free(states);
		return fsdp_fail_memory(ret_error);
	}
	*ret_states = states;
	return true;
}

void fsdp_states_free(struct fsdp_states *states)
{
	if (states == NULL)
		return;
	fsdp_arena_done(&states->arena);
	free(states);
}

const struct fsdp_state *fsdp_states_of(
	struct fsdp_states *states, uint32_t tensor, size_t *ret_count)
{
	struct candidates candidates = candidates_of(states, tensor);
	struct fsdp_span text;

	while (fsdp_tensor(states->checkpoint, tensor).role != FSDP_ROLE_OPTIM &&
		next_candidate(states->checkpoint, &candidates, &text)) {
		const struct wanted *wanted = find_wanted(states, text);
		if (wanted == NULL || wanted->count == 0)
			continue;
		*ret_count = wanted->count;
		return states->found + wanted->first;
	}
	return fsdp_numbered_of(states->numbered, tensor, ret_count);
}
