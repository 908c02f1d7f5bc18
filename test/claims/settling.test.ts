/** How the outcomes of a pump are stored. */
import { describe, expect, it, vi } from 'vitest'
import { Settling } from '../../src/claims/settling.ts'
import { occasion } from '../support/integrations.ts'
import { SOON } from '../support/soon.ts'

const silentLogger = { debug() {}, info() {}, warn() {}, error() {} }

/** Statements are answered by hand, in order, unless `answers` is given. */
function scripted(answers?: () => Promise<void>) {
  const statements: { outcomes: readonly number[]; answer: ReturnType<typeof occasion<void>> }[] = []
  const settled: number[] = []
  const end = new AbortController()
  const settling = new Settling<number>({
    async settle(outcomes) {
      const answer = occasion()
      const statement = { outcomes, answer }
      statements.push(statement)
      await (answers?.() ?? answer.happened)
    },
    onSettled: (outcomes) => void settled.push(...outcomes),
    signal: end.signal,
    logger: silentLogger,
  })
  const sent = () => statements.map(({ outcomes }) => outcomes)
  return { settling, statements, sent, settled, end }
}

const ALONE = { isBacklog: false }
const BACKLOG = { isBacklog: true }

const count = (from: number, length: number) => Array.from({ length }, (_, n) => from + n)

describe('outcomes', () => {
  it('alone are stored at once; what ends meanwhile goes with the next statement', async () => {
    const { settling, statements, sent, settled } = scripted()
    settling.add(1, ALONE)
    settling.add(2, ALONE)
    settling.add(3, ALONE)
    expect(sent()).toEqual([[1]])
    statements[0]?.answer.happen()
    await vi.waitFor(() => expect(sent()).toEqual([[1], [2, 3]]), SOON)
    expect(settled).toEqual([1])
    statements[1]?.answer.happen()
    await settling.finish()
    expect(settled).toEqual([1, 2, 3])
  })

  it('go 200 to a statement at most', async () => {
    const { settling, sent, statements } = scripted()
    for (const n of count(0, 302)) settling.add(n, ALONE)
    statements[0]?.answer.happen()
    await vi.waitFor(() => expect(sent()).toHaveLength(2), SOON)
    statements[1]?.answer.happen()
    await vi.waitFor(() => expect(sent()).toHaveLength(3), SOON)
    expect(sent().map(({ length }) => length)).toEqual([1, 200, 101])
  })

  it('of an integration with a backlog gather: 50 are stored at once, fewer after a moment', async () => {
    const { settling, sent } = scripted(async () => {})
    for (const n of count(0, 49)) settling.add(n, BACKLOG)
    expect(sent()).toEqual([])
    settling.add(49, BACKLOG)
    expect(sent()).toEqual([count(0, 50)])
    await settling.finish()
    settling.add(50, BACKLOG)
    expect(sent()).toHaveLength(1)
    await vi.waitFor(() => expect(sent()).toEqual([count(0, 50), [50]]), SOON)
  })

  it('of others do not wait for a backlog’s statement', async () => {
    const { settling, sent, settled, statements } = scripted()
    for (const n of count(0, 50)) settling.add(n, BACKLOG)
    settling.add(99, ALONE)
    expect(sent()).toEqual([count(0, 50), [99]])
    statements[1]?.answer.happen()
    await vi.waitFor(() => expect(settled).toEqual([99]), SOON)
  })

  it.each([ALONE, BACKLOG])('without an ordering key do not wait for those with one: $isBacklog', async (kind) => {
    const { settling, sent, settled, statements } = scripted()
    for (const n of count(0, 50)) settling.add(n, { ...kind, isOrdered: true })
    const before = sent().length
    for (const n of count(100, 50)) settling.add(n, kind)
    expect(sent().slice(before)).toEqual([kind === ALONE ? [100] : count(100, 50)])
    statements.at(-1)?.answer.happen()
    await vi.waitFor(() => expect(settled).toEqual(sent().at(before)), SOON)
  })

  it.each(count(0, 12))('that come %i microtasks after a settlement lie no longer than others', async (ticks) => {
    const { settling, settled, sent } = scripted(async () => {})
    const gone = occasion()
    settling.add(1, ALONE)
    void (async () => {
      while (settled.length === 0) await null
      for (let n = 0; n < ticks; n += 1) await null
      settling.add(2, ALONE)
      gone.happen()
    })()
    await gone.happened
    await vi.waitFor(() => expect(sent()).toEqual([[1], [2]]), SOON)
  })

  it('are tried again until they are stored', async () => {
    let tries = 0
    const { settling, settled } = scripted(async () => {
      tries += 1
      if (tries < 3) throw new Error('away for a moment')
    })
    settling.add(1, ALONE)
    await settling.finish()
    expect([tries, settled]).toEqual([3, [1]])
  })

  it('that can not be stored before the end are told as its error, after all others were tried', async () => {
    let tries = 0
    const { settling, settled, sent, end } = scripted(async () => {
      tries += 1
      if (tries === 1) throw new Error('away')
    })
    end.abort()
    settling.add(1, ALONE)
    settling.add(2, ALONE)
    await expect(settling.finish()).rejects.toThrow('away')
    expect(sent()).toEqual([[1], [2]])
    expect(settled).toEqual([1, 2])
  })

  it('that are none finish at once', async () => {
    const { settling, sent } = scripted()
    await settling.finish()
    await settling.finish()
    expect(sent()).toEqual([])
  })
})
