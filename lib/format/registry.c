/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice among the families of families.def.
 */
#include "format/format.h"

#define COUNT FSDP_COUNT(families)

static const struct {
	const struct fsdp_family *family;
	unsigned char bids[FSDP_SIGN_COUNT];
} families[] = {
#define FSDP_FAMILY(name, sure, likely, weak) \
	{ &fsdp_family_##name, { 0, sure, likely, weak } },
#include "format/families.def"
#undef FSDP_FAMILY
};

const struct fsdp_family *fsdp_registry_at(size_t index)
{
	return index < COUNT ? families[index].family : NULL;
}

unsigned fsdp_registry_bid(size_t index, enum fsdp_sign sign)
{
	return families[index].bids[sign];
}

const struct fsdp_family *fsdp_registry_find(const char *name)
{
	for (size_t i = 0; i < COUNT; i++)
		if (strcmp(families[i].family->name, name) == 0)
			return families[i].family;
	return NULL;
}

const struct fsdp_family *fsdp_registry_choose(const struct fsdp_look *look)
{
	const struct fsdp_family *best = NULL;
	unsigned highest = 0;
	for (size_t i = 0; i < COUNT; i++) {
		const struct fsdp_family *family = families[i].family;
		if (family->recognise == NULL || family->read == NULL)
			continue;
		unsigned bid = families[i].bids[family->recognise(look)];
		if (bid > highest) {
			highest = bid;
			best = family;
		}
	}
	return best;
}

const struct fsdp_family *fsdp_registry_lead(const struct fsdp_folder *folder)
{
	struct fsdp_look look = { .folder = folder };
	for (size_t i = 0; i < COUNT; i++)
		if (families[i].family->leads_to != NULL &&
			families[i].family->recognise(&look) != FSDP_SIGN_NONE)
			return families[i].family;
	return NULL;
}

const struct fsdp_family *fsdp_registry_stands_for(
	const struct fsdp_folder *folder, struct fsdp_span name)
{
	struct fsdp_look look = { .folder = folder };
	for (size_t i = 0; i < COUNT; i++) {
		const struct fsdp_family *family = families[i].family;
		if (family->stands_for != NULL && family->stands_for(name) &&
			fsdp_registry_choose(&look) == family)
			return family;
	}
	return NULL;
}

bool fsdp_registry_may_stand(struct fsdp_span name)
{
	for (size_t i = 0; i < COUNT; i++)
		if (families[i].family->stands_for != NULL &&
			families[i].family->stands_for(name))
			return true;
	return false;
}

bool fsdp_registry_is_data(struct fsdp_span name)
{
	for (size_t i = 0; i < COUNT; i++) {
		const char *suffix = families[i].family->data_suffix;
		if (suffix != NULL && fsdp_span_ends(name, fsdp_span_text(suffix)))
			return true;
	}
	return false;
}

/* The family that loaders take a file of this name for; NULL: they look inside. */
static const struct fsdp_family *of_suffix(struct fsdp_span name)
{
	for (size_t i = 0; i < COUNT; i++) {
		const struct fsdp_family *family = families[i].family;
		if (family->suffix != NULL &&
			fsdp_span_ends(name, fsdp_span_text(family->suffix)))
			return family;
	}
	return NULL;
}

/* Names after which loaders choose how to read; torch 2.13 does so too. */
void fsdp_registry_judge_name(struct fsdp_reading *reading, const struct fsdp_look *look,
	const struct fsdp_family *family)
{
	static const char *const pickled[] = { ".bin", ".pt", ".pth", ".ckpt", ".pkl" };
	struct fsdp_findings *findings = &reading->model->findings;
	const struct fsdp_family *named = of_suffix(look->path);
	if (look->folder != NULL || named == family)
		return;
	if (named != NULL)
		fsdp_find(findings, FSDP_RULE_CONTENT_EXTENSION,
			FSDP_PLACE(.file = look->path, .severity = FSDP_ERROR + 1),
			"it is called %s and is another format: %s", named->suffix,
			family->title);
	for (size_t i = 0;
		named == NULL && family->suffix != NULL && i < FSDP_COUNT(pickled); i++)
		if (fsdp_span_ends(look->path, fsdp_span_text(pickled[i])))
			fsdp_find(findings, FSDP_RULE_CONTENT_EXTENSION,
				FSDP_PLACE(.file = look->path),
				"its name says a file of torch.save, its content is %s",
				family->name);
}

bool fsdp_registry_has_ranks(const char *format)
{
	for (size_t i = 0; format != NULL && i < COUNT; i++) {
		const char *const *rankless = families[i].family->rankless;
		for (; rankless != NULL && *rankless != NULL; rankless++)
			if (strcmp(*rankless, format) == 0)
				return false;
	}
	return true;
}
