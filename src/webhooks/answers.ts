/**
 * What a door answers: the provider's words within bounds, and nothing of a credential.
 *
 * Rule: docs/behaviour/webhook-answers.md.
 */
import { integrationKey } from '../cache/integration-keys.ts'
import { secretsIn } from '../credentials/integration-secrets.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException, isIntegrationsError } from '../framework/errors.ts'
import { redactText } from '../framework/redaction.ts'
import type { RepeatedWarnings } from '../framework/repeated-warnings.ts'
import { thrownTexts } from '../framework/thrown.ts'
import { requireIntegration } from '../integrations/queries.ts'
import type { HandlesWebhooks } from '../providers/contracts.ts'
import { handlesWebhooks, requireContract } from '../providers/contracts.ts'
import type { Integration } from '../providers/integration.ts'
import type { DoorAnswer, DoorAnswerKind, Handshake, SentAnswer } from '../providers/webhook-door.ts'
import { handshakeOf, sentAnswer } from '../providers/webhook-door.ts'
import type { WebhookRequest } from '../providers/webhook-request.ts'
import type { WebhookOwners } from './owners.ts'
import { rotateWebhookSecret } from './secrets.ts'

/** Most providers ask within seconds, while the call that creates their webhook waits. */
const EXPECTED_SECONDS = 120
const MOST_EXPECTED_SECONDS = 86_400
/** Of a secret that a provider brings. */
const STORABLE_SECRET = /^[\x21-\x7e]{8,255}$/

export interface ExpectHandshake {
  /** How long a secret is taken for. Default 120, at most 86,400. */
  readonly forSeconds?: number
}

/**
 * Expects the provider to bring its secret: the next handshake on the integration's own route may store one. Anyone who knows the
 * address could bring one meanwhile, so it is called just before the provider is asked to create its webhook.
 *
 * @throws IntegrationNotFound, UnknownProvider, UnsupportedByProvider, InvalidArgumentException
 */
export async function expectHandshake(
  framework: Framework,
  id: number,
  { forSeconds = EXPECTED_SECONDS }: ExpectHandshake = {},
): Promise<void> {
  if (!Number.isInteger(forSeconds) || forSeconds < 1 || forSeconds > MOST_EXPECTED_SECONDS)
    throw new InvalidArgumentException(
      'forSeconds',
      `a whole number from 1 to ${MOST_EXPECTED_SECONDS} is allowed, ${String(forSeconds)} was given`,
    )
  const { provider } = await requireIntegration(framework, id)
  requireContract(provider, framework.providers.get(provider), handlesWebhooks, 'HandlesWebhooks')
  await framework.cache.set(expectationKey(id), true, forSeconds)
}

const expectationKey = (id: number): string => integrationKey(id, 'webhook-handshake')

/** A request that may be a handshake. */
export interface Shaken {
  readonly integration: Integration
  readonly request: WebhookRequest
  /** The URL names the integration. */
  readonly isOwnRoute: boolean
  /** Reads the integration as it is after the request came in. Requests at once share a read. */
  readonly readAgain: () => Promise<WebhookOwners>
  readonly warnings: RepeatedWarnings
}

/**
 * The answer of the provider's handshake. Null: an ordinary delivery.
 *
 * @returns `threw`: the name of what the provider threw. Its message may quote what a stranger has sent
 * @throws what keeps a secret from being stored
 */
export async function handshakeAnswer(
  framework: Framework,
  provider: HandlesWebhooks,
  shaken: Shaken,
): Promise<SentAnswer | 'refused' | { readonly threw: string } | null> {
  const { integration, request, warnings } = shaken
  let handshake: Handshake | null
  try {
    handshake = await handshakeOf(provider, integration, request)
  } catch (error) {
    return { threw: thrownTexts(error).name ?? typeof error }
  }
  if (handshake === null) return null
  const { sent, storeSecret } = handshake
  if ('fault' in sent) return refused(warnings, integration, sent.fault)
  if (holdsSecret(sent, integration, request)) return refused(warnings, integration, HOLDS_SECRET)
  if (storeSecret === undefined) return sent
  const fault = await takeSecret(framework, shaken, storeSecret)
  return fault === null ? sent : refused(warnings, integration, fault)
}

const HOLDS_SECRET = 'it holds something of the integration’s credentials that the request did not bring'

function refused(warnings: RepeatedWarnings, { id, provider }: Integration, why: string): 'refused' {
  warnings.warn(
    `answer ${id} ${why}`,
    () => ({ event: 'webhook.answer_refused', provider, integration: id, why }),
    'the answer of a webhook door was not sent',
  )
  return 'refused'
}

/** @returns why it is not taken; null: it is in force */
async function takeSecret(
  framework: Framework,
  { isOwnRoute, readAgain }: Shaken,
  storeSecret: string,
): Promise<string | null> {
  if (!isOwnRoute) return 'a secret comes in on the route with the id only'
  // Sent again: the answer to the first one was lost. The door's copy may be older than the first one.
  const read = await readAgain()
  const [owner] = read.owners
  if (owner === undefined) return 'the integration is gone or switched off'
  const { integration } = owner
  const { webhook_secret: known } = integration.credentialsArray()
  if (known === storeSecret) return null
  if (!STORABLE_SECRET.test(storeSecret)) return 'a secret has 8 to 255 printable characters'
  if (!(await isExpected(framework, integration.id, read)))
    return 'no handshake was expected; webhooks.expectHandshake() comes first'
  try {
    await rotateWebhookSecret(framework, integration.id, { secret: storeSecret })
  } catch (error) {
    // Another process has stored it meanwhile.
    if (!isIntegrationsError(error, 'invalid_argument')) throw error
  }
  return null
}

const EXPECTED = new WeakMap<WebhookOwners, Promise<boolean>>()

/**
 * Ends the expectation, so of two handshakes at once only one is expected. Those that share a read share the statement, too: anyone
 * may send any number of them.
 */
async function isExpected({ cache }: Framework, id: number, read: WebhookOwners): Promise<boolean> {
  const asked = EXPECTED.get(read)
  if (asked !== undefined) return asked.then(() => false)
  const taken = cache.take(expectationKey(id)).then((value) => value !== undefined)
  EXPECTED.set(read, taken)
  return taken
}

/** Whether an answer holds a text of the credentials. What the request itself brought tells its sender nothing. */
function holdsSecret(
  { headers, body }: SentAnswer,
  integration: Integration,
  request: WebhookRequest | null = null,
): boolean {
  const secrets = secretsIn(integration)
  const brought =
    request === null ? '' : [request.url, ...[...request.headers].map(([, value]) => value), request.text()].join('\n')
  const unknown = request === null ? secrets : secrets.filter((secret) => !brought.includes(secret))
  return [body, ...headers.map(([, value]) => value)].some((text) => redactText(text, unknown) !== text)
}

type ConstantKind = Exclude<DoorAnswerKind, 'handshake'>

/** Per provider, what was checked when it was registered; per handle, whether it may be sent. */
const RENDERED = new WeakMap<DoorAnswer, SentAnswer | null>()
const CLEAN = new WeakMap<Integration, WeakSet<SentAnswer>>()

/**
 * The provider's own answer of a kind. Undefined: the default is sent.
 *
 * @param among integrations whose credentials it must not hold
 */
export function constantAnswer(
  warnings: RepeatedWarnings,
  { webhookDoor: door }: HandlesWebhooks,
  kind: ConstantKind,
  among: readonly Integration[],
): SentAnswer | undefined {
  const answer = kind === 'duplicate' ? (door?.duplicate ?? door?.accepted) : door?.[kind]
  if (answer === undefined) return undefined
  let sent = RENDERED.get(answer)
  if (sent === undefined) {
    const rendered = sentAnswer(kind, answer)
    sent = 'fault' in rendered ? null : rendered
    RENDERED.set(answer, sent)
  }
  if (sent === null) return undefined
  for (const integration of among) {
    const clean = CLEAN.get(integration) ?? new WeakSet()
    CLEAN.set(integration, clean)
    if (clean.has(sent)) continue
    if (holdsSecret(sent, integration)) {
      refused(warnings, integration, HOLDS_SECRET)
      return undefined
    }
    clean.add(sent)
  }
  return sent
}
