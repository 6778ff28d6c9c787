/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The segments that wrappers put into names, and names without them.
 */
#include "base/span.h"
#include "model/fqn.h"

#define FSDP_SEGMENT "_fsdp_wrapped_module"
#define CHECKPOINT_SEGMENT "_checkpoint_wrapped_module"

#define SEGMENT(text)                       \
	{                                   \
		text ".", sizeof(text) - 1, \
	}

static const struct {
	const char *text;
	size_t size; /* without the dot */
} segments[] = {
	SEGMENT(FSDP_SEGMENT),
	SEGMENT(CHECKPOINT_SEGMENT),
	SEGMENT("_orig_mod"),
	SEGMENT("module"),
	SEGMENT("_forward_module"),
	SEGMENT("_fpw_module"),
	SEGMENT("lightning_module"),
};

const char *fsdp_name_wrapper_segment(size_t index)
{
	return index < FSDP_COUNT(segments) ? segments[index].text : NULL;
}

size_t fsdp_name_find_wrapper(struct fsdp_span segment)
{
	/* All of them end in "module" or in "_orig_mod". */
	if (segment.size < 6 || (segment.data[segment.size - 1] != 'e' &&
					segment.data[segment.size - 1] != 'd'))
		return 0;
	for (size_t i = 0; i < FSDP_COUNT(segments); i++)
		if (segment.size == segments[i].size &&
			memcmp(segment.data, segments[i].text, segment.size) == 0)
			return i + 1;
	return 0;
}

enum fsdp_wrapper fsdp_name_wrapper_of(struct fsdp_span segment)
{
	if (fsdp_span_is(segment, FSDP_SEGMENT))
		return FSDP_WRAPPER_FSDP1;
	if (fsdp_span_is(segment, CHECKPOINT_SEGMENT))
		return FSDP_WRAPPER_CHECKPOINT;
	return FSDP_WRAPPER_NONE;
}

bool fsdp_name_is_dirty(struct fsdp_span name)
{
	/* Both contain this, and hardly anything else does. */
	if (fsdp_span_find(name, FSDP_SPAN("_wrapped_module.")) == NULL)
		return false;
	return fsdp_span_find(name, FSDP_SPAN(FSDP_SEGMENT ".")) != NULL ||
	       fsdp_span_find(name, FSDP_SPAN(CHECKPOINT_SEGMENT ".")) != NULL;
}

/* Non-overlapping occurrences from left to right, as str.replace removes them. */
static size_t remove_all(char *text, size_t size, struct fsdp_span what)
{
	size_t from = 0, to = 0;
	while (from < size) {
		const unsigned char *hit =
			fsdp_span_find(fsdp_span(text + from, size - from), what);
		size_t keep = hit != NULL ? (size_t)((const char *)hit - (text + from))
					  : size - from;
		memmove(text + to, text + from, keep);
		to += keep;
		from += keep + (hit != NULL ? what.size : 0);
	}
	return to;
}

size_t fsdp_name_clean(struct fsdp_span name, char *buffer)
{
	if (name.size != 0)
		memcpy(buffer, name.data, name.size);
	size_t size = remove_all(buffer, name.size, FSDP_SPAN(FSDP_SEGMENT "."));
	return remove_all(buffer, size, FSDP_SPAN(CHECKPOINT_SEGMENT "."));
}

bool fsdp_name_is_flat_parameter(struct fsdp_span segment)
{
	return fsdp_span_is(segment, "_flat_param") ||
	       fsdp_span_is(segment, "flat_param");
}

const char *fsdp_wrapper_name(enum fsdp_wrapper wrapper)
{
	static const char *const names[] = { "", "fsdp1", "checkpoint", "compile", "ddp",
		"dmp", "other" };
	return (size_t)wrapper < FSDP_WRAPPER_COUNT ? names[wrapper] : "other";
}
