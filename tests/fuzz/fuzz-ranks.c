/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any pickles as the rank files of one save, with a sharding plan beside them or without.
 * The first byte: how the files are called; whether a plan comes first. Then for each
 * file a byte (its rank; whether it is a bare pickle), three that say how long the pickle
 * is, and the pickle. Around the others is a sound torch zip.
 */
#include "compose.h"
#include "take.h"
#include "tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILES = 6, WITH_PLAN = 0x80, BARE = 0x80 };

static const char *const names[] = {
	"rank%u.pt",
	"model_world_size_2_rank_%u.pt",
	"shard_%u.pth",
	"consolidated.%02u.pth",
	"mp_rank_0%u_model_states.pt",
	"pytorch_model_fsdp_%u.bin",
	"zero_pp_rank_%u_mp_rank_00_optim_states.pt",
	"mp_rank_0%u/model_optim_rng.pt",
};

static void put_file(struct tar *tar, const char *format, struct input *input)
{
	size_t size;
	char name[TAR_NAME];
	uint8_t how = take(input);
	const uint8_t *pickle = take_bytes(input, &size);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(name, sizeof name, format, how % 8u);
#pragma GCC diagnostic pop
	if (how & BARE) {
		tar_put(tar, name, pickle, size);
		return;
	}
	struct bytes zip = compose_torch(pickle, size);
	tar_put(tar, name, zip.at, zip.size);
	free(zip.at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { data, data + size };
	struct walk_file plan = { .fd = -1 };
	size_t room = size + FILES * ((size_t)TAR_MEMBER + ZIP_ROOM) + TAR_END;
	struct tar tar = { .at = malloc(room) };
	uint8_t how = take(&input);
	must(tar.at != NULL);
	if (how & WITH_PLAN) {
		size_t length;
		const uint8_t *bytes = take_bytes(&input, &length);
		plan = walk_file_new(bytes, length);
	}
	for (int i = 0; i < FILES && input.at < input.end; i++)
		put_file(&tar, names[how % (sizeof names / sizeof *names)], &input);
	tar_walk_with(&tar, plan.fd >= 0 ? plan.path : NULL);
	if (plan.fd >= 0)
		close(plan.fd);
	return 0;
}
