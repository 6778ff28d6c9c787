/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the elements of pairs: tensors are cut into stretches of the same elements on
 * both sides, which threads take in the order in which A stores them. What each stretch
 * says is joined in order, so no number depends on the threads.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "analysis/compare/comparing.h"
#include "analysis/compare/spotting.h"
#include "base/pool.h"
#include "naming/mapping.h"

enum { STRETCH = 64 << 20, THREADS = 64 };

/* Elements of two tensors that are compared one by one. */
struct compared_stretch {
	size_t pair;
	struct fsdp_mapped sides[2];
	uint32_t file;  /* where A has them, and … */
	uint64_t order; /* … in which order there */
	uint64_t first, count;
	struct fsdp_spotted spotted;
};

struct values_comparing {
	struct fsdp_compare *compare;
	const struct fsdp_compare_values_options *options;
	struct fsdp_repeats *repeats[2];
	struct compared_stretch *stretches;
	size_t stretch_count, stretch_room;
	uint64_t total;
	_Atomic size_t next;
	_Atomic uint64_t done;
	_Atomic bool stopped;
	_Atomic(struct fsdp_error *) error;     /* that ends all of it: the first one */
	_Atomic(struct fsdp_error *) *failures; /* the first one of each pair */
};

/* A tensor as it is stored. */
static struct fsdp_mapped plain(const struct fsdp_checkpoint *checkpoint, uint32_t tensor)
{
	struct fsdp_tensor facts = fsdp_tensor(checkpoint, tensor);
	return (struct fsdp_mapped){
		.tensor = tensor,
		.dtype = facts.dtype,
		.numel = facts.numel,
	};
}

static bool push(struct values_comparing *comparing,
	const struct compared_stretch *stretch, struct fsdp_error **ret_error)
{
	if (comparing->stretch_count == comparing->stretch_room) {
		size_t room = 2 * comparing->stretch_room + 256;
		struct compared_stretch *more =
			reallocarray(comparing->stretches, room, sizeof *more);
		if (more == NULL)
			return fsdp_fail_memory(ret_error);
		comparing->stretches = more;
		comparing->stretch_room = room;
	}
	comparing->stretches[comparing->stretch_count++] = *stretch;
	return true;
}

static bool add_stretches(struct values_comparing *comparing, size_t pair,
	const struct fsdp_mapped sides[2], struct fsdp_error **ret_error)
{
	struct fsdp_compare *compare = comparing->compare;
	struct fsdp_tensor a = fsdp_tensor(compare->sides[0].checkpoint, sides[0].tensor);
	uint64_t width = fsdp_dtype(sides[0].dtype)->storage_bytes;
	uint64_t other = fsdp_dtype(sides[1].dtype)->storage_bytes;
	uint64_t most = STRETCH / (width > other ? width : other);
	/* Who begins in the middle of what is packed unpacks all that is before. */
	for (unsigned i = 0; i < 2; i++)
		if (fsdp_tensor_is_packed(compare->sides[i].checkpoint, sides[i].tensor))
			most = UINT64_MAX;
	struct compared_stretch stretch = {
		.pair = pair, .sides = { sides[0], sides[1] }, .file = FSDP_NONE
	};
	if (a.piece_count != 0) {
		struct fsdp_piece piece =
			fsdp_piece(compare->sides[0].checkpoint, a.first_piece);
		stretch.file = piece.file;
		stretch.order = piece.order;
	}
	for (uint64_t first = 0; first < sides[0].numel; first += stretch.count) {
		stretch.first = first;
		stretch.count = fsdp_min(most, sides[0].numel - first);
		if (!push(comparing, &stretch, ret_error))
			return false;
	}
	comparing->total += sides[0].numel * (width + other);
	compare->facts.compared_bytes += sides[0].numel * width;
	return true;
}

/* Why the elements of a tensor cannot be had; NULL: they can. */
static const char *obstacle(const struct fsdp_tensor *tensor)
{
	if ((tensor->flags & FSDP_TENSOR_NO_DATA) != 0)
		return "it has no bytes in any file";
	if (fsdp_dtype(tensor->dtype)->storage_bytes == 0)
		return "its dtype is not known";
	return NULL;
}

static void keep_failure(
	struct values_comparing *comparing, size_t pair, struct fsdp_error *error)
{
	struct fsdp_error *none = NULL;
	if (!atomic_compare_exchange_strong(&comparing->failures[pair], &none, error))
		fsdp_error_free(error);
}

/* Both are without bytes. */
static bool are_empty(const struct fsdp_tensor tensors[2])
{
	return (tensors[0].flags & tensors[1].flags & FSDP_TENSOR_NO_DATA) != 0;
}

static bool is_readable(struct values_comparing *comparing, size_t pair,
	const struct fsdp_mapped sides[2])
{
	struct fsdp_compare *compare = comparing->compare;
	for (unsigned i = 0; i < 2; i++) {
		const struct fsdp_checkpoint *checkpoint = compare->sides[i].checkpoint;
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, sides[i].tensor);
		struct fsdp_span name =
			fsdp_compared_at(compare, i, compare->pairs[pair].sides[i])
				->facts.name;
		const char *what = obstacle(&tensor);
		struct fsdp_error *error = NULL;
		if (what == NULL &&
			fsdp_repeats_take(comparing->repeats[i], sides[i].tensor,
				fsdp_mapped_cost(checkpoint, &sides[i]), &error))
			continue;
		if (what == NULL)
			fsdp_error_add_member(&error, name);
		else
			fsdp_fail(&error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
				"%.*s was not compared: %s", FSDP_TEXT_MOST(name, 200),
				what);
		keep_failure(comparing, pair, error);
		return false;
	}
	return true;
}

static bool is_same_quantizer(
	const struct fsdp_compare *compare, const struct fsdp_tensor tensors[2])
{
	struct fsdp_quantizer of[2];
	for (unsigned i = 0; i < 2; i++) {
		if (tensors[i].quantizer == FSDP_NONE)
			return tensors[0].quantizer == tensors[1].quantizer;
		of[i] = fsdp_quantizer(
			compare->sides[i].checkpoint, tensors[i].quantizer);
	}
	return memcmp(&of[0].scale, &of[1].scale, sizeof of[0].scale) == 0 &&
	       of[0].zero_point == of[1].zero_point && of[0].axis == of[1].axis;
}

/* Both are sparse, or quantised, in the same way: their components are compared. */
static bool has_same_form(
	const struct fsdp_compare *compare, const struct fsdp_tensor tensors[2])
{
	bool sparse = tensors[0].layout != NULL, other = tensors[1].layout != NULL;
	if (sparse != other ||
		(sparse && strcmp(tensors[0].layout, tensors[1].layout) != 0) ||
		tensors[0].component_count != tensors[1].component_count ||
		!is_same_quantizer(compare, tensors))
		return false;
	for (uint32_t i = 0; i < tensors[0].component_count; i++) {
		struct fsdp_tensor a = fsdp_tensor(
			compare->sides[0].checkpoint, tensors[0].first_component + i);
		struct fsdp_tensor b = fsdp_tensor(
			compare->sides[1].checkpoint, tensors[1].first_component + i);
		if (a.dtype != b.dtype || a.numel != b.numel)
			return false;
	}
	return true;
}

static bool add_pair(
	struct values_comparing *comparing, size_t index, struct fsdp_error **ret_error)
{
	struct fsdp_compare *compare = comparing->compare;
	struct fsdp_compared_pair *pair = &compare->pairs[index];
	struct fsdp_tensor tensors[2];
	struct fsdp_mapped sides[2];
	uint32_t ids[2];
	bool cut = false;
	for (unsigned i = 0; i < 2; i++) {
		const struct fsdp_compared *one =
			fsdp_compared_at(compare, i, pair->sides[i]);
		ids[i] = one->facts.tensor;
		tensors[i] = fsdp_tensor(compare->sides[i].checkpoint, ids[i]);
		sides[i] = one->mapped != NULL
				   ? *one->mapped
				   : plain(compare->sides[i].checkpoint, ids[i]);
		cut |= one->mapped != NULL;
	}
	if ((pair->what & FSDP_DIFFERS_SHAPE) != 0 || are_empty(tensors))
		return true;
	if (!cut && !has_same_form(compare, tensors)) {
		pair->what |= FSDP_DIFFERS_ELEMENTS;
		return true;
	}
	if (cut || tensors[0].layout == NULL) {
		if (!is_readable(comparing, index, sides))
			return true;
		if (!add_stretches(comparing, index, sides, ret_error))
			return false;
	}
	for (uint32_t i = 0; !cut && i < tensors[0].component_count; i++) {
		const uint32_t parts[2] = { tensors[0].first_component + i,
			tensors[1].first_component + i };
		for (unsigned k = 0; k < 2; k++)
			sides[k] = plain(compare->sides[k].checkpoint, parts[k]);
		if (is_readable(comparing, index, sides) &&
			!add_stretches(comparing, index, sides, ret_error))
			return false;
	}
	pair->compared = true;
	return true;
}

static int compare_places(const void *left, const void *right)
{
	const struct compared_stretch *a = left, *b = right;
	if (a->file != b->file)
		return a->file < b->file ? -1 : 1;
	if (a->order != b->order)
		return a->order < b->order ? -1 : 1;
	if (a->pair != b->pair)
		return a->pair < b->pair ? -1 : 1;
	if (a->sides[0].tensor != b->sides[0].tensor)
		return a->sides[0].tensor < b->sides[0].tensor ? -1 : 1;
	return a->first < b->first ? -1 : a->first > b->first;
}

/* Order of pairs, used to join the results. */
static int compare_owners(const void *left, const void *right)
{
	const struct compared_stretch *a = left, *b = right;
	if (a->pair != b->pair)
		return a->pair < b->pair ? -1 : 1;
	if (a->sides[0].tensor != b->sides[0].tensor)
		return a->sides[0].tensor < b->sides[0].tensor ? -1 : 1;
	return a->first < b->first ? -1 : a->first > b->first;
}

/* What a thread reads with. */
struct pair_reader {
	struct fsdp_locator *locators[2];
	struct fsdp_spotting *spotting;
};

static bool advance(struct values_comparing *comparing, uint64_t bytes)
{
	const struct fsdp_compare_values_options *options = comparing->options;
	uint64_t done = atomic_fetch_add(&comparing->done, bytes) + bytes;
	if (options->progress != NULL &&
		!options->progress(options->progress_context, done, comparing->total))
		atomic_store(&comparing->stopped, true);
	return !atomic_load(&comparing->stopped);
}

/* Both streams come in spans of their own length. */
static bool spot_streams(struct values_comparing *comparing,
	struct fsdp_spotting *spotting, struct fsdp_mapped_elements *streams[2],
	const uint32_t widths[2], struct fsdp_error **ret_error)
{
	struct fsdp_span spans[2] = { { NULL, 0 }, { NULL, 0 } };
	for (;;) {
		for (unsigned i = 0; i < 2; i++)
			if (spans[i].size == 0 &&
				!fsdp_mapped_next(streams[i], &spans[i], ret_error))
				return false;
		size_t count = (size_t)fsdp_min(
			spans[0].size / widths[0], spans[1].size / widths[1]);
		if (count == 0)
			return true;
		fsdp_spot(spotting, spans[0].data, spans[1].data, count);
		for (unsigned i = 0; i < 2; i++)
			spans[i] = fsdp_span(spans[i].data + count * widths[i],
				spans[i].size - count * widths[i]);
		if (!advance(comparing, count * (widths[0] + widths[1])))
			return true;
	}
}

static bool compare_stretch(struct values_comparing *comparing,
	struct pair_reader *reader, struct compared_stretch *stretch,
	struct fsdp_error **ret_error)
{
	const struct fsdp_compare_values_options *options = comparing->options;
	struct fsdp_mapped_elements *streams[2] = { NULL, NULL };
	uint32_t widths[2], dtypes[2];
	bool good = true;
	for (unsigned i = 0; i < 2; i++) {
		dtypes[i] = stretch->sides[i].dtype;
		widths[i] = fsdp_dtype(dtypes[i])->storage_bytes;
	}
	fsdp_spotting_begin(reader->spotting, dtypes, stretch->first, options->tolerant,
		options->absolute, options->relative);
	for (unsigned i = 0; good && i < 2; i++)
		good = fsdp_mapped_open(reader->locators[i], &stretch->sides[i],
			stretch->first, stretch->count, &streams[i], ret_error);
	good = good &&
	       spot_streams(comparing, reader->spotting, streams, widths, ret_error);
	stretch->spotted = fsdp_spotting_end(reader->spotting);
	fsdp_mapped_close(streams[0]);
	fsdp_mapped_close(streams[1]);
	return good;
}

/* ---- threads ---- */

static void reader_done(struct pair_reader *reader)
{
	fsdp_locator_free(reader->locators[0]);
	fsdp_locator_free(reader->locators[1]);
	fsdp_spotting_free(reader->spotting);
}

static bool reader_init(struct pair_reader *reader, const struct fsdp_compare *compare,
	struct fsdp_error **ret_error)
{
	*reader = (struct pair_reader){ { NULL, NULL }, fsdp_spotting_new() };
	return (reader->spotting != NULL || fsdp_fail_memory(ret_error)) &&
	       fsdp_locator_new(
		       compare->sides[0].checkpoint, &reader->locators[0], ret_error) &&
	       fsdp_locator_new(
		       compare->sides[1].checkpoint, &reader->locators[1], ret_error);
}

static void end_all(struct values_comparing *comparing, struct fsdp_error *error)
{
	struct fsdp_error *none = NULL;
	if (!atomic_compare_exchange_strong(&comparing->error, &none, error))
		fsdp_error_free(error);
	atomic_store(&comparing->stopped, true);
}

static void work(void *context, size_t thread)
{
	struct values_comparing *comparing = context;
	struct pair_reader reader;
	struct fsdp_error *error = NULL;
	(void)thread;
	if (!reader_init(&reader, comparing->compare, &error)) {
		end_all(comparing, error);
		reader_done(&reader);
		return;
	}
	while (!atomic_load(&comparing->stopped)) {
		size_t index = atomic_fetch_add(&comparing->next, 1);
		if (index >= comparing->stretch_count)
			break;
		struct compared_stretch *stretch = &comparing->stretches[index];
		if (atomic_load(&comparing->failures[stretch->pair]) != NULL ||
			compare_stretch(comparing, &reader, stretch, &error))
			continue;
		if (fsdp_error_code(error) == FSDP_ERROR_MEMORY)
			end_all(comparing, error);
		else
			keep_failure(comparing, stretch->pair, error);
		error = NULL;
	}
	reader_done(&reader);
}

static bool run(struct values_comparing *comparing, struct fsdp_error **ret_error)
{
	unsigned jobs = comparing->options->jobs;
	jobs = jobs == 0 ? 1 : jobs < THREADS ? jobs : THREADS;
	if (comparing->stretch_count < jobs)
		jobs = comparing->stretch_count != 0 ? (unsigned)comparing->stretch_count
						     : 1;
	if (comparing->stretch_count != 0)
		fsdp_pool_run(jobs, jobs, work, comparing);
	struct fsdp_error *error = atomic_exchange(&comparing->error, NULL);
	if (error == NULL && atomic_load(&comparing->stopped))
		fsdp_fail(&error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN, "interrupted");
	return error == NULL || fsdp_fail_with(ret_error, error);
}

static void take_stretch(struct fsdp_compared_pair *pair,
	const struct compared_stretch *stretch, uint64_t counts[2])
{
	const struct fsdp_spotted *spotted = &stretch->spotted;
	struct fsdp_compare_elements *to = &pair->elements;
	if (to->first == FSDP_UNKNOWN && spotted->differing != 0)
		to->first = spotted->first;
	to->differing += spotted->differing;
	to->has_numbers = to->has_numbers && spotted->has_numbers;
	if (spotted->max_abs > to->max_abs)
		to->max_abs = spotted->max_abs;
	if (spotted->max_rel > to->max_rel)
		to->max_rel = spotted->max_rel;
	to->mean_abs += spotted->sum_abs;
	pair->zero[0] = pair->zero[0] && spotted->zero[0];
	pair->zero[1] = pair->zero[1] && spotted->zero[1];
	counts[0] += stretch->count;
	counts[1] += spotted->rounded;
}

static void finish_pair(struct fsdp_compared_pair *pair, const uint64_t counts[2])
{
	struct fsdp_compare_elements *to = &pair->elements;
	to->equal = to->differing == 0;
	if (counts[0] != 0)
		to->mean_abs /= (double)counts[0];
	if (!to->equal)
		pair->what |= FSDP_DIFFERS_ELEMENTS;
	else if ((pair->what & FSDP_DIFFERS_DTYPE) != 0 && counts[1] != 0)
		pair->hint = FSDP_HINT_ROUNDED;
}

static void join(struct values_comparing *comparing)
{
	struct fsdp_compare *compare = comparing->compare;
	for (size_t i = 0; i < compare->facts.pair_count; i++) {
		struct fsdp_compared_pair *pair = &compare->pairs[i];
		pair->elements = (struct fsdp_compare_elements){
			.first = FSDP_UNKNOWN, .has_numbers = true, .equal = true
		};
		pair->zero[0] = pair->zero[1] = false;
	}
	if (comparing->stretch_count != 0)
		qsort(comparing->stretches, comparing->stretch_count,
			sizeof *comparing->stretches, compare_owners);
	for (size_t i = 0, end; i < comparing->stretch_count; i = end) {
		size_t index = comparing->stretches[i].pair;
		struct fsdp_compared_pair *pair = &compare->pairs[index];
		uint64_t counts[2] = { 0, 0 };
		pair->zero[0] = pair->zero[1] = true;
		for (end = i; end < comparing->stretch_count &&
			      comparing->stretches[end].pair == index;
			end++)
			take_stretch(pair, &comparing->stretches[end], counts);
		finish_pair(pair, counts);
	}
}

static void take_failures(struct values_comparing *comparing)
{
	struct fsdp_compare *compare = comparing->compare;
	for (size_t i = 0; i < compare->facts.pair_count; i++) {
		struct fsdp_compared_pair *pair = &compare->pairs[i];
		pair->failure = atomic_exchange(&comparing->failures[i], NULL);
		if (pair->failure == NULL)
			continue;
		pair->compared = pair->zero[0] = pair->zero[1] = false;
		pair->what &= ~(uint32_t)FSDP_DIFFERS_ELEMENTS;
	}
}

static bool compare_all(struct values_comparing *comparing, struct fsdp_error **ret_error)
{
	struct fsdp_compare *compare = comparing->compare;
	for (size_t i = 0; i < compare->facts.pair_count; i++)
		if (!add_pair(comparing, i, ret_error))
			return false;
	if (comparing->stretch_count != 0)
		qsort(comparing->stretches, comparing->stretch_count,
			sizeof *comparing->stretches, compare_places);
	if (!run(comparing, ret_error))
		return false;
	join(comparing);
	take_failures(comparing);
	return true;
}

bool fsdp_compare_elements(struct fsdp_compare *compare,
	const struct fsdp_compare_values_options *options, struct fsdp_error **ret_error)
{
	struct values_comparing comparing = { .compare = compare, .options = options };
	size_t count = compare->facts.pair_count;
	comparing.failures = calloc(count + 1, sizeof *comparing.failures);
	bool good = comparing.failures != NULL || fsdp_fail_memory(ret_error);
	for (unsigned i = 0; good && i < 2; i++)
		good = fsdp_repeats_new(
			compare->sides[i].checkpoint, &comparing.repeats[i], ret_error);
	good = good && compare_all(&comparing, ret_error);
	for (size_t i = 0; comparing.failures != NULL && i < count; i++)
		fsdp_error_free(atomic_load(&comparing.failures[i]));
	fsdp_repeats_free(comparing.repeats[0]);
	fsdp_repeats_free(comparing.repeats[1]);
	free(comparing.failures);
	free(comparing.stretches);
	return good;
}
