import { expect, it } from 'vitest'
import { SIGNINGS, TEST_HEADER } from '../../src/webhooks/test-delivery-rules.ts'

// A host's handler may look for the header: docs/behaviour/dashboard.md, "Test console".
it('a test delivery is told apart by its header, and signed in one of three ways', () => {
  expect(TEST_HEADER).toBe('x-integrations-test')
  expect(SIGNINGS).toEqual(['signed', 'unsigned', 'tampered'])
})
