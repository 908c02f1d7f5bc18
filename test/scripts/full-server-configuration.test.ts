import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { dynamicConfiguration, serverConfiguration } from '../../scripts/full-server/configuration.ts'

const PORTS = [20_001, 20_003, 20_005, 20_007].map((grpc) => ({ grpc, membership: grpc + 1 }))

interface Configuration {
  readonly persistence: { readonly datastores: Record<string, { readonly sql: Record<string, unknown> }> }
  readonly services: Record<string, { readonly rpc: Record<string, unknown> }>
  readonly clusterMetadata: { readonly clusterInformation: { readonly active: Record<string, unknown> } }
}

function configuration(): Configuration {
  const databaseUrl = new URL('postgres://temporal:p%40ss@127.0.0.1:5433/temporal')
  return JSON.parse(serverConfiguration({ databaseUrl, ports: PORTS, dynamicConfigFile: '/dynamic.yaml' }))
}

describe('the configuration of the full Temporal server', () => {
  it('listens on the loopback interface only, each service on two ports of its own', () => {
    const { services, clusterMetadata } = configuration()
    expect(Object.keys(services)).toEqual(['frontend', 'history', 'matching', 'worker'])
    const listeners = Object.values(services).map(({ rpc }) => rpc)
    for (const { bindOnIP } of listeners) expect(bindOnIP).toBe('127.0.0.1')
    const ports = listeners.flatMap(({ grpcPort, membershipPort }) => [grpcPort, membershipPort])
    expect(ports).toEqual([20_001, 20_002, 20_003, 20_004, 20_005, 20_006, 20_007, 20_008])
    expect(clusterMetadata.clusterInformation.active.rpcAddress).toBe('127.0.0.1:20001')
  })

  it('keeps histories and what is searched in two databases of the given Postgres', () => {
    const { main, visibility } = configuration().persistence.datastores
    const given = { pluginName: 'postgres12', connectAddr: '127.0.0.1:5433', user: 'temporal', password: 'p@ss' }
    expect(main?.sql).toMatchObject({ ...given, databaseName: 'temporal' })
    expect(visibility?.sql).toMatchObject({ ...given, databaseName: 'temporal_visibility' })
  })

  it('has the dynamic configuration of the dev server, so that the two can be compared', () => {
    const source = readFileSync(new URL('../../dev/temporal-server.ts', import.meta.url), 'utf8')
    const [, table = ''] = /const DYNAMIC_CONFIG[^{]*\{(.*?)\n\}/s.exec(source) ?? []
    const wanted = [...table.matchAll(/^ {2}'([^']+)': '([^']+)'/gm)].map(([, key, value]) => [key, String(value)])
    const has = Object.entries(JSON.parse(dynamicConfiguration()) as Record<string, { value: unknown }[]>)
    expect(wanted.length).toBeGreaterThan(5)
    expect(has.map(([key, [entry]]) => [key, JSON.stringify(entry?.value)])).toEqual(wanted)
  })
})
