/** A Postgres for one bench: the embedded one, as durable as in production, on a temp folder that goes with it. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import postgres from 'postgres'
import { startLocalPostgres } from '../dev/postgres.ts'

export interface BenchPostgres {
  readonly url: string
  stop(): Promise<void>
}

/** What a crash must not take. A server that lies about it would make every figure worthless. */
const DURABLE = { fsync: 'on', synchronous_commit: 'on', full_page_writes: 'on' }

/** @param settings besides those of `npm start` */
export async function startBenchPostgres(settings: Readonly<Record<string, string>> = {}): Promise<BenchPostgres> {
  const dataFolder = await mkdtemp(join(tmpdir(), 'durable-bench-'))
  const remove = () => rm(dataFolder, { recursive: true, force: true })
  try {
    const server = await startLocalPostgres({ dataFolder, preferredPort: 0, database: 'bench', settings })
    try {
      await assertDurable(server.url)
    } catch (error) {
      await server.stop()
      throw error
    }
    return {
      url: server.url,
      async stop() {
        await server.stop()
        await remove()
      },
    }
  } catch (error) {
    await remove()
    throw error
  }
}

async function assertDurable(url: string): Promise<void> {
  const sql = postgres(url, { max: 1, fetch_types: false })
  try {
    const rows = await sql<{ name: string; setting: string }[]>`select name, setting from pg_settings`
    const settings = new Map(rows.map(({ name, setting }) => [name, setting]))
    for (const [name, wanted] of Object.entries(DURABLE))
      if (settings.get(name) !== wanted)
        throw new Error(`A bench wants ${name} = ${wanted}; the server has ${settings.get(name)}.`)
  } finally {
    await sql.end({ timeout: 5 })
  }
}
