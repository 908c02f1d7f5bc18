import { describe, expect, it } from 'vitest'
import { nearestName } from '../../src/config/nearest-name.ts'

describe('the nearest name', () => {
  const known = ['webhook.max_attempts', 'webhook.queue', 'sync.queue', 'oauth.state_ttl']

  it.each([
    ['webhook.max_atempts', 'webhook.max_attempts'],
    ['webhook.maxAttempts', 'webhook.max_attempts'],
    ['WEBHOOK.QUEUE', 'webhook.queue'],
    ['synk.queue', 'sync.queue'],
    ['oauth.state.ttl', 'oauth.state_ttl'],
  ])('of %s is %s', (given, expected) => {
    expect(nearestName(given, known)).toBe(expected)
  })

  it.each(['database', 'x', 'something.entirely.different'])('of %s is none: nothing is close', (given) => {
    expect(nearestName(given, known)).toBeNull()
  })
})
