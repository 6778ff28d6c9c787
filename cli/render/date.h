/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_DATE_H
#define RENDER_DATE_H

#include <stdint.h>

/* "2026-03-01T12:34:56", or more digits of the year. */
enum { DATE_SIZE = 56 };

/*
 * Date and time of day in UTC of seconds since 1970, joined by this character; of a moment
 * before that an empty text. By itself: that of the C library reads the local time zone,
 * whatever it is asked, from files that the sandbox would have to allow.
 */
void date_put(char text[static DATE_SIZE], int64_t seconds, char between);

#endif
