/** Requests in a minute of the clock. */
export interface MinuteQuota {
  /** False: nothing is left. */
  take(): boolean
  headers(): Record<string, string>
  secondsLeft(): number
}

export function createMinuteQuota(limit: number, now: () => Date): MinuteQuota {
  let minute = Number.NaN
  let used = 0
  const seconds = (): number => Math.floor(now().getTime() / 1000)
  const turn = (): void => {
    const current = Math.floor(seconds() / 60)
    if (current === minute) return
    minute = current
    used = 0
  }
  return {
    take() {
      turn()
      if (used >= limit) return false
      used++
      return true
    },
    headers() {
      turn()
      return {
        'x-ratelimit-limit': String(limit),
        'x-ratelimit-remaining': String(limit - used),
        'x-ratelimit-reset': String((minute + 1) * 60),
      }
    },
    secondsLeft: () => 60 - (seconds() % 60),
  }
}
