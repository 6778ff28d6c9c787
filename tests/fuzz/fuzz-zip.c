/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a zip: its directory, every name looked up, every header visited, every
 * member read, whole and in part. What both ways of locating a member say must agree.
 */
#include <stdlib.h>

#include "io/zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CEILING = 1 << 20 };

static void must(bool held)
{
	if (!held)
		abort();
}

static void use_member(struct fsdp_zip *zip, const struct fsdp_zip_member *member,
	struct fsdp_arena *arena)
{
	const struct fsdp_zip_member *found = fsdp_zip_find(zip, member->name);
	must(found != NULL && fsdp_span_equal(found->name, member->name));
	struct fsdp_zip_window window = { .source = zip->source };
	uint64_t here, there;
	bool located = fsdp_zip_locate(&zip->source, member, &here, NULL);
	must(located == fsdp_zip_locate_in(&window, member->header, member->stored_size,
				&there, NULL));
	if (!located)
		return;
	must(here == there && here + member->stored_size <= zip->source.size);
	unsigned char part[16];
	(void)fsdp_zip_read_part(&zip->source, here, member->stored_size, member->method,
		3, part, sizeof part, NULL);
	struct fsdp_span bytes;
	if (fsdp_zip_read(zip, member, CEILING, arena, &bytes, NULL))
		must(bytes.size == member->size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fsdp_budget budget = { .ceiling = UINT64_C(256) << 20 };
	struct fsdp_arena arena;
	struct fsdp_limits limits;
	struct fsdp_findings findings;
	struct fsdp_zip zip;
	struct fsdp_error *error = NULL;
	struct fsdp_source source = fsdp_source_memory(fsdp_span(data, size));
	fsdp_arena_init(&arena, &budget);
	fsdp_limits_init(&limits);
	fsdp_findings_init(&findings, &arena, &limits);
	if (fsdp_zip_open(&source, &arena, &limits, FSDP_SPAN("fuzz.pt"), &findings, &zip,
		    &error)) {
		for (size_t i = 0; i < zip.members.count; i++)
			use_member(&zip, fsdp_zip_member(&zip, i), &arena);
		must(fsdp_zip_check_headers(
			&zip, FSDP_SPAN("fuzz.pt"), &findings, NULL, &error));
	} else {
		must(error != NULL);
	}
	fsdp_error_free(error);
	fsdp_arena_done(&arena);
	must(budget.used == 0);
	return 0;
}
