/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of CUDA, HIP and the CUDA driver by their names.
 */
#include <string.h>

#include "trace/kineto-runtime.h"
#include "trace/types.h"

static bool begins_with_any(struct fsdp_span name, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (fsdp_span_begins(name, fsdp_span_text(words[i])))
			return true;
	return false;
}

static struct fsdp_span behind(struct fsdp_span name, size_t size)
{
	return fsdp_span(name.data + size, name.size - size);
}

enum fsdp_runtime_call fsdp_runtime_call_of(struct fsdp_span name)
{
	static const char *const prefixes[] = { "cuda", "hip", "cuMem", "cu" };
	static const char *const allocates[] = { "Malloc", "Free", "HostAlloc",
		"HostMalloc", "HostFree", "HostRegister", "HostUnregister" };
	/* Of the driver, and of hipMem. */
	static const char *const maps[] = { "Alloc", "Free", "HostAlloc", "HostRegister",
		"HostUnregister", "Create", "Release", "Map", "Unmap", "SetAccess",
		"AddressReserve", "AddressFree" };
	struct fsdp_span rest = FSDP_SPAN("");
	for (size_t i = 0; i < FSDP_COUNT(prefixes) && rest.size == 0; i++)
		if (fsdp_span_begins(name, fsdp_span_text(prefixes[i])))
			rest = behind(name, strlen(prefixes[i]));
	if (fsdp_span_has(rest, "Synchronize", false))
		return FSDP_RUNTIME_WAIT;
	if (fsdp_span_begins(rest, FSDP_SPAN("Memcpy")) ||
		fsdp_span_begins(name, FSDP_SPAN("cuMemcpy")))
		return FSDP_RUNTIME_COPY;
	if (begins_with_any(rest, allocates, FSDP_COUNT(allocates)))
		return FSDP_RUNTIME_ALLOCATE;
	bool driver = fsdp_span_begins(name, FSDP_SPAN("cuMem"));
	if (fsdp_span_begins(name, FSDP_SPAN("hipMem"))) {
		driver = true;
		rest = behind(name, 6);
	}
	return driver && begins_with_any(rest, maps, FSDP_COUNT(maps))
		       ? FSDP_RUNTIME_ALLOCATE
		       : FSDP_RUNTIME_OTHER;
}
