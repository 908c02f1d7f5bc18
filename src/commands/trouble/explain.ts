import { z } from 'zod'
import { MAX_REFERENCE_LENGTH } from '../../explain/reference-rules.ts'
import { table } from '../cli/table.ts'
import { columns, command } from '../command.ts'
import { text } from '../fields.ts'
import { moment, rowId } from '../shapes.ts'

const Ref = z.object({ kind: z.string(), id: z.union([rowId, z.string()]), integration_id: rowId.nullable() })
const Found = z.object({
  outcome: z.literal('found'),
  ref: Ref,
  reference: z.string().describe('The reference that finds it again.'),
  integration: z.object({ id: rowId, provider: z.string(), name: z.string() }).nullable(),
  exists: z.boolean().describe('False: the row is gone, and only acts on it are known.'),
  status: z.string().nullable(),
  origins: z
    .array(z.object({ how: z.string(), text: z.string(), link: Ref.nullable() }))
    .describe('Where it comes from, and where that comes from, nearest first.'),
  lines: z
    .array(z.object({ at: moment, text: z.string(), by: z.string().nullable(), link: Ref.nullable() }))
    .describe('Oldest first.'),
  caused: z.array(Ref),
  related: z.array(Ref),
  more: z.boolean(),
})
const Ambiguous = z.object({
  outcome: z.literal('ambiguous'),
  matches: z.array(z.object({ ref: Ref, reference: z.string() })),
  more: z.boolean(),
})

const linked = <Line extends { readonly link: object | null }>({ link, ...line }: Line) => ({
  ...line,
  link: link === null ? null : columns(link as NonNullable<Line['link']>),
})

export const explain = command({
  name: 'explain',
  topic: 'Trouble',
  summary: 'Tells the life of any record by any of its ids: where it came from, what it caused, who acted.',
  examples: [
    'integrations explain webhook:4711',
    'integrations explain issue:17 --json',
    'integrations explain 72d3162e-cc78-11e3-81ab-4c9367dc0958',
  ],
  places: ['reference'],
  fields: {
    reference: text(
      'such as webhook:4711, item:12, request:9, run:3, issue:17; or an id of a delivery, of the provider, of a workflow, or a key',
      'reference',
      MAX_REFERENCE_LENGTH,
    ),
  },
  // What the caller may not see is not found.
  reach: 'everyone',
  output: z.union([Found, Ambiguous]),
  routes: [{ method: 'get', path: '/explain' }],
  async run({ integrations, limits }, { reference }) {
    const told = await integrations.admin.explain(reference, { limits })
    if (told.outcome === 'ambiguous')
      return { ...told, matches: told.matches.map((match) => ({ ...match, ref: columns(match.ref) })) }
    const { caused, related, origins, lines, ref, ...rest } = told
    return {
      ...rest,
      ref: columns(ref),
      origins: origins.map(linked),
      lines: lines.map(linked),
      caused: caused.map(columns),
      related: related.map(columns),
    }
  },
  show(told) {
    if (told.outcome === 'ambiguous')
      return ['Several records have it:', ...told.matches.map(({ reference }) => `  ${reference}`)].join('\n')
    const { reference, integration, status, origins, lines, caused, related } = told
    const named = (refs: readonly { kind: string; id: number | string }[]): string =>
      refs.map(({ kind, id }) => `${kind}:${id}`).join(', ')
    return [
      [
        reference,
        status,
        integration === null
          ? null
          : `of integration ${integration.id} ("${integration.name}", ${integration.provider})`,
      ]
        .filter((part) => part !== null)
        .join('  '),
      ...origins.map((origin) => `from ${origin.text}`),
      '',
      table(
        ['When', 'What', 'Who'],
        lines.map((line) => [line.at, line.text, line.by]),
      ),
      ...(caused.length === 0 ? [] : ['', `Caused: ${named(caused)}`]),
      ...(related.length === 0 ? [] : ['', `Beside it: ${named(related)}`]),
    ].join('\n')
  },
})
