/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out which of several processes this one is.
 *
 * Origin: sbatch(1) and srun(1) of Slurm 23, torch/distributed/run.py, parallel(1).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/launcher.h"

enum { PARTS_MOST = 1000000 };

/* What a launcher says in its variables. `first` is what the numbers begin with: a number,
 * or the name of a variable. */
struct launcher {
	const char *name;
	const char *number, *count;
	const char *first, *step;
};

static const struct launcher launchers[] = {
	{ "a Slurm array", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT",
		"SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP" },
	{ "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", NULL, NULL },
	{ "torchrun", "RANK", "WORLD_SIZE", NULL, NULL },
	{ "GNU parallel", "PARALLEL_SEQ", NULL, "1", NULL },
};

static bool number_of(const char *text, int64_t *ret_number)
{
	return text != NULL && option_integer(text, 0, PARTS_MOST, ret_number);
}

/* A variable's number, or the number that it is. */
static int64_t number_in(const char *name, int64_t otherwise)
{
	int64_t number;

	if (name == NULL)
		return otherwise;
	if (number_of(name, &number) || number_of(getenv(name), &number))
		return number;
	return otherwise;
}

/* False: it did not start this process. */
static bool ask(const struct launcher *launcher, int64_t *ret_number, int64_t *ret_count)
{
	int64_t number, first = number_in(launcher->first, 0);
	int64_t step = number_in(launcher->step, 1);

	if (!number_of(getenv(launcher->number), &number))
		return false;
	*ret_count = number_in(launcher->count, 0);
	if (launcher->count != NULL && *ret_count == 0)
		return false;
	if (step < 1 || number < first || (number - first) % step != 0)
		return false;
	*ret_number = (number - first) / step + 1;
	return true;
}

/* Of a launcher that started one process others may know more. */
static enum usage_result ask_all(
	struct common_options *common, int64_t count, struct usage *usage)
{
	const struct launcher *told = NULL;
	int64_t number = 0;

	for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
		int64_t its_number, its_count;

		if (!ask(&launchers[i], &its_number, &its_count) || its_count == 1)
			continue;
		if (told != NULL &&
			(its_number != number ||
				(its_count != 0 && count != 0 && its_count != count))) {
			usage_what(usage, "--part=auto: %s and %s disagree", told->name,
				launchers[i].name);
			usage_hint(usage, "name the part: --part=K/N");
			return USAGE_WRONG;
		}
		if (told == NULL)
			told = &launchers[i];
		number = its_number;
		count = its_count != 0 ? its_count : count;
	}
	if (told == NULL && count <= 1) {
		usage_what(usage, "--part=auto: no launcher says which part this is");
		usage_hint(usage, "name the part: --part=K/N");
		return USAGE_WRONG;
	}
	if (told == NULL || count == 0) {
		usage_what(usage, "--part=auto: %s does not say how many parts there are",
			told != NULL ? told->name : "the environment");
		usage_hint(usage, "give their number: --part=auto/N");
		return USAGE_WRONG;
	}
	if (number > count) {
		usage_what(usage,
			"--part=auto: %s says that this is part %" PRId64 " of %" PRId64,
			told->name, number, count);
		usage_hint(usage, "name the part: --part=K/N");
		return USAGE_WRONG;
	}
	common->part_number = (uint32_t)number;
	common->part_count = (uint32_t)count;
	common->part_from = told->name;
	return USAGE_GOOD;
}

static enum usage_result wrong(const char *text, struct usage *usage)
{
	usage_what(usage, "--part=%s is not K/N, auto or auto/N", text);
	usage_hint(usage, "such as --part=3/8, the third of eight parts");
	return USAGE_WRONG;
}

enum usage_result launcher_part(
	const struct command *command, struct common_options *common, struct usage *usage)
{
	const char *text = common->part, *slash;
	int64_t number = 0, count = 0;
	char front[16];

	if (text == NULL)
		return USAGE_GOOD;
	if (command->join == NULL) {
		usage_what(usage,
			"%s has no --part: hash and audit --data are cut into parts",
			command->name);
		usage_hint(usage,
			"leave it out: %s reads with as many threads as -j says",
			command->name);
		return USAGE_WRONG;
	}
	slash = strchr(text, '/');
	if (slash != NULL && (!option_integer(slash + 1, 1, PARTS_MOST, &count) ||
				     (size_t)(slash - text) >= sizeof front))
		return wrong(text, usage);
	if (strcmp(text, "auto") == 0 || strncmp(text, "auto/", 5) == 0)
		return ask_all(common, count, usage);
	if (slash == NULL)
		return wrong(text, usage);
	memcpy(front, text, (size_t)(slash - text));
	front[slash - text] = '\0';
	if (!option_integer(front, 1, count, &number))
		return wrong(text, usage);
	common->part_number = (uint32_t)number;
	common->part_count = (uint32_t)count;
	return USAGE_GOOD;
}

const char *launcher_name(
	const struct common_options *common, const char *typed, struct owned *owned)
{
	const char *at = strstr(typed, "%p");
	char *name;

	if (common->part_count == 0 || at == NULL)
		return typed;
	if (asprintf(&name, "%.*s%" PRIu32 "%s", (int)(at - typed), typed,
		    common->part_number, at + 2) < 0)
		return NULL;
	return owned_take(owned, name);
}
