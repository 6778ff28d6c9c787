/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and shapes of the model that config.json describes: tables of tensors for each
 * type of model, from data/architectures.txt, whose sizes the configuration has.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loaders/loading.h"
#include "base/num.h"

#define CONFIG "config.json"

enum {
	LAYERS_MAX = 4096,
	EXPERTS_MAX = 1024,
	ALL_EXPERTS_MAX = 1 << 18,
	SIZE_MAX_STATED = 1 << 30,
	NAME_BYTES = 192,
	DIMS = 4
};

/* ---- tables ---- */

/* A size, in the order in which they are found: the first of the keys that is a number,
 * else the default of the type of model, else the expression. */
struct size_key {
	char letter;
	const char *keys, *otherwise;
};

/* A setting, or the end of a class's name, that turns a flag on. */
struct flag_key {
	uint32_t flag;
	const char *key;
};

struct known_key {
	const char *key;
	int64_t value;
};

/* Whether one of several stored names is enough. */
enum sharing {
	APART,
	EMBEDDING, /* with the head, if the configuration ties it */
	ALWAYS,
	HEAD, /* of T5: in any case from transformers 5 on */
	HEAD_BIAS,
	EITHER,   /* one of two names of an untied head */
	OPTIONAL, /* a buffer that has its value without a file */
};

/* A tensor; its names contain %L and so on. */
struct row {
	const char *name, *shape;
	uint32_t when, unless;
	uint8_t tie, expert;
	const char *memory; /* its name in memory; NULL: the same */
};

struct model_family {
	const struct row *rows;
	size_t row_count;
	const char *prefix; /* of the base model */
	uint32_t heads;     /* classes that are known */
	bool needs_class;   /* it has no language model by default */
	bool needs_tie;     /* untied before transformers 5: not known */
	bool is_tied;       /* untied: not known */
	bool is_renamed;    /* names in memory are others */
	bool no_causal;     /* a class ForCausalLM is its decoder alone */
};

struct architecture {
	const char *type; /* model_type */
	const struct model_family *family;
	uint32_t has, asks;   /* of a configuration without these keys; about
				 which it has one */
	const char *defaults; /* of sizes: "K=8 w=256" */
};

/* QKV_BIAS and so on: flags of the configuration, of its class and of the type. JOINED is
 * of the files: the experts of a layer are stored as two tensors. */
#include "loaders/architectures.def"

enum { HEADS = LANGUAGE | SEQUENCE | TOKEN | IMAGE | BARE };

/* ---- reading the configuration ---- */

/* One that is asked about, and what was read. */
struct building {
	struct fsdp_loading *loading;
	const struct architecture *of;
	uint32_t flags;
	int64_t sizes[128]; /* by letter; 0: not known */
	bool keeps;         /* tensors; else they are counted */
	size_t count;
};

/* An expression, letters and numbers with * / + between them, from left to right; *at
 * becomes its end. 0: a size of it is not known, or too large. */
static int64_t evaluate(const struct building *building, const char **at)
{
	int64_t value = 1;
	char sign = '*';
	do {
		int64_t operand = 0;
		bool good = true;
		if (fsdp_is_digit(**at))
			while (fsdp_is_digit(**at))
				operand = 10 * operand + *(*at)++ - '0';
		else
			operand = building->sizes[(unsigned char)*(*at)++ & 127];
		if (operand <= 0)
			value = 0;
		else if (sign == '*')
			good = !__builtin_mul_overflow(value, operand, &value);
		else if (sign == '/')
			value /= operand;
		else if (value != 0)
			good = !__builtin_add_overflow(value, operand, &value);
		if (!good)
			value = 0;
		sign = **at;
	} while ((sign == '*' || sign == '/' || sign == '+') && (*at)++);
	return value;
}

static bool read_sizes(struct building *building)
{
	struct fsdp_loading *loading = building->loading;
	int64_t *sizes = building->sizes;
	for (size_t i = 0; i < FSDP_COUNT(size_keys); i++) {
		const struct size_key *key = &size_keys[i];
		const char *otherwise = key->otherwise, *at = building->of->defaults;
		char name[FSDP_LOAD_WORD_BYTES];
		int64_t size = -1;
		for (; *at != '\0'; at += strcspn(at, " "), at += *at == ' ')
			if (*at == key->letter)
				otherwise = at + 2;
		/* null is the default. */
		for (at = key->keys; size < 0 && fsdp_load_next_word(&at, name);) {
			struct fsdp_token value =
				fsdp_load_setting(loading, CONFIG, name).value;
			if (value.kind == FSDP_TOKEN_INTEGER)
				size = value.integer;
			else if (value.kind != FSDP_TOKEN_NONE)
				return false;
		}
		if (size < 0)
			size = otherwise != NULL ? evaluate(building, &otherwise) : 0;
		if (key->keys[0] != '\0' && size > SIZE_MAX_STATED)
			return false;
		sizes[(unsigned char)key->letter] = size;
	}
	struct fsdp_token labels = fsdp_load_setting(loading, CONFIG, "id2label").value;
	if (labels.kind == FSDP_TOKEN_DICT && labels.count > 0)
		sizes['N'] = labels.count;
	return sizes['L'] <= LAYERS_MAX && sizes['D'] <= LAYERS_MAX &&
	       sizes['l'] <= LAYERS_MAX;
}

static bool read_flags(struct building *building)
{
	struct fsdp_loading *loading = building->loading;
	const struct architecture *of = building->of;
	const struct model_family *family = of->family;
	struct fsdp_load_items list = fsdp_load_items(loading, CONFIG, "architectures");
	const struct fsdp_setting *first = fsdp_load_next_item(&list);
	struct fsdp_span inner = fsdp_load_text(loading, CONFIG, "feed_forward_proj");
	/* The class that config.json lists first; without one a decoder has its head. */
	struct fsdp_span class_name =
		first != NULL ? first->value.text : (struct fsdp_span){ 0 };
	uint32_t flags = of->has, head = 0;

	for (size_t i = 0; i < FSDP_COUNT(known_keys); i++)
		if (fsdp_load_integer(loading, CONFIG, known_keys[i].key,
			    known_keys[i].value) != known_keys[i].value)
			return false;
	for (size_t i = 0; i < FSDP_COUNT(flag_keys); i++) {
		int64_t value = fsdp_load_integer(loading, CONFIG, flag_keys[i].key, -1);
		if ((of->asks & flag_keys[i].flag) != 0 && value >= 0)
			flags = (flags & ~flag_keys[i].flag) |
				(value != 0 ? flag_keys[i].flag : 0);
	}
	if ((of->asks & GATED) != 0 && inner.data != NULL)
		flags = (flags & ~(uint32_t)GATED) |
			(fsdp_span_begins(inner, FSDP_SPAN("gated")) ? GATED : 0);
	if (building->sizes['W'] != building->sizes['H'])
		flags |= PROJECTED;
	if (class_name.data == NULL && !family->needs_class)
		head = LANGUAGE;
	for (size_t i = 0; i < FSDP_COUNT(class_ends); i++)
		if (fsdp_span_ends(class_name, fsdp_span_text(class_ends[i].key)))
			head = class_ends[i].flag;
	/* A class of its own code may have other layers. */
	if ((family->no_causal && fsdp_span_ends(class_name, FSDP_SPAN("ForCausalLM"))) ||
		(head == BARE && fsdp_load_find_set(loading, CONFIG, "auto_map") != NULL))
		head = 0;
	building->flags = flags | (head & family->heads);
	/* Of experts: a loader that joins them, in every layer, in a number that may be.
	 */
	if ((flags & EXPERTS) != 0 &&
		(!loading->converts || building->sizes['E'] <= 0 ||
			building->sizes['E'] > EXPERTS_MAX ||
			building->sizes['L'] * building->sizes['E'] > ALL_EXPERTS_MAX ||
			fsdp_load_integer(loading, CONFIG, "decoder_sparse_step", 1) !=
				1 ||
			fsdp_load_find_set(loading, CONFIG, "mlp_only_layers") != NULL))
		return false;
	return (building->flags & HEADS) != 0 &&
	       ((flags & TIED) != 0 ||
		       (!family->is_tied &&
			       (!family->needs_tie || !loading->is_before_5)));
}

/* ---- adding ---- */

static struct fsdp_span write_name(
	char text[NAME_BYTES], const char *name, int64_t layer, int64_t expert)
{
	size_t size = 0;
	for (const char *at = name; *at != '\0'; at++)
		if (*at == '%')
			size += (size_t)snprintf(text + size, NAME_BYTES - size, "%lld",
				(long long)(*++at == 'E' ? expert : layer));
		else
			text[size++] = *at;
	return fsdp_span(text, size);
}

/* Whether the weights have this name in memory, with the prefix of the base model or
 * without it, for a loader that takes it. */
static bool takes_from_memory(
	struct fsdp_loading *loading, const char *of, int64_t layer, int64_t expert)
{
	const struct fsdp_checkpoint *checkpoint =
		loading->weights != NULL && !loading->is_before_5
			? fsdp_load_opened(loading)
			: NULL;
	char text[NAME_BYTES];
	struct fsdp_span name;
	if (checkpoint == NULL || of == NULL)
		return false;
	name = write_name(text, of, layer, expert);
	return fsdp_tensor_find(checkpoint, name) != FSDP_NONE ||
	       (fsdp_span_behind(name, loading->base_prefix, &name) &&
		       fsdp_tensor_find(checkpoint, name) != FSDP_NONE);
}

/* Adds a tensor of a layer. False: its shape is not known. */
static bool add(
	struct building *building, const struct row *row, int64_t layer, int64_t expert)
{
	static const uint8_t tied[][2] = {
		[APART] = { FSDP_LOAD_UNTIED, FSDP_LOAD_UNTIED },
		[EMBEDDING] = { FSDP_LOAD_UNTIED, FSDP_LOAD_TIED_WEIGHT },
		[ALWAYS] = { FSDP_LOAD_TIED_WEIGHT, FSDP_LOAD_TIED_WEIGHT },
		[HEAD] = { FSDP_LOAD_UNTIED, FSDP_LOAD_TIED_WEIGHT },
		[HEAD_BIAS] = { FSDP_LOAD_UNTIED, FSDP_LOAD_TIED_BIAS },
		[EITHER] = { FSDP_LOAD_EITHER, FSDP_LOAD_TIED_WEIGHT },
		[OPTIONAL] = { FSDP_LOAD_OPTIONAL, FSDP_LOAD_OPTIONAL },
	};
	struct fsdp_loading *loading = building->loading;
	bool is_tied = (building->flags & TIED) != 0 ||
		       (row->tie == HEAD && !loading->is_before_5);
	struct fsdp_load_tensor *tensor;
	int64_t shape[DIMS], *kept;
	char text[NAME_BYTES];
	struct fsdp_span name;
	uint32_t dims = 0;
	for (const char *at = row->shape; *at != '\0'; at += *at == ',') {
		shape[dims] = evaluate(building, &at);
		if (shape[dims++] <= 0)
			return false;
	}
	if (building->count++, !building->keeps)
		return true;
	name = write_name(text,
		takes_from_memory(loading, row->memory, layer, expert) ? row->memory
								       : row->name,
		layer, expert);
	if ((building->flags & BARE) != 0)
		(void)fsdp_span_behind(name, building->of->family->prefix, &name);
	kept = FSDP_TAKE(loading->arena, kept, DIMS);
	tensor = &loading->model.items[loading->model.count++];
	*tensor = (struct fsdp_load_tensor){
		.name = fsdp_arena_copy(loading->arena, name),
		.shape = kept,
		.dims = dims,
		.tie = tied[row->tie][is_tied],
		.expert = row->expert,
		.layer = (uint32_t)layer,
	};
	memcpy(kept, shape, dims * sizeof *shape);
	return true;
}

static bool has_row(const struct building *building, const struct row *row)
{
	return (row->when & ~(uint32_t)JOINED & ~building->flags) == 0 &&
	       (row->unless & building->flags) == 0;
}

/* From 5 on transformers keeps all experts of a layer in two tensors, and takes those
 * from a file as it takes single ones. */
static bool are_joined(const struct building *building, int64_t layer)
{
	const struct model_family *family = building->of->family;
	bool is_joined = false;
	for (size_t i = 0; i < family->row_count && !is_joined; i++) {
		const struct row *row = &family->rows[i];
		is_joined = (row->when & JOINED) != 0 && has_row(building, row) &&
			    (takes_from_memory(building->loading, row->name, layer, 0) ||
				    takes_from_memory(
					    building->loading, row->memory, layer, 0));
	}
	return is_joined;
}

/* The tensors of all layers and experts. */
static bool add_row(struct building *building, const struct row *row)
{
	const char *mark = strchr(row->name, '%');
	int64_t layers = mark != NULL ? building->sizes[(unsigned char)mark[1]] : 1;
	int64_t experts = strstr(row->name, "%E") != NULL ? building->sizes['E'] : 1;
	bool is_either = ((row->when | row->unless) & JOINED) != 0;
	if (!has_row(building, row))
		return true;
	for (int64_t layer = 0; layer < layers; layer++) {
		if (is_either &&
			are_joined(building, layer) != ((row->when & JOINED) != 0))
			continue;
		for (int64_t expert = 0; expert < experts; expert++)
			if (!add(building, row, layer, expert))
				return false;
	}
	return layers > 0;
}

bool fsdp_load_model_of_config(struct fsdp_loading *loading)
{
	struct fsdp_span type = fsdp_load_text(loading, CONFIG, "model_type");
	struct building building = { .loading = loading };
	const struct model_family *family;
	for (size_t i = 0; i < FSDP_COUNT(architectures); i++)
		if (fsdp_span_is(type, architectures[i].type))
			building.of = &architectures[i];
	/* What quantizes makes other modules of them. */
	if (building.of == NULL ||
		(building.of->family->is_renamed && !loading->converts) ||
		fsdp_load_setting(loading, CONFIG, "quantization_config").value.kind ==
			FSDP_TOKEN_DICT ||
		!read_sizes(&building) || !read_flags(&building))
		return false;
	family = building.of->family;
	loading->base_prefix = family->prefix;
	for (unsigned turn = 0; turn < 2; turn++) {
		building.keeps = turn > 0;
		for (size_t i = 0; i < family->row_count; i++)
			if (!add_row(&building, &family->rows[i]))
				return false;
		if (turn > 0)
			break;
		loading->model.items = FSDP_TAKE(
			loading->arena, loading->model.items, building.count + 1);
	}
	qsort(loading->model.items, loading->model.count, sizeof *loading->model.items,
		fsdp_load_by_name);
	return true;
}
