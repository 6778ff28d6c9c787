/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the keys through a checkpoint.
 */
#include <stdlib.h>
#include <unistd.h>

#include "cmd/browse/browse.h"
#include "run/answer.h"
#include "run/style.h"
#include "run/terminal.h"

enum { WAITING_MS = 50, REDRAW = 'L' & 0x1f };

static void move(struct browse *browse, bool down, size_t count)
{
	size_t last = browse->entry_count > 0 ? browse->entry_count - 1 : 0;
	size_t left = down ? last - browse->cursor : browse->cursor;

	count = count < left ? count : left;
	browse->cursor = down ? browse->cursor + count : browse->cursor - count;
}

static bool go_in(struct browse *browse)
{
	const struct browse_entry *entry = &browse->entries[browse->cursor];

	if (browse->entry_count == 0 || entry->kind == ENTRY_TENSOR)
		return true;
	if (entry->kind == ENTRY_GROUP)
		return browse_enter(browse, browse->module, entry->index);
	return browse_enter(browse, entry->index, FSDP_NONE);
}

static bool go_out(struct browse *browse)
{
	uint32_t role = browse->role, left = browse->module, parent = left;

	if (role == FSDP_NONE && left != FSDP_NONE)
		parent = browse->tree.shown[left].parent;
	if (role == FSDP_NONE && parent == FSDP_NONE)
		return true;
	if (!browse_enter(browse, parent, FSDP_NONE))
		return false;
	if (role != FSDP_NONE)
		browse_find(browse, ENTRY_GROUP, role);
	else
		browse_find(browse, ENTRY_MODULE, left);
	return true;
}

static void sort_by(struct browse *browse, enum sort_key key)
{
	browse->reversed = browse->sort == key && !browse->reversed;
	browse->sort = key;
	browse_sort(browse);
}

/* False: out of memory. */
static bool follow(struct browse *browse, int key)
{
	size_t page = browse_page(browse, terminal_size().rows);

	switch (key) {
	case TERMINAL_UP:
	case 'k':
		move(browse, false, 1);
		break;
	case TERMINAL_DOWN:
	case 'j':
		move(browse, true, 1);
		break;
	case TERMINAL_PAGE_UP:
		move(browse, false, page);
		break;
	case TERMINAL_PAGE_DOWN:
		move(browse, true, page);
		break;
	case TERMINAL_HOME:
		move(browse, false, browse->entry_count);
		break;
	case TERMINAL_END:
		move(browse, true, browse->entry_count);
		break;
	case TERMINAL_RIGHT:
	case TERMINAL_ENTER:
	case 'l':
		return go_in(browse);
	case TERMINAL_LEFT:
	case TERMINAL_BACKSPACE:
	case 'h':
	case '<':
		return go_out(browse);
	case 's':
		sort_by(browse, SORT_BYTES);
		break;
	case 'n':
		sort_by(browse, SORT_NAME);
		break;
	case 'p':
		sort_by(browse, SORT_PIECES);
		break;
	case 'i':
		browse->hides_details = !browse->hides_details;
		break;
	case '?':
		browse->shows_help = true;
		break;
	case REDRAW:
		terminal_redraw();
		break;
	default:
		break;
	}
	return true;
}

/* Until q, or until nothing more can be typed. False: out of memory. */
static bool follow_keys(struct browse *browse)
{
	for (;;) {
		int key;

		if (!browse_draw(browse))
			return false;
		key = terminal_key(
			browse->result.state == FIRST_WAITING ? WAITING_MS : -1);
		if (key == TERMINAL_GONE || (key == 'q' && !browse->shows_help))
			return true;
		if (key == TERMINAL_NOTHING)
			continue;
		if (browse->shows_help)
			browse->shows_help = false;
		else if (!follow(browse, key))
			return false;
	}
}

/* While the thread still reads, the checkpoint cannot be freed; nothing is left to be
 * written. */
static void end_reading(struct browse *browse, bool good)
{
	if (!first_elements_end(browse->first))
		_exit(good ? STATUS_GOOD : STATUS_FAILED);
}

static bool run_browse(struct run *run, struct fsdp_error **ret_error)
{
	struct browse browse = { .run = run,
		.looks = looks_for(run->common, STDOUT_FILENO, false) };
	bool good = browse_begin(&browse), opened;

	(void)ret_error; /* the view shows what cannot be read */
	if (!good) {
		browse_done(&browse);
		return false;
	}
	run_begin(run, STATUS_GOOD);
	opened = terminal_open();
	if (opened) {
		browse.first = first_elements_new(run->checkpoint);
		good = follow_keys(&browse);
		terminal_close();
		end_reading(&browse, good);
	} else {
		run_failure(run, "system", NULL, "the terminal cannot be set");
	}
	browse_done(&browse);
	return good;
}

const struct command command_browse = {
	.name = "browse",
	.group = GROUP_LOOK,
	.summary = "a full-screen view of modules, sizes and values",
	.synopsis = "CHECKPOINT",
	.examples = { "browse step-1000/" },
	.selectors = (const struct option *const[]){ NULL },
	.output = "text",
	.inputs = INPUTS_ONE,
	.fills_terminal = true,
	.run = run_browse,
};
