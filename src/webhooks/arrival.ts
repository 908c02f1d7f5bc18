/**
 * What happens to a delivery before it is answered, in this order: method, provider, integration, body size, handshake,
 * signature, ids, one row, `WebhookReceived`, wake-up.
 *
 * Rule: docs/behaviour/webhooks.md, "Arrival".
 */
import { createHash } from 'node:crypto'
import { SpanKind } from '@opentelemetry/api'
import { integrationKey } from '../cache/integration-keys.ts'
import { headersWithoutSecrets } from '../credentials/integration-secrets.ts'
import { despiteDeadlocks } from '../db/client.ts'
import type { Framework } from '../framework/context.ts'
import { JoiningQueue } from '../framework/joiner.ts'
import { errorLine, givenNowMs } from '../framework/logger.ts'
import { RepeatedWarnings } from '../framework/repeated-warnings.ts'
import { thrownTexts } from '../framework/thrown.ts'
import type { ReceivedOutcome } from '../observability/metrics.ts'
import { UNKNOWN_PROVIDER } from '../observability/metrics.ts'
import { identityAttributes, inSpan, traceparentOf } from '../observability/spans.ts'
import type { HandlesWebhooks } from '../providers/contracts.ts'
import { handlesWebhooks } from '../providers/contracts.ts'
import type { Integration } from '../providers/integration.ts'
import type { RefusalReason } from '../providers/signatures/scheme-rules.ts'
import type { SentAnswer } from '../providers/webhook-door.ts'
import { doorMethods, mayDeliver } from '../providers/webhook-door.ts'
import type { WebhookRequest } from '../providers/webhook-request.ts'
import { deliveryIdOf, webhookRequest } from '../providers/webhook-request.ts'
import { constantAnswer, handshakeAnswer } from './answers.ts'
import type { NewDelivery, OwnedDelivery, StoredDelivery } from './arrival-queries.ts'
import { ANY_VERSION, isOrderedDelivery, storeDeliveries } from './arrival-queries.ts'
import type { Ordering } from './order.ts'
import { orderingOf } from './order.ts'
import type { WebhookOwners } from './owners.ts'
import { KnownOwners, MAX_CANDIDATES } from './owners.ts'
import type { NewPart } from './parts.ts'
import { partRequest, partsOf } from './parts.ts'
import { eventType, storeDelivery } from './rules.ts'
import { SecretNotes } from './secrets.ts'
import { staleGuardOf } from './stale-guard.ts'
import { ownerAmong, VerificationCredit } from './verification.ts'
import { WebhookVerifier } from './verifier.ts'
import { wants } from './wanted.ts'

/** A delivery as the door sees it. */
export interface Delivery {
  readonly provider: string
  /** Null on the provider's generic route. */
  readonly integrationId: number | null
  readonly method: string
  readonly path: string
  /** Raw, without the question mark. */
  readonly query: string
  readonly headers: Headers
  /** Lower-case names and values as they were sent, repeats apart; `headers` joins those. Default: the joined ones. */
  readonly rawHeaders?: Iterable<readonly [string, string]>
  /** Reads `maxBytes` at most, and takes room for the bytes of a large body as they arrive. */
  readBody(
    maxBytes: number,
    room: { take(bytes: number): boolean },
  ): Promise<{ kind: 'read'; bytes: Uint8Array } | { kind: 'too large' } | { kind: 'too slow' } | { kind: 'no room' }>
}

/** Result of an arrival. The HTTP route maps each kind to a status code. */
export type Arrival =
  | ({ readonly kind: 'queued'; readonly webhookId: number } & Accepted)
  | ({ readonly kind: 'duplicate' } & Accepted)
  /** Nothing of it is wanted, or it brought no event: nothing is stored. */
  | ({ readonly kind: 'unwanted' } & Accepted)
  | { readonly kind: 'handshake'; readonly answer: SentAnswer }
  | { readonly kind: 'method not allowed'; readonly allowed: readonly string[] }
  | { readonly kind: 'unknown provider' }
  | { readonly kind: 'no webhooks' }
  | { readonly kind: 'unknown integration' }
  | { readonly kind: 'too large'; readonly maxBytes: number }
  | { readonly kind: 'too slow' }
  | { readonly kind: 'bad signature'; readonly answer?: SentAnswer | undefined }
  /** `isUnread`: the sender may not have sent all of it yet. */
  | { readonly kind: 'unavailable'; readonly isUnread?: true }

export interface Accepted {
  readonly answer?: SentAnswer | undefined
  /** Of a delivery that brings several events. */
  readonly parts?: ArrivedParts | undefined
}

export interface ArrivedParts {
  /** Ids of the webhooks. */
  readonly stored: readonly number[]
  readonly duplicates: number
  readonly unwanted: number
}

/** While one statement waits for the disk, the next one is prepared. Of each of the two queues. */
const STATEMENTS_AT_ONCE = 2
/** Tries to verify a delivery whose owner changes while it is stored. */
const TRIES = 3

/** Of the bodies that a process holds until they are answered, four of the largest or this: no signature has been checked yet. */
const MAX_HELD_BYTES = 256 * 1_048_576

/** What the deliveries of a process share. */
interface Desk {
  readonly owners: KnownOwners
  readonly rows: JoiningQueue<OwnedDelivery, StoredDelivery | 'changed'>
  /** With ordering keys: their statements wait for locks of the keys, and no other delivery waits with them. */
  readonly orderedRows: JoiningQueue<OwnedDelivery, StoredDelivery | 'changed'>
  readonly warnings: RepeatedWarnings
  readonly credit: VerificationCredit
  readonly verifier: WebhookVerifier
  readonly secretNotes: SecretNotes
  /** Of all bodies that are being read or stored. */
  heldBytes: number
}

/** As the metric names them. */
const OUTCOMES: Readonly<Record<Exclude<Arrival['kind'], 'method not allowed'>, ReceivedOutcome>> = {
  queued: 'queued',
  duplicate: 'duplicate',
  unwanted: 'unwanted',
  handshake: 'handshake',
  'bad signature': 'bad_signature',
  'too large': 'too_large',
  'too slow': 'too_slow',
  'unknown provider': 'unknown_provider',
  'no webhooks': 'no_webhooks',
  'unknown integration': 'unknown_integration',
  unavailable: 'unavailable',
}
/** Here the integration that the URL names may not exist. A stranger's word is no label. */
const UNPROVEN: readonly Arrival['kind'][] = ['unknown provider', 'no webhooks', 'unknown integration', 'unavailable']

/** Takes a delivery in, and counts its result in the metrics. Rule: docs/behaviour/metrics.md, "Webhooks". */
export async function receiveDelivery(framework: Framework, delivery: Delivery): Promise<Arrival> {
  const arrival = await arrivalOf(framework, delivery)
  const { kind } = arrival
  // It brought no delivery.
  if (kind === 'method not allowed') return arrival
  const of = {
    provider: kind === 'unknown provider' ? UNKNOWN_PROVIDER : delivery.provider,
    id: UNPROVEN.includes(kind) ? null : delivery.integrationId,
  }
  if (!('parts' in arrival) || arrival.parts === undefined) framework.metrics.webhookReceived(of, OUTCOMES[kind])
  else {
    const { stored, duplicates, unwanted } = arrival.parts
    for (const [outcome, count] of Object.entries({ queued: stored.length, duplicate: duplicates, unwanted }))
      if (count > 0) framework.metrics.webhookReceived(of, outcome as ReceivedOutcome, count)
  }
  return arrival
}

async function arrivalOf(framework: Framework, delivery: Delivery): Promise<Arrival> {
  const provider = framework.providers.find(delivery.provider)
  const takes = provider !== null && handlesWebhooks(provider) ? provider : null
  // Only a provider that takes deliveries has a door with methods of its own.
  const allowed: readonly string[] = doorMethods(takes?.webhookDoor ?? {})
  if (!allowed.includes(delivery.method)) return { kind: 'method not allowed', allowed }
  if (takes === null) return { kind: provider === null ? 'unknown provider' : 'no webhooks' }
  const desk = deskOf(framework)
  const most = Math.max(MAX_HELD_BYTES, 4 * framework.config.webhook.max_payload_bytes)
  let held = 0
  const room = {
    take(bytes: number): boolean {
      if (desk.heldBytes + bytes > most) return false
      desk.heldBytes += bytes
      held += bytes
      return true
    },
  }
  try {
    return await receive(framework, takes, delivery, room)
  } catch (error) {
    return notStored(framework, delivery, error)
  } finally {
    desk.heldBytes -= held
  }
}

/** Postgres: `lock_not_available`. */
const LOCKED = '55P03'

/**
 * Nothing was answered 2xx, so the provider sends it again.
 *
 * @param row as it was to be stored, of a delivery whose signature was verified: the log repeats nothing of a stranger
 */
function notStored(
  framework: Framework,
  { provider, integrationId }: Delivery,
  error: unknown,
  of?: { readonly integration: Integration; readonly row: NewDelivery },
): Arrival {
  const isLocked = error instanceof Error && 'code' in error && error.code === LOCKED
  framework.logger.error(
    {
      event: 'webhook.not_stored',
      provider,
      integration: of?.integration.id ?? integrationId ?? undefined,
      delivery: of?.row.deliveryId,
      type: of?.row.eventType,
      error: errorLine(error, 500),
    },
    isLocked
      ? 'a delivery could not be stored: another session of Postgres holds a lock that it needs'
      : 'a delivery could not be stored',
  )
  return { kind: 'unavailable' }
}

async function receive(
  framework: Framework,
  provider: HandlesWebhooks,
  delivery: Delivery,
  room: Parameters<Delivery['readBody']>[1],
): Promise<Arrival> {
  const arrivedAt = performance.now()
  const desk = deskOf(framework)
  const { owners, warnings, credit } = desk
  const found = owners.find(delivery)
  // Known owners are not awaited: an await costs a turn of the event loop, which is most of a delivery's cost under load.
  let candidates = found instanceof Promise ? await found : found
  const first = candidates.owners[0]
  if (first === undefined) return unknownIntegration(framework, delivery, candidates)
  if (!candidates.areAll)
    warnings.warn(
      `candidates ${delivery.provider}`,
      () => ({ event: 'webhook.many_candidates', provider: delivery.provider, asked: MAX_CANDIDATES }),
      'many integrations share the generic webhook route; use the route with the id',
    )

  // The route with an id has one candidate, and costs what that one costs.
  if (candidates.owners.length > 1 && credit.isSpent()) return busy(framework, delivery)

  const { max_payload_bytes: maxBytes, timestamp_tolerance: toleranceSeconds } = framework.config.webhook
  // A sender that hangs up in the middle reads no answer. That is no fault of ours.
  const body = await delivery.readBody(maxBytes, room).catch(() => ({ kind: 'too slow' }) as const)
  if (body.kind === 'too large') return { kind: 'too large', maxBytes }
  if (body.kind === 'too slow') return body
  if (body.kind === 'no room') return noRoom(framework)
  const request = webhookRequest({
    method: delivery.method,
    path: delivery.path,
    query: delivery.query,
    headers: delivery.headers,
    rawBody: body.bytes,
    receivedAt: framework.clock.now(),
    toleranceSeconds,
  })

  const badSignature = (among: WebhookOwners): Arrival => ({
    kind: 'bad signature',
    answer: constantAnswer(warnings, provider, 'badSignature', integrationsOf(among)),
  })
  // The answer where a handshake has thrown: to anything but a signed delivery, which is taken all the same.
  let unshaken: Arrival | null = null
  if (provider.webhookDoor?.handshake !== undefined || provider.answerWebhookChallenge !== undefined) {
    const isOwnRoute = delivery.integrationId !== null
    const readAgain = () => owners.readAfter(delivery, arrivedAt)
    const { integration } = first
    const shaken = { integration, request, isOwnRoute, readAgain, warnings }
    const answer = await handshakeAnswer(framework, provider, shaken)
    if (answer === 'refused') return badSignature(candidates)
    if (answer !== null && 'threw' in answer) unshaken = handshakeFailed(framework, delivery, answer.threw)
    else if (answer !== null) return { kind: 'handshake', answer }
  }
  if (!mayDeliver(delivery.method))
    return unshaken ?? { kind: 'method not allowed', allowed: doorMethods(provider.webhookDoor ?? {}) }

  let row: NewDelivery | undefined
  for (let tries = 1; ; tries += 1) {
    let verdict = await ownerAmong(desk, provider, candidates, request)
    if (verdict.kind !== 'verified' && candidates.readAt < arrivedAt) {
      // A secret may have been added since the read: an old read refuses no delivery.
      const known = candidates
      candidates = await owners.readAfter(delivery, arrivedAt)
      if (candidates.owners.length === 0) return unknownIntegration(framework, delivery, candidates)
      if (!isSame(known, candidates)) verdict = await ownerAmong(desk, provider, candidates, request)
    }
    if (verdict.kind === 'busy') return busy(framework, delivery)
    if (verdict.kind === 'bad signature') {
      if (unshaken !== null) return unshaken
      // Among several it is not known whose it was.
      const [sole, ...others] = integrationsOf(candidates)
      const integration = others.length === 0 ? sole : undefined
      noteRefusal(framework, delivery, { integrationId: integration?.id ?? null, reason: verdict.reason })
      if (integration !== undefined) desk.secretNotes.refused(integration, verdict.reason)
      return badSignature(candidates)
    }
    if (verdict.kind !== 'verified') return verdict
    const { integration, version } = verdict.owner
    if (verdict.formerSecret !== null) desk.secretNotes.former(integration, verdict.formerSecret)
    row ??= rowOf(framework, provider, delivery, request)
    const wanted = wantedOf(framework, provider, { integration, request, row })
    if (wanted === null) return unwanted(framework, provider, integration, row)
    const owned: OwnedDelivery = {
      ...wanted,
      headers: headersWithoutSecrets(row.headers, integration),
      ...signedKeyOf(framework, provider, integration, request),
      // A row that changes all the time, for other reasons: what was read a moment ago will do, while it accepts deliveries.
      owner: { integrationId: integration.id, version: tries < TRIES ? version : ANY_VERSION },
    }
    const bytes = (owned.parts ?? []).reduce((sum, { payload }) => sum + payload.length, owned.payload.length)
    const rows = isOrderedDelivery(owned) ? desk.orderedRows : desk.rows
    let stored: StoredDelivery | 'changed'
    try {
      stored = await inStoreSpan(integration, (traced) => rows.add({ ...owned, ...traced }, bytes))
    } catch (error) {
      return notStored(framework, delivery, error, { integration, row })
    }
    if (stored !== 'changed') return arrived(framework, provider, integration, { row, wanted, stored })
    // The last try asks for no version, so it goes by what is read now.
    candidates =
      tries + 1 < TRIES
        ? await owners.readInPlaceOf(delivery, candidates)
        : await owners.readAfter(delivery, performance.now())
    if (candidates.owners.length === 0) return unknownIntegration(framework, delivery, candidates)
  }
}

/**
 * The row carries the trace of its request, so that its processing is a part of that trace, in any worker and at any time.
 *
 * @param store gets the trace that the row carries; nothing where tracing is off
 */
function inStoreSpan(
  integration: Integration,
  store: (traced: Pick<OwnedDelivery, 'traceparent'>) => Promise<StoredDelivery | 'changed'>,
): Promise<StoredDelivery | 'changed'> {
  const start = () => ({
    name: 'webhook store',
    kind: SpanKind.INTERNAL,
    attributes: identityAttributes(integration),
  })
  return inSpan(start, async (span) => {
    const traceparent = traceparentOf(span.spanContext())
    const stored = await store(traceparent === null ? {} : { traceparent })
    if (typeof stored === 'string') span.setAttribute('webhook.outcome', stored)
    else if ('id' in stored) span.setAttribute('webhook.id', stored.id)
    else span.setAttribute('webhook.parts', stored.parts.length)
    return stored
  })
}

/** What was asked to be stored, and what was. */
interface Stored {
  readonly row: NewDelivery
  /** The same without the parts that are not wanted. */
  readonly wanted: NewDelivery
  readonly stored: StoredDelivery
}

/** The rows are committed: emits the events and wakes the inbox, and awaits neither. */
function arrived(
  framework: Framework,
  handles: HandlesWebhooks,
  integration: Integration,
  { row, wanted, stored }: Stored,
): Arrival {
  const { id, provider } = integration
  const emit = (webhookId: number, { deliveryId, eventType: type }: Pick<NewDelivery, 'deliveryId' | 'eventType'>) =>
    void framework.listeners.emit('WebhookReceived', { integration, provider, webhookId, deliveryId, eventType: type })
  const parts = row.parts === undefined ? undefined : partsThatArrived(row.parts, wanted.parts ?? [], stored)
  if (stored !== 'duplicate') {
    const fields = { integration: id, provider, delivery: row.deliveryId }
    if ('id' in stored) {
      framework.logger.info(
        { event: 'webhook.stored', ...fields, webhook: stored.id, type: row.eventType },
        'webhook stored',
      )
      emit(stored.id, row)
    } else {
      framework.logger.info(
        { event: 'webhook.parts_stored', ...fields, webhooks: parts?.stored.length, parts: row.parts?.length },
        'the events of a delivery stored, a webhook each',
      )
      for (const [index, part] of (wanted.parts ?? []).entries()) {
        const webhookId = stored.parts[index]
        if (webhookId != null) emit(webhookId, part)
      }
    }
  }
  // Of a duplicate, too: a repeat may be the provider's answer to a wake-up that failed.
  framework.workflows.wakeInbox()
  const { warnings } = deskOf(framework)
  const answer = constantAnswer(warnings, handles, stored === 'duplicate' ? 'duplicate' : 'accepted', [integration])
  if (stored === 'duplicate') return { kind: 'duplicate', answer, parts }
  return { kind: 'queued', webhookId: 'id' in stored ? stored.id : (parts?.stored[0] as number), answer, parts }
}

function partsThatArrived(all: readonly NewPart[], wanted: readonly NewPart[], stored: StoredDelivery): ArrivedParts {
  const ids = typeof stored === 'object' && 'parts' in stored ? stored.parts.filter((id) => id !== null) : []
  return { stored: ids, duplicates: wanted.length - ids.length, unwanted: all.length - wanted.length }
}

function unwanted(
  framework: Framework,
  handles: HandlesWebhooks,
  integration: Integration,
  { parts }: NewDelivery,
): Arrival {
  const answer = constantAnswer(deskOf(framework).warnings, handles, 'accepted', [integration])
  // A delivery without an event counts as one.
  const count = parts?.length ?? 0
  return { kind: 'unwanted', answer, parts: count === 0 ? undefined : { stored: [], duplicates: 0, unwanted: count } }
}

function rowOf(
  framework: Framework,
  provider: HandlesWebhooks,
  delivery: Delivery,
  request: WebhookRequest,
): NewDelivery {
  const type = eventType(textOrNull(lenient(framework, () => provider.resolveWebhookEvent?.(request))))
  const deliveryId = deliveryIdOf(request, textOrNull(lenient(framework, () => provider.webhookDeliveryId?.(request))))
  const stored = storeDelivery({
    method: delivery.method,
    query: delivery.query,
    headers: delivery.rawHeaders ?? delivery.headers,
    rawBody: request.rawBody,
  })
  const row = { deliveryId, eventType: type, payload: stored.payload, headers: stored.headers }
  const parts = lenient(framework, () => partsOf(provider, request, deliveryId)) as NewPart[] | null
  const ordering = (of: WebhookRequest, ofType: string | null): { readonly ordering?: Ordering } => {
    const given = orderingOf(lenient(framework, () => provider.orderingKey?.(of)))
    if (given === null) return {}
    // The newest arrival need not be the newest version: of those that wait the guard finds it.
    const coalesces = given.coalesces && lenient(framework, () => staleGuardOf(provider, ofType)) == null
    return { ordering: { ...given, coalesces } }
  }
  if (provider.orderingKey === undefined) return parts === null ? row : { ...row, parts }
  if (parts === null) return { ...row, ...ordering(request, type) }
  return { ...row, parts: parts.map((part) => ({ ...part, ...ordering(partRequest(request, part), part.eventType) })) }
}

/** The delivery with what is wanted of it; null: nothing is. */
function wantedOf(
  framework: Framework,
  provider: HandlesWebhooks,
  { integration, request, row }: { integration: Integration; request: WebhookRequest; row: NewDelivery },
): NewDelivery | null {
  const { parts } = row
  // Asked in doubt: what cannot be judged is stored.
  const isWanted = (type: string | null, ask: () => WebhookRequest): boolean =>
    lenient(framework, () => wants(provider, integration, type, ask)) !== false
  if (parts === undefined) return isWanted(row.eventType, () => request) ? row : null
  const wanted = parts.filter((part) => isWanted(part.eventType, () => partRequest(request, part)))
  return wanted.length === 0 ? null : { ...row, parts: wanted, partsBrought: parts.length }
}

/** Cache key that detects the same signed bytes sent again under another, unsigned delivery id. */
function signedKeyOf(
  framework: Framework,
  provider: HandlesWebhooks,
  integration: Integration,
  request: WebhookRequest,
): Pick<NewDelivery, 'signedKey'> | null {
  const { config } = framework
  if (provider.deliveryIdSigned !== false || config.webhook.replay_window === 0) return null
  // It holds nothing unsigned, such as the event type of a header: the sender of a repeat could change that.
  const signed = lenient(framework, () => deskOf(framework).verifier.signedBytes(provider, integration, request))
  const isBytes = typeof signed === 'string' || signed instanceof Uint8Array
  const digest = createHash('sha256')
    .update(isBytes ? signed : request.rawBody)
    .digest('hex')
  return { signedKey: `${config.cache_prefix}:${integrationKey(integration.id, `webhook-signed:${digest}`)}` }
}

/** The sender tries again, when there is time again. */
function busy(framework: Framework, { provider }: Delivery): Arrival {
  deskOf(framework).warnings.warn(
    `busy ${provider}`,
    () => ({ event: 'webhook.generic_route_busy', provider }),
    'forged deliveries keep the generic webhook routes busy; deliveries there are told to come again',
  )
  return { kind: 'unavailable' }
}

function noRoom(framework: Framework): Arrival {
  deskOf(framework).warnings.warn(
    'no room',
    () => ({ event: 'webhook.no_room', held_bytes: deskOf(framework).heldBytes }),
    'this process holds as many bytes of deliveries as it may; deliveries are told to come again',
  )
  return { kind: 'unavailable', isUnread: true }
}

/** Logs nothing of what was sent: the sender is unknown. */
function handshakeFailed(framework: Framework, { provider, integrationId }: Delivery, error: string): Arrival {
  deskOf(framework).warnings.warn(
    `handshake ${integrationId ?? provider}`,
    () => ({ event: 'webhook.handshake_failed', provider, integration: integrationId, error }),
    'handshake() or answerWebhookChallenge() of a provider threw',
  )
  return { kind: 'unavailable' }
}

/** Logs nothing of what was sent: the sender is unknown. */
function noteRefusal(
  framework: Framework,
  { provider }: Delivery,
  { integrationId, reason }: { readonly integrationId: number | null; readonly reason: RefusalReason },
): void {
  deskOf(framework).warnings.warn(
    // Not by the reason: a forger chooses it.
    `refused ${integrationId ?? provider}`,
    () => ({ event: 'webhook.refused', provider, integration: integrationId }),
    'deliveries were refused: their signature is missing or does not match',
    reason,
  )
}

/** A provider may give up an address that answers 404, so the log says which integration it is. */
function unknownIntegration(
  framework: Framework,
  { provider, integrationId }: Delivery,
  { isSwitchedOff }: WebhookOwners,
): Arrival {
  if (isSwitchedOff)
    deskOf(framework).warnings.warn(
      `switched off ${integrationId}`,
      () => ({ event: 'webhook.switched_off', provider, integration: integrationId }),
      'deliveries were answered 404: their integration is switched off',
    )
  return { kind: 'unknown integration' }
}

/** A verified delivery is never lost to a provider's reading of it: a throw counts as none. */
function lenient(framework: Framework, read: () => unknown): unknown {
  try {
    return read()
  } catch (error) {
    // Its message may quote what was sent.
    deskOf(framework).warnings.warn(
      'unread',
      () => ({ event: 'webhook.unread', error: thrownTexts(error).name ?? typeof error }),
      'a provider could not read a delivery; counts as none',
    )
    return null
  }
}

const integrationsOf = ({ owners }: WebhookOwners): Integration[] => owners.map(({ integration }) => integration)

const textOrNull = (value: unknown): string | null => (typeof value === 'string' ? value : null)

function isSame({ owners: a }: WebhookOwners, { owners: b }: WebhookOwners): boolean {
  return (
    a.length === b.length &&
    a.every(({ version, integration }, at) => version === b[at]?.version && integration.id === b[at]?.integration.id)
  )
}

const DESKS = new WeakMap<Framework, Desk>()

/** Made with the first delivery. A framework has one, so that its deliveries share statements. */
function deskOf(framework: Framework): Desk {
  const existing = DESKS.get(framework)
  if (existing !== undefined) return existing
  const { arrivalDb, tables, config, listeners, logger, clock } = framework
  const queue = (): Desk['rows'] =>
    new JoiningQueue(
      (deliveries) =>
        despiteDeadlocks(() =>
          storeDeliveries(arrivalDb, tables, deliveries, {
            replayWindowSeconds: config.webhook.replay_window,
            nowMs: givenNowMs(framework),
            recordsEvents: listeners.isDurable('WebhookReceived'),
          }),
        ),
      { atOnce: STATEMENTS_AT_ONCE, gathers: true },
    )
  const desk: Desk = {
    owners: new KnownOwners(framework),
    rows: queue(),
    orderedRows: queue(),
    warnings: new RepeatedWarnings(logger, clock),
    credit: new VerificationCredit(),
    verifier: new WebhookVerifier(framework),
    secretNotes: new SecretNotes(framework),
    heldBytes: 0,
  }
  DESKS.set(framework, desk)
  return desk
}
