/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FIRST_ELEMENTS_H
#define FIRST_ELEMENTS_H

#include <fsdp/model.h>

/*
 * Reads the first elements of one tensor at a time, in a thread of its own, so that a slow
 * disk does not delay keys.
 */
struct first_elements;

enum {
	FIRST_MOST = 64,    /* elements that are read */
	FIRST_ROOM = 2048,  /* bytes of them; an element has at most 16 */
	FIRST_MESSAGE = 200 /* of why they could not be read, in bytes */
};

enum first_state { FIRST_WAITING, FIRST_READ, FIRST_FAILED };

struct first_result {
	enum first_state state;
	size_t count;
	unsigned char bytes[FIRST_ROOM];
	char message[FIRST_MESSAGE];
};

/* The checkpoint must outlive it. NULL: there is no thread or no memory for it. */
struct first_elements *first_elements_new(const struct fsdp_checkpoint *checkpoint);

/*
 * Requests the elements of a tensor, which must be stored in some file, or returns the
 * result of that request. A new tensor replaces the one requested before; FSDP_NONE
 * requests none. Never waits for a read.
 */
void first_elements_ask(
	struct first_elements *first, uint32_t tensor, struct first_result *ret_result);

/*
 * Waits at most 0.2 seconds for the read in progress. True: the thread has ended and all is
 * freed. False: the thread still waits for its read; the checkpoint must not be freed. NULL
 * is fine.
 */
bool first_elements_end(struct first_elements *first);

#endif
