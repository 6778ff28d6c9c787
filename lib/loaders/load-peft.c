/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PeftModel.from_pretrained(base, directory). The base is stored elsewhere: the adapter's
 * settings about it are trusted, unless --expect has its names.
 *
 * Origin: peft/peft_model.py, config.py, utils/save_and_load.py, utils/other.py, tuners
 * (0.21).
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "loaders/loading.h"
#include "base/num.h"

#define CONFIG_FILE "adapter_config.json"
#define PREFIX "base_model.model."

enum {
	NAME_BYTES = 4096,
	MEMBERS = 7,
	/* Of a list: people write a few, programs one per module. Each is compared with
	 * each tensor. */
	ITEMS_MOST = 4096,
	LITERAL = 1024,
};

/* ---- types of adapters ---- */

/* Of the module in the base model; of a linear one these are the sizes of its weight. */
enum size {
	ANY,
	IN,
	OUT,
	ROWS,    /* of an embedding */
	COLUMNS, /* … */
	SIDE,    /* its elements are as many as inputs or as outputs */
};

/* A tensor of an adapted module. */
struct adapter_member {
	const char *name, *tail; /* "lora_A", ".weight", as they are stored */
	const char *live_tail;   /* after the adapter's name in the model; NULL: `tail` */
	uint8_t needs;           /* number of a member that is stored, too; 0: none */
	uint8_t also_needs;      /* another one … */
	const char *flag;        /* … if this is set */
	uint8_t unsized_by; /* with this member `size` is unknown, `needs` too; 0: none */
	uint32_t rank_dim;  /* dimension that is the rank, from 1; 0: none */
	enum size size;     /* what dimension `at` is … */
	uint32_t at, times_at; /* … times that dimension; 0: no other … */
	const char *times;     /* … times that setting; NULL: none */
};

enum { LORA_A = 1, LORA_B, EMBEDDING_A, EMBEDDING_B, MAGNITUDE, LORA_BIAS };
enum { BOFT_R = 1, BOFT_S };

/* clang-format off */
static const struct adapter_form {
	const char *type; /* as peft_type has it */
	const char *rank; /* setting with the rank; NULL: no rank */
	int64_t rank_default;
	bool is_prompt; /* one tensor before all layers, no module is adapted */
	struct adapter_member members[MEMBERS]; /* from 1 on */
} forms[] = {
	{ .type = "LORA", .rank = "r", .rank_default = 8, .members = {
		[LORA_A] = { "lora_A", ".weight", .needs = LORA_B, .flag = "use_dora",
			.also_needs = MAGNITUDE, .rank_dim = 1, .size = IN, .at = 1 },
		[LORA_B] = { "lora_B", ".weight", .needs = LORA_A, .flag = "lora_bias",
			.also_needs = LORA_BIAS, .rank_dim = 2, .size = OUT, .at = 0 },
		[EMBEDDING_A] = { "lora_embedding_A", "", .needs = EMBEDDING_B,
			.flag = "use_dora", .also_needs = MAGNITUDE, .rank_dim = 1, .size = ROWS,
			.at = 1 },
		[EMBEDDING_B] = { "lora_embedding_B", "", .needs = EMBEDDING_A, .rank_dim = 2,
			.size = COLUMNS, .at = 0 },
		[MAGNITUDE] = { "lora_magnitude_vector", "", ".weight", .needs = LORA_A,
			.unsized_by = EMBEDDING_A, .size = SIDE },
		[LORA_BIAS] = { "lora_B", ".bias", .size = OUT, .at = 0 } } },
	{ .type = "IA3", .members = { { 0 }, { "ia3_l", "", .size = SIDE } } },
	{ .type = "OFT", .members = { { 0 },
		{ "oft_R", ".weight", .size = IN, .at = 0, .times = "oft_block_size" } } },
	{ .type = "BOFT", .rank = "boft_n_butterfly_factor", .rank_default = 1, .members = {
		[BOFT_R] = { "boft_R", "", .needs = BOFT_S, .rank_dim = 1, .size = IN, .at = 1,
			.times_at = 2 },
		[BOFT_S] = { "boft_s", "", .needs = BOFT_R, .size = OUT, .at = 0 } } },
	{ .type = "PROMPT_TUNING", .is_prompt = true },
	{ .type = "PREFIX_TUNING", .is_prompt = true },
};
/* clang-format on */

/* ---- what is stored, and the configuration ---- */

/* The configuration is of one of them: a fact of each. */
enum {
	LORA = 1 << 0,
	IA3 = 1 << 1,
	OFT = 1 << 2,
	MODULES = 15,
	PREFIX_TUNING = 1 << 5,
	PROMPTS = 48, /* with that one */
	FORMS = 63,
	/* Of the configuration. */
	UNSET = 1 << 6, /* target_modules */
	EMPTY = 1 << 7,
	NO_JSON = 1 << 8,
	NO_TYPE = 1 << 9,
	OTHER_TYPE = 1 << 10, /* this release does not have it */
	VARIANT = 1 << 11,    /* names or sizes change in a way that is not known here */
	TOO_LONG = 1 << 12,
	TWO_SIZES = 1 << 13, /* OFT: the one is what the other leaves over */
	STRAY_INPUTS = 1 << 14,
	/* It may exclude modules by patterns. */
	PATTERNS = 1 << 15,
	/* Of it and the tensors, or the base. */
	ALL_EXCLUDED = 1 << 16,
	NO_TARGET = 1 << 17,
	BASE_LACKS = 1 << 18,
	STORED = 1 << 19,      /* tensors … */
	OWN_TENSORS = 1 << 20, /* … of an adapter */
	USES_NOTHING = 1 << 21,
	LACKS_TOKENS = 1 << 22,
	OTHER_TOKENS = 1 << 23,
	LACKS_PROMPTS = 1 << 24,
	NO_COUNT = 1 << 25, /* of prompts */
	OTHER_PROMPTS = 1 << 26,
	FITS_SOME = 1 << 27, /* of the base */
	OPENED = 1 << 28,
	REPLICATED = 1 << 29,
};

/* Kept words: a type or key that is not supported; two numbers, or a number and what
 * helps; the targets, and what helps. */
enum { SUBJECT = FSDP_LOAD_WORDS, FIRST, SECOND, LISTED, SET_TARGETS };

/* Lists of the configuration; the first LISTS are compared by their texts. */
enum list { TARGETS, EXCLUDED, WHOLE, INPUTS, PARAMETERS, LISTS, ALL_LISTS = LISTS + 2 };
static const char *const list_keys[ALL_LISTS] = { "target_modules", "exclude_modules",
	"modules_to_save", "feedforward_modules", "target_parameters", "rank_pattern",
	"layers_to_transform" };

/* The types that PEFT has; keys of settings that are not known here. */
#define ALL_TYPES                                                                       \
	"PROMPT_TUNING MULTITASK_PROMPT_TUNING P_TUNING PREFIX_TUNING LORA ADALORA "    \
	"ADAMSS BOFT ADAPTION_PROMPT IA3 BEFT LILY LOHA LOKR OFT POLY LN_TUNING VERA "  \
	"FROD PVERA FOURIERFT GLORA XLORA HRA VBLORA UNILORA CPT MISS RANDLORA ROAD "   \
	"TRAINABLE_TOKENS HIRA SHIRA C3A WAVEFT OSF DELORA GRALORA CARTRIDGE TINYLORA " \
	"PSOFT PEANUT SHADOW SUPERTUNING DEFT"
#define VARIANTS \
	"use_bdlora use_qalora kasa_config monteclora_config arrow_config velora_config"

static const struct fsdp_load_fact facts[] = {
	{ NO_JSON, .document = CONFIG_FILE },
	{ NO_TYPE, .document = CONFIG_FILE, .keys = "peft_type", .kind = FSDP_LOAD_TEXT,
		.is_lacking = true },
	{ OTHER_TYPE, .document = CONFIG_FILE, .keys = "peft_type",
		.kind = FSDP_LOAD_TEXT, .values = ALL_TYPES, .is_lacking = true },
	{ VARIANT, .document = CONFIG_FILE, .keys = VARIANTS, .kind = FSDP_LOAD_SET },
	{ REPLICATED, .document = CONFIG_FILE, .keys = "layer_replication",
		.kind = FSDP_LOAD_SET },
	{ UNSET, .document = CONFIG_FILE, .keys = "target_modules", .is_lacking = true },
	{ EMPTY, .document = CONFIG_FILE, .keys = "target_modules target_parameters",
		.kind = FSDP_LOAD_SET, .is_lacking = true },
	{ 0 },
};

struct adapter_words {
	struct fsdp_span *items;
	size_t count;
};

/* What holds of a stored tensor. */
enum {
	LIVE = 1 << 0,     /* the loader finds it in its model */
	TARGET = 1 << 1,   /* … and the configuration does not exclude its module */
	PREFIXED = 1 << 2, /* its name has the prefix and no wrapper */
	RENAMED = 1 << 3,  /* of an adapter, and not LIVE */
	PLACEHOLDER = 1 << 4,
	TURNED = 1 << 5,
	NO_MATRIX = 1 << 6, /* too few dimensions */
	OTHER_RANK = 1 << 7,
	UNKNOWN_RANK = 1 << 8,
	NOT_IN_BASE = 1 << 9,
	LATER = 1 << 10, /* its layer is none of the base, which has others */
	PLAIN = 1 << 11, /* of DoRA, which the configuration does not ask for */
	HALF = 1 << 12,  /* what belongs to it is not stored */
	OTHER_SIZE = 1 << 13,
	IGNORED = 1 << 14,
	/* Of a tensor of the base: no tensor is stored for its module, which is adapted,
	 * or if it is linear; it was trained itself. */
	GONE = 1 << 15,
	MAYBE_GONE = 1 << 16,
	LOST_BIAS = 1 << 17,
	/* With the argument of a rule: all names; by the name in the model. */
	NAMES = 1 << 29,
	AS_LIVE = 1 << 30,
};

/* A tensor, and its name taken apart; those of the base follow the stored ones. */
struct peft_part {
	struct fsdp_span whole, rest;         /* without the prefix, if PREFIXED */
	const struct adapter_member *member;  /* NULL: none of an adapter */
	const struct adapter_member *lacking; /* that is not stored, or is called so */
	struct fsdp_span module;  /* as the base has it, if the name is live */
	struct fsdp_span adapter; /* ".default", or empty */
	uint32_t is, dims;
	const int64_t *shape;
	int64_t found, wanted; /* rank or size */
};

/* Read once, before any rule. */
struct adapter {
	struct fsdp_loading *loading;
	const struct adapter_form *form;
	const struct fsdp_checkpoint *checkpoint; /* NULL: not opened */
	struct peft_part *parts, *end, *last;
	struct adapter_words lists[LISTS];
	bool lists_targets;  /* target_modules is a list with items */
	bool is_all_linear;  /* all linear modules but the output head are targets */
	int64_t base_layers; /* of the expected model; 0: not known */
	int64_t layers;      /* with tensors; 0: not known */
	int64_t tokens;      /* that are trained whole, of those stored; -1: none */
};

static int64_t integer(const struct adapter *adapter, const char *key, int64_t otherwise)
{
	return fsdp_load_integer(adapter->loading, CONFIG_FILE, key, otherwise);
}

static struct fsdp_token setting(const struct adapter *adapter, const char *key)
{
	return fsdp_load_setting(adapter->loading, CONFIG_FILE, key).value;
}

static bool is_set(const struct adapter *adapter, const char *keys)
{
	return fsdp_load_find_set(adapter->loading, CONFIG_FILE, keys) != NULL;
}

/* Whether the last segments of a name are the word, or all of it. */
static bool ends_so(struct fsdp_span module, struct fsdp_span word)
{
	return word.size != 0 && fsdp_span_ends(module, word) &&
	       (module.size == word.size ||
		       module.data[module.size - word.size - 1] == '.');
}

static bool has_word(const struct adapter *adapter, enum list list, struct fsdp_span name)
{
	const struct adapter_words *words = &adapter->lists[list];
	for (size_t i = 0; i < words->count; i++)
		if (ends_so(name, words->items[i]))
			return true;
	return false;
}

/* The name without its last segment. */
static struct fsdp_span parent(struct fsdp_span name)
{
	name.size -= fsdp_min(name.size, fsdp_span_last(name, '.').size + 1);
	return name;
}

/* The number of the first segment that is one and has two before it; -1: none has. */
static int64_t layer_of(struct fsdp_span rest)
{
	uint64_t number;
	for (size_t i = 0;; i++) {
		struct fsdp_span part = fsdp_span_first(rest, '.');
		size_t size = part.size;
		if (size == rest.size)
			return -1;
		if (i >= 2 && fsdp_span_is_number(part) &&
			fsdp_span_number(&part, 1000000000, &number))
			return (int64_t)number;
		rest = fsdp_span(rest.data + size + 1, rest.size - size - 1);
	}
}

/* The first tensor with one of these marks. */
static const struct peft_part *find_part(const struct adapter *adapter, uint32_t is)
{
	for (const struct peft_part *part = adapter->parts; part < adapter->last; part++)
		if ((part->is & is) != 0)
			return part;
	return NULL;
}

/* Whether target_modules, if it is a list, names the module. */
static bool is_named(const struct adapter *adapter, struct fsdp_span module)
{
	return !adapter->lists_targets || has_word(adapter, TARGETS, module);
}

/* Whether a tensor is stored for a module whose name has the same last segment. */
static bool is_adapted_kind(const struct adapter *adapter, struct fsdp_span module)
{
	struct fsdp_span last = fsdp_span_last(module, '.');
	for (const struct peft_part *part = adapter->parts; part < adapter->end; part++)
		if ((part->is & LIVE) != 0 &&
			fsdp_span_equal(fsdp_span_last(part->module, '.'), last))
			return true;
	return false;
}

/* Whether a module of the base is adapted, if no pattern decides otherwise. Of all linear
 * ones those are known that are called like one that is stored. */
static bool is_target(const struct adapter *adapter, struct fsdp_span module)
{
	static const char key[] = "layers_to_transform";
	const struct adapter_words *targets = &adapter->lists[TARGETS];
	struct fsdp_token only = setting(adapter, key);
	const struct fsdp_setting *item;
	struct fsdp_load_items layers;
	if (!adapter->is_all_linear &&
		setting(adapter, list_keys[TARGETS]).text.size != 0)
		return true;
	if (has_word(adapter, EXCLUDED, module))
		return false;
	if (adapter->is_all_linear)
		return is_adapted_kind(adapter, module);
	for (struct fsdp_span up = module; up.size != 0; up = parent(up))
		if (has_word(adapter, WHOLE, up))
			return false;
	if (!has_word(adapter, TARGETS, module) ||
		fsdp_span_place(module, targets->items, targets->count) < targets->count)
		return has_word(adapter, TARGETS, module);
	layers = fsdp_load_items(adapter->loading, CONFIG_FILE, key);
	if (only.kind == FSDP_TOKEN_INTEGER || layers.at == layers.end)
		return only.kind != FSDP_TOKEN_INTEGER ||
		       only.integer == layer_of(module);
	while ((item = fsdp_load_next_item(&layers)) != NULL)
		if (item->value.kind == FSDP_TOKEN_INTEGER &&
			item->value.integer == layer_of(module))
			return true;
	return false;
}

/* Takes a name apart that ends with a tail of the member. The adapter's own name may be
 * in between. */
static bool read_member(
	struct peft_part *part, const struct adapter_member *member, const char *tail)
{
	struct fsdp_span rest = part->whole, last;
	if (tail == NULL || !fsdp_span_ends(rest, fsdp_span_text(tail)))
		return false;
	rest.size -= strlen(tail);
	last = fsdp_span_last(rest, '.');
	part->adapter = (struct fsdp_span){ 0 };
	if (!fsdp_span_is(last, member->name) && rest.size > last.size) {
		part->adapter = fsdp_span(last.data - 1, last.size + 1);
		rest.size -= last.size + 1;
		last = fsdp_span_last(rest, '.');
	}
	if (!fsdp_span_is(last, member->name) || rest.size == last.size)
		return false;
	part->member = part->lacking = member;
	part->module = parent(rest);
	part->is |=
		(part->is & PREFIXED) != 0 &&
				fsdp_span_behind(part->module, PREFIX, &part->module) &&
				(part->adapter.size == 0 ||
					fsdp_span_is(part->adapter, ".default"))
			? LIVE
			: RENAMED;
	return true;
}

/* Whether a tensor is stored under this name, with "%.*s" and so on filled in. */
__attribute__((format(printf, 2, 3))) static bool has_stored(
	const struct adapter *adapter, const char *format, ...)
{
	char text[NAME_BYTES];
	va_list arguments;
	int size;
	va_start(arguments, format);
	size = vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	return adapter->checkpoint != NULL && (size_t)size < sizeof text &&
	       fsdp_tensor_find(adapter->checkpoint, fsdp_span(text, (size_t)size)) !=
		       FSDP_NONE;
}

/* Whether a module of the base has this member, by its number; a name of the adapter that
 * is absent is "default". */
static bool has_member(const struct adapter *adapter, struct fsdp_span module,
	size_t number, struct fsdp_span name)
{
	const struct adapter_member *member = &adapter->form->members[number];
	const char *const tails[] = { member->tail, member->live_tail };
	bool is_default = name.size == 0 || fsdp_span_is(name, ".default");
	for (size_t i = 0; i < FSDP_COUNT(tails) && tails[i] != NULL; i++)
		if (has_stored(adapter, PREFIX "%.*s.%s%.*s%s", FSDP_TEXT(module),
			    member->name, FSDP_TEXT(name), tails[i]) ||
			(is_default &&
				has_stored(adapter, PREFIX "%.*s.%s%s%s",
					FSDP_TEXT(module), member->name,
					name.size == 0 ? ".default" : "", tails[i])))
			return true;
	return false;
}

/* -1: it has fewer dimensions. */
static int64_t size_at(const struct peft_part *part, uint32_t dim)
{
	return dim < part->dims ? part->shape[dim] : -1;
}

/* A tensor of a target that has a rank. */
static bool is_ranked(const struct adapter *adapter, const struct peft_part *part)
{
	return (part->is & TARGET) != 0 && adapter->form->rank != NULL &&
	       part->member->rank_dim != 0;
}

/* The rank of a module may have a pattern: a single text, where "\." is a dot, and "."
 * is read as one, as people write it. Of a tensor with too few dimensions it is not a
 * rank that is wrong. Parameters that are not weights of their modules have a rank for
 * each of their parts. A convolution in groups has its rank cut among them in the second
 * matrix. */
static void mark_rank(const struct adapter *adapter, struct peft_part *part)
{
	const struct adapter_member *member = part->member;
	struct fsdp_load_items list =
		fsdp_load_items(adapter->loading, CONFIG_FILE, "rank_pattern");
	bool is_matrix = part->dims > member->at && part->dims >= member->rank_dim;
	bool is_known = true, is_met = false;
	int64_t share = size_at(part, 1);
	const struct fsdp_setting *item;
	char text[LITERAL];
	part->found = is_matrix ? part->shape[member->rank_dim - 1] : -1;
	part->wanted = integer(adapter, adapter->form->rank, adapter->form->rank_default);
	while (is_known && !is_met && (item = fsdp_load_next_item(&list)) != NULL) {
		struct fsdp_span pattern = item->key, literal;
		bool is_whole = pattern.size != 0 && pattern.data[0] == '^';
		size_t size = 0;
		for (size_t at = is_whole; at < pattern.size && is_known; at++) {
			at += pattern.data[at] == '\\' && at + 1 < pattern.size &&
			      pattern.data[at + 1] == '.';
			is_known = size < LITERAL &&
				   strchr("\\^$*+?{}[]|()", pattern.data[at]) == NULL;
			if (is_known)
				text[size++] = (char)pattern.data[at];
		}
		literal = fsdp_span(text, size);
		is_met = is_known && (is_whole ? fsdp_span_equal(part->module, literal)
					       : ends_so(part->module, literal));
		if (is_met)
			part->wanted = item->value.kind == FSDP_TOKEN_INTEGER
					       ? item->value.integer
					       : 0;
	}
	if (is_known && (part->found == part->wanted ||
				(part->dims > 2 && member->size == OUT && share > 0 &&
					part->wanted % share == 0)))
		return;
	if (!is_known || is_set(adapter, "target_parameters"))
		part->is |= UNKNOWN_RANK;
	else
		part->is |= is_matrix ? OTHER_RANK : NO_MATRIX;
	if (!is_matrix)
		part->found = part->dims;
}

/* A member against its module. The inputs of a convolution are those of a group, and
 * often times its extent. IA3 scales what goes into some modules, and what comes out of
 * the others. Modules with the names below are Conv1D, whose inputs come first, or linear
 * ones: the library corrects fan_in_fan_out by the class of the module. */
static void check_size(struct adapter *adapter, struct peft_part *part,
	const struct fsdp_load_tensor *base, bool scales_inputs)
{
	const struct adapter_member *member = part->member;
	bool is_input = member->size == IN || (member->size == SIDE && scales_inputs);
	bool is_turned = base->dims == 2 &&
			 fsdp_span_is_any(fsdp_span_last(part->module, '.'),
				 "c_attn q_attn c_proj c_fc") &&
			 (is_set(adapter, "fan_in_fan_out") ||
				 (member->size != SIDE &&
					 size_at(part, member->at) !=
						 base->shape[member->size == IN]));
	uint64_t wanted, found = 0;
	int64_t times = 1;
	bool is_known;
	if (base->shape == NULL || base->dims < 2 || member->size == ANY ||
		(member->unsized_by != 0 && has_member(adapter, part->module,
						    member->unsized_by, part->adapter)))
		return;
	wanted = (uint64_t)base->shape[member->size == ROWS      ? 0
				       : member->size == COLUMNS ? 1
								 : is_input != is_turned];
	if (member->times != NULL)
		times = integer(adapter, member->times, 0);
	if (member->times_at != 0)
		times = size_at(part, member->times_at);
	is_known = member->size == SIDE
			   ? fsdp_numel(part->shape, part->dims, &found)
			   : size_at(part, member->at) >= 0 && times > 0 &&
				     fsdp_mul((uint64_t)size_at(part, member->at),
					     (uint64_t)times, &found);
	if (is_known &&
		(base->dims > 2 && member->size == IN && wanted != 0 ? found % wanted == 0
								     : found == wanted)) {
		adapter->loading->is |= FITS_SOME;
	} else if ((part->is & (OTHER_RANK | NO_MATRIX)) == 0) {
		part->is |= OTHER_SIZE;
		part->found = (int64_t)found;
		part->wanted = (int64_t)wanted;
	}
}

/* What wraps a module leaves its name in that of the tensor; that of others than
 * torch.compile ends with "module". ZeRO-3 leaves a parameter without any size. A vector
 * of IA3 is a row if it scales inputs, and a column if it scales outputs. */
static void mark_part(struct adapter *adapter, struct peft_part *part)
{
	struct fsdp_loading *loading = adapter->loading;
	const struct adapter_member *member;
	const struct fsdp_load_tensor *base = NULL;
	char text[NAME_BYTES];
	bool is_row;
	int size;
	if (!fsdp_span_has_any(part->whole, "_orig_mod. module.") &&
		fsdp_span_behind(part->whole, PREFIX, &part->rest))
		part->is |= PREFIXED;
	if (part->dims == 1 && part->shape[0] == 0)
		part->is |= PLACEHOLDER;
	if (adapter->tokens < 0 && (part->is & PREFIXED) != 0 &&
		fsdp_span_ends(
			part->rest, FSDP_SPAN(".token_adapter.trainable_tokens_delta")))
		adapter->tokens = part->dims > 0 ? part->shape[0] : 0;
	for (size_t i = 0; i < MEMBERS && part->member == NULL; i++) {
		member = &adapter->form->members[i];
		if (member->name != NULL && !read_member(part, member, member->live_tail))
			(void)read_member(part, member, member->tail);
	}
	member = part->member;
	if (adapter->form->is_prompt || member != NULL ||
		fsdp_span_has_any(part->whole, "lora_ ia3_ oft_ boft_"))
		loading->is |= OWN_TENSORS;
	if ((part->is & LIVE) == 0)
		return;
	if (layer_of(part->module) >= adapter->layers)
		adapter->layers = layer_of(part->module) + 1;
	if (strstr(member->name, "magnitude") != NULL && !is_set(adapter, "use_dora"))
		part->is |= PLAIN | IGNORED;
	if (adapter->lists_targets && !is_target(adapter, part->module)) {
		part->is |= IGNORED;
		return;
	}
	for (unsigned i = 0; i < 2; i++) {
		size_t needed = i == 0 ? member->needs
				: member->also_needs != 0 && is_set(adapter, member->flag)
					? member->also_needs
					: 0;
		if ((part->is & HALF) == 0 && needed != 0 &&
			!has_member(adapter, part->module, needed, part->adapter) &&
			(member->unsized_by == 0 ||
				!has_member(adapter, part->module, member->unsized_by,
					part->adapter))) {
			part->is |= HALF;
			part->lacking = &adapter->form->members[needed];
		}
	}
	part->is |= TARGET;
	is_row = has_word(adapter, INPUTS, part->module);
	if (member->size == SIDE && part->dims <= 2 &&
		(part->dims != 2 || part->shape[!is_row] != 1))
		part->is |= TURNED;
	if (adapter->base_layers > 0 && layer_of(part->module) >= adapter->base_layers)
		part->is |= LATER;
	if (is_ranked(adapter, part))
		mark_rank(adapter, part);
	size = snprintf(text, sizeof text, "%.*s.weight", FSDP_TEXT(part->module));
	if ((size_t)size < sizeof text)
		base = fsdp_load_find_expected(loading, fsdp_span(text, (size_t)size));
	if (base != NULL)
		check_size(adapter, part, base, is_row);
	else if (loading->options->expected != NULL)
		part->is |= NOT_IN_BASE;
}

/* What a tensor of the base lacks. LoRA of single parameters lists them by their own
 * names. Members of an embedding have other names; a module is likely to be one by its
 * usual names. A bias is stored below its module if that is adapted. */
static void mark_base(const struct adapter *adapter, struct peft_part *part)
{
	struct fsdp_span bias = setting(adapter, "bias").text;
	struct fsdp_span last = fsdp_span_last(part->module, '.');
	bool is_weight = fsdp_span_ends(part->whole, FSDP_SPAN(".weight"));
	bool is_all = fsdp_span_is(bias, "all"), is_adapted = false;
	if (adapter->form->is_prompt)
		return;
	part->lacking = &adapter->form->members[1];
	for (size_t i = 0; i < MEMBERS; i++) {
		is_adapted |= has_member(adapter, part->module, i, FSDP_SPAN(""));
		if (adapter->form->members[i].size == ROWS &&
			fsdp_span_find(last, FSDP_SPAN("emb")) != NULL)
			part->lacking = &adapter->form->members[i];
	}
	if (adapter->checkpoint != NULL && is_weight && !is_adapted &&
		part->module.size <= NAME_BYTES / 2 &&
		(part->shape == NULL || part->dims >= 2) &&
		(!adapter->is_all_linear || (part->shape != NULL && part->dims == 2)) &&
		(is_target(adapter, part->module) ||
			has_word(adapter, PARAMETERS, part->whole)))
		part->is |= GONE;
	if (adapter->is_all_linear && is_weight && !is_adapted &&
		(part->shape == NULL ||
			(part->dims == 2 && !is_adapted_kind(adapter, part->module))) &&
		!fsdp_span_has_any(last, "emb wte wpe") &&
		!fsdp_span_is_any(last, "lm_head score classifier") &&
		!has_word(adapter, EXCLUDED, part->module) &&
		!has_word(adapter, WHOLE, part->module))
		part->is |= MAYBE_GONE;
	if (adapter->checkpoint != NULL &&
		(is_all || (is_adapted && fsdp_span_ends(bias, FSDP_SPAN("_only")))) &&
		fsdp_span_ends(part->whole, FSDP_SPAN(".bias")) &&
		!has_stored(adapter, PREFIX "%.*s%s.bias", FSDP_TEXT(part->module),
			is_adapted ? ".base_layer" : ""))
		part->is |= LOST_BIAS;
}

/* Adds a word to a list, once; one that is too long becomes empty, and stays so. */
static void add_word(char list[FSDP_LOAD_WORD / 2], struct fsdp_span word, bool *is_full)
{
	char item[256];
	size_t size = strlen(list);
	snprintf(item, sizeof item, "'%.*s'", FSDP_TEXT_MOST(word, 200));
	if (*is_full || strstr(list, item) != NULL)
		return;
	*is_full = size + strlen(item) + 3 > FSDP_LOAD_WORD / 2;
	snprintf(list + size, FSDP_LOAD_WORD / 2 - size, "%s%s", size != 0 ? ", " : "",
		item);
	if (*is_full)
		*list = '\0';
}

/* The targets against the stored tensors and the base: the last kept words. */
static void check_targets(struct adapter *adapter)
{
	struct fsdp_loading *loading = adapter->loading;
	const struct adapter_words *targets = &adapter->lists[TARGETS];
	char listed[FSDP_LOAD_WORD / 2] = "", live[FSDP_LOAD_WORD / 2] = "";
	bool is_full = false, is_live_full = false, is_excluded = targets->count > 0;
	bool has_named = false, has_base_named = false;
	for (size_t i = 0; i < targets->count; i++) {
		add_word(listed, targets->items[i], &is_full);
		is_excluded &= has_word(adapter, EXCLUDED, targets->items[i]);
	}
	for (const struct peft_part *part = adapter->parts; part < adapter->end; part++) {
		if ((part->is & LIVE) != 0)
			add_word(live, fsdp_span_last(part->module, '.'), &is_live_full);
		has_named |= part->member != NULL && is_named(adapter, part->module);
	}
	for (const struct peft_part *part = adapter->end; part < adapter->last; part++)
		has_base_named |= is_named(adapter, part->module);
	fsdp_load_report(loading, LISTED, "%s", is_full ? "..." : listed);
	if (*live != '\0')
		fsdp_load_report(loading, SET_TARGETS,
			"set target_modules to [%s] in adapter_config.json", live);
	loading->is |= is_excluded ? ALL_EXCLUDED : 0;
	if (targets->count > 0 && !has_base_named)
		loading->is |=
			(find_part(adapter, LIVE) != NULL && !has_named ? NO_TARGET : 0) |
			(adapter->lists_targets ? BASE_LACKS : 0);
}

/* Numbers of the configuration against the tensors, and against each other. */
static void check_numbers(struct adapter *adapter)
{
	struct fsdp_loading *loading = adapter->loading;
	const struct adapter_words *inputs = &adapter->lists[INPUTS],
				   *targets = &adapter->lists[TARGETS];
	struct fsdp_token tokens = setting(adapter, "trainable_token_indices");
	int64_t r = integer(adapter, "r", 0), first = adapter->base_layers, second = 0;
	int64_t block = integer(adapter, "oft_block_size", 32);
	int64_t models = (loading->is & PREFIX_TUNING) != 0
				 ? 1
				 : integer(adapter, "num_transformer_submodules", 1);
	struct fsdp_tensor tensor = { .dims = 0 };
	uint32_t prompts = FSDP_NONE;
	if ((loading->is & LORA) != 0 && adapter->checkpoint != NULL &&
		adapter->tokens < 0 && is_set(adapter, "trainable_token_indices")) {
		loading->is |= LACKS_TOKENS;
	} else if (tokens.kind == FSDP_TOKEN_LIST && adapter->tokens >= 0 &&
		   adapter->tokens != (int64_t)tokens.count) {
		loading->is |= OTHER_TOKENS;
		first = adapter->tokens;
		second = tokens.count;
	}
	if ((loading->is & OFT) != 0 && r != 0 && block != 0) {
		loading->is |= TWO_SIZES;
		first = r;
		second = block;
	}
	/* IA3: what is scaled at its inputs is adapted. */
	for (size_t i = 0; (loading->is & IA3) != 0 && i < inputs->count; i++)
		if (setting(adapter, list_keys[TARGETS]).kind == FSDP_TOKEN_LIST &&
			fsdp_span_place(inputs->items[i], targets->items,
				targets->count) == targets->count)
			loading->is |= STRAY_INPUTS;
	if (adapter->checkpoint != NULL && adapter->form->is_prompt)
		prompts = fsdp_tensor_find(
			adapter->checkpoint, FSDP_SPAN("prompt_embeddings"));
	if (prompts != FSDP_NONE) {
		tensor = fsdp_tensor(adapter->checkpoint, prompts);
		first = tensor.dims > 0 ? tensor.shape[0] : 0;
		second = integer(adapter, "num_virtual_tokens", 0);
		if (second <= 0)
			loading->is |= NO_COUNT;
		else if (models > 0 && (tensor.dims != 2 || first % second != 0 ||
					       first / second != models))
			loading->is |= OTHER_PROMPTS;
	} else if (adapter->checkpoint != NULL && adapter->form->is_prompt) {
		loading->is |= LACKS_PROMPTS;
	}
	fsdp_load_report(loading, FIRST, "%" PRId64, first);
	fsdp_load_report(loading, SECOND, "%" PRId64, second);
	if ((loading->is & LACKS_TOKENS) != 0)
		fsdp_load_report(loading, SECOND, "%s",
			find_part(adapter, LIVE) != NULL
				? "set trainable_token_indices to null; the tokens are then the base's"
				: "");
	if ((loading->is & NO_COUNT) != 0)
		fsdp_load_report(loading, SECOND,
			tensor.dims == 2 ? "set it to %lld in adapter_config.json" : "",
			(long long)first);
}

/* Reads the lists, the tensors and the base. */
static void read_adapter(struct adapter *adapter)
{
	struct fsdp_loading *loading = adapter->loading;
	const struct fsdp_load_check_options *options = loading->options;
	struct fsdp_token targets = setting(adapter, list_keys[TARGETS]);
	size_t count =
		adapter->checkpoint != NULL ? fsdp_tensor_count(adapter->checkpoint) : 0;
	struct peft_part *part;
	adapter->lists_targets = targets.kind == FSDP_TOKEN_LIST && targets.count != 0;
	adapter->is_all_linear =
		targets.text.size == 10 &&
		strncasecmp((const char *)targets.text.data, "all-linear", 10) == 0;
	if ((targets.text.size != 0 && !adapter->is_all_linear) ||
		setting(adapter, list_keys[EXCLUDED]).text.size != 0 ||
		is_set(adapter, "layers_pattern"))
		loading->is |= PATTERNS;
	/* Texts of a list, or members of a dict that are texts. */
	for (unsigned i = 0; i < LISTS; i++) {
		struct fsdp_load_items list =
			fsdp_load_items(loading, CONFIG_FILE, list_keys[i]);
		struct adapter_words *words = &adapter->lists[i];
		const struct fsdp_setting *item;
		words->items =
			FSDP_TAKE(loading->arena, words->items, list.end - list.at + 1);
		while ((item = fsdp_load_next_item(&list)) != NULL)
			if (item->value.kind == FSDP_TOKEN_TEXT)
				words->items[words->count++] = item->value.text;
	}
	adapter->parts = FSDP_TAKE(
		loading->arena, adapter->parts, count + options->expected_count + 1);
	adapter->end = adapter->last = part = adapter->parts;
	for (size_t i = 0; i < options->expected_count; i++)
		if (layer_of(options->expected[i].name) >= adapter->base_layers)
			adapter->base_layers = layer_of(options->expected[i].name) + 1;
	for (uint32_t i = 0; i < count; i++, part++) {
		struct fsdp_tensor tensor = fsdp_tensor(adapter->checkpoint, i);
		part->whole = part->rest = fsdp_load_copy_name(
			loading, adapter->checkpoint, tensor.raw_name);
		part->shape = tensor.shape;
		part->dims = tensor.dims;
		mark_part(adapter, part);
		adapter->end = adapter->last = part + 1;
	}
	for (size_t i = 0; i < options->expected_count; i++, part++) {
		part->whole = options->expected[i].name;
		part->module = parent(part->whole);
		part->shape = options->expected[i].shape;
		part->dims = options->expected[i].dims;
		mark_base(adapter, part);
	}
	adapter->last = part;
	check_targets(adapter);
	check_numbers(adapter);
}

static void begin(struct fsdp_loading *loading)
{
	struct fsdp_span type = fsdp_load_text(loading, CONFIG_FILE, "peft_type");
	const struct fsdp_setting *variant =
		fsdp_load_find_set(loading, CONFIG_FILE, VARIANTS);
	struct adapter *adapter = loading->own = FSDP_TAKE(loading->arena, adapter, 1);
	loading->lists_weights = true;
	/* Nothing is compared with a model: only what is stored is listed. */
	loading->was_compared = true;
	adapter->loading = loading;
	adapter->tokens = -1;
	adapter->checkpoint = loading->weights != NULL ? fsdp_load_opened(loading) : NULL;
	loading->has_stored = adapter->checkpoint != NULL;
	fsdp_load_set_word(loading, SUBJECT, type);
	for (size_t i = 0; i < FSDP_COUNT(forms); i++)
		if (fsdp_span_is(type, forms[i].type)) {
			adapter->form = &forms[i];
			loading->is |= 1u << i;
		}
	for (size_t i = ALL_LISTS; adapter->form != NULL && i-- > 0;) {
		struct fsdp_token value = setting(adapter, list_keys[i]);
		if ((value.kind != FSDP_TOKEN_LIST && value.kind != FSDP_TOKEN_DICT) ||
			value.count <= ITEMS_MOST)
			continue;
		loading->is |= TOO_LONG;
		fsdp_load_report(loading, SUBJECT, "%s", list_keys[i]);
	}
	if (adapter->form != NULL && variant != NULL)
		fsdp_load_set_word(loading, SUBJECT, variant->key);
	if (adapter->form != NULL && (loading->is & TOO_LONG) == 0)
		read_adapter(adapter);
	loading->is |= (adapter->checkpoint != NULL ? OPENED : 0) |
		       (adapter->end > adapter->parts ? STORED : 0);
	if (loading->options->expected == NULL && find_part(adapter, TARGET) == NULL &&
		find_part(adapter, LIVE) != NULL)
		loading->is |= USES_NOTHING;
}

/* ---- what the rules ask for ---- */

/* Tensors with the mark that is the argument of the rule: the first one, or all. Words:
 * its name, or that of a member as the live model calls it, without what wraps the model;
 * two numbers. */
static bool has_part(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;
	uint32_t is = loading->rule->arg, mark = is & ~(uint32_t)(NAMES | AS_LIVE);
	const struct peft_part *part = find_part(adapter, mark);
	const struct adapter_member *member;
	const unsigned char *at = NULL;
	struct fsdp_span module;
	if (part == NULL)
		return false;
	module = part->module;
	member = part->lacking;
	if (module.size > 0)
		at = memmem(module.data, module.size, PREFIX, sizeof PREFIX - 1);
	if (at != NULL)
		(void)fsdp_span_behind(
			fsdp_span(at, module.size - (size_t)(at - module.data)), PREFIX,
			&module);
	fsdp_load_report(loading, 1, "%" PRId64, part->found);
	fsdp_load_report(loading, 2, "%" PRId64, part->wanted);
	if ((is & AS_LIVE) != 0)
		fsdp_load_report(loading, 0, PREFIX "%.*s.%s.default%s",
			FSDP_TEXT_MOST(module, 512), member->name,
			member->live_tail != NULL ? member->live_tail : member->tail);
	else
		fsdp_load_set_word(
			loading, 0, mark == MAYBE_GONE ? part->module : part->whole);
	for (; (is & NAMES) != 0 && part < adapter->last; part++)
		if ((part->is & mark) != 0)
			fsdp_load_name(
				loading, mark == MAYBE_GONE ? part->module : part->whole);
	return true;
}

/* Tensors that are none of an adapter of this type. */
static bool has_no_member(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;
	return find_part(adapter, LIVE | RENAMED) == NULL &&
	       is_set(adapter, "target_modules") &&
	       fsdp_load_set_word(loading, 0, adapter->parts->whole);
}

static bool limits_layers_of_text(struct fsdp_loading *loading)
{
	return fsdp_load_text(loading, CONFIG_FILE, "target_modules").size != 0 &&
	       setting(loading->own, "layers_to_transform").kind != FSDP_TOKEN_NONE;
}

/* Word 4: what helps: only if both matrices of all modules have this rank, and none could
 * be transposed or the piece of one process, the configuration is wrong. */
static bool has_other_rank(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;
	const struct peft_part *first = find_part(adapter, OTHER_RANK);
	bool is_of_all = first != NULL && first->found > 0 &&
			 !is_set(adapter, "rank_pattern enable_lora");
	for (const struct peft_part *part = adapter->parts; part < adapter->end; part++) {
		if (!is_of_all || !is_ranked(adapter, part))
			continue;
		uint32_t rank_at = part->member->rank_dim - 1;
		is_of_all = part->dims == 2 && part->shape[rank_at] == first->found &&
			    part->shape[1 - rank_at] != first->wanted &&
			    (part->is & HALF) == 0;
	}
	if (is_of_all)
		fsdp_load_report(loading, 4, "set %s to %lld in adapter_config.json",
			adapter->form->rank, (long long)first->found);
	return has_part(loading);
}

static bool is_turned_vector(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;
	const struct peft_part *part = find_part(adapter, TURNED);
	return part != NULL && fsdp_load_set_word(loading, 0, part->whole) &&
	       fsdp_load_report(loading, 1, "%s",
		       has_word(adapter, INPUTS, part->module) ? "1, N" : "N, 1");
}

/* ---- whole modules, which are asked for by name ---- */

/* Whether a module that holds the tensor has a name that ends with the word, not only
 * with its last segments: so the library chooses them. */
static bool is_held_by(struct fsdp_span name, struct fsdp_span word)
{
	for (name = parent(name); name.size != 0; name = parent(name))
		if (word.size != 0 && fsdp_span_ends(name, word))
			return true;
	return false;
}

/* Word 0: a tensor of a module that is stored under another name. With an argument: the
 * module without a stored tensor; without the base, which may have no such module. */
static bool lacks_whole(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;
	const struct adapter_words *whole = &adapter->lists[WHOLE];
	for (size_t i = 0; i < whole->count; i++) {
		struct fsdp_span word = whole->items[i], lost = { 0 };
		/* Heads of classifiers: the library lists two names; a model has one of
		 * them. */
		const char *other = fsdp_span_is(word, "score")        ? "classifier"
				    : fsdp_span_is(word, "classifier") ? "score"
								       : "";
		bool has_one = false;

		for (const struct peft_part *part = adapter->parts; part < adapter->end;
			part++) {
			bool is_held = is_held_by(part->rest, word);
			has_one |= (part->is & PREFIXED) != 0 &&
				   (is_held ||
					   is_held_by(part->rest, fsdp_span_text(other)));
			if (is_held && lost.data == NULL)
				lost = part->rest;
		}
		if (!has_one && (lost.data == NULL) == (loading->rule->arg != 0))
			return fsdp_load_set_word(
				loading, 0, lost.data != NULL ? lost : word);
	}
	return false;
}

/* With a segment that PEFT takes out of names when it saves, and puts into them again.
 * With bias "all" it also saves biases under such names. */
static bool has_unstripped_module(struct fsdp_loading *loading)
{
	static const char *const segments[] = { "default", "modules_to_save" };
	const struct adapter *adapter = loading->own;
	char text[NAME_BYTES];
	for (size_t i = 0; i < 2 * adapter->lists[WHOLE].count; i++) {
		struct fsdp_span module = adapter->lists[WHOLE].items[i / 2];
		int size = snprintf(text, sizeof text, ".%.*s.%s.", FSDP_TEXT(module),
			segments[i % 2]);
		fsdp_load_set_word(loading, 0, module);
		fsdp_load_report(loading, 1, "%s", segments[i % 2]);
		for (const struct peft_part *part = adapter->parts;
			part < adapter->end && (size_t)size < sizeof text; part++) {
			const unsigned char *at = fsdp_span_find(
				part->whole, fsdp_span(text, (size_t)size));
			size_t before = at != NULL ? (size_t)(at - part->whole.data) : 0;
			struct fsdp_span rest = { 0 };

			if (at == NULL)
				continue;
			rest = fsdp_span(
				at + size, part->whole.size - before - (size_t)size);
			(void)fsdp_span_behind(rest, "default.", &rest);
			if (!has_stored(adapter, "%.*s%.*s",
				    (int)(before + module.size + 2),
				    (const char *)part->whole.data, FSDP_TEXT(rest)))
				return true;
		}
	}
	return false;
}

/* ---- the base model, if its names are known ---- */

#define HEADS "lm_head embed_out proj_out output_layer"

/* Of GPT-NeoX, in memory lm_head from transformers 5 on. */
static bool is_renamed_head(struct fsdp_span name)
{
	return fsdp_span_is(name, "embed_out.weight");
}

/* A head that neither the adapter nor the base has stored, or that transformers calls
 * otherwise in memory: a base that ties it does not store it. */
static bool lacks_head(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;
	const struct adapter_words *whole = &adapter->lists[WHOLE];
	for (size_t i = 0; i < whole->count; i++) {
		bool has_one = !fsdp_span_is_any(whole->items[i], HEADS);
		for (const struct peft_part *part = adapter->parts;
			part < adapter->last && !has_one; part++)
			has_one = part < adapter->end
					  ? is_held_by(part->rest, whole->items[i])
					  : is_held_by(part->whole, whole->items[i]) &&
						    !is_renamed_head(part->whole);
		if (!has_one)
			return fsdp_load_set_word(loading, 0, whole->items[i]);
	}
	return false;
}

/* A tensor of the base that the adapter has to have, too. Word 4: what helps, if the
 * names are those of the base. */
static bool lacks_module_of_base(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;
	const struct adapter_words *whole = &adapter->lists[WHOLE];
	const struct peft_part *base, *part = adapter->parts;
	for (size_t i = 0; adapter->checkpoint != NULL && i < whole->count; i++)
		for (base = adapter->end; base < adapter->last; base++) {
			if (!is_held_by(base->whole, whole->items[i]) ||
				is_renamed_head(base->whole) ||
				has_stored(
					adapter, PREFIX "%.*s", FSDP_TEXT(base->whole)))
				continue;
			while (part < adapter->end &&
				!is_held_by(part->rest, whole->items[i]))
				part++;
			if (part < adapter->end)
				fsdp_load_report(loading, 4,
					"rename %.*s, which is stored, if it is that tensor",
					FSDP_TEXT_MOST(part->whole, 256));
			else if (find_part(adapter, NOT_IN_BASE) == NULL)
				fsdp_load_report(loading, 4,
					"remove the module from modules_to_save: the base's weights are used");
			return fsdp_load_report(loading, 0, PREFIX "%.*s",
				FSDP_TEXT_MOST(base->whole, 512));
		}
	return false;
}

/* Whether it has a member of an adapter: then its own tensors get the segment base_layer,
 * and names without it are ignored. */
static bool is_wrapped(const struct adapter *adapter, struct fsdp_span module)
{
	for (size_t i = 0; i < MEMBERS; i++)
		if (has_member(adapter, module, i, FSDP_SPAN("")))
			return is_target(adapter, module);
	return false;
}

/* A tensor whose shape is not that of the base's of the same name: one of a whole module,
 * a bias that is trained, an embedding that is saved with its adapter. Word 1: what
 * helps. Tokens were added before the adapter was trained, if an embedding or a head has
 * more rows. */
static bool has_other_module(struct fsdp_loading *loading)
{
	static const char embeddings[] =
		"embed_tokens.weight lm_head.weight wte.weight embed_in.weight word_embeddings.weight";
	const struct adapter *adapter = loading->own;
	char text[NAME_BYTES];
	for (const struct peft_part *part = adapter->parts; part < adapter->end; part++) {
		struct fsdp_span name = part->rest;
		const unsigned char *layer =
			fsdp_span_find(name, FSDP_SPAN(".base_layer."));
		struct fsdp_load_tensor own = { .shape = part->shape,
			.dims = part->dims };
		const struct fsdp_load_tensor *base;
		/* The base has a segment less. */
		if (layer != NULL) {
			size_t before = (size_t)(layer - name.data), cut = 11;
			memcpy(text, name.data, before);
			memcpy(text + before, layer + cut, name.size - before - cut);
			name = fsdp_span(text, name.size - cut);
		}
		base = (part->is & PREFIXED) != 0 ? fsdp_load_find_expected(loading, name)
						  : NULL;
		if (base == NULL || fsdp_load_same_shape(base, &own) ||
			(layer == NULL && is_wrapped(adapter, parent(name))))
			continue;
		if (fsdp_span_ends_any(name, embeddings) && part->dims == 2 &&
			base->dims == 2 && part->shape[1] == base->shape[1] &&
			part->shape[0] > base->shape[0])
			fsdp_load_report(loading, 1,
				"call resize_token_embeddings(%lld) on the base before the adapter is loaded",
				(long long)part->shape[0]);
		fsdp_load_write_numbers(loading, 2, &own);
		fsdp_load_write_numbers(loading, 3, base);
		return fsdp_load_report(
			loading, 0, PREFIX "%.*s", FSDP_TEXT_MOST(name, 512));
	}
	return false;
}

#define TRAINED_ON "load it into the base that it was trained on"

/* Word 4: what helps. Either the base has more layers than the one that was trained on,
 * or the adapter lost its last ones. */
static bool lacks_target(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;
	bool is_deeper = adapter->layers > 0 && find_part(adapter, NOT_IN_BASE) == NULL;
	if (!has_part(loading))
		return false;
	for (size_t i = 0; i < loading->name_count; i++)
		is_deeper &= layer_of(loading->names[i]) >= adapter->layers;
	return fsdp_load_report(loading, 4, "%s",
		is_deeper ? TRAINED_ON
			", if that has fewer layers; else copy the adapter again"
			  : "");
}

/* Word 4: what helps: if layers of the base lack their adapters, these are numbered
 * otherwise, and no base fits them. */
static bool is_beyond(struct fsdp_loading *loading)
{
	return has_part(loading) &&
	       fsdp_load_report(loading, 4, "%s",
		       find_part(loading->own, GONE) == NULL ? TRAINED_ON : "");
}

/* The base is on the hub, or cannot be read. Prompts are built from what the
 * configuration has alone. */
static bool has_no_base(struct fsdp_loading *loading)
{
	struct fsdp_span base =
		fsdp_load_text(loading, CONFIG_FILE, "base_model_name_or_path");
	return base.size != 0 && fsdp_load_set_word(loading, 0, base);
}

/* What is stored and the configuration does not ask for. Words: 1: how many; 4: what
 * helps. */
static bool ignores_some(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;
	const struct peft_part *part = find_part(adapter, IGNORED);
	if (!has_part(loading))
		return false;
	fsdp_load_report(loading, 1, "%" PRIu64, loading->all_names);
	if ((loading->is & PATTERNS) == 0 && find_part(adapter, GONE) != NULL)
		return true;
	if (!is_named(adapter, part->module))
		fsdp_load_report(loading, 4,
			"add %.*s to target_modules in adapter_config.json",
			FSDP_TEXT_MOST(fsdp_span_last(part->module, '.'), 256));
	else if ((part->is & PLAIN) != 0)
		fsdp_load_report(
			loading, 4, "set use_dora to true in adapter_config.json");
	return true;
}

/* ---- rules ---- */

#define PUT_CONFIG "copy adapter_config.json of this adapter into the directory"
#define EXPECT_BASE "name the base model with --expect"

static const struct fsdp_load_rule rules[] = {
	FSDP_REFUSES(MISSING_FILE, .fix = FSDP_NO_FIX, .when = FSDP_LOAD_NONE,
		.lacks = CONFIG_FILE),
	FSDP_REFUSES(MISSING_FILE, .fix = PUT_CONFIG, .lacks = CONFIG_FILE),
	FSDP_REFUSES(CONFIG, .when = NO_JSON, .message = CONFIG_FILE " is not valid JSON",
		.fix = PUT_CONFIG),
	FSDP_REFUSES(CONFIG, .when = NO_TYPE, .message = CONFIG_FILE " has no peft_type",
		.fix = "set peft_type in " CONFIG_FILE),
	FSDP_REFUSES(NO_WEIGHTS, .when = FSDP_LOAD_NONE,
		.message =
			"the directory has no adapter_model.safetensors or adapter_model.bin",
		.fix = "put adapter_model.safetensors into the directory"),
	FSDP_READS_WEIGHTS(0),
	FSDP_TAKES_DICT(0),
	FSDP_NOT_JUDGED(UNREAD, fsdp_load_cannot_open),
	FSDP_REFUSES(ADAPTER_TYPE, .when = OTHER_TYPE, .fix = FSDP_NO_FIX,
		.message = "{5} is not a type of adapter that PEFT has"),
	FSDP_NOT_JUDGED(ADAPTER_TYPE, .unless = FORMS, .ends = true,
		.message = "adapters of type {5} are not supported"),
	FSDP_NOT_JUDGED(ADAPTER_TYPE, .when = VARIANT, .ends = true,
		.message = "adapters with {5} are not supported"),
	FSDP_NOT_JUDGED(UNSUPPORTED, .when = TOO_LONG, .ends = true,
		.message = "{5} has more than 4,096 items"),
	FSDP_REFUSES(CONFIG, .when = TWO_SIZES,
		.message = "r ({6}) and oft_block_size ({7}) are both set",
		.fix = "set one of them to 0 in adapter_config.json"),
	FSDP_REFUSES(CONFIG, .when = STRAY_INPUTS,
		.message =
			"feedforward_modules lists modules that target_modules does not list",
		.fix = "list them in target_modules, too"),
	FSDP_REFUSES(ADAPTER_TARGETS, .when = EMPTY | STORED, .unless = PROMPTS | UNSET,
		.message = "target_modules in adapter_config.json is empty",
		.fix = "{9}"),
	FSDP_REFUSES(CONFIG, limits_layers_of_text,
		"layers_to_transform is set, and target_modules is not a list",
		.when = LORA),
	FSDP_REFUSES(ADAPTER_TARGETS, .when = ALL_EXCLUDED,
		.message = "exclude_modules excludes all of target_modules",
		.fix = "take the targets out of exclude_modules"),
	FSDP_REFUSES(ADAPTER_TARGETS, .when = NO_TARGET,
		.message = "no stored tensor is of a module in target_modules ({8})",
		.fix = "set target_modules to the modules that are stored"),
	FSDP_REFUSES(ADAPTER_TARGETS, .when = BASE_LACKS | FSDP_LOAD_EXPECTS,
		.message = "the base has no module of target_modules ({8})",
		.fix = TRAINED_ON),
	FSDP_REFUSES(ADAPTER_MODULES, lacks_whole,
		"{0} (modules_to_save) has no name that starts with " PREFIX),
	FSDP_REFUSES(ADAPTER_MODULES, has_unstripped_module,
		"tensor names of the module {0} (modules_to_save) contain .{1}, which PEFT adds itself on loading",
		"remove .modules_to_save and .default from all names, or save with save_pretrained()"),
	FSDP_REFUSES(ADAPTER_MODULES, lacks_module_of_base,
		"{0} (modules_to_save in adapter_config.json) is missing", "{4}"),
	FSDP_REFUSES(MISSING_TENSOR, .when = LACKS_TOKENS,
		.message = "the tensor of trainable_token_indices is missing",
		.fix = "{7}"),
	FSDP_REFUSES(MISSING_TENSOR, .when = LACKS_PROMPTS,
		.message = "prompt_embeddings is missing",
		.fix = "name the tensor prompt_embeddings"),
	FSDP_REFUSES(CONFIG, .when = NO_COUNT, .fix = "{7}",
		.message = "adapter_config.json has no num_virtual_tokens"),
	FSDP_REFUSES(SHAPE, .when = OTHER_PROMPTS, .fix = FSDP_NO_FIX,
		.message = "prompt_embeddings has {6} rows for {7} virtual tokens"),
	FSDP_REFUSES(SHAPE, has_part, "{0} is empty (ZeRO-3 placeholder)",
		"save the adapter again with its weights gathered", .arg = PLACEHOLDER,
		.unless = PROMPTS),
	FSDP_REFUSES(SHAPE, is_turned_vector, "{0} does not have the shape [{1}]",
		FSDP_NO_FIX, .when = IA3),
	FSDP_REFUSES(ADAPTER_RANK, has_part,
		"{0} has {1} dimensions, too few for a matrix of the adapter",
		.arg = NO_MATRIX),
	FSDP_REFUSES(ADAPTER_RANK, has_other_rank,
		"{0} has rank {1}, adapter_config.json expects {2}", "{4}",
		.arg = OTHER_RANK),
	FSDP_REFUSES(SHAPE, .when = OTHER_TOKENS,
		.message =
			"{6} rows are stored for {7} tokens of trainable_token_indices",
		.fix = "list the tokens as they were in trainable_token_indices"),
	FSDP_REFUSES(BASE_MODEL, has_part, "{0} has size {1}, the base expects {2}",
		.arg = OTHER_SIZE, .unless = FITS_SOME),
	/* Some of its tensors are wrong. */
	FSDP_REFUSES(BASE_MODEL, has_part, "{0} has size {1}, the base expects {2}",
		FSDP_NO_FIX, .arg = OTHER_SIZE),
	FSDP_REFUSES(BASE_MODEL, has_other_module,
		"{0} has shape [{2}], the base expects [{3}]", "{1}",
		.when = FSDP_LOAD_EXPECTS),
	FSDP_DIFFERS(MISSING_TENSOR, .when = OWN_TENSORS | FSDP_LOAD_NESTED,
		.message = "{weights} contains {root}: it has no effect",
		.fix = FSDP_NO_FIX),
	FSDP_DIFFERS(MISSING_TENSOR, .when = STORED, .unless = OWN_TENSORS,
		.message =
			"the adapter file holds other tensors, as of a full model, and none of an adapter: it has no effect",
		.fix = FSDP_NO_FIX),
	FSDP_DIFFERS(OTHER_NAMES, has_no_member,
		"{0} is not a name of an adapter of type {5}, and no other name is one: it has no effect",
		FSDP_NO_FIX, .when = OWN_TENSORS | STORED, .unless = PROMPTS),
	FSDP_DIFFERS(MISSING_TENSOR, .when = OPENED, .unless = STORED, .fix = FSDP_NO_FIX,
		.message = "no tensor of the adapter is stored: it has no effect"),
	FSDP_DIFFERS(OTHER_NAMES, has_part,
		"stored names are not those of the adapter; {0} is missing: it has no effect",
		FSDP_NO_FIX, .arg = RENAMED | NAMES | AS_LIVE),
	FSDP_DIFFERS(MISSING_TENSOR, has_part,
		"{0} is missing: it keeps its initial value", FSDP_NO_FIX,
		.arg = HALF | AS_LIVE),
	FSDP_NOT_JUDGED(ADAPTER_MODULES, lacks_whole,
		"modules_to_save lists {0}, which is not stored; the base may have it",
		EXPECT_BASE, .arg = 1, .unless = FSDP_LOAD_EXPECTS),
	FSDP_NOT_JUDGED(ADAPTER_MODULES, lacks_head,
		"modules_to_save lists {0}, which is not stored; the base may have it, tied or under another name",
		.when = FSDP_LOAD_EXPECTS),
	FSDP_NOT_JUDGED(ADAPTER_TARGETS, .when = USES_NOTHING, .fix = EXPECT_BASE,
		.message =
			"no stored tensor is of a module in target_modules; the base may have some"),
	FSDP_NOT_JUDGED(ADAPTER_TARGETS, .when = UNSET | STORED, .unless = PROMPTS,
		.message =
			"adapter_config.json has no target_modules: PEFT chooses them by the type of the base model",
		.fix = "{9}"),
	FSDP_NOT_JUDGED(ADAPTER_RANK, has_part,
		"the rank of {0} depends on rank_pattern or target_parameters in a way that is not supported",
		.arg = UNKNOWN_RANK),
	FSDP_COMPARES_SETS(0),
	FSDP_NOT_JUDGED(UNSUPPORTED, .when = REPLICATED | FSDP_LOAD_EXPECTS, .ends = true,
		.message =
			"layer_replication repeats layers of the base: the names were not compared with it"),
	FSDP_DIFFERS(BASE_MODEL, lacks_target,
		"{0} is missing: it keeps its initial value and has no effect", "{4}",
		.arg = GONE | NAMES | AS_LIVE, .unless = PATTERNS),
	FSDP_DIFFERS(BASE_MODEL, has_part,
		"{0} was trained but is missing: the base's values are used", FSDP_NO_FIX,
		.arg = LOST_BIAS | NAMES),
	FSDP_DIFFERS(BASE_MODEL, is_beyond,
		"{0} has no effect: its layer is beyond the {6} layers of the base",
		"{4}", .arg = LATER | NAMES),
	FSDP_NOT_JUDGED(BASE_MODEL, has_part,
		"the base may need {0}: regular expressions for modules are not evaluated",
		FSDP_NO_FIX, .arg = GONE | NAMES | AS_LIVE, .when = PATTERNS),
	FSDP_NOT_JUDGED(BASE_MODEL, has_part,
		"no tensor is stored for {0}: target_modules is all-linear, and whether this module is linear is not known",
		FSDP_NO_FIX, .arg = MAYBE_GONE | NAMES),
	FSDP_NOT_JUDGED(BASE_MODEL, has_part,
		"the module of {0} is not in --expect, which needs the names of the base",
		FSDP_NO_FIX, .arg = NOT_IN_BASE),
	FSDP_NOT_JUDGED(BASE_MODEL, has_no_base,
		"names and shapes were not compared with the base {0}: it is not a directory here, or has other names",
		EXPECT_BASE, .unless = FSDP_LOAD_EXPECTS | PROMPTS),
	FSDP_IGNORES(IGNORED, ignores_some,
		"{0} has no effect: adapter_config.json does not list its module (tensors of such modules: {1})",
		"{4}", .arg = IGNORED | NAMES, .unless = USES_NOTHING),
	{ 0 },
};

FSDP_LOADER(peft, "PEFT", "peft", ("0.21.2"),
	.order = "adapter_model.safetensors adapter_model.bin");
