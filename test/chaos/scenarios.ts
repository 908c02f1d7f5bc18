/** The two scenarios, in the size that a test asks for. Each ends with the accounts of what was answered 2xx. */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { diagnosis, WEBHOOKS } from './diagnosis.ts'
import type { KeptProcess } from './kept-process.ts'
import type { Ledger } from './ledger.ts'
import { allSettled, readLedger } from './ledger.ts'
import { carryOut, drawKills, seeded } from './seeded-kills.ts'
import { sendSigned } from './signed-sender.ts'
import { TARGETS } from './targets.ts'
import type { WebhookStack } from './webhook-stack.ts'

/** Handlers work so long at most, so that kills find rows in hand. */
const MAX_WORK_MS = 200
/** The inbox is at work when Temporal goes. */
const SENT_BEFORE_SECONDS = 2
/** So many that some are left when the signal arrives. */
const ROWS_IN_HAND = 6
/** A dead pump's rows are set apart after 20 s of silence, and some seconds to be certain. */
const AT_WORK_SECONDS = 60
const POLL_MS = 20

/** Sends signed deliveries while all four parts are killed, and until the last one has been. */
export async function killThemAll(
  stack: WebhookStack,
  {
    seed,
    deliveries,
    killsEach,
    meanGapMs,
    areApart = false,
    settledWithinSeconds,
  }: {
    readonly seed: number
    /** At least. */
    readonly deliveries: number
    readonly killsEach: number
    readonly meanGapMs: number
    /** Each kill waits until all parts are there and at work again. Default: they come as they come. */
    readonly areApart?: boolean
    /** After the last kill and the last answer. */
    readonly settledWithinSeconds: number
  },
): Promise<void> {
  console.log(`CHAOS_SEED=${seed}`)
  const random = seeded(seed)
  const kills = drawKills(random, { targets: TARGETS, each: killsEach, meanGapMs })
  const startedAt = performance.now()
  let areKilled = false
  const killing = carryOut(stack, kills, areApart ? (part) => killAtWork(stack, part) : undefined).finally(() => {
    areKilled = true
  })
  const [story, sent] = await Promise.all([
    killing,
    sendSigned({
      urls: [stack.webhookUrl],
      answered: stack.answered,
      // So that they last about as long as the kills.
      ratePerSecond: (deliveries * 1_000) / (kills.length * meanGapMs),
      isEnough: (count) => count >= deliveries && areKilled,
      workMs: () => Math.round(random() * MAX_WORK_MS),
    }),
  ])
  await allReady(stack)
  const lastAt = performance.now()
  console.log(`kill -9: ${story.join(', ')}`)
  console.log(`${sent.deliveries} deliveries: ${JSON.stringify(sent.answers)}`)
  await allSettled(stack, settledWithinSeconds)
  console.log(`all settled ${secondsBetween(lastAt)} s after the last kill; ${secondsBetween(startedAt)} s in all`)
  expect(story).toHaveLength(killsEach * TARGETS.length)
  expect(sent.refusals).toEqual([])
  const { claimedAgain } = await expectPromisesKept(stack, startedAt)
  // Else the kills have met nobody at work, and the rest says nothing.
  expect(claimedAgain).toBeGreaterThan(0)
}

/** Sends without a pause while Temporal is away: nobody is turned away, and all is processed soon after its return. */
export async function takeTemporalAway(
  stack: WebhookStack,
  {
    ratePerSecond,
    awaySeconds,
    processedWithinSeconds,
  }: {
    readonly ratePerSecond: number
    readonly awaySeconds: number
    /** After its return. */
    readonly processedWithinSeconds: number
  },
): Promise<void> {
  const startedAt = performance.now()
  const deliveries = ratePerSecond * (SENT_BEFORE_SECONDS + awaySeconds)
  const sending = sendSigned({
    urls: [stack.webhookUrl],
    answered: stack.answered,
    ratePerSecond,
    isEnough: (count) => count >= deliveries,
    workMs: () => 0,
  })
  await sleep(SENT_BEFORE_SECONDS * 1_000)
  const comeBack = await stack.temporal.killAndKeepAway()
  const [sent] = await Promise.all([sending, sleep(awaySeconds * 1_000)])
  const askedAt = performance.now()
  await comeBack()
  const returnedAt = performance.now()
  await allSettled(stack, processedWithinSeconds)
  console.log(
    `Temporal away for ${awaySeconds} s under ${ratePerSecond} a second: ${JSON.stringify(sent.answers)}; started in ` +
      `${secondsBetween(askedAt, returnedAt)} s, all processed ${secondsBetween(returnedAt)} s later`,
  )
  // Each at its first request.
  expect(sent.answers).toEqual({ 200: deliveries })
  await expectPromisesKept(stack, startedAt)
}

async function expectPromisesKept(stack: WebhookStack, startedAt: number): Promise<Ledger> {
  const ledger = await readLedger(stack)
  const { rows, claimedAgain, extraRuns, slowestSeconds } = ledger
  console.log(
    `${rows} rows, ${claimedAgain} claimed again, ${extraRuns} extra runs of the handler; the slowest took ${slowestSeconds.toFixed(1)} s`,
  )
  expect(ledger.faults).toEqual([])
  expect(ledger.rows).toBe(stack.answered.size)
  // Nobody can have waited for it: it is longer than the whole run.
  expect(stack.integrations.config.webhook.processing_timeout).toBeGreaterThan(2 * secondsBetween(startedAt))
  return ledger
}

async function allReady(stack: WebhookStack): Promise<void> {
  await Promise.all(TARGETS.map((target) => stack[target].ready()))
}

/** Handlers may end between a look and a kill: the worker is looked at while it stands still. */
async function killAtWork(stack: WebhookStack, part: KeptProcess): Promise<void> {
  await atWork(stack)
  if (part === stack.worker)
    await part.killInTheAct(
      () => areRowsInHand(stack),
      () => diagnosis(stack, WEBHOOKS),
    )
  else await part.kill()
}

async function areRowsInHand({ sql }: WebhookStack): Promise<boolean> {
  // A connection of the time before a kill fails once.
  const rows = await sql<{ count: number }[]>`
    select count(*)::int as count from integration_webhooks where status = 'processing'`.catch(() => [])
  return (rows[0]?.count ?? 0) >= ROWS_IN_HAND
}

/** All parts are there, and rows are in hand. */
async function atWork(stack: WebhookStack): Promise<void> {
  await allReady(stack)
  const giveUpAt = performance.now() + AT_WORK_SECONDS * 1_000
  while (performance.now() < giveUpAt) {
    if (await areRowsInHand(stack)) return
    await sleep(POLL_MS)
  }
  throw new Error(`Nothing was in hand for ${AT_WORK_SECONDS} s.\n${await diagnosis(stack, WEBHOOKS)}`)
}

function secondsBetween(from: number, to = performance.now()): number {
  return Math.round((to - from) / 100) / 10
}
