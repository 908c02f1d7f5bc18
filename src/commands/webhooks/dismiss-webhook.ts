import { z } from 'zod'
import type { CommandContext } from '../command.ts'
import { command, route } from '../command.ts'
import type { Values } from '../fields.ts'
import { flag, id, optional } from '../fields.ts'
import { inOrder } from '../listing.ts'
import { moment, rowId } from '../shapes.ts'
import {
  CHOICE,
  checkChoice,
  chosenText,
  integrationsOf,
  moreThan,
  notedCounts,
  PreviewOfMany,
  webhooks,
} from './many-webhooks.ts'

const { dryRun, ...filter } = CHOICE
const undo = flag('take back that they are dismissed')
const many = { ...filter, undo, dryRun }

const One = z.object({ webhook_id: rowId, status: z.literal('failed'), dismissed_at: moment.nullable() })
const Dismissed = z.object({ dismissed: z.int(), integrations: z.int(), more: z.boolean(), undo: z.boolean() })
const Preview = PreviewOfMany.extend({ undo: z.boolean() })

export const dismissWebhook = command({
  name: 'dismiss-webhook',
  topic: 'Webhooks',
  summary: 'Gives failed webhooks up: they are hidden, and not tried again.',
  examples: [
    'integrations dismiss-webhook 4711',
    'integrations dismiss-webhook 4711 --undo',
    'integrations dismiss-webhook --integration 7 --event issues --until 2026-06-01T12:00:00Z --dry-run',
  ],
  places: ['id'],
  fields: { id: optional(id('of the webhook; without it the options choose among failed ones')), ...many },
  output: z.union([One, Dismissed, Preview]),
  routes: [
    route({
      method: 'post',
      path: '/webhooks/dismiss',
      summary: 'Gives many failed webhooks up, or with `dry_run` counts them.',
      fields: many,
      needsBody: true,
      check: inOrder,
      reach: 'filtered',
      output: z.union([Dismissed, Preview]),
      run: dismissMany,
    }),
    route({
      method: 'post',
      path: '/webhooks/:id/dismiss',
      summary: 'Gives a failed webhook up, or with `undo` no more.',
      fields: { id: id('of the webhook'), undo },
      reach: 'webhook',
      output: One,
      run: dismissOne,
    }),
  ],
  check: ({ undo: _, ...given }) => checkChoice(given),
  async confirm({ integrations }, given) {
    const { id, dryRun, undo, ...filter } = given
    if (id !== undefined || dryRun) return null
    const preview = await integrations.webhooks.previewDismissal(filter, { undo })
    if (preview.count === 0) return null
    const question = `${undo ? 'Take back the dismissal of' : 'Dismiss'} ${preview.more ? 'the first ' : ''}${chosenText(preview)}?`
    return { question, agreed: { ...given, limit: preview.count } }
  },
  async run(context, { id, ...choice }) {
    return id === undefined ? dismissMany(context, choice) : dismissOne(context, { id, undo: choice.undo })
  },
  show(result) {
    if ('webhook_id' in result)
      return `Webhook ${result.webhook_id} is ${result.dismissed_at === null ? 'not dismissed any more' : 'dismissed'}.`
    const { undo } = result
    const count = 'count' in result ? result.count : result.dismissed
    if (count === 0) return undo ? 'Nothing is dismissed.' : 'Nothing to dismiss.'
    if ('count' in result) return `Would ${undo ? 'take back the dismissal of' : 'dismiss'} ${chosenText(result)}.`
    const of = integrationsOf(result.integrations)
    return `${undo ? 'Took back the dismissal of' : 'Dismissed'} ${webhooks(count)} of ${of}.`
  },
})

async function dismissOne(
  { integrations, note }: CommandContext,
  given: { readonly id: number; readonly undo: boolean },
) {
  const { id, undo } = given
  const { integrationId, dismissedAt } = await integrations.webhooks.dismiss(id, { undo })
  await note(integrationId, actOf(undo), `webhook:${id}`)
  return { webhook_id: id, status: 'failed', dismissed_at: dismissedAt }
}

async function dismissMany(context: CommandContext, given: Values<typeof many>) {
  const { integrations, warn } = context
  const { dryRun, undo, ...filter } = given
  if (dryRun) {
    const preview = await integrations.webhooks.previewDismissal(filter, { undo })
    if (preview.more) warn(moreThan(filter.limit))
    return { ...preview, undo }
  }
  const done = await notedCounts(context, actOf(undo), (onChanged) =>
    integrations.webhooks.dismissMany(filter, { undo, onChanged }),
  )
  const { dismissed, integrations: touched, more } = done
  if (more) warn(moreThan(filter.limit))
  return { dismissed, integrations: touched.length, more, undo }
}

const actOf = (undo: boolean): string => (undo ? 'undo dismiss' : 'dismiss')
