/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several files beside each other, made from a few bytes each: torch zips, bare pickles,
 * safetensors, an index of them, or any bytes. For each file a byte that says what it is
 * called (0: its length and the name follow), one that says what it is, and then its
 * tensors or its bytes. Few names and keys, so that files mean the same tensors.
 */
#include "compose.h"
#include "take.h"
#include "tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILES = 6, TENSORS = 8, ROOM = 4096 };

static const char *const names[] = {
	"pytorch_model-00001-of-00002.bin",
	"pytorch_model-00002-of-00002.bin",
	"pytorch_model.bin.index.json",
	"model-00001-of-00002.safetensors",
	"model-00002-of-00002.safetensors",
	"model.safetensors.index.json",
	"rank0.pt",
	"rank1.pt",
	"shard-00001-model-00001-of-00001.safetensors",
	"optimizer.bin",
	"data.pkl",
	"pytorch_model.bin",
	"adapter_model.bin",
	"zero/a.pt",
	"trainer_state.json",
};

static const char *const tensors[] = { "a", "b.weight", "b.bias", "_flat_param",
	"c._flat_param", "c.weight", "b.running_mean", "d" };

enum kind { ZIP, BARE, SAFETENSORS, INDEX, RAW, KINDS };

/* ---- pickles ---- */

static void put_text(struct bytes *bytes, const char *text)
{
	put(bytes, 'X', 1);
	put(bytes, (uint32_t)strlen(text), 4);
	put_bytes(bytes, text, strlen(text));
}

static void put_plain(struct bytes *bytes, const char *text)
{
	put_bytes(bytes, text, strlen(text));
}

static void put_number(struct bytes *bytes, uint32_t number)
{
	put(bytes, 'J', 1);
	put(bytes, number, 4);
}

/* A view of one of five storages, the last of which the zip does not have. */
static void put_tensor(struct bytes *bytes, struct input *input)
{
	char key[] = { (char)('0' + take(input) % (STORAGES + 1)), '\0' };
	uint8_t rows = take(input), columns = take(input), offset = take(input);
	put_plain(bytes, "ctorch._utils\n_rebuild_tensor_v2\n((");
	put_text(bytes, "storage");
	put_plain(bytes, "ctorch\nFloatStorage\n");
	put_text(bytes, key);
	put_text(bytes, "cpu");
	put_number(bytes, 160);
	put_plain(bytes, "tQ");
	put_number(bytes, offset);
	put_number(bytes, rows % 16);
	if (columns % 16 == 0) {
		put_plain(bytes, "\205K\1\205");
	} else {
		put_number(bytes, columns % 16);
		put_plain(bytes, "\206");
		put_number(bytes, columns % 16);
		put_plain(bytes, "K\1\206");
	}
	put_plain(bytes, "\211ccollections\nOrderedDict\n)RtR");
}

static void put_pickle(struct bytes *bytes, struct input *input)
{
	uint8_t count = take(input) % TENSORS;
	put_plain(bytes, "\200\2}(");
	for (int i = 0; i < count; i++) {
		put_text(
			bytes, tensors[take(input) % (sizeof tensors / sizeof *tensors)]);
		put_tensor(bytes, input);
	}
	put_plain(bytes, "u.");
}

/* ---- safetensors and the index ---- */

static void put_header(struct bytes *bytes, struct input *input)
{
	char text[ROOM / 2];
	size_t at = 1, end = 0;
	uint8_t count = take(input) % TENSORS;
	text[0] = '{';
	for (int i = 0; i < count; i++) {
		uint8_t name = take(input), rows = take(input) % 16,
			gap = take(input) % 4;
		size_t begin = end + gap / 3u;
		end = begin + rows * (size_t)4;
		at += (size_t)snprintf(text + at, sizeof text - at,
			"%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%u],"
			"\"data_offsets\":[%zu,%zu]}",
			i == 0 ? "" : ",", tensors[name % 8], rows, begin, end);
	}
	text[at++] = '}';
	put(bytes, (uint32_t)at, 4);
	put(bytes, 0, 4);
	put_bytes(bytes, text, at);
	memset(bytes->at + bytes->size, 1, end);
	bytes->size += end;
}

static void put_index(struct bytes *bytes, struct input *input)
{
	uint8_t count = take(input) % TENSORS;
	put_plain(bytes, "{\"metadata\":{\"total_size\":640},\"weight_map\":{");
	for (int i = 0; i < count; i++) {
		char text[256];
		uint8_t tensor = take(input), name = take(input);
		snprintf(text, sizeof text, "%s\"%s\":\"%s\"", i == 0 ? "" : ",",
			tensors[tensor % 8],
			names[name % (sizeof names / sizeof *names)]);
		put_plain(bytes, text);
	}
	put_plain(bytes, "}}");
}

/* ---- files ---- */

static void put_made(
	struct tar *tar, const char *name, enum kind kind, struct input *input)
{
	unsigned char room[ROOM];
	struct bytes bytes = { .at = room };
	if (kind == SAFETENSORS)
		put_header(&bytes, input);
	else if (kind == INDEX)
		put_index(&bytes, input);
	else
		put_pickle(&bytes, input);
	struct bytes zip = { .at = NULL };
	if (kind == ZIP)
		zip = compose_torch(bytes.at, bytes.size);
	tar_put(tar, name, kind == ZIP ? zip.at : bytes.at,
		kind == ZIP ? zip.size : bytes.size);
	free(zip.at);
}

static void put_file(struct tar *tar, struct input *input)
{
	char name[TAR_NAME] = "";
	uint8_t called = take(input);
	if (called != 0)
		snprintf(name, sizeof name, "%s",
			names[called % (sizeof names / sizeof *names)]);
	size_t length = called == 0 ? take(input) % TAR_NAME : 0;
	for (size_t i = 0; i < length; i++)
		name[i] = (char)take(input);
	enum kind kind = (enum kind)(take(input) % KINDS);
	if (kind != RAW) {
		put_made(tar, name, kind, input);
		return;
	}
	size_t size;
	const uint8_t *bytes = take_bytes(input, &size);
	tar_put(tar, name, bytes, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { data, data + size };
	size_t room = size + FILES * ((size_t)TAR_MEMBER + ROOM + ZIP_ROOM) + TAR_END;
	struct tar tar = { .at = malloc(room) };
	must(tar.at != NULL);
	for (int i = 0; i < FILES && input.at < input.end; i++)
		put_file(&tar, &input);
	tar_walk(&tar);
	return 0;
}
