/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trainer.train(resume_from_checkpoint=directory), in a run of the kind that saved it.
 *
 * Origin: transformers/trainer.py, trainer_utils.py, integrations/deepspeed.py (5.23,
 * 5.24).
 */
#include "loaders/loading.h"
#include "base/names.h"
#include "base/num.h"
#include "base/sort.h"

#define FSDP_FOLDER "pytorch_model_fsdp_0"

/* What the run that saved it used and left; whether weights are read from files of the
 * model, and whether that model is known. */
enum {
	SHARDS = 1 << 0,
	FSDP = 1 << 1,
	DEEPSPEED = 1 << 2,
	PLAIN = 1 << 3,
	MODEL = 1 << 4,
	CONFIG = 1 << 5,
	RUN = 1 << 6,
	OPTIMIZER = 1 << 7,
	STATES = 1 << 8, /* of DeepSpeed */
	/* What the run that loads uses, as the caller chose. */
	RUNS_FSDP = 1 << 9,
	RUNS_WITHOUT = 1 << 10,
	RUNS_DEEPSPEED = 1 << 11,
	OTHER_RUN = 1 << 12
};

static const struct fsdp_load_fact facts[] = {
	{ SHARDS | FSDP, FSDP_FOLDER },
	{ FSDP, "pytorch_model_fsdp.bin" },
	{ CONFIG, "config.json" },
	/* A model that was saved by itself has none of these. */
	{ RUN, "optimizer.pt optimizer.bin scheduler.pt training_args.bin rng_state.pth rng_state_*" },
	{ STATES, "*_states.pt */*_states.pt" },
	{ OPTIMIZER, "optimizer.pt optimizer.bin optimizer_0" },
	{ RUNS_FSDP, .option = "fsdp", .values = "true" },
	{ RUNS_WITHOUT, .option = "fsdp", .values = "false" },
	{ RUNS_DEEPSPEED, .option = "deepspeed", .values = "true" },
	{ 0 },
};

static void begin(struct fsdp_loading *loading)
{
	bool is_fsdp = (loading->is & FSDP) != 0;
	bool is_deepspeed = !is_fsdp && fsdp_load_flag(loading, "deepspeed",
						(loading->is & STATES) != 0);
	loading->lists_weights = !is_fsdp && !is_deepspeed;
	loading->is |=
		(is_deepspeed ? DEEPSPEED : 0) | (loading->lists_weights ? PLAIN : 0);
	/* A run with FSDP takes files of a plain one, in ways that were not seen. */
	if ((loading->is & (is_fsdp ? RUNS_DEEPSPEED : RUNS_FSDP)) != 0)
		loading->is |= OTHER_RUN;
	if (is_deepspeed)
		(void)fsdp_load_read_zero(loading);
	if ((loading->is & PLAIN) != 0 &&
		(loading->is & (CONFIG | FSDP_LOAD_EXPECTS)) != 0)
		loading->is |= MODEL;
}

/* Trainer makes two groups, one that decays and one that does not; another optimizer may
 * have been handed to it. */
static bool has_one_group(struct fsdp_loading *loading)
{
	static const char *const names[] = { "param_groups.0.lr", "param_groups.1.lr",
		"param_groups.0.param_names.0" };
	const struct fsdp_checkpoint *checkpoint =
		fsdp_load_has_file(loading, "optimizer.pt")
			? fsdp_load_open(loading, "optimizer.pt")
			: NULL;
	for (size_t i = 0; checkpoint != NULL && i < FSDP_COUNT(names); i++)
		if ((fsdp_name_find(checkpoint, fsdp_span_text(names[i])) == FSDP_NONE) !=
			(i > 0))
			return false;
	return checkpoint != NULL;
}

/*
 * ---- the optimizer of another model ----
 *
 * States have numbers in place of names, and shapes. torch compares only numbers of
 * parameters, and fails at the first step, or trains with the moments of other
 * parameters.
 */

enum {
	LAYER_SHAPES = 3 /* of a layer, at least; a loss that is trained has fewer */
};

/* Types of models whose tensors are stored as they are trained. transformers joins or
 * splits those of others.
 *
 * Origin: transformers/conversion_mapping.py (5.24). */
static const char *const plain_types[] = {
	"llama mistral qwen2 qwen3 gemma gemma2 gemma3_text granite olmo olmo2 olmo3",
	"smollm3 gpt2 gpt_neo gpt_neox gptj opt bloom falcon phi phi3 starcoder2 stablelm",
	"cohere cohere2 glm glm4 bert roberta xlm-roberta distilbert electra deberta",
	"deberta-v2 albert camembert mpnet modernbert longformer t5 mt5 umt5 bart mbart",
	"pegasus marian m2m_100 whisper wav2vec2 hubert wavlm vit deit beit dinov2 swin",
	"convnext resnet clip siglip helium exaone4 mamba mamba2 codegen esm nemotron blip",
	"seed_oss gpt_oss arcee apertus xlnet big_bird",
};

/* Hashes of shapes, in order. */
struct shapes {
	uint64_t *items;
	size_t count;
};

static struct shapes begin_shapes(struct fsdp_loading *loading, size_t most)
{
	struct shapes shapes = { 0 };
	shapes.items = FSDP_TAKE(loading->arena, shapes.items, most + 1);
	return shapes;
}

static size_t count_of(const struct shapes *shapes, uint64_t shape)
{
	size_t first = 0, high = shapes->count, end;
	FSDP_HALVE(first, high, middle, shapes->items[middle] < shape)
	end = first;
	high = shapes->count;
	FSDP_HALVE(end, high, middle, shapes->items[middle] <= shape)
	return end - first;
}

/* An adapter is what was trained if it is LoRA; other kinds are stored differently. */
static bool is_stored_as_trained(
	struct fsdp_loading *loading, const struct fsdp_checkpoint *weights)
{
	struct fsdp_span type = fsdp_load_text(loading, "config.json", "model_type");
	bool is_plain = type.size == 0, has_lora = false;
	for (size_t i = 0; i < FSDP_COUNT(plain_types); i++)
		is_plain |= fsdp_span_is_any(type, plain_types[i]);
	if (!fsdp_span_begins(
		    fsdp_span_text(loading->weights), FSDP_SPAN("adapter_model.")))
		return is_plain;
	for (uint32_t i = 0; i < fsdp_tensor_count(weights); i++) {
		struct fsdp_span text = fsdp_load_copy_name(
			loading, weights, fsdp_tensor(weights, i).name);
		has_lora |= fsdp_span_has_any(text, ".lora_A.");
		if (fsdp_span_has_any(text, ".lora_E"))
			return false;
	}
	return has_lora;
}

/* The weights, of several models where accelerate prepared several. False: not known, or
 * stored in another form. */
static bool list_weights(struct fsdp_loading *loading, const struct fsdp_hasher *hasher,
	struct shapes *ret_stored)
{
	enum { MODELS_MAX = 64 };
	static const char further[] = "model_*.safetensors pytorch_model_*.bin";
	const struct fsdp_checkpoint *models[MODELS_MAX];
	const struct fsdp_scan_entry *entry;
	size_t count = 0, most = 0, optimizers = 0;

	models[count++] = fsdp_load_opened(loading);
	for (size_t at = 0; loading->rule->arg == FSDP_LOAD_EACH_STATE &&
			    (entry = fsdp_load_next(loading, &at, further)) != NULL;) {
		if (count == MODELS_MAX)
			return false;
		models[count++] = fsdp_load_open(loading, (const char *)entry->name.data);
	}
	for (size_t at = 0; fsdp_load_next(loading, &at, loading->rule->text) != NULL;)
		optimizers++;
	/* With fewer models a file of weights may be missing. */
	if (optimizers > count)
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!fsdp_load_is_sound(models[i]) ||
			!is_stored_as_trained(loading, models[i]))
			return false;
		most += fsdp_tensor_count(models[i]);
	}
	*ret_stored = begin_shapes(loading, most);
	for (size_t k = 0; k < count; k++)
		for (uint32_t i = 0; i < fsdp_tensor_count(models[k]); i++) {
			struct fsdp_tensor weight = fsdp_tensor(models[k], i);
			/* With an index all files of the directory are read. */
			if (weight.role != FSDP_ROLE_OPTIM &&
				weight.role != FSDP_ROLE_OTHER)
				ret_stored->items[ret_stored->count++] = fsdp_hash_shape(
					hasher, weight.shape, weight.dims);
		}
	FSDP_SORT(ret_stored->items, ret_stored->count, FSDP_BY_VALUE(ret_stored->items));
	return true;
}

static bool is_of_other(struct fsdp_loading *loading, const char *file,
	const struct fsdp_hasher *hasher, const struct shapes *stored)
{
	const struct fsdp_checkpoint *optimizer = fsdp_load_open(loading, file);
	struct shapes states;
	uint32_t key = FSDP_NONE;
	size_t excess = 0, kinds = 0, strays = 0, others = 0, count;
	uint64_t sum = 0, sum_of_others = 0;
	if (!fsdp_load_is_sound(optimizer))
		return false;
	/* Optimizers that project gradients to fewer dimensions keep how: in their
	 * groups, or a projector in each state. */
	for (uint32_t i = 0; i < fsdp_value_count(optimizer); i++)
		if (fsdp_span_has_any(fsdp_load_copy_name(loading, optimizer,
					      fsdp_value(optimizer, i).raw_name),
			    ".rank .projector .update_proj_gap"))
			return false;
	states = begin_shapes(loading, fsdp_tensor_count(optimizer));
	/* Adam keeps two of one shape: those with the key of the first count. */
	for (uint32_t i = 0; i < fsdp_tensor_count(optimizer); i++) {
		struct fsdp_tensor state = fsdp_tensor(optimizer, i);
		struct fsdp_span last = fsdp_name_last(optimizer, state.name);
		uint64_t shape;
		if (state.dims == 0)
			continue;
		if (!fsdp_span_is_any(last, "exp_avg exp_avg_sq max_exp_avg_sq "
					    "momentum_buffer square_avg grad_avg"))
			return false;
		if (key == FSDP_NONE)
			key = i;
		shape = fsdp_hash_shape(hasher, state.shape, state.dims);
		if (fsdp_span_equal(last, fsdp_name_last(optimizer,
						  fsdp_tensor(optimizer, key).name))) {
			states.items[states.count++] = shape;
			sum += shape;
		} else {
			others++;
			sum_of_others += shape;
		}
	}
	/* Where two states of a parameter differ, only these are wrong. */
	if (states.count == 0 || others % states.count != 0 ||
		sum_of_others != others / states.count * sum)
		return false;
	FSDP_SORT(states.items, states.count, FSDP_BY_VALUE(states.items));
	for (size_t i = 0; i < states.count; i += count) {
		size_t due = count_of(stored, states.items[i]);
		count = count_of(&states, states.items[i]);
		excess += count > due ? count - due : 0;
		strays += due == 0;
		kinds += count > due;
	}
	/* Those of frozen parameters are absent. */
	if (loading->rule->arg == FSDP_LOAD_EACH_STATE
			? strays == 0
			: 2 * excess <= states.count &&
				  (excess == 0 || states.count != stored->count) &&
				  (kinds < LAYER_SHAPES || states.count <= stored->count))
		return false;
	for (uint32_t i = key; i < fsdp_tensor_count(optimizer); i++) {
		struct fsdp_tensor state = fsdp_tensor(optimizer, i);
		uint64_t shape = fsdp_hash_shape(hasher, state.shape, state.dims);
		size_t due = count_of(stored, shape);
		count = count_of(&states, shape);
		if (state.dims == 0 || count <= due || (strays > 0 && due > 0))
			continue;
		fsdp_load_report(loading, 0, "%.*s of %s",
			FSDP_TEXT_MOST(
				fsdp_load_copy_name(loading, optimizer, state.raw_name),
				200),
			file);
		fsdp_load_write_numbers(loading, 1,
			&(struct fsdp_load_tensor){
				.shape = state.shape, .dims = state.dims });
		return due == 0 ? fsdp_load_report(loading, 2, "no weight has")
				: fsdp_load_report(loading, 2,
					  "%zu states but only %zu weights have", count,
					  due);
	}
	return false;
}

bool fsdp_load_has_other_optimizer(struct fsdp_loading *loading)
{
	struct fsdp_hasher hasher = fsdp_hasher_new();
	const struct fsdp_scan_entry *entry;
	struct shapes stored;
	size_t at = 0;
	if (loading->weights == NULL || !list_weights(loading, &hasher, &stored))
		return false;
	while ((entry = fsdp_load_next(loading, &at, loading->rule->text)) != NULL)
		if (is_of_other(
			    loading, (const char *)entry->name.data, &hasher, &stored))
			return true;
	return false;
}

/* ---- rules ---- */

/* PEFT looks for no name of LoRA that a wrapper changed. */
static bool has_wrapped_adapter(struct fsdp_loading *loading)
{
	const struct fsdp_load_tensors *stored;
	if (loading->weights == NULL ||
		!fsdp_span_begins(
			fsdp_span_text(loading->weights), FSDP_SPAN("adapter_model.")))
		return false;
	stored = fsdp_load_list_all(loading);
	for (size_t i = 0; i < stored->count; i++)
		if (fsdp_span_has_any(stored->items[i].name, ".lora_A. .lora_B.") &&
			(fsdp_span_begins(stored->items[i].name, FSDP_SPAN("module.")) ||
				fsdp_span_has_any(stored->items[i].name, "_orig_mod.")))
			fsdp_load_name(loading, stored->items[i].name);
	return loading->all_names > 0;
}

#define NO_WEIGHTS "the directory has no weights"
#define STATE .lacks = "trainer_state.json"

static const struct fsdp_load_rule rules[] = {
	FSDP_REFUSES(OTHER_RUN, .when = FSDP | RUNS_WITHOUT, .fix = "resume with FSDP",
		.message =
			"the checkpoint was saved with FSDP, and the run does not use it"),
	FSDP_NOT_JUDGED(OTHER_RUN, .when = OTHER_RUN, .ends = true,
		.message = "a run with other kinds of files is not supported"),
	FSDP_REFUSES(NO_WEIGHTS, .message = NO_WEIGHTS, .when = PLAIN | FSDP_LOAD_NONE),
	FSDP_REFUSES(
		NO_WEIGHTS, .message = NO_WEIGHTS, .when = DEEPSPEED, .unless = STATES),
	FSDP_REFUSES(MISSING_FILE,
		.fix = "start a new run from this model, without resume_from_checkpoint",
		.when = PLAIN, .unless = RUN, STATE),
	FSDP_REFUSES(MISSING_FILE,
		.fix = "copy {0} from where the checkpoint was written, or resume from an earlier checkpoint",
		.when = RUN, STATE),
	FSDP_REFUSES(MISSING_FILE, .fix = FSDP_NO_FIX, STATE),
	/* Trainer opens each without a guard. */
	FSDP_REFUSES(DAMAGED_FILE, NULL, FSDP_LOAD_BROKEN,
		.broken =
			"trainer_state.json optimizer.pt optimizer.bin scheduler.pt rng_state*"),
	FSDP_REFUSES(DAMAGED_FILE, NULL, FSDP_LOAD_BROKEN, .when = PLAIN,
		.broken =
			"config.json model.safetensors.index.json pytorch_model.bin.index.json"),
	FSDP_REFUSES(MISSING_FILE, .when = SHARDS, .lacks = FSDP_FOLDER "/.metadata"),
	FSDP_REFUSES(MISSING_FILE, .when = SHARDS, .lacks = "optimizer_0/.metadata"),
	FSDP_REFUSES(MISSING_FILE, fsdp_load_lacks_data, .when = SHARDS,
		.text = FSDP_FOLDER " optimizer_0"),
	/* Trainer names no tag itself. */
	FSDP_REFUSES(TAG, fsdp_load_has_no_tag, NULL, FSDP_NO_FIX, .when = DEEPSPEED),
	FSDP_REFUSES(MISSING_FILE, fsdp_load_lacks_states, .when = DEEPSPEED),
	FSDP_REFUSES(WORLD_SIZE, fsdp_load_is_other_world, .when = DEEPSPEED),
	FSDP_REFUSES(MISSING_FILE, fsdp_load_lacks_optimizer, .when = DEEPSPEED),
	FSDP_READS_WEIGHTS(PLAIN),
	FSDP_TAKES_DICT(PLAIN),
	FSDP_NOT_JUDGED(UNREAD, fsdp_load_cannot_open, .when = PLAIN),
	FSDP_NOT_JUDGED(UNKNOWN_MODEL, fsdp_load_has_no_model, .when = MODEL),
	FSDP_REFUSES(SHAPE, fsdp_load_is_misshaped, .when = MODEL),
	FSDP_DIFFERS(MISSING_TENSOR, fsdp_load_misses, .when = MODEL),
	FSDP_DIFFERS(OTHER_NAMES, has_wrapped_adapter,
		"{0} is not a name of the adapter: its tensors keep their initial values",
		FSDP_NO_FIX, .when = PLAIN),
	FSDP_DIFFERS(SHAPE, fsdp_load_has_other_optimizer, .when = PLAIN,
		.text = "optimizer.pt", FSDP_OTHER_OPTIMIZER),
	FSDP_DIFFERS(OPTIMIZER, .unless = DEEPSPEED | OPTIMIZER,
		.message =
			"the optimizer is missing: it and the scheduler restart, the step continues"),
	FSDP_DIFFERS(OPTIMIZER, .when = OPTIMIZER, .unless = DEEPSPEED,
		.lacks = "scheduler.pt",
		.message =
			"{0} is missing: optimizer and scheduler restart, the step continues"),
	FSDP_NOT_JUDGED(OPTIMIZER, has_one_group,
		"the optimizer has one parameter group, and that of Trainer has two: it refuses, unless an optimizer with one group is passed to it"),
	FSDP_COMPARES_SETS(PLAIN),
	{ 0 },
};

static const struct fsdp_loader_option options[] = {
	{ "fsdp", fsdp_load_flags, false, "whether the run uses FSDP" },
	{ "deepspeed", fsdp_load_flags, false, "whether the run uses DeepSpeed" },
	{ NULL },
};

FSDP_LOADER(trainer, "Trainer", "transformers", ("5.24.0", "5.23.0"),
	.order =
		"model.safetensors pytorch_model.bin adapter_model.safetensors "
		"adapter_model.bin model.safetensors.index.json pytorch_model.bin.index.json",
	.options = options);
