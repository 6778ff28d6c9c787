/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the files and links that name the newest checkpoint with what is there.
 */
#include <string.h>
#include <sys/stat.h>

#include "cmd/latest/latest.h"
#include "part/value-text.h"
#include "session/session.h"

static size_t folder_size(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? (size_t)(slash - path) : 0;
}

static bool share_folder(const char *a, const char *b)
{
	size_t size = folder_size(a);

	return size == folder_size(b) && memcmp(a, b, size) == 0;
}

/* False: it is not a number. */
static bool read_number(struct text says, int64_t *ret_number)
{
	char digits[20] = "";

	if (says.size >= sizeof digits)
		return false;
	memcpy(digits, says.data, says.size);
	return option_integer(digits, 0, INT64_MAX, ret_number);
}

/* A name, or the number of a step. */
static bool leads_to(
	const struct run_pointer *pointer, const struct run_candidate *candidate)
{
	struct text name = text_last(text_of(candidate->path), '/');
	int64_t number;

	return (text_is(pointer->says, name) ||
		       (read_number(pointer->says, &number) &&
			       candidate->step_name.step == number)) &&
	       share_folder(pointer->path, candidate->path);
}

static void follow(struct latest *latest, struct run_pointer *pointer)
{
	pointer->to = NULL;
	for (size_t i = 0; i < latest->count && pointer->to == NULL; i++)
		if (leads_to(pointer, &latest->candidates[i]))
			pointer->to = &latest->candidates[i];
}

/* Of the same run. */
static const struct run_candidate *newest(const struct latest *latest, uint32_t input)
{
	for (size_t i = 0; i < latest->count; i++)
		if (latest->candidates[i].input == input &&
			is_good(&latest->candidates[i]))
			return &latest->candidates[i];
	return NULL;
}

static bool is_link(const char *path)
{
	struct stat status;

	return lstat(path, &status) == 0 && S_ISLNK(status.st_mode);
}

/* "latest points to step-30 (bad); newest good step: step-20" */
static bool find_stale(struct latest *latest, const struct run_pointer *pointer,
	const struct run_candidate *good)
{
	struct collected *collected = latest->run->collected;
	const char *is = pointer->to == NULL
				 ? pointer->leads ? "not a checkpoint" : "missing"
			 : is_good(pointer->to) ? "good, but not the newest"
			 : strcmp(pointer->to->result, "bad") == 0 ? "bad"
								   : "not judged";
	char text[512], cure[1024];
	int64_t number;
	struct fsdp_finding finding = {
		.rule = fsdp_rule_find("FI1011"),
		.severity = good != NULL ? FSDP_WARNING : FSDP_ERROR,
		.file = span_of_text(text_last(text_of(pointer->path), '/')),
		.offset = FSDP_UNKNOWN,
		.length = FSDP_UNKNOWN,
		.rank = FSDP_NONE,
		.affected_bytes = FSDP_UNKNOWN,
	};
	int size = snprintf(text, sizeof text, "%.*s points to %.*s (%s)",
		(int)finding.file.size, (const char *)finding.file.data,
		(int)pointer->says.size, pointer->says.data, is);

	if (good != NULL)
		size += snprintf(text + size, sizeof text - (size_t)size,
			"; newest good checkpoint: %s",
			text_last(text_of(good->path), '/').data);
	if (size >= (int)sizeof text)
		size = sizeof text - 1;
	/* Trackers of some programs hold a number, those of others and links a name. */
	if (good != NULL && read_number(pointer->says, &number))
		snprintf(cure, sizeof cure, "write %lld into %s",
			(long long)good->step_name.step, pointer->path);
	else if (good != NULL)
		snprintf(cure, sizeof cure,
			is_link(pointer->path) ? "point the link to %s: %s"
					       : "write %s into %s",
			text_last(text_of(good->path), '/').data, pointer->path);
	if (good != NULL)
		finding.fix = span_of_text(text_of(cure));
	finding.message = span_of_text((struct text){ text, (size_t)size });
	collected_found(collected, &finding, pointer->input, true);
	return !collected->out_of_memory;
}

/* The weights that a model is released with have no step. */
static bool is_release(const struct run_pointer *pointer)
{
	return text_is(pointer->says, text_of("release"));
}

void pointers_follow(struct latest *latest)
{
	for (size_t i = 0; i < latest->pointer_count; i++)
		follow(latest, &latest->pointers[i]);
}

/* A link to something that exists and is outside of the checkpoints, in a run without other links: wandb's
 * latest-run. */
static bool is_other(const struct latest *latest, const struct run_pointer *pointer)
{
	const char *run = latest->run->collected->inputs[pointer->input].path.data;
	bool is_other = pointer->leads && pointer->to == NULL &&
			!share_folder(pointer->path + strlen(run), "/");

	for (size_t i = 0; i < latest->count && is_other; i++)
		is_other = !share_folder(pointer->path, latest->candidates[i].path);
	return is_other;
}

bool pointers_judge(struct latest *latest)
{
	size_t kept = 0;
	bool done = true;

	pointers_follow(latest);
	for (size_t i = 0; i < latest->pointer_count; i++)
		if (!is_other(latest, &latest->pointers[i]))
			latest->pointers[kept++] = latest->pointers[i];
	latest->pointer_count = kept;
	for (size_t i = 0; i < latest->pointer_count && done; i++) {
		struct run_pointer *pointer = &latest->pointers[i];
		const struct run_candidate *good = newest(latest, pointer->input);

		pointer->agrees = good != NULL && pointer->to == good;
		if (!pointer->agrees && !is_release(pointer))
			done = find_stale(latest, pointer, good);
	}
	return done;
}
