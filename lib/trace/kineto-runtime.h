/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_RUNTIME_H
#define FSDP_TRACE_KINETO_RUNTIME_H

#include "base/span.h"

/* What a call of the runtime or the driver does, by its name: CUDA's and HIP's. */
enum fsdp_runtime_call {
	FSDP_RUNTIME_OTHER,    /* mostly a launch */
	FSDP_RUNTIME_WAIT,     /* until the device is done */
	FSDP_RUNTIME_ALLOCATE, /* or free memory, of the device or pinned */
	FSDP_RUNTIME_COPY,
};

enum fsdp_runtime_call fsdp_runtime_call_of(struct fsdp_span name);

#endif
