/** One request to a notification target. Rule: docs/behaviour/notifications.md, "Delivery". */
import { createHash } from 'node:crypto'
import { isRedirect } from '../egress/redirects.ts'
import type { Framework } from '../framework/context.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import { redactText, secretsOf } from '../framework/redaction.ts'
import { signStandardWebhook } from '../providers/standard-webhook.ts'

export type NotificationTarget = Framework['config']['notifications']['targets'][number]

export const NOTIFICATION_TIMEOUT_MS = 10_000

const MAX_ERROR_LENGTH = 500
/** Of what the target answers: Slack's reasons, such as `invalid_payload`, are short. */
const MAX_ANSWER_LENGTH = 100
const GONE = 410 // RFC 9110, 15.5.11; Standard Webhooks: the consumer is to be disabled

export type Sent =
  | { readonly kind: 'taken'; readonly status: number }
  | { readonly kind: 'refused' | 'gone'; readonly status: number; readonly reason: string }
  /** No answer came. */
  | { readonly kind: 'unanswered'; readonly status: null; readonly reason: string }

/**
 * Sends a body, signed where the target has a secret. Taken is what is answered by 2xx; redirects are not followed, since a
 * signed body is meant for one place.
 *
 * @param id the same for every try of one event: by it the receiver knows what it has seen
 * @throws the signal's reason, and nothing else
 */
export async function sendNotification(
  { egress, clock }: Pick<Framework, 'egress' | 'clock'>,
  target: NotificationTarget,
  { id, body: content }: { readonly id: string; readonly body: object },
  signal: AbortSignal,
): Promise<Sent> {
  const body = JSON.stringify(content)
  const signature =
    target.secret === undefined ? {} : signStandardWebhook({ id, sentAt: clock.now(), body }, target.secret)
  const fetch = egress.fetch({ followRedirects: false, allowPrivate: target.allow_private === true, signal })
  let response: Response
  try {
    response = await fetch(target.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'user-agent': 'durable-integrations', ...signature },
      body,
    })
  } catch (error) {
    signal.throwIfAborted()
    return {
      kind: 'unanswered',
      status: null,
      reason: redactedErrorLine(causeOf(error), secretsIn(target), MAX_ERROR_LENGTH),
    }
  }
  const { status } = response
  if (response.ok) {
    await response.body?.cancel()
    return { kind: 'taken', status }
  }
  return { kind: status === GONE ? 'gone' : 'refused', status, reason: await reasonOf(response, secretsIn(target)) }
}

/** The URL's origin: the rest of a URL may be a secret, as Slack's are. */
export function originOf({ url }: NotificationTarget): string {
  return new URL(url).origin
}

/** Keys under which an event row records deliveries to targets. A second target of the same URL has a key of its own. */
export function targetKeys(targets: readonly NotificationTarget[]): string[] {
  const seen = new Map<string, number>()
  return targets.map(({ url }) => {
    const key = `target:${createHash('sha256').update(url).digest('hex').slice(0, 12)}`
    const times = (seen.get(key) ?? 0) + 1
    seen.set(key, times)
    return times === 1 ? key : `${key}#${times}`
  })
}

/** What must not be stored or shown of a target. */
function secretsIn({ url, secret }: NotificationTarget): string[] {
  const { pathname, search } = new URL(url)
  return secretsOf([url, pathname + search, pathname, secret])
}

/** `fetch failed` says nothing; what is below it does. */
function causeOf(error: unknown): unknown {
  return error instanceof TypeError && error.cause instanceof Error ? error.cause : error
}

async function reasonOf(response: Response, secrets: readonly string[]): Promise<string> {
  const said = redactText(await beginningOf(response), secrets)
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim()
  const words = said === '' || said.startsWith('<') ? '' : `: ${said.slice(0, MAX_ANSWER_LENGTH)}`
  return `it answered ${response.status}${isRedirect(response) ? ', and redirects are not followed' : ''}${words}`
}

async function beginningOf({ body }: Response): Promise<string> {
  if (body === null) return ''
  const reader = body.getReader()
  try {
    const { value } = await reader.read()
    return value === undefined ? '' : new TextDecoder().decode(value)
  } catch {
    // The status is the result. An answer that breaks off adds nothing.
    return ''
  } finally {
    await reader.cancel().catch(() => {})
  }
}
