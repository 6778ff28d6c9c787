/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges several sets of weights in one folder.
 */
#include "part/weight-sets.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include <fsdp/loaders.h>

#include "run/answer.h"
#include "run/collected.h"

enum { PATH_BYTES = 4096 };

static bool has(const char *folder, const char *name, bool is_file)
{
	char path[PATH_BYTES];
	struct stat found;
	int size = snprintf(path, sizeof path, "%s/%s", folder, name);

	return size < (int)sizeof path && stat(path, &found) == 0 &&
	       (!is_file || S_ISREG(found.st_mode));
}

/* Most folders have one, and are not looked at any more. */
static bool has_several(const char *folder)
{
	size_t count = 0;

	for (size_t i = 0; fsdp_set_name(i) != NULL; i++)
		count += has(folder, fsdp_set_name(i), true);
	for (size_t i = 0; fsdp_set_model_name(i) != NULL && count < 2; i += 2)
		if (has(folder, fsdp_set_model_name(i), false) &&
			has(folder, fsdp_set_model_name(i + 1), false))
			return true;
	return count > 1;
}

__attribute__((format(printf, 6, 7))) static bool find(struct run *run,
	enum severity severity, const char *file, struct text tensor, const char *next,
	const char *format, ...)
{
	const struct finding about = { .severity = severity,
		.input = run->input,
		.file = text_of(file),
		.tensor = tensor };
	va_list arguments;
	bool good;

	va_start(arguments, format);
	good = collected_judged(run->collected, "FI1012", about, next, format, arguments);
	va_end(arguments);
	return good;
}

/* Two models are meant to differ: how much they have in common is worth a note. */
static bool tell_models(struct run *run, const struct fsdp_set_pair *pair)
{
	const struct fsdp_set_shares *shares = &pair->shares;
	static const char next[] =
		"name the model that is meant; they are loaded one by one";

	if (shares->equal > 0)
		return find(run, SEVERITY_NOTE, pair->first, (struct text){ 0 }, next,
			"%s beside it is another model: %llu of its %llu tensors have the name and shape of one of %llu here, and %llu of these the same bytes",
			pair->second, (unsigned long long)shares->alike,
			(unsigned long long)shares->second,
			(unsigned long long)shares->first,
			(unsigned long long)shares->equal);
	return find(run, SEVERITY_NOTE, pair->first, (struct text){ 0 }, next,
		"%s beside it is another model: %llu of its %llu tensors have the name and shape of one of %llu here",
		pair->second, (unsigned long long)shares->alike,
		(unsigned long long)shares->second, (unsigned long long)shares->first);
}

static bool judge_pair(
	struct run *run, const struct fsdp_set_pairs *pairs, struct fsdp_set_pair pair)
{
	const char *takers = fsdp_set_pairs_takers(pairs);

	switch (pair.likeness) {
	case FSDP_SETS_DIFFER:
		return find(run, SEVERITY_ERROR, pair.first, text_of_span(pair.name),
			NULL,
			"%s beside it holds other weights, and no loader says so: %s",
			pair.second, takers);
	case FSDP_SETS_NOT_TOLD:
		return find(run, SEVERITY_NOTE, pair.first, (struct text){ 0 }, NULL,
			"%s beside it has the same names and shapes, but its bytes were not compared: %s",
			pair.second, takers);
	case FSDP_SETS_OTHER_FORMAT:
		return find(run, SEVERITY_NOTE, pair.first, (struct text){ 0 }, NULL,
			"%s beside it holds weights in the format of other programs, and was not compared: %s",
			pair.second, takers);
	case FSDP_SETS_OTHER_MODEL:
		return tell_models(run, &pair);
	case FSDP_SETS_SAME:
		break;
	}
	return true;
}

static bool judge_folder(struct run *run, const char *folder, bool data)
{
	struct fsdp_survey *survey = NULL;
	struct fsdp_set_pairs *pairs = NULL;
	struct fsdp_error *error = NULL;
	bool good = true;

	if (!has_several(folder))
		return true;
	if (fsdp_survey_new(folder, run->limits, run->limit_count, &survey, &error) &&
		fsdp_set_pairs_new(survey, data, &pairs, &error))
		for (size_t i = 0; i < fsdp_set_pair_count(pairs) && good; i++)
			good = judge_pair(run, pairs, fsdp_set_pair(pairs, i));
	else if (error != NULL && fsdp_error_code(error) != FSDP_ERROR_MEMORY)
		collected_error(run->collected, error, run->input);
	else
		good = false;
	fsdp_error_free(error);
	fsdp_set_pairs_free(pairs);
	fsdp_survey_free(survey);
	return good;
}

/* An actor and a critic lie in the folder that was named, two sets of one model in the one
 * that was opened. */
bool judge_sets(struct run *run, bool data)
{
	const char *place = answer_place(run);

	return judge_folder(run, run->path, data) &&
	       (place == run->path || judge_folder(run, place, data));
}
