/** Creating, finding and changing integrations. */
import { IntegrationNotFound, InvalidArgumentException, UnsupportedByProvider } from '../core/errors.ts'
import type { HealthStatus } from '../core/health.ts'
import {
  findIntegration,
  insertIntegration,
  lockIntegration,
  nextIntegrationId,
  pageOfIntegrations,
  updateIntegration,
} from '../db/queries/integrations.ts'
import type { Framework } from '../framework.ts'
import type { Credentials, Integration } from '../providers/integration.ts'
import { hasScheduledSync } from '../providers/provider.ts'
import { checkCredentials, checkMetadata, patchedCredentials } from './credentials.ts'
import { integrationHandle } from './integration.ts'

const PAGE = 100
const MAX_NAME_LENGTH = 255

export interface CreateIntegration {
  /** A registered provider's identifier. */
  readonly provider: string
  readonly name: string
  /** Checked by the provider's schema, stored encrypted. */
  readonly credentials: Credentials
  readonly metadata?: Readonly<Record<string, unknown>>
  readonly owner?: { readonly type: string; readonly id: number }
  /** Overrides the provider's default interval. */
  readonly syncIntervalMinutes?: number | null
  /** Default true. */
  readonly isActive?: boolean
}

export type UpdateIntegration = Partial<
  Pick<CreateIntegration, 'name' | 'metadata' | 'owner' | 'syncIntervalMinutes' | 'isActive' | 'credentials'>
>

export interface ListIntegrations {
  readonly provider?: string
  readonly active?: boolean
  readonly health?: HealthStatus
  readonly owner?: { readonly type: string; readonly id: number }
  /** Ids greater than this one. */
  readonly after?: number
  readonly limit?: number
}

/** @throws UnknownProvider, InvalidCredentials, InvalidArgumentException; then nothing is stored */
export async function createIntegration(framework: Framework, given: CreateIntegration): Promise<Integration> {
  const { db, tables, encryption, listeners, providers } = framework
  const provider = providers.get(given.provider)
  checkName(given.name)
  checkInterval(given.provider, hasScheduledSync(provider), given.syncIntervalMinutes)
  const credentials = checkCredentials(given.provider, provider, given.credentials)
  const metadata = checkMetadata(given.provider, provider, given.metadata ?? {})
  // Credentials are bound to the row's id, so the id comes first.
  const id = await nextIntegrationId(db, tables)
  const row = await insertIntegration(db, tables, {
    id,
    provider: given.provider,
    name: given.name,
    credentials: encryption.encrypt(id, credentials),
    metadata,
    ownerType: given.owner?.type ?? null,
    ownerId: given.owner?.id ?? null,
    syncIntervalMinutes: given.syncIntervalMinutes ?? null,
    isActive: given.isActive ?? true,
  })
  const integration = integrationHandle(framework, row)
  await listeners.emit('IntegrationCreated', { integration })
  return integration
}

export async function findIntegrationById(framework: Framework, id: number): Promise<Integration | null> {
  const row = await findIntegration(framework.db, framework.tables, id)
  return row === null ? null : integrationHandle(framework, row)
}

/** Changes what the patch names; credentials are merged. @throws as {@link createIntegration}, IntegrationNotFound */
export async function updateIntegrationRow(
  framework: Framework,
  id: number,
  patch: UpdateIntegration,
): Promise<Integration> {
  const { db, tables, listeners, providers } = framework
  // One transaction: of a patch that is refused nothing is stored.
  const row = await db.transaction(async (tx) => {
    const before = await lockIntegration(tx, tables, id)
    if (before === null) throw new IntegrationNotFound(id)
    const provider = providers.find(before.provider)
    if (patch.name !== undefined) checkName(patch.name)
    checkInterval(before.provider, provider !== null && hasScheduledSync(provider), patch.syncIntervalMinutes)
    const metadata = patch.metadata === undefined ? undefined : checkMetadata(before.provider, provider, patch.metadata)
    return updateIntegration(tx, tables, id, {
      ...(patch.name === undefined ? {} : { name: patch.name }),
      ...(metadata === undefined ? {} : { metadata }),
      ...(patch.owner === undefined ? {} : { ownerType: patch.owner.type, ownerId: patch.owner.id }),
      ...(patch.syncIntervalMinutes === undefined ? {} : { syncIntervalMinutes: patch.syncIntervalMinutes }),
      ...(patch.isActive === undefined ? {} : { isActive: patch.isActive }),
      ...(patch.credentials === undefined
        ? {}
        : { credentials: patchedCredentials(framework, before, patch.credentials) }),
      updatedAt: framework.clock.now(),
    })
  })
  if (row === null) throw new IntegrationNotFound(id)
  const integration = integrationHandle(framework, row)
  if (patch.credentials !== undefined)
    await listeners.emit('CredentialsUpdated', { integration, keys: Object.keys(patch.credentials) })
  return integration
}

export async function* listIntegrations(
  framework: Framework,
  { after = 0, limit = Number.POSITIVE_INFINITY, ...filter }: ListIntegrations = {},
): AsyncGenerator<Integration> {
  let last = after
  for (let left = limit; left > 0; ) {
    const size = Math.min(PAGE, left)
    const rows = await pageOfIntegrations(framework.db, framework.tables, filter, last, size)
    for (const row of rows) yield integrationHandle(framework, row)
    if (rows.length < size) return
    last = rows.at(-1)?.id ?? last
    left -= rows.length
  }
}

function checkName(name: string): void {
  const length = [...name].length
  if (name.trim() === '' || length > MAX_NAME_LENGTH || name.includes('\u0000'))
    throw new InvalidArgumentException('name', `1 to ${MAX_NAME_LENGTH} characters are allowed, ${length} were given`)
}

function checkInterval(provider: string, isScheduled: boolean, minutes: number | null | undefined): void {
  if (minutes === undefined || minutes === null) return
  if (!isScheduled) throw new UnsupportedByProvider(provider, 'HasScheduledSync')
  if (!Number.isInteger(minutes) || minutes < 1)
    throw new InvalidArgumentException(
      'syncIntervalMinutes',
      `an integer of at least 1 is allowed, ${minutes} was given`,
    )
}
