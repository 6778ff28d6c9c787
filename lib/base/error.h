/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_ERROR_H
#define FSDP_BASE_ERROR_H

#include <stdbool.h>

#include <fsdp/error.h>

/*
 * How the library fills errors. The first error wins: a slot that already
 * holds one is left alone, so cleanup code may fail without hiding the cause.
 */

/* These and the additions below are always false, so that a failing function can end with
 * `return fsdp_fail(…)`. */
bool fsdp_fail(struct fsdp_error **ret_error, enum fsdp_error_code code, uint64_t offset,
	const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The same under the id of a rule, a literal. */
bool fsdp_fail_rule(struct fsdp_error **ret_error, enum fsdp_error_code code,
	const char *rule, uint64_t offset, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* FSDP_ERROR_SYSTEM from errno; what is "cannot open", "cannot read" … Memory that the
 * system lacks is lacking here. */
bool fsdp_fail_errno(
	struct fsdp_error **ret_error, int number, uint64_t offset, const char *what);

/* The static error: making it never allocates. */
bool fsdp_fail_memory(struct fsdp_error **ret_error);

/* The limit that was reached, by a name that lives on. */
void fsdp_error_add_limit(struct fsdp_error **error, const char *limit);

/* FSDP_ERROR_LIMIT; limit indexes base/limits.def. */
bool fsdp_fail_limit(struct fsdp_error **ret_error, unsigned limit, uint64_t value);

/* Takes an error that was made elsewhere, for example in a thread: the caller gets it, or
 * it is freed if the caller has no slot or an earlier error. NULL adds nothing. */
bool fsdp_fail_with(struct fsdp_error **ret_error, struct fsdp_error *error);

/* Additions by upper levels. Each keeps what is already there; each tolerates
 * a NULL slot, an empty slot and the static error. */
bool fsdp_error_add_path(struct fsdp_error **error, const char *path);
/* A path that was given below `root` becomes root/path, unless it begins with the root
 * already; without one it is the root. */
void fsdp_error_put_below(struct fsdp_error **error, const char *root);
bool fsdp_error_add_member(struct fsdp_error **error, struct fsdp_span member);
bool fsdp_error_add_hint(struct fsdp_error **error, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* In place of what is there. */
void fsdp_error_put_hint(struct fsdp_error **error, const char *hint);
bool fsdp_error_add_rule(struct fsdp_error **error, const char *rule);
/* A literal. */
bool fsdp_error_add_kind(struct fsdp_error **error, const char *kind);

/* The offset was counted from `base` within something larger. */
void fsdp_error_shift_offset(struct fsdp_error **error, uint64_t base);

void fsdp_error_cleanup(struct fsdp_error **error);
#define fsdp_auto_error __attribute__((cleanup(fsdp_error_cleanup))) struct fsdp_error

#endif
