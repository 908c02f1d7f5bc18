/** An Octokit of one integration, without retries of its own: every call goes through `integration.request()`. */
import { Octokit } from '@octokit/rest'
import { z } from 'zod'
import type { Integration } from '../../provider.ts'

/** https://docs.github.com/en/rest/about-the-rest-api/api-versions */
const API_VERSION = '2022-11-28'
/** Bodies as text, HTML and Markdown: https://docs.github.com/en/rest/using-the-rest-api/getting-started-with-the-rest-api#media-types */
const MEDIA_TYPE = 'application/vnd.github.full+json'
/** Each attempt is logged by `request()`; Octokit would write to the process's stderr beside it. */
const SILENT = { debug() {}, info() {}, warn() {}, error() {} }
const DEFAULT_BASE_URL = 'https://api.github.com'

/** `credentials` of a GitHub integration. */
export const GitHubCredentials = z.looseObject({
  /** Personal access token. */
  token: z.string().min(1),
  /** Any text that GitHub and we both know; without one no webhook verifies. */
  webhook_secret: z.string().min(1).optional(),
})

/** Owner and repository as they stand in URLs. */
const PathSegment = z.string().regex(/^[A-Za-z0-9_.-]+$/, 'letters, digits, "_", "-" and "." are allowed')

/** `metadata` of a GitHub integration. */
export const GitHubMetadata = z.looseObject({
  owner: PathSegment,
  repo: PathSegment,
  /** API of an Enterprise server, such as `https://github.example.com/api/v3`; its host then is the only one that gets the token. */
  base_url: z.url({ protocol: /^https?$/ }).optional(),
})

export interface Repository {
  readonly octokit: Octokit
  readonly owner: string
  readonly repo: string
  /** Links to further pages are followed on this origin only: the token goes nowhere else. */
  readonly origin: string
}

/** @param fetch what Octokit sends with; undefined: the platform's */
export function repositoryOf(integration: Integration, fetch?: typeof globalThis.fetch): Repository {
  const { token } = GitHubCredentials.parse(integration.credentialsArray())
  const { owner, repo, base_url: baseUrl = DEFAULT_BASE_URL } = GitHubMetadata.parse(integration.metadata)
  const octokit = new Octokit({ auth: token, baseUrl: baseUrl.replace(/\/+$/, ''), log: SILENT, request: { fetch } })
  octokit.hook.before('request', (options) => {
    options.headers.accept = MEDIA_TYPE
    options.headers['x-github-api-version'] = API_VERSION
  })
  return { octokit, owner, repo, origin: new URL(baseUrl).origin }
}
