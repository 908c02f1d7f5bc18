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
/** The first trouble comes after a minute, then one every three: each longer than the retries of a call. */
const ROUNDS_PER_TROUBLE = 12
const FIRST_TROUBLE = 4
const TROUBLES: readonly object[] = [
  // Three tries of a listing make three calls each: the run fails.
  { match: 'GET /repos/*/issues*', status: 502, times: 9, body: '<html>Bad Gateway</html>' },
  {
    match: 'GET /repos/*/issues*',
    status: 403,
    times: 2,
    headers: { 'retry-after': '30' },
    body: { message: 'You have exceeded a secondary rate limit.' },
  },
]

export interface Traffic {
  /** Ends it. */
  readonly signal: AbortSignal
  /** The sandbox never fails. Default: now and then it does, so that the dashboard has something to show. */
  readonly isSteady: boolean
  readonly report: (line: string) => void
}

export async function keepTrafficGoing(stack: Stack, { signal, isSteady, report }: Traffic): Promise<void> {
  for (let round = 0; !signal.aborted; round += 1)
    try {
      if (round === 0) {
        await stack.integrations.syncs.start(stack.integrationId)
        await sendWebhooks(stack, { limit: FIRST_WEBHOOKS, ratePerSecond: FIRST_RATE_PER_SECOND, fresh: true })
        continue
      }
      await sleep(WEBHOOK_EVERY_MS, undefined, { signal })
      await sendWebhooks(stack, { limit: 1, offset: (round * STRIDE) % PAYLOADS, fresh: true })
      if (round % ROUNDS_PER_CHANGE === 0)
        await post(`${stack.sandboxUrl}/_sandbox/issues/touch`, { count: ISSUES_PER_CHANGE })
      if (!isSteady && round % ROUNDS_PER_TROUBLE === FIRST_TROUBLE) {
        const trouble = TROUBLES[Math.floor(round / ROUNDS_PER_TROUBLE) % TROUBLES.length]
        await post(`${stack.sandboxUrl}/_sandbox/faults`, trouble)
        report('the sandbox fails some calls now (--steady: never); the dashboard shows what that does')
      }
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
  const { integrationId, integrations } = stack
  const url = `${stack.apiUrl}/integrations/github/${integrationId}/webhook`
  return (await post(`${stack.sandboxUrl}/_sandbox/webhooks`, {
    url,
    secret: await webhookSecretOf(integrations, integrationId),
    ...options,
  })) as SentWebhooks
}

/** The present one: who rotates it need not tell the sandbox. */
export async function webhookSecretOf(integrations: Stack['integrations'], integrationId: number): Promise<string> {
  const integration = await integrations.get(integrationId)
  return String(integration.credentialsArray().webhook_secret)
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
