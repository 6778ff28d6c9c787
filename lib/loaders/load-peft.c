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
	uint8_t unsized_by;      /* with this member present `size` is unknown; 0: none */
	uint32_t rank_dim;       /* dimension that is the rank, from 1; 0: none */
	enum size size;          /* what dimension `at` is … */
	uint32_t at, times_at;   /* … times that dimension; 0: no other … */
	const char *times;       /* … times that setting; NULL: none */
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
		[MAGNITUDE] = { "lora_magnitude_vector", "", ".weight",
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

/* The configuration is of one of them: a fact of each; and its target_modules. */
enum {
	LORA = 1,
	IA3 = 2,
	OFT = 4,
	MODULES = 15,
	PREFIX_TUNING = 32,
	PROMPTS = 48, /* with that one */
	FORMS = 63,
	UNSET = 64,
	EMPTY = 128,
	NO_JSON = 256,
	NO_TYPE = 512
};

/* Lists of the configuration; the first LISTS are compared by their texts. */
enum list { TARGETS, EXCLUDED, WHOLE, INPUTS, PARAMETERS, LISTS, ALL_LISTS = LISTS + 2 };
static const char *const list_keys[ALL_LISTS] = { "target_modules", "exclude_modules",
	"modules_to_save", "feedforward_modules", "target_parameters", "rank_pattern",
	"layers_to_transform" };

struct adapter_words {
	struct fsdp_span *items;
	size_t count;
};

/* What holds of a tensor. */
enum {
	LIVE = 1,     /* the loader finds it in its model */
	TARGET = 2,   /* … and the configuration does not exclude its module */
	PREFIXED = 4, /* its name has the prefix and no wrapper */
	RENAMED = 8,  /* of an adapter, and not LIVE */
	PLACEHOLDER = 16,
	TURNED = 32,
	NO_MATRIX = 64, /* too few dimensions */
	OTHER_RANK = 128,
	UNKNOWN_RANK = 256,
	NOT_IN_BASE = 512,
	LATER = 1024, /* its layer is none of the base, which has others */
	PLAIN = 2048, /* of DoRA, which the configuration does not ask for */
};

/* A tensor, and its name taken apart. */
struct peft_part {
	struct fsdp_span whole, rest;        /* without the prefix, if PREFIXED */
	const struct adapter_member *member; /* NULL: none of an adapter */
	struct fsdp_span module;             /* as the base has it, if the name is live */
	struct fsdp_span adapter;            /* ".default", or empty */
	uint32_t is;
	uint32_t dims;
	const int64_t *shape;
	int64_t rank, stored_rank; /* configured, and stored; -1: no matrix */
};

/* Read once, before any rule. */
struct adapter {
	const struct adapter_form *form;
	const struct fsdp_checkpoint *checkpoint; /* NULL: not opened */
	uint32_t prompts;                         /* FSDP_NONE: not stored */
	struct peft_part *parts, *end;
	struct adapter_words lists[LISTS];
	const char *long_key; /* of a list with too many items; then nothing is read */
	bool lists_targets;   /* target_modules is a list with items */
	bool has_patterns;    /* which may exclude modules */
	bool is_all_linear;   /* all linear modules but the output head are targets */
	int64_t base_layers;  /* of the expected model; 0: not known */
	int64_t layers;       /* with tensors; 0: not known */
};

static int64_t integer(struct fsdp_loading *loading, const char *key, int64_t otherwise)
{
	return fsdp_load_integer(loading, CONFIG_FILE, key, otherwise);
}

static struct fsdp_token setting(struct fsdp_loading *loading, const char *key)
{
	return fsdp_load_setting(loading, CONFIG_FILE, key).value;
}

/* A text is matched as a regular expression. */
static bool is_text(struct fsdp_loading *loading, const char *key)
{
	return fsdp_load_text(loading, CONFIG_FILE, key).size != 0;
}

static bool is_set(struct fsdp_loading *loading, const char *keys)
{
	return fsdp_load_find_set(loading, CONFIG_FILE, keys) != NULL;
}

/* Whether the last segments of a name are the word, or all of it. */
static bool ends_so(struct fsdp_span module, struct fsdp_span word)
{
	return word.size != 0 && fsdp_span_ends(module, word) &&
	       (module.size == word.size ||
		       module.data[module.size - word.size - 1] == '.');
}

static bool has_word(const struct adapter_words *words, struct fsdp_span module)
{
	for (size_t i = 0; i < words->count; i++)
		if (ends_so(module, words->items[i]))
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

/* Whether target_modules, if it is a list, names the module. */
static bool is_named(const struct adapter *adapter, struct fsdp_span module)
{
	return !adapter->lists_targets || has_word(&adapter->lists[TARGETS], module);
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
static bool is_target(struct fsdp_loading *loading, const struct adapter *adapter,
	struct fsdp_span module)
{
	static const char key[] = "layers_to_transform";
	const struct adapter_words *targets = &adapter->lists[TARGETS];
	const struct fsdp_setting *item;
	struct fsdp_load_items layers;
	struct fsdp_token only;

	if (adapter->is_all_linear)
		return !has_word(&adapter->lists[EXCLUDED], module) &&
		       is_adapted_kind(adapter, module);
	if (is_text(loading, "target_modules"))
		return true;
	if (has_word(&adapter->lists[EXCLUDED], module) || !has_word(targets, module))
		return false;
	for (struct fsdp_span up = module; up.size != 0; up = parent(up))
		if (has_word(&adapter->lists[WHOLE], up))
			return false;
	if (fsdp_span_place(module, targets->items, targets->count) < targets->count)
		return true;
	only = setting(loading, key);
	layers = fsdp_load_items(loading, CONFIG_FILE, key);
	if (only.kind == FSDP_TOKEN_INTEGER || layers.at == layers.end)
		return only.kind != FSDP_TOKEN_INTEGER ||
		       only.integer == layer_of(module);
	while ((item = fsdp_load_next_item(&layers)) != NULL)
		if (item->value.kind == FSDP_TOKEN_INTEGER &&
			item->value.integer == layer_of(module))
			return true;
	return false;
}

/* The member's part of a name that ends with its tail. The adapter's own name may be in
 * between. */
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
	rest.size -= last.size + 1;
	part->member = member;
	part->module = rest;
	if ((part->is & PREFIXED) != 0 && fsdp_span_behind(rest, PREFIX, &part->module))
		part->is |= LIVE;
	else
		part->is |= RENAMED;
	return true;
}

/* A tensor that is stored under this name, with "%.*s" and so on filled in; FSDP_NONE:
 * none. */
__attribute__((format(printf, 2, 3))) static uint32_t find_stored(
	const struct adapter *adapter, const char *format, ...)
{
	char text[NAME_BYTES];
	va_list arguments;
	int size;

	va_start(arguments, format);
	size = vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	return adapter->checkpoint != NULL && size > 0 && (size_t)size < sizeof text
		       ? fsdp_tensor_find(
				 adapter->checkpoint, fsdp_span(text, (size_t)size))
		       : FSDP_NONE;
}

/* Whether a module of the base has this member; a name of the adapter that is absent is
 * "default". */
static bool is_stored(const struct adapter *adapter, struct fsdp_span module,
	const struct adapter_member *member, struct fsdp_span name)
{
	const char *const tails[] = { member->tail, member->live_tail };
	const char *other = name.size == 0 ? ".default" : "";
	bool is_default = name.size == 0 || fsdp_span_is(name, ".default");

	for (size_t i = 0; i < FSDP_COUNT(tails) && tails[i] != NULL; i++)
		if (find_stored(adapter, PREFIX "%.*s.%s%.*s%s", FSDP_TEXT(module),
			    member->name, FSDP_TEXT(name), tails[i]) != FSDP_NONE ||
			(is_default && find_stored(adapter, PREFIX "%.*s.%s%s%s",
					       FSDP_TEXT(module), member->name, other,
					       tails[i]) != FSDP_NONE))
			return true;
	return false;
}

/* Whether the module of the part has another member, too, by its number. */
static bool has_member(
	const struct adapter *adapter, const struct peft_part *part, uint8_t number)
{
	return is_stored(
		adapter, part->module, &adapter->form->members[number], part->adapter);
}

/* Whether any tensor is stored for a module of the base. */
static bool has_module(const struct adapter *adapter, struct fsdp_span module)
{
	for (size_t i = 0; i < MEMBERS; i++)
		if (adapter->form->members[i].name != NULL &&
			is_stored(adapter, module, &adapter->form->members[i],
				FSDP_SPAN("")))
			return true;
	return false;
}

/* What belongs to a tensor and is not stored; NULL: nothing. */
static const struct adapter_member *find_lacking(struct fsdp_loading *loading,
	const struct adapter *adapter, const struct peft_part *part)
{
	const struct adapter_member *member = part->member;

	if (member->needs != 0 && !has_member(adapter, part, member->needs))
		return &adapter->form->members[member->needs];
	if (member->also_needs != 0 && is_set(loading, member->flag) &&
		!has_member(adapter, part, member->also_needs))
		return &adapter->form->members[member->also_needs];
	return NULL;
}

/* -1: it has fewer dimensions. */
static int64_t size_at(const struct peft_part *part, uint32_t dim)
{
	return dim < part->dims ? part->shape[dim] : -1;
}

/* IA3 scales what goes into some modules, and what comes out of the others. */
static bool scales_inputs(const struct adapter *adapter, struct fsdp_span module)
{
	return has_word(&adapter->lists[INPUTS], module);
}

/* The only text that a pattern matches: "\." is a dot, and "." is read as one, as people
 * write it. False: it has other metacharacters. */
static bool read_literal(
	struct fsdp_span pattern, char *text, size_t *ret_size, bool *ret_whole)
{
	size_t at = 0, size = 0;

	*ret_whole = pattern.size != 0 && pattern.data[0] == '^';
	for (at = *ret_whole; at < pattern.size && size < LITERAL; at++) {
		unsigned char c = pattern.data[at];
		if (c == '\\' && at + 1 < pattern.size && pattern.data[at + 1] == '.')
			c = pattern.data[++at];
		else if (strchr("\\^$*+?{}[]|()", c) != NULL)
			return false;
		text[size++] = (char)c;
	}
	*ret_size = size;
	return at == pattern.size;
}

/* The rank of a module. False: the configuration has a pattern that is not understood. */
static bool find_rank(struct fsdp_loading *loading, const struct adapter *adapter,
	struct fsdp_span module, int64_t *ret_rank)
{
	struct fsdp_load_items list =
		fsdp_load_items(loading, CONFIG_FILE, "rank_pattern");
	const struct fsdp_setting *item;
	char text[LITERAL];
	size_t size;
	bool is_whole;

	*ret_rank = integer(loading, adapter->form->rank, adapter->form->rank_default);
	while ((item = fsdp_load_next_item(&list)) != NULL) {
		if (!read_literal(item->key, text, &size, &is_whole))
			return false;
		if (is_whole ? !fsdp_span_equal(module, fsdp_span(text, size))
			     : !ends_so(module, fsdp_span(text, size)))
			continue;
		*ret_rank =
			item->value.kind == FSDP_TOKEN_INTEGER ? item->value.integer : 0;
		return true;
	}
	return true;
}

/* A tensor of a target that has a rank. */
static bool is_ranked(const struct adapter *adapter, const struct peft_part *part)
{
	return (part->is & TARGET) != 0 && adapter->form->rank != NULL &&
	       part->member->rank_dim != 0;
}

/* Of a tensor with too few dimensions it is not a rank that is wrong. Parameters that are
 * not weights of their modules have a rank for each of their parts. A convolution in
 * groups has its rank cut among them in the second matrix. */
static uint32_t find_rank_mark(struct fsdp_loading *loading,
	const struct adapter *adapter, struct peft_part *part)
{
	bool is_known = find_rank(loading, adapter, part->module, &part->rank);
	int64_t share = size_at(part, 1);

	part->stored_rank = part->dims > part->member->at
				    ? size_at(part, part->member->rank_dim - 1)
				    : -1;
	if (is_known && (part->stored_rank == part->rank ||
				(part->dims > 2 && part->member->size == OUT &&
					share > 0 && part->rank % share == 0)))
		return 0;
	return !is_known || is_set(loading, "target_parameters") ? UNKNOWN_RANK
	       : part->stored_rank < 0                           ? NO_MATRIX
								 : OTHER_RANK;
}

/* "x.q_proj" in the base: its weight, or NULL. */
static const struct fsdp_load_tensor *find_base(
	struct fsdp_loading *loading, struct fsdp_span module)
{
	char text[NAME_BYTES];
	int size = snprintf(text, sizeof text, "%.*s.weight", FSDP_TEXT(module));

	return (size_t)size < sizeof text
		       ? fsdp_load_find_expected(loading, fsdp_span(text, (size_t)size))
		       : NULL;
}

/* What wraps a module leaves its name in that of the tensor; that of others than
 * torch.compile ends with "module". ZeRO-3 leaves a parameter without any size. A vector
 * of IA3 is a row if it scales inputs, and a column if it scales outputs. */
static void mark_part(struct fsdp_loading *loading, const struct adapter *adapter,
	struct peft_part *part)
{
	bool is_row;

	if (!fsdp_span_has_any(part->whole, "_orig_mod. module.") &&
		fsdp_span_behind(part->whole, PREFIX, &part->rest))
		part->is |= PREFIXED;
	if (part->dims == 1 && part->shape[0] == 0)
		part->is |= PLACEHOLDER;
	for (size_t i = 0; i < MEMBERS && part->member == NULL; i++) {
		const struct adapter_member *member = &adapter->form->members[i];
		if (member->name != NULL && !read_member(part, member, member->tail))
			(void)read_member(part, member, member->live_tail);
	}
	if ((part->is & LIVE) == 0)
		return;
	if (strstr(part->member->name, "magnitude") != NULL &&
		!is_set(loading, "use_dora"))
		part->is |= PLAIN;
	if (adapter->lists_targets && !is_target(loading, adapter, part->module))
		return;
	part->is |= TARGET;
	is_row = scales_inputs(adapter, part->module);
	if (part->member->size == SIDE && part->dims <= 2 &&
		(part->dims != 2 || part->shape[!is_row] != 1))
		part->is |= TURNED;
	if (is_ranked(adapter, part))
		part->is |= find_rank_mark(loading, adapter, part);
	if (loading->options->expected != NULL &&
		find_base(loading, part->module) == NULL)
		part->is |= NOT_IN_BASE;
	if (adapter->base_layers > 0 && layer_of(part->module) >= adapter->base_layers)
		part->is |= LATER;
}

/* Of a type that is supported, and with lists that are not too long. */
static void read_adapter(struct fsdp_loading *loading, struct adapter *adapter)
{
	const struct fsdp_load_check_options *options = loading->options;
	struct fsdp_span targets;
	size_t count;

	for (size_t i = 0; i < ALL_LISTS; i++) {
		struct fsdp_token value = setting(loading, list_keys[i]);
		if ((value.kind == FSDP_TOKEN_LIST || value.kind == FSDP_TOKEN_DICT) &&
			value.count > ITEMS_MOST && adapter->long_key == NULL)
			adapter->long_key = list_keys[i];
	}
	if ((loading->is & FORMS) == 0 || adapter->long_key != NULL)
		return;
	adapter->form = &forms[__builtin_ctz(loading->is & FORMS)];
	adapter->lists_targets =
		setting(loading, "target_modules").kind == FSDP_TOKEN_LIST &&
		is_set(loading, "target_modules");
	targets = fsdp_load_text(loading, CONFIG_FILE, "target_modules");
	adapter->is_all_linear =
		targets.size == 10 &&
		strncasecmp((const char *)targets.data, "all-linear", 10) == 0;
	adapter->has_patterns = (targets.size != 0 && !adapter->is_all_linear) ||
				is_text(loading, "exclude_modules") ||
				is_set(loading, "layers_pattern");
	adapter->checkpoint = loading->has_stored ? fsdp_load_opened(loading) : NULL;
	/* Texts of a list, or members of a dict that are texts. */
	for (unsigned i = 0; i < LISTS; i++) {
		struct fsdp_load_items list =
			fsdp_load_items(loading, CONFIG_FILE, list_keys[i]);
		struct adapter_words *words = &adapter->lists[i];
		const struct fsdp_setting *item;

		words->items =
			FSDP_TAKE(loading->arena, words->items, list.end - list.at + 1);
		loading->failed |= words->items == NULL;
		while (words->items != NULL &&
			(item = fsdp_load_next_item(&list)) != NULL)
			if (item->value.kind == FSDP_TOKEN_TEXT)
				words->items[words->count++] = item->value.text;
	}
	for (size_t i = 0; i < options->expected_count; i++)
		if (layer_of(options->expected[i].name) >= adapter->base_layers)
			adapter->base_layers = layer_of(options->expected[i].name) + 1;
	adapter->prompts = find_stored(adapter, "prompt_embeddings");
	count = adapter->checkpoint != NULL ? fsdp_tensor_count(adapter->checkpoint) : 0;
	adapter->parts = adapter->end =
		FSDP_TAKE(loading->arena, adapter->parts, count + 1);
	loading->failed |= adapter->parts == NULL;
	for (uint32_t i = 0; i < count && !loading->failed; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(adapter->checkpoint, i);
		struct peft_part *part = adapter->end++;
		part->whole = part->rest = fsdp_load_copy_name(
			loading, adapter->checkpoint, tensor.raw_name);
		part->shape = tensor.shape;
		part->dims = tensor.dims;
		mark_part(loading, adapter, part);
		if ((part->is & LIVE) != 0 && layer_of(part->module) >= adapter->layers)
			adapter->layers = layer_of(part->module) + 1;
	}
}

static void begin(struct fsdp_loading *loading)
{
	struct fsdp_span type = fsdp_load_text(loading, CONFIG_FILE, "peft_type");
	struct adapter *adapter = loading->own = FSDP_TAKE(loading->arena, adapter, 1);

	loading->lists_weights = true;
	/* Nothing is compared with a model: only what is stored is listed. */
	loading->was_compared = true;
	loading->has_stored =
		loading->weights != NULL && fsdp_load_opened(loading) != NULL;
	loading->is |= (fsdp_load_document(loading, CONFIG_FILE).is_valid ? 0 : NO_JSON) |
		       (type.data == NULL ? NO_TYPE : 0);
	for (size_t i = 0; i < FSDP_COUNT(forms); i++)
		if (fsdp_span_is(type, forms[i].type))
			loading->is |= 1u << i;
	if (setting(loading, "target_modules").kind == FSDP_TOKEN_NONE)
		loading->is |= UNSET;
	else if (!is_set(loading, "target_modules target_parameters"))
		loading->is |= EMPTY;
	loading->failed |= adapter == NULL;
	if (adapter != NULL)
		read_adapter(loading, adapter);
}

/* ---- what the rules ask for ---- */

/* The first tensor with all of these marks. */
static const struct peft_part *find_part(const struct adapter *adapter, uint32_t is)
{
	for (const struct peft_part *part = adapter->parts; part < adapter->end; part++)
		if ((part->is & is) == is)
			return part;
	return NULL;
}

/* Word 0: the first tensor with the mark that is the argument of the rule. */
static bool has_part(struct fsdp_loading *loading)
{
	const struct peft_part *part = find_part(loading->own, loading->rule->arg);

	return part != NULL && fsdp_load_set_word(loading, 0, part->whole);
}

/* Word 0: a member as the live model calls it, without what wraps the model. */
static bool write_live_name(struct fsdp_loading *loading, struct fsdp_span module,
	const struct adapter_member *member)
{
	const unsigned char *at =
		memmem(module.data, module.size, PREFIX, sizeof PREFIX - 1);
	size_t before = at != NULL ? (size_t)(at - module.data) + sizeof PREFIX - 1 : 0;

	module = fsdp_span(module.data + before, module.size - before);
	return fsdp_load_report(loading, 0, PREFIX "%.*s.%s.default%s",
		FSDP_TEXT_MOST(module, 512), member->name,
		member->live_tail != NULL ? member->live_tail : member->tail);
}

static bool write_numbers(struct fsdp_loading *loading, int64_t stored, int64_t other)
{
	fsdp_load_report(loading, 1, "%" PRId64, stored);
	return fsdp_load_report(loading, 2, "%" PRId64, other);
}

/* ---- the configuration against itself ---- */

/* A type that this release does not have; with an argument one that is not supported
 * here. */
static bool is_other_type(struct fsdp_loading *loading)
{
	static const char types[] =
		"PROMPT_TUNING MULTITASK_PROMPT_TUNING P_TUNING PREFIX_TUNING LORA ADALORA ADAMSS BOFT "
		"ADAPTION_PROMPT IA3 BEFT LILY LOHA LOKR OFT POLY LN_TUNING VERA FROD PVERA FOURIERFT GLORA XLORA "
		"HRA VBLORA UNILORA CPT MISS RANDLORA ROAD TRAINABLE_TOKENS HIRA SHIRA C3A WAVEFT OSF DELORA "
		"GRALORA CARTRIDGE TINYLORA PSOFT PEANUT SHADOW SUPERTUNING DEFT";
	struct fsdp_span type = fsdp_load_text(loading, CONFIG_FILE, "peft_type");

	return (loading->rule->arg != 0 || !fsdp_span_is_any(type, types)) &&
	       fsdp_load_set_word(loading, 0, type);
}

/* What changes names or sizes in a way that is not known here. */
static bool is_variant(struct fsdp_loading *loading)
{
	const struct fsdp_setting *found = fsdp_load_find_set(loading, CONFIG_FILE,
		"use_bdlora use_qalora kasa_config monteclora_config arrow_config velora_config");

	return found != NULL && fsdp_load_set_word(loading, 0, found->key);
}

static bool is_too_long(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;

	return adapter->long_key != NULL &&
	       fsdp_load_report(loading, 0, "%s", adapter->long_key);
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

/* Word 0: the targets; 3: what helps, if the modules with tensors are few. */
static bool write_targets(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;
	const struct adapter_words *targets = &adapter->lists[TARGETS];
	char listed[FSDP_LOAD_WORD / 2] = "", live[FSDP_LOAD_WORD / 2] = "";
	bool is_full = false, is_live_full = false;

	for (size_t i = 0; i < targets->count; i++)
		add_word(listed, targets->items[i], &is_full);
	fsdp_load_report(loading, 0, "%s", is_full ? "..." : listed);
	for (const struct peft_part *part = adapter->parts; part < adapter->end; part++)
		if ((part->is & LIVE) != 0)
			add_word(live, fsdp_span_last(part->module, '.'), &is_live_full);
	if (*live != '\0')
		fsdp_load_report(loading, 3,
			"set target_modules to [%s] in adapter_config.json", live);
	return adapter->parts < adapter->end;
}

/* All targets are named as excluded, too. */
static bool is_all_excluded(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;
	const struct adapter_words *targets = &adapter->lists[TARGETS];

	for (size_t i = 0; i < targets->count; i++)
		if (!has_word(&adapter->lists[EXCLUDED], targets->items[i]))
			return false;
	return targets->count > 0;
}

/* A module of the base, if that is known, is a target. */
static bool base_has_target(struct fsdp_loading *loading)
{
	const struct fsdp_load_check_options *options = loading->options;

	for (size_t i = 0; i < options->expected_count; i++)
		if (is_named(loading->own, parent(options->expected[i].name)))
			return true;
	return false;
}

/* None of the targets is a module that was adapted: the base has none of them. */
static bool has_no_target(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;
	size_t count = 0;

	for (const struct peft_part *part = adapter->parts; part < adapter->end; part++) {
		if (part->member != NULL && is_named(adapter, part->module))
			return false;
		count += part->member != NULL;
	}
	return count > 0 && adapter->lists[TARGETS].count > 0 &&
	       !base_has_target(loading) && write_targets(loading);
}

static bool base_lacks_targets(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;

	(void)write_targets(loading);
	return adapter->lists_targets && !base_has_target(loading) &&
	       adapter->lists[TARGETS].count > 0;
}

/* OFT: the one is what the other leaves over. */
static bool has_two_block_sizes(struct fsdp_loading *loading)
{
	int64_t r = integer(loading, "r", 0);
	int64_t size = integer(loading, "oft_block_size", 32);

	fsdp_load_report(loading, 0, "%" PRId64, r);
	fsdp_load_report(loading, 1, "%" PRId64, size);
	return r != 0 && size != 0;
}

/* IA3: what is scaled at its inputs is adapted. */
static bool has_stray_inputs(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;
	const struct adapter_words *inputs = &adapter->lists[INPUTS],
				   *targets = &adapter->lists[TARGETS];
	bool is_list = setting(loading, "target_modules").kind == FSDP_TOKEN_LIST;

	for (size_t i = 0; is_list && i < inputs->count; i++)
		if (fsdp_span_place(inputs->items[i], targets->items, targets->count) ==
			targets->count)
			return true;
	return false;
}

/* ---- prompts ---- */

static bool lacks_prompts(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;

	return adapter->checkpoint != NULL && adapter->prompts == FSDP_NONE;
}

/* Word 2: what helps. */
static bool lacks_token_count(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;
	struct fsdp_tensor tensor;

	if (adapter->prompts == FSDP_NONE ||
		integer(loading, "num_virtual_tokens", 0) > 0)
		return false;
	tensor = fsdp_tensor(adapter->checkpoint, adapter->prompts);
	return tensor.dims != 2 ||
	       fsdp_load_report(loading, 2, "set it to %lld in adapter_config.json",
		       (long long)tensor.shape[0]);
}

static bool has_other_prompts(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;
	int64_t tokens = integer(loading, "num_virtual_tokens", -1);
	int64_t parts = (loading->is & PREFIX_TUNING) != 0
				? 1
				: integer(loading, "num_transformer_submodules", 1);
	struct fsdp_tensor tensor;

	if (adapter->prompts == FSDP_NONE || tokens <= 0 || parts <= 0)
		return false;
	tensor = fsdp_tensor(adapter->checkpoint, adapter->prompts);
	write_numbers(loading, tensor.dims > 0 ? tensor.shape[0] : 0, tokens);
	return tensor.dims != 2 || tensor.shape[0] % tokens != 0 ||
	       tensor.shape[0] / tokens != parts;
}

/* ---- tensors against the configuration ---- */

/* Words: the tensor, its rank or dimensions, the configured rank; 4: what helps: only if
 * both matrices of all modules have this rank, and none could be transposed or the piece
 * of one process, the configuration is wrong. */
static bool has_rank_fault(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;
	const struct peft_part *first = find_part(adapter, loading->rule->arg);
	bool is_of_all;

	if (first == NULL)
		return false;
	fsdp_load_set_word(loading, 0, first->whole);
	write_numbers(loading, first->stored_rank < 0 ? first->dims : first->stored_rank,
		first->rank);
	is_of_all =
		first->stored_rank > 0 && !is_set(loading, "rank_pattern enable_lora");
	for (const struct peft_part *part = adapter->parts; part < adapter->end; part++) {
		if (!is_of_all || !is_ranked(adapter, part))
			continue;
		uint32_t rank_at = part->member->rank_dim - 1;
		is_of_all = part->dims == 2 &&
			    part->shape[rank_at] == first->stored_rank &&
			    part->shape[1 - rank_at] != first->rank &&
			    find_lacking(loading, adapter, part) == NULL;
	}
	if (is_of_all)
		fsdp_load_report(loading, 4, "set %s to %lld in adapter_config.json",
			adapter->form->rank, (long long)first->stored_rank);
	return true;
}

static bool is_turned_vector(struct fsdp_loading *loading)
{
	const struct peft_part *part = find_part(loading->own, TURNED);

	return part != NULL && fsdp_load_set_word(loading, 0, part->whole) &&
	       fsdp_load_report(loading, 1, "%s",
		       scales_inputs(loading->own, part->module) ? "1, N" : "N, 1");
}

static bool has_no_tensors(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;

	for (const struct peft_part *part = adapter->parts; part < adapter->end; part++)
		if (adapter->form->is_prompt || part->member != NULL ||
			fsdp_span_has_any(part->whole, "lora_ ia3_ oft_ boft_"))
			return fsdp_load_report(loading, 0,
				       "no tensor of the adapter is stored") &&
			       fsdp_load_is_nested(loading);
	return fsdp_load_report(loading, 0, "%s",
		       adapter->parts == adapter->end
			       ? "no tensor of the adapter is stored"
			       : "the adapter file holds other tensors, as of a full model, and none of an adapter") &&
	       adapter->checkpoint != NULL;
}

static bool has_other_names(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;

	for (const struct peft_part *part = adapter->parts; part < adapter->end; part++) {
		if ((part->is & RENAMED) == 0)
			continue;
		if (loading->all_names == 0)
			write_live_name(loading, part->module, part->member);
		fsdp_load_name(loading, part->whole);
	}
	return loading->all_names > 0;
}

/* The targets differ from the stored ones and are randomly initialized. */
static bool uses_nothing(struct fsdp_loading *loading)
{
	return find_part(loading->own, TARGET) == NULL &&
	       find_part(loading->own, LIVE) != NULL &&
	       loading->options->expected == NULL;
}

static bool lacks_half(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;

	for (const struct peft_part *part = adapter->parts; part < adapter->end; part++) {
		const struct adapter_member *lacking =
			(part->is & LIVE) != 0 ? find_lacking(loading, adapter, part)
					       : NULL;
		if (lacking != NULL)
			return write_live_name(loading, part->module, lacking);
	}
	return false;
}

/* ---- whole modules and tokens, which are asked for by name ---- */

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

/* With a segment that PEFT takes out of names when it saves, and puts into them again. */
static bool has_unstripped_module(struct fsdp_loading *loading)
{
	static const char *const segments[] = { "default", "modules_to_save" };
	const struct adapter *adapter = loading->own;
	const struct adapter_words *whole = &adapter->lists[WHOLE];
	char text[NAME_BYTES];

	for (size_t i = 0; i < 2 * whole->count; i++) {
		int size = snprintf(text, sizeof text, ".%.*s.%s.",
			FSDP_TEXT(whole->items[i / 2]), segments[i % 2]);
		for (const struct peft_part *part = adapter->parts; part < adapter->end;
			part++)
			if ((size_t)size < sizeof text &&
				memmem(part->whole.data, part->whole.size, text,
					(size_t)size) != NULL)
				return fsdp_load_set_word(
					       loading, 0, whole->items[i / 2]) &&
				       fsdp_load_report(
					       loading, 1, "%s", segments[i % 2]);
	}
	return false;
}

/* LoRA with some tokens that are trained whole: how many are stored; -1: none. */
static int64_t count_tokens(const struct adapter *adapter)
{
	for (const struct peft_part *part = adapter->parts; part < adapter->end; part++)
		if ((part->is & PREFIXED) != 0 &&
			fsdp_span_ends(part->rest,
				FSDP_SPAN(".token_adapter.trainable_tokens_delta")))
			return part->dims > 0 ? part->shape[0] : 0;
	return -1;
}

/* Word 4: what helps. */
static bool lacks_tokens(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;

	if (find_part(adapter, LIVE) != NULL)
		fsdp_load_report(loading, 4,
			"set trainable_token_indices to null; the tokens are then the base's");
	return adapter->checkpoint != NULL &&
	       is_set(loading, "trainable_token_indices") && count_tokens(adapter) < 0;
}

static bool has_other_tokens(struct fsdp_loading *loading)
{
	struct fsdp_token listed = setting(loading, "trainable_token_indices");
	int64_t count = count_tokens(loading->own);

	return listed.kind == FSDP_TOKEN_LIST && count >= 0 &&
	       (uint64_t)count != listed.count &&
	       write_numbers(loading, count, (int64_t)listed.count);
}

/* ---- the base model, if its names are known ---- */

/* Words: a tensor of a layer that the base, which has others of them, lacks; the layers
 * of the base. */
static bool has_more_layers(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;

	for (const struct peft_part *part = adapter->parts; part < adapter->end; part++)
		if ((part->is & LATER) != 0)
			fsdp_load_name(loading, part->whole);
	fsdp_load_report(loading, 1, "%" PRId64, adapter->base_layers);
	return loading->all_names > 0;
}

/* A tensor of the base that the adapter has to have, too. Word 4: what helps, if the
 * names are those of the base. */
static bool lacks_module_of_base(struct fsdp_loading *loading)
{
	const struct fsdp_load_check_options *options = loading->options;
	const struct adapter *adapter = loading->own;
	const struct adapter_words *whole = &adapter->lists[WHOLE];

	if (find_part(adapter, NOT_IN_BASE) == NULL)
		fsdp_load_report(loading, 4,
			"remove the module from modules_to_save: the base's weights are used");
	for (size_t k = 0; adapter->checkpoint != NULL && k < whole->count; k++)
		for (size_t i = 0; i < options->expected_count; i++) {
			struct fsdp_span name = options->expected[i].name;
			if (is_held_by(name, whole->items[k]) &&
				find_stored(adapter, PREFIX "%.*s", FSDP_TEXT(name)) ==
					FSDP_NONE) {
				const struct peft_part *part = adapter->parts;

				while (part < adapter->end &&
					!is_held_by(part->rest, whole->items[k]))
					part++;
				if (part < adapter->end)
					fsdp_load_report(loading, 4,
						"rename %.*s, which is stored, if it is that tensor",
						FSDP_TEXT_MOST(part->whole, 256));
				return fsdp_load_report(loading, 0, PREFIX "%.*s",
					FSDP_TEXT_MOST(name, 512));
			}
		}
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
		if (base == NULL || fsdp_load_same_shape(base, &own))
			continue;
		if (fsdp_span_ends_any(name, embeddings) && part->dims == 2 &&
			base->dims == 2 && part->shape[1] == base->shape[1] &&
			part->shape[0] > base->shape[0])
			fsdp_load_report(loading, 1,
				"call resize_token_embeddings(%lld) on the base before the adapter is loaded",
				(long long)part->shape[0]);
		return fsdp_load_report(
			loading, 0, PREFIX "%.*s", FSDP_TEXT_MOST(name, 512));
	}
	return false;
}

#define TRAINED_ON "load it into the base that it was trained on"

/* A member whose size is not that of its module. Word 4: what helps, if nothing of the
 * adapter fits; else some of its tensors are wrong. */
static bool has_other_sizes(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;
	bool found = false, fits_some = false;

	for (const struct peft_part *part = adapter->parts; part < adapter->end; part++) {
		const struct adapter_member *member = part->member;
		const struct fsdp_load_tensor *base =
			(part->is & TARGET) != 0 ? find_base(loading, part->module)
						 : NULL;
		uint64_t wanted, stored = 0;
		int64_t times = 1;
		enum size size;
		bool is_turned, is_known, fits;

		if (base == NULL || base->shape == NULL || base->dims < 2 ||
			member->size == ANY ||
			(member->unsized_by != 0 &&
				has_member(adapter, part, member->unsized_by)))
			continue;
		size = member->size != SIDE                   ? member->size
		       : scales_inputs(adapter, part->module) ? IN
							      : OUT;
		/* A Conv1D has its inputs first. */
		is_turned = base->dims == 2 && is_set(loading, "fan_in_fan_out");
		wanted = (uint64_t)base
				 ->shape[size == ROWS      ? 0
					 : size == COLUMNS ? 1
							   : (size == IN) != is_turned];
		if (member->times != NULL)
			times = integer(loading, member->times, 0);
		if (member->times_at != 0)
			times = size_at(part, member->times_at);
		is_known = member->size == SIDE
				   ? fsdp_numel(part->shape, part->dims, &stored)
				   : size_at(part, member->at) >= 0 && times > 0 &&
					     fsdp_mul((uint64_t)size_at(part, member->at),
						     (uint64_t)times, &stored);
		/* The inputs of a convolution are those of a group, and often times its
		 * extent. */
		fits = is_known && (base->dims > 2 && member->size == IN && wanted != 0
						   ? stored % wanted == 0
						   : stored == wanted);
		fits_some |= fits;
		if (!fits && !found) {
			found = fsdp_load_set_word(loading, 0, part->whole);
			write_numbers(loading, (int64_t)stored, (int64_t)wanted);
		}
	}
	fsdp_load_report(loading, 4, "%s", fits_some ? "" : TRAINED_ON);
	return found;
}

/* Targets of the base without stored tensors; `by_pattern`: targets that only a pattern
 * decides. */
static bool lacks_targets(struct fsdp_loading *loading, bool by_pattern)
{
	const struct fsdp_load_check_options *options = loading->options;
	const struct adapter *adapter = loading->own;

	if (adapter->checkpoint == NULL || adapter->form->is_prompt ||
		adapter->has_patterns != by_pattern)
		return false;
	for (size_t i = 0; i < options->expected_count; i++) {
		const struct fsdp_load_expected *wanted = &options->expected[i];
		const struct adapter_member *member = &adapter->form->members[1];
		struct fsdp_span module = parent(wanted->name);
		/* LoRA of single parameters: they are listed by their own names. */
		if (!fsdp_span_ends(wanted->name, FSDP_SPAN(".weight")) ||
			(wanted->shape != NULL && wanted->dims < 2) ||
			(adapter->is_all_linear &&
				(wanted->shape == NULL || wanted->dims != 2)) ||
			module.size > NAME_BYTES / 2 ||
			(!is_target(loading, adapter, module) &&
				!has_word(&adapter->lists[PARAMETERS], wanted->name)) ||
			has_module(adapter, module))
			continue;
		/* Members of an embedding have other names; a module is likely to be one
		 * by its usual names. */
		for (size_t k = 0; k < MEMBERS; k++)
			if (adapter->form->members[k].size == ROWS &&
				fsdp_span_find(fsdp_span_last(module, '.'),
					FSDP_SPAN("emb")) != NULL)
				member = &adapter->form->members[k];
		if (loading->all_names == 0)
			write_live_name(loading, module, member);
		fsdp_load_name(loading, wanted->name);
	}
	return loading->all_names > 0;
}

/* Word 4: what helps. Either the base has more layers than the one that was trained on,
 * or the adapter lost its last ones. */
static bool lacks_target(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;
	bool is_deeper = find_part(adapter, NOT_IN_BASE) == NULL;

	if (!lacks_targets(loading, false))
		return false;
	for (size_t i = 0; i < loading->name_count; i++)
		is_deeper &= layer_of(loading->names[i]) >= adapter->layers;
	return fsdp_load_report(loading, 4, "%s",
		is_deeper && adapter->layers > 0 ? TRAINED_ON
			", if that has fewer layers; else copy the adapter again"
						 : "");
}

static bool may_lack_target(struct fsdp_loading *loading)
{
	return lacks_targets(loading, true);
}

/* A matrix of the base that is adapted if its module is linear, and neither an embedding
 * nor the head. */
static bool may_lack_linear(struct fsdp_loading *loading)
{
	const struct fsdp_load_check_options *options = loading->options;
	const struct adapter *adapter = loading->own;

	for (size_t i = 0; adapter->is_all_linear && i < options->expected_count; i++) {
		const struct fsdp_load_expected *wanted = &options->expected[i];
		struct fsdp_span module = parent(wanted->name);
		struct fsdp_span last = fsdp_span_last(module, '.');
		if ((wanted->shape == NULL || wanted->dims == 2) &&
			!has_module(adapter, module) &&
			fsdp_span_ends(wanted->name, FSDP_SPAN(".weight")) &&
			!fsdp_span_has_any(last, "emb wte wpe") &&
			!fsdp_span_is_any(last, "lm_head score classifier") &&
			!has_word(&adapter->lists[EXCLUDED], module) &&
			!has_word(&adapter->lists[WHOLE], module) &&
			(wanted->shape == NULL || !is_adapted_kind(adapter, module)))
			fsdp_load_name(loading, module);
	}
	return loading->all_names > 0;
}

/* A bias that was trained with the adapter stays as the base has it. It is stored below
 * its module if that is adapted. */
static bool lacks_bias(struct fsdp_loading *loading)
{
	const struct fsdp_load_check_options *options = loading->options;
	const struct adapter *adapter = loading->own;
	struct fsdp_span wanted = fsdp_load_text(loading, CONFIG_FILE, "bias");
	bool is_all = fsdp_span_is(wanted, "all");

	if ((!is_all && !fsdp_span_ends(wanted, FSDP_SPAN("_only"))) ||
		adapter->checkpoint == NULL)
		return false;
	for (size_t i = 0; i < options->expected_count; i++) {
		struct fsdp_span name = options->expected[i].name, module = parent(name);
		if (!fsdp_span_ends(name, FSDP_SPAN(".bias")))
			continue;
		bool is_adapted = has_module(adapter, module);
		if ((!is_all && !is_adapted) ||
			find_stored(adapter, PREFIX "%.*s%s.bias", FSDP_TEXT(module),
				is_adapted ? ".base_layer" : "") != FSDP_NONE)
			continue;
		fsdp_load_name(loading, name);
	}
	return loading->all_names > 0;
}

/* The base is on the hub, or cannot be read. Prompts are built from what the
 * configuration has alone. */
static bool has_no_base(struct fsdp_loading *loading)
{
	struct fsdp_span base =
		fsdp_load_text(loading, CONFIG_FILE, "base_model_name_or_path");

	return base.size != 0 && fsdp_load_set_word(loading, 0, base);
}

/* What is stored and the configuration does not ask for. Word 4: what helps. */
static bool ignores_some(struct fsdp_loading *loading)
{
	const struct adapter *adapter = loading->own;
	bool lacks_others = lacks_target(loading);

	fsdp_load_clear(loading);
	for (const struct peft_part *part = adapter->parts; part < adapter->end; part++) {
		bool is_plain = (part->is & PLAIN) != 0;
		if ((part->is & LIVE) == 0 || (!is_plain && (part->is & TARGET) != 0))
			continue;
		fsdp_load_name(loading, part->whole);
		if (loading->all_names > 1 || lacks_others)
			continue;
		if (!is_named(adapter, part->module))
			fsdp_load_report(loading, 4,
				"add %.*s to target_modules in adapter_config.json",
				FSDP_TEXT_MOST(fsdp_span_last(part->module, '.'), 256));
		else if (is_plain)
			fsdp_load_report(loading, 4,
				"set use_dora to true in adapter_config.json");
	}
	fsdp_load_report(loading, 1, "%" PRIu64, loading->all_names);
	return loading->all_names > 0 && !uses_nothing(loading);
}

/* ---- rules ---- */

#define PUT_CONFIG "put the adapter's configuration next to its weights"
#define SAVE_DICT "save a dict of the adapter's tensors by their names"
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
	FSDP_REFUSES(NO_STATE_DICT, fsdp_load_is_no_dict, NULL, SAVE_DICT),
	FSDP_NOT_JUDGED(
		NO_STATE_DICT, fsdp_load_is_unknown_root, NULL, SAVE_DICT, .ends = true),
	FSDP_REFUSES(NO_STATE_DICT, fsdp_load_has_unusual_key, NULL, SAVE_DICT),
	FSDP_NOT_JUDGED(UNREAD, fsdp_load_cannot_open),
	FSDP_REFUSES(ADAPTER_TYPE, is_other_type,
		"{0} is not a type of adapter that PEFT has", FSDP_NO_FIX),
	FSDP_NOT_JUDGED(ADAPTER_TYPE, is_other_type,
		"adapters of type {0} are not supported", .arg = 1, .unless = FORMS,
		.ends = true),
	FSDP_NOT_JUDGED(ADAPTER_TYPE, is_variant, "adapters with {0} are not supported",
		.ends = true),
	FSDP_NOT_JUDGED(
		UNSUPPORTED, is_too_long, "{0} has more than 4,096 items", .ends = true),
	FSDP_REFUSES(CONFIG, has_two_block_sizes,
		"r ({0}) and oft_block_size ({1}) are both set",
		"set one of them to 0 in adapter_config.json", .when = OFT),
	FSDP_REFUSES(CONFIG, has_stray_inputs,
		"feedforward_modules lists modules that target_modules does not list",
		"list them in target_modules, too", .when = IA3),
	FSDP_REFUSES(ADAPTER_TARGETS, write_targets,
		"target_modules in adapter_config.json is empty", "{3}", .when = EMPTY,
		.unless = PROMPTS),
	FSDP_REFUSES(ADAPTER_TARGETS, is_all_excluded,
		"exclude_modules excludes all of target_modules",
		"take the targets out of exclude_modules"),
	FSDP_REFUSES(ADAPTER_TARGETS, has_no_target,
		"no stored tensor is of a module in target_modules ({0})",
		"set target_modules to the modules that are stored"),
	FSDP_REFUSES(ADAPTER_TARGETS, base_lacks_targets,
		"the base has no module of target_modules ({0})", TRAINED_ON,
		.when = FSDP_LOAD_EXPECTS),
	FSDP_REFUSES(ADAPTER_MODULES, lacks_whole,
		"{0} (modules_to_save) has no name that starts with " PREFIX),
	FSDP_REFUSES(ADAPTER_MODULES, has_unstripped_module,
		"tensors of {0} (modules_to_save) have the segment {1} in their names, which PEFT adds when it loads",
		"rename them: without the segment {1}"),
	FSDP_REFUSES(ADAPTER_MODULES, lacks_module_of_base,
		"{0} (modules_to_save in adapter_config.json) is missing", "{4}"),
	FSDP_REFUSES(MISSING_TENSOR, lacks_tokens,
		"the tensor of trainable_token_indices is missing", "{4}", .when = LORA),
	FSDP_REFUSES(MISSING_TENSOR, lacks_prompts, "prompt_embeddings is missing",
		"name the tensor prompt_embeddings", .unless = MODULES),
	FSDP_REFUSES(CONFIG, lacks_token_count,
		"adapter_config.json has no num_virtual_tokens", "{2}",
		.unless = MODULES),
	FSDP_REFUSES(SHAPE, has_other_prompts,
		"prompt_embeddings has {1} rows for {2} virtual tokens", FSDP_NO_FIX,
		.unless = MODULES),
	FSDP_REFUSES(SHAPE, has_part, "{0} is empty (ZeRO-3 placeholder)",
		"save the adapter again with its weights gathered", .arg = PLACEHOLDER,
		.unless = PROMPTS),
	FSDP_REFUSES(SHAPE, is_turned_vector, "{0} does not have the shape [{1}]",
		FSDP_NO_FIX, .when = IA3),
	FSDP_REFUSES(ADAPTER_RANK, has_rank_fault,
		"{0} has {1} dimensions, too few for a matrix of the adapter",
		.arg = NO_MATRIX),
	FSDP_REFUSES(ADAPTER_RANK, has_rank_fault,
		"{0} has rank {1}, adapter_config.json expects {2}", "{4}",
		.arg = OTHER_RANK),
	FSDP_REFUSES(SHAPE, has_other_tokens,
		"{1} rows are stored for {2} tokens of trainable_token_indices",
		"list the tokens as they were in trainable_token_indices"),
	FSDP_REFUSES(BASE_MODEL, has_other_sizes,
		"{0} has size {1}, the base expects {2}", "{4}",
		.when = FSDP_LOAD_EXPECTS),
	FSDP_REFUSES(BASE_MODEL, has_other_module, "{0} has another shape in the base",
		"{1}", .when = FSDP_LOAD_EXPECTS),
	FSDP_DIFFERS(
		MISSING_TENSOR, has_no_tensors, "{0}: it has no effect", FSDP_NO_FIX),
	FSDP_DIFFERS(OTHER_NAMES, has_other_names,
		"stored names are not those of the adapter; {0} is missing: it has no effect",
		FSDP_NO_FIX),
	FSDP_DIFFERS(MISSING_TENSOR, lacks_half,
		"{0} is missing: it keeps its start value", FSDP_NO_FIX),
	FSDP_NOT_JUDGED(ADAPTER_MODULES, lacks_whole,
		"modules_to_save lists {0}, which is not stored; the base may have it",
		EXPECT_BASE, .arg = 1, .unless = FSDP_LOAD_EXPECTS),
	FSDP_NOT_JUDGED(ADAPTER_TARGETS, uses_nothing,
		"no stored tensor is of a module in target_modules; the base may have some",
		EXPECT_BASE),
	FSDP_NOT_JUDGED(ADAPTER_TARGETS, write_targets,
		"adapter_config.json has no target_modules: PEFT chooses them by the type of the base model",
		"{3}", .when = UNSET, .unless = PROMPTS),
	FSDP_NOT_JUDGED(ADAPTER_RANK, has_part,
		"the rank of {0} depends on rank_pattern or target_parameters in a way that is not supported",
		.arg = UNKNOWN_RANK),
	FSDP_COMPARES_SETS(0),
	FSDP_DIFFERS(BASE_MODEL, lacks_target,
		"{0} is missing: it keeps its start value and has no effect", "{4}"),
	FSDP_DIFFERS(BASE_MODEL, lacks_bias,
		"{0} was trained but is missing: the base's values are used", FSDP_NO_FIX,
		.unless = PROMPTS),
	FSDP_DIFFERS(BASE_MODEL, has_more_layers,
		"{0} has no effect: its layer is beyond the {1} layers of the base"),
	FSDP_NOT_JUDGED(BASE_MODEL, may_lack_target,
		"the base may need {0}: regular expressions for modules are not evaluated",
		FSDP_NO_FIX),
	FSDP_NOT_JUDGED(BASE_MODEL, may_lack_linear,
		"no tensor is stored for {0}: target_modules is all-linear, and whether this module is linear is not known",
		FSDP_NO_FIX, .unless = PROMPTS),
	FSDP_NOT_JUDGED(BASE_MODEL, has_part,
		"the module of {0} is not in --expect, which needs the names of the base",
		FSDP_NO_FIX, .arg = NOT_IN_BASE),
	FSDP_NOT_JUDGED(BASE_MODEL, has_no_base,
		"names and shapes were not compared with the base {0}: it is not a directory here, or has other names",
		EXPECT_BASE, .unless = FSDP_LOAD_EXPECTS | PROMPTS),
	FSDP_IGNORES(IGNORED, ignores_some,
		"{0} has no effect: adapter_config.json does not list its module ({1} such tensors)",
		"{4}"),
	{ 0 },
};

const struct fsdp_loader fsdp_loader_peft = {
	.name = "peft",
	.library = "peft",
	.versions = FSDP_LOAD_VERSIONS("0.21.2"),
	.order = "adapter_model.safetensors adapter_model.bin",
	.begin = begin,
	.rules = rules,
};
