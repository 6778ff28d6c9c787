/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SANDBOX_H
#define SANDBOX_H

#include <stdbool.h>

/* Whether this program was built with one. */
bool sandbox_is_built(void);

/*
 * From now on this process can read, allocate, start threads and write to what it has
 * open. It cannot create, connect, execute or change anything; with `finish_files` it can
 * still rename and remove names, which finished outputs need. False if the kernel does
 * not let us: that is no failure, only a lock less.
 */
bool sandbox_enter(bool finish_files);

#endif
