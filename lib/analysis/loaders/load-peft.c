/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PeftModel.from_pretrained(base, directory). The base is stored elsewhere: the adapter's settings
 * about it are trusted, unless --expect has its names.
 *
 * Origin: peft/peft_model.py, config.py, utils/save_and_load.py, utils/other.py, tuners (0.21).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/loaders/loading.h"
#include "base/num.h"

#define CONFIG_FILE "adapter_config.json"
#define PREFIX "base_model.model."

enum {
	NAME_BYTES = 4096,
	MEMBERS = 7,
	/* Of a list: people write a few, programs one per module. Each is compared with each tensor. */
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
	PROMPTS = 48,
	FORMS = 63,
	UNSET = 64,
	EMPTY = 128,
	NO_JSON = 256,
	NO_TYPE = 512
};

/* Lists of the configuration. */
enum list { TARGETS, EXCLUDED, WHOLE, INPUTS, PARAMETERS, LISTS };
static const char *const list_keys[LISTS] = { "target_modules", "exclude_modules",
	"modules_to_save", "feedforward_modules", "target_parameters" };

struct adapter_words {
	struct fsdp_span *items;
	size_t count;
};

/* A tensor, and its name taken apart. */
struct adapter_part {
	struct fsdp_span whole;
	struct fsdp_span rest; /* without the prefix, if it has that and no wrapper */
	bool has_prefix;       /* … as this says */
	const struct adapter_member *member; /* NULL: none of an adapter */
	struct fsdp_span module;             /* as the base has it, if the name is live */
	struct fsdp_span adapter;            /* ".default", or empty */
	bool is_live;                        /* the loader finds it in its model */
	bool is_target; /* … and the configuration does not exclude its module */
	const int64_t *shape;
	uint32_t dims;
	uint64_t numel;
};

/* Read once, by the first rule that needs it. */
struct adapter {
	const struct adapter_form *form;
	const struct fsdp_checkpoint *checkpoint; /* NULL: not opened */
	struct adapter_part *parts;
	size_t count;
	struct adapter_words lists[LISTS];
};

static int64_t integer(struct fsdp_loading *loading, const char *key, int64_t otherwise)
{
	return fsdp_load_integer(loading, CONFIG_FILE, key, otherwise);
}

static struct fsdp_token setting(struct fsdp_loading *loading, const char *key)
{
	return fsdp_load_setting(loading, CONFIG_FILE, key).value;
}

static bool is_list(struct fsdp_loading *loading, const char *key)
{
	return setting(loading, key).kind == FSDP_TOKEN_LIST;
}

/* A text is matched as a regular expression. */
static bool is_text(struct fsdp_loading *loading, const char *key)
{
	return fsdp_load_text(loading, CONFIG_FILE, key).size != 0;
}

static bool is_set(struct fsdp_loading *loading, const char *key)
{
	return fsdp_load_is_set(loading, CONFIG_FILE, key);
}

/* Texts of a list, or members of a dict that are texts. */
static struct adapter_words read_words(struct fsdp_loading *loading, const char *key)
{
	struct fsdp_load_items list = fsdp_load_items(loading, CONFIG_FILE, key);
	struct adapter_words words = { .count = 0 };
	uint32_t at = list.at;

	if (at == list.end)
		return words;
	words.items = FSDP_TAKE(loading->arena, words.items, list.end - at);
	loading->failed |= words.items == NULL;
	for (; words.items != NULL && at < list.end; at = list.settings[at].end)
		if (list.settings[at].value.kind == FSDP_TOKEN_TEXT)
			words.items[words.count++] = list.settings[at].value.text;
	return words;
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
	for (size_t i = 0; rest.size != 0; i++) {
		struct fsdp_span part = fsdp_span_first(rest, '.');
		int64_t number = 0;
		size_t digits = 0;
		while (digits < part.size && digits < 9 &&
			fsdp_is_digit(part.data[digits]))
			number = number * 10 + (part.data[digits++] - '0');
		if (i >= 2 && digits == part.size && digits != 0 && part.size < rest.size)
			return number;
		rest = fsdp_span(rest.data + part.size, rest.size - part.size);
		if (rest.size != 0)
			rest = fsdp_span(rest.data + 1, rest.size - 1);
	}
	return -1;
}

static bool is_of_layers(struct fsdp_loading *loading, struct fsdp_span module)
{
	static const char key[] = "layers_to_transform";
	struct fsdp_token only = setting(loading, key);
	struct fsdp_load_items list = fsdp_load_items(loading, CONFIG_FILE, key);
	int64_t layer = layer_of(module);

	if (only.kind == FSDP_TOKEN_INTEGER)
		return only.integer == layer;
	if (list.at == list.end)
		return true;
	for (uint32_t at = list.at; at < list.end; at = list.settings[at].end)
		if (list.settings[at].value.kind == FSDP_TOKEN_INTEGER &&
			list.settings[at].value.integer == layer)
			return true;
	return false;
}

/* Whether target_modules, if it is a list, names the module. */
static bool is_named(struct fsdp_loading *loading, const struct adapter *adapter,
	struct fsdp_span module)
{
	return !is_list(loading, "target_modules") ||
	       !is_set(loading, "target_modules") ||
	       has_word(&adapter->lists[TARGETS], module);
}

/* Whether a module of the base is adapted; *ret_unknown: the configuration has a pattern
 * that may say otherwise. */
static bool is_target(struct fsdp_loading *loading, const struct adapter *adapter,
	struct fsdp_span module, bool *ret_unknown)
{
	const struct adapter_words *targets = &adapter->lists[TARGETS];

	*ret_unknown = is_text(loading, "target_modules") ||
		       is_text(loading, "exclude_modules") ||
		       is_set(loading, "layers_pattern");
	if (is_text(loading, "target_modules"))
		return true;
	if (has_word(&adapter->lists[EXCLUDED], module) || !has_word(targets, module))
		return false;
	for (struct fsdp_span up = module; up.size != 0; up = parent(up))
		if (has_word(&adapter->lists[WHOLE], up))
			return false;
	for (size_t i = 0; i < targets->count; i++)
		if (fsdp_span_equal(targets->items[i], module))
			return true;
	return is_of_layers(loading, module);
}

/* What wraps a module leaves its name in that of the tensor; that of others than
 * torch.compile ends with "module". */
static bool is_unwrapped(struct fsdp_span name)
{
	return memmem(name.data, name.size, "_orig_mod.", 10) == NULL &&
	       memmem(name.data, name.size, "module.", 7) == NULL;
}

/* The member's part of a name that ends with its tail. The adapter's own name may be in between. */
static bool read_member(
	struct adapter_part *part, const struct adapter_member *member, const char *tail)
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
	part->is_live =
		is_unwrapped(part->whole) && fsdp_span_begins(rest, FSDP_SPAN(PREFIX));
	part->module = part->is_live ? fsdp_span(rest.data + sizeof PREFIX - 1,
					       rest.size - (sizeof PREFIX - 1))
				     : rest;
	return true;
}

static void read_part(
	struct fsdp_loading *loading, struct adapter *adapter, struct adapter_part *part)
{
	bool is_unknown;

	part->rest = part->whole;
	part->has_prefix = fsdp_span_begins(part->whole, FSDP_SPAN(PREFIX)) &&
			   is_unwrapped(part->whole);
	if (part->has_prefix)
		part->rest = fsdp_span(part->whole.data + sizeof PREFIX - 1,
			part->whole.size - (sizeof PREFIX - 1));
	for (size_t i = 0; i < MEMBERS && part->member == NULL; i++) {
		const struct adapter_member *member = &adapter->form->members[i];
		if (member->name != NULL && !read_member(part, member, member->tail))
			(void)read_member(part, member, member->live_tail);
	}
	part->is_target = part->is_live &&
			  (!is_set(loading, "target_modules") ||
				  !is_list(loading, "target_modules") ||
				  is_target(loading, adapter, part->module, &is_unknown));
}

/* Of a type that is supported. Nothing is stored if memory ends. */
static const struct adapter *read_adapter(struct fsdp_loading *loading)
{
	static const struct adapter none = { .form = &forms[0] };
	struct adapter *adapter = loading->own;
	size_t count;

	if (adapter != NULL)
		return adapter;
	adapter = loading->own = FSDP_TAKE(loading->arena, adapter, 1);
	if (adapter == NULL) {
		loading->failed = true;
		return &none;
	}
	for (adapter->form = &forms[0];
		(loading->is & (1u << (adapter->form - forms))) == 0;)
		adapter->form++;
	adapter->checkpoint =
		loading->knows_stored ? fsdp_load_open(loading, loading->weights) : NULL;
	for (unsigned i = 0; i < LISTS; i++)
		adapter->lists[i] = read_words(loading, list_keys[i]);
	count = adapter->checkpoint != NULL ? fsdp_tensor_count(adapter->checkpoint) : 0;
	adapter->parts = FSDP_TAKE(loading->arena, adapter->parts, count + 1);
	loading->failed |= adapter->parts == NULL;
	for (uint32_t i = 0; i < count && !loading->failed; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(adapter->checkpoint, i);
		struct adapter_part *part = &adapter->parts[adapter->count++];
		*part = (struct adapter_part){
			.whole = fsdp_load_copy_name(
				loading, adapter->checkpoint, tensor.raw_name),
			.shape = tensor.shape,
			.dims = tensor.dims,
			.numel = tensor.numel,
		};
		read_part(loading, adapter, part);
	}
	return adapter;
}

/* The next of them; *part is NULL at first. */
static bool next_part(const struct adapter *adapter, const struct adapter_part **part)
{
	*part = *part == NULL ? adapter->parts : *part + 1;
	return *part < adapter->parts + adapter->count;
}

/* Whether a module of the base has this member, under the adapter's name. */
static bool is_stored(const struct adapter *adapter, struct fsdp_span module,
	const struct adapter_member *member, struct fsdp_span name)
{
	const char *const tails[] = { member->tail, member->live_tail };
	char text[NAME_BYTES];

	for (size_t i = 0; i < FSDP_COUNT(tails) && tails[i] != NULL; i++) {
		int size = snprintf(text, sizeof text, PREFIX "%.*s.%s%.*s%s",
			FSDP_TEXT(module), member->name, FSDP_TEXT(name), tails[i]);
		if (size > 0 && (size_t)size < sizeof text &&
			fsdp_tensor_find(adapter->checkpoint,
				fsdp_span(text, (size_t)size)) != FSDP_NONE)
			return true;
	}
	return false;
}

/* Whether the module of the part has another member, too, by its number. */
static bool has_member(
	const struct adapter *adapter, const struct adapter_part *part, uint8_t number)
{
	const struct adapter_member *member = &adapter->form->members[number];

	return is_stored(adapter, part->module, member, part->adapter) ||
	       (part->adapter.size == 0 &&
		       is_stored(adapter, part->module, member, FSDP_SPAN(".default"))) ||
	       (fsdp_span_is(part->adapter, ".default") &&
		       is_stored(adapter, part->module, member, FSDP_SPAN("")));
}

/* Whether any tensor is stored for a module of the base. */
static bool has_module(const struct adapter *adapter, struct fsdp_span module)
{
	for (size_t i = 0; i < MEMBERS; i++) {
		const struct adapter_member *member = &adapter->form->members[i];
		if (member->name != NULL &&
			(is_stored(adapter, module, member, FSDP_SPAN("")) ||
				is_stored(
					adapter, module, member, FSDP_SPAN(".default"))))
			return true;
	}
	return false;
}

/* Word 0: a member as the live model calls it, without what wraps the model. */
static void write_live_name(struct fsdp_loading *loading, struct fsdp_span module,
	const struct adapter_member *member)
{
	const unsigned char *at =
		memmem(module.data, module.size, PREFIX, sizeof PREFIX - 1);
	size_t before = at != NULL ? (size_t)(at - module.data) + sizeof PREFIX - 1 : 0;

	module = fsdp_span(module.data + before, module.size - before);
	fsdp_load_say(loading, 0, PREFIX "%.*s.%s.default%s", FSDP_TEXT_MOST(module, 512),
		member->name,
		member->live_tail != NULL ? member->live_tail : member->tail);
}

static void write_numbers(struct fsdp_loading *loading, int64_t stored, int64_t other)
{
	fsdp_load_say(loading, 1, "%" PRId64, stored);
	fsdp_load_say(loading, 2, "%" PRId64, other);
}

/* -1: it has fewer dimensions. */
static int64_t size_at(const struct adapter_part *part, uint32_t dim)
{
	return dim < part->dims ? part->shape[dim] : -1;
}

/* ---- the configuration against itself ---- */

/* A type that this release does not have. */
static bool is_unknown_type(struct fsdp_loading *loading)
{
	static const char types[] =
		" PROMPT_TUNING MULTITASK_PROMPT_TUNING P_TUNING PREFIX_TUNING LORA ADALORA ADAMSS BOFT "
		"ADAPTION_PROMPT IA3 BEFT LILY LOHA LOKR OFT POLY LN_TUNING VERA FROD PVERA FOURIERFT GLORA XLORA "
		"HRA VBLORA UNILORA CPT MISS RANDLORA ROAD TRAINABLE_TOKENS HIRA SHIRA C3A WAVEFT OSF DELORA "
		"GRALORA CARTRIDGE TINYLORA PSOFT PEANUT SHADOW SUPERTUNING DEFT ";
	struct fsdp_span type = fsdp_load_text(loading, CONFIG_FILE, "peft_type");
	char word[64];

	snprintf(word, sizeof word, " %.*s ", FSDP_TEXT_MOST(type, 60));
	fsdp_load_set_word(loading, 0, type);
	return strstr(types, word) == NULL;
}

/* What changes names or sizes in a way that is not known here. */
static bool is_variant(struct fsdp_loading *loading)
{
	static const char *const keys[] = { "use_bdlora", "use_qalora", "kasa_config",
		"monteclora_config", "arrow_config", "velora_config" };

	for (size_t i = 0; i < FSDP_COUNT(keys); i++)
		if (is_set(loading, keys[i])) {
			fsdp_load_say(loading, 0, "%s", keys[i]);
			return true;
		}
	return false;
}

static bool is_too_long(struct fsdp_loading *loading)
{
	static const char *const keys[] = { "target_modules", "exclude_modules",
		"modules_to_save", "feedforward_modules", "target_parameters",
		"rank_pattern", "layers_to_transform" };

	for (size_t i = 0; i < FSDP_COUNT(keys); i++) {
		struct fsdp_token value = setting(loading, keys[i]);
		if ((value.kind == FSDP_TOKEN_LIST || value.kind == FSDP_TOKEN_DICT) &&
			value.count > ITEMS_MOST) {
			fsdp_load_say(loading, 0, "%s", keys[i]);
			return true;
		}
	}
	return false;
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
	if (*is_full)
		*list = '\0';
	else
		snprintf(list + size, FSDP_LOAD_WORD / 2 - size, "%s%s",
			size != 0 ? ", " : "", item);
}

/* Word 0: the targets; 3: what helps, if the modules with tensors are few. */
static bool write_targets(struct fsdp_loading *loading)
{
	const struct adapter *adapter = read_adapter(loading);
	const struct adapter_words *targets = &adapter->lists[TARGETS];
	char list[FSDP_LOAD_WORD / 2] = "";
	bool is_full = false;

	for (size_t i = 0; i < targets->count; i++)
		add_word(list, targets->items[i], &is_full);
	fsdp_load_say(loading, 0, "%s", is_full ? "..." : list);
	*list = '\0';
	is_full = false;
	for (const struct adapter_part *part = NULL; next_part(adapter, &part);)
		if (part->is_live)
			add_word(list, fsdp_span_last(part->module, '.'), &is_full);
	fsdp_load_say(loading, 3, "%s", "");
	if (*list != '\0')
		fsdp_load_say(loading, 3,
			"set target_modules to [%s] in adapter_config.json", list);
	return adapter->count > 0;
}

/* All targets are named as excluded, too. */
static bool is_all_excluded(struct fsdp_loading *loading)
{
	const struct adapter *adapter = read_adapter(loading);
	const struct adapter_words *targets = &adapter->lists[TARGETS];

	for (size_t i = 0; i < targets->count; i++)
		if (!has_word(&adapter->lists[EXCLUDED], targets->items[i]))
			return false;
	return targets->count > 0;
}

/* A module of the base, if that is known, is a target. */
static bool base_has_target(struct fsdp_loading *loading)
{
	const struct fsdp_loads_options *options = loading->options;

	for (size_t i = 0; i < options->expected_count; i++)
		if (is_named(loading, read_adapter(loading),
			    parent(options->expected[i].name)))
			return true;
	return false;
}

/* None of the targets is a module that was adapted: the base has none of them. */
static bool has_no_target(struct fsdp_loading *loading)
{
	const struct adapter *adapter = read_adapter(loading);
	size_t count = 0;

	if (base_has_target(loading))
		return false;
	for (const struct adapter_part *part = NULL; next_part(adapter, &part);) {
		if (part->member == NULL)
			continue;
		if (is_named(loading, adapter, part->module))
			return false;
		count++;
	}
	return count > 0 && adapter->lists[TARGETS].count > 0 && write_targets(loading);
}

static bool base_lacks_targets(struct fsdp_loading *loading)
{
	(void)write_targets(loading);
	return is_list(loading, "target_modules") && !base_has_target(loading) &&
	       read_adapter(loading)->lists[TARGETS].count > 0;
}

/* OFT: the one is what the other leaves over. */
static bool has_two_block_sizes(struct fsdp_loading *loading)
{
	int64_t r = integer(loading, "r", 0);
	int64_t size = integer(loading, "oft_block_size", 32);

	fsdp_load_say(loading, 0, "%" PRId64, r);
	fsdp_load_say(loading, 1, "%" PRId64, size);
	return r != 0 && size != 0;
}

/* IA3: what is scaled at its inputs is adapted. */
static bool has_stray_inputs(struct fsdp_loading *loading)
{
	const struct adapter *adapter = read_adapter(loading);
	const struct adapter_words *inputs = &adapter->lists[INPUTS],
				   *targets = &adapter->lists[TARGETS];

	for (size_t i = 0; is_list(loading, "target_modules") && i < inputs->count; i++) {
		size_t k = 0;
		while (k < targets->count &&
			!fsdp_span_equal(inputs->items[i], targets->items[k]))
			k++;
		if (k == targets->count)
			return true;
	}
	return false;
}

/* ---- prompts ---- */

/* The prompts; false: they are missing, or it is another adapter. */
static bool find_prompts(struct fsdp_loading *loading, struct fsdp_tensor *ret_tensor)
{
	const struct adapter *adapter = read_adapter(loading);
	uint32_t found = FSDP_NONE;

	if (adapter->form->is_prompt && adapter->checkpoint != NULL)
		found = fsdp_tensor_find(
			adapter->checkpoint, FSDP_SPAN("prompt_embeddings"));
	if (found != FSDP_NONE)
		*ret_tensor = fsdp_tensor(adapter->checkpoint, found);
	return found != FSDP_NONE;
}

static bool lacks_prompts(struct fsdp_loading *loading)
{
	const struct adapter *adapter = read_adapter(loading);
	struct fsdp_tensor tensor;

	return adapter->form->is_prompt && adapter->checkpoint != NULL &&
	       !find_prompts(loading, &tensor);
}

/* Word 2: what helps. */
static bool lacks_token_count(struct fsdp_loading *loading)
{
	struct fsdp_tensor tensor;

	if (!find_prompts(loading, &tensor) ||
		integer(loading, "num_virtual_tokens", 0) > 0)
		return false;
	fsdp_load_say(loading, 2, "%s", "");
	if (tensor.dims == 2)
		fsdp_load_say(loading, 2, "set it to %lld in adapter_config.json",
			(long long)tensor.shape[0]);
	return true;
}

static bool has_other_prompts(struct fsdp_loading *loading)
{
	int64_t tokens = integer(loading, "num_virtual_tokens", -1), parts = 1;
	struct fsdp_tensor tensor;

	if (!find_prompts(loading, &tensor))
		return false;
	if (strcmp(read_adapter(loading)->form->type, "PREFIX_TUNING") != 0)
		parts = integer(loading, "num_transformer_submodules", 1);
	write_numbers(loading, tensor.dims > 0 ? tensor.shape[0] : 0, tokens);
	return tokens > 0 && parts > 0 &&
	       (tensor.dims != 2 || tensor.shape[0] % tokens != 0 ||
		       tensor.shape[0] / tokens != parts);
}

/* ---- tensors against the configuration ---- */

/* ZeRO-3 leaves a parameter without any size. */
static bool is_empty_piece(struct fsdp_loading *loading)
{
	const struct adapter *adapter = read_adapter(loading);

	for (const struct adapter_part *part = NULL; next_part(adapter, &part);) {
		if (adapter->form->is_prompt || part->numel != 0 || part->dims != 1)
			continue;
		fsdp_load_set_word(loading, 0, part->whole);
		return true;
	}
	return false;
}

/* The only text that a pattern matches: "\." is a dot, and "." is read as one, as people write it. False: it has
 * other metacharacters. */
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
	char text[LITERAL];
	size_t size;
	bool is_whole;

	*ret_rank = integer(loading, adapter->form->rank, adapter->form->rank_default);
	for (uint32_t at = list.at; at < list.end; at = list.settings[at].end) {
		struct fsdp_setting item = list.settings[at];
		if (!read_literal(item.key, text, &size, &is_whole))
			return false;
		if (is_whole ? !fsdp_span_equal(module, fsdp_span(text, size))
			     : !ends_so(module, fsdp_span(text, size)))
			continue;
		*ret_rank =
			item.value.kind == FSDP_TOKEN_INTEGER ? item.value.integer : 0;
		return true;
	}
	return true;
}

/* A convolution in groups has its rank cut among them in the second matrix. */
static bool is_of_rank(const struct adapter_part *part, int64_t rank, int64_t *ret_stored)
{
	int64_t share = size_at(part, 1);

	*ret_stored = part->dims > part->member->at
			      ? size_at(part, part->member->rank_dim - 1)
			      : -1;
	return *ret_stored == rank || (part->dims > 2 && part->member->size == OUT &&
					      share > 0 && rank % share == 0);
}

/* A tensor of a target that has a rank. */
static bool is_ranked(const struct adapter *adapter, const struct adapter_part *part)
{
	return part->is_target && adapter->form->rank != NULL &&
	       part->member->rank_dim != 0;
}

/* What belongs to a tensor and is not stored; NULL: nothing. */
static const struct adapter_member *find_lacking(struct fsdp_loading *loading,
	const struct adapter *adapter, const struct adapter_part *part)
{
	const struct adapter_member *member = part->member;

	if (member->needs != 0 && !has_member(adapter, part, member->needs))
		return &adapter->form->members[member->needs];
	if (member->also_needs != 0 && is_set(loading, member->flag) &&
		!has_member(adapter, part, member->also_needs))
		return &adapter->form->members[member->also_needs];
	return NULL;
}

/* Whether both matrices of all modules have this rank, and none could be transposed or the
 * piece of one process: only then the configuration is what is wrong. */
static bool is_rank_of_all(struct fsdp_loading *loading, int64_t rank, int64_t configured)
{
	const struct adapter *adapter = read_adapter(loading);

	for (const struct adapter_part *part = NULL; next_part(adapter, &part);) {
		if (!is_ranked(adapter, part))
			continue;
		uint32_t rank_at = part->member->rank_dim - 1;
		if (part->dims != 2 || part->shape[rank_at] != rank ||
			part->shape[1 - rank_at] == configured ||
			find_lacking(loading, adapter, part) != NULL)
			return false;
	}
	return rank > 0 && !is_set(loading, "rank_pattern") &&
	       !is_set(loading, "enable_lora");
}

enum adapter_fault { NO_MATRIX, OTHER_RANK, UNKNOWN_RANK };

/* Of a tensor with too few dimensions it is not a rank that is wrong. Parameters that are not
 * weights of their modules have a rank for each of their parts. */
static bool find_rank_fault(struct fsdp_loading *loading, enum adapter_fault wanted)
{
	const struct adapter *adapter = read_adapter(loading);

	for (const struct adapter_part *part = NULL; next_part(adapter, &part);) {
		int64_t rank, stored = 0;
		bool is_known;

		if (!is_ranked(adapter, part))
			continue;
		is_known = find_rank(loading, adapter, part->module, &rank);
		if ((is_known && is_of_rank(part, rank, &stored)) ||
			(wanted != UNKNOWN_RANK &&
				(!is_known || (stored < 0) != (wanted == NO_MATRIX) ||
					is_set(loading, "target_parameters"))))
			continue;
		fsdp_load_set_word(loading, 0, part->whole);
		write_numbers(loading, stored < 0 ? part->dims : stored, rank);
		fsdp_load_say(loading, 4, "%s", "");
		if (wanted != UNKNOWN_RANK && is_rank_of_all(loading, stored, rank))
			fsdp_load_say(loading, 4, "set %s to %lld in adapter_config.json",
				adapter->form->rank, (long long)stored);
		return true;
	}
	return false;
}

static bool is_no_matrix(struct fsdp_loading *loading)
{
	return find_rank_fault(loading, NO_MATRIX);
}

static bool is_other_rank(struct fsdp_loading *loading)
{
	return find_rank_fault(loading, OTHER_RANK);
}

static bool has_unknown_rank(struct fsdp_loading *loading)
{
	return find_rank_fault(loading, UNKNOWN_RANK);
}

static bool has_no_tensors(struct fsdp_loading *loading)
{
	const struct adapter *adapter = read_adapter(loading);
	bool has_some = false;

	for (const struct adapter_part *part = NULL; next_part(adapter, &part);)
		has_some |= adapter->form->is_prompt || part->member != NULL ||
			    fsdp_span_has_any(part->whole, "lora_ ia3_ oft_ boft_");
	return adapter->checkpoint != NULL && (!has_some || fsdp_load_is_nested(loading));
}

static bool has_other_names(struct fsdp_loading *loading)
{
	for (const struct adapter_part *part = NULL;
		next_part(read_adapter(loading), &part);) {
		if (part->member == NULL || part->is_live)
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
	size_t count = 0;

	for (const struct adapter_part *part = NULL;
		next_part(read_adapter(loading), &part);) {
		if (part->is_target)
			return false;
		count += part->is_live;
	}
	return count > 0 && loading->options->expected == NULL;
}

static bool lacks_half(struct fsdp_loading *loading)
{
	const struct adapter *adapter = read_adapter(loading);

	for (const struct adapter_part *part = NULL; next_part(adapter, &part);) {
		const struct adapter_member *lacking =
			part->is_live ? find_lacking(loading, adapter, part) : NULL;
		if (lacking == NULL)
			continue;
		write_live_name(loading, part->module, lacking);
		return true;
	}
	return false;
}

/* ---- whole modules and tokens, which are asked for by name ---- */

/* Whether a module that holds the tensor has a name that ends with the word, not only with
 * its last segments: so the library chooses them. */
static bool is_held_by(struct fsdp_span name, struct fsdp_span word)
{
	for (name = parent(name); name.size != 0; name = parent(name))
		if (word.size != 0 && fsdp_span_ends(name, word))
			return true;
	return false;
}

/* Whether a tensor of such a module is stored, and under a name that is not looked for: word 0. */
static bool is_stored_whole(
	struct fsdp_loading *loading, struct fsdp_span word, bool *ret_is_lost)
{
	*ret_is_lost = false;
	for (const struct adapter_part *part = NULL;
		next_part(read_adapter(loading), &part);) {
		if (!is_held_by(part->rest, word))
			continue;
		if (part->has_prefix)
			return true;
		*ret_is_lost = true;
		fsdp_load_set_word(loading, 0, part->rest);
	}
	return false;
}

static bool lacks_whole(struct fsdp_loading *loading, bool want_lost)
{
	const struct adapter_words *whole = &read_adapter(loading)->lists[WHOLE];
	bool is_lost, unused;

	for (size_t i = 0; i < whole->count; i++) {
		/* Heads of classifiers: the library lists two names; a model has one of them. */
		const char *other = fsdp_span_is(whole->items[i], "score") ? "classifier"
				    : fsdp_span_is(whole->items[i], "classifier")
					    ? "score"
					    : "";
		if (is_stored_whole(loading, whole->items[i], &is_lost) ||
			is_stored_whole(loading, fsdp_span_text(other), &unused) ||
			is_lost != want_lost)
			continue;
		if (!is_lost)
			fsdp_load_set_word(loading, 0, whole->items[i]);
		return true;
	}
	return false;
}

static bool has_lost_module(struct fsdp_loading *loading)
{
	return lacks_whole(loading, true);
}

/* Without the base, which may have no such module. */
static bool lacks_module(struct fsdp_loading *loading)
{
	return lacks_whole(loading, false);
}

/* With a segment that PEFT takes out of names when it saves, and puts into them again. */
static bool has_unstripped_module(struct fsdp_loading *loading)
{
	static const char *const segments[] = { "default", "modules_to_save" };
	const struct adapter *adapter = read_adapter(loading);
	const struct adapter_words *whole = &adapter->lists[WHOLE];
	char text[NAME_BYTES];

	for (size_t i = 0; i < whole->count; i++)
		for (size_t k = 0; k < FSDP_COUNT(segments); k++) {
			int size = snprintf(text, sizeof text, ".%.*s.%s.",
				FSDP_TEXT(whole->items[i]), segments[k]);
			for (const struct adapter_part *part = NULL;
				next_part(adapter, &part);) {
				if ((size_t)size >= sizeof text ||
					memmem(part->whole.data, part->whole.size, text,
						(size_t)size) == NULL)
					continue;
				fsdp_load_set_word(loading, 0, whole->items[i]);
				fsdp_load_say(loading, 1, "%s", segments[k]);
				return true;
			}
		}
	return false;
}

/* LoRA with some tokens that are trained whole: how many are stored; -1: none. */
static int64_t count_tokens(const struct adapter *adapter)
{
	for (const struct adapter_part *part = NULL; next_part(adapter, &part);) {
		if (part->has_prefix &&
			fsdp_span_ends(part->rest,
				FSDP_SPAN(".token_adapter.trainable_tokens_delta")))
			return part->dims > 0 ? part->shape[0] : 0;
	}
	return -1;
}

/* Word 4: what helps. */
static bool lacks_tokens(struct fsdp_loading *loading)
{
	const struct adapter *adapter = read_adapter(loading);

	fsdp_load_say(loading, 4, "%s", "");
	for (const struct adapter_part *part = NULL; next_part(adapter, &part);) {
		if (part->is_live)
			fsdp_load_say(loading, 4,
				"set trainable_token_indices to null; the tokens are then the base's");
	}
	return adapter->checkpoint != NULL &&
	       is_set(loading, "trainable_token_indices") && count_tokens(adapter) < 0;
}

static bool has_other_tokens(struct fsdp_loading *loading)
{
	struct fsdp_token listed = setting(loading, "trainable_token_indices");
	int64_t count = count_tokens(read_adapter(loading));

	if (listed.kind != FSDP_TOKEN_LIST || count < 0 ||
		(uint64_t)count == listed.count)
		return false;
	write_numbers(loading, count, (int64_t)listed.count);
	return true;
}

/* ---- the base model, if its names are known ---- */

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

/* A module that is adapted is not in the base. */
static bool is_other_base(struct fsdp_loading *loading)
{
	for (const struct adapter_part *part = NULL;
		next_part(read_adapter(loading), &part);) {
		if (!part->is_target || find_base(loading, part->module) != NULL)
			continue;
		fsdp_load_set_word(loading, 0, part->whole);
		return loading->options->expected != NULL;
	}
	return false;
}

/* Words: a tensor of a layer that the base, which has others of them, lacks; the layers of the base. */
static bool has_more_layers(struct fsdp_loading *loading)
{
	const struct fsdp_loads_options *options = loading->options;
	int64_t last = -1;

	for (size_t i = 0; i < options->expected_count; i++)
		if (layer_of(options->expected[i].name) > last)
			last = layer_of(options->expected[i].name);
	for (const struct adapter_part *part = NULL;
		next_part(read_adapter(loading), &part);) {
		if (last < 0 || !part->is_target || layer_of(part->module) <= last)
			continue;
		if (loading->all_names == 0)
			fsdp_load_set_word(loading, 0, part->whole);
		fsdp_load_name(loading, part->whole);
	}
	fsdp_load_say(loading, 1, "%" PRId64, last + 1);
	return loading->all_names > 0;
}

/* A tensor of the base that the adapter has to have, too. Word 4: what helps, if the names are
 * those of the base. */
static bool lacks_module_of_base(struct fsdp_loading *loading)
{
	const struct fsdp_loads_options *options = loading->options;
	const struct adapter *adapter = read_adapter(loading);
	const struct adapter_words *whole = &adapter->lists[WHOLE];

	fsdp_load_say(loading, 4, "%s",
		is_other_base(loading)
			? ""
			: "take the module out of modules_to_save; it is then the base's");
	for (size_t k = 0; adapter->checkpoint != NULL && k < whole->count; k++)
		for (size_t i = 0; i < options->expected_count; i++) {
			struct fsdp_span name = options->expected[i].name;
			char text[NAME_BYTES];
			int size = snprintf(
				text, sizeof text, PREFIX "%.*s", FSDP_TEXT(name));
			if (!is_held_by(name, whole->items[k]) ||
				(size_t)size >= sizeof text ||
				fsdp_tensor_find(adapter->checkpoint,
					fsdp_span(text, (size_t)size)) != FSDP_NONE)
				continue;
			fsdp_load_say(loading, 0, "%.512s", text);
			return true;
		}
	return false;
}

/* The name in the base of a tensor that is stored whole; in `text` if that has a segment less. */
static struct fsdp_span base_name(struct fsdp_span name, char text[NAME_BYTES])
{
	static const char layer[] = ".base_layer.";
	const unsigned char *at = memmem(name.data, name.size, layer, sizeof layer - 1);
	size_t before = at != NULL ? (size_t)(at - name.data) + 1 : 0;
	size_t cut = sizeof layer - 2;

	if (at == NULL)
		return name;
	memcpy(text, name.data, before);
	memcpy(text + before, name.data + before + cut, name.size - before - cut);
	return fsdp_span(text, name.size - cut);
}

/* A tensor whose shape is not that of the base's of the same name: one of a whole module, a
 * bias that is trained, an embedding that is saved with its adapter. Word 1: what helps. Tokens
 * were added before the adapter was trained, if an embedding or a head has more rows. */
static bool has_other_module(struct fsdp_loading *loading)
{
	static const char *const ends[] = { "embed_tokens.weight", "lm_head.weight",
		"wte.weight", "embed_in.weight", "word_embeddings.weight" };
	char text[NAME_BYTES];

	for (const struct adapter_part *part = NULL;
		next_part(read_adapter(loading), &part);) {
		struct fsdp_span name = base_name(part->rest, text);
		const struct fsdp_load_tensor *base =
			part->has_prefix ? fsdp_load_find_expected(loading, name) : NULL;
		if (base == NULL || base->shape == NULL ||
			(base->dims == part->dims &&
				(base->dims == 0 ||
					memcmp(base->shape, part->shape,
						base->dims * sizeof *base->shape) == 0)))
			continue;
		fsdp_load_say(loading, 0, PREFIX "%.*s", FSDP_TEXT_MOST(name, 512));
		fsdp_load_say(loading, 1, "%s", "");
		for (size_t i = 0; i < FSDP_COUNT(ends); i++)
			if (fsdp_span_ends(name, fsdp_span_text(ends[i])) &&
				part->dims == 2 && base->dims == 2 &&
				part->shape[1] == base->shape[1] &&
				part->shape[0] > base->shape[0])
				fsdp_load_say(loading, 1,
					"call resize_token_embeddings(%lld) on the base before the adapter is loaded",
					(long long)part->shape[0]);
		return true;
	}
	return false;
}

/* IA3 scales what goes into some modules, and what comes out of the others. */
static bool scales_inputs(const struct adapter *adapter, struct fsdp_span module)
{
	return has_word(&adapter->lists[INPUTS], module);
}

/* A vector of IA3 is a row if it scales inputs, and a column if it scales outputs. */
static bool is_turned_vector(struct fsdp_loading *loading)
{
	const struct adapter *adapter = read_adapter(loading);

	for (const struct adapter_part *part = NULL; next_part(adapter, &part);) {
		bool is_row = scales_inputs(adapter, part->module);
		if (!part->is_target || part->member->size != SIDE || part->dims > 2 ||
			(part->dims == 2 && part->shape[!is_row] == 1))
			continue;
		fsdp_load_set_word(loading, 0, part->whole);
		fsdp_load_say(loading, 1, "%s", is_row ? "1, N" : "N, 1");
		return true;
	}
	return false;
}

/* What the size of a member has to be; false: that is not known. */
static bool find_wanted(struct fsdp_loading *loading, const struct adapter *adapter,
	const struct adapter_part *part, const struct fsdp_load_tensor *base,
	uint64_t *ret_size)
{
	enum size size = part->member->size;
	bool is_turned = base->dims == 2 && is_set(loading, "fan_in_fan_out");

	if (part->member->unsized_by != 0 &&
		has_member(adapter, part, part->member->unsized_by))
		return false;
	if (size == SIDE)
		size = scales_inputs(adapter, part->module) ? IN : OUT;
	if (size == ANY || base->dims < 2)
		return false;
	/* A Conv1D has its inputs first. */
	*ret_size = (uint64_t)base->shape[size == ROWS      ? 0
					  : size == COLUMNS ? 1
							    : (size == IN) != is_turned];
	return true;
}

/* The stored member; false: its shape does not allow one. */
static bool find_stored(
	struct fsdp_loading *loading, const struct adapter_part *part, uint64_t *ret_size)
{
	const struct adapter_member *member = part->member;
	int64_t times = 1;

	if (member->size == SIDE)
		return fsdp_numel(part->shape, part->dims, ret_size);
	if (member->times != NULL)
		times = integer(loading, member->times, 0);
	if (member->times_at != 0)
		times = size_at(part, member->times_at);
	return size_at(part, member->at) >= 0 && times > 0 &&
	       fsdp_mul((uint64_t)size_at(part, member->at), (uint64_t)times, ret_size);
}

#define TRAINED_ON "load it into the base that it was trained on"

/* Word 4: what helps, if nothing of the adapter fits; else some of its tensors are wrong. */
static bool has_other_sizes(struct fsdp_loading *loading)
{
	const struct adapter *adapter = read_adapter(loading);
	bool found = false, fits_some = false;
	uint64_t wanted;

	for (const struct adapter_part *part = NULL; next_part(adapter, &part);) {
		const struct fsdp_load_tensor *base =
			part->is_target ? find_base(loading, part->module) : NULL;
		uint64_t stored = 0;
		if (base == NULL || base->shape == NULL ||
			!find_wanted(loading, adapter, part, base, &wanted))
			continue;
		/* The inputs of a convolution are those of a group, and often times its extent. */
		bool may_be_more =
			base->dims > 2 && part->member->size == IN && wanted != 0;
		if (find_stored(loading, part, &stored) &&
			(may_be_more ? stored % wanted == 0 : stored == wanted)) {
			fits_some = true;
		} else if (!found) {
			found = true;
			fsdp_load_set_word(loading, 0, part->whole);
			write_numbers(loading, (int64_t)stored, (int64_t)wanted);
		}
	}
	fsdp_load_say(loading, 4, "%s", fits_some ? "" : TRAINED_ON);
	return found;
}

/* Targets of the base without stored tensors; `by_pattern`: targets that only a pattern decides. */
static bool lacks_targets(struct fsdp_loading *loading, bool by_pattern)
{
	const struct fsdp_loads_options *options = loading->options;
	const struct adapter *adapter = read_adapter(loading);
	bool is_unknown;

	if (adapter->checkpoint == NULL || adapter->form->is_prompt)
		return false;
	for (size_t i = 0; i < options->expected_count; i++) {
		const struct fsdp_load_expected *wanted = &options->expected[i];
		const struct adapter_member *member = &adapter->form->members[1];
		struct fsdp_span module = parent(wanted->name);
		/* LoRA of single parameters: they are listed by their own names. */
		if (!fsdp_span_ends(wanted->name, FSDP_SPAN(".weight")) ||
			(wanted->shape != NULL && wanted->dims < 2) ||
			module.size > NAME_BYTES / 2 ||
			(!is_target(loading, adapter, module, &is_unknown) &&
				!has_word(&adapter->lists[PARAMETERS], wanted->name)) ||
			is_unknown != by_pattern || has_module(adapter, module))
			continue;
		fsdp_load_name(loading, wanted->name);
		if (loading->all_names > 1)
			continue;
		/* Members of an embedding have other names; a module is likely to be one by its
		 * usual names. */
		for (size_t k = 0; k < MEMBERS; k++)
			if (adapter->form->members[k].size == ROWS &&
				fsdp_span_find(fsdp_span_last(module, '.'),
					FSDP_SPAN("emb")) != NULL)
				member = &adapter->form->members[k];
		write_live_name(loading, module, member);
	}
	return loading->all_names > 0;
}

/* Word 4: what helps. Either the base has more layers than the one that was trained on, or the
 * adapter lost its last ones. */
static bool lacks_target(struct fsdp_loading *loading)
{
	bool is_deeper = !is_other_base(loading);
	int64_t last = -1;

	for (const struct adapter_part *part = NULL;
		next_part(read_adapter(loading), &part);) {
		if (part->is_live && layer_of(part->module) > last)
			last = layer_of(part->module);
	}
	if (!lacks_targets(loading, false))
		return false;
	for (size_t i = 0; i < loading->name_count; i++)
		is_deeper &= layer_of(loading->names[i]) > last;
	fsdp_load_say(loading, 4, "%s",
		is_deeper && last >= 0 ? TRAINED_ON
			", if that has fewer layers; else copy the adapter again"
				       : "");
	return true;
}

static bool may_lack_target(struct fsdp_loading *loading)
{
	return lacks_targets(loading, true);
}

/* A bias that was trained with the adapter stays as the base has it. It is stored below its
 * module if that is adapted. */
static bool lacks_bias(struct fsdp_loading *loading)
{
	const struct fsdp_loads_options *options = loading->options;
	const struct adapter *adapter = read_adapter(loading);
	struct fsdp_span wanted = fsdp_load_text(loading, CONFIG_FILE, "bias");
	bool is_all = fsdp_span_is(wanted, "all");
	char text[NAME_BYTES];

	if ((!is_all && !fsdp_span_ends(wanted, FSDP_SPAN("_only"))) ||
		adapter->checkpoint == NULL || adapter->form->is_prompt)
		return false;
	for (size_t i = 0; i < options->expected_count; i++) {
		struct fsdp_span name = options->expected[i].name, module = parent(name);
		if (!fsdp_span_ends(name, FSDP_SPAN(".bias")))
			continue;
		bool is_adapted = has_module(adapter, module);
		int size = snprintf(text, sizeof text, PREFIX "%.*s%s.bias",
			FSDP_TEXT(module), is_adapted ? ".base_layer" : "");
		if ((!is_all && !is_adapted) ||
			((size_t)size < sizeof text &&
				fsdp_tensor_find(adapter->checkpoint,
					fsdp_span(text, (size_t)size)) != FSDP_NONE))
			continue;
		fsdp_load_set_word(loading, 0, name);
		fsdp_load_name(loading, name);
	}
	return loading->all_names > 0;
}

/* The base is on the hub, or cannot be read. Prompts are built from what the configuration has
 * alone. */
static bool has_no_base(struct fsdp_loading *loading)
{
	struct fsdp_span base =
		fsdp_load_text(loading, CONFIG_FILE, "base_model_name_or_path");

	fsdp_load_set_word(loading, 0, base);
	return base.size != 0 && !read_adapter(loading)->form->is_prompt;
}

/* What is stored and the configuration does not ask for. Word 4: what helps. */
static bool ignores_some(struct fsdp_loading *loading)
{
	const struct adapter *adapter = read_adapter(loading);
	bool lacks_others = lacks_target(loading);

	loading->name_count = 0;
	loading->all_names = 0;
	for (const struct adapter_part *part = NULL; next_part(adapter, &part);) {
		bool is_plain = part->is_live &&
				strstr(part->member->name, "magnitude") &&
				!is_set(loading, "use_dora");
		if (!part->is_live || (!is_plain && part->is_target))
			continue;
		fsdp_load_name(loading, part->whole);
		if (loading->all_names > 1)
			continue;
		fsdp_load_set_word(loading, 0, part->whole);
		fsdp_load_say(loading, 4, "%s", "");
		if (!lacks_others && !is_named(loading, adapter, part->module))
			fsdp_load_say(loading, 4,
				"add %.*s to target_modules in adapter_config.json",
				FSDP_TEXT_MOST(fsdp_span_last(part->module, '.'), 256));
		else if (!lacks_others && is_plain)
			fsdp_load_say(loading, 4,
				"set use_dora to true in adapter_config.json");
	}
	fsdp_load_say(loading, 1, "%" PRIu64, loading->all_names);
	return loading->all_names > 0 && !uses_nothing(loading);
}

/* ---- rules ---- */

static void begin(struct fsdp_loading *loading)
{
	struct fsdp_span type = fsdp_load_text(loading, CONFIG_FILE, "peft_type");
	struct fsdp_survey_document config;

	loading->lists_weights = true;
	/* Nothing is compared with a model: only what is stored is listed. */
	loading->was_compared = true;
	loading->knows_stored = loading->weights != NULL &&
				fsdp_load_open(loading, loading->weights) != NULL;
	loading->failed |= !fsdp_survey_document(loading->survey, CONFIG_FILE, &config);
	loading->is |=
		(config.is_valid ? 0 : NO_JSON) | (type.data == NULL ? NO_TYPE : 0);
	for (size_t i = 0; i < FSDP_COUNT(forms); i++)
		if (fsdp_span_is(type, forms[i].type))
			loading->is |= 1u << i;
	if (setting(loading, "target_modules").kind == FSDP_TOKEN_NONE)
		loading->is |= UNSET;
	else if (!is_set(loading, "target_modules") &&
		 !is_set(loading, "target_parameters"))
		loading->is |= EMPTY;
}

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
	FSDP_REFUSES(NO_STATE_DICT, fsdp_load_has_odd_key, NULL, SAVE_DICT),
	FSDP_NOT_JUDGED(UNREAD, fsdp_load_cannot_open),
	FSDP_REFUSES(ADAPTER_TYPE, is_unknown_type,
		"{0} is not a type of adapter that PEFT has", FSDP_NO_FIX),
	FSDP_NOT_JUDGED(ADAPTER_TYPE, .unless = FORMS, .ends = true,
		.message = "adapters of type {0} are not supported"),
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
	FSDP_REFUSES(ADAPTER_MODULES, has_lost_module,
		"{0} (modules_to_save) has no name that starts with " PREFIX),
	FSDP_REFUSES(ADAPTER_MODULES, has_unstripped_module,
		"tensors of {0} (modules_to_save) have the segment {1} in their names, which PEFT adds when it loads",
		"rename them: without the segment {1}"),
	FSDP_REFUSES(ADAPTER_MODULES, lacks_module_of_base,
		"{0} (modules_to_save in adapter_config.json) is missing", "{4}"),
	FSDP_REFUSES(MISSING_TENSOR, lacks_tokens,
		"the tensor of trainable_token_indices is missing", "{4}", .when = LORA),
	FSDP_REFUSES(MISSING_TENSOR, lacks_prompts, "prompt_embeddings is missing",
		"name the tensor prompt_embeddings"),
	FSDP_REFUSES(CONFIG, lacks_token_count,
		"adapter_config.json has no num_virtual_tokens", "{2}"),
	FSDP_REFUSES(SHAPE, has_other_prompts,
		"prompt_embeddings has {1} rows for {2} virtual tokens", FSDP_NO_FIX),
	FSDP_REFUSES(SHAPE, is_empty_piece, "{0} is empty (ZeRO-3 placeholder)",
		"save the adapter again with its weights gathered"),
	FSDP_REFUSES(SHAPE, is_turned_vector, "{0} does not have the shape [{1}]",
		FSDP_NO_FIX, .when = IA3),
	FSDP_REFUSES(ADAPTER_RANK, is_no_matrix,
		"{0} has {1} dimensions, too few for a matrix of the adapter"),
	FSDP_REFUSES(ADAPTER_RANK, is_other_rank,
		"{0} has rank {1}, adapter_config.json expects {2}", "{4}"),
	FSDP_REFUSES(SHAPE, has_other_tokens,
		"{1} rows are stored for {2} tokens of trainable_token_indices",
		"list the tokens as they were in trainable_token_indices"),
	FSDP_REFUSES(BASE_MODEL, has_other_sizes,
		"{0} has size {1}, the base expects {2}", "{4}",
		.when = FSDP_LOAD_EXPECTS),
	FSDP_REFUSES(BASE_MODEL, has_other_module, "{0} has another shape in the base",
		"{1}", .when = FSDP_LOAD_EXPECTS),
	FSDP_DIFFERS(MISSING_TENSOR, has_no_tensors,
		"no tensor of the adapter is stored: it has no effect", FSDP_NO_FIX),
	FSDP_DIFFERS(OTHER_NAMES, has_other_names,
		"stored names are not those of the adapter; {0} is missing: it has no effect",
		FSDP_NO_FIX),
	FSDP_DIFFERS(MISSING_TENSOR, lacks_half,
		"{0} is missing: it keeps its start value", FSDP_NO_FIX),
	FSDP_NOT_JUDGED(ADAPTER_MODULES, lacks_module,
		"modules_to_save lists {0}, which is not stored; the base may have it",
		EXPECT_BASE, .unless = FSDP_LOAD_EXPECTS),
	FSDP_NOT_JUDGED(ADAPTER_TARGETS, uses_nothing,
		"no stored tensor is of a module in target_modules; the base may have some",
		EXPECT_BASE),
	FSDP_NOT_JUDGED(ADAPTER_TARGETS, write_targets,
		"adapter_config.json has no target_modules: PEFT chooses them by the type of the base model",
		"{3}", .when = UNSET, .unless = PROMPTS),
	FSDP_NOT_JUDGED(ADAPTER_RANK, has_unknown_rank,
		"the rank of {0} depends on rank_pattern or target_parameters in a way that is not supported"),
	FSDP_COMPARES_SETS(0),
	FSDP_DIFFERS(BASE_MODEL, lacks_target,
		"{0} is missing: it keeps its start value and has no effect", "{4}"),
	FSDP_DIFFERS(BASE_MODEL, lacks_bias,
		"{0} was trained and is missing: it stays as in the base", FSDP_NO_FIX),
	FSDP_DIFFERS(BASE_MODEL, has_more_layers,
		"the base has {1} layers, and {0} is of a later one: it has no effect"),
	FSDP_NOT_JUDGED(BASE_MODEL, may_lack_target,
		"the base may need {0}: regular expressions for modules are not evaluated",
		FSDP_NO_FIX),
	FSDP_NOT_JUDGED(BASE_MODEL, is_other_base,
		"{0} is of a module that --expect does not list; it takes the names of the base",
		FSDP_NO_FIX, .when = FSDP_LOAD_EXPECTS),
	FSDP_NOT_JUDGED(BASE_MODEL, has_no_base,
		"names and shapes were not compared with the base {0}: it is not a directory here, or has other names",
		EXPECT_BASE, .unless = FSDP_LOAD_EXPECTS),
	FSDP_IGNORES(IGNORED, ignores_some,
		"adapter_config.json does not ask for {0}, which has no effect then ({1} such tensors)",
		"{4}"),
	{ 0 },
};

static const char *const versions[] = { "0.21.2", NULL };

static const char *const order[] = { "adapter_model.safetensors", "adapter_model.bin",
	NULL };

const struct fsdp_loader fsdp_loader_peft = {
	.name = "peft",
	.library = "peft",
	.versions = versions,
	.order = order,
	.begin = begin,
	.rules = rules,
};
