/** What work is part of, so that the rows that it writes can say where they come from. Rule: docs/behaviour/explain.md, "Origin". */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Tables } from '../db/schema/tables.ts'

/** Kinds of rows that work can be part of. */
export type OriginKind = 'webhook' | 'item' | 'run' | 'log' | 'event'

/** Of the same deployment: a process may serve two, each with tables of its own. */
const around = new AsyncLocalStorage<{ readonly tables: Tables; readonly origin: string }>()

/** Runs work that is part of a row. What is inside may be part of another row: the nearest counts. */
export function asPartOf<T>(tables: Tables, kind: OriginKind, id: number, work: () => T): T {
  return around.run({ tables, origin: `${kind}:${id}` }, work)
}

/** Such as `webhook:4711`; null: no row's. */
export function currentOrigin(tables: Tables): string | null {
  const found = around.getStore()
  return found?.tables === tables ? found.origin : null
}
