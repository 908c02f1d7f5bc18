/**
 * The two statements around an attempt: may it be made, and what did it come to.
 *
 * Rule: docs/behaviour/requests.md, "Admission" and "Settlement".
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { integrationKey } from '../../cache/integration-keys.ts'
import type { Admission } from '../../core/call-state.ts'
import { CircuitOpenException, IntegrationNotFound, RateLimitExceededException } from '../../core/errors.ts'
import { errorLine, systemClock } from '../../core/logger.ts'
import type { CallEvent, CallOutcome, CallRules, CallTarget } from '../../db/queries/calls.ts'
import { admitCalls, settleCalls } from '../../db/queries/calls.ts'
import type { Framework } from '../../framework.ts'
import type { Integration } from '../../providers/integration.ts'
import { declaresRateLimit } from '../../providers/provider.ts'
import { currentSync } from '../inside-sync.ts'
import { AdmissionLines } from './admission-line.ts'
import { followSignals } from './follow-signals.ts'
import { isAboutOneItem, Joiner } from './joiner.ts'

/** A call that may be made; comes back with its outcome. */
export interface Ticket {
  readonly owner: string
  /** Null: the breaker does not count this call. */
  readonly generation: number | null
}

export interface SettledCall {
  readonly rowId: number | null
  /** What this very outcome changed. */
  readonly events: readonly CallEvent[]
}

interface Queues {
  readonly admissions: AdmissionLines
  readonly settlements: Joiner<CallOutcome, SettledCall>
}

/** A settlement is tried three times within so long: then the outcome goes to the caller without its row. */
const SETTLEMENT_MS = 10_000
const SETTLEMENT_WAITS_MS = [500, 3_000]

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
  const enough = new AbortController()
  const release = followSignals(enough, [signal, currentSync()?.signal])
  try {
    enough.signal.throwIfAborted()
    const admission = await queuesOf(framework).admissions.enter(integration, owner, enough.signal)
    if (admission.kind === 'admitted') {
      if (enough.signal.aborted) await giveUp(framework, integration, owner, admission)
      enough.signal.throwIfAborted()
      return { owner, generation: admission.generation }
    }
    if (admission.kind === 'open') throw circuitOpen(framework, integration, admission)
    throw new RateLimitExceededException(
      integration.toJSON(),
      Math.max(1, Math.ceil(admission.retryAfterMs / 1_000)),
      admission.kind === 'limited' ? admission.limit : null,
    )
  } finally {
    release()
  }
}

/** The caller left while its admission was under way. A probe's slot is for the next one; a unit taken is not given back. */
async function giveUp(
  framework: Framework,
  integration: Integration,
  owner: string,
  { generation, probe }: Extract<Admission, { kind: 'admitted' }>,
): Promise<void> {
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
  const endsAt = performance.now() + SETTLEMENT_MS
  for (let tries = 0; ; tries += 1)
    try {
      return await within(endsAt - performance.now(), queuesOf(framework).settlements.add(integration, outcome, bytes))
    } catch (error) {
      // What a column can't hold it will not hold the next time.
      const waitMs = isAboutOneItem(error) ? undefined : SETTLEMENT_WAITS_MS[tries]
      if (waitMs === undefined || performance.now() + waitMs >= endsAt) {
        framework.logger.error(
          { integration: integration.id, endpoint: outcome.row?.endpoint, error: errorLine(error, 500) },
          'the outcome of an outbound call could not be written; the call itself is unaffected',
        )
        return NOTHING_WRITTEN
      }
      await sleep(waitMs)
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

/** Key of the shared state in the cache table, without the prefix. */
export function callStateKey(integrationId: number): string {
  return integrationKey(integrationId, 'calls')
}

export function callTarget(framework: Framework, { id, provider }: Pick<Integration, 'id' | 'provider'>): CallTarget {
  return {
    integrationId: id,
    key: `${framework.config.cache_prefix}:${callStateKey(id)}`,
    rules: callRules(framework, provider),
    nowMs: framework.clock === systemClock ? null : framework.clock.now().getTime(),
  }
}

function callRules({ config, providers }: Framework, key: string): CallRules {
  const { circuit_breaker: breaker, health } = config
  const provider = providers.find(key)
  const limit = provider !== null && declaresRateLimit(provider) ? provider.defaultRateLimit() : null
  return {
    breaker: {
      enabled: breaker.enabled,
      strategy: breaker.strategy,
      windowSeconds: breaker.time_window,
      ratePercent: breaker.failure_rate_threshold,
      minimum: breaker.minimum_requests,
      threshold: breaker.threshold,
      cooldownSeconds: breaker.cooldown_seconds,
    },
    limit: limit === null ? null : { limit: limit.limit, seconds: limit.seconds, window: limit.window },
    circuitOverrides: breaker.overrides_enabled,
    limitOverrides: config.rate_limiting.overrides_enabled,
    health: {
      degradedAfter: health.degraded_after,
      failingAfter: health.failing_after,
      disabledAfter: health.disabled_after,
    },
    incidents: config.observability.incidents_enabled,
  }
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
  const { db, tables, logger } = framework
  /** What was warned of, until it is mended: not once a call. */
  const warned = new Set<string>()
  const warnOnce = (integrationId: number, message: string, isSo: boolean): void => {
    const key = `${integrationId} ${message}`
    if (!isSo) warned.delete(key)
    else if (!warned.has(key)) {
      warned.add(key)
      logger.warn({ integration: integrationId }, message)
    }
  }
  const queues: Queues = {
    admissions: new AdmissionLines(async (integration, owners) => {
      const answer = await admitCalls(db, tables, callTarget(framework, integration), owners)
      if (answer === null) throw new IntegrationNotFound(integration.id)
      warnOnce(integration.id, 'rate_limit_override holds no limit; it is ignored', answer.limitMalformed)
      warnOnce(integration.id, 'circuit_override holds no override; it is ignored', answer.overrideMalformed)
      return answer.verdicts
    }, framework.config.rate_limiting.max_wait_seconds * 1_000),
    settlements: new Joiner<CallOutcome, SettledCall>(async (integration, outcomes) => {
      const answer = await settleCalls(db, tables, callTarget(framework, integration), outcomes)
      if (answer === null) {
        logger.warn(
          { integration: integration.id },
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
