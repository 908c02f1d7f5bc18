/** Reading, checking and changing an integration's credentials. */

import type { z } from 'zod'
import { IntegrationNotFound, InvalidArgumentException, InvalidCredentials } from '../core/errors.ts'
import { lockIntegration, updateIntegration } from '../db/queries/integrations.ts'
import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework.ts'
import type { Credentials } from '../providers/integration.ts'
import type { IntegrationProvider } from '../providers/provider.ts'

/** Larger ones are no credentials but data. */
const MAX_CREDENTIALS_BYTES = 65_536

/**
 * Merges a patch into the stored credentials: absent keys stay, null removes one. The row is locked meanwhile, so that of
 * many patches at the same moment all come in.
 *
 * @returns the keys that the patch names
 */
export function patchCredentials(
  framework: Framework,
  integrationId: number,
  patch: Credentials,
  options: { replace?: boolean } = {},
): Promise<string[]> {
  return framework.db.transaction(async (tx) => {
    const row = await lockIntegration(tx, framework.tables, integrationId)
    if (row === null) throw new IntegrationNotFound(integrationId)
    const credentials = patchedCredentials(framework, row, patch, options)
    await updateIntegration(tx, framework.tables, integrationId, { credentials })
    return Object.keys(patch)
  })
}

/** The encrypted text of a locked row's credentials with the patch in them. @throws InvalidCredentials */
export function patchedCredentials(
  { encryption, providers }: Framework,
  row: IntegrationRow,
  patch: Credentials,
  { replace = false }: { replace?: boolean } = {},
): string {
  const current = replace ? {} : encryption.decrypt(row.id, row.credentials)
  const merged = Object.fromEntries(
    Object.entries({ ...current, ...patch }).filter(([, value]) => value !== null && value !== undefined),
  )
  return encryption.encrypt(row.id, checkCredentials(row.provider, providers.find(row.provider), merged))
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
