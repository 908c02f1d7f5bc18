import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { IntegrationProvider } from '../../src/providers/contracts.ts'
import { contractsOf } from '../../src/providers/contracts.ts'
import type { ProviderSource } from '../../src/providers/registry.ts'
import { ProviderRegistry } from '../../src/providers/registry.ts'
import { signatureOf } from '../../src/providers/signatures/declared-signature.ts'

const bare: IntegrationProvider = {}

function refusal(run: () => unknown): string {
  try {
    run()
  } catch (error) {
    expect(error).toMatchObject({ code: 'invalid_provider' })
    return (error as Error).message
  }
  throw new Error('it was not refused')
}

function registered(source: ProviderSource): IntegrationProvider {
  const registry = new ProviderRegistry()
  registry.register('demo', source)
  return registry.get('demo')
}

describe('the identifier of a provider', () => {
  it.each(['a', '0a', 'github', 'git-hub_2', '2-', '0_', `g${'x'.repeat(63)}`])('may be %s', (key) => {
    const registry = new ProviderRegistry()
    registry.register(key, bare)
    expect(registry.get(key)).toBe(bare)
  })

  it.each([
    ['empty', ''],
    ['all digits', '123'],
    ['a zero', '0'],
    ['upper case', 'GitHub'],
    ['with a dash first', '-a'],
    ['with an underscore first', '_a'],
    ['65 long', 'x'.repeat(65)],
    ['with a dot', 'git.hub'],
    ['with a slash', 'git/hub'],
    ['with a space', 'git hub'],
    ['with a line break at the end', 'github\n'],
    ['with another letter', 'gïthub'],
    ['__proto__', '__proto__'],
  ])('must not be %s', (_, key) => {
    const message = refusal(() => new ProviderRegistry().register(key, bare))
    expect(message).toContain(`"${key}"`)
    expect(message).toContain('1 to 64 of a-z, 0-9, "_" and "-", and not all digits')
  })

  it('is never taken for an id of the webhook routes', () => {
    const key = fc.string({ unit: fc.constantFrom('0', '1', '9', 'a', '_', '-'), minLength: 1, maxLength: 5 })
    fc.assert(
      fc.property(key, (given) => {
        const registry = new ProviderRegistry()
        let taken = true
        try {
          registry.register(given, bare)
        } catch {
          taken = false
        }
        expect(taken).toBe(/^[0-9a-z]/.test(given) && !/^\d+$/.test(given))
      }),
    )
  })
})

describe('registering', () => {
  it('refuses a taken key, and keeps who has it', () => {
    const registry = new ProviderRegistry()
    registry.register('github', bare)
    expect(refusal(() => registry.register('github', {}))).toMatch(/"github".*taken.*\{replace: true\}/)
    expect(registry.get('github')).toBe(bare)
  })

  it('replaces when told to', () => {
    const registry = new ProviderRegistry()
    const other: IntegrationProvider = { label: 'other' }
    registry.register('github', bare)
    registry.register('github', other, { replace: true })
    registry.register('new', other, { replace: true })
    expect(registry.get('github')).toBe(other)
    expect(registry.keys()).toEqual(['github', 'new'])
  })

  it('leaves the old one in place when the new one is refused', () => {
    const registry = new ProviderRegistry()
    registry.register('github', bare)
    const half = { handleWebhook: () => {} } as IntegrationProvider
    refusal(() => registry.register('github', half, { replace: true }))
    expect(registry.get('github')).toBe(bare)
  })

  it('takes an instance, a class, or a function, and makes it once', () => {
    let made = 0
    class Demo {
      readonly label = 'demo'
      constructor() {
        made += 1
      }
    }
    const registry = new ProviderRegistry()
    const instance = new Demo()
    registry.register('instance', instance)
    registry.register('class', Demo)
    registry.register('function', () => new Demo())
    registry.register('function-keyword', function make() {
      return new Demo()
    })
    expect(made).toBe(4)
    expect(registry.get('instance')).toBe(instance)
    for (const key of ['class', 'function', 'function-keyword']) {
      expect(registry.get(key)).toBeInstanceOf(Demo)
      expect(registry.get(key)).toBe(registry.get(key))
    }
    expect(made).toBe(4)
  })

  it('takes a class without a name, and one in which methods are inherited', () => {
    class Base {
      readonly label = 'base'
      verifyWebhookSignature = () => true
      handleWebhook() {}
    }
    expect(registered(class extends Base {})).toBeInstanceOf(Base)
  })

  it.each<[string, unknown]>([
    ['undefined', undefined],
    ['null', null],
    ['a text', 'github'],
    ['a function that returns nothing', () => undefined],
    ['a function that returns a text', () => 'github'],
    ['an async function', async () => bare],
  ])('refuses %s', (_, source) => {
    expect(refusal(() => registered(source as ProviderSource))).toContain(
      'a provider is an object, a class, or a function that returns an object',
    )
  })
})

describe('a contract implemented by halves', () => {
  const method = () => null as never

  it.each<[string, object, string]>([
    [
      'webhooks without a signature',
      { handleWebhook: method },
      'HandlesWebhooks lacks signature or verifyWebhookSignature',
    ],
    ['webhooks without a handler', { verifyWebhookSignature: method }, 'HandlesWebhooks lacks handleWebhook'],
    [
      'a sync without its reducer',
      { sync: method, defaultRateLimit: method },
      'HasScheduledSync lacks reduceCheckpoints',
    ],
    [
      'a sync without its limit',
      { sync: method, reduceCheckpoints: method },
      'HasScheduledSync lacks defaultRateLimit',
    ],
    ['a sync alone', { sync: method }, 'HasScheduledSync lacks reduceCheckpoints, defaultRateLimit'],
    ['a reducer alone', { reduceCheckpoints: method }, 'HasScheduledSync lacks sync, defaultRateLimit'],
    [
      'an incremental sync alone',
      { syncIncremental: method },
      'HasIncrementalSync lacks sync, reduceCheckpoints, defaultRateLimit',
    ],
    [
      'OAuth without three of its members',
      { authorizationUrl: method, refreshToken: method },
      'HasOAuth2 lacks exchangeCode, revokeToken, refreshThreshold',
    ],
    [
      'idempotency without its window',
      { supportsIdempotency: true },
      'SupportsIdempotency lacks idempotencyWindowSeconds',
    ],
    ['a window without idempotency', { idempotencyWindowSeconds: 60 }, 'SupportsIdempotency lacks supportsIdempotency'],
    [
      'a member that is null',
      { handleWebhook: method, verifyWebhookSignature: null },
      'HandlesWebhooks lacks signature or verifyWebhookSignature',
    ],
    [
      'a member that is no method',
      { handleWebhook: method, verifyWebhookSignature: true },
      'HandlesWebhooks lacks signature or verifyWebhookSignature',
    ],
    [
      'two contracts',
      { handleWebhook: method, sync: method, defaultRateLimit: method },
      'HandlesWebhooks lacks signature or verifyWebhookSignature; HasScheduledSync lacks reduceCheckpoints',
    ],
  ])('is refused with what is missing: %s', (_, provider, missing) => {
    const message = refusal(() => registered(provider as IntegrationProvider))
    expect(message).toContain(missing)
    expect(message).toContain('"demo"')
  })

  it.each<[string, object]>([
    ['a limit alone', { defaultRateLimit: method }],
    ['no contract', {}],
    ['a health check alone', { healthCheck: method }],
    ['whole webhooks', { verifyWebhookSignature: method, handleWebhook: method }],
    ['a whole sync', { sync: method, reduceCheckpoints: method, defaultRateLimit: method }],
    ['whole idempotency', { supportsIdempotency: true, idempotencyWindowSeconds: 60 }],
    ['a retry rule alone', { isRetryable: method }],
    ['optional members of webhooks alone', { webhookHandlers: method }],
  ])('is not seen in %s', (_, provider) => {
    expect(registered(provider as IntegrationProvider)).toBe(provider)
  })
})

describe('a member that is a value', () => {
  const method = () => null as never
  const webhooks = { verifyWebhookSignature: method, handleWebhook: method }
  const managed = {
    createWebhookSubscription: method,
    webhookSubscriptions: method,
    renewWebhookSubscription: method,
    removeWebhookSubscription: method,
  }

  it.each<[object, string]>([
    [
      { ...webhooks, ...managed, webhookSecretFrom: 'ours' },
      `webhookSecretFrom must be 'us', 'provider' or 'none', or left out; it is "ours"`,
    ],
    [
      { ...webhooks, missedWebhooks: method, reconcileLookbackSeconds: '259200' },
      'reconcileLookbackSeconds must be a number of seconds above 0, or left out; it is "259200"',
    ],
    [{ ...webhooks, missedWebhooks: method, reconcileLookbackSeconds: 0 }, 'seconds above 0, or left out; it is 0'],
    [
      { supportsIdempotency: false, idempotencyWindowSeconds: 60 },
      'supportsIdempotency must be true, or left out; it is false',
    ],
    [{ supportsIdempotency: true, idempotencyWindowSeconds: Number.NaN }, 'idempotencyWindowSeconds must be a number'],
    [{ supportsIdempotency: true, idempotencyWindowSeconds: -1 }, 'seconds above 0, or left out; it is -1'],
    [{ supportsIdempotency: true, idempotencyWindowSeconds: Infinity }, 'above 0, or left out; it is Infinity'],
    [
      { defaultRateLimit: method, streams: () => ({}) },
      'streams must be an object with a stream under each name, and no method, or left out; it is a function; rename it if it is a method of your own',
    ],
    [{ handleWebhook: method, signature: 'hmac' }, `signature must be an object such as { scheme: 'hmac', … }`],
    [{ handleWebhook: method, signature: null }, 'it is null'],
    [
      { handleWebhook: method, signature: method },
      "signature must be an object such as { scheme: 'hmac', … }, and no method, or left out; it is a function; rename it",
    ],
  ])('and is wrong is refused with what is allowed and what it is: %j', (provider, words) => {
    const message = refusal(() => registered(provider as IntegrationProvider))
    expect(message).toContain(words)
    expect(message).not.toContain('lacks')
  })

  it('and is wrong is named beside what is missing', () => {
    const provider = { signature: 'hmac', sync: method, defaultRateLimit: method } as unknown as IntegrationProvider
    expect(refusal(() => registered(provider))).toMatch(
      /signature must be .*; HandlesWebhooks lacks handleWebhook; HasScheduledSync lacks reduceCheckpoints/,
    )
  })

  it.each<[string, object, string[]]>([
    ['signature', { ...webhooks, signature: method }, ['HandlesWebhooks']],
    ['signature', { signature: method }, []],
    ['streams', { streams: method }, []],
    [
      'streams',
      { streams: method, sync: method, reduceCheckpoints: method, defaultRateLimit: method },
      ['DeclaresRateLimit', 'HasScheduledSync'],
    ],
  ])('may be a method of the host’s own where the contract stands without it: %s of %j', (_, provider, contracts) => {
    expect(contractsOf(registered(provider as IntegrationProvider))).toEqual(contracts)
    expect(signatureOf(provider)).toBeUndefined()
  })

  it('and is undefined is not there', () => {
    const provider = { supportsIdempotency: undefined, streams: undefined } as unknown as IntegrationProvider
    expect(registered(provider)).toBe(provider)
  })
})

describe('looking up', () => {
  it('says who is there when somebody is not', () => {
    const registry = new ProviderRegistry()
    expect(() => registry.get('github')).toThrow(
      expect.objectContaining({ code: 'unknown_provider', message: expect.stringContaining('Registered: none') }),
    )
    registry.register('stripe', bare)
    registry.register('github', bare)
    expect(() => registry.get('gitlab')).toThrow(
      expect.objectContaining({
        provider: 'gitlab',
        registered: ['github', 'stripe'],
        message: expect.stringContaining('github, stripe'),
      }),
    )
    expect(registry.find('gitlab')).toBe(null)
    expect(registry.find('constructor')).toBe(null)
    expect(registry.find('github')).toBe(bare)
    expect(registry.entries()).toEqual([
      ['stripe', bare],
      ['github', bare],
    ])
  })
})
