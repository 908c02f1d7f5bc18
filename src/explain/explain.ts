/** Any id → the life of its record. Rule: docs/behaviour/explain.md. */
import type { SQL } from 'drizzle-orm'
import { and, desc, eq, inArray } from 'drizzle-orm'
import type { Limits } from '../access/rules.ts'
import { isWithin } from '../access/rules.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException, RecordNotFound } from '../framework/errors.ts'
import { checkOwnerFilter } from '../integrations/rules.ts'
import type { LifeLine, RecordRef } from './life-lines.ts'
import type { Life, Origin } from './lives.ts'
import { headOfRow, lifeOfExternal, lifeOfKey, lifeOfModel, lifeOfRow } from './lives.ts'
import { MAX_MATCHES, matchesOf } from './matches.ts'
import type { Reference, RowKind } from './reference-rules.ts'
import { ALLOWED_REFERENCES, parseReference, ROW_KINDS, shownReference } from './reference-rules.ts'

export interface ExplainOptions {
  /** What the caller may know of; what lies outside counts as absent, also as a link. Default: everything. */
  readonly limits?: Limits | undefined
}

/** A line of a record's life. */
export interface ExplainedLine extends LifeLine {
  /** Who acted; null: not a person's act. */
  readonly by: string | null
}

export interface ExplainedRecord {
  readonly outcome: 'found'
  readonly ref: RecordRef
  /** The reference that finds it again, such as `webhook:4711`. */
  readonly reference: string
  /** Null: of a host's row, or of an integration that is deleted. */
  readonly integration: { readonly id: number; readonly provider: string; readonly name: string } | null
  /** False: the row is gone, and only acts on it are known. */
  readonly exists: boolean
  readonly status: string | null
  /** Where it comes from, and where that comes from, nearest first. */
  readonly origins: readonly Origin[]
  /** Oldest first; of one moment in the order of events. */
  readonly lines: readonly ExplainedLine[]
  /** At most 25 of each kind, the newest. */
  readonly caused: readonly RecordRef[]
  readonly related: readonly RecordRef[]
  /** More was caused, or done to it, than is shown. */
  readonly more: boolean
}

/** A bare text that several records have. */
export interface AmbiguousRecords {
  readonly outcome: 'ambiguous'
  /** At most ten, each with a reference that is its alone. */
  readonly matches: readonly { readonly ref: RecordRef; readonly reference: string }[]
  readonly more: boolean
}

export type Explanation = ExplainedRecord | AmbiguousRecords

/** Steps of the chain of origins. Item, run and operation in operation are three. */
const MAX_ORIGINS = 8
const MAX_ACTS = 50

/** @throws RecordNotFound; InvalidArgumentException for what cannot be a reference */
export async function explain(
  framework: Framework,
  given: string,
  { limits = {} }: ExplainOptions = {},
): Promise<Explanation> {
  checkOwnerFilter(limits.owner)
  const reference = parseReference(given, framework.config.cache_prefix)
  if (reference.kind === 'refused')
    throw new InvalidArgumentException(
      'reference',
      `${reference.why}. Allowed are ${ALLOWED_REFERENCES}; ${shownReference(given)} was given`,
    )
  const found = await refsOf(framework, reference, limits)
  const [ref] = found
  if (ref !== undefined && found.length > 1)
    return {
      outcome: 'ambiguous',
      matches: found.slice(0, MAX_MATCHES).map((match) => ({ ref: match, reference: referenceTo(match) })),
      more: found.length > MAX_MATCHES,
    }
  const explained = ref === undefined ? null : await explainRecord(framework, ref, limits)
  if (explained !== null) return explained
  throw new RecordNotFound(shownReference(given), ALLOWED_REFERENCES)
}

/** A reference that names this record alone. */
function referenceTo({ kind, id, integrationId }: RecordRef): string {
  return kind === 'external' || kind === 'key' ? `integration:${integrationId}/${kind}:${id}` : `${kind}:${id}`
}

async function refsOf(framework: Framework, reference: Exclude<Reference, { kind: 'refused' }>, limits: Limits) {
  if (reference.kind === 'text') return matchesOf(framework, reference, limits)
  if (reference.kind === 'row') return [{ kind: reference.of, id: reference.id, integrationId: null }]
  const { of, integrationId, stream } = reference
  const { db, tables } = framework
  const { incidents, logs } = tables
  const [newest] =
    of === 'incident'
      ? await db
          .select({ id: incidents.id })
          .from(incidents)
          .where(eq(incidents.integrationId, integrationId))
          .orderBy(desc(incidents.openedAt))
          .limit(1)
      : await db
          .select({ id: logs.id })
          .from(logs)
          .where(
            and(
              eq(logs.integrationId, integrationId),
              eq(logs.operation, of),
              stream === undefined ? undefined : eq(logs.stream, stream),
            ),
          )
          .orderBy(desc(logs.id))
          .limit(1)
  return newest === undefined
    ? []
    : [{ kind: of === 'incident' ? 'incident' : 'run', id: newest.id, integrationId } as const]
}

async function explainRecord(framework: Framework, ref: RecordRef, limits: Limits): Promise<ExplainedRecord | null> {
  const life = await lifeOf(framework, ref, limits)
  if (life === null) return isRow(ref) ? goneRecord(framework, ref, limits) : null
  const { integrationId } = life.ref
  const integration = integrationId === null ? null : await visibleIntegration(framework, integrationId, limits)
  if (integrationId !== null && integration === null) return null
  const [origins, acts] = await Promise.all([
    originsOf(framework, life.origin),
    isRow(life.ref) && integrationId !== null
      ? actsOn(framework, life.ref, eq(framework.tables.audit.integrationId, integrationId))
      : [],
  ])
  return {
    outcome: 'found',
    ref: life.ref,
    reference: referenceTo(life.ref),
    integration,
    exists: true,
    status: life.status,
    origins,
    lines: inOrder([...life.lines.map((line) => ({ ...line, by: null })), ...acts.slice(0, MAX_ACTS)]),
    caused: life.caused,
    related: life.related,
    more: life.more || acts.length > MAX_ACTS,
  }
}

const isRow = (ref: RecordRef): ref is RecordRef & { readonly kind: RowKind; readonly id: number } =>
  typeof ref.id === 'number' && (ROW_KINDS as readonly string[]).includes(ref.kind)

async function lifeOf(framework: Framework, ref: RecordRef, limits: Limits): Promise<Life | null> {
  if (isRow(ref)) return lifeOfRow(framework, ref.kind, ref.id)
  const text = String(ref.id)
  if (ref.kind === 'model') return lifeOfModel(framework, text, limits)
  return (ref.kind === 'external' ? lifeOfExternal : lifeOfKey)(framework, text, ref.integrationId ?? 0)
}

/** Null also for one that the caller may not know of. */
async function visibleIntegration({ db, tables: { integrations } }: Framework, id: number, limits: Limits) {
  const { provider, name, ownerType, ownerId } = integrations
  const [row] = await db
    .select({ id: integrations.id, provider, name, ownerType, ownerId })
    .from(integrations)
    .where(eq(integrations.id, id))
  if (row === undefined || !isWithin(limits, row)) return null
  return { id: row.id, provider: row.provider, name: row.name }
}

/** All rows of a chain are of one integration: their columns name rows of their own integration only. */
async function originsOf(framework: Framework, first: Origin): Promise<Origin[]> {
  const origins = [first]
  for (let link = first.link; link !== null && isRow(link) && origins.length < MAX_ORIGINS; ) {
    const head = await headOfRow(framework, link.kind, link.id)
    if (head === null || head.ref.integrationId !== link.integrationId) break
    origins.push(head.origin)
    link = head.origin.link
  }
  return origins
}

/** How an act's target names a record of a kind. */
const targetsOf = ({ kind, id }: RecordRef): string[] =>
  kind === 'item'
    ? [`item:${id}`, `sync-item:${id}`]
    : kind === 'run'
      ? [`run:${id}`, `sync-run:${id}`]
      : [`${kind}:${id}`]

/** Newest first; one more than are shown. */
async function actsOn(
  { db, tables: { audit } }: Framework,
  ref: RecordRef,
  where: SQL | undefined,
): Promise<ExplainedLine[]> {
  const rows = await db
    .select()
    .from(audit)
    .where(and(inArray(audit.target, targetsOf(ref)), where))
    .orderBy(desc(audit.id))
    .limit(MAX_ACTS + 1)
  return rows.map(({ createdAt, by, action, from, detail }) => ({
    at: createdAt,
    text: `${action}${detail === null ? '' : `: ${detail}`}${from === null ? '' : ` (from ${from})`}`,
    link: null,
    by,
  }))
}

/** A record whose row is deleted, as far as acts on it are known. An act holds whose it was at its time. */
async function goneRecord(
  framework: Framework,
  ref: RecordRef,
  { provider, owner }: Limits,
): Promise<ExplainedRecord | null> {
  const { audit } = framework.tables
  const within = and(
    provider === undefined ? undefined : eq(audit.provider, provider),
    owner === undefined ? undefined : and(eq(audit.ownerType, owner.type), eq(audit.ownerId, owner.id)),
  )
  const acts = await actsOn(framework, ref, within)
  if (acts.length === 0) return null
  return {
    outcome: 'found',
    ref,
    reference: referenceTo(ref),
    integration: null,
    exists: false,
    status: null,
    origins: [],
    lines: inOrder(acts.slice(0, MAX_ACTS)),
    caused: [],
    related: [],
    more: acts.length > MAX_ACTS,
  }
}

/** Oldest first; lines of one moment stay as they are. */
function inOrder(lines: readonly ExplainedLine[]): ExplainedLine[] {
  return [...lines].sort((a, b) => a.at.getTime() - b.at.getTime())
}
