/* SPDX-License-Identifier: Apache-2.0 */
/* What scripts/mutation/marks.py puts before statements; the bytes of all files are one array. */
extern unsigned char fsdp_marks[];
#define MARK(n) ((void)(fsdp_marks[MARKS_BEGIN + (n)] = 1))
