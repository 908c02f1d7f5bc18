import { z } from 'zod'
import { table } from '../cli/table.ts'
import { columns, command } from '../command.ts'
import { choice, optional, provider, withDefault } from '../fields.ts'

const SPANS = ['24h', '7d', '30d'] as const
const byStatus = z.record(z.string(), z.int()).describe('By status.')

export const stats = command({
  name: 'stats',
  topic: 'Trouble',
  summary: 'Shows figures over all integrations: calls, syncs and webhooks of the last hours or days.',
  examples: ['integrations stats', 'integrations stats --provider github --since 7d --json'],
  fields: {
    provider: optional(provider('only of this provider')),
    since: withDefault(choice('how far back', SPANS, 'span'), '24h'),
  },
  output: z.object({
    since: z.enum(SPANS),
    provider: z.string().nullable(),
    requests: z.int(),
    error_rate: z.number().nullable().describe('Percent; null without requests, as the next three.'),
    mean_ms: z.int().nullable(),
    p95_ms: z.number().nullable(),
    cache_hit_rate: z.number().nullable().describe('Percent.'),
    syncs: byStatus,
    webhooks: byStatus,
  }),
  routes: [{ method: 'get', path: '/stats' }],
  run: async ({ integrations }, filter) => columns(await integrations.admin.stats(filter)),
  show: (figures) => table(['Field', 'Value'], Object.entries(figures).flatMap(linesOf)),
})

function linesOf([field, value]: [string, unknown]): [string, unknown][] {
  if (typeof value !== 'object' || value === null) return [[field, value]]
  return Object.entries(value).map(([status, count]) => [`${field}.${status}`, count])
}
