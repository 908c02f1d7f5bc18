/** The promises, each judged by the account of whoever is outside against the tables. */
import type { AccountedCalls } from '../inbox-calls.ts'
import { accountForCalls } from '../inbox-calls.ts'
import type { Happened } from '../inbox-faults.ts'
import type { Accounted } from '../inbox-runs.ts'
import { accountForRuns } from '../inbox-runs.ts'
import { crashes, UNCAUGHT, unhealthyTasks } from '../inbox-scenario.ts'
import { readLedger } from '../ledger.ts'
import { lookIntoAttic } from './attic.ts'
import { budgetOverruns } from './budget.ts'
import type { SentLoad } from './load.ts'
import type { Operators } from './operators.ts'
import type { Quiet } from './quiet.ts'
import { openRuns, subscriptionFaults } from './quiet.ts'
import type { CampaignStack } from './stack.ts'
import type { Watched } from './watch.ts'
import { lookOnce } from './watch.ts'
import { BUDGET, STREAM_NAMES } from './world.ts'

export interface Verdict {
  readonly promise: string
  readonly counts: string
  /** What breaks it, a line each. Empty: it is kept. */
  readonly broken: readonly string[]
}

export interface Evidence {
  readonly stack: CampaignStack
  readonly operators: Operators
  readonly sent: SentLoad
  readonly story: readonly Happened[]
  readonly watched: Watched
  readonly quiet: Quiet
}

export async function judge(evidence: Evidence): Promise<Verdict[]> {
  const verdicts: Verdict[] = []
  for (const judged of [
    ...(await webhooks(evidence)),
    await whole(evidence),
    await inOrder(evidence),
    await entries(evidence),
    await cursors(evidence),
    await runs(evidence),
    await calls(evidence),
    budget(evidence),
    await writes(evidence),
    await refreshes(evidence),
    await tokens(evidence),
    subscriptions(evidence),
    await events(evidence),
    await pruning(evidence),
    await keys(evidence),
    await ends(evidence),
    await rest(evidence),
    doctor(evidence),
  ])
    verdicts.push(judged)
  return verdicts
}

async function webhooks({ stack, sent, story }: Evidence): Promise<Verdict[]> {
  const { rows, claimedAgain, faults } = await readLedger({ sql: stack.sql, answered: sent.answered }, stack.atticId)
  const { faults: unexplained, ...runs }: Accounted = await accountForRuns(stack, story)
  const unstored = faults.filter((fault) => /^(LOST|a second row|a row that was never)/.test(fault))
  return [
    {
      promise: 'every webhook answered 2xx is stored once',
      counts: `${count(sent.answered.size)} answered, ${count(rows)} rows`,
      broken: [...unstored, ...sent.refusals.map((refusal) => `refused: ${refusal}`)],
    },
    {
      promise: 'every stored webhook is settled once',
      counts: `${count(rows)} rows, ${count(claimedAgain)} claimed again`,
      broken: faults.filter((fault) => !unstored.includes(fault)),
    },
    {
      promise: 'a handler runs again only after its worker died or was silent',
      counts: `${count(runs.runs)} runs, ${runs.afterDeath} after a death, ${runs.afterSilence} after a silence`,
      broken: unexplained,
    },
  ]
}

async function whole({ stack, sent, watched }: Evidence): Promise<Verdict> {
  await lookOnce(stack, watched)
  const stored = await stack.sql<{ delivery_id: string; parts: number }[]>`
    select delivery_id, parts from integration_deliveries`
  const parts = new Map(stored.map((row) => [row.delivery_id, row.parts]))
  const wrong = [...sent.many].filter(([id, events]) => parts.get(id) !== events)
  return {
    promise: 'a delivery of many is stored as a whole',
    counts: `${count(sent.many.size)} deliveries, ${count(sum([...sent.many.values()]))} events, ${watched.looks} looks`,
    broken: [...watched.torn, ...wrong.map(([id, events]) => `${id}: ${events} events sent, ${parts.get(id)} stored`)],
  }
}

/** By the attempts that count: each begins when the one before it has ended. */
async function inOrder({ stack, sent }: Evidence): Promise<Verdict> {
  const attempts = await stack.sql<{ delivery_id: string; id: number; begun: number; ended: number | null }[]>`
    select w.delivery_id, w.id::int, extract(epoch from r.begun_at)::float8 as begun, extract(epoch from r.ended_at)::float8 as ended
    from integration_webhooks w join handler_runs r on r.delivery_id = w.delivery_id and r.attempt = w.attempts
    where w.ordering_key is not null`
  const byId = new Map(attempts.map((attempt) => [attempt.delivery_id, attempt]))
  const broken: string[] = []
  for (const [key, ids] of sent.ordered)
    for (const [at, id] of ids.entries()) {
      const now = byId.get(id)
      const before = at === 0 ? undefined : byId.get(ids[at - 1] as string)
      if (now === undefined) broken.push(`${key}: number ${at + 1} has no run`)
      else if (before !== undefined && !(before.id < now.id && (before.ended ?? Infinity) <= now.begun))
        broken.push(`${key}: number ${at + 1} began before number ${at} had ended: ${JSON.stringify({ before, now })}`)
    }
  const webhooks = sum([...sent.ordered.values()].map((ids) => ids.length))
  return {
    promise: 'webhooks of a key are handled in the order of their arrival',
    counts: `${sent.ordered.size} keys, ${count(webhooks)} webhooks`,
    broken,
  }
}

async function entries({ stack: { sql, crms, outside } }: Evidence): Promise<Verdict> {
  const effects = await sql<{ integration: number; stream: string; n: number }[]>`
    select integration, stream, n from entry_effects`
  const done = new Set(effects.map(({ integration, stream, n }) => `${integration} ${stream} ${n}`))
  const listed = crms.flatMap((id) =>
    STREAM_NAMES.flatMap((stream) =>
      Array.from({ length: outside.published(stream) }, (_, index) => `${id} ${stream} ${index + 1}`),
    ),
  )
  const [runs] = await sql<{ runs: number }[]>`select coalesce(sum(runs), 0)::int as runs from entry_runs`
  return {
    promise: 'no entry of a sync is lost',
    counts: `${count(listed.length)} published, ${count(done.size)} handled, ${count(runs?.runs ?? 0)} runs of listeners`,
    broken: listed.filter((entry) => !done.has(entry)).map((entry) => `LOST: ${entry}`),
  }
}

async function cursors({ stack: { sql }, watched }: Evidence): Promise<Verdict> {
  const [row] = await sql<{ cursors: number }[]>`
    select count(*)::int as cursors from integration_streams where sync_cursor <> 'null'`
  return {
    promise: 'no cursor passes an unfinished entry',
    counts: `${row?.cursors} cursors, ${watched.looks} looks`,
    broken: [...watched.passed],
  }
}

async function runs({ stack }: Evidence): Promise<Verdict> {
  const byStatus = await stack.sql<{ status: string; runs: number }[]>`
    select status, count(*)::int as runs from integration_logs where operation = 'sync' group by 1 order by 1`
  const open = await openRuns(stack)
  return {
    promise: 'every run of a sync ends',
    counts: byStatus.map(({ status, runs }) => `${count(runs)} ${status}`).join(', '),
    broken: open === 0 ? [] : [`${open} are open`],
  }
}

async function calls({ stack, story }: Evidence): Promise<Verdict> {
  const { faults, ...accounted }: AccountedCalls = await accountForCalls(stack, stack.outside, story)
  const { made, withRow, diedBefore, saidLost } = accounted
  return {
    promise: 'every outbound call has its row, but what a kill or a lost Postgres cost',
    counts: `${count(made)} arrived, ${count(withRow)} rows, ${diedBefore} died with their worker, ${saidLost} reported lost`,
    broken: faults,
  }
}

function budget({ stack, story }: Evidence): Verdict {
  const { callsAtMs } = stack.outside
  const { most, excused, overruns } = budgetOverruns(callsAtMs, story)
  return {
    promise: `a shared budget holds by the provider's clock`,
    counts: `${count(callsAtMs.length)} calls, at most ${most} in ${BUDGET.seconds} s of ${BUDGET.calls} allowed${excused === 0 ? '' : `, ${excused} late after a stop`}`,
    broken: overruns,
  }
}

async function writes({ stack: { sql, outside } }: Evidence): Promise<Verdict> {
  const noted = await sql<{ key: string; state: string; answer: string | null }[]>`select * from keyed_writes`
  const spent = new Set(
    (await sql<{ key: string }[]>`select key from integration_idempotency_keys`).map(({ key }) => key),
  )
  const broken: string[] = []
  for (const [key, { effects }] of outside.writes) {
    if (effects > 1) broken.push(`${key}: ${effects} effects`)
    if (!spent.has(key)) broken.push(`${key}: an effect, and the key is free again`)
  }
  for (const { key, state, answer } of noted)
    if (state === 'answered' && outside.writes.get(key)?.answer !== answer)
      broken.push(`${key}: reported as answered, and the provider does not know it so`)
    else if (state === 'given up' && outside.writes.has(key)) broken.push(`${key}: an effect that was not reported`)
  const of = (state: string): number => noted.filter((note) => note.state === state).length
  return {
    promise: 'a write with a key takes effect once at most, and what is uncertain is said',
    counts: `${count(noted.length)} keys, ${count(outside.writes.size)} effects, ${of('uncertain')} uncertain, ${of('given up')} without effect`,
    broken,
  }
}

async function refreshes({ stack: { outside } }: Evidence): Promise<Verdict> {
  const all = [...outside.grants]
  return {
    promise: 'one refresh at a time for each integration',
    counts: `${count(sum(all.map(([, { refreshes }]) => refreshes)))} refreshes, at most ${Math.max(...all.map(([, { mostUnderWay }]) => mostUnderWay))} at once`,
    broken: all
      .filter(([, { mostUnderWay }]) => mostUnderWay > 1)
      .map(([id, { mostUnderWay }]) => `integration ${id}: ${mostUnderWay} at once`),
  }
}

/** No older refresh token came back, and the stored one is good. */
async function tokens({ stack: { outside, doors }, operators: { integrations } }: Evidence): Promise<Verdict> {
  const broken = [...outside.grants].flatMap(([id, { refused }]) =>
    refused.map((token) => `integration ${id}: ${token} came back after a later one`),
  )
  for (const id of doors.banks) {
    await integrations.oauth.refresh({ integrationId: id })
    const token = await (await integrations.get(id)).getAccessToken()
    if (token !== `access-${id}-${outside.grants.get(id)?.given}`)
      broken.push(`integration ${id}: ${token} is stored, ${outside.grants.get(id)?.given} was given last`)
  }
  return {
    promise: 'no refresh token is lost',
    counts: `${doors.banks.length} integrations refreshed once more`,
    broken,
  }
}

function subscriptions({ stack, operators }: Evidence): Verdict {
  const wanted = [...operators.wanted.values()].filter(Boolean).length
  return {
    promise: 'subscriptions are exact at the end',
    counts: `${wanted} wanted, ${stack.subscriptions.subscriptions.size} at the provider, ${count(stack.subscriptions.requests.length)} requests`,
    broken: subscriptionFaults(stack, operators),
  }
}

async function events({ stack: { sql } }: Evidence): Promise<Verdict> {
  const [row] = await sql<{ events: number; tellings: number; untold: string[] | null }[]>`
    select count(*)::int as events, (select count(*)::int from told_events) as tellings,
      array_agg('evt_' || e.id) filter (where not exists (select from told_events t where t.id = 'evt_' || e.id)) as untold
    from integration_events e where name = 'SyncCompleted'`
  return {
    promise: 'every durable event is told at least once',
    counts: `${count(row?.events ?? 0)} events, told ${count(row?.tellings ?? 0)} times`,
    broken: (row?.untold ?? []).map((id) => `${id} was not told`),
  }
}

async function pruning({ stack, operators }: Evidence): Promise<Verdict> {
  const { waiting, finished } = await lookIntoAttic(stack)
  return {
    promise: 'pruning takes what is old and done, and nothing that waits',
    counts: `${operators.acts.get('prune') ?? 0} runs; ${count(waiting.there)} of ${count(waiting.planted)} that wait are there, ${count(finished.there)} of ${count(finished.planted)} that are done`,
    broken: [
      ...(waiting.there === waiting.planted ? [] : ['something that waits is gone']),
      ...(finished.there === 0 ? [] : ['something that is done is still there']),
    ],
  }
}

async function keys({ operators: { integrations, rotations } }: Evidence): Promise<Verdict> {
  const { primary, keys } = await integrations.admin.keys.status()
  const broken = keys
    .filter(({ kid, rows }) => kid !== primary && rows > 0)
    .map(({ kid, rows }) => `${rows} rows of the key ${kid}`)
  let read = 0
  for await (const integration of integrations.list())
    try {
      integration.credentialsArray()
      read += 1
    } catch (error) {
      broken.push(`integration ${integration.id}: ${String(error)}`)
    }
  return {
    promise: 'all credentials decrypt after a rotation',
    counts: `${rotations} rotations, ${read} integrations read`,
    broken,
  }
}

async function ends({ stack, story }: Evidence): Promise<Verdict> {
  const filled = story.filter(({ fault }) => fault.kind === 'fill')
  // A Postgres whose disk is full may end itself; its supervisor starts it again.
  const isOfFullDisk = (line: string): boolean => {
    const atMs = Number(/"atMs":(\d+)/.exec(line)?.[1])
    return line.startsWith('postgres: ') && filled.some(({ fromMs, untilMs }) => fromMs <= atMs && atMs <= untilMs)
  }
  const own = crashes([...stack.parts.values()], story)
  const byDisk = own.filter(isOfFullDisk)
  return {
    promise: 'no process ends by itself, and no workflow is stuck in its task',
    counts: `${stack.parts.size} processes${filled.length === 0 ? '' : `, ${byDisk.length} ends of Postgres by ${filled.length} full disks`}`,
    broken: [
      ...own.filter((line) => !isOfFullDisk(line)),
      ...stack.lines.filter((line) => UNCAUGHT.test(line)),
      ...(await unhealthyTasks(stack)),
    ],
  }
}

async function rest({ stack: { sql, atticId }, quiet }: Evidence): Promise<Verdict> {
  const [left] = await sql<Record<'webhooks' | 'items' | 'claims' | 'locks' | 'turns', number>[]>`
    select (select count(*)::int from integration_webhooks where status in ('pending', 'processing') and integration_id <> ${atticId}) as webhooks,
      (select count(*)::int from integration_sync_items where status in ('pending', 'processing') and integration_id <> ${atticId}) as items,
      (select count(*)::int from integration_webhooks where claim is not null)
        + (select count(*)::int from integration_sync_items where claim is not null)
        + (select count(*)::int from integration_events where claim is not null and delivered_at is null) as claims,
      (select count(*)::int from integration_webhooks where key_turn is not null) as turns,
      (select count(*)::int from pg_locks where locktype = 'advisory') as locks`
  const counted = left ?? { webhooks: 0, items: 0, claims: 0, turns: 0, locks: 0 }
  return {
    promise: 'nothing is stuck at the end',
    counts: `at rest after ${quiet.seconds} s; ${Object.entries(counted)
      .map(([what, there]) => `${there} ${what}`)
      .join(', ')}`,
    broken: [
      ...quiet.restless,
      ...Object.entries(counted).flatMap(([what, there]) => (there === 0 ? [] : [`${there} ${what} are left`])),
    ],
  }
}

function doctor({ quiet }: Evidence): Verdict {
  return {
    promise: 'the doctor finds nothing',
    counts: `${quiet.doctor.length} findings`,
    broken: quiet.doctor,
  }
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0)

const count = (number: number): string => number.toLocaleString('en-US')
