/** How a provider that breaks one rule is written down. */
import type { Integration } from '../../../src/provider.ts'
import type { ProviderFixtures } from '../../../src/testing/index.ts'
import { SoundProvider } from './sound-provider.ts'

export interface Broken {
  /** What is wrong with it. */
  readonly what: string
  readonly provider: new () => SoundProvider
  readonly fixtures?: ProviderFixtures
  readonly contract: string
  /** The rules that it breaks: no other check of the contract may fail. */
  readonly breaks: readonly string[]
  /** What the failures say of it, each of these somewhere. */
  readonly says?: readonly RegExp[]
  /** Rules that are not asked: they would look at all that the providers before have left behind. */
  readonly leavesOut?: readonly string[]
}

export type Provider = Broken['provider']

/** The sound provider with some members in the place of its own. */
export function but(members: (provider: SoundProvider) => Record<string, unknown>): Provider {
  return class extends SoundProvider {
    constructor() {
      super()
      Object.assign(this, members(this))
    }
  }
}

/** After the provider: the rules that it breaks, and what the failures say. */
export function of(
  contract: string,
  ...broken: [what: string, provider: Provider, ...found: (string | RegExp)[]][]
): Broken[] {
  return broken.map(([what, provider, ...found]) => ({
    contract,
    what,
    provider,
    breaks: found.filter((each) => typeof each === 'string'),
    says: found.filter((each) => each instanceof RegExp),
  }))
}

/** Gets by calls that throw an error of their own for a failure. */
export const hidingTheStatus = but(() => ({
  get: (integration: Integration, path: string, signal?: AbortSignal) =>
    integration.request(
      path,
      'GET',
      async ({ fetch }) => {
        const headers = { authorization: `Bearer ${integration.credentialsArray().access_token}` }
        const response = await fetch(`https://api.tickets.example${path}`, { headers })
        if (!response.ok) throw new Error('no luck')
        return response
      },
      signal === undefined ? {} : { signal },
    ),
}))
