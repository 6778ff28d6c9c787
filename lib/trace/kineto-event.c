/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one event of a Kineto trace counts as. What only the end of the trace tells
 * (which collective a kernel was, which step) is kept for kineto-finish.c.
 */
#include "trace/kineto-kernels.h"
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

/* What is done on the host. */
static bool add(
	struct fsdp_kineto *kineto, enum fsdp_time_type type, const struct timed *one)
{
	const struct fsdp_kineto_call call =
		fsdp_kineto_call(one->ts_ns, one->dur_ns, type, false, FSDP_ABSENT);
	return (kineto->second && !kineto->times.again) ||
	       fsdp_kineto_times_add(&kineto->times, &call);
}

/* With --by=idle, what the device does. */
static bool put_work(struct fsdp_kineto *kineto, const struct timed *one,
	int64_t correlation, uint32_t kernel)
{
	return fsdp_kineto_idle_work(
		&kineto->idle, &(struct fsdp_kineto_work){ one->ts_ns,
				       one->ts_ns + one->dur_ns, correlation, kernel });
}

/* What is done on the device. With --steps, when it is busy is noted as soon as the step
 * is known. */
static bool add_device(struct fsdp_kineto *kineto, enum fsdp_time_type type,
	const struct timed *one, uint32_t kernel)
{
	struct fsdp_kineto_call call =
		fsdp_kineto_call(one->ts_ns, one->dur_ns, type, true, FSDP_ABSENT);
	call.kernel = kernel;
	if (kineto->second && !kineto->times.again)
		return true;
	if (!kineto->second && !fsdp_kineto_steps_limited(&kineto->times.steps))
		fsdp_kineto_kernels_add(&kineto->names, kernel, one->dur_ns);
	if (!fsdp_kineto_read_correlation(
		    &kineto->input, &one->event->args, &call.correlation))
		call.correlation = FSDP_ABSENT;
	return fsdp_kineto_times_add(&kineto->times, &call) &&
	       (kineto->second || fsdp_kineto_steps_limited(&kineto->times.steps) ||
		       (fsdp_kineto_busy_add(
				&kineto->busy, type, one->ts_ns, one->dur_ns) &&
			       put_work(kineto, one, call.correlation, kernel)));
}

static bool busy_with_comm(
	struct fsdp_kineto *kineto, enum fsdp_kineto_kind kind, const struct timed *one)
{
	return kineto->second || fsdp_kineto_steps_limited(&kineto->times.steps) ||
	       fsdp_intervals_add(
		       &kineto->busy.lists[kind], one->ts_ns, one->ts_ns + one->dur_ns);
}

static bool thread_of(struct fsdp_kineto *kineto, const struct fsdp_kineto_event *event,
	uint32_t *ret_id)
{
	if (!kineto->thread_known)
		kineto->thread_known = fsdp_kineto_words_thread(
			&kineto->words, &event->pid, &event->tid, &kineto->thread);
	*ret_id = kineto->thread;
	return kineto->thread_known;
}

/* ---- what is on the device ---- */

/* The row of a kernel by its name, if those are wanted. Call it before the args are read:
 * their texts overwrite a name that had escapes. */
static bool find_kernel(struct fsdp_kineto *kineto, const struct timed *one,
	enum fsdp_kernel_kind kind, uint32_t *ret_row)
{
	uint32_t stream;
	*ret_row = 0;
	return !kineto->names.wanted ||
	       (thread_of(kineto, one->event, &stream) &&
		       fsdp_kineto_kernels_find(
			       &kineto->names, one->name, stream, kind, ret_row));
}

static bool put_comm(struct fsdp_kineto *kineto, struct fsdp_comm comm)
{
	struct fsdp_vec *list = &kineto->kernels.list;
	comm.order = (uint32_t)list->count;
	struct fsdp_comm *kept = comm.order != UINT32_MAX ? fsdp_vec_push(list) : NULL;
	if (kept == NULL)
		return false;
	*kept = comm;
	/* Notes are no collectives beside kernels, see take_note. */
	if (comm.order == 0)
		fsdp_intervals_done(&kineto->busy.lists[FSDP_KINETO_HOST]);
	return true;
}

/* With units: the stream of a collective, or the time that one computes. */
static bool put_stream(struct fsdp_kineto *kineto, const struct fsdp_kineto_event *event,
	bool comm, int64_t dur_ns)
{
	uint32_t stream;
	if (!kineto->units.wanted || kineto->second)
		return true;
	return thread_of(kineto, event, &stream) &&
	       (comm ? fsdp_kineto_units_stream(&kineto->units, stream)
		     : fsdp_kineto_units_compute(&kineto->units, stream, dur_ns));
}

static bool take_comm(struct fsdp_kineto *kineto, const struct timed *one,
	const struct fsdp_kineto_args *args, uint32_t row)
{
	struct fsdp_comm comm = { .ts_ns = one->ts_ns,
		.dur_ns = one->dur_ns,
		.type = FSDP_TIME_OTHER,
		.how = FSDP_BY_ARGS,
		.by_name = (unsigned char)fsdp_collective_of_kernel(one->name) };
	struct fsdp_kineto_unnamed kernel = {
		.index = (uint32_t)kineto->kernels.list.count
	};
	struct fsdp_span name;
	if (args->collective.kind == FSDP_SCAN_TEXT) {
		if (!fsdp_kineto_words_read(&kineto->words, &args->collective, &name))
			return false;
		comm.type = (unsigned char)fsdp_collective_type(name);
	}
	if (!fsdp_kineto_describe(
		    &kineto->kernels, &kineto->words, args, &comm, &kernel.bytes_out))
		return false;
	kernel.has_correlation =
		fsdp_kineto_integer(&args->correlation, &kernel.correlation);
	comm.host_ns = kernel.has_correlation ? kernel.correlation : FSDP_ABSENT;
	bool named = kernel.named = comm.type != FSDP_TIME_OTHER;
	if ((!named || kineto->units.wanted) &&
		!fsdp_kineto_launches_unnamed(&kineto->launches, &kernel))
		return false;
	if (named && kernel.has_correlation)
		fsdp_kineto_launches_named(&kineto->launches, kernel.correlation);
	return put_comm(kineto, comm) && busy_with_comm(kineto, FSDP_KINETO_COMM, one) &&
	       (fsdp_kineto_steps_limited(&kineto->times.steps) ||
		       put_work(kineto, one, comm.host_ns, row)) &&
	       put_stream(kineto, one->event, true, 0);
}

static bool take_copy(struct fsdp_kineto *kineto, const struct timed *one)
{
	enum fsdp_time_type type = fsdp_copy_type(one->name);
	uint32_t row;
	if (!find_kernel(kineto, one, FSDP_KERNEL_COPIES, &row))
		return false;
	if (type == FSDP_TIME_OTHER) {
		struct fsdp_kineto_args args;
		struct fsdp_span kind = FSDP_SPAN("");
		fsdp_kineto_read_args(&kineto->input, &one->event->args, &args);
		if (args.kind.kind == FSDP_SCAN_TEXT &&
			!fsdp_kineto_words_read(&kineto->words, &args.kind, &kind))
			return false;
		type = fsdp_copy_type(kind);
	}
	if (type == FSDP_TIME_OTHER)
		type = FSDP_TIME_D2D;
	return add_device(kineto, type, one, row);
}

static bool take_set(struct fsdp_kineto *kineto, const struct timed *one)
{
	uint32_t row;
	return find_kernel(kineto, one, FSDP_KERNEL_COPIES, &row) &&
	       add_device(kineto, FSDP_TIME_MEMSET, one, row);
}

/* What the name of a kernel tells, found out once for each name. */
enum { KERNEL_COMPUTE = 1, KERNEL_COMM, KERNEL_COPY };

static uint32_t judge_kernel(struct fsdp_span name)
{
	if (fsdp_span_has(name, "MEMORY_COPY_", false) ||
		fsdp_span_has(name, "__amd_rocclr_copyBuffer", false))
		return KERNEL_COPY;
	return fsdp_is_comm_kernel(name) ? KERNEL_COMM : KERNEL_COMPUTE;
}

static bool take_kernel(struct fsdp_kineto *kineto, const struct timed *one)
{
	struct fsdp_kineto_args args = { 0 };
	struct timed kept = *one;
	uint32_t row, id,
		*what = fsdp_kineto_words_find(
			&kineto->words, FSDP_KINETO_KERNELS, one->name, &id);
	if (what == NULL)
		return false;
	if (*what == 0)
		*what = judge_kernel(one->name);
	if (*what == KERNEL_COPY)
		return take_copy(kineto, one);
	bool comm = *what == KERNEL_COMM;
	if (comm || fsdp_kineto_may_name(&kineto->input, &one->event->args)) {
		fsdp_kineto_read_args(&kineto->input, &one->event->args, &args);
		comm |= args.collective.kind == FSDP_SCAN_TEXT;
	}
	/* Texts of the args overwrite a name that had escapes. */
	kept.name = fsdp_kineto_words_text(&kineto->words, id);
	if (!find_kernel(kineto, &kept,
		    comm ? FSDP_KERNEL_COMMUNICATES : FSDP_KERNEL_COMPUTES, &row))
		return false;
	if (!comm)
		return add_device(kineto, FSDP_TIME_COMPUTE, &kept, row) &&
		       put_stream(kineto, one->event, false, one->dur_ns);
	return kineto->second || (fsdp_kineto_kernels_collective(&kineto->names, row) &&
					 take_comm(kineto, &kept, &args, row));
}

/* ---- what is on the host ---- */

/* With --by=idle, that a thread was in a call that tells why it launches nothing. */
static bool put_host_call(
	struct fsdp_kineto *kineto, const struct timed *one, enum fsdp_idle_cause cause)
{
	struct fsdp_kineto_host_call call = { one->ts_ns, one->ts_ns + one->dur_ns, 0,
		cause };
	return kineto->second || !kineto->idle.wanted ||
	       (thread_of(kineto, one->event, &call.thread) &&
		       fsdp_kineto_idle_call(&kineto->idle, &call));
}

static bool put_operator(struct fsdp_kineto *kineto, const struct timed *one)
{
	uint32_t thread;
	if (kineto->second || !kineto->idle.wanted)
		return true;
	if (fsdp_span_begins(one->name, FSDP_SPAN("c10d::")))
		return put_host_call(kineto, one, FSDP_IDLE_COLLECTIVE);
	return thread_of(kineto, one->event, &thread) &&
	       fsdp_kineto_idle_operator(
		       &kineto->idle, thread, one->ts_ns, one->ts_ns + one->dur_ns);
}

/* Rules out most calls by two bytes. */
static bool may_allocate(struct fsdp_span name)
{
	size_t at = fsdp_span_begins(name, FSDP_SPAN("cuda"))  ? 4
		    : fsdp_span_begins(name, FSDP_SPAN("hip")) ? 3
							       : 2;
	return name.size > at + 1 &&
	       (name.data[at] == 'F' || name.data[at] == 'H' ||
		       (name.data[at] == 'M' && (at != 4 || name.data[at + 1] == 'a')));
}

static bool take_step(struct fsdp_kineto *kineto, const struct timed *one)
{
	struct fsdp_span digits = one->name, prefix = FSDP_SPAN("ProfilerStep#");
	int64_t number;
	if (kineto->second || !fsdp_span_begins(one->name, prefix))
		return true;
	digits = fsdp_span(digits.data + prefix.size, digits.size - prefix.size);
	if (!fsdp_decimal_integer(digits, &number) || digits.data[0] == '-' ||
		memchr(digits.data, '.', digits.size) != NULL)
		return true;
	return fsdp_kineto_times_add_step(
		&kineto->times, number, one->ts_ns, one->dur_ns);
}

/* With units, of which process a thread is: on the host, what moves data and what asks for
 * it are threads of one. */
static bool put_process(struct fsdp_kineto *kineto, const struct fsdp_kineto_event *event,
	uint32_t thread)
{
	static const struct fsdp_json_value none = { .kind = FSDP_SCAN_END };
	uint32_t process;
	return !kineto->units.wanted ||
	       (fsdp_kineto_words_thread(&kineto->words, &event->pid, &none, &process) &&
		       fsdp_kineto_units_thread(&kineto->units, thread, process));
}

static bool take_unit(struct fsdp_kineto *kineto, const struct timed *one)
{
	struct fsdp_kineto_unit_span span = { .ts_ns = one->ts_ns,
		.dur_ns = one->dur_ns };
	if (!kineto->units.wanted || kineto->second || one->name.size == 0 ||
		one->name.data[0] != 'F')
		return true;
	return thread_of(kineto, one->event, &span.thread) &&
	       put_process(kineto, one->event, span.thread) &&
	       fsdp_kineto_units_note(&kineto->units, one->name, &span);
}

/* Beside kernels, notes only tell what the kernels are; without any they are the
 * collectives themselves, and their args count. */
static bool take_note(struct fsdp_kineto *kineto, const struct timed *one)
{
	struct fsdp_comm note = { .ts_ns = one->ts_ns, .dur_ns = one->dur_ns };
	struct fsdp_kineto_args args;
	int64_t bytes_out;
	uint32_t thread;
	bool alone = kineto->kernels.list.count == 0;
	if (kineto->second || !fsdp_is_backend_note(one->name))
		return true;
	note.type = (unsigned char)fsdp_collective_type(one->name);
	if (alone) {
		fsdp_kineto_read_args(&kineto->input, &one->event->args, &args);
		if (!fsdp_kineto_describe(
			    &kineto->kernels, &kineto->words, &args, &note, &bytes_out))
			return false;
	}
	return thread_of(kineto, one->event, &thread) &&
	       put_process(kineto, one->event, thread) &&
	       fsdp_kineto_notes_add(&kineto->launches.notes, &note, thread, alone) &&
	       (!alone || busy_with_comm(kineto, FSDP_KINETO_HOST, one));
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

/* "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__" */
static void take_data_loader(struct fsdp_kineto *kineto, const struct timed *one)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	if (!kineto->second && !fsdp_kineto_steps_limited(&kineto->times.steps) &&
		fsdp_span_begins(one->name, FSDP_SPAN("enumerate(DataLoader)#")))
		fsdp_sum_ns(
			&recording->data_loader_ns, one->dur_ns, &kineto->words.overflow);
}

/* With --by=idle: what a thread waits for. */
static bool take_host_wait(struct fsdp_kineto *kineto, const struct timed *one)
{
	if (fsdp_span_begins(one->name, FSDP_SPAN("enumerate(DataLoader)#")))
		return put_host_call(kineto, one, FSDP_IDLE_DATA_LOADER);
	return !fsdp_is_backend_note(one->name) ||
	       put_host_call(kineto, one, FSDP_IDLE_COLLECTIVE);
}

static bool take_annotation(struct fsdp_kineto *kineto, const struct timed *one)
{
	take_data_loader(kineto, one);
	if (is_resharding(one->name))
		return add(kineto, FSDP_TIME_RESHARDING, one);
	enum fsdp_time_type type = fsdp_time_type_of(one->name);
	if (type == FSDP_TIME_ALL_GATHER_OBJECT || fsdp_time_type_is_region(type))
		return add(kineto, type, one);
	return true;
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

/* What a call of the runtime does, found out once for each name; it is the number of the
 * name, plus one. */
static bool take_runtime(struct fsdp_kineto *kineto, const struct timed *one)
{
	uint32_t id, *what;
	if (!kineto->idle.wanted && !may_allocate(one->name))
		return true;
	what = fsdp_kineto_words_find(
		&kineto->words, FSDP_KINETO_RUNTIME_CALLS, one->name, &id);
	if (what == NULL)
		return false;
	if (*what == 0)
		*what = (uint32_t)fsdp_runtime_call_of(one->name) + 1;
	switch ((enum fsdp_runtime_call)(*what - 1)) {
	case FSDP_RUNTIME_WAIT:
		return put_host_call(kineto, one, FSDP_IDLE_SYNCHRONISATION);
	case FSDP_RUNTIME_COPY:
		return put_host_call(kineto, one, FSDP_IDLE_COPY);
	case FSDP_RUNTIME_ALLOCATE:
		return fsdp_kineto_allocs_add(
			       &kineto->allocs, one->name, one->ts_ns, one->dur_ns) &&
		       put_host_call(kineto, one, FSDP_IDLE_ALLOCATION);
	case FSDP_RUNTIME_OTHER:
		break;
	}
	return put_operator(kineto, one);
}

static bool take_launch(struct fsdp_kineto *kineto, const struct timed *one)
{
	struct fsdp_kineto_launch launch = { .ts_ns = one->ts_ns };
	launch.is_launch = fsdp_span_has(one->name, "Launch", false) &&
			   !fsdp_span_has(one->name, "HostFunc", false);
	if (!kineto->second && !take_runtime(kineto, one))
		return false;
	if (!fsdp_kineto_read_correlation(
		    &kineto->input, &one->event->args, &launch.correlation))
		return true;
	if (!kineto->second && kineto->idle.wanted) {
		struct fsdp_kineto_issuing issuing = { launch.correlation, one->ts_ns,
			one->ts_ns + one->dur_ns, 0, launch.is_launch };
		uint32_t thread;
		if (!thread_of(kineto, one->event, &thread))
			return false;
		issuing.thread = thread & INT32_MAX;
		if (!fsdp_kineto_idle_launch(&kineto->idle, &issuing))
			return false;
	}
	if ((!kineto->second || kineto->times.again) &&
		!fsdp_kineto_times_launch(
			&kineto->times, &(struct fsdp_kineto_issued){ launch.correlation,
						one->ts_ns, launch.is_launch }))
		return false;
	if (kineto->second && !kineto->launches.again)
		return true;
	return thread_of(kineto, one->event, &launch.thread) &&
	       fsdp_kineto_launches_add(&kineto->launches, &launch);
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

static bool take_meant(struct fsdp_kineto *kineto, enum fsdp_kineto_meaning meaning,
	const struct timed *one)
{
	switch (meaning) {
	case FSDP_KINETO_KERNEL:
		return take_kernel(kineto, one);
	case FSDP_KINETO_COPY:
		return take_copy(kineto, one);
	case FSDP_KINETO_SET:
		return take_set(kineto, one);
	case FSDP_KINETO_RUNTIME:
		return take_launch(kineto, one);
	case FSDP_KINETO_PYTHON:
		return !is_object_gather(one->name) ||
		       add(kineto, FSDP_TIME_ALL_GATHER_OBJECT, one);
	case FSDP_KINETO_OP:
		kineto->any_reduce_scatter_op |=
			fsdp_span_is(one->name, "c10d::_reduce_scatter_base_");
		return take_step(kineto, one) && take_note(kineto, one) &&
		       put_operator(kineto, one);
	case FSDP_KINETO_ANNOTATION:
	case FSDP_KINETO_ABSENT:
		/* Of its process "Overlap Analysis". */
		kineto->reading->recording.is_ascend |=
			fsdp_span_is(one->name, "Communication(Not Overlapped)");
		return take_step(kineto, one) && take_note(kineto, one) &&
		       take_unit(kineto, one) && take_annotation(kineto, one) &&
		       (!kineto->idle.wanted || take_host_wait(kineto, one));
	case FSDP_KINETO_TRACE:
	case FSDP_KINETO_OTHER:
		break;
	}
	return true;
}

/* An event from begin to end, whether it is written as one or as two. */
static bool take_timed(struct fsdp_kineto *kineto, struct timed one, bool has_times)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_kineto_category *category = &kineto->words.absent;
	const struct fsdp_json_value *cat = &one.event->cat, *name = &one.event->name;
	if (cat->kind == FSDP_SCAN_TEXT) {
		if (!fsdp_kineto_words_read(&kineto->words, cat, &one.name))
			return false;
		category = fsdp_kineto_words_category(&kineto->words, one.name);
	}
	enum fsdp_kineto_meaning meaning = category->meaning;
	if (!has_times || one.dur_ns < 0 || one.dur_ns > WEEK) {
		recording->bad_dur += meaning != FSDP_KINETO_TRACE && !kineto->second;
		return true;
	}
	if (!kineto->second &&
		!fsdp_kineto_words_count(&kineto->words, category, one.dur_ns))
		return false;
	if (meaning == FSDP_KINETO_TRACE)
		return true;
	int64_t end_ns = one.ts_ns + one.dur_ns;
	if (recording->first_ts_ns == FSDP_ABSENT || one.ts_ns < recording->first_ts_ns)
		recording->first_ts_ns = one.ts_ns;
	if (recording->last_end_ns == FSDP_ABSENT || end_ns > recording->last_end_ns)
		recording->last_end_ns = end_ns;
	if (meaning == FSDP_KINETO_OTHER)
		return true;
	one.name = FSDP_SPAN("");
	if (name->kind == FSDP_SCAN_TEXT &&
		!fsdp_kineto_words_read(&kineto->words, name, &one.name))
		return false;
	return take_meant(kineto, meaning, &one);
}

static bool take_begin(struct fsdp_kineto *kineto, const struct fsdp_kineto_event *event)
{
	uint32_t thread;
	return thread_of(kineto, event, &thread) &&
	       fsdp_kineto_opens_begin(&kineto->opens,
		       fsdp_kineto_words_known(&kineto->words, thread), event);
}

static bool take_end(struct fsdp_kineto *kineto, const struct fsdp_kineto_event *event)
{
	uint32_t thread;
	if (!thread_of(kineto, event, &thread))
		return false;
	struct fsdp_kineto_open *open = fsdp_kineto_opens_end(
		&kineto->opens, *fsdp_kineto_words_known(&kineto->words, thread));
	if (open == NULL) {
		kineto->reading->recording.unpaired += !kineto->second;
		return true;
	}
	struct timed one = { .event = &open->event };
	int64_t end_ns;
	bool has_times = nanoseconds(&open->event.ts, &one.ts_ns) &&
			 nanoseconds(&event->ts, &end_ns);
	if (has_times)
		one.dur_ns = end_ns - one.ts_ns;
	kineto->input.quick_args = false; /* those are of the end */
	bool good = take_timed(kineto, one, has_times);
	fsdp_kineto_opens_free(&kineto->opens, open);
	return good;
}

bool fsdp_kineto_take(struct fsdp_kineto *kineto, const struct fsdp_kineto_event *event)
{
	struct fsdp_span phase = FSDP_SPAN("?");
	if (event->ph.kind == FSDP_SCAN_TEXT &&
		!fsdp_kineto_words_read(&kineto->words, &event->ph, &phase))
		return false;
	if (!kineto->second && !fsdp_kineto_words_count_phase(&kineto->words, phase))
		return false;
	struct timed one = { .event = event };
	bool has_times;
	kineto->thread_known = false;
	switch (phase.size == 1 ? phase.data[0] : '\0') {
	case 'X':
		has_times = nanoseconds(&event->ts, &one.ts_ns) &&
			    nanoseconds(&event->dur, &one.dur_ns);
		return take_timed(kineto, one, has_times);
	case 'B':
		return take_begin(kineto, event);
	case 'E':
		return take_end(kineto, event);
	default:
		return true;
	}
}
