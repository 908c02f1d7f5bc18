/** What ends an activity that a person's command waits for. Rule: docs/behaviour/workflows.md, "Activities". */
import { CancelledFailure } from '@temporalio/common'
import { describe, expect, it } from 'vitest'
import { commandStep } from '../../src/activities/command-steps.ts'
import * as errors from '../../src/framework/errors.ts'
import { runActivity } from '../support/activities.ts'

/** How it ends that an activity throws this in a try. */
const thrown = (error: unknown, attempt = 1) =>
  runActivity(
    commandStep('skipFailedItem', async () => {
      throw error
    }),
    { itemId: 7 },
    { attempt },
  ).then(
    () => expect.fail('it has not failed'),
    (caught: unknown) => caught,
  )

const LOST = Object.assign(new Error('write CONNECTION_CLOSED 127.0.0.1:5432'), { code: 'CONNECTION_CLOSED' })
const LOCKED = new errors.LockTimeoutException('integrations:integration:7:lock:tokens', 15)

describe('a command', () => {
  it.each([
    new errors.CheckpointsNotReduced(12, 'Error: the reducer is broken'),
    new errors.IntegrationInactive(7, 'its health'),
    new errors.IntegrationBusy(7),
    new errors.CredentialsUnreadable(7, 'k2', 'no such key'),
    new errors.WebhookNotFound(7),
    new errors.MappingAlreadyClaimed({
      integrationId: 7,
      externalId: 'a',
      internalType: 'issue',
      claimedBy: '1',
      requestedBy: '2',
      holderExists: true,
    }),
  ])('that is refused ends at once, by the code: $code', async (error) => {
    expect(await thrown(error)).toMatchObject({ type: error.code, nonRetryable: true })
  })

  it.each([
    [null, 'null'],
    [[7], 'a list'],
    ['seven', 'a string'],
  ])('whose input is no object says what is allowed: %j', async (input, given) => {
    const step = commandStep('listReconcilable', async () => expect.fail('it ran'))
    await expect(runActivity(step, input)).rejects.toMatchObject({
      type: 'invalid_argument',
      nonRetryable: true,
      message: `"input": one JSON object is allowed, ${given} was given.`,
    })
  })

  it.each([
    ['what is none of ours', new RangeError('Invalid time value'), 'RangeError'],
    ['a lock that another one holds', LOCKED, 'lock_timeout'],
  ])('tries %s six times', async (_, error, type) => {
    expect(await thrown(error, 5)).toBe(error)
    expect(await thrown(error, 6)).toMatchObject({ type, nonRetryable: true, stack: '' })
  })

  it.each([
    ['waits for a Postgres that is away', LOST],
    ['is left to another worker by one that stops', new CancelledFailure('WORKER_SHUTDOWN')],
  ])('%s, however often', async (_, error) => {
    const cancelled = error instanceof CancelledFailure
    const ended = cancelled
      ? runActivity(
          commandStep('skipFailedItem', async () => {
            throw error
          }),
          { itemId: 7 },
          { attempt: 99, onStart: (cancel) => cancel() },
        )
      : thrown(error, 99).then((caught) => Promise.reject(caught))
    await expect(ended).rejects.toBe(error)
  })
})
