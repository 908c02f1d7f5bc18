/**
 * The token that a call is made with: a person's, or that of a GitHub App's installation.
 *
 * Rule: docs/behaviour/github.md, "Credentials". Source: https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app
 */
import type { KeyObject } from 'node:crypto'
import { createHash, createPrivateKey } from 'node:crypto'
import githubAppJwt from 'universal-github-app-jwt'
import { z } from 'zod'
import type { HttpError, Integration, RequestOptions } from '../../provider.ts'
import { IntegrationsError, isIntegrationsError } from '../../provider.ts'
import { isGone } from './github-failures.ts'
import { repositoryOf } from './repository.ts'

/** An unused token does no harm, so the call for one is repeated like a read. */
const ATTEMPTS = 3
const UNAUTHORIZED = 401
/** Fits into the name of a cached secret, 64 characters at most, and is long enough to be unique per origin. */
const ORIGIN_HASH_LENGTH = 32

/** A number, or text from a command line. */
const Id = z.union([z.number().int().positive(), z.string().regex(/^[1-9]\d{0,15}$/, 'digits are allowed')])

const App = z.object({
  /** GitHub shows both for an App; each names it: https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-json-web-token-jwt-for-a-github-app#about-json-web-tokens-jwts */
  app_id: z.union([Id, z.string().regex(/^Iv[\w.]{1,100}$/, 'the App ID or the client ID is allowed')]),
  private_key: z
    .string()
    .refine((pem) => rsaKeyOf(pem) !== null, 'an RSA private key in PEM is allowed, as GitHub gives it to the App'),
  installation_id: Id,
})
const APP_KEYS = Object.keys(App.shape) as (keyof typeof App.shape)[]

/** `credentials` of a GitHub integration: a `token`, or the three of an App. */
export const GitHubCredentials = z
  .looseObject({
    /** Personal access token. */
    token: z.string().min(1).optional(),
    ...App.partial().shape,
    /** Any text that GitHub has, too; without one no webhook verifies. */
    webhook_secret: z.string().min(1).optional(),
  })
  .superRefine((credentials, context) => {
    const given = APP_KEYS.filter((key) => credentials[key] !== undefined)
    const missing = APP_KEYS.filter((key) => credentials[key] === undefined)
    const refuse = (path: string, message: string) => context.addIssue({ code: 'custom', path: [path], message })
    if (credentials.token !== undefined)
      for (const key of given) refuse(key, 'either a token or the credentials of an App are allowed, both were given')
    else if (given.length === 0) refuse('token', `a token is required, or ${APP_KEYS.join(', ')} of a GitHub App`)
    else for (const key of missing) refuse(key, 'required for a GitHub App')
  })

/** https://docs.github.com/en/rest/apps/apps#create-an-installation-access-token-for-an-app */
const InstallationToken = z.looseObject({ token: z.string().min(1), expires_at: z.iso.datetime({ offset: true }) })

/** GitHub has no installation of this id for the App. Calls that return null for what is not there throw this. */
export class GitHubInstallationGone extends IntegrationsError {
  override readonly code = 'github_installation_gone'
  constructor(
    readonly app: string,
    readonly installation: number,
    readonly origin: string,
    options?: { cause?: unknown },
  ) {
    super(
      `The GitHub App ${app} has no installation ${installation} at ${origin}: it was uninstalled, or app_id, installation_id or base_url is another one's. An installation that GitHub's settings of the App list is allowed.`,
      options,
    )
  }
}

type CallOptions = Pick<RequestOptions, 'signal' | 'attempts' | 'timeoutMs'>

/** Limits of each call of a piece of work: its own calls, and those for a token. */
export interface CallLimits extends Pick<CallOptions, 'signal' | 'attempts'> {
  /** Limit of all calls together: the rest of it is the deadline of the next one. */
  readonly totalMs?: number
}

/**
 * Does the work with the integration's token. A refused token of an installation was revoked early: it is dropped, and the work is
 * done once more with a new token, in one attempt.
 *
 * @param work makes one call, with the given options
 * @throws errors of the work, and of the call for an installation's token: GitHubInstallationGone for its 404
 */
export async function withAccessToken<T>(
  integration: Integration,
  limits: CallLimits,
  work: (token: string, options: CallOptions) => Promise<T>,
): Promise<T> {
  const optionsNow = optionsWithin(limits)
  const personal = GitHubCredentials.parse(integration.credentialsArray()).token
  if (personal !== undefined) return work(personal, optionsNow())
  const token = await installationToken(integration, optionsNow)
  try {
    return await work(token, optionsNow())
  } catch (error) {
    if (!isRefusal(error)) throw error
    // Another caller may have dropped it already.
    if ((await installationToken(integration, optionsNow)) === token)
      await integration.forgetCachedSecret(secretName(integration))
    const other = await installationToken(integration, optionsNow)
    return work(other, { ...optionsNow(), attempts: 1 })
  }
}

/** Only GitHub's own answer counts: another error may have the status of a host that never got the token. */
function isRefusal(error: unknown): boolean {
  return isIntegrationsError(error, 'http_error') && (error as HttpError).status === UNAUTHORIZED
}

function optionsWithin({ totalMs, ...each }: CallLimits): () => CallOptions {
  if (totalMs === undefined) return () => each
  const endsAt = performance.now() + totalMs
  return () => ({ ...each, timeoutMs: Math.max(1, Math.ceil(endsAt - performance.now())) })
}

/** Only the server that issued a token gets it: after a change of `base_url` another token is needed. */
function secretName(integration: Integration): string {
  const { origin } = repositoryOf(integration)
  const hash = createHash('sha256').update(origin).digest('hex').slice(0, ORIGIN_HASH_LENGTH)
  return `installation_token_${hash}`
}

function installationToken(integration: Integration, optionsNow: () => CallOptions): Promise<string> {
  return integration.cachedSecret(secretName(integration), async () => {
    const { app_id: id, private_key: pem, installation_id: installation } = App.parse(integration.credentialsArray())
    const { endpoint, origin } = repositoryOf(integration)
    const { method, url, headers } = endpoint('POST /app/installations/{installation_id}/access_tokens', {
      installation_id: Number(installation),
    })
    const asked = integration.requestAs(
      InstallationToken,
      `app/installations/${installation}/access_tokens`,
      method,
      async ({ fetch }) =>
        fetch(url, { method, headers: { ...plain(headers), authorization: `Bearer ${await jwtOf(id, pem)}` } }),
      { attempts: ATTEMPTS, ...optionsNow() },
    )
    const answer = await asked.catch((cause: unknown) => {
      // The work would take this 404 for its own: "there is no such issue".
      if (isGone(cause)) throw new GitHubInstallationGone(String(id), Number(installation), origin, { cause })
      throw cause
    })
    return { value: answer.token, expiresAt: new Date(answer.expires_at) }
  })
}

/** Valid for ten minutes by the machine's own clock, not by a host's `clock`: GitHub compares it with real time. */
async function jwtOf(id: string | number, pem: string): Promise<string> {
  const key = rsaKeyOf(pem)
  // The schema has checked it already.
  if (key === null) throw new TypeError('the private key of the GitHub App is no RSA key in PEM')
  const { token } = await githubAppJwt({ id, privateKey: key.export({ type: 'pkcs8', format: 'pem' }).toString() })
  return token
}

/** Null: not an RSA key. Environment variables hold line ends as `\n`. */
function rsaKeyOf(pem: string): KeyObject | null {
  try {
    const key = createPrivateKey(pem.replaceAll('\\n', '\n'))
    return key.asymmetricKeyType === 'rsa' ? key : null
  } catch {
    return null
  }
}

function plain(headers: Readonly<Record<string, string | number | undefined>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
  )
}
