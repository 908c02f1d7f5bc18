import { afterEach, describe, expect, it, vi } from 'vitest'
import { createCommandRunner } from '../../../src/commands/cli/in-worker.ts'
import type { Integrations } from '../../../src/create-integrations.ts'
import { IntegrationNotFound } from '../../../src/framework/errors.ts'

afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllEnvs()
})

/** Of the worker's object these commands use little. */
function worker({
  admin = {},
  ...parts
}: Partial<Omit<Integrations, 'admin'>> & { admin?: Partial<Integrations['admin']> }) {
  const lines: Record<string, unknown>[] = []
  const keep = (fields: Record<string, unknown>): void => void lines.push(fields)
  const closed = vi.fn(async () => {})
  const logger = { debug: keep, info: keep, warn: keep, error: keep }
  const acts: unknown[] = []
  const operator = {
    note: async (id: number, act: object) => void acts.push({ id, ...act }),
    detail: async (id: number) => ({ id, isActive: false }),
  }
  const config = { worker: { command_environment: ['TOKEN_OF_THIS_TEST'] } }
  const run = createCommandRunner({
    ...{ ready: async () => {}, close: closed, config },
    ...parts,
    admin: { logger, operator, ...admin },
  } as Integrations)
  return {
    acts,
    lines,
    closed,
    run: (command: string, input: unknown, signal = new AbortController().signal) =>
      run({ command, input, by: 'workflow:me', signal }),
  }
}

describe('a command inside a worker', () => {
  it('leaves the worker’s object open', async () => {
    const { run, acts, closed } = worker({ disable: async () => {} })
    expect(await run('disable', { id: 7 })).toEqual({ exitCode: 0, document: { id: 7, is_active: false }, notes: [] })
    const [by, from] = ['workflow:me', 'workflow:me']
    expect(acts).toEqual([{ id: 7, token: by, action: 'disable', target: 'integration:7', from }])
    expect(closed).not.toHaveBeenCalled()
  })

  it('gives words and stack of an error that is none of ours to the log and to no history', async () => {
    const { run, lines } = worker({
      get: async () => {
        throw new RangeError('a header holds sk_live_123: 7')
      },
    })
    expect(await run('rate-limit', { id: 7, action: 'status' })).toEqual({
      exitCode: 1,
      document: {
        error: {
          code: 'unexpected_error',
          message: "RangeError, which is not an error of ours: the worker's log has it, under command.failed.",
        },
      },
      notes: [],
    })
    const failed = lines.find(({ event }) => event === 'command.failed')
    expect(failed).toMatchObject({ error: expect.stringMatching(/RangeError: a header holds sk_live_123: 7\n {4}at /) })
  })

  it('gives no credential that it read to the log', async () => {
    vi.stubEnv('TOKEN_OF_THIS_TEST', 'a-very-secret-token')
    const { run, lines } = worker({
      admin: {
        providers: () => {
          throw new TypeError('no provider takes a-very-secret-token')
        },
      },
    })
    await run('install', { provider: 'demo', credential: ['token=env:TOKEN_OF_THIS_TEST'] })
    const failed = lines.find(({ event }) => event === 'command.failed')
    expect(failed).toMatchObject({
      command: 'install',
      by: 'workflow:me',
      error: expect.stringContaining('TypeError: no provider takes [REDACTED]'),
    })
    expect(JSON.stringify(lines)).not.toContain('a-very-secret-token')
  })

  it('prints no link to connect an account', async () => {
    const provider = { key: 'demo', label: 'Demo', contracts: ['HasOAuth2'], hasHealthCheck: false }
    const integration = { id: 7, name: 'Demo', provider: 'demo', isActive: false, metadata: {} }
    const { run } = worker({
      admin: {
        providers: () => [provider],
        access: { baseUrl: 'https://here.example', dev: false },
        operator: { note: async () => {}, webhookAddress: () => null },
      },
      async *list() {},
      create: async () => integration,
      oauth: { link: async () => 'https://here.example/secret?expires=2000000000' },
    } as never)
    const { document, notes } = await run('install', { provider: 'demo' })
    expect(document).toMatchObject({ id: 7, created: true, connect_url: null, expires_at: null })
    expect(notes).toEqual([expect.stringContaining('`integrations oauth-link 7`')])
    expect(JSON.stringify([document, notes])).not.toContain('secret')
  })

  it.each([
    ['its result', async () => ({ requests: 3 }), { exitCode: 0, document: { id: 7, erased: { requests: 3 } } }],
    [
      'its failure',
      async () => Promise.reject(new IntegrationNotFound(7)),
      { exitCode: 1, document: { error: { code: 'integration_not_found' } } },
    ],
  ])('that is under way at the signal ends before it answers, with %s', async (_, end, answer) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const interrupt = new AbortController()
    let isOver = false
    const { run } = worker({
      get: async () => ({ name: 'Demo', provider: 'demo' }),
      admin: {
        erase: async () => {
          interrupt.abort()
          await vi.advanceTimersByTimeAsync(29_999)
          isOver = true
          return end()
        },
      },
    } as never)
    expect(await run('erase', { id: 7, yes: true }, interrupt.signal)).toMatchObject(answer)
    expect(isOver).toBe(true)
  })

  it('is broken off 30 s after the signal', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const interrupt = new AbortController()
    let isAnswered = false
    let isRunning = (): void => {}
    const running = new Promise<void>((resolve) => {
      isRunning = resolve
    })
    const { run } = worker({
      admin: {
        stats: () => {
          interrupt.abort()
          isRunning()
          return new Promise(() => {})
        },
      },
    })
    const answer = run('stats', {}, interrupt.signal).finally(() => {
      isAnswered = true
    })
    await running
    await vi.advanceTimersByTimeAsync(29_999)
    expect(isAnswered).toBe(false)
    await vi.advanceTimersByTimeAsync(1)
    expect(await answer).toMatchObject({ exitCode: 130, document: { error: { code: 'interrupted' } } })
  })

  it('does not begin after the signal', async () => {
    const get = vi.fn()
    const { run } = worker({ get })
    expect(await run('erase', { id: 7, yes: true }, AbortSignal.abort())).toMatchObject({ exitCode: 130 })
    expect(get).not.toHaveBeenCalled()
  })

  it.each([
    { provider: 'stripe', credential: 'token=sk_live_123' },
    { provider: 'stripe', credential: 5_123 },
    { provider: 'stripe', credential: true },
    { provider: 'stripe', credential: ['sk_live_123'] },
    { provider: 'stripe', credential: ['sk_live_123=env:'] },
    { provider: 'stripe', credential: ['=env:sk_live_123'] },
    { provider: 'stripe', credential: ['sk_live_123=@file'] },
    { provider: 'stripe', credential: ['token=env:A', 5_123] },
    { provider: 'stripe', credential: [['token=env:A']] },
    { provider: 'stripe', credential: { token: 'sk_live_123' } },
    { provider: 'stripe', credential: { sk_live_123: '' } },
    { provider: 'stripe', credential: { 'token=sk_live_123': 'env:A' } },
    { provider: 'stripe', credential: { token: { value: 'env:A' } } },
  ])('takes %j for a secret, repeats nothing of it and advises to rotate it', async (input) => {
    const answer = await worker({}).run('install', input)
    expect(answer).toMatchObject({ exitCode: 1, document: { error: { code: 'usage' } }, notes: [] })
    const text = JSON.stringify(answer)
    expect(text).toContain('have the provider replace it')
    expect(text).not.toMatch(/sk_live|5123/)
  })

  it.each(['TOKEN_OF_ANOTHER', 'NO_SUCH_VARIABLE', 'DATABASE_URL', 'INTEGRATIONS_ENCRYPTION_KEYS', '__proto__'])(
    'reads no variable %s, which the operator has not named, and does not say whether it is there',
    async (name) => {
      vi.stubEnv('TOKEN_OF_ANOTHER', 'a-very-secret-token')
      const providers = vi.fn(() => [])
      const answer = await worker({ admin: { providers } }).run('install', {
        provider: 'demo',
        credential: { token: 'env:TOKEN_OF_THIS_TEST', other: `env:${name}` },
      })
      expect(answer).toMatchObject({ exitCode: 1, notes: [] })
      expect(answer.document).toEqual({
        error: { code: 'usage', message: expect.stringContaining('`worker.command_environment`') },
      })
      expect(JSON.stringify(answer)).not.toContain(name)
      expect(providers).not.toHaveBeenCalled()
    },
  )

  it('has no way to a file or a variable of the worker, whatever the command does with its input', async () => {
    vi.stubEnv('TOKEN_OF_ANOTHER', 'a-very-secret-token')
    const { run } = worker({})
    for (const secret of ['@package.json', 'env:TOKEN_OF_ANOTHER']) {
      const answer = await run('rotate-webhook-secret', { id: 7, secret })
      expect(answer).toMatchObject({ exitCode: 1, document: { error: { code: 'usage' } } })
      expect(JSON.stringify(answer)).toMatch(/a workflow reads no file|has no variable/)
    }
  })

  it.each([{ 'home=env:HOME': '' }, { 'host=@/etc/hostname': '' }, { 'a=-': 1 }])(
    'takes no metadata %j, whose name would be sent as another one',
    async (metadata) => {
      expect(await worker({}).run('install', { provider: 'demo', metadata })).toMatchObject({
        exitCode: 1,
        document: { error: { code: 'usage', message: expect.stringContaining('a name has no "="') } },
      })
    },
  )

  it('knows the commands of the command line only', async () => {
    expect(await worker({}).run('completions', {})).toMatchObject({
      exitCode: 1,
      document: { error: { code: 'usage' } },
    })
  })
})
