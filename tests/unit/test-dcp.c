/* SPDX-License-Identifier: Apache-2.0 */
/* Distributed checkpoints through the door: samples, and one whose metadata is cut. */
#include <fcntl.h>
#include <sys/stat.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(boxes_tile_the_tensor),
		cmocka_unit_test(generations_are_read_alike),
		cmocka_unit_test(pieces_are_located),
		cmocka_unit_test(cut_metadata_is_refused),
		cmocka_unit_test(tensors_without_chunks_are_counted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
