/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes the results of parts known to each other.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <fsdp/digest.h>
#include <fsdp/version.h>

#include "part/partial.h"
#include "part/tensor-reading.h"
#include "part/value-text.h"
#include "run/answer.h"
#include "run/collected.h"

static void add_text(struct fsdp_digester *digester, const char *text)
{
	fsdp_digester_add(digester, text, strlen(text) + 1);
}

static void add_number(struct fsdp_digester *digester, uint64_t number)
{
	char text[24];

	snprintf(text, sizeof text, "%" PRIu64, number);
	add_text(digester, text);
}

/* Sizes, and when they were last written. */
static void add_files(struct fsdp_digester *digester,
	const struct fsdp_checkpoint *checkpoint, const char *path)
{
	const char *base = fsdp_checkpoint_base(checkpoint);
	struct stat status;
	char full[4096];

	for (size_t i = 0; i < fsdp_file_count(checkpoint); i++) {
		struct fsdp_file file = fsdp_file(checkpoint, i);
		fsdp_digester_add(digester, file.path.data, file.path.size);
		add_number(digester, file.size);
		snprintf(full, sizeof full, "%s/%.*s", base != NULL ? base : path,
			(int)file.path.size, (const char *)file.path.data);
		if (stat(full, &status) != 0 && stat(path, &status) != 0)
			continue;
		add_number(digester, (uint64_t)status.st_mtim.tv_sec);
		add_number(digester, (uint64_t)status.st_mtim.tv_nsec);
	}
}

bool partial_init(struct part_facts *partial, struct run *run, const char *request,
	const struct selection *selection, const uint32_t *tensors, size_t count)
{
	const struct common_options *common = run->common;
	unsigned char digest[FSDP_DIGEST_BYTES];
	char text[HEX_ROOM], hex[HEX_ROOM];
	struct fsdp_digester *digester;

	*partial = (struct part_facts){ .part = common->part_number,
		.parts = common->part_count };
	if (common->part_count == 0)
		return true;
	digester = fsdp_digester_new();
	if (digester == NULL)
		return false;
	if (common->part_from != NULL)
		run_note(run, "part %" PRIu32 " of %" PRIu32 ", as %s says",
			common->part_number, common->part_count, common->part_from);
	add_text(digester, fsdp_version());
	add_text(digester, run->command->name);
	add_text(digester, request);
	add_number(digester, common->raw);
	add_number(digester, common->part_count);
	add_text(digester, run->path);
	add_number(digester, run->path_count);
	if (run->checkpoint != NULL)
		add_files(digester, run->checkpoint, run->path);
	partial->selects = selection != NULL && !selection_is_all(selection);
	add_number(digester, !partial->selects);
	for (size_t i = 0; i < count; i++)
		add_number(digester, tensors[i]);
	for (size_t i = 0; i < run->select->files.count; i++)
		add_text(digester, run->select->files.items[i]);
	for (size_t i = 0; i < run->limit_count; i++) {
		add_text(digester, run->limits[i].name);
		add_number(digester, run->limits[i].value);
	}
	fsdp_digester_end(digester, digest);
	snprintf(text, sizeof text, "%.16s", hex_text(digest, hex).data);
	partial->of = collected_text(run->collected, text).data;
	snprintf(text, sizeof text, "%.*s", (int)strcspn(request, "\n"), request);
	partial->request = collected_text(run->collected, text).data;
	return partial->of != NULL && partial->request != NULL;
}

#define PARTIAL struct part_facts
const struct record partial_record = OBJECT_RECORD(PARTIAL, "partial",
	"Of one part of a run (`--part`): what `merge` joins parts by. The rows have a field `number`, their place in the whole.",
	{ "part", COUNT_AT(PARTIAL, part), .always = true,
		ABOUT("Which part, from 1 on.") },
	{ "parts", COUNT_AT(PARTIAL, parts), .always = true, ABOUT("Number of parts.") },
	{ "of", WORD_AT(PARTIAL, of), .always = true,
		ABOUT("Digest of what parts of one run have in common: version, command, request, path, files with their sizes and times.") },
	{ "request", WORD_AT(PARTIAL, request), .always = true,
		ABOUT("What the rows are.") },
	{ "selects", BOOL_AT(PARTIAL, selects), .always = true,
		ABOUT("Whether selectors were given.") });
