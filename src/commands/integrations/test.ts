import { z } from 'zod'
import type { Integrations } from '../../create-integrations.ts'
import { isIntegrationsError, UnsupportedByProvider } from '../../framework/errors.ts'
import { Interrupted } from '../cli/failure.ts'
import { table } from '../cli/table.ts'
import type { CommandContext } from '../command.ts'
import { columns, command, route } from '../command.ts'
import { id, optional } from '../fields.ts'
import { CheckShape, rowId } from '../shapes.ts'

/** Checks under way at once. */
const LANES = 5

const Tested = CheckShape.extend({ id: rowId })

export const test = command({
  name: 'test',
  topic: 'Integrations',
  summary: "Asks the provider's health check of one integration, or of all that are switched on.",
  examples: ['integrations test 7', 'integrations test --json'],
  places: ['id'],
  fields: { id: optional(id('of the integration; else all that are switched on')) },
  output: z.array(Tested),
  routes: [
    route({
      method: 'post',
      path: '/integrations/:id/test',
      summary: "Asks the provider's health check of an integration, 30 s at most.",
      fields: { id: id('of the integration') },
      reach: 'integration',
      output: Tested,
      async run({ integrations }, { id }) {
        const [tested] = await testOne(integrations, id)
        if (tested !== undefined) return tested
        throw new UnsupportedByProvider((await integrations.get(id)).provider, 'healthCheck()')
      },
    }),
  ],
  run: (context, { id }) => (id === undefined ? testActive(context) : testOne(context.integrations, id)),
  show: (rows) =>
    rows.length === 0
      ? 'Nothing to ask: no provider here has a health check.'
      : table(
          ['ID', 'OK', 'ms', 'Error'],
          rows.map(({ id, ok, duration_ms, error }) => [id, ok, duration_ms, error]),
        ),
  hasFailed: (rows) => !rows.every(({ ok }) => ok),
})

type Row = Awaited<ReturnType<typeof testOne>>[number]

async function testActive({ integrations, signal, progress }: CommandContext): Promise<Row[]> {
  const rows: Row[] = []
  const waiting = integrations.list({ active: true })[Symbol.asyncIterator]()
  const lane = async (): Promise<void> => {
    for (let next = await waiting.next(); !next.done && !signal.aborted; next = await waiting.next()) {
      try {
        rows.push(...(await testOne(integrations, next.value.id)))
      } catch (error) {
        // Deleted since it was listed; or scheduled work passes it over as well.
        const isLeftOut = ['integration_not_found', 'unknown_provider'].some((code) => isIntegrationsError(error, code))
        if (!isLeftOut) throw error
      }
      progress(`${rows.length} asked`)
    }
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  // Those that were asked say nothing of the others.
  if (signal.aborted) throw new Interrupted()
  return rows.sort((a, b) => a.id - b.id)
}

/** Empty where the provider has no health check. @throws UnknownProvider, which must not read as good credentials */
async function testOne(integrations: Integrations, id: number) {
  const result = await integrations.admin.testCredentials(id)
  return result === null ? [] : [{ id, ...columns(result) }]
}
