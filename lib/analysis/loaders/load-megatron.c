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

#include "analysis/loaders/loading.h"
#include "base/num.h"

#define TRACKER "latest_checkpointed_iteration.txt"

enum { FOLDER_BYTES = 64 };

/* The step directory that the root of a run names, for example "iter_0000010/"; else "". */
static const char *below(struct fsdp_loading *loading, char *folder)
{
	struct fsdp_span text = fsdp_survey_text(loading->survey, TRACKER);
	char number[20] = ""; /* nothing ends the text */

	*folder = '\0';
	if (fsdp_span_is(text, "release")) {
		snprintf(folder, FOLDER_BYTES, "release/");
	} else if (text.size != 0 && text.size < sizeof number) {
		memcpy(number, text.data, text.size);
		snprintf(folder, FOLDER_BYTES, "iter_%07lld/", atoll(number));
	}
	return folder;
}

static bool lacks(struct fsdp_loading *loading, const char *name)
{
	char folder[FOLDER_BYTES];

	return fsdp_load_lacks(loading, "%s%s", below(loading, folder), name);
}

/* As given: the directory itself, or the one of a step. */
static struct fsdp_setting backend_of(struct fsdp_loading *loading, const char *key)
{
	char name[FOLDER_BYTES + 16], folder[FOLDER_BYTES];

	snprintf(name, sizeof name, "%smetadata.json", below(loading, folder));
	return fsdp_load_setting(loading, name, key);
}

static bool is_legacy(struct fsdp_loading *loading)
{
	for (size_t i = 0; i < fsdp_survey_entry_count(loading->survey); i++) {
		struct fsdp_span name = fsdp_survey_entry(loading->survey, i)->name;
		if (fsdp_span_begins(fsdp_span_last(name, '/'), FSDP_SPAN("mp_rank_")))
			return true;
	}
	return false;
}

static bool lacks_index(struct fsdp_loading *loading)
{
	return lacks(loading, "metadata.json");
}

/* Nor anything that a save of it begins with. */
static bool is_of_other_program(struct fsdp_loading *loading)
{
	return lacks_index(loading) && !fsdp_load_has_file(loading, ".metadata") &&
	       !fsdp_load_has_file(loading, "common.pt") &&
	       !fsdp_load_has(loading, "*.distcp");
}

static bool has_other_backend(struct fsdp_loading *loading)
{
	struct fsdp_token backend = backend_of(loading, "sharded_backend").value;

	if (backend.kind != FSDP_TOKEN_TEXT || fsdp_span_is(backend.text, "torch_dist"))
		return false;
	fsdp_load_say(loading, 0, "%.*s", FSDP_TEXT_MOST(backend.text, 64));
	return true;
}

static bool has_no_backend(struct fsdp_loading *loading)
{
	return backend_of(loading, "sharded_backend").value.kind != FSDP_TOKEN_TEXT;
}

static bool lacks_common(struct fsdp_loading *loading)
{
	return lacks(loading, "common.pt");
}

/* The common state is stored in DCP: as the object of that name, or after reading it, as values that are not shards. */
static bool has_common_inside(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = fsdp_load_open(loading, "");
	char name[256];

	if (!lacks_common(loading) || checkpoint == NULL)
		return false;
	for (uint32_t i = 0; i < fsdp_value_count(checkpoint); i++) {
		struct fsdp_value value = fsdp_value(checkpoint, i);
		size_t size =
			fsdp_name_write(checkpoint, value.raw_name, name, sizeof name);
		if (value.file != FSDP_NONE && size <= sizeof name &&
			(memmem(name, size, "/shard_", 7) == NULL ||
				fsdp_span_is(fsdp_span(name, size),
					"common_state/shard_0_1")) &&
			fsdp_span_ends(fsdp_file(checkpoint, value.file).path,
				FSDP_SPAN(".distcp")))
			return true;
	}
	return false;
}

static bool lacks_both(struct fsdp_loading *loading)
{
	return lacks_common(loading) && !has_common_inside(loading);
}

/* Its writer wrote common.pt. */
static bool lost_common(struct fsdp_loading *loading)
{
	return lacks_both(loading) &&
	       backend_of(loading, "common_backend").value.kind == FSDP_TOKEN_TEXT;
}

static bool lacks_metadata(struct fsdp_loading *loading)
{
	return lacks(loading, ".metadata");
}

static bool lacks_file(struct fsdp_loading *loading)
{
	char folder[FOLDER_BYTES];

	return fsdp_load_lacks_distcp(loading, below(loading, folder));
}

static bool is_unread(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = fsdp_load_open(loading, "");

	return checkpoint == NULL || fsdp_checkpoint_error_count(checkpoint) > 0;
}

/* The list of a model whose names are not those that Megatron stores. */
static bool is_other_form(struct fsdp_loading *loading)
{
	const struct fsdp_loads_options *options = loading->options;
	const struct fsdp_checkpoint *checkpoint = fsdp_load_open(loading, "");

	if (options->expected == NULL || checkpoint == NULL)
		return false;
	for (size_t i = 0; i < options->expected_count; i++)
		if (fsdp_load_find_stored(
			    loading, checkpoint, options->expected[i].name) != NULL)
			return false;
	return true;
}

static const struct fsdp_checkpoint *opened(struct fsdp_loading *loading)
{
	return fsdp_load_open(loading, "");
}

#define STRICT "strict"
#define ALLOW "allow_shape_mismatch"

/* Whether keys are looked for before they are asked for; those that are not stored are
 * then removed from the request, or it is refused. */
static bool looks_first(struct fsdp_loading *loading)
{
	return fsdp_load_choice(loading, STRICT) != NULL &&
	       !fsdp_load_is_chosen(loading, STRICT, "assume_ok_unexpected");
}

static bool raises(struct fsdp_loading *loading)
{
	return fsdp_load_is_chosen(loading, STRICT, "raise_all") ||
	       fsdp_load_is_chosen(loading, STRICT, "raise_unexpected");
}

static bool misses_key(struct fsdp_loading *loading)
{
	struct fsdp_load_tensor wanted;
	const struct fsdp_load_tensor *stored;

	return !looks_first(loading) && fsdp_load_find_first(loading, opened(loading),
						FSDP_LOAD_MISSING | FSDP_LOAD_MISSHAPED,
						&wanted, &stored) == FSDP_LOAD_MISSING;
}

/* Keys that are stored and not asked for. */
static bool leaves_keys(struct fsdp_loading *loading)
{
	if (!fsdp_load_is_chosen(loading, STRICT, "raise_all") ||
		loading->options->expected == NULL || opened(loading) == NULL)
		return false;
	(void)fsdp_load_find_stored(loading, opened(loading), fsdp_span_text(""));
	for (size_t i = 0; i < loading->stored.count; i++)
		if (!fsdp_load_is_expected(loading, loading->stored.items[i].name))
			fsdp_load_name(loading, loading->stored.items[i].name);
	if (loading->all_names > 0)
		fsdp_load_say(loading, 0, "%.*s", FSDP_TEXT_MOST(loading->names[0], 512));
	return loading->all_names > 0;
}

static bool has_unexpected_key(struct fsdp_loading *loading)
{
	return raises(loading) &&
	       fsdp_load_find_all(loading, opened(loading), FSDP_LOAD_MISSING);
}

static bool removes_key(struct fsdp_loading *loading)
{
	return looks_first(loading) && !raises(loading) &&
	       fsdp_load_find_all(loading, opened(loading), FSDP_LOAD_MISSING);
}

static bool find_shape(struct fsdp_loading *loading)
{
	struct fsdp_load_tensor wanted;
	const struct fsdp_load_tensor *stored;
	unsigned among =
		FSDP_LOAD_MISSHAPED | (looks_first(loading) ? 0 : FSDP_LOAD_MISSING);

	if (fsdp_load_find_first(loading, opened(loading), among, &wanted, &stored) !=
		FSDP_LOAD_MISSHAPED)
		return false;
	fsdp_load_write_numbers(loading->words[1], sizeof loading->words[1], stored);
	fsdp_load_write_numbers(loading->words[2], sizeof loading->words[2], &wanted);
	return true;
}

static bool has_other_shape(struct fsdp_loading *loading)
{
	return !fsdp_load_flag(loading, ALLOW, false) && find_shape(loading);
}

static bool loads_common_part(struct fsdp_loading *loading)
{
	return fsdp_load_flag(loading, ALLOW, false) && find_shape(loading) &&
	       fsdp_load_find_all(loading, opened(loading), FSDP_LOAD_MISSHAPED);
}

#define NO_COMMON "common.pt is missing, and its values are not in the files of DCP"
#define COPY_COMMON "copy common.pt from where the checkpoint was written"

static const struct fsdp_load_rule rules[] = {
	FSDP_NOT_JUDGED(FORMAT, is_legacy,
		"mp_rank_... files of the older format are loaded by Megatron-LM itself, not by dist_checkpointing",
		.ends = true),
	FSDP_REFUSES(MISSING_FILE, is_of_other_program, NULL, FSDP_NO_FIX),
	FSDP_REFUSES(MISSING_FILE, lacks_index, NULL,
		"copy metadata.json from where the checkpoint was written; if it is missing there, the save did not finish"),
	FSDP_NOT_JUDGED(FORMAT, has_no_backend, "metadata.json names no backend"),
	FSDP_REFUSES(FORMAT, has_other_backend,
		"metadata.json names the backend {0}, which this release does not have",
		"convert it with the release that wrote it", .until = "0.19"),
	FSDP_REFUSES(RELEASE, has_common_inside,
		"the values that all ranks share are in the files of DCP; releases before 0.19 read common.pt",
		"load it with megatron-core 0.19 or later", .until = "0.19"),
	FSDP_REFUSES(MISSING_FILE, lacks_common, .until = "0.19"),
	FSDP_REFUSES(MISSING_FILE, lacks_metadata),
	FSDP_REFUSES(MISSING_FILE, lacks_file),
	FSDP_REFUSES(MISSING_FILE, lost_common, NO_COMMON, COPY_COMMON, .since = "0.19"),
	FSDP_REFUSES(MISSING_FILE, lacks_both, NO_COMMON, FSDP_NO_FIX, .since = "0.19"),
	FSDP_REFUSES(PIECES, .finding = "FI1073",
		.message = "a part of an object is not stored", .fix = FSDP_NO_FIX),
	FSDP_NOT_JUDGED(UNREAD, is_unread, "the directory cannot be read completely"),
	FSDP_NOT_JUDGED(UNKNOWN_MODEL, is_other_form,
		"none of the names of --expect is one that Megatron stores",
		.ends = true),
	FSDP_REFUSES(OTHER_NAMES, leaves_keys, "{0} is stored and not asked for",
		"request all stored keys, or omit strict"),
	FSDP_REFUSES(MISSING_TENSOR, has_unexpected_key, "{0} is not stored",
		"build the model that was saved"),
	FSDP_REFUSES(MISSING_TENSOR, misses_key, "{0} is not stored",
		"build the model that was saved, or pass strict=\"return_all\""),
	FSDP_REFUSES(SHAPE, has_other_shape, NULL,
		"build the model with the sizes that are stored"),
	FSDP_DIFFERS(SHAPE, loads_common_part,
		"{0} has shape [{1}], the model expects [{2}]: the common part is loaded, the rest keeps its value",
		FSDP_NO_FIX),
	/* Torch reads what is stored and does not compare it with what is asked for. */
	FSDP_DIFFERS(PIECES, .finding = "FI1021",
		.message = "pieces of {0} do not cover it: the rest keeps its value",
		.fix = "save again, or use an earlier checkpoint"),
	{ FSDP_LOADS, FSDP_LOAD_MISSING_TENSOR, removes_key,
		"{0} is not stored: the result is without it, and the model keeps its value",
		FSDP_NO_FIX },
	{ 0 },
};

static const char *const strict_words[] = { "assume_ok_unexpected", "log_unexpected",
	"log_all", "raise_unexpected", "raise_all", "return_unexpected", "return_all",
	"ignore_all", NULL };

static const struct fsdp_loader_option options[] = {
	{ STRICT, strict_words, false, "of load: what names that differ do" },
	{ ALLOW, fsdp_load_flags, false,
		"of ShardedTensor: whether other shapes load what both have" },
	{ NULL },
};

static const char *const versions[] = { "0.19.2", "0.19.0", "0.16.1", NULL };

const struct fsdp_loader fsdp_loader_megatron = {
	.name = "megatron",
	.library = "megatron-core",
	.versions = versions,
	.rules = rules,
	.options = options,
};
