/** Judges arrivals: what says only what we wrote ourselves is own. Rule: docs/behaviour/echoes.md, "An arrival". */
import type { Framework } from '../framework/context.ts'
import { patiently } from '../framework/waiting.ts'
import type { Subject } from '../observability/metrics.ts'
import { withArrival } from '../providers/arrival.ts'
import type { IntegrationProvider, Told } from '../providers/contracts.ts'
import { recognisesEchoes } from '../providers/contracts.ts'
import { hashedRecord } from './told-record.ts'
import { hear, heard } from './written-record-queries.ts'

export interface Arriving {
  readonly framework: Framework
  /** Its id is known. */
  readonly integration: Subject & { readonly id: number }
  readonly provider: IntegrationProvider | null
  readonly kind: 'webhook' | 'item'
  /** Of its row. */
  readonly id: number
  /** What an earlier attempt found; null: none has. */
  readonly judged: boolean | null
  /** Whether no earlier attempt can have run. */
  readonly isFirst: boolean
  readonly told: () => Told
  readonly signal: AbortSignal
}

/**
 * Handles an arrival that has been judged. Once foreign it stays foreign: an attempt that failed may have written itself what came,
 * and has not done the rest of its work.
 *
 * @param handle told whether it is own; null: not judged
 * @throws what the provider's `toldRecord()` throws, and what the handler throws
 */
export async function handleArrival<T>(
  { framework, integration, provider, kind, id, judged, isFirst, told, signal }: Arriving,
  handle: (isOwn: boolean | null) => T | Promise<T>,
): Promise<T> {
  if (framework.isRehearsal === true)
    return judged === null ? handle(null) : withArrival({ ref: `${kind}:${id}`, isOwn: judged }, () => handle(judged))
  const { db, tables, logger, metrics } = framework
  const record = provider !== null && recognisesEchoes(provider) ? hashedRecord(provider, told()) : null
  if (record === null) return handle(null)
  const trying = <R>(statement: () => Promise<R>): Promise<R> => patiently('echoes', statement, { signal, logger })
  const isOwn = await trying(() => hear(db, tables, integration.id, record, judged ?? isFirst))
  if (isOwn) metrics.echoArrived(integration, kind)
  const arrival = { ref: `${kind}:${id}`, isOwn }
  try {
    return await withArrival(arrival, () => handle(isOwn))
  } finally {
    if (!isOwn) await trying(() => heard(db, tables, integration.id, record.key, arrival))
  }
}
