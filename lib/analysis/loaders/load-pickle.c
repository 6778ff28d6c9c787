/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What torch.load(file, weights_only=True) refuses, the default since torch 2.6.
 *
 * Origin: torch/_weights_only_unpickler.py, torch/serialization.py (2.13 to 2.15).
 */
#include <stdio.h>
#include <string.h>

#include "analysis/checks/checking.h"
#include "analysis/loaders/loading.h"
#include "base/num.h"

/* What begins a file. */
enum beginning { NOTHING, EMPTY, ZIP, LEGACY, PICKLED, OTHER };

static enum beginning beginning_of(struct fsdp_loading *loading, const char *name)
{
	static const unsigned char legacy[] = { 0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46,
		0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19 };
	const struct fsdp_survey_entry *entry = fsdp_survey_find(loading->survey, name);
	struct fsdp_span head;

	if (entry == NULL)
		return NOTHING;
	if (entry->size == 0)
		return EMPTY;
	head = fsdp_survey_head(loading->survey, name);
	if (fsdp_span_begins(head, FSDP_SPAN("PK\x03\x04")))
		return ZIP;
	/* Protocol 2 or another one: what follows is the magic number as an integer. */
	if (head.size >= sizeof legacy && head.data[0] == 0x80 &&
		memcmp(head.data + 2, legacy + 2, sizeof legacy - 2) == 0)
		return LEGACY;
	return head.size >= 2 && head.data[0] == 0x80 && head.data[1] <= 5 ? PICKLED
									   : OTHER;
}

/* Of what is PICKLED. */
static unsigned protocol_of(struct fsdp_loading *loading, const char *name)
{
	return fsdp_survey_head(loading->survey, name).data[1];
}

/* What the newest release refuses and others take, from one of them up to another. */
static const struct {
	const char *begin, *end; /* of its name */
	const char *since, *until;
} taken[] = {
	{ "torch._utils._rebuild_nested_tensor", "", NULL, "2.15" },
	{ "builtins.", "Error", "2.14", "2.15" },
	{ "builtins.", "Warning", "2.14", "2.15" },
	{ "builtins.", "Exception", "2.14", "2.15" },
	{ "builtins.", "ExceptionGroup", "2.14", "2.15" },
	{ "builtins.", "Iteration", "2.14", "2.15" },
	{ "builtins.", "Exit", "2.14", "2.15" },
	{ "builtins.KeyboardInterrupt", "", "2.14", "2.15" },
	{ "traceback.FrameSummary", "", "2.14", "2.15" },
	{ "traceback.StackSummary", "", "2.14", "2.15" },
};

static bool is_taken(const struct fsdp_loading *loading, struct fsdp_span global)
{
	for (size_t i = 0; loading->torch != NULL && i < FSDP_COUNT(taken); i++)
		if (fsdp_span_begins(global, fsdp_span_text(taken[i].begin)) &&
			fsdp_span_ends(global, fsdp_span_text(taken[i].end)) &&
			(taken[i].since == NULL ||
				fsdp_load_compare_versions(
					loading->torch, taken[i].since) >= 0) &&
			fsdp_load_compare_versions(loading->torch, taken[i].until) < 0)
			return true;
	return false;
}

/* The fix of FI3003 for this file; empty: a class may run code, or is unknown. A library that
 * opens a file of its own takes no other option of torch.load, only classes that were allowed
 * before. */
static struct fsdp_span fix_of(struct fsdp_loading *loading, const char *name)
{
	const struct fsdp_checkpoint *checkpoint = fsdp_load_open(loading, name);

	struct fsdp_span fix = fsdp_span("", 0);

	for (size_t i = 0; checkpoint != NULL && i < fsdp_finding_count(checkpoint); i++)
		if (fsdp_finding(checkpoint, i)->rule ==
			fsdp_rule(FSDP_RULE_WEIGHTS_ONLY_REFUSES))
			fix = fsdp_finding(checkpoint, i)->fix;
	if (fix.size >= FSDP_LOAD_WORD ||
		(*name != '\0' && !fsdp_span_begins(fix, FSDP_SPAN("import "))))
		fix.size = 0;
	return fix;
}

/* An empty name is the path itself. Word 2: the fix. */
static bool file_refuses_global(struct fsdp_loading *loading, const char *name)
{
	struct fsdp_survey_pickles pickles;
	struct fsdp_span fix = fix_of(loading, name);

	loading->failed |= !fsdp_survey_pickles(loading->survey, name, &pickles);
	if (!pickles.is_readable ||
		(pickles.opcode != NULL && pickles.opcode_offset < pickles.global_offset))
		return false;
	for (size_t i = 0; i < pickles.global_count; i++)
		if (!is_taken(loading, pickles.globals[i]))
			fsdp_load_name(loading, pickles.globals[i]);
	if (loading->all_names == 0)
		return false;
	fsdp_load_say(loading, 0, "%.*s", FSDP_TEXT_MOST(loading->names[0], 256));
	fsdp_load_say(loading, 2, "%.*s", FSDP_TEXT(fix));
	return true;
}

/* Words: the file, why, what helps. */
static bool file_refuses_opcode(struct fsdp_loading *loading, const char *name)
{
	struct fsdp_survey_pickles pickles;
	enum beginning beginning = beginning_of(loading, name);
	bool is_new;

	if (beginning == NOTHING)
		return false;
	loading->failed |= !fsdp_survey_pickles(loading->survey, name, &pickles);
	is_new = beginning == PICKLED && protocol_of(loading, name) > 3;
	if (beginning != OTHER && !is_new && pickles.opcode == NULL)
		return false;
	is_new |= pickles.opcode != NULL && pickles.protocol >= 4;
	fsdp_load_say(loading, 0, "%s", *name != '\0' ? name : "the file");
	struct fsdp_span fix = fsdp_span_text(
		beginning == OTHER
			? fsdp_load_copying(loading, name)
			: "save it again with torch.save and pickle_protocol=2");
	if (beginning != OTHER && (!is_new || pickles.global_count > 0))
		fix = fix_of(loading, name);
	fsdp_load_say(loading, 2, "%.*s", FSDP_TEXT(fix));
	if (beginning == OTHER)
		fsdp_load_say(loading, 1, "neither a zip archive nor a pickle");
	else if (is_new)
		fsdp_load_say(loading, 1, "pickle protocol 4 or later");
	else
		fsdp_load_say(loading, 1, "pickle opcode %s", pickles.opcode);
	return true;
}

static bool is_pickled(const struct fsdp_loading *loading)
{
	return loading->weights != NULL &&
	       fsdp_span_ends(fsdp_span_text(loading->weights), FSDP_SPAN(".bin"));
}

bool fsdp_load_weights_refuse_global(struct fsdp_loading *loading)
{
	return is_pickled(loading) && file_refuses_global(loading, loading->weights);
}

bool fsdp_load_weights_refuse_opcode(struct fsdp_loading *loading)
{
	return is_pickled(loading) && file_refuses_opcode(loading, loading->weights);
}

struct fsdp_survey_root fsdp_load_root(struct fsdp_loading *loading)
{
	struct fsdp_survey_pickles pickles = { .root = { .class_name = NULL } };

	if (is_pickled(loading))
		loading->failed |=
			!fsdp_survey_pickles(loading->survey, loading->weights, &pickles);
	return pickles.root;
}

/* These fail at other places than other keys that are not strings. */
static bool has_bytes_as_key(const struct fsdp_survey_root *root)
{
	return root->key_class != NULL && strcmp(root->key_class, "bytes") == 0;
}

/* Words: the file, what it contains. */
static bool write_root(
	struct fsdp_loading *loading, const char *what, const char *class_name)
{
	fsdp_load_say(loading, 0, "%s", loading->weights);
	fsdp_load_say(loading, 1, "%s of class %s", what, class_name);
	return true;
}

bool fsdp_load_is_no_dict(struct fsdp_loading *loading)
{
	struct fsdp_survey_root root = fsdp_load_root(loading);

	return root.class_name != NULL && !root.is_dict &&
	       write_root(loading, "an object", root.class_name);
}

bool fsdp_load_is_unknown_root(struct fsdp_loading *loading)
{
	struct fsdp_survey_root root = fsdp_load_root(loading);

	if (!root.is_known || (root.is_dict && !has_bytes_as_key(&root)))
		return false;
	return root.is_dict ? write_root(loading, "a key", root.key_class)
			    : write_root(loading, "an object", root.class_name);
}

bool fsdp_load_has_odd_key(struct fsdp_loading *loading)
{
	struct fsdp_survey_root root = fsdp_load_root(loading);

	return root.is_dict && root.key_class != NULL && !has_bytes_as_key(&root) &&
	       write_root(loading, "a key", root.key_class);
}

bool fsdp_load_is_nested(struct fsdp_loading *loading)
{
	struct fsdp_survey_root root = fsdp_load_root(loading);

	fsdp_load_say(loading, 0, "%s", loading->weights != NULL ? loading->weights : "");
	fsdp_load_say(loading, 1, "tensors only in a dict inside of it");
	return root.is_dict && root.count > 0 && root.tensors == 0;
}

/* ---- the file that was named ---- */

enum { FILE_NAMED = 1, NO_BYTES = 2, ARCHIVE = 4, OLD_FORM = 8, BARE = 16 };

static void begin(struct fsdp_loading *loading)
{
	static const uint32_t facts[] = { [EMPTY] = NO_BYTES,
		[ZIP] = ARCHIVE,
		[LEGACY] = OLD_FORM,
		[PICKLED] = BARE,
		[OTHER] = 0 };
	enum beginning beginning = beginning_of(loading, "");

	if (beginning == NOTHING)
		return;
	loading->is |= FILE_NAMED | facts[beginning];
	if (beginning == PICKLED && protocol_of(loading, "") > 3)
		loading->is &= ~(uint32_t)BARE;
}

static bool is_torchscript(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = fsdp_load_open(loading, "");
	const char *family =
		checkpoint != NULL ? fsdp_checkpoint_format(checkpoint).family : NULL;

	return family != NULL && strcmp(family, "torchscript") == 0;
}

/* A zip without its directory, which is stored at the end. */
static bool is_cut(struct fsdp_loading *loading)
{
	return fsdp_load_open(loading, "") == NULL;
}

static bool refuses_global(struct fsdp_loading *loading)
{
	return file_refuses_global(loading, "");
}

static bool refuses_opcode(struct fsdp_loading *loading)
{
	return file_refuses_opcode(loading, "");
}

static bool is_unread(struct fsdp_loading *loading)
{
	struct fsdp_survey_pickles pickles;

	loading->failed |= !fsdp_survey_pickles(loading->survey, "", &pickles);
	return !pickles.is_readable;
}

/* Reports the tensor and the reason. */
static bool has_bad_index(struct fsdp_loading *loading)
{
	struct fsdp_rule_result results[FSDP_RULE_COUNT] = { 0 };
	struct fsdp_limits limits;
	struct fsdp_findings findings;
	struct fsdp_error *error = NULL;
	struct fsdp_checking checking = {
		.checkpoint = fsdp_load_open(loading, ""),
		.family = "",
		.findings = &findings,
		.arena = loading->arena,
		.name = { .arena = loading->arena },
		.results = results,
		.ret_error = &error,
	};

	if (checking.checkpoint == NULL)
		return false;
	(void)fsdp_limits_choose(&limits, NULL, 0, NULL);
	fsdp_findings_init(&findings, loading->arena, &limits);
	fsdp_check_indices(&checking);
	loading->failed |= checking.failed || checking.no_memory ||
			   checking.name.failed || findings.lost;
	fsdp_error_free(error);
	if (loading->failed || findings.list.count == 0)
		return false;
	const struct fsdp_finding *finding = fsdp_vec_at(&findings.list, 0);
	fsdp_load_say(loading, 0, "%.*s", FSDP_TEXT_MOST(finding->tensor, 256));
	fsdp_load_say(loading, 1, "%.*s", FSDP_TEXT_MOST(finding->message, 256));
	fsdp_load_name(loading, finding->tensor);
	return true;
}

/* Types that came with a release. */
bool fsdp_load_has_new_dtype(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = fsdp_load_open(loading, "");

	for (uint32_t i = 0; checkpoint != NULL && i < fsdp_tensor_count(checkpoint); i++)
		if (strcmp(fsdp_dtype(fsdp_tensor(checkpoint, i).dtype)->name,
			    "bcomplex32") == 0)
			return true;
	return false;
}

/* Of such types the old form names no class that has them: torch.load fails in any mode. */
static bool has_untyped_storage(struct fsdp_loading *loading)
{
	static const char *const begins[] = { "float8", "float4", "uint16", "uint32",
		"uint64", "complex32" };
	const struct fsdp_checkpoint *checkpoint = fsdp_load_open(loading, "");

	for (uint32_t i = 0; checkpoint != NULL && i < fsdp_tensor_count(checkpoint);
		i++) {
		const char *dtype = fsdp_dtype(fsdp_tensor(checkpoint, i).dtype)->name;
		/* Nor does safetensors have the last one. */
		fsdp_load_say(loading, 0, "%s", dtype);
		fsdp_load_say(loading, 1, "%s%s",
			*dtype == 'c' ? "" : "fsdp-inspect export -o DIRECTORY ",
			*dtype == 'c' ? "" : loading->path);
		for (size_t k = 0; k < FSDP_COUNT(begins); k++)
			if (strncmp(dtype, begins[k], strlen(begins[k])) == 0)
				return true;
	}
	return false;
}

/* Their sizes are computed with before their bytes are read. */
static bool is_legacy_nested(struct fsdp_loading *loading)
{
	struct fsdp_survey_pickles pickles;

	loading->failed |= !fsdp_survey_pickles(loading->survey, "", &pickles);
	for (size_t i = 0; i < pickles.global_count; i++)
		if (fsdp_span_is(pickles.globals[i], taken[0].begin))
			return true;
	return false;
}

static const struct fsdp_load_rule rules[] = {
	FSDP_NOT_JUDGED(FORMAT, .unless = FILE_NAMED, .ends = true,
		.message = "torch.load loads one file, and this is a directory"),
	FSDP_REFUSES(DAMAGED_FILE, .when = NO_BYTES, .message = "the file is empty",
		.fix = FSDP_NO_FIX),
	FSDP_REFUSES(FORMAT, is_torchscript,
		"weights_only=True does not load TorchScript archives",
		"load it with torch.jit.load, if you trust its source"),
	FSDP_REFUSES(DAMAGED_FILE, is_cut,
		"the file is truncated: it has no zip directory at its end", FSDP_NO_FIX,
		.when = ARCHIVE),
	FSDP_REFUSES(UNSAFE_GLOBAL, refuses_global),
	FSDP_REFUSES(UNSAFE_PICKLE, refuses_opcode),
	FSDP_REFUSES(FORMAT, .when = BARE,
		.message = "the file is a pickle that torch.save did not write"),
	FSDP_NOT_JUDGED(
		UNREAD, is_unread, "the pickles of the file cannot be read completely"),
	FSDP_NOT_JUDGED(UNSUPPORTED, is_legacy_nested,
		"torch computes with the sizes of a nested tensor before it reads them from a file of this form",
		.when = OLD_FORM, .until = "2.15"),
	FSDP_REFUSES(DTYPE, has_untyped_storage,
		"torch.load cannot read tensors of {0} in a file without zip container",
		"{1}", .when = OLD_FORM),
	FSDP_REFUSES(
		RELEASE, fsdp_load_has_new_dtype, FSDP_LOAD_NEW_DTYPE, .until = "2.14"),
	FSDP_REFUSES(SHAPE, has_bad_index,
		"the indices of the sparse tensor {0} do not fit it: {1}; torch checks them from 2.14 on",
		FSDP_NO_FIX, .since = "2.14"),
	{ 0 },
};

static const char *const versions[] = { "2.15.0", "2.14.1", "2.14.0", "2.13.0", NULL };

const struct fsdp_loader fsdp_loader_weights_only = {
	.name = "weights_only",
	.library = "torch",
	.versions = versions,
	.begin = begin,
	.rules = rules,
};
