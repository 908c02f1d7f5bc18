/**
 * One of the processes whose operations are judged: `<number>`. It does one round after the other, as the test tells it over IPC.
 * Database and keys come from the environment.
 */
import { createIntegrations, partsOf } from '../../src/create-integrations.ts'
import { lostDatabase } from '../../src/framework/lost-database.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { seeded } from '../chaos/seeded-kills.ts'
import { claimOn } from './claims.ts'
import { History } from './history.ts'
import type { Lane, Round, SubjectKind } from './lane.ts'
import { writeOn } from './ledger.ts'
import { admitOn } from './limiter.ts'
import { lockOn } from './locks.ts'
import type { StatementEdit } from './statement-edits.ts'
import { editStatements } from './statement-edits.ts'
import { LOCK_SECONDS, OAUTH, refreshOn } from './tokens.ts'

/** What a process is told. */
export interface RoundOrder extends Round {
  readonly history: string
  readonly edits: readonly StatementEdit[]
  /** A refresh takes the row that it read without the lock for the one under it. */
  readonly staleRead: boolean
}

export type Said =
  | { readonly kind: 'ready' }
  | { readonly kind: 'done'; readonly edited: number }
  | { readonly kind: 'failed'; readonly message: string }

const LANES: Readonly<Record<SubjectKind, number>> = { claims: 4, limiter: 3, ledger: 3, locks: 3, tokens: 2 }
const SLICE_MS = 500
const LANES_IN_ALL = Object.values(LANES).reduce((sum, lanes) => sum + lanes)

const number = Number(process.argv[2])
const say = (said: Said): void => void process.send?.(said)
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const integrations = createIntegrations({
  providers: {
    plain: {},
    knowing: { supportsIdempotency: true, idempotencyWindowSeconds: 86_400 },
    oauth: OAUTH,
  },
  config: {
    circuit_breaker: { enabled: false },
    health: { disabled_after: null },
    oauth: { refresh_lock_ttl: LOCK_SECONDS, refresh_lock_wait: 3 },
  },
  logger: silent,
})
const { framework } = partsOf(integrations)

/** A lane whose session with Postgres was cut goes on with the next operation. The one that was cut has no end in the history. */
async function throughCuts(work: () => Promise<void>): Promise<void> {
  for (;;)
    try {
      return await work()
    } catch (error) {
      if (lostDatabase(error) === null) throw error
    }
}

/** Its second look gives what the first one saw. */
function withStaleRead(handle: Integration): Integration {
  let first: Promise<Integration> | undefined
  return new Proxy(handle, {
    get(target, name) {
      if (name === 'refresh')
        return () => {
          first ??= target.refresh()
          return first
        }
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

async function perform(order: RoundOrder): Promise<void> {
  const history = new History(order.history)
  editStatements(order.edits)
  const startedAt = performance.now()
  const sinceStart = (): number => performance.now() - startedAt
  let names = 0
  const laneOf = (index: number): Lane => ({
    framework,
    history,
    round: order,
    client: number * LANES_IN_ALL + index,
    random: seeded(order.seed + number * LANES_IN_ALL + index),
    name: () => {
      names += 1
      return `${number}-${names}`
    },
    isOver: () => sinceStart() >= order.seconds * 1_000,
    slice: () => Math.floor(sinceStart() / SLICE_MS),
  })
  const { plain, knowing, oauth } = order.integrations
  const handles = { plain: await integrations.get(plain), knowing: await integrations.get(knowing) }
  const work: Readonly<Record<SubjectKind, (lane: Lane) => Promise<void>>> = {
    claims: claimOn,
    limiter: admitOn,
    ledger: (lane) => writeOn(lane, handles),
    locks: lockOn,
    tokens: (lane) =>
      refreshOn(lane, () => integrations.get(oauth), order.staleRead ? withStaleRead : (handle) => handle),
  }
  let lanes = 0
  const running: Promise<void>[] = []
  for (const subject of order.subjects)
    for (let times = LANES[subject]; times > 0; times -= 1) {
      const lane = laneOf(lanes)
      running.push(throughCuts(() => work[subject](lane)))
      lanes += 1
    }
  await Promise.all(running)
  say({ kind: 'done', edited: editStatements([]) })
}

process.on('disconnect', () => process.exit(1))
process.on('message', (message) => {
  perform(message as RoundOrder).catch((error: unknown) => {
    say({ kind: 'failed', message: error instanceof Error ? (error.stack ?? error.message) : String(error) })
  })
})
await integrations.ready()
say({ kind: 'ready' })
