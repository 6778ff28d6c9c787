/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the process that reads URLs: a program in Python that is built into this one, or
 * what FSDP_INSPECT_HELPER names. It has one end of a pair of sockets as its descriptor
 * 3.
 */
#include "session/session.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "args/input.h"

static struct fsdp_remote *current;

struct fsdp_remote *helper_remote(void)
{
	return current;
}

enum fsdp_remote_kind helper_kind(const char *path)
{
	return current != NULL ? fsdp_remote_kind(current, path) : FSDP_REMOTE_LOCAL;
}

void helper_end(void)
{
	fsdp_remote_free(current);
	current = NULL;
}

#ifdef WITH_REMOTE

enum { BUFFER_BYTES = 1 << 20, DESCRIPTOR = 3 };
static const rlim_t MEMORY_MOST = (rlim_t)4 << 30;

extern const char helper__remote_py[];

/* ---- which program ---- */

/* A program at an absolute path that begins with `size` characters of a directory; NULL:
 * none. */
static char *program_in(const char *folder, size_t size, const char *below)
{
	char *path = NULL;

	if (folder == NULL || *folder != '/' ||
		asprintf(&path, "%.*s%s", (int)size, folder, below) < 0)
		return NULL;
	if (access(path, X_OK) == 0)
		return path;
	free(path);
	return NULL;
}

static char *find_python(void)
{
	static const char *const variables[] = { "VIRTUAL_ENV", "CONDA_PREFIX" };
	const char *named = getenv("FSDP_INSPECT_PYTHON");
	const char *folders = getenv("PATH");
	char *path = NULL, own[PATH_MAX];
	ssize_t size = readlink("/proc/self/exe", own, sizeof own);

	if (named != NULL && *named != '\0')
		return program_in(named, strlen(named), "");
	for (size_t i = 0; i < sizeof variables / sizeof *variables && path == NULL; i++)
		path = program_in(getenv(variables[i]), INT_MAX, "/bin/python3");
	/* pip installs the program next to the Python that has its packages. */
	while (size > 0 && own[size - 1] != '/')
		size--;
	if (path == NULL && size > 0)
		path = program_in(own, (size_t)size, "python3");
	/* An empty one is the current directory; no program of it is run. */
	while (path == NULL && folders != NULL && *folders != '\0') {
		size_t length = strcspn(folders, ":");

		path = program_in(folders, length, "/python3");
		folders += length + (folders[length] == ':');
	}
	return path;
}

/* ---- the process ---- */

/* Never returns. What it would write may hold a URL with its query, so it goes nowhere.
 */
static void run_helper(int socket, char **words)
{
	size_t kept = 0;
	int null = open("/dev/null", O_RDWR);
	bool good = dup2(null, 0) == 0 && dup2(null, 1) == 1 && dup2(null, 2) == 2;

	good = good && dup2(socket, DESCRIPTOR) == DESCRIPTOR;
	if (socket == DESCRIPTOR)
		fcntl(DESCRIPTOR, F_SETFD, 0);
	(void)syscall(SYS_close_range, DESCRIPTOR + 1, ~0U, 0);
	signal(SIGPIPE, SIG_DFL);
	/* Its memory holds credentials. */
	good = good && setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 }) == 0;
	/* Lists of any length end it, before they fill the memory of others. */
	(void)setrlimit(RLIMIT_DATA, &(struct rlimit){ MEMORY_MOST, MEMORY_MOST });
	good = good && prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && chdir("/") == 0;
	/* Variables that select libraries and modules are omitted. */
	for (size_t i = 0; environ[i] != NULL; i++)
		if (strncmp(environ[i], "LD_", 3) != 0 &&
			strncmp(environ[i], "PYTHON", 6) != 0)
			environ[kept++] = environ[i];
	environ[kept] = NULL;
	if (good)
		execv(words[0], words);
	_exit(127);
}

/* Why nothing answered: the process of the helper ended at its start. */
static void report_end(pid_t child, bool is_python)
{
	static char message[64] = "the helper ended";
	const char *hint = NULL;
	int status;
	pid_t ended = 0;

	/* Its socket is closed a little earlier. */
	for (int i = 0; i < 100 && ended == 0; i++) {
		ended = waitpid(child, &status, WNOHANG);
		if (ended == 0)
			usleep(1000);
	}
	if (ended == child && WIFSIGNALED(status))
		snprintf(message, sizeof message, "the helper ended (signal %d)",
			WTERMSIG(status));
	else if (ended == child)
		snprintf(message, sizeof message, "the helper ended (status %d)",
			WEXITSTATUS(status));
	/* What Python ends with if it cannot run a program. */
	if (is_python && ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 1)
		hint = "the helper needs Python 3.9 or newer (FSDP_INSPECT_PYTHON)";
	fsdp_remote_reject(current, message, hint);
}

/* The descriptor of this end; -1: it could not be started. */
static int start(char **words, pid_t *ret_child)
{
	const int size = BUFFER_BYTES;
	int ends[2];
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		return -1;
	for (int i = 0; i < 2; i++) {
		setsockopt(ends[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
		setsockopt(ends[i], SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
	}
	*ret_child = child = fork();
	if (child == 0)
		run_helper(ends[1], words);
	close(ends[1]);
	if (child < 0)
		close(ends[0]);
	return child > 0 ? ends[0] : -1;
}

/* Some files stand for their directory, so that is asked for, where a store has any. */
static bool add_root(const char *name, const char *url)
{
	static const char *const ends[] = { "/.metadata", ".distcp", ".index.json" };
	size_t whole = strlen(name), size = strlen(url);

	for (size_t i = 0; i < sizeof ends / sizeof *ends && url_has_directories(url);
		i++)
		if (whole >= strlen(ends[i]) &&
			strcmp(name + whole - strlen(ends[i]), ends[i]) == 0)
			whole = size = (size_t)(strrchr(name, '/') - name);
	char *place = strndup(name, whole), *request = strndup(url, size);
	bool good = place != NULL && request != NULL &&
		    fsdp_remote_add(current, place, request);
	free(place);
	if (request != NULL)
		explicit_bzero(request, strlen(request));
	free(request);
	return good;
}

bool helper_start(const struct inputs *inputs)
{
	const struct fsdp_options *options = &inputs->options;
	const char *own = getenv("FSDP_INSPECT_HELPER");
	char *program, *text;
	int descriptor = -1;
	pid_t child;

	if (inputs->urls.count == 0)
		return true;
	program = own != NULL && *own != '\0' ? realpath(own, NULL) : find_python();
	text = strdup(helper__remote_py);
	if (program != NULL && text != NULL) {
		char isolated[] = "-I", option[] = "-c";
		char *python[] = { program, isolated, option, text, NULL };
		char *named[] = { program, NULL };
		descriptor = start(own != NULL && *own != '\0' ? named : python, &child);
	}
	/* A parser that is taken over has no credentials: the helper has them. */
	static const char *const starts[] = { "AWS_", "AZURE_", "GOOGLE_",
		"HF_TOKEN=", "HUGGING_FACE_", "HTTPS_PROXY=", "https_proxy=",
		"HTTP_PROXY=", "http_proxy=", "ALL_PROXY=", "all_proxy=" };

	for (size_t k = 0; environ[k] != NULL; k++)
		for (size_t j = 0; j < sizeof starts / sizeof *starts; j++) {
			char *value = strchr(environ[k], '=');

			if (value != NULL &&
				strncmp(environ[k], starts[j], strlen(starts[j])) == 0)
				memset(value + 1, '\0', strlen(value + 1));
		}
	/* An end of the helper is an error of what is read. */
	signal(SIGPIPE, SIG_IGN);
	bool good = fsdp_remote_new(
		descriptor, options->limits, options->limit_count, &current, NULL);
	if (good && program == NULL)
		fsdp_remote_reject(current, "no helper: python3 was not found",
			own != NULL || getenv("FSDP_INSPECT_PYTHON") != NULL
				? "FSDP_INSPECT_PYTHON and FSDP_INSPECT_HELPER name programs by absolute paths"
				: "install Python 3.9 or newer, or set FSDP_INSPECT_PYTHON");
	else if (good && descriptor >= 0 && fsdp_remote_failed(current))
		report_end(child, own == NULL || *own == '\0');
	for (size_t i = 0; i < inputs->urls.count && good; i++) {
		char *url; /* a copy that take_url made */

		memcpy(&url, &inputs->urls.items[i], sizeof url);
		good = add_root(inputs->url_names.items[i], url);
		url_clean(url);
	}
	if (good)
		fsdp_remote_seal(current);
	free(program);
	free(text);
	return good;
}

#else

bool helper_start(const struct inputs *inputs)
{
	(void)inputs;
	return true;
}

#endif
