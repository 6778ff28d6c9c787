/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `order` on Flight Recorder dumps and on logs of failed collectives: the collective in
 * which ranks diverge, the ranks that cause it, and the ranks that wait.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "commands/order-answer.h"
#include "shared/recordings.h"
#include "session/diagnostics.h"

enum { MOST_SHOWN = 8, MOMENT_ROOM = DATE_SIZE + 16 };

/* The answer in hand. */
struct flight {
	struct orders *order;
	struct out *out;
	const struct fsdp_flight *joined;
	struct writer *words; /* of the sentence in hand */
	bool is_log;          /* these are logs, not dumps */
	bool is_alone;        /* of what one rank left nothing follows for the others */
	bool has_timeout; /* some error in logs is one, and no rank failed by itself */
	const struct fsdp_recording *first; /* of the dumps */
	const char *since;                  /* of the collective; NULL: not known */
	/* For elements that are alike: their ranks, and which were shown. */
	int64_t *ranks;
	bool *taken;
};

static bool is_log(const struct fsdp_flight *joined)
{
	return joined->watches != NULL;
}

/* Whether ranks are named as the cause, which is a finding. */
static bool has_cause(const struct fsdp_flight *joined)
{
	return joined->verdict == FSDP_FLIGHT_STUCK ||
	       joined->verdict == FSDP_FLIGHT_MISMATCH;
}

static const char *rule_of(const struct fsdp_flight *joined)
{
	return joined->verdict == FSDP_FLIGHT_MISMATCH ? "FI7041" : "FI7040";
}

static bool problem_is(const struct fsdp_flight *joined, const char *problem)
{
	return joined->problem != NULL && strcmp(joined->problem, problem) == 0;
}

static bool same(struct fsdp_span a, struct fsdp_span b)
{
	return text_is(text_of_span(a), text_of_span(b));
}

static bool is(struct fsdp_span a, const char *word)
{
	return text_is(text_of_span(a), text_of(word));
}

/* ---- words ---- */

/* "rank 5", "ranks 4,6-7". */
struct rank_words {
	char text[200];
};

static const char *rank_words(struct fsdp_ranks ranks, struct rank_words *words)
{
	char list[112];

	order_put_ranks(ranks.list, ranks.count, list, sizeof list);
	snprintf(words->text, sizeof words->text, "rank%s %s",
		ranks.count == 1 ? "" : "s", list);
	return words->text;
}

#define WORDS_OF(ranks) rank_words((ranks), &(struct rank_words){ { 0 } })
#define RANKS(ranks) value_word(WORDS_OF(ranks))

static struct value number(int64_t number)
{
	return number == FSDP_ABSENT ? value_absent() : value_integer(number);
}

static struct value name(struct fsdp_span name)
{
	return name.size == 0 ? value_absent() : value_name(text_of_span(name));
}

/* The wall clock of the ranks, as a date in UTC, or as logs have it, which name no year.
 * NULL: not known. */
static const char *format_moment(int64_t ns, bool is_log, char text[MOMENT_ROOM])
{
	static const char months[][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul",
		"Aug", "Sep", "Oct", "Nov", "Dec" };
	const int millis = (int)(ns / 1000000 % 1000);
	char date[DATE_SIZE];

	if (ns < 0)
		return NULL;
	date_format(date, ns / 1000000000, ' ');
	/* A log has no year, and 12-06 may be in June. */
	if (is_log)
		snprintf(text, MOMENT_ROOM, "%s %s.%03d",
			months[(date[5] - '0') * 10 + date[6] - '0' - 1], date + 8,
			millis);
	else
		snprintf(text, MOMENT_ROOM, "%s.%03d UTC", date, millis);
	return text;
}

/* The sentence that was put together. */
static struct value words_of(const struct flight *flight)
{
	return value_text((struct text){ flight->words->data, flight->words->size });
}

/* A name, after these words; nothing if it is empty. */
static void append_name(struct writer *to, const char *before, struct fsdp_span name)
{
	if (name.size == 0)
		return;
	writer_text(to, before);
	writer_put(to, (const char *)name.data, name.size);
}

static void append_number(struct writer *to, const char *before, int64_t number)
{
	if (number == FSDP_ABSENT)
		return;
	writer_text(to, before);
	writer_integer(to, number);
}

/* ", called at train.py:64 train_step", without the directory of the file. */
static void append_place(
	struct writer *to, const char *called, const struct fsdp_flight_place *place)
{
	struct text file = text_of_span(place->filename);
	const char *slash = file.size != 0 ? memrchr(file.data, '/', file.size) : NULL;

	if (file.data == NULL)
		return;
	if (slash != NULL)
		file = (struct text){ slash + 1,
			file.size - (size_t)(slash + 1 - file.data) };
	writer_text(to, called);
	writer_put(to, file.data, file.size);
	append_number(to, ":", place->line);
	writer_text(to, " ");
	append_name(to, "", place->name);
}

static void print_place(
	const struct flight *flight, const struct fsdp_flight_place *place)
{
	flight->words->size = 0;
	append_place(flight->words, ", called at ", place);
	out_line_value(flight->out, words_of(flight));
}

/* " (input [10])" or, with types, " (input [10] Float)"; nothing if neither is known. A
 * recv has outputs alone. */
static void append_inputs(
	struct writer *to, const struct fsdp_flight_call *call, bool with_types)
{
	bool is_recv = is(call->op, "recv");
	const char *before = is_recv ? " (output" : " (input";
	const struct fsdp_flight_sizes *sizes =
		is_recv ? call->output_sizes : call->input_sizes;
	const struct fsdp_span *types =
		is_recv ? call->output_dtypes : call->input_dtypes;
	size_t count = is_recv ? call->output_size_count : call->input_size_count;
	size_t type_count = is_recv ? call->output_dtype_count : call->input_dtype_count;

	for (size_t i = 0; i < count; i++) {
		writer_text(to, i == 0 ? before : ",");
		writer_text(to, " [");
		for (size_t j = 0; j < sizes[i].dim_count; j++)
			append_number(to, j == 0 ? "" : ", ", sizes[i].dims[j]);
		writer_text(to, "]");
	}
	if (!with_types)
		type_count = 0;
	for (size_t i = 0; i < type_count; i++) {
		writer_text(to, i > 0 ? "," : count == 0 ? before : "");
		append_name(to, " ", types[i]);
	}
	writer_text(to, count + type_count > 0 ? ")" : "");
}

/* " #9 all_gather (input [10]) of mesh_dp_shard (ranks 4-7), train.py:64 train_step", as
 * far as these are known. Only the collective of the answer, the first, has sizes, ranks
 * and place. */
static void append_collective(struct writer *to, const struct fsdp_flight *joined,
	const struct fsdp_flight_cause *one, bool is_first)
{
	/* Without a majority no call is that of the collective. */
	bool is_open = problem_is(joined, "op") && !joined->has_expected;

	append_number(to, " #", one->seq);
	if (is_open || (is_first && one->op.size == 0))
		writer_text(to, " collective");
	else
		append_name(to, " ", one->op);
	if (is_first && !is_open)
		append_inputs(to, &joined->call, false);
	append_name(to, " of ", one->group);
	if (!is_first)
		return;
	writer_text(to, one->group.size == 0 ? " of a group without a name" : "");
	if (joined->members.count != 0) {
		writer_text(to, " (");
		writer_text(to, WORDS_OF(joined->members));
		writer_text(to, ")");
	}
	if (!is_open)
		append_place(to,
			joined->culprits.count > 0 ? ", called by the others at "
						   : ", called at ",
			&joined->place);
}

/* ---- what there is ---- */

static bool same_group(const struct fsdp_flight *joined, size_t a, size_t b)
{
	return joined->group_sizes[a] == joined->group_sizes[b] &&
	       same(joined->groups[a], joined->groups[b]);
}

static void line_inputs(const struct flight *flight)
{
	enum { MOST_GROUPS = 3 };
	const struct fsdp_flight *joined = flight->joined;
	struct out *out = flight->out;
	size_t shown = 0, more = 0, first;

	out_line_begin(out, NULL);
	if (flight->is_log)
		out_values(out, "logs of {} rank{s} about {}",
			value_count(joined->log_rank_count),
			value_word(joined->watch_count != 0 || joined->has_two_jobs
					   ? "failed collectives"
					   : "errors"));
	else
		out_values(out, "{} dump{s} of the Flight Recorder, format",
			value_count(flight->order->dump_count));
	for (size_t i = 0; i < joined->version_count && !flight->is_log; i++)
		out_values(out, "{}{}", value_word(i == 0 ? " " : ", "),
			value_name(text_of_span(joined->versions[i])));
	if (!flight->is_log)
		out_values(out, "[, NCCL {}]",
			value_name(text_of_span(flight->first->flight->library)));
	/* Groups that are called alike, as meshes make them, are named once. A log does
	 * not contain the size of a group. */
	for (size_t i = 0; i < joined->group_count; i++) {
		size_t alike = 0;

		for (first = 0; first < i && !same_group(joined, first, i);)
			first++;
		if (first < i || joined->groups[i].size == 0)
			continue;
		for (size_t k = i; k < joined->group_count; k++)
			alike += same_group(joined, k, i);
		if (shown++ >= MOST_GROUPS) {
			more += alike;
			continue;
		}
		out_values(out, "{}{}[ ({} groups of {} ranks)][ ({} rank{s})]",
			value_word(shown == 1 ? "; process groups: " : ", "),
			name(joined->groups[i]),
			flight->is_log || alike == 1 ? value_absent()
						     : value_count(alike),
			value_count(joined->group_sizes[i]),
			flight->is_log || alike != 1
				? value_absent()
				: value_count(joined->group_sizes[i]));
	}
	out_values(out, "[, and {} more]", value_some(more));
	out_line_end(out);
}

/* ---- what is wrong ---- */

/* What culprits did, and what to do about it, with the culprits between. */
struct conclusion {
	const char *problem, *verb;
	const char *without_expected; /* the verb where no rank is the one that differs */
	const char *of;               /* before the culprits */
	bool is_error;                /* no collective follows */
	const char *fix, *after;      /* fix NULL: that of the last row */
};

/* The last row stands for all others: what ranks that never came did instead is not in
 * the recordings. */
static const struct conclusion conclusions[] = {
	{ "extra", "alone entered", .fix = "find the condition under which only ",
		.after =
			" came here, or what keeps the others: all ranks of the group must make this call" },
	{ "cycle", "wait for each other, first in",
		.fix = "make these calls in the same order on ", .after = "" },
	{ "idle", "printed no timeout while others did, first in" },
	{ "op", "called another operation instead of", "called different operations in",
		.fix = "compare the calls before this one on all ranks: a rank skipped one, or it differs" },
	{ "size", "used a different size than other ranks in", "used different sizes in",
		.fix = "compare the calls before this one on all ranks: a rank skipped one, or the data differ in size" },
	{ "bytes",
		.fix = "compare the calls before this one on all ranks: a rank skipped one, or the data differ in size or dtype" },
	{ "dtype", "used a different dtype than other ranks in",
		"used different dtypes in",
		.fix = "cast the input of this call to one dtype on all ranks" },
	{ "parted", "did not finish, unlike other ranks,", .fix = "compare the calls of ",
		.after =
			" before this one with those of the others; if they are equal, check GPUs and network" },
	{ "stopped", "stopped in", .of = "the GPU of ", .fix = "check the GPU of ",
		.after = ": nvidia-smi, and Xid lines in dmesg" },
	{ "orders", "run their forwards in different orders", .is_error = true,
		.fix = "run the units of FSDP in the same order on ", .after = "" },
	{ "hangs", "is stuck", .of = "the watchdog of ", .is_error = true },
	{ "failed", "failed", .is_error = true, .fix = "correct this error of ",
		.after = " first: errors and timeouts of other ranks follow it" },
	{ NULL, "never entered", .fix = "read the log of ",
		.after = "; if it still runs, print its stack: py-spy dump --pid PID" },
};
enum { REST = sizeof conclusions / sizeof *conclusions - 1 };

static const struct conclusion *conclusion_of(
	const struct fsdp_flight *joined, const struct fsdp_flight_cause *one)
{
	const char *problem = joined->problem;
	bool failed = false;
	size_t i = 0;

	for (size_t k = 0; k < joined->exception_count && one->ranks.count != 0; k++)
		failed |= joined->exceptions[k].is_own &&
			  joined->exceptions[k].rank == one->ranks.list[0];
	if (one->other != FSDP_ABSENT)
		problem = "stopped";
	else if (one->ranks.count == 0)
		problem = "bytes";
	else if (problem_is(joined, "exception"))
		problem = joined->verdict == FSDP_FLIGHT_MISMATCH ? "orders"
			  : failed                                ? "failed"
								  : "hangs";
	while (i < REST && strcmp(conclusions[i].problem, problem) != 0)
		i++;
	return &conclusions[i];
}

/* A cause by its index; without causes what the culprits did in the collective of the
 * answer is the only one. False: past the last. */
static bool cause_at(
	const struct fsdp_flight *joined, size_t i, struct fsdp_flight_cause *ret_one)
{
	*ret_one = (struct fsdp_flight_cause){ joined->culprits, FSDP_ABSENT, joined->seq,
		joined->op, joined->group };
	if (i < joined->cause_count)
		*ret_one = joined->causes[i];
	return i < joined->cause_count || i == 0;
}

/* The sentence of a cause. */
static void append_cause(struct writer *to, const struct fsdp_flight *joined,
	const struct fsdp_flight_cause *one, bool is_first)
{
	const struct conclusion *conclusion = conclusion_of(joined, one);
	bool stopped = one->other != FSDP_ABSENT;
	const char *verb = conclusion->verb, *tail = "";

	to->size = 0;
	if (one->ranks.count == 0) {
		/* Gloo names no rank, and compares bytes. */
		writer_text(to, "ranks used different sizes or dtypes in one call");
		return;
	}
	if (!joined->has_expected && conclusion->without_expected != NULL)
		verb = conclusion->without_expected;
	else if (is_log(joined) && problem_is(joined, "parted"))
		verb = "failed where others of the group did not, in";
	/* Of a send the partner lacks the recv, and the reverse. */
	if (conclusion->problem == NULL && is(one->op, "send"))
		tail = " the recv of";
	else if (conclusion->problem == NULL && is(one->op, "recv"))
		tail = " the send of";
	else if (strcmp(verb, "failed") == 0)
		tail = joined->watch_count != 0      ? " before the other ranks timed out"
		       : one->ranks.count > 1        ? " at the same time"
		       : joined->exception_count > 1 ? " first"
						     : "";
	writer_text(to, conclusion->of != NULL ? conclusion->of : "");
	writer_text(to, WORDS_OF(one->ranks));
	writer_text(to, " ");
	writer_text(to, verb);
	writer_text(to, tail);
	if (!conclusion->is_error)
		append_collective(to, joined, one, is_first && !stopped);
	append_number(to, ", which rank ", one->other);
	writer_text(to, stopped ? " finished" : "");
}

static void line_rest(struct out *out, const char *label, size_t count)
{
	if (count > MOST_SHOWN)
		out_values_line(out, label, "and {} more rank{s}: --json names all",
			value_count(count - MOST_SHOWN));
}

/* The causes and, after all else, what to do about them; stderr repeats no finding. */
static void lines_findings(const struct flight *flight, bool fixes)
{
	struct collected *collected = flight->order->run->collected;
	struct out *out = flight->out;
	struct text last = { NULL, 0 };
	size_t nth = 0;

	for (size_t i = flight->order->run->first.finding; i < collected->finding_count;
		i++) {
		struct finding *finding = &collected->findings[i];

		if (strcmp(finding->rule, rule_of(flight->joined)) != 0)
			continue;
		finding->is_printed = !answer_is_machine(flight->order->run);
		if (nth++ >= MOST_SHOWN)
			continue;
		if (!fixes) {
			out_line_begin(out, NULL);
			out_line_painted(out, "error");
			out_values(out, ": {} {[}{} {}{]}", value_text(finding->message),
				value_word(finding->rule), value_word(finding->slug));
			out_line_end(out);
		} else if (finding->fix.size != 0 && !text_is(finding->fix, last)) {
			out_values_line(out, "fix", "{}", value_text(finding->fix));
		}
		last = finding->fix;
	}
	if (!fixes)
		line_rest(out, NULL, nth);
}

/* What the culprits called in place of what most did, and what they entered last. */
static void lines_culprits(const struct flight *flight)
{
	const struct fsdp_flight *joined = flight->joined;
	struct out *out = flight->out;
	bool waits = problem_is(joined, "cycle") && !is_log(joined);

	for (size_t i = joined->has_expected ? 0 : 1;
		i <= joined->found_count && i <= MOST_SHOWN; i++) {
		const struct fsdp_flight_call *call =
			i == 0 ? &joined->expected : &joined->found[i - 1].call;

		flight->words->size = 0;
		writer_put(flight->words, (const char *)call->op.data, call->op.size);
		append_inputs(flight->words, call, true);
		out_line_begin(out, i == 0 ? "expected" : i == 1 ? "found" : "");
		out_values(out, "{}", words_of(flight));
		if (i == 0)
			out_line_text(out, " (most ranks)");
		else
			out_values(out, " (rank {})", number(joined->found[i - 1].rank));
		out_line_end(out);
	}
	line_rest(out, "", joined->found_count);
	for (size_t i = 0; i < joined->last_count && i < MOST_SHOWN; i++) {
		const struct fsdp_last_call *last = &joined->last[i];

		out_line_begin(out, i > 0 ? "" : waits ? "waits in" : "last call");
		out_values(out,
			last->op.data == NULL ? "rank {} has no call in its dump"
			: waits               ? "rank {}:[ #{}][ {}][ of {}]"
					      : "rank {} entered[ #{}][ {}][ of {}]",
			number(last->rank), number(last->seq), name(last->op),
			name(last->group));
		if (last->op.data != NULL)
			print_place(flight, &last->place);
		out_line_end(out);
	}
	line_rest(out, "", joined->last_count);
}

static void line_ranks(const struct flight *flight, const char *label, const char *format,
	struct fsdp_ranks ranks)
{
	if (ranks.count != 0)
		out_values_line(flight->out, label, format, RANKS(ranks));
}

/* How far the ranks of logs without a cause can be compared. */
static void line_compared(const struct flight *flight)
{
	const struct fsdp_flight *joined = flight->joined;
	const struct fsdp_watchdog_status *watches = joined->watches, *waits = NULL;
	bool several = false;

	for (size_t i = 0; i < joined->watch_count; i++) {
		if (watches[i].seq == FSDP_ABSENT && watches[i].op.size == 0)
			continue;
		several |= waits != NULL && waits->rank != watches[i].rank;
		waits = &watches[i];
	}
	if (waits == NULL)
		out_line(flight->out, NULL,
			"a collective timed out, but no line of these logs names it");
	else if (!several)
		out_values_line(flight->out, NULL,
			"only the log of rank {} {}: the other ranks are unknown",
			value_integer(waits->rank),
			value_word(joined->log_rank_count == 1 ? "has failed collectives"
							       : "shows where it waits"));
	else if (watches[0].group.size == 0 && watches[0].seq != watches[1].seq)
		out_line(flight->out, NULL,
			"the lines name no process group: these ranks may wait in different ones");
	else
		out_line(flight->out, NULL, "%s",
			joined->share_groups
				? "all ranks with lines entered the same collectives"
				: "the ranks with lines wait in different process groups: they cannot be compared");
}

/* That ranks agree, as far as they are known, or wait for ranks that left nothing. */
static void lines_agree(const struct flight *flight)
{
	const struct fsdp_flight *joined = flight->joined;
	struct out *out = flight->out;
	bool is_log = flight->is_log;
	const char *line = NULL;
	struct fsdp_flight_cause one;

	if (joined->all_wait) {
		/* The cause is not among them. */
		out_line_begin(out, NULL);
		out_values(out,
			flight->is_alone             ? "rank {} waits in"
			: joined->entered.count != 0 ? "{} wait in"
			: is_log                     ? "all ranks with lines wait in"
						     : "all ranks wait in",
			joined->entered.count != 0 ? RANKS(joined->entered)
			: flight->first != NULL    ? value_integer(flight->first->rank)
						   : value_absent());
		out_values(out, "[ #{}] {}[ of {}][ since {}]",
			number(joined->common.seq),
			joined->common.op.size != 0 ? name(joined->common.op)
						    : value_word("collective"),
			name(joined->common.group), value_word(flight->since));
		print_place(flight, &joined->common.place);
		out_line_end(out);
		line_ranks(flight, "not begun", "by the GPU of {}: others began it",
			joined->not_started);
	}
	if (joined->has_two_jobs) {
		out_line(out, NULL,
			"two processes of one rank ran at the same time: the lines are of several jobs, and nothing is compared");
		return;
	}
	if (is_log && joined->watch_count != 0 &&
		joined->verdict == FSDP_FLIGHT_INCOMPLETE && !joined->all_wait &&
		((joined->problem == NULL &&
			 (joined->exception_count == 0 || flight->is_alone)) ||
			(problem_is(joined, "unheard") && flight->is_alone &&
				joined->seq != FSDP_ABSENT))) {
		line_compared(flight);
		return;
	}
	if (joined->problem == NULL && flight->is_alone)
		out_values_line(out, NULL,
			"only the dump of rank {} is readable: the other ranks are unknown",
			value_integer(flight->first->rank));
	else if (problem_is(joined, "no_entries"))
		line = "the dumps have no entries: TORCH_FR_BUFFER_SIZE=2000 records them";
	else if (joined->problem == NULL && joined->verdict == FSDP_FLIGHT_AGREE &&
		 !joined->all_wait)
		line = "no hang found: all ranks entered the same collectives";
	/* A rank that printed an error may wait in a send or receive. */
	else if (joined->problem == NULL && joined->verdict == FSDP_FLIGHT_INCOMPLETE &&
		 joined->exception_count == 0)
		line = "all ranks with a readable dump entered the same collectives";
	if (joined->problem == NULL && joined->older.count != 0)
		line = joined->verdict == FSDP_FLIGHT_AGREE
			       ? "no hang found, but the dumps are of different moments"
			       : "the dumps are of different moments: the ranks cannot be compared";
	if (line != NULL)
		out_values_line(out, NULL, "{}{}[; the last one of {} did not end]{}",
			value_word(line),
			value_word(joined->problem == NULL && joined->all_completed &&
						   joined->older.count == 0
					   ? " and completed them"
					   : ""),
			joined->problem == NULL && joined->unfinished.count != 0
				? RANKS(joined->unfinished)
				: value_absent(),
			value_word(
				joined->is_gloo && joined->problem == NULL
					? "; Gloo dumps do not record send and recv: a rank that waits in send or recv would not be seen (its stack shows it: py-spy dump --pid PID)"
					: ""));
	if (!problem_is(joined, "unheard"))
		return;
	if (joined->watch_count == 0 && joined->exception_count != 0) {
		out_line(out, NULL, "these ranks %s: look first at those without lines",
			flight->has_timeout ? "waited for others"
					    : "lost a peer, which ended before them");
		return;
	}
	flight->words->size = 0;
	cause_at(joined, 0, &one);
	append_collective(flight->words, joined, &one, true);
	out_values_line(out, NULL,
		joined->was_shortened
			? "all ranks with {} wait in{}{}; others may, too: Ray omitted lines"
			: "all ranks with {} wait for the ranks without {}, in{}",
		value_word(is_log ? "lines" : "a dump"),
		value_word(joined->was_shortened ? ""
			   : is_log              ? "lines"
						 : "a dump"),
		words_of(flight));
}

static void lines_next(const struct flight *flight)
{
	const struct fsdp_flight *joined = flight->joined;
	enum fsdp_flight_verdict verdict = joined->verdict;
	struct out *out = flight->out;
	const char *next = NULL;

	if (joined->has_two_jobs)
		next = "give order the lines of one job";
	else if (joined->was_shortened && verdict == FSDP_FLIGHT_INCOMPLETE)
		next = "run again with RAY_DEDUP_LOGS=0: Ray omitted lines of other ranks";
	else if (joined->older.count != 0 && verdict == FSDP_FLIGHT_INCOMPLETE)
		next = "write the dumps of all ranks at one moment and run order again";
	else if (joined->not_started.count != 0)
		next = "find what that GPU runs: the stack of the rank (py-spy dump --pid PID), nvidia-smi, and Xid lines in dmesg";
	else if (((flight->is_log && verdict == FSDP_FLIGHT_AGREE) || joined->all_wait) &&
		 !flight->is_alone)
		next = flight->is_log
			       ? "collect the logs of ranks without lines, if the job has any; else look below PyTorch: NCCL_DEBUG=INFO, and the network between the hosts"
			       : "look for the cause below PyTorch: NCCL_DEBUG=INFO, and the network between the hosts";
	else if (joined->exception_count != 0 && joined->watch_count == 0 &&
		 joined->log_rank_count > 1 && !flight->has_timeout)
		next = "find the rank that ended first: its log, and torchrun's report of the first failure";
	else if (problem_is(joined, "unheard") && joined->missing_dumps.count == 0 &&
		 !flight->is_log)
		next = "collect the dumps of the other ranks and run order again";
	else if (flight->is_log && verdict == FSDP_FLIGHT_INCOMPLETE)
		next = problem_is(joined, "exception") && joined->log_rank_count > 1
			       ? "run again with TORCH_DISTRIBUTED_DEBUG=DETAIL: it names ranks that do not come, and calls that differ"
			       : "collect the logs of the other ranks and run order again";
	if (next != NULL)
		out_line(out, "next", "%s", next);
}

/* ---- ranks in logs ---- */

#define WATCH struct fsdp_watchdog_status
static const struct record watch_record = OBJECT_RECORD(WATCH, "watchdog_rank",
	"Lines of a log about one rank in one process group.",
	{ "rank", INTEGER_AT(WATCH, rank), ALWAYS("The rank.") },
	{ "group", TEXT_AT(WATCH, group),
		ALWAYS("The process group; empty where the lines name none.") },
	{ "enqueued", INTEGER_AT(WATCH, enqueued),
		OR_NULL("Number of the last collective that the rank enqueued.") },
	{ "completed", INTEGER_AT(WATCH, completed),
		OR_NULL("Number of the last one that it completed.") },
	{ "seq", INTEGER_AT(WATCH, seq),
		OR_NULL("Number of the first that failed; null where none did on this rank, and of a monitored barrier.") },
	{ "op", TEXT_AT(WATCH, op), OR_NULL("Its operation, without the variant.") },
	{ "numel_in", INTEGER_AT(WATCH, numel_in), OR_NULL("Elements of its input.") },
	{ "numel_out", INTEGER_AT(WATCH, numel_out), OR_NULL("Elements of its output.") },
	{ "timeout_ms", INTEGER_AT(WATCH, timeout_ms),
		OR_NULL("After how long it was to time out, in milliseconds.") },
	{ "ran_ms", INTEGER_AT(WATCH, ran_ms),
		OR_NULL("Time that the rank had waited in it, in milliseconds.") });

static const struct table WATCHES = TEXT_TABLE(NUMBERS("ranks"), { "group" },
	NUMBERS("enqueued"), NUMBERS("completed"), { "failed in" });

static int compare_numbers(const void *a, const void *b)
{
	const int64_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

/* One row for all that are alike. */
static void show_watches(const struct flight *flight)
{
	enum { MOST_ROWS = 32 };
	const struct fsdp_flight *joined = flight->joined;
	int64_t head = flight->order->options->head, rows = 0;

	head = head >= 0 ? head : MOST_ROWS;
	if (joined->watch_count == 0)
		return;
	memset(flight->taken, 0, joined->watch_count * sizeof *flight->taken);
	out_table_begin(flight->out, &WATCHES);
	for (size_t i = 0; i < joined->watch_count && rows <= head; i++) {
		const WATCH *first = &joined->watches[i];
		int64_t longest = FSDP_ABSENT;
		char list[160], failed[200];
		size_t count = 0;

		if (flight->taken[i] || ++rows > head)
			continue;
		for (size_t k = i; k < joined->watch_count; k++) {
			const WATCH *one = &joined->watches[k];

			if (flight->taken[k] || first->enqueued != one->enqueued ||
				first->completed != one->completed ||
				first->seq != one->seq ||
				first->numel_in != one->numel_in ||
				first->numel_out != one->numel_out ||
				!text_is(text_of_span(first->group),
					text_of_span(one->group)) ||
				!text_is(text_of_span(first->op), text_of_span(one->op)))
				continue;
			flight->taken[k] = true;
			flight->ranks[count++] = one->rank;
			longest = one->ran_ms > longest ? one->ran_ms : longest;
		}
		qsort(flight->ranks, count, sizeof *flight->ranks, compare_numbers);
		order_put_ranks(flight->ranks, count, list, sizeof list);
		/* "#7 all_reduce after 600.1 s"; empty where none failed. */
		const struct text op = text_of_span(first->op);
		size_t size = 0;
		failed[0] = '\0';
		if (first->seq != FSDP_ABSENT)
			size = (size_t)snprintf(failed, sizeof failed, "#%" PRId64 "%s",
				first->seq, op.size != 0 ? " " : "");
		if (op.size != 0)
			size += (size_t)snprintf(failed + size, sizeof failed - size,
				"%.*s", (int)(op.size < 64 ? op.size : 64), op.data);
		if (size != 0 && longest != FSDP_ABSENT)
			snprintf(failed + size, sizeof failed - size,
				" after %" PRId64 ".%01" PRId64 " s", longest / 1000,
				longest % 1000 / 100);
		const struct value values[] = { value_word(list),
			value_name(text_of_span(first->group)), number(first->enqueued),
			number(first->completed), value_word(failed) };
		out_row(flight->out, values);
	}
	out_table_end(flight->out);
	if (rows > head)
		out_line(flight->out, "", "... and more: --json has all ranks");
}

/* The text up to an address, which each rank has another one of. */
static struct text without_peer(struct fsdp_span text)
{
	const unsigned char *peer = memmem(text.data, text.size, " [", 2),
			    *end = text.data + text.size;

	return (struct text){ (const char *)text.data,
		(size_t)((peer != NULL ? peer : end) - text.data) };
}

/* One line for all that are alike. */
static void lines_exceptions(const struct flight *flight)
{
	const struct fsdp_flight *joined = flight->joined;
	size_t count = joined->exception_count, shown = 0;
	bool differ = false;
	char at[MOMENT_ROOM];

	for (size_t i = 0; i < count; i++) {
		const struct fsdp_flight_exception *one = &joined->exceptions[i],
						   *first = joined->exceptions;
		size_t alike = 0;

		differ |= one->op.size != 0 && first->op.size != 0 &&
			  !text_is(text_of_span(one->op), text_of_span(first->op));
		if (flight->taken[i] || shown++ >= MOST_SHOWN)
			continue;
		for (size_t k = i; k < count; k++) {
			const struct fsdp_flight_exception *other =
				&joined->exceptions[k];

			if (flight->taken[k] || one->place.line != other->place.line ||
				one->time_ns != other->time_ns ||
				!text_is(text_of_span(one->place.filename),
					text_of_span(other->place.filename)) ||
				!text_is(
					text_of_span(one->op), text_of_span(other->op)) ||
				!text_is(without_peer(one->text),
					without_peer(other->text)))
				continue;
			flight->taken[k] = true;
			flight->ranks[alike++] = other->rank;
		}
		qsort(flight->ranks, alike, sizeof *flight->ranks, compare_numbers);
		out_line_begin(flight->out, shown == 1 ? "error" : "");
		out_values(flight->out, "{}[ in {}]",
			one->rank != FSDP_ABSENT
				? RANKS(((struct fsdp_ranks){ flight->ranks, alike }))
				: value_word("a rank"),
			name(one->op));
		print_place(flight, &one->place);
		out_values(flight->out,
			"[ at {}]: ", value_word(format_moment(one->time_ns, true, at)));
		out_line_name(flight->out,
			one->is_own ? text_of_span(one->text) : without_peer(one->text));
		out_line_end(flight->out);
	}
	line_rest(flight->out, "", shown);
	if (differ && flight->has_timeout)
		out_line(flight->out, NULL,
			"these ranks wait in different calls: those of one group must make the same calls in the same order");
}

/* ---- all ---- */

static const char *part_of(const struct fsdp_flight *joined, int64_t rank)
{
	const struct {
		struct fsdp_ranks ranks;
		const char *name;
	} parts[] = { { joined->culprits, "culprit" }, { joined->entered, "entered" },
		{ joined->missing, "missing" }, { joined->waiting, "waiting" } };

	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		for (size_t k = 0; k < parts[i].ranks.count; k++)
			if (parts[i].ranks.list[k] == rank)
				return parts[i].name;
	return "other";
}

void order_show_flight(struct orders *order)
{
	struct run *run = order->run;
	const struct fsdp_flight *joined = &order->flight;
	size_t most = joined->watch_count + joined->exception_count;
	char since[MOMENT_ROOM];
	struct flight flight = { .order = order,
		.out = run->out,
		.joined = joined,
		.words = order->words,
		.is_log = is_log(joined),
		.since = format_moment(joined->since_ns, is_log(joined), since),
		.ranks = run_memory(run, most, sizeof *flight.ranks),
		.taken = run_memory(run, most, sizeof *flight.taken) };

	flight.is_alone =
		flight.is_log ? joined->watch_count != 0 : order->dump_count == 1;
	for (size_t i = 1; i < joined->watch_count; i++)
		flight.is_alone &= joined->watches[i].rank == joined->watches[0].rank;
	for (size_t i = order->count; i-- > 0;)
		if (fsdp_recording(order->recordings, i)->flight != NULL)
			flight.first = fsdp_recording(order->recordings, i);
	for (size_t i = 0; joined->watch_count == 0 && i < joined->exception_count; i++)
		flight.has_timeout |=
			joined->verdict == FSDP_FLIGHT_INCOMPLETE &&
			memmem(joined->exceptions[i].text.data,
				joined->exceptions[i].text.size, "imed out", 8) != NULL;
	line_inputs(&flight);
	if (has_cause(joined))
		lines_findings(&flight, false);
	lines_exceptions(&flight);
	if (joined->verdict == FSDP_FLIGHT_STUCK && joined->entered.count != 0 &&
		!problem_is(joined, "exception"))
		out_values_line(flight.out,
			problem_is(joined, "parted") ? "completed" : "entered",
			"{}[, since {}]", RANKS(joined->entered),
			value_word(flight.since));
	lines_culprits(&flight);
	line_ranks(&flight, "waiting", "{}, in other collectives", joined->waiting);
	lines_agree(&flight);
	line_ranks(&flight, flight.is_log ? "no lines" : "no dump", "{}",
		joined->missing_dumps);
	line_ranks(&flight, "unreadable", "{}", joined->unreadable);
	line_ranks(&flight, "older dump",
		"of {}: others have later calls that are complete", joined->older);
	show_watches(&flight);
	if (has_cause(joined))
		lines_findings(&flight, true);
	else
		lines_next(&flight);
}

/* ---- findings and status ---- */

static void report_causes(struct orders *order)
{
	const struct fsdp_flight *joined = &order->flight;
	const char *since, *between;
	struct fsdp_flight_cause one;
	char fix[500], room[MOMENT_ROOM];

	for (size_t i = 0; cause_at(joined, i, &one); i++) {
		const struct conclusion *conclusion = conclusion_of(joined, &one);

		if (conclusion->fix == NULL)
			conclusion = &conclusions[REST];
		since = conclusion->problem == NULL && !problem_is(joined, "exception")
				? format_moment(joined->since_ns, is_log(joined), room)
				: NULL;
		between = conclusion->after != NULL ? WORDS_OF(one.ranks) : "";
		snprintf(fix, sizeof fix, "%s%s%s%s%s", conclusion->fix, between,
			since != NULL ? " from " : "", since != NULL ? since : "",
			conclusion->after != NULL ? conclusion->after : "");
		append_cause(order->words, joined, &one, i == 0);
		run_finding(order->run, rule_of(joined), fix, "%.*s",
			(int)order->words->size, order->words->data);
	}
}

int order_check_flight(struct orders *order)
{
	struct run *run = order->run;
	const struct fsdp_flight *joined = &order->flight;
	int status =
		joined->verdict == FSDP_FLIGHT_INCOMPLETE ? STATUS_PARTIAL : STATUS_GOOD;
	struct rank_words words;
	char fix[300];

	if (has_cause(joined))
		report_causes(order);
	if (joined->missing_dumps.count != 0) {
		rank_words(joined->missing_dumps, &words);
		snprintf(fix, sizeof fix,
			"collect the dump of %s, or read the log: a rank that crashed left no dump",
			words.text);
		run_finding(run, "FI7042",
			joined->was_shortened
				? "run again with RAY_DEDUP_LOGS=0: Ray omits lines that other ranks print, too"
			: is_log(joined)
				? "collect the logs of these ranks: an error, or the last line, shows where each is"
				: fix,
			"%s %s", words.text,
			!is_log(joined) ? "left no dump"
			: joined->missing_dumps.count == 1
				? "has no failed collective in these logs"
				: "have no failed collective in these logs");
	}
	if (joined->unreadable.count != 0)
		run_finding(run, "FI7042", "", "the dump of %s cannot be read",
			rank_words(joined->unreadable, &words));
	order->dumps = run_memory(run, order->count, sizeof *order->dumps);
	for (size_t i = 0; i < order->count; i++) {
		const struct fsdp_recording *one =
			fsdp_recording_by_rank(order->recordings, i);

		if (one->truncated)
			status = STATUS_PARTIAL;
		if (one->flight != NULL)
			order->dumps[order->dump_count++] = (struct dump){ one->rank,
				*one->flight, part_of(joined, one->rank) };
		else if (!is_log(joined))
			run_note(run,
				"skipped %s: dumps of the Flight Recorder contain more than a log",
				one->path);
	}
	if (joined->was_restarted)
		run_note(run,
			"the job was started again: only the lines of its last attempt are compared");
	if (joined->version_count > 1)
		run_note(run, "the dumps were written by %zu versions of the recorder",
			joined->version_count);
	return has_cause(joined) ? STATUS_BAD : status;
}

/* ---- data ---- */

#define SIZES struct fsdp_flight_sizes
static const struct record sizes_record = RECORD_OF(
	RECORD_PLAIN, SIZES, { NULL, LIST_AT(SIZES, dims, dim_count, record_integers) });

#define CALL struct fsdp_flight_call
static const struct record call_record = OBJECT_RECORD(CALL, "flight_call",
	"Call of a rank.",
	{ "op", TEXT_AT(CALL, op), ALWAYS("The operation, as the dump has it.") },
	{ "input_sizes", LIST_AT(CALL, input_sizes, input_size_count, sizes_record),
		ALWAYS("Sizes of each input.") },
	{ "output_sizes", LIST_AT(CALL, output_sizes, output_size_count, sizes_record),
		ALWAYS("Sizes of each output.") },
	{ "input_dtypes", LIST_AT(CALL, input_dtypes, input_dtype_count, record_texts),
		ALWAYS("Dtype of each input.") },
	{ "output_dtypes", LIST_AT(CALL, output_dtypes, output_dtype_count, record_texts),
		ALWAYS("Dtype of each output.") });

#define FOUND struct fsdp_mismatched_call
static const struct record found_record = RECORD_OF(RECORD_OBJECT, FOUND,
	{ NULL, INTEGER_AT(FOUND, rank) }, { NULL, OBJECT_AT(FOUND, call, call_record) });

static const void *each_dump(struct subject of, size_t i, void *room)
{
	const struct orders *order = of.context;

	(void)room;
	return i < order->dump_count ? &order->dumps[i] : NULL;
}

#define DUMP struct dump
static const struct record dump_record = OBJECT_RECORD(DUMP, "flight_dump", "One dump.",
	{ "rank", INTEGER_AT(DUMP, rank), ALWAYS("The rank.") },
	{ "entries", COUNT_AT(DUMP, joined.entries), ALWAYS("Number of its entries.") },
	{ "first_record", INTEGER_AT(DUMP, joined.first_record),
		OR_NULL("Number of the first entry; above 0 where older ones were dropped.") },
	{ "version", TEXT_AT(DUMP, joined.version), ALWAYS("Version of the recorder.") },
	{ "part", WORD_AT(DUMP, part),
		WORDS("culprit", "entered", "missing", "waiting", "other"),
		ALWAYS("Relation of the rank to the collective.") });

/* Ranks in a member, which is a struct fsdp_ranks. */
#define RANKS_AT(from, member) LIST_AT(from, member.list, member.count, record_integers)

#define FLIGHT struct fsdp_flight
HAS(is_mismatch, FLIGHT, one->verdict == FSDP_FLIGHT_MISMATCH)
HAS(has_older, FLIGHT, one->older.count != 0)
HAS(is_of_logs, FLIGHT, is_log(one))
/* Of a mismatch only, where it is null if no majority agrees. */
static const struct record expected_record = RECORD_OF(RECORD_OBJECT, FLIGHT,
	{ "expected", OBJECT_AT(FLIGHT, expected, call_record),
		IF_SET(FLIGHT, has_expected),
		OR_NULL("Call of most ranks; null without a majority.") },
	{ "found", MAP_AT(FLIGHT, found, found_count, found_record),
		ABOUT("By rank, what each culprit called.") });

#define LAST struct fsdp_last_call
static const struct record common_record = OBJECT_RECORD(LAST, "common_wait",
	"The collective in which all ranks wait.",
	{ "group", TEXT_AT(LAST, group),
		ALWAYS("Its process group: the description, or the name.") },
	{ "seq", INTEGER_AT(LAST, seq), ALWAYS("Its number in that group.") },
	{ "op", TEXT_AT(LAST, op), ALWAYS("The operation, without its variant.") });

#define EXCEPTION struct fsdp_flight_exception
static const struct record exception_record =
	OBJECT_RECORD(EXCEPTION, "log_exception", "An error of one rank in a log.",
		{ "rank", INTEGER_AT(EXCEPTION, rank),
			OR_NULL("The rank; null where the log names none.") },
		{ "text", TEXT_AT(EXCEPTION, text), ALWAYS("Text that it printed.") },
		{ "op", TEXT_AT(EXCEPTION, op),
			ABOUT("The function of torch.distributed that it was in.") },
		{ "filename", TEXT_AT(EXCEPTION, place.filename),
			ABOUT("File outside of PyTorch that called it.") },
		{ "line", INTEGER_AT(EXCEPTION, place.line), ABOUT("Its line.") },
		{ "name", TEXT_AT(EXCEPTION, place.name), ABOUT("Its function.") });

const struct record order_flight_record = OBJECT_RECORD(FLIGHT, "collectives",
	"Combined result of the dumps of the Flight Recorder.",
	{ "verdict", ENUM_AT(FLIGHT, verdict, fsdp_flight_verdict_name),
		WORDS("agree", "stuck", "mismatch", "incomplete"),
		ALWAYS("Whether the ranks of the job made the same calls.") },
	{ "problem", WORD_AT(FLIGHT, problem),
		WORDS("missing", "extra", "cycle", "status", "idle", "unheard",
			"no_entries", "op", "size", "dtype", "parted", "gpu_stopped",
			"exception"),
		OR_NULL("The problem; null for none.") },
	{ "culprits", RANKS_AT(FLIGHT, culprits), ALWAYS("Ranks that are the cause.") },
	{ "gpu_stopped", RANKS_AT(FLIGHT, gpu_stopped),
		ALWAYS("Culprits with an unfinished collective that another rank of the group finished.") },
	{ "older", RANKS_AT(FLIGHT, older), .has = has_older,
		ABOUT("Ranks with a dump that was written before those of others.") },
	{ "group", TEXT_AT(FLIGHT, group),
		OR_NULL("Process group of the collective: its description, or its name.") },
	{ "group_name", TEXT_AT(FLIGHT, group_name), OR_NULL("Its name.") },
	{ "seq", INTEGER_AT(FLIGHT, seq),
		OR_NULL("Number of the collective in that group; of a send or receive its own.") },
	{ "op", TEXT_AT(FLIGHT, op), OR_NULL("The operation, without its variant.") },
	{ "entered", RANKS_AT(FLIGHT, entered), ALWAYS("Ranks that entered it.") },
	{ "missing", RANKS_AT(FLIGHT, missing),
		ALWAYS("Ranks of the group that did not.") },
	{ NULL, FIELDS(expected_record), .has = is_mismatch },
	{ "all_wait_in", OBJECT_AT(FLIGHT, common, common_record),
		IF_SET(FLIGHT, all_wait),
		ABOUT("If ranks agree: the collective that each of them entered last and none left.") },
	{ "missing_dumps", RANKS_AT(FLIGHT, missing_dumps),
		ALWAYS("Ranks of the job that left no dump.") },
	{ "unreadable", RANKS_AT(FLIGHT, unreadable),
		ALWAYS("Ranks whose dump cannot be read.") },
	{ "versions", LIST_AT(FLIGHT, versions, version_count, record_texts),
		ALWAYS("Versions of the recorder.") },
	{ "dumps", EACH(each_dump, dump_record),
		ALWAYS("The dumps, by rank; none if these are logs.") },
	{ "exceptions", LIST_AT(FLIGHT, exceptions, exception_count, exception_record),
		.has = is_of_logs,
		ABOUT("Of logs: errors of ranks other than timeouts, the earliest first.") },
	{ "watchdog", LIST_AT(FLIGHT, watches, watch_count, watch_record),
		.has = is_of_logs,
		ABOUT("Of logs: the lines of each rank in each group, summarized.") });

void order_put_dumps(struct orders *order)
{
	static const struct table dumps = {
		.key = "dumps", .main = true, .rows_only = true
	};
	static const struct table watches = {
		.key = "watchdog", .main = true, .rows_only = true
	};
	const struct fsdp_flight *joined = &order->flight;
	struct out *out = order->run->out;

	if (is_log(joined))
		out_records(out, &watches, &watch_record, NULL, joined->watches,
			joined->watch_count);
	else
		out_records(
			out, &dumps, &dump_record, NULL, order->dumps, order->dump_count);
}
