/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_HASH_H
#define CMD_HASH_H

#include <fsdp/digest.h>

#include "args/select.h"
#include "part/part-result.h"
#include "part/tensor-row.h"
#include "part/value-text.h"

/*
 * What `hash` works with: hash-command.c chooses and has the digests made, hash-check.c
 * compares them with a list, hash-answer.c shows them.
 */
struct hash_options {
	bool stored, logical, names;
	const char *check; /* a file */
};

enum hash_kind { HASH_STORED, HASH_LOGICAL, HASH_NAMES };

/* A file, or a tensor; as it is shown. */
struct hash_row {
	struct text name;
	const char *dtype;
	const int64_t *shape;
	uint32_t dims;
	uint64_t bytes;
	bool known; /* its digest */
	unsigned char sha256[FSDP_DIGEST_BYTES];
	struct text digits; /* absent: none */
	char buffer[HEX_ROOM];
	int64_t room[FSDP_DIMS_MAX]; /* of the shape of a joined one */
	unsigned listed;             /* of a part: enum listed */
	uint32_t number;             /* of a part: its place; UINT32_MAX: no part */
};

/* What a list of digests and the checkpoint say about each other. */
struct hash_check {
	uint64_t matched;
	struct text *mismatched, *missing, *unlisted;
	size_t mismatched_count, missing_count, unlisted_count;
};
enum listed { LISTED_UNREAD, LISTED_SAME, LISTED_OTHER, LISTED_NOT };

struct hashing {
	struct run *run;
	const struct hash_options *options;
	enum hash_kind kind;
	const char *word; /* of the kind */
	struct selection *selection;
	struct name_buffer name;
	bool selects;
	uint32_t *tensors; /* that are selected */
	size_t tensor_count;
	struct fsdp_digests *digests;
	struct fsdp_manifest *manifest;
	size_t row_count;
	struct part_facts partial;
	const struct joined_parts *joined; /* rows of parts, instead of digests */
	unsigned char whole[FSDP_DIGEST_BYTES];
	struct text
		digest; /* of all tensors, as digits; absent: a tensor has no digest */
	char digits[HEX_ROOM];
	bool compared;
	struct hash_check check; /* if it was */
	uint8_t *listed;         /* of each row: enum listed */
	bool *seen;              /* of each line of the list: what it names is there */
	struct owned owned;      /* texts of the check */
	int status;
};

/* Fills a row, whose texts are valid until the next one. */
void hash_row(struct hashing *hashing, size_t index, struct hash_row *ret_row);

/* Something of this name is there, in this part or another. */
void hash_see(struct hashing *hashing, struct fsdp_span name);

/* Compares rows with the list. False: out of memory. */
bool hash_compare(struct hashing *hashing);

/* The same of what parts have compared. */
bool hash_join_check(struct hashing *hashing);
void hash_check_done(struct hash_check *check);

extern const struct record hash_record, hashed_file_record, hashed_tensor_record;
void hash_show(struct hashing *hashing);

#endif
