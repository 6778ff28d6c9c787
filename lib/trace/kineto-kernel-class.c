/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernels do, by words in their names.
 */
#include "trace/kineto-kernel-class.h"
#include "trace/types.h"

static const struct {
	const char *word;
	enum fsdp_kernel_class class;
} words[] = {
#define FSDP_KERNEL_WORD(word, class) { word, FSDP_KERNEL_##class },
#include "trace/kineto-kernel-classes.def"
#undef FSDP_KERNEL_WORD
};

enum fsdp_kernel_class fsdp_kernel_class_of(struct fsdp_span name)
{
	for (size_t i = 0; i < FSDP_COUNT(words); i++)
		if (fsdp_span_has(name, words[i].word, true))
			return words[i].class;
	return FSDP_KERNEL_OTHER;
}

const char *fsdp_kernel_class_name(enum fsdp_kernel_class kernel_class)
{
	static const char *const names[FSDP_KERNEL_CLASS_COUNT] = {
		[FSDP_KERNEL_GEMM] = "gemm",
		[FSDP_KERNEL_ATTENTION] = "attention",
		[FSDP_KERNEL_ELEMENTWISE] = "elementwise",
		[FSDP_KERNEL_REDUCTION] = "reduction",
		[FSDP_KERNEL_COPY] = "copy",
		[FSDP_KERNEL_COMMUNICATION] = "communication",
		[FSDP_KERNEL_OTHER] = "other",
	};
	return kernel_class < FSDP_KERNEL_CLASS_COUNT ? names[kernel_class] : NULL;
}
