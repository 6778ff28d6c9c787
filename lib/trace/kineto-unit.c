/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The annotations of FSDP (torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py,
 * _runtime_utils.py), from PyTorch 2.0 on:
 *
 *	FSDP::KIND			before 2.5, or of the root
 *	FSDP::KIND (NAME)		since 2.5
 *	FSDP::KIND (NAME) [pg=N]	since 2.11, of units with several parameter groups
 *	FSDP::forward_prefetch for NAME
 *	FullyShardedDataParallel.KIND
 *
 * NAME may hold blanks and brackets.
 */
#include <string.h>

#include <fsdp/trace.h>

#include "base/characters.h"
#include "base/num.h"
#include "trace/kineto-unit.h"

struct station {
	const char *name;
	enum fsdp_kineto_unit_kind kind;
};

static const struct station stations[] = {
	{ "all_gather", FSDP_UNIT_ALL_GATHER },
	{ "all_gather_copy_out", FSDP_UNIT_STATION },
	{ "pre_forward", FSDP_UNIT_PRE_FORWARD },
	{ "post_forward", FSDP_UNIT_STATION },
	{ "pre_backward", FSDP_UNIT_PRE_BACKWARD },
	{ "post_backward", FSDP_UNIT_STATION },
	{ "post_backward_accumulate", FSDP_UNIT_STATION },
	{ "post_backward_reshard", FSDP_UNIT_POST_BACKWARD_RESHARD },
	{ "post_backward_reduce", FSDP_UNIT_POST_BACKWARD_REDUCE },
	{ "post_backward_rs_wait", FSDP_UNIT_STATION },
};
static const struct station prefetches[] = {
	{ "forward_prefetch", FSDP_UNIT_FORWARD_PREFETCH },
	{ "backward_prefetch", FSDP_UNIT_BACKWARD_PREFETCH },
};
static const struct station of_fsdp1[] = {
	{ "forward", FSDP_UNIT1_FORWARD },
	{ "_pre_forward", FSDP_UNIT1_PRE_FORWARD },
	{ "_pre_forward_prefetch", FSDP_UNIT1_PRE_FORWARD_PREFETCH },
	{ "_pre_backward_hook", FSDP_UNIT1_PRE_BACKWARD },
	{ "_pre_backward_prefetch", FSDP_UNIT1_PRE_BACKWARD_PREFETCH },
	{ "_post_backward_hook", FSDP_UNIT1_POST_BACKWARD },
	{ "_post_backward_prefetch", FSDP_UNIT1_POST_BACKWARD_PREFETCH },
	{ "_post_backward_hook_reshard_only", FSDP_UNIT1_RESHARD_ONLY },
};

static enum fsdp_kineto_unit_kind find(
	const struct station *words, size_t count, struct fsdp_span name)
{
	for (size_t i = 0; i < count; i++)
		if (fsdp_span_is(name, words[i].name))
			return words[i].kind;
	return FSDP_UNIT_NONE;
}

/* " [pg=N]" at the end of a text: cuts it off. */
static int64_t take_group(struct fsdp_span *text)
{
	static const char begin[] = " [pg=";
	enum { SIZE = sizeof begin - 1 };
	size_t at = text->size;
	int64_t pg;
	if (at == 0 || text->data[--at] != ']')
		return FSDP_ABSENT;
	while (at > 0 && fsdp_is_digit(text->data[at - 1]))
		at--;
	struct fsdp_span digits = fsdp_span(text->data + at, text->size - 1 - at);
	if (digits.size == 0 || at < SIZE ||
		memcmp(text->data + at - SIZE, begin, SIZE) != 0 ||
		!fsdp_decimal_integer(digits, &pg))
		return FSDP_ABSENT;
	text->size = at - SIZE;
	return pg;
}

/* " (NAME)", or nothing. */
static bool take_name(struct fsdp_span text, struct fsdp_span *ret_unit)
{
	*ret_unit = FSDP_SPAN("");
	if (text.size == 0)
		return true;
	if (text.size < 3 || memcmp(text.data, " (", 2) != 0 ||
		text.data[text.size - 1] != ')')
		return false;
	*ret_unit = fsdp_span(text.data + 2, text.size - 3);
	return true;
}

/* " for NAME", or nothing. */
static bool take_target(struct fsdp_span text, struct fsdp_span *ret_unit)
{
	*ret_unit = FSDP_SPAN("");
	return text.size == 0 || fsdp_span_behind(text, " for ", ret_unit);
}

static struct fsdp_kineto_unit_note read_fsdp2(struct fsdp_span text)
{
	struct fsdp_kineto_unit_note note = { .pg = FSDP_ABSENT };
	struct fsdp_span kind = fsdp_span_first(text, ' ');
	struct fsdp_span rest = fsdp_span(text.data + kind.size, text.size - kind.size);
	note.kind = find(prefetches, FSDP_COUNT(prefetches), kind);
	if (note.kind != FSDP_UNIT_NONE) {
		if (!take_target(rest, &note.unit))
			note.kind = FSDP_UNIT_NONE;
		return note;
	}
	note.kind = find(stations, FSDP_COUNT(stations), kind);
	note.pg = take_group(&rest);
	if (note.kind != FSDP_UNIT_NONE && !take_name(rest, &note.unit))
		note.kind = FSDP_UNIT_NONE;
	return note;
}

struct fsdp_kineto_unit_note fsdp_kineto_unit_read(struct fsdp_span name)
{
	struct fsdp_kineto_unit_note note = { .pg = FSDP_ABSENT, .unit = FSDP_SPAN("") };
	struct fsdp_span rest;
	if (fsdp_span_behind(name, "FSDP::", &rest))
		return read_fsdp2(rest);
	if (fsdp_span_behind(name, "FullyShardedDataParallel.", &rest))
		note.kind = find(of_fsdp1, FSDP_COUNT(of_fsdp1), rest);
	return note;
}

/* ---- names ---- */

static bool is_wrapper(struct fsdp_span segment)
{
	return fsdp_span_is(segment, "_orig_mod") ||
	       fsdp_span_is(segment, "_checkpoint_wrapped_module") ||
	       fsdp_span_is(segment, "_fsdp_wrapped_module");
}

size_t fsdp_kineto_unit_clean(struct fsdp_span unit, unsigned char *buffer)
{
	size_t size = 0;
	bool any = false;
	for (size_t at = 0; at <= unit.size;) {
		struct fsdp_span segment =
			fsdp_span_first(fsdp_span(unit.data + at, unit.size - at), '.');
		at += segment.size + 1;
		if (is_wrapper(segment))
			continue;
		if (any)
			buffer[size++] = '.';
		if (segment.size != 0)
			memcpy(buffer + size, segment.data, segment.size);
		size += segment.size;
		any = true;
	}
	return size;
}
