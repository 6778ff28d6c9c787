/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENSOR_READING_H
#define TENSOR_READING_H

#include "front/command.h"
#include "front/select.h"
#include "part/value-text.h"

/* What commands that read the bytes of many tensors or files have in common. */

/* For the library to tell how far it is; context is the struct fsdp_recording_progress that
 * progress_begin was given. False: the user wants no more. */
bool reading_progress(void *context, uint64_t done_bytes, uint64_t total_bytes);

/* Tensors that are selected, in their order; freed by the caller. False: out of memory. */
bool reading_choose(struct run *run, struct selection *selection,
	struct name_buffer *buffer, uint32_t **ret_tensors, size_t *ret_count);

/* Tells why a tensor or file could not be read: the first few, which `told` counts. */
void reading_failed(
	struct run *run, struct text name, const struct fsdp_error *error, size_t *told);

/* The same of an error that a result of a part tells. */
void reading_told(struct run *run, struct text name, const char *code, const char *hint,
	const char *message, size_t *told);

/* Tells how many more there were, when all were reported. */
void reading_failed_end(struct run *run, size_t told);

#endif
