/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins rank files as one checkpoint, and reports the ranks that have no file.
 */
#include <stdio.h>

#include "base/sort.h"
#include "checkpoint/build.h"

/* ---- Ranks without a file. A world may claim millions: ranks are never counted through
 * ---- */

/* The first rank from this one on that is present, or missing, as requested; the world
 * size: none. *at: the position in the list to search from. */
static uint32_t next_rank(
	const struct fsdp_ranks_here *here, uint32_t rank, bool there, size_t *at)
{
	for (; rank < here->world_size; rank++) {
		while (*at < here->count && here->list[*at] < rank)
			++*at;
		uint32_t next = *at < here->count ? here->list[*at] : FSDP_NONE;
		if (there)
			return next < here->world_size ? next : here->world_size;
		if (next != rank)
			return rank;
	}
	return here->world_size;
}

/* Whether the files that are there are those of one node: one block of ranks, which
 * divides the world into nodes as large. */
static bool is_one_node(
	const struct fsdp_ranks_here *here, uint32_t *ret_first, uint32_t *ret_end)
{
	size_t place = 0;
	*ret_first = next_rank(here, 0, true, &place);
	*ret_end = next_rank(here, *ret_first, false, &place);
	uint32_t size = *ret_end - *ret_first;
	return size > 1 && here->world_size % size == 0 && *ret_first % size == 0 &&
	       next_rank(here, *ret_end, true, &place) >= here->world_size;
}

/* The name of the same file of another rank, in `text`; absent: it has no number that
 * stands for the rank alone. Of several equal ones the number after "rank" is it. */
static struct fsdp_span name_of_rank(
	const struct fsdp_ranks_here *here, uint32_t rank, char *text, size_t size)
{
	const unsigned char *data = here->example.data;
	size_t begin = 0, length = 0, found = 0, after_word = 0;
	for (size_t i = 0, end; i < here->example.size; i = end + 1) {
		uint64_t number = 0;
		for (end = i; end < here->example.size && fsdp_is_digit(data[end]); end++)
			number = number < FSDP_NONE ? number * 10 + (data[end] - '0')
						    : number;
		if (end == i || number != here->example_rank)
			continue;
		bool is_named = i >= 5 && memcmp(data + i - 5, "rank", 4) == 0 &&
				!fsdp_is_digit(data[i - 1]);
		if (after_word == 0 || is_named) {
			begin = after_word != 0 ? begin : i;
			length = after_word != 0 ? length : end - i;
		}
		after_word += is_named;
		found++;
	}
	int written = found == 0 || (found > 1 && after_word == 0)
			      ? 0
			      : snprintf(text, size, "%.*s%0*u%.*s", (int)begin, data,
					(int)(length < 8 ? length : 8), rank,
					(int)(here->example.size - begin - length),
					data + begin + length);
	return written > 0 && (size_t)written < size ? fsdp_span_text(text)
						     : (struct fsdp_span){ 0 };
}

void fsdp_find_missing_ranks(struct fsdp_findings *findings, struct fsdp_ranks_here *here,
	struct fsdp_place_of *place)
{
	char text[256], name[FSDP_WORD_MAX];
	uint32_t only = FSDP_NONE, first, end, lost = FSDP_NONE;
	enum fsdp_rule_index rule =
		here->lost_none ? FSDP_RULE_RESUME_PART : FSDP_RULE_RANK_MISSING;
	FSDP_SORT(here->list, here->count, FSDP_BY_VALUE(here->list));
	/* "1-3, 5" of the ranks without a file; `only` is the rank if it is just one. */
	uint32_t count = 0, rank = 0;
	size_t at = 0, seen = 0;
	text[0] = '\0';
	while ((rank = next_rank(here, rank, false, &seen)) < here->world_size) {
		uint32_t last = next_rank(here, rank, true, &seen) - 1;
		count += last - rank + 1;
		lost = lost != FSDP_NONE ? lost : rank;
		only = count == 1 ? rank : FSDP_NONE;
		const char *comma = at == 0 ? "" : ", ";
		if (at + 32 > sizeof text)
			at = sizeof text;
		else if (at + 64 > sizeof text)
			at += (size_t)snprintf(
				      text + at, sizeof text - at, "%s…", comma) +
			      32;
		else if (last == rank)
			at += (size_t)snprintf(
				text + at, sizeof text - at, "%s%u", comma, rank);
		else
			at += (size_t)snprintf(text + at, sizeof text - at, "%s%u-%u",
				comma, rank, last);
		rank = last + 1;
	}
	if (count == 0)
		return;
	if (here->example.data != NULL && !here->named)
		place->file = name_of_rank(here, lost, name, sizeof name);
	const char *file = strstr(here->what, "file"), *plural = count == 1 ? "" : "s";
	int stem = (int)(file == NULL ? strlen(here->what)
				      : (size_t)(file - here->what) + strlen("file"));
	if (!here->named && is_one_node(here, &first, &end)) {
		place->fix = "copy the files of all nodes into one directory";
		fsdp_find(findings, rule, place,
			"%.*ss%s of ranks %s are missing; only ranks %u-%u of %s%u are present, probably those of one node",
			stem, here->what, here->what + stem, text, first, end - 1,
			here->at_least ? "at least " : "", here->world_size);
		return;
	}
	place->rank = only;
	if (here->lost_none || place->fix == NULL)
		place->fix =
			count == 1
				? "copy the file of this rank from where the checkpoint was written"
				: "copy the files of these ranks from where the checkpoint was written";
	if (here->named)
		place->fix = count == 1 ? "name the file of this rank too"
					: "name the files of these ranks too";
	fsdp_find(findings, rule, place,
		"%.*s%s%s of rank%s %s %s %s (world size is %s%u)", stem, here->what,
		plural, here->what + stem, plural, text,
		here->named  ? count == 1 ? "was" : "were"
		: count == 1 ? "is"
			     : "are",
		here->named ? "not named" : "missing", here->at_least ? "at least " : "",
		here->world_size);
}

/*
 * Joins the tensors of several rank files: pieces of equal names become one tensor.
 *
 * A tensor that is complete in several files keeps one piece per rank: replicas. A tensor
 * of neither model nor optimizer (the state of a random generator) is separate for each
 * rank, as well as one that its family calls so. If the sharding of a set is unknown,
 * plain tensors are copies only if their records have the same CRC; else they are
 * separate too. Runs of a flattened parameter (LOCAL state dicts with use_orig_params)
 * have one name, one dimension and a length of their own in every file: they are
 * concatenated in order of ranks, which is the parameter in its flattened form.
 */

struct merge {
	struct fsdp_model *model;
	uint32_t *first;  /* of a raw name: its first tensor, or FSDP_NONE */
	uint32_t *target; /* of a tensor: the one it becomes part of; FSDP_NONE: none */
	uint32_t *file;   /* of a tensor: the one that holds it */
	uint32_t *order;  /* of tensors: by rank, then as they were read */
	bool *fragments;  /* of a first tensor: its parts are runs */
};

static bool same_shape(const struct fsdp_model *model, const struct fsdp_tensor_record *a,
	const struct fsdp_tensor_record *b)
{
	return a->dims == b->dims &&
	       (a->dims == 0 || memcmp(fsdp_model_ints(model, a->shape),
					fsdp_model_ints(model, b->shape),
					a->dims * sizeof(int64_t)) == 0);
}

/* Whole in its file and of one dimension: what a run looks like. */
static bool may_be_run(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	if (tensor->dims != 1 || tensor->piece_count > 1 ||
		(tensor->flags & FSDP_TENSOR_FLATTENED))
		return false;
	if (tensor->piece_count == 0)
		return true;
	return fsdp_model_piece(model, tensor->first_piece)->box == FSDP_NONE;
}

/* ---- what meets ---- */

static const struct fsdp_file_record *file_of(const struct merge *merge, uint32_t index)
{
	return fsdp_model_file(merge->model, merge->file[index]);
}

static void write_kind(const struct fsdp_model *model,
	const struct fsdp_tensor_record *tensor, char *text, size_t size)
{
	const int64_t *shape = fsdp_model_ints(model, tensor->shape);
	size_t at = (size_t)snprintf(text, size, "%s [", fsdp_dtype(tensor->dtype)->name);
	for (size_t i = 0; i < tensor->dims && at < size; i++)
		at += (size_t)snprintf(text + at, size - at, i == 0 ? "%lld" : ", %lld",
			(long long)shape[i]);
	if (at < size)
		snprintf(text + at, size - at, "]");
}

/* Tensors with a share on every rank of a save, which may be empty. */
static bool is_everywhere(const struct fsdp_tensor_record *tensor)
{
	const char *name = fsdp_model_class(tensor->class_index);
	return (tensor->flags & FSDP_TENSOR_FLATTENED) ||
	       (name != NULL && (strcmp(name, "DTensor") == 0 ||
					strcmp(name, "ShardedTensor") == 0));
}

static bool is_ranks_own(const struct fsdp_tensor_record *tensor)
{
	return (tensor->flags & FSDP_TENSOR_RANKS_OWN) != 0 ||
	       (tensor->role == FSDP_ROLE_OTHER && !is_everywhere(tensor));
}

/* ---- copies that are not marked as such ---- */

/* The one piece of a tensor if it is all of it; NULL: it has another form. */
static const struct fsdp_piece_record *whole_piece(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	const struct fsdp_piece_record *piece =
		tensor->piece_count == 1 ? fsdp_model_piece(model, tensor->first_piece)
					 : NULL;
	return piece != NULL && piece->box == FSDP_NONE && piece->extent != FSDP_NONE
		       ? piece
		       : NULL;
}

enum likeness { LIKE_SAME, LIKE_OTHER, LIKE_UNKNOWN };

/* As far as the directories of the files show. */
static enum likeness compare(const struct fsdp_model *model,
	const struct fsdp_tensor_record *a, const struct fsdp_tensor_record *b)
{
	if (a->dtype != b->dtype || !same_shape(model, a, b))
		return LIKE_OTHER;
	if (fsdp_model_numel(model, a) == 0)
		return LIKE_SAME;
	const struct fsdp_piece_record *left = whole_piece(model, a);
	const struct fsdp_piece_record *right = whole_piece(model, b);
	if (left == NULL || right == NULL ||
		left->storage_offset != right->storage_offset)
		return LIKE_UNKNOWN;
	const int64_t *steps = fsdp_model_ints(model, left->strides);
	const int64_t *others = fsdp_model_ints(model, right->strides);
	if ((steps == NULL) != (others == NULL) ||
		(steps != NULL && memcmp(steps, others, a->dims * sizeof *steps) != 0))
		return LIKE_UNKNOWN;
	const struct fsdp_extent *here = fsdp_model_extent(model, left->extent);
	const struct fsdp_extent *there = fsdp_model_extent(model, right->extent);
	if (!here->has_crc || !there->has_crc || here->size != there->size ||
		here->big_endian != there->big_endian)
		return LIKE_UNKNOWN;
	return here->crc == there->crc ? LIKE_SAME : LIKE_OTHER;
}

/* Names with different content on the ranks become separate for each rank. Another shape
 * is a disagreement unless the files are slices. */
static void part_slices(struct merge *merge, struct fsdp_arena *scratch)
{
	struct fsdp_model *model = merge->model;
	uint32_t count = (uint32_t)model->tensors.count;
	size_t names = model->names.list.count, parted[LIKE_UNKNOWN + 1] = { 0 };
	unsigned char *likeness = fsdp_arena_take(scratch, names, 1);
	FSDP_EACH(i, count, tensor, fsdp_model_tensor(model, i)) {
		uint32_t *first = &merge->first[tensor->raw_name];
		if (merge->target[i] == FSDP_NONE || is_ranks_own(tensor) ||
			(tensor->flags & FSDP_TENSOR_COMPONENT))
			continue;
		if (*first == FSDP_NONE)
			*first = i;
		const struct fsdp_tensor_record *known = fsdp_model_tensor(model, *first);
		enum likeness like = compare(model, tensor, known);
		if (*first == i || like == LIKE_SAME ||
			(!model->is_split && !same_shape(model, tensor, known)))
			continue;
		parted[like] += likeness[tensor->raw_name] == 0;
		likeness[tensor->raw_name] = 1;
	}
	FSDP_EACH(i, count, tensor, fsdp_model_tensor(model, i))
		if (!(tensor->flags & FSDP_TENSOR_COMPONENT) &&
			likeness[tensor->raw_name] != 0)
			tensor->flags |= FSDP_TENSOR_RANKS_OWN;
	memset(merge->first, 0xff, names * sizeof *merge->first);
	size_t unknown = parted[LIKE_UNKNOWN];
	char text[80] = "";
	if ((parted[LIKE_OTHER]) + unknown != 0) {
		if (unknown != 0)
			snprintf(text, sizeof text,
				" (%zu cannot be compared by their CRC)", unknown);
		fsdp_find(&model->findings, FSDP_RULE_UNSUPPORTED_FEATURE,
			FSDP_PLACE(.severity = FSDP_NOTE + 1,
				.fix = "if they are slices of one tensor, ask the program that wrote them how they were cut"),
			"%zu tensor%s of %u rank files %s not equal on all ranks%s, cause unknown: listed per rank",
			(parted[LIKE_OTHER]) + unknown,
			(parted[LIKE_OTHER]) + unknown == 1 ? "" : "s", model->world_size,
			(parted[LIKE_OTHER]) + unknown == 1 ? "is" : "are", text);
	}
}

static void meet(
	struct merge *merge, uint32_t index, bool flat, struct fsdp_arena *scratch)
{
	struct fsdp_model *model = merge->model;
	struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, index);
	if (is_ranks_own(tensor)) {
		tensor->flags |= FSDP_TENSOR_RANKS_OWN;
		return;
	}
	uint32_t first = merge->first[tensor->raw_name];
	if (first == FSDP_NONE) {
		merge->first[tensor->raw_name] = index;
		merge->fragments[index] = flat && may_be_run(model, tensor);
		return;
	}
	const struct fsdp_tensor_record *known = fsdp_model_tensor(model, first);
	merge->target[index] = first;
	merge->fragments[first] &= may_be_run(model, tensor);
	if (tensor->dtype == known->dtype &&
		(same_shape(model, tensor, known) || merge->fragments[first])) {
		/* The parts of a structured tensor that became part of another go with
		 * it. */
		if (tensor->extra != FSDP_NONE) {
			const struct fsdp_extra *extra =
				fsdp_model_extra(merge->model, tensor->extra);
			for (uint32_t i = 0; i < extra->component_count; i++)
				merge->target[extra->first_component + i] = FSDP_NONE;
		}
		return;
	}
	merge->target[index] = index;
	/* Two files, one name, two tensors: which of them is right is unknown. */
	const struct fsdp_file_record *here = file_of(merge, index);
	const struct fsdp_file_record *there = file_of(merge, first);
	char ours[200], theirs[200];
	write_kind(model, tensor, ours, sizeof ours);
	write_kind(model, fsdp_model_tensor(model, first), theirs, sizeof theirs);
	fsdp_find(&model->findings, FSDP_RULE_SHARDS_DISAGREE,
		FSDP_PLACE(.file = here->path, .rank = here->rank,
			.tensor = fsdp_model_name(model, tensor->name, scratch)),
		"rank files disagree about the tensor: %s here, %s in %.*s", ours, theirs,
		FSDP_TEXT_MOST(there->path, 256));
}

/* ---- order ---- */

/* ---- who lacks what ---- */

/* Tensors looked at for files that lack some; what is beyond is not reported. */
enum { SHARES_WORK = 1 << 28 };

/* Whether the mesh of the tensor has this rank. */
static bool is_on_mesh(const struct fsdp_model *model,
	const struct fsdp_tensor_record *tensor, uint32_t rank)
{
	if (tensor->extra == FSDP_NONE)
		return true;
	const struct fsdp_extra *extra = fsdp_model_extra(model, tensor->extra);
	if (extra->placement == FSDP_NONE)
		return true;
	const struct fsdp_mesh_record *mesh = fsdp_model_mesh(
		model, fsdp_model_placement(model, extra->placement)->mesh);
	const int64_t *ranks = fsdp_model_ints(model, mesh->ranks);
	for (uint64_t i = 0; ranks != NULL && i < mesh->rank_count; i++)
		if (ranks[i] == (int64_t)rank)
			return true;
	return ranks == NULL && rank < mesh->rank_count;
}

/* The file of the rank that should have what another rank's has: its name differs in
 * numbers. Where each rank has several, one that is missing, or has a finding, is the
 * cause (NULL). */
static const struct fsdp_file_record *find_sibling(const struct fsdp_model *model,
	const struct fsdp_file_record *record, const struct fsdp_file_record *other)
{
	bool is_one_kind = fsdp_span_is_alike(record->path, other->path);
	bool has_kinds = false;
	for (uint32_t i = 0; i < model->files.count && !is_one_kind; i++) {
		const struct fsdp_file_record *file = fsdp_model_file(model, i);
		if (file->rank == record->rank && !file->left_out &&
			fsdp_span_is_alike(file->path, other->path)) {
			const struct fsdp_file_record *next =
				i + 1 < model->files.count ? fsdp_model_file(model, i + 1)
							   : NULL;
			/* Nothing of it could be read. */
			if (file->first_tensor == (next != NULL ? next->first_tensor
								: model->tensors.count) &&
				file->first_value == (next != NULL ? next->first_value
								   : model->values.count))
				return NULL;
			record = file;
			is_one_kind = true;
		}
		has_kinds |= file->rank == other->rank &&
			     fsdp_span_is_alike(file->path, record->path);
	}
	FSDP_ITEMS(const struct fsdp_finding, finding, &model->findings.list)
		if (finding->severity == FSDP_ERROR &&
			fsdp_span_equal(finding->file, record->path))
			return NULL;
	return is_one_kind || !has_kinds ? record : NULL;
}

/* For one rank with one given file: tensors that others have and it lacks. */
static void find_lacks(
	struct merge *merge, uint32_t file, const bool *has, struct fsdp_arena *scratch)
{
	struct fsdp_model *model = merge->model;
	const struct fsdp_file_record *record = fsdp_model_file(model, file);
	uint32_t count = 0, first = FSDP_NONE;
	FSDP_EACH(
		i, (uint32_t)model->tensors.count, tensor, fsdp_model_tensor(model, i)) {
		if (merge->target[i] != i || has[i] || !is_everywhere(tensor) ||
			(tensor->flags & FSDP_TENSOR_COMPONENT) ||
			!is_on_mesh(model, tensor, record->rank))
			continue;
		if (count++ == 0)
			first = i;
	}
	if (count == 0)
		return;
	const struct fsdp_file_record *other = file_of(merge, first);
	record = find_sibling(model, record, other);
	if (record == NULL)
		return;
	fsdp_find(&model->findings, FSDP_RULE_SHARDS_DISAGREE,
		FSDP_PLACE(.file = record->path, .rank = record->rank,
			.tensor = fsdp_model_name(
				model, fsdp_model_tensor(model, first)->name, scratch)),
		"file has no shard of %u tensor%s that other ranks have shards of, for example in %.*s",
		count, count == 1 ? "" : "s", FSDP_TEXT_MOST(other->path, 256));
}

static uint32_t file_rank(const struct merge *merge, uint32_t position)
{
	return file_of(merge, merge->order[position])->rank;
}

/*
 * Each rank of one save holds a share of every sharded tensor, in one of its files. Most
 * sets are whole: ranks with as many of them as there are need no look at which.
 */
static void check_shares(struct merge *merge, struct fsdp_arena *scratch)
{
	struct fsdp_model *model = merge->model;
	uint32_t count = (uint32_t)model->tensors.count, all = 0;
	uint64_t work = 0;
	bool *has = fsdp_arena_take(scratch, (size_t)count + 1, 1);
	for (uint32_t i = 0; i < count; i++)
		all += merge->target[i] == i &&
		       is_everywhere(fsdp_model_tensor(model, i));
	for (uint32_t begin = 0, end; begin < count; begin = end) {
		uint32_t rank = file_rank(merge, begin), held = 0, file = FSDP_NONE;
		for (end = begin; end < count && file_rank(merge, end) == rank; end++) {
			uint32_t index = merge->order[end], target = merge->target[index];
			if (target == FSDP_NONE ||
				!is_everywhere(fsdp_model_tensor(model, target)))
				continue;
			held += !has[target];
			has[target] = true;
			if (file == FSDP_NONE)
				file = merge->file[index];
		}
		/* A file without any is another thing: an empty one of rank0_only. */
		work += count;
		if (held != 0 && held < all && rank != FSDP_NONE && work < SHARES_WORK)
			find_lacks(merge, file, has, scratch);
		for (uint32_t i = begin; i < end; i++)
			if (merge->target[merge->order[i]] != FSDP_NONE)
				has[merge->target[merge->order[i]]] = false;
	}
}

static uint32_t extent_of(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	if (tensor->piece_count == 0)
		return FSDP_NONE;
	return fsdp_model_piece(model, tensor->first_piece)->extent;
}

/* Whether each rank holds a part only of some flat parameter. */
static bool has_cut_parameters(const struct fsdp_model *model)
{
	FSDP_EACH(i, model->tensors.count, tensor, fsdp_model_tensor(model, i)) {
		if (!(tensor->flags & FSDP_TENSOR_FLATTENED) || tensor->piece_count == 0)
			continue;
		if (fsdp_model_piece(model, tensor->first_piece)->box != FSDP_NONE)
			return true;
	}
	return false;
}

/*
 * States of torch's own optimizer, which numbers parameters and has no flat ones:
 * a rank holds, of each state, the part for its part of the parameter. An optimizer state
 * dict that FSDP made names them instead, and is complete or a ShardedTensor.
 */
static bool is_counted(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	const int64_t *path = fsdp_model_ints(model, tensor->path);
	if (tensor->role != FSDP_ROLE_OPTIM || path == NULL)
		return false;
	for (int64_t i = 1; i <= path[0]; i++)
		if (path[i] & 1)
			return true;
	return false;
}

/*
 * Runs are views of their file's flat shard, or counted states of one; a vector
 * without such a storage in any file is a replica (a buffer). Only runs without elements
 * may be elsewhere.
 */
static void keep_backed(struct merge *merge, struct fsdp_arena *scratch)
{
	struct fsdp_model *model = merge->model;
	uint32_t count = (uint32_t)model->tensors.count;
	bool *flat = fsdp_arena_take(scratch, model->extents.count + 1, 1);
	bool *backed = fsdp_arena_take(scratch, (size_t)count + 1, 1);
	FSDP_EACH(i, count, tensor, fsdp_model_tensor(model, i)) {
		uint32_t extent = extent_of(model, tensor);
		if ((tensor->flags & FSDP_TENSOR_FLATTENED) && extent != FSDP_NONE)
			flat[extent] = true;
	}
	bool cut = has_cut_parameters(model);
	FSDP_EACH(i, count, tensor, fsdp_model_tensor(model, i)) {
		uint32_t extent = extent_of(model, tensor);
		if (merge->target[i] != FSDP_NONE &&
			((extent != FSDP_NONE && flat[extent]) ||
				(cut && is_counted(model, tensor))))
			backed[merge->target[i]] = true;
	}
	for (uint32_t i = 0; i < count; i++)
		merge->fragments[i] &= backed[i];
}

/* Pieces in order of the tensors they now belong to, and of ranks. */
static void regroup(struct merge *merge, struct fsdp_arena *scratch)
{
	struct fsdp_model *model = merge->model;
	uint32_t count = (uint32_t)model->tensors.count;
	uint32_t *begin = FSDP_TAKE(scratch, begin, (size_t)count + 1);
	struct fsdp_vec pieces;
	fsdp_vec_init(&pieces, model->arena, sizeof(struct fsdp_piece_record));
	for (uint32_t i = 0; i < count; i++)
		if (merge->target[i] != FSDP_NONE)
			begin[merge->target[i] + 1] +=
				fsdp_model_tensor(model, i)->piece_count;
	for (uint32_t i = 0; i < count; i++)
		begin[i + 1] += begin[i];
	for (uint32_t i = 0; i < begin[count]; i++)
		(void)!fsdp_vec_push(&pieces);
	FSDP_EACH(i, count, tensor, fsdp_model_tensor(model, merge->order[i])) {
		uint32_t target = merge->target[merge->order[i]];
		if (target == FSDP_NONE)
			continue;
		FSDP_EACH(k, tensor->piece_count, piece,
			*fsdp_model_piece(model, tensor->first_piece + k)) {
			piece.tensor = target;
			*(struct fsdp_piece_record *)fsdp_vec_at(
				&pieces, begin[target]++) = piece;
		}
	}
	uint32_t end = 0;
	FSDP_EACH(i, count, tensor, fsdp_model_tensor(model, i)) {
		tensor->first_piece = end;
		tensor->piece_count = begin[i] - end;
		end = begin[i];
	}
	model->pieces = pieces;
}

/* The runs of one parameter, concatenated in order of ranks. */
static void line_up(struct fsdp_model *model, struct fsdp_tensor_record *tensor,
	const int64_t *lengths)
{
	int64_t at = 0;
	FSDP_EACH(i, tensor->piece_count, piece,
		fsdp_model_piece(model, tensor->first_piece + i)) {
		int64_t box[2] = { at, lengths[i] };
		piece->box = fsdp_build_ints(model, box, 2);
		if (__builtin_add_overflow(at, lengths[i], &at))
			fsdp_arena_leave(model->arena);
	}
	tensor->shape = fsdp_build_ints(model, &at, 1);
	tensor->flags |= FSDP_TENSOR_FLATTENED | FSDP_TENSOR_SHAPE_INFERRED;
}

static void line_up_runs(
	struct merge *merge, const fsdp_ints *old_shapes, struct fsdp_arena *scratch)
{
	struct fsdp_model *model = merge->model;
	uint32_t count = (uint32_t)model->tensors.count;
	uint32_t *filled = FSDP_TAKE(scratch, filled, (size_t)count + 1);
	int64_t *lengths = FSDP_TAKE(scratch, lengths, model->pieces.count + 1);
	/* In the order of the pieces of their targets. */
	for (uint32_t i = 0; i < count; i++) {
		uint32_t target = merge->target[merge->order[i]];
		if (target == FSDP_NONE)
			continue;
		const struct fsdp_tensor_record *tensor =
			fsdp_model_tensor(model, target);
		if (merge->fragments[target] && filled[target] < tensor->piece_count)
			lengths[tensor->first_piece + filled[target]++] =
				fsdp_model_ints(model, old_shapes[merge->order[i]])[0];
	}
	FSDP_EACH(i, count, tensor, fsdp_model_tensor(model, i))
		if (merge->fragments[i] && merge->target[i] == i &&
			tensor->piece_count != 0)
			line_up(model, tensor, lengths + tensor->first_piece);
}

/* Takes out the tensors that became part of others or of nothing. */
static void compact(struct merge *merge, struct fsdp_arena *scratch)
{
	struct fsdp_model *model = merge->model;
	uint32_t at = 0, count = (uint32_t)model->tensors.count;
	uint32_t *moved = FSDP_TAKE(scratch, moved, (size_t)count + 1);
	for (uint32_t i = 0; i < count; i++) {
		if (merge->target[i] != i)
			continue;
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, at);
		*tensor = *fsdp_model_tensor(model, i);
		tensor->storage_next = at;
		for (uint32_t k = 0; k < tensor->piece_count; k++)
			fsdp_model_piece(model, tensor->first_piece + k)->tensor = at;
		moved[i] = at++;
	}
	fsdp_vec_truncate(&model->tensors, at);
	/* Components have new numbers, or went with the tensor they are of. */
	FSDP_EACH(i, model->extras.count, extra, fsdp_model_extra(model, i)) {
		uint32_t first = extra->first_component;
		if (extra->component_count == 0)
			continue;
		if (merge->target[first] == first)
			extra->first_component = moved[first];
		else
			extra->component_count = 0;
	}
}

/* ---- values ---- */

static bool same_value(
	const struct fsdp_value_record *a, const struct fsdp_value_record *b)
{
	if (a->token_count != b->token_count)
		return false;
	for (uint32_t i = 0; i < a->token_count; i++)
		if (a->tokens[i].kind != b->tokens[i].kind ||
			a->tokens[i].count != b->tokens[i].count ||
			a->tokens[i].integer != b->tokens[i].integer ||
			memcmp(&a->tokens[i].number, &b->tokens[i].number,
				sizeof a->tokens[i].number) != 0 ||
			!fsdp_span_equal(a->tokens[i].text, b->tokens[i].text))
			return false;
	return true;
}

static bool counts_progress(
	const struct fsdp_model *model, const struct fsdp_value_record *value)
{
	static const char *const words[] = { "step", "global_step", "global_steps",
		"epoch", "iteration" };
	struct fsdp_span word = fsdp_names_segment(&model->names, value->name);
	if (value->token_count != 1 || (value->tokens->kind != FSDP_TOKEN_INTEGER &&
					       value->tokens->kind != FSDP_TOKEN_FLOAT))
		return false;
	for (size_t i = 0; i < FSDP_COUNT(words); i++)
		if (word.size == strlen(words[i]) &&
			memcmp(word.data, words[i], word.size) == 0)
			return true;
	return false;
}

static void write_number(const struct fsdp_token *token, char *text, size_t size)
{
	if (token->kind == FSDP_TOKEN_FLOAT)
		snprintf(text, size, "%g", token->number);
	else
		snprintf(text, size, "%lld", (long long)token->integer);
}

/*
 * A value that every rank has is shown once; those that differ from the first one stay,
 * each with its rank.
 */
static void merge_values(
	struct fsdp_model *model, uint32_t *first, struct fsdp_arena *scratch)
{
	size_t at = 0;
	uint32_t index = 0;
	const struct fsdp_file_record *file = NULL;
	FSDP_EACH(i, model->values.count, value, *fsdp_model_value(model, i)) {
		while (index < model->files.count) {
			const struct fsdp_file_record *next =
				fsdp_model_file(model, index);
			if (next->first_value > i)
				break;
			file = next;
			index++;
		}
		if (file != NULL && file->left_out)
			continue;
		uint32_t known = first[value.raw_name];
		if (known != FSDP_NONE) {
			const struct fsdp_value_record *same =
				fsdp_model_value(model, known);
			if (same_value(same, &value))
				continue;
			if (file != NULL && counts_progress(model, &value) &&
				same->token_count == 1) {
				char ours[32], theirs[32];
				struct fsdp_span name =
					fsdp_model_name(model, value.name, scratch);
				write_number(value.tokens, ours, sizeof ours);
				write_number(same->tokens, theirs, sizeof theirs);
				fsdp_find(&model->findings, FSDP_RULE_STEP_DISAGREES,
					FSDP_PLACE(.file = file->path,
						.rank = value.rank),
					"%.*s is %s here, %s in the file of rank %u",
					FSDP_TEXT(name), ours, theirs, same->rank);
			}
		} else {
			first[value.raw_name] = (uint32_t)at;
		}
		*fsdp_model_value(model, at++) = value;
	}
	fsdp_vec_truncate(&model->values, at);
}

static void merge_tensors(struct merge *merge, struct fsdp_arena *scratch)
{
	struct fsdp_model *model = merge->model;
	uint32_t count = (uint32_t)model->tensors.count;
	fsdp_ints *shapes = FSDP_TAKE(scratch, shapes, (size_t)count + 1);
	bool flat = false;
	for (uint32_t i = 0; i < count; i++) {
		flat |= (fsdp_model_tensor(model, i)->flags & FSDP_TENSOR_FLATTENED) != 0;
		merge->target[i] = i;
		shapes[i] = fsdp_model_tensor(model, i)->shape;
	}
	/* Tensors of skipped files, and the parts of structured ones among them, are
	 * removed. */
	FSDP_EACH(i, (uint32_t)model->files.count, file, fsdp_model_file(model, i)) {
		const struct fsdp_file_record *next =
			i + 1 < model->files.count ? fsdp_model_file(model, i + 1) : NULL;
		uint32_t end = next != NULL ? next->first_tensor
					    : (uint32_t)model->tensors.count;
		for (uint32_t k = file->first_tensor; k < end; k++) {
			merge->file[k] = i;
			if (file->left_out)
				merge->target[k] = FSDP_NONE;
		}
	}
	if (model->are_unproven && !flat)
		part_slices(merge, scratch);
	for (uint32_t i = 0; i < count; i++)
		if (merge->target[i] != FSDP_NONE &&
			!(fsdp_model_tensor(model, i)->flags & FSDP_TENSOR_COMPONENT))
			meet(merge, i, flat, scratch);
	keep_backed(merge, scratch);
	/* Files come in order of their names, where rank 10 is before rank 2. */
	uint64_t *keys = FSDP_TAKE(scratch, keys, (size_t)count + 1);
	bool sorted = true;
	merge->order = FSDP_TAKE(scratch, merge->order, (size_t)count + 1);
	for (uint32_t i = 0; i < count; i++) {
		keys[i] = (uint64_t)file_of(merge, i)->rank << 32 | i;
		sorted &= i == 0 || keys[i - 1] < keys[i];
	}
	if (!sorted)
		FSDP_SORT(keys, count, FSDP_BY_VALUE(keys));
	for (uint32_t i = 0; i < count; i++)
		merge->order[i] = (uint32_t)keys[i];
	check_shares(merge, scratch);
	regroup(merge, scratch);
	line_up_runs(merge, shapes, scratch);
	compact(merge, scratch);
}

void fsdp_freeze_merge(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	if (!model->is_set)
		return;
	size_t names = model->names.list.count;
	size_t count = model->tensors.count;
	struct merge merge = {
		.model = model,
		.first = FSDP_TAKE(scratch, merge.first, names),
		.target = FSDP_TAKE(scratch, merge.target, count + 1),
		.file = FSDP_TAKE(scratch, merge.file, count + 1),
		.fragments = fsdp_arena_take(scratch, count + 1, 1),
	};
	memset(merge.first, 0xff, names * sizeof *merge.first);
	merge_tensors(&merge, scratch);
	memset(merge.first, 0xff, names * sizeof *merge.first);
	merge_values(model, merge.first, scratch);
}
