/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_KERNEL_CLASS_H
#define FSDP_TRACE_KINETO_KERNEL_CLASS_H

#include <fsdp/trace.h>

#include "base/span.h"

/* What a kernel that computes does, by words in its name: the first row of
 * kineto-kernel-classes.def that has one of them, else FSDP_KERNEL_OTHER. */
enum fsdp_kernel_class fsdp_kernel_class_of(struct fsdp_span name);

#endif
