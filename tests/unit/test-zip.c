/* SPDX-License-Identifier: Apache-2.0 */
#include "store-setup.h"

#include <unistd.h>
#include <zlib.h>

#include "io/zip.h"

/* ---- a zip written by hand, so that every field can be made to lie ---- */

enum { MOST_MEMBERS = 70000 };

struct builder {
	unsigned char *bytes;
	size_t size, room;
	size_t count;
	struct {
		char name[32];
		size_t header, name_size;
		uint32_t crc, stored_size, size;
		uint16_t method, flags;
	} members[MOST_MEMBERS];
	size_t *entries; /* where each entry of the directory begins */
	size_t directory, directory_end, end;
};

static struct builder *builder_new(void)
{
	struct builder *builder = calloc(1, sizeof *builder);
	assert_non_null(builder);
	builder->entries = calloc(MOST_MEMBERS, sizeof *builder->entries);
	builder->room = 16 << 20;
	builder->bytes = calloc(1, builder->room);
	assert_true(builder->entries != NULL && builder->bytes != NULL);
	return builder;
}

static void builder_free(struct builder *builder)
{
	free(builder->entries);
	free(builder->bytes);
	free(builder);
}

static void put(struct builder *builder, const void *bytes, size_t size)
{
	assert_true(builder->size + size <= builder->room);
	memcpy(builder->bytes + builder->size, bytes, size);
	builder->size += size;
}

static void put_le(struct builder *builder, uint64_t value, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		unsigned char byte = (unsigned char)(i < 8 ? value >> 8 * i : 0);
		put(builder, &byte, 1);
	}
}

static void poke(struct builder *builder, size_t at, uint64_t value, size_t size)
{
	for (size_t i = 0; i < size; i++)
		builder->bytes[at + i] = (unsigned char)(value >> 8 * i);
}

/* As PyTorch writes it: sizes behind the bytes. */
static void add(struct builder *builder, const char *name, const void *bytes, size_t size)
{
	size_t i = builder->count++;
	snprintf(builder->members[i].name, sizeof builder->members[i].name, "%s", name);
	builder->members[i].header = builder->size;
	builder->members[i].name_size = strlen(name);
	builder->members[i].crc = (uint32_t)crc32(0, bytes, (uInt)size);
	builder->members[i].stored_size = builder->members[i].size = (uint32_t)size;
	builder->members[i].flags = 0x0808;
	put(builder, "PK\3\4", 4);
	put_le(builder, 0, 2);
	put_le(builder, 0x0808, 2);
	put_le(builder, 0, 18);
	put_le(builder, strlen(name), 2);
	put_le(builder, 4 + 3, 2);
	put(builder, name, strlen(name));
	put(builder, "FB\3\0ZZZ", 7);
	put(builder, bytes, size);
	put(builder, "PK\7\10", 4);
	put_le(builder, builder->members[i].crc, 4);
	put_le(builder, size, 4);
	put_le(builder, size, 4);
}

static void add_deflated(
	struct builder *builder, const char *name, const void *bytes, size_t size)
{
	unsigned char stored[4096];
	z_stream stream = { 0 };
	assert_int_equal(
		deflateInit2(&stream, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
	unsigned char *copy = malloc(size);
	assert_non_null(copy);
	memcpy(copy, bytes, size);
	stream.next_in = copy;
	stream.avail_in = (uInt)size;
	stream.next_out = stored;
	stream.avail_out = sizeof stored;
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	deflateEnd(&stream);
	free(copy);
	size_t i = builder->count;
	add(builder, name, stored, sizeof stored - stream.avail_out);
	builder->members[i].method = 8;
	builder->members[i].size = (uint32_t)size;
	poke(builder, builder->members[i].header + 8, 8, 2);
}

static void put_entry(struct builder *builder, size_t i)
{
	builder->entries[i] = builder->size;
	put(builder, "PK\1\2", 4);
	put_le(builder, 0, 4);
	put_le(builder, builder->members[i].flags, 2);
	put_le(builder, builder->members[i].method, 2);
	put_le(builder, 0, 4);
	put_le(builder, builder->members[i].crc, 4);
	put_le(builder, builder->members[i].stored_size, 4);
	put_le(builder, builder->members[i].size, 4);
	put_le(builder, builder->members[i].name_size, 2);
	put_le(builder, 0, 12);
	put_le(builder, builder->members[i].header, 4);
	put(builder, builder->members[i].name, builder->members[i].name_size);
}

static void put_end64(struct builder *builder)
{
	size_t at = builder->size;
	put(builder, "PK\6\6", 4);
	put_le(builder, 44, 8);
	put_le(builder, 45 | 45 << 16, 4);
	put_le(builder, 0, 8);
	put_le(builder, builder->count, 8);
	put_le(builder, builder->count, 8);
	put_le(builder, builder->directory_end - builder->directory, 8);
	put_le(builder, builder->directory, 8);
	put(builder, "PK\6\7", 4);
	put_le(builder, 0, 4);
	put_le(builder, at, 8);
	put_le(builder, 1, 4);
}

static void put_end(struct builder *builder, bool zip64)
{
	builder->directory = builder->size;
	for (size_t i = 0; i < builder->count; i++)
		put_entry(builder, i);
	builder->directory_end = builder->size;
	if (zip64)
		put_end64(builder);
	size_t count = builder->count < 0xffff ? builder->count : 0xffff;
	builder->end = builder->size;
	put(builder, "PK\5\6", 4);
	put_le(builder, 0, 4);
	put_le(builder, count, 2);
	put_le(builder, count, 2);
	put_le(builder, builder->directory_end - builder->directory, 4);
	put_le(builder, builder->directory, 4);
	put_le(builder, 0, 2);
}

static struct builder *small_zip(bool zip64)
{
	struct builder *builder = builder_new();
	add(builder, "r/data.pkl", "pickle", 6);
	add(builder, "r/data/0", "0123456789abcdef", 16);
	add(builder, "r/version", "3\n", 2);
	put_end(builder, zip64);
	return builder;
}

static bool open_bytes(struct setup *setup, struct fsdp_span bytes, struct fsdp_zip *zip)
{
	struct fsdp_source source = fsdp_source_memory(bytes);
	return fsdp_zip_open(&source, &setup->arena, &setup->limits, FSDP_SPAN("f.pt"),
		&setup->findings, zip, &setup->error);
}

static bool open_built(
	struct setup *setup, const struct builder *builder, struct fsdp_zip *zip)
{
	return open_bytes(setup, fsdp_span(builder->bytes, builder->size), zip);
}

/* Everything that can be asked of a zip, whatever it is; for hostile bytes. */
static void use(struct setup *setup, struct fsdp_zip *zip)
{
	for (size_t i = 0; i < zip->members.count; i++) {
		const struct fsdp_zip_member *member = fsdp_zip_member(zip, i);
		assert_non_null(fsdp_zip_find(zip, member->name));
		uint64_t offset;
		struct fsdp_span bytes;
		unsigned char part[4];
		if (fsdp_zip_locate(&zip->source, member, &offset, NULL))
			(void)fsdp_zip_read_part(&zip->source, offset,
				member->stored_size, member->method, 1, part, sizeof part,
				NULL);
		(void)fsdp_zip_read(zip, member, 1 << 20, &setup->arena, &bytes, NULL);
	}
	(void)fsdp_zip_check_headers(
		zip, FSDP_SPAN("f.pt"), &setup->findings, NULL, NULL);
}

/* ---- what is right ---- */

static void an_ordinary_zip_is_read(void **state)
{
	(void)state;
	for (int zip64 = 0; zip64 < 2; zip64++) {
		struct setup setup;
		setup_init(&setup);
		struct builder *builder = small_zip(zip64 != 0);
		struct fsdp_zip zip;
		assert_true(open_built(&setup, builder, &zip));
		assert_int_equal(zip.members.count, 3);
		assert_int_equal(zip.directory_offset, builder->directory);
		assert_int_equal(
			zip.directory_size, builder->directory_end - builder->directory);
		assert_int_equal(zip.end_size, builder->size - builder->directory_end);
		assert_false(zip.no_crc);
		/* The names in front of it are 27 bytes. */
		assert_int_equal((uintptr_t)zip.index.slots % sizeof *zip.index.slots, 0);
		const struct fsdp_zip_member *member =
			fsdp_zip_find(&zip, FSDP_SPAN("r/data/0"));
		assert_ptr_equal(member, fsdp_zip_member(&zip, 1));
		assert_int_equal(member->size, 16);
		assert_int_equal(
			member->crc, crc32(0, (const Bytef *)"0123456789abcdef", 16));
		assert_null(fsdp_zip_find(&zip, FSDP_SPAN("r/data/1")));
		assert_null(fsdp_zip_find(&zip, FSDP_SPAN("R/data/0")));
		assert_null(fsdp_zip_find(&zip, FSDP_SPAN("")));
		struct fsdp_span bytes;
		assert_true(fsdp_zip_read(
			&zip, member, 16, &setup.arena, &bytes, &setup.error));
		assert_true(fsdp_span_is(bytes, "0123456789abcdef"));
		uint64_t offsets[3];
		assert_true(fsdp_zip_check_headers(
			&zip, FSDP_SPAN("f.pt"), &setup.findings, offsets, &setup.error));
		assert_memory_equal(builder->bytes + offsets[1], "0123456789abcdef", 16);
		assert_int_equal(setup.findings.list.count, 0);
		builder_free(builder);
		setup_done(&setup);
	}
}

static void a_file_of_torch_is_read_without_findings(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct fsdp_span file = setup_testdata("torch-zip/state-dict/model.pt");
	struct fsdp_zip zip;
	assert_true(open_bytes(&setup, file, &zip));
	assert_true(fsdp_zip_check_headers(
		&zip, FSDP_SPAN("f.pt"), &setup.findings, NULL, &setup.error));
	assert_int_equal(setup.findings.list.count, 0);
	struct fsdp_span bytes;
	const struct fsdp_zip_member *member =
		fsdp_zip_find(&zip, FSDP_SPAN("model/version"));
	assert_non_null(member);
	assert_true(fsdp_zip_read(&zip, member, 100, &setup.arena, &bytes, &setup.error));
	assert_true(fsdp_span_is(bytes, "3\n"));
	assert_non_null(fsdp_zip_find(&zip, FSDP_SPAN("model/data.pkl")));
	const unsigned char *owned = file.data;
	for (size_t i = 0; i < zip.members.count; i++) {
		uint64_t offset;
		member = fsdp_zip_member(&zip, i);
		assert_true(fsdp_zip_locate(&zip.source, member, &offset, &setup.error));
		assert_int_equal(offset % 64, 0);
		assert_int_equal(
			crc32(0, owned + offset, (uInt)member->size), member->crc);
	}
	free((void *)(uintptr_t)owned);
	setup_done(&setup);
}

static void a_zip_without_members_is_one(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct builder *builder = builder_new();
	put_end(builder, false);
	struct fsdp_zip zip;
	assert_true(open_built(&setup, builder, &zip));
	assert_int_equal(zip.members.count, 0);
	assert_null(fsdp_zip_find(&zip, FSDP_SPAN("a")));
	use(&setup, &zip);
	assert_int_equal(setup.findings.list.count, 0);
	builder_free(builder);
	setup_done(&setup);
}

static void members_may_stand_in_any_order(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct builder *builder = builder_new();
	char name[32];
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof name, "r/%d", i);
		add(builder, name, name, strlen(name));
	}
	for (size_t i = 0; i < 50; i++) {
		unsigned char swap[sizeof builder->members[0]];
		memcpy(swap, &builder->members[i], sizeof swap);
		memcpy(&builder->members[i], &builder->members[99 - i], sizeof swap);
		memcpy(&builder->members[99 - i], swap, sizeof swap);
	}
	put_end(builder, false);
	struct fsdp_zip zip;
	assert_true(open_built(&setup, builder, &zip));
	uint64_t offsets[100];
	assert_true(fsdp_zip_check_headers(
		&zip, FSDP_SPAN("f.pt"), &setup.findings, offsets, &setup.error));
	assert_int_equal(setup.findings.list.count, 0);
	for (size_t i = 0; i < 100; i++) {
		const struct fsdp_zip_member *member = fsdp_zip_member(&zip, i);
		assert_memory_equal(builder->bytes + offsets[i], member->name.data,
			member->name.size);
	}
	builder_free(builder);
	setup_done(&setup);
}

static void a_zip_inside_of_a_file_counts_from_its_own_start(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct builder *builder = small_zip(true);
	size_t size = builder->size;
	memmove(builder->bytes + 1000, builder->bytes, size);
	memset(builder->bytes, 'x', 1000);
	memset(builder->bytes + 1000 + size, 'x', 1000);
	struct fsdp_source file =
		fsdp_source_memory(fsdp_span(builder->bytes, size + 2000));
	struct fsdp_source slice;
	assert_true(fsdp_source_slice(&file, 1000, size, &slice, &setup.error));
	struct fsdp_zip zip;
	assert_true(fsdp_zip_open(&slice, &setup.arena, &setup.limits, FSDP_SPAN("f.pt"),
		&setup.findings, &zip, &setup.error));
	struct fsdp_span bytes;
	assert_true(fsdp_zip_read(&zip, fsdp_zip_find(&zip, FSDP_SPAN("r/version")), 2,
		&setup.arena, &bytes, &setup.error));
	assert_true(fsdp_span_is(bytes, "3\n"));
	assert_int_equal(setup.findings.list.count, 0);
	builder_free(builder);
	setup_done(&setup);
}

static void more_members_than_16_bits_count(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct builder *builder = builder_new();
	char name[32];
	for (int i = 0; i < MOST_MEMBERS; i++) {
		snprintf(name, sizeof name, "r/data/%d", i);
		add(builder, name, name, strlen(name));
	}
	put_end(builder, true);
	struct fsdp_zip zip;
	assert_true(open_built(&setup, builder, &zip));
	assert_int_equal(zip.members.count, MOST_MEMBERS);
	for (int i = 0; i < MOST_MEMBERS; i += 7) {
		int size = snprintf(name, sizeof name, "r/data/%d", i);
		assert_ptr_equal(fsdp_zip_find(&zip, fsdp_span(name, (size_t)size)),
			fsdp_zip_member(&zip, (size_t)i));
	}
	assert_true(fsdp_zip_check_headers(
		&zip, FSDP_SPAN("f.pt"), &setup.findings, NULL, &setup.error));
	assert_int_equal(setup.findings.list.count, 0);

	assert_true(fsdp_limits_set(&setup.limits, "members", MOST_MEMBERS - 1));
	assert_false(open_built(&setup, builder, &zip));
	assert_string_equal(fsdp_error_limit(setup.error), "members");
	setup_expect(&setup, FSDP_ERROR_LIMIT, "FI9001");
	assert_true(fsdp_limits_set(&setup.limits, "members", MOST_MEMBERS));
	assert_true(open_built(&setup, builder, &zip));
	builder_free(builder);
	setup_done(&setup);
}

static void zip64_fields_take_the_place_of_saturated_ones(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct builder *builder = builder_new();
	add(builder, "r/data.pkl", "pickle", 6);
	add(builder, "r/data/0", "0123456789abcdef", 16);
	builder->directory = builder->size;
	put_entry(builder, 0);
	put_entry(builder, 1);
	poke(builder, builder->entries[1] + 20, UINT32_MAX, 4);
	poke(builder, builder->entries[1] + 24, UINT32_MAX, 4);
	poke(builder, builder->entries[1] + 42, UINT32_MAX, 4);
	poke(builder, builder->entries[1] + 30, 28, 2);
	put_le(builder, 1 | 24 << 16, 4);
	put_le(builder, 16, 8);
	put_le(builder, 16, 8);
	put_le(builder, builder->members[1].header, 8);
	builder->directory_end = builder->size;
	put_end64(builder);
	put(builder, "PK\5\6\377\377\377\377\377\377\377\377", 12);
	put_le(builder, UINT64_MAX, 8);
	put_le(builder, 0, 2);
	struct fsdp_zip zip;
	assert_true(open_built(&setup, builder, &zip));
	const struct fsdp_zip_member *member = fsdp_zip_member(&zip, 1);
	assert_int_equal(member->size, 16);
	assert_int_equal(member->stored_size, 16);
	assert_int_equal(member->header, builder->members[1].header);
	use(&setup, &zip);
	assert_int_equal(setup.findings.list.count, 0);

	poke(builder, builder->entries[1] + 30 + 16 + 8 + 2, 16, 2);
	assert_true(open_built(&setup, builder, &zip));
	assert_int_equal(setup_found(&setup, "FI3044"), 1);
	builder_free(builder);
	setup_done(&setup);
}

static void crcs_that_were_never_computed_are_known(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct builder *builder = builder_new();
	add(builder, "r/data.pkl", "pickle", 6);
	add(builder, "r/version", "3\n", 2);
	builder->members[0].crc = builder->members[1].crc = 0;
	put_end(builder, false);
	struct fsdp_zip zip;
	assert_true(open_built(&setup, builder, &zip));
	assert_true(zip.no_crc);
	poke(builder, builder->entries[1] + 16, 1, 1);
	assert_true(open_built(&setup, builder, &zip));
	assert_false(zip.no_crc);
	builder_free(builder);
	setup_done(&setup);
}

/* ---- what is wrong ---- */

static void every_truncation_is_told(void **state)
{
	(void)state;
	for (int zip64 = 0; zip64 < 2; zip64++) {
		struct builder *builder = small_zip(zip64 != 0);
		for (size_t size = 0; size < builder->size; size++) {
			struct setup setup;
			setup_init(&setup);
			unsigned char *exact = malloc(size + 1);
			assert_non_null(exact);
			memcpy(exact, builder->bytes, size);
			struct fsdp_zip zip;
			assert_false(open_bytes(&setup, fsdp_span(exact, size), &zip));
			setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI1040");
			free(exact);
			setup_done(&setup);
		}
		builder_free(builder);
	}
}

static void a_cut_zip_says_what_its_front_holds(void **state)
{
	(void)state;
	struct builder *builder = small_zip(true);
	const struct {
		size_t size;
		const char *says;
	} cuts[] = {
		{ 20, "0 complete records" },
		{ builder->members[1].header - 1, "0 complete records" },
		{ builder->members[1].header, "1 complete record in" },
		{ builder->members[2].header + 40, "2 complete records" },
		{ builder->directory, "3 complete records" },
		{ builder->end, "3 complete records in" },
	};
	for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
		struct setup setup;
		setup_init(&setup);
		struct fsdp_zip zip;
		assert_false(open_bytes(
			&setup, fsdp_span(builder->bytes, cuts[i].size), &zip));
		assert_non_null(strstr(fsdp_error_message(setup.error), cuts[i].says));
		assert_string_equal(fsdp_error_hint(setup.error), "copy this file again");
		setup_done(&setup);
	}
	builder_free(builder);
}

static void every_flipped_byte_is_survived(void **state)
{
	(void)state;
	for (int zip64 = 0; zip64 < 2; zip64++) {
		struct builder *builder = builder_new();
		add(builder, "r/data.pkl", "pickle", 6);
		add_deflated(builder, "r/data/0", "0123456789abcdef0123456789abcdef", 32);
		put_end(builder, zip64 != 0);
		for (size_t i = 0; i < builder->size * 3; i++) {
			static const unsigned char masks[] = { 0x01, 0x80, 0xff };
			struct setup setup;
			setup_init(&setup);
			unsigned char *exact = malloc(builder->size);
			assert_non_null(exact);
			memcpy(exact, builder->bytes, builder->size);
			exact[i / 3] ^= masks[i % 3];
			struct fsdp_zip zip;
			if (open_bytes(&setup, fsdp_span(exact, builder->size), &zip))
				use(&setup, &zip);
			free(exact);
			setup_done(&setup);
		}
		builder_free(builder);
	}
}

/* One field of the small zip changed, and the rule that must be found. */
struct lie {
	const char *rule;
	enum { IN_ENTRY, IN_END, IN_LOCAL, IN_NAME, IN_END64, IN_LOCATOR } where;
	size_t at, size;
	uint64_t value;
};

static void a_lie_in_a_field_is_found(void **state)
{
	(void)state;
	static const struct lie lies[] = {
		{ "FI3044", IN_ENTRY, 8, 2, 0x0809 }, /* encrypted */
		{ "FI3044", IN_ENTRY, 8, 2, 0x0848 },
		{ "FI3044", IN_ENTRY, 8, 2, 0x0828 }, /* patch */
		{ "FI3044", IN_ENTRY, 10, 2, 93 },    /* method */
		{ "FI3044", IN_ENTRY, 20, 4, 15 },    /* stored size */
		{ "FI3044", IN_ENTRY, 24, 4, 17 },    /* size */
		{ "FI3047", IN_ENTRY, 20, 4, 0 },
		{ "FI3047", IN_ENTRY, 38, 4, 0x10 },       /* a folder */
		{ "FI3047", IN_ENTRY, 38, 4, 0xa1ff0000 }, /* a link */
		{ "FI3047", IN_NAME, 7, 1, '/' },
		{ "FI3047", IN_NAME, 6, 2, 0x2f61 }, /* a/ */
		{ "FI3050", IN_ENTRY, 34, 2, 7 },    /* disk */
		{ "FI3051", IN_ENTRY, 42, 4, 0 },    /* header */
		{ "FI3051", IN_ENTRY, 42, 4, 0xfffffff0 },
		{ "FI3051", IN_ENTRY, 20, 4, 0xfffffff0 },
		{ "FI3043", IN_NAME, 0, 1, '/' },
		{ "FI3043", IN_NAME, 1, 1, ':' },
		{ "FI3043", IN_NAME, 3, 1, '\\' },
		{ "FI3043", IN_NAME, 3, 1, 0 },
		{ "FI3043", IN_NAME, 0, 3, 0x2f2e2e }, /* ../ */
		{ "FI3043", IN_NAME, 5, 3, 0x2e2e2f }, /* /.. */
		{ "FI3068", IN_NAME, 3, 1, 0x1b },     /* escape */
		{ "FI3068", IN_NAME, 3, 1, 0x7f },
		{ "FI3068", IN_NAME, 3, 1, 0xff },     /* no UTF-8 */
		{ "FI3068", IN_NAME, 3, 2, 0x9bc2 },   /* C1 */
		{ "FI3068", IN_NAME, 3, 3, 0xae80e2 }, /* turns the direction */
		{ "FI3068", IN_NAME, 3, 3, 0x80a0ed }, /* a surrogate */
		{ "FI3068", IN_NAME, 3, 2, 0xafc0 },   /* over-long */
		{ "FI3050", IN_END, 4, 2, 3 },         /* disks */
		{ "FI3050", IN_END, 6, 2, 3 },
		{ "FI3050", IN_END, 8, 2, 4 }, /* counts */
		{ "FI3050", IN_END, 10, 2, 2 },
		{ "FI3050", IN_END, 12, 4, 50 }, /* size */
		{ "FI3050", IN_END, 12, 4, 0xfffffff0 },
		{ "FI3050", IN_END, 16, 4, 3 }, /* offset */
		{ "FI3050", IN_END, 16, 4, 0xfffffff0 },
		{ "FI3050", IN_END, 20, 2, 1 }, /* comment */
		{ "FI3050", IN_END64, 4, 8, 45 },
		{ "FI3050", IN_END64, 16, 4, 5 },
		{ "FI3050", IN_END64, 24, 8, UINT64_C(1) << 40 },
		{ "FI3050", IN_END64, 32, 8, UINT64_C(1) << 40 },
		{ "FI3050", IN_END64, 40, 8, UINT64_C(1) << 50 },
		{ "FI3050", IN_END64, 48, 8, UINT64_C(1) << 50 },
		{ "FI3050", IN_LOCATOR, 8, 8, 7 },
		{ "FI3050", IN_LOCATOR, 8, 8, UINT64_MAX },
		{ "FI3050", IN_LOCATOR, 16, 4, 9 },
		{ "FI3044", IN_LOCAL, 0, 4, 0 },
		{ "FI3044", IN_LOCAL, 6, 2, 0x0809 },
		{ "FI3044", IN_LOCAL, 8, 2, 8 },
		{ "FI3044", IN_LOCAL, 14, 4, 1 },
		{ "FI3044", IN_LOCAL, 18, 4, 1 },
		{ "FI3044", IN_LOCAL, 22, 4, 1 },
		{ "FI3040", IN_LOCAL, 30, 1, 'x' },
		{ "FI3044", IN_LOCAL, 30 + 8 + 2, 2, 4 },
		{ "FI3044", IN_LOCAL, 28, 2, 0xffff },
	};
	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
		const struct lie *lie = &lies[i];
		struct setup setup;
		setup_init(&setup);
		bool zip64 = lie->where == IN_END64 || lie->where == IN_LOCATOR;
		struct builder *builder = small_zip(zip64);
		size_t base = lie->where == IN_ENTRY   ? builder->entries[1]
			      : lie->where == IN_NAME  ? builder->entries[1] + 46
			      : lie->where == IN_LOCAL ? builder->members[1].header
			      : lie->where == IN_END   ? builder->end
						       : builder->directory_end;
		poke(builder, base + (lie->where == IN_LOCATOR ? 56 : 0) + lie->at,
			lie->value, lie->size);
		struct fsdp_zip zip;
		if (open_built(&setup, builder, &zip))
			use(&setup, &zip);
		if (setup_found(&setup, lie->rule) == 0)
			fail_msg("lie %zu is not found: %s", i, lie->rule);
		builder_free(builder);
		setup_done(&setup);
	}
}

static void bytes_around_the_zip_are_found(void **state)
{
	(void)state;
	struct builder *builder = small_zip(false);
	size_t size = builder->size;
	struct fsdp_zip zip;
	struct setup setup;

	setup_init(&setup);
	memset(builder->bytes + size, 'x', 100);
	assert_true(open_bytes(&setup, fsdp_span(builder->bytes, size + 100), &zip));
	assert_int_equal(setup_found(&setup, "FI3049"), 1);
	assert_int_equal(setup.findings.list.count, 1);
	setup_done(&setup);

	setup_init(&setup); /* as a comment */
	poke(builder, size - 2, 100, 2);
	assert_true(open_bytes(&setup, fsdp_span(builder->bytes, size + 100), &zip));
	assert_int_equal(setup_found(&setup, "FI3049"), 1);
	assert_int_equal(setup.findings.list.count, 1);
	setup_done(&setup);

	setup_init(&setup); /* in front: all offsets are wrong by as much */
	poke(builder, size - 2, 0, 2);
	memmove(builder->bytes + 50, builder->bytes, size);
	memset(builder->bytes, '#', 50);
	assert_true(open_bytes(&setup, fsdp_span(builder->bytes, size + 50), &zip));
	assert_int_equal(setup_found(&setup, "FI3049"), 1);
	assert_int_equal(setup_found(&setup, "FI3050"), 1);
	assert_int_equal(fsdp_zip_member(&zip, 0)->header, 50);
	use(&setup, &zip);
	assert_int_equal(setup.findings.list.count, 2);
	setup_done(&setup);
	builder_free(builder);

	setup_init(&setup); /* in front, with offsets that count it */
	builder = builder_new();
	put(builder, "0123456789", 10);
	add(builder, "r/data.pkl", "pickle", 6);
	put_end(builder, false);
	assert_true(open_built(&setup, builder, &zip));
	assert_int_equal(setup_found(&setup, "FI3049"), 1);
	assert_int_equal(setup.findings.list.count, 1);
	builder_free(builder);
	setup_done(&setup);
}

static void a_second_zip_is_found(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct builder *builder = small_zip(false);
	size_t size = builder->size;
	memcpy(builder->bytes + size, builder->bytes, size);
	struct fsdp_zip zip;
	assert_true(open_bytes(&setup, fsdp_span(builder->bytes, 2 * size), &zip));
	assert_int_equal(setup_found(&setup, "FI3050"), 1);
	setup_done(&setup);
	builder_free(builder);
}

static void a_zip_stored_in_a_member_is_no_second_end(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct builder *inner = small_zip(true), *builder = builder_new();
	add(builder, "r/data.pkl", "pickle", 6);
	add(builder, "r/data/0", inner->bytes, inner->size);
	put_end(builder, true);
	struct fsdp_zip zip;
	assert_true(open_built(&setup, builder, &zip));
	use(&setup, &zip);
	assert_int_equal(setup.findings.list.count, 0);
	builder_free(inner);
	builder_free(builder);
	setup_done(&setup);
}

static void members_that_the_directory_hides_are_found(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct builder *builder = builder_new();
	add(builder, "r/data.pkl", "pickle", 6);
	add(builder, "r/hidden", "pickle", 6);
	builder->count--;
	add(builder, "r/version", "3\n", 2);
	unsigned char gap[6000];
	memset(gap, 0, sizeof gap);
	put(builder, gap, sizeof gap);
	add(builder, "r/zero", "gap", 3);
	memset(gap, 'g', sizeof gap);
	put(builder, gap, sizeof gap);
	put_end(builder, false);
	struct fsdp_zip zip;
	assert_true(open_built(&setup, builder, &zip));
	assert_int_equal(setup.findings.list.count, 0);
	use(&setup, &zip);
	assert_int_equal(setup_found(&setup, "FI3049"), 2);
	const struct fsdp_finding *hidden = fsdp_vec_at(&setup.findings.list, 0);
	assert_int_equal(hidden->severity, FSDP_ERROR);
	const struct fsdp_finding *junk = fsdp_vec_at(&setup.findings.list, 1);
	assert_int_equal(junk->severity, FSDP_WARNING);
	builder_free(builder);
	setup_done(&setup);
}

static void of_equal_names_the_later_is_found(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct builder *builder = builder_new();
	add(builder, "r/data.pkl", "first", 5);
	add(builder, "r/DATA.pkl", "other", 5);
	add(builder, "r/data.pkl", "later", 5);
	add(builder, "r/[x", "a", 1);
	add(builder, "r/{X", "b", 1);
	put_end(builder, false);
	struct fsdp_zip zip;
	assert_true(open_built(&setup, builder, &zip));
	assert_int_equal(setup_found(&setup, "FI3041"), 2);
	assert_ptr_equal(
		fsdp_zip_find(&zip, FSDP_SPAN("r/data.pkl")), fsdp_zip_member(&zip, 2));
	assert_ptr_equal(
		fsdp_zip_find(&zip, FSDP_SPAN("r/DATA.pkl")), fsdp_zip_member(&zip, 1));
	assert_null(fsdp_zip_find(&zip, FSDP_SPAN("r/Data.pkl")));
	builder_free(builder);
	setup_done(&setup);
}

/* Names of one case-folded form, and entries of one header: no step is quadratic. */
static void many_equal_things_cost_no_more(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct builder *builder = builder_new();
	add(builder, "aaaaaaaaaaaaaaaa", "x", 1);
	builder->count = 65536;
	for (unsigned i = 0; i < 65536; i++) {
		builder->members[i] = builder->members[0];
		for (unsigned bit = 0; bit < 16; bit++)
			builder->members[i].name[bit] = i >> bit & 1 ? 'A' : 'a';
	}
	put_end(builder, true);
	struct fsdp_zip zip;
	assert_true(open_built(&setup, builder, &zip));
	assert_int_equal(setup_found(&setup, "FI3041"), 1000);
	assert_int_equal(setup_found(&setup, "FI3051"), 1000);
	for (size_t i = 0; i < 65536; i++)
		assert_ptr_equal(fsdp_zip_find(&zip, fsdp_zip_member(&zip, i)->name),
			fsdp_zip_member(&zip, i));
	builder_free(builder);
	setup_done(&setup);
}

static void a_directory_above_its_ceiling_is_refused(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct builder *builder = small_zip(false);
	size_t size = builder->directory_end - builder->directory;
	struct fsdp_zip zip;
	assert_true(fsdp_limits_set(&setup.limits, "directory-bytes", size));
	assert_true(open_built(&setup, builder, &zip));
	assert_true(fsdp_limits_set(&setup.limits, "directory-bytes", size - 1));
	assert_false(open_built(&setup, builder, &zip));
	assert_string_equal(fsdp_error_limit(setup.error), "directory-bytes");
	setup_expect(&setup, FSDP_ERROR_LIMIT, "FI9001");
	builder_free(builder);
	setup_done(&setup);
}

static void an_entry_that_is_cut_off_is_damage(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct builder *builder = small_zip(false);
	struct fsdp_zip zip;
	poke(builder, builder->entries[2] + 28, 0xffff, 2);
	assert_false(open_built(&setup, builder, &zip));
	assert_int_equal(fsdp_error_offset(setup.error), builder->entries[2]);
	setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI1040");
	poke(builder, builder->entries[2], 0, 4);
	assert_false(open_built(&setup, builder, &zip));
	setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI1040");
	builder_free(builder);
	setup_done(&setup);
}

/* ---- members' bytes ---- */

static void deflated_members_are_read_up_to_the_ceiling(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct builder *builder = builder_new();
	unsigned char zeros[50000] = { 0 };
	add_deflated(builder, "r/zeros", zeros, sizeof zeros);
	add(builder, "r/stored", "0123456789", 10);
	put_end(builder, false);
	struct fsdp_zip zip;
	assert_true(open_built(&setup, builder, &zip));
	assert_int_equal(setup.findings.list.count, 0);
	const struct fsdp_zip_member *member = fsdp_zip_member(&zip, 0);
	struct fsdp_span bytes;
	assert_true(fsdp_zip_read(
		&zip, member, sizeof zeros, &setup.arena, &bytes, &setup.error));
	assert_memory_equal(bytes.data, zeros, sizeof zeros);
	assert_false(fsdp_zip_read(
		&zip, member, sizeof zeros - 1, &setup.arena, &bytes, &setup.error));
	assert_string_equal(fsdp_error_member(setup.error), "r/zeros");
	setup_expect(&setup, FSDP_ERROR_LIMIT, "FI9001");
	assert_false(fsdp_zip_read(
		&zip, fsdp_zip_member(&zip, 1), 9, &setup.arena, &bytes, &setup.error));
	setup_expect(&setup, FSDP_ERROR_LIMIT, "FI9001");

	uint64_t offset;
	unsigned char part[100];
	assert_true(fsdp_zip_locate(&zip.source, member, &offset, &setup.error));
	assert_true(fsdp_zip_read_part(&zip.source, offset, member->stored_size, 8, 49900,
		part, 100, &setup.error));
	assert_false(fsdp_zip_read_part(&zip.source, offset, member->stored_size, 8,
		49901, part, 100, &setup.error));
	setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI2003");
	assert_false(fsdp_zip_read_part(&zip.source, offset, member->stored_size, 8,
		UINT64_MAX, part, 100, &setup.error));
	setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI3053");
	assert_false(fsdp_zip_read_part(
		&zip.source, offset, member->stored_size, 9, 0, part, 100, &setup.error));
	setup_expect(&setup, FSDP_ERROR_UNSUPPORTED, "FI3044");
	member = fsdp_zip_member(&zip, 1);
	assert_true(fsdp_zip_locate(&zip.source, member, &offset, &setup.error));
	assert_true(
		fsdp_zip_read_part(&zip.source, offset, 10, 0, 4, part, 6, &setup.error));
	assert_memory_equal(part, "456789", 6);
	assert_false(
		fsdp_zip_read_part(&zip.source, offset, 10, 0, 5, part, 6, &setup.error));
	setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI1004");
	builder_free(builder);
	setup_done(&setup);
}

static void a_bomb_is_found_before_any_work(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct builder *builder = builder_new();
	add_deflated(builder, "r/zeros", "0000000000000000", 16);
	uint32_t stored_size = builder->members[0].stored_size;
	builder->members[0].size = 1032 * stored_size + 1031;
	put_end(builder, false);
	struct fsdp_zip zip;
	assert_true(open_built(&setup, builder, &zip));
	assert_int_equal(setup_found(&setup, "FI3053"), 0);
	poke(builder, builder->entries[0] + 24, 1032 * stored_size + 1032, 4);
	assert_true(open_built(&setup, builder, &zip));
	assert_int_equal(setup_found(&setup, "FI3053"), 1);
	struct fsdp_span bytes;
	assert_false(fsdp_zip_read(&zip, fsdp_zip_member(&zip, 0), UINT64_MAX,
		&setup.arena, &bytes, &setup.error));
	setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI3053");
	poke(builder, builder->entries[0] + 24, 16, 4);
	assert_true(fsdp_limits_set(&setup.limits, "inflate-bytes", 16));
	assert_true(open_built(&setup, builder, &zip));
	assert_true(fsdp_limits_set(&setup.limits, "inflate-bytes", 15));
	assert_false(open_built(&setup, builder, &zip));
	assert_string_equal(fsdp_error_limit(setup.error), "inflate-bytes");
	setup_expect(&setup, FSDP_ERROR_LIMIT, "FI9001");
	builder_free(builder);
	setup_done(&setup);
}

/* What it declares is enough to refuse it: nothing is taken, nothing inflated. */
static void what_one_record_inflates_to_has_ceilings(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct builder *builder = builder_new();
	add_deflated(builder, "r/data.pkl", "0000000000000000", 16);
	put_end(builder, false);
	struct fsdp_zip zip;
	struct fsdp_span bytes;
	assert_true(open_built(&setup, builder, &zip));
	const struct fsdp_zip_member *member = fsdp_zip_member(&zip, 0);
	setup.budget.limits = &setup.limits;
	assert_true(fsdp_limits_set(&setup.limits, "inflate-record", 16));
	assert_true(fsdp_zip_read(
		&zip, member, UINT64_MAX, &setup.arena, &bytes, &setup.error));
	assert_int_equal(setup.budget.unpacked, 16);
	assert_true(fsdp_limits_set(&setup.limits, "inflate-record", 15));
	assert_false(fsdp_zip_read(
		&zip, member, UINT64_MAX, &setup.arena, &bytes, &setup.error));
	assert_string_equal(fsdp_error_limit(setup.error), "inflate-record");
	setup_expect(&setup, FSDP_ERROR_LIMIT, "FI9001");
	assert_true(fsdp_limits_set(&setup.limits, "inflate-record", 0));
	setup.budget.unpacked = FSDP_UNPACK_FREE - 16;
	assert_true(fsdp_zip_read(
		&zip, member, UINT64_MAX, &setup.arena, &bytes, &setup.error));
	assert_false(fsdp_zip_read(
		&zip, member, UINT64_MAX, &setup.arena, &bytes, &setup.error));
	assert_string_equal(fsdp_error_limit(setup.error), "inflate-ratio");
	setup_expect(&setup, FSDP_ERROR_LIMIT, "FI9001");
	builder_free(builder);
	setup_done(&setup);
}

static void windows_of_any_size_give_the_same_places(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct builder *builder = builder_new();
	unsigned char *big = calloc(1, 300000);
	assert_non_null(big);
	for (int i = 0; i < 300; i++) {
		char name[32];
		snprintf(name, sizeof name, "r/data/%d", i);
		add(builder, name, big, i % 50 == 7 ? 300000 : i % 9 == 1 ? 70000 : 64);
	}
	free(big);
	put_end(builder, false);
	FILE *file = tmpfile();
	assert_non_null(file);
	assert_int_equal(fwrite(builder->bytes, 1, builder->size, file), builder->size);
	fflush(file);
	struct fsdp_source source;
	struct fsdp_zip zip;
	assert_true(fsdp_source_file(fileno(file), &source, &setup.error));
	assert_true(fsdp_zip_open(&source, &setup.arena, &setup.limits, FSDP_SPAN("f.pt"),
		&setup.findings, &zip, &setup.error));
	const size_t sizes[] = { 0, 29, 30, 31, 4096, 262144 };
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
		struct fsdp_zip_window window = { .source = source,
			.window_size = sizes[s] };
		window.bytes = malloc(sizes[s] + 1);
		for (size_t i = 0; i < zip.members.count; i++) {
			const struct fsdp_zip_member *member = fsdp_zip_member(&zip, i);
			uint64_t a, b;
			assert_true(fsdp_zip_locate(&source, member, &a, &setup.error));
			assert_true(fsdp_zip_locate_in(&window, member->header,
				member->stored_size, &b, &setup.error));
			assert_int_equal(a, b);
		}
		uint64_t none;
		assert_false(fsdp_zip_locate_in(
			&window, builder->size - 29, 0, &none, &setup.error));
		setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI1004");
		assert_false(fsdp_zip_locate_in(&window, fsdp_zip_member(&zip, 0)->header,
			builder->size, &none, &setup.error));
		setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI1004");
		free(window.bytes);
	}
	uint64_t offsets[300];
	assert_true(fsdp_zip_check_headers(
		&zip, FSDP_SPAN("f.pt"), &setup.findings, offsets, &setup.error));
	assert_int_equal(setup.findings.list.count, 0);
	assert_int_equal(ftruncate(fileno(file), (off_t)builder->size / 2), 0);
	assert_false(fsdp_zip_check_headers(
		&zip, FSDP_SPAN("f.pt"), &setup.findings, offsets, &setup.error));
	setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI2004");
	fclose(file);
	builder_free(builder);
	setup_done(&setup);
}

static void fills_grow_while_they_carry_on(void **state)
{
	static const struct {
		uint64_t at, begin, size;
	} rows[] = {
		{ 0, 0, 4096 },
		{ 4096 - 30, 0, 4096 },
		{ 0, 0, 4096 },
		{ 4096, 4096, 8192 },
		{ 12288 + 65535, 77823, 16384 },
		{ 94207 + 65536, 159743, 4096 },
		{ 163839 - 29, 163810, 8192 },
		{ 163000, 163000, 4096 },
		{ (1 << 20) - 4096 - 904, 1043576, 4096 },
		{ (1 << 20) - 904, 1047672, 904 },
		{ (1 << 20) - 30, 1047672, 904 },
		{ 0, 0, 4096 },
		{ (1 << 20) - 30, 1048546, 30 },
	};
	struct fsdp_zip_window window = { .window_size = 65536 };
	struct setup setup;
	FILE *file = tmpfile();
	(void)state;
	setup_init(&setup);
	assert_non_null(file);
	assert_int_equal(ftruncate(fileno(file), 1 << 20), 0);
	assert_true(fsdp_source_file(fileno(file), &window.source, &setup.error));
	window.bytes = malloc(window.window_size);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		uint64_t none;
		assert_false(
			fsdp_zip_locate_in(&window, rows[i].at, 0, &none, &setup.error));
		setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI3044");
		assert_int_equal(window.begin, rows[i].begin);
		assert_int_equal(window.end - window.begin, rows[i].size);
	}
	free(window.bytes);
	fclose(file);
	setup_done(&setup);
}

static void a_member_costs_48_bytes(void **state)
{
	(void)state;
	assert_int_equal(sizeof(struct fsdp_zip_member), 48);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_ordinary_zip_is_read),
		cmocka_unit_test(a_file_of_torch_is_read_without_findings),
		cmocka_unit_test(a_zip_without_members_is_one),
		cmocka_unit_test(members_may_stand_in_any_order),
		cmocka_unit_test(a_zip_inside_of_a_file_counts_from_its_own_start),
		cmocka_unit_test(more_members_than_16_bits_count),
		cmocka_unit_test(zip64_fields_take_the_place_of_saturated_ones),
		cmocka_unit_test(crcs_that_were_never_computed_are_known),
		cmocka_unit_test(every_truncation_is_told),
		cmocka_unit_test(a_cut_zip_says_what_its_front_holds),
		cmocka_unit_test(every_flipped_byte_is_survived),
		cmocka_unit_test(a_lie_in_a_field_is_found),
		cmocka_unit_test(bytes_around_the_zip_are_found),
		cmocka_unit_test(a_second_zip_is_found),
		cmocka_unit_test(a_zip_stored_in_a_member_is_no_second_end),
		cmocka_unit_test(members_that_the_directory_hides_are_found),
		cmocka_unit_test(of_equal_names_the_later_is_found),
		cmocka_unit_test(many_equal_things_cost_no_more),
		cmocka_unit_test(a_directory_above_its_ceiling_is_refused),
		cmocka_unit_test(an_entry_that_is_cut_off_is_damage),
		cmocka_unit_test(deflated_members_are_read_up_to_the_ceiling),
		cmocka_unit_test(a_bomb_is_found_before_any_work),
		cmocka_unit_test(what_one_record_inflates_to_has_ceilings),
		cmocka_unit_test(windows_of_any_size_give_the_same_places),
		cmocka_unit_test(fills_grow_while_they_carry_on),
		cmocka_unit_test(a_member_costs_48_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
