import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { causeWords } from '../../src/incidents/rules.ts'
import { HealthStatus } from '../../src/integrations/rules.ts'

it('has words for each reason that may open an incident', () => {
  const page = readFileSync(new URL('../../docs/behaviour/incidents.md', import.meta.url), 'utf8')
  const [, table = ''] = /## The beginning\n(.*?)\n\n/s.exec(page) ?? []
  const reasons = table
    .split('\n')
    .slice(2)
    .flatMap((row) => [...(row.split(' | ')[2] ?? '').matchAll(/`([^`]+)`/g)].map(([, reason]) => String(reason)))
    .flatMap((reason) =>
      reason === 'health_<status>'
        ? Object.values(HealthStatus).flatMap((status) => (status === 'healthy' ? [] : [`health_${status}`]))
        : [reason],
    )
  expect(reasons).toHaveLength(9)
  expect(reasons.filter((reason) => causeWords(reason) === reason.replaceAll('_', ' '))).toEqual([])
  expect(reasons.filter((reason) => !/^[a-z][a-z ',]{15,}$/.test(causeWords(reason)))).toEqual([])
})

it('says what happened to the integration, and any other reason as it is', () => {
  expect(causeWords('tokens_refused')).toBe('its tokens were refused')
  expect(causeWords('a_reason_of_a_later_release')).toBe('a reason of a later release')
})
