/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a pickle: once without folds, once with every class folded now and then;
 * from memory, in parts, and in parts of a stream that changes meanwhile. All getters are
 * asked of every value that can be reached. Nothing may crash, hang, or lead out of the
 * pickle; reading twice and in either way gives the same; cells stay below their bound;
 * and the opcodes one at a time end where the reading did.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "syntax/pickle.h"

static void require(bool good)
{
	if (!good)
		abort();
}

/* ---- looking at everything ---- */

struct look {
	struct fsdp_arena *arena;
	const struct fsdp_pickle *pickle;
	struct fsdp_vec todo;   /* fsdp_ref */
	unsigned char *visited; /* one an identity */
	uint32_t folds;         /* all folded numbers are below */
	uint64_t seen;
};

static void later(struct look *look, fsdp_ref ref)
{
	fsdp_ref *place = ref != FSDP_REF_NONE ? fsdp_vec_push(&look->todo) : NULL;
	if (place != NULL)
		*place = ref;
}

static uint64_t touch(struct fsdp_span span)
{
	uint64_t sum = span.size;
	for (size_t i = 0; i < span.size; i++)
		sum += span.data[i];
	return sum;
}

static void look_at_scalar(struct look *look, fsdp_ref ref)
{
	const struct fsdp_pickle *pickle = look->pickle;
	int64_t number;
	bool truth;
	double real;
	uint32_t fold;
	look->seen += touch(fsdp_pickle_span(pickle, ref));
	look->seen += touch(fsdp_pickle_text(pickle, ref));
	look->seen += fsdp_pickle_is_written(pickle, ref);
	look->seen += fsdp_pickle_integer(pickle, ref, &number);
	look->seen += fsdp_pickle_boolean(pickle, ref, &truth);
	look->seen += fsdp_pickle_float(pickle, ref, &real);
	look->seen += fsdp_pickle_is_global(pickle, ref, "collections", "OrderedDict");
	if (fsdp_pickle_folded(pickle, ref, &fold))
		require(fold < look->folds);
	const struct fsdp_pickle_global *named = fsdp_pickle_named(pickle, ref);
	if (named != NULL)
		look->seen += touch(named->module) + touch(named->written_name);
}

static void look_at_items(struct look *look, fsdp_ref ref)
{
	const struct fsdp_pickle *pickle = look->pickle;
	struct fsdp_pickle_iterator iterator = { .ref = ref };
	fsdp_ref key, value;
	uint64_t count = 0, items = 0;
	while (fsdp_pickle_next(pickle, &iterator, &key, &value)) {
		require(fsdp_pickle_kind(pickle, value) < FSDP_PICKLE_KIND_COUNT);
		if (key == FSDP_REF_NONE && items++ < 4)
			require(fsdp_pickle_item(pickle, ref, items - 1) == value);
		later(look, key);
		later(look, value);
		count++;
	}
	require(count == fsdp_pickle_count(pickle, ref));
	look->seen += fsdp_pickle_get(pickle, ref, "a") != FSDP_REF_NONE;
}

static void look_at(struct look *look, fsdp_ref ref)
{
	const struct fsdp_pickle *pickle = look->pickle;
	require(fsdp_pickle_kind(pickle, ref) < FSDP_PICKLE_KIND_COUNT);
	look_at_scalar(look, ref);
	uint32_t identity = fsdp_pickle_identity(pickle, ref);
	if (identity == 0)
		return;
	require(identity < fsdp_pickle_identity_bound(pickle));
	if (look->visited[identity]++ != 0) {
		look->visited[identity] = 1;
		return;
	}
	later(look, fsdp_pickle_callable(pickle, ref));
	later(look, fsdp_pickle_argument(pickle, ref));
	later(look, fsdp_pickle_keywords(pickle, ref));
	for (size_t i = 0; fsdp_pickle_state(pickle, ref, i) != FSDP_REF_NONE && i < 8;
		i++)
		later(look, fsdp_pickle_state(pickle, ref, i));
	look_at_items(look, ref);
}

static uint64_t look_at_all(const struct fsdp_pickle *pickle, fsdp_ref top,
	uint32_t folds, struct fsdp_budget *budget)
{
	struct fsdp_arena arena;
	fsdp_arena_init(&arena, budget);
	struct look look = { .arena = &arena, .pickle = pickle, .folds = folds };
	fsdp_vec_init(&look.todo, &arena, sizeof(fsdp_ref));
	look.visited = fsdp_arena_take(&arena, fsdp_pickle_identity_bound(pickle) + 1, 1);
	require(look.visited != NULL);
	later(&look, top);
	while (look.todo.count > 0) {
		fsdp_ref ref =
			*(const fsdp_ref *)fsdp_vec_at(&look.todo, look.todo.count - 1);
		fsdp_vec_truncate(&look.todo, look.todo.count - 1);
		look_at(&look, ref);
	}
	uint64_t seen = look.seen;
	fsdp_arena_done(&arena);
	return seen;
}

/* ---- folds ---- */

struct family {
	struct fsdp_budget *budget;
	uint32_t folds; /* made so far */
	uint32_t asked;
	uint32_t looks; /* whole looks are dear: so many are made */
	uint64_t seen;
};

static void look_inside(
	struct family *family, const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	if (family->looks == 0)
		return;
	family->looks--;
	family->seen += look_at_all(pickle, ref, family->folds, family->budget);
}

/* Three of four are folded. */
static bool answer(struct family *family, uint32_t *ret_number)
{
	if (family->asked++ % 4 == 3)
		return false;
	*ret_number = family->folds++;
	return true;
}

static bool fold(void *context, struct fsdp_pickle *pickle,
	const struct fsdp_folding *call, uint32_t *ret_number)
{
	require(fsdp_pickle_named(pickle, call->callable) != NULL);
	require((call->state == FSDP_REF_NONE) == (call->row->when == FSDP_FOLD_CALL));
	look_inside(context, pickle, call->arguments);
	look_inside(context, pickle, call->state);
	return answer(context, ret_number);
}

static bool fold_persistent(
	void *context, struct fsdp_pickle *pickle, fsdp_ref id, uint32_t *ret_number)
{
	look_inside(context, pickle, id);
	return answer(context, ret_number);
}

static const struct fsdp_fold folds[] = {
	{ "torch*", "Size", FSDP_FOLD_CALL, fold, 0 },
	{ "torch._utils", "_rebuild_tensor_v2", FSDP_FOLD_CALL, fold, 0 },
	{ "torch.distributed*", "ChunkStorageMetadata", FSDP_FOLD_BUILD, fold, 0 },
	{ "torch.distributed*", "MetadataIndex", FSDP_FOLD_BUILD, fold, 0 },
	{ "torch.distributed*", "_StorageInfo", FSDP_FOLD_BUILD, fold, 0 },
	{ "c", "call", FSDP_FOLD_CALL, fold, 0 },
	{ "b*", "build", FSDP_FOLD_BUILD, fold, 0 },
};

/* ---- one input ---- */

enum how {
	FROM_MEMORY,
	IN_PARTS,
	CHANGING, /* in parts, and each time it is read from the beginning it is another
		   */
};

struct bytes {
	struct fsdp_span stream;
	uint64_t times;
	bool changes;
};

static bool read_part(const void *context, uint64_t offset, void *buffer, size_t size,
	struct fsdp_error **ret_error)
{
	struct bytes *bytes = (struct bytes *)(uintptr_t)context;
	unsigned char *to = buffer;
	(void)ret_error;
	bytes->times += offset == 0;
	for (size_t i = 0; i < size; i++) {
		to[i] = bytes->stream.data[offset + i];
		if (bytes->changes && bytes->times > 1 && (offset + i) % 11 == 3)
			to[i] = bytes->stream.data[(offset + i) * 7 % bytes->stream.size];
	}
	return true;
}

/* The same answers whichever way it is read, but of a stream that changes any. */
static uint64_t read_once(struct fsdp_span stream, bool folding, enum how how)
{
	struct fsdp_budget budget = { .ceiling = UINT64_C(1) << 30 };
	struct fsdp_arena arena;
	fsdp_arena_init(&arena, &budget);
	struct fsdp_limits limits;
	fsdp_limits_init(&limits);
	struct fsdp_findings findings;
	fsdp_findings_init(&findings, &arena, &limits);
	struct family family = { .budget = &budget, .looks = 64 };
	struct fsdp_pickle_options options = {
		.folds = folding ? folds : NULL,
		.fold_count = folding ? sizeof folds / sizeof *folds : 0,
		.fold_persistent = folding ? fold_persistent : NULL,
		.context = &family,
		.limits = &limits,
		.findings = &findings,
	};
	struct fsdp_pickle *pickle = NULL;
	struct fsdp_error *error = NULL;
	struct bytes bytes = { .stream = stream, .changes = how == CHANGING };
	struct fsdp_pickle_parts parts = { .read = read_part,
		.context = &bytes,
		.size = stream.size,
		.room = 1 + (stream.size != 0 ? stream.data[stream.size / 2] % 61 : 0) };
	bool good = how == FROM_MEMORY
			    ? fsdp_pickle_read(stream, &arena, &options, &pickle, &error)
			    : fsdp_pickle_read_parts(
				      &parts, &arena, &options, &pickle, &error);
	require(good == (error == NULL) && pickle != NULL && !findings.lost);
	require(fsdp_pickle_length(pickle) <= stream.size);
	if (how == FROM_MEMORY)
		require(fsdp_pickle_identity_bound(pickle) <=
			2 + stream.size * 3 / 2 + 257);
	uint64_t seen =
		family.seen + findings.list.count + fsdp_pickle_global_count(pickle);
	seen += look_at_all(pickle, fsdp_pickle_top(pickle), family.folds, &budget);
	for (size_t i = 0; i < fsdp_pickle_global_count(pickle); i++)
		seen += touch(fsdp_pickle_global(pickle, i)->name);
	fsdp_error_free(error);
	fsdp_arena_done(&arena);
	require(budget.used == 0);
	return seen;
}

static void step_through(struct fsdp_span stream)
{
	uint64_t offset = 0, before = 0;
	struct fsdp_span argument;
	while (fsdp_pickle_next_opcode(stream, &offset, &argument, NULL) != NULL) {
		require(offset > before && offset <= stream.size);
		(void)touch(argument);
		before = offset;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fsdp_span stream = fsdp_span(data, size);
	step_through(stream);
	for (int folding = 0; folding < 2; folding++) {
		uint64_t seen = read_once(stream, folding, FROM_MEMORY);
		require(read_once(stream, folding, FROM_MEMORY) == seen);
		require(read_once(stream, folding, IN_PARTS) == seen);
		(void)read_once(stream, folding, CHANGING);
	}
	return 0;
}
