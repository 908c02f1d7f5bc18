import { createRequire } from 'node:module'
import type { Client, GrpcRetryOptions, WorkflowClientInterceptor } from '@temporalio/client'
import type { TemporalTls } from '../config/temporal-tls.ts'
import { temporalTlsOf } from '../config/temporal-tls.ts'
import type { ConfigurationProblem } from '../framework/errors.ts'
import { BackendUnreachable } from '../framework/errors.ts'
import { errorLine } from '../framework/logger.ts'
import { shellWord } from '../framework/shell-word.ts'
import { activeTraceparent } from '../observability/spans.ts'
import { TRACE_HEADER } from '../observability/traced-run.ts'

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
/** A process that ends waits for the SDK's timer of a retry. */
const MAX_CALL_RETRY_MS = 1_000
const CHANNEL_ARGS = {
  // A channel that failed to connect answers every call with that failure until its next try: by gRPC's default 2 minutes
  // later after a long outage (https://github.com/grpc/grpc/blob/master/doc/connection-backoff.md).
  'grpc.max_reconnect_backoff_ms': 2_000,
  // `https_proxy` and its like would be asked for any address, also for one on this machine. A worker's connection knows no proxy.
  'grpc.enable_http_proxy': 0,
}

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

export function temporalAddress(options: TemporalOptions): TemporalAddress {
  const { TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE } = process.env
  return {
    address: options.address ?? (TEMPORAL_ADDRESS || 'localhost:7233'),
    namespace: options.namespace ?? (TEMPORAL_NAMESPACE || 'default'),
  }
}

/** TLS and API key as the SDK's connections, of client and worker alike, take them. */
export function connectionOptions(options: TemporalOptions) {
  const tls = options.tls ?? options.apiKey !== undefined
  return {
    address: temporalAddress(options).address,
    // Always given: the SDK would turn it on for an API key.
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

/** Closes the connection of a `lazyClient()`. A call that waits to be tried again fails as its last try did. */
export async function closeClient({ connection }: Client): Promise<void> {
  RETRIES.get(connection)?.end()
  await connection.close()
}

const RETRIES = new WeakMap<object, CallRetries>()

type Interceptor = ReturnType<Sdk['makeGrpcRetryInterceptor']>
type NextCall = Parameters<Interceptor>[1]
type CallStatus = Parameters<GrpcRetryOptions['retryableDecider']>[1]

/**
 * The SDK's own retries of calls that failed for the moment. It has no way to call one off that waits, also where its call
 * was aborted: its timer would make a call on a closed connection, which throws where nothing catches it, and ends the process.
 * So a try that comes after the end gets a call that fails at once.
 */
class CallRetries {
  #isEnding = false

  interceptor(): Interceptor {
    const { defaultGrpcRetryOptions, makeGrpcRetryInterceptor } = sdk()
    const usual = defaultGrpcRetryOptions()
    return (options, nextCall) => {
      let lastFailure: CallStatus | undefined
      const retried = makeGrpcRetryInterceptor({
        retryableDecider: (attempt, status) => {
          lastFailure = status
          return !this.#isEnding && usual.retryableDecider(attempt, status)
        },
        delayFunction: (attempt, status) => Math.min(usual.delayFunction(attempt, status), MAX_CALL_RETRY_MS),
      })
      const next: NextCall = (again) =>
        this.#isEnding && lastFailure !== undefined ? failedCall(lastFailure) : nextCall(again)
      return retried(options, next)
    }
  }

  /** Nothing is tried again from here on. */
  end(): void {
    this.#isEnding = true
  }
}

/** A call that reaches no server. */
function failedCall(status: CallStatus): ReturnType<NextCall> {
  const nothing = (): void => {}
  return {
    start: (_metadata, listener) => listener?.onReceiveStatus?.(status),
    cancelWithStatus: nothing,
    getPeer: () => '',
    sendMessageWithContext: nothing,
    sendMessage: nothing,
    startRead: nothing,
    halfClose: nothing,
    getAuthContext: () => null,
  }
}

const GRPC_NOT_FOUND = 5 // https://grpc.io/docs/guides/status-codes/

/** Whether Temporal answers, and has no such namespace. A workflow or Schedule that is not there has the same code. */
export function isWithoutNamespace(error: unknown): boolean {
  return [error, (error as { cause?: unknown } | null)?.cause].some((fault) => {
    const { code, details } = (fault ?? {}) as { readonly code?: unknown; readonly details?: unknown }
    return code === GRPC_NOT_FOUND && /^namespace\b/i.test(String(details))
  })
}

/** Makes it. The command takes an API key or TLS from its own environment. */
export function createNamespaceCommand({ address, namespace }: TemporalAddress): string {
  return `temporal operator namespace create --address ${shellWord(address)} --namespace ${shellWord(namespace)}`
}

/** What is thrown where Temporal did not answer. The client says of a failed call only what it was about; gRPC's words are in its cause. */
export function temporalUnreachable(where: TemporalAddress, error: unknown): BackendUnreachable {
  const { address, namespace } = where
  if (isWithoutNamespace(error))
    return new BackendUnreachable('Temporal', address, {
      cause: error,
      trouble: `Temporal answers at ${address}, but has no namespace "${namespace}"`,
      remedy: `Set TEMPORAL_NAMESPACE, or create it: ${createNamespaceCommand(where)}`,
    })
  const cause = error instanceof Error ? error.cause : undefined
  const why = cause === undefined ? errorLine(error, 300) : `${errorLine(error, 150)}: ${errorLine(cause, 150)}`
  return new BackendUnreachable('Temporal', address, {
    cause: error,
    remedy: `Check that it runs, that TEMPORAL_ADDRESS is right, as are TLS and key, that no firewall is between, and that the namespace "${namespace}" exists (${why}).`,
  })
}

/** @throws BackendUnreachable when Temporal does not answer within 5 s */
export async function checkTemporal(client: Client, where: TemporalAddress): Promise<void> {
  try {
    // Not by `ensureConnected()`, which keeps a failure for good: a server that came later would never be found.
    await client.connection.withDeadline(Date.now() + CONNECT_TIMEOUT_MS, () =>
      client.workflowService.describeNamespace({ namespace: where.namespace }),
    )
  } catch (error) {
    throw temporalUnreachable(where, error)
  }
}

type Headers = Parameters<NonNullable<WorkflowClientInterceptor['startWithDetails']>>[0]['headers']
type Payload = Headers[string]

/**
 * Writes the caller's trace as a header of a workflow's start. Rule: docs/behaviour/tracing.md, "Workflows".
 *
 * Starts only: a `signalWithStart` begins a workflow that works for many, and an inbox belongs to no delivery's trace.
 */
export const startsInTrace: WorkflowClientInterceptor = {
  startWithDetails(input, next) {
    const traceparent = activeTraceparent()
    if (traceparent === null) return next(input)
    return next({ ...input, headers: { ...input.headers, [TRACE_HEADER]: payloadOf(traceparent) } })
  },
}

/** As the SDK's default converter writes a string, so that whatever shows a history can show it. */
function payloadOf(text: string): Payload {
  return { metadata: { encoding: Buffer.from('json/plain') }, data: Buffer.from(JSON.stringify(text)) }
}

export type Sdk = typeof import('@temporalio/client')

const require = createRequire(import.meta.url)

/**
 * Temporal's client package, loaded when Temporal is first asked for anything. It takes a fifth of a second, which commands that
 * only read rows, and a host's tests, have no use for. An import of the package by name gives the same module, so `instanceof` holds.
 */
export function sdk(): Sdk {
  return require('@temporalio/client') as Sdk
}
