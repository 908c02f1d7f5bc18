/** Failed items, written down as durable events. Rule: docs/behaviour/events.md, "Durable events". */
import { settle } from '../../claims/claimed-rows.ts'
import type { Database, Transaction } from '../../db/client.ts'
import type { SyncItemRow } from '../../db/schema/tables.ts'
import type { OwnedEvent } from '../../events/durable-events.ts'
import { recordOwnedEvents } from '../../events/durable-events.ts'
import type { Framework } from '../../framework/context.ts'
import { claimedItems } from './item-queries.ts'
import type { ItemRun } from './run-item.ts'
import { itemRecord } from './run-item.ts'

/** A claim, which fails the items that it refuses. @returns its rows */
export async function claimAndRecord(
  framework: Framework,
  claim: (db: Database | Transaction) => Promise<SyncItemRow[]>,
): Promise<SyncItemRow[]> {
  const { db, listeners } = framework
  if (!listeners.isDurable('SyncItemFailed')) return claim(db)
  return db.transaction(async (tx) => {
    const rows = await claim(tx)
    const refused = rows.filter(({ status }) => status === 'failed')
    await recordOwnedEvents(
      framework,
      tx,
      // The text is our own.
      refused.map((row) => failure(row, row.error ?? '', { error: new Error(row.error ?? '') })),
    )
    return rows
  })
}

/** Settles attempts, and stores the events of failed ones in the same transaction. @returns the ids that were settled */
export async function settleAndRecord(framework: Framework, runs: readonly ItemRun[]): Promise<Set<number>> {
  const { db, tables, listeners } = framework
  const settlements = runs.map(({ settlement }) => settlement)
  const keepsHashes = runs.some(({ row }) => row.recordHash !== null)
  const rows = claimedItems(tables, undefined, { keepsHashes })
  const failures = listeners.isDurable('SyncItemFailed') ? failuresAmong(runs) : []
  if (failures.length === 0) return settle(db, rows, settlements)
  return db.transaction(async (tx) => {
    const settled = await settle(tx, rows, settlements)
    await recordOwnedEvents(
      framework,
      tx,
      failures.filter(({ payload }) => settled.has(payload.item.id)),
    )
    return settled
  })
}

type ItemFailure = Extract<OwnedEvent, { readonly name: 'SyncItemFailed' }>

function failuresAmong(runs: readonly ItemRun[]): ItemFailure[] {
  return runs.flatMap(({ row, step, error, secrets }) =>
    step.kind === 'fail' ? [failure(row, step.reason, { error, secrets })] : [],
  )
}

function failure(
  row: SyncItemRow,
  reason: string,
  { error, secrets = [] }: { readonly error: unknown; readonly secrets?: readonly string[] },
): ItemFailure {
  const { integrationId } = row
  return { integrationId, name: 'SyncItemFailed', payload: { item: itemRecord(row, reason), error }, secrets }
}
