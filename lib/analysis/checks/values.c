/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether weights look trained. A constant matrix has no effect; one full of huge or
 * subnormal numbers is memory that was never written; one that is ten times as wide as all of
 * its siblings was scaled by mistake; layers or experts with equal bytes were never trained apart.
 *
 * Needs a pass over the values, and about 50 bytes per tensor. Siblings are tensors of one
 * shape and dtype whose names differ only in numbers.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/verify.h>

#include "analysis/checks/checking.h"
#include "base/error.h"
#include "base/names.h"

enum {
	NUMBERS_LEAST = 8,  /* of a matrix */
	EQUAL_LEAST = 16,   /* of matrices that are equal byte for byte */
	SIBLINGS_LEAST = 4, /* needed to find one that stands out */
	NAMES_SHOWN = 600,
};

#define HUGE_NUMBER 1e30
#define WIDER 10.0 /* than all siblings, which agree within … */
#define AGREE 3.0  /* … so much */

#define MIX_A UINT64_C(0x9E3779B185EBCA87)
#define MIX_B UINT64_C(0xC2B2AE3D27D4EB4F)

/* A tensor that is checked. */
struct matrix {
	uint32_t tensor, name;
	bool dead;     /* reported as such */
	uint64_t kind; /* of its name, shape and dtype */
	double spread; /* standard deviation */
	double usual;  /* median of the siblings that this one stands out from, or 0 */
	uint64_t digest[2], layout;
	uint32_t next, first; /* of equal ones: numbers of matrices */
};

struct values_check {
	const struct fsdp_checkpoint *checkpoint;
	const struct fsdp_verify *verify;
	struct fsdp_findings *findings;
	struct fsdp_scratch name;
	struct matrix *matrices; /* in the order of tensors */
	uint32_t *order;         /* of the same, by kind */
	size_t count;
};

/* ---- selection of tensors ---- */

static struct fsdp_span name_of(struct values_check *check, uint32_t tensor)
{
	return fsdp_scratch_name(&check->name, check->checkpoint,
		fsdp_tensor(check->checkpoint, tensor).name);
}

static bool is_weight_name(struct fsdp_span name)
{
	struct fsdp_span last = fsdp_span_last(name, '.');
	return fsdp_span_is(last, "weight") || fsdp_span_is(last, "embedding") ||
	       fsdp_span_begins(last, FSDP_SPAN("lora_")) ||
	       fsdp_span_ends(last, FSDP_SPAN("proj"));
}

/* Integers that several numbers of a weight are packed in. */
static bool is_packed(struct fsdp_span name, const struct fsdp_dtype *dtype)
{
	static const char *const names[] = { "weight", "qweight", "weight_packed" };
	struct fsdp_span last = fsdp_span_last(name, '.');
	bool is_named = false;

	for (size_t i = 0; i < FSDP_COUNT(names); i++)
		is_named |= fsdp_span_is(last, names[i]);
	return is_named && (dtype->item_bits == 8 || dtype->item_bits == 32);
}

/* Norms start as ones, optimizer states as zeros; masks and tables are constant by design. */
static bool is_judged(struct values_check *check, uint32_t index,
	const struct fsdp_tensor *tensor, const struct fsdp_verify_values *values)
{
	const struct fsdp_dtype *dtype = fsdp_dtype(tensor->dtype);
	return values->known && tensor->dims >= 2 && values->count >= NUMBERS_LEAST &&
	       values->finite == values->count && tensor->role == FSDP_ROLE_PARAM &&
	       ((dtype->is_floating || dtype->is_complex)
			       ? is_weight_name(name_of(check, index))
			       : values->constant && values->min == 0 &&
					 is_packed(name_of(check, index), dtype));
}

/* Digits count as one "#". */
static uint64_t hash_name(struct fsdp_span name)
{
	uint64_t hash = MIX_A;
	bool digits = false;
	for (size_t i = 0; i < name.size; i++) {
		bool digit = fsdp_is_digit(name.data[i]);
		if (digit && digits)
			continue;
		digits = digit;
		hash = fsdp_mix(hash ^ (digit ? '#' : name.data[i]), MIX_B) + 1;
	}
	return hash;
}

static uint64_t kind_of(
	struct values_check *check, uint32_t index, const struct fsdp_tensor *tensor)
{
	uint64_t hash = hash_name(name_of(check, index)) ^ tensor->dtype;
	for (uint32_t i = 0; i < tensor->dims; i++)
		hash = fsdp_mix(hash ^ (uint64_t)tensor->shape[i], MIX_A) + MIX_B;
	return hash;
}

static double spread_of(const struct fsdp_verify_values *values)
{
	double count = (double)values->summed;
	double mean = count > 0 ? values->sum / count : 0;
	double square = count > 0 ? values->squares / count - mean * mean : 0;
	return square > 0 ? sqrt(square) : 0;
}

static bool list_matrices(struct values_check *check, struct fsdp_arena *arena)
{
	size_t count = fsdp_tensor_count(check->checkpoint);
	check->matrices = FSDP_TAKE(arena, check->matrices, count + 1);
	check->order = FSDP_TAKE(arena, check->order, count + 1);
	if (check->matrices == NULL || check->order == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(check->checkpoint, i);
		struct fsdp_verify_values values = fsdp_verify_values(check->verify, i);
		if (!is_judged(check, i, &tensor, &values))
			continue;
		struct matrix *matrix = &check->matrices[check->count];
		*matrix = (struct matrix){
			.tensor = i,
			.name = tensor.name,
			.kind = kind_of(check, i, &tensor),
			.spread = spread_of(&values),
			.digest = { values.digest[0], values.digest[1] },
			.layout = tensor.alias == FSDP_NONE ? values.layout : 0,
			.next = FSDP_NONE,
			.first = (uint32_t)check->count,
		};
		check->order[check->count] = (uint32_t)check->count;
		check->count++;
	}
	return !check->name.failed;
}

static int by_kind(const void *left, const void *right, void *context)
{
	const struct values_check *check = context;
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	uint64_t of_a = check->matrices[a].kind, of_b = check->matrices[b].kind;
	if (of_a != of_b)
		return of_a < of_b ? -1 : 1;
	return a < b ? -1 : a > b;
}

/* Numbers of eight bits are subnormal as soon as they are small. */
static bool may_be_garbage(const struct fsdp_dtype *dtype)
{
	return dtype->storage_bytes >= 2;
}

static void judge_one(struct values_check *check, struct matrix *matrix)
{
	struct fsdp_verify_values values =
		fsdp_verify_values(check->verify, matrix->tensor);
	struct fsdp_tensor tensor = fsdp_tensor(check->checkpoint, matrix->tensor);
	struct fsdp_span name = name_of(check, matrix->tensor);
	const struct fsdp_place_of *place = FSDP_PLACE(.tensor = name);
	matrix->dead = true;
	if (values.constant && values.min == 0)
		fsdp_find(check->findings, FSDP_RULE_DEAD_VALUE, place,
			"all %llu numbers are 0%s", FSDP_LLU(values.count),
			memmem(name.data, name.size, "lora_B", 6) != NULL
				? ": the adapter has no effect"
				: "");
	else if (values.constant)
		fsdp_find(check->findings, FSDP_RULE_DEAD_VALUE, place,
			"all %llu numbers are %.9g", FSDP_LLU(values.count), values.min);
	else if (values.max > HUGE_NUMBER || values.min < -HUGE_NUMBER)
		fsdp_find(check->findings, FSDP_RULE_DEAD_VALUE, place,
			"numbers from %.3g to %.3g: memory that was never written",
			values.min, values.max);
	else if (may_be_garbage(fsdp_dtype(tensor.dtype)) &&
		 values.subnormals >= values.summed / 4 + 1)
		fsdp_find(check->findings, FSDP_RULE_DEAD_VALUE, place,
			"%llu of %llu numbers are subnormal: memory that was never written",
			FSDP_LLU(values.subnormals), FSDP_LLU(values.summed));
	else
		matrix->dead = false;
}

static int by_size(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;
	return a < b ? -1 : a > b;
}

/* Those that agree must be three, and more than the others. */
static void judge_siblings(
	struct values_check *check, const uint32_t *group, size_t count, double *sorted)
{
	size_t used = 0, agree = 0;
	for (size_t i = 0; i < count; i++)
		if (!check->matrices[group[i]].dead)
			sorted[used++] = check->matrices[group[i]].spread;
	if (used < SIBLINGS_LEAST)
		return;
	qsort(sorted, used, sizeof *sorted, by_size);
	double usual = sorted[used / 2], root = sqrt(AGREE);
	for (size_t i = 0; i < used; i++)
		agree += sorted[i] >= usual / root && sorted[i] <= usual * root;
	if (agree < SIBLINGS_LEAST - 1 || agree * 2 <= used)
		return;
	for (size_t i = 0; i < count; i++) {
		struct matrix *matrix = &check->matrices[group[i]];
		if (!matrix->dead && (matrix->spread >= usual * WIDER ||
					     matrix->spread * WIDER <= usual))
			matrix->usual = usual;
	}
}

static int by_digest(const void *left, const void *right, void *context)
{
	const struct values_check *check = context;
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	const struct matrix *of_a = &check->matrices[a], *of_b = &check->matrices[b];
	if (of_a->layout != of_b->layout)
		return of_a->layout < of_b->layout ? -1 : 1;
	for (size_t i = 0; i < 2; i++)
		if (of_a->digest[i] != of_b->digest[i])
			return of_a->digest[i] < of_b->digest[i] ? -1 : 1;
	return a < b ? -1 : a > b;
}

static bool is_equal(const struct matrix *a, const struct matrix *b)
{
	return a->layout != 0 && a->layout == b->layout && a->digest[0] == b->digest[0] &&
	       a->digest[1] == b->digest[1];
}

/* Equal ones become a list that begins with the first of them. */
static void link_equal(struct values_check *check, uint32_t *group, size_t count)
{
	if (fsdp_verify_values(check->verify, check->matrices[group[0]].tensor).count <
		EQUAL_LEAST)
		return;
	qsort_r(group, count, sizeof *group, by_digest, check);
	for (size_t i = 1; i < count; i++) {
		struct matrix *before = &check->matrices[group[i - 1]];
		struct matrix *matrix = &check->matrices[group[i]];
		/* One name in two files is no other layer. */
		if (matrix->dead || matrix->name == before->name ||
			!is_equal(before, matrix))
			continue;
		before->next = group[i];
		matrix->first = before->first;
	}
}

static void say_equal(struct values_check *check, uint32_t first)
{
	char names[NAMES_SHOWN];
	size_t used = 0, left_out = 0;
	for (uint32_t i = check->matrices[first].next; i != FSDP_NONE;
		i = check->matrices[i].next) {
		struct fsdp_span name = name_of(check, check->matrices[i].tensor);
		if (left_out != 0 || used + name.size + 3 > sizeof names) {
			left_out++;
			continue;
		}
		if (used != 0) {
			memcpy(names + used, ", ", 2);
			used += 2;
		}
		memcpy(names + used, name.data, name.size);
		used += name.size;
	}
	const struct fsdp_place_of *place =
		FSDP_PLACE(.tensor = name_of(check, check->matrices[first].tensor));
	if (left_out == 0)
		fsdp_find(check->findings, FSDP_RULE_DUPLICATE_VALUES, place,
			"equal byte for byte to %.*s; a pass-through merge?", (int)used,
			names);
	else
		fsdp_find(check->findings, FSDP_RULE_DUPLICATE_VALUES, place,
			"equal byte for byte to %.*s and %zu more; a pass-through merge?",
			(int)used, names, left_out);
}

/* ---- tied weights ---- */

static bool says_tied(struct values_check *check)
{
	for (uint32_t i = 0; i < fsdp_value_count(check->checkpoint); i++) {
		struct fsdp_value value = fsdp_value(check->checkpoint, i);
		if (value.token_count == 0 || value.tokens[0].kind != FSDP_TOKEN_BOOL ||
			value.tokens[0].integer == 0)
			continue;
		struct fsdp_span name =
			fsdp_scratch_name(&check->name, check->checkpoint, value.name);
		if (fsdp_span_is(fsdp_span_last(name, '.'), "tie_word_embeddings"))
			return true;
	}
	return false;
}

static bool ends_as_one(
	struct fsdp_span name, const struct fsdp_span *words, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct fsdp_span word = words[i];
		if (fsdp_span_ends(name, word) &&
			(name.size == word.size ||
				name.data[name.size - word.size - 1] == '.'))
			return true;
	}
	return false;
}

static bool is_head(struct fsdp_span name)
{
	static const struct fsdp_span words[] = { FSDP_SPAN_INIT("lm_head.weight"),
		FSDP_SPAN_INIT("embed_out.weight"), FSDP_SPAN_INIT("output.weight"),
		FSDP_SPAN_INIT("output_layer.weight"), FSDP_SPAN_INIT("proj_out.weight"),
		FSDP_SPAN_INIT("ff_out.weight") };
	return ends_as_one(name, words, FSDP_COUNT(words));
}

static bool is_embedding(struct fsdp_span name)
{
	static const struct fsdp_span words[] = { FSDP_SPAN_INIT("embed_tokens.weight"),
		FSDP_SPAN_INIT("wte.weight"), FSDP_SPAN_INIT("word_embeddings.weight"),
		FSDP_SPAN_INIT("embed_in.weight"), FSDP_SPAN_INIT("shared.weight"),
		FSDP_SPAN_INIT("tok_embeddings.weight"),
		FSDP_SPAN_INIT("embedding.weight") };
	return ends_as_one(name, words, FSDP_COUNT(words));
}

/* The only matrix with this property; FSDP_NONE: none, or several. */
static uint32_t only_one(struct values_check *check, bool (*is)(struct fsdp_span name))
{
	uint32_t found = FSDP_NONE;
	for (size_t i = 0; i < check->count; i++) {
		if (!is(name_of(check, check->matrices[i].tensor)))
			continue;
		if (found != FSDP_NONE)
			return FSDP_NONE;
		found = (uint32_t)i;
	}
	return found;
}

/* Ones of other shapes are reported without their values. */
static void judge_tie(struct values_check *check)
{
	if (!says_tied(check))
		return;
	uint32_t head = only_one(check, is_head),
		 embedding = only_one(check, is_embedding);
	if (head == FSDP_NONE || embedding == FSDP_NONE)
		return;
	const struct matrix *a = &check->matrices[head], *b = &check->matrices[embedding];
	struct fsdp_tensor left = fsdp_tensor(check->checkpoint, a->tensor),
			   right = fsdp_tensor(check->checkpoint, b->tensor);
	if (left.dims != right.dims || left.dtype != right.dtype ||
		memcmp(left.shape, right.shape, left.dims * sizeof *left.shape) != 0 ||
		a->layout == 0 || a->layout != b->layout || is_equal(a, b))
		return;
	char kept[FSDP_SHOWN];
	fsdp_shown(name_of(check, b->tensor), kept);
	fsdp_find(check->findings, FSDP_RULE_TIE_MISMATCH,
		FSDP_PLACE(.tensor = name_of(check, a->tensor),
			.severity = FSDP_WARNING + 1,
			.fix = "set tie_word_embeddings to false to keep both, or remove the head"),
		"tie_word_embeddings is true, but its bytes are not those of %s: transformers before 5 keeps only %s, later releases both",
		kept, kept);
}

static void judge_groups(struct values_check *check, double *sorted)
{
	for (size_t i = 0, end; i < check->count; i = end) {
		uint64_t kind = check->matrices[check->order[i]].kind;
		for (end = i + 1; end < check->count; end++)
			if (check->matrices[check->order[end]].kind != kind)
				break;
		judge_siblings(check, check->order + i, end - i, sorted);
		link_equal(check, check->order + i, end - i);
	}
}

/* The stage of Megatron's files, "mp_rank_TT_PPP/…"; -1: it has none. */
static int64_t stage_of(struct values_check *check, const struct matrix *matrix)
{
	struct fsdp_tensor tensor = fsdp_tensor(check->checkpoint, matrix->tensor);
	struct fsdp_piece piece;
	const unsigned char *at;
	struct fsdp_span path;
	int64_t stage = 0;

	if (tensor.piece_count == 0)
		return -1;
	piece = fsdp_piece(check->checkpoint, tensor.first_piece);
	if (piece.file == FSDP_NONE)
		return -1;
	path = fsdp_file(check->checkpoint, piece.file).path;
	at = memmem(path.data, path.size, "mp_rank_", 8);
	/* Two digits of the tensor-parallel rank, three of the stage. */
	if (at == NULL || path.size - (size_t)(at - path.data) < 14 || at[10] != '_')
		return -1;
	for (size_t i = 11; i < 14; i++) {
		if (!fsdp_is_digit(at[i]))
			return -1;
		stage = stage * 10 + (at[i] - '0');
	}
	return stage;
}

/* Whether each matrix of a layer is equal to one of another stage: a converter that wrote one
 * stage twice. */
static bool are_stages_equal(struct values_check *check, int64_t stages[2])
{
	size_t pairs = 0, of_layers = 0;

	for (size_t i = 0; i < check->count; i++) {
		const struct matrix *matrix = &check->matrices[i], *next;
		struct fsdp_span name = name_of(check, matrix->tensor);
		int64_t stage[2];

		of_layers += memmem(name.data, name.size, ".layers.", 8) != NULL;
		if (matrix->first != i || matrix->next == FSDP_NONE || matrix->dead)
			continue;
		next = &check->matrices[matrix->next];
		stage[0] = stage_of(check, matrix);
		stage[1] = stage_of(check, next);
		if (next->next != FSDP_NONE || stage[0] < 0 || stage[1] < 0 ||
			stage[0] == stage[1] ||
			(pairs > 0 && (stage[0] != stages[0] || stage[1] != stages[1])))
			return false;
		stages[0] = stage[0];
		stages[1] = stage[1];
		pairs++;
	}
	return pairs > 1 && pairs * 2 == of_layers;
}

static void say_all(struct values_check *check)
{
	int64_t stages[2] = { -1, -1 };
	bool is_copy = are_stages_equal(check, stages);

	if (is_copy)
		fsdp_find(check->findings, FSDP_RULE_DUPLICATE_VALUES,
			FSDP_PLACE(.fix = "convert the model again, and compare it with its source"),
			"all layers of the pipeline stages %lld and %lld (mp_rank_*_%03lld, mp_rank_*_%03lld) are equal byte for byte: one stage was written twice",
			(long long)stages[0], (long long)stages[1], (long long)stages[0],
			(long long)stages[1]);
	for (size_t i = 0; i < check->count; i++) {
		const struct matrix *matrix = &check->matrices[i];
		if (matrix->usual != 0)
			fsdp_find(check->findings, FSDP_RULE_DEAD_VALUE,
				FSDP_PLACE(.tensor = name_of(check, matrix->tensor)),
				"standard deviation is %.3g, in the other layers %.3g",
				matrix->spread, matrix->usual);
		if (!is_copy && matrix->first == i && matrix->next != FSDP_NONE &&
			!matrix->dead)
			say_equal(check, (uint32_t)i);
	}
}

static bool run(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	struct fsdp_arena *arena = checking->arena;
	struct values_check check = {
		.checkpoint = checking->checkpoint,
		.verify = checking->verify,
		.findings = checking->findings,
		.name = { .arena = arena },
	};
	if (check.verify == NULL)
		return true;
	if (!list_matrices(&check, arena))
		return fsdp_arena_fail(arena, ret_error);
	double *sorted = FSDP_TAKE(arena, sorted, check.count + 1);
	if (sorted == NULL)
		return fsdp_arena_fail(arena, ret_error);
	for (size_t i = 0; i < check.count; i++)
		judge_one(&check, &check.matrices[i]);
	qsort_r(check.order, check.count, sizeof *check.order, by_kind, &check);
	judge_groups(&check, sorted);
	say_all(&check);
	judge_tie(&check);
	return !check.name.failed || fsdp_arena_fail(arena, ret_error);
}

const struct fsdp_check fsdp_check_values = {
	FSDP_CHECK_RULES(FSDP_RULE_DEAD_VALUE, FSDP_RULE_DUPLICATE_VALUES),
	.run = run,
};
