# Findings as annotations of a GitHub workflow, at most ten of each level:
# fsdp-inspect audit --json CHECKPOINT... | jq -rf github.jq
def value: explode | map(if . == 9 or (. >= 32 and . < 127) or . >= 160 then . elif . == 10 or . == 13 then . else 63 end)
  | implode | gsub("%"; "%25") | gsub("\r"; "%0D") | gsub("\n"; "%0A");
def property: value | gsub(":"; "%3A") | gsub(","; "%2C");
(.inputs // []) as $inputs
| def path: ($inputs[.input // 0].path // "" | sub("(?<a>.)/+$"; .a)) as $folder | (.file // "") as $file
    | if $file == "" or $folder == "" then $folder + $file
      elif $folder == $file or ($folder | endswith("/" + $file)) then $folder else $folder + "/" + $file end;
[(.errors[]? | {level: "error", at: .path, title: (.rule // .code), text: .message, fix: .hint}),
 (.findings[]? | select(.rule != "FI9006" or .file)
  | {level: (if .severity == "note" then "notice" else .severity end), at: path, title: "\(.rule) \(.slug)",
     text: ((if .member then .member + ": " else "" end) + .message + (if .tensor then " (\(.tensor))" else "" end)),
     fix})]
| group_by(.level) | sort_by({error: 0, warning: 1, notice: 2}[.[0].level]) | .[]
| (.[:10][] | "::\(.level) " + ([(.at // "" | select(. != "") | "file=" + property), "title=" + (.title | property)] | join(","))
    + "::" + (.text | value) + (if .fix then "%0Afix: " + (.fix | value) else "" end)),
  (.[0].level as $level | length - 10 | select(. > 0) | "... and \(.) more \($level)" + if . > 1 then "s" else "" end)
