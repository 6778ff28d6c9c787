/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds where the payload of a piece begins: reads the local header of a zip member, or
 * the directory and the pickle of a DCP item, which may have to be unpacked into memory.
 * Changes nothing in the checkpoint.
 */
#include <stdlib.h>

#include "base/num.h"
#include "checkpoint-private.h"
#include "elements/strides.h"
#include "format/torch/torch.h"
#include "io/archive.h"
#include "io/zip.h"
#include "model/dtype.h"

enum {
	WINDOW = 256 << 10,
	SMALL_PICKLE = 16 << 20,
	ITEM_ROOM = 1 << 20,
	UNPACKED_SLOTS = 16,
	UNPACKED_KEPT = 256 << 20, /* beside the one in hand */
};

/* In the place of a file: what was unpacked of an item, whose extent the other bits are. */
#define UNPACKED (UINT32_C(1) << 31)

/* An item that is stored compressed, in memory. */
struct unpacked {
	uint32_t extent; /* FSDP_NONE: the slot is free */
	uint64_t used;   /* when, in turns */
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_source source;
};

struct fsdp_locator {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_budget budget;
	struct fsdp_arena arena; /* of one item; reset before the next */
	struct fsdp_arena kept;  /* keys of storages, the window */
	struct fsdp_names keys;  /* keys seen, so that each is kept once */
	struct fsdp_zip_window window;
	uint32_t window_file;
	struct fsdp_folder folder; /* of the checkpoint, with files of its own */
	struct fsdp_dir dir;       /* that the folder is of, if has_dir */
	bool has_dir;
	struct unpacked unpacked[UNPACKED_SLOTS];
	struct fsdp_budget unpacking; /* of all that was unpacked, again and again */
	uint64_t turns;
};

/* Several locators may work at once: each opens the files of a directory for itself. */
static bool share_folder(struct fsdp_locator *locator, struct fsdp_error **ret_error)
{
	const struct fsdp_dir *dir = locator->checkpoint->folder.dir;
	locator->folder = locator->checkpoint->folder;
	if (!locator->checkpoint->is_folder || dir == NULL || dir->cache == NULL)
		return true;
	locator->has_dir = fsdp_dir_share(dir, &locator->dir, ret_error);
	locator->folder.dir = &locator->dir;
	return locator->has_dir;
}

/* ---- items that are compressed ---- */

static const struct fsdp_extent *extent_at(
	const struct fsdp_locator *locator, uint32_t extent)
{
	return fsdp_model_extent(&locator->checkpoint->model, extent);
}

uint32_t fsdp_locator_file(const struct fsdp_locator *locator, uint32_t file)
{
	return file != FSDP_NONE && (file & UNPACKED) != 0
		       ? extent_at(locator, file & ~UNPACKED)->file
		       : file;
}

static void forget(struct unpacked *unpacked)
{
	if (unpacked->extent != FSDP_NONE)
		fsdp_arena_done(&unpacked->arena);
	unpacked->extent = FSDP_NONE;
}

/* Its slot, or one that is free now: what waited longest goes, if there are too many or
 * too much. */
static struct unpacked *find_slot(struct fsdp_locator *locator, uint32_t extent)
{
	for (;;) {
		struct unpacked *slot = NULL, *oldest = NULL;
		uint64_t kept = 0;
		for (size_t i = 0; i < UNPACKED_SLOTS; i++) {
			struct unpacked *one = &locator->unpacked[i];
			if (one->extent == extent)
				return one;
			if (one->extent == FSDP_NONE) {
				slot = one;
				continue;
			}
			kept += one->budget.used;
			if (oldest == NULL || one->used < oldest->used)
				oldest = one;
		}
		if (slot != NULL && kept <= UNPACKED_KEPT)
			return slot;
		forget(oldest);
	}
}

static bool unpack(struct fsdp_locator *locator, uint32_t extent,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error)
{
	struct unpacked *slot = find_slot(locator, extent);
	const struct fsdp_limits *limits = &locator->checkpoint->limits;
	const struct fsdp_extent *record = extent_at(locator, extent);
	struct fsdp_source file, item;
	slot->used = ++locator->turns;
	if (slot->extent == extent) {
		*ret_source = slot->source;
		return true;
	}
	if (!fsdp_checkpoint_source_in(locator->checkpoint, &locator->folder,
		    record->file, &file, ret_error) ||
		!fsdp_source_slice(
			&file, record->offset, record->length, &item, ret_error))
		return false;
	fsdp_budget_init(&slot->budget, limits);
	fsdp_budget_give(&slot->budget, record->length);
	fsdp_arena_init(&slot->arena, &slot->budget);
	slot->extent = extent;
	if (fsdp_archive_unpack_one(
		    &item, "zstd", &slot->arena, limits, &slot->source, ret_error) &&
		fsdp_budget_unpack(&locator->unpacking, slot->source.size, ret_error)) {
		*ret_source = slot->source;
		return true;
	}
	forget(slot);
	return false;
}

bool fsdp_locator_source(struct fsdp_locator *locator, uint32_t file,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error)
{
	if ((file & UNPACKED) != 0)
		return unpack(locator, file & ~UNPACKED, ret_source, ret_error);
	return fsdp_checkpoint_source_in(
		locator->checkpoint, &locator->folder, file, ret_source, ret_error);
}

bool fsdp_locator_new(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_locator **ret_locator, struct fsdp_error **ret_error)
{
	struct fsdp_locator *locator = calloc(1, sizeof *locator);
	if (locator == NULL)
		return fsdp_fail_memory(ret_error);
	locator->checkpoint = checkpoint;
	locator->window_file = FSDP_NONE;
	for (size_t i = 0; i < UNPACKED_SLOTS; i++)
		locator->unpacked[i].extent = FSDP_NONE;
	fsdp_budget_init(&locator->unpacking, &checkpoint->limits);
	fsdp_budget_give(&locator->unpacking, fsdp_checkpoint_bytes(checkpoint).on_disk);
	if (!share_folder(locator, ret_error)) {
		free(locator);
		return false;
	}
	/* What the checkpoint has left. */
	locator->budget.ceiling =
		checkpoint->budget.ceiling -
		fsdp_min(checkpoint->budget.used, checkpoint->budget.ceiling);
	fsdp_arena_init(&locator->arena, &locator->budget);
	fsdp_arena_init(&locator->kept, &locator->budget);
	/* The first block stays for all items, so let it be enough for most of them. */
	if (fsdp_arena_take(&locator->arena, ITEM_ROOM, 16) != NULL)
		fsdp_arena_reset(&locator->arena);
	locator->window.window_size = WINDOW;
	locator->window.bytes = fsdp_arena_take(&locator->kept, WINDOW, 16);
	if (locator->window.bytes == NULL ||
		!fsdp_names_init(&locator->keys, &locator->kept)) {
		fsdp_arena_fail(&locator->kept, ret_error);
		fsdp_locator_free(locator);
		return false;
	}
	*ret_locator = locator;
	return true;
}

void fsdp_locator_free(struct fsdp_locator *locator)
{
	if (locator == NULL)
		return;
	if (locator->has_dir)
		fsdp_dir_close(&locator->dir);
	for (size_t i = 0; i < UNPACKED_SLOTS; i++)
		forget(&locator->unpacked[i]);
	fsdp_arena_done(&locator->arena);
	fsdp_arena_done(&locator->kept);
	free(locator);
}

/* ---- views ---- */

static bool fill_place(const struct fsdp_view *view, struct fsdp_place *place,
	struct fsdp_error **ret_error)
{
	uint64_t begin, end;
	if (!fsdp_view_bytes(view, &begin, &end))
		return fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, view->record,
			"the tensor reaches beyond its storage");
	place->item_offset = view->record;
	place->item_length = view->stored_size;
	place->storage_offset = view->storage_offset;
	place->storage_bytes = view->storage_bytes;
	place->dims = view->dims;
	place->strided = !fsdp_view_is_contiguous(view);
	memcpy(place->strides, view->strides, view->dims * sizeof *view->strides);
	if (view->dtype == FSDP_DTYPE_UNKNOWN) {
		/* How wide an element is, is not known; where they lie is. */
		place->offset = view->stored_size != 0 ? view->record : 0;
		place->length = view->stored_size;
		return true;
	}
	if (end == 0)
		return true;
	if (view->method != 0) {
		place->method = "deflate";
		place->offset = view->record;
		place->length = view->stored_size;
		return true;
	}
	place->offset = view->record + begin;
	place->length = end - begin;
	return true;
}

/* ---- zip members ---- */

static void piece_view(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_piece_record *piece, struct fsdp_view *view)
{
	const struct fsdp_model *model = &checkpoint->model;
	const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, piece->tensor);
	const int64_t *box = fsdp_model_box(model, piece);
	const int64_t *run = fsdp_model_run(model, piece);
	const int64_t *shape = run != NULL   ? run + 1
			       : box != NULL ? box + tensor->dims
					     : fsdp_model_ints(model, tensor->shape);
	const int64_t *strides = fsdp_model_ints(model, piece->strides);
	view->dims = run != NULL ? 1 : tensor->dims;
	view->dtype = tensor->dtype;
	view->storage_offset = piece->storage_offset;
	view->conj = (tensor->flags & FSDP_TENSOR_CONJ) != 0;
	view->neg = (tensor->flags & FSDP_TENSOR_NEG) != 0;
	memcpy(view->shape, shape, view->dims * sizeof *shape);
	if (strides != NULL)
		memcpy(view->strides, strides, view->dims * sizeof *strides);
	else
		fsdp_view_set_contiguous(view);
}

static bool locate_member(struct fsdp_locator *locator, const struct fsdp_extent *extent,
	struct fsdp_view *view, struct fsdp_error **ret_error)
{
	/* The same file is asked for many times in a row: keep its source. */
	if (locator->window_file != extent->file || locator->checkpoint->is_folder) {
		struct fsdp_source source;
		if (!fsdp_locator_source(locator, extent->file, &source, ret_error))
			return false;
		if (locator->window_file != extent->file)
			locator->window.begin = locator->window.end = 0;
		locator->window.source = source;
		locator->window_file = extent->file;
	}
	view->stored_size = extent->length;
	view->storage_bytes = extent->size;
	view->method = extent->method;
	view->crc = extent->crc;
	/* Zero is also what torch.serialization.skip_data leaves. */
	view->has_crc = extent->has_crc && extent->crc != 0;
	view->record = extent->offset;
	if (extent->kind == FSDP_EXTENT_BYTES)
		return true;
	return fsdp_zip_locate_in(&locator->window, extent->offset, extent->length,
		&view->record, ret_error);
}

/* ---- DCP items ---- */

/* What the item's pickle says of its one tensor. */
static bool read_item_view(
	struct fsdp_torch *torch, struct fsdp_view *view, uint32_t *ret_storage)
{
	uint32_t index;
	if (!fsdp_torch_folded(torch->pickle, fsdp_pickle_top(torch->pickle),
		    FSDP_TORCH_TENSOR, &index))
		return false;
	const struct fsdp_torch_tensor *tensor = fsdp_torch_tensor(torch, index);
	if (tensor->broken != NULL || tensor->storage == FSDP_NONE)
		return false;
	const int64_t *shape = fsdp_model_ints(torch->model, tensor->shape);
	view->dims = tensor->dims;
	view->dtype = tensor->dtype;
	view->storage_offset = tensor->offset;
	view->conj = (tensor->flags & FSDP_TENSOR_CONJ) != 0;
	view->neg = (tensor->flags & FSDP_TENSOR_NEG) != 0;
	memcpy(view->shape, shape, view->dims * sizeof *shape);
	if (tensor->contiguous)
		fsdp_view_set_contiguous(view);
	else
		memcpy(view->strides, shape + view->dims, view->dims * sizeof *shape);
	*ret_storage = tensor->storage;
	return true;
}

static const struct fsdp_zip_member *find_member(
	const struct fsdp_zip *zip, const char *folder, struct fsdp_span name)
{
	size_t size = strlen(folder);
	for (size_t i = 0; i < zip->members.count; i++) {
		const struct fsdp_zip_member *member = fsdp_zip_member(zip, i);
		const unsigned char *slash =
			memchr(member->name.data, '/', member->name.size);
		if (slash == NULL)
			continue;
		size_t skip = (size_t)(slash - member->name.data) + 1;
		struct fsdp_span rest =
			fsdp_span(member->name.data + skip, member->name.size - skip);
		if (rest.size == size + name.size &&
			memcmp(rest.data, folder, size) == 0 &&
			memcmp(rest.data + size, name.data, name.size) == 0)
			return member;
	}
	return NULL;
}

/* The key outlives the item. */
static bool keep_key(struct fsdp_locator *locator, struct fsdp_span key,
	struct fsdp_span *ret_key, struct fsdp_error **ret_error)
{
	uint32_t id = fsdp_names_find_child(&locator->keys, 0, key);
	if (id == FSDP_NONE) {
		struct fsdp_span copy = fsdp_arena_copy(&locator->kept, key);
		id = copy.data != NULL ? fsdp_names_child(&locator->keys, 0, copy)
				       : FSDP_NONE;
	}
	if (id == FSDP_NONE)
		return fsdp_arena_fail(&locator->kept, ret_error);
	*ret_key = fsdp_names_segment(&locator->keys, id);
	return true;
}

static bool item_error(
	struct fsdp_error **ret_error, const struct fsdp_extent *extent, const char *what)
{
	return fsdp_fail_rule(
		ret_error, FSDP_ERROR_DAMAGED, "FI1029", extent->offset, "%s", what);
}

/* The length of a header, and its first byte. */
static bool is_safetensors(const struct fsdp_source *source)
{
	unsigned char head[9];
	uint64_t length = 0;
	if (source->size < sizeof head ||
		!fsdp_source_read(source, 0, head, sizeof head, NULL))
		return false;
	for (size_t i = 8; i-- > 0;)
		length = length << 8 | head[i];
	return head[8] == '{' && length <= source->size - 8;
}

/* Some writers compress some items only. */
static bool is_unpacked(
	const struct fsdp_file_record *file, const struct fsdp_source *item)
{
	unsigned char head[4];
	return file->is_zstd && item->size >= sizeof head &&
	       fsdp_source_read(item, 0, head, sizeof head, NULL) &&
	       memcmp(head, "PK\3\4", sizeof head) != 0;
}

/* *ret_base: what its own offsets count from in *ret_file. */
static bool open_item(struct fsdp_locator *locator, uint32_t extent_id,
	struct fsdp_model *model, struct fsdp_source *item, struct fsdp_zip *zip,
	uint32_t *ret_file, uint64_t *ret_base, struct fsdp_error **ret_error)
{
	struct fsdp_source source;
	const struct fsdp_extent *extent = extent_at(locator, extent_id);
	const struct fsdp_file_record *file =
		fsdp_model_file(&locator->checkpoint->model, extent->file);
	fsdp_arena_reset(&locator->arena);
	*ret_file = extent->file;
	*ret_base = extent->offset;
	if (!fsdp_build_init(
		    model, &locator->arena, &locator->checkpoint->limits, ret_error) ||
		!fsdp_locator_source(locator, extent->file, &source, ret_error) ||
		!fsdp_source_slice(
			&source, extent->offset, extent->length, item, ret_error))
		return false;
	if (is_unpacked(file, item)) {
		*ret_file = extent_id | UNPACKED;
		*ret_base = 0;
		if (!unpack(locator, extent_id, item, ret_error))
			return false;
	}
	if (fsdp_zip_open(item, &locator->arena, &locator->checkpoint->limits, file->path,
		    &model->findings, zip, ret_error))
		return true;
	if (is_safetensors(&source)) {
		if (ret_error != NULL)
			fsdp_error_cleanup(ret_error);
		fsdp_fail_rule(ret_error, FSDP_ERROR_UNSUPPORTED, "FI9004", FSDP_UNKNOWN,
			"the file is one safetensors file (SerializationFormat.SAFETENSORS), of which .metadata tells no places");
		return fsdp_error_add_hint(ret_error,
			"torch itself cannot read it back; open the .distcp file with a safetensors reader");
	}
	fsdp_error_add_rule(ret_error, "FI1029");
	fsdp_error_shift_offset(ret_error, extent->offset);
	return false;
}

static bool locate_item(struct fsdp_locator *locator, uint32_t extent_id,
	struct fsdp_view *view, struct fsdp_span *ret_key, struct fsdp_error **ret_error)
{
	const struct fsdp_extent *extent = extent_at(locator, extent_id);
	struct fsdp_model model;
	struct fsdp_source item;
	struct fsdp_zip zip;
	struct fsdp_torch torch;
	struct fsdp_span stream;
	uint32_t storage;
	uint64_t begin, base;
	if (!open_item(locator, extent_id, &model, &item, &zip, &view->file, &base,
		    ret_error))
		return false;
	const struct fsdp_zip_member *pickle =
		find_member(&zip, "", FSDP_SPAN("data.pkl"));
	if (pickle == NULL)
		return item_error(ret_error, extent, "the item holds no data.pkl");
	if (!fsdp_zip_read(
		    &zip, pickle, SMALL_PICKLE, &locator->arena, &stream, ret_error) ||
		!fsdp_torch_init(&torch, &model, &locator->arena, &locator->arena,
			(struct fsdp_span){ 0 }, pickle->name, ret_error) ||
		!fsdp_torch_read(&torch, stream, extent->offset, false, ret_error))
		return false;
	if (!read_item_view(&torch, view, &storage))
		return item_error(ret_error, extent, "the item is not a tensor");
	struct fsdp_span key = fsdp_torch_key(&torch, storage);
	const struct fsdp_zip_member *member = find_member(&zip, "data/", key);
	if (member == NULL)
		return item_error(
			ret_error, extent, "the item lacks the record of its storage");
	if (!fsdp_zip_locate(&item, member, &begin, ret_error)) {
		fsdp_error_shift_offset(ret_error, extent->offset);
		return false;
	}
	view->record = base + begin;
	view->stored_size = member->stored_size;
	view->storage_bytes = member->size;
	view->method = member->method;
	view->crc = member->crc;
	view->has_crc = !zip.no_crc && member->crc != 0;
	return keep_key(locator, key, ret_key, ret_error);
}

/* The item must hold what the metadata says. */
static bool check_item(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_piece_record *piece, const struct fsdp_extent *extent,
	const struct fsdp_view *view, struct fsdp_error **ret_error)
{
	const struct fsdp_tensor_record *tensor =
		fsdp_model_tensor(&checkpoint->model, piece->tensor);
	const int64_t *box = fsdp_model_ints(&checkpoint->model, piece->box);
	const int64_t *sizes =
		box != NULL ? box + tensor->dims
			    : fsdp_model_ints(&checkpoint->model, tensor->shape);
	if (view->dims != tensor->dims || view->dtype != tensor->dtype ||
		(view->dims != 0 &&
			memcmp(view->shape, sizes, view->dims * sizeof *sizes) != 0))
		return item_error(ret_error, extent,
			"the item's shape or dtype is not what the metadata says");
	return true;
}

const struct fsdp_checkpoint *fsdp_locator_checkpoint(const struct fsdp_locator *locator)
{
	return locator->checkpoint;
}

static bool make_view(struct fsdp_locator *locator, uint32_t index,
	struct fsdp_view *view, struct fsdp_span *ret_key, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = locator->checkpoint;
	const struct fsdp_piece_record *piece =
		fsdp_model_piece(&checkpoint->model, index);
	if (piece->extent == FSDP_NONE)
		return fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
			"the piece has no usable storage");
	const struct fsdp_extent *extent =
		fsdp_model_extent(&checkpoint->model, piece->extent);
	const struct fsdp_file_record *file =
		fsdp_model_file(&checkpoint->model, extent->file);
	bool found;
	view->file = extent->file;
	*ret_key = fsdp_model_key(&checkpoint->model, extent);
	if (file->is_transformed)
		found = fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
			"its items are stored transformed by an extension");
	else if (extent->missing && extent->method == FSDP_METHOD_TEXT)
		found = fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
			"the elements are stored as text (pickle below protocol 3)");
	else if (extent->missing)
		found = fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
			"the file does not hold these bytes");
	else if (extent->kind == FSDP_EXTENT_ITEM)
		found = locate_item(locator, piece->extent, view, ret_key, ret_error) &&
			check_item(checkpoint, piece, extent, view, ret_error);
	else {
		piece_view(checkpoint, piece, view);
		found = locate_member(locator, extent, view, ret_error);
	}
	if (!found)
		fsdp_error_add_path(ret_error, (const char *)file->path.data);
	view->big_endian = extent->big_endian;
	return found;
}

bool fsdp_locator_view(struct fsdp_locator *locator, uint32_t piece,
	struct fsdp_view *ret_view, struct fsdp_error **ret_error)
{
	struct fsdp_span key;
	return make_view(locator, piece, ret_view, &key, ret_error);
}

bool fsdp_piece_locate(struct fsdp_locator *locator, uint32_t piece,
	struct fsdp_place *ret_place, struct fsdp_error **ret_error)
{
	struct fsdp_view view;
	struct fsdp_span key;
	struct fsdp_place place = { 0 };
	if (!make_view(locator, piece, &view, &key, ret_error) ||
		!fill_place(&view, &place, ret_error))
		return false;
	if ((view.file & UNPACKED) != 0) {
		const struct fsdp_extent *extent =
			extent_at(locator, view.file & ~UNPACKED);
		place.method = "zstd";
		place.offset = place.item_offset = extent->offset;
		place.length = place.item_length = extent->length;
	}
	const struct fsdp_model *model = &locator->checkpoint->model;
	if (fsdp_model_extent(model, fsdp_model_piece(model, piece)->extent)->kind ==
		FSDP_EXTENT_ITEM)
		place.flags = (view.conj ? FSDP_TENSOR_CONJ : 0) |
			      (view.neg ? FSDP_TENSOR_NEG : 0);
	place.storage = key;
	place.big_endian = view.big_endian;
	*ret_place = place;
	return true;
}
