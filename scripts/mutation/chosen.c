/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which mutant runs: the number in CHOSEN_FILE, read before main begins, so that neither a sandbox nor an empty
 * environment keeps it from being seen. 0, or no file: none.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "chosen.h"

int fsdp_chosen;

__attribute__((constructor)) static void begin(void)
{
	char digits[16] = "";
	int fd = open(CHOSEN_FILE, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (read(fd, digits, sizeof digits - 1) > 0)
		fsdp_chosen = atoi(digits);
	close(fd);
}
