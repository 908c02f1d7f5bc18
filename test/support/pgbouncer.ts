/** Debian's PgBouncer in transaction mode before a test's Postgres. */
import { spawnSync } from 'node:child_process'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { vi } from 'vitest'
import type { ManagedProcess } from '../../src/bin/dev/processes.ts'
import { startProcess } from '../../src/bin/dev/processes.ts'
import { connectTo, freePort } from '../../src/temporal/local-process.ts'
import { SOON } from './soon.ts'

export interface Pgbouncer {
  /** The given URL, by way of PgBouncer. */
  readonly url: string
  /** Its log, line by line. */
  readonly lines: readonly string[]
  /** `kill -9`, then a new one at the same place. */
  killAndRestart(): Promise<void>
  stop(): Promise<void>
}

/** @param serverConnections to Postgres, for all clients: fewer than clients, so that they share them */
export async function startPgbouncer(databaseUrl: string, serverConnections: number): Promise<Pgbouncer> {
  const command = findPgbouncer()
  const { hostname, port, username, password, pathname } = new URL(databaseUrl)
  const listenPort = await freePort()
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
`,
  )
  // As root it takes another user's place, who must be able to read this.
  await chmod(folder, 0o755)
  const asUser = process.getuid?.() === 0 ? ['--user=nobody'] : []
  const lines: string[] = []
  const start = async (): Promise<ManagedProcess> => {
    const started = await startProcess({
      name: 'pgbouncer',
      command,
      args: [...asUser, config],
      onLine: (line) => lines.push(line),
    })
    await vi.waitFor(() => connectTo(`127.0.0.1:${listenPort}`), SOON)
    return started
  }
  let running = await start()
  return {
    url: `postgres://any@127.0.0.1:${listenPort}${pathname}`,
    lines,
    async killAndRestart() {
      running.child.kill('SIGKILL')
      await running.exited
      running = await start()
    },
    async stop() {
      await running.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

function findPgbouncer(): string {
  // Debian puts it where only root's PATH leads.
  for (const command of ['pgbouncer', '/usr/sbin/pgbouncer'])
    if (spawnSync(command, ['--version']).status === 0) return command
  throw new Error('This test needs PgBouncer: `apt-get install pgbouncer` (it need not run).')
}
