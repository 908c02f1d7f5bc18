/** What a reference to a record may look like. Rule: docs/behaviour/explain.md, "References". */
import { isId } from '../framework/id.ts'

/** Kinds of records that are rows of ours, by their number. */
export const ROW_KINDS = [
  'integration',
  'webhook',
  'item',
  'run',
  'request',
  'log',
  'incident',
  'event',
  'mapping',
] as const
export type RowKind = (typeof ROW_KINDS)[number]

/** Kinds that have a text for an id, in the order in which a bare text is looked up. */
export const TEXT_KINDS = ['model', 'delivery', 'external', 'provider-request', 'key'] as const
export type TextKind = (typeof TEXT_KINDS)[number]

export type Reference =
  | { readonly kind: 'row'; readonly of: RowKind; readonly id: number }
  /** What an integration's workflow is at: its newest run, or its open incident. */
  | {
      readonly kind: 'newest'
      readonly of: 'sync' | 'backfill' | 'incident'
      readonly integrationId: number
      /** Only of this stream. */
      readonly stream?: string
    }
  | {
      readonly kind: 'text'
      readonly text: string
      readonly of: readonly TextKind[]
      /** Null: any. */
      readonly integrationId: number | null
    }
  | { readonly kind: 'refused'; readonly why: string }

/** An external id has at most 500 characters, and `integration:…/external:` may stand before it. */
export const MAX_REFERENCE_LENGTH = 600

export const ALLOWED_REFERENCES =
  'webhook:4711, item:…, run:…, request:…, log:…, incident:…, event:… (or evt_…), mapping:…, integration:…, ' +
  'model:<type>:<id> (or <type>:<id>), delivery:…, external:…, provider-request:…, key:…, ' +
  'the id of a workflow, or a bare text: a delivery id, an external id, a provider’s request id or an idempotency key. ' +
  'integration:7/ before a text looks in that integration only'

const ROWS: ReadonlyMap<string, RowKind> = new Map([
  ...ROW_KINDS.map((kind) => [kind, kind] as const),
  ['sync_item', 'item'],
  ['sync-run', 'run'],
])

/** By the word in a workflow's id (workflows/ids.ts), what the number after it is of. */
const WORKFLOWS: ReadonlyMap<string, RowKind | 'sync' | 'backfill' | 'open-incident'> = new Map([
  ['sync', 'sync'],
  ['backfill', 'backfill'],
  ['sync-item', 'item'],
  ['webhook', 'webhook'],
  ['webhook-handler', 'webhook'],
  ['refresh-tokens', 'integration'],
  ['incident', 'open-incident'],
])

/** @param prefix config `cache_prefix`, with which the ids of workflows begin */
export function parseReference(given: unknown, prefix: string): Reference {
  if (typeof given !== 'string')
    return refused(`a text is allowed, ${given === null ? 'null' : typeof given} was given`)
  const text = given.trim()
  if (text === '') return refused('it is empty')
  if (text.length > MAX_REFERENCE_LENGTH)
    return refused(`at most ${MAX_REFERENCE_LENGTH} characters are allowed, ${text.length} were given`)
  // Postgres text holds neither.
  if (text.includes('\u0000') || /\p{Cs}/u.test(text))
    return refused('U+0000 and halves of surrogate pairs are not allowed')
  const workflow = text.startsWith(`${prefix}:`) ? workflowOf(text.slice(prefix.length + 1), true) : null
  return workflow ?? rowReference(text) ?? workflowOf(text, false) ?? exactOf(given.trimStart()) ?? textOf(text)
}

/** As `explain` itself writes an external id or a key. Both may end in a blank. */
function exactOf(text: string): Reference | null {
  if (text.length > MAX_REFERENCE_LENGTH) return null
  const found = /^integration:(?<digits>[0-9]{1,16})\/(?<kind>external|key):(?<id>.+)/s.exec(text)?.groups as
    | { digits: string; kind: TextKind; id: string }
    | undefined
  if (found === undefined || !isId(Number(found.digits))) return null
  return { kind: 'text', text: found.id, of: [found.kind], integrationId: Number(found.digits) }
}

function rowReference(text: string): Reference | null {
  const [, word = '', digits = ''] = /^(?:([a-z_-]+):|(?=evt_))(?:evt_)?([0-9]{1,16})$/.exec(text) ?? []
  const of = text.startsWith('evt_') ? 'event' : ROWS.get(word)
  return of !== undefined && isId(Number(digits)) ? { kind: 'row', of, id: Number(digits) } : null
}

/** @param isWhole with the prefix: then `incident:7` is the workflow of integration 7, not the incident 7 */
function workflowOf(text: string, isWhole: boolean): Reference | null {
  const [, word = '', digits = '', rest = ''] = /^([a-z-]+):([0-9]{1,16})(?::([A-Za-z0-9_-]{1,60}))?$/.exec(text) ?? []
  const of = WORKFLOWS.get(word)
  const id = Number(digits)
  if (of === undefined || !isId(id)) return null
  if (of === 'sync' || of === 'backfill')
    return /^[0-9_-]/.test(rest) ? null : { kind: 'newest', of, integrationId: id, ...(rest && { stream: rest }) }
  // The attempt that a replay began with.
  if (!/^[0-9]{0,5}$/.test(rest)) return null
  if (of === 'open-incident') return isWhole ? { kind: 'newest', of: 'incident', integrationId: id } : null
  return { kind: 'row', of, id }
}

function textOf(text: string): Extract<Reference, { kind: 'text' }> {
  const found = /^integration:(?<digits>[0-9]{1,16})\/(?<rest>.+)/s.exec(text)?.groups as
    | { digits: string; rest: string }
    | undefined
  if (found !== undefined && isId(Number(found.digits)))
    return { ...textOf(found.rest), integrationId: Number(found.digits) }
  for (const kind of TEXT_KINDS)
    if (text.startsWith(`${kind}:`) && text.length > kind.length + 1)
      return { kind: 'text', text: text.slice(kind.length + 1), of: [kind], integrationId: null }
  return { kind: 'text', text, of: TEXT_KINDS, integrationId: null }
}

/** `issue:17` as a host's row; null: it has no colon, or nothing on one side of it. */
export function modelIn(text: string): { readonly type: string; readonly id: string } | null {
  const at = text.indexOf(':')
  if (at < 1 || at === text.length - 1) return null
  return { type: text.slice(0, at), id: text.slice(at + 1) }
}

/** What was given, for a message: on one line, and not too long. */
export function shownReference(given: unknown): string {
  const text = String(given)
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text).replaceAll(
    /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g,
    '\ufffd',
  )
}

function refused(why: string): Reference {
  return { kind: 'refused', why }
}
