/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deals tensors out to files as save_torch_state_dict of huggingface_hub does, and puts
 * them in the order of the reference writer of safetensors.
 *
 * Origin: split_state_dict_into_shards_factory of huggingface_hub 2.4, prepare of
 * safetensors 0.8.
 */
#include <stdio.h>
#include <stdlib.h>

#include "export/exporting.h"

#define SHARD_BYTES UINT64_C(5000000000)
enum { FILES_MOST = 99999 }; /* five digits in the names of shards */

/* ---- which file ---- */

/* Gives what is open among the items from `first` to `end` the next number. */
static void close_file(struct fsdp_export *plan, size_t first, size_t end, size_t *files)
{
	for (size_t i = first; i < end; i++)
		if (plan->items[i].file == FSDP_NONE)
			plan->items[i].file = (uint32_t)*files;
	*files += 1;
}

/* Others fill a file in order; a tensor larger than a file has one of its own, which is
 * counted before the one that is being filled. */
static size_t deal_out(struct fsdp_export *plan)
{
	size_t files = 0, first = 0;
	uint64_t used = 0, most = plan->shard_bytes;
	bool open = false;
	if (plan->form != FSDP_EXPORT_HF)
		return 1;
	for (size_t i = 0; i < plan->item_count; i++) {
		struct fsdp_export_item *item = &plan->items[i];
		item->file = FSDP_NONE;
		if (item->bytes > most) {
			item->file = (uint32_t)files++;
			continue;
		}
		if (open && item->bytes > most - used) {
			close_file(plan, first, i, &files);
			first = i;
			used = 0;
		}
		open = true;
		used += item->bytes;
	}
	if (open)
		close_file(plan, first, plan->item_count, &files);
	return files;
}

/* ---- in which order ---- */

static int compare_items(const void *left, const void *right, void *context)
{
	const struct fsdp_export_item *items = context;
	const struct fsdp_export_item *a = &items[*(const uint32_t *)left],
				      *b = &items[*(const uint32_t *)right];
	if (a->file != b->file)
		return a->file < b->file ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank > b->rank ? -1 : 1;
	return fsdp_span_compare(a->name, b->name);
}

static void lay_out(struct fsdp_export *plan)
{
	size_t next = 0;
	qsort_r(plan->order, plan->item_count, sizeof *plan->order, compare_items,
		plan->items);
	for (size_t f = 0; f < plan->file_count; f++) {
		struct fsdp_export_out *file = &plan->files[f];
		file->first = next;
		for (; next < plan->item_count; next++) {
			struct fsdp_export_item *item = &plan->items[plan->order[next]];
			if (item->file != f)
				break;
			item->offset = file->bytes;
			file->bytes += item->bytes;
		}
		file->count = next - file->first;
	}
}

/* ---- names and heads ---- */

static bool name_file(struct fsdp_export *plan, size_t index, size_t shards,
	struct fsdp_error **ret_error)
{
	char name[64] = "";
	if (plan->form == FSDP_EXPORT_HF && index == shards)
		snprintf(name, sizeof name, "model.safetensors.index.json");
	else if (plan->form == FSDP_EXPORT_HF && shards == 1)
		snprintf(name, sizeof name, "model.safetensors");
	else if (plan->form == FSDP_EXPORT_HF)
		snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", index + 1,
			shards);
	plan->files[index].name = fsdp_arena_copy(&plan->arena, fsdp_span_text(name));
	return plan->files[index].name.data != NULL ||
	       fsdp_arena_fail(&plan->arena, ret_error);
}

/* How long heads are follows from what stands in them. */
static bool add_head(
	struct fsdp_export *plan, size_t index, struct fsdp_error **ret_error)
{
	struct fsdp_export_out *file = &plan->files[index];
	struct fsdp_export_text text = { 0 };
	bool good = fsdp_export_head(plan, index, &text, ret_error);
	free(text.bytes);
	if (!good)
		return false;
	file->head = text.size;
	file->bytes += text.size;
	for (size_t i = 0; i < file->count; i++)
		plan->items[plan->order[file->first + i]].offset += text.size;
	plan->facts.file_bytes += file->bytes;
	return true;
}

/* Also of all files together they can be counted. */
bool fsdp_export_count(struct fsdp_export *plan, struct fsdp_error **ret_error)
{
	struct fsdp_export_facts *facts = &plan->facts;
	for (size_t i = 0; i < plan->item_count; i++)
		if (!fsdp_add(facts->tensor_bytes, plan->items[i].bytes,
			    &facts->tensor_bytes) ||
			!fsdp_add(facts->numel, plan->items[i].numel, &facts->numel) ||
			facts->tensor_bytes > INT64_MAX)
			return fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
				"the tensors claim more bytes than can be");
	return true;
}

bool fsdp_export_cut(struct fsdp_export *plan, struct fsdp_error **ret_error)
{
	if (plan->shard_bytes == 0)
		plan->shard_bytes = SHARD_BYTES;
	size_t shards = deal_out(plan);
	plan->has_index = shards > 1;
	plan->file_count = shards + plan->has_index;
	if (shards > FILES_MOST) {
		fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"%zu files would be written, more than %d", shards, FILES_MOST);
		return fsdp_error_add_hint(ret_error, "give a larger --max-shard-size");
	}
	plan->files = FSDP_TAKE(&plan->arena, plan->files, plan->file_count);
	if (plan->files == NULL)
		return fsdp_arena_fail(&plan->arena, ret_error);
	if (!fsdp_export_count(plan, ret_error))
		return false;
	lay_out(plan);
	for (size_t i = 0; i < plan->file_count; i++)
		if (!name_file(plan, i, shards, ret_error))
			return false;
	for (size_t i = 0; i < plan->file_count; i++)
		if (!add_head(plan, i, ret_error))
			return false;
	return true;
}
