/**
 * The rows that a pump holds: a queue and some lanes for each integration, so that a slow one holds up no other. An integration may
 * have several queues; then each counts as one integration here.
 *
 * Rule: docs/behaviour/webhooks.md, "Fairness".
 */

import type { Version } from '../webhooks/stale-rules.ts'
import { compareVersions } from '../webhooks/stale-rules.ts'
import type { ClaimRoom } from './claimed-rows.ts'

/** Rows that a pump holds at most, and how many bytes of them. */
const MAX_HELD = 4_000
const MAX_HELD_BYTES = 64 * 1_024 * 1_024
/** The assumed size of a row before the first one has come. */
const LARGE_BYTES = 1_024 * 1_024
/** Rows and integrations of one claim. */
const MAX_CLAIM = 400
const MAX_WALK = 300
/** Of a fast integration, a second's work is claimed at once, within these bounds. */
const SMALLEST_ROOM = 20
const LARGEST_ROOM = 200
/** An integration whose handlers take longer is slow: nothing of it is claimed before it can start. */
const SLOW_MS = 1_000
/** Slow integrations hold together at most half of all. */
const MAX_SLOW_HELD = MAX_HELD / 2
/** Outcomes of an integration that are not stored yet; above it nothing of it starts. */
const MAX_UNSETTLED = 200
/** After a row whose handler could not be asked, its queue rests for this time. */
const REST_MS = 2_000
/** For this time after its last row an integration is remembered: with a backlog the next claim gets a second's work again. */
const KNOWN_MS = 1_000
/** How much of an average the newest value is. */
const NEWEST_SHARE = 0.2

/** A row in its queue. */
export interface Queued<Row> {
  readonly row: Row
  /** Of its integration; what is pumped may have several queues for one, each with lanes of its own. */
  readonly queue: number
  readonly bytes: number
  /** By performance.now(). It does not start later. */
  readonly startBy: number
  /** Rows of the same key run one at a time, the newest version first. */
  readonly guarded: { readonly key: string; readonly version: Version } | null
  /** It has an ordering key: its outcome is stored apart from those without one. Default false. */
  readonly isOrdered?: boolean
}

/** What may be claimed next. */
export interface Room extends Omit<ClaimRoom, 'after'> {
  /** Some integration gets nothing now, so an empty claim does not mean that nothing waits. */
  readonly isPartial: boolean
}

interface Tenant<Row> {
  readonly id: number
  waiting: Queued<Row>[]
  /** When each of them began, by performance.now(). */
  readonly running: Map<Row, number>
  unsettled: number
  /** Of its handlers; null: none has ended yet. */
  averageMs: number | null
  readonly busyKeys: Set<string>
  restsUntil: number
  knownUntil: number
}

export class Queues<Row> {
  readonly #tenants = new Map<number, Tenant<Row>>()
  /** Of slow integrations that have no rows here now. */
  readonly #averages = new Map<number, number>()
  readonly #concurrency: number
  #held = 0
  #heldBytes = 0
  #averageBytes = LARGE_BYTES

  /** @param concurrency of one integration */
  constructor(concurrency: number) {
    this.#concurrency = concurrency
  }

  get held(): number {
    return this.#held
  }

  get queues(): number {
    return this.#tenants.size
  }

  /** Whether some integration has more to do than its lanes take. */
  get isPressed(): boolean {
    for (const tenant of this.#tenants.values())
      if (tenant.waiting.length > 0 && tenant.running.size >= this.#concurrency) return true
    return this.#held >= MAX_HELD / 2
  }

  add(rows: readonly Queued<Row>[]): void {
    for (const queued of rows) {
      this.#held += 1
      this.#heldBytes += queued.bytes
      this.#averageBytes += (queued.bytes - this.#averageBytes) * NEWEST_SHARE
      this.#tenantOf(queued.queue).waiting.push(queued)
    }
  }

  /** The next row that may start, of this queue; null: none may. `done()` frees its lane. */
  take(queue: number): Queued<Row> | null {
    const tenant = this.#tenants.get(queue)
    if (tenant === undefined || tenant.running.size >= this.#concurrency) return null
    if (tenant.unsettled >= MAX_UNSETTLED || tenant.restsUntil > performance.now()) return null
    const at = tenant.waiting.findIndex(({ guarded }) => guarded === null || !tenant.busyKeys.has(guarded.key))
    const first = tenant.waiting[at]
    if (first === undefined) return null
    const newest = first.guarded === null ? at : newestOf(tenant.waiting, at)
    const taken = tenant.waiting[newest] as Queued<Row>
    // The older one keeps the place in which it stood.
    if (newest !== at) tenant.waiting[newest] = first
    tenant.waiting.splice(at, 1)
    if (taken.guarded !== null) tenant.busyKeys.add(taken.guarded.key)
    tenant.running.set(taken.row, performance.now())
    return taken
  }

  /** A row that was taken has ended: with an outcome, which is to be settled, or without one. */
  done({ row, queue, bytes, guarded }: Queued<Row>, hasOutcome: boolean): void {
    const tenant = this.#tenantOf(queue)
    const tookMs = performance.now() - (tenant.running.get(row) ?? performance.now())
    tenant.running.delete(row)
    if (guarded !== null) tenant.busyKeys.delete(guarded.key)
    this.#heldBytes -= bytes
    if (hasOutcome) {
      tenant.unsettled += 1
      tenant.averageMs =
        tenant.averageMs === null ? tookMs : tenant.averageMs + (tookMs - tenant.averageMs) * NEWEST_SHARE
    } else {
      tenant.restsUntil = performance.now() + REST_MS
      this.#leave(tenant)
    }
  }

  /** The outcome of a row is stored, or will never be. */
  settled(queue: number): void {
    const tenant = this.#tenantOf(queue)
    tenant.unsettled -= 1
    this.#leave(tenant)
  }

  /** Whether more rows of it wait here: its outcomes may wait for each other. */
  hasBacklog(queue: number): boolean {
    return (this.#tenants.get(queue)?.waiting.length ?? 0) > 0
  }

  /** Queues with rows that have not started. */
  waiting(): number[] {
    return [...this.#tenants.values()].filter(({ waiting }) => waiting.length > 0).map(({ id }) => id)
  }

  /** Rows that have not started. */
  unstarted(): Row[] {
    return [...this.#tenants.values()].flatMap(({ waiting }) => waiting.map(({ row }) => row))
  }

  /** Takes out the rows that have waited for too long. */
  takeLate(): Row[] {
    const now = performance.now()
    return this.takeOut(({ startBy }) => startBy <= now)
  }

  /** Takes out rows that have not started. Default: all. */
  takeOut(which: (queued: Queued<Row>) => boolean = () => true): Row[] {
    const out: Row[] = []
    for (const tenant of [...this.#tenants.values()]) {
      const taken = new Set(tenant.waiting.filter(which))
      if (taken.size === 0) continue
      tenant.waiting = tenant.waiting.filter((queued) => !taken.has(queued))
      for (const { row, bytes } of taken) {
        out.push(row)
        this.#heldBytes -= bytes
        this.#leave(tenant)
      }
    }
    return out
  }

  room(): Room {
    const now = performance.now()
    let slowHeld = 0
    // An integration that is not known yet may be slow as well.
    for (const tenant of this.#tenants.values())
      if (tenant.averageMs === null || this.#isSlow(tenant, now)) slowHeld += held(tenant)
    const isCrowded = slowHeld >= MAX_SLOW_HELD
    const rooms: Record<string, number> = {}
    let isPartial = false
    for (const tenant of this.#tenants.values()) {
      const has = held(tenant)
      if (has === 0 && tenant.restsUntil <= now && tenant.knownUntil <= now) {
        this.#forget(tenant)
        continue
      }
      const isSlow = this.#isSlow(tenant, now)
      const rests = tenant.restsUntil > now || tenant.unsettled >= MAX_UNSETTLED
      const free = Math.min(
        this.#roomFor(tenant, has - blocked(tenant), isSlow),
        Math.max(LARGEST_ROOM, this.#concurrency) - has,
      )
      const room = rests || (isSlow && isCrowded) ? 0 : Math.max(0, free)
      rooms[tenant.id] = room
      if (room === 0) isPartial = true
    }
    const free = MAX_HELD - this.#held
    const byBytes = Math.floor((MAX_HELD_BYTES - this.#heldBytes) / Math.max(1, this.#averageBytes))
    const rows = Math.max(0, Math.min(MAX_CLAIM, free, byBytes))
    const room = isCrowded ? 1 : this.#concurrency
    return { integrations: MAX_WALK, rows, room, rooms, isPartial: isPartial || rows === 0 }
  }

  /** A fast integration with many rows here gets no claim for a few more. @param has its rows, but those that wait for their key */
  #roomFor({ averageMs }: Tenant<Row>, has: number, isSlow: boolean): number {
    if (averageMs === null || isSlow) return this.#concurrency - has
    const whole = Math.min(
      LARGEST_ROOM,
      Math.max(SMALLEST_ROOM, (this.#concurrency * SLOW_MS) / Math.max(averageMs, 1)),
    )
    return has > whole / 2 ? 0 : Math.floor(whole - has)
  }

  #isSlow({ averageMs, running }: Tenant<Row>, now: number): boolean {
    if (averageMs !== null && averageMs > SLOW_MS) return true
    // In the order in which they began.
    const [oldest = now] = running.values()
    return now - oldest > SLOW_MS
  }

  #tenantOf(id: number): Tenant<Row> {
    let tenant = this.#tenants.get(id)
    if (tenant === undefined) {
      tenant = {
        id,
        waiting: [],
        running: new Map(),
        unsettled: 0,
        averageMs: this.#averages.get(id) ?? null,
        busyKeys: new Set(),
        restsUntil: 0,
        knownUntil: 0,
      }
      this.#tenants.set(id, tenant)
    }
    return tenant
  }

  /** One of its rows is done with. */
  #leave(tenant: Tenant<Row>): void {
    this.#held -= 1
    tenant.knownUntil = performance.now() + KNOWN_MS
  }

  /** Slow integrations are remembered as slow. */
  #forget(tenant: Tenant<Row>): void {
    this.#tenants.delete(tenant.id)
    if (tenant.averageMs !== null && tenant.averageMs > SLOW_MS) this.#averages.set(tenant.id, tenant.averageMs)
    else this.#averages.delete(tenant.id)
  }
}

function held<Row>({ waiting, running, unsettled }: Tenant<Row>): number {
  return waiting.length + running.size + unsettled
}

/** Rows that wait for another one of their key, however many lanes are free: they hold up no row of another key. */
function blocked<Row>({ waiting, busyKeys }: Tenant<Row>): number {
  if (busyKeys.size === 0) return 0
  return waiting.filter(({ guarded }) => guarded !== null && busyKeys.has(guarded.key)).length
}

/** The place of the newest version of what stands at `at`. */
function newestOf<Row>(waiting: readonly Queued<Row>[], at: number): number {
  const { guarded } = waiting[at] as Queued<Row>
  let newest = at
  for (let other = at + 1; other < waiting.length; other += 1) {
    const candidate = waiting[other]?.guarded
    if (candidate == null || candidate.key !== guarded?.key) continue
    const best = waiting[newest]?.guarded
    if (best != null && compareVersions(candidate.version, best.version) > 0) newest = other
  }
  return newest
}
