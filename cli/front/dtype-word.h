/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DTYPE_WORD_H
#define DTYPE_WORD_H

#include <stddef.h>

/* The dtype of a word, in torch's spelling or another; fsdp_dtype_count(): there is none.
 */
size_t dtype_of_word(const char *word);

#endif
