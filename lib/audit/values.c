/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether weights look trained. A constant matrix has no effect; one full of huge
 * or subnormal numbers is memory that was never written; one that is ten times as wide as
 * all of its siblings was scaled by mistake; layers or experts with equal bytes were
 * never trained apart.
 *
 * Needs a pass over the values, and about 50 bytes per tensor. Siblings are tensors of
 * one shape and dtype whose names differ only in numbers.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/audit.h>

#include "audit/checking.h"
#include "aggregate/aggregate.h"
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
	struct fsdp_checking *checking;
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_findings *findings;
	struct matrix *matrices; /* in the order of tensors */
	uint32_t *order;         /* of the same, by kind */
	size_t count;
	bool is_zero; /* most numbers of the model are 0, without adapters */
};

/* ---- selection of tensors ---- */

static struct fsdp_span name_of(struct values_check *check, uint32_t tensor)
{
	return fsdp_check_tensor_name(check->checking, tensor);
}

/* Floats that are called a weight, or integers that several numbers of a weight are
 * packed in. */
static bool is_weight_name(struct fsdp_span name, const struct fsdp_dtype *dtype)
{
	struct fsdp_span last = fsdp_span_last(name, '.');
	if (!dtype->is_floating && !dtype->is_complex)
		return fsdp_span_is_any(last, "weight qweight weight_packed") &&
		       (dtype->item_bits == 8 || dtype->item_bits == 32);
	return fsdp_span_is_any(last, "weight embedding") ||
	       fsdp_span_begins(last, FSDP_SPAN("lora_")) ||
	       fsdp_span_ends(last, FSDP_SPAN("proj"));
}

/* Norms start as ones, optimizer states as zeros; masks and tables are constant by
 * design. */
static bool is_checked(struct values_check *check, uint32_t index,
	const struct fsdp_tensor *tensor, const struct fsdp_verify_values *values)
{
	const struct fsdp_dtype *dtype = fsdp_dtype(tensor->dtype);
	return values->known && tensor->dims >= 2 && values->count >= NUMBERS_LEAST &&
	       values->finite == values->count && tensor->role == FSDP_ROLE_PARAM &&
	       (dtype->is_floating || dtype->is_complex ||
		       (values->constant && values->min == 0)) &&
	       is_weight_name(name_of(check, index), dtype);
}

/* Of its name (digits count as one "#"), dtype and shape. */
static uint64_t kind_of(
	struct values_check *check, uint32_t index, const struct fsdp_tensor *tensor)
{
	struct fsdp_span name = name_of(check, index);
	uint64_t hash = MIX_A;
	for (size_t i = 0; i < name.size; i++) {
		bool digit = fsdp_is_digit(name.data[i]);
		if (!digit || i == 0 || !fsdp_is_digit(name.data[i - 1]))
			hash = fsdp_mix(hash ^ (digit ? '#' : name.data[i]), MIX_B) + 1;
	}
	hash ^= tensor->dtype;
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

static void list_matrices(struct values_check *check)
{
	size_t count = fsdp_tensor_count(check->checkpoint);
	check->matrices = FSDP_CHECK_TAKE(check->checking, check->matrices, count);
	check->order = FSDP_CHECK_TAKE(check->checking, check->order, count);
	for (uint32_t i = 0; i < count && !check->checking->no_memory; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(check->checkpoint, i);
		struct fsdp_verify_values values =
			fsdp_verify_values(check->checking->verify, i);
		if (!is_checked(check, i, &tensor, &values))
			continue;
		check->matrices[check->count] = (struct matrix){
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

static void check_one(struct values_check *check, struct matrix *matrix)
{
	struct fsdp_verify_values values =
		fsdp_verify_values(check->checking->verify, matrix->tensor);
	struct fsdp_tensor tensor = fsdp_tensor(check->checkpoint, matrix->tensor);
	struct fsdp_span name = name_of(check, matrix->tensor);
	const struct fsdp_place_of *place = FSDP_PLACE(.tensor = name);
	matrix->dead = true;
	if (values.constant && values.min == 0 && check->is_zero)
		fsdp_find(check->findings, FSDP_RULE_DEAD_VALUE,
			FSDP_PLACE(.tensor = name, .severity = FSDP_ERROR + 1,
				.fix = "use an earlier checkpoint, or save the model again"),
			"all values are 0, as are most values of the model: the weights were never written");
	else if (values.constant)
		fsdp_find(check->findings, FSDP_RULE_DEAD_VALUE, place,
			"all values are %.9g%s", values.min + 0.0, /* never -0 */
			values.min == 0 && fsdp_span_has_any(name, "lora_B")
				? ": the adapter has no effect"
				: "");
	else if (values.max > HUGE_NUMBER || values.min < -HUGE_NUMBER)
		fsdp_find(check->findings, FSDP_RULE_DEAD_VALUE, place,
			"values from %.3g to %.3g: memory that was never written",
			values.min, values.max);
	/* Numbers of eight bits are subnormal as soon as they are small. */
	else if (fsdp_dtype(tensor.dtype)->storage_bytes >= 2 &&
		 values.subnormals >= values.summed / 4 + 1)
		fsdp_find(check->findings, FSDP_RULE_DEAD_VALUE, place,
			"%llu of %llu values are subnormal: memory that was never written",
			FSDP_LLU(values.subnormals), FSDP_LLU(values.summed));
	else
		matrix->dead = false;
}

/* A new adapter has zeros in one of its two matrices. */
static bool is_mostly_zero(struct values_check *check)
{
	double all = 0, zero = 0;
	for (size_t i = 0; i < check->count; i++) {
		uint32_t tensor = check->matrices[i].tensor;
		struct fsdp_verify_values values =
			fsdp_verify_values(check->checking->verify, tensor);
		struct fsdp_span name = name_of(check, tensor);
		if (fsdp_span_has_any(name, "lora_ oft_ hada_ lokr_ adapter"))
			return false;
		all += (double)values.count;
		if (values.constant && values.min == 0)
			zero += (double)values.count;
	}
	return zero > all / 2;
}

static int by_size(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;
	return a < b ? -1 : a > b;
}

/* Those that agree must be three, and more than the others. */
static void check_siblings(
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
	FSDP_EACH(i, count, matrix, &check->matrices[group[i]])
		if (!matrix->dead && (matrix->spread >= usual * WIDER ||
					     matrix->spread * WIDER <= usual))
			matrix->usual = usual;
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
	if (fsdp_verify_values(check->checking->verify, check->matrices[group[0]].tensor)
			.count < EQUAL_LEAST)
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

static void report_equal(struct values_check *check, uint32_t first)
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
			"equal byte for byte to %.*s; possibly a pass-through merge",
			(int)used, names);
	else
		fsdp_find(check->findings, FSDP_RULE_DUPLICATE_VALUES, place,
			"equal byte for byte to %.*s and %zu more; possibly a pass-through merge",
			(int)used, names, left_out);
}

/* ---- tied weights ---- */

static bool declares_tied(struct values_check *check)
{
	for (uint32_t i = 0; i < fsdp_value_count(check->checkpoint); i++) {
		struct fsdp_value value = fsdp_value(check->checkpoint, i);
		if (value.token_count == 0 || value.tokens[0].kind != FSDP_TOKEN_BOOL ||
			value.tokens[0].integer == 0)
			continue;
		struct fsdp_span name = fsdp_check_name(check->checking, value.name);
		if (fsdp_span_is(fsdp_span_last(name, '.'), "tie_word_embeddings"))
			return true;
	}
	return false;
}

/* The module whose weight it is; absent: another name. */
static struct fsdp_span module_of(struct fsdp_span name)
{
	struct fsdp_span weight = FSDP_SPAN(".weight");
	if (!fsdp_span_ends(name, weight))
		return (struct fsdp_span){ 0 };
	return fsdp_span_last(fsdp_span(name.data, name.size - weight.size), '.');
}

/* The only weight of such a module; FSDP_NONE: none, or several. */
static uint32_t only_one(struct values_check *check, const char *modules)
{
	uint32_t found = FSDP_NONE;
	for (size_t i = 0; i < check->count; i++) {
		if (!fsdp_span_is_any(
			    module_of(name_of(check, check->matrices[i].tensor)),
			    modules))
			continue;
		if (found != FSDP_NONE)
			return FSDP_NONE;
		found = (uint32_t)i;
	}
	return found;
}

/* Ones of other shapes are reported without their values. */
static void check_tie(struct values_check *check)
{
	if (!declares_tied(check))
		return;
	uint32_t head = only_one(
			 check, "lm_head embed_out output output_layer proj_out ff_out"),
		 embedding = only_one(check,
			 "embed_tokens wte word_embeddings embed_in shared "
			 "tok_embeddings embedding");
	if (head == FSDP_NONE || embedding == FSDP_NONE)
		return;
	const struct matrix *a = &check->matrices[head], *b = &check->matrices[embedding];
	struct fsdp_tensor left = fsdp_tensor(check->checkpoint, a->tensor),
			   right = fsdp_tensor(check->checkpoint, b->tensor);
	if (!fsdp_is_same_shape(&left, &right) || left.dtype != right.dtype ||
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

/* The stage of Megatron's files, "mp_rank_TT_PPP/…"; -1: it has none. */
static int64_t stage_of(struct values_check *check, const struct matrix *matrix)
{
	struct fsdp_tensor tensor = fsdp_tensor(check->checkpoint, matrix->tensor);
	const unsigned char *at;
	uint64_t stage;
	if (tensor.piece_count == 0)
		return -1;
	struct fsdp_piece piece = fsdp_piece(check->checkpoint, tensor.first_piece);
	if (piece.file == FSDP_NONE)
		return -1;
	struct fsdp_span path = fsdp_file(check->checkpoint, piece.file).path;
	at = memmem(path.data, path.size, "mp_rank_", 8);
	/* Two digits of the tensor-parallel rank, three of the stage. */
	if (at == NULL || path.size - (size_t)(at - path.data) < 14 || at[10] != '_')
		return -1;
	path = fsdp_span(at + 11, 3);
	return fsdp_span_number(&path, 1000, &stage) && path.size == 0 ? (int64_t)stage
								       : -1;
}

/* Whether each matrix of a layer is equal to one of another stage: a converter that wrote
 * one stage twice. */
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

static void report_all(struct values_check *check)
{
	int64_t stages[2] = { -1, -1 };
	bool is_copy = are_stages_equal(check, stages);
	if (is_copy)
		fsdp_find(check->findings, FSDP_RULE_DUPLICATE_VALUES,
			FSDP_PLACE(.fix = "convert the model again, and compare it with its source"),
			"all layers of the pipeline stages %lld and %lld (mp_rank_*_%03lld, mp_rank_*_%03lld) have equal bytes: one stage was written twice",
			(long long)stages[0], (long long)stages[1], (long long)stages[0],
			(long long)stages[1]);
	FSDP_EACH(i, check->count, matrix, &check->matrices[i]) {
		if (matrix->usual != 0)
			fsdp_find(check->findings, FSDP_RULE_DEAD_VALUE,
				FSDP_PLACE(.tensor = name_of(check, matrix->tensor)),
				"standard deviation is %.3g, in the other layers %.3g",
				matrix->spread, matrix->usual);
		if (!is_copy && matrix->first == i && matrix->next != FSDP_NONE &&
			!matrix->dead)
			report_equal(check, (uint32_t)i);
	}
}

static void check_values(struct fsdp_checking *checking)
{
	struct values_check check = {
		.checking = checking,
		.checkpoint = checking->checkpoint,
		.findings = checking->findings,
	};
	double *sorted;
	if (checking->verify == NULL)
		return;
	list_matrices(&check);
	sorted = FSDP_CHECK_TAKE(checking, sorted, check.count);
	if (checking->no_memory)
		return;
	check.is_zero = is_mostly_zero(&check);
	for (size_t i = 0; i < check.count; i++)
		check_one(&check, &check.matrices[i]);
	qsort_r(check.order, check.count, sizeof *check.order, by_kind, &check);
	for (size_t i = 0, end; i < check.count; i = end) {
		uint64_t kind = check.matrices[check.order[i]].kind;
		for (end = i + 1; end < check.count; end++)
			if (check.matrices[check.order[end]].kind != kind)
				break;
		check_siblings(&check, check.order + i, end - i, sorted);
		link_equal(&check, check.order + i, end - i);
	}
	report_all(&check);
	check_tie(&check);
}

const struct fsdp_check fsdp_check_values = {
	FSDP_CHECK_RULES(FSDP_RULE_DEAD_VALUE, FSDP_RULE_DUPLICATE_VALUES),
	.run = check_values,
};
