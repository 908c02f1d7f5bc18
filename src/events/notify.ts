/** Tells notification targets by signed webhooks. Rule: docs/behaviour/notifications.md. */
import { randomUUID } from 'node:crypto'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import { testMessage } from './notification-message.ts'
import type { NotificationTarget, Sent } from './notification-sending.ts'
import { NOTIFICATION_TIMEOUT_MS, originOf, sendNotification, targetKeys } from './notification-sending.ts'
import { slackTestMessage } from './slack-message.ts'

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
