/** One external id, written by real processes at the same moment, one of which is killed. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { ManagedProcess } from '../../dev/processes.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { installedScript } from '../support/installed-script.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { sharePostgres } from '../support/postgres-setup.ts'
import { makeIntegration } from '../support/rows.ts'
import type { TalkingProcess } from '../support/talking-process.ts'
import { startTalkingProcess } from '../support/talking-process.ts'
import type { Said } from './mappings-process.ts'
import { CREATE_NOTES, note, WRITES_A_PROCESS } from './mappings-process.ts'

const SCRIPT = installedScript(new URL('mappings-process.ts', import.meta.url))
const PROCESSES = 4
const ENCRYPTION_KEY = encryptionKey('k1')
const LOCK_TTL_SECONDS = 3

let postgres: Awaited<ReturnType<typeof sharePostgres>>
let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let writers: TalkingProcess<Said>[]
const processes: ManagedProcess[] = []

beforeAll(async () => {
  postgres = await sharePostgres()
  database = await createTestDatabase({ adminUrl: postgres.url })
  test = testIntegrations(database.url, {
    encryptionKeys: ENCRYPTION_KEY,
    providers: { plain: {} },
    models: { note },
  })
  await test.sql.unsafe(CREATE_NOTES)
  integration = await makeIntegration(test, 'plain')
  writers = await Promise.all(
    Array.from({ length: PROCESSES }, async () => {
      const writer = await start('write', String(integration.id))
      await writer.next('ready')
      return writer
    }),
  )
})
afterAll(async () => {
  await Promise.all(processes.splice(0).map((child) => child.stop()))
  await test?.close()
  await database?.drop()
  await postgres?.release()
})

async function start(...args: string[]): Promise<TalkingProcess<Said>> {
  const started = await startTalkingProcess<Said>(SCRIPT, args, {
    DATABASE_URL: database.url,
    INTEGRATIONS_ENCRYPTION_KEYS: ENCRYPTION_KEY,
    INTEGRATIONS__MAPPINGS__LOCK_TTL: String(LOCK_TTL_SECONDS),
    // So that no writer's patience is what is tested, however slow the machine.
    INTEGRATIONS__MAPPINGS__LOCK_WAIT: '120',
  })
  processes.push(started.process)
  return started
}

/** All writers at once. @returns a promise of the keys of the rows that they were given */
function writeAtOnce(externalId: string): Promise<number[]> {
  const wrote = writers.map((writer) => writer.next('wrote'))
  for (const { process: child } of writers) child.child.send(externalId)
  return Promise.all(wrote).then((said) => said.flatMap(({ ids }) => ids))
}

interface Note {
  readonly id: number
  readonly made_at: Date
}
const rows = async () => [...(await test.sql<Note[]>`select id::int, made_at from notes`)]
const mappingsOf = async (externalId: string) => [
  ...(await test.sql<{ internal_id: string }[]>`
    select internal_id from integration_mappings where external_id = ${externalId}`),
]

it('32 concurrent writes in four processes make one model and one mapping', async () => {
  const ids = await writeAtOnce('raced')
  expect(ids).toHaveLength(PROCESSES * WRITES_A_PROCESS)
  const [made, ...others] = await rows()
  expect(others).toEqual([])
  expect(new Set(ids)).toEqual(new Set([made?.id]))
  expect(await mappingsOf('raced')).toEqual([{ internal_id: String(made?.id) }])
})

it('when the holder of the lock is killed, the others go on once mappings.lock_ttl is over', async () => {
  await test.sql`truncate notes`
  const holder = await start('stand', String(integration.id), 'held')
  await holder.next('standing')
  const [lock] = await test.sql<{ expires_at: Date }[]>`
    select expires_at from integration_cache where key like '%:lock:mapping:note:%' order by expires_at desc`
  const wrote = writeAtOnce('held')
  holder.process.child.kill('SIGKILL')
  expect(await holder.process.exited).toEqual({ code: null, signal: 'SIGKILL' })

  const ids = await wrote
  const [made, ...others] = await rows()
  expect(others).toEqual([])
  expect(new Set(ids)).toEqual(new Set([made?.id]))
  expect(await mappingsOf('held')).toEqual([{ internal_id: String(made?.id) }])
  // Nobody took the lock away from a holder that might have lived.
  expect(lock?.expires_at).toBeInstanceOf(Date)
  expect(Number(made?.made_at)).toBeGreaterThanOrEqual(Number(lock?.expires_at))
})
