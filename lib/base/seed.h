/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_SEED_H
#define FSDP_BASE_SEED_H

#include <stdint.h>

/* Two words that no file can know, for hashes over what files choose. No result ever
 * depends on them. Where the system gives none they are weak: only speed is at stake. */
void fsdp_seed(uint64_t ret_seeds[2]);

#endif
