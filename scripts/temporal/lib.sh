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
#        none, as every run has an id of its own
# id     the workflow's, after the prefix; `<name>` stands for a field of the input, and goes with its colon where that is missing
# shape  what the words may be: words.mjs
execute() {
  # In the place of this shell: a signal reaches what runs.
  if command -v node >/dev/null 2>&1; then exec node "$HERE/run.mjs" "$@"; fi
  # The words of documents and of text are the same, and hold nothing to be escaped.
  message='`node` is not installed, which this script needs: https://nodejs.org.'
  for word in "$@"; do
    if [ "$word" = --json ]; then
      printf '{"error":{"code":"usage","message":"%s"}}\n' "$message"
      exit 1
    fi
  done
  printf '%s\n' "$message" >&2
  exit 1
}
