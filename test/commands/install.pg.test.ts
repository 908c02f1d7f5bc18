import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { generateEncryptionKey } from '../../src/encryption.ts'
import { BackendUnreachable } from '../../src/framework/errors.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { occasion, testIntegrations } from '../support/integrations.ts'
import { syncProvider, webhookProvider } from '../support/providers.ts'
import { allIntegrations } from '../support/rows.ts'
import type { Ran, RunOptions } from './cli/run.ts'
import { runCommand } from './cli/run.ts'

const GOOD = 'good-token-of-the-tests'
const BAD = 'bad-token-of-the-tests'

let database: TestDatabase
let test: TestIntegrations
let folder: string
/** What the provider's health check does beyond looking at the token. */
let beforeAnswer: (integration: Integration) => Promise<void>

const demo = {
  ...syncProvider(() => {}),
  label: 'Demo',
  credentialsSchema: z.object({
    token: z.string().min(8).describe('from the settings page'),
    expires: z.number().optional(),
    scopes: z.array(z.string()).optional(),
  }),
  metadataSchema: z.object({ region: z.string().optional(), retries: z.number().optional() }),
  async healthCheck(integration: Integration) {
    await beforeAnswer(integration)
    const { token } = integration.credentialsArray()
    if (token === GOOD) return true
    throw new Error(`401 for ${token}`)
  },
}

const encryptionKeys = generateEncryptionKey('test')
const hooked = { verifyWebhookSignature: () => true, handleWebhook: () => {} }
const managed = {
  ...hooked,
  webhookSecretFrom: 'none' as const,
  createWebhookSubscription: async () => expect.unreachable('nothing is registered'),
  webhookSubscriptions: async () => [],
  renewWebhookSubscription: async () => null,
  removeWebhookSubscription: async () => {},
}

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    encryptionKeys,
    providers: { demo, bare: {}, hooked, signed: webhookProvider(), managed },
  })
  folder = await mkdtemp(join(tmpdir(), 'install-'))
  await writeFile(join(folder, 'token'), `${GOOD}\n`)
})

afterAll(async () => {
  await test.close()
  await database.drop()
  await rm(folder, { recursive: true, force: true })
})

beforeEach(async () => {
  beforeAnswer = async () => {}
  vi.stubEnv('DEMO_TOKEN', GOOD)
  vi.stubEnv('BAD_TOKEN', BAD)
  for await (const { id } of test.integrations.list()) await test.integrations.delete(id, { force: true })
})

async function install(words: readonly string[], options: RunOptions = {}): Promise<Ran> {
  const ran = await runCommand(test.integrations, ['install', ...words], options)
  for (const secret of [GOOD, BAD]) expect(ran.out + ran.err).not.toContain(secret)
  return ran
}

describe('a new integration', () => {
  it('is stored, checked, then switched on', async () => {
    let activeDuringCheck: boolean | undefined
    beforeAnswer = async ({ isActive }) => {
      activeDuringCheck = isActive
    }
    const { exitCode, out, err } = await install([
      'demo',
      ...['--name', 'Ours', '--credential', 'token=env:DEMO_TOKEN', '--credential', 'expires=12'],
      ...['--metadata', 'region=eu', '--metadata', 'retries=3', '--owner', 'team:7', '--sync-interval', '15'],
    ])
    expect({ exitCode, err: err.replace(/^The credential "expires".*\n/, '') }).toEqual({ exitCode: 0, err: '' })
    const [made] = await allIntegrations(test)
    expect(out).toBe(`Installed integration ${made?.id} ("Ours", demo). The provider takes the credentials.\n`)
    expect(made).toMatchObject({
      provider: 'demo',
      name: 'Ours',
      metadata: { region: 'eu', retries: 3 },
      owner: { type: 'team', id: 7 },
      syncIntervalMinutes: 15,
      isActive: true,
    })
    expect(made?.credentialsArray()).toEqual({ token: GOOD, expires: 12 })
    expect(activeDuringCheck).toBe(false)
  })

  it('is a document with --json', async () => {
    const ran = await install(['demo', '--credential', 'token=env:DEMO_TOKEN', '--json'])
    expect(ran).toMatchObject({ exitCode: 0, err: '' })
    expect(ran.json()).toEqual({
      id: expect.any(Number),
      name: 'Demo',
      provider: 'demo',
      created: true,
      check: { ok: true, duration_ms: expect.any(Number), error: null },
      webhook_address: null,
    })
  })

  it('of a provider that takes webhooks says where these go', async () => {
    const { out } = await install(['hooked'])
    const [{ id = 0 } = {}] = await allIntegrations(test)
    expect(out).toBe(
      `Installed integration ${id} ("hooked", hooked).\nSend its webhooks to /integrations/hooked/${id}/webhook\n`,
    )
    const managed = await install(['managed', '--json'])
    expect(managed.json()).toMatchObject({ webhook_address: `/integrations/managed/${id + 1}/webhook` })
    expect((await install(['managed', '--name', 'Other'])).out).toContain(
      `/webhook, or have that registered: integrations register-webhooks ${id + 2}\n`,
    )
  })

  it('of a provider whose deliveries are signed says so where it has no secret', async () => {
    const { out } = await install(['signed'])
    const [{ id = 0 } = {}] = await allIntegrations(test)
    const lines = [
      `Send its webhooks to /integrations/signed/${id}/webhook`,
      `It has no webhook secret yet, so each delivery is refused. Set one: integrations rotate-webhook-secret ${id}`,
    ]
    expect(out).toContain(`\n${lines.join('\n')}\n`)
    vi.stubEnv('HOOK_SECRET', 'a-secret-of-hooks')
    const secret = ['--credential', 'webhook_secret=env:HOOK_SECRET']
    expect((await install(['signed', '--name', 'Other', ...secret])).out).not.toContain('no webhook secret')
    vi.unstubAllEnvs()
  })

  it('says the whole address where a base URL is configured', async () => {
    const outside = testIntegrations(database.url, {
      encryptionKeys,
      providers: { hooked },
      baseUrl: 'https://api.example.com/hub',
    })
    try {
      const { out, err } = await runCommand(outside.integrations, ['install', 'hooked'])
      expect(err).toBe('')
      const [{ id = 0 } = {}] = await allIntegrations(test)
      const address = `https://api.example.com/hub/integrations/hooked/${id}/webhook`
      expect(out).toContain(`\nSend its webhooks to ${address}\n`)
      expect((await runCommand(outside.integrations, ['show', String(id), '--json'])).json()).toMatchObject({
        webhook_address: address,
      })
    } finally {
      await outside.close()
    }
  })

  it('of a provider without a health check or with --skip-check is not checked', async () => {
    expect((await install(['bare', '--json'])).json()).toMatchObject({ name: 'bare', check: null })
    const skipped = await install(['demo', '--credential', 'token=env:BAD_TOKEN', '--skip-check', '--json'])
    expect(skipped.json()).toMatchObject({ created: true, check: null })
    expect((await allIntegrations(test)).map(({ isActive }) => isActive)).toEqual([true, true])
  })
})

describe('a value', () => {
  it.each<[string, string, RunOptions]>([
    ['of a file', '@FOLDER/token', {}],
    ['of the environment', 'env:DEMO_TOKEN', {}],
    ['of stdin', '-', { stdin: `${GOOD}\n` }],
  ])('%s is taken without its last line break, and does not warn', async (_, value, options) => {
    const { exitCode, err } = await install(
      ['demo', '--credential', `token=${value.replace('FOLDER', folder)}`],
      options,
    )
    expect({ exitCode, err }).toEqual({ exitCode: 0, err: '' })
    expect((await allIntegrations(test))[0]?.credentialsArray()).toEqual({ token: GOOD })
  })

  it('that stands on the command line warns, for credentials only', async () => {
    const { exitCode, err } = await install(['demo', '--credential', `token=${GOOD}`, '--metadata', 'region=eu'])
    expect(exitCode).toBe(0)
    expect(err).toMatch(/^The credential "token" stands on the command line, .*token=env:NAME.*\n$/)
  })

  it('is JSON where the schema takes no string', async () => {
    await install(['demo', '--credential', 'token=env:DEMO_TOKEN', '--credential', 'scopes=["a","b"]'])
    expect((await allIntegrations(test))[0]?.credentialsArray()).toEqual({ token: GOOD, scopes: ['a', 'b'] })
  })

  it.each<[string, string[], string]>([
    ['without a key', ['--credential', `=${GOOD}`], 'takes key=value'],
    ['without an equals sign', ['--credential', GOOD], 'takes key=value'],
    ['given twice', ['--credential', 'token=env:DEMO_TOKEN', '--credential', `token=${GOOD}`], 'token is given twice'],
    ['of a variable that is not there', ['--credential', 'token=env:NOBODY'], 'the environment has no variable NOBODY'],
    ['of a file that is not there', ['--credential', 'token=@/nowhere/token'], "can't be read: ENOENT"],
    ['of stdin, twice', ['--credential', 'token=-', '--metadata', 'region=-'], 'Stdin is read once'],
    ['that is no JSON', ['--credential', `scopes=${GOOD}`], 'scopes: JSON of type array is expected'],
    ['that the schema refuses', ['--credential', 'token=short'], 'token: '],
    ['that is missing', [], 'token: '],
    [
      'of metadata that the schema refuses',
      ['--credential', 'token=env:DEMO_TOKEN', '--metadata', 'region=7', '--metadata', 'retries="x"'],
      'retries: ',
    ],
  ])('%s: nothing is stored', async (_, words, said) => {
    const { exitCode, err } = await install(['demo', ...words], { stdin: GOOD })
    expect(exitCode).toBe(1)
    expect(err).toContain(said)
    expect(await allIntegrations(test)).toEqual([])
  })

  it('that does not fit is named in the problems of --json', async () => {
    const ran = await install(['demo', '--credential', 'token=short', '--json'])
    expect(ran.json()).toEqual({
      error: {
        code: 'invalid_credentials',
        message: expect.stringContaining('do not fit'),
        problems: [{ path: 'token', message: expect.any(String) }],
      },
    })
  })

  it('of an unknown provider: the known ones are named', async () => {
    const { exitCode, err } = await install(['nobody'])
    expect({ exitCode, err }).toEqual({
      exitCode: 1,
      err: 'No provider is registered as "nobody". Registered: bare, demo, hooked, managed, signed.\n',
    })
  })
})

describe('a failed check', () => {
  const words = ['demo', '--credential', 'token=env:BAD_TOKEN']

  it('takes the row back', async () => {
    const { exitCode, out, err } = await install(words)
    expect({ exitCode, out }).toEqual({ exitCode: 1, out: '' })
    expect(err).toBe(
      'The health check failed: Error: 401 for [REDACTED] Nothing was stored. --force keeps it all the same.\n',
    )
    expect(await allIntegrations(test)).toEqual([])
  })

  it('is an error with --json', async () => {
    expect((await install([...words, '--json'])).json()).toEqual({
      error: { code: 'health_check_failed', message: expect.stringContaining('401 for [REDACTED]') },
    })
  })

  it('is kept by --force, with a warning', async () => {
    const ran = await install([...words, '--force', '--json'])
    expect(ran.exitCode).toBe(0)
    expect(ran.err).toMatch(/The health check failed: .*is kept\./)
    expect(ran.json()).toMatchObject({ created: true, check: { ok: false, error: 'Error: 401 for [REDACTED]' } })
    expect((await allIntegrations(test))[0]?.isActive).toBe(true)
  })

  it.each([
    [true, 0, 1],
    [false, 1, 0],
  ])('is asked about where somebody sits: the answer %s', async (keep, exitCode, rows) => {
    const asked: string[] = []
    const ran = await install([...words, '--name', 'Ours'], {
      answers: { 'Keep it all the same?': keep, expires: '', scopes: '', region: '', retries: '' },
      asked,
    })
    expect(ran.exitCode).toBe(exitCode)
    expect(asked.at(-1)).toContain('The health check failed: Error: 401 for [REDACTED]')
    expect(await allIntegrations(test)).toHaveLength(rows)
  })

  it('leaves it switched off where it can not be removed, and says so', async () => {
    vi.spyOn(test.framework.workflows, 'isSyncRunning').mockRejectedValue(
      new BackendUnreachable('Temporal', 'localhost:1', { remedy: 'Start it.' }),
    )
    vi.spyOn(test.framework.workflows, 'cancelSync').mockRejectedValue(
      new BackendUnreachable('Temporal', 'localhost:1', { remedy: 'Start it.' }),
    )
    const { exitCode, err } = await install(words)
    const [left] = await allIntegrations(test)
    expect(exitCode).toBe(1)
    expect(err).toContain(`Integration ${left?.id} could not be removed and stays, switched off`)
    expect(err).toContain(`integrations delete ${left?.id}`)
    expect(left?.isActive).toBe(false)
    vi.restoreAllMocks()
  })
})

describe('one of the same provider and name', () => {
  it('is refused, and stays as it is', async () => {
    await install(['demo', '--credential', 'token=env:DEMO_TOKEN', '--metadata', 'region=eu'])
    const ran = await install(['demo', '--credential', 'token=env:BAD_TOKEN', '--json'])
    expect(ran.exitCode).toBe(1)
    expect(ran.json()).toMatchObject({ error: { code: 'already_installed' } })
    const [only, ...others] = await allIntegrations(test)
    expect(others).toEqual([])
    expect(only?.credentialsArray()).toEqual({ token: GOOD })
  })

  it('is updated with --force: what is given is merged in', async () => {
    await install(['demo', '--credential', 'token=env:DEMO_TOKEN', '--metadata', 'region=eu'])
    const [before] = await allIntegrations(test)
    const ran = await install(['demo', '--credential', 'expires=9', '--metadata', 'retries=2', '--force', '--json'])
    expect(ran.exitCode).toBe(0)
    expect(ran.json()).toMatchObject({ id: before?.id, created: false, check: { ok: true } })
    const [after] = await allIntegrations(test)
    expect(after?.credentialsArray()).toEqual({ token: GOOD, expires: 9 })
    expect(after?.metadata).toEqual({ region: 'eu', retries: 2 })
  })

  it('that is switched off stays so, and is told how it is switched on', async () => {
    // As a process leaves it that dies during its check.
    const { id } = await test.integrations.create({
      ...{ provider: 'demo', name: 'Demo', credentials: { token: GOOD }, isActive: false },
    })
    const { exitCode, out } = await install(['demo', '--name', 'Demo', '--force'])
    expect(exitCode).toBe(0)
    expect(out).toContain(`It is switched off: integrations enable ${id} switches it on.`)
    expect((await test.integrations.get(id)).isActive).toBe(false)
  })

  it('stays, with a warning, when the update fails the check', async () => {
    await install(['demo', '--credential', 'token=env:DEMO_TOKEN'])
    const { exitCode, err } = await install(['demo', '--credential', 'token=env:BAD_TOKEN', '--force'])
    expect(exitCode).toBe(0)
    expect(err).toContain('is kept.')
    expect(await allIntegrations(test)).toHaveLength(1)
  })

  it('twice over is named by --integration', async () => {
    for (const token of [GOOD, GOOD])
      await test.integrations.create({ provider: 'demo', name: 'Demo', credentials: { token } })
    const ids = (await allIntegrations(test)).map(({ id }) => id)
    const ambiguous = await install(['demo', '--force', '--metadata', 'region=eu'])
    expect(ambiguous.exitCode).toBe(1)
    expect(ambiguous.err).toContain(`Integrations ${ids.join(', ')} all have this name`)
    const named = await install(['demo', '--force', '--integration', String(ids[1]), '--metadata', 'region=eu'])
    expect(named.exitCode).toBe(0)
    expect((await allIntegrations(test)).map(({ metadata }) => metadata)).toEqual([{}, { region: 'eu' }])
  })

  it.each<[string, string[], string]>([
    ['without --force', [], 'which needs --force'],
    ['of another provider', ['--force'], 'is of the provider "demo", not of "bare"'],
  ])('named by --integration %s is refused', async (_, words, said) => {
    const { id } = await test.integrations.create({ provider: 'demo', name: 'Demo', credentials: { token: GOOD } })
    const { exitCode, err } = await install(['bare', '--integration', String(id), ...words])
    expect(exitCode).toBe(1)
    expect(err).toContain(said)
  })
})

describe('at a terminal', () => {
  it('asks for what the schemas know and the words did not say', async () => {
    const asked: string[] = []
    const { exitCode } = await install(['demo', '--metadata', 'region=eu'], {
      asked,
      answers: { Name: 'Ours', token: GOOD, expires: '12', scopes: '', retries: '' },
    })
    expect(exitCode).toBe(0)
    expect(asked).toEqual([
      'Name of the integration',
      'token: from the settings page',
      'expires (JSON: number, optional)',
      'scopes (JSON: array, optional)',
      'retries (JSON: number, optional)',
    ])
    const [made] = await allIntegrations(test)
    expect(made).toMatchObject({ name: 'Ours', metadata: { region: 'eu' } })
    expect(made?.credentialsArray()).toEqual({ token: GOOD, expires: 12 })
  })

  it.each([
    ['nothing where something is needed', { token: '' }, 'token is needed.'],
    ['no JSON', { token: GOOD, expires: 'soon' }, 'expires: JSON of type number is expected.'],
  ])('%s is told at once', async (_, answers, said) => {
    const { err } = await install(['demo', '--name', 'Ours'], { answers })
    expect(err).toContain(said)
    expect(await allIntegrations(test)).toEqual([])
  })

  it('--no-interactive asks nothing', async () => {
    const asked: string[] = []
    const { exitCode } = await install(['demo', '--no-interactive'], { answers: {}, asked })
    expect({ exitCode, asked }).toEqual({ exitCode: 1, asked: [] })
  })
})

it('Ctrl-C during the check takes the row back and ends with 130', async () => {
  const checking = occasion()
  beforeAnswer = () => {
    checking.happen()
    return new Promise(() => {})
  }
  const interrupt = new AbortController()
  const running = install(['demo', '--credential', 'token=env:DEMO_TOKEN', '--json'], { signal: interrupt.signal })
  await checking.happened
  expect(await allIntegrations(test)).toHaveLength(1)
  interrupt.abort()
  const ran = await running
  expect(ran.exitCode).toBe(130)
  expect(ran.json()).toEqual({ error: { code: 'interrupted', message: 'Interrupted.' } })
  expect(await allIntegrations(test)).toEqual([])
})
