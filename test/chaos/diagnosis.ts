/** Why deliveries are stuck: the rows, who holds them, what Temporal knows of those, and what the processes said last. */
import { Client, Connection } from '@temporalio/client'
import { workflowId } from '../../src/workflows/messages.ts'
import type { ChaosStack } from './chaos-stack.ts'

const ROWS = 5
const EVENTS = 25
const LINES = 40
const ANSWER_MS = 5_000
const UUID_LENGTH = 36

export async function diagnosis(stack: ChaosStack): Promise<string> {
  const rows = await stack.sql<{ claim: string | null }[]>`
    select id, delivery_id, status, attempts, claim, error, created_at, updated_at, clock_timestamp() - created_at as age
    from integration_webhooks where status in ('pending', 'processing') order by id`
  const groups = await stack.sql`
    select status, claim, attempts, count(*)::int, min(id) as first_id, max(id) as last_id, min(updated_at) as updated_at
    from integration_webhooks where status in ('pending', 'processing') group by 1, 2, 3 order by min(id)`
  const connection = Connection.lazy({ address: stack.temporalAddress })
  const client = new Client({ connection })
  try {
    // A claim begins with the id of the workflow run that made it.
    const runs = new Set(rows.flatMap(({ claim }) => (claim === null ? [] : [claim.slice(0, UUID_LENGTH)])))
    return [
      'who holds what:',
      ...groups.map((group) => JSON.stringify(group)),
      `the first ${ROWS} rows:`,
      ...rows.slice(0, ROWS).map((row) => JSON.stringify(row)),
      ...(await Promise.all([...runs].map((run) => answer(`holder ${run}`, () => holderOf(client, run))))),
      await answer('inbox', () => inboxOf(client, stack)),
      await answer('inbox, query', () => stateOf(client, stack)),
      await answer('inbox, history', () => historyOf(client, stack)),
      `the last lines that warn:`,
      ...warnings(stack.lines).slice(-LINES),
    ].join('\n')
  } finally {
    await connection.close()
  }
}

/** What can't be told is told, too: a Temporal that does not answer is an answer. */
async function answer(what: string, ask: () => Promise<unknown>): Promise<string> {
  try {
    return `${what}: ${JSON.stringify(await ask())}`
  } catch (error) {
    return `${what}: ${error instanceof Error ? `${error.name}: ${error.message}` : String(error)}`
  }
}

function inboxHandle(client: Client, { integrations, integrationId }: ChaosStack) {
  return client.workflow.getHandle(workflowId.webhookInbox(integrations.config.cache_prefix, integrationId))
}

async function inboxOf(client: Client, stack: ChaosStack): Promise<unknown> {
  const { raw } = await client.withDeadline(Date.now() + ANSWER_MS, () => inboxHandle(client, stack).describe())
  const { workflowExecutionInfo: info, pendingActivities, pendingWorkflowTask } = raw
  return {
    run: info?.execution?.runId,
    status: info?.status,
    events: Number(info?.historyLength),
    pendingActivities: pendingActivities?.map(({ activityType, state, attempt, lastFailure, lastHeartbeatTime }) => ({
      type: activityType?.name,
      state,
      attempt,
      lastFailure: lastFailure?.message,
      lastHeartbeatAt: secondsOf(lastHeartbeatTime),
    })),
    pendingWorkflowTask: pendingWorkflowTask && {
      state: pendingWorkflowTask.state,
      attempt: pendingWorkflowTask.attempt,
      scheduledAt: secondsOf(pendingWorkflowTask.scheduledTime),
      startedAt: secondsOf(pendingWorkflowTask.startedTime),
    },
  }
}

function stateOf(client: Client, stack: ChaosStack): Promise<unknown> {
  return client.withDeadline(Date.now() + ANSWER_MS, () => inboxHandle(client, stack).query('state'))
}

async function historyOf(client: Client, stack: ChaosStack): Promise<unknown> {
  const { events } = await client.withDeadline(Date.now() + ANSWER_MS, () => inboxHandle(client, stack).fetchHistory())
  return events?.slice(-EVENTS).map((event) => [Number(event.eventId), nameOf(event), secondsOf(event.eventTime)])
}

/** Whether the run that holds rows is alive. A claim does not say whether an inbox or a single job made it. */
async function holderOf(client: Client, runId: string): Promise<unknown> {
  const found: unknown[] = []
  for await (const { type, status, workflowId: id } of client.workflow.list({ query: `RunId = '${runId}'` }))
    found.push({ type, status: status.name, id })
  return found.length === 0 ? 'no such run' : found
}

function secondsOf(time: { seconds?: unknown } | null | undefined): string | null {
  return time === null || time === undefined ? null : new Date(Number(time.seconds) * 1_000).toISOString()
}

/** An event has one member with attributes, named after its type. */
function nameOf(event: object): string {
  return (
    Object.keys(event)
      .find((name) => name.endsWith('EventAttributes'))
      ?.slice(0, -'EventAttributes'.length) ?? '?'
  )
}

/** Kills and warnings; what repeats itself but for the time is said once. */
function warnings(lines: readonly string[]): string[] {
  const said = new Set<string>()
  return lines.filter((line) => {
    if (line.startsWith('stack ')) return true
    if (!/"level":[45]0|panic|Error/.test(line)) return false
    const timeless = line.replace(/"time":"[^"]+"/, '')
    return !said.has(timeless) && said.add(timeless)
  })
}
