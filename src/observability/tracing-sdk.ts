/**
 * OpenTelemetry's SDK as our api and worker processes set it up. Sampler, limits, batches, exporter and resource obey the
 * standard variables by themselves: docs/behaviour/tracing.md, "Variables".
 */
import { DiagLogLevel, diag } from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources'
import { BatchSpanProcessor, NodeTracerProvider, RandomIdGenerator } from '@opentelemetry/sdk-trace-node'
import type { Logger } from '../framework/logger.ts'
import { errorLine } from '../framework/logger.ts'

/** Warns of a collector that is away once a minute, not with every batch. */
const TOLD_EVERY_MS = 60_000

/**
 * @param service its name where the environment gives none
 * @param wantedTraceId of the trace that begins; null: any
 */
export function registerSdk(
  { service, logger }: { service: string; logger: Logger },
  wantedTraceId: () => string | null,
): { shutdown(): Promise<void> } {
  diag.setLogger(quietly(logger), { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true })
  const resource = defaultResource()
    .merge(resourceFromAttributes({ 'service.name': service }))
    .merge(detectResources({ detectors: [envDetector] }))
  const random = new RandomIdGenerator()
  const provider = new NodeTracerProvider({
    resource,
    idGenerator: {
      generateTraceId: () => wantedTraceId() ?? random.generateTraceId(),
      generateSpanId: () => random.generateSpanId(),
    },
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
  })
  provider.register()
  return provider
}

/** What the SDK says of itself, in our log. An exporter's error may be an object with the answer: its line only. */
function quietly(logger: Logger) {
  let toldAt = Number.NEGATIVE_INFINITY
  /** Since the line before; operations' RepeatedWarnings is not for this layer. */
  let times = 0
  const say = (message: string, ...rest: unknown[]): void => {
    times += 1
    const now = performance.now()
    if (now - toldAt < TOLD_EVERY_MS) return
    toldAt = now
    const [cause] = rest
    const error = cause === undefined ? message : `${message} ${errorLine(cause, 200)}`
    const fields = { event: 'tracing.trouble', error: error.slice(0, 300), times }
    logger.warn(fields, 'OpenTelemetry says that something is wrong')
    times = 0
  }
  const nothing = (): void => {}
  return { error: say, warn: say, info: nothing, debug: nothing, verbose: nothing }
}
