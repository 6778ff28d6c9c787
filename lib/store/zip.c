/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of a zip: its entries, and what is wrong with them taken by themselves
 * and together. zip-end.c has the records behind it, zip-local.c the headers before it,
 * zip-index.c the names.
 *
 *	entry  "PK\1\2"  made by u16  needed u16  flags u16  method u16  time u16
 *	       date u16  crc u32  stored size u32  size u32  name length u16
 *	       extra length u16  comment length u16  disk u16  internal u16
 *	       attributes u32  header u32  name  extra  comment
 *
 *	extra  id u16  length u16  then, of 0x0001: size u64, stored size u64,
 *	       header u64, disk u32, each only if its field above is saturated;
 *	       of 0x7075: version u8, CRC u32, another name
 *
 * Origin: APPNOTE 6.3.10, sections 4.3.12 and 4.5.
 *
 * The directory is read at once. Parsing moves the names together at its front; what
 * that leaves free, at least 46 bytes an entry, holds the index afterwards.
 */
#include <stdlib.h>

#include "base/num.h"
#include "store/zip-parts.h"

enum {
	ATTRIBUTE_DIRECTORY = 0x10,
	EXTRA_ZIP64 = 1,
};

struct reader {
	const struct fsdp_limits *limits;
	struct fsdp_span file;
	struct fsdp_findings *findings;
	struct fsdp_zip *zip;
	struct fsdp_error **error;
	const struct fsdp_zip_end *end;
	unsigned char *bytes; /* of the directory; names are moved to its front */
	size_t size, at, names;
	uint64_t inflated; /* all deflated members together, saturating */
	uint64_t reach;    /* end of the furthest member so far */
	bool in_order;     /* members follow each other without sharing a byte */
	bool has_bytes, has_crc;
};

/* What only the judging of one entry needs. */
struct judged_entry {
	struct fsdp_span extra;
	uint32_t attributes;
	uint32_t disk;
	uint64_t comment_size;
};

#define FIND(reader, rule, member_, ...)                                      \
	fsdp_find((reader)->findings, FSDP_RULE_##rule,                       \
		FSDP_PLACE(.file = (reader)->file, .member = (member_)->name, \
			.offset = (member_)->header),                         \
		__VA_ARGS__)

static bool fail_entry(struct reader *reader, const char *what)
{
	fsdp_fail_rule(reader->error, FSDP_ERROR_DAMAGED, "FI1040",
		reader->end->directory + reader->at, "%s", what);
	return fsdp_error_add_hint(reader->error, "copy this file again");
}

/* ---- one entry ---- */

static void take_zip64(struct fsdp_cursor *field, struct fsdp_zip_member *member,
	struct judged_entry *entry, bool *ret_odd)
{
	if (member->size == UINT32_MAX)
		member->size = fsdp_cursor_take_u64le(field);
	if (member->stored_size == UINT32_MAX)
		member->stored_size = fsdp_cursor_take_u64le(field);
	if (member->header == UINT32_MAX)
		member->header = fsdp_cursor_take_u64le(field);
	if (entry->disk == UINT16_MAX)
		entry->disk = fsdp_cursor_take_u32le(field);
	*ret_odd = *ret_odd || !field->ok;
}

bool fsdp_zip_next_extra(
	struct fsdp_cursor *area, uint16_t *ret_id, struct fsdp_cursor *ret_field)
{
	if (fsdp_cursor_left(area) < 4)
		return false;
	*ret_id = fsdp_cursor_take_u16le(area);
	uint16_t size = fsdp_cursor_take_u16le(area);
	*ret_field = fsdp_cursor(fsdp_cursor_take_span(area, size));
	return area->ok;
}

/* Absent: the field is broken. */
static struct fsdp_span unicode_path(struct fsdp_cursor field)
{
	fsdp_cursor_skip(&field, 5); /* version, CRC of the plain name */
	struct fsdp_span name = fsdp_cursor_take_span(&field, fsdp_cursor_left(&field));
	return field.ok ? name : (struct fsdp_span){ 0 };
}

bool fsdp_zip_same_unicode_path(
	struct fsdp_cursor field, const struct fsdp_zip_member *member)
{
	struct fsdp_span name = unicode_path(field);
	return name.data != NULL && fsdp_span_equal(name, member->name);
}

static void take_extra(
	struct reader *reader, struct fsdp_zip_member *member, struct judged_entry *entry)
{
	struct fsdp_cursor cursor = fsdp_cursor(entry->extra);
	struct fsdp_cursor field;
	uint16_t id;
	bool odd = false, zip64 = false;
	while (fsdp_zip_next_extra(&cursor, &id, &field)) {
		if (id == EXTRA_ZIP64 && !zip64) {
			zip64 = true;
			take_zip64(&field, member, entry, &odd);
		} else if (id == FSDP_ZIP_UNICODE_PATH &&
			   !fsdp_zip_same_unicode_path(field, member)) {
			char room[FSDP_SHOWN];
			FIND(reader, ZIP_NAME_DIFFERS, member,
				"an extra field gives the member another name: %s",
				fsdp_shown(unicode_path(field), room));
		}
	}
	if (odd || !cursor.ok)
		FIND(reader, ZIP_FIELDS, member,
			"the extra fields in the directory are longer than their area");
}

static bool is_ordinary_kind(uint32_t attributes)
{
	enum { FORMAT = 0170000, REGULAR = 0100000 };
	uint32_t mode = attributes >> 16 & FORMAT;
	return mode == 0 || mode == REGULAR;
}

static void judge_kind(
	struct reader *reader, const struct fsdp_zip_member *member, uint32_t attributes)
{
	if (member->size == 0 && member->stored_size == 0)
		return;
	if ((attributes & ATTRIBUTE_DIRECTORY) != 0)
		FIND(reader, ZIP_ENTRY_TYPE, member,
			"marked as a folder, but it has %llu bytes: PyTorch leaves its buffer unwritten",
			FSDP_LLU(member->size));
	else if (member->name.size != 0 &&
		 member->name.data[member->name.size - 1] == '/')
		FIND(reader, ZIP_ENTRY_TYPE, member,
			"named like a folder, but it has %llu bytes",
			FSDP_LLU(member->size));
	else if (!is_ordinary_kind(attributes))
		FIND(reader, ZIP_ENTRY_TYPE, member,
			"marked as a link, a folder or a device, but it has %llu bytes",
			FSDP_LLU(member->size));
	if (member->stored_size == 0 && member->size != 0)
		FIND(reader, ZIP_ENTRY_TYPE, member,
			"states %llu bytes, of which 0 are stored: PyTorch leaves its buffer unwritten",
			FSDP_LLU(member->size));
}

static void judge_size(struct reader *reader, const struct fsdp_zip_member *member)
{
	if (member->method == FSDP_ZIP_STORED) {
		if (member->size != member->stored_size)
			FIND(reader, ZIP_FIELDS, member,
				"stored, but its two sizes differ: %llu and %llu",
				FSDP_LLU(member->stored_size), FSDP_LLU(member->size));
		return;
	}
	if (member->method != FSDP_ZIP_DEFLATED) {
		FIND(reader, ZIP_FIELDS, member,
			"compressed with method %u; PyTorch reads only 0 and 8",
			member->method);
		return;
	}
	if (member->size / FSDP_ZIP_RATIO > member->stored_size)
		FIND(reader, ZIP_BOMB, member,
			"%llu stored bytes cannot inflate to %llu: deflate ends at 1032 to 1",
			FSDP_LLU(member->stored_size), FSDP_LLU(member->size));
	if (!fsdp_add(reader->inflated, member->size, &reader->inflated))
		reader->inflated = UINT64_MAX;
}

static void judge_entry(struct reader *reader, const struct fsdp_zip_member *member,
	const struct judged_entry *entry)
{
	if ((member->flags & FSDP_ZIP_UNREADABLE) != 0)
		FIND(reader, ZIP_FIELDS, member,
			"encrypted or patched (flags %#06x): PyTorch cannot read it",
			member->flags);
	if (entry->disk > 1)
		FIND(reader, ZIP_DIRECTORY_AMBIGUOUS, member,
			"states that it begins on disk %lu", (unsigned long)entry->disk);
	judge_size(reader, member);
	judge_kind(reader, member, entry->attributes);
}

/* The ordinary entry: nothing to judge. One test instead of ten, a million times. */
static inline bool is_plain(
	const struct fsdp_zip_member *member, const struct judged_entry *entry)
{
	return member->method == FSDP_ZIP_STORED && member->size == member->stored_size &&
	       (member->flags & FSDP_ZIP_UNREADABLE) == 0 && entry->disk <= 1 &&
	       (entry->attributes & ATTRIBUTE_DIRECTORY) == 0 &&
	       is_ordinary_kind(entry->attributes) &&
	       (member->size == 0 || member->name.size == 0 ||
		       member->name.data[member->name.size - 1] != '/');
}

/* Whether it follows all before it; what does not is looked at once all are known. */
static inline void place(struct reader *reader, const struct fsdp_zip_member *member)
{
	uint64_t end;
	if (!fsdp_add(member->header, FSDP_ZIP_LOCAL_SIZE + member->name.size, &end) ||
		!fsdp_add(end, member->stored_size, &end) ||
		member->header < reader->reach) {
		reader->in_order = false;
		return;
	}
	reader->reach = end;
}

/* Moves the name to the others and counts the header from the source's start. */
static inline bool keep(
	struct reader *reader, struct fsdp_zip_member *member, struct judged_entry *entry)
{
	if (entry->extra.size != 0)
		take_extra(reader, member, entry);
	if (reader->end->base != 0 &&
		!fsdp_add(member->header, reader->end->base, &member->header))
		member->header = UINT64_MAX;
	if (!is_plain(member, entry))
		judge_entry(reader, member, entry);
	unsigned char *name = reader->bytes + reader->names;
	memmove(name, member->name.data, member->name.size);
	member->name.data = name;
	reader->names += member->name.size;
	reader->has_bytes |= member->size != 0;
	reader->has_crc |= member->crc != 0;
	place(reader, member);
	return fsdp_vec_add(&reader->zip->members, member) ||
	       fsdp_arena_fail(reader->zip->members.arena, reader->error);
}

static inline bool take_entry(struct reader *reader)
{
	struct fsdp_cursor fixed =
		fsdp_cursor(fsdp_span(reader->bytes + reader->at, FSDP_ZIP_CENTRAL_SIZE));
	struct fsdp_zip_member member = { 0 };
	struct judged_entry entry = { 0 };
	fsdp_cursor_skip(&fixed, 8);
	member.flags = fsdp_cursor_take_u16le(&fixed);
	member.method = fsdp_cursor_take_u16le(&fixed);
	fsdp_cursor_skip(&fixed, 4);
	member.crc = fsdp_cursor_take_u32le(&fixed);
	member.stored_size = fsdp_cursor_take_u32le(&fixed);
	member.size = fsdp_cursor_take_u32le(&fixed);
	size_t name_size = fsdp_cursor_take_u16le(&fixed);
	size_t extra_size = fsdp_cursor_take_u16le(&fixed);
	size_t comment_size = fsdp_cursor_take_u16le(&fixed);
	entry.disk = fsdp_cursor_take_u16le(&fixed);
	fsdp_cursor_skip(&fixed, 2);
	entry.attributes = fsdp_cursor_take_u32le(&fixed);
	member.header = fsdp_cursor_take_u32le(&fixed);
	struct fsdp_cursor rest =
		fsdp_cursor(fsdp_span(reader->bytes + reader->at + FSDP_ZIP_CENTRAL_SIZE,
			reader->size - reader->at - FSDP_ZIP_CENTRAL_SIZE));
	member.name = fsdp_cursor_take_span(&rest, name_size);
	entry.extra = fsdp_cursor_take_span(&rest, extra_size);
	fsdp_cursor_skip(&rest, comment_size);
	if (!rest.ok)
		return fail_entry(reader, "an entry of the zip's directory is cut off");
	reader->at += FSDP_ZIP_CENTRAL_SIZE + rest.at;
	return keep(reader, &member, &entry);
}

/* ---- all entries ---- */

static void judge_count(struct reader *reader)
{
	const struct fsdp_zip_end *end = reader->end;
	uint64_t count = reader->zip->members.count;
	if (end->count != count)
		fsdp_find(reader->findings, FSDP_RULE_ZIP_DIRECTORY_AMBIGUOUS,
			FSDP_PLACE(.file = reader->file, .offset = end->directory),
			"the end record counts %llu entries, but the directory has %llu",
			FSDP_LLU(end->count), FSDP_LLU(count));
	if (end->size != reader->at)
		fsdp_find(reader->findings, FSDP_RULE_ZIP_DIRECTORY_AMBIGUOUS,
			FSDP_PLACE(.file = reader->file, .offset = end->directory,
				.length = reader->at),
			"the end record gives the directory %llu bytes, but its entries have %llu",
			FSDP_LLU(end->size), FSDP_LLU(reader->at));
}

/* What all members declare that they would inflate to. */
static bool check_inflated(struct reader *reader)
{
	uint64_t most = fsdp_limit(reader->limits, FSDP_LIMIT_INFLATE_BYTES);
	return reader->inflated <= most ||
	       fsdp_fail_limit(reader->error, FSDP_LIMIT_INFLATE_BYTES, most);
}

static bool take_entries(struct reader *reader)
{
	const struct fsdp_vec *members = &reader->zip->members;
	uint64_t most = fsdp_limit(reader->limits, FSDP_LIMIT_MEMBERS);
	if (most >= UINT32_MAX)
		most = UINT32_MAX - 1;
	while (reader->size - reader->at >= FSDP_ZIP_CENTRAL_SIZE &&
		memcmp(reader->bytes + reader->at, FSDP_ZIP_CENTRAL_MAGIC, 4) == 0) {
		if (members->count >= most)
			return fsdp_fail_limit(reader->error, FSDP_LIMIT_MEMBERS, most);
		if (!take_entry(reader))
			return false;
	}
	if (members->count < reader->end->count &&
		reader->at < fsdp_min(reader->end->size, reader->size))
		return fail_entry(reader,
			"the zip's directory holds something that is not an entry");
	judge_count(reader);
	return check_inflated(reader);
}

/* ---- ranges: no two members share a byte ---- */

static int compare_headers(const void *left, const void *right, void *context)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	uint64_t x = fsdp_zip_member(context, a)->header,
		 y = fsdp_zip_member(context, b)->header;
	return x != y ? (x < y ? -1 : 1) : (a > b) - (a < b);
}

static void judge_range(struct reader *reader, const struct fsdp_zip_member *member,
	const struct fsdp_zip_member *before, uint64_t *reach)
{
	uint64_t end, directory = reader->end->directory;
	if (before != NULL && member->header == before->header)
		FIND(reader, ZIP_OVERLAP, member,
			"two entries of the directory share its header");
	else if (member->header < *reach)
		FIND(reader, ZIP_OVERLAP, member,
			"begins before byte %llu, where the member before it ends",
			FSDP_LLU(*reach));
	if (!fsdp_add(member->header, FSDP_ZIP_LOCAL_SIZE + member->name.size, &end) ||
		!fsdp_add(end, member->stored_size, &end))
		end = UINT64_MAX;
	if (end > directory)
		FIND(reader, ZIP_OVERLAP, member,
			"ends beyond byte %llu, where the directory begins",
			FSDP_LLU(directory));
	if (end > *reach)
		*reach = end;
}

static void judge_ranges(struct reader *reader)
{
	struct fsdp_zip *zip = reader->zip;
	size_t count = zip->members.count;
	zip->by_header = (uint32_t *)(void *)(reader->bytes + reader->names);
	for (size_t i = 0; i < count; i++)
		zip->by_header[i] = (uint32_t)i;
	qsort_r(zip->by_header, count, sizeof *zip->by_header, compare_headers, zip);
	const struct fsdp_zip_member *before = NULL;
	uint64_t reach = 0;
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_zip_member *member =
			fsdp_zip_member(zip, zip->by_header[i]);
		judge_range(reader, member, before, &reach);
		before = member;
	}
	reader->reach = reach;
}

static void judge_front(struct reader *reader)
{
	struct fsdp_zip *zip = reader->zip;
	const struct fsdp_zip_member *first =
		fsdp_zip_member(zip, zip->by_header != NULL ? zip->by_header[0] : 0);
	if (reader->end->base == 0 && first->header != 0 &&
		first->header <= zip->source.size)
		fsdp_find(reader->findings, FSDP_RULE_ZIP_STRAY_BYTES,
			FSDP_PLACE(.file = reader->file, .offset = 0,
				.length = first->header, .severity = FSDP_ERROR + 1),
			"%llu bytes stand in front of the first member",
			FSDP_LLU(first->header));
}

/* Of most files it lies in what was read to find it. */
static bool load_directory(struct reader *reader, const struct fsdp_source *source)
{
	const struct fsdp_zip_end *end = reader->end;
	if (end->tail == NULL || end->directory < end->tail_begin)
		return fsdp_source_read(source, end->directory, reader->bytes,
			reader->size, reader->error);
	memcpy(reader->bytes, end->tail + (end->directory - end->tail_begin),
		reader->size);
	return true;
}

static bool read_directory(
	struct reader *reader, const struct fsdp_source *source, struct fsdp_arena *arena)
{
	const struct fsdp_zip_end *end = reader->end;
	struct fsdp_zip *zip = reader->zip;
	uint64_t size = end->directory_end - end->directory;
	uint64_t most = fsdp_limit(reader->limits, FSDP_LIMIT_DIRECTORY_BYTES);
	if (size > most)
		return fsdp_fail_limit(reader->error, FSDP_LIMIT_DIRECTORY_BYTES, most);
	reader->size = (size_t)size;
	reader->bytes = fsdp_arena_take(arena, reader->size, 64);
	if (reader->bytes == NULL)
		return fsdp_arena_fail(arena, reader->error);
	if (!load_directory(reader, source) || !take_entries(reader))
		return false;
	zip->directory_offset = end->directory;
	zip->directory_size = reader->at;
	zip->end_size = source->size - end->directory - reader->at;
	zip->no_crc = reader->has_bytes && !reader->has_crc;
	if (zip->members.count == 0)
		return true;
	reader->names += fsdp_zip_index_make(
		zip, reader->bytes + reader->names, reader->file, reader->findings);
	if (!reader->in_order || reader->reach > end->directory)
		judge_ranges(reader);
	zip->members_end = reader->reach;
	judge_front(reader);
	return true;
}

bool fsdp_zip_open(const struct fsdp_source *source, struct fsdp_arena *arena,
	const struct fsdp_limits *limits, struct fsdp_span file,
	struct fsdp_findings *findings, struct fsdp_zip *ret_zip,
	struct fsdp_error **ret_error)
{
	struct fsdp_zip_end end;
	if (!fsdp_zip_end_read(source, file, findings, &end, ret_error))
		return false;
	struct fsdp_zip zip = { .source = *source };
	fsdp_vec_init(&zip.members, arena, sizeof(struct fsdp_zip_member));
	struct reader reader = {
		.limits = limits,
		.file = file,
		.findings = findings,
		.zip = &zip,
		.error = ret_error,
		.end = &end,
		.in_order = true,
	};
	bool ok = read_directory(&reader, source, arena);
	free(end.tail);
	if (ok)
		*ret_zip = zip;
	return ok;
}
