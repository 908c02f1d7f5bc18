/** The command `rehearse`: its processes without a network, its copies, what it refuses and what it prints. */
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { playHost } from '../../src/bin/play-host.ts'
import type { RunOptions } from '../commands/cli/run.ts'
import { runCommand } from '../commands/cli/run.ts'
import type { TestDatabase } from '../support/database.ts'
import { SOON } from '../support/soon.ts'
import type { DeskWorld } from './desk-world.ts'
import { deskWorld } from './desk-world.ts'

const config = (name: string): string => fileURLToPath(new URL(`./${name}.ts`, import.meta.url))

let world: DeskWorld
let copy: TestDatabase

beforeAll(async () => {
  world = await deskWorld(3)
  await world.sync()
  await world.control('POST', '/tickets', { count: 2 })
  await world.deliver()
  await world.control('DELETE', '/requests')
  copy = await world.copy()
  // As `npm run cli` starts its process: the processes of a rehearsal are started alike.
  const before = process.execArgv
  process.execArgv = ['--conditions=durable-source', '--import', 'tsx']
  return () => {
    process.execArgv = before
  }
}, 60_000)

afterAll(() => world.close())

/** @param host the module that is played */
async function rehearse(host: string, words: readonly string[], options: Pick<RunOptions, 'playHost' | 'signal'> = {}) {
  vi.stubEnv('INTEGRATIONS_CONFIG', config(host))
  vi.stubEnv('INTEGRATIONS_ENCRYPTION_KEYS', world.keys)
  vi.stubEnv('DESK_URL', world.desk.url)
  vi.stubEnv('LIVE_URL', world.liveUrl)
  return runCommand(world.live.integrations, ['rehearse', '--since', '1h', ...words], { playHost, ...options })
}

/** Those that were made of the copy. */
async function databases(): Promise<string[]> {
  const rows = await world.live.sql<{ datname: string }[]>`
    select datname from pg_database where datname like ${`${new URL(copy.url).pathname.slice(1)}_%`}`
  return rows.map(({ datname }) => datname)
}
const requests = async (): Promise<unknown[]> =>
  (await world.control<{ requests: unknown[] }>('GET', '/requests')).requests

describe('integrations rehearse', () => {
  it('ends with 0 for code that has not changed, asks nobody and leaves the copy as it was', async () => {
    const ran = await rehearse('desk-config', ['--database', copy.url, '--json'])
    expect(ran.err).toBe('')
    expect(ran.json()).toMatchObject({
      compared_with: 'history',
      handled: 5,
      rehearsed: 5,
      different: 0,
      more: false,
      differences: [],
      cannot_rehearse: [],
    })
    expect(ran.exitCode).toBe(0)
    expect(await requests()).toEqual([])
    expect(await databases()).toEqual([])
  })

  it('ends with 1 and says what is otherwise than with the old code', async () => {
    const ran = await rehearse('changed-desk-config', ['--database', copy.url, '--baseline', config('desk-config')])
    expect(ran.out).toContain('5 handled, 5 rehearsed, 2 differ from the old code.')
    expect(ran.out).toMatch(/webhook +\d+ +\d+ +call changed +it calls POST v1\/tickets\/tkt_\d+\/comments otherwise/)
    expect(ran.out).toContain('Seen: New ticket 1')
    expect(ran.exitCode).toBe(1)
    expect(await requests()).toEqual([])
    expect(await databases()).toEqual([])
  })

  it('reaches no other database, though it is on the server of the copy', async () => {
    const ran = await rehearse('stubborn-config', ['--database', copy.url, '--json'])
    expect(ran.json()).toMatchObject({ error: { code: 'not_played' } })
    expect(ran.out).toContain('the host has to take its database from there')
    expect(ran.out).toContain(`the database ${new URL(world.liveUrl).pathname.slice(1)} on the server of the copy`)
    expect(ran.exitCode).toBe(1)
    expect(await databases()).toEqual([])
  })

  it.each(['127.0.0.1', 'localhost'])('refuses the configured database, also by the address %s', async (host) => {
    const url = new URL(world.liveUrl)
    url.hostname = host
    const ran = await rehearse('desk-config', ['--database', `${url.href}?application_name=copy`, '--json'])
    expect(ran.json()).toMatchObject({ error: { code: 'invalid_argument' } })
    expect(ran.out).toContain('this is the configured database itself')
    expect(ran.exitCode).toBe(1)
  })

  it('says who has to leave the copy', async () => {
    const postgres = (await import('postgres')).default
    const guest = postgres(copy.url, { max: 1, fetch_types: false })
    await guest`select 1`
    const ran = await rehearse('desk-config', ['--database', copy.url, '--json'])
    await guest.end()
    expect(ran.out).toContain('end its other sessions')
    expect(ran.exitCode).toBe(1)
  })

  it('ends with 130 at Ctrl-C while it plays, and leaves no database behind', async () => {
    const ctrlC = new AbortController()
    const ran = await rehearse('desk-config', ['--database', copy.url, '--json'], {
      signal: ctrlC.signal,
      playHost: (playing) =>
        playHost({
          ...playing,
          onProgress: () => ctrlC.abort(),
        }),
    })
    expect(ran.json()).toMatchObject({ error: { code: 'interrupted' } })
    expect(ran.exitCode).toBe(130)
    expect(await databases()).toEqual([])
  })

  it('breaks the copying off at Ctrl-C', async () => {
    const postgres = (await import('postgres')).default
    const name = new URL(copy.url).pathname.slice(1)
    const copying = () => world.live.sql`
      select 1 from pg_stat_activity
      where state = 'active' and pid <> pg_backend_pid() and query like ${`create database "${name}\\_rehearsal%`}`
    // A comment that is not committed yet: the copying waits for it.
    const holder = postgres(world.liveUrl, { max: 1, fetch_types: false })
    try {
      await holder.unsafe(`begin; comment on database "${name}" is 'held'`)
      const ctrlC = new AbortController()
      const rehearsing = rehearse('desk-config', ['--database', copy.url, '--json'], { signal: ctrlC.signal })
      await expect.poll(copying, SOON).toHaveLength(1)
      ctrlC.abort()
      expect((await rehearsing).exitCode).toBe(130)
      expect(await copying()).toEqual([])
      await holder.unsafe('rollback')
    } finally {
      await holder.end()
    }
    expect(await databases()).toEqual([])
  })

  it('ends with 2 where the copy is not reached', async () => {
    const ran = await rehearse('desk-config', ['--database', 'postgres://127.0.0.1:9/copy', '--json'])
    expect(ran.json()).toMatchObject({ error: { code: 'backend_unreachable' } })
    expect(ran.exitCode).toBe(2)
  })

  it.each(['yesterday', '999999d'])('takes a time ago or a moment, not %s', async (since) => {
    const ran = await rehearse('desk-config', ['--database', copy.url, '--since', since])
    expect(ran.err).toContain(
      'a moment in ISO 8601 with its offset, of the years 1 to 9999, such as 2031-06-01T12:00:00Z, or a length of time back such as 90m, 24h or 7d',
    )
    expect(ran.exitCode).toBe(1)
  })
})
