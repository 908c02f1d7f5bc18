/** One soak: capacity, a third of it for as long as is asked, samples, verdicts. */
import { setTimeout as sleep } from 'node:timers/promises'
import { openLoop } from '../../bench/open-loop.ts'
import { crashes, UNCAUGHT } from '../chaos/inbox-scenario.ts'
import { allSettled } from '../chaos/ledger.ts'
import type { Judged } from './judge.ts'
import { judgeQuantity } from './judge.ts'
import type { Sent } from './load.ts'
import { emptyTables, measureCapacity, pruneAllTheTime, sendDelivery, syncAllTheTime } from './load.ts'
import type { Sample } from './quantities.ts'
import { quantitiesOf } from './quantities.ts'
import { startSampler } from './sampler.ts'
import type { SoakStack } from './stack.ts'
import { startSoakStack } from './stack.ts'

/** Of capacity. */
const SHARE = 1 / 3
/** Of the time: until tables, pools and caches have their size. It is ten retentions long: indexes of keys in no order need that many to come to rest. */
const WARM_UP_SHARE = 1 / 3
const RETENTION_SHARE = 1 / 30
const SAMPLES = 360
const MOST_SAMPLE_SECONDS = 10
const SETTLED_SECONDS = 120

export interface SoakPlan {
  readonly minutes: number
  /** Deliveries; null: a third of capacity, which is measured first. */
  readonly perSecond: number | null
  readonly installed: string
  readonly say: (line: string) => void
  /** Called with each sample as it is taken: what a soak that breaks has measured is not to be lost. */
  readonly keep?: (sample: Sample) => void
}

export interface Soak {
  readonly perSecond: number
  /** Deliveries a second; null: it was not measured. */
  readonly capacity: number | null
  readonly warmUpSeconds: number
  readonly retentionSeconds: number
  readonly samples: readonly Sample[]
  /** Syncs that were asked for while Temporal did not answer in time: the machine was too busy. */
  readonly unansweredStarts: number
  readonly judged: readonly Judged[]
  readonly webhooks: { readonly answered: number; readonly handled: number }
  readonly answers: Readonly<Record<string, number>>
  /** What went wrong beside all measurements, a line each. Empty: nothing. */
  readonly faults: readonly string[]
}

export async function runSoak({ minutes, perSecond: asked, installed, say, keep = () => {} }: SoakPlan): Promise<Soak> {
  const stack = await startSoakStack(installed)
  try {
    say('everything is up')
    const sent: Sent = { answers: {}, refusals: [], webhooks: 0, answersMs: [] }
    const capacity = asked === null ? await measureCapacity(stack, sent) : null
    await emptyTables(stack)
    const perSecond = asked ?? (capacity as number) * SHARE
    const seconds = minutes * 60
    const retentionSeconds = seconds * RETENTION_SHARE
    if (capacity !== null) say(`capacity: ${capacity.toFixed(1)} deliveries a second`)
    say(`${perSecond.toFixed(1)} a second for ${minutes} min; rows are pruned after ${retentionSeconds.toFixed(0)} s`)
    sent.answersMs.splice(0)
    const { samples, unansweredStarts } = await underLoad(stack, sent, { perSecond, seconds, retentionSeconds, keep })
    say('the load is over; waiting for the quiet')
    await allSettled(stack, SETTLED_SECONDS)
    const insights = await Promise.all(stack.processes.map((process) => process.insight()))
    const handled = insights.reduce((total, insight) => total + insight.handled, 0)
    const warmUpSeconds = seconds * WARM_UP_SHARE
    return {
      perSecond,
      capacity,
      warmUpSeconds,
      retentionSeconds,
      samples,
      unansweredStarts,
      judged: quantitiesOf(samples).map((quantity) => judgeQuantity(quantity, warmUpSeconds)),
      webhooks: { answered: sent.webhooks, handled },
      answers: sent.answers,
      faults: [
        ...(handled >= sent.webhooks ? [] : [`${sent.webhooks} webhooks were answered 2xx, ${handled} handled`]),
        ...sent.refusals.map((refusal) => `refused: ${refusal}`),
        ...crashes(stack.parts, []),
        ...stack.lines.filter((line) => UNCAUGHT.test(line)),
      ],
    }
  } finally {
    await stack.stop()
  }
}

interface Load {
  readonly perSecond: number
  readonly seconds: number
  readonly retentionSeconds: number
  readonly keep: (sample: Sample) => void
}

async function underLoad(
  stack: SoakStack,
  sent: Sent,
  { perSecond, seconds, retentionSeconds, keep }: Load,
): Promise<{ samples: Sample[]; unansweredStarts: number }> {
  const sampler = await startSampler(stack, sent)
  const everyMs = Math.min(MOST_SAMPLE_SECONDS, seconds / SAMPLES) * 1_000
  const startedAt = performance.now()
  let isEnded = false
  const isOver = (): boolean => isEnded || performance.now() - startedAt >= seconds * 1_000
  const samples: Sample[] = []
  const sampleAllTheTime = async (): Promise<void> => {
    while (!isOver()) {
      await sleep(everyMs - ((performance.now() - startedAt) % everyMs))
      const atSeconds = (performance.now() - startedAt) / 1_000
      const sample = { atSeconds, readings: await sampler.sample() }
      samples.push(sample)
      keep(sample)
    }
  }
  const syncs = syncAllTheTime(stack, { isOver })
  const works = [
    openLoop({ perSecond, seconds }, (n) => sendDelivery(stack, sent, n)),
    syncs,
    pruneAllTheTime(retentionSeconds, { isOver }),
    sampleAllTheTime(),
  ]
  try {
    await Promise.all(works)
  } finally {
    isEnded = true
    // Nothing goes on with what is being stopped.
    await Promise.allSettled(works)
  }
  return { samples, unansweredStarts: await syncs }
}
