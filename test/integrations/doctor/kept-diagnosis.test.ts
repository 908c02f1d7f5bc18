/** Rule: docs/behaviour/doctor.md, "A kept look". */
import { afterEach, expect, it, vi } from 'vitest'
import { keptDiagnosis } from '../../../src/integrations/doctor/kept-diagnosis.ts'

afterEach(() => {
  vi.useRealTimers()
})

it('is as old as the time that has passed, also where the clock was set back meanwhile', async () => {
  vi.useFakeTimers({ now: Date.UTC(2026, 0, 1, 12), toFake: ['Date', 'performance'] })
  let looks = 0
  const diagnosis = keptDiagnosis(async () => {
    looks += 1
    return []
  })
  await diagnosis({ maxAgeSeconds: 15 })
  vi.advanceTimersByTime(15_000)
  await diagnosis({ maxAgeSeconds: 15 })
  expect(looks).toBe(1)
  vi.setSystemTime(Date.UTC(2026, 0, 1, 11))
  await diagnosis({ maxAgeSeconds: 15 })
  expect(looks).toBe(1)
  vi.advanceTimersByTime(1_000)
  await diagnosis({ maxAgeSeconds: 15 })
  expect(looks).toBe(2)
})
