import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { LogLine } from './log-lines.ts'
import { linesOf, logLines } from './log-lines.ts'

const PAGE = readFileSync(new URL('../../docs/behaviour/logs.md', import.meta.url), 'utf8')
const LINES = logLines()
/** What is an integration's: a line about it says of which. */
const OWNED = ['webhook', 'sync_log', 'sync_item', 'incident']
/** What the page says of these is held to the sources. */
const WHOSE = ['integration', 'provider']
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

/** The fields of the same rows; an event that two lines tell has two. */
function documentedFields(): Map<string, Set<string>> {
  const fields = new Map<string, Set<string>>()
  for (const [, event = '', named = ''] of PAGE.matchAll(/^\| `([^`]+)` \| \w+(?:, \w+)* \| ([^|]*) \|/gm)) {
    const known = fields.get(event) ?? new Set()
    for (const [, one = ''] of named.matchAll(/`(\w+)`/g)) known.add(one)
    fields.set(event, known)
  }
  return fields
}

/** Where an event is put together, the source says which it may be. */
const TOGETHER: Record<string, readonly string[]> = {
  '`${named.event}.superseded`': ['webhook.superseded', 'event.superseded', 'item.superseded'],
  '`${named.event}.worker_lost`': ['webhook.worker_lost', 'event.worker_lost', 'item.worker_lost'],
  '`webhook.${status}`': ['webhook.processed', 'webhook.failed'],
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
    expect(LINES.filter(({ isOfWorkflow }) => isOfWorkflow).length).toBeGreaterThan(5)
    const source = `logger.warn({ integration: 1 }, 'x'); this.#logger.info({ ...about, event: 'a.b' }, 'x'); const about = { webhook: 3 }`
    expect(linesOf('x.ts', source)).toEqual([
      { at: 'src/x.ts:1', isOfWorkflow: false, level: 'warn', event: null, fields: ['integration'] },
      { at: 'src/x.ts:1', isOfWorkflow: false, level: 'info', event: 'a.b', fields: ['webhook'] },
    ])
    expect(linesOf('workflows/x.ts', `log.info('x', { event: 'a.b', sync_item: 1 }); log.warn('y')`)).toEqual([
      { at: 'src/workflows/x.ts:1', isOfWorkflow: true, level: 'info', event: 'a.b', fields: ['sync_item'] },
      { at: 'src/workflows/x.ts:1', isOfWorkflow: true, level: 'warn', event: null, fields: [] },
    ])
  })

  it('each say what came about, by a name', () => {
    expect(LINES.filter(({ event }) => event === null).map(({ at }) => at)).toEqual([])
    const named = LINES.map(({ event }) => event ?? '').filter((event) => TOGETHER[event] === undefined)
    expect(named.filter((event) => !/^[a-z_]+\.[a-z_]+$/.test(event))).toEqual([])
  })

  it('say whose they are: of what belongs to an integration, its id, and with the id its provider', () => {
    const has = (name: string) => (line: LogLine) => line.fields.includes(name)
    const owned = LINES.filter((line) => OWNED.some((name) => has(name)(line)))
    expect(owned.filter((line) => !has('integration')(line)).map(({ at }) => at)).toEqual([])
    // Of a line of a workflow the worker looks the provider up: src/create-workers.ts, "installTemporalLogger".
    const told = LINES.filter((line) => has('integration')(line) && !line.isOfWorkflow)
    expect(told.length).toBeGreaterThan(60)
    expect(told.filter((line) => !has('provider')(line)).map(({ at }) => at)).toEqual([])
  })

  it('have the fields that the page says', () => {
    const fields = new Map<string, Set<string>>()
    for (const line of LINES)
      for (const name of TOGETHER[line.event ?? ''] ?? [line.event ?? '']) {
        const known = fields.get(name) ?? new Set()
        for (const field of line.fields) known.add(field)
        fields.set(name, known)
      }
    const said = [...documentedFields()].flatMap(([event, row]) => {
      const written = fields.get(event) ?? new Set()
      return WHOSE.filter((field) => written.has(field) !== row.has(field)).map((field) => `${event}: ${field}`)
    })
    // Those of a workflow have it from the worker.
    const ofWorkflows = LINES.filter((line) => line.isOfWorkflow).map(({ event }) => `${event}: provider`)
    expect(said.filter((one) => !ofWorkflows.includes(one))).toEqual([])
  })

  it('call what they are about by one name', () => {
    expect(LINES.filter(({ fields }) => fields.some((field) => OTHER_NAMES.includes(field)))).toEqual([])
  })

  it('have no field for what a provider or a sender wrote, nor for a secret', () => {
    const withheld = ['payload', 'body', 'data', 'headers', 'query', 'credentials', 'secret', 'idempotency_key']
    expect(LINES.filter(({ fields }) => fields.some((field) => withheld.includes(field)))).toEqual([])
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
