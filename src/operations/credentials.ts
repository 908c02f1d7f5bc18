/** Reading, checking and changing an integration's credentials. */

import type { z } from 'zod'
import {
  CredentialsUnreadable,
  IntegrationNotFound,
  InvalidArgumentException,
  InvalidCredentials,
} from '../core/errors.ts'
import { findIntegration, swapCredentials } from '../db/queries/integrations.ts'
import type { Framework } from '../framework.ts'
import type { Credentials } from '../providers/integration.ts'
import type { IntegrationProvider } from '../providers/provider.ts'

/** Larger ones are no credentials but data. */
const MAX_CREDENTIALS_BYTES = 65_536
/** Two writers of the same row meet now and then; more than this in a row is no coincidence. */
const MAX_SWAP_TRIES = 5

/**
 * Merges a patch into the stored credentials: absent keys stay, null removes one. Two patches at the same moment both
 * come in.
 *
 * @returns the keys that the patch names
 */
export async function patchCredentials(
  framework: Framework,
  integrationId: number,
  patch: Credentials,
  { replace = false }: { replace?: boolean } = {},
): Promise<string[]> {
  for (let attempt = 1; attempt <= MAX_SWAP_TRIES; attempt += 1) {
    const row = await findIntegration(framework.db, framework.tables, integrationId)
    if (row === null) throw new IntegrationNotFound(integrationId)
    const current = replace ? {} : framework.encryption.decrypt(integrationId, row.credentials)
    const merged = Object.fromEntries(
      Object.entries({ ...current, ...patch }).filter(([, value]) => value !== null && value !== undefined),
    )
    const checked = checkCredentials(row.provider, framework.providers.find(row.provider), merged)
    const swapped = await swapCredentials(framework.db, framework.tables, integrationId, {
      from: row.credentials,
      to: framework.encryption.encrypt(integrationId, checked),
    })
    if (swapped) return Object.keys(patch)
  }
  throw new CredentialsUnreadable(integrationId, null, `another writer changed them ${MAX_SWAP_TRIES} times meanwhile`)
}

/** The credentials as the provider's schema reads them. @throws InvalidCredentials naming paths, never values */
export function checkCredentials(key: string, provider: IntegrationProvider | null, credentials: unknown): Credentials {
  if (typeof credentials !== 'object' || credentials === null || Array.isArray(credentials))
    throw new InvalidArgumentException('credentials', 'a plain object is allowed')
  if (Buffer.byteLength(JSON.stringify(credentials)) > MAX_CREDENTIALS_BYTES)
    throw new InvalidArgumentException('credentials', `at most ${MAX_CREDENTIALS_BYTES} bytes of JSON are allowed`)
  return checkAgainst(key, 'credentials', provider?.credentialsSchema, credentials) as Credentials
}

/** The metadata as the provider's schema reads it. @throws InvalidCredentials */
export function checkMetadata(key: string, provider: IntegrationProvider | null, metadata: unknown): unknown {
  return checkAgainst(key, 'metadata', provider?.metadataSchema, metadata)
}

function checkAgainst(
  key: string,
  field: 'credentials' | 'metadata',
  schema: z.ZodType | undefined,
  value: unknown,
): unknown {
  if (schema === undefined) return value
  const result = schema.safeParse(value)
  if (result.success) return result.data
  throw new InvalidCredentials(
    key,
    field,
    result.error.issues.map((issue) => ({ path: issue.path.map(String).join('.') || field, message: issue.message })),
  )
}
