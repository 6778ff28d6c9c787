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

#define REFUSES "megatron.core.dist_checkpointing.core.CheckpointingException"
#define FEW "torch.distributed.checkpoint.api.CheckpointException"

#define TRACKER "latest_checkpointed_iteration.txt"

enum { FOLDER_BYTES = 64 };

/* The folder of a step that a run's root names, as "iter_0000010/"; else "". */
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

/* As it is given: the folder itself, or the one of a step. */
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
	       !fsdp_load_has_any(loading, "", ".distcp");
}

static bool has_other_backend(struct fsdp_loading *loading)
{
	struct fsdp_token backend = backend_of(loading, "sharded_backend").value;
	struct fsdp_token version = backend_of(loading, "sharded_backend_version").value;

	if (backend.kind != FSDP_TOKEN_TEXT || fsdp_span_is(backend.text, "torch_dist"))
		return false;
	fsdp_load_say(loading, 0, "%.*s", FSDP_TEXT_MOST(backend.text, 64));
	fsdp_load_say(loading, 1, "%lld",
		version.kind == FSDP_TOKEN_INTEGER ? (long long)version.integer : 1);
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

/* What all ranks share lies in DCP: as the object of that name, or if that was read, as
 * values that are no shards. */
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
	char found[200], due[200];
	unsigned among =
		FSDP_LOAD_MISSHAPED | (looks_first(loading) ? 0 : FSDP_LOAD_MISSING);

	if (fsdp_load_find_first(loading, opened(loading), among, &wanted, &stored) !=
		FSDP_LOAD_MISSHAPED)
		return false;
	fsdp_load_write_numbers(found, sizeof found, stored);
	fsdp_load_write_numbers(due, sizeof due, &wanted);
	fsdp_load_say(loading, 1, "torch.Size([%s])", found);
	fsdp_load_say(loading, 2, "(%s%s)", due, wanted.dims == 1 ? "," : "");
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

static const struct fsdp_load_rule rules[] = {
	{ "megatron-legacy", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"mp_rank_... files of the older format are loaded by Megatron-LM itself, not by dist_checkpointing",
		NULL, is_legacy, true },
	{ "megatron-no-index", NULL, NULL, FSDP_LOAD_REFUSES, REFUSES,
		"{path} is not a distributed checkpoint", NULL, is_of_other_program },
	{ "megatron-no-index", NULL, NULL, FSDP_LOAD_REFUSES, REFUSES,
		"{path} is not a distributed checkpoint",
		"copy metadata.json from where the checkpoint was written; if it is not there, the save did not end",
		lacks_index },
	{ "megatron-no-backend", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"metadata.json names no backend", NULL, has_no_backend },
	{ "megatron-backend", NULL, "0.19", FSDP_LOAD_REFUSES, REFUSES,
		"Cannot find a default strategy for: ('load_sharded', '{0}', {1})",
		"convert it with the release that wrote it", has_other_backend },
	{ "megatron-common-inside", NULL, "0.19", FSDP_LOAD_REFUSES, NULL,
		"the values that all ranks share lie in the files of DCP; releases before 0.19 look for common.pt (tried with megatron-core 0.16.1)",
		"load it with megatron-core 0.19 or later", has_common_inside },
	{ "megatron-no-common", NULL, "0.19", FSDP_LOAD_REFUSES,
		"builtins.AttributeError", "'str' object has no attribute 'iterdir'",
		"copy common.pt from where the checkpoint was written", lacks_common },
	{ "megatron-no-metadata", NULL, NULL, FSDP_LOAD_REFUSES, FEW,
		"AssertionError: metadata is None; global metadata read failed: [Errno 2] No such file or directory: '{path}/{0}'",
		FSDP_LOAD_COPY, lacks_metadata },
	{ "megatron-file-absent", NULL, NULL, FSDP_LOAD_REFUSES, FEW,
		"FileNotFoundError: [Errno 2] No such file or directory: '{path}/{0}'",
		FSDP_LOAD_COPY, lacks_file },
	{ "megatron-no-common", "0.19", NULL, FSDP_LOAD_REFUSES, NULL,
		"common.pt is not there, nor are its values in the files of DCP (tried with megatron-core 0.19.2)",
		"copy common.pt from where the checkpoint was written", lost_common },
	{ "megatron-no-common", "0.19", NULL, FSDP_LOAD_REFUSES, NULL,
		"common.pt is not there, nor are its values in the files of DCP (tried with megatron-core 0.19.2)",
		NULL, lacks_both },
	{ "megatron-unread", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"the folder cannot be read completely", NULL, is_unread },
	{ "megatron-expected", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"none of the names of --expect is one that Megatron stores", NULL,
		is_other_form, true },
	{ "megatron-left", NULL, NULL, FSDP_LOAD_REFUSES, REFUSES,
		"Some keys found in the checkpoint are missing in the provided sharded state dict. ",
		"ask for all keys that are stored, or leave out strict", leaves_keys },
	{ "megatron-unexpected", NULL, NULL, FSDP_LOAD_REFUSES, REFUSES,
		"Unexpected keys (not found in the checkpoint) encountered in the provided sharded state dict. ",
		"build the model that was saved", has_unexpected_key },
	{ "megatron-missing", NULL, NULL, FSDP_LOAD_REFUSES, FEW,
		"KeyError: \"{0} from model not in state dict\"",
		"build the model that was saved, or pass strict=\"return_all\"",
		misses_key },
	{ "megatron-shape", NULL, NULL, FSDP_LOAD_REFUSES, FEW,
		"CheckpointingException: Global shape mismatch for loaded ({1}) and expected ({2}) tensor for key {0}",
		"build the model with the sizes that are stored", has_other_shape },
	{ "megatron-common-part", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"{0} is stored as {1} and expected as {2}: what both have is loaded, the rest keeps its value",
		NULL, loads_common_part },
	{ "megatron-removed", NULL, NULL, FSDP_LOADS, NULL,
		"{0} is not stored: the result is without it, and the model keeps its value",
		NULL, removes_key },
	{ NULL },
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
