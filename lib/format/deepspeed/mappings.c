/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads where a parameter lies in a rank's part of a flat buffer, as DeepSpeed spells it,
 * and finds it again by name. parameter-groups.c checks whether it can be true.
 *
 *	param_slice_mappings   [{fqn: fragment_address}, …], one dict a group
 *	fragment_address       an object whose state is {"numel": n, "start": n}
 *
 * Origin: deepspeed/utils/tensor_fragment.py (0.19.8), and files of it.
 */
#include <stdio.h>

#include "base/num.h"
#include "format/deepspeed/mappings.h"

struct slice {
	uint32_t first, last; /* + 1 */
};

static bool take_number(const struct fsdp_token *tokens, const char *key, uint64_t *ret)
{
	if (tokens[0].kind != FSDP_TOKEN_TEXT || !fsdp_span_is(tokens[0].text, key) ||
		tokens[1].kind != FSDP_TOKEN_INTEGER || tokens[1].integer < 0 ||
		(uint64_t)tokens[1].integer > FSDP_MAPPING_MAX)
		return false;
	*ret = (uint64_t)tokens[1].integer;
	return true;
}

bool fsdp_mapping_read(
	const struct fsdp_value_record *value, struct fsdp_mapping *ret_mapping)
{
	bool start = false, numel = false;
	if (value->type == NULL || strcmp(value->type, "fragment_address") != 0)
		return false;
	for (uint32_t i = 0; i + 1 < value->token_count; i++) {
		const struct fsdp_token *tokens = &value->tokens[i];
		start |= take_number(tokens, "start", &ret_mapping->start);
		numel |= take_number(tokens, "numel", &ret_mapping->numel);
	}
	return start && numel;
}

void fsdp_mappings_init(struct fsdp_mappings *mappings, struct fsdp_arena *scratch)
{
	mappings->scratch = scratch;
	fsdp_vec_init(&mappings->list, scratch, sizeof(struct fsdp_mapping));
	fsdp_vec_init(&mappings->slices, scratch, sizeof(struct slice));
}

bool fsdp_mappings_add(struct fsdp_mappings *mappings, const struct fsdp_mapping *mapping,
	struct fsdp_error **ret_error)
{
	struct fsdp_mapping *own = fsdp_vec_push(&mappings->list);
	struct slice *slice = fsdp_vec_reach(&mappings->slices, mapping->slice);
	if (own == NULL || slice == NULL)
		return fsdp_arena_fail(mappings->scratch, ret_error);
	*own = *mapping;
	own->next = own->next_of_slice = 0;
	uint32_t id = (uint32_t)mappings->list.count;
	if (slice->first == 0)
		slice->first = id;
	else
		fsdp_mappings_at(mappings, slice->last - 1)->next_of_slice = id;
	slice->last = id;
	return true;
}

/* The name below its group; FSDP_NONE: memory ended. */
static uint32_t name_of(
	struct fsdp_mappings *mappings, const struct fsdp_mapping *mapping)
{
	char text[16];
	int size = snprintf(text, sizeof text, "%u", mapping->group);
	uint32_t group =
		fsdp_names_find_child(&mappings->names, 0, fsdp_span(text, (size_t)size));
	if (group == FSDP_NONE) {
		struct fsdp_span copy =
			fsdp_arena_copy(mappings->scratch, fsdp_span(text, (size_t)size));
		group = copy.data != NULL ? fsdp_names_child(&mappings->names, 0, copy)
					  : FSDP_NONE;
	}
	return group != FSDP_NONE
		       ? fsdp_names_child(&mappings->names, group, mapping->fqn)
		       : FSDP_NONE;
}

static bool chain(struct fsdp_mappings *mappings, uint32_t id)
{
	uint32_t name = name_of(mappings, fsdp_mappings_at(mappings, id - 1));
	if (name == FSDP_NONE)
		return false;
	if (mappings->first[name] == 0)
		mappings->first[name] = id;
	else
		fsdp_mappings_at(mappings, mappings->last[name] - 1)->next = id;
	mappings->last[name] = id;
	return true;
}

uint32_t fsdp_mappings_first(const struct fsdp_mappings *mappings, uint32_t slice)
{
	return slice < mappings->slices.count
		       ? ((struct slice *)fsdp_vec_at(&mappings->slices, slice))->first
		       : 0;
}

bool fsdp_mappings_begin(
	struct fsdp_mappings *mappings, uint32_t slice, struct fsdp_error **ret_error)
{
	uint32_t last = FSDP_NONE;
	uint32_t first = fsdp_mappings_first(mappings, slice);
	size_t count = 0;
	for (uint32_t id = first; id != 0;
		id = fsdp_mappings_at(mappings, id - 1)->next_of_slice)
		count++;
	/* Names are those, the groups and nothing. */
	mappings->first = FSDP_TAKE(mappings->scratch, mappings->first, 2 * count + 2);
	mappings->last = FSDP_TAKE(mappings->scratch, mappings->last, 2 * count + 2);
	mappings->ranks = FSDP_TAKE(mappings->scratch, mappings->ranks, count + 1);
	mappings->rank_count = 0;
	mappings->count = count;
	memset(mappings->told, 0, sizeof mappings->told);
	if (mappings->first == NULL || mappings->last == NULL ||
		mappings->ranks == NULL ||
		!fsdp_names_init(&mappings->names, mappings->scratch))
		return fsdp_arena_fail(mappings->scratch, ret_error);
	for (uint32_t id = first; id != 0;
		id = fsdp_mappings_at(mappings, id - 1)->next_of_slice) {
		const struct fsdp_mapping *mapping = fsdp_mappings_at(mappings, id - 1);
		if (mapping->rank != last)
			mappings->ranks[mappings->rank_count++] = mapping->rank;
		last = mapping->rank;
		mappings->told[mapping->group] = true;
		if (!chain(mappings, id))
			return fsdp_arena_fail(mappings->scratch, ret_error);
	}
	return true;
}

uint32_t fsdp_mappings_find(
	const struct fsdp_mappings *mappings, uint32_t group, struct fsdp_span fqn)
{
	char text[16];
	int size = snprintf(text, sizeof text, "%u", group);
	uint32_t name =
		fsdp_names_find_child(&mappings->names, 0, fsdp_span(text, (size_t)size));
	if (name != FSDP_NONE)
		name = fsdp_names_find_child(&mappings->names, name, fqn);
	return name != FSDP_NONE ? mappings->first[name] : 0;
}

bool fsdp_mappings_tell(const struct fsdp_mappings *mappings, uint32_t rank)
{
	return fsdp_find_sorted(mappings->ranks, mappings->rank_count, rank) <
	       mappings->rank_count;
}
