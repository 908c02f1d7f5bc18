/** What several streams an integration cost, and what a large one does to small ones. Method and figures: docs/performance.md, "Streams". */
import { setTimeout as sleep } from 'node:timers/promises'
import type { BenchOptions, Figure, Outcome } from '../frame.ts'
import { compare, median, percentile } from '../frame.ts'
import type { ManyIntegrationsFigures } from '../sync/many-integrations.ts'
import { measureManyIntegrations } from '../sync/many-integrations.ts'
import { CROWD, FIRST_KEY, ITEMS_KEY, PROVIDER } from '../sync/ours.ts'
import { startProcesses } from '../sync/processes.ts'
import type { Stage } from '../sync/stage.ts'

const SMALL_ITEMS = 10
const ROUNDS = 3
const POLL_MS = 250
const PATIENCE_MS = 300_000
/** A small stream begins so often: as schedules spread them, and far below what the machine can do. */
const BEGIN_EVERY_MS = 100
const LENGTHS = { rounds: ROUNDS, items: 0, activityItems: 0, slowItems: 0 }

export async function benchStreams({ quick, rounds, say }: BenchOptions): Promise<Outcome> {
  const { stage, stop } = await startProcesses(LENGTHS, say)
  try {
    // Its items take longer than the 99 streams begin.
    const large = 200_000
    const turns = rounds ?? (quick ? 1 : ROUNDS)
    // A p95 of 99 runs of some milliseconds: in a round of all benches, which is one turn, it is a matter of luck.
    const smallTurns = quick ? turns : Math.max(turns, ROUNDS)
    const alone: number[] = []
    const beside: number[] = []
    for (let turn = 0; turn < smallTurns; turn += 1) {
      alone.push(await smallStreams(stage, null))
      beside.push(await smallStreams(stage, large))
    }
    const figure = (name: string, value: number): Figure => ({ name, value, unit: 'ms' })
    const small = `${CROWD.length - 1} small streams, p95 from start to end`
    const shares = compare(
      figure(`${small}, beside one of ${large} items`, median(beside)),
      figure(`${small}, alone`, median(alone)),
      'ratio',
      { direction: 'at most', value: 1.5 },
    )
    if (quick) return { figures: [], comparisons: [shares], leftOut: ['1,000 integrations with 3 streams due at once'] }
    const one: ManyIntegrationsFigures[] = []
    const three: ManyIntegrationsFigures[] = []
    for (let turn = 0; turn < turns; turn += 1) {
      one.push(await measureManyIntegrations(stage))
      three.push(await measureManyIntegrations(stage, PROVIDER.three, 3))
    }
    const due = { one: medians(one), three: medians(three) }
    return {
      figures: [...Object.values(due.one), ...Object.values(due.three)],
      comparisons: [
        shares,
        compare(due.three.finalised, due.one.finalised, 'ratio', { direction: 'at most', value: 3.3 }),
      ],
    }
  } finally {
    await stop()
  }
}

function medians(turns: readonly ManyIntegrationsFigures[]): ManyIntegrationsFigures {
  const of = (which: keyof ManyIntegrationsFigures): Figure => ({
    ...(turns[0] as ManyIntegrationsFigures)[which],
    value: median(turns.map((turn) => turn[which].value)),
  })
  return { started: of('started'), finalised: of('finalised') }
}

/** Of one integration. @param large items of its first stream, which runs meanwhile; null: it does not. @returns milliseconds */
async function smallStreams({ integrations, tables, say }: Stage, large: number | null): Promise<number> {
  const { sql } = tables
  say(`${CROWD.length - 1} small streams ${large === null ? 'alone' : `beside one of ${large} items`}`)
  await tables.clear()
  const metadata = { [ITEMS_KEY]: SMALL_ITEMS, [FIRST_KEY]: large ?? SMALL_ITEMS }
  const { id } = await integrations.create({ provider: PROVIDER.crowd, name: 'crowd', credentials: {}, metadata })
  const [first, ...others] = CROWD
  if (large !== null) {
    await integrations.syncs.start(id, { stream: first })
    await until(async () => {
      const [row] =
        await sql`select from integration_sync_items where stream = ${first as string} and status = 'success' limit 1`
      return row !== undefined
    })
  }
  for (const stream of others) {
    await integrations.syncs.start(id, { stream })
    await sleep(BEGIN_EVERY_MS)
  }
  const ended = () => sql<{ ms: number }[]>`
    select duration_ms as ms from integration_logs
    where operation = 'sync' and status = 'success' and stream <> ${first as string}`
  await until(async () => (await ended()).length === others.length)
  const isLargeThere =
    await sql`select from integration_logs where stream = ${first as string} and status = 'processing'`
  if (large !== null && isLargeThere.length === 0) throw new Error('the large stream ended before the small ones had')
  await integrations.syncs.cancel(id)
  return percentile(
    (await ended()).map(({ ms }) => ms),
    0.95,
  )
}

async function until(isTrue: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS
  while (!(await isTrue())) {
    if (performance.now() > deadline) throw new Error('it did not come about in time')
    await sleep(POLL_MS)
  }
}
