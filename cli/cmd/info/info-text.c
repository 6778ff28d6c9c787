/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the summary of a checkpoint on one screen: its kind, then the usual questions in order.
 */
#include <inttypes.h>
#include <string.h>

#include "cmd/info/info-answer.h"
#include "part/modules.h"
#include "part/value-text.h"
#include "session/diagnostics.h"

enum {
	KINDS_SHOWN = 4,
	VALUES_SHOWN = 4,
	VALUES_COLUMNS = 60, /* that values take, about */
	VALUE_COLUMNS = 40,  /* longer ones: see ls */
	PREFIXES_SHOWN = 4,
};

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

/* What one types is never broken. */
static void put_typed(struct out *out, const char *what)
{
	out_line_keep(out, true);
	out_line_text(out, "%s", what);
	out_line_keep(out, false);
}

/* ---- the first line ---- */

static const char *flavour_words(const struct fsdp_kind *kind)
{
	switch (kind->flavour) {
	case FSDP_FLAVOUR_FSDP1:
		return kind->is_hybrid ? "FSDP1 with HSDP" : "FSDP1";
	case FSDP_FLAVOUR_FSDP2:
		return kind->is_hybrid ? "FSDP2 with HSDP" : "FSDP2";
	case FSDP_FLAVOUR_DTENSOR:
		return kind->is_hybrid ? "HSDP by FSDP2 (or FSDP1 with a device mesh)"
				       : "FSDP2 (or FSDP1 with a device mesh)";
	case FSDP_FLAVOUR_UNKNOWN:
		break;
	}
	return NULL;
}

static const char *state_dict_words(const struct fsdp_kind *kind)
{
	if (kind->flavour != FSDP_FLAVOUR_FSDP1)
		return "";
	switch (kind->state_dict) {
	case FSDP_STATE_DICT_FULL:
		return " FULL_STATE_DICT";
	case FSDP_STATE_DICT_SHARDED:
		return " SHARDED_STATE_DICT";
	case FSDP_STATE_DICT_LOCAL:
		return " LOCAL_STATE_DICT";
	case FSDP_STATE_DICT_UNKNOWN:
		break;
	}
	return "";
}

static bool has_ranks(const struct info *info)
{
	return info->world_size != FSDP_NONE &&
	       (info->world_size > 1 || info->rank_count > 0);
}

static void tell_head(struct info *info)
{
	const struct fsdp_format *format = &info->format;
	bool known = flavour_words(&info->kind) != NULL;
	struct out *out = info->run->out;
	struct text path;

	out_line_begin(out, NULL);
	path = text_of(info->run->path);
	while (path.size > 1 && path.data[path.size - 1] == '/')
		path.size--;
	out_line_name(info->run->out, path);
	if (info->run->path_count > 1)
		out_line_text(info->run->out, " and %zu more", info->run->path_count - 1);
	out_line_text(out, "  ");
	if (known) {
		const struct fsdp_kind *kind = &info->kind;

		out_line_text(out, "%s%s", flavour_words(kind), state_dict_words(kind));
		if (kind->is_tensor_parallel)
			out_line_text(out, " with tensor parallelism");
		if (has_ranks(info))
			out_line_text(out, " over %" PRIu32 " rank%s", info->world_size,
				plural(info->world_size));
		if (kind->mesh != FSDP_NONE) {
			out_line_text(out, " (");
			mesh_line(info->run, kind->mesh);
			out_line_text(out, ")");
		}
		out_line_text(out, ", ");
	}
	out_line_name(
		out, text_of(format->title != NULL ? format->title : format->family));
	if (!known && has_ranks(info))
		out_line_text(out, ", %s%" PRIu32 " rank%s",
			info->kind.state_dict == FSDP_STATE_DICT_SHARDED ? "sharded over "
									 : "",
			info->world_size, plural(info->world_size));
	if (format->torch_guess != NULL) {
		out_line_text(out, ", torch ");
		out_line_name(out, text_of(format->torch_guess));
	}
	if (info->step != FSDP_ABSENT)
		out_line_text(out, ", step %" PRId64, info->step);
	else if (info->kind.has_epoch)
		out_line_text(out, ", epoch %" PRId64, info->kind.epoch);
	out_line_end(out);
}

static void tell_plan(struct info *info)
{
	const struct fsdp_plan_facts *plan = &info->plan;
	struct out *out = info->run->out;

	if (!info->has_plan)
		return;
	out_line_begin(out, "plan");
	out_line_name(out,
		plan->found ? text_last(text_of(plan->path), '/') : text_of(plan->path));
	if (plan->torch != NULL) {
		out_line_text(out, " (torch ");
		out_line_name(out, text_of(plan->torch));
		out_line_text(out, ")");
	}
	out_line_text(out, ": %" PRIu32 " unit%s", plan->unit_count,
		plan->unit_count == 1 ? "" : "s");
	for (size_t i = 0; i < info->strategy_count; i++) {
		out_line_text(out, ", ");
		out_line_name(out, info->strategies[i]);
	}
	/* With the flavour it is in the first line. */
	if (plan->mesh != FSDP_NONE && info->kind.flavour == FSDP_FLAVOUR_UNKNOWN) {
		out_line_text(out, ", mesh ");
		mesh_line(info->run, plan->mesh);
	} else if (plan->mesh == FSDP_NONE && plan->world_size != FSDP_NONE) {
		out_line_text(out, ", world size %" PRIu32, plan->world_size);
	}
	out_line_end(out);
}

/* "bfloat16", or "bfloat16 (10), float32 (4)". */
static void tell_dtypes(struct info *info, const struct fsdp_role_total *total)
{
	bool told[FSDP_OVERVIEW_DTYPES] = { false };
	struct out *out = info->run->out;
	size_t shown = 0;

	if (total->dtype != FSDP_NONE) {
		out_line_text(out, "%s", fsdp_dtype(total->dtype)->name);
		return;
	}
	for (;; shown++) {
		uint32_t most = FSDP_NONE;
		for (uint32_t i = 0; i < FSDP_OVERVIEW_DTYPES; i++)
			if (!told[i] && total->of_dtype[i] > 0 &&
				(most == FSDP_NONE ||
					total->of_dtype[i] > total->of_dtype[most]))
				most = i;
		if (most == FSDP_NONE)
			return;
		if (shown == KINDS_SHOWN)
			break;
		told[most] = true;
		out_line_text(out, "%s%s (%" PRIu64 ")", shown > 0 ? ", " : "",
			fsdp_dtype(most)->name, total->of_dtype[most]);
	}
	out_line_text(out, ", and others");
}

static void tell_total(
	struct info *info, const struct fsdp_role_total *total, const char *noun)
{
	struct out *out = info->run->out;

	out_line_text(
		out, "%" PRIu64 " %s%s, ", total->tensors, noun, plural(total->tensors));
	tell_dtypes(info, total);
	out_line_text(out, ", ");
	out_line_value(out, value_bytes(total->bytes));
}

static void tell_tensors(struct info *info, enum fsdp_role role, const char *noun)
{
	tell_total(info, &info->facts->roles[role], noun);
}

/* The text of a value from the model's own configuration; absent if there is none. */
static struct text setting_of(struct info *info, const char *name)
{
	for (uint32_t i = 0; i < info->counts.values; i++) {
		struct fsdp_value value = fsdp_value(info->run->checkpoint, i);
		struct text found =
			entry_shown_name(info->run, &info->buffers.name, &value);
		if (!text_is(found, text_of(name)))
			continue;
		if (value.token_count == 1 && value.tokens->kind == FSDP_TOKEN_TEXT)
			return text_of_span(value.tokens->text);
		return tokens_text(&info->buffers.text, value.tokens, value.token_count);
	}
	return (struct text){ 0 };
}

static const char *root_class(const struct info *info)
{
	struct fsdp_module root = { 0 };

	if (info->counts.modules == 0 || fsdp_sum_count(info->run->checkpoint) > 0)
		return NULL;
	/* Wrappers hold one module, which comes next. */
	for (uint32_t i = 0; i < info->counts.modules; i++) {
		root = fsdp_module(info->run->checkpoint, i);
		if (root.wrapper == FSDP_WRAPPER_NONE)
			break;
	}
	return root.original_class != NULL ? root.original_class : root.class_name;
}

struct text info_class(struct info *info)
{
	struct text class_name = setting_of(info, "config.architecture");

	return class_name.data != NULL ? class_name : text_of(root_class(info));
}

/* ": LoRA, rank 8, alpha 16, for meta-llama/Llama-3.1-8B" */
static bool tell_adapter(struct info *info)
{
	static const struct {
		const char *setting, *before;
	} settings[] = { { "adapter_config.r", ", rank " },
		{ "adapter_config.lora_alpha", ", alpha " },
		{ "adapter_config.base_model_name_or_path", ", for " } };
	struct text type = setting_of(info, "adapter_config.peft_type");
	struct out *out = info->run->out;

	if (type.data == NULL)
		return false;
	out_line_text(out, ": ");
	if (text_is(type, text_of("LORA")))
		out_line_text(out, "%s",
			text_is(setting_of(info, "adapter_config.use_dora"),
				text_of("True"))
				? "DoRA"
				: "LoRA");
	else
		out_line_name(out, type);
	for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
		struct text value = setting_of(info, settings[i].setting);
		if (value.data == NULL || text_is(value, text_of("None")))
			continue;
		out_line_text(out, "%s", settings[i].before);
		out_line_name(out, value);
	}
	return true;
}

/* "; LoRA of rank 8 in 64 modules, not merged": from names in a model that is not an adapter. */
static void tell_lora(struct info *info)
{
	static const char *const words[] = { ".lora_A.", ".lora_a" };
	struct out *out = info->run->out;
	uint64_t modules = 0;
	int64_t rank = 0;

	if (fsdp_sum_count(info->run->checkpoint) > 0)
		return;
	for (uint32_t i = 0; i < fsdp_tensor_count(info->run->checkpoint); i++) {
		struct fsdp_tensor tensor = fsdp_tensor(info->run->checkpoint, i);
		struct text name = name_text(
			&info->buffers.name, info->run->checkpoint, tensor.name);

		if (tensor.role != FSDP_ROLE_PARAM || tensor.dims != 2 ||
			name.data == NULL ||
			(memmem(name.data, name.size, words[0], strlen(words[0])) ==
					NULL &&
				memmem(name.data, name.size, words[1],
					strlen(words[1])) == NULL))
			continue;
		modules++;
		rank = tensor.shape[0] < tensor.shape[1] ? tensor.shape[0]
							 : tensor.shape[1];
	}
	if (modules > 0)
		out_line_text(out,
			"; LoRA of rank %" PRId64 " in %" PRIu64 " module%s, not merged",
			rank, modules, plural(modules));
}

/* ": Transformer, 32 layers" */
static void tell_architecture(struct info *info)
{
	const struct fsdp_kind *kind = &info->kind;
	struct out *out = info->run->out;
	struct text class_name = info->class_name;
	const char *before = ": ";

	if (tell_adapter(info))
		return;
	if (class_name.data != NULL || kind->looks_like != NULL) {
		out_line_text(out, "%s", before);
		out_line_name(out, class_name);
		if (class_name.data == NULL)
			out_line_text(out, "%s-like", kind->looks_like);
		before = ", ";
	}
	if (kind->layers > 0) {
		out_line_text(out, "%s%" PRIu32 " layer%s", before, kind->layers,
			kind->layers == 1 ? "" : "s");
	} else {
		struct text layers = setting_of(info, "config.num_hidden_layers");
		if (layers.data == NULL)
			return;
		out_line_text(out, "%s", before);
		out_line_name(out, layers);
		out_line_text(out, " layers");
	}
}

static void tell_model(struct info *info)
{
	const struct fsdp_role_total *total = &info->facts->roles[FSDP_ROLE_PARAM];
	struct out *out = info->run->out;

	if (total->tensors > 0) {
		out_line_begin(out, "model");
		out_line_value(out, value_elements(total->numel));
		out_line_text(out, " parameter%s, ", plural(total->numel));
		tell_dtypes(info, total);
		out_line_text(out, ", ");
		out_line_value(out, value_bytes(total->bytes));
		out_line_text(out, ", %" PRIu64 " tensor%s", total->tensors,
			plural(total->tensors));
		tell_architecture(info);
		if (setting_of(info, "adapter_config.peft_type").data == NULL)
			tell_lora(info);
		if (info->facts->roles[FSDP_ROLE_BUFFER].tensors > 0) {
			out_line_text(out, "; ");
			tell_tensors(info, FSDP_ROLE_BUFFER, "buffer");
		}
		out_line_end(out);
	} else if (info->facts->roles[FSDP_ROLE_BUFFER].tensors > 0) {
		out_line_begin(out, "model");
		tell_tensors(info, FSDP_ROLE_BUFFER, "buffer");
		out_line_end(out);
	}
}

/* What a LOCAL state dict does not have, and what helps. */
static void tell_flat(struct info *info)
{
	const struct fsdp_kind *kind = &info->kind;
	struct out *out = info->run->out;

	if (kind->flat_parameters == 0)
		return;
	out_line_begin(out, "flat");
	out_line_text(out, "%" PRIu64 " flat parameter%s; no original %sshapes: ",
		kind->flat_parameters, plural(kind->flat_parameters),
		kind->lists_originals ? "" : "names and ");
	if (kind->is_planned)
		out_line_text(out, "the plan has them");
	else if (has_ranks(info))
		out_line_text(out, "load it on %" PRIu32 " ranks, or use --plan ",
			info->world_size);
	else
		out_line_text(out, "use --plan ");
	if (!kind->is_planned)
		put_typed(out, "(fsdp-inspect help plan)");
	out_line_end(out);
}

const char *optimizer_word(unsigned optimizer)
{
	static const char *const OPTIMIZERS[] = {
		[FSDP_OPTIMIZER_ADAM_OR_ADAMW] = "Adam or AdamW",
		[FSDP_OPTIMIZER_ADAM] = "Adam",
		[FSDP_OPTIMIZER_ADAMW] = "AdamW",
		[FSDP_OPTIMIZER_SGD] = "SGD with momentum",
		[FSDP_OPTIMIZER_ADAFACTOR] = "Adafactor-like",
		[FSDP_OPTIMIZER_LION] = "Lion-like",
		[FSDP_OPTIMIZER_RMSPROP] = "RMSprop-like",
		[FSDP_OPTIMIZER_ADAGRAD] = "Adagrad-like",
	};

	return OPTIMIZERS[optimizer];
}

/* What Megatron-core and others call the weights in full precision, or the lower half of their
 * bits where the model has the upper one. */
static const char *state_words(const char *key, uint32_t dtype)
{
	if (strcmp(key, "master_param") == 0 && !fsdp_dtype(dtype)->is_floating)
		return "low bits of fp32 weights";
	return strcmp(key, "fp32_param") == 0 || strcmp(key, "master_param") == 0
		       ? "fp32 master weights"
		       : key;
}

enum { GROUPS_SHOWN = 4, GROUPS_MOST = 1024 };

/* ", 2 groups (8 and 0 parameters)": of the first optimizer, if it has several. */
static void tell_groups(struct info *info)
{
	static const char WORD[] = "param_groups.";
	uint64_t sizes[GROUPS_MOST] = { 0 };
	struct out *out = info->run->out;
	size_t count = 0, front = SIZE_MAX;
	bool is_flat = true;

	for (uint32_t i = 0; i < info->counts.values; i++) {
		struct fsdp_value value = fsdp_value(info->run->checkpoint, i);
		struct text name =
			name_text(&info->buffers.name, info->run->checkpoint, value.name);
		const char *at = name.data != NULL ? memmem(name.data, name.size, WORD,
							     strlen(WORD))
						   : NULL;
		size_t group = 0, digits = 0, left;

		if (at == NULL)
			continue;
		left = name.size - (size_t)(at - name.data) - strlen(WORD);
		if (front == SIZE_MAX)
			front = (size_t)(at - name.data);
		for (at += strlen(WORD); digits < left && digits < 4 &&
					 at[digits] >= '0' && at[digits] <= '9';
			digits++)
			group = group * 10 + (size_t)(at[digits] - '0');
		if (digits == 0 || group >= GROUPS_MOST ||
			(size_t)(at - name.data) != front + strlen(WORD))
			continue;
		count = group + 1 > count ? group + 1 : count;
		at += digits;
		left -= digits;
		if (left >= 8 && memcmp(at, ".params.", 8) == 0)
			sizes[group]++;
		else if (left == 7 && memcmp(at, ".params", 7) == 0 &&
			 value.token_count > 0)
			sizes[group] += value.token_count - 1;
	}
	if (count < 2)
		return;
	out_line_text(out, ", %zu groups", count);
	/* ZeRO puts one flat tensor into each. */
	for (size_t i = 0; i < count; i++)
		is_flat &= sizes[i] == 1;
	if (is_flat || count > GROUPS_SHOWN)
		return;
	for (size_t i = 0; i < count; i++)
		out_line_text(out, "%s%" PRIu64,
			i == 0           ? " ("
			: i + 1 == count ? " and "
					 : ", ",
			sizes[i]);
	out_line_text(out, " parameters)");
}

static void tell_optimizer(struct info *info)
{
	const struct fsdp_role_total *total = &info->facts->roles[FSDP_ROLE_OPTIM];
	struct out *out = info->run->out;
	const char *word = optimizer_word(info->kind.optimizer);
	const struct fsdp_overview_facts *facts = info->facts;
	const struct fsdp_state_kind *before = NULL;

	if (total->tensors == 0)
		return;
	out_line_begin(out, "optimizer");
	if (word != NULL)
		out_line_text(out, "%s: ", word);
	/* "exp_avg, exp_avg_sq float32": those of one dtype together. */
	for (size_t i = 0; i < facts->state_count; i++) {
		const struct fsdp_state_kind *kind = &facts->states[i];
		if (kind->is_scalar)
			continue;
		if (before != NULL && before->dtype != kind->dtype)
			out_line_text(out, " %s", fsdp_dtype(before->dtype)->name);
		out_line_text(out, "%s", before != NULL ? ", " : "");
		out_line_name(out, text_of(state_words(kind->key, kind->dtype)));
		before = kind;
	}
	if (before != NULL)
		out_line_text(out, " %s", fsdp_dtype(before->dtype)->name);
	else
		out_line_text(out, "only counters");
	if (facts->other_states > 0)
		out_line_text(out, ", and others");
	out_line_text(out, ", ");
	out_line_value(out, value_bytes(total->bytes));
	out_line_text(
		out, ", %" PRIu64 " tensor%s", total->tensors, plural(total->tensors));
	tell_groups(info);
	out_line_end(out);
}

static void tell_other(struct info *info)
{
	if (info->facts->average_module != FSDP_NONE) {
		struct fsdp_module module =
			fsdp_module(info->run->checkpoint, info->facts->average_module);

		out_line_begin(info->run->out, "average");
		out_line_name(
			info->run->out, name_text(&info->buffers.name,
						info->run->checkpoint, module.name));
		out_line_text(info->run->out, ", of the same names and shapes: ");
		tell_total(info, &info->facts->average, "tensor");
		out_line_end(info->run->out);
	}
	if (info->facts->roles[FSDP_ROLE_OTHER].tensors == 0)
		return;
	out_line_begin(info->run->out, "other");
	tell_tensors(info, FSDP_ROLE_OTHER, "tensor");
	out_line_end(info->run->out);
}

static double percent_above_mean(const struct fsdp_balance *balance)
{
	return (double)balance->most * (double)balance->groups / (double)balance->total *
		       100 -
	       100;
}

static void tell_per_rank(struct info *info)
{
	const struct fsdp_balance *balance = &info->balance;
	struct out *out = info->run->out;

	if (balance->groups < 2 || balance->total == 0 ||
		balance->total == FSDP_UNKNOWN || info->per_rank.stored == FSDP_UNKNOWN)
		return;
	out_line_begin(out, "per rank");
	out_line_value(out, value_bytes(balance->most));
	if (balance->is_even)
		out_line_text(out, " stored (equal)");
	else if (percent_above_mean(balance) < 1)
		out_line_text(out, " stored (balanced)");
	else
		out_line_text(out,
			" stored by rank %" PRIu32 ", %.0f %% more than the mean",
			balance->key, percent_above_mean(balance));
	if (info->per_rank.resume != FSDP_UNKNOWN && has_ranks(info)) {
		out_line_text(out, "; ");
		out_line_value(out, value_bytes(info->per_rank.resume));
		out_line_text(out, " to resume on %" PRIu32 " ranks", info->world_size);
	}
	if (info->per_rank.weights != 0 && info->per_rank.weights != FSDP_UNKNOWN) {
		out_line_text(out, "; all weights: ");
		out_line_value(out, value_bytes(info->per_rank.weights));
	}
	out_line_end(out);
}

/* "Shard(0), Shard(1) over 2x2 ranks" */
static void tell_cuts(struct out *out, const struct fsdp_sharding *sharding)
{
	for (uint32_t i = 0; i < sharding->cuts; i++)
		out_line_text(out, "%sShard(%" PRIu32 ")", i > 0 ? ", " : "",
			sharding->cut[i].dim);
	out_line_text(out, " over ");
	for (uint32_t i = 0; i < sharding->cuts; i++)
		out_line_text(out, "%s%" PRIu32, i > 0 ? "x" : "", sharding->cut[i].over);
	out_line_text(out, " ranks");
}

static void tell_sharding(struct info *info)
{
	const struct fsdp_overview_facts *facts = info->facts;
	struct out *out = info->run->out;

	if (facts->sharding_count == 0 && facts->partial == 0)
		return;
	out_line_begin(out, "sharding");
	for (size_t i = 0; i < facts->sharding_count && i < KINDS_SHOWN; i++) {
		out_line_text(out, "%s", i > 0 ? "; " : "");
		switch (facts->shardings[i].how) {
		case FSDP_SHARDING_REPLICATED:
			out_line_text(out, "replicated on %" PRIu32 " ranks",
				facts->shardings[i].over);
			break;
		case FSDP_SHARDING_FLAT:
			out_line_text(out, "flattened over %" PRIu32 " ranks",
				facts->shardings[i].over);
			break;
		case FSDP_SHARDING_DIMS:
			tell_cuts(out, &facts->shardings[i]);
			break;
		case FSDP_SHARDING_DIM:
			out_line_text(out, "Shard(%" PRIu32 ") over %" PRIu32 " ranks",
				facts->shardings[i].dim, facts->shardings[i].over);
			break;
		}
		if (facts->shardings[i].copies > 1)
			out_line_text(
				out, ", %" PRIu32 " copies", facts->shardings[i].copies);
		out_line_text(out, ": %" PRIu64 " tensor%s", facts->shardings[i].tensors,
			plural(facts->shardings[i].tensors));
	}
	if (facts->sharding_count > KINDS_SHOWN || facts->other_shardings > 0)
		out_line_text(out, "; and others");
	if (facts->partial > 0)
		out_line_text(out, "%sincomplete: %" PRIu64 " tensor%s",
			facts->sharding_count > 0 ? "; " : "", facts->partial,
			plural(facts->partial));
	if (facts->whole > 0)
		out_line_text(out, "; not sharded: %" PRIu64 " tensor%s", facts->whole,
			plural(facts->whole));
	if (facts->whole > 0 && facts->whole_rank != FSDP_NONE)
		out_line_text(out, " (file of rank %" PRIu32 ")", facts->whole_rank);
	out_line_end(out);
}

/* Columns that are taken by now, and values. */
struct shown {
	size_t columns, values;
};

static void tell_value(
	struct info *info, uint32_t index, enum notable notable, struct shown *shown)
{
	struct fsdp_value value = fsdp_value(info->run->checkpoint, index);
	struct text name = entry_shown_name(info->run, &info->buffers.name, &value);
	struct out *out = info->run->out;
	struct text text;

	if (shown->values == VALUES_SHOWN || notable_value(name, value.tokens) != notable)
		return;
	text = tokens_text(&info->buffers.text, value.tokens, value.token_count);
	if (text.size > VALUE_COLUMNS)
		text.data = NULL;
	/* The first one always, then what is short enough. */
	if (shown->values > 0 &&
		shown->columns + name.size + (text.data != NULL ? text.size : 0) >
			VALUES_COLUMNS)
		return;
	shown->columns += name.size + (text.data != NULL ? text.size : 0) + 3;
	out_line_text(out, "%s", shown->values++ > 0 ? ", " : "");
	/* What is all of a file has no name. */
	out_line_name(
		out, name.size > 0 || text.data != NULL ? name : text_of(value.type));
	if (text.data == NULL)
		return;
	out_line_text(out, name.size > 0 ? " " : "");
	out_line_name(out, text);
}

static void tell_values(struct info *info)
{
	size_t count = info->counts.values;
	struct shown shown = { 0, 0 };
	struct out *out = info->run->out;

	if (count == 0)
		return;
	out_line_begin(out, "values");
	/* Less useful values are printed only if no better one exists. */
	for (enum notable notable = 0; notable < NOTABLE_COUNT &&
				       (notable < NOTABLE_SETTING || shown.values == 0);
		notable++)
		for (uint32_t i = 0; i < count && shown.values < VALUES_SHOWN; i++)
			tell_value(info, i, notable, &shown);
	if (count > shown.values) {
		out_line_text(out, ", and %zu more ", count - shown.values);
		put_typed(out, "(ls --values)");
	}
	out_line_end(out);
}

static void tell_suffixes(struct info *info)
{
	struct out *out = info->run->out;

	for (size_t i = 0; i < info->suffix_count && i < KINDS_SHOWN; i++) {
		const struct suffix *suffix = &info->suffixes[i];
		out_line_text(out, "%s", i > 0 ? " + " : "");
		if (!suffix->is_name || suffix->count > 1)
			out_line_text(out, "%" PRIu64 " ", suffix->count);
		out_line_name(out, text_of(suffix->word[0] == '\0' ? "without suffix"
								   : suffix->word));
	}
	if (info->suffix_count > KINDS_SHOWN || info->more_suffixes)
		out_line_text(out, " + others");
}

static void tell_files(struct info *info)
{
	const struct fsdp_bytes *bytes = &info->bytes;
	struct out *out = info->run->out;

	if (info->counts.files == 0)
		return;
	out_line_begin(out, "files");
	tell_suffixes(info);
	out_line_text(out, ": ");
	out_line_value(out, value_bytes(bytes->on_disk));
	if (bytes->unaccounted == 0) {
		out_line_text(out, ", no unreferenced bytes%s",
			info->unread != 0 || info->unseen ? " in these" : "");
	} else if (bytes->unaccounted != FSDP_UNKNOWN) {
		out_line_text(out, ", ");
		out_line_value(out, value_bytes(bytes->unaccounted));
		out_line_text(out, " unreferenced");
	}
	if (info->unread != 0) {
		out_line_text(out, "; skipped %s%" PRIu64 " more pickle%s ",
			info->unseen ? "at least " : "", info->unread,
			info->unread == 1 ? "" : "s");
		put_typed(out, "(audit)");
	} else if (info->unseen) {
		out_line_text(out, "; skipped some files next to them ");
		put_typed(out, "(audit)");
	}
	if (info->holes != FSDP_UNKNOWN) {
		out_line_text(out, "; ");
		out_line_value(out, value_bytes(info->holes));
		out_line_text(out, " of these are holes, never written ");
		put_typed(out, "(audit)");
	}
	if (bytes->records != FSDP_UNKNOWN && bytes->records > bytes->on_disk / 100) {
		out_line_text(out, "; ");
		out_line_value(out, value_bytes(bytes->records));
		out_line_text(out, " are metadata");
	}
	if (bytes->unused != 0 && bytes->unused != FSDP_UNKNOWN) {
		out_line_text(out, "; ");
		out_line_value(out, value_bytes(bytes->unused));
		out_line_text(out, " not used by any tensor (--waste)");
	}
	out_line_end(out);
}

static const char *wrapper_of(const char *prefix)
{
	static const struct {
		const char *prefix, *wrapper;
	} KNOWN[] = {
		{ "_checkpoint_wrapped_module.", "activation checkpointing" },
		{ "_dmp_wrapped_module.", "DistributedModelParallel" },
		{ "_fsdp_wrapped_module.", "FSDP" },
		{ "_orig_mod.", "torch.compile" },
		{ "module.", "DistributedDataParallel" },
	};

	for (size_t i = 0; i < sizeof KNOWN / sizeof KNOWN[0]; i++)
		if (strcmp(KNOWN[i].prefix, prefix) == 0)
			return KNOWN[i].wrapper;
	return NULL;
}

static void tell_names(struct info *info)
{
	struct out *out = info->run->out;

	for (size_t i = 0; i < info->counts.prefixes && i < PREFIXES_SHOWN; i++) {
		struct fsdp_prefix prefix = fsdp_prefix(info->run->checkpoint, i);
		const char *wrapper = wrapper_of(prefix.prefix);
		out_line_begin(out, i == 0 ? "names" : "");
		out_line_name(out, text_of(prefix.prefix));
		out_line_text(out, " in %" PRIu64 " tensor%s", prefix.count,
			prefix.count == 1 ? "" : "s");
		if (wrapper != NULL)
			out_line_text(out, " (%s)", wrapper);
		if (!info->run->common->raw)
			out_line_text(out, ", shown %s it",
				(strcmp(prefix.prefix, "_fsdp_wrapped_module.") == 0 ||
					strcmp(prefix.prefix,
						"_checkpoint_wrapped_module.") == 0)
					? "without"
					: "with");
		out_line_end(out);
	}
}

/* "bad: 2 errors (audit)" */
static void tell_counts(struct info *info)
{
	struct out *out = info->run->out;
	uint64_t errors = info->check.errors, warnings = info->check.warnings;
	const char *before = ": ";

	if (errors > 0) {
		out_line_text(
			out, "%s%" PRIu64 " error%s", before, errors, plural(errors));
		before = ", ";
	}
	if (warnings > 0) {
		out_line_text(out, "%s%" PRIu64 " warning%s", before, warnings,
			plural(warnings));
		before = ", ";
	}
	if (info->check.unread > 0)
		out_line_text(out, "%s%" PRIu64 " part%s could not be read", before,
			info->check.unread, plural(info->check.unread));
}

enum { FOUND_SHOWN = 2, MESSAGE_MOST = 200 };

/* The worst finding. Findings of opening were printed before the answer. */
static void tell_findings(struct info *info)
{
	struct out *out = info->run->out;
	struct collected *all = info->run->collected;
	size_t shown = 0;

	for (int severity = SEVERITY_ERROR; severity >= SEVERITY_WARNING; severity--)
		for (size_t i = 0;
			i < info->check.own.finding_count && shown < FOUND_SHOWN; i++) {
			const struct finding *finding = &info->check.own.findings[i];
			struct text message = finding->message;

			if ((int)finding->severity != severity)
				continue;
			shown++;
			if (message.size > MESSAGE_MOST)
				message.size = MESSAGE_MOST;
			out_line_begin(out, "");
			if (finding->file.size > 0) {
				out_line_name(out, finding->file);
				out_line_text(out, ": ");
			}
			out_line_name(out, message);
			out_line_text(out, "%s",
				message.size < finding->message.size ? "..." : "");
			out_line_text(out, " [%s %s]", finding->rule, finding->slug);
			out_line_end(out);
			for (size_t k = 0; k < all->finding_count; k++)
				all->findings[k].is_told |=
					strcmp(all->findings[k].rule, finding->rule) ==
						0 &&
					text_is(all->findings[k].file, finding->file) &&
					text_is(all->findings[k].message,
						finding->message);
		}
}

static void tell_check(struct info *info)
{
	struct out *out = info->run->out;

	out_line_begin(out, "check");
	if (!info->check.ran) {
		out_line_text(out, "not run ");
		put_typed(out, "(audit)");
		out_line_end(out);
		return;
	}
	out_line_painted(out, info->check.verdict);
	if (info->check.errors + info->check.warnings + info->check.unread > 0) {
		tell_counts(info);
		out_line_text(out, " ");
		put_typed(out, "(audit)");
	} else if (strcmp(info->check.verdict, "partial") == 0) {
		out_line_text(out, ": not everything could be checked ");
		put_typed(out, "(audit --checks)");
	} else if (info->counts.files > 0) {
		out_line_text(out, ": all files present; contents not checked ");
		put_typed(out, "(audit --data)");
	}
	if (info->check.notes > 0)
		out_line_text(out, "; %" PRIu64 " note%s", info->check.notes,
			plural(info->check.notes));
	out_line_end(out);
	tell_findings(info);
}

/* Files of one set are typed together: the named ones, and those found in their directory. NULL past the last one. */
enum { MOST_NAMED = 8 };

static const struct input_record *input_of_set(const struct run *run, size_t nth)
{
	const struct collected *collected = run->collected;
	size_t first = 0;

	while (first < collected->input_count &&
		strcmp(collected->inputs[first].path.data, run->path) != 0)
		first++;
	for (size_t i = first; i < collected->input_count; i++) {
		const struct input_record *input = &collected->inputs[i];
		if (i >= first + run->path_count && !input->found)
			return NULL;
		if (strcmp(input->kind, "checkpoint") == 0 && nth-- == 0)
			return input;
	}
	return NULL;
}

static void tell_next(struct info *info)
{
	const struct run *run = info->run;
	const char *command = info->recording != NULL ? info->recording
			      : !info->check.ran ||
					      strcmp(info->check.verdict, "good") != 0 ||
					      info->check.warnings > 0
				      ? "audit"
			      : info->counts.modules > 1 ? "tree"
			      : info->counts.tensors > 0 ? "ls"
							 : "ls --values";
	bool all = input_of_set(run, 0) != NULL && input_of_set(run, MOST_NAMED) == NULL;
	const struct input_record *input;

	/* Of what is not there twice; or of more than one would type. */
	if (strcmp(run->path, "-") == 0 || (run->path_count > 1 && !all))
		return;
	out_line_begin(run->out, "next");
	out_line_keep(run->out, true);
	out_line_text(run->out, "fsdp-inspect %s ", command);
	if (!all)
		out_line_shell(run->out, text_of(run->path));
	for (size_t i = 0; all && (input = input_of_set(run, i)) != NULL; i++) {
		out_line_text(run->out, "%s", i > 0 ? " " : "");
		out_line_shell(run->out, input->path);
	}
	out_line_end(run->out);
}

void info_tell(struct info *info)
{
	tell_head(info);
	tell_plan(info);
	tell_model(info);
	tell_flat(info);
	tell_optimizer(info);
	tell_other(info);
	tell_per_rank(info);
	tell_sharding(info);
	tell_values(info);
	tell_files(info);
	tell_names(info);
	tell_check(info);
	tell_next(info);
}
