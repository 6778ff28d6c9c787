/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of units of one trace.
 */
#include <stdlib.h>

#include "trace/kineto-unit-rows.h"
#include "trace/unit-rows.h"

void fsdp_kineto_unit_rows_init(struct fsdp_kineto_unit_rows *rows,
	struct fsdp_kineto_words *words, struct fsdp_arena *arena, bool device)
{
	*rows = (struct fsdp_kineto_unit_rows){
		.words = words, .arena = arena, .device = device
	};
	fsdp_vec_init(&rows->list, arena, sizeof(struct fsdp_unit_times));
	fsdp_vec_init(&rows->groups, arena, sizeof(struct fsdp_kineto_unit_text));
	fsdp_vec_init(&rows->streams, arena, sizeof(struct fsdp_kineto_unit_text));
	fsdp_step_sums_init(&rows->gathers, arena);
	fsdp_step_sums_init(&rows->reduces, arena);
}

bool fsdp_kineto_unit_rows_find(
	struct fsdp_kineto_unit_rows *rows, struct fsdp_unit_key key, uint32_t *ret_row)
{
	int64_t text[] = { key.unit, (int64_t)key.phase, key.pg };
	int64_t exposed_ns = rows->device ? 0 : FSDP_ABSENT;
	uint32_t id;
	uint32_t *index = fsdp_kineto_words_find(rows->words, FSDP_KINETO_UNIT_ROWS,
		fsdp_span((const unsigned char *)text, sizeof text), &id);
	if (index == NULL)
		return false;
	if (*index == 0) {
		struct fsdp_unit_times *row = fsdp_vec_push(&rows->list);
		if (row == NULL)
			return false;
		*row = (struct fsdp_unit_times){ .phase = key.phase,
			.pg = key.pg,
			.gathers.exposed_ns = exposed_ns,
			.reduces.exposed_ns = exposed_ns };
		if (key.unit != FSDP_NONE)
			row->unit = fsdp_kineto_words_text(rows->words, key.unit);
		*index = (uint32_t)rows->list.count;
	}
	*ret_row = *index - 1;
	return true;
}

/* ---- groups and streams ---- */

/* Once for each row and text. `what` keeps the lists apart. */
static bool note(struct fsdp_kineto_unit_rows *rows, struct fsdp_vec *list, uint32_t what,
	uint32_t row, uint32_t word, struct fsdp_span text)
{
	uint32_t key[] = { what, row, word }, id;
	uint32_t *known = fsdp_kineto_words_find(rows->words, FSDP_KINETO_UNIT_TEXTS,
		fsdp_span((const unsigned char *)key, sizeof key), &id);
	if (known == NULL || *known != 0)
		return known != NULL;
	*known = 1;
	return fsdp_vec_add(list, &(struct fsdp_kineto_unit_text){ text, row });
}

bool fsdp_kineto_unit_rows_group(
	struct fsdp_kineto_unit_rows *rows, uint32_t row, struct fsdp_span group)
{
	uint32_t word;
	return fsdp_kineto_words_find(rows->words, FSDP_KINETO_GROUPS, group, &word) !=
		       NULL &&
	       note(rows, &rows->groups, 0, row, word, group);
}

bool fsdp_kineto_unit_rows_stream(
	struct fsdp_kineto_unit_rows *rows, uint32_t row, uint32_t stream)
{
	return note(rows, &rows->streams, 1, row, stream,
		fsdp_kineto_words_thread_name(rows->words, stream));
}

static int compare_texts(const void *a, const void *b)
{
	const struct fsdp_kineto_unit_text *left = a, *right = b;
	if (left->row != right->row)
		return left->row < right->row ? -1 : 1;
	return fsdp_span_compare(left->text, right->text);
}

static struct fsdp_unit_texts *texts_of(
	const struct fsdp_kineto_unit_rows *rows, uint32_t row, bool streams)
{
	struct fsdp_unit_times *times = fsdp_kineto_unit_row(rows, row);
	return streams ? &times->streams : &times->groups;
}

/* Gives each row its part of the list. */
static bool hand_out(const struct fsdp_kineto_unit_rows *rows,
	const struct fsdp_vec *list, bool streams)
{
	struct fsdp_span *texts = FSDP_TAKE(rows->arena, texts, list->count);
	struct fsdp_kineto_unit_text *sorted = malloc((list->count + 1) * sizeof *sorted);
	bool good = texts != NULL && sorted != NULL;
	for (size_t i = 0; good && i < list->count; i++)
		sorted[i] = *(struct fsdp_kineto_unit_text *)fsdp_vec_at(list, i);
	if (good && list->count != 0)
		qsort(sorted, list->count, sizeof *sorted, compare_texts);
	for (size_t i = 0; good && i < list->count; i++) {
		struct fsdp_unit_texts *of = texts_of(rows, sorted[i].row, streams);
		texts[i] = sorted[i].text;
		if (of->count++ == 0)
			of->texts = &texts[i];
	}
	free(sorted);
	return good;
}

/* Gives each row its times by step. */
static bool hand_out_steps(struct fsdp_kineto_unit_rows *rows)
{
	size_t count = rows->list.count;
	struct fsdp_step_list *gathers = calloc(2 * count + 1, sizeof *gathers);
	struct fsdp_step_list *reduces = gathers != NULL ? gathers + count : NULL;
	uint32_t *places = malloc((count + 1) * sizeof *places);
	bool good = gathers != NULL && places != NULL;
	for (size_t i = 0; good && i < count; i++)
		places[i] = (uint32_t)i;
	good = good &&
	       fsdp_step_sums_list(&rows->gathers, places, rows->arena, gathers) &&
	       fsdp_step_sums_list(&rows->reduces, places, rows->arena, reduces);
	for (size_t i = 0; good && i < count; i++) {
		struct fsdp_unit_times *row = fsdp_kineto_unit_row(rows, (uint32_t)i);
		row->gathers.by_step = gathers[i];
		row->reduces.by_step = reduces[i];
	}
	free(gathers);
	free(places);
	return good;
}

bool fsdp_kineto_unit_rows_list(
	struct fsdp_kineto_unit_rows *rows, struct fsdp_recording *recording)
{
	struct fsdp_unit_times *list = FSDP_TAKE(rows->arena, list, rows->list.count);
	if (list == NULL || !hand_out_steps(rows) ||
		!hand_out(rows, &rows->groups, false) ||
		!hand_out(rows, &rows->streams, true))
		return false;
	for (size_t i = 0; i < rows->list.count; i++)
		list[i] = *fsdp_kineto_unit_row(rows, (uint32_t)i);
	fsdp_unit_rows_sort(list, rows->list.count);
	recording->units = list;
	recording->unit_count = rows->list.count;
	return true;
}
