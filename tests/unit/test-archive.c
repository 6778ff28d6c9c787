/* SPDX-License-Identifier: Apache-2.0 */
#include "store-setup.h"

#include <zlib.h>

#include "io/archive.h"

/* ---- a tar written by hand ---- */

struct builder {
	unsigned char bytes[64 << 10];
	size_t size;
};

static void put(struct builder *builder, const void *bytes, size_t size)
{
	assert_true(builder->size + size <= sizeof builder->bytes);
	memcpy(builder->bytes + builder->size, bytes, size);
	builder->size += size;
}

static void put_header(struct builder *builder, const char *name, char type,
	const char *link, const char *size)
{
	unsigned char header[512] = { 0 };
	unsigned sum = 0;
	memcpy(header, name, strnlen(name, 100));
	memcpy(header + 100, "0000644", 8);
	memcpy(header + 108, "0000000", 8);
	memcpy(header + 116, "0000000", 8);
	memcpy(header + 124, size, strlen(size));
	memcpy(header + 136, "00000000000", 12);
	memset(header + 148, ' ', 8);
	header[156] = (unsigned char)type;
	memcpy(header + 157, link, strlen(link));
	memcpy(header + 257, "ustar\00000", 8);
	for (size_t i = 0; i < sizeof header; i++)
		sum += header[i];
	snprintf((char *)header + 148, 8, "%06o", sum);
	put(builder, header, sizeof header);
}

static void add(struct builder *builder, const char *name, char type, const char *link,
	const char *text)
{
	static const unsigned char zeros[512];
	char size[12];
	snprintf(size, sizeof size, "%011o", (unsigned)strlen(text));
	put_header(builder, name, type, link, size);
	put(builder, text, strlen(text));
	put(builder, zeros, -strlen(text) % 512);
}

static void finish(struct builder *builder)
{
	static const unsigned char zeros[1024];
	put(builder, zeros, sizeof zeros);
}

static bool unpack(struct setup *setup, struct fsdp_span bytes, struct fsdp_vec *packed)
{
	struct fsdp_source source = fsdp_source_memory(bytes);
	return fsdp_archive_unpack(&source, &setup->arena, &setup->limits,
		FSDP_SPAN("f.tar"), &setup->findings, packed, &setup->error);
}

static bool unpack_built(
	struct setup *setup, const struct builder *builder, struct fsdp_vec *packed)
{
	return unpack(setup, fsdp_span(builder->bytes, builder->size), packed);
}

static struct fsdp_packed at(const struct fsdp_vec *packed, size_t index)
{
	return *(const struct fsdp_packed *)fsdp_vec_at(packed, index);
}

static struct fsdp_span bytes_at(
	struct setup *setup, const struct fsdp_vec *packed, size_t index)
{
	const struct fsdp_source *source =
		&((const struct fsdp_packed *)fsdp_vec_at(packed, index))->source;
	struct fsdp_span bytes;
	assert_true(fsdp_source_read_all(
		source, 0, source->size, &setup->arena, &bytes, &setup->error));
	return bytes;
}

static void free_testdata(struct fsdp_span bytes)
{
	free((void *)(uintptr_t)bytes.data);
}

/* ---- what is right ---- */

static void check_two(struct setup *setup, const struct fsdp_vec *packed)
{
	assert_int_equal(packed->count, 2);
	assert_true(fsdp_span_is(at(packed, 0).name, "a.txt"));
	assert_true(fsdp_span_is(bytes_at(setup, packed, 0), "hello\n"));
	assert_true(fsdp_span_is(at(packed, 1).name, "sub/b.txt"));
	assert_int_equal(bytes_at(setup, packed, 1).size, 692);
	assert_memory_equal(bytes_at(setup, packed, 1).data + 688, "200\n", 4);
	assert_true(at(packed, 0).offset == FSDP_UNKNOWN);
}

static const char *const compressed[][2] = {
	{ "archive/two.tar.gz", "gzip" },
	{ "archive/two.tar.zst", "zstd" },
	{ "archive/two.tar.xz", "xz" },
	{ "archive/two.tar.bz2", "bzip2" },
	{ "archive/two.tar.lz4", "lz4" },
};

static void members_of_a_compressed_tar_are_unpacked(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof compressed / sizeof *compressed; i++) {
		struct setup setup;
		setup_init(&setup);
		struct fsdp_span file = setup_testdata(compressed[i][0]);
		struct fsdp_vec packed;
		assert_string_equal(fsdp_archive_kind(file), compressed[i][1]);
		assert_true(fsdp_archive_is_compressed(file));
		assert_false(fsdp_archive_is_tar(file));
		assert_true(unpack(&setup, file, &packed));
		check_two(&setup, &packed);
		assert_int_equal(setup.findings.list.count, 0);
		free_testdata(file);
		setup_done(&setup);
	}
}

static void a_tar_is_unpacked_from_memory_and_from_a_file(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct builder builder = { 0 };
	char long_text[2001];
	memset(long_text, 'x', 2000);
	long_text[2000] = '\0';
	add(&builder, "./a", '0', "", "aaa");
	add(&builder, "./", '5', "", "");
	add(&builder, "empty", '0', "", "");
	add(&builder, "sub/long", '0', "", long_text);
	finish(&builder);
	FILE *file = tmpfile();
	assert_non_null(file);
	assert_int_equal(fwrite(builder.bytes, 1, builder.size, file), builder.size);
	fflush(file);
	for (int from_file = 0; from_file < 2; from_file++) {
		struct fsdp_source source =
			fsdp_source_memory(fsdp_span(builder.bytes, builder.size));
		if (from_file)
			assert_true(
				fsdp_source_file(fileno(file), &source, &setup.error));
		struct fsdp_vec packed;
		assert_true(fsdp_archive_unpack(&source, &setup.arena, &setup.limits,
			FSDP_SPAN("f.tar"), &setup.findings, &packed, &setup.error));
		assert_int_equal(packed.count, 3);
		assert_true(fsdp_span_is(at(&packed, 0).name, "a"));
		assert_true(fsdp_span_is(bytes_at(&setup, &packed, 0), "aaa"));
		assert_int_equal(at(&packed, 1).source.size, 0);
		assert_true(fsdp_span_is(bytes_at(&setup, &packed, 2), long_text));
		/* A header, a block, a folder's header, that of the empty file, one more.
		 */
		assert_int_equal(at(&packed, 0).offset, 512);
		assert_int_equal(at(&packed, 1).offset, 4 * 512);
		assert_int_equal(at(&packed, 2).offset, 5 * 512);
		assert_int_equal(setup.findings.list.count, 0);
	}
	fclose(file);
	setup_done(&setup);
}

static void a_bare_compressed_file_has_no_name(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct fsdp_span file = setup_testdata("archive/text.gz");
	struct fsdp_vec packed;
	assert_true(unpack(&setup, file, &packed));
	assert_int_equal(packed.count, 1);
	assert_null(at(&packed, 0).name.data);
	assert_true(fsdp_span_is(
		bytes_at(&setup, &packed, 0), "plain text, only compressed\n"));
	free_testdata(file);

	static const unsigned char nothing[] = { 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0,
		0, 0, 0, 0, 0, 0, 0, 0 };
	assert_true(unpack(&setup, fsdp_span(nothing, sizeof nothing), &packed));
	assert_int_equal(packed.count, 1);
	assert_int_equal(at(&packed, 0).source.size, 0);
	assert_int_equal(setup.findings.list.count, 0);
	setup_done(&setup);
}

static void first_bytes_tell_the_kind(void **state)
{
	(void)state;
	assert_null(fsdp_archive_kind(FSDP_SPAN("")));
	assert_null(fsdp_archive_kind(FSDP_SPAN("\x1f\x8b")));
	assert_null(fsdp_archive_kind(FSDP_SPAN("BZh91AY&SX")));
	assert_null(fsdp_archive_kind(FSDP_SPAN("BZhello, world")));
	assert_string_equal(fsdp_archive_kind(FSDP_SPAN("BZh91AY&SY")), "bzip2");
	assert_null(fsdp_archive_kind(FSDP_SPAN("PK\3\4")));
	assert_string_equal(fsdp_archive_kind(FSDP_SPAN(
				    "]\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff")),
		"lzma");
	assert_string_equal(
		fsdp_archive_kind(FSDP_SPAN("]\0\0\0\4\5\0\0\0\0\0\0\0")), "lzma");
	assert_null(fsdp_archive_kind(FSDP_SPAN("]\0\0\0\x08\5\0\0\0\0\0\0\0")));
	assert_null(fsdp_archive_kind(FSDP_SPAN("]\0\0\1\4\5\0\0\0\0\0\0\0")));
	assert_null(fsdp_archive_kind(FSDP_SPAN("]\0\0\0\4\5\0\0\0\0\1\0\0")));
	assert_null(fsdp_archive_kind(FSDP_SPAN("]\0\0\0\4\5\0\0\0\0\0\0")));
	struct builder builder = { 0 };
	add(&builder, "name", '0', "", "text");
	struct fsdp_span head = fsdp_span(builder.bytes, 512);
	assert_true(fsdp_archive_is_tar(head));
	assert_string_equal(fsdp_archive_kind(head), "tar");
	assert_false(fsdp_archive_is_tar(fsdp_span(builder.bytes, 511)));
	builder.bytes[300] ^= 1;
	assert_false(fsdp_archive_is_tar(head));
	memset(builder.bytes, 0, 512);
	assert_false(fsdp_archive_is_tar(head));
	assert_non_null(strstr(fsdp_archive_version(), "libarchive"));

	struct setup setup;
	setup_init(&setup);
	struct fsdp_vec packed;
	assert_false(unpack(&setup, FSDP_SPAN("neither"), &packed));
	setup_expect(&setup, FSDP_ERROR_NOT_A_CHECKPOINT, NULL);
	assert_false(unpack(&setup, FSDP_SPAN(""), &packed));
	setup_expect(&setup, FSDP_ERROR_NOT_A_CHECKPOINT, NULL);
	setup_done(&setup);
}

/* The tests run in the locale C, where none of these bytes is a character. */
static void names_are_bytes(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct builder builder = { 0 };
	add(&builder, "gr\303\274n", '0', "", "one");
	add(&builder, "\377\376", '0', "", "two");
	add(&builder, "header", 'x', "", "19 path=gr\303\274\303\237e.pt\n");
	add(&builder, "short", '0', "", "three");
	finish(&builder);
	struct fsdp_vec packed;
	assert_true(unpack_built(&setup, &builder, &packed));
	assert_int_equal(packed.count, 3);
	assert_true(fsdp_span_is(at(&packed, 0).name, "gr\303\274n"));
	assert_true(fsdp_span_is(at(&packed, 1).name, "\377\376"));
	assert_true(fsdp_span_is(at(&packed, 2).name, "gr\303\274\303\237e.pt"));
	assert_int_equal(setup.findings.list.count, 0);
	setup_done(&setup);
}

/* ---- what is wrong ---- */

static void what_is_no_plain_file_is_left_out(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct builder builder = { 0 };
	add(&builder, "first", '0', "", "1");
	add(&builder, "symbolic", '2', "/etc/passwd", "");
	add(&builder, "hard", '1', "first", "");
	add(&builder, "device", '3', "", "");
	add(&builder, "block", '4', "", "");
	add(&builder, "pipe", '6', "", "");
	add(&builder, "/absolute", '0', "", "x");
	add(&builder, "../up", '0', "", "x");
	add(&builder, "a/../../up", '0', "", "x");
	add(&builder, "back\\slash", '0', "", "x");
	add(&builder, "", '0', "", "x");
	add(&builder, "head", 'x', "",
		"23 GNU.sparse.size=600\n26 GNU.sparse.numblocks=1\n"
		"24 GNU.sparse.map=512,3\n");
	add(&builder, "holes", '0', "", "abc");
	add(&builder, "last", '0', "", "2");
	finish(&builder);
	struct fsdp_vec packed;
	if (!unpack_built(&setup, &builder, &packed))
		fail_msg("%s", fsdp_error_message(setup.error));
	assert_true(fsdp_span_is(at(&packed, 0).name, "first"));
	assert_true(fsdp_span_is(at(&packed, packed.count - 1).name, "last"));
	assert_int_equal(packed.count, 2);
	assert_int_equal(setup_found(&setup, "FI3043"), 5);
	assert_true(setup_found(&setup, "FI3061") >= 6);
	for (size_t i = 0; i < setup.findings.list.count; i++) {
		const struct fsdp_finding *finding = fsdp_vec_at(&setup.findings.list, i);
		if (i < 5)
			assert_int_equal(finding->severity, FSDP_ERROR);
	}
	setup_done(&setup);
}

static void every_truncation_of_a_tar_is_told(void **state)
{
	(void)state;
	struct builder builder = { 0 };
	add(&builder, "a", '0', "", "some text");
	add(&builder, "b", '0', "", "some more text");
	size_t end = builder.size;
	finish(&builder);
	for (size_t size = 0; size < end + 512; size++) {
		struct setup setup;
		setup_init(&setup);
		struct fsdp_vec packed;
		unsigned char *exact = malloc(size + 1);
		assert_non_null(exact);
		memcpy(exact, builder.bytes, size);
		bool ok = unpack(&setup, fsdp_span(exact, size), &packed);
		if (ok && setup.findings.list.count == 0)
			fail_msg("the first %zu bytes of %zu seem whole", size, end);
		free(exact);
		setup_done(&setup);
	}
}

static void every_truncation_of_a_compressed_tar_is_told(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof compressed / sizeof *compressed; i++) {
		struct fsdp_span file = setup_testdata(compressed[i][0]);
		/* Beyond its header each second byte, of two forms another. */
		for (size_t size = 0; size + 8 < file.size;
			size += size < 32 || size % 2 != i % 2 ? 1 : 2) {
			struct setup setup;
			setup_init(&setup);
			struct fsdp_vec packed;
			unsigned char *exact = malloc(size + 1);
			assert_non_null(exact);
			memcpy(exact, file.data, size);
			if (unpack(&setup, fsdp_span(exact, size), &packed))
				fail_msg("the first %zu bytes of %s seem whole", size,
					compressed[i][0]);
			free(exact);
			setup_done(&setup);
		}
		free_testdata(file);
	}
}

static void every_flipped_byte_is_survived(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof compressed / sizeof *compressed; i++) {
		struct fsdp_span file = setup_testdata(compressed[i][0]);
		unsigned char *copy = malloc(file.size);
		assert_non_null(copy);
		for (size_t byte = 0; byte < file.size;
			byte += byte < 32 || byte % 2 != i % 2 ? 1 : 2) {
			struct setup setup;
			setup_init(&setup);
			assert_true(
				fsdp_limits_set(&setup.limits, "stdin-bytes", 1 << 20));
			struct fsdp_vec packed;
			memcpy(copy, file.data, file.size);
			copy[byte] ^= 0xff;
			(void)unpack(&setup, fsdp_span(copy, file.size), &packed);
			setup_done(&setup);
		}
		free(copy);
		free_testdata(file);
	}
}

static void claims_are_not_believed(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct builder builder = { 0 };
	put_header(&builder, "big", '0', "", "77777777777");
	put(&builder, "text", 4);
	struct fsdp_vec packed;
	assert_false(unpack_built(&setup, &builder, &packed));
	assert_string_equal(fsdp_error_member(setup.error), "big");
	setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI1004");

	/* The same compressed: nothing is known, so nothing is taken before it comes. */
	unsigned char stored[4096];
	z_stream stream = { .next_in = builder.bytes,
		.avail_in = (uInt)builder.size,
		.next_out = stored,
		.avail_out = sizeof stored };
	assert_int_equal(
		deflateInit2(&stream, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	deflateEnd(&stream);
	uint64_t used = setup.budget.used;
	assert_false(unpack(
		&setup, fsdp_span(stored, sizeof stored - stream.avail_out), &packed));
	setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI2003");
	assert_true(setup.budget.used <= used + (1 << 20));
	setup_done(&setup);
}

/* Pages of `size` bytes, all the same (0) or each of its own number. */
static size_t compress_pages(size_t size, bool same, unsigned char *stored, size_t room)
{
	static unsigned char page[64 << 10];
	z_stream stream = { .next_out = stored, .avail_out = (uInt)room };
	memset(page, 0, sizeof page);
	assert_int_equal(
		deflateInit2(&stream, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
	for (size_t done = 0; done < size; done += sizeof page) {
		page[0] = same ? 0 : (unsigned char)(done / sizeof page);
		stream.next_in = page;
		stream.avail_in = sizeof page;
		assert_int_equal(deflate(&stream, Z_NO_FLUSH), Z_OK);
	}
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	deflateEnd(&stream);
	return room - stream.avail_out;
}

static void expect_limit(struct setup *setup, const char *name)
{
	assert_string_equal(fsdp_error_limit(setup->error), name);
	setup_expect(setup, FSDP_ERROR_LIMIT, "FI9001");
}

static void what_is_unpacked_has_ceilings(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	unsigned char stored[64 << 10];
	struct fsdp_vec packed;
	struct fsdp_span file =
		fsdp_span(stored, compress_pages(8 << 20, false, stored, sizeof stored));
	setup.budget.limits = &setup.limits;
	assert_true(unpack(&setup, file, &packed));
	assert_int_equal(at(&packed, 0).source.size, 8 << 20);
	assert_true(fsdp_limits_set(&setup.limits, "stdin-bytes", (8 << 20) - 1));
	assert_false(unpack(&setup, file, &packed));
	expect_limit(&setup, "stdin-bytes");
	setup_done(&setup);
	setup_init(&setup);
	setup.budget.limits = &setup.limits;
	setup.budget.ceiling = 8 << 20;
	assert_false(unpack(&setup, file, &packed));
	expect_limit(&setup, "memory");
	setup.budget.ceiling += 10 << 20;
	setup.budget.unpacked = 0;
	assert_true(unpack(&setup, file, &packed));
	setup.budget.ceiling = UINT64_MAX;

	assert_true(fsdp_limits_set(&setup.limits, "inflate-bytes", 8 << 20));
	setup.budget.unpacked = 0;
	assert_true(unpack(&setup, file, &packed));
	setup.budget.unpacked = 1;
	assert_false(unpack(&setup, file, &packed));
	expect_limit(&setup, "inflate-bytes");
	setup_done(&setup);
}

/* 64 MiB are free; beyond them each byte given allows for so many. */
static void the_ratio_of_unpacked_bytes_has_a_ceiling(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	static unsigned char stored[128 << 10];
	struct fsdp_vec packed;
	struct fsdp_span file =
		fsdp_span(stored, compress_pages(80 << 20, true, stored, sizeof stored));
	setup.budget.limits = &setup.limits;
	setup.budget.given = (16 << 20) / 64;
	assert_true(fsdp_limits_set(&setup.limits, "inflate-ratio", 64));
	assert_true(unpack(&setup, file, &packed));
	setup.budget.unpacked = 0;
	assert_true(fsdp_limits_set(&setup.limits, "inflate-ratio", 63));
	assert_false(unpack(&setup, file, &packed));
	expect_limit(&setup, "inflate-ratio");
	setup_done(&setup);
}

/* Long runs of the same cost their place in a list. */
static void pages_that_repeat_are_kept_once(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	unsigned char stored[64 << 10], bytes[8];
	struct fsdp_vec packed;
	struct fsdp_span file =
		fsdp_span(stored, compress_pages(32 << 20, true, stored, sizeof stored));
	setup.budget.ceiling = 512 << 10;
	assert_true(unpack(&setup, file, &packed));
	assert_int_equal(at(&packed, 0).source.size, 32 << 20);
	struct fsdp_source source = at(&packed, 0).source;
	assert_true(fsdp_source_read(&source, source.size - 8, bytes, 8, &setup.error));
	assert_memory_equal(bytes, "\0\0\0\0\0\0\0\0", 8);
	setup_done(&setup);
}

/* libarchive by itself would put filter on filter for as long as it looks compressed. */
static void what_is_compressed_twice_is_unpacked_once(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	unsigned char once[64 << 10], twice[4096];
	z_stream stream = {
		.next_in = once, .next_out = twice, .avail_out = sizeof twice
	};
	stream.avail_in = (uInt)compress_pages(8 << 20, true, once, sizeof once);
	assert_int_equal(
		deflateInit2(&stream, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	deflateEnd(&stream);
	struct fsdp_vec packed;
	assert_false(unpack(
		&setup, fsdp_span(twice, sizeof twice - stream.avail_out), &packed));
	assert_true(setup.budget.unpacked < 1 << 20);
	setup_expect(&setup, FSDP_ERROR_UNSUPPORTED, NULL);
	setup_done(&setup);
}

static void the_number_of_members_has_a_ceiling(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct fsdp_vec packed;
	struct builder builder = { 0 };
	for (int i = 0; i < 10; i++)
		add(&builder, "name", '0', "", "0123456789");
	finish(&builder);
	assert_true(fsdp_limits_set(&setup.limits, "members", 9));
	assert_false(unpack_built(&setup, &builder, &packed));
	expect_limit(&setup, "members");
	assert_true(fsdp_limits_set(&setup.limits, "members", 10));
	assert_true(unpack_built(&setup, &builder, &packed));
	assert_int_equal(packed.count, 10);
	setup_done(&setup);
}

static void a_tar_without_end_or_with_more_behind_it_is_told(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct builder builder = { 0 };
	add(&builder, "a", '0', "", "text");
	struct fsdp_vec packed;
	assert_true(unpack_built(&setup, &builder, &packed));
	assert_int_equal(setup_found(&setup, "FI1004"), 1);
	finish(&builder);
	assert_true(unpack_built(&setup, &builder, &packed));
	assert_int_equal(setup.findings.list.count, 1);
	add(&builder, "hidden", '0', "", "text");
	assert_true(unpack_built(&setup, &builder, &packed));
	assert_int_equal(packed.count, 1);
	assert_int_equal(setup_found(&setup, "FI3049"), 1);
	setup_done(&setup);
}

static void what_is_compressed_twice_is_not_looked_into(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct fsdp_span file = setup_testdata("archive/text.gz");
	unsigned char stored[4096];
	unsigned char *inner = malloc(file.size);
	assert_non_null(inner);
	memcpy(inner, file.data, file.size);
	z_stream stream = { .next_in = inner,
		.avail_in = (uInt)file.size,
		.next_out = stored,
		.avail_out = sizeof stored };
	assert_int_equal(
		deflateInit2(&stream, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	deflateEnd(&stream);
	struct fsdp_vec packed;
	assert_false(unpack(
		&setup, fsdp_span(stored, sizeof stored - stream.avail_out), &packed));
	setup_expect(&setup, FSDP_ERROR_UNSUPPORTED, NULL);
	free(inner);
	free_testdata(file);
	setup_done(&setup);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_of_a_compressed_tar_are_unpacked),
		cmocka_unit_test(a_tar_is_unpacked_from_memory_and_from_a_file),
		cmocka_unit_test(a_bare_compressed_file_has_no_name),
		cmocka_unit_test(first_bytes_tell_the_kind),
		cmocka_unit_test(names_are_bytes),
		cmocka_unit_test(what_is_no_plain_file_is_left_out),
		cmocka_unit_test(every_truncation_of_a_tar_is_told),
		cmocka_unit_test(every_truncation_of_a_compressed_tar_is_told),
		cmocka_unit_test(every_flipped_byte_is_survived),
		cmocka_unit_test(claims_are_not_believed),
		cmocka_unit_test(what_is_unpacked_has_ceilings),
		cmocka_unit_test(the_ratio_of_unpacked_bytes_has_a_ceiling),
		cmocka_unit_test(pages_that_repeat_are_kept_once),
		cmocka_unit_test(what_is_compressed_twice_is_unpacked_once),
		cmocka_unit_test(the_number_of_members_has_a_ceiling),
		cmocka_unit_test(a_tar_without_end_or_with_more_behind_it_is_told),
		cmocka_unit_test(what_is_compressed_twice_is_not_looked_into),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
