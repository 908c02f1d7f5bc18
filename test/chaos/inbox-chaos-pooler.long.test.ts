/**
 * The chaos of inbox-chaos.long.test.ts with PgBouncer in transaction mode between our processes and Postgres, and its deaths among
 * the faults. Each handler makes outbound calls; the test asks Postgres directly.
 *
 * `CHAOS_MINUTES` (5) says for how long; `CHAOS_SEED` of a run that failed draws the same faults again.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { COMPLAINT } from '../support/pgbouncer.ts'
import type { CalledProvider } from './inbox-calls.ts'
import { accountForCalls, startCalledProvider } from './inbox-calls.ts'
import type { Happened } from './inbox-faults.ts'
import { faultsIn, playChaos } from './inbox-scenario.ts'
import type { InboxStack } from './inbox-stack.ts'
import { startInboxStack } from './inbox-stack.ts'

const MINUTES = Number(process.env.CHAOS_MINUTES ?? 5)
const MINUTE_MS = 60_000
/** A third of what the processes may open, so that connections change hands. */
const POOLER_CONNECTIONS = 20
/** PgBouncer's line may come later than the death that it tells of. */
const TOLD_WITHIN_MS = 5_000
/** From the end of a process, or the kill of a Postgres, to the end of all that belongs to it. */
const DYING_MS = 1_000
/** Answers that are waited for for `pool.statementSeconds`: nothing in the story lasts as long. */
const NO_ANSWER = /no answer within 60 s/

let provider: CalledProvider
let stack: InboxStack

beforeAll(async () => {
  provider = await startCalledProvider()
  stack = await startInboxStack({
    integrations: 30,
    workers: 2,
    poolerConnections: POOLER_CONNECTIONS,
    providerUrl: provider.url,
  })
})

afterAll(async () => {
  await stack?.stop()
  await provider?.stop()
})

it(
  `${faultsIn(MINUTES)} faults in ${MINUTES} minutes through PgBouncer: no answer is lost, no process crashes, and every outbound call has its row`,
  async () => {
    const story = await playChaos(stack, MINUTES)
    const { faults, ...calls } = await accountForCalls(stack, provider, story)
    console.log(`calls: ${JSON.stringify(calls)}`)
    expect(faults).toEqual([])
    expect(calls.withRow).toBeGreaterThan(MINUTES * 1_000)
    expect(complaints(story)).toEqual([])
    expect(stack.lines.filter((line) => NO_ANSWER.test(line))).toEqual([])
    expect(story.some(({ fault }) => fault.target === 'pgbouncer')).toBe(true)
  },
  (MINUTES + 10) * MINUTE_MS,
)

/** What PgBouncer complains of, but for what follows from a fault. */
function complaints(story: readonly Happened[]): string[] {
  const lines = stack.lines.filter((line) => line.startsWith('pgbouncer ') && COMPLAINT.test(line))
  return lines.filter((line) => !story.some((happened) => followsFrom(happened, line)) && !isOfRefusedStart(line))
}

/**
 * A client that ends without a word was killed, or its link was cut, or held up until the client had given up. A backend of a
 * Postgres that is killed says that its server has gone, to a connection that is idle and to one that is just being opened.
 */
function followsFrom({ fault, fromMs, untilMs }: Happened, line: string): boolean {
  const isAtPostgres = 'backend' in fault ? fault.backend === 'postgres' : fault.kind === 'kill'
  if (line.includes('client unexpected eof')) return isAtPostgres && isWithin(line, fromMs, untilMs + TOLD_WITHIN_MS)
  if (
    line.includes('idle server got dirty') ||
    line.includes('login failed: FATAL: terminating connection due to unexpected postmaster exit')
  )
    return fault.kind === 'kill' && fault.target === 'postgres' && isWithin(line, fromMs, fromMs + DYING_MS)
  return false
}

/** A process whose backends are away at its start ends without closing what it has opened. Any other end of its own is a crash. */
function isOfRefusedStart(line: string): boolean {
  const ends = [stack.api, ...stack.workers.values()].flatMap(({ ownEnds }) => ownEnds)
  return (
    line.includes('client unexpected eof') && ends.some(({ atMs }) => isWithin(line, atMs - DYING_MS, atMs + DYING_MS))
  )
}

function isWithin(line: string, fromMs: number, untilMs: number): boolean {
  const time = /(\d{4}-\d\d-\d\d) ([\d:.]+) UTC/.exec(line)
  const atMs = Date.parse(`${time?.[1]}T${time?.[2]}Z`)
  return fromMs <= atMs && atMs <= untilMs
}
