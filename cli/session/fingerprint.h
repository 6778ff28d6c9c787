/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FINGERPRINT_H
#define FINGERPRINT_H

#include "render/shape.h"

/*
 * What stays the same of a finding when offsets, numbers and wording change: the first 16
 * hex digits of SHA-256 over rule, file, member, tensor and rank, each ended by a zero
 * byte and empty when absent.
 */
void fingerprint_set(struct finding *finding);

/* The version of libcrypto that runs. */
const char *fingerprint_library_version(void);

#endif
