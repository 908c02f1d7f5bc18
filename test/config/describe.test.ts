import { describe, expect, it } from 'vitest'
import type { ConfigEntry, LoadConfigOptions } from '../../src/config/load.ts'
import { describeConfig } from '../../src/config/load.ts'
import { CONFIG_KEYS } from '../../src/config/schema.ts'
import { loadConfig } from '../support/load-config.ts'

const DIGEST = 'ab'.repeat(32)
const SIGNING_SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`

function entries(options: LoadConfigOptions = {}): ReadonlyMap<string, ConfigEntry> {
  return new Map(describeConfig(loadConfig({ environment: {}, ...options })).map((entry) => [entry.key, entry]))
}

describe('the configuration in force, described', () => {
  it('has every key once, in the order of the reference, each with its default', () => {
    const described = [...entries().values()]
    const expected = [...CONFIG_KEYS].map(([key, { default: fallback, unit, meaning }]) => {
      return { key, value: fallback, source: 'default', default: fallback, unit, meaning }
    })
    expect(described).toEqual(expected)
  })

  it('says where each value came from', () => {
    const described = entries({
      config: { webhook: { max_attempts: 3, queue: 'hooks' }, table_prefix: 'acme' },
      environment: { INTEGRATIONS__WEBHOOK__MAX_ATTEMPTS: '5' },
    })
    expect(described.get('webhook.max_attempts')).toMatchObject({ value: 5, source: 'environment', default: 1 })
    expect(described.get('webhook.queue')).toMatchObject({ value: 'hooks', source: 'options', default: 'default' })
    expect(described.get('table_prefix')).toMatchObject({ value: 'acme', source: 'options' })
    expect(described.get('webhook.replay_window')).toMatchObject({ value: 300, source: 'default', unit: 'seconds' })
  })

  it('shows what is obeyed in the place of a value that is ignored', () => {
    const described = entries({ config: { logging: { max_response_bytes: 100 } } })
    expect(described.get('logging.max_response_bytes')).toMatchObject({ value: null, source: 'options' })
  })

  it("has the handlers' time that follows from another key as their default", () => {
    const derived = entries({ config: { webhook: { processing_timeout: 100 } } })
    expect(derived.get('webhook.handler_timeout')).toMatchObject({ value: 50, source: 'default', default: 50 })
    const given = entries({ config: { webhook: { processing_timeout: 100, handler_timeout: 20 } } })
    expect(given.get('webhook.handler_timeout')).toMatchObject({ value: 20, source: 'options', default: 50 })
  })

  it('masks secrets: how many there are, nothing of them', () => {
    const target = { url: 'https://hooks.example/PRIVATE', secret: SIGNING_SECRET }
    const described = entries({
      config: {
        operator: { tokens: [{ name: 'PRIVATE', sha256: DIGEST, scopes: ['read'] }] },
        notifications: { targets: [target, target] },
      },
    })
    expect(described.get('operator.tokens')?.value).toBe('1 entry (masked)')
    expect(described.get('notifications.targets')?.value).toBe('2 entries (masked)')
    const text = JSON.stringify([...described.values()])
    for (const secret of ['PRIVATE', DIGEST, SIGNING_SECRET]) expect(text).not.toContain(secret)
    expect(entries().get('operator.tokens')?.value).toEqual([])
  })
})
