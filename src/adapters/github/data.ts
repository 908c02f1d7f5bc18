/**
 * GitHub's answers, as far as this adapter reads them. Unknown keys pass, so that a host sees what GitHub sends.
 *
 * Source: https://docs.github.com/en/rest/issues/issues (API version 2022-11-28).
 */
import { z } from 'zod'

export const GitHubUser = z.looseObject({
  id: z.number().int(),
  login: z.string(),
  node_id: z.string(),
  avatar_url: z.string(),
  url: z.string(),
  html_url: z.string(),
  type: z.string(),
  site_admin: z.boolean(),
  name: z.string().nullish(),
  email: z.string().nullish(),
})
export type GitHubUser = z.infer<typeof GitHubUser>

/** A label may be a bare name in old answers. */
const GitHubLabel = z.union([z.string(), z.looseObject({ name: z.string().nullish() })])

export const GitHubIssue = z.looseObject({
  id: z.number().int(),
  number: z.number().int(),
  node_id: z.string(),
  url: z.string(),
  html_url: z.string(),
  title: z.string(),
  body: z.string().nullish(),
  state: z.string(),
  state_reason: z.string().nullish(),
  /** Null when the account was deleted. */
  user: GitHubUser.nullish(),
  labels: z.array(GitHubLabel),
  assignees: z.array(GitHubUser).nullish(),
  comments: z.number().int(),
  locked: z.boolean(),
  created_at: z.string(),
  updated_at: z.string(),
  closed_at: z.string().nullish(),
})
export type GitHubIssue = z.infer<typeof GitHubIssue>

/** An entry of the issues list: an issue, or a pull request, which GitHub lists as an issue with this key. */
export const IssueListEntry = GitHubIssue.extend({ pull_request: z.unknown().optional() })
export type IssueListEntry = z.infer<typeof IssueListEntry>
