/** What keeps happening under `npm start`: signed webhooks, and issues that change, so that each sync finds something. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Stack } from './stack.ts'

const FIRST_WEBHOOKS = 25
const FIRST_RATE_PER_SECOND = 5
const WEBHOOK_EVERY_MS = 15_000
/** The payloads are sorted by event: a stride that shares no factor with their number, 329, shows another one each time. */
const PAYLOADS = 329
const STRIDE = 100
/** Every fourth round changes issues too: about once a minute, so that each sync finds some. */
const ROUNDS_PER_CHANGE = 4
const ISSUES_PER_CHANGE = 3

/** Runs until the signal is aborted. */
export async function keepTrafficGoing(
  stack: Stack,
  signal: AbortSignal,
  report: (line: string) => void,
): Promise<void> {
  await stack.integrations.syncs.start(stack.integrationId)
  await sendWebhooks(stack, { limit: FIRST_WEBHOOKS, ratePerSecond: FIRST_RATE_PER_SECOND, fresh: true })
  for (let round = 1; !signal.aborted; round += 1)
    try {
      await sleep(WEBHOOK_EVERY_MS, undefined, { signal })
      await sendWebhooks(stack, { limit: 1, offset: (round * STRIDE) % PAYLOADS, fresh: true })
      if (round % ROUNDS_PER_CHANGE === 0)
        await post(`${stack.sandboxUrl}/_sandbox/issues/touch`, { count: ISSUES_PER_CHANGE })
    } catch (error) {
      if (signal.aborted) return
      report(error instanceof Error ? error.message : String(error))
    }
}

export interface SentWebhooks {
  readonly sent: number
  readonly accepted: number
  readonly duplicates: number
  readonly failed: number
}

/** Has the sandbox send real GitHub payloads, signed, to the API. Ends when all have been answered. */
export async function sendWebhooks(
  stack: Stack,
  options: { limit?: number; offset?: number; ratePerSecond?: number; concurrency?: number; fresh?: boolean },
): Promise<SentWebhooks> {
  const url = `${stack.apiUrl}/integrations/github/${stack.integrationId}/webhook`
  return (await post(`${stack.sandboxUrl}/_sandbox/webhooks`, {
    url,
    secret: stack.webhookSecret,
    ...options,
  })) as SentWebhooks
}

export async function post(url: string, body: unknown): Promise<unknown> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(`POST ${url} answered ${response.status}: ${await response.text()}`)
  return response.json()
}
