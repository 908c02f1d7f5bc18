/** Bodies and queries of the operator API, named like the columns. Rule: docs/behaviour/operator-api.md. */

import { z } from 'zod'
import { MAX_LINK_SECONDS } from '../access/rules.ts'
import { Instant } from '../framework/instant.ts'
import { INCIDENT_SOURCES, INCIDENT_STATUSES } from '../incidents/rules.ts'
import { HealthStatus } from '../integrations/rules.ts'
import { MAX_DEBOUNCE_SECONDS } from '../syncs/ask-rules.ts'
import { SYNC_ITEM_STATUSES } from '../syncs/items/item-rules.ts'
import { RUN_STATUSES } from '../syncs/run-rules.ts'
import { WEBHOOK_STATUSES } from '../webhooks/rules.ts'

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

const stored = { event: text.optional(), since: Instant.optional(), until: Instant.optional() }

type Times = { readonly since?: Date | undefined; readonly until?: Date | undefined }
const inOrder = ({ since, until }: Times): boolean => since === undefined || until === undefined || since < until
/** Skips the check of the order if one of the moments is not valid. */
const areMoments = ({ issues }: { issues: readonly unknown[] }): boolean => issues.length === 0
const orderProblem = { path: ['until'], error: 'a moment after since', when: areMoments }

export const webhooksQuery = z
  .strictObject({
    ...page,
    ...stored,
    integration: idText.optional(),
    provider: text.optional(),
    owner: ownerText.optional(),
    status: z.enum(WEBHOOK_STATUSES).optional(),
    dismissed: flag.optional(),
  })
  .refine(inOrder, orderProblem)

export const webhooksToReplay = z
  .strictObject({
    ...stored,
    integration: id.optional(),
    status: z.enum(['processed', 'failed']).optional(),
    limit: id.optional(),
    dry_run: z.boolean().default(false),
  })
  .refine(inOrder, orderProblem)
  .transform(({ dry_run, ...filter }) => ({ dryRun: dry_run, filter }))

export const webhooksToDismiss = z
  .strictObject({
    ...stored,
    integration: id.optional(),
    limit: id.optional(),
    undo: z.boolean().default(false),
    dry_run: z.boolean().default(false),
  })
  .refine(inOrder, orderProblem)
  .transform(({ dry_run, undo, ...filter }) => ({ dryRun: dry_run, undo, filter }))

export const dismissal = z.strictObject({ undo: z.boolean().default(false) })

export const reconciliation = z
  .strictObject({ since: Instant.optional(), dry_run: z.boolean().default(false) })
  .transform(({ since, dry_run }) => ({ since, dryRun: dry_run }))

export const newWebhookSecret = z.strictObject({ secret: z.string().min(1).optional() })

export const newOAuthLink = z
  .strictObject({
    action: z.enum(['connect', 'authorize', 'revoke']).default('connect'),
    expires_in: z.int().min(1).max(MAX_LINK_SECONDS).default(3_600),
  })
  .transform(({ action, expires_in }) => ({ action, expiresIn: expires_in }))

const STATISTICS_SPANS = ['24h', '7d', '30d'] as const

export const syncRunsQuery = z
  .strictObject({
    ...page,
    integration: idText.optional(),
    status: z.enum(RUN_STATUSES).optional(),
    since: Instant.optional(),
    until: Instant.optional(),
  })
  .refine(inOrder, orderProblem)
  .transform(({ integration, ...filter }) => ({ ...filter, integrationId: integration }))

export const syncItemsQuery = z
  .strictObject({
    ...page,
    ...stored,
    integration: idText.optional(),
    run: idText.optional(),
    status: z.enum(SYNC_ITEM_STATUSES).optional(),
    waiting: flag.optional(),
    made_up_for: flag.optional(),
    external_id: textUpTo(500).optional(),
  })
  .refine(inOrder, orderProblem)
  .refine(({ external_id, integration, run }) => external_id === undefined || (integration ?? run) !== undefined, {
    path: ['external_id'],
    error: 'comes with integration or run',
  })
  .transform(({ integration, run, event, external_id, made_up_for, ...filter }) => ({
    ...filter,
    integrationId: integration,
    syncLogId: run,
    madeUpFor: made_up_for,
    eventClass: event,
    externalId: external_id,
  }))

export const itemRetry = z
  .strictObject({ tries: z.int().min(1).max(1_000).optional(), force: z.boolean().default(false) })
  .transform(({ tries, force }) => ({ force, ...(tries === undefined ? {} : { tries }) }))

export const incidentsQuery = z
  .strictObject({
    ...page,
    integration: idText.optional(),
    status: z.enum(INCIDENT_STATUSES).optional(),
    source: z.enum(INCIDENT_SOURCES).optional(),
    since: Instant.optional(),
    until: Instant.optional(),
    owner: ownerText.optional(),
  })
  .refine(inOrder, orderProblem)
  .transform(({ integration, ...filter }) => ({ ...filter, integrationId: integration }))

export const statisticsQuery = z.strictObject({
  provider: text.optional(),
  since: z.enum(STATISTICS_SPANS).optional(),
})

/** A window of the past: `from` inclusive, `to` exclusive. */
export const syncWindow = z
  .strictObject({ from: Instant, to: Instant })
  .refine(({ from, to }) => from < to, { path: ['to'], error: 'a moment after from', when: areMoments })
  .transform(({ from, to }) => ({ from: from.toISOString(), to: to.toISOString() }))

/** `syncs.start()` says how far ahead. */
export const syncStart = z.strictObject({
  not_before: Instant.optional(),
  debounce_seconds: z.number().min(0).max(MAX_DEBOUNCE_SECONDS).optional(),
})

export const sampleBody = z.strictObject({ limit: z.int().min(1).max(100).optional() })

export const changedCursor = z.strictObject({ cursor: z.json(), force: z.boolean().default(false) })

export const changedInterval = z
  .strictObject({ minutes: z.int().min(1) })
  .transform(({ minutes }) => ({ syncIntervalMinutes: minutes }))
