/* SPDX-License-Identifier: Apache-2.0 */
/* Torch zips through the door: samples by torch 2.13, whole and cut. */
#include "open-bytes.h"

static void check_view(const struct fsdp_checkpoint *checkpoint, const char *name,
	uint64_t offset, const int64_t *strides)
{
	uint32_t index = find_tensor(checkpoint, name);
	assert_int_not_equal(index, FSDP_NONE);
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, index);
	assert_int_equal(tensor.piece_count, 1);
	struct fsdp_piece piece = fsdp_piece(checkpoint, tensor.first_piece);
	assert_int_equal(piece.storage_offset, offset);
	assert_null(piece.offsets);
	if (strides == NULL) {
		assert_null(piece.strides);
		return;
	}
	assert_non_null(piece.strides);
	assert_memory_equal(piece.strides, strides, tensor.dims * sizeof *strides);
}

static size_t ring_length(const struct fsdp_checkpoint *checkpoint, const char *name)
{
	uint32_t first = find_tensor(checkpoint, name), at = first;
	size_t length = 0;
	do {
		at = fsdp_tensor_storage_next(checkpoint, at);
		length++;
	} while (at != first && length < 100);
	return length;
}

static void test_views(void **state)
{
	(void)state;
	struct fsdp_checkpoint *checkpoint = open_sample("torch-zip/views/model.pt");
	assert_int_equal(fsdp_tensor_count(checkpoint), 11);
	check_view(checkpoint, "matrix", 0, NULL);
	check_view(checkpoint, "transposed", 0, (int64_t[]){ 1, 6 });
	check_view(checkpoint, "column", 2, (int64_t[]){ 6 });
	check_view(checkpoint, "row", 6, NULL);
	check_view(checkpoint, "strided", 1, (int64_t[]){ 12, 2 });
	check_view(checkpoint, "expanded", 0, (int64_t[]){ 0, 1 });
	check_view(checkpoint, "channels_last", 0, (int64_t[]){ 60, 1, 15, 3 });
	assert_int_equal(ring_length(checkpoint, "base"), 8);
	assert_int_equal(ring_length(checkpoint, "alone"), 1);
	/* Eight on one storage, but no two of them are the same view. */
	for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint); i++)
		assert_int_equal(fsdp_tensor(checkpoint, i).alias, FSDP_NONE);
	fsdp_checkpoint_free(checkpoint);
}

static void test_components(void **state)
{
	(void)state;
	struct fsdp_checkpoint *checkpoint = open_sample("torch-zip/sparse/model.pt");
	assert_int_equal(fsdp_tensor_count(checkpoint), 4);
	struct fsdp_tensor csr = fsdp_tensor(checkpoint, find_tensor(checkpoint, "csr"));
	assert_string_equal(csr.layout, "sparse_csr");
	assert_int_equal(csr.component_count, 3);
	assert_true(csr.first_component >= 4);
	assert_int_equal(find_tensor(checkpoint, "values"), FSDP_NONE);
	fsdp_checkpoint_free(checkpoint);
	checkpoint = open_sample("torch-zip/quantised/model.pt");
	struct fsdp_tensor tensor =
		fsdp_tensor(checkpoint, find_tensor(checkpoint, "per_channel.qint8"));
	assert_int_not_equal(tensor.quantizer, FSDP_NONE);
	assert_string_equal(fsdp_quantizer(checkpoint, tensor.quantizer).scheme,
		"per_channel_affine");
	fsdp_checkpoint_free(checkpoint);
}

static void test_odd_shapes(void **state)
{
	(void)state;
	struct fsdp_checkpoint *checkpoint = open_sample("torch-zip/odd-shapes/model.pt");
	struct fsdp_tensor empty =
		fsdp_tensor(checkpoint, find_tensor(checkpoint, "empty2"));
	assert_int_equal(empty.numel, 0);
	assert_int_equal(empty.dims, 3);
	struct fsdp_tensor scalar =
		fsdp_tensor(checkpoint, find_tensor(checkpoint, "scalar"));
	assert_int_equal(scalar.dims, 0);
	assert_int_equal(scalar.numel, 1);
	struct fsdp_tensor conj =
		fsdp_tensor(checkpoint, find_tensor(checkpoint, "conj"));
	assert_true(conj.flags & FSDP_TENSOR_CONJ);
	struct fsdp_tensor meta =
		fsdp_tensor(checkpoint, find_tensor(checkpoint, "meta"));
	assert_true(meta.flags & FSDP_TENSOR_NO_DATA);
	assert_int_equal(meta.piece_count, 0);
	fsdp_checkpoint_free(checkpoint);
}

/* Streams begin with the magic in whatever protocol they were pickled. */
static void test_legacy_protocols(void **state)
{
	(void)state;
	static const char *const samples[] = {
		"torch-zip/legacy-protocols/protocol-1.pt",
		"torch-zip/legacy-protocols/protocol-3.pt",
		"torch-zip/legacy-protocols/protocol-4.pt",
		"torch-zip/legacy-protocols/protocol-5.pt",
	};
	for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
		struct fsdp_checkpoint *checkpoint = open_sample(samples[i]);
		assert_string_equal(
			fsdp_checkpoint_format(checkpoint).family, "torch-legacy");
		assert_int_equal(fsdp_tensor_count(checkpoint), 1);
		assert_int_equal(fsdp_value_count(checkpoint), 2);
		assert_int_equal(fsdp_finding_count(checkpoint), 0);
		check_view(checkpoint, "w", 0, NULL);
		fsdp_checkpoint_free(checkpoint);
	}
}

/* The sample of protocol 1 with other bytes in one place. */
static struct fsdp_checkpoint *open_changed(
	const char *from, size_t from_size, const char *to, size_t to_size)
{
	size_t size, at = 0;
	unsigned char *data =
		read_sample("torch-zip/legacy-protocols/protocol-1.pt", &size);
	unsigned char *changed = malloc(size + to_size);
	assert_non_null(changed);
	while (memcmp(data + at, from, from_size) != 0)
		assert_in_range(++at, 1, size - from_size);
	memcpy(changed, data, at);
	memcpy(changed + at, to, to_size);
	memcpy(changed + at + to_size, data + at + from_size, size - at - from_size);
	struct fsdp_error *error = NULL;
	struct fsdp_checkpoint *checkpoint =
		open_bytes(changed, size + to_size - from_size, &error);
	assert_non_null(checkpoint);
	free(changed);
	free(data);
	return checkpoint;
}

#define CHANGED(from, to) open_changed(from, sizeof(from) - 1, to, sizeof(to) - 1)

/* A class of storages of torch.cuda, which torch.load reads too. */
static void test_legacy_cuda(void **state)
{
	(void)state;
	struct fsdp_checkpoint *checkpoint =
		CHANGED("ctorch\nFloatStorage", "ctorch.cuda\nFloatStorage");
	assert_int_equal(fsdp_tensor_count(checkpoint), 1);
	assert_int_equal(fsdp_finding_count(checkpoint), 0);
	check_view(checkpoint, "w", 0, NULL);
	fsdp_checkpoint_free(checkpoint);
}

/* 2**62 elements are one that is repeated, but their bytes are more than can be told. */
static void test_legacy_overflow(void **state)
{
	(void)state;
	struct fsdp_checkpoint *checkpoint = CHANGED("(K\x02K\x03tq\x08(K\x03K\x01t",
		"(L1152921504606846976L\nK\x04tq\x08(K\0K\0t");
	assert_int_equal(fsdp_tensor_count(checkpoint), 0);
	assert_int_equal(fsdp_finding_count(checkpoint), 1);
	static const char expected[] = "tensor cannot be: its size overflows";
	struct fsdp_span message = fsdp_finding(checkpoint, 0)->message;
	assert_int_equal(message.size, strlen(expected));
	assert_memory_equal(message.data, expected, message.size);
	fsdp_checkpoint_free(checkpoint);
}

/* What torch cannot read itself is no empty checkpoint. */
static void test_legacy_protocol_0(void **state)
{
	(void)state;
	struct fsdp_error *error = NULL;
	size_t size;
	unsigned char *data =
		read_sample("torch-zip/legacy-protocols/protocol-0.pt", &size);
	assert_null(open_bytes(data, size, &error));
	assert_int_equal(fsdp_error_code(error), FSDP_ERROR_UNSUPPORTED);
	assert_non_null(strstr(fsdp_error_message(error), "pickle_protocol=0"));
	fsdp_error_free(error);
	free(data);
}

/* A pickle of that number alone, or of another in its place, is no stream. */
static void test_legacy_near(void **state)
{
	(void)state;
	static const char *const others[] = {
		"L119547037146038801333357L\n.I1001\n.",
		"L119547037146038801333356L\n0I1001\n.",
		"\200\003\212\012l\374\234F\371 j\250P\032.\200\003M\351\003.",
	};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		struct fsdp_error *error = NULL;
		struct fsdp_checkpoint *checkpoint =
			open_bytes(others[i], strlen(others[i]), &error);
		if (checkpoint != NULL)
			assert_string_not_equal(fsdp_checkpoint_format(checkpoint).family,
				"torch-legacy");
		fsdp_checkpoint_free(checkpoint);
		fsdp_error_free(error);
	}
}

/* The list behind the object names a storage that no tensor has: it is told which. */
static void test_legacy_other_storage(void **state)
{
	(void)state;
	static const char key[] = "94491066517616";
	struct fsdp_error *error = NULL;
	size_t size, at;
	bool told = false;
	unsigned char *data =
		read_sample("torch-zip/legacy-protocols/protocol-3.pt", &size);
	for (at = size - strlen(key); memcmp(data + at, key, strlen(key)) != 0; at--)
		;
	data[at + strlen(key) - 1] = '9';
	struct fsdp_checkpoint *checkpoint = open_bytes(data, size, &error);
	assert_non_null(checkpoint);
	for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++) {
		struct fsdp_span message = fsdp_finding(checkpoint, i)->message;
		static const char expected[] =
			"the list names storage 94491066517619, which no tensor has";
		told |= message.size == strlen(expected) &&
			memcmp(message.data, expected, message.size) == 0;
	}
	assert_true(told);
	fsdp_checkpoint_free(checkpoint);
	free(data);
}

/* The directory is at the end, so nothing but the whole opens without complaint. */
static void test_truncated(void **state)
{
	(void)state;
	static const char *const samples[] = {
		"torch-zip/views/model.pt",
		"torch-zip/sparse/model.pt",
		"torch-zip/list-top/model.pt",
		"torch-zip/legacy-protocols/protocol-1.pt",
		"torch-zip/legacy-protocols/protocol-4.pt",
	};
	for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
		size_t size;
		unsigned char *data = read_sample(samples[i], &size);
		for (size_t cut = 0; cut < size; cut += cut + 64 < size ? 64 : 1) {
			struct fsdp_error *error = NULL;
			struct fsdp_checkpoint *checkpoint =
				open_bytes(data, cut, &error);
			if (checkpoint != NULL)
				assert_true(fsdp_finding_count(checkpoint) != 0 ||
					    fsdp_checkpoint_error_count(checkpoint) != 0);
			fsdp_checkpoint_free(checkpoint);
			fsdp_error_free(error);
		}
		free(data);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_views),
		cmocka_unit_test(test_components),
		cmocka_unit_test(test_odd_shapes),
		cmocka_unit_test(test_legacy_protocols),
		cmocka_unit_test(test_legacy_cuda),
		cmocka_unit_test(test_legacy_overflow),
		cmocka_unit_test(test_legacy_protocol_0),
		cmocka_unit_test(test_legacy_near),
		cmocka_unit_test(test_legacy_other_storage),
		cmocka_unit_test(test_truncated),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
