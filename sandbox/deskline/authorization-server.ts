/** Who may do what, and until when: codes, tokens, and the authorizations that they belong to. */
import { createHash, randomBytes } from 'node:crypto'

export interface DesklineClient {
  id: string
  secret: string
  redirectUris: string[]
}

export interface AuthorizationRequest {
  redirectUri: string
  state: string
  codeChallenge: string
  scopes: string[]
}

interface Authorization {
  scopes: string[]
  isEnded: boolean
  /** The one refresh token that is good. */
  refreshToken: string | null
}

interface AccessToken {
  authorization: Authorization
  expiresAtMs: number
}

export interface TokenAnswer {
  access_token: string
  token_type: 'Bearer'
  expires_in: number
  scope: string
  refresh_token?: string
}

/** An error of RFC 6749, 5.2. */
export class TokenFailure extends Error {
  constructor(readonly error: 'invalid_grant' | 'invalid_client' | 'invalid_request' | 'unsupported_grant_type') {
    super(error)
  }
}

export interface AuthorizationServer {
  client: DesklineClient
  /** Ada has been asked; null: no such question. Answered once. */
  ask(request: AuthorizationRequest): string
  answer(question: string): AuthorizationRequest | null
  codeFor(request: AuthorizationRequest): string
  exchange(given: { code: string; redirectUri: string; codeVerifier: string }): TokenAnswer
  refresh(refreshToken: string): TokenAnswer
  revoke(token: string): void
  /** The scopes of an access token that is good; null for any other. */
  scopesOf(accessToken: string): string[] | null
  expireAccessTokens(): void
  endAll(): void
}

export const SCOPES = ['tickets:read', 'tickets:write', 'offline_access']
const CODE_LIFETIME_MS = 60_000

const random = (prefix: string): string => `${prefix}_${randomBytes(24).toString('base64url')}`

export function createAuthorizationServer(
  client: DesklineClient,
  tokenSeconds: number,
  now: () => Date,
): AuthorizationServer {
  const questions = new Map<string, AuthorizationRequest>()
  const codes = new Map<string, AuthorizationRequest & { expiresAtMs: number; authorization: Authorization | null }>()
  const accessTokens = new Map<string, AccessToken>()
  /** Those that were replaced, too: who uses one again is found out by it. */
  const refreshTokens = new Map<string, Authorization>()

  function issue(authorization: Authorization): TokenAnswer {
    const accessToken = random('dat')
    accessTokens.set(accessToken, { authorization, expiresAtMs: now().getTime() + tokenSeconds * 1000 })
    authorization.refreshToken = authorization.scopes.includes('offline_access') ? random('drt') : null
    if (authorization.refreshToken !== null) refreshTokens.set(authorization.refreshToken, authorization)
    return {
      access_token: accessToken,
      token_type: 'Bearer',
      expires_in: tokenSeconds,
      scope: authorization.scopes.join(' '),
      ...(authorization.refreshToken === null ? {} : { refresh_token: authorization.refreshToken }),
    }
  }

  return {
    client,
    ask(request) {
      const question = random('q')
      questions.set(question, request)
      return question
    },
    answer(question) {
      const request = questions.get(question) ?? null
      questions.delete(question)
      return request
    },
    codeFor(request) {
      const code = random('dac')
      codes.set(code, { ...request, expiresAtMs: now().getTime() + CODE_LIFETIME_MS, authorization: null })
      return code
    },
    exchange({ code, redirectUri, codeVerifier }) {
      const entry = codes.get(code)
      if (entry === undefined) throw new TokenFailure('invalid_grant')
      if (entry.authorization !== null) {
        // A code that comes twice may have been stolen: RFC 6749, 4.1.2.
        entry.authorization.isEnded = true
        throw new TokenFailure('invalid_grant')
      }
      const challenge = createHash('sha256').update(codeVerifier).digest('base64url')
      const isGood =
        entry.redirectUri === redirectUri && entry.codeChallenge === challenge && now().getTime() < entry.expiresAtMs
      if (!isGood) throw new TokenFailure('invalid_grant')
      entry.authorization = { scopes: entry.scopes, isEnded: false, refreshToken: null }
      return issue(entry.authorization)
    },
    refresh(refreshToken) {
      const authorization = refreshTokens.get(refreshToken)
      if (authorization === undefined || authorization.isEnded) throw new TokenFailure('invalid_grant')
      if (authorization.refreshToken !== refreshToken) {
        authorization.isEnded = true
        throw new TokenFailure('invalid_grant')
      }
      return issue(authorization)
    },
    revoke(token) {
      accessTokens.delete(token)
      const authorization = refreshTokens.get(token)
      if (authorization !== undefined) authorization.isEnded = true
    },
    scopesOf(accessToken) {
      const token = accessTokens.get(accessToken)
      if (token === undefined || token.authorization.isEnded || now().getTime() >= token.expiresAtMs) return null
      return token.authorization.scopes
    },
    expireAccessTokens() {
      accessTokens.clear()
    },
    endAll() {
      for (const authorization of refreshTokens.values()) authorization.isEnded = true
      for (const token of accessTokens.values()) token.authorization.isEnded = true
    },
  }
}
