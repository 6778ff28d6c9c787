/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics of tensors: counts blocks while they are read, joins them in order within a
 * range, and joins ranges in order at the end.
 */
#include <math.h>
#include <stdlib.h>

#include <fsdp/elements.h>

#include "base/arena.h"
#include "base/num.h"
#include "elements/elements-private.h"

uint64_t fsdp_value_statistics_finite(const struct fsdp_value_statistics *numbers)
{
	return numbers->count - numbers->nan - numbers->pos_inf - numbers->neg_inf;
}

void fsdp_value_statistics_join(
	struct fsdp_value_statistics *numbers, const struct fsdp_value_statistics *more)
{
	if (fsdp_value_statistics_finite(numbers) == 0) {
		numbers->min = more->min;
		numbers->max = more->max;
		numbers->mean = more->mean;
		numbers->squares = more->squares;
	} else if (fsdp_value_statistics_finite(more) != 0) {
		double before = (double)fsdp_value_statistics_finite(numbers);
		double behind = (double)fsdp_value_statistics_finite(more);
		double apart = more->mean - numbers->mean, all = before + behind;
		numbers->min = more->min < numbers->min ? more->min : numbers->min;
		numbers->max = more->max > numbers->max ? more->max : numbers->max;
		numbers->squares +=
			more->squares + apart * apart * (before / all * behind);
		numbers->mean += apart * (behind / all);
	}
	numbers->count += more->count;
	numbers->nan += more->nan;
	numbers->pos_inf += more->pos_inf;
	numbers->neg_inf += more->neg_inf;
	numbers->zeros += more->zeros;
}

double fsdp_value_statistics_deviation(const struct fsdp_value_statistics *numbers)
{
	uint64_t finite = fsdp_value_statistics_finite(numbers);
	return finite != 0 ? sqrt(numbers->squares / (double)finite) : 0;
}

enum { RANGE = 64 << 20, DECODED = 1024 };

struct counted {
	struct fsdp_value_statistics numbers;
	struct fsdp_error *error; /* owned; the first one */
};

struct counted_range {
	struct fsdp_value_statistics numbers;
	struct fsdp_error *error; /* owned */
	size_t index;
};

struct fsdp_statistics {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_statistics_options options;
	uint32_t *tensors;
	struct counted *list;
	size_t count;
	struct counted_range *ranges; /* while it is made */
	size_t range_count;
	const struct fsdp_statistics_span *spans; /* while bins are counted */
	uint64_t *bins;                           /* of each row; or NULL */
};

/* ---- a block ---- */

/* Sums about zero become sums about the mean of the block, which are small where the
 * numbers are alike. */
static struct fsdp_value_statistics center_moments(const struct fsdp_moments *moments)
{
	struct fsdp_value_statistics numbers = {
		.count = moments->count,
		.nan = moments->nan,
		.pos_inf = moments->pos_inf,
		.neg_inf = moments->neg_inf,
		.zeros = moments->zeros,
	};
	double finite = (double)fsdp_value_statistics_finite(&numbers);
	if (finite == 0)
		return numbers;
	numbers.min = moments->min + 0.0; /* no zero below zero */
	numbers.max = moments->max + 0.0;
	numbers.mean = moments->sum / finite;
	numbers.squares = moments->squares - moments->sum * numbers.mean;
	if (moments->min == moments->max || !(numbers.squares > 0))
		numbers.squares = 0;
	/* The mean of equal numbers is that number, whatever was rounded. */
	if (numbers.mean < numbers.min)
		numbers.mean = numbers.min;
	if (numbers.mean > numbers.max)
		numbers.mean = numbers.max;
	return numbers;
}

/* ---- a range ---- */

static bool count_range(struct fsdp_walker *walker, uint32_t dtype,
	struct fsdp_value_statistics *numbers, struct fsdp_error **ret_error)
{
	uint64_t left = 0;
	struct fsdp_value_statistics some = { 0 };
	struct fsdp_span bytes;
	do {
		/* Where a range is longer, since it could not be cut: as if it were. */
		if (left == 0) {
			fsdp_value_statistics_join(numbers, &some);
			some = (struct fsdp_value_statistics){ 0 };
			left = RANGE;
		}
		if (!fsdp_walk_next(walker, &bytes, ret_error))
			return false;
		struct fsdp_moments moments;
		fsdp_moments_init(&moments);
		fsdp_moments_add(&moments, dtype, false, bytes.data, bytes.size, 0);
		struct fsdp_value_statistics block = center_moments(&moments);
		fsdp_value_statistics_join(&some, &block);
		left -= bytes.size;
	} while (bytes.size != 0);
	fsdp_value_statistics_join(numbers, &some);
	return true;
}

static void visit(
	void *context, struct fsdp_walker *walker, const struct fsdp_walk_range *range)
{
	struct fsdp_statistics *statistics = context;
	struct counted_range *counted = &statistics->ranges[range->number];
	uint32_t tensor = statistics->tensors[range->index];
	uint32_t dtype = fsdp_tensor(statistics->checkpoint, tensor).dtype;
	counted->index = range->index;
	if (!fsdp_moments_takes(dtype))
		fsdp_fail(&counted->error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
			"elements of %s are not counted", fsdp_dtype(dtype)->name);
	else
		(void)count_range(walker, dtype, &counted->numbers, &counted->error);
}

static bool prepare(void *context, size_t range_count)
{
	struct fsdp_statistics *statistics = context;
	statistics->ranges = calloc(range_count + 1, sizeof *statistics->ranges);
	statistics->range_count = range_count;
	return statistics->ranges != NULL;
}

/* ---- bins ---- */

static bool bin_range(struct fsdp_walker *walker, uint32_t dtype,
	const struct fsdp_statistics_span *span, uint64_t *bins,
	struct fsdp_error **ret_error)
{
	size_t width = fsdp_dtype(dtype)->storage_bytes;
	size_t numbers = fsdp_dtype(dtype)->is_complex ? 2 : 1;
	double room[2 * DECODED];
	struct fsdp_span bytes;
	do {
		if (!fsdp_walk_next(walker, &bytes, ret_error))
			return false;
		size_t count = bytes.size / width;
		for (size_t at = 0; at < count; at += DECODED) {
			size_t some = (size_t)fsdp_min(count - at, DECODED);
			fsdp_moments_decode(dtype, bytes.data + at * width, some, room);
			/* Bin of half the number, whose span is finite. NaN, infinities
			 * and numbers outside of the span have no bin. */
			double least = span->low / 2, reach = span->high / 2 - least;
			for (size_t i = 0; i < some * numbers; i++) {
				double number = room[i];
				if (!(number >= span->low && number <= span->high))
					continue;
				double part =
					reach > 0 ? (number / 2 - least) / reach : 0;
				size_t bin = (size_t)(part * FSDP_STATISTICS_BINS);
				bins[bin < FSDP_STATISTICS_BINS
						? bin
						: FSDP_STATISTICS_BINS - 1]++;
			}
		}
	} while (bytes.size != 0);
	return true;
}

/* Counts are whole numbers: in which order they are added up does not matter. */
static void visit_bins(
	void *context, struct fsdp_walker *walker, const struct fsdp_walk_range *range)
{
	struct fsdp_statistics *statistics = context;
	struct counted_range *counted = &statistics->ranges[range->number];
	const struct fsdp_value_statistics *numbers =
		&statistics->list[range->index].numbers;
	struct fsdp_statistics_span span = { numbers->min, numbers->max };
	uint32_t tensor = statistics->tensors[range->index];
	uint32_t dtype = fsdp_tensor(statistics->checkpoint, tensor).dtype;
	uint64_t bins[FSDP_STATISTICS_BINS] = { 0 };
	uint64_t *all = &statistics->bins[range->index * FSDP_STATISTICS_BINS];
	counted->index = range->index;
	if (statistics->spans != NULL)
		span = statistics->spans[range->index];
	if (statistics->list[range->index].error != NULL ||
		fsdp_value_statistics_finite(numbers) == 0)
		return;
	(void)bin_range(walker, dtype, &span, bins, &counted->error);
	for (size_t i = 0; i < FSDP_STATISTICS_BINS; i++)
		__atomic_fetch_add(&all[i], bins[i], __ATOMIC_RELAXED);
}

/* ---- all ranges ---- */

/* ---- which ---- */

static bool walk_ranges(struct fsdp_statistics *statistics,
	void (*visit_range)(void *context, struct fsdp_walker *walker,
		const struct fsdp_walk_range *range),
	struct fsdp_error **ret_error)
{
	const struct fsdp_statistics_options *options = &statistics->options;
	const struct fsdp_walk_options walk = {
		.size = sizeof walk,
		.tensors = statistics->tensors,
		.tensor_count = statistics->count,
		.range_bytes = RANGE,
		.jobs = options->jobs,
		.prepare = prepare,
		.visit = visit_range,
		.context = statistics,
		.progress = options->progress,
		.progress_context = options->progress_context,
	};
	bool good = fsdp_walk(statistics->checkpoint, &walk, ret_error);
	if (good) {
		/* In order, so that the digits do not depend on who was first. */
		FSDP_EACH(i, statistics->range_count, range, &statistics->ranges[i]) {
			struct counted *counted = &statistics->list[range->index];
			fsdp_value_statistics_join(&counted->numbers, &range->numbers);
			if (counted->error == NULL) {
				counted->error = range->error;
				range->error = NULL;
			}
		}
	}
	for (size_t i = 0; statistics->ranges != NULL && i < statistics->range_count; i++)
		fsdp_error_free(statistics->ranges[i].error);
	free(statistics->ranges);
	statistics->ranges = NULL;
	/* Memory that ended is not a property of what was read. */
	if (!good)
		return false;
	for (size_t i = 0; i < statistics->count; i++) {
		const struct fsdp_error *error = statistics->list[i].error;
		if (error != NULL && fsdp_error_code(error) == FSDP_ERROR_MEMORY)
			return fsdp_fail_memory(ret_error);
	}
	return true;
}

static bool make(struct fsdp_statistics *statistics, struct fsdp_error **ret_error)
{
	const struct fsdp_statistics_options *options = &statistics->options;
	size_t count = options->tensors != NULL
			       ? options->tensor_count
			       : fsdp_tensor_count(statistics->checkpoint);
	statistics->tensors =
		FSDP_TAKE(&statistics->arena, statistics->tensors, count + 1);
	if (statistics->tensors == NULL)
		return fsdp_arena_fail(&statistics->arena, ret_error);
	for (; statistics->count < count; statistics->count++)
		statistics->tensors[statistics->count] =
			options->tensors != NULL ? options->tensors[statistics->count]
						 : (uint32_t)statistics->count;
	statistics->list = calloc(statistics->count + 1, sizeof *statistics->list);
	if (statistics->list == NULL)
		return fsdp_fail_memory(ret_error);
	return walk_ranges(statistics, visit, ret_error);
}

bool fsdp_statistics_new(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_statistics_options *options,
	struct fsdp_statistics **ret_statistics, struct fsdp_error **ret_error)
{
	struct fsdp_statistics *statistics = calloc(1, sizeof *statistics);
	if (statistics == NULL)
		return fsdp_fail_memory(ret_error);
	memcpy(&statistics->options, options,
		fsdp_min(options->size, sizeof statistics->options));
	statistics->checkpoint = checkpoint;
	statistics->budget.ceiling = UINT64_MAX;
	fsdp_arena_init(&statistics->arena, &statistics->budget);
	if (!make(statistics, ret_error)) {
		fsdp_statistics_free(statistics);
		return false;
	}
	*ret_statistics = statistics;
	return true;
}

bool fsdp_statistics_bin(struct fsdp_statistics *statistics,
	const struct fsdp_statistics_span *spans, struct fsdp_error **ret_error)
{
	size_t count = (statistics->count + 1) * FSDP_STATISTICS_BINS;
	statistics->bins = calloc(count, sizeof *statistics->bins);
	if (statistics->bins == NULL)
		return fsdp_fail_memory(ret_error);
	statistics->spans = spans;
	bool good = walk_ranges(statistics, visit_bins, ret_error);
	statistics->spans = NULL;
	return good;
}

void fsdp_statistics_free(struct fsdp_statistics *statistics)
{
	if (statistics == NULL)
		return;
	for (size_t i = 0; statistics->list != NULL && i < statistics->count; i++)
		fsdp_error_free(statistics->list[i].error);
	free(statistics->list);
	free(statistics->bins);
	fsdp_arena_done(&statistics->arena);
	free(statistics);
}

size_t fsdp_statistics_count(const struct fsdp_statistics *statistics)
{
	return statistics->count;
}

struct fsdp_statistics_row fsdp_statistics_row(
	const struct fsdp_statistics *statistics, size_t index)
{
	const struct counted *counted = &statistics->list[index];
	return (struct fsdp_statistics_row){
		.tensor = statistics->tensors[index],
		.numbers = counted->numbers,
		.error = counted->error,
		.bins = statistics->bins != NULL
				? &statistics->bins[index * FSDP_STATISTICS_BINS]
				: NULL,
	};
}
