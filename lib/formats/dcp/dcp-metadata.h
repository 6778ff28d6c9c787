/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_FORMATS_DCP_METADATA_H
#define FSDP_FORMATS_DCP_METADATA_H

#include "base/names.h"
#include "formats/format.h"

/*
 * One `.metadata` (or `__R.metadata`) as packed records: its content, not yet linked to
 * the model. Several of them are collected in one struct before the model is made.
 */
struct fsdp_dcp_chunk {
	fsdp_ints box; /* offsets, then sizes */
	uint32_t dims;
	uint32_t info; /* where it is stored, or FSDP_NONE */
};

struct fsdp_dcp_info {
	uint32_t path;      /* id of the relative path in `paths` */
	uint32_t transform; /* id of the first one's name in `transforms`; 0: none */
	bool bad;           /* a field is missing or negative */
	bool counted;       /* its bytes are among those that its file is used for */
	bool named;         /* an entry of the storage data has it … */
	bool named_twice;   /* … and another one as well */
	uint64_t offset, length;
};

/* A million chunks have few thousand different offsets, sizes and boxes. Each is looked
 * for where its hash says, so that mostly there is one of it. */
enum { FSDP_DCP_KEPT = 1 << 14, FSDP_DCP_KEPT_DIMS = 3 };
struct fsdp_dcp_kept {
	struct fsdp_dcp_size {
		uint32_t size; /* index + 1 */
		uint32_t count;
		int64_t items[FSDP_DCP_KEPT_DIMS];
	} sizes[FSDP_DCP_KEPT];
	struct fsdp_dcp_box {
		uint32_t offsets, sizes; /* indexes */
		fsdp_ints box;           /* 0: free, for the first integers are none */
	} boxes[FSDP_DCP_KEPT];
};

/* Texts that a metadata file repeats in a million entries, as the names below the root.
 * What was recalled from the memo is known by its place (`seen`), what was written
 * out again by what came after the text before it the last time (`after`). */
struct fsdp_dcp_texts {
	struct fsdp_names names;
	struct fsdp_dcp_seen {
		uint32_t place, id;
	} * seen;
	struct fsdp_table seen_long; /* ids, by the place */
	struct fsdp_vec after;       /* uint32_t, by id */
	uint32_t last;               /* id, or 0 */
	uint64_t written, most;      /* bytes of this file's; no honest file has more */
};

/* Which item an FQN means, as far as it was looked for. */
struct fsdp_dcp_owner {
	uint32_t item;    /* + 1, or 0 */
	uint32_t missing; /* the number of the last file that has none, + 1, or 0 */
	bool is_reported;
};

/* The chunks that one metadata file lists for one tensor. */
struct fsdp_dcp_list {
	uint32_t first, count;
	uint32_t next; /* of the same tensor, in another file; FSDP_NONE */
	uint32_t file; /* number of the metadata file */
	uint32_t due;  /* which of them the next storage entry likely means */
};

/* A key of state_dict_metadata. */
struct fsdp_dcp_item {
	uint32_t name;     /* raw, in the model's names */
	uint32_t path_ref; /* container path, FSDP_NONE: unknown */
	uint32_t file;     /* number of the first metadata file that has it */
	struct fsdp_span text;
	fsdp_ints shape;
	uint32_t first_list, last_list;
	uint32_t info; /* of an object */
	uint8_t dims, dtype;
	bool is_object, grad, grad_known;
	bool bad;      /* its size cannot be */
	bool has_more; /* stored pieces that the tensor does not list */
};

struct fsdp_dcp {
	struct fsdp_reading *reading;
	struct fsdp_model *model;
	struct fsdp_arena *scratch;
	struct fsdp_span file; /* the metadata file that is being read */
	uint32_t file_number;
	uint64_t file_bytes;

	struct fsdp_vec sizes;      /* torch.Size: place and count */
	struct fsdp_dcp_kept *kept; /* sizes and boxes that there were lately */
	struct fsdp_vec chunks;     /* struct fsdp_dcp_chunk */
	struct fsdp_vec metas;      /* TensorStorageMetadata */
	size_t first_meta;          /* of the metadata file that is being read */
	uint64_t listed;            /* chunks of all keys so far */
	uint64_t walked;            /* chunks of all lists of this file so far */
	struct fsdp_vec indexes;    /* MetadataIndex */
	struct fsdp_vec infos;      /* struct fsdp_dcp_info */
	struct fsdp_vec lists, items;
	struct fsdp_dcp_texts paths;  /* relative paths */
	struct fsdp_dcp_texts fqns;   /* of MetadataIndex */
	struct fsdp_names transforms; /* their names, cut where they are long */
	struct fsdp_vec owners;       /* struct fsdp_dcp_owner, by id of an FQN */
	struct fsdp_table item_of;    /* by name id */
	struct fsdp_hasher hasher;
	bool has_version, has_storage_meta, has_strides;
};

void fsdp_dcp_init(struct fsdp_dcp *dcp, struct fsdp_reading *reading);

static inline struct fsdp_span fsdp_dcp_path(const struct fsdp_dcp *dcp, uint32_t id)
{
	return fsdp_names_segment(&dcp->paths.names, id);
}

/* Reads one metadata file of that name, part by part. */
bool fsdp_dcp_read(struct fsdp_dcp *dcp, const struct fsdp_source *source,
	struct fsdp_span file, struct fsdp_error **ret_error);

#endif
