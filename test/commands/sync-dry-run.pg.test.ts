/** sync --dry-run where the provider does not answer, or its code is at fault. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { freePort } from '../../src/bin/free-port.ts'
import { createCommandRunner } from '../../src/commands/cli/in-worker.ts'
import { RetryableError } from '../../src/framework/errors.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import type { Lists } from '../support/providers.ts'
import { syncProvider, TOKEN } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'
import type { Ran } from './cli/run.ts'
import { runCommand } from './cli/run.ts'

let database: TestDatabase
let test: TestIntegrations
let id: number
/** Nobody listens there any more. */
let closedPort: number
const lists = vi.fn<Lists>()

beforeAll(async () => {
  // Below the range that Linux gives ports of: no other test gets it meanwhile.
  closedPort = await freePort(20_000 + Math.floor(Math.random() * 12_000))
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: { acme: syncProvider((session) => lists(session)) },
    egress: { allow: ['127.0.0.1', 'localhost'] },
  })
  id = (await makeIntegration(test, 'acme')).id
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

function sample(...words: string[]): Promise<Ran> {
  return runCommand(test.integrations, ['sync', '--integration', String(id), '--dry-run', ...words])
}

const asks = (url: string): void =>
  void lists.mockImplementation(async (session) => {
    await session.integration.request('things', 'GET', ({ fetch }) => fetch(url), { attempts: 1 })
  })

describe('sync --dry-run', () => {
  it('says in one line, with the causes, that the provider was not reached', async () => {
    asks(`http://127.0.0.1:${closedPort}/things`)
    const { exitCode, out, err } = await sample()
    expect([exitCode, out]).toEqual([1, ''])
    expect(err).toBe(
      `The provider failed while it was listed: TypeError: fetch failed, by Error: connect ECONNREFUSED 127.0.0.1:${closedPort}. Nothing was stored.\n`,
    )
  })

  it('gives --json a code of its own', async () => {
    asks(`http://127.0.0.1:${closedPort}/things`)
    const ran = await sample('--json')
    expect(ran).toMatchObject({ exitCode: 1, err: '' })
    expect(ran.json()).toEqual({
      error: { code: 'listing_failed', message: expect.stringContaining('ECONNREFUSED') },
    })
  })

  it('names the addresses where none of several answers, by their code where the error has no words', async () => {
    const refused = (port: number) =>
      Object.assign(new Error(`connect ECONNREFUSED ::1:${port}`), { code: 'ECONNREFUSED' })
    const all = Object.assign(new AggregateError([refused(1), refused(2)]), { code: 'ECONNREFUSED' })
    lists.mockRejectedValue(new TypeError('fetch failed', { cause: all }))
    expect((await sample()).err).toContain(
      'TypeError: fetch failed, by AggregateError: ECONNREFUSED, by Error: connect ECONNREFUSED ::1:1, by Error: connect ECONNREFUSED ::1:2.',
    )
  })

  it('is one line without the credentials where the failure quotes them', async () => {
    const words = `socket hang up\n  for https://api.example.com/things?key=k-17 with ${TOKEN}`
    lists.mockRejectedValue(Object.assign(new Error(words), { code: 'ECONNRESET' }))
    const { err } = await sample()
    expect(err.trimEnd().split('\n')).toHaveLength(1)
    expect(err).not.toMatch(new RegExp(`${TOKEN}|k-17`))
  })

  it.each<[what: string, fails: (words: string) => Error]>([
    ['a broken connection', (words) => Object.assign(new Error(words), { code: 'ECONNRESET' })],
    ['what asks to be tried again', (words) => new RetryableError(words)],
  ])('is without what the listing was given meanwhile, of %s', async (_, fails) => {
    const cached = 'session-secret-of-the-listing'
    const given = 'patched-secret-of-the-listing'
    lists.mockImplementation(async ({ integration }) => {
      await integration.cachedSecret('session', async () => ({
        value: cached,
        expiresAt: new Date(Date.now() + 3_600_000),
      }))
      await integration.updateCredentials({ later: given })
      throw fails(`refused for ${cached} and ${given}`)
    })
    const ran = await sample('--json')
    expect(ran.exitCode).toBe(1)
    expect(ran.json()).toEqual({
      error: {
        code: 'listing_failed',
        message: expect.stringMatching(/: refused for \[REDACTED\] and \[REDACTED\]\. Nothing was stored\.$/),
      },
    })
  })

  it('on a worker that stops is interrupted, and no failure of the provider', async () => {
    const stop = new AbortController()
    lists.mockImplementation(async () => {
      stop.abort()
    })
    const run = createCommandRunner(test.integrations)
    const input = { integration: id, dryRun: true }
    expect(await run({ command: 'sync', input, by: 'workflow:me', signal: stop.signal })).toEqual({
      exitCode: 130,
      document: { error: { code: 'interrupted', message: 'Interrupted.' } },
      notes: [],
    })
  })

  it("keeps the stack of a mistake in the provider's code", async () => {
    lists.mockRejectedValue(new RangeError('no such page'))
    expect((await sample()).err).toMatch(/^RangeError: no such page\n\s+at /)
  })
})
