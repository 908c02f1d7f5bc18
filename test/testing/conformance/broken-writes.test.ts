/** What the suite finds in providers whose writes are broken, and what it says where no write is given. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SuiteRunner } from '../../../src/testing/index.ts'
import { describeProvider } from '../../../src/testing/index.ts'
import { BROKEN_WRITES, UNUSUAL_WRITES } from './broken-writes.ts'
import { expectFound } from './found-by-the-suite.ts'
import type { Suite } from './recorded-suite.ts'
import { recordedSuite } from './recorded-suite.ts'
import { SOUND_FIXTURES, SoundProvider } from './sound-provider.ts'

let suite: Suite

beforeAll(async () => {
  suite = await recordedSuite()
}, 60_000)
afterAll(() => suite.close())

describe('a provider that', () => {
  it.each(BROKEN_WRITES)('$what', (broken) => expectFound(suite, broken), 60_000)
})

describe('nothing is found where a provider', () => {
  it.each(UNUSUAL_WRITES)('$what', (unusual) => expectFound(suite, unusual), 60_000)
})

describe('fixtures without a write', () => {
  const { write: _, ...rest } = SOUND_FIXTURES

  /** The names of the chapter of writes: of tests, and of what is to do. */
  function declared(fixtures = SOUND_FIXTURES, hasTodo = true) {
    const [tests, todos]: [string[], string[]] = [[], []]
    let isOfWrites = false
    const note = (name: string) => isOfWrites && tests.push(name)
    const runner: SuiteRunner = {
      describe(name, body) {
        isOfWrites = name === 'a write with an idempotency key'
        body()
      },
      it: hasTodo ? Object.assign(note, { todo: (name: string) => todos.push(name) }) : note,
    }
    describeProvider('tickets', () => new SoundProvider(), fixtures, runner)
    return { tests, todos }
  }
  const words = [expect.stringMatching(/^is not checked: give the fixture `write`, or `write: null`/)]

  it('are told that none is checked, as something to do', () => {
    expect(declared(rest)).toEqual({ tests: [], todos: words })
  })

  it('are told by the name of a test where the runner knows nothing to do', () => {
    expect(declared(rest, false)).toEqual({ tests: words, todos: [] })
  })

  it('say by null that there is none', () => {
    expect(declared({ ...rest, write: null })).toEqual({ tests: [], todos: [] })
    expect(declared().tests).toHaveLength(4)
  })

  it('are too few for a provider that supports idempotency keys', async () => {
    for (const fixtures of [rest, { ...rest, write: null }]) {
      const results = await suite.of(
        () => new SoundProvider(),
        fixtures,
        (_contract, rule) => rule === 'has the fixtures that its contracts need',
      )
      expect(results.map(({ error }) => String(error))).toEqual([
        expect.stringContaining('`write`: it supports idempotency keys'),
      ])
    }
  }, 60_000)
})
