/** After the last fault: what was bad is good, what waits is waited for. What does not come to rest in time is a promise broken. */
import { setTimeout as sleep } from 'node:timers/promises'
import { doctorSays, unhealthyTasks } from '../inbox-scenario.ts'
import { allSettled } from '../ledger.ts'
import { checkpointOf } from '../sync-plan.ts'
import type { Operators } from './operators.ts'
import { setSubscription, untilDone } from './operators.ts'
import type { CampaignStack } from './stack.ts'
import { STREAM_NAMES } from './world.ts'

const SETTLED_SECONDS = 300
/** Poisoned entries are tried again by the next run only. */
const LISTED_SECONDS = 300
const ELSE_SECONDS = 120
const POLL_MS = 1_000
const SYNC_EVERY_MS = 4_000

export interface Quiet {
  /** What has not come to rest, each with why. */
  readonly restless: readonly string[]
  readonly doctor: readonly string[]
  /** Workflows whose task fails. */
  readonly tasks: readonly string[]
  /** The access token of each integration that has one, refreshed once more. */
  readonly tokens: ReadonlyMap<number, string | null>
  readonly seconds: number
}

/** @param doctorBefore names of the checks that had something to say before the first fault */
export async function comeToRest(
  stack: CampaignStack,
  operators: Operators,
  doctorBefore: ReadonlySet<string>,
): Promise<Quiet> {
  const startedAt = performance.now()
  stack.outside.weather = 'good'
  stack.outside.endLists()
  stack.subscriptions.faults.splice(0)
  const restless: string[] = []
  const within = async (what: string, seconds: number, isDone: () => Promise<boolean>): Promise<void> => {
    const giveUpAt = performance.now() + seconds * 1_000
    let last = ''
    while (performance.now() < giveUpAt) {
      if (
        await isDone().catch((error: unknown) => {
          last = String(error)
          return false
        })
      )
        return
      await sleep(POLL_MS)
    }
    restless.push(`${what}: not within ${seconds} s ${last}`)
  }
  for (const part of stack.parts.values())
    await part.ready().catch((error: unknown) => {
      restless.push(String(error))
    })
  await untilDone(operators, 'cure', () => stack.sql`insert into cure default values`)
  for (const [id, isWanted] of operators.wanted)
    await untilDone(operators, 'settle a subscription', () => setSubscription(operators, id, isWanted))

  await Promise.all([
    allSettled(stack, SETTLED_SECONDS, stack.atticId).catch((error: unknown) => {
      restless.push(String(error))
    }),
    within('each integration is served by its provider again', ELSE_SECONDS, () => areServed(stack, operators)),
    within('each stream is at its end', LISTED_SECONDS, () => areListed(stack, operators)),
    within('subscriptions are as wanted', ELSE_SECONDS, async () => subscriptionFaults(stack, operators).length === 0),
  ])
  await within('no run is open', ELSE_SECONDS, async () => (await openRuns(stack)) === 0)
  await within('durable events are told', ELSE_SECONDS, async () => {
    const waiting = await stack.sql`select from integration_events where delivered_at is null`
    return waiting.length === 0
  })
  await untilDone(operators, 'prune', () => operators.integrations.admin.prune())
  let doctor: string[] = []
  await within('the doctor has nothing to say', ELSE_SECONDS, async () => {
    const said = await doctorSays(operators)
    doctor = said.filter((line) => !doctorBefore.has(checkOf(line)))
    return doctor.length === 0
  })
  // A rotation may have been cut off with its deployment.
  await untilDone(operators, 'rotate keys at the end', () => operators.integrations.admin.keys.rotate())
  const tokens = new Map<number, string | null>()
  for (const id of stack.doors.banks)
    await untilDone(operators, 'refresh at the end', async () => {
      await operators.integrations.oauth.refresh({ integrationId: id })
      tokens.set(id, await (await operators.integrations.get(id)).getAccessToken())
    })
  const tasks = await unhealthyTasks(stack)
  return { restless, doctor, tasks, tokens, seconds: Math.round((performance.now() - startedAt) / 1_000) }
}

/** `<check>: <message>` */
export const checkOf = (line: string): string => line.slice(0, line.indexOf(':'))

async function areServed({ doors, crms, outside }: CampaignStack, { integrations }: Operators): Promise<boolean> {
  const path = '/list/0/contacts?after=0'
  for (const id of [...doors.shops, ...doors.banks, ...crms])
    await (await integrations.get(id)).request('afterwards', 'GET', ({ signal }) =>
      fetch(`${outside.url}${path}`, { signal }),
    )
  return true
}

/** Runs are asked for until then: each lists from the cursor on. */
async function areListed({ sql, crms, outside }: CampaignStack, { integrations }: Operators): Promise<boolean> {
  const cursors = await sql<{ id: number; stream: string; cursor: string | null }[]>`
    select integration_id::int as id, stream, sync_cursor #>> '{}' as cursor from integration_streams`
  const ends = crms.flatMap((id) =>
    STREAM_NAMES.map((stream) => ({ id, stream, cursor: checkpointOf(outside.published(stream)) })),
  )
  const late = ends.filter(
    (end) => !cursors.some((at) => at.id === end.id && at.stream === end.stream && at.cursor === end.cursor),
  )
  if (late.length === 0) return true
  for (const id of new Set(late.map((end) => end.id))) await integrations.syncs.start(id)
  await sleep(SYNC_EVERY_MS)
  throw new Error(`late: ${JSON.stringify(late)}; cursors: ${JSON.stringify(cursors)}`)
}

export async function openRuns({ sql }: Pick<CampaignStack, 'sql'>): Promise<number> {
  const open = await sql`select from integration_logs where status = 'processing'`
  return open.length
}

/** What is not as wanted at the provider, a line each. */
export function subscriptionFaults(
  { subscriptions }: Pick<CampaignStack, 'subscriptions'>,
  { wanted }: Pick<Operators, 'wanted'>,
): string[] {
  subscriptions.note()
  const urls = [...subscriptions.subscriptions.values()].map(({ url }) => url)
  return [...wanted].flatMap(([id, isWanted]) => {
    const own = urls.filter((url) => url.endsWith(`/acme/${id}/webhook`)).length
    return own === (isWanted ? 1 : 0) ? [] : [`integration ${id}: ${own} at the provider, ${isWanted ? 1 : 0} wanted`]
  })
}
