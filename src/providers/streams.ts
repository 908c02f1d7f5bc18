/** The streams of a provider. Rule: docs/behaviour/sync-streams.md. */
import { InvalidArgumentException, UnsupportedByProvider } from '../framework/errors.ts'
import type { IntervalBounds } from '../syncs/adaptive-rules.ts'
import { LEAST_SECONDS, MOST_SECONDS } from '../syncs/stream-rules.ts'
import type { HasScheduledSync, HasStreams, IntegrationProvider, SyncStream } from './contracts.ts'
import { hasScheduledSync, hasStreams } from './contracts.ts'

const NAME = /^[A-Za-z][A-Za-z0-9_-]{0,59}$/

/** Whether it has one `sync()`, or several streams. */
export const canSync = (provider: IntegrationProvider): provider is HasScheduledSync | HasStreams =>
  hasScheduledSync(provider) || hasStreams(provider)

/** Names of the provider's streams; `[null]`: it has one `sync()`. Empty: it has no sync. */
export function streamsOf(provider: IntegrationProvider): readonly (string | null)[] {
  if (hasStreams(provider)) return Object.keys(provider.streams)
  return hasScheduledSync(provider) ? [null] : []
}

/**
 * What one stream is synced by, in the form of a provider with one `sync()`.
 *
 * @param stream null: the integration's own
 * @returns null: the provider has no such stream
 */
export function syncSource(provider: IntegrationProvider, stream: string | null): HasScheduledSync | null {
  if (stream === null) return hasScheduledSync(provider) ? provider : null
  const declared = declaredStream(provider, stream)
  if (declared === null) return null
  const { listsByCheckpoint, skipUnchanged, events, syncIncremental, syncWindow, handleMissing } = declared
  return {
    sync: (...given) => declared.sync(...given),
    reduceCheckpoints: (checkpoints) => declared.reduceCheckpoints(checkpoints),
    defaultRateLimit: () => (provider as HasStreams).defaultRateLimit(),
    syncItemEvents: () => events ?? [],
    ...(listsByCheckpoint === undefined ? {} : { listsByCheckpoint }),
    ...(skipUnchanged === undefined ? {} : { skipUnchanged }),
    ...(syncIncremental === undefined ? {} : { syncIncremental: syncIncremental.bind(declared) }),
    ...(syncWindow === undefined ? {} : { syncWindow: syncWindow.bind(declared) }),
    ...(handleMissing === undefined ? {} : { handleMissing: handleMissing.bind(declared) }),
  }
}

/** Null: the interval of the stream is one number, or it runs only by hand. */
export function adaptiveBounds({ everySeconds = null }: Pick<SyncStream, 'everySeconds'>): IntervalBounds | null {
  return typeof everySeconds === 'object' ? everySeconds : null
}

/** Null: there is no stream of this name. */
export function declaredStream(provider: IntegrationProvider, stream: string | null): SyncStream | null {
  if (stream === null || !hasStreams(provider) || !Object.hasOwn(provider.streams, stream)) return null
  return provider.streams[stream] ?? null
}

/**
 * The streams that are meant: the one that is named, or all.
 *
 * @param key of the provider, for the error
 * @throws UnsupportedByProvider: it has no sync; InvalidArgumentException: it has no such stream
 */
export function streamsMeant(
  key: string,
  provider: IntegrationProvider,
  stream: string | null | undefined,
): readonly (string | null)[] {
  const all = streamsOf(provider)
  if (all.length === 0) throw new UnsupportedByProvider(key, 'HasScheduledSync')
  if (stream == null) return all
  if (!all.includes(stream)) throw noSuchStream(key, all, stream)
  return [stream]
}

/** The same where only one can be meant. */
export function streamMeant(
  key: string,
  provider: IntegrationProvider,
  stream: string | null | undefined,
): string | null {
  const meant = streamsMeant(key, provider, stream)
  if (meant.length > 1) throw noSuchStream(key, meant, null)
  return meant[0] ?? null
}

function noSuchStream(key: string, all: readonly (string | null)[], given: string | null): InvalidArgumentException {
  const names = all.filter((name) => name !== null)
  const allowed =
    names.length === 0
      ? `none is allowed, since the provider "${key}" has no streams`
      : `one of ${names.join(', ')} is allowed, which are the streams of the provider "${key}"`
  return new InvalidArgumentException(
    'stream',
    `${allowed}; ${given === null ? 'nothing' : JSON.stringify(given)} was given`,
  )
}

/** What is wrong with what a provider says of its syncs, in words. @param models of the host; null: any */
export function streamFaults(provider: IntegrationProvider, models: readonly string[] | null): string[] {
  if (!hasStreams(provider)) return skipFaults(provider as { readonly skipUnchanged?: unknown })
  const streams = Object.entries(provider.streams)
  if (streams.length === 0) return ['streams: at least one is needed']
  const faults = hasScheduledSync(provider) ? ['streams: a provider has either streams or one sync()'] : []
  for (const [name, stream] of streams) {
    const fault = (text: string) => faults.push(`stream ${JSON.stringify(name)}: ${text}`)
    if (!NAME.test(name)) fault('a name is a letter, then letters, digits, "_" and "-", at most 60 of them')
    const lacking = (['sync', 'reduceCheckpoints'] as const).filter((member) => typeof stream[member] !== 'function')
    if (lacking.length > 0) fault(`it lacks ${lacking.join(' and ')}`)
    const { everySeconds = null, overlapSeconds, itemConcurrency, staleAfterSeconds, after, fullEvery, model } = stream
    if (typeof everySeconds === 'object' && everySeconds !== null) {
      const { least, most } = everySeconds
      if (!isBetween(least, LEAST_SECONDS, MOST_SECONDS) || !isBetween(most, least, MOST_SECONDS))
        fault(
          `everySeconds has least, from ${LEAST_SECONDS} on, and most, from least on; ${JSON.stringify(everySeconds)} was given`,
        )
    } else if (everySeconds !== null && !isBetween(everySeconds, LEAST_SECONDS, MOST_SECONDS))
      fault(`everySeconds is at least ${LEAST_SECONDS}, or null; ${String(everySeconds)} was given`)
    if (overlapSeconds !== undefined && !isBetween(overlapSeconds, 0, MOST_SECONDS))
      fault(`overlapSeconds is at least 0; ${String(overlapSeconds)} was given`)
    if (itemConcurrency !== undefined && !(Number.isInteger(itemConcurrency) && isBetween(itemConcurrency, 1, 1_000)))
      fault(`itemConcurrency is a whole number from 1 to 1,000; ${String(itemConcurrency)} was given`)
    if (staleAfterSeconds !== undefined && !isBetween(staleAfterSeconds, 1, MOST_SECONDS))
      fault(`staleAfterSeconds is at least 1; ${String(staleAfterSeconds)} was given`)
    if (fullEvery !== undefined && !isBetween(fullEvery, LEAST_SECONDS, MOST_SECONDS))
      fault(`fullEvery is at least ${LEAST_SECONDS}; ${String(fullEvery)} was given`)
    if (fullEvery !== undefined && (typeof stream.syncIncremental !== 'function' || model === undefined))
      fault('fullEvery goes with syncIncremental() and model')
    if (model !== undefined && (typeof model !== 'string' || models?.includes(model) === false))
      fault(`model is a registered one (${models?.join(', ') || 'there is none'}); ${JSON.stringify(model)} was given`)
    const other = streams.find(([named, { model: of }]) => named !== name && model !== undefined && of === model)
    if (other !== undefined && stream.handleMissing !== undefined)
      fault(
        `handleMissing() needs a model that no other stream has, and ${JSON.stringify(other[0])} has "${model}", too: its records would be missing here`,
      )
    faults.push(...skipFaults(stream).map((text) => `stream ${JSON.stringify(name)}: ${text}`))
    if (after !== undefined && !leadsToAnEnd(provider.streams, name)) {
      const others = Object.keys(provider.streams).filter((other) => other !== name)
      fault(
        `after names another stream (${others.join(', ') || 'there is none'}), and no circle of them; ${JSON.stringify(after)} was given`,
      )
    }
  }
  return faults
}

function skipFaults({ skipUnchanged: skip }: { readonly skipUnchanged?: unknown }): string[] {
  const paths: unknown = typeof skip === 'object' && skip !== null && 'except' in skip ? skip.except : null
  const isAllowed = Array.isArray(paths) && paths.every((path) => typeof path === 'string' && path !== '')
  if (skip === undefined || skip === true || isAllowed) return []
  return [`skipUnchanged is true, or { except: [dot paths] }; ${JSON.stringify(skip)} was given`]
}

function isBetween(value: unknown, least: number, most: number): boolean {
  return typeof value === 'number' && value >= least && value <= most
}

/** Whether the streams that this one waits for, one after the other, are there and end. */
function leadsToAnEnd(streams: HasStreams['streams'], name: string): boolean {
  const passed = new Set<string>()
  for (let next: string | undefined = name; next !== undefined; next = streams[next]?.after) {
    if (passed.has(next) || !Object.hasOwn(streams, next)) return false
    passed.add(next)
  }
  return true
}
