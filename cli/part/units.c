/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes a unit and a mesh for programs, and a mesh for people.
 */
#include <inttypes.h>

#include "run/answer.h"
#include "part/units.h"

static const struct row_context *context_of(struct subject of)
{
	return of.context;
}

static const struct fsdp_checkpoint *checkpoint_of(struct subject of)
{
	return context_of(of)->run->checkpoint;
}

/* ---- meshes ---- */

static struct fsdp_mesh mesh_of(struct subject of)
{
	return fsdp_mesh(checkpoint_of(of), *(const uint32_t *)of.object);
}

static bool has_dim_names(struct subject of)
{
	return mesh_of(of).dim_names != NULL;
}

static const void *each_dim_name(struct subject of, size_t i, void *room)
{
	struct fsdp_mesh mesh = mesh_of(of);

	(void)room;
	return i < mesh.dims ? &mesh.dim_names[i] : NULL;
}

static struct value get_shape(struct subject of)
{
	struct fsdp_mesh mesh = mesh_of(of);

	return value_shape(mesh.shape, mesh.dims);
}

static struct value get_ranks(struct subject of)
{
	struct fsdp_mesh mesh = mesh_of(of);

	return mesh.ranks != NULL ? value_shape(mesh.ranks, mesh.rank_count)
				  : value_absent();
}

const struct record mesh_record =
	OBJECT_RECORD(uint32_t, "mesh", "A device mesh, outermost dimension first.",
		{ "dim_names", EACH(each_dim_name, record_texts), .has = has_dim_names,
			.null = true,
			.about = "Names of the dimensions; null when it has none." },
		{ "shape", GET(FIELD_SHAPE, get_shape), .always = true,
			.about = "Number of ranks along each dimension." });

const struct record mesh_ranks_record = OBJECT_RECORD(uint32_t, NULL, NULL,
	{ NULL, FIELDS(mesh_record) },
	{ "ranks", GET(FIELD_SHAPE, get_ranks),
		.about =
			"Ranks in C order of the mesh; absent when they count from 0." });

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

static struct fsdp_module module_of(struct subject of)
{
	return fsdp_module(
		checkpoint_of(of), ((const struct fsdp_unit *)of.object)->module);
}

static bool has_module(struct subject of)
{
	return ((const struct fsdp_unit *)of.object)->module != FSDP_NONE;
}

static struct value get_name(struct subject of)
{
	return value_name(name_text(
		&context_of(of)->buffers->unit, checkpoint_of(of), module_of(of).name));
}

static struct value get_raw_name(struct subject of)
{
	struct fsdp_module module = module_of(of);

	if (module.raw_name == module.name)
		return value_absent();
	return value_name(name_text(
		&context_of(of)->buffers->raw, checkpoint_of(of), module.raw_name));
}

static struct value get_class(struct subject of)
{
	struct fsdp_module module = module_of(of);

	return value_word(module_shown_class(context_of(of)->run, &module));
}

static bool has_mesh(struct subject of)
{
	return ((const struct fsdp_unit *)of.object)->mesh != FSDP_NONE;
}

static bool has_mixed_precision(struct subject of)
{
	return ((const struct fsdp_unit *)of.object)->mixed_precision_count != 0;
}

static const void *each_setting(struct subject of, size_t i, void *room)
{
	const struct fsdp_unit *unit = of.object;

	(void)room;
	return i < unit->mixed_precision_count ? &unit->mixed_precision[i] : NULL;
}

static struct value get_use_orig_params(struct subject of)
{
	int known = ((const struct fsdp_unit *)of.object)->use_orig_params;

	return known >= 0 ? value_bool(known != 0) : value_absent();
}

static struct value get_cpu_offload(struct subject of)
{
	int known = ((const struct fsdp_unit *)of.object)->cpu_offload;

	return known >= 0 ? value_bool(known != 0) : value_absent();
}

static struct value get_inferred(struct subject of)
{
	static const struct text MARK = { "fully_sharded", 13 };

	return ((const struct fsdp_unit *)of.object)->inferred ? value_texts(&MARK, 1)
							       : value_absent();
}

#define SETTING struct fsdp_text_pair
static const struct record setting_record = RECORD_OF(RECORD_OBJECT, SETTING,
	{ NULL, WORD_AT(SETTING, key) }, { NULL, WORD_AT(SETTING, value) });

#define UNIT struct fsdp_unit
const struct record unit_record = OBJECT_RECORD(UNIT, "unit",
	"One FSDP unit: modules whose parameters are sharded together.",
	{ "unit", GET(FIELD_NAME, get_name), .has = has_module, .always = true,
		.about = "Clean name of its module; the root is the empty text." },
	{ "name_raw", GET(FIELD_NAME, get_raw_name), .has = has_module,
		.about =
			"Name of the module as PyTorch has it, when cleaning changed it." },
	{ "class", GET(FIELD_WORD, get_class), .has = has_module,
		.about = "Python class of the module." },
	{ "api", WORD_AT(UNIT, api), .always = true, WORDS("fsdp1", "fsdp2"),
		.about = "Which interface made it." },
	{ "strategy", WORD_AT(UNIT, strategy), .always = true,
		.about =
			"Sharding strategy: `FULL_SHARD`, `SHARD_GRAD_OP`, `NO_SHARD`, `HYBRID_SHARD` or `_HYBRID_SHARD_ZERO2`." },
	{ "shard_world_size", ID_AT(UNIT, shard_world_size), .always = true,
		.about = "Number of ranks that share one copy of the parameters." },
	{ "replicate_world_size", ID_AT(UNIT, replicate_world_size), .always = true,
		.about = "Number of copies." },
	{ "mesh", OBJECT_AT(UNIT, mesh, mesh_record), .has = has_mesh },
	{ "mixed_precision", MAP_EACH(each_setting, setting_record),
		.has = has_mixed_precision,
		.about = "Element types of the mixed-precision policy, by setting." },
	{ "use_orig_params", GET(FIELD_BOOL, get_use_orig_params),
		.about = "Whether the original parameters stay visible. FSDP1 only." },
	{ "cpu_offload", GET(FIELD_BOOL, get_cpu_offload),
		.about =
			"Whether parameters lie in the memory of the host while they are not used." },
	{ "parameters", COUNT_AT(UNIT, parameters), .always = true,
		.about = "Number of elements that it shards." },
	{ "bytes", BYTES_AT(UNIT, bytes), .always = true,
		.about = "Bytes of these elements, as stored." },
	{ "inferred", GET(FIELD_TEXTS, get_inferred),
		.about = "Fields that were inferred and not read from a record." });

/* ---- wrappers ---- */

bool wrapper_is_folded(const struct run *run, uint32_t module)
{
	return !run->common->raw &&
	       fsdp_module(run->checkpoint, module).wrapper != FSDP_WRAPPER_NONE &&
	       module + 1 < fsdp_module_count(run->checkpoint) &&
	       fsdp_module(run->checkpoint, module + 1).parent == module;
}

/* ---- for callers that have no records yet ---- */

void mesh_field(struct run *run, uint32_t index, bool ranks)
{
	struct row_context context = { .run = run };

	if (index != FSDP_NONE)
		out_record(run->out, "mesh", ranks ? &mesh_ranks_record : &mesh_record,
			(struct subject){ &context, &index });
}

void unit_fields(struct run *run, uint32_t index, struct name_buffer *name,
	struct name_buffer *raw)
{
	struct row_buffers buffers = { .unit = *name, .raw = *raw };
	struct row_context context = { .run = run, .buffers = &buffers };
	struct fsdp_unit unit = fsdp_unit(run->checkpoint, index);

	out_fields(run->out, &unit_record, (struct subject){ &context, &unit });
	*name = buffers.unit;
	*raw = buffers.raw;
}
