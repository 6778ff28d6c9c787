/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of a zip: entries at the front of a truncated one, the records at the
 * end, the names, and the entries with their defects, alone and together. zip-local.c has
 * the local headers.
 */
#include <stdlib.h>
#include <sys/random.h>

#include "base/names.h"
#include "base/num.h"
#include "io/zip.h"

enum {
	WINDOW = 256 << 10,
	MOST = 64 << 20, /* bytes looked at: a message is not worth more */
	DESCRIPTOR = 24,
};

struct front {
	const struct fsdp_source *source;
	struct fsdp_error **error;
	unsigned char *window;
	uint64_t begin;
	size_t size;
	uint64_t looked_at;
	uint64_t records, end; /* whole ones, and where the last of them ends */
	bool bounded;
};

/* Bytes from `at` on: at least `need` bytes, or all that are left, or none once the limit
 * of read bytes was reached. */
static bool see(
	struct front *front, uint64_t at, size_t need, struct fsdp_span *ret_bytes)
{
	uint64_t left = front->source->size - at;
	need = (size_t)fsdp_min(need, left);
	if (at < front->begin || at + need > front->begin + front->size) {
		front->bounded = front->looked_at >= MOST;
		front->size = front->bounded ? 0 : (size_t)fsdp_min(left, WINDOW);
		front->begin = at;
		front->looked_at += front->size;
		if (!fsdp_source_read(
			    front->source, at, front->window, front->size, front->error))
			return false;
	}
	size_t skip = (size_t)(at - front->begin);
	*ret_bytes = fsdp_span(front->window + skip, front->size - skip);
	return true;
}

/* Length of a descriptor whose stored size equals the bytes before it, or 0. A narrow one
 * taken for a wide one has its other size in the upper half of the first, or, if that is
 * 0, the header that follows in the second. */
static size_t descriptor_size(struct fsdp_span bytes, uint64_t before)
{
	struct fsdp_cursor narrow = fsdp_cursor(bytes), wide = fsdp_cursor(bytes);
	fsdp_cursor_skip(&narrow, 8);
	fsdp_cursor_skip(&wide, 8);
	uint64_t size = fsdp_cursor_read_u64le(&wide);
	uint64_t whole = fsdp_cursor_read_u64le(&wide);
	if (wide.ok && size == before && (whole >> 32 == 0 || size >> 32 != 0))
		return wide.at;
	size = fsdp_cursor_read_u32le(&narrow);
	fsdp_cursor_skip(&narrow, 4);
	return narrow.ok && size == before ? narrow.at : 0;
}

static bool find_descriptor(struct front *front, uint64_t data, uint64_t *ret_end)
{
	uint64_t at = data;
	for (;;) {
		struct fsdp_span bytes;
		if (!see(front, at, DESCRIPTOR, &bytes))
			return false;
		const unsigned char *hit =
			memmem(bytes.data, bytes.size, FSDP_ZIP_DESCRIPTOR_MAGIC, 4);
		size_t skip = hit != NULL      ? (size_t)(hit - bytes.data)
			      : bytes.size > 3 ? bytes.size - 3
					       : 0;
		if (hit == NULL && (skip == 0 || at + bytes.size == front->source->size))
			return true;
		at += skip;
		if (hit == NULL)
			continue;
		if (!see(front, at, DESCRIPTOR, &bytes))
			return false;
		size_t size = descriptor_size(bytes, at - data);
		if (size != 0) {
			*ret_end = at + size;
			return true;
		}
		at += 4;
	}
}

/* *ret_end stays 0 if no whole record begins here. */
static bool pass_record(struct front *front, uint64_t *ret_end)
{
	struct fsdp_span bytes;
	if (!see(front, front->end, FSDP_ZIP_LOCAL_SIZE, &bytes))
		return false;
	if (!fsdp_span_begins(bytes, FSDP_SPAN(FSDP_ZIP_LOCAL_MAGIC)))
		return true;
	struct fsdp_cursor cursor = fsdp_cursor(bytes);
	fsdp_cursor_skip(&cursor, 6);
	bool described = (fsdp_cursor_read_u16le(&cursor) & 8) != 0;
	fsdp_cursor_skip(&cursor, 10);
	uint64_t stored_size = fsdp_cursor_read_u32le(&cursor);
	fsdp_cursor_skip(&cursor, 4);
	uint64_t data = front->end + FSDP_ZIP_LOCAL_SIZE;
	data += fsdp_cursor_read_u16le(&cursor);
	data += fsdp_cursor_read_u16le(&cursor);
	if (!cursor.ok || data > front->source->size)
		return true;
	if (described)
		return find_descriptor(front, data, ret_end);
	if (stored_size <= front->source->size - data)
		*ret_end = data + stored_size;
	return true;
}

static bool walk(struct front *front)
{
	for (;;) {
		uint64_t end = 0;
		if (!pass_record(front, &end))
			return false;
		if (end == 0)
			return true;
		front->records++;
		front->end = end;
	}
}

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
	unsigned char *owned; /* NULL if in memory: used without a copy */
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

/* False only on a system error; bytes outside read as absent. */
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

/* Whether the directory is at the position of the record: before it, or before ZIP64
 * records that start with the fields it leaves to them. */
static bool fits(const struct end_record *record)
{
	return record->offset + record->size == record->at ||
	       record->offset == UINT32_MAX || record->size == UINT32_MAX ||
	       record->offset + record->size + END64 + LOCATOR == record->at;
}

/*
 * miniz takes the last signature; any other that a reader could take is reported. If the
 * last one is not a valid end record, the last valid one is read, so that its contents
 * are visible.
 */
static bool choose_end(struct tail *tail, struct end_record *ret_record, bool *ret_found)
{
	struct fsdp_span bytes = tail->bytes;
	struct end_record chosen = { 0 };
	*ret_found = false;
	for (size_t at = find_signature(bytes, 0); bytes.size - at >= END;
		at = find_signature(bytes, at + 4)) {
		struct fsdp_cursor cursor =
			fsdp_cursor(fsdp_span(tail->bytes.data + at, END));
		fsdp_cursor_skip(&cursor, 4);
		struct end_record record = { .at = tail->begin + at };
		record.disk = fsdp_cursor_read_u16le(&cursor);
		record.directory_disk = fsdp_cursor_read_u16le(&cursor);
		record.count_here = fsdp_cursor_read_u16le(&cursor);
		record.count = fsdp_cursor_read_u16le(&cursor);
		record.size = fsdp_cursor_read_u32le(&cursor);
		record.offset = fsdp_cursor_read_u32le(&cursor);
		record.comment_size = fsdp_cursor_read_u16le(&cursor);
		bool plausible = false;
		if (*ret_found && !is_plausible(tail, &chosen, &plausible))
			return false;
		if (plausible)
			AMBIGUOUS(tail, chosen.at,
				"an earlier end record has another directory: readers may use either");
		if (!plausible || !fits(&chosen) || fits(&record))
			chosen = record;
		*ret_found = true;
	}
	*ret_record = chosen;
	return true;
}

/* Whether bytes that belong to no member could do something where they are found. */
static bool zip_is_alive(struct fsdp_span head)
{
	return fsdp_span_begins(head, FSDP_SPAN("PK")) ||
	       fsdp_span_begins(head, FSDP_SPAN("\177ELF")) ||
	       fsdp_span_begins(head, FSDP_SPAN("MZ")) ||
	       fsdp_span_begins(head, FSDP_SPAN("#!")) ||
	       (head.size >= 2 && head.data[0] == 0x80 && head.data[1] >= 2 &&
		       head.data[1] <= 5);
}

static void check_tail(struct tail *tail, const struct end_record *record)
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
			.severity = zip_is_alive(behind) ? FSDP_ERROR + 1 : 0),
		"%llu bytes follow the end record%s", FSDP_LLU(left),
		record->comment_size == left ? " as its comment" : "");
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
	struct fsdp_cursor cursor = fsdp_cursor(bytes);
	fsdp_cursor_skip(&cursor, 4);
	struct end_record wide = { .at = at };
	rest = fsdp_cursor_read_u64le(&cursor);
	fsdp_cursor_skip(&cursor, 4);
	wide.disk = fsdp_cursor_read_u32le(&cursor);
	wide.directory_disk = fsdp_cursor_read_u32le(&cursor);
	wide.count_here = fsdp_cursor_read_u64le(&cursor);
	wide.count = fsdp_cursor_read_u64le(&cursor);
	wide.size = fsdp_cursor_read_u64le(&cursor);
	wide.offset = fsdp_cursor_read_u64le(&cursor);
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
	uint64_t disk = fsdp_cursor_read_u32le(&cursor);
	uint64_t at = fsdp_cursor_read_u64le(&cursor);
	uint64_t disks = fsdp_cursor_read_u32le(&cursor);
	if (disk > 1 || disks > 1)
		AMBIGUOUS(tail, locator, "the ZIP64 locator names several disks");
	if (at < locator && !look(tail, at, END64, buffer, &bytes))
		return false;
	if (at < locator && fsdp_span_begins(bytes, FSDP_SPAN(END64_MAGIC))) {
		use_end64(tail, record, bytes, at, locator);
		return true;
	}
	AMBIGUOUS(tail, locator,
		"the ZIP64 locator points to byte %llu, but no record is there",
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

/*
 * The directory is not where the record says, but ends where it should. Either the
 * offset is wrong, or all offsets are because something was put before it or removed.
 */
static bool rebase(
	struct tail *tail, const struct end_record *record, struct fsdp_zip_end *end)
{
	uint64_t header, base = end->directory - record->offset;
	bool here, there = false;
	/* Where the directory puts the local header of the first entry. */
	uint64_t directory = end->directory;
	unsigned char buffer[FSDP_ZIP_CENTRAL_SIZE];
	struct fsdp_span bytes;
	if (!look(tail, directory, sizeof buffer, buffer, &bytes))
		return false;
	struct fsdp_cursor cursor = fsdp_cursor(bytes);
	fsdp_cursor_skip(&cursor, FSDP_ZIP_CENTRAL_SIZE - 4);
	header = fsdp_cursor_read_u32le(&cursor);
	if (!has_magic(tail, header, FSDP_ZIP_LOCAL_MAGIC, &here))
		return false;
	if (end->directory < record->offset)
		return here ||
		       fail_unreadable(tail, 0, "bytes are missing before the zip");
	if (!has_magic(tail, header + base, FSDP_ZIP_LOCAL_MAGIC, &there))
		return false;
	if (!there)
		return true;
	end->base = base;
	fsdp_find(tail->findings, FSDP_RULE_ZIP_STRAY_BYTES,
		FSDP_PLACE(.file = tail->file, .offset = 0, .length = base,
			.severity = FSDP_ERROR + 1),
		"%llu bytes precede the zip, which its offsets do not count",
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
			"the zip's directory is not at the offset in its end record");
	end->directory = record->at - record->size;
	return rebase(tail, record, end);
}

static bool read_end(struct tail *tail, struct fsdp_zip_end *ret_end)
{
	struct end_record record;
	bool found;
	if (!load_tail(tail) || !choose_end(tail, &record, &found))
		return false;
	if (!found) {
		/* For a file without an end record: always false; the message says how
		 * much of its front is whole. */
		struct front front = { .source = tail->source,
			.error = tail->error,
			.window = malloc(WINDOW) };
		if (front.window == NULL)
			return fsdp_fail_memory(tail->error);
		bool walked = walk(&front);
		free(front.window);
		if (!walked)
			return false;
		fsdp_fail_rule(tail->error, FSDP_ERROR_DAMAGED, "FI1040", FSDP_UNKNOWN,
			"file is truncated after %llu bytes: no zip directory at the end (%s%llu complete record%s in the first %llu bytes)",
			FSDP_LLU(tail->source->size), front.bounded ? "at least " : "",
			FSDP_LLU(front.records), front.records == 1 ? "" : "s",
			FSDP_LLU(front.end));
		return fsdp_error_add_hint(tail->error, "copy this file again");
	}
	check_tail(tail, &record);
	if (!find_end64(tail, &record))
		return false;
	if (record.disk > 1 || record.directory_disk > 1)
		AMBIGUOUS(tail, record.at,
			"the end record states several disks (%llu, %llu)",
			FSDP_LLU(record.disk), FSDP_LLU(record.directory_disk));
	if (record.count_here != record.count)
		AMBIGUOUS(tail, record.at, "two counts of entries: %llu and %llu",
			FSDP_LLU(record.count_here), FSDP_LLU(record.count));
	return find_directory(tail, &record, ret_end);
}

/*
 * The names of a zip's members: which are unsafe, which are alike, and how to find one.
 *
 * One pass hashes all names with ASCII case folded, eight bytes at a time, and looks on
 * the way whether any byte needs a second look. Only a zip that has names which case
 * alone keeps apart is hashed again, by the exact bytes: a chain of equal hashes would
 * make look-ups quadratic.
 */

enum { NAME_MOST = 4096, BATCH = 32 };

struct indexer {
	struct fsdp_zip *zip;
	struct fsdp_span file;
	struct fsdp_findings *findings;
};

#define FIND_NAME(indexer, rule, member_, ...)                                 \
	fsdp_find((indexer)->findings, FSDP_RULE_##rule,                       \
		FSDP_PLACE(.file = (indexer)->file, .member = (member_)->name, \
			.offset = (member_)->header),                          \
		__VA_ARGS__)

/* Decodes one character of UTF-8; 0 bytes long if it is not well formed. */
static size_t decode(struct fsdp_span text, uint32_t *ret_character)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned char lead = text.data[0];
	size_t size = lead < 0x80                   ? 1
		      : lead >= 0xc2 && lead < 0xe0 ? 2
		      : lead >= 0xe0 && lead < 0xf0 ? 3
		      : lead >= 0xf0 && lead < 0xf5 ? 4
						    : 0;
	if (size == 0 || size > text.size)
		return 0;
	uint32_t character = size == 1 ? lead : lead & (0x7fu >> size);
	for (size_t i = 1; i < size; i++) {
		if ((text.data[i] & 0xc0) != 0x80)
			return 0;
		character = character << 6 | (text.data[i] & 0x3f);
	}
	if (character < least[size] || character > 0x10ffff ||
		(character >= 0xd800 && character < 0xe000))
		return 0;
	*ret_character = character;
	return size;
}

static const char *what_is_hostile(struct fsdp_span name)
{
	static const uint32_t invisible[][2] = {
		{ 0x00, 0x1f },
		{ 0x7f, 0x9f },
		{ 0x61c, 0x61c },
		{ 0x200b, 0x200f },
		{ 0x2028, 0x202e },
		{ 0x2060, 0x2069 },
		{ 0xfeff, 0xfeff },
		{ 0xe0000, 0xe007f },
	};
	if (name.size > NAME_MOST)
		return "its name has more than 4096 bytes";
	while (name.size != 0) {
		uint32_t character;
		size_t size = decode(name, &character);
		if (size == 0)
			return "its name is not valid UTF-8";
		for (size_t i = 0; i < FSDP_COUNT(invisible); i++)
			if (character >= invisible[i][0] && character <= invisible[i][1])
				return "its name contains control or invisible characters";
		name = fsdp_span(name.data + size, name.size - size);
	}
	return NULL;
}

static bool is_letter(unsigned char byte)
{
	return (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z';
}

static const char *what_is_unsafe(struct fsdp_span name)
{
	if (name.size == 0)
		return "its name is empty";
	if (name.data[0] == '/')
		return "its name is an absolute path";
	if (name.size >= 2 && name.data[1] == ':' && is_letter(name.data[0]))
		return "its name begins with a drive";
	if (memchr(name.data, '\0', name.size) != NULL)
		return "its name contains a zero byte";
	size_t begin = 0;
	for (size_t i = 0; i <= name.size; i++) {
		if (i < name.size && name.data[i] != '/' && name.data[i] != '\\')
			continue;
		if (i - begin == 2 && memcmp(name.data + begin, "..", 2) == 0)
			return "its name leads out of its directory";
		begin = i + 1;
	}
	if (memchr(name.data, '\\', name.size) != NULL)
		return "its name contains a backslash";
	return NULL;
}

/* Eight bytes at a time. Bytes are compared in parallel: a lane's high bit is the answer.
 */
#define LANES(byte) (UINT64_C(0x0101010101010101) * (byte))
#define HIGH LANES(0x80)

/* Lanes below 0x80 that are at least `byte`. */
static inline uint64_t at_least(uint64_t word, unsigned byte)
{
	return ((word & ~HIGH) + LANES(0x80 - byte)) & ~word & HIGH;
}

static inline uint64_t equal_to(uint64_t word, unsigned byte)
{
	uint64_t apart = word ^ LANES(byte);
	return ~(((apart & ~HIGH) + ~HIGH) | apart) & HIGH;
}

static inline uint64_t lower(uint64_t word)
{
	return word | (at_least(word, 'A') & ~at_least(word, 'Z' + 1)) >> 2;
}

struct digest {
	uint64_t hash;
	bool suspect;
};

static inline struct digest digest_name(
	const struct fsdp_zip_index *index, struct fsdp_span name)
{
	const unsigned char *text = name.data;
	size_t left = name.size;
	uint64_t hash = index->seed[0] ^ name.size, suspect = 0;
	while (left != 0) {
		uint64_t word = LANES('/');
		size_t part = left < sizeof word ? left : sizeof word;
		if (part == sizeof word)
			memcpy(&word, text, sizeof word);
		else
			memcpy(&word, text, part);
		/* Whether one of the bytes needs a second look: none of them does in
		 * "archive/data/7". */
		suspect |= (~at_least(word, 0x20) | equal_to(word, 0x7f) |
				   equal_to(word, '\\') | equal_to(word, '.') |
				   equal_to(word, ':')) &
			   HIGH;
		hash = fsdp_mix(
			hash ^ (index->folded ? lower(word) : word), index->seed[1]);
		text += part;
		left -= part;
	}
	return (struct digest){
		.hash = fsdp_mix(hash, index->seed[2]),
		.suspect = suspect != 0 || name.size == 0 || name.size > NAME_MOST ||
			   name.data[0] == '/',
	};
}

static bool equal_folded(struct fsdp_span a, struct fsdp_span b)
{
	if (a.size != b.size)
		return false;
	for (size_t i = 0; i < a.size; i++) {
		unsigned char x = a.data[i], y = b.data[i];
		if (x != y && ((x ^ y) != 0x20 || !is_letter(x)))
			return false;
	}
	return true;
}

/* A slot holds a member's number + 1 and, above it, as much of its hash as fits. */
static inline uint32_t slot_tag(const struct fsdp_zip_index *index, uint64_t hash)
{
	return index->bits == 32 ? 0
				 : (uint32_t)(hash >> 32) >> index->bits << index->bits;
}

static inline uint32_t number_mask(const struct fsdp_zip_index *index)
{
	return UINT32_MAX >> (32 - index->bits);
}

/* The slot of this name, or the free one where it belongs. */
static inline uint32_t *find_slot(
	const struct fsdp_zip *zip, struct fsdp_span name, uint64_t hash)
{
	const struct fsdp_zip_index *index = &zip->index;
	uint32_t tag = slot_tag(index, hash), numbers = number_mask(index);
	for (size_t at = hash & index->mask;; at = (at + 1) & index->mask) {
		uint32_t slot = index->slots[at];
		if (slot == 0)
			return &index->slots[at];
		if ((slot & ~numbers) != tag)
			continue;
		struct fsdp_span other = fsdp_zip_member(zip, (slot & numbers) - 1)->name;
		if (index->folded ? equal_folded(name, other)
				  : fsdp_span_equal(name, other))
			return &index->slots[at];
	}
}

/* In batches, so that the memory of the slots is on its way while names are hashed. */
static void index_members(struct indexer *indexer, bool *ret_variants)
{
	struct fsdp_zip_index *index = &indexer->zip->index;
	size_t count = indexer->zip->members.count;
	uint64_t hashes[BATCH];
	for (size_t begin = 0; begin < count; begin += BATCH) {
		size_t size = count - begin < BATCH ? count - begin : BATCH;
		for (size_t i = 0; i < size; i++) {
			const struct fsdp_zip_member *member =
				fsdp_zip_member(indexer->zip, begin + i);
			struct digest digest = digest_name(index, member->name);
			hashes[i] = digest.hash;
			__builtin_prefetch(&index->slots[digest.hash & index->mask], 1);
			if (digest.suspect && index->folded) {
				const char *unsafe = what_is_unsafe(member->name);
				const char *hostile = what_is_hostile(member->name);
				if (unsafe != NULL)
					FIND_NAME(indexer, UNSAFE_NAME, member, "%s",
						unsafe);
				if (hostile != NULL)
					FIND_NAME(indexer, HOSTILE_NAME, member, "%s",
						hostile);
			}
		}
		for (size_t i = 0; i < size; i++) {
			/* Of members with one name the last is kept; *ret_variants: some
			 * names differ only in case. */
			size_t number = begin + i;
			uint64_t hash = hashes[i];
			struct fsdp_zip *zip = indexer->zip;
			const struct fsdp_zip_member *member =
				fsdp_zip_member(zip, number);
			uint32_t *slot = find_slot(zip, member->name, hash);
			if (*slot != 0 && zip->index.folded) {
				const struct fsdp_zip_member *first = fsdp_zip_member(
					zip, (*slot & number_mask(&zip->index)) - 1);
				bool same = fsdp_span_equal(first->name, member->name);
				*ret_variants |= !same;
				FIND_NAME(indexer, ZIP_DUPLICATE, member,
					same ? "a second member of this name; the other begins at byte %llu"
					     : "another member's name differs only in case; it begins at byte %llu",
					FSDP_LLU(first->header));
			}
			*slot = slot_tag(&zip->index, hash) | (uint32_t)(number + 1);
		}
	}
}

/*
 * Checks all names and makes the index in `memory`, which follows the names and has at
 * least 46 bytes per member: the index needs at most 12, a list of numbers 4 more.
 * Returns the used bytes.
 */
static size_t zip_index_make(struct fsdp_zip *zip, unsigned char *memory,
	struct fsdp_span file, struct fsdp_findings *findings)
{
	struct fsdp_zip_index *index = &zip->index;
	struct indexer indexer = { zip, file, findings };
	size_t count = zip->members.count, slots = 2;
	while (slots < count + count / 2)
		slots *= 2;
	index->bits = 1;
	while (count >> index->bits != 0)
		index->bits++;
	size_t padding = -(uintptr_t)memory & (sizeof *index->slots - 1);
	index->slots = (uint32_t *)(void *)(memory + padding);
	index->mask = slots - 1;
	/* Weak when the system has no better: only speed is at stake. */
	uint64_t weak = (uint64_t)(uintptr_t)index;
	size_t size = sizeof index->seed;
	if (getrandom(index->seed, size, GRND_NONBLOCK) != (ssize_t)size)
		for (size_t i = 0; i < 3; i++)
			index->seed[i] = weak * UINT64_C(0x9E3779B97F4A7C15) + i;
	index->seed[1] |= UINT64_C(1) << 63 | 1;
	index->seed[2] |= UINT64_C(1) << 63 | 1;
	index->folded = true;
	memset(index->slots, 0, slots * sizeof *index->slots);
	bool variants = false;
	index_members(&indexer, &variants);
	if (variants) {
		index->folded = false;
		memset(index->slots, 0, slots * sizeof *index->slots);
		index_members(&indexer, &variants);
	}
	return padding + slots * sizeof *index->slots;
}

const struct fsdp_zip_member *fsdp_zip_find(
	const struct fsdp_zip *zip, struct fsdp_span name)
{
	if (zip->members.count == 0)
		return NULL;
	struct digest digest = digest_name(&zip->index, name);
	uint32_t slot = *find_slot(zip, name, digest.hash);
	if (slot == 0)
		return NULL;
	const struct fsdp_zip_member *member =
		fsdp_zip_member(zip, (slot & number_mask(&zip->index)) - 1);
	return fsdp_span_equal(member->name, name) ? member : NULL;
}

/*
 * The directory of a zip: its entries, and their defects, alone and together. zip.c has
 * the records after it, zip-local.c the headers before it, zip.c the names.
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
 * The directory is read at once. Parsing moves the names together at its front; the freed
 * space, at least 46 bytes per entry, holds the index afterwards.
 */

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

/* State that only the check of one entry needs. */
struct checked_entry {
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

bool fsdp_zip_next_extra(
	struct fsdp_cursor *area, uint16_t *ret_id, struct fsdp_cursor *ret_field)
{
	if (fsdp_cursor_left(area) < 4)
		return false;
	*ret_id = fsdp_cursor_read_u16le(area);
	uint16_t size = fsdp_cursor_read_u16le(area);
	*ret_field = fsdp_cursor(fsdp_cursor_read_span(area, size));
	return area->ok;
}

/* Absent: the field is broken. */
static struct fsdp_span unicode_path(struct fsdp_cursor field)
{
	fsdp_cursor_skip(&field, 5); /* version, CRC of the plain name */
	struct fsdp_span name = fsdp_cursor_read_span(&field, fsdp_cursor_left(&field));
	return field.ok ? name : (struct fsdp_span){ 0 };
}

bool fsdp_zip_same_unicode_path(
	struct fsdp_cursor field, const struct fsdp_zip_member *member)
{
	struct fsdp_span name = unicode_path(field);
	return name.data != NULL && fsdp_span_equal(name, member->name);
}

static void parse_extra(struct reader *reader, struct fsdp_zip_member *member,
	struct checked_entry *entry)
{
	struct fsdp_cursor cursor = fsdp_cursor(entry->extra);
	struct fsdp_cursor field;
	uint16_t id;
	bool damaged = false, zip64 = false;
	while (fsdp_zip_next_extra(&cursor, &id, &field)) {
		if (id == EXTRA_ZIP64 && !zip64) {
			zip64 = true;
			if (member->size == UINT32_MAX)
				member->size = fsdp_cursor_read_u64le(&field);
			if (member->stored_size == UINT32_MAX)
				member->stored_size = fsdp_cursor_read_u64le(&field);
			if (member->header == UINT32_MAX)
				member->header = fsdp_cursor_read_u64le(&field);
			if (entry->disk == UINT16_MAX)
				entry->disk = fsdp_cursor_read_u32le(&field);
			damaged = damaged || !field.ok;
		} else if (id == FSDP_ZIP_UNICODE_PATH &&
			   !fsdp_zip_same_unicode_path(field, member)) {
			char room[FSDP_SHOWN];
			FIND(reader, ZIP_NAME_DIFFERS, member,
				"an extra field gives the member another name: %s",
				fsdp_shown(unicode_path(field), room));
		}
	}
	if (damaged || !cursor.ok)
		FIND(reader, ZIP_FIELDS, member,
			"the extra fields in the directory are longer than their area");
}

static bool is_ordinary_kind(uint32_t attributes)
{
	enum { FORMAT = 0170000, REGULAR = 0100000 };
	uint32_t mode = attributes >> 16 & FORMAT;
	return mode == 0 || mode == REGULAR;
}

static void check_kind(
	struct reader *reader, const struct fsdp_zip_member *member, uint32_t attributes)
{
	if (member->size == 0 && member->stored_size == 0)
		return;
	if ((attributes & ATTRIBUTE_DIRECTORY) != 0)
		FIND(reader, ZIP_ENTRY_TYPE, member,
			"marked as a directory, but it has %llu bytes: PyTorch leaves its buffer unwritten",
			FSDP_LLU(member->size));
	else if (member->name.size != 0 &&
		 member->name.data[member->name.size - 1] == '/')
		FIND(reader, ZIP_ENTRY_TYPE, member,
			"named like a directory, but it has %llu bytes",
			FSDP_LLU(member->size));
	else if (!is_ordinary_kind(attributes))
		FIND(reader, ZIP_ENTRY_TYPE, member,
			"marked as a link, a directory or a device, but it has %llu bytes",
			FSDP_LLU(member->size));
	if (member->stored_size == 0 && member->size != 0)
		FIND(reader, ZIP_ENTRY_TYPE, member,
			"states %llu bytes, but stores 0: PyTorch leaves its buffer unwritten",
			FSDP_LLU(member->size));
}

static void check_size(struct reader *reader, const struct fsdp_zip_member *member)
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

/* The ordinary entry: nothing to check. One test instead of ten, a million times. */
static inline bool is_plain(
	const struct fsdp_zip_member *member, const struct checked_entry *entry)
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
static inline bool keep(struct reader *reader, struct fsdp_zip_member *member,
	struct checked_entry *entry)
{
	if (entry->extra.size != 0)
		parse_extra(reader, member, entry);
	if (reader->end->base != 0 &&
		!fsdp_add(member->header, reader->end->base, &member->header))
		member->header = UINT64_MAX;
	if (!is_plain(member, entry)) {
		if ((member->flags & FSDP_ZIP_UNREADABLE) != 0)
			FIND(reader, ZIP_FIELDS, member,
				"encrypted or patched (flags %#06x): PyTorch cannot read it",
				member->flags);
		if (entry->disk > 1)
			FIND(reader, ZIP_DIRECTORY_AMBIGUOUS, member,
				"states that it begins on disk %lu",
				(unsigned long)entry->disk);
		check_size(reader, member);
		check_kind(reader, member, entry->attributes);
	}
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

static inline bool parse_entry(struct reader *reader)
{
	struct fsdp_cursor fixed =
		fsdp_cursor(fsdp_span(reader->bytes + reader->at, FSDP_ZIP_CENTRAL_SIZE));
	struct fsdp_zip_member member = { 0 };
	struct checked_entry entry = { 0 };
	fsdp_cursor_skip(&fixed, 8);
	member.flags = fsdp_cursor_read_u16le(&fixed);
	member.method = fsdp_cursor_read_u16le(&fixed);
	fsdp_cursor_skip(&fixed, 4);
	member.crc = fsdp_cursor_read_u32le(&fixed);
	member.stored_size = fsdp_cursor_read_u32le(&fixed);
	member.size = fsdp_cursor_read_u32le(&fixed);
	size_t name_size = fsdp_cursor_read_u16le(&fixed);
	size_t extra_size = fsdp_cursor_read_u16le(&fixed);
	size_t comment_size = fsdp_cursor_read_u16le(&fixed);
	entry.disk = fsdp_cursor_read_u16le(&fixed);
	fsdp_cursor_skip(&fixed, 2);
	entry.attributes = fsdp_cursor_read_u32le(&fixed);
	member.header = fsdp_cursor_read_u32le(&fixed);
	struct fsdp_cursor rest =
		fsdp_cursor(fsdp_span(reader->bytes + reader->at + FSDP_ZIP_CENTRAL_SIZE,
			reader->size - reader->at - FSDP_ZIP_CENTRAL_SIZE));
	member.name = fsdp_cursor_read_span(&rest, name_size);
	entry.extra = fsdp_cursor_read_span(&rest, extra_size);
	fsdp_cursor_skip(&rest, comment_size);
	if (!rest.ok)
		return fail_entry(reader, "an entry of the zip's directory is truncated");
	reader->at += FSDP_ZIP_CENTRAL_SIZE + rest.at;
	return keep(reader, &member, &entry);
}

static bool parse_entries(struct reader *reader)
{
	const struct fsdp_vec *members = &reader->zip->members;
	uint64_t most = fsdp_limit(reader->limits, FSDP_LIMIT_MEMBERS);
	if (most >= UINT32_MAX)
		most = UINT32_MAX - 1;
	while (reader->size - reader->at >= FSDP_ZIP_CENTRAL_SIZE &&
		memcmp(reader->bytes + reader->at, FSDP_ZIP_CENTRAL_MAGIC, 4) == 0) {
		if (members->count >= most)
			return fsdp_fail_limit(reader->error, FSDP_LIMIT_MEMBERS, most);
		if (!parse_entry(reader))
			return false;
	}
	if (members->count < reader->end->count &&
		reader->at < fsdp_min(reader->end->size, reader->size))
		return fail_entry(reader,
			"the zip's directory contains bytes that are not an entry");
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
			"the end record has %llu bytes for the directory, but its entries have %llu",
			FSDP_LLU(end->size), FSDP_LLU(reader->at));
	/* What all members declare that they would inflate to. */
	most = fsdp_limit(reader->limits, FSDP_LIMIT_INFLATE_BYTES);
	return reader->inflated <= most ||
	       fsdp_fail_limit(reader->error, FSDP_LIMIT_INFLATE_BYTES, most);
}

/* ---- ranges: no two members share a byte ---- */

static int compare_headers(const void *left, const void *right, void *context)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	uint64_t x = fsdp_zip_member(context, a)->header,
		 y = fsdp_zip_member(context, b)->header;
	return x != y ? (x < y ? -1 : 1) : (a > b) - (a < b);
}

static void check_ranges(struct reader *reader)
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
		uint64_t end, directory = reader->end->directory;
		if (before != NULL && member->header == before->header)
			FIND(reader, ZIP_OVERLAP, member,
				"two entries of the directory share its header");
		else if (member->header < reach)
			FIND(reader, ZIP_OVERLAP, member,
				"begins before byte %llu, where the member before it ends",
				FSDP_LLU(reach));
		if (!fsdp_add(member->header, FSDP_ZIP_LOCAL_SIZE + member->name.size,
			    &end) ||
			!fsdp_add(end, member->stored_size, &end))
			end = UINT64_MAX;
		if (end > directory)
			FIND(reader, ZIP_OVERLAP, member,
				"ends beyond byte %llu, where the directory begins",
				FSDP_LLU(directory));
		if (end > reach)
			reach = end;
		before = member;
	}
	reader->reach = reach;
}

/* In most files it is within the bytes read to find it. */
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
	if (!load_directory(reader, source) || !parse_entries(reader))
		return false;
	zip->directory_offset = end->directory;
	zip->directory_size = reader->at;
	zip->end_size = source->size - end->directory - reader->at;
	zip->no_crc = reader->has_bytes && !reader->has_crc;
	if (zip->members.count == 0)
		return true;
	reader->names += zip_index_make(
		zip, reader->bytes + reader->names, reader->file, reader->findings);
	if (!reader->in_order || reader->reach > end->directory)
		check_ranges(reader);
	zip->members_end = reader->reach;
	const struct fsdp_zip_member *first =
		fsdp_zip_member(zip, zip->by_header != NULL ? zip->by_header[0] : 0);
	if (reader->end->base == 0 && first->header != 0 &&
		first->header <= zip->source.size)
		fsdp_find(reader->findings, FSDP_RULE_ZIP_STRAY_BYTES,
			FSDP_PLACE(.file = reader->file, .offset = 0,
				.length = first->header, .severity = FSDP_ERROR + 1),
			"%llu bytes precede the first member", FSDP_LLU(first->header));
	return true;
}

bool fsdp_zip_open(const struct fsdp_source *source, struct fsdp_arena *arena,
	const struct fsdp_limits *limits, struct fsdp_span file,
	struct fsdp_findings *findings, struct fsdp_zip *ret_zip,
	struct fsdp_error **ret_error)
{
	struct fsdp_zip_end end = { 0 };
	struct tail tail = {
		.source = source,
		.file = file,
		.findings = findings,
		.error = ret_error,
	};
	if (!read_end(&tail, &end)) {
		free(tail.owned);
		return false;
	}
	end.tail = tail.owned;
	end.tail_begin = tail.begin;
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
	fsdp_arena_hold(arena);
	bool ok = read_directory(&reader, source, arena);
	fsdp_arena_resume(arena);
	free(end.tail);
	if (ok)
		*ret_zip = zip;
	return ok;
}
