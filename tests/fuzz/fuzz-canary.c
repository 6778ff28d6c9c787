/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target with a known fault, to see that the machinery notices: it dies of an input
 * that begins with "boom". Its test is expected to fail.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size >= 4 && memcmp(data, "boom", 4) == 0)
		abort();
	return 0;
}
