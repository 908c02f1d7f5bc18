/** What the webhooks or sync items of a batch need of their integration, read once for many of them. */

import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { secretsKnownTo } from '../framework/known-secrets.ts'
import type { Integration } from '../providers/integration.ts'
import { integrationHandle } from './handle.ts'
import { findIntegration } from './queries.ts'

/** A batch sees what changes in the row, such as that it is switched off, after this time. */
const MAX_AGE_MS = 250

export interface IntegrationContext {
  readonly row: IntegrationRow
  /** Shared by the rows of a batch, so its metadata and cursor are frozen: what one handler does, no other one sees. */
  readonly handle: Integration
  /** What of its credentials is redacted: ask again after a handler, which may have brought a new token. @throws CredentialsUnreadable */
  secrets(): readonly string[]
}

export function integrationContext(framework: Framework, row: IntegrationRow): IntegrationContext {
  const handle = integrationHandle(framework, row)
  frozen(handle.metadata)
  frozen(handle.syncCursor)
  return {
    row,
    handle,
    secrets() {
      // Its values are those that the handle gives to every handler.
      frozen(handle.credentialsArray())
      return secretsKnownTo(handle)
    },
  }
}

function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value))
    for (const inner of Object.values(Object.freeze(value))) frozen(inner)
  return value
}

/** Reads integrations for one batch: rows that start within 250 ms share a statement. Null: there is none. */
export function integrationReader(framework: Framework): (id: number) => Promise<IntegrationContext | null> {
  const reads = new Map<number, { startedAt: number; context: Promise<IntegrationContext | null> }>()

  async function read(id: number): Promise<IntegrationContext | null> {
    const row = await findIntegration(framework.db, framework.tables, id)
    return row === null ? null : integrationContext(framework, row)
  }

  return (id) => {
    const startedAt = performance.now()
    const known = reads.get(id)
    if (known !== undefined && startedAt - known.startedAt < MAX_AGE_MS) return known.context
    const context = read(id)
    reads.set(id, { startedAt, context })
    // Whoever asks next must not be told of a fault that may be over.
    context.catch(() => {
      if (reads.get(id)?.context === context) reads.delete(id)
    })
    return context
  }
}
