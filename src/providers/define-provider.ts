/**
 * `defineProvider({...})`: a provider as an object, whose parameters need no written types.
 *
 * Its credentials and metadata have the types of its own schemas, in every member that is given an integration.
 */
import type { z } from 'zod'
import type { Json } from '../framework/json.ts'
import type {
  ClassifiesFailures,
  CustomizesRetry,
  HandlesMissing,
  HasBackfill,
  HasIncrementalSync,
  HasOAuth2,
  HasStreams,
  IdentifiesAuthenticatedUser,
  IntegrationProvider,
  LimitsRequestLogging,
  ManagesWebhooks,
  RecognisesEchoes,
  ReconcilesWebhooks,
  RedactsRequestData,
  SharesRateLimit,
  SupportsIdempotency,
} from './contracts.ts'
import type { Credentials, Integration } from './integration.ts'

/** An integration whose credentials and metadata have the types that its provider's schemas give. */
export type IntegrationWith<Given, Metadata> = Omit<Integration, 'credentialsArray' | 'metadata'> & {
  readonly metadata: Readonly<Metadata>
  credentialsArray(): Given
}

/** All that a provider may have. The guards of the contracts say which belong together; registration names what is missing. */
type Members = IntegrationProvider &
  Partial<
    HasOAuth2 &
      ReconcilesWebhooks &
      ManagesWebhooks &
      RecognisesEchoes &
      HasIncrementalSync &
      HasBackfill &
      HandlesMissing &
      HasStreams &
      ClassifiesFailures &
      CustomizesRetry &
      SupportsIdempotency &
      IdentifiesAuthenticatedUser &
      RedactsRequestData &
      SharesRateLimit &
      LimitsRequestLogging
  >

/** The member with another kind of integration for its first parameter. */
type Given<Member, Kind> = Member extends (integration: Integration, ...rest: infer Rest) => infer Result
  ? (integration: Kind, ...rest: Rest) => Result
  : Member

export type ProviderDefinition<CredentialsSchema extends z.ZodType, MetadataSchema extends z.ZodType> = {
  [Name in Exclude<keyof Members, 'credentialsSchema' | 'metadataSchema'>]?: Given<
    Exclude<Members[Name], undefined>,
    IntegrationWith<z.output<CredentialsSchema>, z.output<MetadataSchema>>
  >
} & { readonly credentialsSchema?: CredentialsSchema; readonly metadataSchema?: MetadataSchema }

/**
 * A provider written as an object: no class, and no type of a parameter needs to be written down.
 *
 * A class that `implements` the contracts is as good; it has private state and can extend `OAuth2Provider`.
 *
 * @example
 * const acme = defineProvider({
 *   label: 'Acme',
 *   credentialsSchema: z.object({ token: z.string() }),
 *   async healthCheck(integration) {
 *     const { token } = integration.credentialsArray()
 *     const headers = { authorization: `Bearer ${token}` }
 *     await integration.request('v1/me', 'GET', ({ fetch }) => fetch('https://api.acme.example/v1/me', { headers }))
 *     return true
 *   },
 * })
 * export default createIntegrations({ providers: { acme } })
 */
export function defineProvider<
  CredentialsSchema extends z.ZodType = z.ZodType<Credentials>,
  MetadataSchema extends z.ZodType = z.ZodType<Readonly<Record<string, Json>>>,
>(
  provider: ProviderDefinition<CredentialsSchema, MetadataSchema>,
): ProviderDefinition<CredentialsSchema, MetadataSchema> {
  return provider
}
