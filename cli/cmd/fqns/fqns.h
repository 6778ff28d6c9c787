/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FQNS_H
#define FQNS_H

#include <fsdp/analysis.h>

#include "part/shown-names.h"
#include "part/tensor-row.h"

/*
 * What `fqns` answers with: units with their parameters (fqns-units.c), or names of
 * parameters and tensors alone (fqns-names.c).
 */
struct fqns_options {
	bool bare, flat, raw_map, by_parameter;
	const char *units; /* "known" or "likely" */
	const char *units_from;
};

/* A key of the map, and the visits that have it, in order. */
struct key {
	uint64_t hash;
	uint32_t first, last; /* indices of visits in `nexts` */
};

struct map {
	struct run *run;
	const struct fqns_options *options;
	struct selection *selection;
	struct key *keys;
	size_t count;
	uint32_t *nexts; /* by module: the next visit with the same key, or FSDP_NONE */
	uint32_t *slots; /* open addressing over keys; FSDP_NONE: free */
	size_t slot_mask;
	struct mixer mixer;
	struct ties {
		/* Adjacent names of one parameter: start of each group, and the names. */
		uint32_t *begin, *tensors;
	} ties;
	bool flattened; /* there are FlatParameters and nothing else */
	struct row_buffers buffers;
	struct fsdp_likely *likely; /* NULL: they are not asked for */
	bool skipped_fsdp2, inferred;
};

/* What a walk over names has come to. */
struct cursor {
	struct text name, raw;
	uint32_t visit, module; /* of a map */
	uint32_t end;           /* end of the subtree of the visit; 0: not computed yet */
	uint32_t next;
};

/* Each starts an answer (false: out of memory) and prints it as text. */
bool fqns_begin_units(struct map *map);
void fqns_tell_units(struct map *map);
bool fqns_begin_names(struct map *map);
void fqns_tell_names(struct map *map);
void fqns_tell_parameters(struct map *map);

extern const struct record unit_map_record, bare_record, name_list_record,
	name_map_record, parameter_list_record;

#endif
