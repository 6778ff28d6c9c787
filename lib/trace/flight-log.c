/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what the watchdog of ProcessGroupNCCL prints, whatever a launcher, a logger or a
 * progress bar put in front of it. Ranks that write at once may share a line, so a line
 * is cut into pieces, each up to the end of one message.
 */
#include "base/num.h"
#include "trace/flight-log.h"
#include "trace/flight-words.h"

bool fsdp_watchdog_init(struct fsdp_watchdog *watchdog, struct fsdp_arena *arena)
{
	fsdp_vec_init(&watchdog->lines, arena, sizeof(struct fsdp_watchdog_line));
	fsdp_vec_init(
		&watchdog->exceptions, arena, sizeof(struct fsdp_watchdog_exception));
	watchdog->highest_rank = -1;
	watchdog->snapshot = FSDP_ABSENT;
	if (!fsdp_names_init(&watchdog->groups, arena))
		return false;
	watchdog->groups.copies = arena;
	return true;
}

/* ---- the front of a message ---- */

/* The last "[… Rank 3]" in front, without its bracket and what follows "Rank". */
static bool find_brackets(
	struct fsdp_span front, struct fsdp_span *ret_inside, int64_t *ret_rank)
{
	struct fsdp_span at = fsdp_words_behind_last(front, "Rank "), number = at;
	if (at.data == NULL || !fsdp_words_number(&number, ret_rank) ||
		!fsdp_watchdog_is_rank(*ret_rank) || number.size == 0 ||
		number.data[0] != ']')
		return false;
	struct fsdp_span before = fsdp_words_up_to(front, at.data - strlen("Rank "));
	struct fsdp_span named = fsdp_words_behind_last(before, "[PG ");
	bool whole = named.data != NULL && memchr(named.data, ']', named.size) == NULL;
	*ret_inside = whole ? named : (struct fsdp_span){ 0 };
	return true;
}

/* "ID 0 PG GUID 0(default_pg) ", "0 (default_pg) ", "GUID 1 ": the name and, in
 * brackets, the description. Group 0 is the default one even if it has none. */
static bool take_group(
	struct fsdp_watchdog *watchdog, struct fsdp_span inside, uint32_t *ret_group)
{
	struct fsdp_span guid = fsdp_words_behind_last(inside, "GUID "), desc = { 0 };
	struct fsdp_span name =
		fsdp_words_without_blanks(guid.data != NULL ? guid : inside);
	if (name.size != 0 && name.data[name.size - 1] == ')') {
		size_t open = name.size;
		while (open != 0 && name.data[open - 1] != '(')
			open--;
		if (open != 0) {
			desc = fsdp_span(name.data + open, name.size - open - 1);
			name = fsdp_words_without_blanks(fsdp_span(name.data, open - 1));
		}
	}
	if (desc.size == 0)
		desc = fsdp_span_is(name, "0") ? FSDP_SPAN("default_pg") : FSDP_SPAN("");
	*ret_group = fsdp_watchdog_group(&watchdog->groups, name, desc);
	return *ret_group != FSDP_NONE;
}

/* Whose message it is and when it was printed. *ret_known: it says so. False: out of
 * memory. */
static bool take_front(struct fsdp_watchdog *watchdog, struct fsdp_span front,
	struct fsdp_watchdog_line *line, bool *ret_known)
{
	struct fsdp_span inside = { 0 };
	*line = fsdp_watchdog_blank();
	line->time_ns = fsdp_watchdog_time(front);
	bool bracketed = find_brackets(front, &inside, &line->rank);
	bool global = fsdp_watchdog_global_rank(front, &line->rank);
	*ret_known = bracketed || global;
	if (*ret_known)
		fsdp_watchdog_hear_of(watchdog, line->rank);
	return inside.data == NULL || take_group(watchdog, inside, &line->group);
}

/* ---- messages ---- */

/* "ALLREDUCE" of "OpType=ALLREDUCE, ". */
static bool take_op(struct fsdp_watchdog *watchdog, struct fsdp_span work,
	struct fsdp_watchdog_line *line)
{
	struct fsdp_span at = fsdp_words_behind(work, "OpType=");
	size_t size = 0;
	while (size < at.size && at.data[size] != ',' && at.data[size] != ')')
		size++;
	return size == at.size ||
	       fsdp_watchdog_fold_op(watchdog, fsdp_span(at.data, size), &line->op);
}

/* What stands in the brackets of "WorkNCCL(…) ran for 600020 milliseconds". */
static bool take_work(struct fsdp_watchdog *watchdog, struct fsdp_span work,
	struct fsdp_watchdog_line *line)
{
	line->seq = fsdp_words_number_behind(work, "SeqNum=");
	line->numel_in = fsdp_words_number_behind(work, "NumelIn=");
	line->numel_out = fsdp_words_number_behind(work, "NumelOut=");
	line->timeout_ms = fsdp_words_number_behind(work, "Timeout(ms)=");
	line->ran_ms = fsdp_words_number_behind(work, ") ran for ");
	if (line->ran_ms < 0 || line->ran_ms > INT64_MAX / 1000000)
		line->ran_ms = FSDP_ABSENT;
	return take_op(watchdog, work, line);
}

/* "work: 5" behind "last enqueued " or "last completed ", maybe with NCCL between. The
 * numbers of PyTorch 2.3 are not set before the first work: more than could be. */
static int64_t status_number(struct fsdp_span text)
{
	int64_t number;
	struct fsdp_span at = fsdp_words_behind(text, "work: ");
	if (at.data == NULL || at.data - text.data > 24 ||
		!fsdp_words_number(&at, &number) || number < -1 || number > INT64_MAX / 2)
		return FSDP_ABSENT;
	return number;
}

static void take_status(
	struct fsdp_span front, struct fsdp_span status, struct fsdp_watchdog_line *line)
{
	static const char *const works[] = {
		"at work sequence id: ", "at work: ", "at NCCL work: "
	};
	struct fsdp_span completed = fsdp_words_behind(status, "last completed ");
	for (size_t i = 0; i < FSDP_COUNT(works) && line->seq == FSDP_ABSENT; i++)
		line->seq = fsdp_words_number_behind(front, works[i]);
	line->enqueued = status_number(status);
	if (completed.data != NULL && line->enqueued != FSDP_ABSENT)
		line->completed = status_number(completed);
	if (line->completed > line->enqueued)
		line->completed = FSDP_ABSENT;
}

/* ---- the report of ranks that part ---- */

/* What a report says of the ranks in a list. */
struct reported {
	int64_t seq; /* what they wait in, or FSDP_ABSENT */
	int64_t enqueued, completed;
	struct fsdp_span op;
};

/* The numbers of "[0, 2]" that ends here. *ret_list is what is between the brackets. */
static bool find_list(struct fsdp_span text, struct fsdp_span *ret_list)
{
	size_t at = text.size;
	if (at == 0 || text.data[at - 1] != ']')
		return false;
	while (at != 0 && text.data[at - 1] != '[')
		at--;
	*ret_list = fsdp_span(text.data + at, text.size - at - 1);
	return at != 0;
}

/* A line of each rank in the list. */
static bool add_reported(struct fsdp_watchdog *watchdog, struct fsdp_span list,
	const struct reported *says)
{
	struct fsdp_watchdog_line line = fsdp_watchdog_blank();
	line.seq = says->seq;
	line.enqueued = says->enqueued;
	line.completed = says->completed;
	line.op = says->op;
	while (fsdp_words_number(&list, &line.rank) && fsdp_watchdog_is_rank(line.rank)) {
		fsdp_watchdog_hear_of(watchdog, line.rank);
		if (!fsdp_vec_add(&watchdog->lines, &line))
			return false;
		if (list.size < 2 || list.data[0] != ',' || list.data[1] != ' ')
			break;
		list = fsdp_span(list.data + 2, list.size - 2);
	}
	return true;
}

/* A number of a work that one may be added to. */
static bool take_work_number(struct fsdp_span *text, int64_t *ret_seq)
{
	return text->data != NULL && fsdp_words_number(text, ret_seq) && *ret_seq >= 0 &&
	       *ret_seq < INT64_MAX / 2;
}

/* "[0] started ALLREDUCE" below "#5 started ranks:", or the same with "finished". */
static bool take_snapshot(
	struct fsdp_watchdog *watchdog, struct fsdp_span line, bool finished)
{
	const char *words = finished ? " finished " : " started ";
	struct reported says = { FSDP_ABSENT, watchdog->snapshot,
		watchdog->snapshot - !finished, FSDP_SPAN("") };
	struct fsdp_span list, op = fsdp_words_behind(line, words);
	if (watchdog->snapshot == FSDP_ABSENT || op.data == NULL)
		return true;
	if (!find_list(fsdp_words_before(line, words), &list)) {
		watchdog->snapshot = FSDP_ABSENT;
		return true;
	}
	if (!finished)
		says.seq = watchdog->snapshot;
	return fsdp_watchdog_fold_op(watchdog, fsdp_words_without_blanks(op), &says.op) &&
	       add_reported(watchdog, list, &says);
}

/* "#5 started ranks:" */
static bool begins_snapshot(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	struct fsdp_span head = fsdp_words_before(line, " started ranks:");
	if (head.data == NULL)
		head = fsdp_words_before(line, " finished ranks:");
	if (head.data == NULL)
		return false;
	head = fsdp_words_behind_last(head, "#");
	if (!take_work_number(&head, &watchdog->snapshot))
		watchdog->snapshot = FSDP_ABSENT;
	return true;
}

/* "[0] Timeout at collective: ALLREDUCE, #5" */
static bool take_own_timeout(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	struct fsdp_span op = fsdp_words_behind(line, " Timeout at collective: "), list;
	struct fsdp_span number = fsdp_words_behind_last(op, ", #");
	struct reported says = { FSDP_ABSENT, FSDP_ABSENT, FSDP_ABSENT, FSDP_SPAN("") };
	if (!find_list(fsdp_words_before(line, " Timeout at collective: "), &list) ||
		!take_work_number(&number, &says.seq))
		return true;
	return fsdp_watchdog_fold_op(watchdog, fsdp_words_before(op, ", #"), &says.op) &&
	       add_reported(watchdog, list, &says);
}

/* The ranks that the report names as behind. */
static bool take_lagging(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	static const char joined[] = " joined but didn't finish collective #";
	static const char finished[] = " finished collective #";
	static const char never[] = " are the lagging ranks that caused this timeout.";
	struct reported says = { FSDP_ABSENT, -1, -1, FSDP_SPAN("") };
	struct fsdp_span list, at = fsdp_words_behind(line, joined);
	if (take_work_number(&at, &says.enqueued)) {
		says.completed = says.enqueued - 1;
		return !find_list(fsdp_words_before(line, joined), &list) ||
		       add_reported(watchdog, list, &says);
	}
	at = fsdp_words_behind(line, finished);
	if (take_work_number(&at, &says.enqueued)) {
		says.completed = says.enqueued;
		return !find_list(fsdp_words_before(line, finished), &list) ||
		       add_reported(watchdog, list, &says);
	}
	return !find_list(fsdp_words_before(line, never), &list) ||
	       add_reported(watchdog, list, &says);
}

/* All lines of it have a number of a work, but those of a snapshot, which follow each
 * other, and the one about ranks that never joined. */
static bool take_report(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	bool number = memchr(line.data, '#', line.size) != NULL;
	bool listed = watchdog->snapshot != FSDP_ABSENT;
	if (number && begins_snapshot(watchdog, line))
		return true;
	if (listed && !number)
		return take_snapshot(watchdog, line, false) &&
		       take_snapshot(watchdog, line, true);
	watchdog->snapshot = FSDP_ABSENT;
	if (number && fsdp_words_behind(line, " Timeout at collective: ").data != NULL)
		return take_own_timeout(watchdog, line);
	return take_lagging(watchdog, line);
}

/* ---- lines ---- */

static const char timeout_words[] = "Watchdog caught collective operation timeout: Work";
static const char status_words[] = "ast enqueued ";

/* A line in pieces. Each of the two kinds is looked for once: many of one do not make the
 * search for the other long. */
struct pieces {
	struct fsdp_span timeout, status; /* behind the next of each; data NULL: none */
};

static struct pieces pieces_of(struct fsdp_span line)
{
	return (struct pieces){ fsdp_words_behind(line, timeout_words),
		fsdp_words_behind(line, status_words) };
}

/* What is behind the words of the next message that says something, and which it is. */
static struct fsdp_span next_message(struct pieces *pieces, bool *ret_status)
{
	struct fsdp_span timeout = pieces->timeout, status = pieces->status;
	*ret_status = status.data != NULL &&
		      (timeout.data == NULL || status.data < timeout.data);
	if (*ret_status)
		pieces->status = fsdp_words_behind(status, status_words);
	else if (timeout.data != NULL)
		pieces->timeout = fsdp_words_behind(timeout, timeout_words);
	return *ret_status ? status : timeout;
}

static bool take_message(struct fsdp_watchdog *watchdog, struct fsdp_span front,
	struct fsdp_span message, bool is_status)
{
	struct fsdp_watchdog_line line;
	bool known;
	if (!take_front(watchdog, front, &line, &known))
		return false;
	if (is_status)
		take_status(front, message, &line);
	else if (!take_work(watchdog, message, &line))
		return false;
	fsdp_watchdog_hear_of(
		watchdog, fsdp_words_number_behind(front, "timeout from  rank "));
	if (!known || (line.seq == FSDP_ABSENT && line.enqueued == FSDP_ABSENT))
		return true;
	return fsdp_vec_add(&watchdog->lines, &line);
}

/* Exceptions by their first words. The rank stands before or after these. */
static const struct {
	const char *words;
	bool with_words; /* they belong to the text */
	enum fsdp_watchdog_failure failure;
} exceptions[] = {
	{ "terminated with exception: ", false, FSDP_WATCHDOG_OWN },
	{ "raised the following async exception: ", false, FSDP_WATCHDOG_OWN },
	{ "found async exception when checking for NCCL errors: ", false,
		FSDP_WATCHDOG_OWN },
	{ "watchdog got stuck for ", true, FSDP_WATCHDOG_HANGS },
	{ "Forward order differs across ranks: ", true, FSDP_WATCHDOG_ORDERS },
	{ "Forward order differs from that of the first iteration ", true,
		FSDP_WATCHDOG_FOLLOWS },
};

/* Errors that a rank has because another one is gone. */
static bool is_of_peer(struct fsdp_span text)
{
	static const char *const parts[] = { "remote process exited", "remote error",
		"ncclRemoteError", "Connection closed", "Connection reset" };
	for (size_t i = 0; i < FSDP_COUNT(parts); i++)
		if (fsdp_words_behind(text, parts[i]).data != NULL)
			return true;
	return false;
}

/* "rank 0 is all-gathering …", as *said; false: no such rank. */
static bool take_rank_of_order(struct fsdp_span *text, int64_t *ret_rank)
{
	*text = fsdp_words_behind(*text, "rank ");
	return text->data != NULL && fsdp_words_number(text, ret_rank) &&
	       fsdp_watchdog_is_rank(*ret_rank);
}

/* False: out of memory. */
static bool take_exception(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	enum { LONGEST = 200 };
	size_t i = 0;
	struct fsdp_span text = { 0 };
	struct fsdp_watchdog_line said;
	bool known;
	for (; i < FSDP_COUNT(exceptions); i++)
		if ((text = fsdp_words_behind(line, exceptions[i].words)).data != NULL)
			break;
	/* A timeout has a line of its own. */
	if (text.data == NULL ||
		fsdp_words_behind(text, "collective operation timeout").data != NULL)
		return true;
	if (!take_front(watchdog, fsdp_words_up_to(line, text.data), &said, &known))
		return false;
	struct fsdp_watchdog_exception one = { .rank = said.rank,
		.time_ns = said.time_ns,
		.other = FSDP_ABSENT,
		.failure = exceptions[i].failure };
	struct fsdp_span rest = text;
	if (one.failure == FSDP_WATCHDOG_ORDERS)
		known = take_rank_of_order(&rest, &one.rank) &&
			take_rank_of_order(&rest, &one.other);
	else if (!known)
		known = take_rank_of_order(&rest, &one.rank);
	if (!known)
		return true;
	fsdp_watchdog_hear_of(watchdog, one.rank);
	fsdp_watchdog_hear_of(watchdog, one.other);
	if (exceptions[i].with_words)
		text = fsdp_span(text.data - strlen(exceptions[i].words),
			text.size + strlen(exceptions[i].words));
	if (one.failure == FSDP_WATCHDOG_OWN && is_of_peer(text))
		one.failure = FSDP_WATCHDOG_FOLLOWS;
	text = fsdp_words_without_blanks(
		fsdp_span(text.data, fsdp_min(text.size, LONGEST)));
	one.text = fsdp_arena_copy(watchdog->lines.arena, text);
	return one.text.data != NULL && fsdp_vec_add(&watchdog->exceptions, &one);
}

bool fsdp_watchdog_take(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	int64_t rank;
	bool is_status, next_is_status, is_gloo;
	struct pieces pieces = pieces_of(line);
	struct fsdp_span rest = line, message = next_message(&pieces, &is_status), next;
	if (!take_exception(watchdog, line))
		return false;
	if (message.data == NULL) {
		if (fsdp_watchdog_global_rank(line, &rank))
			fsdp_watchdog_hear_of(watchdog, rank);
		if (!fsdp_watchdog_take_gloo(watchdog, line, &is_gloo))
			return false;
		return line.size == 0 || is_gloo || take_report(watchdog, line);
	}
	for (; message.data != NULL; message = next, is_status = next_is_status) {
		struct fsdp_span front = fsdp_words_up_to(rest, message.data);
		next = next_message(&pieces, &next_is_status);
		struct fsdp_span own = next.data != NULL
					       ? fsdp_words_up_to(message, next.data)
					       : message;
		if (!take_message(watchdog, front, own, is_status))
			return false;
		rest = message;
	}
	return true;
}
