/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that change while they are read: what one read gave the next one need not give.
 * The first byte: which files they are; the second: how many changes. Each is four bytes:
 * from which read on it holds, the place (two bytes) and what is changed there: 0 ends
 * the file. Then for each file three bytes that say how long it is, and its bytes.
 *
 * The library reads files by pread and preadv only; both are replaced here.
 */
#include <sys/syscall.h>
#include <sys/uio.h>

#include "take.h"
#include "walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHANGES = 8, FILES = 3 };

static struct change {
	unsigned from;
	off_t place;
	uint8_t value;
} changes[CHANGES];
static unsigned change_count, reads;

static ssize_t change(unsigned char *bytes, ssize_t size, off_t offset)
{
	for (unsigned i = 0; i < change_count; i++) {
		off_t at = changes[i].place - offset;
		if (reads < changes[i].from || at < 0 || at >= size)
			continue;
		if (changes[i].value == 0)
			size = at;
		else
			bytes[at] ^= changes[i].value;
	}
	reads++;
	return size;
}

ssize_t pread(int fd, void *buffer, size_t size, off_t offset)
{
	ssize_t got = syscall(SYS_pread64, fd, buffer, size, offset);
	return got > 0 ? change(buffer, got, offset) : got;
}

/* Fewer bytes than were asked for are an ordinary answer. */
ssize_t preadv(int fd, const struct iovec *parts, int count, off_t offset)
{
	return count > 0 ? pread(fd, parts->iov_base, parts->iov_len, offset) : 0;
}

static const char *const names[][FILES] = {
	{ "model.pt" },
	{ ".metadata", "__0_0.distcp", "__1_0.distcp" },
	{ "rank0.pt", "rank1.pt", "rank2.pt" },
	{ "model.safetensors" },
	{ "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
		"model.safetensors.index.json" },
	{ "data.pkl" },
	{ "pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin",
		"pytorch_model.bin.index.json" },
};

static void take_changes(struct input *input)
{
	change_count = take(input) % (CHANGES + 1);
	for (unsigned i = 0; i < change_count; i++) {
		changes[i].from = take(input);
		changes[i].place = take(input);
		changes[i].place |= take(input) << 8;
		changes[i].value = take(input);
	}
	reads = 0;
}

/* A folder of this process, which goes when it has been read. */
static void write_file(int folder, const char *name, struct input *input)
{
	size_t size;
	const uint8_t *bytes = take_bytes(input, &size);
	int fd = openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	must(fd >= 0);
	for (size_t done = 0; done < size;) {
		ssize_t wrote = write(fd, bytes + done, size - done);
		must(wrote > 0);
		done += (size_t)wrote;
	}
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { data, data + size };
	char path[] = "/tmp/fuzz-changes-XXXXXX";
	uint8_t which = take(&input) % (sizeof names / sizeof *names);
	take_changes(&input);
	must(mkdtemp(path) != NULL);
	int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), count = 0;
	must(folder >= 0);
	for (; count < FILES && names[which][count] != NULL; count++)
		write_file(folder, names[which][count], &input);
	walk_open(path, NULL);
	for (int i = 0; i < count; i++)
		unlinkat(folder, names[which][i], 0);
	close(folder);
	rmdir(path);
	return 0;
}
