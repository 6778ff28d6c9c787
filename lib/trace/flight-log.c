/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what the watchdog of ProcessGroupNCCL prints, whatever a launcher, a logger or a
 * progress bar put before it. Ranks that write at once may share a line, so a line is cut
 * into pieces, each up to the end of one message.
 */
#include <stdlib.h>

#include "base/num.h"
#include "trace/flight-log.h"
#include "trace/flight.h"

/* ---- words and numbers in a line ---- */

/* Results are parts of the line; data NULL: not found, and nothing is found in that. */

static struct fsdp_span words_behind(struct fsdp_span text, const char *words)
{
	size_t size = strlen(words);
	const unsigned char *at =
		size <= text.size ? memmem(text.data, text.size, words, size) : NULL;
	if (at == NULL)
		return (struct fsdp_span){ 0 };
	at += size;
	return fsdp_span(at, (size_t)(text.data + text.size - at));
}

static struct fsdp_span words_behind_last(struct fsdp_span text, const char *words)
{
	struct fsdp_span last = { 0 };
	for (text = words_behind(text, words); text.data != NULL;
		text = words_behind(text, words))
		last = text;
	return last;
}

static struct fsdp_span words_up_to(struct fsdp_span text, const unsigned char *end)
{
	return fsdp_span(text.data, (size_t)(end - text.data));
}

static bool words_number(struct fsdp_span *text, int64_t *ret_number)
{
	bool negative = text->size != 0 && text->data[0] == '-';
	size_t at = negative, begin = at;
	int64_t number = 0;
	for (; at < text->size && fsdp_is_digit(text->data[at]); at++)
		if (__builtin_mul_overflow(number, 10, &number) ||
			__builtin_add_overflow(number, text->data[at] - '0', &number))
			return false;
	if (at == begin)
		return false;
	*ret_number = negative ? -number : number;
	*text = fsdp_span(text->data + at, text->size - at);
	return true;
}

/* FSDP_ABSENT too if something that cannot belong to it follows: a line that is cut off may
 * have cut the number. */
static int64_t words_number_behind(struct fsdp_span text, const char *word)
{
	int64_t number;
	struct fsdp_span at = words_behind(text, word);
	if (at.data == NULL || !words_number(&at, &number) || at.size == 0)
		return FSDP_ABSENT;
	return number;
}

static struct fsdp_span words_before(struct fsdp_span text, const char *words)
{
	struct fsdp_span rest = words_behind(text, words);
	return rest.data != NULL ? words_up_to(text, rest.data - strlen(words)) : rest;
}

static struct fsdp_span words_without_blanks(struct fsdp_span text)
{
	while (text.size != 0 && text.data[text.size - 1] == ' ')
		text.size--;
	while (text.size != 0 && text.data[0] == ' ')
		text = fsdp_span(text.data + 1, text.size - 1);
	return text;
}

uint32_t fsdp_watchdog_group(
	struct fsdp_names *groups, struct fsdp_span name, struct fsdp_span desc)
{
	uint32_t id = fsdp_names_child(groups, 0, name);
	return id != FSDP_NONE ? fsdp_names_child(groups, id, desc) : id;
}

static void hear_of(struct fsdp_watchdog *watchdog, int64_t rank)
{
	if (fsdp_watchdog_is_rank(rank) && rank > watchdog->highest_rank)
		watchdog->highest_rank = rank;
}

/* The rank of the job, in the last "[rank5]". */
static bool global_rank(struct fsdp_span front, int64_t *ret_rank)
{
	bool found = false;
	for (struct fsdp_span at = words_behind(front, "[rank"); at.data != NULL;
		at = words_behind(at, "[rank")) {
		int64_t rank;
		struct fsdp_span number = at;
		if (!words_number(&number, &rank) || !fsdp_watchdog_is_rank(rank) ||
			number.size == 0 || number.data[0] != ']')
			continue;
		*ret_rank = rank;
		found = true;
	}
	return found;
}

/* In "E1206 18:44:12.715298746 " month, day and time of the host, or FSDP_ABSENT. */
static int64_t time_in(struct fsdp_span front)
{
	static const int before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304,
		334 };
	static const char *const levels[] = { "[E", "[F", "[W", "[I" };
	struct fsdp_span at = { 0 };
	int64_t date, hour, minute, second, part = 0;
	for (size_t i = 0; i < FSDP_COUNT(levels) && at.data == NULL; i++)
		at = words_behind_last(front, levels[i]);
	if (at.data == NULL || !words_number(&at, &date) || date < 101 || date > 1231 ||
		date / 100 > 12 || date % 100 < 1 || date % 100 > 31 || at.size < 2)
		return FSDP_ABSENT;
	at = fsdp_span(at.data + 1, at.size - 1);
	if (!words_number(&at, &hour) || (at = words_behind(at, ":")).data == NULL ||
		!words_number(&at, &minute) ||
		(at = words_behind(at, ":")).data == NULL ||
		!words_number(&at, &second) || hour < 0 || hour > 23 || minute < 0 ||
		minute > 59 || second < 0 || second > 60)
		return FSDP_ABSENT;
	if (at.size > 1 && at.data[0] == '.')
		for (size_t i = 1, unit = 100000000;
			i < at.size && fsdp_is_digit(at.data[i]) && unit != 0;
			i++, unit /= 10)
			part += (at.data[i] - '0') * (int64_t)unit;
	int64_t day = before[date / 100 - 1] + date % 100 - 1;
	return (((day * 24 + hour) * 60 + minute) * 60 + second) * 1000000000 + part;
}

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
	struct fsdp_span at = words_behind_last(front, "Rank "), number = at;
	if (at.data == NULL || !words_number(&number, ret_rank) ||
		!fsdp_watchdog_is_rank(*ret_rank) || number.size == 0 ||
		number.data[0] != ']')
		return false;
	struct fsdp_span before = words_up_to(front, at.data - strlen("Rank "));
	struct fsdp_span named = words_behind_last(before, "[PG ");
	bool whole = named.data != NULL && memchr(named.data, ']', named.size) == NULL;
	*ret_inside = whole ? named : (struct fsdp_span){ 0 };
	return true;
}

/* "ID 0 PG GUID 0(default_pg) ", "0 (default_pg) ", "GUID 1 ": the name and, in
 * brackets, the description. Group 0 is the default one even if it has none. */
static bool take_group(
	struct fsdp_watchdog *watchdog, struct fsdp_span inside, uint32_t *ret_group)
{
	struct fsdp_span guid = words_behind_last(inside, "GUID "), desc = { 0 };
	struct fsdp_span name = words_without_blanks(guid.data != NULL ? guid : inside);
	if (name.size != 0 && name.data[name.size - 1] == ')') {
		size_t open = name.size;
		while (open != 0 && name.data[open - 1] != '(')
			open--;
		if (open != 0) {
			desc = fsdp_span(name.data + open, name.size - open - 1);
			name = words_without_blanks(fsdp_span(name.data, open - 1));
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
	line->time_ns = time_in(front);
	bool bracketed = find_brackets(front, &inside, &line->rank);
	bool global = global_rank(front, &line->rank);
	*ret_known = bracketed || global;
	if (*ret_known)
		hear_of(watchdog, line->rank);
	return inside.data == NULL || take_group(watchdog, inside, &line->group);
}

/* ---- messages ---- */

/* "ALLREDUCE" of "OpType=ALLREDUCE, ". */
static bool take_op(struct fsdp_watchdog *watchdog, struct fsdp_span work,
	struct fsdp_watchdog_line *line)
{
	struct fsdp_span at = words_behind(work, "OpType=");
	size_t size = 0;
	while (size < at.size && at.data[size] != ',' && at.data[size] != ')')
		size++;
	return size == at.size || fold_op(watchdog, fsdp_span(at.data, size), &line->op);
}

/* The text in the brackets of "WorkNCCL(…) ran for 600020 milliseconds". */
static bool take_work(struct fsdp_watchdog *watchdog, struct fsdp_span work,
	struct fsdp_watchdog_line *line)
{
	line->seq = words_number_behind(work, "SeqNum=");
	line->numel_in = words_number_behind(work, "NumelIn=");
	line->numel_out = words_number_behind(work, "NumelOut=");
	line->timeout_ms = words_number_behind(work, "Timeout(ms)=");
	line->ran_ms = words_number_behind(work, ") ran for ");
	if (line->ran_ms < 0 || line->ran_ms > INT64_MAX / 1000000)
		line->ran_ms = FSDP_ABSENT;
	return take_op(watchdog, work, line);
}

/* "work: 5" after "last enqueued " or "last completed ", maybe with NCCL between. The
 * numbers of PyTorch 2.3 are not set before the first work: more than could be. */
static int64_t status_number(struct fsdp_span text)
{
	int64_t number;
	struct fsdp_span at = words_behind(text, "work: ");
	if (at.data == NULL || at.data - text.data > 24 || !words_number(&at, &number) ||
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
	struct fsdp_span completed = words_behind(status, "last completed ");
	for (size_t i = 0; i < FSDP_COUNT(works) && line->seq == FSDP_ABSENT; i++)
		line->seq = words_number_behind(front, works[i]);
	line->enqueued = status_number(status);
	if (completed.data != NULL && line->enqueued != FSDP_ABSENT)
		line->completed = status_number(completed);
	if (line->completed > line->enqueued)
		line->completed = FSDP_ABSENT;
}

/* ---- the report of ranks that part ---- */

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

/* Of a rank that a message is about; the one that prints it is `own`. */
static bool add_line(struct fsdp_watchdog *watchdog, struct fsdp_watchdog_line line,
	int64_t rank, bool own)
{
	if (!fsdp_watchdog_is_rank(rank))
		return true;
	hear_of(watchdog, rank);
	line.rank = rank;
	line.told = !own;
	return fsdp_vec_add(&watchdog->lines, &line);
}

/* The same of each rank in "1, 2". */
static bool add_ranks(struct fsdp_watchdog *watchdog, struct fsdp_span list,
	struct fsdp_watchdog_line line, bool own)
{
	int64_t rank;
	while (words_number(&list, &rank) && fsdp_watchdog_is_rank(rank)) {
		if (!add_line(watchdog, line, rank, own))
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
	return text->data != NULL && words_number(text, ret_seq) && *ret_seq >= 0 &&
	       *ret_seq < INT64_MAX / 2;
}

/* "#5 started ranks:" */
static bool begins_snapshot(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	struct fsdp_span head = words_before(line, " started ranks:");
	if (head.data == NULL)
		head = words_before(line, " finished ranks:");
	if (head.data == NULL)
		return false;
	head = words_behind_last(head, "#");
	if (!take_work_number(&head, &watchdog->snapshot))
		watchdog->snapshot = FSDP_ABSENT;
	return true;
}

/* Its lines by the words after a list of ranks, and the place of the number of the
 * work. */
static const struct {
	const char *words;
	enum { OF_SNAPSHOT, BEHIND_OP, BEHIND, NEVER } number;
	bool waits;   /* in that work; then not after it */
	int64_t less; /* that was completed */
} reports[] = {
	{ " started ", OF_SNAPSHOT, true, 1 },
	{ " finished ", OF_SNAPSHOT, false, 0 },
	{ " Timeout at collective: ", BEHIND_OP, true, 0 },
	{ " joined but didn't finish collective #", BEHIND, false, 1 },
	{ " finished collective #", BEHIND, false, 0 },
	{ " are the lagging ranks that caused this timeout.", NEVER, false, 0 },
};

/* All lines have a number of a work, but those of a snapshot, which follow each other, and
 * the one about ranks that never joined. */
static bool take_report(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	bool number = memchr(line.data, '#', line.size) != NULL;
	bool listed = watchdog->snapshot != FSDP_ABSENT && !number;
	if (number && begins_snapshot(watchdog, line))
		return true;
	if (!listed)
		watchdog->snapshot = FSDP_ABSENT;
	for (size_t i = 0; i < FSDP_COUNT(reports); i++) {
		struct fsdp_watchdog_line says = fsdp_watchdog_blank();
		struct fsdp_span list, at = words_behind(line, reports[i].words), tail;
		int64_t seq = watchdog->snapshot;
		if (at.data == NULL || (reports[i].number == OF_SNAPSHOT) != listed)
			continue;
		tail = reports[i].number == BEHIND_OP ? words_behind_last(at, ", #") : at;
		if ((reports[i].number == BEHIND || reports[i].number == BEHIND_OP) &&
			!take_work_number(&tail, &seq))
			continue;
		if (!find_list(words_before(line, reports[i].words), &list)) {
			watchdog->snapshot = FSDP_ABSENT;
			return true;
		}
		if (reports[i].number == NEVER)
			seq = -1;
		if (reports[i].waits)
			says.seq = seq;
		if (reports[i].number == BEHIND_OP) {
			at = words_before(at, ", #");
		} else {
			says.enqueued = seq;
			says.completed = seq - reports[i].less;
		}
		if (reports[i].waits || reports[i].number == OF_SNAPSHOT)
			if (!fold_op(watchdog, words_without_blanks(at), &says.op))
				return false;
		return add_ranks(watchdog, list, says, true);
	}
	return true;
}

/* ---- gloo ---- */

static bool fresh_line(struct fsdp_watchdog *watchdog, const char *group,
	struct fsdp_watchdog_line *ret_line)
{
	*ret_line = fsdp_watchdog_blank();
	ret_line->group = fsdp_watchdog_group(
		&watchdog->groups, fsdp_span_text(group), FSDP_SPAN(""));
	return ret_line->group != FSDP_NONE;
}

/* Messages count ranks within the group. The text before one may have the rank of the
 * job: if the two differ, the other ranks are unknown. */
static int64_t rank_of_job(
	struct fsdp_watchdog *watchdog, struct fsdp_span front, int64_t rank)
{
	int64_t global = rank;
	if (global_rank(front, &global) && global != rank)
		watchdog->numbers_differ = true;
	return global;
}

/* ---- a monitored barrier ---- */

static const char failed[] = " failed to pass monitoredBarrier in ";
static const char reached[] =
	" successfully reached monitoredBarrier, but received errors";

/* "[Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 4000 ms" */
static bool take_failed(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	struct fsdp_span front = words_before(line, failed);
	struct fsdp_span own = words_behind_last(front, "[Rank "), list = own;
	struct fsdp_watchdog_line says;
	int64_t rank;
	if (!words_number(&list, &rank) || !fsdp_watchdog_is_rank(rank))
		return true;
	list = words_behind(list, "]: Rank");
	if (list.size != 0 && list.data[0] == 's')
		list = fsdp_span(list.data + 1, list.size - 1);
	if (!fresh_line(watchdog, FSDP_FLIGHT_BARRIER, &says))
		return false;
	says.enqueued = says.completed = -1;
	if (!add_ranks(watchdog, words_without_blanks(list), says, false))
		return false;
	says.seq = says.enqueued = 0;
	says.op = FSDP_SPAN("monitored_barrier");
	says.time_ns = time_in(front);
	says.timeout_ms = says.ran_ms = words_number_behind(line, failed);
	if (says.ran_ms > INT64_MAX / 1000000)
		says.timeout_ms = says.ran_ms = FSDP_ABSENT;
	return add_line(watchdog, says, rank_of_job(watchdog, front, rank), true);
}

/* "Rank 3 successfully reached monitoredBarrier, but received errors …" */
static bool take_reached(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	struct fsdp_span front = words_before(line, reached);
	struct fsdp_span number = words_behind_last(front, "Rank ");
	struct fsdp_watchdog_line says;
	int64_t rank;
	if (!words_number(&number, &rank) || number.size != 0)
		return true;
	if (!fresh_line(watchdog, FSDP_FLIGHT_BARRIER, &says))
		return false;
	says.seq = says.enqueued = 0;
	says.completed = -1;
	says.op = FSDP_SPAN("monitored_barrier");
	return add_line(watchdog, says, rank_of_job(watchdog, front, rank), true);
}

/* ---- calls that differ ---- */

static const char print[] = "CollectiveFingerPrint(";

/* What is between two words; size 0: nothing. */
static struct fsdp_span between(struct fsdp_span text, const char *begin, const char *end)
{
	struct fsdp_span found = words_before(words_behind(text, begin), end);
	return found.data != NULL ? found : FSDP_SPAN("");
}

/* The product of "4, 8", or FSDP_ABSENT. */
static int64_t count_elements(struct fsdp_span shape)
{
	int64_t product = 1, dim;
	while (shape.size != 0) {
		if (!words_number(&shape, &dim) || dim < 0 ||
			__builtin_mul_overflow(product, dim, &product))
			return FSDP_ABSENT;
		while (shape.size != 0 && !fsdp_is_digit(shape.data[0]))
			shape = fsdp_span(shape.data + 1, shape.size - 1);
	}
	return product;
}

static bool copy(struct fsdp_arena *arena, struct fsdp_span *text)
{
	*text = fsdp_arena_copy(arena, *text);
	return text->data != NULL;
}

/* "SequenceNumber=1, OpType=ALLREDUCE, TensorShape=[4], TensorDtypes=Float, TensorDevi…";
 * without a tensor only the first two, with nothing between. PyTorch 1.x has no number. */
static bool take_call(struct fsdp_watchdog *watchdog, struct fsdp_span call,
	struct fsdp_watchdog_line *says)
{
	struct fsdp_arena *arena = watchdog->lines.arena;
	says->seq = words_number_behind(call, "SequenceNumber=");
	if (says->seq < 0 || says->seq >= INT64_MAX / 2)
		says->seq = 0;
	says->enqueued = says->seq;
	says->shape = between(call, "TensorShape=[", "]");
	says->dtypes = between(call, "TensorDtypes=", ", TensorDeviceTypes=");
	if (says->dtypes.size != 0)
		says->numel_in = count_elements(says->shape);
	return take_op(watchdog, call, says) && copy(arena, &says->shape) &&
	       copy(arena, &says->dtypes);
}

/* A rank reads what others send as if it had the length of its own: if numbers of
 * tensors or dimensions differ, it prints a call that no rank made. */
static bool is_misread(
	const struct fsdp_watchdog_line *own, const struct fsdp_watchdog_line *other)
{
	size_t commas[2] = { 0, 0 };
	for (size_t i = 0; i < own->shape.size; i++)
		commas[0] += own->shape.data[i] == ',';
	for (size_t i = 0; i < other->shape.size; i++)
		commas[1] += other->shape.data[i] == ',';
	return commas[0] != commas[1] ||
	       (own->dtypes.size == 0) != (other->dtypes.size == 0) ||
	       (own->shape.size == 0) != (other->shape.size == 0);
}

enum { MOST_BEFORE = 4096 };

/* Ranks are compared in their order: those before the first that differs call the
 * same. One message of a log shows that. */
static bool add_other(struct fsdp_watchdog *watchdog, struct fsdp_span rest,
	const struct fsdp_watchdog_line *own, int64_t own_rank)
{
	struct fsdp_span number = words_behind(rest, ", but Rank ");
	struct fsdp_span call = words_behind(rest, print);
	struct fsdp_watchdog_line says = *own;
	int64_t other;
	if (call.data == NULL || !words_number(&number, &other) || other < 0)
		return true;
	for (int64_t rank = watchdog->told_before ? other : 0;
		rank < other && rank < MOST_BEFORE; rank++)
		if (rank != own_rank && !add_line(watchdog, says, rank, false))
			return false;
	watchdog->told_before = true;
	if (!take_call(watchdog, call, &says))
		return false;
	if (is_misread(own, &says)) {
		says.op = FSDP_SPAN("unknown");
		says.shape = says.dtypes = FSDP_SPAN("");
		says.numel_in = FSDP_ABSENT;
	}
	says.seq = own->seq;
	says.enqueued = own->enqueued;
	return add_line(watchdog, says, other, false);
}

/* "… Rank 0 is running collective: CollectiveFingerPrint(…), but Rank 1 is running
 * collective: CollectiveFingerPrint(…).Collectives differ …" */
static bool take_differ(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	struct fsdp_span front = words_before(line, print);
	struct fsdp_span call = words_behind(line, print);
	struct fsdp_span number = words_behind_last(front, "Rank ");
	struct fsdp_span rest = words_behind(call, ", but Rank ");
	struct fsdp_watchdog_line says;
	int64_t rank;
	if (!words_number(&number, &rank) || !fsdp_watchdog_is_rank(rank))
		return true;
	if (rest.data != NULL)
		call = words_before(call, ", but Rank ");
	return fresh_line(watchdog, FSDP_FLIGHT_DIFFER, &says) &&
	       take_call(watchdog, call, &says) &&
	       add_line(watchdog, says, rank_of_job(watchdog, front, rank), true) &&
	       (rest.data == NULL ||
		       add_other(watchdog, words_behind(line, print), &says, rank));
}

static bool take_gloo(
	struct fsdp_watchdog *watchdog, struct fsdp_span line, bool *ret_taken)
{
	*ret_taken = true;
	if (words_behind(line, print).data != NULL)
		return take_differ(watchdog, line);
	*ret_taken = words_behind(line, "monitoredBarrier").data != NULL;
	if (!*ret_taken)
		return true;
	return words_behind(line, failed).data != NULL
		       ? take_failed(watchdog, line)
		       : words_behind(line, reached).data == NULL ||
				 take_reached(watchdog, line);
}

/* ---- as dumps have it ---- */

/* "4, 8" as the only list of sizes. False: out of memory. */
static bool pack_shape(
	struct fsdp_arena *arena, struct fsdp_span shape, struct fsdp_span *ret_sizes)
{
	int64_t *packed = FSDP_TAKE(arena, packed, shape.size + 2), dim;
	if (packed == NULL)
		return false;
	packed[0] = 1;
	while (words_number(&shape, &dim)) {
		packed[2 + packed[1]++] = dim;
		if (shape.size < 2)
			break;
		shape = fsdp_span(shape.data + 2, shape.size - 2);
	}
	*ret_sizes = fsdp_span(packed, (2 + (size_t)packed[1]) * sizeof *packed);
	return true;
}

/* "Float, Double" */
static bool pack_dtypes(
	struct fsdp_arena *arena, struct fsdp_span dtypes, struct fsdp_span *ret_dtypes)
{
	int64_t count = 0, size;
	unsigned char *packed = FSDP_TAKE(arena, packed,
			      (dtypes.size + 1) * sizeof count + dtypes.size),
		      *to = packed + sizeof count;
	if (packed == NULL)
		return false;
	for (; dtypes.size != 0; count++) {
		struct fsdp_span one = words_before(dtypes, ", ");
		one = one.data != NULL ? one : dtypes;
		size = (int64_t)one.size;
		memcpy(to, &size, sizeof size);
		memcpy(to + sizeof size, one.data, one.size);
		to += sizeof size + one.size;
		dtypes = words_behind(dtypes, ", ");
	}
	memcpy(packed, &count, sizeof count);
	*ret_dtypes = fsdp_span(packed, (size_t)(to - packed));
	return true;
}

bool fsdp_watchdog_pack_call(struct fsdp_arena *arena,
	const struct fsdp_watchdog_line *line, struct fsdp_flight_called *call)
{
	static const int64_t none = 0;
	call->lists[FSDP_FLIGHT_OUTPUT_DTYPES] = fsdp_span(&none, sizeof none);
	return pack_shape(arena, line->shape, &call->lists[FSDP_FLIGHT_INPUT_SIZES]) &&
	       pack_dtypes(arena, line->dtypes, &call->lists[FSDP_FLIGHT_INPUT_DTYPES]);
}

/* ---- lines ---- */

static const char timeout_words[] = "Watchdog caught collective operation timeout: Work";
static const char status_words[] = "ast enqueued ";

/* A line in pieces. Each of the two kinds is looked for once: many of one do not make the
 * search for the other long. */
struct pieces {
	struct fsdp_span timeout, status; /* after the next of each; data NULL: none */
};

static struct pieces pieces_of(struct fsdp_span line)
{
	return (struct pieces){ words_behind(line, timeout_words),
		words_behind(line, status_words) };
}

/* The text after the words of the next message, and its kind. */
static struct fsdp_span next_message(struct pieces *pieces, bool *ret_status)
{
	struct fsdp_span timeout = pieces->timeout, status = pieces->status;
	*ret_status = status.data != NULL &&
		      (timeout.data == NULL || status.data < timeout.data);
	if (*ret_status)
		pieces->status = words_behind(status, status_words);
	else if (timeout.data != NULL)
		pieces->timeout = words_behind(timeout, timeout_words);
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
	hear_of(watchdog, words_number_behind(front, "timeout from  rank "));
	if (!known || (line.seq == FSDP_ABSENT && line.enqueued == FSDP_ABSENT))
		return true;
	return fsdp_vec_add(&watchdog->lines, &line);
}

/* Exceptions by their first words. The rank is before or after these. */
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
	{ "/gloo/transport/tcp/", false, FSDP_WATCHDOG_FOLLOWS },
};

/* Errors that a rank has because another one is gone. */
static bool is_of_peer(struct fsdp_span text)
{
	static const char *const parts[] = { "remote process exited", "remote error",
		"ncclRemoteError", "Connection closed", "Connection reset",
		"SignalException", "Broken pipe" };
	for (size_t i = 0; i < FSDP_COUNT(parts); i++)
		if (words_behind(text, parts[i]).data != NULL)
			return true;
	return false;
}

/* "[rank2]: torch.OutOfMemoryError: CUDA out of memory": what PyTorch prints before each
 * line of an exception of Python. data NULL: it is not one, or it has lines of its own. */
static struct fsdp_span find_python_error(struct fsdp_span line)
{
	static const char *const others[] = { "imed out", "imeout", "monitoredBarrier",
		"CollectiveFingerPrint", "Detected mismatch" };
	struct fsdp_span text = words_behind(line, "[rank"), none = { 0 }, kind;
	int64_t rank;
	if (text.data == NULL || !words_number(&text, &rank) ||
		!fsdp_span_behind(text, "]: ", &text))
		return none;
	kind = fsdp_span_first(text, ':');
	for (size_t i = 0; i < kind.size; i++) {
		unsigned char c = kind.data[i];
		if (!fsdp_is_digit(c) && c != '.' && c != '_' &&
			((c | 0x20) < 'a' || (c | 0x20) > 'z'))
			return none;
	}
	if (!fsdp_span_ends(kind, FSDP_SPAN("Error")) &&
		!fsdp_span_ends(kind, FSDP_SPAN("Exception")))
		return none;
	for (size_t i = 0; i < FSDP_COUNT(others); i++)
		if (words_behind(text, others[i]).data != NULL)
			return none;
	return text;
}

/* "rank 0 is all-gathering …", as *said; false: no such rank. */
static bool take_rank_of_order(struct fsdp_span *text, int64_t *ret_rank)
{
	*text = words_behind(*text, "rank ");
	return text->data != NULL && words_number(text, ret_rank) &&
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
		if ((text = words_behind(line, exceptions[i].words)).data != NULL)
			break;
	if (i == FSDP_COUNT(exceptions))
		text = find_python_error(line);
	/* A timeout has a line of its own. */
	if (text.data == NULL ||
		words_behind(text, "collective operation timeout").data != NULL)
		return true;
	if (!take_front(watchdog, words_up_to(line, text.data), &said, &known))
		return false;
	struct fsdp_watchdog_exception one = { .rank = said.rank,
		.time_ns = said.time_ns,
		.other = FSDP_ABSENT,
		.failure = i < FSDP_COUNT(exceptions) ? exceptions[i].failure
						      : FSDP_WATCHDOG_OWN };
	struct fsdp_span rest = text;
	if (one.failure == FSDP_WATCHDOG_ORDERS)
		known = take_rank_of_order(&rest, &one.rank) &&
			take_rank_of_order(&rest, &one.other);
	else if (!known)
		known = take_rank_of_order(&rest, &one.rank);
	if (!known)
		return true;
	hear_of(watchdog, one.rank);
	hear_of(watchdog, one.other);
	if (i < FSDP_COUNT(exceptions) && exceptions[i].with_words)
		text = fsdp_span(text.data - strlen(exceptions[i].words),
			text.size + strlen(exceptions[i].words));
	/* "unbound_buffer.cc:78] Timed out waiting 4000ms for recv operation to complete" */
	struct fsdp_span behind_place = words_behind(text, "] ");
	if (i < FSDP_COUNT(exceptions) && exceptions[i].words[0] == '/' &&
		behind_place.data != NULL)
		text = behind_place;
	if (one.failure == FSDP_WATCHDOG_OWN && is_of_peer(text))
		one.failure = FSDP_WATCHDOG_FOLLOWS;
	struct fsdp_span kind = fsdp_span_first(text, ':');
	one.by_itself = i == FSDP_COUNT(exceptions) && one.failure == FSDP_WATCHDOG_OWN &&
			!fsdp_span_ends(kind, FSDP_SPAN("RuntimeError")) &&
			!fsdp_span_begins(kind, FSDP_SPAN("torch.distributed."));
	text = words_without_blanks(fsdp_span(text.data, fsdp_min(text.size, LONGEST)));
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
		if (global_rank(line, &rank))
			hear_of(watchdog, rank);
		if (!take_gloo(watchdog, line, &is_gloo))
			return false;
		return line.size == 0 || is_gloo || take_report(watchdog, line);
	}
	for (; message.data != NULL; message = next, is_status = next_is_status) {
		struct fsdp_span front = words_up_to(rest, message.data);
		next = next_message(&pieces, &next_is_status);
		struct fsdp_span own =
			next.data != NULL ? words_up_to(message, next.data) : message;
		if (!take_message(watchdog, front, own, is_status))
			return false;
		rest = message;
	}
	return true;
}
