/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes a unit and a mesh for programs, and a mesh for people.
 */
#include <inttypes.h>

#include "run/answer.h"
#include "part/units.h"

/* ---- meshes ---- */

static struct value get_ranks(struct subject of)
{
	const struct fsdp_mesh *mesh = of.object;

	return mesh->ranks != NULL ? value_shape(mesh->ranks, mesh->rank_count)
				   : value_absent();
}

#define MESH_ABOUT "A device mesh, outermost dimension first."
#define MESH struct fsdp_mesh
const struct record mesh_record = OBJECT_RECORD(MESH, "mesh", MESH_ABOUT,
	{ "dim_names", LIST_AT(MESH, dim_names, dims, record_texts),
		IF_SET(MESH, dim_names), .null = true,
		ABOUT("Names of the dimensions; null when it has none.") },
	{ "shape", SHAPE_AT(MESH, shape, dims), .always = true,
		ABOUT("Number of ranks along each dimension.") });

const struct record mesh_ranks_record = OBJECT_RECORD(MESH, NULL, MESH_ABOUT,
	{ NULL, FIELDS(mesh_record) },
	{ "ranks", GET(FIELD_SHAPE, get_ranks),
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

static bool has_mixed_precision(struct subject of)
{
	return ((const struct fsdp_unit *)of.object)->mixed_precision_count != 0;
}

static bool has_overrides(struct subject of)
{
	return ((const struct fsdp_unit *)of.object)->param_override_count != 0;
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
	{ "unit", FOUND_AT(UNIT, module, FIELD_NAME, find_name), .always = true,
		ABOUT("Clean name of its module; the root is the empty string.") },
	{ "name_raw", FOUND_AT(UNIT, module, FIELD_NAME, find_raw_name),
		ABOUT("Name of the module as PyTorch has it, when cleaning changed it.") },
	{ "class", FOUND_AT(UNIT, module, FIELD_WORD, find_class),
		ABOUT("Python class of the module.") },
	{ "api", WORD_AT(UNIT, api), .always = true, WORDS("fsdp1", "fsdp2"),
		ABOUT("Which interface made it.") },
	{ "strategy", WORD_AT(UNIT, strategy),
		ABOUT("Sharding strategy: `FULL_SHARD`, `SHARD_GRAD_OP`, `NO_SHARD`, `HYBRID_SHARD` or `_HYBRID_SHARD_ZERO2`; absent where a log or a trace is all that tells of the unit.") },
	{ "shard_world_size", ID_AT(UNIT, shard_world_size),
		ABOUT("Number of ranks that share one copy of the parameters; absent where it is not known.") },
	{ "replicate_world_size", ID_AT(UNIT, replicate_world_size),
		ABOUT("Number of copies; absent where it is not known.") },
	{ "mesh", MADE_AT(UNIT, mesh, find_mesh, mesh_record) },
	{ "mixed_precision",
		MAP_AT(UNIT, mixed_precision, mixed_precision_count, setting_record),
		.has = has_mixed_precision,
		ABOUT("Element types of the mixed-precision policy, by setting.") },
	{ "param_overrides",
		MAP_AT(UNIT, param_overrides, param_override_count, setting_record),
		.has = has_overrides,
		ABOUT("Element types of parameters that differ from the policy's `param_dtype`. FSDP2 only.") },
	{ "use_orig_params", MAYBE_AT(UNIT, use_orig_params),
		ABOUT("Whether the original parameters stay visible. FSDP1 only.") },
	{ "cpu_offload", MAYBE_AT(UNIT, cpu_offload),
		ABOUT("Whether parameters lie in the memory of the host while they are not used.") },
	{ "parameters", COUNT_AT(UNIT, parameters), .always = true,
		ABOUT("Number of elements that it shards.") },
	{ "bytes", BYTES_AT(UNIT, bytes), .always = true,
		ABOUT("Bytes of these elements, as stored.") },
	{ "inferred", GET(FIELD_TEXTS, get_inferred),
		ABOUT("Fields that were inferred and not read from a record.") });

/* ---- wrappers ---- */

bool wrapper_is_folded(const struct run *run, uint32_t module)
{
	return !run->common->raw &&
	       fsdp_module(run->checkpoint, module).wrapper != FSDP_WRAPPER_NONE &&
	       module + 1 < fsdp_module_count(run->checkpoint) &&
	       fsdp_module(run->checkpoint, module + 1).parent == module;
}
