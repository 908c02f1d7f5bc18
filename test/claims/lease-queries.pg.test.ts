/** What an inbox promises to those who store rows, as the database keeps it. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { endPromise, promiseToLook, readPromise } from '../../src/claims/lease-queries.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'

let database: TestDatabase
let test: TestIntegrations
let inboxes = 0

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url)
})
afterAll(async () => {
  await test.close()
  await database.drop()
})

/** An inbox of its own. */
function inboxOf(prefix = 'a') {
  inboxes += 1
  const name = { prefix, inbox: `inbox-${inboxes}` }
  const { db, tables } = test.framework
  return {
    promise: (ms: number, by = 'pump:a:1:1') => promiseToLook(db, tables, name, by, ms),
    end: (by = 'pump:a:1:1') => endPromise(db, tables, name, by),
    read: () => readPromise(db, tables, name),
    passes: () =>
      test.sql`update integration_cache set expires_at = clock_timestamp() - interval '1 s' where key = ${`${prefix}:${name.inbox}`}`,
    name,
  }
}

describe('a promise', () => {
  it('is none before the first', async () => {
    expect(await inboxOf().read()).toBeNull()
  })

  it('counts for as long as it says', async () => {
    const inbox = inboxOf()
    await inbox.promise(60_000)
    const promised = await inbox.read()
    expect(promised?.hasEnded).toBe(false)
    expect(promised?.remainingMs).toBeGreaterThan(50_000)
    // A stored moment is rounded to the nearest millisecond.
    expect(promised?.remainingMs).toBeLessThanOrEqual(60_000.5)
  })

  it('is of one inbox of one deployment', async () => {
    const inbox = inboxOf()
    await inbox.promise(60_000)
    const { db, tables } = test.framework
    expect(await readPromise(db, tables, { ...inbox.name, prefix: 'b' })).toBeNull()
  })

  it('for later counts, and one for sooner takes nothing away', async () => {
    const inbox = inboxOf()
    await inbox.promise(60_000)
    await inbox.promise(1_000, 'pump:b:1:1')
    expect((await inbox.read())?.remainingMs).toBeGreaterThan(50_000)
    await inbox.promise(120_000, 'pump:b:1:1')
    expect((await inbox.read())?.remainingMs).toBeGreaterThan(110_000)
  })

  it('that is over and was not kept says so: its pump has died', async () => {
    const inbox = inboxOf()
    await inbox.promise(60_000)
    await inbox.passes()
    expect(await inbox.read()).toEqual({ remainingMs: expect.any(Number), hasEnded: false, by: 'pump:a:1:1' })
    expect((await inbox.read())?.remainingMs).toBeLessThanOrEqual(0)
  })

  it('has ended once it was kept, and lives again with the next one', async () => {
    const inbox = inboxOf()
    await inbox.promise(60_000)
    await inbox.end()
    expect((await inbox.read())?.hasEnded).toBe(false)
    await inbox.passes()
    await inbox.end()
    expect((await inbox.read())?.hasEnded).toBe(true)
    await inbox.promise(60_000)
    expect((await inbox.read())?.hasEnded).toBe(false)
  })

  it('is kept by the pump that made the last one alone: the look of another may have come before its end', async () => {
    const inbox = inboxOf()
    await inbox.promise(60_000)
    await inbox.promise(1_000, 'pump:b:1:1')
    await inbox.passes()
    await inbox.end('pump:b:1:1')
    expect((await inbox.read())?.hasEnded).toBe(false)
    await inbox.end()
    expect((await inbox.read())?.hasEnded).toBe(true)
  })
})
