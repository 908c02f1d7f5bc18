/**
 * Admission before an attempt and settlement after it: by the joined statements where they can decide, else by the integration's own.
 *
 * Rule: docs/behaviour/requests.md, "Admission", "Settlement" and "Joined statements".
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Framework } from '../../framework/context.ts'
import { CircuitOpenException, IntegrationNotFound, RateLimitExceededException } from '../../framework/errors.ts'
import { isAboutOneItem, Joiner, JoiningQueue } from '../../framework/joiner.ts'
import { errorLine, givenNowMs, integrationLogger, systemClock } from '../../framework/logger.ts'
import { lostDatabase } from '../../framework/lost-database.ts'
import { RepeatedWarnings } from '../../framework/repeated-warnings.ts'
import { eitherSignal } from '../../framework/waiting.ts'
import type { Identity } from '../../observability/spans.ts'
import type { Integration } from '../../providers/integration.ts'
import { callTarget, declaredLimit, declaredScope } from '../call-target.ts'
import { currentSync, longestWaitMs } from '../inside-sync.ts'
import { AdmissionLines } from './admission-line.ts'
import type { Admissions, CallEvent, CallOutcome, CallTarget } from './call-queries.ts'
import { admitCalls, settleCalls } from './call-queries.ts'
import type { Asked, Ended, Joined } from './joined-queries.ts'
import { admitJoined, canJoin, joinable, settleJoined } from './joined-queries.ts'
import { Leases } from './leases.ts'
import type { BudgetStanding, Scope, Unit } from './shared-budgets.ts'
import { SharedBudgets } from './shared-budgets.ts'
import { quietShared, takeShared } from './shared-queries.ts'
import type { Admission } from './state-rules.ts'

/** A call that may be made; comes back with its outcome. */
export interface Ticket {
  readonly owner: string
  /** Null: the breaker does not count this call. */
  readonly generation: number | null
  /** It has the only slot of a circuit that is half open. */
  readonly probe: boolean
  /** Of the budget that the integration shares. */
  readonly unit?: Unit
}

export interface SettledCall {
  readonly rowId: number | null
  /** What this very outcome changed. */
  readonly events: readonly CallEvent[]
}

interface Queues {
  readonly leases: Leases | null
  readonly admissions: AdmissionLines
  readonly settlements: Joiner<CallOutcome, SettledCall>
  readonly warnOnce: (integration: Identity, message: string, isSo: boolean) => void
  readonly budgets: SharedBudgets
  /** By the integration's id, as its last call had it. */
  readonly scopes: Map<number, Scope>
}

/** A settlement is tried for this time; then the outcome goes to the caller without its row. */
const SETTLEMENT_MS = 10_000
/** The last try begins this long before the end. */
const LAST_TRY_MS = 500
/** Waits after a fault of the statement; after one more the settlement is given up. */
const FAULT_WAITS_MS = [500, 3_000]
/** Waits while Postgres is away, which may come back at any moment; the last one is repeated. */
const AWAY_WAITS_MS = [500, 1_000, 2_000, 3_000]

/** One waits for the disk while the next one is prepared. */
const SETTLEMENTS_AT_ONCE = 2
/** A joined statement takes longer only when it waits for the disk or a lock: then another one goes beside it. */
const LONG_MS = 2
const NOTHING_WRITTEN: SettledCall = { rowId: null, events: [] }

/**
 * Waits, within `rate_limiting.max_wait_seconds` for each gate, until the call may be made.
 *
 * @throws CircuitOpenException, RateLimitExceededException; whatever Postgres says: then the provider is not called
 */
export async function admitted(
  framework: Framework,
  integration: Integration,
  signal: AbortSignal | undefined,
): Promise<Ticket> {
  const owner = randomUUID()
  const sync = currentSync()
  const { either, release } = eitherSignal(signal, sync?.signal)
  try {
    either?.throwIfAborted()
    const queues = queuesOf(framework)
    noteScope(framework, queues, integration)
    const admission = await queues.admissions.enter(integration, owner, {
      ...(either === undefined ? {} : { signal: either }),
      ...(sync === null ? {} : { longestWaitMs: () => longestWaitMs(sync), stream: sync.stream ?? '' }),
    })
    if (admission.kind === 'admitted') {
      const { generation, probe, unit } = admission
      const ticket = { owner, generation, probe, ...(unit === undefined ? {} : { unit }) }
      if (either?.aborted !== true) return ticket
      // The caller left while its admission was under way.
      await notMade(framework, integration, ticket)
      throw either.reason
    }
    if (admission.kind === 'open') throw circuitOpen(framework, integration, admission)
    framework.metrics.requestRateLimited(integration)
    throw new RateLimitExceededException(
      integration.toJSON(),
      Math.max(1, Math.ceil(admission.retryAfterMs / 1_000)),
      admission.kind === 'suppressed' ? null : admission.limit,
      { isShared: admission.kind === 'shared' },
    )
  } finally {
    release()
  }
}

/** Of a call that is not made after all: a probe's slot is for the next one. A unit of the rate limit is not given back. Never throws. */
export async function notMade(
  framework: Framework,
  integration: Integration,
  { owner, generation, probe, unit }: Ticket,
): Promise<void> {
  unit?.giveBack()
  if (!probe) return
  await settled(framework, integration, {
    owner,
    generation,
    class: 'unknown',
    quietForMs: null,
    quietUntil: null,
    row: null,
  })
}

/** Writes the outcome of an attempt and what follows from it. Never throws: the caller gets the call's outcome all the same. */
export async function settled(
  framework: Framework,
  integration: Integration,
  outcome: CallOutcome,
): Promise<SettledCall> {
  const bytes = (outcome.row?.request_data?.length ?? 0) + (outcome.row?.response_data?.length ?? 0)
  // At once, also where other outcomes wait to be written first.
  if (outcome.class === 'upstream' || outcome.quietForMs !== null || outcome.quietUntil !== null)
    endLease(framework, integration.id)
  const endsAt = performance.now() + SETTLEMENT_MS
  const waits = { away: AWAY_WAITS_MS.values(), fault: FAULT_WAITS_MS.values() }
  for (;;)
    try {
      return await within(endsAt - performance.now(), queuesOf(framework).settlements.add(integration, outcome, bytes))
    } catch (error) {
      const isAway = lostDatabase(error) !== null
      const waitMs = (isAway ? waits.away : waits.fault).next().value ?? (isAway ? AWAY_WAITS_MS.at(-1) : undefined)
      const leftMs = endsAt - LAST_TRY_MS - performance.now()
      // What a column can't hold it will not hold the next time.
      if (waitMs === undefined || leftMs <= 0 || isAboutOneItem(error)) {
        integrationLogger(framework, integration).error(
          { event: 'request.outcome_lost', endpoint: outcome.row?.endpoint, error: errorLine(error, 500) },
          'the outcome of an outbound call could not be written; the call itself is unaffected',
        )
        return NOTHING_WRITTEN
      }
      await sleep(Math.min(waitMs, leftMs))
    }
}

/** A statement that hangs must not keep the outcome from the caller. */
function within<T>(ms: number, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = (): void => reject(new Error(`Postgres gave no answer within ${SETTLEMENT_MS / 1_000} s`))
    const timer = setTimeout(late, ms)
    work.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}

/** For news of this process: the next call asks the database. */
export function endLease(framework: Framework, integrationId: number): void {
  queuesOf(framework).leases?.end(integrationId)
}

function circuitOpen(
  { config }: Framework,
  integration: Integration,
  { openedAt, retryAfterMs }: Extract<Admission, { kind: 'open' }>,
): CircuitOpenException {
  return new CircuitOpenException(
    integration.toJSON(),
    openedAt === null ? null : new Date(openedAt),
    config.circuit_breaker.cooldown_seconds,
    retryAfterMs === null ? null : Math.max(1, Math.ceil(retryAfterMs / 1_000)),
  )
}

const QUEUES = new WeakMap<Framework, Queues>()

/** Made with the first call; a framework has one of each, so that its callers meet. */
function queuesOf(framework: Framework): Queues {
  const existing = QUEUES.get(framework)
  if (existing !== undefined) return existing
  const { db, callDb, tables } = framework
  /** Warnings that hold: each is written once until its cause is mended, not with every call. */
  const warned = new Set<string>()
  const warnOnce = (integration: Identity, message: string, isSo: boolean): void => {
    const key = `${integration.id} ${message}`
    if (!isSo) warned.delete(key)
    else if (!warned.has(key)) {
      warned.add(key)
      integrationLogger(framework, integration).warn({ event: 'request.undecided' }, message)
    }
  }
  const joining = { order: byIntegration, gathers: true, besideAfterMs: LONG_MS, undecided: null }
  const admissions = new JoiningQueue((asked: readonly Asked[]) => admitJoined(callDb, tables, asked), joining)
  const settlements = new JoiningQueue((ended: readonly Ended[]) => settleJoined(callDb, tables, ended), {
    ...joining,
    atOnce: SETTLEMENTS_AT_ONCE,
  })
  /** Integrations whose own statement found nothing the matter the last time. From then on the joined ones are asked. */
  const plain = { admission: new Set<number>(), settlement: new Set<number>() }
  // A clock of a test's own may stand still, and jump.
  const leases = framework.clock === systemClock ? new Leases() : null
  const joined = async (target: CallTarget, callers: number): Promise<Pick<Joined, 'generation'> | null> => {
    const { integrationId } = target
    const askedAt = performance.now()
    const answer = await admissions.add({ target, callers, more: leases?.wanted(integrationId, callers) ?? 0 })
    if (answer !== null) leases?.give(integrationId, answer, askedAt)
    return answer
  }
  const scopes = new Map<number, Scope>()
  const warnings = new RepeatedWarnings(framework.logger, framework.clock)
  const admitOwn = async (integration: Identity, owners: readonly string[]): Promise<readonly Admission[]> => {
    const { id } = integration
    const admittedAll = ({ generation }: Pick<Joined, 'generation'>): Admission[] =>
      owners.map(() => ({ kind: 'admitted', probe: false, generation }))
    const leased = leases?.take(id, owners.length) ?? null
    if (leased !== null) return admittedAll(leased)
    const limit = declaredLimit(framework, integration.provider)
    warnOnce(integration, 'defaultRateLimit() threw, or gave no RateLimit; it is ignored', limit === undefined)
    const target = callTarget(framework, integration, limit ?? null)
    const given = canJoin(target) && plain.admission.has(id) ? await joined(target, owners.length) : null
    if (given !== null) return admittedAll(given)
    leases?.end(id)
    const answer = await admitCalls(db, tables, target, owners)
    if (answer === null) throw new IntegrationNotFound(id)
    warnOnce(integration, 'rate_limit_override holds no limit; it is ignored', answer.limitMalformed)
    warnOnce(integration, 'circuit_override holds no override; it is ignored', answer.overrideMalformed)
    if (isPlain(answer)) plain.admission.add(id)
    else plain.admission.delete(id)
    return answer.verdicts
  }
  const budgets: SharedBudgets = new SharedBudgets(
    ({ key, limit, seconds }, asked) => {
      const obeysOverride = framework.config.rate_limiting.overrides_enabled
      return takeShared(db, tables, key, { ...asked, limit, seconds, obeysOverride }, givenNowMs(framework))
    },
    { waiting: (id) => lines.waiting(id), isAsking: (id) => lines.isAsking(id), wake: (id) => lines.wake(id) },
    ({ name }, error) =>
      warnings.warn(
        name,
        () => ({ event: 'rate_limit.unreported', budget: name, error: errorLine(error, 300) }),
        'a shared budget could not be told which calls have ended; it is told again',
      ),
  )
  const lines = new AdmissionLines(
    (integration, owners) => {
      const scope = scopes.get(integration.id)
      if (scope === undefined) return admitOwn(integration, owners)
      return admitShared(budgets, scope, integration, owners, admitOwn)
    },
    framework.config.rate_limiting.max_wait_seconds * 1_000,
    framework.clock.wait?.bind(framework.clock),
  )
  const queues: Queues = {
    leases,
    budgets,
    scopes,
    warnOnce,
    admissions: lines,
    settlements: new Joiner<CallOutcome, SettledCall>(async (integration, outcomes) => {
      const target = callTarget(framework, integration)
      const { id } = integration
      const ended = joinable(target, outcomes)
      const ids = ended !== null && plain.settlement.has(id) ? await settlements.add(ended) : null
      if (ids !== null) return ids.map((rowId) => ({ rowId, events: [] }))
      leases?.end(id)
      const answer = await settleCalls(db, tables, target, outcomes)
      if (ended !== null && answer?.events.length === 0) plain.settlement.add(id)
      else plain.settlement.delete(id)
      if (answer === null) {
        integrationLogger(framework, integration).warn(
          { event: 'request.integration_gone' },
          'deleted while calls were under way; their outcomes are not written',
        )
        return outcomes.map(() => NOTHING_WRITTEN)
      }
      return outcomes.map((_, at) => ({
        rowId: answer.ids[at] ?? null,
        events: answer.events.filter((event) => event.at === at),
      }))
    }),
  }
  QUEUES.set(framework, queues)
  return queues
}

/** All or nothing: a unit of the budget whose caller the integration's own gates refuse is given back. */
async function admitShared(
  budgets: SharedBudgets,
  scope: Scope,
  integration: Identity,
  owners: readonly string[],
  admitOwn: (integration: Identity, owners: readonly string[]) => Promise<readonly Admission[]>,
): Promise<readonly Admission[]> {
  const { units, wait } = await budgets.take(scope, integration.id, owners.length)
  if (wait !== null) return owners.map(() => wait)
  const asked = owners.slice(0, units.length)
  try {
    const verdicts = await admitOwn(integration, asked)
    return owners.map((_, at): Admission => {
      const verdict = verdicts[at]
      if (verdict === undefined) return budgets.wait(scope, integration.id)
      const unit = units[at]
      if (verdict.kind === 'admitted' && unit !== undefined) return { ...verdict, unit }
      unit?.giveBack()
      return verdict
    })
  } catch (error) {
    for (const unit of units) unit.giveBack()
    throw error
  }
}

/** Before each call: changed credentials may lead to another budget. */
function noteScope(framework: Framework, { scopes, warnOnce }: Queues, integration: Integration): void {
  const scope = declaredScope(framework, integration)
  if (scope === null && !scopes.has(integration.id)) return
  const isWrong = scope === undefined
  warnOnce(integration, 'rateLimitScope() threw, or gave no scope with a RateLimit; it is ignored', isWrong)
  if (scope === null || scope === undefined) scopes.delete(integration.id)
  else scopes.set(integration.id, scope)
}

/** A shared budget is told what the provider said. Never throws: the call has been made. */
export async function quietBudget(
  framework: Framework,
  { scope }: Unit,
  { quietForMs, quietUntil }: Pick<CallOutcome, 'quietForMs' | 'quietUntil'>,
): Promise<void> {
  if (quietForMs === null && quietUntil === null) return
  const { db, tables, logger } = framework
  const quiet = { forMs: quietForMs, until: quietUntil }
  try {
    await queuesOf(framework).budgets.quiet(scope, () =>
      quietShared(db, tables, scope.key, quiet, givenNowMs(framework)),
    )
  } catch (error) {
    logger.warn(
      { event: 'rate_limit.unquiet', budget: scope.name, error: errorLine(error, 300) },
      'the provider has asked for quiet, and the shared budget could not be told',
    )
  }
}

/** Budgets that calls of this process have asked within their window. */
export function budgetsNow(framework: Framework): BudgetStanding[] {
  return QUEUES.get(framework)?.budgets.standing() ?? []
}

/** Reports what is back of shared budgets, so that it is not missed until others take this process for dead. */
export async function closeBudgets(framework: Framework): Promise<void> {
  await QUEUES.get(framework)?.budgets.close()
}

type OfTarget = Pick<Asked, 'target'>

function byIntegration({ target: a }: OfTarget, { target: b }: OfTarget): number {
  return a.integrationId - b.integrationId
}

function isPlain({ verdicts, override, overrideMalformed, limitSource, limitMalformed }: Admissions): boolean {
  const isHeldBack = override !== null || overrideMalformed || limitSource === 'override' || limitMalformed
  return !isHeldBack && verdicts.every((verdict) => verdict.kind === 'admitted' && !verdict.probe)
}
