/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The items of a .distcp file: each a zip of torch.save, which the metadata names by its
 * range. Their headers are checked, and what they say of themselves is set against what
 * the metadata says of them. One that is stored compressed is looked at as a file of its
 * own, when it is unpacked.
 */
#include "base/num.h"
#include "elements/data-scan.h"
#include "io/archive.h"
#include "verify/verify-private.h"

enum { SMALL = 256 << 10 };

/* An item, and the first piece or value that names it. */
struct item {
	uint64_t offset, length;
	uint32_t piece, value; /* one of them FSDP_NONE */
};

struct item_walk {
	struct fsdp_verify *verify;
	struct fsdp_verify_file *file;
	struct fsdp_error **error;
	size_t piece, value; /* the next ones of the lists */
	uint64_t reach;      /* where those before end */
	uint64_t begin, end; /* of the file, in the window */
	bool told;           /* what is wrong with the headers of the item in hand */
};

/* ---- which there are ---- */

static struct item item_of_piece(const struct item_walk *items, size_t at)
{
	const struct fsdp_model *model = &items->verify->checkpoint->model;
	uint32_t piece = items->file->pieces[at];
	const struct fsdp_extent *extent =
		fsdp_model_extent(model, fsdp_model_piece(model, piece)->extent);
	return (struct item){ extent->offset, extent->length, piece, FSDP_NONE };
}

static struct item item_of_value(const struct item_walk *items, size_t at)
{
	uint32_t value = items->file->values[at];
	const struct fsdp_value_record *record =
		fsdp_model_value(&items->verify->checkpoint->model, value);
	return (struct item){ record->offset, record->length, FSDP_NONE, value };
}

/* In order of their offsets; false at the end. */
static bool next_item(struct item_walk *items, struct item *ret_item)
{
	bool piece = items->piece < items->file->piece_count;
	bool value = items->value < items->file->value_count;
	if (!piece && !value)
		return false;
	struct item a = piece ? item_of_piece(items, items->piece) : (struct item){ 0 };
	struct item b = value ? item_of_value(items, items->value) : (struct item){ 0 };
	if (piece && (!value || a.offset <= b.offset)) {
		items->piece++;
		*ret_item = a;
	} else {
		items->value++;
		*ret_item = b;
	}
	return true;
}

/* ---- ranges ---- */

static struct fsdp_span name_of(const struct item_walk *items, const struct item *item)
{
	const struct fsdp_model *model = &items->verify->checkpoint->model;
	uint32_t name = item->piece != FSDP_NONE
				? fsdp_model_tensor(model,
					  fsdp_model_piece(model, item->piece)->tensor)
					  ->name
				: fsdp_model_value(model, item->value)->name;
	return fsdp_model_name(model, name, &items->verify->item);
}

static bool is_same_range(const struct item *a, const struct item *b)
{
	return a->offset == b->offset && a->length == b->length;
}

static void judge_range(struct item_walk *items, const struct item *item)
{
	struct fsdp_findings *findings = &items->verify->findings;
	if (item->offset > items->reach) {
		fsdp_find(findings, FSDP_RULE_UNREFERENCED_BYTES,
			FSDP_IN(items->file, .offset = items->reach,
				.length = item->offset - items->reach),
			"no item holds the %llu bytes from byte %llu on, of %llu in the file",
			FSDP_LLU(item->offset - items->reach), FSDP_LLU(items->reach),
			FSDP_LLU(items->file->source.size));
		items->verify->scope.unreferenced += item->offset - items->reach;
	}
	if (item->offset + item->length > items->reach)
		items->reach = item->offset + item->length;
}

static void judge_end(struct item_walk *items)
{
	uint64_t size = items->file->source.size;
	if (items->reach == 0 || items->reach >= size)
		return;
	fsdp_find(&items->verify->findings, FSDP_RULE_UNREFERENCED_BYTES,
		FSDP_IN(items->file, .offset = items->reach,
			.length = size - items->reach),
		"no item holds the last %llu bytes, of %llu in the file",
		FSDP_LLU(size - items->reach), FSDP_LLU(size));
	items->verify->scope.unreferenced += size - items->reach;
}

/* ---- the zip of one item ---- */

/* Small items that follow each other share reads, each twice as long as the last. */
static bool source_of(
	struct item_walk *items, const struct item *item, struct fsdp_source *ret_source)
{
	const struct fsdp_source *source = &items->file->source;
	uint64_t end = item->offset + item->length;
	if (item->length > SMALL || fsdp_source_bytes(source, 0) != NULL)
		return fsdp_source_slice(
			source, item->offset, item->length, ret_source, items->error);
	if (item->offset < items->begin || end > items->end) {
		bool near = item->offset >= items->begin && item->offset <= items->end;
		uint64_t size = near ? 2 * (items->end - items->begin) : 0;
		size = fsdp_min(size, FSDP_VERIFY_WINDOW);
		size = fsdp_min(size > item->length ? size : item->length,
			source->size - item->offset);
		items->begin = items->end = item->offset;
		if (!fsdp_source_read(source, item->offset, items->verify->window,
			    (size_t)size, items->error))
			return false;
		items->end += size;
	}
	*ret_source = fsdp_source_memory(
		fsdp_span(items->verify->window + (item->offset - items->begin),
			(size_t)item->length));
	return true;
}

static bool add_segments(struct item_walk *items, const struct fsdp_zip *zip,
	uint64_t base, uint64_t *offsets)
{
	struct fsdp_verify_file *file = items->file;
	bool zero = !zip->no_crc && fsdp_verify_storages_zero(zip);
	file->skipped_data |= zero;
	for (size_t i = 0; i < zip->members.count; i++) {
		uint32_t number =
			zip->by_header != NULL ? zip->by_header[i] : (uint32_t)i;
		const struct fsdp_zip_member *member = fsdp_zip_member(zip, number);
		bool recorded = fsdp_verify_has_crc(file, member, zero);
		if (recorded && zip->no_crc && member->size != 0) {
			recorded = false;
			file->unrecorded++;
		}
		if (items->verify->options.level == FSDP_LEVEL_HEADERS ||
			offsets[number] == FSDP_UNKNOWN)
			continue;
		struct fsdp_segment segment = {
			.begin = base + offsets[number],
			.stored = member->stored_size,
			.size = member->size,
			.crc = member->crc,
			.has_crc = recorded,
			.deflated = member->method != 0,
		};
		if (!fsdp_verify_may_read(items->verify, file, member, &segment))
			continue;
		if (!fsdp_segments_add(&file->segments, &segment))
			return false;
	}
	return true;
}

static bool check_zip(struct item_walk *items, const struct item *item,
	const struct fsdp_zip *zip, bool news)
{
	struct fsdp_verify *verify = items->verify;
	uint64_t *offsets = FSDP_TAKE(&verify->item, offsets, zip->members.count + 1);
	if (offsets == NULL)
		return fsdp_arena_fail(&verify->item, items->error);
	if (!fsdp_zip_check_headers(
		    zip, items->file->path, &verify->notes, offsets, items->error))
		return false;
	uint64_t base = items->file->packed_length != 0 ? 0 : item->offset;
	items->told = verify->notes.list.count != 0;
	fsdp_verify_move_notes(verify, base, news);
	return add_segments(items, zip, base, offsets) ||
	       fsdp_arena_fail(&verify->batch, items->error);
}

static void say_contradiction(
	struct item_walk *items, const struct item *item, const struct fsdp_error *error)
{
	uint64_t offset = fsdp_error_offset(error);
	const char *rule = fsdp_error_rule(error);
	bool broken = rule != NULL && strcmp(rule, "FI2003") == 0;
	items->file->contradicts |= !broken;
	if (items->told)
		return;
	fsdp_find(&items->verify->findings,
		broken ? FSDP_RULE_INFLATE_ERROR : FSDP_RULE_ITEM_MISMATCH,
		FSDP_IN(items->file,
			.offset = offset != FSDP_UNKNOWN ? offset : item->offset,
			.length = item->length, .tensor = name_of(items, item)),
		"%s", fsdp_error_message(error));
}

/* An item that cannot be judged is the item's fault, unless it could not be read. */
static bool excuse(
	struct item_walk *items, const struct item *item, struct fsdp_error **error)
{
	enum fsdp_error_code code = fsdp_error_code(*error);
	if (code != FSDP_ERROR_DAMAGED && code != FSDP_ERROR_UNSUPPORTED &&
		code != FSDP_ERROR_NOT_A_CHECKPOINT)
		return fsdp_verify_excuse(
			items->verify, items->file, error, items->error);
	if (code == FSDP_ERROR_UNSUPPORTED)
		items->verify->lacks |= FSDP_UNREADABLE;
	else
		say_contradiction(items, item, *error);
	fsdp_error_free(*error);
	*error = NULL;
	return true;
}

/* Of a piece the locator reads what it is; a value only has to be a zip. */
static bool check_source(struct item_walk *items, const struct item *item,
	const struct fsdp_source *source, struct fsdp_error **error)
{
	struct fsdp_verify *verify = items->verify;
	struct fsdp_error **outside = items->error;
	struct fsdp_view view;
	struct fsdp_zip zip;
	items->error = error;
	bool news =
		item->piece != FSDP_NONE ||
		fsdp_model_value(&verify->checkpoint->model, item->value)->tokens == NULL;
	bool good = fsdp_zip_open(source, &verify->item, &verify->checkpoint->limits,
			    items->file->path, &verify->notes, &zip, error) &&
		    check_zip(items, item, &zip, news);
	if (!good)
		fsdp_error_shift_offset(error, item->offset);
	items->error = outside;
	if (good && item->piece != FSDP_NONE) {
		good = fsdp_locator_view(verify->locator, item->piece, &view, error);
		if (good)
			fsdp_verify_add_view(verify, items->file, item->piece, &view);
	}
	return good;
}

/* Some writers compress some items only. */
static bool get_unpacked(const struct fsdp_verify *verify,
	const struct fsdp_source *packed, struct fsdp_arena *arena,
	struct fsdp_source *ret_source, struct fsdp_error **error)
{
	unsigned char head[4] = { 0 };
	*ret_source = *packed;
	return fsdp_source_read(packed, 0, head,
		       (size_t)fsdp_min(packed->size, sizeof head), error) &&
	       (memcmp(head, "PK\3\4", sizeof head) == 0 ||
		       fsdp_archive_unpack_one(packed, "zstd", arena,
			       &verify->checkpoint->limits, ret_source, error));
}

/* Of a file whose items are compressed: reads it to the end, since what was unpacked goes. */
static bool check_unpacked(struct item_walk *items, const struct item *item,
	const struct fsdp_source *packed, struct fsdp_error **error)
{
	struct fsdp_verify *verify = items->verify;
	struct fsdp_verify_file *outer = items->file, file = {
		.id = outer->id,
		.path = outer->path,
		.kind = FSDP_BYTES_ITEMS,
		.pieces = &item->piece,
		.piece_count = item->piece != FSDP_NONE,
		.packed_offset = item->offset,
		.packed_length = item->length,
	};
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	fsdp_budget_init(&budget, &verify->checkpoint->limits);
	fsdp_budget_give(&budget, item->length);
	fsdp_arena_init(&arena, &budget);
	fsdp_vec_init(&file.segments, &verify->batch, sizeof(struct fsdp_segment));
	items->file = &file;
	bool good = get_unpacked(verify, packed, &arena, &file.source, error) &&
		    fsdp_verify_begin_views(verify, &file, error) &&
		    check_source(items, item, &file.source, error) &&
		    (verify->options.level == FSDP_LEVEL_HEADERS ||
			    (fsdp_verify_take(verify, &file, error) &&
				    fsdp_verify_read(verify, error)));
	items->file = outer;
	outer->contradicts |= file.contradicts;
	outer->members += file.members;
	outer->unrecorded += file.unrecorded;
	outer->skipped_data |= file.skipped_data;
	fsdp_arena_done(&arena);
	return good;
}

static bool check_item(struct item_walk *items, const struct item *item)
{
	struct fsdp_verify *verify = items->verify;
	struct fsdp_error *error = NULL, **outside = items->error;
	struct fsdp_source source;
	bool packed =
		fsdp_model_file(&verify->checkpoint->model, items->file->id)->is_zstd;
	fsdp_arena_reset(&verify->item);
	fsdp_findings_init(&verify->notes, &verify->item, &verify->checkpoint->limits);
	items->told = false;
	items->error = &error;
	bool good = source_of(items, item, &source);
	items->error = outside;
	if (!good)
		fsdp_error_shift_offset(&error, item->offset);
	else
		good = packed ? check_unpacked(items, item, &source, &error)
			      : check_source(items, item, &source, &error);
	return good || excuse(items, item, &error);
}

/* ---- the whole ---- */

bool fsdp_verify_items(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error)
{
	struct item_walk items = { .verify = verify, .file = file, .error = ret_error };
	struct item item, before = { .offset = FSDP_UNKNOWN };
	const struct fsdp_file_record *record =
		fsdp_model_file(&verify->checkpoint->model, file->id);
	bool transformed = record->is_transformed;
	if (record->is_zstd) /* each item is looked at by itself */
		file->views = NULL;
	/* SerializationFormat.SAFETENSORS: the file is one blob whose own header counts. */
	if (fsdp_source_begins_safetensors(&file->source)) {
		file->kind = FSDP_BYTES_RAW;
		return true;
	}
	while (next_item(&items, &item)) {
		uint64_t end;
		if (!fsdp_add(item.offset, item.length, &end) || item.length == 0)
			continue;
		fsdp_arena_reset(&verify->item);
		judge_range(&items, &item);
		if (verify->foreign && (item.piece == FSDP_NONE ||
					       !fsdp_verify_wants(verify, item.piece)))
			continue;
		/* That a range ends beyond the file is a finding already. Copies of one name,
		 * and values of several, are looked at once. */
		if (end > file->source.size || is_same_range(&item, &before))
			continue;
		before = item;
		if (!transformed && !check_item(&items, &item))
			return false;
	}
	if (transformed)
		verify->lacks |= FSDP_UNREADABLE;
	judge_end(&items);
	return true;
}
