/**
 * Random lives of a stream that lists in full from time to time, beside the provider's own ledger: records are created, changed,
 * deleted and restored, also while a listing goes on; listings break off and go on from their bookmark; workflows die between steps.
 *
 * What must hold:
 * - no false deletion: an id that was there all through one of the two listings is never told as missing
 * - none missed: a mapped id that was gone all through two clean full listings in a row is told after the second
 * - a listener hears of a record only if it is new, has changed, has come back, or failed before; and is told which of them
 * - after two quiet full listings the host has exactly what the provider has
 */
import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { expect } from 'vitest'
import { syncItemActivities } from '../../src/activities/item-activities.ts'
import { syncActivities } from '../../src/activities/sync-activities.ts'
import { claimOf } from '../../src/claims/rules.ts'
import type { HasStreams } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { SyncSession } from '../../src/providers/sync-session.ts'
import { currentSyncItem } from '../../src/providers/sync-session.ts'
import { createTestDatabase } from '../support/database.ts'
import { testIntegrations } from '../support/integrations.ts'
import { ThingSynced } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'

const IDS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'] as const
const PAGE = 3
/** Changes within this many ticks before the cursor are listed again. */
const OVERLAP = 30

interface Edit {
  readonly do: 'create' | 'change' | 'delete' | 'restore' | 'touch'
  readonly id: string
}

/** One run. */
interface Chapter {
  readonly edits: readonly Edit[]
  readonly full: boolean
  /** By the number of the page in the run, from 0. */
  readonly duringPage: readonly (readonly Edit[])[]
  /** Pages behind which a try breaks off, each once. */
  readonly breaks: readonly number[]
  readonly fails: readonly string[]
  readonly dies:
    | 'not'
    | 'before listing'
    | 'in the listing'
    | 'before the items'
    | 'before the end'
    | 'before the missing'
  readonly confirms: boolean
}

/** Its mappings are what counts; no row of it is read. */
const MODEL = Object.fromEntries(
  ['of', 'find', 'findMany', 'create', 'update', 'scan'].map((name) => [name, () => null]),
)

const edit = (): fc.Arbitrary<Edit> =>
  fc.record({
    do: fc.constantFrom('create', 'change', 'delete', 'delete', 'restore', 'touch'),
    id: fc.constantFrom(...IDS),
  })
const edits = (most: number) => fc.array(edit(), { maxLength: most })

const chapter: fc.Arbitrary<Chapter> = fc.record({
  edits: edits(4),
  full: fc.constantFrom(true, true, false),
  duringPage: fc.array(edits(1), { maxLength: 4 }),
  breaks: fc.uniqueArray(fc.nat(3), { maxLength: 2 }),
  fails: fc.oneof(
    { weight: 4, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.subarray([...IDS], { maxLength: 2 }) },
  ),
  dies: fc.constantFrom(
    ...([
      'not',
      'not',
      'not',
      'not',
      'not',
      'not',
      'before listing',
      'in the listing',
      'before the items',
      'before the end',
      'before the missing',
    ] as const),
  ),
  confirms: fc.boolean(),
})

/** Runs so many scripts. @returns how many pairs of listings were compared, ids told, and comparisons confirmed by a person */
export async function runDeletionScripts(scripts: number): Promise<typeof counted> {
  const database = await createTestDatabase()
  const lives = new Map<number, Life>()
  const lifeOf = ({ id }: Integration) => lives.get(id) as Life
  const provider: HasStreams = {
    defaultRateLimit: () => null,
    streams: {
      things: {
        sync: (integration, session) => lifeOf(integration).list(session, null),
        syncIncremental: (integration, session) => lifeOf(integration).list(session, session.cursor() as number | null),
        reduceCheckpoints: (checkpoints) => Math.max(...checkpoints.map(Number)),
        listsByCheckpoint: true,
        events: [ThingSynced],
        skipUnchanged: true,
        fullEvery: 3_600,
        model: 'thing',
        handleMissing: (integration, ids) => lifeOf(integration).told(ids),
      },
    },
  }
  const test = testIntegrations(database.url, {
    providers: { acme: provider },
    models: { thing: { ...MODEL, type: 'thing' } as never },
    config: { sync: { item_tries: 1 } },
  })
  test.integrations.on(ThingSynced, (event) => lifeOf(event.integration).heard(event))
  try {
    await fc.assert(
      fc.asyncProperty(fc.array(chapter, { minLength: 5, maxLength: 9, size: 'max' }), async (chapters) => {
        const life = new Life(test, await makeIntegration(test, 'acme'))
        lives.set(life.integration.id, life)
        for (const each of chapters) await life.live(each)
        await life.comeToRest()
      }),
      { numRuns: scripts, endOnFailure: true, examples: [[BACK_IN_BETWEEN]] },
    )
    return counted
  } finally {
    await test.close()
    await database.drop()
  }
}

interface Window {
  readonly syncLogId: number
  readonly from: number
  until: number
  readonly isFull: boolean
}

interface FullWindow extends Window {
  readonly isClean: boolean
}

/** So that a test can see that the scripts have come to what they are about. */
const counted = { compared: 0, told: 0, confirmed: 0 }

const PEACE: Chapter = { edits: [], full: true, duringPage: [], breaks: [], fails: [], dies: 'not', confirms: true }

/** Gone in two full listings; back only in between, for a run that lists changes and names it unchanged. */
const BACK_IN_BETWEEN: Chapter[] = [
  PEACE,
  { ...PEACE, edits: [{ do: 'delete', id: 'c' }] },
  { ...PEACE, full: false, edits: [{ do: 'restore', id: 'c' }] },
  { ...PEACE, edits: [{ do: 'delete', id: 'c' }] },
]

class Life {
  readonly integration: Integration
  readonly #test: ReturnType<typeof testIntegrations>
  #now = 0
  /** The provider's ledger: what is there, and since when each record was there or not. */
  readonly #records = new Map<string, { n: number; updatedAt: number }>()
  readonly #gone = new Map<string, { n: number; updatedAt: number }>()
  readonly #history = new Map<string, { at: number; isThere: boolean }[]>()
  /** What the host has. */
  readonly #host = new Map<string, { n: number; isSure: boolean; isGone: boolean }>()
  readonly #mappedAt = new Map<string, number>()
  #chapter = PEACE
  #page = 0
  #broken = new Set<number>()
  #told: string[] = []
  /** What a listener should not have been told. */
  readonly #wrong: object[] = []
  #windows: Window[] = []
  /** The last full listing that was complete. */
  #before: FullWindow | null = null

  constructor(test: ReturnType<typeof testIntegrations>, integration: Integration) {
    this.#test = test
    this.integration = integration
    for (const id of IDS.slice(0, 8)) this.#edit({ do: 'create', id })
  }

  #edit({ do: what, id }: Edit): void {
    this.#now += 1
    const record = this.#records.get(id)
    const gone = this.#gone.get(id)
    if (what === 'create' && record === undefined) this.#put(id, { n: this.#now, updatedAt: this.#now })
    if (what === 'restore' && record === undefined && gone !== undefined) this.#put(id, gone)
    if (what === 'change' && record !== undefined) this.#records.set(id, { n: this.#now, updatedAt: this.#now })
    if (what === 'touch' && record !== undefined) this.#records.set(id, { ...record, updatedAt: this.#now })
    if (what === 'delete' && record !== undefined) {
      this.#gone.set(id, record)
      this.#records.delete(id)
      this.#note(id, false)
    }
  }

  #put(id: string, record: { n: number; updatedAt: number }): void {
    this.#records.set(id, record)
    this.#note(id, true)
  }

  #note(id: string, isThere: boolean): void {
    const history = this.#history.get(id) ?? []
    history.push({ at: this.#now, isThere })
    this.#history.set(id, history)
  }

  /** Whether the record was there, or was not, all through a time. */
  #wasAllThrough(id: string, isThere: boolean, { from, until }: Window): boolean {
    const history = this.#history.get(id) ?? []
    const atFirst = history.filter(({ at }) => at <= from).at(-1)?.isThere ?? false
    const within = history.filter(({ at }) => at > from && at <= until)
    return [atFirst, ...within.map((change) => change.isThere)].every((was) => was === isThere)
  }

  /** Lists in the order of the ids, a page at a time. */
  async list(session: SyncSession, cursor: number | null): Promise<void> {
    const from = cursor === null ? 0 : cursor - OVERLAP
    for (let after = session.resumeFrom() as string | null; ; ) {
      const page = [...this.#records]
        .filter(([id, { updatedAt }]) => (after === null || id > after) && updatedAt >= from)
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .slice(0, PAGE)
      for (const [id, { n, updatedAt }] of page)
        await session.dispatch(new ThingSynced(session.integration, { n }), updatedAt, id)
      const at = this.#page
      this.#page += 1
      for (const each of this.#chapter.duringPage[at] ?? []) this.#edit(each)
      // Before or after the bookmark of its page.
      if (at % 2 === 0 && this.#breaks(at)) throw new Error('the listing breaks off')
      if (page.length < PAGE) return
      after = page.at(-1)?.[0] ?? null
      await session.bookmark(after)
      if (this.#breaks(at)) throw new Error('the listing breaks off')
    }
  }

  #breaks(page: number): boolean {
    if (!this.#chapter.breaks.includes(page) || this.#broken.has(page)) return false
    this.#broken.add(page)
    return true
  }

  async heard({ payload: { n }, change, previousHash, integration }: ThingSynced): Promise<void> {
    const id = currentSyncItem()?.externalId as string
    const had = this.#host.get(id)
    const expected = had === undefined ? 'added' : had.isGone ? 'reappeared' : 'updated'
    // Thrown here, it would be a failed item.
    if (change !== expected || (previousHash === null) !== (had === undefined))
      this.#wrong.push({ id, change, expected, previousHash })
    if (had?.isSure === true && !had.isGone && n === had.n) this.#wrong.push({ id, change, n, was: 'unchanged' })
    if (had !== undefined) had.isSure = false
    if (this.#chapter.fails.includes(id)) throw new Error('it fails')
    await integration.mapExternalId(id, { type: 'thing', id })
    if (!this.#mappedAt.has(id)) this.#mappedAt.set(id, this.#now)
    this.#host.set(id, { n, isSure: true, isGone: false })
  }

  /** The host deletes what it is told, with its mapping. */
  async told(ids: readonly string[]): Promise<void> {
    this.#told.push(...ids)
    for (const id of ids) {
      const had = this.#host.get(id)
      if (had !== undefined) had.isGone = true
      this.#mappedAt.delete(id)
      await this.#test.sql`
        delete from integration_mappings where integration_id = ${this.integration.id} and external_id = ${id}`
    }
  }

  async live(chapter: Chapter): Promise<void> {
    this.#chapter = chapter
    this.#page = 0
    this.#broken = new Set()
    for (const each of chapter.edits) this.#edit(each)
    const { sql, framework } = this.#test
    const at = chapter.full ? null : new Date()
    await sql`
      update integration_streams set last_full_at = ${at}, full_begun_at = ${at} where integration_id = ${this.integration.id}`
    const surroundings = () => ({ cancellationSignal: new AbortController().signal, info: { attempt: 1 } })
    const runs = syncActivities(framework, surroundings as never)
    const items = syncItemActivities(framework, surroundings as never)

    const runId = randomUUID()
    const opened = await runs.openSyncRun({ integrationId: this.integration.id, stream: 'things', runId })
    if (opened.kind !== 'open' && opened.kind !== 'adopted') throw new Error(`the run did not open: ${opened.kind}`)
    const run = { integrationId: this.integration.id, syncLogId: opened.syncLogId }
    if (opened.kind === 'open') {
      const isFull = (await this.#metadata(run.syncLogId)).full === true
      const window: Window = { syncLogId: run.syncLogId, from: this.#now, until: Number.POSITIVE_INFINITY, isFull }
      this.#windows.push(window)
      if (chapter.dies === 'before listing' || !(await this.#listed(runs, run))) return
      window.until = this.#now
    } else await runs.takeOverSyncRun(run)
    if (chapter.dies === 'before the items') return
    for (let batch = 1, claimed = 10; claimed === 10; batch += 1)
      claimed = (
        await items.processSyncItems({
          syncLogId: run.syncLogId,
          claim: claimOf(runId, batch),
          take: { kind: 'pending', limit: 10 },
        })
      ).claimed
    expect(this.#wrong).toEqual([])
    if (chapter.dies === 'before the end') return
    const end = await runs.finaliseSyncRun(run)
    if (end.kind !== 'finalised') throw new Error(`the run did not end: ${end.kind}`)
    const window = this.#windows.find(({ syncLogId }) => syncLogId === run.syncLogId) as Window
    expect(end.fullListing).toBe(window.isFull && end.failed === 0)
    if (!window.isFull) return
    const before = this.#before
    this.#before = { ...window, isClean: end.fullListing }
    if (!end.fullListing || chapter.dies === 'before the missing') return
    this.#told = []
    await runs.handleMissingItems(run)
    await this.#compare(before, window)
  }

  /** @returns false: the workflow has died */
  async #listed(runs: ReturnType<typeof syncActivities>, run: { integrationId: number; syncLogId: number }) {
    for (let attempt = 1; ; attempt += 1)
      try {
        await runs.listSyncItems({ ...run, attempt })
        return true
      } catch (error) {
        if (!(error as Error).message.includes('the listing breaks off')) throw error
        if (this.#chapter.dies === 'in the listing') return false
      }
  }

  async #compare(before: FullWindow | null, window: Window): Promise<void> {
    const isWithheld = (await this.#metadata(window.syncLogId)).missing_withheld !== undefined
    const isConfirmed = isWithheld && this.#chapter.confirms
    if (isWithheld) expect(this.#told).toEqual([])
    if (isConfirmed) await this.#test.integrations.syncs.confirmMissing(window.syncLogId)
    const told = { run: window.syncLogId, told: this.#told }
    if (before?.isClean !== true) {
      expect(told).toEqual({ ...told, told: [] })
      return
    }
    const wrong = this.#told.filter(
      (id) => this.#wasAllThrough(id, true, before) || this.#wasAllThrough(id, true, window),
    )
    expect({ ...told, wrong }).toEqual({ ...told, wrong: [] })
    counted.told += this.#told.length
    if (isWithheld && !isConfirmed) return
    // A confirmation leaves out what any run has named since.
    const both = isConfirmed ? [{ ...before, until: window.until }] : [before, window]
    const missed = [...this.#mappedAt].filter(
      ([id, at]) => at <= before.from && both.every((each) => this.#wasAllThrough(id, false, each)),
    )
    expect({ ...told, missed }).toEqual({ ...told, missed: [] })
    counted.compared += 1
    if (isConfirmed) counted.confirmed += 1
  }

  async #metadata(syncLogId: number): Promise<Record<string, unknown>> {
    const [row] = await this.#test.sql<{ metadata: Record<string, unknown> }[]>`
      select metadata from integration_logs where id = ${syncLogId}`
    return row?.metadata ?? {}
  }

  async comeToRest(): Promise<void> {
    // What a dead workflow left behind is settled first; then two full listings in a row.
    for (let runs = 0; runs < 4; runs += 1) await this.live(PEACE)
    const alive = [...this.#host].filter(([, { isGone }]) => !isGone).map(([id, { n }]) => [id, n])
    expect(alive.sort()).toEqual([...this.#records].map(([id, { n }]) => [id, n]).sort())
  }
}
