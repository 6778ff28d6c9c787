/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_DOCUMENT_H
#define PLAN_DOCUMENT_H

#include "part/tensor-row.h"

/*
 * Writes what is known of modules and units as a sharding plan (fsdp-inspect-plan(5)), if
 * that was asked for. Only of what --units-from was named for: an exported plan says more
 * than a checkpoint that was opened with it. Before run_begin. False: it was refused.
 */
bool plan_document_check(struct run *run);

/* After run_begin. */
void plan_document_write(struct run *run, struct row_buffers *buffers);

#endif
