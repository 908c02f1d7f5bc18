/** What an integration's columns may hold, and what they say: health, the switch, owner and provider. */

import { InvalidArgumentException } from '../framework/errors.ts'
import { isId } from '../framework/id.ts'

/** How an integration is doing, from best to worst. */
export const HealthStatus = {
  Healthy: 'healthy',
  Degraded: 'degraded',
  Failing: 'failing',
  Disabled: 'disabled',
} as const
export type HealthStatus = (typeof HealthStatus)[keyof typeof HealthStatus]

/** Upstream failures in a row at which an integration gets worse. */
export interface HealthThresholds {
  readonly degradedAfter: number
  readonly failingAfter: number
  /** Null: never. */
  readonly disabledAfter: number | null
}

/** A person's switch and the health are two facts, and both may hold. Rule: docs/behaviour/health.md, "On, off and health". */
export interface OnOff {
  /** Whether anything scheduled starts: false where a person or its health has switched it off. */
  readonly isActive: boolean
  readonly healthStatus: HealthStatus
  /** When a person did; null: never. */
  readonly switchedOffAt: Date | string | null
}

/** A person's word comes first: it takes the deliveries away, too. Null: it is on. */
export function switchedOffBy(integration: OnOff): 'an operator' | 'its health' | null {
  if (isSwitchedOffByPerson(integration)) return 'an operator'
  return integration.healthStatus === 'disabled' ? 'its health' : null
}

/** For a person: whether it works, and if not, why. */
export function activeText(integration: OnOff): string {
  const by = switchedOffBy(integration)
  return by === null ? 'yes' : `no: ${by}`
}

/** Also a row whose `is_active` a host has set to false by itself. The condition `acceptsWebhooks()` of queries.ts holds the same rule. */
export function isSwitchedOffByPerson({ isActive, healthStatus, switchedOffAt }: OnOff): boolean {
  return switchedOffAt !== null || (!isActive && healthStatus !== 'disabled')
}

const MAX_OWNER_TYPE_LENGTH = 255 // column `owner_type`

/** The record of the host that an integration belongs to. */
export interface Owner {
  readonly type: string
  readonly id: number
}

/** @returns the owner that was given. @throws InvalidArgumentException unless it is whole */
export function checkOwner(owner: Owner | null | undefined): Owner | null | undefined {
  if (owner === undefined || owner === null) return owner
  const { type, id } = owner as Partial<Owner>
  const hasType =
    typeof type === 'string' &&
    type.trim() !== '' &&
    [...type].length <= MAX_OWNER_TYPE_LENGTH &&
    !type.includes('\u0000')
  if (!hasType || !isId(id))
    throw new InvalidArgumentException(
      'owner',
      `both a type of 1 to ${MAX_OWNER_TYPE_LENGTH} characters and an id from 1 to 2^53 - 1 are needed`,
    )
  return { type, id }
}

/** The same for a list's filter: it names an owner, or is left out. @throws InvalidArgumentException */
export function checkOwnerFilter(owner: Owner | undefined): void {
  if (checkOwner(owner) === null) throw new InvalidArgumentException('owner', 'a type and an id are needed')
}

/** What a provider is registered under. Not all digits: a URL of the webhook routes must tell it from an id. */
const PROVIDER_IDENTIFIER = /^(?!\d+$)[a-z0-9][a-z0-9_-]{0,63}$/

export const ALLOWED_PROVIDER_IDENTIFIERS = 'an identifier is 1 to 64 of a-z, 0-9, "_" and "-", and not all digits'

export function isProviderIdentifier(text: string): boolean {
  return PROVIDER_IDENTIFIER.test(text)
}

/** To one decimal; null when the whole is 0. */
export function percentOf(part: number, whole: number): number | null {
  return whole === 0 ? null : Math.round((part / whole) * 1_000) / 10
}
