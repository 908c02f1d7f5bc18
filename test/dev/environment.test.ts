import { describe, expect, it } from 'vitest'
import { withheld } from '../../dev/environment.ts'

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
