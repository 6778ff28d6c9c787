/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The overview that `info` prints: totals by role, kinds of optimizer states and of
 * sharding, averages of a model. Before it, units inferred from blocks that repeat below
 * a sharded module.
 */
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>

#include "aggregate/aggregate.h"
#include "base/error.h"
#include "base/names.h"

struct fsdp_inferred_units {
	const struct fsdp_checkpoint *checkpoint;
	size_t count;
	uint32_t *ends; /* per visit: end of the visits below it */
	bool *sharded;  /* of each: at or below a unit that was inferred */
	bool *blocks;   /* of each: what was found */
	bool *number;   /* of each that is sharded: it is called by a number */
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_scratch name, other;
};

static struct fsdp_span name_of(
	struct fsdp_inferred_units *likely, struct fsdp_scratch *scratch, uint32_t index)
{
	return fsdp_scratch_name(
		scratch, likely->checkpoint, fsdp_module(likely->checkpoint, index).name);
}

/* Whether some visit is sharded. */
static bool look_at_visits(struct fsdp_inferred_units *likely)
{
	bool some = false;
	FSDP_EACH(
		i, (uint32_t)likely->count, module, fsdp_module(likely->checkpoint, i)) {
		bool above = module.parent < i && likely->sharded[module.parent];
		likely->sharded[i] =
			above || (module.unit != FSDP_NONE && module.unit_inferred);
		likely->number[i] =
			likely->sharded[i] && fsdp_ends_with_number(fsdp_name_last(
						      likely->checkpoint, module.name));
		likely->ends[i] = i + 1;
		some |= likely->sharded[i];
	}
	for (size_t i = likely->count; i-- > 0;) {
		uint32_t parent = fsdp_module(likely->checkpoint, (uint32_t)i).parent;
		if (parent < i && likely->ends[parent] < likely->ends[i])
			likely->ends[parent] = likely->ends[i];
	}
	return some;
}

/* A name without the prefix of its block. */
static struct fsdp_span below(struct fsdp_span name, size_t block)
{
	size_t skip = block < name.size ? block : name.size;
	return (struct fsdp_span){ name.data + skip, name.size - skip };
}

/* Modules of the same names that hold as many tensors. */
static bool are_alike(struct fsdp_inferred_units *likely, uint32_t a, uint32_t b)
{
	uint32_t size = likely->ends[a] - a;
	size_t left = name_of(likely, &likely->name, a).size,
	       right = name_of(likely, &likely->other, b).size;
	if (likely->ends[b] - b != size)
		return false;
	FSDP_EACH(i, size, one, fsdp_module(likely->checkpoint, a + i)) {
		struct fsdp_module two = fsdp_module(likely->checkpoint, b + i);
		if (one.tensor_count != two.tensor_count || one.depth != two.depth ||
			two.unit != FSDP_NONE || one.unit != FSDP_NONE)
			return false;
		if (!fsdp_span_equal(below(name_of(likely, &likely->name, a + i), left),
			    below(name_of(likely, &likely->other, b + i), right)))
			return false;
	}
	return true;
}

/* The children of a visit that are called by numbers are blocks if there are several, all
 * alike, with modules of their own and parameters. */
static bool find_blocks(struct fsdp_inferred_units *likely, uint32_t parent)
{
	uint32_t first = FSDP_NONE, count = 0;
	for (uint32_t i = parent + 1; i < likely->ends[parent]; i = likely->ends[i]) {
		if (!likely->number[i])
			continue;
		if (first == FSDP_NONE &&
			(likely->ends[i] == i + 1 ||
				fsdp_module(likely->checkpoint, i).parameters == 0))
			return false;
		if (first != FSDP_NONE && !are_alike(likely, first, i))
			return false;
		if (first == FSDP_NONE)
			first = i;
		count++;
	}
	if (count < 2)
		return false;
	for (uint32_t i = parent + 1; i < likely->ends[parent]; i = likely->ends[i])
		likely->blocks[i] = likely->number[i];
	return true;
}

bool fsdp_inferred_units_new(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_inferred_units **ret_likely, struct fsdp_error **ret_error)
{
	struct fsdp_inferred_units *likely = calloc(1, sizeof *likely);
	size_t count = fsdp_module_count(checkpoint);
	if (likely == NULL)
		return fsdp_fail_memory(ret_error);
	likely->checkpoint = checkpoint;
	likely->count = count;
	likely->budget.ceiling = UINT64_MAX;
	fsdp_arena_init_lean(&likely->arena, &likely->budget);
	likely->name.arena = likely->other.arena = &likely->arena;
	likely->ends = calloc(count + 1, sizeof *likely->ends);
	likely->sharded = calloc(count + 1, sizeof *likely->sharded);
	likely->blocks = calloc(count + 1, sizeof *likely->blocks);
	likely->number = calloc(count + 1, sizeof *likely->number);
	if (likely->ends != NULL && likely->sharded != NULL && likely->blocks != NULL &&
		likely->number != NULL) {
		if (look_at_visits(likely)) {
			/* What is below a block is not a block of its own. A block is
			 * compared once for each level above it that has some, and with
			 * one of its own size: n log n comparisons. */
			for (uint32_t i = 0; i < likely->count;) {
				if (likely->blocks[i]) {
					i = likely->ends[i];
					continue;
				}
				if (likely->sharded[i])
					(void)find_blocks(likely, i);
				i++;
			}
		}
		if (!likely->name.failed && !likely->other.failed) {
			*ret_likely = likely;
			return true;
		}
	}
	fsdp_inferred_units_free(likely);
	return fsdp_fail_memory(ret_error);
}

void fsdp_inferred_units_free(struct fsdp_inferred_units *likely)
{
	if (likely == NULL)
		return;
	fsdp_arena_done(&likely->arena);
	free(likely->ends);
	free(likely->sharded);
	free(likely->blocks);
	free(likely->number);
	free(likely);
}

bool fsdp_inferred_unit(const struct fsdp_inferred_units *likely, uint32_t module)
{
	return module < likely->count && likely->blocks[module];
}

/*
 * Adds up what a checkpoint holds: tensors by role and class, what optimizers keep, how
 * tensors are sharded. One pass over all tensors, or over the sums of those that were
 * only counted.
 */

struct fsdp_overview {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_scratch name;
	struct fsdp_sums *by_dtype, *by_role, *by_rank, *by_file;
	struct fsdp_overview_facts facts;
	size_t rank_count; /* that own a piece */
};

static void add_to(struct fsdp_role_total *total, uint32_t dtype, uint64_t tensors,
	uint64_t numel, uint64_t bytes)
{
	if (total->tensors == 0)
		total->dtype = dtype;
	else if (total->dtype != dtype)
		total->dtype = FSDP_NONE;
	if (dtype < FSDP_OVERVIEW_DTYPES)
		fsdp_tally(&total->of_dtype[dtype], tensors);
	fsdp_tally(&total->tensors, tensors);
	fsdp_tally(&total->numel, numel);
	fsdp_tally(&total->bytes, bytes);
}

/* ---- kinds of states ---- */

static struct fsdp_span key_of(struct fsdp_span name)
{
	struct fsdp_state_reading reading = { 0 };
	struct fsdp_state_name read;
	while (fsdp_state_name_next(name, &reading, &read))
		/* What optimizers call the states of all parameters: Megatron-core
		 * puts these words before the parameter's name. */
		if (fsdp_span_is_any(read.key,
			    "exp_avg exp_avg_sq fp32_param master_param max_exp_avg_sq "
			    "momentum_buffer param step"))
			return read.key;
	return fsdp_span_last(name, '.');
}

static void add_state(struct fsdp_overview *overview, const struct fsdp_tensor *tensor)
{
	struct fsdp_overview_facts *facts = &overview->facts;
	struct fsdp_span name =
		fsdp_scratch_name(&overview->name, overview->checkpoint, tensor->name);
	struct fsdp_state_kind kind = {
		.dtype = tensor->dtype,
		.is_scalar = tensor->dims == 0,
	};
	struct fsdp_span key = key_of(name);
	size_t i;
	memcpy(kind.key, key.data, fsdp_min(key.size, sizeof kind.key - 1));
	for (i = 0; i < facts->state_count; i++)
		if (strcmp(facts->states[i].key, kind.key) == 0 &&
			facts->states[i].dtype == kind.dtype &&
			facts->states[i].is_scalar == kind.is_scalar)
			break;
	if (i == FSDP_OVERVIEW_KINDS) {
		facts->other_states++;
		return;
	}
	if (i == facts->state_count)
		facts->states[facts->state_count++] = kind;
	facts->states[i].tensors++;
}

/* ---- ways of sharding ---- */

static void add_cut(
	struct fsdp_sharding *sharding, uint32_t dim, uint64_t of, uint64_t part)
{
	uint64_t over = part != 0 ? of / part + (of % part != 0) : 0;
	if (sharding->cuts < FSDP_OVERVIEW_CUTS) {
		sharding->cut[sharding->cuts].dim = dim;
		sharding->cut[sharding->cuts++].over =
			(uint32_t)fsdp_min(over, UINT32_MAX);
	}
	sharding->dim = sharding->cuts == 1 ? dim : FSDP_NONE;
}

/* How the first piece is cut, and in which dimensions. */
static void add_cuts(struct fsdp_sharding *sharding, const struct fsdp_tensor *tensor,
	const struct fsdp_piece *piece)
{
	sharding->dim = FSDP_NONE;
	if (piece->is_run) {
		sharding->how = FSDP_SHARDING_FLAT;
		return;
	}
	for (uint32_t i = 0; piece->sizes != NULL && i < piece->dims && i < tensor->dims;
		i++)
		if (piece->sizes[i] != tensor->shape[i])
			add_cut(sharding, i, (uint64_t)tensor->shape[i],
				(uint64_t)piece->sizes[i]);
	sharding->how = sharding->cuts == 0   ? FSDP_SHARDING_REPLICATED
			: sharding->cuts == 1 ? FSDP_SHARDING_DIM
					      : FSDP_SHARDING_DIMS;
}

/* Pieces with the box of the first one, if each box has as many. */
static uint32_t copies_of(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, const struct fsdp_piece *first)
{
	size_t size = first->dims * sizeof *first->offsets;
	uint32_t copies = 1, rank;
	if (first->offsets == NULL || first->sizes == NULL)
		return 1;
	/* An even cut: its pieces fill the tensor, so no piece is stored twice. */
	if (tensor->numel % tensor->piece_count == 0 &&
		fsdp_piece_numel(checkpoint, tensor->first_piece, &rank) ==
			tensor->numel / tensor->piece_count)
		return 1;
	for (uint32_t i = 1; i < tensor->piece_count; i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, tensor->first_piece + i);
		copies += piece.offsets != NULL && piece.sizes != NULL &&
			  memcmp(piece.offsets, first->offsets, size) == 0 &&
			  memcmp(piece.sizes, first->sizes, size) == 0;
	}
	return tensor->piece_count % copies == 0 ? copies : 1;
}

/* More ranks than rows: the first piece is all of the tensor, and the others are empty,
 * not copies. */
static void cut_if_some_are_empty(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, struct fsdp_sharding *sharding)
{
	for (uint32_t i = 1; tensor->numel != 0 && i < tensor->piece_count; i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, tensor->first_piece + i);
		for (uint32_t d = 0; piece.sizes != NULL && d < piece.dims; d++) {
			if (piece.sizes[d] != 0)
				continue;
			add_cut(sharding, d, tensor->piece_count, 1);
			sharding->how = FSDP_SHARDING_DIM;
			return;
		}
	}
}

static void add_sharding(struct fsdp_overview *overview, const struct fsdp_tensor *tensor)
{
	struct fsdp_sharding sharding = {
		.over = tensor->piece_count,
		.copies = 1,
		.tensors = 1,
		.pieces = tensor->piece_count,
	};
	struct fsdp_overview_facts *facts = &overview->facts;
	uint32_t rank = FSDP_NONE;
	if (tensor->piece_count == 0)
		return;
	if (tensor->piece_count == 1) {
		uint64_t numel = fsdp_piece_numel(
			overview->checkpoint, tensor->first_piece, &rank);
		if (overview->rank_count == 0)
			rank = FSDP_NONE;
		if (numel < tensor->numel)
			facts->partial++;
		else
			facts->whole_rank =
				facts->whole++ == 0 || facts->whole_rank == rank
					? rank
					: FSDP_NONE;
		return;
	}
	struct fsdp_piece piece = fsdp_piece(overview->checkpoint, tensor->first_piece);
	add_cuts(&sharding, tensor, &piece);
	if (sharding.how == FSDP_SHARDING_FLAT)
		overview->facts.resume_bytes = FSDP_UNKNOWN;
	if (sharding.how == FSDP_SHARDING_REPLICATED)
		cut_if_some_are_empty(overview->checkpoint, tensor, &sharding);
	if (sharding.how != FSDP_SHARDING_REPLICATED)
		sharding.copies = copies_of(overview->checkpoint, tensor, &piece);
	sharding.over /= sharding.copies;
	struct fsdp_sharding *known = facts->shardings;
	size_t i = 0;
	for (; i < facts->sharding_count; i++, known++)
		/* In one dimension the number of pieces says it all: parts may be uneven.
		 */
		if (known->how == sharding.how && known->dim == sharding.dim &&
			known->over == sharding.over &&
			known->copies == sharding.copies &&
			(known->how != FSDP_SHARDING_DIMS ||
				memcmp(known->cut, sharding.cut, sizeof known->cut) == 0))
			break;
	if (i == FSDP_OVERVIEW_KINDS) {
		facts->other_shardings++;
		return;
	}
	if (i == facts->sharding_count) {
		*known = sharding;
		facts->sharding_count++;
		return;
	}
	known->tensors++;
	fsdp_tally(&known->pieces, sharding.pieces);
}

static void add_resumed(struct fsdp_overview *overview, const struct fsdp_tensor *tensor)
{
	uint64_t most = 0;
	uint32_t rank;
	for (uint32_t i = 0; i < tensor->piece_count; i++) {
		uint64_t numel = fsdp_piece_numel(
			overview->checkpoint, tensor->first_piece + i, &rank);
		most = numel > most ? numel : most;
	}
	/* Of more pieces than ranks one rank has several. */
	fsdp_tally(&overview->facts.resume_bytes,
		tensor->flags & FSDP_TENSOR_FLATTENED ||
				tensor->piece_count > overview->rank_count
			? FSDP_UNKNOWN
			: fsdp_elements_bytes(tensor->dtype, most));
}

/* ---- averages ---- */

bool fsdp_is_average(const char *word, size_t size)
{
	static const char *const words[] = { "ema", "averag", "shadow", "swa" };
	for (size_t i = 0; i < FSDP_COUNT(words); i++) {
		size_t length = strlen(words[i]);
		const char *at = memmem(word, size, words[i], length);
		if (at != NULL && (at == word || at[-1] == '_') &&
			(length > 3 || at + 3 == word + size || at[3] == '_'))
			return true;
	}
	return false;
}

/* Sums over tensors of names and shapes: the parameters, and with the buffers. */
struct fingerprint {
	uint64_t params, all;
	size_t count;
};

/* Averages are stored under names without the dots, or with "_" in their place: LitEma of
 * latent-diffusion and the hooks of mmcv register them as buffers. */
static void add_fingerprint(struct fingerprint *print, const struct fsdp_hasher *hasher,
	const struct fsdp_tensor *tensor, struct fsdp_span name)
{
	uint64_t hash = fsdp_hash_shape(hasher, tensor->shape, tensor->dims);
	for (size_t i = 0; i < name.size; i++)
		if (name.data[i] != '.' && name.data[i] != '_')
			hash = fsdp_hash_more(hasher, hash, name.data[i]);
	print->params += tensor->role == FSDP_ROLE_PARAM ? hash : 0;
	print->all += hash;
	print->count++;
}

/* An average of parameters alone may have names like buffers. */
static bool are_twins(const struct fingerprint *average, const struct fingerprint *model)
{
	return average->count > 0 &&
	       (average->all == model->all || average->all == model->params ||
		       (average->params != 0 && average->params == model->params));
}

enum { TOPS_MOST = 16, FLAT = 4 };

/* "ema_backbone_conv_weight", which stands for backbone.conv.weight. */
static bool is_flat_average(struct fsdp_span name)
{
	return name.size > FLAT && memcmp(name.data, "ema_", FLAT) == 0 &&
	       memchr(name.data, '.', name.size) == NULL;
}

/* The modules of the root, and the model. */
struct tops {
	const uint32_t *of_module; /* the one that has it; parents come before children */
	size_t count;
	uint32_t modules[TOPS_MOST];
	size_t lengths[TOPS_MOST];
	bool are_averages[TOPS_MOST];
};

/* The name below its module of the root; *ret_top: which that is, or count. */
static struct fsdp_span name_below(struct fsdp_overview *overview,
	const struct tops *tops, const struct fsdp_tensor *tensor, size_t *ret_top)
{
	struct fsdp_span name =
		fsdp_scratch_name(&overview->name, overview->checkpoint, tensor->name);
	uint32_t module =
		tensor->module != FSDP_NONE ? tops->of_module[tensor->module] : 0;
	size_t top = 0;
	while (top < tops->count && tops->modules[top] != module)
		top++;
	*ret_top = top;
	if (top == tops->count || name.size <= tops->lengths[top])
		return name;
	return fsdp_span(
		name.data + tops->lengths[top] + 1, name.size - tops->lengths[top] - 1);
}

static bool set_average(struct fsdp_overview *overview, const struct tops *tops,
	size_t top, const char *rest)
{
	struct fsdp_span name = FSDP_SPAN("");
	if (top < tops->count)
		name = fsdp_scratch_name(&overview->name, overview->checkpoint,
			fsdp_module(overview->checkpoint, tops->modules[top]).name);
	char *prefix = fsdp_arena_take(&overview->arena, name.size + strlen(rest) + 2, 1);
	overview->facts.average_prefix = prefix;
	if (prefix == NULL)
		return false;
	memcpy(prefix, name.data, name.size);
	strcpy(stpcpy(prefix + name.size, name.size > 0 ? "." : ""), rest);
	return true;
}

/* False: memory ended. */
static bool compare_tops(struct fsdp_overview *overview, const struct tops *tops)
{
	const struct fsdp_checkpoint *checkpoint = overview->checkpoint;
	struct fsdp_hasher hasher = fsdp_hasher_new();
	struct fingerprint prints[TOPS_MOST + 1] = { { 0 } }, flat = { 0 }, model = { 0 };
	size_t flat_top = 0, top;
	FSDP_EACH(i, (uint32_t)fsdp_tensor_count(checkpoint), tensor,
		fsdp_tensor(checkpoint, i)) {
		if (tensor.role == FSDP_ROLE_OPTIM || tensor.dims == 0)
			continue;
		struct fsdp_span name = name_below(overview, tops, &tensor, &top);
		if (is_flat_average(name)) {
			add_fingerprint(&flat, &hasher, &tensor,
				fsdp_span(name.data + FLAT, name.size - FLAT));
			flat_top = top;
			continue;
		}
		add_fingerprint(&prints[top], &hasher, &tensor, name);
		add_fingerprint(&model, &hasher, &tensor,
			fsdp_scratch_name(&overview->name, checkpoint, tensor.name));
	}
	if (are_twins(&flat, &prints[flat_top]) || are_twins(&flat, &model))
		return set_average(overview, tops, flat_top, "ema_");
	for (size_t a = 0; a < tops->count; a++)
		for (size_t b = 0; b < tops->count && tops->are_averages[a]; b++)
			if (!tops->are_averages[b] && are_twins(&prints[a], &prints[b]))
				return set_average(overview, tops, a, "");
	return true;
}

bool fsdp_overview_averages(
	const struct fsdp_overview_facts *facts, struct fsdp_span name)
{
	const char *prefix = facts->average_prefix;
	size_t size = prefix != NULL ? strlen(prefix) : 0;
	return size > 0 && name.size > size && memcmp(name.data, prefix, size) == 0 &&
	       (prefix[size - 1] == '.' ||
		       memchr(name.data + size, '.', name.size - size) == NULL);
}

static bool find_average(struct fsdp_overview *overview)
{
	const struct fsdp_checkpoint *checkpoint = overview->checkpoint;
	size_t count = fsdp_module_count(checkpoint), top;
	uint32_t *of_module = FSDP_TAKE(&overview->arena, of_module, count + 1);
	bool some = false;
	struct tops tops = { .of_module = of_module };
	if (of_module == NULL)
		return false;
	FSDP_EACH(i, (uint32_t)count, module, fsdp_module(checkpoint, i)) {
		of_module[i] = module.depth <= 1 || module.parent >= i
				       ? i
				       : of_module[module.parent];
		if (module.depth != 1 || tops.count == TOPS_MOST)
			continue;
		struct fsdp_span name =
			fsdp_scratch_name(&overview->name, checkpoint, module.name);
		some |= tops.are_averages[tops.count] =
			fsdp_is_average((const char *)name.data, name.size);
		tops.lengths[tops.count] = name.size;
		tops.modules[tops.count++] = i;
	}
	for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint) && !some; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		some = (tensor.module == FSDP_NONE ||
			       fsdp_module(checkpoint, tensor.module).depth <= 1) &&
		       is_flat_average(name_below(overview, &tops, &tensor, &top));
	}
	return !some || compare_tops(overview, &tops);
}

static bool add_tensors(struct fsdp_overview *overview)
{
	const struct fsdp_checkpoint *checkpoint = overview->checkpoint;
	size_t count = fsdp_tensor_count(checkpoint);
	struct fsdp_overview_facts *facts = &overview->facts;
	if (!find_average(overview))
		return false;

	FSDP_EACH(i, (uint32_t)count, tensor, fsdp_tensor(checkpoint, i)) {
		bool counts = fsdp_tensor_counts(&tensor);
		bool is_average =
			facts->average_prefix != NULL && tensor.role != FSDP_ROLE_OPTIM &&
			fsdp_overview_averages(facts, fsdp_scratch_name(&overview->name,
							      checkpoint, tensor.name));
		/* It is listed with the parameters, and is none. */
		add_to(is_average ? &facts->average : &facts->roles[tensor.role],
			tensor.dtype, 1,
			counts && (tensor.role != FSDP_ROLE_PARAM ||
					  fsdp_tensor_is_parameter(&tensor))
				? tensor.numel
				: 0,
			counts ? tensor.bytes : 0);
		if (tensor.role == FSDP_ROLE_OPTIM)
			add_state(overview, &tensor);
		add_sharding(overview, &tensor);
		bool is_spread = (tensor.flags & FSDP_TENSOR_SPREAD) != 0,
		     is_sharded = false;
		if (tensor.class_name != NULL && !facts->has_dtensors)
			facts->has_dtensors = strcmp(tensor.class_name, "DTensor") == 0;
		if (tensor.class_name != NULL)
			is_sharded = strcmp(tensor.class_name, "ShardedTensor") == 0;
		facts->has_sharded_tensors |= is_sharded;
		if (tensor.role != FSDP_ROLE_OPTIM &&
			(tensor.flags & FSDP_TENSOR_FLATTENED) != 0) {
			facts->flat_parameters += is_sharded || is_spread;
			facts->lists_originals |= is_spread;
		}
		uint32_t mesh =
			tensor.placement != FSDP_NONE
				? fsdp_placement(checkpoint, tensor.placement).mesh
				: FSDP_NONE;
		if (mesh != FSDP_NONE && mesh != facts->mesh &&
			(facts->mesh == FSDP_NONE ||
				fsdp_mesh(checkpoint, mesh).dims >
					fsdp_mesh(checkpoint, facts->mesh).dims))
			facts->mesh = mesh;
		if (counts && (tensor.flags & FSDP_TENSOR_RANKS_OWN) == 0)
			add_resumed(overview, &tensor);
		else if (counts && tensor.role == FSDP_ROLE_PARAM)
			overview->facts.resume_bytes = FSDP_UNKNOWN;
		fsdp_sums_add(overview->by_dtype, i, &tensor, NULL, NULL);
		fsdp_sums_add(overview->by_role, i, &tensor, NULL, NULL);
		if (overview->rank_count > 0)
			fsdp_sums_add(overview->by_rank, i, &tensor, NULL, NULL);
		fsdp_sums_add(overview->by_file, i, &tensor, NULL, NULL);
	}
	return true;
}

bool fsdp_overview_new(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_overview **ret_overview, struct fsdp_error **ret_error)
{
	struct fsdp_overview *overview = calloc(1, sizeof *overview);
	size_t sums = fsdp_sum_count(checkpoint), ranks;
	if (overview == NULL)
		return fsdp_fail_memory(ret_error);
	overview->checkpoint = checkpoint;
	overview->budget.ceiling = UINT64_MAX;
	fsdp_arena_init_lean(&overview->arena, &overview->budget);
	overview->name.arena = &overview->arena;
	overview->facts.whole_rank = overview->facts.mesh = FSDP_NONE;
	(void)fsdp_checkpoint_ranks(checkpoint, &ranks);
	overview->rank_count = ranks;
	if (!fsdp_sums_new(
		    checkpoint, FSDP_BY_DTYPE, -1, &overview->by_dtype, ret_error) ||
		!fsdp_sums_new(
			checkpoint, FSDP_BY_ROLE, -1, &overview->by_role, ret_error) ||
		!fsdp_sums_new(
			checkpoint, FSDP_BY_RANK, -1, &overview->by_rank, ret_error) ||
		!fsdp_sums_new(
			checkpoint, FSDP_BY_FILE, -1, &overview->by_file, ret_error)) {
		fsdp_overview_free(overview);
		return false;
	}
	if (sums > 0) {
		/* The same for tensors that are so plain that they were added up while
		 * reading. */
		FSDP_EACH(i, sums, sum, fsdp_sum(overview->checkpoint, i)) {
			add_to(&overview->facts.roles[sum.role], sum.dtype, sum.tensors,
				(sum.role == FSDP_ROLE_PARAM ? sum.parameters
							     : sum.numel),
				sum.bytes);
			fsdp_tally(&overview->facts.whole, sum.tensors);
			overview->facts.resume_bytes = FSDP_UNKNOWN;
			fsdp_sums_add_counted(overview->by_dtype, &sum);
			fsdp_sums_add_counted(overview->by_role, &sum);
		}
	} else if (!add_tensors(overview))
		overview->name.failed = true;
	if (overview->name.failed) {
		fsdp_overview_free(overview);
		return fsdp_fail_memory(ret_error);
	}
	*ret_overview = overview;
	return true;
}

void fsdp_overview_free(struct fsdp_overview *overview)
{
	if (overview == NULL)
		return;
	fsdp_sums_free(overview->by_dtype);
	fsdp_sums_free(overview->by_role);
	fsdp_sums_free(overview->by_rank);
	fsdp_sums_free(overview->by_file);
	fsdp_arena_done(&overview->arena);
	free(overview);
}

const struct fsdp_overview_facts *fsdp_overview_facts(
	const struct fsdp_overview *overview)
{
	return &overview->facts;
}

const struct fsdp_sums *fsdp_overview_sums(
	const struct fsdp_overview *overview, enum fsdp_group_key by)
{
	switch (by) {
	case FSDP_BY_DTYPE:
		return overview->by_dtype;
	case FSDP_BY_ROLE:
		return overview->by_role;
	case FSDP_BY_RANK:
		return overview->by_rank;
	case FSDP_BY_FILE:
		return overview->by_file;
	case FSDP_BY_MODULE:
	case FSDP_BY_UNIT:
	case FSDP_BY_LAYER:
	case FSDP_BY_PREFIX:
		break;
	}
	return NULL;
}
