/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the step in which a checkpoint was saved.
 */
#include <string.h>

#include "part/steps.h"

void steps_ask(struct fsdp_options *options)
{
	static const char *const NAMES[] = { "step", "global_step", "iteration", "iter",
		"iter_num", "num_updates", "epoch" };

	options->read_values = true;
	options->value_names = NAMES;
	options->value_name_count = sizeof NAMES / sizeof *NAMES;
}

bool step_inside(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_overview *overview, int64_t *ret_step, int64_t *ret_epoch)
{
	struct fsdp_kind kind;

	if (!fsdp_kind_find(checkpoint, fsdp_overview_facts(overview), &kind, NULL))
		return false;
	*ret_step = kind.has_step && kind.step >= 0 ? kind.step : FSDP_ABSENT;
	if (ret_epoch != NULL)
		*ret_epoch = kind.has_epoch && kind.epoch >= 0 ? kind.epoch : FSDP_ABSENT;
	return true;
}

int64_t step_of_path(const char *path)
{
	struct fsdp_step_name step;
	const char *begin;
	size_t size = strlen(path);

	while (size > 1 && path[size - 1] == '/')
		size--;
	begin = memrchr(path, '/', size);
	begin = begin != NULL ? begin + 1 : path;
	size -= (size_t)(begin - path);
	fsdp_step_name((struct fsdp_span){ (const unsigned char *)begin, size }, &step);
	return step.step >= 0 ? step.step : FSDP_ABSENT;
}
