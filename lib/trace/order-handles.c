/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which FSDP1's handles were used, replayed as _ExecOrderData does
 * (torch/distributed/fsdp/_exec_order_utils.py, 2.13), and the training states that its
 * functions assign:
 *
 *	{"ev":"pre_forward","handle":H,"training":B}  {"ev":"post_forward","handle":H}
 *	{"ev":"next_iter"}  {"ev":"state","handle":H,"training_state":S,"handle_state":S}
 *
 * A handle that is null is a unit without parameters, which changes nothing.
 */

#include <fsdp/order.h>

#include "trace/event.h"

/* Of a name in a list, in addition to its bytes. */
enum { SHOWN_LEAST = 16, NAMES_OF_UNIT = 64 << 10 };

enum status { STATUS_NONE, STATUS_WARNING, STATUS_WARNED };
static const char *const status_names[] = { "NONE", "WARNING", "WARNED" };

static const char *const training_names[FSDP_TRAINING_STATES] = { "IDLE",
	"FORWARD_BACKWARD", "SUMMON_FULL_PARAMS" };
static const char *const handle_names[FSDP_HANDLE_STATES] = { "IDLE", "FORWARD",
	"BACKWARD_PRE", "BACKWARD_POST", "SUMMON_FULL_PARAMS" };
enum { IDLE, FORWARD_BACKWARD, SUMMON };
enum { H_IDLE, H_FORWARD, H_PRE, H_POST, H_SUMMON };

const char *fsdp_training_state_name(unsigned state)
{
	return state < FSDP_TRAINING_STATES ? training_names[state] : NULL;
}

const char *fsdp_handle_state_name(unsigned state)
{
	return state < FSDP_HANDLE_STATES ? handle_names[state] : NULL;
}

struct handle {
	struct fsdp_handle shown;
	struct fsdp_span names; /* as Python prints a list of them; data NULL: lost */
	bool ordered;           /* it is in the list of the first iteration */
	uint64_t used_in;       /* the forward it was used in last */
	uint64_t bytes;         /* of its names, as shown */
	uint32_t first, last;   /* of its changes */
	struct fsdp_state_lane lane;
};

struct change {
	struct fsdp_state_change shown;
	uint32_t next; /* of the same handle; FSDP_NONE: it is the last */
};

struct handles {
	struct fsdp_trace_reading *reading;
	struct fsdp_lines *lines;
	struct fsdp_exec_order *order;
	struct handle *list;
	size_t count;
	struct fsdp_vec pre, post; /* int64_t, of all iterations */
	size_t post_begin;         /* of this one */
	struct fsdp_vec snapshots, warnings, problems, forwards;
	struct fsdp_vec changes; /* struct change, of all handles */
	struct fsdp_vec texts;   /* struct fsdp_span, of one list */
	int64_t limits[2];       /* of prefetching: backward, forward */
	enum status status;
	uint64_t iter, cursor, line;
	uint64_t forward, in_iteration;
	uint64_t uses, cells, shown; /* since the last snapshot; in all; bytes of names */
	bool checks, has_states;
};

static int64_t at(const struct fsdp_vec *vec, size_t index)
{
	return *(const int64_t *)fsdp_vec_at(vec, index);
}

/* ---- snapshots ---- */

/* Calls so far are in lists that only grow: their end is enough. A snapshot lists each
 * unit, however few were used: more than a few facts for each use cost the file
 * nothing, and have a ceiling. */
static void add_snapshot(struct handles *handles, uint64_t line)
{
	enum { CELLS_OF_USE = 4 };
	struct fsdp_trace_reading *reading = handles->reading;
	uint64_t most = fsdp_limit(reading->limits, FSDP_LIMIT_ORDER_CELLS);
	uint64_t earned = CELLS_OF_USE * handles->uses;
	handles->cells += handles->count > earned ? handles->count - earned : 0;
	handles->uses = 0;
	fsdp_trace_require(reading,
		handles->cells <= most ||
			fsdp_fail_limit(&reading->error, FSDP_LIMIT_ORDER_CELLS, most));
	fsdp_vec_append(&handles->snapshots,
		&(struct fsdp_order_snapshot){ .iter = handles->iter,
			.at_line = line,
			.cursor = handles->cursor,
			.pre_count = handles->pre.count,
			.post_count = handles->post.count - handles->post_begin,
			.status = status_names[handles->status] });
}

void fsdp_order_places(const struct fsdp_exec_order *order,
	const struct fsdp_order_snapshot *snapshot, int64_t *ret_pre, int64_t *ret_post)
{
	for (size_t i = 0; i < order->handle_count; i++)
		ret_pre[i] = ret_post[i] = FSDP_ABSENT;
	for (size_t i = 0; i < snapshot->pre_count; i++)
		ret_pre[snapshot->pre[i]] = (int64_t)i;
	/* The first call counts, but PyTorch takes a place of 0 for none. */
	for (size_t i = 0; i < snapshot->post_count; i++) {
		int64_t *place = &ret_post[snapshot->post[i]];
		if (*place == FSDP_ABSENT || *place == 0)
			*place = (int64_t)i;
	}
}

int64_t fsdp_order_target(const struct fsdp_order_snapshot *snapshot,
	const struct fsdp_prefetch *prefetch, int64_t place)
{
	int64_t count = (int64_t)snapshot->pre_count, limit = prefetch->limit;
	if (place == FSDP_ABSENT ||
		(prefetch->backward ? place <= 0 : place + 1 >= count))
		return FSDP_ABSENT;
	if (prefetch->backward)
		return snapshot->post[place > limit ? place - limit : 0];
	return snapshot->pre[limit < count - place ? place + limit : count - 1];
}

/* ---- the check of PyTorch ---- */

static void warn(struct handles *handles, int64_t handle, const struct handle *expected)
{
	const struct handle *found = &handles->list[handle];
	struct fsdp_python text = { .arena = &handles->reading->arena };
	fsdp_python_put(&text,
		"Forward order differs from that of the first iteration on rank %lld. Collectives are unchecked and may give incorrect results or hang.\nExpected to ",
		(long long)handles->reading->recording.rank);
	if (expected == NULL) {
		fsdp_python_put(&text,
			"not all-gather any more parameters in the forward but trying to all-gather parameters for ");
	} else {
		fsdp_python_put(&text, "all-gather for [");
		fsdp_python_add(&text, expected->names);
		fsdp_python_put(&text, "] but trying to all-gather parameters for ");
	}
	if (found->names.data == NULL) {
		fsdp_python_put(&text, "a newly-added parameter since construction time");
	} else {
		fsdp_python_put(&text, "[");
		fsdp_python_add(&text, found->names);
		fsdp_python_put(&text, "]");
	}
	fsdp_vec_append(&handles->warnings,
		&(struct fsdp_order_warning){
			handles->iter, handles->line, handle, fsdp_python_take(&text) });
	handles->status = STATUS_WARNING;
}

/* ---- events of a forward ---- */

static void pre_forward(
	struct handles *handles, int64_t index, const struct fsdp_record *record)
{
	struct handle *handle = &handles->list[index];
	const struct fsdp_json_token *training = fsdp_record_get(record, "training");
	bool trains = training != NULL && training->kind == FSDP_SCAN_TRUE;
	handles->uses++;
	if (trains) {
		const struct fsdp_forward forward = { handles->iter, index };
		/* No unit has more names, so only of others they count. */
		fsdp_trace_show(handles->reading, &handles->shown,
			handle->bytes > NAMES_OF_UNIT ? handle->bytes - NAMES_OF_UNIT
						      : 0);
		fsdp_vec_append(&handles->forwards, &forward);
		handles->order->unchecked += !handles->checks;
		handles->in_iteration++;
		/* A forward begins with the unit that began the first one. */
		if (handles->pre.count == 0 || at(&handles->pre, 0) == index)
			handles->forward++;
		else if (handle->used_in == handles->forward)
			handles->order->reused++;
		handle->used_in = handles->forward;
	}
	if (handles->checks && trains && handles->iter > 0 &&
		handles->status != STATUS_WARNED) {
		uint64_t place = handles->cursor++;
		bool known = place < handles->pre.count;
		int64_t expected = known ? at(&handles->pre, (size_t)place) : FSDP_ABSENT;
		if (expected != index)
			warn(handles, index, known ? &handles->list[expected] : NULL);
	}
	if (handles->iter == 0 && !handle->ordered) {
		handle->ordered = true;
		fsdp_vec_append(&handles->pre, &index);
	}
}

/* ---- training states ---- */

struct refusal {
	const char *kind, *error, *message;
	const char *state; /* after the message, or NULL */
};

/* Whether PyTorch would raise where (s, h) becomes (s2, h2); -1 is what is not given. The
 * first row that holds. */
static struct refusal find_refusal(unsigned s, unsigned h, int s2, int h2)
{
	static const char assertion[] = "AssertionError", value[] = "ValueError";
	unsigned after = s2 >= 0 ? (unsigned)s2 : s;
	bool to_post = h2 == H_POST && h != H_POST;
	const struct {
		bool holds;
		struct refusal refusal;
	} rows[] = {
		{ s2 == SUMMON && s == FORWARD_BACKWARD,
			{ "summon_in_step", assertion,
				"Cannot manually unshard parameters during forward/backward",
				NULL } },
		{ s2 == SUMMON && s == SUMMON,
			{ "summon_in_summon", assertion,
				"Cannot manually unshard parameters when already unsharding parameters",
				NULL } },
		{ h2 == H_SUMMON && h != H_IDLE && h != H_SUMMON,
			{ "unshard_not_idle", assertion,
				"Expects the handle training to be IDLE but got HandleTrainingState.",
				handle_names[h] } },
		{ h2 == H_PRE && h != H_PRE && s != IDLE,
			{ "backward_not_idle", value,
				"expected to be in states [<TrainingState.IDLE: 1>] but current state is TrainingState.",
				training_names[s] } },
		{ to_post && after != FORWARD_BACKWARD,
			{ "post_backward_outside", value,
				"expected to be in states [<TrainingState.FORWARD_BACKWARD: 2>] but current state is TrainingState.",
				training_names[s] } },
		{ to_post && s == FORWARD_BACKWARD && h != H_PRE,
			{ "post_backward_without_pre", assertion,
				"Expects `BACKWARD_PRE` or `BACKWARD_POST` state but got HandleTrainingState.",
				handle_names[h] } },
	};
	for (size_t i = 0; i < FSDP_COUNT(rows); i++)
		if (rows[i].holds)
			return rows[i].refusal;
	return (struct refusal){ 0 };
}

/* The number of a state by name: -1 absent, -2 in neither class. */
static int state_of(const struct fsdp_record *record, const char *key,
	const char *const *names, size_t count)
{
	const struct fsdp_json_token *value = fsdp_record_get(record, key);
	if (value == NULL || value->kind == FSDP_SCAN_NULL)
		return -1;
	for (size_t i = 0; i < count; i++)
		if (value->kind == FSDP_SCAN_TEXT &&
			fsdp_json_text_is(value, fsdp_span_text(names[i])))
			return (int)i;
	return -2;
}

static void change(
	struct handles *handles, int64_t index, const unsigned to[2], bool problem)
{
	struct handle *handle = &handles->list[index];
	struct fsdp_state_lane *lane = &handle->lane;
	bool training = to[0] != lane->last_training, other = to[1] != lane->last_handle;
	bool prefetch = other && (to[1] == H_FORWARD || to[1] == H_PRE) && to[0] == IDLE;
	uint32_t place = (uint32_t)handles->changes.count;
	if (!training && !other)
		return;
	if (place == FSDP_NONE)
		fsdp_arena_leave(&handles->reading->arena);
	fsdp_vec_append(&handles->changes,
		&(struct change){
			{ handles->line, to[0], to[1], problem, prefetch, handles->iter },
			FSDP_NONE });
	if (lane->change_count++ == 0)
		handle->first = place;
	else
		((struct change *)fsdp_vec_at(&handles->changes, handle->last))->next =
			place;
	handle->last = place;
	lane->training_counts[to[0]] += training;
	lane->handle_counts[to[1]] += other;
	lane->prefetches += prefetch;
	lane->last_training = to[0];
	lane->last_handle = to[1];
}

static void add_states(
	struct handles *handles, int64_t index, const struct fsdp_record *record)
{
	static const char first[] = "training_state", second[] = "handle_state";
	struct fsdp_state_lane *lane = &handles->list[index].lane;
	int s = state_of(record, first, training_names, FSDP_TRAINING_STATES);
	int h = state_of(record, second, handle_names, FSDP_HANDLE_STATES);
	if (s == -1 && h == -1)
		return;
	handles->has_states = true;
	struct refusal refusal = { 0 };
	const struct fsdp_json_token *unknown = NULL;
	if (s == -2 || h == -2) {
		refusal = (struct refusal){ "unknown_state", NULL,
			s == -2 ? "unknown training_state " : "unknown handle_state ",
			NULL };
		unknown = fsdp_record_get(record, s == -2 ? first : second);
	}
	s = s < 0 ? -1 : s;
	h = h < 0 ? -1 : h;
	if (refusal.kind == NULL && fsdp_record_is(record, "ev", "state"))
		refusal = find_refusal(lane->last_training, lane->last_handle, s, h);
	const unsigned to[2] = { s >= 0 ? (unsigned)s : lane->last_training,
		h >= 0 ? (unsigned)h : lane->last_handle };
	if (refusal.kind != NULL) {
		struct fsdp_python text = { .arena = &handles->reading->arena };
		fsdp_trace_show(
			handles->reading, &handles->shown, handles->list[index].bytes);
		fsdp_python_put(&text, "%s%s", refusal.message,
			refusal.state != NULL ? refusal.state : "");
		if (unknown != NULL)
			fsdp_python_add(&text, unknown->span);
		fsdp_vec_append(&handles->problems,
			&(struct fsdp_state_problem){ handles->line, index, refusal.kind,
				{ lane->last_training, lane->last_handle },
				{ to[0], to[1] }, refusal.error,
				fsdp_python_take(&text) });
	}
	change(handles, index, to, refusal.kind != NULL);
}

/* ---- lines ---- */

/* False: it is none. */
static bool add_event(struct handles *handles, const struct fsdp_record *record)
{
	int64_t index = FSDP_ABSENT;
	handles->line = handles->lines->number;
	if (fsdp_record_is(record, "ev", "next_iter")) {
		add_snapshot(handles, handles->line - 1);
		if (handles->iter > 0 && handles->in_iteration != 0 &&
			handles->in_iteration < handles->pre.count)
			handles->order->stopped_early++;
		handles->iter++;
		handles->in_iteration = 0;
		handles->post_begin = handles->post.count;
		if (handles->checks)
			handles->cursor = 0;
		if (handles->checks && handles->status == STATUS_WARNING)
			handles->status = STATUS_WARNED;
		return true;
	}
	bool pre = fsdp_record_is(record, "ev", "pre_forward");
	bool post = fsdp_record_is(record, "ev", "post_forward");
	if (!pre && !post && !fsdp_record_is(record, "ev", "state"))
		return false;
	const struct fsdp_json_token *value = fsdp_record_get(record, "handle");
	if (value == NULL || value->kind == FSDP_SCAN_NULL)
		return true;
	if (!fsdp_record_integer(record, "handle", &index) || index < 0 ||
		(uint64_t)index >= handles->count)
		return false;
	add_states(handles, index, record);
	if (pre)
		pre_forward(handles, index, record);
	handles->uses += post;
	if (post)
		fsdp_vec_append(&handles->post, &index);
	return true;
}

/* ---- the header ---- */

/* The texts of an array, in handles->texts, and as Python prints a list of them; data
 * NULL: it is none. */
static struct fsdp_span read_texts(
	struct handles *handles, const struct fsdp_json_token *array)
{
	struct fsdp_vec *list = &handles->texts;
	struct fsdp_items elements;
	struct fsdp_json_token text;
	struct fsdp_python printed = { .arena = &handles->reading->arena };
	fsdp_vec_truncate(list, 0);
	if (!fsdp_items_begin(&elements, array, handles->reading->limits))
		return (struct fsdp_span){ 0 };
	fsdp_python_put(&printed, "[");
	while (fsdp_items_next(&elements, &text)) {
		struct fsdp_span kept =
			fsdp_json_text_copy(&text, &handles->reading->arena);
		fsdp_vec_append(list, &kept);
		fsdp_python_put(&printed, "%s", list->count > 1 ? ", " : "");
		fsdp_python_repr(&printed, kept);
	}
	fsdp_python_put(&printed, "]");
	return fsdp_python_take(&printed);
}

static void parse_header(struct handles *handles, const struct fsdp_record *header)
{
	struct fsdp_trace_reading *reading = handles->reading;
	struct fsdp_items elements;
	struct fsdp_json_token object;
	struct fsdp_vec list;
	fsdp_vec_init(&list, reading->scratch, sizeof(struct handle));
	handles->limits[0] = handles->limits[1] = FSDP_ABSENT;
	fsdp_record_integer(header, "backward_prefetch_limit", &handles->limits[0]);
	fsdp_record_integer(header, "forward_prefetch_limit", &handles->limits[1]);
	for (int i = 0; i < 2; i++)
		if (handles->limits[i] < 0 && handles->limits[i] != FSDP_ABSENT)
			handles->limits[i] = 0;
	fsdp_items_begin(&elements, fsdp_record_get(header, "handles"), reading->limits);
	while (fsdp_items_next(&elements, &object)) {
		struct handle handle = { .shown.id = (int64_t)list.count };
		struct fsdp_record record = { 0 };
		if (object.kind == FSDP_SCAN_OBJECT &&
			fsdp_record_read(object.span, reading->limits, &record)) {
			fsdp_record_integer(&record, "id", &handle.shown.id);
			read_texts(handles, fsdp_record_get(&record, "fqns"));
			handle.shown.fqns = fsdp_trace_flat(reading, &handles->texts);
			handle.shown.fqn_count = handles->texts.count;
			for (size_t i = 0; i < handles->texts.count; i++)
				handle.bytes += handle.shown.fqns[i].size + SHOWN_LEAST;
			handle.names =
				read_texts(handles, fsdp_record_get(&record, "names"));
			handle.shown.module =
				fsdp_record_text(reading, &record, "module");
		}
		fsdp_vec_append(&list, &handle);
	}
	handles->list = fsdp_trace_flat(reading, &list);
	handles->count = list.count;
}

/* ---- the end ---- */

void fsdp_trace_handles(struct fsdp_trace_reading *reading, struct fsdp_lines *lines,
	const struct fsdp_record *header)
{
	struct fsdp_arena *scratch = reading->scratch;
	struct handles handles = { .reading = reading, .lines = lines, .line = 1 };
	struct fsdp_record record;
	fsdp_vec_init(&handles.pre, scratch, sizeof(int64_t));
	fsdp_vec_init(&handles.post, scratch, sizeof(int64_t));
	fsdp_vec_init(&handles.snapshots, scratch, sizeof(struct fsdp_order_snapshot));
	fsdp_vec_init(&handles.warnings, scratch, sizeof(struct fsdp_order_warning));
	fsdp_vec_init(&handles.problems, scratch, sizeof(struct fsdp_state_problem));
	fsdp_vec_init(&handles.forwards, scratch, sizeof(struct fsdp_forward));
	fsdp_vec_init(&handles.changes, scratch, sizeof(struct change));
	fsdp_vec_init(&handles.texts, scratch, sizeof(struct fsdp_span));
	handles.checks = fsdp_span_is(reading->recording.debug_level, "DETAIL");
	handles.order = FSDP_TAKE(&reading->arena, handles.order, 1);
	parse_header(&handles, header);
	while (fsdp_record_next(lines, &record))
		reading->recording.skipped += !add_event(&handles, &record);
	struct fsdp_exec_order *order = handles.order;
	size_t count = handles.count;
	struct fsdp_handle *shown = FSDP_TAKE(&reading->arena, shown, count);
	struct fsdp_state_lane *lanes = FSDP_TAKE(&reading->arena, lanes, count);
	struct fsdp_state_change *changes =
		FSDP_TAKE(&reading->arena, changes, handles.changes.count);
	add_snapshot(&handles, handles.line);
	const int64_t *pre = fsdp_trace_flat(reading, &handles.pre);
	const int64_t *post = fsdp_trace_flat(reading, &handles.post);
	struct fsdp_order_snapshot *snapshots =
		fsdp_trace_flat(reading, &handles.snapshots);
	for (size_t i = 0; i < handles.snapshots.count; i++) {
		snapshots[i].pre = pre;
		snapshots[i].post = post;
		post += snapshots[i].post_count;
	}
	for (size_t i = 0; i < count; i++) {
		uint32_t at = handles.list[i].first;
		shown[i] = handles.list[i].shown;
		lanes[i] = handles.list[i].lane;
		lanes[i].unit = &shown[i];
		lanes[i].handle = i;
		lanes[i].changes = changes;
		for (size_t j = 0; j < lanes[i].change_count; j++) {
			const struct change *change = fsdp_vec_at(&handles.changes, at);
			*changes++ = change->shown;
			at = change->next;
		}
	}
	order->handles = shown;
	order->handle_count = count;
	order->lanes = handles.has_states ? lanes : NULL;
	order->snapshots = snapshots;
	order->snapshot_count = handles.snapshots.count;
	/* 1 to 3 and the recording's own limit, in order. */
	struct fsdp_prefetch *list = FSDP_TAKE(&handles.reading->arena, list, 8);
	handles.order->prefetches = list;
	for (int way = 0; way < 2; way++) {
		int64_t own = handles.limits[way];
		const int64_t limits[] = { own < 1 ? own : FSDP_ABSENT, 1, 2, 3,
			own > 3 ? own : FSDP_ABSENT };
		for (size_t i = 0; i < FSDP_COUNT(limits); i++)
			if (limits[i] != FSDP_ABSENT)
				list[handles.order->prefetch_count++] =
					(struct fsdp_prefetch){ way == 0, limits[i] };
	}
	order->warnings = fsdp_trace_flat(reading, &handles.warnings);
	order->warning_count = handles.warnings.count;
	order->problems = fsdp_trace_flat(reading, &handles.problems);
	order->problem_count = handles.problems.count;
	order->forwards = fsdp_trace_flat(reading, &handles.forwards);
	order->forward_count = handles.forwards.count;
	reading->recording.order = order;
}

/* ---- recordings that are equal ---- */

struct fsdp_span fsdp_handle_name(const struct fsdp_handle *handle)
{
	return handle->module.size != 0 ? handle->module
	       : handle->fqn_count != 0 ? handle->fqns[0]
					: fsdp_span_text("(root)");
}

static bool same_list(const int64_t *a, size_t a_count, const int64_t *b, size_t b_count)
{
	return a_count == b_count &&
	       (a_count == 0 || memcmp(a, b, a_count * sizeof *a) == 0);
}

static bool same_lane(const struct fsdp_state_lane *a, const struct fsdp_state_lane *b)
{
	if (a->change_count != b->change_count || a->prefetches != b->prefetches)
		return false;
	for (size_t i = 0; i < a->change_count; i++)
		if (a->changes[i].training != b->changes[i].training ||
			a->changes[i].handle != b->changes[i].handle)
			return false;
	return true;
}

bool fsdp_exec_order_equal(
	const struct fsdp_exec_order *a, const struct fsdp_exec_order *b)
{
	const struct fsdp_order_snapshot *left = &a->snapshots[0];
	const struct fsdp_order_snapshot *right = &b->snapshots[0];

	if (a->handle_count != b->handle_count ||
		a->snapshot_count != b->snapshot_count ||
		a->prefetch_count != b->prefetch_count ||
		a->forward_count != b->forward_count ||
		(a->lanes == NULL) != (b->lanes == NULL) ||
		!same_list(left->pre, left->pre_count, right->pre, right->pre_count) ||
		!same_list(left->post, left->post_count, right->post, right->post_count))
		return false;
	for (size_t i = 0; i < a->handle_count; i++)
		if (a->handles[i].id != b->handles[i].id ||
			!fsdp_span_equal(fsdp_handle_name(&a->handles[i]),
				fsdp_handle_name(&b->handles[i])) ||
			(a->lanes != NULL && !same_lane(&a->lanes[i], &b->lanes[i])))
			return false;
	for (size_t i = 0; i < a->forward_count; i++)
		if (a->forwards[i].iter != b->forwards[i].iter ||
			a->forwards[i].handle != b->forwards[i].handle)
			return false;
	return true;
}
