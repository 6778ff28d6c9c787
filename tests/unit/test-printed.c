/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "syntax/model-repr.h"

/* What became of a log: the full names with their classes, or the kind of the error. */
struct answer {
	char text[4096];
	uint32_t rank;
	uint64_t line;
	size_t count;
	bool is_cut;
};

static void write_names(
	const struct fsdp_printed_model *model, uint32_t index, struct answer *answer)
{
	const struct fsdp_printed_module *module = fsdp_vec_at(&model->modules, index);
	size_t used = strlen(answer->text);
	snprintf(answer->text + used, sizeof answer->text - used, "%s%u/%.*s:%.*s",
		index != 0 ? " " : "", module->parent == FSDP_NONE ? 0 : module->parent,
		FSDP_TEXT(module->name), FSDP_TEXT(module->class_name));
}

static struct answer read_with(const char *log, uint64_t ceiling)
{
	struct answer answer = { .text = "" };
	struct fsdp_budget budget = { .ceiling = ceiling };
	struct fsdp_error *error = NULL;
	struct fsdp_printed_model model;
	struct fsdp_arena arena;
	struct fsdp_printed *printed = fsdp_printed_new(&budget);
	char *copy = strdup(log);
	fsdp_arena_init_lean(&arena, &budget);
	for (char *line = copy, *end; *line != '\0'; line = end + (*end != '\0')) {
		end = line + strcspn(line, "\n");
		fsdp_printed_take(printed, (unsigned char *)line, (size_t)(end - line));
	}
	if (fsdp_printed_end(printed, &arena, &model, &error)) {
		answer.rank = model.rank;
		answer.line = model.line;
		answer.is_cut = model.is_cut;
		answer.count = model.modules.count;
		for (uint32_t i = 0; i < model.modules.count && i < 40; i++)
			write_names(&model, i, &answer);
	} else {
		const char *kind = fsdp_error_kind(error);
		const char *limit = fsdp_error_limit(error);
		snprintf(answer.text, sizeof answer.text, "%s",
			kind != NULL    ? kind
			: limit != NULL ? limit
					: "?");
	}
	fsdp_error_free(error);
	fsdp_printed_free(printed);
	fsdp_arena_done(&arena);
	free(copy);
	assert_int_equal(budget.used, 0);
	return answer;
}

static struct answer read_log(const char *log)
{
	return read_with(log, UINT64_C(1) << 30);
}

#define BLOCK(name, blanks)                      \
	blanks "(" name "): FSDPBlock(\n" blanks \
	       "  (norm): LayerNorm((8,), eps=1e-05)\n" blanks ")\n"
#define NET "FSDPNet(\n" BLOCK("a", "  ") BLOCK("b", "  ") ")\n"
#define NET_NAMES \
	"0/:FSDPNet 0/a:FSDPBlock 1/norm:LayerNorm 0/b:FSDPBlock 3/norm:LayerNorm"

static void expect(const char *log, const char *text)
{
	assert_string_equal(read_log(log).text, text);
}

static void test_plain(void **state)
{
	(void)state;
	struct answer answer = read_log("step 0\n" NET "step 1\n");
	assert_string_equal(answer.text, NET_NAMES);
	assert_int_equal(answer.line, 2);
	assert_int_equal(answer.rank, FSDP_NONE);
	assert_false(answer.is_cut);
	expect("", "no_model");
	expect("nothing\nat all(\n", "no_model");
	/* Without FSDP it is a model of something else. */
	expect("Net(\n  (a): Linear(1, 2)\n)\n", "no_model");
	expect("Net(\n  (a): FSDPLinear(1, 2)\n)\n", "0/:Net 0/a:FSDPLinear");
}

static void test_runs(void **state)
{
	(void)state;
	expect("FSDPNet(\n  (0-2): 3 x Block()\n)\n",
		"0/:FSDPNet 0/0:Block 0/1:Block 0/2:Block");
	expect("FSDPNet(\n  (0-1): 2 x Block(\n    (8-9): 2 x Linear(1)\n  )\n  (2): Last()\n)\n",
		"0/:FSDPNet 0/0:Block 1/8:Linear 1/9:Linear 0/1:Block 4/8:Linear 4/9:Linear 0/2:Last");
	/* What is not a run has the name that is printed. */
	expect("FSDPNet(\n  (2-1): 2 x Block()\n  (x-y): 2 x Block()\n)\n",
		"0/:FSDPNet 0/2-1:Block 0/x-y:Block");
}

static void test_names(void **state)
{
	(void)state;
	expect("FSDPNet(\n  (a): b): Linear(1)\n  (c (d): Linear(2)\n)\n",
		"0/:FSDPNet 0/a): b:Linear 0/c (d:Linear");
	/* PyTorch takes neither. */
	expect("FSDPNet(\n  (): Linear(1)\n  (a.b): Linear(2)\n  (c): Linear(3)\n)\n",
		"0/:FSDPNet 0/c:Linear");
}

static void test_margins(void **state)
{
	(void)state;
	expect("        FSDPNet(\n          (a): Linear()\n        )\n",
		"0/:FSDPNet 0/a:Linear");
	expect("11:04:24 | Model: FSDPNet(\n  (a): Linear()\n)\n",
		"0/:FSDPNet 0/a:Linear");
	expect("[1] pid 7 FSDPNet(\n[22] pid 7   (a): Linear()\n[333] pid 7 )\n",
		"0/:FSDPNet 0/a:Linear");
	/* Of another process. */
	expect("pid x FSDPNet(\npid y   (a): Linear()\npid x   (b): Linear()\npid x )\n",
		"0/:FSDPNet 0/b:Linear");
	expect("\033[1mFSDPNet(\033[0m\r\n\033[1m  (a): Linear()\033[0m\n)\r\n",
		"0/:FSDPNet 0/a:Linear");
}

static void test_ranks(void **state)
{
	(void)state;
	struct answer answer = read_log(
		"[rank1]: FSDPNet(\n[rank0]: FSDPNet(\n[rank1]:   (b): Linear()\n"
		"[rank0]:   (a): Linear()\n[rank1]: )\n[rank0]: )\n");
	assert_string_equal(answer.text, "0/:FSDPNet 0/a:Linear");
	assert_int_equal(answer.rank, 0);
	/* A complete one of a higher rank is more than a part of a lower. */
	answer = read_log(
		"[0]:FSDPNet(\n[0]:  (a): Linear()\n[3]:FSDPNet(\n[3]:  (b): Linear()\n[3]:)\n");
	assert_string_equal(answer.text, "0/:FSDPNet 0/b:Linear");
	assert_int_equal(answer.rank, 3);
}

static void test_noise(void **state)
{
	(void)state;
	expect("FSDPNet(\nwarning: x\n  warnings.warn(\n  (a): Linear()\n100%|###| 2/2\n"
	       "  (extra): repr\n  (b): FSDPBlock(\n    size=(1, 2)\n    more\n  )\n)\n",
		"0/:FSDPNet 0/a:Linear 0/b:FSDPBlock");
	/* A call that is quoted before the model is no head. */
	expect("model = compile(\nFSDPNet(\n  (a): Linear()\n)\n",
		"0/:FSDPNet 0/a:Linear");
}

static void test_last(void **state)
{
	(void)state;
	struct answer answer = read_log("FSDPNet(\n  (a): Linear()\n)\n" NET);
	assert_string_equal(answer.text, NET_NAMES);
	assert_int_equal(answer.line, 4);
	/* A whole one is more than a later part. */
	answer = read_log(NET "FSDPNet(\n  (a): Linear()\n");
	assert_string_equal(answer.text, NET_NAMES);
	assert_false(answer.is_cut);
}

static void test_cut(void **state)
{
	(void)state;
	struct answer answer = read_log(
		"FSDPNet(\n  (0-1): 2 x FSDPBlock(\n    (norm): LayerNorm((8,), ep");
	assert_string_equal(answer.text,
		"0/:FSDPNet 0/0:FSDPBlock 1/norm:LayerNorm 0/1:FSDPBlock 3/norm:LayerNorm");
	assert_true(answer.is_cut);
	/* The job was started again, and printed it again. */
	answer =
		read_log("FSDPNet(\n" BLOCK("a", "  ") "  (b): FSDPBlock(\nkilled\n" NET);
	assert_string_equal(answer.text, NET_NAMES);
	assert_false(answer.is_cut);
}

static void test_mixed(void **state)
{
	(void)state;
	/* Line by line. */
	expect("FSDPNet(\nFSDPNet(\n  (a): FSDPBlock(\n  (a): FSDPBlock(\n"
	       "    (n): Linear()\n    (n): Linear()\n  )\n  )\n)\n)\n",
		"interleaved");
	/* One in the middle of the other. */
	expect("FSDPNet(\n" BLOCK("a", "  ") NET BLOCK("b", "  ") ")\n", "interleaved");
	/* One name twice. */
	expect("FSDPNet(\n  (a): Linear()\n  (a): Linear()\n)\n", "interleaved");
	expect("FSDPNet(\n  (0-3): 4 x Linear()\n  (2): Linear()\n)\n", "interleaved");
	/* A later one that stands alone can be read. */
	expect("FSDPNet(\nFSDPNet(\n  (a): FSDPBlock(\n  (a): FSDPBlock(\n" NET,
		NET_NAMES);
}

static void test_bomb(void **state)
{
	(void)state;
	static const char log[] =
		"FSDPNet(\n  (0-999): 1000 x A(\n    (0-999): 1000 x B(\n"
		"      (0-999): 1000 x C(\n      )\n    )\n  )\n)\n";
	assert_string_equal(read_with(log, 16 << 20).text, "memory");
	assert_string_equal(
		read_with("FSDPNet(\n  (0-99999999999999999): 9 x A()\n)\n", 16 << 20)
			.text,
		"memory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_margins),
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_noise),
		cmocka_unit_test(test_last),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_mixed),
		cmocka_unit_test(test_bomb),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
