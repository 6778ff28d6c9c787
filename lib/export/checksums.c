/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares what was read from the source with the checksums that it records: at once where
 * a range holds all of a stored record, else when everything was read and what several
 * ranges saw of a record can be joined.
 */
#include <stdlib.h>

#include "elements/content-hash.h"
#include "export/writing.h"

static bool fail_sum(struct fsdp_writing *writing, const struct fsdp_elements_run *run,
	struct fsdp_error **ret_error)
{
	struct fsdp_span path = fsdp_file(writing->plan->checkpoint, run->file).path;
	char text[4096];
	fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI2001", run->record,
		"the CRC-32 of %llu bytes is %08x, but the file records %08x",
		FSDP_LLU(run->size), run->crc, run->recorded);
	fsdp_error_add_hint(ret_error, "copy this file again from where it was written");
	if (path.size < sizeof text) {
		memcpy(text, path.data, path.size);
		text[path.size] = '\0';
		fsdp_error_add_path(ret_error, text);
	}
	return false;
}

static bool is_whole(const struct fsdp_elements_run *run)
{
	return run->begin == 0 && run->end == run->size;
}

bool fsdp_export_note_runs(struct fsdp_writing *writing, struct fsdp_export_range *range,
	const struct fsdp_elements_run *runs, size_t count, struct fsdp_error **ret_error)
{
	size_t partial = 0;
	for (size_t i = 0; i < count; i++) {
		if (is_whole(&runs[i]) && runs[i].crc != runs[i].recorded)
			return fail_sum(writing, &runs[i], ret_error);
		partial += !is_whole(&runs[i]);
	}
	if (partial == 0)
		return true;
	struct fsdp_elements_run *grown =
		realloc(range->runs, (range->run_count + partial) * sizeof *range->runs);
	if (grown == NULL)
		return fsdp_fail_memory(ret_error);
	range->runs = grown;
	for (size_t i = 0; i < count; i++)
		if (!is_whole(&runs[i]))
			range->runs[range->run_count++] = runs[i];
	return true;
}

static int compare_runs(const void *left, const void *right)
{
	const struct fsdp_elements_run *a = left, *b = right;
	if (a->file != b->file)
		return a->file < b->file ? -1 : 1;
	if (a->record != b->record)
		return a->record < b->record ? -1 : 1;
	if (a->begin != b->begin)
		return a->begin < b->begin ? -1 : 1;
	return a->end < b->end ? -1 : a->end > b->end;
}

/* Joins those of one record as far as they follow each other from its begin on, and gives
 * how many there were. What was seen twice counts once. */
static size_t join_record(const struct fsdp_elements_run *runs, size_t count,
	struct fsdp_elements_run *ret_joined)
{
	size_t i = 0;
	*ret_joined = runs[0];
	ret_joined->crc = 0;
	ret_joined->end = 0;
	for (; i < count && runs[i].file == runs[0].file &&
		runs[i].record == runs[0].record;
		i++) {
		if (runs[i].begin != ret_joined->end || runs[i].end == runs[i].begin)
			continue;
		ret_joined->crc = fsdp_crc32_join(
			ret_joined->crc, runs[i].crc, runs[i].end - runs[i].begin);
		ret_joined->end = runs[i].end;
	}
	ret_joined->begin = 0;
	return i;
}

static size_t gather(const struct fsdp_writing *writing, struct fsdp_elements_run *all)
{
	size_t count = 0;
	for (size_t i = 0; i < writing->range_count; i++)
		for (size_t k = 0; k < writing->ranges[i].run_count; k++, count++)
			if (all != NULL)
				all[count] = writing->ranges[i].runs[k];
	return count;
}

bool fsdp_export_check_sums(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	size_t count = gather(writing, NULL);
	bool good = true;
	if (count == 0)
		return true;
	struct fsdp_elements_run *all = malloc(count * sizeof *all);
	if (all == NULL)
		return fsdp_fail_memory(ret_error);
	gather(writing, all);
	qsort(all, count, sizeof *all, compare_runs);
	for (size_t i = 0; good && i < count;) {
		struct fsdp_elements_run joined;
		i += join_record(all + i, count - i, &joined);
		if (is_whole(&joined) && joined.crc != joined.recorded)
			good = fail_sum(writing, &joined, ret_error);
	}
	free(all);
	return good;
}

void fsdp_export_forget_runs(struct fsdp_writing *writing)
{
	for (size_t i = 0; i < writing->range_count; i++) {
		free(writing->ranges[i].runs);
		writing->ranges[i].runs = NULL;
	}
}
