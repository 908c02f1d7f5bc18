/**
 * The token that a call is made with: a person's, or that of a GitHub App's installation.
 *
 * Rule: docs/behaviour/github.md, "Credentials". Source: https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app
 */
import type { KeyObject } from 'node:crypto'
import { createPrivateKey } from 'node:crypto'
import githubAppJwt from 'universal-github-app-jwt'
import { z } from 'zod'
import type { Integration } from '../../provider.ts'
import { statusOf } from '../../provider.ts'
import { repositoryOf } from './repository.ts'

const SECRET_NAME = 'installation_token'
/** A token that nobody uses does no harm, so the call for one is repeated as a read is. */
const ATTEMPTS = 3

/** Of a command line everything is text. */
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
    /** Any text that GitHub and we both know; without one no webhook verifies. */
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

/** @throws what the call for an installation's token throws */
export async function accessTokenOf(integration: Integration): Promise<string> {
  return personalTokenOf(integration) ?? installationToken(integration)
}

/**
 * Does the work with the integration's token. An installation's token that is refused was revoked before its time: it is
 * dropped, and the work done once more with another.
 */
export async function withAccessToken<T>(integration: Integration, work: (token: string) => Promise<T>): Promise<T> {
  const token = await accessTokenOf(integration)
  try {
    return await work(token)
  } catch (error) {
    if (statusOf(error) !== 401 || personalTokenOf(integration) !== null) throw error
    // Somebody else may have dropped it already.
    if ((await accessTokenOf(integration)) === token) await integration.forgetCachedSecret(SECRET_NAME)
    return work(await accessTokenOf(integration))
  }
}

function personalTokenOf(integration: Integration): string | null {
  return GitHubCredentials.parse(integration.credentialsArray()).token ?? null
}

function installationToken(integration: Integration): Promise<string> {
  return integration.cachedSecret(SECRET_NAME, async () => {
    const { app_id: id, private_key: pem, installation_id: installation } = App.parse(integration.credentialsArray())
    const { endpoint } = repositoryOf(integration)
    const { method, url, headers } = endpoint('POST /app/installations/{installation_id}/access_tokens', {
      installation_id: Number(installation),
    })
    const answer = await integration.requestAs(
      InstallationToken,
      `app/installations/${installation}/access_tokens`,
      method,
      async ({ fetch }) =>
        fetch(url, { method, headers: { ...plain(headers), authorization: `Bearer ${await jwtOf(id, pem)}` } }),
      { attempts: ATTEMPTS },
    )
    return { value: answer.token, expiresAt: new Date(answer.expires_at) }
  })
}

/** Good for ten minutes by the machine's own clock: GitHub judges it by its own, whatever a host's `clock` says. */
async function jwtOf(id: string | number, pem: string): Promise<string> {
  const key = rsaKeyOf(pem)
  // The schema has seen that it is one.
  if (key === null) throw new TypeError('the private key of the GitHub App is no RSA key in PEM')
  const { token } = await githubAppJwt({ id, privateKey: key.export({ type: 'pkcs8', format: 'pem' }).toString() })
  return token
}

/** Null: none. Environment variables hold line ends as `\n`. */
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
