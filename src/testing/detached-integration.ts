import type { Integration } from '../providers/integration.ts'

/** What can be read of an integration without a row behind it. */
const FIELDS = {
  id: 0,
  provider: 'detached',
  name: 'of a FakeSyncSession',
  metadata: {},
  owner: null,
  isActive: true,
  healthStatus: 'healthy',
  syncIntervalMinutes: null,
  syncCursor: null,
  lastSyncedAt: null,
  nextSyncAt: null,
  createdAt: new Date(0),
} as const

/** Has a name and no row: whatever needs one says where to get it. */
export function detachedIntegration(): Integration {
  return new Proxy(FIELDS as unknown as Integration, {
    get(fields, name, receiver) {
      if (typeof name === 'symbol' || name in fields) return Reflect.get(fields, name, receiver)
      if (name === 'toJSON') return () => ({ id: 0, provider: FIELDS.provider, name: FIELDS.name })
      // Whoever awaits or prints it asks for these.
      if (name === 'then' || name === 'nodeType' || name === 'asymmetricMatch') return undefined
      throw new TypeError(
        `integration.${name} needs an integration with a row: create one with createTestIntegrations(), then use kit.syncSession(integration)`,
      )
    },
  })
}
