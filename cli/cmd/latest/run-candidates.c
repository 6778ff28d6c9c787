/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the contents of run directories, and sorts them by step.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/latest/latest.h"
#include "part/tensor-row.h"
#include "session/session.h"

/* Room for one more; NULL: out of memory. */
static void *grown(void *items, size_t count, size_t *room, size_t size)
{
	size_t more = *room > 0 ? *room * 2 : 16;

	if (count < *room)
		return items;
	items = reallocarray(items, more, size);
	*room = items != NULL ? more : *room;
	return items;
}

static bool add_candidate(struct latest *latest, const char *path, uint32_t input)
{
	struct run_candidate *more =
		grown(latest->candidates, latest->count, &latest->room, sizeof *more);
	const char *slash = strrchr(path, '/');
	const char *name = slash != NULL && slash[1] != '\0' ? slash + 1 : path;

	if (more == NULL)
		return false;
	latest->candidates = more;
	more = &more[latest->count++];
	*more = (struct run_candidate){
		.path = path, .step = FSDP_ABSENT, .epoch = FSDP_ABSENT, .input = input
	};
	fsdp_step_name((struct fsdp_span){ (const unsigned char *)name, strlen(name) },
		&more->step_name);
	return true;
}

static bool add_found(struct latest *latest, const struct fsdp_below *below, size_t index,
	uint32_t input)
{
	struct run_candidate *added;

	if (!add_candidate(latest, fsdp_below_path(below, index), input))
		return false;
	added = &latest->candidates[latest->count - 1];
	added->is_lone = fsdp_below_is_lone(below, index, &added->plan);
	return true;
}

static bool add_pointer(struct latest *latest, struct fsdp_pointer from, uint32_t input)
{
	struct run_pointer *more = grown(latest->pointers, latest->pointer_count,
		&latest->pointer_room, sizeof *more);

	if (more == NULL)
		return false;
	latest->pointers = more;
	more[latest->pointer_count++] = (struct run_pointer){
		.path = from.path,
		.says = { (const char *)from.says.data, from.says.size },
		.leads = from.leads,
		.input = input,
	};
	return true;
}

static void tell_unread(
	struct latest *latest, const struct fsdp_below *below, const char *path)
{
	uint64_t unread = fsdp_below_unread(below);

	latest->is_blind |= unread > 0 && fsdp_below_count(below) == 0;
	if (unread > 0)
		run_failure(latest->run, "system", NULL,
			unread == 1 ? "%s: %llu file or directory could not be read"
				    : "%s: %llu files or directories could not be read",
			path, (unsigned long long)unread);
	if (fsdp_below_is_cut(below))
		run_note(latest->run,
			"%s: there may be more: --limit below=N looks at more entries",
			path);
}

/* Steps decide the order, or epochs if no name has a step: one without may be the newest. */
static void trust_names(struct latest *latest, size_t first)
{
	bool has_steps = false;

	for (size_t i = first; i < latest->count; i++)
		has_steps |= latest->candidates[i].step_name.step >= 0;
	for (size_t i = first; i < latest->count; i++) {
		const struct fsdp_step_name *name = &latest->candidates[i].step_name;

		latest->candidates[i].by_name =
			has_steps ? name->step >= 0 : name->epoch >= 0;
	}
}

static bool look_in(struct latest *latest, const char *path, uint32_t input)
{
	struct run *run = latest->run;
	struct fsdp_options options = { .size = sizeof options,
		.limits = run->limits,
		.limit_count = run->limit_count,
		.remote = run->remote };
	size_t first = latest->count;
	struct fsdp_below *below;
	bool good = true;

	if (!fsdp_below_new_run(path, &options, &below, NULL))
		return false;
	latest->folders[input].below = below;
	for (size_t i = 0; i < fsdp_below_count(below) && good; i++)
		good = add_found(latest, below, i, input);
	if (good)
		trust_names(latest, first);
	for (size_t i = 0; good && fsdp_below_pointer(below, i).path != NULL; i++)
		good = add_pointer(latest, fsdp_below_pointer(below, i), input);
	tell_unread(latest, below, path);
	return good;
}

bool candidate_divide(struct latest *latest, size_t index)
{
	struct run_candidate folder = latest->candidates[index];
	struct fsdp_below **more = grown(
		latest->belows, latest->below_count, &latest->below_room, sizeof *more);
	struct fsdp_options options = { .size = sizeof options,
		.limits = latest->run->limits,
		.limit_count = latest->run->limit_count,
		.remote = latest->run->remote };
	struct fsdp_below *below;
	bool good = true;

	if (more == NULL)
		return false;
	latest->belows = more;
	if (!fsdp_below_new(folder.path, &options, &below, NULL))
		return false;
	latest->belows[latest->below_count++] = below;
	latest->candidates[index] = latest->candidates[--latest->count];
	collected_done(&folder.own);
	for (size_t i = 0; i < fsdp_below_count(below) && good; i++)
		good = add_found(latest, below, i, folder.input);
	return good;
}

/* Without the slashes at its end, which the names of files below would double. */
static const char *trimmed(struct latest *latest, const char *path)
{
	size_t size = strlen(path);

	while (size > 1 && path[size - 1] == '/')
		size--;
	return owned_copy(&latest->run->collected->owned, path, size);
}

bool candidates_find(struct latest *latest)
{
	const struct collected *collected = latest->run->collected;
	size_t count = collected->input_count;
	bool good;

	latest->folders = calloc(count + 1, sizeof *latest->folders);
	good = latest->folders != NULL;
	for (size_t i = 0; i < count && good; i++) {
		const char *path = trimmed(latest, collected->inputs[i].path.data);

		good = path != NULL &&
		       (path_is_folder(path) ? look_in(latest, path, (uint32_t)i)
					     : add_candidate(latest, path, (uint32_t)i));
	}
	return good;
}

/* ---- order ---- */

static int newer_first(int64_t a, int64_t b)
{
	return a == b ? 0 : a > b ? -1 : 1;
}

/* Order: with a step, then with an epoch, then others. For the same step the name decides, else the shorter name is
 * first. Unchecked ones are older than the rest. */
static int compare(const void *left, const void *right)
{
	const struct run_candidate *a = left, *b = right;
	int order = (a->result == NULL) - (b->result == NULL);

	if (order == 0)
		order = newer_first(a->step, b->step);
	if (order == 0)
		order = newer_first(a->epoch, b->epoch);
	if (order == 0)
		order = newer_first(a->step_name.step, b->step_name.step);
	if (order != 0)
		return order;
	return a->step != FSDP_ABSENT ? strverscmp(a->path, b->path)
				      : strverscmp(b->path, a->path);
}

static int compare_names(const void *left, const void *right)
{
	const struct run_candidate *a = left, *b = right;
	int order = newer_first(a->step_name.step, b->step_name.step);

	if (order == 0)
		order = newer_first(a->step_name.epoch, b->step_name.epoch);
	return order != 0 ? order : strverscmp(a->path, b->path);
}

void candidates_sort(struct latest *latest, bool by_name)
{
	if (latest->count > 1)
		qsort(latest->candidates, latest->count, sizeof *latest->candidates,
			by_name ? compare_names : compare);
}
