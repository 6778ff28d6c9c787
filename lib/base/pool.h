/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_POOL_H
#define FSDP_BASE_POOL_H

#include <stddef.h>

/*
 * Runs task(context, 0) … task(context, count - 1), each once, on up to `threads`
 * threads, this one among them, and returns when all are done. Tasks begin in order. If
 * no thread can be had, this one does all.
 */
void fsdp_pool_run(unsigned threads, size_t count,
	void (*task)(void *context, size_t index), void *context);

#endif
