/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements of tensors: finds where the payload of a piece begins, and hands the pieces of
 * a tensor to the assembler, which puts their elements together. Changes nothing in the
 * checkpoint.
 */
#include <stdlib.h>

#include <fsdp/elements.h>

#include "base/num.h"
#include "checkpoint/checkpoint-private.h"
#include "formats/torch/torch.h"
#include "io/zip.h"
#include "elements/elements-private.h"

/*
 * Finds where the payload of a piece begins: reads the local header of a zip member, or
 * the directory and the pickle of a DCP item, which may have to be unpacked into memory.
 * Changes nothing in the checkpoint.
 */

enum {
	WINDOW = 256 << 10,
	SMALL_PICKLE = 16 << 20,
	ITEM_ROOM = 1 << 20,
	UNPACKED_SLOTS = 16,
	UNPACKED_KEPT = 256 << 20, /* in addition to the current one */
};

/* In the place of a file: what was unpacked of an item, whose extent the other bits are.
 */
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
	struct fsdp_dir dir;       /* of the directory, if has_dir */
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
		FSDP_EACH(i, UNPACKED_SLOTS, one, &locator->unpacked[i]) {
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
	locator->arena.next_size = ITEM_ROOM;
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
		/* The width of an element is unknown, the position of the elements is
		 * known. */
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

static bool read_item_view(
	struct fsdp_torch *torch, struct fsdp_view *view, uint32_t *ret_storage)
{
	uint32_t index;
	if (!fsdp_torch_folded(
		    torch, fsdp_pickle_top(torch->pickle), FSDP_TORCH_TENSOR, &index))
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
	FSDP_EACH(i, zip->members.count, member, fsdp_zip_member(zip, i)) {
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
	return source->size >= sizeof head &&
	       fsdp_source_read(source, 0, head, sizeof head, NULL) && head[8] == '{' &&
	       fsdp_load_le(head, 8) <= source->size - 8;
}

/* *ret_base: what its own offsets count from in *ret_file. */
static bool open_item(struct fsdp_locator *locator, uint32_t extent_id,
	const struct fsdp_source *given, struct fsdp_model *model,
	struct fsdp_source *item, struct fsdp_zip *zip, uint32_t *ret_file,
	uint64_t *ret_base, struct fsdp_error **ret_error)
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
	if (given != NULL && given->size == extent->length)
		*item = *given;
	/* Some writers compress some items only. */
	unsigned char head[4];
	if (file->is_zstd && item->size >= sizeof head &&
		fsdp_source_read(item, 0, head, sizeof head, NULL) &&
		memcmp(head, "PK\3\4", sizeof head) != 0) {
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
			"the file is one safetensors file (SerializationFormat.SAFETENSORS); .metadata has no byte ranges for it");
		return fsdp_error_add_hint(ret_error,
			"torch itself cannot read it back; open the .distcp file with a safetensors reader");
	}
	fsdp_error_add_rule(ret_error, "FI1029");
	fsdp_error_shift_offset(ret_error, extent->offset);
	return false;
}

static bool locate_item(struct fsdp_locator *locator, uint32_t extent_id,
	const struct fsdp_source *given, struct fsdp_view *view,
	struct fsdp_span *ret_key, struct fsdp_error **ret_error)
{
	const struct fsdp_extent *extent = extent_at(locator, extent_id);
	struct fsdp_model model;
	struct fsdp_source item;
	struct fsdp_zip zip;
	struct fsdp_torch torch;
	struct fsdp_span stream;
	uint32_t storage;
	uint64_t begin, base;
	if (!open_item(locator, extent_id, given, &model, &item, &zip, &view->file, &base,
		    ret_error))
		return false;
	const struct fsdp_zip_member *pickle =
		find_member(&zip, "", FSDP_SPAN("data.pkl"));
	if (pickle == NULL)
		return item_error(ret_error, extent, "the item has no data.pkl");
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
	/* The key outlives the item. */
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

/* The item must match the metadata. */
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
			"shape or dtype of the item differs from .metadata");
	return true;
}

static bool make_view(struct fsdp_locator *locator, uint32_t index,
	const struct fsdp_source *item, struct fsdp_view *view, struct fsdp_span *ret_key,
	struct fsdp_error **ret_error)
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
			"the file does not have these bytes");
	else if (extent->kind == FSDP_EXTENT_ITEM)
		found = locate_item(
				locator, piece->extent, item, view, ret_key, ret_error) &&
			check_item(checkpoint, piece, extent, view, ret_error);
	else {
		const struct fsdp_model *model = &checkpoint->model;
		const struct fsdp_tensor_record *tensor =
			fsdp_model_tensor(model, piece->tensor);
		const int64_t *box = fsdp_model_box(model, piece);
		const int64_t *run = fsdp_model_run(model, piece);
		const int64_t *shape = run != NULL ? run + 1
				       : box != NULL
					       ? box + tensor->dims
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
		found = locate_member(locator, extent, view, ret_error);
	}
	if (!found)
		fsdp_error_add_path(ret_error, (const char *)file->path.data);
	view->big_endian = extent->big_endian;
	return found;
}

bool fsdp_locator_view(struct fsdp_locator *locator, uint32_t piece,
	const struct fsdp_source *item, struct fsdp_view *ret_view,
	struct fsdp_error **ret_error)
{
	struct fsdp_span key;
	return make_view(locator, piece, item, ret_view, &key, ret_error);
}

bool fsdp_piece_locate(struct fsdp_locator *locator, uint32_t piece,
	struct fsdp_place *ret_place, struct fsdp_error **ret_error)
{
	struct fsdp_view view;
	struct fsdp_span key;
	struct fsdp_place place = { 0 };
	if (!make_view(locator, piece, NULL, &view, &key, ret_error) ||
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

/* ---- Pieces of a tensor, for the assembler ---- */

struct fsdp_elements {
	struct fsdp_locator *locator;
	const struct fsdp_checkpoint *checkpoint;
	const struct fsdp_tensor_record *tensor;
	const int64_t *shape;
	uint64_t numel;
	int64_t none[FSDP_DIMS_MAX]; /* the offsets of what is whole */
	uint32_t *pieces;            /* of the ranks that are wanted; NULL: all */
	struct fsdp_assembly *assembly;
};

static uint32_t piece_id(const struct fsdp_elements *elements, uint32_t index)
{
	return elements->pieces != NULL ? elements->pieces[index]
					: elements->tensor->first_piece + index;
}

static const struct fsdp_piece_record *piece_at(
	const struct fsdp_elements *elements, uint32_t index)
{
	return fsdp_model_piece(&elements->checkpoint->model, piece_id(elements, index));
}

/* ---- what the assembler asks ---- */

static bool has_bytes(
	const struct fsdp_model *model, const struct fsdp_piece_record *piece)
{
	const struct fsdp_extent *extent =
		piece->extent != FSDP_NONE ? fsdp_model_extent(model, piece->extent)
					   : NULL;
	return extent != NULL && !extent->missing;
}

static struct fsdp_part part_of(void *context, uint32_t index)
{
	const struct fsdp_elements *elements = context;
	const struct fsdp_model *model = &elements->checkpoint->model;
	const struct fsdp_piece_record *piece = piece_at(elements, index);
	const int64_t *box = fsdp_model_box(model, piece);
	const int64_t *run = fsdp_model_run(model, piece);
	size_t dims = elements->tensor->dims;
	if (run != NULL)
		return (struct fsdp_part){
			.start = (uint64_t)run[0],
			.count = (uint64_t)run[1],
			.missing = !has_bytes(model, piece),
		};
	return (struct fsdp_part){
		.offsets = box != NULL ? box : elements->none,
		.sizes = box != NULL ? box + dims : elements->shape,
		.missing = !has_bytes(model, piece),
	};
}

static bool view_of(void *context, uint32_t index, struct fsdp_view *ret_view,
	struct fsdp_error **ret_error)
{
	const struct fsdp_elements *elements = context;
	return fsdp_locator_view(
		elements->locator, piece_id(elements, index), NULL, ret_view, ret_error);
}

static bool source_of(void *context, uint32_t file, struct fsdp_source *ret_source,
	struct fsdp_error **ret_error)
{
	const struct fsdp_elements *elements = context;
	return fsdp_locator_source(elements->locator, file, ret_source, ret_error);
}

/* ---- which pieces ---- */

static bool choose_pieces(struct fsdp_elements *elements,
	const struct fsdp_elements_options *options, uint32_t *ret_count,
	struct fsdp_error **ret_error)
{
	uint32_t count = elements->tensor->piece_count, kept = 0;
	*ret_count = count;
	if (options->ranks == NULL)
		return true;
	uint32_t *pieces = malloc(((size_t)count + 1) * sizeof *pieces);
	if (pieces == NULL)
		return fsdp_fail_memory(ret_error);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t rank = piece_at(elements, i)->rank;
		bool is_wanted = rank == FSDP_NONE;
		for (size_t k = 0; k < options->rank_count && !is_wanted; k++)
			is_wanted = options->ranks[k] == rank;
		if (is_wanted)
			pieces[kept++] = piece_id(elements, i);
	}
	elements->pieces = pieces;
	*ret_count = kept;
	return true;
}

static bool is_sum(const struct fsdp_elements *elements)
{
	const struct fsdp_model *model = &elements->checkpoint->model;
	if (elements->tensor->extra == FSDP_NONE)
		return false;
	const struct fsdp_extra *extra = fsdp_model_extra(model, elements->tensor->extra);
	if (extra->placement == FSDP_NONE)
		return false;
	const struct fsdp_placement_record *placement =
		fsdp_model_placement(model, extra->placement);
	for (uint32_t i = 0; i < placement->count; i++)
		if (fsdp_span_begins(placement->texts[i], FSDP_SPAN("Partial(")))
			return true;
	return false;
}

static bool open_assembly(struct fsdp_elements *elements,
	const struct fsdp_elements_options *options, struct fsdp_error **ret_error)
{
	const struct fsdp_tensor_record *tensor = elements->tensor;
	struct fsdp_assemble_input input = {
		.dtype = tensor->dtype,
		.dims = tensor->dims,
		.shape = elements->shape,
		.numel = elements->numel,
		.resolve = options->resolve,
		.sums = options->sums,
		.first = options->first,
		.count = options->count != 0 ? options->count : UINT64_MAX,
		.inflate_ceiling = fsdp_limit(
			&elements->checkpoint->limits, FSDP_LIMIT_INFLATE_BYTES),
		.context = elements,
		.part = part_of,
		.view = view_of,
		.source = source_of,
	};
	if (is_sum(elements))
		return fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
			"every rank has a summand of it (Partial): no file has the sum");
	return choose_pieces(elements, options, &input.piece_count, ret_error) &&
	       fsdp_assembly_new(&input, &elements->assembly, ret_error);
}

bool fsdp_elements_open(struct fsdp_locator *locator, uint32_t tensor,
	const struct fsdp_elements_options *options, struct fsdp_elements **ret_elements,
	struct fsdp_error **ret_error)
{
	struct fsdp_elements_options whole = { .size = sizeof whole };
	struct fsdp_elements *elements = calloc(1, sizeof *elements);
	if (elements == NULL)
		return fsdp_fail_memory(ret_error);
	if (options != NULL)
		memcpy(&whole, options, fsdp_min(options->size, sizeof whole));
	elements->locator = locator;
	/* The file of the model that a view's file is, or was unpacked from. */
	elements->checkpoint = locator->checkpoint;
	const struct fsdp_model *model = &elements->checkpoint->model;
	elements->tensor = fsdp_model_tensor(model, tensor);
	elements->shape = fsdp_model_ints(model, elements->tensor->shape);
	elements->numel = fsdp_model_numel(model, elements->tensor);
	if (!open_assembly(elements, &whole, ret_error)) {
		fsdp_elements_close(elements);
		return false;
	}
	*ret_elements = elements;
	return true;
}

bool fsdp_elements_next(struct fsdp_elements *elements, struct fsdp_span *ret_bytes,
	struct fsdp_error **ret_error)
{
	if (fsdp_assembly_next(elements->assembly, ret_bytes, ret_error))
		return true;
	uint32_t file = fsdp_assembly_file(elements->assembly);
	if (file != FSDP_NONE && (file & UNPACKED) != 0)
		file = extent_at(elements->locator, file & ~UNPACKED)->file;
	if (file != FSDP_NONE) {
		const struct fsdp_file_record *record =
			fsdp_model_file(&elements->checkpoint->model, file);
		fsdp_error_add_path(ret_error, (const char *)record->path.data);
	}
	return false;
}

const struct fsdp_elements_run *fsdp_elements_runs(
	const struct fsdp_elements *elements, size_t *ret_count)
{
	const struct fsdp_stored_runs *runs = fsdp_assembly_runs(elements->assembly);
	*ret_count = runs->count;
	return runs->list;
}

bool fsdp_elements_are_numbers(uint32_t dtype)
{
	return fsdp_moments_takes(dtype);
}

void fsdp_elements_numbers(
	uint32_t dtype, const unsigned char *bytes, size_t count, double *to)
{
	fsdp_moments_decode(dtype, bytes, count, to);
}

void fsdp_elements_close(struct fsdp_elements *elements)
{
	if (elements == NULL)
		return;
	fsdp_assembly_free(elements->assembly);
	free(elements->pieces);
	free(elements);
}

bool fsdp_elements_compare(struct fsdp_locator *const locators[2],
	const uint32_t tensors[2], uint64_t most, bool *ret_equal,
	struct fsdp_error **ret_error)
{
	struct fsdp_elements *streams[2] = { NULL, NULL };
	struct fsdp_span bytes[2] = { { 0 }, { 0 } };
	uint64_t compared = 0;
	size_t size = 1;
	bool good = true;
	*ret_equal = true;
	for (size_t i = 0; i < 2 && good; i++)
		good = fsdp_elements_open(
			locators[i], tensors[i], NULL, &streams[i], ret_error);
	while (good && *ret_equal && size != 0 && (most == 0 || compared < most)) {
		for (size_t i = 0; i < 2 && good; i++)
			good = bytes[i].size != 0 ||
			       fsdp_elements_next(streams[i], &bytes[i], ret_error);
		size = good ? fsdp_min(bytes[0].size, bytes[1].size) : 0;
		*ret_equal = size != 0 ? memcmp(bytes[0].data, bytes[1].data, size) == 0
				       : bytes[0].size == bytes[1].size;
		for (size_t i = 0; i < 2 && size != 0; i++)
			bytes[i] = fsdp_span(bytes[i].data + size, bytes[i].size - size);
		compared += size;
	}
	fsdp_elements_close(streams[0]);
	fsdp_elements_close(streams[1]);
	return good;
}

/* ---- what views repeat ---- */

/* An ordinary bias that was expanded has some MiB. */
enum { REPEATED_FREE = 128 << 20, REPEATED_PER_BYTE = 64 };

struct fsdp_repeats {
	const struct fsdp_checkpoint *checkpoint;
	uint64_t most;         /* that may be repeated */
	uint64_t read, stored; /* so far */
	uint64_t plain;       /* of `stored` what is not packed: no more than the files */
	unsigned char seen[]; /* a bit for each extent */
};

uint64_t fsdp_checkpoint_repeatable(const struct fsdp_checkpoint *checkpoint)
{
	uint64_t most = fsdp_limit(&checkpoint->limits, FSDP_LIMIT_EXPANDED_BYTES), free;
	if (fsdp_limit_is_chosen(&checkpoint->limits, FSDP_LIMIT_EXPANDED_BYTES) ||
		!fsdp_mul(checkpoint->model.on_disk, REPEATED_PER_BYTE, &free) ||
		!fsdp_add(free, REPEATED_FREE, &free))
		return most;
	return fsdp_min(most, free);
}

bool fsdp_repeats_new(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_repeats **ret_repeats, struct fsdp_error **ret_error)
{
	struct fsdp_repeats *repeats =
		calloc(1, sizeof *repeats + checkpoint->model.extents.count / 8 + 1);
	if (repeats == NULL)
		return fsdp_fail_memory(ret_error);
	repeats->checkpoint = checkpoint;
	repeats->most = fsdp_checkpoint_repeatable(checkpoint);
	*ret_repeats = repeats;
	return true;
}

void fsdp_repeats_free(struct fsdp_repeats *repeats)
{
	free(repeats);
}

static bool is_packed(const struct fsdp_extent *extent)
{
	return extent->size != FSDP_UNKNOWN && extent->method != 0;
}

static bool is_zstd(const struct fsdp_model *model, const struct fsdp_extent *extent)
{
	return fsdp_model_file(model, extent->file)->is_zstd;
}

bool fsdp_tensor_is_packed(const struct fsdp_checkpoint *checkpoint, uint32_t tensor)
{
	const struct fsdp_model *model = &checkpoint->model;
	const struct fsdp_tensor_record *record = fsdp_model_tensor(model, tensor);
	for (uint32_t i = 0; i < record->piece_count; i++) {
		uint32_t index = fsdp_model_piece(model, record->first_piece + i)->extent;
		const struct fsdp_extent *extent =
			index != FSDP_NONE ? fsdp_model_extent(model, index) : NULL;
		if (extent != NULL && (extent->method != 0 || is_zstd(model, extent)))
			return true;
	}
	return false;
}

/* How long it is after unpacking, of a tensor of so many bytes; of zstd only the ratio
 * that may be is known. */
static uint64_t unpacked_size(const struct fsdp_repeats *repeats,
	const struct fsdp_extent *extent, uint64_t bytes)
{
	uint64_t size;
	if (is_packed(extent))
		return extent->size;
	if (!is_zstd(&repeats->checkpoint->model, extent))
		return extent->length;
	if (!fsdp_mul(extent->length,
		    fsdp_limit(&repeats->checkpoint->limits, FSDP_LIMIT_INFLATE_RATIO),
		    &size))
		return bytes;
	return fsdp_min(size, bytes);
}

/* Bytes of a storage from the first element of a piece to its last one, and of a packed
 * one those before them: what is passed to see these. */
static uint64_t passed(const struct fsdp_model *model,
	const struct fsdp_tensor_record *tensor, const struct fsdp_piece_record *piece)
{
	const struct fsdp_extent *extent = fsdp_model_extent(model, piece->extent);
	const int64_t *box = fsdp_model_box(model, piece);
	const int64_t *sizes =
		box != NULL ? box + tensor->dims : fsdp_model_ints(model, tensor->shape);
	const int64_t *strides = fsdp_model_ints(model, piece->strides);
	uint64_t size = is_packed(extent) ? extent->size : extent->length;
	uint64_t width = fsdp_dtype(tensor->dtype)->storage_bytes, last = 0, step;
	for (uint32_t i = 0; strides != NULL && !piece->is_run && i < tensor->dims; i++) {
		if (sizes[i] < 1)
			return 0;
		uint64_t stride =
			strides[i] < 0 ? -(uint64_t)strides[i] : (uint64_t)strides[i];
		if (!fsdp_mul(stride, (uint64_t)sizes[i] - 1, &step) ||
			!fsdp_add(last, step, &last))
			return size;
	}
	if (is_packed(extent) && !fsdp_add(last, piece->storage_offset, &last))
		return size;
	return fsdp_mul(last, width, &last) ? fsdp_min(last, size) : size;
}

bool fsdp_repeats_take(struct fsdp_repeats *repeats, uint32_t tensor, uint64_t bytes,
	struct fsdp_error **ret_error)
{
	const struct fsdp_model *model = &repeats->checkpoint->model;
	const struct fsdp_tensor_record *record = fsdp_model_tensor(model, tensor);
	uint64_t span = 0, read, most;
	bool some = false;
	FSDP_EACH(i, record->piece_count, piece,
		fsdp_model_piece(model, record->first_piece + i)) {
		if (piece->extent == FSDP_NONE)
			continue;
		/* Counts what is stored of it, once. */
		const struct fsdp_extent *extent =
			fsdp_model_extent(model, piece->extent);
		uint64_t size = unpacked_size(repeats, extent, bytes);
		if ((repeats->seen[piece->extent / 8] >> piece->extent % 8 & 1) == 0) {
			repeats->seen[piece->extent / 8] |=
				(unsigned char)(1u << piece->extent % 8);
			if (!is_packed(extent) && !is_zstd(model, extent)) {
				size = fsdp_min(size, model->on_disk - repeats->plain);
				repeats->plain += size;
			}
			if (!fsdp_add(repeats->stored, size, &repeats->stored))
				repeats->stored = UINT64_MAX;
		}
		if (!fsdp_add(span, passed(model, record, piece), &span))
			span = UINT64_MAX;
		some = true;
	}
	/* Nothing is read of it. */
	if (!some)
		return true;
	if (!fsdp_add(repeats->stored, repeats->most, &most))
		most = UINT64_MAX;
	if (!fsdp_add(repeats->read, bytes > span ? bytes : span, &read) || read > most)
		return fsdp_fail_limit(
			ret_error, FSDP_LIMIT_EXPANDED_BYTES, repeats->most);
	repeats->read = read;
	return true;
}
