import { z } from 'zod'
import { byWorker } from '../cli/by-worker.ts'
import type { CommandContext } from '../command.ts'
import { columns, command, fieldLines, route } from '../command.ts'
import type { Values } from '../fields.ts'
import { flag, id, optional, past } from '../fields.ts'
import { Refused } from '../refused.ts'
import { all } from '../shapes.ts'

const Reconciled = z.object({
  ...all(z.int(), 'integrations', 'seen', 'known', 'inserted', 'too_large', 'capped', 'failed', 'skipped'),
  reasons: z.array(z.string()).describe('Why integrations were skipped: the first ten'),
})

const fields = {
  integration: optional(id('of the integration; default all whose provider can')),
  since: optional(past('from here on; default where the last run ended')),
  dryRun: flag('only count'),
}

export const reconcileWebhooks = command({
  name: 'reconcile-webhooks',
  topic: 'Webhooks',
  summary: 'Asks providers for deliveries that never came, and stores them.',
  examples: [
    'integrations reconcile-webhooks',
    'integrations reconcile-webhooks 7 --since 2026-06-01T12:00:00Z --dry-run',
  ],
  places: ['integration'],
  workflow: 'own',
  needsWorker: true,
  fields,
  output: Reconciled,
  routes: [
    route({
      method: 'post',
      path: '/integrations/:id/reconcile',
      summary: 'Asks the provider of an integration for deliveries that never came, and stores them.',
      fields: { id: id('of the integration'), since: fields.since, dryRun: fields.dryRun },
      reach: 'integration',
      output: Reconciled,
      run: (context, { id, ...given }) => reconcile(context, { integration: id, ...given }),
    }),
  ],
  run: reconcile,
  // The reasons are warnings.
  show: ({ reasons: _, ...counts }) =>
    counts.integrations === 0
      ? 'Nothing to reconcile: no integration that is switched on is of a provider that can.'
      : fieldLines(counts),
  // Where each is skipped, no provider was asked.
  hasFailed: ({ integrations, failed, skipped }) => failed > 0 || (skipped > 0 && skipped === integrations),
})

async function reconcile(context: CommandContext, { integration, since, dryRun }: Values<typeof fields>) {
  const { integrations, note, warn } = context
  const asked = {
    ...(integration === undefined ? {} : { integrationId: integration }),
    ...(since === undefined ? {} : { since: since.toISOString() }),
    dryRun,
  }
  const result = await byWorker(context, integrations.webhooks.reconcile(asked))
  if (result === 'already running')
    throw new Refused('already_running', 'A reconciliation is running. Wait for its end, and ask again.')
  if (dryRun) warn('Nothing was stored: in a dry run `inserted` counts what would be.')
  else if (integration !== undefined) await note(integration, 'reconcile')
  const rest = since === undefined ? 'the next run goes on' : 'give the same --since again for the rest'
  if (result.capped > 0) warn(`${result.capped} reached the limit of a run; ${rest}.`)
  if (result.failed > 0) warn(`${result.failed} failed; the log of the worker says why.`)
  for (const reason of result.reasons) warn(reason)
  if (result.skipped > result.reasons.length)
    warn(`${result.skipped - result.reasons.length} more were skipped; integrations doctor says which.`)
  return columns(result)
}
