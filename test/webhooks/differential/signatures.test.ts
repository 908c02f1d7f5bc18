/**
 * Our engine and the makers' own code judge the same deliveries, right and spoilt ones. A few hundred for each maker whose code is at
 * hand; `npm run test:long` has 100,000 for every one.
 */
import https from 'node:https'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { WEBHOOK_DOORS } from '../../../src/webhooks/catalogue/index.ts'
import { schemeKeys } from '../../support/scheme-keys.ts'
import { answerCertificates, SNS_CERTIFICATE } from './certificates.ts'
import { compare } from './compare.ts'
import { NOW } from './deliveries.ts'
import { MAKERS, packagesIn } from './makers.ts'

const TIMES = 600
const SEED = 20_261_126
const packages = packagesIn(fileURLToPath(new URL('../../../', import.meta.url)))
const original = https.get

beforeAll(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: NOW })
})

afterAll(() => {
  vi.useRealTimers()
  https.get = original
})

describe('beside the maker’s own code', () => {
  it.each(MAKERS.filter(({ isAtHand }) => isAtHand).map((maker) => [maker.door, maker] as const))(
    '%s: the same deliveries are taken and refused',
    async (door, maker) => {
      const signature = WEBHOOK_DOORS[door]?.signature
      if (signature === undefined) throw new Error(`there is no door ${door}`)
      const keys = schemeKeys(signature, SNS_CERTIFICATE)
      await answerCertificates(keys)
      const found = await compare(maker, await maker.judge(packages), keys, { times: TIMES, seed: SEED })
      expect(found.disagreements).toEqual([])
      expect(found.bothTook).toBeGreaterThan(TIMES / 20)
      expect(found.bothRefused).toBeGreaterThan(TIMES / 5)
    },
  )

  it('every door that says who checked it has that maker, in that version', () => {
    const checked = Object.entries(WEBHOOK_DOORS).flatMap(([name, { checkedBy }]) =>
      checkedBy === undefined ? [] : [[name, checkedBy.package, checkedBy.version]],
    )
    // Two doors of Svix senders are one scheme.
    const judged = MAKERS.map((maker) => [maker.door, maker.package, maker.version])
    expect(checked.filter(([name]) => name !== 'clerk').sort()).toEqual(judged.sort())
  })
})
