/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_HELPER_H
#define SESSION_HELPER_H

#include <fsdp/checkpoint.h>

#include "args/input.h"

/*
 * The process that reads URLs (fsdp-inspect-remote(7)): the one of this run, if some input is
 * a URL. It is started before this process locks itself up.
 */

/* Starts it and asks for each URL. Why that failed is reported when a URL is opened. False: out of
 * memory. */
bool helper_start(const struct inputs *inputs);

/* NULL: nothing is read from URLs. */
struct fsdp_remote *helper_remote(void);

/* FSDP_REMOTE_LOCAL of all paths but the URLs of this run. */
enum fsdp_remote_kind helper_kind(const char *path);

void helper_end(void);

#endif
