/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_FORMAT_METADATA_READING_H
#define FSDP_FORMAT_METADATA_READING_H

#include "base/mix.h"
#include "format/dcp/metadata.h"
#include "format/torch/torch.h"

/* What the files that read one metadata file share. */

/* What is longer is not looked at again and again. */
enum { FSDP_DCP_SHORT_BYTES = 256 };

/* What a folded number is: the kind in its low three bits. */
enum fsdp_dcp_kind {
	FSDP_DCP_SIZE,
	FSDP_DCP_CHUNK,
	FSDP_DCP_PROPERTIES,
	FSDP_DCP_TENSOR_META,
	FSDP_DCP_INDEX,
	FSDP_DCP_INFO
};

struct fsdp_dcp_size_record {
	fsdp_ints at;
	uint32_t count;
};

struct fsdp_dcp_properties {
	uint8_t dtype;
	bool grad, grad_known;
};

struct fsdp_dcp_meta {
	struct fsdp_dcp_properties properties;
	uint32_t size;
	uint32_t first_chunk, chunk_count;
};

struct fsdp_dcp_index {
	uint32_t fqn;  /* id of the text, 0: none that can be one */
	uint32_t size; /* FSDP_NONE: an object */
	int32_t hint;
};

static inline uint32_t fsdp_dcp_pack(size_t index, enum fsdp_dcp_kind kind)
{
	return (uint32_t)index << 3 | kind;
}

static inline bool fsdp_dcp_folded(struct fsdp_pickle *pickle, fsdp_ref ref,
	enum fsdp_dcp_kind kind, uint32_t *ret_index)
{
	uint32_t number;
	if (!fsdp_pickle_folded(pickle, ref, &number) || (number & 7) != kind)
		return false;
	*ret_index = number >> 3;
	return true;
}

static inline const int64_t *fsdp_dcp_size_items(
	const struct fsdp_dcp *dcp, uint32_t size, size_t *ret_count)
{
	const struct fsdp_dcp_size_record *record = fsdp_vec_at(&dcp->sizes, size);
	*ret_count = record->count;
	return fsdp_model_ints(dcp->model, record->at);
}

/* A few numbers: a call of memcmp costs more than looking at them. */
static inline bool fsdp_dcp_same_ints(const int64_t *a, const int64_t *b, size_t count)
{
	while (count > 0 && a[count - 1] == b[count - 1])
		count--;
	return count == 0;
}

/* Seeded, so that no file can aim at a slot. */
static inline uint64_t fsdp_dcp_hash_ints(
	const struct fsdp_dcp *dcp, uint64_t first, const int64_t *items, size_t count)
{
	const struct fsdp_names *seeds = &dcp->paths.names;
	uint64_t hash = fsdp_mix(seeds->seed ^ first, seeds->seed_too);
	for (size_t i = 0; i < count; i++)
		hash = fsdp_mix(hash ^ (uint64_t)items[i], seeds->seed_too);
	return hash;
}

/* A metadata file while its items are made of its records. */
struct fsdp_dcp_parse {
	struct fsdp_dcp *dcp;
	struct fsdp_pickle *pickle;
	struct fsdp_table path_of;   /* planner_data's path by name id */
	struct fsdp_table long_keys; /* name id by the place */
	struct fsdp_error **error;
};

/* ---- metadata-folds.c ---- */

/* How the classes fold; the context is struct fsdp_dcp. */
extern const struct fsdp_fold fsdp_dcp_folds[];
extern const size_t fsdp_dcp_fold_count;

bool fsdp_dcp_init_names(struct fsdp_names *names, struct fsdp_arena *scratch);
bool fsdp_dcp_init_texts(struct fsdp_dcp_texts *texts, struct fsdp_arena *scratch);
/* Places mean something in their pickle only. */
void fsdp_dcp_forget_places(struct fsdp_dcp_texts *texts, uint64_t file_bytes);
/* Whether it is BytesStorageMetadata. */
bool fsdp_dcp_is_object(const struct fsdp_pickle *pickle, fsdp_ref ref);

/* ---- metadata-items.c ---- */

/* Fills the error and is false. */
bool fsdp_dcp_damaged(struct fsdp_dcp_parse *parse, const char *what);
/* A finding about this file. */
void fsdp_dcp_say(struct fsdp_dcp *dcp, enum fsdp_rule_index rule,
	struct fsdp_span tensor, const char *what);
/* NULL: no item has that name. */
struct fsdp_dcp_item *fsdp_dcp_find_item(struct fsdp_dcp *dcp, uint32_t name);
/* Of a tensor every file lists some chunks; an object is each file's own. */
bool fsdp_dcp_is_same_item(
	const struct fsdp_dcp *dcp, const struct fsdp_dcp_item *item, bool is_object);

/* ---- metadata-storage.c ---- */

/* Says of each chunk and object where it is stored. The entries were read before. */
bool fsdp_dcp_read_storage(struct fsdp_dcp_parse *parse, fsdp_ref storage);

#endif
