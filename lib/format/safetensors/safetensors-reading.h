/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_FORMAT_SAFETENSORS_READING_H
#define FSDP_FORMAT_SAFETENSORS_READING_H

#include "base/bits.h"
#include "format/format.h"
#include "syntax/json-template.h"

/* What the files that read a safetensors file share. */

/* Nearly all tensors of a header are of few shapes. */
enum { FSDP_SAFETENSORS_SHAPES = 64 };

/* Rows of the table of dtypes, in header-tensors.c. */
enum { FSDP_SAFETENSORS_DTYPES = 22 };

struct fsdp_safetensors_dtype {
	const char *name;
	const char *torch;
	unsigned bits;
};

/* One tensor while it is read. */
struct fsdp_safetensors_entry {
	struct fsdp_span name;
	uint64_t offset; /* of its key in the file */
	const struct fsdp_safetensors_dtype *dtype;
	struct fsdp_span dtype_text; /* if it has no row */
	union {
		struct {
			struct fsdp_json_list shape, range;
		};
		struct fsdp_json_list lists[2];
	};
	bool has_dtype, has_shape, has_range;
	bool broken; /* reported; it is left out */
};

/* A file while its header is read. */
struct fsdp_safetensors {
	struct fsdp_reading *reading;
	struct fsdp_source source;
	struct fsdp_span file;
	uint32_t file_id;
	uint64_t size;
	uint64_t buffer; /* bytes behind the header */

	struct fsdp_limits limits;
	struct fsdp_json_scan scan;
	struct fsdp_json_token token;
	uint8_t dtype_ids[FSDP_SAFETENSORS_DTYPES];
	struct fsdp_safetensors_entry entry;

	uint32_t first_tensor;
	size_t first_value;
	struct fsdp_bits seen; /* raw names that have a tensor */
	uint64_t end;          /* of the tensor before */
	bool unordered, truncated, has_metadata;
	bool left_out;             /* a tensor; what it would own is then no hole */
	struct fsdp_span sharding; /* the text of DCP_SHARDING_INFO */

	struct fsdp_json_quick *quick; /* tensors that are written like one before */

	/* Shapes that tensors had lately: places in the pool, by a hash. */
	struct known_shape {
		size_t dims;
		fsdp_ints place;
	} shapes[FSDP_SAFETENSORS_SHAPES];
};

static inline struct fsdp_findings *fsdp_safetensors_findings(
	const struct fsdp_safetensors *header)
{
	return &header->reading->model->findings;
}

#define FSDP_SAFETENSORS_SAY(header, rule, where, ...)     \
	fsdp_find(fsdp_safetensors_findings(header), rule, \
		FSDP_PLACE(.file = (header)->file, .offset = where), __VA_ARGS__)
#define FSDP_SAFETENSORS_SAY_OF(header, rule, entry, ...)                     \
	fsdp_find(fsdp_safetensors_findings(header), rule,                    \
		FSDP_PLACE(.file = (header)->file, .offset = (entry)->offset, \
			.tensor = (entry)->name),                             \
		__VA_ARGS__)

/* ---- header-tokens.c ---- */

/* Adds to an error in the JSON where the header lies. Always false. */
bool fsdp_safetensors_fail_json(struct fsdp_error **ret_error);
/* The next token of the header. */
bool fsdp_safetensors_next(
	struct fsdp_safetensors *header, struct fsdp_error **ret_error);
/* Passes over the value that the token begins. */
bool fsdp_safetensors_skip(
	struct fsdp_safetensors *header, struct fsdp_error **ret_error);
/* Where the token is in the file. */
static inline uint64_t fsdp_safetensors_place(const struct fsdp_safetensors *header)
{
	return 8 + header->token.offset;
}

/* What is to be done takes more than counts: see fsdp_model_counting. */
bool fsdp_safetensors_has_records(struct fsdp_safetensors *header);
/* A value of another kind than is due: said and passed over. */
bool fsdp_safetensors_unexpected(
	struct fsdp_safetensors *header, const char *what, struct fsdp_error **ret_error);
/* Digits only: the format knows no other numbers. */
bool fsdp_safetensors_count(struct fsdp_span text, uint64_t *ret_value);

/* ---- header-tensors.c ---- */

/* Numbers of the dtypes, and how the file spells them. */
void fsdp_safetensors_know_dtypes(struct fsdp_safetensors *header);
/* For the tensors that are written like one before; the caller frees it. NULL: no memory. */
struct fsdp_json_quick *fsdp_safetensors_quick_new(void);
/* Reads the next member with it. *ret_read false: it is something else, and nothing
 * happened. */
bool fsdp_safetensors_read_alike(
	struct fsdp_safetensors *header, bool *ret_read, struct fsdp_error **ret_error);
/* The token is the name of the tensor. */
bool fsdp_safetensors_read_tensor(
	struct fsdp_safetensors *header, struct fsdp_error **ret_error);

/* ---- header-notes.c ---- */

/* The token is "__metadata__". */
bool fsdp_safetensors_read_notes(
	struct fsdp_safetensors *header, struct fsdp_error **ret_error);

/* ---- declared-shards.c ---- */

/* Where the tensors lie in the whole ones, if the notes say so. */
bool fsdp_safetensors_read_shards(
	struct fsdp_safetensors *header, struct fsdp_error **ret_error);

#endif
