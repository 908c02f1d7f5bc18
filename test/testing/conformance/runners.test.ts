/** How the suite is declared with one test runner or another. */
import { describe, expect, it } from 'vitest'
import { Bench } from '../../../src/testing/conformance/bench.ts'
import type { SuiteRunner } from '../../../src/testing/index.ts'
import { createTestIntegrations, describeProvider, playedTransport } from '../../../src/testing/index.ts'
import { ofTokens } from './broken-providers.ts'
import { SOUND_FIXTURES, SoundProvider } from './sound-provider.ts'

describe('the suite', () => {
  it('says which runner it needs where there is none', () => {
    expect(() => describeProvider('tickets', () => new SoundProvider(), SOUND_FIXTURES)).toThrow(
      /describeProvider\(\) needs a test runner/,
    )
  })

  it('makes a kit for each test where the runner does not say when they are over', async () => {
    const { checks, runner } = recorder()
    describeProvider('tickets', () => new SoundProvider(), SOUND_FIXTURES, runner)
    for (const name of ['of nothing gives null', 'declares values of the right kind'])
      await checks.find((check) => check.name.includes(name))?.body()
    expect(checks.length).toBeGreaterThan(50)
  }, 60_000)

  it.each([
    ['a class', SoundProvider],
    ['a function that makes one', () => new SoundProvider()],
    ['one', new SoundProvider()],
  ])(
    'takes %s alone, and the name of its class',
    async (_, provider) => {
      const { checks, runner } = recorder()
      describeProvider(provider, SOUND_FIXTURES, runner)
      const named = recorder()
      describeProvider('sound', () => new SoundProvider(), SOUND_FIXTURES, named.runner)
      expect(checks.map(({ name }) => name)).toEqual(named.checks.map(({ name }) => name))
      await checks.find(({ name }) => name.includes('declares values of the right kind'))?.body()
    },
    60_000,
  )

  it('says that two integrations are not told apart where the schema takes no other credentials', () => {
    const todo = /^does not show whether one integration is kept apart.*`otherCredentials`/
    const asked = (fixtures = SOUND_FIXTURES) => {
      const { checks, runner } = recorder()
      const credentialsSchema = ofTokens('a-token-of-a-test')
      describeProvider('tickets', () => Object.assign(new SoundProvider(), { credentialsSchema }), fixtures, runner)
      return checks.map(({ name }) => name)
    }
    expect(asked().filter((name) => todo.test(name))).toHaveLength(1)
    const otherCredentials = { ...SOUND_FIXTURES.credentials, access_token: 'another-token-of-a-test' }
    expect(asked({ ...SOUND_FIXTURES, otherCredentials }).filter((name) => todo.test(name))).toEqual([])
  })

  it('asks nothing else of what can not be registered, and says why', async () => {
    const { checks, runner } = recorder()
    describeProvider('not an identifier', () => new SoundProvider(), SOUND_FIXTURES, runner)
    expect(checks).toHaveLength(1)
    await expect(checks[0]?.body()).rejects.toThrow(/an identifier is 1 to 64 of a-z/)
  }, 60_000)
})

describe('checks that are asked for at once', () => {
  const sound = { identifier: 'tickets', provider: () => new SoundProvider(), fixtures: SOUND_FIXTURES }

  it('run one after another, and leave the process as it was', async () => {
    const benches = [await Bench.open(sound), await Bench.open(sound)] as const
    const [{ fetch }, order] = [globalThis, [] as string[]]
    let release = () => {}
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    const first = benches[0].run(async () => {
      order.push('the first begins')
      await held
      order.push('the first ends')
    })
    const second = benches[1].run(async () => {
      order.push('the second begins')
    })
    release()
    await Promise.all([first, second])
    expect(order).toEqual(['the first begins', 'the first ends', 'the second begins'])
    expect(globalThis.fetch).toBe(fetch)
    for (const bench of benches) await bench.close()
  }, 60_000)

  it('do not wait for one that never ends', async () => {
    const bench = await Bench.open(sound, { patienceSeconds: 0.02 })
    const endless = bench.run(() => new Promise(() => {}))
    const next = bench.run(async () => {})
    await expect(endless).rejects.toThrow('the check did not end within 0.1 s')
    await next
    await bench.close()
  }, 60_000)
})

describe('a played transport', () => {
  it('is answered by a function of the request, and its requests are kept', async () => {
    const transport = playedTransport((request) => Response.json({ path: new URL(request.url).pathname }))
    const kit = await createTestIntegrations({ transport, providers: { tickets: {} } })
    try {
      const integration = await kit.integrations.create({ provider: 'tickets', name: 'one', credentials: {} })
      expect(await integration.at('/things').get('https://api.example.com/things?page=2')).toEqual({ path: '/things' })
      expect(transport.requests.map(({ method, url }) => `${method} ${url.search}`)).toEqual(['GET ?page=2'])
    } finally {
      await kit.close()
    }
  }, 60_000)

  it('breaks the connection by a throw, which is the cause, and ends with its caller', async () => {
    const reason = new Error('of a test')
    const broken = playedTransport(() => {
      throw reason
    })
    await expect(broken.fetch('https://api.example.com')).rejects.toMatchObject({
      message: 'fetch failed',
      cause: { code: 'ECONNRESET', cause: reason },
    })
    const abort = new AbortController()
    const hanging = playedTransport(() => new Promise(() => {}))
    const asked = hanging.fetch('https://api.example.com', { signal: abort.signal })
    abort.abort(reason)
    await expect(asked).rejects.toBe(reason)
  })
})

function recorder() {
  const checks: { name: string; body: () => Promise<void> }[] = []
  const runner: SuiteRunner = {
    describe: (_name, body) => body(),
    it: (name, body) => checks.push({ name, body }),
  }
  return { checks, runner }
}
