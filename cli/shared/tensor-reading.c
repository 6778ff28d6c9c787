/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads tensors for commands: finds pieces in the cheap order, copies a few elements,
 * prints progress, and reports what could not be read.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/elements.h>

#include "shared/tensor-reading.h"
#include "shared/tensor-row.h"
#include "shared/stored-values.h"
#include "session/diagnostics.h"
#include "session/session.h"

/* ---- Asks for the places of pieces in the cheap order, and reports many failures
 * briefly ---- */

enum { REPORTED_MAX = 3 };

struct question {
	uint64_t order;
	uint32_t file;
	uint32_t position;
};

/* Failures printed so far. */
struct failures {
	struct failure_kind {
		const char *message, *hint, *code;
		uint64_t count;
	} kinds[REPORTED_MAX];
	size_t count;
	uint64_t others;
};

static int by_place(const void *a, const void *b)
{
	const struct question *left = a, *right = b;

	if (left->file != right->file)
		return left->file < right->file ? -1 : 1;
	if (left->order != right->order)
		return left->order < right->order ? -1 : 1;
	return left->position < right->position ? -1 : 1;
}

static size_t collect(const struct fsdp_checkpoint *checkpoint, const uint32_t *pieces,
	size_t count, struct question *questions)
{
	size_t request = 0;
	bool sorted = true;

	for (size_t i = 0; i < count; i++) {
		if (pieces[i] == FSDP_NONE)
			continue;
		struct fsdp_piece piece = fsdp_piece(checkpoint, pieces[i]);
		if (piece.file == FSDP_NONE)
			continue;
		questions[request] =
			(struct question){ piece.order, piece.file, (uint32_t)i };
		if (request > 0 &&
			by_place(&questions[request - 1], &questions[request]) > 0)
			sorted = false;
		request++;
	}
	if (!sorted)
		qsort(questions, request, sizeof *questions, by_place);
	return request;
}

char *place_error_text(struct run *run, const struct fsdp_error *error)
{
	const char *path = fsdp_error_path(error), *member = fsdp_error_member(error);
	uint64_t offset = fsdp_error_offset(error);
	char place[48] = "";

	/* Of an input that is one file, that is what the message begins with already. */
	if (path != NULL && strcmp(text_last(text_of(run->path), '/').data, path) == 0)
		path = NULL;
	if (offset != FSDP_UNKNOWN)
		snprintf(place, sizeof place, "offset %" PRIu64 ": ", offset);
	return memory_format("%s%s%s%s%s%s", path != NULL ? path : "",
		path != NULL ? ": " : "", member != NULL ? member : "",
		member != NULL ? ": " : "", place, fsdp_error_message(error));
}

static void remember(
	struct run *run, struct failures *failures, const struct fsdp_error *error)
{
	char *message = place_error_text(run, error);
	size_t i = 0;

	while (i < failures->count && strcmp(failures->kinds[i].message, message) != 0)
		i++;
	if (i < failures->count || i == REPORTED_MAX)
		memory_free(message);
	else
		failures->kinds[failures->count++] = (struct failure_kind){ message,
			text_new(fsdp_error_hint(error)).data,
			fsdp_error_code_name(fsdp_error_code(error)), 0 };
	*(i < REPORTED_MAX ? &failures->kinds[i].count : &failures->others) += 1;
}

RELEASE(release_locator, fsdp_locator_free)

struct fsdp_locator *run_locator(struct run *run)
{
	if (run->locator == NULL) {
		run_must(run,
			fsdp_locator_new(run->checkpoint, &run->locator, &run->error));
		run_owns(run, run->locator, release_locator);
	}
	return run->locator;
}

bool tensors_are_equal(struct run *run, uint32_t a, uint32_t b)
{
	struct fsdp_locator *locator = run_locator(run);
	struct fsdp_tensor left = fsdp_tensor(run->checkpoint, a),
			   right = fsdp_tensor(run->checkpoint, b);
	struct fsdp_error *error = NULL;
	bool equal = left.dtype == right.dtype && left.dims == right.dims &&
		     (left.dims == 0 || memcmp(left.shape, right.shape,
						left.dims * sizeof *left.shape) == 0);

	if (equal &&
		!fsdp_elements_compare((struct fsdp_locator *const[]){ locator, locator },
			(const uint32_t[]){ a, b }, 0, &equal, &error))
		equal = false;
	if (error != NULL && fsdp_error_code(error) == FSDP_ERROR_MEMORY)
		run_fail(run, error);
	fsdp_error_free(error);
	return equal;
}

void places_find(struct run *run, const uint32_t *pieces, size_t count,
	place_function *found, void *context, int *status)
{
	struct failures failures = { .count = 0 };
	struct question *questions;
	struct fsdp_place place;
	size_t request, mark;

	if (count == 0)
		return;
	questions = run_memory(run, count, sizeof *questions);
	request = collect(run->checkpoint, pieces, count, questions);
	for (size_t i = 0; i < request; i++) {
		struct fsdp_error *error = NULL;
		size_t position = questions[i].position;

		if (fsdp_piece_locate(
			    run_locator(run), pieces[position], &place, &error)) {
			found(context, position, &place);
			continue;
		}
		if (fsdp_error_code(error) == FSDP_ERROR_MEMORY)
			run_fail(run, error);
		mark = memory_mark();
		memory_owns(error, release_error);
		remember(run, &failures, error);
		memory_release(mark);
	}
	if (failures.count > 0)
		*status = status_worse(*status, STATUS_PARTIAL);
	FOR_EACH(i, failures.count, kind, &failures.kinds[i]) {
		char more[48] = "";

		if (kind->count > 1)
			snprintf(more, sizeof more, " (%" PRIu64 " pieces)", kind->count);
		run_failure(run, kind->code, kind->hint, "%s%s", kind->message, more);
	}
	if (failures.others > 0)
		run_failure(run, "damaged", NULL,
			"%" PRIu64 " more piece%s could not be located", failures.others,
			failures.others == 1 ? "" : "s");
}

struct keeping {
	struct run *run;
	struct place_facts *places;
};

static void keep(void *context, size_t position, const struct fsdp_place *place)
{
	struct keeping *keeping = context;

	place_facts_copy(keeping->run, &keeping->places[position], place);
}

struct place_facts *places_list(
	struct run *run, const uint32_t *pieces, size_t count, int *status)
{
	struct keeping keeping = { run, run_memory(run, count, sizeof *keeping.places) };

	for (size_t i = 0; i < count; i++)
		keeping.places[i] = place_unknown;
	places_find(run, pieces, count, keep, &keeping, status);
	return keeping.places;
}

/* ---- Reads a few elements of a tensor ---- */

bool elements_are_stored(const struct fsdp_tensor *tensor)
{
	return fsdp_dtype(tensor->dtype)->storage_bytes > 0 && tensor->layout == NULL &&
	       (tensor->flags & FSDP_TENSOR_NO_DATA) == 0;
}

/* Those before the first in its byte come with it. */
size_t elements_room(const struct fsdp_tensor *tensor, uint64_t count)
{
	return (size_t)(count + 8) * fsdp_dtype(tensor->dtype)->storage_bytes + 1;
}

bool elements_copy(struct fsdp_locator *locator, uint32_t index,
	const struct fsdp_tensor *tensor, uint64_t first, uint64_t count,
	unsigned char *to, struct fsdp_error **ret_error)
{
	const struct fsdp_dtype *dtype = fsdp_dtype(tensor->dtype);
	uint64_t in_byte = dtype->item_bits < 8 ? 8 / dtype->item_bits : 1;
	uint64_t skipped = first % in_byte;
	const struct fsdp_elements_options options = {
		.size = sizeof options,
		.first = first - skipped,
		.count = count + skipped,
	};
	struct fsdp_elements *elements = NULL;
	struct fsdp_span bytes = { NULL, 1 };
	bool good = fsdp_elements_open(locator, index, &options, &elements, ret_error);
	size_t size = 0;

	while (good && bytes.size > 0) {
		good = fsdp_elements_next(elements, &bytes, ret_error);
		if (good && bytes.size > 0)
			memcpy(to + size, bytes.data, bytes.size);
		size += bytes.size;
	}
	fsdp_elements_close(elements);
	if (good && dtype->item_bits < 8) {
		/* Several elements a byte become one each, the first from the lowest
		 * bits: from the end on, because they are converted in place. */
		unsigned mask = (1u << dtype->item_bits) - 1;
		for (uint64_t i = count + skipped; i-- > 0;) {
			uint64_t bit = i * dtype->item_bits;
			to[i] = (unsigned char)(to[bit / 8] >> bit % 8 & mask);
		}
		memmove(to, to + skipped, count);
	}
	return good;
}

enum { PRINTED_MAX = 10 };

bool reading_progress(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
	struct fsdp_recording_progress *progress = context;

	__atomic_store_n(&progress->size, total_bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&progress->read, done_bytes, __ATOMIC_RELAXED);
	return __atomic_load_n(&progress->stop, __ATOMIC_RELAXED) == 0;
}

uint32_t *reading_choose(struct run *run, struct selection *selection,
	struct name_buffer *buffer, size_t *ret_count)
{
	size_t count = fsdp_tensor_count(run->checkpoint), kept = 0;
	uint32_t *tensors = run_memory(run, count, sizeof *tensors);

	FOR_EACH(i, (uint32_t)count, tensor, fsdp_tensor(run->checkpoint, i)) {
		/* The bytes of a FlatParameter whose parameters are listed too are
		 * theirs. */
		if ((tensor.flags & FSDP_TENSOR_SPREAD) != 0 && !run->common->raw)
			continue;
		if (selection_is_all(selection) ||
			selection_takes_tensor(selection, run->checkpoint, i,
				span_of_text(tensor_shown_name(run, buffer, &tensor))))
			tensors[kept++] = i;
	}
	*ret_count = kept;
	return tensors;
}

void reading_failed(struct run *run, struct text name, const struct fsdp_error *error,
	size_t *printed)
{
	if ((*printed)++ >= PRINTED_MAX)
		return;
	char *message = place_error_text(run, error);
	run_failure(run, fsdp_error_code_name(fsdp_error_code(error)),
		fsdp_error_hint(error), "%.*s%s%s", (int)name.size,
		name.size > 0 ? name.data : "", name.size > 0 ? ": " : "", message);
}

void reading_failed_end(struct run *run, size_t printed)
{
	const struct collected *collected = run->collected;

	if (printed <= PRINTED_MAX || collected->failure_count == 0)
		return;
	/* Most likely for the same reason. */
	const struct failure *last = &collected->failures[collected->failure_count - 1];
	run_failure(run, last->code, last->hint.data, "%zu more could not be read",
		printed - PRINTED_MAX);
}
