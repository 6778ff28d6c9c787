/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_VERSION_H
#define FSDP_VERSION_H

#include <fsdp/span.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Versions are MAJOR.MINOR.PATCH. A change that breaks a caller raises MAJOR, or MINOR as
 * long as MAJOR is 0; a new function or a new member at the end of a struct of options
 * raises MINOR. Structs of options begin with their size, so that a caller that was built
 * with older headers is understood.
 */

/** The version these headers belong to. */
#define FSDP_VERSION "0.1.0"
#define FSDP_VERSION_MAJOR 0
#define FSDP_VERSION_MINOR 1
#define FSDP_VERSION_PATCH 0

/** Whether these headers are of that version or a later one; for #if. */
#define FSDP_VERSION_AT_LEAST(major, minor, patch)                \
	(FSDP_VERSION_MAJOR > (major) ||                          \
		(FSDP_VERSION_MAJOR == (major) &&                 \
			(FSDP_VERSION_MINOR > (minor) ||          \
				(FSDP_VERSION_MINOR == (minor) && \
					FSDP_VERSION_PATCH >= (patch)))))

/** The version of the library that runs, which need not be FSDP_VERSION: a shared
 * library may be newer than the headers of the caller. Static, as all texts here. */
FSDP_API const char *fsdp_version(void);

/** A library inside this one, and its version at run time. */
struct fsdp_library {
	/* As its own documentation calls it: "zlib". */
	const char *name;
	/* Of the one that is linked now, not of the headers it was built with. */
	const char *version;
};

/** Libraries that read formats for this one. */
FSDP_API size_t fsdp_library_count(void);

/** In a fixed order; name == NULL past the end. */
FSDP_API struct fsdp_library fsdp_library(size_t index);

#ifdef __cplusplus
}
#endif

#endif
