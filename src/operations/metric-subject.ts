/** Whose something is that is counted or logged. Rules: docs/behaviour/metrics.md, "Labels"; docs/behaviour/logs.md, "Fields". */
import type { Subject } from '../core/metrics.ts'
import { UNKNOWN_PROVIDER } from '../core/metrics.ts'
import { findIntegration } from '../db/queries/integrations.ts'
import type { Framework } from '../framework.ts'
import type { IntegrationContext } from './integration-context.ts'

/** For what happens rarely. Never throws: what is told of has happened, whether or not its provider can be told. */
export async function subjectOf({ db, tables }: Framework, id: number): Promise<Subject> {
  const row = await findIntegration(db, tables, id).catch(() => null)
  return row ?? { id, provider: UNKNOWN_PROVIDER }
}

/** The integrations of a batch: each that was read for its rows is known when they are settled. */
export class BatchSubjects {
  readonly #rows = new Map<number, Subject>()
  readonly #read: (id: number) => Promise<IntegrationContext | null>

  /** @param read as {@link integrationReader} gives it */
  constructor(read: (id: number) => Promise<IntegrationContext | null>) {
    this.#read = read
  }

  /** Reads it, and notes whose it is. */
  async read(id: number): Promise<IntegrationContext | null> {
    const context = await this.#read(id)
    if (context !== null) this.#rows.set(id, context.row)
    return context
  }

  /** For rows that are settled without having run. Never throws. */
  async note(id: number): Promise<void> {
    if (!this.#rows.has(id)) await this.read(id).catch(() => null)
  }

  of(id: number): Subject {
    return this.#rows.get(id) ?? { id, provider: UNKNOWN_PROVIDER }
  }
}
