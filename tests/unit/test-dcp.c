/* SPDX-License-Identifier: Apache-2.0 */
/* Distributed checkpoints through the door: samples, and one whose metadata is cut. */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/span.h"
#include "open-bytes.h"

static void boxes_tile_the_tensor(void **state)
{
	(void)state;
	struct fsdp_checkpoint *checkpoint = open_sample("dcp/fsdp2-w4-tp/checkpoint");
	assert_string_equal(fsdp_checkpoint_format(checkpoint).family, "dcp");
	for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint); i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		uint64_t covered = 0;
		for (uint32_t k = 0; k < tensor.piece_count; k++) {
			struct fsdp_piece piece =
				fsdp_piece(checkpoint, tensor.first_piece + k);
			uint64_t numel = 1;
			assert_int_equal(piece.tensor, i);
			for (uint32_t d = 0; piece.sizes != NULL && d < piece.dims; d++) {
				assert_in_range(piece.offsets[d] + piece.sizes[d], 0,
					tensor.shape[d]);
				numel *= (uint64_t)piece.sizes[d];
			}
			covered += piece.sizes != NULL ? numel : tensor.numel;
		}
		assert_int_equal(covered, tensor.numel);
	}
	assert_int_equal(fsdp_finding_count(checkpoint), 0);
	fsdp_checkpoint_free(checkpoint);
}

static void generations_are_read_alike(void **state)
{
	static const char *const samples[] = { "dcp/old-generation/checkpoint",
		"dcp/no-collectives/checkpoint", "dcp/file-per-item/checkpoint" };
	(void)state;
	for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
		struct fsdp_checkpoint *checkpoint = open_sample(samples[i]);
		assert_true(fsdp_tensor_count(checkpoint) > 0);
		assert_true(
			fsdp_piece_count(checkpoint) >= fsdp_tensor_count(checkpoint));
		assert_int_equal(fsdp_checkpoint_error_count(checkpoint), 0);
		fsdp_checkpoint_free(checkpoint);
	}
}

/* A sample opens; *ret_finding is the only one of the rule, or NULL. */
static struct fsdp_checkpoint *open_for(
	const char *sample, const char *rule, const struct fsdp_finding **ret_finding)
{
	struct fsdp_checkpoint *checkpoint = open_sample(sample);
	*ret_finding = NULL;
	for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++) {
		const struct fsdp_finding *finding = fsdp_finding(checkpoint, i);
		if (strcmp(finding->rule->id, rule) != 0)
			continue;
		assert_null(*ret_finding);
		*ret_finding = finding;
	}
	return checkpoint;
}

/* Two names of one range, of an object and of a piece: torch.load gives the same Python
 * object to both. Their bytes count once, and what was theirs belongs to nobody. */
static void items_that_share_bytes_are_told(void **state)
{
	static const struct {
		const char *sample, *tensor, *file;
		uint64_t offset, length;
	} cases[] = {
		{ "broken/dcp-range-overlap/checkpoint", "lr_scheduler._last_lr",
			"__1_0.distcp", 0, 1261 },
		{ "broken/dcp-range-twice/checkpoint", "model.a.weight", "__0_0.distcp",
			0, 1577 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct fsdp_finding *finding;
		struct fsdp_checkpoint *checkpoint =
			open_for(cases[i].sample, "FI1027", &finding);
		assert_non_null(finding);
		assert_true(fsdp_span_is(finding->tensor, cases[i].tensor));
		assert_true(fsdp_span_is(finding->file, cases[i].file));
		assert_int_equal(finding->offset, cases[i].offset);
		assert_int_equal(finding->length, cases[i].length);
		assert_int_equal(
			fsdp_checkpoint_bytes(checkpoint).unaccounted, cases[i].length);
		fsdp_checkpoint_free(checkpoint);
	}
}

/* A file of SerializationFormat.SAFETENSORS is one item, and all its tensors begin at 0.
 */
static void tensors_of_one_item_share_nothing(void **state)
{
	const struct fsdp_finding *finding;
	(void)state;
	struct fsdp_checkpoint *checkpoint =
		open_for("dcp/safetensors-format/checkpoint", "FI1027", &finding);
	assert_null(finding);
	assert_int_equal(fsdp_tensor_count(checkpoint), 16);
	assert_int_equal(fsdp_checkpoint_bytes(checkpoint).unaccounted, 0);
	fsdp_checkpoint_free(checkpoint);
}

/* How many objects are read for the values of these names. */
static size_t count_read(const char *const *names, size_t count)
{
	const struct fsdp_options options = {
		.size = sizeof options,
		.read_values = true,
		.value_names = names,
		.value_name_count = count,
	};
	struct fsdp_checkpoint *checkpoint = NULL;
	char path[512];
	const char *paths[] = { path };
	size_t read = 0;
	sample_path("demo/step-1234", path, sizeof path);
	assert_true(fsdp_checkpoint_open(paths, 1, &options, &checkpoint, NULL));
	for (uint32_t i = 0; i < fsdp_value_count(checkpoint); i++)
		read += fsdp_value(checkpoint, i).tokens != NULL;
	/* What was not read is told. */
	assert_int_equal(
		has_finding(checkpoint, "FI9006"), read < fsdp_value_count(checkpoint));
	fsdp_checkpoint_free(checkpoint);
	return read;
}

static void only_wanted_objects_are_read(void **state)
{
	static const char *const tensor[] = { "model.blocks.0.down.bias" };
	static const char *const value[] = { "model.norm.weight", "step" };
	(void)state;
	assert_int_equal(count_read(NULL, 0), 20);
	assert_int_equal(count_read(tensor, 0), 0);
	assert_int_equal(count_read(tensor, 1), 0);
	assert_int_equal(count_read(value, 2), 1);
}

static void pieces_are_located(void **state)
{
	struct fsdp_error *error = NULL;
	struct fsdp_locator *locator;
	struct fsdp_place place;
	(void)state;
	struct fsdp_checkpoint *checkpoint = open_sample("dcp/views/checkpoint");
	assert_true(fsdp_locator_new(checkpoint, &locator, &error));
	for (uint32_t i = 0; i < fsdp_piece_count(checkpoint); i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, i);
		assert_true(fsdp_piece_locate(locator, i, &place, &error));
		/* Inside of the item that the metadata names. */
		assert_true(place.offset >= piece.item_offset || place.length == 0);
		assert_true(place.offset + place.length <=
			    piece.item_offset + piece.item_length);
	}
	fsdp_locator_free(locator);
	fsdp_checkpoint_free(checkpoint);
}

static void write_file(
	const char *folder, const char *name, const void *data, size_t size)
{
	char path[600];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, size), size);
	close(fd);
}

/* Every prefix of a .metadata is refused with a place, or read with findings. */
static void cut_metadata_is_refused(void **state)
{
	char folder[] = "/tmp/test-dcp-XXXXXX", path[64];
	const char *paths[] = { folder };
	size_t size;
	(void)state;
	unsigned char *data =
		read_sample("dcp/fsdp2-w4-small/checkpoint/.metadata", &size);
	assert_non_null(mkdtemp(folder));
	for (size_t length = 0; length < size; length += 1 + size / 97) {
		struct fsdp_checkpoint *checkpoint = NULL;
		struct fsdp_error *error = NULL;
		write_file(folder, ".metadata", data, length);
		assert_false(fsdp_checkpoint_open(paths, 1, NULL, &checkpoint, &error));
		assert_non_null(error);
		assert_true(fsdp_error_code(error) == FSDP_ERROR_DAMAGED ||
			    fsdp_error_code(error) == FSDP_ERROR_NOT_A_CHECKPOINT);
		assert_non_null(strstr(fsdp_error_path(error), ".metadata"));
		fsdp_error_free(error);
	}
	/* Whole, but the data is not there: all of it is found missing. */
	struct fsdp_checkpoint *checkpoint = NULL;
	struct fsdp_error *error = NULL;
	write_file(folder, ".metadata", data, size);
	assert_true(fsdp_checkpoint_open(paths, 1, NULL, &checkpoint, &error));
	assert_true(has_finding(checkpoint, "FI1001"));
	fsdp_checkpoint_free(checkpoint);
	free(data);
	snprintf(path, sizeof path, "%s/.metadata", folder);
	unlink(path);
	rmdir(folder);
}

#define METADATA "ctorch.distributed.checkpoint.metadata\n"

/* Of a tensor that no chunk is listed for there is nothing to count. */
static void tensors_without_chunks_are_counted(void **state)
{
	static const char metadata[] = METADATA
		"Metadata\n)\x81}(U\23state_dict_metadata}U\1w" METADATA
		"TensorStorageMetadata\n)\x81}(U\4sizectorch\nSize\n(K\1t\x85R"
		"U\12properties" METADATA "TensorProperties\n)\x81(ctorch\nfloat32\n"
		"N\x89N\x89tbU\6chunks]ubsU\14storage_data}ub.";
	char folder[] = "/tmp/test-dcp-XXXXXX", path[64];
	const char *paths[] = { folder };
	struct fsdp_options options = { .size = sizeof options, .only_counts = true };
	struct fsdp_checkpoint *checkpoint = NULL;
	struct fsdp_error *error = NULL;
	(void)state;
	assert_non_null(mkdtemp(folder));
	write_file(folder, ".metadata", metadata, sizeof metadata - 1);
	assert_true(fsdp_checkpoint_open(paths, 1, &options, &checkpoint, &error));
	assert_int_equal(fsdp_tensor_count(checkpoint), 1);
	fsdp_checkpoint_free(checkpoint);
	snprintf(path, sizeof path, "%s/.metadata", folder);
	unlink(path);
	rmdir(folder);
}

/* ---- texts, lists and states that any number of entries share ---- */

struct stream {
	unsigned char *data;
	size_t size, room;
};

static void put(struct stream *stream, const void *data, size_t size)
{
	while (stream->size + size > stream->room) {
		stream->room = stream->room == 0 ? 1 << 16 : stream->room * 2;
		stream->data = realloc(stream->data, stream->room);
		assert_non_null(stream->data);
	}
	memcpy(stream->data + stream->size, data, size);
	stream->size += size;
}

/* Opcodes without zeros, as they are. */
static void op(struct stream *stream, const char *text)
{
	put(stream, text, strlen(text));
}

static void again(struct stream *stream, const char *text, size_t count)
{
	while (count-- > 0)
		op(stream, text);
}

/* A text of one letter. */
static void put_long(struct stream *stream, char letter, uint32_t size)
{
	char *text = malloc(size);
	assert_non_null(text);
	memset(text, letter, size);
	op(stream, "X");
	put(stream, &size, sizeof size);
	put(stream, text, size);
	free(text);
}

static void put_text(struct stream *stream, const char *text)
{
	uint32_t size = (uint32_t)strlen(text);
	op(stream, "X");
	put(stream, &size, sizeof size);
	op(stream, text);
}

/* What follows may recall: classes, keys, a size of one, and a chunk ("hc") and a tensor
 * ("ht") of that. */
static void begin_metadata(struct stream *stream)
{
	static const struct {
		const char *put, *text;
	} keys[] = { { "qF", "fqn" }, { "qO", "offsets" }, { "qS", "sizes" },
		{ "qz", "size" }, { "qp", "properties" }, { "qC", "chunks" } };
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		put_text(stream, keys[i].text);
		op(stream, keys[i].put);
		op(stream, "0");
	}
	op(stream, METADATA "MetadataIndex\nqI0");
	op(stream, METADATA "ChunkStorageMetadata\nqK0");
	op(stream, METADATA "TensorStorageMetadata\nqT0");
	op(stream, "ctorch\nSize\nqs(K\1t\x85Rq10");
	op(stream, "hs(K");
	put(stream, "\0", 1);
	op(stream, "t\x85Rqo0");
	op(stream, METADATA "TensorProperties\n)\x81(ctorch\nfloat32\nN\x89N\x89tbqP0");
	op(stream, "hK)\x81}(hOh1hSh1ubqc0");
	op(stream, "hT)\x81}(hphPhzh1hC](hcehcaub");
	op(stream, "qt0");
}

/* Opened as the metadata of an otherwise empty folder: where work that is due once were
 * done once an entry, that would take minutes, or more memory than there is. Whether
 * storage is recorded for something that is not there. */
static bool ends_soon(struct stream *stream)
{
	const struct fsdp_limit_setting memory = { "memory", 128 << 20 };
	const struct fsdp_options options = {
		.size = sizeof options,
		.limits = &memory,
		.limit_count = 1,
	};
	char folder[] = "/tmp/test-dcp-XXXXXX", path[64];
	const char *paths[] = { folder };
	struct fsdp_checkpoint *checkpoint = NULL;
	struct fsdp_error *error = NULL;
	assert_non_null(mkdtemp(folder));
	write_file(folder, ".metadata", stream->data, stream->size);
	write_file(folder, "__0_0.distcp", "", 0);
	assert_true(fsdp_checkpoint_open(paths, 1, &options, &checkpoint, &error));
	assert_true(has_finding(checkpoint, "FI3016"));
	bool misplaced = has_finding(checkpoint, "FI1025");
	fsdp_checkpoint_free(checkpoint);
	free(stream->data);
	snprintf(path, sizeof path, "%s/.metadata", folder);
	unlink(path);
	snprintf(path, sizeof path, "%s/__0_0.distcp", folder);
	unlink(path);
	rmdir(folder);
	return misplaced;
}

/* The object itself; entries of the state dict and of planner_data. */
static void end_metadata(struct stream *stream, const char *entry, size_t entries,
	const char *path, size_t paths)
{
	op(stream, METADATA "Metadata\n)\x81}(");
	put_text(stream, "state_dict_metadata");
	op(stream, "}(");
	again(stream, entry, entries);
	op(stream, "u");
	put_text(stream, "planner_data");
	op(stream, "}(");
	again(stream, path, paths);
	op(stream, "u");
	put_text(stream, "storage_data");
	op(stream, "}ub.");
}

static void put_size(struct stream *stream, unsigned char value)
{
	op(stream, "ctorch\nSize\n(K");
	put(stream, &value, 1);
	op(stream, "t\x85R");
}

static void put_chunk(struct stream *stream, unsigned char offset, unsigned char size)
{
	op(stream, "hK)\x81}(hO");
	put_size(stream, offset);
	op(stream, "hS");
	put_size(stream, size);
	op(stream, "ub");
}

/* Two pieces of a tensor, for which the same bytes are recorded. */
static bool pieces_share(const unsigned char first[2], const unsigned char second[2])
{
	struct stream stream = { .size = 0 };
	char folder[] = "/tmp/test-dcp-XXXXXX", path[64];
	const char *paths[] = { folder };
	struct fsdp_checkpoint *checkpoint = NULL;
	begin_metadata(&stream);
	op(&stream, "ctorch.distributed.checkpoint.filesystem\n_StorageInfo\n");
	op(&stream,
		")\x81}(U\15relative_pathU\14__0_0.distcpU\6offsetK\1U\6lengthK\5ubqj0");
	op(&stream,
		METADATA "Metadata\n)\x81}(U\23state_dict_metadata}(U\1whT)\x81}(hphPhz");
	put_size(&stream, 4);
	op(&stream, "hC](");
	put_chunk(&stream, first[0], first[1]);
	put_chunk(&stream, second[0], second[1]);
	op(&stream, "eubuU\14storage_data}(");
	for (unsigned char i = 0; i < 2; i++) {
		op(&stream, "hI)\x81}(hFU\1wU\5indexK");
		put(&stream, &i, 1);
		op(&stream, "U\6offset");
		put_size(&stream, i == 0 ? first[0] : second[0]);
		op(&stream, "ubhj");
	}
	op(&stream, "uub.");
	assert_non_null(mkdtemp(folder));
	write_file(folder, ".metadata", stream.data, stream.size);
	write_file(folder, "__0_0.distcp", "0123456789", 10);
	assert_true(fsdp_checkpoint_open(paths, 1, NULL, &checkpoint, NULL));
	assert_int_equal(fsdp_piece_count(checkpoint), 2);
	bool share = has_finding(checkpoint, "FI1027");
	fsdp_checkpoint_free(checkpoint);
	free(stream.data);
	snprintf(path, sizeof path, "%s/.metadata", folder);
	unlink(path);
	snprintf(path, sizeof path, "%s/__0_0.distcp", folder);
	unlink(path);
	rmdir(folder);
	return share;
}

/* Two entries for one piece may have its bytes; pieces of other places or sizes may not.
 */
static void pieces_that_share_bytes_are_alike(void **state)
{
	static const unsigned char whole[] = { 0, 4 }, lower[] = { 0, 2 },
				   upper[] = { 2, 2 };
	(void)state;
	assert_false(pieces_share(whole, whole));
	assert_true(pieces_share(lower, upper));
	assert_true(pieces_share(whole, lower));
}

/* A name without letters is one as well. */
static void empty_names_are_placed(void **state)
{
	struct stream stream = { .size = 0 };
	(void)state;
	begin_metadata(&stream);
	op(&stream, "ctorch.distributed.checkpoint.filesystem\n_StorageInfo\n");
	op(&stream,
		")\x81}(U\15relative_pathU\14__0_0.distcpU\6offsetK\1U\6lengthK\4ubqj0");
	op(&stream, METADATA "Metadata\n)\x81}(U\23state_dict_metadata}(U");
	put(&stream, "\0", 1);
	op(&stream, "hT)\x81}(hphPhzh1hC]hK)\x81}(hOhohSh1ubaubuU\14storage_data}(");
	op(&stream, "hI)\x81}(hFU");
	put(&stream, "\0", 1);
	op(&stream, "U\6offsethoubhjuub.");
	assert_false(ends_soon(&stream));
}

static void shared_names_are_looked_at_once(void **state)
{
	struct stream stream = { .size = 0 };
	(void)state;
	begin_metadata(&stream);
	put_long(&stream, 'k', 1 << 22);
	op(&stream, "qk\x85qd0");
	end_metadata(&stream, "hkht", 100000, "hkhd", 100000);
	ends_soon(&stream);
}

/* One path of two hundred parts is kept once: all of them would take 200 MiB. */
static void shared_paths_are_kept_once(void **state)
{
	struct stream stream = { .size = 0 };
	(void)state;
	begin_metadata(&stream);
	put_long(&stream, '.', 199);
	op(&stream, "qk0");
	put_text(&stream, "");
	op(&stream, "qe0(");
	again(&stream, "he", 200);
	op(&stream, "tqd0");
	end_metadata(&stream, "hkht", 1, "hkhd", 1 << 16);
	ends_soon(&stream);
}

/* In the memo themselves, or in something that is. */
static void shared_names_of_indexes_are_looked_at_once(void **state)
{
	struct stream stream = { .size = 0 };
	(void)state;
	begin_metadata(&stream);
	for (int i = 0; i < 2; i++) {
		put_long(&stream, (char)('a' + i), 1 << 22);
		op(&stream, i == 0 ? "qa0(" : "qb0(");
		/* So many cells that the second takes the place of the first. */
		for (int k = 0; k < 4095; k++)
			put(&stream, "G\0\0\0\0\0\0\0\0", 9);
		op(&stream, "1");
	}
	op(&stream, "}hF");
	put_long(&stream, 'c', 1 << 22);
	op(&stream, "sqx0}hF");
	put_long(&stream, 'd', 1 << 22);
	op(&stream, "sqy0(");
	again(&stream, "hI)\x81}hFhasbhI)\x81}hFhbsbhI)\x81hxbhI)\x81hyb", 25000);
	op(&stream, "1");
	end_metadata(&stream, "", 0, "", 0);
	ends_soon(&stream);
}

/* Storage is recorded again and again for something that is not there. */
static void unknown_names_are_searched_once(void **state)
{
	struct stream stream = { .size = 0 };
	(void)state;
	begin_metadata(&stream);
	op(&stream, "hI)\x81}hF");
	put_long(&stream, 'u', 1 << 22);
	op(&stream, "sbqi0ctorch.distributed.checkpoint.filesystem\n_StorageInfo\n");
	op(&stream, ")\x81}(U\15relative_pathU\1xU\6offsetK\1U\6lengthK\1ubqj0");
	op(&stream, METADATA "Metadata\n)\x81}(U\23state_dict_metadata}(");
	for (int i = 0; i < 10; i++) {
		put_long(&stream, (char)('a' + i), 1);
		op(&stream, "ht");
	}
	op(&stream, "uU\14storage_data}(");
	again(&stream, "hihj", 100000);
	op(&stream, "uub.");
	assert_true(ends_soon(&stream));
}

/* A name of any length is one. */
static void long_names_are_placed(void **state)
{
	struct stream stream = { .size = 0 };
	(void)state;
	begin_metadata(&stream);
	op(&stream, "ctorch.distributed.checkpoint.filesystem\n_StorageInfo\n");
	op(&stream, ")\x81}(U\15relative_pathU\14__0_0.distcpU\6offsetK");
	put(&stream, "\0", 1);
	op(&stream, "U\6lengthK\4ubqj0");
	op(&stream, METADATA "Metadata\n)\x81}(U\23state_dict_metadata}(");
	put_long(&stream, 'n', 300000);
	op(&stream, "hTq2)\x81}(hphPhzh1hC]hK)\x81}(hOhohSh1ubaubuU\14storage_data}(");
	op(&stream, "hI)\x81}(hF");
	put_long(&stream, 'n', 300000);
	op(&stream, "U\6offsethoubhjuub.");
	assert_false(ends_soon(&stream));
}

static void shared_lists_are_walked_once(void **state)
{
	(void)state;
	struct stream stream = { .size = 0 };
	begin_metadata(&stream);
	op(&stream, "](");
	again(&stream, "hc", 100000);
	op(&stream, "eql0(");
	again(&stream, "hT)\x81}(hphPhzh1hChlub", 10000);
	op(&stream, "1");
	end_metadata(&stream, "", 0, "", 0);
	ends_soon(&stream);
}

static void shared_states_are_searched_once(void **state)
{
	(void)state;
	struct stream stream = { .size = 0 };
	begin_metadata(&stream);
	op(&stream, "}(");
	again(&stream, "K\1N", 250000);
	op(&stream, "uqs0(");
	again(&stream, "hK)\x81hsb", 50000);
	op(&stream, "1");
	end_metadata(&stream, "", 0, "", 0);
	ends_soon(&stream);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(boxes_tile_the_tensor),
		cmocka_unit_test(generations_are_read_alike),
		cmocka_unit_test(items_that_share_bytes_are_told),
		cmocka_unit_test(tensors_of_one_item_share_nothing),
		cmocka_unit_test(only_wanted_objects_are_read),
		cmocka_unit_test(pieces_are_located),
		cmocka_unit_test(cut_metadata_is_refused),
		cmocka_unit_test(tensors_without_chunks_are_counted),
		cmocka_unit_test(pieces_that_share_bytes_are_alike),
		cmocka_unit_test(empty_names_are_placed),
		cmocka_unit_test(shared_names_are_looked_at_once),
		cmocka_unit_test(shared_paths_are_kept_once),
		cmocka_unit_test(shared_names_of_indexes_are_looked_at_once),
		cmocka_unit_test(unknown_names_are_searched_once),
		cmocka_unit_test(long_names_are_placed),
		cmocka_unit_test(shared_lists_are_walked_once),
		cmocka_unit_test(shared_states_are_searched_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
