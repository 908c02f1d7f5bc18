/** A new key under traffic, in real processes: nothing is unreadable, no patch is lost, and the old key may go. */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import type { ManagedProcess } from '../../dev/processes.ts'
import { startProcess } from '../../dev/processes.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { installedScript } from '../support/installed-script.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { sharePostgres } from '../support/postgres-setup.ts'
import type { Said } from './key-rotation-process.ts'

const SCRIPT = installedScript(new URL('key-rotation-process.ts', import.meta.url))
/** Three pages of a rotation. */
const INTEGRATIONS = 300
/** Each process is under way once it has made so many. */
const PATCHES = 20

const [older, newer] = [encryptionKey('k1'), encryptionKey('k2')]

let server: Awaited<ReturnType<typeof sharePostgres>>
let database: TestDatabase
const processes: ManagedProcess[] = []

beforeAll(async () => {
  server = await sharePostgres()
  database = await createTestDatabase({ adminUrl: server.url })
})
afterEach(async () => {
  await Promise.all(processes.splice(0).map((child) => child.stop()))
})
afterAll(async () => {
  await database?.drop()
  await server?.release()
})

interface Running {
  readonly process: ManagedProcess
  /** The next thing of this kind that it says. Fails when it fails or ends first. */
  next<Kind extends Said['kind']>(
    kind: Kind,
    fits?: (said: Extract<Said, { kind: Kind }>) => boolean,
  ): Promise<Extract<Said, { kind: Kind }>>
  readonly said: readonly Said[]
}

async function start(keys: readonly string[], ...args: string[]): Promise<Running> {
  const lines: string[] = []
  const child = await startProcess({
    name: args.join(' '),
    command: process.execPath,
    args: [SCRIPT, ...args],
    env: {
      DATABASE_URL: database.url,
      INTEGRATIONS_ENCRYPTION_KEYS: keys.join(','),
      INTEGRATIONS_ENCRYPTION_KEYS_FILE: undefined,
      NODE_OPTIONS: undefined,
    },
    onLine: (line) => lines.push(line),
  })
  processes.push(child)
  const said: Said[] = []
  child.child.on('message', (message) => said.push(message as Said))
  return {
    process: child,
    said,
    next: (kind, fits = () => true) =>
      new Promise((resolve, reject) => {
        const onMessage = (message: unknown): void => {
          const heard = message as Said
          if (heard.kind === 'failed') reject(new Error(`${child.name}: ${heard.message}`))
          if (heard.kind === kind && fits(heard as never)) resolve(heard as never)
        }
        child.child.on('message', onMessage)
        void child.exited.then((exit) =>
          reject(new Error(`${child.name} ended with ${JSON.stringify(exit)} before "${kind}": ${lines.join('\n')}`)),
        )
      }),
  }
}

/** Traffic of these names, each under way. */
async function startTraffic(keys: readonly string[], names: readonly string[]): Promise<Running[]> {
  return Promise.all(
    names.map(async (name) => {
      const running = await start(keys, 'traffic', name)
      await running.next('patched', ({ patches }) => patches >= PATCHES)
      return running
    }),
  )
}

/** What each integration must hold under the names of the traffic that was stopped. */
const expected = new Map<number, Record<string, unknown>>()

async function stopTraffic(running: readonly Running[], names: readonly string[]): Promise<void> {
  await Promise.all(
    running.map(async ({ process: child, next }, index) => {
      const wrote = next('wrote')
      child.child.send('stop')
      const { last, reads } = await wrote
      expect(reads).toBeGreaterThanOrEqual(PATCHES)
      for (const [id, n] of last) expected.set(id, { ...expected.get(id), [names[index] as string]: n })
      expect(await child.exited).toEqual({ code: 0, signal: null })
    }),
  )
}

/** By a process with these keys. */
async function inspect<T>(keys: string[], look: (test: ReturnType<typeof testIntegrations>) => Promise<T>): Promise<T> {
  const test = testIntegrations(database.url, { encryptionKeys: keys, providers: { plain: {} } })
  try {
    return await look(test)
  } finally {
    await test.close()
  }
}

async function expectNothingLost(keys: string[]): Promise<void> {
  await inspect(keys, async ({ integrations }) => {
    const found = new Map<number, unknown>()
    for await (const integration of integrations.list()) found.set(integration.id, integration.credentialsArray())
    expect(Object.fromEntries(found)).toEqual(Object.fromEntries(expected))
  })
}

it('goes from key to key under traffic, over a kill -9 of the rotation', async () => {
  await inspect([older], async ({ integrations }) => {
    await integrations.ready()
    await Promise.all(
      Array.from({ length: INTEGRATIONS }, async () => {
        const { id } = await integrations.create({ provider: 'plain', name: 'of a test', credentials: {} })
        await integrations.update(id, { credentials: { token: `of ${id}` } })
        expected.set(id, { token: `of ${id}` })
      }),
    )
  })

  // The new key is last everywhere. Then processes that have it first come up beside one that stays as it is.
  const [stays, ...rolled] = (
    await Promise.all([startTraffic([older, newer], ['a']), startTraffic([newer, older], ['b', 'c'])])
  ).flat() as [Running, ...Running[]]

  const killed = await start([newer, older], 'rotate-until-killed')
  await killed.next('progress')
  killed.process.child.kill('SIGKILL')
  expect(await killed.process.exited).toEqual({ code: null, signal: 'SIGKILL' })
  expect(killed.said.map(({ kind }) => kind)).not.toContain('rotated')
  const { keys } = await inspect([newer, older], ({ integrations }) => integrations.admin.keys.status())
  // Those that have the old key first write it again and again.
  for (const { rows } of keys) expect(rows).toBeGreaterThan(0)
  expect(keys).toHaveLength(2)

  await stopTraffic([stays], ['a'])
  rolled.push(...(await startTraffic([newer, older], ['d'])))
  const resumed = await start([newer, older], 'rotate')
  expect(await resumed.next('rotated')).toMatchObject({
    failed: 0,
    keys: [
      { kid: 'k2', rows: INTEGRATIONS },
      { kid: 'k1', rows: 0, removable: true },
    ],
  })
  await stopTraffic(rolled, ['b', 'c', 'd'])
  await expectNothingLost([newer, older])

  const without = ['e', 'f', 'g']
  await stopTraffic(await startTraffic([newer], without), without)
  await expectNothingLost([newer])
})
