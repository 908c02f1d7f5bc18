/** `npm start` reads the log lines of API and worker by their fields, as docs/behaviour/logs.md lists them. */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
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
})
