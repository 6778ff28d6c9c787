/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens what a checkpoint is compared with, lists the tensors that it asks for, and
 * parses renames and the sizes that a map of names uses.
 */
#include <stdio.h>
#include <string.h>

#include "shared/expectation.h"
#include "shared/stored-values.h"
#include "session/session.h"

/* ---- opening ---- */

/* Where the names are in the documents that people have: a list, a map, an index of
 * shards, what ls and fqns write. */
static struct fsdp_document_value find_names(struct fsdp_document_value root)
{
	static const char *const places[] = { "weight_map", "tensors", "names" };
	struct fsdp_document_value data = fsdp_document_get(root, "data");

	if (data.kind == FSDP_DOCUMENT_OBJECT)
		root = data;
	FOR_EACH(i, sizeof places / sizeof *places, found,
		fsdp_document_get(root, places[i]))
		if (found.kind == FSDP_DOCUMENT_LIST ||
			found.kind == FSDP_DOCUMENT_OBJECT)
			return found;
	return root;
}

static bool is_shape(struct fsdp_document_value value)
{
	for (size_t i = 0; i < value.count; i++)
		if (fsdp_document_item(value, i).kind != FSDP_DOCUMENT_INTEGER)
			return false;
	return value.kind == FSDP_DOCUMENT_LIST;
}

/* Whether each entry may stand for a tensor: other JSON, a trace for one, is not a list.
 */
static bool are_names(struct fsdp_document_value names)
{
	bool keyed = names.kind == FSDP_DOCUMENT_OBJECT;

	if (!keyed && names.kind != FSDP_DOCUMENT_LIST)
		return false;
	FOR_EACH(i, names.count, entry, fsdp_document_item(names, i)) {
		bool named = keyed ||
			     fsdp_document_get(entry, "name").kind == FSDP_DOCUMENT_TEXT;

		if (entry.kind != FSDP_DOCUMENT_TEXT && !(keyed && is_shape(entry)) &&
			!(named && entry.kind == FSDP_DOCUMENT_OBJECT))
			return false;
	}
	return true;
}

bool expectation_open_list(struct expectation *expectation, const struct run *run,
	const char *path, struct fsdp_error **ret_error)
{
	if (strcmp(path, "-") == 0 || !fsdp_document_is(run->remote, path) ||
		!fsdp_document_open(run->remote, path, run->limits, run->limit_count,
			&expectation->document, ret_error))
		return false;
	memory_owns(expectation->document, release_document);
	struct fsdp_document_value root = fsdp_document_root(expectation->document);
	expectation->names = find_names(root);
	if (!text_is(text_of_span(fsdp_document_get(root, "format").text),
		    text_of("fsdp-plan")) &&
		are_names(expectation->names))
		return true;
	expectation->document = NULL;
	return false;
}

void expectation_open(
	struct expectation *expectation, struct run *run, const char *path, bool lists)
{
	struct fsdp_options options = run_opens(run);
	struct fsdp_error *error = NULL;

	options.no_plan = true;
	expectation->path = path;
	if (path == NULL ||
		(lists && expectation_open_list(expectation, run, path, &error)))
		return;
	/* A list that is too long is not a checkpoint either. */
	bool good = error == NULL || fsdp_error_code(error) != FSDP_ERROR_LIMIT;
	if (good) {
		fsdp_error_free(error);
		error = NULL;
		good = fsdp_checkpoint_open(
			&path, 1, &options, &expectation->checkpoint, &error);
	}
	if (error != NULL)
		memory_owns(error, release_error);
	if (good)
		memory_owns(expectation->checkpoint, release_checkpoint);
	else if (error == NULL)
		memory_fail();
	/* What was not read of it would not be expected. */
	if (good && fsdp_checkpoint_error_count(expectation->checkpoint) > 0) {
		const struct fsdp_error *part =
			fsdp_checkpoint_error(expectation->checkpoint, 0);

		run_refuse(run, fsdp_error_hint(part),
			"%s: cannot be read completely: %s", path,
			fsdp_error_message(part));
	}
	if (!good)
		run_refuse(run,
			fsdp_error_hint(error) != NULL &&
					/* A line to type about that file. */
					strstr(fsdp_error_hint(error), "FILE") == NULL
				? fsdp_error_hint(error)
				: "a JSON list of names, a checkpoint, or a sharding plan",
			"%s: %s", path, fsdp_error_message(error));
}

/* ---- what is wanted ---- */

bool is_weight(const struct fsdp_tensor *tensor)
{
	return (tensor->role == FSDP_ROLE_PARAM || tensor->role == FSDP_ROLE_BUFFER) &&
	       (tensor->flags & FSDP_TENSOR_SPREAD) == 0;
}

static bool tensor_at(struct wanted_list *wanted_list, uint32_t index,
	struct expected_tensor *ret_wanted)
{
	struct fsdp_tensor tensor = fsdp_tensor(wanted_list->checkpoint, index);

	*ret_wanted = (struct expected_tensor){
		.name = name_text(
			&wanted_list->buffer, wanted_list->checkpoint, tensor.name),
		.shape = tensor.shape,
		.dims = tensor.dims,
		.dtype = text_of(fsdp_dtype(tensor.dtype)->name),
		.tensor = index,
		.alias = tensor.alias,
	};
	return is_weight(&tensor);
}

static void parse_shape(struct wanted_list *wanted_list, struct fsdp_document_value shape,
	struct expected_tensor *ret_wanted)
{
	if (shape.kind != FSDP_DOCUMENT_LIST || shape.count > FSDP_DIMS_MAX)
		return;
	for (size_t i = 0; i < shape.count; i++)
		wanted_list->shape[i] = fsdp_document_item(shape, i).integer;
	ret_wanted->shape = wanted_list->shape;
	ret_wanted->dims = (uint32_t)shape.count;
}

/* "name"; {"name": …, "shape": […], "dtype": …}; or of an object its key, with a shape,
 * or with an object of both. */
static bool entry_at(
	struct wanted_list *wanted_list, size_t index, struct expected_tensor *ret_wanted)
{
	struct fsdp_document_value entry = fsdp_document_item(wanted_list->names, index);

	*ret_wanted = (struct expected_tensor){ .tensor = FSDP_NONE, .alias = FSDP_NONE };
	if (wanted_list->names.kind == FSDP_DOCUMENT_OBJECT)
		ret_wanted->name = text_of_span(entry.key);
	else if (entry.kind == FSDP_DOCUMENT_TEXT)
		ret_wanted->name = text_of_span(entry.text);
	else
		ret_wanted->name = text_of_span(fsdp_document_get(entry, "name").text);
	parse_shape(wanted_list, entry, ret_wanted);
	parse_shape(wanted_list, fsdp_document_get(entry, "shape"), ret_wanted);
	ret_wanted->dtype = text_of_span(fsdp_document_get(entry, "dtype").text);
	return ret_wanted->name.data != NULL;
}

struct wanted_list wanted_by(const struct expectation *expectation)
{
	return (struct wanted_list){ .checkpoint = expectation->checkpoint,
		.names = expectation->names,
		.count = expectation->checkpoint != NULL
				 ? fsdp_tensor_count(expectation->checkpoint)
				 : expectation->names.count };
}

bool wanted_at(
	struct wanted_list *wanted_list, size_t index, struct expected_tensor *ret_wanted)
{
	return wanted_list->checkpoint != NULL
		       ? tensor_at(wanted_list, (uint32_t)index, ret_wanted)
		       : entry_at(wanted_list, index, ret_wanted);
}

bool expectation_is_base(const struct expectation *expectation, const struct run *run)
{
	const struct fsdp_checkpoint *checkpoint = run->checkpoint;
	const char *family =
		checkpoint != NULL ? fsdp_checkpoint_format(checkpoint).family : NULL;
	struct wanted_list wanted_list = wanted_by(expectation);
	struct expected_tensor wanted;
	bool is_base = wanted_list.count > 0 && family != NULL &&
		       strncmp(family, "peft", 4) == 0;

	for (size_t i = 0; is_base && i < wanted_list.count; i++)
		is_base = !wanted_at(&wanted_list, i, &wanted) ||
			  fsdp_tensor_find(checkpoint, span_of_text(wanted.name)) ==
				  FSDP_NONE;
	return is_base;
}

/* ---- as a list ---- */

/* Adds up in the first turn, copies in the second. */
static void list_wanted(struct wanted_list *wanted_list, struct expected_list *list,
	size_t *ret_name, size_t *ret_shape)
{
	struct expected_tensor wanted;

	list->count = *ret_name = *ret_shape = 0;
	for (size_t i = 0; i < wanted_list->count; i++) {
		if (!wanted_at(wanted_list, i, &wanted))
			continue;
		if (list->items != NULL) {
			struct fsdp_load_expected *item = &list->items[list->count];

			memcpy(list->names + *ret_name, wanted.name.data,
				wanted.name.size);
			item->name = (struct fsdp_span){
				(const unsigned char *)list->names + *ret_name,
				wanted.name.size
			};
			item->dims = wanted.dims;
			if (wanted.shape != NULL)
				item->shape = list->shapes + *ret_shape;
			if (wanted.dims > 0 && wanted.shape != NULL)
				memcpy(list->shapes + *ret_shape, wanted.shape,
					wanted.dims * sizeof *wanted.shape);
		}
		list->count++;
		*ret_name += wanted.name.size;
		*ret_shape += wanted.dims;
	}
}

void expectation_list(
	const struct expectation *expectation, struct expected_list *ret_list)
{
	struct wanted_list wanted_list = wanted_by(expectation);
	size_t names, shapes;

	if (expectation->path == NULL)
		return;
	list_wanted(&wanted_list, ret_list, &names, &shapes);
	ret_list->names = memory_new(names, 1);
	ret_list->shapes = memory_new(shapes, sizeof *ret_list->shapes);
	ret_list->items = memory_new(ret_list->count, sizeof *ret_list->items);
	list_wanted(&wanted_list, ret_list, &names, &shapes);
}

/* ---- Reads renames, and sizes that a map of names uses ---- */

static bool parse_rename(const char *typed, struct fsdp_rename *ret_rename)
{
	const char *value;
	size_t size;

	if (!option_assignment(typed, &size, &value))
		return false;
	ret_rename->from = span_of_text((struct text){ typed, size });
	ret_rename->to = span_of_text(text_of(value));
	return true;
}

static bool parse_size(const char *typed, struct fsdp_named_size *ret_size)
{
	const char *value;
	size_t size;
	int64_t number;

	if (!option_assignment(typed, &size, &value) ||
		!option_integer(value, 1, INT64_MAX, &number))
		return false;
	ret_size->name = span_of_text((struct text){ typed, size });
	ret_size->value = (uint64_t)number;
	return true;
}

void typed_names_parse(struct run *run, const struct texts *renames,
	const struct texts *sizes, struct typed_names *ret_names)
{
	size_t count = renames != NULL ? renames->count : 0;
	const char *wrong = NULL;

	*ret_names = (struct typed_names){ memory_new(count, sizeof *ret_names->renames),
		memory_new(sizes->count, sizeof *ret_names->sizes), count, sizes->count };
	for (size_t i = 0; i < count && wrong == NULL; i++)
		if (!parse_rename(renames->items[i], &ret_names->renames[i]))
			wrong = renames->items[i];
	for (size_t i = 0; i < sizes->count && wrong == NULL; i++)
		if (!parse_size(sizes->items[i], &ret_names->sizes[i]))
			wrong = sizes->items[i];
	if (wrong != NULL && renames == NULL)
		run_refuse(run, "example: --size=num_attention_heads=32",
			"%s is not NAME=N of --size", wrong);
	if (wrong != NULL)
		run_refuse(run,
			"example: --rename=encoder=model.encoder and --size=num_attention_heads=32",
			"%s is not FROM=TO of --rename, nor NAME=N of --size", wrong);
}

void note_idle_renames(struct run *run, const struct texts *renames, uint64_t idle)
{
	for (size_t i = 0; i < renames->count && i < 64; i++)
		if ((idle >> i & 1) != 0)
			run_note(run,
				"--rename=%s: no name is equal to it or has it as prefix",
				renames->items[i]);
}
