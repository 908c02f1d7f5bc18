/** Notes what a call writes, for `RequestOptions.writes`. Rule: docs/behaviour/echoes.md, "A write". */
import { randomUUID } from 'node:crypto'
import type { PlannedCall } from '../calls/call.ts'
import type { Json } from '../framework/json.ts'
import { integrationLogger } from '../framework/logger.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import { currentArrival } from '../providers/arrival.ts'
import { recognisesEchoes } from '../providers/contracts.ts'
import { loopRule, openLoop } from './loops.ts'
import type { HashedRecord } from './told-record.ts'
import { contentHash, hashedRecord, storedKey } from './told-record.ts'
import type { Write } from './written-record-queries.ts'
import { beginWrite, forgetWrite, noteWrite } from './written-record-queries.ts'

/** The answer of a call that succeeded. */
export interface WriteAnswer {
  readonly body: unknown
  readonly requestId: number | null
}

export interface TrackedWrite {
  /** Before the first attempt; again it does nothing. If it fails, the provider is not called. */
  begin(): Promise<void>
  /** Without a beginning it does nothing. @param answer null: the call failed. Never throws: the call has been made. */
  end(answer: WriteAnswer | null): Promise<void>
}

/** Null: the call writes no record. */
export function trackWrite(call: PlannedCall): TrackedWrite | null {
  const { framework, integration, options, provider } = call
  const { db, tables } = framework
  // Without toldRecord() no arrival is judged, so no arrival would read the note.
  if (options.writes === undefined || !recognisesEchoes(provider)) return null
  const { record, content } = options.writes
  const write: Write = {
    integrationId: integration.id,
    id: randomUUID(),
    key: record === null ? null : storedKey(record),
  }
  let hasBegun = false
  return {
    async begin() {
      if (hasBegun) return
      const { isNewLoop } = await beginWrite(db, tables, write, currentArrival(), loopRule(framework))
      hasBegun = true
      if (isNewLoop && write.key !== null) await openLoop(framework, integration, write.key)
    },
    async end(answer) {
      if (!hasBegun) return
      try {
        const told = answer === null ? null : toldBy(call, write, content, answer.body)
        if (told === null) await forgetWrite(db, tables, write)
        else await noteWrite(db, tables, write, told, answer?.requestId ?? null)
      } catch (error) {
        integrationLogger(framework, integration).warn(
          { event: 'echo.write_unnoted', error: redactedErrorLine(error, call.secrets(), 500) },
          'what a call has written could not be noted: its echo will count as foreign',
        )
      }
    },
  }
}

/** Null: the answer is of no record, or of another one than the call named. */
function toldBy(
  { provider }: PlannedCall,
  write: Write,
  content: Json | undefined,
  body: unknown,
): HashedRecord | null {
  if (content !== undefined && write.key !== null) return { key: write.key, hash: contentHash(content) }
  if (!recognisesEchoes(provider)) return null
  const told = hashedRecord(provider, { kind: 'answer', body: body as Json })
  return told !== null && (write.key === null || told.key === write.key) ? told : null
}
