/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of CUDA, HIP and the CUDA driver, kernels and allocations of memory by their names.
 */
#include <stdlib.h>
#include <string.h>

#include "trace/collectives.h"
#include "trace/durations.h"
#include "trace/kineto-kernels.h"
#include "trace/types.h"

static bool begins_with_any(struct fsdp_span name, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (fsdp_span_begins(name, fsdp_span_text(words[i])))
			return true;
	return false;
}

static struct fsdp_span behind(struct fsdp_span name, size_t size)
{
	return fsdp_span(name.data + size, name.size - size);
}

enum fsdp_runtime_call fsdp_runtime_call_of(struct fsdp_span name)
{
	static const char *const prefixes[] = { "cuda", "hip", "cuMem", "cu" };
	static const char *const allocates[] = { "Malloc", "Free", "HostAlloc",
		"HostMalloc", "HostFree", "HostRegister", "HostUnregister" };
	/* Of the driver, and of hipMem. */
	static const char *const maps[] = { "Alloc", "Free", "HostAlloc", "HostRegister",
		"HostUnregister", "Create", "Release", "Map", "Unmap", "SetAccess",
		"AddressReserve", "AddressFree" };
	struct fsdp_span rest = FSDP_SPAN("");
	for (size_t i = 0; i < FSDP_COUNT(prefixes) && rest.size == 0; i++)
		if (fsdp_span_begins(name, fsdp_span_text(prefixes[i])))
			rest = behind(name, strlen(prefixes[i]));
	if (fsdp_span_has(rest, "Synchronize", false))
		return FSDP_RUNTIME_WAIT;
	if (fsdp_span_begins(rest, FSDP_SPAN("Memcpy")) ||
		fsdp_span_begins(name, FSDP_SPAN("cuMemcpy")))
		return FSDP_RUNTIME_COPY;
	if (begins_with_any(rest, allocates, FSDP_COUNT(allocates)))
		return FSDP_RUNTIME_ALLOCATE;
	bool driver = fsdp_span_begins(name, FSDP_SPAN("cuMem"));
	if (fsdp_span_begins(name, FSDP_SPAN("hipMem"))) {
		driver = true;
		rest = behind(name, 6);
	}
	return driver && begins_with_any(rest, maps, FSDP_COUNT(maps))
		       ? FSDP_RUNTIME_ALLOCATE
		       : FSDP_RUNTIME_OTHER;
}

/*
 * What kernels do, by words in their names.
 */

static const struct {
	const char *word;
	enum fsdp_kernel_class class;
} class_words[] = {
#define FSDP_KERNEL_WORD(word, class) { word, FSDP_KERNEL_##class },
#include "trace/kineto-kernel-classes.def"
#undef FSDP_KERNEL_WORD
};

/* What a kernel that computes does, by words in its name: the first row of
 * kineto-kernel-classes.def that has one of them, else FSDP_KERNEL_OTHER. */
static enum fsdp_kernel_class kernel_class_of(struct fsdp_span name)
{
	for (size_t i = 0; i < FSDP_COUNT(class_words); i++)
		if (fsdp_span_has(name, class_words[i].word, true))
			return class_words[i].class;
	return FSDP_KERNEL_OTHER;
}

const char *fsdp_kernel_class_name(enum fsdp_kernel_class kernel_class)
{
	static const char *const names[FSDP_KERNEL_CLASS_COUNT] = {
		[FSDP_KERNEL_GEMM] = "gemm",
		[FSDP_KERNEL_ATTENTION] = "attention",
		[FSDP_KERNEL_ELEMENTWISE] = "elementwise",
		[FSDP_KERNEL_REDUCTION] = "reduction",
		[FSDP_KERNEL_COPY] = "copy",
		[FSDP_KERNEL_COMMUNICATION] = "communication",
		[FSDP_KERNEL_OTHER] = "other",
	};
	return kernel_class < FSDP_KERNEL_CLASS_COUNT ? names[kernel_class] : NULL;
}

/*
 * The kernels of a trace by name.
 */

struct fsdp_kineto_kernel {
	uint32_t name, stream; /* words; name FSDP_NONE: beyond the limit */
	enum fsdp_kernel_kind kind;
	uint64_t count;
	int64_t ns;
	uint32_t index; /* in the list of rows, once it is a copy */
};

static struct fsdp_kineto_kernel *row_at(
	const struct fsdp_kineto_kernels *kernels, size_t row)
{
	return fsdp_vec_at(&kernels->rows, row);
}

bool fsdp_kineto_kernels_init(struct fsdp_kineto_kernels *kernels,
	struct fsdp_kineto_words *words, struct fsdp_arena *arena,
	const struct fsdp_limits *limits, const struct fsdp_recording_options *options)
{
	*kernels =
		(struct fsdp_kineto_kernels){ .wanted = options->kernels || options->idle,
			.listed = options->kernels,
			.by_step = options->kernels && options->by_step,
			.words = words };
	kernels->ceiling = fsdp_limit(limits, FSDP_LIMIT_KERNELS);
	fsdp_vec_init(&kernels->rows, arena, sizeof(struct fsdp_kineto_kernel));
	fsdp_vec_init(&kernels->collectives, arena, sizeof(uint32_t));
	fsdp_step_sums_init(&kernels->steps, arena);
	return !kernels->wanted || fsdp_vec_push(&kernels->rows) != NULL;
}

/* What is new is a new row. */
static bool find_row(struct fsdp_kineto_kernels *kernels,
	const struct fsdp_kineto_kernel *like, uint32_t *ret_row)
{
	uint32_t key[] = { like->name, like->stream, like->kind }, id;
	uint32_t *known = fsdp_kineto_words_find(kernels->words, FSDP_KINETO_KERNEL_ROWS,
		fsdp_span((const unsigned char *)key, sizeof key), &id);
	if (known == NULL)
		return false;
	if (*known == 0) {
		if (!fsdp_vec_add(&kernels->rows, like))
			return false;
		*known = (uint32_t)kernels->rows.count - 1;
	}
	*ret_row = *known;
	return true;
}

static bool is_known(const struct fsdp_kineto_kernels *kernels, uint32_t name,
	uint32_t stream, enum fsdp_kernel_kind kind)
{
	uint32_t key[] = { name, stream, kind };
	return fsdp_names_find_child(&kernels->words->names, FSDP_KINETO_KERNEL_ROWS,
		       fsdp_span((const unsigned char *)key, sizeof key)) != FSDP_NONE;
}

bool fsdp_kineto_kernels_find(struct fsdp_kineto_kernels *kernels, struct fsdp_span name,
	uint32_t stream, enum fsdp_kernel_kind kind, uint32_t *ret_row)
{
	struct fsdp_kineto_kernel row = { FSDP_NONE, FSDP_NONE, kind, 0, 0, 0 };
	struct fsdp_names *names = &kernels->words->names;
	uint32_t word;
	*ret_row = 0;
	if (!kernels->wanted)
		return true;
	/* The row 0 is not counted. */
	if (kernels->rows.count > kernels->ceiling) {
		word = fsdp_names_find_child(names, FSDP_KINETO_KERNELS, name);
		if (word == FSDP_NONE || !is_known(kernels, word, stream, kind))
			return find_row(kernels, &row, ret_row);
	} else if (fsdp_kineto_words_find(
			   kernels->words, FSDP_KINETO_KERNELS, name, &word) == NULL) {
		return false;
	}
	row.name = word;
	row.stream = stream;
	return find_row(kernels, &row, ret_row);
}

bool fsdp_kineto_kernels_collective(struct fsdp_kineto_kernels *kernels, uint32_t row)
{
	return !kernels->wanted || fsdp_vec_add(&kernels->collectives, &row);
}

uint32_t fsdp_kineto_kernels_row(const struct fsdp_kineto_kernels *kernels, size_t nth)
{
	return nth < kernels->collectives.count
		       ? *(uint32_t *)fsdp_vec_at(&kernels->collectives, nth)
		       : 0;
}

void fsdp_kineto_kernels_add(
	struct fsdp_kineto_kernels *kernels, uint32_t row, int64_t dur_ns)
{
	if (row == 0)
		return;
	row_at(kernels, row)->count++;
	fsdp_sum_ns(&row_at(kernels, row)->ns, dur_ns, &kernels->words->overflow);
}

bool fsdp_kineto_kernels_add_step(
	struct fsdp_kineto_kernels *kernels, uint32_t row, int64_t step, int64_t dur_ns)
{
	return row == 0 || fsdp_step_sums_add(&kernels->steps, row, step, dur_ns, 0);
}

struct fsdp_span fsdp_kineto_kernels_name(
	const struct fsdp_kineto_kernels *kernels, uint32_t row)
{
	uint32_t name = row != 0 ? row_at(kernels, row)->name : FSDP_NONE;
	return name != FSDP_NONE ? fsdp_kineto_words_text(kernels->words, name)
				 : (struct fsdp_span){ 0 };
}

void fsdp_kineto_kernels_forget(struct fsdp_kineto_kernels *kernels)
{
	for (size_t i = 1; i < kernels->rows.count; i++) {
		row_at(kernels, i)->count = 0;
		row_at(kernels, i)->ns = 0;
	}
}

/* ---- the end ---- */

static int compare_streams(const void *a, const void *b)
{
	const struct fsdp_kineto_kernel *left = a, *right = b;
	return left->stream < right->stream ? -1 : left->stream > right->stream;
}

static int compare_names(const void *a, const void *b)
{
	const struct fsdp_kineto_kernel *left = a, *right = b;
	if (left->kind != right->kind)
		return left->kind < right->kind ? -1 : 1;
	return left->name < right->name ? -1 : left->name > right->name;
}

/* The one that computes most, by rows in the order of streams. */
static uint32_t compute_stream(
	const struct fsdp_kineto_kernel *rows, size_t count, bool *overflow)
{
	uint32_t best = FSDP_NONE;
	int64_t most_ns = 0, ns = 0;
	for (size_t i = 0; i < count; i++) {
		if (i == 0 || rows[i].stream != rows[i - 1].stream)
			ns = 0;
		if (rows[i].kind == FSDP_KERNEL_COMPUTES && rows[i].stream != FSDP_NONE)
			fsdp_sum_ns(&ns, rows[i].ns, overflow);
		if (ns > most_ns) {
			most_ns = ns;
			best = rows[i].stream;
		}
	}
	return best;
}

static struct fsdp_kernel_times make_times(
	const struct fsdp_kineto_kernels *kernels, const struct fsdp_kineto_kernel *row)
{
	struct fsdp_kernel_times times = { .computes = row->kind == FSDP_KERNEL_COMPUTES,
		.kernel_class = FSDP_KERNEL_OTHER };
	if (row->name != FSDP_NONE)
		times.name = fsdp_kineto_words_text(kernels->words, row->name);
	if (row->kind == FSDP_KERNEL_COMMUNICATES)
		times.kernel_class = FSDP_KERNEL_COMMUNICATION;
	else if (row->kind == FSDP_KERNEL_COPIES)
		times.kernel_class = FSDP_KERNEL_COPY;
	else if (row->name != FSDP_NONE)
		times.kernel_class = kernel_class_of(times.name);
	return times;
}

/* Rows in the order of names; those without calls are left out. */
static size_t add_up(const struct fsdp_kineto_kernels *kernels,
	const struct fsdp_kineto_kernel *rows, size_t count, uint32_t stream,
	struct fsdp_kernel_times *list, uint32_t *places)
{
	const struct fsdp_kineto_kernel *last = NULL;
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		if (rows[i].count == 0)
			continue;
		if (last == NULL || compare_names(last, &rows[i]) != 0)
			list[kept++] = make_times(kernels, &rows[i]);
		last = &rows[i];
		places[rows[i].index] = (uint32_t)(kept - 1);
		struct fsdp_kernel_times *times = &list[kept - 1];
		times->count += rows[i].count;
		fsdp_sum_ns(&times->ns, rows[i].ns, &kernels->words->overflow);
		if (rows[i].stream == stream && stream != FSDP_NONE)
			times->on_compute_stream += rows[i].count;
	}
	return kept;
}

/* What each of the list took by step. */
static bool list_steps(struct fsdp_kineto_kernels *kernels, struct fsdp_arena *arena,
	const uint32_t *places, struct fsdp_kernel_times *list, size_t count)
{
	struct fsdp_step_list *steps = calloc(count + 1, sizeof *steps);
	bool good = steps != NULL &&
		    fsdp_step_sums_list(&kernels->steps, places, arena, steps);
	for (size_t i = 0; good && i < count; i++)
		list[i].by_step = steps[i];
	kernels->words->overflow |= kernels->steps.overflow;
	free(steps);
	return good;
}

bool fsdp_kineto_kernels_settle(struct fsdp_kineto_kernels *kernels,
	struct fsdp_arena *arena, struct fsdp_recording *recording)
{
	if (!kernels->listed)
		return true;
	size_t count = kernels->rows.count - 1;
	struct fsdp_kernel_times *list = FSDP_TAKE(arena, list, count);
	struct fsdp_kineto_kernel *rows = malloc((count + 1) * sizeof *rows);
	uint32_t *places = malloc((count + 1) * sizeof *places);
	bool good = list != NULL && rows != NULL && places != NULL;
	for (size_t i = 0; good && i < count; i++) {
		rows[i] = *row_at(kernels, i + 1);
		rows[i].index = (uint32_t)i + 1;
		places[i + 1] = UINT32_MAX;
	}
	if (good) {
		qsort(rows, count, sizeof *rows, compare_streams);
		uint32_t stream = compute_stream(rows, count, &kernels->words->overflow);
		qsort(rows, count, sizeof *rows, compare_names);
		recording->kernels = list;
		recording->kernel_count =
			add_up(kernels, rows, count, stream, list, places);
		good = !kernels->by_step ||
		       list_steps(kernels, arena, places, list, recording->kernel_count);
	}
	free(places);
	free(rows);
	return good;
}

/*
 * Calls that allocate or free memory, by step and name.
 */

struct fsdp_kineto_alloc {
	int64_t ts_ns, dur_ns;
	uint32_t name; /* a word */
};

void fsdp_kineto_allocs_init(struct fsdp_kineto_allocs *allocs,
	struct fsdp_kineto_words *words, struct fsdp_arena *arena)
{
	allocs->words = words;
	fsdp_vec_init(&allocs->list, arena, sizeof(struct fsdp_kineto_alloc));
}

bool fsdp_kineto_allocs_add(struct fsdp_kineto_allocs *allocs, struct fsdp_span name,
	int64_t ts_ns, int64_t dur_ns)
{
	struct fsdp_kineto_alloc one = { ts_ns, dur_ns, 0 };
	return fsdp_kineto_words_find(
		       allocs->words, FSDP_KINETO_ALLOCS, name, &one.name) != NULL &&
	       fsdp_vec_add(&allocs->list, &one);
}

/* A call in its step. */
struct stepped_alloc {
	size_t step; /* its index; SIZE_MAX: none */
	struct fsdp_span name;
	int64_t ns;
};

static int compare_alloc_names(const void *a, const void *b)
{
	const struct stepped_alloc *left = a, *right = b;
	return fsdp_span_compare(left->name, right->name);
}

static int compare_steps(const void *a, const void *b)
{
	const struct stepped_alloc *left = a, *right = b;
	if (left->step != right->step)
		return left->step < right->step ? -1 : 1;
	return compare_alloc_names(a, b);
}

/* Sums of neighbours that are equal. Returns how many. */
static size_t add_up_allocs(const struct stepped_alloc *list, size_t count,
	int (*compare)(const void *, const void *), struct fsdp_tally *ret_sums,
	bool *overflow)
{
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		if (i == 0 || compare(&list[i - 1], &list[i]) != 0)
			ret_sums[kept++] = (struct fsdp_tally){ list[i].name, 0, 0 };
		ret_sums[kept - 1].count++;
		fsdp_sum_ns(&ret_sums[kept - 1].sum_ns, list[i].ns, overflow);
	}
	return kept;
}

static void hand_out(struct stepped_alloc *list, size_t count, struct fsdp_step *steps,
	struct fsdp_tally *sums, bool *overflow)
{
	qsort(list, count, sizeof *list, compare_steps);
	for (size_t i = 0, next; i < count && list[i].step != SIZE_MAX; i = next) {
		for (next = i; next < count && list[next].step == list[i].step;)
			next++;
		struct fsdp_step *step = &steps[list[i].step];
		step->allocs = sums;
		step->alloc_count =
			add_up_allocs(list + i, next - i, compare_steps, sums, overflow);
		sums += step->alloc_count;
	}
}

static size_t place_all(const struct fsdp_kineto_allocs *allocs, bool limited,
	const struct fsdp_recording *recording, struct stepped_alloc *list)
{
	size_t kept = 0;
	for (size_t i = 0; i < allocs->list.count; i++) {
		const struct fsdp_kineto_alloc *one = fsdp_vec_at(&allocs->list, i);
		size_t step = fsdp_steps_index_at(
			recording->steps, recording->step_count, one->ts_ns);
		if (!limited || step != SIZE_MAX)
			list[kept++] = (struct stepped_alloc){ step,
				fsdp_kineto_words_text(allocs->words, one->name),
				one->dur_ns };
	}
	return kept;
}

bool fsdp_kineto_allocs_settle(struct fsdp_kineto_allocs *allocs,
	struct fsdp_arena *arena, struct fsdp_step *steps, bool limited,
	struct fsdp_recording *recording)
{
	size_t count = allocs->list.count;
	if (count == 0)
		return true;
	struct fsdp_tally *sums = FSDP_TAKE(arena, sums, 2 * count);
	struct stepped_alloc *list = malloc(count * sizeof *list);
	bool good = sums != NULL && list != NULL;
	if (good) {
		count = place_all(allocs, limited, recording, list);
		hand_out(list, count, steps, sums, &allocs->words->overflow);
		qsort(list, count, sizeof *list, compare_alloc_names);
		sums += allocs->list.count;
		recording->allocs = sums;
		recording->alloc_count = add_up_allocs(
			list, count, compare_alloc_names, sums, &allocs->words->overflow);
	}
	free(list);
	return good;
}
