/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A document that is no answer but stands beside one: what is emitted for it alone is
 * written as JSON without an envelope.
 */
#include <stdlib.h>

#include "render/functions.h"

struct plan_file {
	struct out base;
	struct out *json;
};

static struct out *inner(struct out *out)
{
	return ((struct plan_file *)out)->json;
}

static void begin(struct out *out, const struct out_header *header)
{
	struct out_header bare = *header;

	bare.bare = true;
	out_begin(inner(out), &bare);
}

static void end(struct out *out, const struct out_footer *footer)
{
	out_end(inner(out), footer);
}

static int finish(struct out *out)
{
	return out_finish(inner(out));
}

static void free_plan(struct out *out)
{
	out_free(inner(out));
	free(out);
}

static struct out *new_plan(FILE *stream, const struct looks *looks)
{
	struct plan_file *plan = calloc(1, sizeof *plan);

	if (plan == NULL)
		return NULL;
	plan->base.functions = &plan_functions;
	plan->json = json_functions.new(stream, looks);
	if (plan->json != NULL)
		return &plan->base;
	free(plan);
	return NULL;
}

const struct out_functions plan_functions = {
	.new = new_plan,
	.finish = finish,
	.free = free_plan,
	.begin = begin,
	.end = end,
	.aside = inner,
};
