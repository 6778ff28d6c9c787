/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARED_TENSOR_READING_H
#define SHARED_TENSOR_READING_H

#include <fsdp/model.h>

#include "args/parse.h"
#include "args/select.h"
#include "shared/tensor-row.h"
#include "shared/stored-values.h"

/*
 * Where payloads begin, for many pieces at once: they are asked for in the order of files
 * and offsets, so that neighbors are read together, whatever order they are shown in.
 */

/* Called for each piece that was found; `position` is its place in the list. */
typedef void place_function(
	void *context, size_t position, const struct fsdp_place *place);

/* The locator of the checkpoint, made on first use. */
struct fsdp_locator *run_locator(struct run *run);

/* Reads the elements of both. False: they, the shapes or the dtypes differ, or one cannot
 * be read, which is reported elsewhere. */
bool tensors_are_equal(struct run *run, uint32_t a, uint32_t b);

/*
 * Pieces that cannot be located are reported once a message, through run_failure, and
 * make *status partial.
 */
void places_find(struct run *run, const uint32_t *pieces, size_t count,
	place_function *found, void *context, int *status);

/* The same for callers that keep what was found: a list of the run with one place per
 * piece, which may be unknown. */
struct place_facts *places_list(
	struct run *run, const uint32_t *pieces, size_t count, int *status);

/* "FILE: MEMBER: offset N: what is wrong". Without the file if that is the
 * input itself, which the message names anyway. */
char *place_error_text(struct run *run, const struct fsdp_error *error);

/* Whether its elements are in some file: those of sparse and meta tensors are not. */
bool elements_are_stored(const struct fsdp_tensor *tensor);

/* Bytes that elements_copy needs for so many elements. */
size_t elements_room(const struct fsdp_tensor *tensor, uint64_t count);

/*
 * Reads `count` elements of a tensor from `first` on; of those that share a byte each
 * gets one of its own. There must be as many, and elements_room at `to`. `tensor` is what
 * fsdp_tensor says of `index`. False: they cannot be read.
 */
bool elements_copy(struct fsdp_locator *locator, uint32_t index,
	const struct fsdp_tensor *tensor, uint64_t first, uint64_t count,
	unsigned char *to, struct fsdp_error **ret_error);

/* What commands that read the bytes of many tensors or files have in common. */

/* Progress function of the library; context is the struct fsdp_recording_progress that
 * progress_begin got. False: the user interrupted it. */
bool reading_progress(void *context, uint64_t done_bytes, uint64_t total_bytes);

/* Tensors that are selected, in their order: a list of the run. */
uint32_t *reading_choose(struct run *run, struct selection *selection,
	struct name_buffer *buffer, size_t *ret_count);

/* Reports why a tensor or file could not be read: the first few, counted in the last
 * argument. */
void reading_failed(struct run *run, struct text name, const struct fsdp_error *error,
	size_t *printed);

/* Reports the number of further ones, after all were reported. */
void reading_failed_end(struct run *run, size_t printed);

#endif
