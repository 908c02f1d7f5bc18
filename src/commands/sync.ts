import type { Command } from 'commander'
import type { SyncStart } from '../syncs/ask-rules.ts'
import { instant, integrationId, sampleSize } from './cli/arguments.ts'
import { byWorker } from './cli/by-worker.ts'
import { Interrupted, listingFailure } from './cli/failure.ts'
import type { CommandContext, Frame, Outcome } from './cli/frame.ts'
import { endText } from './cli/sync-run.ts'
import { table } from './cli/table.ts'
import { newestRun, watchSync } from './cli/watch-sync.ts'
import { Refused } from './refused.ts'

const DEFAULT_SAMPLE = 10

interface Options {
  readonly integration?: number
  readonly watch?: true
  readonly dryRun?: true
  readonly limit?: number
  readonly from?: Date
  readonly to?: Date
}

/** `integrations sync`: what is due; or of one integration a run now, a look at what it would list, or a backfill. */
export function syncCommand(frame: Frame): Command {
  return frame
    .command('sync', 'Starts the sync runs that are due, or one of one integration now.', [
      'integrations sync',
      'integrations sync --integration 7',
      'integrations sync --integration 7 --watch',
      'integrations sync --integration 7 --dry-run --limit 20',
      'integrations sync --integration 7 --from 2031-01-01T00:00:00Z --to 2031-02-01T00:00:00Z',
    ])
    .option('--integration <id>', 'a run of this integration now, due or not', integrationId)
    .option('--watch', 'show how far the run is, until it ends')
    .option('--dry-run', 'only list a few items, and store none')
    .option('--limit <n>', `with --dry-run: so many items, 1 to 100; default ${DEFAULT_SAMPLE}`, sampleSize)
    .option('--from <instant>', 'with --to: list this time of the past again, from here on', instant)
    .option('--to <instant>', 'with --from: up to here, exclusive', instant)
    .action((options: Options, command: Command) => {
      const work = workOf(options)
      return frame.action(work)(command)
    })
}

/** @throws Refused for options that do not go together, before the host is loaded */
function workOf({ integration: id, watch, dryRun, limit, from, to }: Options) {
  const given = Object.entries({ watch, 'dry-run': dryRun, limit, from, to })
    .filter(([, value]) => value !== undefined)
    .map(([name]) => `--${name}`)
  if (id === undefined) {
    if (given.length > 0)
      throw new Refused('usage', `${given.join(', ')} goes with --integration, which was not given.`)
    return dispatch
  }
  const kinds = [watch && '--watch', dryRun && '--dry-run', (from ?? to) && '--from and --to'].filter(Boolean)
  if (kinds.length > 1)
    throw new Refused(
      'usage',
      `One of --watch, --dry-run, or --from with --to is allowed; ${kinds.join(', ')} were given.`,
    )
  if (limit !== undefined && !dryRun) throw new Refused('usage', '--limit goes with --dry-run, which was not given.')
  if (dryRun) return (context: CommandContext) => sample(context, id, limit ?? DEFAULT_SAMPLE)
  if (from !== undefined && to !== undefined) {
    if (from >= to)
      throw new Refused(
        'usage',
        `--to is a moment after --from; ${from.toISOString()} and ${to.toISOString()} were given.`,
      )
    return (context: CommandContext) => backfill(context, id, from, to)
  }
  if (from !== undefined || to !== undefined)
    throw new Refused('usage', `--from and --to go together; only --${from === undefined ? 'to' : 'from'} was given.`)
  return watch
    ? (context: CommandContext) => runAndWatch(context, id)
    : (context: CommandContext) => runNow(context, id)
}

/** What the Schedule does each minute. */
async function dispatch(context: CommandContext): Promise<Outcome> {
  const { integrations, warn } = context
  const { due, started, alreadyRunning, stale, recovered } = await byWorker(context, integrations.syncs.dispatch())
  for (const { integrationId, lastSyncedAt } of stale)
    warn(`Integration ${integrationId} is stale: its last clean sync was ${lastSyncedAt ?? 'never'}.`)
  const refused = due - started - alreadyRunning
  if (refused > 0) warn(`${refused} of ${due} could not be started; the log of the worker says why.`)
  return {
    document: {
      due,
      started,
      already_running: alreadyRunning,
      stale: stale.map(({ integrationId, lastSyncedAt }) => ({
        integration_id: integrationId,
        last_synced_at: lastSyncedAt,
      })),
      recovered,
    },
    text: started > 0 ? `Started ${started}` : nothingStarted(due, alreadyRunning),
    ...(refused > 0 ? { exitCode: 1 } : {}),
  }
}

function nothingStarted(due: number, alreadyRunning: number): string {
  if (due === 0) return 'Nothing was due.'
  return alreadyRunning > 0 ? `Nothing to start: ${alreadyRunning} run already.` : 'Nothing was started.'
}

async function runNow(context: CommandContext, id: number): Promise<Outcome> {
  const outcome = await start(context, id)
  return { document: documentOf(id, outcome), text: textOf(outcome) }
}

async function runAndWatch(context: CommandContext, id: number): Promise<Outcome> {
  const { integrations, json, warn } = context
  await integrations.get(id)
  const newest = await newestRun(integrations, id)
  const outcome = await start(context, id)
  const isStarted = outcome === 'started'
  if (!json) warn(textOf(outcome))
  // A run that is joined may be the newest one.
  const run = await watchSync(context, id, { after: isStarted ? (newest?.id ?? null) : null })
  return {
    document: { ...documentOf(id, outcome), run },
    text: run === null ? 'No run was opened: the log of the worker says why.' : endText(run),
    exitCode: run === null || run.status === 'success' ? 0 : 1,
  }
}

const documentOf = (id: number, outcome: SyncStart['kind']) => ({
  integration_id: id,
  outcome,
  started: outcome === 'started' ? 1 : 0,
  already_running: outcome === 'remembered',
})

const textOf = (outcome: SyncStart['kind']): string =>
  outcome === 'started' ? 'Started 1' : 'Already running: will run again after the one that runs'

async function start({ integrations, by }: CommandContext, id: number): Promise<SyncStart['kind']> {
  const { kind } = await integrations.syncs.start(id)
  await integrations.admin.operator.note(id, { token: by, action: 'sync', target: `integration:${id}` })
  return kind
}

async function sample({ integrations, signal, warn }: CommandContext, id: number, limit: number): Promise<Outcome> {
  let causes: string | null = null
  const onListingFailed = (told: string): void => {
    causes = told
  }
  const { items, more, duplicatesDropped } = await integrations.syncs
    .sample(id, { limit, signal, onListingFailed })
    .catch((error) => {
      // Of a worker that stops, too: what the listing throws then is no failure of the provider.
      throw signal.aborted ? new Interrupted() : listingFailure(error, causes)
    })
  if (more) warn(`There are more than ${limit}; --limit shows more, 100 at most.`)
  return {
    document: {
      items: items.map(({ externalId, eventClass, checkpointValue, bytes }) => ({
        external_id: externalId,
        event_class: eventClass,
        checkpoint_value: checkpointValue,
        bytes,
      })),
      more,
      duplicates_dropped: duplicatesDropped,
    },
    text:
      items.length === 0
        ? 'Nothing would be listed.'
        : table(
            ['External ID', 'Event', 'Checkpoint', 'Bytes'],
            items.map(({ externalId, eventClass, checkpointValue, bytes }) => [
              externalId,
              eventClass,
              checkpointValue,
              bytes,
            ]),
          ),
  }
}

async function backfill({ integrations, by }: CommandContext, id: number, from: Date, to: Date): Promise<Outcome> {
  const window = { from: from.toISOString(), to: to.toISOString() }
  const isStarted = (await integrations.syncs.backfill({ integrationId: id, ...window })) === 'started'
  if (!isStarted)
    return {
      document: { integration_id: id, started: 0, already_running: true },
      text: 'Already running',
    }
  await integrations.admin.operator.note(id, {
    token: by,
    action: `backfill ${window.from} to ${window.to}`,
    target: `integration:${id}`,
  })
  return {
    document: { integration_id: id, started: 1, already_running: false },
    text: `Started 1\n\`integrations list-sync-runs --integration ${id}\` shows it, a row for each day of it.`,
  }
}
