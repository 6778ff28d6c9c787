/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of files and of tensors with their digests.
 */
#include <string.h>

#include "cmd/hash/hash.h"
#include "run/answer.h"

static const char *const words[] = { [LISTED_SAME] = "matched",
	[LISTED_OTHER] = "mismatched",
	[LISTED_NOT] = "unlisted" };

const char *hash_listed_name(enum listed listed)
{
	return words[listed];
}

static const char *listed_word(const struct hashing *hashing, size_t index)
{
	return hashing->listed != NULL ? words[hashing->listed[index]] : NULL;
}

static void fill_tensor(struct hashing *hashing, uint32_t index, struct hash_row *row)
{
	struct run *run = hashing->run;
	struct fsdp_tensor tensor = fsdp_tensor(run->checkpoint, index);

	row->name = tensor_shown_name(run, &hashing->name, &tensor);
	row->dtype = dtype_name(tensor.dtype);
	row->shape = tensor.shape;
	row->dims = tensor.dims;
	row->bytes = tensor.bytes;
}

/* As a part has told it. */
static void fill_joined(struct hashing *hashing, size_t index, struct hash_row *row)
{
	bool files = hashing->kind == HASH_STORED;
	struct fsdp_document_value from = hashing->joined->rows[index];
	struct fsdp_span dtype = joined_text(from, "dtype");

	row->name = text_of_span(joined_text(from, files ? "path" : "name"));
	row->dtype = files ? NULL : dtype.data != NULL ? (const char *)dtype.data : "";
	row->bytes = joined_count(from, "bytes");
	row->dims = joined_shape(from, row->room);
	row->shape = row->room;
	row->known = hex_bytes(text_of_span(joined_text(from, "sha256")), row->sha256);
	row->part.number = UINT32_MAX;
}

static void fill_digest(struct hashing *hashing, size_t index, struct hash_row *row)
{
	struct fsdp_digest digest = fsdp_digest(hashing->digests, index);

	if (hashing->kind == HASH_STORED) {
		row->name = text_of_span(digest.path);
		row->bytes = digest.bytes;
	} else {
		fill_tensor(hashing, digest.tensor, row);
	}
	row->known = digest.error == NULL;
	row->listed = listed_word(hashing, index);
	memcpy(row->sha256, digest.sha256, sizeof digest.sha256);
	if (!partial_row_init(&row->part, hashing->run, &hashing->partial,
		    digest.position, digest.error))
		hashing->name.failed = true;
}

void hash_row(struct hashing *hashing, size_t index, struct hash_row *ret_row)
{
	*ret_row = (struct hash_row){ .part.number = UINT32_MAX };
	if (hashing->joined != NULL)
		fill_joined(hashing, index, ret_row);
	else if (hashing->digests != NULL)
		fill_digest(hashing, index, ret_row);
	else
		fill_tensor(hashing, hashing->tensors[index], ret_row);
	if (ret_row->known)
		ret_row->digits = hex_text(ret_row->sha256, ret_row->buffer);
}
