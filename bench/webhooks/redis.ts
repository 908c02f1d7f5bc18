/** Debian's Redis for BullMQ, set as BullMQ's own page for production says: an append-only file, and no key is ever evicted. */
import { spawnSync } from 'node:child_process'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { connectTo } from '../../dev/local-process.ts'
import { startProcess } from '../../dev/processes.ts'
import { installPackages, isRootOnDebian } from '../../scripts/debian-packages.ts'
import { freePort } from '../../src/bin/free-port.ts'

const COMMAND = 'redis-server'
const START_MS = 20_000
const POLL_MS = 20

export interface BenchRedis {
  readonly port: number
  stop(): Promise<void>
}

export async function startBenchRedis(): Promise<BenchRedis> {
  findRedis()
  const port = await freePort()
  const folder = await mkdtemp(join(tmpdir(), 'durable-bench-redis-'))
  await chmod(folder, 0o755)
  const settings = {
    bind: '127.0.0.1',
    port: String(port),
    dir: folder,
    save: '',
    appendonly: 'yes',
    appendfsync: 'everysec',
    'maxmemory-policy': 'noeviction',
  }
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])
  const running = await startProcess({ name: 'redis', command: COMMAND, args, onLine: () => {} })
  const stop = async (): Promise<void> => {
    await running.stop()
    await rm(folder, { recursive: true, force: true })
  }
  for (const giveUpAt = performance.now() + START_MS; ; await sleep(POLL_MS))
    try {
      await connectTo(`127.0.0.1:${port}`)
      return { port, stop }
    } catch (error) {
      if (performance.now() < giveUpAt) continue
      await stop()
      throw error
    }
}

function findRedis(): void {
  const isThere = () => spawnSync(COMMAND, ['--version'], { stdio: 'ignore' }).status === 0
  if (isThere()) return
  if (isRootOnDebian()) installPackages([{ name: COMMAND }], (line) => console.error(line))
  if (!isThere())
    throw new Error('The bench of webhooks needs Redis for BullMQ: `apt-get install redis-server` (it need not run).')
}
