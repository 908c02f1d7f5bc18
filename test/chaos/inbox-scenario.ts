/** What holds of an inbox once it is quiet again, whatever has happened to it. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, Connection } from '@temporalio/client'
import { expect } from 'vitest'
import { wedgedLooks } from '../../src/temporal/wedged.ts'
import type { Happened } from './inbox-faults.ts'
import { carryOutFaults, drawFaults, isWayToPostgres, told } from './inbox-faults.ts'
import type { Accounted } from './inbox-runs.ts'
import { accountForRuns } from './inbox-runs.ts'
import type { InboxStack } from './inbox-stack.ts'
import type { KeptProcess, OwnEnd } from './kept-process.ts'
import { allSettled, readLedger } from './ledger.ts'
import { seeded, seedOfRun } from './seeded-kills.ts'
import { sendSigned } from './signed-sender.ts'

/** From the last fault and the last answer to the last settlement. */
export const QUIET_SECONDS = 60
/** A task that a dead worker had is tried again after 10 s. */
const TASKS_WITHIN_MS = 30_000
const POLL_MS = 500
const FAULTS_PER_MINUTE = 7.5
const PER_SECOND = 20
/** A process that does not find its backends at its start ends so: docs/behaviour/workers.md. */
const UNREACHABLE = 2
/** From the moment at which a backend was away to the end of the process that has asked for it. */
const NOTICED_WITHIN_MS = 10_000

export const faultsIn = (minutes: number): number => Math.round(minutes * FAULTS_PER_MINUTE)

/** Deliveries come all the time, and faults as drawn from the seed. Ends when the promises of the quiet after it are checked. */
export async function playChaos(stack: InboxStack, minutes: number): Promise<Happened[]> {
  const seed = seedOfRun()
  console.log(`CHAOS_SEED=${seed} CHAOS_MINUTES=${minutes}`)
  const doctorBefore = await doctorSays(stack)
  const plan = drawFaults(seeded(seed), {
    count: faultsIn(minutes),
    seconds: minutes * 60,
    workers: [...stack.workers.keys()],
    hasPooler: stack.pooler !== null,
  })
  const [story, sent] = await sendDuring(stack, seeded(seed + 1), carryOutFaults(stack, plan))
  console.log(`${sent.deliveries} deliveries: ${JSON.stringify(sent.answers)}`)
  expect(sent.refusals).toEqual([])
  const { afterDeath } = await expectPromisesKept(stack, story, doctorBefore)
  // Else the faults have met nobody at work, and the rest says nothing.
  expect(afterDeath).toBeGreaterThan(0)
  return story
}

/** 20 deliveries a second, until the given work has ended. */
export async function sendDuring<T>(
  stack: InboxStack,
  random: () => number,
  work: Promise<T>,
): Promise<[T, Awaited<ReturnType<typeof sendSigned>>]> {
  let isOver = false
  return Promise.all([
    work.finally(() => {
      isOver = true
    }),
    sendSigned({
      urls: stack.webhookUrls,
      answered: stack.answered,
      ratePerSecond: PER_SECOND,
      isEnough: () => isOver,
      workMs: () => workMs(random),
    }),
  ])
}

/** Most are short; one in 50 outlasts the 20 s after which a silent worker is taken for dead, or comes near it. */
function workMs(random: () => number): number {
  const kind = random()
  const [from, to] = kind < 0.9 ? [20, 300] : kind < 0.98 ? [1_000, 5_000] : [5_000, 22_000]
  return Math.round(from + random() * (to - from))
}

/** Waits for the quiet, and tells and judges what there is to be told. @param doctorBefore what it said before the faults */
export async function expectPromisesKept(
  stack: InboxStack,
  story: readonly Happened[],
  doctorBefore: readonly string[],
): Promise<Accounted> {
  const quietAt = performance.now()
  await Promise.all([stack.api, ...stack.workers.values()].map((part) => part.ready()))
  console.log(`${story.length} faults: ${told(story)}`)
  await allSettled(stack, QUIET_SECONDS)
  console.log(`all settled ${secondsSince(quietAt)} s after the last fault`)
  const ledger = await readLedger(stack)
  const accounted = await accountForRuns(stack, story)
  const { rows, claimedAgain, extraRuns, slowestSeconds } = ledger
  const { faults, ...counted } = accounted
  console.log(
    `${rows} rows, ${claimedAgain} claimed again, slowest ${slowestSeconds.toFixed(1)} s; ${extraRuns} second runs`,
  )
  console.log(JSON.stringify(counted))
  tellLinesOf([...ledger.faults, ...faults], stack)
  expect(ledger.faults).toEqual([])
  expect(faults).toEqual([])
  expect(crashes(partsOf(stack), story)).toEqual([])
  expect(stack.lines.filter((line) => UNCAUGHT.test(line))).toEqual([])
  await expectTasksHealthy(stack)
  expect(await doctorSays(stack)).toEqual(doctorBefore)
  return accounted
}

export const UNCAUGHT = /"process\.(uncaught_exception|unhandled_rejection)"/

const partsOf = ({ api, workers, postgres, temporal, pooler }: InboxStack): KeptProcess[] => [
  api,
  ...workers.values(),
  postgres,
  temporal,
  ...(pooler === null ? [] : [pooler]),
]

/** Ends that the scenario did not bring about, but those of processes whose backends were away at their start. */
export function crashes(parts: readonly KeptProcess[], story: readonly Happened[]): string[] {
  return parts.flatMap(({ name, ownEnds }) =>
    ownEnds.filter((end) => !isRefusedStart(end, name, story)).map((end) => `${name}: ${JSON.stringify(end)}`),
  )
}

function isRefusedStart({ atMs, wasReady, exit }: OwnEnd, name: string, story: readonly Happened[]): boolean {
  if (wasReady || exit?.code !== UNREACHABLE) return false
  return story.some(({ fault, fromMs, untilMs }) => {
    const isAway = 'backend' in fault ? fault.target === name : isBackend(fault.target)
    return isAway && fromMs <= atMs && atMs <= untilMs + NOTICED_WITHIN_MS
  })
}

const isBackend = (target: string): boolean => target === 'temporal' || isWayToPostgres(target)

/** What the processes logged of the webhooks that faults name. */
function tellLinesOf(faults: readonly string[], { lines }: InboxStack): void {
  for (const [, webhook] of faults.join('\n').matchAll(/webhook (\d+)/g)) {
    const its = lines.filter((line) => new RegExp(`"webhook":${webhook}\\b`).test(line))
    console.log([`webhook ${webhook}:`, ...its].join('\n'))
  }
}

/** Whatever is not as it should be. */
export async function doctorSays({ integrations }: Pick<InboxStack, 'integrations'>): Promise<string[]> {
  const findings = await integrations.admin.doctor()
  return findings.filter(({ status }) => status !== 'ok').map(({ check, message }) => `${check}: ${message}`)
}

async function expectTasksHealthy(stack: InboxStack): Promise<void> {
  expect(await unhealthyTasks(stack), 'workflows whose task is tried again').toEqual([])
}

/** Running workflows that have a task that is tried again, and histories that did not fit their code. */
export async function unhealthyTasks({
  temporalAddress,
  integrations,
  lines,
}: Pick<InboxStack, 'temporalAddress' | 'integrations' | 'lines'>): Promise<string[]> {
  const connection = await Connection.connect({ address: temporalAddress })
  const client = new Client({ connection })
  try {
    const giveUpAt = performance.now() + TASKS_WITHIN_MS
    let failing = await failingTasks(client)
    while (failing.length > 0 && performance.now() < giveUpAt) {
      await sleep(POLL_MS)
      failing = await failingTasks(client)
    }
    const wedged = await wedgedLooks(integrations.config)(client)
    return [
      ...failing,
      ...wedged.map((workflow) => `wedged: ${JSON.stringify(workflow)}`),
      ...lines.filter((line) => line.includes('TMPRL1100')),
    ]
  } finally {
    await connection.close()
  }
}

async function failingTasks(client: Client): Promise<string[]> {
  const failing: string[] = []
  for await (const { workflowId, runId } of client.workflow.list({ query: `ExecutionStatus = 'Running'` })) {
    const { raw } = await client.workflow.getHandle(workflowId, runId).describe()
    const attempt = raw.pendingWorkflowTask?.attempt ?? 0
    if (attempt > 1) failing.push(`${workflowId}: attempt ${attempt}`)
  }
  return failing
}

function secondsSince(from: number): number {
  return Math.round((performance.now() - from) / 100) / 10
}
