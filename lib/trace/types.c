/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names that PyTorch and its backends give to what takes time; sums and percentiles
 * of durations. Origin of the names:
 * SimpleProfiler.Type in torch/distributed/fsdp/_debug_utils.py (2.13), the collectives'
 * names in torch/csrc/distributed/c10d, the kernels of NCCL 2.4 to 2.27, RCCL, HCCL and
 * CNCL.
 */
#include <fsdp/trace.h>

#include "base/sort.h"
#include "trace/event.h"

#define NAME(type, name) name,
static const char *const names[FSDP_TIME_COUNT] = { FSDP_TIME_TYPES(NAME) };

struct fsdp_span fsdp_time_type_name(enum fsdp_time_type type)
{
	return fsdp_span_text(names[type]);
}

enum fsdp_time_type fsdp_time_type_of(struct fsdp_span name)
{
	for (int i = 0; i < FSDP_TIME_COUNT; i++)
		if (fsdp_span_is(name, names[i]))
			return (enum fsdp_time_type)i;
	return FSDP_TIME_OTHER;
}

bool fsdp_type_is_named(struct fsdp_span type)
{
	return fsdp_time_type_of(type) < FSDP_TIME_NAMED;
}

bool fsdp_type_is_region(struct fsdp_span type)
{
	return fsdp_time_type_of(type) >= FSDP_TIME_ENTER_UNSHARD;
}

const struct fsdp_type_times *fsdp_type_find(
	const struct fsdp_type_times *types, size_t count, struct fsdp_span name)
{
	for (size_t i = 0; i < count; i++)
		if (fsdp_span_equal(types[i].name, name))
			return &types[i];
	return NULL;
}

/* ---- texts ---- */

static unsigned char lower(unsigned char c)
{
	return c >= 'A' && c <= 'Z' ? (unsigned char)(c | 0x20) : c;
}

static bool begins(struct fsdp_span text, size_t at, const char *what, bool fold)
{
	size_t size = strlen(what);
	if (at > text.size || text.size - at < size)
		return false;
	for (size_t i = 0; i < size; i++) {
		unsigned char c = text.data[at + i];
		if ((fold ? lower(c) : c) != (unsigned char)what[i])
			return false;
	}
	return true;
}

bool fsdp_span_has(struct fsdp_span text, const char *what, bool fold)
{
	for (size_t at = 0; at < text.size; at++)
		if (begins(text, at, what, fold))
			return true;
	return false;
}

struct fsdp_span fsdp_span_lower(struct fsdp_span text, struct fsdp_arena *arena)
{
	unsigned char *folded = fsdp_arena_take(arena, text.size + 1, 1);
	for (size_t i = 0; i < text.size; i++)
		folded[i] = lower(text.data[i]);
	return fsdp_span(folded, text.size);
}

/* ---- collectives ---- */

/* Folded names, by type. */
static const struct {
	enum fsdp_time_type type;
	const char *names;
} spellings[] = {
	{ FSDP_TIME_ALL_GATHER,
		"all_gather allgather all_gather_base allgather_base "
		"all_gather_into_tensor allgather_into_tensor "
		"all_gather_into_tensor_coalesced allgather_into_tensor_coalesced "
		"all_gather_coalesced allgather_coalesced all_gather_single" },
	{ FSDP_TIME_REDUCE_SCATTER,
		"reduce_scatter reducescatter reduce_scatter_base reducescatter_base "
		"reduce_scatter_tensor reduce_scatter_tensor_coalesced "
		"reduce_scatter_coalesced reduce_scatter_single" },
	{ FSDP_TIME_ALL_REDUCE,
		"all_reduce allreduce all_reduce_coalesced allreduce_coalesced "
		"all_reduce_sparse" },
	{ FSDP_TIME_ALL_TO_ALL, "all_to_all alltoall all_to_allv alltoallv alltoall_base "
				"all_to_all_single" },
	{ FSDP_TIME_BROADCAST, "broadcast broadcast_oop broadcast_coalesced" },
	{ FSDP_TIME_REDUCE, "reduce reduce_oop" },
	{ FSDP_TIME_SEND_RECV, "send recv sendrecv send_recv" },
	{ FSDP_TIME_GATHER, "gather" },
	{ FSDP_TIME_SCATTER, "scatter" },
	{ FSDP_TIME_BARRIER, "barrier all_reduce_barrier" },
	{ FSDP_TIME_COALESCED, "coalesced" },
};

enum fsdp_time_type fsdp_collective_type(struct fsdp_span name)
{
	char folded[40];
	/* After "c10d::" or "backend:". */
	size_t word = 0;
	while (word < name.size && name.data[word] >= 'a' && name.data[word] <= 'z')
		word++;
	if (!fsdp_span_behind(name, "c10d::", &name) && word > 0 && word < name.size &&
		name.data[word] == ':')
		name = fsdp_span(name.data + word + 1, name.size - word - 1);
	while (name.size > 0 && name.data[0] == '_')
		name = fsdp_span(name.data + 1, name.size - 1);
	while (name.size > 0 && name.data[name.size - 1] == '_')
		name.size--;
	if (name.size == 0 || name.size > sizeof folded - 2)
		return FSDP_TIME_OTHER;
	for (size_t i = 0; i < name.size; i++)
		folded[i] = (char)lower(name.data[i]);
	for (size_t i = 0; i < FSDP_COUNT(spellings); i++)
		if (fsdp_span_is_any(fsdp_span(folded, name.size), spellings[i].names))
			return spellings[i].type;
	return FSDP_TIME_OTHER;
}

/* nccl[Dev][Kernel][_]NAME, the longer of two first. */
static const struct {
	const char *name;
	enum fsdp_time_type type;
} kernels[] = {
	{ "AllGatherV", FSDP_TIME_ALL_GATHER },
	{ "AllGather", FSDP_TIME_ALL_GATHER },
	{ "AllReduce", FSDP_TIME_ALL_REDUCE },
	{ "ReduceScatter", FSDP_TIME_REDUCE_SCATTER },
	{ "Broadcast", FSDP_TIME_BROADCAST },
	{ "Reduce", FSDP_TIME_REDUCE },
	{ "SendRecv", FSDP_TIME_SEND_RECV },
};

static enum fsdp_time_type nccl_kernel(struct fsdp_span name, size_t at)
{
	at += 4;
	if (begins(name, at, "Dev", false))
		at += 3;
	if (begins(name, at, "Kernel", false))
		at += 6;
	if (begins(name, at, "_", false))
		at += 1;
	for (size_t i = 0; i < FSDP_COUNT(kernels); i++)
		if (begins(name, at, kernels[i].name, false))
			return kernels[i].type;
	return FSDP_TIME_OTHER;
}

/* oneccl_NAME_… and hcclNAME…: the longest beginning that is the name of a collective. */
static enum fsdp_time_type other_kernel(struct fsdp_span name)
{
	enum fsdp_time_type type = FSDP_TIME_OTHER;
	if (!fsdp_span_behind(name, "oneccl_", &name) &&
		!fsdp_span_behind(name, "hccl", &name))
		return type;
	if (name.size > 40)
		name.size = 40;
	for (; name.size != 0 && type == FSDP_TIME_OTHER; name.size--)
		type = fsdp_collective_type(name);
	return type;
}

enum fsdp_time_type fsdp_collective_of_kernel(struct fsdp_span name)
{
	for (size_t at = 0; at < name.size; at++) {
		enum fsdp_time_type type = FSDP_TIME_OTHER;
		if (begins(name, at, "nccl", false))
			type = nccl_kernel(name, at);
		if (type != FSDP_TIME_OTHER)
			return type;
	}
	if (fsdp_span_has(name, "cross_device_reduce", false) ||
		fsdp_span_has(name, "multimem_all_reduce", false))
		return FSDP_TIME_ALL_REDUCE;
	if (fsdp_span_has(name, "multimem_all_gather", false))
		return FSDP_TIME_ALL_GATHER;
	return other_kernel(name);
}

bool fsdp_is_comm_kernel(struct fsdp_span name)
{
	static const char *const parts[] = { "nccl", "rccl", "msccl",
		"cross_device_reduce", "multimem_all_" };
	for (size_t i = 0; i < FSDP_COUNT(parts); i++)
		if (fsdp_span_has(name, parts[i], true))
			return true;
	return begins(name, 0, "hccl", true) || begins(name, 0, "cncl", true) ||
	       begins(name, 0, "oneccl", true);
}

bool fsdp_is_backend_note(struct fsdp_span name)
{
	size_t size = 0;
	/* Most names have no colon so early. */
	while (size < name.size && size < 7 && name.data[size] != ':')
		size++;
	if (size + 1 >= name.size || size == 7 || name.data[size + 1] == ':')
		return false;
	return fsdp_span_is_any(fsdp_span(name.data, size),
		"nccl rccl gloo mpi ucc xccl hccl cncl oneccl");
}

/* ---- copies ---- */

enum fsdp_time_type fsdp_copy_type(struct fsdp_span text)
{
	static const struct {
		const char *word;
		enum fsdp_time_type type;
	} words[] = {
		{ "HtoD", FSDP_TIME_H2D },
		{ "DtoH", FSDP_TIME_D2H },
		{ "DtoD", FSDP_TIME_D2D },
		{ "PtoP", FSDP_TIME_P2P },
		{ "HtoH", FSDP_TIME_HTOH },
		{ "Host -> Device", FSDP_TIME_H2D },
		{ "Device -> Host", FSDP_TIME_D2H },
		{ "Device -> Device", FSDP_TIME_D2D },
		{ "HOST_TO_DEVICE", FSDP_TIME_H2D },
		{ "DEVICE_TO_HOST", FSDP_TIME_D2H },
		{ "DEVICE_TO_DEVICE", FSDP_TIME_D2D },
	};
	for (size_t i = 0; i < FSDP_COUNT(words); i++)
		if (fsdp_span_has(text, words[i].word, false))
			return words[i].type;
	return FSDP_TIME_OTHER;
}

unsigned fsdp_element_size(struct fsdp_span dtype)
{
	return fsdp_span_is_any(dtype, "Byte Char Bool")        ? 1
	       : fsdp_span_is_any(dtype, "Half BFloat16 Short") ? 2
	       : fsdp_span_is_any(dtype, "Float Int")           ? 4
	       : fsdp_span_is_any(dtype, "Long Double")         ? 8
	       : begins(dtype, 0, "Float8", false)              ? 1
								: 0;
}

/* ---- calls of the runtime ---- */

static bool begins_with_any(struct fsdp_span name, const char *const *words)
{
	while (*words != NULL && !fsdp_span_begins(name, fsdp_span_text(*words)))
		words++;
	return *words != NULL;
}

enum fsdp_idle_cause fsdp_runtime_cause(struct fsdp_span name)
{
	static const char *const prefixes[] = { "cuda", "hip", "cuMem", "cu" };
	static const char *const allocates[] = { "Malloc", "Free", "HostAlloc",
		"HostMalloc", "HostFree", "HostRegister", "HostUnregister", NULL };
	/* Of the driver, and of hipMem. */
	static const char *const maps[] = { "Alloc", "Free", "HostAlloc", "HostRegister",
		"HostUnregister", "Create", "Release", "Map", "Unmap", "SetAccess",
		"AddressReserve", "AddressFree", NULL };
	struct fsdp_span rest = FSDP_SPAN("");
	for (size_t i = 0; i < FSDP_COUNT(prefixes) && rest.size == 0; i++)
		fsdp_span_behind(name, prefixes[i], &rest);
	if (fsdp_span_has(rest, "Synchronize", false))
		return FSDP_IDLE_SYNCHRONISATION;
	if (fsdp_span_begins(rest, FSDP_SPAN("Memcpy")) ||
		fsdp_span_begins(name, FSDP_SPAN("cuMemcpy")))
		return FSDP_IDLE_COPY;
	if (begins_with_any(rest, allocates))
		return FSDP_IDLE_ALLOCATION;
	bool driver = fsdp_span_begins(name, FSDP_SPAN("cuMem"));
	driver |= fsdp_span_behind(name, "hipMem", &rest);
	return driver && begins_with_any(rest, maps) ? FSDP_IDLE_ALLOCATION
						     : FSDP_IDLE_LAUNCH;
}

/* ---- kernels by words in their names ---- */

static const struct {
	const char *word;
	enum fsdp_kernel_class class;
} class_words[] = {
#define FSDP_KERNEL_WORD(word, class) { word, FSDP_KERNEL_##class },
#include "trace/types-kernels.def"
#undef FSDP_KERNEL_WORD
};

enum fsdp_kernel_class fsdp_kernel_class_of(struct fsdp_span name)
{
	for (size_t i = 0; i < FSDP_COUNT(class_words); i++)
		if (fsdp_span_has(name, class_words[i].word, true))
			return class_words[i].class;
	return FSDP_KERNEL_OTHER;
}

const char *fsdp_kernel_class_name(enum fsdp_kernel_class kernel_class)
{
	static const char *const classes[FSDP_KERNEL_CLASS_COUNT] = {
		[FSDP_KERNEL_GEMM] = "gemm",
		[FSDP_KERNEL_ATTENTION] = "attention",
		[FSDP_KERNEL_ELEMENTWISE] = "elementwise",
		[FSDP_KERNEL_REDUCTION] = "reduction",
		[FSDP_KERNEL_COPY] = "copy",
		[FSDP_KERNEL_COMMUNICATION] = "communication",
		[FSDP_KERNEL_OTHER] = "other",
	};
	return kernel_class < FSDP_KERNEL_CLASS_COUNT ? classes[kernel_class] : NULL;
}

/* ---- durations ---- */

/* The nth in order, without sorting all. Pivots are random: no order is a slow one. */
static int64_t select_nth(int64_t *values, size_t count, size_t nth)
{
	int64_t low = 0, high = (int64_t)count - 1;
	uint64_t random = count;
	while (low < high) {
		random = random * 6364136223846793005 + 1442695040888963407;
		int64_t i = low, j = high,
			pivot = values[low + (int64_t)((random >> 33) %
						       (uint64_t)(high - low + 1))];
		while (i <= j) {
			while (values[i] < pivot)
				i++;
			while (values[j] > pivot)
				j--;
			if (i > j)
				break;
			int64_t value = values[i];
			values[i++] = values[j];
			values[j--] = value;
		}
		if (j < (int64_t)nth)
			low = i;
		if ((int64_t)nth < i)
			high = j;
	}
	return values[nth];
}

struct fsdp_times fsdp_times_of(int64_t *values, size_t count)
{
	struct fsdp_times times = { count, FSDP_ABSENT, FSDP_ABSENT, FSDP_ABSENT,
		FSDP_ABSENT, FSDP_ABSENT };
	bool overflow = false;
	if (count == 0)
		return times;
	times.sum_ns = 0;
	times.min_ns = times.max_ns = values[0];
	for (size_t i = 0; i < count; i++) {
		fsdp_sum_ns(&times.sum_ns, values[i], &overflow);
		times.min_ns = values[i] < times.min_ns ? values[i] : times.min_ns;
		times.max_ns = values[i] > times.max_ns ? values[i] : times.max_ns;
	}
	if (overflow)
		times.sum_ns = FSDP_ABSENT;
	times.p50_ns = select_nth(values, count, (50 * count + 99) / 100 - 1);
	times.p95_ns = select_nth(values, count, (95 * count + 99) / 100 - 1);
	return times;
}

/* ---- by type ---- */

void fsdp_types_init(struct fsdp_types *types, struct fsdp_arena *arena)
{
	fsdp_vec_init(&types->list, arena, sizeof(struct fsdp_typed));
	fsdp_names_init(&types->names, arena);
}

uint32_t fsdp_types_find(struct fsdp_types *types, struct fsdp_span name)
{
	uint32_t index = fsdp_names_child(&types->names, 0, name) - 1;
	if (index == types->list.count) {
		struct fsdp_typed *fresh = fsdp_vec_push(&types->list);
		fresh->name = name;
		fsdp_vec_init(&fresh->durations, types->list.arena, sizeof(int64_t));
	}
	return index;
}

struct fsdp_type_times *fsdp_types_list(const struct fsdp_types *all,
	struct fsdp_arena *arena, struct fsdp_arena *values, size_t *ret_count,
	int64_t ***ret_durations)
{
	size_t count = all->list.count;
	struct fsdp_type_times *types = FSDP_TAKE(arena, types, count);
	int64_t **durations = FSDP_TAKE(values, durations, count);
	*ret_count = 0;
	*ret_durations = durations;
	for (unsigned wanted = 0; wanted <= FSDP_TIME_OTHER; wanted++)
		for (size_t i = 0; i < count; i++) {
			const struct fsdp_typed *one = fsdp_vec_at(&all->list, i);
			if (one->durations.count == 0 ||
				fsdp_time_type_of(one->name) != wanted)
				continue;
			int64_t *list = fsdp_vec_flat(&one->durations, values);
			durations[*ret_count] = list;
			types[(*ret_count)++] = (struct fsdp_type_times){ one->name,
				fsdp_times_of(list, one->durations.count) };
		}
	return types;
}

void fsdp_trace_types(struct fsdp_trace_reading *reading, const struct fsdp_types *all)
{
	struct fsdp_recording *recording = &reading->recording;
	recording->types = fsdp_types_list(all, &reading->arena, &reading->arena,
		&recording->type_count, &reading->durations);
}

/* ---- sums by row and column ---- */

struct time_sum {
	uint32_t row;
	struct fsdp_step_time time;
};

void fsdp_time_sums_init(struct fsdp_time_sums *sums, struct fsdp_arena *arena)
{
	sums->overflow = false;
	fsdp_vec_init(&sums->list, arena, sizeof(struct time_sum));
	fsdp_vec_init(&sums->last, arena, sizeof(uint32_t));
}

static void add_time(struct fsdp_time_sums *sums, struct fsdp_step_time *time,
	const struct fsdp_step_time *more)
{
	time->count += more->count;
	fsdp_sum_ns(&time->ns, more->ns, &sums->overflow);
	if (time->exposed_ns != FSDP_ABSENT)
		fsdp_sum_ns(&time->exposed_ns, more->exposed_ns, &sums->overflow);
}

void fsdp_time_sums_add(struct fsdp_time_sums *sums, uint32_t row, int64_t column,
	int64_t ns, int64_t exposed_ns)
{
	const struct time_sum one = { row, { column, 1, ns, exposed_ns } };
	uint32_t *last = fsdp_vec_reach(&sums->last, row);
	if (*last != 0) {
		struct time_sum *sum = fsdp_vec_at(&sums->list, *last - 1);
		if (sum->time.step == column) {
			add_time(sums, &sum->time, &one.time);
			return;
		}
	}
	if (sums->list.count == UINT32_MAX)
		fsdp_arena_leave(sums->list.arena);
	fsdp_vec_append(&sums->list, &one);
	*last = (uint32_t)sums->list.count;
}

void fsdp_time_sums_list(struct fsdp_time_sums *sums, struct fsdp_arena *arena,
	struct fsdp_step_list *ret_lists)
{
	size_t count = sums->list.count;
	struct fsdp_step_time *times = FSDP_TAKE(arena, times, count);
	struct time_sum *all = fsdp_vec_flat(&sums->list, sums->list.arena);
	FSDP_SORT(all, count, FSDP_BY(all, row), FSDP_BY(all, time.step));
	for (size_t i = 0, next = 0; i < count; i++) {
		struct fsdp_step_list *of = &ret_lists[all[i].row];
		if (i != 0 && all[i - 1].row == all[i].row &&
			all[i - 1].time.step == all[i].time.step) {
			add_time(sums, &times[next - 1], &all[i].time);
			continue;
		}
		times[next] = all[i].time;
		if (of->count++ == 0)
			of->times = &times[next];
		next++;
	}
}
