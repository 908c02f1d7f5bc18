/** What a provider declares, and what its fixtures must hold. Rule: docs/writing-a-provider.md. */
import assert from 'node:assert/strict'
import { RateLimit } from '../../calls/rate-limit-rules.ts'
import type { IntegrationProvider } from '../../providers/contracts.ts'
import {
  handlesWebhooks,
  hasBackfill,
  hasIncrementalSync,
  hasStreams,
  supportsIdempotency,
} from '../../providers/contracts.ts'
import { ProviderRegistry } from '../../providers/registry.ts'
import { signatureOf } from '../../providers/signatures/declared-signature.ts'
import { streamsOf, syncSource } from '../../providers/streams.ts'
import type { ProviderFixtures } from '../conformance.ts'
import type { Chapter, Check, Subject } from './conformance-check.ts'
import { listingFixtures } from './conformance-check.ts'
import { given, outcomeOf, shown, wordsFor } from './outcome-checks.ts'

const LEAST_CHECKPOINTS = 3

/** Whether the other chapters can be asked at all: a kit takes only what can be registered. */
export function isWhole({ identifier, provider }: Subject): boolean {
  try {
    new ProviderRegistry().register(identifier, provider())
    return true
  } catch {
    return false
  }
}

export function declarationChapter(subject: Subject): Chapter {
  const checks = [REGISTRATION(subject)]
  if (isWhole(subject)) checks.push(fixtures(subject), VALUES)
  return { contract: 'what it declares', checks }
}

const REGISTRATION = ({ identifier, provider }: Subject): Check => ({
  name: 'can be registered: its identifier is one, and it implements each contract wholly or not at all',
  async run() {
    const outcome = await outcomeOf(() => new ProviderRegistry().register(identifier, provider()))
    assert.equal(
      outcome.kind,
      'gave',
      `"${identifier}" must be what createIntegrations() takes; registering it ${wordsFor(outcome)}`,
    )
  },
})

/** What the suite has been given for its contracts: without it they would go unchecked, unnoticed. */
function fixtures({ fixtures: given, provider }: Subject): Check {
  return {
    name: 'has the fixtures that its contracts need',
    async run() {
      const made = provider()
      const missing = [
        needsDeliveries(made) && given.webhook === undefined && '`webhook`: it handles webhooks',
        handlesWebhooks(made) &&
          given.webhook !== undefined &&
          given.credentials.webhook_secret !== given.webhook.secret &&
          '`credentials.webhook_secret` equal to `webhook.secret`',
        supportsIdempotency(made) && (given.write ?? null) === null && '`write`: it supports idempotency keys',
        ...streamsOf(made).flatMap((stream) => missingOfListing(made, given, stream)),
      ].filter((each) => each !== false)
      assert.deepEqual(missing, [], `describeProvider() needs of the fixtures: ${missing.join('; ')}`)
    },
  }
}

function missingOfListing(made: IntegrationProvider, given: ProviderFixtures, stream: string | null) {
  const source = syncSource(made, stream)
  const { checkpoints = [], cursor = null, window } = listingFixtures(given, stream)
  const at = stream === null ? '' : `streams.${stream}.`
  return [
    checkpoints.length < LEAST_CHECKPOINTS && `\`${at}checkpoints\`, ${LEAST_CHECKPOINTS} or more: it syncs`,
    source !== null && hasIncrementalSync(source) && cursor === null && `\`${at}cursor\`: it syncs incrementally`,
    source !== null && hasBackfill(source) && window === undefined && `\`${at}window\`: it backfills`,
  ]
}

type Rule = readonly [name: string, isAllowed: (value: unknown) => boolean, allowed: string]

const isText = (value: unknown) => typeof value === 'string' && value !== ''
const isPositive = (value: unknown) => typeof value === 'number' && Number.isFinite(value) && value > 0
const isTextList = (value: unknown) => Array.isArray(value) && value.every(isText)
const isLimit = (value: unknown) => value === null || value instanceof RateLimit
const isWholeOrNull = (value: unknown) => value === null || (Number.isInteger(value) && (value as number) > 0)
const isSecondsOrNull = (value: unknown) => value === null || isPositive(value)

const ITEM_CLASSES = 'a list of event classes, each with a `type` of its own and a whole `version` of at least 1'

const ANSWERS: readonly Rule[] = [
  ['defaultRateLimit', isLimit, 'a RateLimit or null'],
  ['defaultSyncInterval', isWholeOrNull, 'whole minutes of at least 1, or null'],
  ['refreshThreshold', (value) => value === 0 || isPositive(value), 'seconds of 0 or more'],
  ['refreshTokenMaxIdle', isSecondsOrNull, 'seconds above 0, or null'],
  ['redactedRequestPaths', isTextList, 'a list of dot paths'],
  ['redactedResponsePaths', isTextList, 'a list of dot paths'],
  ['unloggedResponses', isTextList, 'a list of patterns'],
  ['syncItemEvents', areItemClasses, ITEM_CLASSES],
  ['webhookHandlers', areHandlers, 'an object of functions, `{handle}` or `{workflow}`'],
]

const MEMBERS: readonly Rule[] = [
  ['label', isText, 'a text that is not empty'],
  ['idempotencyHeader', isText, 'the name of a header'],
  ['reconcileWebhookKey', isText, 'the name of a metadata key'],
  ['deliveryIdSigned', (value) => typeof value === 'boolean', 'true or false'],
  ['pkce', (value) => value === 'S256', "'S256'"],
  ['issuer', isText, 'a text that is not empty'],
]

const VALUES: Check = {
  name: 'declares values of the right kind',
  async run({ provider }) {
    const wrong: string[] = []
    const members = provider as Record<string, unknown>
    for (const [name, isAllowed, allowed] of ANSWERS) {
      const member = members[name]
      if (typeof member !== 'function') continue
      const outcome = given((): unknown => Reflect.apply(member, provider, []))
      if (outcome.kind === 'threw' || !isAllowed(outcome.value))
        wrong.push(`${name}() must give ${allowed}, it ${wordsFor(outcome)}`)
    }
    for (const [name, isAllowed, allowed] of MEMBERS) {
      const value = members[name]
      if (value !== undefined && !isAllowed(value)) wrong.push(`${name} must be ${allowed}, it is ${shown(value)}`)
    }
    for (const [stream, { events = [] }] of Object.entries(hasStreams(provider) ? provider.streams : {}))
      if (!areItemClasses(events))
        wrong.push(`streams.${stream}.events must be ${ITEM_CLASSES}, it is ${shown(events)}`)
    assert.deepEqual(wrong, [], wrong.join('; '))
  },
}

function areItemClasses(value: unknown): boolean {
  if (!Array.isArray(value)) return false
  const types = value.map((each: unknown) => {
    const isClass = typeof each === 'function' && 'type' in each && 'version' in each
    return isClass && Number.isInteger(each.version) && (each.version as number) > 0 ? each.type : null
  })
  return types.every(isText) && new Set(types).size === types.length
}

function areHandlers(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  return Object.values(value).every((each: unknown) => {
    if (typeof each === 'function') return true
    if (typeof each !== 'object' || each === null) return false
    return ('handle' in each && typeof each.handle === 'function') || ('workflow' in each && isText(each.workflow))
  })
}

/** Only the provider can sign by its own certificate. */
function needsDeliveries(provider: IntegrationProvider): boolean {
  if (!handlesWebhooks(provider)) return false
  const signature = signatureOf(provider)
  return !(signature !== undefined && 'certificate' in signature)
}
