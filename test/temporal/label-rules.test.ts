import { expect, it } from 'vitest'
import { SEARCH_ATTRIBUTES } from '../../src/temporal/label-rules.ts'

// Saved filters of Temporal's UI name them: docs/behaviour/workflows.md, "Search attributes".
it('search attributes keep their names and types', () => {
  expect(SEARCH_ATTRIBUTES).toEqual({ IntegrationProvider: 'Keyword', IntegrationId: 'Int' })
})
