/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses tensors to be read, tells how far reading is and what could not be read.
 */
#include <stdlib.h>

#include "part/places.h"
#include "part/tensor-reading.h"
#include "part/tensor-row.h"
#include "run/answer.h"
#include "run/collected.h"

enum { TOLD_MOST = 10 };

bool reading_progress(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
	struct fsdp_recording_progress *progress = context;

	__atomic_store_n(&progress->size, total_bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&progress->read, done_bytes, __ATOMIC_RELAXED);
	return __atomic_load_n(&progress->stop, __ATOMIC_RELAXED) == 0;
}

/* The bytes of a FlatParameter whose parameters are listed too are theirs. */
static bool is_read_by_others(const struct run *run, const struct fsdp_tensor *tensor)
{
	return (tensor->flags & FSDP_TENSOR_SPREAD) != 0 && !run->common->raw;
}

bool reading_choose(struct run *run, struct selection *selection,
	struct name_buffer *buffer, uint32_t **ret_tensors, size_t *ret_count)
{
	size_t count = fsdp_tensor_count(run->checkpoint), kept = 0;
	uint32_t *tensors = malloc((count + 1) * sizeof *tensors);

	*ret_tensors = tensors;
	if (tensors == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(run->checkpoint, i);
		if (is_read_by_others(run, &tensor))
			continue;
		if (selection_is_all(selection) ||
			selection_takes_tensor(selection, run->checkpoint, i,
				span_of_text(tensor_shown_name(run, buffer, &tensor))))
			tensors[kept++] = i;
	}
	*ret_count = kept;
	return !buffer->failed;
}

void reading_told(struct run *run, struct text name, const char *code, const char *hint,
	const char *message, size_t *told)
{
	if ((*told)++ < TOLD_MOST)
		run_failure(run, code, hint, "%.*s%s%s", (int)name.size,
			name.size > 0 ? name.data : "", name.size > 0 ? ": " : "",
			message);
}

void reading_failed(
	struct run *run, struct text name, const struct fsdp_error *error, size_t *told)
{
	const char *code = fsdp_error_code_name(fsdp_error_code(error));
	char *message = place_error_text(run, error);

	if (message != NULL)
		reading_told(run, name, code, fsdp_error_hint(error), message, told);
	else
		run_failure(run, "memory", NULL, "out of memory");
	free(message);
}

void reading_failed_end(struct run *run, size_t told)
{
	const struct collected *collected = run->collected;
	const struct failure *last;

	if (told <= TOLD_MOST || collected->failure_count == 0)
		return;
	/* Most likely for the same reason. */
	last = &collected->failures[collected->failure_count - 1];
	run_failure(run, last->code, last->hint.data, "%zu more could not be read",
		told - TOLD_MOST);
}
