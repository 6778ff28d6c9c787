/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says what was asked for and what there is, where nothing matches.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "part/nothing.h"
#include "part/tensor-row.h"
#include "run/answer.h"

enum { ASKED_ROOM = 240, BEGINNINGS = 4, BEGINNING_ROOM = 40 };

static const char *const WORDS_OF[] = { "tensor", "value", "module" };

/* ---- names ---- */

static size_t name_count(const struct run *run, enum nameable of)
{
	switch (of) {
	case NAMEABLE_TENSORS:
		return fsdp_tensor_count(run->checkpoint);
	case NAMEABLE_VALUES:
		return fsdp_value_count(run->checkpoint);
	case NAMEABLE_MODULES:
		break;
	}
	return fsdp_module_count(run->checkpoint);
}

static struct text name_at(
	const struct run *run, struct name_buffer *buffer, enum nameable of, uint32_t i)
{
	struct fsdp_tensor tensor;
	struct fsdp_value value;
	struct fsdp_module module;

	switch (of) {
	case NAMEABLE_TENSORS:
		tensor = fsdp_tensor(run->checkpoint, i);
		return tensor_shown_name(run, buffer, &tensor);
	case NAMEABLE_VALUES:
		value = fsdp_value(run->checkpoint, i);
		return entry_shown_name(run, buffer, &value);
	case NAMEABLE_MODULES:
		break;
	}
	module = fsdp_module(run->checkpoint, i);
	return name_text(buffer, run->checkpoint,
		run->common->raw ? module.raw_name : module.name);
}

/* ---- what was asked for ---- */

/* A text that is cut where it is long. */
struct asked {
	char text[ASKED_ROOM];
	size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(
	struct asked *asked, const char *format, ...)
{
	size_t room = sizeof asked->text - asked->used;
	va_list arguments;
	int size;

	va_start(arguments, format);
	size = vsnprintf(asked->text + asked->used, room, format, arguments);
	va_end(arguments);
	if (size > 0)
		asked->used += (size_t)size < room ? (size_t)size : room - 1;
}

static void add_list(struct asked *asked, const char *option, const struct texts *list)
{
	for (size_t i = 0; i < list->count; i++)
		add(asked, "%s%s '%s'", asked->used > 0 ? " " : "", option,
			list->items[i]);
}

static void add_words(struct asked *asked, const char *option, const struct texts *list)
{
	for (size_t i = 0; i < list->count; i++)
		add(asked, "%s%s%s",
			i > 0             ? ","
			: asked->used > 0 ? " "
					  : "",
			i > 0 ? "" : option, list->items[i]);
}

static void add_asked(struct asked *asked, const struct select_options *select)
{
	add_list(asked, "-g", &select->globs);
	add_list(asked, "-e", &select->regexes);
	add_words(asked, "--dtype=", &select->dtypes);
	add_words(asked, "--role=", &select->roles);
	if (select->ranks != NULL)
		add(asked, "%s--rank=%s", asked->used > 0 ? " " : "", select->ranks);
	add_list(asked, "--file", &select->files);
	if (select->min_bytes != UINT64_MAX)
		add(asked, "%s--min-bytes=%" PRIu64, asked->used > 0 ? " " : "",
			select->min_bytes);
	if (select->max_bytes != UINT64_MAX)
		add(asked, "%s--max-bytes=%" PRIu64, asked->used > 0 ? " " : "",
			select->max_bytes);
}

/* ---- what there is ---- */

/* "; names begin with model., optim." Names are in order, so those that begin alike
 * mostly follow each other. */
static void add_beginnings(struct asked *asked, struct run *run,
	struct name_buffer *buffer, enum nameable of)
{
	char last[BEGINNING_ROOM + 1] = "";
	size_t count = name_count(run, of), found = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct text name = name_at(run, buffer, of, i);
		size_t size = 0;
		while (size < name.size && name.data[size] != '.')
			size++;
		if (size == name.size || size >= BEGINNING_ROOM ||
			(strlen(last) == size && memcmp(last, name.data, size) == 0))
			continue;
		memcpy(last, name.data, size);
		last[size] = '\0';
		if (found == BEGINNINGS) {
			add(asked, ", ...");
			return;
		}
		add(asked, "%s%s.", found++ == 0 ? "; names begin with " : ", ", last);
	}
}

/* ---- what to try ---- */

static bool some_name_matches(
	struct run *run, struct name_buffer *buffer, enum nameable of, const char *glob)
{
	struct select_options options = { .min_bytes = UINT64_MAX,
		.max_bytes = UINT64_MAX,
		.depth = -1,
		.head = -1,
		.globs = { &glob, 1 } };
	size_t count = name_count(run, of);
	struct selection *selection;
	char *message = NULL;
	bool some = false;

	if (!selection_new(&options, &selection, &message)) {
		free(message);
		return false;
	}
	for (uint32_t i = 0; i < count && !some; i++)
		some = selection_takes_name(
			selection, span_of_text(name_at(run, buffer, of, i)));
	selection_free(selection);
	return some;
}

/* "; patterns match whole names: try '**.layers.0.**'", if that is all that is missing. */
static void add_hint(struct asked *asked, struct run *run, struct name_buffer *buffer,
	enum nameable of)
{
	const struct texts *globs = &run->select->globs;
	const char *glob = globs->count == 1 ? globs->items[0] : "";
	size_t size = strlen(glob);
	char *longer = NULL;

	if (size == 0 || glob[0] == '!' || strncmp(glob, "**", 2) == 0)
		return;
	if (asprintf(&longer, "**.%s%s", glob, glob[size - 1] == '*' ? "" : ".**") < 0)
		return;
	if (some_name_matches(run, buffer, of, longer))
		add(asked, "; patterns match whole names: try '%s'", longer);
	free(longer);
}

void tell_nothing(struct run *run, enum nameable of)
{
	size_t count = name_count(run, of);
	struct name_buffer buffer = { 0 };
	struct asked asked = { .used = 0 }, beginnings = { .used = 0 },
		     hint = { .used = 0 };

	add_asked(&asked, run->select);
	add_beginnings(&beginnings, run, &buffer, of);
	add_hint(&hint, run, &buffer, of);
	run_note(run, "nothing matches %s (%zu %s%s%s)%s", asked.text, count,
		WORDS_OF[of], count == 1 ? "" : "s", beginnings.text, hint.text);
	name_buffer_done(&buffer);
}
