import { InvalidProvider, UnknownProvider } from '../framework/errors.ts'
import { ALLOWED_PROVIDER_IDENTIFIERS, isProviderIdentifier } from '../integrations/rules.ts'
import { wrongValues } from './contract-values.ts'
import type {
  ClassifiesFailures,
  CustomizesRetry,
  DeclaresRateLimit,
  HandlesWebhooks,
  HasOAuth2,
  HasScheduledSync,
  HasStreams,
  IdentifiesAuthenticatedUser,
  IntegrationProvider,
  LimitsRequestLogging,
  ManagesWebhooks,
  RecognisesEchoes,
  RedactsRequestData,
  SharesRateLimit,
  SupportsIdempotency,
} from './contracts.ts'
import { incompleteContracts } from './contracts.ts'
import { signatureFaults } from './signatures/scheme-check.ts'
import { streamFaults } from './streams.ts'
import { doorFaults } from './webhook-door.ts'

/** An instance, a class without constructor arguments, or a function that makes one; made once. */
export type ProviderSource = AnyProvider | (new () => AnyProvider) | (() => AnyProvider)

/**
 * An object with at least one contract. Named one by one: every member of `IntegrationProvider` is optional, and TypeScript
 * takes an object that shares none of them for a mistake.
 */
export type AnyProvider =
  | IntegrationProvider
  | HasOAuth2
  | HandlesWebhooks
  | ManagesWebhooks
  | DeclaresRateLimit
  | SharesRateLimit
  | HasScheduledSync
  | HasStreams
  | ClassifiesFailures
  | CustomizesRetry
  | SupportsIdempotency
  | IdentifiesAuthenticatedUser
  | RecognisesEchoes
  | RedactsRequestData
  | LimitsRequestLogging

/** The providers of a host by identifier, as stored in the `provider` column. */
export class ProviderRegistry {
  readonly #providers = new Map<string, IntegrationProvider>()
  readonly #models: readonly string[] | null

  /** @param models of the host, which streams may name; null: any */
  constructor(models: readonly string[] | null = null) {
    this.#models = models
  }

  /** @throws InvalidProvider for a bad identifier, a taken one, a contract implemented by halves, a value, streams or a signature that can't be */
  register(key: string, source: ProviderSource, { replace = false }: { replace?: boolean } = {}): void {
    if (!isProviderIdentifier(key)) throw new InvalidProvider(key, ALLOWED_PROVIDER_IDENTIFIERS)
    if (this.#providers.has(key) && !replace)
      throw new InvalidProvider(key, 'the identifier is taken; pass {replace: true} to put another in its place')
    const provider = instantiate(source)
    if (typeof provider !== 'object' || provider === null || provider instanceof Promise)
      throw new InvalidProvider(key, 'a provider is an object, a class, or a function that returns an object at once')
    const incomplete = incompleteContracts(provider)
    const lacking = incomplete.map(({ contract, missing }) => `${contract} lacks ${missing.join(', ')}`)
    const faultsOfMembers = [...wrongValues(provider), ...lacking]
    if (faultsOfMembers.length > 0) throw new InvalidProvider(key, faultsOfMembers.join('; '))
    const faults = [...streamFaults(provider, this.#models), ...signatureFaults(provider), ...doorFaults(provider)]
    if (faults.length > 0) throw new InvalidProvider(key, faults.join('; '))
    this.#providers.set(key, provider)
  }

  /** @throws UnknownProvider */
  get(key: string): IntegrationProvider {
    const provider = this.#providers.get(key)
    if (provider === undefined) throw new UnknownProvider(key, this.keys())
    return provider
  }

  find(key: string): IntegrationProvider | null {
    return this.#providers.get(key) ?? null
  }

  keys(): string[] {
    return [...this.#providers.keys()].sort()
  }

  entries(): [string, IntegrationProvider][] {
    return [...this.#providers.entries()]
  }
}

export function instantiate(source: ProviderSource): IntegrationProvider {
  if (typeof source !== 'function') return source
  const isClass = /^class\b/.test(Function.prototype.toString.call(source))
  return isClass ? new (source as new () => IntegrationProvider)() : (source as () => IntegrationProvider)()
}
