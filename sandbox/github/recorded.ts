import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

/** One recorded exchange with the GitHub API, as `@octokit/fixtures` keeps it. */
interface Exchange {
  method: string
  path: string
  status: number
  response: unknown
  headers: Record<string, string | number>
}

export type Answer = Record<string, unknown>

const resolve = createRequire(import.meta.url).resolve

function recording(scenario: string): Exchange[] {
  const file = resolve(`@octokit/fixtures/scenarios/api.github.com/${scenario}/normalized-fixture.json`)
  return JSON.parse(readFileSync(file, 'utf8')) as Exchange[]
}

function exchange(scenario: string, index: number): Exchange {
  const found = recording(scenario)[index]
  if (found === undefined) throw new Error(`@octokit/fixtures: the scenario ${scenario} has no exchange ${index}`)
  return found
}

const list = exchange('paginate-issues', 0)

/** An entry of `GET /repos/{owner}/{repo}/issues`. */
export const recordedIssue = (list.response as [Answer])[0]
export const recordedUser = recordedIssue.user as Answer
/** The answer to `POST /repos/{owner}/{repo}/issues`: a single issue also says who closed it. */
export const recordedSingleIssue = exchange('add-labels-to-issue', 0).response as Answer
export const recordedLabel = (exchange('add-labels-to-issue', 1).response as [Answer])[0]
export const recordedRepository = exchange('get-repository', 0).response as Answer
export const recordedOwner = recordedRepository.owner as Answer
export const recordedValidationError = exchange('errors', 0).response as Answer
/** The `Link` headers of the five pages of the `paginate-issues` scenario. */
export const recordedLinks = recording('paginate-issues').map((page) => String(page.headers.link))

// These belong to one connection, body or caller; the server computes them.
const COMPUTED_HEADER =
  /^(connection|content-length|content-type|date|etag|link|location|last-modified|x-ratelimit-.*|x-github-(request-id|media-type))$/

/** The headers that were the same on each recorded answer: CORS, security, scopes. */
export const recordedHeaders: Record<string, string> = Object.fromEntries(
  Object.entries(list.headers)
    .filter(([name]) => !COMPUTED_HEADER.test(name))
    .map(([name, value]) => [name, String(value)]),
)
