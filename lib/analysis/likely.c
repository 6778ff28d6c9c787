/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guesses which modules were units: blocks that repeat below a module that is sharded.
 */
#include <stdlib.h>

#include <fsdp/analysis.h>

#include "analysis/scratch.h"
#include "base/error.h"

struct fsdp_likely {
	const struct fsdp_checkpoint *checkpoint;
	size_t count;
	uint32_t *ends; /* per visit: end of the visits below it */
	bool *sharded;  /* of each: at or below a unit that was inferred */
	bool *blocks;   /* of each: what was found */
	bool *number;   /* of each that is sharded: it is called by a number */
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_scratch name, other;
};

static struct fsdp_span name_of(
	struct fsdp_likely *likely, struct fsdp_scratch *scratch, uint32_t index)
{
	return fsdp_scratch_name(
		scratch, likely->checkpoint, fsdp_module(likely->checkpoint, index).name);
}

/* Whether some visit is sharded. */
static bool look_at_visits(struct fsdp_likely *likely)
{
	bool some = false;

	for (uint32_t i = 0; i < likely->count; i++) {
		struct fsdp_module module = fsdp_module(likely->checkpoint, i);
		bool above = module.parent < i && likely->sharded[module.parent];
		likely->sharded[i] =
			above || (module.unit != FSDP_NONE && module.unit_inferred);
		likely->number[i] =
			likely->sharded[i] && fsdp_ends_with_number(fsdp_name_last(
						      likely->checkpoint, module.name));
		likely->ends[i] = i + 1;
		some |= likely->sharded[i];
	}
	for (size_t i = likely->count; i-- > 0;) {
		uint32_t parent = fsdp_module(likely->checkpoint, (uint32_t)i).parent;
		if (parent < i && likely->ends[parent] < likely->ends[i])
			likely->ends[parent] = likely->ends[i];
	}
	return some;
}

/* A name without the prefix of its block. */
static struct fsdp_span below(struct fsdp_span name, size_t block)
{
	size_t skip = block < name.size ? block : name.size;

	return (struct fsdp_span){ name.data + skip, name.size - skip };
}

/* Modules of the same names that hold as many tensors. */
static bool are_alike(struct fsdp_likely *likely, uint32_t a, uint32_t b)
{
	uint32_t size = likely->ends[a] - a;
	size_t left = name_of(likely, &likely->name, a).size,
	       right = name_of(likely, &likely->other, b).size;

	if (likely->ends[b] - b != size)
		return false;
	for (uint32_t i = 0; i < size; i++) {
		struct fsdp_module one = fsdp_module(likely->checkpoint, a + i);
		struct fsdp_module two = fsdp_module(likely->checkpoint, b + i);
		if (one.tensor_count != two.tensor_count || one.depth != two.depth ||
			two.unit != FSDP_NONE || one.unit != FSDP_NONE)
			return false;
		if (!fsdp_span_equal(below(name_of(likely, &likely->name, a + i), left),
			    below(name_of(likely, &likely->other, b + i), right)))
			return false;
	}
	return true;
}

/* The children of a visit that are called by numbers are blocks if there are several, all
 * alike, with modules of their own and parameters. */
static bool find_blocks(struct fsdp_likely *likely, uint32_t parent)
{
	uint32_t first = FSDP_NONE, count = 0;

	for (uint32_t i = parent + 1; i < likely->ends[parent]; i = likely->ends[i]) {
		if (!likely->number[i])
			continue;
		if (first == FSDP_NONE &&
			(likely->ends[i] == i + 1 ||
				fsdp_module(likely->checkpoint, i).parameters == 0))
			return false;
		if (first != FSDP_NONE && !are_alike(likely, first, i))
			return false;
		if (first == FSDP_NONE)
			first = i;
		count++;
	}
	if (count < 2)
		return false;
	for (uint32_t i = parent + 1; i < likely->ends[parent]; i = likely->ends[i])
		likely->blocks[i] = likely->number[i];
	return true;
}

/* What is below a block is not a block of its own. A block is compared once for each level
 * above it that has some, and with one of its own size: n log n comparisons. */
static void find_all(struct fsdp_likely *likely)
{
	for (uint32_t i = 0; i < likely->count;) {
		if (likely->blocks[i]) {
			i = likely->ends[i];
			continue;
		}
		if (likely->sharded[i])
			(void)find_blocks(likely, i);
		i++;
	}
}

bool fsdp_likely_new(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_likely **ret_likely, struct fsdp_error **ret_error)
{
	struct fsdp_likely *likely = calloc(1, sizeof *likely);
	size_t count = fsdp_module_count(checkpoint);

	if (likely == NULL)
		return fsdp_fail_memory(ret_error);
	likely->checkpoint = checkpoint;
	likely->count = count;
	likely->budget.ceiling = UINT64_MAX;
	fsdp_arena_init_lean(&likely->arena, &likely->budget);
	likely->name.arena = likely->other.arena = &likely->arena;
	likely->ends = calloc(count + 1, sizeof *likely->ends);
	likely->sharded = calloc(count + 1, sizeof *likely->sharded);
	likely->blocks = calloc(count + 1, sizeof *likely->blocks);
	likely->number = calloc(count + 1, sizeof *likely->number);
	if (likely->ends != NULL && likely->sharded != NULL && likely->blocks != NULL &&
		likely->number != NULL) {
		if (look_at_visits(likely))
			find_all(likely);
		if (!likely->name.failed && !likely->other.failed) {
			*ret_likely = likely;
			return true;
		}
	}
	fsdp_likely_free(likely);
	return fsdp_fail_memory(ret_error);
}

void fsdp_likely_free(struct fsdp_likely *likely)
{
	if (likely == NULL)
		return;
	fsdp_arena_done(&likely->arena);
	free(likely->ends);
	free(likely->sharded);
	free(likely->blocks);
	free(likely->number);
	free(likely);
}

bool fsdp_likely_unit(const struct fsdp_likely *likely, uint32_t module)
{
	return module < likely->count && likely->blocks[module];
}
