/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments, host and time of this run.
 */
#include "session/provenance.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

bool provenance_take(struct provenance_source *source, char *const *words)
{
	char date[DATE_SIZE];
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
	date_put(date, time(NULL), 'T');
	if (date[0] != '\0')
		snprintf(source->started, sizeof source->started, "%sZ", date);
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
