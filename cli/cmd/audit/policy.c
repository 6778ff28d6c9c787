/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what a policy says, and holds a checkpoint against it.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/audit/policy.h"
#include "run/answer.h"
#include "run/collected.h"

static bool wrong(struct run *run, const char *path, struct text where, const char *what)
{
	return !refuse(run, "fsdp-inspect help policy", "%s: %.*s: %s", path,
		(int)(where.size < 100 ? where.size : 100), where.data, what);
}

/* ---- reading ---- */

static bool is_list_of_texts(struct fsdp_document_value value)
{
	if (value.kind != FSDP_DOCUMENT_LIST)
		return false;
	for (size_t i = 0; i < value.count; i++)
		if (fsdp_document_item(value, i).kind != FSDP_DOCUMENT_TEXT)
			return false;
	return true;
}

static bool set_rules(struct run *run, const char *path, struct fsdp_document_value rules,
	struct levels *levels)
{
	const char *problem;

	if (rules.kind != FSDP_DOCUMENT_OBJECT)
		return wrong(run, path, text_of("rules"), "it is not a JSON object");
	for (size_t i = 0; i < rules.count; i++) {
		struct fsdp_document_value rule = fsdp_document_item(rules, i);

		problem = rule.kind == FSDP_DOCUMENT_TEXT
				  ? levels_set_rule(levels, text_of_span(rule.key),
					    text_of_span(rule.text))
				  : "the level is not a string";
		if (problem != NULL)
			return wrong(run, path, text_of_span(rule.key), problem);
	}
	return true;
}

static bool is_fail_on(struct text word)
{
	for (size_t i = 1; level_words[i] != NULL; i++)
		if (text_is(word, text_of(level_words[i])))
			return true;
	return text_is(word, text_of("none"));
}

static bool set_key(struct policy *policy, struct run *run, const char *path,
	struct fsdp_document_value value, struct levels *levels)
{
	struct text key = text_of_span(value.key);

	if (text_is(key, text_of("rules")))
		return set_rules(run, path, value, levels);
	if (text_is(key, text_of("fail_on"))) {
		policy->fail_on = text_of_span(value.text);
		return is_fail_on(policy->fail_on) ||
		       wrong(run, path, key,
			       "it is not one of none, note, warning, error");
	}
	if (text_is(key, text_of("allow_globals"))) {
		policy->globals = value;
		return is_list_of_texts(value) ||
		       wrong(run, path, key, "it is not a list of names");
	}
	if (text_is(key, text_of("dtypes"))) {
		policy->dtypes = value;
		return is_list_of_texts(value) ||
		       wrong(run, path, key, "it is not a list of names");
	}
	if (text_is(key, text_of("world_size"))) {
		policy->world_size = value.integer;
		return (value.kind == FSDP_DOCUMENT_INTEGER && value.integer > 0) ||
		       wrong(run, path, key, "it is not a number of ranks");
	}
	return wrong(run, path, key,
		"no such key: one of rules, fail_on, allow_globals, world_size, dtypes");
}

bool policy_open(
	struct policy *policy, struct run *run, const char *path, struct levels *levels)
{
	struct fsdp_error *error = NULL;
	struct fsdp_document_value root;
	bool good = true;

	policy->world_size = -1;
	if (path == NULL)
		return true;
	if (!fsdp_document_open(
		    path, run->limits, run->limit_count, &policy->document, &error)) {
		refuse(run, "fsdp-inspect help policy", "%s: %s", path,
			error != NULL ? fsdp_error_message(error) : "out of memory");
		fsdp_error_free(error);
		return false;
	}
	root = fsdp_document_root(policy->document);
	if (root.kind != FSDP_DOCUMENT_OBJECT)
		return !refuse(run, "fsdp-inspect help policy",
			"%s: it is not a JSON object", path);
	for (size_t i = 0; good && i < root.count; i++)
		good = set_key(policy, run, path, fsdp_document_item(root, i), levels);
	return good;
}

void policy_done(struct policy *policy)
{
	fsdp_document_free(policy->document);
}

bool policy_lies_in(const char *path, const char *checkpoint)
{
	char *file = realpath(path, NULL), *folder = realpath(checkpoint, NULL);
	size_t size = folder != NULL ? strlen(folder) : 0;
	bool inside = file != NULL && folder != NULL &&
		      strncmp(file, folder, size) == 0 && file[size] == '/';

	free(file);
	free(folder);
	return inside;
}

/* ---- judging ---- */

static bool has_text(struct fsdp_document_value list, struct text text)
{
	for (size_t i = 0; i < list.count; i++)
		if (text_is(text_of_span(fsdp_document_item(list, i).text), text))
			return true;
	return false;
}

bool policy_allows(const struct policy *policy, struct text global)
{
	return global.data != NULL && has_text(policy->globals, global);
}

static void judge_world(const struct policy *policy, struct run *run)
{
	uint32_t world = fsdp_checkpoint_world_size(run->checkpoint);

	if (policy->world_size < 0 || world == policy->world_size)
		return;
	if (world == FSDP_NONE)
		run_finding(run, "FI6007",
			"the policy wants a world size of %lld, the checkpoint records none",
			(long long)policy->world_size);
	else
		run_finding(run, "FI6007",
			"the policy wants a world size of %lld, the checkpoint has %u",
			(long long)policy->world_size, (unsigned)world);
}

/* One finding for each dtype that is not allowed. */
static void judge_dtypes(const struct policy *policy, struct run *run)
{
	size_t count = fsdp_tensor_count(run->checkpoint), dtypes = fsdp_dtype_count();
	uint64_t *tensors;

	if (policy->dtypes.kind == FSDP_DOCUMENT_ABSENT)
		return;
	tensors = calloc(dtypes + 1, sizeof *tensors);
	if (tensors == NULL) {
		run_failure(run, "memory", NULL, "out of memory");
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(run->checkpoint, i);

		if (tensor.role == FSDP_ROLE_PARAM || tensor.role == FSDP_ROLE_BUFFER)
			tensors[tensor.dtype < dtypes ? tensor.dtype : 0]++;
	}
	for (uint32_t i = 0; i < dtypes; i++)
		if (tensors[i] > 0 &&
			!has_text(policy->dtypes, text_of(fsdp_dtype(i)->name)))
			run_finding(run, "FI6007",
				tensors[i] == 1
					? "%llu parameter or buffer is %s, which the policy does not allow"
					: "%llu parameters and buffers are %s, which the policy does not allow",
				(unsigned long long)tensors[i], fsdp_dtype(i)->name);
	free(tensors);
}

void policy_judge(const struct policy *policy, struct run *run)
{
	judge_world(policy, run);
	judge_dtypes(policy, run);
}
