import { z } from 'zod'
import { columns } from '../command.ts'
import { id, optional, owner, past, provider, text } from '../fields.ts'
import { listing } from '../listing.ts'
import { all, moment, rowId } from '../shapes.ts'

const Integration = z
  .object({
    id: rowId,
    ...all(z.string().nullable(), 'name', 'provider', 'owner_type'),
    owner_id: rowId.nullable(),
  })
  .describe('As it was at the time; it may have been deleted since')

export const audit = listing({
  name: 'audit',
  topic: 'Access',
  summary: 'Lists what people have done, over all integrations, the newest first.',
  examples: ['integrations audit --by operator', 'integrations audit --integration 7 --action delete --json'],
  fields: {
    by: optional(text('only of this actor: a token, or cli:USER', 'who')),
    action: optional(text('only this action', 'action')),
    target: optional(text('only on this record, such as webhook:4711', 'record')),
    integration: optional(id('only of this integration, also of a deleted one')),
    provider: optional(provider('only of this provider')),
    owner: optional(owner('only of this owner')),
    since: optional(past('only what was done then or later')),
    until: optional(past('only what was done before')),
  },
  path: '/audit',
  outlivesIntegrations: true,
  row: z.object({
    id: rowId,
    at: moment,
    ...all(z.string(), 'by', 'action', 'target'),
    ...all(z.string().nullable(), 'from', 'detail'),
    integration: Integration.nullable(),
  }),
  shows: { ID: 'id', At: 'at', By: 'by', Action: 'action', Target: 'target', From: 'from', Detail: 'detail' },
  none: 'Nothing was done.',
  list: ({ integrations }, filter) => integrations.admin.audit.list(filter),
  toRow: ({ integration, ...entry }) => ({
    ...columns(entry),
    integration: integration === null ? null : columns(integration),
  }),
})
