/** Rule: docs/behaviour/doctor.md, "Locks". Other sessions hold locks, as an operator's psql does. */
import { randomBytes } from 'node:crypto'
import type { ReservedSql, Sql } from 'postgres'
import postgres from 'postgres'
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest'
import { askAside } from '../../../src/db/client.ts'
import type { Observation } from '../../../src/integrations/doctor/doctor-check.ts'
import { blockedFor, databaseBlocked, lockHolders } from '../../../src/integrations/doctor/lock-check.ts'
import { aboutSlot } from '../../../src/integrations/doctor/old-snapshots.ts'
import type { DoctorProbes, Finding } from '../../../src/integrations/doctor/run-doctor.ts'
import { runDoctor } from '../../../src/integrations/doctor/run-doctor.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { testIntegrations } from '../../support/integrations.ts'
import { webhookProvider } from '../../support/providers.ts'
import { reachableTemporal } from '../../support/reachable-temporal.ts'
import { makeIncident, makeIntegration, makeWebhook, setIntegration } from '../../support/rows.ts'
import { SOON } from '../../support/soon.ts'

let database: TestDatabase
let test: TestIntegrations
let probes: DoctorProbes
/** As an operator's psql that was left open. */
let psql: Sql
let session: ReservedSql
let pid: number
let id: number
/** Begun before the tests, which wait as well: it waits for eleven seconds, in a database of its own. */
let whole: ReturnType<typeof behindLock>

beforeAll(async () => {
  whole = behind(behindLock())
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { hooks: webhookProvider() } })
  probes = { askAside: (question) => askAside(test.sql, question) } as DoctorProbes
  id = (await makeIntegration(test, 'hooks')).id
})
afterAll(async () => {
  await whole.catch(() => {})
  await test?.close()
  await database?.drop()
})

beforeEach(async () => {
  psql = postgres(database.url, { max: 1, connection: { application_name: 'psql' } })
  session = await psql.reserve()
  const [own] = await session<{ pid: number }[]>`select pg_backend_pid() as pid`
  pid = own?.pid as number
})
afterEach(async () => {
  await psql.end({ timeout: 0 })
  await expect.poll(async () => (await holders()).length, SOON).toBe(0)
})

const holders = () => askAside(test.sql, (sql) => lockHolders(sql, 0))
const look = async (check = databaseBlocked): Promise<readonly Observation[]> =>
  [await check.look(test.framework, probes)].flat()
/** The same check, for tests of what it says and not of when. */
const soonBlocked = blockedFor(0.5)

async function deadRows(): Promise<number> {
  const [row] = await test.sql<
    { dead: number }[]
  >`select pg_stat_get_dead_tuples('integrations'::regclass)::int as dead`
  return row?.dead ?? 0
}

/** Its statement waits for the lock, or fails with the session that holds it: the test awaits neither. */
function behind<T>(work: Promise<T>): Promise<T> {
  work.catch(() => {})
  return work
}

it('names the session that holds a table which ours wait for, and its remedy ends the session and its lock', async () => {
  await session`begin`
  await session`lock table integration_webhooks in exclusive mode`
  expect(await look()).toMatchObject([{ status: 'ok' }])
  const stored = [behind(makeWebhook(test, id)), behind(makeWebhook(test, id))]
  await expect.poll(async () => (await look())[0]?.status, SOON).toBe('fault')
  await expect.poll(async () => (await look())[0]?.message, SOON).toMatch(/^2 sessions of ours \("[^"]+"\) wait/)
  const [found] = await look()
  expect(found?.message).toMatch(
    new RegExp(
      `^2 sessions of ours \\("[^"]+"\\) wait for a lock on integration_webhooks, the longest since \\S+Z\\. The session with pid ${pid} holds it: application_name "psql", user "postgres", (from \\S+, )?idle in transaction since \\S+Z, in a transaction since \\S+Z\\. Find out first whose it is\\.`,
    ),
  )
  expect(found?.since?.getTime()).toBeLessThan(Date.now() - 4_000)
  expect(found?.remedy).toContain(`pg_terminate_backend(pid) as ended from pg_stat_activity where pid = ${pid} and`)
  // What psql would send, by the same connection string.
  const [, statement] = /^psql "\$DATABASE_URL" -c '(.*)'$/s.exec(found?.remedy ?? '') ?? []
  expect(await test.sql.unsafe(statement as string)).toMatchObject([{ pid, application_name: 'psql', ended: true }])
  await Promise.all(stored)
  expect(await look()).toMatchObject([
    { status: 'ok', message: expect.stringMatching(/^No session of ours has waited for a lock for 5 s, none /) },
  ])
})

/** Found at once, and where a single row is dead. */
const old = blockedFor(5, 5, { minutes: 0, transactions: 0, deadRows: 1 })
const ofOld = async () => (await look(old)).filter(({ status }) => status !== 'ok')

it('names a session whose old snapshot keeps dead rows in our tables, and the remedy ends it', async () => {
  await setIntegration(test, id, { name: 'updated' })
  // At the default level a session keeps no snapshot between two statements.
  await session.unsafe('begin; select 1')
  await expect.poll(deadRows, SOON).toBeGreaterThan(0)
  expect(await ofOld()).toEqual([])
  await session`rollback`
  await session`begin isolation level repeatable read`
  await session`select 1`
  const [found, ...others] = await ofOld()
  expect(others).toEqual([])
  expect(found).toMatchObject({ status: 'warning', since: expect.any(Date) })
  expect(found?.message).toMatch(
    new RegExp(
      `^The session with pid ${pid} has an old snapshot: application_name "psql", .*, in a transaction since \\S+Z\\. Postgres can not remove dead rows that are younger, and claims walk over them: .*integrations has \\d+`,
    ),
  )
  expect(await look(), 'neither old nor many rows').toMatchObject([{ status: 'ok' }])
  const [, statement] = /^psql "\$DATABASE_URL" -c '(.*)'$/s.exec(found?.remedy ?? '') ?? []
  expect(await test.sql.unsafe(statement as string)).toMatchObject([{ pid, ended: true }])
  await expect.poll(ofOld, SOON).toEqual([])
})

it('names a prepared transaction that was left open, and the remedy rolls it back', async () => {
  await setIntegration(test, id, { name: 'updated again' })
  await session`begin`
  await session`create table of_theirs (id int)`
  await session.unsafe(`prepare transaction 'it''s left'`)
  await expect.poll(async () => (await ofOld()).length, SOON).toBe(1)
  const [found] = await ofOld()
  expect(found).toMatchObject({ status: 'warning', since: expect.any(Date) })
  expect(found?.message).toMatch(
    /^The prepared transaction "it's left" of the user "postgres" was left open at \S+Z\. /,
  )
  const [, quoted = ''] = /^psql "\$DATABASE_URL" -c '(.*)'$/s.exec(found?.remedy ?? '') ?? []
  await test.sql.unsafe(quoted.replaceAll(`'\\''`, `'`))
  expect(await ofOld()).toEqual([])
})

it.each([
  [true, /A standby uses it: end the long query there/, 'pg_stat_replication'],
  [false, /No standby is connected to it/, `select pg_drop_replication_slot('\\''spare'\\'')`],
])('says of a replication slot whether a standby uses it: %s', (isActive, said, remedy) => {
  const found = aboutSlot({ name: 'spare', isActive, transactions: 200_000 }, 'It harms')
  expect(found).toMatchObject({ status: 'warning', remedy: expect.stringContaining(remedy) })
  expect(found.message).toMatch(
    /^The replication slot "spare" holds a snapshot that is 200000 transactions old\. It harms\. /,
  )
  expect(found.message).toMatch(said)
})

it('names a session that was left in a transaction with locks on our tables, before any other waits for it', async () => {
  await session`create temporary table theirs (id int)`
  const left = blockedFor(5, 0)
  await session`begin`
  await session`insert into theirs values (1)`
  expect(await look(left)).toMatchObject([{ status: 'ok' }])
  await session`update integrations set name = 'held' where id = ${id}`
  const [found, ...others] = await look(left)
  expect(others).toEqual([])
  expect(found).toMatchObject({ status: 'warning', since: expect.any(Date) })
  expect(found?.message).toMatch(
    new RegExp(
      `^The session with pid ${pid} has been left in a transaction, and holds locks on integrations: application_name "psql", user "postgres", (from \\S+, )?idle in transaction since \\S+Z, in a transaction since \\S+Z\\. No session of ours waits `,
    ),
  )
  // A transaction of ours stands for milliseconds: none is idle for minutes.
  expect(await look()).toMatchObject([{ status: 'ok' }])
  const waits = behind(setIntegration(test, id, { name: 'ours' }))
  await expect.poll(async () => (await look(blockedFor(0, 0))).map(({ status }) => status), SOON).toEqual(['fault'])
  const [, statement] = /^psql "\$DATABASE_URL" -c '(.*)'$/s.exec(found?.remedy ?? '') ?? []
  expect(await test.sql.unsafe(statement as string)).toMatchObject([{ pid, ended: true }])
  await waits
})

it('names the table of a row that another session has changed and not committed', async () => {
  await session`begin`
  await session`update integrations set name = 'held' where id = ${id}`
  const waits = behind(setIntegration(test, id, { name: 'ours' }))
  await expect
    .poll(holders, SOON)
    .toMatchObject([{ pid, waiting: 1, state: 'idle in transaction', tables: ['integrations'] }])
  await session`rollback`
  await waits
})

it('names the session at the head of a line, not one that waits in it', async () => {
  await session`begin`
  await session`lock table integration_webhooks in share mode`
  const inLine = postgres(database.url, { max: 1, connection: { application_name: 'a migration' } })
  try {
    const altered = behind(inLine.begin((sql) => sql`lock table integration_webhooks in access exclusive mode`))
    await expect.poll(async () => (await holders()).length, SOON).toBe(1)
    const stored = behind(makeWebhook(test, id))
    await expect.poll(holders, SOON).toMatchObject([
      {
        pid,
        waiting: 2,
        waitingOf: expect.stringMatching(/^"a migration", "/),
        tables: ['integration_webhooks'],
      },
    ])
    await session`rollback`
    await altered
    await stored
  } finally {
    await inLine.end({ timeout: 0 })
  }
})

/** Roles are of the whole server, which other test files use, too. */
const another = `another_${randomBytes(4).toString('hex')}`
const lowlyRole = `lowly_${randomBytes(4).toString('hex')}`
const urlOf = (role: string): string => {
  const url = new URL(database.url)
  return Object.assign(url, { username: role, password: 'of a test' }).href
}

it('leaves out sessions of other applications and users, whatever they wait for', async () => {
  await session`create role ${session(another)} login password 'of a test'`
  await session`create table theirs (id int)`
  await session`grant all on theirs to ${session(another)}`
  const other = postgres(urlOf(another), { max: 1, connection: { application_name: 'another' } })
  try {
    await session`begin`
    await session`lock table theirs in access exclusive mode`
    const waits = behind(other`select from theirs`.execute())
    const ofThisDatabase = test.sql`database = (select oid from pg_database where datname = current_database())`
    await expect
      .poll(async () => (await test.sql`select from pg_locks where not granted and ${ofThisDatabase}`).length, SOON)
      .toBeGreaterThan(0)
    expect(await holders()).toEqual([])
    await session`rollback`
    await waits
  } finally {
    await other.end({ timeout: 0 })
    await test.sql`drop table theirs`
    await test.sql`drop role ${test.sql(another)}`
  }
})

it('says what its role may not see, and who may end the session', async () => {
  await test.sql`create role ${test.sql(lowlyRole)} login password 'of a test'`
  await test.sql`grant select, insert on integration_webhooks to ${test.sql(lowlyRole)}`
  await test.sql`grant usage on all sequences in schema public to ${test.sql(lowlyRole)}`
  const lowly = postgres(urlOf(lowlyRole), { max: 1 })
  try {
    await session`begin`
    await session`lock table integration_webhooks in exclusive mode`
    const stored = behind(
      lowly`insert into integration_webhooks (integration_id, delivery_id, payload, headers) values (${id}, 'lowly', '{}', '{}')`.execute(),
    )
    const seen: DoctorProbes = { ...probes, askAside: (question) => askAside(lowly, question) }
    const looked = async () => [await soonBlocked.look(test.framework, seen)].flat()[0]
    await expect.poll(async () => (await looked())?.status, SOON).toBe('fault')
    const found = await looked()
    expect(found?.message).toContain(`The session with pid ${pid} holds it: application_name "psql", user "postgres", `)
    expect(found?.message).toContain(
      `its state can't be seen by the role "${lowlyRole}" (a superuser lets it: grant pg_read_all_stats to "${lowlyRole}")`,
    )
    expect(found?.message).toContain(`The role "${lowlyRole}" may not: run it as "postgres" or as a superuser.`)
    expect(found?.remedy).toMatch(new RegExp(`where pid = ${pid}'$`))
    await session`rollback`
    await stored
  } finally {
    await lowly.end({ timeout: 0 })
    await test.sql`drop owned by ${test.sql(lowlyRole)}`
    await test.sql`drop role ${test.sql(lowlyRole)}`
  }
})

it('tells of a prepared transaction, which has no session to end', async () => {
  await session`begin`
  await session`lock table integration_webhooks in exclusive mode`
  await session`prepare transaction 'of a test'`
  const stored = behind(makeWebhook(test, id))
  await expect.poll(async () => (await look(soonBlocked))[0]?.status, SOON).toBe('fault')
  expect(await look(soonBlocked)).toMatchObject([
    {
      message: expect.stringMatching(/on integration_webhooks.*A prepared transaction holds it, without a session/),
      remedy: expect.stringContaining('from pg_prepared_xacts'),
    },
  ])
  await test.sql`rollback prepared 'of a test'`
  await stored
})

it('does not take minutes where the lock holds up other checks as well', async () => {
  const { blocked, afterwards } = await whole
  expect(blocked).toMatchObject([
    { check: 'database.blocked', status: 'fault', message: expect.stringContaining('integration_incidents') },
    { check: 'incidents.open', message: expect.stringContaining('no answer within 3 s; see database.blocked') },
    {
      check: 'incidents.unseen',
      status: 'fault',
      message: expect.stringContaining('no answer within 3 s; see database.blocked'),
    },
    { check: 'pruning.overdue', message: expect.stringContaining('no answer within 3 s; see database.blocked') },
  ])
  expect(afterwards).toEqual([])
})

/** What the whole doctor finds wrong, behind a lock and after it. */
async function behindLock(): Promise<Record<'blocked' | 'afterwards', readonly Finding[]>> {
  const apart = await createTestDatabase()
  const ours = testIntegrations(apart.url, {
    config: { operator: { tokens: [{ name: 'test', sha256: 'a'.repeat(64), scopes: ['read'] }] } },
    providers: { hooks: webhookProvider() },
  })
  Object.assign(ours.framework, { temporal: reachableTemporal() })
  const seen: DoctorProbes = {
    checkDatabase: async () => {},
    askAside: (question) => askAside(ours.sql, question),
    pendingMigrations: async () => [],
    baseUrl: null,
    dev: false,
    local: null,
  }
  const wrong = async (): Promise<readonly Finding[]> =>
    (await runDoctor(ours.framework, seen)).filter(({ status }) => status === 'fault' || status === 'warning')
  const holder = postgres(apart.url, { max: 1 })
  try {
    const hooks = await makeIntegration(ours, 'hooks')
    const held = await holder.reserve()
    await held`begin`
    await held`lock table integration_incidents in access exclusive mode`
    const waiting = behind(makeIncident(ours, hooks.id, { acknowledgedAt: new Date(), acknowledgedBy: 'ada' }))
    const status = async () => [await databaseBlocked.look(ours.framework, seen)].flat()[0]?.status
    // Not by expect.poll, which belongs to a test.
    await vi.waitFor(async () => expect(await status()).toBe('fault'), SOON)
    const blocked = await wrong()
    await held`rollback`
    await waiting
    return { blocked, afterwards: await wrong() }
  } finally {
    await holder.end({ timeout: 0 })
    await ours.close()
    await apart.drop()
  }
}
