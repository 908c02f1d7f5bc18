/** Whose something is that is counted or logged. Rules: docs/behaviour/metrics.md, "Labels"; docs/behaviour/logs.md, "Fields". */
import type { Subject } from '../core/metrics.ts'
import { UNKNOWN_PROVIDER } from '../core/metrics.ts'
import type { Framework } from '../framework.ts'
import type { IntegrationContext } from './integration-context.ts'
import { providerOf } from './provider-of.ts'

/** Nobody is kept waiting longer for a word in a log line. */
const PATIENCE_MS = 2_000

/** Never throws, and never waits long: what is told of has happened, whether or not its provider can be told. */
export async function subjectOf(framework: Framework, id: number): Promise<Subject> {
  let timer: NodeJS.Timeout | undefined
  const tooLate = new Promise<null>((resolve) => {
    timer = setTimeout(resolve, PATIENCE_MS, null)
  })
  const provider = await Promise.race([providerOf(framework, id), tooLate])
  clearTimeout(timer)
  return { id, provider: provider ?? UNKNOWN_PROVIDER }
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
