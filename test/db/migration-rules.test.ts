import { expect, it } from 'vitest'
import { firstAndLast } from '../../src/db/migration-rules.ts'

it.each([
  [['0007_locks'], '1 migration: 0007_locks'],
  [['0000_initial', '0001_webhooks'], '2 migrations: 0000_initial to 0001_webhooks'],
  [['0000_initial', '0001_webhooks', '0002_syncs'], '3 migrations: 0000_initial to 0002_syncs'],
])('%j are said as %s', (names, said) => {
  expect(firstAndLast(names)).toBe(said)
})
