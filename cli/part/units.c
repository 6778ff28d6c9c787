/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows a unit and a mesh, to programs and to people.
 */
#include <inttypes.h>

#include "run/answer.h"
#include "part/tensor-row.h"
#include "part/units.h"

void mesh_field(struct run *run, uint32_t index, bool ranks)
{
	struct fsdp_mesh mesh;

	if (index == FSDP_NONE)
		return;
	mesh = fsdp_mesh(run->checkpoint, index);
	out_object_begin(run->out, "mesh");
	if (mesh.dim_names == NULL) {
		out_field(run->out, "dim_names", value_null());
	} else {
		out_array_begin(run->out, "dim_names");
		for (uint32_t i = 0; i < mesh.dims; i++)
			out_field(run->out, NULL,
				value_text(text_of_span(mesh.dim_names[i])));
		out_array_end(run->out);
	}
	out_field(run->out, "shape", value_shape(mesh.shape, mesh.dims));
	if (ranks && mesh.ranks != NULL)
		out_field(run->out, "ranks", value_shape(mesh.ranks, mesh.rank_count));
	out_object_end(run->out);
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

static void mixed_precision_field(struct run *run, const struct fsdp_unit *unit)
{
	if (unit->mixed_precision_count == 0)
		return;
	out_object_begin(run->out, "mixed_precision");
	for (uint32_t i = 0; i < unit->mixed_precision_count; i++)
		out_field_named(run->out, text_of(unit->mixed_precision[i].key),
			value_word(unit->mixed_precision[i].value));
	out_object_end(run->out);
}

void unit_fields(struct run *run, uint32_t index, struct name_buffer *name,
	struct name_buffer *raw)
{
	static const struct text MARK = { "fully_sharded", 13 };
	const struct fsdp_checkpoint *checkpoint = run->checkpoint;
	struct fsdp_unit unit = fsdp_unit(checkpoint, index);
	struct out *out = run->out;

	if (unit.module != FSDP_NONE) {
		struct fsdp_module module = fsdp_module(checkpoint, unit.module);
		out_field(out, "unit",
			value_name(name_text(name, checkpoint, module.name)));
		if (module.raw_name != module.name)
			out_field(out, "name_raw",
				value_name(name_text(raw, checkpoint, module.raw_name)));
		out_field(out, "class", value_word(module_shown_class(run, &module)));
	}
	out_field(out, "api", value_word(unit.api));
	out_field(out, "strategy", value_word(unit.strategy));
	out_field(out, "shard_world_size", value_id(unit.shard_world_size));
	out_field(out, "replicate_world_size", value_id(unit.replicate_world_size));
	mesh_field(run, unit.mesh, false);
	mixed_precision_field(run, &unit);
	if (unit.use_orig_params >= 0)
		out_field(out, "use_orig_params", value_bool(unit.use_orig_params != 0));
	if (unit.cpu_offload >= 0)
		out_field(out, "cpu_offload", value_bool(unit.cpu_offload != 0));
	out_field(out, "parameters", value_count(unit.parameters));
	out_field(out, "bytes", value_bytes(unit.bytes));
	if (unit.inferred)
		out_field(out, "inferred", value_texts(&MARK, 1));
}
