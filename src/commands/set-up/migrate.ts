import { firstAndLast } from '../../db/migration-rules.ts'
import { isIntegrationsError } from '../../framework/errors.ts'
import { command } from '../command.ts'
import { flag } from '../fields.ts'

export const migrate = command({
  name: 'migrate',
  topic: 'Set up',
  summary: 'Brings the tables up to this release.',
  examples: ['integrations migrate', 'integrations migrate --dry-run'],
  workflow: { none: 'a worker does not start before the tables are up to date' },
  needs: 'host',
  fields: { dryRun: flag('only name what would be applied') },
  async run({ integrations }, { dryRun }) {
    // Says whether Postgres is there; that the tables are behind is why we are here.
    await integrations.ready().catch((error: unknown) => {
      if (!isIntegrationsError(error, 'schema_behind')) throw error
    })
    if (dryRun) return { applied: [], pending: await integrations.admin.pendingMigrations() }
    return { applied: (await integrations.migrate()).applied, pending: [] }
  },
  show({ applied, pending }) {
    if (applied.length > 0) return `Applied ${firstAndLast(applied)}.`
    return pending.length > 0 ? `Would apply ${firstAndLast(pending)}.` : 'Nothing to apply.'
  },
})
