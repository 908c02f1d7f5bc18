/**
 * Data folders for Postgres servers of tests: copies of one that initdb has made, once on a machine. initdb takes seconds of a core.
 * That a server makes its own: test/dev/postgres.e2e.test.ts, test/e2e/demo.e2e.test.ts.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { cacheFolder, oneAtATime } from '../../dev/local-process.ts'
import { startLocalPostgres } from '../../dev/postgres.ts'

/** What decides how a cluster looks. */
const MADE_BY = ['../../dev/postgres.ts', '../../package-lock.json']

/** Makes the folder, for `startLocalPostgres()`. */
export async function newDataFolder(folder: string): Promise<void> {
  await mkdir(dirname(folder), { recursive: true })
  await copy(await emptyFolder(), folder)
}

/** Its server was stopped in order. */
async function emptyFolder(): Promise<string> {
  const hash = createHash('sha256')
  for (const path of MADE_BY) hash.update(await readFile(new URL(path, import.meta.url)))
  const empty = join(cacheFolder(), `postgres-empty-${hash.digest('hex').slice(0, 12)}`)
  if (existsSync(empty)) return empty
  await oneAtATime(
    `${empty}.lock`,
    () => {},
    async () => {
      if (existsSync(empty)) return
      const folder = await mkdtemp(join(tmpdir(), 'durable-empty-'))
      try {
        // Else the cluster of a root, which runs as another user, lies elsewhere.
        await chmod(folder, 0o711)
        const dataFolder = join(folder, 'data')
        await (await startLocalPostgres({ dataFolder, preferredPort: 0, database: 'postgres' })).stop()
        // It may be on another disk.
        await rm(`${empty}.new`, { recursive: true, force: true })
        await copy(dataFolder, `${empty}.new`)
        await rename(`${empty}.new`, empty)
      } finally {
        await rm(folder, { recursive: true, force: true })
      }
    },
  )
  return empty
}

/** With owners and modes: the cluster of a root belongs to another user, and Postgres takes no open one. */
async function copy(from: string, to: string): Promise<void> {
  await promisify(execFile)('cp', ['-a', from, to])
}
