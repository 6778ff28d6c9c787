/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the forms of URLs that can be read. The helper resolves their paths.
 */
#include "args/input.h"

#include <string.h>

#ifdef WITH_REMOTE
static const char *const schemes[] = { "s3://", "gs://", "az://", "abfss://", "hf://",
	"https://", "http://", NULL };
#else
static const char *const schemes[] = { NULL };
#endif

static bool begins(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

bool url_is(const char *text)
{
	for (size_t i = 0; schemes[i] != NULL; i++)
		if (begins(text, schemes[i]))
			return true;
	return false;
}

const char *url_local(const char *text)
{
	static const char *const starts[] = { "file://", "file://localhost" };

	for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
		if (begins(text, starts[i]) && text[strlen(starts[i])] == '/')
			return text + strlen(starts[i]);
	return text;
}

static bool is_loopback(const char *host, size_t size)
{
	static const char *const names[] = { "localhost", "127.0.0.1", "[::1]" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (size == strlen(names[i]) && memcmp(host, names[i], size) == 0)
			return true;
	return false;
}

/* The parts after the host or bucket: none may be empty, "." or "..". */
static bool has_dot_part(const char *path)
{
	while (*path == '/') {
		size_t size = strcspn(path + 1, "/?#");

		if ((size == 0 && path[1] == '/') || (size == 1 && path[1] == '.') ||
			(size == 2 && path[1] == '.' && path[2] == '.'))
			return true;
		path += 1 + size;
	}
	return false;
}

bool url_has_directories(const char *url)
{
	return !begins(url, "http") || begins(url, "https://huggingface.co/");
}

void url_check(struct usage *usage, const char *command, const char *url)
{
	static const char example[] = "example: s3://BUCKET/PREFIX or hf://ORG/NAME";
	const char *host = strstr(url, "://") + 3;
	size_t size = strcspn(host, "/?#");
	size_t port = size;
	size_t path_size = strcspn(host, "?#");
	bool is_http = begins(url, "http");
	int shown = (int)((size_t)(host - url) + path_size);

	if (size == 0)
		usage_refuse(usage, example, "%.*s: the URL has no bucket or host", shown,
			url);
	if (is_http && memchr(host, '@', size) != NULL)
		usage_refuse(usage,
			"FSDP_INSPECT_HTTP_HEADER_FILE=FILE names a file with lines of headers",
			"URLs with a user name or password are not supported");
	if (has_dot_part(host + size))
		usage_refuse(usage, example,
			"%.*s: a part of the URL is empty, \".\" or \"..\"", shown, url);
	if (begins(url, "hf://datasets/") || begins(url, "hf://spaces/"))
		usage_refuse(usage, example,
			"%.*s: only model repositories are supported", shown, url);
	if (!url_has_directories(url) &&
		(path_size == size || host[path_size - 1] == '/'))
		usage_refuse(usage, "name a file, or use s3://, gs://, az:// or hf://",
			"%.*s: HTTP has no directories", shown, url);
	while (port > 0 && host[port - 1] >= '0' && host[port - 1] <= '9')
		port--;
	port = port > 0 && host[port - 1] == ':' ? port - 1 : size;
	if (!begins(url, "http://") || is_loopback(host, port))
		return;
	usage_hint(usage, "fsdp-inspect %s https%.*s", command,
		shown - (int)strlen("http"), url + strlen("http"));
	usage_refuse(usage, NULL, "%.*s: http:// is accepted only for this machine",
		shown, url);
}

void url_clean(char *url)
{
	char *host = strstr(url, "://") + 3;
	bool is_http = begins(url, "http");
	char *query = is_http ? strpbrk(host, "?#") : NULL;

	if (query != NULL)
		memset(query, '\0', strlen(query));
	for (size_t size = strlen(host); size > 0 && host[size - 1] == '/'; size--)
		host[size - 1] = '\0';
}
