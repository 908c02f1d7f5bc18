/** A host that has handled items and deliveries of a Deskline server, and the copy of its database that a rehearsal gets. */
import { createHash, randomBytes } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import type { ServerType } from '@hono/node-server'
import { serve } from '@hono/node-server'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { inject } from 'vitest'
import type { RunningDeskline } from '../../sandbox/deskline/server.ts'
import { DESKLINE_CLIENT, startDesklineSandbox } from '../../sandbox/deskline/server.ts'
import { createApi } from '../../src/api/app.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { networkOff } from '../../src/rehearsal/network-off.ts'
import type { Recording, RehearsalInput } from '../../src/rehearsal/rehearsal-jobs.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import { runSync } from '../../src/testing/sync-in-process.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { workOff } from '../support/work-off.ts'
import type { DeskCode } from './desk-code.ts'
import { deskHost, deskProvider, models, registerDesk, SCHEMA } from './desk-code.ts'

const WEBHOOK_SECRET = 'whsec_of-the-rehearsal'
const REDIRECT = 'http://127.0.0.1:9/callback'

export interface DeskWorld {
  readonly live: TestIntegrations
  readonly liveUrl: string
  readonly integration: Integration
  readonly desk: RunningDeskline
  readonly keys: string
  control<T>(method: string, path: string, body?: unknown): Promise<T>
  /** What a person does in Deskline reaches the host, and is handled. */
  deliver(): Promise<void>
  /** What came since the last run is listed and handled. */
  sync(): Promise<void>
  /** Of the live database, with nobody connected. */
  copy(): Promise<TestDatabase>
  close(): Promise<void>
}

/** @param tickets in Deskline at the start */
export async function deskWorld(tickets: number): Promise<DeskWorld> {
  const database = await createTestDatabase()
  const desk = await startDesklineSandbox({ tickets, rateLimit: 100_000, redirectUris: [REDIRECT] })
  const keys = encryptionKey('desk')
  const client = postgres(database.url, { max: 5, fetch_types: false, onnotice: () => {} })
  const code = deskHost(client, desk.url)
  const clock = new ManualClock(new Date())
  const live = testIntegrations(database.url, {
    encryptionKeys: keys,
    providers: { desk: deskProvider(() => code) },
    models,
    egress: { allow: ['127.0.0.1'] },
  })
  await live.sql.unsafe(SCHEMA)
  registerDesk(live.integrations, () => code)
  const app = createApi(live.integrations)
  const server = await new Promise<ServerType>((resolve) => {
    const starting = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, () => resolve(starting))
  })
  const integration = await live.integrations.create({
    provider: 'desk',
    name: 'Desk',
    credentials: { token: await tokenOf(desk.url), webhook_secret: WEBHOOK_SECRET },
  })
  const hook = `http://127.0.0.1:${(server.address() as AddressInfo).port}/integrations/desk/${integration.id}/webhook`
  const control = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const answer = await fetch(`${desk.url}/_sandbox${path}`, {
      method,
      // A connection that is kept would serve the host's own fetch() without a new one, which is what a rehearsal refuses.
      headers: { connection: 'close' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
    return (text === '' ? null : JSON.parse(text)) as T
  }
  const copies: TestDatabase[] = []
  return {
    live,
    liveUrl: database.url,
    integration,
    desk,
    keys,
    control,
    async deliver() {
      const sent = await control<{ deliveries: { status: number }[] }>('POST', '/webhooks', {
        url: hook,
        secret: WEBHOOK_SECRET,
      })
      const refused = sent.deliveries.filter(({ status }) => status !== 200)
      if (refused.length > 0) throw new Error(`refused: ${JSON.stringify(refused[0])}`)
      await workOff(live.framework)
    },
    async sync() {
      clock.set(new Date())
      await runSync(live.framework, clock, { integrationId: integration.id })
    },
    async copy() {
      const made = await copyOf(database.url)
      copies.push(made)
      return made
    },
    async close() {
      await new Promise((resolve) => server.close(resolve))
      await desk.close()
      await client.end({ timeout: 5 })
      await live.close()
      for (const made of copies) await made.drop()
      await database.drop()
    },
  }
}

export interface Playground {
  /** Plays the code of a release that is planted. @param plant changes steps of the host's code */
  play(input: RehearsalInput, plant?: (code: DeskCode) => void): Promise<Recording>
  readonly host: TestIntegrations
  close(): Promise<void>
}

/** Plays in this process, without a network, again and again: what was played before is undone, which is quicker than another copy. */
export async function playground(world: DeskWorld, copyUrl: string): Promise<Playground> {
  const scratch = await world.live.integrations.admin.rehearsal.open(copyUrl)
  const client = postgres(scratch.url, { max: 2, fetch_types: false, onnotice: () => {} })
  let code = deskHost(client, world.desk.url)
  const host = testIntegrations(scratch.url, {
    encryptionKeys: world.keys,
    providers: { desk: deskProvider(() => code) },
    models,
    egress: { allow: ['127.0.0.1'] },
    pool: { max: 2 },
  })
  registerDesk(host.integrations, () => code)
  await client.unsafe(SAVE)
  const { host: hosts, port, database } = client.options
  return {
    host,
    async play(input, plant = () => {}) {
      code = deskHost(client, world.desk.url)
      plant(code)
      await client.unsafe(RESTORE)
      const network = networkOff({
        servers: hosts.map((name, index) => ({ host: name, port: Number(port[index]) })),
        path: null,
        database,
      })
      try {
        return await host.integrations.admin.rehearsal.play(input, {
          refused: () => network.take(),
          signal: new AbortController().signal,
        })
      } finally {
        network.restore()
      }
    },
    async close() {
      await client.end({ timeout: 5 })
      await host.close()
      await scratch.drop()
    },
  }
}

const PLAYED = ['tickets', 'customers', 'notes', 'audit', 'integration_mappings', 'integration_cache']
const SAVE = `create schema saved; ${PLAYED.map((table) => `create table saved.${table} as table public.${table}`).join('; ')}`
const RESTORE = `drop schema if exists durable_rehearsal cascade; ${PLAYED.map(
  (table) =>
    `truncate public.${table} restart identity; insert into public.${table} overriding system value table saved.${table}`,
).join('; ')}; ${['tickets', 'audit', 'integration_mappings']
  .map((table) => `select setval(pg_get_serial_sequence('public.${table}', 'id'), 1000)`)
  .join('; ')}`

async function copyOf(url: string): Promise<TestDatabase> {
  const [from, name] = [new URL(url).pathname.slice(1), `copy_${randomBytes(8).toString('hex')}`]
  const asAdmin = async (work: (sql: Sql) => Promise<unknown>): Promise<void> => {
    const sql = postgres(inject('postgresUrl'), { max: 1, fetch_types: false, onnotice: () => {} })
    try {
      await work(sql)
    } finally {
      await sql.end({ timeout: 5 })
    }
  }
  await asAdmin(async (sql) => {
    await sql`alter database ${sql(from)} with allow_connections false`
    await sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${from}`
    await sql`create database ${sql(name)} template ${sql(from)}`
    await sql`alter database ${sql(from)} with allow_connections true`
  })
  const copy = new URL(url)
  copy.pathname = `/${name}`
  return { url: copy.href, drop: () => asAdmin((sql) => sql`drop database if exists ${sql(name)} with (force)`) }
}

/** A person allows it, by the pages that a browser would be led through. */
async function tokenOf(url: string): Promise<string> {
  const verifier = randomBytes(32).toString('base64url')
  const query = new URLSearchParams({
    response_type: 'code',
    client_id: DESKLINE_CLIENT.id,
    redirect_uri: REDIRECT,
    state: 'rehearsal',
    scope: 'tickets:read tickets:write',
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  })
  const page = await fetch(`${url}/oauth/authorize?${query}`)
  const [, question = ''] = /name="question" value="([^"]+)"/.exec(await page.text()) ?? []
  const cookie = page.headers.getSetCookie()[0]?.split(';')[0] ?? ''
  const back = await fetch(`${url}/oauth/authorize`, {
    method: 'POST',
    redirect: 'manual',
    headers: { cookie },
    body: new URLSearchParams({ question, decision: 'allow' }),
  })
  const code = new URL(back.headers.get('location') ?? '').searchParams.get('code') ?? ''
  const answer = await fetch(`${url}/oauth/token`, {
    method: 'POST',
    headers: {
      authorization: `Basic ${Buffer.from(`${DESKLINE_CLIENT.id}:${DESKLINE_CLIENT.secret}`).toString('base64')}`,
    },
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      code,
      redirect_uri: REDIRECT,
      code_verifier: verifier,
    }),
  })
  return ((await answer.json()) as { access_token: string }).access_token
}
