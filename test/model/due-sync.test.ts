import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { HealthStatus } from '../../src/integrations/rules.ts'
import type { SyncPlan } from './due-sync.ts'
import { dueFrom } from './due-sync.ts'

const BACKOFF = { degraded: 2, failing: 10 }
const NOON = new Date('2031-06-01T12:00:00Z')
const minutes = (count: number): Date => new Date(NOON.getTime() + count * 60_000)

const healthy: SyncPlan = {
  isActive: true,
  health: 'healthy',
  intervalMinutes: null,
  defaultIntervalMinutes: 10,
  nextSyncAt: NOON,
  lastSyncedAt: minutes(-10),
  lastRunEndedAt: minutes(-10),
}
const due = (plan: Partial<SyncPlan>): Date | null => dueFrom({ ...healthy, ...plan }, BACKOFF)

describe('an integration is due', () => {
  it('from its next_sync_at on', () => expect(due({})).toEqual(NOON))

  it('at once when no run was ever planned', () => expect(due({ nextSyncAt: null })?.getTime()).toBe(0))

  it.each<[string, Partial<SyncPlan>]>([
    ['is switched off', { isActive: false }],
    ['was disabled by its health', { health: 'disabled' }],
    ['has no interval, nor has its provider', { defaultIntervalMinutes: null }],
  ])('never while it %s', (_, plan) => expect(due(plan)).toBeNull())

  it('by an interval of its own where its provider has none', () =>
    expect(due({ intervalMinutes: 5, defaultIntervalMinutes: null })).toEqual(NOON))
})

describe('the health wait', () => {
  it.each<[HealthStatus, number]>([
    ['degraded', 2],
    ['failing', 10],
  ])('of a %s integration is %i intervals', (health, factor) =>
    expect(due({ health, nextSyncAt: null })).toEqual(minutes(-10 + 10 * factor)),
  )

  it('is of the interval in force: its own before the provider’s', () =>
    expect(due({ health: 'degraded', intervalMinutes: 30, nextSyncAt: null })).toEqual(minutes(50)))

  it('counts from the last clean run or from the end of the last run, whichever is later', () => {
    const plan = { health: 'degraded', nextSyncAt: null } as const
    expect(due({ ...plan, lastSyncedAt: minutes(-100), lastRunEndedAt: minutes(-5) })).toEqual(minutes(15))
    expect(due({ ...plan, lastSyncedAt: minutes(-5), lastRunEndedAt: minutes(-100) })).toEqual(minutes(15))
    expect(due({ ...plan, lastSyncedAt: null, lastRunEndedAt: minutes(-5) })).toEqual(minutes(15))
    expect(due({ ...plan, lastSyncedAt: minutes(-5), lastRunEndedAt: null })).toEqual(minutes(15))
  })

  it('is none before the first run', () =>
    expect(due({ health: 'failing', lastSyncedAt: null, lastRunEndedAt: null })).toEqual(NOON))

  it('is not multiplied with the failure backoff of next_sync_at: the later of the two governs', () => {
    expect(due({ health: 'degraded', nextSyncAt: minutes(150) })).toEqual(minutes(150))
    expect(due({ health: 'degraded', nextSyncAt: minutes(1) })).toEqual(minutes(10))
  })

  it('never makes an integration due earlier, nor does worse health', () => {
    const moment = fc.option(fc.integer({ min: -10_000, max: 10_000 }).map(minutes))
    const plans = fc.record({
      isActive: fc.constant(true),
      health: fc.constant<HealthStatus>('healthy'),
      intervalMinutes: fc.option(fc.integer({ min: 1, max: 1_000 })),
      defaultIntervalMinutes: fc.integer({ min: 1, max: 1_000 }),
      nextSyncAt: moment,
      lastSyncedAt: moment,
      lastRunEndedAt: moment,
    })
    fc.assert(
      fc.property(plans, (plan) => {
        const [well, degraded, failing] = (['healthy', 'degraded', 'failing'] as const).map(
          (health) => dueFrom({ ...plan, health }, BACKOFF)?.getTime() ?? Number.NaN,
        )
        expect(degraded).toBeGreaterThanOrEqual(well as number)
        expect(failing).toBeGreaterThanOrEqual(degraded as number)
      }),
    )
  })
})
