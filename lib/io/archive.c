/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tar and compressed files through libarchive, which no other file uses. Only the formats
 * of this table are enabled: no program is run, nothing is unpacked twice, nothing is
 * written to disk.
 *
 *	gzip   1f 8b 08             xz     fd "7zXZ" 00
 *	zstd   28 b5 2f fd          bzip2  "BZh" '1'-'9', then 31 41 59 26 53 59, or
 *	lz4    04 22 4d 18                 17 72 45 38 50 90 for nothing compressed
 *	lzma   5d, the size of a dictionary (a power of 2) in 4 bytes, that of the data in 8
 *	tar    at 148 six octal digits: the sum of all 512 bytes with these eight
 *	       as spaces
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "io/archive.h"
#include "io/directory.h"

enum { ZSTD_HEADER = 4 + 1 + 4 + 8, XZ_FILTER = 3, XZ_LARGEST = 40 };

/* `size` bytes decide; they begin with the magic. */
struct fsdp_reach_look {
	const char *magic;
	size_t magic_size, size;
	uint64_t (*reach)(const unsigned char *at);
};

static uint64_t zstd_window(const unsigned char *at)
{
	static const unsigned char number_sizes[] = { 0, 1, 2, 4 },
				   content_sizes[] = { 1, 2, 4, 8 };
	unsigned flags = at[4], window = at[5];
	if ((flags & 0x20) == 0) {
		uint64_t base = UINT64_C(1) << (10 + (window >> 3));
		return base + base / 8 * (window & 7);
	}
	size_t skip = 5 + number_sizes[flags & 3], count = content_sizes[flags >> 6];
	uint64_t content = count == 2 ? 256 : 0;
	for (size_t i = 0; i < count; i++)
		content += (uint64_t)at[skip + i] << (8 * i);
	return content;
}

static uint64_t xz_dictionary(const unsigned char *at)
{
	unsigned bits = at[2];
	if (bits > XZ_LARGEST)
		return 0;
	return bits == XZ_LARGEST ? UINT32_MAX
				  : (UINT64_C(2) | (bits & 1)) << (bits / 2 + 11);
}

const struct fsdp_reach_look fsdp_reach_zstd = { "\x28\xb5\x2f\xfd", 4, ZSTD_HEADER,
	zstd_window };
const struct fsdp_reach_look fsdp_reach_xz = { "\x21\x01", 2, XZ_FILTER, xz_dictionary };

static void search(struct fsdp_reach *reach, struct fsdp_span bytes)
{
	const struct fsdp_reach_look *look = reach->look;
	const unsigned char *at = bytes.data, *end = bytes.data + bytes.size;
	for (;; at++) {
		at = memmem(at, (size_t)(end - at), look->magic, look->magic_size);
		if (at == NULL || (size_t)(end - at) < look->size)
			return;
		uint64_t found = look->reach(at);
		if (found > reach->most)
			reach->most = found;
	}
}

/* A pattern may cross from one block into the next: the seam is searched separately.
 * After the last truncated header hardly a byte is left to unpack. */
void fsdp_reach_see(struct fsdp_reach *reach, struct fsdp_span bytes)
{
	unsigned char seam[2 * sizeof reach->tail];
	if (reach->look == NULL || bytes.size == 0)
		return;
	size_t most = reach->look->size - 1, part = (size_t)fsdp_min(bytes.size, most);
	size_t size = reach->tail_size + part;
	memcpy(seam, reach->tail, reach->tail_size);
	memcpy(seam + reach->tail_size, bytes.data, part);
	search(reach, fsdp_span(seam, size));
	search(reach, bytes);
	const unsigned char *end = seam + size;
	if (bytes.size > most) {
		end = bytes.data + bytes.size;
		size = most;
	}
	reach->tail_size = (size_t)fsdp_min(size, most);
	memcpy(reach->tail, end - reach->tail_size, reach->tail_size);
}

bool fsdp_reach_charge(struct fsdp_reach *reach, uint64_t unpacked)
{
	uint64_t kept = fsdp_min(reach->most, unpacked);
	if (kept <= reach->charged)
		return true;
	if (!fsdp_budget_spend(reach->budget, (size_t)(kept - reach->charged)))
		return false;
	reach->charged = kept;
	return true;
}

void fsdp_reach_done(struct fsdp_reach *reach)
{
	fsdp_budget_return(reach->budget, (size_t)reach->charged);
	reach->charged = 0;
}

enum {
	BLOCK = 256 << 10,
	TAR_HEADER = 512,
	TAR_SUM = 148,
	BEHIND_MOST = 1 << 20, /* searched after the end of a tar */
};

struct kind {
	const char *name;
	const char *magic;
	size_t size;
	int filter;
	const struct fsdp_reach_look *look;
};

static const struct kind kinds[] = {
	{ "gzip", "\x1f\x8b\x08", 3, ARCHIVE_FILTER_GZIP, NULL },
	{ "zstd", "\x28\xb5\x2f\xfd", 4, ARCHIVE_FILTER_ZSTD, &fsdp_reach_zstd },
	{ "xz", "\xfd\x37zXZ\0", 6, ARCHIVE_FILTER_XZ, &fsdp_reach_xz },
	{ "bzip2", "BZh", 3, ARCHIVE_FILTER_BZIP2, NULL },
	{ "lz4", "\x04\x22\x4d\x18", 4, ARCHIVE_FILTER_LZ4, NULL },
	{ "lzma", "\x5d", 1, ARCHIVE_FILTER_LZMA, NULL },
};

/* ---- kind of the archive ---- */

/* "BZh" alone could begin a text. */
static bool is_bzip2(struct fsdp_span head)
{
	if (head.size < 10 || head.data[3] < '1' || head.data[3] > '9')
		return false;
	return memcmp(head.data + 4, "\x31\x41\x59\x26\x53\x59", 6) == 0 ||
	       memcmp(head.data + 4, "\x17\x72\x45\x38\x50\x90", 6) == 0;
}

/* No writer asks for a larger dictionary than 64 MiB. The size of the data may be
 * unknown: all ones. */
static bool is_lzma(struct fsdp_span head)
{
	if (head.size < 13)
		return false;
	uint64_t dictionary = fsdp_load_le(head.data + 1, 4);
	uint64_t size = fsdp_load_le(head.data + 5, 8);
	return dictionary >= 4096 && dictionary <= 64 << 20 &&
	       (dictionary & (dictionary - 1)) == 0 &&
	       (size == UINT64_MAX || size >> 40 == 0);
}

static const struct kind *find_kind(struct fsdp_span head)
{
	for (size_t i = 0; i < FSDP_COUNT(kinds); i++)
		if (fsdp_span_begins(head, fsdp_span(kinds[i].magic, kinds[i].size)) &&
			(kinds[i].filter != ARCHIVE_FILTER_BZIP2 || is_bzip2(head)) &&
			(kinds[i].filter != ARCHIVE_FILTER_LZMA || is_lzma(head)))
			return &kinds[i];
	return NULL;
}

bool fsdp_archive_is_compressed(struct fsdp_span head)
{
	return find_kind(head) != NULL;
}

static bool parse_sum(const unsigned char *field, unsigned *ret_sum)
{
	size_t at = 0, digits = 0;
	unsigned sum = 0;
	while (at < 8 && field[at] == ' ')
		at++;
	for (; at < 8 && field[at] >= '0' && field[at] <= '7'; at++, digits++)
		sum = sum * 8 + (unsigned)(field[at] - '0');
	*ret_sum = sum;
	return digits != 0;
}

bool fsdp_archive_is_tar(struct fsdp_span head)
{
	unsigned claimed, sum = 0;
	int with_signs = 0; /* as some old writers add */
	if (head.size < TAR_HEADER || head.data[0] == '\0' ||
		!parse_sum(head.data + TAR_SUM, &claimed))
		return false;
	for (size_t i = 0; i < TAR_HEADER; i++) {
		bool in_sum = i >= TAR_SUM && i < TAR_SUM + 8;
		sum += in_sum ? ' ' : head.data[i];
		with_signs += in_sum ? ' ' : (signed char)head.data[i];
	}
	return sum == claimed || with_signs == (int)claimed;
}

const char *fsdp_archive_kind(struct fsdp_span head)
{
	const struct kind *kind = find_kind(head);
	if (kind != NULL)
		return kind->name;
	return fsdp_archive_is_tar(head) ? "tar" : NULL;
}

const char *fsdp_archive_version(void)
{
	return archive_version_string();
}

/* ---- unpacking ---- */

struct unpacker {
	const struct fsdp_source *source;
	struct fsdp_arena *arena;
	const struct fsdp_limits *limits;
	struct fsdp_span file;
	struct fsdp_findings *findings;
	struct fsdp_vec *packed;
	struct fsdp_error **error;
	const struct kind *kind; /* NULL: a bare tar */
	struct archive *archive;
	struct archive_entry *entry;
	unsigned char *block; /* NULL if in memory: passed on without a copy */
	uint64_t at;
	struct fsdp_error *read_error;
	struct fsdp_pager pager;
	struct fsdp_reach reach;
	uint64_t counted;  /* of this pass, towards the budget */
	uint64_t unpacked; /* of all members */
};

#define FIND(unpacker, rule, name, severity_, ...)                     \
	fsdp_find((unpacker)->findings, FSDP_RULE_##rule,              \
		FSDP_PLACE(.file = (unpacker)->file, .member = (name), \
			.severity = (severity_)),                      \
		__VA_ARGS__)

static la_ssize_t read_block(
	struct archive *archive, void *context, const void **ret_block)
{
	struct unpacker *unpacker = context;
	const struct fsdp_source *source = unpacker->source;
	size_t size = (size_t)fsdp_min(source->size - unpacker->at, BLOCK);
	const unsigned char *bytes = fsdp_source_bytes(source, unpacker->at);
	*ret_block = bytes != NULL ? bytes : unpacker->block;
	if (bytes == NULL && !fsdp_source_read(source, unpacker->at, unpacker->block,
				     size, &unpacker->read_error)) {
		archive_set_error(archive, EIO, "cannot read");
		return ARCHIVE_FATAL;
	}
	fsdp_reach_see(&unpacker->reach, fsdp_span(*ret_block, size));
	unpacker->at += size;
	return (la_ssize_t)size;
}

/* Not all that lacks memory has that number. */
static bool lacks_memory(struct archive *archive)
{
	const char *text = archive_error_string(archive);
	return archive_errno(archive) == ENOMEM ||
	       (text != NULL && (strcasestr(text, "allocat") != NULL ||
					strcasestr(text, "memory") != NULL));
}

static bool fail_archive(struct unpacker *unpacker)
{
	if (unpacker->read_error != NULL) {
		if (unpacker->error != NULL && *unpacker->error == NULL) {
			*unpacker->error = unpacker->read_error;
			unpacker->read_error = NULL;
		}
		return false;
	}
	const char *text = archive_error_string(unpacker->archive);
	/* There is a text for all that may be wrong with zstd. */
	if (lacks_memory(unpacker->archive) ||
		(text == NULL && unpacker->kind != NULL &&
			unpacker->kind->filter == ARCHIVE_FILTER_ZSTD))
		return fsdp_fail_memory(unpacker->error);
	fsdp_fail_rule(unpacker->error, FSDP_ERROR_DAMAGED,
		unpacker->kind != NULL ? "FI2003" : "FI1004", FSDP_UNKNOWN,
		"cannot unpack this %s: %s",
		unpacker->kind != NULL ? unpacker->kind->name : "tar",
		text != NULL ? text : "it is corrupted or truncated");
	return fsdp_error_add_hint(unpacker->error, "copy this file again");
}

static void close_archive(struct unpacker *unpacker)
{
	archive_entry_free(unpacker->entry);
	if (unpacker->archive != NULL)
		archive_read_free(unpacker->archive);
	unpacker->entry = NULL;
	unpacker->archive = NULL;
	fsdp_reach_done(&unpacker->reach);
	unpacker->at = unpacker->counted = 0;
}

/* archive_read_open() does this too, but does not look whether the context was kept. */
static bool open_reader(
	struct archive *archive, archive_read_callback *read, void *context)
{
	return archive_read_set_read_callback(archive, read) == ARCHIVE_OK &&
	       archive_read_set_callback_data(archive, context) == ARCHIVE_OK &&
	       archive_read_open1(archive) == ARCHIVE_OK;
}

/* Nor does archive_read_next_header() look whether it could make its entry. */
static struct archive_entry *make_entry(struct archive *archive)
{
	struct archive_entry *entry = archive_entry_new2(archive);
	if (entry == NULL)
		archive_set_error(archive, ENOMEM, "out of memory");
	return entry;
}

/* This one, once. If libarchive were to look for itself it would put one filter upon the
 * other for as long as the bytes look compressed, and might fall back on a program. */
static bool set_filter(struct archive *archive, const struct kind *kind)
{
	return archive_read_append_filter(archive, kind->filter) == ARCHIVE_OK;
}

static bool set_format(struct archive *archive, bool tar)
{
	if (tar)
		return archive_read_support_format_tar(archive) == ARCHIVE_OK;
	return archive_read_support_format_raw(archive) == ARCHIVE_OK &&
	       archive_read_support_format_empty(archive) == ARCHIVE_OK;
}

static bool open_archive(struct unpacker *unpacker, bool tar)
{
	close_archive(unpacker);
	struct archive *archive = unpacker->archive = archive_read_new();
	if (archive == NULL)
		return fsdp_fail_memory(unpacker->error);
	if (unpacker->kind != NULL && !set_filter(archive, unpacker->kind))
		return lacks_memory(archive)
			       ? fsdp_fail_memory(unpacker->error)
			       : fsdp_fail(unpacker->error, FSDP_ERROR_UNSUPPORTED,
					 FSDP_UNKNOWN, "this libarchive cannot read %s",
					 unpacker->kind->name);
	/* What goes wrong in the filter while it opens is reported by the message alone.
	 */
	if (!set_format(archive, tar) || !open_reader(archive, read_block, unpacker) ||
		archive_errno(archive) != 0)
		return fail_archive(unpacker);
	unpacker->entry = make_entry(archive);
	return unpacker->entry != NULL || fail_archive(unpacker);
}

/* What came out of the filter since it was asked last, headers of a tar as well: all of
 * it was work. */
static bool count_unpacked(struct unpacker *unpacker)
{
	la_int64_t passed = archive_filter_bytes(unpacker->archive, 0);
	uint64_t now = passed > 0 ? (uint64_t)passed : 0, before = unpacker->counted;
	if (unpacker->kind == NULL || now <= before)
		return true;
	unpacker->counted = now;
	if (!fsdp_reach_charge(&unpacker->reach, now))
		return fsdp_arena_fail(unpacker->arena, unpacker->error);
	return fsdp_budget_unpack(unpacker->arena->budget, now - before, unpacker->error);
}

/* Looked at by ourselves: libarchive takes anything that begins with zeros for a tar. */
static bool is_tar_within(struct unpacker *unpacker, bool *ret_tar)
{
	unsigned char head[TAR_HEADER];
	*ret_tar = false;
	if (!open_archive(unpacker, false))
		return false;
	int status = archive_read_next_header2(unpacker->archive, unpacker->entry);
	/* To libarchive a header that it cannot take is an end like any other. */
	if (status == ARCHIVE_EOF)
		return archive_filter_bytes(unpacker->archive, 1) != 0 ||
		       fail_archive(unpacker);
	if (status < ARCHIVE_WARN)
		return fail_archive(unpacker);
	la_ssize_t size = archive_read_data(unpacker->archive, head, sizeof head);
	if (size < 0)
		return fail_archive(unpacker);
	struct fsdp_span within = fsdp_span(head, (size_t)size);
	*ret_tar = fsdp_archive_is_tar(within);
	return find_kind(within) == NULL ||
	       fsdp_fail(unpacker->error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
		       "compressed more than once");
}

/* Names outside of the locale's characters are valid: only bytes count. */
static void check_warning(struct unpacker *unpacker, struct fsdp_span name)
{
	const char *text = archive_error_string(unpacker->archive);
	if (text == NULL)
		text = "unusual archive entry";
	if (strstr(text, "can't be converted") == NULL)
		FIND(unpacker, TAR_CHECKPOINT, name, 0, "%s", text);
}

static struct fsdp_span entry_name(struct archive_entry *entry)
{
	const char *name = archive_entry_pathname(entry);
	if (name == NULL)
		name = archive_entry_pathname_utf8(entry);
	if (name == NULL)
		return FSDP_SPAN("");
	while (name[0] == '.' && name[1] == '/' && name[2] != '\0')
		name += 2;
	return fsdp_span_text(name);
}

/* False for skipped members; everything except directories is reported. */
static bool is_wanted(
	struct unpacker *unpacker, struct archive_entry *entry, struct fsdp_span name)
{
	int error = FSDP_ERROR + 1;
	if (archive_entry_filetype(entry) == AE_IFDIR)
		return false;
	if (!fsdp_name_is_safe(name)) {
		FIND(unpacker, UNSAFE_NAME, name, 0,
			"skipped: its name is not a plain relative path");
		return false;
	}
	if (archive_entry_hardlink(entry) != NULL ||
		archive_entry_hardlink_utf8(entry) != NULL ||
		archive_entry_filetype(entry) == AE_IFLNK) {
		FIND(unpacker, TAR_CHECKPOINT, name, error, "skipped: it is a link");
		return false;
	}
	if (archive_entry_filetype(entry) != AE_IFREG) {
		FIND(unpacker, TAR_CHECKPOINT, name, error,
			"skipped: it is a device or a pipe");
		return false;
	}
	if (archive_entry_sparse_count(entry) != 0) {
		FIND(unpacker, TAR_CHECKPOINT, name, error,
			"skipped: it is stored with holes");
		return false;
	}
	return true;
}

/* For kept bytes: `stdin-bytes` limits bytes in memory. */
static bool keep_bytes(struct unpacker *unpacker, const void *bytes, size_t count)
{
	uint64_t most = fsdp_limit(unpacker->limits, FSDP_LIMIT_STDIN_BYTES);
	unpacker->unpacked += count;
	if (unpacker->unpacked > most)
		return fsdp_fail_limit(unpacker->error, FSDP_LIMIT_STDIN_BYTES, most);
	return fsdp_pager_add(&unpacker->pager, bytes, count, unpacker->error);
}

/* Skips the member's bytes and counts them; kept bytes go to the pager. Skipped bytes
 * count too, because they must be inflated. */
static bool read_bytes(
	struct unpacker *unpacker, bool kept, struct fsdp_span name, uint64_t *ret_size)
{
	uint64_t done = 0;
	for (;;) {
		const void *bytes;
		size_t count;
		la_int64_t offset;
		int status = archive_read_data_block(
			unpacker->archive, &bytes, &count, &offset);
		if (!count_unpacked(unpacker))
			return false;
		*ret_size = done;
		if (status == ARCHIVE_EOF)
			return true;
		if (status < ARCHIVE_WARN)
			return fail_archive(unpacker);
		if (status == ARCHIVE_WARN)
			check_warning(unpacker, name);
		if (kept && (uint64_t)offset != done)
			return fail_archive(unpacker);
		if (kept && !keep_bytes(unpacker, bytes, count))
			return false;
		done += count;
	}
}

/* In an uncompressed tar the member is part of the file: it is not copied. */
static bool locate_plain(
	struct unpacker *unpacker, uint64_t size, struct fsdp_packed *packed)
{
	uint64_t done;
	if (size > unpacker->source->size) {
		fsdp_fail_rule(unpacker->error, FSDP_ERROR_DAMAGED, "FI1004",
			FSDP_UNKNOWN, "a member of %llu bytes is in a tar of %llu",
			FSDP_LLU(size), FSDP_LLU(unpacker->source->size));
		return fsdp_error_add_hint(unpacker->error, "copy this file again");
	}
	return read_bytes(unpacker, false, packed->name, &done) &&
	       (done == size || fail_archive(unpacker)) &&
	       fsdp_source_slice(unpacker->source, packed->offset, size, &packed->source,
		       unpacker->error);
}

static bool keep_unpacked(struct unpacker *unpacker, struct fsdp_packed *packed)
{
	uint64_t size;
	return read_bytes(unpacker, true, packed->name, &size) &&
	       fsdp_pager_take(&unpacker->pager, &packed->source, unpacker->error);
}

static bool add_packed(struct unpacker *unpacker, struct fsdp_packed packed)
{
	return fsdp_vec_add(unpacker->packed, &packed) ||
	       fsdp_arena_fail(unpacker->arena, unpacker->error);
}

static bool read_member(struct unpacker *unpacker, struct archive_entry *entry)
{
	/* Offset of the member's bytes: directly after its header, which was read. */
	struct fsdp_packed packed = {
		.offset = unpacker->kind == NULL
				  ? (uint64_t)archive_filter_bytes(unpacker->archive, 0)
				  : FSDP_UNKNOWN,
	};
	uint64_t most = fsdp_limit(unpacker->limits, FSDP_LIMIT_MEMBERS), left_out;
	if (unpacker->packed->count >= most)
		return fsdp_fail_limit(unpacker->error, FSDP_LIMIT_MEMBERS, most);
	if (archive_format(unpacker->archive) != ARCHIVE_FORMAT_RAW) {
		struct fsdp_span name = entry_name(entry);
		if (!is_wanted(unpacker, entry, name))
			return read_bytes(unpacker, false, name, &left_out);
		packed.name = fsdp_arena_copy(unpacker->arena, name);
		if (packed.name.data == NULL)
			return fsdp_arena_fail(unpacker->arena, unpacker->error);
	}
	bool ok = unpacker->kind == NULL
			  ? locate_plain(unpacker, (uint64_t)archive_entry_size(entry),
				    &packed)
			  : keep_unpacked(unpacker, &packed);
	if (!ok)
		fsdp_error_add_member(unpacker->error, packed.name);
	return ok && add_packed(unpacker, packed);
}

/* A tar ends with zero blocks. If the file ends directly after a member instead, members
 * may be missing, and libarchive reports nothing. */
static bool check_end(struct unpacker *unpacker)
{
	struct archive *archive = unpacker->archive;
	la_int64_t passed = archive_filter_bytes(archive, 0);
	if (archive_format(archive) == ARCHIVE_FORMAT_RAW ||
		archive_format(archive) == ARCHIVE_FORMAT_EMPTY)
		return true;
	struct fsdp_span none = { 0 };
	if (passed <= archive_read_header_position(archive))
		FIND(unpacker, TRUNCATED_FILE, none, FSDP_WARNING + 1,
			"the tar has no end: it stops right after a member");
	if (unpacker->kind != NULL)
		return true;
	uint64_t at = (uint64_t)passed, size = unpacker->source->size;
	uint64_t end = size - fsdp_min(size, at) > BEHIND_MOST ? at + BEHIND_MOST : size;
	for (; at < end; at += TAR_HEADER) {
		static const unsigned char zeros[TAR_HEADER];
		unsigned char bytes[TAR_HEADER];
		size_t count = (size_t)fsdp_min(end - at, TAR_HEADER);
		if (!fsdp_source_read(
			    unpacker->source, at, bytes, count, unpacker->error))
			return false;
		if (memcmp(bytes, zeros, count) != 0) {
			FIND(unpacker, ZIP_STRAY_BYTES, none, 0,
				"%llu bytes after the end of the tar are not padding",
				FSDP_LLU(size - at));
			return true;
		}
	}
	return true;
}

static bool read_members(struct unpacker *unpacker)
{
	for (;;) {
		struct archive_entry *entry = unpacker->entry;
		int status = archive_read_next_header2(unpacker->archive, entry);
		if (status == ARCHIVE_EOF)
			break;
		if (status < ARCHIVE_WARN)
			return fail_archive(unpacker);
		if (!count_unpacked(unpacker))
			return false;
		if (status == ARCHIVE_WARN)
			check_warning(unpacker, entry_name(entry));
		if (!read_member(unpacker, entry))
			return false;
	}
	if (!check_end(unpacker))
		return false;
	struct fsdp_packed nothing = {
		.source = fsdp_source_memory(FSDP_SPAN("")),
		.offset = FSDP_UNKNOWN,
	};
	return archive_format(unpacker->archive) != ARCHIVE_FORMAT_EMPTY ||
	       add_packed(unpacker, nothing);
}

static bool unpack(struct unpacker *unpacker)
{
	bool tar = true;
	if (!fsdp_pager_init(&unpacker->pager, unpacker->arena, unpacker->error))
		return false;
	if (fsdp_source_bytes(unpacker->source, 0) == NULL) {
		unpacker->block = malloc(BLOCK);
		if (unpacker->block == NULL)
			return fsdp_fail_memory(unpacker->error);
	}
	return (unpacker->kind == NULL || is_tar_within(unpacker, &tar)) &&
	       open_archive(unpacker, tar) && read_members(unpacker);
}

static bool look(const struct fsdp_source *source, unsigned char *bytes,
	struct fsdp_span *ret_head, struct fsdp_error **ret_error)
{
	size_t size = (size_t)fsdp_min(source->size, TAR_HEADER);
	*ret_head = fsdp_span(bytes, size);
	return fsdp_source_read(source, 0, bytes, size, ret_error);
}

bool fsdp_archive_unpack(const struct fsdp_source *source, struct fsdp_arena *arena,
	const struct fsdp_limits *limits, struct fsdp_span file,
	struct fsdp_findings *findings, struct fsdp_vec *ret_packed,
	struct fsdp_error **ret_error)
{
	unsigned char bytes[TAR_HEADER];
	struct fsdp_span head;
	if (!look(source, bytes, &head, ret_error))
		return false;
	if (fsdp_archive_kind(head) == NULL)
		return fsdp_fail(ret_error, FSDP_ERROR_NOT_A_CHECKPOINT, 0,
			"neither a tar nor compressed");
	struct fsdp_vec packed;
	fsdp_vec_init(&packed, arena, sizeof(struct fsdp_packed));
	struct unpacker unpacker = {
		.source = source,
		.arena = arena,
		.limits = limits,
		.file = file,
		.findings = findings,
		.packed = &packed,
		.error = ret_error,
		.kind = find_kind(head),
		.reach.budget = arena->budget,
	};
	if (unpacker.kind != NULL)
		unpacker.reach.look = unpacker.kind->look;
	fsdp_arena_hold(arena);
	bool ok = unpack(&unpacker);
	fsdp_arena_resume(arena);
	close_archive(&unpacker);
	free(unpacker.block);
	fsdp_error_free(unpacker.read_error);
	*ret_packed = packed; /* if it broke off, what came before that */
	return ok;
}

bool fsdp_archive_unpack_one(const struct fsdp_source *source, const char *kind,
	struct fsdp_arena *arena, const struct fsdp_limits *limits,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error)
{
	unsigned char bytes[TAR_HEADER];
	struct fsdp_span head;
	struct fsdp_findings findings;
	struct fsdp_vec packed;
	if (!look(source, bytes, &head, ret_error))
		return false;
	const char *found = fsdp_archive_kind(head);
	if (found == NULL || strcmp(found, kind) != 0)
		return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI2003", 0,
			"this is not %s, as which it is stored", kind);
	fsdp_findings_init(&findings, arena, limits);
	if (!fsdp_archive_unpack(source, arena, limits, (struct fsdp_span){ 0 },
		    &findings, &packed, ret_error))
		return false;
	const struct fsdp_packed *one =
		packed.count == 1 ? fsdp_vec_at(&packed, 0) : NULL;
	if (one == NULL || one->name.size != 0)
		return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI2003", 0,
			"this archive contains more than one file");
	*ret_source = one->source;
	return true;
}

/* ---- as a stream ---- */

struct fsdp_unpack {
	fsdp_refill refill;
	void *context;
	struct archive *archive;
	struct fsdp_error *error; /* of the refill */
	struct fsdp_reach reach;
	uint64_t unpacked;
	bool opened, ended, cut;
	unsigned char block[BLOCK];
};

static la_ssize_t read_stream(
	struct archive *archive, void *context, const void **ret_block)
{
	struct fsdp_unpack *unpack = context;
	size_t size = 0;
	*ret_block = unpack->block;
	if (unpack->refill(
		    unpack->context, unpack->block, BLOCK, &size, &unpack->error)) {
		fsdp_reach_see(&unpack->reach, fsdp_span(unpack->block, size));
		return (la_ssize_t)size;
	}
	archive_set_error(archive, EIO, "cannot read");
	return ARCHIVE_FATAL;
}

bool fsdp_unpack_new(struct fsdp_span head, fsdp_refill refill, void *context,
	struct fsdp_budget *budget, struct fsdp_unpack **ret_unpack,
	struct fsdp_error **ret_error)
{
	const struct kind *kind = find_kind(head);
	struct fsdp_unpack *unpack = malloc(sizeof *unpack);
	if (unpack == NULL)
		return fsdp_fail_memory(ret_error);
	unpack->refill = refill;
	unpack->context = context;
	unpack->error = NULL;
	unpack->unpacked = 0;
	unpack->reach = (struct fsdp_reach){ .budget = budget };
	if (kind != NULL)
		unpack->reach.look = kind->look;
	unpack->opened = unpack->ended = unpack->cut = false;
	unpack->archive = archive_read_new();
	if (unpack->archive != NULL && kind != NULL &&
		set_filter(unpack->archive, kind) && set_format(unpack->archive, false)) {
		*ret_unpack = unpack;
		return true;
	}
	bool memory = unpack->archive == NULL;
	fsdp_unpack_free(unpack);
	return memory ? fsdp_fail_memory(ret_error)
		      : fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
				"this libarchive does not support this compression");
}

/* The bytes come from our own stream, so this waits until they are asked for. */
static bool open_stream(struct fsdp_unpack *unpack)
{
	unpack->opened = true;
	if (!open_reader(unpack->archive, read_stream, unpack))
		return false;
	struct archive_entry *entry = make_entry(unpack->archive);
	bool ok = entry != NULL &&
		  archive_read_next_header2(unpack->archive, entry) == ARCHIVE_OK;
	archive_entry_free(entry);
	return ok;
}

bool fsdp_unpack_refill(void *context, void *buffer, size_t size, size_t *ret_size,
	struct fsdp_error **ret_error)
{
	struct fsdp_unpack *unpack = context;
	la_ssize_t count = -1;
	*ret_size = 0;
	if (unpack->ended)
		return true;
	if (unpack->opened || open_stream(unpack))
		count = archive_read_data(unpack->archive, buffer, size);
	if (count > 0) {
		unpack->unpacked += (uint64_t)count;
		if (!fsdp_reach_charge(&unpack->reach, unpack->unpacked))
			return fsdp_fail_limit(ret_error, FSDP_LIMIT_MEMORY,
				unpack->reach.budget->ceiling);
		*ret_size = (size_t)count;
		return true;
	}
	unpack->ended = true;
	if (count == 0)
		return true;
	if (unpack->error != NULL && ret_error != NULL && *ret_error == NULL) {
		*ret_error = unpack->error;
		unpack->error = NULL;
		return false;
	}
	if (lacks_memory(unpack->archive))
		return fsdp_fail_memory(ret_error);
	unpack->cut = true;
	return true;
}

bool fsdp_unpack_is_cut(const struct fsdp_unpack *unpack)
{
	return unpack->cut;
}

void fsdp_unpack_free(struct fsdp_unpack *unpack)
{
	if (unpack == NULL)
		return;
	if (unpack->archive != NULL)
		archive_read_free(unpack->archive);
	fsdp_reach_done(&unpack->reach);
	fsdp_error_free(unpack->error);
	free(unpack);
}
