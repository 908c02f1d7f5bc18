import { z } from 'zod'
import type { CommandContext } from '../command.ts'
import { columns } from '../command.ts'
import { choice, flag, optional, period, text, whose } from '../fields.ts'
import { listing } from '../listing.ts'
import { all, anything, LogRow } from '../shapes.ts'

type Tree = Awaited<ReturnType<CommandContext['integrations']['admin']['logs']['tree']>>
type Node = Tree['parts'][number]

const Log = LogRow.extend({
  ...all(anything, 'metadata', 'result_data'),
  parts: z.array(z.unknown()),
  is_cut: z.boolean(),
  shown: z.int(),
})

export const logs = listing({
  name: 'logs',
  topic: 'Records',
  workflow: { none: 'a record holds the result of its operation, which must not be copied into a workflow history' },
  summary: 'Lists operations, the newest first, or shows one with its parts.',
  examples: [
    'integrations logs --integration 7 --operation sync',
    'integrations logs --status failed --since 2031-06-01T12:00:00Z --json',
    'integrations logs 4711',
  ],
  fields: {
    ...whose,
    operation: optional(text('only of this operation')),
    status: optional(text('only of this status')),
    direction: optional(choice('only of this direction', ['inbound', 'outbound'])),
    externalId: optional(text('only about this external id')),
    parts: flag('parts of other operations, too'),
    ...period('begun'),
  },
  path: '/logs',
  row: LogRow,
  shows: {
    ID: 'id',
    Integration: 'integration_id',
    Operation: 'operation',
    Status: 'status',
    Parts: 'has_parts',
    Summary: 'summary',
    Error: 'error',
    Begun: 'created_at',
  },
  none: 'No operations.',
  list: ({ integrations }, filter) => integrations.admin.logs.list(filter),
  one: {
    kind: 'log',
    summary: 'Shows an operation with its parts, and theirs, as a tree.',
    output: Log,
    async get({ integrations, limits }, of) {
      const { parts, ...tree } = await integrations.admin.logs.tree(of, limits)
      return { ...columns(tree), parts: parts.map(branch) }
    },
    show: (document) => lines(document as Branch, '').join('\n'),
  },
})

export interface Branch extends z.infer<typeof LogRow> {
  readonly parts: readonly Branch[]
  readonly is_cut: boolean
}

const branch = ({ parts, ...node }: Node): object => ({ ...columns(node), parts: parts.map(branch) })

function lines({ id, operation, status, summary, error, parts, is_cut }: Branch, indent: string): string[] {
  const said = [operation, status, summary, error].filter((each) => each !== null && each !== undefined)
  return [
    `${indent}${id}  ${said.join('  ')}`,
    ...parts.flatMap((part) => lines(part, `${indent}  `)),
    ...(is_cut ? [`${indent}  … \`integrations logs ${id}\` shows more`] : []),
  ]
}
