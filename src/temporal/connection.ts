import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@temporalio/client'
import type { TemporalTls } from '../config/temporal-tls.ts'
import { temporalTlsOf } from '../config/temporal-tls.ts'
import type { ConfigurationProblem } from '../core/errors.ts'
import { BackendUnreachable } from '../core/errors.ts'
import { errorLine } from '../core/logger.ts'
import { sdk } from './sdk.ts'
import { startsInTrace } from './trace-headers.ts'

/** Where Temporal is and how to get in. */
export interface TemporalOptions {
  /** `host:port`. Default: TEMPORAL_ADDRESS, else localhost:7233. */
  readonly address?: string
  /** Default: TEMPORAL_NAMESPACE, else `default`. */
  readonly namespace?: string
  /** Temporal Cloud, or a cluster that asks for keys. Turns TLS on. Default: TEMPORAL_API_KEY. */
  readonly apiKey?: string
  /** Default: what the variables TEMPORAL_TLS… say, else true with an API key. */
  readonly tls?: boolean | TemporalTls
}

export interface TemporalAddress {
  readonly address: string
  readonly namespace: string
}

const CONNECT_TIMEOUT_MS = 5_000
/** A process that ends waits for so long at most. */
const MAX_CALL_RETRY_MS = 1_000
/**
 * A channel that failed to connect answers every call with that failure until its next try: by gRPC's default 2 minutes
 * later after a long outage (https://github.com/grpc/grpc/blob/master/doc/connection-backoff.md).
 */
const CHANNEL_ARGS = { 'grpc.max_reconnect_backoff_ms': 2_000 }

/**
 * What is not given comes from the environment: key and TLS here, where the files are read once; address and namespace in
 * {@link temporalAddress}. Rule: docs/behaviour/workers.md, "The connection to Temporal".
 *
 * @param problems gets every fault
 */
export function withTemporalEnvironment(
  given: TemporalOptions,
  environment: NodeJS.ProcessEnv,
  problems: ConfigurationProblem[],
): TemporalOptions {
  const apiKey = given.apiKey ?? (environment.TEMPORAL_API_KEY || undefined)
  const tls = given.tls ?? temporalTlsOf(environment, problems)
  return { ...given, ...(apiKey === undefined ? {} : { apiKey }), ...(tls === undefined ? {} : { tls }) }
}

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
    // Said in so many words, as the SDK would turn it on for an API key.
    tls,
    ...(options.apiKey === undefined ? {} : { apiKey: options.apiKey }),
  }
}

/** A client that connects when it is first used, so that a process can start while Temporal is away. */
export function lazyClient(options: TemporalOptions): Client {
  const { Client, Connection } = sdk()
  const retries = new CallRetries()
  const connection = Connection.lazy({
    ...connectionOptions(options),
    connectTimeout: CONNECT_TIMEOUT_MS,
    channelArgs: CHANNEL_ARGS,
    interceptors: [retries.interceptor()],
  })
  RETRIES.set(connection, retries)
  const interceptors = { workflow: [startsInTrace] }
  return new Client({ connection, namespace: temporalAddress(options).namespace, interceptors })
}

/** Closes the connection of a `lazyClient()`, once nothing waits to be tried again on it. */
export async function closeClient({ connection }: Client): Promise<void> {
  await RETRIES.get(connection)?.end()
  await connection.close()
}

const RETRIES = new WeakMap<object, CallRetries>()

/**
 * The SDK's own retries of calls that failed for the moment. It has no way to call one off that waits, also where its call
 * was aborted: on a connection that is closed by then it throws where nobody catches, and ends the process.
 */
class CallRetries {
  #isEnding = false
  #lastAt = 0

  interceptor() {
    const { defaultGrpcRetryOptions, makeGrpcRetryInterceptor } = sdk()
    const usual = defaultGrpcRetryOptions()
    return makeGrpcRetryInterceptor({
      retryableDecider: (attempt, status) => !this.#isEnding && usual.retryableDecider(attempt, status),
      delayFunction: (attempt, status) => {
        const delayMs = Math.min(usual.delayFunction(attempt, status), MAX_CALL_RETRY_MS)
        this.#lastAt = Math.max(this.#lastAt, performance.now() + delayMs)
        return delayMs
      },
    })
  }

  /** Nothing is tried again from here on; waits for what already waits. */
  async end(): Promise<void> {
    this.#isEnding = true
    const leftMs = this.#lastAt - performance.now()
    // A timer may come up to a millisecond early.
    if (leftMs > 0) await sleep(leftMs + 2)
  }
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
