/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides about colour, width and characters: by options, environment, terminal, locale,
 * in this order.
 */
#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "args/input.h"
#include "session/style.h"

static bool is_set(const char *variable)
{
	const char *value = getenv(variable);

	return value != NULL && *value != '\0';
}

static bool is_on(const char *variable)
{
	return is_set(variable) && strcmp(getenv(variable), "0") != 0;
}

static bool wants_color(const struct common_options *common, bool terminal)
{
	if (common->no_color)
		return false;
	if (common->color != NULL && strcmp(common->color, "auto") != 0)
		return strcmp(common->color, "always") == 0;
	if (is_set("NO_COLOR"))
		return false;
	if (is_on("FORCE_COLOR") || is_on("CLICOLOR_FORCE"))
		return true;
	if (is_set("CLICOLOR") && !is_on("CLICOLOR"))
		return false;
	return terminal && is_set("TERM") && strcmp(getenv("TERM"), "dumb") != 0;
}

/* 0: none. A pipe has no width, so nothing is ever shortened in it. */
static int width_of_text(
	const struct common_options *common, int descriptor, bool terminal)
{
	struct winsize size;
	int64_t width;

	if (common->width != NULL)
		return option_integer(common->width, 20, 100000, &width) ? (int)width : 0;
	if (!terminal)
		return 0;
	if (is_set("COLUMNS") && option_integer(getenv("COLUMNS"), 20, 100000, &width))
		return (int)width;
	if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20)
		return size.ws_col;
	return 80;
}

/* The name of the locale says what the terminal shows, also after a login from another
 * machine, whose locale this one does not have. */
bool locale_says_utf8(void)
{
	const char *name = is_set("LC_ALL")     ? getenv("LC_ALL")
			   : is_set("LC_CTYPE") ? getenv("LC_CTYPE")
			   : is_set("LANG")     ? getenv("LANG")
						: "";

	return strcasestr(name, ".UTF-8") != NULL || strcasestr(name, ".utf8") != NULL;
}

struct looks looks_for(
	const struct common_options *common, int descriptor, bool for_program)
{
	bool terminal = isatty(descriptor) == 1;
	bool utf8 = locale_says_utf8() || strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	int verbosity = common->verbose - common->quiet;

	return (struct looks){
		.width = width_of_text(common, descriptor, terminal),
		.color = wants_color(common, terminal),
		.ascii = common->ascii || !utf8,
		.seven_bits = !utf8 && (terminal || !for_program),
		.sizes = common->bytes ? HUMAN_EXACT
			 : common->si  ? HUMAN_DECIMAL
				       : HUMAN_BINARY,
		.null_names = common->null,
		.name_bytes = (size_t)input_limit(&common->limits, "name-bytes"),
		.verbosity = verbosity,
	};
}
