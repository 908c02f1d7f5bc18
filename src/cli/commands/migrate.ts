import { Command } from 'commander'
import { isIntegrationsError } from '../../core/errors.ts'
import type { LoadIntegrations } from '../program.ts'

/** `integrations migrate` */
export function migrateCommand(load: LoadIntegrations): Command {
  return new Command('migrate')
    .alias('integrations:migrate')
    .description('Brings the tables up to this release.')
    .action(async () => {
      const integrations = await load()
      // Says whether Postgres is there; that the tables are behind is why we are here.
      await integrations.ready().catch((error: unknown) => {
        if (!isIntegrationsError(error, 'schema_behind')) throw error
      })
      const { applied } = await integrations.migrate()
      console.log(applied.length === 0 ? 'Nothing to apply.' : `Applied: ${applied.join(', ')}`)
      await integrations.close()
    })
}
