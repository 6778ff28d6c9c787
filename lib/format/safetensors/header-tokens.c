/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps from token to token of a header, and what they say of one that is not due.
 */
#include "base/num.h"
#include "format/safetensors/safetensors-reading.h"

bool fsdp_safetensors_fail_json(struct fsdp_error **ret_error)
{
	fsdp_error_shift_offset(ret_error, 8);
	fsdp_error_add_rule(ret_error, "FI1051");
	return fsdp_error_add_hint(ret_error, "copy this file again");
}

bool fsdp_safetensors_next(struct fsdp_safetensors *header, struct fsdp_error **ret_error)
{
	return fsdp_json_scan_next(&header->scan, &header->token, ret_error) ||
	       fsdp_safetensors_fail_json(ret_error);
}

bool fsdp_safetensors_skip(struct fsdp_safetensors *header, struct fsdp_error **ret_error)
{
	return fsdp_json_scan_skip(&header->scan, &header->token, ret_error) ||
	       fsdp_safetensors_fail_json(ret_error);
}

/* What is to be done takes more than counts: see fsdp_model_counting. */
bool fsdp_safetensors_has_records(struct fsdp_safetensors *header)
{
	struct fsdp_model *model = header->reading->model;
	model->wants_records |= model->counting != NULL;
	return model->counting == NULL;
}

/* A value of another kind than is due: said and passed over. */
bool fsdp_safetensors_unexpected(
	struct fsdp_safetensors *header, const char *what, struct fsdp_error **ret_error)
{
	struct fsdp_safetensors_entry *entry = &header->entry;
	if (!entry->broken)
		fsdp_find(fsdp_safetensors_findings(header), FSDP_RULE_SAFETENSORS_JSON,
			FSDP_PLACE(.file = header->file,
				.offset = fsdp_safetensors_place(header),
				.tensor = entry->name),
			"%s", what);
	entry->broken = true;
	return fsdp_safetensors_skip(header, ret_error);
}

/* Digits only: the format knows no other numbers. */
bool fsdp_safetensors_count(struct fsdp_span text, uint64_t *ret_value)
{
	uint64_t value = 0;
	for (size_t i = 0; i < text.size; i++) {
		unsigned digit = (unsigned)text.data[i] - '0';
		if (digit > 9 || !fsdp_mul(value, 10, &value) ||
			!fsdp_add(value, digit, &value))
			return false;
	}
	*ret_value = value;
	return true;
}
