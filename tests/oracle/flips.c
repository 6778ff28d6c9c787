/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flips LEVEL: whether an audit of headers, data or values tells of a flipped bit. Each
 * line of its input is one flip,
 *
 *	CHECKPOINT	FILE	OFFSET	BIT
 *
 * and each line of its output an answer, "1" or "0". The bit is flipped in place, and
 * back again. Told is what is a warning at least and is not told of the checkpoint as it
 * is; or that it cannot be opened.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <fsdp/audit.h>

enum { LINE = 1 << 14, TOLD = 4096 };

/* Hashes of what is told. */
struct told {
	uint64_t hashes[TOLD];
	size_t count;
	bool failed;
};

static uint64_t add_text(uint64_t hash, struct fsdp_span text)
{
	for (size_t i = 0; i < text.size; i++)
		hash = (hash ^ text.data[i]) * UINT64_C(0x100000001b3);
	return hash * 31;
}

static void listen(const char *path, enum fsdp_level level, struct told *ret_told)
{
	const struct fsdp_verify_options bytes = { .size = sizeof bytes, .level = level };
	struct fsdp_audit_options how = { .size = sizeof how, .level = level };
	struct fsdp_checkpoint *checkpoint = NULL;
	struct fsdp_verify *verify = NULL;
	struct fsdp_audit *audit = NULL;
	struct fsdp_error *error = NULL;
	ret_told->count = 0;
	ret_told->failed = !fsdp_checkpoint_open(&path, 1, NULL, &checkpoint, &error) ||
			   !fsdp_verify_new(checkpoint, &bytes, &verify, &error);
	how.verify = verify;
	ret_told->failed =
		ret_told->failed || !fsdp_audit_new(checkpoint, &how, &audit, &error);
	for (size_t i = 0; !ret_told->failed && i < fsdp_audit_finding_count(audit) &&
			   ret_told->count < TOLD;
		i++) {
		const struct fsdp_finding *finding = fsdp_audit_finding(audit, i);
		struct fsdp_span id = { (const unsigned char *)finding->rule->id, 6 };
		if (finding->severity < FSDP_WARNING)
			continue;
		uint64_t hash = add_text(UINT64_C(0xcbf29ce484222325), id);
		hash = add_text(hash, finding->file);
		ret_told->hashes[ret_told->count++] = add_text(hash, finding->message);
	}
	fsdp_error_free(error);
	fsdp_audit_free(audit);
	fsdp_verify_free(verify);
	fsdp_checkpoint_free(checkpoint);
}

static bool is_known(const struct told *known, uint64_t hash)
{
	for (size_t i = 0; i < known->count; i++)
		if (known->hashes[i] == hash)
			return true;
	return false;
}

static bool tells_more(const struct told *known, const struct told *now)
{
	for (size_t i = 0; i < now->count; i++)
		if (!is_known(known, now->hashes[i]))
			return true;
	return now->failed && !known->failed;
}

static void flip(const char *path, off_t offset, unsigned bit)
{
	unsigned char byte;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || pread(fd, &byte, 1, offset) != 1) {
		perror(path);
		exit(1);
	}
	byte ^= (unsigned char)(1u << bit);
	if (pwrite(fd, &byte, 1, offset) != 1 || close(fd) != 0) {
		perror(path);
		exit(1);
	}
}

int main(int count, char **arguments)
{
	static struct told known, now;
	static char line[LINE], before[LINE], path[LINE], file[LINE];
	enum fsdp_level level = FSDP_LEVEL_HEADERS;
	unsigned long long offset;
	unsigned bit;
	while (count > 1 && level < FSDP_LEVEL_VALUES &&
		strcmp(fsdp_level_name(level), arguments[1]) != 0)
		level++;
	while (fgets(line, sizeof line, stdin) != NULL) {
		if (sscanf(line, "%[^\t]\t%[^\t]\t%llu\t%u", path, file, &offset, &bit) !=
			4)
			return 64;
		if (strcmp(path, before) != 0)
			listen(path, level, &known);
		memcpy(before, path, sizeof before);
		flip(file, (off_t)offset, bit);
		listen(path, level, &now);
		flip(file, (off_t)offset, bit);
		puts(tells_more(&known, &now) ? "1" : "0");
	}
	return 0;
}
