/**
 * Joins what waits at the same moment into one statement. Under load the cost of each item falls; an item that comes alone does not wait.
 */
import { setImmediate as immediate } from 'node:timers/promises'
import type { IntegrationIdentity } from './errors.ts'

/** The most that is joined: one statement must not hold its rows, or the wire, for long. */
const MAX_ITEMS = 100
const MAX_BYTES = 1_048_576
/** Postgres: `lock_not_available`. Another transaction holds one of the rows. */
const LOCKED = '55P03'

/** What of an integration a statement needs. */
type Identity = Pick<IntegrationIdentity, 'id' | 'provider'>

interface Waiting<Item, Result> {
  readonly item: Item
  readonly bytes: number
  readonly resolve: (result: Result) => void
  readonly reject: (error: unknown) => void
}

/** One statement; its results stand in the order of its items. */
type Work<Item, Result> = (items: readonly Item[]) => Promise<readonly Result[]>

export interface JoiningOptions<Item, Result> {
  /** How many statements run at once at most: while one waits for the disk, another one is prepared. Default 1. */
  readonly atOnce?: number
  /** A statement goes beside another one only when the last one has been under way for longer. Default: at once. */
  readonly besideAfterMs?: number
  /**
   * Waits for a turn of the event loop after a joined statement: callers that were answered come back, and with them what the network
   * has brought meanwhile.
   */
  readonly gathers?: boolean
  /** Order of the items in a statement, so that all processes take their locks in the same one. Default: as they came. */
  readonly order?: (a: Item, b: Item) => number
  /**
   * Result for all items of a statement that one item has spoilt, or that met a locked row: the caller decides each by other means.
   * Default: spoilt items are asked for again, one by one, and a locked row is an error.
   */
  readonly undecided?: Result
  /** Called whenever the queue has become empty. */
  readonly onRest?: () => void
}

/** Joins all items that it is given. */
export class JoiningQueue<Item, Result> {
  readonly #work: Work<Item, Result>
  readonly #options: JoiningOptions<Item, Result>
  readonly #waiting: Waiting<Item, Result>[] = []
  #underWay = 0
  #begunAt = 0

  constructor(work: Work<Item, Result>, options: JoiningOptions<Item, Result> = {}) {
    this.#work = work
    this.#options = options
  }

  add(item: Item, bytes = 0): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, bytes, resolve, reject })
      if (this.#mayBegin()) void this.#run()
    })
  }

  #mayBegin(): boolean {
    if (this.#underWay === 0) return true
    const { atOnce = 1, besideAfterMs } = this.#options
    if (this.#underWay >= atOnce) return false
    return besideAfterMs === undefined || performance.now() - this.#begunAt > besideAfterMs
  }

  /** One statement after the other while items wait. */
  async #run(): Promise<void> {
    const { order, gathers, onRest } = this.#options
    this.#underWay += 1
    while (this.#waiting.length > 0) {
      this.#begunAt = performance.now()
      const joined = take(this.#waiting)
      if (order !== undefined) joined.sort((a, b) => order(a.item, b.item))
      try {
        const results = await this.#work(joined.map(({ item }) => item))
        for (const [index, { resolve }] of joined.entries()) resolve(results[index] as Result)
      } catch (error) {
        await this.#failed(joined, error)
      }
      if (gathers && joined.length > 1) await immediate()
    }
    this.#underWay -= 1
    if (this.#underWay === 0) onRest?.()
  }

  /** One item that is refused must not cost the others their row. */
  async #failed(joined: readonly Waiting<Item, Result>[], error: unknown): Promise<void> {
    const { undecided } = this.#options
    const isSpoilt = joined.length > 1 && isAboutOneItem(error)
    if (undecided !== undefined && (isSpoilt || codeOf(error) === LOCKED))
      for (const { resolve } of joined) resolve(undecided)
    else if (!isSpoilt) for (const { reject } of joined) reject(error)
    else
      for (const { item, resolve, reject } of joined)
        try {
          const [result] = await this.#work([item])
          resolve(result as Result)
        } catch (ownError) {
          reject(ownError)
        }
  }
}

/** Joins items of the same integration. */
export class Joiner<Item, Result> {
  readonly #queues = new Map<number, JoiningQueue<Item, Result>>()
  readonly #work: (integration: Identity, items: readonly Item[]) => Promise<readonly Result[]>

  /** @param work one statement; its results stand in the order of its items */
  constructor(work: (integration: Identity, items: readonly Item[]) => Promise<readonly Result[]>) {
    this.#work = work
  }

  add(integration: Identity, item: Item, bytes = 0): Promise<Result> {
    const { id } = integration
    let queue = this.#queues.get(id)
    if (queue === undefined) {
      queue = new JoiningQueue((items) => this.#work(integration, items), { onRest: () => this.#queues.delete(id) })
      this.#queues.set(id, queue)
    }
    return queue.add(item, bytes)
  }
}

/** A value that a column can't hold, or a rule of the table: SQLSTATE classes 22 and 23. */
export function isAboutOneItem(error: unknown): boolean {
  return /^2[23]...$/.test(codeOf(error))
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
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
