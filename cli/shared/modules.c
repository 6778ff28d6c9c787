/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules, FSDP units and meshes: their records, which modules a tree shows, and the
 * checkpoint as a sharding plan.
 */
#include <inttypes.h>
#include <string.h>

#include <fsdp/analysis.h>

#include "shared/modules.h"
#include "session/session.h"

/* ---- meshes ---- */

#define MESH_ABOUT "A device mesh, outermost dimension first."
#define MESH struct fsdp_mesh
const struct record mesh_record = OBJECT_RECORD(MESH, "mesh", MESH_ABOUT,
	{ "dim_names", LIST_AT(MESH, dim_names, dims, record_texts),
		IF_SET(MESH, dim_names), .null = true,
		ABOUT("Names of the dimensions; null when it has none.") },
	{ "shape", SHAPE_AT(MESH, shape, dims),
		ALWAYS("Number of ranks along each dimension.") });

GETTER(get_ranks, struct fsdp_mesh, value_shape(one->ranks, one->rank_count))

const struct record mesh_ranks_record = OBJECT_RECORD(MESH, NULL, MESH_ABOUT,
	{ NULL, FIELDS(mesh_record) },
	{ "ranks", GET(FIELD_SHAPE, get_ranks), IF_SET(MESH, ranks),
		ABOUT("Ranks in C order of the mesh; absent when they count from 0.") });

const void *find_mesh(struct subject of, size_t mesh, void *room)
{
	*(struct fsdp_mesh *)room = fsdp_mesh(checkpoint_of(of), (uint32_t)mesh);
	return room;
}

void mesh_line(struct run *run, uint32_t index)
{
	struct fsdp_mesh mesh = fsdp_mesh(run->checkpoint, index);

	for (uint32_t i = 0; i < mesh.dims; i++) {
		if (mesh.dim_names != NULL) {
			out_line_text(run->out, "%s", i > 0 ? " x " : "");
			out_line_name(run->out, text_of_span(mesh.dim_names[i]));
			out_line_text(run->out, "=%" PRId64, mesh.shape[i]);
		} else {
			out_line_text(
				run->out, "%s%" PRId64, i > 0 ? "x" : "", mesh.shape[i]);
		}
	}
}

/* ---- units ---- */

static struct value find_name(struct subject of, uint32_t module)
{
	return value_name(name_text(&buffers_of(of)->unit, checkpoint_of(of),
		fsdp_module(checkpoint_of(of), module).name));
}

static struct value find_raw_name(struct subject of, uint32_t module)
{
	struct fsdp_module found = fsdp_module(checkpoint_of(of), module);

	return found.raw_name != found.name ? value_name(name_text(&buffers_of(of)->raw,
						      checkpoint_of(of), found.raw_name))
					    : value_absent();
}

static struct value find_class(struct subject of, uint32_t module)
{
	struct fsdp_module found = fsdp_module(checkpoint_of(of), module);

	return value_word(module_shown_class(run_of(of), &found));
}

static struct value get_inferred(struct subject of)
{
	static const struct text MARK = { "fully_sharded", 13 };

	(void)of;
	return value_texts(&MARK, 1);
}

#define SETTING struct fsdp_text_pair
static const struct record setting_record = RECORD_OF(RECORD_OBJECT, SETTING,
	{ NULL, WORD_AT(SETTING, key) }, { NULL, WORD_AT(SETTING, value) });

#define UNIT struct fsdp_unit
const struct record unit_record = OBJECT_RECORD(UNIT, "unit",
	"One FSDP unit: modules whose parameters are sharded together.",
	{ "unit", FOUND_AT(UNIT, module, FIELD_NAME, find_name),
		ALWAYS("Clean name of its module; the root is the empty string.") },
	{ "name_raw", FOUND_AT(UNIT, module, FIELD_NAME, find_raw_name),
		ABOUT("Name of the module as PyTorch has it, when cleaning changed it.") },
	{ "class", FOUND_AT(UNIT, module, FIELD_WORD, find_class),
		ABOUT("Python class of the module.") },
	{ "api", WORD_AT(UNIT, api), .always = true, WORDS("fsdp1", "fsdp2"),
		ABOUT("Interface that made it.") },
	{ "strategy", WORD_AT(UNIT, strategy),
		ABOUT("Sharding strategy: `FULL_SHARD`, `SHARD_GRAD_OP`, `NO_SHARD`, `HYBRID_SHARD` or `_HYBRID_SHARD_ZERO2`; absent if the unit is known only from a log or a trace.") },
	{ "shard_world_size", ID_AT(UNIT, shard_world_size),
		ABOUT("Number of ranks that share one copy of the parameters; absent where it is not known.") },
	{ "replicate_world_size", ID_AT(UNIT, replicate_world_size),
		ABOUT("Number of copies; absent where it is not known.") },
	{ "mesh", MADE_AT(UNIT, mesh, find_mesh, mesh_record) },
	{ "mixed_precision",
		MAP_AT(UNIT, mixed_precision, mixed_precision_count, setting_record),
		IF_SET(UNIT, mixed_precision_count),
		ABOUT("Element types of the mixed-precision policy, by setting.") },
	{ "param_overrides",
		MAP_AT(UNIT, param_overrides, param_override_count, setting_record),
		IF_SET(UNIT, param_override_count),
		ABOUT("Element types of parameters that differ from the policy's `param_dtype`. FSDP2 only.") },
	{ "use_orig_params", MAYBE_AT(UNIT, use_orig_params),
		ABOUT("Whether the original parameters stay visible. FSDP1 only.") },
	{ "cpu_offload", MAYBE_AT(UNIT, cpu_offload),
		ABOUT("Whether parameters are kept in host memory while they are not used.") },
	{ "parameters", COUNT_AT(UNIT, parameters),
		ALWAYS("Number of elements that it shards.") },
	{ "bytes", BYTES_AT(UNIT, bytes), ALWAYS("Bytes of these elements, as stored.") },
	{ "inferred", GET(FIELD_TEXTS, get_inferred), IF_SET(UNIT, inferred),
		ABOUT("Fields that were inferred and not read from a record.") });

/* ---- wrappers ---- */

bool wrapper_is_folded(const struct run *run, uint32_t module)
{
	return !run->common->raw &&
	       fsdp_module(run->checkpoint, module).wrapper != FSDP_WRAPPER_NONE &&
	       module + 1 < fsdp_module_count(run->checkpoint) &&
	       fsdp_module(run->checkpoint, module + 1).parent == module;
}

/*
 * Chooses which visits are shown, and where they hang. Visits come in pre-order with
 * their depth, so everything is a loop over arrays: once up (what is needed), once down
 * (what is shown).
 */

struct text module_tree_name(
	const struct module_tree *tree, struct name_buffer *buffer, uint32_t index)
{
	struct fsdp_module module = module_at(tree, index);
	return name_text(buffer, tree->run->checkpoint,
		tree->run->common->raw ? module.raw_name : module.name);
}

enum mark module_tree_mark(
	const struct module_tree *tree, const struct shown_visit *shown)
{
	if (shown->marked == FSDP_NONE)
		return tree->likely != NULL &&
				       fsdp_inferred_unit(tree->likely, shown->module)
			       ? MARK_LIKELY
			       : MARK_NONE;
	return module_at(tree, shown->marked).unit_inferred ? MARK_INFERRED
							    : MARK_SHARDED;
}

const char *module_mark_text(enum mark mark)
{
	static const char *const texts[] = { NULL, "FULLY SHARDED",
		"FULLY SHARDED (inferred)", "FULLY SHARDED (inferred: repeated block)" };

	return texts[mark];
}

/* ---- which visits are shown ---- */

static bool is_selected(struct module_tree *tree, uint32_t index)
{
	const struct fsdp_checkpoint *checkpoint = tree->run->checkpoint;
	struct fsdp_module module = module_at(tree, index);

	if (tree->wanted.sharded_only && tree->marks[index] == FSDP_NONE)
		return false;
	if (tree->selection == NULL || selection_is_all(tree->selection))
		return true;
	if (selection_is_by_name(tree->selection))
		return selection_takes_module(tree->selection,
			span_of_text(module_tree_name(tree, tree->name, index)));
	/* With more than names to go by, a module is selected if one of its own tensors
	 * is. */
	for (uint32_t i = 0; i < module.tensor_count; i++) {
		uint32_t own = fsdp_module_tensor(checkpoint, &module, i);
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, own);
		struct text name = tensor_shown_name(tree->run, tree->name, &tensor);
		if (selection_takes_tensor(
			    tree->selection, checkpoint, own, span_of_text(name)))
			return true;
	}
	return false;
}

/* Where a visit hangs, and whether it hangs at all. */
static uint32_t place_module(struct module_tree *tree, uint32_t index)
{
	struct fsdp_module module = module_at(tree, index);
	int64_t limit = tree->wanted.depth;
	uint32_t parent = (uint32_t)NOT_SHOWN, depth = 0;

	if (module.parent != FSDP_NONE && module.parent < index)
		parent = tree->places[module.parent];
	if (!tree->kept[index] || parent == (uint32_t)CUT_OFF)
		return (uint32_t)CUT_OFF;
	if (wrapper_is_folded(tree->run, index))
		return parent;
	if (parent != (uint32_t)NOT_SHOWN)
		depth = tree->shown[parent].depth + 1;
	if (limit >= 0 && depth > (uint64_t)limit)
		return (uint32_t)CUT_OFF;
	struct shown_visit *shown = &tree->shown[tree->shown_count];
	*shown = (struct shown_visit){
		.module = index, .depth = depth, .emitted = FSDP_NONE
	};
	shown->marked = tree->marks[index];
	shown->parent = parent == (uint32_t)NOT_SHOWN ? FSDP_NONE : parent;
	if (depth > tree->deepest)
		tree->deepest = depth;
	return (uint32_t)tree->shown_count++;
}

/* ---- sizes ---- */

RELEASE(release_shares, fsdp_rank_bytes_free)

static void sum_sizes(struct module_tree *tree)
{
	struct fsdp_rank_bytes *shares = NULL;

	tree->sums = run_memory(tree->run, tree->shown_count, sizeof *tree->sums);
	/* The library looks at all visits, shown or not. */
	run_must(tree->run,
		!tree->wanted.rank_bytes ||
			fsdp_rank_bytes_new(tree->run->checkpoint, &shares, NULL));
	if (shares != NULL)
		run_owns(tree->run, shares, release_shares);
	for (size_t i = 0; i < tree->shown_count; i++) {
		struct fsdp_module module = module_at(tree, tree->shown[i].module);

		tree->sums[i] = (struct sums){ module.parameters, module.bytes,
			shares != NULL ? fsdp_rank_bytes_of(shares, tree->shown[i].module)
				       : FSDP_UNKNOWN };
	}
}

struct sums module_tree_sums(const struct module_tree *tree, size_t index)
{
	if (tree->sums != NULL)
		return tree->sums[index];
	struct fsdp_module module = module_at(tree, tree->shown[index].module);
	return (struct sums){ module.parameters, module.bytes, FSDP_UNKNOWN };
}

/* ---- both ---- */

RELEASE(release_likely, fsdp_inferred_units_free)

void module_tree_choose(struct module_tree *tree)
{
	struct run *run = tree->run;
	const struct fsdp_checkpoint *checkpoint = run->checkpoint;
	size_t count = tree->module_count = fsdp_module_count(checkpoint);
	struct fsdp_plan_facts plan;

	tree->marks = run_memory(run, count, sizeof *tree->marks);
	tree->kept = run_memory(run, count, sizeof *tree->kept);
	tree->places = run_memory(run, count, sizeof *tree->places);
	tree->shown = run_memory(run, count, sizeof *tree->shown);
	/* A plan has all units. */
	if (!fsdp_checkpoint_plan(checkpoint, &plan)) {
		run_must(run, fsdp_inferred_units_new(checkpoint, &tree->likely, NULL));
		run_owns(run, tree->likely, release_likely);
	}
	/* A unit may belong to a wrapper (activation checkpointing inside of FSDP): its
	 * mark goes to the module that stands for both. */
	FOR_EACH(i, (uint32_t)tree->module_count, module, module_at(tree, i)) {
		tree->marks[i] = module.unit != FSDP_NONE ? i : FSDP_NONE;
		if (module.unit == FSDP_NONE && module.parent < i &&
			wrapper_is_folded(tree->run, module.parent))
			tree->marks[i] = tree->marks[module.parent];
	}
	/* Upwards: what is selected keeps all that is above it. */
	for (size_t i = tree->module_count; i-- > 0;) {
		uint32_t parent = module_at(tree, (uint32_t)i).parent;
		if (!tree->kept[i])
			tree->kept[i] = is_selected(tree, (uint32_t)i);
		if (tree->kept[i] && parent < i)
			tree->kept[parent] = true;
	}
	for (uint32_t i = 0; i < tree->module_count; i++)
		tree->places[i] = place_module(tree, i);
	for (size_t i = tree->shown_count; i-- > 0;) {
		struct shown_visit *shown = &tree->shown[i];
		if (shown->end == 0)
			shown->end = (uint32_t)i + 1;
		if (shown->parent != FSDP_NONE &&
			tree->shown[shown->parent].end < shown->end)
			tree->shown[shown->parent].end = shown->end;
	}
	if (tree->wanted.sums || tree->wanted.rank_bytes)
		sum_sizes(tree);
}

/* ---- Describes a checkpoint's modules, parameters and units as a sharding plan ---- */

struct plan_document {
	struct row_context row;
	const char *format;
	uint64_t version;
	struct fsdp_plan_facts plan;
	size_t begin, raw_begin; /* of each name so many bytes are above the model */
	uint32_t tensor_count;
	bool lists_parameters;
};

static const struct plan_document *document_of(struct subject of)
{
	return of.context;
}

static const struct fsdp_checkpoint *checkpoint_in(struct subject of)
{
	return document_of(of)->row.run->checkpoint;
}

/* ---- names ---- */

/* Whether a module is the one where the model begins, or below it. */
static bool is_of_model(const struct plan_document *document, uint32_t module)
{
	while (module != document->plan.begin && module != FSDP_NONE)
		module = fsdp_module(document->row.run->checkpoint, module).parent;
	return module != FSDP_NONE;
}

static struct text name_below(
	struct subject of, struct name_buffer *buffer, size_t above, uint32_t id)
{
	struct text name = name_text(buffer, checkpoint_in(of), id);
	size_t used = name.size < above ? name.size : above;

	return name.size + 1 < above
		       ? name
		       : (struct text){ name.data + used, name.size - used };
}

/* ---- modules ---- */

struct plan_visit {
	uint32_t next; /* where to search for the next one */
	struct fsdp_module module;
};

static struct value module_name(struct subject of, uint32_t raw_name)
{
	const struct plan_document *document = document_of(of);

	return value_name(name_below(
		of, &document->row.buffers->raw, document->raw_begin, raw_name));
}

static bool class_is_known(struct subject of)
{
	return !((const struct plan_visit *)of.object)->module.class_inferred;
}

const char *wrapper_word(unsigned wrapper)
{
	return wrapper != FSDP_WRAPPER_NONE ? fsdp_wrapper_name(wrapper) : NULL;
}

#define MODULE struct plan_visit
static const struct record plan_module = RECORD_OF(RECORD_OBJECT, MODULE,
	{ "name", FOUND_AT(MODULE, module.raw_name, FIELD_NAME, module_name),
		.always = true },
	{ "class", WORD_AT(MODULE, module.class_name), .has = class_is_known },
	{ "orig_class", WORD_AT(MODULE, module.original_class) },
	{ "wrapper", ENUM_AT(MODULE, module.wrapper, wrapper_word) });

static const void *each_module(struct subject of, size_t i, void *room)
{
	const struct fsdp_checkpoint *checkpoint = checkpoint_in(of);
	struct plan_visit *one = room;

	if (i == 0)
		one->next = 0;
	while (one->next < fsdp_module_count(checkpoint))
		if (is_of_model(document_of(of), one->next++)) {
			one->module = fsdp_module(checkpoint, one->next - 1);
			return one;
		}
	return NULL;
}

_Static_assert(sizeof(struct plan_visit) <= RECORD_ROOM, "room for one");

/* ---- parameters ---- */

struct plan_tensor {
	uint32_t next; /* where to search for the next one */
	struct fsdp_tensor tensor;
};

_Static_assert(sizeof(struct plan_tensor) <= RECORD_ROOM, "room for one");

/* Below the module as the plan names it: a checkpoint may keep it in a container. */
static struct value parameter_name(struct subject of)
{
	const struct plan_tensor *one = of.object;
	struct row_buffers *buffers = document_of(of)->row.buffers;
	struct fsdp_module module = fsdp_module(checkpoint_in(of), one->tensor.module);
	struct text above =
		name_below(of, &buffers->module, document_of(of)->begin, module.name);
	struct text own = text_last(
		name_text(&buffers->name, checkpoint_in(of), one->tensor.name), '.');
	size_t length = 0;

	if (above.size > 0) {
		name_buffer_append(&buffers->text, &length, above);
		name_buffer_append(&buffers->text, &length, text_of("."));
	}
	name_buffer_append(&buffers->text, &length, own);
	return value_name((struct text){ buffers->text.data, length });
}

#define TENSOR struct plan_tensor
static const struct record plan_parameter = RECORD_OF(RECORD_OBJECT, TENSOR,
	{ "fqn", GET(FIELD_NAME, parameter_name), .always = true },
	{ "shape", SHAPE_AT(TENSOR, tensor.shape, tensor.dims), .always = true },
	{ "dtype", ENUM_AT(TENSOR, tensor.dtype, dtype_name), .always = true });

static const void *next_tensor(
	struct subject of, size_t i, struct plan_tensor *one, enum fsdp_role role)
{
	if (i == 0)
		one->next = 0;
	while (one->next < document_of(of)->tensor_count) {
		one->tensor = fsdp_tensor(checkpoint_in(of), one->next++);
		if (one->tensor.role == role && one->tensor.module != FSDP_NONE &&
			is_of_model(document_of(of), one->tensor.module))
			return one;
	}
	return NULL;
}

static const void *each_parameter(struct subject of, size_t i, void *room)
{
	return next_tensor(of, i, room, FSDP_ROLE_PARAM);
}

static const void *each_buffer(struct subject of, size_t i, void *room)
{
	return next_tensor(of, i, room, FSDP_ROLE_BUFFER);
}

/* ---- units ---- */

static struct value unit_module(struct subject of, uint32_t module)
{
	return module_name(of, fsdp_module(checkpoint_in(of), module).raw_name);
}

#define UNIT_OF_PLAN struct fsdp_unit
static const struct record plan_unit = RECORD_OF(RECORD_OBJECT, UNIT_OF_PLAN,
	{ "module", FOUND_AT(UNIT_OF_PLAN, module, FIELD_NAME, unit_module),
		.always = true },
	{ "api", WORD_AT(UNIT_OF_PLAN, api), .always = true },
	{ "shard_world_size", ID_AT(UNIT_OF_PLAN, shard_world_size) },
	{ "replicate_world_size", ID_AT(UNIT_OF_PLAN, replicate_world_size) });

static const void *each_unit(struct subject of, size_t i, void *room)
{
	const struct fsdp_checkpoint *checkpoint = checkpoint_in(of);

	if (i >= fsdp_unit_count(checkpoint))
		return NULL;
	*(struct fsdp_unit *)room = fsdp_unit(checkpoint, (uint32_t)i);
	return room;
}

/* ---- the document ---- */

#define PLAN struct plan_document
static const struct record plan_record = RECORD_OF(RECORD_OBJECT, PLAN,
	{ "format", WORD_AT(PLAN, format), .always = true },
	{ "version", COUNT_AT(PLAN, version), .always = true },
	{ "from", WORD_AT(PLAN, plan.from), .always = true },
	{ "modules", EACH(each_module, plan_module), .always = true },
	{ "parameters", EACH(each_parameter, plan_parameter),
		IF_SET(PLAN, lists_parameters) },
	{ "buffers", EACH(each_buffer, plan_parameter), IF_SET(PLAN, lists_parameters) },
	{ "units", EACH(each_unit, plan_unit), .always = true });

void plan_document_check(struct run *run)
{
	struct fsdp_plan_facts plan;

	if (out_aside(run->out) != NULL &&
		(!fsdp_checkpoint_plan(run->checkpoint, &plan) || plan.from == NULL))
		run_refuse(run,
			"name a log in which the model was printed: --units-from=train.log",
			"-o plan writes the units that --units-from finds: none found");
}

void plan_document_write(struct run *run, struct row_buffers *buffers)
{
	struct out *out = out_aside(run->out);
	struct plan_document document = { .row = { .run = run, .buffers = buffers },
		.format = "fsdp-plan",
		.version = 1 };

	if (out == NULL)
		return;
	(void)fsdp_checkpoint_plan(run->checkpoint, &document.plan);
	struct fsdp_module begin = fsdp_module(run->checkpoint, document.plan.begin);
	/* A checkpoint may keep the model in a container: its name, with the dot. */
	document.begin = name_text(&buffers->module, run->checkpoint, begin.name).size;
	document.begin += document.begin != 0;
	document.raw_begin =
		name_text(&buffers->raw, run->checkpoint, begin.raw_name).size;
	document.raw_begin += document.raw_begin != 0;
	document.tensor_count = (uint32_t)fsdp_tensor_count(run->checkpoint);
	document.lists_parameters = document.tensor_count > 0;
	/* Parameters that are only in flat parameters are not listed, and then no
	 * parameter is. */
	FOR_EACH(i, document.tensor_count, tensor, fsdp_tensor(run->checkpoint, i)) {
		document.lists_parameters &=
			(tensor.flags & FSDP_TENSOR_FLATTENED) == 0 ||
			tensor.role != FSDP_ROLE_PARAM;
	}
	out_fields(out, &plan_record, (struct subject){ &document, &document });
}
