/** `healthCheck()`. Rule: docs/writing-a-provider.md, "Health". */
import assert from 'node:assert/strict'
import { hasHealthCheck } from '../../providers/contracts.ts'
import type { PlayedApi } from '../played-transport.ts'
import type { Bench } from './bench.ts'
import type { Chapter } from './conformance-check.ts'
import type { Outcome } from './outcome-checks.ts'
import { outcomeOf, wordsFor } from './outcome-checks.ts'
import { answering, cut, cutInBody, EMPTY, HTML, hang } from './played-faults.ts'

/** Real milliseconds after which a call that is not answered is over, in the place of the provider's own 30 s or so. */
const DEADLINE_MS = 20

/** A provider that is away, or does not take the credentials. */
const UNWELL: readonly (readonly [what: string, api: PlayedApi])[] = [
  ['a 401', answering(401)],
  ['a 403', answering(403)],
  ['a 404', answering(404)],
  ['a 500', answering(500)],
  ['a 503 in HTML', answering(503, '<h1>Back soon</h1>', { 'content-type': 'text/html' })],
  ['a connection that breaks', cut],
  ['no answer within the timeout', hang],
]

export function healthChapter(): Chapter {
  return {
    contract: 'healthCheck()',
    checks: [
      {
        name: 'is true for a provider that is well',
        async run(bench) {
          const outcome = await asked(bench, bench.subject.fixtures.api)
          const isTrue = outcome.kind === 'gave' && outcome.value === true
          assert(isTrue, `healthCheck() must give true where the fixtures' api answers; it ${wordsFor(outcome)}`)
        },
      },
      {
        name: 'is false for one that refuses the credentials, fails, or is away',
        async run(bench) {
          const wrong = judged(
            await unwellDays(bench),
            ({ outcome }) => outcome.kind === 'threw' || outcome.value !== true,
          )
          assert.deepEqual(wrong, [], `healthCheck() must not give true; ${wrong.join('; ')}`)
        },
      },
      {
        name: 'never throws: it is true or false whatever the provider answers',
        async run(bench) {
          const { api } = bench.subject.fixtures
          const odd = [
            ['an answer in HTML', HTML],
            ['an empty answer', EMPTY],
            ['an answer that is not what was asked for', answering(200, '{"unexpected":[]}')],
            ['an answer that breaks off', cutInBody(api)],
          ] as const
          const wrong = judged(
            [...(await unwellDays(bench)), ...(await played(bench, odd))],
            ({ outcome }) => outcome.kind === 'gave' && typeof outcome.value === 'boolean',
          )
          assert.deepEqual(wrong, [], `healthCheck() must give true or false, and never throw; ${wrong.join('; ')}`)
        },
      },
    ],
  }
}

interface Day {
  readonly what: string
  readonly outcome: Outcome<unknown>
}

/** Played once, judged by two checks. */
const unwell = new WeakMap<Bench, Promise<readonly Day[]>>()

function unwellDays(bench: Bench): Promise<readonly Day[]> {
  const days = unwell.get(bench) ?? played(bench, UNWELL)
  unwell.set(bench, days)
  return days
}

async function played(
  bench: Bench,
  days: readonly (readonly [what: string, api: PlayedApi])[],
): Promise<readonly Day[]> {
  const outcomes: Day[] = []
  for (const [what, api] of days) outcomes.push({ what, outcome: await asked(bench, api) })
  return outcomes
}

function judged(days: readonly Day[], isAllowed: (day: Day) => boolean): string[] {
  return days.filter((day) => !isAllowed(day)).map(({ what, outcome }) => `for ${what} it ${wordsFor(outcome)}`)
}

async function asked(bench: Bench, api: PlayedApi): Promise<Outcome<unknown>> {
  const { provider } = bench
  assert(hasHealthCheck(provider))
  const integration = await bench.create()
  const check = () => outcomeOf(() => provider.healthCheck(integration))
  return bench.inTime('healthCheck()', () =>
    bench.answeredBy(api, () => bench.withoutRetries(check, api === hang ? { timeoutMs: DEADLINE_MS } : {})),
  )
}
