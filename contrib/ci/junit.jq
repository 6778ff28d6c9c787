# Findings as results of tests: a suite for each checkpoint, a case for each rule that was checked and for each finding.
# fsdp-inspect audit --json CHECKPOINT... | jq -rf junit.jq
def xml: explode | map(if . == 9 or . == 10 or . == 13 or (. >= 32 and . < 127) or (. >= 160 and . < 55296)
    or (. >= 57344 and . <= 65533) or . > 65535 then . else 65533 end) | implode | @html;
def attribute($name; $text): " \($name)=\"\($text | xml)\"";
def counts($name; cases): attribute("name"; $name) + " tests=\"\([cases] | length)\""
    + ([["failures", "failure"], ["errors", "error"], ["skipped", "skipped"]]
       | map(.[1] as $kind | " \(.[0])=\"\([cases | select(.kind == $kind)] | length)\"") | add);
def text: .message + (if .tensor then " (\(.tensor))" else "" end) + (if .fix then "\nfix: " + .fix else "" end);
def cases($fails): [(.errors[]? | {kind: "error", class: (.rule // .code), name: (.path // .code), message, text: (.message + (if .hint then "\nfix: " + .hint else "" end))}),
  (.findings[]? | select(.rule != "FI9006" or .file) | {input: (.input // 0), class: .rule, message, text: text, file,
    name: (.slug + (if .file then ": " + .file else "" end)), kind: (if .severity == $fails then "failure" else "system-out" end)}),
  ((.data.checkpoints? // [.data // {}]) | to_entries[] | .key as $key | (.value.input? // $key) as $input | .value.checks[]?
    | select(.findings == 0 and .status != "not_applicable") | {input: $input, class: .rule, name: .slug,
      kind: (if .status == "passed" then "passed" else "skipped" end), message: .status})];
([.findings[]?.severity] as $found | if .ok then "none" else first(("error", "warning", "note") | select(. as $s | $found | index($s))) // "none" end) as $fails
| cases($fails) as $cases
| (if (.inputs // []) == [] then [{id: 0, path: "audit"}] else .inputs end) as $inputs
| "<?xml version=\"1.0\" encoding=\"UTF-8\"?>", "<testsuites\(counts("fsdp-inspect audit"; $cases[]))>",
  ($inputs[] | . as $input | [$cases[] | select((.input // $inputs[0].id) == $input.id)] as $of
   | "<testsuite\(counts($input.path; $of[]))>",
     ($of[] | "<testcase" + attribute("classname"; .class) + attribute("name"; .name)
       + (if .file then attribute("file"; .file) else "" end)
       + (if .kind == "passed" then "/>"
          elif .kind == "system-out" then "><system-out>\(.text | xml)</system-out></testcase>"
          else "><\(.kind)" + attribute("message"; .message) + ">\(.text // "" | xml)</\(.kind)></testcase>" end)),
     "</testsuite>"), "</testsuites>"
