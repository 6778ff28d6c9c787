/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums by two keys (fsdp_pivot), tied weights (fsdp_tied), replicas among the pieces of
 * a tensor (fsdp_replicas), and stored bytes that no tensor views (fsdp_unused).
 */
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>

#include "aggregate/aggregate.h"
#include "base/error.h"
#include "base/sort.h"

/* A tensor or a piece, and its keys by position; later the sum of those with these keys.
 */
struct entry {
	size_t keys[2];
	uint32_t tensor;
	struct fsdp_group sum;
};

struct fsdp_pivot {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_keys keys[2];
	struct entry *entries;
	size_t count;
};

static void add(struct fsdp_pivot *crossed, size_t first, size_t second, uint32_t tensor,
	const struct fsdp_addend *part)
{
	struct entry *entry = &crossed->entries[crossed->count++];
	*entry = (struct entry){ .keys = { first, second }, .tensor = tensor };
	fsdp_addend_tally(&entry->sum, part);
}

/* A tensor, or each of its pieces if one of the keys is of pieces. */
static void add_tensor(struct fsdp_pivot *crossed, uint32_t index, bool of_pieces,
	fsdp_piece_filter *takes, void *context)
{
	const struct fsdp_checkpoint *checkpoint = crossed->checkpoint;
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, index);
	struct fsdp_addend part = fsdp_addend_of_tensor(&tensor);
	bool counts = fsdp_tensor_has_bytes(checkpoint, index, &tensor);
	size_t of_tensor[2], keys[2];
	for (size_t i = 0; i < 2; i++)
		of_tensor[i] = fsdp_keys_of_tensor(&crossed->keys[i], index, &tensor);
	if (!of_pieces)
		add(crossed, of_tensor[0], of_tensor[1], index, &part);
	for (uint32_t i = 0; of_pieces && i < tensor.piece_count; i++) {
		uint32_t at = tensor.first_piece + i, rank;
		part = fsdp_addend_of_piece(checkpoint, &tensor, at, counts, &rank);
		if (takes != NULL) {
			struct fsdp_piece piece = fsdp_piece(checkpoint, at);
			if (!takes(context, &piece))
				continue;
		}
		for (size_t k = 0; k < 2; k++)
			keys[k] =
				fsdp_keys_of_pieces(&crossed->keys[k])
					? fsdp_keys_of_piece(&crossed->keys[k], at, rank)
					: of_tensor[k];
		add(crossed, keys[0], keys[1], index, &part);
	}
}

bool fsdp_pivot_new(const struct fsdp_checkpoint *checkpoint,
	const enum fsdp_group_key by[2], int64_t depth, const uint32_t *tensors,
	size_t count, fsdp_piece_filter *takes, void *context,
	struct fsdp_pivot **ret_crossed, struct fsdp_error **ret_error)
{
	struct fsdp_pivot *crossed = calloc(1, sizeof *crossed);
	bool good = true, of_pieces = false;
	size_t most = count;
	if (crossed == NULL)
		return fsdp_fail_memory(ret_error);
	crossed->checkpoint = checkpoint;
	for (size_t i = 0; good && i < 2; i++) {
		good = fsdp_keys_init(
			&crossed->keys[i], checkpoint, by[i], depth, ret_error);
		of_pieces |= fsdp_keys_of_pieces(&crossed->keys[i]);
	}
	for (size_t i = 0; of_pieces && i < count; i++)
		most += fsdp_tensor(checkpoint, tensors[i]).piece_count;
	if (good) {
		crossed->entries = calloc(most + 1, sizeof *crossed->entries);
		good = crossed->entries != NULL || fsdp_fail_memory(ret_error);
	}
	if (!good) {
		fsdp_pivot_free(crossed);
		return false;
	}
	for (size_t i = 0; i < count; i++)
		add_tensor(crossed, tensors[i], of_pieces, takes, context);
	/* Entries of the same keys become one; the tensors among them are told apart by
	 * their order. */
	size_t kept = 0;
	FSDP_SORT(crossed->entries, crossed->count, FSDP_BY(crossed->entries, keys[0]),
		FSDP_BY(crossed->entries, keys[1]), FSDP_BY(crossed->entries, tensor));
	FSDP_EACH(i, crossed->count, entry, &crossed->entries[i]) {
		struct entry *last = kept > 0 ? &crossed->entries[kept - 1] : NULL;
		struct fsdp_addend part = { entry->sum.pieces, entry->sum.numel,
			entry->sum.parameters, entry->sum.bytes };
		if (last == NULL || last->keys[0] != entry->keys[0] ||
			last->keys[1] != entry->keys[1]) {
			crossed->entries[kept] = *entry;
			crossed->entries[kept++].sum.tensors = 1;
			continue;
		}
		last->sum.tensors += last->tensor != entry->tensor;
		last->tensor = entry->tensor;
		fsdp_addend_tally(&last->sum, &part);
	}
	crossed->count = kept;
	*ret_crossed = crossed;
	return true;
}

void fsdp_pivot_free(struct fsdp_pivot *crossed)
{
	if (crossed == NULL)
		return;
	fsdp_keys_done(&crossed->keys[0]);
	fsdp_keys_done(&crossed->keys[1]);
	free(crossed->entries);
	free(crossed);
}

size_t fsdp_pivot_count(const struct fsdp_pivot *crossed)
{
	return crossed->count;
}

struct fsdp_group fsdp_pivot_group(
	const struct fsdp_pivot *crossed, size_t index, uint32_t *ret_second)
{
	struct fsdp_group group = { .key = FSDP_NONE };
	*ret_second = FSDP_NONE;
	if (index >= crossed->count)
		return group;
	group = crossed->entries[index].sum;
	group.key = fsdp_keys_at(&crossed->keys[0], crossed->entries[index].keys[0]);
	*ret_second = fsdp_keys_at(&crossed->keys[1], crossed->entries[index].keys[1]);
	return group;
}

/*
 * Finds the tensor that a name stands for though no file stores it under that name.
 */

/* Of weights with several names safetensors stores one, and says so in __metadata__. */
static bool find_declared(const struct fsdp_checkpoint *checkpoint, struct fsdp_span name,
	struct fsdp_scratch *scratch, uint32_t *ret_tensor)
{
	size_t count = fsdp_value_count(checkpoint);
	for (uint32_t i = 0; i < count && !scratch->failed; i++) {
		struct fsdp_value value = fsdp_value(checkpoint, i);
		if (value.token_count != 1 || value.tokens->kind != FSDP_TOKEN_TEXT)
			continue;
		struct fsdp_span own = fsdp_scratch_name(scratch, checkpoint, value.name);
		if (!fsdp_span_behind(own, "__metadata__.", &own) ||
			!fsdp_span_equal(own, name))
			continue;
		*ret_tensor = fsdp_tensor_find(checkpoint, value.tokens->text);
		return *ret_tensor != FSDP_NONE;
	}
	return false;
}

/* ---- settings of a configuration ---- */

static bool declares_tied(const struct fsdp_checkpoint *checkpoint)
{
	size_t count = fsdp_setting_count(checkpoint);
	FSDP_EACH(i, (uint32_t)count, setting, fsdp_setting(checkpoint, i))
		if (setting.value.kind == FSDP_TOKEN_BOOL && setting.value.integer != 0 &&
			fsdp_span_is(setting.key, "tie_word_embeddings"))
			return true;
	return false;
}

static bool find_embedding(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_span name, struct fsdp_scratch *scratch, uint32_t *ret_tensor)
{
	static const char HEADS[] =
		"lm_head.weight embed_out.weight output_layer.weight output.weight";
	static const char EMBEDDINGS[] =
		"embed_tokens.weight wte.weight word_embeddings.weight "
		"tok_embeddings.weight shared.weight embed_in.weight";
	size_t count = fsdp_tensor_count(checkpoint);
	if (!fsdp_span_ends_any(name, HEADS) || !declares_tied(checkpoint))
		return false;
	for (uint32_t i = 0; i < count && !scratch->failed; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		if (tensor.role != FSDP_ROLE_PARAM || tensor.dims != 2 ||
			!fsdp_span_ends_any(
				fsdp_scratch_name(scratch, checkpoint, tensor.name),
				EMBEDDINGS))
			continue;
		*ret_tensor = i;
		return true;
	}
	return false;
}

bool fsdp_tied_weights_find(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_span name, struct fsdp_tied_weights *ret_tie,
	struct fsdp_error **ret_error)
{
	struct fsdp_budget budget = { .ceiling = UINT64_MAX };
	struct fsdp_arena arena;
	struct fsdp_scratch scratch = { .arena = &arena };
	struct fsdp_tied_weights tie = { .tensor = FSDP_NONE };
	fsdp_arena_init_lean(&arena, &budget);
	tie.declared = find_declared(checkpoint, name, &scratch, &tie.tensor);
	if (!tie.declared)
		find_embedding(checkpoint, name, &scratch, &tie.tensor);
	bool good = !scratch.failed;
	fsdp_arena_done(&arena);
	if (good)
		*ret_tie = tie;
	return good || fsdp_fail_memory(ret_error);
}

/*
 * Finds pieces of a tensor that have the same place in it. Reads no bytes: whether copies
 * are equal is another question.
 */

struct fsdp_replicas {
	const struct fsdp_checkpoint *checkpoint;
	uint32_t *numbers; /* of the first `count` pieces of the tensor */
	uint32_t *order;   /* the same room, for sorting */
	size_t count, room;
};

struct question {
	const struct fsdp_checkpoint *checkpoint;
	const struct fsdp_tensor *tensor;
};

static int compare_numbers(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int compare_positions(const struct question *question, uint32_t a, uint32_t b)
{
	uint32_t first = question->tensor->first_piece;
	struct fsdp_piece left = fsdp_piece(question->checkpoint, first + a),
			  right = fsdp_piece(question->checkpoint, first + b);
	/* Boxes in the order of their first elements, a whole tensor as the box that it
	 * is. */
	const struct fsdp_tensor *tensor = question->tensor;
	int order = compare_numbers(left.is_run, right.is_run);
	if (order != 0)
		return order;
	if (left.is_run) {
		order = compare_numbers(left.param_start, right.param_start);
		return order != 0 ? order
				  : compare_numbers(left.param_numel, right.param_numel);
	}
	for (uint32_t i = 0; i < tensor->dims && order == 0; i++)
		order = compare_numbers(
			left.offsets != NULL ? (uint64_t)left.offsets[i] : 0,
			right.offsets != NULL ? (uint64_t)right.offsets[i] : 0);
	for (uint32_t i = 0; i < tensor->dims && order == 0; i++)
		order = compare_numbers(
			(uint64_t)(left.sizes != NULL ? left.sizes : tensor->shape)[i],
			(uint64_t)(right.sizes != NULL ? right.sizes : tensor->shape)[i]);
	return order;
}

static int by_place(const void *a, const void *b, void *context)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
	int order = compare_positions(context, left, right);
	return order != 0 ? order : compare_numbers(left, right);
}

static bool has_elements(const struct question *question, uint32_t position)
{
	struct fsdp_piece piece = fsdp_piece(
		question->checkpoint, question->tensor->first_piece + position);
	if (piece.is_run)
		return piece.param_numel != 0;
	for (uint32_t i = 0; piece.sizes != NULL && i < piece.dims; i++)
		if (piece.sizes[i] == 0)
			return false;
	return question->tensor->numel != 0;
}

static bool number_them(struct fsdp_replicas *replicas, const struct question *question)
{
	uint32_t count = question->tensor->piece_count, number = 0;
	uint32_t *order = replicas->order;
	bool some = false;
	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	qsort_r(order, count, sizeof *order, by_place, (void *)(uintptr_t)question);
	for (uint32_t i = 0; i < count; i++) {
		bool copy =
			i > 0 && compare_positions(question, order[i - 1], order[i]) == 0;
		bool copied = i + 1 < count &&
			      compare_positions(question, order[i], order[i + 1]) == 0;
		bool counts = (copy || copied) && has_elements(question, order[i]);
		number = copy ? number + 1 : 0;
		replicas->numbers[order[i]] = counts ? number : FSDP_NONE;
		some |= counts;
	}
	return some;
}

bool fsdp_replicas_new(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_replicas **ret_replicas, struct fsdp_error **ret_error)
{
	struct fsdp_replicas *replicas = calloc(1, sizeof *replicas);
	if (replicas == NULL)
		return fsdp_fail_memory(ret_error);
	replicas->checkpoint = checkpoint;
	*ret_replicas = replicas;
	return true;
}

/* Discards the previous content. */
static bool make_room(struct fsdp_replicas *replicas, size_t count)
{
	if (count <= replicas->room)
		return true;
	free(replicas->numbers);
	free(replicas->order);
	replicas->room = 0;
	replicas->numbers = malloc(count * sizeof *replicas->numbers);
	replicas->order = malloc(count * sizeof *replicas->order);
	if (replicas->numbers == NULL || replicas->order == NULL)
		return false;
	replicas->room = count;
	return true;
}

bool fsdp_replicas_find(struct fsdp_replicas *replicas, const struct fsdp_tensor *tensor,
	bool *ret_some, struct fsdp_error **ret_error)
{
	const struct question question = { replicas->checkpoint, tensor };
	bool apart = true;
	for (uint32_t i = 1; i < tensor->piece_count && apart; i++)
		apart = compare_positions(&question, i - 1, i) < 0;
	replicas->count = 0;
	if (!apart && !make_room(replicas, tensor->piece_count))
		return fsdp_fail_memory(ret_error);
	if (!apart)
		replicas->count = tensor->piece_count;
	*ret_some = !apart && number_them(replicas, &question);
	return true;
}

uint32_t fsdp_replicas_number(const struct fsdp_replicas *replicas, uint32_t position)
{
	return position < replicas->count ? replicas->numbers[position] : FSDP_NONE;
}

void fsdp_replicas_free(struct fsdp_replicas *replicas)
{
	if (replicas == NULL)
		return;
	free(replicas->numbers);
	free(replicas->order);
	free(replicas);
}

/*
 * Computes the used part of each storage: views of one storage are adjacent in a sorted
 * list, and their ranges are merged.
 */

struct view {
	struct fsdp_span storage;
	uint64_t item; /* where the container's item begins: a storage key is unique in it
			*/
	uint64_t begin, end, storage_bytes;
	uint32_t file, tensor;
};

struct fsdp_unused {
	const struct fsdp_checkpoint *checkpoint;
	struct view *
		views; /* room for all pieces; of those asked for, when they are placed */
	size_t view_count;
	uint32_t *wanted; /* pieces that have to be located */
	size_t wanted_count;
	struct fsdp_unused_row *rows;
	size_t row_count;
};

/* From the first element to the end of the last one. */
static uint64_t extent(
	const struct fsdp_tensor *tensor, const struct fsdp_piece *piece, uint64_t numel)
{
	const int64_t *sizes = piece->sizes != NULL ? piece->sizes : tensor->shape;
	uint32_t dims = piece->sizes != NULL ? piece->dims : tensor->dims;
	uint64_t elements = 1;
	if (numel == 0 || piece->strides == NULL || piece->is_run)
		return numel;
	for (uint32_t i = 0; i < dims; i++) {
		uint64_t last = (uint64_t)(sizes[i] - 1);
		if (!fsdp_mul(last, (uint64_t)piece->strides[i], &last))
			return FSDP_UNKNOWN;
		fsdp_tally(&elements, last);
	}
	return elements;
}

/* Bytes beyond the storage do not count. */
static void set_range(
	struct view *view, uint64_t item, uint64_t first_element, uint64_t elements)
{
	uint64_t size;
	if (!fsdp_mul(first_element, item, &view->begin))
		view->begin = FSDP_UNKNOWN;
	if (!fsdp_mul(elements, item, &size))
		size = FSDP_UNKNOWN;
	view->end = view->begin;
	fsdp_tally(&view->end, size);
	view->end = fsdp_min(view->end, view->storage_bytes);
	view->begin = fsdp_min(view->begin, view->end);
}

static uint64_t item_bytes(const struct fsdp_tensor *tensor)
{
	return fsdp_dtype(tensor->dtype)->storage_bytes;
}

bool fsdp_unused_new(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_unused **ret_waste, struct fsdp_error **ret_error)
{
	size_t pieces = fsdp_piece_count(checkpoint), room = pieces + 1;
	struct fsdp_unused *waste = calloc(1, sizeof *waste);
	if (waste == NULL)
		return fsdp_fail_memory(ret_error);
	waste->checkpoint = checkpoint;
	waste->views = reallocarray(NULL, room, sizeof *waste->views);
	waste->wanted = reallocarray(NULL, room, sizeof *waste->wanted);
	if (waste->views == NULL || waste->wanted == NULL) {
		fsdp_unused_free(waste);
		return fsdp_fail_memory(ret_error);
	}
	FSDP_EACH(i, (uint32_t)pieces, piece, fsdp_piece(waste->checkpoint, i)) {
		uint32_t rank;
		if (piece.file == FSDP_NONE)
			continue;
		if (piece.storage_bytes == FSDP_UNKNOWN ||
			piece.storage_offset == FSDP_UNKNOWN) {
			waste->wanted[waste->wanted_count++] = i;
			continue;
		}
		struct fsdp_tensor tensor = fsdp_tensor(waste->checkpoint, piece.tensor);
		struct view *view = &waste->views[waste->view_count++];
		*view = (struct view){
			.storage = piece.storage,
			.file = piece.file,
			.tensor = piece.tensor,
			.storage_bytes = piece.storage_bytes,
		};
		set_range(view, item_bytes(&tensor), piece.storage_offset,
			extent(&tensor, &piece,
				fsdp_piece_numel(waste->checkpoint, i, &rank)));
	}
	*ret_waste = waste;
	return true;
}

void fsdp_unused_free(struct fsdp_unused *waste)
{
	if (waste == NULL)
		return;
	free(waste->views);
	free(waste->wanted);
	free(waste->rows);
	free(waste);
}

const uint32_t *fsdp_unused_to_locate(const struct fsdp_unused *waste, size_t *ret_count)
{
	*ret_count = waste->wanted_count;
	return waste->wanted;
}

void fsdp_unused_place(
	struct fsdp_unused *waste, size_t position, const struct fsdp_place *place)
{
	if (position >= waste->wanted_count ||
		waste->view_count >= fsdp_piece_count(waste->checkpoint))
		return;
	struct fsdp_piece piece = fsdp_piece(waste->checkpoint, waste->wanted[position]);
	struct fsdp_tensor tensor = fsdp_tensor(waste->checkpoint, piece.tensor);
	uint64_t item = item_bytes(&tensor);
	struct view *view = &waste->views[waste->view_count++];
	*view = (struct view){
		.storage = place->storage,
		.item = piece.item_offset,
		.file = piece.file,
		.tensor = piece.tensor,
		.storage_bytes = place->storage_bytes,
	};
	set_range(
		view, item, place->storage_offset, place->length / (item > 0 ? item : 1));
}

static int by_loss(const void *a, const void *b)
{
	const struct fsdp_unused_row *left = a, *right = b;
	uint64_t left_lost = left->stored_bytes - left->used_bytes;
	uint64_t right_lost = right->stored_bytes - right->used_bytes;
	if (left_lost != right_lost)
		return left_lost > right_lost ? -1 : 1;
	return (left->first_view > right->first_view) -
	       (left->first_view < right->first_view);
}

/* The rows, or only their number. */
static size_t find_rows(const struct fsdp_unused *waste, struct fsdp_unused_row *rows)
{
	/* Storages without any view, or only their number. */
	struct fsdp_unused_run unviewed;
	size_t count = 0, position = 0;
	for (; fsdp_unused_next(waste->checkpoint, &position, &unviewed); count++)
		if (rows != NULL)
			rows[count] = (struct fsdp_unused_row){
				.storage = unviewed.storage,
				.file = unviewed.file,
				.stored_bytes = unviewed.bytes,
				.first_view = waste->view_count + count,
			};

	for (size_t i = 0; i < waste->view_count;) {
		/* The views of the storage that begins at `i`, their ranges joined. */
		const struct view *view = &waste->views[i];
		struct fsdp_unused_row row = {
			.storage = view->storage,
			.file = view->file,
			.stored_bytes = view->storage_bytes,
			.first_view = i,
		};
		uint64_t reached = 0;
		for (; i + row.view_count < waste->view_count; row.view_count++) {
			const struct view *next = view + row.view_count;
			if (next->file != view->file || next->item != view->item ||
				!fsdp_span_equal(next->storage, view->storage))
				break;
			uint64_t begin = next->begin > reached ? next->begin : reached;
			if (next->end > begin) {
				row.used_bytes += next->end - begin;
				reached = next->end;
			}
		}
		i += row.view_count;
		if (row.stored_bytes == FSDP_UNKNOWN ||
			row.stored_bytes <= row.used_bytes)
			continue;
		if (rows != NULL)
			rows[count] = row;
		count++;
	}
	return count;
}

bool fsdp_unused_finish(struct fsdp_unused *waste, struct fsdp_error **ret_error)
{
	FSDP_SORT(waste->views, waste->view_count, FSDP_BY(waste->views, file),
		FSDP_BY(waste->views, item), FSDP_BY(waste->views, storage),
		FSDP_BY(waste->views, begin), FSDP_BY(waste->views, tensor));
	size_t count = find_rows(waste, NULL);
	waste->rows = reallocarray(NULL, count + 1, sizeof *waste->rows);
	if (waste->rows == NULL)
		return fsdp_fail_memory(ret_error);
	waste->row_count = find_rows(waste, waste->rows);
	qsort(waste->rows, count, sizeof *waste->rows, by_loss);
	return true;
}

size_t fsdp_unused_count(const struct fsdp_unused *waste)
{
	return waste->row_count;
}

struct fsdp_unused_row fsdp_unused_row(const struct fsdp_unused *waste, size_t index)
{
	if (index >= waste->row_count)
		return (struct fsdp_unused_row){ .file = FSDP_NONE };
	return waste->rows[index];
}

uint32_t fsdp_unused_tensor(
	const struct fsdp_unused *waste, const struct fsdp_unused_row *row, size_t n)
{
	if (n >= row->view_count)
		return FSDP_NONE;
	return waste->views[row->first_view + n].tensor;
}
