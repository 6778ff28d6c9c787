/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the rows of the screen: a title, where the list is, the list, what is under the
 * cursor, and sums.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cmd/browse/browse.h"
#include "part/element-bytes.h"
#include "part/element-text.h"
#include "render/escape.h"
#include "render/human.h"
#include "render/plain.h"
#include "render/width.h"
#include "run/answer.h"
#include "run/terminal.h"

enum {
	HEAD_ROWS = 3,
	DETAIL_ROWS = 7,      /* with the line above them */
	DETAILS_FROM = 16,    /* rows of the screen */
	NAME_BYTES = 4 << 10, /* of a name that may be longer than any screen */
	PIECES_MOST = 64,
};

struct screen {
	struct browse *browse;
	struct writer *line;
	struct terminal_size size;
	int row;
	bool good;
};

/* ---- one row ---- */

static void put_name(struct screen *screen, struct text name)
{
	size_t size = name.size > NAME_BYTES
			      ? escape_cut(name.data, name.size, NAME_BYTES)
			      : name.size;

	escape_put(screen->line, name.data, size, ESCAPE_TEXT);
}

static void put_format(struct screen *screen, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void put_format(struct screen *screen, const char *format, ...)
{
	char text[256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	writer_text(screen->line, text);
}

/* What does not fit is cut; what is shown in reverse fills its row. */
static void end_row(struct screen *screen, enum terminal_style style)
{
	const char *mark = screen->browse->looks.ascii ? "..." : "\xe2\x80\xa6";
	size_t columns = (size_t)screen->size.columns,
	       mark_width = width_of(mark, strlen(mark));
	size_t width = width_of(screen->line->data, screen->line->size);

	if (width > columns) {
		screen->line->size = width_front(screen->line->data, screen->line->size,
			columns > mark_width ? columns - mark_width : columns);
		if (columns > mark_width)
			writer_text(screen->line, mark);
		width = width_of(screen->line->data, screen->line->size);
	}
	if ((style == STYLE_BAR || style == STYLE_CURSOR) && width < columns)
		writer_spaces(screen->line, columns - width);
	screen->good &= screen->line->error == 0 &&
			terminal_put(screen->row++, style, screen->line->data,
				screen->line->size);
	screen->line->size = 0;
}

/* ---- names ---- */

static const char *const group_names[FSDP_ROLE_COUNT] = {
	[FSDP_ROLE_PARAM] = "(parameters in no module)",
	[FSDP_ROLE_BUFFER] = "(buffers in no module)",
	[FSDP_ROLE_OPTIM] = "(optimizer states)",
	[FSDP_ROLE_OTHER] = "(other tensors)",
};

static void put_module(struct screen *screen, uint32_t index, bool whole)
{
	struct browse *browse = screen->browse;
	const struct shown *shown = &browse->tree.shown[index];
	struct fsdp_module module = module_at(&browse->tree, shown->module);
	struct text class = text_of(module_shown_class(browse->run, &module));
	struct text name =
		module_tree_name(&browse->tree, &browse->buffers.module, shown->module);
	const char *mark = module_mark_text(module_tree_mark(&browse->tree, shown));

	if (name.size == 0)
		writer_text(screen->line, "(root)");
	put_name(screen, whole ? name : text_last(name, '.'));
	if (class.data != NULL) {
		writer_text(screen->line, module.class_inferred ? "[~" : "[");
		put_name(screen, class);
		writer_text(screen->line, "]");
	}
	if (mark != NULL)
		put_format(screen, " %s", mark);
}

static struct text tensor_name(struct browse *browse, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(browse->run->checkpoint, index);

	return tensor_shown_name(browse->run, &browse->buffers.name, &tensor);
}

static void put_entry_name(struct screen *screen, const struct browse_entry *entry)
{
	struct browse *browse = screen->browse;
	struct text name;

	switch (entry->kind) {
	case ENTRY_MODULE:
		writer_text(screen->line, "/");
		put_module(screen, entry->index, false);
		break;
	case ENTRY_GROUP:
		put_format(screen, "/%s", group_names[entry->index]);
		break;
	case ENTRY_TENSOR:
		/* In a group there is nothing above that says where it belongs. */
		name = tensor_name(browse, entry->index);
		writer_text(screen->line, " ");
		put_name(screen, browse->role == FSDP_NONE ? text_last(name, '.') : name);
		break;
	}
}

/* ---- the list ---- */

static void put_share(struct screen *screen, const struct browse_entry *entry)
{
	const struct browse *browse = screen->browse;
	uint64_t all =
		browse->tree.shown_count > 0 ? module_at(&browse->tree, 0).bytes : 0;
	bool counts = all > 0 && entry->kind != ENTRY_GROUP && browse->role == FSDP_NONE;

	if (counts)
		put_format(
			screen, " %5.1f %%", 100.0 * (double)entry->bytes / (double)all);
	else
		writer_spaces(screen->line, 8);
}

static void put_bar(struct screen *screen, const struct browse_entry *entry)
{
	uint64_t most = screen->browse->most;
	size_t width = screen->size.columns >= 100 ? 20 : 8, full;

	if (entry->kind == ENTRY_GROUP) {
		writer_spaces(screen->line, width + 3);
		return;
	}
	full = most > 0 ? (size_t)((double)entry->bytes / (double)most * (double)width +
				   0.5)
			: 0;
	writer_text(screen->line, " [");
	for (size_t i = 0; i < width; i++)
		writer_char(screen->line, i < full ? '#' : ' ');
	writer_text(screen->line, "]");
}

static const char *size_text(
	const struct screen *screen, uint64_t bytes, char room[HUMAN_ROOM])
{
	return human_bytes(bytes, screen->browse->looks.sizes, room);
}

static void put_rank_bytes(struct screen *screen, const struct browse_entry *entry)
{
	uint64_t bytes = FSDP_UNKNOWN;
	char room[HUMAN_ROOM];

	if (entry->kind == ENTRY_MODULE)
		bytes = module_tree_sums(&screen->browse->tree, entry->index).rank_bytes;
	put_format(screen, " %10s",
		bytes != FSDP_UNKNOWN ? size_text(screen, bytes, room) : "");
}

/* The same columns for the head (NULL) and for entries. */
static void put_columns(struct screen *screen, const struct browse_entry *entry)
{
	int columns = screen->size.columns;
	char room[HUMAN_ROOM];

	put_format(screen, "%11s",
		entry != NULL ? size_text(screen, entry->bytes, room) : "BYTES");
	if (columns >= 40 && entry == NULL)
		writer_text(screen->line, "   SHARE");
	else if (columns >= 40)
		put_share(screen, entry);
	if (columns >= 76 && entry == NULL)
		writer_spaces(screen->line, columns >= 100 ? 23 : 11);
	else if (columns >= 76)
		put_bar(screen, entry);
	if (columns >= 60 && entry == NULL)
		writer_text(screen->line, "   PER RANK");
	else if (columns >= 60)
		put_rank_bytes(screen, entry);
	if (columns >= 50 && entry == NULL)
		writer_text(screen->line, "  PIECES");
	else if (columns >= 50)
		put_format(screen, " %7" PRIu64, entry->pieces);
	writer_text(screen->line, " ");
	if (entry == NULL)
		writer_text(screen->line, " NAME");
}

size_t browse_page(const struct browse *browse, int rows)
{
	int left = rows - HEAD_ROWS - 1;

	if (!browse->hides_details && rows >= DETAILS_FROM)
		left -= DETAIL_ROWS;
	return left > 1 ? (size_t)left : 1;
}

static void draw_list(struct screen *screen)
{
	struct browse *browse = screen->browse;
	size_t page = browse_page(browse, screen->size.rows);

	if (browse->cursor < browse->top)
		browse->top = browse->cursor;
	if (browse->cursor >= browse->top + page)
		browse->top = browse->cursor - page + 1;
	if (browse->entry_count == 0)
		writer_text(screen->line, "  nothing is in it");
	for (size_t i = 0; i < page; i++) {
		size_t index = browse->top + i;

		if (index < browse->entry_count) {
			put_columns(screen, &browse->entries[index]);
			put_entry_name(screen, &browse->entries[index]);
		}
		end_row(screen, index == browse->cursor && browse->entry_count > 0
					? STYLE_CURSOR
					: STYLE_PLAIN);
	}
}

/* ---- what is under the cursor ---- */

static void put_what_tensor_is(struct screen *screen, const struct fsdp_tensor *tensor)
{
	char numel[HUMAN_ROOM], bytes[HUMAN_ROOM];

	put_format(screen, "%s, %s, ", fsdp_role_name(tensor->role),
		fsdp_dtype(tensor->dtype)->name);
	plain_shape(screen->line, tensor->shape, tensor->dims);
	put_format(screen, ", %s elements, %s, %" PRIu32 " piece%s",
		human_elements(tensor->numel, numel),
		size_text(screen, tensor->bytes, bytes), tensor->piece_count,
		tensor->piece_count == 1 ? "" : "s");
	end_row(screen, STYLE_PLAIN);
}

static void put_placement(struct screen *screen, const struct fsdp_tensor *tensor)
{
	const struct fsdp_checkpoint *checkpoint = screen->browse->run->checkpoint;

	if (tensor->alias != FSDP_NONE) {
		writer_text(screen->line, "the same as ");
		put_name(screen, tensor_name(screen->browse, tensor->alias));
	} else if (tensor->placement != FSDP_NONE) {
		struct fsdp_placement placement =
			fsdp_placement(checkpoint, tensor->placement);

		writer_text(screen->line, "placement ");
		for (uint32_t i = 0; i < placement.count; i++) {
			put_format(screen, "%s", i > 0 ? ", " : "");
			put_name(screen, text_of_span(placement.texts[i]));
		}
	}
	end_row(screen, STYLE_PLAIN);
}

static void put_box(struct screen *screen, const struct fsdp_piece *piece)
{
	for (uint32_t i = 0; piece->offsets != NULL && i < piece->dims; i++)
		put_format(screen, "%s%" PRId64 ":%" PRId64, i > 0 ? "," : " [",
			piece->offsets[i], piece->offsets[i] + piece->sizes[i]);
	if (piece->offsets != NULL && piece->dims > 0)
		writer_text(screen->line, "]");
}

static void put_pieces(struct screen *screen, const struct fsdp_tensor *tensor)
{
	const struct fsdp_checkpoint *checkpoint = screen->browse->run->checkpoint;
	uint32_t count =
		tensor->piece_count < PIECES_MOST ? tensor->piece_count : PIECES_MOST;

	writer_text(screen->line, "pieces");
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, tensor->first_piece + i);

		writer_text(screen->line, i > 0 ? "; " : " ");
		if (piece.rank != FSDP_NONE)
			put_format(screen, "rank %" PRIu32, piece.rank);
		put_box(screen, &piece);
		if (piece.file != FSDP_NONE) {
			writer_text(screen->line,
				piece.rank != FSDP_NONE || piece.offsets != NULL ? " in "
										 : "in ");
			put_name(screen,
				text_of_span(fsdp_file(checkpoint, piece.file).path));
		}
	}
	if (count < tensor->piece_count)
		put_format(screen, "; and %" PRIu32 " more", tensor->piece_count - count);
	end_row(screen, STYLE_PLAIN);
}

/* As many as fit into two rows. */
static void put_elements(struct screen *screen, const struct fsdp_tensor *tensor)
{
	const struct first_result *result = &screen->browse->result;
	size_t size = fsdp_dtype(tensor->dtype)->storage_bytes;
	size_t columns = (size_t)screen->size.columns;
	int rows = 1;

	writer_text(screen->line, "values");
	for (size_t i = 0; i < result->count; i++) {
		char room[ELEMENT_ROOM];
		struct text text =
			element_text(tensor->dtype, result->bytes + i * size, room);

		if (screen->line->size + text.size + 6 > columns) {
			if (rows++ == 2)
				break;
			end_row(screen, STYLE_PLAIN);
			writer_text(screen->line, "      ");
		}
		writer_text(screen->line, " ");
		writer_put(screen->line, text.data, text.size);
	}
	if (rows > 2 || result->count < tensor->numel)
		writer_text(screen->line, " ...");
	end_row(screen, STYLE_PLAIN);
}

static void put_values(
	struct screen *screen, uint32_t index, const struct fsdp_tensor *tensor)
{
	struct browse *browse = screen->browse;

	if (!elements_are_stored(tensor)) {
		writer_text(screen->line, "no file holds values of this tensor");
	} else if (browse->first == NULL) {
		writer_text(
			screen->line, "values are not read: no thread could be started");
	} else {
		first_elements_ask(browse->first, index, &browse->result);
		if (browse->result.state == FIRST_READ) {
			put_elements(screen, tensor);
			return;
		}
		if (browse->result.state == FIRST_WAITING) {
			writer_text(screen->line, "values are being read");
		} else {
			writer_text(screen->line, "values cannot be read: ");
			put_name(screen, text_of(browse->result.message));
		}
	}
	end_row(screen, STYLE_PLAIN);
}

static void tell_tensor(struct screen *screen, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(screen->browse->run->checkpoint, index);

	put_name(screen, tensor_name(screen->browse, index));
	end_row(screen, STYLE_HEAD);
	put_what_tensor_is(screen, &tensor);
	put_placement(screen, &tensor);
	put_pieces(screen, &tensor);
	put_values(screen, index, &tensor);
}

static void tell_module(struct screen *screen, uint32_t index)
{
	struct browse *browse = screen->browse;
	const struct shown *shown = &browse->tree.shown[index];
	struct fsdp_module module = module_at(&browse->tree, shown->module);
	struct sums sums = module_tree_sums(&browse->tree, index);
	char parameters[HUMAN_ROOM], bytes[HUMAN_ROOM];

	put_module(screen, index, true);
	end_row(screen, STYLE_HEAD);
	put_format(screen, "%s parameters, %s",
		human_elements(sums.parameters, parameters),
		size_text(screen, sums.bytes, bytes));
	if (sums.rank_bytes != FSDP_UNKNOWN)
		put_format(screen, ", at most %s of them on one rank",
			size_text(screen, sums.rank_bytes, bytes));
	end_row(screen, STYLE_PLAIN);
	put_format(screen,
		"%" PRIu32 " module%s below it, %" PRIu32 " tensor%s of its own, %" PRIu64
		" piece%s in all",
		shown->end - index - 1, shown->end - index - 1 == 1 ? "" : "s",
		module.tensor_count, module.tensor_count == 1 ? "" : "s",
		browse->pieces[index], browse->pieces[index] == 1 ? "" : "s");
	end_row(screen, STYLE_PLAIN);
}

static void tell_group(struct screen *screen, uint32_t role)
{
	const struct browse_group *group = &screen->browse->groups[role];
	char bytes[HUMAN_ROOM];

	writer_text(screen->line, group_names[role]);
	end_row(screen, STYLE_HEAD);
	put_format(screen,
		"%" PRIu64 " tensors that are in no module, %s, %" PRIu64 " pieces",
		group->tensors, size_text(screen, group->bytes, bytes), group->pieces);
	end_row(screen, STYLE_PLAIN);
}

static void draw_details(struct screen *screen)
{
	struct browse *browse = screen->browse;
	int end = screen->size.rows - 1;

	for (int i = 0; i < screen->size.columns; i++)
		writer_char(screen->line, '-');
	end_row(screen, STYLE_PLAIN);
	if (browse->entry_count > 0) {
		const struct browse_entry *entry = &browse->entries[browse->cursor];

		if (entry->kind == ENTRY_MODULE)
			tell_module(screen, entry->index);
		else if (entry->kind == ENTRY_GROUP)
			tell_group(screen, entry->index);
		else
			tell_tensor(screen, entry->index);
	}
	while (screen->row < end)
		end_row(screen, STYLE_PLAIN);
}

/* ---- the rest ---- */

static const char *const help[] = {
	"up, k         one up",
	"down, j       one down",
	"right, l,     into the module under the cursor",
	"Enter",
	"left, h, <,   out of this module",
	"Backspace",
	"Page Up,      a page up or down",
	"Page Down",
	"Home, End     to the first, to the last",
	"",
	"s             sort by bytes; again: the other way round",
	"n             sort by name",
	"p             sort by pieces",
	"i             details under the list, or more of the list",
	"Ctrl-L        draw the screen anew",
	"?             this page; any key leaves it",
	"q             quit",
};

static void draw_help(struct screen *screen)
{
	int end = screen->size.rows - 1;

	for (size_t i = 0; i < sizeof help / sizeof *help && screen->row < end; i++) {
		put_format(screen, "  %s", help[i]);
		end_row(screen, STYLE_PLAIN);
	}
	while (screen->row < end)
		end_row(screen, STYLE_PLAIN);
}

static void draw_head(struct screen *screen)
{
	struct browse *browse = screen->browse;

	writer_text(screen->line, " fsdp-inspect browse ");
	put_name(screen, text_of(browse->run->path));
	end_row(screen, STYLE_BAR);
	if (browse->role != FSDP_NONE)
		writer_text(screen->line, group_names[browse->role]);
	else if (browse->module != FSDP_NONE)
		put_module(screen, browse->module, true);
	end_row(screen, STYLE_PLAIN);
	put_columns(screen, NULL);
	end_row(screen, STYLE_HEAD);
}

static void draw_foot(struct screen *screen)
{
	static const char *const keys[] = { "bytes", "name", "pieces" };
	struct browse *browse = screen->browse;
	char parameters[HUMAN_ROOM], bytes[HUMAN_ROOM];

	if (browse->tree.shown_count > 0) {
		struct fsdp_module root = module_at(&browse->tree, 0);

		put_format(screen, " %s parameters, %s;",
			human_elements(root.parameters, parameters),
			size_text(screen, root.bytes, bytes));
	}
	put_format(screen, " %zu of %zu, by %s%s   ?: help   q: quit",
		browse->entry_count > 0 ? browse->cursor + 1 : 0, browse->entry_count,
		keys[browse->sort], browse->reversed ? ", reversed" : "");
	end_row(screen, STYLE_BAR);
}

bool browse_draw(struct browse *browse)
{
	struct screen screen = { .browse = browse,
		.line = &browse->line,
		.size = terminal_size(),
		.good = true };

	browse->line.ascii = browse->looks.seven_bits;
	browse->result.state = FIRST_READ; /* unless something is waited for */
	browse->line.size = 0;
	draw_head(&screen);
	if (browse->shows_help) {
		draw_help(&screen);
	} else {
		draw_list(&screen);
		if (!browse->hides_details && screen.size.rows >= DETAILS_FROM)
			draw_details(&screen);
	}
	draw_foot(&screen);
	terminal_show();
	return screen.good && !row_buffers_failed(&browse->buffers);
}
