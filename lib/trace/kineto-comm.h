/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_COMM_H
#define FSDP_TRACE_KINETO_COMM_H

#include "trace/collectives.h"
#include "trace/kineto-input.h"
#include "trace/kineto-words.h"

/* Fills in what the args of a collective say of it: bytes, seq and sort, of which the lists
 * of `all` keep what is shared. *ret_bytes_out are the bytes if it turns out to be an
 * all-gather. False: out of memory. */
bool fsdp_kineto_describe(struct fsdp_collectives *all, struct fsdp_kineto_words *words,
	const struct fsdp_kineto_args *args, struct fsdp_comm *comm,
	int64_t *ret_bytes_out);

#endif
