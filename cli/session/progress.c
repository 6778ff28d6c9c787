/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows the progress of reading.
 *
 * Timer and signal handlers print it, so they call only async-signal-safe functions and
 * no stdio.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "session/session.h"
#include "session/session-private.h"

/* A handler has no other way to what it shows. */
static struct shown {
	struct fsdp_recording_progress *volatile progress;
	struct timespec since;
	volatile sig_atomic_t shows, plain, drawing, drawn, interrupted;
} shown;

enum { FIRST_US = 700000, NEXT_US = 100000, PLAIN_S = 30, GRACE_S = 1 };

/* ---- a line ---- */

struct line {
	char text[160];
	size_t size;
};

static void append(struct line *line, const char *text)
{
	while (*text != '\0' && line->size < sizeof line->text)
		line->text[line->size++] = *text++;
}

static void append_number(struct line *line, uint64_t number)
{
	char digits[24];
	size_t at = sizeof digits - 1;

	digits[at] = '\0';
	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number != 0);
	append(line, digits + at);
}

static void append_bytes(struct line *line, uint64_t bytes)
{
	uint64_t tenths = bytes / 1024 * 10 / 1024;

	append_number(line, tenths / 10);
	append(line, ".");
	append_number(line, tenths % 10);
	append(line, " MiB");
}

static void draw(bool lasting)
{
	const struct fsdp_recording_progress *progress = shown.progress;
	struct line line = { .size = 0 };
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	uint64_t ms = (uint64_t)(now.tv_sec - shown.since.tv_sec) * 1000 +
		      (uint64_t)(now.tv_nsec / 1000000) -
		      (uint64_t)(shown.since.tv_nsec / 1000000);

	append(&line, lasting ? "fsdp-inspect: " : "\r\033[Kfsdp-inspect: ");
	if (progress != NULL) {
		uint64_t read = __atomic_load_n(&progress->read, __ATOMIC_RELAXED);
		uint64_t size = __atomic_load_n(&progress->size, __ATOMIC_RELAXED);

		append_bytes(&line, read);
		if (size != 0) {
			append(&line, " of ");
			append_bytes(&line, size);
		}
		if (ms != 0) {
			append(&line, ", ");
			append_bytes(&line, read / ms * 1000);
			append(&line, "/s");
		}
		if (read != 0 && size > read) {
			append(&line, ", ");
			append_number(&line,
				ms * ((size - read) >> 10) / ((read >> 10) + 1) / 1000);
			append(&line, " s left");
		}
	} else {
		/* Where bytes are not counted, how long it takes, and how much of that
		 * it computes: a process that does not, waits for its file system. */
		struct timespec used = { 0 };

		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
		append(&line, "at work for ");
		append_number(&line, ms / 1000);
		append(&line, ".");
		append_number(&line, ms % 1000 / 100);
		append(&line, " s, computing for ");
		append_number(&line, (uint64_t)used.tv_sec);
		append(&line, ".");
		append_number(&line, (uint64_t)used.tv_nsec / 100000000);
		append(&line, " s");
	}
	if (lasting)
		append(&line, "\n");
	if (write(STDERR_FILENO, line.text, line.size) < 0)
		return;
	shown.drawn = !lasting;
}

/* ---- signals ---- */

static void set_timer(time_t first_s, suseconds_t first_us, time_t s, suseconds_t us)
{
	struct itimerval timer = { { s, us }, { first_s, first_us } };

	setitimer(ITIMER_REAL, &timer, NULL);
}

/* It comes also while it draws, on a stderr that is not read: time is up all the same.
 */
static void tick(int number)
{
	int error = errno;

	(void)number;
	if (shown.interrupted)
		temporary_die(shown.interrupted);
	if (shown.drawing)
		return;
	shown.drawing = 1;
	draw(shown.plain);
	shown.drawing = 0;
	errno = error;
}

static void ask(int number)
{
	int error = errno;

	(void)number;
	draw(true);
	errno = error;
}

static void interrupt(int number)
{
	struct fsdp_recording_progress *progress = shown.progress;

	if (progress == NULL || shown.interrupted)
		temporary_die(number);
	shown.interrupted = number;
	set_timer(GRACE_S, 0, GRACE_S, 0);
	__atomic_store_n(&progress->stop, 1, __ATOMIC_RELAXED);
}

static void handle(int number, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	sigemptyset(&action.sa_mask);
	sigaction(number, &action, NULL);
}

/* An ignored signal (nohup) stays ignored. */
static void handle_unless_ignored(int number, void (*handler)(int), int flags)
{
	struct sigaction before;

	if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
		handle(number, handler, flags);
}

void progress_listen(void)
{
	clock_gettime(CLOCK_MONOTONIC, &shown.since);
	handle_unless_ignored(SIGUSR1, ask, SA_RESTART);
}

void progress_begin(
	const struct common_options *common, struct fsdp_recording_progress *progress)
{
	const char *when = common->progress != NULL ? common->progress : "auto";

	shown.progress = progress;
	clock_gettime(CLOCK_MONOTONIC, &shown.since);
	shown.plain = strcmp(when, "plain") == 0;
	shown.shows = shown.plain || strcmp(when, "always") == 0 ||
		      (strcmp(when, "auto") == 0 && isatty(STDERR_FILENO));
	handle(SIGALRM, tick, SA_RESTART | SA_NODEFER);
	/* What counts no bytes cannot be stopped half way: a signal ends the process. */
	if (progress != NULL) {
		handle_unless_ignored(SIGINT, interrupt, 0);
		handle_unless_ignored(SIGTERM, interrupt, 0);
	}
	if (!shown.shows)
		return;
	if (shown.plain)
		set_timer(PLAIN_S, 0, PLAIN_S, 0);
	else
		set_timer(0, FIRST_US, 0, NEXT_US);
}

int progress_end(void)
{
	static const char erase[] = "\r\033[K";

	/* From here on nothing interrupts: what did before still has its deadline. */
	shown.progress = NULL;
	if (shown.shows && !shown.interrupted)
		set_timer(0, 0, 0, 0);
	if (shown.drawn && write(STDERR_FILENO, erase, sizeof erase - 1) >= 0)
		shown.drawn = 0;
	return shown.interrupted;
}
