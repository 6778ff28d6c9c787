/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What logs tell of each rank in each group: what it enqueued and completed last, and
 * what failed. Ranks that are alike are one row for people.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "cmd/order/order.h"

#define WATCH struct fsdp_flight_watch
const struct record order_watch_record = OBJECT_RECORD(WATCH, "watchdog_rank",
	"What a log tells of one rank in one process group.",
	{ "rank", INTEGER_AT(WATCH, rank), .always = true, .about = "The rank." },
	{ "group", TEXT_AT(WATCH, group), .always = true,
		.about = "The process group; empty where the lines name none." },
	{ "enqueued", INTEGER_AT(WATCH, enqueued), .null = true,
		.about = "Number of the last collective that the rank enqueued." },
	{ "completed", INTEGER_AT(WATCH, completed), .null = true,
		.about = "Number of the last one that it completed." },
	{ "seq", INTEGER_AT(WATCH, seq), .null = true,
		.about =
			"Number of the first that failed; null where none did on this rank, and of a monitored barrier." },
	{ "op", TEXT_AT(WATCH, op), .null = true,
		.about = "Its operation, without the variant." },
	{ "numel_in", INTEGER_AT(WATCH, numel_in), .null = true,
		.about = "Elements of its input." },
	{ "numel_out", INTEGER_AT(WATCH, numel_out), .null = true,
		.about = "Elements of its output." },
	{ "timeout_ms", INTEGER_AT(WATCH, timeout_ms), .null = true,
		.about = "After how long it was to time out, in milliseconds." },
	{ "ran_ms", INTEGER_AT(WATCH, ran_ms), .null = true,
		.about = "How long the rank had waited in it, in milliseconds." });

void order_put_watches(struct listing *listing, const struct fsdp_flight *says)
{
	static const struct table like = {
		.key = "watchdog", .main = true, .rows_only = true
	};
	struct record_table table;
	struct out *out = listing->run->out;

	record_table_init(&table, &like, &order_watch_record, NULL);
	out_records_begin(out, &table);
	for (size_t i = 0; i < says->watch_count; i++)
		out_records_row(out, &table, &says->watches[i]);
	out_table_end(out);
}

/* ---- text ---- */

static const struct column WATCH_TABLE[] = {
	{ "ranks", .right = true },
	{ "group" },
	{ "enqueued", .right = true },
	{ "completed", .right = true },
	{ "failed in" },
};

static bool are_alike(
	const struct fsdp_flight_watch *a, const struct fsdp_flight_watch *b)
{
	return text_is(text_of_span(a->group), text_of_span(b->group)) &&
	       a->enqueued == b->enqueued && a->completed == b->completed &&
	       a->seq == b->seq && a->numel_in == b->numel_in &&
	       a->numel_out == b->numel_out &&
	       text_is(text_of_span(a->op), text_of_span(b->op));
}

static struct value number(int64_t number)
{
	return number == FSDP_ABSENT ? value_absent() : value_integer(number);
}

/* A row for all that are like the first and not taken yet; the longest wait is shown. */
static void row_watches(struct listing *listing, const struct fsdp_flight_watch *first,
	size_t left, int64_t *ranks, bool *taken)
{
	char list[160], failed[200] = "";
	int64_t longest = FSDP_ABSENT;
	size_t count = 0;

	for (size_t i = 0; i < left; i++) {
		if (taken[i] || !are_alike(first, &first[i]))
			continue;
		taken[i] = true;
		ranks[count++] = first[i].rank;
		longest = first[i].ran_ms > longest ? first[i].ran_ms : longest;
	}
	order_put_ranks(ranks, count, list, sizeof list);
	if (first->seq != FSDP_ABSENT || first->op.size != 0) {
		char number[32] = "";
		if (first->seq != FSDP_ABSENT)
			snprintf(number, sizeof number, "#%" PRId64 "%s", first->seq,
				first->op.size != 0 ? " " : "");
		int size = snprintf(failed, sizeof failed, "%s%.*s", number,
			(int)(first->op.size < 64 ? first->op.size : 64),
			first->op.size != 0 ? (const char *)first->op.data : "");
		if (longest != FSDP_ABSENT)
			snprintf(failed + size, sizeof failed - (size_t)size,
				" after %" PRId64 ".%01" PRId64 " s", longest / 1000,
				longest % 1000 / 100);
	}
	const struct value values[] = { value_text(text_of(list)),
		value_name(text_of_span(first->group)), number(first->enqueued),
		number(first->completed), value_text(text_of(failed)) };
	out_row(listing->run->out, values);
}

enum { MOST_ROWS = 32 };

bool order_show_watches(struct listing *listing, const struct fsdp_flight *says)
{
	const struct table table = { .key = "watchdog",
		.columns = WATCH_TABLE,
		.column_count = sizeof WATCH_TABLE / sizeof *WATCH_TABLE,
		.text_only = true,
		.indent = 2 };
	int64_t *ranks = calloc(says->watch_count + 1, sizeof *ranks);
	bool *taken = calloc(says->watch_count + 1, sizeof *taken);
	int64_t head = listing->options->head, rows = 0;
	struct out *out = listing->run->out;

	head = head >= 0 ? head : MOST_ROWS;
	bool good = ranks != NULL && taken != NULL;

	if (says->watch_count != 0 && good) {
		out_table_begin(out, &table);
		for (size_t i = 0; i < says->watch_count && rows <= head; i++) {
			if (!taken[i] && ++rows <= head)
				row_watches(listing, &says->watches[i],
					says->watch_count - i, ranks, &taken[i]);
		}
		out_table_end(out);
	}
	if (rows > head)
		out_line(out, "", "... and more: --json has all ranks");
	free(ranks);
	free(taken);
	return good;
}
