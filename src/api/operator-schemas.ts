/** Bodies and queries of the operator API, named like the columns. Rule: docs/behaviour/operator-api.md. */

import { z } from 'zod'
import { HealthStatus } from '../integrations/rules.ts'

const id = z.int().min(1)
/** Postgres holds no U+0000 in a text. */
const textUpTo = (length: number) =>
  z
    .string()
    .min(1)
    .max(length)
    .regex(/^[^\0]*$/, 'a text without U+0000')
const text = textUpTo(255)
const idText = z
  .string()
  .regex(/^[1-9]\d{0,15}$/, 'a whole number of at least 1')
  .transform(Number)
  .pipe(id)
const flag = z.enum(['true', 'false'], 'true or false').transform((value) => value === 'true')

const fields = {
  name: text,
  /** Write-only: no answer shows them. */
  credentials: z.record(z.string(), z.unknown()),
  metadata: z.record(z.string(), z.unknown()),
  /** Both null: no owner. */
  owner_type: text.nullable(),
  owner_id: id.nullable(),
  sync_interval_minutes: z.int().min(1).nullable(),
  is_active: z.boolean(),
}

type Owned = { readonly owner_type?: string | null | undefined; readonly owner_id?: number | null | undefined }

const wholeOwner = ({ owner_type: type, owner_id }: Owned): boolean =>
  (type === undefined) === (owner_id === undefined) && (type === null) === (owner_id === null)
const ownerProblem = { path: ['owner_id'], error: 'owner_type and owner_id come together' }

const partial = z.strictObject(fields).partial()

export const newIntegration = z
  .strictObject({
    ...partial.shape,
    provider: text,
    name: fields.name,
    credentials: fields.credentials,
  })
  .refine(wholeOwner, ownerProblem)
  .transform(({ provider, name, credentials, ...rest }) => ({ provider, name, credentials, ...optionsOf(rest) }))

/** Credentials are merged; null removes a key of theirs. */
export const changedIntegration = partial
  .refine((body) => Object.keys(body).length > 0, {
    error: 'names no field to change',
    // A body with unknown fields has that problem only.
    when: ({ issues }) => issues.length === 0,
  })
  .refine(wholeOwner, ownerProblem)
  .transform(({ name, credentials, ...rest }) => ({
    ...(name === undefined ? {} : { name }),
    ...(credentials === undefined ? {} : { credentials }),
    ...optionsOf(rest),
  }))

function optionsOf(body: Omit<z.infer<typeof partial>, 'name' | 'credentials'>) {
  const { metadata, owner_type: type, owner_id, sync_interval_minutes, is_active } = body
  return {
    ...(metadata === undefined ? {} : { metadata }),
    ...(type === undefined || owner_id === undefined
      ? {}
      : { owner: type === null || owner_id === null ? null : { type, id: owner_id } }),
    ...(sync_interval_minutes === undefined ? {} : { syncIntervalMinutes: sync_interval_minutes }),
    ...(is_active === undefined ? {} : { isActive: is_active }),
  }
}

export const MAX_PAGE = 200

const page = {
  limit: z
    .string()
    .regex(/^[1-9]\d{0,2}$/, `a whole number from 1 to ${MAX_PAGE}`)
    .transform(Number)
    .refine((limit) => limit <= MAX_PAGE, `a whole number from 1 to ${MAX_PAGE}`)
    .default(50),
  after: idText.optional(),
}
const ownerText = z
  .string()
  .regex(/^[^\0]{1,255}:[1-9]\d{0,15}$/, 'type:id')
  .transform((owner) => ({
    type: owner.slice(0, owner.lastIndexOf(':')),
    id: Number(owner.slice(owner.lastIndexOf(':') + 1)),
  }))
  .refine((owner) => Number.isSafeInteger(owner.id), 'type:id')

export const integrationsQuery = z.strictObject({
  ...page,
  provider: text.optional(),
  health: z.enum(HealthStatus).optional(),
  active: flag.optional(),
  stale: flag.optional(),
  owner: ownerText.optional(),
})

/** `force`: a living run is ended first. */
export const forceQuery = z.strictObject({ force: flag.default(false) })

const STATISTICS_SPANS = ['24h', '7d', '30d'] as const

export const statisticsQuery = z.strictObject({
  provider: text.optional(),
  since: z.enum(STATISTICS_SPANS).optional(),
})
