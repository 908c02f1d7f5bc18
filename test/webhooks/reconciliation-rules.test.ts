import { describe, expect, it } from 'vitest'
import { reconciliationWindow } from '../../src/webhooks/reconciliation-rules.ts'

const NOW = new Date('2026-03-10T12:00:00Z')
const DAY = 86_400
const ago = (seconds: number): Date => new Date(NOW.getTime() - seconds * 1_000)

function windowOf(given: Partial<Parameters<typeof reconciliationWindow>[0]> = {}) {
  const { since, until, isGapless } = reconciliationWindow({
    now: NOW,
    lookbackSeconds: 3 * DAY,
    lastUntil: null,
    ...given,
  })
  return [(NOW.getTime() - since.getTime()) / 1_000, (NOW.getTime() - until.getTime()) / 1_000, isGapless]
}

describe('the window, in seconds ago', () => {
  it.each<[string, Parameters<typeof windowOf>[0], [since: number, until: number, isGapless: boolean]]>([
    ['the first: as far back as the provider knows', {}, [3 * DAY, 300, true]],
    ['from 10 minutes before the last end', { lastUntil: ago(3_600) }, [4_200, 300, true]],
    ['from the last end, if the run was a moment ago', { lastUntil: ago(300) }, [900, 300, true]],
    ['no further back than the provider knows', { lastUntil: ago(3 * DAY) }, [3 * DAY, 300, true]],
    ['as the first, if the last end is to come: a clock was fast', { lastUntil: ago(-1) }, [3 * DAY, 300, true]],
    ['from a last end that is now', { lastUntil: ago(0) }, [600, 300, true]],
    ['exactly as far as the provider knows', { lastUntil: ago(3 * DAY - 600) }, [3 * DAY, 300, true]],
    ['as wanted, later than the last end: a gap', { lastUntil: ago(DAY), wanted: ago(3_600) }, [3_600, 300, false]],
    ['as wanted, where the usual one begins', { lastUntil: ago(DAY), wanted: ago(DAY + 600) }, [DAY + 600, 300, true]],
    ['as wanted, a second later: a gap', { lastUntil: ago(DAY), wanted: ago(DAY + 599) }, [DAY + 599, 300, false]],
    ['as wanted, before the last end', { lastUntil: ago(DAY), wanted: ago(2 * DAY) }, [2 * DAY, 300, true]],
    ['as wanted, beyond what the provider knows', { wanted: ago(9 * DAY) }, [3 * DAY, 300, true]],
    ['as wanted, without a last end: a gap', { wanted: ago(3_600) }, [3_600, 300, false]],
  ])('%s', (_, given, expected) => {
    expect(windowOf(given)).toEqual(expected)
  })

  it('begins in 1970 for a provider that forgets nothing', () => {
    expect(reconciliationWindow({ now: NOW, lookbackSeconds: Infinity, lastUntil: null }).since).toEqual(new Date(0))
  })
})
