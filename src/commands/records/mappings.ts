import { columns } from '../command.ts'
import { optional, period, text, whose } from '../fields.ts'
import { listing } from '../listing.ts'
import { MappingRow } from '../shapes.ts'

export const mappings = listing({
  name: 'mappings',
  topic: 'Records',
  summary: 'Lists which rows of the host the external ids stand for, by either side, or shows one.',
  examples: [
    'integrations mappings --external-id issue-17',
    'integrations mappings --internal-type issue --internal-id 42 --json',
    'integrations mappings 4711',
  ],
  fields: {
    ...whose,
    externalId: optional(text('only of this external id', 'text', 500)),
    internalType: optional(text('only of this model of the host', 'model')),
    internalId: optional(text('with --internal-type: only of the row of this key')),
    ...period('made'),
  },
  path: '/mappings',
  row: MappingRow,
  shows: {
    ID: 'id',
    Integration: 'integration_id',
    'External ID': 'external_id',
    Model: 'internal_type',
    Row: 'internal_id',
    Made: 'created_at',
  },
  none: 'No mappings.',
  list: ({ integrations }, filter) => integrations.admin.mappings.list(filter),
  one: {
    kind: 'mapping',
    summary: 'Shows one mapping.',
    output: MappingRow,
    version: ['internal_type', 'internal_id'],
    get: async ({ integrations }, of) => columns(await integrations.admin.mappings.get(of)),
  },
})
