/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the summary of a checkpoint on one screen: its kind, then the usual questions in
 * order.
 */
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "commands/info-answer.h"
#include "shared/audit-run.h"
#include "shared/modules.h"
#include "shared/stored-values.h"
#include "session/diagnostics.h"

enum {
	KINDS_SHOWN = 4,
	VALUES_SHOWN = 4,
	VALUES_COLUMNS = 60, /* that values take, about */
	VALUE_COLUMNS = 40,  /* longer ones: see ls */
	PREFIXES_SHOWN = 4,
};

/* ---- the first line ---- */

static bool has_ranks(const struct info *info)
{
	return info->world_size != FSDP_NONE &&
	       (info->world_size > 1 || info->rank_count > 0);
}

static void print_head(struct info *info)
{
	const struct fsdp_format *format = &info->format;
	const struct fsdp_kind *kind = &info->kind;
	static const char *const words[][2] = {
		[FSDP_API_FSDP1] = { "FSDP1", "FSDP1 with HSDP" },
		[FSDP_API_FSDP2] = { "FSDP2", "FSDP2 with HSDP" },
		[FSDP_API_DTENSOR] = { "FSDP2 (or FSDP1 with a device mesh)",
			"HSDP by FSDP2 (or FSDP1 with a device mesh)" },
	};
	const char *flavour = words[kind->flavour][kind->is_hybrid];
	struct value ranks =
		has_ranks(info) ? value_id(info->world_size) : value_absent();
	struct out *out = info->run->out;
	struct fsdp_mesh mesh = { 0 };
	bool is_sharded = kind->state_dict == FSDP_STATE_DICT_SHARDED;

	if (kind->mesh != FSDP_NONE)
		mesh = fsdp_mesh(info->run->checkpoint, kind->mesh);
	out_line_begin(out, NULL);
	out_values(out, "{}[ and {} more]  ", value_name(opened_path(info->run)),
		value_some(info->run->path_count - 1));
	if (flavour != NULL) {
		static const char *const dicts[] = { "", " FULL_STATE_DICT",
			" SHARDED_STATE_DICT", " LOCAL_STATE_DICT" };
		out_values(out, "{}{}{}[ over {} rank{s}]", value_word(flavour),
			value_word(kind->flavour == FSDP_API_FSDP1
					   ? dicts[kind->state_dict]
					   : ""),
			value_word(kind->is_tensor_parallel ? " with tensor parallelism"
							    : ""),
			ranks);
		/* A dimension without a name is the number of ranks. */
		if (kind->mesh != FSDP_NONE &&
			(!has_ranks(info) || mesh.dims != 1 || mesh.dim_names != NULL ||
				mesh.shape[0] != info->world_size)) {
			out_line_text(out, " (");
			mesh_line(info->run, kind->mesh);
			out_line_text(out, ")");
		}
		out_line_text(out, ", ");
		ranks = value_absent();
	}
	out_values(out, "{}[, {}{} rank{s}][, torch {}][, step {}][, epoch {}]",
		value_word(format->title != NULL ? format->title : format->family),
		value_word(is_sharded ? "sharded over " : ""), ranks,
		value_word(format->torch_guess), value_known(info->step),
		info->step == FSDP_ABSENT && kind->has_epoch ? value_integer(kind->epoch)
							     : value_absent());
	out_line_end(out);
}

static void print_plan(struct info *info)
{
	const struct fsdp_plan_facts *plan = &info->plan;
	struct text path = text_of(plan->path);
	struct out *out = info->run->out;

	if (!info->has_plan)
		return;
	out_line_begin(out, "plan");
	out_values(out, "{}[ (torch {})]: {} unit{s}",
		value_name(plan->found ? text_last(path, '/') : path),
		value_word(plan->torch), value_id(plan->unit_count));
	for (size_t i = 0; i < info->strategy_count; i++)
		out_values(out, ", {}", value_text(info->strategies[i]));
	/* With the flavour it is in the first line. */
	if (plan->mesh != FSDP_NONE && info->kind.flavour == FSDP_API_UNKNOWN) {
		out_line_text(out, ", mesh ");
		mesh_line(info->run, plan->mesh);
	} else if (plan->mesh == FSDP_NONE) {
		out_values(out, "[, world size {}]", value_id(plan->world_size));
	}
	out_line_end(out);
}

/* "bfloat16", or "bfloat16 (10), float32 (4)". */
static void print_dtypes(struct info *info, const struct fsdp_role_total *total)
{
	uint64_t counts[FSDP_OVERVIEW_DTYPES];
	struct out *out = info->run->out;

	if (total->dtype != FSDP_NONE) {
		out_line_text(out, "%s", fsdp_dtype(total->dtype)->name);
		return;
	}
	memcpy(counts, total->of_dtype, sizeof counts);
	for (size_t shown = 0;; shown++) {
		uint32_t most = 0;

		for (uint32_t i = 1; i < FSDP_OVERVIEW_DTYPES; i++)
			most = counts[i] > counts[most] ? i : most;
		if (counts[most] == 0)
			return;
		if (shown == KINDS_SHOWN)
			break;
		out_line_text(out, "%s%s (%" PRIu64 ")", shown > 0 ? ", " : "",
			fsdp_dtype(most)->name, counts[most]);
		counts[most] = 0;
	}
	out_line_text(out, ", and others");
}

static void print_total(
	struct info *info, const struct fsdp_role_total *total, const char *noun)
{
	out_values(info->run->out, "{} {}{s}, ", value_count(total->tensors),
		value_word(noun));
	print_dtypes(info, total);
	out_values(info->run->out, ", {}", value_bytes(total->bytes));
}

/* The text of a value; absent if there is none. */
static struct text setting_of(struct info *info, enum info_setting setting)
{
	if (info->settings[setting] == FSDP_NONE)
		return (struct text){ 0 };
	struct fsdp_value value =
		fsdp_value(info->run->checkpoint, info->settings[setting]);
	return value.token_count == 1 && value.tokens->kind == FSDP_TOKEN_TEXT
		       ? text_of_span(value.tokens->text)
		       : tokens_text(
				 &info->buffers->text, value.tokens, value.token_count);
}

struct text info_class(struct info *info)
{
	struct text class_name = setting_of(info, SETTING_CLASS);
	struct fsdp_module root = { 0 };

	if (class_name.data != NULL || info->counts.modules == 0 ||
		fsdp_sum_count(info->run->checkpoint) > 0)
		return class_name;
	/* Wrappers hold one module, which comes next. */
	for (uint32_t i = 0; i < info->counts.modules; i++) {
		root = fsdp_module(info->run->checkpoint, i);
		if (root.wrapper == FSDP_WRAPPER_NONE)
			break;
	}
	return text_of(
		root.original_class != NULL ? root.original_class : root.class_name);
}

/* ": LoRA, rank 8, alpha 16, for meta-llama/Llama-3.1-8B" */
static bool print_adapter(struct info *info)
{
	static const struct {
		enum info_setting setting;
		const char *before;
	} settings[] = { { SETTING_RANK, ", rank " }, { SETTING_ALPHA, ", alpha " },
		{ SETTING_BASE, ", for " } };
	struct text type = setting_of(info, SETTING_TYPE);
	struct out *out = info->run->out;

	if (type.data == NULL)
		return false;
	if (text_is(type, text_of("LORA")))
		type = text_is(setting_of(info, SETTING_DORA), text_of("True"))
			       ? text_of("DoRA")
			       : text_of("LoRA");
	out_values(out, ": {}", value_text(type));
	FOR_EACH(i, sizeof settings / sizeof *settings, value,
		setting_of(info, settings[i].setting))
		if (value.data != NULL && !text_is(value, text_of("None")))
			out_values(out, "{}{}", value_word(settings[i].before),
				value_text(value));
	return true;
}

/* "; LoRA of rank 8 in 64 modules, not merged", or "of rank 8 to 32": from names in a
 * model that is not an adapter. */
static void print_lora(struct info *info)
{
	const struct fsdp_checkpoint *checkpoint = info->run->checkpoint;
	uint64_t modules = 0;
	int64_t rank, least = INT64_MAX, most = 0;

	if (fsdp_sum_count(checkpoint) > 0)
		return;
	for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint); i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		struct text name =
			name_text(&info->buffers->name, checkpoint, tensor.name);

		if (tensor.role != FSDP_ROLE_PARAM || tensor.dims != 2 ||
			name.data == NULL ||
			(memmem(name.data, name.size, ".lora_A.", 8) == NULL &&
				memmem(name.data, name.size, ".lora_a", 7) == NULL))
			continue;
		modules++;
		rank = tensor.shape[0] < tensor.shape[1] ? tensor.shape[0]
							 : tensor.shape[1];
		least = rank < least ? rank : least;
		most = rank > most ? rank : most;
	}
	if (modules > 0)
		out_values(info->run->out,
			"; LoRA of rank {}[ to {}] in {} module{s}, not merged",
			value_integer(least),
			least < most ? value_integer(most) : value_absent(),
			value_count(modules));
}

/* ": Transformer, 32 layers" */
static void print_architecture(struct info *info)
{
	const struct fsdp_kind *kind = &info->kind;
	bool is_named = info->class_name.data != NULL;
	struct out *out = info->run->out;
	const char *before = ": ";

	if (print_adapter(info))
		return;
	if (is_named || kind->looks_like != NULL) {
		out_values(out, is_named ? ": {}" : ": {}-like",
			is_named ? value_text(info->class_name)
				 : value_word(kind->looks_like));
		before = ", ";
	}
	if (kind->layers > 0)
		out_values(
			out, "{}{} layer{s}", value_word(before), value_id(kind->layers));
	else
		out_values(out, "[{}{} layers]", value_word(before),
			value_text(setting_of(info, SETTING_LAYERS)));
}

static void print_model(struct info *info)
{
	const struct fsdp_role_total *total = &info->facts->roles[FSDP_ROLE_PARAM];
	const struct fsdp_role_total *buffers = &info->facts->roles[FSDP_ROLE_BUFFER];
	struct out *out = info->run->out;

	if (total->tensors == 0 && buffers->tensors == 0)
		return;
	out_line_begin(out, "model");
	if (total->tensors > 0) {
		out_values(out, "{} parameter{s}, ", value_elements(total->numel));
		print_dtypes(info, total);
		out_values(out, ", {}, {} tensor{s}", value_bytes(total->bytes),
			value_count(total->tensors));
		print_architecture(info);
		if (info->settings[SETTING_TYPE] == FSDP_NONE)
			print_lora(info);
		if (buffers->tensors > 0)
			out_line_text(out, "; ");
	}
	if (buffers->tensors > 0)
		print_total(info, buffers, "buffer");
	out_line_end(out);
}

static void print_flat(struct info *info)
{
	const struct fsdp_kind *kind = &info->kind;
	struct out *out = info->run->out;

	if (kind->flat_parameters == 0)
		return;
	out_values_line(out, "flat",
		kind->is_planned
			? "{} flat parameter{s}; no original {}shapes: the plan has them"
			: "{} flat parameter{s}; no original {}shapes: [load it on {} ranks, or ]use --plan=FILE, which gives them {(fsdp-inspect help plan)}",
		value_count(kind->flat_parameters),
		value_word(kind->lists_originals ? "" : "names and "),
		has_ranks(info) ? value_id(info->world_size) : value_absent());
}

/* What Megatron-core and others call the weights in full precision, or the lower half of
 * their bits where the model has the upper one. */
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
static void print_groups(struct info *info)
{
	static const char WORD[] = "param_groups.";
	uint64_t sizes[GROUPS_MOST] = { 0 };
	struct out *out = info->run->out;
	size_t count = 0, front = SIZE_MAX;
	bool is_flat = true;

	for (uint32_t i = 0; i < info->counts.values; i++) {
		struct fsdp_value value = fsdp_value(info->run->checkpoint, i);
		struct text name = name_text(
			&info->buffers->name, info->run->checkpoint, value.name);
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

static void print_optimizer(struct info *info)
{
	const struct fsdp_role_total *total = &info->facts->roles[FSDP_ROLE_OPTIM];
	struct out *out = info->run->out;
	const struct fsdp_overview_facts *facts = info->facts;
	const struct fsdp_state_kind *before = NULL;

	/* A model alone has no states; a file that is not read may have them. */
	if (total->tensors == 0) {
		if (facts->roles[FSDP_ROLE_PARAM].tensors > 0 && has_ranks(info) &&
			info->world_size > 1 &&
			fsdp_checkpoint_error_count(info->run->checkpoint) == 0)
			out_line(out, "optimizer", "no states in these files");
		return;
	}
	out_line_begin(out, "optimizer");
	out_values(out, "[{}: ]", value_word(optimizer_word(info->kind.optimizer)));
	/* "exp_avg, exp_avg_sq float32": those of one dtype together. */
	FOR_EACH(i, facts->state_count, kind, &facts->states[i]) {
		if (kind->is_scalar)
			continue;
		if (before != NULL && before->dtype != kind->dtype)
			out_line_text(out, " %s", fsdp_dtype(before->dtype)->name);
		out_values(out, "{}{}", value_word(before != NULL ? ", " : ""),
			value_word(state_words(kind->key, kind->dtype)));
		before = kind;
	}
	if (before != NULL)
		out_line_text(out, " %s", fsdp_dtype(before->dtype)->name);
	else
		out_line_text(out, "only counters");
	out_values(out, "{}, {}, {} tensor{s}",
		value_word(facts->other_states > 0 ? ", and others" : ""),
		value_bytes(total->bytes), value_count(total->tensors));
	print_groups(info);
	out_line_end(out);
}

static void print_per_rank(struct info *info)
{
	const struct fsdp_balance *balance = &info->balance;
	uint64_t weights = info->per_rank.weights;
	bool resumes = info->per_rank.resume != FSDP_UNKNOWN && has_ranks(info);
	char stored[96] = " on each", mean[HUMAN_ROOM];

	if (balance->groups < 2 || balance->total == 0 ||
		balance->total == FSDP_UNKNOWN || info->per_rank.stored == FSDP_UNKNOWN)
		return;
	double more = (double)balance->most * (double)balance->groups /
			      (double)balance->total * 100 -
		      100;
	if (!balance->is_even && more < 1)
		snprintf(stored, sizeof stored, " (balanced)");
	else if (!balance->is_even)
		snprintf(stored, sizeof stored, " on rank %" PRIu32 " (largest; mean %s)",
			balance->key,
			out_bytes(
				info->run->out, balance->total / balance->groups, mean));
	out_values_line(info->run->out, "per rank",
		"{} stored{}[; {} read to resume on {} ranks][; all weights: {}]",
		value_bytes(balance->most), value_word(stored),
		value_bytes(resumes ? info->per_rank.resume : FSDP_UNKNOWN),
		value_id(info->world_size),
		value_bytes(weights != 0 ? weights : FSDP_UNKNOWN));
}

static void print_sharding(struct info *info)
{
	const struct fsdp_overview_facts *facts = info->facts;
	struct out *out = info->run->out;

	if (facts->sharding_count == 0 && facts->partial == 0)
		return;
	out_line_begin(out, "sharding");
	for (size_t i = 0; i < facts->sharding_count && i < KINDS_SHOWN; i++) {
		const struct fsdp_sharding *sharding = &facts->shardings[i];
		bool is_cut = sharding->how == FSDP_SHARDING_DIMS;

		out_line_text(out, "%s", i > 0 ? "; " : "");
		/* "Shard(0), Shard(1) over 2x2 ranks" */
		for (uint32_t k = 0; is_cut && k < sharding->cuts; k++)
			out_line_text(out, "%sShard(%" PRIu32 ")", k > 0 ? ", " : "",
				sharding->cut[k].dim);
		for (uint32_t k = 0; is_cut && k < sharding->cuts; k++)
			out_line_text(out, "%s%" PRIu32, k > 0 ? "x" : " over ",
				sharding->cut[k].over);
		if (sharding->how == FSDP_SHARDING_DIM)
			out_line_text(out, "Shard(%" PRIu32 ") over %" PRIu32,
				sharding->dim, sharding->over);
		else if (!is_cut)
			out_line_text(out, "%s %" PRIu32,
				sharding->how == FSDP_SHARDING_FLAT ? "flattened over"
								    : "replicated on",
				sharding->over);
		out_values(out, " ranks[, {} copies]: {} tensor{s}",
			sharding->copies > 1 ? value_id(sharding->copies)
					     : value_absent(),
			value_count(sharding->tensors));
	}
	if (facts->sharding_count > KINDS_SHOWN || facts->other_shardings > 0)
		out_line_text(out, "; and others");
	out_values(out,
		"[{}incomplete: {} tensor{s}][; not sharded: {} tensor{s}][ (file of rank {})]",
		value_word(facts->sharding_count > 0 ? "; " : ""),
		value_some(facts->partial), value_some(facts->whole),
		value_id(facts->whole > 0 ? facts->whole_rank : FSDP_NONE));
	out_line_end(out);
}

/* Columns that are taken by now, and values. */
struct shown {
	size_t columns, values;
};

static void print_value(
	struct info *info, uint32_t index, enum notable notable, struct shown *shown)
{
	struct fsdp_value value = fsdp_value(info->run->checkpoint, index);
	struct text name = entry_shown_name(info->run, &info->buffers->name, &value);
	struct out *out = info->run->out;
	struct text text;

	if (shown->values == VALUES_SHOWN || notable_value(name, value.tokens) != notable)
		return;
	text = tokens_text(&info->buffers->text, value.tokens, value.token_count);
	if (text.size > VALUE_COLUMNS)
		text = (struct text){ NULL, 0 };
	/* The first one always, then what is short enough. */
	if (shown->values > 0 && shown->columns + name.size + text.size > VALUES_COLUMNS)
		return;
	shown->columns += name.size + text.size + 3;
	/* What is all of a file has no name. */
	if (name.size == 0 && text.data == NULL)
		name = text_of(value.type);
	out_values(out, "{}{}[{}{}]", value_word(shown->values++ > 0 ? ", " : ""),
		value_name(name), value_word(name.size > 0 ? " " : ""), value_name(text));
}

static void print_values(struct info *info)
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
			print_value(info, i, notable, &shown);
	out_values(out, "[, and {} more {(ls --values lists them)}]",
		value_some(count - shown.values));
	out_line_end(out);
}

static void print_files(struct info *info)
{
	const struct fsdp_bytes *bytes = &info->bytes;
	struct out *out = info->run->out;
	bool is_large = bytes->records > bytes->on_disk / 100;

	if (info->counts.files == 0)
		return;
	out_line_begin(out, "files");
	for (size_t i = 0; i < info->suffix_count && i < KINDS_SHOWN; i++) {
		const struct suffix *suffix = &info->suffixes[i];

		out_values(out, "{}[{} ]{}", value_word(i > 0 ? " + " : ""),
			value_some(suffix->is_name && suffix->count == 1 ? 0
									 : suffix->count),
			value_word(suffix->word[0] == '\0' ? "without suffix"
							   : suffix->word));
	}
	if (info->suffix_count > KINDS_SHOWN || info->more_suffixes)
		out_line_text(out, " + others");
	out_values(out, ": {}", value_bytes(bytes->on_disk));
	if (bytes->unaccounted == 0 && bytes->unused == 0 && info->check.errors == 0)
		out_line_text(out, ", no unreferenced bytes%s",
			info->unread != 0 || info->unseen ? " in them" : "");
	else
		out_values(out, "[, {} unreferenced]",
			value_bytes(bytes->unaccounted != 0 ? bytes->unaccounted
							    : FSDP_UNKNOWN));
	if (info->unread != 0)
		out_values(out, "; skipped {}{} more pickle{s} {(audit)}",
			value_word(info->unseen ? "at least " : ""),
			value_count(info->unread));
	else if (info->unseen)
		out_fill(out, "; skipped some files next to them {(audit)}", NULL);
	out_values(out,
		"[; {} of these are holes, never written {(audit)}][; {} headers and metadata][; {} not used by any tensor (--waste)]",
		value_bytes(info->holes),
		value_bytes(is_large ? bytes->records : FSDP_UNKNOWN),
		value_bytes(bytes->unused != 0 ? bytes->unused : FSDP_UNKNOWN));
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

enum { FOUND_SHOWN = 2, MESSAGE_MOST = 200 };

/* The worst finding. Findings of opening were printed before the answer. */
static void print_findings(struct info *info)
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
			struct text tensor = finding_tensor(finding);
			out_values_line(out, "", "[{}: ][{}: ]{}{} {[}{} {}{]}",
				finding->file.size > 0 &&
						!finding_starts_with_file(finding)
					? value_name(finding->file)
					: value_absent(),
				tensor.size > 0 ? value_name(tensor) : value_absent(),
				value_text(message),
				value_word(message.size < finding->message.size ? "..."
										: ""),
				value_word(finding->rule), value_word(finding->slug));
			for (size_t k = 0; k < all->finding_count; k++)
				all->findings[k].is_printed |=
					strcmp(all->findings[k].rule, finding->rule) ==
						0 &&
					text_is(all->findings[k].file, finding->file) &&
					text_is(all->findings[k].message,
						finding->message);
		}
}

/* The audit alone compares its tokens with the embedding. */
static bool has_tokenizer(const struct run *run)
{
	static const char *const names[] = { "tokenizer.json", "tokenizer_config.json",
		"added_tokens.json" };
	char path[PATH_MAX];
	struct stat status;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(path, sizeof path, "%s/%s", run->path, names[i]);
		if (stat(path, &status) == 0)
			return true;
	}
	return false;
}

static void print_check(struct info *info)
{
	uint64_t errors = info->check.errors, warnings = info->check.warnings,
		 unread = info->check.unread;
	struct out *out = info->run->out;

	if (!info->check.ran) {
		out_fill_line(out, "check", "not run {(audit)}", NULL);
		return;
	}
	out_line_begin(out, "check");
	out_line_painted(out, info->check.verdict);
	/* "bad: 2 errors (audit)" */
	if (errors + warnings + unread > 0)
		out_values(out,
			"[: {} error{s}][{}{} warning{s}][{}{} part{s} could not be read] {(audit)}",
			value_some(errors), value_word(errors > 0 ? ", " : ": "),
			value_some(warnings),
			value_word(errors + warnings > 0 ? ", " : ": "),
			value_some(unread));
	else if (strcmp(info->check.verdict, "partial") == 0)
		out_values(out, ": {} {(audit --checks)}",
			value_word(reason_open(info->check.open)));
	else if (info->run->collected->lacks_parts)
		out_line_text(out,
			": all files of this part present; other parts of the pipeline are incomplete (audit)");
	else if (info->counts.files > 0)
		out_values(out,
			": all files present; contents not checked {(audit --data)}{}",
			value_word(has_tokenizer(info->run)
					   ? ", tokenizer not checked (audit)"
					   : ""));
	out_values(out, "[; {} note{s} {(audit -v lists them)}]",
		value_some(info->check.notes));
	out_line_end(out);
	print_findings(info);
}

/* Files of one set are typed together: the named ones, and those found in their
 * directory. NULL past the last one. */
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

static void print_next(struct info *info)
{
	const struct run *run = info->run;
	const char *command =
		info->recording != NULL ? info->recording
		: !info->check.ran || strcmp(info->check.verdict, "good") != 0 ||
				info->check.warnings > 0 || run->collected->lacks_parts ||
				has_tokenizer(run)
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

void info_print(struct info *info)
{
	print_head(info);
	print_plan(info);
	print_model(info);
	print_flat(info);
	print_optimizer(info);
	const struct fsdp_role_total *other = &info->facts->roles[FSDP_ROLE_OTHER];
	struct out *out = info->run->out;
	if (info->facts->average_prefix != NULL) {
		out_line_begin(out, "average");
		out_values(out, "{}* (same names and shapes as the model): ",
			value_name(text_of(info->facts->average_prefix)));
		print_total(info, &info->facts->average, "tensor");
		out_line_end(out);
	}
	if (other->tensors > 0) {
		out_line_begin(out, "other");
		print_total(info, other, "tensor");
		out_line_end(out);
	}
	print_per_rank(info);
	print_sharding(info);
	print_values(info);
	print_files(info);
	for (size_t i = 0; i < info->counts.prefixes && i < PREFIXES_SHOWN; i++) {
		struct fsdp_prefix prefix = fsdp_prefix(info->run->checkpoint, i);
		bool is_hidden =
			strcmp(prefix.prefix, "_fsdp_wrapped_module.") == 0 ||
			strcmp(prefix.prefix, "_checkpoint_wrapped_module.") == 0;

		out_values_line(out, i == 0 ? "names" : "",
			"{} in {} tensor{s}[ ({})][, shown {} it]",
			value_word(prefix.prefix), value_count(prefix.count),
			value_word(wrapper_of(prefix.prefix)),
			value_word(info->run->common->raw ? NULL
				   : is_hidden            ? "without"
							  : "with"));
	}
	print_check(info);
	print_next(info);
}
