/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what the files of a DeepSpeed checkpoint declare besides tensors: which
 * parameters there are and in which groups, over how many ranks they are cut, how they
 * are aligned, which are one. Contradictions stay as they are: flat-buffers.c settles
 * them.
 *
 *	param_shapes                  {fqn: shape}, or a list of these, one a group
 *	frozen_param_shapes           {fqn: shape}
 *	buffer_names                  [fqn, …]
 *	shared_params                 {fqn: fqn}
 *	universal_checkpoint_info     see there
 *	dp_world_size, mp_world_size, ds_config.zero_optimization.{stage, …}
 *	optimizer_state_dict.partition_count             [ranks, …], one a group
 *	optimizer_state_dict.param_alignment_paddings    [[elements, …], …]
 *	optimizer_state_dict.param_slice_mappings        see there
 *
 * Origin: deepspeed/runtime/engine.py, runtime/zero/stage_1_and_2.py (0.19.8), and files
 * of it.
 */
#include "formats/deepspeed/deepspeed.h"

#include "base/num.h"

/* ---- param_slice_mappings ---- */

/*
 * Reads the position of a parameter in a rank's part of a flat buffer, as DeepSpeed names
 * it, and finds it by name. flat-buffers.c checks whether it can be true.
 *
 *	param_slice_mappings   [{fqn: fragment_address}, …], one dict a group
 *	fragment_address       an object whose state is {"numel": n, "start": n}
 *
 * Origin: deepspeed/utils/tensor_fragment.py (0.19.8), and files of it.
 */

struct slice {
	uint32_t first, last; /* + 1 */
};

static bool read_mapping_number(
	const struct fsdp_token *tokens, const char *key, uint64_t *ret)
{
	if (tokens[0].kind != FSDP_TOKEN_TEXT || !fsdp_span_is(tokens[0].text, key) ||
		tokens[1].kind != FSDP_TOKEN_INTEGER || tokens[1].integer < 0 ||
		(uint64_t)tokens[1].integer > FSDP_MAPPING_MAX)
		return false;
	*ret = (uint64_t)tokens[1].integer;
	return true;
}

bool fsdp_mapping_read(
	const struct fsdp_value_record *value, struct fsdp_mapping *ret_mapping)
{
	bool start = false, numel = false;
	if (value->type == NULL || strcmp(value->type, "fragment_address") != 0)
		return false;
	for (uint32_t i = 0; i + 1 < value->token_count; i++) {
		const struct fsdp_token *tokens = &value->tokens[i];
		start |= read_mapping_number(tokens, "start", &ret_mapping->start);
		numel |= read_mapping_number(tokens, "numel", &ret_mapping->numel);
	}
	return start && numel;
}

uint32_t fsdp_mappings_first(const struct fsdp_mappings *mappings, uint32_t slice)
{
	return slice < mappings->slices.count
		       ? ((struct slice *)fsdp_vec_at(&mappings->slices, slice))->first
		       : 0;
}

/* From now on those of this slice are found, and no others. */
static void mappings_begin(struct fsdp_mappings *mappings, uint32_t slice)
{
	uint32_t last = FSDP_NONE;
	uint32_t first = fsdp_mappings_first(mappings, slice);
	size_t count = 0;
	for (uint32_t id = first; id != 0;
		id = fsdp_mappings_at(mappings, id - 1)->next_of_slice)
		count++;
	/* Names are those, the groups and nothing. */
	mappings->first = FSDP_TAKE(mappings->scratch, mappings->first, 2 * count + 2);
	mappings->last = FSDP_TAKE(mappings->scratch, mappings->last, 2 * count + 2);
	mappings->ranks = FSDP_TAKE(mappings->scratch, mappings->ranks, count + 1);
	mappings->rank_count = 0;
	mappings->count = count;
	memset(mappings->present, 0, sizeof mappings->present);
	(void)fsdp_names_init(&mappings->names, mappings->scratch);
	for (uint32_t id = first; id != 0;
		id = fsdp_mappings_at(mappings, id - 1)->next_of_slice) {
		const struct fsdp_mapping *mapping = fsdp_mappings_at(mappings, id - 1);
		if (mapping->rank != last)
			mappings->ranks[mappings->rank_count++] = mapping->rank;
		last = mapping->rank;
		mappings->present[mapping->group] = true;
		/* The name below its group. */
		uint32_t group = fsdp_names_child(&mappings->names, 0,
			fsdp_span(&mapping->group, sizeof mapping->group));
		uint32_t name = fsdp_names_child(&mappings->names, group, mapping->fqn);
		if (mappings->first[name] == 0)
			mappings->first[name] = id;
		else
			fsdp_mappings_at(mappings, mappings->last[name] - 1)->next = id;
		mappings->last[name] = id;
	}
}

uint32_t fsdp_mappings_find(
	const struct fsdp_mappings *mappings, uint32_t group, struct fsdp_span fqn)
{
	uint32_t name = fsdp_names_find_child(
		&mappings->names, 0, fsdp_span(&group, sizeof group));
	if (name != FSDP_NONE)
		name = fsdp_names_find_child(&mappings->names, name, fqn);
	return name != FSDP_NONE ? mappings->first[name] : 0;
}

bool fsdp_mappings_has_rank(const struct fsdp_mappings *mappings, uint32_t rank)
{
	return fsdp_find_sorted(mappings->ranks, mappings->rank_count, rank) <
	       mappings->rank_count;
}

/* ---- universal_checkpoint_info ---- */

/*
 * Reads universal_checkpoint_info, and as much of Python's regular expressions as models
 * write there.
 *
 *	tp_replicated_parameter_patterns          every rank has all of it
 *	parameter_to_average_patterns             the mean of the ranks counts
 *	parameter_with_2_sub_params_cat_dim_0     two halves, each cut along dimension 0
 *	parameter_with_row_parallelism_patterns   cut along dimension 1
 *	pipeline_replicated_parameter_patterns    every stage has it
 *	vocabulary_parameter_patterns             cut along dimension 0, and padded
 *	parameter_with_sub_params                 of several shapes: not supported
 *	universal_checkpoint_version, original_vocab_size, …   numbers, shown as they are
 *
 * The first line that takes a name decides, of the first four. A pattern has to match
 * from the start of the name, not to its end. It may hold letters, ".", "\d", "\w", an
 * escaped sign, "^", "$", each of them except the last two may be followed by "*", "+" or
 * "?". Groups, sets and counts are not supported; then no pattern is used.
 *
 * Origin: deepspeed/checkpoint/{constants,ds_to_universal}.py (0.19.8).
 */

enum { ATOMS_MAX = 256, WORDS = ATOMS_MAX / 64 + 1 };

/* Steps of matching in all; models need some millions. */
#define WORK_MAX (UINT64_C(1) << 30)

enum pattern_kind {
	KIND_COPY,
	KIND_MEAN,
	KIND_HALVES,
	KIND_COLUMNS,
	KIND_STAGES,
	KIND_NONE
};

static const struct {
	const char *key;
	enum pattern_kind kind;
} keys[] = {
	{ "tp_replicated_parameter_patterns", KIND_COPY },
	{ "parameter_to_average_patterns", KIND_MEAN },
	{ "parameter_with_2_sub_params_cat_dim_0", KIND_HALVES },
	{ "parameter_with_row_parallelism_patterns", KIND_COLUMNS },
	{ "pipeline_replicated_parameter_patterns", KIND_STAGES },
	{ "vocabulary_parameter_patterns", KIND_NONE },
};

/* ---- patterns ---- */

/* One sign of a pattern, and how often it may come. */
struct atom {
	unsigned char sign;
	char class; /* 'c' the sign itself, '.' any, 'd' a digit, 'w' of a word */
	bool may_lack, may_repeat;
};

struct pattern {
	struct atom atoms[ATOMS_MAX];
	size_t count;
	bool to_end;
};

static bool parse_escape(unsigned char sign, struct atom *atom)
{
	bool letter = (sign >= 'a' && sign <= 'z') || (sign >= 'A' && sign <= 'Z') ||
		      fsdp_is_digit(sign);
	atom->sign = sign;
	atom->class = sign == 'd' || sign == 'w' ? (char)sign : 'c';
	return !letter || atom->class != 'c';
}

/* False: it holds what is not understood. */
static bool parse(struct fsdp_span text, struct pattern *pattern)
{
	size_t at = text.size != 0 && text.data[0] == '^';
	pattern->count = 0;
	pattern->to_end = false;
	while (at < text.size) {
		unsigned char sign = text.data[at++];
		struct atom atom = { .sign = sign, .class = 'c' };
		if (sign == '$' && at == text.size) {
			pattern->to_end = true;
			return true;
		}
		if (pattern->count == ATOMS_MAX ||
			memchr("^$()[]{}|*+?", sign, 12) != NULL ||
			(sign == '\\' && (at == text.size ||
						 !parse_escape(text.data[at++], &atom))))
			return false;
		if (sign == '.')
			atom.class = '.';
		unsigned char next = at < text.size ? text.data[at] : 0;
		atom.may_lack = next == '*' || next == '?';
		atom.may_repeat = next == '*' || next == '+';
		at += atom.may_lack || atom.may_repeat;
		/* Twice, as in ".*?", changes nothing in whether it matches. */
		at += (atom.may_lack || atom.may_repeat) && at < text.size &&
		      text.data[at] == '?';
		pattern->atoms[pattern->count++] = atom;
	}
	return true;
}

static bool takes(const struct atom *atom, unsigned char sign)
{
	switch (atom->class) {
	case '.':
		return sign != '\n';
	case 'd':
		return fsdp_is_digit(sign);
	case 'w':
		return fsdp_is_digit(sign) || sign == '_' ||
		       (sign >= 'a' && sign <= 'z') || (sign >= 'A' && sign <= 'Z');
	default:
		return sign == atom->sign;
	}
}

/* Sets of places in a pattern. */
static bool has(const uint64_t *set, size_t place)
{
	return (set[place / 64] >> place % 64 & 1) != 0;
}

/* The place, and those that follow if nothing more comes. Places after one in the set
 * are in it too, so a step of the name takes no longer than the pattern is. */
static void add(const struct pattern *pattern, uint64_t *set, size_t place)
{
	while (!has(set, place)) {
		set[place / 64] |= UINT64_C(1) << place % 64;
		if (place == pattern->count || !pattern->atoms[place].may_lack)
			return;
		place++;
	}
}

/* All places at once, so that no pattern takes longer than its length times the name's.
 */
static bool matches(const struct pattern *pattern, struct fsdp_span name, uint64_t *work)
{
	uint64_t now[WORDS] = { 0 };
	add(pattern, now, 0);
	for (size_t i = 0; i < name.size; i++) {
		uint64_t then[WORDS] = { 0 };
		if (has(now, pattern->count) && !pattern->to_end)
			return true;
		for (size_t k = 0; k < pattern->count; k++) {
			if (!has(now, k) || !takes(&pattern->atoms[k], name.data[i]))
				continue;
			add(pattern, then, k + 1);
			if (pattern->atoms[k].may_repeat)
				add(pattern, then, k);
		}
		*work += pattern->count + 1;
		memcpy(now, then, sizeof now);
	}
	return has(now, pattern->count);
}

/* ---- what is reported ---- */

void fsdp_slicing_take(struct fsdp_slicing *slicing, struct fsdp_span name,
	const struct fsdp_value_record *value)
{
	struct fsdp_span key = fsdp_span_first(name, '.');
	struct pattern pattern;
	/* An empty list is a value of its own, under the key itself. */
	if (fsdp_span_is(key, "parameter_with_sub_params") && key.size != name.size)
		slicing->unread = key;
	slicing->is_patterned |= slicing->unread.data != NULL;
	for (size_t i = 0; i < FSDP_COUNT(keys); i++) {
		if (!fsdp_span_is(key, keys[i].key) || key.size == name.size)
			continue;
		slicing->is_patterned = true;
		if (value->token_count != 1 || value->tokens->kind != FSDP_TOKEN_TEXT ||
			slicing->count == FSDP_SLICING_PATTERNS ||
			!parse(value->tokens->text, &pattern))
			slicing->unread =
				value->token_count == 1 &&
						value->tokens->kind == FSDP_TOKEN_TEXT
					? value->tokens->text
					: key;
		else
			slicing->patterns[slicing->count++] =
				(struct fsdp_slicing_pattern){
					.text = value->tokens->text,
					.kind = (uint8_t)keys[i].kind,
				};
	}
}

enum fsdp_cut fsdp_slicing_of(
	struct fsdp_slicing *slicing, struct fsdp_span fqn, bool *ret_everywhere)
{
	static const enum fsdp_cut cuts[] = {
		[KIND_COPY] = FSDP_CUT_COPY,
		[KIND_MEAN] = FSDP_CUT_MEAN,
		[KIND_HALVES] = FSDP_CUT_HALVES,
		[KIND_COLUMNS] = FSDP_CUT_COLUMNS,
		[KIND_STAGES] = FSDP_CUT_ROWS,
		[KIND_NONE] = FSDP_CUT_ROWS,
	};
	enum pattern_kind first = KIND_NONE;
	struct pattern pattern;
	*ret_everywhere = false;
	if (!slicing->is_patterned || slicing->unread.data != NULL)
		return FSDP_CUT_UNKNOWN;
	for (size_t i = 0; i < slicing->count; i++) {
		enum pattern_kind kind = slicing->patterns[i].kind;
		if (kind == KIND_NONE || (kind >= first && kind != KIND_STAGES))
			continue;
		if (slicing->work > WORK_MAX)
			return FSDP_CUT_UNKNOWN;
		if (!parse(slicing->patterns[i].text, &pattern) ||
			!matches(&pattern, fqn, &slicing->work))
			continue;
		*ret_everywhere |= kind == KIND_STAGES;
		if (kind < first)
			first = kind;
	}
	return cuts[first];
}

/* ---- what the files declare ---- */

#define MAPPINGS "optimizer_state_dict.param_slice_mappings."

bool fsdp_deepspeed_parse_index(struct fsdp_span *rest, uint32_t *ret_index)
{
	struct fsdp_span text = *rest;
	uint64_t index;
	if (!fsdp_span_number(&text, FSDP_MAPPING_GROUPS, &index) ||
		(text.size != 0 && !fsdp_span_behind(text, ".", &text)))
		return false;
	*rest = text;
	*ret_index = (uint32_t)index;
	return true;
}

static void add_parameter(struct fsdp_deepspeed *ds, struct fsdp_span fqn, uint32_t group,
	const struct fsdp_value_record *value, bool frozen)
{
	struct fsdp_model *model = ds->reading->model;
	int64_t shape[FSDP_DIMS_MAX];
	const struct fsdp_token *tokens = value->tokens;
	struct fsdp_deepspeed_parameter *parameter =
		&ds->slice.parameters[ds->slice.parameter_count];
	if (value->token_count == 0 || tokens[0].kind != FSDP_TOKEN_TUPLE ||
		tokens[0].count > FSDP_DIMS_MAX ||
		value->token_count != tokens[0].count + 1)
		return;
	size_t dims = tokens[0].count;
	for (size_t i = 0; i < dims; i++)
		shape[i] = tokens[i + 1].kind == FSDP_TOKEN_INTEGER
				   ? tokens[i + 1].integer
				   : -1;
	*parameter = (struct fsdp_deepspeed_parameter){
		.fqn = fqn,
		.dims = (uint8_t)dims,
		.group = group,
		.frozen = frozen,
	};
	if (!fsdp_numel(shape, dims, &parameter->numel) ||
		parameter->numel > INT64_MAX / 16)
		return;
	parameter->shape = fsdp_build_ints(model, shape, dims);
	ds->slice.parameter_count++;
	if (!frozen && ds->slice.firsts[group] == 0)
		ds->slice.firsts[group] = (uint32_t)ds->slice.parameter_count;
	fsdp_names_child(&ds->slice.declared, 0, fqn);
}

static void read_common(
	struct fsdp_deepspeed *ds, const struct fsdp_deepspeed_declared *stated)
{
	const struct fsdp_token *token = stated->value.tokens;
	if (stated->value.token_count != 1)
		return;
	if (token->kind == FSDP_TOKEN_INTEGER) {
		if (fsdp_span_is(stated->name, "dp_world_size"))
			ds->data_ranks = token->integer;
		else if (fsdp_span_is(stated->name, "mp_world_size"))
			ds->slice_ranks = token->integer;
		else if (fsdp_span_is(stated->name, "ds_config.zero_optimization.stage"))
			ds->stage = token->integer;
	} else if (token->kind == FSDP_TOKEN_BOOL &&
		   fsdp_span_is(stated->name,
			   "ds_config.zero_optimization.round_robin_gradients")) {
		ds->round_robin = token->integer != 0;
	}
}

/* Whether a value of the first rank is shown, not made into tensors. */
static bool is_shown(struct fsdp_span name)
{
	static const char *const others[] = { "param_shapes.", "frozen_param_shapes.",
		MAPPINGS, FSDP_DEEPSPEED_LAYER ".", FSDP_DEEPSPEED_EXPERT ".",
		FSDP_DEEPSPEED_RANK "." };
	struct fsdp_span rest;
	for (size_t i = 0; i < FSDP_COUNT(others); i++)
		if (fsdp_span_behind(name, others[i], &rest))
			return false;
	return true;
}

/* Of values of the first data rank of a slice, which are all that are sorted. */
static uint32_t rank_of_declared(const struct fsdp_deepspeed *ds, size_t index)
{
	const struct fsdp_value_record *value =
		fsdp_model_value(ds->reading->model, ds->first_value + index);
	return value->rank != FSDP_NONE && fsdp_deepspeed_data_rank_of(ds, value->rank) ==
						   ds->first_data
		       ? value->rank
		       : FSDP_NONE;
}

/* Every rank's file describes its own part. */
static void read_mappings(struct fsdp_deepspeed *ds, size_t count)
{
	const struct fsdp_model *model = ds->reading->model;
	struct fsdp_arena *scratch = ds->reading->scratch;
	struct fsdp_mappings *mappings = &ds->mappings;
	mappings->scratch = scratch;
	fsdp_vec_init(&mappings->list, scratch, sizeof(struct fsdp_mapping));
	fsdp_vec_init(&mappings->slices, scratch, sizeof(struct slice));
	FSDP_EACH(i, count, value, fsdp_model_value(model, ds->first_value + i)) {
		struct fsdp_mapping mapping = { .next = 0 };
		if (value->rank == FSDP_NONE || !fsdp_mapping_read(value, &mapping))
			continue;
		struct fsdp_span name = fsdp_model_name(model, value->raw_name, scratch);
		mapping.rank = fsdp_deepspeed_data_rank_of(ds, value->rank);
		mapping.slice = fsdp_deepspeed_slice_of(ds, value->rank);
		if (fsdp_span_behind(name, MAPPINGS, &mapping.fqn) &&
			fsdp_deepspeed_parse_index(&mapping.fqn, &mapping.group)) {
			/* In order of ranks, and of one rank in order of groups. The
			 * group is below FSDP_MAPPING_GROUPS. */
			struct fsdp_mapping *own = fsdp_vec_push(&ds->mappings.list);
			struct slice *slice =
				fsdp_vec_reach(&ds->mappings.slices, mapping.slice);
			*own = mapping;
			own->next = own->next_of_slice = 0;
			uint32_t id = (uint32_t)ds->mappings.list.count;
			if (slice->first == 0)
				slice->first = id;
			else
				fsdp_mappings_at(&ds->mappings, slice->last - 1)
					->next_of_slice = id;
			slice->last = id;
		}
	}
}

/* Each rank of ZeRO-3 and each slice notes the step in its model states. */
static void check_steps(struct fsdp_deepspeed *ds, size_t count)
{
	struct fsdp_model *model = ds->reading->model;
	const struct fsdp_value_record *first = NULL;
	FSDP_EACH(i, count, value, fsdp_model_value(model, ds->first_value + i)) {
		struct fsdp_span name =
			fsdp_model_name(model, value->raw_name, ds->reading->scratch);
		if (value->rank == FSDP_NONE || value->token_count != 1 ||
			value->tokens->kind != FSDP_TOKEN_INTEGER ||
			!fsdp_span_is(name, "global_steps"))
			continue;
		if (first == NULL)
			first = value;
		if (value->tokens->integer == first->tokens->integer)
			continue;
		fsdp_find(&model->findings, FSDP_RULE_STEP_DISAGREES,
			FSDP_PLACE(.rank = value->rank, .severity = FSDP_ERROR + 1,
				.fix = "copy the files of all ranks from one save"),
			"global_steps is %lld in the model states of rank %u, and %lld in those of rank %u: the files are of two saves",
			(long long)value->tokens->integer, value->rank,
			(long long)first->tokens->integer, first->rank);
		return;
	}
}

void fsdp_deepspeed_read_values(struct fsdp_deepspeed *ds)
{
	struct fsdp_model *model = ds->reading->model;
	size_t count = model->values.count - ds->first_value, kept = ds->first_value;
	struct fsdp_arena *scratch = ds->reading->scratch;
	struct fsdp_deepspeed_order order;
	fsdp_deepspeed_order(ds, count, rank_of_declared, &order);
	size_t sorted = order.begin[ds->model_ranks];
	ds->declared_begin = order.begin;
	ds->stated = FSDP_TAKE(scratch, ds->stated, sorted + 1);
	for (size_t i = 0; i < sorted; i++) {
		struct fsdp_deepspeed_declared *stated = &ds->stated[i];
		stated->value =
			*fsdp_model_value(model, ds->first_value + order.indexes[i]);
		stated->name = fsdp_model_name(model, stated->value.raw_name, scratch);
	}
	read_mappings(ds, count);
	check_steps(ds, count);
	/* The first slice decides; its files may be gone. */
	for (size_t i = ds->declared_begin[ds->model_ranks]; i-- > ds->declared_begin[1];)
		read_common(ds, &ds->stated[i]);
	for (size_t i = ds->declared_begin[0]; i < ds->declared_begin[1]; i++) {
		const struct fsdp_deepspeed_declared *stated = &ds->stated[i];
		struct fsdp_span rest;
		read_common(ds, stated);
		if (fsdp_span_behind(stated->name, "universal_checkpoint_info.", &rest))
			fsdp_slicing_take(&ds->slicing, rest, &stated->value);
		if (is_shown(stated->name))
			*fsdp_model_value(model, kept++) = stated->value;
	}
	fsdp_build_take_back(model, model->tensors.count, model->pieces.count, kept);
	ds->world_size = ds->optim_files;
	/* Files of the last ranks may be missing: where the others begin they decide. */
	if (ds->optim_files != 0 && ds->data_ranks > (int64_t)ds->optim_files &&
		ds->data_ranks < FSDP_DEEPSPEED_RANKS_MAX)
		ds->world_size = (uint32_t)ds->data_ranks;
}

static void read_shape(
	struct fsdp_deepspeed *ds, const struct fsdp_deepspeed_declared *stated)
{
	const struct fsdp_token *token = stated->value.tokens;
	struct fsdp_deepspeed_slice *slice = &ds->slice;
	struct fsdp_span rest;
	uint32_t group = 0;
	if (fsdp_span_behind(stated->name, "param_shapes.", &rest)) {
		/* Whether the second part of a value's path is a position in a list. */
		const int64_t *path =
			fsdp_model_ints(ds->reading->model, stated->value.path);
		if (path != NULL && path[0] >= 2 && (path[2] & 1) != 0 &&
			!fsdp_deepspeed_parse_index(&rest, &group))
			return;
		/* The stage of a pipeline with a layer determines the names of its
		 * parameters. */
		struct fsdp_span fqn = rest;
		uint32_t layer;
		if (fsdp_deepspeed_parse_index(&fqn, &layer) &&
			layer < FSDP_DEEPSPEED_LAYERS_MAX)
			ds->stage_of[layer] = ds->slice_index / ds->tensor_ranks + 1;
		add_parameter(ds, rest, group, &stated->value, false);
		return;
	}
	if (fsdp_span_behind(stated->name, "frozen_param_shapes.", &rest)) {
		add_parameter(ds, rest, 0, &stated->value, true);
		return;
	}
	if (stated->value.token_count != 1 || token->kind != FSDP_TOKEN_TEXT)
		return;
	if (fsdp_span_behind(stated->name, "buffer_names.", &rest))
		fsdp_names_child(&slice->buffers, 0, token->text);
	else if (fsdp_span_behind(stated->name, "shared_params.", &rest))
		slice->shared[slice->shared_count++] =
			(struct fsdp_deepspeed_shared){ rest, token->text };
}

/* Elements of padding after each parameter of ZeRO 1 and 2, if recorded; number of ranks
 * of a group. */
static void read_number(
	struct fsdp_deepspeed *ds, const struct fsdp_deepspeed_declared *stated)
{
	struct fsdp_deepspeed_slice *slice = &ds->slice;
	struct fsdp_span rest;
	uint32_t group, index;
	const struct fsdp_token *token = stated->value.tokens;
	if (stated->value.token_count != 1 || token->kind != FSDP_TOKEN_INTEGER ||
		token->integer < 0 || token->integer > UINT32_MAX)
		return;
	if (fsdp_span_behind(
		    stated->name, "optimizer_state_dict.partition_count.", &rest) &&
		fsdp_deepspeed_parse_index(&rest, &group))
		slice->counts[group] = (uint64_t)token->integer;
	if (!fsdp_span_behind(stated->name,
		    "optimizer_state_dict.param_alignment_paddings.", &rest) ||
		!fsdp_deepspeed_parse_index(&rest, &group) ||
		!fsdp_deepspeed_parse_index(&rest, &index))
		return;
	slice->has_paddings = true;
	size_t at = (size_t)slice->firsts[group] + index - 1;
	if (slice->firsts[group] != 0 && at < slice->parameter_count &&
		slice->parameters[at].group == group)
		slice->parameters[at].padding = (uint64_t)token->integer;
}

void fsdp_deepspeed_begin_slice(struct fsdp_deepspeed *ds, uint32_t index)
{
	struct fsdp_arena *scratch = ds->reading->scratch;
	size_t begin = ds->declared_begin[index], end = ds->declared_begin[index + 1];
	memset(&ds->slice, 0, sizeof ds->slice);
	mappings_begin(&ds->mappings, index);
	size_t room = end - begin + ds->mappings.count + 1;
	ds->slice_index = index;
	ds->slice.first_tensor = (uint32_t)ds->reading->model->tensors.count;
	ds->slice.parameters = FSDP_TAKE(scratch, ds->slice.parameters, room);
	ds->slice.shared = FSDP_TAKE(scratch, ds->slice.shared, room);
	(void)fsdp_names_init(&ds->slice.buffers, scratch);
	(void)fsdp_names_init(&ds->slice.declared, scratch);
	for (size_t i = begin; i < end; i++)
		read_shape(ds, &ds->stated[i]);
	for (size_t i = begin; i < end; i++)
		read_number(ds, &ds->stated[i]);
	/* Where parameters begin in their groups, and how long those are. A sum that no
	 * file could hold ends up beyond every part. */
	FSDP_EACH(i, ds->slice.parameter_count, parameter, &ds->slice.parameters[i]) {
		uint64_t *length = &ds->slice.lengths[parameter->group];
		parameter->begin = *length;
		if (!parameter->frozen &&
			(!fsdp_add(*length, parameter->numel + parameter->padding,
				 length) ||
				*length > FSDP_MAPPING_MAX))
			*length = FSDP_MAPPING_MAX;
	}
}

static void find_states_at(struct fsdp_deepspeed *ds, const char *prefix)
{
	struct fsdp_span rest;
	uint32_t group, first = FSDP_NONE;
	size_t end = ds->stored_order.begin[ds->slice_index + 1];
	for (size_t i = ds->stored_order.begin[ds->slice_index];
		i < end && ds->slice.state_count < FSDP_DEEPSPEED_STATES_MAX; i++) {
		const struct fsdp_deepspeed_stored *stored =
			&ds->stored[ds->stored_order.indexes[i]];
		uint32_t rank = stored->piece.rank;
		if (!stored->has_piece || (first != FSDP_NONE && rank != first) ||
			stored->tensor.dims != 1 ||
			!fsdp_span_behind(stored->name, prefix, &rest) ||
			!fsdp_deepspeed_parse_index(&rest, &group) || group != 0 ||
			rest.size >= 64)
			continue;
		first = rank;
		ds->slice.states[ds->slice.state_count++] = (const char *)rest.data;
	}
	ds->slice.states_at = prefix;
}

/* `elastic_checkpoint` has a list of the groups' states where else these are numbered. */
void fsdp_deepspeed_find_states(struct fsdp_deepspeed *ds)
{
	find_states_at(ds, ds->stage == 3 ? FSDP_ZERO_STATES_3 : FSDP_ZERO_STATES);
	if (ds->slice.state_count == 0 && ds->stage != 3)
		find_states_at(ds, FSDP_ZERO_STATES_ELASTIC);
}
