/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the elements that were asked for.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/document.h>
#include <fsdp/elements.h>

#include "commands/show.h"
#include "shared/part-result.h"
#include "shared/tensor-reading.h"
#include "shared/stored-values.h"
#include "session/session.h"

enum { VALUES_MAX = 1 << 20 };  /* elements that are read of a tensor */
enum { FRAMES_ROOM = 1 << 16 }; /* of stdout */

/* Copies the ranges in order. */
static bool copy_elements(
	struct show *show, struct item *item, struct fsdp_error **ret_error)
{
	size_t size = fsdp_dtype(item->tensor.dtype)->storage_bytes;

	FOR_EACH(i, item->range_count, range, &item->ranges[i]) {
		uint64_t count = range->end - range->start + 1;

		if (!elements_copy(run_locator(show->run), item->index, &item->tensor,
			    range->start, count,
			    item->elements + item->element_count * size, ret_error))
			return false;
		item->element_count += count;
	}
	return true;
}

/* Its number, which may be infinite or none. False: it is of a kind without order. */
static bool number_of(const struct item *item, size_t i, double *ret_number)
{
	size_t size = fsdp_dtype(item->tensor.dtype)->storage_bytes;
	char buffer[ELEMENT_ROOM], *end;
	struct text text =
		element_text(item->tensor.dtype, item->elements + i * size, buffer);
	char number[ELEMENT_ROOM + 1];

	memcpy(number, text.data, text.size);
	number[text.size] = '\0';
	*ret_number = strtod(number, &end);
	/* What has no number of its own is written in hexadecimal. */
	return end != number && *end == '\0' && strchr(number, 'x') == NULL;
}

static void add_up(struct item *item)
{
	struct element_stats stats = { .min = (double)INFINITY,
		.max = -(double)INFINITY };
	double number, sum = 0;

	for (; stats.count < item->element_count; stats.count++) {
		if (!number_of(item, stats.count, &number))
			return;
		if (isnan(number)) {
			stats.nans++;
		} else if (isinf(number)) {
			stats.infinities++;
		} else {
			stats.min = number < stats.min ? number : stats.min;
			stats.max = number > stats.max ? number : stats.max;
			sum += number;
		}
	}
	stats.mean = sum / (double)(stats.count - stats.nans - stats.infinities);
	item->stats = stats;
	item->has_stats = stats.count > 0;
}

static void read_elements(struct show *show, struct item *item)
{
	struct run *run = show->run;
	const struct fsdp_tensor *tensor = &item->tensor;
	struct fsdp_error *error = NULL;
	uint64_t wanted = 0;
	bool cut;

	if (!elements_are_stored(tensor))
		return;
	item->range_count = slices_resolve(
		&show->slices, tensor->numel, VALUES_MAX, item->ranges, &cut);
	if (cut)
		run_note(run, "only the first %d elements that were asked for are read",
			VALUES_MAX);
	for (size_t i = 0; i < item->range_count; i++)
		wanted += item->ranges[i].end - item->ranges[i].start + 1;
	item->elements = run_memory(run, elements_room(tensor, wanted), 1);
	if (copy_elements(show, item, &error)) {
		add_up(item);
		return;
	}
	item->elements = NULL;
	if (fsdp_error_code(error) == FSDP_ERROR_MEMORY)
		run_fail(run, error);
	run_owns(run, error, release_error);
	/* The rest of the answer is still valid. */
	struct text name = tensor_shown_name(run, &show->buffers->name, tensor);
	char *message = place_error_text(run, error);
	run_failure(run, fsdp_error_code_name(fsdp_error_code(error)),
		fsdp_error_hint(error), "%s (elements of %.*s)", message, (int)name.size,
		name.data);
}

void show_read_elements(struct show *show)
{
	for (size_t i = 0; i < show->wanted_count && show->slices.count > 0; i++)
		if (show->items[i].is == ITEM_TENSOR)
			read_elements(show, &show->items[i]);
}

/* ---- requests on standard input ---- */

static void write_frame(struct fsdp_span bytes)
{
	printf("%zu\n", bytes.size);
	if (bytes.size > 0)
		fwrite(bytes.data, 1, bytes.size, stdout);
}

static void write_error(const char *code, const char *rule, const char *path,
	const char *hint, const char *message)
{
	const char *fields[] = { code, rule, path, hint, message };
	size_t size = 0;

	for (size_t i = 0; i < 5; i++)
		size += strlen(fields[i] != NULL ? fields[i] : "") + 1;
	printf("-%zu\n", size);
	for (size_t i = 0; i < 5; i++)
		fwrite(fields[i] != NULL ? fields[i] : "", 1,
			strlen(fields[i] != NULL ? fields[i] : "") + 1, stdout);
}

/* The range that is asked for, cut to the tensor. */
static bool parse_range(struct fsdp_document_value request, uint64_t numel,
	struct fsdp_elements_options *options)
{
	struct fsdp_document_value start = fsdp_document_get(request, "start"),
				   stop = fsdp_document_get(request, "stop");
	uint64_t end = numel;

	if (start.kind == FSDP_DOCUMENT_INTEGER && start.integer >= 0)
		options->first = (uint64_t)start.integer;
	else if (start.kind != FSDP_DOCUMENT_ABSENT)
		return false;
	if (stop.kind == FSDP_DOCUMENT_INTEGER && stop.integer >= 0)
		end = (uint64_t)stop.integer < numel ? (uint64_t)stop.integer : numel;
	else if (stop.kind != FSDP_DOCUMENT_ABSENT)
		return false;
	options->count = options->first < end ? end - options->first : 0;
	return true;
}

/* Repeated elements of a view count at each request. */
static bool write_elements(struct show *show, uint32_t index,
	const struct fsdp_elements_options *options, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = show->run->checkpoint;
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, index);
	struct fsdp_elements *elements = NULL;
	struct fsdp_repeats *repeats = NULL;
	struct fsdp_span bytes = { NULL, 1 };
	uint64_t size = UINT64_MAX;

	if (__builtin_mul_overflow(
		    options->count, fsdp_dtype(tensor.dtype)->storage_bytes, &size))
		size = UINT64_MAX;
	bool good = fsdp_repeats_new(checkpoint, &repeats, ret_error) &&
		    fsdp_repeats_take(repeats, index, size, ret_error) &&
		    fsdp_elements_open(
			    run_locator(show->run), index, options, &elements, ret_error);
	while (good && bytes.size > 0) {
		good = fsdp_elements_next(elements, &bytes, ret_error);
		if (good && bytes.size > 0)
			write_frame(bytes);
	}
	fsdp_elements_close(elements);
	fsdp_repeats_free(repeats);
	return good;
}

static void answer_request(
	struct show *show, struct fsdp_span line, const char *files_now)
{
	struct fsdp_elements_options options = { .size = sizeof options,
		.resolve = true };
	struct fsdp_document *document = NULL;
	struct fsdp_document_value request, name, files;
	struct fsdp_error *error = NULL;
	uint32_t index = FSDP_NONE;

	if (fsdp_document_parse(line, &document, &error)) {
		request = fsdp_document_root(document);
		name = fsdp_document_get(request, "name");
		files = fsdp_document_get(request, "files");
		if (name.kind == FSDP_DOCUMENT_TEXT)
			index = fsdp_tensor_find(show->run->checkpoint, name.text);
		if (files.kind == FSDP_DOCUMENT_TEXT &&
			!text_is(text_of_span(files.text), text_of(files_now)))
			write_error("damaged", "FI2004", show->run->path, "open it again",
				"it changed since it was opened");
		else if (index == FSDP_NONE)
			write_error("usage", NULL, NULL, NULL, "no tensor has this name");
		else if (!parse_range(request,
				 fsdp_tensor(show->run->checkpoint, index).numel,
				 &options))
			write_error("usage", NULL, NULL, NULL,
				"start and stop are integers from 0 on");
		else if (options.count == 0 ||
			 write_elements(show, index, &options, &error))
			write_frame((struct fsdp_span){ NULL, 0 });
		fsdp_document_free(document);
	}
	if (error != NULL)
		write_error(fsdp_error_code_name(fsdp_error_code(error)),
			fsdp_error_rule(error), fsdp_error_path(error),
			fsdp_error_hint(error), fsdp_error_message(error));
	fsdp_error_free(error);
	fflush(stdout);
}

void show_serve(struct show *show)
{
	struct run *run = show->run;
	const char *files_now = files_state(run);
	char *line = NULL;
	size_t room = 0;
	ssize_t size;

	run_locator(run);
	/* One write per answer wakes the reader once. */
	setvbuf(stdout, NULL, _IOFBF, FRAMES_ROOM);
	while (!ferror(stdout) && (size = getline(&line, &room, stdin)) > 0)
		answer_request(show, span_of_text((struct text){ line, (size_t)size }),
			files_now);
	free(line);
}
