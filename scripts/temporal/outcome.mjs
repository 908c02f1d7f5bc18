/**
 * What a workflow ended with, out of what `temporal workflow execute --output jsonl` printed on both its streams: one line for
 * the workflow's end, and lines of a log.
 *
 * Called by lib.sh: `<command> json|text`. Prints the result, in one line for `json`, and exits as the command line does
 * (docs/commands.md, "Exit codes"): 0, 1, or 2 where Temporal or Postgres was not reached.
 */
import { createInterface } from 'node:readline'

const PATIENCE_MS = 10_000
const [command, output] = process.argv.slice(2)

/** Workflows of their own complete where a part failed, which the command line ends with 1 for. */
const PART_FAILED = {
  prune: ({ failed }) => failed.length > 0,
  'refresh-tokens': ({ failed }) => failed > 0,
  'reconcile-webhooks': ({ failed }) => failed > 0,
  'replay-webhook': ({ outcome }) => outcome !== 'processed',
  'retry-sync-item': ({ outcome }) => outcome !== 'success',
  sync: ({ due, started, alreadyRunning }) => due > started + alreadyRunning,
}

/** They complete, too, where there was nothing that they could do; code and words are the command line's. */
const NOT_DONE = {
  'replay-webhook': ({ outcome, webhookId, status }) => outcome === 'not claimed' && notReplayed(webhookId, status),
  'retry-sync-item': ({ outcome, itemId, status }) => outcome === 'not failed' && notRetried(itemId, status),
}

/** What `temporal` says where Temporal was not asked, or has refused; the first that fits. All else is no answer. */
const REFUSALS = [
  [/already running/i, 1, 'already_running'],
  [/is not installed/, 1, 'usage'],
  [
    /unknown (flag|shorthand flag|command)/,
    1,
    'usage',
    (said) => `\`temporal\` is too old for this script: ${said}. A newer one: https://docs.temporal.io/cli.`,
  ],
  [
    /failed creating client options|invalid TLS config|header key "authorization" contains/i,
    1,
    'invalid_configuration',
    (said) => `\`temporal\` can't be used as it is configured: ${said}. Check TEMPORAL_TLS_… and TEMPORAL_API_KEY.`,
  ],
  [
    /unauthorized|unauthenticated|permission ?denied/i,
    2,
    'backend_unreachable',
    (said) => `Temporal refused to be asked: ${said}. Check TEMPORAL_API_KEY or TEMPORAL_TLS_…, and what they may do.`,
  ],
  [/invalid argument|not valid json|\bexceeds\b.*\blimit\b|larger than max/i, 1, 'usage'],
]

const patience = setTimeout(
  () => tell('Still waiting: the work takes long, or no worker runs. `integrations doctor` says which.'),
  PATIENCE_MS,
)
let end = null
const logged = []
for await (const line of createInterface({ input: process.stdin })) {
  const said = documentIn(line)
  if (said?.closeEvent !== undefined) end = said
  else logged.push(said?.msg ?? line)
}
clearTimeout(patience)

if (end === null) notAnswered(logged.filter((line) => line.trim() !== ''))
else if (end.status === 'COMPLETED') completed(payloadOf(end.result))
else failed(end)

function completed(result) {
  const refusal = NOT_DONE[command]?.(result)
  if (refusal) return refused(1, ...refusal)
  show(result)
  if (PART_FAILED[command]?.(result) === true) {
    tell(`${command} is done, and a part of it failed; the worker's log says why.`)
    process.exitCode = 1
  }
}

/** @param status null: there is none of this id. A settled one is refused only where it has been erased */
function notReplayed(id, status) {
  if (status === null)
    return ['webhook_not_found', `There is no webhook with id ${id}. \`integrations list-webhooks\` shows the ids.`]
  const isErased = status === 'processed' || status === 'failed'
  return [
    'webhook_not_replayable',
    isErased
      ? `Webhook ${id} has been erased: there is nothing left to replay.`
      : `Webhook ${id} is ${status}; only one that is processed or failed can be replayed.`,
  ]
}

/** @param status as above */
function notRetried(id, status) {
  if (status === null)
    return [
      'sync_item_not_found',
      `There is no sync item with id ${id}. \`integrations list-failed-items\` shows the ids.`,
    ]
  return [
    'sync_item_not_failed',
    status === 'failed'
      ? `Sync item ${id} has been erased: there is nothing left to retry. It can be skipped.`
      : `Sync item ${id} is ${status}; only one that is failed can be retried or skipped.`,
  ]
}

function failed({ closeEvent, workflowId }) {
  const failure = spokenOf(closeEvent.workflowExecutionFailedEventAttributes?.failure)
  if (failure === null) {
    const how = closeEvent.eventType.replace('EVENT_TYPE_WORKFLOW_EXECUTION_', '').toLowerCase().replace('_', ' ')
    const reason = closeEvent.workflowExecutionTerminatedEventAttributes?.reason
    return refused(1, 'unexpected_error', `The workflow ${workflowId} was ${how}${reason ? `: ${reason}` : ''}.`)
  }
  const { type = 'unexpected_error', details } = failure.applicationFailureInfo ?? {}
  const document = details?.payloads?.length > 0 ? payloadOf(details.payloads[0]) : null
  const exitCode = type === 'backend_unreachable' ? 2 : 1
  if (document === null || document.error !== undefined) return refused(exitCode, type, failure.message, document)
  // The command did its work, a part of which failed.
  show(document)
  tell(failure.message)
  process.exitCode = exitCode
}

function notAnswered(lines) {
  const message = lines.at(-1)?.replace(/^failed starting workflow: /, '') ?? '`temporal` ended without a word.'
  const [, exitCode, code, textOf] = REFUSALS.find(([words]) => words.test(message)) ?? []
  if (code !== undefined) return refused(exitCode, code, textOf?.(message.replace(/\.$/, '')) ?? message)
  refused(
    2,
    'backend_unreachable',
    `Temporal was not reached: ${message} Check TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE.`,
  )
}

function refused(exitCode, code, message, document = null) {
  if (output === 'json') show(document ?? { error: { code, message } })
  else tell(message)
  process.exitCode = exitCode
}

/**
 * The words that are meant for a reader: the outermost that somebody wrote, which names what helps. Around it is "Activity task
 * failed" and the like, below it what it was made of.
 */
function spokenOf(failure) {
  if (failure === undefined) return null
  if (failure.applicationFailureInfo !== undefined || failure.cause === undefined) return failure
  return spokenOf(failure.cause)
}

/** https://docs.temporal.io/default-custom-data-converters#default-data-converter */
function payloadOf(payload) {
  if (payload === undefined) return null
  const text = (base64) => Buffer.from(base64 ?? '', 'base64').toString()
  const encoding = text(payload.metadata?.encoding)
  if (encoding === 'json/plain') return JSON.parse(text(payload.data))
  if (encoding === 'binary/null') return null
  throw new Error(`The result is encoded as ${encoding}: set TEMPORAL_CODEC_ENDPOINT, so that \`temporal\` decodes it.`)
}

function documentIn(line) {
  try {
    return JSON.parse(line)
  } catch {
    return null
  }
}

/** What a terminal would obey is escaped, the value stays; JSON.stringify() escapes the characters below U+0020. */
function show(document) {
  const text = JSON.stringify(document, null, output === 'json' ? 0 : 2)
  const escaped = text.replace(/[\u007f-\u009f]/g, (character) => `\\u00${character.charCodeAt(0).toString(16)}`)
  process.stdout.write(`${escaped}\n`)
}

function tell(text) {
  process.stderr.write(`${text.replace(/(?![\n\t])\p{Cc}/gu, '')}\n`)
}
