/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_TYPES_H
#define FSDP_TRACE_TYPES_H

#include <fsdp/trace.h>

#include "base/span.h"

/* The types of time that have names of their own, in the order of reports. The first
 * six have names in SimpleProfiler; from ENTER_UNSHARD on they are named regions of the
 * host. */
#define FSDP_TIME_TYPES(X)                                    \
	X(ALL, "all")                                         \
	X(ALL_GATHER, "all_gather")                           \
	X(ALL_GATHER_OBJECT, "all_gather_object")             \
	X(RESHARDING, "resharding")                           \
	X(H2D, "H2D")                                         \
	X(D2H, "D2H")                                         \
	X(REDUCE_SCATTER, "reduce_scatter")                   \
	X(ALL_REDUCE, "all_reduce")                           \
	X(BROADCAST, "broadcast")                             \
	X(REDUCE, "reduce")                                   \
	X(ALL_TO_ALL, "all_to_all")                           \
	X(SEND_RECV, "send_recv")                             \
	X(GATHER, "gather")                                   \
	X(SCATTER, "scatter")                                 \
	X(BARRIER, "barrier")                                 \
	X(COALESCED, "coalesced")                             \
	X(COMM_UNKNOWN, "comm_unknown")                       \
	X(COMPUTE, "compute")                                 \
	X(D2D, "D2D")                                         \
	X(P2P, "P2P")                                         \
	X(HTOH, "HtoH")                                       \
	X(MEMSET, "memset")                                   \
	X(ENTER_UNSHARD, "_enter_unshard_params_ctx")         \
	X(EXIT_UNSHARD, "_exit_unshard_params_ctx")           \
	X(CLONE, "clone")                                     \
	X(NONE_FSDP_MANAGED_COPY, "none_fsdp_managed_copy")   \
	X(PREPROCESSING, "preprocessing")                     \
	X(PREPROCESSING_WITH_COMM, "preprocessing_with_comm") \
	X(STATE_CONVERTING, "state_converting")
#define FSDP_TIME_TYPE(type, name) FSDP_TIME_##type,
enum fsdp_time_type {
	FSDP_TIME_TYPES(FSDP_TIME_TYPE) FSDP_TIME_COUNT,
	FSDP_TIME_NAMED = FSDP_TIME_REDUCE_SCATTER, /* so many are SimpleProfiler's */
	FSDP_TIME_OTHER = FSDP_TIME_COUNT,          /* any other string */
};

struct fsdp_span fsdp_time_type_name(enum fsdp_time_type type);

/* FSDP_TIME_OTHER if it has none of these names. */
enum fsdp_time_type fsdp_time_type_of(struct fsdp_span name);

/*
 * The collective that a name means, in any spelling: "c10d::_allgather_base_",
 * "nccl:all_gather". FSDP_TIME_OTHER if it is in no table.
 */
enum fsdp_time_type fsdp_collective_type(struct fsdp_span name);

/* Of the name of a kernel: FSDP_TIME_OTHER if it has no such word. */
enum fsdp_time_type fsdp_collective_of_kernel(struct fsdp_span name);

/* By the names that kernels of collectives have. */
bool fsdp_is_comm_kernel(struct fsdp_span name);

/* "nccl:all_gather" and the like: what a backend notes on the host. */
bool fsdp_is_backend_note(struct fsdp_span name);

/* H2D and so on; FSDP_TIME_OTHER if the text names no direction. */
enum fsdp_time_type fsdp_copy_type(struct fsdp_span text);

/* Bytes of an element, by the word that traces use; 0: unknown. */
unsigned fsdp_element_size(struct fsdp_span dtype);

/* Why a thread is late that is in a call of CUDA, HIP or the CUDA driver;
 * FSDP_IDLE_LAUNCH for all others. */
enum fsdp_idle_cause fsdp_runtime_cause(struct fsdp_span name);

/* Of a kernel that computes: the first row of types-kernels.def that has a word of
 * its name, else FSDP_KERNEL_OTHER. */
enum fsdp_kernel_class fsdp_kernel_class_of(struct fsdp_span name);

/* Finds `what` in a text; without regard to case if `fold` (what is lower case then). */
bool fsdp_span_has(struct fsdp_span text, const char *what, bool fold);

#endif
