/** What a new provider's door answers, and how it splits a delivery of many, as text. Rule: docs/behaviour/webhook-answers.md. */
import type { Handshake, WebhookDoor } from '../../webhooks/catalogue/door.ts'
import { blocks, lines, quoted } from './source-text.ts'

/** The members `webhookDoor` and `splitWebhook()`, as far as the door has what they say. */
export function answerMembers(door: WebhookDoor): string[] {
  const shaken = door.handshake === undefined ? null : shaking(door.handshake)
  const { accepted, badSignatureStatus: status } = door
  const members = lines(
    shaken?.methods !== undefined && `    methods: [${shaken.methods.map(quoted).join(', ')}],`,
    accepted !== undefined &&
      `    accepted: ${accepted.text === undefined ? '{}' : `{ text: ${quoted(accepted.text)} }`},`,
    status !== undefined && `    badSignature: { status: ${status} },`,
    shaken?.handshake ?? false,
  )
  return [
    ...(members !== '' ? [lines('  readonly webhookDoor: WebhookDoor = {', members, '  }')] : []),
    ...(door.batch === undefined ? [] : [splitting(door.batch, door.batchEvent)]),
  ]
}

/** Its answer comes after the signature was checked, or only its owner can say whether it is wanted. */
export const isLeftToDo = ({ kind }: Handshake): boolean => kind === 'visit' || kind === 'ping'

/** It keeps the token that a person has made up, beside the secret. */
export const keepsVerifyToken = ({ handshake }: WebhookDoor): boolean =>
  handshake?.kind === 'echo query' && handshake.verify !== undefined

interface Shaking {
  readonly methods?: readonly string[]
  /** The member of the door. */
  readonly handshake: string
}

function shaking(handshake: Handshake): Shaking | null {
  switch (handshake.kind) {
    case 'probes':
    case 'visit':
    case 'ping':
      return null
    case 'echo query':
      return { handshake: echoQuery(handshake.name, handshake.verify) }
    case 'echo json':
      return {
        handshake: member(
          '_integration, request',
          `const repeated = textAt(request.json(), ${quoted(handshake.path)})`,
          `return repeated === null ? null : { json: ${nested(handshake.path, 'repeated')} }`,
        ),
      }
    case 'echo header':
      return {
        handshake: member(
          '_integration, { headers }',
          '// It is taken only after `webhooks.expectHandshake()`: call that before the webhook is created there.',
          `const storeSecret = headers.get(${quoted(handshake.name)})`,
          `return storeSecret === null ? null : { headers: { ${quoted(handshake.name)}: storeSecret }, storeSecret }`,
        ),
      }
    case 'echo header in json':
      return {
        handshake: member(
          '_integration, { method, headers }',
          `const repeated = headers.get(${quoted(handshake.name)})`,
          `return method !== 'GET' || repeated === null ? null : { json: ${nested(handshake.path, 'repeated')} }`,
        ),
      }
    case 'head':
      return {
        methods: ['HEAD', 'POST'],
        handshake: "    handshake: (_integration, { method }) => (method === 'HEAD' ? {} : null),",
      }
    case 'options':
      return {
        methods: ['OPTIONS', 'POST'],
        handshake: member(
          '_integration, { method, headers }',
          "const origin = headers.get('webhook-request-origin')",
          "if (method !== 'OPTIONS' || origin === null) return null",
          "return { headers: { 'webhook-allowed-origin': origin, allow: 'OPTIONS, POST' } }",
        ),
      }
    case 'signed answer':
      return { handshake: signedAnswer(handshake.path, handshake.signature) }
    case 'token to keep':
      return {
        handshake: member(
          '_integration, request',
          '// It is taken only after `webhooks.expectHandshake()`. Then it is in the credentials, to be given back to the provider.',
          `const storeSecret = textAt(request.json(), ${quoted(handshake.path)})`,
          'return storeSecret === null ? null : { storeSecret }',
        ),
      }
  }
}

function member(parameters: string, ...body: readonly string[]): string {
  return lines(`    handshake(${parameters}) {`, ...body.map((line) => `      ${line}`), '    },')
}

function echoQuery(name: string, verify: string | undefined): string {
  const asked = `const repeated = query.get(${quoted(name)})`
  const isNone = "if (method !== 'GET' || repeated === null) return null"
  if (verify === undefined) return member('_integration, { method, query }', asked, isNone, 'return { text: repeated }')
  return member(
    'integration, { method, query }',
    asked,
    isNone,
    'const { webhook_verify_token: token } = Credentials.parse(integration.credentialsArray())',
    `const isOurs = token !== undefined && query.get(${quoted(verify)}) === token`,
    'return isOurs ? { text: repeated } : { status: 403 }',
  )
}

/** The caller has not signed yet: what this signs for it must not pass for a delivery. */
function signedAnswer(path: string, signature: string): string {
  const name = path.split('.').at(-1) ?? path
  return member(
    'integration, request',
    `const ${name} = textAt(request.json(), ${quoted(path)})`,
    '// Letters and digits alone: anything else might be a delivery that a stranger wants to have signed.',
    `if (${name} === null || !/^[\\w-]{1,64}$/.test(${name})) return null`,
    'const [secret] = activeWebhookSecrets(integration.credentialsArray(), request.receivedAt)',
    'if (secret === undefined) return null',
    `const ${signature} = createHmac('sha256', secret).update(${name}).digest('hex')`,
    `return { json: { ${name}, ${signature} } }`,
  )
}

/** An object that has the value at a dot path. */
function nested(path: string, value: string): string {
  return path.split('.').reduceRight((inner, key) => `{ ${key}: ${inner} }`, value)
}

function splitting(batch: string, { id, type }: { readonly id?: string; readonly type?: string } = {}): string {
  const at = (path: string | undefined) => (path === undefined ? 'null' : `textAt(event, ${quoted(path)})`)
  return lines(
    '  /** What throws leaves the delivery whole, so that no event is lost. */',
    '  splitWebhook(request: WebhookRequest): readonly WebhookPart[] {',
    batch === '' ? '    const events = request.json()' : `    const events = valueAt(request.json(), ${quoted(batch)})`,
    "    if (!Array.isArray(events)) throw new TypeError('the delivery has no list of events')",
    '    return events.map((event: Json) => ({',
    `      id: ${at(id)},`,
    `      type: ${at(type)},`,
    "      payload: typeof event === 'string' ? JSON.stringify(event) : event,",
    '    }))',
    '  }',
  )
}

/** The functions that the members call to read a body. */
export function readers(members: string): string | false {
  const texts = members.includes('textAt(')
  return (texts || members.includes('valueAt(')) && blocks(VALUE_AT, texts && TEXT_AT)
}

const VALUE_AT = `/** What stands at a dot path; undefined where there is nothing. */
function valueAt(json: Json | undefined, path: string): Json | undefined {
  let found: Json | undefined = json
  for (const key of path.split('.')) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, key)) return undefined
    found = (found as Record<string, Json>)[key]
  }
  return found
}`

const TEXT_AT = `/** A text or a number at a dot path; null where there is none. */
function textAt(json: Json | undefined, path: string): string | null {
  const found = valueAt(json, path)
  return typeof found === 'string' || typeof found === 'number' ? String(found) : null
}`
