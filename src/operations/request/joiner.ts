/**
 * Joins what waits for the same integration at the same moment into one statement: under load the cost of a call falls,
 * and an idle call waits for nobody.
 */
import type { IntegrationIdentity } from '../../core/errors.ts'

/** So many at once at most, or so many bytes: one statement must not hold the row, or the wire, for long. */
const MAX_ITEMS = 100
const MAX_BYTES = 1_048_576

/** What of an integration a statement needs. */
type Identity = Pick<IntegrationIdentity, 'id' | 'provider'>

interface Waiting<Item, Result> {
  readonly item: Item
  readonly bytes: number
  readonly resolve: (result: Result) => void
  readonly reject: (error: unknown) => void
}

export class Joiner<Item, Result> {
  readonly #queues = new Map<number, Waiting<Item, Result>[]>()
  readonly #work: (integration: Identity, items: readonly Item[]) => Promise<readonly Result[]>

  /** @param work one statement; its results stand in the order of its items */
  constructor(work: (integration: Identity, items: readonly Item[]) => Promise<readonly Result[]>) {
    this.#work = work
  }

  add(integration: Identity, item: Item, bytes = 0): Promise<Result> {
    return new Promise((resolve, reject) => {
      const waiting = { item, bytes, resolve, reject }
      const queue = this.#queues.get(integration.id)
      if (queue !== undefined) {
        queue.push(waiting)
        return
      }
      this.#queues.set(integration.id, [waiting])
      void this.#run(integration)
    })
  }

  /** One statement after the other while somebody waits. */
  async #run(integration: Identity): Promise<void> {
    const queue = this.#queues.get(integration.id) ?? []
    while (queue.length > 0) {
      const joined = take(queue)
      try {
        const results = await this.#work(
          integration,
          joined.map(({ item }) => item),
        )
        for (const [index, { resolve }] of joined.entries()) resolve(results[index] as Result)
      } catch (error) {
        if (joined.length > 1 && isAboutOneItem(error)) await this.#oneByOne(integration, joined)
        else for (const { reject } of joined) reject(error)
      }
    }
    this.#queues.delete(integration.id)
  }

  /** Something in one of them is refused: that must not cost the others their row. */
  async #oneByOne(integration: Identity, joined: readonly Waiting<Item, Result>[]): Promise<void> {
    for (const { item, resolve, reject } of joined)
      try {
        const [result] = await this.#work(integration, [item])
        resolve(result as Result)
      } catch (error) {
        reject(error)
      }
  }
}

/** A value that a column can't hold, or a rule of the table: SQLSTATE classes 22 and 23. */
export function isAboutOneItem(error: unknown): boolean {
  return error instanceof Error && 'code' in error && /^2[23]...$/.test(String(error.code))
}

function take<Item, Result>(queue: Waiting<Item, Result>[]): Waiting<Item, Result>[] {
  let count = 0
  let bytes = 0
  while (
    count < Math.min(queue.length, MAX_ITEMS) &&
    (count === 0 || bytes + (queue[count]?.bytes ?? 0) <= MAX_BYTES)
  ) {
    bytes += queue[count]?.bytes ?? 0
    count += 1
  }
  return queue.splice(0, count)
}
