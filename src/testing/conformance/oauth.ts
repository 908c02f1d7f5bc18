/** OAuth 2.0. Rule: docs/behaviour/oauth.md. */
import assert from 'node:assert/strict'
import { secretsOf } from '../../core/redaction.ts'
import type { Credentials, Integration } from '../../providers/integration.ts'
import type { HasOAuth2 } from '../../providers/provider.ts'
import type { Bench } from './bench.ts'
import type { Chapter } from './check.ts'
import { outcomeOf, shown, wordsFor } from './outcome.ts'
import { answering } from './played-faults.ts'

export const REDIRECT_URI = 'https://host.example/integrations/oauth/callback'
export const CODE = 'code-of-the-conformance-suite'
const STATE = 'state-of-the-conformance-suite'
/** Of RFC 7636, appendix B. */
const CHALLENGE = 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'
const VERIFIER = 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk'

export function oauthChapter(): Chapter {
  return {
    contract: 'HasOAuth2',
    checks: [
      {
        name: 'sends people to a URL with the state and the redirect URI, PKCE where it is declared, and no secret',
        async run(bench) {
          const provider = bench.provider as HasOAuth2
          const integration = await bench.create()
          const pkce = { codeChallenge: CHALLENGE, codeChallengeMethod: 'S256' } as const
          const text = await bench.inTime('authorizationUrl()', () =>
            provider.authorizationUrl(integration, REDIRECT_URI, STATE, provider.pkce === 'S256' ? pkce : undefined),
          )
          assert(URL.canParse(text), `authorizationUrl() must give an absolute URL; it gave ${shown(text)}`)
          const { protocol, searchParams } = new URL(text)
          assert.match(protocol, /^https?:$/, `authorizationUrl() must give an http(s) URL; it gave ${protocol}`)
          const expected = {
            state: STATE,
            redirect_uri: REDIRECT_URI,
            ...(provider.pkce === 'S256' && { code_challenge: CHALLENGE, code_challenge_method: 'S256' }),
          }
          for (const [name, value] of Object.entries(expected))
            assert.equal(searchParams.get(name), value, `authorizationUrl() must carry \`${name}\` as it was given`)
          const { credentials, secrets = [] } = bench.subject.fixtures
          assert(
            !secretsOf({ credentials, secrets }).some((secret) => text.includes(secret)),
            'authorizationUrl() is shown to people and kept in histories: none of the secrets may stand in it',
          )
        },
      },
      {
        name: 'exchanges a code for credentials that its schema takes',
        async run(bench) {
          const integration = await bench.create()
          expectTokens(bench, 'exchangeCode()', await exchanged(bench, integration))
        },
      },
      {
        name: 'refreshes to credentials that its schema takes',
        async run(bench) {
          const provider = bench.provider as HasOAuth2
          const integration = await bench.create()
          const given = await bench.inTime('refreshToken()', () => provider.refreshToken(integration))
          expectTokens(bench, 'refreshToken()', given)
        },
      },
      {
        name: 'fails loudly where a code, or a refresh, is refused',
        async run(bench) {
          const provider = bench.provider as HasOAuth2
          const integration = await bench.create()
          const refused = answering(400, '{"error":"invalid_grant"}')
          for (const [what, work] of [
            ['exchangeCode()', () => exchanged(bench, integration)],
            ['refreshToken()', () => provider.refreshToken(integration)],
          ] as const) {
            const outcome = await bench.answeredBy(refused, () => bench.withoutRetries(() => outcomeOf(work)))
            assert.equal(
              outcome.kind,
              'threw',
              `${what} must throw where the server answers 400; it ${wordsFor(outcome)}`,
            )
          }
        },
      },
      {
        name: 'revokes without a fault',
        async run(bench) {
          const provider = bench.provider as HasOAuth2
          const integration = await bench.create()
          const outcome = await outcomeOf(() => provider.revokeToken(integration))
          assert.equal(
            outcome.kind,
            'gave',
            `revokeToken() must end well where the server takes it; it ${wordsFor(outcome)}`,
          )
        },
      },
    ],
  }
}

/** A code for tokens, with what PKCE asks for where it is declared. */
export function exchanged(bench: Bench, integration: Integration): Promise<Credentials> {
  const provider = bench.provider as HasOAuth2
  const pkce = provider.pkce === 'S256' ? { codeVerifier: VERIFIER } : undefined
  return bench.inTime('exchangeCode()', () => provider.exchangeCode(integration, CODE, REDIRECT_URI, pkce))
}

/** Null removes a key, as in a merge. */
function expectTokens({ provider, subject }: Bench, what: string, given: unknown): void {
  assert(typeof given === 'object' && given !== null, `${what} must give credentials; it gave ${shown(given)}`)
  const { access_token: token, token_expires_at: expiresAt } = given as Credentials
  assert(
    typeof token === 'string' && token !== '',
    `${what} must give an \`access_token\` that is a text; it gave ${shown(typeof token)}`,
  )
  assert(
    expiresAt === null ||
      expiresAt === undefined ||
      (typeof expiresAt === 'string' && !Number.isNaN(Date.parse(expiresAt))),
    `${what} must give \`token_expires_at\` as an ISO 8601 time, or null; it gave ${shown(expiresAt)}`,
  )
  const merged = Object.entries({ ...subject.fixtures.credentials, ...given }).filter(([, value]) => value !== null)
  const result = provider.credentialsSchema?.safeParse(Object.fromEntries(merged))
  const issues = result?.error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`) ?? []
  assert.deepEqual(
    issues,
    [],
    `${what} must give what the credentialsSchema takes; it refused it: ${issues.join('; ')}`,
  )
}
