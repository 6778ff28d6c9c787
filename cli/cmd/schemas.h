/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCHEMA_H
#define SCHEMA_H

/* A JSON Schema document, built in from schema/COMMAND-MAJOR.json. */
struct schema {
	const char *command;
	int major;
	const unsigned char *text;
	unsigned long size;
};

/* Made by embed.py; the last has command NULL. */
extern const struct schema schemas[];

#endif
