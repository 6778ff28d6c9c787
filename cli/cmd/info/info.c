/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says what a checkpoint is, on one screen: what people ask for first. Reads nothing more
 * than opening did, but for --waste.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/answer.h"
#include "part/groups.h"
#include "part/tensor-row.h"
#include "part/units.h"
#include "cmd/info/waste-table.h"

enum {
	KINDS_MAX = 8, /* suffixes of files, strategies of units */
	KINDS_SHOWN = 4,
	VALUES_SHOWN = 4,
	PREFIXES_SHOWN = 4,
	WORD_SIZE = 40,
};

struct info_options {
	bool waste;
};

static const struct option OPTIONS[] = {
	{ "waste", 0, OPTION_FLAG, NULL, offsetof(struct info_options, waste),
		.help = "a table of bytes that are stored but not viewed" },
	{ NULL },
};

/* Files whose names end alike. */
struct suffix {
	char word[WORD_SIZE];
	bool is_name; /* ".metadata" is a name, not a suffix */
	uint64_t count;
};

struct info {
	struct row_context row; /* what records are handed */
	struct run *run;
	const struct info_options *options;
	struct row_buffers buffers;
	struct fsdp_format format;
	uint32_t world_size;
	int64_t *ranks; /* that own a piece */
	uint32_t rank_count;
	struct fsdp_plan_facts plan;
	bool has_plan;
	struct text strategies[KINDS_MAX]; /* of its units, each once */
	size_t strategy_count;
	struct {
		uint64_t parameters;
		size_t tensors, pieces, files, modules, units, values, prefixes;
	} counts;
	struct fsdp_bytes bytes;
	enum fsdp_sums_by by_dtype, by_role, by_rank;
	struct fsdp_overview *overview;
	const struct fsdp_overview_facts *facts; /* of it */
	struct suffix suffixes[KINDS_MAX];
	size_t suffix_count;
	bool more_suffixes; /* than found a place */
	struct fsdp_waste *waste;
	int status;
};

/* ---- suffixes of files ---- */

static void add_suffix(struct info *info, const struct suffix *like)
{
	size_t i = 0;

	while (i < info->suffix_count &&
		(strcmp(info->suffixes[i].word, like->word) != 0 ||
			info->suffixes[i].is_name != like->is_name))
		i++;
	if (i == KINDS_MAX) {
		info->more_suffixes = true;
		return;
	}
	if (i == info->suffix_count)
		info->suffixes[info->suffix_count++] = *like;
	info->suffixes[i].count++;
}

static void add_files(struct info *info)
{
	size_t count = fsdp_file_count(info->run->checkpoint);

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_file file = fsdp_file(info->run->checkpoint, i);
		struct text base = text_last(text_of_span(file.path), '/');
		struct text word = text_last(base, '.');
		struct suffix suffix = { .is_name = word.size + 1 == base.size };
		if (word.size < base.size)
			memcpy(suffix.word, word.data - 1,
				word.size + 1 < WORD_SIZE ? word.size + 1
							  : WORD_SIZE - 1);
		add_suffix(info, &suffix);
	}
}

/* ---- for programs ---- */

#define FORMAT struct fsdp_format
static const struct record format_record = OBJECT_RECORD(FORMAT, NULL,
	"What kind of checkpoint it is.",
	{ "family", WORD_AT(FORMAT, family), .always = true,
		ABOUT("Word for the format, such as `torch-zip`, `dcp` or `fsdp-plan`.") },
	{ "title", WORD_AT(FORMAT, title), .always = true,
		ABOUT("The format as people call it.") },
	{ "writer", WORD_AT(FORMAT, writer),
		ABOUT("Program that wrote it, where it says so.") },
	{ "torch_guess", WORD_AT(FORMAT, torch_guess),
		ABOUT("Versions of torch that write such files.") });

static bool has_plan(struct subject of)
{
	return ((const struct info *)of.object)->has_plan;
}

static struct value get_strategies(struct subject of)
{
	const struct info *info = of.object;

	return value_texts(info->strategies, info->strategy_count);
}

#define INFO struct info
static const struct record plan_record =
	OBJECT_RECORD(INFO, "plan", "The sharding plan that was used.",
		{ "path", WORD_AT(INFO, plan.path), .always = true, ABOUT("Its file.") },
		{ "torch", WORD_AT(INFO, plan.torch),
			ABOUT("Version of torch it was exported from.") },
		{ "world_size", ID_AT(INFO, plan.world_size), .always = true,
			ABOUT("World size of the run it describes.") },
		{ "units", ID_AT(INFO, plan.unit_count), .always = true,
			ABOUT("Number of units.") },
		{ "strategies", GET(FIELD_TEXTS, get_strategies), .always = true,
			ABOUT("Strategies that occur among its units.") },
		{ "mesh", MADE_AT(INFO, plan.mesh, find_mesh, mesh_record) });

static const struct record counts_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ "tensors", SIZE_AT(INFO, counts.tensors), .always = true,
		ABOUT("Number of tensors.") },
	{ "parameters", COUNT_AT(INFO, counts.parameters), .always = true,
		ABOUT("Number of elements of parameters, tied ones counted once.") },
	{ "pieces", SIZE_AT(INFO, counts.pieces), .always = true,
		ABOUT("Number of pieces of tensors.") },
	{ "files", SIZE_AT(INFO, counts.files), .always = true,
		ABOUT("Number of files.") },
	{ "modules", SIZE_AT(INFO, counts.modules), .always = true,
		ABOUT("Number of modules.") },
	{ "units", SIZE_AT(INFO, counts.units), .always = true,
		ABOUT("Number of FSDP units.") },
	{ "values", SIZE_AT(INFO, counts.values), .always = true,
		ABOUT("Number of entries that are no tensors.") });

struct part_of_bytes {
	struct fsdp_group group;
	struct value key;
	size_t next;
};

/* Of groups that have a key, which is all but the last one. */
static const void *each_share(struct subject of, size_t i, void *room)
{
	const enum fsdp_sums_by *by = of.object;
	const struct info *info = of.context;
	const struct fsdp_sums *sums = fsdp_overview_sums(info->overview, *by);
	struct part_of_bytes *made = room;

	if (i == 0)
		made->next = 0;
	while (made->next + 1 < fsdp_sums_count(sums)) {
		made->group = fsdp_sums_group(sums, made->next++);
		if (made->group.tensors == 0)
			continue;
		made->key = group_key(checkpoint_of(of), *by, made->group.key,
			&buffers_of(of)->name, false);
		return made;
	}
	return NULL;
}

#define SHARE struct part_of_bytes
static const struct record share_record =
	OBJECT_RECORD(SHARE, "share", "The part of the bytes that one group has.",
		{ "key", KEY_AT(SHARE, key), .always = true,
			ABOUT("The group: a dtype, a role or a rank.") },
		{ "tensors", COUNT_AT(SHARE, group.tensors), .always = true,
			ABOUT(GROUP_TENSORS_ABOUT) },
		{ "pieces", COUNT_AT(SHARE, group.pieces), .always = true,
			ABOUT(GROUP_PIECES_ABOUT) },
		{ "bytes", BYTES_AT(SHARE, group.bytes), .always = true,
			ABOUT(GROUP_BYTES_ABOUT) });

static const struct record bytes_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ "payload", BYTES_AT(INFO, bytes.payload), .always = true,
		ABOUT("Bytes of tensor storages, as stored.") },
	{ "on_disk", BYTES_AT(INFO, bytes.on_disk), .always = true,
		ABOUT("Bytes of all files.") },
	{ "records", BYTES_AT(INFO, bytes.records), .always = true,
		ABOUT("Bytes of directories, headers, pickles and padding.") },
	{ "unaccounted", BYTES_AT(INFO, bytes.unaccounted), .always = true,
		ABOUT("Bytes that nothing refers to.") },
	{ "unused", BYTES_AT(INFO, bytes.unused), .always = true,
		ABOUT("Bytes of the payload that no tensor views.") },
	{ "by_dtype", EACH_AT(INFO, by_dtype, each_share, share_record), .always = true,
		ABOUT("By element type.") },
	{ "by_role", EACH_AT(INFO, by_role, each_share, share_record), .always = true,
		ABOUT("By role.") },
	{ "by_rank", EACH_AT(INFO, by_rank, each_share, share_record), .always = true,
		ABOUT("By rank.") });

static const void *find_value(struct subject of, size_t i, void *room)
{
	*(struct fsdp_value *)room = fsdp_value(checkpoint_of(of), (uint32_t)i);
	return room;
}

static const void *find_prefix(struct subject of, size_t i, void *room)
{
	*(struct fsdp_prefix *)room = fsdp_prefix(checkpoint_of(of), i);
	return room;
}

#define PREFIX struct fsdp_prefix
static const struct record prefix_record = RECORD_OF(RECORD_OBJECT, PREFIX,
	{ "prefix", WORD_AT(PREFIX, prefix), .always = true,
		ABOUT("The segment, with its dot.") },
	{ "count", COUNT_AT(PREFIX, count), .always = true,
		ABOUT("Number of tensors whose names have it.") });
static const struct record names_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ "prefixes", EACH_OF(INFO, counts.prefixes, find_prefix, prefix_record),
		.always = true, ABOUT("Segments that wrappers left in names.") });

static const struct record facts_record = OBJECT_RECORD(INFO, "facts",
	"The facts of one checkpoint.",
	{ "format", OBJECT_AT(INFO, format, format_record), .always = true },
	{ "world_size", ID_AT(INFO, world_size),
		ABOUT("Number of ranks that saved it, where anything tells; 1 for files of formats that have no ranks.") },
	{ "ranks_seen", SHAPE_AT(INFO, ranks, rank_count), .always = true,
		ABOUT("Ranks that own at least one piece, ascending.") },
	{ "plan", OBJECT(plan_record), .has = has_plan },
	{ "counts", OBJECT(counts_record), .always = true, ABOUT("How many there are.") },
	{ "bytes", OBJECT(bytes_record), .always = true, ABOUT("Where the bytes are.") },
	{ "values", EACH_ITEM(INFO, counts.values, find_value, entry_record),
		.always = true, ABOUT("Entries that are no tensors.") },
	{ "names", OBJECT(names_record), .always = true,
		ABOUT("What the stored names look like.") },
	{ "waste", ROWS(waste_record),
		ABOUT("Storages that hold more than tensors view. Only with `--waste`.") });

/* ---- for people ---- */

static void tell_head(struct info *info)
{
	const struct fsdp_format *format = &info->format;
	struct text path = text_of(info->run->path);
	struct out *out = info->run->out;

	while (path.size > 1 && path.data[path.size - 1] == '/')
		path.size--;
	out_line_begin(out, NULL);
	out_line_name(out, path);
	if (info->run->path_count > 1)
		out_line_text(out, " and %zu more", info->run->path_count - 1);
	out_line_text(out, ": ");
	out_line_name(
		out, text_of(format->title != NULL ? format->title : format->family));
	if (info->world_size != FSDP_NONE &&
		(info->world_size > 1 || info->rank_count > 0))
		out_line_text(out, ", %" PRIu32 " rank%s", info->world_size,
			info->world_size == 1 ? "" : "s");
	if (format->writer != NULL) {
		out_line_text(out, ", written by ");
		out_line_name(out, text_of(format->writer));
	}
	if (format->torch_guess != NULL) {
		out_line_text(out, ", torch ");
		out_line_name(out, text_of(format->torch_guess));
	}
	out_line_end(out);
}

static void tell_plan(struct info *info)
{
	const struct fsdp_plan_facts *plan = &info->plan;
	struct out *out = info->run->out;

	if (!info->has_plan)
		return;
	out_line_begin(out, "plan");
	out_line_name(out, text_of(plan->path));
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
	if (plan->mesh != FSDP_NONE) {
		out_line_text(out, ", mesh ");
		mesh_line(info->run, plan->mesh);
	} else if (plan->world_size != FSDP_NONE) {
		out_line_text(out, ", world size %" PRIu32, plan->world_size);
	}
	out_line_end(out);
}

static const char *dtype_word(const struct fsdp_role_total *total)
{
	return total->dtype == FSDP_NONE ? "several dtypes"
					 : fsdp_dtype(total->dtype)->name;
}

static void tell_role(
	struct info *info, enum fsdp_role role, const char *label, bool as_parameters)
{
	const struct fsdp_role_total *total = &info->facts->roles[role];
	struct out *out = info->run->out;

	if (total->tensors == 0)
		return;
	out_line_begin(out, label);
	if (as_parameters) {
		out_line_value(out, value_elements(total->numel));
		out_line_text(out, " in ");
	}
	out_line_text(out, "%" PRIu64 " tensor%s, %s, ", total->tensors,
		total->tensors == 1 ? "" : "s", dtype_word(total));
	out_line_value(out, value_bytes(total->bytes));
	out_line_end(out);
}

/* "exp_avg, exp_avg_sq float32": those of one dtype together. */
static void tell_state_kinds(struct info *info)
{
	struct out *out = info->run->out;
	const struct fsdp_overview_facts *facts = info->facts;
	const struct fsdp_state_kind *before = NULL;

	for (size_t i = 0; i < facts->state_count; i++) {
		const struct fsdp_state_kind *kind = &facts->states[i];
		if (kind->is_scalar)
			continue;
		if (before != NULL && before->dtype != kind->dtype)
			out_line_text(out, " %s", fsdp_dtype(before->dtype)->name);
		out_line_text(out, "%s", before != NULL ? ", " : "");
		out_line_name(out, text_of(kind->key));
		before = kind;
	}
	if (before != NULL)
		out_line_text(out, " %s", fsdp_dtype(before->dtype)->name);
	if (facts->other_states > 0)
		out_line_text(out, ", and others");
}

static void tell_optimizer(struct info *info)
{
	const struct fsdp_role_total *total = &info->facts->roles[FSDP_ROLE_OPTIM];
	struct out *out = info->run->out;

	if (total->tensors == 0)
		return;
	out_line_begin(out, "optimizer");
	out_line_text(out, "%" PRIu64 " tensor%s: ", total->tensors,
		total->tensors == 1 ? "" : "s");
	tell_state_kinds(info);
	out_line_text(out, ", ");
	out_line_value(out, value_bytes(total->bytes));
	for (size_t i = 0; i < info->facts->state_count; i++) {
		const struct fsdp_state_kind *kind = &info->facts->states[i];
		if (!kind->is_scalar)
			continue;
		out_line_text(out, "; ");
		out_line_name(out, text_of(kind->key));
		out_line_text(out, " (%" PRIu64 " scalar%s)", kind->tensors,
			kind->tensors == 1 ? "" : "s");
	}
	out_line_end(out);
}

/* How far training was: what people look for among many values. */
static bool is_progress(struct text name)
{
	static const char *const WORDS[] = { "step", "steps", "global_step",
		"global_steps", "epoch", "iteration" };

	for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
		if (text_is(name, text_of(WORDS[i])))
			return true;
	return false;
}

static void tell_value(struct info *info, uint32_t index, bool progress, size_t *shown)
{
	struct fsdp_value value = fsdp_value(info->run->checkpoint, index);
	struct text name = entry_shown_name(info->run, &info->buffers.name, &value);
	struct out *out = info->run->out;

	if (*shown == VALUES_SHOWN || is_progress(name) != progress)
		return;
	out_line_text(out, "%s", (*shown)++ > 0 ? ", " : "");
	out_line_name(out, name);
	struct text text =
		tokens_text(&info->buffers.text, value.tokens, value.token_count);
	if (text.data == NULL || text.size > WORD_SIZE)
		return; /* long ones: see ls --objects */
	out_line_text(out, " ");
	out_line_name(out, text);
}

static void tell_values(struct info *info)
{
	size_t count = info->counts.values, shown = 0;
	struct out *out = info->run->out;

	if (count == 0)
		return;
	out_line_begin(out, "values");
	for (uint32_t i = 0; i < count; i++)
		tell_value(info, i, true, &shown);
	for (uint32_t i = 0; i < count && shown < VALUES_SHOWN; i++)
		tell_value(info, i, false, &shown);
	if (count > VALUES_SHOWN)
		out_line_text(out, ", and %zu more", count - VALUES_SHOWN);
	out_line_end(out);
}

static void tell_way(struct out *out, const struct fsdp_sharding *sharding)
{
	switch (sharding->how) {
	case FSDP_SHARDING_REPLICATED:
		out_line_text(out, "on each of %" PRIu32, sharding->over);
		break;
	case FSDP_SHARDING_FLAT:
		out_line_text(out, "flattened over %" PRIu32, sharding->over);
		break;
	case FSDP_SHARDING_DIMS:
		out_line_text(out, "several dims over %" PRIu32, sharding->over);
		break;
	case FSDP_SHARDING_DIM:
		out_line_text(out, "dim %" PRIu32 " over %" PRIu32, sharding->dim,
			sharding->over);
		break;
	}
	if (sharding->copies > 1)
		out_line_text(out, ", %" PRIu32 " copies", sharding->copies);
	out_line_text(out, ": %" PRIu64 " tensor%s in %" PRIu64 " pieces",
		sharding->tensors, sharding->tensors == 1 ? "" : "s", sharding->pieces);
}

static void tell_sharding(struct info *info)
{
	const struct fsdp_overview_facts *facts = info->facts;
	struct out *out = info->run->out;

	if (facts->sharding_count == 0)
		return;
	out_line_begin(out, "sharding");
	for (size_t i = 0; i < facts->sharding_count && i < KINDS_SHOWN; i++) {
		out_line_text(out, "%s", i > 0 ? "; " : "");
		tell_way(out, &facts->shardings[i]);
	}
	if (facts->sharding_count > KINDS_SHOWN || facts->other_shardings > 0)
		out_line_text(out, "; others otherwise");
	if (facts->whole > 0)
		out_line_text(out, "; %" PRIu64 " whole", facts->whole);
	if (facts->whole > 0 && facts->whole_rank != FSDP_NONE)
		out_line_text(out, ", kept by rank %" PRIu32, facts->whole_rank);
	out_line_end(out);
}

static void tell_files(struct info *info)
{
	const struct fsdp_bytes *bytes = &info->bytes;
	struct out *out = info->run->out;

	if (info->counts.files == 0)
		return;
	out_line_begin(out, "files");
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
	out_line_text(out, ": ");
	out_line_value(out, value_bytes(bytes->on_disk));
	out_line_text(out, " = ");
	out_line_value(out, value_bytes(bytes->payload));
	out_line_text(out, " payload + ");
	out_line_value(out, value_bytes(bytes->records));
	out_line_text(out, " records; %" PRIu64 " bytes unaccounted", bytes->unaccounted);
	out_line_end(out);
	if (bytes->unused == 0 || bytes->unused == FSDP_UNKNOWN)
		return;
	out_line_begin(out, "unused");
	out_line_value(out, value_bytes(bytes->unused));
	out_line_text(out, " stored, but viewed by no tensor (--waste lists them)");
	out_line_end(out);
}

static void tell_balance(struct info *info)
{
	struct fsdp_balance balance =
		fsdp_sums_balance(fsdp_overview_sums(info->overview, FSDP_BY_RANK));

	if (balance.groups < 2 || balance.total == 0)
		return;
	if (balance.is_even) {
		out_line(info->run->out, "balance", "even");
		return;
	}
	out_line(info->run->out, "balance",
		"most on rank %" PRIu32 ", %.2f %% above the mean", balance.key,
		(double)balance.most * (double)balance.groups / (double)balance.total *
				100 -
			100);
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

static bool is_cleaned(const char *prefix)
{
	return strcmp(prefix, "_fsdp_wrapped_module.") == 0 ||
	       strcmp(prefix, "_checkpoint_wrapped_module.") == 0;
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
				is_cleaned(prefix.prefix) ? "without" : "with");
		out_line_end(out);
	}
}

/* The rule that says where plan and checkpoint do not meet. */
static const char PLAN_MISMATCH[] = "FI1081";

static void tell_findings(struct info *info)
{
	const struct fsdp_checkpoint *checkpoint = info->run->checkpoint;
	uint64_t counts[FSDP_SEVERITY_COUNT] = { 0 };
	size_t count = fsdp_finding_count(checkpoint);
	const struct fsdp_finding *mismatch = NULL;
	struct out *out = info->run->out;
	bool some = false;

	for (size_t i = 0; i < count; i++) {
		const struct fsdp_finding *finding = fsdp_finding(checkpoint, i);
		counts[finding->severity]++;
		if (mismatch == NULL && strcmp(finding->rule->id, PLAN_MISMATCH) == 0)
			mismatch = finding;
	}
	for (size_t i = 0; i < fsdp_omitted_count(checkpoint); i++) {
		struct fsdp_omitted omitted = fsdp_omitted(checkpoint, i);
		counts[omitted.rule->severity] += omitted.count;
	}
	for (size_t i = FSDP_SEVERITY_COUNT; i-- > 0;) {
		if (counts[i] == 0)
			continue;
		if (!some)
			out_line_begin(out, "findings");
		out_line_text(out, "%s%" PRIu64 " %s%s", some ? ", " : "", counts[i],
			fsdp_severity_name((enum fsdp_severity)i),
			counts[i] == 1 ? "" : "s");
		some = true;
	}
	if (some)
		out_line_end(out);
	if (mismatch == NULL)
		return;
	out_line_begin(out, "");
	out_line_name(out, text_of_span(mismatch->message));
	out_line_end(out);
}

/* ---- the command ---- */

static bool show(struct info *info)
{
	tell_head(info);
	tell_plan(info);
	tell_role(info, FSDP_ROLE_PARAM, "parameters", true);
	tell_role(info, FSDP_ROLE_BUFFER, "buffers", false);
	tell_optimizer(info);
	tell_role(info, FSDP_ROLE_OTHER, "tensors", false);
	tell_values(info);
	tell_sharding(info);
	tell_files(info);
	tell_balance(info);
	tell_names(info);
	tell_findings(info);
	out_fields(info->run->out, &facts_record, (struct subject){ info, info });
	return info->waste == NULL || waste_show(info->waste, info->run, &info->buffers);
}

/* The strategies of the units, each once, in order. */
static void list_strategies(struct info *info)
{
	for (uint32_t i = 0; i < info->counts.units; i++) {
		struct fsdp_unit unit = fsdp_unit(info->run->checkpoint, i);
		struct text strategy = text_of(unit.strategy);
		size_t j = 0;
		if (strategy.data == NULL || unit.inferred)
			continue;
		while (j < info->strategy_count &&
			!text_is(info->strategies[j], strategy))
			j++;
		if (j == info->strategy_count && j < KINDS_MAX)
			info->strategies[info->strategy_count++] = strategy;
	}
}

static bool list_ranks(struct info *info)
{
	size_t count = 0;
	const uint32_t *ranks = fsdp_checkpoint_ranks(info->run->checkpoint, &count);

	info->ranks = malloc((count + 1) * sizeof *info->ranks);
	if (info->ranks == NULL)
		return false;
	info->rank_count = (uint32_t)count;
	for (size_t i = 0; i < count; i++)
		info->ranks[i] = ranks[i];
	return true;
}

static void count_all(struct info *info)
{
	const struct fsdp_checkpoint *checkpoint = info->run->checkpoint;

	info->counts.tensors = fsdp_tensor_count(checkpoint);
	info->counts.parameters = info->facts->roles[FSDP_ROLE_PARAM].numel;
	info->counts.pieces = fsdp_piece_count(checkpoint);
	info->counts.files = fsdp_file_count(checkpoint);
	info->counts.modules = fsdp_module_count(checkpoint);
	info->counts.units = fsdp_unit_count(checkpoint);
	info->counts.values = fsdp_value_count(checkpoint);
	info->counts.prefixes = fsdp_prefix_count(checkpoint);
}

static bool prepare(struct info *info, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = info->run->checkpoint;

	if (!fsdp_overview_new(checkpoint, &info->overview, ret_error) ||
		!list_ranks(info))
		return false;
	info->facts = fsdp_overview_facts(info->overview);
	info->format = fsdp_checkpoint_format(checkpoint);
	info->world_size = fsdp_checkpoint_world_size(checkpoint);
	info->has_plan = fsdp_checkpoint_plan(checkpoint, &info->plan);
	info->bytes = fsdp_checkpoint_bytes(checkpoint);
	count_all(info);
	list_strategies(info);
	add_files(info);
	return !info->options->waste ||
	       waste_find(info->run, &info->waste, &info->status, ret_error);
}

static bool run_info(struct run *run, struct fsdp_error **ret_error)
{
	struct info info = { .run = run,
		.options = run->options,
		.by_dtype = FSDP_BY_DTYPE,
		.by_role = FSDP_BY_ROLE,
		.by_rank = FSDP_BY_RANK };
	bool good;

	info.row = (struct row_context){ .run = run, .buffers = &info.buffers };
	good = prepare(&info, ret_error);
	if (good) {
		run_begin(run, info.status);
		good = show(&info) && !row_buffers_failed(&info.buffers);
	}
	fsdp_waste_free(info.waste);
	fsdp_overview_free(info.overview);
	free(info.ranks);
	row_buffers_done(&info.buffers);
	return good;
}

static bool wants_values(const void *options)
{
	(void)options;
	return true;
}

/* A table of what is stored but not viewed has rows, in order. */
static bool only_counts(const void *options)
{
	const struct info_options *info = options;

	return !info->waste;
}

const struct command command_info = {
	.name = "info",
	.group = GROUP_START,
	.summary = "what is this checkpoint?",
	.synopsis = "[--waste] CHECKPOINT...",
	.example = "info step-1000/",
	.examples = { "info step-1000/", "info --json model.pt | jq .data.bytes" },
	.options = OPTIONS,
	.answer = &facts_record,
	.shapes = SHAPE_FACTS | SHAPE_ITEMS,
	.answer = &facts_record,
	.output = "text",
	.inputs = INPUTS_MANY,
	.shows_plan = true,
	.wants_values = wants_values,
	.only_counts = only_counts,
	.options_size = sizeof(struct info_options),
	.run = run_info,
};
