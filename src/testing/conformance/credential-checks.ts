/** The schemas of credentials and metadata, and whose the credentials are. Rules: docs/behaviour/credentials.md, docs/behaviour/identity.md. */
import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import { secretsOf } from '../../framework/redaction.ts'
import type { IdentifiesAuthenticatedUser, IntegrationProvider } from '../../providers/contracts.ts'
import { handlesWebhooks, hasOAuth2 } from '../../providers/contracts.ts'
import type { Credentials } from '../../providers/integration.ts'
import type { ProviderFixtures } from '../conformance.ts'
import type { Chapter } from './conformance-check.ts'
import { outcomeOf, shown, wordsFor } from './outcome-checks.ts'
import { answering } from './played-faults.ts'

const ODD_VALUES: readonly unknown[] = [undefined, null, 7, 'text', [], {}, { a: null }, new Date(0), () => {}]
const LATER = '2099-12-31T23:59:59.000Z'

export function credentialsChapter(): Chapter {
  return {
    contract: 'credentialsSchema and metadataSchema',
    checks: [
      {
        name: 'take the credentials and the metadata of the fixtures, and keep what they hold',
        async run({ provider, subject: { fixtures } }) {
          expectKept('credentialsSchema', provider.credentialsSchema, fixtures.credentials)
          expectKept('metadataSchema', provider.metadataSchema, fixtures.metadata ?? {})
        },
      },
      {
        name: 'take and keep what the framework writes into credentials',
        async run({ provider, subject: { fixtures } }) {
          for (const written of writtenInto(provider, fixtures))
            expectKept(
              'credentialsSchema',
              provider.credentialsSchema,
              { ...fixtures.credentials, ...written },
              written,
            )
        },
      },
      {
        name: 'judge whatever they are given, without throwing and without quoting a credential',
        async run({ provider, subject: { fixtures } }) {
          const spoilt = Object.keys(fixtures.credentials).map((key) => spoiltAt(fixtures.credentials, key))
          for (const schema of [provider.credentialsSchema, provider.metadataSchema])
            for (const value of [...ODD_VALUES, ...spoilt.flat()]) {
              const outcome = await outcomeOf(() => schema?.safeParse(value))
              assert.equal(outcome.kind, 'gave', `a schema must judge ${typeof value}, it ${wordsFor(outcome)}`)
              if (outcome.value?.success !== false) continue
              for (const { message } of outcome.value.error.issues)
                for (const secret of secretsOf(fixtures.credentials))
                  assert(
                    !message.includes(secret),
                    'the message of a schema is shown to operators and logged; one of the credentials schema quotes the value that it was given',
                  )
            }
        },
      },
    ],
  }
}

/**
 * What is stored is what the schema returns: a key that it strips is lost.
 *
 * @param written of what is given, that which must come back as it is: its writer reads it again
 */
function expectKept(
  name: string,
  schema: IntegrationProvider['credentialsSchema'],
  given: object,
  written: object = {},
): void {
  if (schema === undefined) return
  const isOfFramework = Object.keys(written).length > 0
  const keys = Object.keys(isOfFramework ? written : given)
  const result = schema.safeParse(given)
  const issues = result.success ? [] : result.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
  assert(result.success, `the ${name} must take an object with ${keys.join(', ')}; it refused it: ${issues.join('; ')}`)
  const kept = Object.keys(result.data as object)
  const lost = keys.filter((key) => !kept.includes(key))
  assert.deepEqual(
    lost,
    [],
    `the ${name} must keep what it takes, since its result is what is stored; it dropped ${lost.join(', ')}. Make it a z.looseObject().`,
  )
  // As JSON, which is how they are stored: there a Date is its ISO time.
  const stored = result.data as Readonly<Record<string, unknown>>
  const changed = Object.entries(written).filter(([key, value]) => !isDeepStrictEqual(asJson(stored[key]), value))
  assert.deepEqual(
    changed.map(([key]) => key),
    [],
    `the ${name} must give what the framework writes as it was written, down to the last key; it changed ${changed.map(([key]) => key).join(', ')}`,
  )
}

const asJson = (value: unknown): unknown => (value === undefined ? undefined : JSON.parse(JSON.stringify(value)))

/** By a rotation of the webhook secret, and by the OAuth flow: in the fixtures' own words, since a schema may know their form. */
function writtenInto(provider: IntegrationProvider, { credentials, webhook }: ProviderFixtures): Credentials[] {
  const secret = webhook?.otherSecret ?? 'another-secret-of-the-suite'
  const webhooks = { webhook_secret: secret, webhook_secrets: [{ secret, expires_at: LATER }] }
  const { access_token = 'an-access-token-of-the-suite', refresh_token } = credentials
  const tokens = { access_token, token_expires_at: LATER }
  return [
    ...(handlesWebhooks(provider) ? [webhooks] : []),
    ...(hasOAuth2(provider) ? [tokens] : []),
    ...(hasOAuth2(provider) && refresh_token !== undefined ? [{ ...tokens, refresh_token }] : []),
  ]
}

/** The credentials with one of them wrong in some way. */
function spoiltAt(credentials: Credentials, key: string): Credentials[] {
  const value = credentials[key]
  return [[value], 7, null, `${String(value)} `, ` ${String(value)}`, `x${String(value)}`].map((wrong) => ({
    ...credentials,
    [key]: wrong,
  }))
}

/** `authenticatedUser()`. */
export function identityChapter(): Chapter {
  return {
    contract: 'IdentifiesAuthenticatedUser',
    checks: [
      {
        name: 'gives an id that is a text and not empty, and texts or null beside it',
        async run(bench) {
          const provider = bench.provider as IdentifiesAuthenticatedUser
          const integration = await bench.create()
          const given: unknown = await bench.inTime('authenticatedUser()', () =>
            provider.authenticatedUser(integration),
          )
          assert(typeof given === 'object' && given !== null, `authenticatedUser() gave ${shown(given)}`)
          const { id, name, email, username } = given as Record<string, unknown>
          assert(
            typeof id === 'string' && id !== '',
            `authenticatedUser() must give an \`id\` that is a text of at least one character; it gave ${shown(id)}. A number is made one by String().`,
          )
          for (const [field, value] of Object.entries({ name, email, username }))
            assert(
              value === null || typeof value === 'string',
              `authenticatedUser() must give a text or null as \`${field}\`; it gave ${shown(value)}`,
            )
        },
      },
      {
        name: 'fails loudly where the credentials are refused',
        async run(bench) {
          const provider = bench.provider as IdentifiesAuthenticatedUser
          const integration = await bench.create()
          const outcome = await bench.answeredBy(answering(401), () =>
            bench.withoutRetries(() => outcomeOf(() => provider.authenticatedUser(integration))),
          )
          assert.equal(
            outcome.kind,
            'threw',
            `authenticatedUser() must throw where the provider answers 401, or a refused answer would count as an account; it ${wordsFor(outcome)}`,
          )
        },
      },
    ],
  }
}
