/** Moving rows to the key that writes: what is moved, what is not, and what comes between. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createEncryption, parseKeyRing } from '../../src/encryption.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, listen, testIntegrations } from '../support/integrations.ts'
import { setIntegration } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'

const PAGE = 100
const [older, newer] = [encryptionKey('k1'), encryptionKey('k2')]
const olderAlone = createEncryption(parseKeyRing({ encryptionKeys: [older] }))

let database: TestDatabase
/** A process that writes with the new key. */
let test: TestIntegrations

beforeEach(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { encryptionKeys: [newer, older], providers: { plain: {} } })
})
afterEach(async () => {
  await test.close()
  await database.drop()
})

/** Rows of the old key, each with credentials of its own. @returns their ids, ascending */
async function makeOldRows(count: number): Promise<number[]> {
  const ids = Array.from({ length: count }, (_, index) => index + 1)
  const { db, tables } = test.framework
  const updatedAt = new Date('2020-01-01')
  await db.insert(tables.integrations).values(
    ids.map((id) => {
      const credentials = olderAlone.encrypt(id, { token: `of ${id}` })
      return { id, provider: 'plain', name: 'of a test', credentials, metadata: {}, updatedAt }
    }),
  )
  return ids
}

async function textOf(id: number): Promise<string> {
  const [row] = await test.sql<{ credentials: string }[]>`select credentials from integrations where id = ${id}`
  return row?.credentials ?? ''
}

async function tokenOf(id: number): Promise<unknown> {
  return (await test.integrations.get(id)).credentialsArray().token
}

const rotate = (options?: Parameters<typeof test.integrations.admin.keys.rotate>[0]) =>
  test.integrations.admin.keys.rotate(options)

const OLD_IS_FREE = { kid: 'k1', rows: 0, inRing: true, removable: true, isNew: false }

describe('a rotation', () => {
  it('moves every row to the key that writes, page by page, and frees the old one', async () => {
    const ids = await makeOldRows(2 * PAGE + 5)
    const progress: unknown[] = []
    const result = await rotate({ onProgress: (at) => progress.push(at) })
    expect(result).toEqual({
      primary: 'k2',
      keys: [{ kid: 'k2', rows: 205, inRing: true, removable: false, isNew: false }, OLD_IS_FREE],
      reencrypted: 205,
      failed: 0,
    })
    expect(progress).toEqual([100, 200, 205].map((done) => ({ done, total: 205 })))
    for (const id of [1, PAGE, PAGE + 1, 205]) expect(await tokenOf(id)).toBe(`of ${id}`)
    expect(new Set(await Promise.all(ids.map(textOf))).size).toBe(205)
  })

  it('leaves alone what the key has written already, and is done when run again', async () => {
    await makeOldRows(3)
    await rotate()
    const text = await textOf(2)
    expect(await rotate()).toMatchObject({ reencrypted: 0, failed: 0 })
    expect(await textOf(2)).toBe(text)
  })

  it('tells nobody: no event, and updated_at stays', async () => {
    await makeOldRows(2)
    const told: unknown[] = []
    listen(test, 'CredentialsUpdated', (payload) => told.push(payload))
    await rotate()
    const [row] = await test.sql`select count(*)::int as n from integrations where updated_at = '2020-01-01T00:00:00Z'`
    expect([told, row?.n]).toEqual([[], 2])
  })

  it('as a dry run writes nothing, and counts what would be moved and what would fail', async () => {
    await makeOldRows(3)
    await setIntegration(test, 2, { credentials: 'plain text' })
    const before = await textOf(1)
    expect(await rotate({ dryRun: true })).toMatchObject({
      keys: [
        { kid: 'k2', rows: 0 },
        { kid: 'k1', rows: 2 },
        { kid: '(unreadable)', rows: 1 },
      ],
      reencrypted: 2,
      failed: 1,
    })
    expect(await textOf(1)).toBe(before)
  })

  it('counts and names what can not be read, never its text, and goes on', async () => {
    await makeOldRows(5)
    await setIntegration(test, 2, { credentials: '{"token":"PRIVATE"}' })
    await setIntegration(test, 3, { credentials: await textOf(1) })
    const stranger = createEncryption(parseKeyRing({ encryptionKeys: [encryptionKey('k9')] }))
    await setIntegration(test, 4, { credentials: stranger.encrypt(4, { token: 'PRIVATE' }) })

    expect(await rotate()).toMatchObject({
      keys: [
        { kid: 'k2', rows: 2 },
        { kid: 'k1', rows: 1, removable: false },
        { kid: 'k9', rows: 1, inRing: false },
        { kid: '(unreadable)', rows: 1 },
      ],
      reencrypted: 2,
      failed: 3,
    })
    const lines = test.lines.filter(({ level }) => level !== 'debug')
    expect(lines.map(({ level, fields }) => [level, fields.integration])).toEqual([2, 3, 4].map((id) => ['error', id]))
    expect(JSON.stringify(lines)).not.toMatch(/PRIVATE|v1\.k/)
    expect([await tokenOf(1), await tokenOf(5)]).toEqual(['of 1', 'of 5'])
  })

  it('has nothing to fail at once the unreadable are replaced', async () => {
    await makeOldRows(2)
    await setIntegration(test, 2, { credentials: 'plain text' })
    expect(await rotate()).toMatchObject({ failed: 1 })
    await (await test.integrations.get(2)).updateCredentials({ token: 'new' }, { replace: true })
    expect(await rotate()).toMatchObject({ keys: [{ kid: 'k2', rows: 2 }, OLD_IS_FREE], reencrypted: 0, failed: 0 })
  })

  it('stops between two pages when it is told to, and goes on when run again', async () => {
    await makeOldRows(PAGE + 1)
    const stop = new AbortController()
    const stopped = await rotate({ signal: stop.signal, onProgress: () => stop.abort() })
    expect(stopped).toMatchObject({ reencrypted: PAGE, failed: 0 })
    expect(stopped.keys[1]).toEqual({ kid: 'k1', rows: 1, inRing: true, removable: false, isNew: false })
    expect(await rotate({ signal: AbortSignal.abort() })).toMatchObject({ reencrypted: 0 })
    expect(await rotate()).toMatchObject({ reencrypted: 1, keys: [{ rows: PAGE + 1 }, OLD_IS_FREE] })
    expect(test.lines).toEqual([])
  })
})

describe('what comes between', () => {
  it('a patch under way is waited for, and not undone', async () => {
    await makeOldRows(1)
    const patched = olderAlone.encrypt(1, { token: 'patched meanwhile' })
    let rotation: ReturnType<typeof rotate> | undefined
    // As updateCredentials() does it, in a process that still writes with the old key.
    await test.sql.begin(async (tx) => {
      await tx`select from integrations where id = 1 for update`
      rotation = rotate()
      await untilSomebodyWaits()
      await tx`update integrations set credentials = ${patched} where id = 1`
    })
    expect(await rotation).toMatchObject({ reencrypted: 1, failed: 0, keys: [{ rows: 1 }, OLD_IS_FREE] })
    expect(await tokenOf(1)).toBe('patched meanwhile')
  })

  it('an integration that is deleted is no failure', async () => {
    await makeOldRows(2)
    let rotation: ReturnType<typeof rotate> | undefined
    await test.sql.begin(async (tx) => {
      await tx`delete from integrations where id = 1`
      rotation = rotate()
      await untilSomebodyWaits()
    })
    expect(await rotation).toMatchObject({ reencrypted: 1, failed: 0, keys: [{ rows: 1 }, OLD_IS_FREE] })
  })

  it('two rotations at once move each row', async () => {
    await makeOldRows(PAGE + 20)
    const both = await Promise.all([rotate(), rotate()])
    expect(both.map(({ failed }) => failed)).toEqual([0, 0])
    expect(await test.integrations.admin.keys.status()).toMatchObject({ keys: [{ rows: PAGE + 20 }, OLD_IS_FREE] })
    for (const id of [1, 60, PAGE + 20]) expect(await tokenOf(id)).toBe(`of ${id}`)
  })

  it('a row that another process writes with the old key behind its back is moved in another pass', async () => {
    await makeOldRows(3)
    await test.sql`create table kept as select credentials from integrations where id = 1`
    await onUpdate(
      'after',
      `if new.id = 3 then
      update integrations set credentials = (select credentials from kept) where id = 1;
    end if; return new;`,
    )
    expect(await rotate()).toMatchObject({ reencrypted: 4, failed: 0, keys: [{ rows: 3 }, OLD_IS_FREE] })
    expect(test.lines).toEqual([])
  })

  it('a process that goes on writing with the old key does not keep it going for ever: it says so and ends', async () => {
    await makeOldRows(1)
    await onUpdate('before', 'new.credentials := old.credentials; return new;')
    const result = await rotate()
    expect(result).toMatchObject({ reencrypted: 10, failed: 0 })
    expect(result.keys[1]).toMatchObject({ kid: 'k1', rows: 1, removable: false })
    expect(test.lines).toMatchObject([
      { level: 'warn', message: expect.stringContaining('still writes with another key') },
    ])
  })

  it('a row is given up after five tries, and said to have failed', async () => {
    await makeOldRows(2)
    await test.sql`create sequence tries`
    await onUpdate('before', `if new.id = 1 then perform nextval('tries'); return null; end if; return new;`)
    const result = await rotate()
    expect(result).toMatchObject({ reencrypted: 1, failed: 1 })
    // Two passes: the second finds nothing that it can move.
    expect(await test.sql`select last_value::int as n from tries`).toEqual([{ n: 10 }])
    expect(test.lines).toMatchObject([
      { level: 'error', fields: { integration: 1, reason: 'other writes came between, 5 times in a row' } },
    ])
  })
})

/** Until a statement waits for another's row: here it can only be the rotation's. */
async function untilSomebodyWaits(): Promise<void> {
  for (const deadline = Date.now() + SOON.timeout; Date.now() < deadline; ) {
    const [row] = await test.sql`
      select count(*)::int as n from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and query ilike 'update%'`
    if (row?.n > 0) return
  }
  throw new Error('nobody waited')
}

/** What another process does at the very moment of the rotation's write. */
async function onUpdate(when: 'before' | 'after', body: string): Promise<void> {
  await test.sql.unsafe(`
    create function meanwhile() returns trigger language plpgsql as $$ begin ${body} end $$;
    create trigger meanwhile ${when} update on integrations for each row execute function meanwhile();`)
}
