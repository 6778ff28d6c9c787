/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as dumps of the Flight Recorder, through the door: the first half as that of
 * one rank, the second as that of another, and all of them as that of two more. What is
 * said of them must hold together.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/order.h>
#include <fsdp/trace.h>

#include "walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RANKS = 4 };

static void require(bool good)
{
	if (!good)
		abort();
}

static int64_t rank_of(void *context, const char *path)
{
	const char *const *paths = context;
	for (int64_t i = 0; i < RANKS; i++)
		if (paths[i] == path)
			return i;
	return FSDP_ABSENT;
}

/* Ascending, each once. */
static void look_at_ranks(const int64_t *ranks, size_t count)
{
	for (size_t i = 1; i < count; i++)
		require(ranks[i - 1] < ranks[i]);
}

static void look_at_call(const struct fsdp_flight_call *call)
{
	volatile unsigned sum = 0;
	for (size_t i = 0; i < call->input_size_count; i++)
		for (size_t j = 0; j < call->input_sizes[i].dim_count; j++)
			sum += (unsigned)call->input_sizes[i].dims[j];
	for (size_t i = 0; i < call->output_dtype_count; i++)
		for (size_t j = 0; j < call->output_dtypes[i].size; j++)
			sum += call->output_dtypes[i].data[j];
}

static void look_at(const struct fsdp_flight *flight)
{
	bool parts = flight->verdict == FSDP_FLIGHT_STUCK ||
		     flight->verdict == FSDP_FLIGHT_MISMATCH;
	require(fsdp_flight_verdict_name(flight->verdict) != NULL);
	require(!parts || (flight->problem != NULL && flight->culprits.count != 0));
	require(flight->found_count == 0 || flight->verdict == FSDP_FLIGHT_MISMATCH);
	look_at_ranks(flight->culprits.list, flight->culprits.count);
	look_at_ranks(flight->entered.list, flight->entered.count);
	look_at_ranks(flight->missing.list, flight->missing.count);
	look_at_ranks(flight->members.list, flight->members.count);
	look_at_ranks(flight->missing_dumps.list, flight->missing_dumps.count);
	look_at_ranks(flight->unreadable.list, flight->unreadable.count);
	look_at_call(&flight->call);
	if (flight->has_expected)
		look_at_call(&flight->expected);
	for (size_t i = 0; i < flight->found_count; i++)
		look_at_call(&flight->found[i].call);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct walk_file first = walk_file_new(data, size / 2),
			 second = walk_file_new(data + size / 2, size - size / 2),
			 whole = walk_file_new(data, size);
	char again[sizeof whole.path];
	memcpy(again, whole.path, sizeof again);
	const char *paths[RANKS] = { first.path, second.path, whole.path, again };
	struct fsdp_recordings *set = NULL;
	struct fsdp_error *error = NULL;
	const struct fsdp_recording_options options = {
		.size = sizeof options, .rank_of = rank_of, .context = paths, .jobs = 1
	};
	bool good = fsdp_recordings_read(paths, RANKS, &options, &set, &error);
	require(good == (error == NULL) && good == (set != NULL));
	if (good && fsdp_recordings_flight(set) != NULL)
		look_at(fsdp_recordings_flight(set));
	fsdp_recordings_free(set);
	fsdp_error_free(error);
	close(first.fd);
	close(second.fd);
	close(whole.fd);
	return 0;
}
