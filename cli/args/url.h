/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARGS_URL_H
#define ARGS_URL_H

#include "args/parse.h"

/*
 * URLs in the place of paths: s3://, gs://, az://, abfss://, hf://, https://, and http:// of this
 * machine. What follows a question mark is a secret, and is asked for but never shown.
 */

/* Whether the text has the form of one that can be read. */
bool url_is(const char *text);

/* The path of file:///PATH and file://localhost/PATH; another text is returned itself. */
const char *url_local(const char *text);

/* Whether this one can be: usage shows why not. */
bool url_check(struct usage *usage, const char *command, const char *url);

/* Whether its files are in directories: all but those of web servers are. */
bool url_has_directories(const char *url);

/* Cuts off in place what is not shown: a query, and slashes at the end. */
void url_clean(char *url);

#endif
