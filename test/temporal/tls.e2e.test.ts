/** The connection by the environment, against a front that wants TLS: of the client, and of the worker's own connection. */
import { rmSync } from 'node:fs'
import { NativeConnection } from '@temporalio/worker'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ConfigurationProblem } from '../../src/framework/errors.ts'
import type { TemporalOptions } from '../../src/temporal/connection.ts'
import {
  checkTemporal,
  closeClient,
  connectionOptions,
  lazyClient,
  temporalAddress,
  withTemporalEnvironment,
} from '../../src/temporal/connection.ts'
import type { Certificates } from '../support/certificates.ts'
import { makeCertificates } from '../support/certificates.ts'
import { shareDevServer } from '../support/dev-server.ts'
import type { TlsProxy } from '../support/tls-proxy.ts'
import { startTlsProxy } from '../support/tls-proxy.ts'
import { silenceTemporal } from '../workflows/stage.ts'

const NAME = 'temporal.test'
const KEY = 'key-of-the-tests'

let server: Awaited<ReturnType<typeof shareDevServer>>
let certificates: Certificates
let mutual: TlsProxy
let keyed: TlsProxy

beforeAll(async () => {
  silenceTemporal()
  certificates = makeCertificates(NAME)
  server = await shareDevServer()
  mutual = await startTlsProxy(server.address, certificates, { asksForCertificate: true })
  keyed = await startTlsProxy(server.address, certificates, { asksForCertificate: false })
})

afterAll(async () => {
  await mutual?.close()
  await keyed?.close()
  await server?.release()
  if (certificates !== undefined) rmSync(certificates.folder, { recursive: true, force: true })
})

function optionsBy(address: string, environment: Record<string, string>): TemporalOptions {
  const problems: ConfigurationProblem[] = []
  const options = withTemporalEnvironment({ address, namespace: 'default' }, environment, problems)
  expect(problems).toEqual([])
  return options
}

const trust = () => ({
  TEMPORAL_TLS_SERVER_CA_CERT_PATH: certificates.authority,
  TEMPORAL_TLS_SERVER_NAME: NAME,
})
const own = () => ({
  TEMPORAL_TLS_CLIENT_CERT_PATH: certificates.client.certificate,
  TEMPORAL_TLS_CLIENT_KEY_PATH: certificates.client.key,
})

async function asClient(options: TemporalOptions): Promise<string> {
  const client = lazyClient(options)
  try {
    await checkTemporal(client, temporalAddress(options))
    return 'connected'
  } catch (error) {
    return (error as { code?: string }).code ?? String(error)
  } finally {
    await closeClient(client)
  }
}

async function asWorker(options: TemporalOptions): Promise<string> {
  let connection: NativeConnection | undefined
  try {
    connection = await NativeConnection.connect(connectionOptions(options))
    await connection.workflowService.describeNamespace({ namespace: 'default' })
    return 'connected'
  } catch {
    return 'refused'
  } finally {
    await connection?.close()
  }
}

describe.each([
  ['the client', asClient, 'backend_unreachable'],
  ["the worker's connection", asWorker, 'refused'],
] as const)('%s', (_, connect, refused) => {
  it('shows its certificate where it is asked for one, and checks that of the server', async () => {
    expect(await connect(optionsBy(mutual.address, { ...trust(), ...own() }))).toBe('connected')
  })

  // Each is given up after 5 s: they wait beside each other.
  it.concurrent.each([
    ['without a certificate of its own', () => trust()],
    ['under another name than its own', () => ({ ...trust(), ...own(), TEMPORAL_TLS_SERVER_NAME: 'other.test' })],
    ['with an authority that nobody told of', () => ({ ...own(), TEMPORAL_TLS_SERVER_NAME: NAME })],
    ['without TLS', () => ({ ...trust(), ...own(), TEMPORAL_TLS: 'false' })],
  ])('is refused %s', async (__, environment) => {
    expect(await connect(optionsBy(mutual.address, environment()))).toBe(refused)
  })

  it('sends the API key with each call', async () => {
    keyed.authorizations.length = 0
    expect(await connect(optionsBy(keyed.address, { ...trust(), TEMPORAL_API_KEY: KEY }))).toBe('connected')
    expect(new Set(keyed.authorizations)).toEqual(new Set([`Bearer ${KEY}`]))
  })
})
