/**
 * How long a call with a very large answer holds up everything else in its process. The whole of `integration.request()` is
 * measured, its row included. Method and figures: docs/performance.md, "Redaction".
 */
import { randomBytes } from 'node:crypto'
import { monitorEventLoopDelay, performance } from 'node:perf_hooks'
import type { Integration } from 'durable-integrations'
import { createIntegrations } from 'durable-integrations'
import type { BenchOptions, Figure, Goal, Outcome } from '../frame.ts'
import { median, target } from '../frame.ts'
import { startBenchPostgres } from '../postgres.ts'
import { BODIES, LONG_TOKEN, PATHS, TOKEN } from './bodies.ts'

const BYTES = 10 * 1_048_576
const ROUNDS = 3
const QUICK_BODIES = 3

const GOALS = {
  inAll: { direction: 'at most', value: 1_000 },
  atATime: { direction: 'at most', value: 100 },
} as const satisfies Record<string, Goal>

export async function benchRedaction({ quick, rounds: wanted, say }: BenchOptions): Promise<Outcome> {
  say('starting Postgres')
  const server = await startBenchPostgres()
  const integrations = createIntegrations({
    database: server.url,
    encryptionKeys: `bench:${randomBytes(32).toString('base64')}`,
    providers: { bench: { redactedRequestPaths: () => [], redactedResponsePaths: () => PATHS } },
    logger: { debug: () => {}, info: () => {}, warn: shown, error: shown },
  })
  try {
    await integrations.migrate()
    const integration = await integrations.create({
      provider: 'bench',
      name: 'bench',
      credentials: { token: TOKEN, long_token: LONG_TOKEN },
    })
    // What a process does once: the first statement, the first thread.
    await blocking(integration, 'x'.repeat(2_000_000))
    const figures: Figure[] = []
    const names = Object.keys(BODIES)
    for (const name of quick ? names.slice(0, QUICK_BODIES) : names) {
      say(name)
      const body = BODIES[name]?.(BYTES) ?? ''
      const rounds = []
      for (let round = 0; round < (wanted ?? (quick ? 1 : ROUNDS)); round += 1)
        rounds.push(await blocking(integration, body))
      figures.push(
        { name: `${name}: in all`, value: median(rounds.map(({ inAllMs }) => inAllMs)), unit: 'ms' },
        { name: `${name}: at a time`, value: median(rounds.map(({ atATimeMs }) => atATimeMs)), unit: 'ms' },
        { name: `${name}: the call`, value: median(rounds.map(({ callMs }) => callMs)), unit: 'ms' },
      )
    }
    return {
      figures,
      comparisons: figures
        .filter(({ name }) => !name.endsWith('the call'))
        .map((figure) => target(figure, figure.name.endsWith('in all') ? GOALS.inAll : GOALS.atATime)),
      ...(quick ? { leftOut: names.slice(QUICK_BODIES) } : {}),
    }
  } finally {
    await integrations.close()
    await server.stop()
  }
}

/** By what Node itself counts: how long its event loop had work, and how late it was at most. */
async function blocking(integration: Integration, body: string) {
  const late = monitorEventLoopDelay({ resolution: 1 })
  late.enable()
  const before = performance.eventLoopUtilization()
  const startedAt = performance.now()
  await integration.request('/worst', 'GET', () => body)
  const callMs = performance.now() - startedAt
  const { active } = performance.eventLoopUtilization(before)
  late.disable()
  return { inAllMs: active, atATimeMs: late.max / 1e6, callMs }
}

function shown(fields: Record<string, unknown>, message: string): void {
  console.error(message, fields)
}
