/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay NAME FOLDER... : gives the fuzz target NAME every file of these folders, and
 * nothing at all, once. Each input is in memory of exactly its size, so that the
 * sanitizers see one byte too far.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUZZ_TARGET(name, function) int function(const uint8_t *data, size_t size);
#include "fuzz-targets.def"
#undef FUZZ_TARGET

enum { PATH_SIZE = 4096 };

static const struct target {
	const char *name;
	int (*test_one_input)(const uint8_t *data, size_t size);
} targets[] = {
#define FUZZ_TARGET(name, function) { name, function },
#include "fuzz-targets.def"
};

static void stop(const char *why, const char *path)
{
	fprintf(stderr, "replay: %s: %s\n", path, why);
	exit(2);
}

static uint8_t *read_file(const char *path, size_t *ret_size)
{
	FILE *stream = fopen(path, "rb");
	if (!stream || fseek(stream, 0, SEEK_END) != 0)
		stop("cannot open", path);
	long size = ftell(stream);
	rewind(stream);
	uint8_t *data = size < 0 ? NULL : malloc(size ? (size_t)size : 1);
	if (!data || fread(data, 1, (size_t)size, stream) != (size_t)size)
		stop("cannot read", path);
	fclose(stream);
	*ret_size = (size_t)size;
	return data;
}

static void replay(const struct target *target, const char *path)
{
	size_t size;
	uint8_t *data = read_file(path, &size);
	/* Said first: after a crash it is the last line. */
	printf("%s\n", path);
	fflush(stdout);
	target->test_one_input(data, size);
	free(data);
}

static int visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static int replay_folder(const struct target *target, const char *folder)
{
	struct dirent **entries;
	int count = scandir(folder, &entries, visible, alphasort);
	if (count < 0)
		stop("cannot list", folder);
	for (int i = 0; i < count; i++) {
		char path[PATH_SIZE];
		int length =
			snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
		if (length < 0 || length >= PATH_SIZE)
			stop("name too long", folder);
		replay(target, path);
		free(entries[i]);
	}
	free(entries);
	return count;
}

int main(int argc, char **argv)
{
	const struct target *target = targets;
	const struct target *end = targets + sizeof targets / sizeof *targets;
	int count = 0;

	while (target < end && (argc < 3 || strcmp(target->name, argv[1]) != 0))
		target++;
	if (target == end)
		stop("no such target, or no folder", argc > 1 ? argv[1] : "(nothing)");
	target->test_one_input((const uint8_t *)"", 0);
	for (int i = 2; i < argc; i++)
		count += replay_folder(target, argv[i]);
	printf("%d inputs\n", count);
	if (count == 0)
		stop("no input", argv[2]);
	return 0;
}
