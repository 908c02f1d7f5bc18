/** The account that an integration's credentials belong to. Rule: docs/behaviour/identity.md. */
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { integrationKey } from '../cache/integration-keys.ts'
import type { Transaction } from '../db/client.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException, SchemaDrift } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'
import { canonicalJson, isJson } from '../framework/json.ts'
import { findIntegration } from '../integrations/queries.ts'
import { TOKEN_KEYS } from '../oauth/rules.ts'
import type { AuthenticatedUser, IntegrationProvider } from '../providers/contracts.ts'
import { hasOAuth2, identifiesAuthenticatedUser, requireContract } from '../providers/contracts.ts'
import type { Credentials, Integration } from '../providers/integration.ts'

/** Whole seconds that a Postgres integer holds, as every length of time in the configuration. */
const MAX_CACHE_SECONDS = 2 ** 31 - 1

const text = z
  .string()
  .nullish()
  .transform((value) => value ?? null)

/** What a provider may answer. */
const Answer = z.object({
  id: z.string().min(1),
  name: text,
  email: text,
  username: text,
  raw: z.custom<Json>(isJson, 'expected a JSON value').optional(),
})

/**
 * @param cacheFor whole seconds of at least 1; undefined: the provider is asked, and nothing is kept
 * @throws UnknownProvider, UnsupportedByProvider, InvalidArgumentException, SchemaDrift, or what the provider threw
 */
export async function authenticatedUser(
  framework: Framework,
  integration: Integration,
  cacheFor?: number,
): Promise<AuthenticatedUser> {
  const { cache, encryption, providers } = framework
  checkSeconds(cacheFor)
  const provider = requireContract(
    integration.provider,
    providers.get(integration.provider),
    identifiesAuthenticatedUser,
    'IdentifiesAuthenticatedUser',
  )
  const ask = async () => answerOf(integration.provider, await provider.authenticatedUser(integration))
  if (cacheFor === undefined) return ask()

  const purpose = () => purposeOf(provider, integration.id, integration.credentialsArray())
  const stored = await cache.get(identityKey(integration.id))
  const known = typeof stored === 'string' ? encryption.open(purpose(), stored) : null
  if (known !== null) return JSON.parse(known) as AuthenticatedUser

  const user = await ask()
  // Of another account by now: nothing to keep, not even for a moment.
  if (!(await isCurrent(framework, integration))) return user
  // After the answer: the handle may have refreshed its tokens meanwhile.
  await cache.set(identityKey(integration.id), encryption.seal(purpose(), JSON.stringify(user)), cacheFor)
  await dropUnlessCurrent(framework, integration)
  return user
}

export function supportsAuthenticatedUser({ providers }: Framework, integration: Integration): boolean {
  const provider = providers.find(integration.provider)
  return provider !== null && identifiesAuthenticatedUser(provider)
}

/** @param tx that changes the tokens: a process that ends after it leaves no account that they do not belong to */
export async function forgetAuthenticatedUser(
  { cache }: Framework,
  integrationId: number,
  tx?: Transaction,
): Promise<void> {
  await (tx === undefined ? cache : cache.within(tx)).delete(identityKey(integrationId))
}

/**
 * A person may have authorized another account while the provider answered for the handle's credentials. A change of credentials
 * forgets the identity afterwards. So one of the two sees the other, and no stale entry stays.
 */
async function dropUnlessCurrent(framework: Framework, integration: Integration): Promise<void> {
  let isKept = false
  try {
    isKept = await isCurrent(framework, integration)
  } finally {
    if (!isKept) await forgetAuthenticatedUser(framework, integration.id)
  }
}

async function isCurrent({ db, tables, encryption }: Framework, integration: Integration): Promise<boolean> {
  const row = await findIntegration(db, tables, integration.id)
  return row !== null && textOf(encryption.decrypt(row.id, row.credentials)) === textOf(integration.credentialsArray())
}

function identityKey(integrationId: number): string {
  return integrationKey(integrationId, 'identity')
}

/** An entry opens for the credentials that it was made with, and for no others. */
function purposeOf(provider: IntegrationProvider, integrationId: number, credentials: Credentials): string {
  const lasting = hasOAuth2(provider)
    ? Object.fromEntries(Object.entries(credentials).filter(([key]) => !TOKEN_KEYS.includes(key)))
    : credentials
  const fingerprint = createHash('sha256').update(textOf(lasting)).digest('hex')
  return `integrations/${integrationId}/identity/${fingerprint}`
}

/** Decrypted ones came from JSON. */
function textOf(credentials: Credentials): string {
  return canonicalJson(credentials as Json)
}

function checkSeconds(cacheFor: number | undefined): void {
  if (cacheFor === undefined) return
  if (!Number.isInteger(cacheFor) || cacheFor < 1 || cacheFor > MAX_CACHE_SECONDS)
    throw new InvalidArgumentException(
      'cacheFor',
      `whole seconds from 1 to ${MAX_CACHE_SECONDS} are allowed, ${String(cacheFor)} was given`,
    )
}

function answerOf(provider: string, answer: unknown): AuthenticatedUser {
  const result = Answer.safeParse(answer)
  if (!result.success)
    throw new SchemaDrift(
      `authenticatedUser() of the provider "${provider}"`,
      result.error.issues.map(({ path, message }) => ({ path: path.join('.') || 'answer', message })),
    )
  const { raw, ...user } = result.data
  return raw === undefined ? user : { ...user, raw }
}
