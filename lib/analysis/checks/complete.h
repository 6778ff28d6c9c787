/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ANALYSIS_COMPLETE_H
#define FSDP_ANALYSIS_COMPLETE_H

#include "analysis/checks/checking.h"
#include "base/names.h"

/*
 * Checks whether a model is complete, using only its own names and its configuration.
 *
 * Names are folded first: segments of wrappers are removed, and a packed weight gets its
 * name before packing, so that a layer in bfloat16 equals a quantized one. A segment of
 * digits makes a *stack*: the name before it, its numbers (*elements*) and the rest of
 * the names after the number (*members*). A name with two numbers belongs to two stacks.
 *
 * Messages and `affected` use the stored names.
 */

/* Longer names, and those with more numbers, are not judged. */
enum { FSDP_COMPLETE_NAME_MOST = 4096, FSDP_COMPLETE_NUMBERS_MOST = 8 };

/* Tensors are not cut among more. */
enum { FSDP_COMPLETE_RANKS_MOST = 128 };

/* A tensor as one number of its name sees it. */
struct fsdp_complete_record {
	uint32_t stack;    /* folded name before the number, in `names` */
	uint32_t element;  /* the number */
	uint32_t child;    /* first segment of the member */
	uint32_t member;   /* folded name after the number, in `members` */
	uint32_t tensor;   /* index in the checkpoint */
	uint32_t at, size; /* of the number in the stored name */
};

struct fsdp_complete_element {
	const struct fsdp_complete_record *records; /* by child and member */
	uint32_t count;
	uint32_t number;
};

/* What a stack is part of. */
enum fsdp_complete_tower {
	FSDP_COMPLETE_MAIN,
	FSDP_COMPLETE_VISION,
	FSDP_COMPLETE_SOUND,
	FSDP_COMPLETE_OTHER_TOWER,
	FSDP_COMPLETE_PREDICTION, /* layers that predict further tokens */
};

struct fsdp_complete_stack {
	uint32_t name;    /* in `names` */
	uint32_t pattern; /* the same with "#" in place of numbers, in `patterns` */
	const struct fsdp_complete_record *records;
	const struct fsdp_complete_element *elements; /* ascending */
	uint32_t record_count, element_count;
	uint32_t length; /* highest number + 1 */
	bool is_deep;    /* a member has a dot: elements are modules with children */
	bool is_inner;   /* inside of an element of another stack */
	bool is_counted; /* the configuration has so many layers, or experts */
	enum fsdp_complete_tower tower;
};

/* Indices of settings, or FSDP_NONE. */
struct fsdp_complete_config {
	uint32_t root, adapter; /* config.json, adapter_config.json */
	uint32_t text;          /* the part about the language model, else the root */
};

/* A setting that distinguishes layers: kinds of all of them, indices of some, or a count. */
struct fsdp_complete_list {
	uint32_t setting;
	uint32_t length;       /* of a list or a text; 1: a number */
	const uint32_t *kinds; /* if it is made: of each item, equal for equal ones */
	bool is_made;
};

/* So many of them are looked at. */
enum { FSDP_COMPLETE_LISTS_MOST = 256 };

struct fsdp_complete {
	struct fsdp_checking *checking;
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_arena *arena;
	struct fsdp_arena work;  /* emptied after each part of the work */
	struct fsdp_arena items; /* the same, of what parts are made of */
	struct fsdp_hasher hasher;
	struct fsdp_names names, members, patterns;
	struct fsdp_vec list; /* struct fsdp_complete_record, until they are sorted */
	struct fsdp_complete_record *records;
	size_t record_count;
	struct fsdp_complete_stack *stacks; /* what is above before what is below */
	size_t stack_count;
	uint32_t tensor_count;
	uint32_t *folded;        /* of each tensor, in `names`; FSDP_NONE: left out */
	uint32_t *patterned;     /* the same in `patterns` */
	unsigned char *told;     /* of each tensor: a finding is about its shape */
	struct fsdp_table gone;  /* folded names that a finding says are missing */
	struct fsdp_table there; /* folded name → tensor */
	struct fsdp_table pattern_of; /* name of a stack → pattern */
	struct fsdp_scratch missing;  /* for a second name */
	struct fsdp_complete_config config;
	struct fsdp_complete_list lists[FSDP_COMPLETE_LISTS_MOST];
	size_t list_count;
	unsigned char *seen;  /* zeros, one per possible kind */
	size_t spelled;       /* names of what is missing, so far */
	uint32_t *stamps;     /* of each member, and … */
	uint32_t stamp;       /* … the last one given */
	uint32_t *counts;     /* of each member, zeros */
	bool bare_magnitudes; /* of adapters: their tensors have no name of their own */
	bool is_silent;       /* absent for another cause, or listed by a plan */
	bool failed;          /* out of memory: answers mean nothing from then on */
};

/* ---- complete.c ---- */

/* Folds all names and makes the stacks. */
void fsdp_complete_collect(struct fsdp_complete *complete);

/* The value of a segment of digits, as numbers of modules are written. */
bool fsdp_complete_is_number(struct fsdp_span segment, uint32_t *ret);

/* Whether a segment of the name, or a part of it, is one of such words. */
enum fsdp_complete_tower fsdp_complete_tower_of(
	const struct fsdp_complete *complete, uint32_t name);

/* The tensor with this folded name, or FSDP_NONE; and the one below a name. */
uint32_t fsdp_complete_find(const struct fsdp_complete *complete, uint32_t name);
uint32_t fsdp_complete_find_below(
	const struct fsdp_complete *complete, uint32_t name, const char *segment);

/* The stored name of a tensor; valid until the next one. */
struct fsdp_span fsdp_complete_stored(struct fsdp_complete *complete, uint32_t tensor);

/* The stored name that the record's tensor would have with another number; a copy. */
struct fsdp_span fsdp_complete_named(struct fsdp_complete *complete,
	const struct fsdp_complete_record *record, uint32_t number);

/* ---- complete.c ---- */

/* What is missing: members of an element as another one has them. */
struct fsdp_complete_hole {
	const struct fsdp_complete_stack *stack;
	uint32_t element;
	uint32_t group; /* in `members`: all below it is missing; 0: the full element */
	/* Of elements that have them so many; like[] may end with FSDP_AFFECTED_KEPT. */
	const struct fsdp_complete_record *const *like;
	size_t count;
	uint32_t have, of; /* elements that have it, out of so many */
};

/* Whether a finding has already reported this name or a parent of it. */
bool fsdp_complete_is_gone(struct fsdp_complete *complete,
	const struct fsdp_complete_stack *stack, uint32_t element, uint32_t group);

/* Says so from now on. */
void fsdp_complete_mark_gone(
	struct fsdp_complete *complete, const struct fsdp_complete_hole *hole);

/* The stored names of what is missing, and that of the module which is. */
struct fsdp_span fsdp_complete_spell(struct fsdp_complete *complete,
	const struct fsdp_complete_hole *hole, struct fsdp_span **ret_affected);

/* Raises stack-hole, unless it is gone already. `what` are those that have it. */
void fsdp_complete_tell_gone(
	struct fsdp_complete *complete, const struct fsdp_complete_hole *hole);

/* Raises stack-hole, unless it is gone already: the module lacks a member, whose stored name
 * would be `missing`. It is in the file of `tensor`. */
void fsdp_complete_tell_lacking(struct fsdp_complete *complete, uint32_t tensor,
	uint32_t module, struct fsdp_span member, struct fsdp_span missing,
	const char *format, ...) __attribute__((format(printf, 6, 7)));

/* ---- complete.c ---- */

void fsdp_complete_read_config(struct fsdp_complete *complete);

/* A member of an object, or FSDP_NONE. */
uint32_t fsdp_complete_get(
	const struct fsdp_complete *complete, uint32_t object, const char *key);
bool fsdp_complete_get_integer(const struct fsdp_complete *complete, uint32_t object,
	const char *key, uint64_t *ret);
struct fsdp_span fsdp_complete_get_text(
	const struct fsdp_complete *complete, uint32_t object, const char *key);

/* Whether an integer anywhere in the configuration is this number; with `word`, only
 * those whose key contains it. */
bool fsdp_complete_config_has(
	const struct fsdp_complete *complete, const char *word, uint64_t n);

/* Whether any key contains the word. */
bool fsdp_complete_config_names(const struct fsdp_complete *complete, const char *word);

/* Whether any "model_type" is this. */
bool fsdp_complete_is_model(const struct fsdp_complete *complete, const char *model_type);

/* Whether the first layer of such a model is known to lack what is called so. */
bool fsdp_complete_first_lacks(
	const struct fsdp_complete *complete, struct fsdp_span segment);

static inline bool fsdp_complete_contains(struct fsdp_span text, const char *word)
{
	return text.data != NULL &&
	       memmem(text.data, text.size, word, strlen(word)) != NULL;
}

/* ---- complete.c ---- */

/* Whether the configuration, or a simple rule, draws these elements out of those: flags
 * of all elements of `kin`, which are ascending. */
struct fsdp_complete_set {
	const struct fsdp_complete_stack *stack;
	const uint32_t *kin;
	const bool *is_in;
	uint32_t kin_count, count; /* of all, of those in it */
};
bool fsdp_complete_is_explained(
	struct fsdp_complete *complete, const struct fsdp_complete_set *set);

/* The same by the configuration only. */
bool fsdp_complete_is_configured(
	struct fsdp_complete *complete, const struct fsdp_complete_set *set);

void fsdp_complete_find_lists(struct fsdp_complete *complete);

/* Kinds that a list "layer_types" gives to layers of a stack of this length: equal kinds have equal numbers. NULL:
 * no such list. */
const uint32_t *fsdp_complete_layer_kinds(
	struct fsdp_complete *complete, uint32_t length);

/* ---- complete-siblings.c ---- */

/* World size if the shape is a piece of the expected one: one dimension is 1/W. 0: not a piece; 1: equal except for
 * dimensions of length 1. */
uint32_t fsdp_complete_ranks_of(const struct fsdp_tensor *tensor,
	const struct fsdp_tensor *due, uint32_t *ret_dim);

/* How often so many numbers go into the due ones, up to padding; 0: they do not. */
uint32_t fsdp_complete_flat_ranks(uint64_t numel, uint64_t due);

/* The path of the file that a tensor's first piece is in. */
struct fsdp_span fsdp_complete_file(const struct fsdp_complete *complete, uint32_t index);

/* Reports one rank's piece of the expected shape, or a flattened tensor; reports nothing else, and each tensor once. */
void fsdp_complete_judge_shape(
	struct fsdp_complete *complete, uint32_t index, const struct fsdp_tensor *due);

/* Raises a finding about the shape of a tensor, which counts as reported from then on. `severity` is
 * as in a place. */
void fsdp_complete_tell(struct fsdp_complete *complete, uint32_t index,
	enum fsdp_rule_index rule, int severity, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* ---- complete-widths.c ---- */

/* Whether it is the weight of an input embedding, or of an output head, of the language
 * model. */
bool fsdp_complete_is_embedding(const struct fsdp_complete *complete, uint32_t index);
bool fsdp_complete_is_head(const struct fsdp_complete *complete, uint32_t index);

/* Whether it is not packed: floats of 16 bits or more. */
bool fsdp_complete_is_plain(const struct fsdp_tensor *tensor);

/* ---- the steps ---- */

void fsdp_complete_judge_numbers(struct fsdp_complete *complete);
void fsdp_complete_judge_members(struct fsdp_complete *complete);
void fsdp_complete_judge_modules(struct fsdp_complete *complete);
void fsdp_complete_judge_shapes(struct fsdp_complete *complete);
void fsdp_complete_judge_adapters(struct fsdp_complete *complete);
void fsdp_complete_judge_layers(struct fsdp_complete *complete);
void fsdp_complete_judge_experts(struct fsdp_complete *complete);
void fsdp_complete_judge_widths(struct fsdp_complete *complete);
void fsdp_complete_judge_parts(struct fsdp_complete *complete);
void fsdp_complete_judge_packed(struct fsdp_complete *complete);

/* Sets is_counted of all stacks. */
void fsdp_complete_count_layers(struct fsdp_complete *complete);

/* Ends a step: what it took from the work arena is gone. */
static inline void fsdp_complete_step_done(struct fsdp_complete *complete)
{
	fsdp_arena_reset(&complete->work);
}

/* So many of what `pointer` points at from the work arena, to be assigned to it. */
#define FSDP_COMPLETE_TAKE(complete, pointer, count) \
	FSDP_TAKE(&(complete)->work, pointer, (count) + 1)

#endif
