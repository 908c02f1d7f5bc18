/** Creating, finding and changing integrations. Rule: docs/behaviour/integrations.md, "Creating and changing". */

import { forgetAuthenticatedUser } from '../credentials/authenticated-user.ts'
import { checkCredentials, checkMetadata, keysOf, patchedCredentials } from '../credentials/credentials.ts'
import type { IntegrationRow } from '../db/schema/tables.ts'
import { recordEvents } from '../events/durable-events.ts'
import type { Framework } from '../framework/context.ts'
import { IntegrationNotFound, InvalidArgumentException, UnsupportedByProvider } from '../framework/errors.ts'
import { noteCredentialsGiven } from '../oauth/keep-alive.ts'
import { endObtainedToken } from '../oauth/obtained-tokens.ts'
import type { IntegrationProvider } from '../providers/contracts.ts'
import type { Credentials, Integration } from '../providers/integration.ts'
import { canSync } from '../providers/streams.ts'
import { noteSwitch } from '../subscriptions/switch.ts'
import { enableLocked, tellEnabled } from './enabled.ts'
import { integrationHandle } from './handle.ts'
import {
  findIntegration,
  insertIntegration,
  nextIntegrationId,
  requireLocked,
  switchedOff,
  TOUCHED,
  updateIntegration,
} from './queries.ts'
import type { Owner } from './rules.ts'
import { checkOwner } from './rules.ts'

const MAX_NAME_LENGTH = 255
/** Column `sync_interval_minutes` is a Postgres integer. */
const MAX_INTERVAL_MINUTES = 2 ** 31 - 1

export interface CreateIntegration {
  /** A registered provider's identifier. */
  readonly provider: string
  readonly name: string
  /** Checked by the provider's schema, stored encrypted. */
  readonly credentials: Credentials
  readonly metadata?: Readonly<Record<string, unknown>>
  /** Null: it has no owner. */
  readonly owner?: Owner | null
  /** Overrides the provider's default interval. */
  readonly syncIntervalMinutes?: number | null
  /** Default true. */
  readonly isActive?: boolean
}

export type UpdateIntegration = Partial<
  Pick<CreateIntegration, 'name' | 'owner' | 'syncIntervalMinutes' | 'isActive' | 'credentials'>
> & {
  /** Replace what is stored. A function makes them of that under the row's lock, so no other change is lost. */
  readonly metadata?: Metadata | ((stored: Metadata) => Metadata)
}

type Metadata = Readonly<Record<string, unknown>>

/** @throws UnknownProvider, InvalidCredentials, InvalidArgumentException; then nothing is stored */
export async function createIntegration(framework: Framework, given: CreateIntegration): Promise<Integration> {
  const { db, tables, encryption, listeners, providers } = framework
  const provider = providers.get(given.provider)
  checkName(given.name)
  checkInterval(given.provider, () => canSync(provider), given.syncIntervalMinutes)
  checkActive(given.isActive)
  const owner = checkOwner(given.owner)
  const credentials = checkCredentials(given.provider, provider, given.credentials)
  const metadata = checkMetadata(given.provider, provider, given.metadata === undefined ? {} : given.metadata)
  // Credentials are bound to the row's id, so the id comes first.
  const id = await nextIntegrationId(db, tables)
  const { row, hasSubscription } = await db.transaction(async (tx) => {
    const stored = await insertIntegration(tx, tables, {
      id,
      provider: given.provider,
      name: given.name,
      credentials: encryption.encrypt(id, credentials),
      metadata,
      ownerType: owner?.type ?? null,
      ownerId: owner?.id ?? null,
      syncIntervalMinutes: given.syncIntervalMinutes ?? null,
      ...(given.isActive === false ? { isActive: false, switchedOffAt: framework.clock.now() } : {}),
    })
    await recordEvents(framework, tx, id, [{ name: 'IntegrationCreated', payload: {} }])
    return { row: stored, hasSubscription: await noteSwitch(framework, tx, stored) }
  })
  framework.integrationsChanged.set(row.provider, performance.now())
  if (hasSubscription) framework.workflows.keepWebhookSubscription(id)
  const integration = integrationHandle(framework, row)
  await listeners.emit('IntegrationCreated', { integration })
  return integration
}

export async function findIntegrationById(framework: Framework, id: number): Promise<Integration | null> {
  const row = await findIntegration(framework.db, framework.tables, id)
  return row === null ? null : integrationHandle(framework, row)
}

/**
 * Changes what the patch names; credentials are merged. `isActive: true` is `enable()` where it is off for any reason, false is
 * `disable()`.
 *
 * @throws as {@link createIntegration}, IntegrationNotFound
 */
export async function updateIntegrationRow(
  framework: Framework,
  id: number,
  patch: UpdateIntegration,
): Promise<Integration> {
  const { db, tables, listeners, providers } = framework
  // One transaction: a patch that is refused stores nothing.
  const { row, events, hasSubscription } = await db.transaction(async (tx) => {
    const before = await requireLocked(tx, tables, id)
    if (patch.name !== undefined) checkName(patch.name)
    checkActive(patch.isActive)
    const owner = checkOwner(patch.owner)
    // Name, owner and switch need no provider, so an unregistered one only refuses the others.
    const provider = (): IntegrationProvider => providers.get(before.provider)
    checkInterval(before.provider, () => canSync(provider()), patch.syncIntervalMinutes)
    const metadata =
      patch.metadata === undefined
        ? undefined
        : checkMetadata(before.provider, provider(), metadataOf(patch.metadata, before))
    const changed = await updateIntegration(tx, tables, id, {
      ...(patch.name === undefined ? {} : { name: patch.name }),
      ...(metadata === undefined ? {} : { metadata }),
      ...(owner === undefined ? {} : { ownerType: owner?.type ?? null, ownerId: owner?.id ?? null }),
      ...(patch.syncIntervalMinutes === undefined ? {} : { syncIntervalMinutes: patch.syncIntervalMinutes }),
      ...(patch.isActive === false ? switchedOff(tables) : {}),
      ...(patch.credentials === undefined
        ? {}
        : { credentials: patchedCredentials(framework, before, patch.credentials) }),
      ...TOUCHED,
    })
    if (patch.credentials !== undefined)
      await recordEvents(framework, tx, id, [
        { name: 'CredentialsUpdated', payload: { keys: keysOf(patch.credentials) } },
      ])
    if (changed === null) throw new IntegrationNotFound(id)
    const ended = await endObtainedToken(framework, tx, {
      ...{ before: integrationHandle(framework, before), after: integrationHandle(framework, changed) },
      given: patch.credentials ?? {},
    })
    const after = ended ?? changed
    // It is on already: its health is not touched.
    if (patch.isActive !== true || before.isActive) {
      // A new secret, or new rights at the provider.
      const isTouched = patch.isActive === false || patch.credentials !== undefined
      return { row: after, events: null, hasSubscription: isTouched && (await noteSwitch(framework, tx, after)) }
    }
    return enableLocked(framework, tx, after)
  })
  framework.integrationsChanged.set(row.provider, performance.now())
  const integration = integrationHandle(framework, row)
  if (events !== null) await tellEnabled(framework, integration, { events, hasSubscription })
  else if (hasSubscription) framework.workflows.keepWebhookSubscription(id)
  if (patch.credentials !== undefined) {
    await forgetAuthenticatedUser(framework, id)
    const keys = keysOf(patch.credentials)
    await noteCredentialsGiven(framework, integration, keys)
    await listeners.emit('CredentialsUpdated', { integration, keys })
    // The metadata may say how it authenticates.
  } else if (patch.metadata !== undefined) await noteCredentialsGiven(framework, integration, [])
  return integration
}

function metadataOf(wanted: NonNullable<UpdateIntegration['metadata']>, { metadata }: IntegrationRow): Metadata {
  return typeof wanted === 'function' ? wanted(structuredClone((metadata ?? {}) as Metadata)) : wanted
}

function checkName(name: unknown): void {
  if (typeof name !== 'string') throw new InvalidArgumentException('name', 'text is allowed')
  const length = [...name].length
  if (name.trim() === '' || length > MAX_NAME_LENGTH || name.includes('\u0000'))
    throw new InvalidArgumentException('name', `1 to ${MAX_NAME_LENGTH} characters are allowed, ${length} were given`)
}

function checkInterval(provider: string, isScheduled: () => boolean, minutes: number | null | undefined): void {
  if (minutes === undefined || minutes === null) return
  if (!isScheduled()) throw new UnsupportedByProvider(provider, 'HasScheduledSync')
  if (!Number.isInteger(minutes) || minutes < 1 || minutes > MAX_INTERVAL_MINUTES)
    throw new InvalidArgumentException(
      'syncIntervalMinutes',
      `an integer from 1 to ${MAX_INTERVAL_MINUTES} is allowed, ${minutes} was given`,
    )
}

function checkActive(isActive: unknown): void {
  if (isActive !== undefined && typeof isActive !== 'boolean')
    throw new InvalidArgumentException('isActive', 'true or false is allowed')
}
