/**
 * Activities with a person's input. The input is parsed here; a refusal is final and has the error's code.
 *
 * Unknown fields pass: a newer release's workflow may send one to a worker of this release.
 * Rule: docs/behaviour/commands-as-workflows.md.
 */

import { z } from 'zod'
import { isIntegrationsError } from '../framework/errors.ts'
import { instantOrAgo } from '../framework/instant.ts'
import { lostDatabase } from '../framework/lost-database.ts'
import { asRefusal, failureOf, isNotItsTurn } from './activity-failures.ts'
import type { Surroundings } from './surroundings.ts'
import { temporalSurroundings } from './surroundings.ts'

const WHOLE = 'a whole number of at least 1'
const Count = z.int(WHOLE).positive(WHOLE)
const Id = Count
const Limit = Count.optional()
const Flag = z.boolean('true or false').optional()
const ModelName = z.string("a model's name").min(1, "a model's name")

const inputOf = <Shape extends z.ZodRawShape>(shape: Shape) => z.looseObject(shape, 'one JSON object')

const SCHEMAS = {
  readWebhookState: inputOf({ webhookId: Id }),
  processOneWebhook: inputOf({ webhookId: Id, replay: Flag }),
  processOneSyncItem: inputOf({ itemId: Id, tries: Count, force: Flag }),
  skipFailedItem: inputOf({ itemId: Id }),
  listFailedSyncItems: inputOf({
    integrationId: Id.optional(),
    since: instantOrAgo().optional(),
    limit: Limit,
    all: Flag,
    waiting: Flag,
  }),
  advanceSyncCursor: inputOf({ integrationId: Id, reclaimStale: Flag, limit: Limit }),
  refreshTokensNow: inputOf({ integrationId: Id.optional() }),
  findOrphanRows: inputOf({ model: ModelName, integrationId: Id.optional(), limit: Limit }),
  listReconcilable: inputOf({ integrationId: Id.optional(), since: instantOrAgo().optional(), dryRun: Flag }),
} as const

type Step = keyof typeof SCHEMAS

/** Our errors that may pass. Any other is final: another try would get the same. */
const PASSING: ReadonlySet<string> = new Set([
  'backend_unreachable',
  'no_worker_answered',
  'lock_timeout',
  'schema_behind',
])
/** Tries for an error that may pass, and for any that is not ours: some 30 s with the waits of a step. */
const MAX_TRIES = 6

/**
 * The same activity with bounded tries. A refusal ends it at once, and a fault after some tries. Only an absent Postgres is waited
 * for without limit, and a stopping worker leaves the work to another one.
 *
 * @throws ApplicationFailure with the code of a refusal, or with the class of the last error
 */
export function boundedStep<Input extends unknown[], Output>(
  activity: (...input: Input) => Promise<Output>,
  surroundings = temporalSurroundings,
): (...input: Input) => Promise<Output> {
  return async (...input) => {
    try {
      return await activity(...input)
    } catch (error) {
      if (isFinal(error, surroundings())) throw asRefusal(error)
      throw error
    }
  }
}

/** The same activity for a person's input. @throws as {@link boundedStep}; ApplicationFailure `invalid_argument` */
export function commandStep<Input, Output>(
  name: Step,
  activity: (input: Input) => Promise<Output>,
  surroundings = temporalSurroundings,
): (input: Input) => Promise<Output> {
  const bounded = boundedStep(activity, surroundings)
  return async (input) => {
    const parsed = SCHEMAS[name].safeParse(input)
    if (!parsed.success)
      throw failureOf({ message: problemsOf(parsed.error, input), type: 'invalid_argument', nonRetryable: true })
    return bounded(input)
  }
}

function isFinal(error: unknown, { cancellationSignal, graceIsOver, info }: Surroundings): boolean {
  if (cancellationSignal.aborted || graceIsOver?.aborted || lostDatabase(error) !== null) return false
  if (isIntegrationsError(error) && !PASSING.has(error.code)) return true
  if (isNotItsTurn(error)) return false
  return info.attempt >= MAX_TRIES
}

/** Names what is allowed and the kind of what was given, not the value, which may be anything. */
function problemsOf(error: z.ZodError, input: unknown): string {
  const problems = error.issues.map(({ path, message }) => {
    const [name] = path
    const value = typeof name === 'string' ? (input as Record<string, unknown>)[name] : input
    return `"${String(name ?? 'input')}": ${message} is allowed, ${given(value)}`
  })
  return `${problems.join('; ')}.`
}

function given(value: unknown): string {
  if (value === undefined) return 'nothing was given'
  if (typeof value === 'number' || typeof value === 'boolean') return `${value} was given`
  return `${value === null ? 'null' : Array.isArray(value) ? 'a list' : `a ${typeof value}`} was given`
}
