/** Makes the handle of a row. */
import { isDeepStrictEqual } from 'node:util'
import { requestBuilder } from '../calls/builder.ts'
import { checkFailureClass, recordOutcome } from '../calls/call-events.ts'
import { forgetIdempotencyKey, idempotencyRecord } from '../calls/idempotency.ts'
import { overrideRateLimit, rateLimitView } from '../calls/limit-overrides.ts'
import { circuitView, overrideCircuit } from '../calls/overrides.ts'
import { overrideSharedLimit, sharedLimitView } from '../calls/shared-limit.ts'
import {
  authenticatedUser,
  forgetAuthenticatedUser,
  supportsAuthenticatedUser,
} from '../credentials/authenticated-user.ts'
import { cachedSecret, forgetCachedSecret } from '../credentials/cached-secret.ts'
import { keysOf, patchedCredentials } from '../credentials/credentials.ts'
import type { IntegrationRow } from '../db/schema/tables.ts'
import { recordEvents } from '../events/durable-events.ts'
import type { RequestRecord } from '../events/events.ts'
import type { Framework, TokenHolder } from '../framework/context.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'
import { registerSecrets } from '../framework/known-secrets.ts'
import {
  findExternalId,
  mapExternalId,
  remapExternalId,
  resolveMappings,
  upsertByExternalId,
} from '../mappings/mappings.ts'
import { noteCredentialsGiven } from '../oauth/keep-alive.ts'
import { endObtainedToken } from '../oauth/obtained-tokens.ts'
import { accessToken, refreshTokens, tokenExpiresSoon } from '../oauth/tokens.ts'
import { startOperation } from '../observability/operation-log.ts'
import type { Call, Credentials, Integration, RequestOptions } from '../providers/integration.ts'
import { streamMeant } from '../providers/streams.ts'
import { noteSwitch } from '../subscriptions/switch.ts'
import { changeCursor } from '../syncs/cursor.ts'
import { disableIntegration, enableIntegration } from './enabled.ts'
import { requireIntegration, requireLocked, updateIntegration } from './queries.ts'

/** A handle may live as long as its process and get a new token every hour. Calls that send an older token have ended long ago. */
const MAX_REMEMBERED = 20

/** The handle of an id. @throws IntegrationNotFound */
export async function getIntegration(framework: Framework, id: number): Promise<Integration> {
  return integrationHandle(framework, await requireIntegration(framework, id))
}

/** A snapshot of the row with the operations bound to it. Printing or serialising it shows no credential. */
export function integrationHandle(
  framework: Framework,
  row: IntegrationRow & { readonly stream?: string | null },
  {
    observe,
    observeDate,
    unstored,
  }: {
    observe?: (request: RequestRecord) => void
    /** Told the `Date` of each answer, when its headers are there. */
    observeDate?: (date: Date) => void
    /** Secrets that the work with this handle sends and no row holds: redacted as the stored ones are. */
    unstored?: Credentials
  } = {},
): Integration {
  const identity = { id: row.id, provider: row.provider, name: row.name }
  let known: Credentials | undefined
  const credentials = (): Credentials => {
    known ??= framework.encryption.decrypt(row.id, row.credentials)
    return known
  }
  /** Credentials that this handle has known or was given since its snapshot: calls under way may still send them. */
  const given: Credentials[] = []
  /** The same object until something is added: its secrets are looked for once. */
  let everKnown: Credentials | undefined
  const secrets = (): Credentials => {
    if (given.length === 0 && unstored === undefined) return credentials()
    everKnown ??= { now: credentials(), given: [...given], unstored }
    return everKnown
  }
  const remember = (one: Credentials): void => {
    given.push(one)
    if (given.length > MAX_REMEMBERED) given.shift()
    everKnown = undefined
  }
  const adopt = (newest: Credentials): void => {
    const before = known ?? readable(framework, row)
    if (isDeepStrictEqual(before, newest)) return
    known = newest
    if (before !== null) remember(before)
  }

  const handle: Integration = {
    ...identity,
    metadata: (row.metadata ?? {}) as Record<string, Json>,
    owner: row.ownerType === null || row.ownerId === null ? null : { type: row.ownerType, id: row.ownerId },
    ownerType: row.ownerType,
    ownerId: row.ownerId,
    isActive: row.isActive,
    switchedOffAt: row.switchedOffAt,
    healthStatus: row.healthStatus,
    consecutiveFailures: row.consecutiveFailures,
    lastErrorAt: row.lastErrorAt,
    anomalyAlertedAt: row.anomalyAlertedAt,
    syncIntervalMinutes: row.syncIntervalMinutes,
    syncCursor: (row.syncCursor ?? null) as Json,
    lastSyncedAt: row.lastSyncedAt,
    nextSyncAt: row.nextSyncAt,
    consecutiveSyncFailures: row.consecutiveSyncFailures,
    syncStaleAlertedAt: row.syncStaleAlertedAt,
    circuitOverride: row.circuitOverride,
    circuitOverrideUntil: row.circuitOverrideUntil,
    rateLimitOverride: (row.rateLimitOverride ?? null) as Json,
    rateLimitOverrideUntil: row.rateLimitOverrideUntil,
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,

    now: () => framework.clock.now(),
    request: <T>(endpoint: string, method: string, call: Call<T>, options: RequestOptions = {}): Promise<never> =>
      framework.request(framework, { ...own, endpoint, method, call, options }) as Promise<never>,
    requestAs: (schema, endpoint, method, call, options = {}) =>
      framework.request(framework, { ...own, endpoint, method, call, options, schema }) as never,
    at: (endpoint) => requestBuilder(framework, { ...own, endpoint, options: {} }),

    async recordFailure(failureClass) {
      checkFailureClass(failureClass)
      await recordOutcome(framework, handle, failureClass)
    },
    recordSuccess: () => recordOutcome(framework, handle, null),
    circuit: () => circuitView(framework, row.id),
    rateLimit: async () => ({
      ...(await rateLimitView(framework, row.id)),
      shared: await sharedLimitView(framework, handle),
    }),
    overrideCircuit: (to, until) => overrideCircuit(framework, handle, to, until),
    overrideRateLimit: (limit, until) => overrideRateLimit(framework, handle, limit, until),
    overrideSharedRateLimit: (limit, until) => overrideSharedLimit(framework, handle, limit, until),
    startOperation: (operation) => startOperation(framework, handle, operation),
    idempotencyRecord: (key) => idempotencyRecord(framework, row.id, key),
    forgetIdempotencyKey: (key) => forgetIdempotencyKey(framework, row.id, key),

    credentialsArray: () => ({ ...credentials() }),
    async updateCredentials(patch, options) {
      // Before the check: the caller may still send or quote a patch that is refused.
      remember(patch)
      const { keys, stored, hasSubscription } = await patchCredentials(framework, row.id, patch, options)
      adopt(stored)
      framework.integrationsChanged.set(row.provider, performance.now())
      if (hasSubscription) framework.workflows.keepWebhookSubscription(row.id)
      await forgetAuthenticatedUser(framework, row.id)
      await noteCredentialsGiven(framework, handle, options?.replace === true ? [...keys, 'access_token'] : keys)
      await framework.listeners.emit('CredentialsUpdated', { integration: handle, keys })
    },
    async updateSyncCursor(value) {
      const { id: integrationId, provider } = row
      const stream = row.stream ?? streamMeant(provider, framework.providers.get(provider), null)
      await changeCursor(framework, { integrationId, stream }, value, 'code')
    },

    mapExternalId: (externalId, model) => mapExternalId(framework, row.id, externalId, model),
    remapExternalId: (externalId, model) => remapExternalId(framework, row.id, externalId, model),
    upsertByExternalId: (externalId, model, attributes) =>
      upsertByExternalId(framework, row.id, externalId, model, attributes),
    findExternalId: (model) => findExternalId(framework, row.id, model),
    resolveMappings: (externalIds, model) => resolveMappings(framework, row.id, externalIds, model),
    async resolveMapping(externalId, model) {
      const found = await resolveMappings(framework, row.id, [externalId], model)
      return [...found.values()][0] ?? null
    },

    getAccessToken: () => accessToken(framework, holder),
    tokenExpiresSoon: () => tokenExpiresSoon(framework, holder),
    refreshTokenIfNeeded: () => refreshTokens(framework, holder),
    authenticatedUser: (cacheFor) => authenticatedUser(framework, handle, cacheFor),
    supportsAuthenticatedUser: () => supportsAuthenticatedUser(framework, handle),
    forgetAuthenticatedUser: () => forgetAuthenticatedUser(framework, row.id),
    async cachedSecret(name, obtain) {
      const value = await cachedSecret(framework, holder, name, obtain)
      // Once: the same secret again and again must not push out the others.
      if (!given.some((one) => one[name] === value)) remember({ [name]: value })
      return value
    },
    forgetCachedSecret: (name) => forgetCachedSecret(framework, row.id, name),

    emit: (event) => framework.listeners.deliver(event),
    enable: () => enableIntegration(framework, handle),
    disable: () => disableIntegration(framework, row.id),
    refresh: () => getIntegration(framework, row.id),
    toJSON: () => identity,
  }
  const holder: TokenHolder = { integration: handle, credentials, adopt }
  registerSecrets(handle, secrets)
  const own = { integration: handle, credentials: secrets, observe, observeDate, tokens: holder }
  return handle
}

/**
 * Merges a patch into the stored credentials: absent keys stay, null removes one. The row is locked meanwhile, so patches at the
 * same moment do not overwrite each other.
 *
 * @returns the keys that the patch names, what is stored now, and whether the webhook subscription is to be looked at
 */
function patchCredentials(
  framework: Framework,
  id: number,
  patch: Credentials,
  { replace = false }: { replace?: boolean } = {},
): Promise<{ keys: string[]; stored: Credentials; hasSubscription: boolean }> {
  const { db, tables, encryption } = framework
  return db.transaction(async (tx) => {
    const row = await requireLocked(tx, tables, id)
    const changed = { ...row, credentials: patchedCredentials(framework, row, patch, { replace }) }
    await updateIntegration(tx, tables, id, { credentials: changed.credentials })
    const [before, after] = [integrationHandle(framework, row), integrationHandle(framework, changed)]
    // What replaces all credentials has no token but its own.
    const ended = replace ? null : await endObtainedToken(framework, tx, { before, after, given: patch })
    const keys = keysOf(patch)
    await recordEvents(framework, tx, id, [{ name: 'CredentialsUpdated', payload: { keys } }])
    // Not for any key: an adapter that stores a token of its own while it looks at the subscription would look for ever.
    const isSecret = replace || keys.includes('webhook_secret')
    const hasSubscription = isSecret && (await noteSwitch(framework, tx, row))
    return { keys, stored: encryption.decrypt(id, (ended ?? changed).credentials), hasSubscription }
  })
}

/** Null: they can't be read. A replacement has come for them. */
function readable({ encryption }: Framework, row: IntegrationRow): Credentials | null {
  try {
    return encryption.decrypt(row.id, row.credentials)
  } catch (error) {
    if (isIntegrationsError(error, 'credentials_unreadable')) return null
    throw error
  }
}
