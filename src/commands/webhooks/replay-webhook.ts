import { z } from 'zod'
import { byWorker } from '../cli/by-worker.ts'
import type { CommandContext } from '../command.ts'
import { command, route } from '../command.ts'
import type { Values } from '../fields.ts'
import { choice, id, optional } from '../fields.ts'
import { inOrder } from '../listing.ts'
import { rowId } from '../shapes.ts'
import {
  CHOICE,
  checkChoice,
  chosenText,
  integrationsOf,
  moreThan,
  notedCounts,
  PreviewOfMany,
  waits,
  webhooks,
} from './many-webhooks.ts'

const { dryRun, ...filter } = CHOICE
const many = {
  ...filter,
  status: optional(choice('only of this status; default failed', ['failed', 'processed'], 'status')),
  dryRun,
}
const { integration, ...others } = many

const Replayed = z.object({
  replayed: z.int(),
  integrations: z.int(),
  span: z.array(rowId).length(2).nullable().describe('the lowest and the highest id among them; null: none'),
  more: z.boolean(),
})
const Preview = PreviewOfMany.extend({ waiting: z.int().describe('their integration is disabled by its health') })
const One = z.object({
  webhook_id: rowId,
  outcome: z.enum(['processed', 'failed', 'not claimed']),
  status: z.enum(['pending', 'processing', 'processed', 'failed']),
  attempts: z.int(),
  error: z.string().nullable(),
})

export const replayWebhook = command({
  name: 'replay-webhook',
  topic: 'Webhooks',
  summary: 'Runs a settled webhook again, or puts many back into the queue.',
  examples: [
    'integrations replay-webhook 4711',
    'integrations replay-webhook --integration 7 --event issues --since 2026-06-01T12:00:00Z --dry-run',
    'integrations replay-webhook --status failed --until 2026-06-01T12:00:00Z --limit 100 --yes',
  ],
  places: ['id'],
  workflow: 'own',
  needsWorker: true,
  fields: { id: optional(id('of the webhook; without it the options choose')), integration, ...others },
  output: z.union([One, Replayed, Preview]),
  routes: [
    route({
      method: 'post',
      path: '/webhooks/replay',
      summary: 'Puts many settled webhooks back into the queue, or with `dry_run` counts them.',
      fields: many,
      needsBody: true,
      check: inOrder,
      reach: 'filtered',
      output: z.union([Replayed, Preview]),
      run: replayMany,
    }),
    route({
      method: 'post',
      path: '/webhooks/:id/replay',
      summary: 'Starts a settled webhook again, and does not wait.',
      fields: { id: id('of the webhook') },
      reach: 'webhook',
      status: 202,
      output: z.object({ webhook_id: rowId, workflow_id: z.string() }),
      location: ({ id }) => `/webhooks/${id}`,
      async run({ integrations, note }, { id }) {
        const { webhookId, integrationId, workflowId } = await integrations.webhooks.startReplay(id)
        await note(integrationId, 'replay', `webhook:${id}`)
        return { webhook_id: webhookId, workflow_id: workflowId }
      },
    }),
  ],
  check: checkChoice,
  async confirm({ integrations }, given) {
    const { id, dryRun, ...filter } = given
    if (id !== undefined || dryRun) return null
    const preview = await integrations.webhooks.previewReplay(filter)
    if (preview.count === 0) return null
    const question = `Replay ${preview.more ? 'the first ' : ''}${chosenText(preview)}?${waits(preview)}`
    return { question, agreed: { ...given, limit: preview.count } }
  },
  async run(context, { id, ...choice }) {
    return id === undefined ? replayMany(context, choice) : replayOne(context, id)
  },
  show(result) {
    if ('count' in result) return result.count === 0 ? NOTHING : `Would replay ${chosenText(result)}.${waits(result)}`
    if ('replayed' in result) {
      const { replayed, integrations } = result
      return replayed === 0
        ? NOTHING
        : `Put ${webhooks(replayed)} of ${integrationsOf(integrations)} back into the queue.`
    }
    const { webhook_id: id, outcome, attempts, error } = result
    return outcome === 'failed'
      ? `Webhook ${id} failed in attempt ${attempts}: ${error ?? 'it has been moved on since'}`
      : `Webhook ${id} is processed, in attempt ${attempts}.`
  },
  hasFailed: (result) => 'outcome' in result && result.outcome === 'failed',
})

async function replayMany(context: CommandContext, { dryRun, ...filter }: Values<typeof many>) {
  const { integrations, warn } = context
  if (dryRun) {
    const preview = await integrations.webhooks.previewReplay(filter)
    if (preview.more) warn(moreThan(filter.limit))
    return preview
  }
  const done = await notedCounts(context, 'replay', (onChanged) =>
    integrations.webhooks.replayMany(filter, { onChanged }),
  )
  const { replayed, integrations: touched, span, more } = done
  if (more) warn(moreThan(filter.limit))
  return { replayed, integrations: touched.length, span, more }
}

async function replayOne(context: CommandContext, id: number) {
  const { webhooks } = context.integrations
  const { integrationId } = await webhooks.get(id)
  const { outcome, status, attempts } = await byWorker(context, webhooks.replay(id))
  await context.note(integrationId, 'replay', `webhook:${id}`)
  const { error } = await webhooks.get(id)
  return { webhook_id: id, outcome, status, attempts, error: outcome === 'failed' ? error : null }
}

const NOTHING = 'Nothing to replay.'
