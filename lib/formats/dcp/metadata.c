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
#include "formats/dcp/dcp-metadata.h"

#include "base/num.h"
#include "formats/torch/torch.h"

#include <stdio.h>

/* Longer texts are not compared again and again. */
enum { FSDP_DCP_SHORT_BYTES = 256 };

/* A folded number has its kind in the low three bits. */
enum fsdp_dcp_kind {
	FSDP_DCP_SIZE,
	FSDP_DCP_CHUNK,
	FSDP_DCP_PROPERTIES,
	FSDP_DCP_TENSOR_META,
	FSDP_DCP_INDEX,
	FSDP_DCP_INFO
};

struct fsdp_dcp_size_record {
	fsdp_ints at;
	uint32_t count;
};

/* Of properties, which are packed: a dtype, and bits. */
enum { PROPERTIES_GRAD = 1 << 8, PROPERTIES_GRAD_KNOWN = 1 << 9 };

struct fsdp_dcp_meta {
	uint32_t properties, size;
	uint32_t first_chunk, chunk_count;
};

struct fsdp_dcp_index {
	uint32_t fqn;  /* id of the text, 0: none that can be one */
	uint32_t size; /* FSDP_NONE: an object */
	int32_t hint;
};

static inline uint32_t dcp_pack(size_t index, enum fsdp_dcp_kind kind)
{
	return (uint32_t)index << 3 | kind;
}

static inline bool dcp_folded(struct fsdp_pickle *pickle, fsdp_ref ref,
	enum fsdp_dcp_kind kind, uint32_t *ret_index)
{
	uint32_t number;
	if (!fsdp_pickle_folded(pickle, ref, &number) || (number & 7) != kind)
		return false;
	*ret_index = number >> 3;
	return true;
}

static inline const int64_t *size_items(
	const struct fsdp_dcp *dcp, uint32_t size, size_t *ret_count)
{
	const struct fsdp_dcp_size_record *record = fsdp_vec_at(&dcp->sizes, size);
	*ret_count = record->count;
	return fsdp_model_ints(dcp->model, record->at);
}

/* A few numbers: a call of memcmp costs more than looking at them. */
static inline bool same_ints(const int64_t *a, const int64_t *b, size_t count)
{
	while (count > 0 && a[count - 1] == b[count - 1])
		count--;
	return count == 0;
}

/* Seeded, so that no file can aim at a slot. */
static inline uint64_t hash_ints(
	const struct fsdp_dcp *dcp, uint64_t first, const int64_t *items, size_t count)
{
	return fsdp_hash_more(&dcp->hasher,
		fsdp_hash_shape(&dcp->hasher, items, (uint32_t)count), first);
}

/* A metadata file while its items are made of its records. */
struct fsdp_dcp_parse {
	struct fsdp_dcp *dcp;
	struct fsdp_pickle *pickle;
	struct fsdp_table path_of;   /* planner_data's path by name id */
	struct fsdp_table long_keys; /* name id by the place */
};

/* ---- classes ---- */

enum {
	PATH_MAX_BYTES = 4096,
	SEEN_TEXTS = 4096, /* two to the n */
	FIELDS_MAX = 64,   /* of an object; any number of them may share a state */
	TRANSFORM_BYTES = 64,
	CHUNK_BYTES = 4,        /* a chunk of a list takes more in every honest file */
	PROPERTIES_BEFORE = 5,  /* of a tensor, in torch before 2.15 */
	RECORDS_MOST = 1 << 26, /* of a kind */
};

/* Adds a record; the number that a fold answers with. */
static uint32_t add(struct fsdp_vec *vec, enum fsdp_dcp_kind kind, const void *record)
{
	if (vec->count >= RECORDS_MOST)
		fsdp_arena_leave(vec->arena);
	fsdp_vec_append(vec, record);
	return dcp_pack(vec->count - 1, kind);
}

/* ---- texts ---- */

static void init_names(struct fsdp_names *names, struct fsdp_arena *scratch)
{
	(void)!fsdp_names_init(names, scratch);
	names->copies = scratch;
}

static void init_texts(struct fsdp_dcp_texts *texts, struct fsdp_arena *scratch)
{
	fsdp_vec_init(&texts->after, scratch, sizeof(uint32_t));
	texts->seen = FSDP_TAKE(scratch, texts->seen, SEEN_TEXTS);
	init_names(&texts->names, scratch);
}

/* Places mean something in their pickle only. */
static void forget_places(struct fsdp_dcp_texts *texts, uint64_t file_bytes)
{
	memset(texts->seen, 0, SEEN_TEXTS * sizeof *texts->seen);
	fsdp_table_init(&texts->seen_long, texts->names.arena);
	texts->written = 0;
	texts->most = file_bytes;
}

/* Any number of entries may share one text, which is compared and hashed once; a short
 * one may be again, if another took its place. As above. */
static uint32_t text_id(struct fsdp_dcp_texts *texts, const struct fsdp_pickle *pickle,
	fsdp_ref ref, struct fsdp_span text)
{
	uint32_t place = fsdp_pickle_place(pickle, ref);
	struct fsdp_dcp_seen *seen = &texts->seen[place % SEEN_TEXTS];
	bool is_long = text.size > FSDP_DCP_SHORT_BYTES;
	if (!fsdp_pickle_stays(pickle, ref)) {
		/* A text that is written out, not recalled: ranks write in turn, so the
		 * one that came after the last one before is tried first. 0, which is not
		 * a text: all of them are longer than the file, so a few are looked at
		 * again and again. */
		texts->written += text.size;
		if (texts->written > texts->most)
			return 0;
		uint32_t *after = fsdp_vec_reach(&texts->after, texts->last);
		if (*after == 0 ||
			!fsdp_span_equal(fsdp_names_segment(&texts->names, *after), text))
			*after = fsdp_names_child(&texts->names, 0, text);
		return texts->last = *after;
	}
	if (!is_long && seen->id != 0 && seen->place == place)
		return seen->id;
	uint32_t id = is_long ? fsdp_table_get(&texts->seen_long, place) : FSDP_NONE;
	if (id != FSDP_NONE)
		return id;
	id = fsdp_names_child(&texts->names, 0, text);
	if (is_long)
		(void)!fsdp_table_set(&texts->seen_long, place, id);
	else
		*seen = (struct fsdp_dcp_seen){ place, id };
	return id;
}

/* Of an object that folds, with so many fields mostly. Any number of objects may share
 * one state, so one with many fields is none of theirs; reduce-checks.c checks further
 * arguments. */
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

static bool fold_size(void *context, struct fsdp_pickle *pickle,
	const struct fsdp_folding *call, uint32_t *ret_number)
{
	struct fsdp_dcp *dcp = context;
	int64_t items[FSDP_DIMS_MAX];
	size_t count;
	if (fsdp_pickle_count(pickle, call->arguments) != 1 ||
		!fsdp_pickle_ints(pickle, fsdp_pickle_item(pickle, call->arguments, 0),
			items, FSDP_DIMS_MAX, &count))
		return false;
	bool kept = count <= FSDP_DCP_KEPT_DIMS;
	struct fsdp_dcp_size *slot =
		kept ? &dcp->kept->sizes[hash_ints(dcp, count, items, count) >> 32 &
					 (FSDP_DCP_KEPT - 1)]
		     : NULL;
	if (kept && slot->size != 0 && slot->count == count &&
		same_ints(slot->items, items, count)) {
		*ret_number = dcp_pack(slot->size - 1, FSDP_DCP_SIZE);
		return true;
	}
	*ret_number = add(&dcp->sizes, FSDP_DCP_SIZE,
		&(struct fsdp_dcp_size_record){
			fsdp_build_ints(dcp->model, items, count), (uint32_t)count });
	if (kept) {
		*slot = (struct fsdp_dcp_size){ (uint32_t)dcp->sizes.count,
			(uint32_t)count, { 0 } };
		for (size_t i = 0; i < count; i++)
			slot->items[i] = items[i];
	}
	return true;
}

/* Offsets, then sizes. */
static fsdp_ints box_of(
	struct fsdp_dcp *dcp, uint32_t offsets, uint32_t sizes, size_t dims)
{
	int64_t box[2 * FSDP_DIMS_MAX];
	uint64_t hash = fsdp_hash(&dcp->hasher, (uint64_t)offsets << 32 | sizes);
	struct fsdp_dcp_box *known = &dcp->kept->boxes[hash >> 32 & (FSDP_DCP_KEPT - 1)];
	if (known->box != 0 && known->offsets == offsets && known->sizes == sizes)
		return known->box;
	if (dims != 0) {
		memcpy(box, size_items(dcp, offsets, &dims), dims * sizeof *box);
		memcpy(box + dims, size_items(dcp, sizes, &dims), dims * sizeof *box);
	}
	fsdp_ints at = fsdp_build_ints(dcp->model, box, 2 * dims);
	*known = (struct fsdp_dcp_box){ offsets, sizes, at };
	return at;
}

static bool fold_chunk(void *context, struct fsdp_pickle *pickle,
	const struct fsdp_folding *call, uint32_t *ret_number)
{
	struct fsdp_dcp *dcp = context;
	uint32_t offsets, sizes;
	size_t count, size_count;
	if (!is_state(pickle, call->state, 2) ||
		!dcp_folded(pickle, fsdp_pickle_get(pickle, call->state, "offsets"),
			FSDP_DCP_SIZE, &offsets) ||
		!dcp_folded(pickle, fsdp_pickle_get(pickle, call->state, "sizes"),
			FSDP_DCP_SIZE, &sizes))
		return false;
	(void)size_items(dcp, offsets, &count);
	(void)size_items(dcp, sizes, &size_count);
	if (count != size_count)
		return false;
	*ret_number = add(&dcp->chunks, FSDP_DCP_CHUNK,
		&(struct fsdp_dcp_chunk){
			.dims = (uint32_t)count,
			.info = FSDP_NONE,
			.box = box_of(dcp, offsets, sizes, count),
		});
	return true;
}

/* The packed facts fit into the number itself. */
static bool fold_properties(void *context, struct fsdp_pickle *pickle,
	const struct fsdp_folding *call, uint32_t *ret_number)
{
	struct fsdp_dcp *dcp = context;
	fsdp_ref state = call->state;
	bool is_dict = is_state(pickle, state, 5), grad = false;
	uint32_t dtype =
		fsdp_torch_dtype(pickle, is_dict ? fsdp_pickle_get(pickle, state, "dtype")
						 : fsdp_pickle_item(pickle, state, 0));
	bool known = fsdp_pickle_boolean(pickle,
		is_dict ? fsdp_pickle_get(pickle, state, "requires_grad")
			: fsdp_pickle_item(pickle, state, 2),
		&grad);
	if (dtype == FSDP_DTYPE_UNKNOWN)
		return false;
	dcp->has_strides |= fsdp_pickle_count(pickle, state) > PROPERTIES_BEFORE &&
			    fsdp_pickle_kind(pickle, state) == FSDP_PICKLE_TUPLE;
	*ret_number = dcp_pack(dtype | (known ? PROPERTIES_GRAD_KNOWN : 0) |
				       (known && grad ? PROPERTIES_GRAD : 0),
		FSDP_DCP_PROPERTIES);
	return true;
}

/* Chunks fold in order while their list is built, so a list is nearly always
 * a run. One that is not (a chunk shared between lists) is copied to the end. */
static bool read_chunks(struct fsdp_dcp *dcp, struct fsdp_pickle *pickle, fsdp_ref list,
	struct fsdp_dcp_meta *meta)
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
		if (!dcp_folded(pickle, value, FSDP_DCP_CHUNK, &chunk))
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
		(void)dcp_folded(pickle, value, FSDP_DCP_CHUNK, &chunk);
		(void)add(&dcp->chunks, FSDP_DCP_CHUNK, fsdp_vec_at(&dcp->chunks, chunk));
	}
	return true;
}

static bool fold_tensor_meta(void *context, struct fsdp_pickle *pickle,
	const struct fsdp_folding *call, uint32_t *ret_number)
{
	struct fsdp_dcp *dcp = context;
	struct fsdp_dcp_meta meta = { .size = FSDP_NONE };
	if (!is_state(pickle, call->state, 3) ||
		!dcp_folded(pickle, fsdp_pickle_get(pickle, call->state, "size"),
			FSDP_DCP_SIZE, &meta.size) ||
		!dcp_folded(pickle, fsdp_pickle_get(pickle, call->state, "properties"),
			FSDP_DCP_PROPERTIES, &meta.properties) ||
		!read_chunks(dcp, pickle, fsdp_pickle_get(pickle, call->state, "chunks"),
			&meta))
		return false;
	*ret_number = add(&dcp->metas, FSDP_DCP_TENSOR_META, &meta);
	return true;
}

static bool fold_index(void *context, struct fsdp_pickle *pickle,
	const struct fsdp_folding *call, uint32_t *ret_number)
{
	struct fsdp_dcp *dcp = context;
	struct fsdp_dcp_index index = { .size = FSDP_NONE, .hint = -1 };
	int64_t hint;
	if (!is_state(pickle, call->state, 3))
		return false;
	fsdp_ref fqn = fsdp_pickle_get(pickle, call->state, "fqn");
	fsdp_ref offset = fsdp_pickle_get(pickle, call->state, "offset");
	struct fsdp_span text = fsdp_pickle_text(pickle, fqn);
	if (text.data == NULL)
		return false;
	if (offset != FSDP_REF_NONE &&
		fsdp_pickle_kind(pickle, offset) != FSDP_PICKLE_NULL &&
		!dcp_folded(pickle, offset, FSDP_DCP_SIZE, &index.size))
		return false;
	if (fsdp_pickle_integer(
		    pickle, fsdp_pickle_get(pickle, call->state, "index"), &hint) &&
		hint >= 0 && hint < INT32_MAX)
		index.hint = (int32_t)hint;
	index.fqn = text_id(&dcp->fqns, pickle, fqn, text);
	*ret_number = add(&dcp->indexes, FSDP_DCP_INDEX, &index);
	return true;
}

/* The id of the name of the transform, of several of the first with a mark after it; 0:
 * none. */
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
	const struct fsdp_folding *call, uint32_t *ret_number)
{
	struct fsdp_dcp *dcp = context;
	int64_t offset = -1, length = -1;
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
	if (id == 0)
		return false;
	*ret_number = add(&dcp->infos, FSDP_DCP_INFO,
		&(struct fsdp_dcp_info){
			.path = id,
			.bad = !numbers || offset < 0 || length < 0,
			.offset = offset < 0 ? 0 : (uint64_t)offset,
			.length = length < 0 ? 0 : (uint64_t)length,
			.transform = transform_id(dcp, pickle,
				fsdp_pickle_get(
					pickle, call->state, "transform_descriptors")),
		});
	return true;
}

#define NEW "torch.distributed.checkpoint."
#define OLD "torch.distributed._shard.checkpoint."
#define SHARD "torch.distributed._shard.sharded_tensor.metadata"

static const struct fsdp_fold dcp_folds[] = {
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

/* ---- items ---- */

#define NOT_METADATA(ret_error, ...)                                          \
	fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI1020", FSDP_UNKNOWN, \
		"this is not the metadata of a distributed checkpoint: " __VA_ARGS__)

/* NULL: no item has that name. */
static struct fsdp_dcp_item *find_item(struct fsdp_dcp *dcp, uint32_t name)
{
	uint32_t item = fsdp_table_get(&dcp->item_of, name);
	return item != FSDP_NONE ? fsdp_vec_at(&dcp->items, item) : NULL;
}

/* Of a tensor every file lists some chunks; an object is each file's own. */
static bool is_same_item(
	const struct fsdp_dcp *dcp, const struct fsdp_dcp_item *item, bool is_object)
{
	return item != NULL &&
	       (!is_object || !item->is_object || item->file == dcp->file_number);
}

/* A finding about this file. */
static void report_metadata(struct fsdp_dcp *dcp, enum fsdp_rule_index rule,
	struct fsdp_span tensor, const char *what)
{
	fsdp_find(&dcp->model->findings, rule,
		FSDP_PLACE(.file = dcp->file, .tensor = tensor), "%s", what);
}

/* ---- storage data ---- */

struct match {
	struct fsdp_dcp *dcp;
	uint32_t *slots; /* chunk + 1, by (list, offsets); made when a hint fails */
	size_t slot_count;
};

/* The slot of the chunk that a run of chunks has at an offset, or the free one where it
 * belongs. Of several at one offset the first is found, so equal ones make no chain. */
static size_t find_slot(const struct match *match, uint32_t first, uint32_t count,
	const int64_t *offset, size_t dims)
{
	const struct fsdp_dcp *dcp = match->dcp;
	size_t mask = match->slot_count - 1;
	size_t slot = (size_t)(hash_ints(dcp, first, offset, dims) >> 32) & mask;
	for (; match->slots[slot] != 0; slot = (slot + 1) & mask) {
		uint32_t id = match->slots[slot] - 1;
		const struct fsdp_dcp_chunk *chunk = fsdp_vec_at(&dcp->chunks, id);
		if (id >= first && id - first < count && chunk->dims == dims &&
			same_ints(fsdp_model_ints(dcp->model, chunk->box), offset, dims))
			break;
	}
	return slot;
}

/* Every chunk of every list that this file wrote out: any number of keys may share one,
 * so the table follows what was pickled and not what the keys refer to. */
static void build_slots(struct match *match)
{
	struct fsdp_dcp *dcp = match->dcp;
	size_t count = 16, listed = 0;
	for (size_t i = dcp->first_meta; i < dcp->metas.count; i++)
		listed += ((const struct fsdp_dcp_meta *)fsdp_vec_at(&dcp->metas, i))
				  ->chunk_count;
	while (count < listed * 2)
		count *= 2;
	match->slots = FSDP_TAKE(dcp->scratch, match->slots, count);
	match->slot_count = count;
	for (size_t i = dcp->first_meta; i < dcp->metas.count; i++) {
		const struct fsdp_dcp_meta *meta = fsdp_vec_at(&dcp->metas, i);
		for (uint32_t k = 0; k < meta->chunk_count; k++) {
			uint32_t id = meta->first_chunk + k;
			const struct fsdp_dcp_chunk *chunk =
				fsdp_vec_at(&dcp->chunks, id);
			size_t slot = find_slot(match, meta->first_chunk,
				meta->chunk_count,
				fsdp_model_ints(dcp->model, chunk->box), chunk->dims);
			if (match->slots[slot] == 0)
				match->slots[slot] = id + 1;
		}
	}
}

static uint32_t search_chunk(
	struct match *match, const struct fsdp_dcp_list *list, uint32_t size)
{
	size_t dims;
	if (match->slots == NULL)
		build_slots(match);
	const int64_t *offset = size_items(match->dcp, size, &dims);
	size_t slot = find_slot(match, list->first, list->count, offset, dims);
	return match->slots[slot] != 0 ? match->slots[slot] - 1 : FSDP_NONE;
}

/* Whether the chunk at a place of the list has the offset. */
static bool try_place(const struct fsdp_dcp *dcp, const struct fsdp_dcp_list *list,
	uint32_t place, uint32_t size, uint32_t *ret_chunk)
{
	if (place >= list->count)
		return false;
	uint32_t id = list->first + place;
	const struct fsdp_dcp_chunk *chunk = fsdp_vec_at(&dcp->chunks, id);
	size_t count;
	const int64_t *offset = size_items(dcp, size, &count);
	if (chunk->dims != count ||
		!same_ints(fsdp_model_ints(dcp->model, chunk->box), offset, count))
		return false;
	*ret_chunk = id;
	return true;
}

/* The index's hint, and then the place after the one found last, are believed only if the
 * chunk there has the offset: ranks write in turn, so one of them is nearly always right
 * and spares the search. */
static uint32_t find_chunk(struct match *match, const struct fsdp_dcp_item *item,
	const struct fsdp_dcp_index *index)
{
	struct fsdp_dcp *dcp = match->dcp;
	struct fsdp_dcp_list *list = item->last_list != FSDP_NONE
					     ? fsdp_vec_at(&dcp->lists, item->last_list)
					     : NULL;
	uint32_t chunk = FSDP_NONE;
	if (list == NULL || list->file != dcp->file_number || index->size == FSDP_NONE)
		return FSDP_NONE;
	bool guessed = index->hint >= 0 &&
		       try_place(dcp, list, (uint32_t)index->hint, index->size, &chunk);
	if (!guessed && !try_place(dcp, list, list->due, index->size, &chunk))
		chunk = search_chunk(match, list, index->size);
	if (chunk != FSDP_NONE)
		list->due = chunk - list->first + 1;
	return chunk;
}

/* The item of an entry; each FQN is looked up once in a file. */
static struct fsdp_dcp_item *entry_item(struct fsdp_dcp *dcp, uint32_t fqn)
{
	struct fsdp_dcp_owner *owner = fsdp_vec_at(&dcp->owners, fqn);
	struct fsdp_dcp_item *known =
		owner->item != 0 ? fsdp_vec_at(&dcp->items, owner->item - 1) : NULL;
	if (known != NULL && is_same_item(dcp, known, true))
		return known;
	if (fqn == 0 || owner->missing == dcp->file_number + 1)
		return NULL;
	uint32_t name = fsdp_names_find(
		&dcp->model->names, 0, fsdp_names_segment(&dcp->fqns.names, fqn));
	if (name == FSDP_NONE || find_item(dcp, name) == NULL) {
		owner->missing = dcp->file_number + 1;
		return NULL;
	}
	owner->item = fsdp_table_get(&dcp->item_of, name) + 1;
	return fsdp_vec_at(&dcp->items, owner->item - 1);
}

static void place(struct match *match, const struct fsdp_dcp_index *index, uint32_t info)
{
	struct fsdp_dcp *dcp = match->dcp;
	struct fsdp_dcp_item *item = entry_item(dcp, index->fqn);
	if (item != NULL && item->is_object) {
		item->info = info;
		return;
	}
	uint32_t chunk = item != NULL ? find_chunk(match, item, index) : FSDP_NONE;
	if (chunk == FSDP_NONE) {
		struct fsdp_dcp_owner *owner = fsdp_vec_at(&dcp->owners, index->fqn);
		if (item != NULL)
			item->has_more = true;
		else if (!owner->is_reported)
			report_metadata(dcp, FSDP_RULE_METADATA_INCONSISTENT,
				fsdp_names_segment(&dcp->fqns.names, index->fqn),
				"storage is recorded for a name that the state dict does not have");
		owner->is_reported = true;
		return;
	}
	((struct fsdp_dcp_chunk *)fsdp_vec_at(&dcp->chunks, chunk))->info = info;
}

/* Says of each chunk and object where it is stored. The entries were read before. */
static void read_storage(struct fsdp_dcp_parse *parse, fsdp_ref storage)
{
	struct match match = { .dcp = parse->dcp };
	(void)!fsdp_vec_reach(&parse->dcp->owners, parse->dcp->fqns.names.list.count);
	struct fsdp_pickle_iterator iterator = { .ref = storage };
	fsdp_ref key, value;
	uint32_t index, info;
	while (fsdp_pickle_next(parse->pickle, &iterator, &key, &value)) {
		if (!dcp_folded(parse->pickle, key, FSDP_DCP_INDEX, &index) ||
			!dcp_folded(parse->pickle, value, FSDP_DCP_INFO, &info)) {
			report_metadata(parse->dcp, FSDP_RULE_METADATA_UNREADABLE,
				(struct fsdp_span){ 0 },
				"an entry of the storage data has an unknown class");
			continue;
		}
		struct fsdp_dcp_info *range = fsdp_vec_at(&parse->dcp->infos, info);
		range->named_twice = range->named;
		range->named = true;
		place(&match, fsdp_vec_at(&parse->dcp->indexes, index), info);
	}
}

enum { CHUNK_STEPS = 4 }; /* of work, for one that a key lists */

/* ---- from records to items ---- */

/* The name of a key of the state dict or of planner_data: any number of entries may share
 * a long one, which is looked at once. *ret_known: it was a long one, and looked at
 * before. */
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
	if (is_long)
		(void)!fsdp_table_set(&parse->long_keys, place, name);
	return name;
}

/* planner_data: the path of each key, kept only if its parts joined give the key. */
static uint32_t read_path(
	struct fsdp_dcp_parse *parse, struct fsdp_span key, fsdp_ref tuple)
{
	struct fsdp_pickle *pickle = parse->pickle;
	uint64_t count = fsdp_pickle_count(pickle, tuple);
	if (fsdp_pickle_kind(pickle, tuple) != FSDP_PICKLE_TUPLE ||
		count > FSDP_PATH_DEPTH)
		return FSDP_NONE;
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
				return FSDP_NONE;
			size_t size = sizeof digits;
			do
				digits[--size] = (char)('0' + integer % 10);
			while ((integer /= 10) != 0);
			text = fsdp_span(digits + size, sizeof digits - size);
		}
		if (parts != 0 && (at >= key.size || key.data[at++] != '.'))
			return FSDP_NONE;
		if (text.size > key.size - at ||
			(text.size != 0 &&
				memcmp(key.data + at, text.data, text.size) != 0))
			return FSDP_NONE;
		at += text.size;
		packed[++parts] = (int64_t)text.size * 2 + is_integer;
	}
	if (at != key.size || (parts == 1 && !(packed[1] & 1)))
		return FSDP_NONE;
	packed[0] = (int64_t)parts;
	return fsdp_build_ints(parse->dcp->model, packed, parts + 1);
}

static void read_planner(struct fsdp_dcp_parse *parse, fsdp_ref planner)
{
	if (fsdp_pickle_kind(parse->pickle, planner) != FSDP_PICKLE_DICT)
		return;
	struct fsdp_pickle_iterator iterator = { .ref = planner };
	fsdp_ref key, value;
	while (fsdp_pickle_next(parse->pickle, &iterator, &key, &value)) {
		struct fsdp_span text = fsdp_pickle_text(parse->pickle, key);
		bool known;
		if (text.data == NULL)
			continue;
		uint32_t name = key_name(parse, key, text, &known);
		/* Of a key that comes again and again the first path counts. */
		if (!known && fsdp_table_get(&parse->path_of, name) == FSDP_NONE)
			(void)!fsdp_table_set(
				&parse->path_of, name, read_path(parse, text, value));
	}
}

/* The item of a name, made if it is new. */
static struct fsdp_dcp_item *get_item(
	struct fsdp_dcp_parse *parse, fsdp_ref key, struct fsdp_span text, bool is_object)
{
	struct fsdp_dcp *dcp = parse->dcp;
	bool known;
	uint32_t name = key_name(parse, key, text, &known);
	struct fsdp_dcp_item *item = find_item(dcp, name);
	if (is_same_item(dcp, item, is_object))
		return item;
	item = fsdp_vec_push(&dcp->items);
	(void)!fsdp_table_set(&dcp->item_of, name, (uint32_t)dcp->items.count - 1);
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
	uint64_t numel, bytes;
	uint8_t dtype = (uint8_t)meta->properties;
	const struct fsdp_dcp_size_record *size = fsdp_vec_at(&dcp->sizes, meta->size);
	const int64_t *shape = fsdp_model_ints(dcp->model, size->at);
	if (!fsdp_numel(shape, size->count, &numel) || numel > INT64_MAX ||
		!fsdp_dtype_bytes(dtype, numel, &bytes)) {
		report_metadata(dcp, FSDP_RULE_CHUNK_BOUNDS, item->text,
			"the tensor's size is negative or overflows");
		item->bad = true;
	}
	if (item->shape != FSDP_NONE) {
		const int64_t *known = fsdp_model_ints(dcp->model, item->shape);
		if (item->dims != size->count || item->dtype != dtype ||
			!same_ints(known, shape, size->count))
			report_metadata(dcp, FSDP_RULE_SHARDS_DISAGREE, item->text,
				"metadata of two ranks disagree about the tensor's size or dtype");
		return;
	}
	item->shape = size->at;
	item->dims = (uint8_t)size->count;
	item->dtype = dtype;
	item->grad = meta->properties & PROPERTIES_GRAD;
	item->grad_known = meta->properties & PROPERTIES_GRAD_KNOWN;
}

static void add_list(struct fsdp_dcp *dcp, struct fsdp_dcp_item *item,
	const struct fsdp_dcp_meta *meta)
{
	/* Keys may share a list, so what is listed does not follow from what was read. */
	uint64_t ceiling = fsdp_limit(dcp->model->limits, FSDP_LIMIT_CHUNKS);
	dcp->listed += meta->chunk_count;
	struct fsdp_error *error = NULL;
	if (dcp->listed > ceiling
			? !fsdp_fail_limit(&error, FSDP_LIMIT_CHUNKS, ceiling)
			: !fsdp_budget_work(dcp->scratch->budget,
				  CHUNK_STEPS * (uint64_t)meta->chunk_count, &error)) {
		fsdp_error_add_path(&error, (const char *)dcp->file.data);
		fsdp_model_leave(dcp->model, error);
	}
	uint32_t id = (uint32_t)dcp->lists.count;
	fsdp_vec_append(&dcp->lists, &(struct fsdp_dcp_list){
					     .first = meta->first_chunk,
					     .count = meta->chunk_count,
					     .next = FSDP_NONE,
					     .file = dcp->file_number,
				     });
	if (item->last_list != FSDP_NONE)
		((struct fsdp_dcp_list *)fsdp_vec_at(&dcp->lists, item->last_list))
			->next = id;
	else
		item->first_list = id;
	item->last_list = id;
}

static void read_entries(struct fsdp_dcp_parse *parse, fsdp_ref entries)
{
	struct fsdp_pickle_iterator iterator = { .ref = entries };
	fsdp_ref key, value;
	uint32_t meta = 0;
	while (fsdp_pickle_next(parse->pickle, &iterator, &key, &value)) {
		struct fsdp_span text = fsdp_pickle_text(parse->pickle, key);
		if (text.data == NULL) {
			report_metadata(parse->dcp, FSDP_RULE_METADATA_UNREADABLE,
				(struct fsdp_span){ 0 },
				"a key of the state dict is not a string");
			continue;
		}
		if (dcp_folded(parse->pickle, value, FSDP_DCP_TENSOR_META, &meta)) {
			const struct fsdp_dcp_meta *record =
				fsdp_vec_at(&parse->dcp->metas, meta);
			struct fsdp_dcp_item *item = get_item(parse, key, text, false);
			item->is_object = false;
			set_shape(parse, item, record);
			add_list(parse->dcp, item, record);
			continue;
		}
		/* An object's entry has no fields, so it stays a symbolic value: some
		 * writers give it an empty state, some none. */
		const struct fsdp_pickle_global *global =
			fsdp_pickle_named(parse->pickle, value);
		if (fsdp_pickle_kind(parse->pickle, value) == FSDP_PICKLE_CALL &&
			global != NULL &&
			fsdp_span_is(global->name, "BytesStorageMetadata"))
			get_item(parse, key, text, true)->is_object = true;
		else
			report_metadata(parse->dcp, FSDP_RULE_METADATA_UNREADABLE, text,
				"the entry is neither a tensor nor a value");
	}
}

/* ---- the file ---- */

static bool read_top(struct fsdp_dcp_parse *parse, struct fsdp_error **ret_error)
{
	struct fsdp_pickle *pickle = parse->pickle;
	fsdp_ref top = fsdp_pickle_top(pickle);
	const struct fsdp_pickle_global *global = fsdp_pickle_named(pickle, top);
	if (fsdp_pickle_kind(pickle, top) != FSDP_PICKLE_CALL || global == NULL)
		return NOT_METADATA(ret_error, "the pickle is not a Metadata object");
	if (!fsdp_span_is(global->name, "Metadata"))
		return NOT_METADATA(ret_error, "the pickle calls %.*s.%.*s (not run)",
			FSDP_TEXT_MOST(global->module, 100),
			FSDP_TEXT_MOST(global->name, 100));
	fsdp_ref state = fsdp_pickle_state(pickle, top, 0);
	if (fsdp_pickle_kind(pickle, state) != FSDP_PICKLE_DICT)
		return NOT_METADATA(ret_error, "the Metadata object has no fields");
	fsdp_ref entries = fsdp_pickle_get(pickle, state, "state_dict_metadata");
	if (fsdp_pickle_kind(pickle, entries) != FSDP_PICKLE_DICT)
		return NOT_METADATA(ret_error, "it has no state dict");
	parse->dcp->has_version |=
		fsdp_pickle_get(pickle, state, "version") != FSDP_REF_NONE;
	parse->dcp->has_storage_meta |=
		fsdp_pickle_get(pickle, state, "storage_meta") != FSDP_REF_NONE;
	read_planner(parse, fsdp_pickle_get(pickle, state, "planner_data"));
	read_entries(parse, entries);
	fsdp_ref storage = fsdp_pickle_get(pickle, state, "storage_data");
	if (fsdp_pickle_kind(pickle, storage) != FSDP_PICKLE_DICT)
		return NOT_METADATA(ret_error, "it has no storage data");
	read_storage(parse, storage);
	return true;
}

void fsdp_dcp_init(struct fsdp_dcp *dcp, struct fsdp_reading *reading)
{
	*dcp = (struct fsdp_dcp){
		.reading = reading,
		.model = reading->model,
		.scratch = reading->scratch,
		.hasher = fsdp_hasher_new(),
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
	init_texts(&dcp->paths, dcp->scratch);
	init_texts(&dcp->fqns, dcp->scratch);
	init_names(&dcp->transforms, dcp->scratch);
}

static bool read_part(const void *context, uint64_t offset, void *buffer, size_t size,
	struct fsdp_error **ret_error)
{
	return fsdp_source_read(context, offset, buffer, size, ret_error);
}

bool fsdp_dcp_read(struct fsdp_dcp *dcp, const struct fsdp_source *source,
	struct fsdp_span file, struct fsdp_error **ret_error)
{
	struct fsdp_torch checker = {
		.model = dcp->model,
		.scratch = dcp->scratch,
		.kept = dcp->scratch,
		.file = file,
		.profile = FSDP_PROFILE_METADATA,
	};
	struct fsdp_dcp_parse parse = { .dcp = dcp };
	fsdp_table_init(&parse.path_of, dcp->scratch);
	fsdp_table_init(&parse.long_keys, dcp->scratch);
	struct fsdp_pickle_options options = {
		.folds = dcp_folds,
		.fold_count = FSDP_COUNT(dcp_folds),
		.context = dcp,
		.texts = dcp->scratch,
	};
	struct fsdp_pickle_parts parts = {
		.read = read_part, .context = source, .size = source->size
	};
	dcp->file = file;
	dcp->first_meta = dcp->metas.count;
	dcp->file_bytes = source->size;
	dcp->walked = 0;
	forget_places(&dcp->paths, source->size);
	forget_places(&dcp->fqns, source->size);
	bool read = fsdp_torch_read_with(
		&checker, (struct fsdp_span){ 0 }, &parts, &options, ret_error);
	parse.pickle = checker.pickle;
	fsdp_torch_check(&checker);
	if (!read && ret_error != NULL && *ret_error != NULL) {
		/* A truncated pickle is damaged metadata, also if it has other errors. */
		struct fsdp_error *why = *ret_error;
		const char *rule = fsdp_error_rule(why);
		if (rule != NULL &&
			(strcmp(rule, "FI3013") == 0 || strcmp(rule, "FI3014") == 0)) {
			*ret_error = NULL;
			fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI1020",
				fsdp_error_offset(why),
				strcmp(rule, "FI3014") == 0 ? ".metadata is truncated: %s"
							    : ".metadata is damaged: %s",
				fsdp_error_message(why));
			fsdp_error_free(why);
		}
	}
	if (!read || !read_top(&parse, ret_error))
		return false;
	dcp->file_number++;
	return true;
}
