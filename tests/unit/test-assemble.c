/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors cut and stored in every way, put together again. Element number n of a tensor
 * holds bytes that follow from n, so that one that is out of place shows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "deflate-setup.h"

#include "base/error.h"
#include "base/arena.h"
#include "elements/elements-private.h"
#include "checkpoint/model.h"

enum { PIECES_MOST = 64, FILES = 3, DIMS_MOST = 5 };

struct cut {
	bool is_run, missing;
	int64_t offsets[DIMS_MOST], sizes[DIMS_MOST];
	uint64_t start, count;
	struct fsdp_view view;
};

struct sample {
	struct fsdp_assemble_input input;
	int64_t shape[DIMS_MOST];
	struct cut cuts[PIECES_MOST];
	unsigned char *files[FILES];
	size_t used[FILES], room;
	bool big_endian;
	unsigned views_asked;
};

static uint64_t random_state;

static uint64_t below(uint64_t bound)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % bound;
}

/* ---- what the assembler asks ---- */

static struct fsdp_part part_of(void *context, uint32_t piece)
{
	const struct sample *sample = context;
	const struct cut *cut = &sample->cuts[piece];
	return (struct fsdp_part){
		.offsets = cut->is_run ? NULL : cut->offsets,
		.sizes = cut->is_run ? NULL : cut->sizes,
		.start = cut->start,
		.count = cut->count,
		.missing = cut->missing,
	};
}

static bool view_of(void *context, uint32_t piece, struct fsdp_view *ret_view,
	struct fsdp_error **ret_error)
{
	struct sample *sample = context;
	sample->views_asked++;
	if (sample->cuts[piece].missing)
		return fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, 0, "missing");
	*ret_view = sample->cuts[piece].view;
	return true;
}

static bool source_of(void *context, uint32_t file, struct fsdp_source *ret_source,
	struct fsdp_error **ret_error)
{
	const struct sample *sample = context;
	(void)ret_error;
	*ret_source = fsdp_source_memory(
		(struct fsdp_span){ sample->files[file], sample->used[file] });
	return true;
}

/* ---- samples ---- */

static size_t width_of(const struct sample *sample)
{
	return fsdp_dtype(sample->input.dtype)->storage_bytes;
}

static void sample_init(
	struct sample *sample, const char *dtype, size_t dims, const int64_t *shape)
{
	memset(sample, 0, sizeof *sample);
	sample->input = (struct fsdp_assemble_input){
		.dtype = fsdp_dtype_find((struct fsdp_span){
			(const unsigned char *)dtype, strlen(dtype) }),
		.dims = (uint32_t)dims,
		.shape = sample->shape,
		.numel = 1,
		.count = UINT64_MAX,
		.inflate_ceiling = UINT64_MAX,
		.context = sample,
		.part = part_of,
		.view = view_of,
		.source = source_of,
	};
	for (size_t i = 0; i < dims; i++) {
		sample->shape[i] = shape[i];
		sample->input.numel *= (uint64_t)shape[i];
	}
	/* Views with gaps take more than the elements, and so does what deflates badly.
	 */
	sample->room = (sample->input.numel < 1 << 20 ? 8 : 4) * width_of(sample) *
			       (size_t)(sample->input.numel % (8 << 20)) +
		       (1 << 20);
	for (size_t i = 0; i < FILES; i++)
		sample->files[i] = malloc(sample->room);
}

static void sample_done(struct sample *sample)
{
	for (size_t i = 0; i < FILES; i++)
		free(sample->files[i]);
}

static void make_element(uint64_t number, size_t width, unsigned char *bytes)
{
	uint64_t mixed = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
	memcpy(bytes, (uint64_t[]){ mixed, mixed >> 7 | 1 }, width);
}

/* The number of an element of a piece in the tensor. */
static uint64_t number_of(
	const struct sample *sample, const struct cut *cut, const int64_t *index)
{
	uint64_t number = 0;
	if (cut->is_run)
		return cut->start + (uint64_t)index[0];
	for (size_t i = 0; i < sample->input.dims; i++)
		number = number * (uint64_t)sample->shape[i] +
			 (uint64_t)(cut->offsets[i] + index[i]);
	return number;
}

static bool next_index(const struct fsdp_view *view, int64_t *index)
{
	for (size_t i = view->dims; i-- > 0;) {
		if (++index[i] < view->shape[i])
			return true;
		index[i] = 0;
	}
	return false;
}

static void write_element(const struct sample *sample, unsigned char *storage,
	uint64_t place, uint64_t number)
{
	size_t width = width_of(sample);
	unsigned char element[16], *to = storage + place * width;
	make_element(number, width, sample->big_endian ? element : to);
	for (size_t i = 0; sample->big_endian && i < width; i++)
		to[i] = element[width - 1 - i];
}

static void fill_storage(
	const struct sample *sample, const struct cut *cut, unsigned char *storage)
{
	int64_t index[DIMS_MOST] = { 0 };
	do {
		uint64_t place = cut->view.storage_offset;
		for (size_t i = 0; i < cut->view.dims; i++)
			place += (uint64_t)(index[i] * cut->view.strides[i]);
		write_element(sample, storage, place, number_of(sample, cut, index));
	} while (next_index(&cut->view, index));
}

/* Puts the storage of a piece, whose view has strides already, into a file. */
static void store(struct sample *sample, struct cut *cut, bool deflated)
{
	struct fsdp_view *view = &cut->view;
	uint32_t file = (uint32_t)below(FILES);
	uint64_t end = view->storage_offset + 1;
	for (size_t i = 0; i < view->dims; i++)
		end += (uint64_t)((view->shape[i] - 1) * view->strides[i]);
	size_t size = (size_t)end * width_of(sample) + below(9);
	unsigned char *storage = calloc(1, size);
	fill_storage(sample, cut, storage);
	sample->used[file] += below(100);
	view->file = file;
	view->record = sample->used[file];
	view->storage_bytes = size;
	view->method = deflated ? 8 : 0;
	view->big_endian = sample->big_endian;
	assert_true(sample->used[file] + 2 * size + 1000 < sample->room);
	unsigned char *to = sample->files[file] + sample->used[file];
	if (deflated) {
		size = deflate_raw(fsdp_span(storage, size), to, 2 * size + 1000);
	} else {
		memcpy(to, storage, size);
	}
	view->stored_size = size;
	sample->used[file] += size;
	free(storage);
}

/* Strides in a random order of the dimensions, with random gaps. */
static void lay_out(const struct sample *sample, struct cut *cut, bool shuffled)
{
	struct fsdp_view *view = &cut->view;
	size_t order[DIMS_MOST];
	uint64_t stride = 1;
	view->dtype = sample->input.dtype;
	view->dims = cut->is_run ? 1 : sample->input.dims;
	for (size_t i = 0; i < view->dims; i++) {
		view->shape[i] = cut->is_run ? (int64_t)cut->count : cut->sizes[i];
		order[i] = view->dims - 1 - i;
	}
	for (size_t i = view->dims; shuffled && i > 1; i--) {
		size_t other = below(i), held = order[i - 1];
		order[i - 1] = order[other];
		order[other] = held;
	}
	for (size_t i = 0; i < view->dims; i++) {
		if (shuffled && below(4) == 0)
			stride += below(3);
		view->strides[order[i]] = (int64_t)stride;
		stride *= (uint64_t)view->shape[order[i]];
	}
	view->storage_offset = shuffled ? below(20) : 0;
}

static struct cut *add_cut(struct sample *sample)
{
	assert_true(sample->input.piece_count < PIECES_MOST);
	return &sample->cuts[sample->input.piece_count++];
}

static struct cut *add_whole(struct sample *sample)
{
	struct cut *cut = add_cut(sample);
	memcpy(cut->sizes, sample->shape, sizeof cut->sizes);
	return cut;
}

static void split_boxes(struct sample *sample, size_t times)
{
	add_whole(sample);
	for (size_t i = 0; i < times && sample->input.dims != 0; i++) {
		struct cut *one = &sample->cuts[below(sample->input.piece_count)];
		size_t dim = below(sample->input.dims);
		if (one->sizes[dim] < 2)
			continue;
		int64_t at = 1 + (int64_t)below((uint64_t)one->sizes[dim] - 1);
		struct cut *other = add_cut(sample);
		*other = *one;
		one->sizes[dim] = at;
		other->offsets[dim] += at;
		other->sizes[dim] -= at;
	}
}

static void split_runs(struct sample *sample, size_t times)
{
	uint64_t at = 0, numel = sample->input.numel;
	for (size_t i = 0; i <= times; i++) {
		struct cut *cut = add_cut(sample);
		cut->is_run = true;
		cut->start = at;
		cut->count = i == times ? numel - at : below(numel - at + 1);
		at += cut->count;
	}
}

/* ---- looking ---- */

static uint64_t elements_of(const struct sample *sample)
{
	uint64_t first = sample->input.first, numel = sample->input.numel;
	uint64_t left = first < numel ? numel - first : 0;
	return left < sample->input.count ? left : sample->input.count;
}

/* All elements are what they should be. */
static void check(struct sample *sample)
{
	struct fsdp_assembly *assembly = NULL;
	struct fsdp_error *error = NULL;
	struct fsdp_span bytes;
	size_t width = width_of(sample);
	uint64_t number = sample->input.first, end = number + elements_of(sample);
	assert_true(fsdp_assembly_new(&sample->input, &assembly, &error));
	for (;;) {
		assert_true(fsdp_assembly_next(assembly, &bytes, &error));
		if (bytes.size == 0)
			break;
		assert_int_equal(bytes.size % width, 0);
		for (size_t i = 0; i < bytes.size; i += width, number++) {
			unsigned char expected[16];
			make_element(number, width, expected);
			if (memcmp(bytes.data + i, expected, width) != 0)
				fail_msg("element %llu", (unsigned long long)number);
		}
	}
	assert_int_equal(number, end);
	fsdp_assembly_free(assembly);
}

/* The bytes of a small tensor. */
static void check_bytes(
	struct sample *sample, const unsigned char *expected, size_t expected_size)
{
	struct fsdp_assembly *assembly = NULL;
	struct fsdp_error *error = NULL;
	struct fsdp_span bytes;
	assert_true(fsdp_assembly_new(&sample->input, &assembly, &error));
	assert_true(fsdp_assembly_next(assembly, &bytes, &error));
	assert_int_equal(bytes.size, expected_size);
	assert_memory_equal(bytes.data, expected, expected_size);
	assert_true(fsdp_assembly_next(assembly, &bytes, &error));
	assert_int_equal(bytes.size, 0);
	fsdp_assembly_free(assembly);
}

static void check_fails(
	struct sample *sample, enum fsdp_error_code code, const char *message)
{
	struct fsdp_assembly *assembly = NULL;
	struct fsdp_error *error = NULL;
	struct fsdp_span bytes = { NULL, 1 };
	if (fsdp_assembly_new(&sample->input, &assembly, &error))
		while (bytes.size != 0 && fsdp_assembly_next(assembly, &bytes, &error))
			;
	assert_non_null(error);
	assert_string_equal(fsdp_error_message(error), message);
	assert_int_equal(fsdp_error_code(error), code);
	fsdp_error_free(error);
	fsdp_assembly_free(assembly);
}

/* ---- cut and stored in every way ---- */

static const char *const DTYPES[] = { "uint8", "int16", "float32", "float64",
	"complex128" };

static void a_random_tensor(uint64_t numel_most)
{
	struct sample sample;
	int64_t shape[DIMS_MOST];
	size_t dims = below(DIMS_MOST);
	bool deflated = below(3) == 0;
	for (size_t i = 0; i < dims; i++) {
		shape[i] = 1 + (int64_t)below(below(3) == 0 ? 1000 : 12);
		while (numel_most / (uint64_t)shape[i] == 0)
			shape[i] /= 2;
		numel_most /= (uint64_t)shape[i];
	}
	sample_init(&sample, DTYPES[below(5)], dims, shape);
	sample.big_endian = below(4) == 0 && !fsdp_dtype(sample.input.dtype)->is_complex;
	if (below(4) == 0)
		split_runs(&sample, below(20));
	else
		split_boxes(&sample, below(20));
	for (uint32_t i = 0; i < sample.input.piece_count; i++) {
		struct cut *cut = &sample.cuts[i];
		if (cut->is_run && cut->count == 0)
			continue;
		lay_out(&sample, cut, below(2) == 0);
		store(&sample, cut, deflated && below(2) == 0);
	}
	for (uint32_t i = (uint32_t)below(4), count = sample.input.piece_count; i < count;
		i += 3) {
		struct cut *copy = add_cut(&sample);
		*copy = sample.cuts[i];
		copy->missing = below(2) == 0;
		if (!copy->missing && below(2) == 0)
			sample.cuts[i].missing = true;
	}
	check(&sample);
	sample.input.first = below(sample.input.numel + 1);
	sample.input.count = below(sample.input.numel + 10);
	check(&sample);
	sample_done(&sample);
}

static void pieces_become_the_tensor(void **state)
{
	(void)state;
	random_state = 1;
	for (size_t i = 0; i < 800; i++)
		a_random_tensor(2000);
}

static void larger_tensors_take_several_chunks(void **state)
{
	(void)state;
	random_state = 2;
	for (size_t i = 0; i < 25; i++)
		a_random_tensor(400000);
}

/* Some 20 MiB, so that a window, a kept record and a chunk are all too small; of wide
 * elements, where their number decides nothing. */
static void a_large_view(bool deflated, bool transposed, const char *dtype, int64_t rows)
{
	struct sample sample;
	sample_init(&sample, dtype, 2, (int64_t[]){ rows, 2500 });
	struct cut *cut = add_whole(&sample);
	lay_out(&sample, cut, false);
	if (transposed) {
		cut->view.strides[0] = 1;
		cut->view.strides[1] = rows;
	}
	store(&sample, cut, deflated);
	check(&sample);
	sample_done(&sample);
}

static void views_larger_than_all_windows(void **state)
{
	(void)state;
	a_large_view(false, false, "complex128", 525);
	a_large_view(false, true, "complex128", 525);
	a_large_view(true, false, "complex128", 525);
	a_large_view(true, true, "int16", 2100);
}

/* Inflating it once per chunk would break the ceiling, once per element by far. */
static void a_transposed_record_is_inflated_once(void **state)
{
	(void)state;
	struct sample sample;
	sample_init(&sample, "float32", 2, (int64_t[]){ 2100, 2500 });
	struct cut *cut = add_whole(&sample);
	lay_out(&sample, cut, false);
	cut->view.strides[0] = 1;
	cut->view.strides[1] = 2100;
	store(&sample, cut, true);
	sample.input.inflate_ceiling = cut->view.storage_bytes;
	check(&sample);
	sample.input.inflate_ceiling = 10500000;
	check_fails(&sample, FSDP_ERROR_LIMIT, "limit inflate-bytes (10500000) reached");
	sample_done(&sample);
}

/* ---- views of one storage ---- */

/* A storage of 12 elements 0 to 11 of uint8, viewed with these strides. */
static struct cut *view_twelve(struct sample *sample, size_t dims, const int64_t *shape,
	const int64_t *strides, uint64_t offset)
{
	sample_init(sample, "uint8", dims, shape);
	struct cut *cut = add_whole(sample);
	cut->view = (struct fsdp_view){ .dtype = sample->input.dtype,
		.dims = (uint32_t)dims,
		.storage_offset = offset,
		.storage_bytes = 12,
		.stored_size = 12 };
	for (size_t i = 0; i < dims; i++) {
		cut->view.shape[i] = shape[i];
		cut->view.strides[i] = strides[i];
	}
	for (unsigned char i = 0; i < 12; i++)
		sample->files[0][i] = i;
	sample->used[0] = 12;
	return cut;
}

static void overlapping_views_of_a_storage(void **state)
{
	(void)state;
	struct sample sample;
	view_twelve(&sample, 2, (int64_t[]){ 3, 4 }, (int64_t[]){ 0, 1 }, 2);
	check_bytes(&sample, (unsigned char[]){ 2, 3, 4, 5, 2, 3, 4, 5, 2, 3, 4, 5 }, 12);
	sample_done(&sample);
	view_twelve(&sample, 2, (int64_t[]){ 3, 4 }, (int64_t[]){ 1, 0 }, 9);
	check_bytes(&sample,
		(unsigned char[]){ 9, 9, 9, 9, 10, 10, 10, 10, 11, 11, 11, 11 }, 12);
	sample_done(&sample);
	view_twelve(&sample, 2, (int64_t[]){ 3, 4 }, (int64_t[]){ 2, 1 }, 0);
	check_bytes(&sample, (unsigned char[]){ 0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7 }, 12);
	sample_done(&sample);
	view_twelve(&sample, 2, (int64_t[]){ 2, 3 }, (int64_t[]){ 3, 4 }, 0);
	check_bytes(&sample, (unsigned char[]){ 0, 4, 8, 3, 7, 11 }, 6);
	sample_done(&sample);
	view_twelve(&sample, 0, NULL, NULL, 7);
	check_bytes(&sample, (unsigned char[]){ 7 }, 1);
	sample_done(&sample);
	/* The stride of a dimension of one means nothing. */
	view_twelve(&sample, 2, (int64_t[]){ 1, 2 }, (int64_t[]){ INT64_MAX, 5 }, 1);
	check_bytes(&sample, (unsigned char[]){ 1, 6 }, 2);
	sample_done(&sample);
}

static void a_huge_expanded_view_streams(void **state)
{
	(void)state;
	struct sample sample;
	struct fsdp_assembly *assembly = NULL;
	struct fsdp_error *error = NULL;
	struct fsdp_span bytes;
	const int64_t shape[] = { INT64_C(1) << 31, INT64_C(1) << 31 };
	view_twelve(&sample, 2, shape, (int64_t[]){ 0, 0 }, 5);
	assert_true(fsdp_assembly_new(&sample.input, &assembly, &error));
	for (size_t i = 0; i < 3; i++) {
		assert_true(fsdp_assembly_next(assembly, &bytes, &error));
		assert_in_range(bytes.size, 1, 64 << 20);
		assert_int_equal(bytes.data[bytes.size - 1], 5);
	}
	fsdp_assembly_free(assembly);
	/* Its very last element. */
	sample.input.first = sample.input.numel - 1;
	check_bytes(&sample, (unsigned char[]){ 5 }, 1);
	sample_done(&sample);
}

static void views_beyond_their_storage_are_refused(void **state)
{
	(void)state;
	struct sample sample;
	static const char BEYOND[] = "the tensor reaches beyond its storage";
	struct cut *cut =
		view_twelve(&sample, 2, (int64_t[]){ 3, 4 }, (int64_t[]){ 4, 1 }, 1);
	check_fails(&sample, FSDP_ERROR_DAMAGED, BEYOND);
	cut->view.storage_offset = UINT64_MAX;
	check_fails(&sample, FSDP_ERROR_DAMAGED, BEYOND);
	cut->view.storage_offset = 0;
	cut->view.strides[0] = INT64_MAX;
	check_fails(&sample, FSDP_ERROR_DAMAGED, BEYOND);
	cut->view.strides[0] = -4;
	check_fails(&sample, FSDP_ERROR_DAMAGED, BEYOND);
	cut->view.strides[0] = 4;
	cut->view.stored_size = 11;
	check_fails(&sample, FSDP_ERROR_DAMAGED,
		"the storage's record is shorter than the tensor");
	cut->view.stored_size = 12;
	cut->view.record = 1;
	check_fails(&sample, FSDP_ERROR_DAMAGED,
		"12 bytes are needed here, but the end is at byte 12");
	cut->view.record = 0;
	cut->view.method = 12;
	check_fails(&sample, FSDP_ERROR_UNSUPPORTED,
		"compressed with method 12: only 0 and 8 can be read");
	cut->view.method = 0;
	cut->view.shape[0] = 2;
	check_fails(&sample, FSDP_ERROR_DAMAGED,
		"the piece has another shape or dtype than its tensor");
	sample_done(&sample);
}

/* ---- what cannot be a tensor ---- */

/* 4x6 in four pieces of 2x3. */
static void make_four(struct sample *sample)
{
	sample_init(sample, "float32", 2, (int64_t[]){ 4, 6 });
	for (int64_t i = 0; i < 4; i++) {
		struct cut *cut = add_cut(sample);
		cut->offsets[0] = i / 2 * 2;
		cut->offsets[1] = i % 2 * 3;
		cut->sizes[0] = 2;
		cut->sizes[1] = 3;
		lay_out(sample, cut, false);
		store(sample, cut, false);
	}
}

static void gaps_and_overlaps_are_told(void **state)
{
	(void)state;
	struct sample sample;
	make_four(&sample);
	check(&sample);
	sample.cuts[2].sizes[1] = sample.cuts[2].view.shape[1] = 2;
	check_fails(&sample, FSDP_ERROR_DAMAGED, "no piece has element [2, 2]");
	sample.input.count = 14;
	check(&sample);
	sample.input.count = UINT64_MAX;
	sample.cuts[2] = sample.cuts[0];
	check_fails(&sample, FSDP_ERROR_DAMAGED,
		"no piece has the 3 elements from [2, 0] to [2, 2]");
	sample.input.piece_count = 2;
	check_fails(&sample, FSDP_ERROR_DAMAGED,
		"no piece has the 12 elements from [2, 0] to [3, 5]");
	sample_done(&sample);
	make_four(&sample);
	sample.cuts[3].offsets[0] = 1;
	check_fails(&sample, FSDP_ERROR_DAMAGED,
		"two different pieces have element [1, 3], or a later one");
	/* Of one corner and width, and of two heights. */
	sample.cuts[3] = sample.cuts[0];
	sample.cuts[3].sizes[0] = sample.cuts[3].view.shape[0] = 1;
	check_fails(&sample, FSDP_ERROR_DAMAGED,
		"two different pieces have element [0, 0], or a later one");
	sample_done(&sample);
	make_four(&sample);
	sample.cuts[3].offsets[0] = 1;
	/* What two hold was not asked for. */
	sample.input.count = 6;
	check(&sample);
	sample_done(&sample);
}

static void pieces_outside_are_refused(void **state)
{
	(void)state;
	struct sample sample;
	static const char OUTSIDE[] = "a piece is outside of the tensor's shape";
	static const int64_t WRONG[] = { -1, 3, INT64_MAX, INT64_MIN };
	make_four(&sample);
	for (size_t i = 0; i < 4; i++) {
		sample.cuts[3].offsets[0] = WRONG[i];
		check_fails(&sample, FSDP_ERROR_DAMAGED, OUTSIDE);
	}
	sample.cuts[3].offsets[0] = 2;
	for (size_t i = 0; i < 4; i++) {
		sample.cuts[3].sizes[0] = WRONG[i];
		check_fails(&sample, FSDP_ERROR_DAMAGED, OUTSIDE);
	}
	sample.cuts[3].is_run = true;
	sample.cuts[3].start = 20;
	sample.cuts[3].count = 5;
	check_fails(&sample, FSDP_ERROR_DAMAGED, OUTSIDE);
	sample.cuts[3].start = UINT64_MAX;
	check_fails(&sample, FSDP_ERROR_DAMAGED, OUTSIDE);
	sample_done(&sample);
}

static void only_what_is_needed_is_located(void **state)
{
	(void)state;
	struct sample sample;
	make_four(&sample);
	sample.input.count = 3;
	check(&sample);
	assert_int_equal(sample.views_asked, 1);
	sample_done(&sample);
}

static void nothing_is_an_answer(void **state)
{
	(void)state;
	struct sample sample;
	sample_init(&sample, "float32", 2, (int64_t[]){ INT64_MAX, 0 });
	check(&sample);
	add_whole(&sample);
	check(&sample);
	sample_done(&sample);
	make_four(&sample);
	sample.input.first = 100;
	check(&sample);
	sample.input.first = 0;
	sample.input.piece_count = 0;
	check_fails(
		&sample, FSDP_ERROR_UNSUPPORTED, "the tensor has no bytes of its own");
	sample.input.dtype = FSDP_DTYPE_UNKNOWN;
	check_fails(&sample, FSDP_ERROR_UNSUPPORTED,
		"elements of this dtype have no known size");
	sample_done(&sample);
}

/* Trailing ranks own nothing, and say so with a box at the end. */
static void empty_pieces_are_passed_over(void **state)
{
	(void)state;
	struct sample sample;
	make_four(&sample);
	for (size_t i = 0; i < 3; i++) {
		struct cut *cut = add_cut(&sample);
		cut->offsets[0] = 4;
		cut->sizes[1] = 6;
		cut->missing = true;
	}
	check(&sample);
	sample_done(&sample);
}

/* ---- what the bytes are not yet ---- */

static void set_element(struct sample *sample, const void *bytes, size_t size)
{
	memcpy(sample->files[0], bytes, size);
	sample->used[0] = size;
	struct cut *cut = add_cut(sample);
	cut->view = (struct fsdp_view){
		.dtype = sample->input.dtype, .storage_bytes = size, .stored_size = size
	};
}

static void conjugates_and_negatives(void **state)
{
	(void)state;
	struct sample sample;
	const float plus[] = { 1.5f, 2.5f }, conjugate[] = { 1.5f, -2.5f },
		    both[] = { -1.5f, 2.5f };
	sample_init(&sample, "complex64", 0, NULL);
	set_element(&sample, plus, sizeof plus);
	sample.cuts[0].view.conj = true;
	check_bytes(&sample, (const unsigned char *)plus, 8);
	sample.input.resolve = true;
	check_bytes(&sample, (const unsigned char *)conjugate, 8);
	sample.cuts[0].view.neg = true;
	check_bytes(&sample, (const unsigned char *)both, 8);
	sample_done(&sample);
	sample_init(&sample, "int16", 0, NULL);
	set_element(&sample, (unsigned char[]){ 0x00, 0x01 }, 2);
	sample.input.resolve = sample.cuts[0].view.neg = true;
	check_bytes(&sample, (unsigned char[]){ 0x00, 0xff }, 2);
	sample_done(&sample);
}

/* Columns of ranks, of which one stored the conjugate. */
static void a_conjugate_beside_another_piece(void **state)
{
	(void)state;
	struct sample sample;
	const int64_t shape[] = { 2, 2 };
	const float stored[] = { 1, 2, 3, 4, 5, 6, 7, 8 },
		    wanted[] = { 1, 2, 5, -6, 3, 4, 7, -8 };
	sample_init(&sample, "complex64", 2, shape);
	set_element(&sample, stored, sizeof stored);
	*add_cut(&sample) = sample.cuts[0];
	for (size_t i = 0; i < 2; i++) {
		struct cut *cut = &sample.cuts[i];
		cut->offsets[1] = (int64_t)i;
		cut->sizes[0] = cut->view.shape[0] = 2;
		cut->sizes[1] = cut->view.shape[1] = 1;
		cut->view.dims = 2;
		cut->view.storage_offset = 2 * i;
		cut->view.conj = i == 1;
		fsdp_view_set_contiguous(&cut->view);
	}
	sample.input.resolve = true;
	check_bytes(&sample, (const unsigned char *)wanted, sizeof wanted);
	sample_done(&sample);
}

static void complex_halves_are_swapped_each(void **state)
{
	(void)state;
	struct sample sample;
	sample_init(&sample, "complex32", 0, NULL);
	set_element(&sample, (unsigned char[]){ 1, 2, 3, 4 }, 4);
	sample.cuts[0].view.big_endian = true;
	check_bytes(&sample, (unsigned char[]){ 2, 1, 4, 3 }, 4);
	sample_done(&sample);
}

static void byte_orders_do_not_mix(void **state)
{
	(void)state;
	struct sample sample;
	make_four(&sample);
	sample.cuts[1].view.big_endian = true;
	check_fails(
		&sample, FSDP_ERROR_UNSUPPORTED, "the pieces differ in their byte order");
	sample_done(&sample);
}

static void several_elements_a_byte(void **state)
{
	(void)state;
	struct sample sample;
	sample_init(&sample, "quint4x2", 2, (int64_t[]){ 3, 3 });
	struct cut *cut = add_whole(&sample);
	cut->view = (struct fsdp_view){ .dtype = sample.input.dtype,
		.dims = 2,
		.storage_bytes = 5,
		.stored_size = 5,
		.shape = { 3, 3 },
		.strides = { 3, 1 } };
	memcpy(sample.files[0], "abcde", 5);
	sample.used[0] = 5;
	check_bytes(&sample, (const unsigned char *)"abcde", 5);
	sample.input.first = 2;
	sample.input.count = 3;
	check_bytes(&sample, (const unsigned char *)"bc", 2);
	sample.input.first = 1;
	check_fails(&sample, FSDP_ERROR_USAGE, "element 1 does not begin a byte");
	sample.input.first = 0;
	cut->view.strides[0] = 1;
	cut->view.strides[1] = 3;
	check_fails(&sample, FSDP_ERROR_UNSUPPORTED,
		"strided views with several elements per byte are not supported");
	cut->sizes[0] = 2;
	check_fails(&sample, FSDP_ERROR_UNSUPPORTED,
		"tensors with several elements per byte in several pieces are not supported");
	sample_done(&sample);
}

/* ---- marks ---- */

static void marks_know_what_lacks(void **state)
{
	(void)state;
	struct fsdp_marks marks = { 0 };
	struct fsdp_error *error = NULL;
	uint64_t first, count;
	assert_true(fsdp_marks_reset(&marks, 300, &error));
	assert_true(fsdp_marks_lacking(&marks, &first, &count));
	assert_int_equal(first, 0);
	assert_int_equal(count, 300);
	assert_true(fsdp_marks_set(&marks, 0, 130));
	assert_true(fsdp_marks_set(&marks, 192, 64));
	assert_true(fsdp_marks_lacking(&marks, &first, &count));
	assert_int_equal(first, 130);
	assert_int_equal(count, 62);
	assert_false(fsdp_marks_set(&marks, 129, 63));
	assert_true(fsdp_marks_set(&marks, 256, 44));
	assert_false(fsdp_marks_lacking(&marks, &first, &count));
	assert_true(fsdp_marks_reset(&marks, 64, &error));
	assert_true(fsdp_marks_set(&marks, 0, 64));
	assert_false(fsdp_marks_lacking(&marks, &first, &count));
	fsdp_marks_done(&marks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_become_the_tensor),
		cmocka_unit_test(larger_tensors_take_several_chunks),
		cmocka_unit_test(views_larger_than_all_windows),
		cmocka_unit_test(a_transposed_record_is_inflated_once),
		cmocka_unit_test(overlapping_views_of_a_storage),
		cmocka_unit_test(a_huge_expanded_view_streams),
		cmocka_unit_test(views_beyond_their_storage_are_refused),
		cmocka_unit_test(gaps_and_overlaps_are_told),
		cmocka_unit_test(pieces_outside_are_refused),
		cmocka_unit_test(only_what_is_needed_is_located),
		cmocka_unit_test(nothing_is_an_answer),
		cmocka_unit_test(empty_pieces_are_passed_over),
		cmocka_unit_test(conjugates_and_negatives),
		cmocka_unit_test(a_conjugate_beside_another_piece),
		cmocka_unit_test(complex_halves_are_swapped_each),
		cmocka_unit_test(byte_orders_do_not_mix),
		cmocka_unit_test(several_elements_a_byte),
		cmocka_unit_test(marks_know_what_lacks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
