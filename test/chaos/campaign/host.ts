/** The host of the campaign: the module that its API and worker processes load. */
import { createIntegrations } from '../../../src/index.ts'
import { hostNotes } from '../host-notes.ts'
import { patiently } from '../patient-sql.ts'
import { CAMPAIGN_CONFIG, campaignProviders, handleListed, Listed, prepareTables } from './providers.ts'

const notes = hostNotes()

const integrations = createIntegrations({
  database: process.env.DATABASE_URL,
  baseUrl: 'https://hooks.example.com',
  egress: { allow: ['127.0.0.1'] },
  config: CAMPAIGN_CONFIG,
  providers: campaignProviders(notes, process.env.OUTSIDE_URL ?? ''),
})

integrations.on(Listed, ({ integration, payload: { stream, n } }: Listed) =>
  handleListed(notes, integration.id, stream, n),
)

integrations.on(
  'SyncCompleted',
  async (_event, delivery) => {
    await patiently(() => notes.sql`insert into told_events (id) values (${delivery?.id ?? 'not queued'})`)
  },
  { queued: true, name: 'campaign' },
)

/** The host's own tables. */
export async function prepare(): Promise<void> {
  await notes.prepare()
  await prepareTables(notes)
  await notes.sql.end()
}

export default integrations
