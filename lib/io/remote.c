/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Speaks with the process that reads what is not here (fsdp-inspect-remote(7)).
 *
 * A thread that waits reads the next frame and hands it out under the mutex; the others
 * wait for that. Nothing that the process sends is believed: each frame has a size that
 * is bounded, answers a request that is open, and brings bytes that were asked for, each
 * once and, in a block, in order. The first frame that does not ends the connection.
 *
 * Bytes are asked for and kept by blocks. What is announced is in a queue; as much of it
 * is asked for as fits into the memory that kept blocks leave.
 */
#include "io/directory.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/num.h"

enum {
	VERSION = 1,
	BLOCK = 64 << 10,
	FRAME_MOST = (1 << 20) + 64,
	RANGES_MOST = 4096,
	RANGE_BYTES = 16,
	RANGE_MOST = 4 << 20, /* of what one read asks for at once */
	TEXT_MOST = 4096,
	WINDOW_LEAST = 128 << 10,
	WINDOW_MOST = 8 << 20,
	PATIENCE_MS = 180000,
	CACHE_LEAST = 16 << 20,
	/* What is announced of a directory. */
	SMALL = 256 << 10,
	TAIL = 65557,
	DOCUMENTS_MOST = 64,
	FILES_MOST = 512,
	METADATA_MOST = 64 << 20,
};

enum remote_frame {
	HELLO = 1,
	ROOT,
	SEAL,
	LIST,
	READ = 6,
	STATS = 8,
	OK = 128,
	ROOT_IS,
	ENTRIES,
	DATA,
	END,
	FAIL,
	COUNTS,
};

struct block {
	uint64_t key; /* file's number, then the block's; 0: free */
	uint32_t size, filled;
	uint32_t request;
	bool was_read;
	uint64_t used;
	unsigned char *bytes;
};

/* A request whose answer is not complete. */
struct pending {
	struct pending *next;
	uint32_t id;
	enum remote_frame kind;
	bool waited; /* a thread waits for it, and frees it */
	bool done;
	unsigned char failed; /* a code of FAIL; 0: none */
	char detail[201];
	uint64_t left;   /* bytes of DATA */
	const char *url; /* of the root */
	struct remote_list *list;
	struct root *root;
	struct fsdp_remote_counts *counts;
};

/* The entries of a directory, once they came. */
struct remote_list {
	const char *path;
	struct fsdp_vec found; /* struct fsdp_entry, as they come */
	struct fsdp_entry *entries;
	size_t count;
	bool is_done, is_opened, was_announced;
	unsigned char failed;
	char detail[201];
};

struct root {
	const char *name;
	const char *url; /* for hints: the name, or "?" if the URL has a query */
	uint32_t number;
	enum fsdp_remote_kind kind;
	struct fsdp_remote_file *file;
	unsigned char failed;
	char detail[201];
};

struct ahead {
	uint32_t file;
	bool is_begun; /* a part of it is asked for, within RANGE_MOST */
	uint64_t offset, size;
};

struct fsdp_remote {
	int fd, patience;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool leading;              /* a thread reads from the socket */
	const char *broken, *hint; /* why nothing is read any more */
	uint32_t last_id;
	struct pending *requests;
	struct fsdp_limits limits;
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_vec roots, lists, files; /* root, remote_list *, fsdp_remote_file * */
	struct fsdp_vec queue;               /* struct ahead */
	size_t queued; /* of these the first that is not asked for completely */
	struct block *blocks;
	size_t block_count, last_block;
	uint64_t clock, waiting, queued_bytes;
	unsigned char *out; /* a READ that is being written */
	size_t out_ranges;
	uint32_t out_id;
	unsigned char in[FRAME_MOST];
};

/* ---- numbers and texts of frames ---- */

static void put(unsigned char *to, uint64_t number, size_t size)
{
	for (size_t i = 0; i < size; i++)
		to[i] = (unsigned char)(number >> (8 * i));
}

/* The rest of a frame; short is set if it was truncated. */
struct received {
	const unsigned char *at, *end;
	bool is_short;
};

static uint64_t take(struct received *frame, size_t size)
{
	uint64_t number = 0;
	if ((size_t)(frame->end - frame->at) < size) {
		frame->is_short = true;
		frame->at = frame->end;
		return 0;
	}
	for (size_t i = size; i-- > 0;)
		number = number << 8 | frame->at[i];
	frame->at += size;
	return number;
}

static struct fsdp_span parse_bytes(struct received *frame, size_t size)
{
	struct fsdp_span bytes = fsdp_span(frame->at, size);
	if ((size_t)(frame->end - frame->at) < size) {
		frame->is_short = true;
		frame->at = frame->end;
		return (struct fsdp_span){ 0 };
	}
	frame->at += size;
	return bytes;
}

static struct fsdp_span parse_text(struct received *frame)
{
	size_t size = (size_t)take(frame, 2);
	frame->is_short |= size > TEXT_MOST;
	return parse_bytes(frame, frame->is_short ? 0 : size);
}

/* ---- why something failed ---- */

enum { NOTHING = 2, NO_CREDENTIALS, DENIED, EXPIRED, NO_RANGES = 9, OTHER = 12 };

static const struct {
	enum fsdp_error_code code;
	const char *rule, *text, *hint;
} failures[] = {
	[1] = { FSDP_ERROR_SYSTEM, "FI9003", "no such bucket, container or repository",
		"check the name, and the endpoint if it is another store's" },
	[NOTHING] = { FSDP_ERROR_SYSTEM, "FI9003", "no such file or directory", NULL },
	[NO_CREDENTIALS] = { FSDP_ERROR_PERMISSION, NULL, "no credentials were found",
		NULL },
	[DENIED] = { FSDP_ERROR_PERMISSION, NULL, "access denied", NULL },
	[EXPIRED] = { FSDP_ERROR_PERMISSION, NULL, "the credentials expired", NULL },
	[6] = { FSDP_ERROR_SYSTEM, NULL, "the store asks to slow down",
		"try later, or FSDP_INSPECT_CONNECTIONS=4" },
	[7] = { FSDP_ERROR_DAMAGED, "FI2004",
		"the file changed since the directory was listed",
		"run again when no program writes to it" },
	[8] = { FSDP_ERROR_SYSTEM, NULL, "cannot reach the server",
		"check the name, the network and the proxy settings (HTTPS_PROXY); SSL_CERT_FILE names the certificates that are trusted" },
	[NO_RANGES] = { FSDP_ERROR_SYSTEM, NULL, "the server ignores range requests",
		NULL },
	[10] = { FSDP_ERROR_USAGE, NULL, "this scheme needs a Python package",
		"pip install -U obstore, or pip install 'fsdp-inspect[remote]'" },
	[11] = { FSDP_ERROR_SYSTEM, NULL, "the server redirects to another place", NULL },
	[OTHER] = { FSDP_ERROR_SYSTEM, NULL, "cannot be read", NULL },
};

/* What to do about credentials, by the first characters of a URL. */
static const struct {
	const char *scheme, *login, *denied;
} stores[] = {
	{ "s3:",
		"aws sso login, or AWS_PROFILE=NAME; a public bucket needs AWS_SKIP_SIGNATURE=true",
		"the credentials need s3:ListBucket on the bucket and s3:GetObject on its files" },
	{ "gs:", "gcloud auth application-default login",
		"the credentials need the role Storage Object Viewer on the bucket" },
	{ "a", "az login, or AZURE_STORAGE_CONNECTION_STRING",
		"the credentials need the role Storage Blob Data Reader" },
	{ "hf:", "hf auth login", "hf auth login, and accept the terms on its page" },
	{ "https://huggingface.co/", "hf auth login",
		"hf auth login, and accept the terms on its page" },
	{ "", "FSDP_INSPECT_HTTP_HEADER_FILE=FILE sends the header lines of a file",
		"FSDP_INSPECT_HTTP_HEADER_FILE=FILE sends the header lines of a file" },
};

static void add_hint(unsigned code, const char *url, struct fsdp_error **ret_error)
{
	size_t at = 0;
	while (strncmp(url, stores[at].scheme, strlen(stores[at].scheme)) != 0)
		at++;
	if (code == NO_CREDENTIALS || code == EXPIRED)
		fsdp_error_add_hint(ret_error, "%s", stores[at].login);
	else if (code == DENIED)
		fsdp_error_add_hint(ret_error, "%s", stores[at].denied);
	else if (code == NO_RANGES && strchr(url, '?') == NULL)
		fsdp_error_add_hint(ret_error, "curl -fLO %s", url);
	else if (failures[code].hint != NULL)
		fsdp_error_add_hint(ret_error, "%s", failures[code].hint);
}

static bool fail_with(
	unsigned code, const char *detail, const char *url, struct fsdp_error **ret_error)
{
	if (code == 0 || code >= FSDP_COUNT(failures))
		code = OTHER;
	const char *text = failures[code].text;
	bool has_place = *detail != '\0' && code != NOTHING;
	fsdp_fail(ret_error, failures[code].code, FSDP_UNKNOWN, "%s%s%s%s", text,
		has_place ? " (" : "", has_place ? detail : "", has_place ? ")" : "");
	if (failures[code].rule != NULL)
		fsdp_error_add_rule(ret_error, failures[code].rule);
	if (code == NOTHING && *detail != '\0')
		fsdp_error_add_hint(ret_error, "similar names: %s", detail);
	else
		add_hint(code, url, ret_error);
	return false;
}

static bool fail_broken(const struct fsdp_remote *remote, struct fsdp_error **ret_error)
{
	fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN, "%s", remote->broken);
	if (remote->hint != NULL)
		fsdp_error_add_hint(ret_error, "%s", remote->hint);
	return false;
}

/* Always false. */
static bool break_off(struct fsdp_remote *remote, const char *why)
{
	if (remote->broken == NULL)
		remote->broken = why;
	pthread_cond_broadcast(&remote->changed);
	return false;
}

static bool break_rules(struct fsdp_remote *remote)
{
	return break_off(remote, "the helper sent an invalid message");
}

/* ---- asking ---- */

static bool write_all(struct fsdp_remote *remote, const unsigned char *bytes, size_t size)
{
	while (size != 0) {
		ssize_t done = write(remote->fd, bytes, size);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return break_off(remote, "the helper ended");
		bytes += done;
		size -= (size_t)done;
	}
	return true;
}

static void forget_request(struct fsdp_remote *remote, struct pending *request)
{
	struct pending **place = &remote->requests;
	while (*place != request)
		place = &(*place)->next;
	*place = request->next;
	free(request);
}

static struct pending *new_request(
	struct fsdp_remote *remote, enum remote_frame kind, bool waited)
{
	struct pending *request = calloc(1, sizeof *request);
	if (request == NULL)
		return NULL;
	*request = (struct pending){
		.next = remote->requests,
		.id = ++remote->last_id,
		.kind = kind,
		.waited = waited,
	};
	remote->requests = request;
	return request;
}

/* A frame with numbers and one text; `size` bytes of payload precede the text. */
static bool send_frame(struct fsdp_remote *remote, uint32_t id, enum remote_frame kind,
	const void *payload, size_t size, const char *text)
{
	unsigned char frame[9 + 16 + 2 + TEXT_MOST];
	size_t length = text != NULL ? strlen(text) : 0, at = 9 + size;
	if (length > TEXT_MOST || remote->broken != NULL)
		return false;
	if (size != 0)
		memcpy(frame + 9, payload, size);
	if (text != NULL) {
		put(frame + at, length, 2);
		memcpy(frame + at + 2, text, length);
		at += 2 + length;
	}
	put(frame, at - 4, 4);
	put(frame + 4, id, 4);
	frame[8] = (unsigned char)kind;
	bool good = write_all(remote, frame, at);
	explicit_bzero(frame, at); /* a URL has secrets in its query */
	return good;
}

/* Sends the READ that was gathered. */
static bool send_read(struct fsdp_remote *remote)
{
	size_t size = 9 + remote->out_ranges * RANGE_BYTES;
	if (remote->out_ranges == 0)
		return true;
	put(remote->out, size - 4, 4);
	put(remote->out + 4, remote->out_id, 4);
	remote->out[8] = READ;
	remote->out_ranges = 0;
	return remote->broken == NULL && write_all(remote, remote->out, size);
}

/* ---- blocks ---- */

static uint64_t key_of(const struct fsdp_remote_file *file, uint64_t index)
{
	return (uint64_t)(file->number + 1) << 40 | index;
}

static struct block *find_block(struct fsdp_remote *remote, uint64_t key)
{
	if (remote->blocks[remote->last_block].key == key)
		return &remote->blocks[remote->last_block];
	for (size_t i = 0; i < remote->block_count; i++)
		if (remote->blocks[i].key == key) {
			remote->last_block = i;
			return &remote->blocks[i];
		}
	return NULL;
}

static bool is_ready(const struct block *block)
{
	return block->filled == block->size;
}

/* A free block, or one that is given up: of those that were read the one that waited
 * longest, else of the others the one that was announced last. NULL: all are on their
 * way. */
static struct block *free_block(struct fsdp_remote *remote, bool give_up)
{
	struct block *old = NULL;
	for (size_t i = 0; i < remote->block_count; i++) {
		struct block *block = &remote->blocks[i];
		if (block->key == 0) {
			old = block;
			break;
		}
		if (!is_ready(block) || (!block->was_read && !give_up))
			continue;
		if (old == NULL || (block->was_read && !old->was_read) ||
			(block->was_read == old->was_read &&
				(block->was_read ? block->used < old->used
						 : block->used > old->used)))
			old = block;
	}
	if (old != NULL && old->bytes == NULL)
		old->bytes = malloc(BLOCK);
	return old != NULL && old->bytes != NULL ? old : NULL;
}

/* Adds a block that is not there to the READ that is gathered. */
static bool request_bytes(struct fsdp_remote *remote, const struct fsdp_remote_file *file,
	uint64_t index, struct block *block, struct pending *request)
{
	uint64_t offset = index * BLOCK;
	uint32_t size = (uint32_t)fsdp_min(BLOCK, file->size - offset);
	unsigned char *last = remote->out + 9 + (remote->out_ranges - 1) * RANGE_BYTES;
	struct received before = { last, last + RANGE_BYTES, false };
	*block = (struct block){
		.key = key_of(file, index),
		.size = size,
		.request = request->id,
		.used = ++remote->clock,
		.bytes = block->bytes,
	};
	request->left += size;
	remote->queued_bytes += size;
	if (remote->out_ranges != 0 && take(&before, 4) == file->number) {
		uint64_t begin = take(&before, 8), length = take(&before, 4);
		if (begin + length == offset && length + size <= RANGE_MOST) {
			put(last + 12, length + size, 4);
			return true;
		}
	}
	last += RANGE_BYTES;
	put(last, file->number, 4);
	put(last + 4, offset, 8);
	put(last + 12, size, 4);
	remote->out_ranges++;
	remote->waiting++;
	return remote->out_ranges < RANGES_MOST;
}

/* A READ is begun: nothing is gathered. */
static struct pending *begin_read(struct fsdp_remote *remote, bool waited)
{
	struct pending *request = new_request(remote, READ, waited);
	if (request != NULL)
		remote->out_id = request->id;
	remote->out_ranges = 0;
	return request;
}

/* Before a block is asked for. */
static bool is_at_limit(const struct fsdp_remote *remote, enum fsdp_limit *ret_limit)
{
	*ret_limit = FSDP_LIMIT_REMOTE_REQUESTS;
	if (remote->waiting >= fsdp_limit(&remote->limits, FSDP_LIMIT_REMOTE_REQUESTS))
		return true;
	*ret_limit = FSDP_LIMIT_REMOTE_BYTES;
	return remote->queued_bytes >=
	       fsdp_limit(&remote->limits, FSDP_LIMIT_REMOTE_BYTES);
}

/* Asks for what is next in the queue, once half of the blocks were read. What is begun of
 * a range is asked for to its end, so that it is one request. */
static void request_ahead(struct fsdp_remote *remote)
{
	size_t most = remote->block_count / 4 * 3, ahead;
	struct pending *request = NULL;
	enum fsdp_limit limit;
	bool room = true;
	if (remote->queued == remote->queue.count)
		remote->queued = remote->queue.count = 0;
	if (remote->queue.count == 0 || remote->broken != NULL)
		return;
	/* Those on their way, and those that were not read yet. */
	size_t count = 0;
	for (size_t i = 0; i < remote->block_count; i++)
		count += remote->blocks[i].key != 0 && !remote->blocks[i].was_read;
	ahead = count;
	if (ahead > remote->block_count / 2)
		return;
	while (room && remote->queued < remote->queue.count) {
		struct ahead *range = fsdp_vec_at(&remote->queue, remote->queued);
		const struct fsdp_remote_file *file =
			fsdp_remote_file(remote, range->file);
		uint64_t index = range->offset / BLOCK;
		uint64_t wanted = fsdp_min(range->size, RANGE_MOST) / BLOCK;
		struct block *block = NULL;
		if (range->size == 0) {
			remote->queued++;
			continue;
		}
		if (!range->is_begun && ahead + wanted >= most)
			break;
		if (find_block(remote, key_of(file, index)) == NULL) {
			if (request == NULL && !is_at_limit(remote, &limit))
				request = begin_read(remote, false);
			block = request != NULL ? free_block(remote, false) : NULL;
			if (block == NULL)
				break;
			room = request_bytes(remote, file, index, block, request);
			ahead++;
		}
		uint64_t end = fsdp_min((index + 1) * BLOCK, range->offset + range->size);
		range->size -= end - range->offset;
		range->offset = end;
		range->is_begun = end % RANGE_MOST != 0;
	}
	if (request != NULL && request->left == 0)
		forget_request(remote, request);
	else
		send_read(remote);
}

/* ---- answers ---- */

static bool is_printable(struct fsdp_span text)
{
	for (size_t i = 0; i < text.size; i++)
		if (text.data[i] < ' ' || text.data[i] > '~')
			return false;
	return true;
}

/* Names as a local directory may have them, with a slash between two. */
static bool are_names(struct fsdp_span names)
{
	if (names.size == 0 || names.size > TEXT_MOST)
		return false;
	while (names.data != NULL) {
		struct fsdp_span name = fsdp_span_first(names, '/');
		if (name.size == 0 || fsdp_span_is(name, ".") ||
			fsdp_span_is(name, "..") ||
			memchr(name.data, '\0', name.size) != NULL)
			return false;
		names = name.size == names.size ? (struct fsdp_span){ 0 }
						: fsdp_span(names.data + name.size + 1,
							  names.size - name.size - 1);
	}
	return true;
}

static bool parse_entry(struct fsdp_remote *remote, const struct pending *request,
	struct received *frame, struct fsdp_entry *ret_entry)
{
	static const unsigned char digests[] = { 0, 32, 16, 4, 8 };
	unsigned kind = (unsigned)take(frame, 1);
	uint32_t number = (uint32_t)take(frame, 4);
	uint64_t size = take(frame, 8);
	int64_t mtime = (int64_t)take(frame, 8);
	struct fsdp_span name = parse_text(frame);
	unsigned digest = (unsigned)take(frame, 1);
	if (frame->is_short || kind > 1 || digest >= sizeof digests)
		return break_rules(remote);
	struct fsdp_span bytes = parse_bytes(frame, digests[digest]);
	if (frame->is_short || !are_names(name) ||
		memchr(name.data, '/', name.size) != NULL || size >> 55 != 0 ||
		(kind == 0 && number != remote->files.count) || number >= 1 << 23)
		return break_rules(remote);
	*ret_entry = (struct fsdp_entry){
		.name = fsdp_arena_copy(&remote->arena, name),
		.kind = kind == 0 ? FSDP_ENTRY_FILE : FSDP_ENTRY_DIRECTORY,
		.size = kind == 0 ? size : 0,
		.mtime_s = mtime / 1000000000,
		.mtime_ns = (uint32_t)(mtime % 1000000000 >= 0 ? mtime % 1000000000 : 0),
		.file = number,
	};
	if (ret_entry->name.data == NULL)
		return break_off(remote, "out of memory");
	if (kind != 0)
		return true;
	struct fsdp_remote_file *file = FSDP_TAKE(&remote->arena, file, 1);
	if (file == NULL || !fsdp_vec_add(&remote->files, &file))
		return break_off(remote, "out of memory");
	*file = (struct fsdp_remote_file){
		.remote = remote,
		.number = number,
		.size = size,
		.root = request->url,
		.has_sha256 = digest == 1,
	};
	if (digest == 1)
		memcpy(file->sha256, bytes.data, sizeof file->sha256);
	return true;
}

static bool parse_entries(
	struct fsdp_remote *remote, struct pending *request, struct received *frame)
{
	uint64_t most = fsdp_limit(&remote->limits, FSDP_LIMIT_FILES);
	while (frame->at != frame->end) {
		struct fsdp_entry entry;
		if (request->list->found.count >= most)
			return break_off(remote,
				"the directory has more entries than the limit files");
		if (!parse_entry(remote, request, frame, &entry))
			return false;
		if (!fsdp_vec_add(&request->list->found, &entry))
			return break_off(remote, "out of memory");
	}
	return true;
}

static bool parse_root(
	struct fsdp_remote *remote, struct pending *request, struct received *frame)
{
	struct root *root = request->root;
	unsigned kind = (unsigned)take(frame, 1);
	struct fsdp_entry entry;
	if (kind > 2)
		return break_rules(remote);
	if (kind == 1) {
		if (!parse_entry(remote, request, frame, &entry))
			return false;
		if (entry.kind != FSDP_ENTRY_FILE)
			return break_rules(remote);
		root->file = fsdp_remote_file(remote, entry.file);
	}
	parse_text(frame); /* the revision */
	root->kind = kind == 0   ? FSDP_REMOTE_NOTHING
		     : kind == 1 ? FSDP_REMOTE_FILE
				 : FSDP_REMOTE_FOLDER;
	request->done = true;
	return true;
}

static bool parse_data(
	struct fsdp_remote *remote, struct pending *request, struct received *frame)
{
	uint64_t number = take(frame, 4), offset = take(frame, 8);
	if (frame->is_short || number >= remote->files.count ||
		(size_t)(frame->end - frame->at) > request->left || offset > INT64_MAX)
		return break_rules(remote);
	const struct fsdp_remote_file *file = fsdp_remote_file(remote, (uint32_t)number);
	while (frame->at != frame->end) {
		struct block *block = find_block(remote, key_of(file, offset / BLOCK));
		if (block == NULL || block->request != request->id || is_ready(block) ||
			offset % BLOCK != block->filled)
			return break_rules(remote);
		size_t part = (size_t)fsdp_min(
			(uint64_t)(frame->end - frame->at), block->size - block->filled);
		memcpy(block->bytes + block->filled, frame->at, part);
		block->filled += (uint32_t)part;
		frame->at += part;
		offset += part;
		request->left -= part;
	}
	return true;
}

static bool parse_counts(
	struct fsdp_remote *remote, struct pending *request, struct received *frame)
{
	struct fsdp_remote_counts *counts = request->counts;
	counts->lists = take(frame, 8);
	counts->gets = take(frame, 8);
	counts->heads = take(frame, 8);
	counts->retries = take(frame, 8);
	counts->bytes = take(frame, 8);
	struct fsdp_span name = parse_text(frame);
	if (name.size >= sizeof counts->backend || !is_printable(name))
		return break_rules(remote);
	if (name.size != 0)
		memcpy(counts->backend, name.data, name.size);
	counts->backend[name.size] = '\0';
	request->done = true;
	return true;
}

static bool parse_failure(
	struct fsdp_remote *remote, struct pending *request, struct received *frame)
{
	unsigned code = (unsigned)take(frame, 1);
	take(frame, 4);
	struct fsdp_span detail = parse_text(frame);
	if (code == 0 || code >= sizeof failures / sizeof *failures ||
		detail.size >= sizeof request->detail || !is_printable(detail))
		return break_rules(remote);
	request->failed = (unsigned char)code;
	if (detail.size != 0)
		memcpy(request->detail, detail.data, detail.size);
	/* What was asked for and did not come is not there. */
	for (size_t i = 0; i < remote->block_count; i++)
		if (remote->blocks[i].key != 0 &&
			remote->blocks[i].request == request->id &&
			!is_ready(&remote->blocks[i]))
			remote->blocks[i].key = 0;
	request->done = true;
	return true;
}

static void announce(
	struct fsdp_remote *remote, uint32_t number, uint64_t offset, uint64_t size)
{
	struct ahead range = { number, false, offset, size };
	struct ahead *last =
		remote->queue.count > remote->queued
			? fsdp_vec_at(&remote->queue, remote->queue.count - 1)
			: NULL;
	if (size == 0)
		return;
	/* What is next to it goes with it. */
	if (last != NULL && last->file == number && offset >= last->offset &&
		offset <= last->offset + last->size + BLOCK) {
		if (offset + size - last->offset > last->size)
			last->size = offset + size - last->offset;
		return;
	}
	/* Without memory it is asked for when it is read. */
	if (!fsdp_vec_add(&remote->queue, &range))
		return;
}

static void announce_folder(struct fsdp_remote *remote, struct remote_list *list)
{
	uint64_t room = (uint64_t)remote->block_count * BLOCK / 2;
	size_t document_count = 0, file_count = 0;
	if (list->was_announced)
		return;
	list->was_announced = true;
	for (size_t i = 0; i < list->count; i++) {
		const struct fsdp_entry *entry = &list->entries[i];
		struct fsdp_span name = entry->name;
		bool is_packed = fsdp_span_ends_any(name, ".pt .pth .bin .ckpt");
		uint64_t head = 0, tail = 0;
		if (entry->kind != FSDP_ENTRY_FILE || entry->size == 0)
			continue;
		if (fsdp_span_is(name, ".metadata")) {
			if (entry->size <= METADATA_MOST)
				head = entry->size;
		} else if (is_packed || fsdp_span_ends(name, FSDP_SPAN(".safetensors"))) {
			if (file_count++ < FILES_MOST) {
				head = entry->size <= SMALL ? entry->size : BLOCK;
				tail = is_packed && entry->size > SMALL ? TAIL : 0;
			}
		} else if (entry->size <= SMALL &&
			   (fsdp_span_ends_any(name, ".json .txt .yaml .toml") ||
				   memchr(name.data, '.', name.size) == NULL) &&
			   document_count++ < DOCUMENTS_MOST) {
			head = entry->size;
		}
		head = fsdp_min(head, entry->size);
		if (head + tail > room)
			continue;
		room -= head + tail;
		announce(remote, entry->file, 0, head);
		if (tail != 0)
			announce(remote, entry->file, entry->size - tail, tail);
	}
}

static bool end_list(struct fsdp_remote *remote, const struct pending *request)
{
	struct remote_list *list = request->list;
	list->is_done = true;
	list->failed = request->failed;
	memcpy(list->detail, request->detail, sizeof list->detail);
	/* By name, each once: a directory counts more than an object of its name. */
	size_t kept = 0;
	list->entries =
		FSDP_TAKE(list->found.arena, list->entries, list->found.count + 1);
	if (list->entries == NULL)
		return false;
	for (size_t i = 0; i < list->found.count; i++)
		list->entries[i] = *(struct fsdp_entry *)fsdp_vec_at(&list->found, i);
	qsort(list->entries, list->found.count, sizeof *list->entries,
		fsdp_entry_compare);
	for (size_t i = 0; i < list->found.count; i++) {
		if (kept != 0 && fsdp_span_equal(list->entries[kept - 1].name,
					 list->entries[i].name)) {
			if (list->entries[i].kind == FSDP_ENTRY_DIRECTORY)
				list->entries[kept - 1] = list->entries[i];
			continue;
		}
		list->entries[kept++] = list->entries[i];
	}
	list->count = kept;
	if (list->is_opened)
		announce_folder(remote, list);
	return true;
}

static bool parse_frame(struct fsdp_remote *remote, size_t size)
{
	struct received frame = { remote->in, remote->in + size, false };
	uint32_t id = (uint32_t)take(&frame, 4);
	struct pending *request = remote->requests;
	while (request != NULL && request->id != id)
		request = request->next;
	unsigned kind = (unsigned)take(&frame, 1);
	bool good = false;
	if (request == NULL || request->done)
		return break_rules(remote);
	if (kind == FAIL)
		good = parse_failure(remote, request, &frame);
	else if (kind == OK && (request->kind == HELLO || request->kind == SEAL))
		request->done = good = (parse_text(&frame), true);
	else if (kind == ROOT_IS && request->kind == ROOT)
		good = parse_root(remote, request, &frame);
	else if (kind == ENTRIES && request->kind == LIST)
		good = parse_entries(remote, request, &frame);
	else if (kind == DATA && request->kind == READ)
		good = parse_data(remote, request, &frame);
	else if (kind == COUNTS && request->kind == STATS)
		good = parse_counts(remote, request, &frame);
	else if (kind == END && (request->kind == LIST || request->kind == READ))
		request->done = good = request->left == 0;
	if (!good || frame.is_short || frame.at != frame.end)
		return break_rules(remote);
	if (request->done && request->kind == LIST && !end_list(remote, request))
		return break_off(remote, "out of memory");
	if (request->done && !request->waited)
		forget_request(remote, request);
	return true;
}

/* ---- waiting ---- */

/* Exactly that; the mutex is not held. NULL, or why not. */
static const char *read_all(int fd, int patience, unsigned char *bytes, size_t size)
{
	while (size != 0) {
		struct pollfd one = { .fd = fd, .events = POLLIN };
		int ready = poll(&one, 1, patience);
		if (ready == 0)
			return "the helper does not answer";
		ssize_t got = ready > 0 ? read(fd, bytes, size) : -1;
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got <= 0)
			return "the helper ended";
		bytes += got;
		size -= (size_t)got;
	}
	return NULL;
}

/* Until something changed: reads a frame, or waits for who does. */
static bool wait_frame(struct fsdp_remote *remote)
{
	unsigned char head[4];
	const char *why;
	uint64_t size = 0;
	if (remote->broken != NULL)
		return false;
	if (remote->leading) {
		pthread_cond_wait(&remote->changed, &remote->mutex);
		return remote->broken == NULL;
	}
	remote->leading = true;
	pthread_mutex_unlock(&remote->mutex);
	why = read_all(remote->fd, remote->patience, head, sizeof head);
	if (why == NULL) {
		struct received frame = { head, head + sizeof head, false };
		size = take(&frame, 4);
		if (size >= 5 && size <= FRAME_MOST)
			why = read_all(
				remote->fd, remote->patience, remote->in, (size_t)size);
	}
	pthread_mutex_lock(&remote->mutex);
	remote->leading = false;
	if (why != NULL)
		return break_off(remote, why);
	if (size < 5 || size > FRAME_MOST)
		return break_rules(remote);
	bool good = parse_frame(remote, (size_t)size);
	pthread_cond_broadcast(&remote->changed);
	return good;
}

/* Waits for the answer and frees the request. */
static bool finish(struct fsdp_remote *remote, struct pending *request,
	struct fsdp_error **ret_error)
{
	if (request == NULL)
		return fsdp_fail_memory(ret_error);
	while (!request->done && wait_frame(remote))
		;
	bool good = request->done && request->failed == 0;
	if (!request->done)
		fail_broken(remote, ret_error);
	else if (!good)
		fail_with(request->failed, request->detail, "", ret_error);
	forget_request(remote, request);
	return good;
}

/* ---- roots and lists ---- */

static struct root *root_of(struct fsdp_remote *remote, const char *path)
{
	struct root *best = NULL;
	size_t most = 0;
	for (size_t i = 0; i < remote->roots.count; i++) {
		struct root *root = fsdp_vec_at(&remote->roots, i);
		size_t size = strlen(root->name);
		if (size >= most && strncmp(root->name, path, size) == 0 &&
			(path[size] == '\0' || path[size] == '/')) {
			best = root;
			most = size;
		}
	}
	return best;
}

bool fsdp_remote_add(struct fsdp_remote *remote, const char *name, const char *url)
{
	struct root *root;
	pthread_mutex_lock(&remote->mutex);
	const char *copy =
		(const char *)fsdp_arena_copy(&remote->arena, fsdp_span_text(name)).data;
	root = copy != NULL ? fsdp_vec_push(&remote->roots) : NULL;
	if (root != NULL) {
		struct pending *request = NULL;
		*root = (struct root){
			.name = copy,
			.url = strchr(url, '?') == NULL ? copy : "?",
			.number = (uint32_t)remote->roots.count - 1,
			.kind = FSDP_REMOTE_NOTHING,
		};
		if (remote->broken == NULL)
			request = new_request(remote, ROOT, true);
		if (request != NULL) {
			request->root = root;
			request->url = root->url;
			if (!send_frame(remote, request->id, ROOT, NULL, 0, url) &&
				remote->broken == NULL) {
				request->done = true; /* it is too long */
				request->failed = NOTHING;
			}
			while (!request->done && wait_frame(remote))
				;
			root->failed = request->done ? request->failed : 0;
			memcpy(root->detail, request->detail, sizeof root->detail);
			forget_request(remote, request);
		}
	}
	pthread_mutex_unlock(&remote->mutex);
	return root != NULL;
}

/* The list of a directory below a root, which is asked for unless it was. NULL: out of
 * memory. */
static struct remote_list *request_list(
	struct fsdp_remote *remote, const struct root *root, const char *path)
{
	unsigned char payload[4];
	for (size_t i = remote->lists.count; i-- > 0;) {
		struct remote_list *list =
			*(struct remote_list **)fsdp_vec_at(&remote->lists, i);
		if (strcmp(list->path, path) == 0)
			return list;
	}
	struct remote_list *list = FSDP_TAKE(&remote->arena, list, 1);
	struct fsdp_span copy = fsdp_arena_copy(&remote->arena, fsdp_span_text(path));
	struct pending *request = new_request(remote, LIST, false);
	if (list == NULL || copy.data == NULL || request == NULL ||
		!fsdp_vec_add(&remote->lists, &list)) {
		if (request != NULL)
			forget_request(remote, request);
		return NULL;
	}
	*list = (struct remote_list){ .path = (const char *)copy.data };
	fsdp_vec_init(&list->found, &remote->arena, sizeof(struct fsdp_entry));
	request->list = list;
	request->url = root->url;
	const char *below = path + strlen(root->name);
	put(payload, root->number, 4);
	remote->waiting++;
	if (!send_frame(remote, request->id, LIST, payload, sizeof payload,
		    below + (*below == '/'))) {
		/* Unless the connection ended, the path is too long. */
		list->is_done = remote->broken == NULL;
		list->failed = NOTHING;
		forget_request(remote, request);
	}
	return list;
}

static struct remote_list *list_folder(struct fsdp_remote *remote,
	const struct root *root, const char *path, struct fsdp_error **ret_error)
{
	struct remote_list *list = request_list(remote, root, path);
	if (list == NULL) {
		fsdp_fail_memory(ret_error);
		return NULL;
	}
	while (!list->is_done && wait_frame(remote))
		;
	if (!list->is_done)
		fail_broken(remote, ret_error);
	else if (list->failed != 0)
		fail_with(list->failed, list->detail, root->url, ret_error);
	return list->is_done && list->failed == 0 ? list : NULL;
}

/* Why a root cannot be read; true: it can. */
static bool check_root(const struct fsdp_remote *remote, const struct root *root,
	struct fsdp_error **ret_error)
{
	if (root->failed != 0)
		return fail_with(root->failed, root->detail, root->url, ret_error);
	if (root->kind == FSDP_REMOTE_NOTHING && remote->broken != NULL)
		return fail_broken(remote, ret_error);
	return true;
}

/* Files around a remote root are not read. */
static bool is_above_root(struct fsdp_remote *remote, const char *path)
{
	size_t size = strlen(path);
	for (size_t i = 0; i < remote->roots.count; i++) {
		const struct root *root = fsdp_vec_at(&remote->roots, i);
		if (strncmp(root->name, path, size) == 0 && root->name[size] == '/')
			return true;
	}
	return false;
}

static bool look(struct fsdp_remote *remote, const char *path,
	enum fsdp_remote_kind *ret_kind, struct fsdp_remote_file **ret_file,
	struct fsdp_error **ret_error)
{
	struct root *root = root_of(remote, path);
	*ret_kind = is_above_root(remote, path) ? FSDP_REMOTE_NOTHING : FSDP_REMOTE_LOCAL;
	if (root == NULL)
		return true;
	*ret_kind = FSDP_REMOTE_NOTHING;
	if (!check_root(remote, root, ret_error))
		return false;
	const char *below = path + strlen(root->name);
	if (*below == '\0') {
		*ret_kind = root->kind;
		*ret_file = root->file;
		return true;
	}
	if (root->kind != FSDP_REMOTE_FOLDER || !are_names(fsdp_span_text(below + 1)))
		return true;
	const char *slash = strrchr(path, '/');
	struct fsdp_span name = fsdp_span_text(slash + 1);
	char *parent = strndup(path, (size_t)(slash - path));
	if (parent == NULL)
		return fsdp_fail_memory(ret_error);
	struct remote_list *list = list_folder(remote, root, parent, ret_error);
	free(parent);
	if (list == NULL)
		return false;
	for (size_t i = 0; i < list->count; i++) {
		const struct fsdp_entry *entry = &list->entries[i];
		if (!fsdp_span_equal(entry->name, name))
			continue;
		*ret_kind = entry->kind == FSDP_ENTRY_FILE ? FSDP_REMOTE_FILE
							   : FSDP_REMOTE_FOLDER;
		if (entry->kind == FSDP_ENTRY_FILE)
			*ret_file = fsdp_remote_file(remote, entry->file);
	}
	return true;
}

bool fsdp_remote_look(struct fsdp_remote *remote, const char *path,
	enum fsdp_remote_kind *ret_kind, struct fsdp_remote_file **ret_file,
	struct fsdp_error **ret_error)
{
	*ret_kind = FSDP_REMOTE_LOCAL;
	if (remote == NULL)
		return true;
	pthread_mutex_lock(&remote->mutex);
	bool good = look(remote, path, ret_kind, ret_file, ret_error);
	pthread_mutex_unlock(&remote->mutex);
	return good;
}

enum fsdp_remote_kind fsdp_remote_kind(struct fsdp_remote *remote, const char *path)
{
	enum fsdp_remote_kind kind;
	struct fsdp_remote_file *file;
	(void)fsdp_remote_look(remote, path, &kind, &file, NULL);
	return kind;
}

bool fsdp_remote_list(struct fsdp_remote *remote, const char *path, bool is_opened,
	const struct fsdp_entry **ret_entries, size_t *ret_count,
	struct fsdp_error **ret_error)
{
	pthread_mutex_lock(&remote->mutex);
	const struct root *root = root_of(remote, path);
	struct remote_list *list = root != NULL && check_root(remote, root, ret_error)
					   ? list_folder(remote, root, path, ret_error)
					   : NULL;
	if (list != NULL && is_opened) {
		announce_folder(remote, list);
		request_ahead(remote);
	}
	pthread_mutex_unlock(&remote->mutex);
	if (list == NULL)
		return false;
	*ret_entries = list->entries;
	*ret_count = list->count;
	return true;
}

const char *fsdp_remote_name(struct fsdp_remote *remote, const char *path, size_t index,
	enum fsdp_remote_kind *ret_kind)
{
	const struct fsdp_entry *entries;
	size_t count;
	if (!fsdp_remote_list(remote, path, false, &entries, &count, NULL) ||
		index >= count)
		return NULL;
	*ret_kind = entries[index].kind == FSDP_ENTRY_FILE ? FSDP_REMOTE_FILE
							   : FSDP_REMOTE_FOLDER;
	return (const char *)entries[index].name.data;
}

void fsdp_remote_expect_directory(
	struct fsdp_remote *remote, const char *path, bool is_opened)
{
	enum fsdp_limit limit;
	if (remote == NULL)
		return;
	pthread_mutex_lock(&remote->mutex);
	enum fsdp_remote_kind kind;
	struct fsdp_remote_file *file;
	struct remote_list *list =
		look(remote, path, &kind, &file, NULL) && kind == FSDP_REMOTE_FOLDER &&
				remote->broken == NULL && !is_at_limit(remote, &limit)
			? request_list(remote, root_of(remote, path), path)
			: NULL;
	if (list != NULL)
		list->is_opened |= is_opened;
	if (list != NULL && list->is_opened && list->is_done && list->failed == 0)
		announce_folder(remote, list);
	pthread_mutex_unlock(&remote->mutex);
}

struct fsdp_remote_file *fsdp_remote_file(struct fsdp_remote *remote, uint32_t number)
{
	return *(struct fsdp_remote_file **)fsdp_vec_at(&remote->files, number);
}

/* ---- reading ---- */

/* Whether all blocks from the first to the last are there; asks for those that are not on
 * their way. */
static bool have_blocks(struct fsdp_remote *remote, struct fsdp_remote_file *file,
	uint64_t first, uint64_t last, struct pending **request, bool *limited,
	enum fsdp_limit *ret_limit)
{
	bool ready = true, begun = false;
	for (uint64_t i = first; i <= last; i++) {
		struct block *block = find_block(remote, key_of(file, i));
		if (block != NULL) {
			ready &= is_ready(block);
			block->used = ++remote->clock;
			continue;
		}
		ready = false;
		if (*request != NULL && !begun)
			continue; /* the one that is open is waited for first */
		block = free_block(remote, true);
		if (block == NULL)
			continue;
		*limited |= is_at_limit(remote, ret_limit);
		if (*limited)
			break;
		if (!begun)
			*request = begin_read(remote, true);
		if (*request == NULL)
			break;
		begun = true;
		request_bytes(remote, file, i, block, *request);
	}
	if (begun)
		send_read(remote);
	return ready;
}

static bool get_blocks(struct fsdp_remote *remote, struct fsdp_remote_file *file,
	uint64_t first, uint64_t last, struct fsdp_error **ret_error)
{
	struct pending *request = NULL;
	enum fsdp_limit limit;
	bool good = true;
	bool limited = false;
	while (good &&
		!have_blocks(remote, file, first, last, &request, &limited, &limit)) {
		if (limited) {
			good = fsdp_fail_limit(
				ret_error, limit, fsdp_limit(&remote->limits, limit));
		} else if (request != NULL && request->done) {
			if (request->failed != 0)
				good = fail_with(request->failed, request->detail,
					file->root, ret_error);
			forget_request(remote, request);
			request = NULL;
		} else if (remote->broken == NULL && remote->requests == NULL) {
			good = fsdp_fail_memory(ret_error);
		} else if (!wait_frame(remote)) {
			good = fail_broken(remote, ret_error);
		}
	}
	/* Another thread may need what is on its way. */
	if (request != NULL && request->done)
		forget_request(remote, request);
	else if (request != NULL)
		request->waited = false;
	return good;
}

bool fsdp_remote_read(struct fsdp_remote_file *file, uint64_t offset, void *buffer,
	size_t size, struct fsdp_error **ret_error)
{
	struct fsdp_remote *remote = file->remote;
	unsigned char *to = buffer;
	bool good = true;
	pthread_mutex_lock(&remote->mutex);
	/* Reading in sequence is going on. */
	if (size != 0 && offset == file->next && offset != 0) {
		uint64_t end = offset + size;
		uint64_t begin = end > file->ahead ? end : file->ahead;
		file->window = fsdp_min(
			(file->window > size ? file->window : size) * 2, WINDOW_MOST);
		uint64_t until = fsdp_min(end + file->window, file->size);
		if (file->window >= WINDOW_LEAST && begin < until &&
			begin - end <= file->window / 2 &&
			remote->queued == remote->queue.count) {
			announce(remote, file->number, begin, until - begin);
			file->ahead = until;
		}
	} else if (offset != file->next) {
		file->window = file->ahead = 0;
	}
	file->next = offset + size;
	while (good && size != 0) {
		uint64_t first = offset / BLOCK;
		uint64_t part = fsdp_min(size, RANGE_MOST - offset % BLOCK);
		uint64_t last = (offset + part - 1) / BLOCK;
		request_ahead(remote);
		good = get_blocks(remote, file, first, last, ret_error);
		for (uint64_t i = first; i <= last && good; i++) {
			struct block *block = find_block(remote, key_of(file, i));
			size_t skip = (size_t)(offset % BLOCK);
			size_t piece = (size_t)fsdp_min(block->size - skip, size);
			memcpy(to, block->bytes + skip, piece);
			block->was_read = true;
			to += piece;
			offset += piece;
			size -= piece;
		}
	}
	pthread_mutex_unlock(&remote->mutex);
	return good;
}

void fsdp_remote_expect(struct fsdp_remote_file *file, uint64_t offset, uint64_t size)
{
	struct fsdp_remote *remote = file->remote;
	uint64_t begin = offset, end = offset + size;
	pthread_mutex_lock(&remote->mutex);
	/* What is part of a longer range, present or requested is not requested twice. */
	if (end > file->expected) {
		while (begin < end &&
			find_block(remote, key_of(file, begin / BLOCK)) != NULL)
			begin = fsdp_min(end, (begin / BLOCK + 1) * BLOCK);
		announce(remote, file->number, begin, end - begin);
		if (offset <= file->expected)
			file->expected = end;
	}
	pthread_mutex_unlock(&remote->mutex);
}

/* ---- begin and end ---- */

bool fsdp_remote_new(int descriptor, const struct fsdp_limit_setting *limits,
	size_t limit_count, struct fsdp_remote **ret_remote,
	struct fsdp_error **ret_error)
{
	struct fsdp_remote *remote = calloc(1, sizeof *remote);
	if (remote == NULL) {
		if (descriptor >= 0)
			close(descriptor);
		return fsdp_fail_memory(ret_error);
	}
	remote->fd = descriptor;
	remote->patience = PATIENCE_MS;
	fsdp_limits_init(&remote->limits);
	for (size_t i = 0; i < limit_count; i++)
		(void)fsdp_limits_set(&remote->limits, limits[i].name, limits[i].value);
	uint64_t cache = fsdp_limit(&remote->limits, FSDP_LIMIT_REMOTE_CACHE);
	if (cache < CACHE_LEAST)
		cache = CACHE_LEAST;
	cache = fsdp_min(cache, UINT64_C(4) << 30);
	remote->block_count = (size_t)(cache / BLOCK);
	remote->blocks = calloc(remote->block_count, sizeof *remote->blocks);
	remote->out = malloc(9 + RANGES_MOST * RANGE_BYTES);
	pthread_mutex_init(&remote->mutex, NULL);
	pthread_cond_init(&remote->changed, NULL);
	fsdp_budget_init(&remote->budget, &remote->limits);
	fsdp_budget_give(&remote->budget, UINT64_C(1) << 30);
	fsdp_arena_init(&remote->arena, &remote->budget);
	fsdp_vec_init(&remote->roots, &remote->arena, sizeof(struct root));
	fsdp_vec_init(&remote->lists, &remote->arena, sizeof(struct remote_list *));
	fsdp_vec_init(&remote->files, &remote->arena, sizeof(struct fsdp_remote_file *));
	fsdp_vec_init(&remote->queue, &remote->arena, sizeof(struct ahead));
	if (remote->blocks == NULL || remote->out == NULL) {
		fsdp_remote_free(remote);
		return fsdp_fail_memory(ret_error);
	}
	if (descriptor < 0)
		remote->broken = "remote helper is missing";
	pthread_mutex_lock(&remote->mutex);
	struct pending *request = new_request(remote, HELLO, true);
	unsigned char hello[2];
	put(hello, VERSION, 2);
	if (request != NULL) {
		(void)send_frame(remote, request->id, HELLO, hello, sizeof hello, NULL);
		(void)finish(remote, request, NULL);
	}
	pthread_mutex_unlock(&remote->mutex);
	*ret_remote = remote;
	return true;
}

void fsdp_remote_reject(struct fsdp_remote *remote, const char *message, const char *hint)
{
	remote->broken = message;
	remote->hint = hint;
}

void fsdp_remote_seal(struct fsdp_remote *remote)
{
	pthread_mutex_lock(&remote->mutex);
	struct pending *request = new_request(remote, SEAL, true);
	if (request != NULL) {
		(void)send_frame(remote, request->id, SEAL, NULL, 0, NULL);
		(void)finish(remote, request, NULL);
	}
	pthread_mutex_unlock(&remote->mutex);
}

struct fsdp_remote_counts fsdp_remote_counts(struct fsdp_remote *remote)
{
	struct fsdp_remote_counts counts = { .lists = 0 };
	pthread_mutex_lock(&remote->mutex);
	struct pending *request = new_request(remote, STATS, true);
	if (request != NULL) {
		request->counts = &counts;
		(void)send_frame(remote, request->id, STATS, NULL, 0, NULL);
		(void)finish(remote, request, NULL);
	}
	pthread_mutex_unlock(&remote->mutex);
	return counts;
}

void fsdp_remote_free(struct fsdp_remote *remote)
{
	if (remote == NULL)
		return;
	if (remote->fd >= 0)
		close(remote->fd);
	while (remote->requests != NULL)
		forget_request(remote, remote->requests);
	for (size_t i = 0; i < remote->block_count && remote->blocks != NULL; i++)
		free(remote->blocks[i].bytes);
	free(remote->blocks);
	free(remote->out);
	fsdp_arena_done(&remote->arena);
	pthread_cond_destroy(&remote->changed);
	pthread_mutex_destroy(&remote->mutex);
	free(remote);
}
