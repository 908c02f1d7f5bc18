/** Makes the handle of a row. */
import { IntegrationNotFound } from '../core/errors.ts'
import type { Json } from '../core/json.ts'
import { findIntegration } from '../db/queries/integrations.ts'
import type { IntegrationRow } from '../db/schema/tables.ts'
import type { RequestRecord } from '../events/events.ts'
import type { Framework } from '../framework.ts'
import type { Credentials, Integration } from '../providers/integration.ts'
import { circuitView, overrideCircuit } from './circuit.ts'
import { patchCredentials } from './credentials.ts'
import { changeCursor } from './cursor-change.ts'
import { disableIntegration, enableIntegration } from './enabled.ts'
import { findExternalId, mapExternalId, remapExternalId, resolveMappings, upsertByExternalId } from './mappings.ts'
import { startOperation } from './operation-log.ts'
import { overrideRateLimit, rateLimitView } from './rate-limit.ts'
import { recordOutcome } from './recorded-outcome.ts'
import { requestBuilder } from './request/builder.ts'
import { forgetIdempotencyKey, idempotencyRecord } from './request/idempotency.ts'

/** The handle of an id. @throws IntegrationNotFound */
export async function getIntegration(framework: Framework, id: number): Promise<Integration> {
  const row = await findIntegration(framework.db, framework.tables, id)
  if (row === null) throw new IntegrationNotFound(id)
  return integrationHandle(framework, row)
}

/** A snapshot of the row with the operations bound to it. Printing or serialising it shows no credential. */
export function integrationHandle(
  framework: Framework,
  row: IntegrationRow,
  { observe }: { observe?: (request: RequestRecord) => void } = {},
): Integration {
  const identity = { id: row.id, provider: row.provider, name: row.name }
  let decrypted: Credentials | undefined
  const credentials = (): Credentials => {
    decrypted ??= framework.encryption.decrypt(row.id, row.credentials)
    return decrypted
  }
  /** Given to the integration by way of this handle since its snapshot: what goes on with it may send them. */
  const given: Credentials[] = []
  const secrets = (): Credentials => (given.length === 0 ? credentials() : { snapshot: credentials(), given })

  const handle: Integration = {
    ...identity,
    metadata: (row.metadata ?? {}) as Record<string, Json>,
    owner: row.ownerType === null || row.ownerId === null ? null : { type: row.ownerType, id: row.ownerId },
    isActive: row.isActive,
    healthStatus: row.healthStatus,
    syncIntervalMinutes: row.syncIntervalMinutes,
    syncCursor: (row.syncCursor ?? null) as Json,
    lastSyncedAt: row.lastSyncedAt,
    nextSyncAt: row.nextSyncAt,
    createdAt: row.createdAt,

    request: (endpoint, method, call, options = {}) =>
      framework.request(framework, { ...own, endpoint, method, call, options }),
    requestAs: (schema, endpoint, method, call, options = {}) =>
      framework.request(framework, { ...own, endpoint, method, call, options, schema }) as never,
    at: (endpoint) => requestBuilder(framework, { ...own, endpoint, options: {} }),

    recordFailure: (failureClass) => recordOutcome(framework, handle, failureClass),
    recordSuccess: () => recordOutcome(framework, handle, null),
    circuit: () => circuitView(framework, row.id),
    rateLimit: () => rateLimitView(framework, row.id),
    overrideCircuit: (to, until) => overrideCircuit(framework, handle, to, until),
    overrideRateLimit: (limit, until) => overrideRateLimit(framework, handle, limit, until),
    startOperation: (operation) => startOperation(framework, handle, operation),
    idempotencyRecord: (key) => idempotencyRecord(framework, row.id, key),
    forgetIdempotencyKey: (key) => forgetIdempotencyKey(framework, row.id, key),

    credentialsArray: () => ({ ...credentials() }),
    async updateCredentials(patch, options) {
      given.push(patch)
      const keys = await patchCredentials(framework, row.id, patch, options)
      await framework.listeners.emit('CredentialsUpdated', { integration: handle, keys })
    },
    async updateSyncCursor(value) {
      await changeCursor(framework, row.id, value, 'code')
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

    emit: (event) => framework.listeners.deliver(event),
    enable: () => enableIntegration(framework, row.id),
    disable: () => disableIntegration(framework, row.id),
    refresh: () => getIntegration(framework, row.id),
    toJSON: () => identity,
  }
  const own = { integration: handle, credentials: secrets, observe }
  return handle
}
