/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-anchor: what this machine does when nobody thinks, so that ours can be stated as
 * a ratio to it. Knows bytes and jansson; shares no code with the library, or it would
 * measure itself.
 *
 *   bench-anchor limits [FILE]      memory, page cache, CRC-32, fresh pages: one JSON
 * line bench-anchor read FILE [N]      one pass over FILE by pread, N threads (default 1)
 *   bench-anchor jansson FILE       FILE as a jansson document
 *   bench-anchor dom FILE...        each as a jansson document, only read; of a
 *                                   safetensors file its header
 *   bench-anchor inflate FILE       a gzip file, its output dropped
 *   bench-anchor run REPORT STDOUT COMMAND...
 *                                   what COMMAND took, as a JSON line in REPORT; measured
 *                                   from here, because a child's peak memory counts that
 *                                   of the process that forked it, and this one is small
 */
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

enum { BUFFER = 256 << 10, TRIES = 5, THREADS = 64, PAGE = 4096, PAGES = 4096 };

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t add_up(const unsigned char *bytes, size_t size)
{
	uint64_t sum = 0;

	for (size_t i = 0; i + 8 <= size; i += 8) {
		uint64_t word;

		memcpy(&word, bytes + i, 8);
		sum += word;
	}
	for (size_t i = size & ~(size_t)7; i < size; i++)
		sum += bytes[i];
	return sum;
}

struct share {
	pthread_t thread;
	int fd;
	uint64_t begin, end;
	uint64_t sum;
	int failed;
};

static void *read_share(void *argument)
{
	struct share *share = argument;
	unsigned char *buffer = malloc(BUFFER);

	share->failed = !buffer;
	for (uint64_t at = share->begin; !share->failed && at < share->end;) {
		size_t want =
			share->end - at < BUFFER ? (size_t)(share->end - at) : BUFFER;
		ssize_t got = pread(share->fd, buffer, want, (off_t)at);

		if (got <= 0) {
			share->failed = 1;
			break;
		}
		share->sum += add_up(buffer, (size_t)got);
		at += (uint64_t)got;
	}
	free(buffer);
	return NULL;
}

/* Bytes read, or 0 on failure. */
static uint64_t read_once(const char *path, unsigned threads, uint64_t *ret_sum)
{
	struct share shares[THREADS];
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) != 0) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	uint64_t size = (uint64_t)st.st_size;
	unsigned started = 0;
	int failed = 0;

	for (; started < threads; started++) {
		struct share *share = &shares[started];

		*share = (struct share){ .fd = fd };
		share->begin = size / threads * started;
		share->end =
			started + 1 == threads ? size : size / threads * (started + 1);
		if (pthread_create(&share->thread, NULL, read_share, share) != 0) {
			failed = 1;
			break;
		}
	}
	for (unsigned i = 0; i < started; i++) {
		pthread_join(shares[i].thread, NULL);
		failed |= shares[i].failed;
		*ret_sum += shares[i].sum;
	}
	close(fd);
	return failed ? 0 : size;
}

static int read_command(const char *path, unsigned threads)
{
	uint64_t sum = 0;
	double start = seconds();
	uint64_t size = read_once(path, threads, &sum);

	if (size == 0) {
		perror(path);
		return 2;
	}
	printf("{\"bytes\": %llu, \"seconds\": %.6f, \"sum\": %llu}\n",
		(unsigned long long)size, seconds() - start, (unsigned long long)sum);
	return 0;
}

static int jansson_command(const char *path)
{
	json_error_t error;
	double start = seconds();
	json_t *document = json_load_file(path, 0, &error);

	if (!document) {
		fprintf(stderr, "bench-anchor: %s: %s\n", path, error.text);
		return 2;
	}
	double loaded = seconds();
	int status = json_dumpf(document, stdout, JSON_COMPACT);

	fprintf(stderr, "{\"load_seconds\": %.6f, \"dump_seconds\": %.6f}\n",
		loaded - start, seconds() - loaded);
	json_decref(document);
	return status == 0 ? 0 : 2;
}

static json_t *load_header(const char *path, json_error_t *error)
{
	FILE *file = fopen(path, "rb");
	unsigned char bytes[8];
	size_t size = 0;
	char *text = NULL;
	json_t *document = NULL;

	if (file == NULL)
		return NULL;
	if (fread(bytes, 1, 8, file) == 8)
		for (size_t i = 8; i-- > 0;)
			size = size << 8 | bytes[i];
	if (size > 0 && size < SIZE_MAX / 2)
		text = malloc(size);
	if (text != NULL && fread(text, 1, size, file) == size)
		document = json_loadb(text, size, 0, error);
	free(text);
	fclose(file);
	return document;
}

/* All of them stay until the end, as they do for whoever reads an index and the headers
 * of its files. */
static int dom_command(char **paths, int count)
{
	json_t *all = json_array();
	double start = seconds();

	for (int i = 0; i < count; i++) {
		json_error_t error = { .text = "cannot be read" };
		size_t size = strlen(paths[i]);
		bool header =
			size > 12 && strcmp(paths[i] + size - 12, ".safetensors") == 0;
		json_t *document = header ? load_header(paths[i], &error)
					  : json_load_file(paths[i], 0, &error);
		if (document == NULL) {
			fprintf(stderr, "bench-anchor: %s: %s\n", paths[i], error.text);
			return 2;
		}
		json_array_append_new(all, document);
	}
	printf("{\"seconds\": %.6f}\n", seconds() - start);
	json_decref(all);
	return 0;
}

/* All members of a gzip file, the output dropped. */
static int inflate_command(const char *path)
{
	static unsigned char output[256 << 10];
	gzFile file = gzopen(path, "rb");
	double start = seconds();
	unsigned long long bytes = 0;
	int count;

	if (file == NULL)
		return 2;
	gzbuffer(file, 128 << 10);
	while ((count = gzread(file, output, sizeof output)) > 0)
		bytes += (unsigned)count;
	gzclose(file);
	printf("{\"bytes\": %llu, \"seconds\": %.6f}\n", bytes, seconds() - start);
	return count == 0 ? 0 : 2;
}

static double best_memory(void)
{
	size_t size = (size_t)512 << 20;
	unsigned char *bytes = malloc(size);
	volatile uint64_t keep = 0;
	double best = 0;

	if (!bytes)
		return 0;
	memset(bytes, 1, size);
	for (int i = 0; i < TRIES; i++) {
		double start = seconds();

		keep = keep + add_up(bytes, size);
		double rate = (double)size / 1e9 / (seconds() - start);
		if (rate > best)
			best = rate;
	}
	free(bytes);
	return best;
}

static double best_crc(void)
{
	static unsigned char bytes[BUFFER];
	volatile unsigned long keep = 0;
	double best = 0;

	for (int i = 0; i < TRIES; i++) {
		double start = seconds();

		for (int k = 0; k < 256; k++)
			keep = keep ^ crc32_z(0, bytes, sizeof(bytes));
		double rate = 256.0 * BUFFER / 1e9 / (seconds() - start);
		if (rate > best)
			best = rate;
	}
	return best;
}

/* Nanoseconds to touch a page for the first time. */
static double best_page(void)
{
	double best = 1e9;

	for (int i = 0; i < TRIES; i++) {
		unsigned char *pages = mmap(NULL, (size_t)PAGE * PAGES,
			PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (pages == MAP_FAILED)
			return 0;
		double start = seconds();
		for (size_t k = 0; k < PAGES; k++)
			((volatile unsigned char *)pages)[k * PAGE] = 1;
		double each = (seconds() - start) * 1e9 / PAGES;
		if (each < best)
			best = each;
		munmap(pages, (size_t)PAGE * PAGES);
	}
	return best;
}

static int limits_command(const char *path)
{
	double best = 0;

	for (int i = 0; path && i < TRIES; i++) {
		uint64_t sum = 0;
		double start = seconds();
		uint64_t size = read_once(path, 1, &sum);
		double rate = (double)size / 1e9 / (seconds() - start);

		if (rate > best)
			best = rate;
	}
	printf("{\"memory_gb_s\": %.1f, \"crc32_gb_s\": %.1f, \"fresh_page_ns\": %.0f, "
	       "\"page_cache_gb_s\": %.1f, \"cpus\": %ld}\n",
		best_memory(), best_crc(), best_page(), best,
		sysconf(_SC_NPROCESSORS_ONLN));
	return 0;
}

static double of(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static int run_command(const char *report, const char *output, char **argv)
{
	struct rusage usage;
	int status;
	FILE *file = fopen(report, "we");

	if (!file) {
		perror(report);
		return 2;
	}
	double start = seconds();
	pid_t child = fork();
	if (child == 0) {
		int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0600);

		if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
			_exit(127);
		close(fd);
		execvp(argv[0], argv);
		_exit(127);
	}
	if (child < 0 || wait4(child, &status, 0, &usage) != child) {
		perror("bench-anchor");
		fclose(file);
		return 2;
	}
	fprintf(file,
		"{\"status\": %d, \"wall\": %.6f, \"user\": %.6f, \"sys\": %.6f, "
		"\"rss\": %ld}\n",
		WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
		seconds() - start, of(usage.ru_utime), of(usage.ru_stime),
		usage.ru_maxrss * 1024);
	return fclose(file) == 0 ? 0 : 2;
}

int main(int argc, char **argv)
{
	if (argc > 4 && strcmp(argv[1], "run") == 0)
		return run_command(argv[2], argv[3], argv + 4);
	if (argc >= 2 && strcmp(argv[1], "limits") == 0)
		return limits_command(argc > 2 ? argv[2] : NULL);
	if (argc >= 3 && strcmp(argv[1], "read") == 0) {
		int threads = argc > 3 ? atoi(argv[3]) : 1;

		return read_command(argv[2], threads < 1         ? 1
					     : threads > THREADS ? THREADS
								 : (unsigned)threads);
	}
	if (argc == 3 && strcmp(argv[1], "jansson") == 0)
		return jansson_command(argv[2]);
	if (argc >= 3 && strcmp(argv[1], "dom") == 0)
		return dom_command(argv + 2, argc - 2);
	if (argc == 3 && strcmp(argv[1], "inflate") == 0)
		return inflate_command(argv[2]);
	fprintf(stderr, "usage: bench-anchor limits [FILE] | read FILE [THREADS] | "
			"jansson FILE | dom FILE... | inflate FILE\n");
	return 2;
}
