import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { CONFIG_KEYS, defaultHandlerTimeout, environmentName } from '../../src/config/schema.ts'

interface TableRow {
  key: string
  type: string
  defaultValue: unknown
}

/** Rows of `| `key` | type | default | meaning |`. */
function limitsTable(): TableRow[] {
  const table = readFileSync(new URL('./limits-table.md', import.meta.url), 'utf8')
  return [...table.matchAll(/^\| `([\w.]+)` +\| (\S+) +\| (.+?) +\| .*\|$/gm)].map(
    ([, key = '', type = '', shown = '']) => ({
      key,
      type,
      defaultValue: JSON.parse(shown.replaceAll('`', '"')),
    }),
  )
}

/** Keys that we have beyond the table, with their defaults. */
const ADDED: [key: string, type: string, defaultValue: unknown][] = [
  ['webhook.concurrency', 'int', 10],
  ['webhook.handler_timeout', 'int', 300],
  ['webhook.generic_route', 'bool', true],
  ['webhook.replay_window', 'int', 300],
  ['webhook.timestamp_tolerance', 'int', 300],
  ['webhook.secret_overlap', 'int', 86400],
  ['webhook.subscribe', 'bool', false],
  ['webhook.subscription_check', 'int', 3600],
  ['sync.item_concurrency', 'int', 10],
  ['sync.item_timeout', 'int', 300],
  ['observability.echo_loop_writes', 'int', 5],
  ['observability.echo_loop_window', 'int', 60],
  ['pruning.webhooks_days', '?int', null],
  ['pruning.webhook_payloads_days', '?int', null],
  ['pruning.audit_days', '?int', 365],
  ['pruning.rollups_days', 'int', 90],
  ['schedules.enabled', 'bool', true],
  ['notifications.targets', 'array', []],
  ['operator.prefix', 'string', 'operator'],
  ['operator.tokens', 'array', []],
  ['operator.oidc', '?object', null],
  ['operator.temporal_ui', '?string', null],
  ['operator.trace_url', '?string', null],
  ['metrics.open', 'bool', false],
  ['metrics.path', '?string', '/metrics'],
  ['metrics.port', '?int', null],
  ['metrics.by_integration', 'bool', false],
  ['worker.activity_slots', 'int', 100],
  ['worker.local_activity_slots', 'int', 100],
  ['worker.workflow_task_slots', 'int', 40],
  ['worker.activity_pollers', 'int', 10],
  ['worker.workflow_task_pollers', 'int', 10],
  ['worker.cached_workflows', '?int', null],
  ['worker.shutdown_grace', 'int', 10],
  ['worker.release', '?string', null],
  ['worker.command_environment', 'array', []],
]

describe('the registry of configuration keys', () => {
  it('reads all 62 rows of the reference table', () => {
    expect(limitsTable()).toHaveLength(62)
  })

  it('has those of the table and the added ones, with their types and defaults, and no other', () => {
    // The table writes an empty map as an empty list.
    const ofTable = limitsTable().map(({ key, type, defaultValue }) => [
      key,
      [type, key === 'sync.queues' ? {} : defaultValue],
    ])
    const added = ADDED.map(([key, type, defaultValue]) => [key, [type, defaultValue]])
    const keys = [...CONFIG_KEYS].map(([name, key]) => [name, [key.type, key.default]])
    expect(Object.fromEntries(keys)).toEqual(Object.fromEntries([...ofTable, ...added]))
  })

  it('has a default that it allows, and a meaning, for each key', () => {
    for (const [name, key] of CONFIG_KEYS) {
      expect(key.schema.safeParse(key.default).success, name).toBe(true)
      expect([key.meaning, key.allowed], name).not.toContain('')
    }
  })

  it.each([
    ['table_prefix', 'INTEGRATIONS__TABLE_PREFIX'],
    ['webhook.max_attempts', 'INTEGRATIONS__WEBHOOK__MAX_ATTEMPTS'],
    ['rate_limiting.max_wait_seconds', 'INTEGRATIONS__RATE_LIMITING__MAX_WAIT_SECONDS'],
  ])('names the variable of %s %s', (key, variable) => {
    expect(environmentName(key)).toBe(variable)
  })

  it('gives every key a variable of its own', () => {
    expect(new Set([...CONFIG_KEYS.keys()].map(environmentName)).size).toBe(CONFIG_KEYS.size)
  })
})

describe('the default of webhook.handler_timeout', () => {
  it.each([
    [60, 30],
    [61, 30],
    [599, 299],
    [600, 300],
    [1800, 300],
    [86400, 300],
  ])('with a processing timeout of %d s is %d s', (processingTimeout, expected) => {
    expect(defaultHandlerTimeout(processingTimeout)).toBe(expected)
  })
})
