/** Operations as a host logs them. Rule: docs/behaviour/operations.md. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { currentSync } from '../calls/inside-sync.ts'
import { secretsIn } from '../credentials/integration-secrets.ts'
import type { Database } from '../db/client.ts'
import { MAX_INTEGER, MAX_SMALLINT } from '../db/schema/columns.ts'
import { LOG_DIRECTIONS } from '../db/schema/logs-table.ts'
import type { OperationRecord } from '../events/events.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'
import { isJson, isRecord } from '../framework/json.ts'
import { integrationLogger } from '../framework/logger.ts'
import { asPartOf, currentOrigin } from '../framework/origin.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import { REDACTED, redactBody, redactStart, redactText } from '../framework/redaction.ts'
import type { Integration, Operation, OperationInput } from '../providers/integration.ts'
import { endLog, insertedLog } from './log-queries.ts'

const MAX_TEXT_LENGTH = 255
const MAX_ERROR_LENGTH = 1_000

/**
 * Operations whose rows the framework reads again: a `cursor` row keeps a run from moving the cursor, an open `sync` row is a run. Of
 * `remap`, `erase` and `operator` erasure keeps what they say. A host may use all other names, also the framework's own.
 */
const RESERVED: readonly string[] = [
  ...['sync', 'sync_item', 'backfill', 'cursor', 'webhook_reconcile'],
  ...['remap', 'erase', 'operator'],
]

/** The operation in whose `run()` this code runs. Of the same database: a process may serve two. */
const around = new AsyncLocalStorage<{ readonly db: Database; readonly id: number }>()

const EVENT_OF_STATUS: Readonly<Record<string, 'OperationStarted' | 'OperationCompleted' | 'OperationFailed'>> = {
  processing: 'OperationStarted',
  success: 'OperationCompleted',
  failed: 'OperationFailed',
}

interface Ending {
  readonly status: 'success' | 'failed'
  readonly summary?: string | undefined
  readonly metadata?: Json | undefined
  readonly resultData?: Json | undefined
  readonly result?: Json | undefined
  readonly error?: string
}

/** Writes the log row of an operation that begins. @throws InvalidArgumentException; then nothing is stored */
export async function startOperation(
  framework: Framework,
  integration: Integration,
  input: OperationInput,
): Promise<Operation> {
  const { db, tables, listeners } = framework
  const secrets = secretsIn(integration)
  const status = checkInput(input)
  const parent = around.getStore()
  const item = currentSync()?.item
  const run = item?.db === db ? item.current : null
  let metadata = input.metadata ?? null
  const stored = (value: Json): Json => (value === null ? null : storedJson(value, secrets))
  const attemptIf = (failed: boolean): number | null => (run !== null && failed ? run.attempt : null)
  const begun = {
    integrationId: integration.id,
    operation: input.operation,
    direction: input.direction,
    status,
    summary: input.summary === undefined ? null : shortened(input.summary, secrets),
    externalId: input.externalId ?? null,
    metadata: stored(metadata),
    resultData: stored(input.resultData ?? null),
    error: input.error === undefined ? null : redactedErrorLine(input.error, secrets, MAX_ERROR_LENGTH),
    attempt: attemptIf(status === 'failed'),
    maxAttempts: run === null ? null : Math.min(run.maxAttempts, MAX_SMALLINT),
    durationMs: input.durationMs ?? null,
    // The nearest: an operation, else the run whose item this is a part of.
    parentId: input.parentId ?? (parent?.db === db ? parent.id : (run?.syncLogId ?? null)),
  }
  const startedAt = performance.now()
  const inserted = await insertedLog(db, tables, { ...begun, origin: currentOrigin(tables) })
  const { id } = inserted
  let log: OperationRecord = { ...begun, ...inserted }
  let ended = status === 'success' || status === 'failed'

  const tell = async (): Promise<void> => {
    const event = EVENT_OF_STATUS[log.status]
    if (event !== undefined) await listeners.emit(event, { integration, log })
  }
  const end = async (ending: Ending): Promise<void> => {
    if (ended) throw new TypeError(`operation ${id} (${log.operation}) has ended as ${log.status} already`)
    checkEnding(ending)
    const before = log
    const resultData = ending.resultData ?? ending.result
    const merged = ending.metadata === undefined ? metadata : mergedMetadata(metadata, ending.metadata)
    ended = true
    log = {
      ...before,
      status: ending.status,
      summary: ending.summary === undefined ? before.summary : shortened(ending.summary, secrets),
      metadata: stored(merged),
      resultData: resultData === undefined ? before.resultData : stored(resultData),
      error: ending.error ?? null,
      attempt: attemptIf(ending.status === 'failed'),
      durationMs: Math.min(Math.round(performance.now() - startedAt), MAX_INTEGER),
    }
    let isWritten: boolean
    try {
      isWritten = await endLog(db, tables, id, before.status, {
        status: log.status,
        summary: log.summary,
        metadata: log.metadata,
        resultData: log.resultData,
        error: log.error,
        attempt: log.attempt,
        durationMs: log.durationMs,
      })
    } catch (error) {
      // Not ended: it may be tried again.
      log = before
      ended = false
      throw error
    }
    metadata = merged
    if (isWritten) await tell()
    else
      integrationLogger(framework, integration).warn(
        { event: 'operation.log_lost', log: id, operation: log.operation },
        'the log row of an operation is gone, or another caller has ended it; it is left as it is',
      )
  }

  await tell()
  return {
    id,
    succeed: (outcome = {}) => end({ ...outcome, status: 'success' }),
    fail: (error, outcome = {}) =>
      end({ ...outcome, status: 'failed', error: redactedErrorLine(error, secrets, MAX_ERROR_LENGTH) }),
    run: (work) => around.run({ db, id }, () => asPartOf(tables, 'log', id, work)),
  }
}

/** @returns the status; default `processing` */
function checkInput(input: OperationInput): string {
  const { operation, direction, status = 'processing', summary, externalId, metadata, resultData } = input
  checkText('operation', operation)
  if (RESERVED.includes(operation))
    throw new InvalidArgumentException(
      'operation',
      `the framework reads its own rows of this name again (${RESERVED.join(', ')}); another name is allowed, "${operation}" was given`,
    )
  if (!LOG_DIRECTIONS.includes(direction))
    throw new InvalidArgumentException(
      'direction',
      `${LOG_DIRECTIONS.join(' and ')} are allowed, ${String(direction)} was given`,
    )
  checkText('status', status)
  if (externalId !== undefined) checkText('externalId', externalId)
  if (input.error !== undefined && typeof input.error !== 'string')
    throw new InvalidArgumentException('error', 'a text is allowed')
  checkWhole('durationMs', input.durationMs, MAX_INTEGER)
  checkWhole('parentId', input.parentId, Number.MAX_SAFE_INTEGER)
  checkEnding({ summary, metadata, resultData })
  return status
}

function checkWhole(name: string, value: number | undefined, most: number): void {
  if (value !== undefined && !(Number.isInteger(value) && value >= 0 && value <= most))
    throw new InvalidArgumentException(name, `whole numbers from 0 to ${most} are allowed, ${String(value)} was given`)
}

function checkEnding({ summary, metadata, resultData, result }: Omit<Ending, 'status' | 'error'>): void {
  if (summary !== undefined && typeof summary !== 'string')
    throw new InvalidArgumentException('summary', 'a text is allowed')
  if (resultData !== undefined && result !== undefined)
    throw new InvalidArgumentException('result', 'one of resultData and result is allowed, both were given')
  for (const [name, value] of Object.entries({ metadata, resultData, result }))
    if (value !== undefined && !isJson(value)) throw new InvalidArgumentException(name, 'a JSON value is allowed')
}

function checkText(name: string, text: unknown): void {
  const isFit = typeof text === 'string' && text.trim() !== '' && [...text].length <= MAX_TEXT_LENGTH
  if (!isFit || text.includes('\u0000'))
    throw new InvalidArgumentException(
      name,
      `a text of 1 to ${MAX_TEXT_LENGTH} characters that is not blank, without U+0000, is allowed`,
    )
}

/** Postgres counts code points, of at most two characters each. */
function shortened(text: string, secrets: readonly string[]): string {
  return [...redactStart(text.replaceAll('\u0000', ''), secrets, 2 * MAX_TEXT_LENGTH)]
    .slice(0, MAX_TEXT_LENGTH)
    .join('')
}

/** Objects are merged, key by key; anything else takes the place of what was there. */
function mergedMetadata(before: Json, after: Json): Json {
  return isRecord(before) && isRecord(after) ? { ...before, ...after } : after
}

/** What is larger is data, not a note. */
const MAX_JSON_BYTES = 65_536

/**
 * A value for the JSON columns of the logs: without secrets; a marker of its size in place of one that is too large.
 * Rule: docs/behaviour/operations.md, "What is stored".
 */
function storedJson(value: Json, secrets: readonly string[]): Json {
  const text = JSON.stringify(value)
  const tooLarge = (bytes: number): Json => ({ note: `${bytes} bytes not stored` })
  const bytes = Buffer.byteLength(text)
  if (bytes > MAX_JSON_BYTES) return tooLarge(bytes)
  const stored = withoutSecrets(JSON.parse(redactBody(text, [])) as Json, secrets)
  // What stands for a secret may be longer.
  const storedBytes = Buffer.byteLength(JSON.stringify(stored))
  return storedBytes > MAX_JSON_BYTES ? tooLarge(storedBytes) : stored
}

/** Value by value: a secret may be a number's digits, and its place in the text must stay JSON. */
function withoutSecrets(value: Json, secrets: readonly string[]): Json {
  if (typeof value === 'string') return redactText(value, secrets)
  if (typeof value === 'number') return redactText(String(value), secrets) === String(value) ? value : REDACTED
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((inner: Json) => withoutSecrets(inner, secrets))
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [redactText(key, secrets), withoutSecrets(inner, secrets)]),
  )
}
