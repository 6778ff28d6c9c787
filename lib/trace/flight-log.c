/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what the watchdog of ProcessGroupNCCL prints, whatever a launcher, a logger or a
 * progress bar put before it. Ranks that write at once may share a line, so a line is cut
 * into pieces, each up to the end of one message.
 */
#include "base/num.h"
#include "trace/flight.h"

/* ---- words and numbers in a line ---- */

/* Results are parts of the line; data NULL: not found, and nothing is found in that. */
static struct fsdp_span after(struct fsdp_span text, const char *words)
{
	size_t size = strlen(words);
	const unsigned char *at =
		size <= text.size ? memmem(text.data, text.size, words, size) : NULL;
	if (at == NULL)
		return (struct fsdp_span){ 0 };
	at += size;
	return fsdp_span(at, (size_t)(text.data + text.size - at));
}

static bool has(struct fsdp_span text, const char *words)
{
	return after(text, words).data != NULL;
}

static struct fsdp_span after_last(struct fsdp_span text, const char *words)
{
	struct fsdp_span last = { 0 };
	for (text = after(text, words); text.data != NULL; text = after(text, words))
		last = text;
	return last;
}

static struct fsdp_span up_to(struct fsdp_span text, const unsigned char *end)
{
	return fsdp_span(text.data, (size_t)(end - text.data));
}

static struct fsdp_span before(struct fsdp_span text, const char *words)
{
	struct fsdp_span rest = after(text, words);
	return rest.data != NULL ? up_to(text, rest.data - strlen(words)) : rest;
}

/* size 0: nothing. */
static struct fsdp_span between(struct fsdp_span text, const char *begin, const char *end)
{
	struct fsdp_span found = before(after(text, begin), end);
	return found.data != NULL ? found : FSDP_SPAN("");
}

static struct fsdp_span without_blanks(struct fsdp_span text)
{
	while (text.size != 0 && text.data[text.size - 1] == ' ')
		text.size--;
	while (text.size != 0 && text.data[0] == ' ')
		text = fsdp_span(text.data + 1, text.size - 1);
	return text;
}

static struct fsdp_span skip(struct fsdp_span text, size_t size)
{
	return fsdp_span(text.data + size, text.size - size);
}

static bool parse_number(struct fsdp_span *text, int64_t *ret_number)
{
	bool negative = text->size != 0 && text->data[0] == '-';
	size_t at = negative;
	int64_t number = 0;
	for (; at < text->size && fsdp_is_digit(text->data[at]); at++)
		if (__builtin_mul_overflow(number, 10, &number) ||
			__builtin_add_overflow(number, text->data[at] - '0', &number))
			return false;
	if (at == negative)
		return false;
	*ret_number = negative ? -number : number;
	*text = skip(*text, at);
	return true;
}

static bool parse_rank(struct fsdp_span *text, int64_t *ret_rank)
{
	return parse_number(text, ret_rank) && fsdp_watchdog_is_rank(*ret_rank);
}

/* A number of a work that one may be added to. */
static bool parse_work_number(struct fsdp_span *text, int64_t *ret_seq)
{
	return text->data != NULL && parse_number(text, ret_seq) && *ret_seq >= 0 &&
	       *ret_seq < INT64_MAX / 2;
}

/* FSDP_ABSENT too if something that cannot belong to it follows: a truncated line
 * may have cut the number. */
static int64_t number_after(struct fsdp_span text, const char *word)
{
	int64_t number;
	struct fsdp_span at = after(text, word);
	if (at.data == NULL || !parse_number(&at, &number) || at.size == 0)
		return FSDP_ABSENT;
	return number;
}

/* Milliseconds that are as many nanoseconds, not below 0; or FSDP_ABSENT. */
static int64_t ms_after(struct fsdp_span text, const char *word)
{
	int64_t ms = number_after(text, word);
	return ms >= 0 && ms <= INT64_MAX / 1000000 ? ms : FSDP_ABSENT;
}

/* ---- the front of a message ---- */

void fsdp_watchdog_init(struct fsdp_watchdog *watchdog, struct fsdp_arena *arena)
{
	fsdp_vec_init(&watchdog->lines, arena, sizeof(struct fsdp_watchdog_line));
	fsdp_vec_init(
		&watchdog->exceptions, arena, sizeof(struct fsdp_watchdog_exception));
	fsdp_vec_init(&watchdog->stacks, arena, sizeof(struct fsdp_watchdog_stack));
	watchdog->highest_rank = -1;
	watchdog->snapshot = watchdog->ended_rank = FSDP_ABSENT;
	fsdp_names_init(&watchdog->groups, arena);
	watchdog->groups.copies = arena;
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
	for (struct fsdp_span at = after(front, "[rank"); at.data != NULL;
		at = after(at, "[rank")) {
		int64_t rank;
		struct fsdp_span number = at;
		if (!parse_rank(&number, &rank) || number.size == 0 ||
			number.data[0] != ']')
			continue;
		*ret_rank = rank;
		found = true;
	}
	return found;
}

/* In "E1206 18:44:12.715298746 " month, day and time of the host, or FSDP_ABSENT. */
static int64_t time_in(struct fsdp_span front)
{
	static const int days[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304,
		334 };
	static const char *const levels[] = { "[E", "[F", "[W", "[I" };
	struct fsdp_span at = { 0 };
	int64_t date, hour, minute, second, part = 0;
	for (size_t i = 0; i < FSDP_COUNT(levels) && at.data == NULL; i++)
		at = after_last(front, levels[i]);
	if (at.data == NULL || !parse_number(&at, &date) || date < 101 || date > 1231 ||
		date % 100 < 1 || date % 100 > 31 || at.size < 2)
		return FSDP_ABSENT;
	at = skip(at, 1);
	if (!parse_number(&at, &hour) || (at = after(at, ":")).data == NULL ||
		!parse_number(&at, &minute) || (at = after(at, ":")).data == NULL ||
		!parse_number(&at, &second) || hour < 0 || hour > 23 || minute < 0 ||
		minute > 59 || second < 0 || second > 60)
		return FSDP_ABSENT;
	if (at.size > 1 && at.data[0] == '.')
		for (size_t i = 1, unit = 100000000;
			i < at.size && fsdp_is_digit(at.data[i]) && unit != 0;
			i++, unit /= 10)
			part += (at.data[i] - '0') * (int64_t)unit;
	int64_t day = days[date / 100 - 1] + date % 100 - 1;
	return (((day * 24 + hour) * 60 + minute) * 60 + second) * 1000000000 + part;
}

uint32_t fsdp_watchdog_group(
	struct fsdp_names *groups, struct fsdp_span name, struct fsdp_span desc)
{
	return fsdp_names_child(groups, fsdp_names_child(groups, 0, name), desc);
}

/* Whose message it is and when it was printed. False: it does not say so, in the last
 * "[… Rank 3]" or in "[rank3]". */
static bool parse_front(struct fsdp_watchdog *watchdog, struct fsdp_span front,
	struct fsdp_watchdog_line *line)
{
	struct fsdp_span at = after_last(front, "Rank "), number = at, inside = { 0 };
	*line = fsdp_watchdog_blank();
	line->time_ns = time_in(front);
	bool known = at.data != NULL && parse_rank(&number, &line->rank) &&
		     number.size != 0 && number.data[0] == ']';
	if (known)
		inside = after_last(up_to(front, at.data - strlen("Rank ")), "[PG ");
	known |= global_rank(front, &line->rank);
	if (known)
		hear_of(watchdog, line->rank);
	if (inside.data != NULL && memchr(inside.data, ']', inside.size) == NULL) {
		/* "ID 0 PG GUID 0(default_pg) ", "0 (default_pg) ", "GUID 1 ": the name
		 * and, in brackets, the description. Group 0 is the default one even if
		 * it has none. */
		struct fsdp_span guid = after_last(inside, "GUID "), desc = { 0 };
		struct fsdp_span name = without_blanks(guid.data != NULL ? guid : inside);
		if (name.size != 0 && name.data[name.size - 1] == ')') {
			struct fsdp_span last = fsdp_span_last(name, '(');
			if (last.size < name.size) {
				desc = fsdp_span(last.data, last.size - 1);
				name = without_blanks(up_to(name, last.data - 1));
			}
		}
		if (desc.size == 0)
			desc = fsdp_span_is(name, "0") ? FSDP_SPAN("default_pg")
						       : FSDP_SPAN("");
		line->group = fsdp_watchdog_group(&watchdog->groups, name, desc);
	}
	return known;
}

/* ---- messages ---- */

/* "ALLREDUCE" of "OpType=ALLREDUCE, ". */
static struct fsdp_span parse_op_type(
	struct fsdp_watchdog *watchdog, struct fsdp_span work, struct fsdp_span otherwise)
{
	struct fsdp_span at = after(work, "OpType=");
	size_t size = 0;
	while (size < at.size && at.data[size] != ',' && at.data[size] != ')')
		size++;
	return size == at.size
		       ? otherwise
		       : fsdp_span_lower(fsdp_span(at.data, size), watchdog->lines.arena);
}

/* "work: 5" after "last enqueued " or "last completed ", maybe with NCCL between. The
 * numbers of PyTorch 2.3 are not set before the first work: more than could be. */
static int64_t status_number(struct fsdp_span text)
{
	int64_t number;
	struct fsdp_span at = after(text, "work: ");
	if (at.data == NULL || at.data - text.data > 24 || !parse_number(&at, &number) ||
		number < -1 || number > INT64_MAX / 2)
		return FSDP_ABSENT;
	return number;
}

/* Of a rank that a message is about; the one that prints it is `own`. */
static void add_line(struct fsdp_watchdog *watchdog, struct fsdp_watchdog_line line,
	int64_t rank, bool own)
{
	if (!fsdp_watchdog_is_rank(rank))
		return;
	hear_of(watchdog, rank);
	line.rank = rank;
	line.by_other = !own;
	line.at = watchdog->at;
	fsdp_vec_append(&watchdog->lines, &line);
}

/* The same of each rank in "1, 2". */
static void add_ranks(struct fsdp_watchdog *watchdog, struct fsdp_span list,
	struct fsdp_watchdog_line line, bool own)
{
	int64_t rank;
	while (parse_rank(&list, &rank)) {
		add_line(watchdog, line, rank, own);
		if (!fsdp_span_behind(list, ", ", &list))
			break;
	}
}

/* ---- the report of ranks that diverge ---- */

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

/* All lines have a number of a work, except those of a snapshot, which follow each other,
 * and the one about ranks that never joined. */
static void parse_report(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	bool number = memchr(line.data, '#', line.size) != NULL;
	bool listed = watchdog->snapshot != FSDP_ABSENT && !number;
	/* "#5 started ranks:" */
	struct fsdp_span head = before(line, " started ranks:");
	if (head.data == NULL)
		head = before(line, " finished ranks:");
	if (number && head.data != NULL) {
		head = after_last(head, "#");
		if (!parse_work_number(&head, &watchdog->snapshot))
			watchdog->snapshot = FSDP_ABSENT;
		return;
	}
	if (!listed)
		watchdog->snapshot = FSDP_ABSENT;
	for (size_t i = 0; i < FSDP_COUNT(reports); i++) {
		struct fsdp_watchdog_line printed = fsdp_watchdog_blank();
		struct fsdp_span at = after(line, reports[i].words), tail = at, list;
		int64_t seq = reports[i].number == NEVER ? -1 : watchdog->snapshot;
		unsigned place = reports[i].number;
		if (at.data == NULL || (place == OF_SNAPSHOT) != listed)
			continue;
		if (place == BEHIND_OP)
			tail = after_last(at, ", #");
		if ((place == BEHIND || place == BEHIND_OP) &&
			!parse_work_number(&tail, &seq))
			continue;
		/* The ranks in "[0, 2]" that ends here. */
		list = before(line, reports[i].words);
		struct fsdp_span ranks = fsdp_span_last(list, '[');
		if (!fsdp_span_ends(list, FSDP_SPAN("]")) || ranks.size == list.size) {
			watchdog->snapshot = FSDP_ABSENT;
			return;
		}
		if (reports[i].waits)
			printed.seq = seq;
		if (place == BEHIND_OP) {
			at = before(at, ", #");
		} else {
			printed.enqueued = seq;
			printed.completed = seq - reports[i].less;
		}
		if (reports[i].waits || place == OF_SNAPSHOT)
			printed.op = fsdp_span_lower(
				without_blanks(at), watchdog->lines.arena);
		add_ranks(watchdog, up_to(ranks, ranks.data + ranks.size - 1), printed,
			true);
		return;
	}
}

/* ---- gloo ---- */

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

static const char failed[] = " failed to pass monitoredBarrier in ";
static const char reached[] =
	" successfully reached monitoredBarrier, but received errors";

/* "[Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 4000 ms"; or "Rank 3
 * successfully reached monitoredBarrier, but received errors …". Of a barrier the number
 * is 0. */
static void parse_barrier(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	bool fails = has(line, failed);
	struct fsdp_span front = before(line, fails ? failed : reached);
	struct fsdp_span list = after_last(front, fails ? "[Rank " : "Rank ");
	struct fsdp_watchdog_line printed = fsdp_watchdog_blank();
	int64_t rank;
	if (fails ? !parse_rank(&list, &rank)
		  : !parse_number(&list, &rank) || list.size != 0)
		return;
	printed.group = fsdp_watchdog_group(
		&watchdog->groups, FSDP_SPAN(FSDP_FLIGHT_BARRIER), FSDP_SPAN(""));
	printed.enqueued = printed.completed = -1;
	if (fails) {
		list = after(list, "]: Rank");
		if (list.size != 0 && list.data[0] == 's')
			list = skip(list, 1);
		add_ranks(watchdog, without_blanks(list), printed, false);
		printed.time_ns = time_in(front);
		printed.timeout_ms = printed.ran_ms = ms_after(line, failed);
	}
	printed.seq = printed.enqueued = 0;
	printed.op = FSDP_SPAN("monitored_barrier");
	add_line(watchdog, printed, rank_of_job(watchdog, front, rank), true);
}

/* ---- calls that differ ---- */

static const char print[] = "CollectiveFingerPrint(";

/* "4, 8" as the only list of sizes, as dumps have it, and *ret_numel: its product. Of a
 * damaged line both are absent: what is left of it is not what a rank used. */
static struct fsdp_span parse_shape(
	struct fsdp_arena *arena, struct fsdp_span shape, int64_t *ret_numel)
{
	int64_t *packed = FSDP_TAKE(arena, packed, shape.size + 2), dim = 0, numel = 1;
	bool damaged = false, more = shape.size != 0;
	*ret_numel = FSDP_ABSENT;
	packed[0] = 1;
	while (more && !damaged) {
		damaged = !parse_number(&shape, &dim) || dim < 0 ||
			  __builtin_mul_overflow(numel, dim, &numel);
		packed[2 + packed[1]++] = dim;
		more = fsdp_span_behind(shape, ", ", &shape);
	}
	if (damaged || shape.size != 0)
		return (struct fsdp_span){ 0 };
	*ret_numel = numel;
	return fsdp_span(packed, (2 + (size_t)packed[1]) * sizeof *packed);
}

/* "Float, Double", as dumps have it. */
static struct fsdp_span parse_dtypes(struct fsdp_arena *arena, struct fsdp_span dtypes)
{
	int64_t count = 0, size;
	unsigned char *packed = FSDP_TAKE(arena, packed,
			      (dtypes.size + 1) * sizeof count + dtypes.size),
		      *to = packed + sizeof count;
	for (; dtypes.size != 0; count++) {
		struct fsdp_span one = before(dtypes, ", ");
		one = one.data != NULL ? one : dtypes;
		size = (int64_t)one.size;
		memcpy(to, &size, sizeof size);
		memcpy(to + sizeof size, one.data, one.size);
		to += sizeof size + one.size;
		dtypes = after(dtypes, ", ");
	}
	memcpy(packed, &count, sizeof count);
	return fsdp_span(packed, (size_t)(to - packed));
}

/* "SequenceNumber=1, OpType=ALLREDUCE, TensorShape=[4], TensorDtypes=Float, TensorDevi…";
 * without a tensor only the first two, with nothing between. PyTorch 1.x has no number.
 */
static void parse_call(struct fsdp_watchdog *watchdog, struct fsdp_span call,
	struct fsdp_watchdog_line *printed)
{
	struct fsdp_arena *arena = watchdog->lines.arena;
	struct fsdp_span dtypes = between(call, "TensorDtypes=", ", TensorDeviceTypes=");
	int64_t numel;
	printed->seq = number_after(call, "SequenceNumber=");
	if (printed->seq < 0 || printed->seq >= INT64_MAX / 2)
		printed->seq = 0;
	printed->enqueued = printed->seq;
	printed->sizes = parse_shape(arena, between(call, "TensorShape=[", "]"), &numel);
	printed->dtypes = parse_dtypes(arena, dtypes);
	if (dtypes.size != 0)
		printed->numel_in = numel;
	printed->op = parse_op_type(watchdog, call, printed->op);
}

enum { MOST_BEFORE = 4096 };

/* "… Rank 0 is running collective: CollectiveFingerPrint(…), but Rank 1 is running
 * collective: CollectiveFingerPrint(…).Collectives differ …" Ranks are compared in their
 * order: those before the first that differs call the same. One message of a log shows
 * that. */
static void parse_differ(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	struct fsdp_span front = before(line, print), rest = after(line, print);
	struct fsdp_span own_rank = after_last(front, "Rank ");
	struct fsdp_span number = after(rest, ", but Rank "), call = after(rest, print);
	static const int64_t no_sizes[] = { 1, 0 };
	struct fsdp_watchdog_line own = fsdp_watchdog_blank(), printed;
	int64_t rank, other;
	if (!parse_rank(&own_rank, &rank))
		return;
	own.group = fsdp_watchdog_group(
		&watchdog->groups, FSDP_SPAN(FSDP_FLIGHT_DIFFER), FSDP_SPAN(""));
	parse_call(
		watchdog, number.data != NULL ? before(rest, ", but Rank ") : rest, &own);
	add_line(watchdog, own, rank_of_job(watchdog, front, rank), true);
	if (call.data == NULL || !parse_number(&number, &other) || other < 0)
		return;
	for (int64_t one = watchdog->prints_others ? other : 0;
		one < other && one < MOST_BEFORE; one++)
		if (one != rank)
			add_line(watchdog, own, one, false);
	watchdog->prints_others = true;
	printed = own;
	parse_call(watchdog, call, &printed);
	/* A rank reads what others send as if it had the length of its own: if numbers of
	 * tensors or dimensions differ, it prints a call that no rank made. */
	if ((own.sizes.data != NULL && printed.sizes.data != NULL &&
		    own.sizes.size != printed.sizes.size) ||
		(own.dtypes.size == sizeof(int64_t)) !=
			(printed.dtypes.size == sizeof(int64_t))) {
		printed.op = FSDP_SPAN("unknown");
		printed.sizes = fsdp_span(no_sizes, sizeof no_sizes);
		printed.dtypes = fsdp_span(no_sizes + 1, sizeof *no_sizes);
		printed.numel_in = FSDP_ABSENT;
	}
	printed.seq = own.seq;
	printed.enqueued = own.enqueued;
	add_line(watchdog, printed, other, false);
}

/* ---- exceptions ---- */

/* By their first words. The rank is before or after these. */
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
	{ "Heartbeat monitor timed out!", true, FSDP_WATCHDOG_HANGS },
	{ "recvValue failed on ", true, FSDP_WATCHDOG_FOLLOWS },
	{ "Forward order differs across ranks: ", true, FSDP_WATCHDOG_ORDERS },
	{ "Forward order differs from that of the first iteration ", true,
		FSDP_WATCHDOG_FOLLOWS },
	{ "op.preamble.length <= op.nbytes. ", false, FSDP_WATCHDOG_SIZES },
	{ "/gloo/transport/tcp/", false, FSDP_WATCHDOG_FOLLOWS },
};
enum { GLOO_EXCEPTION = FSDP_COUNT(exceptions) - 1 };

static bool has_any(struct fsdp_span text, const char *const *parts, size_t count)
{
	size_t i = 0;
	while (i < count && !has(text, parts[i]))
		i++;
	return i < count;
}

/* "[rank2]: torch.OutOfMemoryError: CUDA out of memory": what PyTorch prints before each
 * line of an exception of Python. data NULL: it is not one, or it has lines of its own.
 */
static struct fsdp_span find_python_error(struct fsdp_span line)
{
	static const char *const others[] = { "imed out", "imeout", "monitoredBarrier",
		"CollectiveFingerPrint", "Detected mismatch" };
	struct fsdp_span text = after(line, "[rank"), kind;
	int64_t rank;
	bool is_one = text.data != NULL && parse_number(&text, &rank) &&
		      fsdp_span_behind(text, "]: ", &text);
	kind = fsdp_span_first(text, ':');
	for (size_t i = 0; is_one && i < kind.size; i++) {
		unsigned char c = kind.data[i];
		is_one = fsdp_is_digit(c) || c == '.' || c == '_' ||
			 ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
	}
	is_one = is_one &&
		 (fsdp_span_ends(kind, FSDP_SPAN("Error")) ||
			 fsdp_span_ends(kind, FSDP_SPAN("Exception"))) &&
		 (!has_any(text, others, FSDP_COUNT(others)) ||
			 fsdp_span_ends(kind, FSDP_SPAN("DistStoreError")));
	return is_one ? text : (struct fsdp_span){ 0 };
}

/* The one of a rank; NULL: it printed no traceback. */
static struct fsdp_watchdog_stack *find_stack(
	const struct fsdp_watchdog *watchdog, int64_t rank)
{
	for (size_t i = 0; i < watchdog->stacks.count; i++) {
		struct fsdp_watchdog_stack *one = fsdp_vec_at(&watchdog->stacks, i);
		if (one->rank == rank)
			return one;
	}
	return NULL;
}

/* A line of a traceback. */
static void parse_frame(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	enum { MOST_STACKS = 4096 };
	struct fsdp_arena *arena = watchdog->lines.arena;
	struct fsdp_span text = after(line, "[rank"), path, function;
	struct fsdp_watchdog_stack *stack = NULL;
	int64_t rank, number;
	if (text.data == NULL || !parse_rank(&text, &rank) ||
		!fsdp_span_behind(text, "]: ", &text))
		return;
	text = without_blanks(text);
	bool begins = fsdp_span_begins(text, FSDP_SPAN("Traceback (most recent"));
	if (begins || fsdp_span_begins(text, FSDP_SPAN("File \"")))
		stack = find_stack(watchdog, rank);
	if (begins && stack == NULL && watchdog->stacks.count < MOST_STACKS)
		stack = fsdp_vec_push(&watchdog->stacks);
	if (stack == NULL)
		return;
	if (begins)
		*stack = (struct fsdp_watchdog_stack){ rank, FSDP_SPAN(""),
			{ .line = FSDP_ABSENT } };
	path = between(text, "\"", "\", line ");
	text = after(text, "\", line ");
	if (begins || path.size == 0 || !parse_number(&text, &number) ||
		!fsdp_span_behind(text, ", in ", &function) || function.size == 0)
		return;
	if (fsdp_span_ends(path, FSDP_SPAN("/torch/distributed/distributed_c10d.py"))) {
		if (stack->op.size == 0 && function.data[0] != '_')
			stack->op = fsdp_arena_copy(arena, function);
	} else if (!has(path, "/torch/") && path.data[0] != '<') {
		*stack = (struct fsdp_watchdog_stack){ rank, FSDP_SPAN(""),
			{ fsdp_arena_copy(arena, path), fsdp_arena_copy(arena, function),
				number } };
	}
}

static void add_exception(struct fsdp_watchdog *watchdog,
	struct fsdp_watchdog_exception *one, struct fsdp_span text)
{
	one->at = watchdog->at;
	one->shown.is_own = one->failure == FSDP_WATCHDOG_OWN;
	one->shown.text = fsdp_arena_copy(watchdog->lines.arena, text);
	fsdp_vec_append(&watchdog->exceptions, one);
}

/* What torchrun reports of the rank that ended first, if a signal ended it. The others it
 * ends itself. */
static void parse_end(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	struct fsdp_span rank = after(line, "  rank      : "),
			 code = after(line, "exitcode  : -"), name;
	struct fsdp_watchdog_exception one = { .shown = { .rank = watchdog->ended_rank,
						       .time_ns = FSDP_ABSENT,
						       .place.line = FSDP_ABSENT },
		.other = FSDP_ABSENT,
		.by_itself = true };
	int64_t number;
	watchdog->is_root_cause |= has(line, "Root Cause (first observed failure):");
	if (rank.data != NULL && parse_rank(&rank, &number)) {
		hear_of(watchdog, number);
		watchdog->ended_rank = watchdog->is_root_cause ? number : FSDP_ABSENT;
	}
	name = between(after(code, ")"), "(", ")");
	/* Older reports have the name two lines below. */
	if (code.data == NULL) {
		code = after(line, "traceback : ");
		name = between(after(code, "Signal "), "(", ")");
	} else {
		code = fsdp_span(code.data - 13, code.size + 13);
	}
	if (name.size == 0 || one.shown.rank == FSDP_ABSENT ||
		fsdp_span_is(name, "SIGTERM"))
		return;
	watchdog->ended_rank = FSDP_ABSENT;
	add_exception(watchdog, &one, code);
}

/* "rank 0 is all-gathering …", after which *text begins; false: no such rank. */
static bool parse_rank_of_order(struct fsdp_span *text, int64_t *ret_rank)
{
	*text = after(*text, "rank ");
	return text->data != NULL && parse_rank(text, ret_rank);
}

static void parse_exception(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	static const char *const of_peers[] = { "DistStoreError", "remote process exited",
		"remote error", "ncclRemoteError", "Connection closed",
		"Connection reset", "SignalException", "Broken pipe" };
	/* Words of errors that a timeout of a collective can cause. */
	static const char *const of_groups[] = { "NCCL", "nccl", "gloo", "c10d",
		"process group", "Process group", "ProcessGroup" };
	enum { LONGEST = 200, PYTHON = FSDP_COUNT(exceptions) };
	size_t i = 0;
	struct fsdp_span text = { 0 };
	struct fsdp_watchdog_line printed_by;
	while (i < PYTHON && (text = after(line, exceptions[i].words)).data == NULL)
		i++;
	if (i == PYTHON)
		text = find_python_error(line);
	/* A timeout has a line of its own. */
	if (text.data == NULL || has(text, "collective operation timeout"))
		return;
	bool known = parse_front(watchdog, up_to(line, text.data), &printed_by);
	struct fsdp_watchdog_exception one = { .shown = { .rank = printed_by.rank,
						       .time_ns = printed_by.time_ns,
						       .place.line = FSDP_ABSENT },
		.other = FSDP_ABSENT,
		.failure = i < PYTHON ? exceptions[i].failure : FSDP_WATCHDOG_OWN };
	const struct fsdp_watchdog_stack *stack;
	struct fsdp_span rest = text;
	if (one.failure == FSDP_WATCHDOG_ORDERS)
		known = parse_rank_of_order(&rest, &one.shown.rank) &&
			parse_rank_of_order(&rest, &one.other);
	else if (!known)
		known = parse_rank_of_order(&rest, &one.shown.rank);
	if (!known && one.failure != FSDP_WATCHDOG_SIZES)
		return;
	hear_of(watchdog, one.shown.rank);
	hear_of(watchdog, one.other);
	if (i < PYTHON && exceptions[i].with_words) {
		size_t size = strlen(exceptions[i].words);
		text = fsdp_span(text.data - size, text.size + size);
	}
	/* "unbound_buffer.cc:78] Timed out waiting 4000ms for recv operation to complete"
	 */
	if (i == GLOO_EXCEPTION && has(text, "] "))
		text = after(text, "] ");
	/* Errors that a rank has because another one is gone. */
	if (one.failure == FSDP_WATCHDOG_OWN &&
		has_any(text, of_peers, FSDP_COUNT(of_peers))) {
		one.failure = FSDP_WATCHDOG_FOLLOWS;
		one.is_of_peer = true;
	}
	one.by_itself = i == PYTHON && one.failure == FSDP_WATCHDOG_OWN &&
			!has_any(text, of_groups, FSDP_COUNT(of_groups)) &&
			!fsdp_span_begins(text, FSDP_SPAN("torch.distributed."));
	if (before(text, " Collective Work").size != 0)
		text = before(text, " Collective Work");
	text.size = fsdp_min(text.size, LONGEST);
	stack = i >= GLOO_EXCEPTION ? find_stack(watchdog, one.shown.rank) : NULL;
	if (stack != NULL) {
		one.shown.op = stack->op;
		one.shown.place = stack->place;
	}
	add_exception(watchdog, &one, without_blanks(text));
}

/* ---- lines ---- */

static const char timeout_words[] = "Watchdog caught collective operation timeout: Work";
static const char status_words[] = "ast enqueued ";

static void parse_message(struct fsdp_watchdog *watchdog, struct fsdp_span front,
	struct fsdp_span message, bool is_status)
{
	static const char *const works[] = {
		"at work sequence id: ", "at work: ", "at NCCL work: "
	};
	struct fsdp_watchdog_line line;
	bool known = parse_front(watchdog, front, &line);
	if (is_status) {
		struct fsdp_span completed = after(message, "last completed ");
		for (size_t i = 0; i < FSDP_COUNT(works) && line.seq == FSDP_ABSENT; i++)
			line.seq = number_after(front, works[i]);
		line.enqueued = status_number(message);
		if (completed.data != NULL && line.enqueued != FSDP_ABSENT)
			line.completed = status_number(completed);
		if (line.completed > line.enqueued)
			line.completed = FSDP_ABSENT;
	} else {
		/* The text in the brackets of "WorkNCCL(…) ran for 600020 milliseconds".
		 */
		line.seq = number_after(message, "SeqNum=");
		line.numel_in = number_after(message, "NumelIn=");
		line.numel_out = number_after(message, "NumelOut=");
		line.timeout_ms = number_after(message, "Timeout(ms)=");
		line.ran_ms = ms_after(message, ") ran for ");
		line.op = parse_op_type(watchdog, message, line.op);
	}
	watchdog->timed_out |= has(front, "collective timeout from ");
	hear_of(watchdog, number_after(front, "timeout from  rank "));
	line.at = watchdog->at;
	if (known && (line.seq != FSDP_ABSENT || line.enqueued != FSDP_ABSENT))
		fsdp_vec_append(&watchdog->lines, &line);
}

/* Each of the two kinds of messages is looked for once: many of one do not make the
 * search for the other long. */
void fsdp_watchdog_take(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	static const char *const words[] = { timeout_words, status_words };
	struct fsdp_span found[] = { after(line, words[0]), after(line, words[1]) },
			 rest = line;
	int64_t rank;
	watchdog->at++;
	watchdog->was_shortened |= has(line, "x across cluster]");
	if (has(line, " attempts left; will restart worker group"))
		watchdog->restarted_at = watchdog->at;
	parse_exception(watchdog, line);
	if (found[0].data == NULL && found[1].data == NULL) {
		if (global_rank(line, &rank))
			hear_of(watchdog, rank);
		parse_frame(watchdog, line);
		parse_end(watchdog, line);
		if (has(line, print))
			parse_differ(watchdog, line);
		else if (has(line, failed) || has(line, reached))
			parse_barrier(watchdog, line);
		else if (line.size != 0 && !has(line, "monitoredBarrier"))
			parse_report(watchdog, line);
	}
	while (found[0].data != NULL || found[1].data != NULL) {
		bool is_status = found[1].data != NULL &&
				 (found[0].data == NULL || found[1].data < found[0].data);
		struct fsdp_span message = found[is_status], own = message;
		found[is_status] = after(message, words[is_status]);
		/* Up to the next one of either. */
		for (size_t i = 0; i < 2; i++)
			if (found[i].data != NULL && found[i].data < own.data + own.size)
				own = up_to(own, found[i].data);
		parse_message(watchdog, up_to(rest, message.data), own, is_status);
		rest = message;
	}
}
