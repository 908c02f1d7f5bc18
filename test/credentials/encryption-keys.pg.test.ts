/** Whether a process starts with the keys that wrote the database, and which key wrote what. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { runCommand } from '../commands/cli/run.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { makeIntegration, setIntegration } from '../support/rows.ts'

const [first, second, third] = [encryptionKey('k1'), encryptionKey('k2'), encryptionKey('k3')]
const [firstWithOtherBytes, secondWithOtherBytes] = [encryptionKey('k1'), encryptionKey('k2')]

let database: TestDatabase
beforeEach(async () => {
  database = await createTestDatabase()
})
afterEach(() => database.drop())

/** What a process with these keys does. */
async function withKeys<T>(keys: string[], work: (test: TestIntegrations) => Promise<T>): Promise<T> {
  const test = testIntegrations(database.url, { encryptionKeys: keys, providers: { plain: {} } })
  try {
    return await work(test)
  } finally {
    await test.close()
  }
}

/** Starts a process with these keys; null, or the error's code and key ids. */
function start(keys: string[], { writes = false } = {}) {
  return withKeys(keys, async (test) => {
    try {
      await test.integrations.ready()
    } catch (error) {
      const { code, wrongKids, missingKids, message } = error as Record<string, unknown>
      return { code, wrongKids, missingKids, message }
    }
    if (writes) await makeIntegration(test, 'plain')
    return null
  })
}

describe('a start', () => {
  it('happens with the same keys again and again', async () => {
    expect(await start([first], { writes: true })).toBeNull()
    expect(await start([first])).toBeNull()
  })

  it('is refused with other bytes under the same id, even before the first integration', async () => {
    await start([first])
    const refused = await start([firstWithOtherBytes])
    expect(refused).toMatchObject({ code: 'encryption_key_mismatch', wrongKids: ['k1'], missingKids: [] })
    expect(refused?.message).not.toContain(firstWithOtherBytes.slice(3, 20))
  })

  it('is refused with other bytes under the id of a key that was removed long ago', async () => {
    await start([first])
    await start([second, first])
    await start([second])
    expect(await start([second, firstWithOtherBytes])).toMatchObject({ wrongKids: ['k1'], missingKids: [] })
    expect(await start([firstWithOtherBytes, second])).toMatchObject({ wrongKids: ['k1'], missingKids: [] })
  })

  it('goes by the rows where a key has no canary: written without a start, or the cache was emptied', async () => {
    await withKeys([first], (test) => makeIntegration(test, 'plain'))
    expect(await start([firstWithOtherBytes])).toMatchObject({ wrongKids: ['k1'] })
    expect(await start([second, firstWithOtherBytes])).toMatchObject({ wrongKids: ['k1'] })
    expect(await start([first])).toBeNull()
  })

  it('does not take a good key for a wrong one because of one damaged row', async () => {
    await withKeys([first], async (test) => {
      const [damaged, whole] = [await makeIntegration(test, 'plain'), await makeIntegration(test, 'plain')]
      // Another row's text does not open.
      const [row] = await test.sql`select credentials from integrations where id = ${whole.id}`
      await setIntegration(test, damaged.id, { credentials: row?.credentials })
    })
    expect(await start([first])).toBeNull()
  })

  it('that is refused leaves no canary of its wrong key', async () => {
    await start([first], { writes: true })
    expect(await start([secondWithOtherBytes])).toMatchObject({ wrongKids: [], missingKids: ['k1'] })
    expect(await start([second, first])).toBeNull()
    expect(await start([secondWithOtherBytes, first])).toMatchObject({ wrongKids: ['k2'] })
  })

  it('of two at once with other bytes under the id of a new key happens once', async () => {
    const outcomes = await Promise.all([start([first]), start([firstWithOtherBytes])])
    expect(outcomes.filter((outcome) => outcome === null)).toHaveLength(1)
    expect(outcomes.find((outcome) => outcome !== null)).toMatchObject({ wrongKids: ['k1'] })
  })

  it('is refused with a ring that lacks a key that rows were written with: it is named', async () => {
    await start([first], { writes: true })
    expect(await start([second])).toMatchObject({ code: 'encryption_key_mismatch', wrongKids: [], missingKids: ['k1'] })
  })

  it('happens with a new first key beside the old one', async () => {
    await start([first], { writes: true })
    expect(await start([second, first], { writes: true })).toBeNull()
    expect(await start([first])).toMatchObject({ missingKids: ['k2'] })
  })

  it('happens without a key that never wrote anything', async () => {
    await start([first, second], { writes: true })
    expect(await start([first])).toBeNull()
  })

  it('happens beside rows whose text is no envelope: those alone are unreadable', async () => {
    const texts = ['', 'plain text', '{"token":"a"}', 'v1.', 'v1.k9', 'v1.k9.short.text.here']
    await withKeys([first], async (test) => {
      const whole = await makeIntegration(test, 'plain')
      for (const credentials of texts)
        await setIntegration(test, (await makeIntegration(test, 'plain')).id, { credentials })
      await test.integrations.ready()
      for await (const integration of test.integrations.list())
        if (integration.id !== whole.id)
          expect(() => integration.credentialsArray()).toThrow(
            `credentials of integration ${integration.id} can't be read`,
          )
      expect((await test.integrations.admin.keys.status()).keys).toEqual([
        { kid: 'k1', rows: 1, inRing: true, removable: false, isNew: false },
        { kid: '(unreadable)', rows: texts.length, inRing: false, removable: false, isNew: false },
      ])
    })
  })
})

describe('the status of the keys', () => {
  it('counts rows by key, in the order of the ring', async () => {
    await start([first], { writes: true })
    await start([second, first], { writes: true })
    await start([second, first], { writes: true })
    await withKeys([third, second, first], async (test) => {
      expect(await test.integrations.admin.keys.status()).toEqual({
        primary: 'k3',
        keys: [
          { kid: 'k3', rows: 0, inRing: true, removable: false, isNew: false },
          { kid: 'k2', rows: 2, inRing: true, removable: false, isNew: false },
          { kid: 'k1', rows: 1, inRing: true, removable: false, isNew: false },
        ],
      })
    })
  })

  it('says which key may go: it does not write, and no row needs it', async () => {
    await withKeys([second, first], async (test) => {
      await makeIntegration(test, 'plain')
      expect((await test.integrations.admin.keys.status()).keys).toEqual([
        { kid: 'k2', rows: 1, inRing: true, removable: false, isNew: false },
        { kid: 'k1', rows: 0, inRing: true, removable: true, isNew: false },
      ])
    })
  })

  it('says of a key that was just added that it is new: no row needs it, either', async () => {
    await start([first], { writes: true })
    await start([first, second])
    await withKeys([first, second], async (test) => {
      const { keys } = await test.integrations.admin.keys.status()
      expect(keys[1]).toEqual({ kid: 'k2', rows: 0, inRing: true, removable: true, isNew: true })
      const { out } = await runCommand(test.integrations, ['keys', 'status'])
      expect(out).toMatch(/k2 .* yes \(not in use yet\)/)
      const document = (await runCommand(test.integrations, ['keys', 'status', '--json'])).json()
      expect(document).toMatchObject({ keys: [{ kid: 'k1' }, { kid: 'k2', rows: 0, in_ring: true, removable: true }] })
    })
    // Once it writes, the other one goes, when no row needs it any more.
    await start([second, first])
    await withKeys([second, first], async (test) => {
      await test.integrations.admin.keys.rotate()
      const { keys } = await test.integrations.admin.keys.status()
      expect(keys[1]).toMatchObject({ kid: 'k1', rows: 0, removable: true, isNew: false })
    })
  })

  it('lets a key go that no process has started with, once its rows have moved', async () => {
    await withKeys([first], (test) => makeIntegration(test, 'plain'))
    await withKeys([second, first], async (test) => {
      await test.integrations.ready()
      const rotation = await test.integrations.admin.keys.rotate()
      expect(rotation).toMatchObject({ reencrypted: 1, failed: 0 })
      expect(rotation.keys[1]).toMatchObject({ kid: 'k1', rows: 0, removable: true })
    })
  })

  it('lists a key that rows need and the ring lacks', async () => {
    await start([first], { writes: true })
    await withKeys([second], async (test) => {
      expect((await test.integrations.admin.keys.status()).keys).toEqual([
        { kid: 'k2', rows: 0, inRing: true, removable: false, isNew: false },
        { kid: 'k1', rows: 1, inRing: false, removable: false, isNew: false },
      ])
    })
  })
})
