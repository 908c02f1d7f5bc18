/** Postgres ends one of two transactions that wait for each other; the other one's work is then done. */
const DEADLOCK_DETECTED = '40P01'
/** Two in a row are rare, so many more mean that something is wrong. */
const TRIES = 5

/** Does the work again when Postgres has ended it for a deadlock. The work is one transaction, so nothing of it is left. */
export async function despiteDeadlocks<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1)
    try {
      return await work()
    } catch (error) {
      const isDeadlock = error instanceof Error && 'code' in error && error.code === DEADLOCK_DETECTED
      if (!isDeadlock || tries >= TRIES) throw error
    }
}
