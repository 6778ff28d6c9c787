/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_FUZZ_TAKE_H
#define FSDP_FUZZ_TAKE_H

/* An input taken from its begin: past its end there are zeros, and no more bytes. */
#include <stddef.h>
#include <stdint.h>

struct input {
	const uint8_t *at, *end;
};

static inline uint8_t take(struct input *input)
{
	return input->at < input->end ? *input->at++ : 0;
}

/* Three bytes that say how long it is, and as much of that as there is. */
static inline const uint8_t *take_bytes(struct input *input, size_t *ret_size)
{
	size_t size = take(input);
	size |= (size_t)take(input) << 8;
	size |= (size_t)take(input) << 16;
	const uint8_t *bytes = input->at;
	if (size > (size_t)(input->end - input->at))
		size = (size_t)(input->end - input->at);
	input->at += size;
	*ret_size = size;
	return bytes;
}

#endif
