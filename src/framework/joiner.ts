/**
 * Joins what waits at the same moment into one statement: under load the cost of each falls, and what comes alone waits for
 * nobody.
 */
import { setImmediate as immediate } from 'node:timers/promises'
import type { IntegrationIdentity } from './errors.ts'

/** So many at once at most, or so many bytes: one statement must not hold its rows, or the wire, for long. */
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

/** One statement; its results stand in the order of its items. */
type Work<Item, Result> = (items: readonly Item[]) => Promise<readonly Result[]>

/** Joins all that it is given. */
export class JoiningQueue<Item, Result> {
  readonly #work: Work<Item, Result>
  readonly #atOnce: number
  readonly #gathers: boolean
  readonly #onRest: () => void
  readonly #waiting: Waiting<Item, Result>[] = []
  #underWay = 0

  /**
   * @param atOnce so many statements at most: while one waits for the disk, another one is prepared
   * @param gathers waits for a turn of the event loop after a joined statement: those who were answered come back, and with
   *   them what the network has brought meanwhile
   * @param onRest called whenever nobody waits any more
   */
  constructor(
    work: Work<Item, Result>,
    {
      atOnce = 1,
      gathers = false,
      onRest = () => {},
    }: { atOnce?: number; gathers?: boolean; onRest?: () => void } = {},
  ) {
    this.#work = work
    this.#atOnce = atOnce
    this.#gathers = gathers
    this.#onRest = onRest
  }

  add(item: Item, bytes = 0): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, bytes, resolve, reject })
      if (this.#underWay < this.#atOnce) void this.#run()
    })
  }

  /** One statement after the other while somebody waits. */
  async #run(): Promise<void> {
    this.#underWay += 1
    while (this.#waiting.length > 0) {
      const joined = take(this.#waiting)
      try {
        const results = await this.#work(joined.map(({ item }) => item))
        for (const [index, { resolve }] of joined.entries()) resolve(results[index] as Result)
      } catch (error) {
        if (joined.length > 1 && isAboutOneItem(error)) await this.#oneByOne(joined)
        else for (const { reject } of joined) reject(error)
      }
      if (this.#gathers && joined.length > 1) await immediate()
    }
    this.#underWay -= 1
    if (this.#underWay === 0) this.#onRest()
  }

  /** Something in one of them is refused: that must not cost the others their row. */
  async #oneByOne(joined: readonly Waiting<Item, Result>[]): Promise<void> {
    for (const { item, resolve, reject } of joined)
      try {
        const [result] = await this.#work([item])
        resolve(result as Result)
      } catch (error) {
        reject(error)
      }
  }
}

/** Joins what is about the same integration. */
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
