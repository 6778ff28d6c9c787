/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command and its sanitizers, started once: each client is served by a fork, which
 * takes over what the client would have inherited and calls the main() of the command
 * (here command_main). Ends when nobody has asked for a while.
 *
 * Started by client.c, which waits until all descriptors that it handed on are closed.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sanitizer/lsan_interface.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "request.h"

int command_main(int argc, char **argv);
/* The libraries of the sanitizers find only what is visible. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

enum { RUNNING_MAX = 256, IDLE_MS = 20000 };

static struct running {
	pid_t process;
	int connection;
} running[RUNNING_MAX];

/* A report must not look like a status of the command. Where memory was taken is half of
 * the work of taking it; two callers are what the search for leaks needs. Undefined
 * behaviour is an illegal instruction (build-dev.ini). */
const char *__asan_default_options(void)
{
	return "exitcode=99:detect_leaks=1:malloc_context_size=2:handle_sigill=1";
}

/* Asked at the end of the process: half of what a short run costs. */
int __lsan_is_turned_off(void)
{
	const char *options = getenv("ASAN_OPTIONS");

	return options != NULL && strstr(options, "detect_leaks=0") != NULL;
}

static _Noreturn void fail(const char *what)
{
	perror(what);
	_exit(125);
}

static void receive_all(int connection, void *bytes, size_t length)
{
	if (recv(connection, bytes, length, MSG_WAITALL) != (ssize_t)length)
		fail("receiving a request");
}

/* The descriptors of the client, the first of which is its working directory. */
static void receive_request(
	int connection, struct request *request, int sent[static REQUEST_DESCRIPTORS + 1])
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE((REQUEST_DESCRIPTORS + 1) * sizeof(int))];
	} control;
	struct iovec part = { request, sizeof *request };
	struct msghdr message = { .msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof control };
	ssize_t length = recvmsg(connection, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC);

	if (length != (ssize_t)sizeof *request ||
		request->descriptors > REQUEST_DESCRIPTORS ||
		message.msg_controllen <
			CMSG_LEN((request->descriptors + 1) * sizeof(int)))
		fail("receiving a request");
	memcpy(sent, CMSG_DATA(&control.header),
		(request->descriptors + 1) * sizeof(int));
}

/* Moved above all numbers that are asked for, then down to those. */
static void place_descriptors(const struct request *request, const int *sent)
{
	int high[REQUEST_DESCRIPTORS];
	int first = 3;

	for (uint32_t i = 0; i < request->descriptors; i++)
		first = request->numbers[i] >= first ? request->numbers[i] + 1 : first;
	for (uint32_t i = 0; i < request->descriptors; i++)
		high[i] = fcntl(sent[i], F_DUPFD_CLOEXEC, first);
	for (int number = 0; number < 3; number++)
		close(number);
	for (uint32_t i = 0; i < request->descriptors; i++) {
		if (dup2(high[i], request->numbers[i]) < 0)
			_exit(125);
		close(high[i]);
	}
}

static char **split(char **text, uint32_t count)
{
	char **strings = calloc((size_t)count + 1, sizeof *strings);

	if (strings == NULL)
		fail("memory");
	for (uint32_t i = 0; i < count; i++) {
		strings[i] = *text;
		*text += strlen(*text) + 1;
	}
	return strings;
}

/* Kept reachable for the leak checker. */
static char *text_start, **argument_strings, **variable_strings;

/* For the tests that leaks and undefined behaviour are found. Several: one may be left in
 * a register. */
static void err(void)
{
	volatile int most = INT_MAX;
	char *volatile taken = NULL;

	for (int i = 0; getenv("TEST_SERVER_LEAKS") != NULL && i < 16; i++)
		taken = malloc(1);
	(void)taken;
	if (getenv("TEST_SERVER_OVERFLOWS") != NULL)
		most++;
}

/* By AddressSanitizer, with the place. */
static bool is_reported(int number)
{
	return number == SIGILL || number == SIGSEGV || number == SIGBUS ||
	       number == SIGFPE;
}

static _Noreturn void serve(int connection)
{
	struct request request;
	int sent[REQUEST_DESCRIPTORS + 1];
	sigset_t none;
	char *text;
	int status;

	receive_request(connection, &request, sent);
	text = text_start = calloc((size_t)request.text_bytes + 1, 1);
	if (text == NULL)
		fail("memory");
	receive_all(connection, text, request.text_bytes);
	argument_strings = split(&text, request.arguments);
	variable_strings = split(&text, request.variables);
	clearenv();
	for (char **variable = variable_strings; *variable != NULL; variable++)
		putenv(*variable);
	if (fchdir(sent[0]) != 0)
		fail("working directory");
	umask((mode_t)request.umask);
	for (int number = 1; number < 32; number++) {
		bool is_ignored = request.ignored >> (number - 1) & 1;

		if (is_ignored || !is_reported(number))
			signal(number, is_ignored ? SIG_IGN : SIG_DFL);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* A client that was killed closes the connection; its command ends as it did. */
	fcntl(connection, F_SETOWN, getpid());
	fcntl(connection, F_SETSIG, SIGKILL);
	fcntl(connection, F_SETFL, O_ASYNC);
	for (int limit = 0; limit < REQUEST_LIMITS; limit++)
		setrlimit((__rlimit_resource_t)limit, &request.limits[limit]);
	place_descriptors(&request, sent + 1);
	status = command_main((int)request.arguments, argument_strings);
	fflush(NULL);
	err();
	/* What exit() would do of use. The sanitizers would give up each global, one
	 * after the other, which takes longer than a short command. */
	if (!__lsan_is_turned_off())
		__lsan_do_leak_check();
	_exit(status);
}

static void start(int listener)
{
	int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	struct running *free_row = running;
	pid_t process;

	if (connection < 0)
		return;
	while (free_row->process != 0)
		free_row++;
	process = fork();
	if (process == 0) {
		for (struct running *row = running; row < running + RUNNING_MAX; row++) {
			if (row->process != 0)
				close(row->connection);
		}
		close(listener);
		serve(connection);
	}
	if (process > 0)
		*free_row = (struct running){ process, connection };
	else
		close(connection);
}

static void finish_ended(void)
{
	int status;

	for (pid_t process; (process = waitpid(-1, &status, WNOHANG)) > 0;) {
		for (struct running *row = running; row < running + RUNNING_MAX; row++) {
			if (row->process != process)
				continue;
			send(row->connection, &status, sizeof status, MSG_NOSIGNAL);
			close(row->connection);
			row->process = 0;
		}
	}
}

static size_t count_running(void)
{
	size_t count = 0;

	for (struct running *row = running; row < running + RUNNING_MAX; row++)
		count += row->process != 0;
	return count;
}

/* The client's standard streams belong to its test, which waits for their end. */
static void leave_client(int listener)
{
	int null = open("/dev/null", O_RDWR);

	for (int number = 0; number < 3; number++)
		dup2(null, number);
	for (int number = 3; number < 1024; number++) {
		if (number != listener)
			close(number);
	}
	setsid();
	if (chdir("/") != 0)
		_exit(125);
}

/* What the first client asks of the sanitizers would hold for all, and its leaks=0 for
 * good. */
static void start_without_options(char **arguments)
{
	if (getenv("ASAN_OPTIONS") == NULL && getenv("LSAN_OPTIONS") == NULL)
		return;
	unsetenv("ASAN_OPTIONS");
	unsetenv("LSAN_OPTIONS");
	execv("/proc/self/exe", arguments);
	fail("starting the server");
}

int main(int argc, char **argv)
{
	struct sockaddr_un address;
	struct stat self;
	struct pollfd wanted[2] = { { .events = POLLIN }, { .events = POLLIN } };
	socklen_t length;
	sigset_t ended;

	(void)argc;
	start_without_options(argv);
	if (stat("/proc/self/exe", &self) != 0)
		return 125;
	wanted[0].fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	length = request_address(&address, &self);
	if (bind(wanted[0].fd, (struct sockaddr *)&address, length) != 0 ||
		listen(wanted[0].fd, RUNNING_MAX) != 0)
		return 0;
	if (fork() != 0)
		_exit(0);
	leave_client(wanted[0].fd);
	sigemptyset(&ended);
	sigaddset(&ended, SIGCHLD);
	sigprocmask(SIG_BLOCK, &ended, NULL);
	wanted[1].fd = signalfd(-1, &ended, SFD_CLOEXEC | SFD_NONBLOCK);
	for (;;) {
		struct signalfd_siginfo news;
		size_t served = count_running();

		/* With no free row new clients wait in the queue of the socket. */
		wanted[0].events = served < RUNNING_MAX ? POLLIN : 0;
		if (poll(wanted, 2, served == 0 ? IDLE_MS : -1) == 0)
			return 0;
		while (read(wanted[1].fd, &news, sizeof news) > 0) {
		}
		finish_ended();
		if (wanted[0].revents & POLLIN)
			start(wanted[0].fd);
	}
}
