/** GitHub's primary rate limit: a count of requests that starts again an hour after its first one. */
export interface HourlyQuota {
  /** Takes one request. False: none is left in this hour. */
  take(): boolean
  /** Gives one back: an answer 304 is free. */
  giveBack(): void
  headers(): Record<string, string>
}

const HOUR_MS = 3_600_000

export function createHourlyQuota(limit: number, now: () => Date): HourlyQuota {
  let used = 0
  let resetAtMs = 0

  const roll = (): void => {
    const nowMs = now().getTime()
    if (nowMs < resetAtMs) return
    used = 0
    resetAtMs = nowMs + HOUR_MS
  }

  return {
    take() {
      roll()
      if (used >= limit) return false
      used++
      return true
    },
    giveBack() {
      used = Math.max(0, used - 1)
    },
    headers() {
      roll()
      return {
        'x-ratelimit-limit': String(limit),
        'x-ratelimit-remaining': String(limit - used),
        'x-ratelimit-reset': String(Math.ceil(resetAtMs / 1000)),
        'x-ratelimit-resource': 'core',
        'x-ratelimit-used': String(used),
      }
    },
  }
}
