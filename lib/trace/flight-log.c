/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what the watchdog of ProcessGroupNCCL prints, whatever a launcher, a logger or a
 * progress bar put in front of it. Ranks that write at once may share a line, so a line
 * is cut into pieces, each up to the end of one message.
 */
#include "trace/flight-log.h"

bool fsdp_watchdog_init(struct fsdp_watchdog *watchdog, struct fsdp_arena *arena)
{
	fsdp_vec_init(&watchdog->lines, arena, sizeof(struct fsdp_watchdog_line));
	watchdog->highest_rank = -1;
	watchdog->snapshot = FSDP_ABSENT;
	if (!fsdp_names_init(&watchdog->groups, arena))
		return false;
	watchdog->groups.copies = arena;
	return true;
}

uint32_t fsdp_watchdog_group(
	struct fsdp_names *groups, struct fsdp_span name, struct fsdp_span desc)
{
	uint32_t id = fsdp_names_child(groups, 0, name);
	return id != FSDP_NONE ? fsdp_names_child(groups, id, desc) : id;
}

/* ---- words ---- */

/* What lies behind the first of these words; data NULL: they are not there. */
static struct fsdp_span behind(struct fsdp_span text, const char *words)
{
	size_t size = strlen(words);
	const unsigned char *at =
		size <= text.size ? memmem(text.data, text.size, words, size) : NULL;
	if (at == NULL)
		return (struct fsdp_span){ 0 };
	at += size;
	return fsdp_span(at, (size_t)(text.data + text.size - at));
}

/* The last of them. */
static struct fsdp_span behind_last(struct fsdp_span text, const char *words)
{
	struct fsdp_span last = { 0 };
	for (text = behind(text, words); text.data != NULL; text = behind(text, words))
		last = text;
	return last;
}

static struct fsdp_span up_to(struct fsdp_span text, const unsigned char *end)
{
	return fsdp_span(text.data, (size_t)(end - text.data));
}

static bool is_digit(unsigned char c)
{
	return c >= '0' && c <= '9';
}

/* A number, maybe negative; its end is behind it. False: none, or too large. */
static bool take_number(struct fsdp_span *text, int64_t *ret_number)
{
	bool negative = text->size != 0 && text->data[0] == '-';
	size_t at = negative, begin = at;
	int64_t number = 0;
	for (; at < text->size && is_digit(text->data[at]); at++)
		if (__builtin_mul_overflow(number, 10, &number) ||
			__builtin_add_overflow(number, text->data[at] - '0', &number))
			return false;
	if (at == begin)
		return false;
	*ret_number = negative ? -number : number;
	*text = fsdp_span(text->data + at, text->size - at);
	return true;
}

/* The number behind a word, if something that cannot belong to it follows: a line that is
 * cut off may have cut the number. */
static int64_t number_behind(struct fsdp_span text, const char *word)
{
	int64_t number;
	struct fsdp_span at = behind(text, word);
	if (at.data == NULL || !take_number(&at, &number) || at.size == 0)
		return FSDP_ABSENT;
	return number;
}

/* ---- the front of a message ---- */

static bool is_rank(int64_t rank)
{
	return rank >= 0 && rank < FSDP_WATCHDOG_RANKS;
}

static void hear_of(struct fsdp_watchdog *watchdog, int64_t rank)
{
	if (is_rank(rank) && rank > watchdog->highest_rank)
		watchdog->highest_rank = rank;
}

/* The rank of the job: the last "[rank5]" in front. */
static bool find_global_rank(struct fsdp_span front, int64_t *ret_rank)
{
	bool found = false;
	for (struct fsdp_span at = behind(front, "[rank"); at.data != NULL;
		at = behind(at, "[rank")) {
		int64_t rank;
		struct fsdp_span number = at;
		if (!take_number(&number, &rank) || !is_rank(rank) || number.size == 0 ||
			number.data[0] != ']')
			continue;
		*ret_rank = rank;
		found = true;
	}
	return found;
}

/* "E1206 18:44:12.715298746 ": month, day and time of the host. */
static int64_t time_of(struct fsdp_span front)
{
	static const int before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304,
		334 };
	struct fsdp_span at = behind_last(front, "[E");
	int64_t date, hour, minute, second, part = 0;
	if (at.data == NULL || !take_number(&at, &date) || date < 101 || date > 1231 ||
		date / 100 > 12 || date % 100 < 1 || date % 100 > 31 || at.size < 2)
		return FSDP_ABSENT;
	at = fsdp_span(at.data + 1, at.size - 1);
	if (!take_number(&at, &hour) || (at = behind(at, ":")).data == NULL ||
		!take_number(&at, &minute) || (at = behind(at, ":")).data == NULL ||
		!take_number(&at, &second) || hour < 0 || hour > 23 || minute < 0 ||
		minute > 59 || second < 0 || second > 60)
		return FSDP_ABSENT;
	if (at.size > 1 && at.data[0] == '.')
		for (size_t i = 1, unit = 100000000;
			i < at.size && is_digit(at.data[i]) && unit != 0; i++, unit /= 10)
			part += (at.data[i] - '0') * (int64_t)unit;
	int64_t day = before[date / 100 - 1] + date % 100 - 1;
	return (((day * 24 + hour) * 60 + minute) * 60 + second) * 1000000000 + part;
}

/* The last "[… Rank 3]" in front, without its bracket and what follows "Rank". */
static bool find_brackets(
	struct fsdp_span front, struct fsdp_span *ret_inside, int64_t *ret_rank)
{
	struct fsdp_span at = behind_last(front, "Rank "), number = at;
	if (at.data == NULL || !take_number(&number, ret_rank) || !is_rank(*ret_rank) ||
		number.size == 0 || number.data[0] != ']')
		return false;
	struct fsdp_span before = up_to(front, at.data - strlen("Rank "));
	struct fsdp_span named = behind_last(before, "[PG ");
	bool whole = named.data != NULL && memchr(named.data, ']', named.size) == NULL;
	*ret_inside = whole ? named : (struct fsdp_span){ 0 };
	return true;
}

static struct fsdp_span without_blanks(struct fsdp_span text)
{
	while (text.size != 0 && text.data[text.size - 1] == ' ')
		text.size--;
	while (text.size != 0 && text.data[0] == ' ')
		text = fsdp_span(text.data + 1, text.size - 1);
	return text;
}

/* "ID 0 PG GUID 0(default_pg) ", "0 (default_pg) ", "GUID 1 ": the name and, in
 * brackets, the description. Group 0 is the default one even if it has none. */
static bool take_group(
	struct fsdp_watchdog *watchdog, struct fsdp_span inside, uint32_t *ret_group)
{
	struct fsdp_span guid = behind_last(inside, "GUID "), desc = { 0 };
	struct fsdp_span name = without_blanks(guid.data != NULL ? guid : inside);
	if (name.size != 0 && name.data[name.size - 1] == ')') {
		size_t open = name.size;
		while (open != 0 && name.data[open - 1] != '(')
			open--;
		if (open != 0) {
			desc = fsdp_span(name.data + open, name.size - open - 1);
			name = without_blanks(fsdp_span(name.data, open - 1));
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
	*line = (struct fsdp_watchdog_line){ FSDP_ABSENT, FSDP_NONE, FSDP_ABSENT,
		FSDP_ABSENT, FSDP_ABSENT, FSDP_ABSENT, FSDP_ABSENT, FSDP_ABSENT,
		FSDP_ABSENT, time_of(front), FSDP_SPAN("") };
	bool bracketed = find_brackets(front, &inside, &line->rank);
	bool global = find_global_rank(front, &line->rank);
	*ret_known = bracketed || global;
	if (*ret_known)
		hear_of(watchdog, line->rank);
	return inside.data == NULL || take_group(watchdog, inside, &line->group);
}

/* ---- messages ---- */

/* A name in lower case. False: out of memory. */
static bool fold_op(
	struct fsdp_watchdog *watchdog, struct fsdp_span name, struct fsdp_span *ret_op)
{
	unsigned char *op = fsdp_arena_take(watchdog->lines.arena, name.size + 1, 1);
	if (op == NULL)
		return false;
	for (size_t i = 0; i < name.size; i++)
		op[i] = name.data[i] >= 'A' && name.data[i] <= 'Z'
				? (unsigned char)(name.data[i] - 'A' + 'a')
				: name.data[i];
	*ret_op = fsdp_span(op, name.size);
	return true;
}

/* "ALLREDUCE" of "OpType=ALLREDUCE, ". */
static bool take_op(struct fsdp_watchdog *watchdog, struct fsdp_span work,
	struct fsdp_watchdog_line *line)
{
	struct fsdp_span at = behind(work, "OpType=");
	size_t size = 0;
	while (size < at.size && at.data[size] != ',' && at.data[size] != ')')
		size++;
	return size == at.size || fold_op(watchdog, fsdp_span(at.data, size), &line->op);
}

/* What stands in the brackets of "WorkNCCL(…) ran for 600020 milliseconds". */
static bool take_work(struct fsdp_watchdog *watchdog, struct fsdp_span work,
	struct fsdp_watchdog_line *line)
{
	line->seq = number_behind(work, "SeqNum=");
	line->numel_in = number_behind(work, "NumelIn=");
	line->numel_out = number_behind(work, "NumelOut=");
	line->timeout_ms = number_behind(work, "Timeout(ms)=");
	line->ran_ms = number_behind(work, ") ran for ");
	if (line->ran_ms < 0 || line->ran_ms > INT64_MAX / 1000000)
		line->ran_ms = FSDP_ABSENT;
	return take_op(watchdog, work, line);
}

/* "work: 5" behind "last enqueued " or "last completed ", maybe with NCCL between. The
 * numbers of PyTorch 2.3 are not set before the first work: more than could be. */
static int64_t status_number(struct fsdp_span text)
{
	int64_t number;
	struct fsdp_span at = behind(text, "work: ");
	if (at.data == NULL || at.data - text.data > 24 || !take_number(&at, &number) ||
		number < -1 || number > INT64_MAX / 2)
		return FSDP_ABSENT;
	return number;
}

static void take_status(
	struct fsdp_span front, struct fsdp_span status, struct fsdp_watchdog_line *line)
{
	static const char *const works[] = {
		"at work sequence id: ", "at work: ", "at NCCL work: "
	};
	struct fsdp_span completed = behind(status, "last completed ");
	for (size_t i = 0; i < FSDP_COUNT(works) && line->seq == FSDP_ABSENT; i++)
		line->seq = number_behind(front, works[i]);
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
	struct fsdp_watchdog_line line = { FSDP_ABSENT, FSDP_NONE, says->seq,
		says->enqueued, says->completed, FSDP_ABSENT, FSDP_ABSENT, FSDP_ABSENT,
		FSDP_ABSENT, FSDP_ABSENT, says->op };
	while (take_number(&list, &line.rank) && is_rank(line.rank)) {
		hear_of(watchdog, line.rank);
		if (!fsdp_vec_add(&watchdog->lines, &line))
			return false;
		if (list.size < 2 || list.data[0] != ',' || list.data[1] != ' ')
			break;
		list = fsdp_span(list.data + 2, list.size - 2);
	}
	return true;
}

/* Where words begin; data NULL: they are not there. */
static struct fsdp_span before(struct fsdp_span text, const char *words)
{
	struct fsdp_span rest = behind(text, words);
	return rest.data != NULL ? up_to(text, rest.data - strlen(words)) : rest;
}

/* A number of a work that one may be added to. */
static bool take_work_number(struct fsdp_span *text, int64_t *ret_seq)
{
	return text->data != NULL && take_number(text, ret_seq) && *ret_seq >= 0 &&
	       *ret_seq < INT64_MAX / 2;
}

/* "[0] started ALLREDUCE" below "#5 started ranks:", or the same with "finished". */
static bool take_snapshot(
	struct fsdp_watchdog *watchdog, struct fsdp_span line, bool finished)
{
	const char *words = finished ? " finished " : " started ";
	struct reported says = { FSDP_ABSENT, watchdog->snapshot,
		watchdog->snapshot - !finished, FSDP_SPAN("") };
	struct fsdp_span list, op = behind(line, words);
	if (watchdog->snapshot == FSDP_ABSENT || op.data == NULL)
		return true;
	if (!find_list(before(line, words), &list)) {
		watchdog->snapshot = FSDP_ABSENT;
		return true;
	}
	if (!finished)
		says.seq = watchdog->snapshot;
	return fold_op(watchdog, without_blanks(op), &says.op) &&
	       add_reported(watchdog, list, &says);
}

/* "#5 started ranks:" */
static bool begins_snapshot(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	struct fsdp_span head = before(line, " started ranks:");
	if (head.data == NULL)
		head = before(line, " finished ranks:");
	if (head.data == NULL)
		return false;
	head = behind_last(head, "#");
	if (!take_work_number(&head, &watchdog->snapshot))
		watchdog->snapshot = FSDP_ABSENT;
	return true;
}

/* "[0] Timeout at collective: ALLREDUCE, #5" */
static bool take_own_timeout(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	struct fsdp_span op = behind(line, " Timeout at collective: "), list;
	struct fsdp_span number = behind_last(op, ", #");
	struct reported says = { FSDP_ABSENT, FSDP_ABSENT, FSDP_ABSENT, FSDP_SPAN("") };
	if (!find_list(before(line, " Timeout at collective: "), &list) ||
		!take_work_number(&number, &says.seq))
		return true;
	return fold_op(watchdog, before(op, ", #"), &says.op) &&
	       add_reported(watchdog, list, &says);
}

/* The ranks that the report names as behind. */
static bool take_lagging(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	static const char joined[] = " joined but didn't finish collective #";
	static const char finished[] = " finished collective #";
	static const char never[] = " are the lagging ranks that caused this timeout.";
	struct reported says = { FSDP_ABSENT, -1, -1, FSDP_SPAN("") };
	struct fsdp_span list, at = behind(line, joined);
	if (take_work_number(&at, &says.enqueued)) {
		says.completed = says.enqueued - 1;
		return !find_list(before(line, joined), &list) ||
		       add_reported(watchdog, list, &says);
	}
	at = behind(line, finished);
	if (take_work_number(&at, &says.enqueued)) {
		says.completed = says.enqueued;
		return !find_list(before(line, finished), &list) ||
		       add_reported(watchdog, list, &says);
	}
	return !find_list(before(line, never), &list) ||
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
	if (number && behind(line, " Timeout at collective: ").data != NULL)
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
	return (struct pieces){ behind(line, timeout_words), behind(line, status_words) };
}

/* What is behind the words of the next message that says something, and which it is. */
static struct fsdp_span next_message(struct pieces *pieces, bool *ret_status)
{
	struct fsdp_span timeout = pieces->timeout, status = pieces->status;
	*ret_status = status.data != NULL &&
		      (timeout.data == NULL || status.data < timeout.data);
	if (*ret_status)
		pieces->status = behind(status, status_words);
	else if (timeout.data != NULL)
		pieces->timeout = behind(timeout, timeout_words);
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
	hear_of(watchdog, number_behind(front, "timeout from  rank "));
	if (!known || (line.seq == FSDP_ABSENT && line.enqueued == FSDP_ABSENT))
		return true;
	return fsdp_vec_add(&watchdog->lines, &line);
}

bool fsdp_watchdog_take(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	int64_t rank;
	bool is_status, next_is_status;
	struct pieces pieces = pieces_of(line);
	struct fsdp_span rest = line, message = next_message(&pieces, &is_status), next;
	if (message.data == NULL) {
		if (find_global_rank(line, &rank))
			hear_of(watchdog, rank);
		return line.size == 0 || take_report(watchdog, line);
	}
	for (; message.data != NULL; message = next, is_status = next_is_status) {
		struct fsdp_span front = up_to(rest, message.data);
		next = next_message(&pieces, &next_is_status);
		struct fsdp_span own =
			next.data != NULL ? up_to(message, next.data) : message;
		if (!take_message(watchdog, front, own, is_status))
			return false;
		rest = message;
	}
	return true;
}
