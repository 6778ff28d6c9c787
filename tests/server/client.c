/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands for fsdp-inspect in tests: has the server run the command with the arguments,
 * environment, descriptors, limits and working directory of this process, and ends as
 * the command ended. Starts the server if none listens. Built without sanitizers: a
 * sanitized program takes 33 ms to start, this and a fork of the server 3 ms.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "request.h"

extern char **environ;

static _Noreturn void fail(const char *what)
{
	perror(what);
	_exit(125);
}

static int open_socket(const struct sockaddr_un *address, socklen_t length)
{
	int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connection < 0)
		fail("socket");
	if (connect(connection, (const struct sockaddr *)address, length) == 0)
		return connection;
	close(connection);
	return -1;
}

/* Returns when the server listens, or another does: it closes its end of the pipe then.
 */
static void start_server(void)
{
	int ready[2];
	char byte;
	pid_t child;

	if (pipe2(ready, O_CLOEXEC) != 0)
		fail("pipe");
	child = fork();
	if (child < 0)
		fail("fork");
	if (child == 0) {
		fcntl(ready[1], F_SETFD, 0);
		execl(TEST_SERVER, TEST_SERVER, (char *)NULL);
		fail(TEST_SERVER);
	}
	close(ready[1]);
	while (read(ready[0], &byte, 1) < 0 && errno == EINTR) {
	}
	close(ready[0]);
	waitpid(child, NULL, 0);
}

static int reach_server(void)
{
	struct sockaddr_un address;
	struct stat server;

	if (stat(TEST_SERVER, &server) != 0)
		fail(TEST_SERVER);
	for (int tries = 0; tries < 100; tries++) {
		int connection =
			open_socket(&address, request_address(&address, &server));

		if (connection >= 0)
			return connection;
		start_server();
	}
	fail("no server");
}

static void list_descriptors(struct request *request, int connection)
{
	DIR *folder = opendir("/proc/self/fd");

	if (folder == NULL)
		fail("/proc/self/fd");
	for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
		int number = atoi(entry->d_name);

		if (entry->d_name[0] == '.' || number == dirfd(folder) ||
			number == connection)
			continue;
		if (request->descriptors == REQUEST_DESCRIPTORS)
			break;
		request->numbers[request->descriptors++] = number;
	}
	closedir(folder);
}

static void describe_process(struct request *request)
{
	mode_t mask = umask(0);

	umask(mask);
	request->umask = mask;
	for (int number = 1; number < 32; number++) {
		struct sigaction action;

		if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
			request->ignored |= (uint64_t)1 << (number - 1);
	}
	for (int limit = 0; limit < REQUEST_LIMITS; limit++)
		getrlimit((__rlimit_resource_t)limit, &request->limits[limit]);
}

static uint32_t append_strings(char **strings, FILE *text)
{
	uint32_t count = 0;

	for (; strings[count] != NULL; count++)
		fwrite(strings[count], 1, strlen(strings[count]) + 1, text);
	return count;
}

static void send_request(int connection, struct request *request)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE((REQUEST_DESCRIPTORS + 1) * sizeof(int))];
	} control = { 0 };
	struct iovec part = { request, sizeof *request };
	struct msghdr message = { .msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE((request->descriptors + 1) * sizeof(int)) };
	int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (here < 0)
		fail(".");
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN((request->descriptors + 1) * sizeof(int));
	memcpy(CMSG_DATA(&control.header), &here, sizeof here);
	memcpy(CMSG_DATA(&control.header) + sizeof here, request->numbers,
		request->descriptors * sizeof(int));
	if (sendmsg(connection, &message, MSG_NOSIGNAL) != (ssize_t)sizeof *request)
		fail("sendmsg");
}

static void send_text(int connection, const char *text, size_t length)
{
	while (length > 0) {
		ssize_t sent = send(connection, text, length, MSG_NOSIGNAL);

		if (sent < 0)
			fail("send");
		text += sent;
		length -= (size_t)sent;
	}
}

int main(int argc, char **argv)
{
	struct request request = { 0 };
	int connection = reach_server(), status, number;
	char *bytes = NULL;
	size_t length = 0;
	FILE *text = open_memstream(&bytes, &length);

	(void)argc;
	if (text == NULL)
		fail("memory");
	describe_process(&request);
	list_descriptors(&request, connection);
	request.arguments = append_strings(argv, text);
	request.variables = append_strings(environ, text);
	if (fclose(text) != 0 || length > UINT32_MAX)
		fail("memory");
	request.text_bytes = (uint32_t)length;
	send_request(connection, &request);
	send_text(connection, bytes, length);
	/* The reader of a pipe must see its end when the command closes it. */
	for (number = 0; (uint32_t)number < request.descriptors; number++)
		close(request.numbers[number]);
	if (recv(connection, &status, sizeof status, MSG_WAITALL) !=
		(ssize_t)sizeof status)
		_exit(125);
	if (WIFEXITED(status))
		_exit(WEXITSTATUS(status));
	signal(WTERMSIG(status), SIG_DFL);
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	raise(WTERMSIG(status));
	_exit(128 + WTERMSIG(status));
}
