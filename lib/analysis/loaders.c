/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the rules of loaders over the contents of a directory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/loaders/loading.h"
#include "base/error.h"
#include "base/num.h"

static const struct fsdp_loader *const loaders[] = {
	&fsdp_loader_hf,
	&fsdp_loader_trainer,
	&fsdp_loader_peft,
	&fsdp_loader_accelerate,
	&fsdp_loader_dcp,
	&fsdp_loader_deepspeed,
	&fsdp_loader_megatron,
	&fsdp_loader_weights_only,
};

struct fsdp_loads {
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_load_result *results;
	size_t count;
};

const char *fsdp_load_verdict_name(enum fsdp_load_verdict verdict)
{
	static const char *const names[] = { "loads", "differs", "refuses",
		"not_judged" };

	return names[(unsigned)verdict < FSDP_COUNT(names) ? verdict
							   : FSDP_LOAD_NOT_JUDGED];
}

const char *fsdp_loader_name(size_t index)
{
	return index < FSDP_COUNT(loaders) ? loaders[index]->name : NULL;
}

static const struct fsdp_loader *find_loader(const char *name)
{
	for (size_t i = 0; i < FSDP_COUNT(loaders); i++)
		if (strcmp(loaders[i]->name, name) == 0)
			return loaders[i];
	return NULL;
}

/* ---- loader of a directory ---- */

/* Files that a directory of a family must have; "a*b": a name that starts with a and ends with b, not in a
 * subdirectory. */
struct family {
	const char *loader; /* NULL: no loader takes it */
	const char *any[10], *and_any[12];
	const char *key; /* config.json has it, or … */
	const char *other_key;
	bool (*holds)(struct fsdp_loading *loading); /* or this */
};

/* In the directory of a tag. */
static bool has_states_below(struct fsdp_loading *loading)
{
	for (size_t i = 0; i < fsdp_survey_entry_count(loading->survey); i++) {
		struct fsdp_span name = fsdp_survey_entry(loading->survey, i)->name;
		if (memchr(name.data, '/', name.size) != NULL &&
			fsdp_span_ends(name, FSDP_SPAN("_states.pt")))
			return true;
	}
	return false;
}

#define OF_RUN                                                                 \
	{                                                                      \
		"optimizer.pt", "optimizer.bin", "scheduler.pt", "rng_state*", \
			"optimizer_0", "global_step*", "pytorch_model_fsdp_0"  \
	}
#define OF_MODEL                                                                   \
	{                                                                          \
		"model.safetensors*", "pytorch_model.bin*", "model-*.safetensors", \
			"pytorch_model-*.bin", "model.*.safetensors",              \
			"consolidated.safetensors", "pytorch_model.pt",            \
			"pytorch_model_fsdp_0"                                     \
	}

/* The first that holds. */
static const struct family families[] = {
	/* Of MLX, Meta and Mistral, vLLM, and of other programs with names like those of PEFT. */
	{ NULL, { "adapters.safetensors", "*.gguf", "params.json", "model-rank-*" } },
	{ NULL, { "config.json" }, .key = "quantization" },
	{ "trainer", { "trainer_state.json", "training_args.bin" }, OF_RUN },
	{ "deepspeed", .holds = has_states_below },
	{ "accelerate", { "random_states_*", "optimizer.bin", "scheduler.bin" },
		{ "model.safetensors*", "pytorch_model.bin*", "pytorch_model_fsdp*",
			"random_states_*" } },
	{ "megatron", { "metadata.json", "common.pt" }, { ".metadata", "*.distcp" } },
	{ "dcp", { ".metadata", "*.distcp" } },
	{ "hf", { "config.json" }, OF_MODEL, "model_type", "architectures" },
	{ "peft", { "adapter_config.json", "adapter_model.*" } },
	{ "hf", { "generation_config.json" }, OF_MODEL },
};

static bool has_like(struct fsdp_loading *loading, const char *pattern)
{
	const char *star = strchr(pattern, '*');
	char begin[FSDP_LOAD_WORD];

	if (star == NULL)
		return fsdp_survey_find(loading->survey, pattern) != NULL;
	snprintf(begin, sizeof begin, "%.*s", (int)(star - pattern), pattern);
	return fsdp_load_has_any(loading, begin, star + 1);
}

static bool has_one_of(
	struct fsdp_loading *loading, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count && names[i] != NULL; i++)
		if (has_like(loading, names[i]))
			return true;
	return false;
}

static bool is_family(struct fsdp_loading *loading, const struct family *family)
{
	bool has_key = family->key == NULL;

	if (family->holds != NULL)
		return family->holds(loading);
	for (unsigned i = 0; i < 2 && !has_key; i++) {
		const char *key = i == 0 ? family->key : family->other_key;
		has_key = key != NULL &&
			  fsdp_load_setting(loading, "config.json", key).end != 0;
	}
	return has_key && has_one_of(loading, family->any, FSDP_COUNT(family->any)) &&
	       (family->and_any[0] == NULL ||
		       has_one_of(loading, family->and_any, FSDP_COUNT(family->and_any)));
}

static const struct fsdp_loader *find_own(struct fsdp_survey *survey)
{
	struct fsdp_loading loading = { .survey = survey };

	for (size_t i = 0; i < FSDP_COUNT(families); i++)
		if (is_family(&loading, &families[i]))
			return families[i].loader != NULL
				       ? find_loader(families[i].loader)
				       : NULL;
	return NULL;
}

/* ---- versions ---- */

/* The version of a loader's library that the rules are of: "4.57" takes 4.57.6. */
static const char *find_version(const struct fsdp_loader *loader, const char *wanted)
{
	if (wanted == NULL)
		return loader->versions[0];
	for (size_t i = 0; loader->versions[i] != NULL; i++)
		if (fsdp_load_compare_versions(loader->versions[i], wanted) == 0)
			return loader->versions[i];
	return NULL;
}

const struct fsdp_loader_option *fsdp_loader_option(const char *loader, size_t index)
{
	const struct fsdp_loader *found = find_loader(loader);

	for (size_t i = 0;
		found != NULL && found->options != NULL && found->options[i].name != NULL;
		i++)
		if (i == index)
			return &found->options[i];
	return NULL;
}

bool fsdp_loader_has_version(const char *loader, const char *version)
{
	const struct fsdp_loader *found = find_loader(loader);

	return found != NULL && find_version(found, version) != NULL;
}

static bool is_of(const struct fsdp_load_rule *rule, const char *version)
{
	return (rule->since == NULL ||
		       fsdp_load_compare_versions(version, rule->since) >= 0) &&
	       (rule->until == NULL ||
		       fsdp_load_compare_versions(version, rule->until) < 0);
}

static bool holds(struct fsdp_loading *loading, const struct fsdp_load_rule *rule)
{
	return (rule->when & ~loading->is) == 0 &&
	       (rule->lacks == NULL || fsdp_load_lacks(loading, "%s", rule->lacks)) &&
	       (rule->finding == NULL || fsdp_load_has_finding(loading, rule->finding)) &&
	       (rule->holds == NULL || rule->holds(loading));
}

static const struct load_code {
	const char *name, *message, *fix;
} codes[] = {
#define FSDP_LOAD_CODE(constant, code, message, fix) { code, message, fix },
#include "analysis/loaders/load-codes.def"
#undef FSDP_LOAD_CODE
};

const char *fsdp_load_code_name(size_t index)
{
	return index < FSDP_COUNT(codes) ? codes[index].name : NULL;
}

/* What a mark in a text stands for, or NULL; *ret_size: of the mark. */
static const char *meaning(
	const struct fsdp_loading *loading, const char *at, size_t *ret_size)
{
	static const char path[] = "{path}";

	*ret_size = sizeof path - 1;
	if (strncmp(at, path, sizeof path - 1) == 0)
		return loading->path;
	*ret_size = 3;
	if (at[0] == '{' && at[1] >= '0' && at[1] < '0' + FSDP_LOAD_WORDS && at[2] == '}')
		return loading->words[at[1] - '0'];
	return NULL;
}

/* The text with its marks filled in; of two turns the first measures. */
static const char *fill_in(struct fsdp_loading *loading, const char *template)
{
	char *text = NULL;
	size_t length = 0;

	for (unsigned turn = 0; template != NULL && turn < 2; turn++) {
		size_t at = 0;
		for (const char *from = template; *from != '\0';) {
			size_t size = 1;
			const char *word = meaning(loading, from, &size);
			size_t added = word != NULL ? strlen(word) : 1;
			if (text != NULL)
				memcpy(text + at, word != NULL ? word : from, added);
			at += added;
			from += word != NULL ? size : 1;
		}
		if (turn == 0)
			text = fsdp_arena_take(loading->arena, (length = at) + 1, 1);
		if (text == NULL)
			loading->failed = true;
		if (text == NULL)
			return NULL;
	}
	return text;
}

static bool add_reason(struct fsdp_loading *loading, const struct fsdp_load_rule *rule,
	struct fsdp_load_reason *reason)
{
	const struct load_code *code = &codes[rule->code - 1];
	struct fsdp_span *names =
		FSDP_TAKE(loading->arena, names, loading->name_count + 1);

	if (names == NULL)
		return false;
	for (size_t i = 0; i < loading->name_count; i++) {
		names[i] = fsdp_arena_copy(loading->arena, loading->names[i]);
		loading->failed |= names[i].data == NULL;
	}
	*reason = (struct fsdp_load_reason){
		.code = code->name,
		.verdict = rule->verdict,
		.message = fill_in(
			loading, rule->message != NULL ? rule->message : code->message),
		.way_out = fill_in(loading, rule->fix != NULL ? rule->fix : code->fix),
		.names = names,
		.name_count = loading->name_count,
		.all_names = loading->all_names,
	};
	/* The fix is a word of the rule, and these files lack what it needs. */
	if (reason->way_out != NULL && *reason->way_out == '\0')
		reason->way_out = NULL;
	return !loading->failed;
}

/* What is certain counts before what is not known, and what is not known before that
 * nothing was found. */
static enum fsdp_load_verdict worse(enum fsdp_load_verdict a, enum fsdp_load_verdict b)
{
	/* FSDP_LOADS is below all of them. */
	static const int order[] = { [FSDP_LOAD_NOT_JUDGED] = 1,
		[FSDP_LOAD_DIFFERS] = 2,
		[FSDP_LOAD_REFUSES] = 3 };

	return order[b] > order[a] ? b : a;
}

static size_t count_rules(const struct fsdp_loader *loader)
{
	size_t count = 0;

	while (loader->rules[count].code != FSDP_LOAD_NO_CODE)
		count++;
	return count;
}

/* A loader that raised does nothing more. */
static bool ask(struct fsdp_loading *loading, const struct fsdp_loader *loader,
	struct fsdp_load_result *result)
{
	struct fsdp_load_reason *reasons =
		FSDP_TAKE(loading->arena, reasons, count_rules(loader) + 1);

	if (reasons == NULL)
		return false;
	result->reasons = reasons;
	if (loader->begin != NULL)
		loader->begin(loading);
	bool ended = false;
	for (const struct fsdp_load_rule *rule = loader->rules;
		rule->code != FSDP_LOAD_NO_CODE && !ended; rule++) {
		loading->name_count = 0;
		loading->all_names = 0;
		if (!is_of(rule, result->version) || !holds(loading, rule))
			continue;
		if (!add_reason(loading, rule, &reasons[result->reason_count]))
			return false;
		result->reason_count++;
		result->verdict = worse(result->verdict, rule->verdict);
		ended = rule->ends || rule->verdict == FSDP_LOAD_REFUSES;
	}
	if ((result->verdict == FSDP_LOADS || result->verdict == FSDP_LOAD_DIFFERS) &&
		loader->list_took != NULL && !loader->list_took(loading, result))
		return false;
	return !loading->failed && !fsdp_survey_failed(loading->survey, NULL);
}

static bool has_choice(
	const struct fsdp_loader *loader, const struct fsdp_load_choice *choice)
{
	const struct fsdp_loader_option *option;

	for (size_t i = 0; (option = fsdp_loader_option(loader->name, i)) != NULL; i++)
		if (strcmp(option->name, choice->name) == 0)
			return fsdp_loader_option_takes(option, choice->value);
	return false;
}

/* What the caller chose of what this loader has. */
static bool take_choices(struct fsdp_loading *loading, const struct fsdp_loader *loader,
	struct fsdp_load_result *result)
{
	const struct fsdp_loads_options *options = loading->options;
	struct fsdp_load_choice *taken =
		FSDP_TAKE(loading->arena, taken, options->choice_count + 1);

	if (taken == NULL)
		return false;
	for (size_t i = 0; i < options->choice_count; i++)
		if (has_choice(loader, &options->choices[i]))
			taken[result->choice_count++] = options->choices[i];
	loading->choices = result->choices = taken;
	loading->choice_count = result->choice_count;
	return true;
}

static bool ask_all(struct fsdp_loads *loads, struct fsdp_survey *survey,
	const struct fsdp_loads_options *options)
{
	struct fsdp_loading *loading = FSDP_TAKE(&loads->arena, loading, 1);

	loads->results =
		FSDP_TAKE(&loads->arena, loads->results, options->loader_count + 1);
	if (loading == NULL || loads->results == NULL)
		return false;
	for (size_t i = 0; i < options->loader_count; i++) {
		bool is_own = strcmp(options->loaders[i], "auto") == 0;
		const struct fsdp_loader *loader =
			is_own ? find_own(survey) : find_loader(options->loaders[i]);
		struct fsdp_load_result *result = &loads->results[loads->count];
		const char *version =
			loader != NULL ? find_version(loader, options->version) : NULL;
		if (version == NULL)
			continue;
		*loading = (struct fsdp_loading){
			.survey = survey,
			.options = options,
			.arena = &loads->arena,
			.path = options->path != NULL ? options->path : "",
			.is_own = is_own,
		};
		if (strcmp(loader->library, "transformers") == 0)
			loading->transformers = version;
		if (strcmp(loader->library, "torch") == 0)
			loading->torch = version;
		*result = (struct fsdp_load_result){
			.loader = loader->name,
			.library = loader->library,
			.version = version,
			.is_family = is_own || loader == find_own(survey),
		};
		if (!take_choices(loading, loader, result) ||
			!ask(loading, loader, result))
			return false;
		loads->count++;
	}
	return true;
}

bool fsdp_loads_new(struct fsdp_survey *survey, const struct fsdp_loads_options *options,
	struct fsdp_loads **ret_loads, struct fsdp_error **ret_error)
{
	struct fsdp_loads *loads = calloc(1, sizeof *loads);

	if (loads == NULL)
		return fsdp_fail_memory(ret_error);
	loads->budget.ceiling = UINT64_MAX;
	fsdp_arena_init_lean(&loads->arena, &loads->budget);
	if (!ask_all(loads, survey, options)) {
		fsdp_loads_free(loads);
		return !fsdp_survey_failed(survey, ret_error) &&
		       fsdp_fail_memory(ret_error);
	}
	*ret_loads = loads;
	return true;
}

void fsdp_loads_free(struct fsdp_loads *loads)
{
	if (loads == NULL)
		return;
	fsdp_arena_done(&loads->arena);
	free(loads);
}

size_t fsdp_loads_count(const struct fsdp_loads *loads)
{
	return loads->count;
}

const struct fsdp_load_result *fsdp_loads_result(
	const struct fsdp_loads *loads, size_t index)
{
	return index < loads->count ? &loads->results[index] : NULL;
}
