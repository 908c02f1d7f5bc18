import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import postgres from 'postgres'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { LocalPostgres, LocalPostgresOptions } from '../../dev/postgres.ts'
import { startLocalPostgres } from '../../dev/postgres.ts'
import { removeDataFolder } from '../../dev/postgres-folder.ts'
import type { ManagedProcess } from '../../dev/processes.ts'
import { commandLineOf, isRunning, startProcess } from '../../dev/processes.ts'
import { newDataFolder } from '../support/data-folder.ts'

let dataFolder: string
const cleanups: (() => Promise<unknown>)[] = []

beforeEach(async () => {
  dataFolder = await mkdtemp(join(tmpdir(), 'durable-postgres-test-'))
})

afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
  await rm(dataFolder, { recursive: true, force: true })
})

async function start(options: Partial<LocalPostgresOptions> = {}): Promise<LocalPostgres> {
  const server = await startLocalPostgres({ dataFolder, preferredPort: 0, database: 'durable', ...options })
  cleanups.push(() => server.stop())
  return server
}

async function query(url: string, text: string): Promise<Record<string, unknown>[]> {
  const sql = postgres(url, { max: 1, fetch_types: false, onnotice: () => {} })
  try {
    return await sql.unsafe(text)
  } finally {
    await sql.end({ timeout: 5 })
  }
}

/** A supervisor in a process of its own, to be killed. It prints one line of JSON when its Postgres is up. */
async function startSupervisor(): Promise<{ supervisor: ManagedProcess; url: string; pid: number }> {
  const module = new URL('../../dev/postgres.ts', import.meta.url).href
  const script = `
    const { startLocalPostgres } = await import(${JSON.stringify(module)})
    const { url, pid } = await startLocalPostgres({ dataFolder: process.argv[1], preferredPort: 0, database: 'durable' })
    console.log(JSON.stringify({ url, pid }))
    setInterval(() => {}, 1000)
  `
  let onLine: (line: string) => void = () => {}
  const firstLine = new Promise<string>((resolve) => {
    onLine = resolve
  })
  const args = ['--import', 'tsx', '--input-type=module', '-e', script, dataFolder]
  const supervisor = await startProcess({
    name: 'supervisor',
    command: process.execPath,
    args,
    onLine: (line) => onLine(line),
  })
  cleanups.push(() => supervisor.stop())
  return { supervisor, ...(JSON.parse(await firstLine) as { url: string; pid: number }) }
}

/** The shell that ends Postgres when its supervisor dies: killed first where the test is about a Postgres left alone. */
function watcherOf(pid: number): number[] {
  // Not pgrep or ps on Linux: slim images lack them.
  const pids =
    process.platform === 'linux' ? readdirSync('/proc') : execFileSync('ps', ['-axo', 'pid=']).toString().split('\n')
  return pids.map(Number).filter((other) => other > 0 && commandLineOf(other).endsWith(` sh INT ${pid}`))
}

describe('the embedded Postgres', () => {
  it('is durable, UTF-8 with the C locale, on the loopback interface, and lets nobody in without its password', async () => {
    const server = await start()
    const [row] = await query(
      server.url,
      `select current_setting('fsync') as fsync, current_setting('server_encoding') as encoding, datcollate as collation,
              current_setting('listen_addresses') as addresses
       from pg_database where datname = current_database()`,
    )
    expect(row).toEqual({ fsync: 'on', encoding: 'UTF8', collation: 'C', addresses: '127.0.0.1' })
    const withoutPassword = server.url.replace(/:[^:@]+@/, ':guess@')
    await expect(query(withoutPassword, 'select 1')).rejects.toMatchObject({ code: '28P01' })
    expect((await stat(join(dataFolder, 'password'))).mode & 0o777).toBe(0o600)
  })

  it('finds its data and its password again at the second start', async () => {
    const first = await start()
    await query(first.url, 'create table kept (n int); insert into kept values (1)')
    await first.stop()
    const second = await start()
    expect(await query(second.url, 'select n from kept')).toEqual([{ n: 1 }])
    expect(new URL(second.url).password).toBe(new URL(first.url).password)
  })

  it('leaves no half-made cluster when the first start was killed in the middle', async () => {
    await mkdir(join(dataFolder, 'cluster.new-killed', 'data'), { recursive: true })
    await start()
    expect((await readdir(dataFolder)).filter((name) => name.startsWith('cluster'))).toEqual(['cluster'])
  })

  it("says where a root's data lies whose folder is closed to others, and removes it with the folder", async () => {
    // `dataFolder` itself is its maker's alone.
    const closed = join(dataFolder, 'postgres')
    const lines: string[] = []
    await (await start({ dataFolder: closed, log: (line) => lines.push(line) })).stop()
    // Any other user runs Postgres himself, so that it gets there.
    const isRoot = process.getuid?.() === 0
    const place = isRoot ? readFileSync(join(closed, 'location'), 'utf8') : closed
    const said = lines.filter((line) => line.includes('its data is kept in'))
    expect(said).toEqual(isRoot ? [expect.stringMatching(new RegExp(`${place}$`))] : [])
    expect(existsSync(join(place, 'cluster'))).toBe(true)
    removeDataFolder(closed)
    expect([existsSync(place), existsSync(closed)]).toEqual([false, false])
  })
})

describe('the embedded Postgres on data that is there', () => {
  beforeEach(async () => {
    await rm(dataFolder, { recursive: true })
    await newDataFolder(dataFolder)
  })

  it('takes a free port when the preferred one is taken', async () => {
    const other = createServer()
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    cleanups.push(() => new Promise((resolve) => other.close(resolve)))
    const taken = (other.address() as { port: number }).port
    const server = await start({ preferredPort: taken })
    expect(server.port).not.toBe(taken)
    expect(await query(server.url, 'select 1 as one')).toEqual([{ one: 1 }])
  })

  it('takes settings for tests', async () => {
    const server = await start({ settings: { fsync: 'off', max_connections: '33' } })
    expect(
      await query(server.url, `select current_setting('fsync') || current_setting('max_connections') as s`),
    ).toEqual([{ s: 'off33' }])
  })

  it('refuses a folder that a living process runs', async () => {
    await start()
    await expect(start()).rejects.toThrow(/is in use by process \d+/)
  })

  it('recovers committed rows after a kill -9 of its postmaster', async () => {
    const first = await start()
    await query(first.url, 'create table kept (n int); insert into kept values (1)')
    process.kill(first.pid, 'SIGKILL')
    await first.exited
    await first.stop()
    expect(existsSync(join(dataFolder, 'cluster', 'postmaster.pid'))).toBe(true)
    const second = await start()
    expect(await query(second.url, 'select n from kept')).toEqual([{ n: 1 }])
  })

  it('ends when its supervisor is killed, and the next start recovers', async () => {
    const { supervisor, url } = await startSupervisor()
    await query(url, 'create table kept (n int); insert into kept values (1)')
    process.kill(supervisor.pid, 'SIGKILL')
    await supervisor.exited
    const second = await start()
    expect(await query(second.url, 'select n from kept')).toEqual([{ n: 1 }])
  })

  it('ends a Postgres that was left alone, before it starts its own', async () => {
    const { supervisor, url, pid } = await startSupervisor()
    await query(url, 'create table kept (n int); insert into kept values (1)')
    const busy = query(url, 'select pg_sleep(600)').catch(() => 'ended')
    const watchers = watcherOf(pid)
    expect(watchers).toHaveLength(1)
    for (const watcher of watchers) process.kill(watcher, 'SIGKILL')
    process.kill(supervisor.pid, 'SIGKILL')
    await supervisor.exited
    const lines: string[] = []
    const second = await start({ log: (line) => lines.push(line) })
    expect(lines).toContain(`ending the Postgres (pid ${pid}) that an earlier start left behind`)
    expect(await busy).toBe('ended')
    expect(await query(second.url, 'select n from kept')).toEqual([{ n: 1 }])
  })

  it('ends no stranger that has the pid of a stale postmaster.pid, and starts', async () => {
    await (await start()).stop()
    const stranger = await startProcess({ name: 'stranger', command: 'sleep', args: ['600'], onLine: () => {} })
    cleanups.push(() => stranger.stop())
    const cluster = join(dataFolder, 'cluster')
    await writeFile(join(cluster, 'postmaster.pid'), `${stranger.pid}\n${cluster}\n1\n5432\n\n127.0.0.1\n`)
    const server = await start()
    expect(await query(server.url, 'select 1 as one')).toEqual([{ one: 1 }])
    expect(isRunning(stranger.identity)).toBe(true)
  })

  it('says what to do when the password is lost', async () => {
    await (await start()).stop()
    await rm(join(dataFolder, 'password'))
    await expect(start()).rejects.toThrow(/password is missing.*delete/s)
  })

  it('says what to do when the cluster is of another major version', async () => {
    await (await start()).stop()
    const file = join(dataFolder, 'cluster', 'PG_VERSION')
    expect(readFileSync(file, 'utf8').trim()).toBe('18')
    await writeFile(file, '17\n')
    await expect(start()).rejects.toThrow(/was made by Postgres 17, the installed package has 18/)
  })
})
