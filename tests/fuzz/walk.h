/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_FUZZ_WALK_H
#define FSDP_FUZZ_WALK_H

/*
 * What the targets of whole checkpoints share: bytes become a file that only this process
 * can name, the door opens it, and every getter is asked for everything. What the public
 * headers promise of the answers is insisted upon.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fsdp/analysis.h>
#include <fsdp/audit.h>
#include <fsdp/checkpoint.h>
#include <fsdp/elements.h>
#include <fsdp/compare.h>
#include <fsdp/export.h>
#include <fsdp/model.h>
#include <fsdp/pickle.h>

enum { WALK_NAME = 1 << 12, WALK_NAMES = 1 << 19, WALK_FIRST = 16, WALK_MOST = 20000 };

static inline void must(bool held)
{
	if (!held)
		abort();
}

/* ---- bytes as a file ---- */

struct walk_file {
	int fd;
	char path[32];
};

static inline struct walk_file walk_file_new(const void *data, size_t size)
{
	struct walk_file file = { .fd = memfd_create("fuzz", MFD_CLOEXEC) };
	must(file.fd >= 0);
	for (size_t done = 0; done < size;) {
		ssize_t wrote = write(file.fd, (const char *)data + done, size - done);
		must(wrote > 0);
		done += (size_t)wrote;
	}
	snprintf(file.path, sizeof file.path, "/proc/self/fd/%d", file.fd);
	return file;
}

/* ---- looking at everything ---- */

struct walk {
	struct fsdp_checkpoint *checkpoint;
	struct fsdp_locator *locator;
	volatile unsigned sink;
	char *name;     /* room for the longest that is looked at */
	size_t written; /* into it, in all: names of deep trees are long */
};

static inline void walk_span(struct walk *walk, struct fsdp_span span)
{
	must(span.data != NULL || span.size == 0);
	for (size_t i = 0; i < span.size; i++)
		walk->sink += span.data[i];
}

static inline void walk_text(struct walk *walk, const char *text)
{
	if (text != NULL)
		walk->sink += (unsigned)strlen(text);
}

static inline void walk_ints(struct walk *walk, const int64_t *items, size_t count)
{
	for (size_t i = 0; items != NULL && i < count; i++)
		walk->sink += (unsigned)items[i];
}

static inline struct fsdp_span walk_name(struct walk *walk, uint32_t name)
{
	if (walk->written > WALK_NAMES)
		return (struct fsdp_span){ 0 };
	size_t size = fsdp_name_write(walk->checkpoint, name, walk->name, WALK_NAME);
	walk->written += size;
	if (size > WALK_NAME)
		return (struct fsdp_span){ 0 };
	struct fsdp_span text = { (const unsigned char *)walk->name, size };
	if (size != 0)
		must(fsdp_name_find(walk->checkpoint, text) == name);
	return text;
}

static inline void walk_path(struct walk *walk, uint32_t raw_name, uint32_t path)
{
	struct fsdp_span text = walk_name(walk, raw_name);
	uint64_t state = 0;
	struct fsdp_path_part part;
	if (text.data == NULL)
		return;
	(void)fsdp_path_is_plain(walk->checkpoint, path, text);
	while (fsdp_path_next(walk->checkpoint, path, text, &state, &part))
		walk_span(walk, part.text);
}

static inline void walk_placement(struct walk *walk, uint32_t index)
{
	if (index == FSDP_NONE)
		return;
	struct fsdp_placement placement = fsdp_placement(walk->checkpoint, index);
	for (uint32_t i = 0; i < placement.count; i++)
		walk_span(walk, placement.texts[i]);
	if (placement.mesh == FSDP_NONE)
		return;
	struct fsdp_mesh mesh = fsdp_mesh(walk->checkpoint, placement.mesh);
	walk_ints(walk, mesh.shape, mesh.dims);
	walk_ints(walk, mesh.ranks, mesh.rank_count);
	for (uint32_t i = 0; mesh.dim_names != NULL && i < mesh.dims; i++)
		walk_span(walk, mesh.dim_names[i]);
}

static inline void walk_piece(struct walk *walk, uint32_t index)
{
	struct fsdp_piece piece = fsdp_piece(walk->checkpoint, index);
	struct fsdp_place place;
	struct fsdp_error *error = NULL;
	must(piece.dims <= 64);
	walk_ints(walk, piece.offsets, piece.dims);
	walk_ints(walk, piece.sizes, piece.dims);
	walk_ints(walk, piece.strides, piece.dims);
	walk_span(walk, piece.storage);
	if (piece.file != FSDP_NONE)
		must(piece.file < fsdp_file_count(walk->checkpoint));
	if (fsdp_piece_locate(walk->locator, index, &place, &error)) {
		uint64_t size = fsdp_file(walk->checkpoint, piece.file).size;
		must(place.length <= size && place.offset <= size - place.length);
		must(place.item_length <= size &&
			place.item_offset <= size - place.item_length);
		walk_span(walk, place.storage);
		walk_ints(walk, place.strides, place.dims);
	} else {
		must(error != NULL);
		walk_text(walk, fsdp_error_message(error));
	}
	fsdp_error_free(error);
}

static inline void walk_elements(struct walk *walk, uint32_t index)
{
	const struct fsdp_elements_options options = {
		.size = sizeof options,
		.count = WALK_FIRST,
		.resolve = index % 2 != 0,
	};
	struct fsdp_tensor tensor = fsdp_tensor(walk->checkpoint, index);
	struct fsdp_elements *elements = NULL;
	struct fsdp_error *error = NULL;
	struct fsdp_span bytes = { NULL, 1 };
	uint64_t most = tensor.numel < WALK_FIRST ? tensor.numel : WALK_FIRST, size = 0;
	if (fsdp_elements_open(walk->locator, index, &options, &elements, &error))
		while (bytes.size != 0 && fsdp_elements_next(elements, &bytes, &error)) {
			walk_span(walk, bytes);
			size += bytes.size;
		}
	must((error == NULL) == (elements != NULL && bytes.size == 0));
	must(size <= most * fsdp_dtype(tensor.dtype)->storage_bytes);
	fsdp_elements_close(elements);
	fsdp_error_free(error);
}

static inline void walk_tensor(struct walk *walk, uint32_t index)
{
	const struct fsdp_checkpoint *checkpoint = walk->checkpoint;
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, index);
	size_t count = fsdp_tensor_count(checkpoint);
	must(tensor.dims <= 64);
	walk_ints(walk, tensor.shape, tensor.dims);
	walk_text(walk, tensor.class_name);
	walk_text(walk, tensor.dtype_raw);
	walk_text(walk, tensor.layout);
	walk_text(walk, tensor.device);
	walk_text(walk, fsdp_dtype(tensor.dtype)->name);
	walk_text(walk, fsdp_role_name(tensor.role));
	walk_path(walk, tensor.raw_name, tensor.path);
	struct fsdp_span name = walk_name(walk, tensor.name);
	if (index < count && name.size != 0) {
		uint32_t found = fsdp_tensor_find(checkpoint, name);
		must(found < count && fsdp_tensor(checkpoint, found).name == tensor.name);
	}
	if (tensor.alias != FSDP_NONE)
		must(index < count && tensor.alias < count && tensor.alias != index &&
			fsdp_tensor(checkpoint, tensor.alias).alias == FSDP_NONE);
	if (tensor.module != FSDP_NONE)
		must(tensor.module < fsdp_module_count(checkpoint));
	if (tensor.unit != FSDP_NONE)
		must(tensor.unit < fsdp_unit_count(checkpoint));
	if (tensor.quantizer != FSDP_NONE)
		walk_text(walk, fsdp_quantizer(checkpoint, tensor.quantizer).scheme);
	must((uint64_t)tensor.first_piece + tensor.piece_count <=
		fsdp_piece_count(checkpoint));
	if (tensor.component_count != 0)
		must(tensor.first_component >= count);
	walk_placement(walk, tensor.placement);
	walk_elements(walk, index);
	walk_span(walk, fsdp_tensor_declared(checkpoint, index, 0));
	for (uint32_t i = 0; i < tensor.component_count && index < count; i++)
		walk_text(walk,
			fsdp_tensor(checkpoint, tensor.first_component + i).class_name);
}

static inline void walk_tensors(struct walk *walk)
{
	const struct fsdp_checkpoint *checkpoint = walk->checkpoint;
	size_t count = fsdp_tensor_count(checkpoint);
	for (uint32_t i = 0; i < count && i < WALK_MOST; i++) {
		walk_tensor(walk, i);
		if (i != 0)
			must(fsdp_name_compare(checkpoint,
				     fsdp_tensor(checkpoint, i - 1).name,
				     fsdp_tensor(checkpoint, i).name) <= 0);
	}
	if (count == 0)
		return;
	/* Once around the ring of the first tensor. */
	uint32_t at = 0;
	size_t steps = 0;
	do {
		at = fsdp_tensor_storage_next(checkpoint, at);
		must(at < count && steps++ < count);
	} while (at != 0);
}

static inline void walk_modules(struct walk *walk)
{
	const struct fsdp_checkpoint *checkpoint = walk->checkpoint;
	size_t count = fsdp_module_count(checkpoint);
	for (uint32_t i = 0; i < count && i < WALK_MOST; i++) {
		struct fsdp_module module = fsdp_module(checkpoint, i);
		must(i == 0 ? module.parent == FSDP_NONE : module.parent < i);
		if (i != 0)
			must(module.depth ==
				fsdp_module(checkpoint, module.parent).depth + 1);
		must(module.shown_depth <= module.depth);
		must(module.same_as == FSDP_NONE || module.same_as < i);
		must(module.unit == FSDP_NONE ||
			module.unit < fsdp_unit_count(checkpoint));
		walk_text(walk, module.class_name);
		walk_text(walk, module.original_class);
		walk_text(walk, fsdp_wrapper_name(module.wrapper));
		walk_name(walk, module.name);
		walk_name(walk, module.raw_name);
		walk_name(walk, fsdp_module_torch_prefix(checkpoint, i));
		walk_name(walk, fsdp_module_torch_clean_prefix(checkpoint, i));
		for (uint32_t k = 0; k < module.tensor_count; k++)
			must(fsdp_tensor(checkpoint,
				     fsdp_module_tensor(checkpoint, &module, k))
					.module == i);
	}
}

static inline void walk_units(struct walk *walk)
{
	const struct fsdp_checkpoint *checkpoint = walk->checkpoint;
	size_t count = fsdp_unit_count(checkpoint);
	for (uint32_t i = 0; i < count && i < WALK_MOST; i++) {
		struct fsdp_unit unit = fsdp_unit(checkpoint, i);
		bool full;
		must(unit.module < fsdp_module_count(checkpoint));
		walk_text(walk, unit.api);
		walk_text(walk, unit.strategy);
		for (uint32_t k = 0; k < unit.mixed_precision_count; k++) {
			walk_text(walk, unit.mixed_precision[k].key);
			walk_text(walk, unit.mixed_precision[k].value);
		}
		for (uint32_t k = 0; k < unit.fqn_count && k < WALK_MOST; k++)
			walk_name(walk, fsdp_unit_fqn(checkpoint, &unit, k, &full));
		if (unit.mesh != FSDP_NONE)
			walk_ints(walk, fsdp_mesh(checkpoint, unit.mesh).shape, 1);
	}
}

/* Tokens stand in pre-order: what the containers count is what follows. */
static inline void walk_tokens(struct walk *walk, const struct fsdp_value *value)
{
	uint64_t open = value->token_count != 0;
	for (size_t i = 0; i < value->token_count; i++) {
		const struct fsdp_token *token = &value->tokens[i];
		must(open != 0);
		open += token->kind == FSDP_TOKEN_DICT ? 2 * (uint64_t)token->count
			: token->kind >= FSDP_TOKEN_LIST &&
					token->kind <= FSDP_TOKEN_OBJECT
				? token->count
				: 0;
		open--;
		walk_span(walk, token->text);
	}
	must(open == 0);
}

static inline void walk_values(struct walk *walk)
{
	size_t count = fsdp_value_count(walk->checkpoint);
	for (uint32_t i = 0; i < count && i < WALK_MOST; i++) {
		struct fsdp_value value = fsdp_value(walk->checkpoint, i);
		walk_path(walk, value.raw_name, value.path);
		walk_name(walk, value.name);
		walk_text(walk, value.type);
		if (value.tokens != NULL)
			walk_tokens(walk, &value);
		if (value.file != FSDP_NONE)
			must(value.file < fsdp_file_count(walk->checkpoint));
	}
}

/* What a setting holds lies behind it, and inside of what holds it. */
static inline void walk_settings(struct walk *walk)
{
	size_t count = fsdp_setting_count(walk->checkpoint);
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_setting setting = fsdp_setting(walk->checkpoint, i);
		uint32_t items = 0;
		walk_span(walk, setting.key);
		walk_span(walk, setting.value.text);
		must(setting.end <= count);
		must(setting.file < fsdp_file_count(walk->checkpoint));
		for (uint32_t at = i + 1; at < setting.end && i < WALK_MOST; items++)
			at = fsdp_setting(walk->checkpoint, at).end;
		must(i >= WALK_MOST || items == setting.value.count);
	}
}

/* No input is a reason for a fault of ours. */
static inline void walk_error(struct walk *walk, const struct fsdp_error *error)
{
	must(error != NULL && fsdp_error_code(error) != FSDP_ERROR_INTERNAL);
	walk_text(walk, fsdp_error_message(error));
}

static inline void walk_head(struct walk *walk)
{
	const struct fsdp_checkpoint *checkpoint = walk->checkpoint;
	struct fsdp_format format = fsdp_checkpoint_format(checkpoint);
	struct fsdp_plan_facts plan;
	size_t count;
	const uint32_t *ranks = fsdp_checkpoint_ranks(checkpoint, &count);
	for (size_t i = 1; i < count; i++)
		must(ranks[i - 1] < ranks[i]);
	walk_text(walk, format.family);
	walk_text(walk, format.title);
	walk_text(walk, format.writer);
	walk_text(walk, format.torch_guess);
	if (fsdp_checkpoint_plan(checkpoint, &plan)) {
		walk_text(walk, plan.path);
		walk_text(walk, plan.torch);
	}
	(void)fsdp_checkpoint_bytes(checkpoint);
	for (size_t i = 0; fsdp_checkpoint_message(checkpoint, i) != NULL; i++)
		walk_text(walk, fsdp_checkpoint_message(checkpoint, i));
	for (size_t i = 0; i < fsdp_file_count(checkpoint); i++)
		walk_span(walk, fsdp_file(checkpoint, i).path);
	for (size_t i = 0; i < fsdp_prefix_count(checkpoint); i++)
		walk_text(walk, fsdp_prefix(checkpoint, i).prefix);
	for (size_t i = 0; i < fsdp_checkpoint_error_count(checkpoint); i++)
		walk_error(walk, fsdp_checkpoint_error(checkpoint, i));
	for (size_t i = 0; i < fsdp_omitted_count(checkpoint); i++)
		must(fsdp_omitted(checkpoint, i).count != 0);
	for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++) {
		const struct fsdp_finding *finding = fsdp_finding(checkpoint, i);
		walk_span(walk, finding->message);
		walk_span(walk, finding->tensor);
		walk_span(walk, finding->module);
		walk_span(walk, finding->file);
		walk_span(walk, finding->member);
	}
}

static inline bool walk_begin(
	struct walk *walk, const char *path, const char *plan_path, bool only_counts)
{
	static const struct fsdp_limit_setting limits[] = {
		{ "memory", UINT64_C(512) << 20 },
		{ "inflate-bytes", 64 << 20 },
		{ "stdin-bytes", 64 << 20 },
	};
	struct fsdp_options options = {
		.size = sizeof options,
		.limits = limits,
		.limit_count = sizeof limits / sizeof *limits,
		.plan_path = plan_path,
		.no_plan = plan_path == NULL,
		.read_values = true,
		.only_counts = only_counts,
	};
	struct fsdp_error *error = NULL;
	if (!fsdp_checkpoint_open(&path, 1, &options, &walk->checkpoint, &error)) {
		must(walk->checkpoint == NULL);
		walk_error(walk, error);
		fsdp_error_free(error);
		return false;
	}
	must(error == NULL);
	return true;
}

/* ---- what follows from the facts ---- */

static inline void walk_overview(const struct fsdp_checkpoint *checkpoint)
{
	const struct fsdp_overview_facts *facts;
	struct fsdp_overview *overview;
	uint64_t tensors = 0;
	must(fsdp_overview_new(checkpoint, &overview, NULL));
	facts = fsdp_overview_facts(overview);
	for (size_t i = 0; i < FSDP_ROLE_COUNT; i++)
		tensors += facts->roles[i].tensors;
	must(fsdp_sum_count(checkpoint) != 0 || tensors == fsdp_tensor_count(checkpoint));
	fsdp_overview_free(overview);
}

/* Every tensor under its two keys, all of them as stored, and likely units. */
static inline void walk_sums(const struct fsdp_checkpoint *checkpoint)
{
	static const enum fsdp_group_key by[] = { FSDP_BY_LAYER, FSDP_BY_PREFIX };
	size_t count = fsdp_tensor_count(checkpoint);
	struct fsdp_pivot *crossed;
	struct fsdp_inferred_units *likely;
	struct fsdp_total total;
	uint64_t tensors = 0;
	uint32_t *all, second;
	if (fsdp_sum_count(checkpoint) != 0)
		return;
	all = malloc((count + 1) * sizeof *all);
	must(all != NULL);
	for (uint32_t i = 0; i < count; i++)
		all[i] = i;
	must(fsdp_pivot_new(checkpoint, by, 2, all, count, NULL, NULL, &crossed, NULL));
	for (size_t i = 0; i < fsdp_pivot_count(crossed); i++)
		tensors += fsdp_pivot_group(crossed, i, &second).tensors;
	must(tensors == count);
	fsdp_pivot_free(crossed);
	must(fsdp_inferred_units_new(checkpoint, &likely, NULL));
	must(!fsdp_inferred_unit(likely, FSDP_NONE));
	fsdp_inferred_units_free(likely);
	must(fsdp_storage_total(checkpoint, all, count, &total, NULL));
	must(total.stored_bytes <= total.bytes);
	free(all);
}

static inline void walk_states(const struct walk *walk)
{
	uint32_t some[64], count = 0;
	struct fsdp_optimizer_states *states;
	while (count < 64 && count < fsdp_tensor_count(walk->checkpoint)) {
		some[count] = count;
		count++;
	}
	must(fsdp_optimizer_states_new(walk->checkpoint, some, count, &states, NULL));
	for (uint32_t i = 0; i < count; i++) {
		size_t found;
		const struct fsdp_state *list =
			fsdp_optimizer_states_of(states, i, &found);
		for (size_t k = 0; k < found; k++) {
			struct fsdp_tensor state =
				fsdp_tensor(walk->checkpoint, list[k].tensor);
			size_t size = fsdp_name_write(
				walk->checkpoint, state.name, walk->name, WALK_NAME);
			must(state.role == FSDP_ROLE_OPTIM &&
				list[k].key_offset <= size &&
				list[k].key_size <= size - list[k].key_offset);
		}
	}
	fsdp_optimizer_states_free(states);
}

static inline void walk_waste(const struct walk *walk)
{
	struct fsdp_unused *waste;
	struct fsdp_place place;
	const uint32_t *asked;
	size_t count;
	must(fsdp_unused_new(walk->checkpoint, &waste, NULL));
	asked = fsdp_unused_to_locate(waste, &count);
	for (size_t i = 0; i < count && i < 100; i++)
		if (fsdp_piece_locate(walk->locator, asked[i], &place, NULL))
			fsdp_unused_place(waste, i, &place);
	must(fsdp_unused_finish(waste, NULL));
	for (size_t i = 0; i < fsdp_unused_count(waste); i++) {
		struct fsdp_unused_row row = fsdp_unused_row(waste, i);
		must(row.used_bytes < row.stored_bytes);
		must(row.view_count > 0 ? fsdp_unused_tensor(waste, &row,
						  row.view_count - 1) != FSDP_NONE
					: row.used_bytes == 0);
	}
	fsdp_unused_free(waste);
}

static inline void walk_copies(const struct walk *walk)
{
	size_t count = fsdp_tensor_count(walk->checkpoint);
	struct fsdp_replicas *replicas;
	must(fsdp_replicas_new(walk->checkpoint, &replicas, NULL));
	for (uint32_t i = 0; i < count && i < WALK_MOST; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(walk->checkpoint, i);
		bool some;
		must(fsdp_replicas_find(replicas, &tensor, &some, NULL));
	}
	fsdp_replicas_free(replicas);
}

static inline void walk_reshard(const struct walk *walk)
{
	static const struct fsdp_reshard_options options[] = {
		{ .world = 3, .shard_dim = FSDP_RESHARD_AUTO },
		{ .world = 8, .copies = 2, .tp = 2, .shard_dim = 1 },
	};
	struct fsdp_reshard *reshard;
	for (size_t i = 0; i < 2; i++) {
		uint32_t at = 0;
		must(fsdp_reshard_new(walk->checkpoint, &options[i], &reshard, NULL));
		for (uint32_t k = 0; k < options[i].world; k++)
			(void)fsdp_reshard_rank(reshard, k);
		while (fsdp_reshard_file(reshard, 0, &at) != FSDP_NONE)
			must(at <= fsdp_file_count(walk->checkpoint));
		for (size_t k = 0; k < fsdp_reshard_uneven_count(reshard); k++)
			(void)fsdp_reshard_is_empty(reshard, k, 1);
		fsdp_reshard_free(reshard);
	}
}

static inline void walk_analyses(const struct walk *walk)
{
	struct fsdp_rank_bytes *shares;
	walk_overview(walk->checkpoint);
	walk_sums(walk->checkpoint);
	walk_states(walk);
	walk_waste(walk);
	walk_copies(walk);
	must(fsdp_rank_bytes_new(walk->checkpoint, &shares, NULL));
	for (uint32_t i = 0; i < fsdp_module_count(walk->checkpoint); i++)
		(void)fsdp_rank_bytes_of(shares, i);
	fsdp_rank_bytes_free(shares);
	walk_reshard(walk);
}

/* What the audit says, and what became of each rule. verify: what its bytes said, or
 * NULL.
 */
static inline void walk_audit(
	struct walk *walk, enum fsdp_level level, const struct fsdp_verify *verify)
{
	const struct fsdp_audit_options options = {
		.size = sizeof options, .level = level, .verify = verify
	};
	struct fsdp_audit *audit = NULL;
	struct fsdp_error *error = NULL;
	if (!fsdp_audit_new(walk->checkpoint, &options, &audit, &error)) {
		walk_error(walk, error);
		fsdp_error_free(error);
		return;
	}
	for (size_t i = 0; i < fsdp_audit_finding_count(audit); i++) {
		const struct fsdp_finding *finding = fsdp_audit_finding(audit, i);
		walk_span(walk, finding->file);
		walk_span(walk, finding->tensor);
		walk_span(walk, finding->module);
		walk_span(walk, finding->message);
		must(finding->affected_kept <= finding->affected_count);
		for (size_t k = 0; k < finding->affected_kept; k++)
			walk_span(walk, finding->affected[k]);
	}
	for (size_t i = 0; i < fsdp_rule_count(); i++) {
		struct fsdp_rule_result result = fsdp_audit_result(audit, i);
		must(result.rule == fsdp_rule(i));
		must((result.findings > 0) == (result.status == FSDP_STATUS_FAILED));
		must((result.reason != FSDP_REASON_NONE) ==
			(result.status == FSDP_STATUS_NOT_EVALUATED));
	}
	fsdp_audit_free(audit);
}

static inline enum fsdp_skip_reason walk_takes(void *context, uint32_t tensor)
{
	(void)context;
	(void)tensor;
	return FSDP_EXPORT_TAKEN;
}

enum { WALK_SMALL = 1 << 16 };

/* What would be written, as shards and as one file; and that, if it is small, to nowhere.
 */
static inline void walk_export(struct walk *walk, enum fsdp_export_form form)
{
	const struct fsdp_export_options options = { .size = sizeof options,
		.form = form,
		.choose = walk_takes,
		.skip_unsupported = true,
		.shard_bytes = 64 };
	struct fsdp_export *plan = NULL;
	struct fsdp_error *error = NULL;
	if (!fsdp_export_new(walk->checkpoint, &options, &plan, &error)) {
		walk_error(walk, error);
		fsdp_error_free(error);
		return;
	}
	struct fsdp_export_facts facts = fsdp_export_facts(plan);
	for (size_t i = 0; i < facts.tensor_count; i++) {
		struct fsdp_export_tensor tensor = fsdp_export_tensor(plan, i);
		walk_span(walk, tensor.name);
		must(tensor.file < facts.file_count);
		must(tensor.bytes <= facts.file_bytes &&
			tensor.offset <= facts.file_bytes - tensor.bytes);
	}
	for (size_t i = 0; i < facts.left_count; i++)
		must(fsdp_export_skipped(plan, i).why != FSDP_EXPORT_TAKEN);
	int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	const struct fsdp_export_target target = {
		.size = sizeof target,
		.stream = nowhere,
	};
	if (form == FSDP_EXPORT_SAFETENSORS && facts.file_bytes < WALK_SMALL &&
		!fsdp_export_write(plan, &target, &error)) {
		walk_error(walk, error);
		fsdp_error_free(error);
	}
	close(nowhere);
	fsdp_export_free(plan);
}

/* A checkpoint is what it is: nothing of it differs, whatever it holds. */
static inline void walk_compare(struct walk *walk)
{
	const struct fsdp_compare_options options = { .size = sizeof options,
		.sides = { { .checkpoint = walk->checkpoint },
			{ .checkpoint = walk->checkpoint } },
		.layout = true };
	const struct fsdp_compare_values_options values = { .size = sizeof values };
	struct fsdp_compare *compare = NULL;
	struct fsdp_error *error = NULL;
	if (!fsdp_compare_new(&options, &compare, &error)) {
		walk_error(walk, error);
		fsdp_error_free(error);
		return;
	}
	if (fsdp_checkpoint_bytes(walk->checkpoint).on_disk < WALK_SMALL &&
		!fsdp_compare_values(compare, &values, &error)) {
		walk_error(walk, error);
		fsdp_error_free(error);
	}
	struct fsdp_compare_facts facts = fsdp_compare_facts(compare);
	must(facts.changed == 0 && facts.rename_count == 0 && facts.value_count == 0);
	must(facts.only_count[0] == 0 && facts.only_count[1] == 0);
	for (size_t i = 0; i < facts.pair_count; i++)
		walk_span(walk, fsdp_compare_pair(compare, i).sides[0].name);
	fsdp_compare_free(compare);
}

/* Counting is another way through the model. */
static inline void walk_counts(const char *path)
{
	struct walk walk = { 0 };
	if (walk_begin(&walk, path, NULL, true)) {
		walk_head(&walk);
		walk_overview(walk.checkpoint);
	}
	fsdp_checkpoint_free(walk.checkpoint);
}

/* ---- its pickles ---- */

static inline void walk_pickle(
	struct walk *walk, const struct fsdp_pickles *pickles, size_t stream)
{
	struct fsdp_pickles_stream facts = fsdp_pickles_stream(pickles, stream);
	struct fsdp_pickles_walk *values = NULL;
	struct fsdp_pickles_node node;
	uint64_t nodes = 0;
	must(facts.complete == (facts.error == NULL));
	walk_span(walk, facts.member);
	for (size_t i = 0; i < facts.global_count; i++) {
		struct fsdp_pickles_global global =
			fsdp_pickles_global(pickles, stream, i);
		must(global.allowed == (global.profile != NULL));
		walk_span(walk, global.module);
		walk_span(walk, global.written_name);
		walk_text(walk, global.use);
	}
	for (size_t i = 0; i < facts.refusal_count; i++)
		walk_span(walk, fsdp_pickles_refusal(pickles, stream, i).what);
	must(fsdp_pickles_walk_new(pickles, stream, &values, NULL));
	for (; nodes < WALK_MOST && fsdp_pickles_walk_next(values, &node); nodes++) {
		must(node.depth <= FSDP_PICKLES_DEPTH &&
			(node.depth == 0) == (nodes == 0));
		walk_span(walk, node.text);
	}
	fsdp_pickles_walk_free(values);
}

static inline void walk_pickles(struct walk *walk, const char *path)
{
	struct fsdp_pickles_options options = { .size = sizeof options };
	struct fsdp_pickles *pickles = NULL;
	if (!fsdp_pickles_open(path, &options, &pickles, NULL))
		return;
	must(fsdp_pickles_count(pickles) != 0);
	for (size_t i = 0; i < fsdp_pickles_count(pickles); i++)
		walk_pickle(walk, pickles, i);
	fsdp_pickles_free(pickles);
}

static inline void walk_open(const char *path, const char *plan_path)
{
	struct walk walk = { 0 };
	struct fsdp_error *error = NULL;
	walk_pickles(&walk, path);
	if (!walk_begin(&walk, path, plan_path, false))
		return;
	walk.name = malloc(WALK_NAME);
	must(walk.name != NULL &&
		fsdp_locator_new(walk.checkpoint, &walk.locator, &error));
	walk_head(&walk);
	walk_tensors(&walk);
	for (uint32_t i = 0; i < fsdp_piece_count(walk.checkpoint) && i < 1000; i++)
		walk_piece(&walk, i);
	walk_modules(&walk);
	walk_units(&walk);
	walk_values(&walk);
	walk_settings(&walk);
	walk_analyses(&walk);
	walk_audit(&walk, FSDP_LEVEL_QUICK, NULL);
	walk_audit(&walk, FSDP_LEVEL_HEADERS, NULL);
	walk_export(&walk, FSDP_EXPORT_HF);
	walk_export(&walk, FSDP_EXPORT_SAFETENSORS);
	walk_compare(&walk);
	free(walk.name);
	fsdp_locator_free(walk.locator);
	fsdp_checkpoint_free(walk.checkpoint);
}

#endif
