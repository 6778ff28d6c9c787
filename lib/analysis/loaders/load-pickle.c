/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What torch.load(file, weights_only=True) says, the default since torch 2.6.
 *
 * Origin: torch/_weights_only_unpickler.py, torch/serialization.py (2.13 to 2.15).
 */
#include <stdio.h>
#include <string.h>

#include "analysis/checks/checking.h"
#include "analysis/loaders/loading.h"
#include "base/num.h"

#define ADD_SAFE "call torch.serialization.add_safe_globals([%s]) first"

/* What begins a file. */
enum beginning { NOTHING, EMPTY, ZIP, LEGACY, PICKLED, OTHER };

static const struct fsdp_survey_entry *entry_of(
	struct fsdp_loading *loading, const char *name)
{
	return fsdp_survey_find(loading->survey, name);
}

static enum beginning beginning_of(const struct fsdp_survey_entry *entry)
{
	static const unsigned char legacy[] = { 0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46,
		0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19 };
	struct fsdp_span head;

	if (entry == NULL)
		return NOTHING;
	head = fsdp_span(entry->head, entry->head_size);
	if (entry->size == 0)
		return EMPTY;
	if (fsdp_span_begins(head, FSDP_SPAN("PK\x03\x04")))
		return ZIP;
	/* Protocol 2 or another one: what follows is the magic number as an integer. */
	if (head.size >= sizeof legacy && head.data[0] == 0x80 &&
		memcmp(head.data + 2, legacy + 2, sizeof legacy - 2) == 0)
		return LEGACY;
	return head.size >= 2 && head.data[0] == 0x80 && head.data[1] <= 5 ? PICKLED
									   : OTHER;
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

/* Those that are filled by an opcode for lists or dicts stay refused when they are
 * allowed. */
static bool is_container(struct fsdp_span global)
{
	return fsdp_span_is(global, "collections.deque") ||
	       fsdp_span_is(global, "collections.defaultdict");
}

/* All that it names is known to be data, and nothing in it looks hostile. */
static bool is_harmless(struct fsdp_loading *loading, const char *name)
{
	const struct fsdp_checkpoint *checkpoint = fsdp_load_open(loading, name);

	for (size_t i = 0; checkpoint != NULL && i < fsdp_finding_count(checkpoint); i++)
		if (fsdp_finding(checkpoint, i)->severity > FSDP_NOTE &&
			strcmp(fsdp_finding(checkpoint, i)->rule->category, "safety") ==
				0)
			return false;
	return checkpoint != NULL;
}

/* An empty name is the path itself. Word 2: what helps; empty: some class is not known to be
 * data, or allowing it is not enough. */
static bool file_refuses_global(struct fsdp_loading *loading, const char *name)
{
	struct fsdp_survey_pickles pickles;
	char *text = loading->words[1];
	size_t at = 0;
	bool has_container = false;

	loading->failed |= !fsdp_survey_pickles(loading->survey, name, &pickles);
	if (!pickles.is_readable ||
		(pickles.opcode != NULL && pickles.opcode_offset < pickles.global_offset))
		return false;
	*text = '\0';
	for (size_t i = 0; i < pickles.global_count && at < FSDP_LOAD_WORD; i++) {
		if (is_taken(loading, pickles.globals[i]))
			continue;
		if (at == 0)
			fsdp_load_say(loading, 0, "%.*s",
				FSDP_TEXT_MOST(pickles.globals[i], 256));
		at += (size_t)snprintf(text + at, FSDP_LOAD_WORD - at, "%s%.*s",
			at == 0 ? "" : ", ", FSDP_TEXT_MOST(pickles.globals[i], 256));
		has_container |= is_container(pickles.globals[i]);
		fsdp_load_name(loading, pickles.globals[i]);
	}
	fsdp_load_say(loading, 2, "%s", "");
	if (at > 0 && at < FSDP_LOAD_WORD - sizeof ADD_SAFE && !has_container &&
		pickles.opcode == NULL && is_harmless(loading, name))
		fsdp_load_say(loading, 2, ADD_SAFE, text);
	return at > 0;
}

static bool file_refuses_opcode(struct fsdp_loading *loading, const char *name)
{
	struct fsdp_survey_pickles pickles;
	const struct fsdp_survey_entry *entry = entry_of(loading, name);

	if (beginning_of(entry) == NOTHING)
		return false;
	if (beginning_of(entry) == OTHER) {
		fsdp_load_say(
			loading, 0, "Unsupported operand %u", (unsigned)entry->head[0]);
		return true;
	}
	loading->failed |= !fsdp_survey_pickles(loading->survey, name, &pickles);
	if (beginning_of(entry) == PICKLED && entry->head[1] > 3) {
		fsdp_load_say(loading, 0, "Unsupported operand 149");
		return true;
	}
	if (pickles.opcode == NULL)
		return false;
	fsdp_load_say(loading, 0,
		pickles.protocol >= 4 ? "Unsupported operand 149"
				      : "Unsupported opcode %s",
		pickles.opcode);
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

/* ---- what a file of weights holds ---- */

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

bool fsdp_load_is_no_dict(struct fsdp_loading *loading)
{
	struct fsdp_survey_root root = fsdp_load_root(loading);

	if (root.class_name == NULL || root.is_dict)
		return false;
	fsdp_load_say(loading, 0, "%s", root.class_name);
	fsdp_load_say(loading, 1, "%s%s",
		!root.is_tensor                             ? ""
		: strcmp(root.class_name, "Parameter") == 0 ? "torch.nn.parameter."
							    : "torch.",
		root.class_name);
	return true;
}

bool fsdp_load_is_unknown_root(struct fsdp_loading *loading)
{
	struct fsdp_survey_root root = fsdp_load_root(loading);

	if (!root.is_known || (root.is_dict && !has_bytes_as_key(&root)))
		return false;
	fsdp_load_say(loading, 0, "%s", loading->weights);
	return true;
}

bool fsdp_load_has_odd_key(struct fsdp_loading *loading)
{
	struct fsdp_survey_root root = fsdp_load_root(loading);

	if (!root.is_dict || root.key_class == NULL || has_bytes_as_key(&root))
		return false;
	fsdp_load_say(loading, 0, "%s", root.key_class);
	return true;
}

bool fsdp_load_is_nested(struct fsdp_loading *loading)
{
	struct fsdp_survey_root root = fsdp_load_root(loading);

	return root.is_dict && root.count > 0 && root.tensors == 0;
}

/* ---- the file that was named ---- */

static bool is_folder(struct fsdp_loading *loading)
{
	return entry_of(loading, "") == NULL;
}

static bool is_empty(struct fsdp_loading *loading)
{
	return beginning_of(entry_of(loading, "")) == EMPTY;
}

static bool is_torchscript(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = fsdp_load_open(loading, "");
	const char *family =
		checkpoint != NULL ? fsdp_checkpoint_format(checkpoint).family : NULL;

	return family != NULL && strcmp(family, "torchscript") == 0;
}

/* A zip without its directory, which stands at its end. */
static bool is_cut(struct fsdp_loading *loading)
{
	return beginning_of(entry_of(loading, "")) == ZIP &&
	       fsdp_load_open(loading, "") == NULL;
}

static bool is_bare(struct fsdp_loading *loading)
{
	const struct fsdp_survey_entry *entry = entry_of(loading, "");

	return beginning_of(entry) == PICKLED && entry->head[1] <= 3;
}

static bool refuses_global(struct fsdp_loading *loading)
{
	return file_refuses_global(loading, "");
}

static bool refuses_opcode(struct fsdp_loading *loading)
{
	return file_refuses_opcode(loading, "");
}

static bool refuses_container(struct fsdp_loading *loading)
{
	if (!refuses_global(loading) || !is_container(fsdp_span_text(loading->words[0])))
		return false;
	if (is_harmless(loading, ""))
		fsdp_load_say(loading, 2,
			"torch.load(weights_only=False), if the source is trusted");
	return true;
}

static bool is_unread(struct fsdp_loading *loading)
{
	struct fsdp_survey_pickles pickles;

	loading->failed |= !fsdp_survey_pickles(loading->survey, "", &pickles);
	return beginning_of(entry_of(loading, "")) != NOTHING && !pickles.is_readable;
}

/* Says of which tensor, and why. */
static bool has_bad_index(struct fsdp_loading *loading)
{
	struct fsdp_rule_result results[FSDP_RULE_COUNT] = { 0 };
	struct fsdp_limits limits;
	struct fsdp_findings findings;
	struct fsdp_error *error = NULL;
	struct fsdp_checking checking = {
		.checkpoint = fsdp_load_open(loading, ""),
		.findings = &findings,
		.arena = loading->arena,
		.name = { .arena = loading->arena },
		.results = results,
	};

	if (checking.checkpoint == NULL)
		return false;
	(void)fsdp_limits_choose(&limits, NULL, 0, NULL);
	fsdp_findings_init(&findings, loading->arena, &limits);
	loading->failed |= !fsdp_judge_sparse(&checking, &error) ||
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

/* Their sizes are computed with before their bytes are read. */
static bool is_legacy_nested(struct fsdp_loading *loading)
{
	struct fsdp_survey_pickles pickles;

	loading->failed |= !fsdp_survey_pickles(loading->survey, "", &pickles);
	for (size_t i = 0; i < pickles.global_count; i++)
		if (fsdp_span_is(pickles.globals[i], taken[0].begin))
			return beginning_of(entry_of(loading, "")) == LEGACY;
	return false;
}

static const struct fsdp_load_rule rules[] = {
	{ "weights-only-folder", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"torch.load takes one file, and this is a folder", NULL, is_folder,
		true },
	{ "weights-only-empty", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.EOFError", "",
		NULL, is_empty },
	{ "weights-only-torchscript", NULL, NULL, FSDP_LOAD_REFUSES,
		"builtins.RuntimeError",
		"Cannot use ``weights_only=True`` with TorchScript archives passed to ``torch.load``.",
		"load it with torch.jit.load, if you trust its source", is_torchscript },
	{ "weights-only-cut", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.RuntimeError",
		"PytorchStreamReader failed reading zip archive: failed finding central directory.",
		NULL, is_cut },
	{ "weights-only-container", NULL, NULL, FSDP_LOAD_REFUSES, FSDP_LOAD_UNPICKLING,
		FSDP_LOAD_REFUSED_GLOBAL, "{2}", refuses_container },
	{ "weights-only-global", NULL, NULL, FSDP_LOAD_REFUSES, FSDP_LOAD_UNPICKLING,
		FSDP_LOAD_REFUSED_GLOBAL, "{2}", refuses_global },
	{ "weights-only-opcode", NULL, NULL, FSDP_LOAD_REFUSES, FSDP_LOAD_UNPICKLING,
		FSDP_LOAD_REFUSED_OPCODE,
		"save it again with torch.save and pickle_protocol=2, if it is a pickle",
		refuses_opcode },
	{ "weights-only-bare", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.RuntimeError",
		"Invalid magic number; corrupt file?", NULL, is_bare },
	{ "weights-only-unread", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"the pickles of the file cannot be read completely", NULL, is_unread },
	{ "weights-only-nested-legacy", NULL, "2.15", FSDP_LOAD_NOT_JUDGED, NULL,
		"torch computes with the sizes of a nested tensor before it reads them from a file of this form",
		NULL, is_legacy_nested },
	{ "weights-only-dtype", NULL, "2.14", FSDP_LOAD_REFUSES, NULL,
		FSDP_LOAD_NEW_DTYPE, "load it with torch 2.14 or later",
		fsdp_load_has_new_dtype },
	{ "weights-only-sparse", "2.14", NULL, FSDP_LOAD_REFUSES, NULL,
		"the indices of the sparse tensor {0} do not fit it: {1}; torch checks them from 2.14 on (tried with torch 2.14.1 and 2.15.0)",
		NULL, has_bad_index },
	{ NULL },
};

static const char *const versions[] = { "2.15.0", "2.14.1", "2.14.0", "2.13.0", NULL };

const struct fsdp_loader fsdp_loader_weights_only = {
	.name = "weights_only",
	.library = "torch",
	.versions = versions,
	.rules = rules,
};
