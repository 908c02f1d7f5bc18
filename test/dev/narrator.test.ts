/** `npm start` reads the log lines of API and worker by their fields, as docs/behaviour/logs.md lists them. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it, vi } from 'vitest'
import { createNarrator } from '../../dev/narrator.ts'

/** `` | `sync.listed` | info | `integration`, `sync_log`, `items` | … `` */
const ROW = /^\| `([a-z]+\.[a-z_]+)` \| [a-z, ]+ \| ([^|]*) \|/gm
const page = readFileSync(new URL('../../docs/behaviour/logs.md', import.meta.url), 'utf8')
const LINES = [...page.matchAll(ROW)].map(([, event, fields]) => ({
  event: event as string,
  fields: [...(fields as string).matchAll(/`([a-z_]+)`/g)].map(([, field]) => field as string),
}))

/** What is printed for a line that has these fields, each with its own name as the value. */
function told(event: string, fields: readonly string[]): string {
  const printed: string[] = []
  const line = { event, ...Object.fromEntries(fields.map((field) => [field, `<${field}>`])) }
  createNarrator((sentence) => printed.push(sentence)).line('worker', JSON.stringify(line))
  return printed.join('\n')
}

describe('the narrator', () => {
  it('finds in each line what it tells of it', () => {
    expect(LINES.length).toBeGreaterThan(100)
    expect(LINES.filter(({ event, fields }) => told(event, fields).includes('undefined'))).toEqual([])
  })

  it.each([
    ['sync.listed', 'run <sync_log> listed <items> items'],
    ['webhook.stored', '#<webhook> received: <type>'],
    ['item.failed', '#<sync_item> (<external_id>) FAILED: <error>'],
  ])('tells %s', (event, sentence) => {
    const fields = LINES.find((line) => line.event === event)?.fields ?? []
    expect(told(event, fields)).toContain(sentence)
  })

  it('names commands as they are run in this folder', () => {
    const printed: string[] = []
    const msg = 'the next run starts over; `integrations show-sync-run 7` has the log'
    createNarrator((sentence) => printed.push(sentence), 'npm run cli --').line(
      'worker',
      JSON.stringify({ level: 50, msg }),
    )
    expect(printed.join()).toContain('`npm run cli -- show-sync-run 7` has the log')
  })

  it('tells how many deliveries were refused, by which integration, and why', () => {
    const printed: string[] = []
    const line = {
      event: 'webhook.refused',
      provider: 'github',
      integration: 1,
      times: 4,
      reasons: { mismatch: 3, time_off: 1 },
    }
    createNarrator((sentence) => printed.push(sentence)).line('api', JSON.stringify(line))
    expect(printed[0]).toMatch(/ webhook {2}4 REFUSED by integration 1: mismatch, time_off$/)
  })

  const AT_MS = Date.parse('2031-06-01T12:00:00Z')
  it.each([
    [135, 'in 135 ms'],
    [1_134, 'in 135 ms'],
    [1_600, 'after 1.6 s (135 ms)'],
  ])('says of a webhook that was processed %i ms after it came: %s', (afterMs, how) => {
    const printed: string[] = []
    const narrator = createNarrator((sentence) => printed.push(sentence))
    const tell = (line: object) => narrator.line('worker', JSON.stringify({ webhook: 1, ...line }))
    tell({ event: 'webhook.stored', type: 'issues', time: new Date(AT_MS).toISOString() })
    tell({ event: 'webhook.processed', duration_ms: 135, time: new Date(AT_MS + afterMs).toISOString() })
    expect(printed[1]).toMatch(new RegExp(`#1 processed: issues ${how.replaceAll(/[()]/g, '\\$&')}$`))
  })

  it('reads the time as the logger of a process writes it', async () => {
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [
        ...['--conditions=durable-source', '--import', 'tsx', '--input-type=module', '--eval'],
        `import { createIntegrations } from './src/index.ts'
        const { admin } = createIntegrations({ database: 'postgres://127.0.0.1:1/none', encryptionKeys: 'k1:${'A'.repeat(43)}=', providers: {} })
        admin.logger.info({ event: 'webhook.stored', webhook: 1, type: 'issues' }, 'stored')
        setTimeout(() => admin.logger.info({ event: 'webhook.processed', webhook: 1, duration_ms: 5 }, 'processed'), 1_200)`,
      ],
      { cwd: fileURLToPath(new URL('../../', import.meta.url)), env: { PATH: process.env.PATH } },
    )
    const printed: string[] = []
    const narrator = createNarrator((sentence) => printed.push(sentence))
    for (const line of stdout.trim().split('\n')) narrator.line('worker', line)
    expect(printed.at(-1)).toMatch(/#1 processed: issues after 1\.[2-9] s \(5 ms\)$/)
  })

  it('tells of webhooks as docs/trying-it.md shows it', () => {
    const shown = readFileSync(new URL('../../docs/trying-it.md', import.meta.url), 'utf8')
    const lines = [...shown.matchAll(/^ *([\d:]{8}) {2}(webhook {2}#(\d+) (received|processed): (\w+).*)$/gm)]
    const printed: string[] = []
    const narrator = createNarrator((sentence) => printed.push(sentence.slice('12:12:25  '.length)))
    for (const [line, time, , webhook, what, type] of lines)
      narrator.line(
        'worker',
        JSON.stringify({
          event: what === 'received' ? 'webhook.stored' : 'webhook.processed',
          webhook,
          type,
          time: `2031-06-01T${time}.000Z`,
          duration_ms: /(\d+) ms/.exec(line)?.[1],
        }),
      )
    expect(lines).toHaveLength(4)
    expect(printed).toEqual(lines.map(([, , sentence]) => sentence))
  })

  it('tells of many items that lost their worker in one line', () => {
    vi.useFakeTimers()
    try {
      const printed: string[] = []
      const narrator = createNarrator((sentence) => printed.push(sentence))
      for (let item = 1; item <= 520; item += 1)
        narrator.line('worker', JSON.stringify({ event: 'item.worker_lost', level: 40, sync_item: item }))
      expect(printed).toEqual([])
      vi.advanceTimersByTime(1_000)
      expect(printed).toEqual([expect.stringMatching(/item {5}520 lost their worker; taken up again$/)])
    } finally {
      vi.useRealTimers()
    }
  })
})
