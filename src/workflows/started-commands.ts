/**
 * The commands of the command line as a person starts them in Temporal: under the command's name, with an input that is
 * checked first. Code and Schedules start the same work under the workflows' own names, without these checks.
 *
 * Rule: docs/behaviour/commands-as-workflows.md.
 */
import {
  ActivityFailure,
  ApplicationFailure,
  log,
  proxyActivities,
  setCurrentDetails,
  TimeoutFailure,
  workflowInfo,
} from '@temporalio/workflow'
import type { CommandActivities } from '../activities/command-activities.ts'
import type { DatabaseCheckActivities } from '../activities/database-check.ts'
import type { RunCommandInput, RunCommandResult } from '../commands/command-jobs.ts'
import type { DispatchResult } from '../syncs/sync-jobs.ts'
import type { ProcessWebhookInput, ProcessWebhookResult } from '../webhooks/webhook-jobs.ts'
import { pass } from './activity-options.ts'
import { dispatchSyncs } from './dispatch-syncs.ts'
import { invalidArgument, kindOf, refuseUnlessFor } from './given-input.ts'
import {
  advanceCursor,
  evaluateFailures,
  findOrphans,
  listFailedItems,
  recoverWebhooks,
  refreshTokens,
  skipSyncItem,
} from './one-activity.ts'
import { processSyncItem } from './process-sync-item.ts'
import { processWebhook } from './process-webhook.ts'
import { prune } from './prune-workflow.ts'
import { plainFailure, readably } from './readable-failure.ts'
import { reconcileWebhooks } from './reconcile-workflow.ts'

export const advanceCursorCommand = command(advanceCursor, ['integrationId', 'stream', 'reclaimStale', 'limit'])
export const evaluateFailuresCommand = command(() => evaluateFailures(), [])
export const findOrphansCommand = command(findOrphans, ['model', 'integrationId', 'limit'])
export const listFailedItemsCommand = command(listFailedItems, [
  'integrationId',
  'stream',
  'since',
  'limit',
  'all',
  'waiting',
])
export const pruneCommand = command(() => prune(), [])
export const reconcileWebhooksCommand = command(reconcileWebhooks, ['integrationId', 'since', 'dryRun'])
export const recoverWebhooksCommand = command(() => recoverWebhooks(), [])
export const refreshTokensCommand = command(refreshTokens, ['integrationId'])
export const replayWebhookCommand = command(replayWebhook, ['webhookId', 'replay'])
export const retrySyncItemCommand = command(processSyncItem, ['itemId', 'tries', 'force'])
export const skipSyncItemCommand = command(skipSyncItem, ['itemId'])
export const syncCommand = answering(sync, ['integrationId', 'stream', 'dryRun', 'limit', 'from', 'to'])

interface SyncCommandInput {
  readonly integrationId?: number
  readonly stream?: string
  readonly dryRun?: boolean
  readonly limit?: number
  readonly from?: string
  readonly to?: string
}

/**
 * Without an input: starts what is due. With one, as on the command line: a run of one integration, a dry run, or a
 * backfill.
 */
async function sync(input: SyncCommandInput): Promise<DispatchResult | unknown> {
  if (Object.keys(input).length === 0) return onceReachable(dispatchSyncs)()
  const { integrationId, ...options } = input
  refuseUnlessFor('integrationId', input)
  return runProgramCommand({ ...options, integration: integrationId })
}

/** Started by hand it is a replay. With `replay: false` it takes only a row that waits. */
async function replayWebhook(input: ProcessWebhookInput): Promise<ProcessWebhookResult> {
  return processWebhook({ replay: true, ...input })
}

/** Retries while a backend is away or a worker was lost: the waits between six tries add up to some 20 s. */
const SIX_TRIES = {
  initialInterval: '1 second',
  backoffCoefficient: 2,
  maximumInterval: '5 seconds',
  maximumAttempts: 6,
} as const

const { runCommand } = proxyActivities<CommandActivities>({ ...pass, retry: SIX_TRIES })

const TYPE_PREFIX = 'integrations:'

/**
 * Runs a command with the command line's own program, inside a worker. The workflow's type names the command:
 * `integrations:circuit` is `circuit`.
 *
 * Durable promise: some worker runs the command, and another one runs it again when the first dies. The result is the
 * document of `--json`. A refusal fails the workflow with the message and the code of the command line. The warnings that a
 * terminal would print are in the workflow's details. One activity, so its history is short.
 */
export async function runProgramCommand(input?: unknown): Promise<unknown> {
  const { workflowType, workflowId } = workflowInfo()
  const command = workflowType.slice(TYPE_PREFIX.length)
  const { document, notes } = await readably(() => answered({ command, input: input ?? {}, workflowId }))
  if (notes.length > 0) {
    setCurrentDetails(notes.join('\n\n'))
    log.warn('a command has something to say', { event: 'command.noted', command, notes })
  }
  return document
}

/**
 * Turns a refusal into the message of the command line, which names the remedy. The activity's failure is not kept as its
 * cause: the history would hold the document, which may be large, twice.
 */
async function answered(asked: RunCommandInput): Promise<RunCommandResult> {
  try {
    return await runCommand(asked)
  } catch (error) {
    if (!(error instanceof ActivityFailure) || !(error.cause instanceof ApplicationFailure)) throw error
    const { message, type, details } = error.cause
    throw plainFailure({
      message,
      ...(type ? { type } : {}),
      ...(details ? { details } : {}),
      nonRetryable: true,
    })
  }
}

/** A workflow that a person starts: without an input it gets `{}`. */
type Answering<Input, Carried extends unknown[], Result> = (input?: Input, ...carried: Carried) => Promise<Result>

/**
 * Refuses an input that is not a JSON object or has an unknown field, before anything is done. The activities check the
 * fields' values.
 *
 * @param names of the fields that the input may have
 */
function answering<Input, Carried extends unknown[], Result>(
  workflow: (input: Input, ...carried: Carried) => Promise<Result>,
  names: readonly string[],
): Answering<Input, Carried, Result> {
  return async (input, ...carried) => {
    const given: unknown = input ?? {}
    const problem = problemOf(given, names)
    if (problem !== null) throw invalidArgument(problem)
    return workflow(given as Input, ...carried)
  }
}

/** A workflow under a command's name: it checks its input, then the database. */
function command<Input, Carried extends unknown[], Result>(
  workflow: (input: Input, ...carried: Carried) => Promise<Result>,
  names: readonly string[],
): Answering<Input, Carried, Result> {
  return answering(onceReachable(workflow), names)
}

/** Null: the input is as it should be. */
function problemOf(given: unknown, names: readonly string[]): string | null {
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    return `The input is one JSON object${names[0] === undefined ? '' : ` of ${names.join(', ')}`}; ${kindOf(given)} was given.`
  const unknown = Object.keys(given).filter((name) => !names.includes(name))
  if (unknown.length === 0) return null
  const allowed = names.length === 0 ? 'This command takes no input' : `Allowed are ${names.join(', ')}`
  return `${allowed}; ${unknown.join(', ')} was given.`
}

const UNREACHABLE = 'backend_unreachable'

/**
 * A database that accepts connections and answers nothing is away as well: six tries of 5 s and the waits between them make
 * 47 s. The timeout is that of one try, not of all: a busy worker may pick up a try late.
 */
const { checkDatabase } = proxyActivities<DatabaseCheckActivities>({
  startToCloseTimeout: '10 seconds',
  retry: SIX_TRIES,
})

/**
 * The same workflow behind a check of the database: where it is away before the work begins, the workflow fails, so that
 * its caller learns of it. A workflow that goes on in a new history has begun already, and waits for the database.
 *
 * Rule: docs/behaviour/commands-as-workflows.md, "Result".
 */
function onceReachable<Input extends unknown[], Result>(
  workflow: (...input: Input) => Promise<Result>,
): (...input: Input) => Promise<Result> {
  return async (...input) => {
    const { continuedFromExecutionRunId } = workflowInfo()
    if (continuedFromExecutionRunId === undefined) await reach()
    return workflow(...input)
  }
}

async function reach(): Promise<void> {
  try {
    await checkDatabase()
  } catch (error) {
    const why = error instanceof ActivityFailure ? reasonOf(error.cause) : null
    if (why === null) throw error
    const message = `${why} Nothing has been begun: start it again once Postgres is back.`
    throw plainFailure({
      message,
      type: UNREACHABLE,
      details: [{ error: { code: UNREACHABLE, message } }],
      nonRetryable: true,
    })
  }
}

/** Null: the check was cancelled. */
function reasonOf(cause: unknown): string | null {
  if (cause instanceof ApplicationFailure) return cause.message
  return cause instanceof TimeoutFailure ? 'Postgres did not answer in time.' : null
}
