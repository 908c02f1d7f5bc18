/** Keeps the Temporal Schedules in step with the configuration. An operator's pause survives. */
import { randomUUID } from 'node:crypto'
import type { CalendarSpecDescription, Client, ScheduleDescription } from '@temporalio/client'
import type { CacheStore } from '../cache/store.ts'
import type { Config } from '../config/schema.ts'
import { withTimeLimit } from '../framework/waiting.ts'
import type { ReconcileWebhooksInput } from '../webhooks/webhook-jobs.ts'
import { scheduleId } from '../workflows/ids.ts'
import { sdk } from './connection.ts'
import { sharedStart } from './workflow-starts.ts'

/** A worker that was away for longer does not make up for what it missed: the next run takes it all. */
const CATCH_UP_SECONDS = 60
/** Pruning comes once a day: a worker that was away at night makes up for it in the morning. */
const PRUNE_CATCH_UP_SECONDS = 6 * 3_600
const MINUTE_SECONDS = 60
/**
 * A wedged recovery can't end itself, and holds up its Schedule. An early end does no harm: the next one takes
 * what is left. Rule: docs/behaviour/webhook-recovery.md, "Wedged workflows".
 */
const RECOVERY_LIMIT_SECONDS = 30 * MINUTE_SECONDS
/** The shortest interval that a stream may declare. */
const QUICK_SECONDS = 10

/** What the wanted Schedules depend on, beyond the configuration. */
export interface ScheduleNeeds {
  /** Whether a provider is registered that can list what never arrived. */
  canReconcile(): boolean
  /** Whether a provider is registered whose tokens are refreshed. */
  canRefreshTokens(): boolean
  /** Whether a stream is declared whose interval is below a minute. */
  syncsWithinMinute(): boolean
  /**
   * Id of this deployment, which is kept with its rows: a restored copy has it, too. Left out or undefined: not known now.
   *
   * @param make stores one where there is none
   */
  deployment?(make: boolean): Promise<string | undefined>
}

const DEPLOYMENT_KEY = 'deployment'
/** Schedules can be seen and applied while Postgres is away, or its tables are locked. */
const DEPLOYMENT_SECONDS = 2

/**
 * Made once. Of two processes that begin at the same moment, the second takes the id of the first.
 *
 * @returns undefined: there is none, or Postgres does not say in time
 */
export async function deploymentId(cache: CacheStore, make: boolean): Promise<string | undefined> {
  const late = () => new Error('no answer in time')
  const read = async (): Promise<string | undefined> => {
    const known = await cache.get(DEPLOYMENT_KEY)
    if (known !== undefined) return String(known)
    if (!make) return undefined
    const own = randomUUID()
    if (await cache.add(DEPLOYMENT_KEY, own, null)) return own
    const others = await cache.get(DEPLOYMENT_KEY)
    return others === undefined ? undefined : String(others)
  }
  return withTimeLimit(DEPLOYMENT_SECONDS, late, read).catch(() => undefined)
}

/** In the memo of the workflows that a Schedule starts: that of the Schedule itself can't be changed. */
const DEPLOYMENT = 'deployment'

/** At an interval, or at an hour of each day, UTC, and up to `jitterSeconds` later. */
type Timing =
  | { readonly everySeconds: number }
  | { readonly dailyAtHour: number; readonly jitterSeconds: number; readonly catchUpSeconds: number }

interface Timetable extends ReturnType<typeof sharedStart> {
  readonly name: string
  readonly timing: Timing
  readonly args: readonly unknown[]
  /** Temporal ends a run that takes longer. Default: none. */
  readonly limitSeconds?: number
  /** With `schedules.enabled`. */
  readonly isWanted: boolean
}

/** Those that are wanted while a registered provider has a use for them. */
const BY_PROVIDER: ReadonlySet<string> = new Set(['refresh-tokens', 'reconcile'])

/** Every Schedule that this release knows, wanted or not. */
function timetable(config: Config, { canReconcile, canRefreshTokens, syncsWithinMinute }: ScheduleNeeds): Timetable[] {
  const every = (minutes: number): Timing => ({ everySeconds: minutes * MINUTE_SECONDS })
  const always = { args: [], isWanted: true }
  return [
    {
      name: 'dispatch-syncs',
      ...sharedStart(config, 'dispatchSyncs'),
      ...always,
      timing: syncsWithinMinute() ? { everySeconds: QUICK_SECONDS } : every(1),
    },
    {
      name: 'evaluate-failures',
      ...sharedStart(config, 'evaluateFailures'),
      timing: every(1),
      args: [],
      isWanted: config.observability.anomaly_enabled,
    },
    {
      name: 'recover-webhooks',
      ...sharedStart(config, 'recoverWebhooks'),
      ...always,
      timing: every(5),
      limitSeconds: RECOVERY_LIMIT_SECONDS,
    },
    {
      name: 'refresh-tokens',
      ...sharedStart(config, 'refreshTokens'),
      timing: every(10),
      args: [],
      isWanted: canRefreshTokens(),
    },
    {
      name: 'reconcile',
      ...sharedStart(config, 'reconcileWebhooks'),
      timing: every(60),
      args: [{} satisfies ReconcileWebhooksInput],
      isWanted: canReconcile(),
    },
    {
      name: 'prune',
      ...sharedStart(config, 'prune'),
      ...always,
      timing: { dailyAtHour: 3, jitterSeconds: 10 * MINUTE_SECONDS, catchUpSeconds: PRUNE_CATCH_UP_SECONDS },
    },
  ]
}

/** Names of the Schedules that the configuration and the providers ask for. */
export function wantedSchedules(config: Config, needs: ScheduleNeeds): string[] {
  if (!config.schedules.enabled) return []
  return timetable(config, needs).flatMap(({ name, isWanted }) => (isWanted ? [name] : []))
}

/**
 * Creates what is missing, updates what differs, and removes ours that the configuration does not want. Several workers may do
 * it at the same moment.
 *
 * A Schedule of a name that this release does not know stays: it may be a newer release's, whose workers run beside ours. So
 * does one that no provider of this process has a use for: those workers have started, and would not create it again.
 *
 * @param put puts the questions of one Schedule
 */
export async function ensureSchedules(
  client: Client,
  config: Config,
  needs: ScheduleNeeds,
  put: (ask: () => Promise<void>) => Promise<void> = (ask) => ask(),
): Promise<void> {
  const wanted = wantedSchedules(config, needs)
  const deployment = await needs.deployment?.(true)
  for (const entry of timetable(config, needs)) {
    const id = scheduleId(config.cache_prefix, entry.name)
    if (!wanted.includes(entry.name)) {
      if (!config.schedules.enabled || !BY_PROVIDER.has(entry.name)) await put(() => removeSchedule(client, id))
      continue
    }
    const definition = definitionOf(entry, deployment)
    await put(async () => {
      try {
        await client.schedule.create({ scheduleId: id, ...definition })
      } catch (error) {
        if (!(error instanceof sdk().ScheduleAlreadyRunning)) throw error
        await client.schedule.getHandle(id).update((previous) => ({ ...previous, ...definition }))
      }
    })
  }
}

const GRPC_DEADLINE_EXCEEDED = 4 // https://grpc.io/docs/guides/status-codes/
const START_TRIES = 4
const START_TRY_MS = 10_000

/**
 * As a worker starts. A Schedule is a workflow of Temporal's own, and a server that was killed and has just come back may leave a
 * question about it without an answer for half a minute, although it answers others. So the question is put again.
 */
export function ensureSchedulesAtStart(client: Client, config: Config, needs: ScheduleNeeds): Promise<void> {
  return ensureSchedules(client, config, needs, async (ask) => {
    for (let left = START_TRIES - 1; ; left -= 1)
      try {
        return await client.withDeadline(Date.now() + START_TRY_MS, ask)
      } catch (error) {
        if (left === 0 || (error as { cause?: { code?: unknown } }).cause?.code !== GRPC_DEADLINE_EXCEEDED) throw error
      }
  })
}

/** Does nothing when it is gone already. */
export async function removeSchedule(client: Client, id: string): Promise<void> {
  try {
    await client.schedule.getHandle(id).delete()
  } catch (error) {
    if (!(error instanceof sdk().ScheduleNotFoundError)) throw error
  }
}

/**
 * What of a Schedule on the server is not as the configuration says, in words; its pause is not ours to judge.
 *
 * @param deployment id of ours; left out: not known, so that of the Schedule is not compared
 */
export function scheduleDifferences(
  config: Config,
  needs: ScheduleNeeds,
  name: string,
  found: ScheduleDescription,
  deployment?: string,
): string[] {
  const entry = timetable(config, needs).find((candidate) => candidate.name === name)
  if (entry === undefined) return []
  const { action, policies } = found
  const compared: [what: string, found: string | undefined, wanted: string][] = [
    ['workflow', action.workflowType, entry.workflow],
    ['workflow id', action.workflowId, entry.workflowId],
    ['task queue', action.taskQueue, entry.taskQueue],
    ['input', JSON.stringify(action.args ?? []), JSON.stringify(entry.args)],
    ['time limit', limitWords(Number(action.workflowExecutionTimeout ?? 0) / 1_000), limitWords(entry.limitSeconds)],
    ['summary', action.staticSummary, entry.texts.staticSummary],
    // Paragraphs are no words for a line.
    ['details', action.staticDetails === entry.texts.staticDetails ? 'ours' : 'other ones', 'ours'],
    ['interval', intervalsFound(found), intervalWanted(entry.timing)],
    ['calendar', calendarsFound(found), calendarWanted(entry.timing)],
    ['jitter', `${(found.spec.jitter ?? 0) / 1_000} s`, `${jitterSeconds(entry.timing)} s`],
    ['overlap policy', policies.overlap, sdk().ScheduleOverlapPolicy.SKIP],
    ['catch-up window', `${policies.catchupWindow / 1_000} s`, `${catchUpSeconds(entry.timing)} s`],
  ]
  const other = action.memo?.[DEPLOYMENT]
  const isOfAnother = deployment !== undefined && other !== undefined && other !== deployment
  return [
    ...(isOfAnother ? [OF_ANOTHER] : []),
    ...compared
      .filter(([, is, shouldBe]) => is !== shouldBe)
      .map(([what, is, shouldBe]) => `${what} ${is} instead of ${shouldBe}`),
  ]
}

const OF_ANOTHER =
  "another deployment with the same cache_prefix in this namespace has written it, and each runs the other's work (give one of them another cache_prefix)"

function limitWords(seconds = 0): string {
  return seconds === 0 ? 'none' : `${seconds} s`
}

function intervalWanted(timing: Timing): string {
  return 'everySeconds' in timing ? `${timing.everySeconds} s` : 'none'
}

function calendarWanted(timing: Timing): string {
  return 'dailyAtHour' in timing ? dailyAt(timing.dailyAtHour) : 'none'
}

function dailyAt(hour: number): string {
  return `daily at ${String(hour).padStart(2, '0')}:00 UTC`
}

function intervalsFound({ spec: { intervals = [] } }: ScheduleDescription): string {
  const words = intervals.map(({ every, offset }) => `${every / 1_000} s${offset > 0 ? ' with an offset' : ''}`)
  return words.join(' and ') || 'none'
}

function calendarsFound({ spec }: ScheduleDescription): string {
  const { calendars = [], skip = [], timezone = '', startAt, endAt } = spec
  const words = [
    ...calendars.map(calendarWords),
    ...(skip.length > 0 ? ['what it skips'] : []),
    ...(timezone !== '' && timezone !== 'UTC' ? [`the time zone ${timezone}`] : []),
    ...(startAt !== undefined || endAt !== undefined ? ['a beginning or an end'] : []),
  ]
  return words.join(' and ') || 'none'
}

/** Of all that a calendar can say we ask for one: an hour of each day. The server answers with what is left out written in. */
function calendarWords({ second, minute, hour, dayOfMonth, month, year, dayOfWeek }: CalendarSpecDescription): string {
  const [at] = hour
  const isDaily =
    isOnly(second, 0) &&
    isOnly(minute, 0) &&
    hour.length === 1 &&
    at?.start === at?.end &&
    isAll(dayOfMonth, 1, 31) &&
    isAll(month, 'JANUARY', 'DECEMBER') &&
    year.length === 0 &&
    isAll(dayOfWeek, 'SUNDAY', 'SATURDAY')
  return isDaily && at !== undefined ? dailyAt(at.start) : 'another one'
}

interface FoundRange {
  readonly start: number | string
  readonly end: number | string
  readonly step: number
}

function isOnly(ranges: readonly FoundRange[], value: number): boolean {
  return ranges.length === 1 && ranges[0]?.start === value && ranges[0].end === value
}

function isAll(ranges: readonly FoundRange[], first: number | string, last: number | string): boolean {
  return ranges.length === 1 && ranges[0]?.start === first && ranges[0].end === last && ranges[0].step <= 1
}

function jitterSeconds(timing: Timing): number {
  return 'jitterSeconds' in timing ? timing.jitterSeconds : 0
}

function catchUpSeconds(timing: Timing): number {
  return 'catchUpSeconds' in timing ? timing.catchUpSeconds : CATCH_UP_SECONDS
}

function definitionOf(entry: Timetable, deployment: string | undefined) {
  const { timing } = entry
  return {
    spec:
      'everySeconds' in timing
        ? { intervals: [{ every: timing.everySeconds * 1_000 }] }
        : { calendars: [{ hour: timing.dailyAtHour }], jitter: timing.jitterSeconds * 1_000 },
    action: {
      type: 'startWorkflow' as const,
      workflowType: entry.workflow,
      workflowId: entry.workflowId,
      taskQueue: entry.taskQueue,
      args: [...entry.args],
      ...(entry.limitSeconds === undefined ? {} : { workflowExecutionTimeout: entry.limitSeconds * 1_000 }),
      ...entry.texts,
      ...(deployment === undefined ? {} : { memo: { [DEPLOYMENT]: deployment } }),
    },
    policies: { overlap: sdk().ScheduleOverlapPolicy.SKIP, catchupWindow: catchUpSeconds(timing) * 1_000 },
  }
}
