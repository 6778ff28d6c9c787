/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLACES_H
#define PLACES_H

#include "part/tensor-row.h"

/*
 * Where payloads begin, for many pieces at once: they are asked for in the order of files
 * and offsets, so that neighbours are read together, whatever order they are shown in.
 */

/* Called for each piece that was found; `position` is its place in the list. False: out
 * of memory. */
typedef bool place_function(
	void *context, size_t position, const struct fsdp_place *place);

/*
 * Pieces that cannot be located are reported once a message, through run_failure, and make
 * *status partial. False: nothing more can be done (out of memory).
 */
bool places_find(struct run *run, const uint32_t *pieces, size_t count,
	place_function *found, void *context, int *status, struct fsdp_error **ret_error);

/* The same for callers that keep what was found: a list with a place for each piece,
 * unknown where there is none. It is to be freed in any case. */
bool places_list(struct run *run, const uint32_t *pieces, size_t count,
	struct place_facts **ret_places, int *status, struct fsdp_error **ret_error);
void places_free(struct place_facts *places, size_t count);

/* "FILE: MEMBER: offset N: what is wrong", to be freed; NULL: out of memory. Without the
 * file if that is the input itself, which the message names anyway. */
char *place_error_text(const struct run *run, const struct fsdp_error *error);

#endif
