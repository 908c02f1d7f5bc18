/** The repository of an integration, and its requests as GitHub's published description types them. */
import { Octokit } from '@octokit/rest'
import { z } from 'zod'
import type { Integration } from '../../provider.ts'

/** https://docs.github.com/en/rest/about-the-rest-api/api-versions */
const API_VERSION = '2022-11-28'
/** Bodies as text, HTML and Markdown: https://docs.github.com/en/rest/using-the-rest-api/getting-started-with-the-rest-api#media-types */
const MEDIA_TYPE = 'application/vnd.github.full+json'
const DEFAULT_BASE_URL = 'https://api.github.com'

/** Owner and repository as in URLs. "." and ".." would be steps in the path: RFC 3986, 5.2.4. */
const PathSegment = z
  .string()
  .regex(/^(?!\.{1,2}$)[A-Za-z0-9_.-]+$/, 'letters, digits, "_", "-" and "." are allowed, but neither "." nor ".."')

/** Paths are appended, so it must not have a query or a fragment. User info would be another credential. */
const BaseUrl = z
  .url({ protocol: /^https?$/ })
  .regex(/^[^?#@\\]*$/, 'scheme, host, port and path are allowed, without user info, query and fragment')

/** `metadata` of a GitHub integration. */
export const GitHubMetadata = z.looseObject({
  owner: PathSegment,
  repo: PathSegment,
  /** API of an Enterprise server, such as `https://github.example.com/api/v3`. Then only its host gets the token. */
  base_url: BaseUrl.optional(),
  /** Which events a registered webhook delivers, such as `issues`; default: all. */
  webhook_events: z
    .array(z.string().regex(/^([a-z_]+|\*)$/, 'names of GitHub’s events are allowed'))
    .min(1)
    .optional(),
  /** Id of the repository's webhook, needed for reconciliation. Text from a command line. */
  hook_id: z.union([z.number().int().positive(), z.string().regex(/^[1-9]\d{0,15}$/, 'digits are allowed')]).optional(),
})

/**
 * Only Octokit's typed routes are used: `endpoint('GET /user', {})` gives method, URL, headers and body. Octokit itself would wrap
 * errors (a refused address as a status 500), and treat an interrupted body as an empty one.
 */
const endpoint: Octokit['request']['endpoint'] = new Octokit().request.endpoint

export interface Repository {
  readonly integration: Integration
  readonly owner: string
  readonly repo: string
  /** `repos/{owner}/{repo}`: prefix of its endpoints in the request log. */
  readonly path: string
  /** Links to further pages are followed on this origin only: the token goes nowhere else. */
  readonly origin: string
  /** Prepares a request of Octokit's routes, without the token. */
  readonly endpoint: typeof endpoint
}

export function repositoryOf(integration: Integration): Repository {
  const { owner, repo, base_url: baseUrl = DEFAULT_BASE_URL } = GitHubMetadata.parse(integration.metadata)
  return {
    integration,
    owner,
    repo,
    path: `repos/${owner}/${repo}`,
    origin: new URL(baseUrl).origin,
    endpoint: endpoint.defaults({
      baseUrl: baseUrl.replace(/\/+$/, ''),
      headers: { accept: MEDIA_TYPE, 'x-github-api-version': API_VERSION },
    }),
  }
}
