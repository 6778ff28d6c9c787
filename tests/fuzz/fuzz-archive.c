/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a tar or a compressed file. What comes out has a safe name and keeps to
 * the ceiling; the kind that the first bytes tell is the kind that is unpacked.
 */
#include <stdlib.h>

#include "io/archive.h"
#include "io/directory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CEILING = 4 << 20 };

static void must(bool held)
{
	if (!held)
		abort();
}

static void read_whole(const struct fsdp_source *source)
{
	unsigned char part[5000];
	for (uint64_t at = 0; at < source->size; at += sizeof part) {
		uint64_t left = source->size - at;
		size_t count = left < sizeof part ? (size_t)left : sizeof part;
		must(fsdp_source_read(source, at, part, count, NULL));
	}
}

/* Of a bare tar they are parts; what was compressed keeps to the ceiling. */
static void check_members(const struct fsdp_vec *packed, uint64_t most)
{
	uint64_t size = 0;
	for (size_t i = 0; i < packed->count; i++) {
		const struct fsdp_packed *member = fsdp_vec_at(packed, i);
		must(member->name.data == NULL || fsdp_name_is_safe(member->name));
		size += member->source.size;
		read_whole(&member->source);
	}
	must(size <= most);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fsdp_budget budget = { .ceiling = UINT64_C(256) << 20 };
	struct fsdp_arena arena;
	struct fsdp_limits limits;
	struct fsdp_findings findings;
	struct fsdp_vec packed;
	struct fsdp_error *error = NULL;
	struct fsdp_source source = fsdp_source_memory(fsdp_span(data, size));
	fsdp_arena_init(&arena, &budget);
	fsdp_limits_init(&limits);
	must(fsdp_limits_set(&limits, "stdin-bytes", CEILING));
	must(fsdp_limits_set(&limits, "members", 1000));
	fsdp_findings_init(&findings, &arena, &limits);
	if (fsdp_archive_unpack(&source, &arena, &limits, FSDP_SPAN("fuzz.tar"),
		    &findings, &packed, &error)) {
		must(fsdp_archive_kind(fsdp_span(data, size)) != NULL);
		check_members(&packed, fsdp_archive_is_compressed(fsdp_span(data, size))
					       ? CEILING
					       : size);
	} else {
		must(error != NULL);
	}
	fsdp_error_free(error);
	fsdp_arena_done(&arena);
	must(budget.used == 0);
	return 0;
}
