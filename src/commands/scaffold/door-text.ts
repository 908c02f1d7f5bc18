/** The webhooks of a new provider as text: those of a door of the catalogue, or what most providers have. */
import type { DeliveryPlace } from '../../providers/signatures/scheme-rules.ts'
import { signedPart } from '../../providers/signatures/scheme-rules.ts'
import type { Handshake, WebhookDoor } from '../../webhooks/catalogue/door.ts'
import { hmac, signsDeliveryId } from '../../webhooks/catalogue/door.ts'
import { answerMembers, isLeftToDo } from './door-answers-text.ts'
import { lines, MAX_LINE_LENGTH, quoted } from './source-text.ts'

/** Of a provider that is invented: `--like` was not given. */
export function usualDoor(dashed: string): WebhookDoor {
  return {
    label: '',
    signature: hmac(`x-${dashed}-signature`),
    secret: '',
    deliveryId: { header: `x-${dashed}-delivery` },
    eventType: { header: `x-${dashed}-event` },
    sample: {
      headers: { [`x-${dashed}-delivery`]: '', [`x-${dashed}-event`]: 'item.updated' },
      body: '{"item":{"id":"1"}}',
    },
  }
}

/** The members of the provider's class that say how a delivery is signed, named and typed. */
export function doorMembers(door: WebhookDoor): string {
  const { label, signature, deliveryId, eventType } = door
  const isMadeUp = label === ''
  return [
    lines(
      isMadeUp
        ? '  // TODO: how its deliveries are signed.'
        : `  /** Checked by \`webhook_secret\`: ${door.secret}. */`,
      `  readonly signature: SignatureScheme = ${literal(signature, '  ')}`,
    ),
    ...(signsDeliveryId(door)
      ? []
      : [
          lines(
            '  /** The id of a delivery is not signed: the same signed bytes under another id are a repeat. */',
            '  readonly deliveryIdSigned = false',
          ),
        ]),
    ...(isMadeUp ? [] : [remarks(door)]),
    ...(deliveryId === undefined ? [] : [reading('webhookDeliveryId', deliveryId)]),
    ...(eventType === undefined ? [] : [reading('resolveWebhookEvent', eventType)]),
    ...answerMembers(door),
  ].join('\n\n')
}

function reading(name: string, place: DeliveryPlace): string {
  return lines(`  ${name}(request: WebhookRequest): string | null {`, `    return ${read(place)}`, '  }')
}

function read(place: DeliveryPlace): string {
  if ('header' in place) return `request.headers.get(${quoted(place.header)})`
  if ('query' in place) return `request.query.get(${quoted(place.query)})`
  if ('json' in place) return `textAt(request.json(), ${quoted(place.json)})`
  return `new URLSearchParams(request.text()).get(${quoted('form' in place ? place.form : place.field)})`
}

/** What data can't say, each as a thing to do. */
function remarks({ handshake, note, source }: WebhookDoor): string {
  const found = [
    ...(handshake !== undefined && isLeftToDo(handshake)
      ? [`before the first delivery: ${handshakeText(handshake)}`]
      : []),
    ...(note === undefined ? [] : [note]),
    source === undefined
      ? 'written from memory: compare it with the provider’s page'
      : `as of ${source.seen}: ${source.page}`,
  ]
  return lines(...found.map((text) => `  // TODO: ${text}`))
}

export function handshakeText(handshake: Handshake): string {
  switch (handshake.kind) {
    case 'echo query':
      return `GET, whose answer repeats the parameter ${handshake.name}${handshake.verify === undefined ? '' : `, if ${handshake.verify} is yours`}`
    case 'echo json':
      return `a delivery whose answer repeats ${handshake.path}`
    case 'echo header':
      return `a delivery whose answer repeats the header ${handshake.name}, which is the secret`
    case 'echo header in json':
      return `GET, whose answer has the header ${handshake.name} under ${handshake.path}`
    case 'head':
      return 'HEAD, answered by 200'
    case 'options':
      return 'OPTIONS, answered with WebHook-Allowed-Origin'
    case 'signed answer':
      return `a delivery whose answer has ${handshake.path} and its HMAC`
    case 'token to keep':
      return `a delivery with ${handshake.path}, which is the secret`
    case 'visit':
      return `a delivery whose ${handshake.path} must be visited`
    case 'probes':
      return 'deliveries with right and wrong signatures'
    case 'ping':
      return `a delivery that is answered by ${handshake.answer}`
  }
}

const PARTS = new Map<string, string>(
  Object.entries(signedPart).flatMap(([name, part]): [string, string][] =>
    typeof part === 'function' ? [] : [[JSON.stringify(part), `signedPart.${name}`]],
  ),
)

/**
 * As TypeScript, laid out as a formatter would: the outermost object over several lines.
 *
 * @param key stands before it in the same line
 */
export function literal(value: unknown, indent: string, key: string | null = null): string {
  const named = PARTS.get(JSON.stringify(value))
  if (named !== undefined) return named
  if (typeof value === 'string') return quoted(value)
  const fits = (line: string) =>
    !line.includes('\n') && `${indent}${key === null ? '' : `${key}: `}${line},`.length <= MAX_LINE_LENGTH
  if (Array.isArray(value)) {
    const entries = value.map((entry) => literal(entry, `${indent}  `, ''))
    const line = `[${entries.join(', ')}]`
    return fits(line) ? line : broken('[', entries, ']', indent)
  }
  if (typeof value !== 'object' || value === null) return String(value)
  const members = Object.entries(value).map(([name, member]) => {
    const of = /^[a-z]\w*$/i.test(name) ? name : quoted(name)
    return `${of}: ${literal(member, `${indent}  `, of)}`
  })
  const line = `{ ${members.join(', ')} }`
  return key !== null && fits(line) ? line : broken('{', members, '}', indent)
}

function broken(open: string, entries: readonly string[], close: string, indent: string): string {
  return [open, ...entries.map((entry) => `${indent}  ${entry},`), `${indent}${close}`].join('\n')
}
