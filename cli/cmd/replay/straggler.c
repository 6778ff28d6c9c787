/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For which rank the others wait, and what it does longer than they.
 */
#include "cmd/replay/straggler.h"
#include "session/session.h"

const char *straggler_cause_name(enum straggler_cause cause)
{
	static const char *const names[] = { NULL, "data loader", "host", "copies",
		"compute" };

	return names[cause];
}

static int64_t time_of(const struct fsdp_recording *one)
{
	for (size_t i = 0; i < one->type_count; i++)
		if (text_is(text_of_span(one->types[i].name), text_of("all")))
			return one->types[i].times.sum_ns;
	return FSDP_ABSENT;
}

/* What a rank spends its time on, as far as it can make others wait. */
struct spent {
	double ns[STRAGGLER_COMPUTE + 1];
};

static struct spent spent_by(const struct fsdp_recording *one)
{
	struct spent spent = { { 0 } };

	spent.ns[STRAGGLER_DATA] = (double)one->data_loader_ns;
	if (one->has_device) {
		spent.ns[STRAGGLER_HOST] = (double)one->base.idle_ns;
		spent.ns[STRAGGLER_COPIES] = (double)one->base.mem_busy_ns;
		spent.ns[STRAGGLER_COMPUTE] = (double)one->base.compute_busy_ns;
	}
	return spent;
}

/* What it does longest beyond the others, if that is a quarter of their waits at least.
 * While a host waits for data its device idles: the loader is the cause of both. */
static void find_cause(
	struct straggler *straggler, const struct spent *excess, double wait)
{
	enum straggler_cause most = STRAGGLER_HOST;

	for (enum straggler_cause i = STRAGGLER_HOST; i <= STRAGGLER_COMPUTE; i++)
		if (excess->ns[i] > excess->ns[most])
			most = i;
	if (most == STRAGGLER_HOST && excess->ns[STRAGGLER_DATA] * 2 >= excess->ns[most])
		most = STRAGGLER_DATA;
	if (!(excess->ns[most] * 4 >= wait) || !(wait > 0))
		return;
	straggler->cause = most;
	straggler->excess_ns = excess->ns[most];
}

struct straggler straggler_of(const struct fsdp_recordings *recordings)
{
	struct straggler straggler = {
		.rank = fsdp_recordings_matching(recordings)->straggler
	};
	struct spent own = { { 0 } }, others = { { 0 } };
	int64_t own_wait = 0;
	double count = 0;

	for (size_t i = 0;
		straggler.rank != FSDP_ABSENT && i < fsdp_recording_count(recordings);
		i++)
		if (fsdp_recording(recordings, i)->kind == FSDP_RECORDING_KINETO &&
			fsdp_recording(recordings, i)->rank == straggler.rank)
			own_wait = fsdp_recording(recordings, i)->wait_ns;
	for (size_t i = 0; i < fsdp_recording_count(recordings); i++) {
		const struct fsdp_recording *one = fsdp_recording(recordings, i);
		struct spent spent = spent_by(one);

		if (one->kind != FSDP_RECORDING_KINETO)
			continue;
		if (straggler.rank != FSDP_ABSENT && one->rank == straggler.rank) {
			own = spent;
			continue;
		}
		count++;
		if (time_of(one) != FSDP_ABSENT &&
			(__builtin_add_overflow(straggler.waits_ns,
				 one->wait_ns - own_wait, &straggler.waits_ns) ||
				__builtin_add_overflow(straggler.all_ns, time_of(one),
					&straggler.all_ns)))
			return (struct straggler){ .rank = FSDP_ABSENT };
		for (int j = 0; j <= STRAGGLER_COMPUTE; j++)
			others.ns[j] += spent.ns[j];
	}
	for (int j = 0; count > 0 && j <= STRAGGLER_COMPUTE; j++)
		own.ns[j] -= others.ns[j] / count;
	if (count > 0 && straggler.rank != FSDP_ABSENT)
		find_cause(&straggler, &own, (double)straggler.waits_ns / count);
	return straggler;
}
