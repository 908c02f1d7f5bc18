/**
 * The host of the fleet's figures about its spread: handlers and listeners that compute or wait, as their integration says.
 *
 * Each process counts what it ran, and writes its counts down several times a second: a statement for each run would cost more
 * than the run.
 */
import { pbkdf2Sync } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { z } from 'zod'
import type { Integration } from '../../src/index.ts'
import { createIntegrations } from '../../src/index.ts'
import { SyncItemEvent } from '../../src/providers/provider-events.ts'
import { syncProvider, webhookProvider } from '../support/providers.ts'

const MEMBER = process.env.FLEET_MEMBER ?? 'worker'
const WRITTEN_EVERY_MS = 100
/** Some 5 ms of a core that does nothing else. As an amount of work, not a time: a busy machine does not make it less. */
const ROUNDS = 28_000
const WAIT_MS = 20

const sql = postgres(process.env.DATABASE_URL ?? '', { max: 2, fetch_types: false, onnotice: () => {} })

const Of = z.object({ work: z.enum(['computes', 'waits']), entries: z.number().int() })

class SpreadEntry extends SyncItemEvent<{ n: number }> {
  static override readonly type = 'fleet.spread'
  static override readonly schema = z.object({ n: z.number().int() })
}

const ran = new Map<number, number>()

async function work({ id, metadata }: Integration): Promise<void> {
  if (Of.parse(metadata).work === 'computes') pbkdf2Sync('as much', 'as that', ROUNDS, 32, 'sha256')
  else await sleep(WAIT_MS)
  ran.set(id, (ran.get(id) ?? 0) + 1)
}

async function writeDown(): Promise<void> {
  const counts = [...ran]
  ran.clear()
  for (const [id, count] of counts)
    await sql`insert into ran (integration_id, member, count) values (${id}, ${MEMBER}, ${count})`
}

const hooks = webhookProvider({ handleWebhook: (integration) => work(integration) })

const listed = syncProvider(
  async (session) => {
    const { integration } = session
    const { entries } = Of.parse(integration.metadata)
    for (let n = 1; n <= entries; n += 1) await session.dispatch(new SpreadEntry(integration, { n }), n, n)
  },
  { defaultSyncInterval: () => null, defaultRateLimit: () => null, syncItemEvents: () => [SpreadEntry] },
)

const integrations = createIntegrations({ database: process.env.DATABASE_URL, providers: { hooks, listed } })
integrations.on(SpreadEntry, ({ integration }: SpreadEntry) => work(integration))

// Only a worker has something to write down; the timer does not keep a process.
setInterval(() => void writeDown(), WRITTEN_EVERY_MS).unref()

/** The host's own table. */
export async function prepare(): Promise<void> {
  await sql`create table if not exists ran (
    integration_id bigint not null, member text not null, count int not null, at timestamptz not null default clock_timestamp())`
}

export default integrations
