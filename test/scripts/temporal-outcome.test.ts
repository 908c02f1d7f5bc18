/** scripts/temporal/outcome.mjs: what a wrapper prints and exits with, by what `temporal` has said. */
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'

const SCRIPT = fileURLToPath(new URL('../../scripts/temporal/run.mjs', import.meta.url))
const OUTCOME = new URL('../../scripts/temporal/outcome.mjs', import.meta.url)
const { outcomeOf } = (await import(OUTCOME.href)) as {
  outcomeOf(command: string, lines: readonly string[]): Outcome
}

interface Outcome {
  readonly exitCode: number
  readonly document: { readonly error: { readonly code: string; readonly message: string } }
  readonly told?: string
  readonly isFailure?: boolean
}

/** Plays `temporal`: says what the test wants. */
const folder = mkdtempSync(join(tmpdir(), 'outcomes-'))
const speaker = join(folder, 'temporal')
writeFileSync(speaker, `#!/bin/sh\nprintf '%s' "$SAID"\n`)
chmodSync(speaker, 0o755)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

interface Ended {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

const lineOf = (line: unknown) => (typeof line === 'string' ? line : JSON.stringify(line))

/** A process, as a person has it. @param said lines of `temporal` */
function ended(command: string, said: readonly unknown[], output: 'json' | 'text' = 'json'): Ended {
  const lines = said.map((line) => `${lineOf(line)}\n`).join('')
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [SCRIPT, 'each', command, command, '--', ...(output === 'json' ? ['--json'] : [])],
    { env: { PATH: process.env.PATH, TEMPORAL_CLI: speaker, SAID: lines }, encoding: 'utf8' },
  )
  return { code: status, out: stdout, err: stderr }
}

const payload = (value: unknown) => ({
  metadata: { encoding: Buffer.from('json/plain').toString('base64') },
  data: Buffer.from(JSON.stringify(value)).toString('base64'),
})
const completed = (result: unknown) => ({ status: 'COMPLETED', closeEvent: {}, result: payload(result) })
const failed = (failure: unknown) => ({
  status: 'FAILED',
  workflowId: 'integrations:x',
  closeEvent: {
    eventType: 'EVENT_TYPE_WORKFLOW_EXECUTION_FAILED',
    workflowExecutionFailedEventAttributes: { failure },
  },
})
const logged = (msg: string) => ({ level: 'ERROR', msg })

function refusal(command: string, said: readonly unknown[]): readonly unknown[] {
  const { exitCode, document, told, isFailure } = outcomeOf(command, said.map(lineOf))
  const { code, message } = document.error
  expect([isFailure, told]).toEqual([true, message])
  return [exitCode, code, message]
}

describe('a refusal', () => {
  it('is a document with --json, and a line of stderr without', () => {
    const message = 'workflow is already running.'
    const document = { error: { code: 'already_running', message } }
    const said = [logged(message)]
    expect(ended('prune', said)).toEqual({ code: 1, out: `${JSON.stringify(document)}\n`, err: '' })
    expect(ended('prune', said, 'text')).toEqual({ code: 1, out: '', err: `${message}\n` })
  })
})

describe('a workflow that failed', () => {
  it('has the words that name what helps, not those of its cause', () => {
    const message = 'There is no sync item with id 99. `integrations list-failed-items` shows the ids.'
    const cause = { message: 'There is no sync item with id 99.', applicationFailureInfo: { type: 'SyncItemNotFound' } }
    const failure = { message, cause, applicationFailureInfo: { type: 'sync_item_not_found', nonRetryable: true } }
    expect(refusal('skip-sync-item', [failed(failure)])).toEqual([1, 'sync_item_not_found', message])
  })

  it('says that an activity was given up', () => {
    const message = 'The activity prune did not end in time: activity Heartbeat timeout. `integrations doctor` says'
    const timeout = { message: 'activity Heartbeat timeout', timeoutFailureInfo: {} }
    const cause = { message: 'Activity task timed out', activityFailureInfo: {}, cause: timeout }
    const failure = { message, cause, applicationFailureInfo: { type: 'ActivityGivenUp', nonRetryable: true } }
    expect(refusal('prune', [failed(failure)])).toEqual([1, 'ActivityGivenUp', message])
  })

  it('by a failure that nobody put into words has those of the activity', () => {
    const cause = { message: 'no', applicationFailureInfo: { type: 'backend_unreachable' } }
    const failure = { message: 'Activity task failed', activityFailureInfo: {}, cause }
    expect(refusal('list', [failed(failure)])).toEqual([2, 'backend_unreachable', 'no'])
    const timeout = { message: 'Activity task timed out', activityFailureInfo: {}, cause: { message: 'Heartbeat' } }
    expect(refusal('list', [failed(timeout)])).toEqual([1, 'unexpected_error', 'Heartbeat'])
  })
})

describe('a workflow that had nothing to do', () => {
  it.each([
    [null, 'webhook_not_found', 'There is no webhook with id 9. `integrations list-webhooks` shows the ids.'],
    [
      'pending',
      'webhook_not_replayable',
      'Webhook 9 is pending; only one that is processed or failed can be replayed.',
    ],
    ['failed', 'webhook_not_replayable', 'Webhook 9 has been erased: there is nothing left to replay.'],
  ])('replay-webhook of one that is %s', (status, code, message) => {
    const result = { webhookId: 9, outcome: 'not claimed', status, attempts: null }
    expect(refusal('replay-webhook', [completed(result)])).toEqual([1, code, message])
  })

  it.each([
    [null, 'sync_item_not_found', 'There is no sync item with id 9. `integrations list-failed-items` shows the ids.'],
    ['skipped', 'sync_item_not_failed', 'Sync item 9 is skipped; only one that is failed can be retried or skipped.'],
    [
      'failed',
      'sync_item_not_failed',
      'Sync item 9 has been erased: there is nothing left to retry. It can be skipped.',
    ],
  ])('retry-sync-item of one that is %s', (status, code, message) => {
    const result = { itemId: 9, outcome: 'not failed', status, attempts: null, error: null }
    expect(refusal('retry-sync-item', [completed(result)])).toEqual([1, code, message])
  })

  it('retry-sync-item of one that has a newer copy', () => {
    const result = { itemId: 9, outcome: 'outdated', status: 'failed', attempts: null, error: null }
    expect(refusal('retry-sync-item', [completed(result)])).toEqual([
      1,
      'sync_item_outdated',
      'Sync item 9 has a newer copy in a later run, over which its retry would write older data: `"force": true` retries it all the same.',
    ])
  })

  it('is not one of which the work failed', () => {
    const result = { webhookId: 9, outcome: 'failed', status: 'failed', attempts: 2 }
    expect(outcomeOf('replay-webhook', [lineOf(completed(result))])).toMatchObject({
      exitCode: 1,
      document: result,
      told: expect.stringContaining('a part of it failed'),
    })
  })
})

describe('a temporal without a result', () => {
  const unreachable = 'failed reaching server: connection error: desc = "transport: Error while dialing: refused"'
  it.each([
    [unreachable, 2, 'backend_unreachable', /^Temporal was not reached: .*refused.* Check TEMPORAL_ADDRESS/],
    [
      'failed starting workflow: Namespace x is not found.',
      2,
      'backend_unreachable',
      /^Temporal was not reached: Name/,
    ],
    [
      'failed reaching server: tls: failed to verify certificate: x509: certificate is not valid for any names',
      2,
      'backend_unreachable',
      /^Temporal was not reached: .*x509/,
    ],
    [
      'failed creating client options: invalid TLS config: tls: failed to find any PEM data in certificate input',
      1,
      'invalid_configuration',
      /^`temporal` can't be used as it is configured: .*PEM.*TEMPORAL_TLS_…/,
    ],
    [
      'failed reaching server: header key "authorization" contains value with non-printable ASCII characters',
      1,
      'invalid_configuration',
      /^`temporal` can't be used as it is configured: .*TEMPORAL_API_KEY\.$/,
    ],
    [
      'failed reaching server: Request unauthorized.',
      2,
      'backend_unreachable',
      /^Temporal refused to be asked: .*Request unauthorized\. Check TEMPORAL_API_KEY/,
    ],
    ['failed starting workflow: PermissionDenied', 2, 'backend_unreachable', /^Temporal refused to be asked: Perm/],
    ['failed reaching server: invalid API key: Unauthenticated', 2, 'backend_unreachable', /^Temporal refused to be/],
    ['unknown flag: --no-json-shorthand-payloads', 1, 'usage', /^`temporal` is too old for this script: unknown flag/],
    ['failed starting workflow: Blob data size exceeds limit.', 1, 'usage', /^Blob data size exceeds limit\.$/],
    ['failed starting workflow: WorkflowId length exceeds limit.', 1, 'usage', /^WorkflowId length exceeds limit\.$/],
    ['input #0 is not valid JSON', 1, 'usage', /^input #0 is not valid JSON$/],
    ['invalid argument "x" for "--input" flag', 1, 'usage', /^invalid argument/],
    [
      'failed getting close event: context deadline exceeded',
      2,
      'backend_unreachable',
      /^Temporal was lost while the workflow was waited for, which goes on: .* Check TEMPORAL_ADDRESS\.$/,
    ],
    ['workflow is already running.', 1, 'already_running', /already running\.$/],
  ])('%s', (said, code, type, message) => {
    expect(refusal('prune', [logged(said)])).toEqual([code, type, expect.stringMatching(message)])
  })

  it('that says nothing', () => {
    expect(refusal('list', ['', '{}'])).toEqual([
      2,
      'backend_unreachable',
      'Temporal was not reached: `temporal` ended without a word. Check TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE.',
    ])
  })
})

describe('a result', () => {
  it.each([
    ['an empty list', [], '[]\n'],
    ['nothing', null, 'null\n'],
    ['what a terminal would obey', ['\u001b[31m\u009b1m'], '["\\u001b[31m\\u009b1m"]\n'],
  ])('is one line with --json: %s', (_, document, line) => {
    expect(ended('list', [logged('a warning'), completed(document)])).toEqual({ code: 0, out: line, err: '' })
  })

  it('that a codec has encoded is not shown as it is', () => {
    const encoded = { metadata: { encoding: Buffer.from('binary/encrypted').toString('base64') }, data: 'AAAA' }
    const message =
      'The result is encoded as binary/encrypted: set TEMPORAL_CODEC_ENDPOINT, so that `temporal` decodes it.'
    const { code, out } = ended('list', [{ status: 'COMPLETED', closeEvent: {}, result: encoded }])
    expect([code, JSON.parse(out)]).toEqual([1, { error: { code: 'invalid_configuration', message } }])
  })
})
