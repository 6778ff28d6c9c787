/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the tensors of a checkpoint as plain files: decides which and where, and has the
 * library write them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fsdp/analysis.h>

#include "args/input.h"
#include "commands/export.h"
#include "shared/audit-run.h"
#include "shared/expectation.h"
#include "shared/shown-names.h"
#include "shared/tensor-reading.h"
#include "session/diagnostics.h"
#include "session/session.h"
#include "session/session-private.h"

/* ---- --adapter, --base and --prefix ---- */

#define PEFT "base_model.model."

static bool contains(struct text name, const char *part)
{
	return name.data != NULL &&
	       memmem(name.data, name.size, part, strlen(part)) != NULL;
}

struct text exported_name(struct exporting *exporting, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(exporting->run->checkpoint, index);

	return tensor_shown_name(exporting->run, &exporting->buffers->name, &tensor);
}

bool is_adapter(const struct run *run)
{
	const char *family = fsdp_checkpoint_format(run->checkpoint).family;

	return family != NULL && strncmp(family, "peft", 4) == 0;
}

/* Whether --prefix, --adapter and --base take a tensor of this name. */
static bool is_of_sort(const struct export_options *options, struct text name)
{
	bool is_lora = contains(name, ".lora_") || contains(name, ".modules_to_save.");
	size_t size = options->prefix != NULL ? strlen(options->prefix) : 0;

	if (size > 0 && options->prefix[size - 1] == '.')
		size--;
	if (options->prefix != NULL &&
		(name.size <= size + 1 || memcmp(name.data, options->prefix, size) != 0 ||
			name.data[size] != '.'))
		return false;
	return (!options->adapter || is_lora) && (!options->base || !is_lora);
}

/* ---- two state dicts ---- */

/* The tensor whose name is that of both parts, or FSDP_NONE. */
static uint32_t find_joined(struct exporting *exporting, struct text a, struct text b)
{
	struct name_buffer *buffer = &exporting->buffers->text;
	size_t length = 0;

	name_buffer_append(buffer, &length, a);
	name_buffer_append(buffer, &length, b);
	return fsdp_tensor_find(exporting->run->checkpoint,
		span_of_text((struct text){ buffer->data, length }));
}

/* Whether that state dict has a tensor of this name and shape. */
static bool has_twin(struct exporting *exporting, struct text dict, struct text rest,
	const struct fsdp_tensor *tensor)
{
	uint32_t found = find_joined(exporting, dict, rest);

	if (found == FSDP_NONE)
		return false;
	struct fsdp_tensor other = fsdp_tensor(exporting->run->checkpoint, found);
	return other.dims == tensor->dims &&
	       (other.dims == 0 || memcmp(other.shape, tensor->shape,
					   other.dims * sizeof *other.shape) == 0);
}

/* The state dict that a wanted tensor is of, an average or not; absent: none. */
static struct text dict_of(
	struct exporting *exporting, uint32_t index, bool is_average, size_t most)
{
	struct text name = exported_name(exporting, index);
	const char *dot = name.data != NULL ? memchr(name.data, '.', name.size) : NULL;
	size_t size = dot != NULL ? (size_t)(dot - name.data) : 0;

	if (size == 0 || size >= most || fsdp_is_average(name.data, size) != is_average ||
		!is_wanted(exporting, index))
		return (struct text){ 0 };
	/* The name was asked for again. */
	return (struct text){ exported_name(exporting, index).data, size };
}

static bool find_average(struct exporting *exporting, char *average, size_t size)
{
	size_t count = fsdp_tensor_count(exporting->run->checkpoint);

	FOR_EACH(i, (uint32_t)count, dict, dict_of(exporting, i, true, size)) {
		if (dict.data == NULL)
			continue;
		memcpy(average, dict.data, dict.size);
		average[dict.size] = '\0';
		return true;
	}
	return false;
}

/* The state dict that this one averages; false: not an average. */
static bool find_original(
	struct exporting *exporting, const char *average, char *original, size_t size)
{
	const struct fsdp_checkpoint *checkpoint = exporting->run->checkpoint;
	size_t count = fsdp_tensor_count(checkpoint), length = strlen(average);
	bool is_found = false;

	*original = '\0';
	for (uint32_t i = 0; i < count && !is_found; i++) {
		struct text dict = dict_of(exporting, i, false, size);

		if (dict.data == NULL || text_is(dict, text_of(original)))
			continue;
		memcpy(original, dict.data, dict.size);
		original[dict.size] = '\0';
		is_found = true;
		for (uint32_t k = 0; k < count && is_found; k++) {
			struct fsdp_tensor tensor = fsdp_tensor(checkpoint, k);
			struct text other = exported_name(exporting, k);

			if (other.size > length && other.data[length] == '.' &&
				memcmp(other.data, average, length) == 0)
				is_found = has_twin(exporting, text_of(original),
					(struct text){ other.data + length,
						other.size - length },
					&tensor);
		}
	}
	return is_found;
}

/* ---- LoRA that is not merged ---- */

static bool has_lora(struct exporting *exporting)
{
	uint32_t count = (uint32_t)fsdp_tensor_count(exporting->run->checkpoint);
	bool has_pair = false, has_inner = false;

	for (uint32_t i = 0; i < count && !(has_pair && has_inner); i++) {
		struct text name = exported_name(exporting, i);

		if (!is_wanted(exporting, i))
			continue;
		has_pair |= contains(name, ".lora_A.") || contains(name, ".lora_a");
		has_inner |= contains(name, ".base_layer.") ||
			     contains(name, ".linear.weight");
	}
	return has_pair && has_inner;
}

/* Refuses where it is not known what is meant: two state dicts, or LoRA in a model. */
static void refuse_sorts(struct exporting *exporting)
{
	const struct export_options *options = exporting->options;
	char average[256], original[256];

	if (options->index_only || exporting->named != NULL ||
		!selection_is_all(exporting->selection))
		return;
	if (options->prefix == NULL && find_average(exporting, average, sizeof average) &&
		find_original(exporting, average, original, sizeof original))
		run_refuse(exporting->run, "choose one of them",
			"%s and %s are two models with the same names and shapes: --prefix=%s or --prefix=%s",
			original, average, original, average);
	if (!options->adapter && !options->base && !is_adapter(exporting->run) &&
		has_lora(exporting))
		run_refuse(exporting->run,
			"to merge them use the program that trained them, which has lora_alpha",
			"the model has LoRA that is not merged: --base writes the model without it, --adapter writes it alone");
}

/* Without each of these segments. */
static void remove_parts(char *name, const char *part, const char *with)
{
	char *at;

	while ((at = strstr(name, part)) != NULL) {
		memcpy(at, with, strlen(with));
		memmove(at + strlen(with), at + strlen(part),
			strlen(at + strlen(part)) + 1);
	}
}

/* Fills `renames`. */
static void find_renames(struct exporting *exporting, const struct typed_names *names)
{
	struct run *run = exporting->run;
	uint32_t count = (uint32_t)fsdp_tensor_count(run->checkpoint);

	exporting->renames = names->renames;
	exporting->rename_count = names->rename_count;
	if (!exporting->options->adapter && !exporting->options->base &&
		exporting->options->prefix == NULL)
		return;
	exporting->own_renames = run_memory(
		run, count + names->rename_count + 1, sizeof *exporting->own_renames);
	for (size_t i = 0; i < names->rename_count; i++)
		exporting->own_renames[i] = names->renames[i];
	exporting->renames = exporting->own_renames;
	if (!exporting->options->adapter && !exporting->options->base) {
		struct text prefix = text_of(exporting->options->prefix);

		if (prefix.size > 0 && prefix.data[prefix.size - 1] == '.')
			prefix.size--;
		exporting->own_renames[exporting->rename_count++] =
			(struct fsdp_rename){ span_of_text(prefix),
				span_of_text(text_of("")) };
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (!is_wanted(exporting, i))
			continue;
		struct text name = exported_name(exporting, i);
		struct fsdp_rename *rename =
			&exporting->own_renames[exporting->rename_count];
		bool is_lora = exporting->options->adapter;
		char *from = run_memory(run, 2 * name.size + sizeof PEFT + 1, 1), *to;
		memcpy(from, name.data, name.size);
		to = from + name.size;
		*to = '\0';
		if (is_lora && !contains(name, PEFT))
			strcpy(to, PEFT);
		strncat(to, name.data, name.size);
		remove_parts(to, is_lora ? ".default." : ".base_layer.", ".");
		remove_parts(
			to, is_lora ? ".modules_to_save." : ".original_module.", ".");
		if (!is_lora && strncmp(to, PEFT, sizeof PEFT - 1) == 0)
			to += sizeof PEFT - 1;
		*rename = (struct fsdp_rename){ span_of_text(
							(struct text){ from, name.size }),
			span_of_text(text_of(to)) };
		exporting->rename_count++;
	}
}

/* ---- which tensors are exported ---- */

/* Whether the weights of the model are asked for, and not the master weights. */
static bool only_model(const struct exporting *exporting)
{
	return strcmp(exporting->options->weights, "model") == 0;
}

/* Parameters and buffers, unless other roles are asked for. DeepSpeed has the weight X a
 * second time as module.X, of another role. */
static bool has_role(
	struct exporting *exporting, const struct fsdp_tensor *tensor, struct text name)
{
	static const char prefix[] = "module.";
	const struct fsdp_checkpoint *checkpoint = exporting->run->checkpoint;
	size_t size = sizeof prefix - 1;
	uint32_t other;

	if (exporting->run->select->roles.count != 0)
		return true;
	if (only_model(exporting) && tensor->role == FSDP_ROLE_OTHER) {
		if (name.size <= size || memcmp(name.data, prefix, size) != 0)
			return false;
		other = fsdp_tensor_find(checkpoint,
			span_of_text(
				(struct text){ name.data + size, name.size - size }));
		return other != FSDP_NONE &&
		       fsdp_tensor(checkpoint, other).role == FSDP_ROLE_PARAM;
	}
	if (only_model(exporting) && tensor->role == FSDP_ROLE_PARAM) {
		other = find_joined(exporting, text_of(prefix), name);
		return other == FSDP_NONE ||
		       fsdp_tensor(checkpoint, other).role != FSDP_ROLE_OTHER;
	}
	return tensor->role == FSDP_ROLE_PARAM || tensor->role == FSDP_ROLE_BUFFER;
}

bool is_wanted(struct exporting *exporting, uint32_t index)
{
	struct run *run = exporting->run;
	struct fsdp_tensor tensor = fsdp_tensor(run->checkpoint, index);

	if (exporting->options->index_only)
		return true;
	if (exporting->repeated != NULL && exporting->repeated[index])
		return false;
	if (exporting->named != NULL)
		return exporting->named[index];
	struct text name = tensor_shown_name(run, &exporting->buffers->name, &tensor);
	return has_role(exporting, &tensor, name) &&
	       is_of_sort(exporting->options, name) &&
	       (selection_is_all(exporting->selection) ||
		       selection_takes_tensor(exporting->selection, run->checkpoint,
			       index, span_of_text(name)));
}

static const char *const TO_WORDS[] = { "hf", "safetensors", "npy", "raw", NULL };
static const char *const TIE_WORDS[] = { "drop", "keep", NULL };
static const char *const WEIGHT_WORDS[] = { "master", "model", NULL };
static const char *const CAST_WORDS[] = { "bfloat16", "float16", "float32", NULL };

#define AT(member) offsetof(struct export_options, member)
static const struct option_row OPTIONS[] = {
	{ "out", 'o', OPTION_TEXT, "OUT", AT(out),
		.help = "directory or file to write; -: standard output" },
	{ "to", 0, OPTION_WORD, "FORM", AT(to), TO_WORDS,
		.help = "write shards, one file, or one tensor (default: by OUT)" },
	{ "max-shard-size", 0, OPTION_SIZE, "SIZE", AT(shard_bytes),
		.help = "largest size of one shard (default 5GB)" },
	{ "tie", 0, OPTION_WORD, "HOW", AT(tie), TIE_WORDS, .initial = "drop",
		.help = "write tied tensors under one name, or under all" },
	{ "strip", 0, OPTION_TEXT, "PREFIX", AT(strip), .initial = "auto",
		.is_once = true, .help = "remove this prefix from names; auto, none" },
	{ "rename", 0, OPTION_LIST, "FROM=TO", AT(renames),
		.help = "rename tensors, by full name or prefix" },
	{ "map", 0, OPTION_TEXT, "NAME|FILE", AT(map),
		.help = "convert names and layouts with this map (help maps)" },
	{ "size", 0, OPTION_LIST, "NAME=N", AT(sizes),
		.help = "set a number of the map: num_attention_heads=32" },
	{ "weights", 0, OPTION_WORD, "WHICH", AT(weights), WEIGHT_WORDS,
		.initial = "master",
		.help = "DeepSpeed: float32 weights of the optimizer, or the model's" },
	{ "cast", 0, OPTION_WORD, "DTYPE", AT(cast), CAST_WORDS,
		.help = "convert floating-point tensors (round to nearest even)" },
	{ "with-config", 0, OPTION_TEXT, "DIR", AT(config),
		.help = "copy configuration and tokenizer from this directory" },
	{ "prefix", 0, OPTION_TEXT, "NAME", AT(prefix),
		.help = "export the state dict of this name" },
	{ "adapter", 0, OPTION_FLAG, NULL, AT(adapter),
		.help = "export only the LoRA adapter of an unmerged model" },
	{ "base", 0, OPTION_FLAG, NULL, AT(base),
		.help = "export an unmerged model without its LoRA adapter" },
	{ "index-only", 0, OPTION_FLAG, NULL, AT(index_only),
		.help = "only create the missing index file" },
	{ "force", 0, OPTION_FLAG, NULL, AT(force), .help = "replace existing files" },
	{ "partial", 0, OPTION_FLAG, NULL, AT(partial),
		.help = "export complete tensors of an incomplete checkpoint" },
	{ "skip-unsupported", 0, OPTION_FLAG, NULL, AT(skip_unsupported),
		.help = "skip tensors that the format cannot store" },
	{ "no-verify", 0, OPTION_FLAG, NULL, AT(no_verify),
		.help = "do not read back the output; print no digests" },
	{ NULL },
};

static enum fsdp_skip_reason choose(void *context, uint32_t index)
{
	struct exporting *exporting = context;

	if (is_wanted(exporting, index))
		return exporting->torn != NULL && exporting->torn[index]
			       ? FSDP_EXPORT_INCOMPLETE
			       : FSDP_EXPORT_TAKEN;
	struct fsdp_tensor tensor = fsdp_tensor(exporting->run->checkpoint, index);
	return tensor.role == FSDP_ROLE_PARAM || tensor.role == FSDP_ROLE_BUFFER
		       ? FSDP_EXPORT_SELECTED
		       : FSDP_EXPORT_ROLE;
}

/* Names that are typed are tensors'. */
static bool with_hidden(void *context, uint32_t index)
{
	struct exporting *exporting = context;
	struct run *run = exporting->run;
	struct fsdp_value value = fsdp_value(run->checkpoint, index);
	struct text name = entry_shown_name(run, &exporting->buffers->name, &value);

	const struct texts *roles = &run->select->roles;
	bool is_requested = roles->count == 0 && value.role == FSDP_ROLE_PARAM;

	for (size_t i = 0; i < roles->count; i++)
		is_requested |= strcmp(roles->items[i], fsdp_role_name(value.role)) == 0;
	return exporting->named == NULL && is_requested &&
	       selection_takes_name(exporting->selection, span_of_text(name));
}

/* All of one name, ranks' own too: those that are left over are told apart by --rank. */
static void find_names(struct exporting *exporting)
{
	struct run *run = exporting->run;
	const struct fsdp_checkpoint *checkpoint = run->checkpoint;
	size_t count = fsdp_tensor_count(checkpoint);

	if (run->word_count == 0)
		return;
	exporting->named = run_memory(run, count, sizeof *exporting->named);
	for (size_t i = 0; i < run->word_count; i++) {
		uint32_t first = fsdp_tensor_find(
			checkpoint, span_of_text(text_of(run->words[i])));
		if (first == FSDP_NONE) {
			struct retyped line;
			struct usage usage;

			retyped_line(&line, "ls", run->path, NULL);
			run_failure(run, "usage",
				suggest_path_as_name(
					&usage, run->arguments, run->words[i])
					? usage.hint
					: line.text,
				"no tensor %s", run->words[i]);
			exporting->status = STATUS_BAD;
			continue;
		}
		for (uint32_t k = first; k < count; k++) {
			struct fsdp_tensor tensor = fsdp_tensor(checkpoint, k);
			struct text name = tensor_shown_name(
				run, &exporting->buffers->name, &tensor);
			if (tensor.name != fsdp_tensor(checkpoint, first).name)
				break;
			exporting->named[k] = selection_takes_tensor(
				exporting->selection, checkpoint, k, span_of_text(name));
		}
	}
	exporting->refused = exporting->status == STATUS_BAD;
}

/* ---- where to ---- */

static const char *copy(struct run *run, const char *text, size_t size)
{
	return memcpy(run_memory(run, size + 1, 1), text, size);
}

/* The form of --to, else of OUT's suffix. */
static enum fsdp_export_form get_form(const struct export_options *options)
{
	const char *dot = options->out == NULL ? NULL : strrchr(options->out, '.');
	enum fsdp_export_form form = FSDP_EXPORT_HF;

	if (options->to != NULL)
		while (strcmp(TO_WORDS[form], options->to) != 0)
			form++;
	else if (dot != NULL && !path_is_folder(options->out))
		form = strcmp(dot, ".safetensors") == 0 ? FSDP_EXPORT_SAFETENSORS
		       : strcmp(dot, ".npy") == 0       ? FSDP_EXPORT_NPY
							: form;
	return form;
}

/* OUT, split into the target directory and the name of the only file. */
static void find_target(struct exporting *exporting)
{
	const char *out = exporting->options->index_only ? exporting->run->path
							 : exporting->options->out;
	const char *slash = strrchr(out, '/');

	exporting->to_stdout = strcmp(out, "-") == 0;
	if (exporting->to_stdout)
		return;
	exporting->folder = out;
	if (exporting->form == FSDP_EXPORT_HF)
		return;
	exporting->folder = slash == NULL ? "."
			    : slash == out
				    ? "/"
				    : copy(exporting->run, out, (size_t)(slash - out));
	exporting->file = slash != NULL ? slash + 1 : out;
}

/* The given directory, or that of the checkpoint, unless it is the target. */
static void find_config(struct exporting *exporting)
{
	const char *path = answer_place(exporting->run),
		   *given = exporting->options->config;
	size_t size = strlen(path);
	struct stat from, to;

	if (exporting->file != NULL || exporting->to_stdout ||
		(given == NULL && strcmp(path, "-") == 0))
		return;
	if (given == NULL && !path_is_folder(path)) {
		while (size > 0 && path[size - 1] != '/')
			size--;
		size -= size > 0 && helper_kind(path) == FSDP_REMOTE_FILE;
		if (size == 0)
			path = ".";
		size += size == 0;
	}
	exporting->config = given != NULL ? given : copy(exporting->run, path, size);
	bool is_there = stat(exporting->config, &from) == 0 &&
			stat(exporting->folder, &to) == 0 && from.st_dev == to.st_dev &&
			from.st_ino == to.st_ino;
	/* Other files than a named one at a URL were not requested. */
	if (is_there || (given == NULL && helper_kind(path) == FSDP_REMOTE_FILE &&
				helper_kind(exporting->config) != FSDP_REMOTE_FOLDER))
		exporting->config = NULL;
}

/* Why the request is rejected; NULL: it is not. */
static const char *objection(const struct exporting *exporting)
{
	const struct export_options *options = exporting->options;
	bool is_file = exporting->form != FSDP_EXPORT_HF;

	if (options->out != NULL
			? url_is(options->out)
			: options->index_only &&
				  helper_kind(exporting->run->path) != FSDP_REMOTE_LOCAL)
		return "outputs are local files; copy them with the tools of the store";
	if (options->index_only)
		return options->out != NULL || is_file
			       ? "--index-only writes into the directory of the shards: it excludes -o and --to"
			       : NULL;
	if (options->out == NULL)
		return "export needs a directory or a file to write: -o OUT";
	if (options->adapter && options->base)
		return "--adapter excludes --base";
	if (options->shard_bytes == 0)
		return "--max-shard-size must be above 0";
	if (strcmp(options->out, "-") == 0 && !is_file)
		return "a directory cannot be written to standard output: choose --to=safetensors, npy or raw";
	if (strcmp(options->out, "-") == 0 && answer_is_machine(exporting->run) &&
		exporting->run->common->outputs.count == 0)
		return "standard output contains the tensors: write the answer to a file with --output=json=FILE";
	if (is_file && options->out[0] != '\0' &&
		options->out[strlen(options->out) - 1] == '/')
		return "-o names a directory, but --to writes one file";
	if (options->out[0] == '\0')
		return "-o has an empty file name";
	return NULL;
}

/* Refuses a target that cannot be written. The library reports all other problems. */
static void refuse_target(struct exporting *exporting)
{
	const char *out = exporting->options->out;
	const char *place = answer_place(exporting->run);
	struct retyped line;
	struct stat status;

	if (exporting->options->index_only && place != exporting->run->path) {
		retyped_line(&line, "export", "--index-only", place, NULL);
		run_refuse(exporting->run, line.text,
			"%s is not the directory of the shards", exporting->run->path);
	}
	if (exporting->to_stdout || exporting->options->index_only)
		return;
	bool there = stat(out, &status) == 0;
	if (exporting->file == NULL && there && !S_ISDIR(status.st_mode))
		run_refuse(exporting->run, "one file is written with --to=safetensors",
			"%s is a file, but export writes a directory", out);
	if (exporting->file != NULL && there && !S_ISDIR(status.st_mode) &&
		!S_ISREG(status.st_mode))
		run_refuse(exporting->run, "-o - writes to standard output",
			"%s is not a regular file", out);
	if (exporting->file != NULL && there && S_ISDIR(status.st_mode))
		run_refuse(exporting->run, "name a file in it",
			"%s is a directory, but export writes one file", out);
	if (exporting->file == NULL && !there && temporary_why() != 0)
		run_refuse(exporting->run,
			temporary_why() == ENOENT
				? "make its parent directory first (mkdir -p)"
				: "name another place",
			"%s: cannot make the directory: %s", out,
			strerror(temporary_why()));
}

/* ---- the options of the library ---- */

RELEASE(release_plan, fsdp_export_free)
RELEASE(release_map, fsdp_map_free)
RELEASE(release_replicas, fsdp_replicas_free)

static void make_plan(struct exporting *exporting, const struct typed_names *names)
{
	const struct export_options *options = exporting->options;
	struct run *run = exporting->run;
	struct fsdp_export_options wanted;

	wanted = (struct fsdp_export_options){
		.size = sizeof wanted,
		.form = exporting->form,
		.choose = choose,
		.choose_context = exporting,
		.with_hidden = with_hidden,
		.index_only = options->index_only,
		.stored_names = run->common->raw || options->index_only ||
				strcmp(options->strip, "none") == 0,
		.strip = options->index_only || options->adapter || options->base ? ""
			 : strcmp(options->strip, "auto") == 0
				 ? (only_model(exporting) ? "module" : NULL)
			 : strcmp(options->strip, "none") == 0 ? ""
							       : options->strip,
		.renames = exporting->renames,
		.rename_count = exporting->rename_count,
		.is_adapter = options->adapter || is_adapter(run),
		.map = exporting->map,
		.sizes = names->sizes,
		.size_count = names->size_count,
		.keep_ties = strcmp(options->tie, "keep") == 0,
		.skip_unsupported = options->skip_unsupported,
		.cast = options->cast != NULL ? (uint32_t)dtype_of_word(options->cast)
					      : 0,
		.shard_bytes =
			options->shard_bytes != UINT64_MAX ? options->shard_bytes : 0,
		.limits = run->limits,
		.limit_count = run->limit_count,
	};

	run_must(run,
		fsdp_export_new(run->checkpoint, &wanted, &exporting->plan, &run->error));
	run_owns(run, exporting->plan, release_plan);
}

/* ---- writing ---- */

static void write_files(struct exporting *exporting)
{
	struct run *run = exporting->run;
	struct fsdp_recording_progress progress = { 0 };
	const struct fsdp_export_target target = {
		.size = sizeof target,
		.folder = exporting->folder,
		.file = exporting->file,
		.stream = STDOUT_FILENO,
		.force = exporting->options->force,
		.no_verify = exporting->options->no_verify,
		.digests = answer_is_machine(run),
		.config_folder = exporting->config,
		.remote = helper_remote(),
		.prefix = temporary_prefix(),
		.jobs = jobs_wanted(run->common),
		.progress = reading_progress,
		.progress_context = &progress,
	};

	progress_begin(run->common, &progress);
	exporting->written = fsdp_export_write(exporting->plan, &target, &run->error);
	run_interrupted(run, progress_end());
	if (!exporting->written)
		refuse_damage(exporting);
}

static void answer(struct exporting *exporting)
{
	struct run *run = exporting->run;

	if (exporting->plan != NULL)
		exporting->facts = fsdp_export_facts(exporting->plan);
	if (exporting->written) {
		struct fsdp_replicas *replicas;

		exporting->tensor_count = exporting->facts.tensor_count;
		exporting->file_count = exporting->facts.file_count;
		exporting->left_count = exporting->facts.left_count;
		if (exporting->facts.digested)
			digest_exported(exporting);
		run_must(run, fsdp_replicas_new(run->checkpoint, &replicas, &run->error));
		run_owns(run, replicas, release_replicas);
		/* Tensors that were written and are there several times. */
		for (size_t i = 0; i < exporting->tensor_count; i++) {
			struct fsdp_tensor tensor = fsdp_tensor(run->checkpoint,
				fsdp_export_tensor(exporting->plan, i).source);
			bool some = false;

			run_must(run, fsdp_replicas_find(
					      replicas, &tensor, &some, &run->error));
			exporting->copied += some;
		}
	}
	if (exporting->facts.left_tensors[FSDP_EXPORT_UNSUPPORTED] > 0 ||
		exporting->facts.left_tensors[FSDP_EXPORT_INCOMPLETE] > 0)
		exporting->status = status_worse(exporting->status, STATUS_PARTIAL);
	run_begin(run, exporting->status);
	print_export(exporting);
	out_fields(run->out, &export_record, (struct subject){ exporting, exporting });
}

/* What is wrong with one that could not be opened is a finding, as in an audit. */
static void answer_unopened(struct exporting *exporting)
{
	struct run *run = exporting->run;

	report_failed_files(run);
	if (run->collected->failure_count > 0 || run->collected->finding_count == 0) {
		run_begin(run, STATUS_FAILED);
		return;
	}
	exporting->refused = true;
	exporting->status = STATUS_BAD;
	exporting->to_stdout = exporting->options->out != NULL &&
			       strcmp(exporting->options->out, "-") == 0;
	answer(exporting);
}

static void run_export(struct run *run)
{
	const struct export_options *options = run->options;
	struct exporting exporting = { .run = run,
		.options = options,
		.buffers = run_memory(run, 1, sizeof(struct row_buffers)),
		.form = get_form(options) };
	const char *what = objection(&exporting);
	struct typed_names names;

	exporting.row = (struct row_context){ .run = run, .buffers = exporting.buffers };
	if (what != NULL)
		run_refuse(run, "fsdp-inspect help export", "%s", what);
	if (run->checkpoint == NULL) {
		answer_unopened(&exporting);
		return;
	}
	exporting.selection = run_selection(run);
	typed_names_parse(run, &options->renames, &options->sizes, &names);
	find_target(&exporting);
	find_config(&exporting);
	find_names(&exporting);
	refuse_target(&exporting);
	if (options->map != NULL) {
		run_must(run, fsdp_map_open(helper_remote(), options->map, run->limits,
				      run->limit_count, &exporting.map, &run->error));
		run_owns(run, exporting.map, release_map);
	}
	/* A selector without a match, as other commands take it. Without selectors, a
	 * checkpoint that has nothing to write is a failure. */
	bool matched = options->index_only || exporting.named != NULL ||
		       selection_is_all(exporting.selection);
	size_t count = fsdp_tensor_count(run->checkpoint);
	for (uint32_t i = 0; i < count && !matched; i++)
		matched = is_wanted(&exporting, i);
	if (!matched) {
		print_no_match(run, NAMEABLE_TENSORS);
		exporting.refused = exporting.unmatched = true;
		exporting.status = STATUS_BAD;
	}
	if (!exporting.refused) {
		refuse_sorts(&exporting);
		find_repeated(&exporting);
		find_renames(&exporting, &names);
		find_torn(&exporting);
	}
	if (!exporting.refused) {
		make_plan(&exporting, &names);
		write_files(&exporting);
	}
	exporting.status =
		answer_selection_status(run, exporting.selection, exporting.status);
	answer(&exporting);
}

bool is_exported_index(const char *name)
{
	static const char END[] = ".safetensors.index.json";
	size_t size = name != NULL ? strlen(name) : 0;

	return size >= strlen(END) && strcmp(name + size - strlen(END), END) == 0;
}

static bool writes(const void *values, const char *path, struct written *ret_written)
{
	const struct export_options *options = values;

	if (options->index_only) {
		*ret_written = (struct written){
			.path = path, .adds = true, .replaces = is_exported_index
		};
		return true;
	}
	if (options->out == NULL || options->out[0] == '\0')
		return false;
	bool is_file = get_form(options) != FSDP_EXPORT_HF;
	*ret_written = (struct written){
		.path = options->out,
		.is_file = is_file || strcmp(options->out, "-") == 0,
		.replaces = fsdp_export_replaces,
		.reads = !is_file && options->config == NULL ? fsdp_export_companion_name
							     : NULL,
	};
	return true;
}

const struct command command_export = {
	.name = "export",
	.group = GROUP_BYTES,
	.summary = "write safetensors, or one tensor",
	.synopsis =
		"[--to=hf|safetensors|npy|raw] -o OUT [SELECTORS] CHECKPOINT [NAME...]",
	.examples = { "export -o out/ step-1000/",
		"export --to npy -o bias.npy model.pt fc.bias" },
	.exit_1 =
		"the checkpoint is incomplete, a name is missing, or a selector matched nothing; no file was written",
	.options = OPTIONS,
	.selectors = (const struct option_row *const[]){ select_names, select_tensors,
		select_ranks, select_files, NULL },
	.answer = &export_record,
	.shapes = SHAPE_FACTS | SHAPE_ITEMS,
	.output = "text",
	.inputs = INPUTS_ONE_SOME,
	.answers_unopened = true,
	.looks_beside = true,
	.shows_plan = true, /* it shows no module */
	.options_size = sizeof(struct export_options),
	.writes = writes,
	.perform = run_export,
};
