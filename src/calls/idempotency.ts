/**
 * The ledger of keyed writes: a key is spent before the call goes out, in a row of our own connection, so that neither a
 * crash nor a host's rollback forgets it.
 *
 * Rule: docs/behaviour/requests.md, "Idempotency keys".
 */
import { randomUUID } from 'node:crypto'
import type { SQL } from 'drizzle-orm'
import { and, desc, eq, gte, isNull, or, sql } from 'drizzle-orm'
import { integrationKey } from '../cache/integration-keys.ts'
import type { Transaction } from '../db/client.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { IdempotencyConflict, IdempotencyInsideTransaction, IntegrationNotFound } from '../framework/errors.ts'
import { errorLine, givenNowMs, integrationLogger, systemClock } from '../framework/logger.ts'
import { lostDatabase } from '../framework/lost-database.ts'
import { isInsideTransaction } from '../framework/transactions.ts'
import { patiently } from '../framework/waiting.ts'
import { insertLog } from '../observability/log-queries.ts'
import { supportsIdempotency } from '../providers/contracts.ts'
import type { Call, PriorCall } from '../providers/integration.ts'
import type { PlannedCall } from './call.ts'
import * as rule from './idempotency-rules.ts'
import type { Ending } from './request.ts'

/** Beyond the call's own time: writing its outcome, and giving the turn back. */
const LEASE_MARGIN_MS = 1_000
/** How long tries go on while Postgres is away. The caller waits for its call's outcome meanwhile. */
const AWAY_MS = 5_000
/** A turn younger than this needs no renewal before the call. */
const FRESH_MS = 250

interface LedgerKey {
  readonly integrationId: number
  readonly key: string
}

/** What the ledger and the request log say of a key. */
interface LedgerEntry {
  readonly id: number
  readonly reservedAt: Date
  /** By the same clock as `reservedAt`. */
  readonly ageSeconds: number
  /** The newest call under this reservation that succeeded, or that the provider answered with a 2xx. */
  readonly prior: { readonly requestId: number; readonly responseData: string | null } | null
}

/** A key that this call has spent, until it is known how the call ended. */
export interface Reservation {
  /** The same call, made only while it is this caller's turn. */
  guard<T>(call: Call<T>): Call<T>
  /** An attempt of this call may have had an effect: from now on it is made only while the provider knows the key. */
  doubt(): void
  /** Gives the key back if no attempt can have had an effect; else it stays spent. Never throws. */
  end(ending: Ending): Promise<void>
}

type KeyedCall = Pick<PlannedCall, 'framework' | 'integration' | 'provider' | 'timeoutMs'>

/** @throws IdempotencyConflict; what Postgres says: then the provider is not called */
export async function reserve(call: KeyedCall, idempotencyKey: string): Promise<Reservation> {
  const { framework, integration, provider } = call
  const key: LedgerKey = { integrationId: integration.id, key: idempotencyKey }
  const windowSeconds = supportsIdempotency(provider) ? provider.idempotencyWindowSeconds : null
  const mayBeSentAgain = (entry: LedgerEntry): boolean =>
    rule.mayBeSentAgain(priorOf(entry).priorState, entry.ageSeconds, windowSeconds)

  // Another round only if the key was given back, or answered, between two of our statements.
  for (;;) {
    const own = await spend(framework, key)
    const entry = own ?? (await ledgerEntry(framework, key))
    if (entry === null) continue
    if (windowSeconds === null) {
      if (own === null) throw conflict(key, entry)
      return { guard: (made) => made, doubt: () => {}, end: (ending) => giveBack(call, own.id, ending) }
    }
    if (own === null && !mayBeSentAgain(entry)) throw conflict(key, entry)

    const turn = new Turn(call, key, entry)
    let still: LedgerEntry | null
    let askedAtMs: number
    try {
      if (!(await turn.take())) throw conflict(key, entry)
      askedAtMs = elapsedMs(framework)
      // The caller that had the turn before us may have been answered since: also one that was quicker than we who spent the key.
      still = await ledgerEntry(framework, key)
    } catch (error) {
      // Postgres failed us: nothing was sent. A conflict is another matter: a repeat was quicker and uses the key.
      if (!(error instanceof IdempotencyConflict)) {
        if (own !== null) await release(call, own.id, () => turn.isUnbroken())
        await turn.giveBack()
      }
      throw error
    }
    if (still?.id !== entry.id || (own === null ? !mayBeSentAgain(still) : still.prior !== null)) {
      await turn.giveBack()
      continue
    }
    let mayHaveHadEffect = own === null
    const ageSeconds = (): number => still.ageSeconds + (elapsedMs(framework) - askedAtMs) / 1_000
    return {
      guard: (made) => async (context) => {
        await turn.renew()
        // The waits before an attempt may be longer than the rest of the window.
        const isRepeat = mayHaveHadEffect || turn.wasLost
        if (isRepeat && !mayBeSentAgain({ ...still, ageSeconds: ageSeconds() })) throw conflict(key, still)
        // The renewal takes of the attempt's time. A call that was given up meanwhile is not sent.
        context.signal.throwIfAborted()
        return made(context)
      },
      doubt() {
        mayHaveHadEffect = true
      },
      async end(ending) {
        // Another caller's call may have had an effect: then the key stays with that one.
        if (own !== null) await giveBack(call, entry.id, ending, () => turn.isUnbroken())
        await turn.giveBack()
      },
    }
  }
}

/** Of a reservation. Held while a call is made with a key that the provider knows, too. */
export function turnLock(integrationId: number, reservationId: number): string {
  return integrationKey(integrationId, `lock:idempotency:${reservationId}`)
}

/**
 * Lets one caller at a time through with a key that the provider knows, too.
 *
 * The lock belongs to the reservation: after `forgetIdempotencyKey()` a dead holder's lease blocks no one.
 */
class Turn {
  readonly #call: KeyedCall
  readonly #key: LedgerKey
  readonly #entry: LedgerEntry
  readonly #owner = randomUUID()
  readonly #lock: string
  readonly #leaseSeconds: number
  #takenAt = Number.NEGATIVE_INFINITY
  /** Another caller has been let through since this one took its turn, and may have had an effect. */
  wasLost = false

  constructor(call: KeyedCall, key: LedgerKey, entry: LedgerEntry) {
    this.#call = call
    this.#key = key
    this.#entry = entry
    this.#lock = turnLock(key.integrationId, entry.id)
    this.#leaseSeconds = (call.timeoutMs + LEASE_MARGIN_MS) / 1_000
  }

  async take(): Promise<boolean> {
    // Before the statement: the lease counts from there, and the process may stand still before it has the answer.
    const askedAt = performance.now()
    const isTaken = await this.#call.framework.cache.acquire(this.#lock, this.#owner, this.#leaseSeconds)
    if (isTaken) this.#takenAt = askedAt
    return isTaken
  }

  /** Before each attempt: the wait for capacity and between attempts is no part of the lease. @throws IdempotencyConflict */
  async renew(): Promise<void> {
    if (this.#isFresh()) return
    const askedAt = performance.now()
    let refusal: IdempotencyConflict | null
    try {
      refusal = await this.#refusal()
    } catch (error) {
      this.#warn(error, 'cannot tell who holds the idempotency key; call refused')
      // Not what the driver threw: a refused connection of ours would count as the provider's.
      refusal = conflict(this.#key, this.#entry)
    }
    if (refusal !== null) throw refusal
    this.#takenAt = askedAt
  }

  /** Null: it is still, or again, this caller's turn. */
  async #refusal(): Promise<IdempotencyConflict | null> {
    if (await this.#retake()) return null
    this.wasLost = true
    const isTaken = await this.take()
    const entry = await ledgerEntry(this.#call.framework, this.#key)
    // Another caller was let through while we waited. Without a row an operator has freed the key: the turn is ours.
    return entry !== null && (!isTaken || entry.prior !== null) ? conflict(this.#key, entry) : null
  }

  /** Whether no other caller can have been let through since this one took its turn, nor can be now. */
  async isUnbroken(): Promise<boolean> {
    return !this.wasLost && (this.#isFresh() || (await this.#retake()))
  }

  #isFresh(): boolean {
    return performance.now() - this.#takenAt < FRESH_MS
  }

  #retake(): Promise<boolean> {
    return whileAway(this.#call, 'asking for the turn of an idempotency key', () =>
      this.#call.framework.cache.retake(this.#lock, this.#owner, this.#leaseSeconds),
    )
  }

  async giveBack(): Promise<void> {
    try {
      await whileAway(this.#call, 'giving the turn of an idempotency key back', () =>
        this.#call.framework.cache.release(this.#lock, this.#owner),
      )
    } catch (error) {
      this.#warn(error, "the turn of an idempotency key could not be given back; it ends after the call's timeout")
    }
  }

  #warn(error: unknown, message: string): void {
    const { framework, integration } = this.#call
    integrationLogger(framework, integration).warn(
      { event: 'idempotency.trouble', error: errorLine(error, 500) },
      message,
    )
  }
}

/** Null: the key is spent already. @throws IntegrationNotFound */
async function spend(framework: Framework, key: LedgerKey): Promise<LedgerEntry | null> {
  const { idempotencyKeys } = framework.tables
  try {
    const [row] = await framework.db
      .insert(idempotencyKeys)
      // Whole milliseconds, rounded down as a settlement's are: else an answer in the same one would seem older than its key.
      .values({ ...key, createdAt: ownClock(framework) ?? sql`date_trunc('milliseconds', clock_timestamp())` })
      .onConflictDoNothing({ target: [idempotencyKeys.integrationId, idempotencyKeys.key] })
      .returning({ id: idempotencyKeys.id, reservedAt: idempotencyKeys.createdAt })
    return row === undefined ? null : { ...row, ageSeconds: 0, prior: null }
  } catch (error) {
    // The foreign key to the integration. https://www.postgresql.org/docs/current/errcodes-appendix.html
    if ((error as { code?: unknown }).code === '23503') throw new IntegrationNotFound(key.integrationId)
    throw error
  }
}

async function giveBack(
  call: KeyedCall,
  id: number,
  ending: Ending,
  isStillOurs?: () => Promise<boolean>,
): Promise<void> {
  if (ending.kind === 'failed' && ending.withoutEffect) await release(call, id, isStillOurs)
}

/** A key that can't be given back stays spent. The caller gets the call's outcome all the same. */
async function release(
  call: KeyedCall,
  id: number,
  isStillOurs: () => Promise<boolean> = async () => true,
): Promise<void> {
  const { framework, integration } = call
  const { idempotencyKeys } = framework.tables
  try {
    await whileAway(call, 'giving an idempotency key back', async () => {
      if (!(await isStillOurs())) return
      // This very reservation, not one of the same key made since.
      await framework.db.delete(idempotencyKeys).where(eq(idempotencyKeys.id, id))
    })
  } catch (error) {
    integrationLogger(framework, integration).error(
      // The key's row, not its text: a host may make keys of private data.
      { event: 'idempotency.key_kept', idempotency_key_id: id, error: errorLine(error, 500) },
      'an idempotency key could not be given back and stays spent; forgetIdempotencyKey() frees it',
    )
  }
}

/**
 * A statement that may be carried out twice is tried again while Postgres is away: a session that was cut must not leave a key spent or a turn
 * taken.
 */
async function whileAway<T>({ framework }: KeyedCall, what: string, work: () => Promise<T>): Promise<T> {
  const lost = (error: unknown): { readonly fault: unknown } => {
    if (lostDatabase(error) !== null) throw error
    return { fault: error }
  }
  const signal = AbortSignal.timeout(AWAY_MS)
  const done = await patiently(what, () => work().then((value) => ({ value }), lost), {
    signal,
    logger: framework.logger,
  })
  if ('fault' in done) throw done.fault
  return done.value
}

/** @throws IdempotencyInsideTransaction inside `integrations.transaction()` or a tracked database's transaction */
export function refuseInsideTransaction(key: string): void {
  if (isInsideTransaction()) throw new IdempotencyInsideTransaction(key)
}

/** What a key's call was answered; null when the key was never used. */
export async function idempotencyRecord(
  framework: Framework,
  integrationId: number,
  key: string,
): Promise<PriorCall | null> {
  if (!mayBeAKey(key)) return null
  const entry = await ledgerEntry(framework, { integrationId, key })
  return entry === null ? null : { key, ...priorOf(entry), reservedAt: entry.reservedAt }
}

/** The operator's way out: the key may be used again. False when there was none. */
export async function forgetIdempotencyKey(
  { db, tables }: Framework,
  integrationId: number,
  key: string,
): Promise<boolean> {
  if (!mayBeAKey(key)) return false
  const { idempotencyKeys } = tables
  const isIt = and(eq(idempotencyKeys.integrationId, integrationId), eq(idempotencyKeys.key, key))
  return db.transaction((tx) => forgetReservation(tx, tables, isIt))
}

/** Frees the key of the row that the condition selects, and logs it. False: there is none. @param note more for its log */
export async function forgetReservation(
  tx: Transaction,
  tables: Tables,
  isIt: SQL | undefined,
  note: Record<string, string> = {},
): Promise<boolean> {
  const [forgotten] = await tx.delete(tables.idempotencyKeys).where(isIt).returning()
  if (forgotten === undefined) return false
  const { integrationId, key, createdAt } = forgotten
  await insertLog(tx, tables, {
    integrationId,
    operation: 'idempotency',
    direction: 'outbound',
    status: 'success',
    summary: 'An idempotency key was forgotten: it may be used again',
    metadata: { key, reserved_at: createdAt.toISOString(), ...note },
  })
  return true
}

/** A request under a reservation that says that the call took effect. */
export function hasTakenEffect({ idempotencyKeys, requests }: Tables): SQL | undefined {
  return and(
    isUnderKey({ idempotencyKeys, requests }),
    or(isNull(requests.failureClass), sql`${requests.statusCode} between 200 and 299`),
  )
}

/** A request under a reservation. One from before it does not count: its own reservation was forgotten or pruned. */
export function isUnderKey({
  idempotencyKeys,
  requests,
}: Pick<Tables, 'idempotencyKeys' | 'requests'>): SQL | undefined {
  return and(
    eq(requests.integrationId, idempotencyKeys.integrationId),
    eq(requests.idempotencyKey, idempotencyKeys.key),
    gte(requests.createdAt, idempotencyKeys.createdAt),
  )
}

/** Postgres refuses U+0000 in a text, also in a question. */
function mayBeAKey(key: string): boolean {
  return typeof key === 'string' && !key.includes('\u0000')
}

/** Null: the key is not spent. */
async function ledgerEntry(framework: Framework, { integrationId, key }: LedgerKey): Promise<LedgerEntry | null> {
  const { idempotencyKeys, requests } = framework.tables
  const now = ownClock(framework)
  const at = now === null ? sql`clock_timestamp()` : sql`${now.toISOString()}::timestamp with time zone`
  const [row] = await framework.db
    .select({
      id: idempotencyKeys.id,
      reservedAt: idempotencyKeys.createdAt,
      ageSeconds: sql<number>`extract(epoch from ${at} - ${idempotencyKeys.createdAt})::double precision`,
      requestId: requests.id,
      responseData: requests.responseData,
    })
    .from(idempotencyKeys)
    .leftJoin(requests, hasTakenEffect(framework.tables))
    .where(and(eq(idempotencyKeys.integrationId, integrationId), eq(idempotencyKeys.key, key)))
    .orderBy(desc(requests.id))
    .limit(1)
  if (row === undefined) return null
  const { requestId, responseData, ...entry } = row
  return { ...entry, prior: requestId === null ? null : { requestId, responseData } }
}

/** Only differences of it mean something. A step of the machine's clock does not change them. */
function elapsedMs(framework: Framework): number {
  return givenNowMs(framework) ?? performance.now()
}

/** Null: the database's. */
function ownClock({ clock }: Framework): Date | null {
  return clock === systemClock ? null : clock.now()
}

function priorOf({ prior }: LedgerEntry): Pick<PriorCall, 'priorState' | 'priorResponse' | 'priorRequestId'> {
  if (prior === null) return { priorState: 'unknown', priorResponse: null, priorRequestId: null }
  return { ...rule.priorAnswer(prior.responseData), priorRequestId: prior.requestId }
}

function conflict(key: LedgerKey, entry: LedgerEntry): IdempotencyConflict {
  return new IdempotencyConflict({ ...key, ...priorOf(entry), reservedAt: entry.reservedAt })
}
