/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_CLONES_H
#define FSDP_BASE_CLONES_H

/* A loop that is compiled for several kinds of processors, of which the program takes its
 * own when it starts. Not under sanitizers, which run before that. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && \
	!defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&          \
	!defined(__SANITIZE_THREAD__)
#define FSDP_CLONES __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define FSDP_CLONES
#endif

#endif
