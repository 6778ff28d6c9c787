/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_WORDS_H
#define FSDP_TRACE_KINETO_WORDS_H

#include <fsdp/trace.h>

#include "base/names.h"
#include "syntax/json-template.h"

/*
 * The texts that events repeat: each is looked up once and has a number then. Categories
 * and phases are counted as well.
 */
enum fsdp_kineto_space {
	FSDP_KINETO_CATEGORIES = 1,
	FSDP_KINETO_PHASES,
	FSDP_KINETO_KERNELS,
	FSDP_KINETO_THREADS,
	FSDP_KINETO_GROUPS,
	FSDP_KINETO_SORTS,
	FSDP_KINETO_UNIT_NAMES, /* as they are written */
	FSDP_KINETO_UNITS,
	FSDP_KINETO_UNIT_ROWS,
	FSDP_KINETO_UNIT_TEXTS,
	FSDP_KINETO_KERNEL_ROWS,
	FSDP_KINETO_RUNTIME_CALLS,
	FSDP_KINETO_ALLOCS
};

/* What the category of an event means. */
enum fsdp_kineto_meaning {
	FSDP_KINETO_OTHER,
	FSDP_KINETO_ABSENT,
	FSDP_KINETO_TRACE,
	FSDP_KINETO_ANNOTATION,
	FSDP_KINETO_OP,
	FSDP_KINETO_PYTHON,
	FSDP_KINETO_RUNTIME,
	FSDP_KINETO_KERNEL,
	FSDP_KINETO_COPY,
	FSDP_KINETO_SET,
};

struct fsdp_kineto_category {
	struct fsdp_span name;
	enum fsdp_kineto_meaning meaning;
	struct fsdp_tally *tally; /* NULL: not counted yet */
	unsigned char text[32];   /* where the name lies, unless it is longer */
};

struct fsdp_kineto_words {
	struct fsdp_names names;            /* of each space its texts */
	struct fsdp_vec known;              /* uint32_t, by the id of a name */
	struct fsdp_vec categories, phases; /* struct fsdp_tally */
	bool overflow;                      /* a sum of a category does not fit */

	/* what was seen last, before it is looked up among the names */
	struct fsdp_kineto_category seen[32], rare, absent;
	struct fsdp_tally *phase[128]; /* of one byte */
	struct fsdp_kineto_thread {
		unsigned char text[64];
		size_t size;
		uint32_t id;
	} threads[16];
	struct {
		enum fsdp_kineto_space space;
		uint32_t id; /* 0: none */
	} found[128];

	unsigned char *scratch; /* of a text without its escapes */
	size_t scratch_room;
};

/* Copies of texts lie in the arena. All that return bool are false when out of memory. */
bool fsdp_kineto_words_init(struct fsdp_kineto_words *words, struct fsdp_arena *arena);
void fsdp_kineto_words_done(struct fsdp_kineto_words *words);

/* The id of a text, and a number that is the caller's and 0 when the text is new. NULL:
 * out of memory. */
uint32_t *fsdp_kineto_words_find(struct fsdp_kineto_words *words,
	enum fsdp_kineto_space space, struct fsdp_span text, uint32_t *ret_id);

/* The same number of an id. */
static inline uint32_t *fsdp_kineto_words_known(
	const struct fsdp_kineto_words *words, uint32_t id)
{
	return fsdp_vec_at(&words->known, id);
}

/* The text of an id. */
static inline struct fsdp_span fsdp_kineto_words_text(
	const struct fsdp_kineto_words *words, uint32_t id)
{
	return fsdp_names_segment(&words->names, id);
}

/* A text with its escapes resolved; valid until the next one is. */
bool fsdp_kineto_words_unescape(struct fsdp_kineto_words *words,
	const struct fsdp_json_value *value, struct fsdp_span *ret_text);

static inline bool fsdp_kineto_words_read(struct fsdp_kineto_words *words,
	const struct fsdp_json_value *value, struct fsdp_span *ret_text)
{
	*ret_text = value->span;
	return !value->escaped || fsdp_kineto_words_unescape(words, value, ret_text);
}

bool fsdp_kineto_words_thread(struct fsdp_kineto_words *words,
	const struct fsdp_json_value *pid, const struct fsdp_json_value *tid,
	uint32_t *ret_id);

/* The tid of a thread, as it is written. */
struct fsdp_span fsdp_kineto_words_thread_name(
	const struct fsdp_kineto_words *words, uint32_t thread);

/* Valid until the next call; that of events without one is `absent`. */
struct fsdp_kineto_category *fsdp_kineto_words_category(
	struct fsdp_kineto_words *words, struct fsdp_span name);

/* Whether events of a category are used, or known to be of no use. */
bool fsdp_kineto_knows_category(struct fsdp_span name);

bool fsdp_kineto_words_count(struct fsdp_kineto_words *words,
	struct fsdp_kineto_category *category, int64_t dur_ns);
bool fsdp_kineto_words_count_phase(
	struct fsdp_kineto_words *words, struct fsdp_span phase);

#endif
