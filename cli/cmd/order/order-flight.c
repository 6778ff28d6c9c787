/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `order` says of dumps of the Flight Recorder: in which collective the ranks of a
 * job part, which ranks are the cause, and which ranks wait for them.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/order/order.h"
#include "render/writer.h"

/* The answer in hand. */
struct flight {
	struct listing *listing;
	const struct fsdp_flight *says;
};

/* Of logs, not of dumps. */
static bool is_log(const struct fsdp_flight *says)
{
	return says->watches != NULL;
}

/* ---- sentences ---- */

/* "rank 5", "ranks 4,6-7". */
struct rank_words {
	char text[200];
};

static const char *rank_words(
	const int64_t *ranks, size_t count, struct rank_words *words)
{
	char list[180];

	order_put_ranks(ranks, count, list, sizeof list);
	snprintf(words->text, sizeof words->text, "rank%s %s", count == 1 ? "" : "s",
		list);
	return words->text;
}

struct moment {
	char text[DATE_SIZE + 16];
};

/* The wall clock of the ranks, as a date in UTC, or as logs have it, which name no year;
 * NULL if it is absent. */
static const char *moment(int64_t ns, bool is_log, struct moment *moment)
{
	static const size_t year = sizeof "1970-" - 1;
	char date[DATE_SIZE];

	if (ns < 0)
		return NULL;
	date_format(date, ns / 1000000000, ' ');
	snprintf(moment->text, sizeof moment->text, "%s.%03d%s",
		is_log ? date + year : date, (int)(ns / 1000000 % 1000),
		is_log ? "" : " UTC");
	return moment->text;
}

/* Of the path the name of the file: "train.py:64 train_step". */
static void put_place(struct out *out, const struct fsdp_flight_place *place)
{
	struct text name = text_of_span(place->filename);

	if (name.data == NULL)
		return;
	for (size_t i = name.size; i > 0; i--)
		if (name.data[i - 1] == '/') {
			name = (struct text){ name.data + i, name.size - i };
			break;
		}
	out_line_text(out, ", ");
	out_line_name(out, name);
	if (place->line != FSDP_ABSENT)
		out_line_text(out, ":%" PRId64, place->line);
	out_line_text(out, " ");
	out_line_name(out, text_of_span(place->name));
}

static void put_sizes(
	struct out *out, const struct fsdp_flight_sizes *sizes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		out_line_text(out, "%s[", i == 0 ? " " : ", ");
		for (size_t j = 0; j < sizes[i].dim_count; j++)
			out_line_text(
				out, "%s%" PRId64, j == 0 ? "" : ", ", sizes[i].dims[j]);
		out_line_text(out, "]");
	}
}

static void put_dtypes(struct out *out, const struct fsdp_span *dtypes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		out_line_text(out, "%s", i == 0 ? " " : ", ");
		out_line_name(out, text_of_span(dtypes[i]));
	}
}

/* "all_reduce [10] Float" */
static void put_call(struct out *out, const struct fsdp_flight_call *call)
{
	out_line_name(out, text_of_span(call->op));
	put_sizes(out, call->input_sizes, call->input_size_count);
	put_dtypes(out, call->input_dtypes, call->input_dtype_count);
}

/* "#9 all_gather of mesh_dp_shard (ranks 4-7)" */
static void put_collective(struct out *out, const struct fsdp_flight *says)
{
	struct rank_words words;

	if (says->seq != FSDP_ABSENT)
		out_line_text(out, "#%" PRId64 " ", says->seq);
	if (says->op.data != NULL)
		out_line_name(out, text_of_span(says->op));
	else
		out_line_text(out, "collective");
	put_sizes(out, says->call.input_sizes, says->call.input_size_count);
	out_line_text(out, " of ");
	if (says->group.size != 0)
		out_line_name(out, text_of_span(says->group));
	else
		out_line_text(out, "a group without a name");
	if (says->member_count != 0)
		out_line_text(out, " (%s)",
			rank_words(says->members, says->member_count, &words));
}

/* "#9 all_gather of mesh_dp_shard", as far as these are known. */
static void put_place_in(
	struct out *out, int64_t seq, struct fsdp_span op, struct fsdp_span group)
{
	if (seq != FSDP_ABSENT)
		out_line_text(out, " #%" PRId64, seq);
	if (op.size != 0) {
		out_line_text(out, " ");
		out_line_name(out, text_of_span(op));
	}
	if (group.size != 0) {
		out_line_text(out, " of ");
		out_line_name(out, text_of_span(group));
	}
}

/* ---- what there is ---- */

enum { MOST_SHOWN = 8 };

/* Groups that are called alike, as meshes make them, are named once. */
static void put_groups(struct out *out, const struct fsdp_flight *says)
{
	size_t alike[MOST_SHOWN], first[MOST_SHOWN], shown = 0, j;
	bool more = false;

	for (size_t i = 0; i < says->group_count; i++) {
		for (j = 0; j < shown; j++)
			if (says->group_sizes[first[j]] == says->group_sizes[i] &&
				text_is(text_of_span(says->groups[first[j]]),
					text_of_span(says->groups[i])))
				break;
		if (j < shown) {
			alike[j]++;
		} else if (says->groups[i].size != 0 && shown == MOST_SHOWN) {
			more = true;
		} else if (says->groups[i].size != 0) {
			alike[shown] = 1;
			first[shown++] = i;
		}
	}
	for (j = 0; j < shown; j++) {
		size_t size = says->group_sizes[first[j]];
		out_line_text(out, "%s", j == 0 ? "; groups " : ", ");
		out_line_name(out, text_of_span(says->groups[first[j]]));
		/* A log does not contain the size of a group. */
		if (is_log(says))
			continue;
		if (alike[j] > 1)
			out_line_text(out, " (%zu groups of %zu ranks)", alike[j], size);
		else
			out_line_text(out, " (%zu rank%s)", size, size == 1 ? "" : "s");
	}
	if (more)
		out_line_text(out, ", and more");
}

static const struct fsdp_recording *first_dump(const struct listing *listing)
{
	for (size_t i = 0; i < listing->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(listing->recordings, i);
		if (one->flight != NULL)
			return one;
	}
	return NULL;
}

static size_t dump_count(const struct listing *listing)
{
	size_t count = 0;

	for (size_t i = 0; i < listing->count; i++)
		count += fsdp_recording(listing->recordings, i)->flight != NULL;
	return count;
}

static void line_logs(const struct flight *flight)
{
	struct out *out = flight->listing->run->out;

	out_line_begin(out, NULL);
	out_line_text(out, "%s from %zu rank%s",
		flight->says->watch_count != 0 ? "lines about failed collectives"
					       : "errors",
		flight->says->log_rank_count,
		flight->says->log_rank_count == 1 ? "" : "s");
	put_groups(out, flight->says);
	out_line_end(out);
}

static void line_dumps(const struct flight *flight)
{
	const struct fsdp_flight *says = flight->says;
	const struct fsdp_flight_dump *first = first_dump(flight->listing)->flight;
	struct out *out = flight->listing->run->out;
	size_t count = dump_count(flight->listing);

	out_line_begin(out, NULL);
	out_line_text(out, "%zu dump%s, recorder", count, count == 1 ? "" : "s");
	for (size_t i = 0; i < says->version_count; i++) {
		out_line_text(out, "%s", i == 0 ? " " : ", ");
		out_line_name(out, text_of_span(says->versions[i]));
	}
	if (first->library.data != NULL) {
		out_line_text(out, ", NCCL ");
		out_line_name(out, text_of_span(first->library));
	}
	put_groups(out, says);
	out_line_end(out);
}

/* ---- what is wrong ---- */

/* "rank 5 never entered" and the like, before the collective. */
static const char *verb_of(const char *problem, size_t ranks)
{
	static const struct {
		const char *problem, *verb, *of_several;
	} verbs[] = {
		{ "missing", "never entered" },
		{ "extra", "alone entered" },
		{ "cycle", "wait for each other, first in" },
		{ "status", "never entered" },
		{ "idle", "printed no timeout while others did, first in" },
		{ "parted", "failed where others of the group did not, in" },
		{ "exception", "failed" },
		{ "unheard", NULL },
		{ "op", "called another operation in" },
		{ "size", "used a different size in", "used different sizes in" },
		{ "dtype", "used a different dtype in", "used different dtypes in" },
	};

	for (size_t i = 0; problem != NULL && i < sizeof verbs / sizeof *verbs; i++)
		if (strcmp(verbs[i].problem, problem) == 0)
			return ranks > 1 && verbs[i].of_several != NULL
				       ? verbs[i].of_several
				       : verbs[i].verb;
	return NULL;
}

static void line_rest(struct out *out, const char *label, size_t count)
{
	if (count > MOST_SHOWN)
		out_line(out, label, "and %zu more rank%s: --json names all",
			count - MOST_SHOWN, count - MOST_SHOWN == 1 ? "" : "s");
}

/* The first of them, which is the collective of the answer, has its sizes and place. */
static void lines_causes(const struct flight *flight)
{
	const struct fsdp_flight *says = flight->says;
	struct out *out = flight->listing->run->out;
	struct rank_words words;

	for (size_t i = 0; i < says->cause_count && i < MOST_SHOWN; i++) {
		const struct fsdp_flight_cause *one = &says->causes[i];
		bool stopped = one->other != FSDP_ABSENT;

		rank_words(one->ranks, one->rank_count, &words);
		out_line_begin(out, NULL);
		out_line_text(out,
			stopped ? "the GPU of %s stopped in" : "%s never entered",
			words.text);
		if (i == 0 && !stopped) {
			out_line_text(out, " ");
			put_collective(out, says);
			put_place(out, &says->place);
		} else {
			put_place_in(out, one->seq, one->op, one->group);
		}
		if (stopped)
			out_line_text(
				out, ", which rank %" PRId64 " finished", one->other);
		out_line_end(out);
	}
	line_rest(out, NULL, says->cause_count);
}

static bool is_exception(const struct fsdp_flight *says)
{
	return says->problem != NULL && strcmp(says->problem, "exception") == 0;
}

/* What ended the culprits. */
static const char *exception_words(
	const struct fsdp_flight *says, char *text, size_t room)
{
	const char *head = "the watchdog of ", *tail = "is stuck";
	struct rank_words words;

	for (size_t i = 0; i < says->exception_count; i++)
		if (says->exceptions[i].is_own &&
			says->exceptions[i].rank == says->culprits[0]) {
			head = "";
			tail = says->watch_count != 0
				       ? "failed before the other ranks timed out"
			       : says->exception_count > 1 ? "failed first"
							   : "failed";
		}
	if (says->verdict == FSDP_FLIGHT_MISMATCH) {
		head = "";
		tail = "run their forwards in different orders";
	}
	snprintf(text, room, "%s%s %s", head,
		rank_words(says->culprits, says->culprit_count, &words), tail);
	return text;
}

static void line_cause(const struct flight *flight)
{
	const struct fsdp_flight *says = flight->says;
	const char *verb = verb_of(says->problem, says->culprit_count);
	struct out *out = flight->listing->run->out;
	struct rank_words words;
	char text[300];

	if (says->cause_count != 0) {
		lines_causes(flight);
		return;
	}
	if (verb == NULL || says->culprit_count == 0)
		return;
	if (is_exception(says)) {
		out_line(out, NULL, "%s", exception_words(says, text, sizeof text));
		return;
	}
	out_line_begin(out, NULL);
	out_line_text(out, "%s %s ",
		rank_words(says->culprits, says->culprit_count, &words), verb);
	put_collective(out, says);
	put_place(out, &says->place);
	out_line_end(out);
}

static void lines_exceptions(const struct flight *flight)
{
	const struct fsdp_flight *says = flight->says;
	struct out *out = flight->listing->run->out;
	struct moment at;

	for (size_t i = 0; i < says->exception_count && i < MOST_SHOWN; i++) {
		const struct fsdp_flight_exception *one = &says->exceptions[i];
		const char *time = moment(one->time_ns, true, &at);

		out_line_begin(out, i == 0 ? "error" : "");
		out_line_text(out, "rank %" PRId64 "%s%s: ", one->rank,
			time != NULL ? " at " : "", time != NULL ? time : "");
		out_line_name(out, text_of_span(one->text));
		out_line_end(out);
	}
	line_rest(out, "", says->exception_count);
}

static void line_entered(const struct flight *flight)
{
	const struct fsdp_flight *says = flight->says;
	struct out *out = flight->listing->run->out;
	struct rank_words words;
	struct moment since;
	const char *time = moment(says->since_ns, is_log(says), &since);

	if (says->verdict != FSDP_FLIGHT_STUCK || says->entered_count == 0 ||
		is_exception(says))
		return;
	bool parted = strcmp(says->problem, "parted") == 0;
	out_line(out, parted ? "completed" : "entered", "%s%s%s",
		rank_words(says->entered, says->entered_count, &words),
		time != NULL ? ", since " : "", time != NULL ? time : "");
}

/* Ranks that wait in another collective. */
static void line_waiting(const struct flight *flight)
{
	const struct fsdp_flight *says = flight->says;
	struct rank_words words;

	if (says->waiting_count != 0)
		out_line(flight->listing->run->out, "waiting", "%s, in other collectives",
			rank_words(says->waiting, says->waiting_count, &words));
}

static void lines_last(const struct flight *flight)
{
	const struct fsdp_flight *says = flight->says;
	struct out *out = flight->listing->run->out;

	for (size_t i = 0; i < says->last_count && i < MOST_SHOWN; i++) {
		const struct fsdp_flight_last *last = &says->last[i];
		out_line_begin(out, i == 0 ? "last" : "");
		out_line_text(out, "rank %" PRId64 " ", last->rank);
		if (last->op.data == NULL) {
			out_line_text(out, "has no entry");
		} else {
			out_line_text(out, "entered");
			put_place_in(out, last->seq, last->op, last->group);
			put_place(out, &last->place);
		}
		out_line_end(out);
	}
	line_rest(out, "", says->last_count);
}

static void lines_found(const struct flight *flight)
{
	const struct fsdp_flight *says = flight->says;
	struct out *out = flight->listing->run->out;

	if (says->has_expected) {
		out_line_begin(out, "expected");
		put_call(out, &says->expected);
		out_line_text(out, ", by most ranks");
		out_line_end(out);
	}
	for (size_t i = 0; i < says->found_count && i < MOST_SHOWN; i++) {
		out_line_begin(out, i == 0 ? "found" : "");
		put_call(out, &says->found[i].call);
		out_line_text(out, ", by rank %" PRId64, says->found[i].rank);
		out_line_end(out);
	}
	line_rest(out, "", says->found_count);
}

static void lines_lacking(const struct flight *flight)
{
	const struct fsdp_flight *says = flight->says;
	struct out *out = flight->listing->run->out;
	struct rank_words words;

	if (says->problem != NULL && strcmp(says->problem, "unheard") == 0) {
		out_line_begin(out, NULL);
		out_line_text(out,
			is_log(says)
				? "every rank with lines waits for ranks without, in "
				: "every rank with a dump waits for ranks without one, in ");
		put_collective(out, says);
		put_place(out, &says->place);
		out_line_end(out);
	}
	if (says->missing_dump_count != 0)
		out_line(out, is_log(says) ? "no lines" : "no dump", "%s",
			rank_words(
				says->missing_dumps, says->missing_dump_count, &words));
	if (says->unreadable_count != 0)
		out_line(out, "unreadable", "%s",
			rank_words(says->unreadable, says->unreadable_count, &words));
}

/* Of what one rank left nothing follows for the others. */
static bool is_alone(const struct flight *flight)
{
	const struct fsdp_flight *says = flight->says;

	if (!is_log(says))
		return dump_count(flight->listing) == 1;
	for (size_t i = 1; i < says->watch_count; i++)
		if (says->watches[i].rank != says->watches[0].rank)
			return false;
	return says->watch_count != 0;
}

static void line_alone(const struct flight *flight)
{
	const struct fsdp_flight *says = flight->says;
	struct out *out = flight->listing->run->out;

	if (is_log(says))
		out_line(out, NULL,
			"only rank %" PRId64
			" printed %s: nothing is known of the others",
			says->watches[0].rank,
			says->log_rank_count == 1 ? "such lines" : "where it waits");
	else
		out_line(out, NULL,
			"only the dump of rank %" PRId64
			" can be read: nothing is known of the others",
			first_dump(flight->listing)->rank);
}

/* The cause is not among them. */
static void line_all_wait(const struct flight *flight)
{
	const struct fsdp_flight *says = flight->says;
	struct out *out = flight->listing->run->out;
	const struct fsdp_span unnamed = { (const unsigned char *)"collective", 10 };
	struct moment since;
	const char *time = moment(says->since_ns, is_log(says), &since);

	out_line_begin(out, NULL);
	if (is_alone(flight))
		out_line_text(out, "rank %" PRId64 " waits in",
			first_dump(flight->listing)->rank);
	else
		out_line_text(out, "the ranks agree, and all of them wait in");
	put_place_in(out, says->common.seq,
		says->common.op.size != 0 ? says->common.op : unnamed,
		says->common.group);
	if (time != NULL)
		out_line_text(out, " since %s", time);
	put_place(out, &says->common.place);
	out_line_end(out);
}

static void line_agree(const struct flight *flight)
{
	const struct fsdp_flight *says = flight->says;
	struct out *out = flight->listing->run->out;

	if (says->all_wait)
		line_all_wait(flight);
	if (says->problem == NULL && is_alone(flight))
		line_alone(flight);
	else if (says->verdict == FSDP_FLIGHT_AGREE && says->problem == NULL &&
		 !says->all_wait)
		out_line(out, NULL, "the ranks agree: they entered the same collectives");
	else if (says->verdict == FSDP_FLIGHT_INCOMPLETE && says->problem == NULL)
		out_line(out, NULL,
			is_log(says)
				? "the ranks with lines agree: they entered the same collectives"
				: "the dumps that can be read agree: their ranks entered the same collectives");
	if (says->problem != NULL && strcmp(says->problem, "no_entries") == 0)
		out_line(out, NULL,
			"the dumps have no entries: TORCH_FR_BUFFER_SIZE=2000 records them");
}

static void line_next(const struct flight *flight)
{
	const struct fsdp_flight *says = flight->says;
	struct out *out = flight->listing->run->out;
	struct rank_words words;
	struct moment since;
	const char *time = moment(says->since_ns, is_log(says), &since);

	if (says->gpu_stopped_count != 0)
		out_line(out, "next",
			"check the GPU of %s: nvidia-smi, and Xid lines in dmesg",
			rank_words(says->gpu_stopped, says->gpu_stopped_count, &words));
	if (says->verdict == FSDP_FLIGHT_STUCK)
		out_line(out, says->gpu_stopped_count != 0 ? "" : "next",
			"the stack of %s (py-spy dump), or the log%s%s",
			rank_words(says->culprits, says->culprit_count, &words),
			time != NULL ? " from " : "", time != NULL ? time : "");
	else if (says->verdict == FSDP_FLIGHT_MISMATCH)
		out_line(out, "next", "check the call on %s",
			rank_words(says->culprits, says->culprit_count, &words));
	else if (((is_log(says) && says->verdict == FSDP_FLIGHT_AGREE) ||
			 says->all_wait) &&
		 !is_alone(flight))
		out_line(out, "next",
			"look for the cause below PyTorch: NCCL_DEBUG=INFO, and the network between the hosts");
	else if (is_log(says) && says->verdict == FSDP_FLIGHT_INCOMPLETE)
		out_line(out, "next", "get the logs of the other ranks and run it again");
	else if (says->missing_dump_count + says->unreadable_count != 0)
		out_line(out, "next", "get the dumps of these ranks and run it again");
}

/* ---- ranks in logs ---- */

#define WATCH struct fsdp_flight_watch
static const struct record watch_record = OBJECT_RECORD(WATCH, "watchdog_rank",
	"Lines of a log about one rank in one process group.",
	{ "rank", INTEGER_AT(WATCH, rank), ALWAYS("The rank.") },
	{ "group", TEXT_AT(WATCH, group),
		ALWAYS("The process group; empty where the lines name none.") },
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

static struct value number_value(int64_t number)
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
		value_name(text_of_span(first->group)), number_value(first->enqueued),
		number_value(first->completed), value_text(text_of(failed)) };
	out_row(listing->run->out, values);
}

enum { MOST_ROWS = 32 };

static bool show_watches(struct listing *listing, const struct fsdp_flight *says)
{
	static const struct table table = TEXT_TABLE("watchdog", WATCH_TABLE);
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

bool order_show_flight(struct listing *listing)
{
	const struct flight flight = { listing,
		fsdp_recordings_flight(listing->recordings) };

	if (is_log(flight.says))
		line_logs(&flight);
	else
		line_dumps(&flight);
	line_cause(&flight);
	lines_exceptions(&flight);
	line_entered(&flight);
	lines_found(&flight);
	lines_last(&flight);
	line_waiting(&flight);
	line_agree(&flight);
	lines_lacking(&flight);
	bool good = show_watches(listing, flight.says);
	line_next(&flight);
	return good;
}

/* ---- findings and status ---- */

static void find_cause(struct listing *listing, const struct fsdp_flight *says)
{
	bool differ = says->verdict == FSDP_FLIGHT_MISMATCH;
	struct rank_words words;
	char number[32] = "", op[80] = "", text[300];

	for (size_t i = 0; i < says->cause_count; i++) {
		const struct fsdp_flight_cause *one = &says->causes[i];
		char other[64] = "";

		if (one->other != FSDP_ABSENT)
			snprintf(other, sizeof other,
				": its GPU stopped, rank %" PRId64 " finished it",
				one->other);
		run_finding(listing->run, "FI7040", "%s %s #%" PRId64 " %.*s of %.*s%s",
			rank_words(one->ranks, one->rank_count, &words),
			one->other != FSDP_ABSENT ? "never finished" : "never entered",
			one->seq, (int)(one->op.size < 64 ? one->op.size : 64),
			(const char *)one->op.data,
			(int)(one->group.size < 200 ? one->group.size : 200),
			(const char *)one->group.data, other);
	}
	if (says->cause_count != 0)
		return;
	if (is_exception(says)) {
		run_finding(listing->run, differ ? "FI7041" : "FI7040", "%s",
			exception_words(says, text, sizeof text));
		return;
	}
	if (says->seq != FSDP_ABSENT)
		snprintf(number, sizeof number, " #%" PRId64, says->seq);
	if (says->op.data != NULL)
		snprintf(op, sizeof op, " %.*s",
			(int)(says->op.size < 64 ? says->op.size : 64),
			(const char *)says->op.data);
	run_finding(listing->run, differ ? "FI7041" : "FI7040", "%s %s%s%s%s%.*s",
		rank_words(says->culprits, says->culprit_count, &words),
		verb_of(says->problem, says->culprit_count), number, op,
		says->group.size != 0 ? " of " : "",
		(int)(says->group.size < 200 ? says->group.size : 200),
		(const char *)says->group.data);
}

static void find_lacking(struct listing *listing, const struct fsdp_flight *says)
{
	struct rank_words words;

	if (says->missing_dump_count != 0)
		run_finding(listing->run, "FI7042", "%s %s",
			rank_words(says->missing_dumps, says->missing_dump_count, &words),
			is_log(says) ? "printed nothing of a failed collective"
				     : "left no dump");
	if (says->unreadable_count != 0)
		run_finding(listing->run, "FI7042", "the dump of %s cannot be read",
			rank_words(says->unreadable, says->unreadable_count, &words));
}

int order_judge_flight(struct listing *listing)
{
	const struct fsdp_flight *says = fsdp_recordings_flight(listing->recordings);
	int status;

	if (says->verdict == FSDP_FLIGHT_STUCK || says->verdict == FSDP_FLIGHT_MISMATCH)
		find_cause(listing, says);
	find_lacking(listing, says);
	status = says->verdict == FSDP_FLIGHT_INCOMPLETE ? STATUS_PARTIAL : STATUS_GOOD;
	for (size_t i = 0; i < listing->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(listing->recordings, i);
		if (one->truncated)
			status = STATUS_PARTIAL;
		if (one->flight == NULL && !is_log(says))
			run_note(listing->run,
				"skipped %s: dumps of the Flight Recorder contain more than a log",
				one->path);
	}
	if (says->version_count > 1)
		run_note(listing->run, "the dumps are of %zu versions of the recorder",
			says->version_count);
	if (says->verdict == FSDP_FLIGHT_STUCK || says->verdict == FSDP_FLIGHT_MISMATCH)
		return STATUS_BAD;
	return status;
}

/* ---- data ---- */

#define SIZES struct fsdp_flight_sizes
static const struct record sizes_record = RECORD_OF(
	RECORD_PLAIN, SIZES, { NULL, LIST_AT(SIZES, dims, dim_count, record_integers) });

#define CALL struct fsdp_flight_call
static const struct record call_record = OBJECT_RECORD(CALL, "flight_call",
	"What a rank called.",
	{ "op", TEXT_AT(CALL, op), ALWAYS("The operation, as the dump has it.") },
	{ "input_sizes", LIST_AT(CALL, input_sizes, input_size_count, sizes_record),
		ALWAYS("Sizes of each input.") },
	{ "output_sizes", LIST_AT(CALL, output_sizes, output_size_count, sizes_record),
		ALWAYS("Sizes of each output.") },
	{ "input_dtypes", LIST_AT(CALL, input_dtypes, input_dtype_count, record_texts),
		ALWAYS("Dtype of each input.") },
	{ "output_dtypes", LIST_AT(CALL, output_dtypes, output_dtype_count, record_texts),
		ALWAYS("Dtype of each output.") });

/* A culprit's call, by its rank. */
struct found_call {
	char rank[24];
	struct fsdp_flight_call call;
};

static const void *each_found(struct subject of, size_t i, void *room)
{
	const struct fsdp_flight *says = of.object;
	struct found_call *found = room;

	if (i == says->found_count)
		return NULL;
	snprintf(found->rank, sizeof found->rank, "%" PRId64, says->found[i].rank);
	found->call = says->found[i].call;
	return found;
}

static struct value get_found_rank(struct subject of)
{
	return value_word(((const struct found_call *)of.object)->rank);
}

static const struct record found_record = RECORD_OF(RECORD_OBJECT, struct found_call,
	{ NULL, GET(FIELD_WORD, get_found_rank) },
	{ NULL, OBJECT_AT(struct found_call, call, call_record) });

_Static_assert(sizeof(struct found_call) <= RECORD_ROOM, "room for one");

/* One dump, and what its rank has to do with it. */
struct dump {
	int64_t rank;
	struct fsdp_flight_dump says;
	const char *part;
};

static bool is_among(const int64_t *ranks, size_t count, int64_t rank)
{
	for (size_t i = 0; i < count; i++)
		if (ranks[i] == rank)
			return true;
	return false;
}

static const char *part_of(const struct fsdp_flight *says, int64_t rank)
{
	return is_among(says->culprits, says->culprit_count, rank)  ? "culprit"
	       : is_among(says->entered, says->entered_count, rank) ? "entered"
	       : is_among(says->missing, says->missing_count, rank) ? "missing"
	       : is_among(says->waiting, says->waiting_count, rank) ? "waiting"
								    : "other";
}

static const struct fsdp_recording *nth_dump(const struct listing *listing, size_t nth)
{
	for (size_t i = 0; i < listing->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(listing->recordings,
			fsdp_recording_by_rank(listing->recordings, i));
		if (one->flight != NULL && nth-- == 0)
			return one;
	}
	return NULL;
}

static const void *each_dump(struct subject of, size_t i, void *room)
{
	const struct order_data *data = of.context;
	const struct listing *listing = data->listing;
	struct dump *dump = room;
	const struct fsdp_recording *one;

	one = nth_dump(listing, i);
	if (one == NULL)
		return NULL;
	*dump = (struct dump){ one->rank, *one->flight,
		part_of(fsdp_recordings_flight(listing->recordings), one->rank) };
	return dump;
}

#define DUMP struct dump
static const struct record dump_record = OBJECT_RECORD(DUMP, "flight_dump", "One dump.",
	{ "rank", INTEGER_AT(DUMP, rank), ALWAYS("The rank.") },
	{ "entries", COUNT_AT(DUMP, says.entries), ALWAYS("Number of its entries.") },
	{ "first_record", INTEGER_AT(DUMP, says.first_record), .null = true,
		.about =
			"Number of the first entry; above 0 where older ones were dropped." },
	{ "version", TEXT_AT(DUMP, says.version), ALWAYS("Version of the recorder.") },
	{ "part", WORD_AT(DUMP, part),
		WORDS("culprit", "entered", "missing", "waiting", "other"),
		ALWAYS("What the rank has to do with the collective.") });

_Static_assert(sizeof(struct dump) <= RECORD_ROOM, "room for one");

static bool is_mismatch(struct subject of)
{
	return ((const struct fsdp_flight *)of.object)->verdict == FSDP_FLIGHT_MISMATCH;
}

static bool has_expected(struct subject of)
{
	return ((const struct fsdp_flight *)of.object)->has_expected;
}

static bool is_of_logs(struct subject of)
{
	return is_log(of.object);
}

#define FLIGHT struct fsdp_flight
/* Of a mismatch only, where it is null if no majority agrees. */
static const struct record expected_record = RECORD_OF(RECORD_OBJECT, FLIGHT,
	{ "expected", OBJECT_AT(FLIGHT, expected, call_record), .has = has_expected,
		.null = true,
		.about = "What most ranks called; null when no majority agrees." },
	{ "found", MAP_EACH(each_found, found_record),
		.about = "By rank, what each culprit called." });

static bool all_wait(struct subject of)
{
	return ((const FLIGHT *)of.object)->all_wait;
}

#define LAST struct fsdp_flight_last
static const struct record common_record = OBJECT_RECORD(LAST, "common_wait",
	"The collective in which all ranks wait.",
	{ "group", TEXT_AT(LAST, group),
		ALWAYS("Its process group: the description, or the name.") },
	{ "seq", INTEGER_AT(LAST, seq), ALWAYS("Its number in that group.") },
	{ "op", TEXT_AT(LAST, op), ALWAYS("The operation, without its variant.") });

#define EXCEPTION struct fsdp_flight_exception
static const struct record exception_record =
	OBJECT_RECORD(EXCEPTION, "log_exception", "An error of one rank in a log.",
		{ "rank", INTEGER_AT(EXCEPTION, rank), ALWAYS("The rank.") },
		{ "text", TEXT_AT(EXCEPTION, text), ALWAYS("What it printed.") });

const struct record order_flight_record = OBJECT_RECORD(FLIGHT, "collectives",
	"What dumps of the Flight Recorder say together.",
	{ "verdict", ENUM_AT(FLIGHT, verdict, fsdp_flight_verdict_name),
		WORDS("agree", "stuck", "mismatch", "incomplete"),
		ALWAYS("Whether the ranks of the job agree.") },
	{ "problem", WORD_AT(FLIGHT, problem), .null = true,
		WORDS("missing", "extra", "cycle", "status", "idle", "unheard",
			"no_entries", "op", "size", "dtype", "parted", "gpu_stopped",
			"exception"),
		.about = "What is wrong; null for nothing." },
	{ "culprits", LIST_AT(FLIGHT, culprits, culprit_count, record_integers),
		ALWAYS("Ranks that are the cause.") },
	{ "gpu_stopped", LIST_AT(FLIGHT, gpu_stopped, gpu_stopped_count, record_integers),
		ALWAYS("Culprits with an unfinished collective that another rank of the group finished.") },
	{ "group", TEXT_AT(FLIGHT, group), .null = true,
		.about =
			"Process group of the collective: its description, or its name." },
	{ "group_name", TEXT_AT(FLIGHT, group_name), .null = true, .about = "Its name." },
	{ "seq", INTEGER_AT(FLIGHT, seq), .null = true,
		.about =
			"Number of the collective in that group; of a send or receive its own." },
	{ "op", TEXT_AT(FLIGHT, op), .null = true,
		.about = "The operation, without its variant." },
	{ "entered", LIST_AT(FLIGHT, entered, entered_count, record_integers),
		ALWAYS("Ranks that entered it.") },
	{ "missing", LIST_AT(FLIGHT, missing, missing_count, record_integers),
		ALWAYS("Ranks of the group that did not.") },
	{ NULL, FIELDS(expected_record), .has = is_mismatch },
	{ "all_wait_in", OBJECT_AT(FLIGHT, common, common_record), .has = all_wait,
		.about =
			"Where ranks agree: the collective that each of them entered last and none left." },
	{ "missing_dumps",
		LIST_AT(FLIGHT, missing_dumps, missing_dump_count, record_integers),
		ALWAYS("Ranks of the job that left no dump.") },
	{ "unreadable", LIST_AT(FLIGHT, unreadable, unreadable_count, record_integers),
		ALWAYS("Ranks whose dump cannot be read.") },
	{ "versions", LIST_AT(FLIGHT, versions, version_count, record_texts),
		ALWAYS("Versions of the recorder.") },
	{ "dumps", EACH(each_dump, dump_record),
		ALWAYS("The dumps, by rank; none if these are logs.") },
	{ "exceptions", LIST_AT(FLIGHT, exceptions, exception_count, exception_record),
		.has = is_of_logs,
		.about =
			"Of logs: errors of ranks other than timeouts, the earliest first." },
	{ "watchdog", LIST_AT(FLIGHT, watches, watch_count, watch_record),
		.has = is_of_logs,
		.about = "Of logs: the lines of each rank in each group, summarized." });

void order_put_dumps(struct listing *listing, struct subject subject)
{
	static const struct table dumps = {
		.key = "dumps", .main = true, .rows_only = true
	};
	static const struct table watches = {
		.key = "watchdog", .main = true, .rows_only = true
	};
	const struct fsdp_flight *says = fsdp_recordings_flight(listing->recordings);
	struct record_table table;
	struct out *out = listing->run->out;
	struct dump room;
	const void *row;

	record_table_init(&table, is_log(says) ? &watches : &dumps,
		is_log(says) ? &watch_record : &dump_record, NULL);
	out_records_begin(out, &table);
	for (size_t i = 0; i < says->watch_count; i++)
		out_records_row(out, &table, &says->watches[i]);
	for (size_t i = 0; (row = each_dump(subject, i, &room)) != NULL; i++)
		out_records_row(out, &table, row);
	out_table_end(out);
}
