/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments, host and time of this run.
 */
#include "run/provenance.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

bool provenance_take(struct provenance_source *source, char *const *words)
{
	time_t now = time(NULL);
	struct tm parts;
	size_t count = 0;

	while (words[count] != NULL)
		count++;
	source->arguments = calloc(count + 1, sizeof *source->arguments);
	if (source->arguments == NULL)
		return false;
	for (size_t i = 0; i < count; i++)
		source->arguments[i] = text_of(words[i]);
	/* A longer name is cut, and may lack its end. */
	if (gethostname(source->host, sizeof source->host - 1) != 0)
		source->host[0] = '\0';
	if (gmtime_r(&now, &parts) == NULL ||
		strftime(source->started, sizeof source->started, "%Y-%m-%dT%H:%M:%SZ",
			&parts) == 0)
		source->started[0] = '\0';
	source->shown = (struct provenance){
		.arguments = source->arguments,
		.argument_count = count,
		.host = text_of(source->host),
		.started = text_of(source->started),
	};
	return true;
}

void provenance_done(struct provenance_source *source)
{
	free(source->arguments);
}
