/** One message to the host by HTTP. Rule: docs/behaviour/forwarding.md, "By HTTP". */
import { retryAfterSeconds } from '../calls/retry-rules.ts'
import type { Framework } from '../framework/context.ts'
import { ForwardFailed, isIntegrationsError, NonRetryable } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'
import { signStandardWebhook } from '../providers/signatures/standard-webhooks.ts'
import type { ForwardTarget } from './target.ts'

const DEFAULT_TIMEOUT_SECONDS = 30
/** What the host says in its answer is not read. */
const MAX_ANSWER_BYTES = 65_536
const GONE = 410

export interface Message {
  /** The same for each attempt of a row, so that the host knows a repeat. Without dots. */
  readonly id: string
  readonly type: 'webhook' | 'sync_item'
  readonly data: Json
}

/** @throws ForwardFailed; NonRetryable for a 410 */
export async function send(
  { egress, clock }: Pick<Framework, 'egress' | 'clock'>,
  { url, secrets, timeoutSeconds = DEFAULT_TIMEOUT_SECONDS }: ForwardTarget,
  { id, type, data }: Message,
  signal: AbortSignal,
): Promise<{ readonly status: 'forwarded'; readonly code: number }> {
  const sentAt = clock.now()
  const body = JSON.stringify({ type, timestamp: sentAt.toISOString(), data })
  const timeout = AbortSignal.timeout(timeoutSeconds * 1_000)
  const fetch = egress.fetch({
    followRedirects: false,
    maxBytes: MAX_ANSWER_BYTES,
    signal: AbortSignal.any([signal, timeout]),
  })
  const host = new URL(url).host
  let response: Response
  try {
    response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...signed(id, sentAt, body, secrets) },
      body,
    })
    await response.body?.cancel()
  } catch (error) {
    if (signal.aborted) throw signal.reason
    if (timeout.aborted)
      throw new ForwardFailed(host, `gave no answer within ${timeoutSeconds} s`, null, { cause: error })
    throw new ForwardFailed(host, `could not be reached${reasonIn(error)}`, null, { cause: error })
  }
  const { status } = response
  if (response.ok) return { status: 'forwarded', code: status }
  if (status === GONE) throw new NonRetryable(`${host} answered ${status}: it does not take this message any more.`)
  const redirects = status >= 300 && status < 400 ? ', and redirects are not followed' : ''
  const waitSeconds = retryAfterSeconds(response.headers.get('retry-after'), sentAt) ?? 0
  throw new ForwardFailed(host, `answered ${status}${redirects}`, Math.ceil(waitSeconds) || null)
}

/** Words of our own, such as those of the egress guard: they name no more than a host. Others may quote the URL. */
function reasonIn(error: unknown): string {
  return isIntegrationsError(error) ? `: ${error.message.replace(/\.$/, '')}` : ''
}

/** Each secret signs, so that a host may know the old one or the new one. */
function signed(id: string, sentAt: Date, body: string, secrets: readonly string[]): Record<string, string> {
  const each = secrets.map((secret) => signStandardWebhook({ id, sentAt, body }, secret))
  return { ...each[0], 'webhook-signature': each.map((headers) => headers['webhook-signature']).join(' ') }
}
