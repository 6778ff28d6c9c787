/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the process that reads URLs: a program in Python that is built into this one, or
 * what FSDP_INSPECT_HELPER names. It has one end of a pair of sockets as its descriptor
 * 3.
 */
#include "session/session.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
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

/* What a variable of the environment says; NULL: nothing. */
static const char *named_by(const char *variable)
{
	const char *value = getenv(variable);

	return value != NULL && *value != '\0' ? value : NULL;
}

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
	const char *named = named_by("FSDP_INSPECT_PYTHON");
	const char *folders = getenv("PATH");
	char *path = NULL, own[PATH_MAX];
	ssize_t size = readlink("/proc/self/exe", own, sizeof own);

	if (named != NULL)
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

static struct {
	pid_t process; /* 0: no program was found, -1: it could not be started */
	int errors;    /* what Python writes before it reads a URL; -1: another program */
	char *download; /* a command that makes a local copy */
} helper = { .errors = -1 };

/* Never returns. What it writes may hold a URL with its query, so it goes nowhere; the
 * embedded program closes `errors` before it reads one. */
static void run_helper(int socket, int errors, char **words)
{
	size_t kept = 0;
	int null = open("/dev/null", O_RDWR);
	bool good = dup2(null, 0) == 0 && dup2(null, 1) == 1 &&
		    dup2(errors >= 0 ? errors : null, 2) == 2;

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

/* The last line that Python wrote at its start, in printable characters. */
static const char *read_errors(void)
{
	static char text[4096];
	ssize_t size = read(helper.errors, text, sizeof text - 1);

	while (size > 0 && text[size - 1] == '\n')
		size--;
	for (ssize_t i = 0; i < size; i++)
		if (text[i] != '\n' && (text[i] < ' ' || text[i] > '~'))
			text[i] = '?';
	text[size > 0 ? size : 0] = '\0';
	return strrchr(text, '\n') != NULL ? strrchr(text, '\n') + 1 : text;
}

static const char *explain_end(const char **ret_hint)
{
	static char message[256] = "the helper ended", hint[1024];
	bool is_named =
		named_by("FSDP_INSPECT_PYTHON") || named_by("FSDP_INSPECT_HELPER");
	const char *error, *download = helper.download;
	int status;
	pid_t ended = 0;

	if (helper.process == 0) {
		snprintf(hint, sizeof hint, "install Python 3.9 or newer%s%s",
			download != NULL ? "; without it: " : "",
			download != NULL ? download : "");
		*ret_hint =
			is_named
				? "FSDP_INSPECT_PYTHON and FSDP_INSPECT_HELPER name programs by absolute paths"
				: hint;
		return "no helper: python3 was not found";
	}
	/* Its socket is closed a little earlier. */
	for (int i = 0; i < 100 && ended == 0; i++) {
		ended = waitpid(helper.process, &status, WNOHANG);
		if (ended == 0)
			(void)poll(NULL, 0, 1);
	}
	if (ended <= 0)
		return message;
	error = read_errors();
	snprintf(message, sizeof message, "the helper ended (%s %d)%s%.200s",
		WIFSIGNALED(status) ? "signal" : "status",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
		*error != '\0' ? ": " : "", error);
	/* What Python ends with if it cannot run a program. */
	if (helper.errors >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 1)
		*ret_hint =
			"FSDP_INSPECT_PYTHON=PATH chooses another Python (3.9 or newer)";
	return message;
}

/* The descriptor of this end; -1: it could not be started. */
static int start(char **words, bool is_python)
{
	const int size = BUFFER_BYTES;
	int ends[2], errors[2] = { -1, -1 };

	helper.process = -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		return -1;
	for (int i = 0; i < 2; i++) {
		setsockopt(ends[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
		setsockopt(ends[i], SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
	}
	if (is_python && pipe2(errors, O_CLOEXEC | O_NONBLOCK) == 0)
		helper.errors = errors[0];
	helper.process = fork();
	if (helper.process == 0)
		run_helper(ends[1], errors[1], words);
	close(ends[1]);
	if (errors[1] >= 0)
		close(errors[1]);
	if (helper.process < 0)
		close(ends[0]);
	return helper.process > 0 ? ends[0] : -1;
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
	const char *own = named_by("FSDP_INSPECT_HELPER");
	char *program, *text;
	int descriptor = -1;

	if (inputs->urls.count == 0)
		return true;
	program = own == NULL ? find_python() : realpath(own, NULL);
	text = strdup(helper__remote_py);
	if (program != NULL && text != NULL) {
		char isolated[] = "-I", option[] = "-c";
		char *python[] = { program, isolated, option, text, NULL };
		char *named[] = { program, NULL };
		descriptor = start(own == NULL ? python : named, own == NULL);
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
	helper.download = download_command(inputs->url_names.items[0]);
	bool good = fsdp_remote_new(descriptor, options->limits, options->limit_count,
		explain_end, &current, NULL);
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
