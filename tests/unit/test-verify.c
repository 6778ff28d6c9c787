/* SPDX-License-Identifier: Apache-2.0 */
/* What bytes say beyond what opening read: headers, and what nothing refers to. */
#include "verify-setup.h"

#define STATE "torch-zip/state-dict/model.pt"

/* ---- zips ---- */

static void a_whole_file_has_no_findings(void **state)
{
	(void)state;
	expect_nothing(verify_sample(STATE, FSDP_LEVEL_HEADERS, 1));
	expect_nothing(
		verify_sample("dcp/fsdp2-w4-small/checkpoint", FSDP_LEVEL_HEADERS, 1));
	expect_nothing(verify_sample("safetensors/aliases", FSDP_LEVEL_HEADERS, 1));
}

static void checksums_that_are_not_recorded_are_a_note(void **state)
{
	(void)state;
	expect_only(verify_sample("torch-zip/no-crc/model.pt", FSDP_LEVEL_HEADERS, 1),
		"FI2002", 1, FSDP_NOTE);
	expect_only(verify_sample("torch-zip/skip-data/model.pt", FSDP_LEVEL_HEADERS, 1),
		"FI2002", 1, FSDP_NOTE);
}

static void records_must_lie_where_loaders_compute_them(void **state)
{
	(void)state;
	struct packer plain = { 0 }, aligned = { .align = true }, silent = { 0 };
	pack_begin(&plain);
	pack_sample(&plain, STATE, NULL);
	expect_only(
		verify_packed(&plain, FSDP_LEVEL_HEADERS, 1), "FI4009", 1, FSDP_WARNING);
	pack_begin(&aligned);
	pack_sample(&aligned, STATE, NULL);
	expect_nothing(verify_packed(&aligned, FSDP_LEVEL_HEADERS, 1));
	pack_begin(&silent);
	pack_sample(&silent, STATE, ".format_version");
	expect_nothing(verify_packed(&silent, FSDP_LEVEL_HEADERS, 1));
}

/* From byte 2^32-1 on a header has room for its own offset. */
static void records_beyond_4_gib_lie_where_loaders_compute_them(void **state)
{
	(void)state;
	size_t size;
	char path[512];
	folder_make();
	folder_path("model.pt", path);
	unsigned char *begin = read_sample("torch-zip/beyond-4g/begin", &size);
	folder_write("model.pt", begin, size);
	unsigned char *end = read_sample("torch-zip/beyond-4g/end", &size);
	folder_poke("model.pt", 4294968473 - (long)size, end, size);
	struct verified verified = verify_path(path, FSDP_LEVEL_HEADERS, 1);
	assert_int_equal(found(&verified, "FI4009", NULL), 0);
	verified_done(&verified);
	folder_remove();
	free(begin);
	free(end);
}

static struct verified with_member(const char *name, const char *data, size_t size)
{
	struct packer packer = { .align = true };
	pack_begin(&packer);
	pack_sample(&packer, STATE, NULL);
	pack_member(&packer, name, strlen(name), fsdp_span(data, size));
	return verify_packed(&packer, FSDP_LEVEL_HEADERS, 1);
}

#define WITH_MEMBER(name, literal) with_member(name, literal, sizeof(literal) - 1)

static void members_that_nothing_refers_to_are_told(void **state)
{
	(void)state;
	expect_only(WITH_MEMBER("model/data/99", "four"), "FI3054", 1, FSDP_WARNING);
	expect_only(
		WITH_MEMBER("model/data/99", "\177ELF\2\1\1"), "FI3054", 1, FSDP_ERROR);
	expect_only(WITH_MEMBER("model/notes", "PK\3\4...."), "FI3054", 1, FSDP_ERROR);
	expect_only(WITH_MEMBER("model/notes", "\200\2cposix\nsystem\n."), "FI3054", 1,
		FSDP_ERROR);
	expect_only(
		WITH_MEMBER("model/lib.so", "\177ELF\2\1\1"), "FI3063", 1, FSDP_ERROR);
	expect_nothing(WITH_MEMBER("model/.data/more", "four"));
}

/* ---- folders ---- */

static void code_in_the_folder_is_told(void **state)
{
	(void)state;
	static const unsigned char elf[] = "\177ELF\2\1\1";
	folder_copy("dcp/fsdp2-w4-small/checkpoint");
	folder_write("README.md", "MZ is no program", 16);
	expect_nothing(verify_path(folder, FSDP_LEVEL_HEADERS, 1));
	folder_write("helper", elf, sizeof elf);
	folder_write("ops.so", "empty", 5);
	expect_only(verify_path(folder, FSDP_LEVEL_HEADERS, 1), "FI3063", 2, FSDP_ERROR);
	folder_remove();
}

static void bytes_between_items_are_told(void **state)
{
	(void)state;
	const struct fsdp_finding *finding = NULL;
	struct verified verified = verify_sample(
		"broken/dcp-range-overlap/checkpoint", FSDP_LEVEL_HEADERS, 1);
	assert_int_equal(found(&verified, "FI1028", &finding), 1);
	assert_int_equal(finding->offset, 1261);
	assert_int_equal(finding->length, 1261);
	assert_int_equal(fsdp_verify_coverage(verified.verify).unreferenced, 1261);
	verified_done(&verified);
	/* The missing piece is the cause, which is a finding. */
	verified =
		verify_sample("broken/dcp-chunk-gap/checkpoint", FSDP_LEVEL_HEADERS, 1);
	assert_int_equal(found(&verified, "FI1028", &finding), 0);
	assert_int_equal(fsdp_verify_coverage(verified.verify).unreferenced, 1577);
	verified_done(&verified);
}

static void set_time(const char *name, time_t seconds)
{
	char path[512];
	folder_path(name, path);
	struct timespec times[2] = { { .tv_sec = seconds }, { .tv_sec = seconds } };
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* Where the first item of a tensor begins in the second file, behind three values, and
 * how many rows its pickle says it has. */
enum { TENSOR = 3783, ROWS = 64 + 102 };

/* A byte of an item is another one, and its file is `newer` than the metadata. */
static struct verified with_byte(long at, const char *byte, time_t newer)
{
	folder_copy("dcp/fsdp2-w4-small/checkpoint");
	folder_poke("__1_0.distcp", TENSOR + at, byte, 1);
	set_time(".metadata", 1700000000);
	set_time("__0_0.distcp", 1700000000 + 100);
	set_time("__1_0.distcp", 1700000000 + newer);
	struct verified verified = verify_path(folder, FSDP_LEVEL_HEADERS, 1);
	folder_remove();
	return verified;
}

static void items_must_be_what_the_metadata_says(void **state)
{
	(void)state;
	const struct fsdp_finding *finding = NULL;
	struct verified verified = with_byte(0, "p", 61);
	assert_int_equal(found(&verified, "FI3044", &finding), 1);
	assert_int_equal(finding->offset, TENSOR);
	assert_int_equal(found(&verified, "FI1006", NULL), 1);
	verified_done(&verified);
	verified = with_byte(ROWS, "\1", 61);
	assert_int_equal(found(&verified, "FI1029", &finding), 1);
	assert_int_equal(found(&verified, "FI1006", NULL), 1);
	assert_true(fsdp_span_is(finding->tensor, "model.a.weight"));
	verified_done(&verified);
	expect_only(with_byte(0, "p", 60), "FI3044", 1, FSDP_ERROR);
	expect_only(with_byte(ROWS, "\1", 60), "FI1029", 1, FSDP_ERROR);
	expect_nothing(with_byte(0, "P", 1000));
}

/* ---- holes ---- */

#define HEADER \
	"{\"a\":{\"dtype\":\"U8\",\"shape\":[1048576],\"data_offsets\":[0,1048576]}}"

static bool has_holes(const char *path)
{
	int fd = open(path, O_RDONLY);
	off_t hole = lseek(fd, 0, SEEK_HOLE), end = lseek(fd, 0, SEEK_END);
	close(fd);
	return hole >= 0 && hole < end;
}

static void what_was_never_written_is_told(void **state)
{
	(void)state;
	char path[512];
	static unsigned char zeros[1 << 20];
	size_t header = sizeof HEADER - 1;
	uint64_t length = header;
	folder_make();
	folder_write("model.safetensors", &length, 8);
	folder_poke("model.safetensors", 8, HEADER, header);
	folder_path("model.safetensors", path);
	assert_int_equal(truncate(path, (off_t)(8 + header + sizeof zeros)), 0);
	if (has_holes(path))
		expect_only(verify_path(path, FSDP_LEVEL_HEADERS, 1), "FI2010", 1,
			FSDP_ERROR);
	folder_poke("model.safetensors", (long)(8 + header), zeros, sizeof zeros / 4 * 3);
	if (has_holes(path))
		expect_only(verify_path(path, FSDP_LEVEL_HEADERS, 1), "FI2010", 1,
			FSDP_WARNING);
	folder_poke("model.safetensors", (long)(8 + header), zeros, sizeof zeros);
	if (!has_holes(path))
		expect_nothing(verify_path(path, FSDP_LEVEL_HEADERS, 1));
	folder_remove();
}

/* ---- the object ---- */

static void a_checkpoint_of_counts_is_refused(void **state)
{
	(void)state;
	size_t size;
	struct fsdp_error *error = NULL;
	struct fsdp_verify *verify = NULL;
	unsigned char *data = read_sample("safetensors/aliases/model.safetensors", &size);
	struct fsdp_checkpoint *checkpoint = open_bytes_as(data, size, true, &error);
	assert_true(fsdp_sum_count(checkpoint) != 0);
	assert_false(fsdp_verify_new(checkpoint, NULL, &verify, &error));
	assert_int_equal(fsdp_error_code(error), FSDP_ERROR_USAGE);
	fsdp_error_free(error);
	fsdp_checkpoint_free(checkpoint);
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_whole_file_has_no_findings),
		cmocka_unit_test(checksums_that_are_not_recorded_are_a_note),
		cmocka_unit_test(records_must_lie_where_loaders_compute_them),
		cmocka_unit_test(records_beyond_4_gib_lie_where_loaders_compute_them),
		cmocka_unit_test(members_that_nothing_refers_to_are_told),
		cmocka_unit_test(code_in_the_folder_is_told),
		cmocka_unit_test(bytes_between_items_are_told),
		cmocka_unit_test(items_must_be_what_the_metadata_says),
		cmocka_unit_test(what_was_never_written_is_told),
		cmocka_unit_test(a_checkpoint_of_counts_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
