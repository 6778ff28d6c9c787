/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_VERIFY_SETUP_H
#define TESTS_VERIFY_SETUP_H

/* Files to be verified: samples that are packed again, and folders that go away. */
#include "folder-setup.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>

#include "open-bytes.h"

#include <fsdp/audit.h>

#include "io/zip.h"
#include "store-setup.h"

/* ---- folders ---- */

static inline void folder_poke(const char *name, long at, const void *data, size_t size)
{
	char path[512];
	folder_path(name, path);
	FILE *stream = fopen(path, "r+b");
	assert_non_null(stream);
	fseek(stream, at, SEEK_SET);
	assert_int_equal(fwrite(data, 1, size, stream), size);
	fclose(stream);
}

static inline void folder_each(
	void (*done)(const char *name, void *context), void *context)
{
	DIR *list = opendir(folder);
	assert_non_null(list);
	for (struct dirent *entry; (entry = readdir(list)) != NULL;)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			done(entry->d_name, context);
	closedir(list);
}

static inline void folder_copy(const char *sample)
{
	char path[2048], name[1024];
	folder_make();
	sample_path(sample, path, sizeof path);
	DIR *list = opendir(path);
	assert_non_null(list);
	for (struct dirent *entry; (entry = readdir(list)) != NULL;) {
		size_t size;
		if (entry->d_type == DT_DIR)
			continue;
		snprintf(name, sizeof name, "%s/%s", sample, entry->d_name);
		unsigned char *data = read_sample(name, &size);
		folder_write(entry->d_name, data, size);
		free(data);
	}
	closedir(list);
}

/* ---- what is found ---- */

struct verified {
	struct fsdp_checkpoint *checkpoint;
	struct fsdp_verify *verify;
};

static inline struct verified verify_path(
	const char *path, enum fsdp_level level, unsigned jobs)
{
	struct verified verified = { 0 };
	struct fsdp_error *error = NULL;
	struct fsdp_verify_options options = {
		.size = sizeof options, .level = level, .jobs = jobs
	};
	if (!fsdp_checkpoint_open(&path, 1, NULL, &verified.checkpoint, &error) ||
		!fsdp_verify_new(verified.checkpoint, &options, &verified.verify, &error))
		fail_msg("%s: %s", path, fsdp_error_message(error));
	return verified;
}

static inline struct verified verify_sample(
	const char *name, enum fsdp_level level, unsigned jobs)
{
	char path[512];
	sample_path(name, path, sizeof path);
	return verify_path(path, level, jobs);
}

static inline void verified_done(struct verified *verified)
{
	fsdp_verify_free(verified->verify);
	fsdp_checkpoint_free(verified->checkpoint);
}

/* How often a rule was found; the last such finding goes to *ret_finding. */
static inline size_t found(const struct verified *verified, const char *rule,
	const struct fsdp_finding **ret_finding)
{
	size_t count = 0;
	for (size_t i = 0; i < fsdp_verify_finding_count(verified->verify); i++) {
		const struct fsdp_finding *finding =
			fsdp_verify_finding(verified->verify, i);
		if (strcmp(finding->rule->id, rule) != 0)
			continue;
		count++;
		if (ret_finding != NULL)
			*ret_finding = finding;
	}
	return count;
}

/* Just this rule, so often and with this severity; or nothing at all. */
static inline void expect_only(
	struct verified verified, const char *rule, size_t count, int severity)
{
	const struct fsdp_finding *finding = NULL;
	size_t all = fsdp_verify_finding_count(verified.verify);
	for (size_t i = 0; i < all; i++) {
		finding = fsdp_verify_finding(verified.verify, i);
		if (rule == NULL || strcmp(finding->rule->id, rule) != 0)
			fail_msg("%s: %.*s", finding->rule->id,
				(int)finding->message.size, finding->message.data);
		assert_int_equal(finding->severity, severity);
	}
	assert_int_equal(all, count);
	verified_done(&verified);
}

static inline void expect_nothing(struct verified verified)
{
	expect_only(verified, NULL, 0, 0);
}

/* ---- zips ---- */

struct packer {
	unsigned char *bytes, *directory;
	size_t size, directory_size, count;
	bool align, deflate, no_crc;
	bool changed; /* the first byte of each storage is another one */
	size_t stray; /* bytes behind each stream that belong to it by its size */
};

static inline void pack_number(unsigned char **to, uint64_t number, size_t size)
{
	for (size_t i = 0; i < size; i++)
		*(*to)++ = (unsigned char)(i < 8 ? number >> 8 * i : 0);
}

enum { PACK_ROOM = 1 << 20 };

static inline void pack_begin(struct packer *packer)
{
	packer->bytes = calloc(1, PACK_ROOM);
	packer->directory = calloc(1, PACK_ROOM);
}

static inline size_t pack_deflate(struct fsdp_span data, unsigned char *to, size_t room)
{
	z_stream stream = { 0 };
	assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, -15, 9, 0), Z_OK);
	unsigned char *copy = malloc(data.size + 1);
	memcpy(copy, data.data, data.size);
	stream.next_in = copy;
	stream.avail_in = (uInt)data.size;
	stream.next_out = to;
	stream.avail_out = (uInt)room;
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	size_t size = stream.total_out;
	deflateEnd(&stream);
	free(copy);
	return size;
}

static inline void pack_member(
	struct packer *packer, const char *name, size_t name_size, struct fsdp_span data)
{
	static unsigned char stored[PACK_ROOM];
	size_t size = data.size, header = packer->size;
	bool storage = memmem(name, name_size, "/data/", 6) != NULL;
	if (packer->deflate && data.size != 0)
		size = pack_deflate(data, stored, sizeof stored) +
		       (storage ? packer->stray : 0);
	else
		memcpy(stored, data.data, size);
	unsigned long crc = packer->no_crc ? 0 : crc32(0, data.data, (uInt)data.size);
	size_t extra =
		packer->align ? 4 + (64 - (header + 30 + name_size + 4) % 64) % 64 : 0;
	unsigned char *to = packer->bytes + header;
	uint64_t common[] = { 0, packer->deflate && data.size != 0 ? 8u : 0u, 0, 0, crc,
		size, data.size, name_size };
	static const size_t widths[] = { 2, 2, 2, 2, 4, 4, 4, 2 };
	pack_number(&to, 0x04034b50, 4);
	pack_number(&to, 20, 2);
	for (size_t i = 0; i < 8; i++)
		pack_number(&to, common[i], widths[i]);
	pack_number(&to, extra, 2);
	memcpy(to, name, name_size);
	to += name_size;
	if (extra != 0) {
		pack_number(&to, 0x4246, 2);
		pack_number(&to, extra - 4, 2);
		to += extra - 4;
	}
	memcpy(to, stored, size);
	to += size;
	/* As torch does: what a loader computes counts on a descriptor. */
	if (packer->align && data.size != 0) {
		pack_number(&to, 0x08074b50, 4);
		pack_number(&to, crc, 4);
		pack_number(&to, size, 4);
		pack_number(&to, data.size, 4);
	}
	packer->size = (size_t)(to - packer->bytes);
	to = packer->directory + packer->directory_size;
	pack_number(&to, 0x02014b50, 4);
	pack_number(&to, 20, 2);
	pack_number(&to, 20, 2);
	for (size_t i = 0; i < 8; i++)
		pack_number(&to, common[i], widths[i]);
	pack_number(&to, 0, 2 + 2 + 2 + 2 + 4);
	pack_number(&to, header, 4);
	memcpy(to, name, name_size);
	to += name_size;
	packer->directory_size = (size_t)(to - packer->directory);
	packer->count++;
}

static inline void pack_end(struct packer *packer)
{
	unsigned char *to = packer->bytes + packer->size;
	memcpy(to, packer->directory, packer->directory_size);
	to += packer->directory_size;
	pack_number(&to, 0x06054b50, 4);
	pack_number(&to, 0, 4);
	pack_number(&to, packer->count, 2);
	pack_number(&to, packer->count, 2);
	pack_number(&to, packer->directory_size, 4);
	pack_number(&to, packer->size, 4);
	pack_number(&to, 0, 2);
	packer->size = (size_t)(to - packer->bytes);
	free(packer->directory);
}

/* The members of a sample, but those whose name ends so. */
static inline void pack_sample(
	struct packer *packer, const char *sample, const char *left_out)
{
	struct setup setup;
	struct fsdp_zip zip;
	struct fsdp_span bytes;
	size_t size;
	unsigned char *data = read_sample(sample, &size);
	struct fsdp_source source = fsdp_source_memory(fsdp_span(data, size));
	setup_init(&setup);
	assert_true(fsdp_zip_open(&source, &setup.arena, &setup.limits,
		FSDP_SPAN("sample"), &setup.findings, &zip, &setup.error));
	for (size_t i = 0; i < zip.members.count; i++) {
		const struct fsdp_zip_member *member = fsdp_zip_member(&zip, i);
		if (left_out != NULL &&
			fsdp_span_ends(member->name, fsdp_span_text(left_out)))
			continue;
		assert_true(fsdp_zip_read(
			&zip, member, PACK_ROOM, &setup.arena, &bytes, &setup.error));
		unsigned char copy[1 << 16];
		assert_true(bytes.size < sizeof copy);
		memcpy(copy, bytes.data, bytes.size);
		if (packer->changed && bytes.size != 0 &&
			memmem(member->name.data, member->name.size, "/data/", 6) != NULL)
			copy[0] ^= 1;
		pack_member(packer, (const char *)member->name.data, member->name.size,
			fsdp_span(copy, bytes.size));
	}
	setup_done(&setup);
	free(data);
}

static inline struct verified verify_packed(
	struct packer *packer, enum fsdp_level level, unsigned jobs)
{
	char path[512];
	pack_end(packer);
	folder_make();
	folder_write("model.pt", packer->bytes, packer->size);
	folder_path("model.pt", path);
	struct verified verified = verify_path(path, level, jobs);
	folder_remove();
	free(packer->bytes);
	return verified;
}

#endif
