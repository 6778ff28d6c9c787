/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors: code, message, place and hints.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/checkpoint.h>

#include "base/error.h"
#include "base/span.h"

struct fsdp_error {
	enum fsdp_error_code code;
	uint64_t offset;
	char *message;
	char *hint;
	char *path;
	char *member;
	const char *limit; /* from the table of limits */
	const char *rule;  /* a literal */
	const char *kind;  /* another */
};

/* Never freed and never written, so it can be made when nothing else can. */
static struct fsdp_error out_of_memory = {
	.code = FSDP_ERROR_MEMORY,
	.offset = FSDP_UNKNOWN,
};

static const char *const code_names[FSDP_ERROR_CODE_COUNT] = {
	[FSDP_ERROR_USAGE] = "usage",
	[FSDP_ERROR_SYSTEM] = "system",
	[FSDP_ERROR_PERMISSION] = "permission",
	[FSDP_ERROR_NOT_A_CHECKPOINT] = "not_a_checkpoint",
	[FSDP_ERROR_DAMAGED] = "damaged",
	[FSDP_ERROR_UNSUPPORTED] = "unsupported",
	[FSDP_ERROR_LIMIT] = "limit",
	[FSDP_ERROR_MEMORY] = "memory",
	[FSDP_ERROR_INTERNAL] = "internal",
};

const char *fsdp_error_code_name(enum fsdp_error_code code)
{
	return (size_t)code < FSDP_ERROR_CODE_COUNT ? code_names[code] : "internal";
}

enum fsdp_error_code fsdp_error_code(const struct fsdp_error *error)
{
	return error != NULL ? error->code : FSDP_ERROR_MEMORY;
}

bool fsdp_error_is_unread(const struct fsdp_error *error)
{
	enum fsdp_error_code code = fsdp_error_code(error);
	return code == FSDP_ERROR_SYSTEM || code == FSDP_ERROR_PERMISSION;
}

const char *fsdp_error_message(const struct fsdp_error *error)
{
	return error->message != NULL ? error->message : "out of memory";
}

const char *fsdp_error_hint(const struct fsdp_error *error)
{
	return error->hint;
}

const char *fsdp_error_path(const struct fsdp_error *error)
{
	return error->path;
}

const char *fsdp_error_member(const struct fsdp_error *error)
{
	return error->member;
}

uint64_t fsdp_error_offset(const struct fsdp_error *error)
{
	return error->offset;
}

const char *fsdp_error_limit(const struct fsdp_error *error)
{
	return error->limit;
}

const char *fsdp_error_rule(const struct fsdp_error *error)
{
	return error->rule;
}

const char *fsdp_error_kind(const struct fsdp_error *error)
{
	return error->kind;
}

void fsdp_error_free(struct fsdp_error *error)
{
	if (error == NULL || error == &out_of_memory)
		return;
	free(error->message);
	free(error->hint);
	free(error->path);
	free(error->member);
	free(error);
}

void fsdp_error_cleanup(struct fsdp_error **error)
{
	fsdp_error_free(*error);
	*error = NULL;
}

__attribute__((format(printf, 1, 0))) static char *format_text(
	const char *format, va_list arguments)
{
	va_list again;
	va_copy(again, arguments);
	int size = vsnprintf(NULL, 0, format, again);
	va_end(again);
	if (size < 0)
		return NULL;
	char *text = malloc((size_t)size + 1);
	if (text != NULL)
		vsnprintf(text, (size_t)size + 1, format, arguments);
	return text;
}

bool fsdp_fail_memory(struct fsdp_error **ret_error)
{
	if (ret_error != NULL && *ret_error == NULL)
		*ret_error = &out_of_memory;
	return false;
}

bool fsdp_fail_with(struct fsdp_error **ret_error, struct fsdp_error *error)
{
	if (ret_error != NULL && *ret_error == NULL)
		*ret_error = error;
	else
		fsdp_error_free(error);
	return false;
}

__attribute__((format(printf, 4, 0))) static void fail(struct fsdp_error **ret_error,
	enum fsdp_error_code code, uint64_t offset, const char *format, va_list arguments)
{
	if (ret_error == NULL || *ret_error != NULL)
		return;
	struct fsdp_error *error = calloc(1, sizeof *error);
	if (error != NULL)
		error->message = format_text(format, arguments);
	if (error == NULL || error->message == NULL) {
		free(error);
		fsdp_fail_memory(ret_error);
		return;
	}
	error->code = code;
	error->offset = offset;
	*ret_error = error;
}

bool fsdp_fail(struct fsdp_error **ret_error, enum fsdp_error_code code, uint64_t offset,
	const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fail(ret_error, code, offset, format, arguments);
	va_end(arguments);
	return false;
}

bool fsdp_fail_rule(struct fsdp_error **ret_error, enum fsdp_error_code code,
	const char *rule, uint64_t offset, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fail(ret_error, code, offset, format, arguments);
	va_end(arguments);
	return fsdp_error_add_rule(ret_error, rule);
}

bool fsdp_fail_errno(
	struct fsdp_error **ret_error, int number, uint64_t offset, const char *what)
{
	char room[128];
	const char *text = strerror_r(number, room, sizeof room); /* the GNU one */
	if (number == ENOMEM)
		return fsdp_fail_memory(ret_error);
	return fsdp_fail_rule(
		ret_error, FSDP_ERROR_SYSTEM, "FI9003", offset, "%s: %s", what, text);
}

static struct fsdp_error *writable(struct fsdp_error **error)
{
	if (error == NULL || *error == NULL || *error == &out_of_memory)
		return NULL;
	return *error;
}

bool fsdp_error_add_path(struct fsdp_error **error, const char *path)
{
	struct fsdp_error *target = writable(error);
	if (target != NULL && target->path == NULL)
		target->path = strdup(path);
	return false;
}

void fsdp_error_put_below(struct fsdp_error **error, const char *root)
{
	struct fsdp_error *target = writable(error);
	if (target == NULL)
		return;
	if (target->path == NULL) {
		target->path = strdup(root);
		return;
	}
	size_t size = strlen(root);
	bool slash = size != 0 && root[size - 1] == '/';
	/* It may be there already: of "model" that is "model/a", not "model-1". */
	if (strncmp(target->path, root, size) == 0 &&
		(size == 0 || slash || target->path[size] == '/' ||
			target->path[size] == '\0'))
		return;
	char *joined = malloc(size + 1 + strlen(target->path) + 1);
	if (joined == NULL)
		return;
	memcpy(joined, root, size);
	if (!slash)
		joined[size++] = '/';
	memcpy(joined + size, target->path, strlen(target->path) + 1);
	free(target->path);
	target->path = joined;
}

bool fsdp_error_add_member(struct fsdp_error **error, struct fsdp_span member)
{
	struct fsdp_error *target = writable(error);
	if (target != NULL && target->member == NULL && member.data != NULL)
		target->member = strndup((const char *)member.data, member.size);
	return false;
}

bool fsdp_error_add_hint(struct fsdp_error **error, const char *format, ...)
{
	struct fsdp_error *target = writable(error);
	if (target == NULL || target->hint != NULL)
		return false;
	va_list arguments;
	va_start(arguments, format);
	target->hint = format_text(format, arguments);
	va_end(arguments);
	return false;
}

void fsdp_error_put_hint(struct fsdp_error **error, const char *hint)
{
	struct fsdp_error *target = writable(error);
	if (target == NULL)
		return;
	free(target->hint);
	target->hint = strdup(hint);
}

bool fsdp_error_add_rule(struct fsdp_error **error, const char *rule)
{
	struct fsdp_error *target = writable(error);
	if (target != NULL && target->rule == NULL)
		target->rule = rule;
	return false;
}

bool fsdp_error_add_kind(struct fsdp_error **error, const char *kind)
{
	struct fsdp_error *target = writable(error);
	if (target != NULL && target->kind == NULL)
		target->kind = kind;
	return false;
}

void fsdp_error_shift_offset(struct fsdp_error **error, uint64_t base)
{
	struct fsdp_error *target = writable(error);
	if (target != NULL && target->offset != FSDP_UNKNOWN)
		target->offset += base;
}

void fsdp_error_add_limit(struct fsdp_error **error, const char *limit)
{
	if (*error != &out_of_memory)
		(*error)->limit = limit;
}
