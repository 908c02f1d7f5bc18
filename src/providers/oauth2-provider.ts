/**
 * The OAuth 2.0 client of a provider, ready-made. Rule: docs/writing-a-provider.md, "OAuth 2.0".
 */
import { createHash } from 'node:crypto'
import type { AuthorizationServer, Client, ClientAuth, TokenEndpointResponse } from 'oauth4webapi'
import {
  HttpError,
  InvalidArgumentException,
  isIntegrationsError,
  ReauthRequiredException,
} from '../framework/errors.ts'
import { tokensOf } from '../oauth/rules.ts'
import type { HasOAuth2 } from './contracts.ts'
import type { Credentials, Integration, RequestContext } from './integration.ts'
import type { OAuth2Library } from './oauth2-answer.ts'
import { correctedAnswer, credentialsOf, oauth2Library, outlineOf, readable, refuseFailure } from './oauth2-answer.ts'
import type { OAuth2Assertion, OAuth2Grant, OAuth2PrivateKey } from './oauth2-grants.ts'
import { checkedGrant, JWT_BEARER, signedAssertion, signingKey } from './oauth2-grants.ts'
import type { OAuth2Discovery, OAuth2Endpoints, OAuth2Server } from './oauth2-server.ts'
import { checkedUrl, clientOptions, DiscoveredServers } from './oauth2-server.ts'

/** Our client at the authorization server. */
export interface OAuth2Client {
  readonly id: string
  /** None: a public client, with `clientAuthentication` `none`. */
  readonly secret?: string | undefined
  /** While the secret is rotated: tried in this order after `secret`, where the server answers `invalid_client`. */
  readonly furtherSecrets?: readonly string[] | undefined
  /** For `private_key_jwt`. */
  readonly privateKey?: OAuth2PrivateKey | undefined
}

/** How the client authenticates at the token endpoint (RFC 6749, 2.3.1; RFC 7523, 2.2). */
export type OAuth2ClientAuthentication = 'client_secret_basic' | 'client_secret_post' | 'private_key_jwt' | 'none'

/** A token endpoint's answer. Strings and numbers are what RFC 6749, 5.1, says they are; other keys are the provider's own. */
export type OAuth2Answer = TokenEndpointResponse

const DEFAULT_REFRESH_THRESHOLD_SECONDS = 300

/** A request to the token endpoint as it goes out, for a server that wants it otherwise. */
export interface OAuth2TokenRequest {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** The form; a hook may give other text, such as JSON with a header that says so. */
  readonly body: string
}

/** One request to the authorization server, as the grants and the revocation make it. */
interface Asking {
  readonly library: OAuth2Library
  readonly server: AuthorizationServer
  readonly client: Client
  /** In the order in which they are tried. */
  readonly proofs: readonly Proof[]
  readonly url: URL
  /** What the request proves itself with: never to be shown. */
  readonly secrets: readonly unknown[]
}

interface Proof {
  readonly authentication: ClientAuth
  /** Names it without showing it. */
  readonly mark: string
  /** Our id and secret do not stand in the header as they are. */
  readonly isEncoded?: boolean
}

/**
 * A provider that speaks OAuth 2.0 by the book. A subclass names its `client()`, and an `issuer` or
 * `endpoints`. Every call goes by `integration.request()`: logged, limited, guarded.
 */
export abstract class OAuth2Provider implements HasOAuth2 {
  /** Its metadata is looked up, and a callback's `iss` is compared with it (RFC 9207). */
  readonly issuer?: string
  /** Instead of metadata, or of single endpoints in it. */
  protected readonly endpoints: OAuth2Endpoints = {}
  protected readonly discovery: OAuth2Discovery = 'oidc'
  protected readonly clientAuthentication: OAuth2ClientAuthentication = 'client_secret_basic'
  protected readonly scopes: readonly string[] = []
  /** More of the authorization request, such as `{ prompt: 'consent' }`. */
  protected readonly authorizationParameters: Readonly<Record<string, string>> = {}
  /** Undefined: without, for a server that refuses it. */
  readonly pkce?: 'S256' | undefined = 'S256'
  /** Which token is revoked (RFC 7009). `nothing`: the server has no such endpoint; tokens are dropped here only. */
  protected readonly revokes: 'refresh_token' | 'access_token' | 'nothing' = 'refresh_token'
  /** How tokens are obtained. All but `authorization_code` need no person. */
  protected readonly grant: OAuth2Grant = { type: 'authorization_code' }
  /** Errors to a refresh after which only a person can help. */
  protected readonly reauthorizationErrors: readonly string[] = ['invalid_grant']

  readonly #discovered = new DiscoveredServers()
  #checkedGrant: OAuth2Grant | undefined
  /** Of the tokens that this process was given last. */
  #lifeSeconds = Number.POSITIVE_INFINITY
  /** Of each client the proof that the server took last. */
  readonly #taken = new Map<string, string>()

  protected abstract client(integration: Integration): OAuth2Client | Promise<OAuth2Client>

  /** For a server per customer. It is sent the client's secret, so a customer must not be able to name any host. */
  protected server(_integration: Integration): OAuth2Server | Promise<OAuth2Server> {
    return { issuer: this.issuer, endpoints: this.endpoints }
  }

  /** Puts right what this server answers otherwise than RFC 6749, 5.1, before it is judged. */
  protected correctAnswer(answer: Record<string, unknown>): Record<string, unknown> {
    return answer
  }

  /** For `jwt_bearer`: what is claimed, and by whose key. */
  protected assertion(_integration: Integration): OAuth2Assertion | Promise<OAuth2Assertion> {
    throw new InvalidArgumentException('assertion()', 'the grant jwt_bearer needs one, the provider has none')
  }

  /** Changes a token request before it is sent, for a server that wants JSON, a header, or another address. */
  protected tokenRequest(request: OAuth2TokenRequest, _integration: Integration): OAuth2TokenRequest {
    return request
  }

  /** More of the answer to be stored in the credentials, such as its `scope`. The three token keys are not for it. */
  protected extraCredentials(_answer: OAuth2Answer, _integration: Integration): Credentials {
    return {}
  }

  /** 300 s, or half the life of the server's tokens: else each call would refresh a token that lives no longer than that. */
  refreshThreshold(): number {
    return Math.min(DEFAULT_REFRESH_THRESHOLD_SECONDS, this.#lifeSeconds / 2)
  }

  refreshTokenMaxIdle(): number | null {
    return null
  }

  /** For a provider whose integrations have either an API key or an authorization. Without it each needs one. */
  needsAuthorization?(integration: Integration): boolean

  /** Whether the tokens of this integration are obtained without a person. @throws InvalidArgumentException for a bad `grant` */
  obtainsTokens(integration: Integration): boolean {
    return this.#grant().type !== 'authorization_code' && (this.needsAuthorization?.(integration) ?? true)
  }

  async checkClient(integration: Integration): Promise<void> {
    // One of a subclass's own may prove itself in another way.
    if (this.refreshToken !== OAuth2Provider.prototype.refreshToken) return
    const client = await this.#client(integration)
    await proofsOf(await oauth2Library(), this.clientAuthentication, client)
  }

  #grant(): OAuth2Grant {
    this.#checkedGrant ??= checkedGrant(this.grant)
    return this.#checkedGrant
  }

  async authorizationUrl(
    integration: Integration,
    redirectUri: string,
    state: string,
    pkce?: { readonly codeChallenge: string; readonly codeChallengeMethod: 'S256' },
  ): Promise<string> {
    const client = await this.#client(integration)
    const server = await this.#server(integration)
    const url = endpointOf(server, 'authorization_endpoint')
    const parameters: Record<string, string> = {
      ...(this.scopes.length > 0 && { scope: this.scopes.join(' ') }),
      ...this.authorizationParameters,
      response_type: 'code',
      client_id: client.id,
      redirect_uri: redirectUri,
      state,
      ...(pkce && { code_challenge: pkce.codeChallenge, code_challenge_method: pkce.codeChallengeMethod }),
    }
    // Its own query stays (RFC 6749, 3.1).
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value)
    return url.href
  }

  async exchangeCode(
    integration: Integration,
    code: string,
    redirectUri: string,
    pkce?: { readonly codeVerifier: string },
  ): Promise<Credentials> {
    const asking = await this.#asking(integration, 'token_endpoint', [code, pkce?.codeVerifier])
    const { library, server, client, url } = asking
    // State and issuer have been compared by the callback.
    const callback = library.validateAuthResponse(server, client, new URLSearchParams({ code }), library.skipStateCheck)
    const verifier = pkce?.codeVerifier ?? library.nopkce
    return this.#tokens(integration, asking, 'authorization_code', {
      send: (context, authentication) =>
        library.authorizationCodeGrantRequest(server, client, authentication, callback, redirectUri, verifier, {
          ...this.#options(integration, library, context, url),
        }),
      process: (answer) => library.processAuthorizationCodeResponse(server, client, answer),
    })
  }

  /** @throws ReauthRequiredException where the server takes the refresh token no longer, or there is none and the access token is over */
  async refreshToken(integration: Integration): Promise<Credentials> {
    if (this.obtainsTokens(integration)) return this.#obtain(integration)
    const { accessToken, refreshToken, expiresAt } = tokensOf(integration.credentialsArray())
    if (refreshToken === null) {
      const isOver = accessToken === null || (expiresAt !== null && expiresAt <= integration.now())
      if (isOver) throw new ReauthRequiredException(integration.id, 'there is no refresh_token')
      // One call that was refused for want of rights is no reason to send for a person.
      throw new InvalidArgumentException('refresh_token', 'one is needed for a refresh, and the server gave none')
    }
    const asking = await this.#asking(integration, 'token_endpoint', [refreshToken])
    const { library, server, client, url } = asking
    try {
      return await this.#tokens(integration, asking, 'refresh_token', {
        send: (context, authentication) =>
          library.refreshTokenGrantRequest(server, client, authentication, refreshToken, {
            ...this.#options(integration, library, context, url),
          }),
        process: (answer) => library.processRefreshTokenResponse(server, client, answer),
      })
    } catch (error) {
      const refusal = isIntegrationsError(error, 'http_error') ? errorCodeOf((error as HttpError).body) : null
      if (refusal === null || !this.reauthorizationErrors.includes(refusal)) throw error
      throw new ReauthRequiredException(integration.id, refusal, { cause: error })
    }
  }

  /** Tokens without a person: a new access token each time; a refresh token is not wanted (RFC 6749, 4.4.3). */
  async #obtain(integration: Integration): Promise<Credentials> {
    const grant = this.#grant()
    const parameters = new URLSearchParams('parameters' in grant ? grant.parameters : {})
    if (this.scopes.length > 0 && !parameters.has('scope')) parameters.set('scope', this.scopes.join(' '))
    const proof = grant.type === 'jwt_bearer' ? await this.assertion(integration) : null
    const asking = await this.#asking(integration, 'token_endpoint', [proof?.key.pem])
    const { library, server, client, url } = asking
    const name = grant.type === 'other' ? grant.name : grant.type === 'jwt_bearer' ? JWT_BEARER : grant.type
    const { refresh_token: _unwanted, ...credentials } = await this.#tokens(integration, asking, name, {
      async send(context, authentication, options) {
        if (proof !== null)
          parameters.set(
            'assertion',
            // By the machine's own clock, not by a host's: the server compares it with real time.
            await signedAssertion(proof, { endpoint: url.href, now: Math.floor(Date.now() / 1_000) }),
          )
        if (grant.type === 'client_credentials')
          return library.clientCredentialsGrantRequest(server, client, authentication, parameters, options(context))
        return library.genericTokenEndpointRequest(server, client, authentication, name, parameters, options(context))
      },
      process: (answer) =>
        grant.type === 'client_credentials'
          ? library.processClientCredentialsResponse(server, client, answer)
          : library.processGenericTokenEndpointResponse(server, client, answer),
    })
    return credentials
  }

  /** @throws InvalidArgumentException where the server has no revocation endpoint, and `revokes` does not say so */
  async revokeToken(integration: Integration): Promise<void> {
    if (this.revokes === 'nothing') return
    const { accessToken, refreshToken } = tokensOf(integration.credentialsArray())
    const kept = { access_token: accessToken, refresh_token: refreshToken }
    const other = this.revokes === 'refresh_token' ? 'access_token' : 'refresh_token'
    const hint = kept[this.revokes] === null ? other : this.revokes
    const token = kept[hint]
    if (token === null) return
    const asking = await this.#asking(integration, 'revocation_endpoint', [token])
    const { library, server, client, url, secrets } = asking
    const send = (context: RequestContext, authentication: ClientAuth): Promise<Response> =>
      library.revocationRequest(server, client, authentication, token, {
        ...clientOptions(library, context, url),
        additionalParameters: { token_type_hint: hint },
      })
    await this.#proved(asking, (authentication) =>
      integration.request(
        url.pathname,
        'POST',
        async (context) => {
          const answer = await send(context, authentication)
          context.report({ statusCode: answer.status })
          await refuseFailure(answer, secrets)
          await readable(url.pathname, () => library.processRevocationResponse(answer))
          await answer.body?.cancel()
          return null
        },
        { data: { token_type_hint: hint } },
      ),
    )
  }

  /** A grant at the token endpoint, and what of its answer is stored. */
  async #tokens(
    integration: Integration,
    asking: Asking,
    grantType: string,
    {
      send,
      process,
    }: {
      send: (context: RequestContext, authentication: ClientAuth, options: Options) => Promise<Response>
      process: (answer: Response) => Promise<TokenEndpointResponse>
    },
  ): Promise<Credentials> {
    const { library, url, secrets } = asking
    const endpoint = url.pathname
    const options: Options = (context) => this.#options(integration, library, context, url)
    let granted: { readonly answer: TokenEndpointResponse; readonly answeredAt: Date } | undefined
    await this.#proved(asking, (authentication) =>
      integration.request(
        endpoint,
        'POST',
        async (context) => {
          const response = await send(context, authentication, options)
          const answeredAt = integration.now()
          context.report({ statusCode: response.status })
          const corrected = await correctedAnswer(response, secrets, (answer) => this.correctAnswer(answer))
          const answer = await readable(endpoint, () => process(corrected))
          granted = { answer, answeredAt }
          return outlineOf(answer)
        },
        { data: { grant_type: grantType } },
      ),
    )
    if (granted === undefined) throw new TypeError('the call ended well without an answer')
    const { answer, answeredAt } = granted
    const { expires_in: lifeSeconds = 0 } = answer
    if (lifeSeconds > 0) this.#lifeSeconds = lifeSeconds
    return { ...this.extraCredentials(answer, integration), ...credentialsOf(answer, answeredAt) }
  }

  /** With each proof until the server knows the client: it looks at that before it looks at the grant (RFC 6749, 5.2). */
  async #proved<T>({ client, proofs }: Asking, ask: (authentication: ClientAuth) => Promise<T>): Promise<T> {
    const taken = this.#taken.get(client.client_id)
    const order = [...proofs].sort((a, b) => Number(b.mark === taken) - Number(a.mark === taken))
    for (const [at, { authentication, mark }] of order.entries())
      try {
        const answered = await ask(authentication)
        this.#taken.set(client.client_id, mark)
        return answered
      } catch (error) {
        const refusal = isIntegrationsError(error, 'http_error') ? errorCodeOf((error as HttpError).body) : null
        if (refusal !== 'invalid_client') throw error
        if (at === order.length - 1) throw hinted(error as HttpError, proofs)
      }
    throw new TypeError('there is at least one proof')
  }

  #options(integration: Integration, library: OAuth2Library, context: RequestContext, url: URL) {
    return clientOptions<'POST', URLSearchParams>(library, context, url, (request) =>
      this.tokenRequest(request, integration),
    )
  }

  async #asking(
    integration: Integration,
    endpoint: 'token_endpoint' | 'revocation_endpoint',
    secrets: readonly unknown[],
  ): Promise<Asking> {
    const client = await this.#client(integration)
    const server = await this.#server(integration)
    const library = await oauth2Library()
    return {
      library,
      server,
      client: { client_id: client.id },
      proofs: await proofsOf(library, this.clientAuthentication, client),
      url: endpointOf(server, endpoint),
      secrets: [...secrets, client.secret, ...(client.furtherSecrets ?? []), client.privateKey?.pem],
    }
  }

  async #server(integration: Integration): Promise<AuthorizationServer> {
    return this.#discovered.find(integration, await this.server(integration), this.discovery)
  }

  async #client(integration: Integration): Promise<OAuth2Client> {
    const client = await this.client(integration)
    // Mostly an environment variable that is not there.
    if (typeof client.id !== 'string' || client.id === '')
      throw new InvalidArgumentException('client id', 'a text of at least one character is allowed, none was given')
    return client
  }
}

type Options = (context: RequestContext) => ReturnType<typeof clientOptions<'POST', URLSearchParams>>

/** @throws InvalidArgumentException where the client has nothing to prove itself with */
async function proofsOf(
  library: OAuth2Library,
  method: OAuth2ClientAuthentication,
  { id, secret, furtherSecrets = [], privateKey }: OAuth2Client,
): Promise<Proof[]> {
  if (method === 'none') return [{ authentication: library.None(), mark: method }]
  if (method === 'private_key_jwt') {
    if (privateKey === undefined)
      throw new InvalidArgumentException('client privateKey', `${method} needs one, none was given`)
    const { key, kid } = await signingKey(privateKey)
    const authentication = library.PrivateKeyJwt(kid === undefined ? key : { key, kid })
    return [{ authentication, mark: method }]
  }
  const secrets = [secret, ...furtherSecrets].filter((one) => typeof one === 'string' && one !== '')
  if (typeof secret !== 'string' || secret === '')
    throw new InvalidArgumentException('client secret', `${method} needs one of at least one character, none was given`)
  const prove = method === 'client_secret_post' ? library.ClientSecretPost : library.ClientSecretBasic
  return [...new Set(secrets as string[])].map((one) => ({
    authentication: prove(one),
    mark: createHash('sha256').update(one).digest('hex'),
    isEncoded: method === 'client_secret_basic' && /[^A-Za-z0-9]/.test(id + one),
  }))
}

/** Many a server compares the header without decoding it (RFC 6749, 2.3.1), and answers no more than `invalid_client`. */
function hinted(refusal: HttpError, proofs: readonly Proof[]): HttpError {
  if (!proofs.some(({ isEncoded }) => isEncoded)) return refusal
  const { status, headers, body } = refusal
  const hint =
    "The client's id or secret was percent-encoded (RFC 6749, 2.3.1): a server that does not decode it needs clientAuthentication = 'client_secret_post'."
  return new HttpError(status, headers, body, { cause: refusal, hint })
}

function endpointOf(
  server: AuthorizationServer,
  name: 'authorization_endpoint' | 'token_endpoint' | 'revocation_endpoint',
): URL {
  const text = server[name]
  if (text !== undefined) return checkedUrl(name, text)
  const way = name === 'revocation_endpoint' ? ", or `revokes = 'nothing'` where the tokens can't be revoked" : ''
  throw new InvalidArgumentException(
    name,
    `the authorization server ${server.issuer} names none; give it as \`endpoints.${name.replace('_endpoint', '')}\`${way}`,
  )
}

function errorCodeOf(body: unknown): string | null {
  const code = typeof body === 'object' && body !== null && 'error' in body ? body.error : null
  return typeof code === 'string' ? code : null
}
