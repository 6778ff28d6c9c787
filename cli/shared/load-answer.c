/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which settings the loaders of other programs get, and what they would do with a
 * checkpoint.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "shared/audit-run.h"
#include "shared/tensor-row.h"
#include "render/record.h"
#include "session/diagnostics.h"
#include "session/session.h"

/* ---- What a caller passes to the loaders of other programs ---- */

enum { LIST_BYTES = 1024 };

__attribute__((format(printf, 3, 4))) static void add(
	char *list, size_t *at, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	if (*at < LIST_BYTES)
		*at += (size_t)vsnprintf(list + *at, LIST_BYTES - *at, format, arguments);
	va_end(arguments);
}

/* The parameter of one of these loaders that this name is of. NULL: none, and `list` has
 * all: "dcp: allow_partial_load; megatron: strict, allow_shape_mismatch". */
static const struct fsdp_loader_option *find_option(
	struct text name, const char *const *loaders, size_t loader_count, char *list)
{
	const struct fsdp_loader_option *option;
	size_t at = 0;

	for (size_t i = 0; i < loader_count; i++)
		for (size_t k = 0; (option = fsdp_loader_option(loaders[i], k)) != NULL;
			k++) {
			if (text_is(name, text_of(option->name)))
				return option;
			add(list, &at, "%s%s%s%s", k == 0 && at > 0 ? "; " : "",
				k == 0 ? loaders[i] : "", k == 0 ? ": " : ", ",
				option->name);
		}
	return NULL;
}

/* Each is of a parameter of one of these loaders, with a value that it takes; others are
 * refused. */
static void loader_choices_prepare(const struct texts *typed, const char *const *loaders,
	size_t loader_count, struct run *run)
{
	for (size_t i = 0; i < typed->count; i++) {
		const char *text = typed->items[i], *equals = strchr(text, '=');
		struct text name = { text, strcspn(text, "=") };
		char list[LIST_BYTES] = "";
		size_t at = 0;
		const struct fsdp_loader_option *option =
			find_option(name, loaders, loader_count, list);

		if (option == NULL)
			run_refuse(run, list[0] != '\0' ? list : "omit it",
				"--loader-option=%s: %s %.*s", text,
				loader_count == 1 ? "this loader has no option"
						  : "none of these loaders has an option",
				(int)name.size, text);
		if (equals != NULL && fsdp_loader_option_takes(option, equals + 1))
			continue;
		list[0] = '\0';
		for (size_t k = 0; option->words != NULL && option->words[k] != NULL; k++)
			add(list, &at, "%s%s", k > 0 ? ", " : "", option->words[k]);
		run_refuse(run,
			option->is_count ? "a number, such as 2"
			: at > 0         ? list
					 : "NAME=VALUE",
			"--loader-option=%s: %s takes another value", text, option->name);
	}
}

/* As the library takes them. */
static void loader_choices_parse(
	const struct texts *typed, struct loader_choices *ret_choices)
{
	*ret_choices = (struct loader_choices){
		.items = memory_new(typed->count, sizeof *ret_choices->items),
		.count = typed->count,
	};
	for (size_t i = 0; i < typed->count; i++) {
		size_t size = strcspn(typed->items[i], "=");

		ret_choices->items[i] = (struct fsdp_loader_setting){
			.name = memory_copy(typed->items[i], size),
			.value = typed->items[i] + size + 1,
		};
	}
}

/* ---- the answer ---- */

#define CHOICE struct fsdp_loader_setting

/* {"name", "value"}: of a struct fsdp_loader_setting. */
static const struct record loader_choice_record = OBJECT_RECORD(CHOICE, "loader_option",
	"A parameter that the caller passes to a loader.",
	{ "name", WORD_AT(CHOICE, name), ALWAYS("As `--loader-option` names it.") },
	{ "value", WORD_AT(CHOICE, value), ALWAYS("Its value.") });

const char *const loader_words[] = { "hf", "trainer", "peft", "accelerate", "dcp",
	"deepspeed", "megatron", "weights_only", "vllm", "sglang", "all", "auto", "none",
	NULL };

enum { LOADERS_MOST = 16, WORLD_MOST = 1 << 20 };

/* ---- asking ---- */

static bool has_word(const struct loading_options *options, const char *word)
{
	for (size_t i = 0; i < options->loaders.count; i++)
		if (strcmp(options->loaders.items[i], word) == 0)
			return true;
	return false;
}

bool loading_names(const struct loading_options *options, const char *loader)
{
	return has_word(options, loader) || has_word(options, "all");
}

bool loading_is_own(const struct loading_options *options)
{
	return options->loaders.count == 0 || has_word(options, "auto");
}

/* In the order of the table; how many. Any may be that of the directory. */
static size_t list_loaders(const struct loading_options *options, const char **names)
{
	size_t count = 0;

	for (size_t i = 0; fsdp_loader_name(i) != NULL && count < LOADERS_MOST; i++)
		if (loading_is_own(options) ||
			loading_names(options, fsdp_loader_name(i)))
			names[count++] = fsdp_loader_name(i);
	return count;
}

void loading_prepare(const struct loading_options *options, struct run *run)
{
	const char *names[LOADERS_MOST];
	size_t count = list_loaders(options, names);

	if (options->loaders.count > 1 &&
		(has_word(options, "auto") || has_word(options, "none")))
		run_refuse(run, "example: --for=hf,peft",
			"--for=%s excludes other loaders",
			has_word(options, "auto") ? "auto" : "none");
	if (count == 0 && (options->world >= 0 || options->version != NULL ||
				  options->choices.count > 0))
		run_refuse(run, "example: --for=deepspeed --world=8",
			"--world, --loader-version and --loader-option exclude --for=none");
	loader_choices_prepare(&options->choices, names, count, run);
	if (options->version == NULL)
		return;
	for (size_t i = 0; i < count; i++)
		if (fsdp_loader_has_version(names[i], options->version))
			return;
	run_refuse(run, "without it the newest release that is known counts",
		"--loader-version=%s: no rules of this release are known",
		options->version);
}

static void fill_loader(
	const struct fsdp_load_result *result, int64_t world, struct shown_loader *shown)
{
	*shown = (struct shown_loader){
		.result = *result,
		.verdict = fsdp_load_verdict_name(result->verdict),
		.reasons = memory_new(result->reason_count + 2, sizeof *shown->reasons),
		.reason_count = result->reason_count,
		.world = world > 0 ? world : FSDP_ABSENT,
	};
	for (size_t i = 0; i < result->reason_count; i++)
		shown->reasons[i] = result->reasons[i];
}

/* Whether an error says of the stored tensors that they are not those of the model. No
 * rule of the loader is about the same: pickles, what differs from --expect, several sets
 * of weights, tied weights. DCP looks at the length of each item that it reads, and reads
 * none without elements; the names of the model are compared with those of the files, not
 * of the index. Some files next to the weights are not needed. */
static bool forbids_loads(const struct finding *finding, const char *loader)
{
	static const struct {
		const char *rule, *loader, *file; /* NULL: any */
	} checked[] = { { "FI1012" }, { "FI1061", "accelerate" }, { "FI1095" },
		{ "FI1060", "hf" }, { "FI1004", "dcp" },
		{ .file = "generation_config.json" }, { NULL, "hf", "training_args.bin" },
		{ NULL, "trainer", "training_args.bin" } };
	const struct fsdp_rule *rule = fsdp_rule_find(finding->rule);

	if (finding->severity != SEVERITY_ERROR || rule == NULL || rule_is_limit(rule) ||
		(strcmp(rule->category, "safety") == 0 &&
			strcmp(rule->id, "FI3044") != 0) ||
		strcmp(rule->category, "between") == 0)
		return false;
	for (size_t i = 0; i < sizeof checked / sizeof *checked; i++)
		if ((checked[i].rule == NULL || strcmp(checked[i].rule, rule->id) == 0) &&
			(checked[i].loader == NULL ||
				strcmp(checked[i].loader, loader) == 0) &&
			(checked[i].file != NULL
					? text_is(finding->file, text_of(checked[i].file))
					: strcmp(rule->id, "FI1004") != 0 ||
						  finding->affected_count == 1))
			return false;
	return true;
}

/* No rule of the loader covers that error: its result is unknown. */
static enum fsdp_load_verdict doubt(
	struct run *run, enum fsdp_load_verdict verdict, struct shown_loader *shown)
{
	const struct collected *collected = run->collected;
	const struct finding *found = NULL;

	for (size_t i = run->first.finding; i < collected->finding_count && found == NULL;
		i++)
		if (forbids_loads(&collected->findings[i], shown->result.loader))
			found = &collected->findings[i];
	if (found == NULL || verdict != FSDP_LOADS)
		return verdict;
	shown->verdict = fsdp_load_verdict_name(FSDP_LOAD_NOT_JUDGED);
	shown->reasons[shown->reason_count++] = (struct fsdp_load_reason){
		.code = "audit-error",
		.message = memory_format(
			"the audit reports an error (%s), and what the loader does with it is not known",
			found->rule),
	};
	return FSDP_LOAD_NOT_JUDGED;
}

/* Of all loaders most are not meant: then the status is that of the audit. */
static void fill_answer(struct loading_answer *answer,
	const struct loading_options *options, struct run *run)
{
	bool all = loading_names(options, "all");
	size_t count = answer->loads != NULL ? fsdp_load_check_count(answer->loads) : 0;

	answer->loaders = memory_new(count, sizeof *answer->loaders);
	for (; answer->count < count; answer->count++) {
		const struct fsdp_load_result *result =
			fsdp_load_check_result(answer->loads, answer->count);
		enum fsdp_load_verdict verdict;

		fill_loader(result, options->world, &answer->loaders[answer->count]);
		verdict = doubt(run, result->verdict, &answer->loaders[answer->count]);
		/* Facts that the files do not contain make the answer partial. */
		if (!all)
			answer->status = status_worse(answer->status,
				verdict == FSDP_LOADS             ? STATUS_GOOD
				: verdict == FSDP_LOAD_NOT_JUDGED ? STATUS_PARTIAL
								  : STATUS_BAD);
	}
}

/* Whether an error was collected for this checkpoint; `between`: or what differs from
 * something that it was compared with. */
static bool has_error(const struct run *run, bool between)
{
	const struct collected *collected = run->collected;

	for (size_t i = run->first.finding; i < collected->finding_count; i++)
		if (collected->findings[i].severity == SEVERITY_ERROR ||
			(between && strcmp(fsdp_rule_find(collected->findings[i].rule)
						    ->category,
					    "between") == 0))
			return true;
	return false;
}

/* What cannot be reached was reported when it was to be opened, and a file that changes
 * meanwhile when its bytes were read; no loader is asked then. */
static bool was_reported(const struct run *run, struct fsdp_error **error)
{
	if (*error == NULL)
		return false;
	enum fsdp_error_code code = fsdp_error_code(*error);
	if ((!fsdp_error_is_unread(*error) || run->checkpoint != NULL) &&
		(code != FSDP_ERROR_DAMAGED ||
			(!has_error(run, false) &&
				run->collected->failure_count <= run->first.failure)))
		return false;
	fsdp_error_free(*error);
	*error = NULL;
	return true;
}

RELEASE(release_loads, fsdp_load_check_free)

static bool ask(const struct loading_options *options, struct run *run, const char *path,
	const struct expected_list *expected, bool data, struct loading_answer *answer,
	struct fsdp_error **ret_error)
{
	const char *names[LOADERS_MOST] = { "auto" };
	struct fsdp_scan *survey = NULL;
	struct fsdp_load_check_options request = {
		.size = sizeof request,
		.loaders = names,
		.loader_count =
			loading_is_own(options) ? 1 : list_loaders(options, names),
		.path = path,
		.version = options->version,
		.world = options->world > 0 ? (uint32_t)options->world : 0,
		.data = data,
		.expected = expected->items,
		.expected_count = expected->count,
		.choices = answer->choices.items,
		.choice_count = answer->choices.count,
	};

	if (!fsdp_scan_new(request.path, run->limits, run->limit_count, run->remote,
		    &survey, ret_error))
		return was_reported(run, ret_error);
	bool run_all = fsdp_load_check_new(survey, &request, &answer->loads, ret_error);
	fsdp_scan_free(survey);
	if (run_all)
		memory_owns(answer->loads, release_loads);
	return run_all;
}

/* ---- the model that an adapter is put on ---- */

/* Whether the model has "NAME.weight". */
static bool has_weight(const struct fsdp_checkpoint *base, struct text module)
{
	char weight[1024];
	int size = snprintf(
		weight, sizeof weight, "%.*s.weight", (int)module.size, module.data);

	return size > 0 && (size_t)size < sizeof weight &&
	       fsdp_tensor_find(base, span_of_text(text_of(weight))) != FSDP_NONE;
}

/* Whether some name of the model has this segment, with its dots. */
static bool has_segment(const struct fsdp_checkpoint *base, const char *segment)
{
	struct name_buffer buffer = { 0 };
	bool found = false;

	for (uint32_t i = 0; i < fsdp_tensor_count(base) && !found; i++) {
		struct text name = name_text(&buffer, base, fsdp_tensor(base, i).name);

		found = name.data == NULL ||
			memmem(name.data, name.size, segment, strlen(segment)) != NULL;
	}
	return found;
}

/* Whether names of the model can be compared with those of the adapter: they share a
 * module, or it is certain that they share none. An expert that is stored by itself is a
 * part of a tensor in memory, and a prefix may be added when the model is loaded. */
static bool is_comparable(
	const struct fsdp_checkpoint *adapter, const struct fsdp_checkpoint *base)
{
	static const char PREFIX[] = "base_model.model.", TWICE[] = "model.model.";
	struct name_buffer buffer = { 0 };
	size_t shared = 0, twice = 0, like = 0, of = 0;

	for (uint32_t i = 0; i < fsdp_tensor_count(adapter); i++) {
		struct text name =
			name_text(&buffer, adapter, fsdp_tensor(adapter, i).name);
		char segment[256];

		if (name.data == NULL || name.size < strlen(PREFIX) ||
			memcmp(name.data, PREFIX, strlen(PREFIX)) != 0)
			continue;
		name.data += strlen(PREFIX);
		name.size -= strlen(PREFIX);
		of++;
		/* A name ends with the names of a member and of the adapter. */
		for (int cuts = 0; cuts < 3 && name.size > 0; cuts++) {
			size_t end = name.size;

			while (name.size > 0 && name.data[--name.size] != '.')
				;
			shared += has_weight(base, name);
			if (name.size > strlen(TWICE) &&
				memcmp(name.data, TWICE, strlen(TWICE)) == 0)
				twice += has_weight(
					base, (struct text){ name.data + strlen("model."),
						      name.size - strlen("model.") });
			snprintf(segment, sizeof segment, "%.*s.", (int)(end - name.size),
				name.data + name.size);
			like += of == 1 && has_segment(base, segment);
		}
	}
	return !has_segment(base, ".experts.") &&
	       (shared > 0 || twice > 0 || (like == 0 && of > 0));
}

/* Nothing is expected where it cannot be read in full, or has other names. */
static void open_base(const struct run *run, const char *place, char *path, size_t size,
	struct expectation *ret_base)
{
	struct fsdp_options options = run_opens(run);
	struct fsdp_checkpoint *base = NULL;
	struct fsdp_error *error = NULL;
	const char *family = run->checkpoint != NULL
				     ? fsdp_checkpoint_format(run->checkpoint).family
				     : NULL;

	options.no_plan = true;
	if (family == NULL || strncmp(family, "peft", 4) != 0 ||
		!path_of_base(place, path, size) ||
		!fsdp_checkpoint_open(
			(const char *const[]){ path }, 1, &options, &base, &error)) {
		fsdp_error_free(error);
		return;
	}
	memory_owns(base, release_checkpoint);
	if (fsdp_checkpoint_error_count(base) == 0 &&
		is_comparable(run->checkpoint, base))
		*ret_base = (struct expectation){ .path = path, .checkpoint = base };
}

void loading_check(const struct loading_options *options, struct run *run,
	const struct expectation *expected, bool data, struct loading_answer *answer)
{
	struct expected_list list = { 0 };
	struct expectation base = { 0 };
	const char *place = answer_place(run);
	char path[4096];

	/* torch.load takes a file: the only one that was found. */
	if (options->loaders.count == 1 && has_word(options, "weights_only") &&
		run->checkpoint != NULL && fsdp_file_count(run->checkpoint) == 1 &&
		path_is_folder(place)) {
		struct fsdp_span file = fsdp_file(run->checkpoint, 0).path;
		struct stat found;

		if ((size_t)snprintf(path, sizeof path, "%s/%.*s", place, (int)file.size,
			    (const char *)file.data) < sizeof path &&
			stat(path, &found) == 0)
			place = path;
	}
	*answer = (struct loading_answer){ .status = STATUS_GOOD };
	if (loading_is_own(options) || has_word(options, "none"))
		return;
	if (strcmp(run->path, "-") == 0)
		run_refuse(run, "store standard input as a file",
			"--for=%s: a loader opens a path", options->loaders.items[0]);
	/* It begins at the run, also where another step than the one it takes is opened.
	 */
	if (options->loaders.count == 1 && has_word(options, "deepspeed"))
		place = run->path;
	if (expected->path == NULL && options->loaders.count == 1 &&
		has_word(options, "peft"))
		open_base(run, place, path, sizeof path, &base);
	loader_choices_parse(&options->choices, &answer->choices);
	expectation_list(base.path != NULL ? &base : expected, &list);
	run_must(run, ask(options, run, place, &list, data, answer, &run->error));
	fill_answer(answer, options, run);
}

/* ---- the loader of the directory's own family ---- */

/* Makes a finding with the same content as this reason more severe. False: none has it.
 */
static bool join_same(const struct run *run, const struct fsdp_load_reason *reason,
	enum severity severity)
{
	static const struct {
		const char *rule, *code;
		bool is_of_file;  /* which the reason names; its fix is the better one */
		const char *word; /* which the reason has */
	} same[] = { { "FI1001", "tag", false }, { "FI4002", "other-names", false },
		{ "FI4002", "missing-tensor", false }, { "FI1001", "config", true },
		{ "FI1001", "missing-file", true }, { "FI1025", "config", true },
		{ "FI1091", "adapter-modules", true },
		{ "FI3067", "unsafe-pickle", false },
		{ "FI4004", "shape", false, "shape [0" } };
	struct collected *collected = run->collected;

	for (size_t i = run->first.finding; i < collected->finding_count; i++)
		for (size_t k = 0; k < sizeof same / sizeof *same; k++) {
			struct finding *finding = &collected->findings[i];

			if (strcmp(finding->rule, same[k].rule) != 0 ||
				strcmp(reason->code, same[k].code) != 0 ||
				(same[k].word != NULL &&
					strstr(reason->message, same[k].word) == NULL) ||
				(same[k].is_of_file &&
					memmem(reason->message, strlen(reason->message),
						finding->file.data,
						finding->file.size) == NULL))
				continue;
			finding->severity = severity;
			if (same[k].is_of_file && reason->way_out != NULL)
				finding->fix = text_new(reason->way_out);
			return true;
		}
	return false;
}

/* The first reason that weighs as much as the verdict. */
static void find_own(const struct fsdp_load_result *result, struct run *run)
{
	static const char *const does[] = { [FSDP_LOADS] =
						    "ignores a part of the directory",
		[FSDP_LOAD_DIFFERS] = "loads it with differences",
		[FSDP_LOAD_REFUSES] = "refuses the directory" };
	const struct finding about = { .severity = result->verdict == FSDP_LOADS
							   ? SEVERITY_WARNING
							   : SEVERITY_ERROR,
		.input = run->input };

	/* Or it has the same cause. */
	if (result->verdict == FSDP_LOAD_NOT_JUDGED || has_error(run, true))
		return;
	FOR_EACH(i, result->reason_count, reason, &result->reasons[i]) {
		/* A resume without states of the optimizer is FI5007, and values are cast
		 * without a loss of weights. */
		if (reason->verdict != result->verdict ||
			(reason->verdict == FSDP_LOAD_DIFFERS &&
				(strcmp(reason->code, "dtype") == 0 ||
					strcmp(reason->code, "optimizer") == 0)) ||
			(reason->verdict == FSDP_LOADS &&
				strcmp(reason->code, "ignored") != 0))
			continue;
		if (!join_same(run, reason, about.severity))
			collected_report(run->collected, "FI1013", about,
				reason->way_out != NULL ? reason->way_out : "",
				"%s %s (tried with %s %s): %s", result->title,
				does[result->verdict], result->library, result->version,
				reason->message);
		return;
	}
}

/* The named directory, which may lead to the opened one, else the opened one. */
static bool run_own_loader(const struct loading_options *options, struct run *run,
	bool data, struct loading_answer *answer, struct fsdp_error **ret_error)
{
	const char *place = answer_place(run);
	struct expectation base = { 0 };
	struct expected_list list = { 0 };
	char path[4096];

	open_base(run, place, path, sizeof path, &base);
	answer->has_base = base.path != NULL;
	expectation_list(&base, &list);
	bool good = ask(options, run, run->path, &list, data, answer, ret_error);
	/* A run has its steps below it: the loader of Hugging Face begins at a step, that
	 * of DeepSpeed at the run. */
	if (good && place != run->path && answer->loads != NULL &&
		(fsdp_load_check_count(answer->loads) == 0 ||
			(step_of_path(place) >= 0 &&
				strcmp(fsdp_load_check_result(answer->loads, 0)->loader,
					"hf") == 0))) {
		answer->loads = NULL;
		good = ask(options, run, place, &list, data, answer, ret_error);
	}
	return good;
}

void loading_check_own(const struct loading_options *options, struct run *run, bool data,
	struct loading_answer *answer)
{
	struct fsdp_error *error = NULL;
	const struct fsdp_load_result *result;

	*answer = (struct loading_answer){ .status = STATUS_GOOD, .is_own = true };
	/* A loader opens a path. */
	if (!loading_is_own(options) || run->path_count > 1 ||
		strcmp(run->path, "-") == 0)
		return;
	loader_choices_parse(&options->choices, &answer->choices);
	if (!run_own_loader(options, run, data, answer, &error)) {
		if (error == NULL || fsdp_error_code(error) == FSDP_ERROR_MEMORY)
			memory_fail();
		if (run->checkpoint != NULL && !was_reported(run, &error) &&
			fsdp_error_code(error) != FSDP_ERROR_LIMIT) {
			collected_own_error(run->collected, error, run->input);
			run->status = status_worse(run->status, STATUS_PARTIAL);
		} else {
			fsdp_error_free(error);
		}
		return;
	}
	result = answer->loads != NULL ? fsdp_load_check_result(answer->loads, 0) : NULL;
	if (result == NULL)
		return;
	answer->loaders = memory_new(1, sizeof *answer->loaders);
	fill_loader(result, options->world, &answer->loaders[0]);
	answer->count++;
	if (doubt(run, result->verdict, &answer->loaders[0]) == FSDP_LOADS) {
		struct collected *collected = run->collected;

		/* A tensor that the index lists and no file has is not one of the model
		 * then, and the loader ties a head that is not stored, whatever
		 * config.json says. */
		for (size_t i = run->first.finding; i < collected->finding_count; i++)
			if (strcmp(result->loader, "hf") == 0 &&
				collected->findings[i].severity == SEVERITY_ERROR &&
				(strcmp(collected->findings[i].rule, "FI1060") == 0 ||
					strcmp(collected->findings[i].rule, "FI1095") ==
						0))
				collected->findings[i].severity = SEVERITY_WARNING;
	}
	find_own(result, run);
}

/* ---- the answer ---- */

#define REASON struct fsdp_load_reason

static const struct record reason_record = OBJECT_RECORD(REASON, "load_reason",
	"Reason why a loader refuses it, or loads other values.",
	{ "code", WORD_AT(REASON, code), .always = true, .listed = true,
		.list_words = fsdp_load_code_name,
		ABOUT("One of a closed list, which audit(1) explains.") },
	{ "message", WORD_AT(REASON, message),
		ALWAYS("The problem in one sentence. The loader itself may print another one.") },
	{ "names", LIST_AT(REASON, names, name_count, record_texts),
		ALWAYS("Tensors, files or classes that it is about, the first ones.") },
	{ "way_out", WORD_AT(REASON, way_out), ABOUT("Fix.") });

#define LOADER struct shown_loader

const struct record loader_record = OBJECT_RECORD(LOADER, "loader",
	"The result of loading it with a loader, called with its defaults except `options`.",
	{ "loader", WORD_AT(LOADER, result.loader), ALWAYS("As `--for` names it.") },
	{ "title", WORD_AT(LOADER, result.title), ALWAYS("Name for people.") },
	{ "family", BOOL_AT(LOADER, result.is_family),
		ALWAYS("Whether it is the loader of the checkpoint's own family.") },
	{ "library", WORD_AT(LOADER, result.library),
		ALWAYS("The library that decides.") },
	{ "version", WORD_AT(LOADER, result.version),
		ALWAYS("The release that the rules were tried with.") },
	{ "world", INTEGER_AT(LOADER, world),
		ABOUT("Ranks of the run that loads (`--world`).") },
	{ "verdict", WORD_AT(LOADER, verdict),
		ALWAYS("`loads`: every tensor of the model gets the saved one. `differs`: the call returns, but not all values are those that were saved. `refuses`: it raises. `not_judged`: the files do not contain enough information.") },
	{ "took", LIST_AT(LOADER, result.took, result.took_count, record_texts),
		ALWAYS("Files of weights that it reads, where it chooses them by their names: of several sets those of the one that wins. Empty if it refuses.") },
	{ "options",
		LIST_AT(LOADER, result.choices, result.choice_count,
			loader_choice_record),
		ALWAYS("Parameters that `--loader-option` sets.") },
	{ "reasons", LIST_AT(LOADER, reasons, reason_count, reason_record),
		ALWAYS("Why, in the order in which they are met.") });

void loading_text(const struct loading_answer *answer, struct out *out)
{
	FOR_EACH(i, answer->count, shown, &answer->loaders[i]) {
		const struct fsdp_load_result *result = &shown->result;

		out_line_begin(out, NULL);
		out_values(out, "{} ({} {}", value_word(result->loader),
			value_word(result->library), value_word(result->version));
		for (size_t k = 0; k < result->choice_count; k++)
			out_values(out, ", {}={}", value_word(result->choices[k].name),
				value_word(result->choices[k].value));
		out_line_text(out, "): %s",
			strcmp(shown->verdict, "differs") == 0 ? "loads with differences"
			: strcmp(shown->verdict, "not_judged") == 0 ? "not judged"
								    : shown->verdict);
		FOR_EACH(k, shown->reason_count, reason, &shown->reasons[k]) {
			if (k > 0) {
				out_line_begin(out, NULL);
				out_line_text(out, "         and");
			}
			out_values(out, ": {}", value_word(reason->message));
			out_line_end(out);
			if (reason->way_out != NULL)
				out_values_line(out, NULL, "         fix: {}",
					value_word(reason->way_out));
		}
		if (shown->reason_count == 0)
			out_line_end(out);
	}
}
