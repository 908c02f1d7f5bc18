/** Every command where something is missing: its exit code, and its one document with --json. */
import { randomBytes } from 'node:crypto'
import { sql } from 'drizzle-orm'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import type { Integrations, IntegrationsOptions } from '../../../src/create-integrations.ts'
import { createIntegrations } from '../../../src/create-integrations.ts'
import type { Database } from '../../../src/db/client.ts'
import { connect } from '../../../src/db/client.ts'
import { encryptionKey } from '../../support/integrations.ts'
import type { Ran } from './run.ts'
import { runCommand } from './run.ts'

const KEY = encryptionKey('k1')
const PASSWORD = 'open-sesame'
/** Nobody listens there: it is reserved, and not for us. */
const CLOSED_PORT = 1

let empty: string

beforeAll(async () => {
  const name = `empty_${randomBytes(6).toString('hex')}`
  empty = Object.assign(new URL(inject('postgresUrl')), { pathname: name }).href
  const sql = postgres(inject('postgresUrl'), { max: 1, fetch_types: false })
  await sql.unsafe(`create database ${name}`)
  await sql.end()
})

afterAll(async () => {
  const sql = postgres(inject('postgresUrl'), { max: 1, fetch_types: false })
  await sql.unsafe(`drop database ${new URL(empty).pathname.slice(1)} with (force)`)
  await sql.end()
})

const ON_TABLES = [
  ['keys', 'status'],
  ['keys', 'rotate'],
  ['keys', 'rotate', '--dry-run'],
  ['install', 'demo', '--name', 'ours'],
  ['list'],
  ['show', '1'],
  ['enable', '1'],
  ['disable', '1'],
  ['test'],
  ['test', '1'],
  ['circuit', '1', 'status'],
  ['circuit', '1', 'open'],
  ['rate-limit', '1', 'status'],
  ['rate-limit', '1', 'clear'],
  ['health'],
  ['health', '1'],
  ['health', '1', 'enable'],
  ['stats'],
  ['evaluate-failures'],
  ['incidents'],
  ['incidents', '1'],
  ['delete', '1', '--yes'],
  ['erase', '1', '--yes'],
  ['sync'],
  ['sync', '--integration', '1'],
  ['sync', '--integration', '1', '--watch'],
  ['sync', '--integration', '1', '--dry-run'],
  ['sync', '--integration', '1', '--from', '2021-06-01T00:00:00Z', '--to', '2021-06-02T00:00:00Z'],
  ['sync-progress', '1'],
  ['sync-progress', '1', '--watch'],
  ['pause-sync', '1'],
  ['resume-sync', '1'],
  ['cancel-sync', '1', '--yes'],
  ['list-sync-runs'],
  ['show-sync-run', '1'],
  ['list-failed-items'],
  ['retry-sync-item', '1'],
  ['retry-sync-item', '--run', '1'],
  ['skip-sync-item', '1'],
  ['advance-cursor', '1'],
  ['advance-cursor', '1', '--reset'],
  ['list-webhooks'],
  ['show-webhook', '1'],
  ['replay-webhook', '1'],
  ['replay-webhook', '--dry-run'],
  ['dismiss-webhook', '1'],
  ['dismiss-webhook', '--dry-run'],
  ['recover-webhooks'],
  ['reconcile-webhooks'],
  ['rotate-webhook-secret', '1'],
  ['find-orphans', 'note'],
  ['notifications', 'status'],
  ['notifications', 'retry'],
  ['prune'],
  ['prune', '--dry-run'],
]
const MIGRATE = [['migrate'], ['migrate', '--dry-run']]

/** Made and closed by the command itself, as in a process. */
async function run(words: readonly string[], options: IntegrationsOptions): Promise<Ran> {
  const load = async (): Promise<Integrations> =>
    createIntegrations({ encryptionKeys: KEY, providers: { demo: {} }, ...options })
  const ran = await runCommand(load, [...words, '--json'])
  expect(ran.out).toMatch(/^[^\n]+\n$/)
  expect(ran.out + ran.err).not.toContain(PASSWORD)
  return ran
}

describe('without Postgres', () => {
  const database = `postgres://app:${PASSWORD}@127.0.0.1:${CLOSED_PORT}/app`

  it('each that needs it ends with 2', async () => {
    const message = expect.stringContaining(`Postgres was not reached at 127.0.0.1:${CLOSED_PORT}.`)
    for (const words of [...MIGRATE, ...ON_TABLES]) {
      const ran = await run(words, { database })
      expect(ran.exitCode, words.join(' ')).toBe(2)
      expect(ran.json()).toEqual({ error: { code: 'backend_unreachable', message } })
    }
  })

  it.each([[['config']], [['keys', 'generate']], [['completion', 'bash']], [['notifications', 'test']]])(
    '%j does not need it',
    async (words) => {
      expect((await run(words, { database })).exitCode).toBe(0)
    },
  )
})

describe('when Postgres is lost while the command runs', () => {
  it.each<[string, (db: Database) => Promise<unknown>]>([
    ['57P01', (db) => db.execute(sql`do $$ begin raise exception 'going away' using errcode = '57P01'; end $$`)],
    [
      'CONNECTION_CLOSED',
      (db) =>
        db.transaction(async (tx) => {
          const [row] = await tx.execute<{ pid: number }>(sql`select pg_backend_pid() as pid`)
          await db.execute(sql`select pg_terminate_backend(${row?.pid ?? 0}, 5000)`)
          await tx.execute(sql`select 1`)
        }),
    ],
  ])('it ends with 2: %s', async (code, work) => {
    const { db, close } = connect({ database: inject('postgresUrl') })
    const host = { ready: async () => {}, close, admin: { stats: () => work(db) } } as never
    const ran = await runCommand(async () => host, ['stats', '--json'])
    expect(ran.exitCode).toBe(2)
    expect(ran.json()).toEqual({
      error: {
        code: 'backend_unreachable',
        message: expect.stringContaining(`Postgres was lost while the command ran (${code}).`),
      },
    })
    expect(ran.err).toBe('')
  })
})

describe('on tables that are behind', () => {
  it('each ends with 1 and names the command that mends it', async () => {
    const message = expect.stringContaining('`integrations migrate`')
    for (const words of ON_TABLES) {
      const ran = await run(words, { database: empty })
      expect(ran.exitCode, words.join(' ')).toBe(1)
      expect(ran.json()).toEqual({ error: { code: 'schema_behind', message } })
    }
  })

  it('migrate --dry-run names what migrate then applies', async () => {
    const dry = await run(['migrate', '--dry-run'], { database: empty })
    const { pending }: { pending: string[] } = dry.json()
    expect(pending.length).toBeGreaterThan(0)
    expect(dry.json()).toEqual({ applied: [], pending })
    expect((await run(['list'], { database: empty })).exitCode).toBe(1)
    expect((await run(['migrate'], { database: empty })).json()).toEqual({ applied: pending, pending: [] })
    expect((await run(['migrate'], { database: empty })).json()).toEqual({ applied: [], pending: [] })
    expect((await run(['list'], { database: empty })).json()).toEqual([])
  })
})

describe('with a bad configuration', () => {
  it('each ends with 1', async () => {
    const config = { webhook: { max_attempts: '3', max_payload_byte: 1 } } as never
    const problems = [{ key: 'webhook.max_attempts' }, { key: 'webhook.max_payload_byte' }]
    for (const words of [...MIGRATE, ...ON_TABLES, ['config']]) {
      const ran = await run(words, { config, database: empty })
      expect(ran.exitCode, words.join(' ')).toBe(1)
      expect(ran.json()).toMatchObject({ error: { code: 'invalid_configuration', problems } })
    }
  })
})
