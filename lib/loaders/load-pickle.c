/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What torch.load(file, weights_only=True) refuses, the default since torch 2.6.
 *
 * Origin: torch/_weights_only_unpickler.py, torch/serialization.py (2.13 to 2.15).
 */
#include <stdio.h>
#include <string.h>

#include "audit/checking.h"
#include "loaders/loading.h"
#include "base/num.h"

/* What begins a file. */
/* NEW_PICKLED: by a protocol that torch does not write. */
enum beginning { NOTHING, EMPTY, ZIP, LEGACY, PICKLED, NEW_PICKLED, OTHER };

static enum beginning beginning_of(struct fsdp_loading *loading, const char *name)
{
	static const unsigned char legacy[] = { 0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46,
		0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19 };
	const struct fsdp_scan_entry *entry = fsdp_scan_find(loading->survey, name);
	struct fsdp_span head;
	if (entry == NULL)
		return NOTHING;
	if (entry->size == 0)
		return EMPTY;
	head = fsdp_scan_head(loading->survey, name);
	if (fsdp_span_begins(head, FSDP_SPAN("PK\x03\x04")))
		return ZIP;
	/* Protocol 2 or another one: what follows is the magic number as an integer. */
	if (head.size >= sizeof legacy && head.data[0] == 0x80 &&
		memcmp(head.data + 2, legacy + 2, sizeof legacy - 2) == 0)
		return LEGACY;
	if (head.size < 2 || head.data[0] != 0x80 || head.data[1] > 5)
		return OTHER;
	return head.data[1] > 3 ? NEW_PICKLED : PICKLED;
}

/* What the newest release refuses and others take, from one of them up to another. */
static const struct {
	const char *first, *last; /* of its name */
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

/* The fix of FI3003 for this file; empty: a class may run code, or is unknown. A library
 * that opens a file of its own takes no other option of torch.load, only classes that
 * were allowed before. */
static struct fsdp_span find_fix(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = fsdp_load_opened(loading);
	struct fsdp_span fix = fsdp_span("", 0);
	for (size_t i = 0; checkpoint != NULL && i < fsdp_finding_count(checkpoint); i++)
		if (fsdp_finding(checkpoint, i)->rule ==
			fsdp_rule(FSDP_RULE_WEIGHTS_ONLY_REFUSES))
			fix = fsdp_finding(checkpoint, i)->fix;
	return fix.size < FSDP_LOAD_WORD &&
			       (*loading->weights == '\0' ||
				       fsdp_span_begins(fix, FSDP_SPAN("import ")))
		       ? fix
		       : fsdp_span("", 0);
}

/* The weights are a pickle; an empty name is the path itself. */
static bool is_pickled(const struct fsdp_loading *loading)
{
	return loading->weights != NULL &&
	       (*loading->weights == '\0' ||
		       fsdp_span_ends(
			       fsdp_span_text(loading->weights), FSDP_SPAN(".bin")));
}

bool fsdp_load_weights_refuse_global(struct fsdp_loading *loading)
{
	struct fsdp_scan_pickles pickles;
	if (!is_pickled(loading))
		return false;
	pickles = fsdp_load_pickles(loading, loading->weights);
	if (!pickles.is_readable ||
		(pickles.opcode != NULL && pickles.opcode_offset < pickles.global_offset))
		return false;
	for (size_t i = 0; i < pickles.global_count; i++) {
		bool is_taken = false;
		for (size_t k = 0; loading->torch != NULL && k < FSDP_COUNT(taken); k++)
			is_taken |= fsdp_span_begins(pickles.globals[i],
					    fsdp_span_text(taken[k].first)) &&
				    fsdp_span_ends(pickles.globals[i],
					    fsdp_span_text(taken[k].last)) &&
				    (taken[k].since == NULL ||
					    fsdp_load_compare_versions(loading->torch,
						    taken[k].since) >= 0) &&
				    fsdp_load_compare_versions(
					    loading->torch, taken[k].until) < 0;
		if (!is_taken)
			fsdp_load_name(loading, pickles.globals[i]);
	}
	return loading->all_names > 0 &&
	       fsdp_load_report(loading, 2, "%.*s", FSDP_TEXT(find_fix(loading)));
}

bool fsdp_load_weights_refuse_opcode(struct fsdp_loading *loading)
{
	enum beginning beginning =
		is_pickled(loading) ? beginning_of(loading, loading->weights) : NOTHING;
	struct fsdp_scan_pickles pickles;
	struct fsdp_span fix =
		FSDP_SPAN("save it again with torch.save and pickle_protocol=2");
	bool is_new;
	if (beginning == NOTHING)
		return false;
	pickles = fsdp_load_pickles(loading, loading->weights);
	is_new = beginning == NEW_PICKLED;
	if (beginning != OTHER && !is_new && pickles.opcode == NULL)
		return false;
	is_new |= pickles.opcode != NULL && pickles.protocol >= 4;
	if (beginning == OTHER)
		fix = fsdp_span_text(fsdp_load_copying(loading, loading->weights));
	else if (!is_new || pickles.global_count > 0)
		fix = find_fix(loading);
	fsdp_load_report(loading, 2, "%.*s", FSDP_TEXT(fix));
	if (beginning == OTHER || is_new)
		return fsdp_load_report(loading, 1,
			beginning == OTHER ? "neither a zip archive nor a pickle"
					   : "pickle protocol 4 or later");
	return fsdp_load_report(loading, 1, "pickle opcode %s", pickles.opcode);
}

/* Keys that are bytes fail at other places than other keys that are not strings. */
void fsdp_load_read_root(struct fsdp_loading *loading)
{
	struct fsdp_scan_root *root = &loading->root;
	bool is_bytes;
	if (!is_pickled(loading))
		return;
	*root = fsdp_load_pickles(loading, loading->weights).root;
	is_bytes = root->key_class != NULL && strcmp(root->key_class, "bytes") == 0;
	if (!root->is_dict && root->class_name != NULL)
		loading->is |= FSDP_LOAD_NO_DICT;
	if (root->is_known && (!root->is_dict || is_bytes))
		loading->is |= FSDP_LOAD_OTHER_ROOT;
	if (root->is_dict && root->key_class != NULL && !is_bytes)
		loading->is |= FSDP_LOAD_UNUSUAL_KEY;
	if (root->is_dict && root->count != 0 && root->tensors == 0)
		loading->is |= FSDP_LOAD_NESTED;
	if (root->is_dict && root->key_class == NULL)
		fsdp_load_report(
			loading, FSDP_LOAD_ROOT, "tensors only in a dict inside of it");
	else if (root->is_dict)
		fsdp_load_report(
			loading, FSDP_LOAD_ROOT, "a key of class %s", root->key_class);
	else
		fsdp_load_report(loading, FSDP_LOAD_ROOT, "an object of %s%s",
			root->class_name != NULL ? "class " : "an unknown class",
			root->class_name != NULL ? root->class_name : "");
}

/* ---- the file that was named ---- */

enum {
	FILE_NAMED = 1 << 0,
	NO_BYTES = 1 << 1,
	ARCHIVE = 1 << 2,
	OLD_FORM = 1 << 3,
	BARE = 1 << 4,
	TORCHSCRIPT = 1 << 5,
	NOT_OPENED =
		1 << 6, /* of a zip: its directory, which is at the end, is missing */
	IS_UNREAD = 1 << 7,
	/* torch computes with their sizes before it reads their bytes. */
	NESTED = 1 << 8
};

static void begin(struct fsdp_loading *loading)
{
	static const uint32_t bits[] = { [EMPTY] = NO_BYTES,
		[ZIP] = ARCHIVE,
		[LEGACY] = OLD_FORM,
		[PICKLED] = BARE,
		[NEW_PICKLED] = 0,
		[OTHER] = 0 };
	enum beginning beginning = beginning_of(loading, "");
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_scan_pickles pickles;
	const char *family;
	loading->weights = "";
	if (beginning == NOTHING)
		return;
	checkpoint = fsdp_load_opened(loading);
	pickles = fsdp_load_pickles(loading, "");
	family = checkpoint != NULL ? fsdp_checkpoint_format(checkpoint).family : NULL;
	loading->is |= FILE_NAMED | bits[beginning] |
		       (checkpoint == NULL ? NOT_OPENED : 0) |
		       (pickles.is_readable ? 0 : IS_UNREAD);
	if (family != NULL && strcmp(family, "torchscript") == 0)
		loading->is |= TORCHSCRIPT;
	for (size_t i = 0; i < pickles.global_count; i++)
		if (fsdp_span_is(pickles.globals[i], taken[0].first))
			loading->is |= NESTED;
}

/* Reports the tensor and the reason. */
static bool has_bad_index(struct fsdp_loading *loading)
{
	struct fsdp_rule_result results[FSDP_RULE_COUNT] = { 0 };
	struct fsdp_limits limits;
	struct fsdp_findings findings;
	struct fsdp_error *error = NULL;
	struct fsdp_checking checking = {
		.checkpoint = fsdp_load_opened(loading),
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
	fsdp_arena_hold(loading->arena);
	fsdp_check_indices(&checking);
	fsdp_arena_resume(loading->arena);
	fsdp_error_free(error);
	if (checking.failed || checking.no_memory || checking.name.failed ||
		findings.lost)
		fsdp_arena_leave(loading->arena);
	if (findings.list.count == 0)
		return false;
	const struct fsdp_finding *finding = fsdp_vec_at(&findings.list, 0);
	fsdp_load_set_word(loading, 1, finding->message);
	return fsdp_load_name(loading, finding->tensor);
}

#define NO_CLASS "torch.load cannot read tensors of {0} in a file without zip container"

static const struct fsdp_load_fact facts[] = { { 0 } };

static const struct fsdp_load_rule rules[] = {
	FSDP_NOT_JUDGED(FORMAT, .unless = FILE_NAMED, .ends = true,
		.message = "torch.load loads one file, and this is a directory"),
	FSDP_REFUSES(DAMAGED_FILE, .when = NO_BYTES, .message = "the file is empty",
		.fix = FSDP_NO_FIX),
	FSDP_REFUSES(FORMAT, .when = TORCHSCRIPT,
		.message = "weights_only=True does not load TorchScript archives",
		.fix = "load it with torch.jit.load, if you trust its source"),
	FSDP_REFUSES(DAMAGED_FILE, .when = ARCHIVE | NOT_OPENED, .fix = FSDP_NO_FIX,
		.message = "the file is truncated: it has no zip directory at its end"),
	FSDP_REFUSES(UNSAFE_GLOBAL, fsdp_load_weights_refuse_global),
	FSDP_REFUSES(UNSAFE_PICKLE, fsdp_load_weights_refuse_opcode),
	FSDP_REFUSES(FORMAT, .when = BARE,
		.message = "the file is a pickle that torch.save did not write"),
	FSDP_REFUSES(DAMAGED_FILE, fsdp_load_is_damaged, "the file is damaged: {1}",
		FSDP_NO_FIX, .when = OLD_FORM),
	FSDP_NOT_JUDGED(UNREAD, .when = IS_UNREAD,
		.message = "the pickles of the file cannot be read completely"),
	FSDP_NOT_JUDGED(UNSUPPORTED, .when = OLD_FORM | NESTED, .until = "2.15",
		.message =
			"torch computes with the sizes of a nested tensor before it reads them from a file of this form"),
	/* Of such types the old form names no class that has them: torch.load fails in
	 * any mode. */
	FSDP_REFUSES(DTYPE, .when = OLD_FORM, .message = NO_CLASS,
		.dtypes =
			"float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2 uint16 uint32 uint64",
		.fix = "fsdp-inspect export -o DIRECTORY {path}"),
	/* Nor does safetensors have this one. */
	FSDP_REFUSES(DTYPE, .when = OLD_FORM, .message = NO_CLASS, .dtypes = "complex32"),
	FSDP_REFUSES(RELEASE, .until = "2.14", FSDP_LOAD_NEW_DTYPE),
	FSDP_REFUSES(SHAPE, has_bad_index,
		"the indices of the sparse tensor {0} do not fit it: {1}; torch checks them from 2.14 on",
		FSDP_NO_FIX, .since = "2.14"),
	{ 0 },
};

FSDP_LOADER(weights_only, "torch.load(weights_only=True)", "torch",
	("2.15.0", "2.14.1", "2.14.0", "2.13.0"), );
