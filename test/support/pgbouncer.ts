/** Debian's PgBouncer in transaction mode before a test's Postgres. */
import { spawnSync } from 'node:child_process'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { connectTo } from '../../dev/local-process.ts'
import type { ManagedProcess } from '../../dev/processes.ts'
import { startProcess } from '../../dev/processes.ts'
import { installPackages, isRootOnDebian } from '../../scripts/debian-packages.ts'
import { freePort } from '../../src/bin/free-port.ts'

/** What PgBouncer says when a client, or a server, sends what it does not expect. */
export const COMPLAINT = /dirty|unexpected|broken|bad packet/i

const START_MS = 20_000
const POLL_MS = 20

export interface PreparedPgbouncer {
  /** The given URL, by way of PgBouncer. */
  readonly url: string
  /** Ends when it takes connections. Always at the same place. */
  start(): Promise<ManagedProcess>
  removeFiles(): Promise<void>
}

export interface Pgbouncer extends Pick<PreparedPgbouncer, 'url'> {
  /** Its log, line by line. */
  readonly lines: readonly string[]
  /** `kill -9`, then a new one at the same place. */
  killAndRestart(): Promise<void>
  stop(): Promise<void>
}

/** Set as docs/behaviour/database.md, "Poolers", says; the times of its log are UTC. */
export async function preparePgbouncer(
  databaseUrl: string,
  {
    serverConnections,
    listenPort,
    onLine,
  }: {
    /** To Postgres, for all clients: fewer than clients, so that they share them. */
    readonly serverConnections: number
    readonly listenPort: number
    readonly onLine: (line: string) => void
  },
): Promise<PreparedPgbouncer> {
  const command = findPgbouncer()
  const { hostname, port, username, password, pathname } = new URL(databaseUrl)
  const folder = await mkdtemp(join(tmpdir(), 'pgbouncer-'))
  const config = join(folder, 'pgbouncer.ini')
  await writeFile(
    config,
    `[databases]
* = host=${hostname} port=${port} user=${username} password=${password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${listenPort}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${serverConnections}
max_client_conn = 500
query_wait_timeout = 30
server_login_retry = 1
`,
  )
  // As root it takes another user's place, who must be able to read this.
  await chmod(folder, 0o755)
  const asUser = process.getuid?.() === 0 ? ['--user=nobody'] : []
  return {
    url: `postgres://any@127.0.0.1:${listenPort}${pathname}`,
    async start() {
      const args = [...asUser, config]
      const started = await startProcess({ name: 'pgbouncer', command, args, env: { TZ: 'UTC' }, onLine })
      await takesConnections(`127.0.0.1:${listenPort}`)
      return started
    },
    removeFiles: () => rm(folder, { recursive: true, force: true }),
  }
}

export async function startPgbouncer(databaseUrl: string, serverConnections: number): Promise<Pgbouncer> {
  const lines: string[] = []
  const { url, start, removeFiles } = await preparePgbouncer(databaseUrl, {
    serverConnections,
    listenPort: await freePort(),
    onLine: (line) => lines.push(line),
  })
  let running = await start()
  return {
    url,
    lines,
    async killAndRestart() {
      running.child.kill('SIGKILL')
      await running.exited
      running = await start()
    },
    async stop() {
      await running.stop()
      await removeFiles()
    },
  }
}

async function takesConnections(address: string): Promise<void> {
  for (const giveUpAt = performance.now() + START_MS; ; await sleep(POLL_MS))
    try {
      return await connectTo(address)
    } catch (error) {
      if (performance.now() > giveUpAt) throw error
    }
}

/** Installs it where this is root on Debian. @throws Error if it is missing after that */
export function findPgbouncer(): string {
  if (presentPgbouncer() === null && isRootOnDebian()) installPackages([{ name: 'pgbouncer' }], console.log)
  const command = presentPgbouncer()
  if (command === null) throw new Error('This test needs PgBouncer: `apt-get install pgbouncer` (it need not run).')
  return command
}

function presentPgbouncer(): string | null {
  // Debian puts it where only root's PATH leads.
  const isThere = (command: string) => spawnSync(command, ['--version']).status === 0
  return ['pgbouncer', '/usr/sbin/pgbouncer'].find(isThere) ?? null
}
