/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the pickles of a file: opens it, finds them, and keeps of each what it names and
 * what torch would refuse of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/num.h"
#include "io/zip.h"
#include "opening.h"
#include "pickles-private.h"

/* What torch.save wrote before 1.6 begins with these, and has five pickles. */
#define LEGACY "\200\002\212\012l\374\234F\371 j\250P\031."
enum { LEGACY_STREAMS = 5, NAME_ROOM = 4 * FSDP_SHOWN };

/* ---- what torch would refuse ---- */

static bool refuse(struct fsdp_listed *listed, uint64_t offset, struct fsdp_span what,
	const char *why, uint64_t count)
{
	const struct fsdp_pickles_refusal refusal = { offset, what, why, count };
	return fsdp_vec_add(&listed->refusals, &refusal);
}

static bool refuse_opcodes(struct fsdp_listed *listed)
{
	uint64_t first[UINT8_MAX + 1], count[UINT8_MAX + 1] = { 0 }, at = 0, begin = 0;
	const struct fsdp_pickle_opcode *opcode;
	struct fsdp_span argument;
	while ((opcode = fsdp_pickle_next_opcode(listed->bytes, &at, &argument, NULL)) !=
		NULL) {
		if (!opcode->torch && count[opcode->code]++ == 0)
			first[opcode->code] = begin;
		begin = at;
	}
	for (unsigned i = 0; i <= UINT8_MAX; i++) {
		if (count[i] == 0)
			continue;
		const char *name = fsdp_pickle_opcode((uint8_t)i)->name;
		if (!refuse(listed, listed->facts.offset + first[i], fsdp_span_text(name),
			    "the restricted unpickler does not know this opcode",
			    count[i]))
			return false;
	}
	return true;
}

/* NULL: it is accepted. */
static const char *why_refused(const struct fsdp_pickles_global *global)
{
	static const char *const never[] = { "sys", "os", "posix", "nt" };
	for (size_t i = 0; i < FSDP_COUNT(never); i++)
		if (fsdp_span_is(global->module, never[i]))
			return "names of this module are never allowed";
	if (global->profile == NULL)
		return "it is on no list of known data";
	if (strcmp(global->profile, "torch") == 0)
		return NULL;
	return strcmp(global->profile, "dtensor") == 0
		       ? "it needs import torch.distributed.tensor"
		       : "it needs torch.serialization.add_safe_globals";
}

/* "module.name" in the arena. */
static struct fsdp_span join_name(
	struct fsdp_pickles *pickles, const struct fsdp_pickles_global *global)
{
	size_t size = global->module.size + 1 + global->name.size;
	char *text = fsdp_arena_take(&pickles->arena, size + 1, 1);
	if (text == NULL)
		return (struct fsdp_span){ 0 };
	if (global->module.size != 0)
		memcpy(text, global->module.data, global->module.size);
	text[global->module.size] = '.';
	if (global->name.size != 0)
		memcpy(text + global->module.size + 1, global->name.data,
			global->name.size);
	return fsdp_span(text, size);
}

static bool refuse_globals(struct fsdp_pickles *pickles, struct fsdp_listed *listed)
{
	for (size_t i = 0; i < listed->globals.count; i++) {
		const struct fsdp_pickles_global *global =
			fsdp_vec_at(&listed->globals, i);
		const char *why = why_refused(global);
		if (why == NULL)
			continue;
		struct fsdp_span name = join_name(pickles, global);
		if (name.data == NULL || !refuse(listed, global->offset, name, why, 1))
			return false;
	}
	return true;
}

/* ---- one pickle ---- */

static const char *use_of(unsigned uses)
{
	return uses & FSDP_USE_CALLED  ? "called"
	       : uses & FSDP_USE_BUILT ? "built"
				       : "value";
}

static bool list_globals(struct fsdp_listed *listed, const struct fsdp_torch *torch)
{
	size_t count = fsdp_pickle_global_count(listed->pickle);
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_pickle_global *global =
			fsdp_pickle_global(listed->pickle, i);
		struct fsdp_pickles_global one = {
			.module = global->module,
			.name = global->name,
			.written_module = global->written_module,
			.written_name = global->written_name,
			.offset = listed->facts.offset + global->offset,
			.use = use_of(global->uses),
			.profile = fsdp_torch_profile_of(torch, global),
		};
		one.allowed = one.profile != NULL;
		if (!fsdp_vec_add(&listed->globals, &one))
			return false;
	}
	return true;
}

static void take_protocol(struct fsdp_listed *listed)
{
	bool told = listed->bytes.size >= 2 && listed->bytes.data[0] == FSDP_OP_PROTO;
	listed->facts.protocol = told ? listed->bytes.data[1] : -1;
}

/* Reads it as data: no class is known, so that all of it stays a tree. */
static bool read_tree(struct fsdp_pickles *pickles, struct fsdp_listed *listed,
	struct fsdp_torch *torch, struct fsdp_error **ret_error)
{
	struct fsdp_pickle_options options = {
		.limits = &pickles->limits,
		.findings = &pickles->model.findings,
		.may_trail = true,
	};
	struct fsdp_error *error = NULL;
	fsdp_torch_watch(torch, &options, listed->bytes.size, 0);
	listed->facts.complete = fsdp_pickle_read(
		listed->bytes, &pickles->arena, &options, &listed->pickle, &error);
	if (!listed->facts.complete && fsdp_error_code(error) == FSDP_ERROR_MEMORY) {
		*ret_error = error;
		return false;
	}
	listed->error = error;
	if (listed->facts.complete)
		listed->facts.length = fsdp_pickle_length(listed->pickle);
	return true;
}

/* Adds the pickle that begins these bytes, which the arena holds. */
static bool add(struct fsdp_pickles *pickles, struct fsdp_span member,
	struct fsdp_span bytes, uint64_t offset, enum fsdp_profile profile,
	struct fsdp_error **ret_error)
{
	struct fsdp_listed *listed = fsdp_vec_push(&pickles->list);
	struct fsdp_torch torch = { 0 };
	if (listed == NULL)
		return fsdp_arena_fail(&pickles->arena, ret_error);
	*listed = (struct fsdp_listed){
		.facts = { .member = member, .offset = offset, .length = bytes.size },
		.bytes = bytes,
	};
	fsdp_vec_init(
		&listed->globals, &pickles->arena, sizeof(struct fsdp_pickles_global));
	fsdp_vec_init(
		&listed->refusals, &pickles->arena, sizeof(struct fsdp_pickles_refusal));
	take_protocol(listed);
	if (!fsdp_torch_init(&torch, &pickles->model, &pickles->arena, &pickles->arena,
		    (struct fsdp_span){ 0 }, member, ret_error))
		return false;
	torch.profile = profile;
	if (!read_tree(pickles, listed, &torch, ret_error))
		return false;
	listed->facts.error = listed->error;
	if ((listed->pickle != NULL && !list_globals(listed, &torch)) ||
		!refuse_opcodes(listed) || !refuse_globals(pickles, listed))
		return fsdp_arena_fail(&pickles->arena, ret_error);
	listed->facts.global_count = listed->globals.count;
	return true;
}

/* ---- where they are ---- */

static bool read_member(struct fsdp_pickles *pickles, const struct fsdp_zip *zip,
	const struct fsdp_zip_member *member, enum fsdp_profile profile,
	struct fsdp_error **ret_error)
{
	struct fsdp_span bytes;
	uint64_t offset;
	return fsdp_zip_locate(&zip->source, member, &offset, ret_error) &&
	       fsdp_zip_read(zip, member,
		       fsdp_limit(&pickles->limits, FSDP_LIMIT_PICKLE_BYTES),
		       &pickles->arena, &bytes, ret_error) &&
	       add(pickles, member->name, bytes, offset, profile, ret_error);
}

/* TorchScript has its own loader, which weights_only refuses as a whole. */
static bool refuse_script(struct fsdp_pickles *pickles, struct fsdp_error **ret_error)
{
	struct fsdp_listed *listed = fsdp_vec_at(&pickles->list, 0);
	return refuse(listed, listed->facts.offset, FSDP_SPAN("TorchScript"),
		       "torch.load hands such a file to a loader that runs its code",
		       1) ||
	       fsdp_arena_fail(&pickles->arena, ret_error);
}

static bool is_wanted(
	const struct fsdp_pickles_options *options, const struct fsdp_zip_member *member)
{
	return options->member != NULL ? fsdp_span_is(member->name, options->member)
				       : fsdp_span_ends(member->name, FSDP_SPAN(".pkl"));
}

static bool read_zip(struct fsdp_pickles *pickles,
	const struct fsdp_pickles_options *options, struct fsdp_error **ret_error)
{
	struct fsdp_zip zip;
	bool script = false;
	if (!fsdp_zip_open(&pickles->source, &pickles->arena, &pickles->limits,
		    (struct fsdp_span){ 0 }, &pickles->model.findings, &zip, ret_error))
		return false;
	for (size_t i = 0; i < zip.members.count; i++)
		script |= fsdp_span_ends(
			fsdp_zip_member(&zip, i)->name, FSDP_SPAN("/constants.pkl"));
	for (size_t i = 0; i < zip.members.count; i++)
		if (is_wanted(options, fsdp_zip_member(&zip, i)) &&
			!read_member(pickles, &zip, fsdp_zip_member(&zip, i),
				script ? FSDP_PROFILE_SCRIPT : FSDP_PROFILE_TENSORS,
				ret_error))
			return false;
	if (pickles->list.count == 0)
		return fsdp_fail(ret_error, FSDP_ERROR_NOT_A_CHECKPOINT, FSDP_UNKNOWN,
			options->member != NULL ? "the zip has no such member"
						: "the zip holds no pickle");
	return !script || refuse_script(pickles, ret_error);
}

/* One behind the other; the storages behind those of a legacy file are none. */
static bool read_streams(struct fsdp_pickles *pickles, bool legacy,
	enum fsdp_profile profile, struct fsdp_error **ret_error)
{
	uint64_t at = 0,
		 most = legacy ? LEGACY_STREAMS
			       : fsdp_limit(&pickles->limits, FSDP_LIMIT_PICKLE_STREAMS);
	bool whole = true;
	for (uint64_t i = 0; i < most && at < pickles->source.size && whole; i++) {
		struct fsdp_span bytes;
		uint64_t begin = at;
		if (!fsdp_torch_next_pickle(&pickles->source, &at, &pickles->limits,
			    &pickles->arena, &bytes, ret_error) ||
			!add(pickles, (struct fsdp_span){ 0 }, bytes, begin, profile,
				ret_error))
			return false;
		whole = fsdp_listed(pickles, pickles->list.count - 1)->facts.complete;
	}
	return true;
}

static bool begins_with(struct fsdp_span head, const char *bytes, size_t size)
{
	return fsdp_span_begins(head, fsdp_span(bytes, size));
}

static bool is_metadata(const char *path)
{
	return fsdp_span_ends(fsdp_span_text(path), FSDP_SPAN(".metadata"));
}

static bool read_file(struct fsdp_pickles *pickles, const char *path,
	const struct fsdp_pickles_options *options, struct fsdp_error **ret_error)
{
	unsigned char head[FSDP_HEAD_BYTES];
	struct fsdp_look look;
	if (!fsdp_look_at_head(
		    &pickles->source, fsdp_span_text(path), head, &look, ret_error))
		return false;
	if (begins_with(look.head, "PK\3\4", 4))
		return read_zip(pickles, options, ret_error);
	if (options->member != NULL)
		return fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"the file is not a zip, so it has no members");
	const struct fsdp_family *family = fsdp_registry_choose(&look);
	if (family == NULL && pickles->source.size != 0)
		return fsdp_foreign(&look, ret_error);
	if (family == NULL || !family->has_pickles)
		return fsdp_fail(ret_error, FSDP_ERROR_NOT_A_CHECKPOINT, FSDP_UNKNOWN,
			pickles->source.size == 0 ? "the file is empty"
						  : "the file holds no pickle");
	return read_streams(pickles, begins_with(look.head, LEGACY, sizeof LEGACY - 1),
		is_metadata(path) ? FSDP_PROFILE_METADATA : FSDP_PROFILE_TENSORS,
		ret_error);
}

/* ---- the object ---- */

static bool begin(struct fsdp_pickles *pickles, const char *path,
	const struct fsdp_pickles_options *options, struct fsdp_error **ret_error)
{
	pickles->source.fd = -1;
	if (!fsdp_limits_choose(
		    &pickles->limits, options->limits, options->limit_count, ret_error))
		return false;
	fsdp_budget_init(&pickles->budget, &pickles->limits);
	fsdp_arena_init(&pickles->arena, &pickles->budget);
	fsdp_vec_init(&pickles->list, &pickles->arena, sizeof(struct fsdp_listed));
	if (!fsdp_file_open(path, &pickles->source, ret_error))
		return false;
	fsdp_budget_give(&pickles->budget, pickles->source.size);
	return fsdp_build_init(
		&pickles->model, &pickles->arena, &pickles->limits, ret_error);
}

bool fsdp_pickles_open(const char *path, const struct fsdp_pickles_options *options,
	struct fsdp_pickles **ret_pickles, struct fsdp_error **ret_error)
{
	static const struct fsdp_pickles_options defaults = { .size = sizeof defaults };
	struct fsdp_error *local = NULL;
	struct fsdp_pickles *pickles = calloc(1, sizeof *pickles);
	if (ret_error == NULL)
		ret_error = &local;
	if (options == NULL)
		options = &defaults;
	bool good = pickles != NULL && begin(pickles, path, options, ret_error) &&
		    read_file(pickles, path, options, ret_error);
	if (good) {
		*ret_pickles = pickles;
	} else {
		fsdp_fail_memory(ret_error); /* unless there is an error */
		fsdp_error_add_path(ret_error, path);
		fsdp_pickles_free(pickles);
	}
	fsdp_error_free(local);
	return good;
}

void fsdp_pickles_free(struct fsdp_pickles *pickles)
{
	if (pickles == NULL)
		return;
	for (size_t i = 0; i < pickles->list.count; i++)
		fsdp_error_free(fsdp_listed(pickles, i)->error);
	fsdp_arena_done(&pickles->arena);
	if (pickles->source.fd >= 0)
		close(pickles->source.fd);
	free(pickles);
}

/* ---- what it says ---- */

bool fsdp_pickles_never_allowed(struct fsdp_span name)
{
	return fsdp_torch_is_gadget(name);
}

size_t fsdp_pickles_count(const struct fsdp_pickles *pickles)
{
	return pickles->list.count;
}

struct fsdp_pickles_stream fsdp_pickles_stream(
	const struct fsdp_pickles *pickles, size_t stream)
{
	const struct fsdp_listed *listed = fsdp_listed(pickles, stream);
	struct fsdp_pickles_stream facts = listed->facts;
	facts.refusal_count = listed->refusals.count;
	return facts;
}

struct fsdp_pickles_global fsdp_pickles_global(
	const struct fsdp_pickles *pickles, size_t stream, size_t index)
{
	return *(const struct fsdp_pickles_global *)fsdp_vec_at(
		&fsdp_listed(pickles, stream)->globals, index);
}

struct fsdp_pickles_refusal fsdp_pickles_refusal(
	const struct fsdp_pickles *pickles, size_t stream, size_t index)
{
	return *(const struct fsdp_pickles_refusal *)fsdp_vec_at(
		&fsdp_listed(pickles, stream)->refusals, index);
}
