/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors that may have the same bytes. The pass makes the trait of a sample of each: where
 * two of these are equal, which is rare, all bytes of both are read again.
 */
#include <stdlib.h>

#include <fsdp/elements.h>

#include "base/mix.h"
#include "base/num.h"
#include "verify/verify-private.h"

#define MIX UINT64_C(0x9E3779B185EBCA87)

/* ---- all bytes ---- */

/* Bytes as they come, cut into blocks of one size. */
struct blocks {
	struct fsdp_trait trait;
	size_t used;
	unsigned char room[FSDP_SAMPLE_BYTES];
};

static void add_bytes(struct blocks *blocks, struct fsdp_span bytes)
{
	for (size_t at = 0, some; at < bytes.size; at += some) {
		some = fsdp_min(bytes.size - at, sizeof blocks->room - blocks->used);
		memcpy(blocks->room + blocks->used, bytes.data + at, some);
		blocks->used += some;
		if (blocks->used < sizeof blocks->room)
			return;
		fsdp_trait_add(&blocks->trait, blocks->room, blocks->used);
		blocks->used = 0;
	}
}

static bool read_again(struct fsdp_verify *verify, uint32_t tensor,
	struct fsdp_trait *ret_trait, struct fsdp_error **ret_error)
{
	struct fsdp_elements_options options = { .size = sizeof options };
	struct fsdp_elements *elements = NULL;
	struct blocks blocks = { .used = 0 };
	struct fsdp_span bytes;
	bool good = fsdp_elements_open(
		verify->locator, tensor, &options, &elements, ret_error);
	while (good) {
		good = fsdp_elements_next(elements, &bytes, ret_error);
		if (!good || bytes.size == 0)
			break;
		add_bytes(&blocks, bytes);
	}
	fsdp_elements_close(elements);
	fsdp_trait_add(&blocks.trait, blocks.room, blocks.used);
	*ret_trait = blocks.trait;
	return good;
}

/* What cannot be read has no digest. */
static bool see(struct fsdp_verify *verify, uint32_t tensor, struct fsdp_repeats *repeats,
	struct fsdp_error **ret_error)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	struct fsdp_numbers *numbers = &verify->numbers[tensor];
	uint64_t size = fsdp_model_bytes(model, fsdp_model_tensor(model, tensor));
	struct fsdp_error *error = NULL;
	if (!fsdp_repeats_take(repeats, tensor, size, NULL)) {
		verify->lacks |= FSDP_OVER_LIMIT;
		numbers->layout = 0;
		return true;
	}
	if (read_again(verify, tensor, &numbers->trait, &error))
		return true;
	bool memory = fsdp_error_code(error) == FSDP_ERROR_MEMORY;
	fsdp_error_free(error);
	numbers->layout = 0;
	return !memory || fsdp_fail_memory(ret_error);
}

/* ---- which ---- */

/* Of numbers that are all the same nothing else is to be known. */
static bool is_constant(const struct fsdp_verify *verify, uint32_t tensor)
{
	const struct fsdp_moments *m = &verify->numbers[tensor].moments;
	return fsdp_verify_is_known(verify, tensor) && m->count != 0 &&
	       m->bad_index == FSDP_UNKNOWN && m->min == m->max;
}

static void take_constant(struct fsdp_numbers *numbers)
{
	uint64_t bits;
	memcpy(&bits, &numbers->moments.min, sizeof bits);
	numbers->trait.words[0] = fsdp_mix(bits ^ MIX, numbers->moments.count);
	numbers->trait.words[1] = ~numbers->trait.words[0];
}

static int compare_samples(const void *left, const void *right, void *context)
{
	const struct fsdp_numbers *numbers = context;
	const struct fsdp_numbers *a = &numbers[*(const uint32_t *)left],
				  *b = &numbers[*(const uint32_t *)right];
	const uint64_t of_a[] = { a->layout, a->trait.words[0], a->trait.words[1],
		a->moments.count, a->moments.zeros };
	const uint64_t of_b[] = { b->layout, b->trait.words[0], b->trait.words[1],
		b->moments.count, b->moments.zeros };
	for (size_t i = 0; i < FSDP_COUNT(of_a); i++)
		if (of_a[i] != of_b[i])
			return of_a[i] < of_b[i] ? -1 : 1;
	return 0;
}

static size_t list_sampled(struct fsdp_verify *verify, uint32_t *list)
{
	size_t count = 0;
	for (uint32_t i = 0; i < verify->checkpoint->model.tensors.count; i++) {
		struct fsdp_numbers *numbers = &verify->numbers[i];
		if (numbers->due == 0 || numbers->seen != numbers->due ||
			numbers->layout == 0 || !numbers->sampled)
			continue;
		if (is_constant(verify, i))
			take_constant(numbers);
		else
			list[count++] = i;
	}
	return count;
}

bool fsdp_verify_see_equal(struct fsdp_verify *verify, struct fsdp_repeats *repeats,
	struct fsdp_error **ret_error)
{
	size_t most = verify->checkpoint->model.tensors.count;
	uint32_t *list = malloc((most + 1) * sizeof *list);
	bool good = list != NULL || fsdp_fail_memory(ret_error);
	size_t count = good ? list_sampled(verify, list) : 0;
	if (good)
		qsort_r(list, count, sizeof *list, compare_samples, verify->numbers);
	for (size_t i = 0, end; good && i < count; i = end) {
		for (end = i + 1; end < count; end++)
			if (compare_samples(&list[i], &list[end], verify->numbers) != 0)
				break;
		for (size_t k = i; good && end - i > 1 && k < end; k++)
			good = see(verify, list[k], repeats, ret_error);
	}
	free(list);
	return good;
}
