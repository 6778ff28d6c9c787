/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The classes of DCP's metadata in their three generations of names, folded into records.
 * Directories and data files are not read here (dcp.c).
 *
 *	Metadata               {state_dict_metadata, planner_data, storage_data,
 *	                       storage_meta, version}
 *	TensorStorageMetadata  {properties, size, chunks}
 *	ChunkStorageMetadata   {offsets, sizes}
 *	BytesStorageMetadata   no state
 *	TensorProperties       (dtype, layout, requires_grad, memory format,
 *	                       pin_memory, [strides, from 2.15 on])
 *	MetadataIndex          {fqn, offset (absent for objects), index}
 *	_StorageInfo           {relative_path, offset, length,
 *	                       [transform_descriptors]}
 *
 * Every class but the first folds into a record, so the tree of a large file is never
 * built. Origin: torch/distributed/checkpoint/metadata.py, filesystem.py (PyTorch 1.13 to
 * 2.15).
 */
#include "base/num.h"
#include "format/dcp/metadata-reading.h"
#include "model/dtype.h"

enum { CHUNK_STEPS = 4 }; /* of work, for one that a key lists */

/* ---- from records to items ---- */

/* The pickle makes something else: what, is worth a name. */
static bool calls_other(
	const struct fsdp_dcp_parse *parse, const struct fsdp_pickle_global *global)
{
	return fsdp_fail_rule(parse->error, FSDP_ERROR_DAMAGED, "FI1020", FSDP_UNKNOWN,
		"this is not the metadata of a distributed checkpoint: the pickle calls %.*s.%.*s; nothing was run",
		FSDP_TEXT_MOST(global->module, 100), FSDP_TEXT_MOST(global->name, 100));
}

/* The name of a key of the state dict or of planner_data: any number of entries may share
 * a long one, which is looked at once. FSDP_NONE when out of memory. *ret_known: it was
 * a long one, and looked at before. */
static uint32_t key_name(struct fsdp_dcp_parse *parse, fsdp_ref key,
	struct fsdp_span text, bool *ret_known)
{
	struct fsdp_model *model = parse->dcp->model;
	bool is_long = text.size > FSDP_DCP_SHORT_BYTES;
	uint32_t place = fsdp_pickle_place(parse->pickle, key);
	uint32_t name = is_long ? fsdp_table_get(&parse->long_keys, place) : FSDP_NONE;
	*ret_known = name != FSDP_NONE;
	if (*ret_known)
		return name;
	name = fsdp_names_intern(&model->names, 0, text);
	if (name == FSDP_NONE ||
		(is_long && !fsdp_table_set(&parse->long_keys, place, name))) {
		fsdp_arena_fail(model->arena, parse->error);
		return FSDP_NONE;
	}
	return name;
}

/* planner_data: the path of each key, kept only if its parts joined give the key. */
static bool read_path(struct fsdp_dcp_parse *parse, struct fsdp_span key, fsdp_ref tuple,
	uint32_t *ret_path)
{
	struct fsdp_pickle *pickle = parse->pickle;
	uint64_t count = fsdp_pickle_count(pickle, tuple);
	*ret_path = FSDP_NONE;
	if (fsdp_pickle_kind(pickle, tuple) != FSDP_PICKLE_TUPLE ||
		count > FSDP_PATH_DEPTH)
		return true;
	int64_t packed[FSDP_PATH_DEPTH + 1];
	size_t at = 0, parts = 0;
	struct fsdp_pickle_iterator iterator = { .ref = tuple };
	fsdp_ref none, part;
	while (fsdp_pickle_next(pickle, &iterator, &none, &part)) {
		struct fsdp_span text = fsdp_pickle_text(pickle, part);
		int64_t integer;
		char digits[24];
		bool is_integer = text.data == NULL;
		if (is_integer) {
			if (!fsdp_pickle_integer(pickle, part, &integer) || integer < 0)
				return true;
			size_t size = sizeof digits;
			do
				digits[--size] = (char)('0' + integer % 10);
			while ((integer /= 10) != 0);
			text = fsdp_span(digits + size, sizeof digits - size);
		}
		if (parts != 0 && (at >= key.size || key.data[at++] != '.'))
			return true;
		if (text.size > key.size - at ||
			(text.size != 0 &&
				memcmp(key.data + at, text.data, text.size) != 0))
			return true;
		at += text.size;
		packed[++parts] = (int64_t)text.size * 2 + is_integer;
	}
	if (at != key.size || (parts == 1 && !(packed[1] & 1)))
		return true;
	packed[0] = (int64_t)parts;
	*ret_path = fsdp_build_ints(parse->dcp->model, packed, parts + 1, parse->error);
	return *ret_path != FSDP_NONE;
}

static bool read_planner(struct fsdp_dcp_parse *parse, fsdp_ref planner)
{
	struct fsdp_dcp *dcp = parse->dcp;
	if (fsdp_pickle_kind(parse->pickle, planner) != FSDP_PICKLE_DICT)
		return true;
	struct fsdp_pickle_iterator iterator = { .ref = planner };
	fsdp_ref key, value;
	while (fsdp_pickle_next(parse->pickle, &iterator, &key, &value)) {
		struct fsdp_span text = fsdp_pickle_text(parse->pickle, key);
		uint32_t path;
		bool known;
		if (text.data == NULL)
			continue;
		uint32_t name = key_name(parse, key, text, &known);
		if (name == FSDP_NONE)
			return false;
		/* Of a key that comes again and again the first path counts. */
		if (known || fsdp_table_get(&parse->path_of, name) != FSDP_NONE)
			continue;
		if (!read_path(parse, text, value, &path))
			return false;
		if (!fsdp_table_set(&parse->path_of, name, path))
			return fsdp_arena_fail(dcp->scratch, parse->error);
	}
	return true;
}

/* The item of a name, made if it is new. */
static struct fsdp_dcp_item *get_item(
	struct fsdp_dcp_parse *parse, fsdp_ref key, struct fsdp_span text, bool is_object)
{
	struct fsdp_dcp *dcp = parse->dcp;
	bool known;
	uint32_t name = key_name(parse, key, text, &known);
	if (name == FSDP_NONE)
		return NULL;
	struct fsdp_dcp_item *item = fsdp_dcp_find_item(dcp, name);
	if (fsdp_dcp_is_same_item(dcp, item, is_object))
		return item;
	item = fsdp_vec_push(&dcp->items);
	if (item == NULL ||
		!fsdp_table_set(&dcp->item_of, name, (uint32_t)dcp->items.count - 1)) {
		fsdp_arena_fail(dcp->scratch, parse->error);
		return NULL;
	}
	*item = (struct fsdp_dcp_item){
		.name = name,
		.text = text,
		.file = dcp->file_number,
		.path_ref = fsdp_table_get(&parse->path_of, name),
		.first_list = FSDP_NONE,
		.last_list = FSDP_NONE,
		.info = FSDP_NONE,
		.shape = FSDP_NONE,
	};
	return item;
}

static void set_shape(struct fsdp_dcp_parse *parse, struct fsdp_dcp_item *item,
	const struct fsdp_dcp_meta *meta)
{
	struct fsdp_dcp *dcp = parse->dcp;
	size_t count;
	uint64_t numel, bytes;
	const int64_t *shape = fsdp_dcp_size_items(dcp, meta->size, &count);
	const struct fsdp_dcp_size_record *size = fsdp_vec_at(&dcp->sizes, meta->size);
	bool bad = !fsdp_numel(shape, count, &numel) || numel > INT64_MAX ||
		   !fsdp_dtype_bytes(meta->properties.dtype, numel, &bytes);
	if (bad) {
		fsdp_dcp_say(dcp, FSDP_RULE_CHUNK_BOUNDS, item->text,
			"the tensor's size is negative or overflows");
		item->bad = true;
	}
	if (item->shape != FSDP_NONE) {
		const int64_t *known = fsdp_model_ints(dcp->model, item->shape);
		if (item->dims != count || item->dtype != meta->properties.dtype ||
			!fsdp_dcp_same_ints(known, shape, count))
			fsdp_dcp_say(dcp, FSDP_RULE_SHARDS_DISAGREE, item->text,
				"metadata of two ranks disagree about the tensor's size or dtype");
		return;
	}
	item->shape = size->at;
	item->dims = (uint8_t)count;
	item->dtype = meta->properties.dtype;
	item->grad = meta->properties.grad;
	item->grad_known = meta->properties.grad_known;
}

static bool add_list(struct fsdp_dcp_parse *parse, struct fsdp_dcp_item *item,
	const struct fsdp_dcp_meta *meta)
{
	struct fsdp_dcp *dcp = parse->dcp;
	/* Keys may share a list, so what is listed does not follow from what was read. */
	uint64_t ceiling = fsdp_limit(dcp->model->limits, FSDP_LIMIT_CHUNKS);
	dcp->listed += meta->chunk_count;
	if (dcp->listed > ceiling)
		return fsdp_fail_limit(parse->error, FSDP_LIMIT_CHUNKS, ceiling);
	if (!fsdp_budget_work(dcp->scratch->budget,
		    CHUNK_STEPS * (uint64_t)meta->chunk_count, parse->error))
		return false;
	uint32_t id = (uint32_t)dcp->lists.count;
	if (!fsdp_vec_add(&dcp->lists, &(struct fsdp_dcp_list){
					       .first = meta->first_chunk,
					       .count = meta->chunk_count,
					       .next = FSDP_NONE,
					       .file = dcp->file_number,
				       }))
		return fsdp_arena_fail(dcp->scratch, parse->error);
	if (item->last_list != FSDP_NONE)
		((struct fsdp_dcp_list *)fsdp_vec_at(&dcp->lists, item->last_list))
			->next = id;
	else
		item->first_list = id;
	item->last_list = id;
	return true;
}

static bool read_entries(struct fsdp_dcp_parse *parse, fsdp_ref entries)
{
	struct fsdp_pickle_iterator iterator = { .ref = entries };
	fsdp_ref key, value;
	uint32_t meta = 0;
	while (fsdp_pickle_next(parse->pickle, &iterator, &key, &value)) {
		struct fsdp_span text = fsdp_pickle_text(parse->pickle, key);
		if (text.data == NULL) {
			fsdp_dcp_say(parse->dcp, FSDP_RULE_METADATA_UNREADABLE,
				(struct fsdp_span){ 0 },
				"a key of the state dict is not a string");
			continue;
		}
		bool is_tensor = fsdp_dcp_folded(
			parse->pickle, value, FSDP_DCP_TENSOR_META, &meta);
		if (!is_tensor && !fsdp_dcp_is_object(parse->pickle, value)) {
			fsdp_dcp_say(parse->dcp, FSDP_RULE_METADATA_UNREADABLE, text,
				"the entry is neither a tensor nor a value");
			continue;
		}
		struct fsdp_dcp_item *item = get_item(parse, key, text, !is_tensor);
		if (item == NULL)
			return false;
		item->is_object = !is_tensor;
		if (!is_tensor)
			continue;
		const struct fsdp_dcp_meta *record =
			fsdp_vec_at(&parse->dcp->metas, meta);
		set_shape(parse, item, record);
		if (!add_list(parse, item, record))
			return false;
	}
	return true;
}

/* ---- the whole ---- */

static bool read_top(struct fsdp_dcp_parse *parse)
{
	struct fsdp_pickle *pickle = parse->pickle;
	fsdp_ref top = fsdp_pickle_top(pickle);
	const struct fsdp_pickle_global *global = fsdp_pickle_named(pickle, top);
	if (fsdp_pickle_kind(pickle, top) == FSDP_PICKLE_CALL && global != NULL &&
		!fsdp_span_is(global->name, "Metadata"))
		return calls_other(parse, global);
	if (fsdp_pickle_kind(pickle, top) != FSDP_PICKLE_CALL || global == NULL)
		return fsdp_dcp_damaged(parse, "the pickle is not a Metadata object");
	fsdp_ref state = fsdp_pickle_state(pickle, top, 0);
	if (fsdp_pickle_kind(pickle, state) != FSDP_PICKLE_DICT)
		return fsdp_dcp_damaged(parse, "the Metadata object has no fields");
	fsdp_ref entries = fsdp_pickle_get(pickle, state, "state_dict_metadata");
	if (fsdp_pickle_kind(pickle, entries) != FSDP_PICKLE_DICT)
		return fsdp_dcp_damaged(parse, "it has no state dict");
	parse->dcp->has_version |=
		fsdp_pickle_get(pickle, state, "version") != FSDP_REF_NONE;
	parse->dcp->has_storage_meta |=
		fsdp_pickle_get(pickle, state, "storage_meta") != FSDP_REF_NONE;
	return read_planner(parse, fsdp_pickle_get(pickle, state, "planner_data")) &&
	       read_entries(parse, entries) &&
	       fsdp_dcp_read_storage(
		       parse, fsdp_pickle_get(pickle, state, "storage_data"));
}

bool fsdp_dcp_init(
	struct fsdp_dcp *dcp, struct fsdp_reading *reading, struct fsdp_error **ret_error)
{
	*dcp = (struct fsdp_dcp){
		.reading = reading,
		.model = reading->model,
		.scratch = reading->scratch,
	};
	fsdp_vec_init(&dcp->sizes, dcp->scratch, sizeof(struct fsdp_dcp_size_record));
	fsdp_vec_init(&dcp->chunks, dcp->scratch, sizeof(struct fsdp_dcp_chunk));
	fsdp_vec_init(&dcp->metas, dcp->scratch, sizeof(struct fsdp_dcp_meta));
	fsdp_vec_init(&dcp->indexes, dcp->scratch, sizeof(struct fsdp_dcp_index));
	fsdp_vec_init(&dcp->infos, dcp->scratch, sizeof(struct fsdp_dcp_info));
	fsdp_vec_init(&dcp->lists, dcp->scratch, sizeof(struct fsdp_dcp_list));
	fsdp_table_init(&dcp->item_of, dcp->scratch);
	fsdp_vec_init(&dcp->items, dcp->scratch, sizeof(struct fsdp_dcp_item));
	fsdp_vec_init(&dcp->owners, dcp->scratch, sizeof(struct fsdp_dcp_owner));
	dcp->kept = FSDP_TAKE(dcp->scratch, dcp->kept, 1);
	return (dcp->kept != NULL && fsdp_dcp_init_texts(&dcp->paths, dcp->scratch) &&
		       fsdp_dcp_init_texts(&dcp->fqns, dcp->scratch) &&
		       fsdp_dcp_init_names(&dcp->transforms, dcp->scratch)) ||
	       fsdp_arena_fail(dcp->scratch, ret_error);
}

static bool read_part(const void *context, uint64_t offset, void *buffer, size_t size,
	struct fsdp_error **ret_error)
{
	return fsdp_source_read(context, offset, buffer, size, ret_error);
}

/* A pickle that breaks off is no metadata, whatever else it is. */
static void name_damage(struct fsdp_error **error)
{
	struct fsdp_error *why = *error;
	const char *rule = fsdp_error_rule(why);
	if (rule == NULL || (strcmp(rule, "FI3013") != 0 && strcmp(rule, "FI3014") != 0))
		return;
	*error = NULL;
	fsdp_fail_rule(error, FSDP_ERROR_DAMAGED, "FI1020", fsdp_error_offset(why),
		"the metadata is not one whole pickle: %s", fsdp_error_message(why));
	fsdp_error_free(why);
}

bool fsdp_dcp_read(struct fsdp_dcp *dcp, const struct fsdp_source *source,
	struct fsdp_span file, struct fsdp_error **ret_error)
{
	struct fsdp_torch judge = {
		.model = dcp->model,
		.scratch = dcp->scratch,
		.file = file,
		.profile = FSDP_PROFILE_METADATA,
	};
	struct fsdp_dcp_parse parse = { .dcp = dcp, .error = ret_error };
	fsdp_table_init(&parse.path_of, dcp->scratch);
	fsdp_table_init(&parse.long_keys, dcp->scratch);
	struct fsdp_pickle_options options = {
		.folds = fsdp_dcp_folds,
		.fold_count = fsdp_dcp_fold_count,
		.context = dcp,
		.limits = dcp->reading->limits,
		.findings = &dcp->model->findings,
		.file = file,
		.texts = dcp->scratch,
	};
	fsdp_torch_watch(&judge, &options, source->size, 0);
	struct fsdp_pickle_parts parts = {
		.read = read_part, .context = source, .size = source->size
	};
	dcp->file = file;
	dcp->first_meta = dcp->metas.count;
	dcp->file_bytes = source->size;
	dcp->walked = 0;
	fsdp_dcp_forget_places(&dcp->paths, source->size);
	fsdp_dcp_forget_places(&dcp->fqns, source->size);
	bool read = fsdp_pickle_read_parts(
		&parts, dcp->scratch, &options, &parse.pickle, ret_error);
	judge.pickle = parse.pickle;
	fsdp_torch_judge(&judge);
	if (!read && ret_error != NULL && *ret_error != NULL)
		name_damage(ret_error);
	if (!read || !read_top(&parse))
		return false;
	dcp->file_number++;
	return true;
}
