/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of the host and the device while a trace is read, to tell why the device
 * was idle.
 */
#include "trace/kineto-idle.h"

const char *fsdp_idle_cause_name(enum fsdp_idle_cause cause)
{
	static const char *const names[FSDP_IDLE_CAUSE_COUNT] = { "synchronisation",
		"allocation", "copy", "collective", "data_loader", "launch", "host",
		"queued", "unknown" };
	return (unsigned)cause < FSDP_IDLE_CAUSE_COUNT ? names[cause] : NULL;
}

void fsdp_kineto_idle_init(
	struct fsdp_kineto_idle *idle, struct fsdp_budget *budget, bool wanted)
{
	*idle = (struct fsdp_kineto_idle){ .wanted = wanted, .budget = budget };
	fsdp_arena_init_lean(&idle->arena, budget);
	fsdp_vec_init(&idle->works, &idle->arena, sizeof(struct fsdp_kineto_work));
	fsdp_vec_init(&idle->launches, &idle->arena, sizeof(struct fsdp_kineto_issuing));
	fsdp_vec_init(&idle->calls, &idle->arena, sizeof(struct fsdp_kineto_host_call));
	fsdp_vec_init(&idle->threads, &idle->arena, sizeof(struct fsdp_intervals));
}

void fsdp_kineto_idle_done(struct fsdp_kineto_idle *idle)
{
	for (size_t i = 0; i < idle->threads.count; i++)
		fsdp_intervals_done(fsdp_vec_at(&idle->threads, i));
	fsdp_arena_done(&idle->arena);
}

bool fsdp_kineto_idle_work(
	struct fsdp_kineto_idle *idle, const struct fsdp_kineto_work *work)
{
	return !idle->wanted || fsdp_vec_add(&idle->works, work);
}

bool fsdp_kineto_idle_launch(
	struct fsdp_kineto_idle *idle, const struct fsdp_kineto_issuing *launch)
{
	return !idle->wanted || fsdp_vec_add(&idle->launches, launch);
}

bool fsdp_kineto_idle_call(
	struct fsdp_kineto_idle *idle, const struct fsdp_kineto_host_call *call)
{
	return !idle->wanted || fsdp_vec_add(&idle->calls, call);
}

bool fsdp_kineto_idle_operator(
	struct fsdp_kineto_idle *idle, uint32_t thread, int64_t begin_ns, int64_t end_ns)
{
	if (!idle->wanted)
		return true;
	while (idle->threads.count <= thread) {
		struct fsdp_intervals *more = fsdp_vec_push(&idle->threads);
		if (more == NULL)
			return false;
		fsdp_intervals_init(more, idle->budget);
	}
	return fsdp_intervals_add(fsdp_vec_at(&idle->threads, thread), begin_ns, end_ns);
}

void fsdp_kineto_idle_forget(struct fsdp_kineto_idle *idle)
{
	fsdp_vec_truncate(&idle->works, 0);
}
