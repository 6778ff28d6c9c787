/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast the pickle machine reads a file, and in how much memory, with fold rows as a
 * family would give them: sizes, chunks, indexes and places of a DCP `.metadata`;
 * storages, tensors and their empty hooks of a data.pkl.
 *
 *	cc -O2 -Ilib -Ilib/include bench/bench-pickle.c \
 *		build/lib/libfsdpinspect-internal.a -ljansson -o bench-pickle
 *	bench-pickle FILE [ROUNDS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "base/arena.h"
#include "syntax/pickle.h"

struct records {
	struct fsdp_vec numbers; /* int64_t: a count, then so many */
	struct fsdp_vec chunks, indexes, places, tensors, storages;
};

struct chunk {
	uint32_t offsets, sizes;
};

struct index {
	const unsigned char *name;
	uint32_t name_size, index, offset;
};

struct place {
	const unsigned char *path;
	int64_t offset, length;
};

struct tensor {
	uint32_t storage, size, stride;
	int64_t offset;
};

struct storage {
	const unsigned char *key;
	int64_t numel;
};

static bool fold_numbers(struct records *records, struct fsdp_pickle *pickle,
	fsdp_ref list, uint32_t *ret_number)
{
	struct fsdp_pickle_iterator iterator = { .ref = list };
	fsdp_ref key, value;
	size_t begin = records->numbers.count;
	int64_t *number = fsdp_vec_push(&records->numbers);
	*number = (int64_t)fsdp_pickle_count(pickle, list);
	while (fsdp_pickle_next(pickle, &iterator, &key, &value))
		if (!fsdp_pickle_integer(pickle, value, fsdp_vec_push(&records->numbers)))
			return false;
	*ret_number = (uint32_t)begin;
	return true;
}

static void *record(struct fsdp_vec *vec, uint32_t *ret_number)
{
	*ret_number = (uint32_t)vec->count;
	return fsdp_vec_push(vec);
}

static bool fold_size(void *context, struct fsdp_pickle *pickle,
	const struct fsdp_folding *call, uint32_t *ret_number,
	struct fsdp_error **ret_error)
{
	(void)ret_error;
	return fold_numbers(context, pickle, fsdp_pickle_item(pickle, call->arguments, 0),
		ret_number);
}

static bool fold_chunk(void *context, struct fsdp_pickle *pickle,
	const struct fsdp_folding *call, uint32_t *ret_number,
	struct fsdp_error **ret_error)
{
	(void)ret_error;
	struct records *records = context;
	struct chunk *chunk = record(&records->chunks, ret_number);
	return fsdp_pickle_folded(pickle, fsdp_pickle_get(pickle, call->state, "offsets"),
		       &chunk->offsets) &&
	       fsdp_pickle_folded(pickle, fsdp_pickle_get(pickle, call->state, "sizes"),
		       &chunk->sizes);
}

static bool fold_index(void *context, struct fsdp_pickle *pickle,
	const struct fsdp_folding *call, uint32_t *ret_number,
	struct fsdp_error **ret_error)
{
	(void)ret_error;
	struct records *records = context;
	struct index *index = record(&records->indexes, ret_number);
	struct fsdp_span name =
		fsdp_pickle_text(pickle, fsdp_pickle_get(pickle, call->state, "fqn"));
	int64_t number = -1;
	(void)fsdp_pickle_integer(
		pickle, fsdp_pickle_get(pickle, call->state, "index"), &number);
	(void)fsdp_pickle_folded(
		pickle, fsdp_pickle_get(pickle, call->state, "offset"), &index->offset);
	index->name = name.data;
	index->name_size = (uint32_t)name.size;
	index->index = (uint32_t)number;
	return true;
}

static bool fold_place(void *context, struct fsdp_pickle *pickle,
	const struct fsdp_folding *call, uint32_t *ret_number,
	struct fsdp_error **ret_error)
{
	(void)ret_error;
	struct records *records = context;
	struct place *place = record(&records->places, ret_number);
	place->path = fsdp_pickle_text(
		pickle, fsdp_pickle_get(pickle, call->state, "relative_path"))
			      .data;
	return fsdp_pickle_integer(pickle, fsdp_pickle_get(pickle, call->state, "offset"),
		       &place->offset) &&
	       fsdp_pickle_integer(pickle, fsdp_pickle_get(pickle, call->state, "length"),
		       &place->length);
}

static bool fold_storage(void *context, struct fsdp_pickle *pickle, fsdp_ref id,
	uint32_t *ret_number, struct fsdp_error **ret_error)
{
	(void)ret_error;
	struct records *records = context;
	struct storage *storage = record(&records->storages, ret_number);
	storage->key = fsdp_pickle_text(pickle, fsdp_pickle_item(pickle, id, 2)).data;
	return fsdp_pickle_integer(
		pickle, fsdp_pickle_item(pickle, id, 4), &storage->numel);
}

static bool fold_tensor(void *context, struct fsdp_pickle *pickle,
	const struct fsdp_folding *call, uint32_t *ret_number,
	struct fsdp_error **ret_error)
{
	(void)ret_error;
	struct records *records = context;
	struct tensor *tensor = record(&records->tensors, ret_number);
	return fsdp_pickle_folded(pickle, fsdp_pickle_item(pickle, call->arguments, 0),
		       &tensor->storage) &&
	       fsdp_pickle_integer(pickle, fsdp_pickle_item(pickle, call->arguments, 1),
		       &tensor->offset) &&
	       fold_numbers(records, pickle, fsdp_pickle_item(pickle, call->arguments, 2),
		       &tensor->size) &&
	       fold_numbers(records, pickle, fsdp_pickle_item(pickle, call->arguments, 3),
		       &tensor->stride);
}

static const struct fsdp_fold folds[] = {
	{ "torch", "Size", FSDP_FOLD_CALL, fold_size, 0 },
	{ "torch._utils", "_rebuild_tensor_v2", FSDP_FOLD_CALL, fold_tensor, 0 },
	{ "torch.distributed.*", "ChunkStorageMetadata", FSDP_FOLD_BUILD, fold_chunk, 0 },
	{ "torch.distributed.*", "MetadataIndex", FSDP_FOLD_BUILD, fold_index, 0 },
	{ "torch.distributed.*", "_StorageInfo", FSDP_FOLD_BUILD, fold_place, 0 },
};

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static long peak_kib(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

static struct fsdp_span read_whole(const char *path)
{
	FILE *file = fopen(path, "rb");
	if (file == NULL || fseek(file, 0, SEEK_END) != 0)
		exit(2);
	size_t size = (size_t)ftell(file);
	rewind(file);
	void *bytes = malloc(size + 1);
	if (bytes == NULL || fread(bytes, 1, size, file) != size)
		exit(2);
	fclose(file);
	return fsdp_span(bytes, size);
}

static void init_records(struct records *records, struct fsdp_arena *arena)
{
	fsdp_vec_init(&records->numbers, arena, sizeof(int64_t));
	fsdp_vec_init(&records->chunks, arena, sizeof(struct chunk));
	fsdp_vec_init(&records->indexes, arena, sizeof(struct index));
	fsdp_vec_init(&records->places, arena, sizeof(struct place));
	fsdp_vec_init(&records->tensors, arena, sizeof(struct tensor));
	fsdp_vec_init(&records->storages, arena, sizeof(struct storage));
}

static void round_of(struct fsdp_span stream)
{
	struct fsdp_budget budget = { .ceiling = UINT64_MAX };
	struct fsdp_arena arena;
	fsdp_arena_init(&arena, &budget);
	struct fsdp_limits limits;
	fsdp_limits_init(&limits);
	struct fsdp_findings findings;
	fsdp_findings_init(&findings, &arena, &limits);
	struct records records;
	init_records(&records, &arena);
	struct fsdp_pickle_options options = {
		.folds = folds,
		.fold_count = sizeof folds / sizeof *folds,
		.fold_persistent = fold_storage,
		.context = &records,
		.limits = &limits,
		.findings = &findings,
	};
	struct fsdp_pickle *pickle;
	struct fsdp_error *error = NULL;
	double begin = now();
	bool good = fsdp_pickle_read(stream, &arena, &options, &pickle, &error);
	double seconds = now() - begin;
	printf("%s %.3f s, %.0f MB/s; cells %u, globals %zu, findings %zu; chunks %zu, "
	       "indexes "
	       "%zu, places %zu, tensors %zu, storages %zu; arena %.0f MB\n",
		good ? "ok" : fsdp_error_message(error), seconds,
		(double)stream.size / seconds / 1e6, fsdp_pickle_identity_bound(pickle),
		fsdp_pickle_global_count(pickle), findings.list.count,
		records.chunks.count, records.indexes.count, records.places.count,
		records.tensors.count, records.storages.count, (double)budget.used / 1e6);
	fsdp_error_free(error);
	fsdp_arena_done(&arena);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	struct fsdp_span stream = read_whole(argv[1]);
	long before = peak_kib();
	int rounds = argc > 2 ? atoi(argv[2]) : 3;
	for (int i = 0; i < rounds; i++)
		round_of(stream);
	printf("stream %.1f MB; peak %.1f MB of which the machine and its records %.1f "
	       "MB: %.2f "
	       "times the stream in all\n",
		(double)stream.size / 1e6, (double)peak_kib() / 1e3,
		(double)(peak_kib() - before) / 1e3,
		(double)peak_kib() * 1024 / (double)stream.size);
	return 0;
}
