/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of a log about ranks that do not come to a monitored barrier of gloo, and about
 * ranks whose calls differ (flight-log.h). The barrier has no number: it is number 0 of a
 * group of its own. Calls that differ are compared in another such group.
 */
#include <stdlib.h>

#include "trace/flight.h"
#include "trace/flight-log.h"
#include "trace/flight-words.h"

static bool fresh_line(struct fsdp_watchdog *watchdog, const char *group,
	struct fsdp_watchdog_line *ret_line)
{
	*ret_line = fsdp_watchdog_blank();
	ret_line->group = fsdp_watchdog_group(
		&watchdog->groups, fsdp_span_text(group), FSDP_SPAN(""));
	return ret_line->group != FSDP_NONE;
}

/* Of a rank that a message is about; the one that prints it is `own`. */
static bool add_line(struct fsdp_watchdog *watchdog, struct fsdp_watchdog_line line,
	int64_t rank, bool own)
{
	if (!fsdp_watchdog_is_rank(rank))
		return true;
	fsdp_watchdog_hear_of(watchdog, rank);
	line.rank = rank;
	line.told = !own;
	return fsdp_vec_add(&watchdog->lines, &line);
}

/* Messages count ranks within the group. What stands in front of one may have the rank of
 * the job: if they are not the same, it is not known which ranks the others are. */
static int64_t rank_of_job(
	struct fsdp_watchdog *watchdog, struct fsdp_span front, int64_t rank)
{
	int64_t global = rank;
	if (fsdp_watchdog_global_rank(front, &global) && global != rank)
		watchdog->numbers_differ = true;
	return global;
}

/* ---- a monitored barrier ---- */

static const char failed[] = " failed to pass monitoredBarrier in ";
static const char reached[] =
	" successfully reached monitoredBarrier, but received errors";

/* "1, 2" */
static bool add_failed(struct fsdp_watchdog *watchdog, struct fsdp_span list,
	struct fsdp_watchdog_line line)
{
	int64_t rank;
	while (fsdp_words_number(&list, &rank)) {
		if (!add_line(watchdog, line, rank, false))
			return false;
		if (list.size < 2 || list.data[0] != ',')
			break;
		list = fsdp_span(list.data + 2, list.size - 2);
	}
	return true;
}

/* "[Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 4000 ms" */
static bool take_failed(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	struct fsdp_span front = fsdp_words_before(line, failed);
	struct fsdp_span own = fsdp_words_behind_last(front, "[Rank "), list = own;
	struct fsdp_watchdog_line says;
	int64_t rank;
	if (!fsdp_words_number(&list, &rank) || !fsdp_watchdog_is_rank(rank))
		return true;
	list = fsdp_words_behind(list, "]: Rank");
	if (list.size != 0 && list.data[0] == 's')
		list = fsdp_span(list.data + 1, list.size - 1);
	if (!fresh_line(watchdog, FSDP_WATCHDOG_BARRIER, &says))
		return false;
	says.enqueued = says.completed = -1;
	if (!add_failed(watchdog, fsdp_words_without_blanks(list), says))
		return false;
	says.seq = says.enqueued = 0;
	says.op = FSDP_SPAN("monitored_barrier");
	says.time_ns = fsdp_watchdog_time(front);
	says.timeout_ms = says.ran_ms = fsdp_words_number_behind(line, failed);
	if (says.ran_ms > INT64_MAX / 1000000)
		says.timeout_ms = says.ran_ms = FSDP_ABSENT;
	return add_line(watchdog, says, rank_of_job(watchdog, front, rank), true);
}

/* "Rank 3 successfully reached monitoredBarrier, but received errors …" */
static bool take_reached(struct fsdp_watchdog *watchdog, struct fsdp_span line)
{
	struct fsdp_span front = fsdp_words_before(line, reached);
	struct fsdp_span number = fsdp_words_behind_last(front, "Rank ");
	struct fsdp_watchdog_line says;
	int64_t rank;
	if (!fsdp_words_number(&number, &rank) || number.size != 0)
		return true;
	if (!fresh_line(watchdog, FSDP_WATCHDOG_BARRIER, &says))
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
	struct fsdp_span found = fsdp_words_before(fsdp_words_behind(text, begin), end);
	return found.data != NULL ? found : FSDP_SPAN("");
}

/* The product of "4, 8", or FSDP_ABSENT. */
static int64_t count_elements(struct fsdp_span shape)
{
	int64_t product = 1, dim;
	while (shape.size != 0) {
		if (!fsdp_words_number(&shape, &dim) || dim < 0 ||
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
	struct fsdp_span op = fsdp_words_behind(call, "OpType=");
	size_t size = 0;
	while (size < op.size && op.data[size] != ',' && op.data[size] != ')')
		size++;
	says->seq = fsdp_words_number_behind(call, "SequenceNumber=");
	if (says->seq < 0 || says->seq >= INT64_MAX / 2)
		says->seq = 0;
	says->enqueued = says->seq;
	says->shape = between(call, "TensorShape=[", "]");
	says->dtypes = between(call, "TensorDtypes=", ", TensorDeviceTypes=");
	if (says->dtypes.size != 0)
		says->numel_in = count_elements(says->shape);
	return fsdp_watchdog_fold_op(watchdog, fsdp_span(op.data, size), &says->op) &&
	       copy(arena, &says->shape) && copy(arena, &says->dtypes);
}

/* A rank reads what others send as if it had the length of its own: where they have not as
 * many tensors or dimensions, it prints a call that no rank made. */
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

/* Ranks are compared in their order: those before the first that differs call the same.
 * One message of a log tells that of them. */
static bool add_other(struct fsdp_watchdog *watchdog, struct fsdp_span rest,
	const struct fsdp_watchdog_line *own, int64_t own_rank)
{
	struct fsdp_span number = fsdp_words_behind(rest, ", but Rank ");
	struct fsdp_span call = fsdp_words_behind(rest, print);
	struct fsdp_watchdog_line says = *own;
	int64_t other;
	if (call.data == NULL || !fsdp_words_number(&number, &other) || other < 0)
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
	struct fsdp_span front = fsdp_words_before(line, print);
	struct fsdp_span call = fsdp_words_behind(line, print);
	struct fsdp_span number = fsdp_words_behind_last(front, "Rank ");
	struct fsdp_span rest = fsdp_words_behind(call, ", but Rank ");
	struct fsdp_watchdog_line says;
	int64_t rank;
	if (!fsdp_words_number(&number, &rank) || !fsdp_watchdog_is_rank(rank))
		return true;
	if (rest.data != NULL)
		call = fsdp_words_before(call, ", but Rank ");
	return fresh_line(watchdog, FSDP_WATCHDOG_DIFFER, &says) &&
	       take_call(watchdog, call, &says) &&
	       add_line(watchdog, says, rank_of_job(watchdog, front, rank), true) &&
	       (rest.data == NULL ||
		       add_other(watchdog, fsdp_words_behind(line, print), &says, rank));
}

bool fsdp_watchdog_take_gloo(
	struct fsdp_watchdog *watchdog, struct fsdp_span line, bool *ret_taken)
{
	*ret_taken = true;
	if (fsdp_words_behind(line, print).data != NULL)
		return take_differ(watchdog, line);
	*ret_taken = fsdp_words_behind(line, "monitoredBarrier").data != NULL;
	if (!*ret_taken)
		return true;
	return fsdp_words_behind(line, failed).data != NULL
		       ? take_failed(watchdog, line)
		       : fsdp_words_behind(line, reached).data == NULL ||
				 take_reached(watchdog, line);
}

/* ---- as dumps have it ---- */

/* "4, 8" as the only list of sizes. */
static bool pack_shape(struct fsdp_flight_bytes *bytes, struct fsdp_span shape)
{
	int64_t head[] = { 1, 0 }, dim;
	if (!fsdp_flight_put(bytes, head, sizeof head))
		return false;
	while (fsdp_words_number(&shape, &dim)) {
		if (!fsdp_flight_put(bytes, &dim, sizeof dim))
			return false;
		head[1]++;
		if (shape.size < 2)
			break;
		shape = fsdp_span(shape.data + 2, shape.size - 2);
	}
	memcpy(bytes->data, head, sizeof head);
	return true;
}

/* "Float, Double" */
static bool pack_dtypes(struct fsdp_flight_bytes *bytes, struct fsdp_span dtypes)
{
	int64_t count = 0;
	if (!fsdp_flight_put(bytes, &count, sizeof count))
		return false;
	for (; dtypes.size != 0; count++) {
		struct fsdp_span one = fsdp_words_before(dtypes, ", "),
				 rest = fsdp_words_behind(dtypes, ", ");
		one = one.data != NULL ? one : dtypes;
		int64_t size = (int64_t)one.size;
		if (!fsdp_flight_put(bytes, &size, sizeof size) ||
			!fsdp_flight_put(bytes, one.data, one.size))
			return false;
		dtypes = rest;
	}
	memcpy(bytes->data, &count, sizeof count);
	return true;
}

bool fsdp_watchdog_pack_call(struct fsdp_arena *arena,
	const struct fsdp_watchdog_line *line, struct fsdp_flight_called *call)
{
	static const int64_t none = 0;
	struct fsdp_flight_bytes sizes = { 0 }, dtypes = { 0 };
	bool good = pack_shape(&sizes, line->shape) && pack_dtypes(&dtypes, line->dtypes);
	call->output.dtypes = fsdp_span(&none, sizeof none);
	if (good) {
		call->input.sizes =
			fsdp_arena_copy(arena, fsdp_span(sizes.data, sizes.size));
		call->input.dtypes =
			fsdp_arena_copy(arena, fsdp_span(dtypes.data, dtypes.size));
	}
	free(sizes.data);
	free(dtypes.data);
	return good && call->input.sizes.data != NULL && call->input.dtypes.data != NULL;
}
