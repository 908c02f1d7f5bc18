import type { Command } from 'commander'
import type { Integrations } from '../create-integrations.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { integrationId } from './cli/arguments.ts'
import type { CommandContext, Frame } from './cli/frame.ts'
import { table } from './cli/table.ts'

/** Checks under way at once. */
const LANES = 5

interface Row {
  readonly id: number
  readonly ok: boolean
  readonly duration_ms: number
  readonly error: string | null
}

/** `integrations test [id]`: asks the providers' health checks. */
export function testCommand(frame: Frame): Command {
  return frame
    .command('test', "Asks the provider's health check of one integration, or of all that are switched on.", [
      'integrations test 7',
      'integrations test --json',
    ])
    .argument('[id]', 'id of the integration; else all that are switched on', integrationId)
    .action(
      frame.action(async (context, id: number | undefined) => {
        const rows = id === undefined ? await checkActive(context) : await checkOne(context.integrations, id)
        return {
          document: rows,
          text:
            rows.length === 0
              ? 'Nothing to ask: no provider here has a health check.'
              : table(
                  ['ID', 'OK', 'ms', 'Error'],
                  rows.map((row) => Object.values(row)),
                ),
          exitCode: rows.every(({ ok }) => ok) ? 0 : 1,
        }
      }),
    )
}

async function checkActive({ integrations, signal, progress }: CommandContext): Promise<Row[]> {
  const rows: Row[] = []
  const waiting = integrations.list({ active: true })[Symbol.asyncIterator]()
  const lane = async (): Promise<void> => {
    for (let next = await waiting.next(); !next.done && !signal.aborted; next = await waiting.next()) {
      try {
        rows.push(...(await checkOne(integrations, next.value.id)))
      } catch (error) {
        // Deleted since it was listed.
        if (!isIntegrationsError(error, 'integration_not_found')) throw error
      }
      progress(`${rows.length} asked`)
    }
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  return rows.sort((a, b) => a.id - b.id)
}

/** Empty where the provider has no health check. */
async function checkOne(integrations: Integrations, id: number): Promise<Row[]> {
  const result = await integrations.admin.check(id)
  return result === null ? [] : [{ id, ok: result.ok, duration_ms: result.durationMs, error: result.error }]
}
