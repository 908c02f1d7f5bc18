import { describe, expect, it } from 'vitest'
import { isNotified, isRepeat, NOTIFICATION_TYPE_OF } from '../../src/events/notification-rules.ts'

describe('a target', () => {
  it.each([
    ['of all types', [{}], 'IncidentOpened', true],
    ['of this type', [{ types: ['incident.opened'] }], 'IncidentOpened', true],
    ['of another type', [{ types: ['incident.closed'] }], 'IncidentOpened', false],
    ['of no type', [{ types: [] }], 'IncidentOpened', false],
    [
      'beside one of another type',
      [{ types: ['incident.closed'] }, { types: ['sync.stale'] }],
      'SyncBecameStale',
      true,
    ],
    ['of all types, of an event without a message', [{}], 'TokensRefreshed', false],
    ['of all types, of a name that each object has', [{}], 'toString', false],
  ] as const)('%s', (_, targets, name, isTold) => {
    expect(isNotified(targets, name)).toBe(isTold)
  })

  it('is missing', () => {
    expect(isNotified([], 'IncidentOpened')).toBe(false)
  })
})

it('only these repeat the trouble of an incident', () => {
  expect([...Object.keys(NOTIFICATION_TYPE_OF), 'toString', 'TokensRefreshed'].filter(isRepeat)).toEqual([
    'SyncBecameStale',
    'SyncItemStuck',
    'ElevatedFailureRate',
  ])
})
