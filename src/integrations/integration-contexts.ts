/** The integrations of webhooks and sync items, read once for many of them. */

import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { secretsKnownTo } from '../framework/known-secrets.ts'
import type { IntegrationSubject } from '../observability/metric-subject.ts'
import { UNKNOWN_PROVIDER } from '../observability/metrics.ts'
import type { Integration } from '../providers/integration.ts'
import { integrationHandle } from './handle.ts'
import { integrationsWithVersion } from './queries.ts'

/** A change of the integration, such as that it is switched off, is seen by the webhooks and items that start later than this. */
const MAX_AGE_MS = 250

export interface IntegrationContext {
  readonly row: IntegrationRow
  /** Shared by the rows of a batch, so its metadata and cursor are frozen: no handler sees what another one does. */
  readonly handle: Integration
  /** The secrets to redact. Ask again after a handler, which may have brought a new token. @throws CredentialsUnreadable */
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
      // The handle gives these very values to every handler.
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

/** More than a process is likely to serve; the least recently used goes first. */
const MAX_KEPT = 10_000

interface Kept {
  /** The row's `xmin`; null: there is no such row. */
  readonly version: string | null
  readonly context: IntegrationContext | null
  /** By performance.now(): the row was like this then. */
  readonly seenAt: number
}

/** The integrations of a pump's webhooks or of a batch of items, kept while each row is as it was. */
export class IntegrationContexts {
  readonly #framework: Framework
  readonly #kept = new Map<number, Kept>()
  readonly #reading = new Map<number, Promise<void>>()

  constructor(framework: Framework) {
    this.#framework = framework
  }

  /**
   * Reads the integrations whose row has changed, by one statement.
   *
   * @param versions the `xmin` of each integration, as it was at `seenAt` or later
   */
  async refresh(versions: ReadonlyMap<number, string>, seenAt: number): Promise<void> {
    const changed: number[] = []
    for (const [id, version] of versions) {
      const kept = this.#kept.get(id)
      if (kept?.version === version) this.#keep(id, { ...kept, seenAt })
      else changed.push(id)
    }
    if (changed.length > 0) await this.#read(changed)
  }

  /** As it was at most 250 ms ago, or when the read began that this call joins. Null: there is none. */
  async read(id: number): Promise<IntegrationContext | null> {
    const fresh = this.#fresh(id)
    if (fresh !== undefined) return fresh.context
    let reading = this.#reading.get(id)
    if (reading === undefined) {
      reading = this.#read([id]).finally(() => this.#reading.delete(id))
      this.#reading.set(id, reading)
    }
    await reading
    return this.#kept.get(id)?.context ?? null
  }

  /** As it was last seen, however long ago. Null: there is none, or it has not been read. */
  known(id: number): IntegrationContext | null {
    return this.#kept.get(id)?.context ?? null
  }

  subject(id: number): IntegrationSubject {
    return this.known(id)?.row ?? { id, provider: UNKNOWN_PROVIDER }
  }

  async #read(ids: readonly number[]): Promise<void> {
    const seenAt = performance.now()
    const rows = await integrationsWithVersion(this.#framework.db, this.#framework.tables, ids)
    for (const id of ids) {
      const found = rows.get(id)
      const kept = this.#kept.get(id)
      if (found === undefined) this.#keep(id, { version: null, context: null, seenAt })
      else if (kept?.version === found.version) this.#keep(id, { ...kept, seenAt })
      else this.#keep(id, { version: found.version, context: integrationContext(this.#framework, found.row), seenAt })
    }
  }

  #fresh(id: number): Kept | undefined {
    const kept = this.#kept.get(id)
    return kept !== undefined && performance.now() - kept.seenAt < MAX_AGE_MS ? kept : undefined
  }

  #keep(id: number, kept: Kept): void {
    this.#kept.delete(id)
    this.#kept.set(id, kept)
    if (this.#kept.size <= MAX_KEPT) return
    const [oldest = id] = this.#kept.keys()
    this.#kept.delete(oldest)
  }
}
