/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_INERT_H
#define FSDP_TRACE_INERT_H

#include "syntax/json-tree.h"
#include "syntax/pickle.h"

/*
 * A value of a dump that PyTorch writes as a pickle or as JSON: both have dicts, lists,
 * texts and numbers, and a reader handles both alike. It is a small copy that owns
 * nothing; texts are those of the document. All zero is absent, and an absent value
 * answers everything that is asked of it with "no".
 */
struct fsdp_inert {
	const struct fsdp_pickle *pickle; /* and `ref` in it */
	const struct fsdp_json *json;
	fsdp_ref ref;
	bool packed; /* an integer of a packed JSON array */
	int64_t integer;
};

static inline struct fsdp_inert fsdp_inert_pickle(
	const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	return (struct fsdp_inert){ .pickle = pickle, .ref = ref };
}

static inline struct fsdp_inert fsdp_inert_json(const struct fsdp_json *json)
{
	return (struct fsdp_inert){ .json = json };
}

bool fsdp_inert_is_dict(const struct fsdp_inert *value);
/* A list or a tuple. */
bool fsdp_inert_is_list(const struct fsdp_inert *value);

/* Items of a list, pairs of a dict. */
uint64_t fsdp_inert_count(const struct fsdp_inert *value);

/* data NULL: it is not a string. */
struct fsdp_span fsdp_inert_text(const struct fsdp_inert *value);

/* False: it is not an integer of 64 bits, and *ret stays. */
bool fsdp_inert_integer(const struct fsdp_inert *value, int64_t *ret);

/* As above, also of a text of digits, as JSON dumps have them. */
bool fsdp_inert_number(const struct fsdp_inert *value, int64_t *ret);

/* True if it is the truth value True. */
bool fsdp_inert_truth(const struct fsdp_inert *value);

/* Items of a list, or values of a dict with their keys, in order and in constant memory.
 * Zero the walk and set `of`. A key that is not a string, and that of an item, is data NULL.
 * False at the end, and at once of what is neither. */
struct fsdp_inert_walk {
	struct fsdp_inert of;
	struct fsdp_pickle_iterator iterator; /* internal */
	uint32_t at;                          /* internal */
	bool begun;                           /* internal */
};
bool fsdp_inert_next(struct fsdp_inert_walk *walk, struct fsdp_span *ret_key,
	struct fsdp_inert *ret_value);

/* The last value of a dict under a text key, or an absent one. Linear. */
struct fsdp_inert fsdp_inert_get(const struct fsdp_inert *dict, const char *key);

#endif
