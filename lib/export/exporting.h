/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_EXPORT_EXPORTING_H
#define FSDP_EXPORT_EXPORTING_H

#include <fsdp/export.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/num.h"
#include "naming/naming.h"
#include "elements/elements-private.h"

/* What the files of this room share: the tensors that are written, and the files that
 * they are written into. */

/* A tensor that is written. */
struct fsdp_export_item {
	struct fsdp_span name;
	uint32_t tensor; /* of the checkpoint */
	uint32_t dtype;  /* as written */
	uint32_t file;
	bool packed;                /* its source: read in one go */
	uint32_t rank;              /* of the dtype in a file: find_dtype */
	uint32_t width_read, width; /* bytes of an element before and after a cast */
	uint64_t numel, bytes;
	uint64_t offset; /* in its file */
	const int64_t *shape;
	uint32_t dims;
	const struct fsdp_block
		*blocks; /* positions of its elements; NULL: it is the tensor */
	size_t block_count;
	unsigned char sha256[FSDP_EXPORT_DIGEST];
};

/* Another name of a tensor that is written. */
struct fsdp_export_tie {
	struct fsdp_span name;
	uint32_t item;
};

/* A file: a head that is in memory when it is written, then the items in order. */
struct fsdp_export_out {
	struct fsdp_span name;
	size_t first, count; /* in `order`; none of an index */
	uint64_t head, bytes;
	unsigned char sha256[FSDP_EXPORT_DIGEST];
};

struct fsdp_export {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	enum fsdp_export_form form;
	uint64_t shard_bytes;
	struct fsdp_export_facts facts;

	struct fsdp_export_item *items; /* in the order of the model */
	size_t item_count;
	uint32_t *order;              /* items, in the order of the files */
	struct fsdp_export_tie *ties; /* in order of names */
	size_t tie_count;
	uint8_t *why;          /* of each tensor of the checkpoint */
	uint32_t *kept;        /* of each that is tied: the item that is written */
	uint32_t *left;        /* tensors that are not written */
	uint32_t *left_values; /* values that hide tensors which are wanted */
	size_t left_value_count;
	struct fsdp_export_out *files;
	size_t file_count;
	const char *stem; /* of the names of files: one of fsdp_export_stems */
	bool has_index, index_only;
	bool casts;
	struct fsdp_error *error; /* with which making it was left */
};

/* What names of weights begin with, up to NULL: of a model, of an adapter, of diffusers.
 */
extern const char *const fsdp_export_stems[];

/* What follows in the name of their index. */
#define FSDP_EXPORT_INDEX ".safetensors.index.json"

/* A text that is written into memory. Zero it before; the caller frees the bytes. */
struct fsdp_export_text {
	unsigned char *bytes;
	size_t size, room;
	bool failed; /* out of memory */
};

void fsdp_export_put(struct fsdp_export_text *text, const void *bytes, size_t size);
void fsdp_export_put_text(struct fsdp_export_text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A string of JSON with its quotes, of valid UTF-8. `ascii`: as Python writes it, all
 * else escaped; otherwise as serde_json does. */
void fsdp_export_put_json(
	struct fsdp_export_text *text, struct fsdp_span string, bool ascii);

/* ---- formats ---- */

/* The head of a file of this object, whose items have their offsets counted from the end
 * of it; an index is a head alone. False: out of memory. */
bool fsdp_export_head(const struct fsdp_export *plan, size_t file,
	struct fsdp_export_text *text, struct fsdp_error **ret_error);

/* ---- casts ---- */

/* `count` numbers from one floating dtype to another, round to nearest even. Returns how
 * many finite ones became infinite. The dtypes are a pair that fsdp_cast_is_supported. */
uint64_t fsdp_cast(uint32_t from, uint32_t to, const unsigned char *bytes, uint64_t count,
	unsigned char *out);
bool fsdp_cast_is_supported(uint32_t from, uint32_t to);

#endif
