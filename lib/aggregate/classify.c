/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Concludes what kind of checkpoint it is: which FSDP, which state dict, which optimizer,
 * which step. A plan is asked first, then classes and placements, then names.
 */
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>

#include "aggregate/aggregate.h"
#include "base/error.h"

/* Two module names that are typical of an architecture. */
static const struct {
	const char *names[2], *is;
} architectures[] = {
	{ { "q_proj", "gate_proj" }, "Llama" },
	{ { "wq", "w1" }, "Llama" },
	{ { "c_attn", "c_fc" }, "GPT-2" },
	{ { "linear_qkv", "linear_qkv" }, "Megatron GPT" },
	{ { "SelfAttention", "SelfAttention" }, "T5" },
	{ { "query", "query" }, "BERT" },
};
enum { ARCHITECTURES = FSDP_COUNT(architectures) };

struct finder {
	const struct fsdp_checkpoint *checkpoint;
	const struct fsdp_overview_facts *facts;
	struct fsdp_kind *kind;
	struct fsdp_arena arena;
	struct fsdp_scratch name;
	size_t step_word;            /* of the table below; the first one is best */
	bool seen[ARCHITECTURES][2]; /* which of the names occur */
};

static void find_plan(struct finder *finder)
{
	struct fsdp_kind *kind = finder->kind;
	size_t count = fsdp_unit_count(finder->checkpoint);
	struct fsdp_plan_facts plan;
	kind->is_planned = fsdp_checkpoint_plan(finder->checkpoint, &plan);
	if (!kind->is_planned)
		return;
	kind->mesh = plan.mesh;
	FSDP_EACH(i, (uint32_t)count, unit, fsdp_unit(finder->checkpoint, i)) {
		if (unit.inferred || unit.api == NULL)
			continue;
		if (kind->flavour == FSDP_API_UNKNOWN)
			kind->strategy = unit.strategy;
		else if (kind->strategy != NULL &&
			 (unit.strategy == NULL ||
				 strcmp(unit.strategy, kind->strategy) != 0))
			kind->strategy = NULL;
		kind->flavour =
			strcmp(unit.api, "fsdp1") == 0 ? FSDP_API_FSDP1 : FSDP_API_FSDP2;
		kind->is_hybrid |= unit.replicate_world_size > 1 &&
				   unit.replicate_world_size != FSDP_NONE;
	}
}

/* ---- classes and placements ---- */

static bool has_word(struct fsdp_span text, const char *word)
{
	return memmem(text.data, text.size, word, strlen(word)) != NULL;
}

static void find_mesh_words(struct finder *finder)
{
	struct fsdp_kind *kind = finder->kind;
	if (kind->mesh == FSDP_NONE)
		return;
	struct fsdp_mesh mesh = fsdp_mesh(finder->checkpoint, kind->mesh);
	for (uint32_t i = 0; mesh.dim_names != NULL && i < mesh.dims; i++) {
		if (mesh.shape[i] < 2)
			continue;
		kind->is_hybrid |= has_word(mesh.dim_names[i], "replicate");
		kind->is_tensor_parallel |= fsdp_span_is(mesh.dim_names[i], "tp");
	}
}

static void find_classes(struct finder *finder)
{
	const struct fsdp_overview_facts *facts = finder->facts;
	struct fsdp_kind *kind = finder->kind;
	kind->flat_parameters = facts->flat_parameters;
	kind->lists_originals = facts->lists_originals;
	if (facts->has_dtensors || facts->has_sharded_tensors)
		kind->state_dict = FSDP_STATE_DICT_SHARDED;
	if (kind->flavour != FSDP_API_UNKNOWN)
		return;
	if (facts->has_dtensors)
		kind->flavour = FSDP_API_DTENSOR;
	else if (facts->has_sharded_tensors || kind->flat_parameters > 0)
		kind->flavour = FSDP_API_FSDP1;
}

static void find_state_dict(struct finder *finder)
{
	const struct fsdp_overview_facts *facts = finder->facts;
	struct fsdp_kind *kind = finder->kind;
	bool is_cut = false;
	for (size_t i = 0; i < facts->sharding_count; i++)
		is_cut |= facts->shardings[i].how != FSDP_SHARDING_REPLICATED;
	if (kind->flat_parameters > 0)
		kind->state_dict = FSDP_STATE_DICT_LOCAL;
	else if (is_cut)
		kind->state_dict = FSDP_STATE_DICT_SHARDED;
	else if (kind->state_dict == FSDP_STATE_DICT_UNKNOWN &&
		 kind->flavour != FSDP_API_UNKNOWN && facts->whole > 0)
		kind->state_dict = FSDP_STATE_DICT_FULL;
	/* Every rank of FSDP1 and of DTensors saved its own part: what is there more than
	 * once is a copy. */
	if (kind->flavour != FSDP_API_UNKNOWN && facts->sharding_count == 1 &&
		facts->shardings[0].how != FSDP_SHARDING_REPLICATED &&
		facts->shardings[0].copies > 1)
		kind->is_hybrid = true;
}

static bool has_state(const struct fsdp_overview_facts *facts, const char *key)
{
	for (size_t i = 0; i < facts->state_count; i++)
		if (strcmp(facts->states[i].key, key) == 0)
			return true;
	return false;
}

static void find_optimizer(struct finder *finder)
{
	static const struct {
		const char *key;
		enum fsdp_optimizer is;
	} KEYS[] = {
		{ "exp_avg_sq_row", FSDP_OPTIMIZER_ADAFACTOR },
		{ "exp_avg_sq", FSDP_OPTIMIZER_ADAM_OR_ADAMW },
		{ "exp_avg", FSDP_OPTIMIZER_LION },
		{ "square_avg", FSDP_OPTIMIZER_RMSPROP },
		{ "momentum_buffer", FSDP_OPTIMIZER_SGD },
		{ "sum", FSDP_OPTIMIZER_ADAGRAD },
	};

	for (size_t i = 0; i < FSDP_COUNT(KEYS); i++)
		if (has_state(finder->facts, KEYS[i].key)) {
			finder->kind->optimizer = KEYS[i].is;
			return;
		}
}

/* Best first. */
static const char *const step_words[] = { "step", "global_step", "iteration",
	"global_steps", "steps", "iter", "iter_num", "num_updates" };

/* fairseq keeps a list; each start of a run appends an entry. */
static bool is_history(struct fsdp_span name)
{
	return fsdp_span_begins(name, FSDP_SPAN("optimizer_history.")) &&
	       fsdp_span_ends(name, FSDP_SPAN(".num_updates"));
}

static void find_step(
	struct finder *finder, struct fsdp_span name, const struct fsdp_token *token)
{
	struct fsdp_span last = fsdp_span_last(name, '.');
	struct fsdp_kind *kind = finder->kind;
	/* Counters of a scheduler or of one parameter are not a step of the run. */
	struct fsdp_span parent = fsdp_span_first(name, '.');
	if (parent.size != name.size && !is_history(name) &&
		(memchr(name.data + parent.size + 1, '.', name.size - parent.size - 1) !=
				NULL ||
			has_word(parent, "sched") || has_word(parent, "random") ||
			has_word(parent, "optim") || has_word(parent, "state.") ||
			fsdp_span_is(parent, "state")))
		return;
	if (!kind->has_epoch && fsdp_span_is(last, "epoch")) {
		kind->has_epoch = true;
		kind->epoch = token->integer;
	}
	for (size_t i = 0; i < FSDP_COUNT(step_words); i++) {
		if (!fsdp_span_is(last, step_words[i]) ||
			(i >= finder->step_word &&
				!(i == finder->step_word && is_history(name))))
			continue;
		finder->step_word = i;
		kind->has_step = true;
		kind->step = token->integer;
	}
}

static bool find_modules(struct finder *finder)
{
	size_t count = fsdp_module_count(finder->checkpoint);
	uint32_t *numbered = calloc(count + 1, sizeof *numbered);
	bool *is_inner = calloc(count + 1, sizeof *is_inner);
	bool good = numbered != NULL && is_inner != NULL;
	for (uint32_t i = 1; good && i < count; i++) {
		struct fsdp_module module = fsdp_module(finder->checkpoint, i);
		struct fsdp_span last = fsdp_name_last(finder->checkpoint, module.name);
		if (module.wrapper != FSDP_WRAPPER_NONE || module.parent == FSDP_NONE)
			continue;
		for (size_t j = 0; j < 2 * ARCHITECTURES; j++)
			finder->seen[j / 2][j % 2] |=
				fsdp_span_is(last, architectures[j / 2].names[j % 2]);
		numbered[module.parent] += fsdp_span_is_number(last);
	}
	if (good) {
		/* The longest list of numbered modules that is not within a module of
		 * such a list: experts are in a layer. */
		for (uint32_t i = 1; i < count; i++) {
			struct fsdp_module module = fsdp_module(finder->checkpoint, i);
			struct fsdp_span last =
				fsdp_name_last(finder->checkpoint, module.name);
			if (module.parent == FSDP_NONE)
				continue;
			is_inner[i] = is_inner[module.parent] ||
				      (fsdp_span_is_number(last) &&
					      numbered[module.parent] > 1);
			if (!is_inner[i] || is_inner[module.parent])
				continue;
			if (numbered[module.parent] > finder->kind->layers)
				finder->kind->layers = numbered[module.parent];
		}
		for (size_t i = ARCHITECTURES; i-- > 0;)
			if (finder->seen[i][0] && finder->seen[i][1])
				finder->kind->looks_like = architectures[i].is;
	}
	free(numbered);
	free(is_inner);
	return good;
}

bool fsdp_checkpoint_classify(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_overview_facts *facts, struct fsdp_kind *ret_kind,
	struct fsdp_error **ret_error)
{
	struct fsdp_budget budget = { .ceiling = UINT64_MAX };
	struct finder finder = { .checkpoint = checkpoint,
		.facts = facts,
		.kind = ret_kind,
		.name = { .arena = &finder.arena } };
	bool good = true;
	*ret_kind = (struct fsdp_kind){ .mesh = FSDP_NONE };
	fsdp_arena_init_lean(&finder.arena, &budget);
	find_plan(&finder);
	/* The mesh of the plan, unless a tensor has more dimensions. */
	struct fsdp_kind *kind = finder.kind;
	uint32_t mesh = finder.facts->mesh;
	if (mesh != FSDP_NONE &&
		(kind->mesh == FSDP_NONE ||
			fsdp_mesh(finder.checkpoint, mesh).dims >
				fsdp_mesh(finder.checkpoint, kind->mesh).dims))
		kind->mesh = mesh;
	find_classes(&finder);
	if (fsdp_sum_count(checkpoint) == 0)
		good = find_modules(&finder);
	find_mesh_words(&finder);
	find_state_dict(&finder);
	find_optimizer(&finder);
	size_t count = fsdp_value_count(finder.checkpoint);
	finder.step_word = FSDP_COUNT(step_words);
	for (uint32_t i = 0; i < count && !finder.name.failed; i++) {
		struct fsdp_value value = fsdp_value(finder.checkpoint, i);
		struct fsdp_span name;
		if (value.token_count != 1 ||
			(value.tokens->kind != FSDP_TOKEN_INTEGER &&
				value.tokens->kind != FSDP_TOKEN_BOOL))
			continue;
		name = fsdp_scratch_name(&finder.name, finder.checkpoint, value.name);
		if (value.tokens->kind == FSDP_TOKEN_INTEGER)
			find_step(&finder, name, value.tokens);
		else if (kind->optimizer == FSDP_OPTIMIZER_ADAM_OR_ADAMW &&
			 fsdp_span_is(
				 fsdp_span_last(name, '.'), "decoupled_weight_decay"))
			kind->optimizer = value.tokens->integer != 0
						  ? FSDP_OPTIMIZER_ADAMW
						  : FSDP_OPTIMIZER_ADAM;
	}
	good = good && !finder.name.failed;
	fsdp_arena_done(&finder.arena);
	return good || fsdp_fail_memory(ret_error);
}
