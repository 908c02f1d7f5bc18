/**
 * A server that lists by id and changes while it is listed, and the provider that `make-provider` writes: after runs
 * enough the host's table is what the server has.
 */
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { integer, pgTable, text } from 'drizzle-orm/pg-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { mappedTable } from '../../../src/mappings/mapped-table.ts'
import type { HasIncrementalSync } from '../../../src/providers/contracts.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { SyncItemEvent } from '../../../src/providers/provider-events.ts'
import type { TestIntegrations } from '../../../src/testing/index.ts'
import { createTestIntegrations } from '../../../src/testing/index.ts'
import type { HttpServer } from '../../support/http-server.ts'
import { startHttpServer } from '../../support/http-server.ts'
import { writeProvider } from '../cli/written-providers.ts'

const PACKAGE = fileURLToPath(new URL('../../../', import.meta.url))
const PAGE_SIZE = 4
const ITEMS = 20
const CHANGING_RUNS = 6
const RUN_EVERY_SECONDS = 900

const notes = pgTable('notes', { id: integer().primaryKey().generatedAlwaysAsIdentity(), name: text().notNull() })
const model = mappedTable(notes, { type: 'note' })

interface Note {
  readonly id: string
  name: string
  updated_at: string
}

/** The API of the file that is written, as it is where it is least kind: it lists by id, and its `updated_since` is exclusive. */
class ChangingNotes {
  readonly notes: Note[] = []
  /** Before each answer. */
  change: (after: string) => void = () => {}
  readonly #sendsDate: boolean
  #now: number
  #edits = 0

  /** @param now its clock, which nobody has set right. A second passes with each request */
  constructor(now: number, { sendsDate }: { readonly sendsDate: boolean }) {
    this.#now = now
    this.#sendsDate = sendsDate
    for (let n = 1; n <= ITEMS; n += 1) this.add(String(n * 10).padStart(4, '0'))
    this.wait(60)
  }

  wait(seconds: number): void {
    this.#now += seconds * 1_000
  }

  add(id: string): void {
    this.notes.push({ id, name: 'new', updated_at: this.#at() })
    this.notes.sort((a, b) => (a.id < b.id ? -1 : 1))
  }

  edit(note: Note): void {
    this.#edits += 1
    Object.assign(note, { name: `edited ${this.#edits}`, updated_at: this.#at() })
  }

  answer(server: HttpServer): HttpServer['answer'] {
    return ({ url = '' }, response) => {
      const { searchParams: query } = new URL(url, server.url)
      this.#now += 1_000
      const after = query.get('after') ?? ''
      const since = query.get('updated_since') ?? ''
      const rest = this.notes.filter(({ id, updated_at }) => id > after && updated_at > since)
      const items = rest.slice(0, PAGE_SIZE).map((note) => ({ ...note }))
      const next = rest.length > PAGE_SIZE ? items.at(-1)?.id : null
      response.sendDate = false
      if (this.#sendsDate) response.setHeader('Date', new Date(this.#now).toUTCString())
      response.setHeader('Content-Type', 'application/json').end(JSON.stringify({ items, next }))
      this.change(items.at(-1)?.id ?? '')
    }
  }

  /** In whole seconds, as `Date`. */
  #at(): string {
    return new Date(this.#now).toISOString().replace('.000Z', 'Z')
  }
}

let folder: string
let server: HttpServer
let provider: { AcmeProvider: new (api: string) => HasIncrementalSync; AcmeItemSynced: typeof SyncItemEvent<Note> }

beforeAll(async () => {
  server = await startHttpServer()
  await mkdir(join(PACKAGE, '.data'), { recursive: true })
  folder = await mkdtemp(join(PACKAGE, '.data', 'changing-list-'))
  const path = join(folder, await writeProvider(folder, ['sync']), 'acme.ts')
  provider = await import(pathToFileURL(path).href)
})
afterAll(async () => {
  await server.close()
  await rm(folder, { recursive: true, force: true })
})

async function host(): Promise<{ kit: TestIntegrations; integration: Integration }> {
  const kit = await createTestIntegrations({
    now: '2026-03-01T12:00:00Z',
    allowRequests: true,
    egress: { allow: ['127.0.0.1'] },
    providers: { acme: new provider.AcmeProvider(server.url) },
    models: { note: model },
  })
  await kit.sql`create table notes (id int primary key generated always as identity, name text not null)`
  kit.integrations.on(provider.AcmeItemSynced as never, async (event: SyncItemEvent<Note>) => {
    await event.integration.upsertByExternalId(event.payload.id, model, { name: event.payload.name })
  })
  const credentials = { token: 'a-token-of-the-api' }
  return { kit, integration: await kit.integrations.create({ provider: 'acme', name: 'Acme', credentials }) }
}

it.each([
  ['whose clock is ten minutes behind ours', '2026-03-01T11:50:00Z', { sendsDate: true }],
  ['whose clock is a day ahead of ours', '2026-03-02T12:00:00Z', { sendsDate: true }],
  ['that sends no Date, a minute behind ours', '2026-03-01T11:59:00Z', { sendsDate: false }],
])('loses nothing of a list by id that changes while it is listed, by a server %s', async (_, now, sends) => {
  const api = new ChangingNotes(Date.parse(now), sends)
  server.answer = api.answer(server)
  const { kit, integration } = await host()
  let random = 7
  const oneOf = (some: readonly Note[]): Note | undefined => {
    random = (random * 48_271) % 2_147_483_647
    return some[random % some.length]
  }
  api.change = (after) => {
    // One that was listed already, and then one that is listed next, whose time is the greater.
    for (const changed of [
      oneOf(api.notes.filter(({ id }) => id <= after)),
      oneOf(api.notes.filter(({ id }) => id > after)),
    ])
      if (changed !== undefined) api.edit(changed)
    api.add(`${after}${random % 1_000}`)
  }
  for (let run = 0; run < CHANGING_RUNS; run += 1) {
    await kit.sync(integration)
    kit.clock.advance(RUN_EVERY_SECONDS)
    api.wait(RUN_EVERY_SECONDS)
  }
  api.change = () => {}
  await kit.sync(await integration.refresh())
  const rows = await kit.sql<{ id: string; name: string }[]>`
    select m.external_id as id, n.name from notes n join integration_mappings m on m.internal_id = n.id::text order by 1`
  expect([...rows]).toEqual(api.notes.map(({ id, name }) => ({ id, name })))
  await kit.close()
})
