/** The `integrations` command. Each subcommand is a file of its own. */
import { Command } from 'commander'
import type { Integrations } from '../integrations.ts'
import { migrateCommand } from './commands/migrate.ts'
import { syncCommand } from './commands/sync.ts'

/** What a command works with; loaded only when one runs, so that `--help` needs no database. */
export type LoadIntegrations = () => Promise<Integrations>

export function createProgram(load: LoadIntegrations): Command {
  return new Command('integrations')
    .description('Operates the integrations of the host whose integrations.config.ts is here.')
    .addCommand(migrateCommand(load))
    .addCommand(syncCommand(load))
}
