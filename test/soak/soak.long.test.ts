/** The short form of `npm run soak`: three minutes. They are too few for verdicts; that all is measured and nothing is lost is not. */
import { expect, inject, it } from 'vitest'
import { soakLines } from './report.ts'
import { runSoak } from './soak.ts'

const TIMES = ['answers to webhooks', 'webhooks, stored to settled', 'outbound calls', 'sync runs']
const OF_PROCESSES = [
  'heap after a collection',
  'resident memory',
  'active handles',
  'open descriptors',
  'open sockets',
]

it('measures all that may grow, under load, and loses nothing', async () => {
  const soak = await runSoak({
    minutes: 3,
    perSecond: null,
    installed: inject('installed'),
    say: (line) => console.log(line),
  })
  console.log(soakLines(soak).join('\n'))
  expect(soak.faults).toEqual([])
  expect(soak.perSecond).toBeCloseTo((soak.capacity ?? 0) / 3)
  expect(soak.webhooks.handled).toBe(soak.webhooks.answered)
  const names = soak.judged.map(({ name }) => name)
  for (const process of ['api', 'worker', 'worker-2'])
    for (const what of OF_PROCESSES) expect(names).toContain(`${process}: ${what}`)
  for (const what of TIMES) expect(names).toEqual(expect.arrayContaining([`${what}: median time`, `${what}: p95 time`]))
  expect(names).toEqual(
    expect.arrayContaining([
      'Postgres: connections',
      'integration_webhooks: table',
      'integration_webhooks: indexes',
      'integration_requests: table',
      'integration_rollups: table and indexes, per row',
      'all tables: share of dead rows and free space',
    ]),
  )
  // Ten and more, else there is no verdict.
  expect(soak.judged.filter(({ slope }) => slope === null)).toEqual([])
})
