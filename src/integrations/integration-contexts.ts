/** What the webhooks of many integrations need of theirs, kept for as long as each row is as it was. */

import type { Framework } from '../framework/context.ts'
import type { Subject } from '../observability/metrics.ts'
import { UNKNOWN_PROVIDER } from '../observability/metrics.ts'
import type { IntegrationContext } from './integration-context.ts'
import { integrationContext } from './integration-context.ts'
import { integrationsWithVersion } from './queries.ts'

/** A row that starts later sees what has changed in its integration since, such as that it is switched off. */
const MAX_AGE_MS = 250
/** More than a process is likely to serve; the one that was used longest ago goes first. */
const MAX_KEPT = 10_000

interface Kept {
  /** The row's `xmin`; null: there is no such row. */
  readonly version: string | null
  readonly context: IntegrationContext | null
  /** By performance.now(): the row was like this then. */
  readonly seenAt: number
}

export class IntegrationContexts {
  readonly #framework: Framework
  readonly #kept = new Map<number, Kept>()
  readonly #reading = new Map<number, Promise<void>>()

  constructor(framework: Framework) {
    this.#framework = framework
  }

  /**
   * Those whose row is another than the one that is kept are read, by one statement.
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

  /** As it was at most 250 ms ago. Null: there is none. */
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

  subject(id: number): Subject {
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
