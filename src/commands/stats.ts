import type { Command } from 'commander'
import { Option } from 'commander'
import type { Integrations } from '../create-integrations.ts'
import type { Frame } from './cli/frame.ts'
import { table } from './cli/table.ts'

const SPANS = ['24h', '7d', '30d'] as const

interface Options {
  readonly provider?: string
  readonly since: (typeof SPANS)[number]
}

/** `integrations stats`: calls, syncs and webhooks of the last hours or days. */
export function statsCommand(frame: Frame): Command {
  return frame
    .command('stats', 'Shows figures over all integrations: calls, syncs and webhooks of the last hours or days.', [
      'integrations stats',
      'integrations stats --provider github --since 7d --json',
    ])
    .option('--provider <key>', 'only of this provider')
    .addOption(new Option('--since <span>', 'how far back').choices(SPANS).default('24h'))
    .action(
      frame.action(async ({ integrations }, options: Options) => {
        const document = columnsOf(await integrations.admin.stats(options))
        return { document, text: table(['Field', 'Value'], Object.entries(document).flatMap(linesOf)) }
      }),
    )
}

/** The operator API has the same names. */
function columnsOf(statistics: Awaited<ReturnType<Integrations['admin']['stats']>>) {
  return {
    since: statistics.since,
    provider: statistics.provider,
    requests: statistics.requests,
    error_rate: statistics.errorRate,
    mean_ms: statistics.meanMs,
    p95_ms: statistics.p95Ms,
    cache_hit_rate: statistics.cacheHitRate,
    syncs: statistics.syncs,
    webhooks: statistics.webhooks,
  }
}

function linesOf([field, value]: [string, unknown]): [string, unknown][] {
  if (typeof value !== 'object' || value === null) return [[field, value]]
  return Object.entries(value).map(([status, count]) => [`${field}.${status}`, count])
}
