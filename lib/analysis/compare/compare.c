/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares two checkpoints step by step and reports the result.
 */
#include <stdlib.h>

#include "analysis/compare/comparing.h"

enum { NAME_ROOM = 1024 }; /* bytes of memory for each name of a list */

/* ---- making one ---- */

void fsdp_compare_count(struct fsdp_compare *compare)
{
	struct fsdp_compare_facts *facts = &compare->facts;
	facts->same = facts->changed = facts->unread = 0;
	for (size_t i = 0; i < facts->pair_count; i++) {
		bool changed = compare->pairs[i].what != 0;
		bool failed = compare->pairs[i].failure != NULL;
		facts->changed += changed;
		facts->same += !changed && !failed;
		facts->unread += failed;
	}
}

/* A list is the user's own: it may have what it needs. */
static uint64_t room_of(const struct fsdp_compare_options *options)
{
	const struct fsdp_checkpoint *checkpoints[2];
	uint64_t names = 0, room;
	size_t count = 0;
	for (unsigned i = 0; i < 2; i++) {
		names += options->sides[i].name_count;
		if (options->sides[i].checkpoint != NULL)
			checkpoints[count++] = options->sides[i].checkpoint;
	}
	if (!fsdp_mul(names, NAME_ROOM, &names) ||
		!fsdp_add(fsdp_checkpoint_room(checkpoints, count), names, &room))
		room = UINT64_MAX;
	return room;
}

static bool make(struct fsdp_compare *compare, const struct fsdp_compare_options *options,
	struct fsdp_error **ret_error)
{
	if (!fsdp_arena_init_chosen(&compare->arena, &compare->budget, options->limits,
		    options->limit_count, room_of(options), ret_error) ||
		!fsdp_compare_take(compare, options, ret_error) ||
		!fsdp_compare_match(compare, ret_error))
		return false;
	fsdp_compare_list(compare);
	for (size_t i = 0; i < compare->facts.pair_count; i++)
		fsdp_compare_describe(compare, &compare->pairs[i]);
	fsdp_compare_count(compare);
	return true;
}

bool fsdp_compare_new(const struct fsdp_compare_options *options,
	struct fsdp_compare **ret_compare, struct fsdp_error **ret_error)
{
	struct fsdp_compare_options known = { .size = sizeof known };
	struct fsdp_compare *compare = calloc(1, sizeof *compare);
	if (compare == NULL)
		return fsdp_fail_memory(ret_error);
	memcpy(&known, options, fsdp_min(options->size, sizeof known));
	compare->names_only = known.names_only;
	compare->layout = known.layout && !known.names_only;
	if (!make(compare, &known, ret_error)) {
		fsdp_compare_free(compare);
		return false;
	}
	*ret_compare = compare;
	return true;
}

void fsdp_compare_free(struct fsdp_compare *compare)
{
	if (compare == NULL)
		return;
	for (size_t i = 0; i < compare->facts.pair_count; i++)
		fsdp_error_free(compare->pairs[i].failure);
	fsdp_error_free(compare->unread);
	if (compare->arena.budget != NULL)
		fsdp_arena_done(&compare->arena);
	free(compare);
}

/* The pairs that are reported. */
static bool list_failures(struct fsdp_compare *compare, struct fsdp_error **ret_error)
{
	struct fsdp_compare_facts *facts = &compare->facts;
	compare->failed =
		FSDP_TAKE(&compare->arena, compare->failed, FSDP_COMPARE_FAILURES);
	if (compare->failed == NULL)
		return fsdp_arena_fail(&compare->arena, ret_error);
	for (size_t i = 0; i < facts->pair_count; i++) {
		facts->compared += compare->pairs[i].compared;
		if (compare->pairs[i].failure != NULL &&
			facts->failure_count < FSDP_COMPARE_FAILURES)
			compare->failed[facts->failure_count++] = i;
	}
	if (compare->unread != NULL && facts->failure_count < FSDP_COMPARE_FAILURES)
		compare->failed[facts->failure_count++] = SIZE_MAX;
	return true;
}

bool fsdp_compare_values(struct fsdp_compare *compare,
	const struct fsdp_compare_values_options *options, struct fsdp_error **ret_error)
{
	struct fsdp_compare_values_options known = { .size = sizeof known };
	memcpy(&known, options, fsdp_min(options->size, sizeof known));
	if (!fsdp_compare_elements(compare, &known, ret_error) ||
		!fsdp_compare_explain(compare, ret_error) ||
		!fsdp_compare_entries(compare, ret_error) ||
		!list_failures(compare, ret_error))
		return false;
	fsdp_compare_count(compare);
	return true;
}

struct fsdp_compare_facts fsdp_compare_facts(const struct fsdp_compare *compare)
{
	return compare->facts;
}

struct fsdp_compare_pair fsdp_compare_pair(
	const struct fsdp_compare *compare, size_t index)
{
	const struct fsdp_compared_pair *pair = &compare->pairs[index];
	return (struct fsdp_compare_pair){
		.sides = { fsdp_compared_at(compare, 0, pair->sides[0])->facts,
			fsdp_compared_at(compare, 1, pair->sides[1])->facts },
		.what = pair->what,
		.hint = (enum fsdp_compare_hint)pair->hint,
		.hint_side = pair->hint_side,
		.parts = pair->parts,
		.part = pair->part,
		.dim = pair->dim,
		.compared = pair->compared,
		.unread = pair->failure != NULL,
		.zero = { pair->zero[0], pair->zero[1] },
		.elements = pair->elements,
	};
}

struct fsdp_compare_tensor fsdp_compare_only(
	const struct fsdp_compare *compare, unsigned side, size_t index)
{
	return fsdp_compared_at(compare, side, compare->sides[side].only[index])->facts;
}

struct fsdp_compare_rename fsdp_compare_rename(
	const struct fsdp_compare *compare, size_t index)
{
	const struct fsdp_compared_pair *pair = &compare->pairs[compare->renamed[index]];
	return (struct fsdp_compare_rename){
		.pair = compare->renamed[index],
		.why = pair->why,
		.from = pair->from,
		.to = pair->to,
	};
}

struct fsdp_compare_value fsdp_compare_value(
	const struct fsdp_compare *compare, size_t index)
{
	return compare->values[index];
}

const struct fsdp_error *fsdp_compare_failure(
	const struct fsdp_compare *compare, size_t index)
{
	size_t pair = compare->failed[index];
	return pair != SIZE_MAX ? compare->pairs[pair].failure : compare->unread;
}
