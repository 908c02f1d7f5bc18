/** Why rows are stuck: the rows, who holds them, what Temporal knows of those, and what the processes said last. */
import type { WorkflowHandle } from '@temporalio/client'
import { Client, Connection } from '@temporalio/client'
import { workflowId } from '../../src/workflows/ids.ts'
import type { ChaosStack } from './chaos-stack.ts'

const ROWS = 5
const EVENTS = 25
const LINES = 40
const ANSWER_MS = 5_000
/** A claim begins with the id of the workflow run that made it, those of pumps and of a single item's job after a word. */
const RUN_ID = /[0-9a-f]{8}-[0-9a-f-]{27}/

/** Which rows, and whose work they are. */
export interface Subject {
  readonly table: string
  readonly workflowId: (prefix: string, integrationId: number) => string
  readonly query: string
}

export const WEBHOOKS: Subject = {
  table: 'integration_webhooks',
  workflowId: workflowId.webhookInbox,
  query: 'state',
}

export const SYNC_ITEMS: Subject = {
  table: 'integration_sync_items',
  workflowId: (prefix, integrationId) => workflowId.syncIntegration(prefix, { integrationId }),
  query: 'progress',
}

export async function diagnosis(stack: ChaosStack, subject: Subject): Promise<string> {
  const { sql } = stack
  const table = sql(subject.table)
  const rows = await sql<{ claim: string | null }[]>`
    select to_jsonb(t) - 'payload' - 'headers' as row, claim, clock_timestamp() - created_at as age
    from ${table} t where status in ('pending', 'processing') order by id`
  const groups = await sql`
    select status, claim, attempts, count(*)::int, min(id) as first_id, max(id) as last_id, min(updated_at) as updated_at
    from ${table} where status in ('pending', 'processing') group by 1, 2, 3 order by min(id)`
  const runLogs =
    await sql`select to_jsonb(l) as log from integration_logs l where operation = 'sync' order by id desc limit 2`
  const connection = Connection.lazy({ address: stack.temporalAddress })
  const client = new Client({ connection })
  try {
    const runs = new Set(rows.flatMap(({ claim }) => RUN_ID.exec(claim ?? '')?.[0] ?? []))
    const handle = client.workflow.getHandle(
      subject.workflowId(stack.integrations.config.cache_prefix, stack.integrationId),
    )
    return [
      'who holds what:',
      ...groups.map((group) => JSON.stringify(group)),
      `the first ${ROWS} rows:`,
      ...rows.slice(0, ROWS).map((row) => JSON.stringify(row)),
      ...(await Promise.all([...runs].map((run) => answer(`holder ${run}`, () => holderOf(client, run))))),
      'the last runs of a sync:',
      ...runLogs.map((row) => JSON.stringify(row)),
      await answer('workflow', () => describe(client, handle)),
      await answer('workflow, query', () => inTime(client, () => handle.query(subject.query))),
      await answer('workflow, history', () => historyOf(client, handle)),
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

function inTime<T>(client: Client, ask: () => Promise<T>): Promise<T> {
  return client.withDeadline(Date.now() + ANSWER_MS, ask)
}

async function describe(client: Client, handle: WorkflowHandle): Promise<unknown> {
  const { raw } = await inTime(client, () => handle.describe())
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

async function historyOf(client: Client, handle: WorkflowHandle): Promise<unknown> {
  const { events } = await inTime(client, () => handle.fetchHistory())
  return events?.slice(-EVENTS).map((event) => [Number(event.eventId), nameOf(event), secondsOf(event.eventTime)])
}

/** Whether the run that holds rows is alive. A claim does not say which kind of workflow made it. */
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
    const timeless = line.replace(/"time":"[^"]+"|\d{4}-\d\d-\d\dT[\d:.]+Z|retried \d+ times/g, '')
    return !said.has(timeless) && said.add(timeless)
  })
}
