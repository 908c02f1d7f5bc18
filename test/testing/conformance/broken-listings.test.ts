/** What the suite finds in providers whose listings are broken, and that it takes what is unusual only. */
import { afterAll, beforeAll, describe, it } from 'vitest'
import { ALLOWED, BROKEN_LISTINGS, HANGING } from './broken-listings.ts'
import { expectFound } from './found-by-the-suite.ts'
import type { Suite } from './recorded-suite.ts'
import { recordedSuite } from './recorded-suite.ts'

let suite: Suite

beforeAll(async () => {
  suite = await recordedSuite()
}, 60_000)
afterAll(() => suite.close())

describe('a provider that', () => {
  it.each(BROKEN_LISTINGS)('$what: $contract', (broken) => expectFound(suite, broken), 60_000)
})

describe('nothing is found where a provider', () => {
  it.each(ALLOWED)('$what: $contract', (unusual) => expectFound(suite, unusual), 60_000)
})

describe('a provider that is waited for in vain', () => {
  let impatient: Suite

  beforeAll(async () => {
    impatient = await recordedSuite({ patienceSeconds: 1 })
  }, 60_000)
  afterAll(() => impatient.close())

  it.each(HANGING)('$what: $contract', (broken) => expectFound(impatient, broken, broken.breaks), 60_000)
})
