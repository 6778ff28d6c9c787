/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts of a directory that the rules of all loaders use, and the words of their results.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/loaders/loading.h"

enum { NAME_BYTES = 4096, DOCUMENT_BYTES = 16 << 20 };

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

void fsdp_load_say(struct fsdp_loading *loading, size_t word, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(loading->words[word], FSDP_LOAD_WORD, format, arguments);
	va_end(arguments);
}

void fsdp_load_name(struct fsdp_loading *loading, struct fsdp_span name)
{
	if (loading->name_count < FSDP_LOAD_NAMES)
		loading->names[loading->name_count++] = name;
	loading->all_names++;
}

static const struct fsdp_survey_entry *find_entry(struct fsdp_loading *loading,
	const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));

static const struct fsdp_survey_entry *find_entry(
	struct fsdp_loading *loading, const char *format, va_list arguments)
{
	char name[NAME_BYTES];

	vsnprintf(name, sizeof name, format, arguments);
	return fsdp_survey_find(loading->survey, name);
}

bool fsdp_load_has_file(struct fsdp_loading *loading, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	const struct fsdp_survey_entry *entry = find_entry(loading, format, arguments);
	va_end(arguments);
	return entry != NULL && !entry->is_folder;
}

bool fsdp_load_has_folder(struct fsdp_loading *loading, const char *name)
{
	const struct fsdp_survey_entry *entry = fsdp_survey_find(loading->survey, name);

	return entry != NULL && entry->is_folder;
}

const char *fsdp_load_copying(struct fsdp_loading *loading, const char *name)
{
	return fsdp_span_begins(fsdp_survey_head(loading->survey, name),
		       FSDP_SPAN("version https:/"))
		       ? "download the file itself, for example with git lfs pull"
		       : "download or copy the file again";
}

bool fsdp_load_has_any(struct fsdp_loading *loading, const char *begin, const char *end)
{
	for (size_t i = 0; i < fsdp_survey_entry_count(loading->survey); i++) {
		struct fsdp_span name = fsdp_survey_entry(loading->survey, i)->name;
		if (memchr(name.data, '/', name.size) == NULL &&
			fsdp_span_begins(name, fsdp_span_text(begin)) &&
			fsdp_span_ends(name, fsdp_span_text(end)))
			return true;
	}
	return false;
}

static bool is_broken(struct fsdp_loading *loading, const char *name)
{
	struct fsdp_survey_document document;
	struct fsdp_survey_pickles pickles;

	if (fsdp_span_ends(fsdp_span_text(name), FSDP_SPAN(".json"))) {
		loading->failed |=
			!fsdp_survey_document(loading->survey, name, &document);
		return !document.is_valid;
	}
	loading->failed |= !fsdp_survey_pickles(loading->survey, name, &pickles);
	return !pickles.is_readable;
}

bool fsdp_load_has_broken(struct fsdp_loading *loading, const char *const *names)
{
	for (size_t i = 0; i < fsdp_survey_entry_count(loading->survey); i++) {
		const struct fsdp_survey_entry *entry =
			fsdp_survey_entry(loading->survey, i);
		for (size_t k = 0; names[k] != NULL; k++) {
			struct fsdp_span begin =
				fsdp_span_first(fsdp_span_text(names[k]), '*');
			if (entry->is_folder || !fsdp_span_begins(entry->name, begin) ||
				(begin.size == strlen(names[k]) &&
					entry->name.size != begin.size) ||
				memchr(entry->name.data, '/', entry->name.size) != NULL)
				continue;
			fsdp_load_say(
				loading, 0, "%.*s", FSDP_TEXT_MOST(entry->name, 512));
			/* Longer documents are not read here. */
			if (entry->size > DOCUMENT_BYTES ||
				!is_broken(loading, loading->words[0]))
				continue;
			fsdp_load_name(loading, entry->name);
			return true;
		}
	}
	return false;
}

bool fsdp_load_lacks(struct fsdp_loading *loading, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(loading->words[0], FSDP_LOAD_WORD, format, arguments);
	va_end(arguments);
	return !fsdp_load_has_file(loading, "%s", loading->words[0]);
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
		fsdp_load_say(loading, 0, "%.*s", FSDP_TEXT_MOST(loading->names[0], 512));
	return loading->all_names > 0;
}

struct fsdp_setting fsdp_load_setting(
	struct fsdp_loading *loading, const char *document, const char *key)
{
	struct fsdp_survey_document facts;

	loading->failed |= !fsdp_survey_document(loading->survey, document, &facts);
	for (uint32_t i = 1; i < facts.count; i = facts.settings[i].end)
		if (fsdp_span_is(facts.settings[i].key, key))
			return facts.settings[i];
	return (struct fsdp_setting){ .end = 0 };
}

int64_t fsdp_load_integer(struct fsdp_loading *loading, const char *document,
	const char *key, int64_t otherwise)
{
	struct fsdp_setting setting = fsdp_load_setting(loading, document, key);

	return setting.value.kind == FSDP_TOKEN_INTEGER ||
			       setting.value.kind == FSDP_TOKEN_BOOL
		       ? setting.value.integer
		       : otherwise;
}

struct fsdp_span fsdp_load_text(
	struct fsdp_loading *loading, const char *document, const char *key)
{
	struct fsdp_setting setting = fsdp_load_setting(loading, document, key);

	return setting.value.kind == FSDP_TOKEN_TEXT ? setting.value.text
						     : (struct fsdp_span){ 0 };
}
