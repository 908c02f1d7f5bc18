/** The host of the upgrade's test: the module that its worker loads. It notes what it handles, and how often. */
import postgres from 'postgres'
import { createIntegrations } from '../../src/index.ts'
import { syncProvider, ThingSynced, webhookProvider } from '../support/providers.ts'

const sql = postgres(process.env.DATABASE_URL ?? '', { max: 5, fetch_types: false, onnotice: () => {} })

async function noteRun(kind: 'webhook' | 'item', id: string): Promise<void> {
  await sql`
    insert into upgrade_runs as r (kind, id) values (${kind}, ${id}) on conflict (kind, id) do update set runs = r.runs + 1`
}

const integrations = createIntegrations({
  database: process.env.DATABASE_URL,
  baseUrl: 'https://hooks.example.com',
  providers: {
    acme: {
      ...syncProvider(() => {}, { defaultSyncInterval: () => null }),
      ...webhookProvider({ handleWebhook: (_integration, _request, { deliveryId }) => noteRun('webhook', deliveryId) }),
    },
  },
})

integrations.on(ThingSynced, ({ payload: { n } }: ThingSynced) => noteRun('item', `entry-${n}`))

export async function prepare(): Promise<void> {
  await sql`create table if not exists upgrade_runs (kind text, id text, runs int not null default 1, primary key (kind, id))`
  await sql.end()
}

export default integrations
