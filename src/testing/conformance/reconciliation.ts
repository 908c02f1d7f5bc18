/** `missedWebhooks()`. Rule: docs/behaviour/webhook-reconciliation.md. */
import assert from 'node:assert/strict'
import type { Integration } from '../../providers/integration.ts'
import type { ListedWebhook, MissedWebhook, ReconcilesWebhooks } from '../../providers/provider.ts'
import type { Bench } from './bench.ts'
import type { Chapter } from './check.ts'
import { outcomeOf, shown, wordsFor } from './outcome.ts'
import { answering } from './played-faults.ts'

export function reconciliationChapter(): Chapter {
  return {
    contract: 'ReconcilesWebhooks',
    checks: [
      {
        name: 'lists deliveries with an id, of its window, oldest first',
        async run(bench) {
          const { since, until } = windowOf(bench)
          let before = since
          for (const { deliveryId, occurredAt } of await missed(bench, await bench.create())) {
            assert(
              typeof deliveryId === 'string' && deliveryId !== '',
              `a missed delivery must have the id that it would have had; one has ${shown(deliveryId)}`,
            )
            assert(
              occurredAt instanceof Date && occurredAt >= since && occurredAt < until,
              `missedWebhooks() must keep to its window, from ${since.toISOString()} until before ${until.toISOString()}; ${deliveryId} is of ${shown(occurredAt)}`,
            )
            assert(
              occurredAt >= before,
              `missedWebhooks() must list the oldest first; ${deliveryId} is of ${shown(occurredAt)}, the one before it of ${shown(before)}`,
            )
            before = occurredAt
          }
        },
      },
      {
        name: 'throws what goes wrong: a list that breaks off must not look whole',
        async run(bench) {
          const integration = await bench.create()
          const outcome = await bench.answeredBy(answering(500), () =>
            bench.withoutRetries(() => outcomeOf(() => missed(bench, integration))),
          )
          assert.equal(
            outcome.kind,
            'threw',
            `missedWebhooks() must throw where the provider answers 500; it ${wordsFor(outcome)}`,
          )
        },
      },
    ],
  }
}

function windowOf({ kit, provider }: Bench): { since: Date; until: Date } {
  const until = kit.clock.now()
  const { reconcileLookbackSeconds } = provider as ReconcilesWebhooks
  return { since: new Date(until.getTime() - reconcileLookbackSeconds * 1_000), until }
}

/** With its content, where that is loaded apart. */
export async function missed(
  bench: Bench,
  integration: Integration,
): Promise<Pick<MissedWebhook, 'deliveryId' | 'occurredAt'>[]> {
  const provider = bench.provider as ReconcilesWebhooks
  const { signal } = new AbortController()
  return bench.inTime('missedWebhooks()', async () => {
    const found: (MissedWebhook | ListedWebhook)[] = []
    for await (const each of provider.missedWebhooks(integration, { ...windowOf(bench), signal })) {
      if ('load' in each) await each.load()
      found.push(each)
    }
    return found
  })
}
