/**
 * 100,000 deliveries for each maker, right and spoilt ones, judged by our engine and by the maker's own code. It installs what is too
 * large for our devDependencies from the registry, into a folder of its own.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import https from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { WEBHOOK_DOORS } from '../../../src/webhooks/catalogue/index.ts'
import { schemeKeys } from '../../support/scheme-keys.ts'
import { answerCertificates, SNS_CERTIFICATE } from './certificates.ts'
import { compare } from './compare.ts'
import { NOW } from './deliveries.ts'
import { MAKERS, packagesIn } from './makers.ts'

const TIMES = 100_000
/** Another one each day, which a failure names. */
const SEED = Math.floor(Date.now() / 86_400_000)
const original = https.get
let folder = ''

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'webhook-makers-'))
  writeFileSync(join(folder, 'package.json'), '{"private":true}')
  const packages = [...new Set(MAKERS.map((maker) => `${maker.package}@${maker.version}`))]
  execFileSync('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund', ...packages], {
    cwd: folder,
    stdio: 'ignore',
  })
  vi.useFakeTimers({ toFake: ['Date'], now: NOW })
}, 300_000)

afterAll(() => {
  vi.useRealTimers()
  https.get = original
  rmSync(folder, { recursive: true, force: true })
})

describe('beside the maker’s own code', () => {
  it.each(MAKERS.map((maker) => [maker.door, maker] as const))(
    '%s: 100,000 deliveries are judged alike',
    async (door, maker) => {
      const signature = WEBHOOK_DOORS[door]?.signature
      if (signature === undefined) throw new Error(`there is no door ${door}`)
      const keys = schemeKeys(signature, SNS_CERTIFICATE)
      await answerCertificates(keys)
      const judge = await maker.judge(packagesIn(folder))
      const { disagreements, ...found } = await compare(maker, judge, keys, { times: TIMES, seed: SEED })
      console.log(
        JSON.stringify({ maker: `${maker.package} ${maker.version}`, ...found, disagreements: disagreements.length }),
      )
      expect(disagreements.slice(0, 10), `seed ${SEED}`).toEqual([])
    },
    1_800_000,
  )
})
