# shellcheck shell=sh
# What the scripts of this folder share: each runs a command of `integrations` as a workflow, by Temporal's own command line.
# The page about it: docs/commands.md, "Three ways".
#
# TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_TLS...  are read by `temporal` itself
# INTEGRATIONS_PREFIX  the deployment's `cache_prefix`; default integrations
# INTEGRATIONS_QUEUE   a task queue of its workers, without the prefix; default default
# TEMPORAL_CLI         the binary; default `temporal` on PATH

# execute <mode> <command> <id> <shape>... -- <word>...
#
# mode   what becomes of a workflow that runs under the id already: `join` waits for that one, `once` refuses with 1, `each` knows
#        none, as every run has an id of its own. With `own-` before it: a workflow written for the command, which would wait for
#        Postgres as long as that is away; so the worker is asked first whether it is there
# id     the workflow's, after the prefix; `<name>` stands for a field of the input, and goes with its colon where that is missing
# shape  what the words may be: words-to-json.mjs
execute() {
  mode=$1 command=$2
  shift

  # Three lines: the workflow's id, its input, and how the result is wanted. Words may hold line breaks, JSON does not.
  parsed=$(node "$HERE/words-to-json.mjs" "$@") || {
    if [ -n "$parsed" ]; then printf '%s\n' "$parsed"; fi
    return 1
  }
  id=$(printf '%s\n' "$parsed" | sed -n 1p)
  input=$(printf '%s\n' "$parsed" | sed -n 2p)
  output=$(printf '%s\n' "$parsed" | sed -n 3p)
  if [ "$output" = help ]; then
    printf '%s\n' "$input"
    return 0
  fi

  suffix=$(od -An -N4 -tx1 /dev/urandom | tr -d ' \n')
  case $mode in own-*)
    answer=$(ask list "list:$suffix" '{"limit":1}') || {
      code=$?
      if [ -n "$answer" ]; then printf '%s\n' "$answer"; fi
      return "$code"
    }
    ;;
  esac
  case $mode in
    *join) ask "$command" "$id" "$input" ;;
    *once) ask "$command" "$id" "$input" --fail-existing ;;
    *each) ask "$command" "$id:$suffix" "$input" ;;
  esac
}

# ask <command> <id> <input> [<option of temporal>]
ask() {
  temporal=${TEMPORAL_CLI:-temporal}
  prefix=${INTEGRATIONS_PREFIX:-integrations}
  {
    if command -v "$temporal" >/dev/null; then
      # Raw payloads: the shorthand makes null of an empty list.
      "$temporal" workflow execute --type "integrations:$1" --workflow-id "$prefix:$2" --input "$3" ${4:+"$4"} \
        --task-queue "$prefix-${INTEGRATIONS_QUEUE:-default}" --client-connect-timeout 5s \
        --output jsonl --no-json-shorthand-payloads --log-format json --color never
    else
      echo "\`$temporal\` is not installed: https://docs.temporal.io/cli. TEMPORAL_CLI names it where it is not on PATH."
    fi
  } 2>&1 | node "$HERE/outcome.mjs" "$1" "$output"
}
