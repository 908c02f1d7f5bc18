import { describe, expect, it } from 'vitest'
import { address } from '../../src/bin/listen-address.ts'

describe('where the API listens', () => {
  it.each([
    [{}, { hostname: '127.0.0.1', port: 3000 }],
    [{ PORT: '8080' }, { hostname: '127.0.0.1', port: 8080 }],
    [{ PORT: '0' }, { hostname: '127.0.0.1', port: 0 }],
    [
      { PORT: '65535', HOST: '0.0.0.0' },
      { hostname: '0.0.0.0', port: 65_535 },
    ],
    // Empty counts as unset, as everywhere in the environment.
    [
      { PORT: '', HOST: '' },
      { hostname: '127.0.0.1', port: 3000 },
    ],
  ])('%j: %j', (environment, where) => {
    expect(address(environment)).toEqual(where)
  })

  it.each(['65536', '-1', '3000.5', '3e3', '0x50', 'http', '3000 ', '100000', '٣'])('refuses PORT %j', (PORT) => {
    expect(() => address({ PORT })).toThrow(
      expect.objectContaining({
        code: 'invalid_configuration',
        problems: [{ key: 'PORT', expected: 'an integer from 0 to 65535', received: JSON.stringify(PORT) }],
      }),
    )
  })
})
