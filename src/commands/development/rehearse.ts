import { differences, withoutColumns } from '../../rehearsal/difference-rules.ts'
import type { Difference, Piece, Recording } from '../../rehearsal/rehearsal-jobs.ts'
import { Interrupted } from '../cli/failure.ts'
import { table } from '../cli/table.ts'
import type { CommandContext } from '../command.ts'
import { columns, command } from '../command.ts'
import type { Field } from '../fields.ts'
import { id, many, optional, past, text, whole, withDefault } from '../fields.ts'
import { Refused } from '../refused.ts'

const MAX_PIECES = 100_000
const DEFAULT_PIECES = 1_000
/** Of the differences that a person is shown; `--json` has all. */
const MAX_SHOWN = 50
const MAX_SHOWN_LENGTH = 400

const column: Field<string> = text(
  'a column whose values are not compared, such as public.orders.token',
  'table.column',
)

export const rehearse = command({
  name: 'rehearse',
  topic: 'Development',
  summary:
    'Handles again, with the code that is here, what was handled, in a copy of the database and without a network.',
  examples: [
    'integrations rehearse --since 24h --database postgres://localhost/copy',
    'integrations rehearse --since 24h --database postgres://localhost/copy --baseline ../released/integrations.config.ts',
    'integrations rehearse --since 2031-06-01T12:00:00Z --database postgres://localhost/copy --integration 7 --json',
  ],
  workflow: { none: 'it runs code that no worker has yet' },
  needs: 'host',
  stopsItself: true,
  fields: {
    since: past('what was handled then or later'),
    database: text('a scratch copy of the database; the configured one is refused', 'url', 4_096),
    baseline: optional(text('the module of the old code: both are played, and compared', 'path', 4_096)),
    integration: optional(id('only of this integration')),
    limit: withDefault(whole('webhooks and items at most, the oldest first', { max: MAX_PIECES }), DEFAULT_PIECES),
    ignore: optional(many(column)),
  },
  async run(context, { since, database, baseline, integration, limit, ignore = [] }) {
    const input = { since: since.toISOString(), limit, integrationId: integration }
    const playing = { database, input }
    const before =
      baseline === undefined ? null : await played(context, { ...playing, config: baseline, name: 'the old code' })
    const now = await played(context, { ...playing, config: undefined, name: 'the code that is here' })
    if (now.more) context.warn(`There is more than --limit ${limit}: the oldest were taken.`)
    const [pieces, old] = [now.pieces, before?.pieces ?? null].map((some) => some && withoutColumns(some, ignore))
    const found = differences(pieces as readonly Piece[], old as readonly Piece[] | null)
    return { since, comparedWith: before === null ? 'history' : 'baseline', now, found }
  },
  document: ({ since, comparedWith, now: { pieces, more }, found }) => ({
    since,
    compared_with: comparedWith,
    ...counts(pieces, found),
    more,
    differences: found.map(columns),
    cannot_rehearse: pieces
      .filter(({ cannot }) => cannot.length > 0)
      .map(({ kind, id: of, integrationId, cannot }) => ({
        kind,
        id: of,
        integration_id: integrationId,
        reasons: cannot,
      })),
  }),
  show: ({ comparedWith, now: { pieces }, found }) => report(pieces, found, comparedWith),
  // Where nothing could be rehearsed, it must not look like no difference.
  hasFailed: ({ now: { pieces }, found }) => found.length > 0 || (pieces.length > 0 && pieces.every(isUnrehearsed)),
})

interface Asked {
  readonly database: string
  readonly config: string | undefined
  readonly input: Parameters<Integrations['play']>[0]
  readonly name: string
}

async function played(context: CommandContext, asked: Asked): Promise<Recording> {
  try {
    return await playedInScratch(context, asked)
  } catch (error) {
    // Its process, or its copy, was ended on purpose.
    throw context.signal.aborted ? new Interrupted() : error
  }
}

async function playedInScratch(
  { integrations, playHost, signal, progress }: CommandContext,
  { database, config, input, name }: Asked,
): Promise<Recording> {
  if (playHost === undefined) throw new Refused('usage', 'A rehearsal is played on the command line only.')
  const scratch = await integrations.admin.rehearsal.open(database, signal)
  try {
    return await playHost({
      config,
      databaseUrl: scratch.url,
      input,
      signal,
      onProgress: (done, all) => progress(`${name}: ${done} of ${all}`),
    })
  } finally {
    await scratch.drop()
  }
}

type Integrations = CommandContext['integrations']['admin']['rehearsal']

const isUnrehearsed = ({ cannot }: Piece): boolean => cannot.length > 0

function counts(pieces: readonly Piece[], found: readonly Difference[]) {
  const different = new Set(found.map(({ kind, id: of }) => `${kind}:${of}`)).size
  const cannot = pieces.filter(isUnrehearsed).length
  return { handled: pieces.length, rehearsed: pieces.length - cannot, different }
}

function report(pieces: readonly Piece[], found: readonly Difference[], comparedWith: string): string {
  const { handled, rehearsed, different } = counts(pieces, found)
  const shown = found.slice(0, MAX_SHOWN)
  const reasons = new Map<string, number>()
  for (const { cannot } of pieces) for (const reason of cannot) reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
  return [
    `${handled} handled, ${rehearsed} rehearsed, ${different} differ from ${comparedWith === 'history' ? 'what happened' : 'the old code'}.`,
    ...(shown.length === 0
      ? []
      : [
          '',
          table(
            ['Kind', 'ID', 'Integration', 'What', 'Difference'],
            shown.map(({ kind, id: of, integrationId, what, message }) => [kind, of, integrationId, what, message]),
          ),
          '',
          ...shown.flatMap(detail),
        ]),
    ...(found.length > shown.length ? [`… and ${found.length - shown.length} more: --json has all.`] : []),
    ...(reasons.size === 0
      ? []
      : [
          '',
          "Can't rehearse:",
          table(
            ['Count', 'Reason'],
            [...reasons].toSorted(([, a], [, b]) => b - a).map(([reason, count]) => [count, reason]),
          ),
        ]),
  ].join('\n')
}

const detail = ({ kind, id: of, before, after }: Difference): string[] => [
  `${kind} ${of}`,
  ...(before === null ? [] : [`  - ${short(before)}`]),
  ...(after === null ? [] : [`  + ${short(after)}`]),
]

function short(value: unknown): string {
  const text = JSON.stringify(value)
  return text.length <= MAX_SHOWN_LENGTH ? text : `${text.slice(0, MAX_SHOWN_LENGTH)} …`
}
