/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_DOCUMENT_PRIVATE_H
#define FSDP_DOCUMENT_PRIVATE_H

#include <fsdp/document.h>

/* The version of the library that parses documents. */
const char *fsdp_document_parser(void);

#endif
