/** What the search for the owner of a delivery costs its process. */
import { setTimeout as passing, setImmediate as turn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import type { RepeatedWarnings } from '../../src/framework/repeated-warnings.ts'
import type { HandlesWebhooks } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { refused } from '../../src/providers/signatures/scheme-rules.ts'
import type { WebhookRequest } from '../../src/providers/webhook-request.ts'
import { ownerAmong, VerificationCredit } from '../../src/webhooks/verification.ts'
import type { WebhookVerifier } from '../../src/webhooks/verifier.ts'

/** Milliseconds that the process has left for forged deliveries. */
const LEFT_MS = 100

function creditLeft(): VerificationCredit {
  const credit = new VerificationCredit()
  credit.spend(3_000 - LEFT_MS)
  return credit
}

/** Asks `count` integrations, whose checks are these; each refuses. */
function search(credit: VerificationCredit, count: number, check: (id: number) => Promise<unknown>) {
  const owners = Array.from({ length: count }, (_, at) => ({
    version: '1',
    integration: { id: at + 1, provider: 'acme' } as Integration,
  }))
  const warnings = { warn: () => {} } as unknown as RepeatedWarnings
  const verifier = {
    verify: async (_provider: HandlesWebhooks, { id }: Integration) => {
      await check(id)
      return refused('mismatch')
    },
  } as unknown as WebhookVerifier
  const provider = { handleWebhook: () => null } as HandlesWebhooks
  const found = { owners, areAll: true, isSwitchedOff: false, readAt: 0 }
  return ownerAmong({ credit, warnings, verifier }, provider, found, {} as WebhookRequest)
}

function compute(ms: number): void {
  for (const startedAt = performance.now(); performance.now() - startedAt < ms; );
}

it('spends what a check computes once it has awaited something, such as a key', async () => {
  let asked = 0
  const verdict = await search(creditLeft(), 20, async () => {
    asked += 1
    await turn()
    compute(20)
  })
  expect(verdict).toEqual({ kind: 'busy' })
  expect(asked).toBeLessThan(20)
})

it('spends nothing while a check waits', async () => {
  const credit = creditLeft()
  const verdict = await search(credit, 2, () => passing(2 * LEFT_MS))
  expect(verdict).toEqual({ kind: 'bad signature', reason: 'mismatch' })
  expect(credit.isSpent()).toBe(false)
})

it('spends the same time once for two checks at once', async () => {
  const credit = creditLeft()
  let isComputed = () => {}
  const computed = new Promise<void>((resolve) => {
    isComputed = resolve
  })
  // The first integration of each delivery is free.
  const waiting = search(credit, 2, async (id) => {
    if (id === 2) await computed
  })
  await search(credit, 2, async (id) => {
    if (id === 1) return
    await turn()
    compute(0.6 * LEFT_MS)
    isComputed()
  })
  await waiting
  expect(credit.isSpent()).toBe(false)
})

it('spends little for a check that waits while the process works for others', async () => {
  const credit = creditLeft()
  const isOver = search(credit, 2, (id) => (id === 1 ? turn() : passing(50)))
  await turn()
  await turn()
  compute(2 * LEFT_MS)
  await isOver
  expect(credit.isSpent()).toBe(false)
})
