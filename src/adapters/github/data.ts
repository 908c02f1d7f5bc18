/**
 * GitHub's answers, as far as this adapter reads them. Unknown keys pass, so that a host sees what GitHub sends.
 *
 * Source: https://docs.github.com/en/rest/issues/issues (API version 2022-11-28).
 */
import { z } from 'zod'
import { attachmentsOf, GitHubAttachment } from './attachments.ts'

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
  body_html: z.string().nullish(),
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
  /** GitHub lists and gives a pull request as an issue with this key. */
  pull_request: z.unknown().optional(),
  attachments: z.array(GitHubAttachment).default([]),
})
export type GitHubIssue = z.infer<typeof GitHubIssue>

export const GitHubComment = z.looseObject({
  id: z.number().int(),
  node_id: z.string(),
  url: z.string(),
  html_url: z.string(),
  issue_url: z.string(),
  body: z
    .string()
    .nullish()
    .transform((body) => body ?? ''),
  body_html: z.string().nullish(),
  /** Null when the account was deleted. */
  user: GitHubUser.nullish(),
  author_association: z
    .string()
    .nullish()
    .transform((association) => association ?? 'NONE'),
  created_at: z.string(),
  updated_at: z.string(),
  attachments: z.array(GitHubAttachment).default([]),
})
export type GitHubComment = z.infer<typeof GitHubComment>

/** A comment as GitHub sent it. */
export const GitHubRawComment = z.record(z.string(), z.unknown())
export type GitHubRawComment = z.infer<typeof GitHubRawComment>

/**
 * An answer of GitHub's. `original` is the object as GitHub sent it, without our attachments and defaults. It is not enumerable:
 * copies and JSON leave it out, so an item of a sync does not store it twice.
 */
export type WithOriginal<T> = T & { readonly original: Readonly<Record<string, unknown>> }

/** An issue as GitHub answers it, with what its HTML shows. */
export const AnsweredIssue = z.preprocess(
  besideItself,
  GitHubIssue.transform((issue) => withOriginal({ ...issue, attachments: attachmentsOf(issue) })),
)
export const AnsweredComment = z.preprocess(
  besideItself,
  GitHubComment.transform((comment) => withOriginal({ ...comment, attachments: attachmentsOf(comment) })),
)

/** The schemas pass unknown keys, so what was sent reaches the transform under this one. */
function besideItself(sent: unknown): unknown {
  return typeof sent === 'object' && sent !== null && !Array.isArray(sent) ? { ...sent, original: sent } : sent
}

function withOriginal<T extends object>(answer: T): WithOriginal<T> {
  return Object.defineProperty(answer, 'original', { enumerable: false }) as WithOriginal<T>
}
