/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_AUDIT_COMPLETE_H
#define FSDP_AUDIT_COMPLETE_H

#include "audit/checking.h"
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

/* Longer names, and those with more numbers, are not checked. */
enum { NAME_MOST = 4096, NUMBERS_MOST = 8 };

/* Tensors are not sharded over more. */
enum { RANKS_MOST = 128 };

/* A tensor as one number of its name sees it. */
struct name_record {
	uint32_t stack;    /* folded name before the number, in `names` */
	uint32_t element;  /* the number */
	uint32_t child;    /* first segment of the member */
	uint32_t member;   /* folded name after the number, in `members` */
	uint32_t tensor;   /* index in the checkpoint */
	uint32_t at, size; /* of the number in the stored name */
};

struct stack_element {
	const struct name_record *records; /* by child and member */
	uint32_t count;
	uint32_t number;
};

/* What a stack is part of. */
enum tower {
	TOWER_MAIN,
	TOWER_VISION,
	TOWER_SOUND,
	TOWER_OTHER,
	TOWER_PREDICTION, /* layers that predict further tokens */
};

struct stack {
	uint32_t name;    /* in `names` */
	uint32_t pattern; /* the same with "#" in place of numbers, in `patterns` */
	const struct name_record *records;
	const struct stack_element *elements; /* ascending */
	uint32_t record_count, element_count;
	uint32_t length; /* highest number + 1 */
	bool is_deep;    /* a member has a dot: elements are modules with children */
	bool is_inner;   /* inside of an element of another stack */
	bool is_counted; /* the configuration has so many layers, or experts */
	enum tower tower;
};

/* A setting that distinguishes layers: kinds of all of them, indices of some, or a count.
 */
struct layer_list {
	uint32_t setting;
	uint32_t length;       /* of a list or a text; 1: a number */
	const uint32_t *kinds; /* if it is made: of each item, equal for equal ones */
	bool is_made;
};

/* So many of them are looked at. */
enum { LISTS_MOST = 256 };

struct model {
	struct fsdp_checking *checking;
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_findings *findings;
	struct fsdp_arena *arena;
	struct fsdp_arena work; /* emptied after each part of the work */
	struct fsdp_names names, members, patterns;
	struct fsdp_vec list; /* struct name_record, until they are sorted */
	struct stack *stacks; /* what is above before what is below */
	size_t stack_count;
	uint32_t tensor_count, setting_count;
	uint32_t *folded;             /* of each tensor, in `names`; FSDP_NONE: omitted */
	uint32_t *patterned;          /* the same in `patterns` */
	unsigned char *reported;      /* of each tensor: a finding is about its shape */
	struct fsdp_table gone;       /* folded names that a finding says are missing */
	struct fsdp_table there;      /* folded name → tensor */
	struct fsdp_table pattern_of; /* name of a stack → pattern */
	/* Settings, or FSDP_NONE: config.json, adapter_config.json, and the part about
	 * the language model, else the root. */
	uint32_t root, adapter, text;
	const char *family; /* of the format, or "" */
	struct layer_list lists[LISTS_MOST];
	size_t list_count;
	unsigned char *seen; /* zeros, one per possible kind */
	size_t formatted;    /* names of what is missing, so far */
	/* Names that an index lists and no file has, sorted; NULL: not collected yet. */
	struct fsdp_span *unlisted;
	size_t unlisted_count;
	bool is_silent; /* absent for another cause, or listed by a plan */
};

/* So many of what `pointer` points at, to be assigned to it: until the check ends, or
 * until its part of the work does. The check is left where memory runs out. */
#define MODEL_KEEP(model, pointer, count) FSDP_TAKE((model)->arena, pointer, (count) + 1)
#define MODEL_TAKE(model, pointer, count) FSDP_TAKE(&(model)->work, pointer, (count) + 1)

/* ---- names ---- */

static inline struct fsdp_tensor tensor_at(const struct model *model, uint32_t index)
{
	return fsdp_tensor(model->checkpoint, index);
}

/* The last segment of a folded name; absent for FSDP_NONE. */
static inline struct fsdp_span segment_of(const struct model *model, uint32_t name)
{
	return name == FSDP_NONE ? (struct fsdp_span){ 0 }
				 : fsdp_names_segment(&model->names, name);
}

static inline bool is_called(const struct model *model, uint32_t name, const char *word)
{
	return fsdp_span_is(segment_of(model, name), word);
}

/* The names above and below; FSDP_NONE: none. */
static inline uint32_t parent_of(const struct model *model, uint32_t name)
{
	return name == FSDP_NONE ? FSDP_NONE : fsdp_names_at(&model->names, name)->parent;
}

static inline uint32_t child_of(
	const struct model *model, uint32_t name, const char *segment)
{
	return name == FSDP_NONE ? FSDP_NONE
				 : fsdp_names_find_child(
					   &model->names, name, fsdp_span_text(segment));
}

/* The segment of a name, from its end, that is called so; FSDP_NONE: no segment. */
static inline uint32_t find_segment(
	const struct fsdp_names *names, uint32_t name, const char *word)
{
	for (; name != 0 && name != FSDP_NONE; name = fsdp_names_at(names, name)->parent)
		if (fsdp_span_is(fsdp_names_segment(names, name), word))
			return name;
	return FSDP_NONE;
}

/* The value of a segment of digits, as numbers of modules are written. */
bool fsdp_complete_is_number(struct fsdp_span segment, uint32_t *ret);

/* Whether a segment of the name is such a number. */
bool fsdp_complete_has_number(const struct fsdp_names *names, uint32_t name);

/* The tensor with this folded name, or FSDP_NONE. */
static inline uint32_t find_tensor(const struct model *model, uint32_t name)
{
	return name == FSDP_NONE ? FSDP_NONE : fsdp_table_get(&model->there, name);
}

/* The stored name of a tensor; valid until the next one. */
static inline struct fsdp_span stored_name(const struct model *model, uint32_t tensor)
{
	return fsdp_scratch_name(
		&model->checking->name, model->checkpoint, tensor_at(model, tensor).name);
}

/* The stored name that the record's tensor would have with another number; a copy. */
struct fsdp_span fsdp_complete_name_with(
	struct model *model, const struct name_record *record, uint32_t number);

/* The path of the file that a tensor's first piece is in. */
struct fsdp_span fsdp_complete_file(const struct model *model, uint32_t index);

/* Whether it is the weight of an input embedding, or of an output head, of the language
 * model; of tensors that have a folded name. */
bool fsdp_complete_is_embedding(const struct model *model, uint32_t index);
bool fsdp_complete_is_head(const struct model *model, uint32_t index);

/* Whether it is not packed: floats of 16 bits or more. */
static inline bool is_plain(const struct fsdp_tensor *tensor)
{
	return fsdp_dtype(tensor->dtype)->is_floating &&
	       fsdp_dtype(tensor->dtype)->item_bits >= 16 && tensor->numel > 0;
}

/* ---- the configuration ---- */

static inline struct fsdp_setting setting_at(const struct model *model, uint32_t index)
{
	return fsdp_setting(model->checkpoint, index);
}

/* The path of the file that a setting is in. */
static inline struct fsdp_span config_file(const struct model *model, uint32_t setting)
{
	return fsdp_file(model->checkpoint, setting_at(model, setting).file).path;
}

/* A member of an object, or FSDP_NONE. */
uint32_t fsdp_complete_get(const struct model *model, uint32_t object, const char *key);

/* Its value, of the kind NONE if it is absent; a number that is not negative; a text,
 * absent if it is none. */
struct fsdp_token fsdp_complete_get_value(
	const struct model *model, uint32_t object, const char *key);
bool fsdp_complete_get_integer(
	const struct model *model, uint32_t object, const char *key, uint64_t *ret);
struct fsdp_span fsdp_complete_get_text(
	const struct model *model, uint32_t object, const char *key);
/* The dtype of config.json, by its present or former key; absent: none. */
struct fsdp_span fsdp_complete_config_dtype(const struct model *model);

static inline bool contains(struct fsdp_span text, const char *word)
{
	return text.data != NULL &&
	       memmem(text.data, text.size, word, strlen(word)) != NULL;
}

/* Whether an integer anywhere in the configuration is this number; with `word`, only
 * those whose key contains it. */
bool fsdp_complete_config_has(const struct model *model, const char *word, uint64_t n);

/* Whether any key contains the word. */
bool fsdp_complete_config_names(const struct model *model, const char *word);

/* Whether any "model_type" is this. */
bool fsdp_complete_is_model(const struct model *model, const char *model_type);

/* Whether the first layer of such a model is known to lack what is called so. */
bool fsdp_complete_first_lacks(const struct model *model, struct fsdp_span segment);

/* ---- reasons for layers to differ ---- */

/* Whether the configuration, or a simple rule, draws these elements out of those: flags
 * of all elements of `kin`, which are ascending. */
struct layer_set {
	const struct stack *stack;
	const uint32_t *kin;
	const bool *is_in;
	uint32_t kin_count, count; /* of all, of those in it */
};
bool fsdp_complete_is_explained(struct model *model, const struct layer_set *set);

/* The same by the configuration only. */
bool fsdp_complete_is_configured(struct model *model, const struct layer_set *set);

/* Kinds that a list "layer_types" gives to layers of a stack of this length: equal kinds
 * have equal numbers. NULL: no such list. */
const uint32_t *fsdp_complete_layer_kinds(struct model *model, uint32_t length);

/* ---- findings ---- */

/* What is missing: members of an element as another one has them. */
struct hole {
	const struct stack *stack;
	uint32_t element;
	uint32_t group; /* in `members`: all below it is missing; 0: the full element */
	/* Of elements that have them so many; like[] may end with FSDP_AFFECTED_KEPT. */
	const struct name_record *const *like;
	size_t count;
	uint32_t have, of; /* elements that have it, out of so many */
};

/* Whether a finding has already reported this name or a parent of it; and from now on it
 * has. */
bool fsdp_complete_is_gone(
	struct model *model, const struct stack *stack, uint32_t element, uint32_t group);
void fsdp_complete_mark_gone(
	struct model *model, const struct stack *stack, uint32_t element, uint32_t group);

/* Raises stack-hole, unless it is gone already. */
void fsdp_complete_report_gone(struct model *model, const struct hole *hole);

/* Raises stack-hole, unless it is gone already: the module lacks a member, whose stored
 * name would be `missing`. It is in the file of `tensor`. */
void fsdp_complete_report_lacking(struct model *model, uint32_t tensor, uint32_t module,
	struct fsdp_span member, struct fsdp_span missing, const char *format, ...)
	__attribute__((format(printf, 6, 7)));

/* Raises a finding about the shape of a tensor, which counts as reported from then on.
 * `severity` is as in a place. */
void fsdp_complete_report(struct model *model, uint32_t index, enum fsdp_rule_index rule,
	int severity, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* ---- shapes ---- */

/* World size if the shape is a piece of the expected one: one dimension is 1/W. 0: not a
 * piece, or equal. */
uint32_t fsdp_complete_ranks_of(const struct fsdp_tensor *tensor,
	const struct fsdp_tensor *due, uint32_t *ret_dim);

/* How often so many numbers go into the due ones, up to padding; 0: they do not. */
uint32_t fsdp_complete_flat_ranks(uint64_t numel, uint64_t due);

/* Reports one rank's piece of the expected shape, or a flattened tensor; reports nothing
 * else, and each tensor once. */
void fsdp_complete_check_shape(
	struct model *model, uint32_t index, const struct fsdp_tensor *due);

/* ---- the steps ---- */

void fsdp_complete_check_numbers(struct model *model);
void fsdp_complete_check_members(struct model *model);
void fsdp_complete_check_modules(struct model *model);
void fsdp_complete_check_shapes(struct model *model);
void fsdp_complete_check_adapters(struct model *model);
void fsdp_complete_check_layers(struct model *model);
void fsdp_complete_check_experts(struct model *model);
void fsdp_complete_check_widths(struct model *model);
void fsdp_complete_check_parts(struct model *model);
void fsdp_complete_check_packed(struct model *model);

/* Sets is_counted of all stacks. */
void fsdp_complete_count_layers(struct model *model);

#endif
