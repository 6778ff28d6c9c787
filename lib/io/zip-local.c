/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local headers of a zip: where a member's bytes start, how to read them, and where
 * headers and directory differ.
 *
 *	header  "PK\3\4"  needed u16  flags u16  method u16  time u16  date u16  crc u32
 *	        stored size u32  size u32  name length u16  extra length u16  name  extra
 *
 * Origin: APPNOTE 6.3.10, section 4.3.7; fields that PyTorch leaves zero (crc and sizes
 * when bit 3 of the flags is set) and fields that it adds (padding as an extra field, a
 * ZIP64 field of its own) are accepted.
 */
#include <stdlib.h>

#include "base/num.h"
#include "io/source.h"
#include "io/zip.h"

enum {
	DESCRIPTOR_MOST = 24,
	FLAG_DESCRIBED = 8,
	NEAR = 64 << 10,
	FIRST_FILL = 4 << 10,
	WINDOW = 256 << 10,
	PADDING_MOST = 4 << 10,
	GAP_MOST =
		1 << 20, /* what is looked at of a gap; a longer one is reported anyway */
	SKIP = 16 << 10,
};

struct local_header {
	uint16_t flags, method;
	uint32_t crc, stored_size, size;
	uint16_t name_size, extra_size;
};

static bool fail_damaged(struct fsdp_error **ret_error, uint64_t offset, const char *rule,
	const char *what)
{
	return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, rule, offset, "%s", what);
}

static bool parse_local(struct fsdp_span bytes, struct local_header *ret_local)
{
	if (!fsdp_span_begins(bytes, FSDP_SPAN(FSDP_ZIP_LOCAL_MAGIC)))
		return false;
	struct fsdp_cursor cursor = fsdp_cursor(bytes);
	fsdp_cursor_skip(&cursor, 6);
	ret_local->flags = fsdp_cursor_read_u16le(&cursor);
	ret_local->method = fsdp_cursor_read_u16le(&cursor);
	fsdp_cursor_skip(&cursor, 4);
	ret_local->crc = fsdp_cursor_read_u32le(&cursor);
	ret_local->stored_size = fsdp_cursor_read_u32le(&cursor);
	ret_local->size = fsdp_cursor_read_u32le(&cursor);
	ret_local->name_size = fsdp_cursor_read_u16le(&cursor);
	ret_local->extra_size = fsdp_cursor_read_u16le(&cursor);
	return cursor.ok;
}

/* Of a header whose first bytes are here. */
static bool data_begin(struct fsdp_span bytes, uint64_t size, uint64_t header,
	uint64_t stored_size, uint64_t *ret_offset, struct fsdp_error **ret_error)
{
	struct local_header local;
	if (!parse_local(bytes, &local))
		return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI3044", header,
			"the local header at byte %llu is damaged", FSDP_LLU(header));
	uint64_t begin =
		header + FSDP_ZIP_LOCAL_SIZE + local.name_size + local.extra_size;
	if (begin > size || stored_size > size - begin)
		return fail_damaged(
			ret_error, begin, "FI1004", "the member reaches beyond the end");
	*ret_offset = begin;
	return true;
}

static bool locate(const struct fsdp_source *source, uint64_t header,
	uint64_t stored_size, uint64_t *ret_offset, struct fsdp_error **ret_error)
{
	unsigned char bytes[FSDP_ZIP_LOCAL_SIZE];
	if (!fsdp_source_read(source, header, bytes, sizeof bytes, ret_error))
		return false;
	return data_begin(fsdp_span(bytes, sizeof bytes), source->size, header,
		stored_size, ret_offset, ret_error);
}

bool fsdp_zip_locate(const struct fsdp_source *source,
	const struct fsdp_zip_member *member, uint64_t *ret_offset,
	struct fsdp_error **ret_error)
{
	return locate(source, member->header, member->stored_size, ret_offset, ret_error);
}

/*
 * At least `need` bytes at `at`: NULL if the source has fewer bytes or the window is too
 * small. A fill that continues the last one is twice as long, one elsewhere is short:
 * small members stream, large ones cost a page.
 */
static bool look(struct fsdp_zip_window *window, uint64_t at, size_t need,
	const unsigned char **ret_bytes, struct fsdp_error **ret_error)
{
	const struct fsdp_source *source = &window->source;
	*ret_bytes = NULL;
	if (at > source->size || need > source->size - at)
		return true;
	*ret_bytes = fsdp_source_bytes(source, at);
	if (*ret_bytes != NULL)
		return true;
	if (need > window->window_size)
		return true;
	if (at < window->begin || at + need > window->end) {
		bool near = at >= window->begin && at < window->end + NEAR;
		size_t last = (size_t)(window->end - window->begin);
		size_t size = near && last > FIRST_FILL / 2 ? last * 2 : FIRST_FILL;
		size = size < need ? need : size;
		size = (size_t)fsdp_min(
			fsdp_min(size, window->window_size), source->size - at);
		window->begin = window->end = at;
		if (!fsdp_source_read(source, at, window->bytes, size, ret_error))
			return false;
		window->end = at + size;
	}
	*ret_bytes = window->bytes + (at - window->begin);
	return true;
}

bool fsdp_zip_locate_in(struct fsdp_zip_window *window, uint64_t header,
	uint64_t stored_size, uint64_t *ret_offset, struct fsdp_error **ret_error)
{
	const unsigned char *bytes;
	if (!look(window, header, FSDP_ZIP_LOCAL_SIZE, &bytes, ret_error))
		return false;
	if (bytes == NULL)
		return locate(
			&window->source, header, stored_size, ret_offset, ret_error);
	return data_begin(fsdp_span(bytes, FSDP_ZIP_LOCAL_SIZE), window->source.size,
		header, stored_size, ret_offset, ret_error);
}

/* ---- a member's bytes ---- */

static bool is_readable(const struct fsdp_zip_member *member, uint64_t ceiling,
	struct fsdp_error **ret_error)
{
	bool stored = member->method == FSDP_ZIP_STORED;
	if ((member->flags & FSDP_ZIP_ENCRYPTED) != 0) {
		fsdp_fail_rule(ret_error, FSDP_ERROR_UNSUPPORTED, "FI3044",
			member->header, "the zip is encrypted (flags %#06x)",
			member->flags);
		return fsdp_error_add_hint(ret_error, "unpack it with its password");
	}
	if ((member->flags & FSDP_ZIP_UNREADABLE) != 0 ||
		(!stored && member->method != FSDP_ZIP_DEFLATED))
		return fsdp_fail_rule(ret_error, FSDP_ERROR_UNSUPPORTED, "FI3044",
			member->header,
			"compressed with method %u, flags %#06x: only plain stored and deflated members can be read",
			member->method, member->flags);
	if (stored && member->size != member->stored_size)
		return fail_damaged(ret_error, member->header, "FI3044",
			"stored, but its two sizes differ");
	if (!stored && member->size / FSDP_ZIP_RATIO > member->stored_size)
		return fail_damaged(ret_error, member->header, "FI3053",
			"its stored bytes cannot inflate to the size it declares");
	if (member->size <= ceiling)
		return true;
	return fsdp_fail_rule(ret_error, FSDP_ERROR_LIMIT, "FI9001", member->header,
		"it has %llu bytes, above the ceiling of %llu", FSDP_LLU(member->size),
		FSDP_LLU(ceiling));
}

static bool inflate_member(const struct fsdp_source *source, uint64_t offset,
	const struct fsdp_zip_member *member, struct fsdp_arena *arena,
	struct fsdp_span *ret_bytes, struct fsdp_error **ret_error)
{
	struct fsdp_inflate *inflate;
	/* Asked before any work. */
	struct fsdp_budget *budget = arena->budget;
	uint64_t most = budget->limits != NULL
				? fsdp_limit(budget->limits, FSDP_LIMIT_INFLATE_RECORD)
				: UINT64_MAX;
	if (member->size > most)
		return fsdp_fail_limit(ret_error, FSDP_LIMIT_INFLATE_RECORD, most);
	if (!fsdp_budget_unpack(budget, member->size, ret_error))
		return false;
	if (!fsdp_inflate_new(source, offset, member->stored_size, member->size, &inflate,
		    ret_error))
		return false;
	fsdp_arena_hold(arena);
	unsigned char *bytes = fsdp_arena_take(arena, (size_t)member->size, 64);
	fsdp_arena_resume(arena);
	bool ok = bytes != NULL || fsdp_arena_fail(arena, ret_error);
	ok = ok && fsdp_inflate_read(inflate, bytes, (size_t)member->size, ret_error) &&
	     fsdp_inflate_finish(inflate, ret_error);
	fsdp_inflate_free(inflate);
	if (ok)
		*ret_bytes = fsdp_span(bytes, (size_t)member->size);
	return ok;
}

bool fsdp_zip_read(const struct fsdp_zip *zip, const struct fsdp_zip_member *member,
	uint64_t ceiling, struct fsdp_arena *arena, struct fsdp_span *ret_bytes,
	struct fsdp_error **ret_error)
{
	uint64_t offset;
	bool ok = is_readable(member, ceiling, ret_error) &&
		  fsdp_zip_locate(&zip->source, member, &offset, ret_error) &&
		  (member->method == FSDP_ZIP_STORED
				  ? fsdp_source_read_all(&zip->source, offset,
					    member->size, arena, ret_bytes, ret_error)
				  : inflate_member(&zip->source, offset, member, arena,
					    ret_bytes, ret_error));
	if (!ok)
		fsdp_error_add_member(ret_error, member->name);
	return ok;
}

static bool inflate_part(struct fsdp_inflate *inflate, uint64_t skip, void *buffer,
	size_t size, struct fsdp_error **ret_error)
{
	unsigned char passed[SKIP];
	while (skip != 0) {
		size_t part = (size_t)fsdp_min(skip, sizeof passed);
		if (!fsdp_inflate_read(inflate, passed, part, ret_error))
			return false;
		skip -= part;
	}
	return fsdp_inflate_read(inflate, buffer, size, ret_error);
}

bool fsdp_zip_check_method(
	uint16_t method, uint64_t offset, struct fsdp_error **ret_error)
{
	if (method == FSDP_ZIP_STORED || method == FSDP_ZIP_DEFLATED)
		return true;
	return fsdp_fail_rule(ret_error, FSDP_ERROR_UNSUPPORTED, "FI3044", offset,
		"compressed with method %u: only 0 and 8 can be read", method);
}

bool fsdp_zip_read_part(const struct fsdp_source *source, uint64_t data_offset,
	uint64_t stored_size, uint16_t method, uint64_t skip, void *buffer, size_t size,
	struct fsdp_error **ret_error)
{
	struct fsdp_source stored;
	uint64_t end;
	if (!fsdp_source_slice(source, data_offset, stored_size, &stored, ret_error))
		return false;
	if (method == FSDP_ZIP_STORED) {
		bool ok = fsdp_source_read(&stored, skip, buffer, size, ret_error);
		if (!ok)
			fsdp_error_shift_offset(ret_error, data_offset);
		return ok;
	}
	if (!fsdp_zip_check_method(method, data_offset, ret_error))
		return false;
	if (!fsdp_add(skip, size, &end) || end / FSDP_ZIP_RATIO > stored_size)
		return fail_damaged(ret_error, data_offset, "FI3053",
			"its stored bytes cannot inflate to so many");
	struct fsdp_inflate *inflate;
	if (!fsdp_inflate_new(source, data_offset, stored_size, end, &inflate, ret_error))
		return false;
	bool ok = inflate_part(inflate, skip, buffer, size, ret_error);
	fsdp_inflate_free(inflate);
	return ok;
}

/* ---- headers against the directory ---- */

struct check {
	const struct fsdp_zip *zip;
	struct fsdp_span file;
	struct fsdp_findings *findings;
	struct fsdp_zip_window window;
	struct fsdp_error **error;
	uint64_t end;   /* of the members before, their descriptors not counted */
	uint64_t known; /* the same from the directory, as checked by opening */
};

#define FIND(check, rule, member_, ...)                                      \
	fsdp_find((check)->findings, FSDP_RULE_##rule,                       \
		FSDP_PLACE(.file = (check)->file, .member = (member_)->name, \
			.offset = (member_)->header),                        \
		__VA_ARGS__)

/* A streaming writer leaves zero (bit 3) or uses the extra field. */
static bool agrees(const struct local_header *local, uint32_t here, uint64_t there)
{
	return here == there || ((local->flags & FLAG_DESCRIBED) != 0 && here == 0);
}

static void check_fields(struct check *check, const struct fsdp_zip_member *member,
	const struct local_header *local)
{
	if (local->method != member->method)
		FIND(check, ZIP_FIELDS, member,
			"method %u in its header, but %u in the directory", local->method,
			member->method);
	if (((local->flags ^ member->flags) & FSDP_ZIP_UNREADABLE) != 0)
		FIND(check, ZIP_FIELDS, member,
			"flags %#06x in its header, but %#06x in the directory",
			local->flags, member->flags);
	if (!agrees(local, local->crc, member->crc))
		FIND(check, ZIP_FIELDS, member,
			"CRC %08lx in its header, but %08lx in the directory",
			(unsigned long)local->crc, (unsigned long)member->crc);
	if (local->stored_size != UINT32_MAX &&
		!agrees(local, local->stored_size, member->stored_size))
		FIND(check, ZIP_FIELDS, member,
			"%lu stored bytes in its header, but %llu in the directory",
			(unsigned long)local->stored_size, FSDP_LLU(member->stored_size));
	if (local->size != UINT32_MAX && !agrees(local, local->size, member->size))
		FIND(check, ZIP_FIELDS, member,
			"%lu bytes in its header, but %llu in the directory",
			(unsigned long)local->size, FSDP_LLU(member->size));
}

static void find_gap(
	struct check *check, uint64_t begin, uint64_t end, bool alive, const char *what)
{
	fsdp_find(check->findings, FSDP_RULE_ZIP_STRAY_BYTES,
		FSDP_PLACE(.file = check->file, .offset = begin, .length = end - begin,
			.severity = alive ? FSDP_ERROR + 1 : 0),
		"%llu bytes between members %s", FSDP_LLU(end - begin), what);
}

/* Small gaps are padding, unless they begin a member that the directory hides. */
static bool check_gap(struct check *check, uint64_t begin, uint64_t end)
{
	if (begin >= end || end - begin < FSDP_ZIP_LOCAL_SIZE)
		return true;
	uint64_t looked_at = fsdp_min(end - begin, GAP_MOST);
	bool zero = true, hidden = false;
	for (uint64_t at = 0; at < looked_at && !hidden; at += PADDING_MOST - 3) {
		const unsigned char *bytes;
		size_t size = (size_t)fsdp_min(looked_at - at, PADDING_MOST);
		if (!look(&check->window, begin + at, size, &bytes, check->error))
			return false;
		if (bytes == NULL)
			return true;
		size_t described = at == 0 ? fsdp_min(size, DESCRIPTOR_MOST) : 0;
		zero = zero &&
		       (size == described ||
			       (bytes[described] == 0 &&
				       memcmp(bytes + described, bytes + described + 1,
					       size - described - 1) == 0));
		hidden = memmem(bytes, size, FSDP_ZIP_LOCAL_MAGIC, 4) != NULL;
	}
	if (hidden)
		find_gap(check, begin, end, true,
			"have a header that the zip's directory does not list");
	else if (end - begin > PADDING_MOST && !zero)
		find_gap(check, begin, end, false, "are unreferenced");
	else if (end - begin > GAP_MOST)
		find_gap(check, begin, end, false, "are too many for padding");
	return true;
}

/* The header with its name and extra field, or NULL if it is broken. */
static bool read_header(struct check *check, uint64_t header,
	struct local_header *ret_local, const unsigned char **ret_bytes)
{
	if (!look(&check->window, header, FSDP_ZIP_LOCAL_SIZE, ret_bytes, check->error))
		return false;
	if (*ret_bytes == NULL)
		return true;
	if (!parse_local(fsdp_span(*ret_bytes, FSDP_ZIP_LOCAL_SIZE), ret_local)) {
		*ret_bytes = NULL;
		return true;
	}
	return look(&check->window, header,
		FSDP_ZIP_LOCAL_SIZE + (size_t)ret_local->name_size +
			ret_local->extra_size,
		ret_bytes, check->error);
}

static bool check_member(
	struct check *check, const struct fsdp_zip_member *member, uint64_t *ret_offset)
{
	struct local_header local;
	const unsigned char *bytes;
	*ret_offset = FSDP_UNKNOWN;
	if (!read_header(check, member->header, &local, &bytes))
		return false;
	if (bytes == NULL) {
		fsdp_find(check->findings, FSDP_RULE_ZIP_FIELDS,
			FSDP_PLACE(.file = check->file, .member = member->name,
				.offset = member->header,
				.fix = "copy this file again, or use an earlier checkpoint"),
			"the local header at byte %llu is damaged",
			FSDP_LLU(member->header));
		return true;
	}
	uint64_t begin =
		member->header + FSDP_ZIP_LOCAL_SIZE + local.name_size + local.extra_size;
	const unsigned char *behind = bytes + FSDP_ZIP_LOCAL_SIZE;
	struct fsdp_span name = fsdp_span(behind, local.name_size);
	if (!fsdp_span_equal(name, member->name))
		FIND(check, ZIP_NAME_DIFFERS, member,
			"its local header has the name '%.*s'",
			FSDP_TEXT_MOST(name, 200));
	check_fields(check, member, &local);
	struct fsdp_cursor cursor =
		fsdp_cursor(fsdp_span(behind + local.name_size, local.extra_size));
	struct fsdp_cursor field;
	uint16_t id;
	while (fsdp_zip_next_extra(&cursor, &id, &field))
		if (id == FSDP_ZIP_UNICODE_PATH &&
			!fsdp_zip_same_unicode_path(field, member))
			FIND(check, ZIP_NAME_DIFFERS, member,
				"an extra field of its header gives the member another name");
	if (!cursor.ok)
		FIND(check, ZIP_FIELDS, member,
			"the extra fields of its header are longer than their area");
	if (!check_gap(check, check->end, member->header))
		return false;
	uint64_t most = check->zip->directory_offset;
	if (begin > most || member->stored_size > most - begin) {
		FIND(check, ZIP_OVERLAP, member,
			"%llu bytes from byte %llu on reach into the directory at byte %llu",
			FSDP_LLU(member->stored_size), FSDP_LLU(begin), FSDP_LLU(most));
		return true;
	}
	if (check->end > member->header && check->known <= member->header)
		FIND(check, ZIP_OVERLAP, member,
			"begins before byte %llu, where the member before it ends",
			FSDP_LLU(check->end));
	*ret_offset = begin;
	uint64_t end = begin + member->stored_size;
	uint64_t known = member->header + FSDP_ZIP_LOCAL_SIZE + member->name.size;
	known += member->stored_size;
	check->end = end > check->end ? end : check->end;
	check->known = known > check->known ? known : check->known;
	return true;
}

static bool check_members(struct check *check, uint64_t *ret_offsets)
{
	const struct fsdp_zip *zip = check->zip;
	size_t count = zip->members.count;
	for (size_t i = 0; i < count; i++) {
		uint32_t number =
			zip->by_header != NULL ? zip->by_header[i] : (uint32_t)i;
		const struct fsdp_zip_member *member = fsdp_zip_member(zip, number);
		uint64_t offset;
		if (i == 0)
			check->end = member->header;
		if (!check_member(check, member, &offset))
			return false;
		if (ret_offsets != NULL)
			ret_offsets[number] = offset;
	}
	return count == 0 || check_gap(check, check->end, zip->directory_offset);
}

bool fsdp_zip_check_headers(const struct fsdp_zip *zip, struct fsdp_span file,
	struct fsdp_findings *findings, uint64_t *ret_offsets,
	struct fsdp_error **ret_error)
{
	struct check check = {
		.zip = zip,
		.file = file,
		.findings = findings,
		.window = { .source = zip->source, .window_size = WINDOW },
		.error = ret_error,
	};
	if (fsdp_source_bytes(&zip->source, 0) == NULL) {
		check.window.bytes = malloc(WINDOW);
		if (check.window.bytes == NULL)
			return fsdp_fail_memory(ret_error);
	}
	for (size_t i = 0; i < zip->members.count && zip->source.remote != NULL; i++) {
		size_t number = zip->by_header != NULL ? zip->by_header[i] : i;
		fsdp_source_expect(&zip->source, fsdp_zip_member(zip, number)->header,
			FSDP_ZIP_LOCAL_SIZE);
	}
	bool ok = check_members(&check, ret_offsets);
	free(check.window.bytes);
	return ok;
}
