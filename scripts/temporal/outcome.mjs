/**
 * What a workflow ended with, out of what `temporal workflow execute --output jsonl` printed on both its streams: one line for
 * the workflow's end, and lines of a log.
 *
 * An outcome is the exit code of the command line (docs/commands.md, "Exit codes"), the document that `--json` prints, and what
 * a person is told. Of a failure the document holds nothing more.
 */

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
  'retry-sync-item': ({ outcome, itemId, status }) =>
    (outcome === 'not failed' && notRetried(itemId, status)) || (outcome === 'outdated' && outdated(itemId)),
}

/** What `temporal` says where Temporal was not asked, or has refused; the first that fits. All else is no answer. */
const REFUSALS = [
  [
    /failed getting close event/,
    2,
    'backend_unreachable',
    (said) => `Temporal was lost while the workflow was waited for, which goes on: ${said}. Check TEMPORAL_ADDRESS.`,
  ],
  [/already running/i, 1, 'already_running'],
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

/**
 * @param lines of both streams
 * @returns `isFailure`: the document says what went wrong, and a person is told that alone
 * @throws Error with a line where the result can't be read
 */
export function outcomeOf(command, lines) {
  const said = lines.filter((line) => line.trim() !== '').map((line) => documentIn(line) ?? { msg: line })
  const end = said.findLast(({ closeEvent }) => closeEvent !== undefined)
  if (end === undefined) return notAnswered(said.flatMap(({ msg }) => (msg === undefined ? [] : [String(msg)])).at(-1))
  return end.status === 'COMPLETED' ? completed(command, payloadOf(end.result)) : failed(end)
}

/** @param document as the command line prints it, where the workflow has it */
export function refusal(exitCode, code, message, document = null) {
  return { exitCode, document: document ?? { error: { code, message } }, told: message, isFailure: true }
}

function completed(command, document) {
  const refused = NOT_DONE[command]?.(document)
  if (refused) return refusal(1, ...refused)
  if (PART_FAILED[command]?.(document) !== true) return { exitCode: 0, document }
  return { exitCode: 1, document, told: `${command} is done, and a part of it failed; the worker's log says why.` }
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

function outdated(id) {
  return [
    'sync_item_outdated',
    `Sync item ${id} has a newer copy in a later run, over which its retry would write older data: \`"force": true\` retries it all the same.`,
  ]
}

function failed({ closeEvent, workflowId }) {
  const failure = spokenOf(closeEvent.workflowExecutionFailedEventAttributes?.failure)
  if (failure === null) {
    const how = closeEvent.eventType.replace('EVENT_TYPE_WORKFLOW_EXECUTION_', '').toLowerCase().replace('_', ' ')
    const reason = closeEvent.workflowExecutionTerminatedEventAttributes?.reason
    return refusal(1, 'unexpected_error', `The workflow ${workflowId} was ${how}${reason ? `: ${reason}` : ''}.`)
  }
  const { type = 'unexpected_error', details } = failure.applicationFailureInfo ?? {}
  const document = details?.payloads?.length > 0 ? payloadOf(details.payloads[0]) : null
  const exitCode = type === 'backend_unreachable' || type === 'no_worker_answered' ? 2 : 1
  if (document === null || document.error !== undefined) return refusal(exitCode, type, failure.message, document)
  // The command did its work, a part of which failed.
  return { exitCode, document, told: failure.message }
}

function notAnswered(said = '`temporal` ended without a word.') {
  const message = said.replace(/^failed starting workflow: /, '')
  const [, exitCode, code, textOf] = REFUSALS.find(([words]) => words.test(message)) ?? []
  if (code !== undefined) return refusal(exitCode, code, textOf?.(message.replace(/\.$/, '')) ?? message)
  const text = `Temporal was not reached: ${message} Check TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE.`
  return refusal(2, 'backend_unreachable', text)
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
    const document = JSON.parse(line)
    return typeof document === 'object' ? document : null
  } catch {
    return null
  }
}
