import { describe, expect, it } from 'vitest'
import { codeOf, remedyFor } from '../../src/framework/remedies.ts'

describe('what mends a failure', () => {
  it.each(['integration_inactive', 'IntegrationInactive', 'IntegrationInactiveException'])(
    'is found by the type %s',
    (type) => {
      expect(remedyFor(type)).toBe('`integrations enable ID` switches it on.')
      expect(codeOf(type)).toBe('integration_inactive')
    },
  )

  it.each(['constructor', 'toString', 'hasOwnProperty', '__proto__', 'Error', ''])(
    'is nothing for a failure of the type %j, which anybody may have thrown',
    (type) => {
      expect(remedyFor(type)).toBe('')
    },
  )
})
