/** Whether a process of ours traces. The SDK is loaded by what this returns, never before. Rule: docs/behaviour/tracing.md, "Switching it on". */
import { ProxyTracerProvider, trace } from '@opentelemetry/api'
import type { Logger } from '../framework/logger.ts'
import { errorLine } from '../framework/logger.ts'
import { inTime } from '../framework/waiting.ts'
import { wantedTraceId } from './spans.ts'

export interface Tracing {
  /** Sends what is left, within a time limit. Never throws. */
  end(): Promise<void>
}

const NOT_TRACING: Tracing = { end: async () => {} }
/** How long the end of a process waits for a collector that does not answer. */
const LAST_EXPORT_MS = 3_000
/** The one protocol that our exporter speaks. */
const PROTOCOL = 'http/protobuf'

/**
 * Traces when the environment names a collector (`OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`). What can't
 * be had is a warning: a process that works is worth more than its traces.
 *
 * @param service its name where `OTEL_SERVICE_NAME` gives none
 */
export async function startTracing({ service, logger }: { service: string; logger: Logger }): Promise<Tracing> {
  const environment = process.env
  if (!isAskedFor(environment)) return NOT_TRACING
  if (isHostTracing()) {
    logger.info({ event: 'tracing.of_host' }, "traces go where the host's own OpenTelemetry SDK sends them")
    return NOT_TRACING
  }
  const protocol = environment.OTEL_EXPORTER_OTLP_TRACES_PROTOCOL || environment.OTEL_EXPORTER_OTLP_PROTOCOL
  if (protocol && protocol !== PROTOCOL) {
    logger.warn(
      { event: 'tracing.refused', protocol },
      `no traces are sent: OTEL_EXPORTER_OTLP_PROTOCOL allows "${PROTOCOL}" only`,
    )
    return NOT_TRACING
  }
  try {
    const { registerSdk } = await import('./tracing-sdk.ts')
    const sdk = registerSdk({ service, logger }, wantedTraceId)
    logger.info({ event: 'tracing.started' }, 'traces are sent to the collector that OTEL_EXPORTER_OTLP_… names')
    return { end: () => endWithin(sdk, logger) }
  } catch (error) {
    logger.warn({ event: 'tracing.refused', error: errorLine(error, 300) }, 'no traces are sent')
    return NOT_TRACING
  }
}

function isAskedFor(environment: NodeJS.ProcessEnv): boolean {
  // https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/: true in any case, nothing else.
  if (environment.OTEL_SDK_DISABLED?.trim().toLowerCase() === 'true') return false
  if (environment.OTEL_TRACES_EXPORTER?.trim().toLowerCase() === 'none') return false
  const endpoints = [environment.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, environment.OTEL_EXPORTER_OTLP_ENDPOINT]
  return endpoints.some((endpoint) => (endpoint ?? '').trim() !== '')
}

function isHostTracing(): boolean {
  const provider = trace.getTracerProvider()
  return !(provider instanceof ProxyTracerProvider) || provider.getDelegateTracer('durable-integrations') !== undefined
}

async function endWithin(sdk: { shutdown(): Promise<void> }, logger: Logger): Promise<void> {
  try {
    const isSent = await inTime(
      sdk.shutdown().then(() => true),
      LAST_EXPORT_MS,
    )
    if (!isSent)
      logger.warn({ event: 'tracing.cut_short', waited_ms: LAST_EXPORT_MS }, 'the last spans could not be sent in time')
  } catch (error) {
    logger.warn({ event: 'tracing.cut_short', error: errorLine(error, 300) }, 'the last spans could not be sent')
  }
}
