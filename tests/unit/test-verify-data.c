/* SPDX-License-Identifier: Apache-2.0 */
/* Every byte is read: checksums, deflated members, digests, copies. */
#include <openssl/evp.h>

#include "verify-setup.h"

#include "checkpoint/model.h"

#define STATE "torch-zip/state-dict/model.pt"
#define SMALL "dcp/fsdp2-w4-small/checkpoint"

#define DATA FSDP_LEVEL_DATA

static void whole_files_have_no_findings(void **state)
{
	(void)state;
	static const char *const samples[] = { STATE, SMALL, "safetensors/aliases",
		"torch-zip/views/model.pt", "torch-zip/legacy/model.pt",
		"fsdp2/w4-tp/checkpoint", "fsdp1/local-w2-conv/checkpoint",
		"lightning/trainer-ckpt/last.ckpt", "torch-zip/big-endian/model.pt" };
	for (size_t i = 0; i < FSDP_COUNT(samples); i++)
		for (unsigned jobs = 1; jobs <= 3; jobs += 2)
			expect_nothing(verify_sample(samples[i], DATA, jobs));
}

/* ---- checksums ---- */

static void scopes_tell_what_was_covered(void **state)
{
	(void)state;
	struct verified verified = verify_sample(STATE, DATA, 1);
	struct fsdp_verify_coverage scope = fsdp_verify_coverage(verified.verify);
	struct fsdp_rule_result result;
	assert_int_equal(scope.files, 1);
	assert_int_equal(scope.bytes_read, scope.bytes);
	assert_true(scope.bytes_with_digest > 0);
	assert_int_equal(scope.payload_without, 0);
	assert_string_equal(fsdp_verify_digest_source(verified.verify, 0), "crc32");
	assert_null(fsdp_verify_digest_source(verified.verify, 1));
	assert_true(fsdp_verify_result(verified.verify, FSDP_RULE_CRC_MISMATCH, &result));
	assert_int_equal(result.status, FSDP_STATUS_PASSED);
	assert_true(
		fsdp_verify_result(verified.verify, FSDP_RULE_DIGEST_MISMATCH, &result));
	assert_int_equal(result.status, FSDP_STATUS_NOT_APPLICABLE);
	assert_true(fsdp_verify_result(verified.verify, FSDP_RULE_NON_FINITE, &result));
	assert_int_equal(result.reason, FSDP_REASON_NEEDS_VALUES);
	assert_false(
		fsdp_verify_result(verified.verify, FSDP_RULE_MISSING_FILE, &result));
	verified_done(&verified);
	verified = verify_sample("safetensors/aliases", DATA, 1);
	assert_true(fsdp_verify_coverage(verified.verify).payload_without > 0);
	assert_true(fsdp_verify_result(verified.verify, FSDP_RULE_CRC_MISMATCH, &result));
	assert_int_equal(result.reason, FSDP_REASON_NO_CRC);
	verified_done(&verified);
}

/* Switched off is no damage, whatever the bytes are. */
static void checksums_that_are_absent_are_not_wrong(void **state)
{
	(void)state;
	struct fsdp_rule_result result;
	struct verified verified = verify_sample("torch-zip/skip-data/model.pt", DATA, 1);
	assert_true(fsdp_verify_result(verified.verify, FSDP_RULE_CRC_MISMATCH, &result));
	assert_int_equal(result.reason, FSDP_REASON_NO_CRC);
	expect_only(verified, "FI2002", 1, FSDP_NOTE);
	expect_only(verify_sample("torch-zip/no-crc/model.pt", DATA, 1), "FI2002", 1,
		FSDP_NOTE);
}

/* ---- flipped bits ---- */

/* Which bytes of a zip that begins at `base` a checksum covers. */
static void cover_zip(
	unsigned char *mask, const unsigned char *data, size_t base, size_t size)
{
	struct setup setup;
	struct fsdp_zip zip;
	struct fsdp_source source = fsdp_source_memory(fsdp_span(data + base, size));
	setup_init(&setup);
	assert_true(fsdp_zip_open(&source, &setup.arena, &setup.limits,
		FSDP_SPAN("sample"), &setup.findings, &zip, &setup.error));
	for (size_t i = 0; i < zip.members.count; i++) {
		uint64_t at;
		const struct fsdp_zip_member *member = fsdp_zip_member(&zip, i);
		assert_true(fsdp_zip_locate(&source, member, &at, &setup.error));
		memset(mask + base + at, 1, (size_t)member->stored_size);
	}
	setup_done(&setup);
}

static size_t cover(const char *path, const char *file, const unsigned char *data,
	size_t size, size_t *places)
{
	struct fsdp_checkpoint *checkpoint = NULL;
	struct fsdp_error *error = NULL;
	unsigned char *mask = calloc(1, size);
	size_t count = 0;
	assert_true(fsdp_checkpoint_open(&path, 1, NULL, &checkpoint, &error));
	if (!fsdp_span_ends(fsdp_span_text(file), FSDP_SPAN(".distcp")))
		cover_zip(mask, data, 0, size);
	for (uint32_t i = 0; i < fsdp_piece_count(checkpoint); i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, i);
		if (piece.item_offset != FSDP_UNKNOWN &&
			fsdp_span_is(fsdp_file(checkpoint, piece.file).path, file))
			cover_zip(mask, data, (size_t)piece.item_offset,
				(size_t)piece.item_length);
	}
	for (size_t i = 0; i < size; i++)
		if (mask[i] != 0)
			places[count++] = i;
	free(mask);
	fsdp_checkpoint_free(checkpoint);
	return count;
}

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* Found by its checksum, or already when it was opened. */
static bool is_noticed(bool *ret_checksum)
{
	const char *path = folder;
	struct verified verified = { 0 };
	struct fsdp_error *error = NULL;
	struct fsdp_verify_options options = { .size = sizeof options, .level = DATA };
	*ret_checksum = false;
	bool opened = fsdp_checkpoint_open(&path, 1, NULL, &verified.checkpoint, &error);
	if (opened) {
		assert_true(fsdp_verify_new(
			verified.checkpoint, &options, &verified.verify, &error));
		*ret_checksum = found(&verified, "FI2001", NULL) == 1;
		verified_done(&verified);
	}
	fsdp_error_free(error);
	return !opened || *ret_checksum;
}

static void flip_bits(const char *sample, const char *file, size_t count, uint64_t seed)
{
	size_t size, checksums = 0;
	char name[512];
	folder_copy(sample);
	snprintf(name, sizeof name, "%s/%s", sample, file);
	unsigned char *data = read_sample(name, &size);
	size_t *places = malloc(size * sizeof *places);
	size_t covered = cover(folder, file, data, size, places);
	assert_true(covered > 100);
	for (size_t i = 0; i < count; i++) {
		size_t at = places[next_random(&seed) % covered];
		unsigned char byte =
			data[at] ^ (unsigned char)(1u << next_random(&seed) % 8);
		bool checksum;
		folder_poke(file, (long)at, &byte, 1);
		if (!is_noticed(&checksum))
			fail_msg("%s/%s: bit flipped at byte %zu", sample, file, at);
		checksums += checksum;
		folder_poke(file, (long)at, &data[at], 1);
	}
	assert_true(checksums > count / 4);
	free(places);
	free(data);
	folder_remove();
}

static void each_flipped_bit_is_found(void **state)
{
	(void)state;
	flip_bits("torch-zip/state-dict", "model.pt", 60, 1);
	flip_bits("torch-zip/views", "model.pt", 30, 2);
	flip_bits(SMALL, "__1_0.distcp", 60, 3);
	flip_bits("dcp/fsdp2-w4-tp/checkpoint", "__0_0.distcp", 60, 4);
	flip_bits("lightning/trainer-ckpt", "last.ckpt", 60, 5);
	flip_bits("fsdp1/local-w2-conv/checkpoint", "rank1.pt", 30, 6);
}

static void hex_of(const char *name, char hex[65])
{
	char path[512];
	unsigned char digest[32], bytes[1 << 16];
	folder_path(name, path);
	FILE *stream = fopen(path, "rb");
	size_t size = fread(bytes, 1, sizeof bytes, stream);
	fclose(stream);
	assert_int_equal(EVP_Digest(bytes, size, digest, NULL, EVP_sha256(), NULL), 1);
	for (size_t i = 0; i < 32; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

static void write_sums(const char *list, const char *const *names, size_t count)
{
	char text[4096], hex[65];
	size_t size = (size_t)snprintf(text, sizeof text, "# pinned\n\n");
	for (size_t i = 0; i < count; i++) {
		hex_of(names[i], hex);
		size += (size_t)snprintf(text + size, sizeof text - size, "%s %s%s\n",
			hex, i % 2 == 0 ? " " : "*", names[i]);
	}
	folder_write(list, text, size);
}

/* Files that are loaded with a checkpoint record checksums too; what lies there by chance
 * is none of it. */
static void files_beside_are_read_too(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		bool looked_at;
	} rows[] = { { "optimizer.pt", true }, { "rng_state_3.pth", true },
		{ "model.pt", false }, { "optimizer.pt.bak", false } };
	const struct fsdp_finding *finding = NULL;
	size_t size, at = 0;
	unsigned char *data = read_sample("torch-zip/views/model.pt", &size);
	while (memcmp(data + at, "/data.pkl", 9) != 0)
		at++;
	data[at + 150] ^= 4;
	for (size_t i = 0; i < FSDP_COUNT(rows); i++) {
		folder_copy(SMALL);
		folder_write(rows[i].name, data, size);
		struct verified verified = verify_path(folder, DATA, 1);
		assert_int_equal(found(&verified, "FI2001", &finding), rows[i].looked_at);
		if (rows[i].looked_at)
			assert_true(fsdp_span_is(finding->file, rows[i].name));
		assert_int_equal(fsdp_verify_coverage(verified.verify).files,
			5 + rows[i].looked_at);
		verified_done(&verified);
		folder_remove();
	}
	/* Headers are not looked at for them, and a list of digests does as well. */
	folder_copy(SMALL);
	folder_write("optimizer.pt", data, size);
	expect_nothing(verify_path(folder, FSDP_LEVEL_HEADERS, 1));
	write_sums("SHA256SUMS", (const char *const[]){ "optimizer.pt" }, 1);
	struct verified verified = verify_path(folder, DATA, 1);
	assert_int_equal(found(&verified, "FI2001", NULL), 0);
	verified_done(&verified);
	folder_remove();
	free(data);
}

/* ---- deflated members ---- */

static struct packer deflated(void)
{
	struct packer packer = { .deflate = true };
	pack_begin(&packer);
	pack_sample(&packer, STATE, ".format_version");
	return packer;
}

/* Where the stored bytes of the last storage lie. */
static size_t storage_of(const struct packer *packer, size_t *ret_size)
{
	const unsigned char *entry = packer->directory;
	size_t at = 0;
	for (size_t i = 0; i < packer->count; i++) {
		size_t name = entry[28], header;
		header = fsdp_load_four(entry + 42);
		if (memmem(entry + 46, name, "/data/", 6) != NULL) {
			at = header + 30 + name;
			*ret_size = fsdp_load_four(entry + 20);
		}
		entry += 46 + name;
	}
	return at;
}

static void deflated_members_are_unfolded(void **state)
{
	(void)state;
	size_t size;
	struct packer packer = deflated();
	expect_nothing(verify_packed(&packer, DATA, 2));
	packer = deflated();
	/* A block of a kind that there is not. */
	packer.bytes[storage_of(&packer, &size)] |= 6;
	expect_only(verify_packed(&packer, DATA, 2), "FI2003", 1, FSDP_ERROR);
}

/* The stored bytes are one more than the stream has. */
static void bytes_behind_a_stream_are_told(void **state)
{
	(void)state;
	struct packer packer = { .deflate = true, .stray = 1 };
	pack_begin(&packer);
	pack_sample(&packer, STATE, ".format_version");
	struct verified verified = verify_packed(&packer, DATA, 1);
	assert_true(found(&verified, "FI3049", NULL) > 10);
	assert_int_equal(found(&verified, "FI2001", NULL), 0);
	verified_done(&verified);
}

/* ---- digests ---- */

static const char *const files[] = { ".metadata", "__0_0.distcp", "__1_0.distcp",
	"__2_0.distcp", "__3_0.distcp", "README.md" };

static void a_list_of_digests_is_held_against_files(void **state)
{
	(void)state;
	folder_copy(SMALL);
	folder_write("README.md", "a model", 7);
	write_sums("SHA256SUMS", files, 6);
	struct verified verified = verify_path(folder, DATA, 2);
	struct fsdp_verify_coverage scope = fsdp_verify_coverage(verified.verify);
	assert_string_equal(fsdp_verify_digest_source(verified.verify, 1), "SHA256SUMS");
	assert_int_equal(scope.bytes_with_digest, scope.bytes);
	assert_int_equal(scope.files, 6);
	expect_nothing(verified);
	folder_poke("README.md", 0, "A", 1);
	expect_only(verify_path(folder, DATA, 2), "FI2005", 1, FSDP_ERROR);
	folder_poke("README.md", 0, "a", 1);
	write_sums("SHA256SUMS", files, 4);
	expect_only(verify_path(folder, DATA, 2), "FI2005", 1, FSDP_WARNING);
	write_sums("SHA256SUMS", files, 6);
	folder_unlink("README.md");
	expect_only(verify_path(folder, DATA, 2), "FI2005", 1, FSDP_WARNING);
	folder_remove();
}

static void names_in_lists_may_not_escape(void **state)
{
	(void)state;
	static const char list[] =
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  ../up\n"
		"no line at all\n";
	folder_copy(SMALL);
	folder_write("SHA256SUMS", list, sizeof list - 1);
	struct verified verified = verify_path(folder, DATA, 1);
	assert_int_equal(found(&verified, "FI3064", NULL), 1);
	assert_int_equal(found(&verified, "FI9006", NULL), 1);
	verified_done(&verified);
	folder_remove();
}

/* sha256sum puts a backslash before the line of a name that has one, or a line feed. What
 * is told of such a file is its name, not the line; it is opened if the folder has it. */
static void names_in_lists_may_be_escaped(void **state)
{
	(void)state;
	static const char list[] =
		"\\e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a\\\\b\\nc\n";
	const struct fsdp_finding *finding = NULL;
	folder_copy(SMALL);
	folder_write("SHA256SUMS", list, sizeof list - 1);
	struct verified verified = verify_path(folder, DATA, 1);
	assert_int_equal(found(&verified, "FI9006", NULL), 0);
	assert_int_equal(found(&verified, "FI3064", &finding), 1);
	assert_true(fsdp_span_is(finding->message,
		"skipped file 'a\\b\nc' of the list: its path leaves the directory"));
	verified_done(&verified);
	/* The five files of the checkpoint are not listed. */
	for (size_t wrong = 0; wrong < 2; wrong++) {
		folder_write("a\\b\nc", "x", wrong);
		verified = verify_path(folder, DATA, 1);
		assert_int_equal(found(&verified, "FI3064", NULL), 0);
		assert_int_equal(found(&verified, "FI2005", NULL), 5 + wrong);
		verified_done(&verified);
	}
	folder_remove();
}

static void the_list_of_megatron_is_known(void **state)
{
	(void)state;
	char text[256], hex[65];
	folder_copy(SMALL);
	hex_of("__0_0.distcp", hex);
	for (int wrong = 0; wrong < 2; wrong++) {
		hex[0] = wrong ? (hex[0] == '0' ? '1' : '0') : hex[0];
		size_t size = (size_t)snprintf(text, sizeof text,
			"{\"algorithm\": \"sha256\", \"files\": {\"__0_0.distcp\": \"%s\"}}",
			hex);
		folder_write("integrity.json", text, size);
		struct verified verified = verify_path(folder, DATA, 1);
		if (wrong)
			expect_only(verified, "FI2005", 1, FSDP_ERROR);
		else
			expect_nothing(verified);
	}
	folder_remove();
}

static struct verified verify_manifest(const char *name)
{
	char path[512];
	const char *paths[] = { folder };
	struct verified verified = { 0 };
	struct fsdp_error *error = NULL;
	folder_path(name, path);
	struct fsdp_verify_options options = {
		.size = sizeof options, .level = DATA, .manifest_path = path
	};
	assert_true(fsdp_checkpoint_open(paths, 1, NULL, &verified.checkpoint, &error));
	if (!fsdp_verify_new(verified.checkpoint, &options, &verified.verify, &error)) {
		assert_int_equal(fsdp_error_code(error), FSDP_ERROR_SYSTEM);
		fsdp_error_free(error);
	}
	return verified;
}

static void a_manifest_that_is_named_counts(void **state)
{
	(void)state;
	folder_copy(SMALL);
	folder_write("README.md", "a model", 7);
	write_sums("pinned", files, 6);
	expect_nothing(verify_manifest("pinned"));
	folder_poke("README.md", 0, "A", 1);
	expect_only(verify_manifest("pinned"), "FI6008", 1, FSDP_ERROR);
	folder_unlink("README.md");
	expect_only(verify_manifest("pinned"), "FI6008", 1, FSDP_ERROR);
	write_sums("pinned", files, 4);
	expect_only(verify_manifest("pinned"), "FI6008", 1, FSDP_WARNING);
	struct verified verified = verify_manifest("absent");
	assert_null(verified.verify);
	verified_done(&verified);
	folder_remove();
}

static void link_in_cache(const char *hex)
{
	char target[128], path[600];
	snprintf(target, sizeof target, "../../blobs/%s", hex);
	snprintf(path, sizeof path, "%s/snapshots/1/model.safetensors", folder);
	(void)unlink(path);
	assert_int_equal(symlink(target, path), 0);
}

static void rename_in(const char *from, const char *to)
{
	char a[600], b[600];
	snprintf(a, sizeof a, "%s/%s", folder, from);
	snprintf(b, sizeof b, "%s/%s", folder, to);
	assert_int_equal(rename(a, b), 0);
}

/* The cache names a file by the digest of its bytes. */
static void names_of_the_cache_are_digests(void **state)
{
	(void)state;
	char hex[65], blob[128], path[600];
	size_t size;
	unsigned char *data = read_sample("safetensors/aliases/model.safetensors", &size);
	folder_make();
	folder_write("plain", data, size);
	hex_of("plain", hex);
	static const char *const below[] = { "blobs", "snapshots", "snapshots/1" };
	for (size_t i = 0; i < 3; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, below[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	snprintf(blob, sizeof blob, "blobs/%s", hex);
	rename_in("plain", blob);
	link_in_cache(hex);
	expect_nothing(verify_path(path, DATA, 1));
	rename_in(blob, "plain");
	hex[5] = hex[5] == 'a' ? 'b' : 'a';
	snprintf(blob, sizeof blob, "blobs/%s", hex);
	rename_in("plain", blob);
	link_in_cache(hex);
	expect_only(verify_path(path, DATA, 1), "FI2005", 1, FSDP_ERROR);
	free(data);
	snprintf(path, sizeof path, "rm -r %s", folder);
	assert_int_equal(system(path), 0);
}

/* ---- changes ---- */

static void touch_file(void *context, uint64_t done, uint64_t total)
{
	unsigned *calls = context;
	assert_true(done <= total);
	if ((*calls)++ == 0)
		folder_poke("__1_0.distcp", 0, "P", 1);
}

static void a_file_that_changes_meanwhile_is_told(void **state)
{
	(void)state;
	const char *paths[] = { folder };
	unsigned calls = 0;
	struct verified verified = { 0 };
	struct fsdp_error *error = NULL;
	struct fsdp_verify_options options = { .size = sizeof options,
		.level = DATA,
		.progress = touch_file,
		.progress_context = &calls };
	folder_copy(SMALL);
	assert_true(fsdp_checkpoint_open(paths, 1, NULL, &verified.checkpoint, &error));
	assert_true(
		fsdp_verify_new(verified.checkpoint, &options, &verified.verify, &error));
	assert_true(calls >= 1);
	expect_only(verified, "FI2004", 1, FSDP_ERROR);
	folder_remove();
}

/* ---- copies ---- */

static void copies_of_a_piece_must_be_equal(void **state)
{
	(void)state;
	const struct fsdp_finding *finding = NULL;
	struct packer packer = { .align = true, .changed = true };
	folder_copy("fsdp2/w4-tp/checkpoint");
	pack_begin(&packer);
	pack_sample(&packer, "fsdp2/w4-tp/checkpoint/rank3.pt", NULL);
	pack_end(&packer);
	folder_write("rank3.pt", packer.bytes, packer.size);
	free(packer.bytes);
	struct verified verified = verify_path(folder, DATA, 1);
	size_t count = found(&verified, "FI2007", &finding);
	assert_true(count >= 2);
	assert_int_equal(fsdp_verify_finding_count(verified.verify), count);
	assert_int_equal(finding->severity, FSDP_WARNING);
	assert_int_equal(finding->rank, 3);
	assert_non_null(memmem(finding->message.data, finding->message.size,
		"the first is number 0", 21));
	verified_done(&verified);
	folder_remove();
}

static const char plan[] =
	"{\"format\": \"fsdp-plan\", \"version\": 1, \"torch\": \"2.13.0\", \"world_size\": 1,"
	"\"modules\": [{\"name\": \"\", \"class\": \"M\"}],"
	"\"parameters\": ["
	"{\"fqn\": \"a\", \"shape\": [2], \"dtype\": \"float32\", \"requires_grad\": true},"
	"{\"fqn\": \"b\", \"shape\": [2], \"dtype\": \"float32\", \"requires_grad\": true, \"shared_with\": \"a\"}],"
	"\"buffers\": [], \"units\": []}";

static void tied_tensors_must_be_equal(void **state)
{
	(void)state;
	static const char header[] =
		"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
		"\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}";
	char path[512];
	uint64_t length = sizeof header - 1;
	float numbers[] = { 1, 2, 1, 2 };
	folder_make();
	folder_write("model.safetensors", &length, 8);
	folder_poke("model.safetensors", 8, header, sizeof header - 1);
	folder_poke("model.safetensors", 8 + (long)length, numbers, sizeof numbers);
	folder_write("model.fsdp-plan.json", plan, sizeof plan - 1);
	folder_path("model.safetensors", path);
	struct verified verified = verify_path(path, DATA, 1);
	assert_int_not_equal(fsdp_tensor(verified.checkpoint, 1).alias, FSDP_NONE);
	expect_nothing(verified);
	numbers[3] = 3;
	folder_poke("model.safetensors", 8 + (long)length, numbers, sizeof numbers);
	expect_only(verify_path(path, DATA, 1), "FI4007", 1, FSDP_WARNING);
	folder_remove();
}

/* The halves of one were cut by columns, those of the other by rows. */
static void what_was_cut_in_two_ways_is_not_compared(void **state)
{
	(void)state;
	static const char tied[] =
		"{\"format\": \"fsdp-plan\", \"version\": 1, \"torch\": \"2.13.0\", \"world_size\": 4,"
		"\"modules\": [{\"name\": \"\", \"class\": \"M\"}], \"parameters\": ["
		"{\"fqn\": \"mlp1.up.weight\", \"shape\": [16, 8], \"dtype\": \"float32\", \"requires_grad\": true},"
		"{\"fqn\": \"mlp1.down.weight\", \"shape\": [8, 16], \"dtype\": \"float32\", \"requires_grad\": true, \"shared_with\": \"mlp1.up.weight\"}],"
		"\"buffers\": [], \"units\": []}";
	struct fsdp_rule_result result;
	folder_copy("fsdp2/w4-tp/checkpoint");
	struct verified verified = verify_path(folder, DATA, 1);
	assert_true(fsdp_verify_result(verified.verify, FSDP_RULE_TIED_WEIGHTS, &result));
	assert_int_equal(result.status, FSDP_STATUS_PASSED);
	verified_done(&verified);
	folder_write("a.fsdp-plan.json", tied, sizeof tied - 1);
	verified = verify_path(folder, DATA, 1);
	assert_true(fsdp_verify_result(verified.verify, FSDP_RULE_TIED_WEIGHTS, &result));
	assert_int_equal(result.status, FSDP_STATUS_NOT_EVALUATED);
	assert_int_equal(result.reason, FSDP_REASON_UNLIKE);
	assert_true(
		fsdp_verify_result(verified.verify, FSDP_RULE_REPLICA_DIFFERS, &result));
	assert_int_equal(result.status, FSDP_STATUS_PASSED);
	verified_done(&verified);
	folder_remove();
}

/* ---- limits ---- */

static void inflating_has_a_ceiling(void **state)
{
	(void)state;
	char path[512];
	const char *paths[] = { path };
	struct packer packer = deflated();
	struct verified verified = { 0 };
	struct fsdp_error *error = NULL;
	struct fsdp_rule_result result;
	pack_end(&packer);
	folder_make();
	folder_write("model.pt", packer.bytes, packer.size);
	folder_path("model.pt", path);
	for (uint64_t most = 3100; most <= 3200; most += 100) {
		struct fsdp_limit_setting setting = { "inflate-bytes", most };
		struct fsdp_options open = {
			.size = sizeof open, .limits = &setting, .limit_count = 1
		};
		struct fsdp_verify_options options = { .size = sizeof options,
			.level = DATA };
		assert_true(fsdp_checkpoint_open(
			paths, 1, &open, &verified.checkpoint, &error));
		assert_true(fsdp_verify_new(
			verified.checkpoint, &options, &verified.verify, &error));
		assert_true(fsdp_verify_result(
			verified.verify, FSDP_RULE_CRC_MISMATCH, &result));
		if (found(&verified, "FI9001", NULL) != 0)
			assert_int_equal(result.reason, FSDP_REASON_LIMIT);
		else
			assert_int_equal(result.status, FSDP_STATUS_PASSED);
		verified_done(&verified);
	}
	folder_remove();
	free(packer.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_files_have_no_findings),
		cmocka_unit_test(scopes_tell_what_was_covered),
		cmocka_unit_test(checksums_that_are_absent_are_not_wrong),
		cmocka_unit_test(each_flipped_bit_is_found),
		cmocka_unit_test(files_beside_are_read_too),
		cmocka_unit_test(deflated_members_are_unfolded),
		cmocka_unit_test(bytes_behind_a_stream_are_told),
		cmocka_unit_test(a_list_of_digests_is_held_against_files),
		cmocka_unit_test(names_in_lists_may_not_escape),
		cmocka_unit_test(names_in_lists_may_be_escaped),
		cmocka_unit_test(the_list_of_megatron_is_known),
		cmocka_unit_test(a_manifest_that_is_named_counts),
		cmocka_unit_test(names_of_the_cache_are_digests),
		cmocka_unit_test(a_file_that_changes_meanwhile_is_told),
		cmocka_unit_test(copies_of_a_piece_must_be_equal),
		cmocka_unit_test(tied_tensors_must_be_equal),
		cmocka_unit_test(what_was_cut_in_two_ways_is_not_compared),
		cmocka_unit_test(inflating_has_a_ceiling),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
