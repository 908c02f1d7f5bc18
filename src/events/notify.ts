/** Notification targets: as consumers of durable events, and for a test. They are told by signed webhooks. Rule: docs/behaviour/notifications.md. */
import { createHash, randomUUID } from 'node:crypto'
import { isRedirect } from '../egress/redirects.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import { redactText, secretsOf } from '../framework/redaction.ts'
import { signStandardWebhook } from '../providers/signatures/standard-webhooks.ts'
import type { Consumer, DeliveredEvent } from './event-delivery.ts'
import type { NotifiedEvent } from './notification-message.ts'
import { isNews, notificationMessage, testMessage } from './notification-message.ts'
import { NOTIFICATION_TYPE_OF } from './notification-rules.ts'
import { slackMessage, slackTestMessage } from './slack-message.ts'

/** Of one target, which is named by its place in the list, from 1, and its URL's origin: a URL may itself be a secret. */
export interface SentNotification {
  readonly target: number
  /** As the outbox and the logs name it. */
  readonly listener: string
  readonly host: string
  readonly ok: boolean
  readonly status: number | null
  readonly duration_ms: number
  readonly error: string | null
}

/**
 * Sends a test to each target, or to one, all at once; 10 s each. Its `types` are not asked: it is reached or it is not.
 *
 * @param options `target`: its place in the list, from 1
 * @throws InvalidArgumentException for a target that is not there
 */
export async function testNotifications(
  framework: Framework,
  { target: only }: { readonly target?: number } = {},
): Promise<readonly SentNotification[]> {
  const { targets } = framework.config.notifications
  if (only !== undefined && targets[only - 1] === undefined)
    throw new InvalidArgumentException(
      'target',
      targets.length === 0
        ? `notifications.targets is empty, ${only} was given`
        : `a whole number from 1 to ${targets.length} is allowed, the place in notifications.targets; ${only} was given`,
    )
  const keys = targetKeys(targets)
  return Promise.all(
    targets.flatMap((target, index) =>
      only === undefined || only === index + 1
        ? [testOne(framework, target, { target: index + 1, listener: keys[index] as string })]
        : [],
    ),
  )
}

async function testOne(
  framework: Framework,
  target: NotificationTarget,
  named: Pick<SentNotification, 'target' | 'listener'>,
): Promise<SentNotification> {
  const now = framework.clock.now()
  const body = target.format === 'slack' ? slackTestMessage(now) : testMessage(now)
  const startedAt = performance.now()
  const signal = AbortSignal.timeout(NOTIFICATION_TIMEOUT_MS)
  const sending = sendNotification(framework, target, { id: `evt_test_${randomUUID()}`, body }, signal)
  const sent = await sending.catch((error: unknown): Sent => {
    if (!signal.aborted) throw error
    return { kind: 'unanswered', status: null, reason: `no answer within ${NOTIFICATION_TIMEOUT_MS / 1_000} seconds` }
  })
  return {
    ...named,
    host: originOf(target),
    ok: sent.kind === 'taken',
    status: sent.status,
    duration_ms: Math.round(performance.now() - startedAt),
    error: sent.kind === 'taken' ? null : sent.reason,
  }
}

type NotificationTarget = Framework['config']['notifications']['targets'][number]

const NOTIFICATION_TIMEOUT_MS = 10_000

const MAX_ERROR_LENGTH = 500
/** Of what the target answers: Slack's reasons, such as `invalid_payload`, are short. */
const MAX_ANSWER_LENGTH = 100
const GONE = 410 // RFC 9110, 15.5.11; Standard Webhooks: the consumer is to be disabled

type Sent =
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
async function sendNotification(
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
      reason: redactedErrorLine(causeOf(error), targetSecrets(target), MAX_ERROR_LENGTH),
    }
  }
  const { status } = response
  if (response.ok) {
    await response.body?.cancel()
    return { kind: 'taken', status }
  }
  return { kind: status === GONE ? 'gone' : 'refused', status, reason: await reasonOf(response, targetSecrets(target)) }
}

/** The URL's origin: the rest of a URL may be a secret, as Slack's are. */
function originOf({ url }: NotificationTarget): string {
  return new URL(url).origin
}

/** Keys under which an event row records deliveries to targets. A second target of the same URL has a key of its own. */
function targetKeys(targets: readonly NotificationTarget[]): string[] {
  const seen = new Map<string, number>()
  return targets.map(({ url }) => {
    const key = `target:${createHash('sha256').update(url).digest('hex').slice(0, 12)}`
    const times = (seen.get(key) ?? 0) + 1
    seen.set(key, times)
    return times === 1 ? key : `${key}#${times}`
  })
}

/** What must not be stored or shown of a target. */
function targetSecrets({ url, secret }: NotificationTarget): string[] {
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

/** Its text ends up in the event's row and in the logs: it names the target by its origin. */
class NotificationNotTaken extends Error {
  override readonly name = 'NotificationNotTaken'
  readonly code = 'notification_not_taken'
}

/** The targets that this event is sent to, in the order of the configuration. */
export function notificationConsumers(framework: Framework, event: DeliveredEvent): Consumer[] {
  if (!isNews(event)) return []
  const { targets } = framework.config.notifications
  const keys = targetKeys(targets)
  const type = NOTIFICATION_TYPE_OF[event.name]
  return targets.flatMap((target, index) =>
    target.types === undefined || target.types.includes(type)
      ? [consumerOf(framework, target, keys[index] as string, event)]
      : [],
  )
}

function consumerOf(framework: Framework, target: NotificationTarget, key: string, event: NotifiedEvent): Consumer {
  return {
    key,
    timeoutMs: NOTIFICATION_TIMEOUT_MS,
    deliver: async (_event, signal) => {
      const body = target.format === 'slack' ? slackMessage(event) : notificationMessage(event)
      const sent = await sendNotification(framework, target, { id: `evt_${event.id}`, body }, signal)
      if (sent.kind === 'taken') return 'delivered'
      if (sent.kind === 'gone') return 'gone'
      throw new NotificationNotTaken(`${originOf(target)}: ${sent.reason}`)
    },
  }
}
