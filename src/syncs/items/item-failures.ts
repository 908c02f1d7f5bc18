/** Failed items, written down as durable events. Rule: docs/behaviour/events.md, "Durable events". */
import { settle } from '../../claims/claimed-rows.ts'
import type { Database, Transaction } from '../../db/client.ts'
import type { SyncItemRow } from '../../db/schema/tables.ts'
import type { OwnedEvent } from '../../events/durable-events.ts'
import { recordOwnedEvents } from '../../events/durable-events.ts'
import type { Framework } from '../../framework/context.ts'
import { claimedItems, itemRecords } from './item-queries.ts'
import type { ItemRun } from './run-item.ts'

/** A claim, which fails the items that it refuses. @returns its rows */
export async function claimAndRecord(
  framework: Framework,
  claim: (db: Database | Transaction) => Promise<SyncItemRow[]>,
): Promise<SyncItemRow[]> {
  const { db, listeners } = framework
  if (!listeners.isDurable('SyncItemFailed')) return claim(db)
  return db.transaction(async (tx) => {
    const rows = await claim(tx)
    // The text is our own.
    const refused = rows
      .filter(({ status }) => status === 'failed')
      .map(({ id, error }) => ({ id, error: new Error(error ?? '') }))
    await recordFailures(framework, tx, refused)
    return rows
  })
}

/** Settles attempts, and stores the events of failed ones in the same transaction. @returns the ids that were settled */
export async function settleAndRecord(framework: Framework, runs: readonly ItemRun[]): Promise<Set<number>> {
  const { db, tables, listeners } = framework
  const settlements = runs.map(({ settlement }) => settlement)
  const keepsHashes = runs.some(({ row }) => row.recordHash !== null)
  const rows = claimedItems(tables, undefined, { keepsHashes })
  const failed = listeners.isDurable('SyncItemFailed') ? runs.filter(({ step }) => step.kind === 'fail') : []
  if (failed.length === 0) return settle(db, rows, settlements)
  return db.transaction(async (tx) => {
    const settled = await settle(tx, rows, settlements)
    const failures = failed.map(({ row, error, secrets }) => ({ id: row.id, error, secrets }))
    await recordFailures(
      framework,
      tx,
      failures.filter(({ id }) => settled.has(id)),
    )
    return settled
  })
}

interface ItemFailure {
  readonly id: number
  readonly error: unknown
  readonly secrets?: readonly string[]
}

/** With the rows as they are now: settled, and locked until the transaction ends. */
async function recordFailures(framework: Framework, tx: Transaction, failures: readonly ItemFailure[]): Promise<void> {
  const items = await itemRecords(
    tx,
    framework.tables,
    failures.map(({ id }) => id),
  )
  const events = failures.flatMap(({ id, error, secrets = [] }): OwnedEvent[] => {
    const item = items.get(id)
    if (item === undefined) return []
    return [{ integrationId: item.integrationId, name: 'SyncItemFailed', payload: { item, error }, secrets }]
  })
  await recordOwnedEvents(framework, tx, events)
}
