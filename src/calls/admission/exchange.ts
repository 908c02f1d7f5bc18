/**
 * Brings together what all integrations of a process ask at the same moment: one statement, one commit.
 *
 * What comes while a statement is under way goes with the next one. Under load the cost of a call falls, and an idle call waits
 * for nobody. A statement that takes long waits for the disk or for a lock, and another one goes beside it. Rule: docs/behaviour/requests.md, "Joined statements".
 */
import { setImmediate as immediate } from 'node:timers/promises'
import { isAboutOneItem } from '../../framework/joiner.ts'

/** So many integrations at once at most: one statement must not hold their rows for long. */
const MAX_JOINED = 100
/** A statement of a hundred takes longer only if it waits. */
const LONG_MS = 2
/** Postgres: `lock_not_available`. Somebody holds one of the rows. */
const LOCKED = '55P03'

interface Waiting<Item, Result> {
  readonly item: Item
  readonly resolve: (result: Result | null) => void
  readonly reject: (error: unknown) => void
}

/** A result of null is undecided: for the integration's own statement to decide. */
export class Exchange<Item, Result> {
  readonly #queue: Waiting<Item, Result>[] = []
  readonly #work: (items: readonly Item[]) => Promise<readonly (Result | null)[]>
  readonly #atOnce: number
  readonly #order: ((a: Item, b: Item) => number) | null
  #underWay = 0
  #begunAt = Number.NEGATIVE_INFINITY

  /**
   * @param work one statement; its results stand in the order of its items
   * @param atOnce so many statements at most
   * @param order of the items of a statement, so that all processes take their locks in the same one; none: as they came
   */
  constructor(
    work: (items: readonly Item[]) => Promise<readonly (Result | null)[]>,
    atOnce = 1,
    order: ((a: Item, b: Item) => number) | null = null,
  ) {
    this.#work = work
    this.#atOnce = atOnce
    this.#order = order
  }

  add(item: Item): Promise<Result | null> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ item, resolve, reject })
      const isFree = this.#underWay === 0 || performance.now() - this.#begunAt > LONG_MS
      if (this.#underWay < this.#atOnce && isFree) void this.#run()
    })
  }

  async #run(): Promise<void> {
    this.#underWay += 1
    while (this.#queue.length > 0) {
      this.#begunAt = performance.now()
      const joined = this.#queue.splice(0, MAX_JOINED)
      const order = this.#order
      if (order !== null) joined.sort((a, b) => order(a.item, b.item))
      try {
        const results = await this.#work(joined.map(({ item }) => item))
        for (const [at, { resolve }] of joined.entries()) resolve(results[at] ?? null)
      } catch (error) {
        // One of them must not cost the others their row, or their call.
        const isOfOne = (joined.length > 1 && isAboutOneItem(error)) || isLocked(error)
        for (const { resolve, reject } of joined)
          if (isOfOne) resolve(null)
          else reject(error)
      }
      // Those who were answered come back, and with them what the network has brought meanwhile.
      if (joined.length > 1) await immediate()
    }
    this.#underWay -= 1
  }
}

function isLocked(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === LOCKED
}
