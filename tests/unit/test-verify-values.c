/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of tensors, and which of them cannot be weights. */
#include <math.h>

#include "verify-setup.h"

#include <fsdp/elements.h>

#include "audit/checking.h"
#include "elements/elements-private.h"

#define VALUES FSDP_LEVEL_VALUES

/* ---- against the elements ---- */

/* Not all tensors have elements that can be put together. */
static bool count_elements(const struct fsdp_checkpoint *checkpoint, uint32_t tensor,
	struct fsdp_moments *moments)
{
	struct fsdp_locator *locator = NULL;
	struct fsdp_elements *elements = NULL;
	struct fsdp_error *error = NULL;
	struct fsdp_elements_options options = { .size = sizeof options };
	struct fsdp_span bytes = { NULL, 1 };
	uint64_t at = 0;
	fsdp_moments_init(moments);
	assert_true(fsdp_locator_new(checkpoint, &locator, &error));
	bool good = fsdp_elements_open(locator, tensor, &options, &elements, &error);
	while (good && bytes.size != 0) {
		good = fsdp_elements_next(elements, &bytes, &error);
		if (good && bytes.size != 0)
			fsdp_moments_add(moments, fsdp_tensor(checkpoint, tensor).dtype,
				false, bytes.data, bytes.size, at);
		at += good ? bytes.size : 0;
	}
	fsdp_error_free(error);
	fsdp_elements_close(elements);
	fsdp_locator_free(locator);
	return good;
}

static void close_to(double a, double b)
{
	if (fabs(a - b) > 1e-9 * (fabs(a) + fabs(b) + 1e-300))
		fail_msg("%.17g and %.17g", a, b);
}

static size_t compare_all(const struct verified *verified)
{
	size_t compared = 0;
	for (uint32_t i = 0; i < fsdp_tensor_count(verified->checkpoint); i++) {
		struct fsdp_tensor tensor = fsdp_tensor(verified->checkpoint, i);
		struct fsdp_verify_values values =
			fsdp_verify_values(verified->verify, i);
		struct fsdp_moments due;
		if (!values.known || !count_elements(verified->checkpoint, i, &due))
			continue;
		assert_int_equal(values.count, due.count);
		assert_int_equal(values.nan, due.nan);
		assert_int_equal(values.pos_inf, due.pos_inf);
		assert_int_equal(values.neg_inf, due.neg_inf);
		assert_int_equal(values.zeros, due.zeros);
		assert_int_equal(values.subnormals, due.subnormals);
		if (values.finite != 0)
			assert_true(values.min == due.min && values.max == due.max);
		close_to(values.sum + 1, due.sum + 1);
		close_to(values.squares, due.squares);
		compared += tensor.numel != 0;
	}
	return compared;
}

static void numbers_are_those_of_the_elements(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		size_t tensors;
	} samples[] = {
		{ "torch-zip/state-dict/model.pt", 10 },
		{ "torch-zip/views/model.pt", 5 },
		{ "torch-zip/big-endian/model.pt", 2 },
		{ "torch-zip/legacy/model.pt", 5 },
		{ "torch-zip/all-dtypes/model.pt", 15 },
		{ "torch-zip/odd-shapes/model.pt", 3 },
		{ "safetensors/aliases", 1 },
		{ "dcp/fsdp2-w4-small/checkpoint", 3 },
		{ "dcp/fsdp2-w4-tp/checkpoint", 5 },
		{ "dcp/views/checkpoint", 1 },
		{ "fsdp1/local-w2-conv/checkpoint", 5 },
		{ "fsdp1/local-w3-uneven/checkpoint", 3 },
		{ "fsdp2/w4-tp/checkpoint", 5 },
		{ "lightning/trainer-ckpt/last.ckpt", 3 },
		{ "hf/llama-sharded", 5 },
	};
	for (size_t i = 0; i < FSDP_COUNT(samples); i++) {
		struct verified verified = verify_sample(samples[i].name, VALUES, 2);
		size_t compared = compare_all(&verified);
		if (compared < samples[i].tensors)
			fail_msg("%s: %zu tensors", samples[i].name, compared);
		verified_done(&verified);
	}
}

static void a_level_less_has_no_numbers(void **state)
{
	(void)state;
	struct verified verified =
		verify_sample("torch-zip/state-dict/model.pt", FSDP_LEVEL_DATA, 1);
	assert_false(fsdp_verify_values(verified.verify, 0).known);
	assert_int_equal(fsdp_verify_values(verified.verify, 0).layout, 0);
	assert_int_equal(fsdp_verify_values(verified.verify, 0).bad_index, FSDP_UNKNOWN);
	verified_done(&verified);
}

/* ---- tensors that are made here ---- */

enum { TENSORS = 12 };

static struct {
	const char *name, *dtype;
	const void *bytes;
	size_t size, count;
} made[TENSORS];
static size_t made_count, rows; /* 0: of one dimension */
static const char *config;

static void make(const char *name, const char *dtype, const void *data, size_t size,
	size_t numbers)
{
	assert_true(made_count < TENSORS);
	made[made_count].name = name;
	made[made_count].dtype = dtype;
	made[made_count].bytes = data;
	made[made_count].size = size;
	made[made_count++].count = numbers;
}

#define MAKE(name, dtype, array) \
	make(name, dtype, array, sizeof(array), FSDP_COUNT(array))

static struct verified verify_made(void)
{
	char header[2048], path[512];
	size_t size = 1, at = 0;
	header[0] = '{';
	for (size_t i = 0; i < made_count; i++) {
		size += (size_t)snprintf(header + size, sizeof header - size,
			"%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", i != 0 ? "," : "",
			made[i].name, made[i].dtype);
		if (rows != 0)
			size += (size_t)snprintf(
				header + size, sizeof header - size, "%zu,", rows);
		size += (size_t)snprintf(header + size, sizeof header - size,
			"%zu],\"data_offsets\":[%zu,%zu]}",
			made[i].count / (rows != 0 ? rows : 1), at, at + made[i].size);
		at += made[i].size;
	}
	header[size++] = '}';
	uint64_t length = size;
	folder_make();
	folder_write("model.safetensors", &length, 8);
	folder_poke("model.safetensors", 8, header, size);
	for (size_t i = 0, end = 8 + size; i < made_count; i++) {
		folder_poke("model.safetensors", (long)end, made[i].bytes, made[i].size);
		end += made[i].size;
	}
	folder_path("model.safetensors", path);
	made_count = 0;
	if (config != NULL)
		folder_write("config.json", config, strlen(config));
	struct verified verified = verify_path(config != NULL ? folder : path, VALUES, 1);
	folder_remove();
	return verified;
}

static const struct fsdp_finding *finding_of(
	const struct verified *verified, const char *rule, const char *tensor)
{
	for (size_t i = 0; i < fsdp_verify_finding_count(verified->verify); i++) {
		const struct fsdp_finding *finding =
			fsdp_verify_finding(verified->verify, i);
		if (strcmp(finding->rule->id, rule) == 0 &&
			fsdp_span_is(finding->tensor, tensor))
			return finding;
	}
	return NULL;
}

static void numbers_that_are_not_finite_are_told(void **state)
{
	(void)state;
	float good[] = { 1, 2, 3 }, bad[] = { 1, NAN, INFINITY };
	float mask[] = { 0, -INFINITY, -INFINITY };
	float bound[] = { INFINITY };
	uint16_t halves[] = { 0x3f80, 0x7f80, 0x7fc0 };
	MAKE("a.weight", "F32", good);
	MAKE("b.weight", "F32", bad);
	MAKE("c.attn_mask", "F32", mask);
	MAKE("d.weight", "F32", mask);
	MAKE("e.clip_max", "F32", bound);
	MAKE("f.weight", "BF16", halves);
	MAKE("optimizer.state.exp_avg", "F32", bad);
	struct verified verified = verify_made();
	assert_null(finding_of(&verified, "FI2008", "a.weight"));
	const struct fsdp_finding *finding = finding_of(&verified, "FI2008", "b.weight");
	assert_int_equal(finding->severity, FSDP_ERROR);
	assert_non_null(memmem(finding->message.data, finding->message.size,
		"1 NaN, 1 +Inf in 3 values (first: element 1", 43));
	assert_int_equal(
		finding_of(&verified, "FI2008", "c.attn_mask")->severity, FSDP_NOTE);
	assert_int_equal(
		finding_of(&verified, "FI2008", "d.weight")->severity, FSDP_ERROR);
	assert_int_equal(
		finding_of(&verified, "FI2008", "e.clip_max")->severity, FSDP_NOTE);
	assert_non_null(finding_of(&verified, "FI2008", "f.weight"));
	uint32_t tensor = find_tensor(verified.checkpoint, "b.weight");
	struct fsdp_verify_values values = fsdp_verify_values(verified.verify, tensor);
	assert_true(values.known);
	assert_int_equal(values.finite, 1);
	assert_int_equal(values.bad_index, 1);
	assert_int_equal(
		values.bad_piece, fsdp_tensor(verified.checkpoint, tensor).first_piece);
	assert_false(values.constant);
	verified_done(&verified);
}

static void values_that_cannot_be_are_told(void **state)
{
	(void)state;
	float variance[] = { 1, -1 }, fine[] = { 1, 0 };
	int64_t step[] = { -1 }, counting[] = { 0, 1, 2, 3 }, gap[] = { 0, 2, 2, 3 };
	unsigned char truths[] = { 0, 1, 2 };
	MAKE("a.running_var", "F32", variance);
	MAKE("b.running_var", "F32", fine);
	MAKE("c.num_batches_tracked", "I64", step);
	MAKE("d.position_ids", "I64", counting);
	MAKE("e.position_ids", "I64", gap);
	MAKE("f.mask", "BOOL", truths);
	MAKE("g.weight", "F32", variance);
	struct verified verified = verify_made();
	assert_int_equal(fsdp_verify_finding_count(verified.verify), 4);
	assert_non_null(finding_of(&verified, "FI2009", "a.running_var"));
	assert_non_null(finding_of(&verified, "FI2009", "c.num_batches_tracked"));
	assert_non_null(finding_of(&verified, "FI2009", "e.position_ids"));
	assert_non_null(finding_of(&verified, "FI2009", "f.mask"));
	assert_int_equal(fsdp_verify_finding(verified.verify, 0)->severity, FSDP_WARNING);
	verified_done(&verified);
}

static void equal_bytes_have_equal_digests(void **state)
{
	(void)state;
	float one[] = { 1, 2, 3, 4 }, other[] = { 1, 2, 4, 3 }, same[] = { 5, 5, 5, 5 };
	MAKE("a", "F32", one);
	MAKE("b", "F32", other);
	MAKE("c", "F32", one);
	MAKE("d", "F32", same);
	struct verified verified = verify_made();
	struct fsdp_verify_values values[4];
	for (uint32_t i = 0; i < 4; i++)
		values[i] = fsdp_verify_values(verified.verify, i);
	assert_int_not_equal(values[0].layout, 0);
	assert_int_equal(values[0].layout, values[1].layout);
	assert_memory_equal(values[0].digest, values[2].digest, 16);
	assert_memory_not_equal(values[0].digest, values[1].digest, 16);
	assert_true(values[3].constant && !values[0].constant);
	verified_done(&verified);
}

/* Of long tensors a sample is looked at first: byte 40,000 is not in it. */
static void equal_samples_are_read_again(void **state)
{
	(void)state;
	static float one[1 << 16], other[1 << 16], zeros[1 << 16];
	for (size_t i = 0; i < FSDP_COUNT(one); i++)
		one[i] = other[i] = (float)(i % 1000) + 1;
	other[10000]++;
	MAKE("a", "F32", one);
	MAKE("b", "F32", other);
	MAKE("c", "F32", one);
	MAKE("d", "F32", zeros);
	MAKE("e", "F32", zeros);
	struct verified verified = verify_made();
	struct fsdp_verify_values values[5];
	for (uint32_t i = 0; i < 5; i++)
		values[i] = fsdp_verify_values(verified.verify, i);
	assert_int_equal(values[0].layout, values[1].layout);
	assert_memory_equal(values[0].digest, values[2].digest, 16);
	assert_memory_not_equal(values[0].digest, values[1].digest, 16);
	assert_memory_equal(values[3].digest, values[4].digest, 16);
	assert_memory_not_equal(values[0].digest, values[3].digest, 16);
	verified_done(&verified);
}

/* Copies of a piece are counted once. */
static void copies_are_counted_once(void **state)
{
	(void)state;
	struct verified verified = verify_sample("fsdp2/w4-tp/checkpoint", VALUES, 1);
	uint32_t tensor = find_tensor(verified.checkpoint, "mlp1.down.bias");
	struct fsdp_tensor bias = fsdp_tensor(verified.checkpoint, tensor);
	assert_int_equal(bias.piece_count, 4);
	assert_int_equal(fsdp_verify_values(verified.verify, tensor).count, bias.numel);
	verified_done(&verified);
}

/* ---- whether they were trained ---- */

enum { NUMBERS = 64 };

static float trained[TENSORS][NUMBERS];

/* Numbers as training leaves them, so wide. */
static const float *train(size_t index, float width)
{
	for (size_t i = 0; i < NUMBERS; i++)
		trained[index][i] = width * ((float)rand() / (float)RAND_MAX - 0.5f);
	return trained[index];
}

static const char *const layers[] = { "layers.0.up_proj.weight",
	"layers.1.up_proj.weight", "layers.2.up_proj.weight", "layers.3.up_proj.weight",
	"layers.4.up_proj.weight" };

static void make_layers(size_t count)
{
	srand(7);
	rows = 8;
	for (size_t i = 0; i < count; i++)
		make(layers[i], "F32", train(i, 1), sizeof trained[i], NUMBERS);
}

/* What the check says of what was made: the rule that is found, alone, or NULL. The
 * message goes to `message`. */
static size_t check_made(const char *rule, char message[256])
{
	struct setup setup;
	struct fsdp_arena arena;
	struct verified verified = verify_made();
	setup_init(&setup);
	fsdp_arena_init(&arena, &setup.budget);
	struct fsdp_checking checking = { .checkpoint = verified.checkpoint,
		.family = "",
		.verify = verified.verify,
		.findings = &setup.findings,
		.arena = &arena,
		.name = { .arena = &arena },
		.ret_error = &setup.error };
	fsdp_check_values.run(&checking);
	assert_false(checking.failed || checking.no_memory);
	fsdp_arena_done(&arena);
	size_t count = setup.findings.list.count;
	message[0] = '\0';
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_finding *finding = fsdp_vec_at(&setup.findings.list, i);
		if (rule == NULL || strcmp(finding->rule->id, rule) != 0)
			fail_msg("%s: %.*s: %.*s", finding->rule->id,
				FSDP_TEXT(finding->tensor), FSDP_TEXT(finding->message));
		snprintf(message, 256, "%.*s: %.*s", FSDP_TEXT(finding->tensor),
			FSDP_TEXT(finding->message));
	}
	setup_done(&setup);
	verified_done(&verified);
	rows = 0;
	config = NULL;
	return count;
}

static void trained_layers_are_left_alone(void **state)
{
	(void)state;
	char message[256];
	make_layers(5);
	assert_int_equal(check_made(NULL, message), 0);
	/* Nine times as wide is not ten. */
	make_layers(5);
	train(3, 9);
	assert_int_equal(check_made(NULL, message), 0);
	/* Norms, moments and scales are what they are. */
	make_layers(3);
	memset(trained[5], 0, sizeof trained[5]);
	make("optimizer.state.up_proj.weight", "F32", trained[5], sizeof trained[5],
		NUMBERS);
	make("layers.0.up_proj.weight_scale", "F32", trained[5], sizeof trained[5],
		NUMBERS);
	assert_int_equal(check_made(NULL, message), 0);
}

static void dead_weights_are_told(void **state)
{
	(void)state;
	char message[256];
	make_layers(5);
	for (size_t i = 0; i < NUMBERS; i++)
		trained[2][i] = 0;
	assert_int_equal(check_made("FI2011", message), 1);
	assert_string_equal(message, "layers.2.up_proj.weight: all values are 0");
	make_layers(5);
	for (size_t i = 0; i < NUMBERS; i++)
		trained[2][i] = 0.5f;
	assert_int_equal(check_made("FI2011", message), 1);
	make_layers(5);
	trained[1][9] = 1e31f;
	assert_int_equal(check_made("FI2011", message), 1);
	make_layers(5);
	for (size_t i = 0; i < NUMBERS / 4 + 1; i++)
		trained[4][i] = 1e-41f;
	assert_int_equal(check_made("FI2011", message), 1);
	assert_non_null(strstr(message, "17 of 64 values are subnormal"));
	make_layers(5);
	for (size_t i = 0; i < NUMBERS / 4; i++)
		trained[4][i] = 1e-41f;
	assert_int_equal(check_made(NULL, message), 0);
}

static void what_stands_out_is_told(void **state)
{
	(void)state;
	char message[256];
	make_layers(5);
	train(3, 14);
	assert_int_equal(check_made("FI2011", message), 1);
	assert_non_null(
		strstr(message, "layers.3.up_proj.weight: standard deviation is"));
	make_layers(4);
	train(0, 0.05f);
	assert_int_equal(check_made("FI2011", message), 1);
	/* Of three it is not known which one is wrong. */
	make_layers(3);
	train(0, 50);
	assert_int_equal(check_made(NULL, message), 0);
	/* Siblings that do not agree say nothing. */
	make_layers(5);
	train(0, 100);
	train(1, 5);
	train(2, 20);
	assert_int_equal(check_made(NULL, message), 0);
}

static void equal_layers_are_told(void **state)
{
	(void)state;
	char message[256];
	make_layers(5);
	memcpy(trained[4], trained[1], sizeof *trained);
	memcpy(trained[3], trained[1], sizeof *trained);
	assert_int_equal(check_made("FI2012", message), 1);
	assert_string_equal(message,
		"layers.1.up_proj.weight: equal byte for byte to layers.3.up_proj.weight, layers.4.up_proj.weight; possibly a pass-through merge");
	/* Another name is no other layer. */
	make_layers(3);
	make("other.up_proj.weight", "F32", trained[0], sizeof *trained, NUMBERS);
	assert_int_equal(check_made(NULL, message), 0);
}

static void make_pair(const char *says, const char *head, const char *embedding)
{
	rows = 8;
	config = says;
	srand(3);
	make(head, "F32", train(0, 1), sizeof *trained, NUMBERS);
	make(embedding, "F32", train(1, 1), sizeof *trained, NUMBERS);
}

static void make_tied(const char *says, bool equal)
{
	make_pair(says, "lm_head.weight", "model.embed_tokens.weight");
	if (equal)
		memcpy(trained[1], trained[0], sizeof *trained);
}

static void tied_weights_must_be_equal(void **state)
{
	(void)state;
	char message[256];
	make_tied("{\"model_type\": \"llama\", \"tie_word_embeddings\": true}", false);
	assert_int_equal(check_made("FI1095", message), 1);
	make_tied("{\"model_type\": \"llama\", \"tie_word_embeddings\": true}", true);
	assert_int_equal(check_made(NULL, message), 0);
	make_tied("{\"model_type\": \"llama\", \"tie_word_embeddings\": false}", false);
	assert_int_equal(check_made(NULL, message), 0);
	make_tied("{\"model_type\": \"llama\"}", false);
	assert_int_equal(check_made(NULL, message), 0);
}

static void heads_and_embeddings_have_these_names(void **state)
{
	static const char *const heads[] = { "lm_head", "embed_out", "output",
		"output_layer", "proj_out", "ff_out" };
	static const char *const embeddings[] = { "embed_tokens", "wte",
		"word_embeddings", "embed_in", "shared", "tok_embeddings", "embedding" };
	static const char TIED[] =
		"{\"model_type\": \"llama\", \"tie_word_embeddings\": true}";
	char message[256], name[64];
	(void)state;
	for (size_t i = 0; i < FSDP_COUNT(heads); i++) {
		snprintf(name, sizeof name, "a.%s.weight", heads[i]);
		make_pair(TIED, name, "wte.weight");
		assert_int_equal(check_made("FI1095", message), 1);
	}
	for (size_t i = 0; i < FSDP_COUNT(embeddings); i++) {
		snprintf(name, sizeof name, "a.%s.weight", embeddings[i]);
		make_pair(TIED, "lm_head.weight", name);
		assert_int_equal(check_made("FI1095", message), 1);
	}
	make_pair(TIED, "lm_head.weight", "another.weight");
	assert_int_equal(check_made(NULL, message), 0);
	make_pair(TIED, "another.weight", "wte.weight");
	assert_int_equal(check_made(NULL, message), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_those_of_the_elements),
		cmocka_unit_test(a_level_less_has_no_numbers),
		cmocka_unit_test(numbers_that_are_not_finite_are_told),
		cmocka_unit_test(values_that_cannot_be_are_told),
		cmocka_unit_test(equal_bytes_have_equal_digests),
		cmocka_unit_test(equal_samples_are_read_again),
		cmocka_unit_test(copies_are_counted_once),
		cmocka_unit_test(trained_layers_are_left_alone),
		cmocka_unit_test(dead_weights_are_told),
		cmocka_unit_test(what_stands_out_is_told),
		cmocka_unit_test(equal_layers_are_told),
		cmocka_unit_test(tied_weights_must_be_equal),
		cmocka_unit_test(heads_and_embeddings_have_these_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
