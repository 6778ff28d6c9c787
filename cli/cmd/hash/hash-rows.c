/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of files and of tensors with their digests.
 */
#include <string.h>

#include "cmd/hash/hash.h"
#include "session/session.h"

#define ROW struct hash_row
static const char *listed_name(unsigned listed)
{
	static const char *const names[] = { [LISTED_SAME] = "matched",
		[LISTED_OTHER] = "mismatched",
		[LISTED_NOT] = "unlisted" };

	return names[listed];
}

#define OF_PART                                                                     \
	{ "listed", ENUM_AT(ROW, listed, listed_name), PART_ALONE,                  \
		WORDS("matched", "mismatched", "unlisted"),                         \
		ABOUT("Of a part with `--check`: what the list has of it.") },      \
	{                                                                           \
		"number", ID_AT(ROW, number), PART_ALONE,                           \
			ABOUT("Of a part: place of the row in those of all parts.") \
	}
const struct record hashed_file_record = OBJECT_RECORD(ROW, "hashed_file", "A file.",
	{ "path", NAME_AT(ROW, name), .always = true,
		ABOUT("Path relative to the opened directory.") },
	{ "bytes", BYTES_AT(ROW, bytes), .always = true, ABOUT("Its size.") },
	{ "sha256", TEXT_AT(ROW, digits),
		ABOUT("SHA-256 of the file; absent when it could not be read.") },
	OF_PART);

const struct record hashed_tensor_record = OBJECT_RECORD(ROW, "hashed_tensor",
	"A tensor.",
	{ "name", NAME_AT(ROW, name), .always = true,
		ABOUT("Name as shown: clean, or as stored with `--raw`.") },
	{ "dtype", WORD_AT(ROW, dtype), .always = true,
		ABOUT("Element type as torch spells it.") },
	{ "shape", SHAPE_AT(ROW, shape, dims), .always = true, ABOUT("Global shape.") },
	{ "bytes", BYTES_AT(ROW, bytes), .always = true,
		ABOUT("Bytes of the full tensor.") },
	{ "sha256", TEXT_AT(ROW, digits),
		ABOUT("SHA-256 of all elements in C order of the global shape, little-endian. Absent with `--names`, and when they could not be read.") },
	OF_PART);

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

/* As a part has it. */
static void fill_joined(struct hashing *hashing, size_t index, struct hash_row *row)
{
	struct fsdp_document_value from = hashing->joined->rows[index];
	struct fsdp_document_value shape = fsdp_document_get(from, "shape");

	part_result_read(hashing->kind == HASH_STORED ? &hashed_file_record
						      : &hashed_tensor_record,
		from, row, NULL);
	for (; row->dims < shape.count && row->dims < FSDP_DIMS_MAX; row->dims++)
		row->room[row->dims] = fsdp_document_item(shape, row->dims).integer;
	row->shape = row->room;
	row->known = hex_bytes(row->digits, row->sha256);
	row->number = UINT32_MAX;
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
	row->listed = hashing->listed != NULL ? hashing->listed[index] : LISTED_UNREAD;
	memcpy(row->sha256, digest.sha256, sizeof digest.sha256);
	if (hashing->partial.parts != 0)
		row->number = (uint32_t)digest.position;
}

void hash_row(struct hashing *hashing, size_t index, struct hash_row *ret_row)
{
	*ret_row = (struct hash_row){ .number = UINT32_MAX };
	if (hashing->joined != NULL)
		fill_joined(hashing, index, ret_row);
	else if (hashing->digests != NULL)
		fill_digest(hashing, index, ret_row);
	else
		fill_tensor(hashing, hashing->tensors[index], ret_row);
	ret_row->digits = ret_row->known ? hex_text(ret_row->sha256, ret_row->buffer)
					 : (struct text){ NULL, 0 };
}
