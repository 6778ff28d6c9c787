/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts that events repeat, and how often they do.
 */
#include <stdlib.h>

#include "trace/durations.h"
#include "trace/kineto-words.h"

bool fsdp_kineto_words_init(struct fsdp_kineto_words *words, struct fsdp_arena *arena)
{
	static const char *const spaces[] = { "cat", "ph", "kernel", "thread", "group",
		"sort", "unit name", "unit", "unit row", "unit text", "kernel row" };
	*words = (struct fsdp_kineto_words){ .absent = { .name = FSDP_SPAN_INIT("None"),
						     .meaning = FSDP_KINETO_ABSENT } };
	fsdp_vec_init(&words->known, arena, sizeof(uint32_t));
	fsdp_vec_init(&words->categories, arena, sizeof(struct fsdp_tally));
	fsdp_vec_init(&words->phases, arena, sizeof(struct fsdp_tally));
	if (!fsdp_names_init(&words->names, arena))
		return false;
	/* A word outlives the event that it is in. */
	words->names.copies = arena;
	bool good = true;
	for (uint32_t i = 0; good && i < sizeof spaces / sizeof *spaces; i++)
		good = fsdp_names_child(&words->names, 0, fsdp_span_text(spaces[i])) ==
		       i + FSDP_KINETO_CATEGORIES;
	return good;
}

void fsdp_kineto_words_done(struct fsdp_kineto_words *words)
{
	free(words->scratch);
}

/* Most texts are one of the few that came last: to compare them is faster than to hash. */
uint32_t *fsdp_kineto_words_find(struct fsdp_kineto_words *words,
	enum fsdp_kineto_space space, struct fsdp_span text, uint32_t *ret_id)
{
	size_t place = text.size ^ (size_t)space << 4;
	if (text.size != 0)
		place ^= text.data[text.size / 2] ^ (size_t)text.data[text.size - 1] << 2;
	place %= FSDP_COUNT(words->found);
	*ret_id = words->found[place].id;
	if (*ret_id != 0 && words->found[place].space == space &&
		fsdp_span_equal(fsdp_kineto_words_text(words, *ret_id), text))
		return fsdp_kineto_words_known(words, *ret_id);
	*ret_id = fsdp_names_child(&words->names, space, text);
	if (*ret_id == FSDP_NONE)
		return NULL;
	words->found[place].space = space;
	words->found[place].id = *ret_id;
	return fsdp_vec_reach(&words->known, *ret_id);
}

bool fsdp_kineto_words_unescape(struct fsdp_kineto_words *words,
	const struct fsdp_json_value *value, struct fsdp_span *ret_text)
{
	if (value->span.size > words->scratch_room) {
		unsigned char *scratch = realloc(words->scratch, value->span.size);
		if (scratch == NULL)
			return false;
		words->scratch = scratch;
		words->scratch_room = value->span.size;
	}
	*ret_text =
		fsdp_span(words->scratch, fsdp_json_text(value->span, words->scratch));
	return true;
}

/* pid and tid as they are written, cut if they are long; a text and a number are not the
 * same thread. */
bool fsdp_kineto_words_thread(struct fsdp_kineto_words *words,
	const struct fsdp_json_value *pid, const struct fsdp_json_value *tid,
	uint32_t *ret_id)
{
	const struct fsdp_json_value *const values[] = { pid, tid };
	unsigned char text[sizeof words->threads->text];
	size_t size = 0;
	uint32_t id;
	for (size_t i = 0; i < 2; i++) {
		size_t part = values[i]->kind == FSDP_SCAN_END ? 0 : values[i]->span.size;
		if (part > sizeof text / 2 - 2)
			part = sizeof text / 2 - 2;
		text[size++] = (unsigned char)('0' + values[i]->kind);
		if (part != 0)
			memcpy(text + size, values[i]->span.data, part);
		size += part;
		text[size++] = '\n';
	}
	/* The last digit tells most threads apart. */
	struct fsdp_kineto_thread *last =
		&words->threads[(text[size - 2] ^ size) % FSDP_COUNT(words->threads)];
	if (size == last->size && memcmp(text, last->text, size) == 0) {
		*ret_id = last->id;
		return true;
	}
	if (fsdp_kineto_words_find(
		    words, FSDP_KINETO_THREADS, fsdp_span(text, size), &id) == NULL)
		return false;
	memcpy(last->text, text, size);
	last->size = size;
	last->id = *ret_id = id;
	return true;
}

struct fsdp_span fsdp_kineto_words_thread_name(
	const struct fsdp_kineto_words *words, uint32_t thread)
{
	struct fsdp_span text = fsdp_kineto_words_text(words, thread);
	text.size -= text.size != 0; /* without the end of the line */
	text = fsdp_span_last(text, '\n');
	return text.size != 0 ? fsdp_span(text.data + 1, text.size - 1) : text;
}

/* ---- categories and phases ---- */

static const struct {
	const char *name;
	enum fsdp_kineto_meaning meaning;
} meanings[] = {
	{ "python_function", FSDP_KINETO_PYTHON },
	{ "cpu_op", FSDP_KINETO_OP },
	{ "Operator", FSDP_KINETO_OP },
	{ "user_annotation", FSDP_KINETO_ANNOTATION },
	{ "kernel", FSDP_KINETO_KERNEL },
	{ "Kernel", FSDP_KINETO_KERNEL },
	{ "cuda_runtime", FSDP_KINETO_RUNTIME },
	{ "cuda_driver", FSDP_KINETO_RUNTIME },
	{ "xpu_runtime", FSDP_KINETO_RUNTIME },
	{ "xpu_driver", FSDP_KINETO_RUNTIME },
	{ "privateuse1_runtime", FSDP_KINETO_RUNTIME },
	{ "privateuse1_driver", FSDP_KINETO_RUNTIME },
	{ "mtia_runtime", FSDP_KINETO_RUNTIME },
	{ "Runtime", FSDP_KINETO_RUNTIME },
	{ "Driver", FSDP_KINETO_RUNTIME },
	{ "gpu_memcpy", FSDP_KINETO_COPY },
	{ "Memcpy", FSDP_KINETO_COPY },
	{ "gpu_memset", FSDP_KINETO_SET },
	{ "Memset", FSDP_KINETO_SET },
	{ "Trace", FSDP_KINETO_TRACE },
};

bool fsdp_kineto_knows_category(struct fsdp_span name)
{
	static const char *const useless[] = { "None", "gpu_user_annotation", "overhead",
		"cpu_instant_event", "cuda_sync", "cuda_event", "external_correlation",
		"gpu_pm_counter", "cuda_profiler_range", "ac2g", "fwdbwd" };
	for (size_t i = 0; i < FSDP_COUNT(meanings); i++)
		if (fsdp_span_is(name, meanings[i].name))
			return true;
	for (size_t i = 0; i < FSDP_COUNT(useless); i++)
		if (fsdp_span_is(name, useless[i]))
			return true;
	return false;
}

struct fsdp_kineto_category *fsdp_kineto_words_category(
	struct fsdp_kineto_words *words, struct fsdp_span name)
{
	enum { PLACES = sizeof words->seen / sizeof *words->seen };
	struct fsdp_kineto_category *category = &words->rare;
	if (name.size != 0 && name.size <= sizeof category->text) {
		category = &words->seen[(name.data[0] ^ name.size * 5) % PLACES];
		if (fsdp_span_equal(category->name, name))
			return category;
		memcpy(category->text, name.data, name.size);
		name.data = category->text;
	}
	category->name = name;
	category->meaning = FSDP_KINETO_OTHER;
	category->tally = NULL;
	for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
		if (fsdp_span_is(name, meanings[i].name))
			category->meaning = meanings[i].meaning;
	return category;
}

/* NULL: out of memory. */
static struct fsdp_tally *tally_of(struct fsdp_kineto_words *words,
	struct fsdp_vec *tallies, enum fsdp_kineto_space space, struct fsdp_span text)
{
	uint32_t id;
	/* Most traces have few of them, and comparing is faster than hashing. */
	for (size_t i = 0; i < tallies->count && i < 16; i++) {
		struct fsdp_tally *tally = fsdp_vec_at(tallies, i);
		if (fsdp_span_equal(tally->name, text))
			return tally;
	}
	uint32_t *index = fsdp_kineto_words_find(words, space, text, &id);
	if (index == NULL)
		return NULL;
	if (*index != 0)
		return fsdp_vec_at(tallies, *index - 1);
	struct fsdp_tally *tally = fsdp_vec_push(tallies);
	if (tally == NULL)
		return NULL;
	tally->name = fsdp_names_segment(&words->names, id);
	*index = (uint32_t)tallies->count;
	return tally;
}

bool fsdp_kineto_words_count(struct fsdp_kineto_words *words,
	struct fsdp_kineto_category *category, int64_t dur_ns)
{
	if (category->tally == NULL)
		category->tally = tally_of(words, &words->categories,
			FSDP_KINETO_CATEGORIES, category->name);
	if (category->tally == NULL)
		return false;
	category->tally->count++;
	fsdp_sum_ns(&category->tally->sum_ns, dur_ns, &words->overflow);
	return true;
}

bool fsdp_kineto_words_count_phase(
	struct fsdp_kineto_words *words, struct fsdp_span phase)
{
	enum { PLACES = sizeof words->phase / sizeof *words->phase };
	struct fsdp_tally *rare = NULL, **tally = &rare;
	if (phase.size == 1 && phase.data[0] < PLACES)
		tally = &words->phase[phase.data[0]];
	if (*tally == NULL)
		*tally = tally_of(words, &words->phases, FSDP_KINETO_PHASES, phase);
	if (*tally == NULL)
		return false;
	(*tally)->count++;
	return true;
}
