/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums up stored bytes as they come by.
 */
#include <stdlib.h>

#include "sweep/content-hash.h"
#include "sweep/stored-runs.h"

static bool begin_run(struct fsdp_stored_runs *runs, struct fsdp_stored_at *place,
	const struct fsdp_fetch_record *record, uint64_t at,
	struct fsdp_error **ret_error)
{
	if (runs->count == runs->room) {
		size_t room = 2 * runs->room + 8;
		void *list = realloc(runs->list, room * sizeof *runs->list);
		if (list == NULL)
			return fsdp_fail_memory(ret_error);
		runs->list = list;
		runs->room = room;
	}
	runs->list[runs->count++] = (struct fsdp_elements_run){
		.file = record->file,
		.record = record->offset,
		.size = record->size,
		.begin = at,
		.end = at,
		.recorded = record->crc,
	};
	place->run = runs->count;
	return true;
}

bool fsdp_stored_runs_add(struct fsdp_stored_runs *runs, struct fsdp_stored_at *place,
	const struct fsdp_fetch_record *record, uint64_t at, const unsigned char *bytes,
	size_t size, struct fsdp_error **ret_error)
{
	if (!record->has_crc || place->broken)
		return true;
	if (place->run == 0 && !begin_run(runs, place, record, at, ret_error))
		return false;
	struct fsdp_elements_run *run = &runs->list[place->run - 1];
	if (at != run->end) {
		place->broken = true;
		return true;
	}
	run->crc = fsdp_crc32(run->crc, bytes, size);
	run->end += size;
	return true;
}

void fsdp_stored_runs_done(struct fsdp_stored_runs *runs)
{
	free(runs->list);
	*runs = (struct fsdp_stored_runs){ 0 };
}
