/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dist_checkpointing.load of Megatron-core, into the names that were saved.
 *
 * Origin: megatron/core/dist_checkpointing/{serialization,validation}.py, strategies/
 * {base,torch}.py (0.16, 0.19).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loaders/loading.h"
#include "base/num.h"

#define TRACKER "latest_checkpointed_iteration.txt"
#define STRICT "strict"
#define ALLOW "allow_shape_mismatch"
#define BACKEND FSDP_LOAD_WORDS

enum { FOLDER_BYTES = 64 };

/* Of the directory, and of the call. */
enum {
	IS_LEGACY = 1 << 0,
	PARTS = 1 << 1, /* of what a save begins with */
	OTHER_BACKEND = 1 << 2,
	NO_BACKEND = 1 << 3,
	WROTE_COMMON = 1 << 4, /* the writer wrote common.pt */
	IS_UNREAD = 1 << 5,
	/* Keys are looked for before they are asked for; those that are not stored are
	 * then removed from the request, or it is refused. */
	LOOKS_FIRST = 1 << 6,
	RAISES = 1 << 7,
	RAISES_ALL = 1 << 8,
	ALLOWS = 1 << 9,
	COMMON_INSIDE = 1 << 10
};

static const struct fsdp_load_fact facts[] = {
	{ IS_LEGACY, "mp_rank_* */mp_rank_*" },
	{ PARTS, ".metadata common.pt *.distcp" },
	{ LOOKS_FIRST, .option = STRICT,
		.values =
			"log_unexpected log_all raise_unexpected raise_all return_unexpected return_all ignore_all" },
	{ RAISES, .option = STRICT, .values = "raise_all raise_unexpected" },
	{ RAISES_ALL, .option = STRICT, .values = "raise_all" },
	{ ALLOWS, .option = ALLOW, .values = "true" },
	{ 0 },
};

/* The loader's own: the step directory that the root of a run names, for example
 * "iter_0000010"; else "". Kept word 5: the backend. */
static void begin(struct fsdp_loading *loading)
{
	struct fsdp_span tracker = fsdp_scan_text(loading->survey, TRACKER), backend;
	const struct fsdp_checkpoint *checkpoint = fsdp_load_opened(loading);
	char *below = loading->own = fsdp_arena_take(loading->arena, FOLDER_BYTES, 1);
	char number[20] = "", name[FOLDER_BYTES + 16]; /* nothing ends the text */

	if (fsdp_span_is(tracker, "release")) {
		snprintf(below, FOLDER_BYTES, "release");
	} else if (tracker.size != 0 && tracker.size < sizeof number) {
		memcpy(number, tracker.data, tracker.size);
		snprintf(below, FOLDER_BYTES, "iter_%07lld", atoll(number));
	}
	/* As given: the directory itself, or the one of a step. */
	snprintf(
		name, sizeof name, "%s%smetadata.json", below, *below != '\0' ? "/" : "");
	backend = fsdp_load_text(loading, name, "sharded_backend");
	fsdp_load_set_word(loading, BACKEND, backend);
	if (backend.data == NULL)
		loading->is |= NO_BACKEND;
	else if (!fsdp_span_is(backend, "torch_dist"))
		loading->is |= OTHER_BACKEND;
	if (fsdp_load_text(loading, name, "common_backend").data != NULL)
		loading->is |= WROTE_COMMON;
	/* The common state is stored in DCP: as the object of that name, or after reading
	 * it, as values that are not shards. */
	for (uint32_t i = 0; checkpoint != NULL && i < fsdp_value_count(checkpoint);
		i++) {
		struct fsdp_value value = fsdp_value(checkpoint, i);
		struct fsdp_span text =
			fsdp_load_copy_name(loading, checkpoint, value.raw_name);
		if (value.file != FSDP_NONE &&
			(!fsdp_span_has_any(text, "/shard_") ||
				fsdp_span_is(text, "common_state/shard_0_1")) &&
			fsdp_span_ends(fsdp_file(checkpoint, value.file).path,
				FSDP_SPAN(".distcp")))
			loading->is |= COMMON_INSIDE;
	}
	if (checkpoint == NULL || fsdp_checkpoint_error_count(checkpoint) > 0)
		loading->is |= IS_UNREAD;
	loading->takes_values = true;
}

static bool lacks(struct fsdp_loading *loading)
{
	const char *below = loading->own;
	return fsdp_load_lacks(
		loading, "%s%s%s", below, *below != '\0' ? "/" : "", loading->rule->text);
}

/* The list of a model whose names are not those that Megatron stores. */
static bool is_other_form(struct fsdp_loading *loading)
{
	return fsdp_load_compare(loading) && loading->missing == loading->model.count;
}

/* Keys that are stored and not asked for. */
static bool leaves_keys(struct fsdp_loading *loading)
{
	for (size_t i = 0; fsdp_load_compare(loading) && i < loading->stored.count; i++) {
		const struct fsdp_load_tensor *item = &loading->stored.items[i];
		if (item->match == NULL && !item->is_value)
			fsdp_load_name(loading, item->name);
	}
	return loading->all_names > 0;
}

#define NO_COMMON "common.pt is missing, and its values are not in the files of DCP"
#define COPY_COMMON "copy common.pt from where the checkpoint was written"

static const struct fsdp_load_rule rules[] = {
	FSDP_NOT_JUDGED(FORMAT, .when = IS_LEGACY, .ends = true,
		.message =
			"mp_rank_... files of the older format are loaded by Megatron-LM itself, not by dist_checkpointing"),
	FSDP_REFUSES(MISSING_FILE, lacks, NULL, FSDP_NO_FIX, .text = "metadata.json",
		.unless = PARTS),
	FSDP_REFUSES(MISSING_FILE, lacks, NULL,
		"copy metadata.json from where the checkpoint was written; if it is missing there, the save did not finish",
		.text = "metadata.json"),
	FSDP_NOT_JUDGED(
		FORMAT, .when = NO_BACKEND, .message = "metadata.json names no backend"),
	FSDP_REFUSES(FORMAT, .when = OTHER_BACKEND, .until = "0.19",
		.message =
			"metadata.json names the backend {5}, which this release does not have",
		.fix = "convert it with the release that wrote it"),
	FSDP_REFUSES(RELEASE, lacks,
		"the values that all ranks share are in the files of DCP; releases before 0.19 read common.pt",
		"load it with megatron-core 0.19 or later", .text = "common.pt",
		.when = COMMON_INSIDE, .until = "0.19"),
	FSDP_REFUSES(MISSING_FILE, lacks, .text = "common.pt", .until = "0.19"),
	FSDP_REFUSES(MISSING_FILE, lacks, .text = ".metadata"),
	FSDP_REFUSES(MISSING_FILE, fsdp_load_lacks_data),
	FSDP_REFUSES(MISSING_FILE, lacks, NO_COMMON, COPY_COMMON, .text = "common.pt",
		.when = WROTE_COMMON, .unless = COMMON_INSIDE, .since = "0.19"),
	FSDP_REFUSES(MISSING_FILE, lacks, NO_COMMON, FSDP_NO_FIX, .text = "common.pt",
		.unless = COMMON_INSIDE, .since = "0.19"),
	FSDP_REFUSES(PIECES, .finding = "FI1073",
		.message = "a part of an object is not stored", .fix = FSDP_NO_FIX),
	FSDP_NOT_JUDGED(UNREAD, .when = IS_UNREAD,
		.message = "the directory cannot be read completely"),
	FSDP_NOT_JUDGED(UNKNOWN_MODEL, is_other_form,
		"no name of --expect is a name that Megatron stores",
		.when = FSDP_LOAD_EXPECTS, .ends = true),
	FSDP_REFUSES(OTHER_NAMES, leaves_keys, "{0} is stored and not asked for",
		"request all stored keys, or omit strict",
		.when = FSDP_LOAD_EXPECTS | RAISES_ALL),
	FSDP_REFUSES(MISSING_TENSOR, fsdp_load_misses, "{0} is not stored",
		"build the model that was saved", .when = FSDP_LOAD_EXPECTS | RAISES),
	FSDP_REFUSES(MISSING_TENSOR, fsdp_load_misses, "{0} is not stored",
		"build the model that was saved, or pass strict=\"return_all\"",
		.when = FSDP_LOAD_EXPECTS, .unless = LOOKS_FIRST),
	FSDP_REFUSES(SHAPE, fsdp_load_is_misshaped, NULL,
		"build the model with the sizes that are stored",
		.when = FSDP_LOAD_EXPECTS, .unless = ALLOWS),
	FSDP_DIFFERS(SHAPE, fsdp_load_is_misshaped,
		"{0} has shape [{1}], the model expects [{2}]: the common part is loaded, the rest keeps its value",
		FSDP_NO_FIX, .when = FSDP_LOAD_EXPECTS | ALLOWS),
	/* Torch reads what is stored and does not compare it with what is asked for. */
	FSDP_DIFFERS(PIECES, .finding = "FI1021",
		.message = "pieces of {0} do not cover it: the rest keeps its value",
		.fix = "save again, or use an earlier checkpoint"),
	FSDP_IGNORES(MISSING_TENSOR, fsdp_load_misses,
		"{0} is not stored: the result is without it, and the model keeps its value",
		FSDP_NO_FIX, .when = FSDP_LOAD_EXPECTS | LOOKS_FIRST, .unless = RAISES),
	{ 0 },
};

static const char *const strict_words[] = { "assume_ok_unexpected", "log_unexpected",
	"log_all", "raise_unexpected", "raise_all", "return_unexpected", "return_all",
	"ignore_all", NULL };

static const struct fsdp_loader_option options[] = {
	{ STRICT, strict_words, false, "of load: how names that differ are handled" },
	{ ALLOW, fsdp_load_flags, false,
		"of ShardedTensor: whether other shapes load the common part" },
	{ NULL },
};

FSDP_LOADER(megatron, "Megatron", "megatron-core", ("0.19.2", "0.19.0", "0.16.1"),
	.options = options);
