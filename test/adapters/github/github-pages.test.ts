/** Pages of GitHub to which the dashboard links. Rule: docs/behaviour/github.md, "Pages". */
import { expect, it } from 'vitest'
import { pageOf } from '../../../src/adapters/github/github-pages.ts'
import type { Json } from '../../../src/framework/json.ts'
import type { Integration } from '../../../src/providers/integration.ts'

const ISSUE = 'https://github.com/octo/widgets/issues/17'
const COMMENT = `${ISSUE}#issuecomment-1`

function page(payload: Json, metadata: object = { owner: 'octo', repo: 'widgets' }): string | null {
  const record = { kind: 'item', type: null, externalId: null, payload } as const
  return pageOf({ metadata } as unknown as Integration, record)
}

it.each([
  ['an issue', { html_url: ISSUE }, ISSUE],
  [
    'a delivery about an issue',
    { issue: { html_url: ISSUE }, repository: { html_url: 'https://github.com/octo/widgets' } },
    ISSUE,
  ],
  ['a delivery about a comment', { comment: { html_url: COMMENT }, issue: { html_url: ISSUE } }, COMMENT],
  ['a ping', { repository: { html_url: 'https://github.com/octo/widgets' } }, 'https://github.com/octo/widgets'],
  ['nothing of it', { zen: 'Keep it logically awesome.' }, null],
  ['another server', { html_url: 'https://evil.example/octo' }, null],
  ['no address', { html_url: 'none' }, null],
  ['an erased payload', null, null],
])('of %s', (_, payload, expected) => {
  expect(page(payload)).toBe(expected)
})

it("is on the integration's own server", () => {
  const metadata = { owner: 'octo', repo: 'widgets', base_url: 'https://github.acme.example/api/v3' }
  expect(page({ html_url: 'https://github.acme.example/octo/widgets/issues/1' }, metadata)).not.toBeNull()
  expect(page({ html_url: ISSUE }, metadata)).toBeNull()
})
