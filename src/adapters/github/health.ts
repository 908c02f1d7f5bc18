/** Whether the repository can be read with the integration's credentials. Rule: docs/behaviour/github.md, "Health". */
import type { RestEndpointMethodTypes } from '@octokit/rest'
import { z } from 'zod'
import type { Integration } from '../../provider.ts'
import { callGitHub } from './call.ts'
import { repositoryOf } from './repository.ts'

/** With the calls for a token of an App's installation. */
const TOTAL_MS = 10_000

/** A login page or a cached 304 is no sign of GitHub's health. */
const Answer = z.looseObject({ id: z.number(), name: z.string() })

/** One try of each call that it takes. Why it is not healthy is in the request's row. */
export async function isHealthy(integration: Integration): Promise<boolean> {
  try {
    const repository = repositoryOf(integration)
    const { owner, repo, path, endpoint } = repository
    const request = endpoint('GET /repos/{owner}/{repo}', {
      owner,
      repo,
    } satisfies RestEndpointMethodTypes['repos']['get']['parameters'])
    await callGitHub(repository, Answer, { endpoint: path, request, totalMs: TOTAL_MS, attempts: 1 })
    return true
  } catch {
    return false
  }
}
