/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What families do while they read: name children, keep errors and remarks, tell of
 * which rank a file is.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "format/format.h"

struct fsdp_child *fsdp_reading_add_child(struct fsdp_reading *reading,
	struct fsdp_span name, uint32_t rank, struct fsdp_error **ret_error)
{
	struct fsdp_child *child = fsdp_vec_push(&reading->children);
	if (child == NULL) {
		fsdp_arena_fail(reading->scratch, ret_error);
		return NULL;
	}
	*child = (struct fsdp_child){ .name = name, .rank = rank, .role = -1 };
	return child;
}

static int compare_children(const void *a, const void *b)
{
	const struct fsdp_child *first = a, *second = b;
	if (first->rank != second->rank)
		return first->rank < second->rank ? -1 : 1;
	return fsdp_span_compare(first->name, second->name);
}

bool fsdp_reading_order_children(
	struct fsdp_reading *reading, size_t first, struct fsdp_error **ret_error)
{
	size_t count = reading->children.count - first;
	struct fsdp_child *sorted = FSDP_TAKE(reading->scratch, sorted, count + 1);
	if (sorted == NULL)
		return fsdp_arena_fail(reading->scratch, ret_error);
	for (size_t i = 0; i < count; i++)
		sorted[i] = *(const struct fsdp_child *)fsdp_vec_at(
			&reading->children, first + i);
	qsort(sorted, count, sizeof *sorted, compare_children);
	for (size_t i = 0; i < count; i++)
		*(struct fsdp_child *)fsdp_vec_at(&reading->children, first + i) =
			sorted[i];
	return true;
}

void fsdp_reading_note(struct fsdp_reading *reading, const char *format, ...)
{
	char text[1024];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	struct fsdp_span copy =
		fsdp_arena_copy(reading->model->arena, fsdp_span_text(text));
	const char **place = copy.data != NULL ? fsdp_vec_push(reading->notes) : NULL;
	if (place == NULL)
		reading->model->findings.lost = true;
	else
		*place = (const char *)copy.data;
}

enum { NAMES_LISTED = 3, NAME_SHOWN = 64 };

void fsdp_name_list_add(struct fsdp_name_list *list, struct fsdp_span name)
{
	if (list->count++ < NAMES_LISTED)
		list->length += (size_t)snprintf(list->text + list->length,
			sizeof list->text - list->length, "%s%.*s",
			list->count > 1 ? ", " : "", FSDP_TEXT_MOST(name, NAME_SHOWN));
}

const char *fsdp_name_list_text(struct fsdp_name_list *list)
{
	if (list->count > NAMES_LISTED)
		snprintf(list->text + list->length, sizeof list->text - list->length,
			" and %zu more", list->count - NAMES_LISTED);
	return list->text;
}

void fsdp_reading_keep_error(struct fsdp_reading *reading, struct fsdp_error *error)
{
	struct fsdp_error **place = error != NULL ? fsdp_vec_push(reading->errors) : NULL;
	if (place == NULL) {
		/* Losing one of these would be silence: the model refuses to freeze. */
		reading->model->findings.lost |= error != NULL;
		fsdp_error_free(error);
		return;
	}
	*place = error;
}

void fsdp_reading_keep_limit(
	struct fsdp_reading *reading, struct fsdp_error **error, struct fsdp_span file)
{
	if (*error == NULL)
		return;
	fsdp_error_add_path(error, (const char *)file.data);
	fsdp_reading_keep_error(reading, *error);
	*error = NULL;
}

void fsdp_reading_settle_rank(struct fsdp_reading *reading, uint32_t file, uint32_t *rank)
{
	struct fsdp_model *model = reading->model;
	struct fsdp_file_record *record = fsdp_model_file(model, file);
	uint32_t named = reading->rank;
	reading->ranks_told += *rank != FSDP_NONE;
	if (*rank == FSDP_NONE)
		*rank = named;
	else if (named != FSDP_NONE && named != *rank && !reading->judges_ranks)
		fsdp_find(&model->findings, FSDP_RULE_RANK_IDENTITY,
			FSDP_PLACE(.file = record->path, .rank = *rank),
			"the file is of rank %u, its name says %u", *rank, named);
	record->rank = *rank;
	record->named_rank = named;
}

void fsdp_reading_settle_world(
	struct fsdp_reading *reading, uint32_t file, uint32_t world_size, bool whole)
{
	struct fsdp_model *model = reading->model;
	struct fsdp_file_record *record = fsdp_model_file(model, file);
	record->world_size = world_size;
	record->world_whole = whole;
	if (world_size != FSDP_NONE &&
		(model->world_size == FSDP_NONE || model->world_size < world_size))
		model->world_size = world_size;
}
