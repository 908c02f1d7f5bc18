/**
 * Checks what a provider hands in, and writes it as JSON once.
 *
 * Rule: docs/behaviour/sync-listing.md, "The session".
 */

import { secretsIn } from '../../credentials/integration-secrets.ts'
import type { Listeners } from '../../events/listeners.ts'
import { InvalidArgumentException } from '../../framework/errors.ts'
import type { Json } from '../../framework/json.ts'
import { isJson, isStorableJson, kindNotJson } from '../../framework/json.ts'
import type { Logger } from '../../framework/logger.ts'
import { redactText } from '../../framework/redaction.ts'
import type { ExternalId, Integration } from '../../providers/integration.ts'
import type { SyncItemEvent, SyncItemEventClass } from '../../providers/provider-events.ts'
import type { SyncSession } from '../../providers/sync-session.ts'
import type { NewSyncItem } from './listing-queries.ts'

const MAX_PAYLOAD_BYTES = 1_048_576
const MAX_POSITION_BYTES = 65_536
const MAX_EXTERNAL_ID_LENGTH = 500

/** @throws InvalidArgumentException */
export function listedItem(
  listeners: Listeners,
  event: SyncItemEvent<unknown>,
  checkpointValue: Json,
  externalId: ExternalId | null,
): NewSyncItem {
  const eventClass = (event as object | null | undefined)?.constructor as SyncItemEventClass | undefined
  if (typeof eventClass?.type !== 'string' || listeners.itemClass(eventClass.type) !== eventClass)
    throw new InvalidArgumentException(
      'event',
      `${eventClass?.name ?? 'it'} is not registered: name it in the provider's syncItemEvents(), or listen to it with integrations.on()`,
    )
  // It becomes the cursor, which comes back to the provider as it was given.
  if (!isJson(checkpointValue) || !isStorableJson(checkpointValue))
    throw new InvalidArgumentException(
      'checkpointValue',
      'a JSON value without U+0000 and halves of surrogate pairs is allowed; give dates as ISO 8601 text',
    )
  const data = payloadText(event.payload)
  const bytes = Buffer.byteLength(data)
  if (bytes > MAX_PAYLOAD_BYTES)
    throw new InvalidArgumentException('payload', `at most ${MAX_PAYLOAD_BYTES} bytes are allowed, ${bytes} were given`)
  const parsed = eventClass.schema?.safeParse(JSON.parse(data))
  if (parsed?.success === false)
    throw new InvalidArgumentException(
      'payload',
      `it does not fit ${eventClass.type}: ${parsed.error.issues.map((issue) => `${issue.path.map(String).join('.') || '(root)'}: ${issue.message}`).join('; ')}`,
    )
  return {
    eventClass: eventClass.type,
    externalId: listedExternalId(externalId),
    checkpoint: JSON.stringify(checkpointValue),
    payload: `{"v":${eventClass.version},"data":${storableJson(data)}}`,
  }
}

/** Checks a bookmark. It comes back as it was given, so a value that Postgres can't keep is refused. @throws InvalidArgumentException */
export function bookmarkPosition(position: Json): Json {
  const allowed = `any JSON value but null of at most ${MAX_POSITION_BYTES} bytes is allowed; give dates as ISO 8601 text`
  if (position === null || !isJson(position))
    throw new InvalidArgumentException('position', `${allowed}; ${kindNotJson(position)} was given`)
  const text = JSON.stringify(position)
  const bytes = Buffer.byteLength(text)
  if (bytes > MAX_POSITION_BYTES)
    throw new InvalidArgumentException('position', `${allowed}; ${bytes} bytes were given`)
  if (!isStorableJson(position))
    throw new InvalidArgumentException('position', `${allowed}; a text with U+0000 or half a surrogate pair was given`)
  return position
}

/** Checks the argument of `fullListing()`. @param models that it may name; null: any. @throws InvalidArgumentException */
export function listedModel(
  models: ReadonlyMap<string, unknown> | null,
  internalType: string | undefined,
): string | null {
  if (internalType !== undefined && models?.has(internalType) === false)
    throw new InvalidArgumentException(
      'internalType',
      `the name of a registered model is allowed (${[...models.keys()].join(', ') || 'there is none'}), ${JSON.stringify(internalType)} was given`,
    )
  return internalType ?? null
}

/** Dates become ISO text, undefined members go: what JSON makes of it. */
function payloadText(payload: unknown): string {
  let text: string | undefined
  let why = ''
  try {
    text = JSON.stringify(payload)
  } catch (error) {
    why = `: ${(error as Error).message}`
  }
  if (text === undefined) throw new InvalidArgumentException('payload', `a value that JSON can hold is allowed${why}`)
  return text
}

/** As it is stored; null for an empty one. @throws InvalidArgumentException */
export function listedExternalId(externalId: ExternalId | null): string | null {
  if (externalId === null || externalId === '') return null
  // Drivers give int8 as a bigint: the types leave it out, a host in JavaScript does not.
  if (typeof externalId !== 'string' && typeof externalId !== 'bigint' && !Number.isSafeInteger(externalId)) {
    const given = typeof externalId === 'number' ? externalId : typeof externalId
    throw new InvalidArgumentException('externalId', `text or a whole number is allowed, ${given} was given`)
  }
  const text = String(externalId)
  const length = [...text].length
  if (length > MAX_EXTERNAL_ID_LENGTH || text.includes('\u0000'))
    throw new InvalidArgumentException(
      'externalId',
      `at most ${MAX_EXTERNAL_ID_LENGTH} characters without U+0000 are allowed, ${length} were given`,
    )
  // As it is stored, so that the next try of the listing knows it again.
  return text.replace(/\p{Surrogate}/gu, '\ufffd')
}

/**
 * JSON text that `jsonb` takes: U+0000 goes, half of a surrogate pair becomes U+FFFD. JSON.stringify() writes both as
 * escapes in lower case; a doubled backslash is matched first, so that the text `\u0000` of six characters stays.
 */
function storableJson(text: string): string {
  if (!text.includes('\\u')) return text
  return text.replace(/\\(\\|u0000|ud[89a-f]..)/g, (found) =>
    found === '\\\\' ? found : found === '\\u0000' ? '' : '\\ufffd',
  )
}

/** A provider's warning about its listing. Rule: docs/behaviour/sync-listing.md, "The session". */
export function warnOfListing(
  logger: Logger,
  { integration, syncLogId }: { readonly integration: Integration; readonly syncLogId: number },
  ...[fields, message]: Parameters<SyncSession['warn']>
): void {
  const secrets = secretsIn(integration)
  const redacted = Object.entries(fields).map(([name, value]) => [
    name,
    typeof value === 'string' ? redactText(value, secrets) : value,
  ])
  logger.warn(
    {
      ...Object.fromEntries(redacted),
      event: 'sync.provider_warning',
      integration: integration.id,
      provider: integration.provider,
      sync_log: syncLogId,
    },
    redactText(message, secrets),
  )
}
