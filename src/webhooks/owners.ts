/**
 * The integrations that may own a delivery, kept for some seconds: most deliveries need neither a read, nor a decryption, nor a new
 * handle.
 *
 * Kept rows may be behind the database. So a delivery is stored only if its owner's row is still the one that verified it
 * (webhooks/arrival-queries.ts), and refused only by rows that were read after it came in.
 * Rule: docs/behaviour/webhooks.md, "What an API process keeps".
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Framework } from '../framework/context.ts'
import { integrationHandle } from '../integrations/handle.ts'
import { isSwitchedOffByPerson } from '../integrations/rules.ts'
import type { Integration } from '../providers/integration.ts'
import { integrationsOfRoute } from './arrival-queries.ts'

/** Integrations of a provider that may be asked for the owner of a delivery on its generic route. */
export const MAX_CANDIDATES = 100
/** A challenge is answered, and a body measured, by what is as old as this at most. */
const MAX_AGE_MS = 5_000
/** Routes at most, the ones read longest ago go first. */
const MAX_ROUTES = 10_000
/** Refusals of one route wait for a common read: a forger's thousand deliveries are ten reads a second. */
const READ_EVERY_MS = 100

/** A route's address: of one integration, or of all of a provider. */
export interface WebhookRoute {
  readonly provider: string
  readonly integrationId: number | null
}

export interface WebhookOwner {
  readonly version: string
  /** Shared by all deliveries of these seconds. */
  readonly integration: Integration
}

export interface WebhookOwners {
  /** Lowest id first; empty: no integration accepts deliveries there. */
  readonly owners: readonly WebhookOwner[]
  /** False: there are more, which are not asked. */
  readonly areAll: boolean
  /** The integration that the route names is there, and a person has switched it off. */
  readonly isSwitchedOff: boolean
  /** When their read began, by `performance.now()`. */
  readonly readAt: number
}

interface Read {
  readonly begunAt: number
  readonly owners: Promise<WebhookOwners>
}

export class KnownOwners {
  readonly #framework: Framework
  readonly #known = new Map<string, WebhookOwners>()
  readonly #underWay = new Map<string, Read>()
  readonly #planned = new Map<string, Promise<WebhookOwners>>()

  constructor(framework: Framework) {
    this.#framework = framework
  }

  /** As they were a few seconds ago at most, and after each change that this process has made to the provider's. */
  find(route: WebhookRoute): WebhookOwners | Promise<WebhookOwners> {
    const known = this.#known.get(routeKey(route))
    const changedAt = this.#framework.integrationsChanged.get(route.provider) ?? Number.NEGATIVE_INFINITY
    if (known !== undefined && known.readAt > changedAt && performance.now() - known.readAt < MAX_AGE_MS) return known
    const read = this.#underWay.get(routeKey(route))
    return read !== undefined && read.begunAt > changedAt ? read.owners : this.#read(route)
  }

  /** As they are after a moment, by `performance.now()`. */
  async readAfter(route: WebhookRoute, moment: number): Promise<WebhookOwners> {
    const key = routeKey(route)
    const known = this.#known.get(key)
    if (known !== undefined && known.readAt >= moment) return known
    const read = this.#underWay.get(key)
    if (read !== undefined && read.begunAt >= moment) return read.owners
    const planned = this.#planned.get(key)
    if (planned !== undefined) return planned
    const waitMs = (read?.begunAt ?? known?.readAt ?? Number.NEGATIVE_INFINITY) + READ_EVERY_MS - performance.now()
    if (waitMs <= 0) return this.#read(route)
    const later = sleep(waitMs).then(() => {
      this.#planned.delete(key)
      return this.#read(route)
    })
    this.#planned.set(key, later)
    return later
  }

  /** Others than these, which a statement has found to be behind. */
  async readInPlaceOf(route: WebhookRoute, old: WebhookOwners): Promise<WebhookOwners> {
    const known = this.#known.get(routeKey(route))
    if (known !== undefined && known !== old) return known
    return this.#underWay.get(routeKey(route))?.owners ?? this.#read(route)
  }

  #read(route: WebhookRoute): Promise<WebhookOwners> {
    const key = routeKey(route)
    const begunAt = performance.now()
    const owners = this.#ask(route, begunAt).finally(() => {
      if (this.#underWay.get(key) === read) this.#underWay.delete(key)
    })
    const read: Read = { begunAt, owners }
    this.#underWay.set(key, read)
    return owners
  }

  async #ask(route: WebhookRoute, readAt: number): Promise<WebhookOwners> {
    const { arrivalDb, tables } = this.#framework
    const rows = await integrationsOfRoute(arrivalDb, tables, route, MAX_CANDIDATES + 1)
    const found = rows.filter(({ row }) => !isSwitchedOffByPerson(row))
    const key = routeKey(route)
    const read: WebhookOwners = {
      owners: found
        .slice(0, MAX_CANDIDATES)
        .map(({ row, version }) => ({ version, integration: sharedHandle(this.#framework, row) })),
      areAll: found.length <= MAX_CANDIDATES,
      isSwitchedOff: found.length < rows.length,
      readAt,
    }
    // A slower read that began earlier does not take the place of a newer one.
    if ((this.#known.get(key)?.readAt ?? Number.NEGATIVE_INFINITY) > readAt) return read
    // Deleted first: a map keeps its order, so those of longest ago come first.
    this.#known.delete(key)
    // An empty list is not kept: a new integration is found at once.
    if (found.length > 0) this.#known.set(key, read)
    for (const [known, { readAt: at }] of this.#known) {
      if (this.#known.size <= MAX_ROUTES && performance.now() - at < MAX_AGE_MS) break
      this.#known.delete(known)
    }
    return read
  }
}

function routeKey({ provider, integrationId }: WebhookRoute): string {
  return `${integrationId ?? ''}/${provider}`
}

/** Each caller gets credentials of its own, however deep: what one does to them no other delivery must see. */
function sharedHandle(framework: Framework, row: Parameters<typeof integrationHandle>[1]): Integration {
  const handle = integrationHandle(framework, row)
  const credentialsArray = handle.credentialsArray
  return Object.assign(handle, {
    credentialsArray: () => {
      const credentials = credentialsArray()
      return isFlat(credentials) ? credentials : structuredClone(credentials)
    },
  })
}

function isFlat(credentials: Readonly<Record<string, unknown>>): boolean {
  for (const key in credentials) if (typeof credentials[key] === 'object') return false
  return true
}
