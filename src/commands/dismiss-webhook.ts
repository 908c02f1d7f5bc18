import type { Command } from 'commander'
import type { Integrations } from '../create-integrations.ts'
import { instant, integrationId, limit, webhookId } from './cli/arguments.ts'
import { confirmOrRefuse } from './cli/confirmation.ts'
import type { CommandContext, Frame, Outcome } from './cli/frame.ts'
import { Refused } from './refused.ts'

const DEFAULT_LIMIT = 1_000

interface Filter {
  readonly integration?: number | undefined
  readonly event?: string | undefined
  readonly since?: Date | undefined
  readonly until?: Date | undefined
  readonly limit?: number | undefined
}

interface Options extends Filter {
  readonly undo: boolean
  readonly dryRun?: true
  readonly yes: boolean
}

type Preview = Awaited<ReturnType<Integrations['webhooks']['previewDismissal']>>

/** `integrations dismiss-webhook <id>`, or with filters many at once; with `--undo` the other way. */
export function dismissWebhookCommand(frame: Frame): Command {
  return frame
    .command('dismiss-webhook', 'Gives failed webhooks up: they are hidden, and not tried again.', [
      'integrations dismiss-webhook 4711',
      'integrations dismiss-webhook 4711 --undo',
      'integrations dismiss-webhook --integration 7 --event issues --until 2026-06-01T12:00:00Z --dry-run',
    ])
    .argument('[id]', 'id of the webhook; without it the options choose among failed ones', webhookId)
    .option('--integration <id>', 'only of this integration', integrationId)
    .option('--event <type>', 'only of this event type')
    .option('--since <instant>', 'only those stored then or later', instant)
    .option('--until <instant>', 'only those stored before', instant)
    .option('--limit <n>', `how many at most, the oldest first; default ${DEFAULT_LIMIT}`, limit)
    .option('--undo', 'take back that they are dismissed', false)
    .option('--dry-run', 'only count, and name the first ten')
    .option('--yes', 'do not ask', false)
    .action((id: number | undefined, options: Options, command: Command) => {
      const { integration, event, since, until, limit, undo, dryRun, yes } = options
      const filter = { integration, event, since, until, limit }
      const [chosen] = Object.entries({ ...filter, 'dry-run': dryRun }).find(([, value]) => value !== undefined) ?? []
      if (id !== undefined && chosen !== undefined)
        throw new Refused('usage', `Give an id or options that choose, not both: ${id} and --${chosen} were given.`)
      if (id !== undefined) return frame.action((context) => dismissOne(context, id, undo))(command)
      if (chosen === undefined)
        throw new Refused(
          'usage',
          'Give the id of a webhook, or choose many by --integration, --event, --since, --until, --limit or --dry-run.',
        )
      return frame.action((context) => dismissMany(context, filter, { undo, yes, dryRun: dryRun ?? false }))(command)
    })
}

async function dismissOne({ integrations, by }: CommandContext, id: number, undo: boolean): Promise<Outcome> {
  const { integrationId, dismissedAt } = await integrations.webhooks.dismiss(id, { undo })
  await integrations.admin.operator.note(integrationId, { token: by, action: actOf(undo), target: `webhook:${id}` })
  return {
    document: { webhook_id: id, status: 'failed', dismissed_at: dismissedAt?.toISOString() ?? null },
    text: undo ? `Webhook ${id} is not dismissed any more.` : `Webhook ${id} is dismissed.`,
  }
}

async function dismissMany(
  context: CommandContext,
  filter: Filter,
  { undo, yes, dryRun }: { undo: boolean; yes: boolean; dryRun: boolean },
): Promise<Outcome> {
  const { integrations, by, warn } = context
  const preview = await integrations.webhooks.previewDismissal(filter, { undo })
  if (preview.more) warn(`There are more than ${filter.limit ?? DEFAULT_LIMIT}; --limit takes more.`)
  const { count, ids } = preview
  const what = `${undo ? 'take back the dismissal of' : 'dismiss'} ${webhooks(count)} (${named(preview)})`
  if (dryRun) return { document: { count, ids }, text: count === 0 ? nothing(undo) : `Would ${what}.` }
  if (count === 0) return { document: { dismissed: 0, integrations: 0 }, text: nothing(undo) }
  await confirmOrRefuse(context, `${what.charAt(0).toUpperCase()}${what.slice(1)}?`, yes)
  // No more than was agreed to, whatever has failed since.
  const { dismissed, integrations: touched } = await integrations.webhooks.dismissMany(
    { ...filter, limit: count },
    { undo },
  )
  for (const { id, dismissed: of } of touched)
    await integrations.admin.operator.note(id, {
      token: by,
      action: `${actOf(undo)} ${webhooks(of)}`,
      target: `integration:${id}`,
    })
  const of = touched.length === 1 ? '1 integration' : `${touched.length} integrations`
  return {
    document: { dismissed, integrations: touched.length },
    text:
      dismissed === 0
        ? nothing(undo)
        : `${undo ? 'Took back the dismissal of' : 'Dismissed'} ${webhooks(dismissed)} of ${of}.`,
  }
}

const actOf = (undo: boolean): string => (undo ? 'undo dismiss' : 'dismiss')

const nothing = (undo: boolean): string => (undo ? 'Nothing is dismissed.' : 'Nothing to dismiss.')

const webhooks = (n: number): string => (n === 1 ? '1 webhook' : `${n} webhooks`)

const named = ({ count, ids }: Preview): string => `${ids.join(', ')}${count > ids.length ? ', ...' : ''}`
