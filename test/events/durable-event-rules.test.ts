import { expect, it } from 'vitest'
import { canBeDurable, DURABLE_EVENTS } from '../../src/events/durable-event-rules.ts'

it('the events of which a row can be stored are those of the list', () => {
  expect(DURABLE_EVENTS.every(canBeDurable)).toBe(true)
  expect(canBeDurable('RequestCompleted')).toBe(false)
})
