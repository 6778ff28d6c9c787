/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Integrity of the bytes of an open checkpoint: goes through its files, as deep as it is
 * asked to, and keeps the findings, in one order whatever part of the work this is.
 */
#include <stdlib.h>
#include <strings.h>

#include "base/num.h"
#include "base/sort.h"
#include "elements/elements-private.h"
#include "io/archive.h"
#include "audit/verify-private.h"

/*
 * Files that are a zip, and the items of a .distcp file, each a zip of torch.save: their
 * headers, unreferenced members, checksums, and the positions of records.
 *
 * Origin: torch/serialization.py and caffe2/serialize/inline_container.cc (PyTorch 2.13)
 * for how records are aligned.
 */

/* ---- A file that is a zip ---- */

enum {
	SNIFFED = 64,
	LOCAL_SIZE = 30,
	ALIGNMENT = 64,
	SMALL_DESCRIPTOR = 16,
	LARGE_DESCRIPTOR = 24,
};

/* ---- checksums ---- */

static bool is_storage(struct fsdp_span name)
{
	struct fsdp_span root = fsdp_span_first(name, '/');
	struct fsdp_span below = fsdp_span(name.data + root.size, name.size - root.size);
	return fsdp_span_begins(below, FSDP_SPAN("/data/")) && below.size > 6;
}

/* Whether all storages of a zip have the checksum 0, as under skip_data. */
static bool verify_storages_zero(const struct fsdp_zip *zip)
{
	bool any = false;
	FSDP_EACH(i, zip->members.count, member, fsdp_zip_member(zip, i)) {
		if (member->size == 0 || !is_storage(member->name))
			continue;
		if (member->crc != 0)
			return false;
		any = true;
	}
	return any;
}

/* Whether the zip records a checksum of this member; counts it. */
static bool verify_has_crc(struct fsdp_verify_file *file,
	const struct fsdp_zip_member *member, bool storages_zero)
{
	bool missing = member->crc == 0 && storages_zero && is_storage(member->name);
	if (member->size == 0)
		return true;
	file->members++;
	file->unrecorded += missing;
	return !missing;
}

/* ---- members that nothing refers to ---- */

static bool is_known(struct fsdp_span name)
{
	static const char *const known[] = { "data.pkl", "version", "byteorder",
		".format_version", ".storage_alignment", "constants.pkl" };
	if (name.size == 0 || fsdp_span_begins(name, FSDP_SPAN(".data/")))
		return true;
	for (size_t i = 0; i < FSDP_COUNT(known); i++)
		if (name.size == strlen(known[i]) &&
			strncasecmp((const char *)name.data, known[i], name.size) == 0)
			return true;
	return false;
}

/* What the first bytes of a member would be to another program. NULL: nothing. */
static const char *threat_of(struct fsdp_span head, bool *ret_native)
{
	const char *native = fsdp_native_code(head);
	*ret_native = native != NULL;
	if (native != NULL)
		return native;
	if (fsdp_span_begins(head, FSDP_SPAN("PK\3\4")))
		return "a zip archive";
	if (fsdp_span_begins(head, FSDP_SPAN("\037\213")))
		return "gzip data";
	if (fsdp_span_begins(head, FSDP_SPAN("7z\274\257\047\034")))
		return "a 7-Zip archive";
	if (head.size > 2 && head.data[0] == 0x80 && head.data[1] >= 2 &&
		head.data[1] <= 5 && memchr(head.data, 'c', head.size) != NULL)
		return "a pickle with globals";
	if (fsdp_span_begins(head, FSDP_SPAN("#!")))
		return "a script";
	return NULL;
}

/* Reports what could not be read; damage is in the checkpoint's own findings. Takes the
 * error. */
static bool excuse_reading(struct fsdp_verify *verify,
	const struct fsdp_verify_file *file, struct fsdp_error *error,
	struct fsdp_error **ret_error)
{
	const char *rule = fsdp_error_rule(error);
	bool changed = rule != NULL && strcmp(rule, "FI2004") == 0;
	enum fsdp_error_code code = fsdp_error_code(error);
	if (!changed && (code == FSDP_ERROR_DAMAGED || code == FSDP_ERROR_UNSUPPORTED)) {
		fsdp_error_free(error);
		return true;
	}
	return fsdp_verify_excuse(verify, file, &error, ret_error);
}

static bool check_unreferenced(struct fsdp_verify *verify,
	const struct fsdp_verify_file *file, size_t index, bool storage,
	struct fsdp_error **ret_error)
{
	const struct fsdp_zip_member *member = fsdp_zip_member(&file->zip, index);
	unsigned char head[SNIFFED];
	size_t size = (size_t)fsdp_min(member->size, sizeof head);
	bool native = false;
	const char *threat = NULL;
	struct fsdp_error *error = NULL;
	/* An entry for a directory, as other packers write them. */
	if (member->size == 0 && fsdp_span_ends(member->name, FSDP_SPAN("/")))
		return true;
	if (file->offsets[index] != FSDP_UNKNOWN) {
		if (fsdp_zip_read_part(&file->zip.source, file->offsets[index],
			    member->stored_size, member->method, 0, head, size, &error))
			threat = threat_of(fsdp_span(head, size), &native);
		else if (!excuse_reading(verify, file, error, ret_error))
			return false;
	}
	if (native && !storage) {
		fsdp_find(&verify->findings, FSDP_RULE_NATIVE_CODE,
			FSDP_IN(file, .member = member->name, .offset = member->header),
			"this member is %s (%llu bytes)", threat, FSDP_LLU(member->size));
		return true;
	}
	fsdp_find(&verify->findings, FSDP_RULE_MEMBER_UNREFERENCED,
		FSDP_IN(file, .member = member->name, .offset = member->header,
			.length = member->stored_size,
			.severity = threat != NULL ? FSDP_ERROR + 1 : 0),
		"no tensor refers to these %llu bytes%s%s", FSDP_LLU(member->size),
		threat != NULL ? ", which are " : "", threat != NULL ? threat : "");
	verify->scope.unreferenced += member->stored_size;
	return true;
}

static const struct fsdp_zip_member *by_header(const struct fsdp_zip *zip, size_t i)
{
	return fsdp_zip_member(zip, zip->by_header != NULL ? zip->by_header[i] : i);
}

/* Both in the order of the file. */
static bool check_members(struct fsdp_verify *verify, const struct fsdp_verify_file *file,
	struct fsdp_error **ret_error)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	struct fsdp_span records = fsdp_model_file(model, file->id)->records;
	struct fsdp_span root = fsdp_span(records.data, records.size - 5);
	const struct fsdp_zip *zip = &file->zip;
	size_t next = 0;
	FSDP_EACH(i, zip->members.count, member, by_header(zip, i)) {
		bool below = fsdp_span_begins(member->name, root);
		while (next < file->extent_count &&
			fsdp_model_extent(model, file->extents[next])->offset <
				member->header)
			next++;
		if (next < file->extent_count &&
			fsdp_model_extent(model, file->extents[next])->offset ==
				member->header)
			continue;
		struct fsdp_span name = fsdp_span(member->name.data + root.size,
			below ? member->name.size - root.size : 0);
		if ((!below || !is_known(name)) &&
			!check_unreferenced(verify, file,
				zip->by_header != NULL ? zip->by_header[i] : i,
				fsdp_span_begins(name, FSDP_SPAN("data/")), ret_error))
			return false;
	}
	return true;
}

/* ---- computed offsets ---- */

static const struct fsdp_zip_member *find_record(
	const struct fsdp_verify_file *file, struct fsdp_span root, const char *name)
{
	FSDP_EACH(i, file->zip.members.count, member, fsdp_zip_member(&file->zip, i))
		if (member->name.size == root.size + strlen(name) &&
			fsdp_span_begins(member->name, root) &&
			memcmp(member->name.data + root.size, name, strlen(name)) == 0)
			return member;
	return NULL;
}

/* 0: the record cannot be read. */
static uint64_t alignment_of(struct fsdp_verify *verify,
	const struct fsdp_verify_file *file, struct fsdp_span root,
	struct fsdp_error **ret_error)
{
	const struct fsdp_zip_member *record =
		find_record(file, root, ".storage_alignment");
	struct fsdp_span text;
	uint64_t alignment = 0;
	if (record == NULL)
		return ALIGNMENT;
	if (!fsdp_zip_read(&file->zip, record, 16, &verify->item, &text, ret_error))
		return 0;
	for (size_t i = 0; i < text.size && i < 9; i++)
		if (fsdp_is_digit(text.data[i]))
			alignment = alignment * 10 + (text.data[i] - '0');
	return alignment != 0 ? alignment : ALIGNMENT;
}

/* Where the data of a record begins whose header is at `header`, as torch puts it. */
static uint64_t data_begin(
	uint64_t header, size_t name_size, uint64_t size, uint64_t alignment)
{
	bool large = size >= UINT32_MAX, far = header >= UINT32_MAX;
	uint64_t begin = header + LOCAL_SIZE + name_size + 4;
	if (large || far)
		begin += 4 + (large ? 16u : 0) + (far ? 8u : 0);
	uint64_t beyond = begin % alignment;
	return beyond == 0 ? begin : begin + alignment - beyond;
}

static uint64_t next_header(uint64_t header, uint64_t data, uint64_t size)
{
	if (size == 0)
		return data;
	return data + size +
	       (size >= UINT32_MAX || header >= UINT32_MAX ? LARGE_DESCRIPTOR
							   : SMALL_DESCRIPTOR);
}

/* The number that a key is, or FSDP_UNKNOWN. */
static uint64_t number_of(struct fsdp_span key)
{
	uint64_t number = 0;
	if (key.size == 0 || key.size > 18)
		return FSDP_UNKNOWN;
	for (size_t i = 0; i < key.size; i++) {
		if (!fsdp_is_digit(key.data[i]))
			return FSDP_UNKNOWN;
		number = number * 10 + (uint64_t)(key.data[i] - '0');
	}
	return number;
}

/* Loaders that compute the positions of records start from the real position of the
 * first. */
static bool check_offsets(struct fsdp_verify *verify, const struct fsdp_verify_file *file,
	struct fsdp_span records, struct fsdp_error **ret_error)
{
	struct fsdp_span root = fsdp_span(records.data, records.size - 5);
	const struct fsdp_zip *zip = &file->zip;
	uint64_t header = FSDP_UNKNOWN, number = 0;
	if (find_record(file, root, ".format_version") == NULL)
		return true;
	struct fsdp_error *error = NULL;
	uint64_t alignment = alignment_of(verify, file, root, &error);
	if (alignment == 0) {
		alignment = ALIGNMENT;
		if (!excuse_reading(verify, file, error, ret_error))
			return false;
	}
	FSDP_EACH(i, zip->members.count, member, by_header(zip, i)) {
		size_t index = zip->by_header != NULL ? zip->by_header[i] : i;
		uint64_t real = file->offsets[index];
		if (!fsdp_span_begins(member->name, records) ||
			member->name.size == records.size)
			continue;
		if (real == FSDP_UNKNOWN)
			return true;
		if (header == FSDP_UNKNOWN)
			header = member->header;
		uint64_t computed = number == 0 ? real
						: data_begin(header, member->name.size,
							  member->size, alignment);
		uint64_t key = number_of(fsdp_span(member->name.data + records.size,
			member->name.size - records.size));
		if (key != FSDP_UNKNOWN && key > number)
			return true; /* one is missing, which is a finding already */
		if (computed != real || key != number) {
			fsdp_find(&verify->findings, FSDP_RULE_OFFSETS_NOT_COMPUTABLE,
				FSDP_IN(file, .member = member->name, .offset = real),
				"record is at byte %llu, but loaders that compute offsets read record %llu at byte %llu",
				FSDP_LLU(real), FSDP_LLU(number), FSDP_LLU(computed));
			return true;
		}
		header = next_header(header, real, member->size);
		number++;
	}
	return true;
}

bool fsdp_verify_zip(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = verify->checkpoint;
	struct fsdp_error *error = NULL;
	fsdp_arena_reset(&verify->item);
	fsdp_findings_init(&verify->notes, &verify->item, &checkpoint->limits);
	/* What is wrong with the directory the checkpoint's own findings say. */
	if (!fsdp_zip_open(&file->source, &verify->batch, &checkpoint->limits, file->path,
		    &verify->notes, &file->zip, &error)) {
		file->kind = FSDP_BYTES_RAW;
		return excuse_reading(verify, file, error, ret_error);
	}
	file->offsets =
		FSDP_TAKE(&verify->batch, file->offsets, file->zip.members.count + 1);
	if (file->offsets == NULL)
		return fsdp_arena_fail(&verify->batch, ret_error);
	if (!fsdp_zip_check_headers(
		    &file->zip, file->path, &verify->findings, file->offsets, &error)) {
		file->kind = FSDP_BYTES_RAW;
		return fsdp_verify_excuse(verify, file, &error, ret_error);
	}
	const struct fsdp_zip *zip = &file->zip;
	file->skipped_data = !zip->no_crc && verify_storages_zero(zip);
	FSDP_EACH(i, zip->members.count, member, fsdp_zip_member(zip, i)) {
		bool recorded = verify_has_crc(file, member, file->skipped_data);
		file->unrecorded += recorded && zip->no_crc && member->size != 0;
	}
	const struct fsdp_file_record *record =
		file->id != FSDP_NONE ? fsdp_model_file(&checkpoint->model, file->id)
				      : NULL;
	if (record == NULL || record->records.size < 5 || file->extent_count == 0 ||
		strcmp(checkpoint->model.format.family, "torchscript") == 0)
		return true;
	return check_members(verify, file, ret_error) &&
	       check_offsets(verify, file, record->records, ret_error);
}

/*
 * The items of a .distcp file: each a zip of torch.save at a range from the metadata.
 * Their headers are checked, and their contents are compared with the metadata. A
 * compressed one is checked as a file of its own after it is unpacked.
 */

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
	bool is_reported;    /* what is wrong with the headers of the item in hand */
};

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
	bool zero = !zip->no_crc && verify_storages_zero(zip);
	file->skipped_data |= zero;
	for (size_t i = 0; i < zip->members.count; i++) {
		uint32_t number =
			zip->by_header != NULL ? zip->by_header[i] : (uint32_t)i;
		const struct fsdp_zip_member *member = fsdp_zip_member(zip, number);
		bool recorded = verify_has_crc(file, member, zero);
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
	items->is_reported = verify->notes.list.count != 0;
	fsdp_verify_move_notes(verify, base, news);
	return add_segments(items, zip, base, offsets) ||
	       fsdp_arena_fail(&verify->batch, items->error);
}

/* The locator reads the kind of a piece; a value only has to be a zip. */
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
		good = fsdp_locator_view(verify->locator, item->piece,
			items->file->packed_length == 0 ? source : NULL, &view, error);
		if (good)
			fsdp_verify_add_view(verify, items->file, item->piece, &view);
	}
	return good;
}

/* Of a file whose items are compressed: reads it to the end, since what was unpacked
 * goes. */
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
	/* Some writers compress some items only. */
	unsigned char head[4] = { 0 };
	file.source = *packed;
	bool good = fsdp_source_read(packed, 0, head,
			    (size_t)fsdp_min(packed->size, sizeof head), error) &&
		    (memcmp(head, "PK\3\4", sizeof head) == 0 ||
			    fsdp_archive_unpack_one(packed, "zstd", &arena,
				    &verify->checkpoint->limits, &file.source, error)) &&
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
	items->is_reported = false;
	items->error = &error;
	bool good = source_of(items, item, &source);
	items->error = outside;
	if (!good)
		fsdp_error_shift_offset(&error, item->offset);
	else
		good = packed ? check_unpacked(items, item, &source, &error)
			      : check_source(items, item, &source, &error);
	/* A failed check is a defect of the item, unless it could not be read. */
	if (good)
		return true;
	enum fsdp_error_code code = fsdp_error_code(error);
	if (code != FSDP_ERROR_DAMAGED && code != FSDP_ERROR_UNSUPPORTED &&
		code != FSDP_ERROR_NOT_A_CHECKPOINT)
		return fsdp_verify_excuse(
			items->verify, items->file, &error, items->error);
	if (code == FSDP_ERROR_UNSUPPORTED)
		items->verify->lacks |= FSDP_UNREADABLE;
	else {
		uint64_t offset = fsdp_error_offset(error);
		const char *rule = fsdp_error_rule(error);
		const struct fsdp_checkpoint *checkpoint = items->verify->checkpoint;
		bool broken = rule != NULL && strcmp(rule, "FI2003") == 0;
		uint64_t lost = FSDP_UNKNOWN, numel;
		uint32_t rank, dtype;
		if (item->piece != FSDP_NONE) {
			numel = fsdp_piece_numel(checkpoint, item->piece, &rank);
			dtype = fsdp_tensor(
				checkpoint, fsdp_piece(checkpoint, item->piece).tensor)
					.dtype;
			lost = fsdp_mul(numel, fsdp_dtype(dtype)->item_bits, &lost)
				       ? lost / CHAR_BIT
				       : FSDP_UNKNOWN;
		}
		items->file->contradicts |= !broken;
		if (!items->is_reported)
			fsdp_find(&items->verify->findings,
				broken ? FSDP_RULE_INFLATE_ERROR
				       : FSDP_RULE_ITEM_MISMATCH,
				FSDP_IN(items->file,
					.offset = offset != FSDP_UNKNOWN ? offset
									 : item->offset,
					.length = item->length,
					.tensor = name_of(items, item),
					.affected_bytes = lost),
				"%s", fsdp_error_message(error));
	}
	fsdp_error_free(error);
	return true;
}

/* Bytes up to `end` that no item has. */
static void note_unreferenced(struct item_walk *items, uint64_t end)
{
	struct fsdp_verify *verify = items->verify;
	uint64_t size = items->file->source.size;
	verify->scope.unreferenced += end - items->reach;
	if (verify->is_unlisted)
		return;
	if (end < size)
		fsdp_find(&verify->findings, FSDP_RULE_UNREFERENCED_BYTES,
			FSDP_IN(items->file, .offset = items->reach,
				.length = end - items->reach),
			"bytes %llu-%llu of %llu are unreferenced",
			FSDP_LLU(items->reach), FSDP_LLU(end - 1), FSDP_LLU(size));
	else
		fsdp_find(&verify->findings, FSDP_RULE_UNREFERENCED_BYTES,
			FSDP_IN(items->file, .offset = items->reach,
				.length = end - items->reach),
			"the last %llu of %llu bytes are unreferenced",
			FSDP_LLU(end - items->reach), FSDP_LLU(size));
}

bool fsdp_verify_items(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error)
{
	struct item_walk items = { .verify = verify, .file = file, .error = ret_error };
	struct item item, before = { .offset = FSDP_UNKNOWN };
	struct fsdp_error *error = NULL;
	const struct fsdp_file_record *record =
		fsdp_model_file(&verify->checkpoint->model, file->id);
	bool transformed = record->is_transformed;
	if (record->is_other) /* opening has reported it */
		return true;
	if (record->is_zstd) /* each item is looked at by itself */
		file->views = NULL;
	/* SerializationFormat.SAFETENSORS: the file is one blob whose own header counts.
	 */
	if (fsdp_source_begins_safetensors(&file->source, &error)) {
		file->kind = FSDP_BYTES_RAW;
		return true;
	}
	if (error != NULL && !fsdp_verify_excuse(verify, file, &error, ret_error))
		return false;
	while (next_item(&items, &item)) {
		uint64_t end;
		if (!fsdp_add(item.offset, item.length, &end) || item.length == 0)
			continue;
		fsdp_arena_reset(&verify->item);
		if (item.offset > items.reach)
			note_unreferenced(&items, item.offset);
		if (item.offset + item.length > items.reach)
			items.reach = item.offset + item.length;
		if (verify->foreign && (item.piece == FSDP_NONE ||
					       !fsdp_verify_needs(verify, item.piece)))
			continue;
		/* That a range ends beyond the file is a finding already. Copies of one
		 * name, and values of several, are looked at once. */
		if (end > file->source.size ||
			(item.offset == before.offset && item.length == before.length))
			continue;
		before = item;
		if (!transformed && !check_item(&items, &item))
			return false;
	}
	if (transformed)
		verify->lacks |= FSDP_UNREADABLE;
	if (items.reach != 0 && items.reach < file->source.size)
		note_unreferenced(&items, file->source.size);
	return true;
}

/* ---- Order of files and of findings: the same in all parts of the work ---- */

bool fsdp_verify_takes(struct fsdp_verify *verify, uint64_t bytes)
{
	verify->place++;
	return fsdp_share_takes(&verify->share, bytes);
}

bool fsdp_verify_mark(
	struct fsdp_verify *verify, uint32_t place, struct fsdp_error **ret_error)
{
	while (!verify->foreign && verify->places.count < verify->findings.list.count)
		if (!fsdp_vec_add(&verify->places, &place))
			return fsdp_arena_fail(&verify->arena, ret_error);
	return true;
}

struct finding_place {
	uint32_t place;
	size_t index;
};

/* Puts findings in the order of their places. Which files were in hand together does not
 * show then. */
static bool verify_order(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	struct fsdp_vec *list = &verify->findings.list;
	struct fsdp_vec sorted;
	if (list->count < 2)
		return true;
	struct finding_place *places = FSDP_TAKE(&verify->batch, places, list->count);
	fsdp_vec_init(&sorted, &verify->arena, sizeof(struct fsdp_finding));
	if (places == NULL)
		return fsdp_arena_fail(&verify->batch, ret_error);
	for (size_t i = 0; i < list->count; i++) {
		places[i].index = i;
		places[i].place = *(uint32_t *)fsdp_vec_at(&verify->places, i);
	}
	FSDP_SORT(places, list->count, FSDP_BY(places, place), FSDP_BY(places, index));
	for (size_t i = 0; i < list->count; i++)
		if (!fsdp_vec_add(&sorted, fsdp_vec_at(list, places[i].index)))
			return fsdp_arena_fail(&verify->arena, ret_error);
	*list = sorted;
	fsdp_arena_reset(&verify->batch);
	return true;
}

/* ---- One of several parts of the work: its files, and copies in files of other parts
 * ---- */

/* Adds the bytes of other files that are read in addition to those of the model. */
static bool add_beside(struct fsdp_verify *verify, uint64_t *total)
{
	const struct fsdp_folder *folder = fsdp_checkpoint_place(verify->checkpoint);
	const struct fsdp_span *known = fsdp_verify_list_known(verify);
	for (size_t i = 0; known != NULL && folder != NULL && i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		if (entry.kind == FSDP_ENTRY_FILE && entry.size != FSDP_UNKNOWN &&
			(fsdp_checkpoint_loads_beside(entry.name) ||
				fsdp_verify_lists(verify, entry.name)) &&
			!fsdp_verify_lists_digest(verify, known, entry.name))
			*total += entry.size;
	}
	return known != NULL;
}

static uint64_t size_of(const struct fsdp_file_record *file)
{
	return file->size != FSDP_UNKNOWN ? file->size : 0;
}

static bool verify_begin_part(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	size_t count = verify->checkpoint->model.files.count;
	verify->share = (struct fsdp_share){
		.part = verify->options.part,
		.parts = verify->options.parts,
		.total = verify->pass.total,
	};
	if (verify->options.parts == 0)
		return true;
	verify->own = FSDP_TAKE(&verify->arena, verify->own, count + 1);
	if (verify->own == NULL || !add_beside(verify, &verify->share.total))
		return fsdp_arena_fail(&verify->arena, ret_error);
	/* Bytes of the model's files that are in the share. */
	const struct fsdp_model *model = &verify->checkpoint->model;
	struct fsdp_share share = verify->share;
	uint64_t total = 0;
	for (uint32_t i = 0; i < model->files.count; i++) {
		uint64_t size = size_of(fsdp_model_file(model, i));
		total += fsdp_share_takes(&share, size) ? size : 0;
	}
	verify->pass.total = total;
	return true;
}

static bool verify_takes_file(struct fsdp_verify *verify, uint32_t id)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	bool takes = fsdp_verify_takes(verify, size_of(fsdp_model_file(model, id)));
	if (verify->own != NULL)
		verify->own[id] = takes;
	return takes;
}

/* ---- copies ---- */

/* Reads copies in files of other parts that this part's are compared with. `look_at`
 * takes a file in hand. What is wrong with these files, and what they add up to, another
 * part says. */
static bool verify_foreign(struct fsdp_verify *verify,
	bool (*look_at)(struct fsdp_verify *, uint32_t, struct fsdp_error **),
	struct fsdp_error **ret_error)
{
	struct fsdp_findings findings = verify->findings;
	struct fsdp_verify_coverage scope = verify->scope;
	uint64_t crc_count = verify->crc_count, left = verify->inflate_left;
	size_t count = verify->checkpoint->model.files.count;
	unsigned lacks = verify->lacks;
	bool good = true;
	if (verify->own == NULL || verify->copy_count == 0)
		return true;
	uint8_t *files = FSDP_TAKE(&verify->arena, files, count);
	if (files == NULL)
		return fsdp_arena_fail(&verify->arena, ret_error);
	fsdp_verify_add_first(verify, files);
	fsdp_findings_init(
		&verify->findings, &verify->arena, &verify->checkpoint->limits);
	verify->foreign = true;
	verify->pass.progress = NULL;
	for (uint32_t i = 0; good && i < count; i++)
		good = !files[i] || look_at(verify, i, ret_error);
	good = good && fsdp_verify_read(verify, ret_error);
	verify->foreign = false;
	findings.lost |= verify->findings.lost;
	verify->findings = findings;
	verify->scope = scope;
	verify->crc_count = crc_count;
	verify->inflate_left = left;
	verify->lacks = lacks;
	return good;
}

/* ---- The files of a checkpoint, one after another ---- */

static bool needs_data(const struct fsdp_verify *verify)
{
	return verify->options.level >= FSDP_LEVEL_DATA;
}

static bool look_at(
	struct fsdp_verify *verify, uint32_t id, struct fsdp_error **ret_error)
{
	struct fsdp_verify_file file;
	struct fsdp_error *error = NULL;
	const struct fsdp_file_record *record =
		fsdp_model_file(&verify->checkpoint->model, id);
	if (record->size == FSDP_UNKNOWN)
		return true; /* absent: said already */
	if (!fsdp_verify_file(verify, id, &file, &error)) {
		if (error == NULL)
			return true;
		if (ret_error != NULL)
			*ret_error = error;
		return false;
	}
	verify->scope.files++;
	verify->scope.bytes += file.source.size;
	file.has_digest = needs_data(verify) && fsdp_verify_lists(verify, file.path);
	fsdp_vec_init(&file.segments, &verify->batch, sizeof(struct fsdp_segment));
	if (!fsdp_verify_begin_views(verify, &file, ret_error) ||
		!fsdp_verify_ledger(verify, &file, ret_error))
		return false;
	if (needs_data(verify) && !file.is_unreadable)
		return fsdp_verify_take(verify, &file, ret_error);
	fsdp_arena_reset(&verify->batch);
	return true;
}

static bool look_at_listed(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	struct fsdp_verify_file file;
	size_t state = 0;
	while (fsdp_verify_next_listed(verify, &state, &file)) {
		if (!fsdp_verify_takes(verify, file.source.size))
			continue;
		if (file.source.fd >= 0)
			(void)fstat(file.source.fd, &file.before);
		verify->scope.files++;
		verify->scope.bytes += file.source.size;
		fsdp_vec_init(
			&file.segments, &verify->batch, sizeof(struct fsdp_segment));
		if (!fsdp_verify_take(verify, &file, ret_error))
			return false;
	}
	fsdp_verify_check_lists(verify);
	return fsdp_verify_mark(verify, ++verify->place, ret_error);
}

static bool prepare_data(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	const struct fsdp_verify_options *options = &verify->options;
	unsigned jobs = options->jobs != 0 ? options->jobs : 1;
	const struct fsdp_model *model = &verify->checkpoint->model;
	uint64_t total = 0;
	for (uint32_t i = 0; i < model->files.count; i++)
		if (fsdp_model_file(model, i)->size != FSDP_UNKNOWN)
			total += fsdp_model_file(model, i)->size;
	verify->pass = (struct fsdp_pass_options){
		.jobs = (unsigned)fsdp_min(jobs, FSDP_PASS_THREADS),
		.total = total,
		.progress = options->progress,
		.context = options->progress_context,
	};
	verify->inflate_left =
		fsdp_limit(&verify->checkpoint->limits, FSDP_LIMIT_INFLATE_BYTES);
	verify->hand = calloc(FSDP_VERIFY_HAND, sizeof *verify->hand);
	if (verify->hand == NULL)
		return fsdp_fail_memory(ret_error);
	return fsdp_verify_read_digests(verify, ret_error) &&
	       verify_begin_part(verify, ret_error) &&
	       fsdp_verify_find_copies(verify, ret_error) &&
	       fsdp_verify_begin_values(verify, ret_error);
}

static bool look_at_all(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	/* Announces reads of remote files: of each file all bytes, or its start and the
	 * two ends of its items. Of a long file the headers are read before the rest,
	 * which is then read in sequence: announcing all of it would delay them. */
	enum { HEAD = 64, ITEM_HEAD = 4096, ITEM_TAIL = 65557, WHOLE = 32 << 20 };
	const struct fsdp_checkpoint *checkpoint = verify->checkpoint;
	const struct fsdp_model *model = &checkpoint->model;
	size_t at = 0;
	for (uint32_t i = 0; i < model->files.count && checkpoint->remote != NULL; i++) {
		struct fsdp_source source;
		if (fsdp_model_file(model, i)->size == FSDP_UNKNOWN ||
			!fsdp_checkpoint_source(checkpoint, i, &source, NULL))
			continue;
		fsdp_source_expect(&source, 0,
			needs_data(verify) && source.size <= WHOLE
				? source.size
				: fsdp_min(source.size, HEAD));
		for (; at < verify->extent_count; at++) {
			const struct fsdp_extent *extent =
				fsdp_model_extent(model, verify->extents[at]);
			if (extent->file > i)
				break;
			if (extent->file < i || needs_data(verify) ||
				extent->kind != FSDP_EXTENT_ITEM)
				continue;
			uint64_t tail = fsdp_min(extent->length, ITEM_TAIL);
			fsdp_source_expect(&source, extent->offset,
				fsdp_min(extent->length, ITEM_HEAD));
			fsdp_source_expect(
				&source, extent->offset + extent->length - tail, tail);
		}
	}
	if (!fsdp_verify_folder(verify, ret_error) ||
		(needs_data(verify) && !prepare_data(verify, ret_error)) ||
		!fsdp_verify_mark(verify, 0, ret_error))
		return false;
	for (uint32_t i = 0; i < verify->checkpoint->model.files.count; i++) {
		/* Those of other parts are met too: what lists say of them is known here.
		 */
		const struct fsdp_file_record *record =
			fsdp_model_file(&verify->checkpoint->model, i);
		if (needs_data(verify) && record->size != FSDP_UNKNOWN)
			(void)fsdp_verify_has_digest(verify, record->path);
		if (!fsdp_verify_head(verify, i, ret_error) ||
			(verify_takes_file(verify, i) &&
				!look_at(verify, i, ret_error)) ||
			!fsdp_verify_mark(verify, verify->place, ret_error))
			return false;
	}
	if (!needs_data(verify))
		return true;
	if (!look_at_listed(verify, ret_error) ||
		!fsdp_verify_beside(verify, ret_error) ||
		!fsdp_verify_read(verify, ret_error) ||
		!verify_foreign(verify, look_at, ret_error))
		return false;
	fsdp_verify_check_copies(verify);
	return fsdp_verify_check_values(verify, ret_error);
}

/* ---- its life ---- */

static bool begin(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = verify->checkpoint;
	verify->budget.ceiling =
		checkpoint->budget.ceiling -
		fsdp_min(checkpoint->budget.used, checkpoint->budget.ceiling);
	fsdp_arena_init(&verify->arena, &verify->budget);
	fsdp_arena_init_lean(&verify->batch, &verify->budget);
	fsdp_arena_init_lean(&verify->item, &verify->budget);
	fsdp_findings_init(&verify->findings, &verify->arena, &checkpoint->limits);
	fsdp_vec_init(
		&verify->digests, &verify->arena, sizeof(struct fsdp_listed_digest));
	fsdp_vec_init(&verify->sources, &verify->arena, sizeof(const char *));
	fsdp_vec_init(&verify->places, &verify->arena, sizeof(uint32_t));
	for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++) {
		const struct fsdp_rule *rule = fsdp_finding(checkpoint, i)->rule;
		verify->is_unlisted |= rule == fsdp_rule(FSDP_RULE_CHUNK_GAP) ||
				       rule == fsdp_rule(FSDP_RULE_METADATA_INCONSISTENT);
	}
	verify->window = malloc(FSDP_VERIFY_WINDOW);
	if (verify->window == NULL)
		return fsdp_fail_memory(ret_error);
	return fsdp_locator_new(checkpoint, &verify->locator, ret_error);
}

bool fsdp_verify_new(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_verify_options *options, struct fsdp_verify **ret_verify,
	struct fsdp_error **ret_error)
{
	if (checkpoint->model.counting != NULL)
		return fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"only the counts of this checkpoint were read: open it without only_counts");
	struct fsdp_verify *verify = calloc(1, sizeof *verify);
	if (verify == NULL)
		return fsdp_fail_memory(ret_error);
	verify->checkpoint = checkpoint;
	if (options != NULL)
		memcpy(&verify->options, options,
			fsdp_min(options->size, sizeof verify->options));
	if (verify->options.level < FSDP_LEVEL_HEADERS)
		verify->options.level = FSDP_LEVEL_HEADERS;
	verify->scope.level = verify->options.level;
	bool good =
		begin(verify, ret_error) && fsdp_verify_sort(verify, ret_error) &&
		look_at_all(verify, ret_error) &&
		fsdp_verify_mark(verify, UINT32_MAX, ret_error) &&
		verify_order(verify, ret_error) &&
		(!verify->findings.lost || fsdp_arena_fail(&verify->arena, ret_error));
	/* What is needed only while it is made. */
	fsdp_locator_free(verify->locator);
	verify->locator = NULL;
	free(verify->window);
	verify->window = NULL;
	free(verify->hand);
	verify->hand = NULL;
	fsdp_arena_done(&verify->item);
	fsdp_arena_done(&verify->batch);
	if (!good) {
		fsdp_verify_free(verify);
		return false;
	}
	*ret_verify = verify;
	return true;
}

void fsdp_verify_free(struct fsdp_verify *verify)
{
	if (verify == NULL)
		return;
	fsdp_arena_done(&verify->arena);
	free(verify);
}

size_t fsdp_verify_finding_count(const struct fsdp_verify *verify)
{
	return verify->findings.list.count;
}

const struct fsdp_finding *fsdp_verify_finding(
	const struct fsdp_verify *verify, size_t index)
{
	return fsdp_vec_at(&verify->findings.list, index);
}

size_t fsdp_verify_omitted_count(const struct fsdp_verify *verify)
{
	return fsdp_findings_omitted_count(&verify->findings);
}

struct fsdp_omitted fsdp_verify_omitted(const struct fsdp_verify *verify, size_t index)
{
	return fsdp_findings_omitted(&verify->findings, index);
}

struct fsdp_verify_coverage fsdp_verify_coverage(const struct fsdp_verify *verify)
{
	struct fsdp_verify_coverage scope = verify->scope;
	scope.digest_source_count = (verify->crc_count != 0) + verify->sources.count;
	return scope;
}

const char *fsdp_verify_digest_source(const struct fsdp_verify *verify, size_t index)
{
	size_t first = verify->crc_count != 0;
	if (index < first)
		return "crc32";
	if (index - first >= verify->sources.count)
		return NULL;
	return *(const char **)fsdp_vec_at(&verify->sources, index - first);
}

/* Which level looks for a rule, and what it needs besides. */
enum verify_need {
	NEEDS_NOTHING,
	NEEDS_CRC,
	NEEDS_DIGEST,
	NEEDS_MANIFEST,
	NEEDS_COPIES,
	NEEDS_TIES
};

static const struct {
	enum fsdp_rule_index rule;
	enum fsdp_level level;
	enum verify_need need;
} raised[] = {
	{ FSDP_RULE_OVERWRITTEN_IN_PLACE, FSDP_LEVEL_HEADERS, NEEDS_NOTHING },
	{ FSDP_RULE_UNREFERENCED_BYTES, FSDP_LEVEL_HEADERS, NEEDS_NOTHING },
	{ FSDP_RULE_ITEM_MISMATCH, FSDP_LEVEL_HEADERS, NEEDS_NOTHING },
	{ FSDP_RULE_CRC_MISMATCH, FSDP_LEVEL_DATA, NEEDS_CRC },
	{ FSDP_RULE_CRC_NOT_RECORDED, FSDP_LEVEL_HEADERS, NEEDS_NOTHING },
	{ FSDP_RULE_INFLATE_ERROR, FSDP_LEVEL_DATA, NEEDS_NOTHING },
	{ FSDP_RULE_CHANGED_DURING_READ, FSDP_LEVEL_HEADERS, NEEDS_NOTHING },
	{ FSDP_RULE_DIGEST_MISMATCH, FSDP_LEVEL_DATA, NEEDS_DIGEST },
	{ FSDP_RULE_REPLICA_DIFFERS, FSDP_LEVEL_DATA, NEEDS_COPIES },
	{ FSDP_RULE_NON_FINITE, FSDP_LEVEL_VALUES, NEEDS_NOTHING },
	{ FSDP_RULE_IMPOSSIBLE_VALUE, FSDP_LEVEL_VALUES, NEEDS_NOTHING },
	{ FSDP_RULE_FILE_HOLE, FSDP_LEVEL_HEADERS, NEEDS_NOTHING },
	{ FSDP_RULE_MEMBER_UNREFERENCED, FSDP_LEVEL_HEADERS, NEEDS_NOTHING },
	{ FSDP_RULE_NATIVE_CODE, FSDP_LEVEL_HEADERS, NEEDS_NOTHING },
	{ FSDP_RULE_TIED_WEIGHTS, FSDP_LEVEL_DATA, NEEDS_TIES },
	{ FSDP_RULE_OFFSETS_NOT_COMPUTABLE, FSDP_LEVEL_HEADERS, NEEDS_NOTHING },
	{ FSDP_RULE_MANIFEST_MISMATCH, FSDP_LEVEL_DATA, NEEDS_MANIFEST },
};

/* Whether its inputs are there, or the reason to report. */
static void check_need(const struct fsdp_verify *verify, enum verify_need need,
	struct fsdp_rule_result *result)
{
	bool manifest = verify->options.manifest_path != NULL;
	enum fsdp_rule_reason reason = FSDP_REASON_NONE;
	if ((verify->lacks & FSDP_UNREADABLE) != 0)
		reason = FSDP_REASON_UNREADABLE;
	else if ((verify->lacks & FSDP_OVER_LIMIT) != 0)
		reason = FSDP_REASON_LIMIT;
	if (need == NEEDS_CRC && (verify->lacks & FSDP_WITHOUT_CRC) != 0)
		reason = FSDP_REASON_NO_CRC;
	if (need == NEEDS_DIGEST && verify->sources.count == manifest)
		reason = FSDP_REASON_NO_DIGEST;
	/* What the one does not cover, the other does. */
	bool covered = verify->scope.payload_without == 0 &&
		       (reason == FSDP_REASON_NO_CRC || reason == FSDP_REASON_NO_DIGEST);
	bool compares = need == NEEDS_COPIES || need == NEEDS_TIES;
	if ((need == NEEDS_COPIES && verify->unlike_copies) ||
		(need == NEEDS_TIES && verify->unlike_ties))
		reason = FSDP_REASON_UNLIKE;
	else if (covered || (need == NEEDS_MANIFEST && !manifest) ||
		 (compares && verify->copy_count == 0)) {
		result->status = FSDP_STATUS_NOT_APPLICABLE;
		return;
	}
	if (reason != FSDP_REASON_NONE)
		result->status = FSDP_STATUS_NOT_EVALUATED;
	result->reason = reason;
}

bool fsdp_verify_result(const struct fsdp_verify *verify, size_t rule,
	struct fsdp_rule_result *ret_result)
{
	for (size_t i = 0; i < FSDP_COUNT(raised); i++) {
		if (raised[i].rule != rule)
			continue;
		*ret_result = (struct fsdp_rule_result){ .rule = fsdp_rule(rule) };
		if (raised[i].level <= verify->options.level) {
			check_need(verify, raised[i].need, ret_result);
			return true;
		}
		ret_result->status = FSDP_STATUS_NOT_EVALUATED;
		ret_result->reason = raised[i].level == FSDP_LEVEL_VALUES
					     ? FSDP_REASON_NEEDS_VALUES
					     : FSDP_REASON_NEEDS_DATA;
		return true;
	}
	return false;
}
