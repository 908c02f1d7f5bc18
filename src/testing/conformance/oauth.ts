/** OAuth 2.0. Rule: docs/behaviour/oauth.md. */
import assert from 'node:assert/strict'
import { isIntegrationsError } from '../../framework/errors.ts'
import { secretsOf } from '../../framework/redaction.ts'
import { isRefusal } from '../../oauth/refused-tokens.ts'
import { isInvalidGrant } from '../../oauth/rules.ts'
import type { HasOAuth2 } from '../../providers/contracts.ts'
import type { Credentials, Integration } from '../../providers/integration.ts'
import type { PlayedApi } from '../played-transport.ts'
import type { SentRequest } from '../transport.ts'
import type { Bench } from './bench.ts'
import type { Chapter, Check, Subject } from './conformance-check.ts'
import { outcomeOf, shown, wordsFor } from './outcome-checks.ts'
import { answering } from './played-faults.ts'

export const REDIRECT_URI = 'https://host.example/integrations/oauth/callback'
export const CODE = 'code-of-the-conformance-suite'
const STATE = 'state-of-the-conformance-suite'
/** Of RFC 7636, appendix B. */
const CHALLENGE = 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'
const VERIFIER = 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk'

/** RFC 6749, section 5.2. */
const REFUSED = answering(400, '{"error":"invalid_grant"}')

/** As the framework reads times of expiry; `Date.parse` alone takes `3600`, and many a token, for a time. */
export const isIsoTime = (text: string): boolean => /^\d{4}-\d\d-\d\dT/.test(text) && !Number.isNaN(Date.parse(text))

/** Some providers give tokens that last, and nothing to refresh them by. */
export function hasRefreshToken({ fixtures }: Pick<Subject, 'fixtures'>): boolean {
  const { refresh_token: token } = fixtures.credentials
  return typeof token === 'string' && token !== ''
}

export function oauthChapter(subject: Subject): Chapter {
  return {
    contract: 'HasOAuth2',
    checks: [
      {
        name: 'sends people to a URL with the state and the redirect URI, PKCE where it is declared, and no secret',
        async run(bench) {
          const provider = bench.provider as HasOAuth2
          const integration = await bench.create()
          if (obtains(bench, integration)) return
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
          const shownUrl = new URL(text)
          // It is meant to be seen: RFC 6749, section 2.2.
          shownUrl.searchParams.delete('client_id')
          assert(
            !secretsOf({ credentials, secrets }).some((secret) => shownUrl.href.includes(secret)),
            'authorizationUrl() is shown to people and kept in histories: none of the secrets may stand in it',
          )
        },
      },
      {
        name: 'exchanges a code for credentials that its schema takes',
        async run(bench) {
          const integration = await bench.create()
          if (obtains(bench, integration)) return
          expectTokens(bench, 'exchangeCode()', await exchanged(bench, integration))
        },
      },
      {
        name: 'sends the code with its redirect URI, and with its verifier where PKCE is declared',
        async run(bench) {
          const { pkce } = bench.provider as HasOAuth2
          const integration = await bench.create()
          if (obtains(bench, integration)) return
          await expectSent(bench, 'exchangeCode()', () => exchanged(bench, integration), {
            'the code': CODE,
            'the redirect_uri': REDIRECT_URI,
            ...(pkce === 'S256' && { 'the code_verifier': VERIFIER }),
          })
        },
      },
      OBTAINS,
      ...(hasRefreshToken(subject) ? [REFRESHES, SENDS_REFRESH_TOKEN] : []),
      {
        name: 'fails loudly where a code, or a refresh, is refused',
        async run(bench) {
          const provider = bench.provider as HasOAuth2
          const integration = await bench.create()
          const refresh = ['refreshToken()', () => provider.refreshToken(integration)] as const
          for (const [what, work] of [
            ...(obtains(bench, integration)
              ? [refresh]
              : [['exchangeCode()', () => exchanged(bench, integration)] as const]),
            ...(hasRefreshToken(bench.subject) ? [refresh] : []),
          ]) {
            const outcome = await bench.answeredBy(REFUSED, () => bench.withoutRetries(() => outcomeOf(work)))
            assert.equal(
              outcome.kind,
              'threw',
              `${what} must throw where the server answers 400; it ${wordsFor(outcome)}`,
            )
          }
        },
      },
      SAYS_REFUSED,
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

/** Otherwise a person is asked to authorize again after days of failures only. */
const SAYS_REFUSED: Check = {
  name: 'says by its error that a refresh was refused for good',
  async run(bench) {
    const provider = bench.provider as HasOAuth2
    const integration = await bench.create()
    const isObtained = obtains(bench, integration)
    if (!isObtained && !hasRefreshToken(bench.subject)) return
    const { api } = bench.subject.fixtures
    // A GET asks for something else, such as the server's metadata: RFC 6749, section 3.2.
    const refusing: PlayedApi = (request) => (request.method === 'GET' ? api(request) : REFUSED(request))
    const outcome = await bench.answeredBy(refusing, () =>
      bench.withoutRetries(() => outcomeOf(() => provider.refreshToken(integration))),
    )
    // That it throws is another check's.
    if (outcome.kind === 'gave') return
    const { error } = outcome
    assert(
      isObtained ? isRefusal(error) : isIntegrationsError(error, 'reauth_required') || isInvalidGrant(error),
      `refreshToken() must throw what tells that the server answered 400 with invalid_grant: the error of the call, one that has it as its \`cause\`, or a ReauthRequiredException; it ${wordsFor(outcome)}`,
    )
  },
}

const OBTAINS: Check = {
  name: 'obtains tokens from nothing, where it says that they need no person',
  async run(bench) {
    const provider = bench.provider as HasOAuth2
    const { access_token: _, refresh_token: __, token_expires_at: ___, ...bare } = bench.subject.fixtures.credentials
    if (!obtains(bench, await bench.create())) return
    const integration = await bench.create(bare)
    const given = await bench.inTime('refreshToken()', () => provider.refreshToken(integration))
    expectTokens(bench, 'refreshToken()', given)
  },
}

const obtains = ({ provider }: Bench, integration: Integration): boolean =>
  (provider as HasOAuth2).obtainsTokens?.(integration) === true

const REFRESHES: Check = {
  name: 'refreshes to credentials that its schema takes',
  async run(bench) {
    const provider = bench.provider as HasOAuth2
    const integration = await bench.create()
    const given = await bench.inTime('refreshToken()', () => provider.refreshToken(integration))
    expectTokens(bench, 'refreshToken()', given)
  },
}

const SENDS_REFRESH_TOKEN: Check = {
  name: 'sends the refresh token',
  async run(bench) {
    const provider = bench.provider as HasOAuth2
    const integration = await bench.create()
    const { refresh_token: token } = bench.subject.fixtures.credentials
    await expectSent(bench, 'refreshToken()', () => provider.refreshToken(integration), {
      'the refresh_token': String(token),
    })
  },
}

/** What the server would look for: the played API answers any caller. */
async function expectSent(
  bench: Bench,
  what: string,
  work: () => unknown,
  values: Readonly<Record<string, string>>,
): Promise<void> {
  const before = bench.sent.length
  // What it gives is another check's.
  await outcomeOf(() => bench.inTime(what, work))
  const texts = bench.sent.slice(before).map(wholeRequest)
  const missing = Object.entries(values)
    .filter(([, value]) => !formsOf(value).some((form) => texts.some((text) => text.includes(form))))
    .map(([name]) => name)
  assert.deepEqual(
    missing,
    [],
    `${what} must send what it was given: a server refuses it without ${missing.join(' and ')}. It sent ${texts.length} requests`,
  )
}

/** As it is, and as a form, a URL, a header or a JSON text holds it. */
const formsOf = (value: string): string[] => [value, ...secretsOf([value])]

function wholeRequest({ url, headers, body }: SentRequest): string {
  return [url.href, ...[...headers].map(([name, value]) => `${name}: ${value}`), body].join('\n')
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
      (expiresAt instanceof Date && !Number.isNaN(expiresAt.getTime())) ||
      (typeof expiresAt === 'string' && isIsoTime(expiresAt)),
    `${what} must give \`token_expires_at\` as an ISO 8601 time, a Date, or null; it gave ${shown(expiresAt)}`,
  )
  const stored = expiresAt instanceof Date ? { ...given, token_expires_at: expiresAt.toISOString() } : given
  const merged = Object.entries({ ...subject.fixtures.credentials, ...stored }).filter(([, value]) => value !== null)
  const result = provider.credentialsSchema?.safeParse(Object.fromEntries(merged))
  const issues = result?.error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`) ?? []
  assert.deepEqual(
    issues,
    [],
    `${what} must give what the credentialsSchema takes; it refused it: ${issues.join('; ')}`,
  )
}
