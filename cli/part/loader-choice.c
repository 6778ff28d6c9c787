/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a caller passes to the loaders of other programs.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "part/loader-choice.h"
#include "run/answer.h"

enum { LIST_BYTES = 1024 };

/* ---- whether it makes sense ---- */

static const struct fsdp_loader_option *find_option(
	const char *loader, const char *typed, size_t size)
{
	const struct fsdp_loader_option *option;

	for (size_t i = 0; (option = fsdp_loader_option(loader, i)) != NULL; i++)
		if (strlen(option->name) == size &&
			memcmp(option->name, typed, size) == 0)
			break;
	return option;
}

__attribute__((format(printf, 3, 4))) static void add(
	char *list, size_t *at, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	if (*at < LIST_BYTES)
		*at += (size_t)vsnprintf(list + *at, LIST_BYTES - *at, format, arguments);
	va_end(arguments);
}

/* "dcp: allow_partial_load; megatron: strict, allow_shape_mismatch" */
static void list_options(
	char *list, size_t *at, const char *const *loaders, size_t loader_count)
{
	const struct fsdp_loader_option *option;

	for (size_t i = 0; i < loader_count; i++)
		for (size_t k = 0; (option = fsdp_loader_option(loaders[i], k)) != NULL;
			k++)
			add(list, at, "%s%s%s%s", k == 0 && *at > 0 ? "; " : "",
				k == 0 ? loaders[i] : "", k == 0 ? ": " : ", ",
				option->name);
}

static bool refuse_unknown(const char *typed, size_t size, const char *const *loaders,
	size_t loader_count, struct run *run)
{
	char list[LIST_BYTES] = "";
	size_t at = 0;

	list_options(list, &at, loaders, loader_count);
	return !refuse(run, at > 0 ? list : "leave it out", "--loader-option=%s: %s %.*s",
		typed,
		loader_count == 1 ? "this loader has no option"
				  : "none of these loaders has an option",
		(int)size, typed);
}

static bool refuse_value(
	const char *typed, const struct fsdp_loader_option *option, struct run *run)
{
	char list[LIST_BYTES] = "";
	size_t at = 0;

	for (size_t i = 0; option->words != NULL && option->words[i] != NULL; i++)
		add(list, &at, "%s%s", i > 0 ? ", " : "", option->words[i]);
	return !refuse(run,
		option->is_count ? "a number, such as 2"
		: at > 0         ? list
				 : "NAME=VALUE",
		"--loader-option=%s: %s takes another value", typed, option->name);
}

bool loader_choices_prepare(const struct texts *typed, const char *const *loaders,
	size_t loader_count, struct run *run)
{
	for (size_t i = 0; i < typed->count; i++) {
		const char *text = typed->items[i], *equals = strchr(text, '=');
		size_t size = equals != NULL ? (size_t)(equals - text) : strlen(text);
		const struct fsdp_loader_option *option = NULL;

		for (size_t k = 0; k < loader_count && option == NULL; k++)
			option = find_option(loaders[k], text, size);
		if (option == NULL)
			return refuse_unknown(text, size, loaders, loader_count, run);
		if (equals == NULL || !fsdp_loader_option_takes(option, equals + 1))
			return refuse_value(text, option, run);
	}
	return true;
}

/* ---- as the library takes them ---- */

bool loader_choices_take(const struct texts *typed, struct loader_choices *ret_choices)
{
	*ret_choices = (struct loader_choices){
		.items = calloc(typed->count + 1, sizeof *ret_choices->items),
		.names = calloc(typed->count + 1, sizeof *ret_choices->names),
	};
	if (ret_choices->items == NULL || ret_choices->names == NULL)
		return false;
	for (size_t i = 0; i < typed->count; i++) {
		size_t size = strcspn(typed->items[i], "=");
		char *name = strndup(typed->items[i], size);

		if (name == NULL)
			return false;
		ret_choices->names[i] = name;
		ret_choices->items[i] = (struct fsdp_load_choice){ .name = name,
			.value = typed->items[i] + size + 1 };
		ret_choices->count++;
	}
	return true;
}

void loader_choices_done(struct loader_choices *choices)
{
	for (size_t i = 0; i < choices->count; i++)
		free(choices->names[i]);
	free(choices->names);
	free(choices->items);
	*choices = (struct loader_choices){ 0 };
}

/* ---- the answer ---- */

#define CHOICE struct fsdp_load_choice
const struct record loader_choice_record = OBJECT_RECORD(CHOICE, "loader_option",
	"A parameter that the caller passes to a loader.",
	{ "name", WORD_AT(CHOICE, name), .always = true,
		ABOUT("As `--loader-option` names it.") },
	{ "value", WORD_AT(CHOICE, value), .always = true, ABOUT("What it is set to.") });
