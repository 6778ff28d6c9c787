/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the elements of mapped tensors, run by run or gathered in a window.
 */
#include <stdlib.h>

#include "naming/mapped-elements.h"

enum { WINDOW = 16 << 20, LONG_RUN = 64 << 10 };

/* Where a stretch of elements lies: in a stored tensor, one behind the other. */
struct run {
	uint32_t tensor;
	uint64_t first, count;
};

struct fsdp_mapped_elements {
	struct fsdp_locator *locator;
	const struct fsdp_mapped *mapped;
	uint64_t at, end; /* elements of the mapped tensor */
	uint32_t width;
	struct fsdp_mapped_sums sums;
	struct fsdp_elements *stream; /* of the run that is passed on, or NULL */
	unsigned char *window, *source;
};

/* ---- where elements lie ---- */

/* From the element `at` on of the strands of a turn. */
static struct run run_in_turn(const struct fsdp_block *block, uint64_t turn, uint64_t at)
{
	const struct fsdp_strand *strand = block->strands;
	for (;; strand++) {
		uint64_t numel = strand->counts[0] * strand->counts[1] * strand->run;
		if (at < numel)
			break;
		at -= numel;
	}
	uint64_t row = at / strand->run, within = at % strand->run;
	uint64_t outer = row / strand->counts[1], inner = row % strand->counts[1];
	return (struct run){
		.tensor = strand->tensor,
		.first = strand->first + turn * strand->step + outer * strand->steps[0] +
			 inner * strand->steps[1] + within,
		.count = strand->run - within,
	};
}

static const struct fsdp_block *block_at(
	const struct fsdp_mapped *mapped, uint64_t at, uint64_t *ret_within)
{
	const struct fsdp_block *block = mapped->blocks;
	while (at >= block->turns * block->turn_numel) {
		at -= block->turns * block->turn_numel;
		block++;
	}
	*ret_within = at;
	return block;
}

/* The run that element `at` begins, of at most so many. */
static struct run run_at(const struct fsdp_mapped *mapped, uint64_t at, uint64_t most)
{
	struct run run = { mapped->tensor, at, most };
	if (mapped->blocks != NULL) {
		uint64_t within;
		const struct fsdp_block *block = block_at(mapped, at, &within);
		run = run_in_turn(
			block, within / block->turn_numel, within % block->turn_numel);
	}
	run.count = fsdp_min(run.count, most);
	return run;
}

/* Whether runs from here on are long enough to be read one by one; else *ret_end is how
 * far they are alike. */
static bool is_long(const struct fsdp_mapped_elements *elements, uint64_t *ret_end)
{
	uint64_t within;
	if (elements->mapped->blocks == NULL)
		return true;
	const struct fsdp_block *block =
		block_at(elements->mapped, elements->at, &within);
	*ret_end = elements->at - within + block->turns * block->turn_numel;
	for (size_t i = 0; i < block->count; i++)
		if (block->strands[i].run * elements->width < LONG_RUN &&
			block->turns * block->strands[i].counts[0] *
					block->strands[i].counts[1] >
				1)
			return false;
	return true;
}

/* ---- runs ---- */

static bool take_sums(
	struct fsdp_mapped_elements *elements, struct fsdp_error **ret_error)
{
	size_t count;
	if (elements->sums.take == NULL)
		return true;
	const struct fsdp_elements_run *runs =
		fsdp_elements_runs(elements->stream, &count);
	return elements->sums.take(elements->sums.context, runs, count, ret_error);
}

static bool open_run(struct fsdp_mapped_elements *elements, const struct run *run,
	struct fsdp_error **ret_error)
{
	const struct fsdp_elements_options options = {
		.size = sizeof options,
		.first = run->first,
		.count = run->count,
		.resolve = true,
		.sums = elements->sums.take != NULL,
	};
	return fsdp_elements_open(
		elements->locator, run->tensor, &options, &elements->stream, ret_error);
}

static bool close_run(
	struct fsdp_mapped_elements *elements, struct fsdp_error **ret_error)
{
	bool good = take_sums(elements, ret_error);
	fsdp_elements_close(elements->stream);
	elements->stream = NULL;
	return good;
}

static bool fail_short(struct fsdp_error **ret_error)
{
	return fsdp_fail(ret_error, FSDP_ERROR_INTERNAL, FSDP_UNKNOWN,
		"a tensor gave fewer elements than it has");
}

/* ---- gathering ---- */

/* What of a window lies in some elements of one stored tensor, which are in `source`. */
static void scatter(struct fsdp_mapped_elements *elements, uint32_t tensor,
	uint64_t first, uint64_t count, uint64_t window)
{
	uint32_t width = elements->width;
	for (uint64_t at = 0; at < window;) {
		struct run run = run_at(elements->mapped, elements->at + at, window - at);
		uint64_t begin = run.first > first ? run.first : first;
		uint64_t end = fsdp_min(run.first + run.count, first + count);
		if (run.tensor == tensor && begin < end)
			memcpy(elements->window + (at + begin - run.first) * width,
				elements->source + (begin - first) * width,
				(size_t)((end - begin) * width));
		at += run.count;
	}
}

/* Fills `source`. */
static bool read_source(struct fsdp_mapped_elements *elements, const struct run *run,
	struct fsdp_error **ret_error)
{
	uint64_t size = run->count * elements->width, got = 0;
	struct fsdp_span bytes;
	if (!open_run(elements, run, ret_error))
		return false;
	for (;;) {
		if (!fsdp_elements_next(elements->stream, &bytes, ret_error))
			return false;
		if (bytes.size == 0)
			break;
		if (bytes.size > size - got)
			return fail_short(ret_error);
		memcpy(elements->source + got, bytes.data, bytes.size);
		got += bytes.size;
	}
	return close_run(elements, ret_error) && (got == size || fail_short(ret_error));
}

/* All elements of one stored tensor that a window needs: `from` is the first one, `to`
 * behind the last. */
static bool gather_from(struct fsdp_mapped_elements *elements, uint32_t tensor,
	uint64_t from, uint64_t to, uint64_t window, struct fsdp_error **ret_error)
{
	uint64_t most = WINDOW / elements->width;
	while (from < to) {
		struct run run = { tensor, from, fsdp_min(most, to - from) };
		if (!read_source(elements, &run, ret_error))
			return false;
		scatter(elements, tensor, run.first, run.count, window);
		from += run.count;
	}
	return true;
}

/* Which elements of a stored tensor lie in the window; none: from is behind to. */
static void find_span(const struct fsdp_mapped_elements *elements, uint32_t tensor,
	uint64_t window, uint64_t *ret_from, uint64_t *ret_to)
{
	*ret_from = UINT64_MAX;
	*ret_to = 0;
	for (uint64_t at = 0; at < window;) {
		struct run run = run_at(elements->mapped, elements->at + at, window - at);
		at += run.count;
		if (run.tensor != tensor)
			continue;
		*ret_from = fsdp_min(*ret_from, run.first);
		if (run.first + run.count > *ret_to)
			*ret_to = run.first + run.count;
	}
}

static bool take_buffers(
	struct fsdp_mapped_elements *elements, struct fsdp_error **ret_error)
{
	if (elements->window == NULL)
		elements->window = malloc(WINDOW);
	if (elements->source == NULL)
		elements->source = malloc(WINDOW);
	return (elements->window != NULL && elements->source != NULL) ||
	       fsdp_fail_memory(ret_error);
}

static bool gather(struct fsdp_mapped_elements *elements, uint64_t end,
	struct fsdp_span *ret_bytes, struct fsdp_error **ret_error)
{
	uint64_t within, window = fsdp_min(WINDOW / elements->width,
				 fsdp_min(end, elements->end) - elements->at);
	const struct fsdp_block *block =
		block_at(elements->mapped, elements->at, &within);
	if (!take_buffers(elements, ret_error))
		return false;
	for (size_t i = 0; i < block->count; i++) {
		uint32_t tensor = block->strands[i].tensor;
		uint64_t from, to;
		if (i != 0 && tensor == block->strands[i - 1].tensor)
			continue;
		find_span(elements, tensor, window, &from, &to);
		if (!gather_from(elements, tensor, from, to, window, ret_error))
			return false;
	}
	*ret_bytes = fsdp_span(elements->window, window * elements->width);
	elements->at += window;
	return true;
}

/* The next bytes of the run that is open, or of the next one. */
static bool pass_on(struct fsdp_mapped_elements *elements, struct fsdp_span *ret_bytes,
	struct fsdp_error **ret_error)
{
	for (;;) {
		if (elements->stream == NULL) {
			struct run run = run_at(elements->mapped, elements->at,
				elements->end - elements->at);
			if (!open_run(elements, &run, ret_error))
				return false;
		}
		if (!fsdp_elements_next(elements->stream, ret_bytes, ret_error))
			return false;
		if (ret_bytes->size != 0) {
			elements->at += ret_bytes->size / elements->width;
			return elements->at <= elements->end || fail_short(ret_error);
		}
		if (!close_run(elements, ret_error))
			return false;
		uint64_t end;
		if (elements->at == elements->end)
			return true;
		if (!is_long(elements, &end))
			return gather(elements, end, ret_bytes, ret_error);
	}
}

/* ---- the stream ---- */

bool fsdp_mapped_open(struct fsdp_locator *locator, const struct fsdp_mapped *mapped,
	uint64_t first, uint64_t count, struct fsdp_mapped_elements **ret_elements,
	struct fsdp_error **ret_error)
{
	struct fsdp_mapped_elements *elements = calloc(1, sizeof *elements);
	if (elements == NULL)
		return fsdp_fail_memory(ret_error);
	elements->locator = locator;
	elements->mapped = mapped;
	elements->width = fsdp_dtype(mapped->dtype)->storage_bytes;
	elements->at = first;
	elements->end = first + count;
	*ret_elements = elements;
	return true;
}

void fsdp_mapped_sum(
	struct fsdp_mapped_elements *elements, const struct fsdp_mapped_sums *sums)
{
	elements->sums = *sums;
}

bool fsdp_mapped_next(struct fsdp_mapped_elements *elements, struct fsdp_span *ret_bytes,
	struct fsdp_error **ret_error)
{
	uint64_t end;
	*ret_bytes = fsdp_span(NULL, 0);
	if (elements->stream == NULL && elements->at == elements->end)
		return true;
	if (elements->stream != NULL || is_long(elements, &end))
		return pass_on(elements, ret_bytes, ret_error);
	return gather(elements, end, ret_bytes, ret_error);
}

void fsdp_mapped_close(struct fsdp_mapped_elements *elements)
{
	if (elements == NULL)
		return;
	fsdp_elements_close(elements->stream);
	free(elements->window);
	free(elements->source);
	free(elements);
}

/* ---- what it costs ---- */

static bool is_packed(
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_mapped *mapped)
{
	for (size_t i = 0; i < mapped->block_count; i++)
		for (size_t k = 0; k < mapped->blocks[i].count; k++)
			if (fsdp_tensor_is_packed(
				    checkpoint, mapped->blocks[i].strands[k].tensor))
				return true;
	return false;
}

uint64_t fsdp_mapped_cost(
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_mapped *mapped)
{
	uint64_t width = fsdp_dtype(mapped->dtype)->storage_bytes, bytes;
	if (!fsdp_mul(mapped->numel, width, &bytes))
		return UINT64_MAX;
	if (is_packed(checkpoint, mapped) && !fsdp_mul(bytes, 1 + bytes / WINDOW, &bytes))
		return UINT64_MAX;
	return bytes;
}
