import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { linesOf, logLines } from './log-lines.ts'

const PAGE = readFileSync(new URL('../../docs/behaviour/logs.md', import.meta.url), 'utf8')
const LINES = logLines()
/** Names of one thing that lines used to have, or might. */
const OTHER_NAMES = [
  'integration_id',
  'integrationId',
  'run',
  'sync_log_id',
  'syncLogId',
  'item',
  'item_id',
  'itemId',
  'webhook_id',
  'webhookId',
]

/** Events of the page's table: its rows begin with a name in code, and the level beside it. */
function documented(): Map<string, string> {
  const rows = PAGE.matchAll(/^\| `([^`]+)` \| (\w+(?:, \w+)*) \|/gm)
  return new Map([...rows].map(([, event = '', level = '']) => [event, level]))
}

/** Where an event is put together, the source says which it may be. */
const TOGETHER: Record<string, readonly string[]> = {
  '`webhook.${outcome.status}`': ['webhook.processed', 'webhook.failed'],
  '`webhook.reconcile_${ending.status}`': [
    'webhook.reconcile_success',
    'webhook.reconcile_partial',
    'webhook.reconcile_failed',
  ],
  // The listened event itself.
  name: [],
}

describe('the log lines of the sources', () => {
  it('are found', () => {
    expect(LINES.length).toBeGreaterThan(100)
    const source = `logger.warn({ integration: 1 }, 'x'); this.#logger.info({ ...about, event: 'a.b' }, 'x'); const about = { webhook: 3 }`
    expect(linesOf('x.ts', source)).toEqual([
      { at: 'src/x.ts:1', level: 'warn', event: null, fields: ['integration'] },
      { at: 'src/x.ts:1', level: 'info', event: 'a.b', fields: ['webhook'] },
    ])
  })

  it('each say what came about, by a name', () => {
    expect(LINES.filter(({ event }) => event === null).map(({ at }) => at)).toEqual([])
    const named = LINES.map(({ event }) => event ?? '').filter((event) => TOGETHER[event] === undefined)
    expect(named.filter((event) => !/^[a-z_]+\.[a-z_]+$/.test(event))).toEqual([])
  })

  it('call what they are about by one name', () => {
    expect(LINES.filter(({ fields }) => fields.some((field) => OTHER_NAMES.includes(field)))).toEqual([])
  })

  it('stand on the page, with their level, and nothing else does', () => {
    const levels = new Map<string, Set<string>>()
    for (const { event, level } of LINES)
      for (const name of TOGETHER[event ?? ''] ?? [event ?? ''])
        levels.set(name, (levels.get(name) ?? new Set()).add(level))
    for (const [name, level] of Object.entries({
      'webhook.processed': 'info',
      'webhook.failed': 'warn',
      'webhook.reconcile_success': 'info',
      'webhook.reconcile_partial': 'warn',
      'webhook.reconcile_failed': 'warn',
    }))
      levels.set(name, new Set([level]))
    const written = [...levels].map(([event, found]) => `${event}: ${[...found].sort().join(', ')}`)
    expect([...documented()].map(([event, level]) => `${event}: ${level}`).sort()).toEqual(written.sort())
  })
})
