/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the rules of loaders over the contents of a directory; facts of it that the rules
 * of all loaders use, and the words of their results.
 */
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/elements.h>

#include "loaders/loading.h"
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

struct fsdp_load_check {
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

bool fsdp_load_report(struct fsdp_loading *loading, size_t word, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(loading->words[word], FSDP_LOAD_WORD, format, arguments);
	va_end(arguments);
	return true;
}

bool fsdp_load_set_word(struct fsdp_loading *loading, size_t word, struct fsdp_span text)
{
	return fsdp_load_report(loading, word, "%.*s", FSDP_TEXT_MOST(text, 512));
}

bool fsdp_load_name(struct fsdp_loading *loading, struct fsdp_span name)
{
	if (loading->all_names == 0 && loading->words[0][0] == '\0')
		fsdp_load_set_word(loading, 0, name);
	if (loading->name_count < FSDP_LOAD_NAMES)
		loading->names[loading->name_count++] = name;
	loading->all_names++;
	return true;
}

void fsdp_load_clear(struct fsdp_loading *loading)
{
	for (size_t i = 0; i < FSDP_LOAD_WORDS; i++)
		loading->words[i][0] = '\0';
	loading->name_count = 0;
	loading->all_names = 0;
}

/* ---- files ---- */

bool fsdp_load_has_file(struct fsdp_loading *loading, const char *format, ...)
{
	const struct fsdp_scan_entry *entry;
	char name[NAME_BYTES];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(name, sizeof name, format, arguments);
	va_end(arguments);
	entry = fsdp_scan_find(loading->survey, name);
	return entry != NULL && !entry->is_folder;
}

bool fsdp_load_has_folder(struct fsdp_loading *loading, const char *name)
{
	const struct fsdp_scan_entry *entry = fsdp_scan_find(loading->survey, name);
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

bool fsdp_load_next_word(const char **words, char word[FSDP_LOAD_WORD_BYTES])
{
	size_t size = fsdp_word_size(*words);
	snprintf(word, FSDP_LOAD_WORD_BYTES, "%.*s", (int)size, *words);
	*words += size + ((*words)[size] == ' ');
	return size != 0;
}

const struct fsdp_scan_entry *fsdp_load_next(
	struct fsdp_loading *loading, size_t *at, const char *patterns)
{
	char pattern[FSDP_LOAD_WORD_BYTES];
	while (*at < fsdp_scan_entry_count(loading->survey)) {
		const struct fsdp_scan_entry *entry =
			fsdp_scan_entry(loading->survey, (*at)++);
		for (const char *rest = patterns; fsdp_load_next_word(&rest, pattern);)
			if (fnmatch(pattern, (const char *)entry->name.data,
				    strchr(pattern, '/') != NULL ? 0 : FNM_PATHNAME) == 0)
				return entry;
	}
	return NULL;
}

static const struct fsdp_scan_entry *find_entry(
	struct fsdp_loading *loading, const char *patterns)
{
	const struct fsdp_scan_entry *entry = NULL;
	char pattern[FSDP_LOAD_WORD_BYTES];
	while (entry == NULL && fsdp_load_next_word(&patterns, pattern)) {
		size_t at = 0;
		entry = strpbrk(pattern, "*?") != NULL
				? fsdp_load_next(loading, &at, pattern)
				: fsdp_scan_find(loading->survey, pattern);
	}
	return entry;
}

const char *fsdp_load_choose(struct fsdp_loading *loading, const char *order)
{
	char pattern[FSDP_LOAD_WORD_BYTES];
	while (fsdp_load_next_word(&order, pattern)) {
		const struct fsdp_scan_entry *entry = find_entry(loading, pattern);
		if (entry != NULL && !entry->is_folder)
			return (const char *)entry->name.data;
	}
	return NULL;
}

const char *fsdp_load_copying(struct fsdp_loading *loading, const char *name)
{
	return fsdp_span_begins(fsdp_scan_head(loading->survey, name),
		       FSDP_SPAN("version https:/"))
		       ? "download the file itself, for example with git lfs pull"
		       : "download or copy the file again";
}

struct fsdp_scan_pickles fsdp_load_pickles(struct fsdp_loading *loading, const char *name)
{
	struct fsdp_scan_pickles pickles;
	if (!fsdp_scan_pickles(loading->survey, name, &pickles))
		fsdp_arena_leave(loading->arena);
	return pickles;
}

static struct fsdp_scan_document read_document(
	struct fsdp_loading *loading, const char *name)
{
	struct fsdp_scan_document document;
	if (!fsdp_scan_document(loading->survey, name, &document))
		fsdp_arena_leave(loading->arena);
	return document;
}

/* Longer documents are not read here. */
static bool has_broken(struct fsdp_loading *loading, const char *patterns)
{
	const struct fsdp_scan_entry *entry;
	for (size_t at = 0; (entry = fsdp_load_next(loading, &at, patterns)) != NULL;) {
		const char *name = (const char *)entry->name.data;
		if (!entry->is_folder && entry->size <= DOCUMENT_BYTES &&
			!(fsdp_span_ends(entry->name, FSDP_SPAN(".json"))
					? read_document(loading, name).is_valid
					: fsdp_load_pickles(loading, name).is_readable))
			return fsdp_load_name(loading, entry->name);
	}
	return false;
}

struct fsdp_scan_part fsdp_load_part(struct fsdp_loading *loading, const char *name)
{
	struct fsdp_scan_part part;
	if (!fsdp_scan_part(loading->survey, name, &part))
		fsdp_arena_leave(loading->arena);
	return part;
}

const struct fsdp_checkpoint *fsdp_load_open(
	struct fsdp_loading *loading, const char *name)
{
	return fsdp_load_part(loading, name).checkpoint;
}

void fsdp_load_must(struct fsdp_loading *loading, struct fsdp_error *error)
{
	bool is_over = error != NULL && fsdp_error_code(error) == FSDP_ERROR_MEMORY;
	fsdp_error_free(error);
	if (is_over)
		fsdp_arena_leave(loading->arena);
}

static void free_locator(void *object)
{
	fsdp_locator_free(object);
}

struct fsdp_locator *fsdp_load_locate(
	struct fsdp_loading *loading, const struct fsdp_checkpoint *checkpoint)
{
	struct fsdp_locator *locator = NULL;
	if (!fsdp_locator_new(checkpoint, &locator, NULL))
		fsdp_arena_leave(loading->arena);
	fsdp_arena_own(loading->arena, free_locator, locator);
	return locator;
}

bool fsdp_load_is_sound(const struct fsdp_checkpoint *checkpoint)
{
	bool is_sound =
		checkpoint != NULL && fsdp_checkpoint_error_count(checkpoint) == 0;
	for (size_t i = 0; is_sound && i < fsdp_finding_count(checkpoint); i++)
		is_sound = fsdp_finding(checkpoint, i)->severity < FSDP_ERROR;
	return is_sound;
}

const struct fsdp_checkpoint *fsdp_load_opened(struct fsdp_loading *loading)
{
	return fsdp_load_open(loading, loading->weights != NULL ? loading->weights : "");
}

bool fsdp_load_may_be_quantized(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = fsdp_load_opened(loading);
	size_t count = checkpoint != NULL ? fsdp_tensor_count(checkpoint) : 0;
	bool is_plain = checkpoint != NULL;
	for (uint32_t i = 0; i < count && is_plain; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		is_plain =
			fsdp_span_is_any(fsdp_span_text(fsdp_dtype(tensor.dtype)->name),
				"float16 bfloat16 float32 float64") &&
			!fsdp_span_ends(
				fsdp_load_copy_name(loading, checkpoint, tensor.raw_name),
				FSDP_SPAN(".scales"));
	}
	return !is_plain;
}

bool fsdp_load_has_finding(struct fsdp_loading *loading, const char *rule)
{
	const struct fsdp_checkpoint *checkpoint = fsdp_load_opened(loading);
	for (size_t i = 0; checkpoint != NULL && i < fsdp_finding_count(checkpoint);
		i++) {
		const struct fsdp_finding *finding = fsdp_finding(checkpoint, i);
		if (strcmp(finding->rule->id, rule) == 0)
			fsdp_load_name(loading, finding->tensor.size != 0
							? finding->tensor
							: finding->file);
	}
	return loading->all_names > 0;
}

bool fsdp_load_has_dtype(struct fsdp_loading *loading,
	const struct fsdp_checkpoint *checkpoint, const char *names)
{
	for (uint32_t i = 0; checkpoint != NULL && i < fsdp_tensor_count(checkpoint);
		i++) {
		const char *name = fsdp_dtype(fsdp_tensor(checkpoint, i).dtype)->name;
		if (fsdp_span_is_any(fsdp_span_text(name), names))
			return fsdp_load_report(loading, 0, "%s", name);
	}
	return false;
}

const struct fsdp_setting *fsdp_load_next_item(struct fsdp_load_items *items)
{
	const struct fsdp_setting *item;
	if (items->at >= items->end)
		return NULL;
	item = &items->settings[items->at];
	items->at = item->end;
	return item;
}

/* Members of the document itself. */
static struct fsdp_load_items list_members(
	struct fsdp_loading *loading, const char *document)
{
	struct fsdp_scan_document facts = read_document(loading, document);
	return (struct fsdp_load_items){ facts.settings, 1, (uint32_t)facts.count };
}

/* NULL: it is not there. */
static const struct fsdp_setting *find_setting(
	struct fsdp_loading *loading, const char *document, const char *path)
{
	struct fsdp_load_items items = list_members(loading, document);
	const struct fsdp_setting *item = NULL;
	for (bool ends = false; !ends;
		path += strcspn(path, "."), ends = *path++ == '\0') {
		struct fsdp_span key = fsdp_span(path, strcspn(path, "."));

		while ((item = fsdp_load_next_item(&items)) != NULL &&
			!fsdp_span_equal(item->key, key))
			;
		if (item == NULL)
			return NULL;
		items.at = (uint32_t)(item - items.settings) + 1;
		items.end = item->end;
	}
	return item;
}

struct fsdp_setting fsdp_load_setting(
	struct fsdp_loading *loading, const char *document, const char *path)
{
	const struct fsdp_setting *item = find_setting(loading, document, path);
	return item != NULL ? *item : (struct fsdp_setting){ .end = 0 };
}

struct fsdp_load_items fsdp_load_items(
	struct fsdp_loading *loading, const char *document, const char *path)
{
	struct fsdp_load_items items = list_members(loading, document);
	const struct fsdp_setting *item = find_setting(loading, document, path);
	if (item == NULL || (item->value.kind != FSDP_TOKEN_LIST &&
				    item->value.kind != FSDP_TOKEN_DICT))
		return (struct fsdp_load_items){ 0 };
	return (struct fsdp_load_items){ items.settings,
		(uint32_t)(item - items.settings) + 1, item->end };
}

static bool is_set(struct fsdp_token value)
{
	return value.kind == FSDP_TOKEN_INTEGER || value.kind == FSDP_TOKEN_BOOL
		       ? value.integer != 0
	       : value.kind == FSDP_TOKEN_TEXT ? value.text.size != 0
					       : (value.kind == FSDP_TOKEN_LIST ||
							 value.kind == FSDP_TOKEN_DICT) &&
							 value.count != 0;
}

const struct fsdp_setting *fsdp_load_find_set(
	struct fsdp_loading *loading, const char *document, const char *keys)
{
	struct fsdp_load_items items = list_members(loading, document);
	const struct fsdp_setting *item;
	while ((item = fsdp_load_next_item(&items)) != NULL &&
		(!fsdp_span_is_any(item->key, keys) || !is_set(item->value)))
		;
	return item;
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

const char *fsdp_loader_setting(struct fsdp_loading *loading, const char *name)
{
	for (size_t i = loading->choice_count; i-- > 0;)
		if (strcmp(loading->choices[i].name, name) == 0)
			return loading->choices[i].value;
	return NULL;
}

bool fsdp_load_is_chosen(
	struct fsdp_loading *loading, const char *name, const char *values)
{
	const char *chosen = fsdp_loader_setting(loading, name);
	return chosen != NULL &&
	       (values == NULL || fsdp_span_is_any(fsdp_span_text(chosen), values));
}

bool fsdp_load_flag(struct fsdp_loading *loading, const char *name, bool otherwise)
{
	const char *chosen = fsdp_loader_setting(loading, name);
	return chosen != NULL ? strcmp(chosen, "true") == 0 : otherwise;
}

/* ---- loader of a directory ---- */

#define OF_RUN                                                            \
	"optimizer.pt optimizer.bin scheduler.pt rng_state* optimizer_0 " \
	"global_step* pytorch_model_fsdp_0"
#define OF_MODEL                                                           \
	"model.safetensors* pytorch_model.bin* model-*.safetensors "       \
	"pytorch_model-*.bin model.*.safetensors model?(*).safetensors "   \
	"pytorch_model?(*).bin consolidated.safetensors pytorch_model.pt " \
	"pytorch_model.safetensors pytorch_model-*.safetensors "           \
	"pytorch_model_fsdp_0"

/* Files that a directory of a family must have; the first that holds. */
static const struct family {
	const char *loader; /* NULL: no loader takes it */
	const char *any, *and_any;
	const char *keys;     /* the document has one of them; NULL: any */
	const char *document; /* NULL: config.json */
	bool (*holds)(struct fsdp_loading *loading); /* may be NULL */
} families[] = {
	/* Of MLX, Meta and Mistral, vLLM, and of other programs with names like those of
	 * PEFT. */
	{ NULL, "adapters.safetensors params.json model-rank-*" },
	{ NULL, "config.json", .keys = "quantization",
		.holds = fsdp_load_may_be_quantized },
	{ "trainer", "trainer_state.json training_args.bin", OF_RUN },
	{ "deepspeed", "*/*_states.pt" }, /* in the directory of a tag */
	{ "accelerate", "random_states_* optimizer.bin scheduler.bin",
		"model.safetensors* pytorch_model.bin* pytorch_model_fsdp* random_states_*" },
	{ "megatron", "common.pt", ".metadata *.distcp" },
	{ "megatron", "metadata.json", ".metadata *.distcp", "sharded_backend",
		"metadata.json" },
	{ "megatron", "latest_checkpointed_iteration.txt", "*/common.pt" },
	{ "dcp", ".metadata *.distcp" },
	{ "hf", "config.json", OF_MODEL, "model_type architectures" },
	{ NULL, "*.gguf" },
	{ "peft", "adapter_config.json adapter_model.*" },
	{ "hf", "generation_config.json", OF_MODEL },
	/* Weights below the directory, where the loader does not look. */
	{ "hf", "config.json", "*/model*.safetensors */pytorch_model*.bin",
		"model_type" },
};

static const struct fsdp_loader *find_own(struct fsdp_loading *loading)
{
	for (size_t i = 0; i < FSDP_COUNT(families); i++) {
		const struct family *of = &families[i];
		const char *name = of->document != NULL ? of->document : "config.json";
		struct fsdp_scan_document document = read_document(loading, name);
		struct fsdp_load_items members = list_members(loading, name);
		const struct fsdp_setting *member;
		/* One that is not valid may have had it. */
		bool has_key =
			of->keys == NULL ||
			(of->loader != NULL && document.is_there && !document.is_valid);
		while ((member = fsdp_load_next_item(&members)) != NULL && !has_key)
			has_key = fsdp_span_is_any(member->key, of->keys);
		if (has_key && find_entry(loading, of->any) != NULL &&
			(of->and_any == NULL ||
				find_entry(loading, of->and_any) != NULL) &&
			(of->holds == NULL || of->holds(loading)))
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

/* Whether what the row has is so. */
static bool is_so(struct fsdp_loading *loading, const struct fsdp_load_fact *fact)
{
	const char *document = fact->document, *rest = fact->keys;
	struct fsdp_scan_document read;
	char key[FSDP_LOAD_WORD_BYTES];
	bool has = false;
	if (fact->any != NULL)
		return find_entry(loading, fact->any) != NULL;
	if (fact->option != NULL)
		return fsdp_load_is_chosen(loading, fact->option, fact->values);
	if (strcmp(document, FSDP_LOAD_OF_INDEX) == 0)
		document = fsdp_load_index(loading);
	if (document == NULL)
		return false;
	read = read_document(loading, document);
	if (rest == NULL)
		return read.is_there && !read.is_valid;
	while (!has && fsdp_load_next_word(&rest, key)) {
		struct fsdp_token value = fsdp_load_setting(loading, document, key).value;
		has = fact->kind == FSDP_LOAD_SET    ? is_set(value)
		      : fact->kind == FSDP_LOAD_DICT ? value.kind == FSDP_TOKEN_DICT
		      : fact->kind == FSDP_LOAD_TEXT
			      ? value.kind == FSDP_TOKEN_TEXT &&
					(fact->values == NULL ||
						fsdp_span_is_any(
							value.text, fact->values))
			      : value.kind != FSDP_TOKEN_NONE;
	}
	return has != fact->is_lacking;
}

void fsdp_load_begin(struct fsdp_loading *loading, const struct fsdp_loader *loader)
{
	loading->is =
		loader->is | (loading->options->expected != NULL ? FSDP_LOAD_EXPECTS : 0);
	loading->weights =
		loader->order != NULL ? fsdp_load_choose(loading, loader->order) : NULL;
	for (const struct fsdp_load_fact *fact = loader->facts;
		fact != NULL && fact->bit != 0; fact++)
		loading->is |= is_so(loading, fact) ? fact->bit : 0;
	if (loader->begin != NULL)
		loader->begin(loading);
	loading->is |= loading->weights == NULL ? FSDP_LOAD_NONE : 0;
	fsdp_load_read_root(loading);
}

/* ---- rules ---- */

static const struct load_code {
	const char *name, *message, *fix;
} codes[] = {
#define FSDP_LOAD_CODE(constant, code, message, fix) { code, message, fix },
#include "loaders/reason-codes.def"
#undef FSDP_LOAD_CODE
};

const char *fsdp_load_code_name(size_t index)
{
	return index < FSDP_COUNT(codes) ? codes[index].name : NULL;
}

/* The text with its marks filled in; NULL: it is empty. */
static const char *fill_in(struct fsdp_loading *loading, const char *template)
{
	const char *weights = loading->weights != NULL ? loading->weights : "";
	const char *const marks[][2] = { { "{path}", loading->path },
		{ "{weights}", *weights != '\0' ? weights : "the file" },
		{ "{copy}", fsdp_load_copying(loading, weights) },
		{ "{root}", loading->words[FSDP_LOAD_ROOT] } };
	size_t most = strlen(loading->path) + strlen(weights) + FSDP_LOAD_WORD, room = 1;
	char *text, *end;
	for (const char *at = template; at != NULL && *at != '\0'; at++)
		room += *at == '{' ? most : 1;
	text = end = fsdp_arena_take(loading->answers, room, 1);
	for (const char *at = template; at != NULL && *at != '\0';) {
		size_t i = 0;
		while (i < FSDP_COUNT(marks) &&
			strncmp(at, marks[i][0], strlen(marks[i][0])) != 0)
			i++;
		if (i < FSDP_COUNT(marks)) {
			end = stpcpy(end, marks[i][1]);
			at += strlen(marks[i][0]);
		} else if (*at == '{' && fsdp_is_digit((unsigned char)at[1])) {
			end = stpcpy(end, loading->words[at[1] - '0']);
			at += 3;
		} else {
			*end++ = *at++;
		}
	}
	return end != text ? text : NULL;
}

/* The named file is a tar or a compressed one with the checkpoint in it. */
static bool is_archive(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = NULL;
	if (fsdp_scan_entry_count(loading->survey) == 1 &&
		fsdp_scan_entry(loading->survey, 0)->name.size == 0)
		checkpoint = fsdp_load_open(loading, "");
	return checkpoint != NULL && fsdp_checkpoint_is_packed(checkpoint);
}

/* Of every loader. */
static const struct fsdp_load_rule of_archives =
	FSDP_REFUSES(FORMAT, is_archive, .message = "the checkpoint is in an archive",
		.fix = "unpack the archive, and check its content");

/* Adds a reason if the rule holds. True: the loader does nothing more. */
static bool ask_rule(struct fsdp_loading *loading, const struct fsdp_load_rule *rule,
	struct fsdp_load_result *result, struct fsdp_load_reason *reasons)
{
	/* What is certain counts before what is not known, and what is not known before
	 * that nothing was found. */
	static const int worse[] = { [FSDP_LOADS] = 0,
		[FSDP_LOAD_NOT_JUDGED] = 1,
		[FSDP_LOAD_DIFFERS] = 2,
		[FSDP_LOAD_REFUSES] = 3 };
	const struct load_code *code = &codes[rule->code - 1];
	struct fsdp_span *names;
	fsdp_load_clear(loading);
	loading->rule = rule;
	if ((rule->since != NULL &&
		    fsdp_load_compare_versions(result->version, rule->since) < 0) ||
		(rule->until != NULL &&
			fsdp_load_compare_versions(result->version, rule->until) >= 0) ||
		(rule->when & ~loading->is) != 0 || (rule->unless & loading->is) != 0 ||
		(rule->lacks != NULL && !fsdp_load_lacks(loading, "%s", rule->lacks)) ||
		(rule->finding != NULL &&
			!fsdp_load_has_finding(loading, rule->finding)) ||
		(rule->dtypes != NULL &&
			!fsdp_load_has_dtype(
				loading, fsdp_load_opened(loading), rule->dtypes)) ||
		(rule->broken != NULL && !has_broken(loading, rule->broken)) ||
		(rule->holds != NULL && !rule->holds(loading)))
		return false;
	names = FSDP_TAKE(loading->answers, names, loading->name_count + 1);
	for (size_t i = 0; i < loading->name_count; i++)
		names[i] = fsdp_arena_copy(loading->answers, loading->names[i]);
	reasons[result->reason_count++] = (struct fsdp_load_reason){
		.code = code->name,
		.verdict = rule->verdict,
		.message = fill_in(
			loading, rule->message != NULL ? rule->message : code->message),
		.way_out = fill_in(loading, rule->fix != NULL ? rule->fix : code->fix),
		.names = names,
		.name_count = loading->name_count,
		.all_names = loading->all_names,
	};
	if (worse[rule->verdict] > worse[result->verdict])
		result->verdict = rule->verdict;
	return rule->ends || rule->verdict == FSDP_LOAD_REFUSES;
}

static void ask(struct fsdp_loading *loading, const struct fsdp_loader *loader,
	struct fsdp_load_result *result)
{
	struct fsdp_load_reason *reasons;
	bool ended;
	size_t count = 0;
	while (loader->rules[count].code != FSDP_LOAD_NO_CODE)
		count++;
	result->reasons = reasons = FSDP_TAKE(loading->answers, reasons, count + 1);
	fsdp_load_begin(loading, loader);
	ended = ask_rule(loading, &of_archives, result, reasons);
	for (size_t i = 0; i < count && !ended; i++)
		ended = ask_rule(loading, &loader->rules[i], result, reasons);
	if ((result->verdict == FSDP_LOADS || result->verdict == FSDP_LOAD_DIFFERS) &&
		loading->lists_weights)
		fsdp_load_list_took(loading, result);
}

/* What is asked, and where the answers go. */
struct asking {
	struct fsdp_scan *survey;
	const struct fsdp_load_check_options *options;
	struct fsdp_load_check *loads;
};

/* Of a version that the loader has. */
static void ask_loader(const struct asking *asking, struct fsdp_loading *loading,
	const struct fsdp_loader *loader, const struct fsdp_loader *own)
{
	const struct fsdp_load_check_options *options = asking->options;
	const char *version = find_version(loader, options->version);
	struct fsdp_load_result *result = &asking->loads->results[asking->loads->count];
	struct fsdp_loader_setting *taken;
	const struct fsdp_loader_option *option;
	if (version == NULL)
		return;
	taken = FSDP_TAKE(loading->answers, taken, options->choice_count + 1);
	*result = (struct fsdp_load_result){
		.loader = loader->name,
		.title = loader->title,
		.library = loader->library,
		.version = version,
		.is_family = loader == own,
		.choices = taken,
	};
	/* What the caller chose of what this loader has. */
	for (size_t k = 0; k < options->choice_count; k++)
		for (size_t j = 0; (option = fsdp_loader_option(loader->name, j)) != NULL;
			j++)
			if (strcmp(option->name, options->choices[k].name) == 0 &&
				fsdp_loader_option_takes(
					option, options->choices[k].value))
				taken[result->choice_count++] = options->choices[k];
	loading->is_before_5 = strcmp(loader->library, "transformers") == 0 &&
			       fsdp_load_compare_versions(version, "5") < 0;
	loading->torch = strcmp(loader->library, "torch") == 0 ? version : NULL;
	loading->choices = taken;
	loading->choice_count = result->choice_count;
	ask(loading, loader, result);
	asking->loads->count++;
}

static void ask_all(void *context)
{
	const struct asking *asking = context;
	const struct fsdp_load_check_options *options = asking->options;
	struct fsdp_load_check *loads = asking->loads;
	struct fsdp_arena *arena = fsdp_arena_new_below(&loads->arena);
	struct fsdp_loading *loading = FSDP_TAKE(arena, loading, 1);
	const struct fsdp_loader *own;
	loads->results =
		FSDP_TAKE(&loads->arena, loads->results, options->loader_count + 1);
	loading->survey = asking->survey;
	loading->arena = arena;
	own = find_own(loading);
	for (size_t i = 0; i < options->loader_count; i++) {
		bool is_own = strcmp(options->loaders[i], "auto") == 0;
		const struct fsdp_loader *loader =
			is_own ? own : find_loader(options->loaders[i]);
		*loading = (struct fsdp_loading){
			.survey = asking->survey,
			.options = options,
			.arena = arena,
			.answers = &loads->arena,
			.path = options->path != NULL ? options->path : "",
			.is_own = is_own,
		};
		if (loader != NULL)
			ask_loader(asking, loading, loader, own);
	}
	if (fsdp_scan_failed(asking->survey, NULL))
		fsdp_arena_leave(arena);
	fsdp_arena_done(arena);
}

bool fsdp_load_check_new(struct fsdp_scan *survey,
	const struct fsdp_load_check_options *options, struct fsdp_load_check **ret_loads,
	struct fsdp_error **ret_error)
{
	struct fsdp_load_check *loads = calloc(1, sizeof *loads);
	struct asking asking = { survey, options, loads };
	if (loads == NULL)
		return fsdp_fail_memory(ret_error);
	loads->budget.ceiling = UINT64_MAX;
	fsdp_arena_init_lean(&loads->arena, &loads->budget);
	if (!fsdp_arena_try(&loads->arena, ask_all, &asking)) {
		fsdp_load_check_free(loads);
		return !fsdp_scan_failed(survey, ret_error) &&
		       fsdp_fail_memory(ret_error);
	}
	*ret_loads = loads;
	return true;
}

void fsdp_load_check_free(struct fsdp_load_check *loads)
{
	if (loads == NULL)
		return;
	fsdp_arena_done(&loads->arena);
	free(loads);
}

size_t fsdp_load_check_count(const struct fsdp_load_check *loads)
{
	return loads->count;
}

const struct fsdp_load_result *fsdp_load_check_result(
	const struct fsdp_load_check *loads, size_t index)
{
	return index < loads->count ? &loads->results[index] : NULL;
}
