/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders values by how much they tell of a run: the last part of a name is looked up, and
 * the parts before it tell whose it is.
 */
#include <string.h>

#include "part/notable.h"
#include "run/answer.h"

static const struct {
	const char *word;
	enum notable notable;
} WORDS[] = {
	{ "step", NOTABLE_PROGRESS },
	{ "steps", NOTABLE_PROGRESS },
	{ "global_step", NOTABLE_PROGRESS },
	{ "global_steps", NOTABLE_PROGRESS },
	{ "iteration", NOTABLE_PROGRESS },
	{ "epoch", NOTABLE_PROGRESS },
	{ "ntokens_seen", NOTABLE_PROGRESS },
	{ "tokens", NOTABLE_PROGRESS },
	{ "tokens_seen", NOTABLE_PROGRESS },
	{ "num_input_tokens_seen", NOTABLE_PROGRESS },
	{ "consumed_train_samples", NOTABLE_PROGRESS },
	{ "quant_method", NOTABLE_METHOD },
	{ "quant_type", NOTABLE_METHOD },
	{ "bits", NOTABLE_METHOD },
	{ "load_in_4bit", NOTABLE_METHOD },
	{ "load_in_8bit", NOTABLE_METHOD },
	{ "peft_type", NOTABLE_METHOD },
	{ "init_r", NOTABLE_METHOD },
	{ "tp", NOTABLE_PARALLEL },
	{ "pp", NOTABLE_PARALLEL },
	{ "dp_world_size", NOTABLE_PARALLEL },
	{ "mp_world_size", NOTABLE_PARALLEL },
	{ "tp_size", NOTABLE_PARALLEL },
	{ "pp_size", NOTABLE_PARALLEL },
	{ "tensor_model_parallel_size", NOTABLE_PARALLEL },
	{ "pipeline_model_parallel_size", NOTABLE_PARALLEL },
	{ "lr", NOTABLE_RATE },
	{ "learning_rate", NOTABLE_RATE },
};

static bool begins(struct text text, const char *word)
{
	size_t size = strlen(word);

	return text.size >= size && memcmp(text.data, word, size) == 0;
}

/* Of a part of a name: what it names counts for itself what the run counts too. */
static bool has_own_counters(struct text part)
{
	static const char *const OWNERS[] = { "optim", "lr_sched", "sched", "dataloader",
		"random", "data_loader" };

	for (size_t i = 0; i < sizeof OWNERS / sizeof *OWNERS; i++)
		if (begins(part, OWNERS[i]))
			return true;
	return text_is(part, text_of("state"));
}

static bool is_below_owner(struct text name)
{
	for (size_t at = 0;;) {
		const char *dot = memchr(name.data + at, '.', name.size - at);
		if (dot == NULL)
			return false;
		size_t end = (size_t)(dot - name.data);
		if (has_own_counters((struct text){ name.data + at, end - at }))
			return true;
		at = end + 1;
	}
}

/* "r" is the rank of LoRA only where an adapter's settings lie. */
static bool is_rank_of_lora(struct text last, struct text name)
{
	return text_is(last, text_of("r")) &&
	       (memmem(name.data, name.size, "lora", 4) != NULL ||
		       begins(name, "adapter_config.") || begins(name, "peft"));
}

enum notable notable_value(struct text name, const struct fsdp_token *token)
{
	struct text last = text_last(name, '.');

	if (token != NULL &&
		(token->kind == FSDP_TOKEN_NONE || token->kind == FSDP_TOKEN_BYTES))
		return NOTABLE_OPAQUE;
	if (is_rank_of_lora(last, name))
		return NOTABLE_METHOD;
	for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
		if (!text_is(last, text_of(WORDS[i].word)))
			continue;
		if (WORDS[i].notable == NOTABLE_PROGRESS && is_below_owner(name))
			return NOTABLE_OTHER;
		return WORDS[i].notable;
	}
	if (name.size > 0 && memmem(name.data, name.size, "param_groups.", 13) != NULL)
		return NOTABLE_SETTING;
	return NOTABLE_OTHER;
}
