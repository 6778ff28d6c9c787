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
	RANGE_BYTES = 16,
	RANGE_MOST = 4 << 20, /* of what one read asks for at once */
	TEXT_MOST = 4096,
	HEAD_BYTES = 9,
	OUT_MOST = HEAD_BYTES + 4 + 2 + TEXT_MOST,
	REQUESTS_MOST = 256, /* that wait: their frames fit into the socket */
	AHEAD_MOST = (64 << 20) / BLOCK,
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

/* Frames to the process, and from it. */
enum remote_request { HELLO = 1, ROOT, SEAL, LIST, READ = 6, STATS = 8 };
enum remote_answer { OK = 128, ROOT_IS, ENTRIES, DATA, END, FAIL, COUNTS };

struct block {
	uint64_t key; /* file's number, then the block's; 0: free */
	uint32_t size, filled;
	uint32_t request;
	bool was_read;
	uint64_t used;
	unsigned char *bytes;
};

/* A code of FAIL, 0: nothing failed; and what was sent with it. */
struct remote_failure {
	unsigned char code;
	char detail[201];
};

/* A request whose answer is not complete. */
struct pending {
	struct pending *next;
	uint32_t id;
	enum remote_request kind;
	bool done;
	struct remote_failure failure;
	struct fsdp_remote_file *file; /* of READ, with the range that is not there yet */
	uint64_t offset, left;
	struct remote_list *list;
	struct root *root; /* of ROOT and LIST */
	struct fsdp_remote_counts *counts;
};

/* The entries of a directory, once they came. */
struct remote_list {
	const char *path;
	struct fsdp_vec found; /* struct fsdp_entry, as they come */
	struct fsdp_entry *entries;
	size_t count;
	bool is_done, is_opened, was_announced;
	struct remote_failure failure;
};

struct root {
	const char *name;
	const char *url; /* for hints: the name, or "?" if the URL has a query */
	uint32_t number;
	enum fsdp_remote_kind kind;
	struct fsdp_remote_file *file;
	struct remote_failure failure;
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
	bool leading; /* a thread reads from the socket */
	fsdp_remote_end *explain_end;
	const char *broken, *hint; /* why nothing is read any more */
	uint32_t last_id;
	struct pending *requests;
	struct pending *range; /* a READ that is not sent: it may become longer */
	size_t request_count;
	struct fsdp_limits limits;
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_vec roots, lists, files; /* root, remote_list *, fsdp_remote_file * */
	struct fsdp_vec queue;               /* struct ahead */
	size_t queued; /* of these the first that is not asked for completely */
	struct block *blocks;
	size_t block_count, last_block;
	uint64_t clock, waiting, queued_bytes;
	unsigned char out[OUT_MOST], in[FRAME_MOST];
};

/* ---- numbers and texts of frames ---- */

static void put(unsigned char *to, uint64_t number, size_t size)
{
	for (size_t i = 0; i < size; i++)
		to[i] = (unsigned char)(number >> (8 * i));
}

static struct fsdp_span parse_text(struct fsdp_cursor *frame)
{
	size_t size = fsdp_cursor_read_u16le(frame);
	frame->ok &= size <= TEXT_MOST;
	return fsdp_cursor_read_span(frame, size);
}

/* A text of printable characters, with its end. */
static void parse_printable(struct fsdp_cursor *frame, char *to, size_t room)
{
	struct fsdp_span text = parse_text(frame);
	frame->ok &= text.size < room;
	for (size_t i = 0; frame->ok && i < text.size; i++) {
		frame->ok = text.data[i] >= ' ' && text.data[i] <= '~';
		to[i] = (char)text.data[i];
		to[i + 1] = '\0';
	}
}

/* ---- why something failed ---- */

enum { NOTHING = 2, NO_LOGIN, DENIED, EXPIRED, NO_RANGES = 9, NO_PACKAGE, OTHER = 12 };

static const struct {
	enum fsdp_error_code code;
	const char *rule, *text, *hint;
} failures[] = {
	[1] = { FSDP_ERROR_SYSTEM, "FI9003", "no such bucket, container or repository",
		"check the name, and the endpoint if it is another store's" },
	[NOTHING] = { FSDP_ERROR_SYSTEM, "FI9003", "no such file or directory", NULL },
	[NO_LOGIN] = { FSDP_ERROR_PERMISSION, NULL, "no credentials were found", NULL },
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
	[NO_PACKAGE] = { FSDP_ERROR_USAGE, NULL, "this scheme needs a Python package",
		"pip install -U obstore" },
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

static bool fail_with(const struct remote_failure *failure, const char *url,
	struct fsdp_error **ret_error)
{
	unsigned code = failure->code;
	const char *detail = failure->detail;
	static const char python[] = "Python is ";
	bool has_place = *detail != '\0' && code != NOTHING;
	size_t at = 0;
	while (strncmp(url, stores[at].scheme, strlen(stores[at].scheme)) != 0)
		at++;
	fsdp_fail(ret_error, failures[code].code, FSDP_UNKNOWN, "%s%s%s%s",
		failures[code].text, has_place ? " (" : "", has_place ? detail : "",
		has_place ? ")" : "");
	if (failures[code].rule != NULL)
		fsdp_error_add_rule(ret_error, failures[code].rule);
	if (code == NOTHING && *detail != '\0')
		fsdp_error_add_hint(ret_error, "similar names: %s", detail);
	else if (code == NO_LOGIN || code == EXPIRED)
		fsdp_error_add_hint(ret_error, "%s", stores[at].login);
	else if (code == DENIED)
		fsdp_error_add_hint(ret_error, "%s", stores[at].denied);
	else if (code == NO_PACKAGE && strstr(detail, python) != NULL)
		fsdp_error_add_hint(ret_error, "%s -m pip install -U obstore",
			strstr(detail, python) + strlen(python));
	else if (code == NO_RANGES && strncmp(url, "http", 4) == 0)
		fsdp_error_add_hint(ret_error, "curl -fLO %s", url);
	else if (failures[code].hint != NULL)
		fsdp_error_add_hint(ret_error, "%s", failures[code].hint);
	return false;
}

static bool fail_broken(const struct fsdp_remote *remote, struct fsdp_error **ret_error)
{
	fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN, "%s", remote->broken);
	if (remote->hint != NULL)
		fsdp_error_add_hint(ret_error, "%s", remote->hint);
	return false;
}

static const char ended[] = "the helper ended";
static const char invalid[] = "the helper sent an invalid message";

/* Always false. */
static bool break_off(struct fsdp_remote *remote, const char *why)
{
	if (remote->broken == NULL && why == ended && remote->explain_end != NULL)
		why = remote->explain_end(&remote->hint);
	if (remote->broken == NULL)
		remote->broken = why;
	pthread_cond_broadcast(&remote->changed);
	return false;
}

/* ---- asking ---- */

static void forget_request(struct fsdp_remote *remote, struct pending *request)
{
	struct pending **place = &remote->requests;
	while (*place != request)
		place = &(*place)->next;
	*place = request->next;
	remote->request_count--;
	free(request);
}

static struct pending *new_request(struct fsdp_remote *remote, enum remote_request kind)
{
	struct pending *request = calloc(1, sizeof *request);
	if (request == NULL)
		return NULL;
	*request = (struct pending){
		.next = remote->requests,
		.id = ++remote->last_id,
		.kind = kind,
	};
	remote->requests = request;
	remote->request_count++;
	return request;
}

/* Sends what is in `out`, after the head of the frame. */
static void send_frame(
	struct fsdp_remote *remote, const struct pending *request, size_t size)
{
	const unsigned char *bytes = remote->out;
	put(remote->out, size + HEAD_BYTES - 4, 4);
	put(remote->out + 4, request->id, 4);
	remote->out[8] = (unsigned char)request->kind;
	for (size_t left = HEAD_BYTES + size; left != 0 && remote->broken == NULL;) {
		ssize_t done = write(remote->fd, bytes, left);
		if (done <= 0 && errno != EINTR)
			break_off(remote, ended);
		bytes += done > 0 ? done : 0;
		left -= done > 0 ? (size_t)done : 0;
	}
}

static void send_range(struct fsdp_remote *remote)
{
	const struct pending *range = remote->range;
	remote->range = NULL;
	if (range == NULL)
		return;
	put(remote->out + HEAD_BYTES, range->file->number, 4);
	put(remote->out + HEAD_BYTES + 4, range->offset, 8);
	put(remote->out + HEAD_BYTES + 12, range->left, 4);
	send_frame(remote, range, RANGE_BYTES);
}

/* Adds a text to the frame that is sent next; false: it is too long. */
static bool add_text(struct fsdp_remote *remote, size_t at, const char *text)
{
	size_t size = strlen(text);
	if (size > TEXT_MOST)
		return false;
	put(remote->out + HEAD_BYTES + at, size, 2);
	memcpy(remote->out + HEAD_BYTES + at + 2, text, size);
	return true;
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
	uint64_t least = UINT64_MAX;
	for (size_t i = 0; i < remote->block_count && least != 0; i++) {
		struct block *block = &remote->blocks[i];
		bool is_free = block->key == 0;
		uint64_t worth = is_free           ? 0
				 : block->was_read ? block->used
						   : ~block->used;
		if (worth < least &&
			(is_free || (is_ready(block) && (block->was_read || give_up)))) {
			old = block;
			least = worth;
		}
	}
	if (old != NULL && old->bytes == NULL)
		old->bytes = malloc(BLOCK);
	return old != NULL && old->bytes != NULL ? old : NULL;
}

/* Asks for a block that is not there, in one range with the block before it. False:
 * nothing has room for it, or out of memory. */
static bool request_block(struct fsdp_remote *remote, struct fsdp_remote_file *file,
	uint64_t index, bool give_up)
{
	uint64_t offset = index * BLOCK;
	uint32_t size = (uint32_t)fsdp_min(BLOCK, file->size - offset);
	struct block *block = free_block(remote, give_up);
	struct pending *range = remote->range;
	if (block == NULL)
		return false;
	if (range == NULL || range->file != file ||
		range->offset + range->left != offset ||
		range->left + size > RANGE_MOST) {
		send_range(remote);
		range = remote->request_count < REQUESTS_MOST ? new_request(remote, READ)
							      : NULL;
		if (range == NULL)
			return false;
		range->file = file;
		range->offset = offset;
		remote->range = range;
		remote->waiting++;
	}
	*block = (struct block){
		.key = key_of(file, index),
		.size = size,
		.request = range->id,
		.used = ++remote->clock,
		.bytes = block->bytes,
	};
	range->left += size;
	remote->queued_bytes += size;
	return true;
}

/* Before a block is asked for: which limit is reached; FSDP_LIMIT_COUNT: none. */
static enum fsdp_limit limit_reached(const struct fsdp_remote *remote)
{
	if (remote->waiting >= fsdp_limit(&remote->limits, FSDP_LIMIT_REMOTE_REQUESTS))
		return FSDP_LIMIT_REMOTE_REQUESTS;
	if (remote->queued_bytes >= fsdp_limit(&remote->limits, FSDP_LIMIT_REMOTE_BYTES))
		return FSDP_LIMIT_REMOTE_BYTES;
	return FSDP_LIMIT_COUNT;
}

/* Asks for what is next in the queue, once half of the blocks were read. What is begun of
 * a range is asked for to its end, so that it is one request. */
static void request_ahead(struct fsdp_remote *remote)
{
	size_t most = remote->block_count / 4 * 3, ahead = 0;
	if (remote->queued == remote->queue.count)
		remote->queued = remote->queue.count = 0;
	if (most > AHEAD_MOST)
		most = AHEAD_MOST;
	if (remote->queue.count == 0 || remote->broken != NULL)
		return;
	/* Those on their way, and those that were not read yet. */
	for (size_t i = 0; i < remote->block_count; i++)
		ahead += remote->blocks[i].key != 0 && !remote->blocks[i].was_read;
	if (ahead > most / 3 * 2)
		return;
	while (remote->queued < remote->queue.count) {
		struct ahead *range = fsdp_vec_at(&remote->queue, remote->queued);
		struct fsdp_remote_file *file = fsdp_remote_file(remote, range->file);
		uint64_t index = range->offset / BLOCK;
		uint64_t wanted = fsdp_min(range->size, RANGE_MOST) / BLOCK;
		if (range->size == 0) {
			remote->queued++;
			continue;
		}
		if (!range->is_begun && ahead + wanted >= most)
			break;
		if (find_block(remote, key_of(file, index)) == NULL) {
			if (limit_reached(remote) != FSDP_LIMIT_COUNT ||
				!request_block(remote, file, index, false))
				break;
			ahead++;
		}
		uint64_t end = fsdp_min((index + 1) * BLOCK, range->offset + range->size);
		range->size -= end - range->offset;
		range->offset = end;
		range->is_begun = end % RANGE_MOST != 0;
	}
	send_range(remote);
}

/* ---- answers ---- */

static bool parse_entry(struct fsdp_remote *remote, const struct pending *request,
	struct fsdp_cursor *frame, struct fsdp_entry *ret_entry)
{
	unsigned kind = (unsigned)fsdp_cursor_read_le(frame, 1);
	uint32_t number = fsdp_cursor_read_u32le(frame);
	uint64_t size = fsdp_cursor_read_u64le(frame);
	int64_t mtime = (int64_t)fsdp_cursor_read_u64le(frame);
	struct fsdp_span name = parse_text(frame);
	uint64_t digests = fsdp_cursor_read_le(frame, 1);
	struct fsdp_span digest =
		fsdp_cursor_read_span(frame, digests == 1 ? FSDP_REMOTE_DIGEST : 0);
	if (!frame->ok || kind > 1 || digests > 1 || !fsdp_name_is_safe(name) ||
		memchr(name.data, '/', name.size) != NULL || size >> 55 != 0 ||
		(kind == 0 && number != remote->files.count) || number >= 1 << 23)
		return break_off(remote, invalid);
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
		.root = request->root->url,
		.has_sha256 = digests == 1,
	};
	if (digests == 1)
		memcpy(file->sha256, digest.data, sizeof file->sha256);
	return true;
}

static bool parse_entries(
	struct fsdp_remote *remote, struct pending *request, struct fsdp_cursor *frame)
{
	uint64_t most = fsdp_limit(&remote->limits, FSDP_LIMIT_FILES);
	while (fsdp_cursor_left(frame) != 0) {
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
	struct fsdp_remote *remote, struct pending *request, struct fsdp_cursor *frame)
{
	enum { NONE, FILE, FOLDER };
	uint64_t kind = fsdp_cursor_read_le(frame, 1);
	struct fsdp_entry entry;
	if (kind == FOLDER)
		request->root->kind = FSDP_REMOTE_FOLDER;
	if (kind != FILE)
		return kind == NONE || kind == FOLDER;
	if (!parse_entry(remote, request, frame, &entry) || entry.kind != FSDP_ENTRY_FILE)
		return false;
	request->root->kind = FSDP_REMOTE_FILE;
	request->root->file = fsdp_remote_file(remote, entry.file);
	return true;
}

static bool parse_data(
	struct fsdp_remote *remote, struct pending *request, struct fsdp_cursor *frame)
{
	const struct fsdp_remote_file *file = request->file;
	uint32_t number = fsdp_cursor_read_u32le(frame);
	uint64_t offset = fsdp_cursor_read_u64le(frame);
	if (!frame->ok || number != file->number ||
		fsdp_cursor_left(frame) > request->left || offset > INT64_MAX)
		return break_off(remote, invalid);
	while (fsdp_cursor_left(frame) != 0) {
		struct block *block = find_block(remote, key_of(file, offset / BLOCK));
		if (block == NULL || block->request != request->id || is_ready(block) ||
			offset % BLOCK != block->filled)
			return break_off(remote, invalid);
		size_t part = (size_t)fsdp_min(
			fsdp_cursor_left(frame), block->size - block->filled);
		memcpy(block->bytes + block->filled, fsdp_cursor_read(frame, part), part);
		block->filled += (uint32_t)part;
		offset += part;
		request->left -= part;
	}
	return true;
}

static void parse_counts(struct fsdp_remote_counts *counts, struct fsdp_cursor *frame)
{
	counts->lists = fsdp_cursor_read_u64le(frame);
	counts->gets = fsdp_cursor_read_u64le(frame);
	counts->heads = fsdp_cursor_read_u64le(frame);
	counts->retries = fsdp_cursor_read_u64le(frame);
	counts->bytes = fsdp_cursor_read_u64le(frame);
	parse_printable(frame, counts->backend, sizeof counts->backend);
}

static bool parse_failure(
	struct fsdp_remote *remote, struct pending *request, struct fsdp_cursor *frame)
{
	request->failure.code = (unsigned char)fsdp_cursor_read_le(frame, 1);
	parse_printable(frame, request->failure.detail, sizeof request->failure.detail);
	/* What was asked for and did not come is not there. */
	for (size_t i = 0; i < remote->block_count; i++)
		if (remote->blocks[i].key != 0 &&
			remote->blocks[i].request == request->id &&
			!is_ready(&remote->blocks[i]))
			remote->blocks[i].key = 0;
	if (request->file != NULL) {
		struct remote_failure *kept = FSDP_TAKE(&remote->arena, kept, 1);
		if (kept == NULL)
			return break_off(remote, "out of memory");
		*kept = request->failure;
		request->file->failure = kept;
	}
	return request->failure.code != 0 && request->failure.code < FSDP_COUNT(failures);
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
	fsdp_vec_append(&remote->queue, &range);
}

/* What is announced of the files of a directory, or of one file at a URL. */
struct announcing {
	uint64_t room;
	size_t document_count, file_count;
};

static void announce_file(struct fsdp_remote *remote, struct announcing *so_far,
	struct fsdp_span name, uint32_t number, uint64_t size)
{
	bool is_packed = fsdp_span_ends_any(name, ".pt .pth .bin .ckpt");
	uint64_t head = 0, tail = 0;
	if (fsdp_span_is(name, ".metadata")) {
		head = size <= METADATA_MOST ? size : 0;
	} else if (is_packed || fsdp_span_ends(name, FSDP_SPAN(".safetensors"))) {
		if (so_far->file_count++ < FILES_MOST) {
			head = size <= SMALL ? size : BLOCK;
			tail = is_packed && size > SMALL ? TAIL : 0;
		}
	} else if (size <= SMALL &&
		   (fsdp_span_ends_any(name, ".json .txt .yaml .toml") ||
			   memchr(name.data, '.', name.size) == NULL) &&
		   so_far->document_count++ < DOCUMENTS_MOST) {
		head = size;
	}
	if (head + tail > so_far->room)
		return;
	so_far->room -= head + tail;
	announce(remote, number, 0, head);
	announce(remote, number, size - tail, tail);
}

static void announce_folder(struct fsdp_remote *remote, struct remote_list *list)
{
	struct announcing so_far = { (uint64_t)remote->block_count * BLOCK / 2, 0, 0 };
	for (size_t i = 0; i < list->count && !list->was_announced; i++)
		if (list->entries[i].kind == FSDP_ENTRY_FILE)
			announce_file(remote, &so_far, list->entries[i].name,
				list->entries[i].file, list->entries[i].size);
	list->was_announced = true;
}

static bool end_list(struct fsdp_remote *remote, struct remote_list *list)
{
	list->entries =
		FSDP_TAKE(list->found.arena, list->entries, list->found.count + 1);
	if (list->entries == NULL || !fsdp_vec_sort(&list->found, fsdp_entry_compare))
		return false;
	/* By name, each once: a directory counts more than an object of its name. */
	FSDP_ITEMS(const struct fsdp_entry, entry, &list->found) {
		struct fsdp_entry *next = &list->entries[list->count];
		if (list->count == 0 || !fsdp_span_equal(next[-1].name, entry->name))
			list->entries[list->count++] = *entry;
		else if (entry->kind == FSDP_ENTRY_DIRECTORY)
			next[-1] = *entry;
	}
	list->is_done = true;
	if (list->is_opened)
		announce_folder(remote, list);
	return true;
}

static bool parse_frame(struct fsdp_remote *remote, size_t size)
{
	struct fsdp_cursor frame = fsdp_cursor(fsdp_span(remote->in, size));
	uint32_t id = fsdp_cursor_read_u32le(&frame);
	unsigned kind = (unsigned)fsdp_cursor_read_le(&frame, 1);
	struct pending *request = remote->requests;
	while (request != NULL && request->id != id)
		request = request->next;
	if (request == NULL || request->done)
		return break_off(remote, invalid);
	bool good = false;
	if (kind == FAIL)
		good = parse_failure(remote, request, &frame);
	else if (kind == OK && (request->kind == HELLO || request->kind == SEAL))
		good = true;
	else if (kind == ROOT_IS && request->kind == ROOT)
		good = parse_root(remote, request, &frame);
	else if (kind == ENTRIES && request->kind == LIST)
		good = parse_entries(remote, request, &frame);
	else if (kind == DATA && request->kind == READ)
		good = parse_data(remote, request, &frame);
	else if (kind == COUNTS && request->kind == STATS)
		good = (parse_counts(request->counts, &frame), true);
	else if (kind == END && (request->kind == LIST || request->kind == READ))
		good = request->left == 0;
	if (!good || !frame.ok || fsdp_cursor_left(&frame) != 0)
		return break_off(remote, invalid);
	request->done = kind != ENTRIES && kind != DATA;
	if (request->done && request->kind == LIST) {
		request->list->failure = request->failure;
		if (!end_list(remote, request->list))
			return break_off(remote, "out of memory");
	}
	if (request->done && (request->kind == LIST || request->kind == READ))
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
			return ended;
		bytes += got;
		size -= (size_t)got;
	}
	return NULL;
}

/* Until something changed: reads a frame, or waits for who does. */
static bool wait_frame(struct fsdp_remote *remote)
{
	unsigned char head[4];
	uint64_t size = 0;
	if (remote->broken != NULL)
		return false;
	if (remote->leading) {
		pthread_cond_wait(&remote->changed, &remote->mutex);
		return remote->broken == NULL;
	}
	remote->leading = true;
	pthread_mutex_unlock(&remote->mutex);
	const char *why = read_all(remote->fd, remote->patience, head, sizeof head);
	if (why == NULL) {
		struct fsdp_cursor frame = fsdp_cursor(fsdp_span(head, sizeof head));
		size = fsdp_cursor_read_u32le(&frame);
		why = size < 5 || size > FRAME_MOST
			      ? invalid
			      : read_all(remote->fd, remote->patience, remote->in, size);
	}
	pthread_mutex_lock(&remote->mutex);
	remote->leading = false;
	if (why != NULL)
		return break_off(remote, why);
	bool good = parse_frame(remote, (size_t)size);
	pthread_cond_broadcast(&remote->changed);
	return good;
}

/* Sends a request with `size` bytes in `out`, and waits for the answer. */
static struct remote_failure ask(struct fsdp_remote *remote, enum remote_request kind,
	size_t size, struct root *root, struct fsdp_remote_counts *counts)
{
	struct remote_failure failure = { 0 };
	struct pending *request = new_request(remote, kind);
	if (request == NULL)
		return failure;
	request->root = root;
	request->counts = counts;
	send_frame(remote, request, size);
	while (!request->done && wait_frame(remote))
		;
	failure = request->failure;
	forget_request(remote, request);
	return failure;
}

/* ---- roots and lists ---- */

/* Whether a path is the other one, or below it. */
static bool is_at(const char *path, const char *other)
{
	size_t size = strlen(other);
	return strncmp(path, other, size) == 0 &&
	       (path[size] == '\0' || path[size] == '/');
}

/* The root that a path is at or below. NULL: none; *ret_above: it is above one. */
static struct root *root_of(struct fsdp_remote *remote, const char *path, bool *ret_above)
{
	struct root *best = NULL;
	*ret_above = false;
	FSDP_ITEMS(struct root, root, &remote->roots) {
		if (is_at(path, root->name) &&
			(best == NULL || is_at(root->name, best->name)))
			best = root;
		*ret_above |= is_at(root->name, path);
	}
	return best;
}

bool fsdp_remote_add(struct fsdp_remote *remote, const char *name, const char *url)
{
	pthread_mutex_lock(&remote->mutex);
	const char *copy =
		(const char *)fsdp_arena_copy(&remote->arena, fsdp_span_text(name)).data;
	struct root *root = copy != NULL ? fsdp_vec_push(&remote->roots) : NULL;
	if (root != NULL) {
		*root = (struct root){
			.name = copy,
			.url = strchr(url, '?') == NULL ? copy : "?",
			.number = (uint32_t)remote->roots.count - 1,
			.kind = FSDP_REMOTE_NOTHING,
			.failure.code = NOTHING, /* if it is too long */
		};
		if (add_text(remote, 0, url))
			root->failure = ask(remote, ROOT, 2 + strlen(url), root, NULL);
		explicit_bzero(remote->out, OUT_MOST); /* a query has secrets */
	}
	if (root != NULL && root->file != NULL) {
		struct announcing one = { CACHE_LEAST, 0, 0 };
		announce_file(remote, &one, fsdp_span_text(name), root->file->number,
			root->file->size);
	}
	pthread_mutex_unlock(&remote->mutex);
	return root != NULL;
}

/* The list of a directory below a root, which is asked for unless it was. NULL: out of
 * memory. */
static struct remote_list *request_list(
	struct fsdp_remote *remote, struct root *root, const char *path)
{
	while (remote->request_count >= REQUESTS_MOST && wait_frame(remote))
		;
	for (size_t i = remote->lists.count; i-- > 0;) {
		struct remote_list *list =
			*(struct remote_list **)fsdp_vec_at(&remote->lists, i);
		if (strcmp(list->path, path) == 0)
			return list;
	}
	struct remote_list *list = FSDP_TAKE(&remote->arena, list, 1);
	struct fsdp_span copy = fsdp_arena_copy(&remote->arena, fsdp_span_text(path));
	struct pending *request = new_request(remote, LIST);
	if (list == NULL || copy.data == NULL || request == NULL ||
		!fsdp_vec_add(&remote->lists, &list)) {
		if (request != NULL)
			forget_request(remote, request);
		return NULL;
	}
	*list = (struct remote_list){ .path = (const char *)copy.data };
	fsdp_vec_init(&list->found, &remote->arena, sizeof(struct fsdp_entry));
	request->list = list;
	request->root = root;
	const char *below = path + strlen(root->name);
	below += *below == '/';
	put(remote->out + HEAD_BYTES, root->number, 4);
	if (add_text(remote, 4, below)) {
		remote->waiting++;
		send_frame(remote, request, 4 + 2 + strlen(below));
	} else {
		list->is_done = true;
		list->failure.code = NOTHING;
		forget_request(remote, request);
	}
	return list;
}

static struct remote_list *list_folder(struct fsdp_remote *remote, struct root *root,
	const char *path, struct fsdp_error **ret_error)
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
	else if (list->failure.code != 0)
		fail_with(&list->failure, root->url, ret_error);
	return list->is_done && list->failure.code == 0 ? list : NULL;
}

/* Why a root cannot be read; true: it can. */
static bool check_root(const struct fsdp_remote *remote, const struct root *root,
	struct fsdp_error **ret_error)
{
	if (root->failure.code != 0)
		return fail_with(&root->failure, root->url, ret_error);
	if (root->kind == FSDP_REMOTE_NOTHING && remote->broken != NULL)
		return fail_broken(remote, ret_error);
	return true;
}

static bool look(struct fsdp_remote *remote, const char *path,
	enum fsdp_remote_kind *ret_kind, struct fsdp_remote_file **ret_file,
	struct fsdp_error **ret_error)
{
	bool is_above;
	struct root *root = root_of(remote, path, &is_above);
	/* Files around a remote root are not read. */
	*ret_kind = is_above ? FSDP_REMOTE_NOTHING : FSDP_REMOTE_LOCAL;
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
	if (root->kind != FSDP_REMOTE_FOLDER ||
		!fsdp_name_is_safe(fsdp_span_text(below + 1)))
		return true;
	const char *slash = strrchr(path, '/');
	const struct fsdp_entry name = { .name = fsdp_span_text(slash + 1) };
	char *parent = strndup(path, (size_t)(slash - path));
	if (parent == NULL)
		return fsdp_fail_memory(ret_error);
	struct remote_list *list = list_folder(remote, root, parent, ret_error);
	free(parent);
	if (list == NULL)
		return false;
	const struct fsdp_entry *entry = bsearch(
		&name, list->entries, list->count, sizeof name, fsdp_entry_compare);
	if (entry != NULL && entry->kind == FSDP_ENTRY_FILE) {
		*ret_kind = FSDP_REMOTE_FILE;
		*ret_file = fsdp_remote_file(remote, entry->file);
	} else if (entry != NULL) {
		*ret_kind = FSDP_REMOTE_FOLDER;
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
	bool is_above;
	struct root *root = root_of(remote, path, &is_above);
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
	if (remote == NULL)
		return;
	pthread_mutex_lock(&remote->mutex);
	enum fsdp_remote_kind kind;
	struct fsdp_remote_file *file;
	bool is_above;
	struct remote_list *list =
		look(remote, path, &kind, &file, NULL) && kind == FSDP_REMOTE_FOLDER &&
				remote->broken == NULL &&
				limit_reached(remote) == FSDP_LIMIT_COUNT
			? request_list(remote, root_of(remote, path, &is_above), path)
			: NULL;
	if (list != NULL)
		list->is_opened |= is_opened;
	if (list != NULL && list->is_opened && list->is_done && list->failure.code == 0)
		announce_folder(remote, list);
	pthread_mutex_unlock(&remote->mutex);
}

struct fsdp_remote_file *fsdp_remote_file(struct fsdp_remote *remote, uint32_t number)
{
	return *(struct fsdp_remote_file **)fsdp_vec_at(&remote->files, number);
}

/* ---- reading ---- */

/* Waits for the blocks from the first to the last. Asks for those that are not on their
 * way, unless a limit is reached. */
static bool get_blocks(struct fsdp_remote *remote, struct fsdp_remote_file *file,
	uint64_t first, uint64_t last, struct fsdp_error **ret_error)
{
	enum fsdp_limit limit = FSDP_LIMIT_COUNT;
	bool ready = false;
	file->failure = NULL; /* of an earlier request */
	while (!ready) {
		ready = true;
		for (uint64_t i = first; i <= last && limit == FSDP_LIMIT_COUNT; i++) {
			struct block *block = find_block(remote, key_of(file, i));
			ready &= block != NULL && is_ready(block);
			if (block != NULL) {
				block->used = ++remote->clock;
				continue;
			}
			if (file->failure != NULL)
				return fail_with(file->failure, file->root, ret_error);
			limit = limit_reached(remote);
			if (limit == FSDP_LIMIT_COUNT)
				(void)request_block(remote, file, i, true);
		}
		send_range(remote);
		if (limit != FSDP_LIMIT_COUNT)
			return fsdp_fail_limit(
				ret_error, limit, fsdp_limit(&remote->limits, limit));
		if (!ready && remote->broken == NULL && remote->requests == NULL)
			return fsdp_fail_memory(ret_error);
		if (!ready && !wait_frame(remote))
			return fail_broken(remote, ret_error);
	}
	return true;
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
	/* Its parts are asked for together. */
	if (size > RANGE_MOST)
		announce(remote, file->number, offset, size);
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
	size_t limit_count, fsdp_remote_end *explain_end, struct fsdp_remote **ret_remote,
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
	remote->explain_end = explain_end;
	fsdp_limits_init(&remote->limits);
	for (size_t i = 0; i < limit_count; i++)
		(void)fsdp_limits_set(&remote->limits, limits[i].name, limits[i].value);
	uint64_t cache = fsdp_limit(&remote->limits, FSDP_LIMIT_REMOTE_CACHE);
	cache = fsdp_min(cache > CACHE_LEAST ? cache : CACHE_LEAST, UINT64_C(4) << 30);
	remote->block_count = (size_t)(cache / BLOCK);
	remote->blocks = calloc(remote->block_count, sizeof *remote->blocks);
	pthread_mutex_init(&remote->mutex, NULL);
	pthread_cond_init(&remote->changed, NULL);
	fsdp_budget_init(&remote->budget, &remote->limits);
	fsdp_budget_give(&remote->budget, UINT64_C(1) << 30);
	fsdp_arena_init(&remote->arena, &remote->budget);
	fsdp_vec_init(&remote->roots, &remote->arena, sizeof(struct root));
	fsdp_vec_init(&remote->lists, &remote->arena, sizeof(struct remote_list *));
	fsdp_vec_init(&remote->files, &remote->arena, sizeof(struct fsdp_remote_file *));
	fsdp_vec_init(&remote->queue, &remote->arena, sizeof(struct ahead));
	if (remote->blocks == NULL) {
		fsdp_remote_free(remote);
		return fsdp_fail_memory(ret_error);
	}
	if (descriptor < 0)
		(void)break_off(remote, ended);
	pthread_mutex_lock(&remote->mutex);
	put(remote->out + HEAD_BYTES, VERSION, 2);
	(void)ask(remote, HELLO, 2, NULL, NULL);
	pthread_mutex_unlock(&remote->mutex);
	*ret_remote = remote;
	return true;
}

void fsdp_remote_seal(struct fsdp_remote *remote)
{
	pthread_mutex_lock(&remote->mutex);
	(void)ask(remote, SEAL, 0, NULL, NULL);
	pthread_mutex_unlock(&remote->mutex);
}

struct fsdp_remote_counts fsdp_remote_counts(struct fsdp_remote *remote)
{
	struct fsdp_remote_counts counts = { .lists = 0 };
	pthread_mutex_lock(&remote->mutex);
	(void)ask(remote, STATS, 0, NULL, &counts);
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
	fsdp_arena_done(&remote->arena);
	pthread_cond_destroy(&remote->changed);
	pthread_mutex_destroy(&remote->mutex);
	free(remote);
}
