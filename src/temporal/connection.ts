import type { Client } from '@temporalio/client'
import { BackendUnreachable } from '../core/errors.ts'
import { errorLine } from '../core/logger.ts'
import { sdk } from './sdk.ts'

/** Where Temporal is and how to get in. */
export interface TemporalOptions {
  /** `host:port`. Default: TEMPORAL_ADDRESS, else localhost:7233. */
  readonly address?: string
  /** Default: TEMPORAL_NAMESPACE, else `default`. */
  readonly namespace?: string
  /** Temporal Cloud, or a cluster that asks for keys. Turns TLS on. */
  readonly apiKey?: string
  readonly tls?: boolean | { readonly clientCertPair: { readonly crt: Buffer; readonly key: Buffer } }
}

export interface TemporalAddress {
  readonly address: string
  readonly namespace: string
}

const CONNECT_TIMEOUT_MS = 5_000

export function temporalAddress(
  options: TemporalOptions,
  environment: NodeJS.ProcessEnv = process.env,
): TemporalAddress {
  return {
    address: options.address ?? (environment.TEMPORAL_ADDRESS || 'localhost:7233'),
    namespace: options.namespace ?? (environment.TEMPORAL_NAMESPACE || 'default'),
  }
}

/** TLS and API key as the SDK's connections, of client and worker alike, take them. */
export function connectionOptions(options: TemporalOptions) {
  const tls = options.tls ?? options.apiKey !== undefined
  return {
    address: temporalAddress(options).address,
    ...(tls === false ? {} : { tls: tls === true ? true : { clientCertPair: tls.clientCertPair } }),
    ...(options.apiKey === undefined ? {} : { apiKey: options.apiKey }),
  }
}

/** A client that connects when it is first used, so that a process can start while Temporal is away. */
export function lazyClient(options: TemporalOptions): Client {
  const { Client, Connection } = sdk()
  const connection = Connection.lazy({ ...connectionOptions(options), connectTimeout: CONNECT_TIMEOUT_MS })
  return new Client({ connection, namespace: temporalAddress(options).namespace })
}

/** @throws BackendUnreachable when Temporal does not answer within 5 s */
export async function checkTemporal(client: Client, { address, namespace }: TemporalAddress): Promise<void> {
  try {
    await client.connection.withDeadline(Date.now() + CONNECT_TIMEOUT_MS, async () => {
      await client.connection.ensureConnected()
      await client.workflowService.describeNamespace({ namespace })
    })
  } catch (error) {
    throw new BackendUnreachable('Temporal', address, {
      cause: error,
      remedy: `Check that it runs, that TEMPORAL_ADDRESS is right and that the namespace "${namespace}" exists (${errorLine(error, 200)}).`,
    })
  }
}
