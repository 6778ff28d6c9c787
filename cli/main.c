/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts and ends the process; the table of commands.
 */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fsdp/error.h>

#include "args/parse.h"
#include "session/diagnostics.h"
#include "session/session.h"
#include "session/session-private.h"

extern const struct command command_info, command_tree, command_audit, command_latest,
	command_ls, command_show, command_fqns, command_flat, command_diff,
	command_reshard, command_hash, command_stats, command_merge, command_report,
	command_export, command_pickle, command_order, command_replay, command_help,
	command_version, command_commands, command_schema, command_rules,
	command_completion;

/* In the order of the overview. */
static const struct command *const commands[] = { &command_info, &command_tree,
	&command_audit, &command_latest, &command_ls, &command_show, &command_fqns,
	&command_flat, &command_diff, &command_reshard, &command_hash, &command_stats,
	&command_merge, &command_report, &command_export, &command_pickle, &command_order,
	&command_replay, &command_help, &command_version, &command_commands,
	&command_schema, &command_rules, &command_completion, NULL };

/*
 * libarchive ends the process when it runs out of memory, with the status of a bad
 * answer. Only main closes stdout; so who exits before that is a library that gave up.
 */
static void correct_status(int status, void *unused)
{
	(void)status;
	(void)unused;
	if (fcntl(STDOUT_FILENO, F_GETFD) == -1)
		return;
	temporary_abandon_all();
	_exit(STATUS_FAILED);
}

static void prepare_process(void)
{
	static char line[16 << 10];
	const struct rlimit none = { 0, 0 };

	/*
	 * A descriptor that was closed would be given to the first file opened, and
	 * messages would go there. The replacements fail when used: what cannot be
	 * written must not be lost in silence.
	 */
	for (int descriptor = 0; descriptor <= 2; descriptor++) {
		if (fcntl(descriptor, F_GETFD) == -1 && errno == EBADF)
			open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY);
	}
	/* A reader that has seen enough ends us quietly, whatever our parent thinks. */
	signal(SIGPIPE, SIG_DFL);
	/* Only to learn whether it is UTF-8; its tables take longer to load than a small
	 * file to read. */
	if (!locale_is_utf8())
		setlocale(LC_CTYPE, "");
	/* A line is one write: several processes may share a log. */
	setvbuf(stderr, line, _IOLBF, sizeof line);
	progress_listen();
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	setrlimit(RLIMIT_CORE, &none);
	on_exit(correct_status, NULL);
}

static int collect_and_run(
	struct arguments *arguments, struct outputs *outputs, struct usage *usage)
{
	struct looks looks = looks_for(&arguments->common, STDERR_FILENO, false);
	struct inputs *inputs = memory_new(1, sizeof *inputs);

	inputs_collect(inputs, arguments, usage);
	inputs->options.belongs = outputs_keep;
	inputs->options.belongs_context = outputs;
	if (!helper_start(inputs))
		memory_fail();
	inputs->options.remote = helper_remote();
	inputs_list_remote(inputs, arguments, usage);
	launcher_part(arguments->command, &arguments->common, usage);
	outputs_choose(
		outputs, arguments->command, &arguments->common, &inputs->paths, usage);
	usage->hint[0] = '\0';
	outputs_open(outputs, arguments, &inputs->paths, usage);
	/* Files are to be finished even if stdout is closed. */
	if (outputs_have_files(outputs))
		signal(SIGPIPE, SIG_IGN);
	int status = session_run(arguments, inputs, outputs, &looks);
	if (outputs->page != NULL && status != STATUS_FAILED)
		message_note(&looks, memory_format("wrote %s", outputs->page));
	return status;
}

static int act(int argc, char **argv, struct arguments *arguments,
	struct outputs *outputs, struct usage *usage)
{
	switch (arguments_read(argc, argv, arguments, usage)) {
	case ARGUMENTS_RUN:
		return collect_and_run(arguments, outputs, usage);
	case ARGUMENTS_HELP:
		if (arguments->command != NULL)
			help_command(stdout, arguments->command);
		else
			help_overview(stdout, commands);
		return STATUS_GOOD;
	case ARGUMENTS_VERSION:
		printf("fsdp-inspect %s\n", fsdp_version());
		return STATUS_GOOD;
	case ARGUMENTS_NONE:
		help_overview(stderr, commands);
		break;
	}
	return STATUS_FAILED;
}

/* Where all ends that cannot continue. */
static int run(int argc, char **argv, struct arguments *arguments,
	struct outputs *outputs, struct usage *usage)
{
	jmp_buf end;
	struct looks looks;

	memory_escape(&end);
	usage->end = &end;
	switch (setjmp(end)) {
	case 0:
		return act(argc, argv, arguments, outputs, usage);
	case ESCAPE_USAGE:
		looks = looks_for(&arguments->common, STDERR_FILENO, false);
		write_usage_error(stdout, arguments->typed, arguments->command, usage);
		message_usage(&looks, usage);
		return STATUS_FAILED;
	default:
		message_out_of_memory();
		return STATUS_FAILED;
	}
}

int main(int argc, char **argv)
{
	struct arguments arguments = { .commands = commands, .typed = argv + 1 };
	struct outputs outputs = { 0 };
	struct usage usage = { "" };
	int error = 0;

	prepare_process();
	if (argc == 0)
		arguments.typed = argv;
	int status = run(argc, argv, &arguments, &outputs, &usage);
	outputs_done(&outputs);
	helper_end();
	temporary_abandon_all();
	memory_free_all();
	if (outputs.interrupted != 0) {
		fflush(stdout);
		temporary_die(outputs.interrupted);
	}
	if (outputs.broken_pipe)
		temporary_die(SIGPIPE);
	/* stdout is complete only once it is closed. */
	errno = 0;
	if (ferror(stdout) || fflush(stdout) != 0)
		error = errno != 0 ? errno : EIO;
	if (fclose(stdout) != 0 && error == 0)
		error = errno;
	if (error == 0 || error == EPIPE)
		return status;
	if (status != STATUS_FAILED)
		fprintf(stderr, "error: standard output: %s\n", strerror(error));
	return STATUS_FAILED;
}
