/** One row per attempt that reached the call, in the final, redacted form. */

import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FailureClass } from '../../core/failure-class.ts'
import { errorLine } from '../../core/logger.ts'
import { cutToBytes, redactBody } from '../../core/redaction.ts'
import { insertRequest } from '../../db/queries/requests.ts'
import type { RequestRecord } from '../../events/events.ts'
import type { Framework } from '../../framework.ts'
import type { RequestOptions } from '../../providers/integration.ts'
import type { Answer } from './answer.ts'

const MAX_REQUEST_DATA_BYTES = 65_536
/** Column `endpoint` is varchar(255); a longer path is cut rather than the row lost. */
const MAX_ENDPOINT_LENGTH = 255
/** A row that can't be written must not change the call's outcome: three tries, then an error line. */
const SETTLEMENT_WAITS_MS = [1_000, 4_000]

export interface AttemptRecord {
  readonly integrationId: number
  readonly endpoint: string
  readonly method: string
  readonly options: RequestOptions
  readonly retryOf: number | null
  readonly answer: Answer
  /** Without waiting for capacity or between attempts. */
  readonly durationMs: number
  readonly body: unknown
  readonly failure: { readonly class: FailureClass; readonly message: string } | null
  readonly secrets: readonly string[]
}

/** @returns the row; null when it could not be written, which is logged */
export async function settleAttempt(framework: Framework, attempt: AttemptRecord): Promise<RequestRecord | null> {
  const { config, db, tables, logger } = framework
  const { options, answer, failure } = attempt
  const record: Omit<RequestRecord, 'id'> = {
    endpoint: [...withoutNul(attempt.endpoint)].slice(0, MAX_ENDPOINT_LENGTH).join(''),
    method: attempt.method,
    statusCode: answer.statusCode,
    failureClass: failure?.class ?? null,
    providerRequestId: answer.providerRequestId === null ? null : withoutNul(answer.providerRequestId),
    durationMs: attempt.durationMs,
    retryOf: attempt.retryOf,
  }
  const values = {
    ...record,
    integrationId: attempt.integrationId,
    requestData: storedText(options.data, attempt.secrets, MAX_REQUEST_DATA_BYTES),
    responseData: storedText(attempt.body, attempt.secrets, config.logging.max_response_bytes),
    error: failure?.message ?? null,
    relatedType: options.relatedTo?.type ?? null,
    relatedId: options.relatedTo === undefined ? null : Number(options.relatedTo.id),
  }
  for (let attemptNumber = 0; ; attemptNumber += 1)
    try {
      return { id: await insertRequest(db, tables, values), ...record }
    } catch (error) {
      const wait = SETTLEMENT_WAITS_MS[attemptNumber]
      if (wait === undefined) {
        logger.error(
          { integration: attempt.integrationId, endpoint: record.endpoint, error: errorLine(error, 500) },
          'the row of an outbound call could not be written; the call itself is unaffected',
        )
        return null
      }
      await sleep(wait)
    }
}

/** A body as it is stored: redacted first, then cut. Bytes become a note of their size and digest. */
function storedText(body: unknown, secrets: readonly string[], maxBytes: number | null): string | null {
  if (body === undefined || body === null) return null
  if (body instanceof Uint8Array)
    return `[binary, ${body.length} bytes, sha256 ${createHash('sha256').update(body).digest('hex')}]`
  const text = typeof body === 'string' ? body : serialise(body)
  return withoutNul(cutToBytes(redactBody(text, secrets), maxBytes))
}

/** Postgres text can't hold U+0000: it must not cost the row. */
function withoutNul(text: string): string {
  return text.replaceAll('\u0000', '')
}

function serialise(body: unknown): string {
  try {
    return JSON.stringify(body) ?? '[not serialisable]'
  } catch {
    return '[not serialisable]'
  }
}
