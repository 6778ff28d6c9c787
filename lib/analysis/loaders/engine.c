/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the rules of loaders over the contents of a directory; facts of it that the rules of all
 * loaders use, and the words of their results.
 */
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/loaders/loading.h"
#include "base/error.h"
#include "base/num.h"

enum { NAME_BYTES = 4096, DOCUMENT_BYTES = 16 << 20, DIGITS_MOST = 6 };

static const struct fsdp_loader *const loaders[] = {
	&fsdp_loader_hf,
	&fsdp_loader_trainer,
	&fsdp_loader_peft,
	&fsdp_loader_accelerate,
	&fsdp_loader_dcp,
	&fsdp_loader_deepspeed,
	&fsdp_loader_megatron,
	&fsdp_loader_weights_only,
	&fsdp_loader_vllm,
	&fsdp_loader_sglang,
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

/* ---- words of a rule ---- */

void fsdp_load_say(struct fsdp_loading *loading, size_t word, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(loading->words[word], FSDP_LOAD_WORD, format, arguments);
	va_end(arguments);
}

void fsdp_load_set_word(struct fsdp_loading *loading, size_t word, struct fsdp_span text)
{
	fsdp_load_say(loading, word, "%.*s", FSDP_TEXT_MOST(text, 512));
}

void fsdp_load_name(struct fsdp_loading *loading, struct fsdp_span name)
{
	if (loading->name_count < FSDP_LOAD_NAMES)
		loading->names[loading->name_count++] = name;
	loading->all_names++;
}

/* ---- files ---- */

bool fsdp_load_has_file(struct fsdp_loading *loading, const char *format, ...)
{
	const struct fsdp_survey_entry *entry;
	char name[NAME_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(name, sizeof name, format, arguments);
	va_end(arguments);
	entry = fsdp_survey_find(loading->survey, name);
	return entry != NULL && !entry->is_folder;
}

bool fsdp_load_has_folder(struct fsdp_loading *loading, const char *name)
{
	const struct fsdp_survey_entry *entry = fsdp_survey_find(loading->survey, name);

	return entry != NULL && entry->is_folder;
}

bool fsdp_load_lacks(struct fsdp_loading *loading, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(loading->words[0], FSDP_LOAD_WORD, format, arguments);
	va_end(arguments);
	return !fsdp_load_has_file(loading, "%s", loading->words[0]);
}

/* "a*b": "*" stands for no "/" unless the pattern itself has one. */
static bool is_like(const struct fsdp_survey_entry *entry, const char *pattern)
{
	return fnmatch(pattern, (const char *)entry->name.data,
		       strchr(pattern, '/') != NULL ? 0 : FNM_PATHNAME) == 0;
}

static const struct fsdp_survey_entry *find_like(
	struct fsdp_loading *loading, const char *pattern)
{
	if (strchr(pattern, '*') == NULL)
		return fsdp_survey_find(loading->survey, pattern);
	for (size_t i = 0; i < fsdp_survey_entry_count(loading->survey); i++)
		if (is_like(fsdp_survey_entry(loading->survey, i), pattern))
			return fsdp_survey_entry(loading->survey, i);
	return NULL;
}

bool fsdp_load_has(struct fsdp_loading *loading, const char *pattern)
{
	return find_like(loading, pattern) != NULL;
}

const char *fsdp_load_choose(struct fsdp_loading *loading, const char *const *order)
{
	for (; *order != NULL; order++) {
		const struct fsdp_survey_entry *entry = find_like(loading, *order);
		if (entry != NULL && !entry->is_folder)
			return (const char *)entry->name.data;
	}
	return NULL;
}

size_t fsdp_load_count(struct fsdp_loading *loading, const char *const *names)
{
	size_t count = 0;

	for (size_t i = 0; i < fsdp_survey_entry_count(loading->survey); i++) {
		const struct fsdp_survey_entry *entry =
			fsdp_survey_entry(loading->survey, i);
		for (size_t k = 0; names[k] != NULL; k++)
			count += !entry->is_folder && is_like(entry, names[k]);
	}
	return count;
}

const char *fsdp_load_copying(struct fsdp_loading *loading, const char *name)
{
	return fsdp_span_begins(fsdp_survey_head(loading->survey, name),
		       FSDP_SPAN("version https:/"))
		       ? "download the file itself, for example with git lfs pull"
		       : "download or copy the file again";
}

/* Longer documents are not read here. */
static bool is_broken(struct fsdp_loading *loading, const struct fsdp_survey_entry *entry)
{
	const char *name = (const char *)entry->name.data;
	struct fsdp_survey_document document;
	struct fsdp_survey_pickles pickles;

	if (entry->is_folder || entry->size > DOCUMENT_BYTES)
		return false;
	if (fsdp_span_ends(entry->name, FSDP_SPAN(".json"))) {
		loading->failed |=
			!fsdp_survey_document(loading->survey, name, &document);
		return !document.is_valid;
	}
	loading->failed |= !fsdp_survey_pickles(loading->survey, name, &pickles);
	return !pickles.is_readable;
}

bool fsdp_load_has_broken(struct fsdp_loading *loading, const char *const *patterns)
{
	for (size_t i = 0; i < fsdp_survey_entry_count(loading->survey); i++) {
		const struct fsdp_survey_entry *entry =
			fsdp_survey_entry(loading->survey, i);
		size_t k = 0;
		while (patterns[k] != NULL && !is_like(entry, patterns[k]))
			k++;
		if (patterns[k] == NULL || !is_broken(loading, entry))
			continue;
		fsdp_load_set_word(loading, 0, entry->name);
		fsdp_load_name(loading, entry->name);
		return true;
	}
	return false;
}

const struct fsdp_checkpoint *fsdp_load_open(
	struct fsdp_loading *loading, const char *name)
{
	struct fsdp_survey_part part;

	loading->failed |= !fsdp_survey_part(loading->survey, name, &part);
	return part.checkpoint;
}

bool fsdp_load_is_sound(const struct fsdp_checkpoint *checkpoint)
{
	bool is_sound =
		checkpoint != NULL && fsdp_checkpoint_error_count(checkpoint) == 0;

	for (size_t i = 0; is_sound && i < fsdp_finding_count(checkpoint); i++)
		is_sound = fsdp_finding(checkpoint, i)->severity < FSDP_ERROR;
	return is_sound;
}

/* Word 0 and the names: the tensors, or files. */
bool fsdp_load_has_finding(struct fsdp_loading *loading, const char *rule)
{
	const struct fsdp_checkpoint *checkpoint =
		fsdp_load_open(loading, loading->weights != NULL ? loading->weights : "");

	for (size_t i = 0; checkpoint != NULL && i < fsdp_finding_count(checkpoint);
		i++) {
		const struct fsdp_finding *finding = fsdp_finding(checkpoint, i);
		if (strcmp(finding->rule->id, rule) == 0)
			fsdp_load_name(loading, finding->tensor.size != 0
							? finding->tensor
							: finding->file);
	}
	if (loading->all_names > 0)
		fsdp_load_set_word(loading, 0, loading->names[0]);
	return loading->all_names > 0;
}

/* The place of a member; 0: it is not there. */
static uint32_t find_setting(struct fsdp_loading *loading, const char *document,
	const char *key, struct fsdp_survey_document *ret_facts)
{
	loading->failed |= !fsdp_survey_document(loading->survey, document, ret_facts);
	for (uint32_t i = 1; i < ret_facts->count; i = ret_facts->settings[i].end)
		if (fsdp_span_is(ret_facts->settings[i].key, key))
			return i;
	return 0;
}

struct fsdp_setting fsdp_load_setting(
	struct fsdp_loading *loading, const char *document, const char *key)
{
	struct fsdp_survey_document facts;
	uint32_t at = find_setting(loading, document, key, &facts);

	return at != 0 ? facts.settings[at] : (struct fsdp_setting){ .end = 0 };
}

struct fsdp_load_items fsdp_load_items(
	struct fsdp_loading *loading, const char *document, const char *key)
{
	struct fsdp_survey_document facts;
	uint32_t at = find_setting(loading, document, key, &facts);
	enum fsdp_token_kind kind =
		at != 0 ? facts.settings[at].value.kind : FSDP_TOKEN_NONE;

	if (kind != FSDP_TOKEN_LIST && kind != FSDP_TOKEN_DICT)
		return (struct fsdp_load_items){ 0 };
	return (struct fsdp_load_items){ facts.settings, at + 1, facts.settings[at].end };
}

bool fsdp_load_is_set(struct fsdp_loading *loading, const char *document, const char *key)
{
	struct fsdp_token value = fsdp_load_setting(loading, document, key).value;

	if (value.kind == FSDP_TOKEN_INTEGER || value.kind == FSDP_TOKEN_BOOL)
		return value.integer != 0;
	if (value.kind == FSDP_TOKEN_TEXT)
		return value.text.size != 0;
	return (value.kind == FSDP_TOKEN_LIST || value.kind == FSDP_TOKEN_DICT) &&
	       value.count != 0;
}

int64_t fsdp_load_integer(struct fsdp_loading *loading, const char *document,
	const char *key, int64_t otherwise)
{
	struct fsdp_token value = fsdp_load_setting(loading, document, key).value;

	return value.kind == FSDP_TOKEN_INTEGER || value.kind == FSDP_TOKEN_BOOL
		       ? value.integer
		       : otherwise;
}

struct fsdp_span fsdp_load_text(
	struct fsdp_loading *loading, const char *document, const char *key)
{
	struct fsdp_token value = fsdp_load_setting(loading, document, key).value;

	return value.kind == FSDP_TOKEN_TEXT ? value.text : (struct fsdp_span){ 0 };
}

struct fsdp_span fsdp_load_dtype(struct fsdp_loading *loading)
{
	struct fsdp_span name = fsdp_load_text(loading, "config.json", "dtype");

	return name.data != NULL ? name
				 : fsdp_load_text(loading, "config.json", "torch_dtype");
}

/* ---- parameters that the caller sets ---- */

const char *const fsdp_load_flags[] = { "true", "false", NULL };

bool fsdp_loader_option_takes(const struct fsdp_loader_option *option, const char *value)
{
	if (option->is_count) {
		size_t digits = strspn(value, "0123456789");
		return digits > 0 && digits <= DIGITS_MOST && value[digits] == '\0' &&
		       value[0] != '0';
	}
	if (option->words == NULL)
		return *value != '\0';
	for (const char *const *word = option->words; *word != NULL; word++)
		if (strcmp(*word, value) == 0)
			return true;
	return false;
}

const char *fsdp_load_choice(struct fsdp_loading *loading, const char *name)
{
	for (size_t i = loading->choice_count; i-- > 0;)
		if (strcmp(loading->choices[i].name, name) == 0)
			return loading->choices[i].value;
	return NULL;
}

bool fsdp_load_is_chosen(
	struct fsdp_loading *loading, const char *name, const char *value)
{
	const char *chosen = fsdp_load_choice(loading, name);

	return chosen != NULL && strcmp(chosen, value) == 0;
}

bool fsdp_load_flag(struct fsdp_loading *loading, const char *name, bool otherwise)
{
	const char *chosen = fsdp_load_choice(loading, name);

	return chosen != NULL ? strcmp(chosen, "true") == 0 : otherwise;
}

/* ---- loader of a directory ---- */

#define OF_RUN                                                                 \
	{                                                                      \
		"optimizer.pt", "optimizer.bin", "scheduler.pt", "rng_state*", \
			"optimizer_0", "global_step*", "pytorch_model_fsdp_0"  \
	}
#define OF_MODEL                                                                   \
	{                                                                          \
		"model.safetensors*", "pytorch_model.bin*", "model-*.safetensors", \
			"pytorch_model-*.bin", "model.*.safetensors",              \
			"model (*).safetensors", "pytorch_model (*).bin",          \
			"consolidated.safetensors", "pytorch_model.pt",            \
			"pytorch_model.safetensors", "pytorch_model_fsdp_0"        \
	}

/* Files that a directory of a family must have; the first that holds. */
static const struct family {
	const char *loader; /* NULL: no loader takes it */
	const char *any[10], *and_any[12];
	const char *key, *other_key; /* config.json has one of them */
} families[] = {
	/* Of MLX, Meta and Mistral, vLLM, and of other programs with names like those of PEFT. */
	{ NULL, { "adapters.safetensors", "*.gguf", "params.json", "model-rank-*" } },
	{ NULL, { "config.json" }, .key = "quantization" },
	{ "trainer", { "trainer_state.json", "training_args.bin" }, OF_RUN },
	{ "deepspeed", { "*/*_states.pt" } }, /* in the directory of a tag */
	{ "accelerate", { "random_states_*", "optimizer.bin", "scheduler.bin" },
		{ "model.safetensors*", "pytorch_model.bin*", "pytorch_model_fsdp*",
			"random_states_*" } },
	{ "megatron", { "metadata.json", "common.pt" }, { ".metadata", "*.distcp" } },
	{ "dcp", { ".metadata", "*.distcp" } },
	{ "hf", { "config.json" }, OF_MODEL, "model_type", "architectures" },
	{ "peft", { "adapter_config.json", "adapter_model.*" } },
	{ "hf", { "generation_config.json" }, OF_MODEL },
};

static bool has_one_of(
	struct fsdp_loading *loading, const char *const *patterns, size_t count)
{
	for (size_t i = 0; i < count && patterns[i] != NULL; i++)
		if (fsdp_load_has(loading, patterns[i]))
			return true;
	return false;
}

static bool has_key(struct fsdp_loading *loading, const char *key)
{
	return key != NULL && fsdp_load_setting(loading, "config.json", key).end != 0;
}

static const struct fsdp_loader *find_own(struct fsdp_survey *survey)
{
	struct fsdp_loading loading = { .survey = survey };

	for (size_t i = 0; i < FSDP_COUNT(families); i++) {
		const struct family *of = &families[i];
		if ((of->key == NULL || has_key(&loading, of->key) ||
			    has_key(&loading, of->other_key)) &&
			has_one_of(&loading, of->any, FSDP_COUNT(of->any)) &&
			(of->and_any[0] == NULL || has_one_of(&loading, of->and_any,
							   FSDP_COUNT(of->and_any))))
			return of->loader != NULL ? find_loader(of->loader) : NULL;
	}
	return NULL;
}

/* ---- versions ---- */

int fsdp_load_compare_versions(const char *a, const char *b)
{
	char *a_end, *b_end;

	while (*a != '\0' && *b != '\0') {
		unsigned long left = strtoul(a, &a_end, 10);
		unsigned long right = strtoul(b, &b_end, 10);
		if (left != right)
			return left < right ? -1 : 1;
		if (a_end == a || b_end == b)
			return 0;
		a = a_end + (*a_end == '.');
		b = b_end + (*b_end == '.');
	}
	return 0;
}

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

void fsdp_load_begin(struct fsdp_loading *loading, const struct fsdp_loader *loader)
{
	loading->is = loading->options->expected != NULL ? FSDP_LOAD_EXPECTS : 0;
	loading->weights =
		loader->order != NULL ? fsdp_load_choose(loading, loader->order) : NULL;
	for (const struct fsdp_load_fact *fact = loader->facts;
		fact != NULL && fact->bit != 0; fact++)
		if (has_one_of(loading, fact->any, FSDP_COUNT(fact->any)))
			loading->is |= fact->bit;
	if (loader->begin != NULL)
		loader->begin(loading);
	if (loading->weights == NULL)
		loading->is |= FSDP_LOAD_NONE;
}

/* ---- rules ---- */

static bool holds(struct fsdp_loading *loading, const struct fsdp_load_rule *rule)
{
	return (rule->when & ~loading->is) == 0 && (rule->unless & loading->is) == 0 &&
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
	fsdp_load_begin(loading, loader);
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
		loading->lists_weights && !fsdp_load_list_took(loading, result))
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
static bool parse_choices(struct fsdp_loading *loading, const struct fsdp_loader *loader,
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
		if (!parse_choices(loading, loader, result) ||
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
