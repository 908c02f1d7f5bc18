/**
 * The ledger of keyed writes: a key is spent before the call goes out, in a row of our own connection, so that neither a
 * crash nor a host's rollback forgets it.
 *
 * Rule: docs/behaviour/requests.md, "Idempotency keys".
 */
import { randomUUID } from 'node:crypto'
import type { SQL } from 'drizzle-orm'
import { and, desc, eq, gte, isNull, or, sql } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import { clockNow, intervalOf } from '../db/schema/columns.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { IdempotencyConflict, IdempotencyInsideTransaction, IntegrationNotFound } from '../framework/errors.ts'
import { errorLine, givenNowMs, integrationLogger, systemClock } from '../framework/logger.ts'
import { lostDatabase } from '../framework/lost-database.ts'
import { isInsideTransaction } from '../framework/transactions.ts'
import { patiently } from '../framework/waiting.ts'
import { insertLog } from '../observability/log-queries.ts'
import { supportsIdempotency } from '../providers/contracts.ts'
import type { PriorCall } from '../providers/integration.ts'
import type { PlannedCall } from './call.ts'
import { MAX_TIMEOUT_MS } from './call.ts'
import * as rule from './idempotency-rules.ts'
import type { Ending } from './request.ts'

/** Beyond the call's own time: writing its outcome, and giving the turn back. */
const LEASE_MARGIN_MS = 1_000
/** How long tries go on while Postgres is away. The caller waits for its call's outcome meanwhile. */
const AWAY_MS = 5_000
/** A turn younger than this needs no renewal before the call. */
const FRESH_MS = 250
/** A renewal that took longer is made again: the attempt would outlast the turn. */
const LONGEST_RENEWAL_MS = LEASE_MARGIN_MS / 2
const MAX_RENEWALS = 3

interface LedgerKey {
  readonly integrationId: number
  readonly key: string
}

/** What the ledger and the request log say of a key. */
interface LedgerEntry {
  readonly id: number
  /** The caller that had its turn last; null: its row was not written by a call. */
  readonly owner: string | null
  /** When the row was read; null: no caller had the turn. */
  readonly turnEndsAt: Date | null
  readonly reservedAt: Date
  /** By the same clock as `reservedAt`, when the row was read. */
  readonly ageSeconds: number
  readonly readAtMs: number
  /** The newest call under this reservation that succeeded, or that the provider answered with a 2xx. */
  readonly prior: { readonly requestId: number; readonly responseData: string | null } | null
}

/** A key that this call has spent, until it is known how the call ended. */
export interface Reservation {
  /** Before each attempt: whether it is this caller's turn. @throws IdempotencyConflict */
  mayCall(): Promise<void>
  /** An attempt of this call may have had an effect: from now on it is made only while the provider knows the key. */
  doubt(): void
  /** Gives the key back if no attempt can have had an effect; else it stays spent. Never throws. */
  end(ending: Ending): Promise<void>
}

type KeyedCall = Pick<PlannedCall, 'framework' | 'integration' | 'provider' | 'timeoutMs'>

/** @throws IdempotencyConflict; what Postgres says: then the provider is not called */
export async function reserve(call: KeyedCall, idempotencyKey: string): Promise<Reservation> {
  const { framework, integration } = call
  const key: LedgerKey = { integrationId: integration.id, key: idempotencyKey }
  const owner = randomUUID()
  const hasTurns = windowSecondsOf(call) !== null
  // Another round only if the key was given back between two of our statements.
  for (;;) {
    const spentAt = performance.now()
    const entry = (await spend(call, key, owner, hasTurns)) ?? (await ledgerEntry(framework, key))
    if (entry === null) continue
    const turn = new Turn(call, key, entry, owner, spentAt)
    const isOwn = entry.owner === owner
    if (!hasTurns) {
      if (isOwn) return spentOnce(turn)
      throw await conflictNow(call, key, entry)
    }
    if (isOwn || (await turn.takeOver())) return spentInTurns(turn, isOwn)
  }
}

/** The provider does not know the key, so there are no turns: the key is given back, or nothing is. */
function spentOnce(turn: Turn): Reservation {
  return {
    mayCall: async () => {},
    doubt: () => {},
    async end(ending) {
      if (isWithoutEffect(ending)) await turn.end(true)
    },
  }
}

/** @param isOwn this call has spent the key. Else another one has, and may have had an effect */
function spentInTurns(turn: Turn, isOwn: boolean): Reservation {
  let mayHaveHadEffect = !isOwn
  return {
    async mayCall() {
      await turn.renew()
      // The waits before an attempt may be longer than the rest of the window.
      if (mayHaveHadEffect || turn.wasLost) turn.requireRepeatable()
    },
    doubt() {
      mayHaveHadEffect = true
    },
    end: (ending) => turn.end(isOwn && isWithoutEffect(ending)),
  }
}

function isWithoutEffect(ending: Ending): boolean {
  return ending.kind === 'failed' && ending.withoutEffect
}

/**
 * Lets one caller at a time through with a key that the provider knows, too. The key's row says who had the turn last, and until when:
 * so a caller whose turn ran out knows whether another one had it since.
 */
class Turn {
  readonly #call: KeyedCall
  readonly #key: LedgerKey
  readonly #entry: LedgerEntry
  readonly #owner: string
  #takenAt: number
  /** Another caller has been let through since this one took its turn, and may have had an effect. */
  wasLost = false

  /** @param spentAt before the statement that spent the key */
  constructor(call: KeyedCall, key: LedgerKey, entry: LedgerEntry, owner: string, spentAt: number) {
    this.#call = call
    this.#key = key
    this.#entry = entry
    this.#owner = owner
    this.#takenAt = spentAt
  }

  /** Of a key that another call has spent. False: it was given back meanwhile. @throws IdempotencyConflict */
  async takeOver(): Promise<boolean> {
    if (!mayBeSentAgain(this.#call, this.#entry)) throw await conflictNow(this.#call, this.#key, this.#entry)
    let mayBeTaken = true
    try {
      mayBeTaken = await this.#take()
      // The caller that had the turn before us may have been answered since.
      const still = await ledgerEntry(this.#call.framework, this.#key)
      if (still?.id !== this.#entry.id) return false
      if (mayBeTaken && mayBeSentAgain(this.#call, still)) return true
      throw this.#conflict(still, mayBeTaken ? null : still.turnEndsAt)
    } catch (error) {
      if (mayBeTaken) await this.end(false)
      throw error
    }
  }

  /** @throws IdempotencyConflict if the key is answered, or its provider may have forgotten it */
  requireRepeatable(): void {
    if (!mayBeSentAgain(this.#call, this.#entry)) throw this.#conflict(this.#entry)
  }

  /** False: another caller has it, or the key was given back. */
  #take(): Promise<boolean> {
    const { turnEndsAt } = this.#call.framework.tables.idempotencyKeys
    const isOver = sql`${turnEndsAt} <= ${nowOf(this.#call.framework)}`
    return this.#hold(or(this.#isOurs(), isNull(turnEndsAt), isOver))
  }

  /** Before each attempt: the wait for capacity and between attempts is no part of the turn. @throws IdempotencyConflict */
  async renew(): Promise<void> {
    for (let made = 0; ; made += 1) {
      const ageMs = performance.now() - this.#takenAt
      if (ageMs < (made === 0 ? FRESH_MS : LONGEST_RENEWAL_MS)) return
      if (made === MAX_RENEWALS) throw this.#conflict(this.#entry)
      const before = this.#takenAt
      let refusal: IdempotencyConflict | null
      try {
        refusal = await this.#refusal()
      } catch (error) {
        this.#warn(error, 'cannot tell who holds the idempotency key; call refused')
        // Not what the driver threw: the caller is told what became of its key.
        refusal = this.#conflict(this.#entry)
      }
      if (refusal !== null) throw refusal
      // An operator has freed the key: there is no turn to hold.
      if (this.#takenAt === before) return
    }
  }

  /** Null: it is still, or again, this caller's turn. */
  async #refusal(): Promise<IdempotencyConflict | null> {
    if (await this.#hold(this.#isOurs())) return null
    this.wasLost = true
    const isTaken = await this.#take()
    const entry = await ledgerEntry(this.#call.framework, this.#key)
    // Another caller was let through while we waited. Without a row an operator has freed the key: the turn is ours.
    return entry !== null && (!isTaken || entry.prior !== null)
      ? this.#conflict(entry, isTaken ? null : entry.turnEndsAt)
      : null
  }

  /** @param underWayUntil the end of another caller's turn */
  #conflict(entry: LedgerEntry, underWayUntil: Date | null = null): IdempotencyConflict {
    return conflict(this.#call, this.#key, entry, underWayUntil)
  }

  /** @param mayGiveKeyBack the key goes with the turn, if no other caller can have been let through since this one spent it */
  async end(mayGiveKeyBack: boolean): Promise<void> {
    if (mayGiveKeyBack && !this.wasLost) await this.#giveKeyBack()
    else await this.#giveBack()
  }

  /** A key that can't be given back stays spent. The caller gets the call's outcome all the same. */
  async #giveKeyBack(): Promise<void> {
    const { framework, integration } = this.#call
    const { idempotencyKeys } = framework.tables
    try {
      await whileAway(this.#call, 'giving an idempotency key back', () =>
        // This very reservation, not one of the same key made since, nor one whose turn another caller has had.
        framework.db.delete(idempotencyKeys).where(and(eq(idempotencyKeys.id, this.#entry.id), this.#isOurs())),
      )
    } catch (error) {
      integrationLogger(framework, integration).error(
        // The key's row, not its text: a host may make keys of private data.
        { event: 'idempotency.key_kept', idempotency_key_id: this.#entry.id, error: errorLine(error, 500) },
        'an idempotency key could not be given back and stays spent; forgetIdempotencyKey() frees it',
      )
    }
  }

  async #giveBack(): Promise<void> {
    const { db, tables } = this.#call.framework
    const { idempotencyKeys } = tables
    try {
      await whileAway(this.#call, 'giving the turn of an idempotency key back', () =>
        db
          .update(idempotencyKeys)
          .set({ turnEndsAt: null })
          .where(and(eq(idempotencyKeys.id, this.#entry.id), this.#isOurs())),
      )
    } catch (error) {
      this.#warn(error, "the turn of an idempotency key could not be given back; it ends after the call's timeout")
    }
  }

  /** Until the call's time and a margin from now. */
  #hold(isAllowed: SQL | undefined): Promise<boolean> {
    const { db, tables } = this.#call.framework
    const { idempotencyKeys } = tables
    return whileAway(this.#call, 'taking the turn of an idempotency key', async () => {
      // Before the statement: the turn counts from there, and the process may stand still before it has the answer.
      const askedAt = performance.now()
      const rows = await db
        .update(idempotencyKeys)
        .set({ owner: this.#owner, turnEndsAt: turnEnd(this.#call) })
        .where(and(eq(idempotencyKeys.id, this.#entry.id), isAllowed))
        .returning({ id: idempotencyKeys.id })
      if (rows.length === 1) this.#takenAt = askedAt
      return rows.length === 1
    })
  }

  #isOurs(): SQL {
    return eq(this.#call.framework.tables.idempotencyKeys.owner, this.#owner)
  }

  #warn(error: unknown, message: string): void {
    const { framework, integration } = this.#call
    integrationLogger(framework, integration).warn(
      { event: 'idempotency.trouble', error: errorLine(error, 500) },
      message,
    )
  }
}

/** How long the provider remembers a key; null: it does not. */
function windowSecondsOf({ provider }: KeyedCall): number | null {
  return supportsIdempotency(provider) ? provider.idempotencyWindowSeconds : null
}

function mayBeSentAgain(call: KeyedCall, entry: LedgerEntry): boolean {
  const ageSeconds = entry.ageSeconds + (elapsedMs(call.framework) - entry.readAtMs) / 1_000
  return rule.mayBeSentAgain(priorOf(entry).priorState, ageSeconds, windowSecondsOf(call))
}

/** By the database's clock. The types know no expression in the place of a moment. */
function turnEnd({ framework, timeoutMs }: KeyedCall): Date {
  return sql`${nowOf(framework)} + ${intervalOf(sql`${(timeoutMs + LEASE_MARGIN_MS) / 1_000}`)}` as never
}

/**
 * Null: the key is spent already. A try whose answer was lost may have spent it: then the row's owner is ours.
 *
 * @throws IntegrationNotFound
 */
async function spend(call: KeyedCall, key: LedgerKey, owner: string, withTurn: boolean): Promise<LedgerEntry | null> {
  const { framework } = call
  const { idempotencyKeys, requests } = framework.tables
  // Whole milliseconds, rounded down as a settlement's are: else an answer in the same one would seem older than its key.
  const now = ownClock(framework) === null ? sql`date_trunc('milliseconds', clock_timestamp())` : nowOf(framework)
  try {
    return await whileAway(call, 'spending an idempotency key', async () => {
      const readAtMs = elapsedMs(framework)
      const spent = framework.db.$with('spent').as(
        framework.db
          .insert(idempotencyKeys)
          .values({ ...key, owner, turnEndsAt: withTurn ? turnEnd(call) : null, createdAt: now })
          .onConflictDoNothing({ target: [idempotencyKeys.integrationId, idempotencyKeys.key] })
          .returning({ id: idempotencyKeys.id, owner: idempotencyKeys.owner, reservedAt: idempotencyKeys.createdAt }),
      )
      // Answers to an earlier reservation that do not seem so, where the clock stands or was ahead: they are moved before this one. Were
      // it put after them, its window would end later than the provider's.
      const moved = framework.db.$with('moved').as(
        framework.db
          .update(requests)
          .set({ createdAt: sql`${spent.reservedAt} - interval '1 millisecond'` })
          .from(spent)
          .where(
            and(
              eq(requests.integrationId, key.integrationId),
              eq(requests.idempotencyKey, key.key),
              gte(requests.createdAt, spent.reservedAt),
            ),
          )
          .returning({ id: requests.id }),
      )
      const [row] = await framework.db.with(spent, moved).select().from(spent)
      return row === undefined ? null : { ...row, turnEndsAt: null, ageSeconds: 0, readAtMs, prior: null }
    })
  } catch (error) {
    // The foreign key to the integration. https://www.postgresql.org/docs/current/errcodes-appendix.html
    if ((error as { code?: unknown }).code === '23503') throw new IntegrationNotFound(key.integrationId)
    throw error
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
  const readAtMs = elapsedMs(framework)
  const [row] = await framework.db
    .select({
      id: idempotencyKeys.id,
      owner: idempotencyKeys.owner,
      turnEndsAt: idempotencyKeys.turnEndsAt,
      reservedAt: idempotencyKeys.createdAt,
      ageSeconds: sql<number>`extract(epoch from ${nowOf(framework)} - ${idempotencyKeys.createdAt})::double precision`,
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
  return { ...entry, readAtMs, prior: requestId === null ? null : { requestId, responseData } }
}

/** Only differences of it mean something. A step of the machine's clock does not change them. */
function elapsedMs(framework: Framework): number {
  return givenNowMs(framework) ?? performance.now()
}

/** By the clock that keys and turns are written by. */
export function nowOf(framework: Framework): SQL {
  const now = ownClock(framework)
  return now === null ? clockNow() : sql`${now.toISOString()}::timestamp with time zone`
}

/** Null: the database's. */
function ownClock({ clock }: Framework): Date | null {
  return clock === systemClock ? null : clock.now()
}

function priorOf({ prior }: LedgerEntry): Pick<PriorCall, 'priorState' | 'priorResponse' | 'priorRequestId'> {
  if (prior === null) return { priorState: 'unknown', priorResponse: null, priorRequestId: null }
  return { ...rule.priorAnswer(prior.responseData), priorRequestId: prior.requestId }
}

/** Names until when a call with the key may be under way, if it may. */
async function conflictNow(call: KeyedCall, key: LedgerKey, entry: LedgerEntry): Promise<IdempotencyConflict> {
  const { framework } = call
  const until = entry.prior === null ? await underWayUntil(framework, framework.db, entry.id) : null
  return conflict(call, key, entry, until !== null && until > framework.clock.now() ? until : null)
}

function conflict(
  call: KeyedCall,
  key: LedgerKey,
  entry: LedgerEntry,
  underWayUntil: Date | null,
): IdempotencyConflict {
  const isRepeatable = mayBeSentAgain(call, entry)
  return new IdempotencyConflict({
    ...key,
    ...priorOf(entry),
    reservedAt: entry.reservedAt,
    isRepeatable,
    underWayUntil,
  })
}

/**
 * Until when a call with a key may be under way: its last sign is the turn that it has, else the end of its newest attempt, else the
 * moment at which the key was spent. Null: there is no such key.
 *
 * @param id of the key's row
 */
export async function underWayUntil(
  framework: Framework,
  db: Database | Transaction,
  id: number,
): Promise<Date | null> {
  const { clock, config, tables } = framework
  const { idempotencyKeys: keys, requests } = tables
  const [row] = await db
    .select({
      spentAt: keys.createdAt,
      hasTurn: sql<boolean>`coalesce(${keys.turnEndsAt} > ${nowOf(framework)}, false)`,
      triedAt: requests.createdAt,
    })
    .from(keys)
    .leftJoin(requests, isUnderKey(tables))
    .where(eq(keys.id, id))
    .orderBy(desc(requests.id))
    .limit(1)
  if (row === undefined) return null
  const lastSign = row.hasTurn ? clock.now() : (row.triedAt ?? row.spentAt)
  const silenceMs = rule.longestSilenceMs({
    attemptMs: MAX_TIMEOUT_MS,
    retrySeconds: config.retry.retry_after_max_seconds,
    capacitySeconds: config.rate_limiting.max_wait_seconds,
  })
  return new Date(lastSign.getTime() + silenceMs)
}
