/** Checking and merging an integration's credentials. */

import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'
import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException, InvalidCredentials } from '../framework/errors.ts'
import type { JsonObject } from '../framework/json.ts'
import { asJsonObject } from '../framework/json.ts'
import { redactText, secretsOf } from '../framework/redaction.ts'
import { errorKind } from '../framework/thrown.ts'
import type { IntegrationProvider } from '../providers/contracts.ts'
import { handlesWebhooks } from '../providers/contracts.ts'
import type { Credentials } from '../providers/integration.ts'
import { secretEndMs } from '../providers/webhook-request.ts'
import { ALLOWED_WANTED_EVENTS, isWantedEvents, WANTED_EVENTS } from '../webhooks/rules.ts'

/** For credentials, and for metadata. */
const MAX_BYTES = 65_536
const ALLOWED_SECRET_END = 'null or a time in ISO 8601, such as 2031-06-01T12:00:00Z, is allowed'

/** The keys that a patch names; undefined is absent. */
export function keysOf(patch: Credentials): string[] {
  return Object.keys(patch).filter((key) => patch[key] !== undefined)
}

/**
 * The encrypted text of a locked row's credentials with the patch in them.
 *
 * @param options.ofRefresh the provider has used up what is stored: what is not in the patch fails nothing
 * @throws as {@link checkCredentials}, UnknownProvider
 */
export function patchedCredentials(
  { encryption, providers }: Framework,
  row: IntegrationRow,
  patch: Credentials,
  { replace = false, ofRefresh = false }: { replace?: boolean; ofRefresh?: boolean } = {},
): string {
  const given = asJsonObject(patch)
  if (!given.ok) throw new InvalidArgumentException('credentials', given.reason)
  const current = replace ? {} : encryption.decrypt(row.id, row.credentials)
  const merged = Object.fromEntries(
    Object.entries({ ...current, ...given.value }).filter(([, value]) => value !== null),
  )
  const provider = providers.get(row.provider)
  // Of the patch alone: what is stored already must not lose the tokens of a refresh.
  checkSecretEnds(row.provider, provider, given.value)
  const checked = checkMerged(row.provider, provider.credentialsSchema, merged, {
    current,
    isNamed: (key) => key in given.value,
    ofRefresh,
  })
  return encryption.encrypt(row.id, checked)
}

/**
 * A schema may change what it reads, such as a key in base64. It has read what is stored once already: where a second reading would
 * change or refuse that, what the patch does not name stays as it is.
 */
function checkMerged(
  provider: string,
  schema: z.ZodType | undefined,
  merged: Credentials,
  by: { readonly current: Credentials; isNamed(key: string): boolean; readonly ofRefresh: boolean },
): Credentials {
  const { current, isNamed, ofRefresh } = by
  if (schema === undefined || isReadAlike(schema, current)) return checkAgainst(provider, 'credentials', schema, merged)
  const kept = Object.fromEntries(Object.entries(current).filter(([key]) => !isNamed(key)))
  try {
    return { ...checkAgainst(provider, 'credentials', schema, merged), ...kept }
  } catch (error) {
    if (!(error instanceof InvalidCredentials)) throw error
    const issues = error.issues.filter(({ path }) => {
      const key = path.split('.', 1)[0] ?? ''
      return isNamed(key) || !(ofRefresh || key in kept)
    })
    if (issues.length > 0) throw new InvalidCredentials(provider, 'credentials', issues)
    return merged
  }
}

function isReadAlike(schema: z.ZodType, stored: Credentials): boolean {
  try {
    const again = schema.safeParse(stored)
    return again.success && isDeepStrictEqual(again.data, stored)
  } catch {
    return false
  }
}

/**
 * The credentials as the provider's schema reads them.
 *
 * @throws InvalidCredentials naming paths, never values; InvalidArgumentException unless it is a plain object of JSON values
 */
export function checkCredentials(key: string, provider: IntegrationProvider, credentials: unknown): Credentials {
  const checked = checkAgainst(key, 'credentials', provider.credentialsSchema, credentials)
  checkSecretEnds(key, provider, checked)
  return checked
}

/** A number would end a former webhook secret at once. @throws InvalidCredentials */
function checkSecretEnds(key: string, provider: IntegrationProvider, { webhook_secrets: secrets }: JsonObject): void {
  if (!handlesWebhooks(provider) || !Array.isArray(secrets)) return
  const issues = (secrets as readonly ({ readonly expires_at?: unknown } | null)[]).flatMap((entry, index) =>
    Number.isNaN(secretEndMs(entry?.expires_at))
      ? [{ path: `webhook_secrets.${index}.expires_at`, message: ALLOWED_SECRET_END }]
      : [],
  )
  if (issues.length > 0) throw new InvalidCredentials(key, 'credentials', issues)
}

/** The metadata as the provider's schema reads it. @throws as {@link checkCredentials} */
export function checkMetadata(key: string, provider: IntegrationProvider, metadata: unknown): JsonObject {
  const checked = checkAgainst(key, 'metadata', provider.metadataSchema, metadata)
  const wanted = checked[WANTED_EVENTS]
  if (handlesWebhooks(provider) && wanted !== undefined && !isWantedEvents(wanted))
    throw new InvalidCredentials(key, 'metadata', [
      { path: WANTED_EVENTS, message: `${ALLOWED_WANTED_EVENTS} is allowed` },
    ])
  return checked
}

type Field = 'credentials' | 'metadata'

function checkAgainst(key: string, field: Field, schema: z.ZodType | undefined, value: unknown): JsonObject {
  const given = jsonObject(field, value)
  if (schema === undefined) return given
  const result = read(key, field, schema, given)
  // A schema may change what it reads, into a Date for example: that would be a text when it is read again.
  if (result.success) return jsonObject(field, result.data, ' (as the provider’s schema returns it)')
  throw new InvalidCredentials(
    key,
    field,
    result.error.issues.map((issue) => ({
      path: issue.path.map(String).join('.') || field,
      // A message of the schema's own may quote what it refuses.
      message: field === 'credentials' ? redactText(issue.message, secretsOf(given)) : issue.message,
    })),
  )
}

function read(key: string, field: Field, schema: z.ZodType, given: JsonObject): z.ZodSafeParseResult<unknown> {
  try {
    return schema.safeParse(given)
  } catch (error) {
    const message =
      error instanceof z.core.$ZodAsyncError
        ? 'the provider’s schema must read it synchronously'
        : `the provider’s schema threw ${errorKind(error)}`
    throw new InvalidCredentials(key, field, [{ path: field, message }])
  }
}

function jsonObject(field: Field, value: unknown, where = ''): JsonObject {
  const object = asJsonObject(value)
  if (!object.ok) throw new InvalidArgumentException(field, `${object.reason}${where}`)
  const bytes = Buffer.byteLength(JSON.stringify(object.value))
  if (bytes > MAX_BYTES)
    throw new InvalidArgumentException(field, `at most ${MAX_BYTES} bytes of JSON are allowed, ${bytes} were given`)
  return object.value
}
