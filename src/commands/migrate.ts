import type { Command } from 'commander'
import { isIntegrationsError } from '../framework/errors.ts'
import type { Frame } from './cli/frame.ts'

/** `integrations migrate`: brings the tables up to this release. */
export function migrateCommand(frame: Frame): Command {
  return frame
    .command('migrate', 'Brings the tables up to this release.', [
      'integrations migrate',
      'integrations migrate --dry-run',
    ])
    .option('--dry-run', 'only name what would be applied', false)
    .action(
      frame.action(
        async ({ integrations }, { dryRun }: { dryRun: boolean }) => {
          // Says whether Postgres is there; that the tables are behind is why we are here.
          await integrations.ready().catch((error: unknown) => {
            if (!isIntegrationsError(error, 'schema_behind')) throw error
          })
          if (dryRun) {
            const pending = await integrations.admin.pendingMigrations()
            return {
              document: { applied: [], pending },
              text: pending.length === 0 ? 'Nothing to apply.' : `Would apply: ${pending.join(', ')}`,
            }
          }
          const { applied } = await integrations.migrate()
          return {
            document: { applied, pending: [] },
            text: applied.length === 0 ? 'Nothing to apply.' : `Applied: ${applied.join(', ')}`,
          }
        },
        { needs: 'nothing' },
      ),
    )
}
