/** What `doctor` and `schedules` see of Temporal. */
import type { Client, ScheduleDescription } from '@temporalio/client'
import { isLoopback } from '../access/rules.ts'
import type { Config } from '../config/schema.ts'
import type {
  LastPoll,
  PolledQueue,
  ScheduleState,
  TemporalCommands,
  TemporalInspection,
} from '../framework/context.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { shellWord } from '../framework/shell-word.ts'
import type { FollowIncidentInput } from '../incidents/incident-jobs.ts'
import { QUERY, SIGNAL, scheduleId, taskQueue, WORKFLOW, workflowId } from '../workflows/ids.ts'
import type { PumpedQueueInput } from '../workflows/messages.ts'
import type { TemporalAddress } from './connection.ts'
import { checkTemporal, createNamespaceCommand, isWithoutNamespace, sdk, temporalUnreachable } from './connection.ts'
import type { ScheduleNeeds } from './keep-schedules.ts'
import { ensureSchedules, removeSchedule, scheduleDifferences, wantedSchedules } from './keep-schedules.ts'
import { applySearchAttributes, readSearchAttributes } from './search-attributes.ts'
import { wedgedLooks } from './wedged.ts'
import { sharedStart, taskQueuesOf } from './workflow-starts.ts'

/**
 * How long each question may wait for Temporal's answer. A Schedule is described by a query, and one that the server puts to a
 * cache which has dropped the Schedule is answered only after 5 s (Go SDK, `StickyScheduleToStartTimeout`; seen: 5.01 s).
 */
const ANSWER_TIMEOUT_MS = 15_000
/** Of many questions, one after the other. */
const APPLY_TIMEOUT_MS = 60_000
/** The newest workflows, each asked whether it is wedged. An open home page asks every 15 s, and Temporal Cloud counts requests. */
const MAX_WEDGED_LOOKED_AT = 500
/**
 * A worker's poll lasts a minute at most (the server's `matching.longPollExpirationInterval`), then it polls again; the rest
 * is for clocks that differ. The server itself remembers a poller for five minutes.
 */
const POLLED_LATELY_MS = 120_000
/** `temporal.api.enums.v1.TaskQueueType`: a worker whose activity slots are taken polls for workflow tasks still. */
const TASK_QUEUE_TYPES = { workflow: 1, activity: 2 } as const

/**
 * @param client made when first asked for
 * @param needs asked each time: a provider may be registered later
 * @param isDevelopment see {@link temporalCommands}
 */
export function temporalInspection(
  client: () => Client,
  config: Config,
  where: TemporalAddress & Pick<TemporalInspection, 'certificateEndsAt'>,
  needs: ScheduleNeeds,
  isDevelopment = false,
): TemporalInspection {
  const prefix = config.cache_prefix

  async function ask<T>(question: (client: Client) => Promise<T>, timeoutMs = ANSWER_TIMEOUT_MS): Promise<T> {
    try {
      return await client().withDeadline(Date.now() + timeoutMs, () => question(client()))
    } catch (error) {
      if (isIntegrationsError(error)) throw error
      throw temporalUnreachable(where, error)
    }
  }

  async function describe(name: string): Promise<ScheduleDescription | null> {
    try {
      return await ask((asked) => asked.schedule.getHandle(scheduleId(prefix, name)).describe())
    } catch (error) {
      if ((error as Error).cause instanceof sdk().ScheduleNotFoundError) return null
      throw error
    }
  }

  /** Names of Schedules under our prefix that the configuration does not ask for. The list may lag behind what is there. */
  function leftOverNames(): Promise<string[]> {
    const begin = scheduleId(prefix, '')
    const wanted = wantedSchedules(config, needs)
    return ask(async (asked) => {
      const names: string[] = []
      for await (const { scheduleId: id } of asked.schedule.list()) {
        const name = id.slice(begin.length)
        if (id.startsWith(begin) && !wanted.includes(name)) names.push(name)
      }
      return names.sort()
    })
  }

  async function schedules(): Promise<ScheduleState[]> {
    const deployment = await needs.deployment?.(false)
    const described = async (name: string): Promise<ScheduleState> => {
      const found = await describe(name)
      const differences = found === null ? [] : scheduleDifferences(config, needs, name, found, deployment)
      const standing = found === null ? 'missing' : differences.length > 0 ? 'differs' : 'in step'
      return stateOf(scheduleId(prefix, name), name, standing, differences, found)
    }
    const leftOver = async (name: string): Promise<ScheduleState[]> => {
      const found = await describe(name)
      return found === null ? [] : [stateOf(scheduleId(prefix, name), name, 'left over', [], found)]
    }
    const [wanted, others] = await Promise.all([
      Promise.all(wantedSchedules(config, needs).map(described)),
      leftOverNames().then((names) => Promise.all(names.map(leftOver))),
    ])
    return [...wanted, ...others.flat()]
  }

  async function isRunning(id: string): Promise<boolean> {
    try {
      const { status } = await ask((asked) => asked.workflow.getHandle(id).describe())
      return status.name === 'RUNNING'
    } catch (error) {
      if ((error as Error).cause instanceof sdk().WorkflowNotFoundError) return false
      throw error
    }
  }

  return {
    ...where,
    commands: temporalCommands(config, where, isDevelopment),
    check: () => checkTemporal(client(), where),
    schedules,
    async dispatchPause() {
      if (!config.schedules.enabled) return null
      const found = await describe('dispatch-syncs')
      return found?.state.paused === true
        ? { id: scheduleId(prefix, 'dispatch-syncs'), note: found.state.note || null }
        : null
    },
    async applySchedules() {
      await ask((asked) => ensureSchedules(asked, config, needs), APPLY_TIMEOUT_MS)
      for (const name of await leftOverNames()) await ask((asked) => removeSchedule(asked, scheduleId(prefix, name)))
      return schedules()
    },
    searchAttributes: () => ask((asked) => readSearchAttributes(asked)),
    applySearchAttributes: () => ask((asked) => applySearchAttributes(asked, where)),
    async pollers(now) {
      const queues: PolledQueue[] = []
      for (const taskQueue of taskQueuesOf(config)) {
        const kinds = []
        for (const taskQueueType of Object.values(TASK_QUEUE_TYPES))
          kinds.push(
            await ask((asked) =>
              asked.workflowService.describeTaskQueue({
                namespace: where.namespace,
                taskQueue: { name: taskQueue },
                taskQueueType,
                reportStats: true,
              }),
            ),
          )
        queues.push(polledQueue(taskQueue, kinds, now.getTime()))
      }
      return queues
    },
    wedged: () => ask((asked) => wedgedLooks(config, MAX_WEDGED_LOOKED_AT)(asked), APPLY_TIMEOUT_MS),
    isInboxRunning: () => isRunning(workflowId.webhookInbox(prefix)),
    isOutboxRunning: () => isRunning(workflowId.eventOutbox(prefix)),
    isIncidentFollowed: (integrationId) => isRunning(workflowId.incident(prefix, integrationId)),
  }
}

function stateOf(
  id: string,
  name: string,
  standing: ScheduleState['standing'],
  differences: readonly string[],
  found: ScheduleDescription | null,
): ScheduleState {
  return {
    name,
    id,
    standing,
    differences,
    isPaused: found?.state.paused ?? false,
    note: found?.state.note ?? null,
    lastRunAt: found?.info.recentActions.at(-1)?.takenAt ?? null,
    nextRunAt: found?.state.paused === true ? null : (found?.info.nextActionTimes[0] ?? null),
  }
}

type Described = Awaited<ReturnType<Client['workflowService']['describeTaskQueue']>>

/** @param kinds one of workflow tasks, one of activities */
function polledQueue(taskQueue: string, kinds: readonly Described[], nowMs: number): PolledQueue {
  const polls = kinds.map(({ pollers }) =>
    (pollers ?? []).map(({ identity, lastAccessTime }) => ({
      identity: identity ?? '',
      at: new Date(Number(lastAccessTime?.seconds ?? 0) * 1_000),
    })),
  )
  const lately = polls.flat().filter(({ at }) => at.getTime() > nowMs - POLLED_LATELY_MS)
  const waiting = kinds.map(({ stats }, at) => ({
    tasks: Number(stats?.approximateBacklogCount ?? 0),
    seconds: Number(stats?.approximateBacklogAge?.seconds ?? 0),
    lastPoll: newest(polls[at] ?? []),
  }))
  const [longest] = waiting.filter(({ tasks }) => tasks > 0).sort((a, b) => b.seconds - a.seconds)
  return {
    taskQueue,
    workers: new Set(lately.map(({ identity }) => identity)).size,
    lastPoll: newest(polls.flat()),
    backlog: longest ?? null,
  }
}

function newest(polls: readonly LastPoll[]): LastPoll | null {
  return [...polls].sort((a, b) => b.at.getTime() - a.at.getTime())[0] ?? null
}

interface Started {
  readonly workflow: string
  readonly workflowId: string
  readonly taskQueue: string
}

/** @param isDevelopment a server without stored data, keys and TLS may take the place of one that does not answer */
export function temporalCommands(
  config: Config,
  { address, namespace }: TemporalAddress,
  isDevelopment: boolean,
): TemporalCommands {
  const prefix = config.cache_prefix
  const at = `--address ${shellWord(address)} --namespace ${shellWord(namespace)}`
  const schedule = (id: string): string => `--schedule-id ${shellWord(id)}`
  const signalWithStart = (start: Started, input: object, signal: string): string =>
    [
      `temporal workflow signal-with-start ${at}`,
      `--workflow-id ${shellWord(start.workflowId)}`,
      `--type ${start.workflow} --task-queue ${shellWord(start.taskQueue)}`,
      `--input ${shellWord(JSON.stringify(input))} --signal-name ${signal}`,
    ].join(' ')
  const wake = (name: 'webhookInbox' | 'eventOutbox'): string =>
    signalWithStart(sharedStart(config, name), {} satisfies PumpedQueueInput, SIGNAL.arrived)
  const askState = (id: string): string =>
    `temporal workflow query ${at} --workflow-id ${shellWord(id)} --type ${QUERY.state}`
  return {
    reach(error) {
      if (isWithoutNamespace((error as { cause?: unknown }).cause))
        return createNamespaceCommand({ address, namespace })
      const [, host = '', port] = /^(.*):(\d+)$/.exec(address) ?? []
      return isDevelopment && isLoopback(host)
        ? `temporal server start-dev --port ${port} --namespace ${shellWord(namespace)} --db-filename temporal.db`
        : `temporal operator cluster health --address ${shellWord(address)}`
    },
    wakeInbox: () => wake('webhookInbox'),
    askInbox: () => askState(workflowId.webhookInbox(prefix)),
    terminate: (id) => `temporal workflow terminate ${at} --workflow-id ${shellWord(id)} --reason 'it does not go on'`,
    wakeOutbox: () => wake('eventOutbox'),
    askOutbox: () => askState(workflowId.eventOutbox(prefix)),
    followIncident: (integrationId) =>
      signalWithStart(
        {
          workflow: WORKFLOW.incident,
          workflowId: workflowId.incident(prefix, integrationId),
          taskQueue: taskQueue(prefix, config.sync.queue),
        },
        { integrationId } satisfies FollowIncidentInput,
        SIGNAL.escalate,
      ),
    askIncident: (integrationId) => askState(workflowId.incident(prefix, integrationId)),
    resume: (id) =>
      `temporal schedule toggle ${at} ${schedule(id)} --unpause --reason 'resumed after integrations doctor'`,
    // The Schedule's own policy starts none while one runs, which may be the one that does not go on.
    dispatchNow: () =>
      `temporal schedule trigger ${at} ${schedule(scheduleId(prefix, 'dispatch-syncs'))} --overlap-policy AllowAll`,
  }
}
