/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Small JSON files that a user names: lists of tensors, digests, indexes, earlier
 * results.
 *
 * The file is parsed once, completely, and checked: one value, no duplicate keys,
 * finite numbers, valid UTF-8 (RFC 8259). The caller owns the
 * document. Values are plain structs that point into it.
 *
 * A value that does not exist has the kind FSDP_DOCUMENT_ABSENT, and every member
 * of it is absent too. A chain of questions needs one check, at its end. Files whose
 * size grows with a checkpoint (headers, indexes of many shards) are not read here
 * but when it is opened.
 *
 * Example (testdata/hf/llama-sharded/model.safetensors.index.json):
 *
 *     bool print_shards(const char *path, struct fsdp_error **ret_error)
 *     {
 *         struct fsdp_document *document = NULL;
 *         struct fsdp_document_value map;
 *
 *         if (!fsdp_document_open(NULL, path, NULL, 0, &document, ret_error))
 *             return false;
 *         map = fsdp_document_get(fsdp_document_root(document), "weight_map");
 *         for (size_t i = 0; i < map.count && i < 2; i++) {
 *             struct fsdp_document_value file = fsdp_document_item(map, i);
 *             printf("%.*s: %.*s\n", (int)file.key.size, (const char *)file.key.data,
 *                 (int)file.text.size, (const char *)file.text.data);
 *         }
 *         fsdp_document_free(document);
 *         return true;
 *     }
 *
 * It prints:
 *
 *     lm_head.weight: model-00005-of-00005.safetensors
 *     model.embed_tokens.weight: model-00001-of-00005.safetensors
 */
#ifndef FSDP_DOCUMENT_H
#define FSDP_DOCUMENT_H

#include <fsdp/checkpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A small JSON file that a user names in addition to a checkpoint: a list of names,
 * an earlier result. It is read whole and does not change, so any number of threads
 * may look. Nothing in it is more than what JSON says. A value is a small plain
 * struct, passed by value; it points into the document, and is good for nothing
 * once that is freed.
 *
 * A key that is missing gives an absent value, and each member of an absent value
 * is absent, so only the end of a chain of questions needs a check.
 */
struct fsdp_document;

/** What a value is. */
enum fsdp_document_kind {
	/* The value does not exist. Zero, so that a struct of zeroes is absent. */
	FSDP_DOCUMENT_ABSENT,
	/* JSON's null, which is a value and not an absent one. */
	FSDP_DOCUMENT_NULL,
	FSDP_DOCUMENT_BOOL,
	/* A number without fraction and exponent that fits into int64_t. */
	FSDP_DOCUMENT_INTEGER,
	/* Any other number: the nearest double. */
	FSDP_DOCUMENT_REAL,
	FSDP_DOCUMENT_TEXT,
	FSDP_DOCUMENT_LIST,
	FSDP_DOCUMENT_OBJECT,
};

/** A value. Its texts live as long as the document, and may hold hostile bytes. */
struct fsdp_document_value {
	enum fsdp_document_kind kind;
	/* Its key, if it is a member of an object; else absent. */
	struct fsdp_span key;
	/* Of a TEXT, in UTF-8, escapes of JSON resolved. */
	struct fsdp_span text;
	int64_t integer; /* of an INTEGER; of a BOOL 0 or 1 */
	double real;     /* of a REAL */
	/* Items of a LIST, members of an OBJECT; 0 of anything else. */
	size_t count;
	void *node;          /* internal */
	const void *members; /* internal */
};

/**
 * Reads the file, which may have at most 64 MiB; "-" is not taken. The caller owns
 * *ret_document. Fails, with the path in the error, if it cannot be read or is not
 * JSON, also because of duplicate keys. What it takes is counted before it is
 * parsed, against the limit `json-tree` or twelve times the file; `limits` and
 * `remote` are as in struct fsdp_options.
 */
FSDP_API bool fsdp_document_open(struct fsdp_remote *remote, const char *path,
	const struct fsdp_limit_setting *limits, size_t limit_count,
	struct fsdp_document **ret_document, struct fsdp_error **ret_error);

/** Whether the file begins as JSON does: weights have zeros in their first bytes, or
 * no bracket. False also if it cannot be read. */
FSDP_API bool fsdp_document_is(struct fsdp_remote *remote, const char *path);

/** The same of a text that is at hand, whose texts may hold NUL. It is looked at
 * until this returns. */
FSDP_API bool fsdp_document_parse(struct fsdp_span text,
	struct fsdp_document **ret_document, struct fsdp_error **ret_error);

/** The same of JSON Lines, a value on each line: the document is a list of them, of
 * at most 1 GiB. *ret_sum is the checksum of the text before the last comma,
 * without white space between values (FNV-1a, 64 bits): a part of hash or audit
 * writes it as the last member of its last line. */
FSDP_API bool fsdp_document_open_lines(const char *path,
	const struct fsdp_limit_setting *limits, size_t limit_count,
	struct fsdp_document **ret_document, uint64_t *ret_sum,
	struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_document_free(struct fsdp_document *document);

/** The value of the document. Never absent. */
FSDP_API struct fsdp_document_value fsdp_document_root(
	const struct fsdp_document *document);

/** An item of a list or a member of an object, in their order; absent past the end,
 * and of anything else. Takes constant time, of a member of an inner object linear
 * in its index. */
FSDP_API struct fsdp_document_value fsdp_document_item(
	struct fsdp_document_value value, size_t index);

/** The member of an object with this key, or absent. Takes time linear in the
 * members. */
FSDP_API struct fsdp_document_value fsdp_document_get(
	struct fsdp_document_value value, const char *key);

/* ---- results of replay ---- */

/** An earlier JSON result of this program, read back: what `replay --json` wrote. It
 * does not change once it is open, so any number of threads may look. Only what a
 * comparison of two runs needs is kept. */
struct fsdp_replay_baseline;

/** What was spent on one type of call, over all ranks. */
struct fsdp_replay_baseline_type {
	/* "all_gather", "compute", …; lives as long as the result. */
	struct fsdp_span name;
	/* Calls of it. */
	uint64_t count;
	/* What they took together, in nanoseconds; FSDP_ABSENT if it did not fit. */
	int64_t sum_ns;
};

/**
 * Reads the file, plain or compressed; "-" is standard input. The caller owns
 * *ret_result. Fails, with the path in the error, if it cannot be read, is not a
 * result of this program, or that of another command. Memory is bounded by the
 * default of the limit `memory`. `remote` is as in struct fsdp_options.
 */
FSDP_API bool fsdp_replay_baseline_open(struct fsdp_remote *remote, const char *path,
	struct fsdp_replay_baseline **ret_result, struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_replay_baseline_free(struct fsdp_replay_baseline *result);

/** Types, in the order of the result. 0 of a result in which nothing was timed. */
FSDP_API size_t fsdp_replay_baseline_type_count(
	const struct fsdp_replay_baseline *result);

/** The index must be below the count. */
FSDP_API struct fsdp_replay_baseline_type fsdp_replay_baseline_type(
	const struct fsdp_replay_baseline *result, size_t index);

#ifdef __cplusplus
}
#endif

#endif
