/* SPDX-License-Identifier: Apache-2.0 */
/* Names that are not stored, and what they stand for. */
#include <fsdp/analysis.h>

#include "audit-by-hand.h"
#include "open-bytes.h"

static struct fsdp_tied_weights look(
	const struct fsdp_checkpoint *checkpoint, const char *name)
{
	const struct fsdp_span span = { (const unsigned char *)name, strlen(name) };
	struct fsdp_tied_weights tie;

	assert_true(fsdp_tied_weights_find(checkpoint, span, &tie, NULL));
	return tie;
}

static void assert_is(
	const struct fsdp_checkpoint *checkpoint, uint32_t tensor, const char *name)
{
	char text[128];
	size_t size = fsdp_name_write(
		checkpoint, fsdp_tensor(checkpoint, tensor).name, text, sizeof text - 1);

	text[size] = '\0';
	assert_string_equal(text, name);
}

static void a_file_declares_names(void **unused)
{
	struct fsdp_checkpoint *checkpoint =
		open_sample("safetensors/aliases/model.safetensors");
	struct fsdp_tied_weights tie = look(checkpoint, "head.weight");

	(void)unused;
	assert_true(tie.declared);
	assert_is(checkpoint, tie.tensor, "embed.weight");
	assert_int_equal(look(checkpoint, "head").tensor, FSDP_NONE);
	assert_int_equal(look(checkpoint, "").tensor, FSDP_NONE);
	/* A value that is not a name of a tensor ties nothing. */
	assert_int_equal(look(checkpoint, "format").tensor, FSDP_NONE);
	fsdp_checkpoint_free(checkpoint);
}

/* Its configuration ties nothing. */
static void a_head_is_no_embedding_by_itself(void **unused)
{
	struct fsdp_checkpoint *checkpoint = open_sample("hf/llama-sharded");

	(void)unused;
	assert_int_equal(look(checkpoint, "lm_head.weight").tensor, FSDP_NONE);
	fsdp_checkpoint_free(checkpoint);
	checkpoint = open_sample("complete/llama-tied/checkpoint");
	assert_false(look(checkpoint, "lm_head.weight").declared);
	assert_is(checkpoint, look(checkpoint, "lm_head.weight").tensor,
		"model.embed_tokens.weight");
	assert_int_equal(look(checkpoint, "lm_head.bias").tensor, FSDP_NONE);
	fsdp_checkpoint_free(checkpoint);
}

/* Whatever a program calls the head and the embedding. */
static void each_head_is_tied_to_each_embedding(void **unused)
{
	static const char *const HEADS[] = { "lm_head.weight", "embed_out.weight",
		"output_layer.weight", "output.weight" };
	static const char *const EMBEDDINGS[] = { "model.embed_tokens.weight",
		"transformer.wte.weight", "embedding.word_embeddings.weight",
		"tok_embeddings.weight", "shared.weight", "gpt_neox.embed_in.weight" };

	(void)unused;
	for (size_t i = 0; i < sizeof HEADS / sizeof *HEADS; i++)
		for (size_t k = 0; k < sizeof EMBEDDINGS / sizeof *EMBEDDINGS; k++) {
			struct fsdp_checkpoint *checkpoint;

			begin_by_hand((void **)&checkpoint);
			put(checkpoint, EMBEDDINGS[k], "float32", "48x16");
			put(checkpoint, "model.norm.weight", "float32", "16");
			configure(checkpoint, "config.json",
				"{\"tie_word_embeddings\": true}");
			freeze_by_hand(checkpoint);
			assert_is(checkpoint, look(checkpoint, HEADS[i]).tensor,
				EMBEDDINGS[k]);
			end_by_hand((void **)&checkpoint);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_declares_names),
		cmocka_unit_test(a_head_is_no_embedding_by_itself),
		cmocka_unit_test(each_head_is_tied_to_each_embedding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
