/**
 * What a provider's webhook door takes and answers. Every answer goes to a stranger, so its status, headers and body are bounded here.
 *
 * Rule: docs/behaviour/webhook-answers.md.
 */
import type { Json } from '../framework/json.ts'
import { isJsonText } from '../framework/json.ts'
import type { HandlesWebhooks, Maybe } from './contracts.ts'
import type { Integration } from './integration.ts'
import type { WebhookRequest } from './webhook-request.ts'

export const DOOR_METHODS = ['GET', 'POST', 'HEAD', 'OPTIONS', 'PUT', 'PATCH', 'DELETE'] as const
export type DoorMethod = (typeof DOOR_METHODS)[number]
const DEFAULT_METHODS: readonly DoorMethod[] = ['GET', 'POST']
/** These ask about the door and bring nothing: only a handshake answers them. */
const ASKING: readonly string[] = ['HEAD', 'OPTIONS']

/** One body at most; without one the answer is empty. */
export interface DoorAnswer {
  /** Default: 200, of `badSignature` 403. */
  readonly status?: number
  /** Names begin with `x-` or `webhook-`, or are `allow`. At most 8. */
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as `text/plain`: printable ASCII without `<` and `>`. */
  readonly text?: string
  /** Sent as `application/json`. */
  readonly json?: Json
  /** Sent as `text/xml`. A constant: nothing of a request belongs into it. */
  readonly xml?: string
}

/** An answer that is made from the request, so never XML. */
export interface HandshakeAnswer extends Omit<DoorAnswer, 'xml'> {
  /**
   * The secret that the provider signs with from now on. It is stored only while the host expects it (`webhooks.expectHandshake()`),
   * and on the integration's own route; else the answer is that to a bad signature.
   */
  readonly storeSecret?: string
}

/** What `answerWebhookChallenge()` answers. It has the bounds of a {@link HandshakeAnswer}. */
export interface ChallengeAnswer {
  readonly status: number
  readonly contentType: 'text/plain' | 'application/json'
  /** As JSON it is sent as it is, but for `<`, `>` and `&`: those are written as escapes. */
  readonly body: string
}

/** What a provider's door takes and answers, as far as it is not the default. */
export interface WebhookDoor {
  /** Default: GET and POST. HEAD and OPTIONS are answered by `handshake()` or not at all. */
  readonly methods?: readonly DoorMethod[]
  /**
   * Answers what is no delivery, before the signature is looked at; null: an ordinary delivery. On the generic route the integration
   * is the one with the lowest id.
   */
  handshake?(integration: Integration, request: WebhookRequest): Maybe<HandshakeAnswer | null>
  /** For a delivery that is stored, or not wanted. Default: 200 and JSON. */
  readonly accepted?: DoorAnswer
  /** For a repeat. Default: as `accepted`. */
  readonly duplicate?: DoorAnswer
  /** Default: 403 and JSON. */
  readonly badSignature?: DoorAnswer
}

/** An answer as it is sent. */
export interface SentAnswer {
  readonly status: number
  readonly headers: readonly (readonly [name: string, value: string])[]
  /** Null: there is no body. */
  readonly contentType: string | null
  readonly body: string
}

const MAX_BODY_BYTES = 4_096
const MAX_HEADERS = 8
const MAX_HEADER_LENGTH = 1_024
/** What a server or a proxy before us acts on is no provider's to set. */
const HEADER_NAME =
  /^(?:allow|(?:x|webhook)-(?!accel-|sendfile|lighttpd-|content-type-options|frame-|forwarded-|xss-)[a-z0-9-]{1,60})$/
/** RFC 9110, section 5.5, without what is no ASCII and without what begins a tag. */
const HEADER_VALUE = /^(?!\s)[\x20-\x3b\x3d\x3f-\x7e]*(?<!\s)$/
/** Printable, and never markup, whatever a browser takes it for. */
const TEXT = /^[\x20-\x3b\x3d\x3f-\x7e\n]*$/

const STATUSES = {
  accepted: { least: 200, most: 299, default: 200 },
  duplicate: { least: 200, most: 299, default: 200 },
  badSignature: { least: 400, most: 499, default: 403 },
  // It may refuse, too.
  handshake: { least: 200, most: 499, default: 200 },
} as const
export type DoorAnswerKind = keyof typeof STATUSES

export function doorMethods({ methods = DEFAULT_METHODS }: WebhookDoor): readonly DoorMethod[] {
  return methods
}

/** Whether a request of this method can be a delivery. */
export const mayDeliver = (method: string): boolean => !ASKING.includes(method)

/** The answer as it is sent, or what is wrong with it. No message quotes it: it may hold what a stranger sent. */
export function sentAnswer(kind: DoorAnswerKind, answer: DoorAnswer): SentAnswer | { readonly fault: string } {
  const { least, most, default: usual } = STATUSES[kind]
  const { status = usual, headers = {}, text, json, xml } = answer
  const isRedirect = status >= 300 && status < 400
  if (!Number.isInteger(status) || status < least || status > most || isRedirect)
    return {
      fault: `its status must be a whole number from ${least} to ${most}${kind === 'handshake' ? ', no 3xx' : ''}`,
    }
  const named = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value] as const)
  if (named.length > MAX_HEADERS) return { fault: `${MAX_HEADERS} headers are allowed, it has ${named.length}` }
  for (const [name, value] of named) {
    if (!HEADER_NAME.test(name)) return { fault: 'a header must be `allow`, or begin with `x-` or `webhook-`' }
    if (typeof value !== 'string' || value.length > MAX_HEADER_LENGTH || !HEADER_VALUE.test(value))
      return { fault: `a header's value is printable ASCII without < and >, at most ${MAX_HEADER_LENGTH} characters` }
  }
  const bodies = [text, json, xml].filter((body) => body !== undefined)
  if (bodies.length > 1) return { fault: 'it must have one of text, json and xml' }
  if (xml !== undefined && kind === 'handshake') return { fault: 'a handshake answers text or JSON' }
  if (text !== undefined && (typeof text !== 'string' || !TEXT.test(text)))
    return { fault: 'its text must be printable ASCII without < and >' }
  if (xml !== undefined && (typeof xml !== 'string' || !xml.startsWith('<')))
    return { fault: 'its xml must begin with <' }
  const body = text ?? xml ?? (json === undefined ? '' : withoutMarkup(JSON.stringify(json)))
  const contentType =
    bodies.length === 0 ? null : text !== undefined ? 'text/plain' : xml !== undefined ? 'text/xml' : 'application/json'
  return withinBytes({ status, headers: named, contentType: contentType && `${contentType}; charset=utf-8`, body })
}

function withinBytes(sent: SentAnswer): SentAnswer | { readonly fault: string } {
  return Buffer.byteLength(sent.body) > MAX_BODY_BYTES
    ? { fault: `its body must have ${MAX_BODY_BYTES} bytes at most` }
    : sent
}

/** What a provider answers to a request that is no delivery, as it is sent, or what is wrong with it. */
export interface Handshake {
  readonly sent: SentAnswer | { readonly fault: string }
  readonly storeSecret: string | undefined
}

/** Asks `handshake()`, and where it gives null `answerWebhookChallenge()`. Null: an ordinary delivery. @throws what the provider throws */
export async function handshakeOf(
  provider: HandlesWebhooks,
  integration: Integration,
  request: WebhookRequest,
): Promise<Handshake | null> {
  const answer = (await provider.webhookDoor?.handshake?.(integration, request)) ?? null
  if (answer !== null) return { sent: sentAnswer('handshake', answer), storeSecret: answer.storeSecret }
  const challenge = (await provider.answerWebhookChallenge?.(integration, request)) ?? null
  return challenge === null ? null : { sent: sentChallenge(challenge), storeSecret: undefined }
}

function sentChallenge({ status, contentType, body }: ChallengeAnswer): SentAnswer | { readonly fault: string } {
  if (typeof body !== 'string') return { fault: 'the body of a challenge must be a text' }
  if (contentType === 'text/plain') return sentAnswer('handshake', { status, text: body })
  if (contentType !== 'application/json')
    return { fault: 'the content type of a challenge must be text/plain or application/json' }
  if (!isJsonText(body)) return { fault: 'its body must be JSON, as its content type says' }
  // Its own text: parsed and written again, a long number would be another one.
  const sent = sentAnswer('handshake', { status, json: null })
  return 'fault' in sent ? sent : withinBytes({ ...sent, body: withoutMarkup(body) })
}

/** The same JSON, in which no tag begins. */
function withoutMarkup(jsonText: string): string {
  return jsonText.replace(/[<>&]/g, (found) => `\\u00${found.charCodeAt(0).toString(16)}`)
}

/** What is wrong with a door. The registry refuses its provider with these. */
export function doorFaults(provider: object): string[] {
  const { webhookDoor: door, answerWebhookChallenge: challenge } = provider as Record<string, unknown>
  const faults =
    challenge === undefined || typeof challenge === 'function' ? [] : ['answerWebhookChallenge must be a function']
  if (door === undefined) return faults
  if (typeof door !== 'object' || door === null) return [...faults, 'webhookDoor must be an object']
  const { methods, handshake, ...answers } = door as WebhookDoor
  const isMethodList =
    Array.isArray(methods) && methods.length > 0 && methods.every((method) => DOOR_METHODS.includes(method))
  if (methods !== undefined && !isMethodList)
    faults.push(`webhookDoor.methods must be a list of ${DOOR_METHODS.join(', ')}`)
  else if (methods?.some((method) => !mayDeliver(method)) && handshake === undefined)
    faults.push('webhookDoor.methods has HEAD or OPTIONS, which only a handshake() answers')
  if (methods !== undefined && isMethodList && !methods.some(mayDeliver))
    faults.push('webhookDoor.methods must have one that can bring a delivery, such as POST')
  if (handshake !== undefined && typeof handshake !== 'function')
    faults.push('webhookDoor.handshake must be a function')
  for (const kind of ['accepted', 'duplicate', 'badSignature'] as const) {
    const answer = answers[kind]
    if (answer === undefined) continue
    const sent =
      typeof answer === 'object' && answer !== null ? sentAnswer(kind, answer) : { fault: 'it must be an object' }
    if ('fault' in sent) faults.push(`webhookDoor.${kind}: ${sent.fault}`)
  }
  return faults
}
