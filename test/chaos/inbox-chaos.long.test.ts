/**
 * Two workers and one inbox under all that may happen to them: deaths, standstills, links that are cut or that hold everything up.
 *
 * `CHAOS_MINUTES` (20) says for how long; `CHAOS_SEED` of a run that failed draws the same faults again.
 */
import { afterAll, beforeAll, it } from 'vitest'
import { faultsIn, playChaos } from './inbox-scenario.ts'
import type { InboxStack } from './inbox-stack.ts'
import { startInboxStack } from './inbox-stack.ts'

const MINUTES = Number(process.env.CHAOS_MINUTES ?? 20)
const MINUTE_MS = 60_000

let stack: InboxStack

beforeAll(async () => {
  stack = await startInboxStack({ integrations: 30, workers: 2 })
})

afterAll(() => stack?.stop())

it(
  `${faultsIn(MINUTES)} faults in ${MINUTES} minutes: what was answered 2xx is settled once within 60 s of quiet, and no handler runs again, or beside itself, without a death or a silence of its worker`,
  () => playChaos(stack, MINUTES),
  (MINUTES + 10) * MINUTE_MS,
)
