import { Command } from 'commander'
import type { LoadIntegrations } from '../program.ts'

/** `integrations migrate` */
export function migrateCommand(load: LoadIntegrations): Command {
  return new Command('migrate').description('Brings the tables up to this release.').action(async () => {
    const integrations = await load()
    const { applied } = await integrations.migrate()
    console.log(applied.length === 0 ? 'Nothing to apply.' : `Applied: ${applied.join(', ')}`)
    await integrations.close()
  })
}
