/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills the terminal with rows of text, and reads keys.
 *
 * Of ncurses only terminfo is used. Its windows would take signals, memory and the size of
 * the screen into their own hands, and endwin() may not be called in a signal handler: to
 * give the terminal back takes a write and a tcsetattr, which may.
 */
#include "run/terminal.h"

#ifdef WITH_TERMINAL

#include <curses.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <term.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum {
	INPUT_ROOM = 64,
	LEAVE_ROOM = 256,
	ESCAPE_MS = 50, /* within which the rest of a key's sequence comes */
	ROWS_MOST = 4096,
};

struct row {
	char *data;
	size_t size, room;
	enum terminal_style style;
	bool shown;
};

static struct {
	volatile sig_atomic_t is_open;
	volatile sig_atomic_t resized, stopped;
	struct termios before;
	sigset_t mask;          /* of the signals outside of terminal_key */
	char leave[LEAVE_ROOM]; /* what gives the screen back; for handlers */
	size_t leave_size;

	struct row *rows;
	int row_count;

	char *out; /* of one frame: written at once */
	size_t out_size, out_room;

	unsigned char input[INPUT_ROOM];
	size_t input_size;
} terminal;

static const int deadly[] = { SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGABRT, SIGBUS, SIGFPE,
	SIGSEGV, SIGPIPE, SIGALRM, SIGTERM, SIGXCPU, SIGXFSZ, SIGSYS };

#define COUNT(list) (sizeof(list) / sizeof *(list))

bool terminal_built(void)
{
	return true;
}

/* ---- output ---- */

/* Gives up at the first error: the terminal is gone. Async-signal-safe. */
static void write_all(const char *data, size_t size)
{
	while (size > 0) {
		ssize_t written = write(STDOUT_FILENO, data, size);

		if (written < 0 && errno != EINTR)
			return;
		data += written > 0 ? written : 0;
		size -= written > 0 ? (size_t)written : 0;
	}
}

static void put(const char *data, size_t size)
{
	char *out = terminal.out;

	if (terminal.out_room - terminal.out_size < size) {
		size_t room = 2 * (terminal.out_size + size) + 4096;

		out = realloc(out, room);
		if (out == NULL) {
			/* What is there leaves earlier. */
			write_all(terminal.out, terminal.out_size);
			write_all(data, size);
			terminal.out_size = 0;
			return;
		}
		terminal.out = out;
		terminal.out_room = room;
	}
	if (size > 0)
		memcpy(out + terminal.out_size, data, size);
	terminal.out_size += size;
}

static int put_byte(int byte)
{
	const char c = (char)byte;

	put(&c, 1);
	return byte;
}

static void flush(void)
{
	write_all(terminal.out, terminal.out_size);
	terminal.out_size = 0;
}

/* NULL: the terminal lacks it. */
static void put_capability(const char *string)
{
	if (string != NULL && string != (const char *)-1)
		tputs(string, 1, put_byte);
}

static int put_leaving(int byte)
{
	if (terminal.leave_size < LEAVE_ROOM)
		terminal.leave[terminal.leave_size++] = (char)byte;
	return byte;
}

static void add_leaving(const char *string)
{
	if (string != NULL && string != (const char *)-1)
		tputs(string, 1, put_leaving);
}

/* ---- beginning and end ---- */

const char *terminal_claim(void)
{
	int result;

	if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1)
		return "needs a terminal for its input and its output";
	if (setupterm(NULL, STDOUT_FILENO, &result) != OK)
		return result == 0 ? "does not know the type of terminal that TERM names"
				   : "found no terminfo database";
	if (cursor_address == NULL || clear_screen == NULL)
		return "needs a terminal whose cursor can be moved";
	terminal.leave_size = 0;
	add_leaving(exit_attribute_mode);
	add_leaving(keypad_local);
	add_leaving(enter_am_mode);
	add_leaving(cursor_normal);
	if (exit_ca_mode != NULL)
		add_leaving(exit_ca_mode);
	else
		add_leaving(clear_screen);
	return NULL;
}

/* Async-signal-safe. */
static void leave(void)
{
	int error = errno;

	if (terminal.is_open) {
		terminal.is_open = 0;
		write_all(terminal.leave, terminal.leave_size);
		tcsetattr(STDIN_FILENO, TCSANOW, &terminal.before);
	}
	errno = error;
}

static void die(int signal_number)
{
	sigset_t set;

	leave();
	signal(signal_number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, signal_number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(signal_number);
}

static void note_size(int signal_number)
{
	(void)signal_number;
	terminal.resized = 1;
}

static void note_stop(int signal_number)
{
	(void)signal_number;
	terminal.stopped = 1;
}

/* Signals that are ignored or have a handler already are left alone. */
static void handle(int signal_number, void (*handler)(int))
{
	struct sigaction action = { .sa_handler = handler }, before;

	sigemptyset(&action.sa_mask);
	if (sigaction(signal_number, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
		sigaction(signal_number, &action, NULL);
}

/* Ctrl-C and Ctrl-Z are signals as ever; all else is read byte by byte. */
static bool set_modes(void)
{
	struct termios modes;

	if (tcgetattr(STDIN_FILENO, &terminal.before) != 0)
		return false;
	modes = terminal.before;
	modes.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ECHONL | IEXTEN);
	modes.c_iflag &= ~(tcflag_t)(IXON | ICRNL | INLCR | IGNCR);
	modes.c_cc[VMIN] = 0;
	modes.c_cc[VTIME] = 0;
	terminal.is_open = 1;
	if (tcsetattr(STDIN_FILENO, TCSANOW, &modes) == 0)
		return true;
	terminal.is_open = 0;
	return false;
}

static bool enter(void)
{
	if (!set_modes())
		return false;
	put_capability(enter_ca_mode);
	put_capability(exit_am_mode);
	put_capability(keypad_xmit);
	put_capability(cursor_invisible);
	terminal_redraw();
	return true;
}

/* Signals that only set a flag are delivered while ppoll waits: one that came between the
 * test of its flag and the wait would take effect a key later. */
bool terminal_open(void)
{
	sigset_t noted;

	for (size_t i = 0; i < COUNT(deadly); i++)
		handle(deadly[i], die);
	sigemptyset(&noted);
	sigaddset(&noted, SIGTSTP);
	sigaddset(&noted, SIGWINCH);
	sigaddset(&noted, SIGCONT);
	sigprocmask(SIG_BLOCK, &noted, &terminal.mask);
	handle(SIGTSTP, note_stop);
	handle(SIGWINCH, note_size);
	handle(SIGCONT, note_size);
	return enter();
}

static void forget_rows(void)
{
	for (int i = 0; i < terminal.row_count; i++)
		free(terminal.rows[i].data);
	free(terminal.rows);
	terminal.rows = NULL;
	terminal.row_count = 0;
}

void terminal_close(void)
{
	if (terminal.is_open)
		sigprocmask(SIG_SETMASK, &terminal.mask, NULL);
	leave();
	forget_rows();
	free(terminal.out);
	terminal.out = NULL;
	terminal.out_size = terminal.out_room = 0;
	/* Terminfo stays: where memory ended before, ncurses 6.4 crashes freeing it. */
}

/* Stops the process where a shell can go on with it. */
static void stop(void)
{
	sigset_t set, before;

	terminal.stopped = 0;
	leave();
	signal(SIGTSTP, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &set, &before);
	raise(SIGTSTP);
	sigprocmask(SIG_SETMASK, &before, NULL);
	handle(SIGTSTP, note_stop);
	enter();
}

/* ---- rows ---- */

struct terminal_size terminal_size(void)
{
	struct terminal_size size = { 24, 80 };
	struct winsize told;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &told) == 0 && told.ws_row > 0 &&
		told.ws_col > 0)
		size = (struct terminal_size){ told.ws_row, told.ws_col };
	if (size.rows > ROWS_MOST)
		size.rows = ROWS_MOST;
	return size;
}

/* False: out of memory, or it is beyond all screens. */
static bool have_row(int row)
{
	struct row *rows;

	if (row < terminal.row_count)
		return true;
	if (row >= ROWS_MOST)
		return false;
	rows = realloc(terminal.rows, ((size_t)row + 1) * sizeof *rows);
	if (rows == NULL)
		return false;
	memset(rows + terminal.row_count, 0,
		((size_t)row + 1 - (size_t)terminal.row_count) * sizeof *rows);
	terminal.rows = rows;
	terminal.row_count = row + 1;
	return true;
}

bool terminal_put(int row, enum terminal_style style, const char *data, size_t size)
{
	struct row *to;

	if (!have_row(row))
		return false;
	to = &terminal.rows[row];
	if (to->shown && to->style == style && to->size == size &&
		(size == 0 || memcmp(to->data, data, size) == 0))
		return true;
	if (to->room < size) {
		char *room = realloc(to->data, size);

		if (room == NULL)
			return false;
		to->data = room;
		to->room = size;
	}
	if (size > 0)
		memcpy(to->data, data, size);
	to->size = size;
	to->style = style;
	to->shown = false;
	return true;
}

static void begin_style(enum terminal_style style)
{
	switch (style) {
	case STYLE_PLAIN:
		break;
	case STYLE_BAR:
	case STYLE_CURSOR:
		put_capability(enter_reverse_mode != NULL ? enter_reverse_mode
							  : enter_standout_mode);
		break;
	case STYLE_HEAD:
		put_capability(enter_bold_mode);
		break;
	}
}

/* Erases a row before it writes it: the terminal may disagree about the width of characters. */
void terminal_show(void)
{
	int rows = terminal_size().rows;

	for (int i = 0; i < terminal.row_count && i < rows; i++) {
		struct row *row = &terminal.rows[i];

		if (row->shown)
			continue;
		put_capability(tiparm(cursor_address, i, 0));
		put_capability(clr_eol);
		begin_style(row->style);
		put(row->data, row->size);
		if (row->style != STYLE_PLAIN)
			put_capability(exit_attribute_mode);
		row->shown = true;
	}
	flush();
}

void terminal_redraw(void)
{
	for (int i = 0; i < terminal.row_count; i++)
		terminal.rows[i].shown = false;
	put_capability(exit_attribute_mode);
	put_capability(clear_screen);
}

/* ---- keys ---- */

/* Sent by nearly all terminals, in either of their modes; terminfo comes first. */
static const struct {
	const char *sequence;
	int key;
} common_keys[] = {
	{ "\033[A", TERMINAL_UP },
	{ "\033[B", TERMINAL_DOWN },
	{ "\033[C", TERMINAL_RIGHT },
	{ "\033[D", TERMINAL_LEFT },
	{ "\033[H", TERMINAL_HOME },
	{ "\033[F", TERMINAL_END },
	{ "\033OA", TERMINAL_UP },
	{ "\033OB", TERMINAL_DOWN },
	{ "\033OC", TERMINAL_RIGHT },
	{ "\033OD", TERMINAL_LEFT },
	{ "\033OH", TERMINAL_HOME },
	{ "\033OF", TERMINAL_END },
	{ "\033[1~", TERMINAL_HOME },
	{ "\033[4~", TERMINAL_END },
	{ "\033[5~", TERMINAL_PAGE_UP },
	{ "\033[6~", TERMINAL_PAGE_DOWN },
	{ "\033[7~", TERMINAL_HOME },
	{ "\033[8~", TERMINAL_END },
};

static bool begins_with(const char *sequence, size_t *ret_size)
{
	if (sequence == NULL || sequence == (const char *)-1 || *sequence == '\0')
		return false;
	*ret_size = strlen(sequence);
	return *ret_size <= terminal.input_size &&
	       memcmp(sequence, terminal.input, *ret_size) == 0;
}

/* The key whose sequence the input begins with, or TERMINAL_NOTHING. */
static int known_key(size_t *ret_size)
{
	const struct {
		const char *sequence;
		int key;
	} told[] = {
		{ key_up, TERMINAL_UP },
		{ key_down, TERMINAL_DOWN },
		{ key_left, TERMINAL_LEFT },
		{ key_right, TERMINAL_RIGHT },
		{ key_home, TERMINAL_HOME },
		{ key_end, TERMINAL_END },
		{ key_ppage, TERMINAL_PAGE_UP },
		{ key_npage, TERMINAL_PAGE_DOWN },
		{ key_backspace, TERMINAL_BACKSPACE },
	};

	for (size_t i = 0; i < COUNT(told); i++)
		if (begins_with(told[i].sequence, ret_size))
			return told[i].key;
	for (size_t i = 0; i < COUNT(common_keys); i++)
		if (begins_with(common_keys[i].sequence, ret_size))
			return common_keys[i].key;
	return TERMINAL_NOTHING;
}

/* How long the sequence is that the input begins with: ESC and a character, ESC [ up to
 * a letter or ~. 0: its end is not there yet. */
static size_t sequence_size(void)
{
	const unsigned char *input = terminal.input;
	size_t size = terminal.input_size, end = 2;

	if (size < 2)
		return 0;
	if (input[1] == 'O')
		return size < 3 ? 0 : 3;
	if (input[1] != '[')
		return 2;
	while (end < size && (input[end] < 0x40 || input[end] > 0x7e))
		end++;
	if (end < size)
		return end + 1;
	return size == INPUT_ROOM ? size : 0;
}

/* Of what was read: a key and its size, or TERMINAL_NOTHING if more is needed. */
static int take_key(bool is_all, size_t *ret_size)
{
	int key = known_key(ret_size);

	if (key != TERMINAL_NOTHING)
		return key;
	*ret_size = 1;
	switch (terminal.input[0]) {
	case '\r':
	case '\n':
		return TERMINAL_ENTER;
	case '\b':
	case 0x7f:
		return TERMINAL_BACKSPACE;
	case '\033':
		if (terminal.input_size == 1 && is_all)
			return TERMINAL_ESCAPE;
		*ret_size = sequence_size();
		if (*ret_size == 0 && is_all)
			*ret_size = terminal.input_size;
		return *ret_size == 0 ? TERMINAL_NOTHING : TERMINAL_OTHER;
	default:
		return terminal.input[0] < 0x80 ? terminal.input[0] : TERMINAL_OTHER;
	}
}

/* False: nothing came in this time. *ret_gone: and nothing will. */
static bool read_input(int timeout_ms, bool *ret_gone)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	const struct timespec time = { timeout_ms / 1000, timeout_ms % 1000 * 1000000L };
	ssize_t size;

	if (ppoll(&input, 1, timeout_ms < 0 ? NULL : &time, &terminal.mask) <= 0)
		return false;
	size = read(STDIN_FILENO, terminal.input + terminal.input_size,
		INPUT_ROOM - terminal.input_size);
	if (size > 0) {
		terminal.input_size += (size_t)size;
		return true;
	}
	*ret_gone = size == 0 || (errno != EINTR && errno != EAGAIN);
	return false;
}

int terminal_key(int timeout_ms)
{
	size_t size = 0;
	bool gone = false, is_all = false;
	int key = TERMINAL_NOTHING;

	while (key == TERMINAL_NOTHING) {
		if (terminal.input_size > 0) {
			key = take_key(is_all, &size);
			if (key != TERMINAL_NOTHING)
				break;
		}
		if (!read_input(
			    terminal.input_size > 0 ? ESCAPE_MS : timeout_ms, &gone)) {
			if (terminal.stopped)
				stop();
			if (terminal.resized)
				terminal_redraw();
			terminal.resized = 0;
			is_all = true;
			if (terminal.input_size == 0 || gone)
				return gone ? TERMINAL_GONE : TERMINAL_NOTHING;
		}
	}
	terminal.input_size -= size;
	memmove(terminal.input, terminal.input + size, terminal.input_size);
	return key;
}

#else

bool terminal_built(void)
{
	return false;
}

const char *terminal_claim(void)
{
	return "is not built into this program";
}

bool terminal_open(void)
{
	return false;
}

void terminal_close(void)
{
}

struct terminal_size terminal_size(void)
{
	return (struct terminal_size){ 1, 1 };
}

bool terminal_put(int row, enum terminal_style style, const char *data, size_t size)
{
	(void)row;
	(void)style;
	(void)data;
	(void)size;
	return false;
}

void terminal_show(void)
{
}

void terminal_redraw(void)
{
}

int terminal_key(int timeout_ms)
{
	(void)timeout_ms;
	return TERMINAL_GONE;
}

#endif
