/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The versions of the library and of what it is linked with.
 */
#include <fsdp/version.h>

#include "document.h"
#include "io/archive.h"
#include "io/inflate.h"

const char *fsdp_version(void)
{
	return FSDP_VERSION;
}

/* "libarchive 3.6.2" without its name. */
static const char *behind_blank(const char *text)
{
	const char *blank = strchr(text, ' ');
	return blank != NULL ? blank + 1 : text;
}

size_t fsdp_library_count(void)
{
	return 3;
}

struct fsdp_library fsdp_library(size_t index)
{
	switch (index) {
	case 0:
		return (struct fsdp_library){ "jansson",
			behind_blank(fsdp_document_parser()) };
	case 1:
		return (struct fsdp_library){ "libarchive",
			behind_blank(fsdp_archive_version()) };
	case 2:
		return (struct fsdp_library){ "zlib", fsdp_inflate_version() };
	default:
		return (struct fsdp_library){ 0 };
	}
}
