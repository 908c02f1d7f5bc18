import { describe, expect, it } from 'vitest'
import { inPlaceOfTheShells, withheld } from '../../dev/environment.ts'

describe('what the processes of npm start get of its environment', () => {
  it('is what they read and what any process needs', () => {
    const needed = ['PATH', 'HOME', 'TZ', 'LC_ALL', 'NODE_OPTIONS', 'NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE']
    const ours = [
      'DATABASE_URL',
      'INTEGRATIONS_DEV',
      'INTEGRATIONS__SYNC__QUEUE',
      'LOG_LEVEL',
      'TEMPORAL_TLS',
      'OTEL_SERVICE_NAME',
    ]
    const others = [
      'AWS_SECRET_ACCESS_KEY',
      'GITHUB_TOKEN',
      'npm_config_registry',
      'SSH_AUTH_SOCK',
      'PATHOLOGY',
      'INTEGRATIONSX',
    ]
    const environment = Object.fromEntries([...needed, ...ours, ...others].map((name) => [name, 'x']))
    expect(withheld(environment)).toEqual(Object.fromEntries(others.map((name) => [name, undefined])))
  })
})

describe('what they get in place of what the shell has for another deployment', () => {
  const shell = {
    TEMPORAL_ADDRESS: 'temporal.example:7233',
    TEMPORAL_NAMESPACE: 'acme.a1b2c',
    TEMPORAL_API_KEY: 'a-key',
    TEMPORAL_TLS: 'true',
    INTEGRATIONS_ENCRYPTION_KEYS: 'k1:x',
    NODE_ENV: 'production',
  }

  it('says how to get into a server of its own, and nothing of the way into another one', () => {
    expect(inPlaceOfTheShells(shell, true)).toMatchObject({
      TEMPORAL_NAMESPACE: 'default',
      TEMPORAL_API_KEY: '',
      TEMPORAL_TLS: '',
    })
    expect(Object.keys(inPlaceOfTheShells({}, true)).filter((name) => name.startsWith('TEMPORAL_'))).toEqual([
      'TEMPORAL_NAMESPACE',
    ])
  })

  it('leaves the way into a server that was there, and its namespace', () => {
    expect({ ...shell, ...inPlaceOfTheShells(shell, false) }).toMatchObject({
      TEMPORAL_NAMESPACE: 'acme.a1b2c',
      TEMPORAL_API_KEY: 'a-key',
      TEMPORAL_TLS: 'true',
    })
    expect(inPlaceOfTheShells({ TEMPORAL_NAMESPACE: '' }, false).TEMPORAL_NAMESPACE).toBe('default')
  })

  it('has no second key, and is not production', () => {
    expect(inPlaceOfTheShells(shell, true)).toMatchObject({ INTEGRATIONS_ENCRYPTION_KEYS: '', NODE_ENV: 'development' })
    expect(inPlaceOfTheShells({ NODE_ENV: 'test' }, true).NODE_ENV).toBe('test')
  })

  it('names its tables and cache keys, also where they are the usual ones', () => {
    expect(inPlaceOfTheShells({ INTEGRATIONS__TABLE_PREFIX: 'acme' }, true)).toMatchObject({
      INTEGRATIONS__TABLE_PREFIX: 'acme',
      INTEGRATIONS__CACHE_PREFIX: '',
    })
  })
})
