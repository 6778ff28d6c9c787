/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `replay` says of collectives, matched over ranks or of a single one, for programs.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/replay/replay-data.h"

/* Matched over ranks, or one of a single rank: then what both have is in `match` too. */
struct collective {
	bool is_match;
	struct replay of; /* the run */
	uint64_t run;
	size_t at; /* in it */
	struct fsdp_match match;
	struct fsdp_collective own;
	double algbw, busbw; /* below 0: there is no such number */
};

_Static_assert(sizeof(struct collective) <= RECORD_ROOM, "room for one");

static double number_of(const char *digits)
{
	return digits[0] != '\0' ? strtod(digits, NULL) : -1;
}

static size_t collectives_of(const struct replay *run)
{
	const struct fsdp_matching *matching = fsdp_recordings_matching(run->recordings);

	return matching->by != NULL ? matching->match_count
				    : replay_by_rank(run, 0)->collective_count;
}

/* Goes to the next one of any run. */
static bool next_collective(const struct replay *replay, size_t i, struct collective *one)
{
	if (i == 0) {
		one->of = replay_run(replay, 0);
		one->at = 0;
	} else {
		one->at++;
	}
	while (one->at == collectives_of(&one->of)) {
		if (one->of.nth == replay->run_count)
			return false;
		one->of = replay_run(replay, one->of.nth);
		one->at = 0;
	}
	one->run = one->of.nth;
	return true;
}

const void *replay_each_collective(struct subject of, size_t i, void *room)
{
	struct collective *one = room;
	const struct fsdp_matching *matching;
	struct fsdp_match *match = &one->match;
	char digits[2][32];

	if (!next_collective(of.context, i, one))
		return NULL;
	matching = fsdp_recordings_matching(one->of.recordings);
	one->is_match = matching->by != NULL;
	one->own = (struct fsdp_collective){ 0 };
	if (one->is_match) {
		*match = matching->matches[one->at];
	} else {
		fsdp_recording_collective(
			replay_by_rank(&one->of, 0), one->at, &one->own);
		*match = (struct fsdp_match){ .type = one->own.type,
			.group = one->own.group,
			.seq = one->own.seq,
			.transfer_ns = one->own.dur_ns,
			.bytes = one->own.bytes,
			.group_size = one->own.group_size };
	}
	if (!fsdp_bandwidth(&match->type, match->bytes, match->group_size,
		    match->transfer_ns, digits[0], digits[1]))
		match->group_size = FSDP_ABSENT;
	one->algbw = number_of(digits[0]);
	one->busbw = number_of(digits[1]);
	return one;
}

static bool has_algbw(struct subject of)
{
	return ((const struct collective *)of.object)->algbw >= 0;
}

static bool has_busbw(struct subject of)
{
	return ((const struct collective *)of.object)->busbw >= 0;
}

static bool is_match(struct subject of)
{
	return ((const struct collective *)of.object)->is_match;
}

static bool is_own(struct subject of)
{
	return !is_match(of);
}

static bool knows_group(struct subject of)
{
	return is_match(of) ||
	       ((const struct collective *)of.object)->match.group.data != NULL;
}

static struct value get_group(struct subject of)
{
	struct text group =
		text_of_span(((const struct collective *)of.object)->match.group);

	return is_match(of) && group.size == 0 ? value_absent() : value_text(group);
}

/* A number, as far as it is one; a single rank has the text. */
static struct value get_seq(struct subject of)
{
	struct text seq = text_of_span(((const struct collective *)of.object)->match.seq);
	char digits[24];

	if (seq.data == NULL)
		return is_match(of) ? value_null() : value_absent();
	if (!is_match(of) || seq.size >= sizeof digits)
		return value_text(seq);
	memcpy(digits, seq.data, seq.size);
	digits[seq.size] = '\0';
	return value_integer(strtoll(digits, NULL, 10));
}

static const void *each_rank(struct subject of, size_t i, void *room)
{
	const struct fsdp_match *match = &((const struct collective *)of.object)->match;
	int64_t *rank = room;

	if (i == match->recording_count)
		return NULL;
	*rank = replay_by_rank(
		&((const struct collective *)of.object)->of, match->recordings[i])
			->rank;
	return rank;
}

#define COLLECTIVE struct collective
static const struct record group_record = RECORD_OF(RECORD_OBJECT, COLLECTIVE,
	{ "group", GET(FIELD_TEXT, get_group), .null = true,
		.about = "Process group; null where ranks were matched without one." });
const struct record replay_collective_record = OBJECT_RECORD(COLLECTIVE, "collective",
	"A collective: matched over several ranks, or that of a single rank.",
	{ "index", COUNT_AT(COLLECTIVE, match.index), .has = is_match,
		.about = "Place among all collectives, with those that are left out." },
	RUN_ROW(COLLECTIVE, run),
	{ "ts_ns", NS_AT(COLLECTIVE, own.ts_ns), .has = is_own,
		.about = "Start, of a single rank." },
	{ "dur_ns", NS_AT(COLLECTIVE, own.dur_ns), .has = is_own,
		.about = "Duration, of a single rank." },
	{ "type", TEXT_AT(COLLECTIVE, match.type), .always = true,
		.about = "What it does." },
	{ "how", ENUM_AT(COLLECTIVE, own.how, replay_how_name), .has = is_own,
		WORDS("args", "launch", "name", "unknown"),
		.about = "How its type was found, as in `comm_resolution`." },
	{ NULL, FIELDS(group_record), .has = knows_group },
	{ "seq", GET(FIELD_ANY, get_seq),
		.about =
			"Sequence number within the group: an integer or null, of a single rank the text." },
	{ "ranks", EACH(each_rank, record_integers), .has = is_match,
		.about = "Ranks that took part." },
	{ "first_rank", INTEGER_AT(COLLECTIVE, match.first_rank), .has = is_match,
		.about = "The rank that began first." },
	{ "last_rank", INTEGER_AT(COLLECTIVE, match.last_rank), .has = is_match,
		.about = "The rank that began last." },
	{ "start_skew_ns", NS_AT(COLLECTIVE, match.start_skew_ns), .has = is_match,
		.about = "From the first start to the last." },
	{ "end_skew_ns", NS_AT(COLLECTIVE, match.end_skew_ns), .has = is_match,
		.about = "From the first end to the last." },
	{ "transfer_ns", NS_AT(COLLECTIVE, match.transfer_ns), .has = is_match,
		.about = "The shortest duration of all ranks: the time of moving data." },
	{ "max_dur_ns", NS_AT(COLLECTIVE, match.max_dur_ns), .has = is_match,
		.about = "The longest duration of all ranks." },
	{ "bytes", INTEGER_AT(COLLECTIVE, match.bytes),
		.about =
			"Bytes of the output of an all-gather, of the input of others." },
	{ "group_size", INTEGER_AT(COLLECTIVE, match.group_size),
		.about = "Number of ranks of the group." },
	{ "algbw_GBps", NUMBER_AT(COLLECTIVE, algbw), .has = has_algbw,
		.about =
			"Bytes by time, in 10^9 bytes a second with six decimals: by `transfer_ns`, of a single rank by `dur_ns`." },
	{ "busbw_GBps", NUMBER_AT(COLLECTIVE, busbw), .has = has_busbw,
		.about = "The same for the bus." });

#define MATCHING struct fsdp_matching
const struct record replay_matching_record = OBJECT_RECORD(MATCHING, "matching",
	"How the collectives of ranks were matched.",
	{ "by", WORD_AT(MATCHING, by), .null = true, WORDS("seq", "group", "position"),
		.about = "By what; null for a single rank." },
	{ "stopped", INTEGER_AT(MATCHING, stopped), .null = true,
		.about = "Place from which on they could not be matched." },
	{ "straggler", INTEGER_AT(MATCHING, straggler), .null = true,
		.about =
			"The rank that waits less than half of what the others wait on average; null: none stands out. `cost` has the price." },
	{ "left_out", COUNT_AT(MATCHING, left_out), .always = true,
		.about =
			"Number of collectives, of all ranks, without a process group or number to match them by." },
	{ "aligned", BOOL_AT(MATCHING, aligned), .always = true,
		.about =
			"False when the clocks of the ranks differ: then there are no waits and no straggler." });

/* ---- rows ---- */

static const struct record collective_row_record = RECORD_OF(RECORD_OBJECT, COLLECTIVE,
	{ "type", TEXT_AT(COLLECTIVE, match.type) },
	{ "group", GET(FIELD_TEXT, get_group) }, { "seq", GET(FIELD_ANY, get_seq) },
	{ "transfer_ns", NS_AT(COLLECTIVE, match.transfer_ns) },
	{ "start_skew_ns", NS_AT(COLLECTIVE, match.start_skew_ns), .has = is_match },
	{ "last_rank", INTEGER_AT(COLLECTIVE, match.last_rank), .has = is_match },
	{ "bytes", INTEGER_AT(COLLECTIVE, match.bytes) },
	{ "group_size", INTEGER_AT(COLLECTIVE, match.group_size) },
	{ "algbw_GBps", NUMBER_AT(COLLECTIVE, algbw), .has = has_algbw },
	{ "busbw_GBps", NUMBER_AT(COLLECTIVE, busbw), .has = has_busbw },
	{ "run", COUNT_AT(COLLECTIVE, run) });

void replay_put_collective_rows(struct replay *replay)
{
	const struct subject of = { replay, replay };
	struct record_table table;
	struct collective one;

	replay_begin_rows(replay, &table, &collective_row_record);
	for (size_t i = 0; replay_each_collective(of, i, &one) != NULL; i++)
		out_records_row(replay->run->out, &table, &one);
	out_table_end(replay->run->out);
}
