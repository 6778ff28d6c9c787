/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SWEEP_CRC_H
#define FSDP_SWEEP_CRC_H

#include <stddef.h>
#include <stdint.h>

/* The CRC-32 of zip and gzip. Begin with 0; what comes next is added to what was. */
uint32_t fsdp_crc32(uint32_t crc, const unsigned char *bytes, size_t size);

/* Of two runs one behind the other, the second one `size` bytes long. */
uint32_t fsdp_crc32_join(uint32_t first, uint32_t second, uint64_t size);

#endif
