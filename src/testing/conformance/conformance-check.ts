/** What a check of the conformance suite is. Rule: docs/testing.md, "The conformance suite". */
import type { IntegrationProvider } from '../../providers/contracts.ts'
import type { ListingFixtures, ProviderFixtures } from '../conformance.ts'
import type { Bench } from './bench.ts'

/** The provider under test, and what its author says of it. */
export interface Subject {
  readonly identifier: string
  readonly provider: () => IntegrationProvider
  readonly fixtures: ProviderFixtures
}

/** Those of a listing. @param stream null: of a provider with one `sync()` */
export function listingFixtures(
  { checkpoints, cursor, window, streams }: ProviderFixtures,
  stream: string | null,
): ListingFixtures {
  return stream === null
    ? { ...(checkpoints && { checkpoints }), ...(cursor !== undefined && { cursor }), ...(window && { window }) }
    : (streams?.[stream] ?? {})
}

/** One test. Its name says the rule. */
export interface Check {
  readonly name: string
  /** @throws AssertionError that says what the provider did */
  run(bench: Bench): Promise<void>
}

/** The checks of one contract. */
export interface Chapter {
  readonly contract: string
  readonly checks: readonly Check[]
  /** What is not checked, and why, in words that the test runner shows. */
  readonly todo?: string
}
