/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit-dump PATH…: the findings of an audit of headers, a line of JSON each, and a line
 * "end" behind those of each path. Bytes that are not plain ASCII are escaped as
 * \u00xx.
 */
#include <stdio.h>
#include <string.h>

#include <fsdp/audit.h>

static void print_text(struct fsdp_span text)
{
	putchar('"');
	for (size_t i = 0; i < text.size; i++)
		if (text.data[i] < ' ' || text.data[i] > '~' || text.data[i] == '"' ||
			text.data[i] == '\\')
			printf("\\u%04x", text.data[i]);
		else
			putchar(text.data[i]);
	putchar('"');
}

static void print_member(const char *key, struct fsdp_span text)
{
	if (text.data == NULL)
		return;
	printf(", \"%s\": ", key);
	print_text(text);
}

static void print_finding(const struct fsdp_finding *finding, const char *origin)
{
	printf("{\"from\": \"%s\", \"rule\": \"%s\", \"slug\": \"%s\", \"severity\": "
	       "\"%s\"",
		origin, finding->rule->id, finding->rule->slug,
		fsdp_severity_name(finding->severity));
	print_member("file", finding->file);
	print_member("tensor", finding->tensor);
	print_member("module", finding->module);
	print_member("message", finding->message);
	printf(", \"affected\": [");
	for (size_t i = 0; i < finding->affected_kept; i++) {
		printf("%s", i > 0 ? ", " : "");
		print_text(finding->affected[i]);
	}
	printf("]}\n");
}

static void die(const char *path, const struct fsdp_error *error)
{
	printf("{\"from\": \"error\", \"rule\": \"%s\", \"severity\": \"error\", "
	       "\"path\": \"%s\", \"message\": ",
		fsdp_error_rule(error) != NULL ? fsdp_error_rule(error) : "", path);
	print_text((struct fsdp_span){ (const unsigned char *)fsdp_error_message(error),
		strlen(fsdp_error_message(error)) });
	printf("}\n");
}

static void dump(const char *path)
{
	const struct fsdp_options options = { .size = sizeof options };
	const struct fsdp_audit_options how = { .size = sizeof how,
		.level = FSDP_LEVEL_HEADERS };
	struct fsdp_checkpoint *checkpoint = NULL;
	struct fsdp_audit *audit = NULL;
	struct fsdp_error *error = NULL;

	if (!fsdp_checkpoint_open(&path, 1, &options, &checkpoint, &error) ||
		!fsdp_audit_new(checkpoint, &how, &audit, &error)) {
		die(path, error);
		fsdp_error_free(error);
	} else {
		for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++)
			print_finding(fsdp_finding(checkpoint, i), "reader");
		for (size_t i = fsdp_finding_count(checkpoint);
			i < fsdp_audit_finding_count(audit); i++)
			print_finding(fsdp_audit_finding(audit, i), "audit");
	}
	fsdp_audit_free(audit);
	fsdp_checkpoint_free(checkpoint);
	printf("end\n");
}

int main(int count, char **arguments)
{
	for (int i = 1; i < count; i++)
		dump(arguments[i]);
	return 0;
}
