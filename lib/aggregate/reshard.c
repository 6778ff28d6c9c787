/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shards of another world size: along which dimension a tensor is cut (as it is
 * saved, else by its name), tensor parallelism, flat parameters, and the bytes that each
 * rank holds and reads.
 */
#include <fsdp/analysis.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "aggregate/aggregate.h"
#include "base/error.h"
#include "base/num.h"
#include "base/span.h"

/* How one tensor would be cut: by tensor parallelism first, then among the shards. */
struct fsdp_new_cut {
	bool is_cut;
	uint32_t dim;    /* among the shards */
	uint32_t tp_dim; /* FSDP_NONE: whole on all ranks of tensor parallelism */
	bool tp_unknown; /* it may be sharded, in an unknown dimension */
};

/* A run of rows: what one rank has of a dimension. */
struct fsdp_rows {
	int64_t start, count;
};

/* Rows of part `index` of `parts` by torch.chunk. */
struct fsdp_rows fsdp_chunk(struct fsdp_rows rows, uint32_t parts, uint32_t index);

/* How the parameters of a checkpoint were cut. */
struct fsdp_old_cuts {
	bool some;      /* some are in several pieces */
	bool along_0;   /* some along dimension 0 and no other */
	bool along_one; /* some along one other dimension */
	bool along_two; /* some along two */
};

/* Adds what the pieces of one parameter show. */
void fsdp_note_old_cut(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *param, struct fsdp_old_cuts *cuts);

struct fsdp_new_cut fsdp_cut_of(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, const struct fsdp_reshard_options *options,
	const struct fsdp_old_cuts *old, struct fsdp_span name);

/* Whether a tensor has pieces that hold parts of it. */
bool fsdp_is_in_parts(
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_tensor *tensor);

struct fsdp_rows fsdp_chunk(struct fsdp_rows rows, uint32_t parts, uint32_t index)
{
	int64_t length = rows.count / parts + (rows.count % parts != 0);
	int64_t start = (int64_t)fsdp_min(
		(uint64_t)rows.count, (uint64_t)length * (uint64_t)index);
	int64_t left = rows.count - start;
	return (struct fsdp_rows){ rows.start + start, left < length ? left : length };
}

bool fsdp_is_in_parts(
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_tensor *tensor)
{
	FSDP_EACH(i, tensor->piece_count, piece,
		fsdp_piece(checkpoint, tensor->first_piece + i)) {
		if (piece.is_run && piece.param_numel < tensor->numel)
			return true;
		for (uint32_t k = 0;
			!piece.is_run && piece.sizes != NULL && k < tensor->dims; k++)
			if (piece.sizes[k] != tensor->shape[k])
				return true;
	}
	return false;
}

/* The dimensions that the boxes of pieces are shorter in, at most two of them. */
static uint32_t find_cut_dims(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, uint32_t dims[2])
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < tensor->piece_count && count < 2; i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, tensor->first_piece + i);
		for (uint32_t k = 0; piece.sizes != NULL && k < tensor->dims; k++)
			if (piece.sizes[k] != tensor->shape[k] && count < 2 &&
				(count == 0 || dims[0] != k))
				dims[count++] = k;
	}
	return count;
}

void fsdp_note_old_cut(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *param, struct fsdp_old_cuts *cuts)
{
	uint32_t dims[2] = { 0, 0 }, count = find_cut_dims(checkpoint, param, dims);
	cuts->some |= fsdp_is_in_parts(checkpoint, param);
	cuts->along_0 |= count == 1 && dims[0] == 0;
	cuts->along_one |= count == 1 && dims[0] != 0;
	cuts->along_two |= count == 2;
}

/* ---- tensor parallelism ---- */

/* FSDP alone cuts all along one dimension, and what it shares with tensor parallelism is
 * cut along two where they differ. */
static bool was_tp_alone(const struct fsdp_old_cuts *old)
{
	return old->along_0 && old->along_one && !old->along_two;
}

/* Modules whose weights the usual plans cut: columns of y = xW are dimension 0 of it. */
static uint32_t tp_dim_of_name(struct fsdp_span name)
{
	struct fsdp_span rest = name;
	while (true) {
		struct fsdp_span word = fsdp_span_first(rest, '.');
		if (fsdp_span_is_any(word,
			    "q_proj k_proj v_proj gate_proj up_proj wq wk wv w1 w3 "
			    "linear_qkv linear_fc1 embed_tokens tok_embeddings "
			    "word_embeddings lm_head output output_layer"))
			return 0;
		if (fsdp_span_is_any(
			    word, "o_proj down_proj wo w2 linear_proj linear_fc2"))
			return 1;
		if (word.size == rest.size)
			return FSDP_NONE;
		rest = fsdp_span(rest.data + word.size + 1, rest.size - word.size - 1);
	}
}

/* On the mesh dimension "tp"; FSDP_NONE: no such dimension, or it does not shard.
 * *ret_told: it exists. */
static uint32_t tp_dim_of_placement(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, bool *ret_told)
{
	*ret_told = false;
	if (tensor->placement == FSDP_NONE)
		return FSDP_NONE;
	struct fsdp_placement placement = fsdp_placement(checkpoint, tensor->placement);
	if (placement.mesh == FSDP_NONE)
		return FSDP_NONE;
	struct fsdp_mesh mesh = fsdp_mesh(checkpoint, placement.mesh);
	for (uint32_t i = 0; mesh.dim_names != NULL && i < mesh.dims; i++) {
		if (!fsdp_span_is(mesh.dim_names[i], "tp") || i >= placement.count)
			continue;
		*ret_told = true;
		/* "Shard(dim=1)", "_StridedShard(dim=0, …)": the number after "dim=". */
		struct fsdp_span text = placement.texts[i];
		const unsigned char *found =
			text.data != NULL ? memmem(text.data, text.size, "Shard(dim=", 10)
					  : NULL;
		const unsigned char *end = text.data + text.size;
		uint32_t dim = 0;
		if (found == NULL || found + 10 == end)
			return FSDP_NONE;
		for (found += 10; found < end && fsdp_is_digit(*found); found++)
			dim = dim < FSDP_DIMS_MAX ? dim * 10 + (*found - '0') : dim;
		return dim;
	}
	return FSDP_NONE;
}

struct fsdp_new_cut fsdp_cut_of(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, const struct fsdp_reshard_options *options,
	const struct fsdp_old_cuts *old, struct fsdp_span name)
{
	struct fsdp_new_cut cut = { .tp_dim = FSDP_NONE };
	uint32_t dims[2] = { 0, 0 }, count;
	if (tensor->dims == 0 ||
		(tensor->role != FSDP_ROLE_PARAM && tensor->role != FSDP_ROLE_OPTIM))
		return cut;
	/* A parameter that could have been sharded like others and was not will not be
	 * sharded either. A parameter with a single row is in one piece in any case;
	 * the same holds for one that only tensor parallelism leaves to all ranks. */
	if (!fsdp_is_in_parts(checkpoint, tensor) && old->some && !was_tp_alone(old) &&
		tensor->shape[0] > 1)
		return cut;
	cut.is_cut = true;
	count = find_cut_dims(checkpoint, tensor, dims);
	if (options->shard_dim >= 0 && (uint32_t)options->shard_dim < tensor->dims)
		cut.dim = (uint32_t)options->shard_dim;
	else if (options->shard_dim < 0 && count == 1 && !was_tp_alone(old))
		cut.dim = dims[0];
	if (options->tp > 1) {
		bool known;
		uint32_t dim = tp_dim_of_placement(checkpoint, tensor, &known);
		if (!known && count == 1 && was_tp_alone(old))
			dim = dims[0];
		else if (!known)
			dim = count == 2 ? (dims[0] == cut.dim ? dims[1] : dims[0])
					 : tp_dim_of_name(name);
		/* A bias of what is cut by rows is added once, so it is whole. */
		if (dim != FSDP_NONE && dim < tensor->dims)
			cut.tp_dim = dim;
		cut.tp_unknown = !known && dim == FSDP_NONE && tensor->dims > 1;
	}
	return cut;
}

/*
 * Computes the shards and reads of the ranks of another world size.
 */

enum { BITMAP_MOST = 256 << 20 };

/* A FlatParameter with new cuts. */
struct flat {
	struct fsdp_flat facts;
	uint64_t numel, shard_numel; /* without what fills shards up; of each rank */
	uint64_t item_bytes;         /* of what is stored */
	bool pads_states; /* the optimizer sees the flat parameter, not what is in it */
	uint64_t state_bytes; /* for each element, of states that are cut like it */
};

struct fsdp_reshard {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_reshard_options options;
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_scratch name, entry_name;
	uint32_t shards; /* ranks that share what one rank of tensor parallelism has */
	size_t cells;    /* ranks that are not copies: shard * tp + t */
	struct fsdp_reshard_rank *ranks; /* one per cell */
	size_t files;
	unsigned char *opened;  /* bits: cell * files + file; NULL: not known */
	struct flat *flats;     /* one per unit; entry_count 0: none */
	uint32_t *params;       /* by tensor: the parameter that it is a state of */
	struct fsdp_vec uneven; /* struct uneven */
	struct fsdp_replicas *replicas;
	struct fsdp_reshard_facts facts;
	struct fsdp_old_cuts old;
	bool dim_known, failed;
};

struct uneven {
	uint32_t tensor;
	struct fsdp_new_cut cut;
	uint32_t cells; /* that have some of it */
};

static void hold(struct fsdp_reshard *reshard, size_t cell,
	const struct fsdp_tensor *tensor, uint64_t numel)
{
	uint64_t bytes = fsdp_elements_bytes(tensor->dtype, numel);
	struct fsdp_reshard_rank *rank = &reshard->ranks[cell];
	fsdp_tally(tensor->role == FSDP_ROLE_OPTIM   ? &rank->optim_bytes
		   : tensor->role == FSDP_ROLE_OTHER ? &rank->other_bytes
						     : &rank->param_bytes,
		bytes);
}

/* ---- flat parameters ---- */

/* Position of a parameter in the flat parameter of its unit; false: in none. */
static bool find_entry(struct fsdp_reshard *reshard, uint32_t param,
	struct flat **ret_flat, struct fsdp_flat_entry *ret_entry)
{
	struct fsdp_tensor tensor = fsdp_tensor(reshard->checkpoint, param);
	struct fsdp_span name;
	if (tensor.unit == FSDP_NONE || reshard->flats[tensor.unit].shard_numel == 0)
		return false;
	*ret_flat = &reshard->flats[tensor.unit];
	name = fsdp_scratch_name(&reshard->name, reshard->checkpoint, tensor.name);
	for (uint32_t i = 0; i < (*ret_flat)->facts.entry_count; i++) {
		*ret_entry = fsdp_flat_entry(reshard->checkpoint, &(*ret_flat)->facts, i);
		/* Whether a name is the entry's, maybe below the container of a
		 * checkpoint. */
		if (ret_entry->fqn != FSDP_NONE && ret_entry->numel == tensor.numel) {
			struct fsdp_span entry = fsdp_scratch_name(&reshard->entry_name,
				reshard->checkpoint, ret_entry->fqn);
			if (fsdp_span_ends(name, entry) &&
				(name.size == entry.size ||
					name.data[name.size - entry.size - 1] == '.'))
				return true;
		}
	}
	return false;
}

/* Elements of [start, start + numel) in a rank's shard. */
static uint64_t in_shard(
	const struct flat *flat, uint32_t rank, uint64_t start, uint64_t numel)
{
	uint64_t begin = rank * flat->shard_numel, end = begin + flat->shard_numel;
	uint64_t from = start > begin ? start : begin;
	uint64_t to = fsdp_min(start + numel, end);
	return from < to ? to - from : 0;
}

static bool keep_flat(
	struct fsdp_reshard *reshard, const struct fsdp_tensor *tensor, uint32_t param)
{
	struct flat *flat;
	struct fsdp_flat_entry entry;
	if (!find_entry(reshard, param, &flat, &entry) || tensor->numel != entry.numel)
		return false;
	for (uint32_t i = 0; i < reshard->shards; i++)
		hold(reshard, i, tensor, in_shard(flat, i, entry.start, entry.numel));
	if (tensor->role == FSDP_ROLE_PARAM)
		flat->item_bytes = fsdp_elements_bytes(tensor->dtype, 1);
	else if (entry.start == 0)
		flat->state_bytes += fsdp_elements_bytes(tensor->dtype, 1);
	return true;
}

static bool find_flats(struct fsdp_reshard *reshard)
{
	const struct fsdp_checkpoint *checkpoint = reshard->checkpoint;
	size_t count = fsdp_unit_count(checkpoint);
	reshard->flats = calloc(count + 1, sizeof *reshard->flats);
	if (reshard->flats == NULL)
		return false;
	FSDP_EACH(i, (uint32_t)count, flat, &reshard->flats[i]) {
		struct fsdp_unit unit = fsdp_unit(checkpoint, i);
		if (reshard->options.tp > 1 || reshard->options.shard_dim >= 0 ||
			!fsdp_unit_flat(checkpoint, i, &flat->facts))
			continue;
		/* The padding after the last parameter depends on the world size it was
		 * made for. */
		uint64_t numel = 0;
		FSDP_EACH(k, flat->facts.entry_count, entry,
			fsdp_flat_entry(checkpoint, &flat->facts, k))
			if (entry.fqn != FSDP_NONE)
				numel = entry.start + entry.numel;
		flat->numel = numel;
		flat->shard_numel = flat->numel / reshard->shards +
				    (flat->numel % reshard->shards != 0);
		flat->pads_states = unit.use_orig_params == 0;
		reshard->facts.flat_units += flat->shard_numel != 0;
	}
	return true;
}

static void add_padding(struct fsdp_reshard *reshard)
{
	size_t count = fsdp_unit_count(reshard->checkpoint);
	FSDP_EACH(i, count, flat, &reshard->flats[i]) {
		uint64_t each =
			flat->item_bytes + (flat->pads_states ? flat->state_bytes : 0);
		for (uint32_t k = 0; flat->shard_numel != 0 && k < reshard->shards; k++) {
			/* Elements of parameters in a rank's shard; all others are
			 * padding. */
			uint64_t used = 0;
			FSDP_EACH(j, flat->facts.entry_count, entry,
				fsdp_flat_entry(reshard->checkpoint, &flat->facts, j))
				if (entry.fqn != FSDP_NONE)
					used += in_shard(
						flat, k, entry.start, entry.numel);
			uint64_t bytes;
			fsdp_tally(&reshard->ranks[k].padding_bytes,
				fsdp_mul(flat->shard_numel -
						 fsdp_min(used, flat->shard_numel),
					each, &bytes)
					? bytes
					: FSDP_UNKNOWN);
		}
	}
}

/* ---- tensors that are cut by themselves ---- */

/* The part of dimension `dim` that one cell has. */
static struct fsdp_rows rows_of(const struct fsdp_reshard *reshard,
	const struct fsdp_tensor *tensor, const struct fsdp_new_cut *cut, uint32_t dim,
	size_t cell)
{
	struct fsdp_rows rows = { 0, tensor->shape[dim] };
	if (!cut->is_cut)
		return rows;
	if (dim == cut->tp_dim)
		rows = fsdp_chunk(rows, reshard->options.tp,
			(uint32_t)(cell % reshard->options.tp));
	if (dim == cut->dim)
		rows = fsdp_chunk(
			rows, reshard->shards, (uint32_t)(cell / reshard->options.tp));
	return rows;
}

static uint64_t numel_of(const struct fsdp_reshard *reshard,
	const struct fsdp_tensor *tensor, const struct fsdp_new_cut *cut, size_t cell)
{
	uint64_t numel = 1;
	for (uint32_t i = 0; i < tensor->dims; i++)
		numel *= (uint64_t)rows_of(reshard, tensor, cut, i, cell).count;
	return numel;
}

static bool meets(struct fsdp_rows rows, int64_t offset, int64_t size)
{
	return rows.count > 0 && size > 0 && offset < rows.start + rows.count &&
	       rows.start < offset + size;
}

/* Of a run of elements: whether it holds some of these rows of the first dimension. */
static bool run_meets(const struct fsdp_piece *piece, const struct fsdp_tensor *tensor,
	struct fsdp_rows rows)
{
	uint64_t row = tensor->dims > 0 && tensor->shape[0] > 0
			       ? tensor->numel / (uint64_t)tensor->shape[0]
			       : 1;
	uint64_t begin = (uint64_t)rows.start * row;
	return piece->param_numel > 0 && rows.count > 0 &&
	       piece->param_start < begin + (uint64_t)rows.count * row &&
	       begin < piece->param_start + piece->param_numel;
}

static bool is_needed(const struct fsdp_reshard *reshard,
	const struct fsdp_tensor *tensor, const struct fsdp_new_cut *cut,
	const struct fsdp_piece *piece, size_t cell)
{
	FSDP_EACH(i, tensor->dims, rows, rows_of(reshard, tensor, cut, i, cell)) {
		if (piece->is_run
				? i == 0 && !run_meets(piece, tensor, rows)
				: !meets(rows,
					  piece->offsets != NULL ? piece->offsets[i] : 0,
					  piece->sizes != NULL ? piece->sizes[i]
							       : tensor->shape[i]))
			return false;
	}
	return true;
}

/* The cells that may need a piece: those of the rows that it has of the dimension that is
 * cut. */
static void cells_near(const struct fsdp_reshard *reshard,
	const struct fsdp_tensor *tensor, const struct fsdp_new_cut *cut,
	const struct fsdp_piece *piece, size_t ret_range[2])
{
	uint32_t tp = reshard->options.tp;
	ret_range[0] = 0;
	ret_range[1] = reshard->cells;
	if (!cut->is_cut || cut->tp_dim == cut->dim || piece->is_run ||
		piece->offsets == NULL || tensor->shape[cut->dim] <= 0)
		return;
	int64_t length = fsdp_chunk(
		(struct fsdp_rows){ 0, tensor->shape[cut->dim] }, reshard->shards, 0)
				 .count;
	ret_range[0] = (size_t)(piece->offsets[cut->dim] / length) * tp;
	ret_range[1] =
		((size_t)((piece->offsets[cut->dim] + piece->sizes[cut->dim]) / length) +
			1) *
		tp;
	if (ret_range[1] > reshard->cells)
		ret_range[1] = reshard->cells;
}

/* A box comes from the file: an impossible one belongs to no rank. */
static bool is_sane(const struct fsdp_piece *piece)
{
	for (uint32_t i = 0; piece->offsets != NULL && i < piece->dims; i++)
		if (piece->offsets[i] < 0 || piece->sizes[i] < 0 ||
			piece->offsets[i] > INT64_MAX - piece->sizes[i])
			return false;
	return true;
}

static void read_tensor(struct fsdp_reshard *reshard, const struct fsdp_tensor *tensor,
	const struct fsdp_new_cut *cut)
{
	bool in_parts = fsdp_is_in_parts(reshard->checkpoint, tensor), some;
	size_t near[2];
	if (!fsdp_replicas_find(reshard->replicas, tensor, &some, NULL))
		reshard->failed = true;
	for (uint32_t i = 0; i < tensor->piece_count && !reshard->failed; i++) {
		uint32_t index = tensor->first_piece + i;
		struct fsdp_piece piece = fsdp_piece(reshard->checkpoint, index);
		uint32_t number = fsdp_replicas_number(reshard->replicas, i);
		/* Replicas are read once. */
		if (!is_sane(&piece) ||
			(in_parts ? number != FSDP_NONE && number > 0 : i > 0))
			continue;
		cells_near(reshard, tensor, cut, &piece, near);
		for (size_t k = near[0]; k < near[1]; k++)
			if (is_needed(reshard, tensor, cut, &piece, k)) {
				uint32_t rank;
				uint64_t numel = fsdp_piece_numel(
					reshard->checkpoint, index, &rank);
				fsdp_tally(&reshard->ranks[k].read_bytes,
					fsdp_elements_bytes(tensor->dtype, numel));
				reshard->ranks[k].pieces++;
				size_t bit = k * reshard->files + piece.file;
				if (reshard->opened == NULL ||
					piece.file >= reshard->files ||
					(reshard->opened[bit / 8] >> bit % 8 & 1) != 0)
					continue;
				reshard->opened[bit / 8] |= (unsigned char)(1 << bit % 8);
				reshard->ranks[k].files++;
			}
	}
}

static void add_tensor(struct fsdp_reshard *reshard, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(reshard->checkpoint, index);
	uint32_t param = tensor.role == FSDP_ROLE_OPTIM ? reshard->params[index] : index;
	struct fsdp_new_cut cut;
	if (!fsdp_tensor_counts(&tensor) || (tensor.flags & FSDP_TENSOR_RANKS_OWN) != 0)
		return;
	cut = fsdp_cut_of(reshard->checkpoint, &tensor, &reshard->options, &reshard->old,
		fsdp_scratch_name(&reshard->name, reshard->checkpoint, tensor.name));
	reshard->facts.cut += cut.is_cut;
	reshard->facts.whole += !cut.is_cut;
	reshard->facts.tp_unknown += cut.tp_unknown;
	if (cut.is_cut) {
		if (reshard->dim_known && reshard->facts.shard_dim != (int32_t)cut.dim)
			reshard->facts.shard_dim = FSDP_RESHARD_AUTO;
		else if (!reshard->dim_known)
			reshard->facts.shard_dim = (int32_t)cut.dim;
		reshard->dim_known = true;
	}
	if (!cut.is_cut || param == FSDP_NONE || !keep_flat(reshard, &tensor, param)) {
		uint64_t largest = numel_of(reshard, &tensor, &cut, 0);
		bool is_uneven = false, is_refused = false;
		uint32_t some = 0;
		for (size_t i = 0; i < reshard->cells; i++) {
			uint64_t numel = numel_of(reshard, &tensor, &cut, i);
			uint64_t first =
				numel_of(reshard, &tensor, &cut, i % reshard->options.tp);
			hold(reshard, i, &tensor, numel);
			if (cut.is_cut) {
				/* FSDP2 makes the storage of each parameter as long as
				 * that of the first rank. */
				if (tensor.role == FSDP_ROLE_PARAM && first > numel)
					fsdp_tally(&reshard->ranks[i].padding_bytes,
						fsdp_elements_bytes(
							tensor.dtype, first - numel));
			}
			some += numel != 0;
			is_uneven |= numel != largest;
			is_refused |= numel != first && cut.dim != 0;
		}
		reshard->facts.refused += is_refused;
		if (is_uneven) {
			struct uneven *uneven = fsdp_vec_push(&reshard->uneven);
			reshard->failed |= uneven == NULL;
			if (uneven != NULL)
				*uneven = (struct uneven){ index, cut, some };
		}
	}
	read_tensor(reshard, &tensor, &cut);
}

/* ---- making ---- */

/* Parameter of each state, for those in flat parameters. */
static bool find_params(struct fsdp_reshard *reshard, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = reshard->checkpoint;
	size_t count = fsdp_tensor_count(checkpoint), wanted = 0, found;
	uint32_t *params = malloc((count + 1) * sizeof *params);
	struct fsdp_optimizer_states *states = NULL;
	bool good = params != NULL;
	reshard->params = calloc(count + 1, sizeof *reshard->params);
	good = good && reshard->params != NULL;
	for (uint32_t i = 0; i < count && good; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		reshard->params[i] = FSDP_NONE;
		if (tensor.role == FSDP_ROLE_PARAM)
			fsdp_note_old_cut(checkpoint, &tensor, &reshard->old);
		if (tensor.role == FSDP_ROLE_PARAM && tensor.unit != FSDP_NONE)
			params[wanted++] = i;
	}
	if (good && reshard->facts.flat_units != 0 &&
		fsdp_optimizer_states_new(checkpoint, params, wanted, &states, NULL)) {
		FSDP_EACH(i, wanted, of,
			fsdp_optimizer_states_of(states, params[i], &found)) {
			for (size_t k = 0; k < found; k++)
				reshard->params[of[k].tensor] = params[i];
		}
	} else if (reshard->facts.flat_units != 0) {
		good = false;
	}
	fsdp_optimizer_states_free(states);
	free(params);
	return good || fsdp_fail_memory(ret_error);
}

/* More files than are worth telling apart are only not known. */
static bool make_bitmap(struct fsdp_reshard *reshard)
{
	uint64_t bits;
	reshard->files = fsdp_file_count(reshard->checkpoint);
	if (!fsdp_mul(reshard->cells, reshard->files, &bits) || bits / 8 >= BITMAP_MOST)
		return true;
	reshard->opened = calloc(bits / 8 + 1, 1);
	return reshard->opened != NULL;
}

static bool begin(struct fsdp_reshard *reshard, struct fsdp_error **ret_error)
{
	struct fsdp_reshard_options *options = &reshard->options;
	options->copies += options->copies == 0;
	options->tp += options->tp == 0;
	if (options->world == 0 || options->world > FSDP_RESHARD_WORLD_MOST ||
		options->tp > options->world || options->copies > options->world ||
		options->world % options->tp != 0 ||
		options->world / options->tp % options->copies != 0)
		return fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"%u ranks are not a multiple of the copies times tensor parallelism",
			options->world);
	reshard->shards = options->world / options->tp / options->copies;
	reshard->cells = (size_t)reshard->shards * options->tp;
	reshard->facts.shard_dim = FSDP_RESHARD_AUTO;
	reshard->ranks = calloc(reshard->cells, sizeof *reshard->ranks);
	return (reshard->ranks != NULL && make_bitmap(reshard) && find_flats(reshard)) ||
	       fsdp_fail_memory(ret_error);
}

bool fsdp_reshard_new(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_reshard_options *options, struct fsdp_reshard **ret_reshard,
	struct fsdp_error **ret_error)
{
	struct fsdp_reshard *reshard = calloc(1, sizeof *reshard);
	size_t count = fsdp_tensor_count(checkpoint);
	if (reshard == NULL)
		return fsdp_fail_memory(ret_error);
	reshard->checkpoint = checkpoint;
	reshard->options = *options;
	reshard->budget.ceiling = UINT64_MAX;
	fsdp_arena_init_lean(&reshard->arena, &reshard->budget);
	reshard->name.arena = reshard->entry_name.arena = &reshard->arena;
	fsdp_vec_init(&reshard->uneven, &reshard->arena, sizeof(struct uneven));
	if (!begin(reshard, ret_error) || !find_params(reshard, ret_error) ||
		!fsdp_replicas_new(checkpoint, &reshard->replicas, ret_error)) {
		fsdp_reshard_free(reshard);
		return false;
	}
	for (uint32_t i = 0; i < count; i++)
		add_tensor(reshard, i);
	add_padding(reshard);
	struct fsdp_reshard_facts *facts = &reshard->facts;
	FSDP_EACH(i, reshard->options.world, rank, fsdp_reshard_rank(reshard, i)) {
		fsdp_tally(&facts->needed_bytes, rank.param_bytes);
		fsdp_tally(&facts->needed_bytes, rank.optim_bytes);
		fsdp_tally(&facts->needed_bytes, rank.other_bytes);
		fsdp_tally(&facts->read_bytes, rank.read_bytes);
	}
	if (reshard->failed || reshard->name.failed || reshard->entry_name.failed) {
		fsdp_reshard_free(reshard);
		return fsdp_fail_memory(ret_error);
	}
	*ret_reshard = reshard;
	return true;
}

void fsdp_reshard_free(struct fsdp_reshard *reshard)
{
	if (reshard == NULL)
		return;
	free(reshard->ranks);
	free(reshard->opened);
	free(reshard->flats);
	free(reshard->params);
	fsdp_replicas_free(reshard->replicas);
	fsdp_arena_done(&reshard->arena);
	free(reshard);
}

/* ---- asking ---- */

/* Copies are adjacent. */
static size_t cell_of(const struct fsdp_reshard *reshard, uint32_t rank)
{
	return rank % reshard->cells;
}

struct fsdp_reshard_rank fsdp_reshard_rank(
	const struct fsdp_reshard *reshard, uint32_t rank)
{
	struct fsdp_reshard_rank facts = reshard->ranks[cell_of(reshard, rank)];
	if (reshard->opened == NULL)
		facts.files = FSDP_NONE;
	return facts;
}

uint32_t fsdp_reshard_file(
	const struct fsdp_reshard *reshard, uint32_t rank, uint32_t *position)
{
	size_t first = cell_of(reshard, rank) * reshard->files;
	while (reshard->opened != NULL && *position < reshard->files) {
		size_t bit = first + (*position)++;
		if ((reshard->opened[bit / 8] >> bit % 8 & 1) != 0)
			return *position - 1;
	}
	return FSDP_NONE;
}

size_t fsdp_reshard_uneven_count(const struct fsdp_reshard *reshard)
{
	return reshard->uneven.count;
}

struct fsdp_reshard_cut fsdp_reshard_uneven(
	const struct fsdp_reshard *reshard, size_t index)
{
	const struct uneven *uneven = fsdp_vec_at(&reshard->uneven, index);
	return (struct fsdp_reshard_cut){ uneven->tensor, uneven->cut.dim,
		uneven->cells * reshard->options.copies };
}

bool fsdp_reshard_is_empty(
	const struct fsdp_reshard *reshard, size_t index, uint32_t rank)
{
	const struct uneven *uneven = fsdp_vec_at(&reshard->uneven, index);
	struct fsdp_tensor tensor = fsdp_tensor(reshard->checkpoint, uneven->tensor);
	return numel_of(reshard, &tensor, &uneven->cut, cell_of(reshard, rank)) == 0;
}

struct fsdp_reshard_facts fsdp_reshard_facts(const struct fsdp_reshard *reshard)
{
	return reshard->facts;
}
