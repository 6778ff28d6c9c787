/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace of torch.profiler, in the Chrome format (libkineto's output_json.cpp, PyTorch
 * 1.8 to 2.13):
 *
 *	{"distributedInfo": {"backend": B, "rank": R, "world_size": W, …},
 *	 "baseTimeNanoseconds": N, "traceEvents": [
 *	  {"ph": "X", "cat": C, "name": N, "pid": P, "tid": T, "ts": US, "dur": US,
 *	   "args": {…}}, …], …}
 *
 * or the array alone. Members come in any order. After damage, reading continues with the
 * next event. Each event that counts becomes a row of the table (kineto.h).
 */
#include <stdlib.h>
#include <string.h>

#include "trace/kineto.h"

static const int64_t WEEK = INT64_C(7) * 86400 * 1000000000;
/* So far from zero that differences and sums of two still fit. */
static const int64_t FARTHEST = INT64_C(1) << 61;

/* An event with a begin and an end. */
struct timed {
	const struct fsdp_kineto_event *event;
	struct fsdp_span name;
	int64_t ts_ns, dur_ns;
};

/* ---- rows ---- */

static uint32_t find_thread(
	struct fsdp_kineto *kineto, const struct fsdp_kineto_event *event)
{
	if (!kineto->thread_known)
		kineto->thread = fsdp_kineto_words_thread(
			&kineto->words, &event->pid, &event->tid);
	kineto->thread_known = true;
	return kineto->thread;
}

static struct fsdp_kineto_row make_row(const struct timed *one, enum fsdp_time_type type)
{
	return (struct fsdp_kineto_row){ .ts_ns = one->ts_ns,
		.dur_ns = (uint64_t)one->dur_ns & ((UINT64_C(1) << 50) - 1),
		.id = FSDP_ABSENT,
		.type = (unsigned)type & 63 };
}

static void append(struct fsdp_kineto *kineto, enum fsdp_kineto_table table,
	const struct fsdp_kineto_row *row)
{
	struct fsdp_vec *list = &kineto->tables[table];
	if (list->count >= UINT32_MAX)
		fsdp_arena_leave(&kineto->reading->arena);
	fsdp_vec_append(list, row);
}

/* With idle causes: what a thread did. Operators in operators, and those that touch, are
 * one row. */
static void append_host(
	struct fsdp_kineto *kineto, const struct timed *one, enum fsdp_idle_cause cause)
{
	if (!kineto->with_idle)
		return;
	struct fsdp_kineto_row row = make_row(one, FSDP_TIME_OTHER);
	row.kind = (unsigned)cause & 31;
	row.lane = find_thread(kineto, one->event);
	uint32_t none = 0, *last = cause == FSDP_IDLE_LAUNCH
					   ? fsdp_vec_reach(&kineto->last, row.lane)
					   : &none;
	if (*last != 0) {
		struct fsdp_kineto_row *before =
			fsdp_kineto_at(kineto, FSDP_KINETO_HOST, *last - 1);
		int64_t end_ns = one->ts_ns + one->dur_ns;
		if (row.ts_ns >= before->ts_ns && row.ts_ns <= fsdp_kineto_end(before) &&
			end_ns - before->ts_ns <= WEEK) {
			if (end_ns > fsdp_kineto_end(before))
				before->dur_ns = (uint64_t)(end_ns - before->ts_ns) &
						 ((UINT64_C(1) << 50) - 1);
			return;
		}
	}
	append(kineto, FSDP_KINETO_HOST, &row);
	*last = (uint32_t)kineto->tables[FSDP_KINETO_HOST].count;
}

/* ---- the device ---- */

/* With kernels or idle causes: the row of a name on a stream. What is new beyond the
 * limit `kernels` has no name and no stream. Call it before the args are read: their
 * texts overwrite a name that had escapes. */
static void find_kernel(struct fsdp_kineto *kineto, const struct timed *one,
	enum fsdp_kernel_kind kind, struct fsdp_kineto_row *row)
{
	struct fsdp_kineto_kernel kernel = { FSDP_NONE, FSDP_NONE, kind };
	struct fsdp_names *names = &kineto->words.names;
	uint32_t key[3] = { FSDP_NONE, FSDP_NONE, kind }, id;
	row->name = 0;
	if (!kineto->with_kernels && !kineto->with_units)
		return;
	row->lane = find_thread(kineto, one->event);
	if (!kineto->with_kernels)
		return;
	/* The row 0 is not counted. */
	bool full = kineto->kernels.count >
		    fsdp_limit(kineto->reading->limits, FSDP_LIMIT_KERNELS);
	if (full)
		key[0] = fsdp_names_find_child(names, FSDP_KINETO_NAMES, one->name);
	else
		fsdp_kineto_words_find(
			&kineto->words, FSDP_KINETO_NAMES, one->name, &key[0]);
	key[1] = row->lane;
	if (!full ||
		(key[0] != FSDP_NONE && fsdp_names_find_child(names, FSDP_KINETO_KERNELS,
						FSDP_KINETO_KEY(key)) != FSDP_NONE)) {
		kernel.name = key[0];
		kernel.stream = key[1];
	} else {
		key[0] = key[1] = FSDP_NONE;
	}
	uint32_t *known = fsdp_kineto_words_find(
		&kineto->words, FSDP_KINETO_KERNELS, FSDP_KINETO_KEY(key), &id);
	if (*known == 0) {
		*known = (uint32_t)kineto->kernels.count;
		fsdp_vec_append(&kineto->kernels, &kernel);
	}
	row->name = *known;
}

static void append_work(
	struct fsdp_kineto *kineto, const struct timed *one, struct fsdp_kineto_row *row)
{
	if (!fsdp_kineto_read_correlation(&kineto->input, &one->event->args, &row->id))
		row->id = FSDP_ABSENT;
	append(kineto, FSDP_KINETO_WORK, row);
}

static void add_comm(struct fsdp_kineto *kineto, const struct timed *one,
	const struct fsdp_kineto_args *args, struct fsdp_kineto_row *row)
{
	struct fsdp_vec *list = &kineto->comms.list;
	struct fsdp_comm comm = { .ts_ns = one->ts_ns,
		.dur_ns = one->dur_ns,
		.type = FSDP_TIME_OTHER,
		.how = FSDP_BY_ARGS,
		.by_name = (unsigned char)fsdp_collective_of_kernel(one->name) };
	if (args->collective.kind == FSDP_SCAN_TEXT)
		comm.type = (unsigned char)fsdp_collective_type(
			fsdp_kineto_words_read(&kineto->words, &args->collective));
	/* With kernels, notes do not count as collectives. */
	if (!kineto->by_kernel)
		fsdp_vec_truncate(list, 0);
	kineto->by_kernel = true;
	comm.host_ns = fsdp_kineto_describe(&kineto->comms, &kineto->words, args, &comm);
	comm.order = (uint32_t)list->count;
	fsdp_vec_append(list, &comm);
	if (!fsdp_kineto_integer(&args->correlation, &row->id))
		row->id = FSDP_ABSENT;
	row->kind = FSDP_KINETO_COMM;
	append(kineto, FSDP_KINETO_WORK, row);
}

/* Or sets memory. */
static void add_copy(struct fsdp_kineto *kineto, const struct timed *one, bool is_set)
{
	static const enum fsdp_time_type copies[] = { FSDP_TIME_H2D, FSDP_TIME_D2H,
		FSDP_TIME_D2D, FSDP_TIME_P2P, FSDP_TIME_HTOH, FSDP_TIME_MEMSET };
	enum fsdp_time_type type = is_set ? FSDP_TIME_MEMSET : fsdp_copy_type(one->name);
	struct fsdp_kineto_row row = make_row(one, type);
	unsigned copy = 0;
	find_kernel(kineto, one, FSDP_KERNEL_COPIES, &row);
	if (type == FSDP_TIME_OTHER) {
		struct fsdp_kineto_args args;
		fsdp_kineto_read_args(&kineto->input, &one->event->args, &args);
		if (args.kind.kind == FSDP_SCAN_TEXT)
			type = fsdp_copy_type(
				fsdp_kineto_words_read(&kineto->words, &args.kind));
	}
	if (type == FSDP_TIME_OTHER)
		type = FSDP_TIME_D2D;
	while (copies[copy] != type)
		copy++;
	row.type = (unsigned)type & 63;
	row.kind = (FSDP_KINETO_COPIES + copy) & 31;
	append_work(kineto, one, &row);
}

/* The meaning of a kernel's name, found once per name. */
enum { KERNEL_COMPUTE = 1, KERNEL_COMM, KERNEL_COPY };

static void add_kernel(struct fsdp_kineto *kineto, const struct timed *one)
{
	struct fsdp_kineto_args args = { 0 };
	struct timed kept = *one;
	uint32_t id, *what = fsdp_kineto_words_find(
			     &kineto->words, FSDP_KINETO_NAMES, one->name, &id);
	if (*what == 0)
		*what = fsdp_span_has(one->name, "MEMORY_COPY_", false) ||
					fsdp_span_has(one->name,
						"__amd_rocclr_copyBuffer", false)
				? KERNEL_COPY
			: fsdp_is_comm_kernel(one->name) ? KERNEL_COMM
							 : KERNEL_COMPUTE;
	if (*what == KERNEL_COPY) {
		add_copy(kineto, one, false);
		return;
	}
	bool comm = *what == KERNEL_COMM;
	if (comm || fsdp_kineto_may_name(&kineto->input, &one->event->args)) {
		fsdp_kineto_read_args(&kineto->input, &one->event->args, &args);
		comm |= args.collective.kind == FSDP_SCAN_TEXT;
	}
	/* Texts of the args overwrite a name that had escapes. */
	kept.name = fsdp_kineto_words_text(&kineto->words, id);
	struct fsdp_kineto_row row = make_row(one, FSDP_TIME_COMPUTE);
	row.kind = FSDP_KINETO_COMPUTE;
	find_kernel(kineto, &kept, comm ? FSDP_KERNEL_COMMUNICATES : FSDP_KERNEL_COMPUTES,
		&row);
	if (comm)
		add_comm(kineto, &kept, &args, &row);
	else
		append_work(kineto, one, &row);
}

/* ---- the host ---- */

static void append_region(
	struct fsdp_kineto *kineto, enum fsdp_time_type type, const struct timed *one)
{
	struct fsdp_kineto_row row = make_row(one, type);
	append(kineto, FSDP_KINETO_REGION, &row);
}

static void add_step(struct fsdp_kineto *kineto, const struct timed *one)
{
	struct fsdp_span digits;
	if (one->name.size == 0 || one->name.data[0] != 'P')
		return;
	struct fsdp_kineto_row row = make_row(one, FSDP_TIME_ALL);
	row.name = (uint32_t)kineto->tables[FSDP_KINETO_STEP].count; /* its order */
	if (!fsdp_span_behind(one->name, "ProfilerStep#", &digits) ||
		!fsdp_decimal_integer(digits, &row.id) || digits.data[0] == '-' ||
		memchr(digits.data, '.', digits.size) != NULL)
		return;
	kineto->step_thread = find_thread(kineto, one->event);
	append(kineto, FSDP_KINETO_STEP, &row);
}

/* The thread of a row. With units also the process of the thread: on the host, the
 * threads that move data and those that ask for it are of one process. */
static void add_process(struct fsdp_kineto *kineto, const struct fsdp_kineto_event *event,
	struct fsdp_kineto_row *row)
{
	static const struct fsdp_json_value none = { .kind = FSDP_SCAN_END };
	row->lane = find_thread(kineto, event);
	if (kineto->with_units)
		*(uint32_t *)fsdp_vec_reach(&kineto->process_of, row->lane) =
			fsdp_kineto_words_thread(&kineto->words, &event->pid, &none);
}

static void add_unit(struct fsdp_kineto *kineto, const struct timed *one)
{
	struct fsdp_kineto_row row = make_row(one, FSDP_TIME_OTHER);
	if (!kineto->with_units || one->name.size == 0 || one->name.data[0] != 'F')
		return;
	add_process(kineto, one->event, &row);
	fsdp_kineto_units_add(kineto, one->name, row);
}

/* With kernels of collectives, notes only show which collective a kernel is. Without any,
 * they are the collectives, and their args count. */
static void add_note(struct fsdp_kineto *kineto, const struct timed *one)
{
	struct fsdp_comm comm = { .ts_ns = one->ts_ns,
		.dur_ns = one->dur_ns,
		.order = (uint32_t)kineto->comms.list.count,
		.how = FSDP_BY_NAME,
		.by_name = FSDP_TIME_OTHER };
	struct fsdp_kineto_args args;
	if (!fsdp_is_backend_note(one->name))
		return;
	comm.type = (unsigned char)fsdp_collective_type(one->name);
	struct fsdp_kineto_row row = make_row(one, (enum fsdp_time_type)comm.type);
	if (!kineto->by_kernel) {
		fsdp_kineto_read_args(&kineto->input, &one->event->args, &args);
		fsdp_kineto_describe(&kineto->comms, &kineto->words, &args, &comm);
		comm.host_ns = one->ts_ns;
		fsdp_vec_append(&kineto->comms.list, &comm);
	}
	add_process(kineto, one->event, &row);
	append(kineto, FSDP_KINETO_NOTE, &row);
}

static bool is_resharding(struct fsdp_span name)
{
	static const char hook[] = "FSDP::post_backward_reshard";
	size_t size = sizeof hook - 1;
	if (fsdp_span_is(name, "resharding") ||
		fsdp_span_is(name,
			"FullyShardedDataParallel._post_backward_hook_reshard_only"))
		return true;
	if (name.size < size || memcmp(name.data, hook, size) != 0)
		return false;
	return name.size == size ||
	       (name.size >= size + 3 && name.data[size] == ' ' &&
		       name.data[size + 1] == '(' && name.data[name.size - 1] == ')');
}

static void add_annotation(struct fsdp_kineto *kineto, const struct timed *one)
{
	enum fsdp_time_type type = fsdp_time_type_of(one->name);
	/* "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__" */
	if (fsdp_span_begins(one->name, FSDP_SPAN("enumerate(DataLoader)#"))) {
		int64_t *data_ns =
			fsdp_vec_reach(&kineto->data_ns, find_thread(kineto, one->event));
		if (!kineto->limited)
			fsdp_sum_ns(data_ns, one->dur_ns, &kineto->overflow);
		append_host(kineto, one, FSDP_IDLE_DATA_LOADER);
		return;
	}
	if (kineto->with_idle && fsdp_is_backend_note(one->name))
		append_host(kineto, one, FSDP_IDLE_COLLECTIVE);
	else if (is_resharding(one->name))
		append_region(kineto, FSDP_TIME_RESHARDING, one);
	else if (type == FSDP_TIME_ALL_GATHER_OBJECT ||
		 (type >= FSDP_TIME_ENTER_UNSHARD && type < FSDP_TIME_COUNT))
		append_region(kineto, type, one);
}

/* …distributed_c10d.py(N): all_gather_object */
static bool is_object_gather(struct fsdp_span name)
{
	struct fsdp_span end = FSDP_SPAN("): all_gather_object");
	struct fsdp_span file = FSDP_SPAN("distributed_c10d.py(");
	if (!fsdp_span_ends(name, end))
		return false;
	size_t at = name.size - end.size, digits = 0;
	while (at > 0 && fsdp_is_digit(name.data[at - 1])) {
		at--;
		digits++;
	}
	return digits != 0 && fsdp_span_ends(fsdp_span(name.data, at), file);
}

/* Whether a call can be one that allocates memory; rules out most calls by two bytes. */
static bool may_allocate(struct fsdp_span name)
{
	size_t at = fsdp_span_begins(name, FSDP_SPAN("cuda"))  ? 4
		    : fsdp_span_begins(name, FSDP_SPAN("hip")) ? 3
							       : 2;
	return name.size > at + 1 &&
	       (name.data[at] == 'F' || name.data[at] == 'H' ||
		       (name.data[at] == 'M' && (at != 4 || name.data[at + 1] == 'a')));
}

/* The cause of idle time of a call of the runtime, found once per name. */
static void add_runtime(struct fsdp_kineto *kineto, const struct timed *one)
{
	struct fsdp_kineto_row row = make_row(one, FSDP_TIME_OTHER);
	if (!kineto->with_idle && !may_allocate(one->name))
		return;
	uint32_t *cause = fsdp_kineto_words_find(
		&kineto->words, FSDP_KINETO_RUNTIME_CALLS, one->name, &row.name);
	if (*cause == 0)
		*cause = (uint32_t)fsdp_runtime_cause(one->name) + 1;
	if (*cause == FSDP_IDLE_ALLOCATION + 1)
		append(kineto, FSDP_KINETO_ALLOC, &row);
	append_host(kineto, one, (enum fsdp_idle_cause)(*cause - 1));
}

static void add_call(struct fsdp_kineto *kineto, const struct timed *one)
{
	struct fsdp_kineto_row row = make_row(one, FSDP_TIME_OTHER);
	add_runtime(kineto, one);
	if (!fsdp_kineto_read_correlation(&kineto->input, &one->event->args, &row.id))
		return;
	row.is_launch = fsdp_span_is(one->name, "cudaLaunchKernel") ||
			(fsdp_span_has(one->name, "Launch", false) &&
				!fsdp_span_has(one->name, "HostFunc", false));
	row.lane = find_thread(kineto, one->event);
	append(kineto, FSDP_KINETO_CALL, &row);
}

/* ---- events ---- */

static bool nanoseconds(const struct fsdp_json_value *value, int64_t *ret_ns)
{
	struct fsdp_span text = value->span;
	if (value->kind == FSDP_SCAN_TEXT) {
		while (text.size != 0 && text.data[0] <= ' ')
			text = fsdp_span(text.data + 1, text.size - 1);
		while (text.size != 0 && text.data[text.size - 1] <= ' ')
			text.size--;
	} else if (value->kind != FSDP_SCAN_NUMBER) {
		return false;
	}
	return fsdp_decimal_fixed(text, 3, ret_ns) && *ret_ns > -FARTHEST &&
	       *ret_ns < FARTHEST;
}

static void add_meant(struct fsdp_kineto *kineto, enum fsdp_kineto_meaning meaning,
	const struct timed *one)
{
	switch (meaning) {
	case FSDP_KINETO_KERNEL:
		add_kernel(kineto, one);
		break;
	case FSDP_KINETO_COPY:
	case FSDP_KINETO_SET:
		add_copy(kineto, one, meaning == FSDP_KINETO_SET);
		break;
	case FSDP_KINETO_RUNTIME:
		add_call(kineto, one);
		break;
	case FSDP_KINETO_PYTHON:
		if (is_object_gather(one->name))
			append_region(kineto, FSDP_TIME_ALL_GATHER_OBJECT, one);
		break;
	case FSDP_KINETO_OP:
		kineto->any_reduce_scatter_op |=
			fsdp_span_is(one->name, "c10d::_reduce_scatter_base_");
		add_step(kineto, one);
		add_note(kineto, one);
		append_host(kineto, one,
			kineto->with_idle &&
					fsdp_span_begins(one->name, FSDP_SPAN("c10d::"))
				? FSDP_IDLE_COLLECTIVE
				: FSDP_IDLE_LAUNCH);
		break;
	case FSDP_KINETO_ANNOTATION:
	case FSDP_KINETO_ABSENT:
		/* Of its process "Overlap Analysis". */
		kineto->reading->recording.is_ascend |=
			fsdp_span_is(one->name, "Communication(Not Overlapped)");
		add_step(kineto, one);
		add_note(kineto, one);
		add_unit(kineto, one);
		add_annotation(kineto, one);
		break;
	case FSDP_KINETO_TRACE:
	case FSDP_KINETO_OTHER:
		break;
	}
}

/* An event from begin to end, whether it is written as one or as two. */
static void add_timed(struct fsdp_kineto *kineto, struct timed one, bool has_times)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_kineto_category *category = &kineto->words.absent;
	const struct fsdp_json_value *cat = &one.event->cat, *name = &one.event->name;
	if (cat->kind == FSDP_SCAN_TEXT)
		category = fsdp_kineto_words_category(
			&kineto->words, fsdp_kineto_words_read(&kineto->words, cat));
	enum fsdp_kineto_meaning meaning = category->meaning;
	if (!has_times || one.dur_ns < 0 || one.dur_ns > WEEK) {
		recording->bad_dur += meaning != FSDP_KINETO_TRACE;
		return;
	}
	fsdp_kineto_words_count(&kineto->words, category, one.dur_ns, &kineto->overflow);
	if (meaning == FSDP_KINETO_TRACE)
		return;
	int64_t end_ns = one.ts_ns + one.dur_ns;
	if (recording->first_ts_ns == FSDP_ABSENT || one.ts_ns < recording->first_ts_ns)
		recording->first_ts_ns = one.ts_ns;
	if (recording->last_end_ns == FSDP_ABSENT || end_ns > recording->last_end_ns)
		recording->last_end_ns = end_ns;
	if (meaning == FSDP_KINETO_OTHER)
		return;
	one.name = name->kind == FSDP_SCAN_TEXT
			   ? fsdp_kineto_words_read(&kineto->words, name)
			   : FSDP_SPAN("");
	add_meant(kineto, meaning, &one);
}

static void add_end(
	struct fsdp_kineto *kineto, const struct fsdp_kineto_event *event, uint32_t stack)
{
	struct fsdp_kineto_open *open = fsdp_kineto_opens_end(&kineto->opens, stack);
	if (open == NULL) {
		kineto->reading->recording.unpaired++;
		return;
	}
	struct timed one = { .event = &open->event };
	int64_t end_ns;
	bool has_times = nanoseconds(&open->event.ts, &one.ts_ns) &&
			 nanoseconds(&event->ts, &end_ns);
	if (has_times)
		one.dur_ns = end_ns - one.ts_ns;
	kineto->input.quick_args = false; /* those are of the end */
	add_timed(kineto, one, has_times);
}

static void add_any(struct fsdp_kineto *kineto, const struct fsdp_kineto_event *event)
{
	struct fsdp_span phase =
		event->ph.kind == FSDP_SCAN_TEXT
			? fsdp_kineto_words_read(&kineto->words, &event->ph)
			: FSDP_SPAN("?");
	fsdp_kineto_words_count_phase(&kineto->words, phase);
	char kind = phase.size == 1 ? (char)phase.data[0] : '\0';
	kineto->thread_known = false;
	if (kind == 'X') {
		struct timed one = { .event = event };
		bool has_times = nanoseconds(&event->ts, &one.ts_ns) &&
				 nanoseconds(&event->dur, &one.dur_ns);
		add_timed(kineto, one, has_times);
	} else if (kind == 'B' || kind == 'E') {
		uint32_t *stack =
			fsdp_vec_at(&kineto->words.known, find_thread(kineto, event));
		if (kind == 'B')
			fsdp_kineto_opens_begin(&kineto->opens, stack, event);
		else
			add_end(kineto, event, *stack);
	}
}

static bool bid(struct fsdp_span head)
{
	if (head.size == 0 || (head.data[0] != '{' && head.data[0] != '['))
		return false;
	/* A log may begin with a bracket too; the next bytes decide. */
	return head.data[0] == '{' || !fsdp_trace_log.bid(head);
}

/* ---- all events ---- */

static void parse_events(struct fsdp_kineto *kineto, struct fsdp_json_token *token)
{
	struct fsdp_trace_reading *reading = kineto->reading;
	struct fsdp_recording *recording = &reading->recording;
	struct fsdp_kineto_input *input = &kineto->input;
	bool found = true;
	input->scan.events_depth = input->scan.depth;
	while (found) {
		if (fsdp_json_quick_another(&input->scan))
			token->kind = FSDP_SCAN_OBJECT;
		else
			fsdp_kineto_next(input, token);
		if (token->kind == FSDP_SCAN_OBJECT) {
			struct fsdp_kineto_event event;
			enum fsdp_kineto_found how =
				fsdp_kineto_read_event(input, token, &event);
			recording->events += how != FSDP_KINETO_LOST;
			recording->dropped += how == FSDP_KINETO_LOST &&
					      !(token->kind == FSDP_SCAN_CUT &&
						      fsdp_trace_is_stopped(reading));
			recording->recovered += how == FSDP_KINETO_RECOVERED;
			if (how != FSDP_KINETO_LOST)
				add_any(kineto, &event);
			fsdp_kineto_release_event(input);
		} else if (token->kind == FSDP_SCAN_ARRAY_END ||
			   token->kind == FSDP_SCAN_CUT) {
			break;
		} else if (token->kind != FSDP_SCAN_BAD) {
			bool is_list = token->kind == FSDP_SCAN_ARRAY;
			fsdp_kineto_skip(input, token);
			recording->dropped += !fsdp_kineto_is_broken(token);
			kineto->lists += is_list && !fsdp_kineto_is_broken(token);
		}
		if (token->kind == FSDP_SCAN_BAD) {
			kineto->bad_tokens++;
			fsdp_trace_require(reading, fsdp_json_scan_resync(&input->scan,
							    &found, &reading->error));
		}
		if (token->kind == FSDP_SCAN_CUT)
			break;
	}
	if (!found)
		token->kind = FSDP_SCAN_CUT;
	if (token->kind == FSDP_SCAN_ARRAY_END)
		input->scan.events_depth = 0;
}

/* ---- the root ---- */

/* The array "pg_config": whether two groups of several ranks have different ranks. *token
 * is its end, or what is broken. */
static void parse_groups(struct fsdp_kineto *kineto, struct fsdp_json_token *token)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	uint64_t first = 0, ranks = 0;
	size_t count = 0;
	uint32_t depth = kineto->input.scan.depth;
	bool is_ranks = false;
	do {
		int64_t rank;
		fsdp_kineto_next(&kineto->input, token);
		if (token->kind == FSDP_SCAN_KEY) {
			is_ranks = fsdp_json_text_is(token, FSDP_SPAN("ranks"));
			count = 0;
			ranks = 0;
		} else if (is_ranks && token->kind == FSDP_SCAN_NUMBER &&
			   fsdp_decimal_integer(token->span, &rank)) {
			ranks = fsdp_mix(ranks + 1, (uint64_t)rank + 0x9e3779b97f4a7c15);
			count++;
		} else if (is_ranks && token->kind == FSDP_SCAN_ARRAY_END && count > 1) {
			recording->has_several_groups |= first != 0 && first != ranks;
			first = ranks;
		}
	} while (!fsdp_kineto_is_broken(token) && kineto->input.scan.depth >= depth);
}

static void parse_info(struct fsdp_kineto *kineto, struct fsdp_json_token *token)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_kineto_input *input = &kineto->input;
	static const char *const keys[] = { "rank", "world_size", "backend",
		"pg_config" };
	enum { RANK, WORLD, BACKEND, GROUPS, OTHER };
	fsdp_kineto_next(input, token);
	if (token->kind != FSDP_SCAN_OBJECT) {
		fsdp_kineto_skip(input, token);
		return;
	}
	do {
		size_t what = 0;
		fsdp_kineto_next(input, token);
		if (token->kind != FSDP_SCAN_KEY)
			return;
		while (what < OTHER &&
			!fsdp_json_text_is(token, fsdp_span_text(keys[what])))
			what++;
		if (what == GROUPS)
			fsdp_kineto_next(input, token);
		if (what == GROUPS && token->kind == FSDP_SCAN_ARRAY)
			parse_groups(kineto, token);
		else
			fsdp_kineto_skip(input, token);
		bool text = token->kind == FSDP_SCAN_TEXT,
		     number = token->kind == FSDP_SCAN_NUMBER || text;
		if (what == RANK && number &&
			fsdp_decimal_integer(token->span, &recording->rank))
			recording->rank_from = FSDP_RANK_FROM_FILE;
		else if (what == WORLD && number)
			fsdp_decimal_integer(token->span, &recording->world_size);
		else if (what == BACKEND && text)
			recording->backend =
				fsdp_json_text_copy(token, &kineto->reading->arena);
	} while (!fsdp_kineto_is_broken(token));
}

/* A member of the root after its key. */
static void parse_metadata(struct fsdp_kineto *kineto, struct fsdp_json_token *token)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_kineto_input *input = &kineto->input;
	if (fsdp_json_text_is(token, FSDP_SPAN("traceEvents"))) {
		fsdp_kineto_next(input, token);
		kineto->seen_events |= token->kind == FSDP_SCAN_ARRAY;
		if (token->kind == FSDP_SCAN_ARRAY)
			parse_events(kineto, token);
		else
			fsdp_kineto_skip(input, token);
		return;
	}
	if (fsdp_json_text_is(token, FSDP_SPAN("distributedInfo"))) {
		/* If it is broken, nothing of it counts. */
		struct fsdp_recording before = *recording;
		parse_info(kineto, token);
		if (fsdp_kineto_is_broken(token))
			*recording = before;
		return;
	}
	bool base = fsdp_json_text_is(token, FSDP_SPAN("baseTimeNanoseconds"));
	kineto->seen_nodes |= fsdp_json_text_is(token, FSDP_SPAN("nodes"));
	kineto->seen_rocprof |=
		fsdp_json_text_is(token, FSDP_SPAN("rocprofiler-sdk-tool"));
	fsdp_kineto_skip(input, token);
	if (base && (token->kind == FSDP_SCAN_NUMBER || token->kind == FSDP_SCAN_TEXT))
		fsdp_decimal_integer(token->span, &recording->base_ns);
}

/* After the brace of the root. *token is its end, or CUT. */
static void parse_root(struct fsdp_kineto *kineto, struct fsdp_json_token *token)
{
	struct fsdp_json_scan *scan = &kineto->input.scan;
	for (;;) {
		fsdp_kineto_next(&kineto->input, token);
		if (token->kind == FSDP_SCAN_KEY)
			parse_metadata(kineto, token);
		if (token->kind == FSDP_SCAN_CUT ||
			(token->kind == FSDP_SCAN_OBJECT_END && scan->depth == 0))
			return;
		if (token->kind != FSDP_SCAN_BAD)
			continue;
		kineto->bad_metadata++;
		bool found = !kineto->seen_events;
		if (found)
			fsdp_trace_require(kineto->reading,
				fsdp_json_scan_seek(scan, FSDP_SPAN("traceEvents"),
					&found, &kineto->reading->error));
		if (!found) {
			token->kind = FSDP_SCAN_CUT;
			return;
		}
	}
}

static void fail_without_events(
	struct fsdp_kineto *kineto, const char *kind, const char *what, const char *hint)
{
	struct fsdp_error **error = &kineto->reading->error;
	bool other = strcmp(kind, "no_trace_events") != 0;
	fsdp_fail(error, other ? FSDP_ERROR_UNSUPPORTED : FSDP_ERROR_NOT_A_CHECKPOINT,
		FSDP_UNKNOWN, "%s", what);
	fsdp_error_add_kind(error, kind);
	fsdp_trace_require(kineto->reading, fsdp_error_add_hint(error, "%s", hint));
}

static void read_once(struct fsdp_kineto *kineto)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_json_token token;
	uint64_t dropped = recording->dropped;
	fsdp_kineto_next(&kineto->input, &token);
	if (token.kind == FSDP_SCAN_ARRAY) {
		recording->root = "list";
		parse_events(kineto, &token);
		if (kineto->lists != 0 && recording->events == 0 &&
			kineto->lists == recording->dropped)
			fail_without_events(kineto, "memory_timeline",
				"this is a list of lists, as export_memory_timeline() writes it, and has no times of calls",
				"record memory with torch.cuda.memory._record_memory_history() and _dump_snapshot(FILE): replay --memory FILE");
		/* The end of an array may be missing. */
		recording->truncated =
			token.kind == FSDP_SCAN_CUT && recording->dropped > dropped;
	} else if (token.kind == FSDP_SCAN_OBJECT) {
		static const char record[] =
			"record with torch.profiler and export_chrome_trace";
		recording->root = "object";
		parse_root(kineto, &token);
		recording->truncated = token.kind == FSDP_SCAN_CUT;
		if (!kineto->seen_events && kineto->seen_nodes)
			fail_without_events(kineto, "execution_trace",
				"this is a PyTorch execution trace, which has no times",
				record);
		if (!kineto->seen_events && kineto->seen_rocprof)
			fail_without_events(kineto, "rocprof",
				"this is a trace of rocprofv3", record);
		if (!kineto->seen_events)
			fail_without_events(kineto, "no_trace_events",
				"this JSON has no array \"traceEvents\"",
				"give a file of torch.profiler's export_chrome_trace");
	}
	if (token.kind == FSDP_SCAN_CUT)
		return;
	/* Something may follow the end that is not a blank. */
	fsdp_kineto_next(&kineto->input, &token);
	if (kineto->input.scan.at < kineto->input.scan.window.size)
		recording->trailing_data_at = (int64_t)token.offset;
}

/* ---- what was noticed ---- */

/* By name. */
static void list_deviations(struct fsdp_kineto *kineto, bool bom, bool cut)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	const uint64_t *counts = kineto->input.scan.deviations;
	const struct {
		const char *name;
		uint64_t count;
	} rows[] = {
		{ "bad_escape", counts[FSDP_DEVIATION_BAD_ESCAPE] },
		{ "bad_metadata", kineto->bad_metadata },
		{ "bad_token", kineto->bad_tokens },
		{ "bare_quote", counts[FSDP_DEVIATION_BARE_QUOTE] },
		{ "bare_word", counts[FSDP_DEVIATION_BARE_WORD] },
		{ "bom", bom },
		{ "control_char", counts[FSDP_DEVIATION_CONTROL_CHAR] },
		{ "gz_cut", cut },
		{ "missing_comma", counts[FSDP_DEVIATION_MISSING_COMMA] },
		{ "not_utf8", counts[FSDP_DEVIATION_NOT_UTF8] },
		{ "odd_number", counts[FSDP_DEVIATION_NUMBER] },
		{ "trailing_comma", counts[FSDP_DEVIATION_TRAILING_COMMA] },
		{ "trailing_data", recording->trailing_data_at != FSDP_ABSENT },
	};
	struct fsdp_tally *list =
		FSDP_TAKE(&kineto->reading->arena, list, FSDP_COUNT(rows));
	recording->deviations = list;
	for (size_t i = 0; i < FSDP_COUNT(rows); i++)
		if (rows[i].count != 0)
			list[recording->deviation_count++] =
				(struct fsdp_tally){ fsdp_span_text(rows[i].name),
					rows[i].count, 0 };
}

static void read_kineto(struct fsdp_trace_reading *reading)
{
	const struct fsdp_recording_options *options = reading->options;
	struct fsdp_arena *arena = &reading->arena, *scratch = reading->scratch;
	struct fsdp_kineto *kineto = FSDP_TAKE(scratch, kineto, 1);
	kineto->reading = reading;
	kineto->with_kernels = options->kernels || options->idle;
	kineto->with_units = options->units;
	kineto->with_idle = options->idle;
	kineto->limited = options->step_range_count != 0;
	reading->recording.kind = FSDP_RECORDING_KINETO;
	fsdp_vec_init(&kineto->opens.stacks, scratch, sizeof(struct fsdp_kineto_open *));
	fsdp_vec_init(&kineto->comms.list, arena, sizeof(struct fsdp_comm));
	fsdp_vec_init(&kineto->comms.sorts, arena, sizeof(struct fsdp_comm_sort));
	fsdp_vec_init(&kineto->comms.seqs, arena, sizeof(struct fsdp_span));
	kineto->calls = fsdp_arena_new_below(scratch);
	for (int table = 0; table < FSDP_KINETO_TABLES; table++)
		fsdp_vec_init(&kineto->tables[table],
			table == FSDP_KINETO_CALL ? kineto->calls : scratch,
			sizeof(struct fsdp_kineto_row));
	fsdp_vec_init(&kineto->kernels, scratch, sizeof(struct fsdp_kineto_kernel));
	fsdp_vec_init(&kineto->last, scratch, sizeof(uint32_t));
	fsdp_vec_init(&kineto->process_of, scratch, sizeof(uint32_t));
	fsdp_vec_init(&kineto->data_ns, scratch, sizeof(int64_t));
	kineto->step_thread = FSDP_NONE;
	fsdp_types_init(&kineto->types, scratch);
	for (int type = 0; type < FSDP_TIME_COUNT; type++)
		fsdp_types_find(
			&kineto->types, fsdp_time_type_name((enum fsdp_time_type)type));
	fsdp_kineto_words_init(&kineto->words, arena, scratch);
	fsdp_vec_append(&kineto->kernels, &(struct fsdp_kineto_kernel){ 0 });
	bool has_mark = fsdp_kineto_input_open(&kineto->input, reading);
	read_once(kineto);
	reading->recording.unpaired += fsdp_kineto_opens_count(&kineto->opens);
	bool cut = fsdp_stream_is_cut(reading->stream) && !fsdp_trace_is_stopped(reading);
	reading->recording.truncated |= cut;
	list_deviations(kineto, has_mark, cut);
	fsdp_json_scan_done(&kineto->input.scan);
	/* A data loader in another thread than the steps does not hold them up. */
	for (size_t i = 0; i < kineto->data_ns.count; i++)
		if (kineto->step_thread == FSDP_NONE || kineto->step_thread == i)
			fsdp_sum_ns(&reading->recording.data_loader_ns,
				*(const int64_t *)fsdp_vec_at(&kineto->data_ns, i),
				&kineto->overflow);
	fsdp_kineto_finish(kineto);
}

const struct fsdp_trace_reader fsdp_trace_kineto = { bid, read_kineto };
