/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_NAMING_H
#define FSDP_NAMING_H

#include <fsdp/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Under which names the tensors of a checkpoint are written or compared with
 * others.
 */

/** A part of names that is replaced: `from` is a complete name, or its first segments.
 * "model.layers" matches segments, not a prefix of bytes: it does not match
 * "model.layers_norm". An empty `to` removes the segments with their last dot. */
struct fsdp_rename {
	struct fsdp_span from, to;
};

/** A number that a map of names uses: "num_attention_heads". */
struct fsdp_named_size {
	/* As the configuration calls it; lives as long as the caller says. */
	struct fsdp_span name;
	uint64_t value;
};

/* ---- maps ---- */

/**
 * A table that says what tensors of one naming scheme are called in another one, and how
 * they are cut, joined, put in another order or transposed (fsdp-inspect-map(5)). A map
 * changes no bytes by itself: fsdp_compare_new and fsdp_export_new take one. It does not
 * change once it is open, so any number of threads may use it.
 */
struct fsdp_map;

/**
 * By its name ("megatron-hf-llama"), by target scheme and family of models ("hf-llama": the
 * map that has the most of the names is used), or a file, whose name has a dot or a slash. The caller owns *ret_map.
 * Fails with an FSDP_ERROR_USAGE if the map does not exist or is invalid.
 */
FSDP_API bool fsdp_map_open(const char *word, const struct fsdp_limit_setting *limits,
	size_t limit_count, struct fsdp_map **ret_map, struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_map_free(struct fsdp_map *map);

/** A map that is built in. All texts are static. */
struct fsdp_map_facts {
	/* "megatron-hf-llama": source scheme, target scheme and family. */
	const char *name;
	/* A sentence or two, for people: the programs on both sides, and the models that
	 * it is for. */
	const char *about;
	const char *words; /* by what names are to become: "hf-llama megatron-llama" */
};

/** False past the last one. */
FSDP_API bool fsdp_map_builtin(size_t index, struct fsdp_map_facts *ret_facts);

#ifdef __cplusplus
}
#endif

#endif
