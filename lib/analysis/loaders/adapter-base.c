/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An adapter against the base model, if its names are known.
 */
#include <stdio.h>

#include "analysis/loaders/adapter.h"
#include "base/num.h"

/* "x.q_proj" in the base: its weight, or NULL. */
static const struct fsdp_load_tensor *base_of(
	struct fsdp_loading *loading, struct fsdp_span module)
{
	char text[FSDP_ADAPTER_NAME];
	int size = snprintf(text, sizeof text, "%.*s.weight", FSDP_TEXT(module));

	return (size_t)size < sizeof text
		       ? fsdp_load_find_expected(loading, fsdp_span(text, (size_t)size))
		       : NULL;
}

/* A module that is adapted is not in the base. */
bool fsdp_adapter_is_other_base(struct fsdp_loading *loading)
{
	struct fsdp_adapter_walk walk;

	if (loading->options->expected == NULL)
		return false;
	for (fsdp_adapter_begin(&walk, loading); fsdp_adapter_walk_to_live(&walk);)
		if (fsdp_adapter_is_stored_target(loading, walk.name.module) &&
			base_of(loading, walk.name.module) == NULL) {
			fsdp_adapter_say_name(loading, &walk);
			return true;
		}
	return false;
}

/* A Conv1D has its inputs first. */
static uint64_t side_of(struct fsdp_loading *loading, const struct fsdp_load_tensor *base,
	enum fsdp_adapter_size side)
{
	bool is_turned =
		base->dims == 2 && fsdp_adapter_is_set(loading, "fan_in_fan_out");

	return (uint64_t)base->shape[(side == FSDP_ADAPTER_IN) != is_turned];
}

/* IA3 scales what goes into some modules, and what comes out of the others. */
static enum fsdp_adapter_size scaled_side(
	struct fsdp_loading *loading, struct fsdp_span module)
{
	struct fsdp_span word;

	for (uint32_t at = 0;
		fsdp_adapter_next(loading, "feedforward_modules", &at, &word);)
		if (fsdp_adapter_ends(module, word))
			return FSDP_ADAPTER_IN;
	return FSDP_ADAPTER_OUT;
}

/* A vector of IA3 is a row if it scales inputs, and a column if it scales outputs. */
bool fsdp_adapter_is_turned_vector(struct fsdp_loading *loading)
{
	struct fsdp_adapter_walk walk;

	for (fsdp_adapter_begin(&walk, loading); fsdp_adapter_walk_to_live(&walk);) {
		if (walk.name.member->size != FSDP_ADAPTER_SIDE ||
			!fsdp_adapter_is_of_type(loading, "IA3") ||
			!fsdp_adapter_is_stored_target(loading, walk.name.module))
			continue;
		bool is_row = scaled_side(loading, walk.name.module) == FSDP_ADAPTER_IN;
		if (walk.tensor.dims > 2 ||
			(walk.tensor.dims == 2 && walk.tensor.shape[!is_row] == 1))
			continue;
		fsdp_adapter_say_name(loading, &walk);
		fsdp_load_say(loading, 1, "%s", is_row ? "1, N" : "N, 1");
		return true;
	}
	return false;
}

/* What the size of the present member has to be; false: that is not known. */
static bool find_wanted(struct fsdp_loading *loading,
	const struct fsdp_adapter_walk *walk, const struct fsdp_load_tensor *base,
	uint64_t *ret_size)
{
	enum fsdp_adapter_size size = walk->name.member->size;

	if (walk->name.member->unsized_by != 0 &&
		fsdp_adapter_has(walk->form, walk->checkpoint, &walk->name,
			walk->name.member->unsized_by))
		return false;
	if (size == FSDP_ADAPTER_SIDE)
		size = scaled_side(loading, walk->name.module);
	if (size == FSDP_ADAPTER_ANY || base->dims < 2)
		return false;
	if (size == FSDP_ADAPTER_ROWS || size == FSDP_ADAPTER_COLUMNS)
		*ret_size = (uint64_t)base->shape[size == FSDP_ADAPTER_COLUMNS];
	else
		*ret_size = side_of(loading, base, size);
	return true;
}

/* The stored member; false: its shape does not allow one. */
static bool find_stored(struct fsdp_loading *loading,
	const struct fsdp_adapter_walk *walk, uint64_t *ret_size)
{
	const struct fsdp_adapter_member *member = walk->name.member;
	const struct fsdp_tensor *tensor = &walk->tensor;
	int64_t times = 1;

	if (member->size == FSDP_ADAPTER_SIDE)
		return fsdp_numel(tensor->shape, tensor->dims, ret_size);
	if (member->times != NULL)
		times = fsdp_load_integer(loading, FSDP_ADAPTER_CONFIG, member->times, 0);
	if (member->times_at != 0)
		times = fsdp_adapter_size_at(walk, member->times_at);
	return fsdp_adapter_size_at(walk, member->at) >= 0 && times > 0 &&
	       fsdp_mul((uint64_t)fsdp_adapter_size_at(walk, member->at), (uint64_t)times,
		       ret_size);
}

/* The inputs of a convolution are those of a group, and often times its extent. */
static bool fits(const struct fsdp_adapter_walk *walk,
	const struct fsdp_load_tensor *base, uint64_t stored, uint64_t wanted)
{
	if (base->dims > 2 && walk->name.member->size == FSDP_ADAPTER_IN)
		return wanted != 0 && stored % wanted == 0;
	return stored == wanted;
}

#define TRAINED_ON "load it into the base that it was trained on"

/* Word 4: what helps, if nothing of the adapter fits; else some of its tensors are wrong. */
bool fsdp_adapter_has_other_sizes(struct fsdp_loading *loading)
{
	struct fsdp_adapter_walk walk;
	uint64_t wanted;
	bool found = false, fits_some = false;

	for (fsdp_adapter_begin(&walk, loading); fsdp_adapter_walk_to_live(&walk);) {
		const struct fsdp_load_tensor *base = base_of(loading, walk.name.module);
		uint64_t stored = 0;
		if (base == NULL || base->shape == NULL ||
			!fsdp_adapter_is_stored_target(loading, walk.name.module) ||
			!find_wanted(loading, &walk, base, &wanted))
			continue;
		if (find_stored(loading, &walk, &stored) &&
			fits(&walk, base, stored, wanted)) {
			fits_some = true;
			continue;
		}
		if (found)
			continue;
		found = true;
		fsdp_adapter_say_name(loading, &walk);
		fsdp_adapter_say_numbers(loading, (int64_t)stored, (int64_t)wanted);
	}
	fsdp_load_say(loading, 4, "%s", fits_some ? "" : TRAINED_ON);
	return found;
}

/* "x.q_proj.weight" of the base: the module, if an adapter can go there. */
static struct fsdp_span module_of(const struct fsdp_load_expected *wanted)
{
	struct fsdp_span module = wanted->name;

	if (!fsdp_span_ends(module, FSDP_SPAN(".weight")) ||
		(wanted->shape != NULL && wanted->dims < 2))
		return (struct fsdp_span){ 0 };
	module.size -= sizeof ".weight" - 1;
	return module;
}

/* LoRA of single parameters: they are listed by their own names. */
static bool is_parameter_to_adapt(struct fsdp_loading *loading, struct fsdp_span name)
{
	struct fsdp_span word;

	for (uint32_t at = 0;
		fsdp_adapter_next(loading, "target_parameters", &at, &word);)
		if (fsdp_adapter_ends(name, word))
			return true;
	return false;
}

/* Members of an embedding have other names; whether a module is an embedding is derived from the usual names of the
 * base. */
static const struct fsdp_adapter_member *likely_member(
	const struct fsdp_adapter_form *form, struct fsdp_span module)
{
	struct fsdp_span last = fsdp_span_last(module, '.');

	for (size_t i = 0; i < FSDP_ADAPTER_MEMBERS; i++)
		if (form->members[i].size == FSDP_ADAPTER_ROWS &&
			memmem(last.data, last.size, "emb", 3) != NULL)
			return &form->members[i];
	return &form->members[1];
}

/* Targets of the base without stored tensors; `by_pattern`: targets that only a pattern decides. */
static bool lacks_targets(struct fsdp_loading *loading, bool by_pattern)
{
	const struct fsdp_loads_options *options = loading->options;
	struct fsdp_adapter_walk walk;
	bool is_unknown;

	fsdp_adapter_begin(&walk, loading);
	for (size_t i = 0; walk.checkpoint != NULL && i < options->expected_count; i++) {
		const struct fsdp_load_expected *wanted = &options->expected[i];
		struct fsdp_span module = module_of(wanted);
		if (module.data == NULL || module.size > FSDP_ADAPTER_NAME / 2 ||
			(!fsdp_adapter_is_target(loading, module, &is_unknown) &&
				!is_parameter_to_adapt(loading, wanted->name)) ||
			is_unknown != by_pattern ||
			fsdp_adapter_has_module(walk.form, walk.checkpoint, module))
			continue;
		if (loading->all_names == 0)
			fsdp_adapter_say_live(
				loading, module, likely_member(walk.form, module));
		fsdp_load_name(loading, wanted->name);
	}
	return loading->all_names > 0;
}

/* Word 4: what helps, if the base has more layers than the one that was trained on. */
bool fsdp_adapter_lacks_target(struct fsdp_loading *loading)
{
	struct fsdp_adapter_walk walk;
	int64_t last = -1;
	bool is_deeper = !fsdp_adapter_is_other_base(loading);

	for (fsdp_adapter_begin(&walk, loading); fsdp_adapter_walk_to_live(&walk);)
		if (fsdp_adapter_layer(walk.name.module) > last)
			last = fsdp_adapter_layer(walk.name.module);
	if (!lacks_targets(loading, false))
		return false;
	for (size_t i = 0; i < loading->name_count; i++)
		is_deeper &= fsdp_adapter_layer(loading->names[i]) > last;
	fsdp_load_say(loading, 4, "%s", is_deeper && last >= 0 ? TRAINED_ON : "");
	return true;
}

bool fsdp_adapter_may_lack_target(struct fsdp_loading *loading)
{
	return lacks_targets(loading, true);
}

/* Whether the adapter has a bias of the base; it is stored below its module if that is adapted. */
static bool has_bias(const struct fsdp_checkpoint *checkpoint, struct fsdp_span module,
	const char *below)
{
	char text[FSDP_ADAPTER_NAME];
	int size = snprintf(text, sizeof text, FSDP_ADAPTER_PREFIX "%.*s%s.bias",
		FSDP_TEXT(module), below);

	return (size_t)size < sizeof text &&
	       fsdp_tensor_find(checkpoint, fsdp_span(text, (size_t)size)) != FSDP_NONE;
}

/* A bias that was trained with the adapter stays as the base has it. */
bool fsdp_adapter_lacks_bias(struct fsdp_loading *loading)
{
	const struct fsdp_loads_options *options = loading->options;
	struct fsdp_span told = fsdp_load_text(loading, FSDP_ADAPTER_CONFIG, "bias");
	bool is_all = fsdp_span_is(told, "all");
	struct fsdp_adapter_walk walk;

	fsdp_adapter_begin(&walk, loading);
	if (!is_all && !fsdp_span_ends(told, FSDP_SPAN("_only")))
		return false;
	for (size_t i = 0; walk.checkpoint != NULL && i < options->expected_count; i++) {
		struct fsdp_span module = options->expected[i].name;
		if (!fsdp_span_ends(module, FSDP_SPAN(".bias")))
			continue;
		module.size -= sizeof ".bias" - 1;
		bool is_adapted =
			fsdp_adapter_has_module(walk.form, walk.checkpoint, module);
		if ((!is_all && !is_adapted) || has_bias(walk.checkpoint, module,
							is_adapted ? ".base_layer" : ""))
			continue;
		fsdp_load_say(loading, 0, "%.*s",
			FSDP_TEXT_MOST(options->expected[i].name, 512));
		fsdp_load_name(loading, options->expected[i].name);
	}
	return loading->all_names > 0;
}
