/* SPDX-License-Identifier: Apache-2.0 */
/* What PEFT would do with adapters of each supported type. */
#include "folder-setup.h"

#include <unistd.h>

#include <fsdp/loaders.h>

#include "base/span.h"

/* "name 2x3" one after the other, each with `prefix` before its name, as a header. */
static void put_tensors(const char *prefix, const char *list)
{
	char header[4096], name[256], shape[64];
	unsigned char bytes[8192] = { 0 };
	size_t size = 1, offset = 0;
	int read;

	strcpy(header, "{");
	while (sscanf(list, " %255s %63s%n", name, shape, &read) == 2) {
		size_t numel = 1;
		list += read;
		for (char *at = shape; *at != '\0';) {
			numel *= strtoul(at, &at, 10);
			if (*at == 'x')
				*at++ = ',';
		}
		size += (size_t)snprintf(header + size, sizeof header - size,
			"%s\"%s%s\": {\"dtype\": \"F32\", \"shape\": [%s], \"data_offsets\": [%zu, %zu]}",
			size > 1 ? ", " : "", prefix, name, shape, offset,
			offset + 4 * numel);
		offset += 4 * numel;
	}
	strcpy(header + size++, "}");
	assert_true(8 + size + offset <= sizeof bytes);
	bytes[0] = (unsigned char)size;
	bytes[1] = (unsigned char)(size >> 8);
	memcpy(bytes + 8, header, size);
	folder_write("adapter_model.safetensors", bytes, 8 + size + offset);
}

enum { MODEL_MOST = 8, NAME_MOST = 64 };

/* The same of a model; returns how many. */
static size_t read_model(const char *list, struct fsdp_load_expected *model,
	char (*names)[NAME_MOST], int64_t (*shapes)[4])
{
	size_t count = 0;
	char shape[64];
	int read;

	for (; sscanf(list, " %63s %63s%n", names[count], shape, &read) == 2; count++) {
		uint32_t dims = 0;
		assert_true(count < MODEL_MOST);
		list += read;
		for (char *at = shape; *at != '\0'; at += *at == 'x')
			shapes[count][dims++] = strtol(at, &at, 10);
		model[count] = (struct fsdp_load_expected){
			.name = fsdp_span_text(names[count]),
			.shape = shapes[count],
			.dims = dims,
		};
	}
	return count;
}

static void expect(const char *base, const char *expected)
{
	struct fsdp_load_expected model[MODEL_MOST];
	char names[MODEL_MOST][NAME_MOST], found[512];
	int64_t shapes[MODEL_MOST][4];
	const char *loader = "peft";
	struct fsdp_load_check_options options = { .size = sizeof options,
		.loaders = &loader,
		.loader_count = 1,
		.expected = base != NULL ? model : NULL };
	struct fsdp_scan *survey = NULL;
	struct fsdp_load_check *loads = NULL;

	if (base != NULL)
		options.expected_count = read_model(base, model, names, shapes);
	assert_true(fsdp_scan_new(folder, NULL, 0, NULL, &survey, NULL));
	assert_true(fsdp_load_check_new(survey, &options, &loads, NULL));
	fsdp_scan_free(survey);
	const struct fsdp_load_result *result = fsdp_load_check_result(loads, 0);
	size_t at = (size_t)snprintf(
		found, sizeof found, "%s", fsdp_load_verdict_name(result->verdict));
	for (size_t i = 0; i < result->reason_count; i++) {
		assert_null(strchr(result->reasons[i].message, '{') == NULL
				    ? NULL
				    : strstr(result->reasons[i].message, "{0}"));
		at += (size_t)snprintf(
			found + at, sizeof found - at, " %s", result->reasons[i].code);
	}
	assert_string_equal(found, expected);
	fsdp_load_check_free(loads);
}

struct adapter {
	const char *config, *tensors, *base, *expected;
};

static void judge(const struct adapter *adapters, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		folder_write("adapter_config.json", adapters[i].config,
			strlen(adapters[i].config));
		put_tensors("base_model.model.", adapters[i].tensors);
		expect(adapters[i].base, adapters[i].expected);
	}
}

#define JUDGE(adapters) judge(adapters, sizeof adapters / sizeof *adapters)

#define PAIR(module, a, b) module ".lora_A.weight " a " " module ".lora_B.weight " b " "
#define LORA "{\"peft_type\": \"LORA\", \"r\": 2, \"target_modules\": [\"q\"]"
#define Q PAIR("m.h.0.q", "2x3", "4x2")
#define CONV1D "{\"peft_type\": \"LORA\", \"r\": 2, \"target_modules\": [\"c_attn\"]"
#define C_ATTN PAIR("m.h.0.c_attn", "2x3", "4x2")

#define ALL_LINEAR \
	"{\"peft_type\": \"LORA\", \"r\": 2, \"target_modules\": \"all-linear\""

static void all_linear_modules_are_compared(void **state)
{
	static const struct adapter adapters[] = {
		{ ALL_LINEAR "}", Q, NULL, "loads" },
		{ ALL_LINEAR "}", Q, "m.h.0.q.weight 4x3 m.norm.weight 4", "loads" },
		{ ALL_LINEAR "}", Q,
			"m.h.0.q.weight 4x3 m.embed_tokens.weight 9x3 lm_head.weight 9x3",
			"loads" },
		{ ALL_LINEAR "}", Q, "m.h.0.q.weight 4x3 m.h.1.q.weight 4x3",
			"differs base-model" },
		/* A convolution is not linear. */
		{ ALL_LINEAR "}", Q, "m.h.0.q.weight 4x3 m.patches.q.weight 4x3x2x2",
			"loads" },
		/* A router may be another class than a linear one. */
		{ ALL_LINEAR "}", Q, "m.h.0.q.weight 4x3 m.h.0.gate.weight 4x3",
			"not_judged base-model" },
		{ ALL_LINEAR ", \"exclude_modules\": [\"1.q\", \"gate\"]}", Q,
			"m.h.0.q.weight 4x3 m.h.1.q.weight 4x3 m.h.0.gate.weight 4x3",
			"loads" },
		{ ALL_LINEAR ", \"exclude_modules\": \".*1.*\"}", Q,
			"m.h.0.q.weight 4x3 m.h.1.q.weight 4x3",
			"not_judged base-model" },
	};
	(void)state;
	JUDGE(adapters);
}

static void modules_of_the_base_are_compared(void **state)
{
	static const struct adapter adapters[] = {
		{ LORA "}", Q, NULL, "loads" },
		{ LORA "}", Q, "m.h.0.q.weight 4x3", "loads" },
		{ LORA "}", Q, "m.h.0.q.weight 4x5", "refuses base-model" },
		{ LORA "}", Q, "m.h.0.q.weight 5x3", "refuses base-model" },
		/* The weight of a Conv1D is turned, and that of a linear layer is not. */
		{ LORA ", \"fan_in_fan_out\": true}", Q, "m.h.0.q.weight 4x3", "loads" },
		{ CONV1D "}", C_ATTN, "m.h.0.c_attn.weight 3x4", "loads" },
		{ CONV1D ", \"fan_in_fan_out\": true}", C_ATTN, "m.h.0.c_attn.weight 3x4",
			"loads" },
		{ CONV1D ", \"fan_in_fan_out\": true}", C_ATTN, "m.h.0.c_attn.weight 4x3",
			"refuses base-model" },
		{ LORA ", \"fan_in_fan_out\": true}", Q, "m.h.0.q.weight 3x4",
			"refuses base-model" },
		{ LORA "}", Q, "m.h.0.q.weight 4x3 m.h.1.q.weight 4x3",
			"differs base-model" },
		/* Neither a norm nor what another module's name ends with. */
		{ LORA "}", Q, "m.h.0.q.weight 4x3 m.q.weight 4 m.kq.weight 4x3",
			"loads" },
		{ LORA ", \"exclude_modules\": [\"1.q\"]}", Q,
			"m.h.0.q.weight 4x3 m.h.1.q.weight 4x3", "loads" },
		{ LORA ", \"exclude_modules\": \".*1.*\"}", Q,
			"m.h.0.q.weight 4x3 m.h.1.q.weight 4x3",
			"not_judged base-model" },
		{ LORA ", \"modules_to_save\": [\"1\"]}", Q " m.h.1.q.weight 4x3",
			"m.h.0.q.weight 4x3 m.h.1.q.weight 4x3", "loads" },
		{ LORA ", \"layers_to_transform\": [0]}", Q,
			"m.h.0.q.weight 4x3 m.h.1.q.weight 4x3", "loads" },
		{ LORA ", \"layers_to_transform\": 1}", Q, NULL,
			"not_judged adapter-targets" },
		{ LORA ", \"layers_to_transform\": 1}", Q,
			"m.h.0.q.weight 4x3 m.h.1.q.weight 4x3",
			"differs base-model ignored" },
		{ "{\"peft_type\": \"LORA\", \"r\": 2, \"target_modules\": \".*q\"}", Q,
			"m.h.0.q.weight 4x3", "loads" },
		{ "{\"peft_type\": \"LORA\", \"r\": 2, \"target_modules\": \".*0.q\"}", Q,
			"m.h.0.q.weight 4x3 m.h.1.q.weight 4x3",
			"not_judged base-model" },
		{ LORA "}", Q, "other.weight 4x3", "refuses adapter-targets" },
		{ "{\"peft_type\": \"LORA\", \"r\": 2, \"target_modules\": [], \"target_parameters\": [\"q.weight\"]}",
			Q, "m.h.0.q.weight 4x3 m.h.1.q.weight 4x3",
			"differs base-model" },
		{ LORA ", \"bias\": \"all\"}", Q,
			"m.h.0.q.weight 4x3 m.h.0.q.bias 4 m.n.bias 4",
			"differs base-model" },
		{ LORA ", \"bias\": \"lora_only\"}", Q " m.h.0.q.base_layer.bias 4",
			"m.h.0.q.weight 4x3 m.h.0.q.bias 4 m.n.bias 4", "loads" },
		{ LORA ", \"bias\": \"lora_only\"}", Q " m.h.0.q.base_layer.bias 5",
			"m.h.0.q.weight 4x3 m.h.0.q.bias 4", "refuses base-model" },
	};

	(void)state;
	JUDGE(adapters);
}

static void ranks_are_of_modules(void **state)
{
	static const struct adapter adapters[] = {
		{ "{\"peft_type\": \"LORA\", \"r\": 3, \"target_modules\": [\"q\"]}", Q,
			NULL, "refuses adapter-rank" },
		{ "{\"peft_type\": \"LORA\", \"target_modules\": \".*\", \"r\": 3, \"rank_pattern\": {\"q\": 2}}",
			Q, NULL, "loads" },
		{ "{\"peft_type\": \"LORA\", \"target_modules\": \".*\", \"r\": 3, \"rank_pattern\": {\"h\\\\.0.q\": 2}}",
			Q, NULL, "loads" },
		{ "{\"peft_type\": \"LORA\", \"target_modules\": \".*\", \"r\": 3, \"rank_pattern\": {\"^m.h.0.q\": 2}}",
			Q, NULL, "loads" },
		{ "{\"peft_type\": \"LORA\", \"target_modules\": \".*\", \"r\": 3, \"rank_pattern\": {\"^h.0.q\": 2}}",
			Q, NULL, "refuses adapter-rank" },
		{ "{\"peft_type\": \"LORA\", \"target_modules\": \".*\", \"r\": 3, \"rank_pattern\": {\"k\": 2}}",
			Q, NULL, "refuses adapter-rank" },
		/* The first that matches counts, and what that is need not be known. */
		{ "{\"peft_type\": \"LORA\", \"target_modules\": \".*\", \"r\": 2, \"rank_pattern\": {\".*q\": 3}}",
			Q, NULL, "not_judged adapter-rank" },
		{ "{\"peft_type\": \"LORA\", \"target_modules\": \".*\", \"r\": 2, \"target_parameters\": [\"q.weight\"]}",
			PAIR("m.e", "4x3", "4x4"), NULL, "not_judged adapter-rank" },
		/* A convolution in groups. */
		{ "{\"peft_type\": \"LORA\", \"target_modules\": \".*\", \"r\": 4}",
			PAIR("c", "4x6x3x3", "8x2x1x1"), "c.weight 8x3x3x3", "loads" },
		{ "{\"peft_type\": \"LORA\", \"target_modules\": \".*\", \"r\": 4}",
			PAIR("c", "4x6x3x3", "8x3x1x1"), NULL, "refuses adapter-rank" },
		{ "{\"peft_type\": \"LORA\", \"target_modules\": \".*\", \"r\": 4}",
			PAIR("c", "4x6x3x3", "8x2x1x1"), "c.weight 8x4x3x3",
			"refuses base-model" },
		/* Of embeddings. */
		{ "{\"peft_type\": \"LORA\", \"r\": 2, \"target_modules\": [\"e\"]}",
			"e.lora_embedding_A 2x9 e.lora_embedding_B 4x2", "e.weight 9x4",
			"loads" },
		{ "{\"peft_type\": \"LORA\", \"r\": 2, \"target_modules\": [\"e\"]}",
			"e.lora_embedding_A 2x9 e.lora_embedding_B 4x2", "e.weight 8x4",
			"refuses base-model" },
		{ "{\"peft_type\": \"LORA\", \"target_modules\": \".*\", \"r\": 2}",
			"e.lora_embedding_A 2x9", NULL, "differs missing-tensor" },
	};

	(void)state;
	JUDGE(adapters);
}

/* Of a rank that the configuration does not have, the last reason says what helps. */
static void ranks_are_set_where_all_agree(void **state)
{
#define OF_RANK(r) "{\"peft_type\": \"LORA\", \"target_modules\": \".*\", \"r\": " r "}"
	static const struct {
		const char *config, *tensors, *cure;
	} adapters[] = {
		{ OF_RANK("3"), PAIR("m.q", "2x5", "4x2") PAIR("m.k", "2x5", "4x2"),
			"set r to 2 in adapter_config.json" },
		{ OF_RANK("3"), PAIR("m.q", "2x5", "4x2") PAIR("m.k", "3x5", "4x3"), "" },
		{ OF_RANK("3"), PAIR("m.q", "2x5", "4x2") PAIR("m.k", "1x5", "4x1"), "" },
		{ OF_RANK("3"), PAIR("m.q", "2x5", "4x1"), "" },
		/* Only one of both. */
		{ OF_RANK("3"), "m.q.lora_A.weight 2x5", "" },
		/* Pieces of one process, and no ranks. */
		{ OF_RANK("4"), PAIR("m.q", "6", "8"), "" },
		/* A square module's matrices, transposed. */
		{ OF_RANK("2"), PAIR("m.q", "5x2", "2x5"), "" },
		/* As PEFT before 0.3 had them. */
		{ "{\"peft_type\": \"LORA\", \"target_modules\": \".*\", \"r\": 4, \"enable_lora\": [true, false, true]}",
			PAIR("m.q", "8x5", "6x8"), "" },
		{ "{\"peft_type\": \"LORA\", \"target_modules\": \".*\", \"r\": 4}",
			PAIR("m.q", "8x5", "6x4x1"), "" },
		{ "{\"peft_type\": \"LORA\", \"target_modules\": \".*\", \"r\": 3, \"rank_pattern\": {\"k\": 2}}",
			PAIR("m.q", "2x5", "4x2"), "" },
	};
	const char *loader = "peft";
	struct fsdp_load_check_options options = {
		.size = sizeof options, .loaders = &loader, .loader_count = 1
	};

	(void)state;
	for (size_t i = 0; i < FSDP_COUNT(adapters); i++) {
		struct fsdp_scan *survey = NULL;
		struct fsdp_load_check *loads = NULL;
		folder_write("adapter_config.json", adapters[i].config,
			strlen(adapters[i].config));
		put_tensors("base_model.model.", adapters[i].tensors);
		assert_true(fsdp_scan_new(folder, NULL, 0, NULL, &survey, NULL));
		assert_true(fsdp_load_check_new(survey, &options, &loads, NULL));
		fsdp_scan_free(survey);
		const struct fsdp_load_result *result = fsdp_load_check_result(loads, 0);
		assert_string_equal(result->reasons[0].code, "adapter-rank");
		assert_string_equal(result->reasons[0].way_out != NULL
					    ? result->reasons[0].way_out
					    : "",
			adapters[i].cure);
		fsdp_load_check_free(loads);
	}
}

static void parts_of_lora_come_together(void **state)
{
	static const struct adapter adapters[] = {
		{ LORA ", \"use_dora\": true}", Q, NULL, "differs missing-tensor" },
		{ LORA ", \"use_dora\": true}", Q "m.h.0.q.lora_magnitude_vector 4",
			"m.h.0.q.weight 4x3", "loads" },
		{ LORA ", \"use_dora\": true}",
			Q "m.h.0.q.lora_magnitude_vector.weight 4", NULL, "loads" },
		{ LORA ", \"use_dora\": true}", Q "m.h.0.q.lora_magnitude_vector 5",
			"m.h.0.q.weight 4x3", "refuses base-model" },
		{ LORA ", \"lora_bias\": true}", Q, NULL, "differs missing-tensor" },
		{ LORA ", \"lora_bias\": true}", Q "m.h.0.q.lora_B.bias 4", NULL,
			"loads" },
		/* The name of the adapter is not a part of that of the module. */
		{ LORA "}",
			"m.h.0.q.lora_A.default.weight 2x3 m.h.0.q.lora_B.default.weight 4x2",
			"m.h.0.q.weight 4x3", "loads" },
		{ LORA "}", "m.h.0.q.lora_A.own.weight 2x3 m.h.0.q.lora_B.own.weight 4x2",
			NULL, "differs other-names" },
		{ LORA ", \"use_dora\": true}",
			"m.h.0.q.lora_a.weight 2x3 m.h.0.q.lora_magnitude_vector 4", NULL,
			"differs missing-tensor" },
		{ LORA "}",
			"m.h.0.q.lora_A.default.weight 2x3 m.h.0.q.lora_B.default.weight 4x2",
			"m.h.0.q.weight 5x3", "refuses base-model" },
		{ LORA ", \"use_bdlora\": {\"a\": 1}}", Q, NULL,
			"not_judged adapter-type" },
		{ LORA ", \"exclude_modules\": [\"q\"]}", Q, NULL,
			"refuses adapter-targets" },
		{ LORA "}", PAIR("m.k", "2x3", "4x2"), NULL, "refuses adapter-targets" },
		{ LORA ", \"trainable_token_indices\": [1, 2]}", Q, NULL,
			"refuses missing-tensor" },
		{ LORA ", \"trainable_token_indices\": [1, 2]}",
			Q "e.token_adapter.trainable_tokens_delta 2x3", NULL, "loads" },
		{ LORA ", \"trainable_token_indices\": [1, 2]}",
			Q "e.token_adapter.trainable_tokens_delta 3x3", NULL,
			"refuses shape" },
	};

	(void)state;
	JUDGE(adapters);
}

#define WHOLE LORA ", \"modules_to_save\": [\"head\"]}"

static void whole_modules_are_asked_for_by_name(void **state)
{
	static const struct adapter adapters[] = {
		{ WHOLE, Q "m.head.weight 9x3", NULL, "loads" },
		{ WHOLE, Q, NULL, "not_judged adapter-modules" },
		{ WHOLE, Q, "m.h.0.q.weight 4x3 m.head.weight 9x3",
			"refuses adapter-modules" },
		{ WHOLE, Q "m.head.weight 9x3", "m.h.0.q.weight 4x3 m.head.weight 8x3",
			"refuses base-model" },
		/* A base that ties its head does not store it; that of GPT-NeoX has
		 * another name in memory. */
		{ LORA ", \"modules_to_save\": [\"lm_head\"]}", Q, "m.h.0.q.weight 4x3",
			"not_judged adapter-modules" },
		{ LORA ", \"modules_to_save\": [\"embed_out\"]}", Q,
			"m.h.0.q.weight 4x3 embed_out.weight 9x3",
			"not_judged adapter-modules" },
		/* The library looks at the ends of names, not of their segments. */
		{ WHOLE, Q "m.head.weight 9x3",
			"m.h.0.q.weight 4x3 m.head.weight 9x3 m.ahead.weight 1",
			"refuses adapter-modules" },
		{ LORA ", \"modules_to_save\": [\"classifier\", \"score\"]}",
			Q "score.weight 9x3", NULL, "loads" },
	};

	(void)state;
	JUDGE(adapters);
	put_tensors("_orig_mod.base_model.model.", Q "m.head.weight 9x3");
	folder_write("adapter_config.json", WHOLE, strlen(WHOLE));
	expect(NULL, "refuses adapter-modules");
	folder_write("adapter_config.json", LORA "}", strlen(LORA "}"));
	expect(NULL, "differs other-names");
	put_tensors("", Q);
	expect("m.h.0.q.weight 4x3", "differs other-names base-model");
}

#define OF(type, more) \
	"{\"peft_type\": \"" type "\", \"target_modules\": [\"q\"]" more "}"
static void each_type_has_names_of_its_own(void **state)
{
	static const struct adapter adapters[] = {
		{ OF("IA3", ""), "q.ia3_l 4x1", "q.weight 4x3", "loads" },
		{ OF("IA3", ", \"feedforward_modules\": [\"q\"]"), "q.ia3_l 1x3",
			"q.weight 4x3", "loads" },
		{ OF("IA3", ""), "q.ia3_l 1x3", "q.weight 4x3", "refuses shape" },
		{ OF("IA3", ", \"feedforward_modules\": [\"k\"]"), "q.ia3_l 1x3", NULL,
			"refuses config" },
		{ OF("OFT", ", \"r\": 0, \"oft_block_size\": 2"), "q.oft_R.weight 2x1",
			"q.weight 3x4", "loads" },
		{ OF("OFT", ", \"r\": 0, \"oft_block_size\": 2"), "q.oft_R.weight 3x1",
			"q.weight 3x4", "refuses base-model" },
		{ OF("OFT", ", \"r\": 0"), "q.oft_R.weight 4x1", "q.weight 3x4",
			"refuses base-model" },
		{ OF("OFT", ", \"r\": 1, \"oft_block_size\": 2"), "q.oft_R.weight 2x1",
			NULL, "refuses config" },
		{ OF("BOFT", ""), "q.boft_R 1x2x2x2 q.boft_s 3x1", "q.weight 3x4",
			"loads" },
		{ OF("BOFT", ""), "q.boft_R 1x2x2x2", NULL, "differs missing-tensor" },
	};

	(void)state;
	JUDGE(adapters);
}

/* The same configuration with each word in one place, "%s". */
static void judge_each(const char *config, const char *const *words, size_t count,
	const char *tensors, const char *expected)
{
	for (size_t i = 0; i < count; i++) {
		char text[256];
		const char *place = strstr(config, "%s");
		size_t size = (size_t)snprintf(text, sizeof text, "%.*s%s%s",
			(int)(place - config), config, words[i], place + 2);

		folder_write("adapter_config.json", text, size);
		put_tensors("base_model.model.", tensors);
		expect(NULL, expected);
	}
}

#define JUDGE_EACH(config, words, tensors, expected) \
	judge_each(config, words, sizeof words / sizeof *words, tensors, expected)

/* The type is named: that of these rules, of later releases, of anything. */
static void other_types_are_named(void **state)
{
	static const char *const types[] = { "ADALORA", "ADAPTION_PROMPT", "FOURIERFT",
		"HRA", "LN_TUNING", "LOHA", "LOKR", "MISS", "P_TUNING", "RANDLORA",
		"TRAINABLE_TOKENS", "VBLORA", "VERA", "XLORA", "NEW", "lora" };
	const char *loader = "peft";
	struct fsdp_load_check_options options = {
		.size = sizeof options, .loaders = &loader, .loader_count = 1
	};
	char config[128], message[128];

	(void)state;
	put_tensors("base_model.model.", Q);
	for (size_t i = 0; i < FSDP_COUNT(types); i++) {
		struct fsdp_scan *survey = NULL;
		struct fsdp_load_check *loads = NULL;
		size_t size = (size_t)snprintf(
			config, sizeof config, OF("%s", ", \"r\": 7"), types[i]);

		folder_write("adapter_config.json", config, size);
		/* PEFT has no such types as the last two. */
		bool is_known = i + 2 < FSDP_COUNT(types);
		expect(NULL,
			is_known ? "not_judged adapter-type" : "refuses adapter-type");
		expect("m.h.0.q.weight 9x9",
			is_known ? "not_judged adapter-type" : "refuses adapter-type");
		assert_true(fsdp_scan_new(folder, NULL, 0, NULL, &survey, NULL));
		assert_true(fsdp_load_check_new(survey, &options, &loads, NULL));
		fsdp_scan_free(survey);
		snprintf(message, sizeof message,
			is_known ? "adapters of type %s are not supported"
				 : "%s is not a type of adapter that PEFT has",
			types[i]);
		assert_string_equal(
			fsdp_load_check_result(loads, 0)->reasons[0].message, message);
		fsdp_load_check_free(loads);
	}
}

static void variants_of_which_too_little_is_known(void **state)
{
	static const char *const variants[] = { "use_bdlora", "use_qalora", "kasa_config",
		"monteclora_config", "arrow_config", "velora_config" };

	(void)state;
	JUDGE_EACH(
		"{\"peft_type\": \"LORA\", \"target_modules\": \".*\", \"r\": 2, \"%s\": {\"a\": 1}}",
		variants, Q, "not_judged adapter-type");
}

/* A module that is wrapped has another name than that of the live model. */
static void each_wrapper_hides_a_module(void **state)
{
	static const char *const wrappers[] = { "_orig_mod", "module",
		"_fsdp_wrapped_module", "_checkpoint_wrapped_module" };
	char tensors[256];

	(void)state;
	folder_write("adapter_config.json", LORA "}", strlen(LORA "}"));
	for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++) {
		snprintf(tensors, sizeof tensors,
			"m.%s.q.lora_A.weight 2x3 m.%s.q.lora_B.weight 4x2", wrappers[i],
			wrappers[i]);
		put_tensors("base_model.model.", tensors);
		expect(NULL, "differs other-names");
	}
}

static void prompts_are_one_tensor(void **state)
{
	static const char config[] =
		"{\"peft_type\": \"PROMPT_TUNING\", \"num_virtual_tokens\": 5, \"num_transformer_submodules\": 1}";
	static const char *const types[] = { "PROMPT_TUNING", "PREFIX_TUNING" };

	(void)state;
	JUDGE_EACH("{\"peft_type\": \"%s\", \"num_virtual_tokens\": 5}", types, Q,
		"refuses missing-tensor");
	folder_write("adapter_config.json", config, strlen(config));
	put_tensors("", "prompt_embeddings 5x3");
	expect("q.weight 4x3", "loads");
	put_tensors("", "prompt_embeddings 6x3");
	expect(NULL, "refuses shape");
	put_tensors("", "_orig_mod.prompt_embeddings 5x3");
	expect(NULL, "refuses missing-tensor");
	put_tensors("", "");
	expect(NULL, "refuses missing-tensor");
}

/* A configuration with a list of so many words. */
static void put_many(const char *key, size_t count)
{
	static char text[32768];
	size_t size = (size_t)snprintf(text, sizeof text,
		"{\"peft_type\": \"LORA\", \"r\": 2, \"%s\": [\"x\"", key);

	for (size_t i = 1; i < count; i++)
		size += (size_t)snprintf(text + size, sizeof text - size, ", \"x\"");
	size += (size_t)snprintf(text + size, sizeof text - size, "]}");
	assert_true(size < sizeof text);
	folder_write("adapter_config.json", text, size);
	put_tensors("base_model.model.", Q);
}

/* Words, shapes and ranks may be anything. */
static void configurations_are_claims(void **state)
{
	static const struct adapter adapters[] = {
		{ "{\"peft_type\": 3}", Q, NULL, "refuses config" },
		{ "{}", Q, NULL, "refuses config" },
		{ "[1]", Q, NULL, "refuses config" },
		{ "{\"peft_type\": \"LORA\", \"target_modules\": \".*\", \"r\": []}", Q,
			NULL, "refuses adapter-rank" },
		{ "{\"peft_type\": \"LORA\", \"target_modules\": \".*\", \"r\": -1}", Q,
			NULL, "refuses adapter-rank" },
		{ "{\"peft_type\": \"LORA\", \"target_modules\": \".*\", \"r\": 9223372036854775807, \"fan_in_fan_out\": true}",
			"q.lora_A.weight 1", "q.weight 1", "refuses adapter-rank" },
		{ "{\"peft_type\": \"LORA\", \"r\": 2, \"target_modules\": [\"\", \".\", 3, null, \"q\"], \"rank_pattern\": {\"\": 3, \"\\\\\": 1}}",
			Q, NULL, "not_judged adapter-rank" },
		{ "{\"peft_type\": \"LORA\", \"target_modules\": \".*\", \"r\": 2, \"modules_to_save\": [\"\"]}",
			Q, NULL, "not_judged adapter-modules" },
		{ "{\"peft_type\": \"OFT\", \"target_modules\": \".*\", \"oft_block_size\": 9223372036854775807}",
			"q.oft_R.weight 3x1", "q.weight 3x3", "refuses base-model" },
	};
	static const char *const lists[] = { "target_modules", "exclude_modules",
		"modules_to_save", "feedforward_modules", "target_parameters",
		"rank_pattern", "layers_to_transform" };

	(void)state;
	JUDGE(adapters);
	FOLDER_WRITE("adapter_config.json", "");
	expect(NULL, "refuses config");
	put_many("target_modules", 4096);
	expect(NULL, "refuses adapter-targets");
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
		put_many(lists[i], 4097);
		expect(NULL, "not_judged unsupported");
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_begin, folder_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(all_linear_modules_are_compared),
		TEST(modules_of_the_base_are_compared),
		TEST(ranks_are_of_modules),
		TEST(ranks_are_set_where_all_agree),
		TEST(parts_of_lora_come_together),
		TEST(whole_modules_are_asked_for_by_name),
		TEST(each_type_has_names_of_its_own),
		TEST(other_types_are_named),
		TEST(variants_of_which_too_little_is_known),
		TEST(each_wrapper_hides_a_module),
		TEST(prompts_are_one_tensor),
		TEST(configurations_are_claims),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
