/** Whether a process starts with the keys that wrote the database. */
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'

const [first, second, firstWithOtherBytes] = [encryptionKey('k1'), encryptionKey('k2'), encryptionKey('k1')]

let database: TestDatabase
beforeEach(async () => {
  database = await createTestDatabase()
})
afterEach(() => database.drop())

/** Starts a process with these keys; null, or the error's code and key ids. */
async function start(keys: string[], { writes = false } = {}) {
  const test = testIntegrations(database.url, { encryptionKeys: keys, providers: { plain: {} } })
  try {
    await test.integrations.ready()
    if (writes) await makeIntegration(test, 'plain')
    return null
  } catch (error) {
    const { code, wrongKids, missingKids, message } = error as Record<string, unknown>
    return { code, wrongKids, missingKids, message }
  } finally {
    await test.close()
  }
}

it('the same keys start again and again', async () => {
  expect(await start([first], { writes: true })).toBeNull()
  expect(await start([first])).toBeNull()
})

it('other bytes under the same id do not, even before the first integration', async () => {
  await start([first])
  const refused = await start([firstWithOtherBytes])
  expect(refused).toMatchObject({ code: 'encryption_key_mismatch', wrongKids: ['k1'], missingKids: [] })
  expect(refused?.message).not.toContain(firstWithOtherBytes.slice(3, 20))
})

it('a ring that lacks a key that rows were written with does not: it is named', async () => {
  await start([first], { writes: true })
  expect(await start([second])).toMatchObject({ code: 'encryption_key_mismatch', wrongKids: [], missingKids: ['k1'] })
})

it('a new first key beside the old one starts', async () => {
  await start([first], { writes: true })
  expect(await start([second, first], { writes: true })).toBeNull()
  expect(await start([first])).toMatchObject({ missingKids: ['k2'] })
})

it('a key that never wrote anything may go', async () => {
  await start([first, second], { writes: true })
  expect(await start([first])).toBeNull()
})
