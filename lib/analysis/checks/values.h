/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ANALYSIS_VALUES_H
#define FSDP_ANALYSIS_VALUES_H

#include <fsdp/verify.h>

#include "base/finding.h"

/*
 * Whether weights look as if they were trained: FI2011 dead-value, FI2012
 * duplicate-values, and of FI1095 tie-mismatch what only values tell. It says nothing
 * unless the verify object has values. The arena is for what it needs meanwhile: about 50
 * bytes a tensor. Fails only when memory ends.
 */
bool fsdp_values_judge(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_verify *verify, struct fsdp_findings *findings,
	struct fsdp_arena *arena, struct fsdp_error **ret_error);

#endif
