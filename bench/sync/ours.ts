/** Ours, as a host makes it: every default, its own logger included. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Integrations, IntegrationsOptions } from 'durable-integrations'
import { createIntegrations } from 'durable-integrations'
import type { HasIncrementalSync, HasStreams } from 'durable-integrations/provider'
import { RateLimit, reduceCheckpointsByMax } from 'durable-integrations/provider'
import { ContactChanged, changedAt, contact, externalIdOf, SlowContactChanged } from './contact.ts'

export interface OursOptions {
  readonly databaseUrl: string
  readonly temporalAddress: string
  readonly encryptionKey: string
}

export const PROVIDER = {
  quick: 'bench',
  slow: 'slow',
  scheduled: 'scheduled',
  three: 'three',
  crowd: 'crowd',
} as const
export type ProviderKey = (typeof PROVIDER)[keyof typeof PROVIDER]
export const LISTENER_MS = 20
/** Of an integration's metadata: how many items its provider lists. */
export const ITEMS_KEY = 'items'
/** Of the provider `crowd`: the first one may be large, the others are small. */
export const CROWD = Array.from({ length: 100 }, (_, index) => `stream-${index}`)
/** Of its metadata: how many items the first stream lists. */
export const FIRST_KEY = 'first'

/** Milliseconds since 1970 of each integration's first dispatch, and first listener where those take a while. */
export interface Moments {
  readonly firstDispatch: Map<number, number>
  readonly firstListener: Map<number, number>
}

export function createOurs(
  options: OursOptions,
  moments: Moments,
  more: Pick<IntegrationsOptions, 'logger'> = {},
): Integrations {
  const integrations = createIntegrations({
    database: options.databaseUrl,
    temporal: { address: options.temporalAddress },
    encryptionKeys: `bench:${options.encryptionKey}`,
    providers: {
      [PROVIDER.quick]: providerOf(ContactChanged, null, moments),
      [PROVIDER.slow]: providerOf(SlowContactChanged, null, moments),
      [PROVIDER.scheduled]: providerOf(ContactChanged, MINUTES_A_DAY, moments),
      [PROVIDER.three]: streamsOf(['contacts', 'companies', 'deals'], MINUTES_A_DAY, moments),
      [PROVIDER.crowd]: streamsOf(CROWD, null, moments),
    },
    ...more,
  })
  integrations.on(ContactChanged, () => {})
  integrations.on(SlowContactChanged, ({ integration }) => {
    if (!moments.firstListener.has(integration.id)) moments.firstListener.set(integration.id, Date.now())
    return sleep(LISTENER_MS)
  })
  return integrations
}

/** Due once, by the bench's own doing, and not again while it runs. */
const MINUTES_A_DAY = 1_440

function providerOf(
  event: typeof ContactChanged | typeof SlowContactChanged,
  intervalMinutes: number | null,
  { firstDispatch }: Moments,
): HasIncrementalSync {
  const list: HasIncrementalSync['sync'] = async (integration, session) => {
    const items = Number(integration.metadata[ITEMS_KEY])
    firstDispatch.set(integration.id, Date.now())
    for (let number = 1; number <= items; number += 1)
      await session.dispatch(new event(integration, contact(number)), changedAt(number), externalIdOf(number))
  }
  return {
    sync: list,
    syncIncremental: list,
    reduceCheckpoints: reduceCheckpointsByMax,
    defaultSyncInterval: () => intervalMinutes,
    defaultRateLimit: () => RateLimit.perMinute(1_000_000),
    syncItemEvents: () => [event],
  }
}

function streamsOf(names: readonly string[], intervalMinutes: number | null, moments: Moments): HasStreams {
  const { reduceCheckpoints, defaultRateLimit } = providerOf(ContactChanged, null, moments)
  const streams = names.map((name, index) => {
    const listed: HasStreams['streams'][string] = {
      events: [ContactChanged],
      everySeconds: intervalMinutes === null ? null : intervalMinutes * 60,
      reduceCheckpoints,
      async sync(integration, session) {
        const { [ITEMS_KEY]: items, [FIRST_KEY]: first = items } = integration.metadata
        for (let number = 1; number <= Number(index === 0 ? first : items); number += 1)
          await session.dispatch(
            new ContactChanged(integration, contact(number)),
            changedAt(number),
            externalIdOf(number),
          )
      },
    }
    return [name, listed] as const
  })
  return { defaultRateLimit, streams: Object.fromEntries(streams) }
}
