/** find-orphans over a million rows: what it costs, and that it holds no more of them than a chunk. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { bigint, pgTable, timestamp } from 'drizzle-orm/pg-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { mappedTable } from '../../src/mappings/mapped-table.ts'
import { runCommand } from '../commands/cli/run.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'

const ROWS = 1_000_000
/** Every so many there is a row that nothing maps. */
const ORPHAN_EVERY = 1_000
const INTEGRATIONS = 3
const LOOK_EVERY_ROWS = 50_000
const MAX_GROWTH_BYTES = 10 * 2 ** 20

const notes = pgTable('notes', {
  id: bigint('id', { mode: 'number' }).primaryKey(),
  createdAt: timestamp('created_at', { withTimezone: true }).notNull(),
})
const note = mappedTable(notes, { type: 'note' })

let database: TestDatabase
let test: TestIntegrations
const integrationIds: number[] = []
/** No mock: it would keep every row that it gave. */
let scan = note.scan

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: { plain: {} },
    models: { note: { ...note, scan: (...given) => scan(...given) } },
  })
  for (let n = 0; n < INTEGRATIONS; n++) integrationIds.push((await makeIntegration(test, 'plain')).id)
  const [first = 0] = integrationIds
  await test.sql`create table notes (id bigint primary key, created_at timestamptz not null)`
  await test.sql`insert into notes select n, clock_timestamp() from generate_series(1, ${ROWS}::int) n`
  // The integrations' ids follow each other.
  await test.sql`insert into integration_mappings (integration_id, external_id, internal_type, internal_id)
    select ${first}::bigint + n % ${INTEGRATIONS}::int, 'x' || n, 'note', n::text
    from generate_series(1, ${ROWS}::int) n where n % ${ORPHAN_EVERY}::int <> 0`
  // As autovacuum would, a little later.
  await test.sql`vacuum analyze notes`
  await test.sql`vacuum analyze integration_mappings`
})
afterAll(async () => {
  await test.close()
  await database.drop()
})

/** The heap after a collection of garbage. */
function heapBytes(): number {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  collectGarbage()
  return process.memoryUsage().heapUsed
}

it.each([
  ['all integrations', () => [], ROWS / ORPHAN_EVERY],
  [
    'one of three',
    () => ['--integration', String(integrationIds[0])],
    // Its own is every third row, but for the orphans among them.
    ROWS - Math.floor(ROWS / INTEGRATIONS) + Math.floor(ROWS / ORPHAN_EVERY / INTEGRATIONS),
  ],
])(
  'counts the orphans of a million rows for %s, in flat memory and with its progress shown',
  async (name, words, orphans) => {
    const heap: number[] = []
    let scanned = 0
    scan = async (...given) => {
      const rows = await note.scan(...given)
      if (scanned % LOOK_EVERY_ROWS === 0) heap.push(heapBytes())
      scanned += rows.length
      return rows
    }
    const began = performance.now()
    const ran = await runCommand(test.integrations, ['find-orphans', 'note', '--json', ...words()], { answers: {} })
    const seconds = (performance.now() - began) / 1_000
    const shown = [...ran.err.matchAll(/(\d+) rows, \d+ without a mapping/g)].map(([, rows]) => Number(rows))
    const growth = (Math.max(...heap.slice(1)) - (heap[0] ?? 0)) / 2 ** 20
    console.log(
      `${name}: ${seconds.toFixed(1)} s, heap at most ${growth.toFixed(1)} MiB more, ${shown.length} times shown`,
    )

    expect(ran.exitCode).toBe(0)
    expect(ran.json()).toMatchObject({ model: 'note', scanned: ROWS, orphans })
    expect((ran.json() as { rows: unknown[] }).rows).toHaveLength(50)
    expect(heap.length).toBeGreaterThanOrEqual(ROWS / LOOK_EVERY_ROWS)
    expect(growth * 2 ** 20).toBeLessThan(MAX_GROWTH_BYTES)
    expect(shown.length).toBeGreaterThan(5)
    expect(shown).toEqual(shown.toSorted((a, b) => a - b))
    expect(shown.at(-1)).toBeGreaterThan(ROWS / 2)
  },
)
