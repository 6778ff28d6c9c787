/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes apart the flat parameters in rank files of FSDP's relatives. The file of a rank
 * also describes its flat parameters, so no plan is needed: each
 * parameter becomes a separate tensor with a run in this file.
 *
 *	torch_xla  {"model": …, "shard_metadata": M}
 *	  M        world_size, rank
 *	           shard_info    {module: {shard: {_orig_size, _orig_name}}}
 *	           flatten_info  {module._orig_name: (names, shapes, numels)}; none of a
 *	                         parameter that was not flattened
 *	           buffer_info   {buffer: …}
 *	           padded to a multiple of 128 elements per rank, cut evenly
 *	fairscale  {"model": …, "shard_metadata" or "meta": M}
 *	  M        param_metadata [{fsdp_path, params: {flat parameter: {names, shapes,
 *	                         numels, padding}}}]
 *	           buffer_names  [buffer, …]
 *	           cut as torch.chunk does, the last parts padded; only the name of the
 *	           file has the rank
 *
 * Names are relative to the module; segments of wrappers are dropped. The owners of
 * optimizer states are unknown: they stay separate per rank.
 *
 * Origin: torch_xla/distributed/fsdp, fairscale/nn/data_parallel/
 * fully_sharded_data_parallel.py (0.4.13), and files of fairscale.
 */
#include <stdlib.h>

#include "base/num.h"
#include "formats/torch/torch.h"

enum { XLA_PADS_TO = 128, DIMS_MAX = 64 };

/* A tensor as the pickle has it. */
struct kept_tensor {
	struct fsdp_span name; /* without the container's key */
	struct fsdp_tensor_record tensor;
	struct fsdp_piece_record piece;
	bool has_piece, taken;
};

struct taking {
	struct fsdp_torch *torch;
	struct fsdp_relative *relative;
	struct kept_tensor *kept;   /* as stored in the file */
	struct kept_tensor **order; /* by name */
	size_t count;
	struct fsdp_value_record *values;
	size_t value_count;
	uint64_t parts; /* of flat parameters that were looked at */
};

struct flat_parts {
	struct fsdp_span key, prefix; /* its own name; the prefix of its names */
	fsdp_ref names, shapes, numels;
	struct fsdp_span name; /* of its only part, without a list */
	fsdp_ref shape;
	uint64_t padding; /* of this rank's part; xla: 0 */
	uint64_t whole;   /* elements without padding, or FSDP_UNKNOWN */
};

/* One of these. */
struct flat_part {
	struct fsdp_span name;
	int64_t shape[DIMS_MAX];
	size_t dims;
	uint64_t numel;
};

/* ---- which files they are ---- */

bool fsdp_torch_find_relative(struct fsdp_torch *torch, struct fsdp_relative *ret)
{
	struct fsdp_pickle *pickle = torch->pickle;
	fsdp_ref top = fsdp_pickle_top(pickle);
	int64_t rank, world;
	ret->key = "shard_metadata";
	ret->facts = fsdp_pickle_get(pickle, top, ret->key);
	if (ret->facts == FSDP_REF_NONE) {
		ret->key = "meta";
		ret->facts = fsdp_pickle_get(pickle, top, ret->key);
	}
	ret->is_xla = fsdp_pickle_get(pickle, ret->facts, "shard_info") != FSDP_REF_NONE;
	if (!ret->is_xla &&
		fsdp_pickle_get(pickle, ret->facts, "param_metadata") == FSDP_REF_NONE)
		return false;
	ret->family = ret->is_xla ? "xla-fsdp" : "fairscale-fsdp";
	ret->title =
		ret->is_xla ? "torch_xla FSDP rank files" : "fairscale FSDP rank files";
	ret->writer = ret->is_xla ? "torch_xla" : "fairscale";
	if (ret->is_xla &&
		fsdp_pickle_integer(pickle,
			fsdp_pickle_get(pickle, ret->facts, "world_size"), &world) &&
		fsdp_pickle_integer(
			pickle, fsdp_pickle_get(pickle, ret->facts, "rank"), &rank) &&
		rank >= 0 && rank < world && world <= FSDP_RELATIVE_RANKS) {
		torch->rank = (uint32_t)rank;
		torch->world_size = (uint32_t)world;
		torch->world_whole = true;
	}
	return true;
}

/* ---- what the pickle has added ---- */

static int by_name(const void *a, const void *b)
{
	const struct kept_tensor *const *left = a, *const *right = b;
	return fsdp_span_compare((*left)->name, (*right)->name);
}

/* False: one of them is made of parts or pieces, as no relative writes them. */
static bool keep_tensor(struct taking *taking, uint32_t index)
{
	struct fsdp_model *model = taking->torch->model;
	struct kept_tensor *kept = &taking->kept[taking->count++];
	struct fsdp_span rest;
	kept->tensor = *fsdp_model_tensor(model, index);
	kept->has_piece = kept->tensor.piece_count == 1;
	if (kept->has_piece)
		kept->piece = *fsdp_model_piece(model, kept->tensor.first_piece);
	kept->name =
		fsdp_model_name(model, kept->tensor.raw_name, taking->torch->scratch);
	if (fsdp_span_behind(kept->name, "model.", &rest))
		kept->name = rest;
	return kept->tensor.piece_count <= 1 &&
	       (kept->tensor.flags & FSDP_TENSOR_COMPONENT) == 0;
}

static void keep_all(struct taking *taking, bool *ret_plain)
{
	const struct fsdp_relative *relative = taking->relative;
	struct fsdp_model *model = taking->torch->model;
	struct fsdp_arena *scratch = taking->torch->scratch;
	size_t tensors = model->tensors.count - relative->first_tensor;
	size_t values = model->values.count - relative->first_value;
	taking->kept = FSDP_TAKE(scratch, taking->kept, tensors + 1);
	taking->order = FSDP_TAKE(scratch, taking->order, tensors + 1);
	taking->values = FSDP_TAKE(scratch, taking->values, values + 1);
	for (size_t i = 0; i < tensors; i++)
		*ret_plain &= keep_tensor(taking, (uint32_t)(relative->first_tensor + i));
	for (size_t i = 0; i < values; i++) {
		/* The metadata are not values of the checkpoint. */
		uint32_t index = (uint32_t)(relative->first_value + i);
		const struct fsdp_value_record *value = fsdp_model_value(model, index);
		struct fsdp_span name =
			fsdp_model_name(model, value->raw_name, taking->torch->scratch);
		if (!fsdp_span_is(fsdp_span_first(name, '.'), taking->relative->key))
			taking->values[taking->value_count++] = *value;
	}
	for (size_t i = 0; i < tensors; i++) {
		taking->order[i] = &taking->kept[i];
	}
	qsort(taking->order, tensors, sizeof *taking->order, by_name);
}

static struct kept_tensor *find_kept(const struct taking *taking, struct fsdp_span name)
{
	struct kept_tensor wanted = { .name = name }, *key = &wanted, **found;
	if (taking->count == 0)
		return NULL;
	found = bsearch(
		&key, taking->order, taking->count, sizeof *taking->order, by_name);
	return found != NULL ? *found : NULL;
}

/* ---- names ---- */

/* "a" and "b" as "a.b", "b" alone without "a". */
static struct fsdp_span join(
	struct fsdp_arena *arena, struct fsdp_span above, struct fsdp_span name)
{
	size_t dot = above.size != 0, size = above.size + dot + name.size;
	unsigned char *text = fsdp_arena_take(arena, size + 1, 1);
	if (dot != 0) {
		memcpy(text, above.data, above.size);
		text[above.size] = '.';
	}
	if (name.size != 0)
		memcpy(text + above.size + dot, name.data, name.size);
	return fsdp_span(text, size);
}

/* Takes the segments of wrappers out, in place. */
static struct fsdp_span drop_wrappers(struct fsdp_span name)
{
	static const char *const wrappers[] = { "_fsdp_wrapped_module.", "_fpw_module." };
	unsigned char *text = (unsigned char *)(uintptr_t)name.data;
	size_t size = 0, at = 0;
	while (at < name.size) {
		struct fsdp_span rest = fsdp_span(text + at, name.size - at);
		bool begins = at == 0 || text[at - 1] == '.', dropped = false;
		for (size_t i = 0; begins && i < FSDP_COUNT(wrappers) && !dropped; i++) {
			size_t length = strlen(wrappers[i]);
			dropped = fsdp_span_begins(rest, fsdp_span_text(wrappers[i]));
			at += dropped ? length : 0;
		}
		if (!dropped)
			text[size++] = text[at++];
	}
	return fsdp_span(text, size);
}

static uint32_t add_tensor(struct taking *taking, struct fsdp_span above,
	struct fsdp_span name, struct fsdp_tensor_record *record)
{
	struct fsdp_model *model = taking->torch->model;
	struct fsdp_span text = join(model->arena, above, name);
	record->path = FSDP_NONE;
	fsdp_build_names(
		model, 0, drop_wrappers(text), false, &record->name, &record->raw_name);
	return fsdp_build_tensor(model, record);
}

/* ---- flat parameters ---- */

/* The next part of a flat parameter, from lists of equal length. False: no more, or
 * (*ret_bad) the lists contradict each other. */
struct part_walk {
	struct fsdp_pickle_iterator names, shapes, numels;
	bool begun;
};

static bool next_part(struct taking *taking, const struct flat_parts *parts,
	struct part_walk *walk, struct flat_part *ret, bool *ret_bad)
{
	struct fsdp_pickle *pickle = taking->torch->pickle;
	fsdp_ref key, name = FSDP_REF_NONE, shape = parts->shape, numel;
	int64_t said = -1;
	bool more;
	if (parts->names == FSDP_REF_NONE) {
		more = !walk->begun;
		ret->name = parts->name;
	} else {
		if (!walk->begun) {
			walk->names.ref = parts->names;
			walk->shapes.ref = parts->shapes;
			walk->numels.ref = parts->numels;
		}
		more = fsdp_pickle_next(pickle, &walk->names, &key, &name);
		*ret_bad |= fsdp_pickle_next(pickle, &walk->shapes, &key, &shape) != more;
		*ret_bad |= fsdp_pickle_next(pickle, &walk->numels, &key, &numel) != more;
		if (more && !*ret_bad) {
			ret->name = fsdp_pickle_text(pickle, name);
			*ret_bad |= !fsdp_pickle_integer(pickle, numel, &said);
		}
	}
	walk->begun = true;
	if (!more || *ret_bad)
		return false;
	*ret_bad = ret->name.data == NULL ||
		   !fsdp_torch_ints(taking->torch, shape, ret->shape, &ret->dims) ||
		   !fsdp_numel(ret->shape, ret->dims, &ret->numel) ||
		   (parts->names != FSDP_REF_NONE && (uint64_t)said != ret->numel);
	return !*ret_bad;
}

/* Whether the lists and the rank's share of them add up. */
static bool is_sound(struct taking *taking, const struct flat_parts *parts,
	const struct kept_tensor *flat, uint64_t share, uint64_t begin)
{
	const struct fsdp_torch *torch = taking->torch;
	struct part_walk walk = { 0 };
	struct flat_part part;
	uint64_t all = 0, stored;
	bool bad = false;
	/* Each part is in the pickle; lists that many flat parameters share would be
	 * walked again and again. */
	while (!bad && next_part(taking, parts, &walk, &part, &bad))
		bad |= !fsdp_add(all, part.numel, &all) || all > INT64_MAX ||
		       ++taking->parts > fsdp_pickle_length(torch->pickle);
	if (bad || !flat->has_piece || flat->piece.strides != FSDP_NONE ||
		flat->piece.box != FSDP_NONE || parts->padding > share ||
		(parts->whole != FSDP_UNKNOWN && parts->whole != all))
		return false;
	if (taking->relative->is_xla)
		return fsdp_mul(share, torch->world_size, &stored) && stored >= all &&
		       stored - all < (uint64_t)XLA_PADS_TO * torch->world_size;
	if (share > 0 && (all + share - 1) / share > taking->relative->ranks_at_least)
		taking->relative->ranks_at_least = (all + share - 1) / share;
	return begin >= all ? parts->padding == share
			    : fsdp_min(all - begin, share) == share - parts->padding;
}

static void add_run(struct taking *taking, const struct kept_tensor *flat,
	const struct flat_parts *parts, const struct flat_part *part,
	const int64_t run[3])
{
	struct fsdp_model *model = taking->torch->model;
	struct fsdp_tensor_record record = flat->tensor;
	struct fsdp_piece_record piece = flat->piece;
	record.shape = fsdp_build_ints(model, part->shape, part->dims);
	record.dims = (uint8_t)part->dims;
	record.role = FSDP_ROLE_PARAM;
	record.flags &= (uint16_t)~FSDP_TENSOR_ROLE_INFERRED;
	piece.tensor = add_tensor(taking, parts->prefix, part->name, &record);
	if (run[1] == 0)
		return;
	piece.is_run = true;
	piece.box = fsdp_build_ints(model, run, 3);
	if (!fsdp_add(piece.storage_offset, (uint64_t)run[2], &piece.storage_offset))
		fsdp_model_leave(model, NULL);
	fsdp_build_piece(model, &piece);
}

static void report_part(struct taking *taking, struct fsdp_span key, const char *why)
{
	fsdp_find(&taking->torch->model->findings, FSDP_RULE_FLAT_NUMEL,
		FSDP_PLACE(.file = taking->torch->file, .rank = taking->torch->rank,
			.tensor = key),
		"%s", why);
}

/* ---- units ---- */

static void push_entry(struct taking *taking, struct fsdp_flat_record *flat, uint32_t fqn,
	const struct flat_part *part)
{
	struct fsdp_model *model = taking->torch->model;
	struct fsdp_flat_entry_record *entry;
	fsdp_ints shape = FSDP_NONE;
	if (fqn != FSDP_NONE) {
		shape = fsdp_build_ints(model, part->shape, part->dims);
	}
	entry = fsdp_build_push(model, &model->flat_entries, NULL);
	*entry = (struct fsdp_flat_entry_record){
		.fqn = fqn,
		.shape = shape,
		.dims = (uint32_t)part->dims,
		.start = flat->numel,
		.numel = part->numel,
	};
	flat->numel += part->numel;
	flat->entry_count++;
}

/* The module of a flat parameter is a unit. Each file has the same; the first counts. */
static void describe_unit(struct taking *taking, const struct flat_parts *parts,
	const struct kept_tensor *kept, uint64_t share)
{
	struct fsdp_model *model = taking->torch->model;
	struct fsdp_span prefix = join(model->arena, parts->prefix, FSDP_SPAN(""));
	uint32_t id;
	if (taking->relative->has_units)
		return;
	prefix = drop_wrappers(prefix);
	if (fsdp_span_ends(prefix, FSDP_SPAN(".")))
		prefix.size--;
	struct fsdp_flat_record *flat = fsdp_build_push(model, &model->flats, &id);
	struct fsdp_flat_module *of = fsdp_build_push(model, &model->flat_modules, NULL);
	*flat = (struct fsdp_flat_record){
		.dtype = kept->tensor.dtype,
		.shards = taking->relative->is_xla ? taking->torch->world_size : 1,
		.first_entry = (uint32_t)model->flat_entries.count,
		.first_tie = (uint32_t)model->flat_ties.count,
		.requires_grad = -1,
		.from_files = true,
	};
	of->flat = id;
	of->module = prefix.size != 0 ? fsdp_names_intern(&model->names, 0, prefix) : 0;
	struct part_walk walk = { 0 };
	struct flat_part part;
	uint32_t name, raw_name;
	bool bad = false;
	while (next_part(taking, parts, &walk, &part, &bad)) {
		struct fsdp_span text = join(model->arena, parts->prefix, part.name);
		fsdp_build_names(model, 0, drop_wrappers(text), false, &name, &raw_name);
		push_entry(taking, flat, name, &part);
	}
	part = (struct flat_part){ 0 };
	if (taking->relative->is_xla)
		part.numel = share * taking->torch->world_size - flat->numel;
	if (part.numel != 0)
		push_entry(taking, flat, FSDP_NONE, &part);
}

/* This rank has the elements from `begin` on of the flat parameter. */
static void split_flat_parameters(struct taking *taking, const struct flat_parts *parts)
{
	struct kept_tensor *flat = find_kept(taking, parts->key);
	struct part_walk walk = { 0 };
	struct flat_part part;
	uint64_t share, begin, end, at = 0;
	bool bad = false;
	if (flat == NULL) {
		report_part(taking, parts->key,
			"the file does not have this flat parameter, which its metadata describe");
		return;
	}
	share = fsdp_model_numel(taking->torch->model, &flat->tensor);
	if (flat->taken || !fsdp_mul(share, taking->torch->rank, &begin) ||
		!fsdp_add(begin, share, &end) || end > INT64_MAX ||
		!is_sound(taking, parts, flat, share, begin)) {
		report_part(taking, parts->key,
			"the flat parameter is not as long as its metadata require");
		return;
	}
	flat->taken = true;
	describe_unit(taking, parts, flat, share);
	while (next_part(taking, parts, &walk, &part, &bad)) {
		uint64_t low = at > begin ? at : begin;
		uint64_t high = fsdp_min(at + part.numel, end - parts->padding);
		int64_t run[3] = { (int64_t)(low - at), (int64_t)(high - low),
			(int64_t)(low - begin) };
		bool empty = part.numel == 0 && taking->torch->rank == 0;
		if (empty)
			memset(run, 0, sizeof run);
		if (empty || low < high)
			add_run(taking, flat, parts, &part, run);
		at += part.numel;
	}
}

/* ---- torch_xla ---- */

static void read_xla_shard(struct taking *taking, struct fsdp_span module,
	struct fsdp_span shard, fsdp_ref facts)
{
	struct fsdp_pickle *pickle = taking->torch->pickle;
	struct fsdp_arena *scratch = taking->torch->scratch;
	struct fsdp_span orig =
		fsdp_pickle_text(pickle, fsdp_pickle_get(pickle, facts, "_orig_name"));
	struct fsdp_span key = join(scratch, module, shard);
	struct fsdp_span name = orig.data != NULL ? join(scratch, module, orig) : key;
	struct flat_parts parts = { .key = key, .whole = FSDP_UNKNOWN };
	int64_t size[DIMS_MAX];
	size_t dims;
	parts.shape = fsdp_pickle_get(pickle, facts, "_orig_size");
	if (orig.data == NULL ||
		!fsdp_torch_ints(taking->torch, parts.shape, size, &dims) ||
		!fsdp_numel(size, dims, &parts.whole)) {
		report_part(taking, key,
			"the metadata of the shard has no name of its tensor");
		return;
	}
	fsdp_ref lists = fsdp_pickle_get_span(pickle,
		fsdp_pickle_get(pickle, taking->relative->facts, "flatten_info"), name);
	parts.names = fsdp_pickle_item(pickle, lists, 0);
	parts.shapes = fsdp_pickle_item(pickle, lists, 1);
	parts.numels = fsdp_pickle_item(pickle, lists, 2);
	parts.name = fsdp_span_last(name, '.');
	parts.prefix = fsdp_span(
		name.data, name.size - parts.name.size - (parts.name.size < name.size));
	split_flat_parameters(taking, &parts);
}

static void read_xla(struct taking *taking)
{
	struct fsdp_pickle *pickle = taking->torch->pickle;
	struct fsdp_pickle_iterator modules = {
		.ref = fsdp_pickle_get(pickle, taking->relative->facts, "shard_info")
	};
	fsdp_ref module, shards, shard, facts;
	while (fsdp_pickle_next(pickle, &modules, &module, &shards)) {
		struct fsdp_pickle_iterator iterator = { .ref = shards };
		while (fsdp_pickle_next(pickle, &iterator, &shard, &facts))
			read_xla_shard(taking, fsdp_pickle_text(pickle, module),
				fsdp_pickle_text(pickle, shard), facts);
	}
}

/* ---- fairscale ---- */

static void read_fairscale_flat(struct taking *taking, struct fsdp_span module,
	struct fsdp_span backing, fsdp_ref facts)
{
	struct fsdp_pickle *pickle = taking->torch->pickle;
	struct flat_parts parts = {
		.key = join(taking->torch->scratch, module, backing),
		.prefix = module,
		.whole = FSDP_UNKNOWN,
		.names = fsdp_pickle_get(pickle, facts, "names"),
		.shapes = fsdp_pickle_get(pickle, facts, "shapes"),
		.numels = fsdp_pickle_get(pickle, facts, "numels"),
	};
	int64_t padding = 0;
	if (parts.names == FSDP_REF_NONE ||
		!fsdp_pickle_integer(
			pickle, fsdp_pickle_get(pickle, facts, "padding"), &padding) ||
		padding < 0) {
		report_part(taking, parts.key,
			"the metadata of the flat parameter has no name of its unit");
		return;
	}
	parts.padding = (uint64_t)padding;
	split_flat_parameters(taking, &parts);
}

static void read_fairscale(struct taking *taking)
{
	struct fsdp_pickle *pickle = taking->torch->pickle;
	struct fsdp_pickle_iterator modules = {
		.ref = fsdp_pickle_get(pickle, taking->relative->facts, "param_metadata")
	};
	fsdp_ref key, module, backing, facts;
	while (fsdp_pickle_next(pickle, &modules, &key, &module)) {
		struct fsdp_span path = fsdp_pickle_text(
			pickle, fsdp_pickle_get(pickle, module, "fsdp_path"));
		struct fsdp_pickle_iterator iterator = { .ref = fsdp_pickle_get(pickle,
								 module, "params") };
		while (fsdp_pickle_next(pickle, &iterator, &backing, &facts))
			read_fairscale_flat(
				taking, path, fsdp_pickle_text(pickle, backing), facts);
	}
}

/* ---- all of it ---- */

void fsdp_torch_take_relative(struct fsdp_torch *torch, struct fsdp_relative *relative)
{
	struct taking taking = { .torch = torch, .relative = relative };
	bool plain = true;
	keep_all(&taking, &plain);
	if (!plain) {
		fsdp_find(&torch->model->findings, FSDP_RULE_UNSUPPORTED_FEATURE,
			FSDP_PLACE(.file = torch->file, .rank = torch->rank),
			"the flat parameters are listed as they are stored: some tensors of the file are structured");
		return;
	}
	fsdp_build_take_back(torch->model, relative->first_tensor, relative->first_piece,
		relative->first_value);
	relative->has_units = torch->model->flat_modules.count != 0;
	/* Buffers are listed: as keys, or as items. */
	struct fsdp_pickle *pickle = taking.torch->pickle;
	const char *list = taking.relative->is_xla ? "buffer_info" : "buffer_names";
	struct fsdp_pickle_iterator iterator = { .ref = fsdp_pickle_get(pickle,
							 taking.relative->facts, list) };
	fsdp_ref key, value;
	while (fsdp_pickle_next(pickle, &iterator, &key, &value)) {
		struct fsdp_span name =
			fsdp_pickle_text(pickle, key != FSDP_REF_NONE ? key : value);
		struct kept_tensor *kept =
			name.data != NULL ? find_kept(&taking, name) : NULL;
		if (kept == NULL)
			continue;
		kept->tensor.role = FSDP_ROLE_BUFFER;
		kept->tensor.flags &= (uint16_t)~FSDP_TENSOR_ROLE_INFERRED;
	}
	if (relative->is_xla)
		read_xla(&taking);
	else
		read_fairscale(&taking);
	/* What was in no flat parameter is the same on each rank, or an optimizer's. */
	struct fsdp_model *model = taking.torch->model;
	FSDP_EACH(i, taking.count, kept, &taking.kept[i]) {
		if (kept->taken)
			continue;
		if (kept->tensor.role == FSDP_ROLE_OPTIM)
			kept->tensor.flags |= FSDP_TENSOR_RANKS_OWN;
		kept->piece.tensor = add_tensor(
			&taking, (struct fsdp_span){ 0 }, kept->name, &kept->tensor);
		if (kept->has_piece)
			fsdp_build_piece(model, &kept->piece);
	}
	for (size_t i = 0; i < taking.value_count; i++)
		fsdp_build_value(model, &taking.values[i]);
}
