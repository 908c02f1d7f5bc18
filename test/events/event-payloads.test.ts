/** What is stored of an event that is told later, and how it is read back. Rule: docs/behaviour/events.md, "Durable events". */
import { describe, expect, it } from 'vitest'
import type { DurableEventName } from '../../src/events/durable-event-rules.ts'
import { DURABLE_EVENTS } from '../../src/events/durable-event-rules.ts'
import type { DurableEvent } from '../../src/events/durable-events.ts'
import { decodeEvent, encodeEvent } from '../../src/events/event-payloads.ts'
import type { IncidentRecord, SyncItemRecord } from '../../src/events/events.ts'
import { ODD_ERRORS } from '../support/odd-errors.ts'

const AT = new Date('2026-03-01T10:00:00.123Z')
const incident: IncidentRecord = {
  id: 7,
  integrationId: 3,
  status: 'open',
  source: 'health',
  reason: 'health_degraded',
  peakSeverity: 'failing',
  openedAt: AT,
  lastErrorAt: null,
  closedAt: null,
}
const item: SyncItemRecord = {
  id: 2 ** 52,
  integrationId: 3,
  batchId: null,
  syncLogId: null,
  eventClass: 'acme.thing',
  externalId: 'x',
  checkpointValue: { at: [1, null, 'text'] },
  status: 'failed',
  error: 'Error: no',
  attempts: 4,
  completedAt: AT,
  createdAt: AT,
  updatedAt: AT,
}

const EVENTS: readonly DurableEvent[] = [
  { name: 'IntegrationCreated', payload: {} },
  { name: 'CredentialsUpdated', payload: { keys: ['token'] } },
  { name: 'IntegrationDisabled', payload: {} },
  { name: 'IntegrationHealthChanged', payload: { previousStatus: 'healthy', newStatus: 'degraded' } },
  { name: 'CircuitOpened', payload: { reason: 'forced_open', openedAt: AT } },
  { name: 'CircuitClosed', payload: { reason: 'half_open_probe_succeeded' } },
  { name: 'IncidentOpened', payload: { incident } },
  { name: 'IncidentEscalated', payload: { incident: { ...incident, lastErrorAt: AT }, rises: false } },
  { name: 'IncidentClosed', payload: { incident: { ...incident, status: 'closed', closedAt: AT } } },
  { name: 'WebhookReceived', payload: { provider: 'acme', webhookId: 1, deliveryId: 'd', eventType: null } },
  {
    name: 'SyncCompleted',
    payload: {
      result: {
        kind: 'partial',
        successCount: 1,
        failureCount: 2,
        skippedCount: 0,
        unchangedCount: 3,
        safeSyncedAt: AT,
        cursor: { page: 'text' },
      },
    },
  },
  { name: 'SyncItemFailed', payload: { item, error: new TypeError('no luck') } },
  { name: 'SyncItemStuck', payload: { item, consecutiveFailedRuns: 3 } },
  { name: 'SyncBecameStale', payload: { secondsSinceSync: 60, intervalMinutes: 7.5 } },
  { name: 'SyncStalenessRecovered', payload: {} },
  {
    name: 'ElevatedFailureRate',
    payload: { failureRate: 12.5, windowMinutes: 5, observedRequests: 40, dominantClass: 'throttle' },
  },
  { name: 'FailureRateRecovered', payload: {} },
  { name: 'OAuthCompleted', payload: {} },
  { name: 'OAuthRevoked', payload: {} },
  { name: 'ReauthRequired', payload: { reason: 'invalid_grant' } },
]

describe('an event that is stored', () => {
  it('is any that can be told later', () => {
    expect(EVENTS.map(({ name }) => name)).toEqual(DURABLE_EVENTS)
  })

  it.each(EVENTS.map((event) => [event.name, event.payload] as const))('%s is read back as it was', (name, payload) => {
    const read = decodeEvent(name, stored(name, payload))
    if (!('error' in payload)) return expect(read).toEqual(payload)
    expect(read).toMatchObject({ item, error: { name: 'TypeError', message: 'no luck' } })
    expect((read as typeof payload).error).toBeInstanceOf(Error)
  })

  it('keeps what a newer release added out of what listeners are told', () => {
    expect(decodeEvent('ReauthRequired', { reason: 'invalid_grant', more: 1 })).toEqual({ reason: 'invalid_grant' })
  })

  it('is read back where an earlier release has stored it, with fewer columns of its row', () => {
    const { batchId, status, completedAt, createdAt, updatedAt, ...fewer } = item
    expect(decodeEvent('SyncItemStuck', { item: fewer, consecutiveFailedRuns: 3 }).item).toEqual({
      ...fewer,
      ...{ batchId: null, status: 'failed', completedAt: null },
    })
    const { integrationId, ...ownerless } = incident
    expect(decodeEvent('IncidentOpened', stored('IncidentOpened', { incident: ownerless }))).toEqual({
      incident: ownerless,
    })
  })

  it.each<[DurableEventName, unknown]>([
    ['ReauthRequired', {}],
    ['IntegrationHealthChanged', { previousStatus: 'healthy', newStatus: 'of a newer release' }],
    ['CircuitOpened', { reason: 'forced_open', openedAt: 'yesterday' }],
    ['OAuthRevoked', null],
  ])('%s is refused where this release can not read it: %j', (name, payload) => {
    expect(() => decodeEvent(name, payload)).toThrow()
  })
})

describe('the error of an item', () => {
  const errorOf = (error: unknown, secrets: readonly string[] = []) =>
    stored('SyncItemFailed', { item, error }, secrets).error

  it.each([
    ['a text', 'no luck', { name: 'Error', message: 'no luck' }],
    ['nothing', undefined, { name: 'Error', message: 'undefined' }],
    ['what has no text', Object.create(null), { name: 'Error', message: 'object' }],
    [
      'an error of its own kind',
      Object.assign(new Error('no'), { name: 'Odd', code: 7 }),
      { name: 'Odd', message: 'no' },
    ],
  ])('that is %s is its name and its message', (_, error, expected) => {
    expect(errorOf(error)).toEqual(expected)
  })

  it.each(ODD_ERRORS)('that is %s is texts, and is read back', (_, { make, name, message }) => {
    const error = make()
    expect(errorOf(error)).toEqual({ name, message })
    const read = decodeEvent('SyncItemFailed', stored('SyncItemFailed', { item, error }))
    expect(read).toMatchObject({ item, error: { name, message, stack: `${name}: ${message}` } })
  })

  it('holds no secret where its message is no text', () => {
    const error = Object.assign(new Error(), { message: ['the token is', 'secret-of-the-tests'] })
    expect(errorOf(error, ['secret-of-the-tests'])).toEqual({ name: 'Error', message: 'the token is,[REDACTED]' })
  })

  it('holds no secret, also where it is cut', () => {
    const secret = 'secret-of-the-tests'
    const error = Object.assign(new Error(`${secret} ${'x'.repeat(970)} ${secret}`), { name: secret })
    const { name, message } = errorOf(error, [secret]) as { name: string; message: string }
    expect(name).toBe('[REDACTED]')
    expect(message).toHaveLength(992)
    expect(message).not.toContain('secret')
  })

  it('has a message of at most 1,000 characters', () => {
    expect(errorOf(new Error('x'.repeat(2_000)))).toEqual({ name: 'Error', message: 'x'.repeat(1_000) })
  })
})

/** As it comes back from the database. */
function stored(name: DurableEventName, payload: DurableEvent['payload'], secrets: readonly string[] = []) {
  return JSON.parse(JSON.stringify(encodeEvent<typeof name>(payload as never, secrets))) as Record<string, unknown>
}
