/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows how a file comes into being whole; knows nothing of what is in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "temporary.h"

/*
 * The one variable of this program at file scope: a signal handler has no other way to
 * what it must remove. Changed only while the signals below are blocked.
 */
static struct temporary *volatile unfinished;

static const int deadly[] = { SIGHUP, SIGINT, SIGTERM };

void temporary_abandon_all(void)
{
	for (struct temporary *at = unfinished; at != NULL; at = at->next)
		unlink(at->path);
}

static void remove_and_die(int signal_number)
{
	temporary_abandon_all();
	/* Delivered, with its usual effect, when this handler returns. */
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

static void deadly_set(sigset_t *set)
{
	sigemptyset(set);
	for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
		sigaddset(set, deadly[i]);
}

static void hold_signals(sigset_t *ret_before)
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
	struct sigaction action = { .sa_handler = remove_and_die }, before;

	deadly_set(&action.sa_mask);
	for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) {
		if (sigaction(deadly[i], NULL, &before) == 0 &&
			before.sa_handler == SIG_DFL)
			sigaction(deadly[i], &action, NULL);
	}
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
	bool good;

	*temporary = (struct temporary){ .descriptor = -1 };
	if (stat(target, &status) == 0 && !S_ISREG(status.st_mode)) {
		temporary->descriptor = open(target, O_WRONLY | O_CLOEXEC | O_NOCTTY);
		return temporary->descriptor >= 0;
	}
	temporary->target = resolve(target);
	if (temporary->target == NULL)
		return false;
	hold_signals(&before);
	install_handlers();
	good = create(temporary);
	release_signals(&before);
	return good;
}

bool temporary_commit(struct temporary *temporary)
{
	sigset_t before;
	int error = 0;

	if (temporary->path == NULL)
		return true;
	hold_signals(&before);
	if (rename(temporary->path, temporary->target) != 0) {
		error = errno;
		unlink(temporary->path);
	}
	list_remove(temporary);
	release_signals(&before);
	free(temporary->path);
	temporary->path = NULL;
	errno = error;
	return error == 0;
}

void temporary_done(struct temporary *temporary)
{
	sigset_t before;

	if (temporary->path != NULL) {
		hold_signals(&before);
		unlink(temporary->path);
		list_remove(temporary);
		release_signals(&before);
		free(temporary->path);
		temporary->path = NULL;
	}
	free(temporary->target);
	temporary->target = NULL;
}
