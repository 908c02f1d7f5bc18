import { expect, it } from 'vitest'
import { PRUNING_STEPS } from '../../src/retention/rules.ts'

// Its keys are those of the command's answer, in this order: docs/behaviour/pruning.md.
it('pruning has its steps in their order', () => {
  expect(PRUNING_STEPS).toEqual([
    ...['requests', 'logs', 'idempotency_keys', 'sync_items', 'incidents_closed', 'incidents', 'cache', 'events'],
    ...['webhooks', 'audit'],
  ])
})
