import { expect, it } from 'vitest'
import type { Config } from '../../src/config/schema.ts'
import { temporalStarters } from '../../src/temporal/starters.ts'
import { loadConfig } from '../support/load-config.ts'

/** Rule: docs/behaviour/metrics.md, "Counters". */
it('a wake-up that fails is counted, be it of the inbox, of the outbox or of who follows an incident', async () => {
  const { config } = loadConfig({ config: {}, optionProviderKeys: [], middlewareNames: [] }) as {
    config: Config
  }
  const events: unknown[] = []
  let counted = 0
  const starters = temporalStarters(
    () => {
      throw new Error('no address')
    },
    config,
    { debug() {}, info() {}, warn: ({ event }) => void events.push(event), error() {} },
    {
      wakeUpFailed() {
        counted += 1
      },
      workflowReplaced() {},
    },
  )
  starters.wakeInbox()
  starters.wakeOutbox()
  starters.followIncident(1, 'escalate')
  starters.followIncident(1, 'recovered')
  await expect.poll(() => counted).toBe(4)
  expect(events.sort()).toEqual([
    'inbox.wake_failed',
    'incident.wake_failed',
    'incident.wake_failed',
    'outbox.wake_failed',
  ])
  // It sends what is owed once more, by the same client.
  await expect(starters.close()).rejects.toThrow('no address')
})
