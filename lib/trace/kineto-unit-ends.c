/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reductions at the end of each step.
 */
#include <stdlib.h>

#include "trace/durations.h"
#include "trace/kineto-unit-ends.h"

static int compare(const void *a, const void *b)
{
	const struct fsdp_kineto_unit_reduction *left = a, *right = b;
	if (left->step != right->step)
		return left->step < right->step ? -1 : 1;
	return left->begin_ns < right->begin_ns ? -1 : left->begin_ns > right->begin_ns;
}

/* For each reduction the time from its end to the begin of the last one of its step. */
static struct fsdp_interval *list_windows(
	const struct fsdp_kineto_unit_reduction *list, size_t count)
{
	struct fsdp_interval *windows = malloc((count + 1) * sizeof *windows);
	const struct fsdp_kineto_unit_reduction *last = NULL;
	for (size_t i = count; windows != NULL && i-- > 0;) {
		if (last == NULL || last->step != list[i].step)
			last = &list[i];
		int64_t end = list[i].end_ns;
		windows[i] = (struct fsdp_interval){ end,
			last->begin_ns > end ? last->begin_ns : end };
	}
	return windows;
}

bool fsdp_kineto_unit_ends_add(const struct fsdp_kineto_unit_rows *rows,
	const struct fsdp_kineto_busy *busy, struct fsdp_kineto_unit_reduction *list,
	size_t count)
{
	if (count != 0)
		qsort(list, count, sizeof *list, compare);
	struct fsdp_interval *windows = list_windows(list, count);
	int64_t *computes_ns = malloc((count + 1) * sizeof *computes_ns);
	bool good = windows != NULL && computes_ns != NULL &&
		    (count == 0 || fsdp_kineto_busy_cover(busy, 1 << FSDP_KINETO_COMPUTE,
					   windows, count, computes_ns));
	for (size_t i = 0; good && i < count; i++) {
		bool overflow = false;
		if (computes_ns[i] == 0)
			fsdp_sum_ns(&fsdp_kineto_unit_row(rows, list[i].row)
					     ->reduces.exposed_last_ns,
				list[i].exposed_ns, &overflow);
	}
	free(windows);
	free(computes_ns);
	return good;
}
