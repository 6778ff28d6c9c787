/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Build-time program: writes the table of escape.c from the character properties of
 * utf8proc, whose own tables are forty times as large.
 */
#include <stdbool.h>
#include <stdio.h>

#include <utf8proc.h>

/* Controls, what formats or hides, separators of lines, and what is not assigned. */
static bool is_hidden(utf8proc_int32_t character)
{
	const utf8proc_property_t *property = utf8proc_get_property(character);

	switch (property->category) {
	case UTF8PROC_CATEGORY_CC:
	case UTF8PROC_CATEGORY_CF:
	case UTF8PROC_CATEGORY_CS:
	case UTF8PROC_CATEGORY_CN:
	case UTF8PROC_CATEGORY_ZL:
	case UTF8PROC_CATEGORY_ZP:
		return true;
	default:
		return property->ignorable;
	}
}

int main(void)
{
	int before = -1;

	printf("#include \"render/writer.h\"\n\nconst uint32_t character_ranges[] = {\n");
	for (utf8proc_int32_t character = 0; character <= 0x10ffff; character++) {
		int width = utf8proc_charwidth(character);
		int kind = (is_hidden(character) ? 4 : 0) | (width > 0 ? width & 3 : 0);

		if (kind != before)
			printf("\t0x%x,\n", (unsigned)character << 3 | (unsigned)kind);
		before = kind;
	}
	printf("};\nconst size_t character_range_count =\n"
	       "\tsizeof character_ranges / sizeof *character_ranges;\n");
	return 0;
}
