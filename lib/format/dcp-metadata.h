/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_FORMAT_DCP_METADATA_H
#define FSDP_FORMAT_DCP_METADATA_H

#include "base/table.h"
#include "format/format.h"

/*
 * One `.metadata` (or `__R.metadata`) as packed records: what it says, not yet where it
 * fits. Several of them are collected in one struct before the model is made.
 */
struct fsdp_dcp_chunk {
	fsdp_ints box; /* offsets, then sizes */
	uint32_t dims;
	uint32_t info; /* where it is stored, or FSDP_NONE */
};

struct fsdp_dcp_info {
	uint32_t path; /* id of the relative path in `paths` */
	bool transformed;
	bool bad; /* a field is missing or negative */
	uint64_t offset, length;
};

/* A relative path by the place of its text, which a pickler writes once. */
struct fsdp_dcp_path {
	struct fsdp_span text;
	uint32_t id;
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
	struct fsdp_span text;
	fsdp_ints shape;
	uint32_t first_list, last_list;
	uint32_t info;  /* of an object */
	uint32_t after; /* item whose storage entry came next the last time, FSDP_NONE */
	uint8_t dims, dtype;
	bool is_object, grad, grad_known;
	bool bad; /* its size cannot be */
};

struct fsdp_dcp {
	struct fsdp_reading *reading;
	struct fsdp_model *model;
	struct fsdp_arena *scratch;
	struct fsdp_span file; /* the metadata file that is being read */
	uint32_t file_number;

	struct fsdp_vec sizes;   /* torch.Size: place and count */
	struct fsdp_vec chunks;  /* struct fsdp_dcp_chunk */
	struct fsdp_vec metas;   /* TensorStorageMetadata */
	size_t first_meta;       /* of the metadata file that is being read */
	uint64_t listed;         /* chunks of all keys so far */
	struct fsdp_vec indexes; /* MetadataIndex */
	struct fsdp_vec infos;   /* struct fsdp_dcp_info */
	struct fsdp_vec lists, items;
	struct fsdp_names paths;          /* relative paths, one segment each */
	struct fsdp_dcp_path *seen_paths; /* those looked up last, by address */
	struct fsdp_table item_of;        /* by name id */
	bool has_version, has_storage_meta;
};

bool fsdp_dcp_init(struct fsdp_dcp *dcp, struct fsdp_reading *reading,
	struct fsdp_error **ret_error);

/* Reads one metadata stream; the bytes must live as long as the model. */
bool fsdp_dcp_read(struct fsdp_dcp *dcp, struct fsdp_span stream, struct fsdp_span file,
	struct fsdp_error **ret_error);

#endif
