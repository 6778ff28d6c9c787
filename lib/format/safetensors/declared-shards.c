/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads where the tensors of a safetensors file lie in the whole ones: what
 * DCP_SHARDING_INFO of its metadata says.
 */
#include "base/num.h"
#include "base/table.h"
#include "format/safetensors/safetensors-reading.h"

/* What the metadata says about one tensor of this file. */
struct declared_shard {
	struct fsdp_safetensors *header;
	struct fsdp_json_scan scan;
	struct fsdp_json_token token;
	uint64_t offsets[FSDP_DIMS_MAX];
	size_t count;
	bool has_offsets, again; /* `again`: something of it comes twice */
	struct fsdp_span fqn;
	struct fsdp_table owners; /* the tensor of each raw name */
	struct fsdp_bits placed;  /* tensors that have an entry */
};

static bool shard_next(struct declared_shard *shard, struct fsdp_error **ret_error)
{
	return fsdp_json_scan_next(&shard->scan, &shard->token, ret_error);
}

/* Of members that come twice the last one counts, as in json.loads. */
static bool read_saved_offsets(
	struct declared_shard *shard, struct fsdp_error **ret_error)
{
	shard->again |= shard->has_offsets;
	shard->has_offsets = true;
	shard->count = 0;
	if (!shard_next(shard, ret_error))
		return false;
	if (shard->token.kind != FSDP_SCAN_ARRAY) {
		shard->has_offsets = false;
		return fsdp_json_scan_skip(&shard->scan, &shard->token, ret_error);
	}
	for (;;) {
		if (!shard_next(shard, ret_error))
			return false;
		if (shard->token.kind == FSDP_SCAN_ARRAY_END)
			return true;
		if (shard->token.kind == FSDP_SCAN_NUMBER &&
			shard->count < FSDP_DIMS_MAX &&
			fsdp_safetensors_count(
				shard->token.span, &shard->offsets[shard->count])) {
			shard->count++;
			continue;
		}
		shard->has_offsets = false;
		if (!fsdp_json_scan_skip(&shard->scan, &shard->token, ret_error))
			return false;
	}
}

static bool read_shard_member(struct declared_shard *shard, struct fsdp_error **ret_error)
{
	struct fsdp_arena *arena = shard->header->reading->model->arena;
	if (fsdp_json_text_is(&shard->token, FSDP_SPAN("saved_offsets")))
		return read_saved_offsets(shard, ret_error);
	bool names = fsdp_json_text_is(&shard->token, FSDP_SPAN("fqn")) ||
		     fsdp_json_text_is(&shard->token, FSDP_SPAN("logical_fqn"));
	if (!names)
		return fsdp_json_scan_skip(&shard->scan, &shard->token, ret_error);
	if (!shard_next(shard, ret_error))
		return false;
	if (shard->token.kind != FSDP_SCAN_TEXT)
		return fsdp_json_scan_skip(&shard->scan, &shard->token, ret_error);
	shard->fqn = fsdp_json_text_copy(&shard->token, arena);
	return shard->fqn.data != NULL || fsdp_arena_fail(arena, ret_error);
}

/* An earlier entry of the same name counts no more. */
static bool forget_shard(struct fsdp_model *model, struct fsdp_tensor_record *tensor,
	struct fsdp_span name, struct fsdp_error **ret_error)
{
	struct fsdp_piece_record *piece = fsdp_model_piece(model, tensor->first_piece);
	int64_t shape[FSDP_DIMS_MAX];
	if (piece->box == FSDP_NONE)
		return true;
	for (size_t i = 0; i < tensor->dims; i++)
		shape[i] = fsdp_model_ints(model, piece->box)[tensor->dims + i];
	piece->box = FSDP_NONE;
	tensor->flags &= (uint16_t)~FSDP_TENSOR_SHAPE_INFERRED;
	tensor->shape = fsdp_build_ints(model, shape, tensor->dims, ret_error);
	return tensor->shape != FSDP_NONE &&
	       fsdp_build_names(model, 0, name, false, &tensor->name, &tensor->raw_name,
		       ret_error);
}

static bool begin_shard(struct declared_shard *shard, struct fsdp_span name,
	uint32_t owner, struct fsdp_error **ret_error)
{
	struct fsdp_safetensors *header = shard->header;
	struct fsdp_model *model = header->reading->model;
	bool placed = false;
	if (!fsdp_bits_set(&shard->placed, owner, &placed))
		return fsdp_arena_fail(header->reading->scratch, ret_error);
	if (placed || shard->again)
		fsdp_find(fsdp_safetensors_findings(header), FSDP_RULE_SAFETENSORS_JSON,
			FSDP_PLACE(.file = header->file, .tensor = name),
			"DCP_SHARDING_INFO says twice where this part lies; the last one counts");
	return !placed ||
	       forget_shard(model, fsdp_model_tensor(model, owner), name, ret_error);
}

/* The tensor's one piece gets its box; the tensor is at least as large as this. */
static bool place_shard(struct declared_shard *shard, struct fsdp_span name,
	struct fsdp_error **ret_error)
{
	struct fsdp_safetensors *header = shard->header;
	struct fsdp_model *model = header->reading->model;
	int64_t box[2 * FSDP_DIMS_MAX], whole[FSDP_DIMS_MAX];
	uint32_t id = fsdp_names_find(&model->names, 0, name);
	uint32_t owner = id != FSDP_NONE ? fsdp_table_get(&shard->owners, id) : FSDP_NONE;
	if (owner == FSDP_NONE)
		return true;
	if (!begin_shard(shard, name, owner, ret_error))
		return false;
	struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, owner);
	const int64_t *shape = fsdp_model_ints(model, tensor->shape);
	bool fits = shard->has_offsets && shard->count == tensor->dims;
	for (size_t i = 0; fits && i < tensor->dims; i++) {
		fits = shard->offsets[i] <= (uint64_t)(INT64_MAX - shape[i]);
		box[i] = fits ? (int64_t)shard->offsets[i] : 0;
		box[tensor->dims + i] = shape[i];
		whole[i] = box[i] + shape[i];
	}
	uint64_t numel;
	if (!fits || !fsdp_numel(whole, tensor->dims, &numel)) {
		fsdp_find(fsdp_safetensors_findings(header), FSDP_RULE_CHUNK_BOUNDS,
			FSDP_PLACE(.file = header->file, .tensor = name),
			"DCP_SHARDING_INFO does not say where this part lies");
		return true;
	}
	struct fsdp_piece_record *piece = fsdp_model_piece(model, tensor->first_piece);
	piece->box = fsdp_build_ints(model, box, 2 * (size_t)tensor->dims, ret_error);
	tensor->shape = fsdp_build_ints(model, whole, tensor->dims, ret_error);
	tensor->flags |= FSDP_TENSOR_SHAPE_INFERRED;
	if (piece->box == FSDP_NONE || tensor->shape == FSDP_NONE)
		return false;
	return shard->fqn.data == NULL ||
	       fsdp_build_names(model, 0, shard->fqn, false, &tensor->name,
		       &tensor->raw_name, ret_error);
}

static bool read_shard(struct declared_shard *shard, struct fsdp_error **ret_error)
{
	struct fsdp_arena *arena = shard->header->reading->model->arena;
	struct fsdp_span name = fsdp_json_text_copy(&shard->token, arena);
	shard->count = 0;
	shard->has_offsets = shard->again = false;
	shard->fqn = (struct fsdp_span){ 0 };
	if (name.data == NULL)
		return fsdp_arena_fail(arena, ret_error);
	if (!shard_next(shard, ret_error))
		return false;
	if (shard->token.kind != FSDP_SCAN_OBJECT)
		return fsdp_json_scan_skip(&shard->scan, &shard->token, ret_error) &&
		       place_shard(shard, name, ret_error);
	for (;;) {
		if (!shard_next(shard, ret_error))
			return false;
		if (shard->token.kind == FSDP_SCAN_OBJECT_END)
			return place_shard(shard, name, ret_error);
		if (!read_shard_member(shard, ret_error))
			return false;
	}
}

static bool read_shards(struct declared_shard *shard, struct fsdp_error **ret_error)
{
	if (!shard_next(shard, ret_error))
		return false;
	if (shard->token.kind != FSDP_SCAN_OBJECT)
		return fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
			"DCP_SHARDING_INFO is not a JSON object");
	for (;;) {
		if (!shard_next(shard, ret_error))
			return false;
		if (shard->token.kind == FSDP_SCAN_OBJECT_END)
			return true;
		if (!read_shard(shard, ret_error))
			return false;
	}
}

static bool find_owners(struct declared_shard *shard)
{
	const struct fsdp_model *model = shard->header->reading->model;
	fsdp_table_init(&shard->owners, shard->header->reading->scratch);
	fsdp_bits_init(&shard->placed, shard->header->reading->scratch);
	for (uint32_t i = shard->header->first_tensor; i < model->tensors.count; i++)
		if (!fsdp_table_set(
			    &shard->owners, fsdp_model_tensor(model, i)->raw_name, i))
			return false;
	return true;
}

bool fsdp_safetensors_read_shards(
	struct fsdp_safetensors *header, struct fsdp_error **ret_error)
{
	struct fsdp_arena *scratch = header->reading->scratch;
	size_t size = header->sharding.size;
	if (header->sharding.data == NULL)
		return true;
	unsigned char *text = fsdp_arena_take(scratch, size + FSDP_WINDOW_PADDING, 1);
	struct declared_shard *shard = FSDP_TAKE(scratch, shard, 1);
	if (shard != NULL)
		shard->header = header;
	if (text == NULL || shard == NULL || !find_owners(shard))
		return fsdp_arena_fail(scratch, ret_error);
	memcpy(text, header->sharding.data, size);
	fsdp_json_scan_over(&shard->scan, text, size, &header->limits);
	struct fsdp_error *error = NULL;
	if (read_shards(shard, &error))
		return true;
	if (fsdp_error_code(error) == FSDP_ERROR_MEMORY ||
		fsdp_error_code(error) == FSDP_ERROR_LIMIT) {
		*ret_error = error;
		return error != NULL ? false : fsdp_arena_fail(scratch, ret_error);
	}
	FSDP_SAFETENSORS_SAY(header, FSDP_RULE_SAFETENSORS_JSON, FSDP_UNKNOWN,
		"DCP_SHARDING_INFO: %s", fsdp_error_message(error));
	fsdp_error_free(error);
	return true;
}
