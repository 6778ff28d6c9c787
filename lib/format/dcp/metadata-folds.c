/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folds the classes of DCP's metadata into records: they are listed in metadata.c.
 */
#include <stdio.h>

#include "base/num.h"
#include "format/dcp/metadata-reading.h"
#include "model/dtype.h"

enum {
	PATH_MAX_BYTES = 4096,
	SEEN_TEXTS = 4096, /* two to the n */
	FIELDS_MAX = 64,   /* of an object; any number of them may share a state */
	TRANSFORM_BYTES = 64,
	CHUNK_BYTES = 4,       /* a chunk of a list takes more in every honest file */
	PROPERTIES_BEFORE = 5, /* of a tensor, in torch before 2.15 */
};

static bool add(struct fsdp_dcp *dcp, struct fsdp_vec *vec, enum fsdp_dcp_kind kind,
	void **ret_record, uint32_t *ret_number, struct fsdp_error **ret_error)
{
	size_t index = vec->count;
	void *record = index < (1u << 26) ? fsdp_vec_push(vec) : NULL;
	if (record == NULL)
		return fsdp_arena_fail(dcp->scratch, ret_error);
	*ret_record = record;
	*ret_number = fsdp_dcp_pack(index, kind);
	return true;
}

/* ---- texts ---- */

bool fsdp_dcp_init_names(struct fsdp_names *names, struct fsdp_arena *scratch)
{
	bool good = fsdp_names_init(names, scratch);
	names->copies = scratch;
	return good;
}

bool fsdp_dcp_init_texts(struct fsdp_dcp_texts *texts, struct fsdp_arena *scratch)
{
	fsdp_vec_init(&texts->after, scratch, sizeof(uint32_t));
	texts->seen = FSDP_TAKE(scratch, texts->seen, SEEN_TEXTS);
	return texts->seen != NULL && fsdp_dcp_init_names(&texts->names, scratch);
}

/* Places mean something in their pickle only. */
void fsdp_dcp_forget_places(struct fsdp_dcp_texts *texts, uint64_t file_bytes)
{
	memset(texts->seen, 0, SEEN_TEXTS * sizeof *texts->seen);
	fsdp_table_init(&texts->seen_long, texts->names.arena);
	texts->written = 0;
	texts->most = file_bytes;
}

/* A text that is written out, not recalled: ranks write in turn, so the one that came
 * after the last one before is tried first. FSDP_NONE when out of memory; 0, which is no
 * text: all of them are longer than the file, so a few are looked at again and again. */
static uint32_t written_id(struct fsdp_dcp_texts *texts, struct fsdp_span text)
{
	texts->written += text.size;
	if (texts->written > texts->most)
		return 0;
	uint32_t *after = fsdp_vec_reach(&texts->after, texts->last);
	if (after == NULL)
		return FSDP_NONE;
	if (*after == 0 ||
		!fsdp_span_equal(fsdp_names_segment(&texts->names, *after), text))
		*after = fsdp_names_child(&texts->names, 0, text);
	if (*after != FSDP_NONE)
		texts->last = *after;
	return *after;
}

/* Any number of entries may share one text, which is compared and hashed once; a short
 * one may be again, if another took its place. As above. */
static uint32_t text_id(struct fsdp_dcp_texts *texts, const struct fsdp_pickle *pickle,
	fsdp_ref ref, struct fsdp_span text)
{
	uint32_t place = fsdp_pickle_place(pickle, ref);
	struct fsdp_dcp_seen *seen = &texts->seen[place % SEEN_TEXTS];
	bool is_long = text.size > FSDP_DCP_SHORT_BYTES;
	if (!fsdp_pickle_stays(pickle, ref))
		return written_id(texts, text);
	if (!is_long && seen->id != 0 && seen->place == place)
		return seen->id;
	uint32_t id = is_long ? fsdp_table_get(&texts->seen_long, place) : FSDP_NONE;
	if (id != FSDP_NONE)
		return id;
	id = fsdp_names_child(&texts->names, 0, text);
	if (is_long && id != FSDP_NONE && !fsdp_table_set(&texts->seen_long, place, id))
		return FSDP_NONE;
	if (!is_long && id != FSDP_NONE)
		*seen = (struct fsdp_dcp_seen){ place, id };
	return id;
}

/* Of an object that folds, with so many fields mostly. Any number of objects may share
 * one state, so one with many fields is none of theirs; calls.c judges
 * what is given beyond that. */
static bool is_state(const struct fsdp_pickle *pickle, fsdp_ref state, uint64_t fields)
{
	struct fsdp_pickle_iterator iterator = { .ref = state };
	fsdp_ref key, value;
	uint64_t count = fsdp_pickle_count(pickle, state);
	if (fsdp_pickle_kind(pickle, state) != FSDP_PICKLE_DICT || count > FIELDS_MAX)
		return false;
	while (count > fields && fsdp_pickle_next(pickle, &iterator, &key, &value))
		if (fsdp_span_begins(fsdp_pickle_text(pickle, key), FSDP_SPAN("__")))
			return false;
	return true;
}

/* ---- folds ---- */

/* The slot where such a size is, if it was kept. */
static struct fsdp_dcp_size *size_slot(
	const struct fsdp_dcp *dcp, const int64_t *items, size_t count)
{
	uint64_t hash = fsdp_dcp_hash_ints(dcp, count, items, count);
	return &dcp->kept->sizes[hash >> 32 & (FSDP_DCP_KEPT - 1)];
}

static void keep_size(
	struct fsdp_dcp_size *slot, uint32_t size, const int64_t *items, size_t count)
{
	*slot = (struct fsdp_dcp_size){ size + 1, (uint32_t)count, { 0 } };
	for (size_t i = 0; i < count; i++)
		slot->items[i] = items[i];
}

static bool fold_size(void *context, struct fsdp_pickle *pickle,
	const struct fsdp_folding *call, uint32_t *ret_number,
	struct fsdp_error **ret_error)
{
	struct fsdp_dcp *dcp = context;
	int64_t items[FSDP_DIMS_MAX];
	size_t count;
	void *record = NULL;
	if (fsdp_pickle_count(pickle, call->arguments) != 1 ||
		!fsdp_pickle_ints(pickle, fsdp_pickle_item(pickle, call->arguments, 0),
			items, FSDP_DIMS_MAX, &count))
		return false;
	bool kept = count <= FSDP_DCP_KEPT_DIMS;
	struct fsdp_dcp_size *slot = kept ? size_slot(dcp, items, count) : NULL;
	if (kept && slot->size != 0 && slot->count == count &&
		fsdp_dcp_same_ints(slot->items, items, count)) {
		*ret_number = fsdp_dcp_pack(slot->size - 1, FSDP_DCP_SIZE);
		return true;
	}
	if (!add(dcp, &dcp->sizes, FSDP_DCP_SIZE, &record, ret_number, ret_error))
		return false;
	if (kept)
		keep_size(slot, (uint32_t)dcp->sizes.count - 1, items, count);
	struct fsdp_dcp_size_record *size = record;
	size->at = fsdp_build_ints(dcp->model, items, count, ret_error);
	size->count = (uint32_t)count;
	return size->at != FSDP_NONE;
}

/* Offsets, then sizes; FSDP_NONE when out of memory. */
static fsdp_ints box_of(struct fsdp_dcp *dcp, uint32_t offsets, uint32_t sizes,
	size_t dims, struct fsdp_error **ret_error)
{
	int64_t box[2 * FSDP_DIMS_MAX];
	uint64_t hash =
		fsdp_mix((uint64_t)offsets << 32 | sizes, dcp->paths.names.seed_too);
	struct fsdp_dcp_box *known = &dcp->kept->boxes[hash >> 32 & (FSDP_DCP_KEPT - 1)];
	if (known->box != 0 && known->offsets == offsets && known->sizes == sizes)
		return known->box;
	if (dims != 0) {
		memcpy(box, fsdp_dcp_size_items(dcp, offsets, &dims), dims * sizeof *box);
		memcpy(box + dims, fsdp_dcp_size_items(dcp, sizes, &dims),
			dims * sizeof *box);
	}
	fsdp_ints at = fsdp_build_ints(dcp->model, box, 2 * dims, ret_error);
	if (at != FSDP_NONE)
		*known = (struct fsdp_dcp_box){ offsets, sizes, at };
	return at;
}

static bool fold_chunk(void *context, struct fsdp_pickle *pickle,
	const struct fsdp_folding *call, uint32_t *ret_number,
	struct fsdp_error **ret_error)
{
	struct fsdp_dcp *dcp = context;
	uint32_t offsets, sizes;
	size_t count, size_count;
	void *record = NULL;
	if (!is_state(pickle, call->state, 2) ||
		!fsdp_dcp_folded(pickle, fsdp_pickle_get(pickle, call->state, "offsets"),
			FSDP_DCP_SIZE, &offsets) ||
		!fsdp_dcp_folded(pickle, fsdp_pickle_get(pickle, call->state, "sizes"),
			FSDP_DCP_SIZE, &sizes))
		return false;
	(void)fsdp_dcp_size_items(dcp, offsets, &count);
	(void)fsdp_dcp_size_items(dcp, sizes, &size_count);
	if (count != size_count ||
		!add(dcp, &dcp->chunks, FSDP_DCP_CHUNK, &record, ret_number, ret_error))
		return false;
	struct fsdp_dcp_chunk *chunk = record;
	*chunk = (struct fsdp_dcp_chunk){ .dims = (uint32_t)count, .info = FSDP_NONE };
	chunk->box = box_of(dcp, offsets, sizes, count, ret_error);
	return chunk->box != FSDP_NONE;
}

static bool read_properties(struct fsdp_pickle *pickle, fsdp_ref state,
	struct fsdp_dcp_properties *ret_properties)
{
	fsdp_ref dtype, grad;
	bool set;
	*ret_properties = (struct fsdp_dcp_properties){ 0 };
	if (is_state(pickle, state, 5)) {
		dtype = fsdp_pickle_get(pickle, state, "dtype");
		grad = fsdp_pickle_get(pickle, state, "requires_grad");
	} else {
		dtype = fsdp_pickle_item(pickle, state, 0);
		grad = fsdp_pickle_item(pickle, state, 2);
	}
	ret_properties->dtype = (uint8_t)fsdp_torch_dtype(pickle, dtype);
	ret_properties->grad_known = fsdp_pickle_boolean(pickle, grad, &set);
	ret_properties->grad = ret_properties->grad_known && set;
	return ret_properties->dtype != FSDP_DTYPE_UNKNOWN;
}

/* The packed facts fit into the number itself. */
static bool fold_properties(void *context, struct fsdp_pickle *pickle,
	const struct fsdp_folding *call, uint32_t *ret_number,
	struct fsdp_error **ret_error)
{
	struct fsdp_dcp *dcp = context;
	struct fsdp_dcp_properties properties;
	(void)ret_error;
	if (!read_properties(pickle, call->state, &properties))
		return false;
	dcp->has_strides |= fsdp_pickle_count(pickle, call->state) > PROPERTIES_BEFORE &&
			    fsdp_pickle_kind(pickle, call->state) == FSDP_PICKLE_TUPLE;
	*ret_number = fsdp_dcp_pack((uint32_t)properties.dtype |
					    (uint32_t)properties.grad << 8 |
					    (uint32_t)properties.grad_known << 9,
		FSDP_DCP_PROPERTIES);
	return true;
}

static struct fsdp_dcp_properties unpack_properties(uint32_t index)
{
	return (struct fsdp_dcp_properties){ (uint8_t)index, index >> 8 & 1,
		index >> 9 & 1 };
}

/* Chunks fold one behind the other while their list is built, so a list is nearly always
 * a run. One that is not (a chunk shared between lists) is copied behind. */
static bool take_chunks(struct fsdp_dcp *dcp, struct fsdp_pickle *pickle, fsdp_ref list,
	struct fsdp_dcp_meta *meta, struct fsdp_error **ret_error)
{
	if (fsdp_pickle_kind(pickle, list) != FSDP_PICKLE_LIST)
		return false;
	uint64_t count = fsdp_pickle_count(pickle, list);
	/* Any number of tensors may share one list, which is walked for each of them. */
	dcp->walked += count;
	if (dcp->walked > dcp->file_bytes / CHUNK_BYTES)
		return false;
	struct fsdp_pickle_iterator iterator = { .ref = list };
	fsdp_ref key, value;
	uint32_t first = 0, expected = 0, chunk;
	bool run = true, begun = false;
	while (fsdp_pickle_next(pickle, &iterator, &key, &value)) {
		if (!fsdp_dcp_folded(pickle, value, FSDP_DCP_CHUNK, &chunk))
			return false;
		if (!begun)
			first = expected = chunk;
		begun = true;
		run &= chunk == expected;
		expected = chunk + 1;
	}
	meta->chunk_count = (uint32_t)count;
	meta->first_chunk = first;
	if (run)
		return true;
	meta->first_chunk = (uint32_t)dcp->chunks.count;
	iterator = (struct fsdp_pickle_iterator){ .ref = list };
	while (fsdp_pickle_next(pickle, &iterator, &key, &value)) {
		(void)fsdp_dcp_folded(pickle, value, FSDP_DCP_CHUNK, &chunk);
		struct fsdp_dcp_chunk *copy = fsdp_vec_push(&dcp->chunks);
		if (copy == NULL || dcp->chunks.count >= (1u << 26))
			return fsdp_arena_fail(dcp->scratch, ret_error);
		*copy = *(const struct fsdp_dcp_chunk *)fsdp_vec_at(&dcp->chunks, chunk);
	}
	return true;
}

static bool fold_tensor_meta(void *context, struct fsdp_pickle *pickle,
	const struct fsdp_folding *call, uint32_t *ret_number,
	struct fsdp_error **ret_error)
{
	struct fsdp_dcp *dcp = context;
	struct fsdp_dcp_meta meta = { .size = FSDP_NONE };
	uint32_t properties;
	void *record = NULL;
	if (!is_state(pickle, call->state, 3) ||
		!fsdp_dcp_folded(pickle, fsdp_pickle_get(pickle, call->state, "size"),
			FSDP_DCP_SIZE, &meta.size) ||
		!fsdp_dcp_folded(pickle,
			fsdp_pickle_get(pickle, call->state, "properties"),
			FSDP_DCP_PROPERTIES, &properties) ||
		!take_chunks(dcp, pickle, fsdp_pickle_get(pickle, call->state, "chunks"),
			&meta, ret_error))
		return false;
	meta.properties = unpack_properties(properties);
	if (!add(dcp, &dcp->metas, FSDP_DCP_TENSOR_META, &record, ret_number, ret_error))
		return false;
	memcpy(record, &meta, sizeof meta);
	return true;
}

static bool fold_index(void *context, struct fsdp_pickle *pickle,
	const struct fsdp_folding *call, uint32_t *ret_number,
	struct fsdp_error **ret_error)
{
	struct fsdp_dcp *dcp = context;
	struct fsdp_dcp_index index = { .size = FSDP_NONE, .hint = -1 };
	int64_t hint;
	void *record = NULL;
	if (!is_state(pickle, call->state, 3))
		return false;
	fsdp_ref fqn = fsdp_pickle_get(pickle, call->state, "fqn");
	fsdp_ref offset = fsdp_pickle_get(pickle, call->state, "offset");
	struct fsdp_span text = fsdp_pickle_text(pickle, fqn);
	if (text.data == NULL)
		return false;
	if (offset != FSDP_REF_NONE &&
		fsdp_pickle_kind(pickle, offset) != FSDP_PICKLE_NULL &&
		!fsdp_dcp_folded(pickle, offset, FSDP_DCP_SIZE, &index.size))
		return false;
	if (fsdp_pickle_integer(
		    pickle, fsdp_pickle_get(pickle, call->state, "index"), &hint) &&
		hint >= 0 && hint < INT32_MAX)
		index.hint = (int32_t)hint;
	index.fqn = text_id(&dcp->fqns, pickle, fqn, text);
	if (index.fqn == FSDP_NONE)
		return fsdp_arena_fail(dcp->scratch, ret_error);
	if (!add(dcp, &dcp->indexes, FSDP_DCP_INDEX, &record, ret_number, ret_error))
		return false;
	memcpy(record, &index, sizeof index);
	return true;
}

/* The id of the name of the transform, of several of the first with a mark behind it; 0:
 * there is none. FSDP_NONE: out of memory. */
static uint32_t transform_id(
	struct fsdp_dcp *dcp, struct fsdp_pickle *pickle, fsdp_ref transforms)
{
	enum fsdp_pickle_kind kind = fsdp_pickle_kind(pickle, transforms);
	if (kind == FSDP_PICKLE_NOTHING || kind == FSDP_PICKLE_NULL ||
		fsdp_pickle_count(pickle, transforms) == 0)
		return 0;
	fsdp_ref first = fsdp_pickle_item(pickle, transforms, 0);
	struct fsdp_span name = fsdp_pickle_text(pickle, first);
	if (name.data == NULL)
		name = FSDP_SPAN("an unknown one");
	char shown[TRANSFORM_BYTES + 16];
	int size = snprintf(shown, sizeof shown, "%.*s%s",
		FSDP_TEXT_MOST(name, TRANSFORM_BYTES),
		fsdp_pickle_count(pickle, transforms) > 1 ? " and others" : "");
	return fsdp_names_child(&dcp->transforms, 0, fsdp_span(shown, (size_t)size));
}

static bool fold_info(void *context, struct fsdp_pickle *pickle,
	const struct fsdp_folding *call, uint32_t *ret_number,
	struct fsdp_error **ret_error)
{
	struct fsdp_dcp *dcp = context;
	int64_t offset = -1, length = -1;
	void *record = NULL;
	if (!is_state(pickle, call->state, 3))
		return false;
	fsdp_ref relative = fsdp_pickle_get(pickle, call->state, "relative_path");
	struct fsdp_span path = fsdp_pickle_text(pickle, relative);
	if (path.data == NULL)
		return false;
	/* Any number of entries may share one text. What is too long to be opened stays
	 * too long, and is not looked at to its end each time. */
	if (path.size > PATH_MAX_BYTES)
		path.size = PATH_MAX_BYTES + 1;
	bool numbers = fsdp_pickle_integer(pickle,
			       fsdp_pickle_get(pickle, call->state, "offset"), &offset) &&
		       fsdp_pickle_integer(pickle,
			       fsdp_pickle_get(pickle, call->state, "length"), &length);
	uint32_t id = text_id(&dcp->paths, pickle, relative, path);
	if (id == FSDP_NONE)
		return fsdp_arena_fail(dcp->scratch, ret_error);
	if (id == 0)
		return false;
	uint32_t transform = transform_id(dcp, pickle,
		fsdp_pickle_get(pickle, call->state, "transform_descriptors"));
	if (transform == FSDP_NONE)
		return fsdp_arena_fail(dcp->scratch, ret_error);
	if (!add(dcp, &dcp->infos, FSDP_DCP_INFO, &record, ret_number, ret_error))
		return false;
	*(struct fsdp_dcp_info *)record = (struct fsdp_dcp_info){
		.path = id,
		.bad = !numbers || offset < 0 || length < 0,
		.offset = offset < 0 ? 0 : (uint64_t)offset,
		.length = length < 0 ? 0 : (uint64_t)length,
		.transform = transform,
	};
	return true;
}

/* An object's entry has no fields, so it stays a symbolic value: some writers give it an
 * empty state, some none. */
bool fsdp_dcp_is_object(const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	const struct fsdp_pickle_global *global = fsdp_pickle_named(pickle, ref);
	return fsdp_pickle_kind(pickle, ref) == FSDP_PICKLE_CALL && global != NULL &&
	       fsdp_span_is(global->name, "BytesStorageMetadata");
}

#define NEW "torch.distributed.checkpoint."
#define OLD "torch.distributed._shard.checkpoint."
#define SHARD "torch.distributed._shard.sharded_tensor.metadata"

const struct fsdp_fold fsdp_dcp_folds[] = {
	{ "torch", "Size", FSDP_FOLD_CALL, fold_size, 0 },
	{ NEW "metadata", "ChunkStorageMetadata", FSDP_FOLD_BUILD, fold_chunk, 0 },
	{ OLD "metadata", "ChunkStorageMetadata", FSDP_FOLD_BUILD, fold_chunk, 0 },
	{ NEW "metadata", "TensorProperties", FSDP_FOLD_BUILD, fold_properties, 0 },
	{ OLD "metadata", "TensorProperties", FSDP_FOLD_BUILD, fold_properties, 0 },
	{ SHARD, "TensorProperties", FSDP_FOLD_BUILD, fold_properties, 0 },
	{ NEW "metadata", "TensorStorageMetadata", FSDP_FOLD_BUILD, fold_tensor_meta, 0 },
	{ OLD "metadata", "TensorStorageMetadata", FSDP_FOLD_BUILD, fold_tensor_meta, 0 },
	{ NEW "metadata", "MetadataIndex", FSDP_FOLD_BUILD, fold_index, 0 },
	{ OLD "metadata", "MetadataIndex", FSDP_FOLD_BUILD, fold_index, 0 },
	{ NEW "filesystem", "_StorageInfo", FSDP_FOLD_BUILD, fold_info, 0 },
	{ OLD "filesystem", "_StorageInfo", FSDP_FOLD_BUILD, fold_info, 0 },
	{ NEW "_hf_utils", "_HFStorageInfo", FSDP_FOLD_BUILD, fold_info, 0 },
};

const size_t fsdp_dcp_fold_count = FSDP_COUNT(fsdp_dcp_folds);
