/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates output files that appear complete or not at all.
 *
 * A process in the sandbox cannot rename files. A second process, forked before the
 * sandbox is entered, does it: it receives the number of a file and an action through a
 * pipe, uses only the names that it had at the fork, and answers with an errno. When the
 * pipe ends, it removes unfinished files.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "session/session-private.h"

/*
 * At file scope because a signal handler has no other way to what it must remove. Changed
 * only while the signals below are blocked.
 */
static struct temporary *volatile unfinished;

/* To the process that they were handed over to, and from it; 0: to none. */
static volatile int requests, answers;

/* A directory in which the process makes files itself. */
static struct watched {
	char path[PATH_MAX]; /* empty: none */
	char prefix[40];     /* of the names of its files */
	int descriptor; /* of the directory itself; another may have its path later */
	bool made;
	int why; /* it could not be made */
} watched = { .descriptor = -1 };

struct owner_request {
	unsigned number;
	unsigned name; /* or remove: 0 */
};

/* SIGPIPE: a reader of messages went away. What was made is gone when the process is. */
static const int deadly[] = { SIGHUP, SIGINT, SIGTERM, SIGPIPE };

/* A directory that was made again under the same path is another one, and stays. */
static void remove_made(void)
{
	struct stat ours, named;

	if (watched.made && fstat(watched.descriptor, &ours) == 0 &&
		lstat(watched.path, &named) == 0 && named.st_dev == ours.st_dev &&
		named.st_ino == ours.st_ino)
		rmdir(watched.path);
}

void temporary_abandon_all(void)
{
	if (requests != 0) {
		/* The other process has the last word: it ends once all are gone. */
		ssize_t size;
		int error;

		close(requests);
		requests = -1;
		do
			size = read(answers, &error, sizeof error);
		while (size > 0 || (size == -1 && errno == EINTR));
		return;
	}
	for (struct temporary *at = unfinished; at != NULL; at = at->next)
		unlink(at->path);
	remove_made();
}

void temporary_die(int signal_number)
{
	sigset_t set;

	temporary_abandon_all();
	signal(signal_number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, signal_number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(signal_number);
	_exit(128 + signal_number);
}

static void deadly_set(sigset_t *set)
{
	sigemptyset(set);
	for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
		sigaddset(set, deadly[i]);
}

static void block_signals(sigset_t *ret_before)
{
	sigset_t set;

	deadly_set(&set);
	sigprocmask(SIG_BLOCK, &set, ret_before);
}

static void release_signals(const sigset_t *before)
{
	sigprocmask(SIG_SETMASK, before, NULL);
}

/* A signal that is ignored (nohup) stays ignored. */
static void install_handlers(void)
{
	struct sigaction action = { .sa_handler = temporary_die }, before;

	deadly_set(&action.sa_mask);
	for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) {
		if (sigaction(deadly[i], NULL, &before) == 0 &&
			before.sa_handler == SIG_DFL)
			sigaction(deadly[i], &action, NULL);
	}
}

const char *temporary_prefix(void)
{
	return watched.prefix[0] != '\0' ? watched.prefix : NULL;
}

int temporary_why(void)
{
	return watched.why;
}

void temporary_watch(const char *folder, bool make)
{
	sigset_t before;
	uint64_t chance;

	if (strlen(folder) >= sizeof watched.path)
		return;
	block_signals(&before);
	install_handlers();
	strcpy(watched.path, folder);
	if (getrandom(&chance, sizeof chance, GRND_NONBLOCK) != sizeof chance)
		chance = (uint64_t)getpid();
	snprintf(watched.prefix, sizeof watched.prefix, ".fsdp-inspect-%016" PRIx64 "-",
		chance);
	watched.made = make && mkdir(folder, 0777) == 0;
	watched.why = make && !watched.made && errno != EEXIST ? errno : 0;
	watched.descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (watched.made && watched.descriptor < 0) {
		rmdir(folder);
		watched.made = false;
	}
	release_signals(&before);
}

static void list_remove(struct temporary *temporary)
{
	struct temporary *at = unfinished;

	if (at == temporary) {
		unfinished = temporary->next;
		return;
	}
	while (at != NULL && at->next != temporary)
		at = at->next;
	if (at != NULL)
		at->next = temporary->next;
}

static char *beside(const char *target, unsigned attempt)
{
	const char *slash = strrchr(target, '/');
	int directory_size = slash != NULL ? (int)(slash + 1 - target) : 0;
	char *path;

	if (asprintf(&path, "%.*s.fsdp-inspect-%ld-%u.tmp", directory_size, target,
		    (long)getpid(), attempt) < 0) {
		errno = ENOMEM;
		return NULL;
	}
	return path;
}

static bool create(struct temporary *temporary)
{
	for (unsigned attempt = 0; attempt < 1000; attempt++) {
		char *path = beside(temporary->target, attempt);

		if (path == NULL)
			return false;
		temporary->descriptor = open(
			path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
		if (temporary->descriptor >= 0) {
			temporary->path = path;
			temporary->next = unfinished;
			temporary->number = unfinished ? unfinished->number + 1 : 0;
			unfinished = temporary;
			return true;
		}
		free(path);
		if (errno != EEXIST)
			return false;
	}
	return false;
}

/* A link is followed once, here: what it points to is replaced, not the link. */
static char *resolve(const char *target)
{
	struct stat status;

	if (lstat(target, &status) != 0)
		return errno == ENOENT ? strdup(target) : NULL;
	return S_ISLNK(status.st_mode) ? realpath(target, NULL) : strdup(target);
}

bool temporary_open(struct temporary *temporary, const char *target)
{
	struct stat status;
	sigset_t before;

	*temporary = (struct temporary){ .descriptor = -1 };
	if (stat(target, &status) == 0 && !S_ISREG(status.st_mode)) {
		temporary->descriptor = open(target, O_WRONLY | O_CLOEXEC | O_NOCTTY);
		return temporary->descriptor >= 0;
	}
	temporary->target = resolve(target);
	if (temporary->target == NULL)
		return false;
	block_signals(&before);
	install_handlers();
	bool good = create(temporary);
	release_signals(&before);
	return good;
}

/* The last that is done to it: gives it its name or removes it. An errno, or 0. */
static int close_temporary(const struct temporary *temporary, bool name)
{
	if (name && rename(temporary->path, temporary->target) == 0)
		return 0;
	int error = name ? errno : 0;
	unlink(temporary->path);
	return error;
}

/* ---- the other process ---- */

static int obey(struct owner_request request)
{
	struct temporary *at = unfinished;

	while (at != NULL && at->number != request.number)
		at = at->next;
	if (at == NULL)
		return ENOENT;
	int error = close_temporary(at, request.name != 0);
	list_remove(at);
	return error;
}

/* Signals to the group, as from a terminal, are meant for the other one. */
static _Noreturn void serve(int from, int to)
{
	struct owner_request request;

	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_IGN);
	for (int descriptor = 0; descriptor <= 2; descriptor++)
		close(descriptor);
	while (read(from, &request, sizeof request) == sizeof request) {
		int error = obey(request);

		if (write(to, &error, sizeof error) != sizeof error)
			break;
	}
	temporary_abandon_all();
	/* Not in a signal handler: only the process that is handed this over calls it. */
	DIR *folder = watched.descriptor >= 0 ? fdopendir(watched.descriptor) : NULL;
	const struct dirent *entry;

	while (folder != NULL && (entry = readdir(folder)) != NULL)
		if (strncmp(entry->d_name, watched.prefix, strlen(watched.prefix)) == 0)
			unlinkat(watched.descriptor, entry->d_name, 0);
	remove_made();
	if (folder != NULL)
		closedir(folder);
	_exit(0);
}

static void close_both(const int ends[2])
{
	close(ends[0]);
	close(ends[1]);
}

bool temporary_hand_over(void)
{
	int there[2], back[2];

	if (unfinished == NULL && watched.path[0] == '\0')
		return true;
	if (pipe2(there, O_CLOEXEC) != 0)
		return false;
	if (pipe2(back, O_CLOEXEC) == 0) {
		sigset_t before;
		/* It is not waited for: it is gone when its end of the pipe is. */
		signal(SIGCHLD, SIG_IGN);
		block_signals(&before);
		pid_t child = fork();
		if (child == 0) {
			close(there[1]);
			close(back[0]);
			serve(there[0], back[1]);
		}
		if (child != -1) {
			close(there[0]);
			close(back[1]);
			requests = there[1];
			answers = back[0];
		}
		release_signals(&before);
		if (child != -1)
			return true;
		close_both(back);
	}
	close_both(there);
	return false;
}

static int ask(struct owner_request request)
{
	ssize_t size;
	int error;

	if (write(requests, &request, sizeof request) != sizeof request)
		return EIO;
	do
		size = read(answers, &error, sizeof error);
	while (size == -1 && errno == EINTR);
	return size == sizeof error ? error : EIO;
}

/* ---- the end of a file ---- */

static int finish(struct temporary *temporary, bool name)
{
	sigset_t before;
	int error;

	block_signals(&before);
	if (requests != 0)
		error = ask((struct owner_request){ temporary->number, name });
	else
		error = close_temporary(temporary, name);
	list_remove(temporary);
	release_signals(&before);
	free(temporary->path);
	temporary->path = NULL;
	return error;
}

bool temporary_commit(struct temporary *temporary)
{
	if (temporary->path == NULL)
		return true;
	errno = finish(temporary, true);
	return errno == 0;
}

void temporary_done(struct temporary *temporary)
{
	if (temporary->path != NULL)
		finish(temporary, false);
	free(temporary->target);
	temporary->target = NULL;
}
