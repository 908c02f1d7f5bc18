/**
 * The two files that a Temporal server reads: its configuration and its dynamic configuration. Both are YAML, of which JSON is
 * a part.
 *
 * Source: config/development-postgres12.yaml and common/dynamicconfig/constants.go of Temporal Server 1.29.1.
 */

/** What a single machine needs; it can't be changed once the tables are made. */
const HISTORY_SHARDS = 4
/** Of each of the four services. Postgres takes 200 in all (dev/postgres.ts). */
const CONNECTIONS = { main: 20, visibility: 10 }
/** Of the four services, in their order. */
const SERVICES = ['frontend', 'history', 'matching', 'worker'] as const
const LOOPBACK = '127.0.0.1'

/** As the dev server of `npm start` has them (dev/temporal-server.ts), so that the two can be compared. */
const DYNAMIC_CONFIG: Readonly<Record<string, boolean | number | readonly string[]>> = {
  'matching.enableFairness': true,
  'matching.numTaskqueueReadPartitions': 1,
  'matching.numTaskqueueWritePartitions': 1,
  'matching.rps': 100_000,
  'history.rps': 100_000,
  'history.transferProcessorMaxPollRPS': 1_000,
  'frontend.rps': 100_000,
  'frontend.namespaceRPS': 100_000,
  'frontend.namespaceRPS.visibility': 5_000,
  'frontend.namespaceCount': 20_000,
  'worker.schedulerNamespaceStartWorkflowRPS': 1_000,
  'frontend.enableServerVersionCheck': false,
  'frontend.httpAllowedHosts': ['nobody.invalid'],
  'system.enableActivityEagerExecution': true,
  'system.enableNexus': false,
}

export const DATABASES = { main: 'temporal', visibility: 'temporal_visibility' } as const

export interface ServicePorts {
  readonly grpc: number
  /** By which the services of a cluster find each other. */
  readonly membership: number
}

export interface ConfigurationOptions {
  /** Of the Postgres, with its user and password. */
  readonly databaseUrl: URL
  /** In the order of the services. */
  readonly ports: readonly ServicePorts[]
  /** Path of the other file. */
  readonly dynamicConfigFile: string
}

export const SERVICE_COUNT = SERVICES.length

export function serverConfiguration({ databaseUrl, ports, dynamicConfigFile }: ConfigurationOptions): string {
  const store = (databaseName: string, connections: number) => ({
    sql: {
      pluginName: 'postgres12',
      databaseName,
      connectAddr: databaseUrl.host,
      connectProtocol: 'tcp',
      user: databaseUrl.username,
      password: decodeURIComponent(databaseUrl.password),
      maxConns: connections,
      maxIdleConns: connections,
      maxConnLifetime: '1h',
    },
  })
  const frontend = `${LOOPBACK}:${ports[0]?.grpc}`
  return JSON.stringify(
    {
      log: { stdout: true, level: 'warn', format: 'json' },
      persistence: {
        defaultStore: 'main',
        visibilityStore: 'visibility',
        numHistoryShards: HISTORY_SHARDS,
        datastores: {
          main: store(DATABASES.main, CONNECTIONS.main),
          visibility: store(DATABASES.visibility, CONNECTIONS.visibility),
        },
      },
      global: { membership: { maxJoinDuration: '30s', broadcastAddress: LOOPBACK } },
      services: Object.fromEntries(
        SERVICES.map((service, at) => [
          service,
          { rpc: { grpcPort: ports[at]?.grpc, membershipPort: ports[at]?.membership, bindOnIP: LOOPBACK } },
        ]),
      ),
      clusterMetadata: {
        enableGlobalNamespace: false,
        failoverVersionIncrement: 10,
        masterClusterName: 'active',
        currentClusterName: 'active',
        clusterInformation: {
          active: { enabled: true, initialFailoverVersion: 1, rpcName: 'frontend', rpcAddress: frontend },
        },
      },
      dcRedirectionPolicy: { policy: 'noop' },
      archival: { history: { state: 'disabled' }, visibility: { state: 'disabled' } },
      namespaceDefaults: {
        archival: { history: { state: 'disabled' }, visibility: { state: 'disabled' } },
      },
      dynamicConfigClient: { filepath: dynamicConfigFile, pollInterval: '60s' },
    },
    null,
    2,
  )
}

export function dynamicConfiguration(): string {
  const entries = Object.entries(DYNAMIC_CONFIG).map(([key, value]) => [key, [{ value, constraints: {} }]])
  return JSON.stringify(Object.fromEntries(entries), null, 2)
}
