/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of which rank a recording is: what it says, what the caller's pattern finds, a number
 * in its name, its place among the arguments.
 */
#include "trace/event.h"

static bool take_digits(const char *text, int64_t *ret_rank)
{
	int64_t rank = 0;
	if (!fsdp_is_digit(*text))
		return false;
	for (; fsdp_is_digit(*text); text++)
		if (rank <= INT32_MAX)
			rank = rank * 10 + (*text - '0');
	if (rank > INT32_MAX)
		return false;
	*ret_rank = rank;
	return true;
}

/* rank3, rank-3, rank_3, worker 3, worker3, TP-3: the last one in the name of the file.
 */
static bool rank_of_name(const char *path, int64_t *ret_rank)
{
	static const char *const words[] = { "rank", "worker", "TP-" };
	struct fsdp_span name = fsdp_span_last(fsdp_span_text(path), '/');
	bool found = false;
	for (const char *at = (const char *)name.data; *at != '\0'; at++) {
		for (size_t i = 0; i < FSDP_COUNT(words); i++) {
			size_t size = strlen(words[i]);
			if (strncmp(at, words[i], size) != 0)
				continue;
			const char *digits = at + size;
			digits += i < 2 &&
				  (*digits == '-' || *digits == '_' || *digits == ' ');
			found |= take_digits(digits, ret_rank);
		}
	}
	return found;
}

/* nccl_trace_rank_3, node-a_host_3.json: what a dump's name ends with. */
static bool rank_at_end(const char *path, int64_t *ret_rank)
{
	static const char *const ends[] = { ".json", ".pickle", ".pkl", ".pt", ".gz" };
	struct fsdp_span name = fsdp_span_last(fsdp_span_text(path), '/');
	for (size_t i = 0; i < FSDP_COUNT(ends); i++) {
		if (!fsdp_span_ends(name, fsdp_span_text(ends[i])))
			continue;
		name.size -= strlen(ends[i]);
		i = SIZE_MAX; /* the next one, from the first */
	}
	const unsigned char *at = name.data + name.size;
	while (at > name.data && fsdp_is_digit(at[-1]))
		at--;
	return take_digits((const char *)at, ret_rank);
}

void fsdp_trace_settle_rank(struct fsdp_trace_reading *reading, size_t index)
{
	const struct fsdp_recording_options *options = reading->options;
	struct fsdp_recording *recording = &reading->recording;
	if (recording->rank != FSDP_ABSENT)
		return;
	recording->rank_from = FSDP_RANK_FROM_REGEX;
	if (options->rank_of != NULL)
		recording->rank = options->rank_of(options->context, recording->path);
	if (recording->rank != FSDP_ABSENT)
		return;
	if ((recording->kind == FSDP_RECORDING_FLIGHT &&
		    rank_at_end(recording->path, &recording->rank)) ||
		rank_of_name(recording->path, &recording->rank)) {
		recording->rank_from = FSDP_RANK_FROM_NAME;
	} else {
		recording->rank_from = FSDP_RANK_FROM_POSITION;
		recording->rank = (int64_t)index;
	}
	/* Only in traces ranks matter. */
	if (recording->kind == FSDP_RECORDING_KINETO)
		FSDP_TRACE_FIND(reading, RANK_ASSUMED, "rank %lld is taken from %s",
			(long long)recording->rank,
			recording->rank_from == FSDP_RANK_FROM_NAME
				? "the name of the file"
				: "the place among the arguments");
}
