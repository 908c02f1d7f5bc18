/**
 * A process of mappings.e2e.test.ts: `write <integration>` writes each external id that it is told of, many times at once;
 * `stand <integration> <external id>` stops in the middle of it. Database and keys come from the environment; it says over
 * IPC what it does.
 */
import { fileURLToPath } from 'node:url'
import { sql } from 'drizzle-orm'
import { bigint, pgTable, text, timestamp } from 'drizzle-orm/pg-core'
import { createIntegrations } from '../../src/create-integrations.ts'
import { mappedTable } from '../../src/mappings/mapped-table.ts'

/** What a process says. */
export type Said =
  | { readonly kind: 'ready' }
  /** The keys of the rows that its writes gave, one for each. */
  | { readonly kind: 'wrote'; readonly ids: readonly number[] }
  /** Its row is made, and not committed. */
  | { readonly kind: 'standing' }
  | { readonly kind: 'failed'; readonly message: string }

export const WRITES_A_PROCESS = 8

export const CREATE_NOTES = `create table notes (
  id bigint primary key generated always as identity, text text not null,
  made_at timestamptz not null default clock_timestamp())`

const notes = pgTable('notes', {
  id: bigint('id', { mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
  text: text('text').notNull(),
  madeAt: timestamp('made_at', { withTimezone: true }).notNull().default(sql`clock_timestamp()`),
})
export const note = mappedTable(notes, { type: 'note', createdAt: 'madeAt' })

const say = (said: Said): void => void process.send?.(said)

async function main([work, id, externalId = '']: readonly string[]): Promise<void> {
  const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
  const integrations = createIntegrations({ providers: { plain: {} }, models: { note }, logger: silent })
  const left = new Promise((resolve) => process.once('disconnect', resolve))
  try {
    await integrations.ready()
    const integration = await integrations.get(Number(id))
    if (work === 'stand')
      await integration.upsertByExternalId(
        externalId,
        {
          ...note,
          create: async (...given: Parameters<typeof note.create>) => {
            await note.create(...given)
            say({ kind: 'standing' })
            return new Promise<never>(() => {})
          },
        },
        { text: 'of the killed' },
      )
    else {
      process.on('message', async (told) => {
        const write = (n: number) => integration.upsertByExternalId(String(told), note, { text: `${process.pid} ${n}` })
        try {
          const rows = await Promise.all(Array.from({ length: WRITES_A_PROCESS }, (_, n) => write(n)))
          say({ kind: 'wrote', ids: rows.map((row) => row.id) })
        } catch (error) {
          say({ kind: 'failed', message: String(error) })
        }
      })
      say({ kind: 'ready' })
      await left
    }
  } catch (error) {
    say({ kind: 'failed', message: String(error) })
    process.exitCode = 1
  } finally {
    await integrations.close()
  }
}

// The test imports what is said.
if (process.argv[1] === fileURLToPath(import.meta.url)) await main(process.argv.slice(2))
