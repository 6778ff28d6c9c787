/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of a step of Hugging Face's Trainer: adds its parts as children, and puts
 * the states of the optimizer under the names of their parameters.
 *
 *	model.safetensors, shards and index, pytorch_model.bin, adapter_model.*
 *	                        weights, read as a directory of Hugging Face
 *	pytorch_model_fsdp_0/   weights of FSDP (DCP), or pytorch_model_fsdp.bin
 *	global_step<N>/ latest  weights and optimizer of DeepSpeed
 *	optimizer.pt            states by number; of FSDP optimizer_0/ or optimizer.bin
 *	scheduler.pt  scaler.pt  rng_state.pth  rng_state_<rank>.pth
 *	trainer_state.json      written last: step, epoch, what was best
 *	training_args.bin       arguments, a pickle; no loader reads it, nor does this
 *
 * With files of FSDP or DeepSpeed a resume does not read model.safetensors: with
 * FSDP it is a copy of the same weights and skipped, with DeepSpeed it is the model,
 * and the masters in 32 bits are states of the optimizer.
 *
 * Origin: transformers/trainer.py (5.23), integrations/deepspeed.py; accelerate/utils/
 * fsdp_utils.py (1.15).
 */
#include "base/num.h"
#include "base/sort.h"
#include "formats/format.h"
#include "syntax/json-scan.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the numbers of an optimizer while its states are named after parameters ---- */

enum { GROUPS_MAX = 2 };

/* A number of the optimizer. */
struct parameter_number {
	struct fsdp_state_shape shape;
	bool is_listed; /* by a group */
	uint32_t group;
	struct fsdp_span stated; /* its name, if the optimizer keeps it */
	uint32_t parameter;      /* tensor that it stands for, or FSDP_NONE */
};

/* A parameter of the model, and where it comes. */
struct ordered_parameter {
	uint64_t place;
	uint32_t tensor;
	bool decays;
};

struct id_naming {
	struct fsdp_reading *reading;
	struct fsdp_model *model;
	struct fsdp_arena *scratch;
	struct parameter_number *numbers;
	size_t number_count;
	size_t groups;
	bool no_decay[GROUPS_MAX]; /* weight_decay of the group is 0 */
	struct ordered_parameter *candidates;
	size_t candidate_count;
	const struct fsdp_parameter_order *order;
	struct fsdp_table parameters; /* by name: its tensor */
	bool has_names;               /* the optimizer keeps them */
	bool has_renamed; /* the model has parameters that are stored under other names */
};

/* A tensor that is a state of a number: "state.17.exp_avg". */
struct numbered_state {
	struct fsdp_tensor_record *tensor;
	uint64_t number;
	struct fsdp_span key; /* until the next one is asked for */
};

/* ---- trainer_state.json ---- */

#define STATE_FILE "trainer_state.json"
#define GROUP "trainer_state"

/* Only these: others say how often something is done, or are about this process. How far
 * training was has the name that it has in all checkpoints. */
static const struct state_key {
	const char *name;
	bool is_progress;
} keys[] = {
	{ "best_global_step", false },
	{ "best_metric", false },
	{ "best_model_checkpoint", false },
	{ "epoch", true },
	{ "global_step", true },
	{ "max_steps", false },
	{ "num_train_epochs", false },
	{ "num_input_tokens_seen", false },
	{ "total_flos", false },
	{ "train_batch_size", false },
};

struct state_reader {
	struct fsdp_reading *reading;
	struct fsdp_source_rest rest;
	struct fsdp_json_scan scan;
	struct fsdp_json_token token;
	uint32_t file;
};

static const struct state_key *wanted_key(const struct fsdp_json_token *token)
{
	for (size_t i = 0; i < FSDP_COUNT(keys); i++)
		if (fsdp_json_text_is(token, fsdp_span_text(keys[i].name)))
			return &keys[i];
	return NULL;
}

/* *ret_type NULL: no value that is shown. */
static void set_token(
	struct state_reader *reader, struct fsdp_token *token, const char **ret_type)
{
	struct fsdp_arena *scratch = reader->reading->scratch;
	bool no_memory = false;
	*ret_type = NULL;
	if (reader->token.kind == FSDP_SCAN_TEXT) {
		token->kind = FSDP_TOKEN_TEXT;
		token->text = fsdp_json_text_copy(
			&reader->token, reader->reading->model->arena);
		*ret_type = "str";
	} else if (reader->token.kind != FSDP_SCAN_NUMBER) {
		return;
	} else if (fsdp_decimal_integer(reader->token.span, &token->integer) &&
		   memchr(reader->token.span.data, '.', reader->token.span.size) ==
			   NULL) {
		token->kind = FSDP_TOKEN_INTEGER;
		*ret_type = "int";
	} else if (fsdp_decimal_real(
			   reader->token.span, scratch, &token->number, &no_memory)) {
		token->kind = FSDP_TOKEN_FLOAT;
		*ret_type = "float";
	}
}

static void add_value(struct state_reader *reader, const struct state_key *key)
{
	struct fsdp_model *model = reader->reading->model;
	struct fsdp_token *token = FSDP_TAKE(model->arena, token, 1);
	struct fsdp_path_builder *path = FSDP_TAKE(reader->reading->scratch, path, 1);
	struct fsdp_value_record value = {
		.file = reader->file,
		.rank = FSDP_NONE,
		.tokens = token,
		.token_count = 1,
		.offset = FSDP_UNKNOWN,
		.length = FSDP_UNKNOWN,
	};
	set_token(reader, token, &value.type);
	if (value.type == NULL)
		return;
	uint32_t parent = 0;
	if (!key->is_progress) {
		path->parts[path->count++].length = sizeof GROUP - 1;
		parent = fsdp_names_child(&model->names, 0, FSDP_SPAN(GROUP));
	}
	path->parts[path->count++].length = (uint32_t)strlen(key->name);
	fsdp_build_names(model, parent, fsdp_span_text(key->name), false, &value.name,
		&value.raw_name);
	value.path = fsdp_build_path(model, path);
	fsdp_build_value(model, &value);
}

/* The members of the object; *ret_whole: it is one, up to its end. */
static bool read_members(
	struct state_reader *reader, bool *ret_whole, struct fsdp_error **ret_error)
{
	struct fsdp_json_scan *scan = &reader->scan;
	struct fsdp_json_token *token = &reader->token;
	if (!fsdp_json_scan_next(scan, token, ret_error))
		return false;
	if (token->kind != FSDP_SCAN_OBJECT)
		return true;
	while (fsdp_json_scan_next(scan, token, ret_error)) {
		*ret_whole = token->kind == FSDP_SCAN_OBJECT_END;
		if (token->kind != FSDP_SCAN_KEY)
			return true;
		const struct state_key *key = wanted_key(token);
		if (key == NULL) {
			if (!fsdp_json_scan_skip(scan, token, ret_error))
				return false;
			if (token->kind == FSDP_SCAN_BAD || token->kind == FSDP_SCAN_CUT)
				return true;
			continue;
		}
		if (!fsdp_json_scan_next(scan, token, ret_error))
			return false;
		add_value(reader, key);
		if (token->kind == FSDP_SCAN_OBJECT || token->kind == FSDP_SCAN_ARRAY)
			return true;
	}
	return false;
}

static void release(void *scan)
{
	fsdp_json_scan_done(scan);
}

static bool read_state(struct state_reader *reader, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = reader->reading->model;
	bool whole = false;
	reader->rest.end = reader->rest.source.size;
	reader->file = fsdp_build_file(
		model, FSDP_SPAN(STATE_FILE), reader->rest.source.size, FSDP_NONE);
	fsdp_arena_own(reader->reading->scratch, release, &reader->scan);
	if (!fsdp_json_scan_init(&reader->scan, fsdp_source_refill, &reader->rest,
		    reader->reading->limits, ret_error))
		return false;
	reader->scan.lenient = true;
	/* Names of values are literals, so nothing of the window has to stay. */
	bool read = read_members(reader, &whole, ret_error);
	/* An empty file is a finding of its own. */
	if (read && !whole && reader->rest.source.size > 0)
		fsdp_find(&model->findings,
			reader->token.kind == FSDP_SCAN_CUT
				? FSDP_RULE_TRUNCATED_FILE
				: FSDP_RULE_METADATA_INCONSISTENT,
			FSDP_PLACE(.file = FSDP_SPAN(STATE_FILE),
				.offset = reader->token.offset),
			"training state is truncated: the save did not finish");
	return read;
}

/* Values out of trainer_state.json: how far training was, and what was
 * best. One that cannot be read is a finding. */
static void read_trainer_state(
	struct fsdp_reading *reading, const struct fsdp_folder *folder)
{
	struct state_reader *reader;
	struct fsdp_error *error = NULL;
	if (!fsdp_folder_has(folder, STATE_FILE, FSDP_ENTRY_FILE))
		return;
	reader = FSDP_TAKE(reading->scratch, reader, 1);
	reader->reading = reading;
	if (fsdp_folder_source(
		    folder, FSDP_SPAN(STATE_FILE), &reader->rest.source, &error) &&
		read_state(reader, &error))
		return;
	if (fsdp_error_code(error) == FSDP_ERROR_MEMORY ||
		fsdp_error_code(error) == FSDP_ERROR_LIMIT)
		fsdp_model_leave(reading->model, error);
	fsdp_error_add_path(&error, STATE_FILE);
	fsdp_reading_keep_error(reading, error);
}

/* ---- the order in which modules are made ---- */

/*
 * Orders the parameters of known architectures as their modules are made.
 *
 * Origin: modeling_*.py of transformers 5.23, trainer_pt_utils.py, peft 0.21.
 */

struct fsdp_parameter_order {
	const char *types;         /* model_type, of each */
	const char *stem;          /* what the names of layers begin with */
	const char *const *before; /* modules before the layers */
	const char *const *layer;  /* of a layer, below its number */
	const char *const *after;
	const char *renamed; /* a part of names that the live model does not use */
};

#define LIST(...)                 \
	(const char *const[])     \
	{                         \
		__VA_ARGS__, NULL \
	}

/* One of these may lack some; the order of the others is the same. */
#define LLAMA_LAYER                                                                 \
	LIST("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",            \
		"self_attn.o_proj", "self_attn.q_norm", "self_attn.k_norm",         \
		"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "input_layernorm", \
		"post_attention_layernorm", "pre_feedforward_layernorm",            \
		"post_feedforward_layernorm")

static const struct fsdp_parameter_order orders[] = {
	{ .types = "llama mistral qwen2 qwen3 gemma gemma2 gemma3_text granite olmo2 smollm3",
		.stem = "model.layers.",
		.before = LIST("model.embed_tokens"),
		.layer = LLAMA_LAYER,
		.after = LIST("model.norm", "lm_head") },
	{ .types = "mixtral",
		.stem = "model.layers.",
		.before = LIST("model.embed_tokens"),
		.layer = LLAMA_LAYER,
		.after = LIST("model.norm", "lm_head"),
		.renamed = ".block_sparse_moe." },
	{ .types = "gpt2",
		.stem = "transformer.h.",
		.before = LIST("transformer.wte", "transformer.wpe"),
		.layer = LIST("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc",
			"mlp.c_proj"),
		.after = LIST("transformer.ln_f", "lm_head") },
};

/* Parameters of one module. */
static const char *const leaves[] = { "weight", "bias", "lora_A.weight",
	"lora_A.default.weight", "lora_B.weight", "lora_B.default.weight", NULL };

/* Numbers of layers are below. */
enum { LAYERS_MAX = 1 << 24, SLOTS = 256 };

/* "module.leaf": the position of both, or -1. */
static int slot_of(const char *const *modules, struct fsdp_span name)
{
	for (int i = 0; modules[i] != NULL; i++) {
		struct fsdp_span rest, leaf;
		if (!fsdp_span_behind(name, modules[i], &rest) ||
			!fsdp_span_behind(rest, ".", &leaf))
			continue;
		for (int k = 0; leaves[k] != NULL; k++)
			if (fsdp_span_is(leaf, leaves[k]))
				return i * 8 + k;
	}
	return -1;
}

bool fsdp_parameter_order_place(const struct fsdp_parameter_order *order,
	struct fsdp_span name, uint64_t *ret_place)
{
	struct fsdp_span rest;
	uint64_t layer;
	int slot;
	/* What an adapter is put round. */
	if (fsdp_span_behind(name, "base_model.model.", &rest))
		name = rest;
	if (fsdp_span_behind(name, order->stem, &rest)) {
		/* "17.self_attn…": the number, and what follows its dot. */
		if (!fsdp_span_number(&rest, LAYERS_MAX, &layer) ||
			!fsdp_span_behind(rest, ".", &rest))
			return false;
		slot = slot_of(order->layer, rest);
		*ret_place = (1 + layer) * SLOTS + (uint64_t)slot;
		return slot >= 0;
	}
	slot = slot_of(order->before, name);
	*ret_place = (uint64_t)slot;
	if (slot >= 0)
		return true;
	slot = slot_of(order->after, name);
	*ret_place = (uint64_t)(LAYERS_MAX + 1) * SLOTS + (uint64_t)slot;
	return slot >= 0;
}

bool fsdp_parameter_order_is_renamed(
	const struct fsdp_parameter_order *order, struct fsdp_span name)
{
	return order->renamed != NULL && memmem(name.data, name.size, order->renamed,
						 strlen(order->renamed)) != NULL;
}

const struct fsdp_parameter_order *fsdp_parameter_order_find(
	struct fsdp_span type, struct fsdp_span name)
{
	uint64_t place;
	for (size_t i = 0; i < FSDP_COUNT(orders); i++)
		if (type.data != NULL
				? fsdp_span_is_any(type, orders[i].types)
				: fsdp_parameter_order_place(&orders[i], name, &place))
			return &orders[i];
	return NULL;
}

bool fsdp_parameter_decays(struct fsdp_span name)
{
	return !fsdp_span_has_any(name, "bias layernorm rmsnorm _norm. .norm. .ln_");
}

/* ---- names of states ---- */

enum { NUMBER_MAX = 1 << 26 };

/* The next of them, from *at on, which starts with 0. False: no more. */
static bool next_state(
	struct id_naming *naming, size_t *at, struct numbered_state *ret_state)
{
	struct fsdp_model *model = naming->model;
	while (*at < model->tensors.count) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, (*at)++);
		struct fsdp_span name;
		if (tensor->role != FSDP_ROLE_OPTIM ||
			(tensor->flags & FSDP_TENSOR_COMPONENT))
			continue;
		name = fsdp_model_name(model, tensor->raw_name, naming->scratch);
		ret_state->tensor = tensor;
		if (fsdp_span_behind(name, "state.", &name) &&
			fsdp_span_number(&name, NUMBER_MAX, &ret_state->number) &&
			fsdp_span_behind(name, ".", &ret_state->key))
			return true;
	}
	return false;
}

/* ---- groups ---- */

/* The one token of a value; all zero: it has none, or several. */
static struct fsdp_token token_of(const struct fsdp_value_record *value)
{
	return value->token_count == 1 && value->tokens != NULL
		       ? *value->tokens
		       : (struct fsdp_token){ .kind = FSDP_TOKEN_NONE };
}

/* Value of a group: a number of it, the name of one, or whether it decays. Names are in
 * the order of numbers, which continue through all groups. */
static bool read_group_value(struct id_naming *naming,
	const struct fsdp_value_record *value, struct fsdp_span name, size_t *named)
{
	uint64_t group, at;
	struct fsdp_span rest, item;
	struct fsdp_token token = token_of(value);
	if (!fsdp_span_behind(name, "param_groups.", &rest) ||
		!fsdp_span_number(&rest, NUMBER_MAX, &group) ||
		!fsdp_span_behind(rest, ".", &rest))
		return true;
	if (naming->groups <= group)
		naming->groups = (size_t)group + 1;
	if (fsdp_span_is(rest, "weight_decay") && group < GROUPS_MAX)
		naming->no_decay[group] =
			(token.kind == FSDP_TOKEN_INTEGER && token.integer == 0) ||
			(token.kind == FSDP_TOKEN_FLOAT && token.number == 0);
	if (fsdp_span_behind(rest, "param_names.", &item) &&
		fsdp_span_number(&item, NUMBER_MAX, &at) &&
		token.kind == FSDP_TOKEN_TEXT && *named < naming->number_count)
		naming->numbers[(*named)++].stated = token.text;
	naming->has_names |= *named != 0;
	if (!fsdp_span_behind(rest, "params.", &item) ||
		!fsdp_span_number(&item, NUMBER_MAX, &at))
		return true;
	if (token.kind != FSDP_TOKEN_INTEGER || token.integer < 0 ||
		(uint64_t)token.integer >= naming->number_count ||
		naming->numbers[token.integer].is_listed)
		return false;
	naming->numbers[token.integer].is_listed = true;
	naming->numbers[token.integer].group = (uint32_t)group;
	return true;
}

/* The numbers that groups list. Each value is a number at most, so the room for them is
 * bounded. *ret_fits: the groups list 0, 1, … each once. */
static void read_groups(struct id_naming *naming, bool *ret_fits)
{
	struct fsdp_model *model = naming->model;
	size_t named = 0, listed = 0;
	naming->number_count = model->values.count;
	naming->numbers =
		FSDP_TAKE(naming->scratch, naming->numbers, model->values.count + 1);
	*ret_fits = true;
	for (size_t i = 0; i < model->values.count && *ret_fits; i++) {
		const struct fsdp_value_record *value = fsdp_model_value(model, i);
		struct fsdp_span name =
			fsdp_model_name(model, value->raw_name, naming->scratch);
		*ret_fits = read_group_value(naming, value, name, &named);
	}
	for (size_t i = 0; i < naming->number_count; i++) {
		naming->numbers[i].parameter = FSDP_NONE;
		listed += naming->numbers[i].is_listed;
	}
	/* All from 0 on, or there are gaps. */
	naming->number_count = listed;
	for (size_t i = 0; i < listed; i++)
		*ret_fits &= naming->numbers[i].is_listed;
	*ret_fits &= listed != 0;
}

/* ---- shapes ---- */

/* The shapes of their states. *ret_count: how many tensors are states of numbers;
 * *ret_fits becomes false if one is not listed or has two shapes. */
static void read_shapes(struct id_naming *naming, bool *ret_fits, size_t *ret_count)
{
	struct numbered_state state;
	size_t at = 0;
	while (next_state(naming, &at, &state)) {
		++*ret_count;
		*ret_fits &= state.number < naming->number_count;
		if (*ret_fits)
			fsdp_state_shape_add(&naming->numbers[state.number].shape,
				state.key,
				fsdp_model_ints(naming->model, state.tensor->shape),
				state.tensor->dims);
	}
	for (size_t i = 0; i < naming->number_count; i++)
		*ret_fits &= !naming->numbers[i].shape.is_wrong;
}

static bool trainer_fits(const struct id_naming *naming,
	const struct parameter_number *numbered, uint32_t parameter)
{
	const struct fsdp_tensor_record *tensor =
		fsdp_model_tensor(naming->model, parameter);
	return fsdp_state_shape_fits(&numbered->shape,
		fsdp_model_ints(naming->model, tensor->shape), tensor->dims);
}

/* ---- names of numbers ---- */

/*
 * Names the states of an optimizer after the parameters that its numbers stand for.
 *
 *	state.17.exp_avg             a state of the parameter with this number
 *	param_groups.0.params.17     the numbers of a group, in its order
 *	param_groups.0.param_names.17   their names, if the optimizer was given them
 *	param_groups.1.weight_decay  0: Trainer's group of biases and norms
 *
 * Numbers count the parameters that are trained, group by group, in the order of the
 * model. Where fewer are numbered than the model has, the rest were frozen: a number
 * then gets a name only if its place is the same however early or late the numbers are
 * put.
 *
 * Origin: torch/optim/optimizer.py (2.13), transformers/trainer.py (5.23).
 */

enum {
	NAME_BYTES = 4096,
	LOOKS_MAX = 1 << 22, /* comparisons of shapes, without names */
};

/* ---- parameters ---- */

/* The type of the model, from its configuration. */
static struct fsdp_span model_type(const struct fsdp_model *model)
{
	FSDP_EACH(i, model->settings.count, setting, fsdp_model_setting(model, i))
		if (fsdp_span_is(setting->key, "model_type") &&
			setting->value.kind == FSDP_TOKEN_TEXT)
			return setting->value.text;
	return (struct fsdp_span){ 0 };
}

/* *ret_fits: the place of each is known. */
static void add_candidate(struct id_naming *naming, uint32_t index, bool ordered,
	struct fsdp_span type, bool *ret_fits)
{
	struct ordered_parameter *candidate =
		&naming->candidates[naming->candidate_count];
	struct fsdp_span name = fsdp_model_name(naming->model,
		fsdp_model_tensor(naming->model, index)->name, naming->scratch);
	(void)fsdp_table_set(&naming->parameters,
		fsdp_model_tensor(naming->model, index)->name, index);
	*candidate =
		(struct ordered_parameter){ index, index, fsdp_parameter_decays(name) };
	if (naming->order == NULL)
		naming->order = fsdp_parameter_order_find(type, name);
	if (naming->order != NULL &&
		fsdp_parameter_order_is_renamed(naming->order, name)) {
		naming->has_renamed = true;
		return;
	}
	naming->candidate_count++;
	if (!ordered)
		*ret_fits &=
			naming->order != NULL && fsdp_parameter_order_place(naming->order,
							 name, &candidate->place);
}

static void list_candidates(struct id_naming *naming, bool ordered, bool *ret_fits)
{
	struct fsdp_model *model = naming->model;
	struct fsdp_span type = model_type(model);
	bool *is_seen = FSDP_TAKE(naming->scratch, is_seen, model->extents.count + 1);
	naming->candidates =
		FSDP_TAKE(naming->scratch, naming->candidates, model->tensors.count + 1);
	FSDP_EACH(
		i, (uint32_t)model->tensors.count, tensor, fsdp_model_tensor(model, i)) {
		if (tensor->role != FSDP_ROLE_PARAM ||
			(tensor->flags & FSDP_TENSOR_COMPONENT))
			continue;
		/* Of two names of one storage only the first is a parameter of its own.
		 */
		uint32_t extent =
			tensor->piece_count != 0
				? fsdp_model_piece(model, tensor->first_piece)->extent
				: FSDP_NONE;
		if (extent != FSDP_NONE && is_seen[extent])
			continue;
		if (extent != FSDP_NONE)
			is_seen[extent] = true;
		add_candidate(naming, i, ordered, type, ret_fits);
	}
	FSDP_SORT(naming->candidates, naming->candidate_count,
		FSDP_BY(naming->candidates, place), FSDP_BY(naming->candidates, tensor));
}

/* ---- which is which ---- */

/* A name that the optimizer keeps, of a parameter that the model has. Adapters are stored
 * without the name that they have in the live model. */
static uint32_t find_listed(struct id_naming *naming, struct fsdp_span stated)
{
	static const char word[] = ".default";
	char text[NAME_BYTES];
	struct fsdp_names *names = &naming->model->names;
	uint32_t name = fsdp_names_find(names, 0, stated);
	const unsigned char *at = memmem(stated.data, stated.size, word, sizeof word - 1);
	if ((name != FSDP_NONE &&
		    fsdp_table_get(&naming->parameters, name) != FSDP_NONE) ||
		at == NULL || stated.size >= sizeof text)
		return name;
	size_t before = (size_t)(at - stated.data),
	       size = stated.size - (sizeof word - 1);
	memcpy(text, stated.data, before);
	memcpy(text + before, at + sizeof word - 1, size - before);
	return fsdp_names_find(names, 0, fsdp_span(text, size));
}

static bool name_as_listed(struct id_naming *naming)
{
	FSDP_EACH(i, naming->number_count, numbered, &naming->numbers[i]) {
		uint32_t name = find_listed(naming, numbered->stated);
		if (name == FSDP_NONE)
			continue;
		numbered->parameter = fsdp_table_get(&naming->parameters, name);
		if (numbered->parameter != FSDP_NONE &&
			!trainer_fits(naming, numbered, numbered->parameter))
			return false;
	}
	return true;
}

/* Numbers and candidates of one group, each in order. */
struct optimizer_group {
	uint32_t *numbers,
		*places; /* `places`: of each number, the first that it may have */
	const struct ordered_parameter **candidates;
	size_t number_count, candidate_count;
};

static void list_group(
	struct id_naming *naming, size_t index, struct optimizer_group *group)
{
	struct fsdp_arena *scratch = naming->scratch;
	*group = (struct optimizer_group){
		.numbers = FSDP_TAKE(scratch, group->numbers, naming->number_count + 1),
		.places = FSDP_TAKE(scratch, group->places, naming->number_count + 1),
		.candidates = FSDP_TAKE(
			scratch, group->candidates, naming->candidate_count + 1),
	};
	for (size_t i = 0; i < naming->number_count; i++)
		if (naming->numbers[i].group == index)
			group->numbers[group->number_count++] = (uint32_t)i;
	FSDP_EACH(i, naming->candidate_count, candidate, &naming->candidates[i])
		if (naming->groups == 1 || candidate->decays == (index == 0))
			group->candidates[group->candidate_count++] = candidate;
	if (naming->has_renamed) {
		/* Of a model that has parameters under other names, those numbers are
		 * omitted whose shape nothing that is stored has. Models have few
		 * shapes, so one is found soon; where that takes too long, the rest is
		 * omitted, and then no order fits. */
		size_t kept = 0, looks = 0;
		for (size_t i = 0; i < group->number_count; i++) {
			bool fits = false;
			for (size_t k = 0;
				!fits && k < group->candidate_count && looks < LOOKS_MAX;
				k++, looks++)
				fits = trainer_fits(naming,
					&naming->numbers[group->numbers[i]],
					group->candidates[k]->tensor);
			if (fits)
				group->numbers[kept++] = group->numbers[i];
		}
		group->number_count = kept;
	}
}

/* Puts the numbers as early as their shapes permit, then as late: those with one possible
 * position are known. False: one of them has no position. */
static bool place_group(struct id_naming *naming, const struct optimizer_group *group)
{
	size_t at = 0;
	for (size_t i = 0; i < group->number_count; i++, at++) {
		const struct parameter_number *numbered =
			&naming->numbers[group->numbers[i]];
		while (at < group->candidate_count &&
			!trainer_fits(naming, numbered, group->candidates[at]->tensor))
			at++;
		if (at == group->candidate_count)
			return false;
		group->places[i] = (uint32_t)at;
	}
	at = group->candidate_count;
	for (size_t i = group->number_count; i-- > 0;) {
		struct parameter_number *numbered = &naming->numbers[group->numbers[i]];
		while (!trainer_fits(naming, numbered, group->candidates[--at]->tensor))
			;
		if (at == group->places[i])
			numbered->parameter = group->candidates[at]->tensor;
	}
	return true;
}

/* Where no order fits: those numbers whose shape one parameter has. None of them if a
 * shape is that of more numbers than parameters, or if parameters are stored under other
 * names: what is stored is then not what was numbered. */
static void name_by_shape(struct id_naming *naming, bool *ret_fits)
{
	struct fsdp_model *model = naming->model;
	size_t count = 0;
	struct fsdp_state_shape *list = FSDP_TAKE(naming->scratch, list,
		naming->number_count + naming->candidate_count + 1);
	*ret_fits = false;
	if (naming->has_renamed || naming->number_count > naming->candidate_count)
		return;
	FSDP_EACH(i, (uint32_t)naming->number_count, numbered, &naming->numbers[i]) {
		numbered->parameter = FSDP_NONE;
		numbered->shape.is_number = true;
		numbered->shape.index = i;
		if (numbered->shape.has_head && numbered->shape.has_last)
			list[count++] = numbered->shape;
	}
	FSDP_EACH(i, naming->candidate_count, index, naming->candidates[i].tensor) {
		const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, index);
		list[count].index = index;
		fsdp_state_shape_add(&list[count++], FSDP_SPAN(""),
			fsdp_model_ints(model, tensor->shape), tensor->dims);
	}
	if (!fsdp_state_shapes_pair(list, count))
		return;
	for (size_t i = 0; i < count; i++) {
		if (!list[i].is_number || list[i].partner == FSDP_NONE)
			continue;
		naming->numbers[list[i].index].parameter = list[i].partner;
		*ret_fits = true;
	}
}

/* ---- names ---- */

/* The name of a state, "state.OWNER.KEY". The names keep their parts. */
static uint32_t state_name(
	struct fsdp_reading *reading, uint32_t owner_name, struct fsdp_span key)
{
	struct fsdp_model *model = reading->model;
	struct fsdp_span owner = fsdp_model_name(model, owner_name, reading->scratch);
	size_t size = owner.size + key.size + sizeof "state..";
	char *text = fsdp_arena_take(model->arena, size, 1);
	snprintf(text, size, "state.%.*s.%.*s", FSDP_TEXT(owner), FSDP_TEXT(key));
	return fsdp_names_intern(&model->names, 0, fsdp_span_text(text));
}

/*
 * Gives the states of an optimizer that counts its parameters
 * ("state.17.exp_avg") the names of these ("state.model.norm.weight.exp_avg"): by
 * param_names, if the optimizer kept them, else by the order of the model's parameters
 * and their shapes, or by a shape that one parameter has. A state keeps its number where
 * more than one parameter is possible; all do if one shape contradicts. Of all tensors
 * and values of the model; `ordered`: parameters were read in the order in which the
 * model has them. Takes time and memory linear in both, except sorting.
 */
static void name_states(struct fsdp_reading *reading, bool ordered)
{
	struct id_naming *naming = FSDP_TAKE(reading->scratch, naming, 1);
	size_t states = 0, named = 0;
	bool grouped, placed = true;
	naming->reading = reading;
	naming->model = reading->model;
	naming->scratch = reading->scratch;
	fsdp_table_init(&naming->parameters, reading->scratch);
	read_groups(naming, &grouped);
	read_shapes(naming, &grouped, &states);
	if (states == 0)
		return;
	if (grouped)
		list_candidates(naming, ordered, &placed);
	if (grouped && naming->has_names)
		placed = name_as_listed(naming);
	else if (grouped && placed) {
		struct optimizer_group group;
		bool any = false;
		/* Trainer's two groups, or one of all. */
		placed &= naming->groups == 1 ||
			  (naming->groups == GROUPS_MAX && naming->no_decay[1]);
		for (size_t i = 0; i < naming->number_count; i++)
			any |= naming->numbers[i].shape.has_head &&
			       naming->numbers[i].shape.has_last;
		placed &= any;
		for (size_t i = 0; i < naming->groups && placed; i++) {
			list_group(naming, i, &group);
			placed = place_group(naming, &group);
		}
	}
	if (grouped && !placed && !naming->has_names)
		name_by_shape(naming, &placed);
	placed &= grouped;
	if (placed) {
		struct numbered_state state;
		size_t at = 0;
		while (next_state(naming, &at, &state)) {
			uint32_t parameter =
				state.number < naming->number_count
					? naming->numbers[state.number].parameter
					: FSDP_NONE;
			if (parameter == FSDP_NONE)
				continue;
			++named;
			uint32_t owner =
				fsdp_model_tensor(naming->model, parameter)->name;
			state.tensor->name = state_name(reading, owner, state.key);
			if (!naming->has_names)
				state.tensor->flags |= FSDP_TENSOR_NAME_INFERRED;
		}
	}
	if (!placed)
		fsdp_reading_note(reading,
			"optimizer states are stored by number and could not be matched to parameter names");
	else if (named < states)
		fsdp_reading_note(reading,
			"optimizer states are stored by number: %zu of %zu could be matched to their parameters, the others keep the number",
			named, states);
}

/* ---- the directory of a step ---- */

/* A table of parts and its length. */
#define PARTS(table) table, FSDP_COUNT(table)

struct trainer {
	const struct fsdp_folder *folder;
	uint32_t world_size; /* from random states; 0: unknown */
	bool is_plain;       /* weights are files of one rank */
	bool has_config;     /* was read with the weights */
	bool is_deepspeed;
};

static const struct fsdp_named_part fsdp_weights[] = {
	{ "pytorch_model_fsdp_#", FSDP_ENTRY_DIRECTORY, "model", "", -1 },
	{ "pytorch_model_fsdp.bin", FSDP_ENTRY_FILE, "", "", -1 },
};

/* Weights without a configuration. */
static const struct fsdp_named_part bare_weights[] = {
	{ "model.safetensors", FSDP_ENTRY_FILE, "", "", -1 },
	{ "pytorch_model.bin", FSDP_ENTRY_FILE, "", "", -1 },
	{ "adapter_model.safetensors", FSDP_ENTRY_FILE, "", "", -1 },
	{ "adapter_model.bin", FSDP_ENTRY_FILE, "", "", -1 },
};

static const struct fsdp_named_part optimizers[] = {
	{ "optimizer.pt", FSDP_ENTRY_FILE, "", "", FSDP_ROLE_OPTIM },
	{ "optimizer.bin", FSDP_ENTRY_FILE, "", "", FSDP_ROLE_OPTIM },
	{ "optimizer_#", FSDP_ENTRY_DIRECTORY, "optimizer", "", FSDP_ROLE_OPTIM },
};

static const struct fsdp_named_part others[] = {
	{ "scheduler.pt", FSDP_ENTRY_FILE, "", "scheduler", FSDP_ROLE_OTHER },
	{ "scaler.pt", FSDP_ENTRY_FILE, "", "scaler", FSDP_ROLE_OTHER },
	{ "rng_state.pth", FSDP_ENTRY_FILE, "", "rng_state", FSDP_ROLE_OTHER },
	{ "rng_state_#.pth", FSDP_ENTRY_FILE, "", "rng_state", FSDP_ROLE_OTHER,
		.rank = 1 },
};

/* ---- recognizing ---- */

static bool is_hugging_face(const struct fsdp_folder *folder)
{
	struct fsdp_look look = { .folder = folder };
	return fsdp_family_hugging_face.recognize(&look) != FSDP_SIGN_NONE;
}

static bool is_deepspeed(const struct fsdp_folder *folder)
{
	struct fsdp_look look = { .folder = folder };
	return fsdp_pattern_in(folder, FSDP_ENTRY_DIRECTORY, "global_step#") &&
	       fsdp_family_deepspeed.recognize(&look) != FSDP_SIGN_NONE;
}

/* The state is written last, and by one node only: without it the names of random states
 * identify a Trainer. */
static enum fsdp_sign recognize(const struct fsdp_look *look)
{
	const struct fsdp_folder *folder = look->folder;
	if (folder == NULL)
		return FSDP_SIGN_NONE;
	bool is_trained = fsdp_parts_are_in(folder, PARTS(optimizers));
	bool has_random = fsdp_folder_has(folder, "rng_state.pth", FSDP_ENTRY_FILE) ||
			  fsdp_pattern_in(folder, FSDP_ENTRY_FILE, "rng_state_#.pth");
	bool has_state = fsdp_folder_has(folder, STATE_FILE, FSDP_ENTRY_FILE);
	if (!has_state && !(has_random && is_trained))
		return FSDP_SIGN_NONE;
	return is_trained || fsdp_parts_are_in(folder, PARTS(fsdp_weights)) ||
			       fsdp_parts_are_in(folder, PARTS(bare_weights)) ||
			       is_hugging_face(folder) || is_deepspeed(folder)
		       ? FSDP_SIGN_SURE
		       : FSDP_SIGN_NONE;
}

/* ---- naming the parts ---- */

/* The directory itself, as another family. */
static void name_family(struct fsdp_reading *reading, const struct fsdp_family *family)
{
	struct fsdp_child *child =
		fsdp_reading_add_child(reading, (struct fsdp_span){ 0 }, FSDP_NONE);
	child->as = family->name;
}

static void name_weights(struct fsdp_reading *reading, struct trainer *trainer)
{
	const struct fsdp_folder *folder = trainer->folder;
	bool plain =
		is_hugging_face(folder) || fsdp_parts_are_in(folder, PARTS(bare_weights));
	if (fsdp_parts_are_in(folder, PARTS(fsdp_weights))) {
		if (plain)
			fsdp_reading_note(reading,
				"the weights are stored in a second form, which a resume with FSDP does not read; open it as a file to see it");
		fsdp_reading_add_parts(reading, folder, PARTS(fsdp_weights));
		return;
	}
	trainer->is_plain = plain;
	trainer->has_config = is_hugging_face(folder);
	trainer->is_deepspeed = is_deepspeed(folder);
	if (trainer->has_config)
		name_family(reading, &fsdp_family_hugging_face);
	else {
		/* The first of the files that a loader takes. */
		size_t i = 0;
		while (i < FSDP_COUNT(bare_weights) &&
			!fsdp_parts_are_in(folder, &bare_weights[i], 1))
			i++;
		if (i < FSDP_COUNT(bare_weights))
			fsdp_reading_add_parts(reading, folder, &bare_weights[i], 1);
	}
	if (trainer->is_deepspeed)
		name_family(reading, &fsdp_family_deepspeed);
}

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	const struct fsdp_folder *folder = look->folder;
	struct trainer *trainer = FSDP_TAKE(reading->scratch, trainer, 1);
	trainer->folder = folder;
	/* Every rank writes its random states, with its number where there are several.
	 */
	uint32_t numbers[FSDP_PATTERN_NUMBERS], count = 0;
	FSDP_EACH(i, folder->count, entry, fsdp_folder_entry(folder, i)) {
		if (fsdp_span_is(entry.name, "rng_state.pth") && count == 0)
			count = 1;
		if (fsdp_pattern_takes(entry.name, "rng_state_#.pth", numbers) &&
			numbers[0] >= count)
			count = numbers[0] != 0 ? numbers[0] + 1 : 2;
	}
	trainer->world_size = count;
	reading->state = trainer;
	(void)ret_error;
	name_weights(reading, trainer);
	fsdp_reading_add_parts(reading, folder, PARTS(optimizers));
	fsdp_reading_add_parts(reading, folder, PARTS(others));
	return true;
}

/* ---- after they were read ---- */

static bool is_there(const struct fsdp_folder *folder, const char *pattern)
{
	return fsdp_pattern_in(folder, FSDP_ENTRY_FILE, pattern);
}

/* A pickle keeps the order of the model, a safetensors file does not. */
static bool is_pickled(const struct fsdp_folder *folder)
{
	if (is_there(folder, "model.safetensors") ||
		is_there(folder, "model.safetensors.index.json") ||
		is_there(folder, "adapter_model.safetensors"))
		return false;
	return fsdp_parts_are_in(folder, PARTS(bare_weights)) ||
	       is_there(folder, "pytorch_model.bin.index.json");
}

/* Masters of what is stored as the model too, by the names of states. */
static void rename_masters(struct fsdp_reading *reading)
{
	struct fsdp_model *model = reading->model;
	bool *seen = fsdp_arena_take(reading->scratch, model->names.list.count + 1, 1);
	size_t names = model->names.list.count;
	FSDP_EACH(i, model->tensors.count, tensor, fsdp_model_tensor(model, i)) {
		if (tensor->name >= names || tensor->role != FSDP_ROLE_PARAM)
			continue;
		if (!seen[tensor->name]) {
			seen[tensor->name] = true;
			continue;
		}
		tensor->name = state_name(reading, tensor->name, FSDP_SPAN("fp32"));
		tensor->raw_name = tensor->name;
		tensor->path = FSDP_NONE;
		tensor->role = FSDP_ROLE_OPTIM;
		tensor->flags &= (uint16_t)~FSDP_TENSOR_ROLE_INFERRED;
	}
}

static void lack(struct fsdp_reading *reading, const char *file,
	enum fsdp_severity severity, const char *message)
{
	fsdp_find(&reading->model->findings, FSDP_RULE_RESUME_PART,
		FSDP_PLACE(.file = file != NULL ? fsdp_span_text(file)
						: (struct fsdp_span){ 0 },
			.severity = (int)severity + 1),
		"%s", message);
}

/* Of FSDP Trainer writes model, optimizer, schedule and random states in this order, and
 * save_only_model omits all four. */
static bool check_fsdp(struct fsdp_reading *reading, const struct trainer *trainer)
{
	const struct fsdp_folder *folder = trainer->folder;
	bool whole = is_there(folder, "optimizer.bin");
	bool parts = fsdp_pattern_in(folder, FSDP_ENTRY_DIRECTORY, "optimizer_#");
	bool model = fsdp_parts_are_in(folder, PARTS(fsdp_weights)) ||
		     is_there(folder, "pytorch_model_fsdp_rank#.bin");
	bool later = is_there(folder, "scheduler.pt") || trainer->world_size != 0;
	bool trained = fsdp_parts_are_in(folder, PARTS(optimizers));
	const char *gone = NULL;
	if (model && later && !trained)
		gone = is_there(folder, fsdp_weights[1].pattern) ? "optimizer.bin"
								 : "optimizer_0";
	else if (!model && (whole || parts))
		gone = whole ? fsdp_weights[1].pattern : "pytorch_model_fsdp_0";
	if (gone != NULL)
		fsdp_find(&reading->model->findings, FSDP_RULE_RESUME_PART,
			FSDP_PLACE(.file = fsdp_span_text(gone),
				.severity = FSDP_ERROR + 1,
				.fix = "copy it from where the checkpoint was written, or resume from another checkpoint"),
			model ? "optimizer of FSDP is missing, but files that Trainer writes after it are present; a resume starts with a fresh optimizer and schedule"
			      : "weights of FSDP are missing, but the optimizer of FSDP, which Trainer writes after them, is present; a resume with FSDP fails");
	return gone == NULL;
}

/* What a resume needs and does not find. Without the state file it does not even begin.
 */
static void check_parts(struct fsdp_reading *reading, const struct trainer *trainer)
{
	const struct fsdp_folder *folder = trainer->folder;
	if (!is_there(folder, STATE_FILE))
		fsdp_find(&reading->model->findings, FSDP_RULE_RESUME_PART,
			FSDP_PLACE(.file = FSDP_SPAN(STATE_FILE),
				.severity = FSDP_WARNING + 1,
				.fix = "copy the files of all nodes into one directory, or use an earlier checkpoint"),
			"missing file (Trainer writes it last): the save did not finish, or these files belong to a node that is not the first");
	if (!check_fsdp(reading, trainer))
		return;
	/* Scripts and pointers that DeepSpeed writes next to its directory. */
	if ((is_there(folder, "latest") || is_there(folder, "zero_to_fp32.py")) &&
		!fsdp_pattern_in(folder, FSDP_ENTRY_DIRECTORY, "global_step#"))
		lack(reading, NULL, FSDP_WARNING,
			"global_step<N> is missing: the DeepSpeed files here belong to it, and a resume with DeepSpeed fails without it");
	else if (is_there(folder, STATE_FILE)) {
		/* What Trainer loads with the weights: the optimizer and the schedule
		 * only together. */
		bool optimizer = fsdp_parts_are_in(folder, PARTS(optimizers));
		bool scheduler = is_there(folder, "scheduler.pt");
		bool random = trainer->world_size != 0;
		if (trainer->is_deepspeed && !scheduler)
			lack(reading, "scheduler.pt", FSDP_NOTE,
				"scheduler.pt is missing: a resume with DeepSpeed fails without it, unless the schedule is set in the DeepSpeed configuration and is stored in global_step<N>");
		else if (optimizer && !scheduler)
			lack(reading, "scheduler.pt", FSDP_WARNING,
				"scheduler.pt is missing: on resume the step continues, but optimizer and scheduler restart (Trainer loads both or none)");
		else if (!trainer->is_deepspeed && !optimizer && scheduler)
			lack(reading, "optimizer.pt", FSDP_WARNING,
				"optimizer.pt is missing: on resume the step continues, but optimizer and scheduler restart (Trainer loads both or none)");
		else if (!trainer->is_deepspeed && !optimizer)
			lack(reading, NULL, random ? FSDP_WARNING : FSDP_NOTE,
				random ? "optimizer.pt and scheduler.pt are missing: a resume keeps the step and the weights, and starts the optimizer and the schedule with fresh state"
				       : "only the model was saved (save_only_model): optimizer.pt, scheduler.pt and rng_state.pth are missing; a resume keeps the step and the weights, and restarts the optimizer and the schedule");
		if (!random && (trainer->is_deepspeed || optimizer || scheduler))
			lack(reading, "rng_state.pth", FSDP_NOTE,
				"random states are missing: a resumed run uses other random numbers");
	}
}

static void finish(struct fsdp_reading *reading)
{
	struct trainer *trainer = reading->state;
	struct fsdp_model *model = reading->model;
	if (!trainer->has_config)
		fsdp_hf_config(reading, trainer->folder);
	if (trainer->is_deepspeed && trainer->is_plain)
		rename_masters(reading);
	read_trainer_state(reading, trainer->folder);
	name_states(reading, is_pickled(trainer->folder));
	model->format = (struct fsdp_format){
		.family = "trainer",
		.title = "Hugging Face Trainer checkpoint",
		.writer = "transformers",
	};
	uint32_t ranks = trainer->world_size != 0 ? trainer->world_size
			 : trainer->is_plain && !trainer->is_deepspeed ? 1
								       : 0;
	if (ranks != 0 && (model->world_size == FSDP_NONE || ranks > model->world_size))
		model->world_size = ranks;
	check_parts(reading, trainer);
	/* Files of random states as many as there are ranks; files of data may show more
	 * ranks than these. */
	struct fsdp_ranks_here here = {
		.world_size = model->world_size, .at_least = true, .what = "file"
	};
	here.list = FSDP_TAKE(reading->scratch, here.list, reading->children.count + 1);
	FSDP_ITEMS(const struct fsdp_child, child, &reading->children) {
		if (child->rank == FSDP_NONE)
			continue;
		here.list[here.count++] = child->rank;
		here.example = child->name;
		here.example_rank = child->rank;
	}
	if (here.count != 0 && model->world_size != FSDP_NONE)
		fsdp_find_missing_ranks(
			&model->findings, &here, FSDP_PLACE(.severity = FSDP_NOTE + 1));
}

/* An index, which says no more than what is read anyway. */
static bool is_anchor(struct fsdp_span name)
{
	return fsdp_family_hugging_face.is_anchor(name) || fsdp_span_is(name, STATE_FILE);
}

const struct fsdp_family fsdp_family_trainer = {
	.name = "trainer",
	.title = "Hugging Face Trainer checkpoint",
	.recognize = recognize,
	.read = read,
	.finish = finish,
	.is_anchor = is_anchor,
};
