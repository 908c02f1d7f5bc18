/**
 * Activities that a person's input reaches: it is parsed here, and a refusal is final and has the error's code.
 *
 * Fields that a schema does not know pass: a newer release's workflow may send one to a worker of this release.
 * Rule: docs/behaviour/commands-as-workflows.md.
 */
import { z } from 'zod'
import { isIntegrationsError } from '../core/errors.ts'
import { asFailure, failureOf } from './failures.ts'

const WHOLE = 'a whole number of at least 1'
const Count = z.int(WHOLE).positive(WHOLE)
const Id = Count
const Limit = Count.optional()
const Flag = z.boolean('true or false').optional()
const Instant = z.iso
  .datetime({ offset: true, error: 'a moment in ISO 8601 with its offset, such as 2031-06-01T12:00:00Z,' })
  .optional()
const ModelName = z.string("a model's name").min(1, "a model's name")

const SCHEMAS = {
  readWebhookState: z.looseObject({ webhookId: Id }),
  processOneWebhook: z.looseObject({ webhookId: Id, replay: Flag }),
  processOneSyncItem: z.looseObject({ itemId: Id, tries: Count }),
  skipFailedItem: z.looseObject({ itemId: Id }),
  listFailedSyncItems: z.looseObject({ integrationId: Id.optional(), since: Instant, limit: Limit }),
  advanceSyncCursor: z.looseObject({ integrationId: Id, reclaimStale: Flag, limit: Limit }),
  refreshTokensNow: z.looseObject({ integrationId: Id.optional() }),
  findOrphanRows: z.looseObject({ model: ModelName, integrationId: Id.optional(), limit: Limit }),
  listReconcilable: z.looseObject({ integrationId: Id.optional(), since: Instant, dryRun: Flag }),
} as const

type Step = keyof typeof SCHEMAS

/** Refusals that are a person's answer: whoever asks again gets the same. */
const REFUSALS: ReadonlySet<string> = new Set([
  'invalid_argument',
  'integration_not_found',
  'sync_item_not_found',
  'sync_item_not_failed',
  'unknown_provider',
  'unsupported_by_provider',
])

/** The same activity. @throws ApplicationFailure `invalid_argument`, or with the code of a refusal; never tried again */
export function commandStep<Input, Output>(
  name: Step,
  activity: (input: Input) => Promise<Output>,
): (input: Input) => Promise<Output> {
  return async (input) => {
    const parsed = SCHEMAS[name].safeParse(input)
    if (!parsed.success)
      throw failureOf({ message: problemsOf(parsed.error, input), type: 'invalid_argument', nonRetryable: true })
    try {
      return await activity(input)
    } catch (error) {
      if (isIntegrationsError(error) && REFUSALS.has(error.code))
        throw asFailure(error, { secrets: [], nonRetryable: true })
      throw error
    }
  }
}

/** What is allowed, and of which kind that was which was given: a value may be anything. */
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
