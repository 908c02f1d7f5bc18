import type { Command } from 'commander'
import { Option } from 'commander'
import type { Integrations } from '../create-integrations.ts'
import { instant, integrationId, limit, webhookId } from './cli/arguments.ts'
import { byWorker } from './cli/by-worker.ts'
import { confirmOrRefuse } from './cli/confirmation.ts'
import type { CommandContext, Frame, Outcome } from './cli/frame.ts'
import { Refused } from './refused.ts'

const DEFAULT_LIMIT = 1_000

interface Filter {
  readonly integration?: number | undefined
  readonly status?: 'failed' | 'processed' | undefined
  readonly event?: string | undefined
  readonly since?: Date | undefined
  readonly until?: Date | undefined
  readonly limit?: number | undefined
}

interface Options extends Filter {
  readonly dryRun?: true
  readonly yes: boolean
}

type Preview = Awaited<ReturnType<Integrations['webhooks']['previewReplay']>>

/** `integrations replay-webhook <id>`, or with filters many at once. */
export function replayWebhookCommand(frame: Frame): Command {
  return frame
    .command('replay-webhook', 'Runs a settled webhook again, or puts many back into the queue.', [
      'integrations replay-webhook 4711',
      'integrations replay-webhook --integration 7 --event issues --since 2026-06-01T12:00:00Z --dry-run',
      'integrations replay-webhook --status failed --until 2026-06-01T12:00:00Z --limit 100 --yes',
    ])
    .argument('[id]', 'id of the webhook; without it the options choose', webhookId)
    .option('--integration <id>', 'only of this integration', integrationId)
    .addOption(new Option('--status <status>', 'only of this status; default failed').choices(['failed', 'processed']))
    .option('--event <type>', 'only of this event type')
    .option('--since <instant>', 'only those stored then or later', instant)
    .option('--until <instant>', 'only those stored before', instant)
    .option('--limit <n>', `at most so many, the oldest first; default ${DEFAULT_LIMIT}`, limit)
    .option('--dry-run', 'only count, and name the first ten')
    .option('--yes', 'do not ask', false)
    .action((id: number | undefined, options: Options, command: Command) => {
      const { integration, status, event, since, until, limit, dryRun, yes } = options
      const filter = { integration, status, event, since, until, limit }
      const [chosen] = Object.entries({ ...filter, 'dry-run': dryRun }).find(([, value]) => value !== undefined) ?? []
      if (id !== undefined && chosen !== undefined)
        throw new Refused('usage', `Give an id or options that choose, not both: ${id} and --${chosen} were given.`)
      if (id !== undefined) return frame.action((context) => replayOne(context, id))(command)
      if (chosen === undefined)
        throw new Refused(
          'usage',
          'Give the id of a webhook, or choose many by --integration, --status, --event, --since, --until, --limit or --dry-run.',
        )
      return frame.action((context) => replayMany(context, filter, { yes, dryRun: dryRun ?? false }))(command)
    })
}

async function replayOne(context: CommandContext, id: number): Promise<Outcome> {
  const { integrations, by } = context
  const { integrationId } = await integrations.webhooks.get(id)
  const { outcome, status, attempts } = await byWorker(context, integrations.webhooks.replay(id))
  await integrations.admin.operator.note(integrationId, { token: by, action: 'replay', target: `webhook:${id}` })
  const document = { webhook_id: id, outcome, status, attempts }
  if (outcome !== 'failed') return { document, text: `Webhook ${id} is processed, in attempt ${attempts}.` }
  const { error } = await integrations.webhooks.get(id)
  return {
    document,
    text: `Webhook ${id} failed in attempt ${attempts}: ${error ?? 'it has been moved on since'}`,
    exitCode: 1,
  }
}

async function replayMany(
  context: CommandContext,
  filter: Filter,
  { yes, dryRun }: { yes: boolean; dryRun: boolean },
): Promise<Outcome> {
  const { integrations, by, warn } = context
  const preview = await integrations.webhooks.previewReplay(filter)
  if (preview.more) warn(`There are more than ${filter.limit ?? DEFAULT_LIMIT}; --limit takes more.`)
  const { count, ids, waiting } = preview
  if (dryRun) return { document: { count, ids, waiting }, text: textOf(preview) }
  if (count === 0) return { document: { replayed: 0, integrations: 0 }, text: NOTHING }
  await confirmOrRefuse(context, `Replay ${webhooks(count)} (${named(preview)})?${waits(preview)}`, yes)
  // No more than was agreed to, whatever has failed since.
  const { replayed, integrations: touched } = await integrations.webhooks.replayMany({ ...filter, limit: count })
  for (const { id, replayed: of } of touched)
    await integrations.admin.operator.note(id, {
      token: by,
      action: `replay ${webhooks(of)}`,
      target: `integration:${id}`,
    })
  return {
    document: { replayed, integrations: touched.length },
    text:
      replayed === 0
        ? NOTHING
        : `Put ${webhooks(replayed)} of ${touched.length === 1 ? '1 integration' : `${touched.length} integrations`} back into the queue.`,
  }
}

const NOTHING = 'Nothing to replay.'

function textOf(preview: Preview): string {
  return preview.count === 0 ? NOTHING : `Would replay ${webhooks(preview.count)} (${named(preview)}).${waits(preview)}`
}

const webhooks = (n: number): string => (n === 1 ? '1 webhook' : `${n} webhooks`)

const named = ({ count, ids }: Preview): string => `${ids.join(', ')}${count > ids.length ? ', ...' : ''}`

/** What a health check has disabled is enabled by a person, and works off what waits then. */
const waits = ({ waiting }: Preview): string =>
  waiting === 0 ? '' : ` ${waiting} of them will wait: their integration is disabled by its health until it is enabled.`
