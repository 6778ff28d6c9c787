/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the rules that do not apply to a checkpoint: zip rules to safetensors, plan rules without a plan.
 */
#include <string.h>

#include "analysis/applies.h"
#include "base/span.h"

/* Things that rules are about. */
enum rule_subject {
	DCP = 1 << 0,
	ZIP = 1 << 1,
	LEGACY = 1 << 2, /* torch.save before zip */
	TAR = 1 << 3,
	PICKLE = 1 << 4,
	SAFETENSORS = 1 << 5,
	INDEX = 1 << 6, /* of shards */
	RANKS = 1 << 7, /* files of several ranks */
	PLAN = 1 << 8,
	OPTIM = 1 << 9,
	DEEPSPEED = 1 << 10,
	MEGATRON = 1 << 11,
	TRAINER = 1 << 12, /* a step of Hugging Face's Trainer */
};

/* Families with rules that cannot apply. To any other family all rules may apply. */
static const struct {
	const char *family;
	unsigned subjects;
} families[] = {
	{ "dcp", DCP | ZIP | PICKLE | RANKS },
	{ "dcp-safetensors", SAFETENSORS | RANKS },
	{ "deepspeed-zero0", DEEPSPEED | ZIP | PICKLE | RANKS },
	{ "deepspeed-zero1", DEEPSPEED | ZIP | PICKLE | RANKS },
	{ "deepspeed-zero2", DEEPSPEED | ZIP | PICKLE | RANKS },
	{ "deepspeed-zero3", DEEPSPEED | ZIP | PICKLE | RANKS },
	{ "deepspeed-universal", DEEPSPEED | ZIP | PICKLE | RANKS },
	{ "fsdp-plan", PLAN },
	{ "hf-bin", ZIP | LEGACY | PICKLE },
	{ "hf-bin-sharded", ZIP | LEGACY | PICKLE | INDEX },
	{ "hf-safetensors", SAFETENSORS },
	{ "hf-safetensors-sharded", SAFETENSORS | INDEX },
	{ "lightning-ckpt", ZIP | PICKLE },
	{ "megatron-legacy", ZIP | LEGACY | PICKLE | RANKS | MEGATRON },
	{ "peft-adapter", SAFETENSORS },
	{ "pickle", PICKLE },
	{ "rank-set", ZIP | LEGACY | PICKLE | RANKS },
	{ "safetensors", SAFETENSORS },
	{ "torch-legacy", LEGACY | PICKLE },
	{ "torch-tar", TAR | PICKLE },
	{ "torch-zip", ZIP | PICKLE },
	{ "torchscript", ZIP | PICKLE },
};

/* Ranges of rules in the order of the table, both ends included. A rule in no row applies to every checkpoint. */
static const struct {
	const char *first, *last;
	unsigned subjects; /* of any of these */
} rows[] = {
	{ "FI1008", "FI1009", RANKS | DCP | DEEPSPEED | MEGATRON },
	{ "FI1020", "FI1029", DCP },
	{ "FI1031", "FI1033", RANKS },
	{ "FI1040", "FI1041", ZIP },
	{ "FI1042", "FI1045", PICKLE },
	{ "FI1047", "FI1047", LEGACY | TAR },
	{ "FI1050", "FI1052", SAFETENSORS },
	{ "FI1060", "FI1063", INDEX },
	{ "FI1070", "FI1071", DEEPSPEED },
	{ "FI1073", "FI1073", MEGATRON },
	{ "FI1080", "FI1082", PLAN },
	{ "FI2001", "FI2003", ZIP },
	{ "FI3001", "FI3019", PICKLE },
	{ "FI3040", "FI3042", ZIP },
	{ "FI3043", "FI3043", ZIP | TAR },
	{ "FI3044", "FI3054", ZIP },
	{ "FI3061", "FI3061", TAR },
	{ "FI3062", "FI3062", ZIP },
	{ "FI4009", "FI4009", ZIP },
	{ "FI4010", "FI4010", PICKLE | SAFETENSORS },
	{ "FI4012", "FI4012", SAFETENSORS },
	{ "FI5001", "FI5005", OPTIM },
	{ "FI5007", "FI5007", TRAINER },
	{ "FI5008", "FI5008", DEEPSPEED },
};

static bool has_optimizer(const struct fsdp_checkpoint *checkpoint)
{
	size_t count = fsdp_tensor_count(checkpoint);

	for (uint32_t i = 0; i < count; i++)
		if (fsdp_tensor(checkpoint, i).role == FSDP_ROLE_OPTIM)
			return true;
	return false;
}

static unsigned of_family(const char *family)
{
	for (size_t i = 0; family != NULL && i < sizeof families / sizeof *families; i++)
		if (strcmp(families[i].family, family) == 0)
			return families[i].subjects;
	return ~(unsigned)(PLAN | OPTIM);
}

/* Files of other kinds that were read. */
static unsigned of_files(const struct fsdp_checkpoint *checkpoint)
{
	static const char *const suffixes[] = { ".bin", ".ckpt", ".distcp", ".pkl", ".pt",
		".pth" };
	size_t count = fsdp_file_count(checkpoint);

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_span path = fsdp_file(checkpoint, i).path;

		for (size_t k = 0; k < sizeof suffixes / sizeof *suffixes; k++)
			if (fsdp_span_ends(path, fsdp_span_text(suffixes[k])))
				return ZIP | LEGACY | PICKLE;
	}
	return 0;
}

unsigned fsdp_subjects_of(const struct fsdp_checkpoint *checkpoint)
{
	unsigned subjects = of_family(fsdp_checkpoint_format(checkpoint).family);
	struct fsdp_plan_facts plan;

	if ((subjects & PICKLE) == 0)
		subjects |= of_files(checkpoint);
	if (fsdp_checkpoint_plan(checkpoint, &plan))
		subjects |= PLAN;
	if (has_optimizer(checkpoint))
		subjects |= OPTIM;
	return subjects;
}

bool fsdp_rule_applies(const struct fsdp_rule *rule, unsigned subjects)
{
	if (strcmp(rule->category, "recording") == 0)
		return false;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (strcmp(rows[i].first, rule->id) <= 0 &&
			strcmp(rule->id, rows[i].last) <= 0)
			return (rows[i].subjects & subjects) != 0;
	return true;
}
