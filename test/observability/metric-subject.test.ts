/** Whose something is that is logged: asked once, and not waited for long. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createTables } from '../../src/db/schema/tables.ts'
import type { Framework } from '../../src/framework/context.ts'
import { subjectOf } from '../../src/observability/metric-subject.ts'

type Answer = () => Promise<{ readonly provider: string }[]>

/** A Postgres that answers so; `asked` counts, and keeps which columns were asked for. */
function postgres(answer: Answer) {
  const asked: string[][] = []
  const db = {
    select: (columns: object = { '*': true }) => {
      asked.push(Object.keys(columns))
      return { from: () => ({ where: answer }) }
    },
  }
  return { asked, framework: { db, tables: createTables('integration_') } as never as Framework }
}

beforeEach(() => {
  vi.useFakeTimers()
  return () => vi.useRealTimers()
})
afterEach(() => expect(vi.getTimerCount()).toBe(0))

describe('the subject of a log line', () => {
  it('is read once in a process, without the rest of its row', async () => {
    const { asked, framework } = postgres(async () => [{ provider: 'github' }])
    for (let n = 0; n < 3; n += 1) expect(await subjectOf(framework, 7)).toEqual({ id: 7, provider: 'github' })
    expect(asked).toEqual([['provider']])
  })

  it.each<[what: string, answer: Answer]>([
    ['has no row', async () => []],
    ['can not be read', async () => Promise.reject(new Error('away'))],
  ])('that %s is unknown, and asked for again', async (_, answer) => {
    const { asked, framework } = postgres(answer)
    for (let n = 0; n < 2; n += 1) expect(await subjectOf(framework, 7)).toEqual({ id: 7, provider: '(unknown)' })
    expect(asked).toHaveLength(2)
  })

  it('is unknown where Postgres does not answer within two seconds', async () => {
    const { framework } = postgres(() => new Promise(() => {}))
    const subject = subjectOf(framework, 7)
    await vi.advanceTimersByTimeAsync(2_000)
    expect(await subject).toEqual({ id: 7, provider: '(unknown)' })
  })
})
