import { z } from 'zod'
import { lostDatabase } from '../../framework/lost-database.ts'
import type { StartSync, SyncStart } from '../../syncs/ask-rules.ts'
import { MAX_DEBOUNCE_SECONDS } from '../../syncs/ask-rules.ts'
import { backfillRuns } from '../../syncs/run-rules.ts'
import { streamOption } from '../../syncs/stream-rules.ts'
import { byWorker } from '../cli/by-worker.ts'
import { Interrupted, isUnanswered, listingFailure } from '../cli/failure.ts'
import { endText } from '../cli/sync-run.ts'
import { table } from '../cli/table.ts'
import type { Whose } from '../cli/watch-sync.ts'
import { newestRun, watchSync } from '../cli/watch-sync.ts'
import type { CommandContext, Said } from '../command.ts'
import { columns, command, route, said } from '../command.ts'
import { flag, forTerminals, id, instant, optional, stream, whole } from '../fields.ts'
import { Refused } from '../refused.ts'
import { anything, moment, rowId, SyncRunRow, streamName } from '../shapes.ts'
import { isKnownError } from '../statuses.ts'
import { notedStreams } from './noted-streams.ts'
import { progressAt } from './sync-progress.ts'

const DEFAULT_SAMPLE = 10

const integration = id('of the integration')
const limit = whole(`the most items to list; default ${DEFAULT_SAMPLE}`, { max: 100 })
const count = z.int().min(0)

const Sample = z.object({
  items: z.array(
    z.object({
      external_id: z.string().nullable(),
      event_class: z.string(),
      checkpoint_value: anything,
      bytes: count,
    }),
  ),
  more: z.boolean(),
  duplicates_dropped: count,
})
const Outcome = z.object({
  outcome: z.enum(['started', 'remembered', 'later']),
  run_id: z.string().optional(),
  at: moment.optional(),
  stream: streamName,
})
const streams = z.array(Outcome).optional().describe('Each of them, where all streams of its provider were asked for.')
const Asked = Outcome.extend({ integration_id: rowId, streams })
const Started = z.object({
  integration_id: rowId,
  stream: streamName,
  outcome: Outcome.shape.outcome.optional(),
  ...{ started: count, already_running: z.boolean(), streams },
  runs: count.optional().describe('Of a backfill: how many runs it makes, one for each day.'),
})
const Dispatched = z.object({
  ...{ due: count, started: count, already_running: count },
  stale: z.array(z.object({ integration_id: rowId, stream: z.string().optional(), last_synced_at: moment.nullable() })),
  recovered: z.array(rowId),
})

export const sync = command({
  name: 'sync',
  topic: 'Syncs',
  summary: 'Starts the sync runs that are due, or one of one integration now.',
  examples: [
    'integrations sync',
    'integrations sync 7',
    'integrations sync --integration 7 --stream contacts --watch',
    'integrations sync --integration 7 --dry-run --limit 20',
    'integrations sync --integration 7 --from 2031-01-01T00:00:00Z --to 2031-02-01T00:00:00Z',
  ],
  needsWorker: true,
  workflow: 'own',
  places: ['id'],
  fields: {
    id: forTerminals(optional(id('the same as --integration'))),
    integration: optional(id('a run of this integration now, due or not')),
    stream: stream('of this stream of its provider; default: of all that it has'),
    watch: forTerminals(flag('show how far the run is, until it ends')),
    dryRun: flag('only list a few items, and store none'),
    limit: optional({ ...limit, about: `with --dry-run: ${limit.about}` }),
    from: optional(instant('with --to: list this time of the past again, from here on')),
    to: optional(instant('with --from: up to here, exclusive')),
  },
  output: z.union([Dispatched, Started.extend({ run: SyncRunRow.nullable().optional() }), Sample]),
  routes: [
    route({
      method: 'post',
      path: '/integrations/:id/sync',
      summary: 'Starts a sync run of an integration, due or not; while one lives, one more follows it.',
      fields: {
        id: integration,
        stream: stream('default: all streams of its provider'),
        notBefore: optional(instant('at most 30 days ahead: it begins then')),
        debounceSeconds: optional(
          whole('it begins once no one has asked for this many seconds', { min: 0, max: MAX_DEBOUNCE_SECONDS }),
        ),
      },
      reach: 'integration',
      status: 202,
      output: Asked,
      location: (input, { streams }) => (streams === undefined ? progressAt(input) : `/integrations/${input.id}`),
      async run(context, { id, ...ask }) {
        return { integration_id: id, ...startDocument(await start(context, id, ask)) }
      },
    }),
    route({
      method: 'post',
      path: '/integrations/:id/backfill',
      summary: 'Starts a backfill: lists a time of the past again. The cursor stays.',
      fields: { id: integration, stream: stream(), from: instant('inclusive'), to: instant('exclusive') },
      reach: 'integration',
      status: 202,
      output: z.object({ integration_id: rowId, stream: streamName, from: moment, to: moment, runs: count }),
      location: ({ id }) => `/sync-runs?integration=${id}`,
      async run(context, { from, to, ...whose }) {
        if (from >= to) throw new Refused('usage', 'a moment after from is allowed', 'to')
        if (!(await startBackfill(context, whose, from, to)))
          throw new Refused('already_running', 'A backfill of this integration lives. Wait for its end, and ask again.')
        return { ...answerOf(whose), from, to, runs: backfillRuns(from, to) }
      },
    }),
    route({
      method: 'post',
      path: '/integrations/:id/sample',
      summary: 'Shows what a run would list. Nothing is stored.',
      fields: { id: integration, stream: stream(), limit: optional(limit) },
      reach: 'integration',
      output: Sample,
      run: (context, { limit, ...whose }) => sample(context, whose, limit, withoutCauses),
    }),
  ],
  check({ id: place, integration, stream, watch, dryRun, limit, from, to }) {
    if (place !== undefined && integration !== undefined)
      throw new Refused('usage', `Give the integration once: ${place} and --integration ${integration} were given.`)
    const id = place ?? integration
    const given = Object.entries({ stream, watch, 'dry-run': dryRun, limit, from, to })
      .filter(([, value]) => value !== undefined && value !== false)
      .map(([name]) => `--${name}`)
    if (id === undefined && given.length > 0)
      throw new Refused('usage', `${given.join(', ')} goes with --integration, which was not given.`)
    const kinds = [watch && '--watch', dryRun && '--dry-run', (from ?? to) && '--from and --to'].filter(Boolean)
    if (kinds.length > 1)
      throw new Refused(
        'usage',
        `One of --watch, --dry-run, or --from with --to is allowed; ${kinds.join(', ')} were given.`,
      )
    if (limit !== undefined && !dryRun) throw new Refused('usage', '--limit goes with --dry-run, which was not given.')
    if ((from === undefined) !== (to === undefined))
      throw new Refused('usage', `--from and --to go together; only --${from === undefined ? 'to' : 'from'} was given.`)
    if (from !== undefined && to !== undefined && from >= to)
      throw new Refused(
        'usage',
        `--to is a moment after --from; ${from.toISOString()} and ${to.toISOString()} were given.`,
      )
  },
  run(context, { id: place, integration, stream, watch, dryRun, limit, from, to }): Promise<Said> {
    const id = place ?? integration
    if (id === undefined) return dispatch(context)
    const whose = { id, stream }
    if (dryRun) return dryRunOf(context, whose, limit)
    if (from !== undefined && to !== undefined) return backfill(context, whose, from, to)
    return watch ? runAndWatch(context, whose) : runNow(context, whose)
  },
  ...said,
})

/** What the Schedule does each minute. */
async function dispatch(context: CommandContext): Promise<Said> {
  const { integrations, warn } = context
  const { stale, ...counts } = await byWorker(context, integrations.syncs.dispatch())
  const { due, started, alreadyRunning } = counts
  for (const { integrationId, stream: late, lastSyncedAt } of stale)
    warn(
      `Integration ${integrationId}${late === undefined ? '' : `, stream ${late},`} is stale: its last clean sync was ${lastSyncedAt ?? 'never'}.`,
    )
  const refused = due - started - alreadyRunning
  if (refused > 0) warn(`${refused} of ${due} could not be started; the log of the worker says why.`)
  return {
    document: { ...columns(counts), stale: stale.map(columns) },
    text: started > 0 ? `Started ${started}` : nothingStarted(due, alreadyRunning),
    hasFailed: refused > 0,
  }
}

function nothingStarted(due: number, alreadyRunning: number): string {
  if (due === 0) return 'Nothing was due.'
  return alreadyRunning > 0 ? `Nothing to start: ${alreadyRunning} run already.` : 'Nothing was started.'
}

async function runNow(context: CommandContext, whose: Whose): Promise<Said> {
  const started = await start(context, whose.id, whose)
  return { document: startedOf(whose, started), text: await textOf(context, whose.id, started) }
}

async function runAndWatch(context: CommandContext, whose: Whose): Promise<Said> {
  const { integrations, json, warn } = context
  const all = await integrations.admin.operator.streams(whose.id)
  if (whose.stream === undefined && all.length > 1)
    throw new Refused(
      'usage',
      `--watch shows one run: give --stream, too, one of ${all.map((each) => each.stream).join(', ')}.`,
      'stream',
    )
  const newest = await newestRun(integrations, whose)
  const started = await start(context, whose.id, whose)
  if (!json) warn(await textOf(context, whose.id, started))
  // A run that is joined may be the newest one.
  const run = await watchSync(context, whose, { after: started.kind === 'started' ? (newest?.id ?? null) : null })
  return {
    document: { ...startedOf(whose, started), run },
    text: run === null ? 'No run was opened: the log of the worker says why.' : endText(run),
    hasFailed: run !== null && run.status !== 'success',
  }
}

const answerOf = ({ id, stream }: Whose) => ({ integration_id: id, stream: stream ?? null })

interface OutcomeDocument extends Omit<z.infer<typeof Outcome>, 'run_id' | 'at'> {
  readonly streams?: readonly OutcomeDocument[]
}

function startDocument({ kind: outcome, stream, streams, ...rest }: SyncStart): OutcomeDocument {
  const each = streams === undefined ? {} : { streams: streams.map(startDocument) }
  // What all came to is of no one stream.
  return { outcome, stream: streams === undefined ? (stream ?? null) : null, ...columns(rest), ...each }
}

function startedOf(whose: Whose, start: SyncStart) {
  const { streams } = start
  const each = streams ?? [start]
  return {
    ...answerOf(whose),
    outcome: start.kind,
    started: each.filter(({ kind }) => kind === 'started').length,
    already_running: each.some(({ kind }) => kind === 'remembered'),
    ...(streams === undefined ? {} : { streams: streams.map(startDocument) }),
  }
}

async function textOf(context: CommandContext, id: number, { kind, stream, streams }: SyncStart): Promise<string> {
  if (streams !== undefined) {
    const each = streams.map(async (one) => `${one.stream}: ${await textOf(context, id, one)}`)
    return (await Promise.all(each)).join('\n')
  }
  if (kind === 'started') return 'Started 1'
  // With --json the outcome is all there is to say.
  if (!context.json && (await isPaused(context, { id, stream })))
    return `Paused: \`integrations resume-sync ${id}${streamOption(stream)}\` goes on; this run follows.`
  return 'Already running: will run again after the one that runs'
}

/** False also where no worker answers: the run's workflow lives, and what it does is not known. */
async function isPaused({ integrations }: CommandContext, { id, stream }: Whose): Promise<boolean> {
  try {
    return (await integrations.syncs.progress(id, { stream }))?.isPaused === true
  } catch (error) {
    if (isUnanswered(error)) return false
    throw error
  }
}

async function start(context: CommandContext, id: number, ask: StartSync): Promise<SyncStart> {
  return notedStreams(context, { id, stream: ask.stream }, 'sync', (onEach) =>
    context.integrations.syncs.start(id, { ...ask, onEach }),
  )
}

async function dryRunOf(context: CommandContext, whose: Whose, limit = DEFAULT_SAMPLE): Promise<Said> {
  const document = await sample(context, whose, limit, (error, causes) =>
    // Of a worker that stops, too: what the listing throws then is no failure of the provider.
    context.signal.aborted ? new Interrupted() : listingFailure(error, causes),
  )
  if (document.more) context.warn(`There are more than ${limit}; --limit shows more, 100 at most.`)
  const rows = document.items.map((item) => [item.external_id, item.event_class, item.checkpoint_value, item.bytes])
  return {
    document,
    text: rows.length === 0 ? 'Nothing would be listed.' : table(['External ID', 'Event', 'Checkpoint', 'Bytes'], rows),
  }
}

/** @param failure what is said of a listing that failed, by its causes: null before it began */
async function sample(
  { integrations, signal }: CommandContext,
  { id, stream }: Whose,
  limit = DEFAULT_SAMPLE,
  failure: (error: unknown, causes: string | null) => unknown,
) {
  let causes: string | null = null
  const onListingFailed = (told: string): void => {
    causes = told
  }
  const options = { stream, limit, signal, onListingFailed }
  const { items, ...rest } = await integrations.syncs.sample(id, options).catch((error) => {
    throw failure(error, causes)
  })
  return { items: items.map(columns), ...columns(rest) }
}

/**
 * A caller over HTTP gets only the kind of a provider's failure: the log has it, redacted. A listing may lose the host's own
 * Postgres: that is a fault of the listing, like any other.
 */
function withoutCauses(error: unknown, causes: string | null): unknown {
  if (isKnownError(error) || (causes === null && lostDatabase(error) !== null)) return error
  const { name } = error instanceof Error ? error : new Error(String(error))
  return new Refused('listing_failed', `The provider's listing failed with ${name}; the log says why.`)
}

async function startBackfill(
  { integrations, note }: CommandContext,
  { id, stream }: Whose,
  from: Date,
  to: Date,
): Promise<boolean> {
  const window = { from: from.toISOString(), to: to.toISOString() }
  const asked = { integrationId: id, stream, ...window }
  const isStarted = (await integrations.syncs.backfill(asked)) === 'started'
  if (isStarted) await note(id, `backfill ${window.from} to ${window.to}${streamOption(stream)}`)
  return isStarted
}

async function backfill(context: CommandContext, whose: Whose, from: Date, to: Date): Promise<Said> {
  const isStarted = await startBackfill(context, whose, from, to)
  if (!isStarted)
    return { document: { ...answerOf(whose), started: 0, already_running: true }, text: 'Already running' }
  const runs = backfillRuns(from, to)
  const what = runs === 1 ? 'It is one run' : `It makes ${runs} runs, one for each day`
  return {
    document: { ...answerOf(whose), started: 1, already_running: false, runs },
    text: `Started 1\n${what}: \`integrations list-sync-runs --integration ${whose.id}${streamOption(whose.stream)}\` shows ${runs === 1 ? 'it' : 'them'}.`,
  }
}
