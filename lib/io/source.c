/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads bytes at an offset from a file or from memory, and keeps bytes of unknown number
 * by pages.
 */
#include <errno.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/num.h"
#include "io/directory.h"
#include "io/source.h"

bool fsdp_pager_init(
	struct fsdp_pager *pager, struct fsdp_arena *arena, struct fsdp_error **ret_error)
{
	*pager = (struct fsdp_pager){ .arena = arena };
	fsdp_vec_init(&pager->list, arena, sizeof(const unsigned char *));
	pager->filling = fsdp_arena_take(arena, FSDP_PAGE_BYTES, 64);
	return pager->filling != NULL || fsdp_arena_fail(arena, ret_error);
}

/* Bytes of the filled page, shared if the same ones are already in memory. */
static bool keep(struct fsdp_pager *pager, struct fsdp_span *ret_page,
	struct fsdp_error **ret_error)
{
	struct fsdp_span page = fsdp_span(pager->filling, pager->filled);
	if (!fsdp_span_equal(page, pager->before)) {
		unsigned char *copy = fsdp_arena_take(pager->arena, page.size, 16);
		if (copy == NULL)
			return fsdp_arena_fail(pager->arena, ret_error);
		memcpy(copy, page.data, page.size);
		pager->before = fsdp_span(copy, page.size);
	}
	pager->filled = 0;
	*ret_page = pager->before;
	return true;
}

static bool list_page(struct fsdp_pager *pager, struct fsdp_error **ret_error)
{
	struct fsdp_span page;
	const unsigned char **place;
	if (!keep(pager, &page, ret_error))
		return false;
	place = fsdp_vec_push(&pager->list);
	if (place == NULL)
		return fsdp_arena_fail(pager->arena, ret_error);
	*place = page.data;
	return true;
}

unsigned char *fsdp_pager_room(struct fsdp_pager *pager, size_t *ret_room)
{
	*ret_room = FSDP_PAGE_BYTES - pager->filled;
	return pager->filling + pager->filled;
}

bool fsdp_pager_filled(
	struct fsdp_pager *pager, size_t size, struct fsdp_error **ret_error)
{
	pager->filled += size;
	return pager->filled < FSDP_PAGE_BYTES || list_page(pager, ret_error);
}

bool fsdp_pager_add(struct fsdp_pager *pager, const void *bytes, size_t size,
	struct fsdp_error **ret_error)
{
	const unsigned char *from = bytes;
	while (size != 0) {
		size_t room;
		unsigned char *to = fsdp_pager_room(pager, &room);
		size_t part = size < room ? size : room;
		memcpy(to, from, part);
		if (!fsdp_pager_filled(pager, part, ret_error))
			return false;
		from += part;
		size -= part;
	}
	return true;
}

/* Bytes that fit in one page are contiguous. */
bool fsdp_pager_take(struct fsdp_pager *pager, struct fsdp_source *ret_source,
	struct fsdp_error **ret_error)
{
	struct fsdp_vec *list = &pager->list;
	uint64_t size = (uint64_t)list->count * FSDP_PAGE_BYTES + pager->filled;
	struct fsdp_span page;
	if (list->count == 0) {
		if (!keep(pager, &page, ret_error))
			return false;
		*ret_source = fsdp_source_memory(page);
		return true;
	}
	if (pager->filled != 0 && !list_page(pager, ret_error))
		return false;
	const unsigned char **pages = FSDP_TAKE(pager->arena, pages, list->count);
	if (pages == NULL)
		return fsdp_arena_fail(pager->arena, ret_error);
	for (size_t i = 0; i < list->count; i++)
		pages[i] = *(const unsigned char **)fsdp_vec_at(list, i);
	list->count = 0;
	*ret_source = (struct fsdp_source){ .fd = -1, .pages = pages, .size = size };
	return true;
}

enum { ROWS_MOST = 64 };

const unsigned char *fsdp_source_bytes(const struct fsdp_source *source, uint64_t offset)
{
	return source->fd < 0 && source->data != NULL
		       ? source->data + source->base + offset
		       : NULL;
}

bool fsdp_source_file(
	int fd, struct fsdp_source *ret_source, struct fsdp_error **ret_error)
{
	struct stat status;
	if (fstat(fd, &status) != 0)
		return fsdp_fail_errno(ret_error, errno, FSDP_UNKNOWN, "cannot look at");
	if (S_ISDIR(status.st_mode)) {
		fsdp_fail_rule(ret_error, FSDP_ERROR_NOT_A_CHECKPOINT, "FI3065",
			FSDP_UNKNOWN, "no supported file in this directory");
		return fsdp_error_add_kind(ret_error, "folder");
	}
	if (!S_ISREG(status.st_mode))
		return fsdp_fail_rule(ret_error, FSDP_ERROR_NOT_A_CHECKPOINT, "FI3065",
			FSDP_UNKNOWN, "not a regular file");
	*ret_source = (struct fsdp_source){ .fd = fd, .size = (uint64_t)status.st_size };
	return true;
}

static bool is_inside(const struct fsdp_source *source, uint64_t offset, uint64_t length,
	struct fsdp_error **ret_error)
{
	if (offset <= source->size && length <= source->size - offset)
		return true;
	return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI1004", offset,
		"%llu bytes are needed here, but the end is at byte %llu",
		FSDP_LLU(length), FSDP_LLU(source->size));
}

bool fsdp_source_slice(const struct fsdp_source *source, uint64_t offset, uint64_t length,
	struct fsdp_source *ret_slice, struct fsdp_error **ret_error)
{
	if (!is_inside(source, offset, length, ret_error))
		return false;
	struct fsdp_source slice = *source;
	slice.base += offset;
	slice.size = length;
	*ret_slice = slice;
	return true;
}

/* The file was long enough when it was opened, so an early end is a change. */
static bool fail_shrunk(
	const struct fsdp_source *source, uint64_t offset, struct fsdp_error **ret_error)
{
	fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI2004", offset,
		"the file ends here, but it had %llu bytes when it was opened",
		FSDP_LLU(source->base + source->size));
	return fsdp_error_add_hint(ret_error, "run again when no program writes to it");
}

static bool read_file(const struct fsdp_source *source, uint64_t offset,
	unsigned char *bytes, size_t size, struct fsdp_error **ret_error)
{
	size_t done = 0;
	while (done < size) {
		ssize_t got = pread(source->fd, bytes + done, size - done,
			(off_t)(source->base + offset + done));
		if (got == 0)
			return fail_shrunk(source, offset + done, ret_error);
		if (got > 0)
			done += (size_t)got;
		else if (errno != EINTR)
			return fsdp_fail_errno(
				ret_error, errno, offset + done, "cannot read");
	}
	return true;
}

static void copy_pages(
	const struct fsdp_source *source, uint64_t offset, unsigned char *to, size_t size)
{
	uint64_t at = source->base + offset;
	while (size != 0) {
		size_t skip = (size_t)(at % FSDP_PAGE_BYTES);
		size_t part = (size_t)fsdp_min(size, FSDP_PAGE_BYTES - skip);
		memcpy(to, source->pages[at / FSDP_PAGE_BYTES] + skip, part);
		to += part;
		at += part;
		size -= part;
	}
}

bool fsdp_source_read(const struct fsdp_source *source, uint64_t offset, void *buffer,
	size_t size, struct fsdp_error **ret_error)
{
	if (!is_inside(source, offset, size, ret_error))
		return false;
	if (fsdp_source_is_listed(source)) {
		if (source->failed != NULL)
			*source->failed = true;
		fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN,
			"only its size is known: it is in the list and not in the directory");
		return fsdp_error_add_hint(ret_error, "download it into the directory");
	}
	if (source->fd >= 0 || source->remote != NULL) {
		bool good =
			source->fd >= 0
				? read_file(source, offset, buffer, size, ret_error)
				: fsdp_remote_read(source->remote, source->base + offset,
					  buffer, size, ret_error);
		if (!good && source->failed != NULL)
			*source->failed = true;
		return good;
	}
	if (source->pages != NULL)
		copy_pages(source, offset, buffer, size);
	else if (size != 0)
		memcpy(buffer, source->data + source->base + offset, size);
	return true;
}

void fsdp_source_expect(const struct fsdp_source *source, uint64_t offset, uint64_t size)
{
	if (source->remote != NULL && is_inside(source, offset, size, NULL))
		fsdp_remote_expect(source->remote, source->base + offset, size);
}

/* As many of the rows as one call takes. What it leaves over of the last one that it
 * began is read by itself. */
static bool read_some_rows(const struct fsdp_source *source, uint64_t offset,
	unsigned char *to, size_t row, size_t step, size_t count, size_t *ret_done,
	struct fsdp_error **ret_error)
{
	struct iovec rows[ROWS_MOST];
	if (count > ROWS_MOST)
		count = ROWS_MOST;
	for (size_t i = 0; i < count; i++)
		rows[i] = (struct iovec){ to + i * step, row };
	ssize_t got =
		preadv(source->fd, rows, (int)count, (off_t)(source->base + offset));
	if (got == 0)
		return fail_shrunk(source, offset, ret_error);
	if (got < 0 && errno != EINTR)
		return fsdp_fail_errno(ret_error, errno, offset, "cannot read");
	size_t read = got < 0 ? 0 : (size_t)got, part = read % row;
	*ret_done = read / row;
	if (part == 0)
		return true;
	to += *ret_done * step + part;
	*ret_done += 1;
	return read_file(source, offset + read, to, row - part, ret_error);
}

bool fsdp_source_read_rows(const struct fsdp_source *source, uint64_t offset,
	unsigned char *to, size_t row, size_t step, size_t count,
	struct fsdp_error **ret_error)
{
	uint64_t size;
	if (!fsdp_mul(row, count, &size))
		size = UINT64_MAX;
	if (!is_inside(source, offset, size, ret_error))
		return false;
	for (size_t done = 0; count != 0; count -= done) {
		if (source->fd >= 0) {
			if (!read_some_rows(source, offset, to, row, step, count, &done,
				    ret_error))
				return false;
		} else {
			if (!fsdp_source_read(source, offset, to, row, ret_error))
				return false;
			done = 1;
		}
		offset += done * row;
		to += done * step;
	}
	return true;
}

bool fsdp_source_read_all(const struct fsdp_source *source, uint64_t offset,
	uint64_t size, struct fsdp_arena *arena, struct fsdp_span *ret_bytes,
	struct fsdp_error **ret_error)
{
	if (!is_inside(source, offset, size, ret_error))
		return false;
	unsigned char *bytes = fsdp_arena_take(arena, (size_t)size, 64);
	if (bytes == NULL)
		return fsdp_arena_fail(arena, ret_error);
	if (!fsdp_source_read(source, offset, bytes, (size_t)size, ret_error))
		return false;
	*ret_bytes = fsdp_span(bytes, (size_t)size);
	return true;
}

bool fsdp_source_refill(void *context, void *buffer, size_t size, size_t *ret_size,
	struct fsdp_error **ret_error)
{
	struct fsdp_source_rest *rest = context;
	*ret_size = (size_t)fsdp_min(size, rest->end - rest->at);
	if (!fsdp_source_read(&rest->source, rest->at, buffer, *ret_size, ret_error))
		return false;
	rest->at += *ret_size;
	return true;
}

/* The caller may have given a pipe that does not block. */
static bool wait_readable(int fd)
{
	struct pollfd one = { .fd = fd, .events = POLLIN };
	return poll(&one, 1, -1) >= 0 || errno == EINTR;
}

bool fsdp_source_drain(int fd, uint64_t ceiling, struct fsdp_arena *arena,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error)
{
	struct fsdp_pager pager;
	uint64_t size = 0;
	if (!fsdp_pager_init(&pager, arena, ret_error))
		return false;
	for (;;) {
		size_t room;
		unsigned char *bytes = fsdp_pager_room(&pager, &room);
		ssize_t got = read(fd, bytes, room);
		if (got == 0)
			return fsdp_pager_take(&pager, ret_source, ret_error);
		if (got < 0 && errno != EINTR && (errno != EAGAIN || !wait_readable(fd)))
			return fsdp_fail_errno(ret_error, errno, size, "cannot read");
		if (got < 0)
			continue;
		size += (uint64_t)got;
		if (size > ceiling)
			return fsdp_fail_limit(
				ret_error, FSDP_LIMIT_STDIN_BYTES, ceiling);
		fsdp_budget_give(arena->budget, (uint64_t)got);
		if (!fsdp_pager_filled(&pager, (size_t)got, ret_error))
			return false;
	}
}

bool fsdp_source_find_hole(const struct fsdp_source *source, uint64_t at,
	uint64_t *ret_begin, uint64_t *ret_end)
{
	if (source->fd < 0 || source->base != 0 || at >= source->size)
		return false;
	off_t hole = lseek(source->fd, (off_t)at, SEEK_HOLE);
	if (hole < 0 || (uint64_t)hole >= source->size)
		return false;
	off_t data = lseek(source->fd, hole, SEEK_DATA);
	*ret_begin = (uint64_t)hole;
	*ret_end = data < 0 ? source->size : fsdp_min((uint64_t)data, source->size);
	return *ret_begin < *ret_end;
}

bool fsdp_source_begins_safetensors(
	const struct fsdp_source *source, struct fsdp_error **ret_error)
{
	unsigned char head[9];
	return source->size >= sizeof head &&
	       fsdp_source_read(source, 0, head, sizeof head, ret_error) &&
	       head[8] == '{' && memcmp(head, "PK\3\4", 4) != 0;
}
