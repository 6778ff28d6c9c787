/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records that end a zip, and how readers may disagree about them.
 *
 *	end record        "PK\5\6"  disk u16  directory's disk u16  entries here u16
 *	                  entries u16  size u32  offset u32  comment length u16  comment
 *	ZIP64 locator     "PK\6\7"  disk u32  offset of the record u64  disks u32
 *	ZIP64 end record  "PK\6\6"  size of the rest u64  made by u16  needed u16
 *	                  disk u32  directory's disk u32  entries here u64  entries u64
 *	                  size u64  offset u64
 *
 * Origin: APPNOTE 6.3.10, sections 4.3.14 to 4.3.16; miniz as PyTorch 2.13 builds it
 * takes the last signature within 64 KiB and the ZIP64 record whenever there is one.
 */
#include <stdlib.h>

#include "base/num.h"
#include "store/zip-parts.h"

enum {
	END = 22,
	LOCATOR = 20,
	END64 = 56,
	TAIL = END + UINT16_MAX,
};

#define END_MAGIC "PK\5\6"
#define LOCATOR_MAGIC "PK\6\7"
#define END64_MAGIC "PK\6\6"

struct tail {
	const struct fsdp_source *source;
	struct fsdp_span file;
	struct fsdp_findings *findings;
	struct fsdp_error **error;
	unsigned char *owned; /* NULL for memory: used where it lies */
	struct fsdp_span bytes;
	uint64_t begin;
};

struct end_record {
	uint64_t at;
	uint64_t disk, directory_disk, count_here, count, size, offset;
	uint64_t comment_size;
};

#define AMBIGUOUS(tail, where, ...)                                    \
	fsdp_find((tail)->findings, FSDP_RULE_ZIP_DIRECTORY_AMBIGUOUS, \
		FSDP_PLACE(.file = (tail)->file, .offset = (where)), __VA_ARGS__)

static bool fail_unreadable(struct tail *tail, uint64_t offset, const char *what)
{
	fsdp_fail_rule(tail->error, FSDP_ERROR_DAMAGED, "FI1040", offset, "%s", what);
	return fsdp_error_add_hint(tail->error, "copy this file again");
}

static bool load_tail(struct tail *tail)
{
	const struct fsdp_source *source = tail->source;
	size_t size = (size_t)fsdp_min(source->size, TAIL);
	tail->begin = source->size - size;
	if (size == 0) {
		tail->bytes = FSDP_SPAN("");
		return true;
	}
	const unsigned char *bytes = fsdp_source_bytes(source, tail->begin);
	if (bytes != NULL) {
		tail->bytes = fsdp_span(bytes, size);
		return true;
	}
	tail->owned = malloc(size);
	if (tail->owned == NULL)
		return fsdp_fail_memory(tail->error);
	tail->bytes = fsdp_span(tail->owned, size);
	return fsdp_source_read(source, tail->begin, tail->owned, size, tail->error);
}

/* False only if the system refuses; what lies outside reads as absent. */
static bool look(struct tail *tail, uint64_t offset, size_t size, unsigned char *buffer,
	struct fsdp_span *ret_bytes)
{
	*ret_bytes = (struct fsdp_span){ 0 };
	uint64_t end;
	if (!fsdp_add(offset, size, &end) || end > tail->source->size)
		return true;
	if (offset >= tail->begin) {
		*ret_bytes = fsdp_span(tail->bytes.data + (offset - tail->begin), size);
		return true;
	}
	if (!fsdp_source_read(tail->source, offset, buffer, size, tail->error))
		return false;
	*ret_bytes = fsdp_span(buffer, size);
	return true;
}

static bool has_magic(
	struct tail *tail, uint64_t offset, const char *magic, bool *ret_has)
{
	unsigned char buffer[4];
	struct fsdp_span bytes;
	if (!look(tail, offset, sizeof buffer, buffer, &bytes))
		return false;
	*ret_has = bytes.data != NULL && memcmp(bytes.data, magic, 4) == 0;
	return true;
}

static struct end_record parse_end(const struct tail *tail, size_t at)
{
	struct fsdp_cursor cursor = fsdp_cursor(fsdp_span(tail->bytes.data + at, END));
	fsdp_cursor_skip(&cursor, 4);
	struct end_record record = { .at = tail->begin + at };
	record.disk = fsdp_cursor_take_u16le(&cursor);
	record.directory_disk = fsdp_cursor_take_u16le(&cursor);
	record.count_here = fsdp_cursor_take_u16le(&cursor);
	record.count = fsdp_cursor_take_u16le(&cursor);
	record.size = fsdp_cursor_take_u32le(&cursor);
	record.offset = fsdp_cursor_take_u32le(&cursor);
	record.comment_size = fsdp_cursor_take_u16le(&cursor);
	return record;
}

static size_t find_signature(struct fsdp_span bytes, size_t from)
{
	const unsigned char *hit = fsdp_span_find(
		fsdp_span(bytes.data + from, bytes.size - from), FSDP_SPAN(END_MAGIC));
	return hit == NULL ? bytes.size : (size_t)(hit - bytes.data);
}

/*
 * Whether some reader would take this record for the true one: its comment ends with
 * the file, or the directory that it names is there. The end of a zip that is stored
 * inside of a member has offsets that count from elsewhere, so it is neither.
 */
static bool is_plausible(
	struct tail *tail, const struct end_record *record, bool *ret_plausible)
{
	*ret_plausible = record->at + END + record->comment_size == tail->source->size;
	uint64_t end;
	if (*ret_plausible || record->count == 0 ||
		!fsdp_add(record->offset, record->size, &end) || end > record->at)
		return true;
	return has_magic(tail, record->offset, FSDP_ZIP_CENTRAL_MAGIC, ret_plausible);
}

/* Whether the directory lies where the record says: in front of it, or of ZIP64 records
 * that begin with what it leaves to them. */
static bool fits(const struct end_record *record)
{
	return record->offset + record->size == record->at ||
	       record->offset == UINT32_MAX || record->size == UINT32_MAX ||
	       record->offset + record->size + END64 + LOCATOR == record->at;
}

/*
 * miniz takes the last signature; any other that a reader could take is reported. If the last
 * one is no end of anything, the last that is one is read: what it holds should be seen.
 */
static bool choose_end(struct tail *tail, struct end_record *ret_record, bool *ret_found)
{
	struct fsdp_span bytes = tail->bytes;
	struct end_record chosen = { 0 };
	*ret_found = false;
	for (size_t at = find_signature(bytes, 0); bytes.size - at >= END;
		at = find_signature(bytes, at + 4)) {
		struct end_record record = parse_end(tail, at);
		bool plausible = false;
		if (*ret_found && !is_plausible(tail, &chosen, &plausible))
			return false;
		if (plausible)
			AMBIGUOUS(tail, chosen.at,
				"an earlier end record names a directory of its own: readers may take either");
		if (!plausible || !fits(&chosen) || fits(&record))
			chosen = record;
		*ret_found = true;
	}
	*ret_record = chosen;
	return true;
}

bool fsdp_zip_is_alive(struct fsdp_span head)
{
	return fsdp_span_begins(head, FSDP_SPAN("PK")) ||
	       fsdp_span_begins(head, FSDP_SPAN("\177ELF")) ||
	       fsdp_span_begins(head, FSDP_SPAN("MZ")) ||
	       fsdp_span_begins(head, FSDP_SPAN("#!")) ||
	       (head.size >= 2 && head.data[0] == 0x80 && head.data[1] >= 2 &&
		       head.data[1] <= 5);
}

static void judge_behind(struct tail *tail, const struct end_record *record)
{
	uint64_t begin = record->at + END, left = tail->source->size - begin;
	if (record->comment_size > left)
		AMBIGUOUS(tail, record->at,
			"the end record states %llu bytes of comment, but only %llu follow",
			FSDP_LLU(record->comment_size), FSDP_LLU(left));
	if (left == 0)
		return;
	struct fsdp_span behind =
		fsdp_span(tail->bytes.data + (begin - tail->begin), (size_t)left);
	fsdp_find(tail->findings, FSDP_RULE_ZIP_STRAY_BYTES,
		FSDP_PLACE(.file = tail->file, .offset = begin, .length = left,
			.severity = fsdp_zip_is_alive(behind) ? FSDP_ERROR + 1 : 0),
		"%llu bytes follow the end record%s", FSDP_LLU(left),
		record->comment_size == left ? " as its comment" : "");
}

static void judge_disks(struct tail *tail, const struct end_record *record)
{
	if (record->disk > 1 || record->directory_disk > 1)
		AMBIGUOUS(tail, record->at,
			"the end record states several disks (%llu, %llu)",
			FSDP_LLU(record->disk), FSDP_LLU(record->directory_disk));
	if (record->count_here != record->count)
		AMBIGUOUS(tail, record->at, "two counts of entries: %llu and %llu",
			FSDP_LLU(record->count_here), FSDP_LLU(record->count));
}

static struct end_record parse_end64(
	struct fsdp_span bytes, uint64_t at, uint64_t *ret_rest)
{
	struct fsdp_cursor cursor = fsdp_cursor(bytes);
	fsdp_cursor_skip(&cursor, 4);
	struct end_record record = { .at = at };
	*ret_rest = fsdp_cursor_take_u64le(&cursor);
	fsdp_cursor_skip(&cursor, 4);
	record.disk = fsdp_cursor_take_u32le(&cursor);
	record.directory_disk = fsdp_cursor_take_u32le(&cursor);
	record.count_here = fsdp_cursor_take_u64le(&cursor);
	record.count = fsdp_cursor_take_u64le(&cursor);
	record.size = fsdp_cursor_take_u64le(&cursor);
	record.offset = fsdp_cursor_take_u64le(&cursor);
	return record;
}

/* A plain field that is saturated leaves it to the ZIP64 one. */
static void agree(struct tail *tail, const char *what, uint64_t plain, uint64_t saturated,
	uint64_t wide, uint64_t at)
{
	if (plain != saturated && plain != wide)
		AMBIGUOUS(tail, at,
			"%s is %llu in the end record, but %llu in the ZIP64 one", what,
			FSDP_LLU(plain), FSDP_LLU(wide));
}

/* Takes the place of the plain record, as miniz does, saturated or not. */
static void use_end64(struct tail *tail, struct end_record *record,
	struct fsdp_span bytes, uint64_t at, uint64_t locator)
{
	uint64_t rest, end;
	struct end_record wide = parse_end64(bytes, at, &rest);
	if (rest < END64 - 12 || !fsdp_add(at + 12, rest, &end) || end != locator)
		AMBIGUOUS(tail, at, "the ZIP64 end record does not end at its locator");
	agree(tail, "the disk", record->disk, UINT16_MAX, wide.disk, at);
	agree(tail, "the directory's disk", record->directory_disk, UINT16_MAX,
		wide.directory_disk, at);
	agree(tail, "the disk's count of entries", record->count_here, UINT16_MAX,
		wide.count_here, at);
	agree(tail, "the count of entries", record->count, UINT16_MAX, wide.count, at);
	agree(tail, "the directory's size", record->size, UINT32_MAX, wide.size, at);
	agree(tail, "the directory's offset", record->offset, UINT32_MAX, wide.offset,
		at);
	*record = wide;
}

/* A record right before the locator is found even if the locator points elsewhere. */
static bool find_end64(struct tail *tail, struct end_record *record)
{
	unsigned char buffer[END64];
	struct fsdp_span bytes;
	if (record->at < LOCATOR)
		return true;
	uint64_t locator = record->at - LOCATOR;
	if (!look(tail, locator, LOCATOR, buffer, &bytes))
		return false;
	if (!fsdp_span_begins(bytes, FSDP_SPAN(LOCATOR_MAGIC)))
		return true;
	struct fsdp_cursor cursor = fsdp_cursor(bytes);
	fsdp_cursor_skip(&cursor, 4);
	uint64_t disk = fsdp_cursor_take_u32le(&cursor);
	uint64_t at = fsdp_cursor_take_u64le(&cursor);
	uint64_t disks = fsdp_cursor_take_u32le(&cursor);
	if (disk > 1 || disks > 1)
		AMBIGUOUS(tail, locator, "the ZIP64 locator names several disks");
	if (at < locator && !look(tail, at, END64, buffer, &bytes))
		return false;
	if (at < locator && fsdp_span_begins(bytes, FSDP_SPAN(END64_MAGIC))) {
		use_end64(tail, record, bytes, at, locator);
		return true;
	}
	AMBIGUOUS(tail, locator,
		"the ZIP64 locator points to byte %llu, where no record is",
		FSDP_LLU(at));
	record->at = locator;
	if (locator < END64)
		return true;
	if (!look(tail, locator - END64, END64, buffer, &bytes))
		return false;
	if (fsdp_span_begins(bytes, FSDP_SPAN(END64_MAGIC)))
		use_end64(tail, record, bytes, locator - END64, locator);
	return true;
}

/* Where the directory puts the local header of the first entry. */
static bool first_header(struct tail *tail, uint64_t directory, uint64_t *ret_header)
{
	unsigned char buffer[FSDP_ZIP_CENTRAL_SIZE];
	struct fsdp_span bytes;
	if (!look(tail, directory, sizeof buffer, buffer, &bytes))
		return false;
	struct fsdp_cursor cursor = fsdp_cursor(bytes);
	fsdp_cursor_skip(&cursor, FSDP_ZIP_CENTRAL_SIZE - 4);
	*ret_header = fsdp_cursor_take_u32le(&cursor);
	return true;
}

/*
 * The directory is not where the record says, but ends where it should. Either the
 * offset is wrong, or all offsets are because something was put in front or cut off.
 */
static bool rebase(
	struct tail *tail, const struct end_record *record, struct fsdp_zip_end *end)
{
	uint64_t header, base = end->directory - record->offset;
	bool here, there = false;
	if (!first_header(tail, end->directory, &header) ||
		!has_magic(tail, header, FSDP_ZIP_LOCAL_MAGIC, &here))
		return false;
	if (end->directory < record->offset)
		return here ||
		       fail_unreadable(tail, 0, "bytes are missing in front of the zip");
	if (!has_magic(tail, header + base, FSDP_ZIP_LOCAL_MAGIC, &there))
		return false;
	if (!there)
		return true;
	end->base = base;
	fsdp_find(tail->findings, FSDP_RULE_ZIP_STRAY_BYTES,
		FSDP_PLACE(.file = tail->file, .offset = 0, .length = base,
			.severity = FSDP_ERROR + 1),
		"%llu bytes stand in front of the zip, which its offsets do not count",
		FSDP_LLU(base));
	return true;
}

static bool find_directory(
	struct tail *tail, const struct end_record *record, struct fsdp_zip_end *end)
{
	uint64_t claimed_end = 0;
	*end = (struct fsdp_zip_end){
		.directory = record->offset,
		.directory_end = record->at,
		.size = record->size,
		.count = record->count,
	};
	bool fits = fsdp_add(record->offset, record->size, &claimed_end);
	if (fits && claimed_end == record->at)
		return true;
	AMBIGUOUS(tail, record->at,
		"the end record states a directory at byte %llu of %llu bytes, but the end records begin at byte %llu",
		FSDP_LLU(record->offset), FSDP_LLU(record->size), FSDP_LLU(record->at));
	bool here = false, before = false;
	if (record->offset < record->at &&
		!has_magic(tail, record->offset, FSDP_ZIP_CENTRAL_MAGIC, &here))
		return false;
	if (here)
		return true;
	if (record->size <= record->at && !has_magic(tail, record->at - record->size,
						  FSDP_ZIP_CENTRAL_MAGIC, &before))
		return false;
	if (!before)
		return fail_unreadable(tail, record->offset,
			"the zip's directory is not where its end record says");
	end->directory = record->at - record->size;
	return rebase(tail, record, end);
}

static bool read_end(struct tail *tail, struct fsdp_zip_end *ret_end)
{
	struct end_record record;
	bool found;
	if (!load_tail(tail) || !choose_end(tail, &record, &found))
		return false;
	if (!found)
		return fsdp_zip_fail_cut(tail->source, tail->error);
	judge_behind(tail, &record);
	if (!find_end64(tail, &record))
		return false;
	judge_disks(tail, &record);
	return find_directory(tail, &record, ret_end);
}

bool fsdp_zip_end_read(const struct fsdp_source *source, struct fsdp_span file,
	struct fsdp_findings *findings, struct fsdp_zip_end *ret_end,
	struct fsdp_error **ret_error)
{
	struct tail tail = {
		.source = source,
		.file = file,
		.findings = findings,
		.error = ret_error,
	};
	if (!read_end(&tail, ret_end)) {
		free(tail.owned);
		return false;
	}
	ret_end->tail = tail.owned;
	ret_end->tail_begin = tail.begin;
	return true;
}
