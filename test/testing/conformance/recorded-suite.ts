/** Runs the conformance suite without a test runner around it, and keeps what came of each check. */
import type { IntegrationProvider } from '../../../src/provider.ts'
import { Bench } from '../../../src/testing/conformance/bench.ts'
import { chapters } from '../../../src/testing/conformance/chapters.ts'
import type { ProviderFixtures } from '../../../src/testing/index.ts'
import { SOUND_FIXTURES, SoundProvider } from './sound-provider.ts'

export interface CheckResult {
  readonly contract: string
  readonly rule: string
  /** Null: it passed. */
  readonly error: unknown
}

export interface Suite {
  /** @param isAsked which checks are run; default: all */
  of(
    provider: () => IntegrationProvider,
    fixtures?: ProviderFixtures,
    isAsked?: (contract: string, rule: string) => boolean,
  ): Promise<CheckResult[]>
  close(): Promise<void>
}

/** One kit for all suites of a file, in which one provider takes the place of the one before. */
export async function recordedSuite(options?: { patienceSeconds: number }): Promise<Suite> {
  const sound = { identifier: 'tickets', provider: () => new SoundProvider(), fixtures: SOUND_FIXTURES }
  let bench = await Bench.open(sound, options)
  return {
    async of(provider, fixtures = SOUND_FIXTURES, isAsked = () => true) {
      const subject = { identifier: 'tickets', provider, fixtures }
      const found = chapters(subject)
      // One that can't be registered is not asked for more than that.
      if (found.length > 1) bench = bench.replacedBy(subject)
      const results: CheckResult[] = []
      for (const { contract, checks } of found)
        for (const { name: rule, run } of checks.filter(({ name }) => isAsked(contract, name)))
          results.push({ contract, rule, error: await failureOf(() => bench.run(() => run(bench))) })
      return results
    },
    close: () => bench.close(),
  }
}

async function failureOf(work: () => Promise<void>): Promise<unknown> {
  try {
    await work()
    return null
  } catch (error) {
    return error ?? new Error('nothing was thrown')
  }
}
