/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the configuration of a model of Hugging Face: classes of modules, plans of
 * parallelism, quantization, the base model of an adapter. All of it is copied from the
 * file: values to print, and classes that are marked as inferred.
 *
 *	config.json          {"architectures": ["LlamaForCausalLM"], "model_type": text,
 *	                      "text_config": {…}, "quantization_config": {…},
 *	                      "base_model_tp_plan": {pattern: style}, …}
 *	adapter_config.json  {"peft_type": "LORA", "base_model_name_or_path": text,
 *	                      "r": n, "target_modules": […], …}
 *
 * Origin: transformers/configuration_utils.py (5.23), peft (0.21); files of them.
 */
#include "base/num.h"
#include "formats/format.h"
#include "syntax/json-tree.h"

#include <stdio.h>

/* ---- settings ---- */

/*
 * Keeps a configuration as a list of nodes, so that whatever compares a model with it
 * needs no reader of JSON.
 */

/* The token of a scalar; of a container one of the kind CUT. Its text is a copy. */
static void hf_token(
	struct fsdp_model *model, const struct fsdp_json *json, struct fsdp_token *token)
{
	switch (json->kind) {
	case FSDP_JSON_NULL:
		token->kind = FSDP_TOKEN_NONE;
		return;
	case FSDP_JSON_BOOL:
	case FSDP_JSON_INTEGER:
		token->kind = json->kind == FSDP_JSON_BOOL ? FSDP_TOKEN_BOOL
							   : FSDP_TOKEN_INTEGER;
		token->integer = json->integer;
		return;
	case FSDP_JSON_REAL:
		token->kind = FSDP_TOKEN_FLOAT;
		token->number = json->real;
		return;
	case FSDP_JSON_TEXT:
		token->kind = FSDP_TOKEN_TEXT;
		token->text = fsdp_build_span(model, json->text);
		return;
	case FSDP_JSON_ARRAY:
	case FSDP_JSON_INTEGERS:
	case FSDP_JSON_OBJECT:
		break;
	}
	token->kind = FSDP_TOKEN_CUT;
}

/* A container whose items are being added. */
struct open_node {
	const struct fsdp_json *json;
	uint32_t setting, next;
};

struct keeper {
	struct fsdp_model *model;
	uint32_t file;
	struct fsdp_vec open; /* struct open_node, the innermost last */
	size_t first;         /* setting of this document */
};

static void add_node(struct keeper *keeper, const struct fsdp_json *json)
{
	struct fsdp_model *model = keeper->model;
	uint32_t index;
	struct fsdp_setting *setting = fsdp_build_push(model, &model->settings, &index);
	setting->file = keeper->file;
	setting->end = index + 1;
	if (json->key.data != NULL) {
		setting->key = fsdp_build_span(model, json->key);
	}
	if (json->kind == FSDP_JSON_OBJECT || fsdp_json_is_list(json)) {
		struct open_node *node = fsdp_vec_push(&keeper->open);
		*node = (struct open_node){ json,
			(uint32_t)(keeper->model->settings.count - 1), 0 };
		setting->value = (struct fsdp_token){
			.kind = json->kind == FSDP_JSON_OBJECT ? FSDP_TOKEN_DICT
							       : FSDP_TOKEN_LIST,
			.count = json->count,
		};
		return;
	}
	hf_token(model, json, &setting->value);
}

static void add_item(struct keeper *keeper, struct open_node *node)
{
	const struct fsdp_json *json = node->json;
	uint32_t n = node->next++;
	if (json->kind != FSDP_JSON_INTEGERS) {
		add_node(keeper, &json->items[n]);
		return;
	}
	struct fsdp_json number = (struct fsdp_json){
		.kind = FSDP_JSON_INTEGER,
		.integer = json->integers[n],
	};
	add_node(keeper, &number);
}

static bool is_too_long(const struct keeper *keeper)
{
	return keeper->model->settings.count - keeper->first > FSDP_SETTINGS_MOST;
}

struct keep_call {
	struct fsdp_model *model;
	struct fsdp_arena *scratch;
	const struct fsdp_json *root;
	uint32_t file;
};

static void keep_settings(void *context)
{
	const struct keep_call *call = context;
	struct fsdp_model *model = call->model;
	struct keeper keeper = {
		.model = model,
		.file = call->file,
		.first = model->settings.count,
	};
	fsdp_vec_init(&keeper.open, call->scratch, sizeof(struct open_node));
	add_node(&keeper, call->root);
	while (keeper.open.count > 0 && !is_too_long(&keeper)) {
		struct open_node *node = fsdp_vec_at(&keeper.open, keeper.open.count - 1);
		if (node->next < node->json->count) {
			add_item(&keeper, node);
			continue;
		}
		fsdp_model_setting(model, node->setting)->end =
			(uint32_t)model->settings.count;
		fsdp_vec_truncate(&keeper.open, keeper.open.count - 1);
	}
	if (is_too_long(&keeper)) {
		fsdp_vec_truncate(&model->settings, keeper.first + 1);
		*fsdp_model_setting(model, keeper.first) = (struct fsdp_setting){
			.value = { .kind = FSDP_TOKEN_CUT },
			.end = (uint32_t)keeper.first + 1,
			.file = call->file,
		};
	}
}

bool fsdp_hf_settings(struct fsdp_model *model, uint32_t file,
	const struct fsdp_json *root, struct fsdp_arena *scratch,
	struct fsdp_error **ret_error)
{
	struct keep_call call = { model, scratch, root, file };
	return fsdp_model_try(model, scratch, keep_settings, &call, ret_error);
}

/* ---- the configuration ---- */

enum {
	CONFIG_BYTES = 16 << 20,
	SHOWN_MOST = 256, /* members of one object: a pattern is for many modules */
	ITEMS_MOST = 1024,
};

struct config {
	struct fsdp_reading *reading;
	const struct fsdp_folder *folder;
	uint32_t file;
};

/* ---- classes ---- */

/* Segments of a decoder's names and the classes that transformers gives to them; "{}"
 * is the architecture without its head. */
static const struct {
	const char *segment, *class_name;
} classes[] = {
	{ "model", "{}Model" },
	{ "embed_tokens", "Embedding" },
	{ "layers", "ModuleList" },
	{ "self_attn", "{}Attention" },
	{ "mlp", "{}MLP" },
	{ "lm_head", "Linear" },
	{ "norm", "{}RMSNorm" },
	{ "input_layernorm", "{}RMSNorm" },
	{ "post_attention_layernorm", "{}RMSNorm" },
};

/* Architectures whose modules are called so. */
static const struct {
	const char *model_type, *base;
} decoders[] = {
	{ "gemma", "Gemma" },
	{ "gemma2", "Gemma2" },
	{ "gemma3_text", "Gemma3" },
	{ "granite", "Granite" },
	{ "llama", "Llama" },
	{ "mistral", "Mistral" },
	{ "olmo2", "Olmo2" },
	{ "phi3", "Phi3" },
	{ "qwen2", "Qwen2" },
	{ "qwen3", "Qwen3" },
};

/* Where a model of several parts keeps its decoder. */
static const char *const towers[] = { "language_model", "text_model" };

static struct fsdp_span base_of(struct fsdp_span architecture)
{
	static const char *const heads[] = { "ForCausalLM", "ForSequenceClassification",
		"Model" };
	for (size_t i = 0; i < FSDP_COUNT(heads); i++)
		if (fsdp_span_ends(architecture, fsdp_span_text(heads[i])))
			return fsdp_span(
				architecture.data, architecture.size - strlen(heads[i]));
	return architecture;
}

/* The decoder inside a model of several parts, by its own model_type; or nothing. */
static struct fsdp_span base_of_tower(const struct fsdp_json *root)
{
	struct fsdp_span type =
		fsdp_json_get_text(fsdp_json_get(root, "text_config"), "model_type");
	for (size_t i = 0; i < FSDP_COUNT(decoders); i++)
		if (fsdp_span_is(type, decoders[i].model_type))
			return fsdp_span_text(decoders[i].base);
	return (struct fsdp_span){ 0 };
}

/* Whether a module is the decoder of a model of several parts, or is in it. */
static bool is_in_tower(const struct fsdp_model *model, uint32_t name)
{
	for (; name != 0 && name != FSDP_NONE;
		name = fsdp_names_at(&model->names, name)->parent)
		for (size_t i = 0; i < FSDP_COUNT(towers); i++)
			if (fsdp_span_is(
				    fsdp_names_segment(&model->names, name), towers[i]))
				return true;
	return false;
}

/* The class that a module of this name has; NULL: it does not follow. */
static const char *class_of(const struct fsdp_model *model, uint32_t name)
{
	struct fsdp_span segment = fsdp_names_segment(&model->names, name);
	uint32_t parent = fsdp_names_at(&model->names, name)->parent;
	if (fsdp_span_is_number(segment) && parent != 0 &&
		fsdp_span_is(fsdp_names_segment(&model->names, parent), "layers"))
		return "{}DecoderLayer";
	if (fsdp_span_ends(segment, FSDP_SPAN("_proj")))
		return "Linear";
	for (size_t i = 0; i < FSDP_COUNT(classes); i++)
		if (fsdp_span_is(segment, classes[i].segment))
			return classes[i].class_name;
	return NULL;
}

static void add_hint(struct config *config, uint32_t name, struct fsdp_span base,
	const char *class_name)
{
	struct fsdp_model *model = config->reading->model;
	char text[FSDP_WORD_MAX];
	bool own = strncmp(class_name, "{}", 2) == 0;
	snprintf(text, sizeof text, "%.*s%s", own ? (int)fsdp_min(base.size, 64) : 0,
		(const char *)base.data, class_name + (own ? 2 : 0));
	struct fsdp_class_hint *hint = fsdp_build_push(model, &model->class_hints, NULL);
	hint->raw_name = name;
	hint->inferred = true;
	hint->class_name = fsdp_build_text(model, fsdp_span_text(text));
}

/* Every name above a tensor is a module. */
static void guess_classes(struct config *config, const struct fsdp_json *root,
	struct fsdp_span architecture)
{
	struct fsdp_model *model = config->reading->model;
	struct fsdp_span base = base_of(architecture);
	bool whole = false;
	for (size_t i = 0; i < FSDP_COUNT(decoders) && !whole; i++)
		whole = fsdp_span_is(base, decoders[i].base);
	if (!whole)
		base = base_of_tower(root);
	size_t count = model->names.list.count;
	unsigned char *seen = fsdp_arena_take(config->reading->scratch, count + 1, 1);
	add_hint(config, 0, architecture, "{}");
	for (size_t i = 0; i < model->tensors.count && base.size != 0; i++) {
		uint32_t name = fsdp_names_at(
			&model->names, fsdp_model_tensor(model, i)->raw_name)
					->parent;
		for (; name != 0 && name != FSDP_NONE && !seen[name];
			name = fsdp_names_at(&model->names, name)->parent) {
			const char *class_name = class_of(model, name);
			seen[name] = 1;
			if (class_name != NULL && (whole || is_in_tower(model, name)))
				add_hint(config, name, base, class_name);
		}
	}
}

/* ---- reading ---- */

/* *ret_unread: the file system refused, which says nothing of the file. */
static bool read_json(struct config *config, const char *name,
	const struct fsdp_json **ret_root, bool *ret_unread,
	struct fsdp_error **ret_error)
{
	config->file = FSDP_NONE;
	struct fsdp_reading *reading = config->reading;
	struct fsdp_source source;
	struct fsdp_span bytes;
	*ret_root = NULL;
	*ret_unread = false;
	if (!fsdp_folder_has(config->folder, name, FSDP_ENTRY_FILE))
		return true;
	if (!fsdp_folder_source(config->folder, fsdp_span_text(name), &source, ret_error))
		return false;
	if (source.size > CONFIG_BYTES)
		return true;
	config->file = fsdp_build_file(
		reading->model, fsdp_span_text(name), source.size, FSDP_NONE);
	*ret_unread = !fsdp_source_read_all(
		&source, 0, source.size, reading->scratch, &bytes, ret_error);
	return !*ret_unread &&
	       fsdp_json_read_of_python(
		       bytes, reading->limits, reading->scratch, ret_root, ret_error) &&
	       fsdp_hf_settings(reading->model, config->file, *ret_root, reading->scratch,
		       ret_error);
}

/* ---- values ---- */

static const char *type_of(enum fsdp_json_kind kind)
{
	switch (kind) {
	case FSDP_JSON_NULL:
		return "NoneType";
	case FSDP_JSON_BOOL:
		return "bool";
	case FSDP_JSON_INTEGER:
		return "int";
	case FSDP_JSON_REAL:
		return "float";
	case FSDP_JSON_TEXT:
		return "str";
	case FSDP_JSON_ARRAY:
	case FSDP_JSON_INTEGERS:
		return "list";
	case FSDP_JSON_OBJECT:
		return "dict";
	}
	return "object";
}

static struct fsdp_json item_of(const struct fsdp_json *list, uint32_t n)
{
	if (list->kind == FSDP_JSON_ARRAY)
		return list->items[n];
	return (struct fsdp_json){
		.kind = FSDP_JSON_INTEGER,
		.integer = list->integers[n],
	};
}

static uint32_t items_of(const struct fsdp_json *json)
{
	return fsdp_json_is_list(json) ? (uint32_t)fsdp_min(json->count, ITEMS_MOST) : 0;
}

/* A list and its items; the caller adds their own items, or cuts them. */
static void set_list(
	struct fsdp_model *model, const struct fsdp_json *json, struct fsdp_token **at)
{
	uint32_t count = items_of(json);
	if (!fsdp_json_is_list(json)) {
		hf_token(model, json, (*at)++);
		return;
	}
	*(*at)++ = (struct fsdp_token){ .kind = FSDP_TOKEN_LIST, .count = count };
	FSDP_EACH(i, count, item, item_of(json, i))
		hf_token(model, &item, (*at)++);
}

/* The tokens of a scalar, or of a list of scalars and lists of them. */
static void set_tokens(struct config *config, const struct fsdp_json *json,
	struct fsdp_value_record *value)
{
	struct fsdp_model *model = config->reading->model;
	uint32_t count = items_of(json);
	size_t room = 1 + (size_t)count;
	FSDP_EACH(i, count, item, item_of(json, i))
		room += items_of(&item);
	struct fsdp_token *tokens = FSDP_TAKE(model->arena, tokens, room);
	value->tokens = tokens;
	value->token_count = (uint32_t)room;
	if (!fsdp_json_is_list(json)) {
		hf_token(model, json, tokens);
		return;
	}
	*tokens = (struct fsdp_token){ .kind = FSDP_TOKEN_LIST, .count = count };
	tokens++;
	FSDP_EACH(i, count, item, item_of(json, i))
		set_list(model, &item, &tokens);
}

/* Parts of a value's name: the file, perhaps a part of it, and the key. */
struct name_parts {
	const char *group, *part; /* part may be NULL */
};

static void add_value(
	struct config *config, struct name_parts place, const struct fsdp_json *json)
{
	struct fsdp_model *model = config->reading->model;
	const char *above[] = { place.group, place.part };
	struct fsdp_path_builder *path = FSDP_TAKE(config->reading->scratch, path, 1);
	struct fsdp_value_record value = {
		.file = config->file,
		.rank = FSDP_NONE,
		.type = type_of(json->kind),
		.offset = FSDP_UNKNOWN,
		.length = FSDP_UNKNOWN,
	};
	uint32_t parent = 0;
	for (size_t i = 0; i < 2 && above[i] != NULL; i++) {
		path->parts[path->count++].length = (uint32_t)strlen(above[i]);
		parent =
			fsdp_names_child(&model->names, parent, fsdp_span_text(above[i]));
	}
	struct fsdp_span key = fsdp_build_span(model, json->key);
	path->parts[path->count++].length = (uint32_t)key.size;
	set_tokens(config, json, &value);
	fsdp_build_names(model, parent, key, false, &value.name, &value.raw_name);
	value.path = fsdp_build_path(model, path);
	fsdp_build_value(model, &value);
}

static void add_values(struct config *config, struct name_parts place,
	const struct fsdp_json *root, const char *const *keys)
{
	for (; *keys != NULL; keys++) {
		const struct fsdp_json *value = fsdp_json_get(root, *keys);
		if (value != NULL && value->kind != FSDP_JSON_NULL &&
			value->kind != FSDP_JSON_OBJECT)
			add_value(config, place, value);
	}
}

/* All members of an object that are not objects themselves. */
static void add_members(struct config *config, const char *group,
	const struct fsdp_json *root, const char *part)
{
	const struct fsdp_json *object = fsdp_json_get(root, part);
	if (!fsdp_json_is(object, FSDP_JSON_OBJECT))
		return;
	for (uint32_t i = 0; i < object->count && i < SHOWN_MOST; i++)
		if (object->items[i].kind != FSDP_JSON_OBJECT &&
			object->items[i].kind != FSDP_JSON_NULL)
			add_value(config, (struct name_parts){ group, part },
				&object->items[i]);
}

/* A configuration that makes no sense costs the classes and no more; one that could not
 * be read leaves the answer partial. */
static void forgive(
	struct config *config, const char *name, bool unread, struct fsdp_error *error)
{
	if (fsdp_error_code(error) == FSDP_ERROR_MEMORY ||
		fsdp_error_code(error) == FSDP_ERROR_LIMIT)
		fsdp_model_leave(config->reading->model, error);
	if (unread) {
		fsdp_error_add_path(&error, name);
		fsdp_reading_keep_error(config->reading, error);
		return;
	}
	struct fsdp_entry entry;
	/* That it is empty is a finding already. */
	if (!fsdp_folder_find(config->folder, fsdp_span_text(name), &entry) ||
		entry.size != 0)
		fsdp_find(&config->reading->model->findings,
			FSDP_RULE_METADATA_INCONSISTENT,
			FSDP_PLACE(.file = fsdp_span_text(name),
				.offset = fsdp_error_offset(error)),
			"the configuration cannot be read: %s",
			fsdp_error_message(error));
	fsdp_error_free(error);
}

static void read_config(struct config *config)
{
	static const char *const keys[] = { "model_type", "dtype", "torch_dtype",
		"num_hidden_layers", "tie_word_embeddings", "transformers_version",
		NULL };
	static const char *const parts[] = { "text_config", "vision_config",
		"audio_config" };
	static const char *const plans[] = { "quantization_config", "fsdp_plan",
		"base_model_fsdp_plan", "tp_plan", "base_model_tp_plan", "pp_plan",
		"base_model_pp_plan" };
	const struct fsdp_json *root;
	struct fsdp_error *error = NULL;
	bool unread;
	if (!read_json(config, "config.json", &root, &unread, &error)) {
		forgive(config, "config.json", unread, error);
		return;
	}
	const struct fsdp_json *list = fsdp_json_get(root, "architectures");
	const struct fsdp_json *architecture =
		fsdp_json_is(list, FSDP_JSON_ARRAY) && list->count != 0 &&
				list->items[0].kind == FSDP_JSON_TEXT
			? &list->items[0]
			: NULL;
	if (architecture != NULL) {
		struct fsdp_json first = *architecture;
		first.key = FSDP_SPAN("architecture");
		guess_classes(config, root, first.text);
		add_value(config, (struct name_parts){ "config", NULL }, &first);
	}
	for (size_t i = 0; i < FSDP_COUNT(parts); i++)
		add_values(config, (struct name_parts){ "config", parts[i] },
			fsdp_json_get(root, parts[i]), keys);
	for (size_t i = 0; i < FSDP_COUNT(plans); i++)
		add_members(config, "config", root, plans[i]);
	add_values(config, (struct name_parts){ "config", NULL }, root, keys);
}

void fsdp_hf_config(struct fsdp_reading *reading, const struct fsdp_folder *folder)
{
	struct config config = { .reading = reading, .folder = folder };
	if (!fsdp_folder_has(folder, "adapter_config.json", FSDP_ENTRY_FILE)) {
		read_config(&config);
		return;
	}
	/* AdaLoRA begins with a rank of its own and leaves `r` as its class has it. */
	static const char *const ranks[] = { "peft_type", "r", NULL };
	static const char *const falling_ranks[] = { "peft_type", "init_r", "target_r",
		NULL };
	static const char *const keys[] = { "base_model_name_or_path", "lora_alpha",
		"lora_dropout", "use_dora", "use_rslora", "bias", "target_modules",
		"modules_to_save", "task_type", "peft_version", NULL };
	const struct name_parts parts = { "adapter_config", NULL };
	const struct fsdp_json *root;
	struct fsdp_error *error = NULL;
	bool unread;
	if (!read_json(&config, "adapter_config.json", &root, &unread, &error)) {
		forgive(&config, "adapter_config.json", unread, error);
		return;
	}
	bool falls = fsdp_span_is(fsdp_json_get_text(root, "peft_type"), "ADALORA");
	add_members(&config, "adapter_config", root, "rank_pattern");
	add_values(&config, parts, root, falls ? falling_ranks : ranks);
	add_values(&config, parts, root, keys);
}
