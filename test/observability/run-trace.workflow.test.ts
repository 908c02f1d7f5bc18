/** The trace of a run, by a real worker: of one that was started within a span, and of one that nobody who traces has started. */
import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { context, diag, SpanKind, trace } from '@opentelemetry/api'
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node'
import { WorkflowClient } from '@temporalio/client'
import type { TestWorkflowEnvironment } from '@temporalio/testing'
import type { WorkflowBundle } from '@temporalio/worker'
import { Worker } from '@temporalio/worker'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { tracedActivity } from '../../src/activities/traced.ts'
import { bundleWorkflows } from '../../src/create-workers.ts'
import { inSpan } from '../../src/observability/spans.ts'
import { startTracing } from '../../src/observability/tracing-start.ts'
import { startsInTrace } from '../../src/temporal/connection.ts'
import { createTimeSkippingEnvironment } from '../support/time-skipping.ts'
import { SHUTDOWN_FORCE_TIME, silenceTemporal } from '../workflows/stage.ts'
import { startCollector } from './collector.ts'
import type { SentSpan } from './otlp.ts'

const WORKFLOWS = fileURLToPath(new URL('./traced-workflows.ts', import.meta.url))
const NO_PARENT = null
/** Enough that not all of them, and not none, are in a half of all traces. */
const MANY = 16

let env: TestWorkflowEnvironment
let bundle: WorkflowBundle

beforeAll(async () => {
  silenceTemporal()
  ;[env, bundle] = await Promise.all([createTimeSkippingEnvironment(), bundleWorkflows(WORKFLOWS)])
})
afterAll(() => env?.teardown())
afterEach(() => {
  trace.disable()
  context.disable()
  diag.disable()
})

async function atWork<T>(work: (taskQueue: string) => Promise<T>): Promise<T> {
  const taskQueue = `traced-${randomUUID()}`
  const worker = await Worker.create({
    connection: env.nativeConnection,
    taskQueue,
    workflowBundle: bundle,
    activities: { step: async () => {} },
    interceptors: { activity: [tracedActivity] },
    shutdownForceTime: SHUTDOWN_FORCE_TIME,
  })
  return worker.runUntil(() => work(taskQueue))
}

/**
 * By a client that skips no time: for each result that is awaited the one of the environment takes a lock off the server's time. With
 * several at once they are those of activities that run, and the server skips to the end of a workflow's time, or hangs.
 *
 * @returns the id of the first execution
 */
async function ran(
  taskQueue: string,
  type: string,
  client = new WorkflowClient({ connection: env.connection }),
): Promise<string> {
  const handle = await client.start(type, { taskQueue, workflowId: randomUUID(), args: [{}] })
  await handle.result()
  return handle.firstExecutionRunId
}

/** What a collector is sent while something is at work, by our SDK. */
async function sentDuring<T>(work: () => Promise<T>): Promise<{ spans: readonly SentSpan[]; result: T }> {
  const collector = await startCollector()
  vi.stubEnv('OTEL_EXPORTER_OTLP_ENDPOINT', collector.url)
  const logger = { debug() {}, info() {}, warn() {}, error() {} }
  const tracing = await startTracing({ service: 'worker', logger })
  try {
    const result = await work()
    await tracing.end()
    return { spans: collector.spans, result }
  } finally {
    await collector.close()
  }
}

const traceOf = (runId: string): string => runId.replaceAll('-', '')

describe('a run that nobody who traces has started', () => {
  it('is one trace, of the id of its first execution, in its later executions and its children, too', async () => {
    const { spans, result: runId } = await sentDuring(() => atWork((taskQueue) => ran(taskQueue, 'syncIntegration')))
    expect(spans.map(({ name }) => name)).toEqual(Array(4).fill('activity step'))
    expect(new Set(spans.map(({ traceId }) => traceId))).toEqual(new Set([traceOf(runId)]))
    // A parent that nobody has sent would be taken for a lost one.
    expect(new Set(spans.map(({ parentId }) => parentId))).toEqual(new Set([NO_PARENT]))
    expect(new Set(spans.map(({ spanId }) => spanId)).size).toBe(4)
    const workflows = spans.map(({ attributes }) => attributes['temporal.workflow.type'])
    expect(workflows.filter((type) => type === 'processSyncItem')).toHaveLength(1)
    expect(new Set(spans.map(({ attributes }) => attributes['temporal.run.id'])).size).toBe(3)
  })

  it('is sampled as a whole or not at all', async () => {
    vi.stubEnv('OTEL_TRACES_SAMPLER', 'parentbased_traceidratio')
    vi.stubEnv('OTEL_TRACES_SAMPLER_ARG', '0.5')
    const { spans, result: runIds } = await sentDuring(() =>
      atWork((taskQueue) => Promise.all(Array.from({ length: MANY }, () => ran(taskQueue, 'prune')))),
    )
    const sent = runIds.map((runId) => spans.filter(({ traceId }) => traceId === traceOf(runId)).length)
    expect(new Set(sent)).toEqual(new Set([0, 2]))
    expect(spans).toHaveLength(sent.reduce((sum, count) => sum + count, 0))
  })

  it('is a trace for each activity, where it lives for as long as there is something to do', async () => {
    const { spans, result: runId } = await sentDuring(() => atWork((taskQueue) => ran(taskQueue, 'webhookInbox')))
    expect(spans).toHaveLength(2)
    expect(new Set([traceOf(runId), ...spans.map(({ traceId }) => traceId)]).size).toBe(3)
  })

  it("is a trace for each activity, where the host's own SDK makes the ids", async () => {
    const exporter = new InMemorySpanExporter()
    new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register()
    await atWork((taskQueue) => ran(taskQueue, 'syncIntegration'))
    const spans = exporter.getFinishedSpans()
    expect(spans).toHaveLength(4)
    expect(new Set(spans.map((span) => span.spanContext().traceId)).size).toBe(4)
  })
})

describe('a run that was started within a span', () => {
  it('is a part of it, in its later executions and its children, too', async () => {
    const client = new WorkflowClient({ connection: env.connection, interceptors: [startsInTrace] })
    const { spans, result: runId } = await sentDuring(() =>
      atWork((taskQueue) =>
        inSpan(
          () => ({ name: 'whoever starts it', kind: SpanKind.INTERNAL, attributes: {} }),
          () => ran(taskQueue, 'syncIntegration', client),
        ),
      ),
    )
    const starter = spans.find(({ name }) => name === 'whoever starts it')
    const activities = spans.filter(({ name }) => name === 'activity step')
    expect(activities).toHaveLength(4)
    expect(new Set(activities.map(({ traceId }) => traceId))).toEqual(new Set([starter?.traceId]))
    expect(new Set(activities.map(({ parentId }) => parentId))).toEqual(new Set([starter?.spanId]))
    expect(starter?.traceId).not.toBe(traceOf(runId))
  })
})
