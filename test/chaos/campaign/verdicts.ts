/** The promises, each judged by comparing the accounts of the servers outside with the tables. Why so: docs/decisions/0083-verdicts-by-outside-servers.md. */
import { crashes, UNCAUGHT } from '../inbox-scenario.ts'
import { lookIntoAttic } from './attic.ts'
import { origins } from './origin-verdicts.ts'
import { budget, calls, refreshes, subscriptions, tokens, writes } from './provider-verdicts.ts'
import { openRuns } from './quiet.ts'
import type { Evidence, Verdict } from './verdict.ts'
import { count } from './verdict.ts'
import { inOrder, webhooks, whole } from './webhook-verdicts.ts'
import { STREAM_NAMES } from './world.ts'

export async function judge(evidence: Evidence): Promise<Verdict[]> {
  return [
    ...(await webhooks(evidence)),
    await whole(evidence),
    await inOrder(evidence),
    await entries(evidence),
    await cursors(evidence),
    await runs(evidence),
    await calls(evidence),
    budget(evidence),
    await writes(evidence),
    refreshes(evidence),
    tokens(evidence),
    subscriptions(evidence),
    await events(evidence),
    await pruning(evidence),
    await keys(evidence),
    await origins(evidence),
    ends(evidence),
    await rest(evidence),
    doctor(evidence),
  ]
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

async function events({ stack: { sql } }: Evidence): Promise<Verdict> {
  const events = await sql<{ id: string; is_told: boolean }[]>`
    select 'evt_' || id as id, exists (select from told_events t where t.id = 'evt_' || e.id) as is_told
    from integration_events e where name = 'SyncCompleted'`
  const tellings = await sql`select from told_events`
  return {
    promise: 'every durable event is told at least once',
    counts: `${count(events.length)} events, told ${count(tellings.length)} times`,
    broken: events.filter(({ is_told }) => !is_told).map(({ id }) => `${id} was not told`),
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

function ends({ stack, story, quiet }: Evidence): Verdict {
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
      ...quiet.tasks,
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
      (select count(*)::int from pg_locks l join pg_database d on d.oid = l.database
        where l.locktype = 'advisory' and d.datname = current_database()) as locks`
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
