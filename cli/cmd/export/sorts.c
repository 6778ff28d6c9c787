/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a file with LoRA, or with two state dicts, is the model that is meant.
 */
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>

#include "cmd/export/export.h"
#include "session/session.h"

#define PEFT "base_model.model."

static bool contains(struct text name, const char *part)
{
	return name.data != NULL &&
	       memmem(name.data, name.size, part, strlen(part)) != NULL;
}

static struct text shown_name(struct exporting *exporting, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(exporting->run->checkpoint, index);

	return tensor_shown_name(exporting->run, &exporting->buffers.name, &tensor);
}

bool is_adapter(const struct run *run)
{
	const char *family = fsdp_checkpoint_format(run->checkpoint).family;

	return family != NULL && strncmp(family, "peft", 4) == 0;
}

bool is_of_sort(const struct export_options *options, struct text name)
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

static struct text first_segment(struct text name)
{
	const char *dot = memchr(name.data, '.', name.size);

	return (struct text){ name.data, dot != NULL ? (size_t)(dot - name.data) : 0 };
}

/* Whether that state dict has a tensor of this name and shape. */
static bool has_twin(struct exporting *exporting, struct text dict, struct text rest,
	const struct fsdp_tensor *tensor)
{
	const struct fsdp_checkpoint *checkpoint = exporting->run->checkpoint;
	struct name_buffer *buffer = &exporting->buffers.text;
	struct fsdp_tensor other;
	size_t length = 0;
	uint32_t found;

	name_buffer_append(buffer, &length, dict);
	name_buffer_append(buffer, &length, rest);
	if (buffer->failed)
		return false;
	found = fsdp_tensor_find(
		checkpoint, span_of_text((struct text){ buffer->data, length }));
	if (found == FSDP_NONE)
		return false;
	other = fsdp_tensor(checkpoint, found);
	return other.dims == tensor->dims &&
	       (other.dims == 0 || memcmp(other.shape, tensor->shape,
					   other.dims * sizeof *other.shape) == 0);
}

/* The state dict that this one averages; false: not an average. */
static bool find_original(
	struct exporting *exporting, const char *average, char *original, size_t size)
{
	const struct fsdp_checkpoint *checkpoint = exporting->run->checkpoint;
	uint32_t count = (uint32_t)fsdp_tensor_count(checkpoint);
	size_t length = strlen(average);
	bool is_found = false;

	*original = '\0';

	for (uint32_t i = 0; i < count && !is_found; i++) {
		struct text name = shown_name(exporting, i), dict;

		dict = name.data != NULL ? first_segment(name) : name;
		if (dict.size == 0 || dict.size >= size ||
			fsdp_is_average(dict.data, dict.size) ||
			!is_wanted(exporting, i) || text_is(dict, text_of(original)))
			continue;
		memcpy(original, name.data, dict.size);
		original[dict.size] = '\0';
		is_found = true;
		for (uint32_t k = 0; k < count && is_found; k++) {
			struct fsdp_tensor tensor = fsdp_tensor(checkpoint, k);
			struct text other = shown_name(exporting, k);

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

static bool find_average(struct exporting *exporting, char *average, size_t size)
{
	uint32_t count = (uint32_t)fsdp_tensor_count(exporting->run->checkpoint);

	for (uint32_t i = 0; i < count; i++) {
		struct text name = shown_name(exporting, i);
		struct text dict = name.data != NULL ? first_segment(name) : name;

		if (dict.size == 0 || dict.size >= size ||
			!fsdp_is_average(dict.data, dict.size) ||
			!is_wanted(exporting, i))
			continue;
		memcpy(average, dict.data, dict.size);
		average[dict.size] = '\0';
		return true;
	}
	return false;
}

/* ---- LoRA that is not merged ---- */

static bool has_lora(struct exporting *exporting)
{
	uint32_t count = (uint32_t)fsdp_tensor_count(exporting->run->checkpoint);
	bool has_pair = false, has_inner = false;

	for (uint32_t i = 0; i < count && !(has_pair && has_inner); i++) {
		struct text name = shown_name(exporting, i);

		if (!is_wanted(exporting, i))
			continue;
		has_pair |= contains(name, ".lora_A.") || contains(name, ".lora_a");
		has_inner |= contains(name, ".base_layer.") ||
			     contains(name, ".linear.weight");
	}
	return has_pair && has_inner;
}

bool refuse_sorts(struct exporting *exporting)
{
	const struct export_options *options = exporting->options;
	char average[256], original[256];

	if (options->index_only || exporting->named != NULL ||
		!selection_is_all(exporting->selection))
		return false;
	if (options->prefix == NULL && find_average(exporting, average, sizeof average) &&
		find_original(exporting, average, original, sizeof original))
		return refuse(exporting->run, "choose the one that is meant",
			"%s and %s are two models of the same names and shapes: --prefix=%s or --prefix=%s",
			original, average, original, average);
	if (!options->adapter && !options->base && !is_adapter(exporting->run) &&
		has_lora(exporting))
		return refuse(exporting->run,
			"to merge them use the program that trained them, which has lora_alpha",
			"the model has LoRA that is not merged: --base writes the model without it, --adapter writes it alone");
	return false;
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

static bool rename_one(
	struct exporting *exporting, struct text name, struct fsdp_rename *rename)
{
	bool is_lora = exporting->options->adapter;
	char *from = malloc(2 * name.size + sizeof PEFT + 1), *to;

	exporting->texts[exporting->rename_count] = from;
	if (from == NULL)
		return false;
	memcpy(from, name.data, name.size);
	to = from + name.size;
	*to = '\0';
	if (is_lora && !contains(name, PEFT))
		strcpy(to, PEFT);
	strncat(to, name.data, name.size);
	remove_parts(to, is_lora ? ".default." : ".base_layer.", ".");
	remove_parts(to, is_lora ? ".modules_to_save." : ".original_module.", ".");
	if (!is_lora && strncmp(to, PEFT, sizeof PEFT - 1) == 0)
		to += sizeof PEFT - 1;
	*rename = (struct fsdp_rename){ span_of_text((struct text){ from, name.size }),
		span_of_text(text_of(to)) };
	return true;
}

bool find_renames(struct exporting *exporting, const struct typed_names *names)
{
	uint32_t count = (uint32_t)fsdp_tensor_count(exporting->run->checkpoint);

	exporting->renames = names->renames;
	exporting->rename_count = names->rename_count;
	if (!exporting->options->adapter && !exporting->options->base &&
		exporting->options->prefix == NULL)
		return true;
	exporting->own_renames =
		calloc(count + names->rename_count + 1, sizeof *exporting->own_renames);
	exporting->texts =
		calloc(count + names->rename_count + 1, sizeof *exporting->texts);
	if (exporting->own_renames == NULL || exporting->texts == NULL)
		return false;
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
		return true;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (!is_wanted(exporting, i))
			continue;
		if (!rename_one(exporting, shown_name(exporting, i),
			    &exporting->own_renames[exporting->rename_count]))
			return false;
		exporting->rename_count++;
	}
	return true;
}

void renames_done(struct exporting *exporting)
{
	for (size_t i = 0; exporting->texts != NULL && i <= exporting->rename_count; i++)
		free(exporting->texts[i]);
	free(exporting->texts);
	free(exporting->own_renames);
}
