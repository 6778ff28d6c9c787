/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads back what was written: heads must be what they should be, ranges of tensors what
 * they were when they were read from the source. Makes digests on the way.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "elements/content-hash.h"
#include "export/writing.h"

struct rereader {
	unsigned char *buffer;
	struct fsdp_export_blocks blocks;
	struct fsdp_sha256 *sha256;
};

static void end_reader(void *own)
{
	struct rereader *reader = own;
	fsdp_sha256_free(reader->sha256);
	free(reader->blocks.rest);
	free(reader->buffer);
	free(reader);
}

static void *begin_reader(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	struct rereader *reader = calloc(1, sizeof *reader);
	(void)writing;
	(void)ret_error;
	if (reader == NULL)
		return NULL;
	reader->buffer = malloc(FSDP_EXPORT_BUFFER);
	reader->blocks.rest = malloc(FSDP_EXPORT_BLOCK);
	if (reader->buffer != NULL && reader->blocks.rest != NULL)
		return reader;
	end_reader(reader);
	return NULL;
}

static bool read_back(int descriptor, void *buffer, size_t size, uint64_t offset,
	struct fsdp_error **ret_error)
{
	unsigned char *at = buffer;
	while (size != 0) {
		ssize_t got = pread(descriptor, at, size, (off_t)offset);
		if (got == 0)
			return fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, offset,
				"the file that was written ends here: it lacks %zu bytes",
				size);
		if (got < 0 && errno != EINTR)
			return fsdp_fail_errno(
				ret_error, errno, offset, "cannot read back");
		if (got <= 0)
			continue;
		at += got;
		size -= (size_t)got;
		offset += (uint64_t)got;
	}
	return true;
}

/* ---- reading a stretch ---- */

/* Some bytes of a file, for the trait or the digest of this thread. */
struct stretch {
	int descriptor;
	uint64_t offset, size;
	bool hashed;
};

static bool sweep(struct fsdp_writing *writing, struct rereader *reader,
	struct stretch stretch, struct fsdp_error **ret_error)
{
	while (stretch.size != 0) {
		size_t part = (size_t)fsdp_min(stretch.size, FSDP_EXPORT_BUFFER);
		if (!read_back(stretch.descriptor, reader->buffer, part, stretch.offset,
			    ret_error))
			return false;
		if (!stretch.hashed)
			fsdp_export_blocks_add(&reader->blocks, reader->buffer, part);
		else if (!fsdp_sha256_add(reader->sha256, reader->buffer, part))
			return fsdp_fail_memory(ret_error);
		stretch.offset += part;
		stretch.size -= part;
		if (!fsdp_export_advance(writing, stretch.hashed ? 0 : part, ret_error))
			return false;
	}
	return true;
}

static bool digest(struct fsdp_writing *writing, struct rereader *reader,
	struct stretch stretch, unsigned char *ret_digest, struct fsdp_error **ret_error)
{
	stretch.hashed = true;
	fsdp_sha256_free(reader->sha256);
	reader->sha256 = fsdp_sha256_new();
	if (reader->sha256 == NULL)
		return fsdp_fail_memory(ret_error);
	return sweep(writing, reader, stretch, ret_error) &&
	       (fsdp_sha256_finish(reader->sha256, ret_digest) ||
		       fsdp_fail_memory(ret_error));
}

/* ---- pieces of work ---- */

static bool check_range(struct fsdp_writing *writing, struct rereader *reader,
	const struct fsdp_export_range *range, struct fsdp_error **ret_error)
{
	const struct fsdp_export_item *item = &writing->plan->items[range->item];
	uint64_t first, count = fsdp_export_range_numel(item, range->part, &first);
	struct stretch stretch = {
		.descriptor = writing->files[item->file].descriptor,
		.offset = item->offset + first * item->width,
		.size = count * item->width,
	};
	reader->blocks.trait = (struct fsdp_trait){ { 0 } };
	reader->blocks.size = 0;
	if (!sweep(writing, reader, stretch, ret_error))
		return false;
	fsdp_export_blocks_end(&reader->blocks);
	const struct fsdp_trait *found = &reader->blocks.trait;
	if (found->words[0] == range->trait.words[0] &&
		found->words[1] == range->trait.words[1])
		return true;
	return fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, stretch.offset,
		"%.*s was read back with other bytes than were written",
		FSDP_TEXT_MOST(item->name, 200));
}

static bool digest_file(struct fsdp_writing *writing, struct rereader *reader,
	size_t index, struct fsdp_error **ret_error)
{
	struct fsdp_export_out *file = &writing->plan->files[index];
	struct stretch all = {
		.descriptor = writing->files[index].descriptor,
		.size = file->bytes,
	};
	return digest(writing, reader, all, file->sha256, ret_error);
}

static bool digest_item(struct fsdp_writing *writing, struct rereader *reader,
	size_t index, struct fsdp_error **ret_error)
{
	struct fsdp_export_item *item = &writing->plan->items[index];
	struct stretch all = {
		.descriptor = writing->files[item->file].descriptor,
		.offset = item->offset,
		.size = item->bytes,
	};
	return digest(writing, reader, all, item->sha256, ret_error);
}

/* Files take longest and come first, then ranges, then tensors. */
static bool reread_one(struct fsdp_writing *writing, void *own, size_t index,
	struct fsdp_error **ret_error)
{
	size_t files = writing->plan->file_count;
	if (index < files)
		return digest_file(writing, own, index, ret_error);
	index -= files;
	if (index < writing->range_count)
		return check_range(writing, own, &writing->ranges[index], ret_error);
	return digest_item(writing, own, index - writing->range_count, ret_error);
}

static bool check_head(struct fsdp_writing *writing, size_t index, unsigned char *buffer,
	struct fsdp_error **ret_error)
{
	struct fsdp_export_text head = { 0 };
	bool good = fsdp_export_head(writing->plan, index, &head, ret_error);
	for (size_t at = 0; good && at < head.size; at += FSDP_EXPORT_BUFFER) {
		size_t part = (size_t)fsdp_min(head.size - at, FSDP_EXPORT_BUFFER);
		good = read_back(
			writing->files[index].descriptor, buffer, part, at, ret_error);
		if (good && memcmp(buffer, head.bytes + at, part) != 0)
			good = fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, at,
				"the head of a file was read back with other bytes than were written");
	}
	free(head.bytes);
	return good;
}

static bool check_heads(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	unsigned char *buffer = malloc(FSDP_EXPORT_BUFFER);
	bool good = buffer != NULL || fsdp_fail_memory(ret_error);
	for (size_t i = 0; good && i < writing->plan->file_count; i++)
		good = check_head(writing, i, buffer, ret_error);
	free(buffer);
	return good;
}

bool fsdp_export_reread(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	struct fsdp_export *plan = writing->plan;
	bool digests = writing->target->digests;
	const struct fsdp_export_step step = {
		.count = plan->file_count + writing->range_count +
			 (digests ? plan->item_count : 0),
		.begin = begin_reader,
		.work = reread_one,
		.end = end_reader,
	};
	if (!fsdp_export_run(writing, &step, ret_error) ||
		!check_heads(writing, ret_error))
		return false;
	plan->facts.verified = true;
	plan->facts.digested = digests;
	return true;
}
