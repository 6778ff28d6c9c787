/* SPDX-License-Identifier: Apache-2.0
 *
 * gen-trace: write a synthetic Kineto-style Chrome trace (JSON object form) to stdout.
 *
 *   cc -O2 -o gen-trace gen-trace.c
 *   gen-trace -n EVENTS [-s SEED] [-r RANK] [-w WORLD] [-k STEPS] [-b BYTES] [-c] [-e]
 *             [-x] [-g PERCENT] [-u PERCENT] [-p PERCENT] [-o PERCENT] [-t FILE]
 *
 *   -n EVENTS  traceEvents to write (about 250 bytes each, fewer with -c)
 *   -s SEED    another sequence
 *   -r RANK    rank in distributedInfo, -w WORLD its world_size (default 0 of 64)
 *   -k STEPS   ProfilerStep#i annotations, one after the other (default 10)
 *   -g PERCENT gaps: so many device events begin after all before them have ended, so
 *              each begins a busy interval (default 70; real traces 40 to 100)
 *   -u PERCENT so many collective kernels are not named by args and all carry one and
 *              the same symbol; the launch with their correlation lies in an nccl:
 *              annotation (default 40)
 *   -p PERCENT so much of the bytes is python_function, as with_stack gives (default
 *              30; 0 without stacks, up to 80 with)
 *   -o PERCENT so many device events come after later ones; decimals count (default
 *              0.3; real traces at most 0.6)
 *   -t FILE    the truth as JSON: totals by type and category, unions, overlap, counts
 *   -c         compact: no newlines, no blanks
 *   -e         every 64th event, where an operator, has JSON escapes in its name, a
 *              surrogate pair among them
 *   -b BYTES   the middle event has an argument of this many bytes
 *   -x         defects seen in the wild, one in 4096 events each: NaN, N/A, a raw control
 *              byte in a name, an integer above 2^63 (the result is not valid JSON)
 *
 * The output is a pure function of the arguments, is written in constant memory, and
 * holds what a PyTorch trace holds: cpu_op, user_annotation, python_function, launches
 * and other runtime calls, kernels, copies, ac2g flow pairs, memory counters, thread
 * names, microseconds with three decimals, 64-bit addresses. Device events begin in the
 * order in which they are made, so that unions are known as they grow; only the order of
 * writing differs: kernels held back (-o), kernels before their launches, launches before
 * the annotation they lie in.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define ULL(x) ((unsigned long long)(x))

static const char *const ops[] = { "aten::empty", "aten::view", "aten::mm", "aten::addmm",
	"aten::native_layer_norm", "aten::_scaled_dot_product_flash_attention",
	"aten::copy_", "aten::to", "aten::_to_copy", "aten::slice", "aten::as_strided",
	"aten::transpose", "aten::t", "aten::mul", "aten::add_", "aten::silu",
	"aten::split_with_sizes", "aten::chunk",
	"autograd::engine::evaluate_function: AddmmBackward0", "AddmmBackward0",
	"c10d::_allgather_base_", "record_param_comms" };

enum { RESHARD = 7 };
static const char *const annotations[] = { "FullyShardedDataParallel.forward",
	"FullyShardedDataParallel._pre_forward",
	"FullyShardedDataParallel._post_backward_hook",
	"FullyShardedDataParallel._pre_backward_prefetch", "FSDP::all_gather",
	"FSDP::all_gather_copy_out", "FSDP::post_backward_reduce",
	"FSDP::post_backward_reshard", "Optimizer.step#AdamW.step" };

/* Between the two stands a number. */
static const struct {
	const char *before, *after;
} functions[] = { { "torch/nn/modules/module.py(", "): _call_impl" },
	{ "torch/nn/modules/module.py(", "): _wrapped_call_impl" },
	{ "nn.Module: Linear_", "" }, { "nn.Module: DecoderLayer_", "" },
	{ "torch/_tensor.py(", "): backward" },
	{ "<built-in method linear of type object at 0x7f3a5c9", ">" },
	{ "torch/distributed/fsdp/_runtime_utils.py(", "): _pre_forward_unshard" },
	{ "torch/utils/_contextlib.py(", "): decorate_context" },
	{ "train.py(", "): train_step" } };

static const char *const kernels[] = {
	"ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn",
	"void at::native::vectorized_elementwise_kernel<4, "
	"at::native::CUDAFunctor_add<c10::BFloat16>, "
	"at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, "
	"at::detail::Array<char*, 3>)",
	"void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, "
	"false, "
	"cutlass::bfloat16_t> >(Flash_fwd_params)",
	"void at::native::(anonymous "
	"namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>"
	"(int, float, c10::BFloat16 const*, float*)"
};

static const char *const calls[] = { "cudaEventRecord", "cudaStreamWaitEvent",
	"cudaEventQuery", "cudaStreamIsCapturing" };

/* What happens on the device, and by which type its time counts. */
enum type {
	ALL_GATHER,
	REDUCE_SCATTER,
	ALL_REDUCE,
	COMPUTE,
	H2D,
	D2H,
	MEMSET,
	RESHARDING,
	ALL,
	TYPES
};
enum lane { LANE_COMPUTE, LANE_COMM, LANE_COPY, LANES };
static const unsigned streams[LANES] = { 7, 20, 24 };
static const struct {
	const char *type, *category, *name, *launch, *collective, *annotation;
	enum lane lane;
	unsigned least_ns, spread_ns;
} works[] = {
	[ALL_GATHER] = { "all_gather", "kernel",
		"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
		"cudaLaunchKernelExC", "_allgather_base", "nccl:_all_gather_base",
		LANE_COMM, 30000, 400000 },
	[REDUCE_SCATTER] = { "reduce_scatter", "kernel",
		"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL("
		"ncclDevKernelArgsStorage<4096ul>)",
		"cudaLaunchKernelExC", "_reduce_scatter_base",
		"nccl:_reduce_scatter_base", LANE_COMM, 30000, 500000 },
	[ALL_REDUCE] = { "all_reduce", "kernel",
		"ncclDevKernel_AllReduce_Sum_f32_RING_LL("
		"ncclDevKernelArgsStorage<4096ul>)",
		"cudaLaunchKernelExC", "allreduce", "nccl:all_reduce", LANE_COMM, 30000,
		90000 },
	[COMPUTE] = { "compute", "kernel", NULL, "cudaLaunchKernel", NULL, NULL,
		LANE_COMPUTE, 1500, 60000 },
	[H2D] = { "H2D", "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)",
		"cudaMemcpyAsync", NULL, NULL, LANE_COPY, 1200, 90000 },
	[D2H] = { "D2H", "gpu_memcpy", "Memcpy DtoH (Device -> Pageable)",
		"cudaMemcpyAsync", NULL, NULL, LANE_COPY, 1200, 9000 },
	[MEMSET] = { "memset", "gpu_memset", "Memset (Device)", "cudaMemsetAsync", NULL,
		NULL, LANE_COMPUTE, 900, 3000 },
};
static const char one_symbol[] =
	"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, "
	"unsigned long, ncclWork*)";

enum category {
	CPU_OP,
	ANNOTATION,
	RUNTIME,
	KERNEL,
	MEMCPY,
	MEMSETS,
	PYTHON,
	CATEGORIES
};
static const char *const categories[CATEGORIES] = { "cpu_op", "user_annotation",
	"cuda_runtime", "kernel", "gpu_memcpy", "gpu_memset", "python_function" };

enum {
	LATENCY_NS = 9000,
	BEFORE_LAUNCH_NS = 2000,
	ANNOTATION_NS = 7000,
	LAUNCH_NS = 3000
};

struct options {
	uint64_t events, seed, rank, world, steps, big_bytes;
	unsigned gaps, unnamed, python, disorder;
	const char *truth;
	bool escapes, defects;
};

struct total {
	uint64_t count, sum_ns;
};

/* Intervals whose starts never go back: their union so far. */
struct cover {
	uint64_t end_ns, busy_ns, pieces;
};

/* The truth, and where the device stands. */
static struct {
	struct total types[TYPES], categories[CATEGORIES];
	struct cover all, comm, compute, comm_or_compute, memory;
	uint64_t lane_end_ns[LANES], first_start_ns, last_start_ns, last_end_ns;
	uint64_t latest_written_ns;
	uint64_t named, unnamed, out_of_order, launches, python_bytes;
	uint64_t begins_ns, ends_ns;
} known;

/* One event's numbers, all drawn from one random word. */
struct event {
	uint64_t index;
	uint64_t random;
	uint64_t start_ns;
	uint64_t duration_ns;
	unsigned pick;
};

/* Device work that has been made but may be written later. */
struct work {
	struct event event;
	uint64_t correlation;
	enum type type;
	bool named;
};

/* The writer: what stands before the next value, and how much was written. */
static struct {
	bool compact, comma, newline;
	int depth;
	uint64_t bytes;
} out;

static uint64_t state;

static uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void character(int c)
{
	putchar(c);
	out.bytes++;
}

__attribute__((format(printf, 1, 2))) static void text(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	out.bytes += (uint64_t)vprintf(format, args);
	va_end(args);
}

static void separate(void)
{
	if (out.comma)
		character(',');
	if (!out.compact && out.newline)
		text("\n%*s", 2 * out.depth, "");
	else if (!out.compact && out.comma)
		character(' ');
	out.comma = true;
	out.newline = false;
}

static void begin(const char *key, char bracket)
{
	separate();
	if (key)
		text("\"%s\":%s", key, out.compact ? "" : " ");
	character(bracket);
	out.depth++;
	out.comma = false;
	out.newline = true;
}

static void end(char bracket)
{
	out.depth--;
	if (!out.compact)
		text("\n%*s", 2 * out.depth, "");
	character(bracket);
	out.comma = true;
	out.newline = false;
}

static void line(void)
{
	out.newline = true;
}

__attribute__((format(printf, 2, 3))) static void put(
	const char *key, const char *format, ...)
{
	va_list args;

	separate();
	text("\"%s\":%s", key, out.compact ? "" : " ");
	va_start(args, format);
	out.bytes += (uint64_t)vprintf(format, args);
	va_end(args);
}

static void put_text(const char *key, const char *text)
{
	put(key, "\"%s\"", text);
}

static void put_number(const char *key, uint64_t value)
{
	put(key, "%llu", ULL(value));
}

static void put_us(const char *key, uint64_t ns)
{
	put(key, "%llu.%03llu", ULL(ns / 1000), ULL(ns % 1000));
}

static void begin_event(const char *phase, const char *category)
{
	line();
	begin(NULL, '{');
	put_text("ph", phase);
	put_text("cat", category);
}

static void add(struct total *total, uint64_t ns)
{
	total->count++;
	total->sum_ns += ns;
}

/* Every event with a duration passes here. */
static void put_time(const struct event *e, enum category category)
{
	line();
	put_us("ts", e->start_ns);
	put_us("dur", e->duration_ns);
	line();
	add(&known.categories[category], e->duration_ns);
	if (!known.begins_ns || e->start_ns < known.begins_ns)
		known.begins_ns = e->start_ns;
	if (e->start_ns + e->duration_ns > known.ends_ns)
		known.ends_ns = e->start_ns + e->duration_ns;
}

static void begin_args(const struct event *e)
{
	begin("args", '{');
	put_number("External id", e->index);
}

static void end_event(void)
{
	end('}');
	end('}');
}

static void put_step(const struct event *e, uint64_t step)
{
	begin_event("X", "user_annotation");
	put("name", "\"ProfilerStep#%llu\"", ULL(step));
	put_number("pid", 4242);
	put_number("tid", 4242);
	put_time(e, ANNOTATION);
	begin_args(e);
	put_number("Ev Idx", e->index);
	end_event();
	add(&known.types[ALL], e->duration_ns);
}

static void put_op(const struct event *e, const struct options *o)
{
	const char *name = ops[e->pick % COUNT(ops)];

	begin_event("X", "cpu_op");
	if (o->escapes && e->index % 64 == 0)
		put("name", "\"%s \\\"q\\\" \\\\ \\u00e9 \\ud83d\\ude00\"", name);
	else if (o->defects && e->index % 4096 == 17)
		put("name", "\"%s \x01 raw\"", name);
	else
		put_text("name", name);
	put_number("pid", 4242);
	put_number("tid", 4242 + (e->pick >> 8) % 3);
	put_time(e, CPU_OP);
	begin_args(e);
	put_number("Record function id", 0);
	put_number("Sequence number", e->pick & 65535);
	put_number("Fwd thread id", 0);
	put_number("Ev Idx", e->index);
	end_event();
}

static void put_annotation(const struct event *e, const char *name)
{
	begin_event("X", "user_annotation");
	put_text("name", name);
	put_number("pid", 4242);
	put_number("tid", 4242);
	put_time(e, ANNOTATION);
	begin_args(e);
	put_number("Record function id", 0);
	put_number("Ev Idx", e->index);
	end_event();
	if (name == annotations[RESHARD])
		add(&known.types[RESHARDING], e->duration_ns);
}

static void put_call(const struct event *e, const char *name, uint64_t correlation)
{
	begin_event("X", "cuda_runtime");
	put_text("name", name);
	put_number("pid", 4242);
	put_number("tid", 4242);
	put_time(e, RUNTIME);
	begin_args(e);
	put_number("cbid", 211);
	put_number("correlation", correlation);
	end_event();
}

static void put_function(const struct event *e)
{
	uint64_t before = out.bytes;
	unsigned which = e->pick % COUNT(functions);

	begin_event("X", "python_function");
	put("name", "\"%s%u%s\"", functions[which].before, (e->pick >> 5) % 4000,
		functions[which].after);
	put_number("pid", 4242);
	put_number("tid", 4242);
	put_time(e, PYTHON);
	begin_args(e);
	put_number("Python parent id", e->index / 2);
	put_number("Python id", e->index);
	put_number("Ev Idx", e->index);
	end_event();
	known.python_bytes += out.bytes - before;
}

static void put_collective(const struct work *w, const struct options *o)
{
	unsigned q = w->event.pick;

	line();
	put_text("Collective name", works[w->type].collective);
	put_number("In msg nelems", q & 0xffffff);
	put_number("Out msg nelems", (uint64_t)(q & 0xffffff) * o->world);
	put_number("Group size", o->world);
	put_text("dtype", "BFloat16");
	put_text("Process Group Name", "0");
	put_text("Process Group Ranks", "[0, 1, 2, 3, ..., 62, 63]");
	if (o->defects && w->event.index % 4096 < 32)
		put("Comms Id", "18446744073709551%03u", 100 + q % 500);
}

static void put_kernel_args(const struct event *e, const struct options *o)
{
	unsigned q = e->pick;

	line();
	put_number("registers per thread", 16 + (q >> 3) % 200);
	put_number("shared memory", (q >> 4) % 230000);
	line();
	if (o->defects && e->index % 4096 < 32)
		put("blocks per SM", "%s", e->index % 2 ? "NaN" : "N/A");
	else
		put("blocks per SM", "%u.%u", q % 50, q % 10);
	put("warps per SM", "%u.%u", q % 60, q % 7);
	line();
	put("grid", "[%u, %u, 1]", 1 + q % 4000, 1 + q % 8);
	put("block", "[%u, 1, 1]", 32u << (q % 6));
	line();
	put_number("est. achieved occupancy %", q % 101);
}

static void put_work(const struct work *w, const struct options *o)
{
	const struct event *e = &w->event;
	enum lane lane = works[w->type].lane;
	bool kernel = w->type <= COMPUTE;
	const char *name = works[w->type].name;

	if (w->type == COMPUTE)
		name = kernels[e->pick % COUNT(kernels)];
	else if (lane == LANE_COMM && !w->named)
		name = one_symbol;
	begin_event("X", works[w->type].category);
	put_text("name", name);
	put_number("pid", 0);
	put_number("tid", streams[lane]);
	put_time(e, kernel ? KERNEL : w->type == MEMSET ? MEMSETS : MEMCPY);
	begin_args(e);
	put_number("queued", 0);
	put_number("device", 0);
	put_number("context", 1);
	line();
	put_number("stream", streams[lane]);
	put_number("correlation", w->correlation);
	if (kernel)
		put_kernel_args(e, o);
	else
		put_number("bytes", e->pick & 0xffffff);
	if (lane == LANE_COMM && w->named)
		put_collective(w, o);
	end_event();
	if (e->start_ns < known.latest_written_ns)
		known.out_of_order++;
	else
		known.latest_written_ns = e->start_ns;
}

static void put_flow(const struct event *e, uint64_t correlation, bool start)
{
	line();
	begin(NULL, '{');
	put_text("ph", start ? "s" : "f");
	put_number("id", correlation);
	put_number("pid", start ? 4242 : 0);
	put_number("tid", start ? 4242 : 7);
	put_us("ts", e->start_ns);
	line();
	put_text("cat", "ac2g");
	put_text("name", "ac2g");
	if (!start)
		put_text("bp", "e");
	end('}');
}

static void put_memory(const struct event *e)
{
	begin_event("i", "cpu_instant_event");
	put_text("s", "t");
	put_text("name", "[memory]");
	line();
	put_number("pid", 4242);
	put_number("tid", 4242);
	line();
	put_us("ts", e->start_ns);
	line();
	begin("args", '{');
	put_number("Total Reserved", e->random % 80000000000u);
	put_number("Total Allocated", e->random % 70000000000u);
	put("Bytes", "%d", (int)(e->pick & 0xfffff) - 524288);
	put_number("Addr", 139000000000000u + (e->random & 0xffffffffu) * 512);
	put_number("Device Id", 0);
	put_number("Device Type", 1);
	put_number("Ev Idx", e->index);
	end_event();
}

static void put_thread_name(const struct event *e)
{
	line();
	begin(NULL, '{');
	put_text("name", "thread_name");
	put_text("ph", "M");
	put_us("ts", e->start_ns);
	put_number("pid", 0);
	put_number("tid", e->pick % 64);
	line();
	begin("args", '{');
	put("name", "\"stream %u \"", e->pick % 64);
	end_event();
}

static void put_big(const struct event *e, uint64_t bytes)
{
	begin_event("X", "cpu_op");
	put_text("name", "one large event");
	put_number("pid", 4242);
	put_number("tid", 4242);
	put_time(e, CPU_OP);
	begin_args(e);
	separate();
	text("\"stack\":\"");
	for (uint64_t i = 0; i < bytes; i++)
		character('a' + (int)(i % 26));
	character('"');
	end_event();
}

static void cover(struct cover *c, const struct event *e)
{
	uint64_t end_ns = e->start_ns + e->duration_ns;

	if (!c->pieces || e->start_ns > c->end_ns) {
		c->pieces++;
		c->busy_ns += e->duration_ns;
		c->end_ns = end_ns;
	} else if (end_ns > c->end_ns) {
		c->busy_ns += end_ns - c->end_ns;
		c->end_ns = end_ns;
	}
}

/* Give a piece of work its place on the device: never before the one made last. */
static void place(struct work *w, const struct options *o)
{
	struct event *e = &w->event;
	enum lane lane = works[w->type].lane;

	if (!known.all.pieces)
		known.first_start_ns = e->start_ns;
	else if (next_random() % 100 < o->gaps)
		e->start_ns = known.all.end_ns + 300 + e->random % 20000;
	else if (known.lane_end_ns[lane] > known.last_start_ns)
		e->start_ns = known.lane_end_ns[lane];
	else
		e->start_ns = known.last_start_ns;
	known.last_start_ns = e->start_ns;
	known.lane_end_ns[lane] = e->start_ns + e->duration_ns;
	if (known.lane_end_ns[lane] > known.last_end_ns)
		known.last_end_ns = known.lane_end_ns[lane];
	cover(&known.all, e);
	cover(lane == LANE_COMM      ? &known.comm
		: w->type == COMPUTE ? &known.compute
				     : &known.memory,
		e);
	if (lane == LANE_COMM || w->type == COMPUTE)
		cover(&known.comm_or_compute, e);
	add(&known.types[w->type], e->duration_ns);
	if (lane == LANE_COMM && w->named)
		known.named++;
	else if (lane == LANE_COMM)
		known.unnamed++;
}

/* What is being written: the host's clock, and one kernel that may be held back. */
struct run {
	uint64_t index, clock_ns, correlation, step, step_start_ns, stride, reserved;
	struct work held;
	unsigned wait;
};

static struct event next_event(struct run *run)
{
	uint64_t r = next_random();

	run->clock_ns += 40 + (r >> 40) % 100;
	return (struct event){ .index = run->index++,
		.random = r,
		.pick = (unsigned)(r >> 8),
		.start_ns = run->clock_ns,
		.duration_ns = 100 + (unsigned)((r >> 32) % 90000) };
}

/* After so many later ones, the kernel held back is written. */
static void release(struct run *run, const struct options *o, unsigned written)
{
	if (!run->wait)
		return;
	run->wait = run->wait > written ? run->wait - written : 0;
	if (run->wait)
		return;
	run->held.event.index = run->index++;
	run->reserved--;
	put_work(&run->held, o);
}

static void write_work(struct run *run, const struct options *o, struct work *w)
{
	if (!run->wait && run->index + run->reserved + 12 < o->events &&
		next_random() % 10000 < o->disorder) {
		run->held = *w;
		run->wait = 1 + w->event.pick % 8;
		run->reserved++;
		return;
	}
	w->event.index = run->index++;
	put_work(w, o);
	release(run, o, 1);
}

static enum type choose(uint64_t r)
{
	unsigned n = (unsigned)(r % 256);

	if (n < 16)
		return n < 8 ? ALL_GATHER : n < 14 ? REDUCE_SCATTER : ALL_REDUCE;
	return n < 20 ? H2D : n < 23 ? D2H : n < 28 ? MEMSET : COMPUTE;
}

/* An annotation round a launch (collectives only), the launch, the work and its flow. */
static void write_unit(struct run *run, const struct options *o)
{
	uint64_t r = next_random();
	struct work w = { .correlation = ++run->correlation, .type = choose(r >> 20) };
	unsigned order = (unsigned)(r >> 40) % 8;
	struct event call, note;

	w.event.random = r;
	w.event.pick = (unsigned)(r >> 8);
	w.event.start_ns = run->clock_ns + LATENCY_NS;
	w.event.duration_ns =
		works[w.type].least_ns + (unsigned)(r >> 36) % works[w.type].spread_ns;
	w.named = next_random() % 100 >= o->unnamed;
	place(&w, o);
	call = w.event;
	call.start_ns = w.event.start_ns - LATENCY_NS;
	call.duration_ns = LAUNCH_NS;
	note = call;
	note.start_ns -= BEFORE_LAUNCH_NS;
	note.duration_ns = ANNOTATION_NS;
	if (call.start_ns > run->clock_ns)
		run->clock_ns = call.start_ns;
	if (order == 0)
		write_work(run, o, &w);
	if (works[w.type].annotation && order != 1) {
		note.index = run->index++;
		put_annotation(&note, works[w.type].annotation);
	}
	call.index = run->index++;
	put_call(&call, works[w.type].launch, w.correlation);
	known.launches++;
	if (works[w.type].annotation && order == 1) {
		note.index = run->index++;
		put_annotation(&note, works[w.type].annotation);
	}
	if (order != 0)
		write_work(run, o, &w);
	run->index += 2;
	put_flow(&call, w.correlation, true);
	put_flow(&w.event, w.correlation, false);
}

static void write_step(struct run *run)
{
	struct event e = next_event(run);

	e.start_ns = run->step_start_ns;
	e.duration_ns = run->clock_ns - run->step_start_ns;
	put_step(&e, run->step++);
	run->step_start_ns = run->clock_ns;
}

static void write_other(struct run *run, const struct options *o)
{
	struct event e = next_event(run);
	unsigned kind = (unsigned)(e.random % 69);

	if (kind < 57) {
		put_op(&e, o);
	} else if (kind < 60) {
		put_annotation(&e, annotations[e.pick % COUNT(annotations)]);
	} else if (kind < 65) {
		e.duration_ns = 500 + e.pick % 4000;
		put_call(&e, calls[e.pick % COUNT(calls)], ++run->correlation);
		known.launches++;
	} else if (kind < 68) {
		put_memory(&e);
	} else {
		put_thread_name(&e);
	}
}

static void put_events(const struct options *o)
{
	struct run run = { .clock_ns = 5512345678901u, .step_start_ns = 5512345678901u };
	uint64_t steps = o->steps < o->events / 16 ? o->steps : o->events / 16;
	bool big = o->big_bytes > 0;

	run.stride = steps ? o->events / steps : 0;
	run.reserved = steps ? 1 : 0;
	while (run.index + run.reserved < o->events) {
		uint64_t room = o->events - run.index - run.reserved;

		if (big && run.index >= o->events / 2) {
			struct event e = next_event(&run);

			put_big(&e, o->big_bytes);
			big = false;
		} else if (run.step + 1 < steps &&
			   run.index >= (run.step + 1) * run.stride) {
			write_step(&run);
		} else if (known.python_bytes * 100 < (uint64_t)o->python * out.bytes) {
			struct event e = next_event(&run);

			put_function(&e);
		} else if (room >= 12 && next_random() % 100 < 32) {
			write_unit(&run, o);
		} else {
			write_other(&run, o);
		}
	}
	release(&run, o, 8);
	if (steps)
		write_step(&run);
}

static void print_totals(FILE *f, const char *key, const char *const *names,
	const struct total *totals, size_t count)
{
	const char *comma = "";

	fprintf(f, " \"%s\": {", key);
	for (size_t i = 0; i < count; i++) {
		if (!totals[i].count)
			continue;
		fprintf(f, "%s\"%s\": {\"count\": %llu, \"sum_ns\": %llu}", comma,
			names[i], ULL(totals[i].count), ULL(totals[i].sum_ns));
		comma = ", ";
	}
	fprintf(f, "},\n");
}

static void print_truth(FILE *f, const struct options *o)
{
	const char *names[TYPES] = { [RESHARDING] = "resharding", [ALL] = "all" };
	uint64_t span_ns = known.last_end_ns - known.first_start_ns;
	uint64_t overlap_ns = known.comm.busy_ns + known.compute.busy_ns -
			      known.comm_or_compute.busy_ns;
	uint64_t work = 0;

	for (size_t i = 0; i < COUNT(works); i++) {
		names[i] = works[i].type;
		work += known.types[i].count;
	}
	if (!known.types[ALL].count && known.ends_ns)
		add(&known.types[ALL], known.ends_ns - known.begins_ns);
	fprintf(f, "{\n \"events\": %llu, \"bytes\": %llu, \"python_bytes\": %llu,\n",
		ULL(o->events), ULL(out.bytes), ULL(known.python_bytes));
	fprintf(f,
		" \"device_events\": %llu, \"busy_intervals\": %llu, "
		"\"out_of_order\": %llu, \"launches\": %llu,\n",
		ULL(work), ULL(known.all.pieces), ULL(known.out_of_order),
		ULL(known.launches));
	fprintf(f,
		" \"comm_resolution\": {\"args\": %llu, \"launch\": %llu, \"name\": 0, "
		"\"unknown\": 0},\n",
		ULL(known.named), ULL(known.unnamed));
	print_totals(f, "categories", categories, known.categories, CATEGORIES);
	print_totals(f, "types", names, known.types, TYPES);
	fprintf(f, " \"first_ts_ns\": %llu, \"last_end_ns\": %llu,\n \"device\": ",
		ULL(known.begins_ns), ULL(known.ends_ns));
	if (!work)
		fprintf(f, "null\n}\n");
	else
		fprintf(f,
			"{\"span_ns\": %llu, \"busy_ns\": %llu, \"idle_ns\": %llu, "
			"\"comm_busy_ns\": %llu, \"compute_busy_ns\": %llu, "
			"\"mem_busy_ns\": %llu, \"overlap_ns\": %llu, "
			"\"exposed_ns\": %llu}\n}\n",
			ULL(span_ns), ULL(known.all.busy_ns),
			ULL(span_ns - known.all.busy_ns), ULL(known.comm.busy_ns),
			ULL(known.compute.busy_ns), ULL(known.memory.busy_ns),
			ULL(overlap_ns), ULL(known.comm.busy_ns - overlap_ns));
}

static void put_trace(const struct options *o)
{
	begin(NULL, '{');
	put_number("schemaVersion", 1);
	line();
	begin("deviceProperties", '[');
	begin(NULL, '{');
	put_number("id", 0);
	put_text("name", "Generic Accelerator 80GB");
	put_number("totalGlobalMem", 85045477376u);
	end('}');
	end(']');
	line();
	begin("distributedInfo", '{');
	put_text("backend", "nccl");
	put_number("rank", o->rank);
	put_number("world_size", o->world);
	end('}');
	line();
	put_text("displayTimeUnit", "ms");
	line();
	put_number("baseTimeNanoseconds", 1726000000000000000u);
	line();
	begin("traceEvents", '[');
	put_events(o);
	end(']');
	line();
	put("traceName", "\"trace_rank%llu.json\"", ULL(o->rank));
	end('}');
	character('\n');
}

static bool write_truth(const struct options *o)
{
	FILE *f = fopen(o->truth, "w");
	bool good;

	if (!f) {
		perror(o->truth);
		return false;
	}
	print_truth(f, o);
	good = !ferror(f);
	return fclose(f) == 0 && good;
}

int main(int argc, char **argv)
{
	static char buffer[1 << 20];
	struct options o = { .events = 100000,
		.seed = 1,
		.world = 64,
		.steps = 10,
		.gaps = 70,
		.unnamed = 40,
		.python = 30,
		.disorder = 30 };
	int c;

	while ((c = getopt(argc, argv, "n:s:r:w:k:b:g:u:p:o:t:cex")) != -1) {
		uint64_t value = optarg ? strtoull(optarg, NULL, 10) : 0;

		switch (c) {
		case 'n':
			o.events = value;
			break;
		case 's':
			o.seed = value;
			break;
		case 'r':
			o.rank = value;
			break;
		case 'w':
			o.world = value;
			break;
		case 'k':
			o.steps = value;
			break;
		case 'b':
			o.big_bytes = value;
			break;
		case 'g':
			o.gaps = (unsigned)value;
			break;
		case 'u':
			o.unnamed = (unsigned)value;
			break;
		case 'p':
			o.python = (unsigned)value;
			break;
		case 'o':
			o.disorder = (unsigned)(strtod(optarg, NULL) * 100 + 0.5);
			break;
		case 't':
			o.truth = optarg;
			break;
		case 'c':
			out.compact = true;
			break;
		case 'e':
			o.escapes = true;
			break;
		case 'x':
			o.defects = true;
			break;
		default:
			return 2;
		}
	}
	state = o.seed * 0x9E3779B97F4A7C15u + 1;
	setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
	put_trace(&o);
	if (fflush(stdout) || ferror(stdout))
		return 1;
	return o.truth && !write_truth(&o) ? 1 : 0;
}
